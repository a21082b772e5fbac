//! What whoever watches a test may do to it while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linerate_engine::clock;
use linerate_model::record::RunEvent;

use crate::data::Throttle;

/// Chooses the rate of what the client sends by UDP, and marks moments; clones are one.
#[derive(Debug, Clone, Default)]
pub struct Controls(Arc<State>);

#[derive(Debug, Default)]
struct State {
    throttle: Throttle,
    /// Monotonic time at which the measured time begins; 0 before that is known.
    begins_ns: AtomicU64,
    /// Monotonic times.
    marks: Mutex<Vec<u64>>,
}

/// Nobody marks so many moments by hand.
const MOST_MARKS: usize = 1_024;

impl Controls {
    /// From now on this rate, in bit/s of payload, all streams together. A server agreed to the plan: more than the
    /// plan's rate is for nobody to choose, and whoever calls this must not.
    pub fn turn(&self, bits_per_second: u64) {
        self.0.throttle.turn(bits_per_second);
    }

    /// Marks this moment; gives its number, counted from 1. Nothing is marked before the test begins.
    pub fn mark(&self) -> Option<u32> {
        let begun = self.0.begins_ns.load(Ordering::Relaxed) > 0;
        let mut marks = self.0.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if !begun || marks.len() >= MOST_MARKS {
            return None;
        }
        marks.push(clock::monotonic_ns());
        u32::try_from(marks.len()).ok()
    }

    pub(crate) fn throttle(&self) -> Throttle {
        self.0.throttle.clone()
    }

    /// The measured time begins then.
    pub(crate) fn begins(&self, at_ns: u64) {
        self.0.begins_ns.store(at_ns.max(1), Ordering::Relaxed);
    }

    /// Adds the marks to what else was done, by time. Those of the warm-up are before its end, below zero.
    pub(crate) fn add_marks(&self, events: &mut Vec<RunEvent>) {
        let begins = i128::from(self.0.begins_ns.load(Ordering::Relaxed));
        let marks = self.0.marks.lock().unwrap_or_else(PoisonError::into_inner);
        events.extend((1..).zip(marks.iter()).map(|(number, at_ns)| {
            RunEvent::mark((i128::from(*at_ns) - begins) as f64 / 1e9, number)
        }));
        events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::record::RunEventKind;

    use super::*;

    #[test]
    fn marks_count_from_the_measured_time() {
        let controls = Controls::default();
        assert_eq!(controls.mark(), None, "nothing has begun");
        controls.begins(clock::monotonic_ns() - 1_500_000_000);
        assert_eq!((controls.mark(), controls.mark()), (Some(1), Some(2)));
        let mut events = vec![RunEvent::rate(1e9, 5), RunEvent::rate(0.25, 7)];
        controls.add_marks(&mut events);
        let kinds: Vec<_> = events.iter().map(|e| e.kind.known().copied()).collect();
        let (rate, mark) = (Some(RunEventKind::Rate), Some(RunEventKind::Mark));
        assert_eq!(kinds, [rate, mark, mark, rate]);
        assert!(events[1].at_s >= 1.5 && events[2].number == Some(2), "{events:?}");
    }
}
