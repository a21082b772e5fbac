//! Median polish of a table (Tukey 1977): each value is a level, the effects it has part in (of its row and its column,
//! or of the two hosts of a pair), and a rest. Medians are swept out until nothing moves, so that a single wild value
//! stays in its own rest and spoils no effect. Unit: that of the values.
//!
//! Limits: the fit need not be the only one, and depends on the order of the sweeps, which is that of the effects.

/// A value that was measured; what is missing has no cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The value, finite.
    pub value: f64,
    /// Numbers of the effects it has part in, none, one or two of them.
    pub of: [Option<usize>; 2],
}

/// A table taken apart: a value is `level`, its effects and its rest together.
#[derive(Debug, Clone, PartialEq)]
pub struct Polish {
    /// What all have in common.
    pub level: f64,
    /// By their numbers; `None` where no value has part in it.
    pub effects: Vec<Option<f64>>,
    /// Of each value, in the order given.
    pub rest: Vec<f64>,
}

/// Sweeps after which it is left as it is: most tables stand still after two or three, and some go round for ever
/// between fits of the same quality.
const MOST_SWEEPS: usize = 10;

/// Polishes. `families` says how many effects there are of each kind, numbered through: rows and columns, or hosts.
/// The median of a family is part of the level where every value has part in as many of its effects. `None` without
/// a value.
pub fn polish(cells: &[Cell], families: &[usize]) -> Option<Polish> {
    let count = families.iter().fold(0usize, |sum, family| sum.saturating_add(*family));
    let mut members = vec![Vec::new(); count];
    for (at, cell) in cells.iter().enumerate() {
        for effect in cell.of.iter().flatten() {
            if let Some(members) = members.get_mut(*effect) {
                members.push(at);
            }
        }
    }
    let mut values: Vec<f64> = cells.iter().map(|cell| cell.value).collect();
    let level = median(&mut values)?;
    let mut rest: Vec<f64> = cells.iter().map(|cell| cell.value - level).collect();
    let size = rest.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let mut effects: Vec<Option<f64>> =
        members.iter().map(|own| (!own.is_empty()).then_some(0.0)).collect();
    for _ in 0..MOST_SWEEPS {
        let mut moved = 0.0f64;
        for (effect, own) in effects.iter_mut().zip(&members) {
            let Some(effect) = effect else { continue };
            values.clear();
            values.extend(own.iter().filter_map(|at| rest.get(*at)));
            let Some(middle) = median(&mut values) else { continue };
            *effect += middle;
            for at in own {
                if let Some(rest) = rest.get_mut(*at) {
                    *rest -= middle;
                }
            }
            moved = moved.max(middle.abs());
        }
        // What is left of rounding is no move.
        if moved <= 1e-12 * size {
            break;
        }
    }
    let mut polish = Polish { level, effects, rest };
    polish.centre(cells, families);
    Some(polish)
}

impl Polish {
    fn centre(&mut self, cells: &[Cell], families: &[usize]) {
        let mut first = 0usize;
        for family in families {
            let of = first..first.saturating_add(*family);
            first = of.end;
            let parts = |cell: &Cell| cell.of.iter().flatten().filter(|e| of.contains(e)).count();
            let Some(share) = cells.first().map(parts) else { continue };
            let Some(effects) = self.effects.get_mut(of.clone()) else { continue };
            let mut known: Vec<f64> = effects.iter().flatten().copied().collect();
            if let Some(middle) = median(&mut known)
                && cells.iter().all(|cell| parts(cell) == share)
            {
                effects.iter_mut().flatten().for_each(|effect| *effect -= middle);
                self.level += middle * share as f64;
            }
        }
    }
}

/// Middle value of what it puts into another order.
fn median(values: &mut [f64]) -> Option<f64> {
    let half = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, high, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let low = below.iter().copied().max_by(f64::total_cmp).filter(|_| even);
    Some(low.map_or(*high, |low| 0.5 * low + 0.5 * *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[Option<f64>]]) -> Vec<Cell> {
        let cell = |row: usize, column: usize, value: &Option<f64>| {
            value.map(|value| Cell { value, of: [Some(row), Some(rows.len() + column)] })
        };
        let row = |(r, row): (usize, &&[Option<f64>])| {
            row.iter().enumerate().filter_map(|(c, v)| cell(r, c, v)).collect::<Vec<_>>()
        };
        rows.iter().enumerate().flat_map(row).collect()
    }

    /// Deaths from sport parachuting (Tukey 1977), the example of R's `medpolish`.
    #[test]
    fn known_answer() {
        let known = [[14., 15., 14.], [7., 4., 7.], [8., 2., 10.], [15., 9., 10.], [0., 2., 0.]];
        let rows = known.map(|row| row.map(Some));
        let rows: Vec<&[Option<f64>]> = rows.iter().map(|row| &row[..]).collect();
        let found = polish(&table(&rows), &[5, 3]).unwrap();
        assert_eq!(found.level, 8.0);
        let effects: Vec<f64> = found.effects.into_iter().flatten().collect();
        assert_eq!(effects, [6.0, -1.0, 0.0, 2.0, -8.0, 0.0, -1.0, 0.0]);
        let rest = [0., 2., 0., 0., -2., 0., 0., -5., 2., 5., 0., 0., 0., 3., 0.];
        assert_eq!(found.rest, rest);
    }

    #[test]
    fn a_wild_value_and_a_missing_one_spoil_no_effect() {
        let value = |r: usize, c: usize| 100.0 + 10.0 * r as f64 + c as f64;
        let mut rows: Vec<Vec<Option<f64>>> =
            (0..5).map(|r| (0..5).map(|c| Some(value(r, c))).collect()).collect();
        rows[1][3] = Some(-1e6);
        rows[4][0] = None;
        let rows: Vec<&[Option<f64>]> = rows.iter().map(|row| &row[..]).collect();
        let cells = table(&rows);
        let found = polish(&cells, &[5, 5]).unwrap();
        assert!((found.level - value(2, 2)).abs() < 1e-9, "{found:?}");
        for at in 0..5 {
            let (row, column) = (found.effects[at].unwrap(), found.effects[5 + at].unwrap());
            assert!((row - (10.0 * at as f64 - 20.0)).abs() < 1e-9, "{found:?}");
            assert!((column - (at as f64 - 2.0)).abs() < 1e-9, "{found:?}");
        }
        let wild: Vec<usize> = (0..24).filter(|at| found.rest[*at].abs() > 1e-9).collect();
        assert_eq!(wild, [8]);
        for (cell, rest) in cells.iter().zip(&found.rest) {
            let effects = cell.of.iter().flatten().filter_map(|e| found.effects[*e]).sum::<f64>();
            assert!((cell.value - found.level - effects - rest).abs() < 1e-9);
        }
    }

    #[test]
    fn both_ends_of_a_pair_may_be_of_one_family() {
        let own = [0.0, 1.0, 0.0, -7.0, 0.0, 2.0];
        let of =
            |a: usize, b: usize| Cell { value: 50.0 + own[a] + own[b], of: [Some(a), Some(b)] };
        let cells: Vec<Cell> = (0..6).flat_map(|a| (0..a).map(move |b| of(a, b))).collect();
        let found = polish(&cells, &[6]).unwrap();
        assert!((found.level - 50.0).abs() < 1e-9, "{found:?}");
        for (effect, own) in found.effects.iter().zip(own) {
            assert!((effect.unwrap() - own).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn what_nothing_is_known_of_is_absent() {
        assert_eq!(polish(&[], &[2, 2]), None);
        let two = [4.0, 1.0].map(|value| Cell { value, of: [None; 2] });
        assert_eq!(polish(&two, &[]).unwrap().level, 2.5);
        let lone = [Cell { value: 3.0, of: [Some(1), Some(99)] }];
        let found = polish(&lone, &[2]).unwrap();
        assert_eq!(
            (found.level, found.effects, found.rest),
            (3.0, vec![None, Some(0.0)], vec![0.0])
        );
    }
}
