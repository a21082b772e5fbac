//! The owner's limit of the rate, kept by the threads that answer or send datagrams.

use std::sync::atomic::{AtomicU64, Ordering};

use linerate_model::units::BitRate;

/// So much may pass at once after a pause, in nanoseconds of the limit.
const CREDIT_NS: u64 = 500_000_000;

/// One direction of one test: bytes that pass take their time at the limit and a tenth, so that who
/// keeps to it never waits. Shared by all threads of the direction; no lock.
#[derive(Debug)]
pub(super) struct Toll {
    /// bit/s, the tenth included.
    rate_bps: u64,
    /// Monotonic time up to which what has passed takes.
    paid_ns: AtomicU64,
}

impl Toll {
    pub(super) fn new(limit: BitRate) -> Self {
        let limit_bps = limit.bits_per_second();
        let rate_bps = limit_bps.saturating_add(limit_bps / 10).max(1);
        Self { rate_bps, paid_ns: AtomicU64::new(0) }
    }

    /// When what has passed is paid for.
    pub(super) fn paid_ns(&self) -> u64 {
        self.paid_ns.load(Ordering::Relaxed)
    }

    /// Lets `bytes` pass at `now_ns` of the monotonic clock; returns when more may, which is not
    /// later than now where the limit is kept.
    pub(super) fn pass(&self, bytes: u64, now_ns: u64) -> u64 {
        let ns = u128::from(bytes) * 8_000_000_000 / u128::from(self.rate_bps);
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        let after = |paid: u64| paid.max(now_ns.saturating_sub(CREDIT_NS)).saturating_add(ns);
        let before = self
            .paid_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid| Some(after(paid)));
        before.map_or(now_ns, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_to_the_limit_never_waits_and_who_does_not_is_held_to_it() {
        let second = 1_000_000_000;
        let toll = Toll::new(BitRate::new(8_000_000).unwrap());
        // 1,000 bytes a millisecond are the limit.
        for ms in 0..10_000 {
            let now = second + ms * 1_000_000;
            assert!(toll.pass(1_000, now) <= now, "{ms}");
        }
        let mut now = 20 * second;
        let mut bytes = 0u64;
        while now < 30 * second {
            bytes += 100_000;
            now = now.max(toll.pass(100_000, now));
        }
        // Ten seconds and the credit at 1.1 Mbyte/s, and the last piece.
        assert!((11_000_000..=11_650_000).contains(&bytes), "{bytes}");
        assert_eq!(toll.pass(u64::MAX, now), u64::MAX, "no number breaks it");
    }
}
