//! The verbs beside those of a server.

use std::ffi::OsString;

use clap::Subcommand;
use linerate_ask::Measure;

use super::{control, tools};

/// Each is described where its arguments are.
#[derive(Debug, Subcommand)]
pub enum Verb {
    Keys(crate::keys::KeysArgs),
    /// The helper that keeps settings; linerate starts it by itself.
    #[command(hide = true)]
    SettingsHelper(control::HelperArgs),
    /// The process with rights behind a server; linerate starts it by itself.
    #[command(hide = true)]
    SettingsMonitor(control::MonitorArgs),
    /// Ends a command when its parent is gone; linerate starts it by itself.
    #[command(hide = true)]
    #[command(name = linerate_runner::agent::KEEPER_VERB)]
    SettingsGuard,
    #[command(flatten)]
    Measure(Box<Measure>),
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
