//! The client in nuttcp's dialect: the same data threads, pacing, accounting, record and verdict as in
//! linerate's own, over nuttcp's control connection.

mod ask;
mod open;

use std::sync::Arc;

use linerate_dialect::habits::{self, Habits};
use linerate_dialect::nuttcp::client::{Client, Terms};
use linerate_engine::clock;
use linerate_model::plan::Dialect;
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord, PlanRecord};
use linerate_session::assemble::HostSamples;
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use tokio::net::TcpStream;

use self::open::Nuttcp;
use super::driver::{Driver, Over};
use super::open::Opening;
use super::test::{ClientTest, Ended, unchanged};
use crate::data::{self, Streams};
use crate::random::random;

/// An answer may take this long, in nanoseconds: a server that misses the end of datagrams waits 15 s for it.
const PATIENCE_NS: u64 = 20_000_000_000;

/// Runs the test.
pub(super) async fn conduct(
    test: &mut ClientTest<'_>,
    control: TcpStream,
    observer: &mut dyn Observer,
) -> Result<(), ErrorRecord> {
    let cuts = ask::fit(&mut test.plan)?;
    let doubts = cuts.into_iter().map(|text| Doubt::new(DoubtKind::Degraded, text));
    test.record.doubts.extend(doubts);
    // The server comes to these before anything else is said.
    let opener = Nuttcp::ready(test.opener(), ask::DATA_PORT)?;
    let asked = ask::parameters(&test.plan, opener.port());
    // Both ends in one network namespace: its counters are the receiver's.
    let same_host = test.peer.ip() == test.local.ip();
    test.record.asked.ip = Some(test.ip.number());
    let mut agreed = PlanRecord::of(&test.plan, Some(test.ip));
    agreed.dialect = Dialect::Nuttcp.into();
    let ids = data::streams(test.plan.direction, test.plan.streams);
    let counted = asked.counts_sent();
    let habits = Habits { numbered: counted, ..habits::NUTTCP };
    let streams = Streams {
        agreed: Arc::new(unchanged(&test.plan)),
        ip: test.ip,
        token: u64::from_be_bytes(random()),
        framing: Framing::Nuttcp { size: asked.length, counted },
        habits,
        preface: vec![],
        digits: false,
        burst: 0,
        cores: test.cores(&ids, false, &[]),
    };
    let opening = Opening::start(opener);
    let terms = Terms { plan: test.plan.clone(), asked, patience_ns: PATIENCE_NS };
    let conversation = Client::new(terms, clock::monotonic_ns());
    let watched = (&mut test.record, Box::new(|_: &[_]| None) as _);
    let driver = Driver::new(conversation, control, opening, streams, watched, observer);
    let Over { conversation, fault, host } = driver.run().await;
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
    Ok(())
}
