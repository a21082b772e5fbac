//! Another rate for a test that runs, chosen by whoever watches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_model::sample::RateChange;

/// Rates that are noted of one stream, which nobody chooses by hand in a day.
const MOST_CHANGES: usize = 1_024;

/// The rate of what this end sends, all streams together; clones are one. Nobody has chosen one at first.
#[derive(Debug, Clone, Default)]
pub struct Throttle(Arc<AtomicU64>);

impl Throttle {
    /// From now on this rate, in bit/s of payload. Zero is none and changes nothing.
    pub fn turn(&self, bits_per_second: u64) {
        if bits_per_second > 0 {
            self.0.store(bits_per_second, Ordering::Relaxed);
        }
    }

    /// What was chosen last; 0 where nothing was.
    #[inline]
    fn chosen(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one stream makes of it.
pub(super) struct Followed<'a> {
    throttle: Option<&'a Throttle>,
    /// What it said last.
    chosen: u64,
    /// The measured time has begun.
    measures: bool,
    /// Rates that were chosen in the measured time, by time.
    pub(super) changes: Vec<RateChange>,
}

impl<'a> Followed<'a> {
    pub(super) fn new(throttle: Option<&'a Throttle>) -> Self {
        let changes = Vec::with_capacity(throttle.map_or(0, |_| MOST_CHANGES));
        Self { throttle, chosen: 0, measures: false, changes }
    }

    /// Another rate than last time, if one was chosen.
    #[inline]
    pub(super) fn turned(&mut self) -> Option<u64> {
        let chosen = self.throttle?.chosen();
        if chosen == self.chosen {
            return None;
        }
        self.chosen = chosen;
        Some(chosen)
    }

    /// Whether a rate was chosen.
    pub(super) fn is_turned(&self) -> bool {
        self.chosen > 0
    }

    /// Keeps when the rate that holds now began to, since the start of the measured time; nothing before that.
    pub(super) fn note(&mut self, at_ns: u64) {
        if self.measures && self.changes.len() < self.changes.capacity() {
            self.changes.push(RateChange { at_ns, rate_bps: self.chosen });
        }
    }

    /// The measured time begins: what was chosen in the warm-up holds from there on.
    pub(super) fn begin(&mut self) {
        self.measures = true;
        if self.is_turned() {
            self.note(0);
        }
    }
}
