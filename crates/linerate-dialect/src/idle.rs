//! Tests in which nothing moves.

/// How long the count of a test's bytes has stood still.
#[derive(Debug)]
pub struct Idle {
    moved: u64,
    since_ns: u64,
}

impl Idle {
    /// From `now_ns` on, with `moved` bytes so far.
    pub fn new(moved: u64, now_ns: u64) -> Self {
        Self { moved, since_ns: now_ns }
    }

    /// `moved` bytes so far, both ways: for how many nanoseconds it has been this number.
    pub fn lasts(&mut self, moved: u64, now_ns: u64) -> u64 {
        if moved != self.moved {
            *self = Self::new(moved, now_ns);
        }
        now_ns.saturating_sub(self.since_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_again_with_each_byte() {
        let mut idle = Idle::new(0, 100);
        assert_eq!(idle.lasts(0, 105), 5);
        assert_eq!(idle.lasts(1, 106), 0);
        assert_eq!(idle.lasts(1, 109), 3);
    }
}
