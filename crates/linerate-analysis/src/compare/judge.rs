//! The verdict of a comparison, and how many runs would settle it.

use linerate_stats::offline::power;
use linerate_stats::offline::welch::pooled_sd;

use crate::input::FEWEST_VALUES;

use super::pair::pooled_components;
use super::{Adjust, Basis, Comparison, Needed, NoVerdict, Options, SetFigures, Verdict};

/// One-sided confidence of the limit of the boot variance that plans are made with.
const PLANNING_CONFIDENCE: f64 = 0.8;

pub(super) fn judge(sets: &[SetFigures], comparison: &mut Comparison, options: &Options, k: usize) {
    let (Some(d), Some(base), Some(set)) =
        (comparison.estimate, sets.first(), sets.get(comparison.set))
    else {
        return;
    };
    let alpha = 1.0 - options.level;
    if comparison.no_verdict.is_none() {
        let below = |p: Option<f64>| p.is_some_and(|p| p < alpha);
        comparison.verdict = Some(if below(comparison.p_adjusted) {
            Verdict::Different
        } else if below(comparison.p_equivalent) {
            Verdict::Equivalent
        } else {
            Verdict::Inconclusive
        });
    }
    if comparison.no_verdict == Some(NoVerdict::NoSpread) {
        return;
    }
    // Plans are made for the level that one comparison among several has to reach.
    let level = if options.adjust == Adjust::None { options.level } else { 1.0 - alpha / k as f64 };
    if comparison.no_verdict.is_none() {
        comparison.smallest_effect = power::detectable(d.df, level).map(|e| e * d.standard_error);
    }
    let Some(margin) = comparison.margin else { return };
    let fewest = FEWEST_VALUES as u64;
    comparison.runs_needed = match comparison.basis {
        Basis::Runs => {
            let sd = pooled_sd(&base.all, &set.all);
            sd.and_then(|sd| power::units_needed(margin, sd * sd, level))
                .map(|runs| Needed::new(None, runs.max(fewest)))
        }
        Basis::PairedRuns => {
            let n = base.set.values().len() as f64;
            power::pairs_needed(margin, d.standard_error * d.standard_error * n, level)
                .map(|runs| Needed::new(None, runs.max(fewest)))
        }
        Basis::Boots | Basis::WithinBoots => plan(base, set, margin, level),
        Basis::PairedBoots => {
            let a = base.boots.as_ref().map_or(0, |b| b.means.len()) as f64;
            let runs = runs_each(base);
            power::pairs_needed(margin, d.standard_error * d.standard_error * a, level)
                .map(|boots| Needed::new(Some(boots.max(3)), runs))
        }
    };
}

fn runs_each(set: &SetFigures) -> u64 {
    let boots = set.boots.as_ref().map_or(1, |b| b.means.len()).max(1);
    ((set.all.n / boots as f64).round() as u64).max(1)
}

fn plan(base: &SetFigures, set: &SetFigures, margin: f64, level: f64) -> Option<Needed> {
    let m = runs_each(base).max(runs_each(set));
    let plan = match pooled_components(base, set) {
        Some(c) => {
            let between = c.between_upper(PLANNING_CONFIDENCE)?;
            power::boots_needed(margin, between, c.within, m, level)?
        }
        None => {
            // One run a boot: the boot means hold both variances and cannot part them.
            let (x, y) = (base.units?, set.units?);
            let sd = pooled_sd(&x, &y)?;
            power::boots_needed(margin, sd * sd, 0.0, m, level)?
        }
    };
    Some(Needed::new(Some(plan.boots), plan.runs_per_boot))
}

#[cfg(test)]
mod tests {
    use crate::compare::{Options, compare};
    use crate::set::{Data, Set};

    #[test]
    fn what_is_needed_can_be_compared() {
        let set = |label: &str, values: [f64; 3]| Set {
            label: label.to_owned(),
            unit: None,
            data: Data::Runs { values: values.to_vec().into(), boots: None },
            notes: Vec::new(),
        };
        // One percent is ten standard deviations: two runs would show it.
        let sets = [set("a", [100.0, 100.1, 99.9]), set("b", [200.0, 200.2, 199.9])];
        for paired in [false, true] {
            let options = Options { paired, ..Options::default() };
            let needed = compare(&sets, &options).unwrap().comparisons[0].runs_needed.unwrap();
            assert_eq!((needed.total, needed.boots), (3, None), "paired {paired}");
        }
    }
}
