//! `linerate agent`: its arguments.

use std::path::PathBuf;

use clap::Args;
use linerate_ask::help;

/// An agent of a fleet: connects to the fleet's broker and runs the tests that its owner's policy allows.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::tools("  linerate agent --enrol token --state-dir /var/lib/linerate-agent
  linerate agent --policy /etc/linerate/policy.toml --address 192.0.2.7
  linerate agent --port 5301\n"))]
pub struct AgentArgs {
    /// Become the agent that the token in this file is for, and end; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub enrol: Option<PathBuf>,
    /// With --enrol: certificates that are believed, in PEM [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "enrol")]
    pub ca: Option<PathBuf>,
    /// Directory for what has to outlast this process: its key, and results until a store has them.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/linerate-agent")]
    pub state_dir: PathBuf,
    /// What may be asked of this host. Without this file nothing is.
    #[arg(long, value_name = "FILE", default_value = "/etc/linerate/policy.toml")]
    pub policy: PathBuf,
    /// Host name or address at which the other agents reach this host [default: its name].
    #[arg(long, value_name = "HOST")]
    pub address: Option<String>,
    /// TCP and UDP port at which tests are answered, while there is one; 0 takes a free one each time.
    #[arg(long, value_name = "PORT", default_value = "5201")]
    pub port: u16,
}
