//! Comparisons and campaigns: every pair against the baseline, and odd runs with what the hosts
//! reported of them.

use std::rc::Rc;

use linerate_analysis::metric::flows;
use linerate_analysis::runs::{Odd, comparable, odd_runs};
use linerate_model::record::RunRecord;

use super::builder::Builder;
use super::head::{self, Headline, Subject};
use super::input::{SetOfRuns, SetsOfRuns};
use super::run::{self, Place};
use super::view::{Figure, Lanes, Row, Section, Table};
use super::words::limit_words;
use crate::clean::clean;
use crate::compare::analysis::{self, Options, Verdict};
use crate::compare::view::{ComparisonView, HOW_TO_TELL_BOOTS, Mark, SetView, View};
use crate::number;
use crate::number::general;

/// Odd runs that are marked; of more, the farthest.
const MOST_MARKS: usize = 40;

pub(super) fn add(builder: &mut Builder, source: &str, given: &SetsOfRuns) {
    let labels: Vec<String> = given.sets.iter().map(|s| clean(&s.label).into_owned()).collect();
    let title = match given.name.as_str() {
        "" if given.plain => format!("Comparison of {}", few(&labels)),
        "" => format!("Campaign ({source})"),
        name => format!("Campaign {} ({source})", clean(name)),
    };
    let about = title.trim_end_matches(&format!(" ({source})")).to_owned();
    builder.subjects.push(Subject { what: about, ..Subject::default() });
    let mut section = Section { title, ..Section::default() };
    section.words.extend(given.notes.iter().map(|n| clean(n).into_owned()));
    if given.sets.is_empty() {
        section.words.push("No run of this campaign counts yet.".into());
    }
    let groups = given.by_unit();
    let several = groups.len() > 1;
    let mut aside = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        let unit = group.first().and_then(|s| s.unit.as_deref());
        let of = if several { format!(" in {}", unit_name(unit)) } else { String::new() };
        if i > 0 {
            section.words.push(apart(given, group));
        }
        aside.extend(compare(builder, &mut section, source, given, group, &of));
    }
    builder.found(source, &mut section.words);
    section.words.append(&mut aside);
    builder.sections.push(section);
    for set in &given.sets {
        for run in &set.runs {
            if let Some(record) = &run.record {
                let place = Place { set: &set.label, boot: run.boot.as_deref(), run: run.run };
                run::add(builder, source, record, run::Named::Of(place), run::Words::None);
            }
        }
    }
}

/// `a, b and 3 more`.
fn few(labels: &[String]) -> String {
    let mut parts: Vec<&str> = labels.iter().take(3).map(String::as_str).collect();
    let more = format!("{} more", labels.len().saturating_sub(2));
    if labels.len() > 3 {
        parts.truncate(2);
        parts.push(&more);
    }
    head::listed(&parts)
}

fn unit_name(unit: Option<&str>) -> String {
    unit.map_or("no unit".into(), |u| clean(u).into_owned())
}

/// That sets are not compared with the baseline, and why.
fn apart(given: &SetsOfRuns, group: &[&SetOfRuns]) -> String {
    let labels: Vec<String> = group.iter().map(|s| clean(&s.label).into_owned()).collect();
    let (base, unit) = given.sets.first().map_or_else(Default::default, |b| {
        (clean(&b.label).into_owned(), unit_name(b.unit.as_deref()))
    });
    let (are, they) = if labels.len() == 1 { ("has", "it is") } else { ("have", "they are") };
    format!(
        "{} {are} figures in {}, the baseline {base} in {unit}: {they} not compared with it.",
        labels.join(", "),
        unit_name(group.first().and_then(|s| s.unit.as_deref()))
    )
}

/// Compares the sets of a group with its first; gives back what was noticed aside. `of` names the
/// group where there are several.
fn compare(
    builder: &mut Builder,
    section: &mut Section,
    source: &str,
    given: &SetsOfRuns,
    group: &[&SetOfRuns],
    of: &str,
) -> Vec<String> {
    let (sets, short) = comparable(given.paired, group);
    for (label, n) in &short {
        section.words.push(format!(
            "{} has {n} run{} with a figure: fewer than three cannot be compared.",
            clean(label),
            if *n == 1 { "" } else { "s" }
        ));
    }
    if let (Some(first), Some(stand_in)) =
        (group.first(), sets.get(..2).and_then(|sets| sets.first()))
        && first.label != stand_in.label
    {
        section.words.push(format!(
            "{} stands in for the baseline {}.",
            clean(&stand_in.label),
            clean(&first.label)
        ));
    }
    if sets.is_empty() {
        return Vec::new();
    }
    let boots = sets.iter().any(|s| s.boots().is_some());
    if !boots && group.iter().any(|s| s.runs.iter().any(|r| r.boot.is_some())) {
        section.words.push("The boots of some runs are not known, so none are used.".into());
    }
    // Pairs are found boot by boot: sets of which one has a boot less are compared unpaired.
    match analysis::compare(&sets, &Options::default()) {
        Ok(analysis) => {
            let mut view = View::new(analysis);
            if given.within_a_boot {
                view.note_within_a_boot();
            }
            let odd = odd_runs(group, &sets, MOST_MARKS);
            let mark = |(i, o): (usize, &Odd<'_>)| Mark {
                set: o.set,
                index: o.index,
                text: (i + 1).to_string(),
            };
            view.marks = odd.iter().enumerate().map(mark).collect();
            let mut figures: Vec<String> = Vec::new();
            for metric in group.iter().map(|s| clean(&s.metric)).filter(|m| !m.is_empty()) {
                if !figures.iter().any(|f| *f == metric) {
                    figures.push(metric.into_owned());
                }
            }
            if !figures.is_empty() {
                section.facts.push((format!("figure{of}"), figures.join(", ")));
            }
            section.tables.extend(odd_table(
                &odd,
                of,
                group.first().and_then(|s| s.unit.as_deref()),
            ));
            lay_out(builder, section, source, view, of)
        }
        Err(error) => {
            section.words.push(format!("{}.", clean(&error.what)));
            Vec::new()
        }
    }
}

pub(super) fn add_comparison(builder: &mut Builder, source: &str, view: View) {
    let labels: Vec<String> = view.sets.iter().map(|s| clean(&s.label).into_owned()).collect();
    let what = format!("Comparison of {}", few(&labels));
    let place = if source.is_empty() { String::new() } else { format!(" ({source})") };
    let mut section = Section { title: format!("{what}{place}"), ..Section::default() };
    builder.subjects.push(Subject { what, ..Subject::default() });
    let mut aside = lay_out(builder, &mut section, source, view, "");
    builder.found(source, &mut section.words);
    section.words.append(&mut aside);
    builder.sections.push(section);
}

/// Adds figures, tables and rows of a comparison; gives back what was noticed aside.
fn lay_out(
    builder: &mut Builder,
    section: &mut Section,
    source: &str,
    view: View,
    of: &str,
) -> Vec<String> {
    let mut aside = Vec::new();
    section.words.extend(view.words.iter().map(|w| clean(w).into_owned()));
    section.facts.push((format!("compared{of}"), clean(&view.headline).into_owned()));
    let view = Rc::new(view);
    let shape = "Every dot is a run (its colour is the boot), the box has the quartiles, the diamond and \
                 bar are the mean and its interval";
    let ringed = if view.marks.is_empty() {
        ""
    } else {
        "; a ring with a number is an odd run of the table"
    };
    let lanes = |title: String, chosen: Vec<usize>| {
        let of: Vec<String> = chosen
            .iter()
            .filter_map(|i| view.sets.get(*i))
            .map(|s| {
                let mean = number::measured(s.mean, view.unit.as_deref());
                format!("{}: {} runs, mean {}", clean(&s.label), s.n, clean(&mean))
            })
            .collect();
        let alt = format!("{shape}{ringed}. {}.", of.join("; "));
        Figure::Lanes(Lanes { title, alt, view: Rc::clone(&view), chosen })
    };
    section.figures.push(lanes(format!("All settings{of}"), (0..view.sets.len()).collect()));
    if let Some(zoom) = &view.zoom {
        section.figures.push(lanes("Zoom".to_owned(), zoom.clone()));
    }
    if let (Some(base), true) = (view.sets.first(), view.sets.len() > 2) {
        for (i, set) in view.sets.iter().enumerate().skip(1) {
            let title = format!("{} against {}", clean(&set.label), clean(&base.label));
            section.figures.push(lanes(title, vec![0, i]));
        }
    }
    let interval = format!("{} % interval", general(view.level, 6));
    let unit = view.shown.as_deref().map_or(of.to_owned(), |u| format!(" in {}", clean(u)));
    let mut sets = Table::new(
        &format!("Sets{unit}"),
        &format!("set|design|mean|{interval}|median|sd|between boots|within|icc"),
    );
    for set in &view.sets {
        sets.rows.push(set.cells.iter().map(|c| clean(c).into_owned()).collect());
        for flag in &set.flags {
            aside.push(format!("{}: {}.", clean(&set.label), clean(&flag.text)));
        }
        builder.headlines.push(headline(&view, set));
        let mut row = Row::new("set", source);
        row.text("set", &set.label);
        row.text("unit", view.unit.as_deref().unwrap_or_default());
        row.count("n", Some(set.n));
        row.number("mean", Some(set.mean));
        row.number("sd", Some(set.sd));
        row.number("lower", set.ci.as_ref().map(|c| c.low));
        row.number("upper", set.ci.as_ref().map(|c| c.high));
        builder.rows.push(row);
    }
    section.tables.push(sets);
    for comparison in &view.comparisons {
        let (table, row) = pair(source, &view, comparison);
        section.tables.push(table);
        builder.rows.push(row);
    }
    // A report has no flags to say it with, unlike the page of `linerate compare`.
    let how = if source.is_empty() { HOW_TO_TELL_BOOTS } else { "" };
    aside.extend(view.notes.iter().map(|n| clean(n).replace(HOW_TO_TELL_BOOTS, how)));
    aside
}

/// A setting against the baseline: its table, and its row of CSV.
fn pair(source: &str, view: &View, comparison: &ComparisonView) -> (Table, Row) {
    let title = format!("{} against {}", clean(&comparison.label), clean(&comparison.baseline));
    let mut table = Table::new(&title, "|");
    for (name, text) in &comparison.lines {
        table.rows.push(vec![name.clone(), clean(text).into_owned()]);
    }
    let mut row = Row::new("comparison", source);
    row.text("set", &comparison.label);
    let figures = &comparison.figures;
    row.number("value", figures.difference);
    row.text("unit", view.unit.as_deref().unwrap_or_default());
    row.number("lower", figures.ci.map(|c| c.low));
    row.number("upper", figures.ci.map(|c| c.high));
    row.number("ratio", figures.ratio);
    row.number("p_adjusted", figures.p_adjusted.or(figures.p));
    row.text("status", figures.verdict.map_or("no verdict", Verdict::name));
    (table, row)
}

/// The row of a set in the headline table.
fn headline(view: &View, set: &SetView) -> Headline {
    let of = view.comparisons.iter().find(|c| c.label == set.label).map(|c| &c.figures);
    let beside = of.and_then(|c| c.ratio).map(|r| {
        let percent = (r - 1.0) * 100.0;
        // Two decimals would write it as 0.
        let decimals = if percent != 0.0 && percent.abs() < 0.005 { 4 } else { 2 };
        format!("{percent:+.decimals$} %")
    });
    let baseline = || if of.is_none() { "baseline" } else { number::ABSENT }.to_owned();
    Headline {
        kind: "setting",
        name: clean(&set.label).into_owned(),
        value: Some(set.mean),
        scale: view.unit.clone().unwrap_or_default(),
        result: clean(&number::measured(set.mean, view.unit.as_deref())).into_owned(),
        beside: beside.unwrap_or_else(baseline),
        conclusion: of
            .map_or(String::new(), |c| c.verdict.map_or("no verdict", Verdict::name).to_owned()),
    }
}

fn odd_table(odd: &[Odd<'_>], of: &str, unit: Option<&str>) -> Option<Table> {
    let mut table = Table::new(
        &format!("Odd runs{of}, with what the hosts reported of them"),
        "mark|setting|boot|run|value|from the median|sender core|receiver core|softirq|steal|drops|limited by|doubts",
    );
    for (i, one) in odd.iter().enumerate() {
        let mut row = vec![
            (i + 1).to_string(),
            clean(one.label).into_owned(),
            one.run.boot.as_deref().map_or(number::ABSENT.into(), |b| clean(b).into_owned()),
            one.run.run.to_string(),
            format!(
                "{}{}",
                clean(&number::measured(one.value, unit)),
                if one.severe { " (severe)" } else { "" }
            ),
            match (one.value / one.median - 1.0) * 100.0 {
                far if far.is_finite() => format!("{far:+.1} %"),
                _ => number::ABSENT.to_owned(),
            },
        ];
        match &one.run.record {
            Some(record) => row.extend(telemetry(record)),
            None => row.resize(table.columns.len(), number::ABSENT.to_owned()),
        }
        table.rows.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What both hosts reported during a run: cores, softirq, steal, drops, limit, doubts.
fn telemetry(record: &RunRecord) -> Vec<String> {
    let flows = flows(&record.totals);
    let flow = flows.first().copied().unwrap_or_default();
    let rr = record.totals.rr.as_ref();
    let cpu = match rr {
        Some(rr) => (rr.cpu.as_ref(), rr.server_cpu.as_ref()),
        None => (flow.sender_cpu(), flow.receiver_cpu()),
    };
    let percent = |p: Option<f64>| number::or_absent(p, number::cpu);
    let both = |pick: fn(&linerate_model::record::CpuFigures) -> Option<f64>| {
        format!("{} / {}", percent(cpu.0.and_then(pick)), percent(cpu.1.and_then(pick)))
    };
    let (mut drops, mut known) = (Vec::new(), false);
    let mut add = |n: Option<u64>, where_: &str| {
        known |= n.is_some();
        drops.extend(n.filter(|n| *n > 0).map(|n| format!("{} {where_}", number::integer(n))));
    };
    add(rr.and_then(|rr| rr.unanswered), "never answered");
    if let Some(receiver) = flow.receiver {
        // Other programs do not tell where.
        let placed = receiver.lost_path.or(receiver.dropped_receiver).is_some();
        add(receiver.lost.filter(|_| !placed), "lost");
        add(receiver.lost_path, "path");
        add(receiver.dropped_receiver, "socket");
        if let Some(host) = &receiver.host {
            add(host.softnet_dropped, "backlog");
            add(host.nic_rx_dropped, "NIC");
        }
    }
    if let Some(sender) = flow.sender {
        add(sender.refused_locally, "local send errors");
        add(flow.tcp().and_then(|t| t.retransmits), "retrans");
        if let Some(host) = &sender.host {
            add(host.qdisc_dropped, "queue");
            add(host.nic_tx_dropped, "sender's NIC");
        }
    }
    // Their kinds; the sentences stand with the run.
    let mut doubts: Vec<String> = Vec::new();
    for doubt in &record.doubts {
        let kind = serde_json::to_value(&doubt.kind).ok();
        let kind = kind.as_ref().and_then(|k| k.as_str()).map(|k| k.replace(['-', '_'], " "));
        doubts.extend(kind.filter(|k| !doubts.contains(k)));
    }
    vec![
        percent(cpu.0.and_then(|c| c.core_percent)),
        percent(cpu.1.and_then(|c| c.core_percent)),
        both(|c| c.softirq_percent),
        both(|c| c.steal_percent),
        match (drops.is_empty(), known) {
            (false, _) => drops.join(", "),
            (true, true) => "none".into(),
            (true, false) => number::ABSENT.into(),
        },
        record.verdict.as_ref().map_or(number::ABSENT, |v| limit_words(v.limit)).to_owned(),
        if doubts.is_empty() { "none".into() } else { doubts.join(", ") },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::input::{Input, What};

    fn read(name: &str, text: &str) -> crate::compare::set::Set {
        let options = crate::compare::input::ReadOptions::default();
        crate::compare::input::read(name, text.as_bytes(), &options).unwrap().remove(0)
    }

    /// The document holds all that its own figures were made of.
    #[test]
    fn a_comparison_comes_back_as_it_was() {
        let sets = [
            read("a", "boot v\n1 9.1\n1 9.3\n2 9.2\n2 9.0\n3 9.1\n3 9.4\n"),
            read("b", "boot v\n1 8.1\n1 8.3\n2 8.2\n2 8.0\n3 8.1\n3 8.4\n"),
        ];
        let view = View::new(analysis::compare(&sets, &Options::default()).unwrap());
        let document = serde_json::to_value(&view).unwrap();
        let mut input = Input::default();
        input.read("c.json", document.to_string().as_bytes());
        let [item] = input.items.as_slice() else { panic!("{:?}", input.damaged) };
        let What::Compare(again) = &item.what else { panic!() };
        let again = View::new((**again).clone());
        assert_eq!(serde_json::to_value(&again).unwrap(), document);
        assert_eq!(again.words, view.words);
    }

    #[test]
    fn drops_of_an_odd_run_are_told_and_absent_where_nobody_counted() {
        use linerate_testkit::records;
        let mut record = records::udp_receiver_drops();
        let receiver = record.totals.receiver.as_mut().unwrap();
        // As iperf3 tells it.
        (receiver.lost_path, receiver.dropped_receiver, receiver.host) = (None, None, None);
        let lost = format!("{} lost", number::integer(receiver.lost.unwrap()));
        assert_eq!(telemetry(&record)[4], lost);
        record.totals.receiver.as_mut().unwrap().lost = Some(0);
        assert_eq!(telemetry(&record)[4], "none");
        record.totals.receiver.as_mut().unwrap().lost = None;
        record.totals.sender = None;
        assert_eq!(telemetry(&record)[4], number::ABSENT);
        let asked = telemetry(&records::rr());
        assert_eq!((asked[0].as_str(), asked[1].as_str()), ("62 %", "58 %"));
        assert_eq!(asked[4], "1 never answered");
    }

    #[test]
    fn a_small_difference_is_not_written_as_zero_in_the_headline() {
        let sets = [
            read("a", "100000\n100001\n99999\n"),
            read("b", "100002\n100003\n100001\n"),
            read("c", "101000\n101001\n100999\n"),
        ];
        let view = View::new(analysis::compare(&sets, &Options::default()).unwrap());
        let beside = |at: usize| headline(&view, &view.sets[at]).beside;
        assert_eq!([beside(1), beside(2)], ["+0.0020 %", "+1.00 %"]);
    }

    /// A point of percent is half of a loss of 2 %, and no hundredth of it.
    #[test]
    fn a_margin_in_points_of_percent_stays_one() {
        let sets = [
            read("a", "2.00%\n2.01%\n1.99%\n2.02%\n1.98%\n2.00%\n"),
            read("b", "2.00%\n2.03%\n2.01%\n1.97%\n2.02%\n1.99%\n"),
        ];
        let options = Options { margin: analysis::Margin::Absolute(1.0), ..Options::default() };
        let view = View::new(analysis::compare(&sets, &options).unwrap());
        assert_eq!(view.margin, "1 % points");
        let document = serde_json::to_value(&view).unwrap();
        let mut input = Input::default();
        input.read("c.json", document.to_string().as_bytes());
        let [item] = input.items.as_slice() else { panic!("{:?}", input.damaged) };
        let What::Compare(again) = &item.what else { panic!() };
        assert_eq!(again.options.margin, options.margin);
        assert_eq!(serde_json::to_value(View::new((**again).clone())).unwrap(), document);
    }
}
