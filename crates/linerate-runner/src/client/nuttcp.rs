//! The client in nuttcp's dialect: the same data threads, pacing, accounting, record and verdict as in
//! linerate's own, over nuttcp's control connection.

mod ask;
mod open;

pub use ask::Extras;
pub(super) use ask::fit;

use std::sync::Arc;

use linerate_dialect::habits::{self, BlockReport, Habits};
use linerate_dialect::nuttcp::client::{Client, Terms};
use linerate_engine::{clock, sys};
use linerate_model::plan::{Dialect, Way};
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord, PlanRecord};
use linerate_model::test_event::{Cpu, End, ServerOutput, Side, StreamEnd, TestEvent};
use linerate_session::assemble::HostSamples;
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::nuttcp::datagram::Turn;
use tokio::net::TcpStream;

use self::open::Nuttcp;
use super::driver::{Driver, Over};
use super::open::Opening;
use super::seen;
use super::test::{ClientTest, Ended, unchanged};
use crate::data::{self, SocketFacts, Streams};
use crate::random::random;

/// An answer may take this long, in nanoseconds: a server that misses the end of datagrams waits 15 s for it.
const PATIENCE_NS: u64 = 20_000_000_000;

/// Runs the test; `greeted` is on a connection where the server has heard this end's greeting.
pub(super) async fn conduct(
    test: &mut ClientTest<'_>,
    control: TcpStream,
    greeted: bool,
    observer: &mut dyn Observer,
) -> Result<(), ErrorRecord> {
    let cuts = ask::fit(&mut test.plan)?;
    let doubts = cuts.into_iter().map(|text| Doubt::new(DoubtKind::Degraded, text));
    test.record.doubts.extend(doubts);
    // The server comes to these before anything else is said.
    let extras = test.request.nuttcp.clone();
    let opener = Nuttcp::ready(test.opener(), extras.data_port())?;
    let mut asked = ask::parameters(&test.plan, opener.port());
    extras.fill(&mut asked);
    // Both ends in one network namespace: its counters are the receiver's.
    let same_host = test.peer.ip() == test.local.ip();
    test.record.asked.ip = Some(test.ip.number());
    let mut agreed = PlanRecord::of(&test.plan, Some(test.ip));
    agreed.dialect = Dialect::Nuttcp.into();
    extras.note(&mut agreed);
    let ids = data::streams(test.plan.direction, test.plan.streams);
    let counted = asked.counts_sent();
    let block_report =
        if asked.server_tells() { BlockReport::Window } else { BlockReport::Nothing };
    let habits = Habits { numbered: counted, block_report, ..habits::NUTTCP };
    let streams = Streams {
        agreed: Arc::new(unchanged(&test.plan)),
        ip: test.ip,
        token: u64::from_be_bytes(random()),
        framing: Framing::Nuttcp {
            size: asked.length,
            turn: counted.then(|| Turn::first_of(test.plan.streams)),
        },
        habits,
        preface: vec![],
        digits: false,
        burst: extras.burst,
        cores: test.cores(&ids, false, &[]),
    };
    let opening = Opening::start(opener);
    let terms = Terms { plan: test.plan.clone(), asked, greeted, patience_ns: PATIENCE_NS };
    let conversation = Client::new(terms, clock::monotonic_ns());
    // Nothing was said on it: it is that of its handshake, and the data goes the same way.
    let fresh = sys::tcp_sample(&control);
    let (plan, ends) = (test.plan.clone(), (test.local, test.peer));
    let announce = move |facts: &[SocketFacts]| {
        let mut event = seen::start(&plan, ends, Way::Forward, (&ids, facts));
        if let (TestEvent::Start(start), Some(tcp)) = (&mut event, fresh) {
            start.control.mss = tcp.mss_bytes.and_then(|mss| u32::try_from(mss).ok());
            start.control.rtt_ns = tcp.rtt_ns;
        }
        Some(event)
    };
    let watched = (&mut test.record, Box::new(announce) as _);
    let used = clock::process_cpu_ns();
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
    let ended = conversation.ended();
    let trouble = ended.trouble.map(|trouble| test.failed(trouble));
    let server = if same_host { host.clone() } else { HostSamples::default() };
    let how =
        Ended { interrupted: ended.interrupted, trouble, stopping: None, results: ended.results };
    test.conclude(ended.streams, how, (host, server), None, same_host, habits);
    let shown = usize::try_from(ended.shown).unwrap_or(usize::MAX);
    test.record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
    let now = clock::process_cpu_ns();
    // The words of the end take seconds in which nothing works.
    let span_ns = ended.span_ns;
    // Of less than a microsecond there is no share.
    let share = |now: u64, then: u64| match span_ns {
        0..1_000 => 0.0,
        _ => 100.0 * now.saturating_sub(then) as f64 / span_ns as f64,
    };
    // Of a short test most is what was made ready, which is not the data's.
    let total = share(ended.ends.iter().map(busy_ns).sum(), 0);
    let (user, system) = (share(now.0, used.0), share(now.1, used.1));
    observer.event(&TestEvent::End(Box::new(End {
        streams: ended.ends,
        span_ns,
        cpu: Cpu { total, user, system },
        server_output: Some(ServerOutput::Text(ended.lines.join("\n"))),
        error: test.record.error.clone(),
        interrupted: ended.interrupted,
        ..End::default()
    })));
    Ok(())
}

/// What a stream's threads took of this end's cores, in nanoseconds.
fn busy_ns(end: &StreamEnd) -> u64 {
    match &end.here {
        Side::Send(sent) => sent.thread.all_ns(),
        Side::Recv(received) => received.thread.all_ns(),
    }
}
