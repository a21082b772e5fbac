//! The command line: one file a verb, what measures in `linerate_ask`.

pub mod again;
mod habits;
pub mod logins;
pub mod serve;
pub mod tools;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use linerate_model::record::ErrorRecord;

use linerate_ask::{Color, Measure, help, preset, usage};

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
    Keys(crate::keys::KeysArgs),
    /// The helper that keeps settings; linerate starts it by itself.
    #[command(hide = true)]
    SettingsHelper(serve::HelperArgs),
    /// The process with rights behind a server; linerate starts it by itself.
    #[command(hide = true)]
    SettingsMonitor(serve::MonitorArgs),
    /// Ends a command when its parent is gone; linerate starts it by itself.
    #[command(hide = true)]
    #[command(name = linerate_runner::agent::KEEPER_VERB)]
    SettingsGuard,
    #[command(flatten)]
    Measure(Measure),
    Doctor(Box<linerate_ask::doctor::DoctorArgs>),
    Profile(Box<linerate_ask::profile::ProfileArgs>),
    Watch(crate::watch::WatchArgs),
    Probe(crate::probe::ProbeArgs),
    Campaign(crate::campaign::args::CampaignArgs),
    Fleet(Box<crate::fleet::args::FleetArgs>),
    Agent(crate::agent::args::AgentArgs),
    Compare(Box<crate::compare::CompareArgs>),
    /// iperf 2's client and server, with its options and output.
    #[command(disable_help_flag = true)]
    Iperf {
        /// Options, as iperf 2 takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
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
    /// netperf's client, with its options and output.
    #[command(disable_help_flag = true)]
    Netperf {
        /// Options, as netperf takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// netperf's server, with its options.
    #[command(disable_help_flag = true)]
    Netserver {
        /// Options, as netserver takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// nuttcp's client and server, with its options and output.
    #[command(disable_help_flag = true)]
    Nuttcp {
        /// Options, as nuttcp takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    Report(Box<crate::report::ReportArgs>),
    Schema(tools::SchemaArgs),
    Completions(tools::CompletionsArgs),
    Man(tools::ManArgs),
}

/// The command line, or nothing when help or the version was asked for and printed.
pub fn parse(argv: Vec<OsString>) -> Result<Option<Cli>, ErrorRecord> {
    let verb = linerate_ask::verb_of(&Cli::command(), &argv);
    let mut command = linerate_ask::with_numbers_below_zero(Cli::command());
    let found = command.try_get_matches_from_mut(&argv);
    match found.and_then(|found| Ok((Cli::from_arg_matches(&found)?, found))) {
        Ok((cli, found)) => {
            again::refuse_ignored(&command, &found)?;
            Ok(Some(with_profile(&argv, &found)?.unwrap_or(cli)))
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
                &["linerate udp --local", "`linerate --help` lists the commands"],
            )),
            _ => Err(habits::explain(&argv, verb.as_deref())
                .unwrap_or_else(|| usage::from_clap(&error, verb.as_deref()))),
        },
    }
}

/// The command line with the options of the profile that it names.
fn with_profile(argv: &[OsString], found: &ArgMatches) -> Result<Option<Cli>, ErrorRecord> {
    let Some(argv) = preset::expand(argv, found)? else { return Ok(None) };
    let mut command = linerate_ask::with_numbers_below_zero(Cli::command());
    let found = command.try_get_matches_from_mut(&argv);
    let cli = found.and_then(|found| Cli::from_arg_matches(&found));
    let verb = linerate_ask::verb_of(&command, &argv);
    cli.map(Some).map_err(|error| preset::blamed(usage::from_clap(&error, verb.as_deref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }
}
