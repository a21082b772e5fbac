//! What is asked of the server: the plan as its dialect can run it, and the header that says so.

use linerate_model::plan::{Dialect, Direction, End, TestPlan, Traffic};
use linerate_model::record::ErrorRecord;
use linerate_model::units::Nanos;
use linerate_wire::iperf2::burst::BURST_BYTES;
use linerate_wire::iperf2::datagram::MARK_BYTES;
use linerate_wire::iperf2::{Amount, Header};

use crate::errors;

/// Times travel as hundredths of a second.
const HUNDREDTH_NS: u64 = 10_000_000;

fn no_iperf2_test(what: &str, why: &str) -> ErrorRecord {
    errors::no_such_test(Dialect::Iperf2, what, why)
}

/// The plan as this dialect can run it, and what that changed.
pub(super) fn fitted(plan: &TestPlan) -> Result<(TestPlan, Vec<String>), ErrorRecord> {
    let mut plan = plan.clone();
    let mut cuts = Vec::new();
    if let Traffic::Rr(_) = plan.traffic {
        return Err(no_iperf2_test("request/response", "this client has iperf 2's streams only"));
    }
    if plan.direction == Direction::Both {
        let why = "this client sends or receives on a stream: run a test each way";
        return Err(no_iperf2_test("both directions at once", why));
    }
    if plan.warmup.0 > 0 {
        plan.warmup = Nanos(0);
        cuts.push("iperf 2 has no warm-up: its server counts from the first datagram".into());
    }
    if let End::Time(time) = plan.end
        && !time.0.is_multiple_of(HUNDREDTH_NS)
        && plan.direction.has_reverse()
    {
        plan.end = End::Time(Nanos(time.0.next_multiple_of(HUNDREDTH_NS)));
        cuts.push("iperf 2 ends at hundredths of a second: the test is that much longer".into());
    }
    if !plan.server_cpus.is_empty() {
        plan.server_cpus.clear();
        cuts.push("an iperf 2 server cannot be told on which cores to run".into());
    }
    if let (Traffic::Udp(udp), true) = (&plan.traffic, plan.direction.has_reverse())
        && !udp.checksum
    {
        cuts.push("an iperf 2 server cannot be asked to leave out UDP checksums".into());
    }
    plan.check_as(Dialect::Iperf2).map_err(|e| no_iperf2_test(&e.name, &e.to_string()))?;
    Ok((plan, cuts))
}

/// What says it to the server.
pub(super) fn header(plan: &TestPlan) -> Result<Header, ErrorRecord> {
    let streams = u64::from(plan.streams.max(1));
    let (unit, rate, wide) = match &plan.traffic {
        Traffic::Udp(udp) => {
            let rate = udp.rate.map(|rate| rate.bits_per_second(udp.size));
            (u32::from(udp.size.bytes()), rate, true)
        }
        Traffic::Tcp(tcp) => (tcp.block, tcp.rate.map(|rate| rate.bits_per_second()), false),
        Traffic::Rr(_) => (0, None, false),
    };
    let reverse = plan.direction == Direction::Reverse;
    let bytes = |bytes: u64| match u32::try_from(bytes / streams) {
        Ok(bytes) if bytes <= i32::MAX as u32 => Ok(Some(Amount::Bytes(bytes))),
        // Who sends knows by itself how much.
        _ if !reverse => Ok(None),
        _ => Err(no_iperf2_test(
            &format!("{bytes} bytes"),
            "its servers are told 31 bits of them a stream: end by --time, or ask for fewer",
        )),
    };
    let amount = match plan.end {
        End::Time(time) => {
            let hundredths = u32::try_from(time.0.div_ceil(HUNDREDTH_NS)).unwrap_or(u32::MAX);
            Some(Amount::Time(hundredths))
        }
        End::Bytes(total) => bytes(total)?,
        End::Datagrams(count) => bytes(count.saturating_mul(unit.into()))?,
    };
    Ok(Header {
        streams: plan.streams.into(),
        // Servers of 2.1.8 write beyond their buffer when they are told of larger blocks than their own.
        length: if wide { unit } else { 0 },
        amount,
        wide,
        reverse,
        detect: !wide && !reverse,
        rate_bps: rate.map(|rate| rate / streams).filter(|rate| *rate > 0),
        ..Header::default()
    })
}

/// Whether times have their place in what is sent, behind a header of so many bytes.
pub(super) fn check_trips(plan: &TestPlan, trips: bool, header: usize) -> Result<(), ErrorRecord> {
    let (what, bytes, least) = match &plan.traffic {
        Traffic::Udp(udp) => ("datagrams", u32::from(udp.size.bytes()), MARK_BYTES + header),
        Traffic::Tcp(tcp) => ("blocks", tcp.block, BURST_BYTES),
        Traffic::Rr(_) => return Ok(()),
    };
    if !trips || bytes as usize >= least {
        return Ok(());
    }
    let why = format!("its times need {what} of {least} bytes: ask for that many");
    Err(no_iperf2_test(&format!("--trip-times with {what} of {bytes} bytes"), &why))
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::{RrPlan, TcpPlan, Transport, UdpPlan};
    use linerate_model::units::{DatagramSize, Rate};

    use super::*;

    fn plan(traffic: Traffic, direction: Direction, end: End) -> TestPlan {
        TestPlan { direction, streams: 2, end, ..TestPlan::new(traffic) }
    }

    fn udp() -> Traffic {
        let rate = Some(Rate::Datagrams(250.try_into().unwrap()));
        Traffic::Udp(UdpPlan { rate, ..UdpPlan::new(DatagramSize::new(1_000).unwrap()) })
    }

    fn tcp() -> Traffic {
        Traffic::Tcp(TcpPlan { discard: true, ..TcpPlan::new(524_288) })
    }

    fn shortened(traffic: Traffic, bytes: u32) -> Traffic {
        match traffic {
            Traffic::Udp(udp) => {
                let size = DatagramSize::new(bytes).unwrap();
                Traffic::Udp(UdpPlan { size, ..udp })
            }
            Traffic::Tcp(tcp) => Traffic::Tcp(TcpPlan { block: bytes, ..tcp }),
            Traffic::Rr(rr) => Traffic::Rr(rr),
        }
    }

    #[test]
    fn a_stream_is_asked_for_its_share() {
        let time = End::Time(Nanos(1_234_567_890));
        let asked = header(&plan(udp(), Direction::Forward, time)).unwrap();
        assert_eq!((asked.streams, asked.length, asked.wide), (2, 1_000, true));
        assert_eq!((asked.rate_bps, asked.amount), (Some(1_000_000), Some(Amount::Time(124))));
        let count = End::Datagrams(10);
        let asked = header(&plan(udp(), Direction::Reverse, count)).unwrap();
        assert_eq!((asked.reverse, asked.amount), (true, Some(Amount::Bytes(5_000))));
        let asked = header(&plan(tcp(), Direction::Forward, time)).unwrap();
        assert!(asked.detect && !asked.wide && asked.length == 0, "{asked:?}");
        let asked = header(&plan(tcp(), Direction::Reverse, time)).unwrap();
        assert!(!asked.detect && asked.reverse, "{asked:?}");
        // More than its servers can be told matters only where they send.
        let much = End::Bytes(1 << 33);
        assert_eq!(header(&plan(tcp(), Direction::Forward, much)).unwrap().amount, None);
        assert!(header(&plan(tcp(), Direction::Reverse, much)).is_err());
    }

    #[test]
    fn what_it_cannot_carry_is_said_or_refused() {
        let time = End::Time(Nanos(1_234_567_890));
        let mut asked = plan(udp(), Direction::Reverse, time);
        asked.warmup = Nanos::from_secs(1);
        asked.server_cpus = vec![1];
        let (fitted_plan, cuts) = fitted(&asked).unwrap();
        assert_eq!(cuts.len(), 3, "{cuts:?}");
        assert_eq!(fitted_plan.end, End::Time(Nanos(1_240_000_000)));
        assert!(fitted_plan.warmup == Nanos(0) && fitted_plan.server_cpus.is_empty());
        assert!(fitted(&plan(udp(), Direction::Forward, time)).unwrap().1.is_empty());
        assert!(fitted(&plan(udp(), Direction::Both, time)).is_err());
        for (traffic, least) in [(udp(), 128), (tcp(), 92)] {
            let bytes = header(&plan(traffic.clone(), Direction::Forward, time)).unwrap();
            let header = Header { began_ns: Some(0), ..bytes }.encode().len();
            let short = plan(shortened(traffic.clone(), least - 1), Direction::Forward, time);
            assert!(check_trips(&short, false, header).is_ok());
            let error = check_trips(&short, true, header).unwrap_err();
            assert!(error.why.contains(&format!("of {least} bytes")), "{error:?}");
            let whole = plan(shortened(traffic, least), Direction::Forward, time);
            assert!(check_trips(&whole, true, header).is_ok());
        }
        let transport = Transport::Udp;
        let rr = RrPlan { transport, request: 1, response: 1, outstanding: 1, rate: None };
        assert!(fitted(&plan(Traffic::Rr(rr), Direction::Forward, time)).is_err());
    }
}
