//! Hosts measured with each other, as text: a row a pair while it runs, then all of them in one matrix, and who is bad.

pub mod agents;
pub mod doctor;
pub mod events;
pub mod heat;
pub mod history;

use std::collections::HashMap;

use linerate_analysis::fleet::{FEWEST_PAIRS, MOST_PAIRS};
use linerate_analysis::metric::{self, Better};
use linerate_model::fleet::{
    FleetAnswer, FleetBad, FleetChange, FleetDocument, FleetPair, FleetRole,
};

use crate::clean::clean;
use crate::number::{self, ABSENT};

/// A matrix of more hosts than this is wider than what people read.
const MOST_COLUMNS: usize = 16;
/// Columns of a host's name in the matrix.
const MOST_NAME: usize = 24;

/// What came of a pair: `a -> b  9.41 Gbit/s`.
pub fn row(from: &str, to: &str, value: Result<f64, &str>, unit: &str) -> String {
    let came = match value {
        Ok(value) => number::measured(value, Some(unit)),
        Err(why) => format!("{ABSENT}  {}", clean(why)),
    };
    format!("{} -> {}  {came}\n", clean(from), clean(to))
}

/// Above the rows of one of several times: `time 2 of 3`.
pub fn time(number: u32, of: u32) -> String {
    format!("time {number} of {of}\n")
}

/// All pairs: who is the client in the rows, whose server answers in the columns. A dash is a pair that was to be
/// measured and was not, a blank one that nobody asked for. Then which host or link is bad, as far as can be told.
pub fn text(document: &FleetDocument) -> String {
    let mut out = String::new();
    let measured = document.pairs.iter().filter_map(|pair| pair.value);
    let most = measured.fold(0.0_f64, |most, value| most.max(value.abs()));
    if document.hosts.len() <= MOST_COLUMNS {
        let unit = (document.unit != "s").then_some(document.unit.as_str());
        let (size, prefix) = number::prefix(unit, most);
        let cells: HashMap<(&str, &str), String> = document
            .pairs
            .iter()
            .map(|pair| ((&*pair.from, &*pair.to), cell(pair, size)))
            .collect();
        let (metric, unit) = (&document.metric, &document.unit);
        let of_times = match document.times {
            0..=1 => String::new(),
            times => format!(", median of {times} times"),
        };
        out.push_str(&format!("\n{metric}, {prefix}{unit}{of_times}\n"));
        matrix(&mut out, &document.hosts, &cells);
    }
    out.push_str(&format!("\n{}", counts(document)));
    out.push_str(&verdict(document));
    document.changes.iter().for_each(|found| out.push_str(&change(found, &document.unit)));
    out
}

/// How much was measured, and what is missing.
pub fn counts(document: &FleetDocument) -> String {
    let measured = document.pairs.iter().filter(|pair| pair.value.is_some()).count();
    let (all, rounds) = (document.pairs.len(), document.rounds);
    let plural = if rounds == 1 { "" } else { "s" };
    let how = if document.at_once { ", at once" } else { "" };
    let mut out = format!("{measured} of {all} pairs measured in {rounds} round{plural}{how}\n");
    let missing = document.pairs.iter().flat_map(|pair| &pair.values).filter(|v| v.is_none());
    if let (2.., missing @ 1..) = (document.times, missing.count()) {
        let all = all.saturating_mul(document.times as usize);
        out.push_str(&format!("{missing} of {all} results are missing\n"));
    }
    out
}

/// One of the times of a schedule: `2026-11-28T10:00:03Z  time 5: 6 of 6 pairs measured`.
pub fn over(number: u32, begun: &str, measured: usize, of: usize) -> String {
    format!("{}  time {number}: {measured} of {of} pairs measured\n", moment(begun))
}

/// A date as RFC 3339 has it, in UTC, to the second.
fn moment(date: &str) -> String {
    let seconds = date.get(..19).filter(|_| date.ends_with('Z'));
    seconds.map_or_else(|| clean(date).into_owned(), |seconds| format!("{}Z", clean(seconds)))
}

/// `changed: a -> b, 94.1 -> 47 Mbit/s (-47.3 to -46.9) since 2026-11-28T10:00:00Z`.
pub fn change(change: &FleetChange, unit: &str) -> String {
    let (size, prefix) =
        number::prefix((unit != "s").then_some(unit), change.before.abs().max(change.after.abs()));
    // A median of a few times is not known to more digits.
    let shown = |value: f64| number::general(value / size, 4);
    let (from, to) = (clean(&change.from), clean(&change.to));
    let (before, after) = (shown(change.before), shown(change.after));
    let mut line = format!("changed: {from} -> {to}, {before} -> {after} {prefix}{unit}");
    if let (Some(low), Some(high)) = (change.low, change.high) {
        line.push_str(&format!(" ({} to {})", shown(low), shown(high)));
    }
    match &change.since {
        Some(since) => line.push_str(&format!(" since {}\n", moment(since))),
        None => line.push_str(&format!(" since time {}\n", change.time)),
    }
    line
}

/// Who is bad and by how much, that nobody is, or what would tell.
pub fn verdict(document: &FleetDocument) -> String {
    use FleetAnswer::{FewPairs, Judged, ManyPairs, NeedsTimes, NotApart};
    let found = &document.verdict;
    let mut lines: Vec<String> = found.bad.iter().map(|bad| bad_one(document, bad)).collect();
    match (found.hosts, found.links) {
        (Judged, Judged) if lines.is_empty() => lines.push("no host or link stands out".to_owned()),
        (_, Judged) if lines.is_empty() => lines.push("no link stands out".to_owned()),
        _ => {}
    }
    let needs = |what: &str, times: u32| {
        format!("which {what} is bad can be told after {times} times: --times {times}")
    };
    match (found.hosts, found.links) {
        (NeedsTimes { times: hosts }, NeedsTimes { times: links }) if hosts == links => {
            lines.push(needs("host or link", hosts));
        }
        (FewPairs, _) if document.times > 1 => {
            lines.push(format!("fewer than {FEWEST_PAIRS} pairs have results: none can stand out"));
        }
        (ManyPairs, _) => {
            lines.push(format!("more than {MOST_PAIRS} pairs are not judged: measure fewer"));
        }
        (hosts, links) => {
            match hosts {
                NeedsTimes { times } => lines.push(needs("host", times)),
                NotApart => lines.push(
                    "a bad host cannot be told from a bad link: that takes all pairs of 5 hosts, or of 4 --each-way"
                        .to_owned(),
                ),
                _ => {}
            }
            if let NeedsTimes { times } = links {
                lines.push(needs("link", times));
            }
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// `bad host: c as client, 25 Mbit/s less than others (23 Mbit/s to 27 Mbit/s), whose median is 94 Mbit/s`.
fn bad_one(document: &FleetDocument, bad: &FleetBad) -> String {
    let shown = |value: f64| {
        // A mean of a few times is not known to more digits.
        let value = number::general(value, 4).parse().unwrap_or(value);
        number::measured(value, Some(&document.unit))
    };
    let who = match (&bad.host, &bad.from, &bad.to) {
        (Some(host), ..) => {
            let role = match bad.role {
                Some(FleetRole::Client) => " as client",
                Some(FleetRole::Server) => " as server",
                Some(FleetRole::Both) | None => "",
            };
            format!("host: {}{role}", clean(host))
        }
        (None, Some(from), Some(to)) => {
            let apart = document.verdict.hosts != FleetAnswer::NotApart;
            let or_hosts = if apart { "" } else { ", or one of its hosts" };
            format!("link{or_hosts}: {} -> {}", clean(from), clean(to))
        }
        _ => ABSENT.to_owned(),
    };
    let way = match metric::find(&document.metric).map(|metric| metric.better) {
        Some(Better::Lower) => "more",
        _ => "less",
    };
    let mut line = format!("bad {who}, {} {way} than others", shown(bad.worse_by));
    if let (Some(low), Some(high)) = (bad.low, bad.high) {
        line.push_str(&format!(" ({} to {})", shown(low), shown(high)));
    }
    if let Some(usual) = document.verdict.usual {
        line.push_str(&format!(", whose median is {}", shown(usual)));
    }
    line
}

fn cell(pair: &FleetPair, size: f64) -> String {
    pair.value.map_or_else(|| ABSENT.to_owned(), |value| number::general(value / size, 4))
}

fn matrix(out: &mut String, hosts: &[String], cells: &HashMap<(&str, &str), String>) {
    let short = |name: &str| clean(name).chars().take(MOST_NAME).collect::<String>();
    let names: Vec<String> = hosts.iter().map(|host| short(host)).collect();
    let first = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let width = |to: usize| {
        let of_name = names.get(to).map_or(0, |name| name.chars().count());
        let column = hosts.get(to).map(String::as_str).unwrap_or_default();
        let of_cells = cells.iter().filter(|((_, to), _)| *to == column);
        of_cells.map(|(_, cell)| cell.chars().count()).max().unwrap_or(0).max(of_name)
    };
    let widths: Vec<usize> = (0..hosts.len()).map(width).collect();
    let mut line = |head: &str, row: &mut dyn Iterator<Item = &str>| {
        let mut text = format!("{head:first$}");
        for (cell, width) in row.zip(&widths) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line("", &mut names.iter().map(String::as_str));
    for (from, name) in hosts.iter().zip(&names) {
        let row = hosts.iter().map(|to| cells.get(&(from.as_str(), to.as_str())));
        line(name, &mut row.map(|cell| cell.map_or("", String::as_str)));
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::fleet::FleetVerdict;
    use linerate_model::record::ProgramFacts;

    use super::*;

    fn pair(from: &str, to: &str, value: Option<f64>) -> FleetPair {
        let missing = value.is_none().then(|| "no route".to_owned());
        FleetPair {
            from: from.into(),
            to: to.into(),
            tries: 1,
            value,
            values: vec![value],
            missing,
        }
    }

    fn nobody(hosts: FleetAnswer, links: FleetAnswer) -> FleetVerdict {
        FleetVerdict { hosts, links, usual: None, bad: vec![] }
    }

    fn of_four(times: u32, verdict: FleetVerdict) -> FleetDocument {
        FleetDocument {
            format: 1,
            kind: "fleet".into(),
            id: String::new(),
            started: String::new(),
            linerate: ProgramFacts { version: String::new() },
            command: vec![],
            hosts: vec![],
            metric: "received_bps".into(),
            unit: "bit/s".into(),
            times,
            deleted: 0,
            begun: vec![],
            at_once: false,
            set: vec![],
            rounds: 1,
            interrupted: false,
            pairs: vec![],
            verdict,
            changes: vec![],
        }
    }

    #[test]
    fn who_is_bad_is_said_in_words() {
        let host = FleetBad {
            host: Some("c".into()),
            role: Some(FleetRole::Client),
            from: None,
            to: None,
            worse_by: 2.5e7,
            low: Some(2.31e7),
            high: Some(2.69e7),
        };
        let link = FleetBad {
            host: None,
            role: None,
            from: Some("a".into()),
            to: Some("b\u{1b}[2J".into()),
            worse_by: 5e6,
            low: None,
            high: None,
        };
        let (usual, judged) = (Some(9.41e7), FleetAnswer::Judged);
        let bad = vec![host, link.clone()];
        let found = FleetVerdict { hosts: judged, links: judged, usual, bad };
        insta::assert_snapshot!(verdict(&of_four(3, found)), @r"
        bad host: c as client, 25.00 Mbit/s less than others (23.10 Mbit/s to 26.90 Mbit/s), whose median is 94.10 Mbit/s
        bad link: a -> b[2J, 5.000 Mbit/s less than others, whose median is 94.10 Mbit/s
        ");
        let loss = FleetBad { worse_by: 1.171_88, low: Some(0.454_146), ..link.clone() };
        let loss = FleetBad { high: Some(1.889_6), ..loss };
        let found =
            FleetVerdict { hosts: judged, links: judged, usual: Some(0.0), bad: vec![loss] };
        let of_loss =
            FleetDocument { metric: "loss".into(), unit: "%".into(), ..of_four(4, found) };
        insta::assert_snapshot!(verdict(&of_loss), @"bad link: a -> b[2J, 1.172 % more than others (0.4541 % to 1.89 %), whose median is 0 %");
        let found =
            FleetVerdict { hosts: FleetAnswer::NotApart, links: judged, usual, bad: vec![link] };
        insta::assert_snapshot!(verdict(&of_four(3, found)), @r"
        bad link, or one of its hosts: a -> b[2J, 5.000 Mbit/s less than others, whose median is 94.10 Mbit/s
        a bad host cannot be told from a bad link: that takes all pairs of 5 hosts, or of 4 --each-way
        ");
    }

    #[test]
    fn a_change_is_said_with_its_size_and_since_when() {
        let found = FleetChange {
            from: "a".into(),
            to: "b\u{1b}[2J".into(),
            since: Some("2026-11-28T10:00:00.123456789Z".into()),
            time: 61,
            before: 9.41e7,
            after: 4.702e7,
            low: Some(-4.731e7),
            high: Some(-4.688e7),
            worse: true,
        };
        insta::assert_snapshot!(change(&found, "bit/s"), @"changed: a -> b[2J, 94.1 -> 47.02 Mbit/s (-47.31 to -46.88) since 2026-11-28T10:00:00Z");
        let few = FleetChange { low: None, since: None, ..found };
        insta::assert_snapshot!(change(&few, "bit/s"), @"changed: a -> b[2J, 94.1 -> 47.02 Mbit/s since time 61");
        let loss = FleetChange { before: 0.0, after: 1.25, high: None, ..few };
        insta::assert_snapshot!(change(&loss, "%"), @"changed: a -> b[2J, 0 -> 1.25 % since time 61");
    }

    #[test]
    fn what_cannot_be_told_is_said_with_what_would() {
        use FleetAnswer::{FewPairs, Judged, ManyPairs, NeedsTimes, NotApart};
        let of = |times: u32, hosts, links| verdict(&of_four(times, nobody(hosts, links)));
        assert_eq!(of(3, Judged, Judged), "no host or link stands out\n");
        let three = NeedsTimes { times: 3 };
        insta::assert_snapshot!(of(1, three, three), @"which host or link is bad can be told after 3 times: --times 3");
        insta::assert_snapshot!(of(3, NeedsTimes { times: 4 }, Judged), @r"
        no link stands out
        which host is bad can be told after 4 times: --times 4
        ");
        insta::assert_snapshot!(of(1, NotApart, three), @r"
        a bad host cannot be told from a bad link: that takes all pairs of 5 hosts, or of 4 --each-way
        which link is bad can be told after 3 times: --times 3
        ");
        insta::assert_snapshot!(of(1, ManyPairs, ManyPairs), @"more than 10000 pairs are not judged: measure fewer");
        assert_eq!(of(1, FewPairs, FewPairs), "", "nobody asked");
        insta::assert_snapshot!(of(3, FewPairs, FewPairs), @"fewer than 4 pairs have results: none can stand out");
    }

    #[test]
    fn what_is_missing_is_no_zero_and_what_was_not_asked_is_neither() {
        let few = FleetAnswer::FewPairs;
        let document = FleetDocument {
            hosts: ["a", "b.example", "c"].map(str::to_owned).to_vec(),
            rounds: 2,
            pairs: vec![
                pair("a", "b.example", Some(9.412e9)),
                pair("a", "c", None),
                pair("b.example", "c", Some(0.0)),
            ],
            ..of_four(1, nobody(few, few))
        };
        insta::assert_snapshot!(text(&document), @r"

        received_bps, Gbit/s
                   a  b.example  c
        a                 9.412  -
        b.example                0
        c

        2 of 3 pairs measured in 2 rounds
        ");
        assert_eq!(row("a", "b", Ok(9.412e9), "bit/s"), "a -> b  9.412 Gbit/s\n");
        assert_eq!(row("a", "c\u{1b}[2J", Err("no route"), "bit/s"), "a -> c[2J  -  no route\n");
    }
}
