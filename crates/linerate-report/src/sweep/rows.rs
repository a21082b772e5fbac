//! The row of a trial of a sweep, printed when it is over.

use linerate_model::plan::Way;
use linerate_model::sweep::{SweepPlan, SweepTrial, Variable};

use super::table::limit;
use crate::number::{self, ABSENT, or_absent};
use crate::rows::{self, Column};
use crate::run::table::Cell;
use crate::style::{Paint, Tone};

const COLUMNS: &[Column] = &[
    Column { name: "trial", width: 5, left: false, rank: 0 },
    Column { name: "way", width: 7, left: true, rank: 0 },
    Column { name: "asked", width: 9, left: false, rank: 0 },
    Column { name: "sent", width: 8, left: false, rank: 1 },
    Column { name: "received", width: 8, left: false, rank: 0 },
    Column { name: "missing", width: 9, left: false, rank: 0 },
    Column { name: "p99", width: 7, left: false, rank: 3 },
    Column { name: "cpu tx", width: 6, left: false, rank: 4 },
    Column { name: "cpu rx", width: 6, left: false, rank: 4 },
    Column { name: "limited by", width: 12, left: true, rank: 0 },
];

/// The columns of a plan: the first is named as what is varied, the way is shown where there are two.
fn columns(plan: &SweepPlan) -> Vec<Column> {
    let name = |column: &Column| match (column.name, plan.variable) {
        ("asked", Variable::Rate) => Column { name: "asked", ..*column },
        ("asked", variable) => Column { name: variable.name(), ..*column },
        _ => *column,
    };
    let shown = |column: &&Column| column.name != "way" || plan.directions.len() > 1;
    COLUMNS.iter().filter(shown).map(name).collect()
}

/// The head of the table of trials; `width` of the terminal, where there is one.
pub fn head(plan: &SweepPlan, width: Option<usize>, paint: Paint) -> String {
    rows::head(&columns(plan), width, paint)
}

/// One trial; `number` counts from 1.
pub fn row(
    plan: &SweepPlan,
    number: usize,
    trial: &SweepTrial,
    width: Option<usize>,
    paint: Paint,
) -> String {
    let outcome = &trial.outcome;
    let missing = if outcome.undelivered_ratio > 0.005 { Tone::Warn } else { Tone::Plain };
    let limit = outcome.limit.map_or(ABSENT, limit);
    let mut cells = vec![Cell::plain(number.to_string())];
    cells.extend(
        (plan.directions.len() > 1).then(|| Cell::plain(trial.direction.name().to_owned())),
    );
    cells.extend([
        Cell::plain(value(plan, trial.value)),
        Cell::plain(number::short(outcome.sent_bps)),
        Cell::plain(number::short(outcome.received_bps)),
        Cell { text: number::loss(outcome.undelivered_ratio), tone: missing },
        Cell::plain(or_absent(outcome.delay_p99_s, number::seconds_short)),
        Cell::plain(or_absent(outcome.cpu_sender_percent, number::cpu)),
        Cell::plain(or_absent(outcome.cpu_receiver_percent, number::cpu)),
        match &outcome.invalid {
            Some(_) => Cell { text: format!("{limit} ?"), tone: Tone::Warn },
            None => Cell::plain(limit.to_owned()),
        },
    ]);
    rows::line(&columns(plan), &cells, width, paint)
}

/// A value of the thing that is varied, for a column.
fn value(plan: &SweepPlan, value: Option<u64>) -> String {
    match (value, plan.variable) {
        (None, _) => "max".to_owned(),
        (Some(value), Variable::Rate) => number::short(value as f64),
        (Some(value), Variable::Window) => number::bytes(value),
        (Some(value), _) => number::integer(value),
    }
}

/// The received rates of one direction by rising value: the curve so far.
pub fn curve(trials: &[SweepTrial], way: Way) -> Vec<f64> {
    let mut known: Vec<(u64, f64)> = trials
        .iter()
        .filter(|trial| trial.direction == way)
        .map(|trial| (trial.value.unwrap_or(u64::MAX), trial.outcome.received_bps))
        .collect();
    known.sort_by_key(|(value, _)| *value);
    known.into_iter().map(|(_, received)| received).collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::record::Limit;
    use linerate_model::trial::Outcome;

    use super::*;

    fn plan(both: bool) -> SweepPlan {
        let directions = if both { vec!["forward", "reverse"] } else { vec!["forward"] };
        serde_json::from_value(serde_json::json!({
            "variable": "rate", "values": [10_000_000, 20_000_000], "then_max": true,
            "directions": directions, "rate_bps": null, "trial_s": 2.0, "repeat": 1, "seed": 1,
            "zoom_width": null
        }))
        .expect("a plan")
    }

    fn trial(direction: Way, value: Option<u64>, received_bps: f64, lost: f64) -> SweepTrial {
        let outcome = Outcome {
            sent_bps: value.map_or(1.2e9, |value| value as f64),
            received_bps,
            undelivered_ratio: lost,
            delay_p99_s: Some(0.012_3),
            cpu_sender_percent: Some(12.3),
            limit: Some(if lost > 0.0 { Limit::Path } else { Limit::RequestedRate }),
            ..Outcome::default()
        };
        SweepTrial { direction, value, zoom: false, outcome, doubts: Vec::new() }
    }

    #[test]
    fn a_trial_fits_the_terminal() {
        let trials = [
            trial(Way::Forward, Some(10_000_000), 10e6, 0.0),
            trial(Way::Reverse, Some(160_000_000), 97.3e6, 0.3919),
            trial(Way::Forward, None, 97.3e6, 0.919),
        ];
        let show = |both: bool, width: Option<usize>| {
            let (plan, paint) = (plan(both), Paint { colour: false });
            let rows = (1..).zip(&trials).map(|(n, trial)| row(&plan, n, trial, width, paint));
            head(&plan, width, paint) + &rows.collect::<String>()
        };
        let shown = [None, Some(200), Some(80), Some(60)].map(|width| show(true, width));
        insta::assert_snapshot!(shown.join("---\n") + "---\n" + &show(false, Some(80)));
        for width in 62..200 {
            let text = show(true, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}");
        }
        assert_eq!(curve(&trials, Way::Forward), [10e6, 97.3e6]);
    }
}
