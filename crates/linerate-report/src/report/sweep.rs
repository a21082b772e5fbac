//! Sweeps: the figures of a rate (or another variable) that rises, for each direction.

use linerate_model::plan::Way;
use linerate_model::record::Status;
use linerate_model::sweep::{RegimeKind, SweepBend, SweepDocument, SweepPoint, Variable};

use super::builder::Builder;
use super::head::{self, Headline, Subject};
use super::view::{Figure, Row, Section, Table};
use super::words::{command_line, limit_words, settings, way_words};
use crate::clean::clean;
use crate::draw::chart::{Axis, Band, Chart, Kind, Series, Unit};
use crate::number;

/// How far around a bend the zoom reaches.
const AROUND: f64 = 2.0;

fn way_name(way: Way) -> &'static str {
    match way {
        Way::Forward => "forward",
        Way::Reverse => "reverse",
    }
}

/// A value of the swept variable.
fn value_text(variable: Variable, value: Option<u64>) -> String {
    match (variable, value) {
        (_, None) => "max".to_owned(),
        (Variable::Rate, Some(v)) => number::rate(v as f64),
        (Variable::Streams, Some(v)) => v.to_string(),
        // Of a datagram every byte counts.
        (Variable::Size, Some(v)) => format!("{} B", number::integer(v)),
        (Variable::Window, Some(v)) => number::bytes(v),
    }
}

pub(super) fn add(builder: &mut Builder, source: &str, document: &SweepDocument) {
    let variable = document.sweep.variable;
    let mut ways: Vec<Way> = document.points.iter().map(|p| p.direction).collect();
    ways.sort_unstable();
    ways.dedup();
    let during = format!("sweep {source}");
    for facts in [&document.client, &document.server].into_iter().flatten() {
        builder.host(facts, &during);
    }
    let mut section = Section {
        title: format!(
            "{} ({source})",
            called(document, &format!("Sweep over the {}", variable.name()))
        ),
        command: command_line(&document.command),
        ..Section::default()
    };
    subject(builder, document, &ways);
    if document.status != Status::Complete {
        let why = document.error.as_ref().map_or("it was cut short".into(), |e| clean(&e.what));
        section.words.push(format!("This sweep did not come to its end: {why}"));
    }
    section.words.extend(document.because.iter().map(|b| clean(b).into_owned()));
    builder.found(source, &mut section.words);
    section.words.extend(document.advice.iter().map(|a| format!("Try: {}", clean(a))));
    section.words.extend(document.doubts.iter().map(|d| format!("Doubt: {}", clean(&d.text))));
    for way in ways {
        let points: Vec<&SweepPoint> =
            document.points.iter().filter(|p| p.direction == way).collect();
        figures(&mut section, document, way, &points);
    }
    section.tables.push(regimes(document));
    section.tables.push(points(document));
    section.facts = document.plan.as_ref().map(settings).unwrap_or_default();
    section.facts.push(("started".into(), clean(&document.started).into_owned()));
    section.facts.push(("order of trials from seed".into(), document.sweep.seed.to_string()));
    builder.sections.push(section);
    for point in &document.points {
        let mut row = Row::new("sweep-point", source);
        row.text("id", &document.id);
        row.text("started", &document.started);
        row.text("direction", way_name(point.direction));
        row.text("protocol", document.plan.as_ref().map_or("", |p| p.protocol.name()));
        row.count("value", point.value);
        row.text(
            "unit",
            match variable {
                Variable::Rate => "bit/s",
                Variable::Streams => "streams",
                Variable::Size | Variable::Window => "bytes",
            },
        );
        row.count("asked_bps", point.asked_bps);
        row.number("sent_bps", Some(point.sent_bps));
        row.number("received_bps", Some(point.received_bps));
        row.number("received_sd_bps", point.received_sd_bps);
        row.number("lost_ratio", Some(point.lost_ratio));
        row.number("undelivered_ratio", Some(point.undelivered_ratio));
        row.count("lost_path", point.lost_path);
        row.count("dropped_receiver", point.dropped_receiver);
        row.number("jitter_s", point.jitter_s);
        row.number("delay_p99_s", point.delay_p99_s);
        row.number("cpu_sender_percent", point.cpu_sender_percent);
        row.number("cpu_receiver_percent", point.cpu_receiver_percent);
        row.count("n", Some(u64::from(point.trials)));
        row.text("limit", point.limit.name());
        row.text("status", if point.invalid.is_some() { "invalid" } else { point.regime.name() });
        builder.rows.push(row);
    }
}

/// The title's part, and a row of the headline table for each direction.
fn called(document: &SweepDocument, otherwise: &str) -> String {
    head::called(document.label.as_deref(), document.title.as_deref(), otherwise)
}

fn subject(builder: &mut Builder, document: &SweepDocument, ways: &[Way]) {
    let protocol = document.plan.as_ref().map(|p| clean(p.protocol.name()).to_uppercase());
    let way = match ways {
        [one] => way_name(*one),
        _ => "both",
    };
    builder.subjects.push(Subject {
        what: called(
            document,
            &format!(
                "{} over the {}",
                protocol.unwrap_or_default(),
                document.sweep.variable.name()
            ),
        ),
        between: head::between(
            document.client.as_ref(),
            document.server.as_ref(),
            document.target.as_deref(),
            way,
        ),
        when: document.started.clone(),
        kind: "sweep".to_owned(),
    });
    for way in ways {
        let of_way = document.points.iter().filter(|p| p.direction == *way && p.invalid.is_none());
        let Some(best) = of_way.max_by(|a, b| a.received_bps.total_cmp(&b.received_bps)) else {
            continue;
        };
        let at = value_text(document.sweep.variable, best.value);
        builder.headlines.push(Headline {
            kind: "direction",
            name: format!("{}, at {at}", way_words(way_name(*way))),
            value: Some(best.received_bps),
            scale: "bit/s".to_owned(),
            result: number::rate(best.received_bps),
            beside: number::loss(best.lost_ratio),
            conclusion: limit_words(best.limit).to_owned(),
        });
    }
}

fn figures(section: &mut Section, document: &SweepDocument, way: Way, all: &[&SweepPoint]) {
    let variable = document.sweep.variable;
    let words = way_words(way_name(way));
    let bare = all.iter().filter(|p| p.value.is_none()).count();
    let mut points: Vec<&SweepPoint> = all.iter().copied().filter(|p| p.value.is_some()).collect();
    points.sort_by_key(|p| p.value);
    let unplaced = match bare {
        0 => "",
        _ => " What the sender did as fast as it could has no asked rate; it is in the table.",
    };
    let bands = bands(document, way, &points);
    let best = points.iter().max_by(|a, b| a.received_bps.total_cmp(&b.received_bps));
    let most = best.map_or(String::new(), |p| {
        format!(
            "Most was received at {}: {}.",
            value_text(variable, p.value),
            number::rate(p.received_bps)
        )
    });
    let name = match variable {
        Variable::Rate => "asked rate, bit/s",
        Variable::Size => "bytes of a datagram",
        Variable::Streams => "streams",
        Variable::Window => "socket buffers, bytes",
    };
    let unit = match variable {
        Variable::Rate => Unit::BitRate,
        Variable::Streams => Unit::Whole,
        Variable::Size | Variable::Window => Unit::Bytes,
    };
    let axis = |log: bool| Axis { log, ..Axis::from_zero(name, unit) };
    // What was asked far beyond what went through would press the rest against the left edge.
    let asked = points.iter().filter_map(|p| p.value).max().unwrap_or(0) as f64;
    let beyond = variable == Variable::Rate && best.is_some_and(|b| asked > 4.0 * b.received_bps);
    let rates = |title: String, points: &[&SweepPoint], zoom: bool| {
        let mut series = Vec::new();
        if variable == Variable::Rate {
            let ideal = y(points, |p| p.value.map(|v| v as f64));
            series.push(
                Series::line("asked: nothing lost, nothing unsent", 0, ideal).kind(Kind::Ideal),
            );
        }
        if zoom {
            for (label, value) in [
                ("least interval", y(points, |p| p.interval_min_bps)),
                ("best interval", y(points, |p| p.interval_max_bps)),
            ] {
                series.push(Series::line(label, 0, value).kind(Kind::Thin));
            }
        }
        series.push(Series::line("sent", 1, y(points, |p| Some(p.sent_bps))));
        let spread = points.iter().map(|p| p.received_sd_bps).collect();
        series.push(Series {
            spread: Some(spread),
            ..Series::line(
                "received (bar: standard deviation between trials)",
                0,
                y(points, |p| Some(p.received_bps)),
            )
        });
        let fit = if zoom { Axis::fitted } else { Axis::from_zero };
        // What was asked may be many times what went through, and would press it flat.
        let went = points.iter().flat_map(|p| {
            [Some(p.sent_bps), Some(p.received_bps), p.interval_max_bps.filter(|_| zoom)]
        });
        let top = went.flatten().fold(0.0, f64::max);
        Chart {
            title,
            alt: format!("{most}{unplaced}"),
            x_axis: Axis { zero: !zoom, ..axis(variable == Variable::Window || beyond && !zoom) },
            left: Axis {
                most_top: Some(top * 1.1).filter(|t| *t > 0.0),
                ..fit("payload, bit/s", Unit::BitRate)
            },
            right: None,
            x: x(points),
            series,
            bands: bands.clone(),
        }
    };
    let against = if variable == Variable::Rate { "asked rate" } else { variable.name() };
    let mut push = |chart: Chart| section.figures.extend(chart.tidy().map(Figure::chart));
    push(rates(format!("Received against {against}, {words}"), &points, false));
    for bend in document.bends.iter().filter(|b| b.direction == way) {
        let near = near(bend, &points);
        if near.len() >= 3 {
            let (low, high) =
                (value_text(variable, Some(bend.low)), value_text(variable, bend.high));
            let title = format!(
                "Zoom on the knee from {} to {} between {low} and {high}, {words}",
                bend.from.name(),
                bend.to.name()
            );
            push(rates(title, &near, true));
        }
    }
    let worst = points.iter().map(|p| p.lost_ratio).fold(0.0, f64::max);
    push(Chart {
        title: format!("Received rate and loss against {against}, {words}"),
        alt: format!("{most} At most {} of what was sent was lost.{unplaced}", number::loss(worst)),
        x_axis: axis(true),
        left: Axis::from_zero("received, bit/s", Unit::BitRate),
        right: Some(Axis::percent("lost, not delivered, %")),
        x: x(&points),
        series: vec![
            Series::line("received", 0, y(&points, |p| Some(p.received_bps))),
            Series::line("lost of what was sent, %", 5, y(&points, |p| Some(p.lost_ratio * 100.0)))
                .right(),
            Series::line(
                "not delivered in time of what was asked, %",
                3,
                y(&points, |p| Some(p.undelivered_ratio * 100.0)),
            )
            .kind(Kind::Thin)
            .right(),
        ],
        bands: bands.clone(),
    });
    let full = |pick: fn(&SweepPoint) -> Option<f64>| {
        let most = points.iter().filter_map(|p| pick(p)).fold(f64::NEG_INFINITY, f64::max);
        if most.is_finite() { number::cpu(most) } else { "unknown".to_owned() }
    };
    push(Chart {
        title: format!("CPU of both ends against {against}, {words}"),
        alt: format!(
            "The busiest data thread reached {} at the sender and {} at the receiver.",
            full(|p| p.cpu_sender_percent),
            full(|p| p.cpu_receiver_percent)
        ),
        x_axis: axis(true),
        left: Axis::percent("busiest data thread, %"),
        right: None,
        x: x(&points),
        series: vec![
            Series::line("sender", 1, y(&points, |p| p.cpu_sender_percent)),
            Series::line("receiver", 0, y(&points, |p| p.cpu_receiver_percent)),
        ],
        bands: bands.clone(),
    });
    push(Chart {
        title: format!("Delay and jitter against {against}, {words}"),
        alt:
            "The delay above the least and the jitter at each value; the numbers are in the table."
                .into(),
        x_axis: axis(true),
        left: Axis::log("seconds", Unit::Seconds),
        right: None,
        x: x(&points),
        series: vec![
            Series::line("delay above the least, p99", 1, y(&points, |p| p.delay_p99_s)),
            Series::line("jitter (RFC 3550)", 0, y(&points, |p| p.jitter_s)),
        ],
        bands,
    });
}

fn x(points: &[&SweepPoint]) -> Vec<f64> {
    points.iter().filter_map(|p| p.value).map(|v| v as f64).collect()
}

fn y(points: &[&SweepPoint], pick: impl Fn(&SweepPoint) -> Option<f64>) -> Vec<Option<f64>> {
    points.iter().map(|p| pick(p)).collect()
}

/// The regimes as stretches that meet half way between their points.
fn bands(document: &SweepDocument, way: Way, points: &[&SweepPoint]) -> Vec<Band> {
    let regimes: Vec<_> = document
        .regimes
        .iter()
        .filter(|r| r.direction == way)
        .filter_map(|r| r.from.map(|from| (from, r.to, r.kind)))
        .collect();
    let most = points.iter().filter_map(|p| p.value).max().unwrap_or(0);
    let mut start: Option<f64> = None;
    let mut bands = Vec::new();
    for (i, (from, to, kind)) in regimes.iter().enumerate() {
        let begin = start.unwrap_or(*from as f64);
        let last = to.unwrap_or(most).max(*from) as f64;
        let end = match regimes.get(i + 1) {
            Some((next, ..)) => (last + *next as f64) / 2.0,
            None => last,
        };
        bands.push(Band { from: begin, to: end, label: kind.name().to_owned() });
        start = Some(end);
    }
    bands
}

/// The points around a bend; of a border that leads nowhere new (from unstable back), none.
fn near<'a>(bend: &SweepBend, points: &[&'a SweepPoint]) -> Vec<&'a SweepPoint> {
    if bend.from == RegimeKind::Plateau && bend.to == RegimeKind::Plateau {
        return Vec::new();
    }
    let low = bend.low as f64 / AROUND;
    let high = bend.high.unwrap_or(bend.low) as f64 * AROUND;
    points
        .iter()
        .copied()
        .filter(|p| p.value.is_some_and(|v| (low..=high).contains(&(v as f64))))
        .collect()
}

fn regimes(document: &SweepDocument) -> Table {
    let variable = document.sweep.variable;
    let mut table =
        Table::new("Regimes", &["direction", "behaves", "from", "to", "limited by", "in words"]);
    for regime in &document.regimes {
        table.rows.push(vec![
            way_words(way_name(regime.direction)).to_owned(),
            regime.kind.name().to_owned(),
            value_text(variable, regime.from),
            value_text(variable, regime.to),
            limit_words(regime.limit).to_owned(),
            clean(&regime.text).into_owned(),
        ]);
    }
    table
}

fn points(document: &SweepDocument) -> Table {
    let mut table = Table::new(
        "Every point",
        &[
            "value",
            "direction",
            "trials",
            "sent",
            "received",
            "sd",
            "lost",
            "on the path",
            "at the receiver",
            "jitter",
            "delay p99",
            "cpu sent",
            "cpu recv",
            "limited by",
        ],
    );
    let absent = || number::ABSENT.to_owned();
    for p in &document.points {
        let cpu = |c: Option<f64>| c.map_or_else(absent, number::cpu);
        let count = |c: Option<u64>| c.map_or_else(absent, number::integer);
        let seconds = |s: Option<f64>| s.map_or_else(absent, number::seconds_short);
        table.rows.push(vec![
            value_text(document.sweep.variable, p.value),
            way_words(way_name(p.direction)).to_owned(),
            p.trials.to_string(),
            number::rate(p.sent_bps),
            number::rate(p.received_bps),
            p.received_sd_bps.map_or_else(absent, number::rate),
            number::loss(p.lost_ratio),
            count(p.lost_path),
            count(p.dropped_receiver),
            seconds(p.jitter_s),
            seconds(p.delay_p99_s),
            cpu(p.cpu_sender_percent),
            cpu(p.cpu_receiver_percent),
            match &p.invalid {
                Some(why) => format!("invalid: {}", clean(why)),
                None => limit_words(p.limit).to_owned(),
            },
        ]);
    }
    table
}
