//! A tuning as text: a row a trial while it runs, then the best setting and what each factor matters by.

use std::collections::BTreeMap;

use linerate_model::tune::{Gain, TuneDocument, TuneFactor, TuneTrial};

use crate::clean::clean;
use crate::number::{self, ABSENT};
use crate::rows::{self, Cell, column, keep, text as text_column};
use crate::run::text::Layout;
use crate::style::{Paint, Tone};

/// Columns of the first words of each line.
const LABEL: usize = 9;
/// In place of the figure of a trial that says nothing of its setting.
pub(crate) const VOID: &str = "void";

/// A trial that is over: its number from 1, what it was of, and the unit of its figure.
type Trial<'a> = (&'a TuneTrial, usize, &'a str, &'a str);

type Column = rows::Column<fn(&Trial<'_>) -> Cell>;

const COLUMNS: &[Column] = &[
    column("", "trial", 5, 0, |t| Cell::plain(t.1.to_string())),
    text_column("for", 7, 1, |t| Cell::plain(t.0.purpose.name())),
    column("", "figure", 17, 0, |t| match t.0.value {
        Some(value) => Cell::plain(number::measured(value, Some(t.3))),
        None => Cell { text: if t.0.void { VOID } else { "none" }.to_owned(), tone: Tone::Warn },
    }),
    text_column("setting", 12, 0, |t| match &t.0.failed {
        Some(why) => {
            Cell { text: clean(&format!("{}: {why}", t.2)).into_owned(), tone: Tone::Warn }
        }
        None => Cell::plain(clean(t.2).into_owned()),
    }),
];

fn columns(width: Option<usize>) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    keep(&mut columns, width, |_| 0);
    columns
}

/// The head of the table of trials; `width` of the terminal, where there is one.
pub fn head(width: Option<usize>, paint: Paint) -> String {
    rows::head(&columns(width), width, paint)
}

/// The last trial of a document, `setting` being what it was of.
pub fn row(document: &TuneDocument, setting: &str, width: Option<usize>, paint: Paint) -> String {
    let Some(trial) = document.trials.last() else { return String::new() };
    let trial: Trial<'_> = (trial, document.trials.len(), setting, &document.objective.unit);
    let columns = columns(width);
    let cells: Vec<_> = columns.iter().map(|c| (c.cell)(&trial)).collect();
    rows::line(&columns, &cells, width, paint)
}

/// The result.
pub fn text(document: &TuneDocument, layout: Layout) -> String {
    let mut out = String::new();
    let mut say = |label: &str, words: &str, tone: Tone| {
        let label = format!("{label:LABEL$}");
        layout.wrapped(&mut out, &label, &clean(words), tone, LABEL);
    };
    let tone = if document.recommended { Tone::Good } else { Tone::Label };
    let mut sentences = document.because.iter();
    if let Some(answer) = sentences.next() {
        say("best", answer, tone);
    }
    if let Some(means) = means(document) {
        say("", &means, Tone::Dim);
    }
    for sentence in sentences {
        say("why", sentence, Tone::Dim);
    }
    out.push_str(&table(document, layout));
    end(&mut out, document, layout);
    out
}

/// The figures behind the gain: `923 Mbit/s against 780 Mbit/s of the default`.
pub(crate) fn means(document: &TuneDocument) -> Option<String> {
    let shown = |value: f64| number::measured(value, Some(&document.objective.unit));
    let (default, best) = (document.default_mean?, document.best_mean?);
    Some(format!("{} against {} of the default", shown(best), shown(default)))
}

/// What differs from the default, as a document has it: `window 4 MiB, streams 4`.
pub(crate) fn setting(document: &TuneDocument, levels: &BTreeMap<String, u64>) -> String {
    // In the order of the factors, as everywhere else.
    let changed = document.factors.iter().filter_map(|factor| {
        let number = levels.get(&factor.name)?;
        Some(format!("{} {}", factor.name, level_name(factor, *number)))
    });
    let words = changed.collect::<Vec<_>>().join(", ");
    if words.is_empty() { "the default".to_owned() } else { words }
}

/// What a level of a factor is called, or the sign that there is none of this number.
pub(crate) fn level_name(factor: &TuneFactor, number: u64) -> String {
    let level = usize::try_from(number).ok().and_then(|at| factor.levels.get(at));
    level.map_or_else(|| ABSENT.to_owned(), |level| level.name.clone())
}

/// A gain with its interval, or the sign that there is none.
pub(crate) fn gain(gain: Option<&Gain>) -> String {
    number::or_absent(gain, |gain| gain.words(1))
}

/// What its levels other than the best would add, each with how sure that is: the best of them.
fn next_best(factor: &TuneFactor) -> String {
    let most = |percent: f64| format!("{percent:+.1} %");
    number::or_absent(factor.others_most_percent, most)
}

/// What the worst of its levels costs: how much the factor can matter.
fn worst(factor: &TuneFactor) -> String {
    let gains = factor.levels.iter().filter_map(|l| Some((l.gain_percent?.mean, &l.name)));
    let worst = gains.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(gain, _)| *gain < 0.0);
    // With 0 added no share is `-0`.
    let words = |(gain, name): (f64, &String)| format!("{:.0} % ({name})", gain.round() + 0.0);
    worst.map_or_else(|| ABSENT.to_owned(), words)
}

/// Heads of the table of factors.
pub(crate) const FACTORS: [&str; 6] =
    ["factor", "default", "best", "worth", "others at most", "the worst"];

/// The cells of a factor, in that order.
pub(crate) fn cells(factor: &TuneFactor) -> [String; 6] {
    let best = factor.best;
    [
        factor.name.clone(),
        level_name(factor, 0),
        if best > 0 { level_name(factor, best) } else { "default".to_owned() },
        gain(factor.worth_percent.as_ref()),
        next_best(factor),
        worst(factor),
    ]
}

fn table(document: &TuneDocument, layout: Layout) -> String {
    let mut lines: Vec<[String; 6]> = vec![FACTORS.map(str::to_owned)];
    lines.extend(document.factors.iter().map(cells));
    let cleaned = lines.into_iter().map(|line| line.map(|cell| clean(&cell).into_owned()));
    let lines: Vec<[String; 6]> = cleaned.collect();
    let wide = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4, 5].map(wide);
    let mut out = String::from("\n");
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let text = cells.collect::<Vec<_>>().join("  ");
        let text = match layout.room.width {
            Some(width) => rows::cut(text.trim_end(), width),
            None => text.trim_end().to_owned(),
        };
        let tone = if number == 0 { Tone::Dim } else { Tone::Plain };
        out.push_str(&format!("{}\n", layout.paint.apply(tone, &text)));
    }
    out.push('\n');
    out
}

/// What was left out, and how the best setting is used.
fn end(out: &mut String, document: &TuneDocument, layout: Layout) {
    let mut say = |label: &str, words: &str| {
        layout.wrapped(out, &format!("{label:LABEL$}"), &clean(words), Tone::Dim, LABEL);
    };
    for factor in &document.factors {
        for level in &factor.levels {
            if let Some(why) = &level.left_out {
                say("left out", &format!("{} {}: {why}", factor.name, level.name));
            }
        }
    }
    let back = if document.left.is_empty() { "; it was put back" } else { "" };
    for setting in &document.best_settings {
        say("set", &format!("{setting} (this host{back})"));
    }
    for left in &document.left {
        say("host", &format!("not put back: {left}"));
    }
    let mut command = |label: &str, words: &str| {
        // On a line, so that it can be copied.
        let label = layout.paint.apply(Tone::Label, &format!("{label:LABEL$}"));
        out.push_str(&format!("{label}{}\n", clean(words)));
    };
    if !document.best_command.is_empty() && document.recommended {
        command("run", &document.best_command.join(" "));
    }
    if let Some(profile) = &document.profile {
        command("profile", profile);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::text::PLAIN;

    #[test]
    fn a_setting_that_could_not_be_put_back_is_told() {
        let document = json!({
            "format": 1, "kind": "tune", "id": "t", "started": "2026-11-22T10:00:00Z",
            "linerate": { "version": "0.1.0" }, "protocol": "tcp",
            "objective": {
                "name": "rate", "metric": "received_bps", "unit": "bit/s", "better": "higher",
            },
            "width_percent": 2.0, "seed": 7, "factors": [], "pairs": 8, "recommended": true,
            "reason": "settled", "because": ["offload.gro off: 9 % more"],
            "best_settings": [{ "name": "offload.gro", "value": false }],
            "trials": [], "seconds": 61.0, "doubts": [], "status": "complete",
        });
        let mut document: TuneDocument = serde_json::from_value(document).unwrap();
        let shown = text(&document, PLAIN);
        assert!(shown.contains("offload.gro = off (this host; it was put back)\n"), "{shown}");
        document.left = vec!["offload.gro: it stays off".to_owned()];
        let shown = text(&document, PLAIN);
        assert!(shown.contains("host     not put back: offload.gro: it stays off\n"), "{shown}");
        assert!(shown.contains("offload.gro = off (this host)\n"), "{shown}");
    }
}
