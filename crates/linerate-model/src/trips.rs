//! Delays by wall clocks of two hosts.

use serde::{Deserialize, Serialize};

/// Delays of one stream, from the sender's wall clock to the receiver's (iperf 2's `--trip-times`). What these clocks
/// differ by is in them, so that they may be below 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trips {
    /// Of so many datagrams (of those that the kernel merged, one), or of blocks over TCP, from the write to when the
    /// last byte was read; at least 1.
    pub count: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Mean.
    pub mean_ns: i64,
    /// Least.
    pub least_ns: i64,
    /// Largest.
    pub most_ns: i64,
    /// Standard deviation (n − 1).
    pub deviation_ns: u64,
}

impl Trips {
    /// Both as one.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        let (n, m) = (self.count as f64, more.count as f64);
        let apart = (more.mean_ns as f64) - (self.mean_ns as f64);
        let squares = |trips: &Self| {
            let deviation = trips.deviation_ns as f64;
            deviation * deviation * trips.count.saturating_sub(1) as f64
        };
        let between = apart * apart * n * m / (n + m).max(1.0);
        let squares = squares(&self) + squares(&more) + between;
        let mean = self.mean_ns as f64 + apart * m / (n + m).max(1.0);
        Self {
            count: self.count.saturating_add(more.count),
            bytes: self.bytes.saturating_add(more.bytes),
            mean_ns: mean as i64,
            least_ns: self.least_ns.min(more.least_ns),
            most_ns: self.most_ns.max(more.most_ns),
            deviation_ns: (squares / (n + m - 1.0).max(1.0)).sqrt() as u64,
        }
    }
}
