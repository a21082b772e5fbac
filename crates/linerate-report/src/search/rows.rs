//! The row of a trial of a search, printed when it is over, and the bounds so far.

use linerate_model::search::{GoalRecord, TrialPurpose, TrialRecord};

use crate::clean::clean;
use crate::number::{self, ABSENT};
use crate::rows::{self, Cell, column, keep, text};
use crate::style::{Paint, Tone};

/// A trial that is over; its number, from 1, and the width of the terminal.
type Trial<'a> = (&'a TrialRecord, usize, Option<usize>);

type Column = rows::Column<fn(&Trial<'_>) -> Cell>;

const COLUMNS: &[Column] = &[
    column("", "trial", 5, 0, |t| Cell::plain(t.1.to_string())),
    text("for", 7, 2, |t| Cell::plain(purpose(t.0.purpose))),
    column("", "asked", 8, 0, |t| {
        Cell::plain(t.0.asked_bps.map_or("max".to_owned(), number::short))
    }),
    column("", "sent", 8, 4, |t| Cell::plain(number::short(t.0.sent_bps))),
    column("", "received", 8, 0, |t| Cell::plain(number::short(t.0.received_bps))),
    column("", "not there", 9, 0, |t| Cell::plain(number::loss(t.0.undelivered_ratio))),
    column("", "delay99", 8, 3, |t| {
        Cell::plain(number::or_absent(t.0.delay_p99_s, number::seconds_short))
    }),
    text("limited by", 15, 1, |t| Cell::plain(t.0.limit.map_or(ABSENT, |limit| limit.name()))),
    text("meets", 12, 0, meets),
];

/// On a narrower terminal the first word of a reason would be all that is seen of it.
const REASONS_FROM: usize = 120;

fn meets((trial, _, width): &Trial<'_>) -> Cell {
    let (tone, text) = match (&trial.invalid, trial.good) {
        (Some(why), _) if width.is_none_or(|width| width >= REASONS_FROM) => {
            (Tone::Warn, format!("says nothing: {}", clean(why)))
        }
        (Some(_), _) => (Tone::Warn, "says nothing".to_owned()),
        (None, None) => (Tone::Dim, ABSENT.to_owned()),
        (None, Some(good)) => {
            let names = clean(&trial.meets.join(" ")).into_owned();
            let tone = if good { Tone::Good } else { Tone::Bad };
            (tone, if names.is_empty() { "no".to_owned() } else { names })
        }
    };
    Cell { text, tone }
}

fn columns(width: Option<usize>) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    keep(&mut columns, width, |_| 0);
    columns
}

/// The head of the table of trials; `width` of the terminal, where there is one.
pub fn head(width: Option<usize>, paint: Paint) -> String {
    rows::head(&columns(width), width, paint)
}

/// One trial; `number` counts from 1.
pub fn row(number: usize, trial: &TrialRecord, width: Option<usize>, paint: Paint) -> String {
    let columns = columns(width);
    let cells: Vec<_> = columns.iter().map(|c| (c.cell)(&(trial, number, width))).collect();
    rows::line(&columns, &cells, width, paint)
}

/// What a trial is for, in a word.
fn purpose(purpose: TrialPurpose) -> &'static str {
    match purpose {
        TrialPurpose::WarmUp => "warm-up",
        TrialPurpose::MaxLoad => "max",
        TrialPurpose::Search => "bounds",
        TrialPurpose::Fit => "knee",
        TrialPurpose::Shape => "shape",
    }
}

/// How far each goal's bounds have closed in: `ndr 40.00 M to 82.64 Mbit/s`.
pub fn bounds(goals: &[GoalRecord]) -> Vec<String> {
    let bracket = |goal: &GoalRecord| {
        let (low, high) = match goal.knee_bps {
            Some(knee) => (Some(knee.low), Some(knee.high)),
            None => (goal.lower_bps, goal.upper_bps),
        };
        let name = clean(goal.name.split(',').next().unwrap_or_default()).into_owned();
        match (low, high) {
            (None, None) => format!("{name} not known"),
            (Some(low), None) => format!("{name} above {}", number::rate(low)),
            (None, Some(high)) => format!("{name} below {}", number::rate(high)),
            (Some(low), Some(high)) => {
                let (low, high_short) = (number::short(low), number::short(high));
                // One prefix serves both, where it is the same.
                let prefix = |text: &str| text.split_once(' ').map(|(_, prefix)| prefix.to_owned());
                let same = prefix(&low).is_some() && prefix(&low) == prefix(&high_short);
                let low = low.split(' ').next().filter(|_| same).unwrap_or(&low);
                format!("{name} {low} to {}", number::rate(high))
            }
        }
    };
    goals.iter().map(bracket).collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::record::Limit;

    use super::*;

    fn trial(purpose: TrialPurpose, asked: Option<f64>, good: Option<bool>) -> TrialRecord {
        let outcome = serde_json::json!({
            "search": 1, "took_s": 2.3, "run": null, "purpose": purpose, "asked_bps": asked, "seconds": 2.0, "sent_bps": 61.32e6,
            "received_bps": 61.31e6, "undelivered_ratio": 0.0123, "lost_ratio": 0.0,
            "delay_p99_s": 0.000_123, "good": good, "meets": []
        });
        serde_json::from_value(outcome).expect("a trial")
    }

    #[test]
    fn a_trial_fits_the_terminal() {
        let mut good = trial(TrialPurpose::Search, Some(61.32e6), Some(true));
        good.meets = vec!["ndr".into(), "pdr".into()];
        good.limit = Some(Limit::RequestedRate);
        let mut odd = trial(TrialPurpose::Search, Some(123.4e6), None);
        odd.invalid = Some(
            "the sender did not send what was asked, and on the client, some task \
            waited for a core 93 % of the time (PSI): other work ran beside this test"
                .into(),
        );
        odd.limit = Some(Limit::ReceiverBuffer);
        let trials = [
            trial(TrialPurpose::WarmUp, None, None),
            good,
            trial(TrialPurpose::Fit, Some(82.64e6), Some(false)),
            odd,
        ];
        let show = |width: Option<usize>| {
            let paint = Paint { colour: false };
            let rows = (1..).zip(&trials).map(|(n, trial)| row(n, trial, width, paint));
            head(width, paint) + &rows.collect::<String>()
        };
        insta::assert_snapshot!([None, Some(200), Some(80), Some(40)].map(show).join("---\n"));
        for width in 60..200 {
            assert!(show(Some(width)).lines().all(|line| line.chars().count() <= width), "{width}");
        }
    }
}
