//! The shift between two sets as the median of all pairwise differences (Hodges and Lehmann 1963),
//! with the interval that Mann and Whitney's U gives (order statistics of the same differences).
//! Unit: that of the values. Resists outliers; equals a shift of means only for equal shapes.

use super::distribution::normal_quantile;
use super::mann_whitney::{MOST_EXACT, interval_rank};
use super::summary::sorted;

/// Estimate and interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Median of `set - base` over all pairs.
    pub estimate: f64,
    /// Low end, high end and the confidence they really have (0 to 1), at least what was asked.
    /// `None` when the sets are too small for the level.
    pub interval: Option<(f64, f64, f64)>,
}

/// Computes the shift without storing the n x m differences. `None` when a set is empty.
pub fn shift(base: &[f64], set: &[f64], level: f64) -> Option<Shift> {
    let (a, b) = (sorted(base), sorted(set));
    let pairs = (a.len() as u64).checked_mul(b.len() as u64).filter(|p| *p > 0)?;
    let middle = nth_difference(&a, &b, pairs / 2)?;
    let estimate = if pairs % 2 == 1 {
        middle
    } else {
        0.5 * nth_difference(&a, &b, pairs / 2 - 1)? + 0.5 * middle
    };
    let alpha = 1.0 - level;
    let rank = if a.len() + b.len() <= MOST_EXACT {
        interval_rank(a.len(), b.len(), alpha).map(|(rank, tail)| (rank as u64, 1.0 - 2.0 * tail))
    } else {
        let (n, m) = (a.len() as f64, b.len() as f64);
        let sd = (n * m * (n + m + 1.0) / 12.0).sqrt();
        let z = normal_quantile(1.0 - alpha / 2.0)?;
        let rank = (n * m / 2.0 - z * sd).floor();
        (rank >= 1.0).then_some((rank as u64, level))
    };
    let interval = rank.and_then(|(rank, reached)| {
        let low = nth_difference(&a, &b, rank - 1)?;
        let high = nth_difference(&a, &b, pairs - rank)?;
        Some((low, high, reached))
    });
    Some(Shift { estimate, interval })
}

/// The difference of rank `k` (from 0) among all `b[j] - a[i]` of two sorted sets: bisection over
/// the ordered bit patterns of doubles, each step counting with two pointers. Exact.
fn nth_difference(a: &[f64], b: &[f64], k: u64) -> Option<f64> {
    let mut low = key(b.first()? - a.last()?);
    let mut high = key(b.last()? - a.first()?);
    while low < high {
        let middle = low + (high - low) / 2;
        if count_at_most(a, b, unkey(middle)) > k {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let value = unkey(low);
    Some(if value == 0.0 { 0.0 } else { value })
}

fn count_at_most(a: &[f64], b: &[f64], limit: f64) -> u64 {
    let mut count = 0u64;
    let mut j = 0;
    for x in a {
        while let Some(y) = b.get(j)
            && y - x <= limit
        {
            j += 1;
        }
        count += j as u64;
    }
    count
}

/// Doubles in rising order as whole numbers in rising order.
fn key(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn unkey(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn against_all_pairs() {
        let a = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0];
        let b = [2.0, 7.0, 1.0, 8.0, 2.0, 8.0];
        let mut all: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| y - x)).collect();
        all.sort_by(f64::total_cmp);
        let (sa, sb) = (sorted(&a), sorted(&b));
        for (k, want) in all.iter().enumerate() {
            assert_eq!(nth_difference(&sa, &sb, k as u64), Some(*want));
        }
        assert_eq!(shift(&a, &b, 0.95).unwrap().estimate, (all[20] + all[21]) / 2.0);
    }

    #[test]
    fn the_interval_of_five_and_five_ends_at_the_third_pair() {
        // P(U <= 2) = 4/252 and P(U <= 3) = 7/252 > 0.025: the interval ends at the third pair.
        let a = [1.0, 2.0, 3.0, 4.0, 5.0];
        let b = [11.1, 12.2, 13.3, 14.4, 15.5];
        let mut all: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| y - x)).collect();
        all.sort_by(f64::total_cmp);
        let (low, high, reached) = shift(&a, &b, 0.95).unwrap().interval.unwrap();
        assert_eq!((low, high), (all[2], all[22]));
        assert!((reached - (1.0 - 8.0 / 252.0)).abs() < 1e-12);
    }

    #[test]
    fn three_and_three_cannot_reach_95_percent() {
        let s = shift(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95).unwrap();
        assert_eq!((s.estimate, s.interval), (3.0, None));
    }

    #[test]
    fn tiny_scales_keep_their_sign() {
        let a = [1.0e-5, 1.1e-5, 1.2e-5];
        let b = [0.8e-5, 0.9e-5, 1.0e-5];
        let s = shift(&a, &b, 0.8).unwrap();
        assert!((s.estimate + 0.2e-5).abs() < 1e-9 * 1e-5, "{:e}", s.estimate);
    }
}
