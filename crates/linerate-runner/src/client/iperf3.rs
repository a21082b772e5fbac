//! The client in iperf3's dialect: the same data threads, pacing, accounting, record and verdict
//! as in linerate's own, over iperf3's control connection. `docs/iperf3.md` has the sequence.

mod ask;
pub(crate) mod open;

pub use ask::Extras;

use std::sync::Arc;

use linerate_dialect::habits;
use linerate_dialect::iperf3::client::{Client, Ended as Measured, MOST_SETTLE_NS, Terms};
use linerate_engine::{clock, sys};
use linerate_model::plan::{Dialect, Traffic, Way};
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord, PlanRecord};
use linerate_model::test_event::{self, Connected, TestEvent};
use linerate_model::units::DatagramSize;
use linerate_session::assemble::HostSamples;
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::iperf3::{Cookie, Parameters, State};
use tokio::net::TcpStream;

use self::ask::{fitted, parameters};
use self::open::{Iperf3, asked, stream};
use super::driver::{Driver, Over};
use super::open::Opening;
use super::test::{ClientTest, Ended, unchanged};
use crate::data::Streams;
use crate::data::{self, SocketFacts};
use crate::errors;
use crate::host::facts;
use crate::line::nanos;
use crate::random::random;

/// Waits this long beyond two round trips for what is on its way, before the end is said. Less than
/// a tenth of iperf3's usual interval, which it then leaves out of its report.
const SETTLE_NS: u64 = 50_000_000;

/// What the first byte that a server says means, where it can be only iperf3's.
pub(super) fn first_word(byte: u8) -> Option<State> {
    // A message of linerate's own begins with a length below 2^24.
    let first = |state: &State| {
        matches!(state, State::ParamExchange | State::AccessDenied | State::ServerError)
    };
    State::from_byte(byte).filter(first)
}

/// Runs the test. `cookie` has been sent already when the server was found to be an iperf3 by its
/// answer.
pub(super) async fn conduct(
    test: &mut ClientTest<'_>,
    control: TcpStream,
    greeted: Option<Cookie>,
    observer: &mut dyn Observer,
) -> Result<(), ErrorRecord> {
    let extras = test.request.iperf3.clone();
    let sample = sys::tcp_sample(&control);
    let mss = sample.as_ref().and_then(|tcp| u32::try_from(tcp.mss_bytes?).ok());
    let rtt_ns = sample.as_ref().and_then(|tcp| tcp.rtt_ns);
    let parameters = ask(test, mss)?;
    let frame = parameters
        .encode()
        .map_err(|e| errors::no_such_test(Dialect::Iperf3, "--dialect iperf3", &e.to_string()))?;
    let connected = Connected { peer: test.peer, local: test.local, mss, rtt_ns: None };
    observer.event(&TestEvent::Connected(connected.clone()));
    let cookie = greeted.unwrap_or_else(|| Cookie::from_random(random()));
    // Both ends in one network namespace: its counters are the receiver's.
    let same_host = test.peer.ip() == test.local.ip();
    test.record.asked.ip = Some(test.ip.number());
    let mut agreed = PlanRecord::of(&test.plan, Some(test.ip));
    agreed.dialect = Dialect::Iperf3.into();
    test.record.client = facts(test.peer).await;

    let settle_ns = SETTLE_NS.saturating_add(rtt_ns.unwrap_or(0).saturating_mul(2));
    let terms = Terms {
        plan: test.plan.clone(),
        cookie: greeted.is_none().then_some(cookie),
        parameters: frame,
        patience_ns: nanos(extras.patience),
        silence_ns: nanos(extras.silence),
        settle_ns: settle_ns.min(MOST_SETTLE_NS),
        rtt_ns: rtt_ns.unwrap_or(0),
    };
    let ids = data::streams(test.plan.direction, test.plan.streams);
    let wide = parameters.udp_counters_64bit;
    let streams = Streams {
        agreed: Arc::new(unchanged(&test.plan)),
        ip: test.ip,
        token: u64::from_be_bytes(random()),
        framing: Framing::Iperf3 { wide },
        habits: habits::IPERF3,
        digits: false,
        preface: vec![],
        burst: extras.burst,
        cores: test.cores(&ids, false, &[]),
    };
    let mut opener = test.opener();
    if extras.burst > 1 && extras.fq_rate_bps == 0 {
        opener.plan = data::unpaced(&opener.plan);
    }
    let opening = Opening::start(Iperf3 {
        opener,
        cookie,
        first_port: extras.first_port,
        patience: extras.patience,
    });
    let asked = asked(&test.plan, &parameters);
    let (local, peer) = (test.local, test.peer);
    let announce = move |facts: &[SocketFacts]| {
        let first = facts.first();
        let start = test_event::Start {
            client: true,
            control: connected,
            cookie: cookie.text(),
            asked,
            streams: ids
                .iter()
                .zip(facts)
                .map(|(id, facts)| stream(*id, facts, (local, peer), Way::Forward))
                .collect(),
            send_buffer: first.map(|facts| facts.send_buffer),
            receive_buffer: first.map(|facts| facts.receive_buffer),
        };
        Some(TestEvent::Start(Box::new(start)))
    };
    let conversation = Client::new(terms, clock::monotonic_ns());
    let watched = (&mut test.record, Box::new(announce) as _);
    let driver =
        Driver::new(test.request, conversation, control, opening, streams, watched, observer);
    let Over { conversation, fault, host } = Box::pin(driver.run()).await;
    if let Some(Err(trouble)) = conversation.outcome() {
        return Err(fault.unwrap_or_else(|| test.failed(trouble)));
    }
    test.record.agreed = Some(agreed);
    if same_host {
        test.record.server = Some(test.record.client.clone());
    }
    let counters = host.total.as_ref().map(|total| total.counters).filter(|_| same_host);
    let drops = counters.and_then(|counters| counters.udp_receive_buffer_errors);
    let ended = conversation.ended(clock::monotonic_ns(), drops, extras.get_server_output);
    finish(test, ended, (host, same_host), observer);
    Ok(())
}

/// The plan as iperf3's dialect can run it becomes the test's, and what says so to the server.
fn ask(test: &mut ClientTest<'_>, mss: Option<u32>) -> Result<Parameters, ErrorRecord> {
    let extras = &test.request.iperf3;
    if extras.size_from_mss
        && let (Traffic::Udp(udp), Some(mss)) = (&mut test.plan.traffic, mss)
    {
        udp.size = DatagramSize::new(mss.min(65_507)).unwrap_or(udp.size);
        test.record.asked.datagram_bytes = Some(u32::from(udp.size.bytes()));
    }
    let (plan, cuts) = fitted(&test.plan, extras.burst)?;
    let parameters = parameters(&plan, extras, &test.plan);
    test.plan = plan;
    let doubts = cuts.into_iter().map(|text| Doubt::new(DoubtKind::Degraded, text));
    test.record.doubts.extend(doubts);
    parameters.check().map_err(|e| {
        let what = format!("--dialect iperf3: {}", e.why.name);
        errors::no_such_test(Dialect::Iperf3, &what, &e.to_string())
    })?;
    Ok(parameters)
}

/// From what both ends reported to the record, and to what users of iperf3 see.
fn finish(
    test: &mut ClientTest<'_>,
    measured: Measured,
    (client, same_host): (HostSamples, bool),
    observer: &mut dyn Observer,
) {
    let Measured { streams, ends, span_ns, cpu, far_cpu, interrupted, results, .. } = measured;
    let trouble = measured.trouble.map(|trouble| test.failed(trouble));
    let server = if same_host { client.clone() } else { HostSamples::default() };
    let ended = Ended { interrupted, trouble, stopping: None, results };
    test.conclude(streams, ended, (client, server), None, same_host, habits::IPERF3);
    let shown = usize::try_from(measured.shown).unwrap_or(usize::MAX);
    test.record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
    observer.event(&TestEvent::End(Box::new(test_event::End {
        streams: ends,
        span_ns,
        cpu,
        far_cpu,
        congestion: measured.congestion,
        far_congestion: measured.far_congestion,
        server_output: measured.server_output,
        error: test.record.error.clone(),
        interrupted,
    })));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_iperf3_begins_with_these_bytes() {
        assert!([9, 0xff, 0xfe].iter().all(|byte| first_word(*byte).is_some()));
        assert!([0, 1, b'H'].iter().all(|byte| first_word(*byte).is_none()));
    }
}
