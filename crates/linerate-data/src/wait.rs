//! Waiting for a deadline: asleep as long as the kernel's timer is good enough, awake for the rest.

use linerate_engine::clock;

/// Longest sleep, so that a stop is noticed.
const NAP_NS: u64 = 20_000_000;
/// Never spins longer than this before a deadline.
const MOST_SPIN_NS: u64 = 100_000;
const LEAST_SPIN_NS: u64 = 5_000;

/// Learns how late this host wakes a sleeper, and spins only that long.
#[derive(Debug)]
pub(super) struct Waiter {
    spin_ns: u64,
}

impl Default for Waiter {
    fn default() -> Self {
        Self { spin_ns: 50_000 }
    }
}

impl Waiter {
    /// Waits until `at_ns` of the monotonic clock, or less: the caller looks at the clock again.
    pub(super) fn wait_until(&mut self, at_ns: u64, now_ns: u64) {
        let Some(left) = at_ns.checked_sub(now_ns) else { return };
        if left > self.spin_ns {
            let wake = at_ns.min(now_ns.saturating_add(NAP_NS)).saturating_sub(self.spin_ns);
            clock::sleep_until(wake.max(now_ns));
            let late = clock::monotonic_ns().saturating_sub(wake);
            // Rises at once to what was seen, and forgets it over some hundred sleeps.
            self.spin_ns = if late > self.spin_ns {
                late.min(MOST_SPIN_NS)
            } else {
                self.spin_ns - (self.spin_ns - late) / 64
            }
            .max(LEAST_SPIN_NS);
            return;
        }
        spin_until(at_ns);
    }
}

/// Not inlined, as profiles tell by this name what the wait costs (`linerate-analysis/src/profile/rules.rs`).
#[inline(never)]
fn spin_until(at_ns: u64) {
    while clock::monotonic_ns() < at_ns {
        std::hint::spin_loop();
    }
}
