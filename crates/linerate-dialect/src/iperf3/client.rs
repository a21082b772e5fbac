//! A test at a client of iperf3's: from its cookie to the server's results.
//!
//! The peer reports totals of each stream when the test is over, and nothing before. So a client
//! that sends waits a moment before it says that the test is over: what is on its way then would
//! not be counted at the peer.

mod ended;
mod running;
mod states;

pub use ended::Ended;

use std::collections::{BTreeMap, VecDeque};

use linerate_model::plan::{TestPlan, Transport};
use linerate_model::sample::HostSample;
use linerate_model::test_event::{Cpu, TestEvent};
use linerate_session::assemble::{self, LiveSide};
use linerate_wire::iperf3::{Cookie, Results, State};

use super::account::{Measured, our_results};
use crate::control::{ControlError, Outbox};
use crate::ending::{Failure, Trouble};
use crate::rows::RowBook;
use crate::stream::{self, DataEvent, Report, Role, StreamId, Tick};
use crate::ticks::Ticks;
use crate::{Action, Conversation, Input, Seen};

/// From the word that the test runs to the first datagram, in nanoseconds: every thread has seen that it
/// may begin.
pub const HEAD_START_NS: u64 = 2_000_000;
/// How long the numbers of a failure may take to follow their state, in nanoseconds.
const REASON_LIMIT_NS: u64 = 1_000_000_000;
/// The longest wait for what is on its way before the end is said, in nanoseconds.
pub const MOST_SETTLE_NS: u64 = 5_000_000_000;
/// After the end, receivers here wait this long for their TCP streams to end, in nanoseconds.
const STREAM_END_NS: u64 = 5_000_000_000;
/// … and as long at least for datagrams.
const LEAST_DRAIN_NS: u64 = 250_000_000;
/// A data thread that was stopped, and whose drain is over, has ended by then, in nanoseconds.
const THREADS_LIMIT_NS: u64 = 4_000_000_000;
/// The server's results, which come in pieces over a slow path, take so many times as long at most as the wait for the
/// next of them: 10 s, and 30 s in all, as iperf3's own clients wait (`Nread`, net.c).
const RESULTS_TIMES: u64 = 3;
/// Who has interrupted a test waits this long for the server's results, beyond two round trips.
const INTERRUPTED_NS: u64 = 3_000_000_000;
/// A receiver that ends by count is looked at this often, in nanoseconds; …
const COUNT_EVERY_NS: u64 = 2_000_000;
/// … and one that may hear nothing, this often.
const SILENCE_EVERY_NS: u64 = 100_000_000;
/// A test without an end by time ends after this long in any case, in nanoseconds.
const LONGEST_NS: u64 = 86_400_000_000_000;

const AGREEING: &str = "agreeing on the test";
const OPENING: &str = "opening the data streams";
const STARTING: &str = "starting the test";
const RUNNING: &str = "running the test";
const EXCHANGING: &str = "exchanging results";

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// As iperf3's dialect can run it.
    pub plan: TestPlan,
    /// Names the test; `None` where the server has it already.
    pub cookie: Option<Cookie>,
    /// What is asked of the server, as a frame.
    pub parameters: Vec<u8>,
    /// An answer before or after the test may take this long, in nanoseconds.
    pub patience_ns: u64,
    /// A receiving client that hears nothing for this long gives up, in nanoseconds.
    pub silence_ns: u64,
    /// Before the end is said, what is on its way has this long, in nanoseconds.
    pub settle_ns: u64,
    /// Of the control connection; 0 where unknown.
    pub rtt_ns: u64,
}

/// Where the conversation is.
enum Phase {
    /// The server answers the cookie, and then the parameters, with this state.
    Agreeing {
        wanted: State,
        deadline_ns: u64,
    },
    /// This end opens its data streams one after another, as iperf3 expects them.
    Opening {
        stream: u16,
        started: bool,
    },
    /// The server begins, and says that the test runs.
    Starting {
        wanted: State,
        deadline_ns: u64,
    },
    /// The host's counters are made ready.
    Preparing,
    Running(Running),
    /// Data threads end, and then the host's counters are read.
    Collecting {
        deadline_ns: u64,
        counted: bool,
    },
    /// The server's results, and its word that it is done with this end's.
    Exchanging {
        /// Of the next bytes.
        deadline_ns: u64,
        /// Of all.
        last_ns: u64,
    },
    Displaying {
        deadline_ns: u64,
    },
    /// A last word goes out.
    Leaving {
        deadline_ns: u64,
    },
    Done(Result<(), Trouble>),
}

/// What matters between the start and the server's wish for results. Times are nanoseconds.
struct Running {
    began_ns: u64,
    look_ns: u64,
    /// The end of the warm-up, until it is there.
    warm_ns: Option<u64>,
    /// The end of a test by time, and whether it is past.
    over_ns: Option<u64>,
    over: bool,
    deadline_ns: u64,
    /// When the end is said, and whether it has been.
    end_ns: Option<u64>,
    end_said: bool,
}

/// The client's end of one test.
pub struct Client {
    terms: Terms,
    ids: Vec<StreamId>,
    heard: Vec<u8>,
    out: Outbox,
    actions: VecDeque<Action>,
    phase: Phase,
    /// A failure of the server's is on its way; no more of it is waited for after this.
    failing_ns: Option<u64>,
    reports: BTreeMap<u16, Report>,
    rows: RowBook,
    send_ticks: Ticks,
    recv_ticks: Ticks,
    live: BTreeMap<u64, LiveSide>,
    shown: u64,
    word_ns: u64,
    start_ns: u64,
    ended_ns: Option<u64>,
    /// Measured time as it is reported to the server, in nanoseconds: without what still came after that.
    said_span_ns: u64,
    congestion: Option<String>,
    cpu: Cpu,
    results: Option<Results>,
    interrupted: bool,
    /// This end was stopped once.
    hurries: bool,
    trouble: Option<Trouble>,
    threads_over: bool,
    /// Nothing comes from the server any more.
    closed: bool,
}

impl Conversation for Client {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(bytes) => self.hear(now_ns, bytes),
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(error) => self.lost(now_ns, &error),
            Input::Arrived(_) => self.on_opened(now_ns),
            Input::Data(event, host) => self.on_data(event, host),
            Input::NoMoreData => self.threads_over = true,
            Input::Prepared(congestion) => self.begin(now_ns, congestion),
            Input::Host(_, cpu) => self.on_host(now_ns, cpu),
            Input::Failed(why) => self.fail(now_ns, Failure::Here(why)),
            Input::Shutdown(_) => self.interrupt(now_ns),
            Input::Listening(..) | Input::Datagram(..) | Input::Time => {}
        }
        while self.reads() && self.read(now_ns) {}
        if self.out.deadline_ns().is_some_and(|at| now_ns >= at) {
            self.lost(now_ns, &ControlError::Silent);
        }
        self.settle(now_ns, seen);
    }

    fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn outgoing(&self) -> &[u8] {
        self.out.bytes()
    }

    fn reads(&self) -> bool {
        let waits = match &self.phase {
            Phase::Agreeing { .. }
            | Phase::Starting { .. }
            | Phase::Running(_)
            | Phase::Exchanging { .. }
            | Phase::Displaying { .. } => true,
            // What the server says is an answer to a UDP stream's hello as well.
            Phase::Opening { started, .. } => !started && self.is_udp(),
            _ => false,
        };
        waits && !self.closed
    }

    fn deadline_ns(&self) -> Option<u64> {
        let own = match &self.phase {
            Phase::Agreeing { deadline_ns, .. }
            | Phase::Starting { deadline_ns, .. }
            | Phase::Collecting { deadline_ns, .. }
            | Phase::Exchanging { deadline_ns, .. }
            | Phase::Displaying { deadline_ns }
            | Phase::Leaving { deadline_ns } => Some(*deadline_ns),
            Phase::Running(running) => {
                let end_ns = running.end_ns.filter(|_| !running.end_said);
                let over_ns = running.over_ns.filter(|_| !running.over);
                let looks = self.terms.plan.direction.has_reverse() && !running.end_said;
                let look_ns = looks.then_some(running.look_ns);
                let times = [end_ns, over_ns, look_ns, running.warm_ns];
                times.into_iter().flatten().chain([running.deadline_ns]).min()
            }
            Phase::Opening { .. } | Phase::Preparing | Phase::Done(_) => None,
        };
        own.into_iter().chain(self.out.deadline_ns()).chain(self.failing_ns).min()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Client {
    /// A test that begins at `now_ns` on a connection where nothing, or the cookie alone, was said.
    pub fn new(terms: Terms, now_ns: u64) -> Self {
        let plan = &terms.plan;
        let ids = stream::streams(plan.direction, plan.streams);
        let count = |role| {
            ids.iter().filter(|id| stream::role(&plan.traffic, id.way, true) == role).count()
        };
        let deadline_ns = now_ns.saturating_add(terms.patience_ns);
        let mut client = Self {
            rows: RowBook::new(plan.interval.0, plan.warmup.0, ids.len()),
            send_ticks: Ticks::new(count(Role::Send)),
            recv_ticks: Ticks::new(count(Role::Receive)),
            out: Outbox::within(terms.patience_ns),
            phase: Phase::Agreeing { wanted: State::ParamExchange, deadline_ns },
            ids,
            heard: Vec::new(),
            actions: VecDeque::new(),
            failing_ns: None,
            reports: BTreeMap::new(),
            live: BTreeMap::new(),
            shown: 0,
            word_ns: 0,
            start_ns: 0,
            ended_ns: None,
            said_span_ns: 0,
            congestion: None,
            cpu: Cpu::default(),
            results: None,
            interrupted: false,
            hurries: false,
            trouble: None,
            threads_over: false,
            closed: false,
            terms,
        };
        if let Some(cookie) = client.terms.cookie.take() {
            client.say(now_ns, cookie.bytes());
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

    fn is_udp(&self) -> bool {
        self.terms.plan.traffic.transport() == Transport::Udp
    }

    fn end(&mut self, ended: Result<(), Trouble>) {
        if !self.is_over() {
            self.actions.extend([Action::Stop, Action::Release]);
            self.phase = Phase::Done(ended);
        }
    }

    fn doing(&self) -> &'static str {
        match self.phase {
            Phase::Agreeing { .. } => AGREEING,
            Phase::Opening { .. } => OPENING,
            Phase::Starting { .. } | Phase::Preparing => STARTING,
            Phase::Running(_) => RUNNING,
            _ => EXCHANGING,
        }
    }

    /// It goes no further: before the start there is nothing to report, after it there is.
    fn fail(&mut self, now_ns: u64, failure: Failure) {
        let trouble = Trouble { doing: self.doing(), failure };
        match self.phase {
            Phase::Running(_) => {
                self.trouble.get_or_insert(trouble);
                self.actions.push_back(Action::Stop);
                self.collect(now_ns, 0);
            }
            Phase::Exchanging { .. } => {
                self.trouble.get_or_insert(trouble);
                self.end(Ok(()));
            }
            Phase::Collecting { .. } => {
                self.trouble.get_or_insert(trouble);
            }
            // The results are there; without the last words they are whole all the same.
            Phase::Displaying { .. } => self.leave(now_ns),
            Phase::Leaving { .. } => self.end(Ok(())),
            _ => self.end(Err(trouble)),
        }
    }

    /// The control connection is of no use any more.
    fn lost(&mut self, now_ns: u64, error: &ControlError) {
        self.closed = true;
        self.out.clear();
        if self.failing_ns.take().is_some() {
            // It said why, as far as it came.
            return self.on_failure(now_ns);
        }
        let why = match error {
            ControlError::Closed => "it closed the control connection".to_owned(),
            ControlError::Silent => "the server does not read its control connection".to_owned(),
            error => error.to_string(),
        };
        self.fail_server(now_ns, why);
    }

    fn fail_server(&mut self, now_ns: u64, why: String) {
        let asked = matches!(self.phase, Phase::Agreeing { wanted: State::CreateStreams, .. });
        let failure = if asked { Failure::TurnedAway(why) } else { Failure::Server(why) };
        self.fail(now_ns, failure);
    }

    fn say(&mut self, now_ns: u64, bytes: &[u8]) {
        if let Err(error) = self.out.put_bytes(now_ns, bytes) {
            self.lost(now_ns, &error);
        }
    }

    fn hear(&mut self, now_ns: u64, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        if let Phase::Exchanging { deadline_ns, last_ns } = &mut self.phase {
            *deadline_ns = now_ns.saturating_add(self.terms.patience_ns).min(*last_ns);
        }
    }

    fn open(&mut self) {
        let Phase::Opening { stream, .. } = self.phase else { return };
        self.actions.extend(self.ids.get(usize::from(stream)).map(|id| Action::Open(*id, None)));
    }

    fn on_opened(&mut self, now_ns: u64) {
        let Phase::Opening { stream, started } = &mut self.phase else { return };
        *stream += 1;
        if usize::from(*stream) < self.ids.len() {
            return self.open();
        }
        let wanted = if *started { State::TestRunning } else { State::TestStart };
        let deadline_ns = now_ns.saturating_add(self.terms.patience_ns);
        self.phase = Phase::Starting { wanted, deadline_ns };
        let traffic = &self.terms.plan.traffic;
        let role = |id: &StreamId| stream::role(traffic, id.way, true);
        self.actions.extend(self.ids.iter().map(|id| Action::Spawn(*id, role(id))));
    }

    /// The server says that the test runs.
    fn start(&mut self, now_ns: u64) {
        let sends = self.terms.plan.direction.has_forward();
        self.start_ns = now_ns.saturating_add(if sends { HEAD_START_NS } else { 0 });
        self.phase = Phase::Preparing;
        let begin = Action::Begin(self.start_ns);
        self.actions.extend([Action::Announce, begin, Action::Prepare]);
    }

    fn begin(&mut self, now_ns: u64, congestion: Option<String>) {
        if !matches!(self.phase, Phase::Preparing) {
            return;
        }
        self.congestion = congestion;
        let plan = &self.terms.plan;
        let warm_ns = self.start_ns.saturating_add(plan.warmup.0);
        let over_ns = plan.duration().map(|d| warm_ns.saturating_add(d.0));
        let latest = over_ns.unwrap_or(warm_ns.saturating_add(LONGEST_NS));
        let limit = self.terms.patience_ns.saturating_add(MOST_SETTLE_NS);
        self.phase = Phase::Running(Running {
            began_ns: now_ns,
            look_ns: now_ns,
            warm_ns: Some(warm_ns).filter(|_| plan.warmup.0 > 0),
            over_ns,
            over: false,
            deadline_ns: latest.saturating_add(limit),
            end_ns: None,
            end_said: false,
        });
    }

    fn interrupt(&mut self, now_ns: u64) {
        let settle_ns = self.terms.settle_ns;
        match &mut self.phase {
            Phase::Running(running) if !self.interrupted => {
                self.interrupted = true;
                let note = "interrupted: ending with what was measured".into();
                self.actions.extend([Action::Note(note), Action::Stop]);
                running.end_ns.get_or_insert(now_ns.saturating_add(settle_ns));
                let patience = INTERRUPTED_NS.saturating_add(settle_ns);
                self.terms.patience_ns = self.terms.patience_ns.min(patience);
                if running.end_said {
                    let soon = now_ns.saturating_add(self.terms.patience_ns);
                    running.deadline_ns = running.deadline_ns.min(soon);
                }
            }
            // All is measured: the server's figures have a little time.
            Phase::Collecting { .. } | Phase::Exchanging { .. } if !self.hurries => {
                let patience = INTERRUPTED_NS.saturating_add(settle_ns);
                self.terms.patience_ns = self.terms.patience_ns.min(patience);
                if let Phase::Exchanging { deadline_ns, last_ns } = &mut self.phase {
                    *last_ns = (*last_ns).min(now_ns.saturating_add(patience));
                    *deadline_ns = (*deadline_ns).min(*last_ns);
                }
            }
            // Whoever asks again does not wait for them.
            Phase::Running(_) | Phase::Collecting { .. } | Phase::Exchanging { .. } => {
                self.interrupted = true;
                self.fail(now_ns, Failure::Interrupted);
            }
            Phase::Displaying { .. } | Phase::Leaving { .. } | Phase::Done(_) => {}
            _ => {
                let trouble = Trouble { doing: self.doing(), failure: Failure::Interrupted };
                self.end(Err(trouble));
            }
        }
        self.hurries = true;
    }

    fn on_data(&mut self, event: DataEvent, host: &dyn Fn(u64) -> Option<HostSample>) {
        let (warm, stream, index, tick) = match event {
            DataEvent::Begun | DataEvent::PeerEnd(..) => return,
            DataEvent::Done(stream, report) => {
                self.reports.insert(stream, *report);
                return;
            }
            DataEvent::Warm(stream, index, tick) => (true, stream, index, tick),
            DataEvent::Tick(stream, index, tick) => (false, stream, index, tick),
        };
        if let Some(rows) = self.rows.add(warm, stream, index, tick) {
            self.actions.push_back(Action::Event(Box::new(TestEvent::Rows(rows))));
        }
        if !warm {
            self.show(index, tick, host(index));
        }
    }

    /// Shows this end's part of an interval once all its streams have reported it.
    fn show(&mut self, index: u64, tick: Tick, host: Option<HostSample>) {
        let sum = match tick {
            Tick::Send(_) => self.send_ticks.add(index, tick),
            _ => self.recv_ticks.add(index, tick),
        };
        let side = self.live.entry(index).or_default();
        side.host = host;
        match sum {
            Some(Tick::Send(send)) => side.send = Some(send),
            Some(Tick::Recv(recv)) => side.recv = Some(recv),
            _ => return,
        }
        let plan = &self.terms.plan;
        let (sends, receives) = (plan.direction.has_forward(), plan.direction.has_reverse());
        if (sends && side.send.is_none()) || (receives && side.recv.is_none()) {
            return;
        }
        let Some(side) = self.live.remove(&index) else { return };
        self.shown = index + 1;
        let row = assemble::live_interval(plan, index, &side, &LiveSide::default(), None);
        self.actions.push_back(Action::Show(Box::new(row)));
    }

    /// What follows from the time, and from all that is known by now.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        if self.failing_ns.is_some_and(|at| now_ns >= at) {
            self.failing_ns = None;
            self.on_failure(now_ns);
        }
        let late = |deadline_ns: u64| now_ns >= deadline_ns;
        match &self.phase {
            Phase::Running(_) => self.settle_running(now_ns, seen),
            Phase::Collecting { deadline_ns, counted: false }
                if late(*deadline_ns)
                    || self.reports.len() == self.ids.len()
                    || self.threads_over =>
            {
                let deadline_ns = *deadline_ns;
                self.phase = Phase::Collecting { deadline_ns, counted: true };
                if self.reports.len() < self.ids.len() {
                    // Whatever the server reports, a stream's own figures are missing.
                    let failure = Failure::Here("a data thread ended without a word".into());
                    self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
                }
                self.actions.push_back(Action::FinishHost);
            }
            Phase::Agreeing { deadline_ns, .. } | Phase::Starting { deadline_ns, .. }
                if late(*deadline_ns) =>
            {
                let patience = std::time::Duration::from_nanos(self.terms.patience_ns);
                self.fail_server(now_ns, format!("no answer within {patience:?}"));
            }
            Phase::Exchanging { deadline_ns, .. } if late(*deadline_ns) => {
                self.fail_server(now_ns, "its results did not come in time".into());
            }
            Phase::Displaying { deadline_ns } if late(*deadline_ns) => self.leave(now_ns),
            Phase::Leaving { deadline_ns } if late(*deadline_ns) || self.out.bytes().is_empty() => {
                self.end(Ok(()));
            }
            _ => {}
        }
    }

    /// Waits for the reports of all data threads; they were stopped.
    fn collect(&mut self, now_ns: u64, drain_ns: u64) {
        let drained_ns = now_ns.saturating_add(drain_ns);
        self.actions.push_back(Action::DrainUntil(if drain_ns > 0 { drained_ns } else { 0 }));
        let deadline_ns = drained_ns.saturating_add(THREADS_LIMIT_NS);
        self.phase = Phase::Collecting { deadline_ns, counted: false };
    }

    /// All that this end measured is there.
    fn on_host(&mut self, now_ns: u64, cpu: Cpu) {
        let Phase::Collecting { counted: true, .. } = self.phase else { return };
        self.cpu = cpu;
        self.show_rest(now_ns);
        if self.trouble.is_some() {
            return self.end(Ok(()));
        }
        let (congestion, span_ns) = (self.congestion.clone(), self.said_span_ns);
        let measured = self.measured(now_ns);
        let results = our_results(&measured, &self.ids, (cpu, span_ns), congestion);
        let patience_ns = self.terms.patience_ns;
        let times = if self.hurries { 1 } else { RESULTS_TIMES };
        self.phase = Phase::Exchanging {
            deadline_ns: now_ns.saturating_add(patience_ns),
            last_ns: now_ns.saturating_add(patience_ns.saturating_mul(times)),
        };
        match results.encode() {
            Ok(bytes) => self.say(now_ns, &bytes),
            Err(e) => self.fail_server(now_ns, e.to_string()),
        }
    }

    /// The rows that had not been reported when the streams ended.
    fn show_rest(&mut self, now_ns: u64) {
        let reports: Vec<&Report> =
            self.ids.iter().filter_map(|id| self.reports.get(&id.stream)).collect();
        if reports.len() == self.ids.len() {
            let span_ns = self.measured(now_ns).span_ns();
            let rows = self.rows.rest(&reports, span_ns);
            let events = rows.into_iter().map(|rows| Box::new(TestEvent::Rows(rows)));
            self.actions.extend(events.map(Action::Event));
        }
    }

    fn leave(&mut self, now_ns: u64) {
        let deadline_ns = now_ns.saturating_add(self.terms.patience_ns);
        self.phase = Phase::Leaving { deadline_ns };
        self.actions.push_back(Action::Release);
        if !self.closed {
            self.say(now_ns, &[State::IperfDone.byte()]);
        }
    }

    fn measured(&self, now_ns: u64) -> Measured<'_> {
        Measured {
            plan: &self.terms.plan,
            reports: &self.reports,
            word_ns: self.word_ns,
            rtt_ns: self.terms.rtt_ns,
            start_ns: self.start_ns,
            ended_ns: self.ended_ns.unwrap_or(now_ns),
        }
    }
}
