//! This host's clocks, for programs around the runner: nothing else reads them.

use std::time::{Duration, Instant};

/// Time since something began, by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What has passed.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The date in the zone of this host, where the program was built with zones.
pub fn local_date() -> jiff::Zoned {
    jiff::Zoned::now()
}

/// The date and the time of day.
pub fn wall() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
