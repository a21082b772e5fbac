//! A histogram of times.

use hdrhistogram::Histogram;
use linerate_model::sample::DelayQuantiles;

/// Largest time a histogram distinguishes: 1,000 s. Longer ones are counted there.
const LARGEST_NS: u64 = 1_000_000_000_000;
/// Significant decimal digits: quantiles are within 0.1 %.
const DIGITS: u8 = 3;

/// An HdrHistogram of nanoseconds, with three significant digits from 1 ns to 1,000 s. About
/// 250 KiB, of which only the pages in use are ever touched. Recording neither allocates nor fails.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LARGEST_NS, DIGITS)
            .expect("1 to 10^12 with three digits are legal bounds");
        Self { histogram }
    }
}

impl Latency {
    /// Counts one value; values above the largest are counted as the largest.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos);
    }

    /// Counts one value `times` times.
    pub fn record_n(&mut self, nanos: u64, times: u64) {
        self.histogram.saturating_record_n(nanos, times);
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Adds another histogram's counts.
    pub fn add(&mut self, other: &Self) {
        // Cannot fail: both have the same bounds.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }

    /// The quantiles, `None` while empty.
    pub fn quantiles(&self) -> Option<DelayQuantiles> {
        let h = &self.histogram;
        if h.is_empty() {
            return None;
        }
        // A bucket's upper edge may lie above the largest value recorded.
        let at = |q: f64| h.value_at_quantile(q).min(h.max());
        Some(DelayQuantiles {
            count: h.len(),
            min_ns: h.min(),
            p50_ns: at(0.50),
            p90_ns: at(0.90),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: h.max(),
            mean_ns: h.mean() as u64,
        })
    }

    /// The histogram in HdrHistogram's own V2 form, base64, so that other tools can merge and draw
    /// it.
    pub fn encode(&self) -> Option<String> {
        use hdrhistogram::serialization::{Serializer, V2Serializer};
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.histogram, &mut bytes).ok()?;
        Some(base64::engine::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_quantiles_within_a_thousandth() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantiles(), None);
        for us in 1..=10_000u64 {
            latency.record(us * 1_000);
        }
        let q = latency.quantiles().unwrap();
        let near = |got: u64, want: u64| (got as f64 / want as f64 - 1.0).abs() <= 1e-3;
        assert!(near(q.p50_ns, 5_000_000), "{q:?}");
        assert!(near(q.p90_ns, 9_000_000));
        assert!(near(q.p999_ns, 9_990_000));
        assert!(near(q.max_ns, 10_000_000));
        assert_eq!(q.count, 10_000);
    }

    #[test]
    fn zero_and_huge_values_are_counted() {
        let mut latency = Latency::default();
        latency.record(0);
        latency.record(u64::MAX);
        assert_eq!(latency.count(), 2);
    }
}
