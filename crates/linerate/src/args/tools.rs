//! `linerate completions` and `linerate man`.

use std::path::PathBuf;

use clap::Args;

use linerate_ask::help;

/// Prints the JSON Schema of the run record, or of another document.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::tools("  linerate schema > run-record.schema.json
  linerate schema compare\n"))]
pub struct SchemaArgs {
    /// Of which document.
    #[arg(value_name = "DOCUMENT", default_value = "run")]
    pub document: Document,
}

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Document {
    /// `--json` of udp, tcp and rr.
    Run,
    /// A line of `--json-lines` of udp, tcp and rr.
    RunLine,
    /// `--json` of sweep.
    Sweep,
    /// A line of `sweep --json-lines`.
    SweepLine,
    /// `--json` of search.
    Search,
    /// A line of `search --json-lines`.
    SearchLine,
    /// A line of `watch --json-lines`.
    WatchLine,
    /// `--json` of tune.
    Tune,
    /// A line of `tune --json-lines`.
    TuneLine,
    /// `fleet run --json` and `fleet results --json`.
    Fleet,
    /// What `fleet schedule --webhook` posts.
    FleetChange,
    /// `fleet hosts --json`.
    FleetHosts,
    /// `fleet doctor --json`.
    FleetDoctor,
    /// `fleet events --json`.
    FleetEvents,
    /// `doctor --json`.
    Doctor,
    /// `profile --json`.
    Profile,
    /// `compare --json`.
    Compare,
    /// `campaign run --json` and a line of `--json-lines`, also of resume.
    Campaign,
    /// `campaign status --json`.
    CampaignStatus,
    /// A line of `campaign export --format json-lines`.
    CampaignExport,
    /// A line of `serve --json-lines`.
    Serve,
    /// `keys list --json`.
    Keys,
    /// What `--json` prints where nothing could be measured.
    Error,
}

/// Prints the completion script of a shell.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::tools("  linerate completions bash > /etc/bash_completion.d/linerate
  linerate completions zsh > ~/.zfunc/_linerate\n"))]
pub struct CompletionsArgs {
    /// Whose script.
    pub shell: clap_complete::Shell,
}

/// Prints the manual page, or writes those of all commands.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::tools("  linerate man | man -l -
  linerate man --dir /usr/local/share/man/man1\n"))]
pub struct ManArgs {
    /// Write a page for linerate and one for each command into this directory.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
