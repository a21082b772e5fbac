//! A search as text: a row a trial while it runs, then the answer to each goal.

mod rows;

use linerate_model::record::Status;
use linerate_model::search::{BoundRecord, GoalRecord, SearchDocument};

use crate::clean::clean;
use crate::number;
use crate::run::text::Layout;
use crate::run::words::plural;
use crate::style::Tone;

pub use rows::{bounds, head, row};

/// The answer.
pub fn end(document: &SearchDocument, layout: Layout) -> String {
    let mut out = String::new();
    let mut say = |label: &str, text: &str, tone: Tone| {
        layout.wrapped(&mut out, &format!("{label:10}  "), &clean(text), tone, 12);
    };
    if document.status != Status::Complete {
        let why = document.error.as_ref().map_or("", |e| e.what.as_str());
        say("partial", &format!("{why}; what was found so far:"), Tone::Bad);
    }
    let mut goals: Vec<&GoalRecord> = document.goals.iter().collect();
    // What is not settled goes first.
    goals.sort_by_key(|goal| goal.settled);
    for goal in goals {
        let name = goal.name.split(',').next().unwrap_or_default();
        let label: String = name.chars().take(10).collect();
        let (text, tone) = match goal.settled {
            true => (answer(goal), Tone::Plain),
            false => (format!("not settled: {}; {}", answer(goal), most(document)), Tone::Warn),
        };
        say(&label, &text, tone);
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
                "of {asked} searches {finished} came to their end, {bound} with the limit within the range"
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
    let count = plural(document.trials.len() as u64, "trial");
    say("took", &format!("{count}, {:.1} s", document.seconds), Tone::Plain);
    for because in &document.because {
        say("limited by", because, Tone::Plain);
    }
    if !document.advice.is_empty() {
        say("try", &document.advice.join(" · "), Tone::Plain);
    }
    for doubt in &document.doubts {
        say("doubt", &doubt.text, Tone::Warn);
    }
    out
}

/// What holds and what does not, without a full stop.
pub(crate) fn answer(goal: &GoalRecord) -> String {
    let rate = number::rate;
    let mut rules = format!("at most {} not delivered", number::loss(goal.loss));
    if let Some(delay) = goal.delay_p99_s {
        rules.push_str(&format!(", p99 of delay at most {}", number::seconds_short(delay)));
    }
    let rules = format!("{rules}, in trials of {}", number::chosen_seconds(goal.trial_s));
    if let Some(knee) = goal.knee_bps {
        return format!(
            "half of the trials fail at {}, 95 % between {} and {}: {rules}",
            rate(knee.median),
            rate(knee.low),
            rate(knee.high)
        );
    }
    let alone = match goal.holds_by_delay_alone() {
        Some(received) => {
            format!(" by the allowance for delay alone ({} arrived)", rate(received))
        }
        None => String::new(),
    };
    match (goal.lower_bps, goal.upper_bps) {
        (Some(lower), Some(upper)) => {
            let throughput = goal.throughput_bps.map_or(String::new(), |throughput| {
                format!(", conditional throughput {}", rate(throughput))
            });
            format!("{} holds{alone}, {} does not{throughput}: {rules}", rate(lower), rate(upper))
        }
        (Some(lower), None) => {
            format!("{} holds{alone}, nothing above was refused: {rules}", rate(lower))
        }
        (None, Some(upper)) => format!("not even {} holds: {rules}", rate(upper)),
        (None, None) => format!("nothing is known: {rules}"),
    }
}

/// What arrived in the best of the trials, for an answer that is none yet.
fn most(document: &SearchDocument) -> String {
    let valid = document.trials.iter().filter(|t| t.invalid.is_none());
    match valid.max_by(|a, b| a.received_bps.total_cmp(&b.received_bps)) {
        Some(best) => format!(
            "the most that arrived was {}, of {} sent",
            number::rate(best.received_bps),
            number::rate(best.sent_bps)
        ),
        None => "no trial said anything".to_owned(),
    }
}

fn at(what: &str, bound: &BoundRecord) -> String {
    let open = if bound.settled { "" } else { "not settled, " };
    let arrived = bound
        .received_bps
        .map_or(String::new(), |received| format!(" {} arrived,", number::rate(received)));
    format!(
        "{open}{what} bound:{arrived} {} of {} trials bad, so a trial fails with probability {:.2} to {:.2}",
        bound.bad, bound.trials, bound.fail_low, bound.fail_high
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(settled: bool, lower: Option<f64>, received: f64) -> SearchDocument {
        let at = lower.map(|lower| {
            json!({
                "load_bps": lower, "trials": 7, "bad": 0, "received_bps": received,
                "settled": settled, "fail_low": 0.0, "fail_high": 0.4,
            })
        });
        let goal = json!({
            "name": "pdr", "loss": 0.005, "exceed": 0.5, "trial_s": 1.0, "sum_s": 21.0,
            "width": 0.005, "lower_bps": lower, "upper_bps": 42.2e6, "throughput_bps": null,
            "trials": 9, "seconds": 12.0, "settled": settled, "irregular": null, "at_lower": at,
        });
        let trial = json!({
            "search": 1, "purpose": "warm-up", "asked_bps": 200e6, "sent_bps": 200e6,
            "received_bps": 39.9e6, "seconds": 1.0, "took_s": 1.4, "lost_ratio": 0.8,
            "undelivered_ratio": 0.8, "good": null, "invalid": null,
        });
        let document = json!({
            "format": 1, "kind": "search", "id": "a", "started": "2026-01-01T00:00:00Z",
            "linerate": { "version": "0.1.0" }, "direction": "forward", "min_bps": 1e6,
            "goals": [goal], "trials": [trial], "seconds": 1.4, "because": [],
            "status": if settled { "complete" } else { "partial" },
            "error": (!settled).then(|| json!({
                "kind": "interrupted", "what": "the search was interrupted", "why": "SIGINT",
                "exit_code": 130,
            })),
        });
        serde_json::from_value(document).unwrap()
    }

    fn shown(document: &SearchDocument) -> String {
        end(document, crate::run::text::PLAIN)
    }

    #[test]
    fn what_is_not_settled_is_said_first_with_what_arrived() {
        insta::assert_snapshot!(shown(&document(false, None, 0.0)), @r"
        partial     the search was interrupted; what was found so far:
        pdr         not settled: not even 42.20 Mbit/s holds: at most 0.500 % not delivered, in trials of 1 s; the most that arrived was 39.90 Mbit/s, of 200.0 Mbit/s sent
        took        1 trial, 1.4 s
        ");
        insta::assert_snapshot!(shown(&document(false, Some(39.8e6), 39.8e6)), @r"
        partial     the search was interrupted; what was found so far:
        pdr         not settled: 39.80 Mbit/s holds, 42.20 Mbit/s does not: at most 0.500 % not delivered, in trials of 1 s; the most that arrived was 39.90 Mbit/s, of 200.0 Mbit/s sent
                    not settled, lower bound: 39.80 Mbit/s arrived, 0 of 7 trials bad, so a trial fails with probability 0.00 to 0.40
        took        1 trial, 1.4 s
        ");
    }

    #[test]
    fn a_rate_that_only_a_queue_holds_is_said_so() {
        insta::assert_snapshot!(shown(&document(true, Some(42e6), 40e6)), @r"
        pdr         42.00 Mbit/s holds by the allowance for delay alone (40.00 Mbit/s arrived), 42.20 Mbit/s does not: at most 0.500 % not delivered, in trials of 1 s
                    lower bound: 40.00 Mbit/s arrived, 0 of 7 trials bad, so a trial fails with probability 0.00 to 0.40
        took        1 trial, 1.4 s
        ");
        assert!(!shown(&document(true, Some(40e6), 39.9e6)).contains("alone"));
    }
}
