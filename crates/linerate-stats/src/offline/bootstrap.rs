//! Bootstrap interval, bias-corrected and accelerated (BCa, Efron 1987), of any statistic of two
//! sets. A second opinion for statistics without a formula (difference of medians); on few boots it
//! is too narrow, so it is computed on runs only when boots are unknown, or on ten boots and more.

use super::distribution::{normal_cdf, normal_quantile};
use super::summary::{mean, quantile, sorted};

/// Resamples taken: enough that the ends of a 95 % interval move by less than 1 % of its width.
pub const RESAMPLES: usize = 10_000;

/// The seed unless one is given. Printed with every interval, so that it can be repeated.
pub const DEFAULT_SEED: u64 = 1;

/// Values above which the statistic is too slow to take ten thousand times.
pub const MOST_VALUES: usize = 5_000;

/// Random numbers by SplitMix64 (Steele, Lea and Flood 2014). Own code, because a printed seed must
/// repeat its interval in every later version, which no random number crate promises.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number below `n`; the bias, below n / 2^64, is none for any set that fits memory.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Uniform above 0 and at most 1.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller's formula.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (2.0 * std::f64::consts::PI * self.unit()).cos()
    }
}

/// BCa interval of `statistic(base, set)`. `None` when a set has fewer than 3 values or more than
/// [`MOST_VALUES`], or when the statistic does not vary over the resamples.
pub fn bca(
    base: &[f64],
    set: &[f64],
    level: f64,
    seed: u64,
    statistic: impl Fn(&mut [f64], &mut [f64]) -> Option<f64>,
) -> Option<(f64, f64)> {
    let sizes = [base.len(), set.len()];
    if sizes.iter().any(|n| *n < 3 || *n > MOST_VALUES) {
        return None;
    }
    let observed = statistic(&mut base.to_vec(), &mut set.to_vec())?;
    let mut random = Random::new(seed);
    let (mut a, mut b) = (base.to_vec(), set.to_vec());
    let mut resampled = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for (to, from) in [(&mut a, base), (&mut b, set)] {
            for slot in to.iter_mut() {
                *slot = *from.get(random.below(from.len()))?;
            }
        }
        resampled.push(statistic(&mut a, &mut b)?);
    }
    resampled.sort_unstable_by(f64::total_cmp);
    if resampled.first() == resampled.last() {
        return None;
    }
    let below = resampled.iter().filter(|x| **x < observed).count() as f64;
    let equal = resampled.iter().filter(|x| **x == observed).count() as f64;
    let share = (below + 0.5 * equal) / RESAMPLES as f64;
    let bias = normal_quantile(share.clamp(0.5 / RESAMPLES as f64, 1.0 - 0.5 / RESAMPLES as f64))?;
    let acceleration = acceleration(base, set, &statistic)?;
    let end = |p: f64| {
        let z = bias + normal_quantile(p)?;
        let adjusted = normal_cdf(bias + z / (1.0 - acceleration * z));
        quantile(&resampled, adjusted)
    };
    let alpha = 1.0 - level;
    Some((end(alpha / 2.0)?, end(1.0 - alpha / 2.0)?))
}

/// Acceleration by the jackknife over both sets.
fn acceleration(
    base: &[f64],
    set: &[f64],
    statistic: &impl Fn(&mut [f64], &mut [f64]) -> Option<f64>,
) -> Option<f64> {
    let mut influences = Vec::with_capacity(base.len() + set.len());
    for first in [true, false] {
        let from = if first { base } else { set };
        let mut left_out = Vec::with_capacity(from.len());
        for i in 0..from.len() {
            let mut less = from.to_vec();
            less.swap_remove(i);
            left_out.push(if first {
                statistic(&mut less, &mut set.to_vec())?
            } else {
                statistic(&mut base.to_vec(), &mut less)?
            });
        }
        let middle = mean(&left_out)?;
        let n = from.len() as f64;
        // Influence of one value on the statistic; each set's weight is its own 1/n.
        influences.extend(left_out.iter().map(|value| (n - 1.0) * (middle - value) / n));
    }
    // In units of the largest, so that cubes of large values stay in range.
    let largest = influences.iter().map(|i: &f64| i.abs()).fold(0.0, f64::max);
    if largest == 0.0 {
        return Some(0.0);
    }
    let cubes: f64 = influences.iter().map(|i| (i / largest).powi(3)).sum();
    let squares: f64 = influences.iter().map(|i| (i / largest).powi(2)).sum();
    Some(cubes / (6.0 * squares.powf(1.5)))
}

/// Difference of medians, the statistic that compare uses.
pub fn median_difference(base: &mut [f64], set: &mut [f64]) -> Option<f64> {
    let middle = |values: &mut [f64]| {
        values.sort_unstable_by(f64::total_cmp);
        super::summary::median(values)
    };
    Some(middle(set)? - middle(base)?)
}

/// A percentile interval of the mean of nested data by resampling boots, then runs: the second
/// opinion for ten boots and more. With fewer it is far too narrow and gives `None`, as it does for a set of more than
/// [`MOST_VALUES`].
pub fn hierarchical(
    base: &[Vec<f64>],
    set: &[Vec<f64>],
    level: f64,
    seed: u64,
) -> Option<(f64, f64)> {
    const FEWEST_BOOTS: usize = 10;
    let few = |boots: &[Vec<f64>]| boots.len() < FEWEST_BOOTS;
    let many = |boots: &[Vec<f64>]| boots.iter().map(Vec::len).sum::<usize>() > MOST_VALUES;
    if [base, set].into_iter().any(|boots| few(boots) || many(boots)) {
        return None;
    }
    let mut random = Random::new(seed);
    let mut drawn = |boots: &[Vec<f64>]| -> Option<f64> {
        let mut total = 0.0;
        for _ in 0..boots.len() {
            let boot = boots.get(random.below(boots.len()))?;
            let mut inner = 0.0;
            for _ in 0..boot.len() {
                inner += boot.get(random.below(boot.len()))?;
            }
            total += inner / boot.len() as f64;
        }
        Some(total / boots.len() as f64)
    };
    let mut differences = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let first = drawn(base)?;
        differences.push(drawn(set)? - first);
    }
    let differences = sorted(&differences);
    let alpha = 1.0 - level;
    Some((quantile(&differences, alpha / 2.0)?, quantile(&differences, 1.0 - alpha / 2.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(seed: u64, n: usize, mean: f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..n).map(|_| mean + random.normal()).collect()
    }

    #[test]
    fn what_is_too_slow_to_resample_gives_none() {
        let boots =
            |each: usize| -> Vec<Vec<f64>> { (0..10).map(|boot| set(boot, each, 10.0)).collect() };
        let (few, many) = (boots(10), boots(MOST_VALUES / 10 + 1));
        assert!(hierarchical(&few, &few, 0.95, 1).is_some());
        assert_eq!(hierarchical(&few, &many, 0.95, 1), None);
        assert_eq!(hierarchical(&many, &few, 0.95, 1), None);
    }

    #[test]
    fn a_seed_repeats_its_interval() {
        let (a, b) = (set(1, 30, 10.0), set(2, 30, 12.0));
        let one = bca(&a, &b, 0.95, 7, median_difference).unwrap();
        assert_eq!(Some(one), bca(&a, &b, 0.95, 7, median_difference));
        assert_ne!(Some(one), bca(&a, &b, 0.95, 8, median_difference));
        assert!(one.0 > 0.5 && one.1 < 3.5, "{one:?}");
    }

    /// Of a difference of means of normal data BCa must come near the t interval.
    #[test]
    fn near_the_t_interval_for_normal_data() {
        let (a, b) = (set(3, 60, 0.0), set(4, 60, 1.0));
        let means = |a: &mut [f64], b: &mut [f64]| Some(mean(b)? - mean(a)?);
        let (low, high) = bca(&a, &b, 0.95, 1, means).unwrap();
        let m = |v: &[f64]| super::super::summary::Moments::of(v).unwrap();
        let t = super::super::welch::welch(&m(&a), &m(&b)).unwrap();
        let half = t.half_width(0.95).unwrap();
        assert!((low - (t.estimate - half)).abs() < 0.15 * half);
        assert!((high - (t.estimate + half)).abs() < 0.15 * half);
    }

    #[test]
    fn what_has_no_interval() {
        assert_eq!(bca(&[1.0; 5], &[1.0; 5], 0.95, 1, median_difference), None);
        assert_eq!(bca(&[1.0, 2.0], &[1.0; 5], 0.95, 1, median_difference), None);
        assert_eq!(hierarchical(&[vec![1.0]], &[vec![1.0]], 0.95, 1), None);
    }
}
