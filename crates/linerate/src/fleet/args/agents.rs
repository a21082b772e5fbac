//! Arguments of what is done with agents and their broker.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use linerate_model::units::Nanos;

/// What `init` takes.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// A new directory, which is secret.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Where the broker listens; beyond this host with --cert only.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4222")]
    pub listen: SocketAddr,
    /// Where agents and coordinators connect to [default: as --listen].
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// The broker's certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    pub cert: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub cert_key: Option<PathBuf>,
    /// Certificates that this host believes, in PEM [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub ca: Option<PathBuf>,
}

/// What `enrol` takes.
#[derive(Debug, Clone, Args)]
pub struct EnrolArgs {
    /// What `fleet init` made.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// What the agent is called: a-z, 0-9, - and _.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The token is good for so long.
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub wait: Nanos,
    /// The agent is let in for so long [default: for good].
    #[arg(long, value_name = "TIME")]
    pub lifetime: Option<Nanos>,
}

/// What `doctor` takes.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// What `fleet init` made.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Every note with its reasons, and what could not be looked at.
    #[arg(short, long)]
    pub verbose: bool,
    /// Print one JSON document.
    #[arg(short = 'J', long)]
    pub json: bool,
}

/// What `events` takes.
#[derive(Debug, Clone, Args)]
pub struct EventsArgs {
    /// What `fleet init` made.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Only what this agent said, and what concerns it.
    #[arg(value_name = "NAME")]
    pub agent: Option<String>,
    /// How far back.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = super::length)]
    pub since: u64,
    /// Print one JSON document.
    #[arg(short = 'J', long)]
    pub json: bool,
}

/// What `hosts` takes.
#[derive(Debug, Clone, Args)]
pub struct HostsArgs {
    /// What `fleet init` made.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// All that is known of this agent.
    #[arg(value_name = "NAME")]
    pub host: Option<String>,
    /// All that is known of each.
    #[arg(short, long)]
    pub verbose: bool,
    /// Print one JSON document.
    #[arg(short = 'J', long)]
    pub json: bool,
}

/// What `revoke` takes.
#[derive(Debug, Clone, Args)]
pub struct RevokeArgs {
    /// What `fleet init` made.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The agent.
    #[arg(value_name = "NAME")]
    pub name: String,
}
