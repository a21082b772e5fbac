//! What came of the pairs: a figure, none for a reason, or none because nobody asked.

use std::collections::BTreeMap;

use crate::plan::Pair;

/// What is known of a pair. Nothing measured is not 0.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// What was measured, in the unit of the matrix.
    Value(f64),
    /// It was to be measured and was not, for this reason.
    Missing(String),
}

/// Figures of pairs, those that were asked for and no others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    cells: BTreeMap<Pair, Cell>,
}

/// How many cells there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// With a figure.
    pub measured: usize,
    /// Without.
    pub missing: usize,
}

impl Matrix {
    /// Of these pairs, none of which was measured yet, for this reason.
    pub fn new(pairs: &[Pair], why: &str) -> Self {
        let missing = |pair: &Pair| (*pair, Cell::Missing(why.to_owned()));
        Self { cells: pairs.iter().map(missing).collect() }
    }

    /// Keeps what came of a pair. A figure that is no number is missing; a pair that was not asked for stays so.
    pub fn set(&mut self, pair: Pair, came: Cell) {
        if let Some(cell) = self.cells.get_mut(&pair) {
            *cell = match came {
                Cell::Value(value) if !value.is_finite() => {
                    Cell::Missing(format!("its figure is {value}"))
                }
                came => came,
            };
        }
    }

    /// What is known of a pair; nothing of one that was not asked for.
    pub fn get(&self, pair: Pair) -> Option<&Cell> {
        self.cells.get(&pair)
    }

    /// All that was asked for, by the first host and then the second.
    pub fn cells(&self) -> impl Iterator<Item = (Pair, &Cell)> {
        self.cells.iter().map(|(pair, cell)| (*pair, cell))
    }

    /// How many there are.
    pub fn counts(&self) -> Counts {
        let measured = self.cells.values().filter(|cell| matches!(cell, Cell::Value(_))).count();
        Counts { measured, missing: self.cells.len().saturating_sub(measured) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_is_not_nothing_and_nothing_is_not_asked() {
        let pair = |from, to| Pair { from, to };
        let mut matrix =
            Matrix::new(&[pair(0, 1), pair(1, 0), pair(0, 2)], "its turn did not come");
        matrix.set(pair(0, 1), Cell::Value(0.0));
        matrix.set(pair(1, 0), Cell::Value(f64::NAN));
        matrix.set(pair(2, 0), Cell::Value(5.0));
        assert_eq!(matrix.get(pair(0, 1)), Some(&Cell::Value(0.0)));
        assert_eq!(matrix.get(pair(1, 0)), Some(&Cell::Missing("its figure is NaN".into())));
        let untouched = Cell::Missing("its turn did not come".into());
        assert_eq!(matrix.get(pair(0, 2)), Some(&untouched));
        assert_eq!(matrix.get(pair(2, 0)), None);
        assert_eq!(matrix.counts(), Counts { measured: 1, missing: 2 });
        let pairs: Vec<Pair> = matrix.cells().map(|(pair, _)| pair).collect();
        assert_eq!(pairs, [pair(0, 1), pair(0, 2), pair(1, 0)]);
    }
}
