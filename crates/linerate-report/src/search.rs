//! A search as text: a row a trial while it runs, then the answer to each goal.

use linerate_model::record::Status;
use linerate_model::search::{BoundRecord, GoalRecord, SearchDocument, TrialPurpose, TrialRecord};

use crate::clean::clean;
use crate::number::{self, ABSENT};
use crate::style::{Paint, Tone, wrap};

/// The head of the table of trials.
pub fn head(paint: Paint) -> String {
    let line = format!(
        "{:>5}  {:9} {:>9} {:>9} {:>9}  {:>9} {:>8}  {:15} {}",
        "trial", "for", "asked", "sent", "received", "not there", "delay99", "limited by", "meets"
    );
    format!("{}\n", paint.apply(Tone::Label, line.trim_end()))
}

/// One trial; `number` counts from 1.
pub fn row(number: usize, trial: &TrialRecord, paint: Paint) -> String {
    let purpose = match trial.purpose {
        TrialPurpose::WarmUp => "warm-up",
        TrialPurpose::MaxLoad => "max",
        TrialPurpose::Search => "bounds",
        TrialPurpose::Fit => "knee",
        TrialPurpose::Shape => "shape",
    };
    let asked = trial.asked_bps.map_or("max".to_owned(), number::short);
    let delay = trial.delay_p99_s.map_or(ABSENT.to_owned(), number::seconds_short);
    let (tone, meets) = match (&trial.invalid, trial.good) {
        (Some(why), _) => (Tone::Warn, format!("says nothing: {}", clean(why))),
        (None, None) => (Tone::Dim, ABSENT.to_owned()),
        (None, Some(good)) => {
            let names = trial.meets.join(" ");
            let tone = if good { Tone::Good } else { Tone::Bad };
            (tone, if names.is_empty() { "no".to_owned() } else { names })
        }
    };
    format!(
        "{number:>5}  {purpose:9} {asked:>9} {:>9} {:>9}  {:>9} {delay:>8}  {:15} {}\n",
        number::short(trial.sent_bps),
        number::short(trial.received_bps),
        number::loss(trial.undelivered_ratio),
        trial.limit.map_or(ABSENT, |limit| limit.name()),
        paint.apply(tone, &meets),
    )
}

/// One line on how far the search is.
pub fn progress(trials: usize, goals: &[GoalRecord], left_s: f64) -> String {
    let bracket = |goal: &GoalRecord| {
        let (low, high) = match goal.knee_bps {
            Some(knee) => (Some(knee.low), Some(knee.high)),
            None => (goal.lower_bps, goal.upper_bps),
        };
        let end = |value: Option<f64>| value.map_or("?".to_owned(), number::short);
        format!("{} {} to {}bit/s", clean(&goal.name), end(low), end(high))
    };
    let brackets: Vec<String> = goals.iter().map(bracket).collect();
    format!("trial {trials} · {} · about {:.0} s left", brackets.join(" · "), left_s.ceil())
}

/// The answer.
pub fn end(document: &SearchDocument, width: Option<usize>, paint: Paint) -> String {
    let width = width.unwrap_or(usize::MAX).max(40);
    let mut out = String::new();
    let mut say = |label: &str, text: &str, tone: Tone| {
        for (i, line) in wrap(&clean(text), width.saturating_sub(12), "").iter().enumerate() {
            let label = if i == 0 { label } else { "" };
            let shown = format!("{label:10}");
            let line = paint.apply(tone, line);
            out.push_str(format!("{}  {line}", paint.apply(Tone::Label, &shown)).trim_end());
            out.push('\n');
        }
    };
    for goal in &document.goals {
        let name = goal.name.split(',').next().unwrap_or_default();
        let label: String = name.chars().take(10).collect();
        say(&label, &answer(goal), Tone::Plain);
        for (what, bound) in [("lower", &goal.at_lower), ("upper", &goal.at_upper)] {
            if let Some(bound) = bound.filter(|bound| bound.trials > 0) {
                say("", &at(what, &bound), Tone::Dim);
            }
        }
        if let Some(repeated) = goal.repeated {
            let interval = match (repeated.low_bps, repeated.high_bps) {
                (Some(low), Some(high)) => {
                    format!(", 95 % between {} and {}", number::rate(low), number::rate(high))
                }
                _ => String::new(),
            };
            let (asked, finished, bound) = (repeated.asked, repeated.finished, repeated.searches);
            let counts = format!(
                "of {asked} searches {finished} came to their end, {bound} with a settled bound"
            );
            let text = match repeated.mean_bps {
                Some(mean) => {
                    format!("{counts}; the mean of these: {}{interval}", number::rate(mean))
                }
                None => format!("{counts}, so there is no mean"),
            };
            say("", &text, Tone::Plain);
        }
        if let Some(irregular) = &goal.irregular {
            say("irregular", irregular, Tone::Warn);
        }
    }
    let count = document.trials.len();
    say("took", &format!("{count} trials, {:.1} s", document.seconds), Tone::Plain);
    for because in &document.because {
        say("limited by", because, Tone::Plain);
    }
    if !document.advice.is_empty() {
        say("try", &document.advice.join(" · "), Tone::Plain);
    }
    for doubt in &document.doubts {
        say("doubt", &doubt.text, Tone::Warn);
    }
    if document.status != Status::Complete {
        let why = document.error.as_ref().map_or("", |e| e.what.as_str());
        say("partial", &format!("{why}; what was found so far is above"), Tone::Bad);
    }
    out
}

fn answer(goal: &GoalRecord) -> String {
    let rate = number::rate;
    let mut rules = format!("at most {} not delivered", number::loss(goal.loss));
    if let Some(delay) = goal.delay_p99_s {
        rules.push_str(&format!(", p99 of delay at most {}", number::seconds_short(delay)));
    }
    let rules = format!("{rules}, in trials of {}", number::chosen_seconds(goal.trial_s));
    if let Some(knee) = goal.knee_bps {
        let open = if goal.settled { "" } else { " (not as narrow as asked)" };
        return format!(
            "half of the trials fail at {}, 95 % between {} and {}{open}: {rules}",
            rate(knee.median),
            rate(knee.low),
            rate(knee.high)
        );
    }
    let open = if goal.settled { "" } else { " so far" };
    match (goal.lower_bps, goal.upper_bps) {
        (Some(lower), Some(upper)) => {
            let throughput = goal.throughput_bps.map_or(String::new(), |throughput| {
                format!(", conditional throughput {}", rate(throughput))
            });
            format!("{} holds, {} does not{open}{throughput}: {rules}", rate(lower), rate(upper))
        }
        (Some(lower), None) => {
            format!("{} holds, nothing above was refused{open}: {rules}", rate(lower))
        }
        (None, Some(upper)) => format!("not even {} holds{open}: {rules}", rate(upper)),
        (None, None) => format!("nothing is known: {rules}"),
    }
}

fn at(what: &str, bound: &BoundRecord) -> String {
    let open = if bound.settled { "" } else { ", not settled" };
    format!(
        "{what} bound: {} of {} trials bad, so a trial fails with probability {:.2} to {:.2}{open}",
        bound.bad, bound.trials, bound.fail_low, bound.fail_high
    )
}
