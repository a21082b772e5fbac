//! A dialect that nobody speaks, to see what a new one takes: both ends in one file. Datagrams carry no
//! numbers, each stream has a data port of its own, and every message is a frame of JSON.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;

use linerate_dialect::control::{Inbox, Outbox};
use linerate_dialect::habits::{self, Habits};
use linerate_dialect::stream::{DataEvent, Report, Role, StreamId, role, straggler_ns, streams};
use linerate_dialect::{Action, Conversation, Input, Seen};
use linerate_model::plan::TestPlan;
use linerate_wire::native::message::StreamReport;
use serde::{Deserialize, Serialize};

/// Each end says that it is there so often, in nanoseconds …
const ALIVE_EVERY_NS: u64 = 500_000_000;
/// … and is gone when it has said nothing for so long.
const SILENCE_LIMIT_NS: u64 = 3_000_000_000;
/// Opening streams may take so long, and the test beyond its planned length, in nanoseconds.
const OVERTIME_NS: u64 = 40_000_000_000;

/// Its row of facts.
pub const HABITS: Habits = Habits {
    warm_by_time: true,
    opens: <[u8]>::is_empty,
    numbered: false,
    missing: |_| Some("its datagrams carry no numbers: copies hide loss".into()),
    ..habits::NATIVE
};

#[derive(Serialize, Deserialize)]
enum Message {
    Port(u16, NonZeroU16),
    Ready,
    Go,
    Started,
    Alive,
    Sent(BTreeMap<u16, u64>),
    Stop,
    Results(BTreeMap<u16, StreamReport>),
    Bye,
}

/// What ended a test before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The client's user.
    Client,
    /// The server, or its owner.
    Server,
    /// The peer is gone, or says what it must not.
    Lost,
    /// This end could not go on, or what came is no message.
    Here,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Data streams are missing, or the word that begins the test.
    Opening,
    Running,
    /// The client has all figures, or gets them; its goodbye is missing.
    Reporting,
    /// A last word goes out.
    Leaving,
    /// Over; whether figures were exchanged.
    Done(bool),
}

/// One end of one test.
pub struct Toy {
    client: bool,
    /// Who may end it here.
    user: Why,
    plan: TestPlan,
    /// Its streams …
    pub ids: Vec<StreamId>,
    /// … with what this end measured …
    pub reports: BTreeMap<u16, StreamReport>,
    /// … and what the peer did.
    pub theirs: BTreeMap<u16, StreamReport>,
    missing: usize,
    /// The server has said that it has all streams.
    ready: bool,
    inbox: Inbox<Message>,
    out: Outbox,
    actions: VecDeque<Action>,
    phase: Phase,
    sent_said: bool,
    heard_ns: u64,
    alive_ns: u64,
    deadline_ns: u64,
    why: Option<Why>,
}

impl Conversation for Toy {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(bytes) => self.inbox.put(bytes),
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(_) => self.end(Some(Why::Lost)),
            Input::Listening(stream, port) => self.say(now_ns, &Message::Port(stream, port)),
            Input::Arrived(stream) => self.on_arrival(stream),
            Input::Data(DataEvent::Done(stream, report), _) => self.on_done(stream, *report),
            Input::NoMoreData if self.reports.len() < self.ids.len() => self.end(Some(Why::Here)),
            Input::Prepared(_) if !self.client => self.say(now_ns, &Message::Ready),
            Input::Failed(_) => self.end(Some(Why::Here)),
            Input::Shutdown(_) => self.stop(now_ns, self.user),
            _ => {}
        }
        while !self.is_over() {
            match self.inbox.take() {
                Ok(Some(message)) => self.on_message(now_ns, message),
                Ok(None) => break,
                Err(_) => self.end(Some(Why::Here)),
            }
        }
        if seen.over.is_some() && self.phase == Phase::Running {
            self.stop(now_ns, Why::Server);
        }
        self.settle(now_ns);
    }

    fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn outgoing(&self) -> &[u8] {
        self.out.bytes()
    }

    fn reads(&self) -> bool {
        !self.is_over()
    }

    fn deadline_ns(&self) -> Option<u64> {
        let own = [self.heard_ns.saturating_add(SILENCE_LIMIT_NS), self.alive_ns, self.deadline_ns];
        own.into_iter().chain(self.out.deadline_ns()).min().filter(|_| !self.is_over())
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Toy {
    /// A test that both ends know.
    pub fn new(plan: &TestPlan, client: bool, now_ns: u64) -> Self {
        let ids = streams(plan.direction, plan.streams);
        let listens = ids.iter().filter(|_| !client).map(|id| Action::Listen(*id));
        Self {
            client,
            user: if client { Why::Client } else { Why::Server },
            plan: plan.clone(),
            missing: ids.len(),
            ready: false,
            actions: listens.collect(),
            ids,
            inbox: Inbox::new(None),
            out: Outbox::new(None),
            phase: Phase::Opening,
            reports: BTreeMap::new(),
            theirs: BTreeMap::new(),
            sent_said: false,
            heard_ns: now_ns,
            alive_ns: now_ns.saturating_add(ALIVE_EVERY_NS),
            deadline_ns: now_ns.saturating_add(OVERTIME_NS),
            why: None,
        }
    }

    /// Once it is over: whether all figures are there, and what ended it early.
    pub fn outcome(&self) -> Option<(bool, Option<Why>)> {
        if let Phase::Done(whole) = self.phase { Some((whole, self.why)) } else { None }
    }

    fn say(&mut self, now_ns: u64, message: &Message) {
        if self.out.say(now_ns, message).is_err() {
            self.end(Some(Why::Lost));
        }
    }

    /// It goes no further.
    fn end(&mut self, why: Option<Why>) {
        if !self.is_over() {
            self.why = self.why.or(why);
            let whole = why.is_none() && self.reports.len() == self.ids.len();
            self.phase = Phase::Done(whole);
            self.actions.push_back(Action::Stop);
        }
    }

    /// The test ends before its time: with figures if it runs.
    fn stop(&mut self, now_ns: u64, why: Why) {
        if self.why.replace(why).is_some() || self.is_over() {
            return;
        }
        if self.user == why {
            self.say(now_ns, &Message::Stop);
        }
        self.actions.push_back(Action::Stop);
        match self.phase {
            Phase::Opening if self.user == why => self.phase = Phase::Leaving,
            Phase::Opening => self.end(Some(why)),
            _ => {}
        }
    }

    fn on_arrival(&mut self, stream: u16) {
        let Some(id) = self.ids.get(usize::from(stream)) else { return };
        let role = role(&self.plan.traffic, id.way, self.client);
        self.actions.push_back(Action::Spawn(*id, role));
        self.missing = self.missing.saturating_sub(1);
        if self.missing == 0 {
            self.actions.extend([Action::Announce, Action::Prepare]);
        }
    }

    fn on_message(&mut self, now_ns: u64, message: Message) {
        self.heard_ns = now_ns;
        match message {
            Message::Port(stream, port) => {
                let id = self.ids.get(usize::from(stream)).filter(|_| self.client);
                self.actions.extend(id.map(|id| Action::Open(*id, Some(port))));
            }
            Message::Ready => self.ready = self.client,
            Message::Go | Message::Started if self.phase == Phase::Opening && self.missing == 0 => {
                self.phase = Phase::Running;
                let planned_ns = self.plan.duration().map_or(0, |time| time.0);
                self.deadline_ns = now_ns.saturating_add(planned_ns).saturating_add(OVERTIME_NS);
                self.actions.push_back(Action::Begin(now_ns));
                if !self.client {
                    self.say(now_ns, &Message::Started);
                }
            }
            Message::Sent(sent) => {
                self.actions.extend(sent.into_iter().map(|(s, n)| Action::PeerSent(s, n)));
                let until = now_ns.saturating_add(straggler_ns(0));
                self.actions.push_back(Action::DrainUntil(until));
            }
            Message::Stop => self.stop(now_ns, if self.client { Why::Server } else { Why::Client }),
            Message::Results(theirs) if self.client => self.theirs = theirs,
            Message::Bye => self.end(None),
            _ => {}
        }
    }

    fn on_done(&mut self, stream: u16, report: Report) {
        match report {
            Report::Send(r) => self.reports.insert(stream, StreamReport::Send(r.into())),
            Report::Recv(r) => self.reports.insert(stream, StreamReport::Recv(r.into())),
            Report::Rr(_) | Report::Respond(_) => None,
        };
    }

    fn settle(&mut self, now_ns: u64) {
        let silent = now_ns >= self.heard_ns.saturating_add(SILENCE_LIMIT_NS);
        let unread = self.out.deadline_ns().is_some_and(|at| now_ns >= at);
        if silent || unread || now_ns >= self.deadline_ns {
            return self.end(Some(Why::Lost));
        }
        if now_ns >= self.alive_ns && !self.is_over() {
            self.alive_ns = now_ns.saturating_add(ALIVE_EVERY_NS);
            self.say(now_ns, &Message::Alive);
        }
        if self.missing == 0 && std::mem::take(&mut self.ready) {
            self.say(now_ns, &Message::Go);
        }
        if self.phase == Phase::Running {
            self.report(now_ns);
        }
        if self.phase == Phase::Leaving && self.out.bytes().is_empty() {
            self.end(self.why.filter(|_| self.theirs.is_empty()));
        }
    }

    /// What was sent, once all senders have; and all figures, once they are there.
    fn report(&mut self, now_ns: u64) {
        let sends = |id: &&StreamId| role(&self.plan.traffic, id.way, self.client) == Role::Send;
        let sent = self.reports.iter().filter_map(|(stream, half)| match half {
            StreamReport::Send(report) => Some((*stream, report.counts.datagrams)),
            _ => None,
        });
        let sent = sent.collect::<BTreeMap<_, _>>();
        let all = !sent.is_empty() && sent.len() == self.ids.iter().filter(sends).count();
        if all && !std::mem::replace(&mut self.sent_said, true) {
            self.say(now_ns, &Message::Sent(sent));
        }
        if self.reports.len() < self.ids.len() || self.is_over() {
            return;
        }
        if !self.client {
            self.phase = Phase::Reporting;
            self.say(now_ns, &Message::Results(self.reports.clone()));
        } else if !self.theirs.is_empty() {
            self.phase = Phase::Leaving;
            self.say(now_ns, &Message::Bye);
        }
    }
}
