//! Difference of two means: Student's t with pooled variance, and Welch's with a variance each.
//!
//! Sources: Student 1908; Welch 1947 with Satterthwaite's degrees of freedom (1946). Assume values
//! that are independent of each other: runs of one boot are not, see [`super::nested`].

use super::distribution::{f_sf, t_factor, t_two_sided};
use super::summary::Moments;

/// A difference of two means with what is needed to judge it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Second mean less first (the baseline), in the unit of the values.
    pub estimate: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Degrees of freedom; not always whole.
    pub df: f64,
    /// Two-sided p value of "no difference".
    pub p: f64,
}

impl Difference {
    /// From an estimate, its standard error and degrees of freedom. `None` without freedom or with
    /// numbers that are not finite. Without any spread the p value is 1 for no difference and 0 for
    /// any.
    pub fn new(estimate: f64, standard_error: f64, df: f64) -> Option<Self> {
        if !(estimate.is_finite()
            && standard_error >= 0.0
            && standard_error.is_finite()
            && df > 0.0)
        {
            return None;
        }
        let p = if standard_error > 0.0 {
            t_two_sided(estimate / standard_error, df)
        } else if estimate == 0.0 {
            1.0
        } else {
            0.0
        };
        Some(Self { estimate, standard_error, df, p })
    }

    /// Half width of the interval at `level` (0.95).
    pub fn half_width(&self, level: f64) -> Option<f64> {
        Some(t_factor(1.0 - level, self.df)? * self.standard_error)
    }
}

/// Welch: standard error sqrt(v1/n1 + v2/n2), degrees of freedom
/// (v1/n1 + v2/n2)^2 / ((v1/n1)^2/(n1-1) + (v2/n2)^2/(n2-1)).
pub fn welch(base: &Moments, set: &Moments) -> Option<Difference> {
    let (a, b) = (base.variance / base.n, set.variance / set.n);
    let df = satterthwaite(&[(a, base.n - 1.0), (b, set.n - 1.0)])?;
    Difference::new(set.above(base), (a + b).sqrt(), df)
}

/// Student: pooled variance ((n1-1) v1 + (n2-1) v2) / (n1+n2-2), so many degrees of freedom.
pub fn pooled(base: &Moments, set: &Moments) -> Option<Difference> {
    let error = pooled_sd(base, set)? * (1.0 / base.n + 1.0 / set.n).sqrt();
    Difference::new(set.above(base), error, base.n + set.n - 2.0)
}

/// Pooled standard deviation.
pub fn pooled_sd(base: &Moments, set: &Moments) -> Option<f64> {
    let df = base.n + set.n - 2.0;
    if df <= 0.0 {
        return None;
    }
    Some((((base.n - 1.0) * base.variance + (set.n - 1.0) * set.variance) / df).sqrt())
}

/// Satterthwaite's degrees of freedom of a sum of independent variance estimates, each with its
/// own: (sum v)^2 / sum(v^2 / df). Without any variance: the sum of the degrees of freedom.
pub fn satterthwaite(parts: &[(f64, f64)]) -> Option<f64> {
    let largest = parts.iter().map(|p| p.0).fold(0.0, f64::max);
    let all: f64 = parts.iter().map(|p| p.1).sum();
    if largest == 0.0 {
        return (all > 0.0).then_some(all);
    }
    // Divided by the largest first: squares of 1e-18 would vanish.
    let total: f64 = parts.iter().map(|p| p.0 / largest).sum();
    let below: f64 = parts.iter().map(|p| (p.0 / largest) * (p.0 / largest) / p.1).sum();
    let df = total * total / below;
    (df.is_finite() && df > 0.0).then_some(df)
}

/// Two-sided p value of "both variances are equal" by the F ratio. Sensitive to non-normal data.
/// `None` when neither set varies.
pub fn equal_variances(a: &Moments, b: &Moments) -> Option<f64> {
    let (large, small) = if a.variance >= b.variance { (a, b) } else { (b, a) };
    if large.variance == 0.0 {
        return None;
    }
    let upper = f_sf(large.variance / small.variance, large.n - 1.0, small.n - 1.0);
    Some((2.0 * upper).min(1.0))
}

/// Bartlett's test that all sets have one variance: p value by chi-square with k - 1 degrees of
/// freedom. `None` for fewer than two sets or where a set does not vary at all.
pub fn bartlett(sets: &[Moments]) -> Option<f64> {
    if sets.len() < 2 || sets.iter().any(|s| s.variance <= 0.0 || s.n < 2.0) {
        return None;
    }
    let k = sets.len() as f64;
    let freedom: f64 = sets.iter().map(|s| s.n - 1.0).sum();
    let pooled = sets.iter().map(|s| (s.n - 1.0) * s.variance).sum::<f64>() / freedom;
    let logs: f64 = sets.iter().map(|s| (s.n - 1.0) * (s.variance / pooled).ln()).sum();
    let inverse: f64 = sets.iter().map(|s| 1.0 / (s.n - 1.0)).sum();
    let correction = 1.0 + (inverse - 1.0 / freedom) / (3.0 * (k - 1.0));
    Some(super::distribution::chi_square_sf(-logs / correction, k - 1.0))
}

#[cfg(test)]
#[allow(clippy::excessive_precision, reason = "references stand as they were computed")]
mod tests {
    use super::*;

    fn moments(n: f64, mean: f64, sd: f64) -> Moments {
        Moments::printed(n, mean, sd)
    }

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-9 * want.abs(), "{got:e} wanted {want:e}");
    }

    #[test]
    fn known_answers() {
        // References by 40-digit arithmetic for 27.5 21 19 23.6 17 17.9 against 27.1 22 20.8 23.4.
        let a = Moments::of(&[27.5, 21.0, 19.0, 23.6, 17.0, 17.9]).unwrap();
        let b = Moments::of(&[27.1, 22.0, 20.8, 23.4]).unwrap();
        let w = welch(&a, &b).unwrap();
        near(w.estimate, WELCH.0);
        near(w.standard_error, WELCH.1);
        near(w.df, WELCH.2);
        near(w.p, WELCH.3);
        let s = pooled(&a, &b).unwrap();
        near(s.p, POOLED_P);
        assert_eq!(s.df, 8.0);
    }

    const WELCH: (f64, f64, f64, f64) =
        (2.325, 2.118_086_793_940_858_9, 7.943_443_239_410_941_9, 0.304_496_739_456_165_41);
    const POOLED_P: f64 = 0.340_413_029_353_752_4;

    #[test]
    fn printed_tables_of_others() {
        // UDP over IPv4 against IPv6, packets per second, 30 runs each.
        let udp4 = moments(30.0, 294_963.19, 1_826.950_6);
        let udp6 = moments(30.0, 196_752.63, 3_732.036_7);
        let s = pooled(&udp4, &udp6).unwrap();
        assert_eq!(format!("{:.2}", s.half_width(0.95).unwrap()), "1518.57");
        let w = welch(&udp4, &udp6).unwrap();
        assert_eq!(format!("{:.2}", w.half_width(0.95).unwrap()), "1530.83");
        assert_eq!(format!("{:.1}", w.df), "42.1");
        assert_eq!(format!("{:.0e}", s.p), "4e-73");
        // TCP over IPv6 with and without offload, Mbit/s.
        let on = moments(30.0, 8_247.043_3, 284.035_15);
        let off = moments(30.0, 4_172.712_7, 82.614_191);
        assert_eq!(
            format!("{:.3}", pooled(&on, &off).unwrap().half_width(0.95).unwrap()),
            "108.106"
        );
        let w = welch(&on, &off).unwrap();
        assert_eq!(format!("{:.2}", w.half_width(0.95).unwrap()), "109.77");
        assert_eq!(format!("{:.1}", w.df), "33.9");
    }

    #[test]
    fn constant_sets_have_a_p_value() {
        let a = moments(3.0, 5.0, 0.0);
        assert_eq!(welch(&a, &a).unwrap().p, 1.0);
        assert_eq!(welch(&a, &moments(3.0, 6.0, 0.0)).unwrap().p, 0.0);
        assert_eq!(equal_variances(&a, &a), None);
        assert_eq!(bartlett(&[a, a]), None);
    }

    #[test]
    fn scale_does_not_matter() {
        let at = |s: f64| {
            let a = Moments::of(&[1.0 * s, 2.0 * s, 4.0 * s]).unwrap();
            let b = Moments::of(&[3.0 * s, 5.0 * s, 9.0 * s]).unwrap();
            welch(&a, &b).unwrap()
        };
        for scale in [1e-9, 1e9, 1e-150] {
            near(at(scale).p, at(1.0).p);
            near(at(scale).df, at(1.0).df);
        }
    }
}
