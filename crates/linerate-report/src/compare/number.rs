//! Numbers in words and tables.

use crate::number;
use crate::number::general;

/// Decimals up to which a number is written out; what needs more has an exponent.
const MOST_DECIMALS: f64 = 12.0;

/// Prints numbers of one report in one unit, with as many decimals as their scatter makes worth
/// reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    decimals: Option<usize>,
    /// Of the unit's prefix.
    size: f64,
    prefix: &'static str,
}

impl Numbers {
    /// `scatter` is the least standard deviation above zero, `size` the largest value.
    pub(super) fn new(scatter: Option<f64>, size: f64, unit: Option<&str>) -> Self {
        let (one, prefix) = number::prefix(unit, size);
        let step = scatter.unwrap_or(size * 1e-4) / one;
        // Two digits of the scatter show.
        let wanted = if step > 0.0 { 1.0 - step.log10().floor() } else { 0.0 };
        let decimals = (wanted <= MOST_DECIMALS).then(|| wanted.max(0.0) as usize);
        Self { decimals, size: one, prefix }
    }

    /// What a value is divided by before it is written.
    pub(super) fn size(&self) -> f64 {
        self.size
    }

    /// The unit in which the numbers are written: `Gbit/s`.
    pub(super) fn unit(&self, unit: &str) -> String {
        format!("{}{unit}", self.prefix)
    }

    /// A value.
    pub(super) fn value(&self, x: f64) -> String {
        let x = x / self.size;
        match self.decimals {
            Some(decimals) => format!("{x:.decimals$}"),
            None => general(x, 9),
        }
    }

    /// A difference, with its sign.
    pub(super) fn signed(&self, x: f64) -> String {
        let text = self.value(x);
        if text.starts_with('-') { text } else { format!("+{text}") }
    }
}

/// Three significant digits.
pub(super) fn short(x: f64) -> String {
    general(x, 3)
}

/// A p value: three digits, a bound where it is tiny, never "0".
pub(super) fn p(p: f64) -> String {
    if p < 0.000_1 {
        "< 0.0001".to_owned()
    } else if p > 0.999 {
        "1.00".to_owned()
    } else {
        general(p, 3)
    }
}

/// Percent of a ratio's distance from one, with as many decimals as its error needs.
pub(super) fn percent(ratio: f64, error: Option<f64>) -> String {
    let percent = ratio * 100.0;
    let decimals = match error.map(|e| e.abs() * 100.0) {
        Some(e) if e >= 10.0 => 0,
        Some(e) if e >= 0.2 => 1,
        Some(e) if e > 0.0 => (-e.log10().floor()).clamp(2.0, 6.0) as usize,
        _ if percent.abs() >= 10.0 => 1,
        _ => 2,
    };
    format!("{percent:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates as records have them are read in the unit of their size.
    #[test]
    fn a_unit_with_a_prefix_needs_no_exponent() {
        let rates = Numbers::new(Some(3e7), 1.14e10, Some("bit/s"));
        assert_eq!(rates.value(1.103_750_02e10), "11.038");
        assert_eq!(rates.unit("bit/s"), "Gbit/s");
        assert_eq!(Numbers::new(Some(2e9), 3e13, None).value(1.103_750_02e13), "11037500200000");
    }

    #[test]
    fn decimals_follow_the_scatter() {
        assert_eq!(Numbers::new(Some(284.0), 9e3, None).value(8247.0433), "8247");
        assert_eq!(Numbers::new(Some(2.1), 1e2, None).value(99.123), "99.1");
        assert_eq!(Numbers::new(Some(1e-9), 1e-7, None).value(1.234_5e-7), "0.0000001235");
        assert_eq!(Numbers::new(None, 5.0, None).signed(0.0), "+0.00000");
        assert_eq!(p(0.0), "< 0.0001");
        assert_eq!(p(0.000_7), "0.0007");
        assert_eq!(p(0.0499), "0.0499");
        assert_eq!(percent(-0.494, Some(0.007)), "-49.4");
        assert_eq!(percent(-0.494, Some(0.2)), "-49");
    }
}
