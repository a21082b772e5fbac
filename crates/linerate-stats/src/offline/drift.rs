//! A trend over the order of the runs: straight line by least squares on the run index, and the
//! two-sided t test of its slope (n - 2 degrees of freedom).

use super::distribution::t_two_sided;
use super::summary::{mean, sum};

/// A fitted trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Change from the first run to the last along the line, in the unit of the values.
    pub change: f64,
    /// p value of "no trend".
    pub p: f64,
}

/// Fits it. `None` for fewer than 5 values or when nothing varies.
pub fn drift(values: &[f64]) -> Option<Drift> {
    const FEWEST: usize = 5;
    if values.len() < FEWEST {
        return None;
    }
    let n = values.len() as f64;
    let m = mean(values)?;
    let centre = (n - 1.0) / 2.0;
    let indexed = || values.iter().enumerate().map(|(i, x)| (i as f64 - centre, x - m));
    let squares = n * (n * n - 1.0) / 12.0;
    let slope = sum(indexed().map(|(t, x)| t * x)) / squares;
    let total = sum(indexed().map(|(_, x)| x * x));
    let rest = sum(indexed().map(|(t, x)| (x - slope * t) * (x - slope * t)));
    if total == 0.0 {
        return None;
    }
    let df = n - 2.0;
    // A line without any rest is a trend beyond doubt.
    let p = if rest <= total * 1e-28 {
        0.0
    } else {
        t_two_sided(slope / (rest / df / squares).sqrt(), df)
    };
    Some(Drift { change: slope * (n - 1.0), p })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_none() {
        let d = drift(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((d.change - 4.0).abs() < 1e-12 && d.p < 1e-12);
        // Slope 0.2, rest 2.8 on 3 df: t = 0.2 / sqrt(2.8 / 3 / 10) = 0.654654, p = 0.559424.
        let d = drift(&[1.0, 3.0, 2.0, 1.0, 3.0]).unwrap();
        assert!((d.change - 0.8).abs() < 1e-12, "{d:?}");
        let p = t_two_sided(0.2 / (3.6f64 / 3.0 / 10.0).sqrt(), 3.0);
        assert!((d.p - p).abs() < 1e-9, "{d:?} {p}");
        assert_eq!(drift(&[1.0; 10]), None);
        assert_eq!(drift(&[1.0, 2.0]), None);
    }
}
