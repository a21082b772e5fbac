//! What `-h` shows.

/// Of the client.
pub const HELP: &str = "Usage: netperf [global options] -- [test options]

netperf's command line and output, run by linerate. Two values are joined by a comma. Small letters behind sizes are of
1000, large ones of 1024.

Global:
  -H HOST[,FAMILY]  server (localhost)    -p N  port (12865)      -L ADDRESS[,FAMILY]  local address   -4, -6
  -t NAME  TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, UDP_STREAM, TCP_RR, UDP_RR, TCP_CRR, TCP_CC, omni
  -l N  seconds (10); below 0 bytes or transactions; 0: until a signal      -s N  seconds before the test
  -D SECONDS  interim results             -P 0  no headers        -v 0|1|2  verbosity      -f G|M|K|g|m|k|x|u  unit
  -b N -w TIME  of a stream: so many sends at once, so often (1 ms)
  -I 95|99[,WIDTH]  -i MAX,MIN  -r  repeats until the mean is that certain (-r: without the CPU)
  -c, -C  CPU here, at the server         -T HERE,THERE  cores    -Y HERE,THERE  type of service    -B TEXT  with -P 0
  --json  linerate's record of each run in place of columns
Of the test:
  -m HERE,THERE  bytes of a send call     -M THERE,HERE  bytes of a receive call    -r REQUEST,RESPONSE  bytes
  -s, -S SEND,RECEIVE  socket buffers here, there                 -P HERE,THERE  data ports
  -D  no delay    -K HERE,THERE  congestion control               -b N  requests in flight beyond one
  -G N  bytes of a segment                -q N  bytes a second at most    -c  a connection for each transaction (omni)
  -d send|recv|rr|cc, -T tcp|udp  of omni                         -u TEXT  what the figure UUID says
  -O, -o, -k [NAMES|FILE|all|?]  named figures in columns, as CSV, as KEY=value
Taken and of no effect: -a, -A, -d, -F, -j, -k, -K, -n, -o, -O, -S, -W and of the test -a, -B, -C, -e, -f, -F, -g, -i,
-I, -j, -n, -N, -p, -R, -U, -V, -w, -W. What is sent does not compress; a file for TCP_SENDFILE is not read, and no
server of linerate's opens one.

  netperf -H HOST -t TCP_STREAM -l 30                           netperf -H HOST -t TCP_RR -- -r 100,200
  netperf -H HOST -t UDP_STREAM -- -m 1472                      netperf -H HOST -t TCP_CRR -P 0 -v 0
  netperf -H HOST -t TCP_MAERTS -c -C -I 95,5 -i 10,3           netperf -H HOST -D 1 -- -k THROUGHPUT,MEAN_LATENCY
";

/// Of the server.
pub const SERVER_HELP: &str = "Usage: netserver [options]

A server for netperf's clients, run by linerate. Clients prove nothing, all is clear text. More: `linerate serve --netperf`.
  -p N  port (12865)      -L ADDRESS[,FAMILY]  listens there alone       -4, -6
  -D  stays in the foreground                  -f  one test at a time    -h, -V
Taken and of no effect: -d, -n, -N, -v.

  netserver               netserver -D -p 12000 -L 192.0.2.1
";
