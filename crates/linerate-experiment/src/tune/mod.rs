//! Tuning: which combination of levels is best, found by few trials of many possible ones.
//!
//! It gets figures and gives the next combination to try; it knows no clock, no socket and no chance but
//! its seed. All figures are compared as logarithms within short blocks ([`race`]). The stages:
//!
//! 1. **Default**: a few runs of it, one after the other, show how much runs scatter.
//! 2. **Screen**: a covering array, so that every two levels of two factors were tried together, halved
//!    twice (Karnin et al. 2013) together with the combination of each factor's best levels.
//! 3. **Refine**: the best so far against everything that differs from it in one factor, until each of those
//!    is shown to be better, or unable to add more than the width; then on from the better one.
//! 4. **Prune**: what differs from the default and is not needed goes back to the default.
//! 5. **Confirm**: fresh pairs with the default, and without each changed factor. Only these are told, so that
//!    what won by chance does not keep what chance gave it.
//!
//! `docs/tune.md` has the formulas, their sources and limits.

mod found;
pub mod race;
pub mod space;
mod stages;

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::tune::{Purpose, Reason};
use linerate_stats::offline::bootstrap::Random;

pub use found::{FactorFound, Found};
use race::{Noise, Race};
use space::{Combination, Space};

/// Runs of the default at the beginning; the first warms up what is cold and is not looked at.
const FIRST_RUNS: usize = 6;
/// Differences that each of the screen has had after its rounds; after all but the last the better third stays.
const SCREEN: [usize; 3] = [1, 2, 4];
/// At least so many stay.
const STAY: usize = 3;
/// Differences that each neighbour that is not settled has had after the rounds of a race.
const ROUNDS: [usize; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// The same of several better levels at once, before the best of them leads.
const JOINED: usize = 2;
/// Pairs of the last comparison.
const PAIRS: std::ops::RangeInclusive<u64> = 8..=40;
/// Fewer show no interval worth telling.
const FEWEST_PAIRS: usize = 4;
/// Time is kept for so many pairs, where there is a limit of time.
const KEPT_PAIRS: usize = 8;
/// Trials of a block of a search.
const LARGEST_BLOCK: usize = 5;
/// So many blocks without a figure of what all are compared with end it.
const MOST_UNMEASURED: u32 = 3;

/// What is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What a factor must matter by, as a share: 0.02.
    pub width: f64,
    /// Small figures are the better ones.
    pub lower: bool,
    /// No trial begins that would end after so many seconds of trials.
    pub max_s: Option<f64>,
    /// Of the order of trials.
    pub seed: u64,
}

/// What came of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The figure; nothing where this combination gives none.
    pub value: Option<f64>,
    /// Wall time, seconds.
    pub took_s: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Default,
    Screen(usize),
    Refine(usize),
    Join,
    /// What changes nothing alone, every two together.
    Plateau(usize),
    /// Each changed factor put back in turn.
    Ablate(usize),
    /// Several of them put back at once, or else that one.
    Drop(usize, Option<Combination>),
    /// So many blocks of so many.
    Confirm(usize, usize),
    Done(Reason),
}

impl Stage {
    fn purpose(&self) -> Purpose {
        match self {
            Self::Default => Purpose::Default,
            Self::Screen(_) => Purpose::Screen,
            Self::Refine(_) | Self::Join | Self::Plateau(_) => Purpose::Refine,
            Self::Ablate(_) | Self::Drop(..) => Purpose::Prune,
            Self::Confirm(..) | Self::Done(_) => Purpose::Confirm,
        }
    }
}

/// A tuning on its way.
#[derive(Debug, Clone)]
pub struct Tune {
    settings: Settings,
    space: Space,
    random: Random,
    stage: Stage,
    race: Race,
    noise: Noise,
    leader: Combination,
    /// To be tried, the next one last; and what was tried of this block.
    queue: Vec<Combination>,
    block: Vec<(Combination, Option<f64>)>,
    /// Of each level how often it gave a figure, and how often it gave none.
    tries: BTreeMap<(usize, usize), (u32, u32)>,
    failed: BTreeSet<Combination>,
    made: u32,
    spent_s: f64,
    unmeasured: u32,
    moves: u32,
    reason: Reason,
    /// The race around the last leader of the search, and the scatter that was known at its end.
    around: Option<(Race, Noise)>,
    /// The race of fresh pairs, and its figures; before it those of the default.
    confirmed: Option<Race>,
    figures: Vec<(Combination, f64)>,
}

impl Tune {
    /// Factors by the number of their levels; level 0 is the default's.
    pub fn new(levels: Vec<usize>, settings: Settings) -> Self {
        let space = Space::new(levels);
        let default = space.default();
        let mut tune = Self {
            random: Random::new(settings.seed),
            race: Race::new(default.clone(), Vec::new()),
            stage: Stage::Default,
            noise: Noise::default(),
            leader: default.clone(),
            queue: vec![default.clone(); FIRST_RUNS],
            block: Vec::new(),
            tries: BTreeMap::new(),
            failed: BTreeSet::new(),
            made: 0,
            spent_s: 0.0,
            unmeasured: 0,
            moves: 0,
            reason: Reason::Settled,
            around: None,
            confirmed: None,
            figures: Vec::new(),
            settings,
            space,
        };
        if tune.space.neighbours(&default).is_empty() {
            tune.end(Reason::NothingToVary);
        }
        tune
    }

    /// The combination to try now, and what for.
    pub fn next(&self) -> Option<(&Combination, Purpose)> {
        self.queue.last().map(|combination| (combination, self.stage.purpose()))
    }

    /// The best so far. It may have won by chance until it is confirmed.
    pub fn leader(&self) -> &Combination {
        &self.leader
    }

    /// The factors and their levels.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Time of all trials so far, seconds.
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// A level that cannot be had after all: what was tried with it counts no more.
    pub fn leave_out(&mut self, factor: usize, level: usize) {
        self.space.leave_out(factor, level);
        self.forget();
        if self.queue.is_empty() && !matches!(self.stage, Stage::Done(_)) {
            self.absorb();
            self.plan();
        }
    }

    /// Ends it with what is known.
    pub fn stop(&mut self) {
        if !matches!(self.stage, Stage::Done(_)) {
            self.keep_around();
            self.end(Reason::Stopped);
        }
    }

    /// What came of [`Tune::next`].
    pub fn take(&mut self, measured: Measured) {
        let Some(combination) = self.queue.pop() else { return };
        self.made += 1;
        self.spent_s += measured.took_s.max(0.0);
        let value = measured.value.filter(|value| *value > 0.0 && value.is_finite());
        for level in combination.0.iter().copied().enumerate() {
            let (good, bad) = self.tries.entry(level).or_default();
            *(if value.is_some() { good } else { bad }) += 1;
        }
        match value {
            Some(value) if matches!(self.stage, Stage::Default | Stage::Confirm(..)) => {
                self.figures.push((combination.clone(), value));
            }
            Some(_) => {}
            None if combination == self.race.reference => {}
            None => self.fail(&combination),
        }
        let score = value.map(|value| if self.settings.lower { -value.ln() } else { value.ln() });
        self.block.push((combination, score));
        if self.queue.is_empty() {
            self.absorb();
            self.plan();
        }
    }

    /// A combination that gives no figure; and a level that never gave one in two.
    fn fail(&mut self, combination: &Combination) {
        self.failed.insert(combination.clone());
        for level in combination.0.iter().copied().enumerate() {
            if matches!(self.tries.get(&level), Some((0, bad)) if *bad >= 2) {
                self.space.leave_out(level.0, level.1);
            }
        }
        self.forget();
    }

    fn possible(&self, combination: &Combination) -> bool {
        self.space.has(combination) && !self.failed.contains(combination)
    }

    /// Takes out of race and queue what cannot be had.
    fn forget(&mut self) {
        let gone: Vec<bool> =
            self.race.entrants.iter().map(|e| !self.possible(&e.combination)).collect();
        for (entrant, gone) in self.race.entrants.iter_mut().zip(gone) {
            entrant.out |= gone;
        }
        let queue = std::mem::take(&mut self.queue);
        self.queue = queue.into_iter().filter(|c| self.possible(c)).collect();
    }

    /// What a whole block says.
    fn absorb(&mut self) {
        let block = std::mem::take(&mut self.block);
        if block.is_empty() {
            return;
        }
        if self.stage == Stage::Default {
            let runs: Vec<f64> = block.into_iter().skip(1).filter_map(|(_, score)| score).collect();
            self.noise = Noise::of_runs(&runs);
            if runs.len() < 3 {
                self.end(Reason::Unmeasurable);
            }
            return;
        }
        if !self.race.take(&block) {
            self.unmeasured += 1;
            if self.unmeasured >= MOST_UNMEASURED {
                self.end(Reason::Unmeasurable);
            }
        }
    }

    /// Fills the queue, going on to the next stages as far as needed.
    fn plan(&mut self) {
        while self.queue.is_empty() && !matches!(self.stage, Stage::Done(_)) {
            if self.is_late() {
                self.reason = Reason::MaxTime;
                self.keep_around();
                self.confirm();
                continue;
            }
            match self.stage.clone() {
                Stage::Default => self.screen(),
                Stage::Screen(round) => {
                    if !self.fill(SCREEN.get(round)) {
                        self.screened(round);
                    }
                }
                Stage::Refine(round) => {
                    if !self.fill(ROUNDS.get(round)) {
                        self.refined(round);
                    }
                }
                Stage::Join => {
                    if !self.fill(Some(&JOINED)) {
                        let best = self.race.best().map(|e| e.combination.clone());
                        self.refine(best.unwrap_or_else(|| self.leader.clone()));
                    }
                }
                Stage::Plateau(round) => {
                    if !self.fill(SCREEN.get(round)) {
                        self.crossed(round);
                    }
                }
                Stage::Ablate(round) => {
                    if !self.fill(ROUNDS.get(round)) {
                        self.ablated(round);
                    }
                }
                Stage::Drop(round, single) => {
                    if !self.fill(ROUNDS.get(round)) {
                        self.dropped(round, single);
                    }
                }
                Stage::Confirm(number, pairs) if number < pairs => {
                    self.queue = self.race.whole_block(number);
                    self.stage = Stage::Confirm(number + 1, pairs);
                }
                Stage::Confirm(..) => self.confirmed(),
                Stage::Done(_) => {}
            }
        }
    }

    /// A block on the way to so many differences of each; false when they have them.
    fn fill(&mut self, rounds: Option<&usize>) -> bool {
        let block = rounds.and_then(|rounds| self.race.block(*rounds, &mut self.random));
        self.queue = block.unwrap_or_default();
        !self.queue.is_empty()
    }

    /// Seconds of a trial.
    fn per_trial_s(&self) -> f64 {
        self.spent_s / f64::from(self.made.max(1))
    }

    /// How many blocks of so many trials there is time for; nothing without a limit.
    fn fit(&self, trials: usize) -> Option<usize> {
        let left = (self.settings.max_s? - self.spent_s).max(0.0);
        let block = (trials as f64 * self.per_trial_s()).max(f64::MIN_POSITIVE);
        Some((left / block) as usize)
    }

    /// Whether another block would take the time that the last comparison needs.
    fn is_late(&self) -> bool {
        let searching = !matches!(self.stage, Stage::Confirm(..));
        let kept = if self.leader == self.space.default() { 0 } else { 2 * KEPT_PAIRS };
        searching && self.fit(1).is_some_and(|trials| trials < LARGEST_BLOCK + kept)
    }

    fn width(&self) -> f64 {
        self.settings.width.ln_1p()
    }

    fn end(&mut self, reason: Reason) {
        self.queue.clear();
        self.block.clear();
        self.stage = Stage::Done(reason);
    }

    fn begin(&mut self, entrants: Vec<Combination>, stage: Stage) {
        self.noise = self.race.noise(self.noise);
        let entrants = entrants.into_iter().filter(|c| self.possible(c)).collect();
        self.race = Race::new(self.leader.clone(), entrants);
        self.stage = stage;
    }
}

#[cfg(test)]
mod tests;
