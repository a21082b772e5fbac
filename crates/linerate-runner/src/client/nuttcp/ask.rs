//! What is asked of the server: the plan as its dialect can run it, and the line that says so.

use std::num::NonZeroU16;

use linerate_model::plan::{Dialect, Direction, End, TestPlan, Traffic};
use linerate_model::record::{ErrorRecord, PlanRecord};
use linerate_model::units::{BitRate, Nanos, Rate};
use linerate_wire::nuttcp::Parameters;

use crate::errors;

/// Of the first stream, as clients from 6.2.8 on.
const DATA_PORT: u16 = 5_101;
/// A line says so many writes at most, in nuttcp's 31 bits; one more means none.
const MOST_COUNT: u64 = 2_147_483_646;
/// Figures are asked for as they are written for programs, and round trips as clients do.
const FORMAT: u32 = 0x800 | PARSE_STYLE;
const PARSE_STYLE: u32 = 0x40;

/// What users of nuttcp ask beyond a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extras {
    /// The first stream's data port.
    pub data_port: Option<NonZeroU16>,
    /// `SO_SNDBUF` and `SO_RCVBUF` of the server, in bytes, where they are not the plan's; 0 leaves them to its system.
    pub far_window: Option<u32>,
    /// A test by an amount that is not done by then ends all the same, in nanoseconds.
    pub at_most_ns: Option<u64>,
    /// So many datagrams or blocks leave this end at once; of none or one nothing is asked.
    pub burst: u32,
    /// A server that sends keeps the time of each datagram.
    pub instantaneous: bool,
    /// The server's text is for people: its lines are shown.
    pub text: bool,
}

impl Extras {
    pub(super) fn data_port(&self) -> u16 {
        self.data_port.map_or(DATA_PORT, NonZeroU16::get)
    }

    /// Adds them to what the plan asks.
    pub(super) fn fill(&self, asked: &mut Parameters) {
        asked.window = self.far_window.map(u64::from).or(asked.window);
        asked.time_us = asked.time_us.or(self.at_most_ns.map(|ns| ns.div_ceil(1_000)));
        asked.instantaneous = self.instantaneous;
        asked.burst = Some(self.burst).filter(|burst| *burst > 1 && !asked.client_sends);
        if self.text {
            asked.format &= !PARSE_STYLE;
        }
    }

    /// Adds to the plan of a record what a plan does not say.
    pub(in crate::client) fn note(&self, plan: &mut PlanRecord) {
        let at_most_s = self.at_most_ns.map(|ns| Nanos(ns).as_secs_f64());
        plan.duration_s = plan.duration_s.or(at_most_s);
    }
}

fn none(what: &str, why: &str) -> ErrorRecord {
    errors::no_such_test(Dialect::Nuttcp, what, why)
}

/// Makes the plan one that this dialect can run; what that changed, in words.
///
/// # Errors
/// Where nuttcp has no such test.
pub(in crate::client) fn fit(plan: &mut TestPlan) -> Result<Vec<String>, ErrorRecord> {
    if matches!(plan.traffic, Traffic::Rr(_)) {
        return Err(none("requests and responses", "nuttcp has streams only"));
    }
    if plan.direction == Direction::Both {
        return Err(none("both directions", "nuttcp's tests have one: start a client for each"));
    }
    if plan.warmup.0 > 0 {
        return Err(none("a warm-up", "nuttcp's servers count from the first byte on"));
    }
    let reverse = plan.direction.has_reverse();
    let mut cuts = of_amount(plan);
    if let (End::Datagrams(MOST_COUNT..), true) = (plan.end, reverse) {
        let why = "its line has room for 2,147,483,646: ask for a time";
        return Err(none("so many datagrams or blocks from its server", why));
    }
    if let [core, _, ..] = plan.server_cpus[..] {
        plan.server_cpus.truncate(1);
        cuts.push(format!("a nuttcp server runs on one core: it is asked for {core}"));
    }
    if reverse {
        cuts.extend(of_server(plan));
    }
    plan.check_as(Dialect::Nuttcp).map_err(|e| none(&e.name, &e.to_string()))?;
    Ok(cuts)
}

/// Bytes are those of whole datagrams; and of whole writes where the server makes them.
fn of_amount(plan: &mut TestPlan) -> Vec<String> {
    let unit = match &plan.traffic {
        Traffic::Udp(udp) => u64::from(udp.size.bytes()),
        Traffic::Tcp(tcp) if plan.direction.has_reverse() => u64::from(tcp.block.max(1)),
        _ => return vec![],
    };
    let End::Bytes(bytes) = plan.end else { return vec![] };
    plan.end = End::Datagrams(bytes.div_ceil(unit));
    let whole = bytes.is_multiple_of(unit);
    let cut =
        || format!("nuttcp carries whole datagrams or blocks of {unit} bytes: the last is full");
    (!whole).then(cut).into_iter().collect()
}

/// What a server that sends cannot be told, and so does not keep.
fn of_server(plan: &mut TestPlan) -> Vec<String> {
    let mut cuts = Vec::new();
    let rate = match &mut plan.traffic {
        Traffic::Udp(udp) => {
            if !std::mem::replace(&mut udp.checksum, true) {
                cuts.push("a nuttcp server cannot be asked to leave out UDP checksums".into());
            }
            let bps = udp.rate.map(|rate| rate.bits_per_second(udp.size));
            let whole = bps.and_then(whole_kbps);
            udp.rate = whole.map(Rate::Bits);
            bps.zip(whole)
        }
        Traffic::Tcp(tcp) => {
            if tcp.congestion.take().is_some() {
                cuts.push("a nuttcp server cannot be asked for a congestion control".into());
            }
            let bps = tcp.rate.map(|rate| rate.bits_per_second());
            tcp.rate = bps.and_then(whole_kbps);
            bps.zip(tcp.rate)
        }
        Traffic::Rr(_) => None,
    };
    if let Some((_, whole)) = rate.filter(|(bps, whole)| *bps != whole.bits_per_second()) {
        cuts.push(format!("nuttcp's rates are whole kbit/s: the server sends {whole}"));
    }
    cuts
}

/// At most the rate, and one kbit/s at least.
fn whole_kbps(bps: u64) -> Option<BitRate> {
    BitRate::new((bps / 1_000).max(1) * 1_000)
}

/// The line; data comes to `port` of whoever receives.
pub(super) fn parameters(plan: &TestPlan, port: u16) -> Parameters {
    let forward = plan.direction.has_forward();
    let (length, rate, udp) = match &plan.traffic {
        Traffic::Udp(udp) => {
            let rate = udp.rate.map(|rate| rate.bits_per_second(udp.size));
            (u32::from(udp.size.bytes()), rate, true)
        }
        Traffic::Tcp(tcp) => (tcp.block, tcp.rate.map(|rate| rate.bits_per_second()), false),
        Traffic::Rr(_) => (1, None, false),
    };
    let (mss, nodelay) = match &plan.traffic {
        Traffic::Tcp(tcp) => (tcp.mss, tcp.nodelay),
        _ => (None, false),
    };
    let count = match plan.end {
        End::Datagrams(count) => Some(count),
        End::Bytes(bytes) => Some(bytes.div_ceil(u64::from(length.max(1)))),
        End::Time(_) => None,
    };
    Parameters {
        length,
        count: count.filter(|count| *count <= MOST_COUNT),
        window: plan.window.map(u64::from),
        streams: plan.streams.into(),
        rate_kbps: rate.map(|bps| (bps / 1_000).max(1)).filter(|kbps| *kbps < u64::from(u32::MAX)),
        instantaneous: false,
        port: port.into(),
        client_sends: forward,
        udp,
        time_us: plan.duration().map(|time| time.0.div_ceil(1_000)),
        // A receiver says what came in each then, datagrams carry counts, and blocks what was sent again.
        interval_us: Some(plan.interval.0 / 1_000),
        flipped: false,
        format: FORMAT,
        traceroute: false,
        third_party: false,
        multicast: false,
        mss,
        tos: plan.dscp.map(|dscp| dscp << 2).filter(|tos| *tos > 0),
        nodelay,
        core: plan.server_cpus.first().map(|core| u32::from(*core)),
        burst: None,
        striding: false,
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::Transport;
    use linerate_model::units::DatagramSize;
    use linerate_testkit::plans;

    use super::*;

    fn udp(direction: Direction, end: End) -> TestPlan {
        let udp = linerate_model::plan::UdpPlan {
            size: DatagramSize::new(1_000).unwrap(),
            rate: BitRate::new(1_234_567).map(Rate::Bits),
            ..plans::udp()
        };
        TestPlan { direction, end, streams: 1, warmup: Nanos(0), ..plans::plan(Traffic::Udp(udp)) }
    }

    #[test]
    fn the_line_says_what_the_plan_does() {
        let mut plan = udp(Direction::Forward, End::Time(Nanos(1_500_000_000)));
        plan.interval = Nanos(250_000_000);
        plan.dscp = Some(46);
        assert_eq!(fit(&mut plan).unwrap(), Vec::<String>::new());
        let asked = parameters(&plan, 5_101);
        assert!(asked.client_sends && asked.udp && asked.counts_sent());
        assert_eq!((asked.time_us, asked.interval_us), (Some(1_500_000), Some(250_000)));
        assert_eq!((asked.rate_kbps, asked.tos, asked.count), (Some(1_234), Some(184), None));
        plan.streams = 2;
        assert!(parameters(&plan, 5_101).counts_sent());
        // An amount may have a time beside it.
        let plan = udp(Direction::Forward, End::Datagrams(5));
        let mut both = parameters(&plan, 5_101);
        let extras = Extras { at_most_ns: Some(1_500), ..Extras::default() };
        extras.fill(&mut both);
        assert_eq!((both.count, both.time_us), (Some(5), Some(2)));
        let mut record = PlanRecord::of(&plan, None);
        extras.note(&mut record);
        assert_eq!((record.datagrams, record.duration_s), (Some(5), Some(1.5e-6)));
    }

    #[test]
    fn what_a_server_is_not_told_is_said() {
        let mut plan = udp(Direction::Reverse, End::Bytes(1_500));
        plan.server_cpus = vec![3, 4];
        let cuts = fit(&mut plan).unwrap();
        assert_eq!(cuts.len(), 3, "{cuts:?}");
        assert_eq!(plan.end, End::Datagrams(2));
        assert_eq!(parameters(&plan, 5_101).core, Some(3));
        let Traffic::Udp(flow) = &plan.traffic else { panic!("{plan:?}") };
        assert_eq!(flow.rate.map(|rate| rate.bits_per_second(flow.size)), Some(1_234_000));
    }

    #[test]
    fn what_nuttcp_has_not_is_refused() {
        let time = End::Time(Nanos::from_secs(1));
        let mut warm = udp(Direction::Forward, time);
        warm.warmup = Nanos::from_secs(1);
        let rr = TestPlan { traffic: Traffic::Rr(plans::rr(Transport::Tcp)), ..warm.clone() };
        let many = udp(Direction::Reverse, End::Datagrams(1 << 31));
        for mut plan in [warm, rr, many, udp(Direction::Both, time)] {
            assert!(fit(&mut plan).is_err(), "{plan:?}");
        }
        // Who sends knows by itself how much.
        let mut many = udp(Direction::Forward, End::Datagrams(1 << 31));
        assert!(fit(&mut many).is_ok() && parameters(&many, 5_101).count.is_none());
    }
}
