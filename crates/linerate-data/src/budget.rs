//! What a network may carry in a day.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_dialect::Whose;

/// The bytes of the day of an address, a network or a key, which all of its tests add to.
#[derive(Debug, Clone)]
pub struct DayBudget {
    carried: Arc<AtomicU64>,
    most: u64,
    whose: Whose,
}

impl DayBudget {
    /// Of `most` bytes, of which `carried` counts those that were carried.
    pub const fn new(carried: Arc<AtomicU64>, most: u64, whose: Whose) -> Self {
        Self { carried, most, whose }
    }

    /// Whose it is.
    pub fn whose(&self) -> Whose {
        self.whose
    }

    /// Bytes that it may still carry.
    pub fn left(&self) -> u64 {
        self.most.saturating_sub(self.carried.load(Ordering::Relaxed))
    }

    /// Whether more was carried than allowed.
    pub fn is_over(&self) -> bool {
        self.carried.load(Ordering::Relaxed) > self.most
    }

    /// Adds what was carried; whether it is more than allowed now.
    pub fn charge(&self, bytes: u64) -> bool {
        // Nobody carries 2^64 bytes in a day.
        self.carried.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > self.most
    }
}
