//! Which load a goal wants tried next: MLRsearch's way from coarse to fine.
//!
//! A goal is reached over two targets, or three when its trials are long. The first asks for one or two
//! short trials a load and bounds some widths apart, the last is the goal itself. Loads that
//! passed the coarser target are tried first; steps away from them double until they leave the limit
//! behind, then the space between is halved.

use linerate_model::units::{NANOS_PER_SECOND, Nanos};

use super::classify::{Board, Bounds, Class, Target, bounds, class};
use super::goal::Goal;
use super::grid::Grid;

/// Trials of the first target are no longer than this, seconds.
const SHORT_S: f64 = 1.0;
/// Its sum is so many trials long: one good trial and what surrounds it accept a load, one bad trial
/// does not condemn it. To try too high a load once more costs a trial; to believe that a good load
/// is bad costs the way back.
const FIRST_SUM: f64 = 3.0;
/// Goals with trials longer than this have a target in between, so that few loads are tried at full
/// length.
const LONG_S: f64 = 5.0;

/// The last stage: that of the goal itself.
pub fn last_stage(goal: &Goal) -> usize {
    if goal.time.as_secs_f64() > LONG_S { 2 } else { 1 }
}

/// The target of `stage`, 0 to [`last_stage`]; times and sums in between are in geometric steps.
pub fn target(goal: &Goal, stage: usize) -> Target {
    let last = last_stage(goal);
    let (time_s, sum_s) = (goal.time.as_secs_f64(), goal.sum.as_secs_f64());
    let short = time_s.min(SHORT_S);
    let part = |from: f64, to: f64| {
        if stage >= last { to } else { from * (to / from).powf(stage as f64 / last as f64) }
    };
    let first_sum = (FIRST_SUM * short).min(sum_s);
    Target { time_s: part(short, time_s), sum_s: part(first_sum, sum_s), exceed: goal.exceed }
}

/// Length of a goal's shortest trials.
pub fn shortest(goal: &Goal) -> Nanos {
    goal.time.min(Nanos((SHORT_S * NANOS_PER_SECOND as f64) as u64))
}

/// The goal itself.
pub fn final_target(goal: &Goal) -> Target {
    target(goal, last_stage(goal))
}

/// Distance of the bounds that ends `stage`, in steps of the grid.
pub fn width(goal: &Goal, stage: usize, grid: &Grid) -> usize {
    grid.units(goal.width()) << last_stage(goal).saturating_sub(stage)
}

/// Relevant bounds under the goal itself.
pub fn final_bounds(goal: &Goal, board: &Board) -> Bounds {
    bounds(board, &final_target(goal))
}

/// Whether `stage` is over: bounds close together, or at an end of the range.
fn over(found: Bounds, width: usize, grid: &Grid) -> bool {
    match (found.lower, found.upper) {
        (Some(lower), Some(upper)) => upper - lower <= width,
        (Some(lower), None) => lower == grid.last(),
        (None, Some(upper)) => upper == 0,
        (None, None) => false,
    }
}

/// The first stage that is not over, and the load it wants; `None` when all are. `hint` is where to
/// begin when nothing is known.
pub fn next(goal: &Goal, board: &Board, grid: &Grid, hint: usize) -> Option<(usize, usize)> {
    let mut coarse = Bounds { lower: Some(hint), upper: None };
    for stage in 0..=last_stage(goal) {
        let target = target(goal, stage);
        let width = width(goal, stage, grid);
        let found = bounds(board, &target);
        if over(found, width, grid) {
            coarse = found;
            continue;
        }
        return Some((stage, load(board, &target, found, width, grid, coarse)));
    }
    None
}

fn load(
    board: &Board,
    target: &Target,
    found: Bounds,
    width: usize,
    grid: &Grid,
    coarse: Bounds,
) -> usize {
    let of = |wanted: Class| {
        board.iter().filter(move |(_, t)| class(t, target) == wanted).map(|(load, _)| *load)
    };
    match (found.lower, found.upper) {
        (Some(lower), Some(upper)) => between(lower, upper, width),
        (Some(lower), None) => match coarse.upper.filter(|upper| *upper > lower) {
            // The coarser target has seen the limit below this load already.
            Some(upper) if upper - lower <= width => upper,
            Some(upper) => between(lower, upper, width),
            None => {
                let before = of(Class::Lower).rfind(|l| *l < lower);
                let step = before.map_or(width, |before| doubled(lower - before, width));
                (lower + step).min(grid.last())
            }
        },
        (None, Some(upper)) => match coarse.lower.filter(|lower| *lower < upper) {
            Some(lower) => lower,
            None => {
                let before = of(Class::Upper).find(|u| *u > upper);
                let step = before.map_or(width, |before| doubled(before - upper, width));
                upper.saturating_sub(step)
            }
        },
        (None, None) => match (coarse.lower, coarse.upper) {
            // Whatever comes of the middle, one of the two then needs no proof.
            (Some(lower), Some(upper)) if upper - lower > width => between(lower, upper, width),
            (lower, upper) => lower.or(upper).unwrap_or(0),
        },
    }
}

/// Twice the last step. A distance that no step made (a shape probe's) counts for little.
fn doubled(last: usize, width: usize) -> usize {
    (2 * last).clamp(width, 64 * width)
}

/// A load between two bounds. The lower part is a number of whole widths where it can be, so that
/// the last halving leaves no gap that is narrower than asked.
fn between(lower: usize, upper: usize, width: usize) -> usize {
    let gap = upper - lower;
    let half = gap / 2;
    let whole = half / width * width;
    lower + if whole > 0 && gap - whole >= width { whole } else { half.max(1) }
}

#[cfg(test)]
mod tests {
    use super::super::classify::Judged;
    use super::*;

    fn good(good: bool) -> Judged {
        Judged { time_s: 1.0, counts_s: 1.5, loss: 0.0, good, unsent: false }
    }

    #[test]
    fn a_hard_limit_costs_seventeen_trials_from_a_good_hint() {
        let goal = Goal::preset("pdr").unwrap();
        let grid = Grid::new(9_001.0, 1_488_000.0, 0.005).unwrap();
        let limit = grid.at_most(1_006_031.0);
        let mut board = Board::new();
        let mut trials = 0;
        while let Some((_, load)) = next(&goal, &board, &grid, limit) {
            board.entry(load).or_default().push(good(load <= limit));
            trials += 1;
            assert!(trials < 100);
        }
        let found = final_bounds(&goal, &board);
        assert_eq!((found.lower, found.upper), (Some(limit), Some(limit + 1)));
        assert_eq!(trials, 17, "and the warm-up");
    }

    #[test]
    fn from_any_hint_the_limit_is_found() {
        let goal = Goal::preset("ndr").unwrap();
        let grid = Grid::new(1e5, 1e7, 0.005).unwrap();
        for limit in [0, 1, 17, 400, grid.last() - 1, grid.last()] {
            for hint in [0, 16, 500, grid.last()] {
                let mut board = Board::new();
                let mut trials = 0;
                while let Some((_, load)) = next(&goal, &board, &grid, hint) {
                    board.entry(load).or_default().push(good(load <= limit));
                    trials += 1;
                    assert!(trials < 200, "limit {limit} hint {hint}");
                }
                let found = final_bounds(&goal, &board);
                assert_eq!(found.lower, Some(limit), "hint {hint}");
                assert_eq!(found.upper, (limit < grid.last()).then_some(limit + 1));
            }
        }
    }

    #[test]
    fn nothing_meets_the_goal() {
        let goal = Goal::preset("pdr").unwrap();
        let grid = Grid::new(1e5, 1e7, 0.005).unwrap();
        let mut board = Board::new();
        while let Some((_, load)) = next(&goal, &board, &grid, 700) {
            board.entry(load).or_default().push(good(false));
        }
        assert_eq!(final_bounds(&goal, &board), Bounds { lower: None, upper: Some(0) });
    }
}
