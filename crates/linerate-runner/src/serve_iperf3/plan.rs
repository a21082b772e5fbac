//! What an iperf3 client's parameters mean to the data threads.

use linerate_model::limits;
use linerate_model::plan::{
    AgreedPlan, Dialect, Direction, End, IpVersion, TcpPlan, TestPlan, Traffic, Transport, UdpPlan,
};
use linerate_model::test_event::Asked;
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_wire::framing::Framing;
use linerate_wire::iperf3::{ErrorNumber, Failure, Parameters, Protocol};
use linerate_wire::native::message::RefusalKind;

use crate::admission;
use crate::data::{self, burst_time};
use crate::options::Options;

/// Block of a TCP test that names none.
const TCP_BLOCK: i64 = 131_072;
/// Datagram of a UDP test that names none: what releases up to 3.12 take then.
const UDP_BLOCK: i64 = 1_460;
/// Only the client ends a test; the server's senders stop by themselves this long after its time.
pub(super) const GRACE: Nanos = Nanos(2_000_000_000);
/// Rows that the threads of one test keep at most; the interval grows with the test.
const MOST_ROWS: u64 = 20_000;
/// No burst is longer than this at the asked rate, unless the client names one in blocks.
const BURST: Nanos = Nanos(100_000);

/// What a test needs beside its plan.
#[derive(Debug, Clone)]
pub(super) struct Test {
    pub(super) plan: AgreedPlan,
    pub(super) framing: Framing,
    pub(super) asked: Asked,
    /// Don't-fragment of IPv4.
    pub(super) dont_fragment: bool,
    /// Senders repeat the ten digits.
    pub(super) digits: bool,
    /// The client wants to see what this server shows.
    pub(super) output: bool,
    pub(super) version: String,
}

/// A test that is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) failure: Failure,
    pub(super) why: String,
}

impl Refusal {
    /// On what ground, in the words of linerate's own protocol.
    pub(super) fn kind(&self) -> RefusalKind {
        match self.failure.number {
            ErrorNumber::BUSY => RefusalKind::Busy,
            ErrorNumber::AUTHORISATION => RefusalKind::Key,
            ErrorNumber::RECEIVE_PARAMETERS => RefusalKind::Protocol,
            ErrorNumber::CREATE_STREAM | ErrorNumber::ACCEPT_CONTROL | ErrorNumber::AFFINITY => {
                RefusalKind::Unable
            }
            _ => RefusalKind::Policy,
        }
    }
}

pub(super) fn refuse(number: ErrorNumber, why: impl Into<String>) -> Refusal {
    Refusal { failure: Failure { number, errno: 0 }, why: why.into() }
}

impl Test {
    /// Holds the parameters against the table of limits and the server's policy.
    pub(super) fn new(p: &Parameters, ip: IpVersion, options: &Options) -> Result<Self, Refusal> {
        match p.protocol {
            Protocol::Sctp => return Err(refuse(ErrorNumber::PROTOCOL, "SCTP is not spoken here")),
            _ if p.mptcp => {
                let why = "multipath TCP is not spoken here: data streams would be plain TCP";
                return Err(refuse(ErrorNumber::PROTOCOL, why));
            }
            _ => {}
        }
        p.check().map_err(|unfit| refuse(unfit.number, unfit.to_string()))?;
        let asked = asked(p);
        let threads =
            u64::from(asked.parallel) * if asked.direction == Direction::Both { 2 } else { 1 };
        let most = options.max_duration.0;
        let (omit, time) =
            (u64::from(asked.omit_s) * 1_000_000_000, u64::from(asked.time_s) * 1_000_000_000);
        let by_time = asked.bytes == 0 && asked.blocks == 0 && time > 0;
        if omit >= most || by_time && omit + time > most {
            let why = format!("longer than this server's {}", options.max_duration);
            return Err(refuse(ErrorNumber::TOO_LONG, why));
        }
        // Its end is by time here, as the client alone counts: `admission::check` sees no bytes.
        let ways = if asked.direction == Direction::Both { 2 } else { 1 };
        let blocks = asked.blocks.saturating_mul(asked.block_bytes.into());
        let bytes = asked.bytes.max(blocks).saturating_mul(ways);
        if let Some(most) = options.max_bytes
            && bytes > most
        {
            let why = format!("{bytes} bytes are more than this server's {most}");
            return Err(refuse(ErrorNumber::END_CONDITIONS, why));
        }
        // The senders' own end, should the client never end the test.
        let end = if by_time { time.saturating_add(GRACE.0) } else { most - omit };
        let end = end.clamp(limits::DURATION_NS.min, limits::DURATION_NS.max);
        let interval = end.saturating_mul(threads).div_ceil(MOST_ROWS).max(options.interval.0);
        let total = asked.rate_bps.saturating_mul(u64::from(asked.parallel));
        let rate = BitRate::new(total);
        let traffic = match asked.transport {
            Transport::Udp => Traffic::Udp(UdpPlan {
                rate: rate.map(Rate::Bits),
                burst: burst(&asked),
                ..UdpPlan::new(DatagramSize::new(asked.block_bytes).ok_or_else(|| {
                    refuse(ErrorNumber::UDP_BLOCK_SIZE, "no datagram has that size")
                })?)
            }),
            Transport::Tcp => Traffic::Tcp(TcpPlan {
                mss: Some(asked.mss_bytes).filter(|mss| *mss > 0),
                // Another one is a wish, as in iperf3; the results say which was used.
                congestion: p
                    .congestion
                    .clone()
                    .filter(|name| admission::has_congestion_control(name)),
                nodelay: p.nodelay,
                rate: fq_total(&asked).or(rate),
                discard: p.skip_rx_copy,
                zerocopy: p.zerocopy,
                ..TcpPlan::new(asked.block_bytes)
            }),
        };
        let plan = TestPlan {
            direction: asked.direction,
            streams: asked.parallel,
            end: End::Time(Nanos(end)),
            warmup: Nanos(omit),
            interval: Nanos(interval.clamp(limits::INTERVAL_NS.min, limits::INTERVAL_NS.max)),
            window: Some(asked.window_bytes)
                .filter(|window| *window > 0)
                // The kernel grants no less than twice this.
                .map(|window| window.max(limits::WINDOW_BYTES.min as u32)),
            server_cpus: p
                .server_affinity
                .and_then(|core| u16::try_from(core).ok())
                .into_iter()
                .collect(),
            ..TestPlan::new(traffic)
        };
        let policy = Options { max_duration: Nanos(u64::MAX), ..options.clone() };
        admission::check(&plan, Dialect::Iperf3, ip, &policy).map_err(|refused| {
            let number = match refused.kind {
                RefusalKind::Policy if plan.streams > options.max_streams => ErrorNumber::STREAMS,
                RefusalKind::Policy => ErrorNumber::RATE,
                RefusalKind::Unable => ErrorNumber::AFFINITY,
                _ if asked.mss_bytes > 0 && u64::from(asked.mss_bytes) < limits::MSS_BYTES.min => {
                    ErrorNumber::MSS
                }
                _ if total > limits::RATE_BPS.max => ErrorNumber::RATE,
                _ => ErrorNumber::BLOCK_SIZE,
            };
            refuse(number, refused.why)
        })?;
        let test = Self {
            plan: AgreedPlan { plan, cuts: vec![] },
            framing: Framing::Iperf3 { wide: p.udp_counters_64bit },
            asked,
            dont_fragment: p.dont_fragment,
            digits: p.repeating_payload,
            output: p.get_server_output,
            version: p.client_version.clone().unwrap_or_default(),
        };
        test.check_burst(options.max_rate)?;
        Ok(test)
    }

    /// Whether what this server sends at once keeps to that rate.
    pub(super) fn check_burst(&self, most: Option<BitRate>) -> Result<(), Refusal> {
        let asked = &self.asked;
        if !asked.direction.has_reverse() {
            return Ok(());
        }
        admission::check_burst(asked.burst, asked.block_bytes, asked.parallel, most)
            .map_err(|refused| refuse(ErrorNumber::RATE, refused.why))
    }

    /// The plan of its sockets: blocks that leave at once are paced by `--fq-rate` alone.
    pub(super) fn of_sockets(&self) -> TestPlan {
        let Self { plan: AgreedPlan { plan, .. }, asked, .. } = self;
        let unpaced = asked.burst > 1 && asked.fq_rate_bps == 0;
        if unpaced { data::unpaced(plan) } else { plan.clone() }
    }

    /// Agreed time in nanoseconds, of a test that ends by it.
    pub(super) fn time_ns(&self) -> Option<u64> {
        let asked = &self.asked;
        (asked.bytes == 0 && asked.blocks == 0 && asked.time_s > 0)
            .then(|| u64::from(asked.time_s) * 1_000_000_000)
    }

    /// In words, for the server's log.
    pub(super) fn describe(&self) -> String {
        let asked = &self.asked;
        let direction = match asked.direction {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
            Direction::Both => "both ways",
        };
        let rate = BitRate::new(asked.rate_bps)
            .map_or("unlimited".to_owned(), |rate| format!("{rate} each"));
        let protocol = self.plan.plan.traffic.name();
        let version: String = self.version.chars().take(20).collect();
        format!("iperf3 {version}: {protocol} {direction}, {} streams, {rate}", asked.parallel)
    }
}

/// Parameters that passed their check, as numbers that fit.
fn asked(p: &Parameters) -> Asked {
    let (transport, block) = match p.protocol {
        Protocol::Udp => (Transport::Udp, UDP_BLOCK),
        Protocol::Tcp | Protocol::Sctp => (Transport::Tcp, TCP_BLOCK),
    };
    let number = |value: Option<i64>, absent: i64| {
        u32::try_from(value.unwrap_or(absent)).unwrap_or(u32::MAX)
    };
    let large = |value: Option<i64>| u64::try_from(value.unwrap_or(0)).unwrap_or(0);
    let direction = match (p.bidirectional, p.reverse) {
        (true, _) => Direction::Both,
        (false, true) => Direction::Reverse,
        (false, false) => Direction::Forward,
    };
    Asked {
        transport,
        direction,
        parallel: u16::try_from(p.parallel.unwrap_or(1)).unwrap_or(u16::MAX),
        block_bytes: number(p.len, block),
        rate_bps: large(p.bandwidth),
        fq_rate_bps: large(p.fqrate),
        burst: number(p.burst, 0),
        omit_s: number(p.omit, 0),
        time_s: number(p.time, 10),
        bytes: large(p.num),
        blocks: large(p.blockcount),
        tos: u8::try_from(p.tos.unwrap_or(0)).unwrap_or(0),
        window_bytes: number(p.window, 0),
        mss_bytes: number(p.mss, 0),
        title: p.title.clone(),
        extra_data: p.extra_data.clone(),
        trips: false,
    }
}

/// `--fq-rate` paces where `-b` names nothing.
fn fq_total(asked: &Asked) -> Option<BitRate> {
    let lower = match (asked.fq_rate_bps, asked.rate_bps) {
        (0, _) => return None,
        (fq, 0) => fq,
        (fq, rate) => fq.min(rate),
    };
    BitRate::new(lower.saturating_mul(u64::from(asked.parallel)))
}

/// So many blocks at once as time at the asked rate.
fn burst(asked: &Asked) -> Nanos {
    if asked.burst == 0 || asked.rate_bps == 0 {
        return BURST;
    }
    burst_time(asked.burst, asked.block_bytes, asked.rate_bps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(text: &str) -> Result<Test, Refusal> {
        with(text, &Options::default())
    }

    fn with(text: &str, options: &Options) -> Result<Test, Refusal> {
        let p = Parameters::decode(text.as_bytes()).unwrap();
        Test::new(&p, IpVersion::V4, options)
    }

    #[test]
    fn what_absent_keys_mean() {
        let tcp = test("{}").unwrap();
        let plan = &tcp.plan.plan;
        let Traffic::Tcp(stream) = &plan.traffic else { panic!() };
        assert_eq!(
            (stream.block, plan.streams, plan.end),
            (131_072, 1, End::Time(Nanos::from_secs(12)))
        );
        assert!(!stream.discard && stream.rate.is_none());
        let udp = test(r#"{"udp":true}"#).unwrap();
        let Traffic::Udp(stream) = &udp.plan.plan.traffic else { panic!() };
        assert_eq!((stream.size.bytes(), stream.rate), (1_460, None));
        assert_eq!(udp.framing, Framing::Iperf3 { wide: false });
        // Smaller than linerate's own header, and legal here.
        assert!(test(r#"{"udp":true,"len":16}"#).is_ok());
    }

    #[test]
    fn rates_are_of_each_stream() {
        let t =
            test(r#"{"udp":true,"len":1000,"parallel":4,"bandwidth":1000000,"burst":10}"#).unwrap();
        let Traffic::Udp(udp) = &t.plan.plan.traffic else { panic!() };
        assert_eq!(udp.rate.map(|r| r.bits_per_second(udp.size)), Some(4_000_000));
        assert_eq!(udp.burst, Nanos(80_000_000));
        let t = test(r#"{"parallel":2,"fqrate":1000000,"bandwidth":3000000}"#).unwrap();
        let Traffic::Tcp(tcp) = &t.plan.plan.traffic else { panic!() };
        assert_eq!(tcp.rate.map(|r| r.bits_per_second()), Some(2_000_000));
    }

    #[test]
    fn the_kernel_does_not_spread_blocks_that_leave_at_once() {
        let paced = |text: &str| {
            let test = test(text).unwrap();
            let of = |plan: &TestPlan| match &plan.traffic {
                Traffic::Tcp(tcp) => tcp.rate.map(|rate| rate.bits_per_second()),
                _ => panic!("{plan:?}"),
            };
            (of(&test.plan.plan), of(&test.of_sockets()))
        };
        let rate = Some(8_000_000);
        assert_eq!(paced(r#"{"bandwidth":8000000,"burst":10}"#), (rate, None));
        for text in [
            r#"{"bandwidth":8000000}"#,
            r#"{"bandwidth":8000000,"burst":1}"#,
            r#"{"bandwidth":8000000,"burst":10,"fqrate":9000000}"#,
        ] {
            assert_eq!(paced(text), (rate, rate), "{text}");
        }
    }

    #[test]
    fn a_long_test_keeps_few_rows() {
        let options = Options { max_duration: Nanos::from_secs(200_000), ..Options::default() };
        for text in [
            r#"{"time":86400,"parallel":128,"bidirectional":true,"len":1000}"#,
            r#"{"time":0,"omit":600}"#,
            r#"{"num":1}"#,
        ] {
            let t = with(text, &options).unwrap();
            let plan = &t.plan.plan;
            let rows =
                plan.duration().unwrap().0.div_ceil(plan.interval.0) * u64::from(plan.threads());
            assert!(rows <= MOST_ROWS + u64::from(plan.threads()), "{rows}");
        }
    }

    #[test]
    fn the_servers_policy_holds() {
        let options = Options {
            max_duration: Nanos::from_secs(20),
            max_rate: BitRate::new(10_000_000),
            max_bytes: Some(1_000_000),
            max_streams: 4,
            ..Options::default()
        };
        for (text, number) in [
            (r#"{"bandwidth":1000,"time":21}"#, ErrorNumber::TOO_LONG),
            (r#"{"bandwidth":1000,"time":11,"omit":10}"#, ErrorNumber::TOO_LONG),
            (r#"{"bandwidth":1000,"time":0,"omit":20}"#, ErrorNumber::TOO_LONG),
            (r#"{"bandwidth":1000,"parallel":5}"#, ErrorNumber::STREAMS),
            (r#"{"bandwidth":3000000,"parallel":4}"#, ErrorNumber::RATE),
            (r#"{"time":1}"#, ErrorNumber::RATE),
            (r#"{"bandwidth":1000,"num":1000001,"time":0}"#, ErrorNumber::END_CONDITIONS),
            (
                r#"{"udp":true,"bandwidth":1000,"len":1000,"blockcount":1001,"time":0}"#,
                ErrorNumber::END_CONDITIONS,
            ),
            (
                r#"{"bandwidth":1000,"num":500001,"time":0,"bidirectional":true}"#,
                ErrorNumber::END_CONDITIONS,
            ),
            (r#"{"bandwidth":1000,"server_affinity":1000}"#, ErrorNumber::AFFINITY),
            (r#"{"bandwidth":1000,"MSS":50}"#, ErrorNumber::MSS),
            (r#"{"sctp":true}"#, ErrorNumber::PROTOCOL),
            (r#"{"mptcp":true,"tcp":true}"#, ErrorNumber::PROTOCOL),
            (r#"{"parallel":0}"#, ErrorNumber::STREAMS),
            // The table of limits comes before the policy of this server.
            (r#"{"bandwidth":1000,"parallel":128,"len":1048576}"#, ErrorNumber::BLOCK_SIZE),
        ] {
            assert_eq!(with(text, &options).unwrap_err().failure.number, number, "{text}");
        }
        assert!(with(r#"{"bandwidth":1000,"time":0}"#, &options).is_ok());
        // What leaves at once is of the rate, too: half a second of it on all streams together.
        let burst = |way: &str, blocks: u32| {
            let flow = r#""udp":true,"bandwidth":1000,"len":1000,"parallel":4"#;
            with(&format!(r#"{{{flow},"burst":{blocks}{way}}}"#), &options)
        };
        for way in [r#","reverse":true"#, r#","bidirectional":true"#] {
            assert!(burst(way, 156).is_ok(), "{way}");
            let refused = burst(way, 157).unwrap_err();
            assert_eq!(refused.failure.number, ErrorNumber::RATE, "{}", refused.why);
        }
        assert!(burst("", 157).is_ok(), "it is the client that sends");
        let big = r#"{"parallel":128,"len":1048576}"#;
        assert_eq!(test(big).unwrap_err().failure.number, ErrorNumber::BLOCK_SIZE);
        assert_eq!(
            test(r#"{"parallel":128,"bandwidth":10000000000000}"#).unwrap_err().failure.number,
            ErrorNumber::RATE
        );
    }
}
