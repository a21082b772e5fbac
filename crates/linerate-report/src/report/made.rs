//! A report made of what was read.

use linerate_model::record::RunRecord;

use super::builder::Builder;
use super::input::{Input, What};
use super::run::Named;
use super::view::{MOST_DRAWN_RUNS, View};
use super::{doctor, head, profile, run, search, sets, sweep, tune};
use crate::clean::clean;
use crate::compare::view::View as Comparison;

impl Builder {
    fn finish(mut self, problems: Vec<String>, command: &str) -> View {
        let kinds: Vec<String> = self
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
        if !problems.is_empty() {
            self.words.push(match problems.len() {
                1 => "One file or part of one could not be read and is not in this report.".into(),
                n => format!(
                    "{n} files or parts of files could not be read and are not in this report."
                ),
            });
        }
        View {
            title: head::title(&self.subjects, &holds),
            holds,
            verb: "report",
            headline: head::table(self.headlines),
            version: env!("CARGO_PKG_VERSION"),
            command: command.to_owned(),
            words: self.words,
            problems,
            sections: self.sections,
            runs: self.runs,
            hosts: self.hosts,
            rows: self.rows,
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
        let given: Vec<(&str, &RunRecord)> = input
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
                What::Tune(document) => {
                    builder.count("tuning");
                    tune::add(&mut builder, &source, document);
                }
                What::Doctor(document) => {
                    builder.count("examination");
                    doctor::add(&mut builder, &source, document);
                }
                What::Profile(document) => {
                    builder.count("profile");
                    profile::add(&mut builder, &source, document);
                }
                What::Compare(analysis) => {
                    builder.count("comparison");
                    let view = Comparison::new((**analysis).clone());
                    sets::add_comparison(&mut builder, &source, view);
                }
                What::Sets(sets) => {
                    builder.count(if sets.is_campaign() { "campaign" } else { "comparison" });
                    sets::add(&mut builder, &source, sets);
                }
            }
        }
        run::overview(&mut builder);
        let problems = input.damaged.iter().map(|d| clean(&d.to_string()).into_owned()).collect();
        builder.finish(problems, command)
    }

    /// What `linerate compare` compared, alone.
    pub(super) fn of_comparison(view: Comparison, command: &str) -> Self {
        let mut builder = Builder { alone: true, ..Builder::default() };
        builder.count("comparison");
        sets::add_comparison(&mut builder, "", view);
        Self { verb: "compare", ..builder.finish(Vec::new(), command) }
    }
}
