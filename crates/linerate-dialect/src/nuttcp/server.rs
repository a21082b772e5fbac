//! A test of nuttcp's at the server: from the parameters, which were granted, to the results.
//!
//! The client says nothing while the test runs. Whoever receives listens, and the other connects, or the other
//! way round where the client wants that. What ends a test is the data.

mod lines;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use linerate_model::plan::{AgreedPlan, End};
use linerate_model::served::Outcome;
use linerate_model::test_event::Cpu;
use linerate_wire::nuttcp::results::{self, Span};
use linerate_wire::nuttcp::{Parameters, greeting};

use super::words::{Beginning, Farewell};
use crate::control::{ControlError, Outbox};
use crate::ending::Early;
use crate::rows::RowBook;
use crate::stream::{self, DataEvent, Report, StreamId};
use crate::vigil::{Bounds, Vigil};
use crate::{Action, Conversation, Input, Seen};

/// A client that takes longer than this to read is gone, in nanoseconds.
const TALK_LIMIT_NS: u64 = 5_000_000_000;
/// All streams must be there within this time, in nanoseconds: real clients wait 5 s for them.
const STREAM_LIMIT_NS: u64 = 10_000_000_000;
/// From the second word of the beginning to the first datagram, in nanoseconds: receivers count time from there.
const HEAD_START_NS: u64 = 1_000_000;
/// Data that the sender's end overtook has so long, in nanoseconds. The next word comes after 500 ms.
const STRAGGLERS_NS: u64 = 250_000_000;
/// A test by time whose end was lost, or a count of datagrams with nothing more to come, ends so much later, in
/// nanoseconds: the last word of the end comes 2 s after the data.
const PAD_NS: u64 = 5_000_000_000;
/// A data thread that is stopped looks up within 20 ms; on a host that is full, some later. In
/// nanoseconds.
const GATHER_LIMIT_NS: u64 = 2_000_000_000;

const CLOSED: &str = "the client closed the control connection";

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What the client asked for …
    pub asked: Parameters,
    /// … and what that is here.
    pub agreed: Arc<AgreedPlan>,
    /// The client's address.
    pub peer: IpAddr,
    /// The client's receiver is of a release before 6.1.4, and has intervals.
    pub hurried: bool,
    /// The owner's longest test, in nanoseconds.
    pub longest_ns: u64,
    /// The owner's largest rate of one direction in bit/s.
    pub most_bps: Option<u64>,
    /// A test in which nothing moves for so long ends, in nanoseconds.
    pub no_data_ns: u64,
}

/// Where the conversation is.
enum Phase {
    /// Ports and streams are missing.
    Opening {
        ports: usize,
        streams: usize,
        deadline_ns: u64,
    },
    /// What a running test needs is made ready.
    Preparing,
    /// Datagrams will come.
    Beginning(Beginning),
    Running(Box<Vigil>),
    /// The streams have ended; this process's time is read.
    Counting,
    /// Results and, of a sender, its last words go out.
    Reporting,
    /// After trouble the data threads end; their reports are for the log.
    Gathering {
        deadline_ns: u64,
        early: Early,
    },
    /// A last word goes out.
    Leaving {
        early: Early,
    },
    Done(Result<(), Early>),
}

/// The server's end of one test.
pub struct Server {
    terms: Terms,
    ids: Vec<StreamId>,
    out: Outbox,
    actions: VecDeque<Action>,
    phase: Phase,
    /// The client knows that the test is granted.
    granted: bool,
    reports: BTreeMap<u16, Report>,
    rows: RowBook,
    /// Of the rows so far.
    shown: Span,
    farewell: Farewell,
    /// Of the control connection, before data was on its way, in nanoseconds.
    round_trip_ns: u64,
    results: Option<String>,
    threads_over: bool,
    /// Nothing comes from the client any more.
    closed: bool,
    /// It closed its half before the time was over: how the test ends when it has its results.
    early: Option<Early>,
}

impl Conversation for Server {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(_) => {
                let why = "the client said something while the test ran";
                self.trouble(now_ns, Early::failed(why));
            }
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(error) => self.lost(now_ns, &error),
            Input::Listening(..) => self.on_port(now_ns),
            Input::Arrived(_) => self.on_arrival(),
            Input::Data(event, _) => self.on_data(now_ns, event),
            Input::NoMoreData => self.threads_over = true,
            Input::Prepared(_) => {
                self.round_trip_ns = seen.round_trip_ns;
                self.prepared(now_ns);
            }
            Input::Host(_, cpu) => self.on_host(cpu),
            Input::Failed(why) => self.trouble(now_ns, Early::failed(why)),
            Input::Shutdown(why) => self.trouble(now_ns, Early::new(Outcome::Cut, why)),
            Input::Datagram(..) | Input::Time => {}
        }
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
        !self.closed && !matches!(self.phase, Phase::Leaving { .. } | Phase::Done(_))
    }

    fn deadline_ns(&self) -> Option<u64> {
        let own = match &self.phase {
            Phase::Opening { deadline_ns, .. } | Phase::Gathering { deadline_ns, .. } => {
                Some(*deadline_ns)
            }
            Phase::Beginning(beginning) => Some(beginning.again_ns),
            Phase::Running(vigil) => Some(vigil.deadline_ns()),
            Phase::Counting | Phase::Reporting if self.sends_datagrams() => {
                self.farewell.deadline_ns()
            }
            _ => None,
        };
        own.into_iter().chain(self.out.deadline_ns()).min()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Server {
    /// A test that was granted at `now_ns`.
    pub fn new(terms: Terms, now_ns: u64) -> Self {
        let plan = &terms.agreed.plan;
        let ids = stream::streams(plan.direction, plan.streams);
        // Where nothing of a test by time arrives, that is its result.
        let limit_ns = match terms.asked.time_us.filter(|_| terms.asked.udp) {
            Some(us) => us.saturating_mul(1_000).saturating_add(PAD_NS).min(terms.no_data_ns),
            None => STREAM_LIMIT_NS,
        };
        let deadline_ns = now_ns.saturating_add(limit_ns.max(STREAM_LIMIT_NS));
        let listens = listens(&terms.asked);
        let mut server = Self {
            actions: VecDeque::new(),
            out: Outbox::within(TALK_LIMIT_NS),
            phase: Phase::Opening { ports: ids.len(), streams: ids.len(), deadline_ns },
            granted: false,
            reports: BTreeMap::new(),
            rows: RowBook::new(plan.interval.0, 0, ids.len()),
            shown: Span::default(),
            farewell: Farewell { hurried: terms.hurried, ..Farewell::default() },
            round_trip_ns: 0,
            results: None,
            threads_over: false,
            closed: false,
            early: None,
            ids,
            terms,
        };
        if listens {
            server.actions.extend(server.ids.iter().map(|id| Action::Listen(*id)));
        } else {
            server.grant(now_ns);
            server.actions.extend(server.ids.iter().map(|id| Action::Open(*id, None)));
        }
        server
    }

    /// How it ended, once it has: nothing of it is of use any more but [`Self::reports`].
    pub fn outcome(&self) -> Option<Result<(), Early>> {
        match &self.phase {
            Phase::Done(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    /// What the data threads reported.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.values()
    }

    fn sends(&self) -> bool {
        !self.terms.asked.client_sends
    }

    fn sends_datagrams(&self) -> bool {
        self.sends() && self.terms.asked.udp
    }

    fn end(&mut self, ended: Result<(), Early>) {
        if !self.is_over() {
            self.actions.push_back(Action::Stop);
            self.phase = Phase::Done(ended);
        }
    }

    /// The client has its results.
    fn finish(&mut self) {
        let ended = self.early.take().map_or(Ok(()), Err);
        self.end(ended);
    }

    /// The control connection is of no use any more.
    fn lost(&mut self, now_ns: u64, error: &ControlError) {
        let first = !std::mem::replace(&mut self.closed, true);
        if matches!(error, ControlError::Closed) {
            // Whoever has the results just goes.
            if self.results.as_ref().is_some_and(String::is_empty) {
                return self.finish();
            }
            if first && self.hears_on(now_ns) {
                return;
            }
        }
        self.out.clear();
        let why = match error {
            ControlError::Closed => CLOSED.to_owned(),
            ControlError::Silent => "the client does not read its control connection".to_owned(),
            error => format!("the control connection failed: {error}"),
        };
        self.end(Err(Early::vanished(why)));
    }

    /// A real client of datagrams closes its half of the connection when it has sent all, or is interrupted while it
    /// receives, and waits for the results: the test is over, and whether this may be such a client.
    fn hears_on(&mut self, now_ns: u64) -> bool {
        let asked = &self.terms.asked;
        if !asked.udp {
            return false;
        }
        let over = match &mut self.phase {
            // That nothing arrived is a result.
            Phase::Opening { deadline_ns, .. } if asked.client_sends && self.granted => {
                *deadline_ns = now_ns;
                false
            }
            Phase::Running(vigil) => {
                self.actions.extend([Action::Stop, Action::DrainUntil(now_ns)]);
                let lasted_ns = vigil.lasted_ns(now_ns);
                asked.time_us.is_some_and(|us| lasted_ns >= us.saturating_mul(1_000))
            }
            Phase::Counting | Phase::Reporting => true,
            _ => return false,
        };
        self.early = (!over).then(|| Early::vanished(CLOSED));
        true
    }

    fn say(&mut self, now_ns: u64, text: &[u8]) {
        match self.out.put_bytes(now_ns, text) {
            Ok(()) => self.out.must_go(now_ns),
            Err(error) => self.lost(now_ns, &error),
        }
    }

    /// The test goes no further; the client's user hears why.
    fn trouble(&mut self, now_ns: u64, early: Early) {
        let deadline_ns = now_ns.saturating_add(GATHER_LIMIT_NS);
        let gathers = match &self.phase {
            Phase::Gathering { .. } | Phase::Leaving { .. } | Phase::Done(_) => return,
            // What was measured is on its way.
            Phase::Reporting if self.results.is_some() => return,
            Phase::Opening { .. } => false,
            _ => true,
        };
        self.phase = Phase::Gathering { deadline_ns, early };
        self.actions.extend([Action::Stop, Action::DrainUntil(0)]);
        if !gathers {
            self.leave(now_ns);
        }
    }

    /// After trouble: the client learns of it.
    fn leave(&mut self, now_ns: u64) {
        let Phase::Gathering { early, .. } = &self.phase else { return };
        let early = early.clone();
        let word = if self.granted {
            let who = if self.sends() { 't' } else { 'r' };
            let done = if self.shows_rows() { results::DONE } else { "" };
            format!("{done}nuttcp-{who}: Error: {}\n", one_line(&early.why)).into_bytes()
        } else {
            greeting::refusal(&early.why)
        };
        self.phase = Phase::Leaving { early };
        self.say(now_ns, &word);
    }

    fn grant(&mut self, now_ns: u64) {
        self.granted = true;
        self.say(now_ns, greeting::OK);
    }

    fn on_port(&mut self, now_ns: u64) {
        let Phase::Opening { ports, .. } = &mut self.phase else { return };
        *ports = ports.saturating_sub(1);
        if *ports == 0 && !self.granted {
            self.grant(now_ns);
        }
    }

    fn on_arrival(&mut self) {
        let Phase::Opening { streams, .. } = &mut self.phase else { return };
        *streams = streams.saturating_sub(1);
        if *streams > 0 {
            return;
        }
        let traffic = &self.terms.agreed.plan.traffic;
        let role = |id: &StreamId| stream::role(traffic, id.way, false);
        self.actions.push_back(Action::Announce);
        self.actions.extend(self.ids.iter().map(|id| Action::Spawn(*id, role(id))));
        self.actions.push_back(Action::Prepare);
        self.phase = Phase::Preparing;
    }

    fn prepared(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Preparing) {
            return;
        }
        if self.sends_datagrams() {
            self.phase = Phase::Beginning(Beginning::say(now_ns, &mut self.actions));
        } else {
            self.begin(now_ns, 0);
        }
    }

    fn begin(&mut self, now_ns: u64, head_start_ns: u64) {
        let start_ns = now_ns.saturating_add(head_start_ns);
        self.actions.push_back(Action::Begin(start_ns));
        let pad_ns = match self.terms.agreed.plan.end {
            _ if !self.sends() => PAD_NS,
            // The sender keeps its time itself …
            End::Time(_) => GATHER_LIMIT_NS,
            // … but not that of a count.
            End::Bytes(_) | End::Datagrams(_) => 0,
        };
        let span_ns = self.terms.asked.time_us.map(|us| us.saturating_mul(1_000));
        let end_ns = span_ns.map(|span| start_ns.saturating_add(span).saturating_add(pad_ns));
        self.phase = Phase::Running(Box::new(Vigil::new(self.bounds(), now_ns, end_ns)));
    }

    fn bounds(&self) -> Bounds {
        let asked = &self.terms.asked;
        Bounds {
            direction: self.terms.agreed.plan.direction,
            longest_ns: self.terms.longest_ns,
            most_bps: self.terms.most_bps,
            no_data_ns: self.terms.no_data_ns,
            pad_ns: PAD_NS,
            ends_in_silence: asked.udp && asked.client_sends && asked.time_us.is_none(),
        }
    }

    fn on_data(&mut self, now_ns: u64, event: DataEvent) {
        match event {
            DataEvent::PeerEnd(..) => {
                let until_ns = now_ns.saturating_add(STRAGGLERS_NS);
                self.actions.push_back(Action::DrainUntil(until_ns));
            }
            DataEvent::Done(stream, report) => {
                self.reports.insert(stream, *report);
            }
            DataEvent::Tick(stream, index, tick) => {
                if let Some(rows) = self.rows.add(false, stream, index, tick)
                    && matches!(self.phase, Phase::Running(_))
                {
                    self.show(now_ns, &rows);
                }
            }
            DataEvent::Begun | DataEvent::Warm(..) => {}
        }
    }

    /// What follows from the time, and from all that is known by now.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        // Of datagrams a half that is closed is no client that is gone.
        let seen = &Seen { peer_gone: seen.peer_gone && !self.terms.asked.udp, ..*seen };
        if let Phase::Running(vigil) = &mut self.phase
            && let Err(broken) = vigil.look(now_ns, seen, &mut self.actions)
        {
            self.trouble(now_ns, broken.early);
        }
        let all = self.reports.len() == self.ids.len();
        match &self.phase {
            Phase::Opening { deadline_ns, streams, .. } if now_ns >= *deadline_ns => {
                if *streams < self.ids.len() && self.terms.asked.udp {
                    let early = Early::failed("some data streams never came");
                    self.trouble(now_ns, early);
                } else if self.granted && self.terms.asked.udp && !self.sends() {
                    self.results = Some(self.figures(Cpu::default()));
                    self.phase = Phase::Reporting;
                } else {
                    let early = Early::vanished("the client opened no data connection");
                    self.trouble(now_ns, early);
                }
            }
            Phase::Beginning(beginning) if beginning.is_over(now_ns, &mut self.actions) => {
                self.begin(now_ns, HEAD_START_NS);
            }
            Phase::Running(_) if all => {
                let reports: Vec<_> = self.reports.values().collect();
                let span_ns = reports.iter().map(|report| stream::span_ns(report)).max();
                for rows in self.rows.rest(&reports, span_ns.unwrap_or(0)) {
                    self.show(now_ns, &rows);
                }
                self.phase = Phase::Counting;
                self.actions.extend([Action::HostOver, Action::FinishHost]);
            }
            Phase::Running(_) | Phase::Preparing if self.threads_over => {
                let early = Early::failed("a data thread ended without a word");
                self.trouble(now_ns, early);
            }
            Phase::Gathering { deadline_ns, .. }
                if all || self.threads_over || now_ns >= *deadline_ns =>
            {
                self.leave(now_ns);
            }
            Phase::Leaving { early } if self.out.bytes().is_empty() => {
                let early = early.clone();
                self.end(Err(early));
            }
            _ => {}
        }
        self.report(now_ns);
    }

    fn on_host(&mut self, cpu: Cpu) {
        if matches!(self.phase, Phase::Counting) {
            self.results = Some(self.figures(cpu));
            self.phase = Phase::Reporting;
        }
    }

    /// Who sent datagrams says first that none follow, so that the client reads what follows that.
    fn report(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Reporting | Phase::Counting) {
            return;
        }
        let words = self.sends_datagrams();
        if words {
            self.farewell.say(now_ns, &self.ids, &mut self.actions);
        }
        let Some(results) = &mut self.results else { return };
        if !results.is_empty() && (self.farewell.said > 1 || !words) {
            let text = std::mem::take(results);
            self.say(now_ns, text.as_bytes());
        }
        let said = self.results.as_ref().is_some_and(String::is_empty);
        if said && self.out.bytes().is_empty() && (self.farewell.is_over() || !words) {
            self.finish();
        }
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether this end waits for the streams.
fn listens(asked: &Parameters) -> bool {
    // Datagrams need no connection.
    asked.client_sends != (asked.flipped && !asked.udp)
}
