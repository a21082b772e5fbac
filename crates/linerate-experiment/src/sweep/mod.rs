//! A sweep: a grid of values, then finer ones around every bend.
//!
//! [`Sweep`] gets what came of each trial and gives the next. It holds no clock and no chance but
//! the seed in its plan: the same plan and outcomes give the same trials, so a sweep that was cut
//! short goes on by getting again what was known ([`Sweep::replay`]).

mod budget;
pub mod grid;
mod points;
mod regimes;
mod words;
mod zoom;

use std::collections::{HashSet, VecDeque};

use linerate_model::plan::Way;
use linerate_model::record::Doubt;
use linerate_model::sweep::{SweepBend, SweepPlan, SweepPoint, SweepRegime, SweepTrial, Variable};
use linerate_model::trial::Outcome;

pub use words::conclusion;

/// A generator at fault is asked again this often for one value: on a busy host it will be again.
const FAULTS_FORGIVEN: usize = 1;
/// Rates above this many times the most that was ever sent are out of the sender's reach …
const OUT_OF_REACH: f64 = 4.0;
/// … which is believed after trials that count at this many of them, since some senders send less when asked for more.
const OUT_OF_REACH_TRIED: usize = 2;

/// A trial to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Which way the data goes.
    pub way: Way,
    /// Value of the swept variable; `None` is as fast as the sender can.
    pub value: Option<u64>,
    /// Whether it narrows a bend.
    pub zoom: bool,
}

impl Job {
    /// The rate to offer in bit/s; `None` is as fast as the sender can.
    pub fn rate_bps(&self, plan: &SweepPlan) -> Option<u64> {
        match plan.variable {
            Variable::Rate => self.value,
            _ => plan.rate_bps,
        }
    }
}

/// A sweep on its way.
#[derive(Debug, Clone)]
pub struct Sweep {
    plan: SweepPlan,
    grid: VecDeque<Job>,
    trials: Vec<SweepTrial>,
    pending: Option<Job>,
    /// Directions in which the grid was cut, with the first value that was left out.
    out_of_reach: Vec<(Way, Option<u64>)>,
}

/// Outcomes that are not those of this plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherPlan {
    /// Number of the first trial that does not fit, from 1.
    pub trial: usize,
}

impl Sweep {
    /// Before the first trial.
    pub fn new(plan: SweepPlan) -> Self {
        let grid = grid::order(&plan);
        Self { plan, grid, trials: Vec::new(), pending: None, out_of_reach: Vec::new() }
    }

    /// A sweep that has got these outcomes already.
    ///
    /// # Errors
    /// When the plan would have given other trials.
    pub fn replay(plan: SweepPlan, trials: Vec<SweepTrial>) -> Result<Self, OtherPlan> {
        let mut sweep = Self::new(plan);
        for (i, trial) in trials.into_iter().enumerate() {
            let fits = sweep
                .next()
                .is_some_and(|job| job.way == trial.direction && job.value == trial.value);
            if !fits {
                return Err(OtherPlan { trial: i + 1 });
            }
            sweep.take(trial.outcome, trial.doubts);
        }
        Ok(sweep)
    }

    /// What is to be tried.
    pub fn plan(&self) -> &SweepPlan {
        &self.plan
    }

    /// What was tried.
    pub fn trials(&self) -> &[SweepTrial] {
        &self.trials
    }

    /// The next trial, the same one until [`Sweep::take`] gets its outcome; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "it changes nothing until the outcome comes")]
    pub fn next(&mut self) -> Option<Job> {
        if self.pending.is_none() {
            self.pending = self.choose();
        }
        self.pending
    }

    /// What came of the trial that [`Sweep::next`] gave, and the doubts of its record.
    pub fn take(&mut self, outcome: Outcome, doubts: Vec<Doubt>) {
        let Some(job) = self.pending.take() else { return };
        self.trials.push(SweepTrial {
            direction: job.way,
            value: job.value,
            zoom: job.zoom,
            outcome,
            doubts,
        });
    }

    /// Whether nothing is left to try.
    pub fn is_finished(&self) -> bool {
        self.clone().next().is_none()
    }

    fn choose(&mut self) -> Option<Job> {
        if let Some(again) = self.after_fault() {
            return Some(again);
        }
        while let Some(job) = self.grid.pop_front() {
            if !self.is_out_of_reach(&job) {
                return Some(job);
            }
        }
        self.plan.directions.iter().find_map(|way| zoom::next(&self.plan, &self.trials, *way))
    }

    /// The last trial once more, if its generator was at fault.
    fn after_fault(&self) -> Option<Job> {
        let last = self.trials.last()?;
        last.outcome.invalid.as_ref()?;
        let faults = self
            .trials
            .iter()
            .filter(|t| t.direction == last.direction && t.value == last.value)
            .filter(|t| t.outcome.invalid.is_some())
            .count();
        (faults <= FAULTS_FORGIVEN).then_some(Job {
            way: last.direction,
            value: last.value,
            zoom: last.zoom,
        })
    }

    /// Whether the sender was seen not to reach this rate by far. Ever higher rates would show
    /// nothing more and only harm others.
    fn is_out_of_reach(&mut self, job: &Job) -> bool {
        let Some(asked) = job.value.filter(|_| self.plan.variable == Variable::Rate) else {
            return false;
        };
        if let Some((_, least)) = self.out_of_reach.iter().find(|(way, _)| *way == job.way) {
            return least.is_none_or(|least| asked >= least);
        }
        let ours = || self.trials.iter().filter(|t| t.direction == job.way);
        let sent = ours().filter(|t| !t.outcome.void).map(|t| t.outcome.sent_bps);
        let most = sent.fold(0.0, f64::max);
        let beyond = |asked: u64| asked as f64 > OUT_OF_REACH * most;
        let valid = ours().filter(|t| t.outcome.invalid.is_none()).filter_map(|t| t.value);
        let tried: HashSet<u64> = valid.filter(|v| *v < asked && beyond(*v)).collect();
        if most > 0.0 && beyond(asked) && tried.len() >= OUT_OF_REACH_TRIED {
            self.out_of_reach.push((job.way, Some(asked)));
            return true;
        }
        false
    }

    /// Directions in which rates were left out, and the first that was: the sender does not come
    /// near it.
    pub fn out_of_reach(&self) -> &[(Way, Option<u64>)] {
        &self.out_of_reach
    }

    /// Trials that are still to come: exact for the grid, a guess for what the bends will need.
    pub fn left(&self) -> usize {
        let skipped = |job: &&Job| {
            !self.out_of_reach.iter().any(|(way, least)| *way == job.way && job.value >= *least)
        };
        let grid = self.grid.iter().filter(skipped).count() + usize::from(self.pending.is_some());
        if self.plan.zoom_width.is_none() {
            return grid;
        }
        let zooming = if self.grid.is_empty() {
            self.plan
                .directions
                .iter()
                .map(|way| zoom::left(&self.plan, &self.trials, *way))
                .sum::<usize>()
                .saturating_sub(usize::from(self.pending.is_some_and(|job| job.zoom)))
        } else {
            zoom::USUAL_TRIALS * self.plan.directions.len()
        };
        grid + zooming
    }

    /// All trials of a direction and value as one point, in rising order, forward first.
    pub fn points(&self) -> Vec<SweepPoint> {
        self.plan
            .directions
            .iter()
            .flat_map(|way| regimes::judged(&self.plan, &self.trials, *way))
            .collect()
    }

    /// Neighbouring points that behave alike.
    pub fn regimes(&self) -> Vec<SweepRegime> {
        regimes::of(&self.plan, &self.points())
    }

    /// Borders between them.
    pub fn bends(&self) -> Vec<SweepBend> {
        zoom::bends(&self.plan, &self.points())
    }
}

#[cfg(test)]
mod tests;
