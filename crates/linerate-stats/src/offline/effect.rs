//! Effect sizes without a unit: how large a difference is beside the scatter.

use super::summary::Moments;

/// Hedges' g (1981): the difference of means over the pooled standard deviation, times
/// 1 - 3 / (4 df - 1), which takes out the bias of small sets. `None` without scatter.
pub fn hedges_g(base: &Moments, set: &Moments) -> Option<f64> {
    let sd = super::welch::pooled_sd(base, set)?;
    let df = base.n + set.n - 2.0;
    (sd > 0.0).then(|| set.above(base) / sd * (1.0 - 3.0 / (4.0 * df - 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let a = Moments::printed(10.0, 1.0, 2.0);
        let b = Moments::printed(10.0, 4.0, 2.0);
        assert!((hedges_g(&a, &b).unwrap() - 1.5 * (1.0 - 3.0 / 71.0)).abs() < 1e-12);
        let flat = Moments { variance: 0.0, ..a };
        assert_eq!(hedges_g(&flat, &flat), None);
    }
}
