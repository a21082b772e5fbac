//! The values of a sweep and the order in which they are tried.

use std::collections::VecDeque;

use linerate_model::sweep::SweepPlan;
use rand::SeedableRng;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;

use super::Job;

/// Most values of a grid: more is a mistake in a step.
pub const MOST_VALUES: usize = 1_000;

/// From `from` to `to`, each twice the one before; `to` itself is the last.
pub fn doubling(from: u64, to: u64) -> Vec<u64> {
    let mut values = Vec::new();
    let mut value = from.max(1);
    while value < to {
        values.push(value);
        value = value.saturating_mul(2);
    }
    // A last step of a few percent would be a trial for nothing: 512, 1000 and not 960, 1000.
    if values.last().is_some_and(|last| values.len() > 1 && (to as f64) < *last as f64 * 1.1) {
        values.pop();
    }
    values.push(to);
    values
}

/// From `from` to `to` in steps of `step`; `to` itself is the last. `None` when there would be more
/// than [`MOST_VALUES`].
pub fn linear(from: u64, to: u64, step: u64) -> Option<Vec<u64>> {
    if step == 0 || (to.saturating_sub(from) / step) as usize >= MOST_VALUES {
        return None;
    }
    let mut values = Vec::new();
    let mut value = from;
    while value < to {
        values.push(value);
        value = value.saturating_add(step);
    }
    values.push(to);
    Some(values)
}

/// The grid in the order of its trials. The first pass goes up, so that it can stop where the sender
/// cannot follow; each further pass has an order of its own, drawn from the seed, so that what
/// changes with time does not look like what changes with the rate. Directions take turns.
pub(super) fn order(plan: &SweepPlan) -> VecDeque<Job> {
    let rising: Vec<Option<u64>> =
        plan.values.iter().copied().map(Some).chain(plan.then_max.then_some(None)).collect();
    let mut chance = Pcg64Mcg::seed_from_u64(plan.seed);
    let mut jobs = VecDeque::new();
    for pass in 0..plan.repeat {
        let mut values = rising.clone();
        if pass > 0 {
            values.shuffle(&mut chance);
        }
        for value in values {
            for way in &plan.directions {
                jobs.push_back(Job { way: *way, value, zoom: false });
            }
        }
    }
    jobs
}
