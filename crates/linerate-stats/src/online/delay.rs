//! Packet delay variation.

use linerate_model::sample::DelayQuantiles;

use super::Latency;

/// Transit times kept as they are until the least of them is a good guess at the least of all.
const SAMPLES_KEPT: usize = 4_096;
/// Room below that guess, so that a slightly faster datagram needs no rebuilding. A histogram of
/// three digits still resolves 20 ns there.
const GUARD_NS: i64 = 20_000;

/// Packet delay variation as RFC 5481 section 4.2 defines it: each datagram's delay less the least
/// delay of all. Needs no synchronised clocks; a drift between them adds itself (50 ppm are
/// 0.5 ms in 10 s), which the record's doubts say.
///
/// The least delay is known only at the end, so values are kept against a base just below the least
/// of the first 4,096 and shifted when read. Exact to three digits plus 20 ns.
#[derive(Debug, Clone)]
pub struct DelayVariation {
    first: Vec<i64>,
    base: Option<i64>,
    least: i64,
    most: i64,
    histogram: Latency,
}

impl Default for DelayVariation {
    fn default() -> Self {
        Self {
            first: Vec::with_capacity(SAMPLES_KEPT),
            base: None,
            least: i64::MAX,
            most: i64::MIN,
            histogram: Latency::default(),
        }
    }
}

impl DelayVariation {
    /// One arrival: arrival less send time, each on its own host's clock.
    pub fn record(&mut self, transit_ns: i64) {
        self.least = self.least.min(transit_ns);
        self.most = self.most.max(transit_ns);
        let Some(base) = self.base else {
            self.first.push(transit_ns);
            if self.first.len() == SAMPLES_KEPT {
                self.settle();
            }
            return;
        };
        if transit_ns < base {
            self.rebase(transit_ns);
        }
        let base = self.base.unwrap_or(base);
        self.histogram.record(distance(transit_ns, base));
    }

    /// Quantiles of delay less least delay; `None` while nothing was recorded.
    pub fn quantiles(&mut self) -> Option<DelayQuantiles> {
        if self.base.is_none() {
            if self.first.is_empty() {
                return None;
            }
            self.settle();
        }
        let mut q = self.histogram.quantiles(distance(self.least, self.base?))?;
        // The ends are known exactly; a bucket's edge must not lie beyond them.
        let most = distance(self.most, self.least);
        q.min_ns = 0;
        q.max_ns = most;
        for quantile in [
            &mut q.p50_ns,
            &mut q.p90_ns,
            &mut q.p99_ns,
            &mut q.p999_ns,
            &mut q.p9999_ns,
            &mut q.mean_ns,
        ] {
            *quantile = (*quantile).min(most);
        }
        Some(q)
    }

    /// Arrival less send time of the fastest datagram.
    pub fn least_transit_ns(&self) -> Option<i64> {
        (self.least != i64::MAX).then_some(self.least)
    }

    fn settle(&mut self) {
        let base = self.least.saturating_sub(GUARD_NS);
        self.base = Some(base);
        for transit in self.first.drain(..) {
            self.histogram.record(distance(transit, base));
        }
    }

    /// A datagram was faster than the base: moves the base below it and everything recorded with
    /// it. Each time costs one pass over the histogram, and each lets the least fall by more than
    /// the guard, so it is rare.
    fn rebase(&mut self, transit_ns: i64) {
        let Some(old) = self.base else { return };
        let new = transit_ns.saturating_sub(GUARD_NS);
        let shift = distance(old, new);
        let mut moved = Latency::default();
        for (value, count) in self.histogram.buckets() {
            moved.record_n(value.saturating_add(shift), count);
        }
        self.histogram = moved;
        self.base = Some(new);
    }
}

/// `a - b` where `a >= b`, else 0.
fn distance(a: i64, b: i64) -> u64 {
    if a >= b { a.abs_diff(b) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(transits: impl IntoIterator<Item = i64>) -> DelayQuantiles {
        let mut delay = DelayVariation::default();
        transits.into_iter().for_each(|t| delay.record(t));
        delay.quantiles().unwrap()
    }

    #[test]
    fn offset_of_the_clocks_does_not_matter() {
        let around = |offset: i64| quantiles((0..10_000).map(move |i| offset + (i % 100) * 1_000));
        let q = around(0);
        assert_eq!(q, around(-5_000_000_000_000));
        assert_eq!(q, around(5_000_000_000_000));
        assert!(q.p50_ns.abs_diff(50_000) <= 1_100, "{q:?}");
        assert!(q.max_ns.abs_diff(99_000) <= 120, "{q:?}");
        assert!(q.min_ns <= 40);
    }

    #[test]
    fn a_much_faster_datagram_late_in_the_test_moves_everything() {
        let mut transits = vec![1_000_000i64; 10_000];
        transits.push(0);
        let q = quantiles(transits);
        assert!(q.p50_ns.abs_diff(1_000_000) < 3_000, "{q:?}");
        assert_eq!(q.min_ns, 0);
        assert_eq!(q.count, 10_001);
    }

    #[test]
    fn short_tests_and_extreme_values() {
        assert_eq!(DelayVariation::default().quantiles(), None);
        let q = quantiles([7]);
        assert_eq!((q.count, q.max_ns), (1, 0));
        quantiles([i64::MIN, i64::MAX, 0]);
    }
}
