//! Requests and responses as steps, one at a time on each stream. A datagram begins with the number of its
//! request.

use std::collections::VecDeque;

use linerate_dialect::stream::{DataEvent, Report, StreamId, Tick};
use linerate_model::plan::{RrPlan, TestPlan, Transport};
use linerate_model::sample::{RrInterval, RrReport};
use linerate_session::sender::Quota;
use linerate_stats::online::Latency;
use linerate_wire::native::message::RespondReport;

use super::data::{Shared, Step, done};

/// The last answer has so long after the end, in nanoseconds.
const LAST_ANSWER_NS: u64 = 2_000_000_000;

/// A request over UDP that has no answer for so long was lost, in nanoseconds.
const UNANSWERED_NS: u64 = 1_000_000_000;
/// Bytes of its number.
const NUMBER_BYTES: usize = 8;

fn datagram(number: u64, bytes: u32) -> Vec<u8> {
    let mut datagram = number.to_be_bytes().to_vec();
    datagram.resize(NUMBER_BYTES.max(bytes as usize), 0);
    datagram
}

fn number(datagram: &[u8]) -> Option<u64> {
    datagram.first_chunk().map(|number| u64::from_be_bytes(*number))
}

pub(super) struct Asking {
    plan: TestPlan,
    rr: RrPlan,
    wanted: Option<u64>,
    /// When the request under way was sent.
    asked_ns: Option<u64>,
    asked: u64,
    /// Of the latest request, the first of which is 1.
    number: u64,
    unanswered: u64,
    partial: u64,
    latency: Latency,
    of_row: Latency,
    rows: Vec<RrInterval>,
    reported: usize,
    closed: bool,
    /// The other end is.
    pub(super) broken: bool,
}

impl Asking {
    pub(super) fn new(plan: &TestPlan, rr: &RrPlan, id: StreamId) -> Self {
        Self {
            plan: plan.clone(),
            rr: rr.clone(),
            wanted: Quota::transactions(plan, id.index),
            asked_ns: None,
            asked: 0,
            number: 0,
            unanswered: 0,
            partial: 0,
            latency: Latency::default(),
            of_row: Latency::default(),
            rows: Vec::new(),
            reported: 0,
            closed: false,
            broken: false,
        }
    }

    pub(super) fn hear(&mut self, bytes: u64, now_ns: u64, shared: &mut Shared) -> bool {
        shared.take(bytes, false, now_ns);
        self.partial += bytes;
        if self.partial < u64::from(self.rr.response) {
            return true;
        }
        self.partial = 0;
        self.answered(now_ns, shared);
        true
    }

    /// An answer, which may be of an earlier request or a copy.
    pub(super) fn hear_datagram(&mut self, bytes: &[u8], now_ns: u64, shared: &mut Shared) -> bool {
        shared.take(bytes.len() as u64, false, now_ns);
        if number(bytes) == Some(self.number) {
            self.answered(now_ns, shared);
        }
        true
    }

    fn answered(&mut self, now_ns: u64, shared: &Shared) {
        let measured_ns = shared.begin_ns.unwrap_or(0).saturating_add(self.plan.warmup.0);
        if let Some(asked_ns) = self.asked_ns.take().filter(|at| *at >= measured_ns) {
            self.latency.record(now_ns - asked_ns);
            self.of_row.record(now_ns - asked_ns);
        }
    }

    pub(super) fn step(&mut self, now_ns: u64, stream: u16, shared: &mut Shared) -> Step {
        let stopped = shared.stopped_ns.is_some();
        let Some(begin_ns) = shared.begin_ns else {
            return match stopped {
                true => done(stream, Report::Rr(RrReport::default())),
                false => Step::Wait(None),
            };
        };
        let measured_ns = begin_ns.saturating_add(self.plan.warmup.0);
        let elapsed = now_ns.saturating_sub(measured_ns);
        let until_ns = self.plan.duration().map(|time| time.0);
        let row_ns = (self.rows.len() as u64 + 1).saturating_mul(self.plan.interval.0);
        let last = until_ns.is_some_and(|_| self.rows.len() as u64 + 1 >= self.plan.intervals());
        if elapsed >= row_ns && !last {
            self.roll();
        }
        if let Some(row) = self.rows.get(self.reported) {
            self.reported += 1;
            let index = self.reported as u64 - 1;
            return Step::Event(DataEvent::Tick(stream, index, Tick::Rr(*row)));
        }
        let is_udp = self.rr.transport == Transport::Udp;
        let lost_ns = self.asked_ns.filter(|_| is_udp).map(|at| at.saturating_add(UNANSWERED_NS));
        if lost_ns.is_some_and(|at| now_ns >= at) {
            let asked_ns = self.asked_ns.take();
            self.unanswered += u64::from(asked_ns.is_some_and(|at| at >= measured_ns));
            return self.step(now_ns, stream, shared);
        }
        let over = until_ns.is_some_and(|until| elapsed >= until)
            || self.wanted.is_some_and(|wanted| self.asked >= wanted);
        let late = over && elapsed >= until_ns.unwrap_or(0).saturating_add(LAST_ANSWER_NS);
        if stopped || self.broken || (over && self.asked_ns.is_none()) || late {
            return self.end(stream, elapsed);
        }
        if now_ns < begin_ns {
            return Step::Wait(Some(begin_ns));
        }
        if self.asked_ns.is_none() {
            self.asked_ns = Some(now_ns);
            self.asked += u64::from(now_ns >= measured_ns);
            self.number += 1;
            let request = u64::from(self.rr.request);
            shared.moved = shared.moved.saturating_add(request);
            return match is_udp {
                true => Step::Send(datagram(self.number, self.rr.request), true),
                false => Step::Write(request),
            };
        }
        let end_ns = until_ns.map(|until| if over { until + LAST_ANSWER_NS } else { until });
        let row_ns = Some(row_ns).filter(|_| !last);
        let next = [row_ns, end_ns].into_iter().flatten().min();
        let next = next.map(|at| measured_ns.saturating_add(at));
        Step::Wait(next.into_iter().chain(lost_ns).min())
    }

    fn roll(&mut self) {
        let latency = self.of_row.quantiles().unwrap_or_default();
        self.rows.push(RrInterval {
            transactions: self.of_row.count(),
            latency,
            ..RrInterval::default()
        });
        self.of_row.clear();
    }

    fn end(&mut self, stream: u16, elapsed: u64) -> Step {
        if !std::mem::replace(&mut self.closed, true) {
            self.roll();
            if self.rr.transport == Transport::Tcp {
                return Step::Close;
            }
        }
        done(
            stream,
            Report::Rr(RrReport {
                transactions: self.latency.count(),
                unanswered: self.unanswered,
                unfinished: u64::from(self.asked_ns.is_some()),
                span_ns: elapsed,
                intervals: std::mem::take(&mut self.rows),
                latency: self.latency.quantiles().unwrap_or_default(),
                error: self.broken.then(|| "request/response failed: it was closed".into()),
                ..RrReport::default()
            }),
        )
    }
}

pub(super) struct Answering {
    rr: RrPlan,
    /// Numbers of requests over UDP that have no answer yet.
    numbers: VecDeque<u64>,
    partial: u64,
    due: u64,
    answered: u64,
    /// Nothing more comes.
    pub(super) closed: bool,
}

impl Answering {
    pub(super) fn new(rr: &RrPlan) -> Self {
        Self {
            rr: rr.clone(),
            numbers: VecDeque::new(),
            partial: 0,
            due: 0,
            answered: 0,
            closed: false,
        }
    }

    pub(super) fn hear(&mut self, bytes: u64, now_ns: u64, shared: &mut Shared) -> bool {
        shared.take(bytes, false, now_ns);
        self.partial += bytes;
        self.due += self.partial / u64::from(self.rr.request.max(1));
        self.partial %= u64::from(self.rr.request.max(1));
        true
    }

    pub(super) fn hear_datagram(&mut self, bytes: &[u8], now_ns: u64, shared: &mut Shared) -> bool {
        shared.take(bytes.len() as u64, false, now_ns);
        self.numbers.extend(number(bytes));
        true
    }

    pub(super) fn step(&mut self, stream: u16, shared: &mut Shared) -> Step {
        if let Some(number) = self.numbers.pop_front() {
            self.answered += 1;
            return Step::Send(datagram(number, self.rr.response), true);
        }
        let due = std::mem::take(&mut self.due);
        if due > 0 {
            self.answered += due;
            return Step::Write(due * u64::from(self.rr.response));
        }
        if self.closed || shared.stopped_ns.is_some() {
            let answered = self.answered;
            return done(stream, Report::Respond(RespondReport { answered, ..Default::default() }));
        }
        Step::Wait(None)
    }
}
