//! What stands before everything else: the title (what was measured, between whom, when), the
//! headline table, and names of runs by what distinguishes them.

use std::path::Path;

use linerate_model::host::HostFacts;
use linerate_model::plan::{Dialect, PlanDirection, TrafficKind};
use linerate_model::record::{PlanRecord, RunRecord};
use linerate_model::word::Word;

use super::view::Table;
use crate::clean::clean;
use crate::draw::shortened;
use crate::number;

/// Most rows of the headline table; of more results, the least, the middle and the most.
const MOST_ROWS: usize = 12;

/// What a report is about, as one of its parts says it.
#[derive(Default)]
pub(super) struct Subject {
    /// What was measured.
    pub what: String,
    /// The same in a word, for a title of many.
    pub kind: String,
    /// From where to where; empty when it is not known.
    pub between: String,
    /// RFC 3339; empty when it is not known.
    pub when: String,
}

/// A row of the headline table.
pub(super) struct Headline {
    /// run, direction, goal or setting: the head of the first column.
    pub kind: &'static str,
    pub name: String,
    /// What the bar shows.
    pub value: Option<f64>,
    /// Bars of one scale are measured by the longest of them.
    pub scale: String,
    pub result: String,
    /// What is read beside the result: loss, difference.
    pub beside: String,
    /// What limits, or the verdict.
    pub conclusion: String,
}

/// `a → b`, or `a, over loopback`.
pub(super) fn between(
    client: Option<&HostFacts>,
    server: Option<&HostFacts>,
    target: Option<&str>,
    direction: Option<PlanDirection>,
) -> String {
    let name = |host: &HostFacts| shortened(&clean(&host.hostname), 40);
    let Some(client) = client else { return String::new() };
    let here = name(client);
    let there = match server {
        Some(there) if target.is_none() && there.hostname == client.hostname => {
            return format!("{here}, over loopback");
        }
        Some(there) => name(there),
        None => match target {
            Some(target) => shortened(&clean(target), 40),
            None => return here,
        },
    };
    match direction {
        Some(PlanDirection::Reverse) => format!("{there} → {here}"),
        Some(PlanDirection::Both) => format!("{here} ↔ {there}"),
        _ => format!("{here} → {there}"),
    }
}

/// What an experiment is called: as its user titled it, or what it is, after its label.
pub(super) fn called(label: Option<&str>, title: Option<&str>, otherwise: &str) -> String {
    match (label, title) {
        (_, Some(title)) => shortened(&clean(title), 100),
        (Some(label), None) => format!("{}: {otherwise}", shortened(&clean(label), 32)),
        (None, None) => otherwise.to_owned(),
    }
}

/// `UDP`, `TCP`, `Request/response`.
pub(super) fn protocol(plan: &PlanRecord) -> String {
    match &plan.protocol {
        Word::Known(TrafficKind::Rr) => "Request/response".to_owned(),
        other => clean(other.name()).to_uppercase(),
    }
}

/// `UDP at 160.0 Mbit/s`, `TCP, 4 streams`.
pub(super) fn what(plan: &PlanRecord) -> String {
    let mut text = protocol(plan);
    match plan.rate_bps {
        Some(rate) => text.push_str(&format!(" at {}", number::rate(rate as f64))),
        None if text == "UDP" => text.push_str(" as fast as it goes"),
        None => {}
    }
    if plan.streams > 1 {
        text.push_str(&format!(", {} streams", plan.streams));
    }
    text
}

/// `2026-11-22 10:00`; empty for what is no such time.
fn minute(when: &str) -> String {
    let (Some(day), Some(time)) = (when.get(..10), when.get(11..16)) else { return String::new() };
    if !day.starts_with(|c: char| c.is_ascii_digit()) || !time.contains(':') {
        return String::new();
    }
    format!("{} {}", clean(day), clean(time))
}

/// `2026-11-22 10:00 to 10:20 UTC`.
fn time(subjects: &[Subject]) -> String {
    let mut times: Vec<String> =
        subjects.iter().map(|s| minute(&s.when)).filter(|t| !t.is_empty()).collect();
    times.sort_unstable();
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return String::new() };
    let until = match (first.get(..10) == last.get(..10), first == last) {
        (_, true) => String::new(),
        (true, _) => format!(" to {}", last.get(11..).unwrap_or_default()),
        (false, _) => format!(" to {last}"),
    };
    format!("{first}{until} UTC")
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known = Vec::new();
    for text in texts.filter(|t| !t.is_empty()) {
        if !known.contains(&text) {
            known.push(text);
        }
    }
    known
}

/// `a, b and c`.
pub(super) fn listed(parts: &[&str]) -> String {
    match parts {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// What was measured, between whom, when. `kinds` stands for what is too much to be listed.
pub(super) fn title(subjects: &[Subject], kinds: &str) -> String {
    let what = distinct(subjects.iter().map(|s| s.what.as_str()));
    let words = distinct(subjects.iter().map(|s| s.kind.as_str()));
    let mut title = match (what.len(), words.len()) {
        (1..=3, _) => listed(&what),
        (_, 1..=3) => format!("{}, {kinds}", listed(&words)),
        _ => kinds.to_owned(),
    };
    let between = distinct(subjects.iter().map(|s| s.between.as_str()));
    match between.as_slice() {
        [] => {}
        [one] => title.push_str(&format!(": {one}")),
        [one, other] => title.push_str(&format!(": {one} and {other}")),
        several => title.push_str(&format!(", between {} pairs of hosts", several.len())),
    }
    let time = time(subjects);
    if !time.is_empty() {
        title.push_str(&format!(", {time}"));
    }
    title
}

/// The headline table: a row a result, with bars.
pub(super) fn table(mut rows: Vec<Headline>) -> Table {
    if rows.len() > MOST_ROWS {
        rows = ends(rows);
    }
    let kinds = distinct(rows.iter().map(|r| r.kind));
    let columns = match kinds.as_slice() {
        ["run"] => "run|received|lost or retrans|limited by",
        ["setting"] => "setting|mean|against the baseline|verdict",
        ["goal"] => "goal|holds up to|at most not delivered|limited by",
        ["direction"] => "direction|most received|lost there|limited by",
        _ => "|result|beside it|limited by, or verdict",
    };
    let mut table = Table::new("", columns);
    let most = |unit: &str| {
        let of_unit = rows.iter().filter(|r| r.scale == unit).filter_map(|r| r.value);
        of_unit.filter(|v| v.is_finite()).fold(0.0, f64::max)
    };
    table.bars = rows
        .iter()
        .map(|r| r.value.map(|v| (v / most(&r.scale)).clamp(0.0, 1.0)).filter(|s| s.is_finite()))
        .collect();
    table.rows = rows.into_iter().map(|r| vec![r.name, r.result, r.beside, r.conclusion]).collect();
    table
}

/// Of many results, of each unit the least, the middle and the most.
fn ends(rows: Vec<Headline>) -> Vec<Headline> {
    let units: Vec<String> =
        distinct(rows.iter().map(|r| r.scale.as_str())).into_iter().map(str::to_owned).collect();
    let mut known: Vec<Headline> = rows.into_iter().filter(|r| r.value.is_some()).collect();
    known.sort_by(|a, b| a.value.partial_cmp(&b.value).unwrap_or(std::cmp::Ordering::Equal));
    let mut kept = Vec::new();
    for unit in units.iter().take(MOST_ROWS / 3) {
        let (of, rest): (Vec<_>, Vec<_>) = known.into_iter().partition(|r| r.scale == *unit);
        known = rest;
        let (middle, last) = (of.len() / 2, of.len().saturating_sub(1));
        for (at, row) in of.into_iter().enumerate().rev() {
            let word = match at {
                0 if last == 0 => "",
                0 => "least: ",
                _ if at == last => "most: ",
                _ if at == middle => "median: ",
                _ => continue,
            };
            kept.push(Headline { name: format!("{word}{}", row.name), ..row });
        }
    }
    kept
}

/// Names of runs: what differs between them, in the order in which a person would look for it.
pub(super) fn names(runs: &[(&str, &RunRecord)]) -> Vec<String> {
    let aspects: Vec<Vec<String>> = runs.iter().map(|(source, r)| aspects(source, r)).collect();
    let count = aspects.first().map_or(0, Vec::len);
    let differ: Vec<usize> = (0..count)
        .filter(|i| aspects.iter().any(|a| a.get(*i) != aspects.first().and_then(|f| f.get(*i))))
        .collect();
    let name = |a: &Vec<String>, taken: &[usize]| {
        let parts: Vec<&str> = taken
            .iter()
            .filter_map(|i| a.get(*i))
            .map(String::as_str)
            .filter(|p| !p.is_empty())
            .collect();
        parts.join(" · ")
    };
    // No more of them than it takes.
    let mut taken: Vec<usize> = Vec::new();
    let mut apart = 0;
    for aspect in &differ {
        let mut more = taken.clone();
        more.push(*aspect);
        let mut seen: Vec<String> = aspects.iter().map(|a| name(a, &more)).collect();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() > apart.max(1) {
            apart = seen.len();
            taken = more;
        }
    }
    if taken.is_empty() {
        taken.extend([LABEL, PROTOCOL]);
    }
    aspects
        .iter()
        .enumerate()
        .map(|(i, a)| match (runs, name(a, &taken)) {
            ([(_, only)], _) => what(only.agreed.as_ref().unwrap_or(&only.asked)),
            (_, name) if name.is_empty() => (i + 1).to_string(),
            (_, name) => format!("{} · {name}", i + 1),
        })
        .collect()
}

/// Places of what is said of runs that differ in nothing.
const LABEL: usize = 0;
const PROTOCOL: usize = 1;

/// What distinguishes a run.
fn aspects(source: &str, record: &RunRecord) -> Vec<String> {
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let text = |t: &str| shortened(&clean(t), 32);
    let or = |t: Option<String>| t.unwrap_or_default();
    let stem = Path::new(source).file_stem().map_or(source.into(), |s| s.to_string_lossy());
    vec![
        or(record.label.as_deref().map(text)),
        shortened(&protocol(plan), 32),
        or(plan.rate_bps.map(|r| number::rate(r as f64))),
        or(plan.rate_tps.map(|r| format!("{}/s", number::short(r as f64)))),
        or((plan.streams > 1).then(|| format!("{} streams", plan.streams))),
        if plan.direction == PlanDirection::Forward {
            String::new()
        } else {
            text(plan.direction.name())
        },
        or(plan.datagram_bytes.map(|b| format!("{b} B"))),
        or(plan.congestion.as_deref().map(text)),
        or(plan.window_bytes.map(|w| format!("window {}", number::bytes(w)))),
        or(plan.engine.as_ref().map(|engine| text(engine.name()))),
        or(plan.ip.map(|ip| format!("IPv{ip}"))),
        or(plan.outstanding.map(|n| format!("{n} outstanding"))),
        or(plan.duration_s.map(number::chosen_seconds)),
        or(plan
            .dialect
            .known()
            .filter(|known| **known != Dialect::Native)
            .map(|d| text(d.program()))),
        or(record.target.as_deref().map(text)),
        text(&record.client.hostname),
        text(&stem),
        or(record.started.get(11..19).map(text)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testkit::records;

    #[test]
    fn runs_are_named_by_what_distinguishes_them() {
        let slow = records::udp_receiver_drops();
        let mut fast = slow.clone();
        for plan in [Some(&mut fast.asked), fast.agreed.as_mut()].into_iter().flatten() {
            plan.rate_bps = Some(320_000_000);
        }
        let names = names(&[("a.json", &slow), ("b.json", &fast), ("c.json", &fast)]);
        assert_eq!(names[0], "1 · 160.0 Mbit/s · a");
        assert_eq!(names[1], "2 · 320.0 Mbit/s · b");
        assert_eq!(names[2], "3 · 320.0 Mbit/s · c");
        let tcp = records::tcp();
        assert_eq!(super::names(&[("x", &slow), ("x", &tcp)]), ["1 · UDP", "2 · TCP"]);
        assert_eq!(super::names(&[("x", &tcp)]), ["TCP"]);
        let mut rr = [records::rr(), records::rr()];
        rr[0].agreed.as_mut().unwrap().rate_tps = Some(500);
        assert_eq!(super::names(&[("x", &rr[0]), ("x", &rr[1])]), ["1 · 500/s", "2"]);
    }

    #[test]
    fn a_long_name_is_that_of_the_same_host() {
        let long = HostFacts { hostname: "h".repeat(50), ..HostFacts::default() };
        let words = between(Some(&long), Some(&long), None, None);
        assert!(words.ends_with(", over loopback"), "{words}");
    }

    #[test]
    fn of_many_results_each_is_called_what_it_is() {
        let row = |scale: &str, value: f64| Headline {
            kind: "run",
            name: format!("{value}"),
            value: Some(value),
            scale: scale.into(),
            result: String::new(),
            beside: String::new(),
            conclusion: String::new(),
        };
        let mut rows: Vec<Headline> =
            [3.0, 1.0, 5.0, 2.0, 4.0].map(|value| row("udp", value)).into();
        rows.extend([row("tcp", 8.0), row("rr", 6.0), row("tcp", 9.0)]);
        let names: Vec<String> = ends(rows).into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["most: 5", "median: 3", "least: 1", "most: 9", "least: 8", "6"]);
    }

    #[test]
    fn a_title_says_what_between_whom_and_when() {
        let of = |what: &str, when: &str| Subject {
            what: what.into(),
            kind: String::new(),
            between: "a → b".into(),
            when: when.into(),
        };
        let subjects = [of("UDP", "2026-11-22T10:00:03Z"), of("TCP", "2026-11-22T10:20:00Z")];
        assert_eq!(title(&subjects, "2 runs"), "UDP and TCP: a → b, 2026-11-22 10:00 to 10:20 UTC");
        assert_eq!(title(&[], "nothing"), "nothing");
        assert_eq!(title(&[of("UDP", "é€ 🙂 no time")], ""), "UDP: a → b");
    }
}
