//! What is unusual about a goal's result, in sentences.

use linerate_model::search::GoalRecord;
use linerate_model::units::si;

use crate::search::classify::{self, Board, Bounds, Judged};
use crate::search::fit::Fit;
use crate::search::goal::Goal;
use crate::search::{FIT_CAP, FIT_LEAST, INVALID_CAP, Range, Search, fitted, mlr};

/// Below this share of the lower bound, failures are no part of the limit.
const WELL_BELOW: f64 = 0.95;
/// Mixed loads over a wider range than this are a plateau.
const PLATEAU: f64 = 1.05;
/// A background failure rate that deserves a word.
const BACKGROUND: f64 = 0.05;

impl Search {
    /// Of the goal with the index `i`.
    pub(super) fn irregular(
        &self,
        i: usize,
        goal: &Goal,
        range: &Range,
        board: &Board,
        bounds: Bounds,
        record: &GoalRecord,
    ) -> Vec<String> {
        let mut said = Vec::new();
        let knee = range.fits.get(i).and_then(Fit::knee);
        let ends = knee.map_or((false, false), |knee| knee.reaches(&range.grid));
        self.at_the_bounds(&mut said, range, board, bounds, ends, record);
        on_the_board(&mut said, goal, range, board, bounds);
        self.without_result(&mut said, range);
        if let Some(fit) = range.fits.get(i).filter(|_| !record.settled) {
            let wide = self.settings.ci.is_some_and(|ci| !fitted(fit, ci));
            match fit.knee() {
                None => said.push(format!(
                    "{} valid trials of full length are too few for an interval, which takes {FIT_LEAST}",
                    fit.trials()
                )),
                Some(knee) if wide && fit.trials() >= FIT_CAP => said.push(format!(
                    "after {FIT_CAP} trials the interval is still {:.1} % wide",
                    100.0 * knee.width()
                )),
                Some(_) => {}
            }
        }
        if let Some(knee) = knee.filter(|k| k.background > 0.4) {
            said.push(format!(
                "{:.0} % of the trials fail at any load: near one half there is no knee",
                100.0 * knee.background
            ));
        }
        said
    }

    fn at_the_bounds(
        &self,
        said: &mut Vec<String>,
        range: &Range,
        board: &Board,
        bounds: Bounds,
        (least, largest): (bool, bool),
        record: &GoalRecord,
    ) {
        let rate = |at: usize| si(range.grid.load(at), "bit/s");
        match (bounds.lower, bounds.upper) {
            (Some(lower), None) if lower == range.grid.last() => said.push(format!(
                "lower bound only, at the largest load: all of {} meets the goal, so the limit is above it",
                rate(lower)
            )),
            (None, Some(0)) => said.push(format!(
                "upper bound only, at the least load: even {} does not meet the goal",
                rate(0)
            )),
            _ if largest => said.push(format!(
                "the interval reaches the largest load, {}: the limit may be above it",
                rate(range.grid.last())
            )),
            _ if least => said.push(format!(
                "the interval reaches the least load, {}: the limit may be below it",
                rate(0)
            )),
            _ => {}
        }
        if let Some(received) = record.holds_by_delay_alone() {
            said.push(format!(
                "{} holds by the allowance for delay alone: {} arrived in the time, and a queue gave back the rest no later than a trial excuses; longer trials (--time) show what is carried",
                si(record.lower_bps.unwrap_or(0.0), "bit/s"),
                si(received, "bit/s"),
            ));
        }
        if let Some(upper) = bounds.upper {
            let all = board.get(&upper).map(Vec::as_slice).unwrap_or_default();
            let unsent = all.iter().filter(|t| t.unsent).count();
            if unsent > 0 && 2 * unsent >= all.iter().filter(|t| !t.good).count() {
                let sent = self.sent_at(upper).unwrap_or(0.0);
                said.push(format!(
                    "generator-limited: at {} the sender itself sent only {}, and what it sent arrived",
                    rate(upper),
                    si(sent, "bit/s")
                ));
            }
        }
    }

    /// Loads whose trials said nothing.
    fn without_result(&self, said: &mut Vec<String>, range: &Range) {
        let rate = |at: usize| si(range.grid.load(at), "bit/s");
        if let Some(load) = range.given_up.first() {
            let why = self.made.iter().rev().find(|m| m.load == Some(*load));
            let why = why.and_then(|m| m.outcome.invalid.clone()).unwrap_or_default();
            let more = match range.given_up.len() {
                1 => String::new(),
                n => format!(", and so at {} more loads", n - 1),
            };
            let counts = match self.settings.ci {
                Some(_) => "they count as nothing, and the interval is not settled without them",
                None => "what was not shown to hold counts as not met",
            };
            said.push(format!(
                "{INVALID_CAP} trials in a row at {} said nothing ({why}){more}: {counts}",
                rate(*load)
            ));
        }
        if let Some(load) = range.not_probed.first() {
            let more = match range.not_probed.len() {
                1 => String::new(),
                n => format!(" and at {} more loads", n - 1),
            };
            said.push(format!(
                "the curve at {}{more} is not known: {INVALID_CAP} trials in a row said nothing",
                rate(*load)
            ));
        }
    }
}

/// Loads that do not fail in order.
fn on_the_board(said: &mut Vec<String>, goal: &Goal, range: &Range, board: &Board, bounds: Bounds) {
    let target = mlr::final_target(goal);
    let rate = |at: usize| si(range.grid.load(at), "bit/s");
    if let Some(load) =
        classify::inversion(board, &target).or_else(|| single_inversion(board, bounds))
    {
        said.push(format!(
            "inversion: {} met the goal although {} below it did not",
            rate(load),
            bounds.upper.map(rate).unwrap_or_default()
        ));
    }
    if let Some((from, to, bad, all)) = plateau(board, range, bounds) {
        said.push(format!(
            "plateau: between {} and {}, {bad} of {all} trials were bad whatever the load; the limit there is a vote, not an edge",
            rate(from),
            rate(to)
        ));
    } else if let Some((bad, all)) = below(board, range, bounds) {
        said.push(format!(
            "{bad} of {all} trials well below the limit were bad: something other than the load fails them"
        ));
    }
}

/// A single good trial well above the upper bound, such as a shape probe's.
fn single_inversion(board: &Board, bounds: Bounds) -> Option<usize> {
    let upper = bounds.upper?;
    board.range(upper + 4..).find(|(_, t)| t.iter().any(|t| t.good)).map(|(load, _)| *load)
}

/// A wide range of loads whose trials are neither all good nor all bad.
fn plateau(board: &Board, range: &Range, bounds: Bounds) -> Option<(usize, usize, usize, usize)> {
    let mixed =
        |t: &[Judged]| t.iter().any(|t| t.good) && t.iter().any(|t| !t.good && t.time_s > 0.0);
    let ends: Vec<usize> = board.iter().filter(|(_, t)| mixed(t)).map(|(load, _)| *load).collect();
    let (from, to) = (*ends.first()?, *ends.last()?);
    if ends.len() < 2 || range.grid.load(to) / range.grid.load(from) < PLATEAU {
        return None;
    }
    // One stray trial far away is no plateau.
    let all: Vec<&Judged> =
        board.range(from..=to).flat_map(|(_, t)| t).filter(|t| t.time_s > 0.0).collect();
    let bad = all.iter().filter(|t| !t.good).count();
    let share = bad as f64 / all.len() as f64;
    let spread = bounds.lower.is_some() || bounds.upper.is_some();
    (spread && (0.1..=0.9).contains(&share)).then_some((from, to, bad, all.len()))
}

/// Bad trials well below the lower bound, when there are more than chance explains.
fn below(board: &Board, range: &Range, bounds: Bounds) -> Option<(usize, usize)> {
    let least = range.grid.load(bounds.lower?) * WELL_BELOW;
    let all: Vec<&Judged> = board.range(..range.grid.at_most(least)).flat_map(|(_, t)| t).collect();
    let bad = all.iter().filter(|t| !t.good).count();
    (bad > 1 && classify::jeffreys(bad as u64, all.len() as u64).0 > BACKGROUND)
        .then_some((bad, all.len()))
}
