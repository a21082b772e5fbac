//! A process that is this very program under another verb, joined to its parent by a pair of sockets:
//! lines of JSON, orders down and answers up.
//!
//! When either end dies in any way, the kernel closes its socket, and the other knows.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::native::order::{self, MOST_LINE_BYTES, Order};
use nix::sys::signal::{SigSet, Signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One that shall end has this long to put things back, before it is left to it.
const END_LIMIT: Duration = Duration::from_secs(30);

fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// The parent's end.
pub(super) struct Link {
    child: Child,
    stream: BufReader<UnixStream>,
}

impl Link {
    /// Starts a program under a verb, for the journal in `state`, with more arguments. An answer may take as long as
    /// `limit`.
    pub(super) fn start(
        program: &Path,
        (verb, state): (&str, &Path),
        more: impl IntoIterator<Item = String>,
        limit: Duration,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(limit))?;
        let child = Command::new(program)
            .args([OsStr::new(verb), OsStr::new("--state-dir"), state.as_os_str()])
            .args(more)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Nothing is written there: its end is the child's.
            .stdout(Stdio::piped())
            // Ctrl-C ends the parent; the child has something to do yet.
            .process_group(0)
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", program.display())))?;
        Ok(Self { child, stream: BufReader::new(ours) })
    }

    /// A pipe that ends when the child does, once.
    pub(super) fn life(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The next answer; `None` at the end of the child.
    pub(super) fn answer<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(line.as_bytes())?))
    }

    /// Orders, and waits for the answer.
    pub(super) fn ask<T: DeserializeOwned>(&mut self, order: &Order) -> io::Result<Option<T>> {
        send(self.stream.get_ref(), order)?;
        self.answer()
    }
}

impl Drop for Link {
    /// Says that nothing more comes, and waits until the child has put everything back: its end of the pair
    /// closes with it.
    fn drop(&mut self) {
        let ours = self.stream.get_ref();
        let _ = ours.shutdown(Shutdown::Write);
        let _ = ours.set_read_timeout(Some(END_LIMIT));
        // No answer is awaited any more, so it says little.
        if io::copy(&mut self.stream.by_ref().take(1 << 20), &mut io::sink()).is_ok() {
            // A server that gave up this call has no use for it: its children end with it.
            let _ = self.child.wait();
        }
    }
}

/// The child's end, which is its standard input.
pub(super) struct Parent(BufReader<UnixStream>);

impl Parent {
    /// # Errors
    /// When linerate did not start this process under that verb.
    pub(super) fn of_this(verb: &str) -> Result<Self, ErrorRecord> {
        let socket = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
        let socket = socket.ok().filter(|socket| socket.peer_addr().is_ok());
        let Some(socket) = socket else {
            return Err(ErrorRecord::new(
                ErrorKind::Usage,
                format!("`linerate {verb}` is no command for people"),
                "linerate starts it by itself",
                &[],
            ));
        };
        // SIGTERM goes to all of a service at once: the parent's end is what counts.
        let _ = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]).thread_block();
        Ok(Self(BufReader::new(socket)))
    }

    /// The next order, or why what came is none; `None` at the end of the parent, and of what can be read: after
    /// a line that is too long nothing is understood any more.
    pub(super) fn order(&mut self) -> Option<Result<Order, String>> {
        let mut line = Vec::new();
        let most = u64::try_from(MOST_LINE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        self.0.by_ref().take(most).read_until(b'\n', &mut line).ok()?;
        let line = line.strip_suffix(b"\n")?;
        Some(order::decode(line))
    }

    /// Answers. `None` when nobody hears it any more.
    pub(super) fn answer(&self, answer: &impl Serialize) -> Option<()> {
        send(self.0.get_ref(), answer).ok()
    }
}
