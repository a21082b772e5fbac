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
//! 5. **Confirm**: fresh pairs with the default, and without each changed factor. Only these are reported, so that
//!    what won by chance does not keep what chance gave it.
//!
//! `docs/tune.md` has the formulas, their sources and limits.

mod found;
pub mod race;
mod replay;
pub mod space;
mod stages;

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::tune::{Purpose, Reason};
use linerate_stats::offline::bootstrap::Random;

pub use found::{FactorFound, Found};
use race::{Noise, Race};
pub use replay::{Made, OtherTrial};
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
/// So many blocks in a row without a figure of what all are compared with, or of the default, end it.
const MOST_UNMEASURED: u32 = 3;
/// So many blocks in a row that were cut into end it: more tests would be as well.
const MOST_CUT: u32 = 5;
/// A combination that gave no figure so often in a row is tried no more.
const MOST_FAILED: u32 = 2;
/// A level is left out that alone can be why so many combinations gave no figure, or as many trials of it alone.
const LEFT_OUT_AFTER: u32 = 2;

/// What is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What a factor must matter by, as a share: 0.02.
    pub width: f64,
    /// Small figures are the better ones.
    pub lower: bool,
    /// No trial begins that would end after so many seconds of trials.
    pub max_s: Option<f64>,
    /// How long a trial takes as far as that is known before the first, seconds.
    pub trial_s: f64,
    /// Of the order of trials.
    pub seed: u64,
}

/// What came of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The figure; nothing where this combination gives none.
    pub value: Option<f64>,
    /// Where it is known why there is none: the levels, by factor, that cannot be had whatever the others are.
    /// `Some` of none blames the combination alone. Where it is not known, further trials tell.
    pub at_fault: Option<Vec<(usize, usize)>>,
    /// There is none because something cut into the trial that is not its combination's doing: it says nothing of it.
    pub void: bool,
    /// Wall time, seconds.
    pub took_s: f64,
}

/// How often a combination gave no figure since it last gave one.
#[derive(Debug, Clone, Copy, Default)]
struct Failures {
    all: u32,
    /// Those of which nobody knows why.
    unexplained: u32,
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
    /// Levels that gave a figure, whatever the others were.
    good: BTreeSet<(usize, usize)>,
    failed: BTreeMap<Combination, Failures>,
    made: u32,
    spent_s: f64,
    /// Of the trials that gave a figure: how many, and their seconds.
    measured: (u32, f64),
    unmeasured: u32,
    /// Blocks in a row that were cut into.
    cut: u32,
    moves: u32,
    reason: Reason,
    /// The race around the last leader of the search, and the scatter that was known at its end.
    around: Option<(Race, Noise)>,
    /// The race of fresh pairs, and its figures; before it those of the default.
    confirmed: Option<Race>,
    figures: Vec<(Combination, f64)>,
    /// The figures of [`Self::confirmed`], while another race of pairs may be under way.
    shown: Vec<(Combination, f64)>,
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
            good: BTreeSet::new(),
            failed: BTreeMap::new(),
            made: 0,
            spent_s: 0.0,
            measured: (0, 0.0),
            unmeasured: 0,
            cut: 0,
            moves: 0,
            reason: Reason::Settled,
            around: None,
            confirmed: None,
            figures: Vec::new(),
            shown: Vec::new(),
            settings,
            space,
        };
        if tune.space.neighbours(&default).is_empty() {
            tune.end(Reason::NothingToVary);
        } else if tune.fit(1) == Some(0) {
            tune.end(Reason::MaxTime);
        }
        tune
    }

    /// The combination to try now, and what for.
    pub fn next(&self) -> Option<(&Combination, Purpose)> {
        self.queue.last().map(|combination| (combination, self.stage.purpose()))
    }

    /// The factors and their levels.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Time of all trials so far, seconds.
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// Ends it with what is known.
    pub fn stop(&mut self) {
        if !matches!(self.stage, Stage::Done(_)) {
            self.keep_around();
            self.end(Reason::Stopped);
        }
    }

    /// Whether it ended because its trials were cut into again and again.
    pub fn is_cut_short(&self) -> bool {
        self.cut >= MOST_CUT
    }

    /// What came of [`Tune::next`].
    pub fn take(&mut self, measured: Measured) {
        let Some(combination) = self.queue.pop() else { return };
        self.made += 1;
        self.spent_s += measured.took_s.max(0.0);
        let value = measured.value.filter(|value| *value > 0.0 && value.is_finite());
        match value {
            Some(value) => {
                self.measured.0 += 1;
                self.measured.1 += measured.took_s.max(0.0);
                self.good.extend(combination.0.iter().copied().enumerate());
                self.failed.remove(&combination);
                if matches!(self.stage, Stage::Default | Stage::Confirm(..)) {
                    self.figures.push((combination.clone(), value));
                }
            }
            None if measured.void => return self.cut_into(),
            None => self.fail(&combination, measured.at_fault),
        }
        self.blame();
        let score = value.map(|value| if self.settings.lower { -value.ln() } else { value.ln() });
        self.block.push((combination, score));
        if self.queue.is_empty() {
            self.absorb();
            self.plan();
        } else if self.stage == Stage::Default && self.fit(1) == Some(0) {
            self.end(Reason::MaxTime);
        }
    }

    /// A void trial is no evidence. Between what came before it in its block and what would come after it lies whatever
    /// happened, so the whole block is dropped, and made anew if there is time.
    fn cut_into(&mut self) {
        self.queue.clear();
        self.cut += 1;
        let figures = self.block.drain(..).filter(|(_, score)| score.is_some()).count();
        if matches!(self.stage, Stage::Default | Stage::Confirm(..)) {
            self.figures.truncate(self.figures.len().saturating_sub(figures));
        }
        if let Stage::Confirm(number, _) = &mut self.stage {
            *number = number.saturating_sub(1);
        }
        if self.is_cut_short() {
            self.keep_around();
            self.end(Reason::Unmeasurable);
        } else if self.stage == Stage::Default && self.fit(1) != Some(0) {
            self.queue = vec![self.space.default(); FIRST_RUNS];
        } else {
            self.plan();
        }
    }

    /// A combination that gave no figure. What all are compared with is not given up for it: blocks without it end the
    /// tuning.
    fn fail(&mut self, combination: &Combination, at_fault: Option<Vec<(usize, usize)>>) {
        if *combination != self.race.reference {
            let failures = self.failed.entry(combination.clone()).or_default();
            failures.all += 1;
            failures.unexplained += u32::from(at_fault.is_none());
        }
        for (factor, level) in at_fault.into_iter().flatten() {
            self.space.leave_out(factor, level);
        }
        self.forget();
    }

    /// Leaves out levels that never gave a figure, as soon as nothing else can be why. Where two of a combination never
    /// did, either may be innocent, and what holds a level that was left out says nothing of the others.
    fn blame(&mut self) {
        let mut alone: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for (combination, failures) in &self.failed {
            let levels = combination.0.iter().copied().enumerate();
            let mut suspects = levels.filter(|l| l.1 > 0 && !self.good.contains(l));
            if let (Some(level), None) = (suspects.next(), suspects.next())
                && self.space.has(combination)
            {
                // Again with the same others says little: two levels may fail only together.
                let most = if combination.changed().len() == 1 { LEFT_OUT_AFTER } else { 1 };
                *alone.entry(level).or_default() += failures.unexplained.min(most);
            }
        }
        alone.retain(|_, count| *count >= LEFT_OUT_AFTER);
        for (factor, level) in alone.keys() {
            self.space.leave_out(*factor, *level);
        }
        if !alone.is_empty() {
            self.forget();
        }
    }

    /// The default is always possible: a few tests that failed are no reason to lose what all is compared with.
    fn possible(&self, combination: &Combination) -> bool {
        let failed = self.failed.get(combination).map_or(0, |failures| failures.all);
        self.space.has(combination) && (failed < MOST_FAILED || combination.changed().is_empty())
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
        self.cut = 0;
        if self.stage == Stage::Default {
            let runs: Vec<f64> = block.into_iter().skip(1).filter_map(|(_, score)| score).collect();
            self.noise = Noise::of_runs(&runs);
            if runs.len() < 3 {
                self.end(Reason::Unmeasurable);
            }
            return;
        }
        let no_default = block
            .iter()
            .any(|(combination, score)| score.is_none() && combination.changed().is_empty());
        if self.race.take(&block) && !no_default {
            self.unmeasured = 0;
            return;
        }
        self.unmeasured += 1;
        if self.unmeasured >= MOST_UNMEASURED {
            self.end(Reason::Unmeasurable);
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
                    let block = self.race.whole_block(number);
                    if self.fit(block.len()) == Some(0) {
                        // They took longer than was foreseen.
                        self.reason = Reason::MaxTime;
                        match number {
                            0..FEWEST_PAIRS => self.end(Reason::MaxTime),
                            _ => self.confirmed(),
                        }
                    } else {
                        self.queue = block;
                        self.stage = Stage::Confirm(number + 1, pairs);
                    }
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

    /// Seconds of a trial: of those that gave a figure, where any did. One that cannot run may take next to none.
    fn per_trial_s(&self) -> f64 {
        match (self.measured, self.made) {
            ((0, _), 0) => self.settings.trial_s,
            ((0, _), made) => self.spent_s / f64::from(made),
            ((count, seconds), _) => seconds / f64::from(count),
        }
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
