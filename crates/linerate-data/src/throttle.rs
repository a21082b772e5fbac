//! Another rate for a test that runs, chosen by whoever watches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The rate of what this end sends by UDP, all streams together; clones are one. Nobody has chosen one at first.
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
    pub(super) fn chosen(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
