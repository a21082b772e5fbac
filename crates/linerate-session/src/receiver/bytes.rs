//! Accounting at the receiving end of a stream of bytes.

use linerate_model::sample::{RecvCounts, RecvInterval, RecvReport, ReportedTcp, ThreadUse};

use super::trips::Trips;
use crate::Surroundings;

/// The accounting of a TCP receiver: bytes, placed in intervals by the time they were read.
#[derive(Debug)]
pub struct ByteReceiver {
    interval_ns: u64,
    intervals_planned: Option<u64>,
    warmup_ns: u64,
    origin_ns: Option<u64>,
    next_boundary_ns: u64,
    current: RecvCounts,
    intervals: Vec<RecvInterval>,
    bytes: u64,
    calls: u64,
    warmup: u64,
    last_ns: u64,
    opened_ns: Option<u64>,
    thread_at_start: ThreadUse,
    thread_before: ThreadUse,
    /// What the sender said last, and before this interval: of the whole connection.
    reported: Option<ReportedTcp>,
    reported_before: u64,
    trips: Trips,
}

impl ByteReceiver {
    /// The measured time begins at `at_ns`, whether anything arrives or not. Otherwise it begins
    /// with the first byte after the warm-up.
    pub fn begin_at(&mut self, at_ns: u64, around: &dyn Surroundings) {
        if self.origin_ns.is_some() {
            return;
        }
        let origin = around.origin(at_ns);
        self.origin_ns = Some(origin);
        self.next_boundary_ns = match self.intervals_planned {
            Some(0 | 1) => u64::MAX,
            _ => origin.saturating_add(self.interval_ns),
        };
        self.thread_at_start = around.thread();
        self.thread_before = self.thread_at_start;
    }

    /// Before the first byte. Bytes that arrive within `warmup_ns` of the first are not measured.
    pub fn new(interval_ns: u64, intervals: Option<u64>, warmup_ns: u64) -> Self {
        Self {
            interval_ns,
            intervals_planned: intervals,
            warmup_ns,
            origin_ns: None,
            next_boundary_ns: u64::MAX,
            current: RecvCounts::default(),
            intervals: Vec::with_capacity(intervals.unwrap_or(64).min(100_000) as usize),
            bytes: 0,
            calls: 0,
            warmup: 0,
            last_ns: 0,
            opened_ns: None,
            thread_at_start: ThreadUse::default(),
            thread_before: ThreadUse::default(),
            reported: None,
            reported_before: 0,
            trips: Trips::default(),
        }
    }

    /// Intervals that are over.
    pub fn intervals(&self) -> &[RecvInterval] {
        &self.intervals
    }

    /// Whether the measured time has begun.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.origin_ns.is_some()
    }

    /// Bytes of the measured time so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `bytes` were read at `now_ns`.
    #[inline]
    pub fn on_bytes(&mut self, bytes: u64, now_ns: u64, around: &dyn Surroundings) {
        let opened = *self.opened_ns.get_or_insert(now_ns);
        if self.warmup_ns > 0 && now_ns < opened.saturating_add(self.warmup_ns) {
            self.warmup += bytes;
            return;
        }
        self.begin_at(now_ns, around);
        self.on_idle(now_ns, around);
        self.bytes += bytes;
        self.calls += 1;
        self.current.bytes += bytes;
        self.current.calls += 1;
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// What was read last says how the sender's connection fares, from its beginning on.
    #[inline]
    pub fn on_block_report(&mut self, reported: ReportedTcp) {
        self.reported = Some(reported);
    }

    /// A block of so many bytes has come to its end; when it was written and when that was, by two wall clocks in
    /// nanoseconds.
    #[inline]
    pub fn on_block(&mut self, bytes: u64, written_ns: u64, at_ns: u64) {
        self.trips.record(written_ns, at_ns, bytes);
    }

    /// Closes intervals that are over.
    #[inline]
    pub fn on_idle(&mut self, now_ns: u64, around: &dyn Surroundings) {
        while now_ns >= self.next_boundary_ns {
            self.close(around.thread());
            let last = self.intervals_planned.is_some_and(|n| self.intervals.len() as u64 + 1 >= n);
            self.next_boundary_ns = if last {
                u64::MAX
            } else {
                self.next_boundary_ns.saturating_add(self.interval_ns)
            };
        }
    }

    /// The end of the stream.
    pub fn finish(mut self, around: &dyn Surroundings) -> RecvReport {
        let thread = around.thread();
        if self.origin_ns.is_some() {
            self.close(thread);
        }
        RecvReport {
            counts: RecvCounts { bytes: self.bytes, calls: self.calls, ..Default::default() },
            intervals: self.intervals,
            first_ns: self.origin_ns,
            last_ns: self.origin_ns.map(|origin| self.last_ns.max(origin)),
            warmup: self.warmup,
            trips: self.trips.total(),
            thread: thread.since(self.thread_at_start),
            ..Default::default()
        }
    }

    fn close(&mut self, thread: ThreadUse) {
        let reported = self.reported.map(|reported| {
            let before = std::mem::replace(&mut self.reported_before, reported.retransmits);
            ReportedTcp { retransmits: reported.retransmits.saturating_sub(before), ..reported }
        });
        self.intervals.push(RecvInterval {
            counts: std::mem::take(&mut self.current),
            thread: thread.since(self.thread_before),
            reported,
            trips: self.trips.row(),
            ..RecvInterval::default()
        });
        self.thread_before = thread;
    }
}
