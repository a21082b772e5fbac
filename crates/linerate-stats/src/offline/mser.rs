//! How many values at the start of a series to leave out: MSER-5 (White 1997), the cut that
//! minimises the squared standard error of the mean of what is left, over means of 5 values.
//! A cross-check of [`super::pelt`]: on flat data it may cut more than is needed, so a cut of half
//! of the series or more means "no answer".

use super::summary::{mean, sum};

/// Values to leave out at the start. `None` for fewer than 30 values, when nothing varies, or when
/// the best cut is in the second half.
pub fn mser5(values: &[f64]) -> Option<usize> {
    const BATCH: usize = 5;
    const FEWEST: usize = 30;
    if values.len() < FEWEST {
        return None;
    }
    let batches: Vec<f64> = values.chunks_exact(BATCH).filter_map(mean).collect();
    let error = |cut: usize| -> Option<f64> {
        let rest = batches.get(cut..)?;
        let m = mean(rest)?;
        let n = rest.len() as f64;
        Some(sum(rest.iter().map(|x| (x - m) * (x - m))) / (n * n))
    };
    // The last five batches are never candidates: the error of a few means is chance.
    let last = batches.len().checked_sub(BATCH)?;
    if error(0)? == 0.0 {
        return None;
    }
    let best = (0..=last).min_by(|a, b| {
        let at = |i: usize| error(i).unwrap_or(f64::INFINITY);
        at(*a).total_cmp(&at(*b))
    })?;
    (best * 2 < batches.len()).then_some(best * BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::bootstrap::Random;

    #[test]
    fn cuts_the_transient() {
        let mut random = Random::new(3);
        let series: Vec<f64> =
            (0..100).map(|i| 50.0 * (-f64::from(i) / 5.0).exp() + random.normal()).collect();
        let cut = mser5(&series).unwrap();
        assert!((10..=30).contains(&cut), "{cut}");
        assert_eq!(mser5(&[1.0; 40]), None);
        assert_eq!(mser5(&[1.0; 10]), None);
    }
}
