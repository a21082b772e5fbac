//! Whether a run resembles the one before it. Runs that do are fewer than they seem: with a lag-1
//! autocorrelation of r the variance of the mean is about (1 + r) / (1 - r) times what independent
//! runs would give (9 times at 0.8).

use super::summary::{mean, sum};

/// Lag-1 autocorrelation of values in the order they were measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lag1 {
    /// sum (x_i - m)(x_i+1 - m) / sum (x_i - m)^2, -1 to 1.
    pub r: f64,
    /// Whether |r + 1/n| exceeds 2.576 / sqrt(n): what 1 in 100 sets of independent values show.
    pub significant: bool,
}

/// Computes it. `None` for fewer than 8 values or when nothing varies.
pub fn lag1(values: &[f64]) -> Option<Lag1> {
    const FEWEST: usize = 8;
    const ONE_IN_A_HUNDRED: f64 = 2.576;
    if values.len() < FEWEST {
        return None;
    }
    let m = mean(values)?;
    let squares = sum(values.iter().map(|x| (x - m) * (x - m)));
    if squares == 0.0 {
        return None;
    }
    let products = sum(values.iter().zip(values.iter().skip(1)).map(|(a, b)| (a - m) * (b - m)));
    let n = values.len() as f64;
    let r = products / squares;
    // Independent values have an expected r of -1/n.
    Some(Lag1 { r, significant: (r + 1.0 / n).abs() * n.sqrt() > ONE_IN_A_HUNDRED })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // 1..8: deviations -3.5 .. 3.5, squares 42, products 26.25.
        let l = lag1(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
        assert!((l.r - 0.625).abs() < 1e-12);
        let alternating: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
        let l = lag1(&alternating).unwrap();
        assert!(l.r < -0.9 && l.significant);
    }

    #[test]
    fn too_few_or_constant() {
        assert_eq!(lag1(&[1.0; 7]), None);
        assert_eq!(lag1(&[1.0; 20]), None);
    }
}
