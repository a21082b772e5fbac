//! `linerate campaign`: its arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use linerate_ask::common::OutputArgs;
use linerate_ask::help;

/// Settings x reboots x runs by one plan, crash-safe; leaves the hosts as it found them.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::campaign())]
pub struct CampaignArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs of a campaign.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Checks a plan; every fault with its line and column.
    #[command(after_help = help::tools("  linerate campaign check offload.toml\n"))]
    Check {
        /// The plan.
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
    },
    /// Prints every run of a plan in its order, what it sets, and the time it all will take.
    #[command(after_help = help::tools("  linerate campaign explain offload.toml\n"))]
    Explain {
        /// The plan.
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
    },
    /// Begins a campaign, or goes on with one that was begun by this very plan.
    #[command(after_help = help::tools("  linerate campaign run offload.toml\n  linerate campaign run offload.toml --store results/offload.db --json-lines\n"))]
    Run {
        /// The plan.
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Goes on after a crash, Ctrl-C, power cut or reboot.
    #[command(after_help = help::tools("  linerate campaign resume offload.toml\n  linerate campaign resume results/offload.db\n"))]
    Resume {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Says where a campaign stands, also while another process runs it.
    #[command(after_help = help::tools("  linerate campaign status offload.toml\n  linerate campaign status offload.db --json\n"))]
    Status {
        #[command(flatten)]
        which: Which,
        /// Print JSON.
        #[arg(short = 'J', long)]
        json: bool,
    },
    /// Puts the hosts of a campaign back as they were before it.
    #[command(after_help = help::tools("  linerate campaign restore offload.toml\n"))]
    Restore {
        #[command(flatten)]
        which: Which,
    },
    /// Writes the figures for other programs: one .stat file a setting, CSV, or the records.
    #[command(after_help = help::tools("  linerate campaign export offload.toml\n  ministat hydra1/test_linerate_tcp6_*.stat\n  linerate campaign export offload.db --format csv > runs.csv\n  linerate campaign export offload.db --format json-lines > records.jsonl\n"))]
    Export {
        #[command(flatten)]
        which: Which,
        /// stat: a folder for the host and a file for each setting, one figure a line; csv: a row a
        /// run; json-lines: a run with its record a line.
        #[arg(long, value_enum, default_value = "stat")]
        format: Format,
        /// Folder for .stat files.
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Figure of the runs' records for stat and csv, as `linerate compare --metric` [default: the plan's].
        #[arg(long, value_name = "NAME")]
        metric: Option<String>,
        /// Mark unit and boots by comments, which compare reads and ministat skips.
        #[arg(long)]
        comments: bool,
    },
    /// Writes a systemd unit that goes on after each boot of this machine, for a campaign whose
    /// controller is on the host that reboots.
    #[command(after_help = help::tools("  linerate campaign install-unit offload.toml\n  linerate campaign install-unit offload.toml --print\n"))]
    InstallUnit {
        /// The plan.
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
        #[command(flatten)]
        place: Place,
        /// Print the unit and change nothing.
        #[arg(long)]
        print: bool,
        /// Folder of the unit.
        #[arg(long, value_name = "DIR", default_value = "/etc/systemd/system")]
        dir: PathBuf,
        /// Only write the unit: do not ask systemd to enable it.
        #[arg(long)]
        no_enable: bool,
    },
}

/// Where the store is.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// The campaign's store [default: the plan's path with .db].
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// Which campaign.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// The plan, or the store itself.
    #[arg(value_name = "PLAN|STORE")]
    pub path: PathBuf,
    #[command(flatten)]
    pub place: Place,
}

/// What `export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For ministat and compare.
    Stat,
    /// For spreadsheets.
    Csv,
    /// For programs.
    JsonLines,
}
