//! A test at the client: from what both ends agreed on to its goodbye.

mod ended;
mod running;

use std::collections::{BTreeMap, VecDeque};

use linerate_model::plan::TestPlan;
use linerate_model::sample::HostSample;
use linerate_model::units::Nanos;
use linerate_session::clock::{ClockOffset, Exchange, offset};
use linerate_wire::native::auth::{Seal, Unseal};
use linerate_wire::native::message::{
    ClientMessage, Ping, Pong, Results, ServerMessage, StreamReport,
};

pub use self::ended::Ended;
use super::live::Live;
use super::server::{HEAD_START_NS, SILENCE_LIMIT_NS};
use crate::control::{ControlError, Inbox, Outbox};
use crate::ending::{Failure, Trouble};
use crate::stream::{self, DataEvent, Report, Role, StreamId};
use crate::{Action, Conversation, Input, Seen};

/// Each answer before the test may take this long, in nanoseconds.
pub const ANSWER_LIMIT_NS: u64 = 10_000_000_000;
/// Clock exchanges at the start and at the end.
const CLOCK_EXCHANGES: usize = 16;
/// Over a long path fewer of them must do: the server waits 10 s for the start. In nanoseconds.
const EXCHANGES_LIMIT_NS: u64 = 4_000_000_000;
/// The clock's last exchanges and the goodbye may take this long together, in nanoseconds …
const FAREWELL_LIMIT_NS: u64 = 2_000_000_000;
/// … of which so much is the goodbye's: over a long path fewer exchanges must do, in nanoseconds.
const GOODBYE_NS: u64 = 500_000_000;
/// The server hears from the client this often, in nanoseconds.
const ALIVE_EVERY_NS: u64 = 500_000_000;
/// Beyond its planned length and its drain, a test may take this long, in nanoseconds; and so may the
/// server's results once this end's are there.
const OVERTIME_NS: u64 = 15_000_000_000;
/// A test by count ends with its count; and after this long in any case, in nanoseconds.
const LONGEST: Nanos = Nanos::from_secs(86_400);

const LATE_RESULTS: &str = "the server did not send all of its results in time";
const RUNNING: &str = "running the test";

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What both ends run.
    pub plan: TestPlan,
    /// How long receivers wait after the sender's last word, in nanoseconds.
    pub drain_ns: u64,
}

/// Where the conversation is.
enum Phase {
    /// This end opens the data streams.
    Opening {
        missing: usize,
    },
    /// The server says "ready" when it has all.
    Ready {
        deadline_ns: u64,
    },
    /// Its clock is read.
    Clock {
        enough_ns: u64,
        deadline_ns: u64,
    },
    /// This end has said "start".
    Starting {
        deadline_ns: u64,
    },
    /// The host's counters are made ready.
    Preparing,
    Running(Box<Running>),
    /// The clock once more, then goodbye.
    Farewell {
        deadline_ns: u64,
        said: bool,
    },
    /// A last word goes out.
    Leaving {
        deadline_ns: u64,
        why: Trouble,
    },
    Done(Result<(), Trouble>),
}

/// What matters between the start and the last figure.
struct Running {
    heard_ns: u64,
    alive_ns: u64,
    /// The end of the warm-up, until it is there.
    warm_ns: Option<u64>,
    deadline_ns: u64,
    sent_said: bool,
    /// Nothing more is sent, at neither end.
    host_over: bool,
    /// All streams of this end have ended.
    over: bool,
}

/// The client's end of one test.
pub struct Client {
    terms: Terms,
    ids: Vec<StreamId>,
    inbox: Inbox<ServerMessage>,
    out: Outbox,
    actions: VecDeque<Action>,
    phase: Phase,
    reports: BTreeMap<u16, Report>,
    remote: BTreeMap<u16, StreamReport>,
    remote_samples: Vec<HostSample>,
    results: Option<Results>,
    live: Live,
    exchanges: Vec<Exchange>,
    at_start: Option<ClockOffset>,
    /// The server has said how much it sent: it sends no more.
    peer_sent: bool,
    interrupted: bool,
    stopping: Option<String>,
    trouble: Option<Trouble>,
    /// Nothing comes from the server any more.
    closed: bool,
    /// No data thread is left.
    threads_over: bool,
}

impl Conversation for Client {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(bytes) => self.inbox.put(bytes),
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(error) => self.lost(error),
            Input::Arrived(_) => self.on_opened(now_ns),
            Input::Data(event, host) => self.on_data(event, host),
            Input::NoMoreData => self.threads_over = true,
            Input::Host(..) | Input::Listening(..) | Input::Datagram(..) | Input::Time => {}
            Input::Prepared(_) => self.begin(now_ns),
            Input::Failed(why) => self.fail(Failure::Here(why)),
            Input::Shutdown(_) => self.interrupt(now_ns),
        }
        self.read(now_ns);
        if self.out.deadline_ns().is_some_and(|at| now_ns >= at) {
            self.lost(ControlError::Silent);
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
        let waits = matches!(
            self.phase,
            Phase::Ready { .. }
                | Phase::Clock { .. }
                | Phase::Starting { .. }
                | Phase::Running(_)
                | Phase::Farewell { said: false, .. }
        );
        waits && self.trouble.is_none() && !self.closed
    }

    fn deadline_ns(&self) -> Option<u64> {
        let own = match &self.phase {
            Phase::Ready { deadline_ns }
            | Phase::Clock { deadline_ns, .. }
            | Phase::Starting { deadline_ns }
            | Phase::Leaving { deadline_ns, .. }
            | Phase::Farewell { deadline_ns, said: true } => Some(*deadline_ns),
            Phase::Farewell { deadline_ns, said: false } => {
                Some(deadline_ns.saturating_sub(GOODBYE_NS))
            }
            Phase::Running(running) => {
                let of_server = [running.alive_ns, running.deadline_ns];
                let of_server = of_server.into_iter().filter(|_| self.trouble.is_none());
                of_server.chain(running.warm_ns).min()
            }
            Phase::Opening { .. } | Phase::Preparing | Phase::Done(_) => None,
        };
        own.into_iter().chain(self.out.deadline_ns()).min()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Client {
    /// How it ended, once it has: with figures, or without any.
    pub fn outcome(&self) -> Option<Result<(), Trouble>> {
        match &self.phase {
            Phase::Done(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    /// A test that the server granted. With a key, `ours` seals and `theirs` opens.
    pub fn new(terms: Terms, ours: Option<Seal>, theirs: Option<Unseal>) -> Self {
        let plan = &terms.plan;
        let ids = stream::streams(plan.direction, plan.streams);
        let live = Live::new(plan, &ids);
        Self {
            actions: ids.iter().map(|id| Action::Open(*id, None)).collect(),
            phase: Phase::Opening { missing: ids.len() },
            terms,
            ids,
            inbox: Inbox::new(theirs),
            out: Outbox::new(ours),
            reports: BTreeMap::new(),
            remote: BTreeMap::new(),
            remote_samples: Vec::new(),
            results: None,
            live,
            exchanges: Vec::new(),
            at_start: None,
            peer_sent: false,
            interrupted: false,
            stopping: None,
            trouble: None,
            closed: false,
            threads_over: false,
        }
    }

    fn end(&mut self, ended: Result<(), Trouble>) {
        if !matches!(self.phase, Phase::Done(_)) {
            self.actions.push_back(Action::Stop);
            self.phase = Phase::Done(ended);
        }
    }

    /// What this phase is, for people.
    fn doing(&self) -> &'static str {
        match self.phase {
            Phase::Opening { .. } | Phase::Ready { .. } => "opening the data streams",
            Phase::Clock { .. } => "reading the server's clock",
            Phase::Starting { .. } | Phase::Preparing => "starting the test",
            _ => RUNNING,
        }
    }

    /// It goes no further: before the start there is nothing to report, after it there is.
    fn fail(&mut self, failure: Failure) {
        match self.phase {
            Phase::Running(_) => self.abandon(failure),
            // The server's silence is no news to whoever wants to end.
            Phase::Starting { .. } | Phase::Preparing if self.interrupted => {
                let doing = self.doing();
                self.end(Err(Trouble { doing, failure: Failure::Interrupted }));
            }
            Phase::Farewell { .. } => self.end(Ok(())),
            Phase::Leaving { ref why, .. } => {
                let why = why.clone();
                self.end(Err(why));
            }
            _ => self.end(Err(Trouble { doing: self.doing(), failure })),
        }
    }

    /// The control connection is of no use any more.
    fn lost(&mut self, error: ControlError) {
        self.closed = true;
        self.out.clear();
        self.fail(match error {
            ControlError::Unproven => Failure::Unproven,
            error => Failure::Server(error.to_string()),
        });
    }

    /// Nothing more is expected of the server; what it has not yet said is missing.
    fn abandon(&mut self, failure: Failure) {
        if self.results.is_none() && self.trouble.is_none() {
            self.trouble = Some(Trouble { doing: RUNNING, failure });
        }
        self.actions.push_back(Action::Stop);
        if self.trouble.is_some() {
            self.out.clear();
            self.actions.push_back(Action::DrainUntil(0));
        }
    }

    fn say(&mut self, now_ns: u64, message: &ClientMessage) {
        if let Err(error) = self.out.say(now_ns, message) {
            self.lost(error);
        }
    }

    fn ping(&mut self, now_ns: u64) {
        self.say(now_ns, &ClientMessage::Ping(Ping { client_ns: now_ns }));
    }

    fn interrupt(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Opening { .. } | Phase::Ready { .. } | Phase::Clock { .. } => {
                let why = Trouble { doing: self.doing(), failure: Failure::Interrupted };
                let deadline_ns = now_ns.saturating_add(FAREWELL_LIMIT_NS);
                self.phase = Phase::Leaving { deadline_ns, why };
                self.say(now_ns, &ClientMessage::Stop);
            }
            // As soon as it runs.
            Phase::Starting { .. } | Phase::Preparing => self.interrupted = true,
            Phase::Running(_) if !std::mem::replace(&mut self.interrupted, true) => {
                self.stop(now_ns);
            }
            // It has all figures, or none.
            _ => {}
        }
    }

    /// This end ends the test early.
    fn stop(&mut self, now_ns: u64) {
        // Receivers here end when the server has said what it sent, or soon.
        let soon = now_ns.saturating_add(SILENCE_LIMIT_NS);
        self.actions.extend([
            Action::Note("interrupted: ending with what was measured".into()),
            Action::Stop,
            Action::DrainUntil(soon),
        ]);
        if self.trouble.is_none() && !self.closed {
            self.say(now_ns, &ClientMessage::Stop);
        }
    }

    fn on_opened(&mut self, now_ns: u64) {
        let Phase::Opening { missing } = &mut self.phase else { return };
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            self.phase = Phase::Ready { deadline_ns: now_ns.saturating_add(ANSWER_LIMIT_NS) };
        }
    }

    fn read(&mut self, now_ns: u64) {
        while self.reads() {
            match self.inbox.take() {
                Ok(Some(message)) => self.on_message(now_ns, message),
                Ok(None) => return,
                Err(error) => self.lost(error),
            }
        }
    }

    fn on_message(&mut self, now_ns: u64, message: ServerMessage) {
        match (&mut self.phase, message) {
            (Phase::Farewell { .. }, ServerMessage::Pong(pong)) => {
                self.exchanges.push(heard(pong, now_ns));
                self.farewell(now_ns, true);
            }
            (Phase::Farewell { .. }, _) => {}
            (Phase::Running(running), message) => {
                running.heard_ns = now_ns;
                self.on_message_of_running(now_ns, message);
            }
            (_, ServerMessage::Refused(refused)) => self.fail(Failure::Refused(refused)),
            (Phase::Ready { .. }, ServerMessage::Ready) => {
                let enough_ns = now_ns.saturating_add(EXCHANGES_LIMIT_NS);
                self.read_clock(now_ns, enough_ns);
            }
            (Phase::Clock { enough_ns, .. }, ServerMessage::Pong(pong)) => {
                let enough_ns = *enough_ns;
                self.exchanges.push(heard(pong, now_ns));
                self.read_clock(now_ns, enough_ns);
            }
            (Phase::Starting { .. }, ServerMessage::Started) => {
                self.actions.push_back(Action::Begin(now_ns.saturating_add(HEAD_START_NS)));
                self.phase = Phase::Preparing;
                self.actions.push_back(Action::Prepare);
            }
            (_, message) => self.fail(out_of_turn(&message)),
        }
    }

    /// One exchange more, or the start.
    fn read_clock(&mut self, now_ns: u64, enough_ns: u64) {
        let deadline_ns = now_ns.saturating_add(ANSWER_LIMIT_NS);
        if self.exchanges.len() < CLOCK_EXCHANGES && now_ns <= enough_ns {
            self.phase = Phase::Clock { enough_ns, deadline_ns };
            return self.ping(now_ns);
        }
        self.at_start = offset(&self.exchanges);
        self.exchanges.clear();
        let traffic = &self.terms.plan.traffic;
        let role = |id: &StreamId| stream::role(traffic, id.way, true);
        self.actions.extend(self.ids.iter().map(|id| Action::Spawn(*id, role(id))));
        self.actions.push_back(Action::Announce);
        self.phase = Phase::Starting { deadline_ns };
        self.say(now_ns, &ClientMessage::Start);
    }

    /// The server has begun, and so has this end.
    fn begin(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Preparing) {
            return;
        }
        let plan = &self.terms.plan;
        // A server that answers but never ends is no server.
        let planned = plan.duration().unwrap_or(LONGEST).0;
        let most = [planned, plan.warmup.0, self.terms.drain_ns, OVERTIME_NS];
        self.phase = Phase::Running(Box::new(Running {
            heard_ns: now_ns,
            alive_ns: now_ns,
            warm_ns: (plan.warmup.0 > 0).then(|| now_ns.saturating_add(plan.warmup.0)),
            deadline_ns: most.into_iter().fold(now_ns, u64::saturating_add),
            sent_said: false,
            host_over: false,
            over: false,
        }));
        if self.interrupted {
            self.stop(now_ns);
        }
    }

    fn on_data(&mut self, event: DataEvent, host: &dyn Fn(u64) -> Option<HostSample>) {
        match event {
            DataEvent::Done(stream, report) => {
                self.reports.insert(stream, *report);
            }
            DataEvent::Begun | DataEvent::Warm(..) | DataEvent::PeerEnd(..) => {}
            DataEvent::Tick(_, index, tick) => {
                self.live.tick(index, tick, host(index));
                self.show();
            }
        }
    }

    /// Shows every row that is complete.
    fn show(&mut self) {
        while let Some((row, hosts)) = self.live.next(&self.terms.plan) {
            self.actions.push_back(Action::ShowHosts(Box::new(hosts)));
            self.actions.push_back(Action::Show(Box::new(row)));
        }
    }

    /// What follows from the time, and from all that is known by now.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        match &self.phase {
            Phase::Running(_) => self.settle_running(now_ns, seen),
            Phase::Ready { deadline_ns }
            | Phase::Clock { deadline_ns, .. }
            | Phase::Starting { deadline_ns }
                if now_ns >= *deadline_ns =>
            {
                self.lost(ControlError::Silent);
            }
            Phase::Leaving { deadline_ns, why }
                if now_ns >= *deadline_ns || self.out.bytes().is_empty() =>
            {
                let why = why.clone();
                self.end(Err(why));
            }
            Phase::Farewell { said: false, .. } => self.farewell(now_ns, false),
            Phase::Farewell { deadline_ns, said: true }
                if now_ns >= *deadline_ns || self.out.bytes().is_empty() =>
            {
                self.end(Ok(()));
            }
            _ => {}
        }
    }

    fn settle_running(&mut self, now_ns: u64, seen: &Seen) {
        self.look(now_ns, seen);
        let left = self.terms.drain_ns.saturating_add(OVERTIME_NS);
        let Phase::Running(running) = &mut self.phase else { return };
        if self.reports.len() == self.ids.len() && !std::mem::replace(&mut running.over, true) {
            // What the server still has to say has its time, whenever the test came to its end.
            running.deadline_ns = running.deadline_ns.min(now_ns.saturating_add(left));
        }
        self.report_sent(now_ns);
        let all = self.reports.len() == self.ids.len();
        if self.threads_over && !all {
            // Whatever the server reported, a stream's own figures are missing.
            let failure = Failure::Here("a data thread ended without a word".into());
            self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
            self.end_run(now_ns);
        } else if all && (self.results.is_some() || self.trouble.is_some()) {
            self.end_run(now_ns);
        }
    }

    /// Looks after the time and the server.
    fn look(&mut self, now_ns: u64, seen: &Seen) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.warm_ns.is_some_and(|at| now_ns >= at) {
            running.warm_ns = None;
            self.actions.push_back(Action::HostWarm);
        }
        if self.trouble.is_some() {
            return;
        }
        let (late, over) = (now_ns >= running.deadline_ns, running.over);
        let silence_ns = now_ns.saturating_sub(running.heard_ns).min(seen.ran_ns);
        let due = now_ns >= running.alive_ns;
        if due {
            running.alive_ns = now_ns.saturating_add(ALIVE_EVERY_NS);
        }
        if late {
            running.deadline_ns = u64::MAX;
            let why = if over { LATE_RESULTS } else { "the test did not end in time" };
            self.abandon(Failure::Server(why.into()));
            self.actions.push_back(Action::DrainUntil(0));
        } else if due && !self.closed {
            if silence_ns.min(seen.data_silence_ns) > SILENCE_LIMIT_NS {
                self.abandon(Failure::Server("the server fell silent".into()));
            } else {
                self.ping(now_ns);
            }
        }
    }

    /// The server's receivers learn how much was sent, so that the tail counts.
    fn report_sent(&mut self, now_ns: u64) {
        let Phase::Running(running) = &mut self.phase else { return };
        let traffic = &self.terms.plan.traffic;
        let sends = |id: &&StreamId| stream::role(traffic, id.way, true) != Role::Receive;
        let wanted = self.ids.iter().filter(sends).count();
        let ours = |report: &&Report| matches!(report, Report::Send(_) | Report::Rr(_));
        if self.reports.values().filter(ours).count() < wanted {
            return;
        }
        let nothing_comes = self.peer_sent || wanted == self.ids.len();
        if nothing_comes && !std::mem::replace(&mut running.host_over, true) {
            self.actions.push_back(Action::HostOver);
        }
        let first = !std::mem::replace(&mut running.sent_said, true);
        if first && wanted > 0 && self.trouble.is_none() && !self.closed {
            let sent = stream::sent_of(&self.reports);
            self.say(now_ns, &ClientMessage::Sent(sent));
        }
    }

    /// All figures are there that there will be.
    fn end_run(&mut self, now_ns: u64) {
        if self.trouble.is_some() || self.closed {
            return self.end(Ok(()));
        }
        self.exchanges.clear();
        let deadline_ns = now_ns.saturating_add(FAREWELL_LIMIT_NS);
        self.phase = Phase::Farewell { deadline_ns, said: false };
        self.farewell(now_ns, true);
    }

    /// The next exchange of the last ones where the last was `answered`, or the goodbye.
    fn farewell(&mut self, now_ns: u64, answered: bool) {
        let Phase::Farewell { deadline_ns, said } = &mut self.phase else { return };
        let late = now_ns >= deadline_ns.saturating_sub(GOODBYE_NS);
        if late || self.exchanges.len() >= CLOCK_EXCHANGES {
            *said = true;
            self.say(now_ns, &ClientMessage::Bye);
        } else if answered {
            self.ping(now_ns);
        }
    }
}

fn heard(pong: Pong, now_ns: u64) -> Exchange {
    Exchange { asked_ns: pong.client_ns, server_ns: pong.server_ns, heard_ns: now_ns }
}

fn out_of_turn(message: &ServerMessage) -> Failure {
    Failure::Server(format!("the server sent \"{}\" out of turn", message.name()))
}
