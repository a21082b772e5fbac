//! How a server behaves.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::sys;
use linerate_model::plan::{Dialect, TrafficKind};
use linerate_model::units::{BitRate, Nanos};

use crate::agent;
use crate::data::Limits;
use crate::event::{Counts, Keeper};
use crate::keys::{BudgetState, Keys};
use crate::network::Cidr;
use crate::sandbox::Sandbox;
use crate::serve_iperf3::logins::Logins;

/// Connections that have not yet asked for a test. Each costs one descriptor, one small task and
/// about 4 KiB in the kernel.
pub(crate) const MOST_WAITING: usize = 16_384;

/// As long as iperf3's receivers wait for data by default.
const NO_DATA: Duration = Duration::from_secs(120);

/// As large as the buffers that a server takes for a stream by itself.
pub const MAX_WINDOW: u32 = 4 << 20;

/// An address of a server that is not one of its host: translation on the way leads there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Public {
    /// What clients dial.
    pub address: IpAddr,
    /// The port that they dial; the server's own unless named.
    pub port: Option<u16>,
}

impl FromStr for Public {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let whole = |whole: SocketAddr| Self { address: whole.ip(), port: Some(whole.port()) };
        let bare = text.parse().map(|address| Self { address, port: None });
        bare.or_else(|_| text.parse().map(whole)).map_err(|_| {
            "it is no IP address, with or without a port: 192.0.2.1, 192.0.2.1:5201, [2001:db8::1]:5201"
                .to_owned()
        })
    }
}

/// What a server sets of its data sockets by itself, where no client can ask for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sockets {
    /// `SO_SNDBUF` and `SO_RCVBUF`, in bytes.
    pub window: Option<u32>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// `TCP_MAXSEG`, in bytes.
    pub mss: Option<u32>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
}

impl Sockets {
    /// The window, and the receive buffer that the kernel gives a socket for it, forced as far as [`MAX_WINDOW`], both in
    /// bytes; nothing where none is set.
    ///
    /// # Errors
    /// When the kernel has no socket to ask with.
    pub fn granted(&self) -> std::io::Result<Option<(u64, u64)>> {
        let granted = self.window.map(|asked| {
            sys::granted_buffer(asked, MAX_WINDOW).map(|granted| (asked.into(), granted))
        });
        granted.transpose()
    }
}

/// How a server behaves; each limit is its owner's policy and narrower than the table in
/// `linerate_model::limits`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on; `None` is every address, IPv4 and IPv6.
    pub bind: Option<IpAddr>,
    /// Answers linerate's own clients and iperf3's; otherwise [`Options::doors`] are all.
    pub native: bool,
    /// TCP and UDP port of linerate's own clients and of iperf3's; 0 takes a free one.
    pub port: u16,
    /// Ports of dialects that have their own; 0 takes a free one.
    pub doors: Vec<(Dialect, u16)>,
    /// Networks from which tests are taken; none is every network.
    pub allow: Vec<Cidr>,
    /// Shared key that clients must prove they know.
    pub key: Option<Vec<u8>>,
    /// Keys of single clients, and budgets of keys and networks.
    pub keys: Option<Arc<Keys>>,
    /// Where the bytes of the day of keys and networks outlast the server.
    pub budget_state: Option<Arc<BudgetState>>,
    /// Addresses by which clients with the key dial this server, beside its host's own.
    pub public: Vec<Public>,
    /// Users that clients of iperf3 must prove to be. linerate's own then need the key.
    pub logins: Option<Arc<Logins>>,
    /// The one kind of test that is answered; `None` is every kind.
    pub kind: Option<TrafficKind>,
    /// Tests at once.
    pub max_tests: usize,
    /// Tests at once of one network (an IPv4 address, an IPv6 /64); `None` is half of `max_tests`, but 16 where
    /// it allows as many.
    pub max_tests_per_address: Option<usize>,
    /// Connections of one network that may wait to ask for a test.
    pub max_waiting_per_address: usize,
    /// Bytes that all tests of one network may carry in 24 h, both ways together; `None` is no limit.
    pub max_bytes_per_day: Option<u64>,
    /// Longest test, warm-up included.
    pub max_duration: Nanos,
    /// Largest rate of one direction of one test; `None` is no limit.
    pub max_rate: Option<BitRate>,
    /// Most streams of one test, each way.
    pub max_streams: u16,
    /// Largest byte budget of one test, both ways together; `None` is no limit.
    pub max_bytes: Option<u64>,
    /// Bytes of memory that all tests together may take.
    pub max_memory: u64,
    /// The most of a client's window, in bytes, that is forced beyond the kernel's limits where this
    /// process may.
    pub max_window: u32,
    /// Of clients of iperf 2.
    pub sockets: Sockets,
    /// One test at a time. So many clients of iperf3 may wait for their turn; the rest, and
    /// linerate's own, hear that the server is busy.
    pub exclusive: Option<usize>,
    /// End after the first test.
    pub one_off: bool,
    /// With `one_off`: end when nobody had a test for so long.
    pub idle: Option<Duration>,
    /// What is reported of a test of iperf3 while it runs is of so much time each.
    pub interval: Nanos,
    /// Whether what tests of iperf3 and iperf 2 show while they run is reported. Who has no screen for it would have it in
    /// the queue of the log all the same, and among what was left out.
    pub rows: bool,
    /// A test in which nothing moves for so long ends, and one of iperf3 to which nothing comes that should.
    pub no_data: Duration,
    /// Listens on every IPv6 address, and on no IPv4 one; without `bind`.
    pub only_v6: bool,
    /// What [`crate::server::serve`] gives up at its start; `None` changes nothing in this process.
    pub sandbox: Option<Sandbox>,
    /// What controllers of campaigns may do here; `None` keeps them out.
    pub agent: Option<agent::Options>,
    /// Who counts what happens.
    pub counts: Option<Counts>,
    /// Who keeps what happens, whether the log is read or not.
    pub keeper: Option<Keeper>,
}

impl Options {
    /// The server of another program under that program's name: its dialect alone, on its port, and one test at a
    /// time where it is so there.
    pub fn of_program(dialect: Dialect, at: (Option<IpAddr>, u16), one_at_a_time: bool) -> Self {
        // Each stream of iperf 2 is a test, so that -d -P 128 has 256. Who starts it for one client gives it all.
        let max_tests = if dialect == Dialect::Iperf2 { 256 } else { Self::default().max_tests };
        Self {
            bind: at.0,
            native: false,
            max_tests,
            max_tests_per_address: Some(max_tests),
            doors: vec![(dialect, at.1)],
            exclusive: one_at_a_time.then_some(0),
            ..Self::default()
        }
    }

    /// Whether clients must prove a key, be it the shared one or their own.
    pub(crate) fn wants_key(&self) -> bool {
        self.key.is_some() || self.keys.as_ref().is_some_and(|keys| keys.proven())
    }

    /// Whether anything is taken from this address.
    pub(crate) fn allows(&self, peer: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|network| network.has(peer))
    }

    /// Whether tests connect to their clients: those of nuttcp's that receive wait for it, and those of iperf 2's with
    /// `-d` and `-r`.
    pub(crate) fn connects(&self) -> bool {
        let connects = [Dialect::Nuttcp, Dialect::Iperf2];
        self.doors.iter().any(|(dialect, _)| connects.contains(dialect))
    }

    /// What the data threads of one test hold it to.
    pub(crate) fn limits(&self) -> Limits {
        let span_ns = Some(self.max_duration.0);
        let window = Some(self.max_window);
        Limits { bytes: self.max_bytes, rate: self.max_rate, window, span_ns }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: None,
            native: true,
            port: Dialect::Native.port(),
            doors: Vec::new(),
            allow: Vec::new(),
            key: None,
            keys: None,
            budget_state: None,
            public: Vec::new(),
            logins: None,
            kind: None,
            max_tests: 128,
            max_tests_per_address: None,
            max_waiting_per_address: MOST_WAITING / 8,
            max_bytes_per_day: None,
            max_duration: Nanos::from_secs(3_600),
            max_rate: None,
            max_streams: 128,
            max_bytes: None,
            max_memory: 1 << 30,
            max_window: MAX_WINDOW,
            sockets: Sockets::default(),
            exclusive: None,
            one_off: false,
            idle: None,
            interval: Nanos::from_secs(1),
            rows: false,
            no_data: NO_DATA,
            only_v6: false,
            sandbox: None,
            agent: None,
            counts: None,
            keeper: None,
        }
    }
}

impl Options {
    /// Tests at once of one network.
    pub(crate) fn tests_of_one(&self) -> usize {
        // 16 clients behind one address are a laboratory; all places are nobody's.
        self.max_tests_per_address.unwrap_or((self.max_tests / 2).max(16)).min(self.max_tests)
    }
}
