//! Data threads over TCP as steps: a stream of bytes that comes whole and in order, or breaks.

use std::cell::Cell;

use linerate_dialect::habits::Habits;
use linerate_dialect::stream::{Report, StreamId};
use linerate_model::plan::{TcpPlan, TestPlan};
use linerate_model::sample::{RecvReport, SendReport, ThreadUse};
use linerate_session::flow::{BlockPacer, BytesIn, BytesOut};

use super::data::{Around, Shared, Step, done, looks, row_step, sent_row};

/// Without a pace a block leaves so often, in nanoseconds.
const GAP_NS: u64 = 2_000_000;

pub(super) struct Sending {
    plan: TestPlan,
    block: u64,
    id: StreamId,
    habits: Habits,
    paced: BlockPacer,
    phase: Option<Phase>,
    /// Its peer's kernel has acknowledged all after this, in nanoseconds.
    acknowledges_ns: u64,
    warmup: u64,
    next_ns: u64,
    /// Measured time, and when it is reported.
    ended: Option<(u64, u64)>,
    closed: bool,
    /// Why nothing goes out any more.
    pub(super) broken: bool,
}

/// The warm-up, or the measured time.
struct Phase {
    warm: bool,
    start_ns: u64,
    flow: BytesOut,
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
            id,
            habits,
            paced: BlockPacer::new(plan, habits, id.index, 0),
            phase: None,
            acknowledges_ns,
            warmup: 0,
            next_ns: 0,
            ended: None,
            closed: false,
            broken: false,
        }
    }

    fn begin(&self, begin_ns: u64, warm: bool) -> Phase {
        let intervals = self.plan.duration().map(|_| self.plan.intervals());
        let mut flow = match warm {
            true => BytesOut::warmup(&self.plan),
            false => BytesOut::measured(&self.plan, self.id.index, intervals),
        };
        flow.begin(ThreadUse::default());
        let before = if warm { 0 } else { self.plan.warmup.0 };
        Phase { warm, start_ns: begin_ns.saturating_add(before), flow }
    }

    pub(super) fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        let stopped = shared.stopped_ns.is_some();
        let Some(begin_ns) = shared.begin_ns else {
            return match stopped {
                true => done(stream, Report::Send(SendReport::default())),
                false => Step::Wait(None),
            };
        };
        if self.phase.is_none() && self.ended.is_none() {
            self.phase = Some(self.begin(begin_ns, self.plan.warmup.0 > 0));
        }
        let Some(phase) = &mut self.phase else { return Step::Wait(None) };
        let start_ns = phase.start_ns;
        if let Some((span_ns, at_ns)) = self.ended {
            return self.end(now_ns, stream, (span_ns, at_ns, start_ns));
        }
        let elapsed = now_ns.saturating_sub(start_ns);
        phase.flow.look(elapsed, || None, &Around(&shared.origin_ns));
        while let Some(row) = phase.flow.row() {
            if !phase.warm || self.habits.warm_by_time {
                return sent_row(stream, phase.warm, row);
            }
        }
        let most = phase.flow.most(elapsed).filter(|_| !stopped && !self.broken);
        let Some(most) = most else { return self.over(now_ns, stream, shared) };
        if now_ns < self.next_ns.max(start_ns) {
            let row = start_ns.saturating_add(phase.flow.next_end_ns());
            return Step::Wait(Some(self.next_ns.max(start_ns).min(row)));
        }
        let room = match self.paced.most(now_ns) {
            Ok(room) => room,
            Err(at) => {
                let row = start_ns.saturating_add(phase.flow.next_end_ns());
                return Step::Wait(Some(at.min(row)));
            }
        };
        if self.paced.is_unlimited() {
            self.next_ns = now_ns.saturating_add(GAP_NS);
        }
        let most = if self.habits.whole_blocks { u64::MAX } else { most };
        let length = most.min(room).min(self.block);
        phase.flow.on_sent(length, elapsed);
        self.paced.sent(length, || now_ns);
        shared.moved = shared.moved.saturating_add(length);
        Step::Write(length)
    }

    /// Nothing more leaves in this phase.
    fn over(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        let Some(phase) = &mut self.phase else { return Step::Wait(None) };
        let ends = shared.stopped_ns.is_some() || self.broken;
        if phase.warm {
            self.warmup = phase.flow.bytes();
        }
        if phase.warm && !ends {
            let begin_ns = phase.start_ns;
            let next = self.begin(begin_ns, false);
            let warm = self.phase.replace(next);
            let rows = warm.map(|warm| {
                warm.flow.finish(self.plan.warmup.0, None, &Around(&Cell::new(None))).intervals
            });
            let rows = rows.filter(|_| self.habits.warm_by_time).unwrap_or_default();
            return match rows.last() {
                Some(last) => sent_row(stream, true, (rows.len() - 1, *last)),
                None => self.step(now_ns, stream, shared),
            };
        }
        let ended_ns = self.paced.ended_ns(shared.stopped_ns, now_ns);
        let outlives = self.habits.streams_outlive && !self.broken;
        let settle_ns = if outlives { self.acknowledges_ns } else { 0 };
        if phase.warm {
            // Stopped before its measured time: nothing of that has left.
            let begin_ns = phase.start_ns;
            self.phase = Some(self.begin(begin_ns, false));
        }
        let start_ns = self.phase.as_ref().map_or(ended_ns, |phase| phase.start_ns);
        let span_ns = ended_ns.saturating_sub(start_ns);
        self.ended = Some((span_ns, now_ns.saturating_add(settle_ns)));
        self.step(now_ns, stream, shared)
    }

    /// Nothing more is written.
    fn end(&mut self, now_ns: u64, stream: u16, (span, at, measured): (u64, u64, u64)) -> Step {
        if now_ns < at {
            return Step::Wait(Some(at));
        }
        if !self.habits.streams_outlive && !std::mem::replace(&mut self.closed, true) {
            return Step::Close;
        }
        let Some(phase) = self.phase.take() else { return Step::Wait(None) };
        let report = phase.flow.finish(span, None, &Around(&Cell::new(None)));
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
    flow: Option<BytesIn>,
    outlives: bool,
    interval_ns: u64,
    warmup_ns: u64,
    /// Nothing more comes.
    pub(super) closed: bool,
    /// The kernel said so by an error.
    pub(super) reset: bool,
}

impl Receiving {
    pub(super) fn new(plan: &TestPlan, habits: Habits) -> Self {
        let intervals = plan.duration().map(|_| plan.intervals());
        Self {
            flow: Some(BytesIn::new(plan, habits, intervals)),
            outlives: habits.streams_outlive,
            interval_ns: plan.interval.0,
            warmup_ns: plan.warmup.0,
            closed: false,
            reset: false,
        }
    }

    /// Whether they were taken.
    pub(super) fn hear(&mut self, bytes: u64, now_ns: u64, shared: &mut Shared) -> bool {
        let Some(flow) = &mut self.flow else { return false };
        let warm = flow.on_bytes(bytes, now_ns, &Around(&shared.origin_ns));
        shared.take(bytes, warm, now_ns);
        true
    }

    pub(super) fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        let Some(flow) = &mut self.flow else { return Step::Wait(None) };
        let around = Around(&shared.origin_ns);
        let begun = shared.running().filter(|_| flow.begins_with_test());
        if let Some(begin_ns) = begun {
            flow.begin(begin_ns, now_ns, &around);
        }
        flow.on_idle(now_ns, &around);
        if let Some(row) = flow.row() {
            return row_step(stream, &row);
        }
        let all = flow.is_complete(shared.peer_sent.get(&stream).copied());
        let drained = shared.drain_until_ns.is_some_and(|at| now_ns >= at);
        if self.closed || self.reset || all || drained {
            flow.end_warmup(&around);
            if let Some(row) = flow.row() {
                return row_step(stream, &row);
            }
            let Some(flow) = self.flow.take() else { return Step::Wait(None) };
            let ends = self.outlives && shared.stopped_ns.is_some();
            let error = match (self.reset, self.closed) {
                (true, _) => (!ends).then(|| "receiving failed: it was reset".into()),
                (_, true) => None,
                _ => (drained && !self.outlives).then(|| "the stream did not end by itself".into()),
            };
            let report = flow.finish(&around);
            let engine = "made up".into();
            return done(stream, Report::Recv(RecvReport { engine, error, ..report }));
        }
        Step::Wait(looks(shared, begun, (self.warmup_ns, self.interval_ns), now_ns))
    }
}
