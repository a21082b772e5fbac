//! The command line of a tuning, as that of its test.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgAction, CommandFactory as _};

use crate::{Line, with_numbers_below_zero};

/// Options of the tuning itself, and those that the length and the form of its own result have.
const OWN: [&str; 13] = [
    "factor",
    "objective",
    "width",
    "max-time",
    "allow-settings",
    "seed",
    "profile",
    "time",
    "save",
    "json",
    "json-lines",
    "verbose",
    "quiet",
];

/// The words of the test that was tuned, without the options of the tuning and those `without`.
pub fn test_words(command: &[String], without: &[&str]) -> Vec<String> {
    words(command, without).unwrap_or_default()
}

fn words(line: &[String], without: &[&str]) -> Option<Vec<String>> {
    let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
    let found = with_numbers_below_zero(Line::command()).try_get_matches_from(argv).ok()?;
    let (verb, matches) = found.subcommand_matches("tune")?.subcommand()?;
    let all = Line::command();
    let test = all.find_subcommand("tune")?.find_subcommand(verb)?;
    let mut words = vec!["linerate".to_owned(), verb.to_owned()];
    for arg in test.get_arguments() {
        let id = arg.get_id().as_str();
        let given = matches!(matches.try_contains_id(id), Ok(true))
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        let long = arg.get_long();
        if !given || long.is_some_and(|long| OWN.contains(&long) || without.contains(&long)) {
            continue;
        }
        words.extend(long.map(|long| format!("--{long}")));
        if !matches!(arg.get_action(), ArgAction::SetTrue) {
            let values = matches.get_raw(id).into_iter().flatten();
            words.extend(values.map(|value| value.to_string_lossy().into_owned()));
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_says_what_its_test_is() {
        let words = |line: &str| {
            let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            test_words(&line, &["window"]).join(" ")
        };
        assert_eq!(
            words(
                "linerate tune udp 192.0.2.7 -R -w 4Mi -b max --factor size --width 1% -t 1s -J --profile p"
            ),
            "linerate udp 192.0.2.7 --rate max --reverse"
        );
        assert_eq!(
            words("linerate tune tcp --local -C bbr --max-time 1m"),
            "linerate tcp --local --congestion bbr"
        );
        assert_eq!(words("linerate udp --local"), "");
    }
}
