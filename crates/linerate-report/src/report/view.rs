//! The finished report: every figure computed, every sentence worded. Formats lay it out.

use std::rc::Rc;

use linerate_model::host::HostFacts;
use linerate_model::record::PlanRecord;

use super::head::{self, Headline, Subject};
use super::input::{Input, What};
use super::run::Named;
use super::{run, search, sets, sweep};
use crate::clean::clean;
use crate::compare::view::View as Comparison;
use crate::draw::chart::Chart;
use crate::run::view::shell_word;

/// Runs up to which the figures of each are in every format. Of more, pages draw the figures of a
/// run when it is opened, and pictures show what all have in common.
pub const MOST_DRAWN_RUNS: usize = 12;

/// Everything, ready to be laid out.
#[derive(Debug)]
pub struct View {
    /// What was measured, between whom, when.
    pub title: String,
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
    /// A section a sweep, search, comparison or campaign, and one for what all runs have in common.
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
}

impl Figure {
    pub(super) fn chart(chart: Chart) -> Self {
        Self::Chart(Box::new(chart))
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
    /// Without rows yet.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|c| (*c).to_owned()).collect();
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
    /// What ran where.
    pub title: String,
    /// Protocol, sizes, direction.
    pub summary: String,
    /// How it ended, what limited it, what to try, what to doubt.
    pub words: Vec<String>,
    /// Label and text.
    pub facts: Vec<(String, String)>,
    /// Time series and distributions.
    pub charts: Vec<Chart>,
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
    /// run, sweep-point, search-goal, search-trial, set, comparison.
    pub kind: &'static str,
    /// Text and numbers by column; the names are [`COLUMNS`].
    pub cells: Vec<(&'static str, Cell)>,
}

/// A value.
#[derive(Debug, Clone)]
pub enum Cell {
    /// Foreign text, as it came.
    Text(String),
    /// A measured number.
    Number(f64),
    /// A count.
    Count(u64),
}

/// Columns of [`Row`]s, each in the unit at its end.
pub const COLUMNS: &[&str] = &[
    "kind",
    "source",
    "set",
    "boot",
    "run",
    "id",
    "started",
    "protocol",
    "direction",
    "streams",
    "datagram_bytes",
    "value",
    "unit",
    "asked_bps",
    "sent_bps",
    "received_bps",
    "received_sd_bps",
    "transactions_per_second",
    "datagrams_sent",
    "datagrams_received",
    "lost",
    "lost_ratio",
    "lost_path",
    "dropped_receiver",
    "undelivered_ratio",
    "jitter_s",
    "delay_p99_s",
    "latency_p99_s",
    "retransmits",
    "cpu_sender_percent",
    "cpu_receiver_percent",
    "softirq_receiver_percent",
    "lower",
    "upper",
    "n",
    "mean",
    "sd",
    "ratio",
    "p_adjusted",
    "limit",
    "status",
];

impl Row {
    pub(super) fn new(kind: &'static str, source: &str) -> Self {
        let mut row = Self { kind, cells: Vec::new() };
        row.text("source", source);
        row
    }

    pub(super) fn text(&mut self, column: &'static str, text: &str) {
        self.cells.push((column, Cell::Text(text.to_owned())));
    }

    pub(super) fn number(&mut self, column: &'static str, value: Option<f64>) {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.cells.push((column, Cell::Number(value)));
        }
    }

    pub(super) fn count(&mut self, column: &'static str, value: Option<u64>) {
        self.cells.extend(value.map(|v| (column, Cell::Count(v))));
    }
}

/// What the parts of a report add to.
#[derive(Default)]
pub(super) struct Builder {
    pub words: Vec<String>,
    pub sections: Vec<Section>,
    pub runs: Vec<RunView>,
    pub hosts: Vec<HostView>,
    pub rows: Vec<Row>,
    pub overview: Vec<run::Overview>,
    pub subjects: Vec<Subject>,
    pub headlines: Vec<Headline>,
    /// Whether the report is on one thing, of which its top says everything.
    alone: bool,
    kinds: Vec<(&'static str, usize)>,
}

impl Builder {
    /// What a section has found stands at the top of the report; where there are several, with its
    /// source, and in the section as well.
    pub fn found(&mut self, source: &str, words: &mut Vec<String>) {
        if self.alone {
            self.words.append(words);
        } else {
            self.words.extend(words.iter().map(|w| format!("{source}: {w}")));
        }
    }

    /// Notes a host and during what it was so; gives back which it is.
    pub fn host(&mut self, facts: &HostFacts, during: &str) -> usize {
        let view = HostView {
            name: clean(&facts.hostname).into_owned(),
            facts: host_facts(facts),
            during: Vec::new(),
        };
        let known = self.hosts.iter().position(|h| h.name == view.name && h.facts == view.facts);
        let index = known.unwrap_or_else(|| {
            self.hosts.push(view);
            self.hosts.len() - 1
        });
        if let Some(host) = self.hosts.get_mut(index)
            && !during.is_empty()
            && !host.during.iter().any(|d| d == during)
        {
            host.during.push(during.to_owned());
        }
        index
    }

    fn count(&mut self, kind: &'static str) {
        match self.kinds.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, n)) => *n += 1,
            None => self.kinds.push((kind, 1)),
        }
    }
}

impl View {
    /// Computes and words what was read. `command` is the command line of the report.
    pub fn new(input: &Input, command: &str) -> Self {
        let mut builder = Builder { alone: input.items.len() == 1, ..Builder::default() };
        let words = match input.items.len() {
            0 | 1 => run::Words::All,
            2..=MOST_DRAWN_RUNS => run::Words::Line,
            _ => run::Words::None,
        };
        let given: Vec<(&str, &linerate_model::record::RunRecord)> = input
            .items
            .iter()
            .filter_map(|item| match &item.what {
                What::Run(record) => Some((item.source.as_str(), &**record)),
                _ => None,
            })
            .collect();
        let mut names = head::names(&given).into_iter();
        for item in &input.items {
            let source = clean(&item.source).into_owned();
            match &item.what {
                What::Run(record) => {
                    builder.count("run");
                    let name = names.next().unwrap_or_default();
                    run::add(&mut builder, &source, record, Named::Alone(&name), words);
                }
                What::Sweep(document) => {
                    builder.count("sweep");
                    sweep::add(&mut builder, &source, document);
                }
                What::Search(document) => {
                    builder.count("search");
                    search::add(&mut builder, &source, document);
                }
                What::Compare(view) => {
                    builder.count("comparison");
                    sets::add_comparison(&mut builder, &source, view);
                }
                What::Sets(sets) => {
                    builder.count(if sets.is_campaign() { "campaign" } else { "comparison" });
                    sets::add(&mut builder, &source, sets);
                }
            }
        }
        run::overview(&mut builder);
        let kinds: Vec<String> = builder
            .kinds
            .iter()
            .map(|(kind, n)| match (*n, *kind) {
                (1, kind) => format!("1 {kind}"),
                (n, "search") => format!("{n} searches"),
                (n, kind) => format!("{n} {kind}s"),
            })
            .collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let holds = match kinds.as_slice() {
            [] => "nothing that could be read".to_owned(),
            kinds => head::listed(kinds),
        };
        let problems: Vec<String> =
            input.damaged.iter().map(|d| clean(&d.to_string()).into_owned()).collect();
        if !problems.is_empty() {
            builder.words.push(match problems.len() {
                1 => "One file or part of one could not be read and is not in this report.".into(),
                n => format!(
                    "{n} files or parts of files could not be read and are not in this report."
                ),
            });
        }
        Self {
            title: head::title(&builder.subjects, &holds),
            holds,
            headline: head::table(&mut builder),
            version: env!("CARGO_PKG_VERSION"),
            command: command.to_owned(),
            words: builder.words,
            problems,
            sections: builder.sections,
            runs: builder.runs,
            hosts: builder.hosts,
            rows: builder.rows,
        }
    }
}

/// A command line that can be pasted.
pub(super) fn command_line(words: &[String]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|w| shell_word(w)).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// `client to server`.
pub(super) fn way_words(way: &str) -> &'static str {
    match way {
        "reverse" => "server to client",
        _ => "client to server",
    }
}

fn host_facts(facts: &HostFacts) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut add = |label: &str, text: Option<String>| {
        if let Some(text) = text {
            out.push((label.to_owned(), clean(&text).into_owned()));
        }
    };
    add("system", facts.os.clone());
    add("kernel", facts.kernel.clone());
    add("processor", facts.cpu_model.clone());
    add("cores", facts.cores.map(|c| c.to_string()));
    add("boot", facts.boot_id.clone());
    add("receive buffer at most", facts.rmem_max_bytes.map(crate::number::bytes));
    add("send buffer at most", facts.wmem_max_bytes.map(crate::number::bytes));
    if let Some(nic) = &facts.nic {
        add("interface", Some(nic.name.clone()));
        add("driver", nic.driver.clone());
        add("speed", nic.speed_mbps.map(|s| format!("{s} Mbit/s")));
        add("MTU", nic.mtu.map(|m| m.to_string()));
        for (label, on) in [("offloads on", true), ("offloads off", false)] {
            let names: Vec<&str> =
                nic.offloads.iter().filter(|o| o.on == on).map(|o| o.name.as_str()).collect();
            // All of them are more than `clean` lets pass as one text.
            for names in names.chunks(30) {
                add(label, Some(names.join(", ")));
            }
        }
        let cores: Vec<String> = nic.irq_cores.iter().map(u32::to_string).collect();
        add("its interrupts on cores", (!cores.is_empty()).then(|| cores.join(", ")));
    }
    add("linerate", Some(facts.linerate.clone()));
    out
}

/// The plan by its own keys, which end in their units.
pub(super) fn settings(plan: &PlanRecord) -> Vec<(String, String)> {
    let Ok(serde_json::Value::Object(keys)) = serde_json::to_value(plan) else { return Vec::new() };
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => clean(text).into_owned(),
        serde_json::Value::Null => "unlimited".to_owned(),
        other => clean(&other.to_string()).replace(['"', '{', '}'], "").replace(',', ", "),
    };
    keys.iter().map(|(key, value)| (key.replace('_', " "), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_with_a_column_has_its_place_in_the_rows() {
        for metric in linerate_analysis::metric::METRICS {
            assert!(metric.column.is_none_or(|c| COLUMNS.contains(&c)), "{}", metric.name);
        }
    }
}
