//! Runs nested in boots: y = mu + boot + run. Thirty runs of three boots are not thirty independent
//! values, because everything that a boot fixes (memory layout, interrupt placement, turbo budget)
//! is shared by its runs. So the boot mean is the unit.
//!
//! Model: variance B between boots, W within. Variance of a set's mean = B/a + W/(a m): more runs
//! a boot never remove B/a. Estimates by analysis of variance (Searle, Casella and McCulloch 1992,
//! ch. 3), unbalanced counts included. Unit of B and W: that of the values, squared.

use super::distribution::{chi_square_upper, f_sf};
use super::summary::{Moments, mean, sum};
use super::welch::{Difference, equal_variances, pooled, welch};

/// Fewest boots from which a spread between boots can be seen.
pub const FEWEST_BOOTS: usize = 3;

/// Boots from which Welch is used whatever the variances: it then costs nothing.
const BOOTS_FOR_WELCH: f64 = 5.0;

/// Below this p value of the F ratio the variances of two sets of boot means count as different.
const VARIANCES_DIFFER: f64 = 0.01;

/// Variance components of a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Components {
    /// Boots, a.
    pub boots: usize,
    /// Runs in all.
    pub runs: usize,
    /// Runs a boot in the sense of the formulas: (N - sum m_i^2 / N) / (a - 1), which is m when
    /// all boots have m runs.
    pub runs_per_boot: f64,
    /// Between boots, B: (MSB - MSW) / m, as estimated. A negative estimate means "none to be seen"
    /// and is kept here; [`Components::between`] is never below zero.
    pub between_raw: f64,
    /// Within boots, W = MSW.
    pub within: f64,
    /// F = MSB / MSW. `None` when the runs of each boot are all equal.
    pub f: Option<f64>,
    /// Probability of such an F without any boot effect.
    pub p: Option<f64>,
}

impl Components {
    /// Variance between boots, not below zero.
    pub fn between(&self) -> f64 {
        self.between_raw.max(0.0)
    }

    /// Share of the variance of one run that its boot explains: B / (B + W), 0 to 1. `None` when
    /// nothing varies.
    pub fn icc(&self) -> Option<f64> {
        let total = self.between() + self.within;
        (total > 0.0).then(|| self.between() / total)
    }

    /// Upper limit of B at one-sided `confidence` (0.8), because three boots show B badly: from
    /// the chi-square limit of MSB, (MSB (a-1) / chi2(1 - confidence) - MSW) / m, not below zero.
    pub fn between_upper(&self, confidence: f64) -> Option<f64> {
        let freedom = self.boots.checked_sub(1)? as f64;
        let quantile = chi_square_upper(confidence, freedom)?;
        let between_squares = self.between_raw * self.runs_per_boot + self.within;
        Some(((between_squares * freedom / quantile - self.within) / self.runs_per_boot).max(0.0))
    }
}

/// Variance components. `None` with fewer than two boots, or when no boot has two runs.
pub fn components(boots: &[Vec<f64>]) -> Option<Components> {
    let a = boots.len();
    let runs: usize = boots.iter().map(Vec::len).sum();
    if a < 2 || runs <= a || boots.iter().any(Vec::is_empty) {
        return None;
    }
    let n = runs as f64;
    let grand = sum(boots.iter().flatten().copied()) / n;
    let means = boot_means(boots);
    let between_squares =
        sum(boots.iter().zip(&means).map(|(b, m)| b.len() as f64 * (m - grand) * (m - grand)));
    let within_squares =
        sum(boots.iter().zip(&means).flat_map(|(b, m)| b.iter().map(move |x| (x - m) * (x - m))));
    let msb = between_squares / (a as f64 - 1.0);
    let msw = within_squares / (n - a as f64);
    let squares: f64 = boots.iter().map(|b| (b.len() * b.len()) as f64).sum();
    let m = (n - squares / n) / (a as f64 - 1.0);
    let f = (msw > 0.0).then(|| msb / msw);
    Some(Components {
        boots: a,
        runs,
        runs_per_boot: m,
        between_raw: (msb - msw) / m,
        within: msw,
        f,
        p: f.map(|f| f_sf(f, a as f64 - 1.0, n - a as f64)),
    })
}

/// Mean of each boot. The unweighted mean of these is the set's mean: a boot with more runs is not
/// more of a boot.
pub fn boot_means(boots: &[Vec<f64>]) -> Vec<f64> {
    boots.iter().filter_map(|b| mean(b)).collect()
}

/// How a difference was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Pooled t on boot means.
    Pooled,
    /// Welch on boot means.
    Welch,
}

/// Difference of two sets of boot means: pooled t when either set has fewer than 5 boots and the
/// variances do not clearly differ (F ratio, p >= 0.01), else Welch.
///
/// With three boots a side Welch loses half of its degrees of freedom to chance differences of two
/// guessed variances, and its intervals are too wide; the pooled t holds its level.
pub fn difference(base: &Moments, set: &Moments) -> Option<(Difference, Method)> {
    let few = base.n < BOOTS_FOR_WELCH || set.n < BOOTS_FOR_WELCH;
    let differ = equal_variances(base, set).is_some_and(|p| p < VARIANCES_DIFFER);
    if few && !differ {
        return Some((pooled(base, set)?, Method::Pooled));
    }
    Some((welch(base, set)?, Method::Welch))
}

/// Difference of paired values (boot means of boots that both sets share): t on the pairwise
/// differences, a - 1 degrees of freedom. `None` for fewer than two pairs.
pub fn paired(base: &[f64], set: &[f64]) -> Option<Difference> {
    if base.len() != set.len() {
        return None;
    }
    let differences: Vec<f64> = base.iter().zip(set).map(|(a, b)| b - a).collect();
    let m = Moments::of(&differences)?;
    Difference::new(m.mean, m.standard_error(), m.n - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-9 * want.abs(), "{got:e} wanted {want:e}");
    }

    #[test]
    fn balanced_components_by_hand() {
        // Means 2, 5, 8; grand 5; SSB = 3 * (9 + 0 + 9) = 54, MSB = 27; SSW = 6, MSW = 1.
        let boots = vec![vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0], vec![7.0, 8.0, 9.0]];
        let c = components(&boots).unwrap();
        assert_eq!((c.within, c.runs_per_boot), (1.0, 3.0));
        near(c.between_raw, 26.0 / 3.0);
        near(c.icc().unwrap(), (26.0 / 3.0) / (29.0 / 3.0));
        near(c.f.unwrap(), 27.0);
        // F with 2 and 6: (1 + f d1/d2)^-(d2/2) = 10^-3.
        near(c.p.unwrap(), 0.001);
        // chi-square with 2 df exceeded with 0.8: -2 ln 0.8.
        near(c.between_upper(0.8).unwrap(), (27.0 * 2.0 / (-2.0 * 0.8f64.ln()) - 1.0) / 3.0);
    }

    #[test]
    fn unbalanced_and_negative() {
        let boots = vec![vec![1.0, 5.0], vec![2.0, 4.0, 3.0], vec![3.0]];
        let c = components(&boots).unwrap();
        near(c.runs_per_boot, (6.0 - 14.0 / 6.0) / 2.0);
        assert!(c.between_raw < 0.0 && c.between() == 0.0);
        assert_eq!(c.icc(), Some(0.0));
    }

    #[test]
    fn what_cannot_be_told() {
        assert_eq!(components(&[vec![1.0, 2.0]]), None);
        assert_eq!(components(&[vec![1.0], vec![2.0]]), None);
        let constant = components(&[vec![1.0, 1.0], vec![1.0, 1.0]]).unwrap();
        assert_eq!((constant.f, constant.icc()), (None, None));
    }

    #[test]
    fn pairs() {
        let d = paired(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).unwrap();
        near(d.estimate, 2.0);
        near(d.standard_error, 1.0 / 3f64.sqrt());
        assert_eq!(d.df, 2.0);
        assert_eq!(paired(&[1.0], &[1.0]), None);
    }

    /// The same setting measured twice must be called different in 4 to 6 % of the trials,
    /// whatever part of the variance lies between boots; more trials are in the bench.
    #[test]
    fn false_alarms_keep_their_rate() {
        use crate::offline::bootstrap::Random;
        const TRIALS: u32 = 4000;
        for icc in [0.0f64, 0.3, 0.8] {
            let mut random = Random::new(4);
            let mut set = || {
                let boots: Vec<Vec<f64>> = (0..3)
                    .map(|_| {
                        let level = icc.sqrt() * random.normal();
                        (0..10).map(|_| level + (1.0 - icc).sqrt() * random.normal()).collect()
                    })
                    .collect();
                Moments::of(&boot_means(&boots)).unwrap()
            };
            let alarms =
                (0..TRIALS).filter(|_| difference(&set(), &set()).unwrap().0.p < 0.05).count();
            let share = alarms as f64 / f64::from(TRIALS);
            assert!((0.04..=0.06).contains(&share), "icc {icc}: {share}");
        }
    }

    #[test]
    fn few_boots_pool_and_many_do_not() {
        let few = Moments::printed(3.0, 1.0, 1.0);
        let wide = Moments::printed(3.0, 1.0, 1e3);
        let many = Moments::printed(5.0, 1.0, 1.0);
        assert_eq!(difference(&few, &few).unwrap().1, Method::Pooled);
        assert_eq!(difference(&few, &wide).unwrap().1, Method::Welch);
        assert_eq!(difference(&many, &many).unwrap().1, Method::Welch);
    }
}
