//! Equivalence: two one-sided tests (Schuirmann 1987). "No difference proven" is not "the same";
//! this test can prove that a difference, if any, is smaller than a margin set beforehand.

use super::distribution::t_sf;

/// The larger of the two one-sided p values: below alpha, the difference lies within the margin
/// and the 1 - 2 alpha interval within it too. Both arguments are one-sided statistics: how many
/// standard errors the estimate lies above the lower margin and below the upper one.
pub fn p(above_lower: f64, below_upper: f64, df: f64) -> f64 {
    t_sf(above_lower, df).max(t_sf(below_upper, df))
}

/// Equivalence of a difference within plus or minus an absolute margin, in its own unit.
///
/// `None` unless the margin is positive. Without spread: 0 inside the margin, 1 outside.
pub fn absolute(estimate: f64, standard_error: f64, df: f64, margin: f64) -> Option<f64> {
    if !(margin > 0.0 && df > 0.0) {
        return None;
    }
    Some(p(score(estimate + margin, standard_error), score(margin - estimate, standard_error), df))
}

/// Distance in standard errors; endless when there is no spread.
pub fn score(distance: f64, standard_error: f64) -> f64 {
    if standard_error > 0.0 {
        distance / standard_error
    } else if distance > 0.0 {
        f64::INFINITY
    } else {
        f64::NEG_INFINITY
    }
}

/// Equivalence of a ratio: both contrasts `set - k base` at k = 1 - margin and 1 + margin, each
/// with its own standard error, so that the error of the baseline counts (Sasabuchi 1988). The
/// pairs are (mean, squared standard error).
pub fn relative(
    (base, base_squared_error): (f64, f64),
    (set, set_squared_error): (f64, f64),
    covariance: f64,
    df: f64,
    margin: f64,
) -> Option<f64> {
    if !(margin > 0.0 && df > 0.0) || base == 0.0 {
        return None;
    }
    let side = |k: f64| {
        let squared = set_squared_error - 2.0 * k * covariance + k * k * base_squared_error;
        // For a negative baseline both means change their sign; the ratio does not.
        score((set - k * base) * base.signum(), squared.max(0.0).sqrt())
    };
    Some(p(side(1.0 - margin), -side(1.0 + margin), df))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::distribution::t_factor;

    #[test]
    fn it_turns_where_the_90_percent_interval_touches_the_margin() {
        let half = t_factor(0.1, 20.0).unwrap() * 2.0;
        let at = absolute(0.5, 2.0, 20.0, 0.5 + half).unwrap();
        assert!((at - 0.05).abs() < 1e-12, "{at}");
        assert!(absolute(0.5, 2.0, 20.0, 0.6 + half).unwrap() < 0.05);
        assert_eq!(absolute(0.5, 2.0, 20.0, 0.0), None);
    }

    #[test]
    fn without_spread() {
        assert_eq!(absolute(0.5, 0.0, 20.0, 1.0), Some(0.0));
        assert_eq!(absolute(1.5, 0.0, 20.0, 1.0), Some(1.0));
    }

    #[test]
    fn a_relative_margin_does_not_care_for_sign_or_scale() {
        let one = relative((100.0, 0.01), (100.2, 0.01), 0.0, 10.0, 0.01).unwrap();
        let two = relative((-1e-7, 1e-20), (-1.002e-7, 1e-20), 0.0, 10.0, 0.01).unwrap();
        assert!((one - two).abs() < 1e-9 * one, "{one} {two}");
        assert!(one < 0.05);
        assert_eq!(relative((0.0, 0.1), (0.0, 0.1), 0.0, 10.0, 0.01), None);
    }
}
