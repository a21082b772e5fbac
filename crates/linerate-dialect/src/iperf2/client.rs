//! A test at a client of iperf 2's: streams that begin without a word, and of UDP the server's totals.

use std::collections::{BTreeMap, VecDeque};

use linerate_model::plan::{TestPlan, Traffic, Transport, Way};
use linerate_model::sample::{HostSample, RecvReport, SendReport, Trips};
use linerate_model::test_event::{FarStream, StreamEnd, TestEvent};
use linerate_session::assemble::{self, LiveSide, StreamOutcome};
use linerate_wire::iperf2;

use crate::ending::{Failure, Trouble};
use crate::iperf2::client::Phase::{Collecting, Done, Opening, Preparing, Running};
use crate::lookout::Lookout;
use crate::rows::RowBook;
use crate::stream::{self, DataEvent, Report, Role, StreamId, Tick};
use crate::ticks::Ticks;
use crate::{Action, Conversation, Input, Seen};

/// Every thread has seen after so long that it may begin, in nanoseconds.
const HEAD_START_NS: u64 = 2_000_000;
/// The last datagram is repeated this often, …
const REPEAT_NS: u64 = 10_000_000;
/// … and so many times, as iperf 2's clients do: servers answer for 250 ms after the last.
const REPEATS: u32 = 200;
/// Who does not want to wait for the server's totals repeats it so many times.
const HURRIED_REPEATS: u32 = 30;
/// Datagrams that a server's last one overtook have so long, in nanoseconds.
const STRAGGLERS_NS: u64 = 250_000_000;
/// Where some streams of a server have said their end, and nothing comes for so long, those of the others were lost, in
/// nanoseconds.
const ENDED_NS: u64 = 2_000_000_000;
/// Threads that were stopped have ended by then, in nanoseconds.
const THREADS_NS: u64 = 4_000_000_000;
/// A test without an end by time ends after this long in any case, in nanoseconds.
const LONGEST_NS: u64 = 86_400_000_000_000;

const OPENING: &str = "opening the data streams";
const RUNNING: &str = "running the test";
const NOTHING_SENT: &str =
    "no datagram left this host in the time of the test, so that the server has nothing to report";

/// What one test is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// As iperf 2's dialect can run it.
    pub plan: TestPlan,
    /// The datagram that ends a stream, but for its number.
    pub last: Vec<u8>,
    /// The wall clock less the monotonic one, in nanoseconds.
    pub ahead_ns: u64,
    /// A receiving client that hears nothing for this long gives up, in nanoseconds.
    pub silence_ns: u64,
    /// Clocks of both ends agree, says the user (`--trip-times`).
    pub trips: bool,
}

/// Where the conversation is. Times are nanoseconds.
enum Phase {
    Opening,
    Preparing,
    Running {
        began_ns: u64,
        deadline_ns: u64,
        stopping: bool,
        lookout: Lookout,
    },
    /// The host's counters are read a last time.
    Collecting,
    Done(Result<(), Trouble>),
}

/// A stream whose end is said until the server answers.
struct Farewell {
    datagram: Vec<u8>,
    said: u32,
    again_ns: u64,
}

/// The client's end of one test.
pub struct Client {
    terms: Terms,
    /// No server has sent before this, in nanoseconds.
    asked_ns: u64,
    ids: Vec<StreamId>,
    missing: usize,
    actions: VecDeque<Action>,
    phase: Phase,
    reports: BTreeMap<u16, Report>,
    farewells: BTreeMap<u16, Farewell>,
    /// What the server received.
    far: BTreeMap<u16, iperf2::Report>,
    ticks: Ticks,
    rows: RowBook,
    shown: u64,
    repeats: u32,
    /// Datagrams, as servers that send say at their end.
    peer_sent: u64,
    /// So many streams of a server's have said so.
    peer_ends: usize,
    interrupted: bool,
    trouble: Option<Trouble>,
}

/// What is known of a test that ran.
#[derive(Debug)]
pub struct Ended {
    /// Both ends' reports, in the order of the streams; of the server's, what it reports.
    pub streams: Vec<StreamOutcome>,
    /// The same as its users see it, in iperf 2's terms: the datagram that ends a stream is one of its.
    pub ends: Vec<StreamEnd>,
    /// Measured time of this end in nanoseconds.
    pub span_ns: u64,
    /// This end was stopped.
    pub interrupted: bool,
    /// Why figures are missing.
    pub trouble: Option<Trouble>,
    /// All that the server reports has arrived.
    pub results: bool,
    /// So many rows were shown.
    pub shown: u64,
}

impl Conversation for Client {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Arrived(_) => self.on_opened(now_ns),
            Input::Prepared(_) => self.begin(now_ns),
            Input::Data(event, host) => self.on_data(now_ns, event, host),
            Input::Datagram(stream, datagram) => {
                if let (Some(report), Some(_)) =
                    (iperf2::Report::decode(datagram), self.farewells.get(&stream))
                {
                    let delays = report.delays.filter(|_| self.terms.trips);
                    self.far.insert(stream, iperf2::Report { delays, ..report });
                    self.farewells.remove(&stream);
                }
            }
            Input::NoMoreData if self.reports.len() < self.ids.len() => {
                self.fail(Failure::Here("a data thread ended without a word".into()));
            }
            Input::Failed(why) => self.fail(Failure::Here(why)),
            Input::Host(..) => self.end(Ok(())),
            Input::Shutdown(_) => self.interrupt(now_ns),
            _ => {}
        }
        self.settle(now_ns, seen);
    }

    fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn outgoing(&self) -> &[u8] {
        &[]
    }

    fn reads(&self) -> bool {
        false
    }

    fn deadline_ns(&self) -> Option<u64> {
        let Running { deadline_ns, lookout, .. } = &self.phase else { return None };
        let again = self.farewells.values().map(|farewell| farewell.again_ns);
        again.chain([lookout.deadline_ns(), *deadline_ns]).min()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Done(_))
    }
}

impl Client {
    /// A test that opens its streams at once, at `now_ns`.
    pub fn new(terms: Terms, now_ns: u64) -> Self {
        let ids = stream::streams(terms.plan.direction, terms.plan.streams);
        Self {
            asked_ns: now_ns,
            missing: ids.len(),
            actions: ids.iter().map(|id| Action::Open(*id, None)).collect(),
            phase: Opening,
            reports: BTreeMap::new(),
            farewells: BTreeMap::new(),
            far: BTreeMap::new(),
            ticks: Ticks::new(ids.len()),
            rows: RowBook::new(terms.plan.interval.0, 0, ids.len()),
            shown: 0,
            repeats: REPEATS,
            peer_sent: 0,
            peer_ends: 0,
            interrupted: false,
            trouble: None,
            ids,
            terms,
        }
    }

    /// How it ended, once it has: with figures, or without any.
    pub fn outcome(&self) -> Option<Result<(), Trouble>> {
        match &self.phase {
            Done(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    fn is_udp(&self) -> bool {
        self.terms.plan.traffic.transport() == Transport::Udp
    }

    fn role(&self, id: &StreamId) -> Role {
        stream::role(&self.terms.plan.traffic, id.way, true)
    }

    fn end(&mut self, ended: Result<(), Trouble>) {
        if !self.is_over() {
            self.actions.push_back(Action::Stop);
            self.phase = Done(ended);
        }
    }

    /// It goes no further: before the start there is nothing to report, after it there is.
    fn fail(&mut self, failure: Failure) {
        match self.phase {
            Running { .. } => {
                self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
                self.actions.extend([Action::Stop, Action::DrainUntil(0)]);
                self.collect();
            }
            Collecting => {}
            _ => self.end(Err(Trouble { doing: OPENING, failure })),
        }
    }

    fn collect(&mut self) {
        self.phase = Collecting;
        let reports: Vec<_> =
            self.ids.iter().filter_map(|id| self.reports.get(&id.stream)).collect();
        if reports.len() == self.ids.len() {
            let rows = self.rows.rest(&reports, longest_ns(&reports));
            let events = rows.into_iter().map(|rows| Box::new(TestEvent::Rows(rows)));
            self.actions.extend(events.map(Action::Event));
        }
        self.actions.extend([Action::HostOver, Action::FinishHost]);
    }

    fn on_opened(&mut self, now_ns: u64) {
        self.missing = self.missing.saturating_sub(1);
        if self.missing > 0 || !matches!(self.phase, Opening) {
            return;
        }
        self.phase = Preparing;
        let spawn: Vec<_> = self.ids.iter().map(|id| Action::Spawn(*id, self.role(id))).collect();
        self.actions.extend(spawn);
        let begin = Action::Begin(now_ns.saturating_add(HEAD_START_NS));
        self.actions.extend([Action::Announce, begin, Action::Prepare]);
    }

    fn begin(&mut self, now_ns: u64) {
        if let Preparing = self.phase {
            let planned_ns = self.terms.plan.duration().map_or(LONGEST_NS, |time| time.0);
            let most_ns = planned_ns.saturating_add(self.terms.silence_ns);
            let deadline_ns = now_ns.saturating_add(most_ns);
            let lookout = Lookout::new(now_ns);
            self.phase = Running { began_ns: now_ns, deadline_ns, stopping: false, lookout };
        }
    }

    fn interrupt(&mut self, now_ns: u64) {
        match &mut self.phase {
            Running { deadline_ns, stopping, .. } => {
                if std::mem::replace(stopping, true) {
                    // Whoever asks again does not wait for the server's totals.
                    return self.fail(Failure::Interrupted);
                }
                *deadline_ns = now_ns.saturating_add(THREADS_NS);
                self.interrupted = true;
                self.repeats = HURRIED_REPEATS;
                let note = "interrupted: ending with what was measured".into();
                self.actions.extend([Action::Note(note), Action::Stop]);
                self.actions.push_back(Action::DrainUntil(now_ns));
            }
            Opening | Preparing => self.fail(Failure::Interrupted),
            Collecting | Done(_) => {}
        }
    }

    fn on_data(&mut self, now_ns: u64, event: DataEvent, host: &dyn Fn(u64) -> Option<HostSample>) {
        match event {
            DataEvent::PeerEnd(stream, sent) => {
                self.peer_sent = self.peer_sent.saturating_add(sent);
                self.peer_ends = self.peer_ends.saturating_add(1);
                self.actions.push_back(Action::PeerSent(stream, sent));
                // Time ends all streams at once. Of an amount each has its own, for which it takes its time.
                if self.peer_ends >= self.ids.len() || self.terms.plan.duration().is_some() {
                    let until_ns = now_ns.saturating_add(STRAGGLERS_NS);
                    self.actions.push_back(Action::DrainUntil(until_ns));
                }
            }
            DataEvent::Done(stream, report) => {
                if let (Report::Send(report), true, Running { .. }) =
                    (report.as_ref(), self.is_udp(), &self.phase)
                {
                    if report.counts.datagrams > 0 {
                        let farewell = self.farewell(report.counts.datagrams, now_ns);
                        self.farewells.insert(stream, farewell);
                    } else if !self.interrupted {
                        // The server knows nothing of this stream, and its silence says nothing of it.
                        let failure = Failure::Here(NOTHING_SENT.into());
                        self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
                    }
                }
                self.reports.insert(stream, *report);
            }
            DataEvent::Tick(stream, index, tick) => {
                if let Some(rows) = self.rows.add(false, stream, index, tick) {
                    self.actions.push_back(Action::Event(Box::new(TestEvent::Rows(rows))));
                }
                self.show(index, tick, host(index));
            }
            DataEvent::Begun | DataEvent::Warm(..) => {}
        }
    }

    fn farewell(&self, sent: u64, now_ns: u64) -> Farewell {
        let mut datagram = self.terms.last.clone();
        let sent_ns = now_ns.saturating_add(self.terms.ahead_ns);
        iperf2::datagram::Mark::end(sent, sent_ns).write(&mut datagram);
        Farewell { datagram, said: 0, again_ns: now_ns }
    }

    /// Shows an interval once all streams have reported it.
    fn show(&mut self, index: u64, tick: Tick, host: Option<HostSample>) {
        let mut side = LiveSide { host, ..LiveSide::default() };
        match self.ticks.add(index, tick) {
            Some(Tick::Send(send)) => side.send = Some(send),
            Some(Tick::Recv(recv)) => side.recv = Some(recv),
            _ => return,
        }
        self.shown = index + 1;
        let row =
            assemble::live_interval(&self.terms.plan, index, &side, &LiveSide::default(), None);
        self.actions.push_back(Action::Show(Box::new(row)));
    }

    /// What follows from the time, and from all that is known by now.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        let Running { began_ns, deadline_ns, ref mut lookout, .. } = self.phase else { return };
        let lost = lookout.look(now_ns, (&self.terms.plan, seen, seen.moved));
        for (stream, farewell) in &mut self.farewells {
            if now_ns >= farewell.again_ns && farewell.said < self.repeats {
                farewell.said += 1;
                farewell.again_ns = now_ns.saturating_add(REPEAT_NS);
                self.actions.push_back(Action::SendDatagram(*stream, farewell.datagram.clone()));
            }
        }
        let repeats = self.repeats;
        let before = self.farewells.len();
        self.farewells.retain(|_, farewell| now_ns < farewell.again_ns || farewell.said < repeats);
        if self.farewells.len() < before {
            let why = "its report of what it received did not come";
            let failure = Failure::Server(why.into());
            self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
        }
        let receives = self.terms.plan.direction.has_reverse();
        let silent_ns = seen.data_silence_ns.min(now_ns.saturating_sub(began_ns));
        if self.peer_ends > 0 && silent_ns.min(seen.ran_ns) > ENDED_NS {
            self.actions.push_back(Action::DrainUntil(now_ns));
        }
        if self.reports.len() == self.ids.len() && self.farewells.is_empty() {
            // A server sends from when it was asked, whatever held this end up before it began.
            let lasted_ns = now_ns.saturating_sub(self.asked_ns);
            if receives && !self.interrupted && self.is_short(lasted_ns) {
                let failure = stream::sent_little();
                self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
            }
            self.collect();
        } else if receives && silent_ns.min(seen.ran_ns) > self.terms.silence_ns {
            self.fail(Failure::Server("no data came for too long".into()));
        } else if let Some(failure) = lost {
            self.fail(failure);
        } else if now_ns >= deadline_ns {
            let failure = if receives {
                Failure::Server("the test did not end in time".into())
            } else {
                Failure::Here("its data threads did not end in time".into())
            };
            self.fail(failure);
        }
    }

    /// Whether a server that sends has ended long before its time or amount.
    fn is_short(&self, lasted_ns: u64) -> bool {
        let plan = &self.terms.plan;
        let said = match &plan.traffic {
            Traffic::Udp(udp) => Some(self.peer_sent.saturating_mul(udp.size.bytes().into())),
            Traffic::Tcp(_) | Traffic::Rr(_) => None,
        };
        stream::shortfall(plan, self.reports.values()).is_some()
            || stream::least_received(plan).zip(said).is_some_and(|(least, said)| said < least)
            || plan.duration().is_some_and(|time| lasted_ns < time.0 / 2)
    }

    /// What is known of a test that ran.
    pub fn ended(mut self) -> Ended {
        let all: Vec<_> = self.ids.iter().filter_map(|id| self.reports.get(&id.stream)).collect();
        let span_ns = longest_ns(&all);
        let mut reports = std::mem::take(&mut self.reports);
        let ends = self.ids.iter().filter_map(|id| {
            let here = stream::side(reports.get(&id.stream)?)?;
            Some(StreamEnd { here, far: self.far.get(&id.stream).map(as_seen), told: None })
        });
        let ends: Vec<_> = ends.collect();
        let streams = self.ids.iter().map(|id| {
            let reverse = id.way == Way::Reverse;
            let mut outcome =
                StreamOutcome { index: id.index, reverse, ..StreamOutcome::default() };
            match reports.remove(&id.stream) {
                Some(Report::Send(sent)) => {
                    let far = self.far.get(&id.stream);
                    outcome.recv = far.map(|far| far_receiver(&sent, far));
                    outcome.send = Some(sent);
                }
                Some(Report::Recv(received)) => outcome.recv = Some(received),
                _ => {}
            }
            outcome
        });
        let streams: Vec<_> = streams.collect();
        let reported = streams.iter().all(|stream| stream.reverse || stream.recv.is_some());
        Ended {
            results: reported || !self.is_udp(),
            streams,
            ends,
            span_ns,
            interrupted: self.interrupted,
            trouble: self.trouble,
            shown: self.shown,
        }
    }
}

/// Of the streams' times, in nanoseconds.
fn longest_ns(reports: &[&Report]) -> u64 {
    reports.iter().map(|report| stream::span_ns(report)).max().unwrap_or(0)
}

/// Servers report delays whatever their clocks are: those of who did not ask for any mean nothing.
fn trips(far: &iperf2::Report) -> Option<Trips> {
    let delays = far.delays?;
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    Some(Trips {
        count: delays.count.into(),
        bytes: far.bytes,
        mean_ns: signed(delays.mean_ns),
        least_ns: signed(delays.least_ns),
        most_ns: signed(delays.most_ns),
        deviation_ns: delays.deviation_ns,
    })
}

/// A server's totals, for users of either end.
pub(super) fn as_seen(far: &iperf2::Report) -> FarStream {
    FarStream {
        bytes: far.bytes,
        jitter_s: far.jitter_ns as f64 / 1e9,
        errors: i64::try_from(far.lost).unwrap_or(i64::MAX),
        packets: far.datagrams,
        reordered: Some(far.out_of_order),
        seconds: Some(far.span_ns as f64 / 1e9),
        trips: trips(far),
        ..FarStream::default()
    }
}

/// What a server's totals say. It counts the last datagram, too, and bytes only as far as its own buffer goes.
fn far_receiver(sent: &SendReport, far: &iperf2::Report) -> RecvReport {
    let mut report = RecvReport::default();
    let measured = sent.counts.datagrams;
    let size = sent.counts.bytes.checked_div(measured).unwrap_or(0);
    let arrived = far.datagrams.saturating_sub(far.lost).saturating_sub(1).min(measured);
    let counts = &mut report.counts;
    counts.expected = measured;
    counts.datagrams = arrived;
    counts.lost = measured - arrived;
    counts.dropped_max = counts.lost;
    counts.bytes = arrived.saturating_mul(size);
    report.jitter_ns = Some(far.jitter_ns);
    report.trips = trips(far);
    (report.first_ns, report.last_ns) = (Some(0), Some(far.span_ns));
    report
}
