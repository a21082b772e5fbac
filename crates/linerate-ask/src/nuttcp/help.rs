//! What `-h` shows.

/// Of client and server.
pub const HELP: &str = "Usage: nuttcp [-t|-r] [options] HOST      nuttcp -S|-1 [options]

nuttcp's command line and output, run by linerate. Values are joined to their letter (-T30) or, where that is a number
or a name, the next word (-T 30).

Client:
  -t, -r     sends (unless said otherwise), receives      -u          UDP; -uu as fast as the host can
  -T N[m|h|d]  seconds (10)                               -n N[b|k|m|g|t|p] buffers, or bytes
  -l N[k|m]  bytes of a write (64k) or datagram (1024)    -N N        streams, at ports one after the other
  -w N[b|m|g]  socket buffers of both ends in KB          -ws N       of the server
  -R N[m|g|p|kp|mp]  kbit/s or datagrams a second (UDP: 1m), -RiN[/BURST] the same, -Ru none
  -p N       data port (5101)                             -P N        control port (5000)
  -i N[m]    intervals of so many seconds                 -xc N[/N]   core of this end, of the server
  -c N[t|p]  DSCP (t: the byte, p: precedence)  -M N  MSS -D          no delay           -4, -6
  -b, -v, -vv  brief, verbose, very verbose               -I NAME     stands before each line
  -f parse, xmitstats, runningtotal, -drops, -percentloss, -retrans, -cwnd, -rtt, rtt (joined: -fparse)
  --json     linerate's record in place of lines
Server:
  -S         until it is ended           -1  one test, and no more
  --nofork   stays in the foreground and serves one test at a time; otherwise it leaves the screen
  -P N       control port (5000)         -4
Taken, as -w0: -wr N. Taken and of no effect: -B, -f-beta, --no3rdparty, --disable-v4-mapped, --enable-v4-mapped.

  nuttcp -S                                nuttcp -T30 --json HOST
  nuttcp -w65536b -n1t HOST                nuttcp -u -Ri500m -l1400 -i1 HOST
  nuttcp -T30 -i1 HOST                     nuttcp -u -r -R100m -l1400 -fparse HOST
  nuttcp -r -N4 -w4m HOST                  nuttcp -v -xc2 -n1g HOST
";
