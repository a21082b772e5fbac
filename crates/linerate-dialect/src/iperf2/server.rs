//! A stream at a server of iperf 2's. Each is a test of its own: nothing says which belong together. Data may go both ways
//! on one over TCP.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use linerate_model::plan::{AgreedPlan, Transport};
use linerate_model::sample::RecvReport;
use linerate_model::served::Outcome;
use linerate_model::test_event::{FarStream, Rows, StreamEnd, TestEvent};
use linerate_wire::iperf2::{self, REPORT_BYTES};

use crate::ending::Early;
use crate::idle::Idle;
use crate::iperf2::client;
use crate::rate_meter::RateMeter;
use crate::rows::RowBook;
use crate::stream::{self, DataEvent, Report, StreamId};
use crate::{Action, Conversation, Input, Over, Seen, TOO_LONG};

/// Whether somebody is there is looked after so often, in nanoseconds.
const LOOK_EVERY_NS: u64 = 100_000_000;
/// Datagrams that the last one overtook have so long, in nanoseconds. The client repeats it meanwhile, for 2 s.
const STRAGGLERS_NS: u64 = 50_000_000;
/// A client that is silent for so long after a report has it, in nanoseconds, …
const QUIET_NS: u64 = 250_000_000;
/// … or does not get any of so many.
const MOST_REPORTS: u64 = 10;
/// A client repeats its end for 2 s; whoever sends on after this, in nanoseconds, does not hold the stream's place.
const ANSWERING_NS: u64 = 3_000_000_000;
/// A stream that was granted is there by then, and a thread that was stopped has ended, in nanoseconds.
const SOON_NS: u64 = 4_000_000_000;

/// What one stream is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Of one stream; a time is how long this end sends, or hears a client at most.
    pub agreed: Arc<AgreedPlan>,
    /// The owner's longest test, in nanoseconds.
    pub longest_ns: u64,
    /// The owner's largest rate of what arrives, in bit/s.
    pub most_bps: Option<u64>,
    /// Its report has words for delays.
    pub extended: bool,
    /// A client of which nothing comes, or to which nothing goes, for so long is gone, in nanoseconds.
    pub silence_ns: u64,
}

enum Phase {
    /// The stream's socket, and then what its thread needs.
    Opening {
        deadline_ns: u64,
    },
    Running(Box<Running>),
    /// The client has the report, or asks again for it.
    Answering {
        until_ns: u64,
        over_ns: u64,
        reports: u64,
    },
    /// The thread was stopped.
    Stopping {
        deadline_ns: u64,
        early: Early,
    },
    Done(Result<(), Early>),
}

struct Running {
    began_ns: u64,
    look_ns: u64,
    meter: Option<RateMeter>,
    idle: Idle,
}

/// The server's end of one stream.
pub struct Server {
    terms: Terms,
    /// One; of a client that sends and receives at once over one connection, one of each.
    ids: Vec<StreamId>,
    /// How many of them are there.
    arrived: usize,
    actions: VecDeque<Action>,
    phase: Phase,
    /// Of the threads that have ended, in the order of `ids`.
    reports: Vec<Option<Report>>,
    rows: RowBook,
    /// How many datagrams the client sent, and when it said so.
    ended: Option<(u64, u64)>,
    /// Bytes that came after the thread had ended.
    repeated: u64,
}

impl Conversation for Server {
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>) {
        match input {
            Input::Arrived(_) => self.on_arrival(),
            Input::Prepared(_) => self.begin(now_ns),
            Input::Data(DataEvent::PeerEnd(stream, sent), _) if self.ended.is_none() => {
                self.ended = Some((sent, now_ns));
                let until_ns = now_ns.saturating_add(STRAGGLERS_NS);
                self.actions.push_back(Action::PeerSent(stream, sent));
                self.actions.push_back(Action::DrainUntil(until_ns));
            }
            Input::Data(DataEvent::Done(stream, report), _) => {
                self.on_done(now_ns, seen, (stream, *report));
            }
            Input::Data(DataEvent::Tick(stream, index, tick), _) => {
                let rows = self.rows.add(false, stream, index, tick);
                self.show(rows);
            }
            Input::Datagram(_, datagram) => {
                self.repeated = self.repeated.saturating_add(datagram.len() as u64);
                self.answer(now_ns, seen);
            }
            Input::NoMoreData if self.waits() => {
                self.end(Err(Early::failed("a data thread ended without a word")));
            }
            Input::Failed(why) => self.end(Err(Early::failed(why))),
            Input::Shutdown(why) => self.stop(now_ns, Early::new(Outcome::Cut, why)),
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
        match &self.phase {
            Phase::Opening { deadline_ns } | Phase::Stopping { deadline_ns, .. } => {
                Some(*deadline_ns)
            }
            Phase::Running(running) => Some(running.look_ns),
            Phase::Answering { until_ns, .. } => Some(*until_ns),
            Phase::Done(_) => None,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Server {
    /// A stream that was asked for at `now_ns`, or both ways of one.
    pub fn new(terms: Terms, now_ns: u64) -> Self {
        let plan = &terms.agreed.plan;
        let interval_ns = plan.interval.0;
        let ids = stream::streams(plan.direction, 1);
        Self {
            reports: ids.iter().map(|_| None).collect(),
            rows: RowBook::new(interval_ns, 0, ids.len()),
            terms,
            ids,
            arrived: 0,
            actions: VecDeque::new(),
            phase: Phase::Opening { deadline_ns: now_ns.saturating_add(SOON_NS) },
            ended: None,
            repeated: 0,
        }
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<Result<(), Early>> {
        match &self.phase {
            Phase::Done(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    /// What its threads measured.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.iter().flatten()
    }

    /// What its users see of each stream that has ended; of one whose end the client said, what it is told.
    pub fn ends(&self) -> impl Iterator<Item = StreamEnd> {
        self.reports().filter_map(|report| {
            let told = match (report, self.ended) {
                (Report::Recv(report), Some(ended)) => Some(FarStream {
                    trips: report.trips,
                    ..client::as_seen(&in_its_words(report, ended))
                }),
                _ => None,
            };
            Some(StreamEnd { here: stream::side(report)?, far: None, told })
        })
    }

    fn sends(&self) -> bool {
        self.terms.agreed.plan.direction.has_reverse()
    }

    /// A thread has not ended.
    fn waits(&self) -> bool {
        self.reports.iter().any(Option::is_none)
    }

    /// Why it broke off. Of both ways over one connection the receiver's word counts, whichever thread ends first: a client
    /// whose own data has ended in order may close the connection, whatever is still on its way to it.
    fn fault(&self) -> Option<String> {
        let counts = |report: &&Report| self.ids.len() == 1 || matches!(report, Report::Recv(_));
        self.reports().find(counts).and_then(error)
    }

    fn end(&mut self, ended: Result<(), Early>) {
        if !self.is_over() {
            self.actions.push_back(Action::Stop);
            self.phase = Phase::Done(ended);
        }
    }

    /// It ends before its time, with what was measured.
    fn stop(&mut self, now_ns: u64, early: Early) {
        match self.phase {
            Phase::Running(_) => {
                self.actions.extend([Action::Stop, Action::DrainUntil(0)]);
                let deadline_ns = now_ns.saturating_add(SOON_NS);
                self.phase = Phase::Stopping { deadline_ns, early };
            }
            Phase::Opening { .. } => self.end(Err(early)),
            // All is measured, and the client may have it.
            Phase::Answering { .. } => self.end(Ok(())),
            Phase::Stopping { .. } | Phase::Done(_) => {}
        }
    }

    fn on_arrival(&mut self) {
        self.arrived = self.arrived.saturating_add(1);
        if let Phase::Opening { .. } = self.phase
            && self.arrived == self.ids.len()
        {
            let traffic = &self.terms.agreed.plan.traffic;
            let role = |id: &StreamId| stream::role(traffic, id.way, false);
            let spawns = self.ids.iter().map(|id| Action::Spawn(*id, role(id)));
            self.actions.push_back(Action::Announce);
            self.actions.extend(spawns);
            self.actions.push_back(Action::Prepare);
        }
    }

    fn begin(&mut self, now_ns: u64) {
        if let Phase::Opening { .. } = self.phase {
            self.actions.push_back(Action::Begin(now_ns));
            self.phase = Phase::Running(Box::new(Running {
                began_ns: now_ns,
                look_ns: now_ns,
                meter: self.terms.most_bps.map(|rate| RateMeter::new(rate, now_ns)),
                idle: Idle::new(0, now_ns),
            }));
        }
    }

    fn show(&mut self, rows: impl IntoIterator<Item = Rows>) {
        let events = rows.into_iter().map(|rows| Box::new(TestEvent::Rows(rows)));
        self.actions.extend(events.map(Action::Event));
    }

    fn on_done(&mut self, now_ns: u64, seen: &Seen, (stream, report): (u16, Report)) {
        if let Some(place) = self.reports.get_mut(usize::from(stream)) {
            *place = Some(report);
        }
        let error = self.fault();
        if self.waits() {
            if let (Phase::Running(_), Some(why)) = (&self.phase, error) {
                self.stop(now_ns, Early::failed(why));
            }
            return;
        }
        let reports: Vec<&Report> = self.reports.iter().flatten().collect();
        let span_ns = reports.iter().map(|report| stream::span_ns(report)).max().unwrap_or(0);
        let rows = self.rows.rest(&reports, span_ns);
        self.show(rows);
        match (&self.phase, error) {
            (Phase::Stopping { early, .. }, _) => {
                let early = early.clone();
                self.end(Err(early));
            }
            (Phase::Running(_), _) if seen.over.is_some() => {
                self.end(Err(Early::new(Outcome::Cut, seen.over.map_or("", Over::words))));
            }
            (_, Some(why)) => self.end(Err(Early::failed(why))),
            (Phase::Running(_), None) if self.ended.is_some() => {
                let over_ns = now_ns.saturating_add(ANSWERING_NS);
                self.phase = Phase::Answering { until_ns: now_ns, over_ns, reports: 0 };
                self.answer(now_ns, seen);
            }
            _ => self.end(Ok(())),
        }
    }

    /// Says what was received, and never more than came from that address: nobody has proven that it asked.
    fn answer(&mut self, now_ns: u64, seen: &Seen) {
        let Phase::Answering { until_ns, over_ns, reports } = &mut self.phase else { return };
        if *reports >= MOST_REPORTS {
            // What still comes changes nothing, the end neither.
            return;
        }
        *until_ns = now_ns.saturating_add(QUIET_NS).min(*over_ns);
        let came = seen.arrived.saturating_add(self.repeated);
        let most = MOST_REPORTS.min(came / REPORT_BYTES as u64);
        if let (Some(Some(Report::Recv(report))), Some(id), Some(ended)) =
            (self.reports.first(), self.ids.first(), self.ended)
            && *reports < most
        {
            *reports += 1;
            let extended = self.terms.extended;
            let report = in_its_words(report, ended);
            let extended = extended || report.delays.is_some();
            let report = iperf2::Report { extended, ..report }.encode();
            self.actions.push_back(Action::SendDatagram(id.stream, report.to_vec()));
        }
    }

    /// What follows from the time.
    fn settle(&mut self, now_ns: u64, seen: &Seen) {
        match &self.phase {
            Phase::Opening { deadline_ns } if now_ns >= *deadline_ns => {
                self.end(Err(Early::vanished("its stream did not come")));
            }
            Phase::Stopping { deadline_ns, early } if now_ns >= *deadline_ns => {
                let early = early.clone();
                self.end(Err(early));
            }
            // Only what is due: datagrams that were repeated moved it.
            Phase::Answering { until_ns, .. } if now_ns >= *until_ns => self.end(Ok(())),
            Phase::Running(running) if now_ns >= running.look_ns => self.look(now_ns, seen),
            _ => {}
        }
    }

    fn look(&mut self, now_ns: u64, seen: &Seen) {
        let sends = self.sends();
        let Phase::Running(running) = &mut self.phase else { return };
        running.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        let lasted_ns = now_ns.saturating_sub(running.began_ns);
        let idle_ns = running.idle.lasts(seen.moved, now_ns).min(seen.ran_ns);
        let silence_ns =
            if sends { idle_ns } else { seen.data_silence_ns.min(lasted_ns).min(seen.ran_ns) };
        let keeps = running.meter.as_mut().is_none_or(|meter| meter.keeps(seen.arrived, now_ns));
        let cut = |why: &str| Early::new(Outcome::Cut, why);
        let early = if let Some(over) = seen.over {
            cut(over.words())
        } else if lasted_ns > self.terms.longest_ns.saturating_add(SOON_NS) {
            cut(TOO_LONG)
        } else if !keeps {
            cut("the client sends faster than this server allows")
        } else if silence_ns > self.terms.silence_ns {
            let silence = Duration::from_nanos(self.terms.silence_ns);
            Early::vanished(format!("no data moved for {silence:?}"))
        } else {
            return;
        };
        self.stop(now_ns, early);
    }

    /// Whether the client learns what was received.
    pub fn answers(&self) -> bool {
        let plan = &self.terms.agreed.plan;
        plan.traffic.transport() == Transport::Udp && !self.sends()
    }
}

fn error(report: &Report) -> Option<String> {
    match report {
        Report::Send(report) => report.error.clone(),
        Report::Recv(report) => report.error.clone(),
        Report::Rr(_) | Report::Respond(_) => None,
    }
}

/// As iperf 2 counts: the datagram that ends a stream is one more of them.
fn in_its_words(report: &RecvReport, (sent, at_ns): (u64, u64)) -> iperf2::Report {
    let counts = &report.counts;
    let size = counts.bytes.checked_div(counts.datagrams).unwrap_or(0);
    // Microseconds travel: both ends' users see the same.
    let micros = |ns: u64| ns - ns % 1_000;
    let span_ns = report.first_ns.map_or(0, |first| at_ns.saturating_sub(first));
    iperf2::Report {
        bytes: counts.bytes.saturating_add(size),
        span_ns: micros(span_ns),
        lost: counts.lost,
        out_of_order: counts.reordered.saturating_add(counts.duplicates),
        datagrams: sent.max(counts.expected).saturating_add(1),
        jitter_ns: micros(report.jitter_ns.unwrap_or(0)),
        extended: false,
        // Clocks that are so far apart that data came before it was sent are no clocks that agree.
        delays: report.trips.filter(|trips| trips.least_ns >= 0).map(|trips| iperf2::Delays {
            count: u32::try_from(trips.count).unwrap_or(u32::MAX),
            mean_ns: trips.mean_ns.unsigned_abs(),
            least_ns: trips.least_ns.unsigned_abs(),
            most_ns: trips.most_ns.unsigned_abs(),
            deviation_ns: trips.deviation_ns,
        }),
    }
}
