//! A test of netperf's at the server: from the request, which was granted, to the results.
//!
//! The client says nothing while the test runs. What ends it is the data: a connection that closes, a
//! datagram without a byte, the agreed time.

mod results;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;

use linerate_model::plan::{AgreedPlan, Transport};
use linerate_model::served::Outcome;
use linerate_session::assemble::HostSamples;
use linerate_wire::netperf::{Frame, Length, PAD_NS, Request, Response};

use crate::control::{ControlError, Outbox};
use crate::ending::Early;
use crate::stream::{self, DataEvent, Report, StreamId};
use crate::vigil::{Bounds, Vigil};
use crate::{Action, Conversation, Input, Seen};

/// A client that takes longer than this to read an answer is gone, in nanoseconds.
const TALK_LIMIT_NS: u64 = 5_000_000_000;
/// A TCP stream must arrive within this time, in nanoseconds.
const STREAM_LIMIT_NS: u64 = 10_000_000_000;
/// A data thread that is stopped looks up within 20 ms; on a host that is full, some later. In
/// nanoseconds.
const GATHER_LIMIT_NS: u64 = 2_000_000_000;
/// A client that opens a connection for each transaction has begun so much later at most than its server, in
/// nanoseconds: netperf's own waits 4 s, and its client for it.
const CONNECTIONS_PAD_NS: u64 = 1_000_000_000;
/// So long after the last request came its response is out, in nanoseconds.
const ANSWERED_NS: u64 = 200_000_000;

/// Why there are no results, as netperf's clients show it: numbers of errno(3).
mod errno {
    pub(super) const IO: u32 = 5;
    pub(super) const TIME: u32 = 62;
    pub(super) const PROTOCOL: u32 = 71;
    pub(super) const QUOTA: u32 = 122;
    pub(super) const CANCELED: u32 = 125;
}

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What the client asked for …
    pub request: Request,
    /// … and what that is here.
    pub agreed: Arc<AgreedPlan>,
    /// The owner's longest test, in nanoseconds.
    pub longest_ns: u64,
    /// The owner's largest rate of one direction in bit/s.
    pub most_bps: Option<u64>,
    /// A test in which nothing moves for so long ends, in nanoseconds.
    pub no_data_ns: u64,
}

/// Where the conversation is.
enum Phase {
    /// The data stream is missing; whether the client knows where to.
    Opening {
        answered: bool,
        deadline_ns: u64,
    },
    /// What a running test needs is made ready.
    Preparing,
    Running(Box<Vigil>),
    /// The stream has ended; the host's counters are read.
    Counting,
    /// The results go out.
    Reporting,
    /// After trouble the data thread ends; its report is for the log.
    Gathering {
        deadline_ns: u64,
        error: u32,
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
    /// The first answer is out, so that the next is of results.
    answered: bool,
    reports: BTreeMap<u16, Report>,
    /// How long the test lasted, in nanoseconds.
    lasted_ns: u64,
    /// Of its connection over TCP.
    congestion: Option<String>,
    threads_over: bool,
}

impl Conversation for Server {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(_) => {
                let why = "the client sent a message before the test was over";
                self.trouble(now_ns, errno::PROTOCOL, Early::failed(why));
            }
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(error) => self.lost(&error),
            Input::Listening(_, port) => self.on_port(now_ns, seen, port),
            Input::Arrived(_) => self.on_arrival(),
            Input::Data(DataEvent::Done(stream, report), _) => {
                self.reports.insert(stream, *report);
            }
            Input::NoMoreData => self.threads_over = true,
            Input::Prepared(congestion) => {
                self.congestion = congestion;
                self.begin(now_ns);
            }
            Input::Host(samples, _) => self.on_host(now_ns, &samples),
            Input::Failed(why) => self.trouble(now_ns, errno::IO, Early::failed(why)),
            Input::Shutdown(why) => {
                self.trouble(now_ns, errno::CANCELED, Early::new(Outcome::Cut, why));
            }
            Input::Data(..) | Input::Datagram(..) | Input::Time => {}
        }
        if self.out.deadline_ns().is_some_and(|at| now_ns >= at) {
            self.lost(&ControlError::Silent);
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
        // The next test's request may come at once.
        !matches!(self.phase, Phase::Reporting | Phase::Leaving { .. } | Phase::Done(_))
    }

    fn deadline_ns(&self) -> Option<u64> {
        let own = match &self.phase {
            Phase::Opening { deadline_ns, .. } | Phase::Gathering { deadline_ns, .. } => {
                Some(*deadline_ns)
            }
            Phase::Running(vigil) => Some(vigil.deadline_ns()),
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
        let ids = stream::streams(plan.direction, 1);
        // Where nothing of a test by time arrives, that is its result.
        let limit_ns = match (terms.request.transport, terms.request.length) {
            (Transport::Udp, Length::Seconds(1..)) => {
                let idle_ns = terms.no_data_ns.max(STREAM_LIMIT_NS);
                planned_ns(&terms).saturating_add(PAD_NS).min(idle_ns)
            }
            _ => STREAM_LIMIT_NS,
        };
        let deadline_ns = now_ns.saturating_add(limit_ns.min(terms.longest_ns));
        Self {
            actions: ids.iter().map(|id| Action::Listen(*id)).collect(),
            ids,
            out: Outbox::within(TALK_LIMIT_NS),
            phase: Phase::Opening { answered: false, deadline_ns },
            answered: false,
            reports: BTreeMap::new(),
            lasted_ns: 0,
            congestion: None,
            threads_over: false,
            terms,
        }
    }

    /// How it ended, once it has: nothing of it is of use any more but [`Self::reports`].
    pub fn outcome(&self) -> Option<Result<(), Early>> {
        match &self.phase {
            Phase::Done(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    /// What the data thread reported.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.values()
    }

    fn end(&mut self, ended: Result<(), Early>) {
        if !self.is_over() {
            self.actions.push_back(Action::Stop);
            self.phase = Phase::Done(ended);
        }
    }

    /// The control connection is of no use any more.
    fn lost(&mut self, error: &ControlError) {
        self.out.clear();
        let why = match error {
            ControlError::Closed => "the client closed the control connection".to_owned(),
            ControlError::Silent => "the client does not read its control connection".to_owned(),
            error => format!("the control connection failed: {error}"),
        };
        self.end(Err(Early::vanished(why)));
    }

    fn say(&mut self, now_ns: u64, frame: &Frame) {
        match self.out.put_bytes(now_ns, frame.bytes()) {
            Ok(()) => self.out.must_go(now_ns),
            Err(error) => self.lost(&error),
        }
    }

    /// The test goes no further; the client hears a number.
    fn trouble(&mut self, now_ns: u64, error: u32, early: Early) {
        let deadline_ns = now_ns.saturating_add(GATHER_LIMIT_NS);
        let gathers = match &self.phase {
            Phase::Gathering { .. } | Phase::Leaving { .. } | Phase::Done(_) => return,
            // What was measured is on its way.
            Phase::Reporting => return,
            Phase::Opening { .. } => false,
            Phase::Preparing | Phase::Running(_) | Phase::Counting => true,
        };
        self.phase = Phase::Gathering { deadline_ns, error, early };
        self.actions.extend([Action::Stop, Action::DrainUntil(0)]);
        if !gathers {
            self.leave(now_ns);
        }
    }

    /// After trouble: the client learns of it.
    fn leave(&mut self, now_ns: u64) {
        let Phase::Gathering { error, early, .. } = &self.phase else { return };
        let (error, early) = (*error, early.clone());
        let frame = if self.answered {
            linerate_wire::netperf::Results::default().encode(error)
        } else {
            Response::refuse(error)
        };
        self.phase = Phase::Leaving { early };
        self.say(now_ns, &frame);
    }

    fn on_port(&mut self, now_ns: u64, seen: &Seen, port: NonZeroU16) {
        let Phase::Opening { answered: answered @ false, .. } = &mut self.phase else { return };
        *answered = true;
        self.answered = true;
        let Terms { request, agreed, .. } = &self.terms;
        let response = results::response(request, &agreed.plan.traffic, port, seen.granted);
        let frame = response.answer(request);
        self.say(now_ns, &frame);
    }

    fn on_arrival(&mut self) {
        if !matches!(self.phase, Phase::Opening { .. }) {
            return;
        }
        let traffic = &self.terms.agreed.plan.traffic;
        let role = |id: &StreamId| stream::role(traffic, id.way, false);
        self.actions.push_back(Action::Announce);
        self.actions.extend(self.ids.iter().map(|id| Action::Spawn(*id, role(id))));
        self.actions.push_back(Action::Prepare);
        self.phase = Phase::Preparing;
    }

    fn begin(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Preparing) {
            return;
        }
        self.actions.push_back(Action::Begin(now_ns));
        // Whoever receives waits for what ends a test, or else so much longer. Connections have no last one.
        let pad_ns = match &self.terms.request {
            request if request.connections => CONNECTIONS_PAD_NS,
            request if request.receives => PAD_NS,
            _ => 0,
        };
        let end_ns = match self.terms.request.length {
            Length::Seconds(1..) => Some(planned_ns(&self.terms).saturating_add(pad_ns)),
            Length::Seconds(0) | Length::Units(_) => None,
        };
        let over_ns = end_ns.map(|span| now_ns.saturating_add(span.saturating_sub(pad_ns)));
        let end_ns = end_ns.map(|span| now_ns.saturating_add(span));
        let vigil = Vigil::new(self.bounds(), now_ns, end_ns).over_at(over_ns);
        self.phase = Phase::Running(Box::new(vigil));
    }

    fn bounds(&self) -> Bounds {
        let request = &self.terms.request;
        let counted = matches!(request.length, Length::Units(_) | Length::Seconds(0));
        Bounds {
            direction: self.terms.agreed.plan.direction,
            longest_ns: self.terms.longest_ns,
            most_bps: self.terms.most_bps,
            no_data_ns: self.terms.no_data_ns,
            pad_ns: PAD_NS,
            ends_in_silence: counted && request.transport == Transport::Udp && !request.transmits,
        }
    }

    /// What follows from the time, and from all that is known by now.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        if let Phase::Running(vigil) = &mut self.phase
            && let Err(broken) = vigil.look(now_ns, seen, &mut self.actions)
        {
            let error = if broken.by_quota { errno::QUOTA } else { errno::TIME };
            self.trouble(now_ns, error, broken.early);
        }
        if let Phase::Running(vigil) = &mut self.phase
            && results::all_answered(&self.terms.request, seen.moved)
            && vigil.idle_ns(now_ns, seen) >= ANSWERED_NS
        {
            self.actions.extend([Action::Stop, Action::DrainUntil(now_ns)]);
        }
        match &self.phase {
            Phase::Opening { answered, deadline_ns } if now_ns >= *deadline_ns => {
                if *answered && self.terms.request.transport == Transport::Udp {
                    self.lasted_ns = planned_ns(&self.terms);
                    self.report(now_ns, &HostSamples::default());
                } else {
                    let early = Early::vanished("the client opened no data connection");
                    self.trouble(now_ns, errno::TIME, early);
                }
            }
            Phase::Running(vigil) if self.reports.len() == self.ids.len() => {
                let planned_ns = planned_ns(&self.terms);
                let lasted_ns = vigil.lasted_ns(now_ns);
                self.lasted_ns = if planned_ns > 0 { lasted_ns.min(planned_ns) } else { lasted_ns };
                self.phase = Phase::Counting;
                self.actions.extend([Action::HostOver, Action::FinishHost]);
            }
            Phase::Running(_) | Phase::Preparing if self.threads_over => {
                let early = Early::failed("a data thread ended without a word");
                self.trouble(now_ns, errno::IO, early);
            }
            Phase::Gathering { deadline_ns, .. }
                if !self.reports.is_empty() || self.threads_over || now_ns >= *deadline_ns =>
            {
                self.leave(now_ns);
            }
            Phase::Reporting if self.out.bytes().is_empty() => self.end(Ok(())),
            Phase::Leaving { early } if self.out.bytes().is_empty() => {
                let early = early.clone();
                self.end(Err(early));
            }
            _ => {}
        }
    }

    fn on_host(&mut self, now_ns: u64, samples: &HostSamples) {
        if matches!(self.phase, Phase::Counting) {
            self.report(now_ns, samples);
        }
    }

    fn report(&mut self, now_ns: u64, samples: &HostSamples) {
        let known = (self.lasted_ns, self.congestion.as_ref());
        let results = results::results(&self.terms.request, &self.reports, known, samples);
        self.phase = Phase::Reporting;
        self.say(now_ns, &results.answer(0, &self.terms.request));
        self.settle(now_ns, &Seen::default());
    }
}

/// The agreed time of a test by time, in nanoseconds; else 0.
fn planned_ns(terms: &Terms) -> u64 {
    match terms.request.length {
        Length::Seconds(seconds) => u64::from(seconds).saturating_mul(1_000_000_000),
        Length::Units(_) => 0,
    }
}
