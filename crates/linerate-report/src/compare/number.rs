//! Numbers in words and tables.

use crate::ministat::general;

/// Prints numbers of one report with as many decimals as their scatter makes worth reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    decimals: Option<usize>,
}

impl Numbers {
    /// `scatter` is the least standard deviation above zero, `size` the largest value.
    pub(super) fn new(scatter: Option<f64>, size: f64) -> Self {
        let step = scatter.unwrap_or(size * 1e-4);
        // Two digits of the scatter show; beyond nine decimals or nine places a number is read
        // better with an exponent.
        let wanted = if step > 0.0 { 1.0 - step.log10().floor() } else { 0.0 };
        let decimals = (wanted <= 6.0 && size < 1e10).then(|| wanted.max(0.0) as usize);
        Self { decimals }
    }

    /// A value.
    pub(super) fn value(&self, x: f64) -> String {
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

/// A p value: three digits, one below 0.001, never "0".
pub(super) fn p(p: f64) -> String {
    if p < 1e-300 {
        "< 1e-300".to_owned()
    } else if p < 0.001 {
        format!("{p:.0e}")
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

    #[test]
    fn decimals_follow_the_scatter() {
        assert_eq!(Numbers::new(Some(284.0), 9e3).value(8247.0433), "8247");
        assert_eq!(Numbers::new(Some(2.1), 1e2).value(99.123), "99.1");
        assert_eq!(Numbers::new(Some(1e-9), 1e-7).value(1.234_5e-7), "1.2345e-07");
        assert_eq!(Numbers::new(None, 5.0).signed(0.0), "+0.00000");
        assert_eq!(p(0.0), "< 1e-300");
        assert_eq!(p(0.0499), "0.0499");
        assert_eq!(percent(-0.494, Some(0.007)), "-49.4");
        assert_eq!(percent(-0.494, Some(0.2)), "-49");
    }
}
