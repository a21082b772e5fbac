//! What is tuned: factors with their levels, and the combinations of them that are tried.

/// One combination: of each factor the number of its level. 0 is the default's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Combination(pub Vec<usize>);

impl Combination {
    /// The same with another level of one factor.
    #[must_use]
    pub fn with(&self, factor: usize, level: usize) -> Self {
        let mut other = self.clone();
        if let Some(place) = other.0.get_mut(factor) {
            *place = level;
        }
        other
    }

    /// The level of a factor.
    pub fn level(&self, factor: usize) -> usize {
        self.0.get(factor).copied().unwrap_or(0)
    }

    /// The factors whose level is not the default's.
    pub fn changed(&self) -> Vec<usize> {
        self.0.iter().enumerate().filter(|(_, level)| **level > 0).map(|(f, _)| f).collect()
    }

    /// Whether it holds a level.
    fn holds(&self, (factor, level): (usize, usize)) -> bool {
        self.0.get(factor) == Some(&level)
    }
}

/// How many levels each factor has, and which of them cannot be had.
#[derive(Debug, Clone)]
pub struct Space {
    levels: Vec<usize>,
    left_out: Vec<(usize, usize)>,
}

impl Space {
    /// Factors by the number of their levels, the default's among them.
    pub fn new(levels: Vec<usize>) -> Self {
        Self { levels, left_out: Vec::new() }
    }

    /// How many factors there are.
    pub fn factors(&self) -> usize {
        self.levels.len()
    }

    /// Every factor at its default.
    pub fn default(&self) -> Combination {
        Combination(vec![0; self.levels.len()])
    }

    /// A level that cannot be had.
    pub fn leave_out(&mut self, factor: usize, level: usize) {
        if level > 0 && !self.left_out.contains(&(factor, level)) {
            self.left_out.push((factor, level));
        }
    }

    /// The same, of a default too.
    pub(super) fn forbid(&mut self, factor: usize, level: usize) {
        self.left_out.push((factor, level));
    }

    /// The levels that cannot be had.
    pub fn left_out(&self) -> &[(usize, usize)] {
        &self.left_out
    }

    /// Whether none of its levels is left out.
    pub fn has(&self, combination: &Combination) -> bool {
        !self.left_out.iter().any(|level| combination.holds(*level))
    }

    /// How many levels a factor has, left out ones too.
    pub fn levels_of_all(&self, factor: usize) -> usize {
        self.levels.get(factor).copied().unwrap_or(0)
    }

    fn levels_of(&self, factor: usize) -> Vec<usize> {
        (0..self.levels_of_all(factor))
            .filter(|level| !self.left_out.contains(&(factor, *level)))
            .collect()
    }

    /// Every combination that differs in one factor.
    pub fn neighbours(&self, of: &Combination) -> Vec<Combination> {
        let one = |factor| {
            let others = self.levels_of(factor).into_iter().filter(move |l| *l != of.level(factor));
            others.map(move |level| of.with(factor, level))
        };
        (0..self.levels.len()).flat_map(one).collect()
    }

    /// Combinations in which every two levels of two factors meet at least once (a covering array of
    /// strength 2, built row by row as by Cohen et al. 1997, without their chance), the default left out.
    pub fn covering(&self) -> Vec<Combination> {
        self.covering_from(&self.default())
    }

    /// The same with another than the default left out, because it was tried.
    pub(super) fn covering_from(&self, tried: &Combination) -> Vec<Combination> {
        let mut open = Pairs::of(self);
        open.cover(tried);
        let mut used =
            vec![vec![0u32; self.levels.iter().copied().max().unwrap_or(0)]; self.levels.len()];
        let mut rows = Vec::new();
        while let Some(((first, a), (second, b))) = open.any() {
            let mut row: Vec<Option<usize>> = vec![None; self.levels.len()];
            for (factor, level) in [(first, a), (second, b)] {
                if let Some(place) = row.get_mut(factor) {
                    *place = Some(level);
                }
            }
            for factor in 0..self.levels.len() {
                if row.get(factor).is_some_and(Option::is_none) {
                    let uses = |level: usize| used.get(factor).and_then(|u| u.get(level)).copied();
                    let best = self.levels_of(factor).into_iter().max_by_key(|level| {
                        (open.met(&row, factor, *level), std::cmp::Reverse(uses(*level)))
                    });
                    row[factor] = best;
                }
            }
            let row = Combination(row.into_iter().map(|level| level.unwrap_or(0)).collect());
            for (factor, level) in row.0.iter().enumerate() {
                if let Some(count) = used.get_mut(factor).and_then(|u| u.get_mut(*level)) {
                    *count += 1;
                }
            }
            open.cover(&row);
            rows.push(row);
        }
        rows
    }
}

type Level = (usize, usize);

/// Pairs of levels that no row has yet.
struct Pairs(std::collections::BTreeSet<(Level, Level)>);

impl Pairs {
    fn of(space: &Space) -> Self {
        let levels: Vec<Level> = (0..space.factors())
            .flat_map(|factor| {
                space.levels_of(factor).into_iter().map(move |level| (factor, level))
            })
            .collect();
        let mut pairs = std::collections::BTreeSet::new();
        for first in &levels {
            // A lone factor has no pairs: each of its levels stands for one with itself.
            let lone = space.factors() == 1;
            pairs.extend(
                levels
                    .iter()
                    .filter(|l| l.0 > first.0 || lone && *l == first)
                    .map(|l| (*first, *l)),
            );
        }
        Self(pairs)
    }

    fn any(&self) -> Option<(Level, Level)> {
        self.0.first().copied()
    }

    fn cover(&mut self, row: &Combination) {
        self.0.retain(|(first, second)| !(row.holds(*first) && row.holds(*second)));
    }

    /// How many open pairs a level makes with those that a row has already.
    fn met(&self, row: &[Option<usize>], factor: usize, level: usize) -> usize {
        let new = (factor, level);
        let others = row.iter().enumerate().filter_map(|(f, l)| Some((f, (*l)?)));
        others.filter(|other| self.0.contains(&(new.min(*other), new.max(*other)))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_two_levels_meet_in_few_rows() {
        for (levels, most) in [
            (vec![4, 4, 5, 3, 3], 30),
            (vec![3; 8], 22),
            (vec![5, 5, 5, 5], 40),
            (vec![2, 2], 3),
            (vec![4], 3),
        ] {
            let space = Space::new(levels.clone());
            let rows = space.covering();
            assert!(rows.len() <= most, "{levels:?}: {}", rows.len());
            let mut all = rows.clone();
            all.push(space.default());
            for (f, g) in (0..levels.len()).flat_map(|f| (f + 1..levels.len()).map(move |g| (f, g)))
            {
                for (a, b) in (0..levels[f]).flat_map(|a| (0..levels[g]).map(move |b| (a, b))) {
                    assert!(
                        all.iter().any(|r| r.0[f] == a && r.0[g] == b),
                        "{levels:?} {f}{a} {g}{b}"
                    );
                }
            }
            assert!(!rows.contains(&space.default()));
        }
    }

    #[test]
    fn what_cannot_be_had_is_in_no_row() {
        let mut space = Space::new(vec![3, 3, 3]);
        space.leave_out(1, 2);
        space.leave_out(1, 0);
        assert_eq!(space.left_out(), [(1, 2)], "the default can be had");
        assert!(space.covering().iter().all(|row| row.level(1) != 2));
        let at = space.default().with(0, 1);
        assert_eq!(space.neighbours(&at).len(), 2 + 1 + 2);
        assert_eq!(at.changed(), [0]);
        assert_eq!(Space::new(vec![]).covering(), []);
    }
}
