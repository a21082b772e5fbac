//! Everything that was measured in one test, by both ends.

use linerate_model::plan::{IpVersion, TestPlan, Traffic, Way};
use linerate_model::sample::{
    HostSample, RecvCounts, RecvReport, RrReport, SendCounts, SendReport, ThreadUse,
};
use linerate_wire::native::message::RespondReport;

use crate::clock::ClockOffset;
use crate::habits::Habits;

/// Both ends of one stream, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct StreamOutcome {
    /// Within its direction.
    pub index: u16,
    /// Server to client.
    pub reverse: bool,
    /// The sending end.
    pub send: Option<SendReport>,
    /// The receiving end.
    pub recv: Option<RecvReport>,
    /// The asking end.
    pub rr: Option<RrReport>,
    /// The answering end.
    pub respond: Option<RespondReport>,
}

/// What a host measured of itself.
#[derive(Debug, Clone, Default)]
pub struct HostSamples {
    /// One an interval.
    pub intervals: Vec<HostSample>,
    /// The whole measured time.
    pub total: Option<HostSample>,
    /// Cores that took the interface's interrupts.
    pub irq_cores: Vec<u32>,
}

/// Everything measured in one test.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What both ran.
    pub plan: TestPlan,
    /// Version of IP.
    pub ip: IpVersion,
    /// All streams, forward first.
    pub streams: Vec<StreamOutcome>,
    /// The client's host.
    pub client: HostSamples,
    /// The server's host.
    pub server: HostSamples,
    /// Distance of the clocks.
    pub clock: Option<ClockOffset>,
    /// Both ends ran under one kernel.
    pub same_host: bool,
    /// No server was meant to receive.
    pub discard: bool,
    /// The client saw before the test that its datagrams do not fit the path, and said so.
    pub fragments: bool,
    /// The test came to its planned end.
    pub complete: bool,
    /// Of what the ends spoke.
    pub habits: Habits,
}

impl Outcome {
    /// Whether the sending end of that way reported a few totals only.
    pub(super) fn sender_is_brief(&self, way: Way) -> bool {
        self.habits.brief && way == Way::Reverse
    }

    /// The same for the receiving end.
    pub(super) fn receiver_is_brief(&self, way: Way) -> bool {
        self.habits.brief && way == Way::Forward
    }

    /// Whether the receiving end of that way reports no more than datagrams and losses.
    pub(super) fn receiver_counts_only(&self, way: Way) -> bool {
        self.receiver_is_brief(way) || !self.habits.numbered
    }

    pub(super) fn is_udp(&self) -> bool {
        matches!(self.plan.traffic, Traffic::Udp(_))
    }

    /// The sending ends of all streams, as far as they reported.
    pub(super) fn sends(&self) -> impl Iterator<Item = &SendReport> {
        self.streams.iter().filter_map(|s| s.send.as_ref())
    }

    /// The receiving ends of all streams.
    pub(super) fn recvs(&self) -> impl Iterator<Item = &RecvReport> {
        self.streams.iter().filter_map(|s| s.recv.as_ref())
    }

    fn streams_of(&self, way: Way) -> impl Iterator<Item = &StreamOutcome> {
        self.streams.iter().filter(move |s| s.reverse == (way == Way::Reverse))
    }

    /// The sending ends of one way.
    pub(super) fn sends_of(&self, way: Way) -> impl Iterator<Item = &SendReport> {
        self.streams_of(way).filter_map(|s| s.send.as_ref())
    }

    /// The receiving ends of one way.
    pub(super) fn recvs_of(&self, way: Way) -> impl Iterator<Item = &RecvReport> {
        self.streams_of(way).filter_map(|s| s.recv.as_ref())
    }

    /// The hosts that send and receive one way.
    pub(super) fn ends(&self, way: Way) -> (&HostSamples, &HostSamples) {
        match way {
            Way::Forward => (&self.client, &self.server),
            Way::Reverse => (&self.server, &self.client),
        }
    }

    /// The same with one stream alone.
    pub(super) fn of_stream(&self, stream: &StreamOutcome) -> Self {
        Self {
            plan: self.plan.clone(),
            streams: vec![stream.clone()],
            client: self.client.clone(),
            server: self.server.clone(),
            ..*self
        }
    }
}

/// One direction with all its streams added up.
#[derive(Debug, Default)]
pub struct WayTotals {
    /// Senders.
    pub send: Option<(SendCounts, u64, ThreadUse)>,
    /// Receivers.
    pub recv: Option<(RecvCounts, u64, ThreadUse)>,
}
