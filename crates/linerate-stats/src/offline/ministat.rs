//! The arithmetic of the program `ministat`, kept apart from our own because others' published
//! tables rest on it: [`Arithmetic::Classic`] is that of FreeBSD 8 to the snapshot of July 2015,
//! [`Arithmetic::Modern`] that of FreeBSD 14 and later.
//!
//! Known faults, kept on purpose and named here: classic variance cancels (sum of squares less
//! squared sum); the classic median of an even count is the upper middle value; the classic
//! relative error ignores the error of the baseline; beyond 100 degrees of freedom the factor drops
//! to the normal quantile; the column for 99.5 % holds the quantile for 99.8 %. None of them is
//! used anywhere else in this crate.

use super::distribution::{normal_quantile, t_factor};

/// Which generation of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// To July 2015, and what Debian ships.
    Classic,
    /// FreeBSD 14 and later.
    Modern,
}

/// The six confidence levels, in percent, with the one-sided probability of their column. The last
/// should be 0.9975; 0.999 is what the published table holds.
pub const LEVELS: [(f64, f64); 6] =
    [(80.0, 0.9), (90.0, 0.95), (95.0, 0.975), (98.0, 0.99), (99.0, 0.995), (99.5, 0.999)];

/// Degrees of freedom beyond which the table ends.
const TABLE_ROWS: u64 = 100;

/// Entries of the last column that are not the rounded quantile: an older table was copied there.
const MISPRINTS: [(u64, f64); 7] =
    [(1, 318.313), (7, 4.782), (8, 4.499), (9, 4.296), (10, 4.143), (11, 4.024), (12, 3.929)];

/// The table's factor: the t quantile rounded to three decimals. `None` for an unknown column.
pub fn table_factor(df: u64, column: usize) -> Option<f64> {
    let (_, p) = *LEVELS.get(column)?;
    if column == 5
        && let Some((_, factor)) = MISPRINTS.iter().find(|m| m.0 == df)
    {
        return Some(*factor);
    }
    let exact = if df > TABLE_ROWS || df == 0 {
        normal_quantile(p)?
    } else {
        t_factor(2.0 * (1.0 - p), df as f64)?
    };
    // By way of decimal text, so that the result is the same double as the literal in a table.
    format!("{exact:.3}").parse().ok()
}

/// What both arithmetics know of a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SetFigures {
    /// Number of values.
    pub n: u64,
    /// Least.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Median, by the arithmetic's own rule.
    pub median: f64,
    /// Average.
    pub average: f64,
    /// Variance; the square root of a negative one is what prints as `-nan`.
    pub variance: f64,
}

impl SetFigures {
    /// Standard deviation.
    pub fn sd(&self) -> f64 {
        ieee(self.variance, self.variance, self.variance.sqrt())
    }
}

/// Running sums in file order, which is what the classic average and variance are made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunningSums {
    sum: f64,
    squares: f64,
}

impl RunningSums {
    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.squares += value * value;
    }

    /// The sums of values among which some are not-a-number, with the sign that the original's
    /// machine code gives them: the first one's in the sum, the last one's in the sum of squares.
    pub fn of_any(values: &[f64]) -> Self {
        let mut sums = Self::default();
        for x in values.iter().copied() {
            sums.sum = ieee(sums.sum, x, sums.sum + x);
            let square = ieee(x, x, x * x);
            sums.squares = ieee(square, sums.squares, square + sums.squares);
        }
        sums
    }

    /// Average of `n` values.
    pub fn average(&self, n: u64) -> f64 {
        let n = n as f64;
        ieee(self.sum, n, self.sum / n)
    }

    /// Classic variance of `n` values: (sum x^2 - (sum x)^2 / n) / (n - 1).
    pub fn variance(&self, n: u64) -> f64 {
        let n = n as f64;
        let product = ieee(self.sum, self.sum, self.sum * self.sum);
        let square = ieee(product, n, product / n);
        let difference = ieee(self.squares, square, self.squares - square);
        ieee(difference, n, difference / (n - 1.0))
    }
}

/// Modern variance: two passes over the sorted values.
pub fn two_pass_variance(sorted: impl Iterator<Item = f64>, average: f64, n: u64) -> f64 {
    sorted.map(|x| (x - average) * (x - average)).sum::<f64>() / (n as f64 - 1.0)
}

/// One set against the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Average of the set less that of the baseline.
    pub difference: f64,
    /// Half width of its interval.
    pub error: f64,
    /// Difference in percent of the baseline's average.
    pub percent: f64,
    /// Half width of that, as the arithmetic has it.
    pub percent_error: f64,
    /// Pooled standard deviation.
    pub pooled_sd: f64,
    /// Whether the difference exceeds its error.
    pub proven: bool,
}

/// Compares `set` with `base` by pooled t from the table. `None` for an unknown column.
pub fn compare(
    set: &SetFigures,
    base: &SetFigures,
    column: usize,
    arithmetic: Arithmetic,
) -> Option<Comparison> {
    let factor = table_factor(set.n + base.n - 2, column)?;
    let (n2, n1) = (set.n as f64, base.n as f64);
    let variance = ((n2 - 1.0) * set.variance + (n1 - 1.0) * base.variance) / (n2 + n1 - 2.0);
    let pooled_sd = variance.sqrt();
    let error = factor * (pooled_sd * (1.0 / n2 + 1.0 / n1).sqrt());
    let difference = set.average - base.average;
    let percent_error = match arithmetic {
        Arithmetic::Classic => error * 100.0 / base.average,
        Arithmetic::Modern => {
            let spread = ((n2 - 1.0) * set.variance
                + (n1 - 1.0) * base.variance * (set.average * set.average)
                    / (base.average * base.average))
                * ((n2 + n1) / (n2 * n1 * (n2 + n1 - 2.0)));
            factor * spread.sqrt() * 100.0 / base.average
        }
    };
    Some(Comparison {
        difference,
        error,
        percent: difference * 100.0 / base.average,
        percent_error,
        pooled_sd,
        proven: difference.abs() > error,
    })
}

/// Gives a not-a-number the sign that SSE arithmetic gives it, because it is printed: the first
/// operand that is one is passed on, and one born of an invalid operation is negative.
fn ieee(left: f64, right: f64, result: f64) -> f64 {
    if !result.is_nan() {
        return result;
    }
    let negative = if left.is_nan() {
        left.is_sign_negative()
    } else if right.is_nan() {
        right.is_sign_negative()
    } else {
        true
    };
    if negative { -f64::NAN.abs() } else { f64::NAN.abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_rounded_quantiles_but_for_its_misprints() {
        for (df, column, factor) in [
            (4, 0, 1.533),
            (4, 5, 7.173),
            (58, 2, 2.002),
            (58, 5, 3.237),
            (12, 5, 3.929),
            (13, 5, 3.852),
            (100, 4, 2.626),
            (101, 2, 1.960),
            (101, 5, 3.090),
        ] {
            assert_eq!(table_factor(df, column), Some(factor), "df {df} column {column}");
        }
        assert_eq!(table_factor(4, 6), None);
    }

    #[test]
    fn a_cancelled_variance_is_a_negative_nan() {
        let mut sums = RunningSums::default();
        for x in [1_000_000_000.1, 1_000_000_000.2, 1_000_000_000.3] {
            sums.add(x);
        }
        let variance = sums.variance(3);
        assert!(variance < 0.0);
        let sd = variance.sqrt();
        assert!(ieee(variance, variance, sd).is_sign_negative() && sd.is_nan());
    }
}
