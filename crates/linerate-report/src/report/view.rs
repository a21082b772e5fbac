//! The finished report: every figure computed, every sentence worded. Formats lay it out.

use std::rc::Rc;

use crate::compare::svg;
use crate::compare::view::View as Comparison;
use crate::draw::bars::Bars;
use crate::draw::chart::Chart;
use crate::draw::flame::Flame;
use crate::draw::text;
use crate::field::field;

/// Runs up to which the figures of each are in every format. Of more, pages draw the figures of a
/// run when it is opened, and pictures show what all have in common.
pub const MOST_DRAWN_RUNS: usize = 12;

/// Everything, ready to be laid out.
#[derive(Debug)]
pub struct View {
    /// What was measured, between whom, when.
    pub title: String,
    /// The verb that made it: report or compare.
    pub verb: &'static str,
    /// How many of what is in it: `2 runs and 1 sweep`.
    pub holds: String,
    /// The results before any sentence, with a bar each.
    pub headline: Table,
    /// Version of the program.
    pub version: &'static str,
    /// The command that made the report.
    pub command: String,
    /// The result in sentences.
    pub words: Vec<String>,
    /// What could not be read.
    pub problems: Vec<String>,
    /// A section a sweep, search, tuning, comparison or campaign, and one for what all runs have in common.
    pub sections: Vec<Section>,
    /// Every test.
    pub runs: Vec<RunView>,
    /// Both ends' hosts, each state of each once.
    pub hosts: Vec<HostView>,
    /// Every number that a program would want, a row a thing.
    pub rows: Vec<Row>,
}

/// What belongs together.
#[derive(Debug, Default)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// In sentences.
    pub words: Vec<String>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Label and text.
    pub facts: Vec<(String, String)>,
    /// Commands to copy, each after what it is for.
    pub commands: Vec<(&'static str, String)>,
    /// The command that repeats it.
    pub command: Option<String>,
}

/// A figure.
#[derive(Debug)]
pub enum Figure {
    /// Curves.
    Chart(Box<Chart>),
    /// Every run as a dot, a lane a set.
    Lanes(Lanes),
    /// Stacks as towers.
    Flame(Box<Flame>),
    /// Shares with their intervals.
    Bars(Bars),
}

impl Figure {
    /// Of what a chart has to show, if that is anything.
    pub(super) fn of(chart: Chart) -> Option<Self> {
        chart.tidy().map(|chart| Self::Chart(Box::new(chart)))
    }

    /// Draws from `top` down with its title, gives back where it ends.
    pub(super) fn draw(&self, out: &mut String, top: f64) -> f64 {
        match self {
            Self::Chart(chart) => chart.draw(out, top),
            Self::Flame(flame) => flame.draw(out, top),
            Self::Bars(bars) => bars.draw(out, top),
            Self::Lanes(lanes) => {
                text(out, "title", 12, top + 21.0, &lanes.title);
                svg::figure(out, &lanes.view, &lanes.chosen, top + 30.0)
            }
        }
    }

    pub(super) fn as_chart(&self) -> Option<&Chart> {
        if let Self::Chart(chart) = self { Some(chart) } else { None }
    }

    /// What it shows, for who does not see it.
    pub(super) fn label(&self) -> String {
        let (title, alt) = self.words();
        format!("{title}. {alt}")
    }

    /// What it shows, and the same for who does not see it.
    pub(super) fn words(&self) -> (&str, &str) {
        match self {
            Self::Chart(chart) => (&chart.title, &chart.alt),
            Self::Lanes(lanes) => (&lanes.title, &lanes.alt),
            Self::Flame(flame) => (&flame.title, &flame.alt),
            Self::Bars(bars) => (&bars.title, &bars.alt),
        }
    }
}

/// Lanes of dots.
#[derive(Debug)]
pub struct Lanes {
    /// What it shows.
    pub title: String,
    /// The same for who does not see it.
    pub alt: String,
    /// The comparison.
    pub view: Rc<Comparison>,
    /// Which of its sets.
    pub chosen: Vec<usize>,
}

/// A table.
#[derive(Debug, Default)]
pub struct Table {
    /// What it holds.
    pub title: String,
    /// Heads.
    pub columns: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// Where it has bars, one a row in the second column: its share of the longest.
    pub bars: Vec<Option<f64>>,
}

impl Table {
    /// Without rows yet; a `|` parts the heads.
    pub fn new(title: &str, columns: &str) -> Self {
        let columns = columns.split('|').map(str::to_owned).collect();
        Self { title: title.to_owned(), columns, ..Self::default() }
    }
}

/// One test.
#[derive(Debug)]
pub struct RunView {
    /// Setting, boot and number, or the file it is from.
    pub label: String,
    /// Cells of the table of runs; the heads are `run::COLUMNS`.
    pub cells: Vec<String>,
    /// Protocol, sizes, direction.
    pub summary: String,
    /// How it ended, what limited it, what to try, what to doubt.
    pub words: Vec<String>,
    /// Label and text.
    pub facts: Vec<(String, String)>,
    /// Time series and distributions.
    pub figures: Vec<Figure>,
    /// Which of the view's hosts were the ends: client, server.
    pub hosts: Vec<usize>,
    /// The plan that ran.
    pub settings: Vec<(String, String)>,
    /// The command that repeats it.
    pub command: String,
}

/// A host as it was during some of the runs.
#[derive(Debug, PartialEq)]
pub struct HostView {
    /// Name.
    pub name: String,
    /// Label and text.
    pub facts: Vec<(String, String)>,
    /// During what, in words.
    pub during: Vec<String>,
}

/// One thing with its numbers, as CSV has it.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// run, sweep-point, search-goal, search-trial, tune, tune-factor, tune-trial, finding, set, comparison.
    pub kind: &'static str,
    /// Fields of a CSV file by column; the names are [`COLUMNS`].
    pub cells: Vec<(&'static str, String)>,
}

/// Columns of [`Row`]s, each in the unit at its end: the first line of a CSV report.
pub const COLUMNS: &str = "kind,source,set,boot,run,id,started,protocol,direction,streams,datagram_bytes,value,\
    unit,asked_bps,sent_bps,received_bps,received_sd_bps,transactions_per_second,\
    datagrams_sent,datagrams_received,lost,lost_ratio,lost_path,dropped_receiver,\
    undelivered_ratio,jitter_s,delay_p99_s,latency_p99_s,retransmits,cpu_sender_percent,\
    cpu_receiver_percent,softirq_receiver_percent,lower,upper,n,mean,sd,ratio,p_adjusted,\
    limit,status";

impl Row {
    pub(super) fn new(kind: &'static str, source: &str) -> Self {
        let mut row = Self { kind, cells: Vec::new() };
        row.text("source", source);
        row
    }

    pub(super) fn text(&mut self, column: &'static str, text: &str) {
        self.cells.push((column, field(text)));
    }

    pub(super) fn number(&mut self, column: &'static str, value: Option<f64>) {
        let value = value.filter(|v| v.is_finite());
        self.cells.extend(value.map(|v| (column, v.to_string())));
    }

    pub(super) fn count(&mut self, column: &'static str, value: Option<u64>) {
        self.cells.extend(value.map(|v| (column, v.to_string())));
    }

    /// The numbers of what calls its fields as the columns are called.
    pub(super) fn numbers(&mut self, of: &impl serde::Serialize) {
        let fields = serde_json::to_value(of).unwrap_or_default();
        for column in COLUMNS.split(',') {
            match fields.get(column) {
                Some(count) if count.is_u64() => self.count(column, count.as_u64()),
                Some(number) => self.number(column, number.as_f64()),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_with_a_column_has_its_place_in_the_rows() {
        for metric in linerate_analysis::metric::METRICS {
            assert!(
                metric.column.is_none_or(|c| COLUMNS.split(',').any(|column| column == c)),
                "{}",
                metric.name
            );
        }
    }
}
