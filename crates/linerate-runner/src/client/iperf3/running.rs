//! The part between "running" and the results.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::clock;
use linerate_model::plan::{End, TestPlan, Traffic};
use linerate_model::record::ErrorRecord;
use linerate_model::test_event::TestEvent;
use linerate_session::assemble::{self, LiveSide};
use linerate_session::observer::Observer;
use linerate_wire::iperf3::State;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use super::MOST_SETTLE;
use super::control::{Control, Heard};
use crate::client::ClientTest;
use crate::data::{DataEvent, Report, Shared, Tick};
use crate::host::HostWatch;
use crate::rows::RowBook;
use crate::standstill;
use linerate_dialect::ticks::Ticks;

/// Who has interrupted a test waits this long for the server's results, beyond two round trips.
const INTERRUPTED: Duration = Duration::from_secs(3);
/// How often a receiver that ends by count is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// A test that runs.
pub(super) struct Running {
    pub(super) plan: TestPlan,
    pub(super) shared: Arc<Shared>,
    pub(super) host: HostWatch,
    pub(super) local: BTreeMap<u16, Report>,
    pub(super) streams: usize,
    /// Of TCP: what this end's streams use, receivers too.
    pub(super) congestion: Option<String>,
    pub(super) senders: usize,
    pub(super) ticks: (Ticks, Ticks),
    pub(super) rows: RowBook,
    pub(super) live: BTreeMap<u64, LiveSide>,
    pub(super) shown: u64,
    pub(super) interrupted: bool,
    /// When the server said that the test begins: its clock runs from then on.
    pub(super) word_ns: u64,
    /// Of the control connection, before the test; 0 where unknown.
    pub(super) rtt_ns: u64,
    pub(super) start_ns: u64,
    /// When the end was told.
    pub(super) ended_ns: Option<u64>,
}

pub(super) type Events = UnboundedReceiver<DataEvent>;

impl Running {
    /// Until the server wants results, or something goes wrong.
    pub(super) async fn run(
        &mut self,
        near: &ClientTest<'_>,
        control: &mut Control,
        mut told: Events,
        settle: Duration,
        observer: &mut dyn Observer,
    ) -> Result<Events, (ErrorRecord, Events)> {
        let doing = "running the test";
        let warmup = self.plan.warmup.as_duration();
        let begun = Instant::now()
            + Duration::from_nanos(self.start_ns.saturating_sub(clock::monotonic_ns()));
        let warm = begun + warmup;
        let mut cold = self.plan.warmup.0 > 0;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let signals = crate::signals::first();
        tokio::pin!(signals);
        let receives = self.plan.direction.has_reverse();
        let wanted = self.wanted_bytes();
        let over = self.plan.duration().map(|d| warm + d.as_duration());
        let longest = Duration::from_secs(86_400);
        let mut deadline = over.unwrap_or(warm + longest) + control.patience + MOST_SETTLE;
        let begun_ns = clock::monotonic_ns();
        // When the end is told, and whether it has been.
        let mut end_at: Option<Instant> = None;
        let mut end_reported = false;
        loop {
            if end_at.is_none() && self.is_done(over, wanted) {
                self.host.over().await;
                // What is on its way counts only before the end is told.
                let sends = self.senders > 0;
                end_at = Some(Instant::now() + if sends { settle } else { Duration::ZERO });
            }
            let counting = receives && !end_reported;
            tokio::select! {
                heard = control.state(near, doing) => match heard {
                    Heard::State(State::ExchangeResults) if end_reported => return Ok(told),
                    Heard::State(state) => {
                        let why = format!("it said {state:?} while the test ran");
                        return Err((near.lost(doing, &why), told));
                    }
                    Heard::Failed(error) => return Err((error, told)),
                },
                event = told.recv() => match event {
                    Some(event) => self.on_event(event, observer).await,
                    None if self.local.len() < self.streams => {
                        return Err((near.lost(doing, "a data thread ended without a word"), told));
                    }
                    // All threads have ended: wait for the other arms.
                    None => tokio::time::sleep(LOOK).await,
                },
                () = tokio::time::sleep_until(warm), if cold => {
                    cold = false;
                    self.host.warm().await;
                }
                _ = look.tick(), if counting => {
                    if self.shared.silence(begun_ns).min(standstill::ran_for()) > near.request.iperf3.silence {
                        let why = "no data came for too long";
                        return Err((near.lost(doing, why), told));
                    }
                }
                () = tokio::time::sleep_until(end_at.unwrap_or(deadline)), if end_at.is_some() && !end_reported => {
                    end_reported = true;
                    self.ended_ns = Some(clock::monotonic_ns());
                    self.shared.stop();
                    // The server has nothing to do any more but to ask for the results.
                    deadline = Instant::now() + control.patience + settle;
                    if let Err(why) = control.say(&[State::TestEnd.byte()]).await {
                        return Err((near.lost(doing, &why), told));
                    }
                }
                () = tokio::time::sleep_until(over.unwrap_or(deadline)), if end_at.is_none() && over.is_some_and(|o| o > Instant::now()) => {}
                () = tokio::time::sleep_until(deadline) => {
                    return Err((near.lost(doing, "the test did not end in time"), told));
                }
                () = &mut signals, if !self.interrupted => {
                    self.interrupted = true;
                    observer.note("interrupted: ending with what was measured");
                    self.shared.stop();
                    end_at = end_at.or(Some(Instant::now() + settle));
                    control.patience = control.patience.min(INTERRUPTED + settle);
                    if end_reported {
                        deadline = deadline.min(Instant::now() + control.patience);
                    }
                }
            }
        }
    }

    /// Bytes after which a receiving client has enough.
    fn wanted_bytes(&self) -> Option<u64> {
        let End::Datagrams(count) = self.plan.end else { return None };
        let size = match &self.plan.traffic {
            Traffic::Udp(udp) => u64::from(udp.size.bytes()),
            Traffic::Tcp(tcp) => u64::from(tcp.block),
            Traffic::Rr(_) => return None,
        };
        Some(count.saturating_mul(size))
    }

    fn is_done(&self, over: Option<Instant>, wanted: Option<u64>) -> bool {
        let sent = self.local.values().filter(|report| matches!(report, Report::Send(_))).count()
            >= self.senders;
        let heard = !self.plan.direction.has_reverse()
            || wanted.is_some_and(|wanted| self.shared.received() >= wanted)
            || over.is_some_and(|over| Instant::now() >= over);
        sent && heard
    }

    /// Until all data threads have told their report; they have been told to end.
    pub(super) async fn collect(
        &mut self,
        told: &mut Events,
        drain: Duration,
        observer: &mut dyn Observer,
    ) {
        let ns = u64::try_from(drain.as_nanos()).unwrap_or(u64::MAX);
        self.shared.drain_until(clock::monotonic_ns().saturating_add(ns));
        let limit = Instant::now() + drain + Duration::from_secs(4);
        while self.local.len() < self.streams {
            match timeout_at(limit, told.recv()).await {
                Ok(Some(event)) => self.on_event(event, observer).await,
                _ => break,
            }
        }
    }

    async fn on_event(&mut self, event: DataEvent, observer: &mut dyn Observer) {
        self.host.on_event(&event).await;
        match event {
            DataEvent::Begun => {}
            DataEvent::Done(stream, report) => {
                self.local.insert(stream, *report);
            }
            DataEvent::Warm(stream, index, tick) => {
                if let Some(rows) = self.rows.add(true, stream, index, tick) {
                    observer.event(&TestEvent::Rows(rows));
                }
            }
            DataEvent::Tick(stream, index, tick) => {
                if let Some(rows) = self.rows.add(false, stream, index, tick) {
                    observer.event(&TestEvent::Rows(rows));
                }
                let sum = match tick {
                    Tick::Send(_) => self.ticks.0.add(index, tick),
                    _ => self.ticks.1.add(index, tick),
                };
                let side = self.live.entry(index).or_default();
                side.host = self.host.row(index);
                match sum {
                    Some(Tick::Send(send)) => side.send = Some(send),
                    Some(Tick::Recv(recv)) => side.recv = Some(recv),
                    _ => return,
                }
                let (sends, receives) =
                    (self.plan.direction.has_forward(), self.plan.direction.has_reverse());
                if (sends && side.send.is_none()) || (receives && side.recv.is_none()) {
                    return;
                }
                let Some(side) = self.live.remove(&index) else { return };
                self.shown = index + 1;
                let far = LiveSide::default();
                observer.interval(&assemble::live_interval(&self.plan, index, &side, &far, None));
            }
        }
    }

    /// How much earlier than this end's the server's clock began, and how much later it ends: a round trip
    /// in all, and what passed here between its word and the start.
    pub(super) fn head_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.word_ns).saturating_add(self.rtt_ns)
    }

    /// Measured time of this end.
    pub(super) fn span_ns(&self) -> u64 {
        let sent = self.local.values().filter_map(|report| match report {
            Report::Send(report) => Some(report.span_ns),
            _ => None,
        });
        let measured = self.start_ns.saturating_add(self.plan.warmup.0);
        let ended = self.ended_ns.unwrap_or_else(clock::monotonic_ns).saturating_sub(measured);
        if !self.plan.direction.has_reverse() {
            return sent.max().unwrap_or(ended);
        }
        // A receiver counts until the end was told, and what was under way then as long as it came.
        let last = self.local.values().filter_map(|report| match report {
            Report::Recv(report) => report.last_ns,
            _ => None,
        });
        last.max().unwrap_or(0).saturating_sub(measured).max(ended)
    }
}
