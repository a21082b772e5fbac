//! Mean and standard deviation.

/// Mean, standard deviation, least and largest of whole numbers, exact in whatever order they come: sums are kept of
/// what differs from the first, in 128 bits. Values must lie within 2^41 of each other (36 minutes in nanoseconds), of
/// which 2^45 fit; beyond that sums stay at their largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    first: i64,
    /// Of the distances from the first, and of their squares.
    sum: i128,
    squares: i128,
    least: i64,
    most: i64,
}

impl Moments {
    /// One value.
    #[inline]
    pub fn record(&mut self, value: i64) {
        if self.count == 0 {
            (self.first, self.least, self.most) = (value, value, value);
        }
        let distance = i128::from(value) - i128::from(self.first);
        self.count += 1;
        self.sum = self.sum.saturating_add(distance);
        self.squares = self.squares.saturating_add(distance.saturating_mul(distance));
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// All that `more` has seen, too.
    pub fn merge(&mut self, more: &Self) {
        if self.count == 0 {
            *self = *more;
        } else if more.count > 0 {
            let shift = i128::from(more.first) - i128::from(self.first);
            let shifted = shift.saturating_mul(i128::from(more.count));
            let squares = more
                .squares
                .saturating_add(shift.saturating_mul(2).saturating_mul(more.sum))
                .saturating_add(shift.saturating_mul(shifted));
            self.count = self.count.saturating_add(more.count);
            self.sum = self.sum.saturating_add(more.sum).saturating_add(shifted);
            self.squares = self.squares.saturating_add(squares);
            self.least = self.least.min(more.least);
            self.most = self.most.max(more.most);
        }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least value, if there is any.
    pub fn least(&self) -> Option<i64> {
        (self.count > 0).then_some(self.least)
    }

    /// The largest value, if there is any.
    pub fn most(&self) -> Option<i64> {
        (self.count > 0).then_some(self.most)
    }

    /// Their mean, rounded towards that of the first.
    pub fn mean(&self) -> Option<i64> {
        let mean = i128::from(self.first) + self.sum.checked_div(i128::from(self.count))?;
        i64::try_from(mean).ok()
    }

    /// Their standard deviation: the root of what their squared distances from the mean add up to, divided by one less
    /// than their number. Of one value 0.
    pub fn deviation(&self) -> Option<u64> {
        let count = i128::from(self.count);
        // Of n values: (n Σd² − (Σd)²) / (n (n − 1)).
        let spread = self.squares as f64 - (self.sum as f64) * (self.sum as f64) / count as f64;
        let exact = count
            .checked_mul(self.squares)
            .zip(self.sum.checked_mul(self.sum))
            .map(|(all, sum)| (all - sum) as f64 / count as f64);
        let variance = exact.unwrap_or(spread).max(0.0) / (count - 1).max(1) as f64;
        (self.count > 0).then(|| variance.sqrt() as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[i64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.record(*value));
        moments
    }

    /// 2, 4, 4, 4, 5, 5, 7 and 9: mean 5, the squares of their distances from it add up to 32.
    #[test]
    fn known_answers() {
        let values = [2, 4, 4, 4, 5, 5, 7, 9].map(|value| value * 1_000);
        let moments = of(&values);
        assert_eq!((moments.count(), moments.mean()), (8, Some(5_000)));
        assert_eq!((moments.least(), moments.most()), (Some(2_000), Some(9_000)));
        assert_eq!(moments.deviation(), Some(2_138)); // 1,000 · √(32 / 7)
        let none = Moments::default();
        assert_eq!((none.mean(), none.deviation(), none.least()), (None, None, None));
        assert_eq!((of(&[-7]).mean(), of(&[-7]).deviation()), (Some(-7), Some(0)));
        // What nobody means stays a number.
        let far = of(&[i64::MIN, i64::MAX, i64::MIN, i64::MAX, 0]);
        assert!(far.mean().is_some() && far.deviation().is_some());
    }

    proptest! {
        #[test]
        fn parts_are_as_good_as_the_whole(
            values in prop::collection::vec(-(1i64 << 40)..1 << 40, 1..200), at in 0usize..200,
        ) {
            let (a, b) = values.split_at(at.min(values.len()));
            let mut merged = of(a);
            merged.merge(&of(b));
            let whole = of(&values);
            prop_assert_eq!((merged.count, merged.first, merged.sum), (whole.count, whole.first, whole.sum));
            prop_assert_eq!(merged, whole);
            let mean = values.iter().map(|value| i128::from(*value)).sum::<i128>() as f64 / values.len() as f64;
            prop_assert!((whole.mean().unwrap() as f64 - mean).abs() <= 1.0);
            let squares = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>();
            let deviation = (squares / (values.len() - 1).max(1) as f64).sqrt();
            let off = (whole.deviation().unwrap() as f64 - deviation).abs();
            prop_assert!(off <= 1.0 + deviation * 1e-9, "{} {deviation}", whole.deviation().unwrap());
        }
    }
}
