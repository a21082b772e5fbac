//! `linerate serve --allow-settings`: what controllers may do with this host, and the processes that do it.

use std::path::PathBuf;

use clap::Args;
use linerate_model::record::ErrorRecord;
use linerate_runner::agent;
use linerate_runner::sandbox::Beside;

use linerate_ask::usage;

/// Control of this host.
#[derive(Debug, Clone, Args)]
pub struct ControlArgs {
    /// Let a controller of campaigns with the key change network settings of this host, look at it as `linerate doctor` does,
    /// and run tests from it; every setting is put back when it is gone. Needs --key-file or --keys, and root, which
    /// a process apart keeps: with --user, what reads the network has no rights.
    #[arg(long, requires = "proof", help_heading = "Control of this host")]
    allow_settings: bool,
    /// Let that controller run any command as this server's user: Landlock is then off, and seccomp takes little.
    #[arg(long, requires = "allow_settings", help_heading = "Control of this host")]
    allow_commands: bool,
    /// Let that controller reboot this host, by this command.
    #[arg(
        long,
        value_name = "COMMAND",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "systemctl reboot",
        requires = "allow_settings",
        help_heading = "Control of this host"
    )]
    allow_reboot: Option<String>,
    /// Let that controller sample the stacks of this host's CPUs (`linerate profile --key-file`): it learns how much time
    /// linerate and the kernel take for what, and of other programs how much, without their names.
    #[arg(long, requires = "allow_settings", help_heading = "Control of this host")]
    allow_profile: bool,
    /// Directory of the undo journal of settings [default: $STATE_DIRECTORY or /var/lib/linerate].
    #[arg(
        long,
        value_name = "DIR",
        requires = "allow_settings",
        help_heading = "Control of this host"
    )]
    state_dir: Option<PathBuf>,
}

impl ControlArgs {
    /// Whether commands are run that a controller chooses.
    pub fn runs_commands(&self) -> bool {
        self.allow_commands
    }

    /// What this process does besides serving tests.
    pub fn beside(&self) -> Beside {
        match (self.allow_settings, self.allow_commands) {
            (_, true) => Beside::Programs,
            (true, false) => Beside::Tests,
            (false, false) => Beside::Nothing,
        }
    }

    /// What controllers may do, where there may be one.
    pub fn agent(&self) -> Result<Option<agent::Options>, ErrorRecord> {
        if !self.allow_settings {
            return Ok(None);
        }
        let words = |command: &String| -> Vec<String> {
            command.split_whitespace().map(String::from).collect()
        };
        let reboot = self.allow_reboot.as_ref().map(words);
        if reboot.as_ref().is_some_and(Vec::is_empty) {
            return Err(usage::error(
                "cannot use `--allow-reboot=`",
                "it has no command",
                &["--allow-reboot alone means: systemctl reboot"],
            ));
        }
        Ok(Some(agent::Options {
            program: program()?,
            state: self.state_dir.clone().unwrap_or_else(agent::state_directory),
            commands: self.allow_commands,
            reboot,
            profile: self.allow_profile,
        }))
    }
}

/// The helper of --allow-settings and of campaigns; linerate starts it by itself.
#[derive(Debug, Args)]
pub struct HelperArgs {
    /// Directory of the undo journal.
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
}

/// The monitor of --allow-settings; linerate starts it by itself.
#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// Directory of the undo journal.
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// A word of the command that reboots this host.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    reboot: Vec<String>,
}

impl MonitorArgs {
    /// What it was told.
    pub fn options(self) -> Result<agent::Options, ErrorRecord> {
        let reboot = Some(self.reboot).filter(|words| !words.is_empty());
        let (program, state) = (program()?, self.state_dir);
        Ok(agent::Options { program, state, commands: false, reboot, profile: false })
    }
}

fn program() -> Result<PathBuf, ErrorRecord> {
    std::env::current_exe().map_err(|e| {
        usage::error("cannot let controllers in", format!("this program has no path: {e}"), &[])
    })
}
