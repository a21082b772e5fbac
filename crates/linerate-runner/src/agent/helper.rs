//! The helper: a process of its own that changes settings and puts them back, whatever happens to
//! the one who asked for them.
//!
//! It is this very program under another verb, in a process group of its own, joined to its parent
//! by a pair of sockets. When the parent ends in any way, the kernel closes its socket, and the
//! helper puts everything back and ends. When the helper is killed, its parent starts another, which
//! finds the journal; when both are, the next start does. It knows four requests: apply, read,
//! restore, ping.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_host::settings::{SettingsGuard, read};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Applied, ReadBack, Restoration, Setting, SettingName};
use linerate_wire::native::agent::{DeviceChoice, MOST_DOCUMENT_BYTES, Reply, Request, pieces};
use linerate_wire::native::frame::{self, PREFIX_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The hidden verb.
pub const HELPER_VERB: &str = "settings-helper";
/// A helper that has just lost its parent may still be putting things back.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
/// One that was told to end has this long to put things back, before it is left to it.
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

fn send<T: Serialize>(stream: &mut UnixStream, message: &T) -> io::Result<()> {
    stream.write_all(&frame::encode(message).map_err(io::Error::other)?)
}

/// The next message; `None` at the end of the stream.
fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<Option<T>> {
    let mut prefix = [0; PREFIX_BYTES];
    match stream.read_exact(&mut prefix) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    let mut body = vec![0; frame::body_length(prefix).map_err(io::Error::other)?];
    stream.read_exact(&mut body)?;
    frame::decode(&body).map(Some).map_err(io::Error::other)
}

/// A reply of any length.
fn send_reply(stream: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    let text = serde_json::to_string(reply)?;
    pieces(&text).into_iter().try_for_each(|piece| send(stream, &piece))
}

fn receive_reply(stream: &mut UnixStream) -> io::Result<Option<Reply>> {
    let mut text = String::new();
    loop {
        let Some(piece): Option<linerate_wire::native::agent::Piece> = receive(stream)? else {
            return Ok(None);
        };
        text.push_str(&piece.text);
        if text.len() > MOST_DOCUMENT_BYTES {
            return Err(io::Error::other("a reply without an end"));
        }
        if piece.last {
            return Ok(Some(serde_json::from_str(&text)?));
        }
    }
}

/// The helper's whole life. Its standard input is the socket to its parent.
///
/// # Errors
/// When it was not started by linerate, or when something could not be put back.
pub fn helper(state: &Path) -> Result<(), ErrorRecord> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let mut stream = socket.map_err(lost)?;
    if stream.peer_addr().is_err() {
        return Err(ErrorRecord::new(
            ErrorKind::Usage,
            format!("`linerate {HELPER_VERB}` is no command for people"),
            "linerate starts it by itself",
            &[],
        ));
    }
    // SIGTERM goes to all of a service at once: the parent's end is what counts.
    let _ignored = ignore_signals();
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
            let _ = send_reply(&mut stream, &Reply::Restored(left));
            keeper
        }
        Err(error) => {
            let _ = send_reply(&mut stream, &Reply::Failed(Box::new(error.clone())));
            return Err(error);
        }
    };
    while let Ok(Some(request)) = receive::<Request>(&mut stream) {
        if send_reply(&mut stream, &answer(&mut keeper, request)).is_err() {
            break;
        }
    }
    let back = keeper.restore();
    if back.complete() {
        return Ok(());
    }
    let left: Vec<String> = back
        .knobs
        .iter()
        .filter_map(|knob| Some(format!("{}: {}", knob.what, knob.why.as_deref()?)))
        .collect();
    Err(ErrorRecord::new(
        ErrorKind::Restore,
        "some settings are not as they were",
        left.join("; "),
        &[],
    ))
}

fn answer(keeper: &mut SettingsGuard, request: Request) -> Reply {
    let named = |device: Option<DeviceChoice>| match device {
        Some(DeviceChoice::Named(name)) => Some(name),
        _ => None,
    };
    match request {
        Request::Apply { device, settings } => {
            Reply::Applied(keeper.apply(named(device).as_deref(), &settings))
        }
        Request::Read { device, names } => Reply::Read(read(named(device).as_deref(), &names)),
        Request::Restore => Reply::Restored(keeper.restore()),
        Request::Ping => Reply::Done,
        _ => Reply::Failed(Box::new(lost("it was asked for what it does not do"))),
    }
}

/// A thread that takes signals and does nothing about them.
fn ignore_signals() -> io::Result<std::thread::JoinHandle<()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (ready, wait) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(async {
                let kinds =
                    [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
                let _kept: Vec<_> = kinds.into_iter().map(signal).collect();
                let _ = ready.send(());
                std::future::pending::<()>().await;
            });
        }
    })?;
    let _ = wait.recv_timeout(Duration::from_secs(5));
    Ok(thread)
}

/// The parent's end of a helper, which is started again when it dies.
pub struct Privileged {
    program: PathBuf,
    state: PathBuf,
    running: Option<(Child, UnixStream)>,
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
    pub fn start(program: &Path, state: &Path) -> Result<(Self, Restoration), ErrorRecord> {
        let mut this = Self {
            program: program.to_owned(),
            state: state.to_owned(),
            running: None,
            left: Restoration::default(),
            ended: 0,
        };
        this.begin()?;
        let left = this.left.clone();
        Ok((this, left))
    }

    /// The process now, for those who watch it.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|(child, _)| child.id())
    }

    /// Which helper this is. What one has set was put back when another has taken its place.
    pub fn life(&self) -> u64 {
        self.ended
    }

    fn begin(&mut self) -> Result<(), ErrorRecord> {
        let (mut ours, theirs) = UnixStream::pair().map_err(lost)?;
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
        let first = receive_reply(&mut ours);
        self.running = Some((child, ours));
        match first {
            Ok(Some(Reply::Restored(left))) => {
                self.left = left;
                Ok(())
            }
            Ok(Some(Reply::Failed(error))) => {
                self.end();
                Err(*error)
            }
            Ok(_) => {
                self.end();
                Err(lost("it ended at once"))
            }
            Err(e) => {
                self.end();
                Err(lost(e))
            }
        }
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
        let reply = send(stream, request).and_then(|()| receive_reply(stream));
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
    pub fn apply(
        &mut self,
        device: Option<&str>,
        settings: &[Setting],
    ) -> Result<Vec<Applied>, ErrorRecord> {
        let device = device.map(|name| DeviceChoice::Named(name.to_owned()));
        let mut all = Vec::new();
        // One a request, so that none outgrows its frame.
        for setting in settings {
            let request =
                Request::Apply { device: device.clone(), settings: vec![setting.clone()] };
            match self.call(&request)? {
                Reply::Applied(applied) => all.extend(applied),
                _ => return Err(lost("it gave another answer")),
            }
        }
        Ok(all)
    }

    /// Reads settings; see [`linerate_host::settings::read`].
    pub fn read(&mut self, device: Option<&str>, names: &[SettingName]) -> Vec<ReadBack> {
        // Reading needs no privilege.
        read(device, names)
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// When no helper can be had.
    pub fn restore(&mut self) -> Result<Restoration, ErrorRecord> {
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
    pub fn look(&mut self) -> Result<bool, ErrorRecord> {
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
