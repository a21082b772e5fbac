//! A test at a client of netperf's: from the request to the server's results.
//!
//! The server says where to once, and what it measured once: after its data connection has ended, which
//! this end brings about, or the agreed time does.

mod ended;
mod refusal;
mod running;

pub use ended::Ended;

use std::collections::{BTreeMap, VecDeque};

use linerate_model::plan::{TestPlan, Transport};
use linerate_model::sample::HostSample;
use linerate_session::assemble::{self, LiveSide};
use linerate_wire::netperf::{FRAME_BYTES, Frame, Response, Results};

use refusal::{refused, stopped};

use crate::control::{ControlError, Outbox};
use crate::ending::{Failure, Trouble};
use crate::lookout::Lookout;
use crate::stream::{self, DataEvent, Report, StreamId, Tick};
use crate::{Action, Conversation, Input, Seen};

/// From the start of the data thread to the first datagram, in nanoseconds: it has seen that it may begin.
const HEAD_START_NS: u64 = 2_000_000;
/// A data thread that was stopped, and whose drain is over, has ended by then, in nanoseconds.
const THREADS_LIMIT_NS: u64 = 4_000_000_000;
/// What is in a server's send buffer when it says that it is done takes this long at most, in nanoseconds.
const STREAM_END_NS: u64 = 5_000_000_000;
/// Who has interrupted a test waits this long for the server's results, in nanoseconds.
const INTERRUPTED_NS: u64 = 3_000_000_000;
/// A test without an end by time ends after this long in any case, in nanoseconds.
const LONGEST_NS: u64 = 86_400_000_000_000;

const ASKING: &str = "asking for the test";
const OPENING: &str = "opening the data stream";
const RUNNING: &str = "running the test";
const WAITING: &str = "waiting for the results";

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// As netperf's dialect can run it.
    pub plan: TestPlan,
    /// What is asked of the server; `None` where it has heard it.
    pub request: Option<Frame>,
    /// An answer before or after the test may take this long, in nanoseconds.
    pub patience_ns: u64,
}

/// Where the conversation is.
enum Phase {
    /// The server's first answer is due.
    Asking {
        deadline_ns: u64,
    },
    /// The data stream is being opened.
    Opening,
    /// The host's counters are made ready.
    Preparing,
    Running {
        over_ns: Option<u64>,
        deadline_ns: u64,
        lookout: Lookout,
    },
    /// The data thread is told to end, and does.
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

/// The client's end of one test.
pub struct Client {
    terms: Terms,
    ids: Vec<StreamId>,
    heard: Vec<u8>,
    out: Outbox,
    actions: VecDeque<Action>,
    phase: Phase,
    response: Option<Response>,
    results: Option<Results>,
    /// When data began to flow, and how much later the results came, in nanoseconds.
    began_ns: u64,
    after_ns: u64,
    reports: BTreeMap<u16, Report>,
    shown: u64,
    interrupted: bool,
    trouble: Option<Trouble>,
    threads_over: bool,
    /// Nothing comes from the server any more.
    closed: bool,
}

impl Conversation for Client {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Bytes(bytes) => self.heard.extend_from_slice(bytes),
            Input::Carried(bytes) => self.out.carried(now_ns, bytes),
            Input::Lost(error) => self.lost(now_ns, &error),
            Input::Arrived(_) => self.on_open(),
            Input::Data(event, host) => self.on_data(event, host),
            Input::NoMoreData => self.threads_over = true,
            Input::Prepared(_) => self.begin(now_ns),
            Input::Host(..) => self.on_host(now_ns),
            Input::Failed(why) => self.fail(now_ns, Failure::Here(why)),
            Input::Shutdown(_) => self.interrupt(now_ns),
            Input::Listening(..) | Input::Datagram(..) | Input::Time => {}
        }
        while self.reads() && self.read(now_ns) {}
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
            Phase::Asking { deadline_ns }
            | Phase::Ending { deadline_ns }
            | Phase::Waiting { deadline_ns } => Some(*deadline_ns),
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
    /// A test that begins at `now_ns` on a connection where no test is under way.
    pub fn new(terms: Terms, now_ns: u64) -> Self {
        let plan = &terms.plan;
        let mut client = Self {
            ids: stream::streams(plan.direction, plan.streams),
            heard: Vec::new(),
            out: Outbox::within(terms.patience_ns),
            actions: VecDeque::new(),
            phase: Phase::Asking { deadline_ns: now_ns.saturating_add(terms.patience_ns) },
            response: None,
            results: None,
            began_ns: now_ns,
            after_ns: 0,
            reports: BTreeMap::new(),
            shown: 0,
            interrupted: false,
            trouble: None,
            threads_over: false,
            closed: false,
            terms,
        };
        if let Some(request) = client.terms.request.take()
            && let Err(error) = client.out.put_bytes(now_ns, request.bytes())
        {
            client.lost(now_ns, &error);
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

    /// What the server will do, once it has said so.
    pub fn response(&self) -> Option<&Response> {
        self.response.as_ref()
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
            Phase::Opening | Phase::Preparing => OPENING,
            Phase::Running { .. } | Phase::Ending { .. } => RUNNING,
            _ => WAITING,
        }
    }

    /// It goes no further: before the start there is nothing to report, after it there is.
    fn fail(&mut self, now_ns: u64, failure: Failure) {
        let trouble = Trouble { doing: self.doing(), failure };
        match self.phase {
            Phase::Asking { .. } | Phase::Opening | Phase::Preparing => self.end(Err(trouble)),
            Phase::Running { .. } => {
                self.trouble.get_or_insert(trouble);
                self.stop(now_ns, 0);
            }
            Phase::Ending { .. } | Phase::Counting => {
                self.trouble.get_or_insert(trouble);
            }
            Phase::Waiting { .. } => {
                self.trouble.get_or_insert(trouble);
                self.end(Ok(()));
            }
            Phase::Done(_) => {}
        }
    }

    /// The control connection is of no use any more.
    fn lost(&mut self, now_ns: u64, error: &ControlError) {
        self.closed = true;
        self.out.clear();
        if self.results.is_some() {
            return;
        }
        let why = match error {
            ControlError::Closed => "it closed the control connection".to_owned(),
            ControlError::Silent => "it does not read its control connection".to_owned(),
            error => error.to_string(),
        };
        self.fail(now_ns, Failure::Server(why));
    }

    /// Takes one message of what was heard; whether there was one.
    fn read(&mut self, now_ns: u64) -> bool {
        let Some(frame) = Frame::read(&self.heard) else { return false };
        self.heard.drain(..FRAME_BYTES);
        if !frame.kind().is_answer() {
            let why = "what it said is no answer of netperf's".to_owned();
            self.fail(now_ns, Failure::Protocol(why));
            // Nothing after it can be understood.
            self.closed = true;
        } else if self.response.is_none() {
            self.on_response(now_ns, &frame);
        } else {
            self.on_results(now_ns, &frame);
        }
        true
    }

    fn on_response(&mut self, now_ns: u64, frame: &Frame) {
        if !matches!(self.phase, Phase::Asking { .. }) {
            return;
        }
        let response = match Response::read(frame) {
            Ok(response) => response,
            Err(error) => return self.fail(now_ns, refused(error)),
        };
        let port = response.data_port;
        self.response = Some(response);
        if port.is_none() {
            let why = "it named no port for the data".to_owned();
            return self.fail(now_ns, Failure::Protocol(why));
        }
        self.phase = Phase::Opening;
        self.actions.extend(self.ids.iter().map(|id| Action::Open(*id, port)));
    }

    fn on_results(&mut self, now_ns: u64, frame: &Frame) {
        let measures_cpu = self.response.as_ref().is_some_and(|r| r.measures_cpu);
        let results = match Results::read(frame, measures_cpu) {
            Ok(results) => results,
            Err(error) => return self.fail(now_ns, stopped(error)),
        };
        if self.results.is_some() {
            return;
        }
        // Nothing more is sent there.
        if self.terms.plan.direction.has_reverse() {
            let drain_ns = match self.terms.plan.traffic.transport() {
                Transport::Tcp => STREAM_END_NS,
                Transport::Udp => stream::straggler_ns(0),
            };
            self.actions.push_back(Action::DrainUntil(now_ns.saturating_add(drain_ns)));
            let size = self.response.as_ref().and_then(|response| response.send_size);
            let sent = results.datagrams_sent(size);
            self.actions.extend(self.ids.iter().map(|id| Action::PeerSent(id.stream, sent)));
        }
        self.after_ns = now_ns.saturating_sub(self.began_ns);
        self.results = Some(results);
    }

    fn on_open(&mut self) {
        if !matches!(self.phase, Phase::Opening) {
            return;
        }
        let traffic = &self.terms.plan.traffic;
        let role = |id: &StreamId| stream::role(traffic, id.way, true);
        self.actions.extend(self.ids.iter().map(|id| Action::Spawn(*id, role(id))));
        self.actions.extend([Action::Announce, Action::Prepare]);
        self.phase = Phase::Preparing;
    }

    fn on_data(&mut self, event: DataEvent, host: &dyn Fn(u64) -> Option<HostSample>) {
        let (index, tick) = match event {
            DataEvent::Tick(_, index, tick) => (index, tick),
            DataEvent::Done(stream, report) => {
                self.reports.insert(stream, *report);
                return;
            }
            DataEvent::Begun | DataEvent::Warm(..) | DataEvent::PeerEnd(..) => return,
        };
        let mut side = LiveSide { host: host(index), ..LiveSide::default() };
        let mut rr = None;
        match tick {
            Tick::Send(row) => side.send = Some(row),
            Tick::Recv(row) => side.recv = Some(row),
            Tick::Rr(row) => {
                let span_ns = self.terms.plan.interval.0;
                rr = Some(assemble::rr_row(&row, span_ns, side.host.as_ref(), 1));
            }
        }
        self.shown = index.saturating_add(1);
        let row = assemble::live_interval(&self.terms.plan, index, &side, &LiveSide::default(), rr);
        self.actions.push_back(Action::Show(Box::new(row)));
    }
}
