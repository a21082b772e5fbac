//! Who does things on a host: this process, with its helper where settings are made, or a
//! `linerate serve` there.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_experiment::campaign::plan::{self, Host};
use linerate_host::facts::facts;
use linerate_model::record::ErrorRecord;
use linerate_model::setting::Restoration;
use linerate_runner::agent::{
    self, Access, CommandOutcome, CommandRequest, Hands, Local, Permissions, Remote, Reply,
    Request, run_command,
};
use linerate_runner::signals::Interrupts;

use super::hosts::failure;

/// While a command runs, Ctrl-C is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Connects to a host. `changed` says that settings will be made there. Also says what an earlier
/// process had left changed on this machine.
///
/// # Errors
/// As [`Hands`].
pub fn of(
    host: &Host,
    key: Option<&[u8]>,
    changed: bool,
    interrupts: &Interrupts,
) -> Result<(Box<dyn Hands>, Restoration), ErrorRecord> {
    let Some(address) = &host.address else {
        let mut left = Restoration::default();
        let mut local = None;
        if changed {
            let program = program()?;
            let reboot = host.reboot.as_deref().and_then(|text| plan::split(text).ok());
            let taken = Local::take(&program, &agent::state_directory(), reboot, None)?;
            left = taken.1;
            local = Some(taken.0);
        }
        return Ok((Box::new(Here { local, interrupts: interrupts.clone() }), left));
    };
    let Some(key) = key else {
        return Err(ErrorRecord {
            exit_code: 2,
            ..failure(
                "key",
                format!("cannot take over {address}"),
                format!("the host `{}` has no `key_file` in the plan", host.name),
                &[
                    "there: linerate serve --key-file FILE --allow-settings",
                    "in the plan: key_file = \"FILE\"",
                ],
            )
        });
    };
    let access =
        Access { name: address.clone(), port: host.port, ip: None, bind: None, key: key.to_vec() };
    let remote = Remote::connect(&access)?;
    Ok((Box::new(Far { remote, interrupts: interrupts.clone() }), Restoration::default()))
}

/// linerate's own file, for its helpers.
fn program() -> Result<PathBuf, ErrorRecord> {
    std::env::current_exe()
        .map_err(|e| failure("unable", "cannot find linerate's own file", e.to_string(), &[]))
}

/// A host elsewhere. What may take long ends at Ctrl-C.
struct Far {
    remote: Remote,
    interrupts: Interrupts,
}

impl Hands for Far {
    fn name(&self) -> &str {
        self.remote.name()
    }

    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
        match request {
            Request::Test(_) | Request::Command(_) => {
                self.remote.ask_until(request, &|| self.interrupts.seen())
            }
            request => self.remote.ask(request),
        }
    }
}

/// This machine. Settings go through a helper, which is started only where there are some.
struct Here {
    local: Option<Local>,
    interrupts: Interrupts,
}

impl Here {
    /// Ends the command at Ctrl-C: the terminal's own signal does not reach its process group.
    /// With `program`, linerate itself, it does not outlive this process.
    fn command(
        &self,
        request: &CommandRequest,
        program: Option<&Path>,
    ) -> Result<CommandOutcome, ErrorRecord> {
        let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if self.interrupts.seen() {
                        stop.store(true, Ordering::Relaxed);
                        return;
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
            });
            let done = run_command(request, &stop, program);
            over.store(true, Ordering::Relaxed);
            done
        })
    }
}

impl Hands for Here {
    fn name(&self) -> &str {
        "local"
    }

    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
        match request {
            Request::Facts => {
                let permissions = Permissions { settings: true, commands: true, reboot: true };
                Ok(Reply::Facts { host: Box::new(facts(None)), permissions })
            }
            Request::Command(command) => {
                self.command(&command, Some(&program()?)).map(Reply::Command)
            }
            Request::Reboot { command } => {
                let default = || vec!["systemctl".to_owned(), "reboot".to_owned()];
                let argv = command.unwrap_or_else(default);
                let shown = argv.join(" ");
                let request = CommandRequest { argv, limit_ms: 60_000, keep_bytes: 4_096 };
                // What reboots the machine may well end this process first.
                let done = self.command(&request, None)?;
                if done.code == Some(0) || done.signal.is_some() {
                    return Ok(Reply::Done);
                }
                let why = format!("`{shown}` ended with code {:?}: {}", done.code, done.err.trim());
                Err(failure("reboot", "cannot reboot this machine", why, &[]))
            }
            Request::Ping | Request::Alive | Request::Bye => Ok(Reply::Done),
            request => match &mut self.local {
                Some(local) => local.ask(request),
                None => Ok(Reply::Restored(Restoration::default())),
            },
        }
    }
}
