//! Data threads as steps that are given the time. What leaves when, what is counted where and when a stream is over they
//! ask of the same code as those of `linerate-data`; in place of a kernel they have the world around them.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU8;

use linerate_dialect::Over;
use linerate_dialect::habits::Habits;
use linerate_dialect::stream::{DataEvent, Report, Role, StreamId, Tick};
use linerate_model::plan::{TestPlan, Traffic, UdpPlan};
use linerate_model::sample::{RecvReport, SendInterval, SendReport, ThreadUse};
use linerate_session::Surroundings;
use linerate_session::flow::{Incoming, Next, Outgoing, Row, warm_intervals};
use linerate_session::pacer::Pacer;
use linerate_session::receiver::{Message, Setup};
use linerate_session::sender::{Quota, Sender};
use linerate_wire::framing::{Framing, Mark};

use super::{bytes, rr};

/// What the threads of an end and its conversation share. Times are on the end's clock.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) begin_ns: Option<u64>,
    pub(super) stopped_ns: Option<u64>,
    pub(super) drain_until_ns: Option<u64>,
    pub(super) peer_sent: BTreeMap<u16, u64>,
    /// Bytes, warm-up included …
    pub(super) arrived: u64,
    /// … and of the measured time.
    pub(super) received: u64,
    pub(super) moved: u64,
    pub(super) heard_ns: Option<u64>,
    pub(super) over: Option<Over>,
    pub(super) origin_ns: Cell<Option<u64>>,
}

impl Shared {
    pub(super) fn stop(&mut self, now_ns: u64) {
        self.stopped_ns.get_or_insert(now_ns);
    }

    /// When the test began, until it is stopped.
    pub(super) fn running(&self) -> Option<u64> {
        self.begin_ns.filter(|_| self.stopped_ns.is_none())
    }

    /// Bytes came in, of a warm-up or not.
    pub(super) fn take(&mut self, bytes: u64, warm: bool, now_ns: u64) {
        self.heard_ns = Some(now_ns);
        self.arrived = self.arrived.saturating_add(bytes);
        self.received = self.received.saturating_add(if warm { 0 } else { bytes });
        self.moved = self.moved.saturating_add(bytes);
    }
}

/// Of receivers: the first arrival on any stream begins the measured time.
pub(super) struct Around<'a>(pub(super) &'a Cell<Option<u64>>);

impl Surroundings for Around<'_> {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        let origin = self.0.get().unwrap_or(first_arrival_ns);
        self.0.set(Some(origin));
        origin
    }

    fn thread(&self) -> ThreadUse {
        ThreadUse::default()
    }
}

/// What a thread does next.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub(super) enum Step {
    /// A datagram leaves; whether it is measured.
    Send(Vec<u8>, bool),
    /// So many bytes of a stream leave.
    Write(u64),
    /// Nothing more of a stream does.
    Close,
    /// Its conversation learns something. After `Done` it is no more.
    Event(DataEvent),
    /// Nothing before this time, or before somebody wakes it.
    Wait(Option<u64>),
}

/// A data thread.
pub(super) enum Thread {
    Send(Box<Sending>),
    Receive(Box<Receiving>),
    SendBytes(Box<bytes::Sending>),
    ReceiveBytes(Box<bytes::Receiving>),
    Ask(Box<rr::Asking>),
    Answer(Box<rr::Answering>),
}

impl Thread {
    pub(super) fn new(
        plan: &TestPlan,
        (id, role): (StreamId, Role),
        framing: Framing,
        habits: Habits,
        acknowledges_ns: u64,
    ) -> Self {
        let udp = match &plan.traffic {
            Traffic::Udp(udp) => udp,
            Traffic::Tcp(_) if role == Role::Receive => {
                return Self::ReceiveBytes(Box::new(bytes::Receiving::new(plan, habits)));
            }
            Traffic::Tcp(tcp) => {
                let thread = bytes::Sending::new(plan, tcp, id, habits, acknowledges_ns);
                return Self::SendBytes(Box::new(thread));
            }
            Traffic::Rr(rr) if role == Role::Request => {
                return Self::Ask(Box::new(rr::Asking::new(plan, rr, id)));
            }
            Traffic::Rr(rr) => return Self::Answer(Box::new(rr::Answering::new(rr))),
        };
        match role {
            Role::Receive => Self::Receive(Box::new(Receiving::new(plan, framing, habits))),
            _ => Self::Send(Box::new(Sending {
                plan: plan.clone(),
                udp: udp.clone(),
                id,
                framing,
                habits,
                phase: None,
                warmup: 0,
                next: VecDeque::new(),
            })),
        }
    }

    pub(super) fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        match self {
            Self::Send(thread) => thread.step(now_ns, stream, shared),
            Self::Receive(thread) => thread.step(now_ns, stream, shared),
            Self::SendBytes(thread) => thread.step(now_ns, stream, shared),
            Self::ReceiveBytes(thread) => thread.step(now_ns, stream, shared),
            Self::Ask(thread) => thread.step(now_ns, stream, shared),
            Self::Answer(thread) => thread.step(stream, shared),
        }
    }

    /// A datagram arrived at `now_ns`; whether it was taken as one of the test.
    pub(super) fn hear(&mut self, bytes: &[u8], now_ns: u64, shared: &mut Shared) -> bool {
        match self {
            Self::Receive(thread) => thread.hear(bytes, now_ns, shared),
            Self::Ask(thread) => thread.hear_datagram(bytes, now_ns, shared),
            Self::Answer(thread) => thread.hear_datagram(bytes, now_ns, shared),
            _ => false,
        }
    }

    /// Bytes of a stream arrived; whether they were taken.
    pub(super) fn read(&mut self, bytes: u64, now_ns: u64, shared: &mut Shared) -> bool {
        match self {
            Self::ReceiveBytes(thread) => thread.hear(bytes, now_ns, shared),
            Self::Ask(thread) => thread.hear(bytes, now_ns, shared),
            Self::Answer(thread) => thread.hear(bytes, now_ns, shared),
            _ => false,
        }
    }

    /// The stream is closed at the other end.
    pub(super) fn close(&mut self) {
        match self {
            Self::ReceiveBytes(thread) => thread.closed = true,
            Self::SendBytes(thread) => thread.broken = true,
            Self::Ask(thread) => thread.broken = true,
            Self::Answer(thread) => thread.closed = true,
            Self::Send(_) | Self::Receive(_) => {}
        }
    }

    /// The stream is reset.
    pub(super) fn reset(&mut self) {
        match self {
            Self::ReceiveBytes(thread) => thread.reset = true,
            other => other.close(),
        }
    }
}

/// The row of a receiver, as its conversation hears of it.
pub(super) fn row_step(stream: u16, row: &Row) -> Step {
    let (index, tick) = (row.index as u64, Tick::Recv(row.counted));
    Step::Event(match row.warm {
        true => DataEvent::Warm(stream, index, tick),
        false => DataEvent::Tick(stream, index, tick),
    })
}

/// That of a sender.
pub(super) fn sent_row(stream: u16, warm: bool, (index, row): (usize, SendInterval)) -> Step {
    let (index, tick) = (index as u64, Tick::Send(row));
    Step::Event(match warm {
        true => DataEvent::Warm(stream, index, tick),
        false => DataEvent::Tick(stream, index, tick),
    })
}

pub(super) struct Sending {
    plan: TestPlan,
    udp: UdpPlan,
    id: StreamId,
    framing: Framing,
    habits: Habits,
    phase: Option<Phase>,
    warmup: u64,
    next: VecDeque<Step>,
}

/// The warm-up, or the measured time.
struct Phase {
    warm: bool,
    start_ns: u64,
    /// Number of its first datagram.
    first: u64,
    flow: Outgoing,
}

impl Sending {
    fn begin(&self, start_ns: u64, warm: bool) -> Option<Phase> {
        let (plan, size) = (&self.plan, self.udp.size);
        let rate = self.udp.rate?.bits_per_second(size);
        let quota = if warm {
            Quota { until_ns: Some(plan.warmup.0), full: None, tail: [0; 2] }
        } else {
            Quota::datagrams(plan, size, self.id.index)
        };
        let intervals = match warm {
            true => Some(warm_intervals(plan.warmup.0, plan.interval.0)),
            false => plan.duration().map(|_| plan.intervals()),
        };
        let mut account = Sender::new(plan.interval.0, intervals);
        account.begin(ThreadUse::default());
        let pacer = Pacer::new(rate, size.bits(), self.id.index, plan.streams, 1, 100_000)?;
        let first = if self.habits.warm_by_time && !warm { self.warmup } else { 0 };
        Some(Phase { warm, start_ns, first, flow: Outgoing::new(quota, account, Some(pacer)) })
    }

    fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        if let Some(step) = self.next.pop_front() {
            return step;
        }
        let stopped = shared.stopped_ns;
        let Some(phase) = &mut self.phase else {
            let Some(begin_ns) = shared.begin_ns.filter(|_| stopped.is_none()) else {
                return match stopped {
                    Some(_) => done(stream, Report::Send(SendReport::default())),
                    None => Step::Wait(None),
                };
            };
            self.phase = self.begin(begin_ns, self.plan.warmup.0 > 0);
            return match self.phase {
                Some(_) => self.step(now_ns, stream, shared),
                None => done(stream, Report::Send(SendReport::default())),
            };
        };
        let Some(elapsed) = now_ns.checked_sub(phase.start_ns) else {
            if stopped.is_some() {
                return self.end(stream, 0, stopped);
            }
            return Step::Wait(Some(phase.start_ns));
        };
        phase.flow.look(elapsed, &Around(&shared.origin_ns));
        while let Some(row) = phase.flow.row() {
            if !phase.warm || self.habits.warm_by_time {
                return sent_row(stream, phase.warm, row);
            }
        }
        if stopped.is_some() {
            return self.end(stream, elapsed, stopped);
        }
        let call = match phase.flow.next(elapsed, 1, self.udp.size.len()) {
            Next::Wait(at) => return Step::Wait(Some(phase.start_ns.saturating_add(at))),
            Next::Over => return self.end(stream, elapsed, stopped),
            Next::Call(call) => call,
        };
        let mark = Mark {
            number: phase.first + phase.flow.datagrams(),
            sent_ns: phase.start_ns.saturating_add(elapsed),
            warmup: phase.warm,
            position: 0,
            train: NonZeroU8::MIN,
        };
        let mut datagram = vec![0; call.length];
        self.framing.write(&mark, &mut datagram);
        phase.flow.on_sent(&call, 1, elapsed);
        phase.flow.took(1, elapsed);
        shared.moved = shared.moved.saturating_add(call.length as u64);
        Step::Send(datagram, !phase.warm)
    }

    /// The end of a phase.
    fn end(&mut self, stream: u16, elapsed: u64, stopped: Option<u64>) -> Step {
        let Some(mut phase) = self.phase.take() else { return Step::Wait(None) };
        let stopped = stopped.map(|at| at.saturating_sub(phase.start_ns));
        let span_ns = phase.flow.end(elapsed, stopped);
        let sent = phase.flow.datagrams();
        let report = phase.flow.finish(span_ns, true, &Around(&Cell::new(None)));
        if phase.warm {
            self.warmup = sent;
            let start_ns = phase.start_ns.saturating_add(self.plan.warmup.0);
            self.phase = self.begin(start_ns, false);
            if let Some(last) = report.intervals.last().filter(|_| self.habits.warm_by_time) {
                return sent_row(stream, true, (report.intervals.len() - 1, *last));
            }
            // Who was stopped does not wait for the measured time.
            return Step::Wait(Some(if stopped.is_some() { 0 } else { start_ns }));
        }
        let marks = (0..self.habits.end_marks).map(|_| Step::Send(Vec::new(), false));
        self.next.extend(marks);
        let report = SendReport { warmup: self.warmup, ..report };
        self.next.push_back(done(stream, Report::Send(report)));
        self.next.pop_front().unwrap_or(Step::Wait(None))
    }
}

pub(super) struct Receiving {
    flow: Option<Incoming>,
    warmup_ns: u64,
    interval_ns: u64,
}

impl Receiving {
    fn new(plan: &TestPlan, framing: Framing, habits: Habits) -> Self {
        let setup = Setup {
            framing,
            first_number: 0,
            interval_ns: plan.interval.0,
            intervals: plan.duration().map(|_| plan.intervals()),
            merging: false,
        };
        let flow = Incoming::new(plan, habits, setup, &Around(&Cell::new(None)));
        Self { flow: Some(flow), warmup_ns: plan.warmup.0, interval_ns: plan.interval.0 }
    }

    fn hear(&mut self, bytes: &[u8], now_ns: u64, shared: &mut Shared) -> bool {
        let Some(flow) = &mut self.flow else { return false };
        if flow.apart(bytes).is_some() {
            return false;
        }
        flow.on_call();
        let message = Message {
            bytes,
            segment: bytes.len(),
            at_ns: now_ns,
            stamped: true,
            socket_drops: None,
        };
        let around = Around(&shared.origin_ns);
        let (warm, ours) = flow.on_message(&message, shared.running(), &around);
        flow.on_read(now_ns);
        if ours {
            shared.take(bytes.len() as u64, warm, now_ns);
        }
        ours
    }

    fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        let Some(flow) = &mut self.flow else { return Step::Wait(None) };
        let around = Around(&shared.origin_ns);
        let begun = shared.running();
        if let Some(begin_ns) = begun {
            flow.begin(begin_ns, &around);
        }
        flow.on_idle(now_ns, begun, &around);
        if let Some(row) = flow.row() {
            return row_step(stream, &row);
        }
        if let Some(sent) = flow.peer_end() {
            return Step::Event(DataEvent::PeerEnd(stream, sent));
        }
        let sent = shared.peer_sent.get(&stream).copied();
        let drained = shared.drain_until_ns.is_some_and(|at| now_ns >= at);
        if flow.is_complete(sent) || drained {
            flow.end_warmup(begun, &around);
            if let Some(row) = flow.row() {
                return row_step(stream, &row);
            }
            let Some(flow) = self.flow.take() else { return Step::Wait(None) };
            let report = flow.finish(sent, None, &around);
            return done(stream, Report::Recv(RecvReport { engine: "made up".into(), ..report }));
        }
        let warm_ns = begun.filter(|_| !flow.is_measuring());
        let looks = looks(shared, warm_ns, (self.warmup_ns, self.interval_ns), now_ns);
        Step::Wait(looks)
    }
}

/// When a receiver looks again though nothing comes: at the end of its rows, of its warm-up that began at `warm_ns`, and
/// of its patience.
pub(super) fn looks(
    shared: &Shared,
    warm_ns: Option<u64>,
    (warmup_ns, interval_ns): (u64, u64),
    now_ns: u64,
) -> Option<u64> {
    let row = |origin: u64| {
        let rows = now_ns.saturating_sub(origin) / interval_ns + 1;
        origin.saturating_add(rows.saturating_mul(interval_ns))
    };
    let measured = warm_ns.map(|at| at.saturating_add(warmup_ns)).filter(|at| *at > now_ns);
    let rows = [warm_ns.map(row), measured, shared.origin_ns.get().map(row)];
    rows.into_iter().flatten().chain(shared.drain_until_ns).min()
}

pub(super) fn done(stream: u16, report: Report) -> Step {
    Step::Event(DataEvent::Done(stream, Box::new(report)))
}
