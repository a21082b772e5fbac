//! Two heaps of values instead of one. A set of two modes has no outliers and no meaningful mean,
//! so this is asked before scatter is called noise.

use super::summary::{Moments, sorted};

/// A set that falls into two heaps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoModes {
    /// Values in the lower heap.
    pub low_count: usize,
    /// Their mean.
    pub low_mean: f64,
    /// Values in the upper heap.
    pub high_count: usize,
    /// Their mean.
    pub high_mean: f64,
    /// Largest value of the lower heap and least of the upper: the gap.
    pub gap: (f64, f64),
}

/// Looks for the widest gap that leaves at least a sixth of the values (and 3) on each side, and
/// calls it two modes when the heaps are far apart (Ashman's D = sqrt(2) |m1 - m2| /
/// sqrt(s1^2 + s2^2) of at least 4 + 50/n) and the gap is at least 1.5 times the heaps' mean standard
/// deviation.
///
/// Calibrated by simulation: normal, uniform and skewed sets of 10 to 300 values are called
/// two-moded less than once in 200 sets (`tests::one_heap_is_rarely_called_two`). `None` below 8
/// values.
pub fn two_modes(values: &[f64]) -> Option<TwoModes> {
    const FEWEST: usize = 8;
    const GAP: f64 = 1.5;
    let n = values.len();
    let needed = 4.0 + 50.0 / n as f64;
    if n < FEWEST {
        return None;
    }
    let ordered = sorted(values);
    let least = (n / 6).max(3);
    let split = (least..=n - least).max_by(|a, b| {
        let gap = |i: usize| ordered.get(i).zip(ordered.get(i.wrapping_sub(1))).map(|(h, l)| h - l);
        gap(*a).unwrap_or(0.0).total_cmp(&gap(*b).unwrap_or(0.0))
    })?;
    let (low, high) = ordered.split_at(split);
    let (l, h) = (Moments::of(low)?, Moments::of(high)?);
    let gap = (*low.last()?, *high.first()?);
    let spread = l.variance + h.variance;
    let apart = std::f64::consts::SQRT_2 * (h.mean - l.mean) / spread.sqrt();
    let wide = gap.1 - gap.0 >= GAP * 0.5 * (l.sd() + h.sd());
    // Two constant heaps: rounded data of two neighbouring values are one mode, so a spread is
    // asked for in at least one of them, or a gap of a ten-thousandth of the values' size.
    let clear = if spread > 0.0 {
        apart >= needed && wide
    } else {
        gap.1 - gap.0 > 1e-4 * gap.0.abs().max(gap.1.abs())
    };
    clear.then_some(TwoModes {
        low_count: low.len(),
        low_mean: l.mean,
        high_count: high.len(),
        high_mean: h.mean,
        gap,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::bootstrap::Random;

    #[test]
    fn twenty_and_ten() {
        let mut random = Random::new(5);
        let mut values: Vec<f64> = (0..20).map(|_| 194.1 + 0.8 * random.normal()).collect();
        values.extend((0..10).map(|_| 201.4 + 0.8 * random.normal()));
        let modes = two_modes(&values).unwrap();
        assert_eq!((modes.low_count, modes.high_count), (20, 10));
        assert!((modes.high_mean - 201.4).abs() < 1.0);
    }

    #[test]
    fn one_heap_is_rarely_called_two() {
        let mut random = Random::new(9);
        for n in [10, 30, 100, 300] {
            for shape in 0..3 {
                let mut found = 0;
                for _ in 0..1000 {
                    let draw = |r: &mut Random| match shape {
                        0 => r.normal(),
                        1 => r.unit(),
                        _ => -r.unit().ln(),
                    };
                    let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
                    found += u32::from(two_modes(&values).is_some());
                }
                assert!(found <= 5, "n {n} shape {shape}: {found} of 1000");
            }
        }
    }

    #[test]
    fn constant_and_small_sets() {
        assert_eq!(two_modes(&[1.0; 20]), None);
        assert_eq!(two_modes(&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0]), None);
    }
}
