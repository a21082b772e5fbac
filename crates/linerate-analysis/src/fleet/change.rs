//! Whether the level of a pair has changed, of pairs that are measured time after time for months: each is a series that
//! is looked at after every time. Results that are missing are missing, and nothing stands for them.
//!
//! What is reported rests on the results alone and on none that came later, so that the same results always report the same
//! changes, each once.

use linerate_stats::offline::hodges_lehmann::shift;
use linerate_stats::offline::level::Level;
use linerate_stats::offline::summary::{median, sorted};
use serde::{Deserialize, Serialize};

use super::{ALPHA, LEVEL};
use crate::metric::Better;

/// The pairs of a fleet, as far as they must be known to tell what changes next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    pairs: Vec<Series>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Series {
    level: Level,
    /// The last times with a result, as many as the values of the level.
    times: Vec<u64>,
}

/// The level of a pair has changed. Levels and their difference are in the unit of the figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Changed {
    /// Place of the pair.
    pub pair: usize,
    /// Number of the first time after it.
    pub since: u64,
    /// Median before.
    pub before: f64,
    /// Median after, as far as it was known when the change was reported.
    pub after: f64,
    /// Low and high end of after less before, at [`LEVEL`] by Hodges and Lehmann; `None` where there are too few values.
    pub interval: Option<(f64, f64)>,
    /// Whether it is worse after it.
    pub worse: bool,
}

impl Watched {
    /// Of so many pairs, of which nothing is known.
    pub fn new(pairs: usize) -> Self {
        Self { pairs: vec![Series::default(); pairs] }
    }

    /// What came of all pairs at a time, which is later than all before. The chance that anything at all is ever told
    /// where nothing changes is [`ALPHA`].
    pub fn take(&mut self, time: u64, row: &[Option<f64>], better: Better) -> Vec<Changed> {
        let chance = ALPHA / self.pairs.len().max(1) as f64;
        let pairs = self.pairs.iter_mut().zip(row).enumerate();
        let changed = pairs.filter_map(|(pair, (series, value))| {
            let value = value.filter(|value| value.is_finite())?;
            series.take(time, value, chance, better).map(|changed| Changed { pair, ..changed })
        });
        changed.collect()
    }
}

impl Series {
    fn take(&mut self, time: u64, value: f64, chance: f64, better: Better) -> Option<Changed> {
        let change = self.level.push(value, chance);
        self.times.push(time);
        let needless = self.times.len().saturating_sub(self.level.known());
        self.times.drain(..needless);
        let change = change?;
        let middle = |values: &[f64]| median(&sorted(values));
        let (before, after) = (middle(&change.before)?, middle(&change.after)?);
        let interval = shift(&change.before, &change.after, LEVEL).and_then(|shift| shift.interval);
        Some(Changed {
            pair: 0,
            since: self.times.first().copied()?,
            before,
            after,
            interval: interval.map(|(low, high, _)| (low, high)),
            worse: if better == Better::Higher { after < before } else { after > before },
        })
    }
}

#[cfg(test)]
mod tests {
    use linerate_stats::offline::bootstrap::Random;

    use super::*;

    /// Rows of two pairs: the first falls from 94 to 47 at time 60, the second has the same noise and stays.
    fn rows(missing: impl Fn(u64) -> bool) -> Vec<(u64, [Option<f64>; 2])> {
        let mut random = Random::new(1);
        let mut row = |time: u64| {
            let level = if time < 60 { 94.0 } else { 47.0 };
            let mut value = |level: f64| level * (1.0 + 0.01 * random.normal());
            let row = [Some(value(level)), Some(value(94.0))];
            (time, if missing(time) { [None, row[1]] } else { row })
        };
        (1..=200).map(&mut row).collect()
    }

    fn changes_in(rows: &[(u64, [Option<f64>; 2])], better: Better) -> Vec<(u64, Changed)> {
        let mut watched = Watched::new(2);
        let take = |(time, row): &(u64, [Option<f64>; 2])| {
            watched.take(*time, row, better).into_iter().map(|c| (*time, c)).collect::<Vec<_>>()
        };
        rows.iter().flat_map(take).collect()
    }

    #[test]
    fn a_change_is_told_once_with_its_size_and_since_when() {
        let found = changes_in(&rows(|_| false), Better::Higher);
        let [(when, change)] = found.as_slice() else { panic!("{found:?}") };
        assert!((63..=66).contains(when), "{found:?}");
        assert_eq!((change.pair, change.since, change.worse), (0, 60, true));
        let (low, high) = change.interval.expect("enough values");
        assert!(low < -47.0 && -47.0 < high && high - low < 2.0, "{change:?}");
        assert!((change.before - 94.0).abs() < 0.5 && (change.after - 47.0).abs() < 0.5);
        let (_, of_delay) = changes_in(&rows(|_| false), Better::Lower)[0];
        assert!(!of_delay.worse, "less may be better");
    }

    #[test]
    fn what_is_missing_is_no_zero_and_delays_what_is_told() {
        // Nothing comes of two hours in three.
        let found = changes_in(&rows(|time| time % 3 != 0), Better::Higher);
        let [(when, change)] = found.as_slice() else { panic!("{found:?}") };
        assert!((66..=90).contains(when) && when % 3 == 0, "{found:?}");
        assert_eq!((change.pair, change.since), (0, 60));
        // From time 60 on nothing at all: that is no change of a level.
        assert_eq!(changes_in(&rows(|time| time >= 60), Better::Higher), []);
    }

    #[test]
    fn a_change_of_a_twentieth_is_told_within_a_few_times() {
        let mut random = Random::new(3);
        let mut delays = Vec::new();
        for _ in 0..100 {
            let (mut watched, mut first) = (Watched::new(20), None);
            for time in 1..=130u64 {
                let level = if time <= 100 { 100.0 } else { 95.0 };
                let mut row = [None; 20];
                row[7] = Some(level + random.normal());
                for found in watched.take(time, &row, Better::Higher) {
                    assert!(found.pair == 7 && time > 100 && found.worse, "{found:?}");
                    first = first.or(Some(time - 100));
                }
            }
            delays.extend(first);
        }
        delays.sort_unstable();
        assert!(delays.len() > 95 && delays[50] <= 6 && delays[90] <= 12, "{delays:?}");
    }
}
