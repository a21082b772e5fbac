//! Hosts under test, as the controller of a campaign uses them: this one, or one where
//! `linerate serve --allow-settings` runs. All calls wait for their end.

mod command;
mod deed;
mod guard;
mod hand;
mod held;
mod helper;
mod link;
mod monitor;
mod privileged;
mod reboot;
mod remote;
mod sampling;
mod session;
mod slot;

use std::path::PathBuf;

use linerate_model::doctor::HostDetails;
use linerate_model::exit::Exit;
use linerate_model::host::HostFacts;
use linerate_model::profile::HostProfile;
use linerate_model::record::{ErrorKind, ErrorRecord, RunRecord};
use linerate_model::setting::{Applied, ReadBack, Restoration, Setting, SettingName};

pub use linerate_wire::native::agent::{
    CommandOutcome, CommandRequest, DeviceChoice, Permissions, RemoteTest, Reply, Request,
};

pub use self::command::run as run_command;
pub use self::guard::{KEEPER_VERB, keep};
pub use self::hand::Hand;
pub use self::held::{set, still};
pub use self::helper::{HELPER_VERB, helper, restore, set_for_good, state_directory};
pub(crate) use self::monitor::Life;
pub use self::monitor::{MONITOR_VERB, monitor};
pub use self::reboot::reboot_by;
pub use self::remote::{Access, Remote, listens};
pub(crate) use self::session::{Session, admit};
pub(crate) use self::slot::{AgentSlot, Begun};

/// What a server lets controllers do beyond settings, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// linerate itself, which is started again as the helper, the monitor and keepers of commands.
    pub program: PathBuf,
    /// Directory of the undo journal.
    pub state: PathBuf,
    /// Whether a controller may run commands of its choice.
    pub commands: bool,
    /// The command that reboots this host; `None` lets nobody reboot it.
    pub reboot: Option<Vec<String>>,
    /// Whether a controller may sample the stacks of this host's CPUs.
    pub profile: bool,
    /// Nobody can make these options where no host is to be controlled, so that the compiler leaves out all that needs them.
    #[cfg(not(feature = "control"))]
    never: std::convert::Infallible,
}

/// What can be done with a host under test.
///
/// Whatever happens to the one who holds it, the host is put back: when this is dropped, when the
/// process dies, when the connection breaks or falls silent.
pub trait HostAgent: Send {
    /// How the host was named.
    fn name(&self) -> &str;

    /// Asks one thing and waits for the answer; the methods below put it in words.
    ///
    /// # Errors
    /// What the host says against it, or why it cannot be reached any more.
    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord>;

    /// Who it is now, its `boot_id` among it, and what may be done with it.
    ///
    /// # Errors
    /// When it cannot be reached any more.
    fn facts(&mut self) -> Result<(HostFacts, Permissions), ErrorRecord> {
        match self.ask(Request::Facts)? {
            Reply::Facts { host, permissions } => Ok((*host, permissions)),
            _ => Err(unexpected(self.name())),
        }
    }

    /// Looks at it and its path to whoever asks, as the doctor does; changes nothing.
    ///
    /// # Errors
    /// When it cannot be reached any more, or its release does not know the question.
    fn look(&mut self) -> Result<HostDetails, ErrorRecord> {
        match self.ask(Request::Look)? {
            Reply::Looked(host) => Ok(*host),
            _ => Err(unexpected(self.name())),
        }
    }

    /// Sets in the given order and reads back. What the kernel refuses is in the results; the
    /// others are set all the same.
    ///
    /// # Errors
    /// When the host cannot be reached any more, or lets nobody set anything.
    fn apply(
        &mut self,
        device: Option<&DeviceChoice>,
        settings: &[Setting],
    ) -> Result<Vec<Applied>, ErrorRecord> {
        let request = Request::Apply { device: device.cloned(), settings: settings.to_vec() };
        match self.ask(request)? {
            Reply::Applied(applied) if applied.len() == settings.len() => Ok(applied),
            _ => Err(unexpected(self.name())),
        }
    }

    /// Reads settings as they are now, in the given order.
    ///
    /// # Errors
    /// As [`HostAgent::apply`].
    fn read(
        &mut self,
        device: Option<&DeviceChoice>,
        names: &[SettingName],
    ) -> Result<Vec<ReadBack>, ErrorRecord> {
        match self.ask(Request::Read { device: device.cloned(), names: names.to_vec() })? {
            Reply::Read(back) if back.len() == names.len() => Ok(back),
            _ => Err(unexpected(self.name())),
        }
    }

    /// Puts back everything that was set since the start. May be called at any time, any number of
    /// times.
    ///
    /// # Errors
    /// As [`HostAgent::apply`].
    fn restore(&mut self) -> Result<Restoration, ErrorRecord> {
        match self.ask(Request::Restore)? {
            Reply::Restored(restoration) => Ok(restoration),
            _ => Err(unexpected(self.name())),
        }
    }

    /// Says what its next test is called: the same words are the same test. For a host that keeps results under them.
    fn name_test(&mut self, _turn: &str) {}

    /// Says what both hosts of its tests set while one lasts. Whether whoever runs the test sees to that; else it is for the
    /// caller, at both.
    fn sets_for_tests(&mut self, _settings: &[Setting]) -> bool {
        false
    }

    /// Runs a test with that host as the client. A test that fails is a record that says so.
    ///
    /// # Errors
    /// As [`HostAgent::apply`]; `helper_lost` when the settings did not hold to the end.
    fn run_test(&mut self, test: &RemoteTest) -> Result<RunRecord, ErrorRecord> {
        match self.ask(Request::Test(Box::new(test.clone())))? {
            Reply::Record(record) => Ok(*record),
            _ => Err(unexpected(self.name())),
        }
    }

    /// Runs a command there. A command that fails is an outcome.
    ///
    /// # Errors
    /// When the program cannot be started; as [`HostAgent::run_test`].
    fn run_command(&mut self, command: &CommandRequest) -> Result<CommandOutcome, ErrorRecord> {
        match self.ask(Request::Command(command.clone()))? {
            Reply::Command(outcome) => Ok(outcome),
            _ => Err(unexpected(self.name())),
        }
    }

    /// Begins a reboot: by `command`, or as the host is set up. That it has booted is proven by
    /// another `boot_id` only, after connecting anew.
    ///
    /// # Errors
    /// When the host lets nobody reboot it.
    fn reboot(&mut self, command: Option<&[String]>) -> Result<(), ErrorRecord> {
        self.ask(Request::Reboot { command: command.map(<[String]>::to_vec) }).map(drop)
    }

    /// Samples the stacks of its CPUs from now on.
    ///
    /// # Errors
    /// When the host lets nobody, or cannot.
    fn sample_begin(&mut self) -> Result<(), ErrorRecord> {
        self.ask(Request::SampleBegin).map(drop)
    }

    /// Ends that, and gives what was sampled.
    ///
    /// # Errors
    /// When nothing is being sampled; as [`HostAgent::apply`].
    fn sample_end(&mut self) -> Result<HostProfile, ErrorRecord> {
        match self.ask(Request::SampleEnd)? {
            Reply::Sampled(host) => Ok(*host),
            _ => Err(unexpected(self.name())),
        }
    }

    /// Whether it is there.
    ///
    /// # Errors
    /// When it is not.
    fn ping(&mut self) -> Result<(), ErrorRecord> {
        self.ask(Request::Ping).map(drop)
    }
}

/// An answer that is none to what was asked.
fn unexpected(name: &str) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Protocol,
        format!("cannot control {name}"),
        "it gave an answer to something else",
        &["use the same release of linerate at both ends"],
    )
    .ending(Exit::Failed)
}
