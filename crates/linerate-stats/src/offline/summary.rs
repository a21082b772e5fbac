//! Location and spread of one set of values.
//!
//! Sources: two-pass mean and variance with the correction term (Chan, Golub and LeVeque 1983);
//! quantiles of type 7 (Hyndman and Fan 1996). Units: those of the values (variance: squared).

use super::distribution::t_factor;

/// Count, mean and variance of a set: all that the t methods need, so a printed table of N, average
/// and standard deviation serves them as well as the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Number of values, or of boot means.
    pub n: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// What rounding took from the mean: with it a difference of two means keeps its digits even
    /// when both are a billion times larger than it.
    pub mean_rest: f64,
    /// Sum of squared deviations / (n - 1).
    pub variance: f64,
}

impl Moments {
    /// From values. `None` for fewer than two: one value has no spread.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let n = values.len() as f64;
        let mean = mean(values)?;
        let squares = sum(values.iter().map(|x| (x - mean) * (x - mean)));
        let rest = sum(values.iter().map(|x| x - mean));
        let variance = ((squares - rest * rest / n) / (n - 1.0)).max(0.0);
        Some(Self { n, mean, mean_rest: rest / n, variance })
    }

    /// From a printed row.
    pub fn printed(n: f64, mean: f64, sd: f64) -> Self {
        Self { n, mean, mean_rest: 0.0, variance: sd * sd }
    }

    /// This mean less that of `base`.
    pub fn above(&self, base: &Self) -> f64 {
        (self.mean - base.mean) + (self.mean_rest - base.mean_rest)
    }

    /// Standard deviation.
    pub fn sd(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Standard error of the mean.
    pub fn standard_error(&self) -> f64 {
        (self.variance / self.n).sqrt()
    }

    /// Half width of the t interval of the mean at `level` (0.95), n - 1 degrees of freedom.
    pub fn half_width(&self, level: f64) -> Option<f64> {
        Some(t_factor(1.0 - level, self.n - 1.0)? * self.standard_error())
    }
}

/// Sum with Neumaier's compensation: the error does not grow with the number of terms.
pub fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0f64, 0.0f64);
    for x in values {
        let next = total + x;
        lost += if total.abs() >= x.abs() { (total - next) + x } else { (x - next) + total };
        total = next;
    }
    total + lost
}

/// Arithmetic mean. `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    if values.iter().all(|x| *x == first) {
        // A constant set has that constant as its mean, to the last digit.
        return Some(first);
    }
    // Scaled first where the plain sum would overflow.
    let total = sum(values.iter().copied());
    let n = values.len() as f64;
    Some(if total.is_finite() { total / n } else { sum(values.iter().map(|x| x / n)) })
}

/// The values in rising order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Quantile `q` (0 to 1) of sorted values, type 7: linear between the two values around position
/// (n - 1) q. `None` of nothing.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let (low, high) = (*sorted.get(below)?, *sorted.get((below + 1).min(last))?);
    Some(low + (position - position.floor()) * (high - low))
}

/// Puts `values` into an order in which those at the positions that quartiles, median and the 20 %
/// trimmed mean need stand where a full sort would put them: several times faster than sorting
/// millions of values. Use [`quantile`] at 0.25, 0.5 and 0.75, [`median`] and [`trimmed_mean`] at
/// 0.2 on the result; other positions are in no order.
pub fn sort_for_quartiles(values: &mut [f64]) {
    let n = values.len();
    let Some(last) = n.checked_sub(1) else { return };
    let cut = n / 5;
    let mut positions = vec![cut, n / 2, (n / 2).saturating_sub(1), last - cut.min(last)];
    for q in [0.25, 0.75] {
        let below = (q * last as f64).floor() as usize;
        positions.extend([below, (below + 1).min(last)]);
    }
    // The trimmed mean needs the value before the cut at the top to be in the right part, too.
    positions.sort_unstable();
    positions.dedup();
    let mut done = 0;
    for position in positions {
        if let Some(rest) = values.get_mut(done..)
            && position >= done
            && position - done < rest.len()
        {
            rest.select_nth_unstable_by(position - done, f64::total_cmp);
            done = position + 1;
        }
    }
}

/// Middle value; the mean of the two middle ones of an even count.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let high = *sorted.get(n / 2)?;
    if n % 2 == 1 { Some(high) } else { Some(0.5 * sorted.get(n / 2 - 1)? + 0.5 * high) }
}

/// Median absolute deviation x 1.4826, which estimates the standard deviation of a normal set.
/// 0 when more than half of the values are equal.
pub fn mad(sorted_values: &[f64]) -> Option<f64> {
    let middle = median(sorted_values)?;
    let distances: Vec<f64> = sorted_values.iter().map(|x| (x - middle).abs()).collect();
    Some(1.482_602_218_505_602 * median(&sorted(&distances))?)
}

/// Mean of what is left when a share `trim` is cut from each end (0.2: Yuen's 20 %).
pub fn trimmed_mean(sorted: &[f64], trim: f64) -> Option<f64> {
    let cut = (sorted.len() as f64 * trim.clamp(0.0, 0.49)).floor() as usize;
    mean(sorted.get(cut..sorted.len().checked_sub(cut)?)?)
}

#[cfg(test)]
#[allow(clippy::excessive_precision, reason = "references stand as they were computed")]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-12 * want.abs().max(1e-300), "{got:e} wanted {want:e}");
    }

    #[test]
    fn known_answers_at_every_scale() {
        // 1, 2, 4, 8, 16: mean 6.2, squared deviations 148.8.
        for scale in [1e-9, 1.0, 1e9] {
            let values: Vec<f64> = [1.0, 2.0, 4.0, 8.0, 16.0].map(|x| x * scale).to_vec();
            let m = Moments::of(&values).unwrap();
            near(m.mean, 6.2 * scale);
            near(m.variance, 37.2 * scale * scale);
        }
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        // Quarters are exact doubles at 1e9, so the variance is exactly that of 0, 1/4, 1/2.
        let m = Moments::of(&[1e9, 1e9 + 0.25, 1e9 + 0.5]).unwrap();
        assert_eq!((m.mean, m.variance), (1e9 + 0.25, 0.0625));
    }

    #[test]
    fn small_and_constant_sets() {
        assert_eq!(Moments::of(&[1.0]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(quantile(&[], 0.5), None);
        let m = Moments::of(&[0.1, 0.1, 0.1]).unwrap();
        assert_eq!((m.mean, m.variance), (0.1, 0.0));
    }

    #[test]
    fn a_partial_sort_serves_the_quartiles() {
        let mut random = super::super::bootstrap::Random::new(1);
        for n in [1, 2, 3, 4, 5, 9, 10, 11, 100, 1003] {
            let values: Vec<f64> = (0..n).map(|_| (random.unit() * 50.0).round()).collect();
            let full = sorted(&values);
            let mut part = values.clone();
            sort_for_quartiles(&mut part);
            for q in [0.25, 0.5, 0.75] {
                assert_eq!(quantile(&part, q), quantile(&full, q), "n {n} q {q}");
            }
            assert_eq!(median(&part), median(&full), "n {n}");
            let (a, b) = (trimmed_mean(&part, 0.2).unwrap(), trimmed_mean(&full, 0.2).unwrap());
            near(a, b);
        }
    }

    #[test]
    fn quantiles_are_of_type_7() {
        let s = [1.0, 2.0, 3.0, 4.0, 10.0, 20.0];
        near(quantile(&s, 0.25).unwrap(), 2.25);
        near(quantile(&s, 0.75).unwrap(), 8.5);
        near(median(&s).unwrap(), 3.5);
        near(trimmed_mean(&s, 0.2).unwrap(), 4.75);
        near(mad(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap(), 1.482_602_218_505_602);
    }

    #[test]
    fn the_half_width_of_three_values() {
        let m = Moments::of(&[1.0, 2.0, 3.0]).unwrap();
        near(m.half_width(0.95).unwrap(), 4.302_652_729_749_464 / 3f64.sqrt());
    }
}
