//! A test at a client of nuttcp's: from the greeting to the server's results.
//!
//! The server says that its ports wait, and then nothing but what it receives, until it has its figures and
//! closes.

mod ended;
mod lines;
mod running;

pub use ended::Ended;

use std::collections::{BTreeMap, VecDeque};

use linerate_model::plan::{TestPlan, Transport};
use linerate_model::sample::{HostSample, RecvInterval};
use linerate_model::test_event::TestEvent;
use linerate_session::assemble::{self, LiveSide};
use linerate_wire::nuttcp::results::Span;
use linerate_wire::nuttcp::{Parameters, greeting};

use super::words::{Beginning, Farewell};
use crate::control::{ControlError, Outbox};
use crate::ending::{Failure, Trouble};
use crate::lookout::Lookout;
use crate::rows::RowBook;
use crate::stream::{self, DataEvent, Report, StreamId, Tick};
use crate::ticks::Ticks;
use crate::{Action, Conversation, Input, Seen};

/// From the second word of the beginning to the first datagram, or from the start of the threads to the first
/// byte, in nanoseconds: they have seen that they may begin.
const HEAD_START_NS: u64 = 2_000_000;
/// Data that the sender's end overtook has so long, in nanoseconds.
const STRAGGLERS_NS: u64 = 250_000_000;
/// What is in a server's send buffer when it says that it is done takes this long at most, in nanoseconds.
const STREAM_END_NS: u64 = 5_000_000_000;
/// A server's sender whose end was lost has ended so long after its time, in nanoseconds.
const PAD_NS: u64 = 5_000_000_000;
/// Threads that were stopped have ended by then, in nanoseconds.
const THREADS_LIMIT_NS: u64 = 4_000_000_000;
/// Who has interrupted a test waits this long for the server's results, in nanoseconds.
const INTERRUPTED_NS: u64 = 3_000_000_000;
/// A test without an end by time ends after this long in any case, in nanoseconds.
const LONGEST_NS: u64 = 86_400_000_000_000;
/// Lines of a server that are kept, and characters of each: a real one's longest has some 200.
const MOST_LINES: usize = 10_000;
const MOST_SHOWN: usize = 400;
/// Of its warnings, so many are shown.
const MOST_WARNINGS: u32 = 20;

const ASKING: &str = "asking for the test";
const OPENING: &str = "opening the data streams";
const RUNNING: &str = "running the test";
const WAITING: &str = "waiting for the results";

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// As nuttcp's dialect can run it.
    pub plan: TestPlan,
    /// What is asked of the server.
    pub asked: Parameters,
    /// The server has heard this end's greeting.
    pub greeted: bool,
    /// An answer before or after the test may take this long, in nanoseconds.
    pub patience_ns: u64,
}

/// Where the conversation is. Times are nanoseconds.
enum Phase {
    /// The server's greeting is due, and then, once it was `asked`, its consent.
    Asking {
        asked: bool,
        deadline_ns: u64,
    },
    /// The streams are being opened.
    Opening,
    /// The host's counters are made ready.
    Preparing,
    /// Datagrams will be sent.
    Beginning(Beginning),
    Running {
        over_ns: Option<u64>,
        deadline_ns: u64,
        lookout: Lookout,
    },
    /// The data threads are told to end, and do.
    Ending {
        deadline_ns: u64,
    },
    /// The host's counters are read.
    Counting,
    /// The server's results are due.
    Waiting {
        deadline_ns: u64,
    },
    Done(Result<(), Trouble>),
}

/// What the server said of the test.
#[derive(Debug, Default)]
struct Far {
    intervals: Vec<RecvInterval>,
    totals: Option<Span>,
    cpu_percent: Option<u32>,
    retransmits: Option<u64>,
    /// All of it.
    lines: Vec<String>,
    /// The first line of an error.
    error: Option<String>,
    /// How many were shown.
    warnings: u32,
}

/// The client's end of one test.
pub struct Client {
    terms: Terms,
    ids: Vec<StreamId>,
    heard: Vec<u8>,
    out: Outbox,
    actions: VecDeque<Action>,
    phase: Phase,
    missing: usize,
    release: Option<String>,
    /// What a server that refuses says, line by line.
    refusal: Option<Vec<String>>,
    far: Far,
    reports: BTreeMap<u16, Report>,
    ticks: Ticks,
    rows: RowBook,
    /// This end's intervals that the server's have not come for.
    waiting: VecDeque<(u64, LiveSide)>,
    shown: u64,
    farewell: Farewell,
    interrupted: bool,
    trouble: Option<Trouble>,
    threads_over: bool,
    /// Nothing comes from the server any more.
    closed: bool,
}

impl Conversation for Client {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(bytes) => self.read(now_ns, bytes),
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(error) => self.lost(now_ns, &error),
            Input::Arrived(_) => self.on_open(),
            Input::Data(event, host) => self.on_data(now_ns, event, host),
            Input::NoMoreData => self.threads_over = true,
            Input::Prepared(_) => self.prepared(now_ns),
            Input::Host(..) => self.on_host(now_ns),
            Input::Failed(why) => self.fail(now_ns, Failure::Here(why)),
            Input::Shutdown(_) => self.interrupt(now_ns),
            Input::Listening(..) | Input::Datagram(..) | Input::Time => {}
        }
        if self.out.deadline_ns().is_some_and(|at| now_ns >= at) {
            self.lost(now_ns, &ControlError::Silent);
        }
        self.settle(now_ns);
        self.look(now_ns, seen);
    }

    fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn outgoing(&self) -> &[u8] {
        self.out.bytes()
    }

    fn reads(&self) -> bool {
        !self.closed && !self.is_over()
    }

    fn deadline_ns(&self) -> Option<u64> {
        let own = match &self.phase {
            Phase::Asking { deadline_ns, .. } | Phase::Ending { deadline_ns } => Some(*deadline_ns),
            Phase::Beginning(beginning) => Some(beginning.again_ns),
            Phase::Waiting { deadline_ns } => {
                let word = self.farewell.deadline_ns().filter(|_| self.sends_datagrams());
                Some(word.unwrap_or(u64::MAX).min(*deadline_ns))
            }
            Phase::Running { over_ns, deadline_ns, lookout } => {
                Some(over_ns.unwrap_or(u64::MAX).min(*deadline_ns).min(lookout.deadline_ns()))
            }
            Phase::Opening | Phase::Preparing | Phase::Counting | Phase::Done(_) => None,
        };
        own.into_iter().chain(self.out.deadline_ns()).min()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Client {
    /// A test that begins at `now_ns` on a connection where the server's greeting is due.
    pub fn new(terms: Terms, now_ns: u64) -> Self {
        let plan = &terms.plan;
        let ids = stream::streams(plan.direction, plan.streams);
        let mut client = Self {
            heard: Vec::new(),
            out: Outbox::within(terms.patience_ns),
            actions: VecDeque::new(),
            phase: Phase::Asking {
                asked: false,
                deadline_ns: now_ns.saturating_add(terms.patience_ns),
            },
            missing: ids.len(),
            release: None,
            refusal: None,
            far: Far::default(),
            reports: BTreeMap::new(),
            ticks: Ticks::new(ids.len()),
            rows: RowBook::new(plan.interval.0, 0, ids.len()),
            waiting: VecDeque::new(),
            shown: 0,
            farewell: Farewell::default(),
            interrupted: false,
            trouble: None,
            threads_over: false,
            closed: false,
            ids,
            terms,
        };
        if !client.terms.greeted {
            client.say(now_ns, greeting::HELLO);
        }
        client
    }

    /// How it ended, once it has: with figures, or without any.
    pub fn outcome(&self) -> Option<Result<(), Trouble>> {
        match &self.phase {
            Phase::Done(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    fn sends(&self) -> bool {
        self.terms.plan.direction.has_forward()
    }

    fn is_udp(&self) -> bool {
        self.terms.plan.traffic.transport() == Transport::Udp
    }

    fn sends_datagrams(&self) -> bool {
        self.sends() && self.is_udp()
    }

    fn say(&mut self, now_ns: u64, bytes: &[u8]) {
        if let Err(error) = self.out.put_bytes(now_ns, bytes) {
            self.lost(now_ns, &error);
        }
    }

    fn end(&mut self, ended: Result<(), Trouble>) {
        if !self.is_over() {
            self.actions.push_back(Action::Stop);
            self.phase = Phase::Done(ended);
        }
    }

    fn doing(&self) -> &'static str {
        match self.phase {
            Phase::Asking { .. } => ASKING,
            Phase::Opening | Phase::Preparing | Phase::Beginning(_) => OPENING,
            Phase::Running { .. } | Phase::Ending { .. } => RUNNING,
            _ => WAITING,
        }
    }

    /// It goes no further: before the start there is nothing to report, after it there is.
    fn fail(&mut self, now_ns: u64, failure: Failure) {
        let trouble = Trouble { doing: self.doing(), failure };
        match self.phase {
            Phase::Running { .. } => {
                self.trouble.get_or_insert(trouble);
                self.stop(now_ns);
            }
            Phase::Ending { .. } | Phase::Counting => {
                self.trouble.get_or_insert(trouble);
            }
            Phase::Waiting { .. } => {
                self.trouble.get_or_insert(trouble);
                self.end(Ok(()));
            }
            Phase::Done(_) => {}
            _ => self.end(Err(trouble)),
        }
    }

    /// The control connection is of no use any more.
    fn lost(&mut self, now_ns: u64, error: &ControlError) {
        self.closed = true;
        self.out.clear();
        if let Some(lines) = self.refusal.take() {
            return self.refused(now_ns, &lines);
        }
        if self.far.totals.is_some() {
            return;
        }
        if let Some(why) = self.far.error.clone() {
            return self.fail(now_ns, Failure::Stopped(why));
        }
        let why = match error {
            ControlError::Closed => "it closed the control connection".to_owned(),
            ControlError::Silent => "it does not read its control connection".to_owned(),
            error => error.to_string(),
        };
        self.fail(now_ns, Failure::Server(why));
    }

    fn on_open(&mut self) {
        self.missing = self.missing.saturating_sub(1);
        if self.missing > 0 || !matches!(self.phase, Phase::Opening) {
            return;
        }
        let traffic = &self.terms.plan.traffic;
        let role = |id: &StreamId| stream::role(traffic, id.way, true);
        self.actions.extend(self.ids.iter().map(|id| Action::Spawn(*id, role(id))));
        self.actions.extend([Action::Announce, Action::Prepare]);
        self.phase = Phase::Preparing;
    }

    fn on_data(&mut self, now_ns: u64, event: DataEvent, host: &dyn Fn(u64) -> Option<HostSample>) {
        let (stream, index, tick) = match event {
            DataEvent::Tick(stream, index, tick) => (stream, index, tick),
            DataEvent::PeerEnd(..) => {
                let until_ns = now_ns.saturating_add(STRAGGLERS_NS);
                return self.actions.push_back(Action::DrainUntil(until_ns));
            }
            DataEvent::Done(stream, report) => {
                self.reports.insert(stream, *report);
                return;
            }
            DataEvent::Begun | DataEvent::Warm(..) => return,
        };
        if let Some(rows) = self.rows.add(false, stream, index, tick) {
            self.actions.push_back(Action::Event(Box::new(TestEvent::Rows(rows))));
        }
        let mut side = LiveSide { host: host(index), ..LiveSide::default() };
        match self.ticks.add(index, tick) {
            Some(Tick::Send(send)) => side.send = Some(send),
            Some(Tick::Recv(recv)) => side.recv = Some(recv),
            _ => return,
        }
        self.waiting.push_back((index, side));
        self.show();
    }

    /// Shows intervals of which both ends are known; a server that sends says nothing of its.
    fn show(&mut self) {
        let sends = self.sends();
        while let Some((index, _)) = self.waiting.front() {
            let at = usize::try_from(*index).unwrap_or(usize::MAX);
            let far = self.far.intervals.get(at).copied();
            if sends && far.is_none() && self.waiting.len() <= 1 {
                return;
            }
            let Some((index, near)) = self.waiting.pop_front() else { return };
            let far = LiveSide { recv: far, counts_only: true, ..LiveSide::default() };
            let row = assemble::live_interval(&self.terms.plan, index, &near, &far, None);
            self.shown = index.saturating_add(1);
            self.actions.push_back(Action::Show(Box::new(row)));
        }
    }
}
