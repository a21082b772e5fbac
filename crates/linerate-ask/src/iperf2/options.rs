//! Words of the command line, as letters with values.

/// Letter, long name, and whether it has a value.
const OPTIONS: &[(char, &str, bool)] = &[
    ('c', "client", true),
    ('s', "server", false),
    ('u', "udp", false),
    ('b', "bandwidth", true),
    ('t', "time", true),
    ('n', "num", true),
    ('i', "interval", true),
    ('l', "len", true),
    ('P', "parallel", true),
    ('p', "port", true),
    ('w', "window", true),
    ('B', "bind", true),
    ('R', "reverse", false),
    ('f', "format", true),
    ('e', "enhanced", false),
    ('y', "reportstyle", true),
    ('M', "mss", true),
    ('N', "nodelay", false),
    ('Z', "linux-congestion", true),
    ('S', "tos", true),
    ('d', "dualtest", false),
    ('r', "tradeoff", false),
    // No letter of theirs: the same word's.
    ('d', "full-duplex", false),
    ('D', "daemon", false),
    ('1', "singleclient", false),
    ('V', "ipv6_domain", false),
    ('4', "ipv4_domain", false),
    ('X', "peer-detect", false),
    ('h', "help", false),
    ('v', "version", false),
];

/// What is not done, and what is instead.
const REFUSED: &[(&str, &str)] = &[
    ("bounceback", "`linerate rr HOST` against `linerate serve`"),
    ("isochronous", "frames are not sent by this client"),
    ("trip-times", "`linerate udp HOST` against `linerate serve` measures delay without it"),
];

/// Options as their letters, with their values.
pub(super) fn options(args: &[String]) -> Result<Vec<(char, String)>, String> {
    let (mut found, mut args) = (Vec::new(), args.iter());
    while let Some(arg) = args.next() {
        if let Some(long) = arg.strip_prefix("--") {
            let (name, joined) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                return Err(format!("--{name} cannot be used here: {instead}"));
            }
            let Some((letter, _, valued)) = OPTIONS.iter().find(|row| row.1 == name) else {
                return Err(format!("unrecognized option `--{name}'"));
            };
            let value = match (valued, joined) {
                (false, None) => String::new(),
                (false, Some(_)) => return Err(format!("option `--{name}' takes no value")),
                (true, joined) => match joined.or_else(|| args.next().map(String::as_str)) {
                    Some(value) => value.to_owned(),
                    None => return Err(format!("option `--{name}' requires an argument")),
                },
            };
            found.push((*letter, value));
            continue;
        }
        let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(format!("extra argument -- {arg}"));
        };
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let Some((_, _, valued)) = OPTIONS.iter().find(|row| row.0 == letter) else {
                return Err(format!("invalid option -- {letter}"));
            };
            let mut value = String::new();
            if *valued {
                value = std::mem::replace(&mut rest, "".chars()).collect();
                if value.is_empty() {
                    let Some(next) = args.next() else {
                        return Err(format!("option requires an argument -- {letter}"));
                    };
                    value.clone_from(next);
                }
            }
            found.push((letter, value));
        }
    }
    Ok(found)
}

/// What `-h` shows.
pub const HELP: &str = "Usage: iperf -s|-c HOST [options]

iperf 2's command line and output, run by linerate. Small letters behind numbers are of 1000, large ones of 1024.

Either end:
  -p N  port (5001)             -u  UDP instead of TCP     -B ADDRESS  local address   -4, -V  IPv4, IPv6
  -i SECONDS  intervals         -f b|k|m|g|B|K|M|G  unit   -e  more columns            -y C  CSV
Client:
  -c HOST  server               -t SECONDS (10)            -n N[kmgKMG]  bytes instead
  -b N[kmgKMG]  bit/s of each stream (UDP: 1M; 0: no limit)  -l N[kmKM]  bytes of a datagram or write
  -P N  streams                 -R  the server sends       -w N[kmKM]  socket buffers  -S N  type of service
  -M N  MSS   -N  no delay      -Z NAME  congestion control  -X
  -d, --full-duplex  both ways at once, over connections of their own      -r  one way, then the other
Server, for TCP and UDP at once. Clients prove nothing, all is clear text; UDP is received and never sent, as nobody
has proven an address. More: `linerate serve --iperf2`.
  -s                            -D  in the background      -1  one test at a time      -P 1  ends after its first test
Refused, with what there is instead: --bounceback, --isochronous, --trip-times.
  -v, -h
";
