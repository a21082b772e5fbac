//! What a requesting stream has asked, and what came of it.

use std::collections::VecDeque;

use linerate_model::local_errors::{Errno, LocalSendErrors};
use linerate_model::sample::{RrInterval, RrReport, ThreadUse};
use linerate_session::pacer::Pacer;
use linerate_stats::online::Latency;

use super::super::{Context, Tick, thread_use, thread_use_at};
use super::UNANSWERED_NS;

/// Most ages that are kept apart of requests that were due and never asked.
const MOST_AGES: u64 = 65_536;

/// A request that leaves later than this after it was due is late.
const LATE_NS: u64 = 1_000_000;

/// A request on its way.
struct Request {
    id: u64,
    /// Its latency counts from here: when it was due, or sent where nothing is due.
    from_ns: u64,
    sent_ns: u64,
}

/// Requests on their way, oldest first.
pub(super) struct Flight {
    queue: VecDeque<Request>,
    next_id: u64,
    id_mask: u64,
}

impl Flight {
    /// Requests that bear a name of `id_bytes`.
    pub(super) fn new(id_bytes: usize) -> Self {
        Self {
            queue: VecDeque::with_capacity(1_024),
            next_id: 0,
            id_mask: if id_bytes >= 8 { u64::MAX } else { (1 << (8 * id_bytes)) - 1 },
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// One that counts from `from_ns` leaves at `sent_ns`. A name still in the air was lost long ago: returns the time
    /// it counts from beside the name.
    pub(super) fn launch(&mut self, from_ns: u64, sent_ns: u64) -> (u64, Option<u64>) {
        let id = self.next_id & self.id_mask;
        let stale = if self.id_mask == u64::MAX { None } else { self.land(id) };
        self.next_id = self.next_id.wrapping_add(1);
        self.queue.push_back(Request { id, from_ns, sent_ns });
        (id, stale)
    }

    pub(super) fn land_oldest(&mut self) -> Option<u64> {
        self.queue.pop_front().map(|request| request.from_ns)
    }

    pub(super) fn land(&mut self, id: u64) -> Option<u64> {
        let index = self.queue.iter().position(|request| request.id == id)?;
        self.queue.remove(index).map(|request| request.from_ns)
    }

    /// Forgets requests that were sent longer ago than the limit, however late they left, and says how many of them
    /// were asked in the measured time.
    pub(super) fn expire(&mut self, now_ns: u64, measured_ns: u64) -> u64 {
        let is_old = |request: &mut Request| now_ns.saturating_sub(request.sent_ns) > UNANSWERED_NS;
        let old = std::iter::from_fn(|| self.queue.pop_front_if(is_old));
        old.map(|request| u64::from(request.from_ns >= measured_ns)).sum()
    }
}

/// Counts what was asked in the measured time.
pub(super) struct Tally {
    pub(super) measured_ns: u64,
    /// The end of the measured time, when the test ends by time.
    pub(super) end_ns: Option<u64>,
    interval_ns: u64,
    intervals: Option<u64>,
    boundary_ns: u64,
    total: Latency,
    current: Latency,
    rows: Vec<RrInterval>,
    transactions: u64,
    pub(super) unanswered: u64,
    unfinished: u64,
    late_sends: u64,
    local_errors: LocalSendErrors,
    /// The thread's time at the beginning of the measured time, once that has come.
    thread_begun: Option<ThreadUse>,
    thread_before: ThreadUse,
    closed: bool,
}

impl Tally {
    /// With a reading from before the wait for the start.
    pub(super) fn new(context: &Context, start_ns: u64, thread: ThreadUse) -> Self {
        let plan = &context.streams.agreed.plan;
        let measured_ns = start_ns.saturating_add(plan.warmup.0);
        let end_ns = plan.duration().map(|d| measured_ns.saturating_add(d.0));
        Self {
            thread_before: thread,
            ..Self::over((measured_ns, end_ns), plan.interval.0, context.intervals())
        }
    }

    fn over(
        (measured_ns, end_ns): (u64, Option<u64>),
        interval_ns: u64,
        intervals: Option<u64>,
    ) -> Self {
        Self {
            measured_ns,
            end_ns,
            interval_ns,
            intervals,
            boundary_ns: match intervals {
                Some(0 | 1) => u64::MAX,
                _ => measured_ns.saturating_add(interval_ns),
            },
            total: Latency::default(),
            current: Latency::default(),
            rows: Vec::new(),
            transactions: 0,
            unanswered: 0,
            unfinished: 0,
            late_sends: 0,
            local_errors: LocalSendErrors::default(),
            thread_begun: None,
            thread_before: thread_use(),
            closed: false,
        }
    }

    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        self.end_ns.is_some_and(|end| now_ns >= end)
    }

    /// Answers are no longer waited for: what is late by more than any request may be.
    pub(super) fn is_given_up(&self, now_ns: u64) -> bool {
        self.end_ns.is_some_and(|end| now_ns >= end.saturating_add(UNANSWERED_NS))
    }

    /// An answer came at `now_ns`. One that came after the end makes no transaction; how long it took
    /// counts, or a stall at the end would not be seen.
    pub(super) fn land(&mut self, from_ns: u64, now_ns: u64) {
        if from_ns < self.measured_ns {
            return;
        }
        let latency = now_ns.saturating_sub(from_ns);
        self.total.record(latency);
        if self.is_over(now_ns) {
            self.unfinished += 1;
        } else {
            self.transactions += 1;
            self.current.record(latency);
        }
    }

    /// Nobody waits any longer, at `now_ns`, for what is in `flight` and for the slots of `pacer` that
    /// were due before the end. What was waited for until answers are given up counts with the time that
    /// it took at least.
    pub(super) fn leave(
        &mut self,
        flight: &Flight,
        pacer: Option<&Pacer>,
        start_ns: u64,
        now_ns: u64,
    ) {
        let given_up = self.is_given_up(now_ns);
        let mut left = |from_ns: u64, times: u64| {
            self.unfinished += times;
            if given_up {
                self.total.record_n(now_ns.saturating_sub(from_ns), times);
            }
        };
        for request in flight.queue.iter().filter(|request| request.from_ns >= self.measured_ns) {
            left(request.from_ns, 1);
        }
        let Some((pacer, end)) = pacer.zip(self.end_ns) else { return };
        let due_before = |at: u64| pacer.slots_before(at.saturating_sub(start_ns));
        let mut slot = pacer.slot().max(due_before(self.measured_ns));
        let end = due_before(end.min(now_ns));
        let step = (end.saturating_sub(slot) / MOST_AGES).max(1);
        while slot < end {
            let times = step.min(end - slot);
            left(start_ns.saturating_add(pacer.due_ns(slot)), times);
            slot += times;
        }
    }

    /// A request that was due at `due_ns` leaves at `sent_ns`.
    pub(super) fn leaves(&mut self, due_ns: u64, sent_ns: u64) {
        let is_late = sent_ns.saturating_sub(due_ns) > LATE_NS;
        self.late_sends += u64::from(is_late && due_ns >= self.measured_ns);
    }

    /// This host dropped a request of that time, if there is an errno. It stays in flight like one that the
    /// path lost, so that nobody asks again at once.
    pub(super) fn drop_here(&mut self, from_ns: u64, errno: Option<Errno>) {
        if let Some(errno) = errno.filter(|_| from_ns >= self.measured_ns) {
            self.local_errors.count(errno, 1);
        }
    }

    /// A request from that time never got an answer.
    pub(super) fn lose(&mut self, from_ns: Option<u64>) {
        self.unanswered += u64::from(from_ns.is_some_and(|from| from >= self.measured_ns));
    }

    /// Closes intervals that are over.
    pub(super) fn roll(&mut self, context: &Context, now_ns: u64, end: bool) {
        if self.closed {
            return;
        }
        self.closed = end;
        if self.thread_begun.is_none() && now_ns >= self.measured_ns {
            self.thread_before = thread_use_at(self.measured_ns, self.thread_before);
            self.thread_begun = Some(self.thread_before);
            context.begun();
        }
        while now_ns >= self.boundary_ns || end {
            let thread = thread_use();
            let row = RrInterval {
                transactions: self.current.count(),
                latency: self.current.quantiles().unwrap_or_default(),
                thread: thread.since(self.thread_before),
            };
            self.thread_before = thread;
            self.current.clear();
            self.rows.push(row);
            if !end {
                context.tick(self.rows.len() - 1, Tick::Rr(row));
            }
            let last = self.intervals.is_some_and(|n| self.rows.len() as u64 + 1 >= n);
            self.boundary_ns = if last || end {
                u64::MAX
            } else {
                self.boundary_ns.saturating_add(self.interval_ns)
            };
            if end {
                return;
            }
        }
    }

    /// The whole of it, at `now_ns`.
    pub(super) fn report(mut self, context: &Context, now_ns: u64) -> RrReport {
        self.roll(context, now_ns, true);
        let span_ns = self.end_ns.unwrap_or(now_ns).min(now_ns).saturating_sub(self.measured_ns);
        RrReport {
            transactions: self.transactions,
            unanswered: self.unanswered,
            unfinished: self.unfinished,
            late_sends: self.late_sends,
            local_errors: self.local_errors,
            span_ns,
            intervals: self.rows,
            latency: self.total.quantiles().unwrap_or_default(),
            histogram: self.total.encode(),
            thread: self
                .thread_begun
                .map(|begun| self.thread_before.since(begun))
                .unwrap_or_default(),
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Begins at 1 s, is measured from there for 1 s.
    fn tally() -> Tally {
        Tally::over((1_000 * MS, Some(2_000 * MS)), 1_000 * MS, Some(1))
    }

    #[test]
    fn what_is_answered_after_the_end_is_no_transaction_and_is_not_hidden() {
        let mut t = tally();
        t.land(999 * MS, 1_100 * MS);
        t.land(1_000 * MS, 1_200 * MS);
        t.land(1_900 * MS, 2_000 * MS);
        t.land(1_900 * MS, 2_700 * MS);
        assert_eq!((t.transactions, t.unfinished, t.current.count()), (1, 2, 1));
        assert_eq!(t.total.quantiles().unwrap().max_ns / MS, 800);
        assert_eq!(t.total.count(), 3);
    }

    #[test]
    fn who_is_late_waits_for_an_answer_as_long_as_who_is_not() {
        // Due at 1.0 to 1.9 s, and sent at 3.5 s, all but the first.
        let mut flight = Flight::new(8);
        flight.launch(1_000 * MS, 1_000 * MS);
        (1..10).for_each(|slot| _ = flight.launch((1_000 + 100 * slot) * MS, 3_500 * MS));
        assert_eq!((flight.expire(3_501 * MS, 1_000 * MS), flight.len()), (1, 9));
        // The latency still counts from when it was due.
        assert_eq!(flight.land_oldest(), Some(1_100 * MS));
        // Of the eight that are left, three were of the warm-up.
        assert_eq!((flight.expire(4_501 * MS, 1_500 * MS), flight.len()), (5, 0));
    }

    #[test]
    fn what_is_late_in_the_warm_up_is_in_no_count() {
        let mut t = tally();
        for (due_ms, sent_ms) in [(900, 990), (999, 1_002), (1_000, 1_001), (1_000, 1_002)] {
            t.leaves(due_ms * MS, sent_ms * MS);
        }
        assert_eq!(t.late_sends, 1);
    }

    #[test]
    fn what_is_never_answered_counts_with_the_time_it_took_at_least() {
        // One request a millisecond was due; the last 200 of the measured time were never sent, and 100
        // before them have no answer.
        let mut pacer = Pacer::new(1_000, 1, 0, 1, 1, 0).unwrap();
        pacer.taken(800, 0);
        let mut flight = Flight::new(8);
        (700..800).for_each(|slot| _ = flight.launch((1_000 + slot) * MS, (1_000 + slot) * MS));
        flight.launch(900 * MS, 900 * MS);
        let mut t = tally();
        t.leave(&flight, Some(&pacer), 1_000 * MS, 3_000 * MS);
        assert_eq!(t.unfinished, 300);
        let q = t.total.quantiles().unwrap();
        assert_eq!((q.count, q.min_ns.div_ceil(MS), q.max_ns / MS), (300, 1_001, 1_300));
        // Cut short, at half the time: what is in flight has waited for no time worth a word.
        let mut t = tally();
        let mut pacer = Pacer::new(1_000, 1, 0, 1, 1, 0).unwrap();
        pacer.taken(490, 0);
        t.leave(&Flight::new(8), Some(&pacer), 1_000 * MS, 1_500 * MS);
        assert_eq!((t.unfinished, t.total.count()), (10, 0));
        // Many more than are kept apart.
        let mut t = tally();
        let pacer = Pacer::new(10_000_000, 1, 0, 1, 1, 0).unwrap();
        t.leave(&Flight::new(8), Some(&pacer), 1_000 * MS, 3_000 * MS);
        assert_eq!((t.unfinished, t.total.count()), (10_000_000, 10_000_000));
    }
}
