//! Words of the command line, as letters with values.

use crate::getopt::{self, Fault, Row, Takes};

/// In place of a letter, which it has none of.
pub(super) const TRIP_TIMES: char = '\u{1}';

/// Each with what there is instead, where it is not done.
const OPTIONS: &[Row<&str>] = {
    use Takes::{Maybe, Nothing, Value};
    &[
        ('c', "client", Value, ""),
        ('s', "server", Nothing, ""),
        ('u', "udp", Nothing, ""),
        ('b', "bandwidth", Value, ""),
        ('t', "time", Value, ""),
        ('n', "num", Value, ""),
        ('i', "interval", Value, ""),
        ('l', "len", Value, ""),
        ('P', "parallel", Value, ""),
        ('p', "port", Value, ""),
        ('w', "window", Value, ""),
        ('B', "bind", Value, ""),
        ('R', "reverse", Nothing, ""),
        ('f', "format", Value, ""),
        ('e', "enhanced", Nothing, ""),
        // As it was called until 2.0.14.
        ('e', "enhancedreports", Nothing, ""),
        ('y', "reportstyle", Value, ""),
        ('M', "mss", Value, ""),
        ('N', "nodelay", Nothing, ""),
        ('Z', "linux-congestion", Value, ""),
        ('S', "tos", Value, ""),
        ('L', "listenport", Value, ""),
        ('d', "dualtest", Nothing, ""),
        ('r', "tradeoff", Nothing, ""),
        // No letter of theirs: the same word's.
        ('d', "full-duplex", Nothing, ""),
        ('D', "daemon", Nothing, ""),
        ('1', "singleclient", Nothing, ""),
        ('V', "ipv6_domain", Nothing, ""),
        ('4', "ipv4_domain", Nothing, ""),
        ('X', "peer-detect", Nothing, ""),
        // Of linerate alone.
        ('J', "json", Nothing, ""),
        ('h', "help", Nothing, ""),
        ('v', "version", Nothing, ""),
        ('\0', "bounceback", Maybe, "`linerate rr HOST` against `linerate serve`"),
        ('\0', "isochronous", Maybe, "frames are not sent by this client"),
        (TRIP_TIMES, "trip-times", Nothing, ""),
    ]
};

/// Options as their letters, with their values.
pub(super) fn options(args: &[String]) -> Result<Vec<(char, String)>, String> {
    let found = getopt::options(args, OPTIONS).map_err(|fault| match fault {
        Fault::Word(word) => format!("extra argument -- {word}"),
        Fault::Option(text) => text,
    })?;
    let taken = found.into_iter().map(|(&(letter, name, _, instead), value)| {
        if instead.is_empty() {
            return Ok((letter, value.unwrap_or_default()));
        }
        Err(format!("--{name} cannot be used here: {instead}"))
    });
    taken.collect()
}

/// What `-h` shows.
pub const HELP: &str = "Usage: iperf -s|-c HOST [options]

iperf 2's command line and output, run by linerate. Small letters behind numbers are of 1000, large ones of 1024.

Either end:
  -p N  port (5001)             -u  UDP instead of TCP     -B ADDRESS  local address   -4, -V  IPv4, IPv6
  -i SECONDS  intervals         -f b|k|m|g|A|B|K|M|G  unit   -e, --enhancedreports  more  -y C  CSV
  -w N[kmKM]  socket buffers    -S N|NAME  type of service (ef, cs1, af11, le, ac_vi, lowdelay)
  -M N  MSS   -N  no delay      -Z NAME  congestion control
Client:
  -c HOST  server               -t SECONDS (10)            -n N[kmgKMG]  bytes instead
  -b N[kmgKMG]  bit/s of each stream (UDP: 1M; 0: no limit), or with -u datagrams a second: -b 1000pps
  -l N[kmKM]  bytes of a datagram (1470, IPv6 1450) or write  -P N  streams    -R  the server sends    -X
  -d, --full-duplex  both ways at once, over connections of their own      -r  one way, then the other
  --trip-times  says that both hosts' clocks agree: who receives shows delays by them, on the lines of -e
  --json  linerate's record of each test in place of lines
Server, for TCP and UDP at once. Clients prove nothing, all is clear text; UDP is received and never sent, as nobody
has proven an address. More: `linerate serve --iperf2`.
  -s                            -D  in the background      -1  one test at a time      -P 1  ends after its first test
  -t SECONDS  ends then
Taken and of no effect: -L, and of a server -l and -b.
Refused, with what there is instead: --bounceback, --isochronous.
  -v, -h

  iperf -s -w 1M                iperf -c HOST -u -b 1000pps -l 64 -S ef          iperf -c HOST -P 4 --json
";
