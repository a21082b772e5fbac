//! A test of iperf3's at the server: from the word to open streams to the client's goodbye.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_model::plan::{AgreedPlan, Direction, TestPlan, Transport};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::served::Outcome;
use linerate_model::test_event::{Cpu, End, Side, StreamEnd, TestEvent};
use linerate_wire::iperf3::frame::{self, FrameError, MAX_CLIENT_RESULTS, PREFIX_BYTES};
use linerate_wire::iperf3::{ErrorNumber, Failure, Results, State, stream_index};

use super::client::HEAD_START_NS;
use super::output::Output;
use super::results;
use super::rows::RowBook;
use crate::control::{ControlError, Outbox};
use crate::ending::Early;
use crate::idle::Idle;
use crate::rate_meter::RateMeter;
use crate::stream::{self, DataEvent, Report, StreamId};
use crate::{Action, Conversation, Input, Over, Seen};

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
/// A data thread that is told to end looks up within 20 ms; on a host that is full, some later. In
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

    fn terminated() -> Self {
        Self::new(ErrorNumber::SERVER_TERMINATED, "the server is shutting down")
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
    shut: bool,
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
            Input::Shutdown => self.shut = true,
            Input::Time => {}
        }
        while self.reads() && self.read(now_ns, seen) {}
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
            shut: false,
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
        if let Err(error) = self.out.put_bytes(now_ns, bytes) {
            self.lost(now_ns, &error);
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
                let why = "the client was told to stop";
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
            DataEvent::Begun => None,
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
        if let Some(rows) = rows {
            if let Some(output) = &mut self.output {
                output.show(&rows);
            }
            self.actions.push_back(Action::Event(Box::new(TestEvent::Rows(rows))));
        }
    }

    /// What follows from the time, and from all that is known by now.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        match &self.phase {
            Phase::Streams { .. } | Phase::Running(_) if self.shut => {
                self.trouble(now_ns, Trouble::terminated());
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

    /// Holds the test against the owner's limits, and sees to it that somebody is there.
    fn watch(&mut self, now_ns: u64, seen: &Seen) {
        let why = match seen.over {
            Some(Over::Bytes) => Some("more bytes than this server allows in a test"),
            Some(Over::Day) => Some("more bytes than this server allows an address in a day"),
            Some(Over::Time) | None => None,
        };
        if let Some(why) = why {
            return self.trouble(now_ns, Trouble::new(ErrorNumber::END_CONDITIONS, why));
        }
        let Phase::Running(running) = &mut self.phase else { return };
        if now_ns < running.look_ns {
            return;
        }
        running.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        self.actions.push_back(Action::AskPeer);
        if let Err(trouble) = self.look(now_ns, seen) {
            self.trouble(now_ns, trouble);
        }
    }

    fn look(&mut self, now_ns: u64, seen: &Seen) -> Result<(), Trouble> {
        let (direction, no_data_ns) = (self.plan().direction, self.terms.no_data_ns);
        let no_data = Duration::from_nanos(no_data_ns);
        let Phase::Running(running) = &mut self.phase else { return Ok(()) };
        if self.fault.is_some() && std::mem::replace(&mut running.fault_seen, true) {
            // The client had a moment to say by itself that it stops.
            return self.no_fault();
        }
        let lasted_ns = now_ns.saturating_sub(running.began_ns);
        if lasted_ns > running.most_ns || seen.over == Some(Over::Time) {
            let why = "the server's longest test time is over";
            return Err(Trouble::new(ErrorNumber::TOO_LONG, why));
        }
        if let Some(meter) = &mut running.meter
            && !meter.keeps(seen.arrived, now_ns)
        {
            let why = "the client sends faster than this server allows";
            return Err(Trouble::new(ErrorNumber::RATE, why));
        }
        if seen.peer_gone {
            let why = "the client's host is gone, or has not answered for too long";
            return Err(Trouble::quiet(Outcome::Vanished, why));
        }
        let receives = direction.has_forward();
        // Nobody was silent while this end did not run.
        let silence_ns = seen.data_silence_ns.min(lasted_ns).min(seen.ran_ns);
        if receives && silence_ns > no_data_ns {
            return Err(Trouble::new(ErrorNumber::NO_DATA, format!("no data for {no_data:?}")));
        }
        if running.idle.lasts(seen.moved, now_ns) > no_data_ns {
            let why = format!("no data moved for {no_data:?}");
            return Err(Trouble::new(ErrorNumber::NO_DATA, why));
        }
        // Where the kernel does not tell, its own limit holds.
        let answered_ns = seen.answer_silence_ns.unwrap_or(0).min(seen.ran_ns);
        let silent_ns = if receives { answered_ns.min(silence_ns) } else { answered_ns };
        let limit_ns = silence_limit_ns(direction);
        if silent_ns > limit_ns {
            let limit = Duration::from_nanos(limit_ns);
            let why = format!("the client's host has not answered for {limit:?}");
            return Err(Trouble::quiet(Outcome::Vanished, why));
        }
        Ok(())
    }

    /// A stream that broke makes no results: what it did not carry was not lost on the path.
    fn no_fault(&mut self) -> Result<(), Trouble> {
        match self.fault.take() {
            Some((number, why)) => Err(Trouble::new(number, why)),
            None => Ok(()),
        }
    }

    fn read_results(&mut self, now_ns: u64, seen: &Seen) -> bool {
        let Some(prefix) = self.heard.first_chunk::<PREFIX_BYTES>() else { return false };
        let client = match frame::body_length(*prefix, MAX_CLIENT_RESULTS) {
            Ok(length) => {
                let end = PREFIX_BYTES + length;
                let Some(body) = self.heard.get(PREFIX_BYTES..end) else { return false };
                let client = Results::decode_client(body);
                self.heard.drain(..end);
                client
            }
            Err(e) => Err(e),
        };
        let client = client.map_err(|e| Trouble::of_frame(&e));
        if let Err(trouble) = client.and_then(|client| self.on_results(now_ns, seen, &client)) {
            self.trouble(now_ns, trouble);
        }
        true
    }

    fn on_results(&mut self, now_ns: u64, seen: &Seen, client: &Results) -> Result<(), Trouble> {
        let omits = self.plan().warmup.0 > 0;
        let transport = self.transport();
        for stream in &client.streams {
            let index = stream_index(stream.id).map(usize::from);
            let id = index.and_then(|index| self.ids.get(index)).ok_or_else(|| {
                let why = format!("no stream has the id {}", stream.id);
                Trouble::new(ErrorNumber::STREAM_ID, why)
            })?;
            let sent = match transport {
                Transport::Udp => u64::try_from(stream.packets).ok(),
                // What was sent before the measured time is not said, so that there the end of a
                // stream cannot be known by its length.
                Transport::Tcp => Some(stream.bytes).filter(|_| !omits),
            };
            self.actions.extend(sent.map(|sent| Action::PeerSent(id.stream, sent)));
        }
        let drain_ns = match transport {
            Transport::Tcp if !omits => TCP_DRAIN_NS,
            _ => stream::straggler_ns(seen.round_trip_ns),
        };
        self.actions.push_back(Action::DrainUntil(now_ns.saturating_add(drain_ns)));
        self.phase = Phase::Draining { far_cpu: far_cpu(client), counted: false };
        Ok(())
    }

    /// Once all streams have reported, this process' CPU is read.
    fn drained(&mut self, now_ns: u64) {
        if self.reports.len() == self.ids.len() {
            if let Err(trouble) = self.no_fault() {
                return self.trouble(now_ns, trouble);
            }
            if let Phase::Draining { counted, .. } = &mut self.phase {
                *counted = true;
            }
            self.actions.push_back(Action::FinishHost);
        } else if self.threads_over {
            self.thread_died(now_ns);
        }
    }

    fn thread_died(&mut self, now_ns: u64) {
        let why = "a data thread ended without a word";
        self.trouble(now_ns, Trouble::new(ErrorNumber::STREAM_CLOSED, why));
    }

    fn on_host(&mut self, now_ns: u64, cpu: Cpu) {
        match &mut self.phase {
            Phase::Draining { far_cpu, counted: true } => {
                let far_cpu = far_cpu.take();
                self.report(now_ns, cpu, far_cpu);
            }
            Phase::Gathering { trouble, counted, .. } => {
                *counted = true;
                let what = format!("the test of {} ended early", self.terms.peer);
                let why = trouble.early.why.clone();
                let error = ErrorRecord::new(ErrorKind::Test, what, why, &[]);
                let end = self.ending(cpu, None, Some(error));
                self.actions.push_back(Action::Event(Box::new(TestEvent::End(Box::new(end)))));
            }
            _ => {}
        }
    }

    /// This end's results.
    fn report(&mut self, now_ns: u64, cpu: Cpu, far_cpu: Option<Cpu>) {
        let transport = self.transport();
        let words = || results::in_words(self.reports.values(), transport);
        let output = self.output.as_ref().map(|output| output.text(&words()));
        let received_ns = self.received_ns().unwrap_or(0);
        let host = (cpu, self.congestion.clone());
        let results = results::results(self.plan(), &self.reports, received_ns, host, output);
        let frame = match results.encode() {
            Ok(frame) => frame,
            Err(e) => {
                let trouble = Trouble::new(ErrorNumber::PACK_RESULTS, e.to_string());
                return self.trouble(now_ns, trouble);
            }
        };
        let end = Box::new(self.ending(cpu, far_cpu, None));
        self.phase = Phase::Reporting { end };
        self.say(now_ns, &frame);
        if let Phase::Reporting { .. } = self.phase {
            self.say(now_ns, &[State::DisplayResults.byte()]);
        }
    }

    /// The client has this end's results.
    fn reported(&mut self, now_ns: u64) {
        let deadline_ns = now_ns.saturating_add(TALK_LIMIT_NS);
        let phase = std::mem::replace(&mut self.phase, Phase::Farewell { deadline_ns });
        if let Phase::Reporting { end } = phase {
            self.actions.push_back(Action::Event(Box::new(TestEvent::End(end))));
        }
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

    /// The test is over; with the reports of all streams, or none when it failed.
    fn ending(&mut self, cpu: Cpu, far_cpu: Option<Cpu>, error: Option<ErrorRecord>) -> End {
        let span_ns = self.span_ns();
        let reports: Vec<&Report> =
            self.reports.values().filter(|_| self.reports.len() == self.ids.len()).collect();
        for rows in self.rows.rest(&reports, span_ns) {
            self.actions.push_back(Action::Event(Box::new(TestEvent::Rows(rows))));
        }
        let streams = reports.iter().filter_map(|report| {
            let here = match report {
                Report::Send(report) => Side::Send(Box::new(report.clone())),
                Report::Recv(report) => Side::Recv(Box::new(report.clone())),
                Report::Rr(_) | Report::Respond(_) => return None,
            };
            Some(StreamEnd { here, far: None })
        });
        End {
            streams: streams.collect(),
            span_ns,
            cpu,
            far_cpu,
            congestion: self.congestion.clone(),
            error,
            ..End::default()
        }
    }

    fn span_ns(&self) -> u64 {
        let ended_ns = self.ended_ns.unwrap_or(0).saturating_sub(self.measured_ns);
        self.received_ns().unwrap_or(ended_ns)
    }

    /// How long the streams arrived, nanoseconds: the agreed time, or of a test by amount until the last
    /// arrival. A client may wait before it says that the test is over, and nothing comes meanwhile.
    fn received_ns(&self) -> Option<u64> {
        let mut receivers = self.reports.values().filter_map(|report| match report {
            Report::Recv(report) => Some(report.last_ns),
            _ => None,
        });
        // No receiver here, or the last arrival on any of them.
        let last_ns = receivers.next()?.into_iter().chain(receivers.flatten()).max();
        let last_ns = last_ns.map(|last| last.saturating_sub(self.measured_ns));
        let ended_ns = self.ended_ns.unwrap_or(0).saturating_sub(self.measured_ns);
        Some(arriving_ns(self.terms.time_ns, ended_ns, last_ns))
    }
}

/// How long data arrived: for the agreed time, but where it was cut short; longer if more came after it;
/// without one until the last arrival.
fn arriving_ns(time_ns: Option<u64>, ended_ns: u64, last_ns: Option<u64>) -> u64 {
    match (time_ns, last_ns) {
        (Some(time), last) => time.min(ended_ns).max(last.unwrap_or(0)),
        (None, Some(last)) => last,
        (None, None) => ended_ns,
    }
}

/// What the client reported of its process; nothing where it could not.
fn far_cpu(client: &Results) -> Option<Cpu> {
    Some(Cpu { total: client.cpu_total?, user: client.cpu_user?, system: client.cpu_system? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_arrives_for_the_agreed_time_or_until_the_last() {
        for (time, ended, last, arriving) in [
            // A client that waits before it says the end, and one that does not.
            (Some(2_000), 2_055, Some(1_999), 2_000),
            (Some(2_000), 2_000, Some(1_999), 2_000),
            // Cut short, late, and nothing at all.
            (Some(2_000), 700, Some(690), 700),
            (Some(2_000), 2_055, Some(2_300), 2_300),
            (Some(2_000), 2_055, None, 2_000),
            // By amount.
            (None, 55, Some(1), 1),
            (None, 55, None, 55),
        ] {
            assert_eq!(arriving_ns(time, ended, last), arriving);
        }
    }
}
