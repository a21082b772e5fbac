//! What a user may ask: options as data, checked against the table of limits and turned into the
//! runner's requests. The command line fills them, and so does a campaign's plan.
//!
//! ```
//! use linerate_ask::test::asked;
//! use linerate_model::plan::TrafficKind;
//!
//! let options = [("host".to_owned(), "192.0.2.1".into()), ("streams".to_owned(), 4.into())];
//! let test = asked(TrafficKind::Tcp, &options).unwrap();
//! assert_eq!(test.request.plan.streams, 4);
//! // What makes no sense is refused before anything is sent.
//! let refused = asked(TrafficKind::Tcp, &[("strems".to_owned(), 4.into())]).unwrap_err();
//! assert_eq!(refused.error.why, "there is no such option");
//! ```

#![forbid(unsafe_code)]

pub mod common;
pub mod datagrams;
pub mod doctor;
mod from_text;
mod getopt;
pub mod help;
pub mod iperf2;
pub mod iperf3;
pub mod key;
pub mod netperf;
pub mod nuttcp;
pub mod preset;
pub mod profile;
pub mod rr;
pub mod search;
pub mod sweep;
pub mod target;
pub mod tcp;
pub mod test;
pub mod trial;
pub mod tune;
pub mod udp;
pub mod usage;
pub mod value;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use linerate_model::record::ErrorRecord;
use linerate_runner::client::Request;

/// The verbs that measure. Each is described where its options are.
#[allow(missing_docs, reason = "what is said of a variant here would be its help")]
#[derive(Debug, Subcommand)]
pub enum Measure {
    Udp(udp::UdpArgs),
    Tcp(tcp::TcpArgs),
    Rr(rr::RrArgs),
    Sweep(Box<sweep::SweepArgs>),
    Search(Box<search::SearchArgs>),
    Tune(Box<tune::TuneArgs>),
}

/// A command line of a verb that measures.
#[derive(Debug, Parser)]
#[command(name = "linerate")]
struct Line {
    /// Concerns the screen only.
    #[arg(long, global = true, default_value = "auto")]
    color: Color,
    #[command(subcommand)]
    measure: Measure,
}

impl Measure {
    /// The options of a verb: `--window`.
    pub fn options(verb: &str) -> Vec<String> {
        let command = Line::command().find_subcommand(verb).cloned().unwrap_or_default();
        command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
    }

    /// Old names of a verb's options, each with its name of today: `discard` of `send-only`.
    pub fn old_options(verb: &str) -> Vec<(String, String)> {
        let command = Line::command().find_subcommand(verb).cloned().unwrap_or_default();
        let old = |arg: &clap::Arg| {
            let name = arg.get_long().unwrap_or_default().to_owned();
            let old = arg.get_all_aliases().unwrap_or_default();
            old.into_iter().map(|old| (old.to_owned(), name.clone())).collect::<Vec<_>>()
        };
        command.get_arguments().flat_map(old).collect()
    }

    /// Understands the command line of an earlier run once more.
    ///
    /// # Errors
    /// When it is none of these verbs', or not of this version.
    pub fn from_words(words: &[String]) -> Result<Self, ErrorRecord> {
        let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        let (command, verb) = for_line(Line::command(), &argv);
        let found = command.try_get_matches_from(&argv);
        let line = found.and_then(|found| Line::from_arg_matches(&found));
        line.map(|line| line.measure).map_err(|error| usage::from_clap(&error, verb.as_deref()))
    }
}

/// The command as it is for a line, and the verb among the line's words, if it is one: an error in its arguments is
/// explained by its own help. A number below zero after an option is its value, and is refused as one; `-5` alone
/// would be taken for an option. What other verbs take is left alone: to go through all costs milliseconds.
pub fn for_line(command: clap::Command, argv: &[OsString]) -> (clap::Command, Option<String>) {
    let word = argv.iter().skip(1).find_map(|w| w.to_str().filter(|w| !w.starts_with('-')));
    let found = word.and_then(|word| command.find_subcommand(word));
    let verb = found.map(|verb| verb.get_name().to_owned());
    let value = |arg: clap::Arg| {
        let negative = arg.get_action().takes_values() && !arg.is_positional();
        if negative { arg.allow_negative_numbers(true) } else { arg }
    };
    let command = match &verb {
        Some(verb) => command.mut_subcommand(verb, |command| command.mut_args(value)),
        None => command.mut_subcommands(|command| command.mut_args(value)),
    };
    (command, verb)
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// One test, as asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// For the runner. It has no command yet: that is known to whoever asks.
    pub request: Request,
    /// What the user should know of it before it starts, such as a rate that was not asked for.
    pub notes: Vec<String>,
    /// Where the record is kept.
    pub save: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
