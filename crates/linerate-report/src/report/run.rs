//! Single tests, and what many of them have in common.

use linerate_analysis::metric::{Flow, METRICS, flows};
use linerate_model::record::{CpuFigures, RunRecord, Status};
use linerate_stats::offline::summary;

use super::builder::{Builder, Overview};
use super::charts;
use super::head::{self, Headline, Subject};
use super::view::{Figure, MOST_DRAWN_RUNS, Row, RunView, Section};
use super::words::{limit_words, settings, way_words, wide};
use crate::clean::clean;
use crate::draw::chart::{Axis, Chart, Kind, Series, Unit};
use crate::number;
use crate::run::table::UNBOUNDED;
use crate::run::view::{Head, View};

/// Heads of the table of runs.
pub const COLUMNS: &[&str] =
    &["run", "test", "asked", "sent", "received", "lost", "cpu sent", "cpu recv", "limited by"];

/// To which setting and boot a run belongs.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub set: &'a str,
    pub boot: Option<&'a str>,
    pub run: u64,
}

/// What a run is called.
#[derive(Clone, Copy)]
pub(super) enum Named<'a> {
    /// It was given by itself, and has this name.
    Alone(&'a str),
    /// It is one of a set.
    Of(Place<'a>),
}

/// How much of a run is said at the top of the report.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// Everything: it is the only one.
    All,
    /// A line.
    Line,
    /// Nothing: there are too many, or a set speaks for it.
    None,
}

/// The busiest data thread's own share of a core.
fn own(cpu: Option<&CpuFigures>) -> Option<f64> {
    cpu.map(|c| c.thread_percent)
}

pub(super) fn add(
    builder: &mut Builder,
    source: &str,
    record: &RunRecord,
    named: Named<'_>,
    words_wanted: Words,
) {
    let place = match named {
        Named::Alone(_) => None,
        Named::Of(place) => Some(place),
    };
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let label = match named {
        Named::Of(Place { set, boot: Some(boot), run }) => {
            format!("{} · boot {} · run {run}", clean(set), clean(boot))
        }
        Named::Of(Place { set, boot: None, run }) => format!("{} · run {run}", clean(set)),
        Named::Alone(name) => name.to_owned(),
    };
    if place.is_none() {
        headlines(builder, record, &label);
    }
    builder.subjects.push(Subject {
        what: if place.is_none() { head::what(plan) } else { String::new() },
        kind: if place.is_none() { head::protocol(plan) } else { String::new() },
        between: head::between(
            Some(&record.client),
            record.server.as_ref(),
            record.target.as_deref(),
            plan.direction.name(),
        ),
        when: record.started.clone(),
    });
    let view = View::new(record, UNBOUNDED);
    let mut words = Vec::new();
    if let Some((word, text)) = &view.ending.broken {
        words.push(format!("This run is {word}: {text}"));
    }
    words.extend(view.ending.verdict.as_deref().map(capital));
    words.extend(view.ending.advice.iter().map(|a| format!("Try: {a}")));
    words.extend(view.ending.doubts.iter().map(|d| format!("Doubt: {d}")));
    words.extend(view.head.cuts.iter().map(|c| format!("Not as asked: {c}")));
    let during = match place {
        Some(Place { set, boot: Some(boot), .. }) => {
            format!("{} in boot {}", clean(set), clean(boot))
        }
        Some(Place { set, .. }) => clean(set).into_owned(),
        None => String::new(),
    };
    // Few runs are named by their hosts, so that two of one name are told apart.
    let as_end = |end: &str| match place {
        None if words_wanted != Words::None => format!("run {} ({end})", builder.runs.len() + 1),
        _ => during.clone(),
    };
    let (as_client, as_server) = (as_end("client"), as_end("server"));
    let mut hosts = vec![builder.host(&record.client, &as_client)];
    hosts.extend(record.server.as_ref().map(|s| builder.host(s, &as_server)));
    let mut cells = None;
    for flow in flows(&record.totals) {
        let sent = flow.sender.map(|s| s.bits_per_second);
        let received = flow.receiver.map(|r| r.bits_per_second);
        let lost = flow.receiver.and_then(|r| r.lost_ratio);
        let cpu = (
            own(flow.sender.and_then(|s| s.cpu.as_ref())),
            own(flow.receiver.and_then(|r| r.cpu.as_ref())),
        );
        let way = flow.way.unwrap_or(plan.direction.name());
        let rate = |r: Option<f64>| r.map_or(number::ABSENT.to_owned(), number::rate);
        let percent = |c: Option<f64>| c.map_or(number::ABSENT.to_owned(), number::cpu);
        let mut row = row(source, record, place);
        row.text("direction", way);
        measured(&mut row, &flow);
        builder.rows.push(row);
        let number = builder.runs.len() + 1;
        builder.overview.push(Overview { sent, received, lost, number });
        // The way there is the one that a table of one line a run can show.
        cells.get_or_insert_with(|| {
            vec![
                label.clone(),
                format!("{} {}", clean(plan.protocol.name()), direction(way)),
                plan.rate_bps.map_or("max".into(), |r| number::rate(r as f64)),
                rate(sent),
                rate(received),
                lost.map_or(number::ABSENT.to_owned(), number::loss),
                percent(cpu.0),
                percent(cpu.1),
            ]
        });
    }
    if let Some(rr) = &record.totals.rr {
        let mut row = row(source, record, place);
        measured(&mut row, &Flow { rr: Some(rr), ..Flow::default() });
        builder.rows.push(row);
        let per_second = format!("{}/s", number::short(rr.transactions_per_second));
        let cpu =
            |c: &Option<CpuFigures>| own(c.as_ref()).map_or(number::ABSENT.to_owned(), number::cpu);
        let absent = || number::ABSENT.to_owned();
        cells = Some(vec![
            label.clone(),
            "rr".into(),
            absent(),
            per_second,
            absent(),
            absent(),
            cpu(&rr.cpu),
            cpu(&rr.server_cpu),
        ]);
    }
    if cells.is_none() {
        builder.rows.push(row(source, record, place));
    }
    let mut cells = cells.unwrap_or_else(|| {
        let mut cells = vec![label.clone(), clean(plan.protocol.name()).into_owned()];
        cells.resize(COLUMNS.len() - 1, number::ABSENT.to_owned());
        cells
    });
    cells.push(conclusion(record));
    if words_wanted != Words::None {
        let results: Vec<String> = flows(&record.totals)
            .iter()
            .map(|flow| {
                let of = flow.way.map(|w| format!("{}: ", way_words(w))).unwrap_or_default();
                let sent = flow.sender.map(|s| number::rate(s.bits_per_second));
                let got = flow.receiver.map(|r| number::rate(r.bits_per_second));
                let lost = flow.receiver.and_then(|r| r.lost_ratio);
                let lost = lost.map(|l| format!(", {} lost", number::loss(l))).unwrap_or_default();
                match (sent, got) {
                    (Some(sent), Some(got)) => format!("{of}{sent} sent, {got} received{lost}."),
                    (Some(one), None) => format!("{of}{one} sent."),
                    (None, Some(one)) => format!("{of}{one} received{lost}."),
                    (None, None) => String::new(),
                }
            })
            .collect();
        let results = results.into_iter().filter(|r| !r.is_empty());
        if words_wanted == Words::All {
            builder.words.extend(results);
            builder.words.append(&mut words);
        } else {
            // The headline table has the figures.
            builder.words.extend(words.first().map(|w| format!("{label}: {w}")));
        }
    }
    let Head { title, summary, hosts: between, .. } = Head::new(record);
    let mut facts = vec![("hosts".to_owned(), between)];
    facts.push(("started".into(), clean(&record.started).into_owned()));
    facts.push(("file".into(), source.to_owned()));
    facts.push(("id".into(), clean(&record.id).into_owned()));
    facts.extend(view.ending.facts);
    builder.runs.push(RunView {
        label,
        cells,
        summary,
        words,
        facts,
        charts: charts::of(record),
        hosts,
        settings: settings(plan),
        command: title.clone(),
        title,
    });
}

/// What limited a run, or why it says nothing.
fn conclusion(record: &RunRecord) -> String {
    match (record.status, &record.verdict) {
        (Status::Complete, Some(verdict)) => limit_words(verdict.limit).to_owned(),
        (Status::Complete, None) => number::ABSENT.to_owned(),
        (Status::Partial, _) => "partial: cut short".into(),
        (Status::Failed, _) => "failed".into(),
        (Status::Invalid, _) => "invalid: do not use".into(),
    }
}

/// The rows of a run in the headline table: one a direction.
fn headlines(builder: &mut Builder, record: &RunRecord, label: &str) {
    let mut add =
        |name: String, value: Option<f64>, scale: &str, result: String, beside: String| {
            builder.headlines.push(Headline {
                kind: "run",
                name,
                value,
                scale: scale.to_owned(),
                result,
                beside,
                conclusion: conclusion(record),
            });
        };
    let flows = flows(&record.totals);
    for flow in &flows {
        let way = flow.way.map(|w| format!(", {}", way_words(w))).unwrap_or_default();
        let received = flow.receiver.map(|r| r.bits_per_second);
        let value = received.or(flow.sender.map(|s| s.bits_per_second));
        let sent = if received.is_none() { " sent" } else { "" };
        let result =
            value.map_or(number::ABSENT.to_owned(), |v| format!("{}{sent}", number::rate(v)));
        let again = flow.sender.and_then(|s| s.tcp.as_ref()).and_then(|t| t.retransmits);
        let beside = match (flow.receiver.and_then(|r| r.lost_ratio), again) {
            (Some(lost), _) => number::loss(lost),
            (None, Some(again)) => format!("{} sent again", number::integer(again)),
            (None, None) => number::ABSENT.to_owned(),
        };
        // What UDP was asked to send says nothing about what TCP could.
        add(format!("{label}{way}"), value, record.asked.protocol.name(), result, beside);
    }
    if let Some(rr) = &record.totals.rr {
        let p99 = rr.latency_s.as_ref().map(|q| format!("p99 {}", number::seconds_short(q.p99)));
        let rate = rr.transactions_per_second;
        let result = format!("{} transactions/s", number::integer(rate.round() as u64));
        add(label.to_owned(), Some(rate), "transactions/s", result, p99.unwrap_or_default());
    } else if flows.is_empty() {
        let none = || number::ABSENT.to_owned();
        add(label.to_owned(), None, "", none(), none());
    }
}

fn direction(way: &str) -> String {
    clean(way).into_owned()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |c| c.to_uppercase().collect::<String>() + letters.as_str())
}

/// Every figure of the catalogue that has a column.
fn measured(row: &mut Row, flow: &Flow<'_>) {
    for metric in METRICS {
        if let Some(column) = metric.column {
            row.number(column, metric.raw(flow));
        }
    }
}

fn row(source: &str, record: &RunRecord, place: Option<Place<'_>>) -> Row {
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let mut row = Row::new("run", source);
    if let Some(place) = place {
        row.text("set", place.set);
        row.text("boot", place.boot.unwrap_or_default());
        row.count("run", Some(place.run));
    }
    row.text("id", &record.id);
    row.text("started", &record.started);
    row.text("protocol", plan.protocol.name());
    row.count("streams", Some(u64::from(plan.streams)));
    row.count("datagram_bytes", plan.datagram_bytes.map(u64::from));
    row.count("asked_bps", plan.rate_bps);
    row.text("limit", record.verdict.as_ref().map_or("", |v| v.limit.name()));
    row.text(
        "status",
        match record.status {
            Status::Complete => "complete",
            Status::Partial => "partial",
            Status::Failed => "failed",
            Status::Invalid => "invalid",
        },
    );
    row
}

/// Fewest runs of which an overview says more than they do.
const FEWEST: usize = 3;

/// What many runs have in common.
pub(super) fn overview(builder: &mut Builder) {
    let runs = std::mem::take(&mut builder.overview);
    if runs.len() < FEWEST {
        return;
    }
    // Both directions of a run stand at its number.
    let x: Vec<f64> = runs.iter().map(|r| r.number as f64).collect();
    let of = |pick: fn(&Overview) -> Option<f64>| runs.iter().map(pick).collect::<Vec<_>>();
    let received = of(|r| r.received);
    let known: Vec<f64> = received.iter().flatten().copied().filter(|r| r.is_finite()).collect();
    let known = summary::sorted(&known);
    let alt = match (known.first(), summary::median(&known), known.last()) {
        (Some(least), Some(middle), Some(most)) => format!(
            "{} results: received from {} to {}, median {}.",
            runs.len(),
            number::rate(*least),
            number::rate(*most),
            number::rate(middle)
        ),
        _ => format!("{} results.", runs.len()),
    };
    let mut section = Section { title: "All runs at a glance".into(), ..Section::default() };
    if builder.runs.len() > MOST_DRAWN_RUNS {
        section.words.push(format!(
            "The figures of each of the {} runs are in the HTML report; every number is in the CSV one.",
            builder.runs.len()
        ));
    }
    builder.words.push(alt.clone());
    let lost = of(|r| r.lost.map(|l| l * 100.0));
    // A line along zero says no more than the table does.
    let lost = if lost.iter().flatten().any(|l| *l > 0.0) { lost } else { Vec::new() };
    let chart = Chart {
        title: "Rate of every run, in the order they were given".into(),
        alt,
        x_axis: Axis::fitted("run", Unit::Whole),
        left: Axis {
            log: wide(&known),
            zero: !wide(&known),
            ..Axis::from_zero("payload, bit/s", Unit::BitRate)
        },
        right: Some(Axis::from_zero("lost, % of what was sent", Unit::Percent)),
        x,
        series: vec![
            Series::line("sent", 1, of(|r| r.sent)).kind(Kind::Dots),
            Series::line("received", 0, received).kind(Kind::Dots),
            Series::line("lost", 5, lost).kind(Kind::Thin).right(),
        ],
        bands: Vec::new(),
    };
    section.figures.extend(chart.tidy().map(Figure::chart));
    builder.sections.push(section);
}
