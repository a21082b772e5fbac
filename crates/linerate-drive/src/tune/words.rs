//! What a tuning says in words: of settings, of its answer, and the command line that uses it.

use linerate_ask::tune::{Level, cpu_words, test_options, test_words};
use linerate_experiment::tune::space::Combination;
use linerate_model::plan::TestPlan;
use linerate_model::tune::{Reason, TuneDocument};

use super::levels::Factor;

/// What differs from the default: `window 4 MiB, streams 4`.
pub(super) fn combination(factors: &[Factor], combination: &Combination) -> String {
    let changed = factors.iter().zip(&combination.0).filter_map(|(factor, number)| {
        Some(format!("{} {}", factor.name.text(), factor.level(*number)?.name()))
    });
    let words = changed.collect::<Vec<_>>().join(", ");
    if words.is_empty() { "the default".to_owned() } else { words }
}

/// The answer; `candidate` is what was compared with the default at the end, and gave no figure in so many blocks in which
/// the default did.
pub(super) fn because(document: &TuneDocument, candidate: &str, missed: usize) -> Vec<String> {
    let better = if document.objective.better == "lower" { "less" } else { "more" };
    let (metric, pairs) = (&document.objective.metric, document.pairs);
    let answer = match document.gain_percent {
        _ if missed > 0 => format!(
            "the default stays: the best of the search, {candidate}, gave no figure in {missed} of the {} fresh pairs of \
             runs in which the default did",
            missed as u64 + pairs
        ),
        Some(found) if document.recommended => format!(
            "{candidate}: {} {better} {metric} than the default, in {pairs} pairs of runs after it was chosen",
            found.words(1)
        ),
        Some(found) if found.low > 0.0 && found.high >= document.width_percent => format!(
            "the default stays: the best of the search, {candidate}, was {} better, in {pairs} fresh pairs of runs alone: \
             too few to go by",
            found.words(1)
        ),
        Some(found) if found.low > 0.0 => format!(
            "the default stays: the best of the search, {candidate}, was {} better in {pairs} fresh pairs of runs, \
             which is less than the {} % that a change must matter by (--width)",
            found.words(1),
            document.width_percent
        ),
        Some(found) => format!(
            "the default stays: the best of the search, {candidate}, was {} better in {pairs} fresh pairs of runs, \
             which shows no gain",
            found.words(1)
        ),
        None if document.candidate.is_empty() => {
            "the default stays: nothing was shown to be better".to_owned()
        }
        None => format!(
            "the default stays: the best so far, {candidate}, was not compared with it in fresh runs"
        ),
    };
    let width = document.width_percent;
    let end = match document.reason {
        Reason::Settled => {
            format!("no other level of any factor can add {width} % to what the search ended at")
        }
        Reason::MaxTime => {
            "the time was over before everything was settled; --max-time for more".to_owned()
        }
        Reason::Noise => format!("runs scatter too much here to settle every factor to {width} %"),
        Reason::Unmeasurable => "what all else is compared with could not be measured".to_owned(),
        Reason::NothingToVary => "no factor has a level beside the default".to_owned(),
        Reason::Stopped => "it was ended early".to_owned(),
    };
    let void = document.trials.iter().filter(|trial| trial.void);
    let unmeasured = void.clone().next_back().map(|last| {
        format!(
            "{} of {} trials went unmeasured, as something cut into them that is no setting's doing: {}; their blocks count \
             neither for nor against one",
            void.count(),
            document.trials.len(),
            last.failed.as_deref().unwrap_or_default()
        )
    });
    [answer, end].into_iter().chain(unmeasured).collect()
}

/// The options of the test that are these levels, each once.
pub(super) fn options(levels: &[Level], plan: &TestPlan) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    let mut cores = false;
    for level in levels {
        match (level, level.value()) {
            (Level::Cores(..) | Level::FarCores(..), _) => cores = true,
            (_, Some(value)) => options.push((option(level).to_owned(), value)),
            (_, None) => {}
        }
    }
    options.extend(cpu_words(plan).filter(|_| cores).map(|value| ("cpu".to_owned(), value)));
    options
}

/// The rate that a search found, bit/s, as its option. It takes the place of the one that the search began at, which may
/// lose more than the objective allows; thousands are rounded down, as more was not shown.
pub(super) fn rate(bps: f64) -> (String, String) {
    ("rate".to_owned(), format!("{}k", (bps / 1e3) as u64))
}

fn option(level: &Level) -> &'static str {
    match level {
        Level::Size(_) => "size",
        Level::Window(_) => "window",
        Level::Streams(_) => "streams",
        Level::Engine(_) => "engine",
        Level::Burst(_) => "burst",
        Level::Block(_) => "block",
        Level::Congestion(_) => "congestion",
        Level::Cores(..) | Level::FarCores(..) => "cpu",
        Level::Setting(_) => "",
    }
}

/// The command line of the test that was tuned, with other options in place of its own.
pub(super) fn command(tuning: &[String], options: &[(String, String)]) -> Vec<String> {
    let names: Vec<&str> = options.iter().map(|(name, _)| name.as_str()).collect();
    let mut words = test_words(tuning, &names);
    if !words.is_empty() {
        words.extend(options.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]));
    }
    words
}

/// The options of a profile: those of the test that was tuned, as its setting was measured with them, and then the best.
pub(super) fn profile(
    tuning: &[String],
    best: &[(String, String)],
) -> Vec<(String, Option<String>)> {
    let names: Vec<&str> = best.iter().map(|(name, _)| name.as_str()).collect();
    let mut options = test_options(tuning, &names);
    options.extend(best.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
    options
}

/// What stands above a profile.
pub(super) fn remark(document: &TuneDocument) -> Vec<String> {
    let mut lines = vec![format!("{}, {}", document.command.join(" "), document.started)];
    lines.extend(document.because.first().cloned());
    for setting in &document.best_settings {
        lines.push(format!("with {setting} on this host, which no test sets"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    /// A tuning whose best setting gains 18 to 22 % in six pairs and is not recommended.
    fn document() -> TuneDocument {
        from_value(json!({
            "format": 1, "kind": "tune", "id": "a", "started": "2026-01-01T00:00:00Z",
            "linerate": { "version": "0.1.0" }, "protocol": "udp", "width_percent": 2.0, "seed": 1,
            "objective": {
                "name": "p99", "metric": "delay_variation_p99", "unit": "s", "better": "lower"
            },
            "factors": [], "gain_percent": { "mean": 20.0, "low": 18.0, "high": 22.0 }, "pairs": 6,
            "recommended": false, "reason": "settled", "because": [], "trials": [],
            "seconds": 40.0, "doubts": [], "status": "complete",
        }))
        .unwrap()
    }

    #[test]
    fn what_failed_in_its_confirmation_is_said() {
        let document = document();
        let said = |missed| because(&document, "streams 4", missed).swap_remove(0);
        let failed = said(2);
        assert!(failed.contains("gave no figure in 2 of the 8 fresh pairs"), "{failed}");
        assert!(failed.starts_with("the default stays") && !said(0).contains("no figure"));
    }

    #[test]
    fn a_large_gain_is_not_said_to_be_a_small_one() {
        let mut document = document();
        let said = |document: &TuneDocument| because(document, "streams 4", 0).swap_remove(0);
        document.pairs = 3;
        let few = said(&document);
        assert!(few.contains("in 3 fresh pairs of runs alone"), "{few}");
        assert!(!few.contains("less than"), "{few}");
        document.width_percent = 30.0;
        assert!(said(&document).contains("less than the 30 %"), "{}", said(&document));
    }
}
