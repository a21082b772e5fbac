//! Sweeps: the figures of a rate (or another variable) that rises, for each direction.

use linerate_model::plan::{PlanDirection, Way};
use linerate_model::sweep::{RegimeKind, SweepBend, SweepDocument, SweepPoint, Variable};

use super::builder::Builder;
use super::experiment::{Experiment, experiment};
use super::head::Headline;
use super::view::{Figure, Row, Section, Table};
use super::words::{limit_words, way_words};
use crate::clean::clean;
use crate::draw::chart::{Axis, Band, Chart, Kind, Series, Unit};
use crate::number::{self, or_absent};

/// How far around a bend the zoom reaches.
const AROUND: f64 = 2.0;

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
    let experiment = experiment!("sweep", document);
    let protocol = document.plan.as_ref().map(|p| clean(p.protocol.name()).to_uppercase());
    let heading = format!("Sweep over the {}", variable.name());
    let what = format!("{} over the {}", protocol.unwrap_or_default(), variable.name());
    let direction = match ways.as_slice() {
        [one] => PlanDirection::from(*one),
        _ => PlanDirection::Both,
    };
    let mut section = experiment.begin(builder, source, (&heading, &what), direction);
    headlines(builder, document, &ways);
    experiment.conclude(builder, source, &mut section);
    for way in ways {
        let points: Vec<&SweepPoint> =
            document.points.iter().filter(|p| p.direction == way).collect();
        figures(&mut section, document, way, &points);
    }
    section.tables.push(regimes(document));
    section.tables.push(points(document));
    section.facts.push(("order of trials from seed".into(), document.sweep.seed.to_string()));
    builder.sections.push(section);
    for point in &document.points {
        let mut row = Row::new("sweep-point", source);
        row.text("id", &document.id);
        row.text("started", &document.started);
        row.text("direction", point.direction.name());
        row.text("protocol", document.plan.as_ref().map_or("", |p| p.protocol.name()));
        row.text(
            "unit",
            match variable {
                Variable::Rate => "bit/s",
                Variable::Streams => "streams",
                Variable::Size | Variable::Window => "bytes",
            },
        );
        row.numbers(point);
        row.count("n", Some(u64::from(point.trials)));
        row.text("limit", point.limit.name());
        row.text("status", if point.invalid.is_some() { "invalid" } else { point.regime.name() });
        builder.rows.push(row);
    }
}

/// A row of the headline table for each direction.
fn headlines(builder: &mut Builder, document: &SweepDocument, ways: &[Way]) {
    for way in ways {
        let of_way = document.points.iter().filter(|p| p.direction == *way && p.invalid.is_none());
        let Some(best) = of_way.max_by(|a, b| a.received_bps.total_cmp(&b.received_bps)) else {
            continue;
        };
        let at = value_text(document.sweep.variable, best.value);
        builder.headlines.push(Headline {
            kind: "direction",
            name: format!("{}, at {at}", way_words(*way)),
            value: Some(best.received_bps),
            scale: "bit/s".to_owned(),
            result: number::rate(best.received_bps),
            beside: number::loss(best.lost_ratio),
            conclusion: limit_words(best.limit).to_owned(),
        });
    }
}

/// Everything that the figures of one direction have in common.
struct Curves<'a> {
    variable: Variable,
    /// What the figures are drawn against.
    against: &'static str,
    /// Which way, in words.
    way: &'static str,
    points: Vec<&'a SweepPoint>,
    bands: Vec<Band>,
    /// Where most arrived.
    most: String,
    /// That some points have no place on the axis.
    unplaced: &'static str,
    /// Much more was asked than went through.
    beyond: bool,
}

fn figures(section: &mut Section, document: &SweepDocument, way: Way, all: &[&SweepPoint]) {
    let variable = document.sweep.variable;
    let mut points: Vec<&SweepPoint> = all.iter().copied().filter(|p| p.value.is_some()).collect();
    points.sort_by_key(|p| p.value);
    let best = |all: bool| {
        let points = points.iter().filter(|p| all || p.invalid.is_none());
        points.max_by(|a, b| a.received_bps.total_cmp(&b.received_bps))
    };
    let most = best(false).map_or(String::new(), |p| {
        let (at, rate) = (value_text(variable, p.value), number::rate(p.received_bps));
        format!("Most was received at {at}: {rate}.")
    });
    let asked = points.iter().filter_map(|p| p.value).max().unwrap_or(0) as f64;
    let curves = Curves {
        variable,
        against: if variable == Variable::Rate { "asked rate" } else { variable.name() },
        way: way_words(way),
        bands: bands(document, way, &points),
        most,
        unplaced: match points.len() == all.len() {
            true => "",
            false => {
                " What the sender did as fast as it could has no asked rate; it is in the table."
            }
        },
        beyond: variable == Variable::Rate
            && best(true).is_some_and(|b| asked > 4.0 * b.received_bps),
        points,
    };
    let mut push = |chart: Chart| section.figures.extend(Figure::of(chart));
    let title = format!("Received against {}, {}", curves.against, curves.way);
    push(curves.rates(title, &curves.points, false));
    for bend in document.bends.iter().filter(|b| b.direction == way) {
        let near = near(bend, &curves.points);
        if near.len() >= 3 {
            let (low, high) =
                (value_text(variable, Some(bend.low)), value_text(variable, bend.high));
            let title = format!(
                "Zoom on the knee from {} to {} between {low} and {high}, {}",
                bend.from.name(),
                bend.to.name(),
                curves.way
            );
            push(curves.rates(title, &near, true));
        }
    }
    push(curves.loss());
    push(curves.cpu());
    push(curves.delay());
}

impl Curves<'_> {
    fn axis(&self, log: bool) -> Axis {
        let (name, unit) = match self.variable {
            Variable::Rate => ("asked rate, bit/s", Unit::BitRate),
            Variable::Size => ("bytes of a datagram", Unit::Bytes),
            Variable::Streams => ("streams", Unit::Whole),
            Variable::Window => ("socket buffers, bytes", Unit::Bytes),
        };
        Axis { log, ..Axis::from_zero(name, unit) }
    }

    fn rates(&self, title: String, points: &[&SweepPoint], zoom: bool) -> Chart {
        let mut series = Vec::new();
        if self.variable == Variable::Rate {
            let ideal = y(points, |p| p.value.map(|v| v as f64));
            let label = "asked: nothing lost, nothing unsent";
            series.push(Series::line(label, 0, ideal).kind(Kind::Ideal));
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
        let label = "received (bar: standard deviation between trials)";
        series.push(Series {
            spread: Some(points.iter().map(|p| p.received_sd_bps).collect()),
            ..Series::line(label, 0, y(points, |p| Some(p.received_bps)))
        });
        let fit = if zoom { Axis::fitted } else { Axis::from_zero };
        // What was asked may be many times what went through, and would press it flat, or the rest
        // against the left edge.
        let went = points.iter().flat_map(|p| {
            [Some(p.sent_bps), Some(p.received_bps), p.interval_max_bps.filter(|_| zoom)]
        });
        let top = went.flatten().fold(0.0, f64::max);
        let log = self.variable == Variable::Window || self.beyond && !zoom;
        let left = Axis {
            most_top: Some(top * 1.1).filter(|t| *t > 0.0),
            ..fit("payload, bit/s", Unit::BitRate)
        };
        let axes = (Axis { zero: !zoom, ..self.axis(log) }, left);
        let alt = format!("{}{}", self.most, self.unplaced);
        Chart::new(title, alt, axes, x(points), series).bands(self.bands.clone())
    }

    /// Another figure of all points, over equal distances for equal factors.
    fn chart(&self, what: &str, alt: String, left: Axis, series: Vec<Series>) -> Chart {
        let title = format!("{what} against {}, {}", self.against, self.way);
        Chart::new(title, alt, (self.axis(true), left), x(&self.points), series)
            .bands(self.bands.clone())
    }

    fn line(&self, label: &str, colour: usize, pick: fn(&SweepPoint) -> Option<f64>) -> Series {
        Series::line(label, colour, y(&self.points, pick))
    }

    fn loss(&self) -> Chart {
        let worst = self.points.iter().map(|p| p.lost_ratio).fold(0.0, f64::max);
        let worst = number::loss(worst);
        let undelivered = "not delivered in time of what was asked, %";
        self.chart(
            "Received rate and loss",
            format!("{} At most {worst} of what was sent was lost.{}", self.most, self.unplaced),
            Axis::from_zero("received, bit/s", Unit::BitRate),
            vec![
                self.line("received", 0, |p| Some(p.received_bps)),
                self.line("lost of what was sent, %", 5, |p| Some(p.lost_ratio * 100.0)).right(),
                self.line(undelivered, 3, |p| Some(p.undelivered_ratio * 100.0))
                    .kind(Kind::Thin)
                    .right(),
            ],
        )
        .right(Axis::percent("lost, not delivered, %"))
    }

    fn cpu(&self) -> Chart {
        let full = |pick: fn(&SweepPoint) -> Option<f64>| {
            let most = self.points.iter().filter_map(|p| pick(p)).reduce(f64::max);
            most.map_or("unknown".to_owned(), number::cpu)
        };
        let (sender, receiver) = (full(|p| p.cpu_sender_percent), full(|p| p.cpu_receiver_percent));
        self.chart(
            "CPU of both ends",
            format!(
                "The busiest data thread reached {sender} at the sender and {receiver} at the receiver."
            ),
            Axis::percent("busiest data thread, %"),
            vec![
                self.line("sender", 1, |p| p.cpu_sender_percent),
                self.line("receiver", 0, |p| p.cpu_receiver_percent),
            ],
        )
    }

    fn delay(&self) -> Chart {
        let alt =
            "The delay above the least and the jitter at each value; the numbers are in the table.";
        self.chart(
            "Delay and jitter",
            alt.to_owned(),
            Axis::log("seconds", Unit::Seconds),
            vec![
                self.line("delay above the least, p99", 1, |p| p.delay_p99_s),
                self.line("jitter (RFC 3550)", 0, |p| p.jitter_s),
            ],
        )
    }
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
    let mut table = Table::new("Regimes", "direction|behaves|from|to|limited by|in words");
    for regime in &document.regimes {
        table.rows.push(vec![
            way_words(regime.direction).to_owned(),
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
        "value|direction|trials|sent|received|sd|lost|on the path|at the receiver|jitter|delay p99|cpu sent|cpu recv|limited by",
    );
    for p in &document.points {
        table.rows.push(vec![
            value_text(document.sweep.variable, p.value),
            way_words(p.direction).to_owned(),
            p.trials.to_string(),
            number::rate(p.sent_bps),
            number::rate(p.received_bps),
            or_absent(p.received_sd_bps, number::rate),
            number::loss(p.lost_ratio),
            or_absent(p.lost_path, number::integer),
            or_absent(p.dropped_receiver, number::integer),
            or_absent(p.jitter_s, number::seconds_short),
            or_absent(p.delay_p99_s, number::seconds_short),
            or_absent(p.cpu_sender_percent, number::cpu),
            or_absent(p.cpu_receiver_percent, number::cpu),
            match &p.invalid {
                Some(why) => format!("invalid: {}", clean(why)),
                None => limit_words(p.limit).to_owned(),
            },
        ]);
    }
    table
}
