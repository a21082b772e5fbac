//! Interval of a ratio of two means (Fieller 1954), which takes the error of the baseline into
//! account. The set of ratios that the data do not refute need not be an interval: with a baseline
//! that cannot be distinguished from zero it is unbounded, and that is the honest answer.

use super::distribution::t_factor;

/// The ratios that are compatible with the data. No unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RatioInterval {
    /// Between two bounds.
    Bounded {
        /// Least ratio.
        low: f64,
        /// Largest ratio.
        high: f64,
    },
    /// Unbounded: the baseline cannot be distinguished from zero.
    Unbounded,
}

/// Interval of `set / base` at `level`, from both means, their squared standard errors, their
/// covariance (0 unless paired) and the degrees of freedom of the errors.
///
/// Solves (set - r base)^2 <= t^2 (vs - 2 r c + r^2 vb) for r. `None` without degrees of freedom.
pub fn ratio(
    base: (f64, f64),
    set: (f64, f64),
    covariance: f64,
    df: f64,
    level: f64,
) -> Option<RatioInterval> {
    let t = t_factor(1.0 - level, df)?;
    ratio_with_factor(base, set, covariance, t)
}

/// The same with a given factor in place of Student's t.
pub fn ratio_with_factor(
    (base, base_squared_error): (f64, f64),
    (set, set_squared_error): (f64, f64),
    covariance: f64,
    factor: f64,
) -> Option<RatioInterval> {
    // Everything in units of the baseline, so that values of 1e-200 do not underflow.
    if base == 0.0 || !base.is_finite() || !set.is_finite() {
        return Some(RatioInterval::Unbounded);
    }
    let t2 = factor * factor;
    let r = set / base;
    let vb = base_squared_error / base / base;
    let vs = set_squared_error / base / base;
    let c = covariance / base / base;
    let a = 1.0 - t2 * vb;
    if a.is_nan() || a <= 0.0 {
        return Some(RatioInterval::Unbounded);
    }
    // The half discriminant in a form that does not cancel when the errors are small.
    let under = t2 * (vs - 2.0 * r * c + r * r * vb - t2 * (vb * vs - c * c));
    let root = under.max(0.0).sqrt();
    let middle = r - t2 * c;
    let (low, high) = ((middle - root) / a, (middle + root) / a);
    (low.is_finite() && high.is_finite()).then_some(RatioInterval::Bounded { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_where_the_t_test_of_the_ratio_turns() {
        let (base, set, c, df) = ((100.0, 4.0), (120.0, 9.0), 1.5, 7.0);
        let Some(RatioInterval::Bounded { low, high }) = ratio(base, set, c, df, 0.95) else {
            panic!("unbounded");
        };
        let t = t_factor(0.05, df).unwrap();
        for r in [low, high] {
            let z = (set.0 - r * base.0) / (set.1 - 2.0 * r * c + r * r * base.1).sqrt();
            assert!((z.abs() - t).abs() < 1e-9 * t, "{z} {t}");
        }
        assert!(low < 1.2 && high > 1.2);
    }

    #[test]
    fn a_baseline_around_zero_has_no_bounds() {
        assert_eq!(ratio((1.0, 4.0), (5.0, 1.0), 0.0, 4.0, 0.95), Some(RatioInterval::Unbounded));
        assert_eq!(ratio((0.0, 0.0), (5.0, 1.0), 0.0, 4.0, 0.95), Some(RatioInterval::Unbounded));
    }

    #[test]
    fn small_scales_and_negative_baselines() {
        let at = |s: f64| ratio((100.0 * s, 4.0 * s * s), (120.0 * s, 9.0 * s * s), 0.0, 7.0, 0.95);
        let (
            Some(RatioInterval::Bounded { low, high }),
            Some(RatioInterval::Bounded { low: l, high: h }),
        ) = (at(1.0), at(-1e-9))
        else {
            panic!("unbounded");
        };
        assert!((low - l).abs() < 1e-12 && (high - h).abs() < 1e-12);
    }
}
