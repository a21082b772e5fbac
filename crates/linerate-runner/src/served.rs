//! What the server's log says of a test: made of its plan and of its data threads' reports, the same
//! way for every dialect.

use std::net::{IpAddr, SocketAddr};

pub(crate) use linerate_dialect::ending::Early;
use linerate_model::plan::{Dialect, TestPlan, Traffic};
use linerate_model::sample::{RecvCounts, RecvReport, SendCounts, SendReport, Trips};
use linerate_model::served::{Outcome, ServedReceived, ServedResult, ServedSent, ServedTest};
use linerate_session::assemble::wall_clock_delay;

use crate::data::Report;
use crate::keys::Key;
use crate::standstill;

/// A client's name for its test is cut nowhere: one that is longer, or odd, is none.
const MOST_ID_BYTES: usize = 64;

/// What is known when a test begins. `id` is the client's own word.
pub(crate) fn test(
    id: Option<&str>,
    peer: SocketAddr,
    dialect: Dialect,
    key: Option<&Key>,
    plan: &TestPlan,
) -> ServedTest {
    let plain = |id: &&str| {
        (1..=MOST_ID_BYTES).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let (asked_bps, asked_per_second) = match &plan.traffic {
        Traffic::Udp(udp) => (udp.rate.map(|rate| rate.bits_per_second(udp.size)), None),
        Traffic::Tcp(tcp) => (tcp.rate.map(|rate| rate.bits_per_second()), None),
        Traffic::Rr(rr) => (None, rr.rate),
    };
    ServedTest {
        id: id.filter(plain).map(str::to_owned),
        peer: peer.to_string(),
        key: key.map(|key| key.name.clone()),
        dialect,
        kind: plan.traffic.kind(),
        direction: plan.direction,
        streams: plan.streams,
        asked_bps,
        asked_per_second,
    }
}

/// What is known of this end, at `local`, goes first where the client seems to be at fault.
pub(crate) fn explained(early: Early, local: IpAddr) -> Early {
    match early.outcome {
        Outcome::Vanished | Outcome::Failed => {
            Early { why: standstill::explained(&early.why, local), ..early }
        }
        _ => early,
    }
}

/// How a test ended and what its streams measured: `reports` of all of them, or none; `udp` where they
/// count datagrams; `time_ns` where the measured time was agreed.
pub(crate) fn result<'a>(
    ended: Result<(), Early>,
    udp: bool,
    time_ns: Option<u64>,
    reports: impl Iterator<Item = &'a Report>,
) -> ServedResult {
    let (mut received, mut sent) = (Received::default(), Sent::default());
    // What was agreed counts for a whole test only: silence after a client's end is no measured time.
    received.least_ns = time_ns.filter(|_| ended.is_ok());
    let (mut answered, mut answering_ns) = (None, None);
    for report in reports {
        match report {
            Report::Recv(report) => received.add(report),
            Report::Send(report) => sent.add(report),
            Report::Respond(report) => {
                let before: u64 = answered.unwrap_or(0);
                answered = Some(before.saturating_add(report.answered));
                answering_ns = answering_ns.max(Some(report.span_ns).filter(|span| *span > 0));
            }
            Report::Rr(_) => {}
        }
    }
    let (outcome, why) = match ended {
        Ok(()) => (Outcome::Done, None),
        Err(early) => (early.outcome, Some(early.why)),
    };
    ServedResult {
        outcome,
        why,
        seconds: received.span_ns().max(sent.span_ns()).max(answering_ns).map(seconds),
        received: received.figures(udp),
        sent: sent.figures(udp),
        answered,
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn rate(bytes: u64, span_ns: Option<u64>) -> Option<f64> {
    span_ns.map(|span| bytes as f64 * 8e9 / span as f64)
}

/// Streams that receive, as one.
#[derive(Default)]
struct Received {
    counts: RecvCounts,
    streams: usize,
    warmup: u64,
    least_ns: Option<u64>,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    trips: Option<Trips>,
}

impl Received {
    fn add(&mut self, report: &RecvReport) {
        self.streams += 1;
        self.counts.add(&report.counts);
        self.warmup = self.warmup.saturating_add(report.warmup);
        self.first_ns = self.first_ns.into_iter().chain(report.first_ns).min();
        self.last_ns = self.last_ns.max(report.last_ns);
        self.trips = self.trips.into_iter().chain(report.trips).reduce(Trips::and);
    }

    fn span_ns(&self) -> Option<u64> {
        let (first, last) = self.first_ns.zip(self.last_ns)?;
        last.checked_sub(first).max(self.least_ns).filter(|span| *span > 0)
    }

    fn figures(&self, udp: bool) -> Option<ServedReceived> {
        if self.streams == 0 {
            return None;
        }
        let span = self.span_ns();
        let counts = &self.counts;
        let counted = |value: u64| udp.then_some(value);
        Some(ServedReceived {
            bytes: counts.bytes,
            seconds: span.map(seconds),
            bits_per_second: rate(counts.bytes, span),
            warmup: Some(self.warmup).filter(|warmup| *warmup > 0),
            expected: counted(counts.expected),
            lost: counted(counts.lost),
            rcvbuf_drops: counted(counts.loss_by_place().1),
            wall_clock_delay_s: self.trips.map(wall_clock_delay),
        })
    }
}

/// Streams that send, as one.
#[derive(Default)]
struct Sent {
    counts: SendCounts,
    streams: usize,
    retransmits: Option<u64>,
    longest_ns: u64,
}

impl Sent {
    fn add(&mut self, report: &SendReport) {
        self.streams += 1;
        self.counts.add(&report.counts);
        self.longest_ns = self.longest_ns.max(report.span_ns);
        let again = report.tcp.and_then(|tcp| tcp.retransmits);
        if let Some(again) = again {
            self.retransmits = Some(self.retransmits.unwrap_or(0).saturating_add(again));
        }
    }

    fn span_ns(&self) -> Option<u64> {
        Some(self.longest_ns).filter(|span| *span > 0)
    }

    fn figures(&self, udp: bool) -> Option<ServedSent> {
        if self.streams == 0 {
            return None;
        }
        let span = self.span_ns();
        Some(ServedSent {
            bytes: self.counts.bytes,
            seconds: span.map(seconds),
            bits_per_second: rate(self.counts.bytes, span),
            datagrams: udp.then_some(self.counts.datagrams),
            retransmits: self.retransmits,
        })
    }
}
