//! The part of a test between its start and the last figures of both ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::clock;
use linerate_model::plan::TestPlan;
use linerate_model::sample::{HostSample, RrInterval};
use linerate_session::assemble::{self, LiveSide};
use linerate_session::clock::{Exchange, offset};
use linerate_session::observer::Observer;
use linerate_wire::native::message::{
    ClientMessage, LiveInterval, Ping, Results, ServerMessage, StreamReport, StreamResult,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::control::{ControlError, Outbox};
use crate::data::{self, DataEvent, Report, Role, Shared, Tick};
use crate::host::HostWatch;
use crate::serving::SILENCE_LIMIT;
use crate::standstill;
use linerate_dialect::ticks::Ticks;

use super::test::{CLOCK_EXCHANGES, Messages, heard};

/// The server hears from the client this often.
pub(super) const ALIVE_EVERY: Duration = Duration::from_millis(500);

/// Beyond its planned length and its drain, a test may take this long; and so may the server's results
/// once this end's are there.
pub(super) const OVERTIME: Duration = Duration::from_secs(15);

const LATE_RESULTS: &str = "the server did not send all of its results in time";

/// Most characters that are kept of a server's reason to end a test.
const MOST_REASON: usize = 500;

pub(super) struct StopOnDrop(pub(super) Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
        self.0.drain_until(0);
    }
}

/// Both ends' intervals until they can be shown together.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) client: BTreeMap<u64, LiveSide>,
    pub(super) server: BTreeMap<u64, LiveSide>,
    pub(super) rr: BTreeMap<u64, RrInterval>,
    pub(super) shown: u64,
}

impl Live {
    /// Whether all that will be told of an interval is there. Senders and receivers of each end are
    /// asked by themselves: the peer's rows come a transit time later, which may be many
    /// intervals. Who tells of a later one, or is behind by what counts as silence, tells no more.
    fn is_due(&self, index: u64, plan: &TestPlan) -> bool {
        let silence = SILENCE_LIMIT.as_nanos() as u64 / plan.interval.0.max(1);
        let ends = [&self.client, &self.server];
        let newest = ends.iter().filter_map(|end| end.last_key_value()).map(|(i, _)| *i).max();
        if newest.is_some_and(|newest| newest.saturating_sub(index) > silence) {
            return true;
        }
        let told = |end: &BTreeMap<u64, LiveSide>, sends: bool, receives: bool| {
            let any = |has: fn(&LiveSide) -> bool| end.range(index..).any(|(_, side)| has(side));
            (!sends || any(|side| side.send.is_some()))
                && (!receives || any(|side| side.recv.is_some()))
        };
        let (forward, reverse) = (plan.direction.has_forward(), plan.direction.has_reverse());
        told(&self.client, forward, reverse) && told(&self.server, reverse, forward)
    }
}

/// The part between "start" and the results.
pub(super) struct Running {
    pub(super) plan: TestPlan,
    pub(super) shared: Arc<Shared>,
    pub(super) host: HostWatch,
    pub(super) local: BTreeMap<u16, Report>,
    pub(super) remote: BTreeMap<u16, StreamReport>,
    pub(super) remote_samples: Vec<HostSample>,
    pub(super) results: Option<Results>,
    pub(super) ticks: (Ticks, Ticks, Ticks),
    pub(super) senders: usize,
    pub(super) requesters: usize,
    pub(super) streams: usize,
    pub(super) sent_reported: bool,
    /// The server has told how much it sent: it sends no more.
    pub(super) far_sent: bool,
    pub(super) live: Live,
    pub(super) trouble: Option<String>,
    /// That is: what came was not proven to be the server's.
    pub(super) unproven: bool,
    pub(super) interrupted: bool,
    pub(super) stopping: Option<String>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) drain: u64,
}

impl Running {
    pub(super) async fn run(
        &mut self,
        write: &mut Outbox,
        messages: &mut Messages,
        mut told: UnboundedReceiver<DataEvent>,
        observer: &mut dyn Observer,
    ) {
        let mut heard_at = Instant::now();
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        // A server that answers but never ends is no server. Tests by count end with their count.
        let planned =
            self.plan.duration().unwrap_or(linerate_model::units::Nanos::from_secs(86_400));
        let mut deadline = Instant::now()
            + planned.as_duration()
            + self.plan.warmup.as_duration()
            + Duration::from_nanos(self.drain)
            + OVERTIME;
        let warm = Instant::now() + self.plan.warmup.as_duration();
        let mut cold = self.plan.warmup.0 > 0;
        let signals = crate::signals::first();
        tokio::pin!(signals);
        let mut events_open = true;
        let (mut closed, mut over) = (false, false);
        while self.local.len() < self.streams || (self.results.is_none() && self.trouble.is_none())
        {
            tokio::select! {
                message = messages.recv(), if self.trouble.is_none() && !closed => {
                    heard_at = Instant::now();
                    closed = !matches!(message, Some(Ok(_)));
                    match message {
                        Some(Ok(message)) => self.on_message(message, observer),
                        Some(Err(e)) => {
                            self.unproven |= matches!(e, ControlError::Unproven);
                            self.abandon(&e.to_string());
                        }
                        None => self.abandon("the server is gone"),
                    }
                }
                event = told.recv(), if events_open => match event {
                    Some(event) => self.on_event(event, observer).await,
                    None => {
                        events_open = false;
                        if self.local.len() < self.streams {
                            self.abandon("a data thread ended without a word");
                            return;
                        }
                    }
                },
                () = tokio::time::sleep_until(warm), if cold => {
                    cold = false;
                    self.host.warm().await;
                }
                () = tokio::time::sleep_until(deadline), if self.trouble.is_none() => {
                    self.abandon(if over { LATE_RESULTS } else { "the test did not end in time" });
                }
                _ = alive.tick(), if self.trouble.is_none() => {
                    let ping = ClientMessage::Ping(Ping { client_ns: clock::monotonic_ns() });
                    if let Err(e) = write.say(&ping).await {
                        self.abandon(&e.to_string());
                    } else if heard_at.elapsed().min(standstill::ran_for()) > SILENCE_LIMIT
                        && !self.shared.heard_within(SILENCE_LIMIT)
                    {
                        self.abandon("the server fell silent");
                    }
                }
                () = &mut signals, if !self.interrupted => {
                    self.interrupted = true;
                    observer.note("interrupted: ending with what was measured");
                    self.shared.stop();
                    // Receivers here end when the server has told what it sent, or soon.
                    self.shared.drain_until(clock::monotonic_ns().saturating_add(SILENCE_LIMIT.as_nanos() as u64));
                    if write.say(&ClientMessage::Stop).await.is_err() {
                        self.abandon("the server is gone");
                    }
                }
            }
            if self.local.len() == self.streams && !over {
                over = true;
                // What the server still has to tell has its time, whenever the test came to its end.
                let left = Duration::from_nanos(self.drain) + OVERTIME;
                deadline = deadline.min(Instant::now() + left);
            }
            self.report_sent(write).await;
        }
    }

    /// The server's receivers learn how much was sent, so that the tail counts.
    pub(super) async fn report_sent(&mut self, write: &mut Outbox) {
        let ours = |report: &&Report| matches!(report, Report::Send(_) | Report::Rr(_));
        let done = self.local.values().filter(ours).count();
        let wanted = self.senders + self.requesters;
        if done == wanted && (self.far_sent || wanted == self.streams) {
            self.host.over().await;
        }
        if self.sent_reported || wanted == 0 || done < wanted || self.trouble.is_some() {
            return;
        }
        self.sent_reported = true;
        let sent = data::sent_of(&self.local);
        if let Err(e) = write.say(&ClientMessage::Sent(sent)).await {
            self.abandon(&e.to_string());
        }
    }

    pub(super) fn abandon(&mut self, why: &str) {
        if self.results.is_none() && self.trouble.is_none() {
            self.trouble = Some(why.to_owned());
        }
        self.shared.stop();
        if self.trouble.is_some() {
            self.shared.drain_until(0);
        }
    }

    pub(super) async fn on_event(&mut self, event: DataEvent, observer: &mut dyn Observer) {
        self.host.on_event(&event).await;
        match event {
            DataEvent::Done(stream, report) => {
                self.local.insert(stream, *report);
            }
            DataEvent::Begun | DataEvent::Warm(..) => {}
            DataEvent::Tick(_, index, tick) => {
                let sum = match tick {
                    Tick::Send(_) => self.ticks.0.add(index, tick),
                    Tick::Recv(_) => self.ticks.1.add(index, tick),
                    Tick::Rr(_) => self.ticks.2.add(index, tick),
                };
                let side = self.live.client.entry(index).or_default();
                side.host = self.host.row(index);
                match sum {
                    Some(Tick::Send(send)) => side.send = Some(send),
                    Some(Tick::Recv(recv)) => side.recv = Some(recv),
                    Some(Tick::Rr(rr)) => {
                        self.live.rr.insert(index, rr);
                    }
                    None => return,
                }
                self.show(observer);
            }
        }
    }

    pub(super) fn on_message(&mut self, message: ServerMessage, observer: &mut dyn Observer) {
        let most = self.plan.intervals();
        match message {
            ServerMessage::Pong(pong) => {
                if self.exchanges.len() >= CLOCK_EXCHANGES {
                    self.exchanges.remove(0);
                }
                self.exchanges.push(heard(pong));
            }
            ServerMessage::Interval(live) => {
                let LiveInterval { index, send, recv, host } = *live;
                // Shown already, or none that a test can have: not believed.
                if index < self.live.shown || index >= most {
                    return;
                }
                let side = self.live.server.entry(index).or_default();
                side.send = send.or(side.send.take());
                side.recv = recv.or(side.recv.take());
                side.host = host.or(side.host.take());
                self.show(observer);
            }
            ServerMessage::Sent(streams) => {
                self.far_sent = true;
                for sent in streams {
                    self.shared.far_end_sent(sent.stream, sent.datagrams);
                }
                self.shared.drain_until(clock::monotonic_ns().saturating_add(self.drain));
            }
            ServerMessage::Stream(result) => {
                if self.is_of_far_end(&result) {
                    self.remote.insert(result.stream, result.report);
                } else {
                    self.abandon("the server reported on what it did not measure");
                }
            }
            ServerMessage::Chunk(chunk) => match self.remote.get_mut(&chunk.stream) {
                Some(StreamReport::Send(report)) => append(&mut report.intervals, chunk.send, most),
                Some(StreamReport::Recv(report)) => append(&mut report.intervals, chunk.recv, most),
                _ => {}
            },
            ServerMessage::HostChunk(chunk) => {
                append(&mut self.remote_samples, chunk.samples, most);
            }
            ServerMessage::Results(results) => self.results = Some(*results),
            // Said once: a server may repeat itself as often as it likes.
            ServerMessage::Stopping(_) if self.stopping.is_some() => {}
            ServerMessage::Stopping(why) => {
                let why: String = why.chars().take(MOST_REASON).collect();
                observer.note(&format!("the server ends the test: {why}"));
                self.stopping = Some(why);
                self.shared.stop();
            }
            ServerMessage::Refused(refused) => self.abandon(&refused.why),
            _ => self.abandon("the server sent a message out of turn"),
        }
    }

    /// Whether it is the report of the server's end of a stream: this end's own figures are not the
    /// server's to tell.
    fn is_of_far_end(&self, result: &StreamResult) -> bool {
        let id = data::streams(self.plan.direction, self.plan.streams)
            .into_iter()
            .find(|id| id.stream == result.stream);
        let role = id.map(|id| data::role(&self.plan.traffic, id.way, false));
        matches!(
            (role, &result.report),
            (Some(Role::Send), StreamReport::Send(_))
                | (Some(Role::Receive), StreamReport::Recv(_))
                | (Some(Role::Respond), StreamReport::Respond(_))
        )
    }

    /// Shows every interval that both ends have told of, and those that one end will never tell of.
    pub(super) fn show(&mut self, observer: &mut dyn Observer) {
        loop {
            let index = self.live.shown;
            let interval = if self.requesters > 0 {
                let Some(row) = self.live.rr.get(&index) else { return };
                let host = self.live.client.get(&index).and_then(|side| side.host.as_ref());
                let figures = assemble::rr_row(row, self.plan.interval.0, host, self.requesters);
                assemble::live_interval(
                    &self.plan,
                    index,
                    &LiveSide::default(),
                    &LiveSide::default(),
                    Some(figures),
                )
            } else {
                let client = self.live.client.get(&index);
                let server = self.live.server.get(&index);
                if !self.live.is_due(index, &self.plan) {
                    return;
                }
                let empty = LiveSide::default();
                assemble::live_interval(
                    &self.plan,
                    index,
                    client.unwrap_or(&empty),
                    server.unwrap_or(&empty),
                    None,
                )
            };
            self.live.client.remove(&index);
            self.live.server.remove(&index);
            self.live.rr.remove(&index);
            self.live.shown += 1;
            observer.interval(&interval);
        }
    }

    /// The clock once more, then goodbye.
    pub(super) async fn farewell(
        &mut self,
        write: &mut Outbox,
        messages: &mut Messages,
    ) -> Option<linerate_session::clock::ClockOffset> {
        if self.trouble.is_some() {
            return offset(&self.exchanges);
        }
        let exchange = async {
            self.exchanges.clear();
            for _ in 0..CLOCK_EXCHANGES {
                let ping = ClientMessage::Ping(Ping { client_ns: clock::monotonic_ns() });
                write.say(&ping).await.ok()?;
                loop {
                    match messages.recv().await {
                        Some(Ok(ServerMessage::Pong(pong))) => {
                            self.exchanges.push(heard(pong));
                            break;
                        }
                        Some(Ok(_)) => {}
                        _ => return None,
                    }
                }
            }
            write.say(&ClientMessage::Bye).await.ok()
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), exchange).await;
        offset(&self.exchanges)
    }
}

/// What a server tells beyond the intervals that a test can have is not believed.
fn append<T>(known: &mut Vec<T>, rows: Vec<T>, most: u64) {
    let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(known.len());
    known.extend(rows.into_iter().take(room));
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::{Direction, End};
    use linerate_model::sample::{RecvInterval, SendInterval};
    use linerate_model::units::Nanos;

    use super::*;

    fn plan(direction: Direction) -> TestPlan {
        let rr = linerate_model::plan::RrPlan {
            transport: linerate_model::plan::Transport::Tcp,
            request: 1,
            response: 1,
            outstanding: 1,
            rate: None,
        };
        TestPlan {
            traffic: linerate_model::plan::Traffic::Rr(rr),
            direction,
            streams: 1,
            end: End::Time(Nanos::from_secs(10)),
            warmup: Nanos(0),
            interval: Nanos(100_000_000),
            window: None,
            client_cpus: vec![],
            server_cpus: vec![],
            dscp: None,
        }
    }

    #[test]
    fn a_row_waits_for_the_end_that_is_far_away() {
        let sent = || LiveSide { send: Some(SendInterval::default()), ..LiveSide::default() };
        let came = || LiveSide { recv: Some(RecvInterval::default()), ..LiveSide::default() };
        let forward = plan(Direction::Forward);
        let mut live = Live::default();
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
        // One of the streams is ahead of the others: an entry, but nothing told yet.
        live.client.insert(4, LiveSide::default());
        live.server.insert(3, came());
        assert!(!live.is_due(3, &forward));
        // Both ways: the server's senders tell before its receivers can.
        let both = plan(Direction::Both);
        let mut live = Live::default();
        live.client.insert(0, LiveSide { recv: came().recv, ..sent() });
        live.server.insert(0, sent());
        live.server.insert(1, sent());
        assert!(!live.is_due(0, &both));
        live.server.insert(0, LiveSide { recv: came().recv, ..sent() });
        assert!(live.is_due(0, &both));
        // A server that tells nothing does not hold the view for ever.
        let mut live = Live::default();
        let silence = SILENCE_LIMIT.as_millis() as u64 / 100;
        live.client.insert(silence, sent());
        assert!(!live.is_due(0, &forward));
        live.client.insert(silence + 1, sent());
        assert!(live.is_due(0, &forward));
    }
}
