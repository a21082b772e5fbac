//! The row of a trial of a sweep, printed when it is over.

use linerate_model::plan::Way;
use linerate_model::sweep::{SweepPlan, SweepTrial, Variable};
use linerate_model::trial::Outcome;

use super::table::{limited, value};
use crate::number;
use crate::rows::{self, Cell, column, keep, text};
use crate::style::{Paint, Tone};

/// A trial that is over; the number counts from 1.
type Trial<'a> = (&'a SweepPlan, usize, &'a SweepTrial);

type Column = rows::Column<fn(&Trial<'_>) -> Cell>;

const WAY: Column = text("way", 7, 0, |t| Cell::plain(t.2.direction.name()));
const VALUE: Column = column("", "asked", 9, 0, |t| Cell::plain(value(t.0, t.2.value)));

const COLUMNS: &[Column] = &[
    column("", "trial", 5, 0, |t| Cell::plain(t.1.to_string())),
    WAY,
    VALUE,
    column("", "sent", 8, 1, |t| Cell::plain(number::short(t.2.outcome.sent_bps))),
    column("", "received", 8, 0, |t| Cell::plain(number::short(t.2.outcome.received_bps))),
    column("", "missing", 9, 0, |t| {
        let missing = t.2.outcome.undelivered_ratio;
        let tone = if missing > 0.005 { Tone::Warn } else { Tone::Plain };
        Cell { text: number::loss(missing), tone }
    }),
    column("", "p99", 7, 3, |t| Cell::known(t.2.outcome.delay_p99_s.map(number::seconds_short))),
    column("", "cpu tx", 6, 4, |t| Cell::known(t.2.outcome.cpu_sender_percent.map(number::cpu))),
    column("", "cpu rx", 6, 4, |t| Cell::known(t.2.outcome.cpu_receiver_percent.map(number::cpu))),
    text("limited by", 12, 0, |t| {
        let Outcome { limit, invalid, .. } = &t.2.outcome;
        let tone = if invalid.is_some() { Tone::Warn } else { Tone::Plain };
        Cell { text: limited(*limit, invalid), tone }
    }),
];

/// The columns of a plan: what is varied has its name, the way is shown where there are two.
fn columns(plan: &SweepPlan, width: Option<usize>) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    columns.retain(|c| c.name != WAY.name || plan.directions.len() > 1);
    if let Some(of) = columns.iter_mut().find(|c| c.name == VALUE.name) {
        of.name = if plan.variable == Variable::Rate { VALUE.name } else { plan.variable.name() };
    }
    keep(&mut columns, width, |_| 0);
    columns
}

/// The head of the table of trials; `width` of the terminal, where there is one.
pub fn head(plan: &SweepPlan, width: Option<usize>, paint: Paint) -> String {
    rows::head(&columns(plan, width), width, paint)
}

/// One trial; `number` counts from 1.
pub fn row(
    plan: &SweepPlan,
    number: usize,
    trial: &SweepTrial,
    width: Option<usize>,
    paint: Paint,
) -> String {
    let columns = columns(plan, width);
    let cells: Vec<_> = columns.iter().map(|c| (c.cell)(&(plan, number, trial))).collect();
    rows::line(&columns, &cells, width, paint)
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
