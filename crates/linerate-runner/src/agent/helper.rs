//! The helper: a process of its own that changes settings and puts them back, whatever happens to
//! the one who asked for them.
//!
//! It is this very program under another verb, in a process group of its own, joined to its parent
//! by a pair of sockets. When the parent ends in any way, the kernel closes its socket, and the
//! helper puts everything back and ends. When the helper is killed, its parent starts another, which
//! finds the journal; when both are, the next start does. It knows three orders: apply, restore,
//! ping.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_host::settings::SettingsGuard;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Applied, Restoration, Setting};
use linerate_wire::native::agent::Reply;
use linerate_wire::native::order::Order;

use super::link::{Link, Parent};

/// The hidden verb.
pub const HELPER_VERB: &str = "settings-helper";
/// A helper that has just lost its parent may still be putting things back.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
/// Orders to drivers take seconds at worst.
pub(super) const REPLY_LIMIT: Duration = Duration::from_secs(120);

fn lost(why: impl ToString) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::HelperLost,
        "the process that changes settings has ended",
        why.to_string(),
        &["what was changed was put back; apply the settings again"],
    )
}

/// The helper's whole life. Its standard input is the socket to its parent.
///
/// # Errors
/// When it was not started by linerate, or when something could not be put back.
pub fn helper(state: &Path) -> Result<(), ErrorRecord> {
    let mut parent = Parent::of_this(HELPER_VERB)?;
    let mut keeper = match open(state) {
        Ok((keeper, left)) => {
            parent.answer(&Reply::Restored(left));
            keeper
        }
        Err(error) => {
            parent.answer(&Reply::Failed(Box::new(error.clone())));
            return Err(error);
        }
    };
    while let Some(order) = parent.order() {
        if parent.answer(&answer(&mut keeper, order)).is_none() {
            break;
        }
    }
    let back = keeper.restore();
    if back.complete() {
        return Ok(());
    }
    Err(ErrorRecord::new(
        ErrorKind::Restore,
        "some settings are not as they were",
        back.left().join("; "),
        &[],
    ))
}

/// Takes the journal, as soon as a helper that has just lost its parent is done with it.
fn open(state: &Path) -> Result<(SettingsGuard, Restoration), ErrorRecord> {
    let start = Instant::now();
    loop {
        match SettingsGuard::open(state) {
            Err(e) if e.kind == ErrorKind::Busy && start.elapsed() < BUSY_LIMIT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            other => return other,
        }
    }
}

fn answer(keeper: &mut SettingsGuard, order: Result<Order, String>) -> Reply {
    match order {
        Ok(Order::Apply { device, setting }) => {
            Reply::Applied(keeper.apply(device.as_deref(), &[setting]))
        }
        Ok(Order::Restore) => Reply::Restored(keeper.restore()),
        Ok(Order::Ping) => Reply::Done,
        Ok(Order::Reboot) => refused("it does not reboot"),
        Err(why) => refused(&why),
    }
}

/// What is no order, or not for this process.
pub(super) fn refused(why: &str) -> Reply {
    let what = "the process that changes settings refuses this";
    Reply::Failed(Box::new(ErrorRecord::new(ErrorKind::Policy, what, why, &[])))
}

/// The parent's end of a helper, which is started again when it dies.
pub(crate) struct Helper {
    program: PathBuf,
    state: PathBuf,
    running: Option<Link>,
    /// What the latest helper put back when it started.
    left: Restoration,
    /// Helpers that have ended so far.
    ended: u64,
}

impl Helper {
    /// Starts a helper, which first puts back what an earlier process left changed. `program` is
    /// linerate itself, `state` the directory of the journal.
    ///
    /// # Errors
    /// When it cannot be started, or cannot keep a journal.
    pub(super) fn start(program: &Path, state: &Path) -> Result<(Self, Restoration), ErrorRecord> {
        let (program, state) = (program.to_owned(), state.to_owned());
        let left = Restoration::default();
        let mut this = Self { program, state, running: None, left, ended: 0 };
        this.begin()?;
        let left = this.left.clone();
        Ok((this, left))
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    fn begin(&mut self) -> Result<(), ErrorRecord> {
        let link = Link::start(&self.program, (HELPER_VERB, &self.state), [], REPLY_LIMIT);
        let mut link = link.map_err(lost)?;
        self.left = first(&mut link)?;
        self.running = Some(link);
        Ok(())
    }

    /// Asks, and starts another helper when this one has died: that has put everything back by then.
    pub(super) fn call(&mut self, order: &Order) -> Result<Reply, ErrorRecord> {
        if self.running.is_none() {
            self.begin()?;
        }
        let Some(link) = &mut self.running else { return Err(lost("it did not start")) };
        let why = match link.ask(order) {
            Ok(Some(Reply::Failed(error))) => return Err(*error),
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) => "it was killed, or crashed".to_owned(),
            Err(e) => e.to_string(),
        };
        self.running = None;
        self.ended = self.ended.saturating_add(1);
        let mut error = lost(why);
        match (self.begin(), order) {
            // The one that was started has done it, or is there.
            (Ok(()), Order::Restore) => return Ok(Reply::Restored(self.left.clone())),
            (Ok(()), Order::Ping) => return Ok(Reply::Done),
            (Ok(()), _) if self.left.complete() => {}
            (Ok(()), _) => error.hints = vec!["not everything could be put back".into()],
            (Err(e), _) => error.hints = vec![format!("nor could another be started: {}", e.why)],
        }
        Err(error)
    }
}

/// What the first answer of a child says that an earlier process had left changed.
fn first(link: &mut Link) -> Result<Restoration, ErrorRecord> {
    match link.answer() {
        Ok(Some(Reply::Restored(left))) => Ok(left),
        Ok(Some(Reply::Failed(error))) => Err(*error),
        Ok(_) => Err(lost("it ended at once")),
        Err(e) => Err(lost(e)),
    }
}

/// Puts back what an earlier process left changed, without changing anything else.
///
/// # Errors
/// When another process has the journal for long, or it cannot be read.
pub fn restore(state: &Path) -> Result<Restoration, ErrorRecord> {
    open(state).map(|(_, restoration)| restoration)
}

/// Sets one thing of this host for good: no journal has it afterwards, so that nothing but a reboot puts it back. What an
/// earlier process left changed is put back first, and at once what is not as asked then.
///
/// # Errors
/// When another process changes settings here, or the journal cannot be kept: all is as before. When something could not
/// be put back.
pub fn set_for_good(
    state: &Path,
    device: Option<&str>,
    setting: &Setting,
) -> Result<Applied, ErrorRecord> {
    let (mut keeper, left) = open(state)?;
    if !left.complete() {
        let what = "cannot make a change for good";
        return Err(ErrorRecord::new(ErrorKind::Restore, what, left.left().join("; "), &[]));
    }
    keeper.keep(device, setting)
}

/// Where the journal is unless it is said otherwise: what systemd gives a service, else where the
/// superuser's programs keep such things.
pub fn state_directory() -> PathBuf {
    let given = std::env::var_os("STATE_DIRECTORY").filter(|path| !path.is_empty());
    given.map_or_else(|| PathBuf::from("/var/lib/linerate"), PathBuf::from)
}
