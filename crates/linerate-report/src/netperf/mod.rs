//! Output of netperf's client, as release 2.7.1 prints it: its columns, and the figures that `-O`, `-o` and
//! `-k` name.

mod classic;
mod confidence;
mod figures;
mod select;
mod value;

pub use confidence::Confidence;
pub use figures::{Cpu, End, Figures, Reached};
pub use select::{is_selection, names};

/// What is measured, by netperf's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Test {
    /// TCP to the server.
    #[default]
    TcpStream,
    /// TCP to the client.
    TcpMaerts,
    /// TCP to the server with sendfile(2).
    TcpSendfile,
    /// UDP to the server.
    UdpStream,
    /// Requests over TCP.
    TcpRr,
    /// Requests over UDP.
    UdpRr,
    /// A connection for each request.
    TcpCrr,
    /// Connections that carry nothing.
    TcpCc,
    /// `omni` of that kind.
    Omni(Kind),
}

/// What this end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It sends.
    Sends,
    /// It receives.
    Receives,
    /// It asks.
    Asks,
}

impl Test {
    /// What this end does in it.
    pub fn kind(self) -> Kind {
        match self {
            Self::TcpStream | Self::TcpSendfile | Self::UdpStream => Kind::Sends,
            Self::TcpMaerts => Kind::Receives,
            Self::TcpRr | Self::UdpRr | Self::TcpCrr | Self::TcpCc => Kind::Asks,
            Self::Omni(kind) => kind,
        }
    }
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

/// What was asked of one end. Sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// `SO_SNDBUF`.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF`.
    pub receive_buffer: Option<u32>,
    /// Type of service.
    pub tos: Option<u8>,
    /// Core.
    pub core: Option<u16>,
    /// Data port.
    pub port: u16,
}

/// What was asked, and how it is shown.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `-t`.
    pub test: Test,
    /// Over UDP.
    pub udp: bool,
    /// A connection for each transaction.
    pub connections: bool,
    /// `-H`.
    pub host: String,
    /// `-L`.
    pub local: Option<String>,
    /// IPv6.
    pub v6: bool,
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
    /// `-O`, `-o` or `-k`, and what they name.
    pub selection: Option<(Style, String)>,
    /// Asked of this end.
    pub here: Asked,
    /// Asked of the server.
    pub there: Asked,
    /// `-r`: bytes of a request and of a response.
    pub sizes: Option<(u32, u32)>,
    /// Requests that are sent before the first response has come.
    pub burst: u32,
    /// `-D` of the test.
    pub nodelay: bool,
    /// `-I`, `-i`.
    pub confidence: Option<Confidence>,
    /// The command line.
    pub command: String,
    /// What distinguishes this run.
    pub id: String,
}

impl Options {
    /// Requests that are under way besides the first: of connections there is one at a time.
    fn burst(&self) -> u32 {
        if self.connections { 0 } else { self.burst }
    }
}

/// What a throughput is counted in.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    /// So many bytes a second.
    Bytes(f64),
    /// So many bits a second.
    Bits(f64),
    Transactions,
    /// Microseconds a transaction.
    Latency,
}

impl Unit {
    fn of(self, bytes: f64, transactions: f64, burst: u32) -> f64 {
        match self {
            Self::Bytes(each) => bytes / each,
            Self::Bits(each) => bytes * 8.0 / each,
            Self::Transactions => transactions,
            Self::Latency if transactions > 0.0 => (1.0 + f64::from(burst)) * 1e6 / transactions,
            Self::Latency => 0.0,
        }
    }
}

/// The unit of `-f`, and its name without the second.
fn unit(options: &Options) -> (Unit, &'static str) {
    let asks = options.test.kind() == Kind::Asks;
    match options.format {
        Some('G') => (Unit::Bytes(1_073_741_824.0), "GBytes"),
        Some('M') => (Unit::Bytes(1_048_576.0), "MBytes"),
        Some('K') => (Unit::Bytes(1_024.0), "KBytes"),
        Some('g') => (Unit::Bits(1e9), "10^9bits"),
        Some('k') => (Unit::Bits(1e3), "10^3bits"),
        Some('u') if asks => (Unit::Latency, "Usec"),
        None | Some('x') if asks => (Unit::Transactions, "Trans"),
        _ => (Unit::Bits(1e6), "10^6bits"),
    }
}

/// The same of what is counted in bytes, whatever transactions are counted in.
fn unit_of_bytes(options: &Options) -> (Unit, &'static str) {
    match unit(options) {
        (Unit::Transactions | Unit::Latency, _) => (Unit::Bits(1e6), "10^6bits"),
        unit => unit,
    }
}

/// One interval while the test runs: how long it was and when it ended, both in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Interim {
    /// Bytes that were carried.
    pub bytes: f64,
    /// Requests that were answered.
    pub transactions: f64,
    /// How long.
    pub seconds: f64,
    /// Since 1970.
    pub at_s: f64,
}

/// Its line, or lines; `number` counts from 0.
pub fn interim(options: &Options, number: usize, row: &Interim) -> String {
    let (unit, name) = unit(options);
    let each = |amount: f64| if row.seconds > 0.0 { amount / row.seconds } else { 0.0 };
    let rate = unit.of(each(row.bytes), each(row.transactions), options.burst());
    let Interim { seconds, at_s, .. } = row;
    match options.selection {
        Some((Style::Keys, _)) => format!(
            "NETPERF_INTERIM_RESULT[{number}]={rate:.2}\nNETPERF_UNITS[{number}]={name}/s\n\
             NETPERF_INTERVAL[{number}]={seconds:.3}\nNETPERF_ENDING[{number}]={at_s:.3}\n"
        ),
        Some((Style::Csv, _)) => format!("{rate:7.2},{name}/s,{seconds:.3},{at_s:.3}\n"),
        _ => format!(
            "Interim result: {rate:7.2} {name}/s over {seconds:.3} seconds ending at {at_s:.3}\n"
        ),
    }
}

/// What stands above everything: which test this is, between whom.
pub fn banner(options: &Options) -> String {
    if !options.headers {
        return String::new();
    }
    let name = match options.test {
        Test::TcpStream => "MIGRATED TCP STREAM TEST",
        Test::TcpMaerts => "MIGRATED TCP MAERTS TEST",
        Test::TcpSendfile => "TCP SENDFILE TEST",
        Test::UdpStream => "MIGRATED UDP STREAM TEST",
        Test::TcpRr => "MIGRATED TCP REQUEST/RESPONSE TEST",
        Test::UdpRr => "MIGRATED UDP REQUEST/RESPONSE TEST",
        Test::TcpCrr => "MIGRATED TCP Connect/Request/Response TEST",
        Test::TcpCc => "TCP Connect/Close TEST",
        Test::Omni(Kind::Sends) => "OMNI Send TEST",
        Test::Omni(Kind::Receives) => "OMNI Receive TEST",
        Test::Omni(Kind::Asks) if options.connections && options.sizes.is_none() => {
            "OMNI Connection TEST"
        }
        Test::Omni(Kind::Asks) if options.connections => "OMNI Connect|Send|Recv TEST",
        Test::Omni(Kind::Asks) => "OMNI Send|Recv TEST",
    };
    let (any, family) = if options.v6 { ("::", "AF_INET6") } else { ("0.0.0.0", "AF_INET") };
    // The address in brackets is empty there where it is one of IPv4.
    let named = |name: &str| format!("{name} ({})", if options.v6 { name } else { "" });
    let here = match &options.local {
        Some(name) => named(name),
        None => format!("{any}{} ({any})", if options.v6 { "0" } else { "" }),
    };
    let mut notes = String::new();
    if let Some(confidence) = &options.confidence {
        let Confidence { level, width, .. } = confidence;
        notes = format!(" : +/-{:.3}% @ {level:2}% conf. ", width / 2.0);
    }
    if options.nodelay {
        notes.push_str(" : nodelay");
    }
    notes.push_str(" : demo");
    if matches!(options.test, Test::TcpRr | Test::UdpRr) {
        notes.push_str(&format!(" : first burst {}", options.burst));
    }
    if options.here.core.is_some() || options.there.core.is_some() {
        notes.push_str(" : cpu bind");
    }
    format!(
        "{name} from {here} port {} {family} to {} port {} {family}{notes}\n",
        options.here.port,
        named(&options.host),
        options.there.port,
    )
}

/// What was measured, in columns or as it was asked for.
pub fn report(options: &Options, figures: &Figures) -> String {
    let warning = confidence::warning(options, figures);
    let selection = options.selection.clone();
    let shown = match (selection, options.test) {
        (Some((style, names)), _) => select::show(options, figures, style, &names),
        (None, Test::Omni(_)) => select::show(options, figures, Style::Columns, ""),
        (None, _) => classic::show(options, figures),
    };
    warning + &shown
}

#[cfg(test)]
mod tests;
