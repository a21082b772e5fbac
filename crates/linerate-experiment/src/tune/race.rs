//! A race: combinations measured beside one that all are compared with, block by block.
//!
//! A block holds the reference once and a few entrants, in an order by chance. What counts of an entrant is
//! its logarithm less that of the reference *in the same block*: what drifts from block to block is in both
//! and cancels. So the unit is the difference within a block, not the run, as with boots in
//! `linerate_stats::offline::nested`.

use linerate_stats::offline::bootstrap::Random;
use linerate_stats::offline::distribution::t_factor;
use linerate_stats::offline::summary::Moments;

use super::space::Combination;

/// Entrants of a block: few, so that the block is short against what drifts.
const BLOCK: usize = 4;
/// An entrant worse than this (as a logarithm, a fifth) is out of reach; how much it scatters says nothing of those
/// that are not.
const REACH: f64 = -0.25;
/// From so many differences on an entrant's own scatter counts where it is the larger one.
const OWN: usize = 6;

/// One that is compared.
#[derive(Debug, Clone)]
pub struct Entrant {
    /// Which.
    pub combination: Combination,
    /// Logarithm of how much better it was than the reference, block by block.
    pub gains: Vec<f64>,
    /// No more is tried of it.
    pub out: bool,
}

impl Entrant {
    /// Mean gain; nothing before there is one.
    pub fn mean(&self) -> Option<f64> {
        linerate_stats::offline::summary::mean(&self.gains)
    }
}

/// How much a difference within a block scatters, pooled.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Noise {
    squares: f64,
    freedom: f64,
}

impl Noise {
    /// From runs of one combination, one after the other: their successive differences, which no drift is in.
    pub fn of_runs(values: &[f64]) -> Self {
        let steps = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2));
        // Neighbouring steps share a run, so n - 1 of them are worth about 2/3 as many (von Neumann 1941).
        let count = values.len().saturating_sub(1) as f64;
        let mean = steps.sum::<f64>() / count.max(1.0);
        let freedom = count * 2.0 / 3.0;
        Self { squares: mean * freedom, freedom }
    }

    fn and(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, freedom: self.freedom + other.freedom }
    }

    /// Variance of one difference; nothing before anything was repeated.
    pub fn variance(&self) -> Option<f64> {
        (self.freedom > 0.0).then(|| self.squares / self.freedom)
    }
}

/// Where an entrant's gain lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Mean.
    pub mean: f64,
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// Entrants against one.
#[derive(Debug, Clone)]
pub struct Race {
    /// What all are compared with.
    pub reference: Combination,
    /// The others.
    pub entrants: Vec<Entrant>,
    /// Blocks in which the default gave a figure and the reference none.
    pub missed: usize,
    /// For how many comparisons an interval holds at once.
    at_once: usize,
}

impl Race {
    /// Nothing is measured yet.
    pub fn new(reference: Combination, entrants: Vec<Combination>) -> Self {
        let at_once = entrants.len().max(1);
        let mut race = Self { reference, entrants: Vec::new(), missed: 0, at_once };
        race.enter(entrants);
        race
    }

    /// Lets more of them in.
    pub fn enter(&mut self, more: Vec<Combination>) {
        for combination in more {
            if !self.entrants.iter().any(|e| e.combination == combination) {
                self.entrants.push(Entrant { combination, gains: Vec::new(), out: false });
            }
        }
    }

    /// The next block on the way to `rounds` differences of each that is not out.
    pub fn block(&self, rounds: usize, random: &mut Random) -> Option<Vec<Combination>> {
        let mut short: Vec<&Entrant> =
            self.entrants.iter().filter(|e| !e.out && e.gains.len() < rounds).collect();
        if short.is_empty() {
            return None;
        }
        short.sort_by_key(|e| e.gains.len());
        let mut block: Vec<Combination> =
            short.into_iter().take(BLOCK).map(|e| e.combination.clone()).collect();
        block.push(self.reference.clone());
        for i in (1..block.len()).rev() {
            block.swap(i, random.below(i + 1));
        }
        Some(block)
    }

    /// All of them at once, in a fixed order, and every other time the other way round: what grows steadily is then
    /// in all alike after two blocks.
    pub fn whole_block(&self, number: usize) -> Vec<Combination> {
        let all = self.entrants.iter().filter(|e| !e.out).map(|e| e.combination.clone());
        let mut block: Vec<Combination> = all.chain([self.reference.clone()]).collect();
        if number % 2 == 1 {
            block.reverse();
        }
        block
    }

    /// What a block gave: logarithms, larger being better. Says whether the reference was measured.
    pub fn take(&mut self, block: &[(Combination, Option<f64>)]) -> bool {
        let reference =
            block.iter().find(|(c, _)| *c == self.reference).and_then(|(_, value)| *value);
        let Some(reference) = reference else {
            let mut default = block.iter().filter(|(c, _)| c.changed().is_empty());
            self.missed += usize::from(default.any(|(_, value)| value.is_some()));
            return false;
        };
        for (combination, value) in block {
            let entrant = self.entrants.iter_mut().find(|e| e.combination == *combination);
            if let (Some(entrant), Some(value)) = (entrant, value) {
                entrant.gains.push(value - reference);
            }
        }
        true
    }

    /// The scatter of this race on top of what was known before.
    pub fn noise(&self, before: Noise) -> Noise {
        let near = self.entrants.iter().filter(|e| e.mean().is_some_and(|mean| mean > REACH));
        near.filter_map(|e| Moments::of(&e.gains)).fold(before, |sum, m| {
            let freedom = m.n - 1.0;
            sum.and(Noise { squares: m.variance * freedom, freedom })
        })
    }

    /// The interval of an entrant's gain that holds with 95 % for all of the race at once (Bonferroni).
    pub fn bounds(&self, entrant: &Entrant, noise: Noise) -> Option<Bounds> {
        self.bounds_at(entrant, noise, 0.05)
    }

    /// The same of which each end alone holds with 95 % for all at once: for what asks after one of them.
    pub fn ends(&self, entrant: &Entrant, noise: Noise) -> Option<Bounds> {
        self.bounds_at(entrant, noise, 0.1)
    }

    fn bounds_at(&self, entrant: &Entrant, noise: Noise, outside: f64) -> Option<Bounds> {
        let mean = entrant.mean()?;
        let n = entrant.gains.len();
        let pooled = noise.variance()?;
        let own = Moments::of(&entrant.gains).filter(|_| n >= OWN);
        let (variance, freedom) = match own {
            Some(own) if own.variance > pooled => (own.variance, own.n - 1.0),
            _ => (pooled, noise.freedom),
        };
        let t = t_factor(outside / self.at_once as f64, freedom.max(1.0))?;
        let half = t * (variance / n as f64).sqrt();
        Some(Bounds { mean, low: mean - half, high: mean + half })
    }

    /// The entrant of that combination.
    pub fn find(&self, combination: &Combination) -> Option<&Entrant> {
        self.entrants.iter().find(|e| e.combination == *combination)
    }

    /// The best mean among those that are not out.
    pub fn best(&self) -> Option<&Entrant> {
        let living = self.entrants.iter().filter(|e| !e.out && !e.gains.is_empty());
        living.max_by(|a, b| a.mean().unwrap_or(f64::MIN).total_cmp(&b.mean().unwrap_or(f64::MIN)))
    }

    /// Keeps the better ones, so many of them.
    pub fn halve(&mut self, keep: usize) {
        let mut means: Vec<f64> =
            self.entrants.iter().filter(|e| !e.out).filter_map(Entrant::mean).collect();
        means.sort_unstable_by(|a, b| b.total_cmp(a));
        let Some(least) = means.get(keep.saturating_sub(1)).copied() else { return };
        for entrant in &mut self.entrants {
            entrant.out |= entrant.mean().is_none_or(|mean| mean < least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(level: usize) -> Combination {
        Combination(vec![level])
    }

    #[test]
    fn what_drifts_cancels_within_a_block() {
        let mut race = Race::new(at(0), vec![at(1), at(2)]);
        for drift in [0.0, 5.0, -3.0] {
            let block = [(at(1), Some(drift + 0.5)), (at(0), Some(drift)), (at(2), None)];
            assert!(race.take(&block));
        }
        assert!(!race.take(&[(at(1), Some(9.0)), (at(0), None)]), "nothing to compare with");
        let one = race.find(&at(1)).unwrap();
        assert_eq!((one.mean(), one.gains.len()), (Some(0.5), 3));
        assert_eq!(race.find(&at(2)).unwrap().mean(), None);
        assert_eq!(race.noise(Noise::default()).variance(), Some(0.0));
        let random = &mut Random::new(1);
        assert_eq!(race.block(3, random).unwrap().len(), 2, "one is short of three");
        assert_eq!(race.best().unwrap().combination, at(1));
        race.halve(1);
        assert_eq!(race.block(9, random).unwrap().len(), 2);
        assert_eq!(race.whole_block(0), [at(1), at(0)]);
        assert_eq!(race.whole_block(1), [at(0), at(1)]);
    }

    /// Of 20 entrants that are as good as the reference, at most one in twenty races sees one outside its interval.
    #[test]
    fn intervals_hold_for_all_at_once() {
        let mut random = Random::new(7);
        let races = 400;
        let wrong = (0..races).filter(|_| {
            let mut race = Race::new(at(0), (1..=20).map(at).collect());
            while let Some(block) = race.block(4, &mut random) {
                let level = random.normal();
                let block: Vec<_> =
                    block.into_iter().map(|c| (c, Some(level + 0.01 * random.normal()))).collect();
                race.take(&block);
            }
            let noise = race.noise(Noise::default());
            let bounds = |e: &Entrant| race.bounds(e, noise).unwrap();
            race.entrants.iter().any(|e| bounds(e).low > 0.0 || bounds(e).high < 0.0)
        });
        let share = wrong.count() as f64 / f64::from(races);
        assert!(share <= 0.07, "{share}");
    }

    #[test]
    fn successive_differences_know_the_scatter_without_the_drift() {
        let mut random = Random::new(3);
        let mut mean = 0.0;
        for _ in 0..2_000 {
            let runs: Vec<f64> =
                (0..5).map(|i| 0.1 * random.normal() + 0.01 * f64::from(i)).collect();
            mean += Noise::of_runs(&runs).variance().unwrap() / 2_000.0;
        }
        // Of a difference it is twice that of a run.
        assert!((mean - 0.02).abs() < 0.001, "{mean}");
        assert_eq!(Noise::of_runs(&[1.0]).variance(), None);
    }
}
