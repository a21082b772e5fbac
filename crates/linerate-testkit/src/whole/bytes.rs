//! Data threads over TCP as steps: a stream of bytes that comes whole and in order, or breaks.

use std::cell::Cell;

use linerate_dialect::habits::Habits;
use linerate_dialect::stream::{DataEvent, Report, StreamId, Tick};
use linerate_model::plan::{TcpPlan, TestPlan};
use linerate_model::sample::{RecvReport, SendReport, ThreadUse};
use linerate_session::receiver::ByteReceiver;
use linerate_session::sender::{Quota, Sender};

use super::data::{Around, Shared, Step, done};

/// A block leaves so often, in nanoseconds.
const GAP_NS: u64 = 2_000_000;

pub(super) struct Sending {
    plan: TestPlan,
    block: u64,
    wanted: Option<u64>,
    account: Sender,
    habits: Habits,
    /// Its peer's kernel has acknowledged all after this, in nanoseconds.
    acknowledges_ns: u64,
    begun: bool,
    warmup: u64,
    next_ns: u64,
    reported: usize,
    /// Measured time, and when it is reported.
    ended: Option<(u64, u64)>,
    closed: bool,
    /// Why nothing goes out any more.
    pub(super) broken: bool,
}

impl Sending {
    pub(super) fn new(
        plan: &TestPlan,
        tcp: &TcpPlan,
        id: StreamId,
        habits: Habits,
        acknowledges_ns: u64,
    ) -> Self {
        Self {
            plan: plan.clone(),
            block: u64::from(tcp.block),
            wanted: Quota::bytes(plan, id.index),
            account: Sender::new(plan.interval.0, plan.duration().map(|_| plan.intervals())),
            habits,
            acknowledges_ns,
            begun: false,
            warmup: 0,
            next_ns: 0,
            reported: 0,
            ended: None,
            closed: false,
            broken: false,
        }
    }

    pub(super) fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        let stopped = shared.stopped_ns.is_some();
        let Some(begin_ns) = shared.begin_ns else {
            return match stopped {
                true => done(stream, Report::Send(SendReport::default())),
                false => Step::Wait(None),
            };
        };
        let measured_ns = begin_ns.saturating_add(self.plan.warmup.0);
        if let Some((span_ns, at_ns)) = self.ended {
            return self.end(now_ns, stream, (span_ns, at_ns, measured_ns));
        }
        let elapsed = now_ns.saturating_sub(measured_ns);
        if now_ns >= measured_ns && !std::mem::replace(&mut self.begun, true) {
            self.account.begin(ThreadUse::default());
        }
        let around = Around(&shared.origin_ns);
        if self.begun && self.account.is_due(elapsed) {
            self.account.roll(elapsed, None, &around);
        }
        if let Some(row) = self.account.intervals().get(self.reported) {
            self.reported += 1;
            let index = self.reported as u64 - 1;
            return Step::Event(DataEvent::Tick(stream, index, Tick::Send(*row)));
        }
        let time_is_up = self.plan.duration().is_some_and(|d| self.begun && elapsed >= d.0);
        let left = self.wanted.map(|wanted| wanted.saturating_sub(self.account.bytes()));
        if stopped || self.broken || time_is_up || left == Some(0) {
            let outlives = self.habits.streams_outlive && !self.broken;
            let settle_ns = if outlives { self.acknowledges_ns } else { 0 };
            self.ended = Some((elapsed, now_ns.saturating_add(settle_ns)));
            return self.step(now_ns, stream, shared);
        }
        if now_ns < self.next_ns.max(begin_ns) {
            let row = measured_ns.saturating_add(self.account.next_boundary_ns());
            return Step::Wait(Some(self.next_ns.max(begin_ns).min(row)));
        }
        self.next_ns = now_ns.saturating_add(GAP_NS);
        let whole = self.habits.whole_blocks;
        let length = left.filter(|_| self.begun && !whole).unwrap_or(u64::MAX).min(self.block);
        if self.begun {
            self.account.on_sent(elapsed, 0, length, None);
        } else {
            self.warmup += length;
        }
        shared.moved = shared.moved.saturating_add(length);
        Step::Write(length)
    }

    /// Nothing more is written.
    fn end(&mut self, now_ns: u64, stream: u16, (span, at, measured): (u64, u64, u64)) -> Step {
        if now_ns < at {
            return Step::Wait(Some(at));
        }
        if !self.habits.streams_outlive && !std::mem::replace(&mut self.closed, true) {
            return Step::Close;
        }
        let account = std::mem::replace(&mut self.account, Sender::new(1, None));
        let report = account.finish(span, None, &Around(&Cell::new(None)));
        let acknowledged = self.habits.streams_outlive.then(|| now_ns.saturating_sub(measured));
        done(
            stream,
            Report::Send(SendReport {
                warmup: self.warmup,
                acknowledged_ns: acknowledged,
                error: self.broken.then(|| "sending failed: it was closed".into()),
                ..report
            }),
        )
    }
}

pub(super) struct Receiving {
    account: Option<ByteReceiver>,
    habits: Habits,
    warmup_ns: u64,
    interval_ns: u64,
    reported: usize,
    /// Nothing more comes.
    pub(super) closed: bool,
    /// The kernel said so by an error.
    pub(super) reset: bool,
}

impl Receiving {
    pub(super) fn new(plan: &TestPlan, habits: Habits) -> Self {
        let intervals = plan.duration().map(|_| plan.intervals());
        Self {
            account: Some(ByteReceiver::new(plan.interval.0, intervals, plan.warmup.0)),
            habits,
            warmup_ns: plan.warmup.0,
            interval_ns: plan.interval.0,
            reported: 0,
            closed: false,
            reset: false,
        }
    }

    /// Whether they were taken.
    pub(super) fn hear(&mut self, bytes: u64, now_ns: u64, shared: &mut Shared) -> bool {
        let Some(account) = &mut self.account else { return false };
        account.on_bytes(bytes, now_ns, &Around(&shared.origin_ns));
        shared.heard_ns = Some(now_ns);
        shared.arrived = shared.arrived.saturating_add(bytes);
        shared.moved = shared.moved.saturating_add(bytes);
        true
    }

    pub(super) fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        let Some(account) = &mut self.account else { return Step::Wait(None) };
        let around = Around(&shared.origin_ns);
        if let Some(begin_ns) = shared.begin_ns.filter(|_| self.habits.measured_from_start) {
            account.begin_at(begin_ns.saturating_add(self.warmup_ns), &around);
        }
        account.on_idle(now_ns, &around);
        if let Some(row) = account.intervals().get(self.reported) {
            self.reported += 1;
            let index = self.reported as u64 - 1;
            return Step::Event(DataEvent::Tick(stream, index, Tick::Recv(*row)));
        }
        let outlives = self.habits.streams_outlive;
        let sent = shared.peer_sent.get(&stream).filter(|_| outlives);
        let all = sent.is_some_and(|sent| account.bytes() >= *sent);
        let drained = shared.drain_until_ns.is_some_and(|at| now_ns >= at);
        if self.closed || self.reset || all || drained {
            let Some(account) = self.account.take() else { return Step::Wait(None) };
            let ends = outlives && shared.stopped_ns.is_some();
            let error = match (self.reset, self.closed) {
                (true, _) => (!ends).then(|| "receiving failed: it was reset".into()),
                (_, true) => None,
                _ => (drained && !outlives).then(|| "the stream did not end by itself".into()),
            };
            let report = account.finish(&around);
            let engine = "made up".into();
            return done(stream, Report::Recv(RecvReport { engine, error, ..report }));
        }
        let row = shared.origin_ns.get().map(|origin| {
            let rows = now_ns.saturating_sub(origin) / self.interval_ns + 1;
            origin.saturating_add(rows.saturating_mul(self.interval_ns))
        });
        Step::Wait(row.into_iter().chain(shared.drain_until_ns).min())
    }
}
