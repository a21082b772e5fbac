//! One set: its figures, its boots, and what is odd about its values and their order.

use linerate_stats::offline::nested;
use linerate_stats::offline::summary::{self, Moments};
use linerate_stats::offline::{autocorrelation, drift, modes, mser, outliers, pelt};

use super::{BootFigures, Checks, Options, SetFigures};
use crate::set::{Boots, Data, Set};

/// Values of a set above which the checks of single values and of their order are left out.
const MOST_FOR_CHECKS: usize = 200_000;

pub(super) fn describe(set: &Set, origin: f64, options: &Options) -> Option<SetFigures> {
    let (values, boots) = match &set.data {
        Data::Summary { moments, range, median } => {
            return Some(SetFigures {
                set: set.clone(),
                origin,
                all: *moments,
                mean: moments.mean,
                range: *range,
                median: *median,
                quartiles: None,
                trimmed_mean: None,
                boots: None,
                units: Some(*moments),
                half_width: moments.half_width(options.level),
                checks: Checks::default(),
            });
        }
        Data::Runs { values, boots } => (values, boots),
    };
    let all = Moments::of(values)?;
    let sorted = if values.len() > MOST_FOR_CHECKS {
        let mut partly = values.to_vec();
        summary::sort_for_quartiles(&mut partly);
        partly
    } else {
        summary::sorted(values)
    };
    let ends = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
    let boots = boots.as_ref().map(|b| boot_figures(b, values, origin));
    let units = match &boots {
        None => Some(all),
        Some(b) if b.means.len() >= nested::FEWEST_BOOTS => Moments::of(&b.means),
        Some(_) => None,
    };
    let mean = match &boots {
        Some(b) => origin + summary::mean(&b.means)?,
        None => all.mean,
    };
    Some(SetFigures {
        set: set.clone(),
        origin,
        all,
        mean,
        range: Some(ends),
        median: summary::median(&sorted),
        quartiles: Some((summary::quantile(&sorted, 0.25)?, summary::quantile(&sorted, 0.75)?)),
        trimmed_mean: summary::trimmed_mean(&sorted, 0.2),
        half_width: units.and_then(|u| u.half_width(options.level)),
        units,
        checks: checks(values, boots.as_ref()),
        boots,
    })
}

fn boot_figures(boots: &Boots, values: &[f64], origin: f64) -> BootFigures {
    let mut runs = boots.split(values);
    for value in runs.iter_mut().flatten() {
        *value -= origin;
    }
    let means = nested::boot_means(&runs);
    let components = nested::components(&runs);
    BootFigures { runs, means, labels: boots.labels.clone(), components }
}

fn checks(values: &[f64], boots: Option<&BootFigures>) -> Checks {
    if values.len() > MOST_FOR_CHECKS {
        return Checks { skipped: true, ..Checks::default() };
    }
    // What a boot fixes is no likeness of neighbours: each boot's level is taken out first.
    let levelled: Vec<f64> = match boots {
        Some(b) => b
            .runs
            .iter()
            .zip(&b.means)
            .flat_map(|(runs, mean)| runs.iter().map(move |x| x - mean))
            .collect(),
        None => values.to_vec(),
    };
    // Nor is it a drift or a warm-up: with boots, the course is that of the first, second, third …
    // runs of all boots.
    let order = boots.map_or_else(|| values.to_vec(), by_position);
    let course = pelt::course(&order);
    let warm = matches!(course, pelt::Course::WarmUp { .. });
    Checks {
        outliers: outliers::flag(values),
        modes: modes::two_modes(values),
        drift: drift::drift(&order).filter(|d| d.p < 0.01),
        mser: if warm { mser::mser5(&order).filter(|n| *n > 0) } else { None },
        course: (course != pelt::Course::Steady).then_some(course),
        autocorrelation: autocorrelation::lag1(&levelled).filter(|l| l.significant && l.r > 0.0),
        skipped: false,
    }
}

/// Mean of the first runs of all boots less their levels, of the second, and so on; as many as the
/// shortest boot has.
fn by_position(boots: &BootFigures) -> Vec<f64> {
    let shortest = boots.runs.iter().map(Vec::len).min().unwrap_or(0);
    let at = |position: usize| {
        let deviations: Vec<f64> = boots
            .runs
            .iter()
            .zip(&boots.means)
            .filter_map(|(runs, mean)| runs.get(position).map(|x| x - mean))
            .collect();
        summary::mean(&deviations)
    };
    (0..shortest).filter_map(at).collect()
}
