//! The hosts of a plan on the network: this process, with its helper where settings are made, or a
//! `linerate serve` there.

use std::path::PathBuf;

use linerate_experiment::campaign::plan::Host;
use linerate_host::facts::facts;
use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::Restoration;
use linerate_runner::agent::{
    self, Access, Hand, HostAgent, Permissions, Remote, Reply, Request, run_command,
};
use linerate_runner::signals::Stop;

/// Finds the hosts of a plan.
pub trait Hosts {
    /// Connects to a host; `changed` says that settings will be made there. `stop` ends the connecting,
    /// and what may take long on the host. Also says what an earlier process had left changed.
    ///
    /// # Errors
    /// As [`HostAgent`]; why it cannot be reached.
    fn connect(
        &mut self,
        host: &Host,
        key: Option<&[u8]>,
        changed: bool,
        stop: &Stop,
    ) -> Result<(Box<dyn HostAgent>, Restoration), ErrorRecord>;

    /// Whether something listens on a TCP port.
    ///
    /// # Errors
    /// Why not; `interrupted` once `stop` says so.
    fn listens(&mut self, name: &str, port: u16, stop: &Stop) -> Result<(), ErrorRecord>;
}

/// Those that the network reaches, and this one.
#[derive(Debug, Clone)]
pub struct NetworkHosts {
    /// A program that has linerate's helpers ([`agent::helper`], [`agent::keep`]) as verbs of their
    /// names; usually this one.
    pub program: PathBuf,
}

impl Hosts for NetworkHosts {
    fn connect(
        &mut self,
        host: &Host,
        key: Option<&[u8]>,
        changed: bool,
        stop: &Stop,
    ) -> Result<(Box<dyn HostAgent>, Restoration), ErrorRecord> {
        let Some(address) = &host.address else {
            let mut left = Restoration::default();
            let mut local = None;
            if changed {
                let (program, state) = (self.program.clone(), agent::state_directory());
                let options =
                    agent::Options { program, state, commands: true, reboot: None, profile: false };
                let taken = Hand::take(options)?;
                left = taken.1;
                local = Some(taken.0);
            }
            let here = Here { local, program: self.program.clone(), stop: stop.clone() };
            return Ok((Box::new(here), left));
        };
        let Some(key) = key else {
            return Err(ErrorRecord::new(
                ErrorKind::Key,
                format!("cannot take over {address}"),
                format!("the host `{}` has no `key_file` in the plan", host.name),
                &[
                    "there: linerate serve --key-file FILE --allow-settings",
                    "in the plan: key_file = \"FILE\"",
                ],
            )
            .ending(Exit::Usage));
        };
        let (name, key) = (address.clone(), key.to_vec());
        let access = Access { name, port: host.port, ip: None, bind: None, key };
        let remote = Remote::connect_until(&access, stop)?;
        Ok((Box::new(remote), Restoration::default()))
    }

    fn listens(&mut self, name: &str, port: u16, stop: &Stop) -> Result<(), ErrorRecord> {
        agent::listens(name, port, stop)
    }
}

/// This machine. Settings go through a helper, which is started only where there are some.
struct Here {
    local: Option<Hand>,
    program: PathBuf,
    stop: Stop,
}

impl HostAgent for Here {
    fn name(&self) -> &str {
        "local"
    }

    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
        match request {
            Request::Facts => {
                let permissions =
                    Permissions { settings: true, commands: true, reboot: true, profile: false };
                Ok(Reply::Facts { host: Box::new(facts(None)), permissions })
            }
            Request::Command(command) => {
                // The terminal's own signal does not reach its process group; with the program it
                // does not outlive this process.
                run_command(&command, &self.stop, Some(&self.program)).map(Reply::Command)
            }
            Request::Reboot { command } => {
                let default = || vec!["systemctl".to_owned(), "reboot".to_owned()];
                let argv = command.unwrap_or_else(default);
                agent::reboot_by(&argv, &self.stop).map(|()| Reply::Done)
            }
            Request::Ping | Request::Lease(_) | Request::Bye => Ok(Reply::Done),
            request => match &mut self.local {
                Some(local) => local.ask(request),
                None => Ok(Reply::Restored(Restoration::default())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reboot_of_this_machine_that_is_stopped_has_not_begun() {
        let stop = Stop::default();
        let mut here = Here { local: None, program: "linerate".into(), stop: stop.clone() };
        here.reboot(Some(&["true".to_owned()])).unwrap();
        stop.now();
        let error = here.reboot(Some(&["sleep", "600"].map(String::from))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Interrupted);
    }
}
