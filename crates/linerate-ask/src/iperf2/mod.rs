//! The command line of iperf 2: its most used options, as a request or as a server's settings.

mod options;

use std::net::{IpAddr, Ipv4Addr};

use linerate_model::limits;
use linerate_model::plan::{
    Dialect, Direction, End, IpVersion, TcpPlan, TestPlan, Traffic, UdpPlan,
};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_runner::client::{Request, Target};

pub use self::options::HELP;
use self::options::options;

/// Of UDP where no rate is named: a binary megabit.
const UDP_RATE: f64 = 1_048_576.0;
/// Of UDP where no length is named.
const UDP_BYTES: u32 = 1_470;
/// Of TCP.
const BLOCK_BYTES: u32 = 128 << 10;
const SECOND_NS: f64 = 1e9;

/// Why a command line is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// `-h`.
    Help,
    /// `-v`.
    Version,
    /// In iperf 2's words, where it has any.
    Wrong(String),
}

/// A command line, understood.
#[derive(Debug, Clone)]
pub struct Line {
    /// What runs.
    pub role: Role,
    /// The way back as well.
    pub back: Option<Back>,
    /// Options that mean nothing there, in iperf 2's words.
    pub notes: Vec<String>,
    /// `-y C`.
    pub csv: bool,
    /// `-e`.
    pub enhanced: bool,
    /// `-f`: one of bkmgBKMG; none lets each figure have its own unit.
    pub format: Option<char>,
    /// Intervals are shown (`-i`).
    pub intervals: bool,
}

/// When a client has the server send, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// `-r`.
    After,
    /// `-d` and `--full-duplex`.
    Beside,
}

/// Which end.
#[derive(Debug, Clone)]
pub enum Role {
    /// `-c`.
    Client(Box<Request>),
    /// `-s`.
    Server(Server),
}

/// A server's own options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `-p`.
    pub port: u16,
    /// `-B`; otherwise all addresses, with `-4` of IPv4 alone.
    pub bind: Option<IpAddr>,
    /// `-u`: which of both is said to listen; the other does as well.
    pub udp: bool,
    /// `-D`.
    pub daemon: bool,
    /// `-1`.
    pub one_at_a_time: bool,
    /// `-P 1`: ends after its first test.
    pub one_off: bool,
    /// `-i`.
    pub interval: Option<Nanos>,
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// Why it is not run.
pub fn parse(args: &[String]) -> Result<Line, Stop> {
    let mut line = Asked::default();
    for (letter, value) in options(args).map_err(Stop::Wrong)? {
        line.take(letter, &value)?;
    }
    line.line().map_err(Stop::Wrong)
}

/// Of these a server makes nothing, …
const CLIENTS_ONLY: &str = "btnlwRdrMNZSX";
/// … and of these a client.
const SERVERS_ONLY: &str = "D1";

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * SECOND_NS) as u64)
}

/// What was said so far.
#[derive(Default)]
struct Asked {
    host: Option<String>,
    server: bool,
    daemon: bool,
    one_at_a_time: bool,
    /// In the order of the command line.
    given: Vec<char>,
    udp: bool,
    rate: Option<f64>,
    time_s: Option<f64>,
    bytes: Option<u64>,
    interval_s: Option<f64>,
    length: Option<u32>,
    streams: Option<u16>,
    port: Option<u16>,
    window: Option<u32>,
    bind: Option<IpAddr>,
    reverse: bool,
    back: Option<Back>,
    format: Option<char>,
    enhanced: bool,
    csv: bool,
    mss: Option<u32>,
    nodelay: bool,
    congestion: Option<String>,
    tos: u8,
    ip: Option<IpVersion>,
}

/// A number with a letter behind it: small ones are of 1000, large ones of 1024.
fn scaled(text: &str) -> Option<f64> {
    let factor = |letter: char| match letter {
        'k' => Some(1e3),
        'm' => Some(1e6),
        'g' => Some(1e9),
        't' => Some(1e12),
        'K' => Some(1_024f64),
        'M' => Some(1_024f64.powi(2)),
        'G' => Some(1_024f64.powi(3)),
        'T' => Some(1_024f64.powi(4)),
        _ => None,
    };
    let last = text.chars().next_back()?;
    let (number, factor) = match factor(last) {
        Some(factor) => (text.strip_suffix(last)?, factor),
        None => (text, 1.0),
    };
    let value = number.parse::<f64>().ok()? * factor;
    (0.0..1e18).contains(&value).then_some(value)
}

impl Asked {
    fn take(&mut self, letter: char, text: &str) -> Result<(), Stop> {
        let wrong = || Stop::Wrong(format!("invalid value of -{letter}: {text}"));
        let number = || scaled(text).ok_or_else(wrong);
        let small = || number().and_then(|n| u32::try_from(n as u64).map_err(|_| wrong()));
        self.given.push(letter);
        match letter {
            's' => self.server = true,
            'D' => self.daemon = true,
            '1' => self.one_at_a_time = true,
            'c' => self.host = Some(text.to_owned()),
            'u' => self.udp = true,
            'b' => self.rate = Some(number()?),
            't' => self.time_s = Some(text.parse().ok().filter(|s| *s > 0.0).ok_or_else(wrong)?),
            'n' => self.bytes = Some(number()? as u64),
            'i' => {
                self.interval_s = Some(text.parse().ok().filter(|s| *s >= 0.0).ok_or_else(wrong)?)
            }
            'l' => self.length = Some(small()?),
            'P' => self.streams = Some(text.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?),
            'p' => self.port = Some(text.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?),
            'w' => self.window = Some(small()?),
            'B' => self.bind = Some(text.parse().map_err(|_| wrong())?),
            'R' => self.reverse = true,
            'r' => self.back = Some(Back::After),
            'd' => self.back = Some(Back::Beside),
            'f' => {
                let letter = text.chars().next().filter(|c| "abkmgABKMG".contains(*c));
                self.format = Some(letter.ok_or_else(wrong)?).filter(|c| !"aA".contains(*c));
            }
            'e' => self.enhanced = true,
            'y' if text.eq_ignore_ascii_case("c") => self.csv = true,
            'M' => self.mss = Some(small()?),
            'N' => self.nodelay = true,
            'Z' => self.congestion = Some(text.to_owned()),
            'S' => {
                let hex = text.strip_prefix("0x").map(|hex| u8::from_str_radix(hex, 16).ok());
                self.tos = hex.unwrap_or_else(|| text.parse().ok()).ok_or_else(wrong)?;
            }
            'V' => self.ip = Some(IpVersion::V6),
            '4' => self.ip = Some(IpVersion::V4),
            'h' => return Err(Stop::Help),
            'v' => return Err(Stop::Version),
            // Whoever sends over TCP waits for the server's word in any case.
            'X' => {}
            _ => return Err(wrong()),
        }
        Ok(())
    }

    fn line(self) -> Result<Line, String> {
        let nowhere = if self.server { CLIENTS_ONLY } else { SERVERS_ONLY };
        let mode = if self.server { "server" } else { "client" };
        let idle = self.given.iter().filter(|letter| nowhere.contains(**letter));
        let notes =
            idle.map(|letter| format!("WARNING: option -{letter} is not valid for {mode} mode"));
        let notes = notes.collect();
        let role = match (&self.host, self.server) {
            (Some(_), true) => return Err("-c and -s: this is a client or a server".into()),
            (None, false) => return Err("-c HOST for a client, or -s for a server".into()),
            (Some(_), false) if self.reverse && self.back.is_some() => {
                return Err("-R is one way, and -d, -r and --full-duplex are both".into());
            }
            (None, true) => Role::Server(self.serve()?),
            (Some(host), false) => Role::Client(Box::new(self.request(host)?)),
        };
        let intervals = self.interval_s.is_some_and(|interval| interval > 0.0);
        let Self { csv, enhanced, format, back, .. } = self;
        Ok(Line { role, back, notes, csv, enhanced, format, intervals })
    }

    fn request(&self, host: &str) -> Result<Request, String> {
        let port = self.port.unwrap_or(Dialect::Iperf2.port());
        Ok(Request {
            ip: self.ip,
            bind: self.bind,
            dialect: Some(Dialect::Iperf2),
            ..Request::new(Target::Host { name: host.to_owned(), port }, self.plan()?)
        })
    }

    fn serve(&self) -> Result<Server, String> {
        let one_off = match self.streams {
            None => false,
            Some(1) => true,
            Some(_) => return Err("-P of a server: it ends after one test (-P 1), or never".into()),
        };
        let any = (self.ip == Some(IpVersion::V4)).then_some(Ipv4Addr::UNSPECIFIED.into());
        Ok(Server {
            port: self.port.unwrap_or(Dialect::Iperf2.port()),
            bind: self.bind.or(any),
            udp: self.udp,
            daemon: self.daemon,
            one_at_a_time: self.one_at_a_time,
            one_off,
            interval: self.interval(),
        })
    }

    /// Between lines, where there are to be several.
    fn interval(&self) -> Option<Nanos> {
        let (least, most) = (limits::INTERVAL_NS.min, limits::INTERVAL_NS.max);
        let asked = self.interval_s.filter(|seconds| *seconds > 0.0).map(nanos)?;
        Some(Nanos(asked.0.clamp(least, most)))
    }

    fn plan(&self) -> Result<TestPlan, String> {
        let streams = self.streams.unwrap_or(1);
        // Of each stream; 0 is as fast as it goes.
        let each = self.rate.unwrap_or(if self.udp { UDP_RATE } else { 0.0 });
        let rate = BitRate::new((each * f64::from(streams)) as u64);
        let traffic = if self.udp {
            let bytes = self.length.unwrap_or(UDP_BYTES);
            let size = DatagramSize::new(bytes);
            let size = size.ok_or_else(|| format!("datagrams of {bytes} bytes do not exist"))?;
            let (rate, burst) = (rate.map(Rate::Bits), Nanos(100_000));
            Traffic::Udp(UdpPlan { rate, burst, ..UdpPlan::new(size) })
        } else {
            Traffic::Tcp(TcpPlan {
                mss: self.mss,
                congestion: self.congestion.clone(),
                nodelay: self.nodelay,
                rate,
                ..TcpPlan::new(self.length.unwrap_or(BLOCK_BYTES))
            })
        };
        let end = match self.bytes {
            // Of each stream, too.
            Some(bytes) => End::Bytes(bytes.saturating_mul(streams.into())),
            None => End::Time(nanos(self.time_s.unwrap_or(10.0))),
        };
        let whole = match end {
            End::Time(time) => time.0.clamp(limits::INTERVAL_NS.min, limits::INTERVAL_NS.max),
            _ => limits::INTERVAL_NS.max,
        };
        Ok(TestPlan {
            direction: if self.reverse { Direction::Reverse } else { Direction::Forward },
            streams,
            end,
            interval: self.interval().unwrap_or(Nanos(whole)),
            window: self.window,
            dscp: Some(self.tos >> 2).filter(|dscp| *dscp > 0),
            ..TestPlan::new(traffic)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Line, Stop> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_mean_what_they_mean_there() {
        let asked =
            line("-c host -u -b 2M -l 200 -t 1.5 -P 3 -i 0.5 -p 5002 -w 4K -S 0x28").unwrap();
        let request = client(&asked);
        let plan = &request.plan;
        let Traffic::Udp(udp) = &plan.traffic else { panic!("{plan:?}") };
        assert_eq!((udp.size.bytes(), plan.streams, plan.window), (200, 3, Some(4_096)));
        assert_eq!(udp.rate, Some(Rate::Bits(BitRate::new(3 * 2 * 1_048_576).unwrap())));
        assert_eq!(
            (plan.end, plan.interval),
            (End::Time(Nanos(1_500_000_000)), Nanos(500_000_000))
        );
        assert_eq!((plan.dscp, plan.direction), (Some(10), Direction::Forward));
        assert!(asked.intervals && !asked.csv && !asked.enhanced);
        assert_eq!(request.target, Target::Host { name: "host".into(), port: 5_002 });
        let asked = line("--client=h --rev -n 10m -P2 -e -yC -f k").unwrap();
        assert_eq!(client(&asked).plan.end, End::Bytes(20_000_000));
        assert!(asked.csv && asked.enhanced && asked.format == Some('k') && !asked.intervals);
        assert_eq!((client(&asked).plan.direction, asked.back), (Direction::Reverse, None));
        for (text, back) in
            [("-d", Back::Beside), ("--full-duplex", Back::Beside), ("--tradeoff", Back::After)]
        {
            let asked = line(&format!("-c h {text}")).unwrap();
            assert_eq!(
                (client(&asked).plan.direction, asked.back),
                (Direction::Forward, Some(back))
            );
        }
    }

    fn client(line: &Line) -> &Request {
        let Role::Client(request) = &line.role else { panic!("{line:?}") };
        request
    }

    #[test]
    fn a_server_takes_its_own_options_and_warns_of_the_others() {
        let asked = line("-s -u -i 2 -p 5009 -D -1 -P 1 -t 5 -e -y C").unwrap();
        let Role::Server(server) = &asked.role else { panic!("{asked:?}") };
        let whole = Server {
            port: 5_009,
            bind: None,
            udp: true,
            daemon: true,
            one_at_a_time: true,
            one_off: true,
            interval: Some(Nanos(2_000_000_000)),
        };
        assert_eq!(*server, whole);
        assert_eq!(asked.notes, ["WARNING: option -t is not valid for server mode"]);
        assert!(asked.csv && asked.enhanced && asked.intervals);
        let asked = line("-c h -D").unwrap();
        assert_eq!(asked.notes, ["WARNING: option -D is not valid for client mode"]);
    }

    #[test]
    fn what_is_wrong_or_not_done_is_said() {
        for (text, why) in [
            ("-c h -d -R", "both"),
            ("-c h --bounceback", "linerate rr"),
            ("-c h -u --isochronous=60:1m,0", "not sent"),
            ("-c h --trip-times", "measures delay"),
            ("-c h -s", "a client or a server"),
            ("-u", "-c HOST"),
            ("-s -P 2", "-P 1"),
            ("-s -i -1", "invalid value"),
            ("-c", "requires an argument"),
            ("-c h --foo", "unrecognized option"),
            ("-c h -q", "invalid option"),
            ("-c h -t -1", "invalid value"),
            ("-c h -P 0", "invalid value"),
            ("-c h -b 1e400", "invalid value"),
            ("-c h -u -l 99999", "do not exist"),
            ("-c h -y X", "invalid value"),
            ("-c h x", "extra argument"),
            ("-c h -t NaN", "invalid value"),
            ("-c h -l 99999999999", "invalid value"),
        ] {
            let Err(Stop::Wrong(text)) = line(text) else { panic!("{text}") };
            assert!(text.contains(why), "{text}");
        }
        assert_eq!(line("-h").unwrap_err(), Stop::Help);
        assert_eq!(line("-v").unwrap_err(), Stop::Version);
    }
}
