//! The command line: one file a verb, shared groups in [`common`].

pub mod again;
pub mod logins;
pub mod serve;
pub mod tools;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use linerate_model::record::ErrorRecord;

use crate::habits;
use linerate_ask::{Color, Measure, help, usage};

/// Measures what a network path and the hosts at its ends can carry, and says what limits it.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, after_help = help::top())]
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

/// The verbs. Each is described where its arguments are.
#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(serve::ServeArgs),
    /// The helper that keeps settings; linerate starts it by itself.
    #[command(hide = true)]
    SettingsHelper(serve::HelperArgs),
    /// Ends a command when its parent is gone; linerate starts it by itself.
    #[command(hide = true)]
    #[command(name = linerate_runner::agent::KEEPER_VERB)]
    Keeper,
    #[command(flatten)]
    Measure(Measure),
    Campaign(crate::campaign::args::CampaignArgs),
    Compare(Box<crate::compare::CompareArgs>),
    /// iperf3's client and server, with its options and output.
    #[command(disable_help_flag = true)]
    Iperf3 {
        /// Options, as iperf3 takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Files of numbers compared as ministat does, with its options and output.
    #[command(disable_help_flag = true)]
    Ministat {
        /// Options and files, as ministat takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    Report(Box<crate::report::ReportArgs>),
    Schema(tools::SchemaArgs),
    Completions(tools::CompletionsArgs),
    Man(tools::ManArgs),
}

/// The definition, in which a number below zero after an option is its value, and is refused as one; `-5`
/// alone would be taken for an option.
fn definition() -> clap::Command {
    let value = |arg: clap::Arg| {
        let negative = arg.get_action().takes_values() && !arg.is_positional();
        if negative { arg.allow_negative_numbers(true) } else { arg }
    };
    Cli::command().mut_subcommands(|command| command.mut_args(value))
}

/// The command line, or nothing when help or the version was asked for and printed.
pub fn parse(argv: Vec<OsString>) -> Result<Option<Cli>, ErrorRecord> {
    let verb = verb_of(&argv);
    let mut command = definition();
    let found = command.try_get_matches_from_mut(&argv);
    match found.and_then(|found| Ok((Cli::from_arg_matches(&found)?, found))) {
        Ok((cli, found)) => again::refuse_ignored(&command, &found).map(|()| Some(cli)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed output has no use for help.
                let _ = error.print();
                Ok(None)
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Err(usage::error(
                "no command was given",
                "linerate needs to know what to do",
                &["linerate udp --local", "`linerate --help` lists the commands"],
            )),
            _ => Err(habits::explain(&argv, verb.as_deref())
                .unwrap_or_else(|| usage::from_clap(&error, verb.as_deref()))),
        },
    }
}

/// The verb among the words, if it is one: an error in its arguments is explained by its own help.
fn verb_of(argv: &[OsString]) -> Option<String> {
    let command = Cli::command();
    let word = argv.iter().skip(1).find_map(|w| w.to_str().filter(|w| !w.starts_with('-')))?;
    command.find_subcommand(word).map(|c| c.get_name().to_owned())
}

#[cfg(test)]
mod tests;
