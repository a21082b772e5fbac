//! A tuning that goes on: its file, and its trials as the controller takes them again.

use std::collections::BTreeMap;
use std::path::Path;

use linerate_ask::Measure;
use linerate_ask::tune::TuneArgs;
use linerate_experiment::tune::space::Combination;
use linerate_experiment::tune::{Made, Measured};
use linerate_model::clean::shell_word;
use linerate_model::record::{ErrorKind, ErrorRecord, Status};
use linerate_model::tune::{TuneDocument, TuneFactor, TuneTrial};

use crate::keep::Resumed;

const RESUMED: Resumed = Resumed {
    kind: "tune",
    hint: "it is the JSON of `linerate tune`: the file of --save, or what --json printed",
};

const ENDED: &str = "the tuning was ended early";

/// A file that holds no tuning to go on with.
pub(super) fn unusable(path: &Path, why: &str) -> ErrorRecord {
    RESUMED.unusable(path, why)
}

/// Reads a tuning that is not at its end, and the command line that began it.
pub(super) fn read(path: &Path) -> Result<(TuneDocument, Box<TuneArgs>), ErrorRecord> {
    let document = RESUMED.read(path, |tuning: &TuneDocument| (tuning.format, &tuning.kind))?;
    if document.status == Status::Complete {
        let why = "it came to its end, and nothing is left to try";
        let file = shell_word(&path.to_string_lossy());
        let report = format!("linerate report {file} -o tune.html");
        return Err(unusable(path, why).with_hints(vec![report]));
    }
    let cannot = |why: &str| unusable(path, &format!("its command cannot be repeated: {why}"));
    let args = match Measure::from_words(&document.command) {
        Ok(Measure::Tune(args)) if args.test.is_some() => args,
        Ok(_) => return Err(cannot("it is no tuning")),
        Err(error) => return Err(cannot(&error.why)),
    };
    Ok((document, args))
}

/// Refuses to go on with other factors or levels than the tuning was begun with: its trials are of those.
pub(super) fn same_levels(
    path: &Path,
    begun: &[TuneFactor],
    now: &[TuneFactor],
) -> Result<(), ErrorRecord> {
    let shown = |factor: &TuneFactor| {
        let levels: Vec<&str> = factor.levels.iter().map(|level| level.name.as_str()).collect();
        format!("{} ({})", factor.name, levels.join(", "))
    };
    let all = |factors: &[TuneFactor]| factors.iter().map(shown).collect::<Vec<_>>().join("; ");
    let (begun, now) = (all(begun), all(now));
    if begun == now {
        return Ok(());
    }
    let why = format!("it was begun with {begun}; these hosts have {now} now");
    Err(unusable(path, &why).hint("begin anew, with each level named: --factor NAME=LEVEL,LEVEL"))
}

/// After how many of its trials it goes on.
pub(super) fn goes_on(all: usize, whole: usize) -> String {
    match all.saturating_sub(whole) {
        0 => format!("it goes on after {whole} trials"),
        cut => format!(
            "it goes on after {whole} trials; {cut} of a block that was not whole are made anew"
        ),
    }
}

/// A trial as the controller takes it; nothing where it is of none of these factors.
pub(super) fn made(factors: &[TuneFactor], trial: &TuneTrial) -> Option<Made> {
    let number = |name: &String| factors.iter().position(|factor| factor.name == *name);
    let placed = |levels: &BTreeMap<String, u64>| {
        let levels = levels.iter();
        levels
            .map(|(name, level)| Some((number(name)?, usize::try_from(*level).ok()?)))
            .collect::<Option<Vec<_>>>()
    };
    let mut combination = Combination(vec![0; factors.len()]);
    for (factor, level) in placed(&trial.levels)? {
        combination = combination.with(factor, level);
    }
    let at_fault = match &trial.at_fault {
        Some(levels) => Some(placed(levels)?),
        None => None,
    };
    let (value, void, took_s) = (trial.value, trial.void, trial.took_s);
    let measured = Measured { value, at_fault, void, took_s };
    Some(Made { combination, purpose: trial.purpose, measured })
}

/// What stands in the file while the tuning runs, and for ever if it is killed.
pub(super) fn unfinished() -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Unfinished,
        "the tuning was not at its end when this was written",
        "it was still running, or it was killed",
        &[],
    )
}

/// What was asked of it by whoever runs it.
pub(super) fn interrupted() -> ErrorRecord {
    ErrorRecord::new(ErrorKind::Interrupted, ENDED, "Ctrl-C or SIGTERM", &[])
}

/// That its trials were cut into again and again, and the last by what.
pub(super) fn cut_short(trials: &[TuneTrial]) -> ErrorRecord {
    let last = trials.iter().rfind(|trial| trial.void);
    let by = last.and_then(|trial| trial.failed.as_deref()).unwrap_or_default();
    let doubts = last.map(|trial| trial.doubts.as_slice()).unwrap_or_default();
    let advice = doubts.iter().rfind(|doubt| by.contains(&doubt.text)).map(|d| d.kind.advice());
    let hints: Vec<&str> = advice.into_iter().collect();
    let why = format!("trial after trial was cut into by what is no setting's doing: {by}");
    ErrorRecord::new(ErrorKind::Unable, ENDED, why, &hints)
}

#[cfg(test)]
mod tests {
    use linerate_model::tune::Purpose;
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_trial_of_a_file_is_the_one_that_was_made() {
        let factor = |name: &str| json!({ "name": name, "best": 0, "levels": [] });
        let factors: Vec<TuneFactor> = from_value(json!([factor("a"), factor("b")])).unwrap();
        let row = |at_fault| {
            json!({
                "purpose": "refine", "levels": { "b": 2 }, "took_s": 0.5, "runs": [], "failed": "why",
                "at_fault": at_fault,
            })
        };
        let trial = |at_fault| made(&factors, &from_value(row(at_fault)).unwrap());
        let expected = |at_fault| Made {
            combination: Combination(vec![0, 2]),
            purpose: Purpose::Refine,
            measured: Measured { at_fault, took_s: 0.5, ..Measured::default() },
        };
        assert_eq!(trial(json!({ "b": 2 })), Some(expected(Some(vec![(1, 2)]))));
        // The combination alone, and nobody knows what.
        assert_eq!(trial(json!({})), Some(expected(Some(Vec::new()))));
        assert_eq!(trial(json!(null)), Some(expected(None)));
        assert_eq!(trial(json!({ "c": 1 })), None);
        let mut void = row(json!(null));
        void["void"] = true.into();
        let read: TuneTrial = from_value(void).unwrap();
        assert!(made(&factors, &read).unwrap().measured.void);
        // In the file of an earlier release it is not there, and nothing but a void trial has it.
        assert_eq!(serde_json::to_value(&read).unwrap()["void"], json!(true));
        let old: TuneTrial = from_value(row(json!(null))).unwrap();
        assert_eq!(serde_json::to_value(&old).unwrap().get("void"), None);
    }
}
