//! Interarrival jitter.

/// Interarrival jitter as RFC 3550 section 6.4.1 and appendix A.8 define it:
/// J += (|D| - J) / 16, where D is the change of transit time between two datagrams in the order
/// in which they **arrived**. Needs no clock synchronisation: a constant offset cancels out of D
/// (a drift does not, but adds only its ppm of the gap).
///
/// Limits: smoothed, so no percentile can be had from it; datagrams that share one kernel time
/// stamp (a merged train) must be recorded once, or they dilute it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Jitter {
    last: Option<i64>,
    value: Option<f64>,
}

impl Jitter {
    /// One arrival: `transit_ns` is arrival less send time, each on its own host's clock.
    #[inline]
    pub fn record(&mut self, transit_ns: i64) {
        if let Some(last) = self.last {
            let difference = transit_ns.abs_diff(last) as f64;
            let value = self.value.unwrap_or(0.0);
            self.value = Some(value + (difference - value) / 16.0);
        }
        self.last = Some(transit_ns);
    }

    /// Nanoseconds; `None` until two datagrams have arrived, as one alone makes no difference.
    pub fn nanos(&self) -> Option<f64> {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        let mut jitter = Jitter::default();
        jitter.record(100);
        assert_eq!(jitter.nanos(), None);
        jitter.record(116);
        assert_eq!(jitter.nanos(), Some(1.0));
        jitter.record(116);
        assert_eq!(jitter.nanos(), Some(1.0 - 1.0 / 16.0));
    }

    #[test]
    fn a_constant_offset_cancels_and_extremes_do_not_overflow() {
        let mut jitter = Jitter::default();
        for _ in 0..100 {
            jitter.record(i64::MIN);
        }
        assert_eq!(jitter.nanos(), Some(0.0));
        jitter.record(i64::MAX);
        assert!(jitter.nanos().unwrap().is_finite());
    }

    #[test]
    fn uniform_delay_converges_to_two_thirds_of_the_half_width() {
        // For delays uniform in +-a, the mean |D| is 2a/3.
        let mut jitter = Jitter::default();
        let (mut state, a) = (1u64, 2_000_000i64);
        let (mut sum, mut n) = (0.0, 0);
        for i in 0..200_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let delay = (state >> 33) as i64 % (2 * a + 1) - a;
            jitter.record(delay);
            if i > 100 {
                sum += jitter.nanos().unwrap();
                n += 1;
            }
        }
        let mean = sum / f64::from(n);
        assert!((mean / (2.0 * a as f64 / 3.0) - 1.0).abs() < 0.01, "{mean}");
    }
}
