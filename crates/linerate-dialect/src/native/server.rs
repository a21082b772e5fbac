//! A granted test at the server: from its first data stream to the client's goodbye.

mod running;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use linerate_model::plan::{AgreedPlan, Traffic};
use linerate_model::served::Outcome;
use linerate_wire::native::auth::{Seal, Unseal};
use linerate_wire::native::message::{
    ClientMessage, LiveInterval, Ping, Pong, RefusalKind, Refused, ServerMessage, StreamSent,
};

use super::results;
use crate::control::{ControlError, Inbox, Outbox};
use crate::ending::Early;
use crate::idle::Idle;
use crate::rate_meter::RateMeter;
use crate::stream::{self, DataEvent, LAST_DATA_NS, MOST_DRAIN_NS, Report, Role, StreamId, Tick};
use crate::ticks::Ticks;
use crate::{Action, Conversation, Input, Seen};

/// Data streams must arrive, and the client must say "start", within this time each, in nanoseconds, …
pub const STREAMS_LIMIT_NS: u64 = 10_000_000_000;
/// … and all streams within this time more for each of them: over a long path many take theirs.
const STREAM_NS: u64 = 1_000_000_000;
/// A client sends no data before the start. So many bytes may come all the same: strangers can send datagrams, too.
const MOST_EARLY: u64 = 64 << 10;
/// When whoever lets a test run does so no longer, receivers wait so long for the client's last word, in nanoseconds.
const CUT_DRAIN_NS: u64 = 1_000_000_000;
/// A client that says nothing for this long is gone, in nanoseconds: nothing more is sent to it.
pub const SILENCE_LIMIT_NS: u64 = 2_500_000_000;
/// Senders begin this long after the word, in nanoseconds, so that all threads are awake.
pub const HEAD_START_NS: u64 = 30_000_000;
/// Beyond the drain, a client may take this long for all results, in nanoseconds: as long as it waits for
/// them.
pub const RESULTS_LIMIT_NS: u64 = 15_000_000_000;
/// Rows for the live view are left out while so many bytes wait for a client that reads slowly.
const MOST_LIVE_WAITING: usize = 64 << 10;
/// The client and the owner's limits are looked after this often, in nanoseconds.
const LOOK_EVERY_NS: u64 = 250_000_000;

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What both ends run.
    pub agreed: Arc<AgreedPlan>,
    /// How long receivers wait after the sender's last word, in nanoseconds.
    pub drain_ns: u64,
    /// The owner's longest test, warm-up included, in nanoseconds.
    pub longest_ns: u64,
    /// The owner's largest rate of one direction in bit/s.
    pub most_bps: Option<u64>,
    /// A test in which nothing moves for so long ends, in nanoseconds.
    pub idle_ns: u64,
}

/// Where the conversation is.
enum Phase {
    /// Data streams are missing.
    Streams {
        missing: BTreeMap<u16, StreamId>,
        deadline_ns: u64,
        /// Of all streams.
        last_ns: u64,
    },
    /// All are there: the client reads the clock and says "start".
    Ready {
        deadline_ns: u64,
    },
    /// It did.
    Preparing,
    Running(Box<Running>),
    /// Nothing more is sent; the host's counters are read.
    Counting {
        deadline_ns: u64,
    },
    Results {
        rest: VecDeque<ServerMessage>,
        deadline_ns: u64,
    },
    /// The client has all it wants but the clock.
    Farewell {
        heard_ns: u64,
        deadline_ns: u64,
    },
    /// A last word goes out.
    Refusing(Early),
    Done(Result<(), Early>),
}

/// What matters between the start and the last stream's report.
struct Running {
    heard_ns: u64,
    look_ns: u64,
    /// The end of the warm-up, until it is there.
    warm_ns: Option<u64>,
    hard_end_ns: u64,
    /// When no data is taken any more, of a test that somebody has ended.
    cut_ns: Option<u64>,
    meter: Option<RateMeter>,
    idle: Idle,
    send_ticks: Ticks,
    recv_ticks: Ticks,
    sent_said: bool,
    host_over: bool,
    /// The client has said how much it sent: it sends no more.
    peer_sent: bool,
    /// The client is gone, and why.
    trouble: Option<Early>,
}

/// The server's end of one test.
pub struct Server {
    terms: Terms,
    ids: Vec<StreamId>,
    inbox: Inbox<ClientMessage>,
    out: Outbox,
    actions: VecDeque<Action>,
    reports: BTreeMap<u16, Report>,
    phase: Phase,
    /// When it looks next for data that comes before the start.
    look_ns: u64,
    stopped: bool,
    /// Why it ends before its time, and still has results.
    early: Option<Early>,
    /// The client has said goodbye: nothing goes to it any more.
    gone: bool,
}

impl Conversation for Server {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(bytes) => self.inbox.put(bytes),
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(error) => self.lost(error),
            Input::Arrived(stream) => self.on_arrival(now_ns, stream),
            Input::Data(event, host) => self.on_data(now_ns, event, host),
            Input::NoMoreData if self.reports.len() < self.ids.len() => {
                self.end(Err(Early::failed("a data thread ended without a word")));
            }
            Input::Prepared(_) => self.begin(now_ns, seen),
            Input::Host(host, _) => {
                if let Phase::Counting { deadline_ns } = self.phase {
                    let complete = !self.stopped;
                    let rest = results::messages(&mut self.reports, &self.ids, host, complete);
                    self.phase = Phase::Results { rest, deadline_ns };
                }
            }
            Input::Failed(why) => self.end(Err(Early::failed(why))),
            Input::Shutdown(why) => self.shut_down(now_ns, why),
            Input::Listening(..) | Input::NoMoreData | Input::Datagram(..) | Input::Time => {}
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
        match &self.phase {
            Phase::Streams { .. } | Phase::Ready { .. } | Phase::Farewell { .. } => true,
            Phase::Running(running) => running.trouble.is_none(),
            _ => false,
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        let own = match &self.phase {
            Phase::Streams { deadline_ns, .. } | Phase::Ready { deadline_ns } => {
                Some(self.look_ns.min(*deadline_ns))
            }
            Phase::Counting { deadline_ns } | Phase::Results { deadline_ns, .. } => {
                Some(*deadline_ns)
            }
            Phase::Farewell { heard_ns, deadline_ns } => {
                Some(heard_ns.saturating_add(SILENCE_LIMIT_NS).min(*deadline_ns))
            }
            Phase::Running(running) => {
                let hard = Some(running.hard_end_ns).filter(|_| !self.stopped);
                let own = [hard, running.warm_ns, running.cut_ns, Some(running.look_ns)];
                own.into_iter().flatten().min()
            }
            Phase::Preparing | Phase::Refusing(_) | Phase::Done(_) => None,
        };
        own.into_iter().chain(self.out.deadline_ns()).min()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Server {
    /// How it ended, once it has: nothing of it is of use any more but [`Self::reports`].
    pub fn outcome(&self) -> Option<Result<(), Early>> {
        match &self.phase {
            // What this end knew before anything went wrong is the reason.
            Phase::Done(ended) => Some(self.early.clone().map_or_else(|| ended.clone(), Err)),
            _ => None,
        }
    }

    /// A test that was granted at `now_ns`. With a key, `ours` seals and `theirs` opens.
    pub fn new(terms: Terms, now_ns: u64, ours: Option<Seal>, theirs: Option<Unseal>) -> Self {
        let ids = stream::streams(terms.agreed.plan.direction, terms.agreed.plan.streams);
        let missing = ids.iter().map(|id| (id.stream, *id)).collect();
        // Counted from the latest arrival: over a long path many streams take their time.
        let deadline_ns = now_ns.saturating_add(STREAMS_LIMIT_NS);
        let last_ns = deadline_ns.saturating_add(STREAM_NS.saturating_mul(ids.len() as u64));
        Self {
            terms,
            ids,
            inbox: Inbox::new(theirs),
            out: Outbox::new(ours),
            actions: VecDeque::new(),
            reports: BTreeMap::new(),
            phase: Phase::Streams { missing, deadline_ns, last_ns },
            look_ns: now_ns.saturating_add(LOOK_EVERY_NS),
            stopped: false,
            early: None,
            gone: false,
        }
    }

    /// The reports of all streams, or none: a sum over some would pass for the whole.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.values().filter(|_| self.reports.len() == self.ids.len())
    }

    fn end(&mut self, ended: Result<(), Early>) {
        if !matches!(self.phase, Phase::Done(_)) {
            self.actions.push_back(Action::Stop);
            self.phase = Phase::Done(ended);
        }
    }

    /// Says something that must be gone in time.
    fn say(&mut self, now_ns: u64, message: &ServerMessage) {
        if let Err(error) = self.out.say(now_ns, message) {
            self.lost(error);
        }
    }

    /// Says something that may wait.
    fn put(&mut self, now_ns: u64, message: &ServerMessage) {
        if let Err(error) = self.out.put(now_ns, message) {
            self.lost(error);
        }
    }

    fn pong(&mut self, now_ns: u64, ping: Ping) {
        let pong = Pong { client_ns: ping.client_ns, server_ns: now_ns };
        self.put(now_ns, &ServerMessage::Pong(pong));
    }

    /// The control connection is of no use any more.
    fn lost(&mut self, error: ControlError) {
        let early = Early::from(error);
        match &self.phase {
            Phase::Running(_) => self.abandon(early),
            Phase::Refusing(refused) => self.end(Err(refused.clone())),
            // Its streams end with it, so that the figures look like those of a whole test.
            Phase::Farewell { .. } => {
                let why = format!("before it said goodbye: {}", early.why);
                self.end(Err(Early { why, ..early }));
            }
            _ => self.end(Err(early)),
        }
    }

    /// The client is gone: nothing more goes to it, and what was under way ends.
    fn abandon(&mut self, why: Early) {
        self.halt(0);
        self.out.clear();
        if let Phase::Running(running) = &mut self.phase {
            running.trouble.get_or_insert(why);
        }
    }

    /// No data is sent any more, and none waited for after `drain_until_ns`.
    fn halt(&mut self, drain_until_ns: u64) {
        self.stopped = true;
        self.actions.extend([Action::Stop, Action::DrainUntil(drain_until_ns)]);
    }

    /// This end ends the test, and says why.
    fn stop(&mut self, now_ns: u64, why: &str) {
        // Receivers go on until the client has said what it sent.
        self.halt(now_ns.saturating_add(2 * MOST_DRAIN_NS));
        self.early = Some(Early::new(Outcome::Cut, why));
        // Whoever leaves too much unread for this is given up by its time.
        let _ = self.out.put(now_ns, &ServerMessage::Stopping(why.to_owned()));
    }

    fn shut_down(&mut self, now_ns: u64, why: &str) {
        match self.phase {
            Phase::Streams { .. } | Phase::Ready { .. } => {
                self.phase = Phase::Refusing(Early::new(Outcome::Cut, why));
                let (kind, why) = (RefusalKind::Busy, why.to_owned());
                self.say(now_ns, &ServerMessage::Refused(Refused { kind, why, hints: vec![] }));
            }
            Phase::Running(_) => {
                if !self.stopped {
                    self.stop(now_ns, why);
                }
                if let Phase::Running(running) = &mut self.phase {
                    running.cut_ns = Some(now_ns.saturating_add(CUT_DRAIN_NS));
                }
            }
            _ => {}
        }
    }

    fn on_arrival(&mut self, now_ns: u64, stream: u16) {
        let Phase::Streams { missing, deadline_ns, last_ns } = &mut self.phase else { return };
        let Some(id) = missing.remove(&stream) else { return };
        *deadline_ns = now_ns.saturating_add(STREAMS_LIMIT_NS).min(*last_ns);
        let all = missing.is_empty();
        let role = stream::role(&self.terms.agreed.plan.traffic, id.way, false);
        self.actions.push_back(Action::Spawn(id, role));
        if all {
            // Counted from here, whatever is said meanwhile: a client must not hold the place for ever.
            let deadline_ns = now_ns.saturating_add(STREAMS_LIMIT_NS);
            self.phase = Phase::Ready { deadline_ns };
            self.say(now_ns, &ServerMessage::Ready);
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

    fn on_message(&mut self, now_ns: u64, message: ClientMessage) {
        match (&mut self.phase, message) {
            (Phase::Running(running), message) => {
                running.heard_ns = now_ns;
                self.on_message_of_running(now_ns, message);
            }
            (Phase::Farewell { heard_ns, .. }, message) => {
                *heard_ns = now_ns;
                match message {
                    ClientMessage::Ping(ping) => self.pong(now_ns, ping),
                    ClientMessage::Bye => self.end(Ok(())),
                    // Its streams may have ended before this word of it is read.
                    stop @ ClientMessage::Stop => self.on_message_of_running(now_ns, stop),
                    _ => {}
                }
            }
            (_, ClientMessage::Ping(ping)) => self.pong(now_ns, ping),
            (Phase::Ready { .. }, ClientMessage::Start) => {
                self.phase = Phase::Preparing;
                self.actions.push_back(Action::Prepare);
            }
            (Phase::Ready { .. }, _) | (_, ClientMessage::Stop | ClientMessage::Bye) => {
                let why = "the client stopped before the start";
                self.end(Err(Early::new(Outcome::Stopped, why)));
            }
            _ => self.end(Err(Early::failed("a message out of turn"))),
        }
    }

    fn begin(&mut self, now_ns: u64, seen: &Seen) {
        let Terms { agreed, longest_ns, most_bps, .. } = &self.terms;
        let plan = &agreed.plan;
        // A test by time was admitted with its length, and its data ends by itself: this is for a client
        // that does not say so.
        let grace = plan.duration().map_or(HEAD_START_NS, |_| LAST_DATA_NS + MOST_DRAIN_NS);
        let rate = most_bps.filter(|_| !matches!(plan.traffic, Traffic::Rr(_)));
        self.phase = Phase::Running(Box::new(Running {
            heard_ns: now_ns,
            look_ns: now_ns.saturating_add(LOOK_EVERY_NS),
            warm_ns: (plan.warmup.0 > 0).then(|| now_ns.saturating_add(plan.warmup.0)),
            hard_end_ns: now_ns.saturating_add(longest_ns.saturating_add(grace)),
            cut_ns: None,
            meter: rate.map(|rate| RateMeter::new(rate, now_ns)),
            idle: Idle::new(seen.moved, now_ns),
            send_ticks: Ticks::new(self.streams_of(Role::Send)),
            recv_ticks: Ticks::new(self.streams_of(Role::Receive)),
            sent_said: false,
            host_over: false,
            peer_sent: false,
            trouble: None,
        }));
        self.actions.push_back(Action::Begin(now_ns.saturating_add(HEAD_START_NS)));
        self.say(now_ns, &ServerMessage::Started);
    }

    fn streams_of(&self, role: Role) -> usize {
        let traffic = &self.terms.agreed.plan.traffic;
        self.ids.iter().filter(|id| stream::role(traffic, id.way, false) == role).count()
    }

    fn on_message_of_running(&mut self, now_ns: u64, message: ClientMessage) {
        match message {
            ClientMessage::Ping(ping) => self.pong(now_ns, ping),
            ClientMessage::Alive => {}
            ClientMessage::Sent(streams) => self.on_sent(now_ns, &streams),
            ClientMessage::Stop => {
                self.actions.push_back(Action::Stop);
                let why = "the client stopped it before its time";
                self.early.get_or_insert_with(|| Early::new(Outcome::Stopped, why));
            }
            ClientMessage::Bye => {
                self.gone = true;
                self.halt(0);
                let why = "the client said goodbye before the end";
                self.early = Some(Early::new(Outcome::Stopped, why));
            }
            _ => self.end(Err(Early::failed("a message out of turn"))),
        }
    }

    fn on_sent(&mut self, now_ns: u64, streams: &[StreamSent]) {
        if let Phase::Running(running) = &mut self.phase {
            running.peer_sent = true;
        }
        let sent = |sent: &StreamSent| Action::PeerSent(sent.stream, sent.datagrams);
        self.actions.extend(streams.iter().map(sent));
        self.actions.push_back(Action::DrainUntil(now_ns.saturating_add(self.terms.drain_ns)));
        if matches!(self.terms.agreed.plan.traffic, Traffic::Rr(_)) {
            // The asking end has asked all it will.
            self.actions.push_back(Action::Stop);
        }
    }

    fn on_data(
        &mut self,
        now_ns: u64,
        event: DataEvent,
        host: &dyn Fn(u64) -> Option<linerate_model::sample::HostSample>,
    ) {
        match event {
            DataEvent::Done(stream, report) => {
                self.reports.insert(stream, *report);
            }
            DataEvent::Begun | DataEvent::Warm(..) | DataEvent::PeerEnd(..) => {}
            DataEvent::Tick(_, index, tick) => {
                let Phase::Running(running) = &mut self.phase else { return };
                let sum = match tick {
                    Tick::Send(_) => running.send_ticks.add(index, tick),
                    Tick::Recv(_) => running.recv_ticks.add(index, tick),
                    Tick::Rr(_) => None,
                };
                let (send, recv) = match sum {
                    Some(Tick::Send(send)) => (Some(send), None),
                    Some(Tick::Recv(recv)) => (None, Some(recv)),
                    _ => return,
                };
                // Nobody hears it once there is trouble: only the reports count then.
                if running.trouble.is_some() || self.out.bytes().len() > MOST_LIVE_WAITING {
                    return;
                }
                let live = LiveInterval { index, send, recv, host: host(index) };
                self.put(now_ns, &ServerMessage::Interval(Box::new(live)));
            }
        }
    }

    /// What time and the state of things ask for.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        match &mut self.phase {
            Phase::Streams { .. } | Phase::Ready { .. } if seen.moved > MOST_EARLY => {
                self.end(Err(Early::failed("the client sent data before the start")));
            }
            Phase::Streams { missing, deadline_ns, .. } if now_ns >= *deadline_ns => {
                let why = format!("{} data streams did not arrive", missing.len());
                self.end(Err(Early::failed(why)));
            }
            Phase::Ready { deadline_ns } if now_ns >= *deadline_ns => {
                self.end(Err(Early::vanished("the client did not start")));
            }
            Phase::Streams { .. } | Phase::Ready { .. } if now_ns >= self.look_ns => {
                self.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
            }
            Phase::Running(_) => self.settle_running(now_ns, seen),
            Phase::Counting { deadline_ns } | Phase::Results { deadline_ns, .. }
                if now_ns >= *deadline_ns =>
            {
                let why = "the client did not take all results in time";
                self.end(Err(Early::vanished(why)));
            }
            // Each message has its limit, too.
            Phase::Results { rest, .. } if self.out.bytes().is_empty() => match rest.pop_front() {
                Some(message) => self.say(now_ns, &message),
                None => {
                    // The client asks for the clock once more and says goodbye. It may still be receiving
                    // what waits in send buffers; as long as it asks, it is there.
                    let most = self.terms.drain_ns.max(MOST_DRAIN_NS);
                    let deadline_ns = now_ns.saturating_add(most);
                    self.phase = Phase::Farewell { heard_ns: now_ns, deadline_ns };
                    self.read(now_ns);
                }
            },
            Phase::Farewell { heard_ns, .. }
                if now_ns >= heard_ns.saturating_add(SILENCE_LIMIT_NS) =>
            {
                // Nobody was silent while this end did not run.
                *heard_ns = (*heard_ns).max(now_ns.saturating_sub(seen.ran_ns));
                if now_ns >= heard_ns.saturating_add(SILENCE_LIMIT_NS) {
                    self.lost(ControlError::Silent);
                }
            }
            Phase::Farewell { deadline_ns, .. } if now_ns >= *deadline_ns => self.end(Ok(())),
            Phase::Refusing(early) if self.out.bytes().is_empty() => {
                let early = early.clone();
                self.end(Err(early));
            }
            _ => {}
        }
    }
}
