//! Single tests, and what many of them have in common.

use linerate_analysis::metric::{Flow, METRICS, flows};
use linerate_model::record::{CpuFigures, Limit, RunRecord, Status};
use linerate_stats::offline::summary;

use super::builder::{Builder, Overview};
use super::charts;
use super::head::{self, Headline, Subject};
use super::view::{Figure, MOST_DRAWN_RUNS, Row, RunView, Section};
use super::words::{limit_words, settings, way_words, wide};
use crate::clean::clean;
use crate::draw::chart::{Axis, Chart, Kind, Series, Unit};
use crate::number::{self, or_absent};
use crate::run::headline::whole;
use crate::run::table::{Table, UNBOUNDED};
use crate::run::view::{Ending, Head};

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

impl Place<'_> {
    fn label(&self) -> String {
        let boot = self.boot.map_or(String::new(), |boot| format!(" · boot {}", clean(boot)));
        format!("{}{boot} · run {}", clean(self.set), self.run)
    }

    /// During what its hosts were as they were.
    fn during(&self) -> String {
        let boot = self.boot.map_or(String::new(), |boot| format!(" in boot {}", clean(boot)));
        format!("{}{boot}", clean(self.set))
    }
}

pub(super) fn add(
    builder: &mut Builder,
    source: &str,
    record: &RunRecord,
    named: Named<'_>,
    words_wanted: Words,
) {
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let (label, place) = match named {
        Named::Alone(name) => (name.to_owned(), None),
        Named::Of(place) => (place.label(), Some(place)),
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
            plan.direction.known().copied(),
        ),
        when: record.started.clone(),
    });
    // Few runs are named by their hosts, so that two of one name are distinguished.
    let number = builder.runs.len() + 1;
    let during = |end: &str| match place {
        Some(place) => place.during(),
        None if words_wanted == Words::None => String::new(),
        None => format!("run {number} ({end})"),
    };
    let mut hosts = vec![builder.host(&record.client, &during("client"))];
    hosts.extend(record.server.as_ref().map(|s| builder.host(s, &during("server"))));
    rows(builder, source, record, place);
    let head = Head::new(record);
    let ending = Ending::new(record, &Table::new(record, UNBOUNDED));
    let mut words = words(&ending);
    match words_wanted {
        Words::All => {
            builder.words.extend(ending.headline.results.iter().map(|r| format!("{r}.")));
            builder.words.append(&mut words);
        }
        // The headline table has the figures.
        Words::Line => builder.words.extend(words.first().map(|w| format!("{label}: {w}"))),
        Words::None => {}
    }
    let mut facts = vec![("hosts".to_owned(), head.hosts)];
    facts.push(("started".into(), clean(&record.started).into_owned()));
    facts.push(("file".into(), source.to_owned()));
    facts.push(("id".into(), clean(&record.id).into_owned()));
    facts.extend(ending.facts);
    builder.runs.push(RunView {
        cells: cells(record, &label),
        label,
        summary: head.summary,
        words,
        facts,
        figures: charts::of(record),
        hosts,
        settings: settings(plan),
        command: head.title,
    });
}

/// How it ended, what limited it, what to try, what to doubt.
fn words(ending: &Ending) -> Vec<String> {
    let broken = ending.broken.as_ref().map(|(word, text)| format!("This run is {word}: {text}"));
    let mut words: Vec<String> = broken.into_iter().collect();
    words.extend(ending.verdict.as_deref().map(capital));
    words.extend(ending.advice.iter().map(|a| format!("Try: {a}")));
    words.extend(ending.doubts.iter().map(|d| format!("Doubt: {d}")));
    words
}

/// A row for each direction, and each as a point of the overview.
fn rows(builder: &mut Builder, source: &str, record: &RunRecord, place: Option<Place<'_>>) {
    let mut flows = flows(&record.totals);
    let number = builder.runs.len() + 1;
    // Figures that contradict each other are no result.
    let valid = flows.iter().filter(|_| record.status != Status::Invalid);
    builder.overview.extend(valid.map(|flow| Overview {
        sent: flow.sent_bps(),
        received: flow.received_bps(),
        lost: flow.lost_ratio(),
        number,
    }));
    let rr = record.totals.rr.as_ref().map(|rr| Flow { rr: Some(rr), ..Flow::default() });
    flows.extend(rr);
    if flows.is_empty() {
        flows.push(Flow::default());
    }
    for flow in flows {
        let mut row = row(source, record, place);
        if flow.any() && flow.rr.is_none() {
            let plan = record.agreed.as_ref().unwrap_or(&record.asked);
            row.text("direction", flow.way.map_or(plan.direction.name(), |way| way.name()));
        }
        measured(&mut row, &flow);
        builder.rows.push(row);
    }
}

/// Its line of the table of runs; of two directions the first.
fn cells(record: &RunRecord, label: &str) -> Vec<String> {
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let absent = || number::ABSENT.to_owned();
    let own = |cpu: Option<&CpuFigures>| or_absent(cpu, |c| number::cpu(c.thread_percent));
    let cells = match (&record.totals.rr, flows(&record.totals).first()) {
        (Some(rr), _) => [
            "rr".into(),
            or_absent(plan.rate_tps, |tps| format!("{}/s", number::short(tps as f64))),
            absent(),
            format!("{}/s", number::short(rr.transactions_per_second)),
            absent(),
            own(rr.cpu.as_ref()),
            own(rr.server_cpu.as_ref()),
        ],
        (None, Some(flow)) => [
            clean(&format!(
                "{} {}",
                plan.protocol,
                flow.way.map_or(plan.direction.name(), |way| way.name())
            ))
            .into(),
            plan.rate_bps.map_or("max".into(), |r| number::rate(r as f64)),
            or_absent(flow.sent_bps(), number::rate),
            or_absent(flow.received_bps(), number::rate),
            or_absent(flow.lost_ratio(), number::loss),
            own(flow.sender_cpu()),
            own(flow.receiver_cpu()),
        ],
        (None, None) => std::array::from_fn(|i| match i {
            0 => clean(plan.protocol.name()).into_owned(),
            _ => absent(),
        }),
    };
    [label.to_owned()].into_iter().chain(cells).chain([conclusion(record)]).collect()
}

/// What limited a run, or why it says nothing.
fn conclusion(record: &RunRecord) -> String {
    match (record.status, &record.verdict) {
        (Status::Complete, Some(verdict)) => {
            let words = limit_words(verdict.limit);
            // It may be of another direction than the one that is shown beside it.
            match verdict.direction.as_ref().filter(|_| verdict.limit != Limit::RequestedRate) {
                Some(way) => format!("{words} ({})", clean(way.name())),
                None => words.to_owned(),
            }
        }
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
        let received = flow.received_bps();
        let value = received.or(flow.sent_bps());
        let sent = if received.is_none() { " sent" } else { "" };
        let result = or_absent(value, |v| format!("{}{sent}", number::rate(v)));
        let again = flow.tcp().and_then(|t| t.retransmits);
        let beside = match (flow.lost_ratio(), again) {
            (Some(lost), _) => number::loss(lost),
            (None, Some(again)) => format!("{} retrans", number::integer(again)),
            (None, None) => number::ABSENT.to_owned(),
        };
        // What UDP was asked to send says nothing about what TCP could.
        add(format!("{label}{way}"), value, record.asked.protocol.name(), result, beside);
    }
    if let Some(rr) = &record.totals.rr {
        let p99 = rr.latency_s.as_ref().map(|q| format!("p99 {}", number::seconds_short(q.p99)));
        let rate = rr.transactions_per_second;
        let result = format!("{} transactions/s", whole(rate));
        add(label.to_owned(), Some(rate), "transactions/s", result, p99.unwrap_or_default());
    } else if flows.is_empty() {
        let none = || number::ABSENT.to_owned();
        add(label.to_owned(), None, "", none(), none());
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |c| c.to_uppercase().collect::<String>() + letters.as_str())
}

/// Every figure of the catalogue that has a column.
fn measured(row: &mut Row, flow: &Flow<'_>) {
    let figures = serde_json::to_value(flow).unwrap_or_default();
    for metric in METRICS {
        if let Some(column) = metric.column {
            row.number(column, metric.raw(&figures));
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
    let chart = Chart::new(
        "Rate of every run, in the order they were given",
        alt,
        (
            Axis::fitted("run", Unit::Whole),
            Axis {
                log: wide(&known),
                zero: !wide(&known),
                ..Axis::from_zero("payload, bit/s", Unit::BitRate)
            },
        ),
        x,
        vec![
            Series::line("sent", 1, of(|r| r.sent)).kind(Kind::Dots),
            Series::line("received", 0, received).kind(Kind::Dots),
            Series::line("lost", 5, lost).kind(Kind::Thin).right(),
        ],
    )
    .right(Axis::from_zero("lost, % of what was sent", Unit::Percent));
    section.figures.extend(Figure::of(chart));
    builder.sections.push(section);
}

#[cfg(test)]
mod tests {
    use crate::report::input::Input;
    use crate::report::view::View;
    use linerate_model::plan::Way;
    use linerate_testkit::records;

    #[test]
    fn a_limit_of_one_direction_is_not_shown_as_that_of_the_other() {
        let mut record = records::udp_both();
        let verdict = record.verdict.as_mut().unwrap();
        verdict.direction = Some(Way::Reverse.into());
        assert_eq!(super::conclusion(&record), "the rate that was asked for");
        record.verdict.as_mut().unwrap().limit = super::Limit::Path;
        assert_eq!(super::conclusion(&record), "the path (reverse)");
        record.verdict.as_mut().unwrap().direction = None;
        assert_eq!(super::conclusion(&record), "the path");
    }

    #[test]
    fn figures_that_contradict_each_other_are_in_no_overview() {
        let (whole, mut invalid) = (records::udp_receiver_drops(), records::invalid());
        invalid.totals.receiver.as_mut().unwrap().bits_per_second = 1e12;
        let mut input = Input::default();
        for record in [&whole, &invalid, &whole, &whole] {
            input.read("r.json", serde_json::to_string(record).unwrap().as_bytes());
        }
        let words = View::new(&input, "linerate report").words;
        let told = "3 results: received from 135.6 Mbit/s to 135.6 Mbit/s, median 135.6 Mbit/s.";
        assert!(words.iter().any(|w| w == told), "{words:?}");
    }

    #[test]
    fn few_transactions_are_not_none_and_stand_where_what_came_does() {
        let mut record = records::rr();
        record.agreed.as_mut().unwrap().rate_tps = Some(2);
        record.totals.rr.as_mut().unwrap().transactions_per_second = 0.4;
        let mut input = Input::default();
        input.read("r.json", serde_json::to_string(&record).unwrap().as_bytes());
        let view = View::new(&input, "linerate report");
        assert_eq!(view.headline.rows[0][1], "0.400 transactions/s");
        assert_eq!(super::COLUMNS[2..5], ["asked", "sent", "received"]);
        assert_eq!(view.runs[0].cells[2..5], ["2/s", "-", "0.400/s"]);
    }
}
