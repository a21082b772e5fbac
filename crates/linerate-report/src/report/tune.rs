//! Tunings: the best setting against the default, what each factor of it is worth, every trial, and the command that uses
//! what was found.

use linerate_model::plan::PlanDirection;
use linerate_model::tune::{Gain, Purpose, TuneDocument, TuneTrial};

use super::builder::Builder;
use super::experiment::Experiment;
use super::head::Headline;
use super::view::{Figure, Row, Section, Table};
use super::words::wide;
use crate::clean::clean;
use crate::draw::bars::{Bar, Bars};
use crate::draw::chart::{Axis, Chart, Kind, Series, Unit};
use crate::number::{self, or_absent};
use crate::run::view::command_line;
use crate::tune::{FACTORS, VOID, cells, gain, level_name, means, setting};

pub(super) fn add(builder: &mut Builder, source: &str, document: &TuneDocument) {
    let protocol = document.protocol.name().to_uppercase();
    let objective = clean(&document.objective.name);
    let heading = format!("Best setting of {protocol} for {objective}");
    // Above the reasons for its end stand the figures behind the answer.
    let mut because = document.because.clone();
    if let Some(means) = means(document) {
        because.insert(because.len().min(1), means);
    }
    let experiment = Experiment {
        kind: "tuning",
        label: document.label.as_deref(),
        title: document.title.as_deref(),
        target: document.target.as_deref(),
        client: document.client.as_ref(),
        server: document.server.as_ref(),
        plan: document.plan.as_ref(),
        started: &document.started,
        command: &document.command,
        status: document.status,
        error: document.error.as_ref(),
        because: &because,
        advice: &[],
        doubts: &document.doubts,
    };
    let direction = document.plan.as_ref().and_then(|plan| plan.direction.known().copied());
    let direction = direction.unwrap_or(PlanDirection::Forward);
    let mut section = experiment.begin(builder, source, (&heading, &heading), direction);
    headlines(builder, document);
    experiment.conclude(builder, source, &mut section);
    settings(&mut section, document);
    commands(&mut section, source, document);
    let figures = [worth(document), levels(document)].into_iter().flatten().map(Figure::Bars);
    section.figures.extend(figures);
    section.figures.extend(Figure::of(course(document)));
    section.tables.extend([factors(document), every_level(document), trials(document)]);
    section.facts.push(("time of the tuning".into(), number::seconds(document.seconds)));
    section.facts.push(("seed".into(), document.seed.to_string()));
    builder.sections.push(section);
    rows(builder, source, document);
}

/// The default and what was compared with it, where there were such pairs.
fn headlines(builder: &mut Builder, document: &TuneDocument) {
    let unit = clean(&document.objective.unit).into_owned();
    let shown = |value: f64| number::measured(value, Some(&unit));
    let of = |name: String, value: Option<f64>, beside: String, conclusion: &str| Headline {
        kind: "setting",
        name,
        value,
        scale: unit.clone(),
        result: or_absent(value, shown),
        beside,
        conclusion: conclusion.to_owned(),
    };
    let stays = if document.recommended { number::ABSENT } else { "stays" };
    let default = of("the default".into(), document.default_mean, "default".into(), stays);
    builder.headlines.push(default);
    if let Some(found) = document.gain_percent {
        let name = clean(&setting(document, &document.candidate)).into_owned();
        let conclusion = match (document.recommended, found.low > 0.0) {
            (true, _) => "recommended",
            (false, true) if found.high < document.width_percent => "better by less than matters",
            // It gave no figure now and then, or too few pairs did.
            (false, true) => "better, not in every pair",
            (false, false) => "not shown to be better",
        };
        builder.headlines.push(of(name, document.best_mean, gain(Some(&found)), conclusion));
    }
}

fn settings(section: &mut Section, document: &TuneDocument) {
    let back = if document.left.is_empty() { "; it was put back" } else { "" };
    for setting in &document.best_settings {
        let words = format!("With {setting} on this host, which no test sets{back}.");
        section.words.push(clean(&words).into_owned());
    }
    for left in &document.left {
        section.words.push(format!("Not put back: {}", clean(left)));
    }
}

fn commands(section: &mut Section, source: &str, document: &TuneDocument) {
    if document.recommended && !document.best_command.is_empty() {
        section.commands.push(("To use what was found", command_line(&document.best_command)));
    }
    if document.status == linerate_model::record::Status::Partial {
        let words = ["linerate", "tune", "--resume", source].map(str::to_owned);
        section.commands.push(("To go on with it", command_line(&words)));
    }
}

fn bar(name: &str, gain: Gain) -> Bar {
    Bar { name: clean(name).into_owned(), mean: gain.mean, low: gain.low, high: gain.high }
}

/// What all of it and each changed factor is worth, by the fresh pairs.
fn worth(document: &TuneDocument) -> Option<Bars> {
    let all = document.gain_percent.map(|found| {
        let name = setting(document, &document.candidate);
        // Of a single factor its name says it all.
        let together = if document.candidate.len() > 1 { "together: " } else { "" };
        bar(&format!("{together}{name}"), found)
    });
    let each = document.factors.iter().filter(|_| document.candidate.len() > 1);
    let each = each.filter_map(|factor| {
        let name = format!("{} {}", factor.name, level_name(factor, factor.best));
        Some(bar(&name, factor.worth_percent?))
    });
    let pairs = document.pairs;
    Bars::new(
        "What the best setting is worth over the default, and each factor within it",
        &format!(
            "Gains by {pairs} fresh pairs of runs after it was chosen, with intervals of 95 %:"
        ),
        all.into_iter().chain(each).collect(),
    )
}

/// How much every other level was worth in the search.
fn levels(document: &TuneDocument) -> Option<Bars> {
    let bars = document.factors.iter().flat_map(|factor| {
        let known = factor.levels.iter().filter_map(|level| Some((level, level.gain_percent?)));
        known.map(|(level, gain)| bar(&format!("{} {}", factor.name, level.name), gain))
    });
    Bars::new(
        "What another level gains or costs, where the search ended",
        "Of each level in place of the one that the search ended at, all else being equal; the intervals hold for all of them \
         at once:",
        bars.collect(),
    )
}

/// What each trial is called in figures, and its colour.
const CLASSES: [(&str, usize); 3] = [("the default", 0), ("others", 3), ("the best, confirmed", 2)];

fn class(document: &TuneDocument, trial: &TuneTrial) -> usize {
    match trial.levels.is_empty() {
        true => 0,
        false if trial.purpose == Purpose::Confirm && trial.levels == document.candidate => 2,
        false => 1,
    }
}

fn course(document: &TuneDocument) -> Chart {
    let trials = &document.trials;
    let values: Vec<f64> = trials.iter().filter_map(|trial| trial.value).collect();
    let series = CLASSES.iter().enumerate().map(|(at, (label, colour))| {
        let y = trials.iter().map(|trial| trial.value.filter(|_| class(document, trial) == at));
        Series::line(label, *colour, y.collect()).kind(Kind::Dots)
    });
    let unit = match document.objective.unit.as_str() {
        "s" => Unit::Seconds,
        "bit/s" => Unit::BitRate,
        _ => Unit::Count,
    };
    let label =
        format!("{}, {}", clean(&document.objective.metric), clean(&document.objective.unit));
    let failed = trials.len() - values.len();
    Chart::new(
        "Every trial in its order",
        format!(
            "{} trials, {failed} of them without a figure; what is compared is within blocks of up to five of them.",
            trials.len()
        ),
        (
            Axis::fitted("trial", Unit::Whole),
            Axis { log: wide(&values), ..Axis::fitted(&label, unit) },
        ),
        (1..=trials.len()).map(|number| number as f64).collect(),
        series.collect(),
    )
}

fn factors(document: &TuneDocument) -> Table {
    let mut table = Table::new("Factors", &FACTORS.join("|"));
    let rows = document.factors.iter().map(cells);
    table.rows.extend(rows.map(|cells| cells.map(|cell| clean(&cell).into_owned()).to_vec()));
    table
}

fn every_level(document: &TuneDocument) -> Table {
    let title = "Levels, and what each gains where the search ended";
    let mut table = Table::new(title, "factor|level|gain|comparisons|left out");
    for factor in &document.factors {
        table.rows.extend(factor.levels.iter().map(|level| {
            let left_out = level.left_out.as_deref().map_or(number::ABSENT, |why| why);
            vec![
                clean(&factor.name).into_owned(),
                clean(&level.name).into_owned(),
                gain(level.gain_percent.as_ref()),
                level.runs.to_string(),
                clean(left_out).into_owned(),
            ]
        }));
    }
    table
}

fn trials(document: &TuneDocument) -> Table {
    let mut table = Table::new("Every trial", "trial|for|figure|took|setting");
    let unit = Some(document.objective.unit.as_str());
    table.rows.extend((1..).zip(&document.trials).map(|(number, trial): (usize, _)| {
        let of = setting(document, &trial.levels);
        let of = match &trial.failed {
            Some(why) => format!("{of}: {why}"),
            None => of,
        };
        let figure = match trial.void {
            true => VOID.to_owned(),
            false => or_absent(trial.value, |value| number::measured(value, unit)),
        };
        vec![
            number.to_string(),
            trial.purpose.name().to_owned(),
            clean(&figure).into_owned(),
            number::seconds_short(trial.took_s),
            clean(&of).into_owned(),
        ]
    }));
    table
}

fn rows(builder: &mut Builder, source: &str, document: &TuneDocument) {
    let percent = |row: &mut Row, gain: Option<Gain>| {
        row.text("unit", "%");
        row.number("value", gain.map(|gain| gain.mean));
        row.number("lower", gain.map(|gain| gain.low));
        row.number("upper", gain.map(|gain| gain.high));
    };
    let mut row = Row::new("tune", source);
    row.text("set", &setting(document, &document.candidate));
    row.text("id", &document.id);
    row.text("started", &document.started);
    row.text("protocol", document.protocol.name());
    row.count("n", Some(document.pairs));
    percent(&mut row, document.gain_percent);
    row.text("status", if document.recommended { "recommended" } else { "the default stays" });
    builder.rows.push(row);
    for factor in &document.factors {
        let mut row = Row::new("tune-factor", source);
        row.text("set", &format!("{} {}", factor.name, level_name(factor, factor.best)));
        row.text("id", &document.id);
        percent(&mut row, factor.worth_percent);
        builder.rows.push(row);
    }
    for trial in &document.trials {
        let mut row = Row::new("tune-trial", source);
        row.text("set", &setting(document, &trial.levels));
        row.text("id", trial.runs.last().unwrap_or(&document.id));
        row.number("value", trial.value);
        row.text("unit", &document.objective.unit);
        row.text("status", trial.purpose.name());
        builder.rows.push(row);
    }
}
