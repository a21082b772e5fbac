//! The command line of a tuning, as that of its test.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgAction, CommandFactory as _};

use crate::{Line, for_line};

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

/// Options of a test that are no part of a setting: where it goes, and how it is named and shown.
const NO_SETTING: [&str; 6] = ["local", "port", "bind", "key-file", "label", "title"];

/// An option that was given by its long name, or a place without one, and its values.
struct Given {
    long: Option<String>,
    values: Vec<String>,
}

/// The words of the test that was tuned, without the options of the tuning and those `without`.
pub fn test_words(command: &[String], without: &[&str]) -> Vec<String> {
    let Some((verb, given)) = given(command, without) else { return Vec::new() };
    let words = given.into_iter().flat_map(|option| {
        option.long.map(|long| format!("--{long}")).into_iter().chain(option.values)
    });
    ["linerate".to_owned(), verb].into_iter().chain(words).collect()
}

/// The options of the test that was tuned that go with its setting to other places, without those `without`; a
/// switch has no value.
pub fn test_options(command: &[String], without: &[&str]) -> Vec<(String, Option<String>)> {
    let given = given(command, without).map(|(_, given)| given);
    let options = given.into_iter().flatten().filter_map(|mut option| {
        let long = option.long.filter(|long| !NO_SETTING.contains(&long.as_str()))?;
        Some((long, option.values.pop()))
    });
    options.collect()
}

/// The verb of the test that was tuned, and what was given of it but the options of the tuning and those `without`.
fn given(line: &[String], without: &[&str]) -> Option<(String, Vec<Given>)> {
    let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
    let found = for_line(Line::command(), &argv).0.try_get_matches_from(argv).ok()?;
    let (verb, matches) = found.subcommand_matches("tune")?.subcommand()?;
    let all = Line::command();
    let test = all.find_subcommand("tune")?.find_subcommand(verb)?;
    let mut options = Vec::new();
    for arg in test.get_arguments() {
        let id = arg.get_id().as_str();
        let is_given = matches!(matches.try_contains_id(id), Ok(true))
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        let long = arg.get_long();
        if !is_given || long.is_some_and(|long| OWN.contains(&long) || without.contains(&long)) {
            continue;
        }
        let mut values = Vec::new();
        if !matches!(arg.get_action(), ArgAction::SetTrue) {
            let raw = matches.get_raw(id).into_iter().flatten();
            values.extend(raw.map(|value| value.to_string_lossy().into_owned()));
        }
        options.push(Given { long: long.map(str::to_owned), values });
    }
    Some((verb.to_owned(), options))
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

    #[test]
    fn what_goes_with_a_setting_is_not_where_it_was_measured() {
        let options = |line: &str| {
            let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            test_options(&line, &["window"])
        };
        let value = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        assert_eq!(
            options(
                "linerate tune udp 192.0.2.7 -R -p 5300 -w 4Mi -b max -t 1s --label a --profile p \
                 --factor size -J"
            ),
            [value("rate", "max"), ("reverse".to_owned(), None)]
        );
        assert_eq!(options("linerate tune tcp --local -C bbr"), [value("congestion", "bbr")]);
        assert_eq!(options("linerate udp --local"), []);
    }
}
