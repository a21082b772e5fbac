//! The command line of nuttcp: its most used options, as a request or as a server's settings.

mod help;
mod take;
mod value;

pub use help::HELP;

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;

use linerate_model::limits;
use linerate_model::plan::{
    Dialect, Direction, End, IpVersion, TcpPlan, TestPlan, Traffic, UdpPlan,
};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_runner::client::{NuttcpExtras, Request, Target};

use value::Speed;

/// Of UDP where no length is named: what a path of 1,500 bytes carries whole.
const UDP_BYTES: u64 = 1_024;
/// Of TCP.
const BLOCK_BYTES: u64 = 64 << 10;
/// Of UDP where no rate is named, in bit/s.
const UDP_RATE: u64 = 1_000_000;

/// Where neither a time nor an amount is named.
const SECONDS: u64 = 10;

/// Why a command line is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// `-h`.
    Help,
    /// `-V`.
    Version,
    /// It is none of nuttcp's.
    Usage(String),
    /// In nuttcp's words, where it has any.
    Wrong(String),
}

/// A command line, understood.
#[derive(Debug, Clone)]
pub struct Line {
    /// What runs.
    pub role: Role,
    /// What of it means nothing here.
    pub notes: Vec<String>,
    /// `-f`, as bits of nuttcp's protocol.
    pub format: u32,
    /// `-I`.
    pub name: Option<String>,
    /// How often `-v` was said.
    pub verbosity: u8,
    /// Intervals are shown (`-i`).
    pub intervals: bool,
    /// `--json`: the record in place of lines.
    pub json: bool,
}

/// Which end.
#[derive(Debug, Clone)]
pub enum Role {
    /// With a host.
    Client(Box<Request>),
    /// `-S`, `-1`.
    Server(Server),
}

/// A server's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `-P`.
    pub port: u16,
    /// `-4`: of IPv4 alone.
    pub bind: Option<IpAddr>,
    /// Without `--nofork`.
    pub daemon: bool,
    /// `--nofork`.
    pub one_at_a_time: bool,
    /// `-1`.
    pub one_off: bool,
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// Why it is not run.
pub fn parse(args: &[String]) -> Result<Line, Stop> {
    let mut asked = Asked { format: RTT, ..Asked::default() };
    asked.take(args)?;
    asked.line()
}

/// Bits of `-f`.
const RTT: u32 = 0x800;

/// What was said so far.
#[derive(Default)]
struct Asked {
    host: Option<String>,
    server: bool,
    one_off: bool,
    nofork: bool,
    receives: bool,
    udp: bool,
    unlimited: bool,
    rate: Option<Speed>,
    instantaneous: bool,
    burst: u32,
    time_ns: Option<u64>,
    /// Buffers, or bytes.
    amount: Option<(u64, bool)>,
    length: Option<u64>,
    streams: Option<u16>,
    window: Option<u32>,
    far_window: Option<u32>,
    data_port: Option<NonZeroU16>,
    port: Option<u16>,
    interval_ns: Option<u64>,
    core: Option<u16>,
    far_core: Option<u16>,
    dscp: Option<u8>,
    mss: Option<u32>,
    nodelay: bool,
    ip: Option<IpVersion>,
    format: u32,
    name: Option<String>,
    verbosity: u8,
    notes: Vec<String>,
    json: bool,
}

impl Asked {
    fn line(mut self) -> Result<Line, Stop> {
        let port = self.port.unwrap_or(Dialect::Nuttcp.port());
        let role = match (self.host.take(), self.server) {
            (None, false) => return Err(Stop::Usage("a HOST, or -S for a server".into())),
            (Some(host), true) => {
                let text = format!("-S and {host}: this is a client or a server");
                return Err(Stop::Wrong(text));
            }
            (None, true) if self.json => {
                return Err(Stop::Wrong("--json is of a client: `linerate serve` has it".into()));
            }
            (None, true) => Role::Server(Server {
                port,
                bind: (self.ip == Some(IpVersion::V4)).then_some(Ipv4Addr::UNSPECIFIED.into()),
                daemon: !self.nofork,
                one_at_a_time: self.nofork,
                one_off: self.one_off,
            }),
            (Some(name), false) => {
                let plan = self.plan().map_err(Stop::Wrong)?;
                Role::Client(Box::new(Request {
                    ip: self.ip,
                    dialect: Some(Dialect::Nuttcp),
                    nuttcp: NuttcpExtras {
                        data_port: self.data_port,
                        far_window: self.far_window,
                        burst: self.burst,
                        at_most_ns: self.time_ns.filter(|_| self.amount.is_some()),
                        instantaneous: self.instantaneous,
                        text: self.verbosity > 0 && self.format & take::PARSE == 0,
                    },
                    ..Request::new(Target::Host { name, port }, plan)
                }))
            }
        };
        let intervals = self.interval_ns.is_some();
        let Self { notes, format, name, verbosity, json, .. } = self;
        Ok(Line { role, notes, format, name, verbosity, intervals, json })
    }

    fn plan(&mut self) -> Result<TestPlan, String> {
        let streams = self.streams.unwrap_or(1);
        let length = self.length.unwrap_or(if self.udp { UDP_BYTES } else { BLOCK_BYTES });
        let end = self.end(length)?;
        let whole = match end {
            End::Time(time) => time.0,
            _ => self.time_ns.unwrap_or(u64::MAX),
        };
        if let Some(interval) = self.interval_ns.filter(|interval| *interval >= whole) {
            let [interval, whole] = [interval, whole].map(|ns| ns as f64 / 1e9);
            self.notes.push(format!(
                "ignoring interval={interval:.6} which is greater than or equal timeout={whole:.6}"
            ));
            self.interval_ns = None;
        }
        let interval = self.interval_ns.unwrap_or(whole);
        Ok(TestPlan {
            direction: if self.receives { Direction::Reverse } else { Direction::Forward },
            streams,
            end,
            interval: Nanos(interval.clamp(limits::INTERVAL_NS.min, limits::INTERVAL_NS.max)),
            window: self.window,
            client_cpus: self.core.into_iter().collect(),
            server_cpus: self.far_core.into_iter().collect(),
            dscp: self.dscp,
            ..TestPlan::new(self.traffic(length)?)
        })
    }

    fn end(&self, length: u64) -> Result<End, String> {
        let count = match self.amount {
            None => return Ok(End::Time(self.time_ns.map_or(Nanos::from_secs(SECONDS), Nanos))),
            Some((bytes, true)) => bytes / length.max(1),
            Some((count, false)) => count,
        };
        if count == 0 {
            return Err("invalid nbuf = 0".into());
        }
        Ok(if self.udp { End::Datagrams(count) } else { End::Bytes(count.saturating_mul(length)) })
    }

    fn traffic(&self, length: u64) -> Result<Traffic, String> {
        let bps = match self.rate {
            Some(Speed::Bits(bps)) => bps,
            Some(Speed::Packets(each)) => (each * length as f64 * 8.0) as u64,
            None if self.udp && !self.unlimited => UDP_RATE,
            None => 0,
        };
        let rate = BitRate::new(bps).filter(|_| !self.unlimited);
        let invalid = || format!("invalid buflen = {length}");
        let length = u32::try_from(length).map_err(|_| invalid())?;
        if self.udp {
            // Shorter ones are words of the protocol.
            let size = DatagramSize::new(length).filter(|size| size.bytes() >= 5);
            let (rate, burst) = (rate.map(Rate::Bits), Nanos(100_000));
            return Ok(Traffic::Udp(UdpPlan {
                rate,
                burst,
                ..UdpPlan::new(size.ok_or_else(invalid)?)
            }));
        }
        if length == 0 {
            return Err(invalid());
        }
        Ok(Traffic::Tcp(TcpPlan {
            mss: self.mss,
            nodelay: self.nodelay,
            rate,
            ..TcpPlan::new(length)
        }))
    }
}

#[cfg(test)]
mod tests;
