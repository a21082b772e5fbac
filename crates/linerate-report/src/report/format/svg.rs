//! The figures, one below the other, with the words above them.

use std::fmt::Write;

use super::{COMMENT, Look};
use crate::draw::{Theme, document, escape, shortened};
use crate::report::view::{MOST_DRAWN_RUNS, Table, View};
use crate::style::wrap;

/// Letters of a line of words.
const LINE: usize = 132;
const LINE_HEIGHT: f64 = 19.0;
/// Below a figure.
const GAP: f64 = 8.0;

pub(super) fn render(view: &View, look: &Look) -> Result<Vec<u8>, String> {
    let drawing = match &look.figure {
        Some(name) => view.slide(name, Theme::Reader)?,
        None => draw(view, Theme::Reader)?.1,
    };
    // First of all, so that a later report knows what it may replace.
    Ok(format!("{COMMENT}{} -->\n{drawing}", view.version).into_bytes())
}

/// Height and text of the drawing.
pub(super) fn draw(view: &View, theme: Theme) -> Result<(f64, String), String> {
    let mut body = String::new();
    let mut top = 0.0;
    heading(&mut body, &mut top, &view.title);
    headline(&mut body, &mut top, &view.headline);
    words(&mut body, &mut top, &view.words);
    words(&mut body, &mut top, &view.problems);
    let mut drawn = 0;
    for section in &view.sections {
        heading(&mut body, &mut top, &section.title);
        for (what, command) in &section.commands {
            words(&mut body, &mut top, &[format!("{what}: {command}")]);
        }
        for figure in &section.figures {
            top = figure.draw(&mut body, top) + GAP;
            drawn += 1;
        }
        if let Some(command) = &section.command {
            words(&mut body, &mut top, std::slice::from_ref(command));
        }
    }
    if view.runs.len() <= MOST_DRAWN_RUNS {
        for run in &view.runs {
            heading(&mut body, &mut top, &format!("Run {}: {}", run.label, run.summary));
            for figure in &run.figures {
                top = figure.draw(&mut body, top) + GAP;
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
        let why = match view.runs.len() > MOST_DRAWN_RUNS {
            true => "of so many runs of this kind only the HTML report has figures",
            false => "there is nothing to draw in what was given",
        };
        return Err(why.into());
    }
    let height = top + 12.0;
    let label = format!("{}. {}", view.title, view.words.join(" "));
    Ok((height, document(theme, height, &label, &body)))
}

fn heading(out: &mut String, top: &mut f64, text: &str) {
    *top += 30.0;
    for line in wrap(text, 110, "") {
        crate::draw::text(out, "title", 12, *top, &line);
        *top += 20.0;
    }
}

/// The headline table: names, results, bars, and what stands beside.
fn headline(out: &mut String, top: &mut f64, table: &Table) {
    const NAME: f64 = 12.0;
    const RESULT: f64 = 330.0;
    const BAR: (f64, f64) = (342.0, 200.0);
    const BESIDE: f64 = 556.0;
    const CONCLUSION: f64 = 730.0;
    for (i, row) in table.rows.iter().enumerate() {
        let cell = |at: usize, most: usize| {
            escape(&shortened(row.get(at).map_or("", String::as_str), most))
        };
        let y = *top + 6.0;
        let _ = writeln!(
            out,
            "<text x=\"{NAME}\" y=\"{y:.1}\">{}</text><text class=\"name\" x=\"{RESULT}\" y=\"{y:.1}\" \
             text-anchor=\"end\">{}</text><text x=\"{BESIDE}\" y=\"{y:.1}\">{}</text><text class=\"soft\" \
             x=\"{CONCLUSION}\" y=\"{y:.1}\">{}</text>",
            cell(0, 28),
            cell(1, 24),
            cell(2, 24),
            cell(3, 36)
        );
        if let Some(share) = table.bars.get(i).copied().flatten() {
            let _ = writeln!(
                out,
                "<rect class=\"b0\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"10\" rx=\"2\"/>",
                BAR.0,
                y - 9.5,
                (BAR.1 * share).max(1.0)
            );
        }
        *top += 22.0;
    }
    *top += if table.rows.is_empty() { 0.0 } else { 8.0 };
}

fn words(out: &mut String, top: &mut f64, sentences: &[String]) {
    for sentence in sentences {
        for line in wrap(sentence, LINE, "  ") {
            crate::draw::text(out, "", 12, *top + 4.0, &line);
            *top += LINE_HEIGHT;
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_testkit::records;

    use super::*;
    use crate::report::input::Input;

    #[test]
    fn what_has_figures_elsewhere_is_not_called_nothing() {
        let run = serde_json::to_string(&records::rr()).unwrap();
        let drawn = |runs: usize| {
            let mut input = Input::default();
            (0..runs).for_each(|_| input.read("r.json", run.as_bytes()));
            draw(&View::new(&input, ""), Theme::Light).map(|_| ())
        };
        assert_eq!(drawn(MOST_DRAWN_RUNS), Ok(()));
        let why = drawn(MOST_DRAWN_RUNS + 1).unwrap_err();
        assert!(why.contains("only the HTML report has figures"), "{why}");
    }
}
