//! What came when the test was over.

/// After the end of a test by time, a datagram may arrive for this part of it, one in …
const GRACE_SHARE: u64 = 20;

/// … and be read for this much longer: a thread that waits for its core is no slow receiver.
pub(super) const READ_GRACE_NS: u64 = 100_000_000;

/// Counts what a queue held back until the test was over.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    /// Measured time, when the test ends by time.
    pub(super) duration_ns: Option<u64>,
    /// Arrivals from here on are overdue.
    pub(super) arrival_ns: u64,
    pub(super) count: u64,
    /// Unique datagrams and `count` before the call into the kernel that is at work.
    pub(super) before: (u64, u64),
    pub(super) last_read_ns: u64,
}

impl Overdue {
    pub(super) fn begin(&mut self, origin_ns: u64) {
        self.arrival_ns = self.duration_ns.map_or(u64::MAX, |duration| {
            origin_ns.saturating_add(duration).saturating_add(duration / GRACE_SHARE)
        });
    }

    /// Everything the call brought was taken in; it returned at `now_ns`.
    #[inline]
    pub(super) fn on_read(&mut self, now_ns: u64, unique: u64) {
        let (unique_before, count_before) = self.before;
        if unique > unique_before {
            self.last_read_ns = now_ns;
            if now_ns >= self.arrival_ns.saturating_add(READ_GRACE_NS) {
                self.count = count_before + (unique - unique_before);
            }
        }
    }
}
