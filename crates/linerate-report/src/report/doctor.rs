//! What the doctor found: a section for each finding above a note, with its commands to copy; notes; what could not be looked
//! at; and what a change that was tried is worth.

use std::collections::BTreeMap;

use linerate_model::doctor::{DoctorDocument, Finding, Proof, Severity};
use linerate_model::plan::PlanDirection;
use linerate_model::record::TestEnd;

use super::builder::Builder;
use super::head::{self, Subject};
use super::view::{Figure, Row, Section, Table};
use crate::clean::{clean, clean_command};
use crate::doctor::{counts, head as path, place};
use crate::draw::bars::{Bar, Bars};
use crate::number;
use crate::run::view::command_line;

pub(super) fn add(builder: &mut Builder, source: &str, document: &DoctorDocument) {
    let far = document.far.as_ref().map(|far| &far.host);
    for facts in [Some(&document.here.host), far].into_iter().flatten() {
        builder.host(facts, &format!("examination {source}"));
    }
    let here = Some(&document.here.host);
    let what = "What holds the path back".to_owned();
    builder.subjects.push(Subject {
        between: head::between(here, far, document.target.as_deref(), Some(PlanDirection::Forward)),
        when: document.started.clone(),
        kind: "examination".to_owned(),
        what: what.clone(),
    });
    let mut section = Section {
        title: format!("{what} ({source})"),
        words: vec![sentence(&path(document)), sentence(&counts(document).0)],
        command: (!document.command.is_empty()).then(|| command_line(&document.command)),
        ..Section::default()
    };
    builder.found(source, &mut section.words);
    section.words.extend(notes(document));
    section.words.extend(unknown(document));
    let grave = document.findings.iter().filter(|finding| finding.severity > Severity::Note);
    let grave: Vec<Section> = grave.map(|finding| finding_section(document, finding)).collect();
    builder.sections.push(section);
    builder.sections.extend(grave);
    builder.sections.extend(document.proof.as_ref().map(proof));
    for finding in &document.findings {
        let mut row = Row::new("finding", source);
        row.text("set", &finding.id);
        row.text("started", &document.started);
        row.text("limit", finding.host.name());
        row.text("status", finding.severity.name());
        builder.rows.push(row);
    }
}

fn sentence(words: &str) -> String {
    format!("{}.", clean(words))
}

fn finding_section(document: &DoctorDocument, finding: &Finding) -> Section {
    let title =
        format!("{}: {}{}", finding.severity.name(), place(document, finding.host), finding.what);
    let copied = [("To change it", &finding.change), ("To undo that", &finding.undo)];
    let copied = copied.into_iter().flat_map(|(what, commands)| {
        commands.iter().map(move |command| (what, clean_command(command)))
    });
    let setting = finding.setting.as_ref().map(|setting| {
        ("linerate's own setting".to_owned(), clean(&setting.to_string()).into_owned())
    });
    Section {
        title: clean(&title).into_owned(),
        words: vec![
            format!("Why: {}", sentence(&finding.why)),
            format!("Worth: {}", sentence(&finding.effect)),
        ],
        commands: copied.collect(),
        facts: [("id".to_owned(), clean(&finding.id).into_owned())]
            .into_iter()
            .chain(setting)
            .collect(),
        ..Section::default()
    }
}

fn notes(document: &DoctorDocument) -> impl Iterator<Item = String> {
    let notes = document.findings.iter().filter(|finding| finding.severity == Severity::Note);
    notes.map(|note| {
        let place = place(document, note.host);
        sentence(&format!("Note: {place}{}: {} ({})", note.what, note.why, note.id))
    })
}

/// A sentence for each reason, with all that it keeps from being looked at.
fn unknown(document: &DoctorDocument) -> Vec<String> {
    let mut known = BTreeMap::new();
    let mut reasons: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for one in &document.unknown {
        let host = if one.host == TestEnd::Server { "server" } else { "here" };
        let at = *known.entry((host, one.why.as_str())).or_insert(reasons.len());
        match reasons.get_mut(at) {
            Some((.., ids)) => ids.push(&one.id),
            None => reasons.push((host, &one.why, vec![&one.id])),
        }
    }
    let words = reasons.into_iter().map(|(host, why, ids)| {
        sentence(&format!("Not looked at, {host}: {}: {why}", ids.join(", ")))
    });
    words.collect()
}

fn proof(proof: &Proof) -> Section {
    let mut section = Section {
        title: clean(&format!("What the change of {} is worth", proof.id)).into_owned(),
        words: vec![sentence(&format!("{}: {}", proof.setting, proof.words))],
        ..Section::default()
    };
    if let Some(error) = &proof.error {
        section.words.push(sentence(&format!("It ended early: {}: {}", error.what, error.why)));
    }
    if proof.kept {
        section.words.push(sentence("The change was kept"));
    }
    for left in &proof.left {
        section.words.push(sentence(&format!("Not put back: {left}")));
    }
    let bar = proof.gain_percent.map(|gain| Bar {
        name: clean(&proof.setting.to_string()).into_owned(),
        mean: gain.mean,
        low: gain.low,
        high: gain.high,
    });
    let alt = format!(
        "Gain in {} over the same without the change, with its interval of 95 %; a change matters from {} %:",
        clean(&proof.metric),
        proof.margin_percent
    );
    let bars = Bars::new("What the change gains", &alt, bar.into_iter().collect());
    section.figures.extend(bars.map(Figure::Bars));
    let mut runs = Table::new("Pairs of runs", "pair|without|with");
    runs.rows.extend((1..).zip(proof.without.iter().zip(&proof.with)).map(
        |(pair, (without, with)): (usize, _)| {
            vec![pair.to_string(), number::rate(*without), number::rate(*with)]
        },
    ));
    section.tables.push(runs);
    section
}
