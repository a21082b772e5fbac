//! Several sets against one baseline with one chance of error for all (Dunnett 1955): the
//! distribution of the largest |t| when all comparisons share the baseline and a pooled variance.
//!
//! P(max |T| <= c) = E_s E_z prod_i [Phi((l_i z + c s)/r_i) - Phi((l_i z - c s)/r_i)], where
//! l_i = sqrt(n_i / (n_i + n_0)), r_i = sqrt(1 - l_i^2), z normal and s a scaled chi. Both averages
//! by the trapezoid rule, whose error here is below 1e-9. Limits: all sets must have one variance.

use super::distribution::{normal_cdf, normal_pdf, scaled_chi_nodes};

/// p value of the largest |t| of all comparisons being at least `t`: the adjusted p value.
/// `base` and `sets` are the counts of values (or boots). `None` for no sets or no freedom.
pub fn p(t: f64, base: f64, sets: &[f64], df: f64) -> Option<f64> {
    let free = df > 0.0 && base > 0.0 && t.is_finite();
    if sets.is_empty() || !free {
        return None;
    }
    let loads: Vec<f64> = sets.iter().map(|n| (n / (n + base)).sqrt()).collect();
    if loads.iter().any(|l| !(*l > 0.0 && *l < 1.0)) {
        return None;
    }
    // Between the p value of one comparison and Bonferroni's; far out, where the quadrature has no
    // digits left, Bonferroni's bound is near enough: it errs on the safe side.
    let one = super::distribution::t_two_sided(t, df);
    let most = (one * sets.len() as f64).min(1.0);
    if most < 1e-8 {
        return Some(most);
    }
    Some((1.0 - inside(t.abs(), &loads, df)).clamp(one, most))
}

/// The factor that replaces Student's t in simultaneous intervals at `level` (0.95).
pub fn factor(level: f64, base: f64, sets: &[f64], df: f64) -> Option<f64> {
    let alpha = 1.0 - level;
    let first = super::distribution::t_factor(alpha, df)?;
    // Between no adjustment and Bonferroni's.
    let mut low = first;
    let mut high = super::distribution::t_factor(alpha / sets.len() as f64, df)?;
    for _ in 0..60 {
        if high - low <= 1e-10 * high {
            break;
        }
        let middle = 0.5 * (low + high);
        if p(middle, base, sets, df)? > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}

fn inside(t: f64, loads: &[f64], df: f64) -> f64 {
    // Equal counts are the rule; a set of equal loads is one power.
    let mut groups: Vec<(f64, i32)> = Vec::new();
    for load in loads {
        match groups.iter_mut().find(|g| g.0 == *load) {
            Some(group) => group.1 += 1,
            None => groups.push((*load, 1)),
        }
    }
    let steepest = loads.iter().map(|l| l / (1.0 - l * l).sqrt()).fold(0.0, f64::max);
    let step = (0.4 / (1.0 + steepest)).min(0.125);
    let count = (8.5 / step).ceil() as i32;
    let given = |s: f64| -> f64 {
        let mut total = 0.0;
        for i in -count..=count {
            let z = f64::from(i) * step;
            let mut product = normal_pdf(z);
            for (load, power) in &groups {
                let rest = (1.0 - load * load).sqrt();
                let upper = normal_cdf((load * z + t * s) / rest);
                let lower = normal_cdf((load * z - t * s) / rest);
                product *= (upper - lower).powi(*power);
            }
            total += product;
        }
        total * step
    };
    scaled_chi_nodes(df, 2.0 + t).into_iter().map(|(s, weight)| weight * given(s)).sum()
}

#[cfg(test)]
#[allow(clippy::excessive_precision, reason = "references stand as they were computed")]
mod tests {
    use super::*;

    /// Two-sided factors at 95 % for equal counts, as in Dunnett's table (1964), and one of six
    /// sets of thirty.
    #[test]
    fn the_published_factors() {
        for (sets, df, want) in
            [(1, 10.0, 2.23), (2, 10.0, 2.57), (5, 20.0, 2.73), (3, 6.0, 3.10), (9, 60.0, 2.77)]
        {
            let got = factor(0.95, 10.0, &vec![10.0; sets], df).unwrap();
            assert!((got - want).abs() < 0.01, "{sets} {df}: {got}");
        }
        let got = factor(0.95, 30.0, &[30.0; 5], 174.0).unwrap();
        assert!((got - 2.536).abs() < 5e-4, "{got}");
    }

    #[test]
    fn one_set_is_students_t() {
        for (t, df) in [(2.0, 4.0), (3.5, 58.0), (0.5, 2.0)] {
            let want = crate::offline::distribution::t_two_sided(t, df);
            let got = p(t, 10.0, &[7.0], df).unwrap();
            assert!((got - want).abs() < 1e-9, "{t} {df}: {got} {want}");
        }
    }

    /// References by two-dimensional adaptive quadrature.
    #[test]
    fn known_answers() {
        for (t, base, sets, df, want) in KNOWN {
            let got = p(t, base, sets, df).unwrap();
            assert!((got - want).abs() < 1e-6 * want, "{t} {df}: {got} {want}");
        }
    }

    type Known = (f64, f64, &'static [f64], f64, f64);
    const KNOWN: [Known; 3] = [
        (2.5, 30.0, &[30.0; 5], 174.0, 0.054_753_308_470),
        (3.0, 5.0, &[3.0, 4.0, 8.0], 16.0, 0.022_473_581_641),
        (2.0, 3.0, &[3.0, 3.0], 6.0, 0.155_486_682_502),
    ];

    #[test]
    fn never_below_the_single_p_value() {
        for t in [0.0, 1.0, 5.0, 8.0, 20.0, 200.0] {
            let one = crate::offline::distribution::t_two_sided(t, 12.0);
            let all = p(t, 5.0, &[5.0, 5.0], 12.0).unwrap();
            assert!(all >= one && all <= 2.0 * one, "{t}: {one} {all}");
        }
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(p(2.0, 3.0, &[], 4.0), None);
        assert_eq!(p(f64::NAN, 3.0, &[3.0], 4.0), None);
    }
}
