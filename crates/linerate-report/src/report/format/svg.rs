//! The figures, one below the other, with the words above them.

use std::fmt::Write;

use super::{COMMENT, Look};
use crate::compare;
use crate::draw::chart::Chart;
use crate::draw::{Theme, document, escape};
use crate::report::view::{Figure, Lanes, MOST_DRAWN_RUNS, View};
use crate::style::wrap;

/// Letters of a line of words.
const LINE: usize = 132;
const LINE_HEIGHT: f64 = 19.0;

pub(super) fn render(view: &View, _: &Look) -> Result<Vec<u8>, String> {
    let (_, drawing) = draw(view, Theme::Reader)?;
    // First of all, so that a later report knows what it may replace.
    Ok(format!("{COMMENT}{} -->\n{drawing}", view.version).into_bytes())
}

/// Height and text of the drawing.
pub(super) fn draw(view: &View, theme: Theme) -> Result<(f64, String), String> {
    let mut body = String::new();
    let mut top = 0.0;
    heading(&mut body, &mut top, &format!("Report on {}", view.title));
    words(&mut body, &mut top, &view.words);
    words(&mut body, &mut top, &view.problems);
    let mut drawn = 0;
    for section in &view.sections {
        heading(&mut body, &mut top, &section.title);
        for figure in &section.figures {
            self::figure(&mut body, &mut top, figure);
            drawn += 1;
        }
        if let Some(command) = &section.command {
            words(&mut body, &mut top, std::slice::from_ref(command));
        }
    }
    if view.runs.len() <= MOST_DRAWN_RUNS {
        for run in &view.runs {
            heading(&mut body, &mut top, &format!("Run {}: {}", run.label, run.summary));
            for chart in &run.charts {
                self::chart(&mut body, &mut top, chart);
                drawn += 1;
            }
            words(&mut body, &mut top, std::slice::from_ref(&run.command));
        }
    } else {
        top += 20.0;
        let n = view.runs.len();
        let text = format!("The figures of each of the {n} runs are in the HTML report.");
        words(&mut body, &mut top, &[text]);
    }
    if drawn == 0 {
        return Err("there is nothing to draw in what was given".into());
    }
    let height = top + 12.0;
    let label = format!("Report on {}. {}", view.title, view.words.join(" "));
    Ok((height, document(theme, height, &label, &body)))
}

fn heading(out: &mut String, top: &mut f64, text: &str) {
    *top += 30.0;
    for line in wrap(text, 110, "") {
        let _ =
            writeln!(out, "<text class=\"title\" x=\"12\" y=\"{top:.1}\">{}</text>", escape(&line));
        *top += 20.0;
    }
}

fn words(out: &mut String, top: &mut f64, sentences: &[String]) {
    for sentence in sentences {
        for line in wrap(sentence, LINE, "  ") {
            let _ =
                writeln!(out, "<text x=\"12\" y=\"{:.1}\">{}</text>", *top + 4.0, escape(&line));
            *top += LINE_HEIGHT;
        }
    }
}

fn figure(out: &mut String, top: &mut f64, figure: &Figure) {
    match figure {
        Figure::Chart(chart) => self::chart(out, top, chart),
        Figure::Lanes(lanes) => *top = self::lanes(out, *top, lanes),
    }
}

fn chart(out: &mut String, top: &mut f64, chart: &Chart) {
    *top = chart.draw(out, *top) + 8.0;
}

/// Lanes with their title, from `top` down.
pub(super) fn lanes(out: &mut String, top: f64, lanes: &Lanes) -> f64 {
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"12\" y=\"{:.1}\">{}</text>",
        top + 21.0,
        escape(&lanes.title)
    );
    compare::svg::figure(out, &lanes.view, &lanes.chosen, top + 30.0)
}
