//! Runs of lost datagrams.

use linerate_model::sample::LossRunCounts;

/// Loss periods and loss distances as RFC 3357 defines them: a period is a run of consecutive
/// losses, the distance is counted in sequence numbers from the last loss of one period to the
/// first of the next. Fed with missing ranges in ascending order; ranges that touch are one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossRuns {
    open: Option<(u64, u64)>,
    last_end: Option<u64>,
    counts: LossRunCounts,
    lost: u64,
}

impl LossRuns {
    /// Sequence numbers `start..end` are missing. Empty ranges are ignored.
    pub fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        self.lost += end - start;
        match &mut self.open {
            Some((_, open_end)) if *open_end == start => *open_end = end,
            _ => {
                self.close();
                self.open = Some((start, end));
            }
        }
    }

    /// Datagrams in all runs.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The counts, the last run included.
    pub fn finish(mut self) -> LossRunCounts {
        self.close();
        self.counts
    }

    fn close(&mut self) {
        let Some((start, end)) = self.open.take() else { return };
        let length = end - start;
        let c = &mut self.counts;
        c.shortest = if c.runs == 0 { length } else { c.shortest.min(length) };
        c.longest = c.longest.max(length);
        c.runs += 1;
        // 1 -> 0, 2 -> 1, 3-4 -> 2, 5-8 -> 3 …
        let slot = (64 - (length - 1).leading_zeros()) as usize;
        let last = c.lengths.len() - 1;
        if let Some(count) = c.lengths.get_mut(slot.min(last)) {
            *count += 1;
        }
        if let Some(last_end) = self.last_end {
            // `last_end` is one past the last loss.
            let distance = start - last_end + 1;
            c.least_distance = Some(c.least_distance.map_or(distance, |d| d.min(distance)));
        }
        self.last_end = Some(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        let mut runs = LossRuns::default();
        for (start, end) in [(3, 4), (4, 6), (10, 11), (12, 20), (20, 20)] {
            runs.add(start, end);
        }
        assert_eq!(runs.lost(), 12);
        let counts = runs.finish();
        assert_eq!(counts.runs, 3);
        assert_eq!((counts.shortest, counts.longest), (1, 8));
        assert_eq!(counts.least_distance, Some(2));
        assert_eq!(&counts.lengths[..5], &[1, 0, 1, 1, 0]);
    }
}
