//! The streams of a test, and what their data threads report.

use std::collections::BTreeMap;

use linerate_model::plan::{Direction, End, TestPlan, Traffic, Transport, Way};
use linerate_model::sample::{
    RecvInterval, RecvReport, RrInterval, RrReport, SendInterval, SendReport,
};
use linerate_model::test_event::Side;
use linerate_wire::native::message::{RespondReport, StreamSent};

use crate::ending::Failure;

/// Data of a test that has the longest allowed time may come so much later, in nanoseconds: what was on
/// its way, and what the client learnt late of the start.
pub const LAST_DATA_NS: u64 = 500_000_000;

/// Least time that receivers wait for stragglers after the sender's last word, in nanoseconds, …
const LEAST_DRAIN_NS: u64 = 250_000_000;
/// … and the most.
pub const MOST_DRAIN_NS: u64 = 5_000_000_000;

/// How long datagrams may still be under way after the sender's last word, in nanoseconds: two round trips
/// and some for the host.
pub fn straggler_ns(round_trip_ns: u64) -> u64 {
    let wanted = round_trip_ns.saturating_mul(2).saturating_add(100_000_000);
    wanted.clamp(LEAST_DRAIN_NS, MOST_DRAIN_NS)
}

/// Beyond twice of what was asked for, a peer may send so much, in bytes: its last block, and copies on the way.
const EXCESS_BYTES: u64 = 64 << 20;

/// Bytes that the peer was asked to send, in a test that ends by an amount.
fn asked_bytes(plan: &TestPlan) -> Option<u64> {
    let unit = match &plan.traffic {
        Traffic::Udp(udp) => u64::from(udp.size.bytes()),
        Traffic::Tcp(tcp) => u64::from(tcp.block.max(1)),
        Traffic::Rr(_) => return None,
    };
    let bytes = match plan.end {
        End::Time(_) => return None,
        End::Bytes(bytes) => bytes,
        End::Datagrams(count) => count.saturating_mul(unit),
    };
    Some(bytes).filter(|_| plan.direction.has_reverse())
}

/// More bytes than this come from no peer that keeps to a plan with an amount.
fn most_received(plan: &TestPlan) -> Option<u64> {
    Some(asked_bytes(plan)?.saturating_mul(2).saturating_add(EXCESS_BYTES))
}

/// A peer that keeps to a plan with an amount sends no less: its last block may be missing.
pub(crate) fn least_received(plan: &TestPlan) -> Option<u64> {
    Some(asked_bytes(plan)? / 2)
}

/// Why a test by an amount ends of which so much more came.
pub(crate) fn excess(plan: &TestPlan, received: u64) -> Option<Failure> {
    let too_much = most_received(plan).is_some_and(|most| received > most);
    too_much.then(|| Failure::Protocol("it sends more than was asked for".to_owned()))
}

/// What is wrong with a test by an amount of which so little came over TCP, which loses nothing, on streams that ended in
/// order.
pub(crate) fn shortfall<'a>(
    plan: &TestPlan,
    reports: impl Iterator<Item = &'a Report>,
) -> Option<Failure> {
    let mut came = Some(0u64);
    for report in reports {
        if let Report::Recv(received) = report {
            let ended = came.filter(|_| received.error.is_none());
            came = ended.map(|bytes| bytes.saturating_add(received.counts.bytes));
        }
    }
    let least = least_received(plan).filter(|_| plan.traffic.transport() == Transport::Tcp);
    let too_little = came.zip(least).is_some_and(|(came, least)| came < least);
    too_little.then(sent_little)
}

/// What is wrong with a server that ended long before its time or amount.
pub(crate) fn sent_little() -> Failure {
    Failure::Server("it sent less than was asked for".to_owned())
}

/// What this end does on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends a flow.
    Send,
    /// Receives one.
    Receive,
    /// Asks, and waits for answers.
    Request,
    /// Answers.
    Respond,
}

impl Role {
    /// Of a data thread.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Request => "request",
            Self::Respond => "respond",
        }
    }
}

/// A stream's number, direction and this end's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId {
    /// Over both directions.
    pub stream: u16,
    /// Within its direction.
    pub index: u16,
    /// Its direction.
    pub way: Way,
}

/// All streams of a plan: those of the forward direction first.
pub fn streams(direction: Direction, each: u16) -> Vec<StreamId> {
    let mut all = Vec::new();
    for way in [Way::Forward, Way::Reverse] {
        let wanted = match way {
            Way::Forward => direction.has_forward(),
            Way::Reverse => direction.has_reverse(),
        };
        if wanted {
            for index in 0..each {
                all.push(StreamId { stream: all.len() as u16, index, way });
            }
        }
    }
    all
}

/// What this end does on a stream of that way.
pub fn role(traffic: &Traffic, way: Way, is_client: bool) -> Role {
    match (traffic, is_client) {
        (Traffic::Rr(_), true) => Role::Request,
        (Traffic::Rr(_), false) => Role::Respond,
        _ if (way == Way::Forward) == is_client => Role::Send,
        _ => Role::Receive,
    }
}

/// Reported by a data thread.
#[derive(Debug)]
pub enum DataEvent {
    /// The measured time has begun on a stream: it sends now, or something has arrived.
    Begun,
    /// An interval of a stream is over.
    Tick(u16, u64, Tick),
    /// An interval of a stream's warm-up is over: reported in dialects whose users see the warm-up.
    Warm(u16, u64, Tick),
    /// The peer says in the stream itself that it has sent so many datagrams, and sends no more.
    PeerEnd(u16, u64),
    /// The stream has ended.
    Done(u16, Box<Report>),
}

/// One interval of one stream.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "rows are copied, one an interval")]
pub enum Tick {
    /// A sender's.
    Send(SendInterval),
    /// A receiver's.
    Recv(RecvInterval),
    /// A requester's.
    Rr(RrInterval),
}

/// The whole of one stream.
#[derive(Debug)]
pub enum Report {
    /// A sender's.
    Send(SendReport),
    /// A receiver's.
    Recv(RecvReport),
    /// A requester's.
    Rr(RrReport),
    /// A responder's.
    Respond(RespondReport),
}

/// What the senders among these sent, as it is reported to the peer.
pub fn sent_of(reports: &BTreeMap<u16, Report>) -> Vec<StreamSent> {
    let sent = |(stream, report): (&u16, &Report)| match report {
        Report::Send(report) => Some(StreamSent {
            stream: *stream,
            datagrams: report.counts.datagrams,
            bytes: report.counts.bytes,
            span_ns: report.span_ns,
        }),
        _ => None,
    };
    reports.iter().filter_map(sent).collect()
}

/// How long a stream's data took at this end, in nanoseconds.
pub fn span_ns(report: &Report) -> u64 {
    match report {
        Report::Send(sent) => sent.span_ns,
        Report::Recv(received) => {
            received.last_ns.unwrap_or(0).saturating_sub(received.first_ns.unwrap_or(0))
        }
        Report::Rr(_) | Report::Respond(_) => 0,
    }
}

/// What this end's users see of a stream.
pub fn side(report: &Report) -> Option<Side> {
    Some(match report {
        Report::Send(sent) => Side::Send(Box::new(sent.clone())),
        Report::Recv(received) => Side::Recv(Box::new(received.clone())),
        Report::Rr(_) | Report::Respond(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use linerate_testkit::plans;

    use super::*;

    #[test]
    fn what_a_peer_sends_of_an_amount_is_about_what_was_asked() {
        let mut plan = plans::plan(Traffic::Tcp(plans::tcp()));
        (plan.direction, plan.end) = (Direction::Reverse, End::Bytes(1_000));
        assert_eq!(most_received(&plan), Some(2_000 + EXCESS_BYTES));
        assert_eq!(least_received(&plan), Some(500));
        // Of blocks, as nuttcp counts.
        let block = u64::from(plans::tcp().block);
        plan.end = End::Datagrams(1 << 20);
        assert_eq!(most_received(&plan), Some((block << 21) + EXCESS_BYTES));
        let came = |bytes| {
            let counts = linerate_model::sample::RecvCounts { bytes, ..Default::default() };
            [Report::Recv(RecvReport { counts, ..RecvReport::default() })]
        };
        assert!(shortfall(&plan, came(block).iter()).is_some());
        let broken = RecvReport { error: Some("reset".into()), ..RecvReport::default() };
        assert_eq!(shortfall(&plan, [Report::Recv(broken)].iter()), None);
        assert_eq!(shortfall(&plan, came(block << 20).iter()), None);
        // Datagrams may be lost, and time says nothing of bytes.
        let udp = TestPlan { traffic: Traffic::Udp(plans::udp()), ..plan.clone() };
        assert_eq!(shortfall(&udp, came(0).iter()), None);
        assert!(most_received(&udp).is_some());
        let time = TestPlan { end: plans::plan(Traffic::Tcp(plans::tcp())).end, ..plan.clone() };
        assert_eq!(most_received(&time).or(least_received(&time)), None);
        let forward = TestPlan { direction: Direction::Forward, ..plan };
        assert_eq!(most_received(&forward), None);
    }
}
