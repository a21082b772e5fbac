//! Finer values around the bends.

use linerate_model::plan::Way;
use linerate_model::sweep::{RegimeKind, SweepBend, SweepPlan, SweepPoint, SweepTrial, Variable};

use super::budget::{MOST_FOR_DIRECTION, MOST_FOR_KNEE, MOST_FOR_OTHERS, all_spent};
use super::{Job, points, regimes};

/// Trials that a direction usually needs, before anything is known of its bends.
pub(super) const USUAL_TRIALS: usize = 7;
/// After this many the place of a bend is no longer guessed but halved.
const GUESSES: usize = 6;
/// Trials of one value, when their votes keep being equal.
const MOST_VOTES: usize = 5;
/// A border counts when at least so many trials stand on each side of it.
const SURE: usize = 2;
/// Where the guessed place of the bend is bracketed, in parts of the width: little below, since what
/// a queue takes makes the guess and the border higher, never lower.
const BELOW: f64 = 0.2;
const ABOVE: f64 = 0.75;
/// And from there up, in steps of so many widths.
const NEXT: f64 = 0.9;

/// Borders between neighbouring points of different kinds.
pub(super) fn bends(plan: &SweepPlan, points: &[SweepPoint]) -> Vec<SweepBend> {
    points
        .windows(2)
        .filter_map(|pair| {
            let [below, above] = pair else { return None };
            let low = below.value?;
            if below.direction != above.direction || below.regime == above.regime {
                return None;
            }
            let width_ratio =
                above.value.map(|high| high.saturating_sub(low) as f64 / low.max(1) as f64);
            let narrow = above.value.is_some_and(|high| is_narrow(plan, low, high));
            let limit =
                if above.regime == RegimeKind::Sustained { below.limit } else { above.limit };
            Some(SweepBend {
                direction: below.direction,
                from: below.regime,
                to: above.regime,
                low,
                high: above.value,
                width_ratio,
                narrow,
                limit,
            })
        })
        .collect()
}

/// Without zoom the grid's own step has to do, so nothing is narrow.
fn is_narrow(plan: &SweepPlan, low: u64, high: u64) -> bool {
    let width = plan.zoom_width.unwrap_or(0.0);
    high.saturating_sub(low) <= 1 || (high - low) as f64 <= width * low as f64
}

/// The next trial that narrows a bend of this direction, the one where following ends first.
pub(super) fn next(plan: &SweepPlan, trials: &[SweepTrial], way: Way) -> Option<Job> {
    plan.zoom_width?;
    if all_spent(trials, way) >= MOST_FOR_DIRECTION {
        return None;
    }
    let points = regimes::judged(plan, trials, way);
    let mut bends = bends(plan, &points);
    bends.sort_by_key(rank);
    bends.iter().find_map(|bend| {
        let value = step(plan, trials, &points, bend)?;
        Some(Job { way, value: Some(value), zoom: true })
    })
}

/// A guess of how many trials the bends of a direction will still need.
pub(super) fn left(plan: &SweepPlan, trials: &[SweepTrial], way: Way) -> usize {
    let points = regimes::judged(plan, trials, way);
    let needed: usize = bends(plan, &points)
        .iter()
        .filter(|bend| step(plan, trials, &points, bend).is_some())
        .map(|bend| USUAL_TRIALS.saturating_sub(spent(plan, trials, bend)).max(1))
        .sum();
    needed.min(MOST_FOR_DIRECTION.saturating_sub(all_spent(trials, way)))
}

/// The first end of following, then its other borders, then the rest; each from below.
fn rank(bend: &SweepBend) -> u8 {
    match (bend.from, bend.to) {
        (RegimeKind::Sustained, _) => 0,
        (_, RegimeKind::Sustained) => 1,
        (_, RegimeKind::Collapse) | (RegimeKind::Rises, _) => 2,
        _ => 3,
    }
}

/// Value of the next trial for this bend, if it needs one.
fn step(
    plan: &SweepPlan,
    trials: &[SweepTrial],
    points: &[SweepPoint],
    bend: &SweepBend,
) -> Option<u64> {
    // Sizes, streams and windows may have to rise until what is asked for arrives.
    let knee = if plan.variable == Variable::Rate { 0 } else { 1 };
    let most = if rank(bend) <= knee { MOST_FOR_KNEE } else { MOST_FOR_OTHERS };
    let spent = spent(plan, trials, bend);
    if spent >= most {
        return None;
    }
    let way = bend.direction;
    let at = |value: Option<u64>| points.iter().find(|p| p.value == value);
    let (below, above) = (at(Some(bend.low))?, at(bend.high)?);
    let Some(high) = bend.high else {
        // Between the last rate and as fast as it can: what that came to is a rate as well.
        let most_sent = rounded(above.sent_bps as u64);
        return (plan.variable == Variable::Rate && most_sent > bend.low)
            .then(|| split(plan, below, above, most_sent, spent))
            .flatten();
    };
    let tried = |value: u64| points::trials_at(trials, way, Some(value));
    let undecided = |point: &SweepPoint, value: u64| {
        let outcomes = tried(value);
        let (followed, not) = points::votes(&outcomes, point.asked_bps);
        followed == not && outcomes.len() < MOST_VOTES
    };
    for (point, value) in [(above, high), (below, bend.low)] {
        if undecided(point, value) {
            return Some(value);
        }
    }
    // One trial that went wrong is no bend: the failing end is tried again before it is believed.
    let failing = match (bend.from, bend.to) {
        (RegimeKind::Sustained, _) => Some(high),
        (_, RegimeKind::Sustained) => Some(bend.low),
        _ => None,
    };
    if let Some(value) = failing.filter(|value| tried(*value).len() < SURE) {
        return Some(value);
    }
    if !bend.narrow {
        return split(plan, below, above, high, spent);
    }
    [bend.low, high].into_iter().find(|value| tried(*value).len() < SURE)
}

/// Zoom trials between the neighbours that the grid itself has around a bend.
fn spent(plan: &SweepPlan, trials: &[SweepTrial], bend: &SweepBend) -> usize {
    let values = plan.values.iter().copied();
    let from = values.clone().filter(|v| *v <= bend.low).max().unwrap_or(0);
    let to = values.filter(|v| bend.high.is_some_and(|high| *v >= high)).min().unwrap_or(u64::MAX);
    trials
        .iter()
        .filter(|t| t.zoom && t.direction == bend.direction)
        .filter(|t| t.value.is_some_and(|v| (from..=to).contains(&v)))
        .count()
}

/// A value between the two: on either side of where the data say that the bend is, else the middle.
fn split(
    plan: &SweepPlan,
    below: &SweepPoint,
    above: &SweepPoint,
    high: u64,
    spent: usize,
) -> Option<u64> {
    let low = below.value?;
    let inside = |value: u64| (low < value && value < high).then_some(value);
    let width = plan.zoom_width?;
    if plan.variable == Variable::Rate && below.regime == RegimeKind::Sustained && spent < GUESSES {
        // What arrived when too much was asked for is what the path, or an end, carries.
        let guess = above.received_bps;
        let under = rounded((guess * (1.0 - BELOW * width)) as u64);
        let over = rounded((guess * (1.0 + ABOVE * width)) as u64);
        // Where even that was followed, just beyond.
        let beyond = rounded((low as f64 * (1.0 + NEXT * width)) as u64);
        let guess = [under, over, beyond].into_iter().find(|value| *value > low);
        if let Some(value) = guess.and_then(inside) {
            return Some(value);
        }
    }
    let middle = (low.max(1) as f64 * high as f64).sqrt();
    let middle = if plan.variable == Variable::Rate {
        rounded(middle as u64)
    } else {
        middle.round() as u64
    };
    inside(middle).or_else(|| inside(low + (high - low) / 2))
}

/// Four significant digits: finer than any width, and easier to read.
fn rounded(value: u64) -> u64 {
    let mut unit = 1u64;
    while value / unit >= 10_000 {
        unit *= 10;
    }
    value.saturating_add(unit / 2) / unit * unit
}
