//! How small a difference a design can show, and how large a design must be to show a given one.
//!
//! Power of the two-sided t test: P(|T'| > t) for the noncentral t with noncentrality
//! difference / standard error, by averaging the normal distribution over the scaled chi (no
//! series, so no cancellation). Planning over boots and runs: Cochran 1977; Kalibera and Jones 2013.
//! Never add runs until something turns significant: plan, run the plan, look once.

use super::distribution::{normal_sf, scaled_chi_nodes, t_factor};

/// The power that plans aim at.
pub const TARGET: f64 = 0.8;

/// Boots or runs a side beyond which a plan is not worth printing.
pub const MOST: u64 = 10_000_000;

/// Upper tail of the noncentral t: P(T' > t).
pub fn noncentral_t_sf(t: f64, df: f64, noncentrality: f64) -> f64 {
    scaled_chi_nodes(df, 2.0 + noncentrality.abs())
        .into_iter()
        .map(|(s, weight)| weight * normal_sf(t * s - noncentrality))
        .sum()
}

/// Power of the two-sided test at `level` (0.95) for a difference of `effect` standard errors.
pub fn power(effect: f64, df: f64, level: f64) -> Option<f64> {
    let t = t_factor(1.0 - level, df)?;
    let effect = effect.abs();
    // Both tails; the far one matters only for tiny effects.
    Some(noncentral_t_sf(t, df, effect) + noncentral_t_sf(t, df, -effect))
}

/// The effect in standard errors that is found with [`TARGET`] power.
pub fn detectable(df: f64, level: f64) -> Option<f64> {
    let t = t_factor(1.0 - level, df)?;
    let (mut low, mut high) = (0.0, t + 2.0);
    while power(high, df, level)? < TARGET {
        high *= 2.0;
        if high > 1e6 {
            return None;
        }
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if power(middle, df, level)? < TARGET {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-10 * high {
            break;
        }
    }
    Some(0.5 * (low + high))
}

/// Units a side needed to find `difference` with [`TARGET`] power when one unit (a run, or a boot's
/// mean) has variance `variance`: least n >= 2 with power at df 2n - 2 and standard error
/// sqrt(2 variance / n). `None` beyond [`MOST`] or for no difference.
pub fn units_needed(difference: f64, variance: f64, level: f64) -> Option<u64> {
    search(difference, 2.0 * variance, |n| 2.0 * n - 2.0, level)
}

/// Pairs needed when the difference within one pair has variance `variance`: df n - 1 and standard
/// error sqrt(variance / n).
pub fn pairs_needed(difference: f64, variance: f64, level: f64) -> Option<u64> {
    search(difference, variance, |n| n - 1.0, level)
}

fn search(difference: f64, variance: f64, df: impl Fn(f64) -> f64, level: f64) -> Option<u64> {
    let difference = difference.abs();
    let sound = difference > 0.0 && variance >= 0.0;
    if !(sound && difference.is_finite() && variance.is_finite()) {
        return None;
    }
    let enough = |n: u64| -> Option<bool> {
        let n = n as f64;
        let error = (variance / n).sqrt();
        // Beyond forty errors the answer is plain, and the quadrature would need ever finer steps.
        if error == 0.0 || difference / error > 40.0 {
            return Some(true);
        }
        Some(power(difference / error, df(n), level)? >= TARGET)
    };
    let (mut low, mut high) = (1, 2);
    while !enough(high)? {
        low = high;
        high *= 2;
        if high > MOST {
            return None;
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle)? { high = middle } else { low = middle }
    }
    Some(high)
}

/// A design of boots and runs, for each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Boots of each set.
    pub boots: u64,
    /// Runs of each boot.
    pub runs_per_boot: u64,
}

impl Plan {
    /// Runs of one set.
    pub fn total(&self) -> u64 {
        self.boots.saturating_mul(self.runs_per_boot)
    }
}

/// Boots needed with `runs_per_boot` runs each, when B is `between` and W `within`; at least 3,
/// with which the boot effect can be seen at all.
pub fn boots_needed(
    difference: f64,
    between: f64,
    within: f64,
    runs_per_boot: u64,
    level: f64,
) -> Option<Plan> {
    let m = runs_per_boot.max(1);
    let boots = units_needed(difference, between + within / m as f64, level)?;
    Some(Plan { boots: boots.max(super::nested::FEWEST_BOOTS as u64), runs_per_boot: m })
}

#[cfg(test)]
#[allow(clippy::excessive_precision, reason = "references stand as they were computed")]
mod tests {
    use super::*;

    /// References by 30-digit quadrature.
    #[test]
    fn noncentral_t() {
        for (t, df, delta, want) in KNOWN {
            let got = noncentral_t_sf(t, df, delta);
            assert!((got - want).abs() <= 1e-9 * want, "{t} {df} {delta}: {got:e} {want:e}");
        }
    }

    const KNOWN: [(f64, f64, f64, f64); 7] = [
        (2.0017, 58.0, 2.8, 0.786_232_479_996_911_4),
        (4.302_652_729_749_464, 2.0, 3.0, 0.387_389_350_200_668),
        (2.776, 4.0, 0.5, 0.058_788_380_215_028_82),
        (2.776, 4.0, -0.5, 0.009_096_417_359_841_944),
        (1.96, 10_000.0, 2.8, 0.799_536_929_714_764),
        (3.0, 7.5, 0.0, 0.009_195_469_304_102_255),
        (12.7, 1.0, 20.0, 0.883_571_821_474_731),
    ];

    /// Boots a side for 80 % power to see 1 % when the run's sd is 1 %; rows are the boot's sd,
    /// columns 1, 3, 5, 10, 30 runs a boot.
    #[test]
    fn the_planning_table() {
        for (boot_sd, want) in [
            (0.0, [17, 7, 5, 3, 3]),
            (0.25, [18, 8, 6, 4, 3]),
            (0.5, [21, 11, 9, 7, 6]),
            (1.0, [33, 22, 20, 19, 18]),
            (2.0, [80, 69, 67, 66, 65]),
        ] {
            let got = [1, 3, 5, 10, 30]
                .map(|m| boots_needed(1.0, boot_sd * boot_sd, 1.0, m, 0.95).unwrap().boots);
            assert_eq!(got, want, "boot sd {boot_sd}");
        }
    }

    #[test]
    fn what_has_no_plan() {
        assert_eq!(units_needed(0.0, 1.0, 0.95), None);
        assert_eq!(units_needed(1e-9, 1.0, 0.95), None);
        assert_eq!(units_needed(1.0, 0.0, 0.95), Some(2));
    }

    #[test]
    fn detectable_effect_has_the_target_power() {
        for df in [4.0, 58.0, 1000.0] {
            let effect = detectable(df, 0.95).unwrap();
            assert!((power(effect, df, 0.95).unwrap() - TARGET).abs() < 1e-9);
        }
    }
}
