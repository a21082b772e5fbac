//! Rows that are shown while a test runs: both ends' intervals until they can be shown together.

use std::collections::BTreeMap;

use linerate_model::plan::TestPlan;
use linerate_model::record::Interval;
use linerate_model::sample::{HostSample, RrInterval};
use linerate_session::assemble::{self, LiveSide};
use linerate_wire::native::message::LiveInterval;

use super::server::SILENCE_LIMIT_NS;
use crate::stream::{Role, StreamId, Tick, role};
use crate::ticks::Ticks;

/// Intervals of both ends.
#[derive(Debug)]
pub(super) struct Live {
    client: BTreeMap<u64, LiveSide>,
    server: BTreeMap<u64, LiveSide>,
    rr: BTreeMap<u64, RrInterval>,
    send_ticks: Ticks,
    recv_ticks: Ticks,
    rr_ticks: Ticks,
    requesters: usize,
    /// So many were shown.
    shown: u64,
}

impl Live {
    pub(super) fn new(plan: &TestPlan, ids: &[StreamId]) -> Self {
        let count =
            |wanted| ids.iter().filter(|id| role(&plan.traffic, id.way, true) == wanted).count();
        Self {
            client: BTreeMap::new(),
            server: BTreeMap::new(),
            rr: BTreeMap::new(),
            send_ticks: Ticks::new(count(Role::Send)),
            recv_ticks: Ticks::new(count(Role::Receive)),
            rr_ticks: Ticks::new(count(Role::Request)),
            requesters: count(Role::Request),
            shown: 0,
        }
    }

    /// How many rows were shown.
    pub(super) fn shown(&self) -> u64 {
        self.shown
    }

    /// An interval of a stream of this end is over. Its host's sample is that of the newest.
    pub(super) fn tick(&mut self, index: u64, tick: Tick, host: Option<HostSample>) {
        let sum = match tick {
            Tick::Send(_) => self.send_ticks.add(index, tick),
            Tick::Recv(_) => self.recv_ticks.add(index, tick),
            Tick::Rr(_) => self.rr_ticks.add(index, tick),
        };
        let side = self.client.entry(index).or_default();
        side.host = host;
        match sum {
            Some(Tick::Send(send)) => side.send = Some(send),
            Some(Tick::Recv(recv)) => side.recv = Some(recv),
            Some(Tick::Rr(rr)) => {
                self.rr.insert(index, rr);
            }
            None => {}
        }
    }

    /// The server's word about an interval. One that was shown, or that no test of `most` intervals has, is
    /// not believed.
    pub(super) fn hear(&mut self, live: LiveInterval, most: u64) {
        let LiveInterval { index, send, recv, host } = live;
        if index < self.shown || index >= most {
            return;
        }
        let side = self.server.entry(index).or_default();
        side.send = send.or(side.send.take());
        side.recv = recv.or(side.recv.take());
        side.host = host.or(side.host.take());
    }

    /// The next row that both ends have reported, or that one of them will never report; with what the client's host
    /// and the server's did meanwhile.
    pub(super) fn next(&mut self, plan: &TestPlan) -> Option<(Interval, [Option<HostSample>; 2])> {
        let index = self.shown;
        let empty = LiveSide::default();
        let row = if self.requesters > 0 {
            let row = self.rr.get(&index)?;
            let host = self.client.get(&index).and_then(|side| side.host.as_ref());
            let figures = assemble::rr_row(row, plan.interval.0, host, self.requesters);
            assemble::live_interval(plan, index, &empty, &empty, Some(figures))
        } else {
            if !self.is_due(index, plan) {
                return None;
            }
            let client = self.client.get(&index).unwrap_or(&empty);
            let server = self.server.get(&index).unwrap_or(&empty);
            assemble::live_interval(plan, index, client, server, None)
        };
        let hosts = [&mut self.client, &mut self.server]
            .map(|end| end.remove(&index).and_then(|side| side.host));
        self.rr.remove(&index);
        self.shown += 1;
        Some((row, hosts))
    }

    /// Whether all that will be reported of an interval is there. Senders and receivers of each end are
    /// asked by themselves: the peer's rows come a transit time later, which may be many
    /// intervals. Who reports a later one, or is behind by what counts as silence, reports no more.
    fn is_due(&self, index: u64, plan: &TestPlan) -> bool {
        let silence = SILENCE_LIMIT_NS / plan.interval.0.max(1);
        let ends = [&self.client, &self.server];
        let newest = ends.iter().filter_map(|end| end.last_key_value()).map(|(i, _)| *i).max();
        if newest.is_some_and(|newest| newest.saturating_sub(index) > silence) {
            return true;
        }
        let reported = |end: &BTreeMap<u64, LiveSide>, sends: bool, receives: bool| {
            let any = |has: fn(&LiveSide) -> bool| end.range(index..).any(|(_, side)| has(side));
            (!sends || any(|side| side.send.is_some()))
                && (!receives || any(|side| side.recv.is_some()))
        };
        let (forward, reverse) = (plan.direction.has_forward(), plan.direction.has_reverse());
        reported(&self.client, forward, reverse) && reported(&self.server, reverse, forward)
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::{Direction, End, Traffic, Transport};
    use linerate_model::sample::{RecvInterval, SendInterval};
    use linerate_model::units::Nanos;
    use linerate_testkit::plans;

    use super::*;

    fn plan(direction: Direction) -> TestPlan {
        let end = End::Time(Nanos::from_secs(10));
        TestPlan { direction, end, ..plans::plan(Traffic::Rr(plans::rr(Transport::Tcp))) }
    }

    fn fresh() -> Live {
        Live::new(&plan(Direction::Both), &[])
    }

    #[test]
    fn a_row_waits_for_the_end_that_is_far_away() {
        let sent = || LiveSide { send: Some(SendInterval::default()), ..LiveSide::default() };
        let came = || LiveSide { recv: Some(RecvInterval::default()), ..LiveSide::default() };
        let forward = plan(Direction::Forward);
        let mut live = fresh();
        // The round trip is longer than an interval: this end is ahead.
        for index in 0..3 {
            live.client.insert(index, sent());
        }
        assert!(!live.is_due(0, &forward));
        live.server.insert(0, came());
        assert!(live.is_due(0, &forward) && !live.is_due(1, &forward));
        // The next one is there, so this one was left out.
        live.server.insert(2, came());
        assert!(live.is_due(1, &forward));
        // One of the streams is ahead of the others: an entry, but nothing reported yet.
        live.client.insert(4, LiveSide::default());
        live.server.insert(3, came());
        assert!(!live.is_due(3, &forward));
        // Both ways: the server's senders report before its receivers can.
        let both = plan(Direction::Both);
        let mut live = fresh();
        live.client.insert(0, LiveSide { recv: came().recv, ..sent() });
        live.server.insert(0, sent());
        live.server.insert(1, sent());
        assert!(!live.is_due(0, &both));
        live.server.insert(0, LiveSide { recv: came().recv, ..sent() });
        assert!(live.is_due(0, &both));
        // A server that reports nothing does not hold the view for ever.
        let mut live = fresh();
        let silence = SILENCE_LIMIT_NS / 100_000_000;
        live.client.insert(silence, sent());
        assert!(!live.is_due(0, &forward));
        live.client.insert(silence + 1, sent());
        assert!(live.is_due(0, &forward));
    }
}
