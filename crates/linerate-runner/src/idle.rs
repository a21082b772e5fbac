//! Tests in which nothing moves.

use std::time::{Duration, Instant};

/// How long the count of a test's bytes has stood still.
#[derive(Debug)]
pub(crate) struct Idle {
    moved: u64,
    since: Instant,
}

impl Idle {
    pub(crate) fn new(now: Instant) -> Self {
        Self { moved: 0, since: now }
    }

    /// `moved` bytes so far, both ways.
    pub(crate) fn lasts(&mut self, moved: u64, now: Instant) -> Duration {
        if moved != self.moved {
            *self = Self { moved, since: now };
        }
        now.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_again_with_each_byte() {
        let begun = Instant::now();
        let at = |s: u64| begun + Duration::from_secs(s);
        let mut idle = Idle::new(begun);
        assert_eq!(idle.lasts(0, at(5)), Duration::from_secs(5));
        assert_eq!(idle.lasts(1, at(6)), Duration::ZERO);
        assert_eq!(idle.lasts(1, at(9)), Duration::from_secs(3));
    }
}
