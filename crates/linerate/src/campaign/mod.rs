//! `linerate campaign`.

pub mod args;
mod explain;
pub mod export;
mod show;
mod status;
mod unit;

use std::path::{Path, PathBuf};

use linerate_drive::campaign::{self, Ended, NetworkHosts, Read, is_store};
use linerate_drive::{Clock as _, Env, FromHere, SystemClock};
use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};

use self::args::{CampaignArgs, Place, Verb, Which};
use self::show::Show;
use crate::output::{self, Output};

/// Runs the verb.
pub fn run(args: &CampaignArgs) -> Result<Exit, ErrorRecord> {
    match &args.verb {
        Verb::Check { plan } => {
            explain::check(&Read::of(plan)?);
            Ok(Exit::Complete)
        }
        Verb::Explain { plan } => {
            explain::explain(&Read::of(plan)?);
            Ok(Exit::Complete)
        }
        Verb::Run { plan, place, output } => {
            let read = Read::of(plan)?;
            drive((*output).into(), |hosts, env| {
                campaign::begin(&read, &place.of(plan), hosts, env)
            })
        }
        Verb::Resume { which, output } => resume(which, (*output).into()),
        Verb::Status { which, json } => status::status(&which.store()?, *json),
        Verb::Restore { which } => restore(which),
        Verb::Export { which, format, dir, metric, comments } => {
            export::export(&which.store()?, *format, dir, metric.as_deref(), *comments)
        }
        Verb::InstallUnit { plan, place, print, dir, no_enable } => {
            let read = Read::of(plan)?;
            unit::install(&read, &place.of(plan), *print, dir, !*no_enable)
        }
    }
}

impl Place {
    fn of(&self, plan: &Path) -> PathBuf {
        self.store.clone().unwrap_or_else(|| plan.with_extension("db"))
    }
}

impl Which {
    /// The store of what was named, if there is one.
    fn store(&self) -> Result<PathBuf, ErrorRecord> {
        let path = match &self.place.store {
            None if is_store(&self.path) => self.path.clone(),
            _ => self.place.of(&self.path),
        };
        if path.exists() {
            return Ok(path);
        }
        Err(ErrorRecord::new(
            ErrorKind::NoStore,
            format!("there is no campaign {}", path.display()),
            "no store of this name exists",
            &["`linerate campaign run PLAN` begins one"],
        ))
    }
}

/// The hosts, with linerate's own file for its helpers.
fn hosts() -> Result<NetworkHosts, ErrorRecord> {
    let program = std::env::current_exe().map_err(|e| {
        ErrorRecord::new(ErrorKind::Unable, "cannot find linerate's own file", e.to_string(), &[])
    })?;
    Ok(NetworkHosts { program })
}

fn drive(
    form: Output,
    run: impl FnOnce(&mut NetworkHosts, &mut Env<'_>) -> Result<Ended, ErrorRecord>,
) -> Result<Exit, ErrorRecord> {
    let (clock, executor, mut show) = (SystemClock::default(), &mut FromHere, Show::new(form));
    let stop = output::stop_at_signals()?;
    let mut env = Env { executor, clock: &clock, stop, watcher: &mut show };
    let ended = run(&mut hosts()?, &mut env);
    let told = show.close(ended.as_ref().err());
    Ok(match ended {
        Ok(Ended::Done | Ended::Rebooting) => Exit::Complete,
        Ok(Ended::Short) => Exit::Failed,
        Ok(Ended::Interrupted) => Exit::Interrupted,
        Err(error) if told => {
            output::report_error(&error, output::OutputMode::TEXT);
            Exit::from_code(error.exit_code)
        }
        Err(error) => return Err(error),
    })
}

fn resume(which: &Which, form: Output) -> Result<Exit, ErrorRecord> {
    let path = which.store()?;
    let plan = (!is_store(&which.path)).then_some(which.path.as_path());
    drive(form, |hosts, env| campaign::resume(plan, &path, hosts, env))
}

fn restore(which: &Which) -> Result<Exit, ErrorRecord> {
    let date = SystemClock::default().date();
    let hosts = campaign::restore(&which.store()?, &mut hosts()?, &date)?;
    let mut said = String::new();
    for (host, left) in &hosts {
        if left.is_empty() {
            said.push_str(&format!("{host}: as before\n"));
        }
        for what in left {
            said.push_str(&format!("{host}: {}\n", linerate_report::clean::clean(what)));
        }
    }
    output::print(said.as_bytes())?;
    let all = hosts.values().all(Vec::is_empty);
    Ok(if all { Exit::Complete } else { Exit::Failed })
}
