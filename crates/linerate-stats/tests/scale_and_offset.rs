//! Every method must give the same answer whatever the unit of the values, and must not lose digits
//! to a large offset: the shapes are compared at scales from 1e-9 to 1e9 and at an offset of 1e9.

use linerate_stats::offline::fieller::{RatioInterval, ratio};
use linerate_stats::offline::nested::components;
use linerate_stats::offline::summary::{Moments, median, quantile, sorted};
use linerate_stats::offline::welch::{Difference, pooled, welch};
use linerate_stats::offline::{
    autocorrelation, drift, hodges_lehmann, mann_whitney, modes, outliers, pelt, power,
};

// Multiples of 1/4, so that adding 1e9 and multiplying by powers of two are exact.
const A: [f64; 8] = [3.0, 1.25, 4.0, 1.25, 5.5, 9.0, 2.75, 6.0];
const B: [f64; 7] = [5.0, 8.75, 4.25, 9.5, 7.0, 9.5, 6.25];
/// The last is far from the others.
const FAR: [f64; 8] = [3.0, 1.25, 4.0, 1.25, 5.5, 9.0, 2.75, 200.0];
/// Two levels, six values each.
const STEP: [f64; 12] = [1.0, 1.5, 1.25, 1.0, 1.75, 1.25, 9.0, 9.5, 9.25, 9.0, 9.75, 9.25];

fn near(got: f64, want: f64, what: &str) {
    let limit = 1e-9 * want.abs().max(1e-300);
    assert!((got - want).abs() <= limit, "{what}: {got:e}, wanted {want:e}");
}

fn at(values: &[f64], scale: f64, offset: f64) -> Vec<f64> {
    values.iter().map(|x| x * scale + offset).collect()
}

fn tests(a: &[f64], b: &[f64]) -> (Difference, Difference, f64, hodges_lehmann::Shift) {
    let (x, y) = (Moments::of(a).unwrap(), Moments::of(b).unwrap());
    let rank = mann_whitney::test(a, b).unwrap().p;
    let shift = hodges_lehmann::shift(a, b, 0.95).unwrap();
    (welch(&x, &y).unwrap(), pooled(&x, &y).unwrap(), rank, shift)
}

#[test]
fn scales_and_offsets() {
    let (w, s, u, h) = tests(&A, &B);
    for (scale, offset) in [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e9), (0.25, -1e9)] {
        let (a, b) = (at(&A, scale, offset), at(&B, scale, offset));
        let (w2, s2, u2, h2) = tests(&a, &b);
        let what = format!("scale {scale} offset {offset}");
        near(w2.p, w.p, &what);
        near(w2.df, w.df, &what);
        near(w2.estimate, w.estimate * scale, &what);
        near(s2.p, s.p, &what);
        near(u2, u, &what);
        near(h2.estimate, h.estimate * scale, &what);
        let (low, high, reached) = h.interval.unwrap();
        let (low2, high2, reached2) = h2.interval.unwrap();
        near(low2, low * scale, &what);
        near(high2, high * scale, &what);
        near(reached2, reached, &what);
        let effect = power::detectable(w2.df, 0.95).unwrap() * w2.standard_error;
        near(effect, power::detectable(w.df, 0.95).unwrap() * w.standard_error * scale, &what);
        let boots = |v: &[f64]| v.chunks(2).map(<[f64]>::to_vec).collect::<Vec<_>>();
        let (c, c2) = (components(&boots(&A)).unwrap(), components(&boots(&a)).unwrap());
        near(c2.within, c.within * scale * scale, &what);
        near(c2.between_raw, c.between_raw * scale * scale, &what);
        let quantiles = (quantile(&sorted(&a), 0.3).unwrap(), quantile(&sorted(&A), 0.3).unwrap());
        near(quantiles.0, quantiles.1 * scale + offset, &what);
        near(median(&sorted(&b)).unwrap(), 7.0 * scale + offset, &what);
        near(drift::drift(&a).unwrap().p, drift::drift(&A).unwrap().p, &what);
        near(autocorrelation::lag1(&a).unwrap().r, autocorrelation::lag1(&A).unwrap().r, &what);
        assert_eq!(pelt::mean_changes(&a), pelt::mean_changes(&A), "{what}");
        assert_eq!(outliers::flag(&a).len(), outliers::flag(&A).len(), "{what}");
        assert_eq!(modes::two_modes(&a).is_some(), modes::two_modes(&A).is_some(), "{what}");
        // And where there is something to find.
        let step = at(&STEP, scale, offset);
        assert_eq!(pelt::mean_changes(&step), [6], "{what}");
        assert!(modes::two_modes(&step).is_some(), "{what}");
        let far = outliers::flag(&at(&FAR, scale, offset));
        assert_eq!(far.iter().map(|one| one.index).collect::<Vec<_>>(), [7], "{what}");
    }
    let fieller = |scale: f64| {
        let (x, y) =
            (Moments::of(&at(&A, scale, 0.0)).unwrap(), Moments::of(&at(&B, scale, 0.0)).unwrap());
        ratio((x.mean, x.variance / x.n), (y.mean, y.variance / y.n), 0.0, 13.0, 0.95).unwrap()
    };
    let RatioInterval::Bounded { low, high } = fieller(1.0) else { panic!("unbounded") };
    for scale in [1e-9, 1e9, -1e-9] {
        let RatioInterval::Bounded { low: l, high: h } = fieller(scale) else {
            panic!("unbounded")
        };
        near(l, low, "Fieller");
        near(h, high, "Fieller");
    }
}

#[test]
fn three_values_and_ties() {
    let (w, s, u, h) = tests(&[1.0, 1.0, 2.0], &[2.0, 2.0, 3.0]);
    near(w.estimate, 1.0, "estimate");
    // Equal variances and counts: both tests are one.
    near(w.p, s.p, "p");
    near(w.df, 4.0, "df");
    // t = 1 / sqrt(2/9) = 2.12132 on 4 df.
    near(w.standard_error, (2.0f64 / 9.0).sqrt(), "standard error");
    near(u, 0.3, "U: 3 of 20 deals are as far, doubled");
    assert_eq!(h.interval, None);
}
