//! The command lines of netperf's client and server, as requests and as a server's settings.

mod help;
mod plan;
mod server;
mod take;
mod words;

pub use help::{HELP, SERVER_HELP};
pub use server::{Server, parse_server};

use std::net::IpAddr;

use linerate_model::plan::{Dialect, IpVersion};
use linerate_runner::client::{Request, Target, Wants};

pub(crate) use words::service;
use words::{letters, wants_help};

/// Of netperf's own command line …
const GLOBAL: &str = "46a:A:b:B:cCdD:f:F:hH:i:I:jk:K:l:L:n:No:O:p:P:rs:St:T:v:VW:w:y:Y:Z:";
/// … and behind `--`, of a test.
const OF_TEST: &str = "46aBb:cCd:De:fFgG:hH:i:Ij:k::K:l:L:m:M:nNo::O::p:P:q:r:R:s:S:t:T:u:UVw:W:";

/// Why a command line is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// `-h`.
    Help,
    /// `-V`.
    Version,
    /// No such option, in getopt's words.
    Usage(String),
    /// No such test.
    Unknown(String),
    /// In netperf's words, where it has any.
    Wrong(String),
}

/// What is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are netperf's")]
pub enum Test {
    #[default]
    TcpStream,
    TcpMaerts,
    TcpSendfile,
    UdpStream,
    TcpRr,
    UdpRr,
    TcpCrr,
    TcpCc,
    Omni,
}

impl Test {
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "TCP_STREAM" => Self::TcpStream,
            "TCP_MAERTS" => Self::TcpMaerts,
            "TCP_SENDFILE" => Self::TcpSendfile,
            "UDP_STREAM" => Self::UdpStream,
            "TCP_RR" => Self::TcpRr,
            "UDP_RR" => Self::UdpRr,
            "TCP_CRR" => Self::TcpCrr,
            "TCP_CC" => Self::TcpCc,
            "OMNI" => Self::Omni,
            _ => return None,
        })
    }
}

/// What this end does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Way {
    /// It sends.
    #[default]
    Sends,
    /// It receives.
    Receives,
    /// It asks.
    Asks,
}

/// How named figures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `-O`.
    Columns,
    /// `-o`.
    Csv,
    /// `-k`.
    Keys,
}

/// Defaults of this system's sockets, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Buffers {
    /// `SO_SNDBUF` of TCP.
    pub tcp_send: Option<u32>,
    /// `SO_RCVBUF` of TCP.
    pub tcp_receive: Option<u32>,
    /// `SO_SNDBUF` of UDP.
    pub udp_send: Option<u32>,
    /// `SO_RCVBUF` of UDP.
    pub udp_receive: Option<u32>,
}

/// A command line, understood.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// `-t`.
    pub test: Test,
    /// What this end does in it.
    pub way: Way,
    /// `-d` of `omni`: whether this end sends, and whether it receives.
    direction: Option<(bool, bool)>,
    /// Over UDP.
    pub udp: bool,
    /// A connection for each transaction.
    pub connections: bool,
    /// `-H`.
    pub host: String,
    /// `-p`.
    pub port: u16,
    /// `-L`.
    pub local: Option<String>,
    /// `-4`, `-6` and families of `-H`.
    pub ip: Option<IpVersion>,
    /// `-l`: seconds, or as many bytes or transactions below 0.
    pub length: i64,
    /// `-D`: seconds.
    pub interim_s: Option<f64>,
    /// `-P`.
    pub headers: bool,
    /// `-v`.
    pub verbosity: u8,
    /// `-f`.
    pub format: Option<char>,
    /// `-B`.
    pub brand: String,
    /// `-c`.
    pub cpu_here: bool,
    /// `-C`.
    pub cpu_there: bool,
    /// `-I`: level and whole width in percent.
    pub confidence: Option<(u8, f64)>,
    /// `-i`: runs at least and at most.
    pub runs: (usize, usize),
    /// `-r`.
    pub rate_only: bool,
    /// `-s`: seconds before a test.
    pub wait_s: u64,
    /// `-O`, `-o`, `-k` and what is named.
    pub selection: Option<(Style, String)>,
    /// Of this end and of the server: `-T`, …
    pub cores: (Option<u16>, Option<u16>),
    /// … `-Y`, …
    pub services: (Option<u8>, Option<u8>),
    /// … `-P` of the test, …
    pub ports: (u16, u16),
    /// … and `-s` and `-S` of the test, each for sending and for receiving, in bytes.
    pub buffers: [(Option<u32>, Option<u32>); 2],
    /// `-m`: bytes of a send call here and there.
    pub send_sizes: (Option<u32>, Option<u32>),
    /// `-M`: bytes of a receive call there and here.
    pub receive_sizes: (Option<u32>, Option<u32>),
    /// `-r` of the test: bytes of a request and of a response.
    pub sizes: Option<(u32, u32)>,
    /// `-b` of a test with requests.
    pub burst: u32,
    /// `-b` and `-w`: datagrams or calls that leave at once, and how often they do, in nanoseconds.
    pub pace: (Option<u32>, Option<u64>),
    /// `-q` of the test: bytes a second at most.
    pub most_a_second: Option<u32>,
    /// `-G` of the test: bytes of a segment.
    pub mss: Option<u32>,
    /// `-D` of the test.
    pub nodelay: bool,
    /// `-K`.
    pub congestion: (Option<String>, Option<String>),
    /// `-u` of the test: what the figure `UUID` is to say.
    pub uuid: Option<String>,
    /// `--json`: the record of each run in place of columns.
    pub json: bool,
    /// What of it has no effect here.
    pub notes: Vec<String>,
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// Why it is not run.
pub fn parse(args: &[String]) -> Result<Line, Stop> {
    if wants_help(args) {
        return Err(Stop::Help);
    }
    // Of linerate alone, and of this end: netperf has letters only.
    let json = args.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let args: Vec<String> = args.iter().filter(|word| *word != "--json").cloned().collect();
    let (global, rest) = letters(GLOBAL, &args).map_err(Stop::Usage)?;
    let mut line = Line {
        host: "localhost".into(),
        port: Dialect::Netperf.port(),
        length: 10,
        headers: true,
        verbosity: 1,
        runs: (1, 1),
        json,
        ..Line::default()
    };
    for (letter, value) in &global {
        line.take(*letter, value).map_err(|stop| named(*letter, stop))?;
    }
    line.settle();
    let of_test = match letters(OF_TEST, rest) {
        Ok((found, _)) => found,
        Err(text) => return Err(Stop::Usage(text)),
    };
    for (letter, value) in &of_test {
        line.take_of_test(*letter, value).map_err(|stop| named(*letter, stop))?;
    }
    line.resolve();
    Ok(line)
}

/// A fault in a value says whose value it was.
fn named(letter: char, stop: Stop) -> Stop {
    match stop {
        Stop::Wrong(text) => Stop::Wrong(format!("-{letter}: {text}")),
        other => other,
    }
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

impl Line {
    /// Of a user-named local address.
    fn bind(&self) -> Result<Option<IpAddr>, String> {
        let named = self.local.as_deref().filter(|name| *name != "0.0.0.0" && *name != "::");
        let read = |name: &str| {
            name.parse().map_err(|_| format!("-L {name}: this end's address is wanted in digits"))
        };
        named.map(read).transpose()
    }

    /// The test that is to run.
    ///
    /// # Errors
    /// Why there is none.
    pub fn request(&self, defaults: Buffers) -> Result<Request, String> {
        let target = Target::Host { name: self.host.clone(), port: self.port };
        Ok(Request {
            ip: self.ip,
            bind: self.bind()?,
            dialect: Some(Dialect::Netperf),
            wants: Some(self.wants()),
            ..Request::new(target, self.plan(defaults)?)
        })
    }

    fn wants(&self) -> Wants {
        let [_, far] = self.buffers;
        let carries = || self.connections.then_some(self.sizes.is_some());
        Wants {
            connections: carries().filter(|_| self.way == Way::Asks),
            measure_cpu: self.cpu_there,
            near_port: std::num::NonZeroU16::new(self.ports.0),
            far_port: std::num::NonZeroU16::new(self.ports.1),
            far_send_buffer: far.0,
            far_receive_buffer: far.1,
            far_send_size: self.send_sizes.1,
            far_receive_size: self.receive_sizes.0,
            far_congestion: self.congestion.1.clone(),
            far_tos: self.services.1,
            nodelay: self.nodelay,
            far_core: self.cores.1,
            // Requests leave one by one.
            burst: self.pace.0.filter(|_| self.way != Way::Asks).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests;
