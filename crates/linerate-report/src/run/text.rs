//! A view as text. Pure layout: every word and number comes from the view.

use super::headline::Detail;
use super::table::{Room, Row, Table, UNBOUNDED};
use super::view::{Ending, Head};
use crate::rows;
use crate::style::{Paint, Tone, wrap};

/// How text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Columns, and whether there is a sparkline.
    pub room: Room,
    /// Colour or none.
    pub paint: Paint,
}

/// For pipes and files: every column, no colour, one fact a line.
pub const PLAIN: Layout = Layout { room: UNBOUNDED, paint: Paint { colour: false } };

/// Lines are not broken wider than this: nobody reads so far.
const TEXT_MOST: usize = 120;

impl Layout {
    fn text_width(&self) -> usize {
        self.room.width.map_or(usize::MAX, |w| w.clamp(20, TEXT_MOST))
    }

    /// Every line of it in one tone.
    fn block(&self, out: &mut String, text: &str, tone: Tone) {
        for line in wrap(text, self.text_width(), "  ") {
            out.push_str(&format!("{}\n", self.paint.apply(tone, &line)));
        }
    }

    /// A paragraph whose label has a tone of its own.
    pub(crate) fn wrapped(
        &self,
        out: &mut String,
        label: &str,
        text: &str,
        tone: Tone,
        indent: usize,
    ) {
        let indent = " ".repeat(indent);
        let painted = self.paint.apply(tone, label);
        // Wrapped before it is painted: an escape sequence has no width.
        let lines = wrap(&format!("{label}{text}"), self.text_width(), &indent);
        for (i, line) in lines.iter().enumerate() {
            match (i, line.strip_prefix(label)) {
                (0, Some(rest)) => out.push_str(&format!("{painted}{rest}\n")),
                _ => out.push_str(&format!("{line}\n")),
            }
        }
    }
}

/// Title and summary on one line where they fit, then the hosts.
pub fn head(head: &Head, table: &Table, layout: Layout) -> String {
    let mut out = String::new();
    let title = layout.paint.apply(Tone::Label, &head.title);
    let width = table.width();
    let used = head.title.chars().count() + head.summary.chars().count();
    if used + 2 <= width {
        out.push_str(&format!("{title}{}{}\n", " ".repeat(width - used), head.summary));
    } else {
        out.push_str(&format!("{title}\n"));
        layout.wrapped(&mut out, "", &head.summary, Tone::Plain, 2);
    }
    for line in wrap(&head.hosts, layout.text_width(), "  ") {
        out.push_str(&format!("{}\n", layout.paint.apply(Tone::Dim, &line)));
    }
    out
}

/// Heads of the columns, two lines.
pub fn table_head(table: &Table, layout: Layout) -> String {
    rows::grouped_head(table.columns(), layout.paint)
}

/// One row. `tone` is that of every cell without its own.
pub fn table_row(table: &Table, row: &Row, layout: Layout, tone: Tone) -> String {
    let mut out = rows::whole(table.columns(), &row.cells, layout.paint, tone);
    if !row.spark.is_empty() {
        out.push_str("  ");
        out.push_str(&layout.paint.apply(Tone::Good, &row.spark));
    }
    out.push('\n');
    out
}

/// Rows of single streams where not everything was asked for.
const SOME_STREAMS: usize = 4;

/// What follows the rows of intervals: totals and streams, then details, then the headline, so that
/// the answer is what stands above the prompt.
pub fn ending(ending: &Ending, table: &Table, layout: Layout, detail: Detail) -> String {
    let mut out = String::new();
    if detail != Detail::Headline {
        totals(&mut out, ending, table, layout, detail);
        details(&mut out, ending, layout, detail);
        if !out.is_empty() {
            out.push('\n');
        }
    }
    headline(&mut out, ending, layout, detail);
    // Where there is no answer, no empty line announces one.
    out.truncate(out.trim_end().len());
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn totals(out: &mut String, ending: &Ending, table: &Table, layout: Layout, detail: Detail) {
    for row in &ending.totals {
        out.push_str(&table_row(table, row, layout, Tone::Label));
    }
    let shown = if detail == Detail::All { usize::MAX } else { SOME_STREAMS };
    for row in ending.streams.iter().take(shown) {
        out.push_str(&table_row(table, row, layout, Tone::Plain));
    }
    let hidden = ending.streams.len().saturating_sub(shown) + ending.streams_left_out;
    if hidden > 0 {
        let place = if hidden > ending.streams_left_out { "-v and --json" } else { "--json" };
        let (streams, are) = if hidden == 1 { ("stream", "is") } else { ("streams", "are") };
        out.push_str(&format!("{hidden} more {streams} {are} in {place}\n"));
    }
}

fn details(out: &mut String, ending: &Ending, layout: Layout, detail: Detail) {
    let all = detail == Detail::All;
    let facts = if all { &ending.facts } else { &ending.details };
    if !facts.is_empty() {
        out.push('\n');
    }
    let label_width = facts.iter().map(|(l, _)| l.chars().count()).max().unwrap_or(0) + 2;
    for (label, text) in facts {
        let label = format!("{label:<label_width$}");
        layout.wrapped(out, &label, text, Tone::Dim, label_width);
    }
    for item in ending.advice.iter().skip(1).filter(|_| all) {
        layout.wrapped(out, "or try: ", item, Tone::Good, 8);
    }
    let doubts = if all { &ending.doubts } else { &ending.worst_doubts };
    for doubt in doubts {
        layout.wrapped(out, "doubt: ", doubt, Tone::Warn, 7);
    }
    if let Some(usual) = ending.usual_doubts.as_ref().filter(|_| !all) {
        layout.wrapped(out, "note: ", usual, Tone::Dim, 6);
    }
}

fn headline(out: &mut String, ending: &Ending, layout: Layout, detail: Detail) {
    let answer = &ending.headline;
    if let Some((word, text)) = &ending.broken {
        layout.wrapped(out, &format!("{word}: "), text, Tone::Bad, 2);
    }
    for line in &answer.results {
        layout.block(out, line, Tone::Label);
    }
    let limit = if detail == Detail::All { &ending.verdict } else { &answer.limit };
    if let Some(limit) = limit {
        let (label, rest) = limit.split_once(':').unwrap_or((limit.as_str(), ""));
        let colon = if rest.is_empty() { "" } else { ":" };
        layout.wrapped(out, &format!("{label}{colon}"), rest, Tone::Label, 2);
    }
    if let Some(advice) = &answer.advice {
        layout.wrapped(out, "try: ", advice, Tone::Good, 5);
    }
}

#[cfg(test)]
mod tests;
