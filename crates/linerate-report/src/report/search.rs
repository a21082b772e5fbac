//! Searches: the goals with their bounds, and the trials behind them.

use linerate_model::search::{GoalRecord, SearchDocument, TrialRecord};

use super::builder::Builder;
use super::experiment::{Experiment, experiment};
use super::head::Headline;
use super::view::{Figure, Row, Table};
use super::words::{limit_words, way_words, wide};
use crate::clean::clean;
use crate::draw::chart::{Axis, Band, Chart, Kind, Series, Unit};
use crate::number::{self, or_absent};
use crate::search::answer;

pub(super) fn add(builder: &mut Builder, source: &str, document: &SearchDocument) {
    let way = document.direction;
    let experiment = experiment!("search", document);
    let heading = format!("Search for the highest rate, {}", way_words(way));
    let of =
        document.plan.as_ref().map(|p| format!(" of {}", clean(p.protocol.name()).to_uppercase()));
    let what = format!("Highest rate{}", of.unwrap_or_default());
    let mut section = experiment.begin(builder, source, (&heading, &what), way.into());
    let mut goals = Table::new(
        "Goals",
        "goal|at most not delivered|holds at|fails at|conditional throughput|settled|trials|time|limited by",
    );
    for one in &document.goals {
        section.words.extend(goal_words(one));
        goals.rows.push(goal_cells(one));
        goal(builder, source, document, one);
    }
    experiment.conclude(builder, source, &mut section);
    let charts = [near_knee(document), Some(by_load(document)), Some(course(document))];
    section.figures.extend(charts.into_iter().flatten().filter_map(Figure::of));
    section.tables.push(goals);
    section.tables.push(trials(document));
    section.facts.push(("time of all trials".into(), number::seconds(document.seconds)));
    builder.sections.push(section);
    for trial in &document.trials {
        let mut row = Row::new("search-trial", source);
        row.text("id", trial.run.as_deref().unwrap_or(&document.id));
        row.text("direction", way.name());
        row.numbers(trial);
        row.text("limit", trial.limit.map_or("", |l| l.name()));
        row.text("status", judged(trial));
        builder.rows.push(row);
    }
}

/// What is known of a goal, in sentences.
fn goal_words(goal: &GoalRecord) -> Vec<String> {
    let name = clean(&goal.name);
    let open = if goal.settled { "" } else { "not settled: " };
    let mut words = vec![format!("{name}: {open}{}.", answer(goal))];
    words.extend(goal.irregular.as_ref().map(|why| format!("{name}: {}", clean(why))));
    words
}

fn known(rate: Option<f64>) -> String {
    rate.map_or("unknown".to_owned(), number::rate)
}

fn goal_cells(goal: &GoalRecord) -> Vec<String> {
    vec![
        clean(&goal.name).into_owned(),
        number::loss(goal.loss),
        known(goal.lower_bps),
        known(goal.upper_bps),
        known(goal.throughput_bps),
        if goal.settled { "yes" } else { "no" }.to_owned(),
        goal.trials.to_string(),
        number::seconds(goal.seconds),
        goal.limit.map_or(number::ABSENT, limit_words).to_owned(),
    ]
}

/// Its row of the headline table, and of CSV.
fn goal(builder: &mut Builder, source: &str, document: &SearchDocument, goal: &GoalRecord) {
    builder.headlines.push(Headline {
        kind: "goal",
        name: clean(&goal.name).into_owned(),
        value: goal.lower_bps,
        scale: "bit/s".to_owned(),
        result: known(goal.lower_bps),
        beside: number::loss(goal.loss),
        conclusion: match (goal.settled, goal.limit) {
            (true, Some(limit)) => limit_words(limit).to_owned(),
            (true, None) => number::ABSENT.to_owned(),
            (false, _) => "not settled".to_owned(),
        },
    });
    let mut row = Row::new("search-goal", source);
    row.text("set", &goal.name);
    row.text("id", &document.id);
    row.text("started", &document.started);
    row.text("direction", document.direction.name());
    row.number("lower", goal.lower_bps);
    row.number("upper", goal.upper_bps);
    row.number("value", goal.throughput_bps);
    row.text("unit", "bit/s");
    row.count("n", Some(goal.trials));
    row.text("limit", goal.limit.map_or("", |l| l.name()));
    row.text("status", if goal.settled { "settled" } else { "open" });
    builder.rows.push(row);
}

fn judged(trial: &TrialRecord) -> &'static str {
    match (trial.good, &trial.invalid) {
        (_, Some(_)) => "invalid",
        (Some(true), _) => "good",
        (Some(false), _) => "bad",
        (None, _) => "not judged",
    }
}

/// What each class of trial is called in figures; its colour is its place.
const CLASSES: [(&str, &str, usize); 4] = [
    ("good", "met every goal", 2),
    ("bad", "failed a goal", 1),
    ("invalid", "says nothing about the path", 3),
    ("not judged", "judged by no goal", 4),
];

fn by_load(document: &SearchDocument) -> Chart {
    let mut trials: Vec<(f64, &TrialRecord)> =
        document.trials.iter().filter_map(|t| t.asked_bps.map(|a| (a, t))).collect();
    trials.sort_by(|a, b| a.0.total_cmp(&b.0));
    let x: Vec<f64> = trials.iter().map(|t| t.0).collect();
    let mut series = vec![
        Series::line("asked: everything arrives", 0, x.iter().copied().map(Some).collect())
            .kind(Kind::Ideal),
    ];
    for (class, label, colour) in CLASSES {
        let y =
            trials.iter().map(|(_, t)| (judged(t) == class).then_some(t.received_bps)).collect();
        series.push(Series::line(label, colour, y).kind(Kind::Dots));
    }
    let lost = trials.iter().map(|(_, t)| Some(t.undelivered_ratio * 100.0)).collect();
    series.push(Series::line("not delivered in time, %", 5, lost).kind(Kind::Dots).right());
    let bands = document.goals.first().and_then(|g| g.lower_bps.zip(g.upper_bps));
    let bands = bands.map_or(Vec::new(), |(low, high)| {
        let first = x.first().copied().unwrap_or(low);
        let last = x.last().copied().unwrap_or(high);
        [(first, low, "holds"), (low, high, ""), (high, last, "fails")]
            .map(|(from, to, label)| Band { from, to, label: label.to_owned() })
            .to_vec()
    });
    Chart::new(
        "Every trial: received against asked",
        format!("{} trials with an asked rate; the numbers are in the table.", trials.len()),
        (
            Axis { log: wide(&x), ..Axis::fitted("asked rate, bit/s", Unit::BitRate) },
            Axis {
                log: wide(&x),
                zero: !wide(&x),
                ..Axis::from_zero("received, bit/s", Unit::BitRate)
            },
        ),
        x,
        series,
    )
    .right(Axis::from_zero("not delivered, %", Unit::Percent))
    .bands(bands)
}

/// The trials around what holds and what fails, on their own scale.
fn near_knee(document: &SearchDocument) -> Option<Chart> {
    let low = document.goals.iter().filter_map(|g| g.lower_bps).reduce(f64::min)?;
    let high =
        document.goals.iter().filter_map(|g| g.upper_bps.or(g.lower_bps)).reduce(f64::max)?;
    let around = (low / 1.25)..=(high * 1.25);
    let mut trials = document.trials.clone();
    trials.retain(|t| t.asked_bps.is_some_and(|a| around.contains(&a)));
    let all = document.trials.iter().filter(|t| t.asked_bps.is_some()).count();
    if trials.len() < 3 || trials.len() == all {
        return None;
    }
    let near = SearchDocument { trials, ..document.clone() };
    let chart = by_load(&near);
    Some(Chart {
        title: "Zoom on the knee: received against asked".into(),
        alt: format!("{} of {} trials are near the knee.", near.trials.len(), all),
        left: Axis::fitted("received, bit/s", Unit::BitRate),
        ..chart
    })
}

fn course(document: &SearchDocument) -> Chart {
    let x: Vec<f64> = (1..=document.trials.len()).map(|i| i as f64).collect();
    let all: Vec<Option<f64>> = document.trials.iter().map(|t| t.asked_bps).collect();
    let wide = wide(&all.iter().flatten().copied().collect::<Vec<_>>());
    let mut series = vec![Series::line("order of the trials", 4, all).kind(Kind::Thin)];
    for (class, label, colour) in CLASSES {
        let y =
            document.trials.iter().map(|t| t.asked_bps.filter(|_| judged(t) == class)).collect();
        series.push(Series::line(label, colour, y).kind(Kind::Dots));
    }
    Chart::new(
        "How the search closed in",
        format!(
            "The asked rate of each of {} trials, in the order they ran.",
            document.trials.len()
        ),
        (
            Axis::fitted("trial", Unit::Whole),
            Axis { log: wide, ..Axis::fitted("asked rate, bit/s", Unit::BitRate) },
        ),
        x,
        series,
    )
}

fn trials(document: &SearchDocument) -> Table {
    let mut table = Table::new(
        "Every trial",
        "trial|asked|sent|received|lost|not delivered|delay p99|time|cpu sent|cpu recv|judged",
    );
    for (i, t) in document.trials.iter().enumerate() {
        table.rows.push(vec![
            (i + 1).to_string(),
            t.asked_bps.map_or("max".to_owned(), number::rate),
            number::rate(t.sent_bps),
            number::rate(t.received_bps),
            number::loss(t.lost_ratio),
            number::loss(t.undelivered_ratio),
            or_absent(t.delay_p99_s, number::seconds_short),
            number::seconds_short(t.seconds),
            or_absent(t.cpu_sender_percent, number::cpu),
            or_absent(t.cpu_receiver_percent, number::cpu),
            match &t.invalid {
                Some(why) => format!("invalid: {}", clean(why)),
                None => judged(t).to_owned(),
            },
        ]);
    }
    table
}
