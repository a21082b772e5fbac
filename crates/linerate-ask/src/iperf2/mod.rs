//! The command line of iperf 2: its most used options, as a request or as a server's settings.

mod options;
mod value;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_model::limits;
use linerate_model::plan::{
    Dialect, Direction, End, IpVersion, TcpPlan, TestPlan, Traffic, UdpPlan,
};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_runner::client::{Request, Target};
use linerate_runner::server::Sockets;

pub use self::options::HELP;
use self::options::{TRIP_TIMES, options};
use self::value::{scaled, tos};

/// Of UDP where no rate is named: a binary megabit.
const UDP_RATE: f64 = 1_048_576.0;
/// Of UDP where no length is named, over IPv4 and over IPv6, whose header is longer.
const UDP_BYTES: [u32; 2] = [1_470, 1_450];
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
    /// `-f`: one of bkmgABKMG; `A` and none let each figure have its own unit, of bytes or of bits.
    pub format: Option<char>,
    /// Intervals are shown (`-i`).
    pub intervals: bool,
    /// `--json`: the record of each test in place of lines.
    pub json: bool,
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
    /// `-t`: it ends after so long.
    pub time: Option<Nanos>,
    /// `-w`, `-S`, `-M`, `-N`, `-Z`: of each data socket.
    pub sockets: Sockets,
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
const CLIENTS_ONLY: &str = "nRdrXLJ";
/// … and of these a client.
const SERVERS_ONLY: &str = "D1";
/// These are a server's as well, and of no effect at linerate's: it reads as much as comes, as fast as it comes.
const IDLE_AT_SERVER: &str = "bl";

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
    /// Datagrams a second in its place.
    packets: Option<f64>,
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
    json: bool,
    mss: Option<u32>,
    nodelay: bool,
    congestion: Option<String>,
    tos: u8,
    trip_times: bool,
    ip: Option<IpVersion>,
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
            'b' => match text.strip_suffix("pps") {
                Some(count) => self.packets = Some(scaled(count).ok_or_else(wrong)?),
                None => self.rate = Some(number()?),
            },
            't' => self.time_s = Some(text.parse().ok().filter(|s| *s > 0.0).ok_or_else(wrong)?),
            'n' => self.bytes = Some(number()? as u64),
            'i' => {
                self.interval_s = Some(text.parse().ok().filter(|s| *s >= 0.0).ok_or_else(wrong)?)
            }
            'l' => self.length = Some(small()?),
            'P' => self.streams = Some(text.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?),
            'p' => self.port = Some(text.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?),
            'w' => self.window = Some(small()?),
            'B' if text.parse::<SocketAddr>().is_ok() => {
                let why = "the system chooses the ports of streams: name the address alone";
                return Err(Stop::Wrong(format!("-B {text}: {why}")));
            }
            'B' => self.bind = Some(text.parse().map_err(|_| wrong())?),
            'R' => self.reverse = true,
            'r' => self.back = Some(Back::After),
            'd' => self.back = Some(Back::Beside),
            'f' => {
                let letter = text.chars().next().filter(|c| "abkmgABKMG".contains(*c));
                self.format = Some(letter.ok_or_else(wrong)?).filter(|c| *c != 'a');
            }
            'e' => self.enhanced = true,
            'y' if text.eq_ignore_ascii_case("c") => self.csv = true,
            'J' => self.json = true,
            'M' => self.mss = Some(small()?),
            'N' => self.nodelay = true,
            'Z' => self.congestion = Some(text.to_owned()),
            'S' => self.tos = tos(text).ok_or_else(wrong)?,
            // Checked as there; said below.
            'L' => _ = text.parse::<u16>().map_err(|_| wrong())?,
            'V' => self.ip = Some(IpVersion::V6),
            '4' => self.ip = Some(IpVersion::V4),
            'h' => return Err(Stop::Help),
            'v' => return Err(Stop::Version),
            TRIP_TIMES => self.trip_times = true,
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
        let mut notes: Vec<String> = notes.collect();
        if self.server && self.trip_times {
            notes.push("WARNING: option --trip-times is not valid for server mode".into());
        }
        if self.server {
            let idle = self.given.iter().filter(|letter| IDLE_AT_SERVER.contains(**letter));
            notes.extend(idle.map(|letter| {
                format!("option -{letter} has no effect: this server reads as much as comes")
            }));
        } else if self.given.contains(&'L') {
            notes.push("option -L has no effect: the way back needs no port of this host".into());
        }
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
        let Self { csv, json, format, back, .. } = self;
        // A client that receives says more, as there.
        let enhanced = self.enhanced || self.trip_times && self.reverse;
        Ok(Line { role, back, notes, csv, enhanced, format, intervals, json })
    }

    fn request(&self, host: &str) -> Result<Request, String> {
        let port = self.port.unwrap_or(Dialect::Iperf2.port());
        Ok(Request {
            ip: self.ip,
            bind: self.bind,
            dialect: Some(Dialect::Iperf2),
            trip_times: self.trip_times,
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
            time: self.time_s.map(nanos),
            sockets: Sockets {
                window: self.window,
                dscp: self.dscp(),
                mss: self.mss,
                nodelay: self.nodelay,
                congestion: self.congestion.clone(),
            },
        })
    }

    fn dscp(&self) -> Option<u8> {
        Some(self.tos >> 2).filter(|dscp| *dscp > 0)
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
        let v6 = self.ip == Some(IpVersion::V6)
            || self.host.as_ref().is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
        let datagram = self.length.unwrap_or(UDP_BYTES[usize::from(v6)]);
        let each = match (self.packets, self.rate) {
            (Some(_), _) if !self.udp => return Err("-b in pps is of datagrams: -u".into()),
            (Some(packets), _) => packets * f64::from(datagram) * 8.0,
            (None, rate) => rate.unwrap_or(if self.udp { UDP_RATE } else { 0.0 }),
        };
        let rate = BitRate::new((each * f64::from(streams)) as u64);
        let traffic = if self.udp {
            let size = DatagramSize::new(datagram);
            let size = size.ok_or_else(|| format!("datagrams of {datagram} bytes do not exist"))?;
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
            dscp: self.dscp(),
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
        let format = |letter: &str| line(&format!("-c h -f {letter}")).unwrap().format;
        assert_eq!((format("a"), format("A")), (None, Some('A')));
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
    fn rates_of_datagrams_names_of_services_and_lengths_over_ipv6_are_read() {
        let udp = |text: &str| match &client(&line(text).unwrap()).plan {
            TestPlan { traffic: Traffic::Udp(udp), dscp, .. } => {
                (udp.size.bytes(), udp.rate.map(|rate| rate.bits_per_second(udp.size)), *dscp)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(udp("-c h -u -b 1000pps -S ef"), (1_470, Some(11_760_000), Some(46)));
        assert_eq!(udp("-c h -u -b 2kpps -l 64 -S cs1 -P 2"), (64, Some(2_048_000), Some(8)));
        assert_eq!(udp("-c h -u -V -S nqb2").0, 1_450);
        assert_eq!(udp("-c 2001:db8::1 -u -S lowdelay"), (1_450, Some(1_048_576), Some(4)));
        assert_eq!(udp("-c h -u -V -l 1470").0, 1_470);
        assert!(line("-c h -T 5").is_err() && !line("-c h -R").unwrap().enhanced);
        let asked = line("-c h -R --trip-times").unwrap();
        assert!(client(&asked).trip_times && asked.enhanced);
        assert!(!line("-c h --trip-times").unwrap().enhanced);
        let asked = line("-c h -d -L 5002").unwrap();
        assert!(asked.notes.len() == 1 && asked.notes[0].contains("-L"), "{:?}", asked.notes);
    }

    #[test]
    fn a_server_takes_its_own_options_and_warns_of_the_others() {
        let asked =
            line("-s -u -i 2 -p 5009 -D -1 -P 1 -t 5 -e -y C -w 64K -S ef -M 1000 -N -Z reno")
                .unwrap();
        let Role::Server(server) = &asked.role else { panic!("{asked:?}") };
        let whole = Server {
            port: 5_009,
            bind: None,
            udp: true,
            daemon: true,
            one_at_a_time: true,
            one_off: true,
            interval: Some(Nanos(2_000_000_000)),
            time: Some(Nanos(5_000_000_000)),
            sockets: Sockets {
                window: Some(65_536),
                dscp: Some(46),
                mss: Some(1_000),
                nodelay: true,
                congestion: Some("reno".into()),
            },
        };
        assert_eq!(*server, whole);
        assert!(asked.notes.is_empty(), "{:?}", asked.notes);
        let notes = line("-s -n 5 -l 8K -b 1M").unwrap().notes;
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert_eq!(notes.first().unwrap(), "WARNING: option -n is not valid for server mode");
        assert!(asked.csv && asked.enhanced && asked.intervals);
        let asked = line("-c h -D").unwrap();
        assert_eq!(asked.notes, ["WARNING: option -D is not valid for client mode"]);
    }

    #[test]
    fn what_is_wrong_or_not_done_is_said() {
        for (text, why) in [
            ("-c h -d -R", "both"),
            ("-c h -b 1000pps", "of datagrams"),
            ("-c h -B 127.0.0.1:5005", "address alone"),
            ("-c h -L x", "invalid value"),
            ("-c h -S cs9", "invalid value"),
            ("-c h --bounceback", "linerate rr"),
            ("-c h -u --isochronous=60:1m,0", "not sent"),
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
