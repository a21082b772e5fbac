//! A receiver of bytes over TCP.

use linerate_model::plan::TestPlan;
use linerate_model::sample::{RecvReport, ReportedTcp};

use super::{Alone, Row, Rows, warm_intervals};
use crate::Surroundings;
use crate::habits::Habits;
use crate::receiver::ByteReceiver;

/// What arrives on a stream of bytes. Where only time distinguishes the warm-up, that has an account of its own, and
/// begins for all streams with the test and not with a stream's first byte.
#[derive(Debug)]
pub struct BytesIn {
    habits: Habits,
    warmup_ns: u64,
    account: ByteReceiver,
    rows: Rows,
    /// While it lasts.
    warm: Option<ByteReceiver>,
    /// Of the warm-up that is over.
    warmed: RecvReport,
}

impl BytesIn {
    /// Before the first byte; this makes room for all intervals.
    pub fn new(plan: &TestPlan, habits: Habits, intervals: Option<u64>) -> Self {
        let (warmup_ns, interval_ns) = (plan.warmup.0, plan.interval.0);
        let from_first_byte = if habits.warm_by_time { 0 } else { warmup_ns };
        let warm = (habits.warm_by_time && warmup_ns > 0).then(|| {
            ByteReceiver::new(interval_ns, Some(warm_intervals(warmup_ns, interval_ns)), 0)
        });
        Self {
            habits,
            warmup_ns,
            account: ByteReceiver::new(interval_ns, intervals, from_first_byte),
            rows: Rows::default(),
            warm,
            warmed: RecvReport::default(),
        }
    }

    /// Whether anything begins with the test, and not with a byte of this stream, and has not begun.
    #[inline]
    pub fn begins_with_test(&self) -> bool {
        self.warm.is_some() || (self.habits.measured_from_start && !self.account.has_begun())
    }

    /// It is `now_ns` of a test that began at `started_ns`.
    pub fn begin(&mut self, started_ns: u64, now_ns: u64, around: &dyn Surroundings) {
        let measured_ns = started_ns.saturating_add(self.warmup_ns);
        if let Some(warm) = self.warm.as_mut().filter(|_| now_ns < measured_ns) {
            return warm.begin_at(started_ns, &Alone(around));
        }
        if self.begins_with_test() {
            self.end_warmup(around);
            self.account.begin_at(measured_ns, around);
        }
    }

    /// Closes the account of the warm-up, whose last row can be had then.
    pub fn end_warmup(&mut self, around: &dyn Surroundings) {
        if let Some(warm) = self.warm.take() {
            self.warmed = warm.finish(&Alone(around));
        }
    }

    /// `bytes` were read at `now_ns`; whether they belong to a warm-up that only time distinguishes.
    #[inline]
    pub fn on_bytes(&mut self, bytes: u64, now_ns: u64, around: &dyn Surroundings) -> bool {
        match &mut self.warm {
            Some(warm) => warm.on_bytes(bytes, now_ns, &Alone(around)),
            None => self.account.on_bytes(bytes, now_ns, around),
        }
        self.warm.is_some()
    }

    /// What was read last says how the sender's connection fares.
    #[inline]
    pub fn on_block_report(&mut self, reported: ReportedTcp) {
        self.account.on_block_report(reported);
    }

    /// A block has come to its end: see [`ByteReceiver::on_block`].
    #[inline]
    pub fn on_block(&mut self, bytes: u64, written_ns: u64, at_ns: u64) {
        self.account.on_block(bytes, written_ns, at_ns);
    }

    /// Nothing waits at `now_ns`.
    pub fn on_idle(&mut self, now_ns: u64, around: &dyn Surroundings) {
        match &mut self.warm {
            Some(warm) => warm.on_idle(now_ns, &Alone(around)),
            None => self.account.on_idle(now_ns, around),
        }
    }

    /// The next interval that is over, once.
    #[inline]
    pub fn row(&mut self) -> Option<Row> {
        let warm = self.warm.as_ref().map_or(&self.warmed.intervals[..], ByteReceiver::intervals);
        self.rows.next(warm, self.account.intervals())
    }

    /// Whether all has come that its sender says it sent, on a connection that outlives its data.
    #[inline]
    pub fn is_complete(&self, reported: Option<u64>) -> bool {
        self.habits.streams_outlive && reported.is_some_and(|sent| self.account.bytes() >= sent)
    }

    /// The end of the stream, and of a warm-up that it ends in.
    pub fn finish(mut self, around: &dyn Surroundings) -> RecvReport {
        self.end_warmup(around);
        let report = self.account.finish(around);
        let warmup = report.warmup.saturating_add(self.warmed.counts.bytes);
        RecvReport { warmup, ..report }
    }
}
