//! Data threads as steps that are given the time: what those of `linerate-data` do, written anew without a kernel. Only
//! pacer, accounting and framing are the same code.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU8;

use linerate_dialect::Over;
use linerate_dialect::habits::Habits;
use linerate_dialect::stream::{DataEvent, Report, Role, StreamId, Tick};
use linerate_model::plan::{TestPlan, Traffic, UdpPlan};
use linerate_model::sample::{RecvReport, SendReport, ThreadUse};
use linerate_session::Surroundings;
use linerate_session::pacer::{Pace, Pacer};
use linerate_session::receiver::{Message, Receiver, Setup};
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
    pub(super) arrived: u64,
    pub(super) moved: u64,
    pub(super) heard_ns: Option<u64>,
    pub(super) over: Option<Over>,
    pub(super) origin_ns: Cell<Option<u64>>,
}

impl Shared {
    pub(super) fn stop(&mut self, now_ns: u64) {
        self.stopped_ns.get_or_insert(now_ns);
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
                phase: None,
                warmup: 0,
                end_marks: habits.end_marks,
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

pub(super) struct Sending {
    plan: TestPlan,
    udp: UdpPlan,
    id: StreamId,
    framing: Framing,
    phase: Option<Phase>,
    warmup: u64,
    end_marks: u8,
    next: VecDeque<Step>,
}

/// The warm-up, or the measured time.
struct Phase {
    warm: bool,
    start_ns: u64,
    quota: Quota,
    pacer: Pacer,
    account: Sender,
    reported: usize,
    tails: usize,
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
        let intervals = if warm { Some(1) } else { plan.duration().map(|_| plan.intervals()) };
        let mut account = Sender::new(plan.interval.0, intervals);
        account.begin(ThreadUse::default());
        let pacer = Pacer::new(rate, size.bits(), self.id.index, plan.streams, 1, 100_000)?;
        Some(Phase { warm, start_ns, quota, pacer, account, reported: 0, tails: 0 })
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
                return self.end(stream, 0);
            }
            return Step::Wait(Some(phase.start_ns));
        };
        if phase.account.is_due(elapsed) {
            let around = Around(&shared.origin_ns);
            phase.account.roll(elapsed, None, &around);
        }
        if !phase.warm
            && let Some(row) = phase.account.intervals().get(phase.reported)
        {
            let index = phase.reported as u64;
            phase.reported += 1;
            return Step::Event(DataEvent::Tick(stream, index, Tick::Send(*row)));
        }
        if phase.quota.until_ns.is_some_and(|until| elapsed >= until) || stopped.is_some() {
            return self.end(stream, elapsed);
        }
        self.send(elapsed, stream, shared)
    }

    fn send(&mut self, elapsed: u64, stream: u16, shared: &mut Shared) -> Step {
        let size = self.udp.size.len();
        let Some(phase) = &mut self.phase else { return Step::Wait(None) };
        let due_ns = match phase.pacer.next(elapsed) {
            Pace::Send { due_ns, .. } => due_ns,
            Pace::WaitUntil(at) => {
                let at = at.min(phase.account.next_boundary_ns());
                let at = at.min(phase.quota.until_ns.unwrap_or(u64::MAX));
                return Step::Wait(Some(phase.start_ns.saturating_add(at)));
            }
        };
        let mut length = size;
        if phase.quota.full.is_some_and(|full| phase.account.datagrams() >= full) {
            let tail = phase.quota.tail.get(phase.tails).copied().filter(|length| *length > 0);
            let Some(tail) = tail else { return self.end(stream, elapsed) };
            length = usize::from(tail);
            phase.tails += 1;
        }
        let mark = Mark {
            number: phase.account.datagrams(),
            sent_ns: phase.start_ns.saturating_add(elapsed),
            warmup: phase.warm,
            position: 0,
            train: NonZeroU8::MIN,
        };
        let mut datagram = vec![0; length];
        self.framing.write(&mark, &mut datagram);
        phase.account.on_sent(elapsed, 1, length as u64, Some(due_ns));
        phase.pacer.taken(1, elapsed);
        shared.moved = shared.moved.saturating_add(length as u64);
        Step::Send(datagram, !phase.warm)
    }

    /// The end of a phase.
    fn end(&mut self, stream: u16, elapsed: u64) -> Step {
        let Some(phase) = self.phase.take() else { return Step::Wait(None) };
        let none = Cell::new(None);
        if phase.warm {
            self.warmup = phase.account.datagrams();
            let next = phase.start_ns.saturating_add(self.plan.warmup.0);
            self.phase = self.begin(next, false);
            return Step::Wait(Some(next));
        }
        let span_ns = phase.quota.until_ns.filter(|until| elapsed >= *until).unwrap_or(elapsed);
        let report = phase.account.finish(span_ns, None, &Around(&none));
        let marks = (0..self.end_marks).map(|_| Step::Send(Vec::new(), false));
        self.next.extend(marks);
        self.next
            .push_back(done(stream, Report::Send(SendReport { warmup: self.warmup, ..report })));
        self.next.pop_front().unwrap_or(Step::Wait(None))
    }
}

pub(super) struct Receiving {
    account: Option<Receiver>,
    /// The measured time begins with the start of the test, and not with the first arrival.
    begins: bool,
    interval_ns: u64,
    reported: usize,
    end_said: bool,
    /// Whether an empty datagram ends it, and whether one has come.
    is_marked: bool,
    ended: bool,
    /// Whether a datagram belongs to the opening.
    opens: fn(&[u8]) -> bool,
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
        let account = Receiver::new(setup, ThreadUse::default());
        let account = account.ending_after(plan.duration().map(|d| d.0));
        Self {
            account: Some(account),
            begins: habits.measured_from_start,
            interval_ns: plan.interval.0,
            reported: 0,
            is_marked: habits.end_marks > 0,
            ended: false,
            end_said: false,
            opens: habits.opens,
        }
    }

    fn hear(&mut self, bytes: &[u8], now_ns: u64, shared: &mut Shared) -> bool {
        let Some(account) = &mut self.account else { return false };
        if bytes.is_empty() && self.is_marked {
            self.ended = true;
            return false;
        }
        if (self.opens)(bytes) {
            return false;
        }
        account.on_call();
        let message = Message {
            bytes,
            segment: bytes.len(),
            at_ns: now_ns,
            stamped: true,
            socket_drops: None,
        };
        let before = account.peer_end();
        let ours = account.on_message(&message, &Around(&shared.origin_ns));
        account.on_read(now_ns);
        // The sender's last word is none of its data.
        let last = account.peer_end() != before || !ours;
        if ours {
            shared.heard_ns = Some(now_ns);
            shared.arrived = shared.arrived.saturating_add(bytes.len() as u64);
            shared.moved = shared.moved.saturating_add(bytes.len() as u64);
        }
        !last
    }

    fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        let Some(account) = &mut self.account else { return Step::Wait(None) };
        if let Some(sent) = account.peer_end()
            && !std::mem::replace(&mut self.end_said, true)
        {
            return Step::Event(DataEvent::PeerEnd(stream, sent));
        }
        if let Some(begin_ns) = shared.begin_ns.filter(|_| self.begins) {
            account.begin_at(begin_ns, &Around(&shared.origin_ns));
        }
        account.on_idle(now_ns, &Around(&shared.origin_ns));
        if let Some(row) = account.intervals().get(self.reported) {
            let index = self.reported as u64;
            self.reported += 1;
            return Step::Event(DataEvent::Tick(stream, index, Tick::Recv(*row)));
        }
        let sent = shared.peer_sent.get(&stream).copied();
        let all = sent.is_some_and(|sent| account.has_all(sent));
        let drained = shared.drain_until_ns.is_some_and(|at| now_ns >= at);
        if all || drained || self.ended {
            let Some(account) = self.account.take() else { return Step::Wait(None) };
            let report = account.finish(sent, None, &Around(&shared.origin_ns));
            return done(stream, Report::Recv(RecvReport { engine: "made up".into(), ..report }));
        }
        let row = shared.origin_ns.get().map(|origin| {
            let rows = (now_ns.saturating_sub(origin)) / self.interval_ns + 1;
            origin.saturating_add(rows.saturating_mul(self.interval_ns))
        });
        Step::Wait(row.into_iter().chain(shared.drain_until_ns).min())
    }
}

pub(super) fn done(stream: u16, report: Report) -> Step {
    Step::Event(DataEvent::Done(stream, Box::new(report)))
}
