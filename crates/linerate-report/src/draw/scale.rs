//! From values to places on an axis, and the round numbers beside it.

/// A scale from values to columns.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    low: f64,
    high: f64,
    columns: usize,
}

impl Scale {
    /// Covers all values given, with a little room. `None` without any finite value.
    pub fn covering(values: impl Iterator<Item = f64>, columns: usize) -> Option<Self> {
        let finite = values.filter(|x| x.is_finite());
        let (low, high) =
            finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
        if low > high || columns == 0 {
            return None;
        }
        // Halved first, so that the span of huge values does not overflow.
        let half = high / 2.0 - low / 2.0;
        if half > 0.0 {
            return Some(Self { low, high, columns });
        }
        // One value: put it in the middle.
        let room = if low == 0.0 { 1.0 } else { low.abs() * 0.01 };
        Some(Self { low: low - room, high: high + room, columns })
    }

    /// Position from 0 to 1.
    pub fn share(&self, x: f64) -> f64 {
        let half = self.high / 2.0 - self.low / 2.0;
        ((x / 2.0 - self.low / 2.0) / half).clamp(0.0, 1.0)
    }

    /// The nearest column.
    pub fn column(&self, x: f64) -> usize {
        (self.share(x) * (self.columns - 1) as f64).round() as usize
    }

    /// The value at a share from 0 to 1.
    pub fn value(&self, share: f64) -> f64 {
        self.low * (1.0 - share) + self.high * share
    }

    /// Low and high end.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Round numbers for an axis, about `wanted` of them within the scale.
pub fn ticks(scale: &Scale, wanted: usize) -> Vec<f64> {
    let (low, high) = scale.ends();
    let span = high - low;
    if !span.is_finite() || span <= 0.0 || wanted == 0 {
        return Vec::new();
    }
    let rough = span / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough);
    let Some(step) = step.filter(|s| *s > 0.0 && s.is_finite()) else { return Vec::new() };
    let first = (low / step).ceil();
    let count = ((high / step).floor() - first).clamp(-1.0, 50.0);
    (0..=count as i64).take_while(|_| count >= 0.0).map(|i| (first + i as f64) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_any_size() {
        for values in [[5.0, 5.0], [0.0, 0.0], [-1e308, 1e308], [1e-300, 2e-300], [1e9, 1e9 + 1e-6]]
        {
            let scale = Scale::covering(values.into_iter(), 10).unwrap();
            for v in values {
                assert!(scale.column(v) < 10 && scale.share(v).is_finite(), "{values:?}");
            }
            assert!(ticks(&scale, 5).len() <= 51);
        }
        assert!(Scale::covering(std::iter::empty(), 10).is_none());
    }

    #[test]
    fn ticks_are_round() {
        let scale = Scale::covering([7.3, 92.0].into_iter(), 10).unwrap();
        assert_eq!(ticks(&scale, 5), [20.0, 40.0, 60.0, 80.0]);
    }
}
