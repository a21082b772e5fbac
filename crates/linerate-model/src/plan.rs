//! What is asked for ([`TestPlan`]) and what both ends will run ([`AgreedPlan`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::named;
use crate::limits::{self, OutOfRange};
use crate::units::{BitRate, DatagramSize, NANOS_PER_SECOND, Nanos, Rate};

/// Name of what [`TestPlan::check`] finds when a rate lets no datagram go within the time.
pub const ONE_DATAGRAM: &str = "rate that sends a datagram within the time in bit/s";

named! {
    PlanDirection: Forward = "forward", Reverse = "reverse", Both = "both", Discard = "discard";
    Way: Forward = "forward", Reverse = "reverse";
    Transport: Udp = "udp", Tcp = "tcp";
    TrafficKind: Udp = "udp", Tcp = "tcp", Rr = "rr";
    Dialect: Native = "native", Iperf3 = "iperf3", Iperf2 = "iperf2", Netperf = "netperf",
        Nuttcp = "nuttcp";
    EngineChoice: Auto = "auto", Gso = "gso", Mmsg = "mmsg", Send = "send";
    Receiving: Copy = "copy", Discard = "discard";
    Sending: Copy = "copy", Sendfile = "sendfile";
}

/// Which way the data goes, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Client sends, server receives.
    Forward,
    /// Server sends, client receives.
    Reverse,
    /// Both at once, `streams` each way.
    Both,
}

impl Direction {
    /// Whether the client sends.
    pub fn has_forward(self) -> bool {
        self != Self::Reverse
    }

    /// Whether the server sends.
    pub fn has_reverse(self) -> bool {
        self != Self::Forward
    }
}

/// [`Direction`] in a record, where a test may also have no peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanDirection {
    /// Client sends, server receives.
    Forward,
    /// Server sends, client receives.
    Reverse,
    /// Both at once.
    Both,
    /// Client sends, nobody receives.
    Discard,
}

impl From<Way> for PlanDirection {
    fn from(way: Way) -> Self {
        match way {
            Way::Forward => Self::Forward,
            Way::Reverse => Self::Reverse,
        }
    }
}

impl From<Direction> for PlanDirection {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::Forward,
            Direction::Reverse => Self::Reverse,
            Direction::Both => Self::Both,
        }
    }
}

/// One way of two: which flow a figure belongs to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Client to server.
    Forward,
    /// Server to client.
    Reverse,
}

/// UDP or TCP under a request/response test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// User datagrams.
    Udp,
    /// A byte stream.
    Tcp,
}

/// The protocol that the two ends speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// linerate's own: everything that is measured here is reported by both ends.
    #[default]
    Native,
    /// iperf3's: the peer reports totals of each stream when the test is over.
    Iperf3,
    /// iperf 2's: of UDP the peer reports totals of each stream, and of TCP nothing.
    Iperf2,
    /// netperf's: the same of its one stream, whose datagrams carry no numbers.
    Netperf,
    /// nuttcp's: the peer reports totals in four decimals of a megabyte, a receiver also each interval.
    Nuttcp,
}

impl Dialect {
    /// Each of them.
    pub const ALL: [Self; 5] =
        [Self::Native, Self::Iperf3, Self::Iperf2, Self::Netperf, Self::Nuttcp];

    /// The program whose protocol it is.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Native => "linerate",
            Self::Iperf3 => "iperf3",
            Self::Iperf2 => "iperf 2",
            Self::Netperf => "netperf",
            Self::Nuttcp => "nuttcp",
        }
    }

    /// The port on which its servers listen.
    pub const fn port(self) -> u16 {
        match self {
            Self::Native | Self::Iperf3 => 5201,
            Self::Iperf2 => 5001,
            Self::Netperf => 12_865,
            Self::Nuttcp => 5_000,
        }
    }

    /// Legal sizes of its datagrams, in bytes.
    const fn datagram_bytes(self) -> limits::Limit {
        match self {
            Self::Native => limits::DATAGRAM_BYTES,
            Self::Iperf3 => limits::IPERF3_DATAGRAM_BYTES,
            Self::Iperf2 => limits::IPERF2_DATAGRAM_BYTES,
            Self::Netperf => limits::BARE_DATAGRAM_BYTES,
            Self::Nuttcp => limits::NUTTCP_DATAGRAM_BYTES,
        }
    }
}

/// Version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IpVersion {
    /// IPv4.
    #[serde(rename = "4")]
    V4,
    /// IPv6.
    #[serde(rename = "6")]
    V6,
}

impl IpVersion {
    /// Bytes of IP and UDP header before the payload, without options or extension headers.
    pub const fn udp_overhead(self) -> u32 {
        match self {
            Self::V4 => 20 + 8,
            Self::V6 => 40 + 8,
        }
    }

    /// 4 or 6.
    pub const fn number(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }
}

/// Which system calls carry the datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineChoice {
    /// Chosen from rate, size and burst; may change during the run when the kernel refuses.
    Auto,
    /// `UDP_SEGMENT` and `UDP_GRO`: one buffer, cut by the kernel or the card.
    Gso,
    /// `sendmmsg` and `recvmmsg`: many datagrams a call.
    Mmsg,
    /// One datagram a call.
    Send,
}

/// How a TCP receiver reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Receiving {
    /// As an application does.
    Copy,
    /// The kernel throws the bytes away (`MSG_TRUNC`).
    Discard,
}

/// How a TCP sender writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sending {
    /// As an application does.
    Copy,
    /// The same pages again and again (`sendfile`).
    Sendfile,
}

/// When a test ends. Counts are over all streams of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// After this much measured time.
    Time(Nanos),
    /// After exactly this many bytes of payload.
    Bytes(u64),
    /// After exactly this many datagrams.
    Datagrams(u64),
}

/// A stream of datagrams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UdpPlan {
    /// Payload of each datagram.
    pub size: DatagramSize,
    /// Over all streams of one direction; `None` is as fast as the host can.
    pub rate: Option<Rate>,
    /// No burst may be longer than this at the asked rate.
    pub burst: Nanos,
    /// Asked engine.
    pub engine: EngineChoice,
    /// Whether UDP checksums are made (only IPv4 can do without, RFC 768).
    pub checksum: bool,
}

impl UdpPlan {
    /// Datagrams of which only the size is said: as fast as the host can.
    pub const fn new(size: DatagramSize) -> Self {
        Self { size, rate: None, burst: Nanos(0), engine: EngineChoice::Auto, checksum: true }
    }
}

/// A byte stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpPlan {
    /// Bytes a write and a read.
    pub block: u32,
    /// `TCP_MAXSEG`.
    pub mss: Option<u32>,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `SO_MAX_PACING_RATE`, over all streams of one direction.
    pub rate: Option<BitRate>,
    /// Receivers throw the bytes away inside the kernel (`MSG_TRUNC`, tcp(7)) and never copy them.
    pub discard: bool,
    /// Senders hand the kernel the same pages again and again (`sendfile`) and never copy them.
    pub zerocopy: bool,
}

impl TcpPlan {
    /// Bytes of which only a block's number is said: as fast as the path carries, as the hosts have it.
    pub const fn new(block: u32) -> Self {
        Self {
            block,
            mss: None,
            congestion: None,
            nodelay: false,
            rate: None,
            discard: false,
            zerocopy: false,
        }
    }
}

/// Requests and responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RrPlan {
    /// What carries them.
    pub transport: Transport,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a response.
    pub response: u32,
    /// Requests in flight on each stream.
    pub outstanding: u32,
    /// Transactions per second over all streams, sent on a fixed schedule; `None` sends the next
    /// request when a response has come.
    pub rate: Option<u64>,
}

impl RrPlan {
    /// Most requests in flight on each stream. In an open loop whose user named no number they are as many as any test
    /// may have. `named`: over UDP the answers bear names by which they are told apart.
    pub fn most_in_flight(&self, named: bool) -> u64 {
        let asked = match self.rate {
            Some(_) if self.outstanding == 1 => limits::OUTSTANDING.max,
            _ => u64::from(self.outstanding),
        };
        let room = match self.transport {
            Transport::Udp if named => match self.request.min(self.response) {
                // Half of the names that fit into both messages, or two in flight would be mixed up.
                bytes @ 0..4 => 1 << (8 * bytes).saturating_sub(1),
                _ => u64::MAX,
            },
            Transport::Udp => u64::MAX,
            // No more bytes than the smallest usual buffers hold, or both ends would wait for the other to read.
            Transport::Tcp => {
                limits::FLIGHT_BYTES.max / u64::from(self.request.max(self.response).max(1))
            }
        };
        asked.min(room).max(1)
    }
}

/// What travels, without its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrafficKind {
    /// Datagrams one way.
    Udp,
    /// Bytes one way.
    Tcp,
    /// Requests and responses.
    Rr,
}

/// What travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// Datagrams one way.
    Udp(UdpPlan),
    /// Bytes one way.
    Tcp(TcpPlan),
    /// Requests and responses.
    Rr(RrPlan),
}

impl Traffic {
    /// Which of them it is.
    pub const fn kind(&self) -> TrafficKind {
        match self {
            Self::Udp(_) => TrafficKind::Udp,
            Self::Tcp(_) => TrafficKind::Tcp,
            Self::Rr(_) => TrafficKind::Rr,
        }
    }

    /// As in records: `udp`, `tcp`, `rr`.
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// What its data sockets are.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Udp(_) => Transport::Udp,
            Self::Tcp(_) => Transport::Tcp,
            Self::Rr(plan) => plan.transport,
        }
    }
}

/// What the user asked for, and what the client asks of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestPlan {
    /// What travels.
    pub traffic: Traffic,
    /// Which way.
    pub direction: Direction,
    /// Streams each way: a thread and a socket each.
    pub streams: u16,
    /// When it ends.
    pub end: End,
    /// Traffic before the measured time, counted apart.
    pub warmup: Nanos,
    /// Report interval.
    pub interval: Nanos,
    /// Socket buffers at both ends, as asked of the kernel.
    pub window: Option<u32>,
    /// Cores of the client's data threads: stream i runs on entry i modulo the length. Empty:
    /// chosen by the client.
    pub client_cpus: Vec<u16>,
    /// The same for the server.
    pub server_cpus: Vec<u16>,
    /// Differentiated services code point, RFC 2474.
    pub dscp: Option<u8>,
}

impl TestPlan {
    /// A test of which nothing else is said: ten seconds of one stream from the client.
    pub const fn new(traffic: Traffic) -> Self {
        Self {
            traffic,
            direction: Direction::Forward,
            streams: 1,
            end: End::Time(Nanos::from_secs(10)),
            warmup: Nanos(0),
            interval: Nanos::from_secs(1),
            window: None,
            client_cpus: Vec::new(),
            server_cpus: Vec::new(),
            dscp: None,
        }
    }

    /// Checks every number against [`limits`]. The one place where both ends do so.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.check_as(Dialect::Native)
    }

    /// A test by time begins with a datagram, so one whose rate allows less than one would send faster
    /// than it was asked to. iperf3's peers do that to each other: their dialect is not looked at.
    fn check_one_datagram(&self, bps: u64, size: DatagramSize) -> Result<(), OutOfRange> {
        let End::Time(time) = self.end else { return Ok(()) };
        let second = u128::from(NANOS_PER_SECOND);
        let least = (u128::from(size.bits()) * second).div_ceil(u128::from(time.0.max(1)));
        let least = u64::try_from(least).unwrap_or(u64::MAX);
        if bps >= least {
            return Ok(());
        }
        let max = limits::RATE_BPS.max;
        Err(OutOfRange { name: ONE_DATAGRAM.to_owned(), value: bps, min: least.min(max), max })
    }

    /// The same for a test in another dialect, whose header may be shorter.
    pub fn check_as(&self, dialect: Dialect) -> Result<(), OutOfRange> {
        limits::STREAMS.check(u64::from(self.streams))?;
        limits::WARMUP_NS.check(self.warmup.0)?;
        limits::INTERVAL_NS.check(self.interval.0)?;
        match self.end {
            End::Time(time) => {
                limits::DURATION_NS.check(time.0)?;
                let intervals = time.0.div_ceil(self.interval.0);
                limits::INTERVALS.check(intervals)?;
                limits::ROWS.check(intervals.saturating_mul(u64::from(self.threads())))?;
            }
            End::Bytes(bytes) => limits::BYTES.check(bytes)?,
            End::Datagrams(datagrams) => limits::DATAGRAMS.check(datagrams)?,
        }
        if let Some(window) = self.window {
            limits::WINDOW_BYTES.check(u64::from(window))?;
        }
        if let Some(dscp) = self.dscp {
            limits::DSCP.check(u64::from(dscp))?;
        }
        for cpus in [&self.client_cpus, &self.server_cpus] {
            if cpus.len() > limits::STREAMS.max as usize {
                limits::STREAMS.check(cpus.len() as u64)?;
            }
            for &core in cpus {
                limits::CORE.check(u64::from(core))?;
            }
        }
        match &self.traffic {
            Traffic::Udp(udp) => {
                dialect.datagram_bytes().check(u64::from(udp.size.bytes()))?;
                limits::BURST_NS.check(udp.burst.0)?;
                if let Some(rate) = udp.rate {
                    let bps = rate.bits_per_second(udp.size);
                    limits::RATE_BPS.check(bps)?;
                    if dialect == Dialect::Native {
                        self.check_one_datagram(bps, udp.size)?;
                    }
                }
                if let End::Bytes(bytes) = self.end {
                    // Each stream's share must hold one header.
                    let least = limits::DATAGRAM_BYTES.min;
                    if bytes / u64::from(self.streams) < least {
                        return Err(OutOfRange {
                            name: "bytes a stream".into(),
                            value: bytes / u64::from(self.streams),
                            min: least,
                            max: limits::BYTES.max,
                        });
                    }
                }
            }
            Traffic::Tcp(tcp) => {
                limits::BLOCK_BYTES.check(u64::from(tcp.block))?;
                limits::BLOCKS_BYTES.check(u64::from(tcp.block) * u64::from(self.threads()))?;
                if let Some(mss) = tcp.mss {
                    limits::MSS_BYTES.check(u64::from(mss))?;
                }
                if let Some(rate) = tcp.rate {
                    limits::RATE_BPS.check(rate.bits_per_second())?;
                }
            }
            Traffic::Rr(rr) => {
                limits::MESSAGE_BYTES.check(u64::from(rr.request))?;
                limits::MESSAGE_BYTES.check(u64::from(rr.response))?;
                limits::OUTSTANDING.check(u64::from(rr.outstanding))?;
                if rr.outstanding > 1 && rr.transport == Transport::Tcp {
                    let message = u64::from(rr.request.max(rr.response));
                    limits::FLIGHT_BYTES.check(u64::from(rr.outstanding) * message)?;
                }
                if let Some(rate) = rr.rate {
                    limits::RATE_TPS.check(rate)?;
                }
            }
        }
        Ok(())
    }

    /// Data threads at each end: streams both ways.
    pub fn threads(&self) -> u32 {
        u32::from(self.streams) * if self.direction == Direction::Both { 2 } else { 1 }
    }

    /// Intervals that both ends keep of each stream. A test by count may have more: its last one then
    /// holds the rest.
    pub fn intervals(&self) -> u64 {
        let most = limits::INTERVALS.max.min(limits::ROWS.max / u64::from(self.threads()).max(1));
        self.duration().map_or(most, |d| d.0.div_ceil(self.interval.0.max(1))).clamp(1, most)
    }

    /// Measured time, where the plan says it.
    pub fn duration(&self) -> Option<Nanos> {
        match self.end {
            End::Time(time) => Some(time),
            End::Bytes(_) | End::Datagrams(_) => None,
        }
    }
}

/// How much of `total` belongs to stream `index` of `streams`: shares differ by at most one and add
/// up exactly.
pub fn share(total: u64, streams: u16, index: u16) -> u64 {
    let streams = u64::from(streams.max(1));
    total / streams + u64::from(u64::from(index) < total % streams)
}

/// Where what both ends run is less than, or other than, what was asked. Part of the message and of the record, and in
/// neither is there one: what cannot be had is refused, or reported by a doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cut {
    /// What: `duration`, `window`, `engine`, `feature` …
    pub what: String,
    /// Asked, in words.
    pub asked: String,
    /// Agreed, in words.
    pub agreed: String,
    /// Why.
    pub why: String,
}

/// What both ends will run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgreedPlan {
    /// The plan that runs.
    pub plan: TestPlan,
    /// None; see [`Cut`].
    pub cuts: Vec<Cut>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prints_its_name<T: Serialize + AsRef<str> + Copy>(words: &[T]) {
        for word in words {
            assert_eq!(serde_json::to_value(word).unwrap(), word.as_ref());
        }
    }

    #[test]
    fn words_have_the_names_of_their_json() {
        use PlanDirection as To;
        prints_its_name(&[To::Forward, To::Reverse, To::Both, To::Discard]);
        prints_its_name(&[Way::Forward, Way::Reverse]);
        prints_its_name(&[Transport::Udp, Transport::Tcp]);
        prints_its_name(&[TrafficKind::Udp, TrafficKind::Tcp, TrafficKind::Rr]);
        prints_its_name(&Dialect::ALL);
        use EngineChoice as Engine;
        prints_its_name(&[Engine::Auto, Engine::Gso, Engine::Mmsg, Engine::Send]);
        prints_its_name(&[Receiving::Copy, Receiving::Discard]);
        prints_its_name(&[Sending::Copy, Sending::Sendfile]);
    }

    #[test]
    fn a_rate_that_sends_no_datagram_in_the_time_is_out_of_range() {
        let plan = |rate, end| {
            let udp = UdpPlan::new(DatagramSize::new(1_000).unwrap());
            let rate = BitRate::new(rate).map(Rate::Bits);
            TestPlan { end, ..TestPlan::new(Traffic::Udp(UdpPlan { rate, ..udp })) }
        };
        // 8,000 bits in 3 s need 2,667 bit/s.
        let time = End::Time(Nanos::from_secs(3));
        let found = plan(2_666, time).check().unwrap_err();
        assert_eq!((found.name.as_str(), found.value, found.min), (ONE_DATAGRAM, 2_666, 2_667));
        assert_eq!(plan(2_667, time).check(), Ok(()));
        assert_eq!(plan(1, End::Datagrams(1)).check(), Ok(()));
        assert_eq!(plan(1, time).check_as(Dialect::Iperf3), Ok(()));
    }

    #[test]
    fn no_test_keeps_more_intervals_than_both_ends_do() {
        let (transport, rate) = (Transport::Udp, None);
        let rr = Traffic::Rr(RrPlan { transport, request: 1, response: 1, outstanding: 1, rate });
        let mut plan =
            TestPlan { end: End::Datagrams(1), interval: Nanos(10_000_000), ..TestPlan::new(rr) };
        assert_eq!(plan.intervals(), limits::INTERVALS.max);
        (plan.direction, plan.streams) = (Direction::Both, 128);
        assert_eq!(plan.intervals(), limits::ROWS.max / 256);
        plan.end = End::Time(Nanos(25_000_000));
        assert_eq!(plan.intervals(), 3);
        plan.interval = Nanos(u64::MAX);
        assert_eq!(plan.intervals(), 1);
    }

    #[test]
    fn an_open_loop_has_as_many_in_flight_as_any_test_unless_a_number_is_named() {
        let most = |transport, (request, response), outstanding, rate| {
            let rr = RrPlan { transport, request, response, outstanding, rate };
            [true, false].map(|named| rr.most_in_flight(named))
        };
        let (udp, tcp, rate) = (Transport::Udp, Transport::Tcp, Some(1_000));
        assert_eq!(most(udp, (100, 100), 1, None), [1; 2]);
        assert_eq!(most(udp, (100, 100), 1, rate), [65_536; 2]);
        assert_eq!(most(udp, (100, 100), 8, rate), [8; 2]);
        // As many names as the shorter message has room for, halved.
        assert_eq!(most(udp, (1, 100), 1, rate), [128, 65_536]);
        assert_eq!(most(udp, (100, 2), 1, rate), [32_768, 65_536]);
        assert_eq!(most(tcp, (1, 1_000), 1, rate), [65; 2]);
        assert_eq!(most(tcp, (1, 1_000_000), 4, None), [1; 2]);
        assert_eq!(most(udp, (0, 0), 0, None), [1; 2]);
    }

    #[test]
    fn shares_add_up_exactly() {
        for (total, streams) in [(0u64, 1u16), (1, 3), (10, 3), (u64::MAX, 128), (127, 128)] {
            let sum: u128 = (0..streams).map(|i| u128::from(share(total, streams, i))).sum();
            assert_eq!(sum, u128::from(total));
        }
    }
}
