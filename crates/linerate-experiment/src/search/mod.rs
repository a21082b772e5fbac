//! `linerate search`: the highest load that meets a goal of loss (and delay).
//!
//! [`Search`] gets outcomes and gives the next trial. It knows no clock, no network and no chance:
//! the same outcomes give the same trials, so a log of outcomes is enough to go on from, or to go
//! through a search again.

pub mod classify;
pub mod fit;
pub mod goal;
pub mod grid;
pub mod log;
pub mod mlr;
pub mod repeat;
pub mod result;

use linerate_model::plan::Way;
use linerate_model::search::TrialPurpose;
use linerate_model::units::{BitRate, Nanos};
use serde::{Deserialize, Serialize};

use self::classify::{Board, Judged};
use self::fit::Fit;
use self::goal::Goal;
use self::grid::Grid;
use crate::trial::{Outcome, Trial};

/// What is searched, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which way the data goes.
    pub way: Way,
    /// Least load.
    pub min: BitRate,
    /// Largest load; `None` leaves it to what the sender reaches.
    pub max: Option<BitRate>,
    /// One or more; they share trials.
    pub goals: Vec<Goal>,
    /// Fit the knee until its 95 % interval is this narrow, as a share of the load, instead of
    /// closing in on bounds.
    pub ci: Option<f64>,
    /// Probe the curve beside the limit afterwards.
    pub shape: bool,
    /// Start no trial that would end later than this after the first one began.
    pub max_time: Option<Nanos>,
}

/// A trial that the search has made.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// What for.
    pub purpose: TrialPurpose,
    /// What was offered.
    pub trial: Trial,
    /// Index of the load, once the range is known.
    pub load: Option<usize>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Make this trial and give its outcome to [`Search::take`].
    Run {
        /// The trial.
        trial: Trial,
        /// What it is for.
        purpose: TrialPurpose,
        /// Index of its load.
        load: Option<usize>,
    },
    /// There is nothing left to do.
    Done(Ending),
}

/// Why a search is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every goal is settled, or the range holds no more.
    Settled,
    /// The next trial would have passed the time allowed.
    OutOfTime,
    /// The sender does not reach the least load.
    GeneratorTooSlow,
    /// The first trial was invalid each time.
    NoValidTrial,
}

/// A trial that says nothing is made again so many times in all.
pub const INVALID_CAP: usize = 3;
/// The least load is out of the sender's reach when it sends less than this share of it.
const SENT: f64 = 0.99;
/// Trials that the fit of one goal may take.
const FIT_CAP: usize = 120;
/// The fit says nothing before so many trials.
const FIT_LEAST: usize = 8;
/// A host that kept the trials at so many loads from saying anything is too busy for an interval.
const MOST_GIVEN_UP: usize = 8;
/// Set-up and drain count in sums of time up to this share of the trial: a slow set-up is no
/// evidence of the path.
const OVERHEAD_MOST: f64 = 0.5;
/// Without a limit by the user the range ends at this many times what the sender sent flat out: it
/// may send more when asked for less.
const ABOVE_FLAT_OUT: f64 = 2.0;
/// No further is a search thought ahead, trials.
const MOST_FORESEEN: usize = 400;
/// Set-up and drain of a trial before any was seen, seconds.
const OVERHEAD_S: f64 = 0.5;
/// The curve is probed at these shares of the lower bound …
const SHAPE_BELOW: [f64; 4] = [SHAPE_LEAST, 0.5, 0.75, 0.9];
/// The least of these.
pub const SHAPE_LEAST: f64 = 0.25;
/// … and of the upper one.
const SHAPE_ABOVE: [f64; 3] = [1.25, 1.5, 2.0];

/// One whole search.
#[derive(Debug, Clone)]
pub struct Search {
    settings: Settings,
    made: Vec<Made>,
    /// Known after the first valid trial.
    range: Option<Range>,
}

/// What follows from the first trial.
#[derive(Debug, Clone)]
struct Range {
    grid: Grid,
    /// Rate that arrived when the most was offered.
    arrived: f64,
    /// One a goal.
    boards: Vec<Board>,
    /// One a goal, with [`Settings::ci`].
    fits: Vec<Fit>,
    /// Loads that gave only invalid trials.
    given_up: Vec<usize>,
    /// The same of the curve's probes, which decide nothing.
    not_probed: Vec<usize>,
}

impl Search {
    /// A search of which nothing is known.
    pub fn new(settings: Settings) -> Self {
        Self { settings, made: Vec::new(), range: None }
    }

    /// What is searched.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Trials so far.
    pub fn made(&self) -> &[Made] {
        &self.made
    }

    /// Time of all trials so far with set-up and drain, seconds.
    pub fn seconds(&self) -> f64 {
        self.made.iter().map(|m| m.outcome.took_s).sum()
    }

    /// Most that the sender sent, bits per second.
    pub fn generator_bps(&self) -> Option<f64> {
        self.made.iter().map(|m| m.outcome.sent_bps).reduce(f64::max)
    }

    /// Largest load of the range, once it is known, bits per second.
    pub fn max_bps(&self) -> Option<f64> {
        self.range.as_ref().map(|range| range.grid.load(range.grid.last()))
    }

    /// What to do now.
    pub fn next(&self) -> Next {
        let next = self.wanted();
        if let (Next::Run { trial, .. }, Some(most)) = (&next, self.settings.max_time) {
            let needed = trial.time.as_secs_f64() + self.overhead_s();
            if self.seconds() + needed > most.as_secs_f64() && !self.made.is_empty() {
                return Next::Done(Ending::OutOfTime);
            }
        }
        next
    }

    /// Whether it came to its end by itself, not at the end of the time allowed.
    pub fn is_finished(&self) -> bool {
        matches!(self.wanted(), Next::Done(Ending::Settled))
    }

    /// Changes the time allowed.
    pub fn set_max_time(&mut self, most: Option<Nanos>) {
        self.settings.max_time = most;
    }

    /// How long the rest takes, seconds: the search is gone on with in mind, over a system that has
    /// a hard limit where the trials so far put it. Never more than the time allowed leaves.
    pub fn left_s(&self) -> f64 {
        let mut dry = self.clone();
        let overhead = self.overhead_s();
        for _ in 0..MOST_FORESEEN {
            let Next::Run { trial, .. } = dry.next() else { break };
            let limits = dry.guesses();
            let load = trial.rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
            let failed = self.settings.goals.iter().zip(&limits).filter(|(_, l)| load > **l);
            let loss = failed.map(|(goal, _)| goal.loss + 1e-6).fold(0.0, f64::max);
            dry.take(Outcome {
                sent_bps: load.min(f64::MAX),
                received_bps: load.min(f64::MAX) * (1.0 - loss),
                undelivered_ratio: loss,
                lost_ratio: loss,
                delay_p99_s: Some(0.0),
                took_s: trial.time.as_secs_f64() + overhead,
                ..Outcome::default()
            });
            if dry.range.is_none() {
                // Nothing is known yet: as long as a search of one goal usually takes.
                let sums = self.settings.goals.iter().map(|g| g.sum.as_secs_f64());
                return sums.sum::<f64>() * 1.5;
            }
        }
        (dry.seconds() - self.seconds()).max(0.0)
    }

    /// Where each goal's limit seems to be.
    fn guesses(&self) -> Vec<f64> {
        let Some(range) = &self.range else { return vec![0.0; self.settings.goals.len()] };
        let goals = self.settings.goals.iter().zip(&range.boards).enumerate();
        goals
            .map(|(i, (goal, board))| {
                if let Some(fit) = range.fits.get(i) {
                    return fit.guess();
                }
                let found = self.bounds(goal, board);
                let load = |at: usize| range.grid.load(at);
                let arrived = range.arrived / (1.0 - goal.loss);
                match (found.lower.map(load), found.upper.map(load)) {
                    (Some(lower), Some(upper)) => (lower * upper).sqrt(),
                    (Some(lower), None) => arrived.max(lower),
                    (None, Some(upper)) => arrived.min(upper * 0.999),
                    (None, None) => arrived,
                }
            })
            .collect()
    }

    /// Set-up and drain of a trial, from those made so far.
    fn overhead_s(&self) -> f64 {
        let over: f64 = self
            .made
            .iter()
            .map(|m| (m.outcome.took_s - m.trial.time.as_secs_f64()).max(0.0))
            .sum();
        if self.made.is_empty() { OVERHEAD_S } else { over / self.made.len() as f64 }
    }

    fn wanted(&self) -> Next {
        let Some(range) = &self.range else { return self.first() };
        if range.grid.load(range.grid.last()) < self.settings.min.bits_per_second() as f64 {
            return Next::Done(Ending::GeneratorTooSlow);
        }
        let wanted = match self.settings.ci {
            Some(width) => self.for_fit(range, width),
            None => self.for_bounds(range),
        };
        wanted.or_else(|| self.for_shape(range)).unwrap_or(Next::Done(Ending::Settled))
    }

    /// The first trial offers the most there is.
    fn first(&self) -> Next {
        if let Some(last) = self.made.last() {
            if last.outcome.invalid.is_none() {
                return Next::Done(Ending::GeneratorTooSlow);
            }
            if self.made.len() >= INVALID_CAP {
                return Next::Done(Ending::NoValidTrial);
            }
        }
        let short = self.settings.goals.iter().map(|g| g.time).min();
        let time = short.map_or(Nanos::from_secs(1), |t| t.min(Nanos::from_secs(1)));
        let trial = Trial { way: self.settings.way, rate: self.settings.max, time };
        Next::Run { trial, purpose: TrialPurpose::WarmUp, load: None }
    }

    fn run(&self, range: &Range, load: usize, time_s: f64, purpose: TrialPurpose) -> Next {
        let rate = BitRate::new(range.grid.load(load) as u64);
        let time = Nanos((time_s * 1e9).round() as u64);
        Next::Run { trial: Trial { way: self.settings.way, rate, time }, purpose, load: Some(load) }
    }

    /// Of what the goals want, that of the coarsest stage, there the lowest load.
    fn for_bounds(&self, range: &Range) -> Option<Next> {
        let wishes = self.settings.goals.iter().zip(&range.boards).filter_map(|(goal, board)| {
            let (stage, load) = mlr::next(goal, board, &range.grid, hint(range, goal))?;
            Some((stage, load, mlr::target(goal, stage).time_s))
        });
        let (_, load, time_s) =
            wishes.min_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.total_cmp(&b.2)))?;
        Some(self.run(range, load, time_s, TrialPurpose::Search))
    }

    fn for_fit(&self, range: &Range, width: f64) -> Option<Next> {
        let open = |((goal, board), fit): &((&Goal, &Board), &Fit)| {
            fit.trials() < FIT_CAP && (!fitted(fit, width) || range.is_within(goal, board, fit))
        };
        if range.given_up.len() >= MOST_GIVEN_UP {
            return None;
        }
        // What gives no valid trial is left alone; the next best load takes its place.
        let wish = |fit: &Fit| {
            fit.wishes(&range.grid).into_iter().find(|load| !range.given_up.contains(load))
        };
        let goals = self.settings.goals.iter().zip(&range.boards).zip(&range.fits);
        let mut open = goals.filter(open);
        let (goal, load) = open.find_map(|((goal, _), fit)| Some((goal, wish(fit)?)))?;
        Some(self.run(range, load, goal.time.as_secs_f64(), TrialPurpose::Fit))
    }

    fn for_shape(&self, range: &Range) -> Option<Next> {
        if !self.settings.shape {
            return None;
        }
        let load = *self.shape_loads(range).iter().find(|load| {
            let at = |m: &&Made| m.load == Some(**load) && m.outcome.invalid.is_none();
            let hopeless = range.given_up.contains(load) || range.not_probed.contains(load);
            self.made.iter().find(at).is_none() && !hopeless
        })?;
        let time_s = self.settings.goals.first()?.time.as_secs_f64();
        Some(self.run(range, load, time_s, TrialPurpose::Shape))
    }

    fn shape_loads(&self, range: &Range) -> Vec<usize> {
        let (Some(goal), Some(board)) = (self.settings.goals.first(), range.boards.first()) else {
            return Vec::new();
        };
        let bounds = mlr::final_bounds(goal, board);
        let knee = range.fits.first().and_then(Fit::knee);
        let load = |index: Option<usize>| index.map(|i| range.grid.load(i));
        let lower = knee.map(|k| k.low).or(load(bounds.lower));
        let upper = knee.map(|k| k.high).or(load(bounds.upper));
        let mut loads: Vec<usize> = SHAPE_BELOW
            .iter()
            .filter_map(|share| lower.map(|l| l * share))
            .chain(SHAPE_ABOVE.iter().filter_map(|share| upper.map(|u| u * share)))
            .map(|load| range.grid.nearest(load))
            .collect();
        loads.push(range.grid.last());
        loads.sort_unstable();
        loads.dedup();
        loads
    }

    /// Takes in what came of the trial that [`Self::next`] gave. After [`Next::Done`] it is
    /// ignored.
    pub fn take(&mut self, outcome: Outcome) {
        let Next::Run { trial, purpose, load } = self.next() else { return };
        self.made.push(Made { purpose, trial, load, outcome });
        let Some(made) = self.made.last() else { return };
        let Some(load) = load else {
            // Judged by no goal, so a sender that could not keep up says as much as any other; but
            // that the least rate is out of reach must be a valid trial's word, and what is void is none's.
            let reached = made.outcome.sent_bps >= self.settings.min.bits_per_second() as f64;
            if made.outcome.invalid.is_none() || (reached && !made.outcome.void) {
                self.range = Range::new(&self.settings, &made.outcome);
            }
            return;
        };
        let Some(range) = &mut self.range else { return };
        if made.outcome.invalid.is_some() {
            let invalid = self
                .made
                .iter()
                .rev()
                .take_while(|m| m.load == Some(load) && m.outcome.invalid.is_some());
            if invalid.count() >= INVALID_CAP {
                match purpose {
                    // What is known of the limit stays known, whatever the curve beside it does.
                    TrialPurpose::Shape => range.not_probed.push(load),
                    _ => range.give_up(load, &self.settings),
                }
            }
            return;
        }
        for (i, goal) in self.settings.goals.iter().enumerate() {
            let Some(judged) = judge(goal, made) else { continue };
            range.boards[i].entry(load).or_default().push(judged);
            // A shorter trial has another knee.
            if let Some(fit) = range.fits.get_mut(i)
                && made.trial.time >= goal.time
            {
                fit.take(load, !judged.good);
            }
        }
    }
}

/// A goal's view of a trial. A goal with a rule of delay fails where no delay could be measured:
/// nothing arrived, or nobody reported it.
fn judge(goal: &Goal, made: &Made) -> Option<Judged> {
    let outcome = &made.outcome;
    if outcome.invalid.is_some() {
        return None;
    }
    let good = goal.met(outcome).unwrap_or(false);
    let time_s = made.trial.time.as_secs_f64();
    let unsent = made
        .trial
        .rate
        .map_or(0.0, |rate| (1.0 - outcome.sent_bps / rate.bits_per_second() as f64).max(0.0));
    let in_time = goal
        .delay_p99
        .is_none_or(|most| outcome.delay_p99_s.is_some_and(|delay| delay <= most.as_secs_f64()));
    Some(Judged {
        time_s,
        counts_s: outcome.took_s.clamp(time_s, time_s * (1.0 + OVERHEAD_MOST)),
        loss: outcome.undelivered_ratio,
        good,
        unsent: !good && in_time && outcome.undelivered_ratio - unsent <= goal.loss,
    })
}

/// Where a goal begins: what arrived, and the loss it allows on top.
fn hint(range: &Range, goal: &Goal) -> usize {
    range.grid.at_most(range.arrived / (1.0 - goal.loss))
}

fn fitted(fit: &Fit, width: f64) -> bool {
    fit.knee().is_some_and(|knee| knee.width() <= width)
}

impl Range {
    /// `None` when the least load is out of the sender's reach.
    fn new(settings: &Settings, first: &Outcome) -> Option<Self> {
        let min = settings.min.bits_per_second() as f64;
        if first.sent_bps < min * SENT {
            return None;
        }
        let max = match settings.max {
            Some(max) => max.bits_per_second() as f64,
            None => (first.sent_bps * ABOVE_FLAT_OUT).round(),
        };
        let finest = settings.goals.iter().map(Goal::width).fold(f64::INFINITY, f64::min);
        let finest = settings.ci.map_or(finest, |ci| finest.min(ci / 4.0));
        let grid = Grid::new(min, max, finest)?;
        let boards = vec![Board::new(); settings.goals.len()];
        let arrived = first.received_bps.clamp(min, max);
        let fits = match settings.ci {
            Some(_) => settings
                .goals
                .iter()
                .map(|goal| Fit::new(&grid, arrived / (1.0 - goal.loss)))
                .collect(),
            None => Vec::new(),
        };
        Some(Self { grid, arrived, boards, fits, given_up: Vec::new(), not_probed: Vec::new() })
    }

    /// Whether the interval reaches an end of the range although most trials there say that the limit is not beyond
    /// it: further ones show where it is.
    fn is_within(&self, goal: &Goal, board: &Board, fit: &Fit) -> bool {
        let Some(knee) = fit.knee() else { return false };
        let most = |at: usize, good: bool| {
            let full = |t: &&Judged| t.time_s >= goal.time.as_secs_f64();
            let there = board.get(&at).into_iter().flatten().filter(full);
            let votes = there.map(|t| if t.good == good { 1_i64 } else { -1 });
            votes.sum::<i64>() > 0
        };
        let (least, largest) = knee.reaches(&self.grid);
        least && most(0, true) || largest && most(self.grid.last(), false)
    }

    /// A load at which no trial was valid counts as one that fails every goal: nobody knows that it
    /// would hold. An interval needs trials, so there it counts as nothing.
    fn give_up(&mut self, load: usize, settings: &Settings) {
        self.given_up.push(load);
        if settings.ci.is_some() {
            return;
        }
        for (board, goal) in self.boards.iter_mut().zip(&settings.goals) {
            let judged = Judged {
                // No trial of any length: it counts in no figure but the class.
                time_s: 0.0,
                counts_s: 2.0 * goal.sum.as_secs_f64(),
                loss: 1.0,
                good: false,
                unsent: false,
            };
            board.entry(load).or_default().push(judged);
        }
    }
}
