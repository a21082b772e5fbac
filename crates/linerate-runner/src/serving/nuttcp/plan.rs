//! From a nuttcp client's parameters to a plan that this server's owner allows.

use linerate_model::limits;
use linerate_model::plan::{
    Dialect, Direction, End, EngineChoice, IpVersion, TcpPlan, TestPlan, Traffic, UdpPlan,
};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_wire::native::message::{RefusalKind, Refused};
use linerate_wire::nuttcp::Parameters;

use crate::admission;
use crate::data::burst_time;
use crate::options::Options;

/// Rows that the data threads of one test keep at most; the interval grows with the test.
const MOST_ROWS: u64 = 10_000;
/// Ports below are other servers'.
const LEAST_PORT: u32 = 1_024;

pub(super) fn refuse(kind: RefusalKind, why: &str) -> Refused {
    Refused { kind, why: why.to_owned(), hints: vec![] }
}

/// Holds parameters against the table of limits and the server's policy.
pub(super) fn plan(
    asked: &Parameters,
    ip: IpVersion,
    options: &Options,
) -> Result<TestPlan, Refused> {
    possible(asked)?;
    let (end, span) = end(asked, options);
    let wanted = asked.interval_us.map_or(options.interval.0, |us| us.saturating_mul(1_000));
    let interval = span.div_ceil(MOST_ROWS).max(wanted);
    let clamped = |value: u64, limit: limits::Limit| value.clamp(limit.min, limit.max);
    let window = asked.window.map(|window| clamped(window, limits::WINDOW_BYTES));
    let plan = TestPlan {
        traffic: traffic(asked, options)?,
        direction: if asked.client_sends { Direction::Forward } else { Direction::Reverse },
        streams: u16::try_from(asked.streams).unwrap_or(u16::MAX),
        end,
        warmup: Nanos(0),
        interval: Nanos(clamped(interval, limits::INTERVAL_NS)),
        window: window.and_then(|window| u32::try_from(window).ok()),
        client_cpus: vec![],
        server_cpus: admission::wished_core(asked.core.and_then(|core| core.try_into().ok())),
        dscp: asked.tos.map(|tos| tos >> 2),
    };
    // Of a count and a time the time is what may be too long.
    let end = asked.time_us.map_or(plan.end, |_| End::Time(Nanos(span)));
    admission::check(&TestPlan { end, ..plan.clone() }, Dialect::Nuttcp, ip, options)?;
    Ok(plan)
}

/// Whether this server does such tests at all.
fn possible(asked: &Parameters) -> Result<(), Refused> {
    let last = asked.port.saturating_add(asked.streams.saturating_sub(1));
    let why = if asked.third_party {
        "a test with a third host is not made here: start a client there"
    } else if asked.traceroute {
        "traceroute is not run here"
    } else if asked.multicast {
        "tests with groups are not made here"
    } else if asked.striding {
        "ports and addresses in strides are not used here"
    } else if asked.port < LEAST_PORT || last > u16::MAX.into() {
        "data ports must lie from 1024 to 65535: name another with -p"
    } else {
        return Ok(());
    };
    Err(refuse(RefusalKind::Policy, why))
}

/// The end, and how long it may last in nanoseconds.
fn end(asked: &Parameters, options: &Options) -> (End, u64) {
    let longest = options.max_duration.0.clamp(limits::DURATION_NS.min, limits::DURATION_NS.max);
    let span = asked.time_us.map_or(longest, |us| us.saturating_mul(1_000));
    // Of a count and a time the first ends a test: who sends counts, who receives hears of the end.
    let count = asked.count.filter(|_| !asked.client_sends || asked.time_us.is_none());
    (count.map_or(End::Time(Nanos(span)), End::Datagrams), span)
}

fn traffic(asked: &Parameters, options: &Options) -> Result<Traffic, Refused> {
    let rate = asked.rate_kbps.map(|kbps| BitRate::new(kbps.saturating_mul(1_000)));
    let rate = rate.flatten();
    if asked.udp {
        let bits = |burst: u32| u64::from(burst) * u64::from(asked.length) * 8;
        if let (Some(burst @ 2..), Some(rate), false) = (asked.burst, rate, asked.client_sends)
            && bits(burst) > rate.bits_per_second()
        {
            return Err(refuse(RefusalKind::Policy, "a burst of more than a second is not sent"));
        }
        if let Some(burst) = asked.burst.filter(|_| !asked.client_sends) {
            let streams = u16::try_from(asked.streams).unwrap_or(u16::MAX);
            admission::check_burst(burst, asked.length, streams, options.max_rate)?;
        }
        limits::NUTTCP_DATAGRAM_BYTES
            .check(asked.length.into())
            .map_err(|e| refuse(RefusalKind::OutOfRange, &e.to_string()))?;
        return Ok(Traffic::Udp(UdpPlan {
            size: DatagramSize::new(asked.length).unwrap_or(DatagramSize::MAX),
            rate: rate.map(Rate::Bits),
            burst: match (asked.burst, rate) {
                (Some(burst), Some(rate)) if !asked.client_sends => {
                    burst_time(burst, asked.length, rate.bits_per_second())
                }
                _ => Nanos(0),
            },
            engine: EngineChoice::Auto,
            checksum: true,
        }));
    }
    let mss = asked.mss.map(|mss| {
        let (least, most) = (limits::MSS_BYTES.min as u32, limits::MSS_BYTES.max as u32);
        mss.clamp(least, most)
    });
    Ok(Traffic::Tcp(TcpPlan {
        block: asked.length,
        mss,
        congestion: None,
        nodelay: asked.nodelay,
        rate,
        discard: false,
        zerocopy: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Parameters {
        let all = "buflen = 1000, nbuf = 2147483647, win = 0, nstream = 1, rate = 1000, \
                   port = 5101, trans = 1, braindead = 0, timeout = 2.500000, udp = 1, \
                   vers = 8.2.2, interval = 0.000000, ";
        let named = |pair: &str| pair.split('=').next().unwrap_or_default().trim().to_owned();
        let kept = all.split(',').filter(|pair| !text.split(',').any(|p| named(p) == named(pair)));
        let line = kept.chain(text.split(',')).collect::<Vec<_>>().join(",");
        Parameters::decode(line.as_bytes()).unwrap()
    }

    fn made(text: &str) -> Result<TestPlan, Refused> {
        plan(&asked(text), IpVersion::V4, &Options::default())
    }

    /// Also beside a count, and no more by what a count could come to.
    #[test]
    fn the_time_of_a_test_is_what_an_owner_limits() {
        let far = "trans = 0, nbuf = 7, timeout = 7200.000000";
        assert_eq!(made(far).unwrap_err().kind, RefusalKind::Policy);
        let limited = Options { max_bytes: Some(1 << 20), ..Options::default() };
        let much = asked("trans = 0, nbuf = 999999999, timeout = 1.000000");
        let made = plan(&much, IpVersion::V4, &limited).unwrap();
        assert_eq!(made.end, End::Datagrams(999_999_999));
    }

    #[test]
    fn a_plan_is_what_was_asked() {
        let udp = made("interval = 0.500000, tos = b8").unwrap();
        assert_eq!(udp.end, End::Time(Nanos(2_500_000_000)));
        assert_eq!((udp.interval, udp.dscp), (Nanos(500_000_000), Some(46)));
        let Traffic::Udp(flow) = &udp.traffic else { panic!("{udp:?}") };
        let rate = flow.rate.map(|rate| rate.bits_per_second(flow.size));
        assert_eq!((flow.size.bytes(), rate), (1_000, Some(1_000_000)));
        let tcp = made(
            "udp = 0, rate = 4294967295, trans = 0, timeout = 0.000000, nbuf = 7, nstream = 3, \
             win = 1, datamss = 60000, nodelay = 1, affinity = 4000",
        );
        let tcp = tcp.unwrap();
        assert_eq!((tcp.direction, tcp.streams), (Direction::Reverse, 3));
        assert_eq!((tcp.end, tcp.window), (End::Datagrams(7), Some(1_024)));
        // This host has none of that number.
        assert!(tcp.server_cpus.is_empty());
        let core = linerate_host::cores::allowed_cores()[0];
        let bound = made(&format!("affinity = {core}")).unwrap();
        assert_eq!(bound.server_cpus, [u16::try_from(core).unwrap()]);
        let Traffic::Tcp(flow) = &tcp.traffic else { panic!("{tcp:?}") };
        assert_eq!(
            (flow.block, flow.mss, flow.nodelay, flow.rate),
            (1_000, Some(32_767), true, None)
        );
        // Bursts are of the rate, whoever sends them.
        let burst = |fields: &str| match made(fields).unwrap().traffic {
            Traffic::Udp(udp) => udp.burst,
            other => panic!("{other:?}"),
        };
        assert_eq!(burst("trans = 0, rate = 8000, maxburst = 10"), Nanos(10_000_000));
        assert_eq!(burst("rate = 8000, maxburst = 10"), Nanos(0));
        // Without an end it has the owner's.
        let endless = made("timeout = 0.000000").unwrap();
        assert_eq!(endless.end, End::Time(Options::default().max_duration));
        let both = |trans: u8| made(&format!("trans = {trans}, nbuf = 7")).unwrap().end;
        assert_eq!((both(0), both(1)), (End::Datagrams(7), End::Time(Nanos(2_500_000_000))));
    }

    #[test]
    fn a_burst_of_all_streams_is_of_the_owners_rate() {
        let options = Options { max_rate: BitRate::new(8_000_000), ..Options::default() };
        let burst = |fields: &str| plan(&asked(fields), IpVersion::V4, &options);
        // Half a second of the rate is 500 datagrams.
        assert!(burst("trans = 0, rate = 8000, maxburst = 500").is_ok());
        for fields in ["trans = 0, maxburst = 501", "trans = 0, nstream = 2, maxburst = 251"] {
            let refused = burst(&format!("{fields}, rate = 8000")).unwrap_err();
            assert!(refused.why.contains("half a second"), "{refused:?}");
        }
        assert!(burst("rate = 8000, maxburst = 501").is_ok(), "it is the client that sends");
    }

    #[test]
    fn what_is_not_made_is_refused_with_the_reason() {
        for (text, why) in [
            ("thirdparty = 127.0.0.1", "third host"),
            ("traceroute = 1", "traceroute"),
            ("multicast = 4", "groups"),
            ("stride = 1", "strides"),
            ("port = 1023", "1024"),
            ("port = 65535, nstream = 2", "65535"),
            ("port = 4294967295, nstream = 4294967295", "65535"),
            ("nstream = 129", "streams"),
            ("nstream = 0", "streams"),
            // As much at once as would be the whole test.
            ("trans = 0, rate = 1, maxburst = 4294967295", "burst"),
            ("buflen = 4", "datagram size"),
            ("buflen = 65508", "datagram size"),
            ("udp = 0, buflen = 4294967295", "block"),
            ("udp = 0, buflen = 0", "block"),
            ("timeout = 7200.000000", "longer than"),
            ("nbuf = 4611686018427387904, timeout = 0.000000", "datagrams"),
        ] {
            let refused = made(text).unwrap_err();
            assert!(refused.why.contains(why), "{text}: {refused:?}");
        }
    }
}
