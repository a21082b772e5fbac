//! A test of iperf3's at the server: from the word to open streams to the client's goodbye.

mod exchange;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use linerate_model::plan::{AgreedPlan, Direction, TestPlan, Transport};
use linerate_model::served::Outcome;
use linerate_model::test_event::{Cpu, End, TestEvent};
use linerate_wire::iperf3::frame::FrameError;
use linerate_wire::iperf3::{ErrorNumber, Failure, State};

use super::client::HEAD_START_NS;
use super::output::Output;
use crate::control::{ControlError, Outbox};
use crate::ending::Early;
use crate::idle::Idle;
use crate::rate_meter::RateMeter;
use crate::rows::RowBook;
use crate::stream::{self, DataEvent, Report, StreamId};
use crate::{Action, Conversation, Input, Seen};

/// A client that takes longer than this to take or to send what is due is gone, in nanoseconds.
pub const TALK_LIMIT_NS: u64 = 5_000_000_000;
/// As long as iperf3's own servers wait for results, in nanoseconds: a client's may wait behind a queue
/// that the test has filled.
const RESULTS_LIMIT_NS: u64 = 10_000_000_000;
/// A UDP hello that does not come at once was lost, and iperf3's clients never send it again; until
/// then no other test of that address can open streams. In nanoseconds.
const HELLO_LIMIT_NS: u64 = 3_000_000_000;
/// TCP streams must arrive within this time each, in nanoseconds.
const STREAM_LIMIT_NS: u64 = 10_000_000_000;
/// From the last stream to the word that the test runs, in nanoseconds: all threads are awake by then.
const READY_NS: u64 = 25_000_000;
/// What is still in a client's send buffer may take this long, in nanoseconds; clients wait 10 s for
/// results.
const TCP_DRAIN_NS: u64 = 5_000_000_000;
/// A data thread that is stopped looks up within 20 ms; on a host that is full, some later. In
/// nanoseconds.
const GATHER_LIMIT_NS: u64 = 2_000_000_000;
/// How often the limits are looked at, in nanoseconds.
const LOOK_EVERY_NS: u64 = 250_000_000;
/// A client that ends its test by time may be late with the word, in nanoseconds: no data is taken
/// meanwhile.
const LATE_WORD_NS: u64 = 2_000_000_000;
/// A client to which data goes and whose host does not answer for this long is gone, in nanoseconds. Not
/// less, as what asks it goes through the queue that the test may keep full: of 38 questions one must pass.
const SILENT_SENDING_NS: u64 = 10_000_000_000;
/// A client that only sends, and from which neither data nor an answer comes, in nanoseconds.
const SILENT_RECEIVING_NS: u64 = 30_000_000_000;

/// How long a client's host may be silent, in nanoseconds.
pub fn silence_limit_ns(direction: Direction) -> u64 {
    if direction.has_reverse() { SILENT_SENDING_NS } else { SILENT_RECEIVING_NS }
}

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What both ends run.
    pub agreed: Arc<AgreedPlan>,
    /// The client's control connection.
    pub peer: SocketAddr,
    /// Agreed time of a test that ends by time, in nanoseconds.
    pub time_ns: Option<u64>,
    /// The owner's longest test, in nanoseconds.
    pub longest_ns: u64,
    /// The owner's largest rate of one direction in bit/s.
    pub most_bps: Option<u64>,
    /// A test in which nothing moves for so long ends, in nanoseconds.
    pub no_data_ns: u64,
    /// The first line of what the client sees of this server's own lines, if it asked for them.
    pub output: Option<String>,
}

/// Why a test did not come to its end: said to the client by number, to the log in words.
struct Trouble {
    failure: Option<Failure>,
    early: Early,
}

impl Trouble {
    fn new(number: ErrorNumber, why: impl Into<String>) -> Self {
        let outcome = match number {
            ErrorNumber::CLIENT_TERMINATED => Outcome::Stopped,
            ErrorNumber::SERVER_TERMINATED
            | ErrorNumber::END_CONDITIONS
            | ErrorNumber::TOO_LONG
            | ErrorNumber::RATE
            | ErrorNumber::NO_DATA => Outcome::Cut,
            _ => Outcome::Failed,
        };
        Self { failure: Some(Failure { number, errno: 0 }), early: Early::new(outcome, why) }
    }

    /// The client is gone or says so itself: nothing more goes to it.
    fn quiet(outcome: Outcome, why: impl Into<String>) -> Self {
        Self { failure: None, early: Early::new(outcome, why) }
    }

    fn of_frame(error: &FrameError) -> Self {
        Self::new(ErrorNumber::RECEIVE_RESULTS, error.to_string())
    }

    fn terminated(why: &str) -> Self {
        Self::new(ErrorNumber::SERVER_TERMINATED, why)
    }
}

/// What a client may say before the test runs: that it gives up. `None` for what it may not.
fn gives_up(state: State) -> bool {
    matches!(state, State::ClientTerminate | State::IperfDone | State::TestEnd)
}

/// Where the conversation is.
enum Phase {
    /// Data streams are missing.
    Streams {
        missing: usize,
        deadline_ns: u64,
    },
    /// Their threads wake up.
    Waking {
        ready_ns: u64,
    },
    /// The client learns that the test runs.
    Word,
    Running(Box<Running>),
    /// The client's results come first, and say how much it sent.
    Results {
        deadline_ns: u64,
    },
    /// This end reads on until it has that, so that what was under way at the end counts where it
    /// belongs.
    Draining {
        far_cpu: Option<Cpu>,
        counted: bool,
    },
    /// This end's results go out.
    Reporting {
        end: Box<End>,
    },
    /// The client's goodbye. Its streams end with it, so that without one the figures of a client that
    /// was killed look like those of a whole test.
    Farewell {
        deadline_ns: u64,
    },
    /// After trouble the data threads end; their reports are for the log.
    Gathering {
        deadline_ns: u64,
        trouble: Trouble,
        counted: bool,
    },
    /// A last word goes out.
    Leaving {
        early: Early,
    },
    Done(Result<(), Early>),
}

/// What matters between the start and the client's word that the test is over. Times are nanoseconds.
struct Running {
    began_ns: u64,
    look_ns: u64,
    most_ns: u64,
    meter: Option<RateMeter>,
    fault_seen: bool,
    idle: Idle,
}

/// The server's end of one test.
pub struct Server {
    terms: Terms,
    ids: Vec<StreamId>,
    heard: Vec<u8>,
    out: Outbox,
    actions: VecDeque<Action>,
    phase: Phase,
    reports: BTreeMap<u16, Report>,
    rows: RowBook,
    output: Option<Output>,
    congestion: Option<String>,
    /// When the measured time begins, once data flows.
    measured_ns: u64,
    ended_ns: Option<u64>,
    /// Why a stream ended that should not have.
    fault: Option<(ErrorNumber, String)>,
    threads_over: bool,
    /// This end shall stop, and why.
    shut: Option<String>,
}

impl Conversation for Server {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(bytes) => self.heard.extend_from_slice(bytes),
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(error) => self.lost(now_ns, &error),
            Input::Arrived(_) => self.on_arrival(now_ns),
            Input::Data(event, _) => self.on_data(event),
            Input::NoMoreData => self.threads_over = true,
            Input::Prepared(congestion) => self.congestion = congestion,
            Input::Host(_, cpu) => self.on_host(now_ns, cpu),
            Input::Failed(why) => self.trouble(now_ns, Trouble::new(ErrorNumber::THREAD, why)),
            Input::Shutdown(why) => self.shut = Some(why.to_owned()),
            Input::Listening(..) | Input::Datagram(..) | Input::Time => {}
        }
        while self.reads() && self.read(now_ns, seen) {}
        if self.out.deadline_ns().is_some_and(|at| now_ns >= at) {
            self.lost(now_ns, &ControlError::Silent);
        }
        self.settle(now_ns, seen);
        // What came with the last bytes may be for the phase that this one led to.
        while self.reads() && self.read(now_ns, seen) {
            self.settle(now_ns, seen);
        }
    }

    fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn outgoing(&self) -> &[u8] {
        self.out.bytes()
    }

    fn reads(&self) -> bool {
        matches!(
            self.phase,
            Phase::Streams { .. }
                | Phase::Running(_)
                | Phase::Results { .. }
                | Phase::Farewell { .. }
        )
    }

    fn deadline_ns(&self) -> Option<u64> {
        let own = match &self.phase {
            Phase::Streams { deadline_ns, .. }
            | Phase::Results { deadline_ns }
            | Phase::Farewell { deadline_ns }
            | Phase::Gathering { deadline_ns, .. } => Some(*deadline_ns),
            Phase::Waking { ready_ns } => Some(*ready_ns),
            Phase::Running(running) => Some(running.look_ns),
            Phase::Word
            | Phase::Draining { .. }
            | Phase::Reporting { .. }
            | Phase::Leaving { .. }
            | Phase::Done(_) => None,
        };
        own.into_iter().chain(self.out.deadline_ns()).min()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Server {
    /// A test that was granted, whose streams may come from `now_ns` on.
    pub fn new(terms: Terms, now_ns: u64) -> Self {
        let plan = &terms.agreed.plan;
        let ids = stream::streams(plan.direction, plan.streams);
        let mut server = Self {
            rows: RowBook::new(plan.interval.0, plan.warmup.0, ids.len()),
            output: terms.output.as_ref().map(|title| Output::new(title, plan)),
            phase: Phase::Streams { missing: ids.len(), deadline_ns: u64::MAX },
            ids,
            heard: Vec::new(),
            out: Outbox::within(TALK_LIMIT_NS),
            actions: VecDeque::new(),
            reports: BTreeMap::new(),
            congestion: None,
            measured_ns: u64::MAX,
            ended_ns: None,
            fault: None,
            threads_over: false,
            shut: None,
            terms,
        };
        server.wait_for_streams(now_ns, server.ids.len());
        server.say(now_ns, &[State::CreateStreams.byte()]);
        server
    }

    /// How it ended, once it has: nothing of it is of use any more but [`Self::reports`].
    pub fn outcome(&self) -> Option<Result<(), Early>> {
        match &self.phase {
            Phase::Done(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    /// The reports of all streams, or none: a sum over some would pass for the whole.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.values().filter(|_| self.reports.len() == self.ids.len())
    }

    fn plan(&self) -> &TestPlan {
        &self.terms.agreed.plan
    }

    fn transport(&self) -> Transport {
        self.plan().traffic.transport()
    }

    fn end(&mut self, ended: Result<(), Early>) {
        if !self.is_over() {
            self.actions.push_back(Action::Stop);
            self.phase = Phase::Done(ended);
        }
    }

    /// The test goes no further. Nothing is sent or waited for any more.
    fn trouble(&mut self, now_ns: u64, trouble: Trouble) {
        match &self.phase {
            Phase::Gathering { .. } | Phase::Done(_) => return,
            Phase::Leaving { early } => {
                let early = early.clone();
                return self.end(Err(early));
            }
            Phase::Farewell { .. } => return self.end(Err(trouble.early)),
            _ => {}
        }
        let deadline_ns = now_ns.saturating_add(GATHER_LIMIT_NS);
        // Before its threads were started there is nothing to gather, and nobody watches.
        let counted = matches!(self.phase, Phase::Streams { .. });
        self.phase = Phase::Gathering { deadline_ns, trouble, counted };
        if counted {
            return self.leave(now_ns);
        }
        self.actions.extend([Action::Stop, Action::DrainUntil(0), Action::FinishHost]);
    }

    /// The control connection is of no use any more.
    fn lost(&mut self, now_ns: u64, error: &ControlError) {
        self.out.clear();
        let why = match error {
            // It closed with something unread.
            ControlError::Io(e) if e.kind() == ErrorKind::ConnectionReset => {
                "the client closed the control connection".to_owned()
            }
            ControlError::Closed => "the client closed the control connection".to_owned(),
            ControlError::Silent => "the client was silent for too long".to_owned(),
            error => format!("the control connection failed: {error}"),
        };
        let why = match self.phase {
            Phase::Farewell { .. } => format!("before it said goodbye: {why}"),
            _ => why,
        };
        self.trouble(now_ns, Trouble::quiet(Outcome::Vanished, why));
    }

    fn say(&mut self, now_ns: u64, bytes: &[u8]) {
        match self.out.put_bytes(now_ns, bytes) {
            Ok(()) => self.out.must_go(now_ns),
            Err(error) => self.lost(now_ns, &error),
        }
    }

    fn wait_for_streams(&mut self, now_ns: u64, missing: usize) {
        let limit_ns = match self.transport() {
            Transport::Tcp => STREAM_LIMIT_NS,
            Transport::Udp => HELLO_LIMIT_NS,
        };
        self.phase = Phase::Streams { missing, deadline_ns: now_ns.saturating_add(limit_ns) };
    }

    fn on_arrival(&mut self, now_ns: u64) {
        let Phase::Streams { missing, .. } = self.phase else { return };
        let missing = missing.saturating_sub(1);
        if missing > 0 {
            return self.wait_for_streams(now_ns, missing);
        }
        let traffic = &self.terms.agreed.plan.traffic;
        let role = |id: &StreamId| stream::role(traffic, id.way, false);
        self.actions.push_back(Action::Announce);
        self.actions.extend(self.ids.iter().map(|id| Action::Spawn(*id, role(id))));
        self.actions.push_back(Action::Prepare);
        self.phase = Phase::Waking { ready_ns: now_ns.saturating_add(READY_NS) };
    }

    /// Takes one thing of what was heard; whether there was one.
    fn read(&mut self, now_ns: u64, seen: &Seen) -> bool {
        if let Phase::Results { .. } = self.phase {
            return self.read_results(now_ns, seen);
        }
        let Some(&byte) = self.heard.first() else { return false };
        self.heard.drain(..1);
        match State::from_byte(byte) {
            Some(state) => self.on_state(now_ns, state),
            None => {
                let why = format!("the client sent the unknown state {byte}");
                let trouble = match self.phase {
                    Phase::Farewell { .. } => {
                        Trouble::quiet(Outcome::Vanished, format!("before it said goodbye: {why}"))
                    }
                    _ => Trouble::new(ErrorNumber::UNKNOWN_MESSAGE, why),
                };
                self.trouble(now_ns, trouble);
            }
        }
        true
    }

    fn on_state(&mut self, now_ns: u64, state: State) {
        let out_of_turn =
            || Trouble::new(ErrorNumber::UNKNOWN_MESSAGE, format!("{state} out of turn"));
        match (&self.phase, state) {
            (Phase::Farewell { .. }, _) => self.end(Ok(())),
            (Phase::Streams { .. }, state) if gives_up(state) => {
                let why = "the client stopped before the start";
                self.trouble(now_ns, Trouble::quiet(Outcome::Stopped, why));
            }
            (Phase::Running(_), State::TestEnd) => {
                self.ended_ns = Some(now_ns);
                self.actions.push_back(Action::Stop);
                self.say(now_ns, &[State::ExchangeResults.byte()]);
                let deadline_ns = now_ns.saturating_add(RESULTS_LIMIT_NS);
                if let Phase::Running(_) = self.phase {
                    self.phase = Phase::Results { deadline_ns };
                }
            }
            (Phase::Running(_), State::TestStart) => {}
            (Phase::Running(_), State::ClientTerminate) => {
                let why = "the client was asked to stop";
                self.trouble(now_ns, Trouble::new(ErrorNumber::CLIENT_TERMINATED, why));
            }
            (Phase::Running(_), State::IperfDone) => {
                let why = "the client said goodbye before the end";
                self.trouble(now_ns, Trouble::quiet(Outcome::Stopped, why));
            }
            _ => self.trouble(now_ns, out_of_turn()),
        }
    }

    fn on_data(&mut self, event: DataEvent) {
        let rows = match event {
            DataEvent::Begun | DataEvent::PeerEnd(..) => None,
            DataEvent::Tick(stream, index, tick) => self.rows.add(false, stream, index, tick),
            DataEvent::Warm(stream, index, tick) => self.rows.add(true, stream, index, tick),
            DataEvent::Done(stream, report) => {
                let fault = match report.as_ref() {
                    Report::Send(sent) => {
                        sent.error.clone().map(|e| (ErrorNumber::STREAM_WRITE, e))
                    }
                    Report::Recv(recv) => recv.error.clone().map(|e| (ErrorNumber::STREAM_READ, e)),
                    Report::Rr(_) | Report::Respond(_) => None,
                };
                self.fault = self.fault.take().or(fault);
                self.reports.insert(stream, *report);
                None
            }
        };
        // Nothing is shown after the end that trouble made.
        let ended =
            matches!(self.phase, Phase::Gathering { .. } | Phase::Leaving { .. } | Phase::Done(_));
        if let Some(rows) = rows.filter(|_| !ended) {
            if let Some(output) = &mut self.output {
                output.show(&rows);
            }
            self.actions.push_back(Action::Event(Box::new(TestEvent::Rows(rows))));
        }
    }

    /// What follows from the time, and from all that is known by now.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        match &self.phase {
            Phase::Streams { .. } | Phase::Running(_) if self.shut.is_some() => {
                let why = self.shut.take().unwrap_or_default();
                self.trouble(now_ns, Trouble::terminated(&why));
            }
            Phase::Streams { missing, deadline_ns } if now_ns >= *deadline_ns => {
                let hint = match self.transport() {
                    Transport::Udp => {
                        " (a UDP stream must come from the address of the control connection)"
                    }
                    Transport::Tcp => "",
                };
                let why = format!("{missing} data streams did not arrive{hint}");
                self.trouble(now_ns, Trouble::new(ErrorNumber::STREAM_ACCEPT, why));
            }
            Phase::Waking { ready_ns } if now_ns >= *ready_ns => {
                self.phase = Phase::Word;
                self.say(now_ns, &[State::TestStart.byte(), State::TestRunning.byte()]);
            }
            // Not before the word: a client takes data that comes earlier for something else. What receives
            // begins with it, as the client may send at once.
            Phase::Word if self.out.bytes().is_empty() => self.begin(now_ns),
            Phase::Running(_) if self.threads_over && self.reports.len() < self.ids.len() => {
                self.thread_died(now_ns);
            }
            Phase::Running(_) => self.watch(now_ns, seen),
            Phase::Results { deadline_ns } if now_ns >= *deadline_ns => {
                self.lost(now_ns, &ControlError::Silent);
            }
            Phase::Draining { counted: false, .. } => self.drained(now_ns),
            Phase::Reporting { .. } if self.out.bytes().is_empty() => self.reported(now_ns),
            Phase::Farewell { deadline_ns } if now_ns >= *deadline_ns => {
                self.end(Err(Early::vanished("it had its results and said no goodbye")));
            }
            Phase::Gathering { deadline_ns, counted: true, .. }
                if self.reports.len() == self.ids.len()
                    || self.threads_over
                    || now_ns >= *deadline_ns =>
            {
                self.leave(now_ns);
            }
            Phase::Leaving { early } if self.out.bytes().is_empty() => {
                let early = early.clone();
                self.end(Err(early));
            }
            _ => {}
        }
    }

    fn begin(&mut self, now_ns: u64) {
        let plan = &self.terms.agreed.plan;
        let head_ns = if plan.direction.has_reverse() { HEAD_START_NS } else { 0 };
        let start_ns = now_ns.saturating_add(head_ns);
        self.measured_ns = start_ns.saturating_add(plan.warmup.0);
        self.actions.push_back(Action::Begin(start_ns));
        let grace_ns = self.terms.time_ns.map_or(0, |_| LATE_WORD_NS);
        self.phase = Phase::Running(Box::new(Running {
            began_ns: now_ns,
            look_ns: now_ns,
            most_ns: self.terms.longest_ns.saturating_add(grace_ns),
            meter: self.terms.most_bps.map(|rate| RateMeter::new(rate, now_ns)),
            fault_seen: false,
            idle: Idle::new(0, now_ns),
        }));
    }

    /// A stream that broke makes no results: what it did not carry was not lost on the path.
    fn no_fault(&mut self) -> Result<(), Trouble> {
        match self.fault.take() {
            Some((number, why)) => Err(Trouble::new(number, why)),
            None => Ok(()),
        }
    }

    fn thread_died(&mut self, now_ns: u64) {
        let why = "a data thread ended without a word";
        self.trouble(now_ns, Trouble::new(ErrorNumber::STREAM_CLOSED, why));
    }

    /// After trouble: the client learns it, where it is there.
    fn leave(&mut self, now_ns: u64) {
        let phase = std::mem::replace(&mut self.phase, Phase::Word);
        let Phase::Gathering { trouble, .. } = phase else { return self.phase = phase };
        self.phase = Phase::Leaving { early: trouble.early };
        let Some(failure) = trouble.failure else { return self.settle(now_ns, &Seen::default()) };
        match failure.number {
            ErrorNumber::SERVER_TERMINATED => self.say(now_ns, &[State::ServerTerminate.byte()]),
            _ => self.say(now_ns, &failure.encode()),
        }
    }
}
