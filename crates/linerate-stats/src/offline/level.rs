//! Whether the level of a series has changed, asked again after each value for as long as one likes.
//!
//! After each value the last 3, 4, ... 128 are compared with those before them by the sum of their ranks (Wilcoxon 1945,
//! Mann and Whitney 1947). While nothing changes each order of the values is as likely as any other, so that the chance
//! of a sum is counted exactly and rests on no distribution of the values. What chance a series may have of a false
//! change is shared out over all lengths, all values and all changes that will ever be, so that it holds however often
//! one looks (the sum of the shares is no more than the whole; Boole). Where values resemble their neighbours they are
//! fewer than they seem: the logarithm of the chance is divided by what that does to the variance of a mean.
//!
//! Unit: that of the values. Limits: a level is known by its last 512 values; a dependence that the values of the
//! present level do not show, as a daily course in its first days, is taken for changes.

use super::summary::{median, sorted};

/// Older values of a level are forgotten.
pub const WINDOW: usize = 512;
/// How many of the last values are compared with those before. Fewer than the first are outliers.
const LENGTHS: [usize; 16] = [3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128];
/// Fewer values are no level.
const FEWEST: usize = 3;
/// With fewer values in all no sum of ranks is rare enough.
const FIRST_LOOK: u64 = 10;
/// Of rank sums of so many values or more, how rare they are is known near enough from the normal distribution to leave
/// the counting to those that may be rare.
const MANY: usize = 16;

/// A series, as far as it must be known to go on: see the head of the file.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Level {
    /// The last values of the present level, in their order.
    values: Vec<f64>,
    /// The same by size; made of them where it is not there.
    #[serde(skip)]
    ordered: Vec<f64>,
    /// How many there were of the present level.
    seen: u64,
    /// How many changes were found.
    changes: u32,
}

/// The level has changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Values of the old level, at most [`WINDOW`].
    pub before: Vec<f64>,
    /// Those of the new one, in their order; the last is that after which it was found.
    pub after: Vec<f64>,
}

/// How the last values stand to those before, counted in pairs of one of each.
#[derive(Debug, Clone, Copy)]
struct Split {
    /// How many the last ones are.
    length: usize,
    /// Pairs whose last one is larger.
    larger: u64,
    /// Pairs whose last one is smaller.
    smaller: u64,
}

impl Level {
    /// How many values of the present level are known.
    pub fn known(&self) -> usize {
        self.values.len()
    }

    /// One value more, which must be finite. `chance` is that of a false change in this series, ever.
    pub fn push(&mut self, value: f64, chance: f64) -> Option<Change> {
        if self.ordered.len() != self.values.len() {
            self.ordered = sorted(&self.values);
        }
        self.values.push(value);
        let place = self.ordered.partition_point(|other| *other < value);
        self.ordered.insert(place, value);
        if self.values.len() > WINDOW {
            let oldest = self.values.remove(0);
            let place = self.ordered.partition_point(|other| *other < oldest);
            self.ordered.remove(place);
        }
        self.seen = self.seen.saturating_add(1);
        if !self.changed(chance) {
            return None;
        }
        let after = self.values.split_off(self.values.len().saturating_sub(self.last_split()));
        let before = std::mem::replace(&mut self.values, after.clone());
        self.ordered = sorted(&self.values);
        self.seen = after.len() as u64;
        self.changes = self.changes.saturating_add(1);
        Some(Change { before, after })
    }

    /// Whether the rank sum of one length is rarer than its share of `chance`.
    fn changed(&self, chance: f64) -> bool {
        let changes = f64::from(self.changes);
        // Both sum to 1 over all that can come: 1/2 + 1/6 + 1/12 + ..., and differences of neighbours.
        let of_change = 1.0 / ((changes + 1.0) * (changes + 2.0));
        let root = |looks: u64| (looks as f64).sqrt();
        if self.seen < FIRST_LOOK {
            return false;
        }
        let before = self.seen.saturating_sub(1);
        let of_look = root(FIRST_LOOK - 1) * (1.0 / root(before) - 1.0 / root(self.seen));
        let share = chance * of_change * of_look / LENGTHS.len() as f64;
        let longest = LENGTHS.last().copied().unwrap_or(0);
        self.splits().take(longest).filter(|split| LENGTHS.contains(&split.length)).any(|split| {
            let before = self.values.len().saturating_sub(split.length);
            before >= FEWEST && self.is_rare(split, before, share)
        })
    }

    fn is_rare(&self, split: Split, before: usize, share: f64) -> bool {
        let (n, m) = (before as f64, split.length as f64);
        // In standard deviations; e^(-z^2 / 2) would be the share.
        let z = if split.length < MANY { 2.5 } else { (-share.ln()).max(0.0).sqrt() };
        let far = n * m / 2.0 - z * (n * m * (n + m + 1.0) / 12.0).sqrt();
        // Equals count against it: were they ordered by lot, it would be rarer or as rare.
        let pairs = (before as u64).saturating_mul(split.length as u64);
        let against = pairs.saturating_sub(split.larger.max(split.smaller));
        if against as f64 > far {
            return false;
        }
        let p = 2.0 * chance_of_at_most(against, before, split.length);
        // The logarithm of p may be divided by so much.
        let most = if share > 0.0 && share < 1.0 {
            p.max(f64::MIN_POSITIVE).ln() / share.ln()
        } else {
            0.0
        };
        most >= 1.0 && self.values.get(..before).is_some_and(|old| inflation(old, most) <= most)
    }

    /// Of the last 1, 2, ... values.
    fn splits(&self) -> impl Iterator<Item = Split> {
        let (mut below, mut above, mut unequal) = (0u64, 0u64, 0u64);
        self.values.iter().enumerate().rev().zip(1..).map(move |((at, value), length)| {
            let less = self.ordered.partition_point(|other| other < value);
            let more = self.ordered.len() - self.ordered.partition_point(|other| other <= value);
            below += less as u64;
            above += more as u64;
            // Of a pair within the last values one is larger, and was counted.
            let within = self.values.iter().skip(at).filter(|other| *other != value);
            unequal += within.count() as u64;
            Split { length, larger: below - unequal, smaller: above - unequal }
        })
    }

    /// How many of the last values the new level has: where the values of both are nearest to their medians.
    fn last_split(&self) -> usize {
        let away = |values: &[f64]| {
            let ordered = sorted(values);
            let middle = median(&ordered).unwrap_or_default();
            ordered.iter().map(|value| (value - middle).abs()).sum::<f64>()
        };
        let places = FEWEST..self.values.len().saturating_sub(FEWEST).saturating_add(1);
        let split = |at: &usize| {
            self.values
                .split_at_checked(*at)
                .map_or(f64::INFINITY, |(old, new)| away(old) + away(new))
        };
        let found = places.map(|at| (split(&at), at)).min_by(|a, b| a.0.total_cmp(&b.0));
        found.map_or(FEWEST, |(_, at)| self.values.len() - at)
    }
}

/// Chance that of all ways to choose `m` of `n + m` ranks, at most `pairs` of one that was chosen and one that was not
/// have the first one smaller: the number of partitions of 0, 1, ... `pairs` into at most m parts of at most n, over
/// the number of ways (Mann and Whitney 1947).
fn chance_of_at_most(pairs: u64, n: usize, m: usize) -> f64 {
    let Ok(most) = usize::try_from(pairs) else { return 1.0 };
    // The coefficients of the product of (1 - q^(n+i)) / (1 - q^i) up to q^most, and their number in all.
    let mut counts = vec![0.0f64; most.saturating_add(1)];
    if let Some(first) = counts.first_mut() {
        *first = 1.0;
    }
    let mut ways = 1.0;
    for part in 1..=m.min(n) {
        let (small, large) = (part, n.max(m).saturating_add(part));
        for at in (large..=most).rev() {
            let less = counts.get(at - large).copied().unwrap_or(0.0);
            if let Some(count) = counts.get_mut(at) {
                *count -= less;
            }
        }
        for at in small..=most {
            let more = counts.get(at - small).copied().unwrap_or(0.0);
            if let Some(count) = counts.get_mut(at) {
                *count += more;
            }
        }
        ways *= large as f64 / small as f64;
    }
    (counts.iter().sum::<f64>() / ways).clamp(0.0, 1.0)
}

/// How much larger the variance of a mean of these is than that of as many that know nothing of each other: 1 + 2 times
/// the sum of the autocorrelations of their ranks, as long as those of two neighbouring lags together are positive
/// (Geyer 1992); at least 1. It is not counted on once it is above `most`.
fn inflation(values: &[f64], most: f64) -> f64 {
    let ordered = sorted(values);
    let rank = |value: &f64| {
        let less = ordered.partition_point(|other| other < value);
        (less + ordered.partition_point(|other| other <= value)) as f64
    };
    let mean = values.len() as f64;
    let ranks: Vec<f64> = values.iter().map(|value| rank(value) - mean).collect();
    let at = |lag: usize| ranks.iter().zip(ranks.iter().skip(lag)).map(|(a, b)| a * b).sum::<f64>();
    let squares = at(0);
    let mut sum = 1.0;
    let mut lag = 1;
    while squares > 0.0 && lag < values.len() / 4 && sum <= most {
        let both = (at(lag) + at(lag + 1)) / squares;
        if both <= 0.0 {
            break;
        }
        sum += 2.0 * both;
        lag += 2;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::bootstrap::Random;
    use crate::offline::mann_whitney;

    const CHANCE: f64 = 0.05;

    /// After how many values each change was found, and how many values its new level had.
    fn found(series: impl IntoIterator<Item = f64>, chance: f64) -> Vec<(usize, usize)> {
        let mut level = Level::default();
        let found = |(at, value)| Some((at, level.push(value, chance)?.after.len()));
        (1..).zip(series).filter_map(found).collect()
    }

    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut random = Random::new(seed);
        move || random.normal()
    }

    #[test]
    fn chances_are_those_that_are_counted() {
        // Two of five ranks: 1, 1, 2, 2, 2, 1, 1 of 10 ways have 0, 1, ... 6 pairs.
        for (pairs, ways) in [(0, 1.0), (1, 2.0), (2, 4.0), (3, 6.0), (4, 8.0), (5, 9.0), (6, 10.0)]
        {
            for (n, m) in [(3, 2), (2, 3)] {
                let chance = chance_of_at_most(pairs, n, m);
                assert!((chance - ways / 10.0).abs() < 1e-12, "{pairs} {n} {m}: {chance}");
            }
        }
        // As mann_whitney, which counts another way.
        let mut random = Random::new(5);
        for _ in 0..50 {
            let (n, m) = (3 + random.below(20), 3 + random.below(20));
            let base: Vec<f64> = (0..n).map(|_| random.normal()).collect();
            let set: Vec<f64> = (0..m).map(|_| random.normal() + 1.0).collect();
            let wanted = mann_whitney::test(&base, &set).expect("values");
            let pairs = (n * m) as u64 - wanted.u as u64;
            let p = (2.0 * chance_of_at_most(pairs.min(wanted.u as u64), n, m)).min(1.0);
            assert!((p - wanted.p).abs() < 1e-9, "{p} {wanted:?}");
        }
    }

    #[test]
    fn a_step_is_found_once_and_placed_where_it_was() {
        let mut noise = noise(1);
        let series: Vec<f64> =
            (0..400).map(|at| noise() - if at < 100 { 0.0 } else { 5.0 }).collect();
        let changes = found(series.iter().copied(), CHANCE);
        assert_eq!(changes.len(), 1, "{changes:?}");
        let (at, after) = changes[0];
        assert!((104..=108).contains(&at) && after + 100 == at, "{changes:?}");
        // Upside down, stretched and moved it is the same.
        let other = series.iter().map(|value| 1e9 - 1e6 * value);
        assert_eq!(found(other, CHANCE), changes);
    }

    #[test]
    fn a_level_that_comes_back_is_a_change_back() {
        let mut noise = noise(2);
        let low = |at| if (100..124).contains(&at) { -5.0 } else { 0.0 };
        let changes = found((0..200).map(|at| noise() + low(at)), CHANCE);
        let begins: Vec<usize> = changes.iter().map(|(at, after)| at - after).collect();
        assert_eq!(begins, [100, 124], "{changes:?}");
    }

    #[test]
    fn two_outliers_and_equal_values_are_no_change() {
        let mut noise = noise(3);
        let outlier = |at: usize| if at % 50 > 47 { -1e9 } else { 0.0 };
        assert_eq!(found((0..500).map(|at| noise() + outlier(at)), CHANCE), []);
        assert_eq!(found([7.0; 300], CHANCE), []);
        // Of what has only two values, one in ten the other.
        let mut random = Random::new(4);
        assert_eq!(found((0..500).map(|_| f64::from(u8::from(random.below(10) == 0))), CHANCE), []);
    }

    #[test]
    fn it_goes_on_from_what_is_kept_as_if_it_had_never_stopped() {
        let mut noise = noise(6);
        let series: Vec<f64> =
            (0..700).map(|at| noise() - if at < 600 { 0.0 } else { 5.0 }).collect();
        let (mut level, mut kept) = (Level::default(), Level::default());
        for value in series {
            kept.ordered.clear();
            assert_eq!(kept.push(value, CHANCE), level.push(value, CHANCE));
            assert_eq!(level.ordered, sorted(&level.values));
        }
        assert_eq!((level.changes, level.values.len() < WINDOW), (1, true));
    }

    /// A fleet of 200 pairs that was looked at 500 times.
    fn changes_of_200(mut make: impl FnMut(&mut Random, f64) -> f64) -> usize {
        let mut random = Random::new(8);
        let mut one = || {
            let mut last = 0.0;
            found(
                (0..500).map(|_| {
                    last = make(&mut random, last);
                    last
                }),
                CHANCE / 200.0,
            )
            .len()
        };
        (0..200).map(|_| one()).sum()
    }

    #[test]
    fn where_nothing_changes_nothing_is_found() {
        // One fleet in twenty may have one.
        assert_eq!(changes_of_200(|random, _| random.normal()), 0);
        assert_eq!(changes_of_200(|random, _| random.normal() / random.normal()), 0, "heavy tails");
        let modes = |random: &mut Random, _| {
            random.normal() + if random.below(3) == 0 { -20.0 } else { 0.0 }
        };
        assert_eq!(changes_of_200(modes), 0, "two modes");
        // Each value has a third of the one before it: nothing promises it, and it holds.
        assert_eq!(changes_of_200(|random, last| 0.3 * last + random.normal()), 0);
    }
}
