//! The loads that a search may offer: a geometric row from the least to the largest.

/// Loads a constant ratio apart. Every trial is made at one of them, so that trials of several
/// goals, and of the same goal at another time, fall on the same loads and count together.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    least: f64,
    step: f64,
    last: usize,
}

/// A row longer than this has no use: 1 bit/s to 1 Tbit/s in steps of 0.01 %.
const MOST: f64 = 300_000.0;

impl Grid {
    /// The fewest loads from `least` to `largest` that are no farther apart than `width`, the
    /// smaller as a share of the larger. `None` unless `0 < least < largest`.
    pub fn new(least: f64, largest: f64, width: f64) -> Option<Self> {
        let span = (largest / least).ln();
        if !(least > 0.0 && span > 0.0 && span.is_finite() && width > 0.0 && width < 1.0) {
            return None;
        }
        let last = (span / -(1.0 - width).ln() - 1e-9).ceil().clamp(1.0, MOST);
        Some(Self { least, step: span / last, last: last as usize })
    }

    /// Index of the largest load.
    pub fn last(&self) -> usize {
        self.last
    }

    /// Logarithm of the ratio of two neighbours.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The load at `index`, rounded to a whole number.
    pub fn load(&self, index: usize) -> f64 {
        (self.least * (self.step * index.min(self.last) as f64).exp()).round().max(1.0)
    }

    /// The largest load that is at most `load`; the least one if all are larger.
    pub fn at_most(&self, load: f64) -> usize {
        // Rounding to whole numbers can move a load across its place in the row.
        let near = self.nearest(load);
        if near > 0 && self.load(near) > load { near - 1 } else { near }
    }

    /// The load nearest to `load`.
    pub fn nearest(&self, load: f64) -> usize {
        let at = (load.max(self.least) / self.least).ln() / self.step;
        (at.round() as usize).min(self.last)
    }

    /// How many steps are no wider than `width`.
    pub fn units(&self, width: f64) -> usize {
        ((-(1.0 - width).ln() / self.step + 1e-6) as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_has_both_ends_and_even_steps() {
        let grid = Grid::new(9_001.0, 1_488_000.0, 0.005).unwrap();
        assert_eq!((grid.load(0), grid.load(grid.last())), (9_001.0, 1_488_000.0));
        for i in 1..=grid.last() {
            let (low, high) = (grid.load(i - 1), grid.load(i));
            assert!(high > low && low >= high * 0.994_9, "{low} {high}");
            assert_eq!((grid.at_most(high), grid.at_most(high - 1.0)), (i, i - 1));
        }
        assert_eq!((grid.at_most(1.0), grid.at_most(1e12)), (0, grid.last()));
        assert_eq!((grid.units(0.005), grid.units(0.01), grid.units(0.02)), (1, 2, 4));
    }

    #[test]
    fn an_empty_range_has_no_row() {
        for (least, largest) in
            [(10.0, 10.0), (10.0, 9.0), (0.0, 5.0), (1.0, f64::INFINITY), (f64::NAN, 2.0)]
        {
            assert_eq!(Grid::new(least, largest, 0.01), None);
        }
    }
}
