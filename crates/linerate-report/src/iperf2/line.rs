//! What one line is about: a stream, or all of them, in an interval or over the whole test.

use linerate_model::plan::Transport;
use linerate_model::sample::{RecvCounts, SendCounts, TcpSample, Trips};
use linerate_model::test_event::{FarStream, Row, Side};

/// What was carried, and how.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) bytes: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    /// Datagrams, and those that the host refused.
    Sent { datagrams: u64, refused: u64 },
    /// Datagrams that should have come.
    Received {
        jitter_s: Option<f64>,
        lost: u64,
        all: u64,
        reordered: Option<u64>,
        trips: Option<Trips>,
    },
    /// The server did not report what it received.
    Unknown,
    /// Over TCP, in so many calls.
    Wrote { calls: u64, again: Option<u64>, tcp: Option<TcpSample> },
    /// Over TCP, in so many calls.
    Read { calls: u64, trips: Option<Trips> },
}

impl Line {
    /// One interval.
    pub(super) fn of_row(transport: Transport, span: (f64, f64), row: &Row) -> Self {
        match row {
            Row::Send(send) => Self::sent(transport, span, &send.counts, send.tcp),
            Row::Recv(recv) => {
                Self::received(transport, span, &recv.counts, (recv.jitter_ns, recv.trips))
            }
        }
    }

    /// A whole stream.
    pub(super) fn of_side(transport: Transport, to_s: f64, side: &Side) -> Self {
        match side {
            Side::Send(sent) => Self::sent(transport, (0.0, to_s), &sent.counts, sent.tcp),
            Side::Recv(recv) => {
                let more = (recv.jitter_ns, recv.trips);
                Self::received(transport, (0.0, to_s), &recv.counts, more)
            }
        }
    }

    /// What a server reports of a stream.
    pub(super) fn of_far(far: &FarStream) -> Self {
        let what = What::Received {
            jitter_s: Some(far.jitter_s),
            lost: u64::try_from(far.errors).unwrap_or(0),
            all: far.packets,
            reordered: far.reordered,
            trips: far.trips,
        };
        Self { from_s: 0.0, to_s: far.seconds.unwrap_or(0.0), bytes: far.bytes, what }
    }

    fn sent(
        transport: Transport,
        (from_s, to_s): (f64, f64),
        counts: &SendCounts,
        tcp: Option<TcpSample>,
    ) -> Self {
        let what = match transport {
            Transport::Udp => {
                What::Sent { datagrams: counts.datagrams, refused: counts.refused_locally }
            }
            Transport::Tcp => {
                let again = tcp.and_then(|tcp| tcp.retransmits);
                What::Wrote { calls: counts.calls, again, tcp }
            }
        };
        Self { from_s, to_s, bytes: counts.bytes, what }
    }

    fn received(
        transport: Transport,
        (from_s, to_s): (f64, f64),
        counts: &RecvCounts,
        (jitter_ns, trips): (Option<u64>, Option<Trips>),
    ) -> Self {
        let what = match transport {
            Transport::Udp => What::Received {
                jitter_s: jitter_ns.map(|ns| ns as f64 / 1e9),
                lost: counts.lost,
                all: counts.expected,
                reordered: Some(counts.reordered.saturating_add(counts.duplicates)),
                trips,
            },
            Transport::Tcp => What::Read { calls: counts.calls, trips },
        };
        Self { from_s, to_s, bytes: counts.bytes, what }
    }

    /// Two streams as one; what cannot be added is left out.
    pub(super) fn add(&mut self, more: &Self) {
        self.to_s = self.to_s.max(more.to_s);
        self.bytes = self.bytes.saturating_add(more.bytes);
        match (&mut self.what, more.what) {
            (What::Sent { datagrams, refused }, What::Sent { datagrams: d, refused: r }) => {
                *datagrams = datagrams.saturating_add(d);
                *refused = refused.saturating_add(r);
            }
            (
                What::Received { jitter_s, lost, all, reordered, trips },
                What::Received { lost: l, all: a, reordered: r, .. },
            ) => {
                (*jitter_s, *trips) = (None, None);
                *lost = lost.saturating_add(l);
                *all = all.saturating_add(a);
                *reordered = reordered.zip(r).map(|(one, other)| one.saturating_add(other));
            }
            (What::Wrote { calls, again, tcp }, What::Wrote { calls: c, again: g, .. }) => {
                *tcp = None;
                *calls = calls.saturating_add(c);
                *again = again.zip(g).map(|(one, other)| one.saturating_add(other));
            }
            (What::Read { calls, trips }, What::Read { calls: c, .. }) => {
                *trips = None;
                *calls = calls.saturating_add(c);
            }
            // Of what is sent and what is received bytes alone add up.
            (what, _) => *what = What::Unknown,
        }
    }

    /// Delays, where they are known.
    pub(super) fn trips(&self) -> Option<Trips> {
        match self.what {
            What::Received { trips, .. } | What::Read { trips, .. } => trips,
            What::Sent { .. } | What::Unknown | What::Wrote { .. } => None,
        }
    }

    pub(super) fn bps(&self) -> f64 {
        let seconds = self.to_s - self.from_s;
        if seconds > 0.0 { self.bytes as f64 * 8.0 / seconds } else { 0.0 }
    }

    /// A count, a second.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        let seconds = self.to_s - self.from_s;
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }
}
