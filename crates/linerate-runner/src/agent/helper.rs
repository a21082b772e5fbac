//! The helper: a process of its own that changes settings and puts them back, whatever happens to
//! the one who asked for them.
//!
//! It is this very program under another verb, in a process group of its own, joined to its parent
//! by a pair of sockets. When the parent ends in any way, the kernel closes its socket, and the
//! helper puts everything back and ends. When the helper is killed, its parent starts another, which
//! finds the journal; when both are, the next start does. It knows three requests: apply, restore,
//! ping.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_host::settings::SettingsGuard;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Applied, Restoration, Setting};
use linerate_wire::native::agent::{DeviceChoice, Reply, Request};
use nix::sys::signal::{SigSet, Signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The hidden verb.
pub const HELPER_VERB: &str = "settings-helper";
/// A helper that has just lost its parent may still be putting things back.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
/// One that shall end has this long to put things back, before it is left to it.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Orders to drivers take seconds at worst.
const REPLY_LIMIT: Duration = Duration::from_secs(120);

fn lost(why: impl ToString) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::HelperLost,
        "the process that changes settings has ended",
        why.to_string(),
        &["what was changed was put back; apply the settings again"],
    )
}

/// A message, which is a line.
fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// The next message; `None` at the end of the stream.
fn receive<T: DeserializeOwned>(stream: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// The helper's whole life. Its standard input is the socket to its parent.
///
/// # Errors
/// When it was not started by linerate, or when something could not be put back.
pub fn helper(state: &Path) -> Result<(), ErrorRecord> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let mut stream = BufReader::new(socket.map_err(lost)?);
    if stream.get_ref().peer_addr().is_err() {
        return Err(ErrorRecord::new(
            ErrorKind::Usage,
            format!("`linerate {HELPER_VERB}` is no command for people"),
            "linerate starts it by itself",
            &[],
        ));
    }
    // SIGTERM goes to all of a service at once: the parent's end is what counts.
    let _ = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]).thread_block();
    let start = Instant::now();
    let opened = loop {
        match SettingsGuard::open(state) {
            Err(e) if e.kind == ErrorKind::Busy && start.elapsed() < BUSY_LIMIT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            other => break other,
        }
    };
    let mut keeper = match opened {
        Ok((keeper, left)) => {
            let _ = send(stream.get_mut(), &Reply::Restored(left));
            keeper
        }
        Err(error) => {
            let _ = send(stream.get_mut(), &Reply::Failed(Box::new(error.clone())));
            return Err(error);
        }
    };
    while let Ok(Some(request)) = receive(&mut stream) {
        if send(stream.get_mut(), &answer(&mut keeper, request)).is_err() {
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

fn answer(keeper: &mut SettingsGuard, request: Request) -> Reply {
    match request {
        Request::Apply { device, settings } => {
            let named = match &device {
                Some(DeviceChoice::Named(name)) => Some(name.as_str()),
                _ => None,
            };
            Reply::Applied(keeper.apply(named, &settings))
        }
        Request::Restore => Reply::Restored(keeper.restore()),
        Request::Ping => Reply::Done,
        _ => Reply::Failed(Box::new(lost("it was asked for what it does not do"))),
    }
}

/// The parent's end of a helper, which is started again when it dies.
pub(crate) struct Privileged {
    program: PathBuf,
    state: PathBuf,
    running: Option<(Child, BufReader<UnixStream>)>,
    /// What the latest helper put back when it started.
    left: Restoration,
    /// Helpers that have ended so far.
    ended: u64,
}

impl Privileged {
    /// Starts a helper, which first puts back what an earlier process left changed. `program` is
    /// linerate itself, `state` the directory of the journal.
    ///
    /// # Errors
    /// When it cannot be started, or cannot keep a journal.
    pub(crate) fn start(program: &Path, state: &Path) -> Result<(Self, Restoration), ErrorRecord> {
        let (program, state) = (program.to_owned(), state.to_owned());
        let left = Restoration::default();
        let mut this = Self { program, state, running: None, left, ended: 0 };
        this.begin()?;
        let left = this.left.clone();
        Ok((this, left))
    }

    /// Which helper this is. What one has set was put back when another has taken its place.
    pub(crate) fn life(&self) -> u64 {
        self.ended
    }

    fn begin(&mut self) -> Result<(), ErrorRecord> {
        let (ours, theirs) = UnixStream::pair().map_err(lost)?;
        let child = Command::new(&self.program)
            .arg(HELPER_VERB)
            .arg("--state-dir")
            .arg(&self.state)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Ctrl-C ends the parent; the helper has something to do yet.
            .process_group(0)
            .spawn()
            .map_err(|e| lost(format!("{}: {e}", self.program.display())))?;
        ours.set_read_timeout(Some(REPLY_LIMIT)).map_err(lost)?;
        let mut ours = BufReader::new(ours);
        let first = receive(&mut ours);
        self.running = Some((child, ours));
        let left = match first {
            Ok(Some(Reply::Restored(left))) => Ok(left),
            Ok(Some(Reply::Failed(error))) => Err(*error),
            Ok(_) => Err(lost("it ended at once")),
            Err(e) => Err(lost(e)),
        };
        self.left = left.inspect_err(|_| self.end())?;
        Ok(())
    }

    /// Closes the socket and waits until everything is back.
    fn end(&mut self) {
        let Some((mut child, stream)) = self.running.take() else { return };
        self.ended = self.ended.saturating_add(1);
        drop(stream);
        let start = Instant::now();
        while start.elapsed() < END_LIMIT && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks, and starts another helper when this one has died: that has put everything back by then.
    fn call(&mut self, request: &Request) -> Result<Reply, ErrorRecord> {
        if self.running.is_none() {
            self.begin()?;
        }
        let Some((_, stream)) = &mut self.running else { return Err(lost("it did not start")) };
        let reply = send(stream.get_mut(), request).and_then(|()| receive(stream));
        match reply {
            Ok(Some(Reply::Failed(error))) => Err(*error),
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.again("it was killed, or crashed")),
            Err(e) => Err(self.again(e)),
        }
    }

    fn again(&mut self, why: impl ToString) -> ErrorRecord {
        self.end();
        let mut error = lost(why);
        match self.begin() {
            Ok(()) if self.left.complete() => {}
            Ok(()) => error.hints = vec!["not everything could be put back".into()],
            Err(e) => error.hints = vec![format!("nor could another be started: {}", e.why)],
        }
        error
    }

    /// Sets in the given order; see [`SettingsGuard::apply`].
    ///
    /// # Errors
    /// When the helper has died, after everything was put back.
    pub(crate) fn apply(
        &mut self,
        device: Option<&str>,
        settings: &[Setting],
    ) -> Result<Vec<Applied>, ErrorRecord> {
        let mut all = Vec::new();
        // One a request, as each may take its time.
        for setting in settings {
            let device = device.map(|name| DeviceChoice::Named(name.to_owned()));
            let request = Request::Apply { device, settings: vec![setting.clone()] };
            match self.call(&request)? {
                Reply::Applied(applied) => all.extend(applied),
                _ => return Err(lost("it gave another answer")),
            }
        }
        Ok(all)
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// When no helper can be had.
    pub(crate) fn restore(&mut self) -> Result<Restoration, ErrorRecord> {
        match self.call(&Request::Restore) {
            Ok(Reply::Restored(restoration)) => Ok(restoration),
            Ok(_) => Err(lost("it gave another answer")),
            // Another one was started, and has done it.
            Err(e) if e.kind == ErrorKind::HelperLost && self.running.is_some() => {
                Ok(self.left.clone())
            }
            Err(e) => Err(e),
        }
    }

    /// Looks whether the helper lives; if not, starts another, which puts everything back. `false`
    /// when settings were lost so.
    ///
    /// # Errors
    /// When no helper can be had.
    pub(crate) fn look(&mut self) -> Result<bool, ErrorRecord> {
        match self.call(&Request::Ping) {
            Ok(_) => Ok(true),
            Err(_) if self.running.is_some() => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Privileged {
    fn drop(&mut self) {
        self.end();
    }
}

/// Puts back what an earlier process left changed, without changing anything else.
///
/// # Errors
/// When another process has the journal, or it cannot be read.
pub fn restore(state: &Path) -> Result<Restoration, ErrorRecord> {
    SettingsGuard::open(state).map(|(_, restoration)| restoration)
}

/// Where the journal is unless it is said otherwise: what systemd gives a service, else where the
/// superuser's programs keep such things.
pub fn state_directory() -> PathBuf {
    let given = std::env::var_os("STATE_DIRECTORY").filter(|path| !path.is_empty());
    given.map_or_else(|| PathBuf::from("/var/lib/linerate"), PathBuf::from)
}
