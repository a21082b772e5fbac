//! The command line: one file a verb, what measures in `linerate_ask`.

pub mod again;
#[cfg_attr(not(feature = "full"), path = "no_control.rs")]
pub mod control;
#[cfg(feature = "full")]
mod habits;
pub mod logins;
pub mod serve;
#[cfg(feature = "full")]
pub mod tools;
#[cfg(feature = "full")]
pub mod verb;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use linerate_model::record::ErrorRecord;

use linerate_ask::{Color, usage};

#[cfg(feature = "full")]
use habits::explain;

/// Measures what a network path and the hosts at its ends can carry, and says what limits it.
#[derive(Debug, Parser)]
#[command(name = "linerate", version)]
#[cfg_attr(feature = "full", command(after_help = linerate_ask::help::top()))]
pub struct Cli {
    /// When to use colour; `auto` means on a terminal, unless NO_COLOR is set.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs. Each is described where its arguments are. Without the feature `full` there are those of a server alone.
#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(Box<serve::ServeArgs>),
    #[cfg(feature = "full")]
    #[command(flatten)]
    Other(verb::Verb),
}

/// What to try first.
const FIRST: &str = if cfg!(feature = "full") { "linerate udp --local" } else { "linerate serve" };

/// A server's options are no habits of other clients.
#[cfg(not(feature = "full"))]
fn explain(_: &[OsString], _: Option<&str>) -> Option<ErrorRecord> {
    None
}

/// The command line, or nothing when help or the version was asked for and printed.
pub fn parse(argv: Vec<OsString>) -> Result<Option<Cli>, ErrorRecord> {
    let (mut command, verb) = linerate_ask::for_line(Cli::command(), &argv);
    let found = command.try_get_matches_from_mut(&argv);
    match found.and_then(|found| Ok((Cli::from_arg_matches(&found)?, found))) {
        Ok((cli, found)) => {
            again::refuse_ignored(&command, &found)?;
            #[cfg(feature = "full")]
            if let Some(cli) = with_profile(&argv, &found)? {
                return Ok(Some(cli));
            }
            Ok(Some(cli))
        }
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed output has no use for help.
                let _ = error.print();
                Ok(None)
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Err(usage::error(
                "no command was given",
                "linerate needs to know what to do",
                &[FIRST, "`linerate --help` lists the commands"],
            )),
            _ => Err(explain(&argv, verb.as_deref())
                .unwrap_or_else(|| usage::from_clap(&error, verb.as_deref()))),
        },
    }
}

/// The command line with the options of the profile that it names.
#[cfg(feature = "full")]
fn with_profile(argv: &[OsString], found: &clap::ArgMatches) -> Result<Option<Cli>, ErrorRecord> {
    use linerate_ask::preset;

    let Some((argv, name)) = preset::expand(argv, found)? else { return Ok(None) };
    let (mut command, verb) = linerate_ask::for_line(Cli::command(), &argv);
    let found = command.try_get_matches_from_mut(&argv);
    let cli = found.and_then(|found| Cli::from_arg_matches(&found));
    cli.map(Some).map_err(|e| usage::of_profile(usage::from_clap(&e, verb.as_deref()), &name))
}

/// The same error, with what to write where it is of a word that was meant as the value of the option before it, which takes
/// one behind an equals sign alone: apart from it the word is a host or nothing at all.
pub fn with_equals_sign(mut error: ErrorRecord, argv: &[OsString]) -> ErrorRecord {
    let words: Vec<&str> = argv.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let named = |word: &str| {
        let mut quoted = [format!("`{word}`"), format!("'{word}'")].into_iter();
        !word.starts_with('-')
            && quoted.any(|word| error.what.contains(&word) || error.why.contains(&word))
    };
    let hint = words.windows(2).find_map(|pair| match *pair {
        [option, value] if named(value) && takes_equals_sign(&Cli::command(), option) => {
            Some(format!("{option}={value}: the value of `{option}` follows an equals sign"))
        }
        _ => None,
    });
    error.hints.splice(0..0, hint);
    error
}

fn takes_equals_sign(command: &clap::Command, option: &str) -> bool {
    let long = option.strip_prefix("--");
    command.get_arguments().any(|arg| arg.is_require_equals_set() && arg.get_long() == long)
        || command.get_subcommands().any(|verb| takes_equals_sign(verb, option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_value_apart_from_its_option_is_told_how_to_be_written() {
        let hints = |line: &str| {
            let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = parse(argv.clone()).expect_err(line);
            let before = error.hints.clone();
            let after = with_equals_sign(error, &argv).hints;
            assert!(after.ends_with(&before), "{after:?}");
            after[..after.len() - before.len()].to_vec()
        };
        let hint = "--iperf2=5001: the value of `--iperf2` follows an equals sign";
        assert_eq!(hints("linerate serve --iperf2 5001"), [hint]);
        for line in ["linerate serve --port 1 5001", "linerate serve --iperf2 --frobnicate"] {
            assert!(hints(line).is_empty(), "{line}");
        }
        if cfg!(feature = "full") {
            let hint = "--web=127.0.0.1:8080: the value of `--web` follows an equals sign";
            assert_eq!(hints("linerate udp hydra2 --web 127.0.0.1:8080"), [hint]);
        }
    }
}
