//! What whoever watches a test may do to it while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linerate_engine::clock;
use linerate_model::record::RunEvent;

use crate::data::Throttle;

/// Chooses the rate of what the client sends by UDP or TCP, and marks moments; clones are one.
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

    /// Marks this moment; gives its number, counted from 1, and its time as the record will have it, in seconds of the
    /// measured time. Nothing is marked before the test begins.
    pub fn mark(&self) -> Option<(u32, f64)> {
        let begins_ns = self.begins_ns()?;
        let mut marks = self.0.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.len() >= MOST_MARKS {
            return None;
        }
        let at_ns = clock::monotonic_ns();
        marks.push(at_ns);
        Some((u32::try_from(marks.len()).ok()?, since_s(at_ns, begins_ns)))
    }

    /// Seconds of the measured time that have passed, below zero in the warm-up; nothing before the test begins.
    pub fn measured_s(&self) -> Option<f64> {
        self.begins_ns().map(|begins_ns| since_s(clock::monotonic_ns(), begins_ns))
    }

    fn begins_ns(&self) -> Option<u64> {
        Some(self.0.begins_ns.load(Ordering::Relaxed)).filter(|at_ns| *at_ns > 0)
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
        let Some(begins_ns) = self.begins_ns() else { return };
        let marks = self.0.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mark =
            |(number, at_ns): (u32, &u64)| RunEvent::mark(since_s(*at_ns, begins_ns), number);
        events.extend((1..).zip(marks.iter()).map(mark));
        events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    }
}

/// Below zero where it was before.
fn since_s(at_ns: u64, begins_ns: u64) -> f64 {
    (i128::from(at_ns) - i128::from(begins_ns)) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use linerate_model::record::RunEventKind;

    use super::*;

    #[test]
    fn marks_count_from_the_measured_time() {
        let controls = Controls::default();
        assert_eq!((controls.mark(), controls.measured_s()), (None, None), "nothing has begun");
        controls.begins(clock::monotonic_ns() + 3_600_000_000_000);
        assert!(controls.measured_s().unwrap() < 0.0, "it warms up");
        controls.begins(clock::monotonic_ns() - 1_500_000_000);
        assert!(controls.measured_s().unwrap() >= 1.5);
        let marks = [controls.mark().unwrap(), controls.mark().unwrap()];
        assert_eq!(marks.map(|(number, _)| number), [1, 2]);
        let mut events = vec![RunEvent::rate(1e9, 5), RunEvent::rate(0.25, 7)];
        controls.add_marks(&mut events);
        let kinds: Vec<_> = events.iter().map(|e| e.kind.known().copied()).collect();
        let (rate, mark) = (Some(RunEventKind::Rate), Some(RunEventKind::Mark));
        assert_eq!(kinds, [rate, mark, mark, rate]);
        assert!(events[1].at_s >= 1.5 && events[2].number == Some(2), "{events:?}");
        let kept = [events[1].at_s, events[2].at_s];
        assert_eq!(marks.map(|(_, at_s)| at_s), kept, "what was said is what is kept");
    }
}
