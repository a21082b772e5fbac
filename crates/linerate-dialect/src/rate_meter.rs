//! The server's limit of the rate that a client sends with, held against what really arrives.

/// Over this time a client may catch up with what a stall kept back, in nanoseconds.
const CREDIT_NS: u64 = 5_000_000_000;
/// So much may come early at any time, in nanoseconds of the limit.
const EARLY_NS: u64 = 500_000_000;

/// A bucket that fills at the limit and a tenth, and that arrivals empty. Pure: given the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateMeter {
    /// bit/s, the tenth included.
    rate_bps: u64,
    /// Bits that may still come.
    credit: u64,
    bytes: u64,
    at_ns: u64,
}

impl RateMeter {
    /// For a limit of `limit_bps` from `now_ns` on.
    pub fn new(limit_bps: u64, now_ns: u64) -> Self {
        let rate_bps = limit_bps.saturating_add(limit_bps / 10);
        let credit = bits(rate_bps, EARLY_NS);
        Self { rate_bps, credit, bytes: 0, at_ns: now_ns }
    }

    /// Whether `bytes` in all, since the beginning, are within the limit at `now_ns`.
    pub fn keeps(&mut self, bytes: u64, now_ns: u64) -> bool {
        let span_ns = now_ns.saturating_sub(self.at_ns);
        let more = bytes.saturating_sub(self.bytes).saturating_mul(8);
        (self.bytes, self.at_ns) = (bytes.max(self.bytes), now_ns.max(self.at_ns));
        let most = bits(self.rate_bps, CREDIT_NS + EARLY_NS);
        let credit = self.credit.saturating_add(bits(self.rate_bps, span_ns));
        self.credit = credit.saturating_sub(more).min(most);
        more <= credit
    }
}

fn bits(rate_bps: u64, span_ns: u64) -> u64 {
    let bits = u128::from(rate_bps) * u128::from(span_ns) / 1_000_000_000;
    u64::try_from(bits).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LIMIT: u64 = 8_000_000;

    /// Bytes by millisecond, looked at as often as `step_ms`: when the limit was broken.
    fn broken_at(step_ms: u64, bytes: impl Fn(u64) -> u64) -> Option<u64> {
        let mut meter = RateMeter::new(LIMIT, 0);
        (1..60_000 / step_ms).map(|i| i * step_ms).find(|ms| !meter.keeps(bytes(*ms), ms * MS))
    }

    #[test]
    fn an_honest_client_is_never_cut_off_however_seldom_it_is_looked_at() {
        for step_ms in [1, 250, 1_000, 10_000] {
            // At the limit: 1,000 bytes a millisecond.
            assert_eq!(broken_at(step_ms, |ms| ms * 1_000), None, "{step_ms}");
            assert_eq!(broken_at(step_ms, |ms| ms * 1_090), None, "{step_ms}");
        }
        // It stalls for four seconds and makes them up at once.
        let stalled =
            |ms: u64| if (10_000..14_000).contains(&ms) { 10_000_000 } else { ms * 1_000 };
        assert_eq!(broken_at(250, stalled), None);
    }

    #[test]
    fn a_faster_one_is_cut_off_within_seconds() {
        assert!(broken_at(250, |ms| ms * 2_000).is_some_and(|ms| ms <= 1_000));
        assert!(broken_at(250, |ms| ms * 1_250).is_some_and(|ms| ms <= 5_000));
        assert!(broken_at(250, |ms| ms * 1_000_000).is_some_and(|ms| ms <= 250));
        // What is saved up is bounded: a long silence pays for no long flood.
        let late = |ms: u64| ms.saturating_sub(30_000) * 3_000;
        assert!(broken_at(250, late).is_some_and(|ms| (30_000..34_000).contains(&ms)));
    }

    #[test]
    fn no_number_or_clock_breaks_it() {
        let mut meter = RateMeter::new(u64::MAX, u64::MAX);
        assert!(!meter.keeps(u64::MAX, 0));
        assert!(meter.keeps(0, u64::MAX));
        let mut meter = RateMeter::new(1, 5);
        assert!(!meter.keeps(u64::MAX, 0));
    }
}
