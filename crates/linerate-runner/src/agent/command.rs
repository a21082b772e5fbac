//! Commands with bounds: of time, of what is kept of their output, and of their lives.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_engine::process::die_with_parent;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::native::agent::{CommandOutcome, CommandRequest};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::guard::SettingsGuard;
use crate::signals::Stop;

/// A command's end is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(LOOK_EVERY_MS as u64);
const LOOK_EVERY_MS: u8 = 10;
/// After a polite end (SIGTERM) a command has this long; and so has what it left running to let go
/// of its outputs.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of an output that are read before anything else is looked at again.
const READ_AT_ONCE: usize = 1 << 20;

/// A command in a process group of its own, which ends with this value.
struct Group {
    command: Child,
    /// Leads the group. Fields are dropped after `drop` was called, so the group's number is its
    /// own until all of it has been killed.
    keeper: Option<SettingsGuard>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        let leader = self.keeper.as_ref().map_or_else(|| self.command.id(), SettingsGuard::group);
        // The group has the number of its first process, which is waited for after this: so the
        // number is not another's yet.
        let group = i32::try_from(leader).unwrap_or(i32::MAX);
        let _: Result<(), Errno> = killpg(Pid::from_raw(group), signal);
    }

    /// Whether the command has ended. It is not waited for yet: that would free its number.
    #[cfg(not(target_os = "macos"))]
    fn has_ended(&self) -> Result<bool, Errno> {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let id = Id::Pid(Pid::from_raw(i32::try_from(self.command.id()).unwrap_or(i32::MAX)));
        let how = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(id, how) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Not known there, as far as it was tried: a command is ended and reported as failed.
    #[cfg(target_os = "macos")]
    fn has_ended(&self) -> Result<bool, Errno> {
        Err(Errno::ENOSYS)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        // Where it was waited for already, this gives the same again.
        let _ = self.command.wait();
    }
}

/// Runs a command to its end, to its limit, or until `stop` is set. With `program`, which is linerate
/// itself, the command and what it starts end also when this process is killed.
///
/// # Errors
/// When a program cannot be started.
pub fn run(
    request: &CommandRequest,
    stop: &Stop,
    program: Option<&Path>,
) -> Result<CommandOutcome, ErrorRecord> {
    let fault = |why: String| {
        ErrorRecord::new(
            ErrorKind::Command,
            format!("cannot run `{}`", request.argv.join(" ")),
            why,
            &[],
        )
    };
    let (name, args) =
        request.argv.split_first().ok_or_else(|| fault("it has no program".into()))?;
    let keeper = program
        .map(|program| {
            SettingsGuard::start(program).map_err(|e| fault(format!("{}: {e}", program.display())))
        })
        .transpose()?;
    let leader = keeper.as_ref().and_then(|keeper| i32::try_from(keeper.group()).ok()).unwrap_or(0);
    let mut command = Command::new(name);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own or the keeper's, so that all it starts can be ended with it.
        .process_group(leader);
    die_with_parent(&mut command);
    let start = Instant::now();
    let command = command.spawn().map_err(|e| fault(e.to_string()))?;
    let mut group = Group { command, keeper };
    let keep = usize::try_from(request.keep_bytes).unwrap_or(usize::MAX);
    let mut out = Output::of(group.command.stdout.take(), keep);
    let mut err = Output::of(group.command.stderr.take(), keep);
    let limit = Duration::from_millis(request.limit_ms);
    let (mut timed_out, mut asked_to_end) = (false, None);
    while !group.has_ended().map_err(|e| fault(e.to_string()))? {
        let over = start.elapsed() >= limit;
        if asked_to_end.is_none() && (over || stop.seen()) {
            timed_out = over;
            group.signal(Signal::SIGTERM);
            asked_to_end = Some(Instant::now());
        }
        if asked_to_end.is_some_and(|when| when.elapsed() >= GRACE) {
            group.signal(Signal::SIGKILL);
        }
        drain(&mut out, &mut err);
    }
    let took = start.elapsed();
    // What it left running holds the ends of its outputs. What left its group and holds them is
    // not waited for.
    group.signal(Signal::SIGKILL);
    let end = Instant::now();
    while (out.open() || err.open()) && end.elapsed() < GRACE {
        drain(&mut out, &mut err);
    }
    let status = group.command.wait().map_err(|e| fault(e.to_string()))?;
    Ok(CommandOutcome {
        code: status.code(),
        signal: status.signal(),
        timed_out,
        truncated: out.more || err.more || out.open() || err.open(),
        out: String::from_utf8_lossy(&out.kept).into_owned(),
        err: String::from_utf8_lossy(&err.kept).into_owned(),
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}

/// One output of a command: its first bytes are kept, the rest is read and thrown away.
struct Output<R> {
    /// Nothing once its end was read.
    from: Option<R>,
    kept: Vec<u8>,
    keep: usize,
    more: bool,
}

impl<R: Read + AsFd> Output<R> {
    fn of(from: Option<R>, keep: usize) -> Self {
        // Without this a read could wait for a process that never ends; so such a pipe is not read.
        let from =
            from.filter(|from| fcntl(from.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok());
        Self { more: from.is_none(), from, kept: Vec::new(), keep }
    }

    fn open(&self) -> bool {
        self.from.is_some()
    }

    /// Takes what is there.
    fn take(&mut self) {
        let mut buffer = [0; 8_192];
        let mut taken = 0_usize;
        while let Some(from) = &mut self.from
            && taken < READ_AT_ONCE
        {
            match from.read(&mut buffer) {
                Ok(0) => self.from = None,
                Ok(length) => {
                    taken = taken.saturating_add(length);
                    let room = self.keep.saturating_sub(self.kept.len()).min(length);
                    self.kept.extend(buffer.get(..room).unwrap_or_default());
                    self.more |= room < length;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.from = None,
            }
        }
    }
}

/// Takes what there is of both outputs, and waits a moment where there is nothing.
fn drain<A: Read + AsFd, B: Read + AsFd>(out: &mut Output<A>, err: &mut Output<B>) {
    let fds = [out.from.as_ref().map(AsFd::as_fd), err.from.as_ref().map(AsFd::as_fd)];
    let mut fds: Vec<PollFd<'_>> =
        fds.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    if fds.is_empty() {
        return std::thread::sleep(LOOK_EVERY);
    }
    let _: Result<_, Errno> = poll(&mut fds, LOOK_EVERY_MS);
    out.take();
    err.take();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit_ms: u64, keep_bytes: u32) -> CommandOutcome {
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        let request = CommandRequest { argv, limit_ms, keep_bytes };
        run(&request, &Stop::default(), None).unwrap()
    }

    #[test]
    fn code_and_outputs_are_told() {
        let done = shell("echo out; echo err >&2; exit 3", 60_000, 100);
        assert_eq!((done.code, done.signal, done.timed_out), (Some(3), None, false));
        assert_eq!((done.out.as_str(), done.err.as_str()), ("out\n", "err\n"));
        assert!(!done.truncated);
        assert_eq!(shell("kill -9 $$", 60_000, 0).signal, Some(9));
    }

    #[test]
    fn output_is_bounded_and_read_to_its_end() {
        let done = shell("head -c 1000000 /dev/zero; echo done >&2", 60_000, 10);
        assert_eq!((done.code, done.out.len(), done.truncated), (Some(0), 10, true));
        assert_eq!(done.err, "done\n");
    }

    /// Is told to end once it has made the file that its script calls `$BEGAN`.
    fn ended_once_it_has_begun(name: &str, script: &str) -> CommandOutcome {
        let file = format!("linerate-command-{}-{name}", std::process::id());
        let (file, stop) = (std::env::temp_dir().join(file), Stop::default());
        let _ = std::fs::remove_file(&file);
        let script = script.replace("$BEGAN", &file.display().to_string());
        let argv = ["sh", "-c", script.as_str()].map(String::from).to_vec();
        let request = CommandRequest { argv, limit_ms: 60_000, keep_bytes: 100 };
        let done = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(&request, &stop, None).unwrap());
            while !file.exists() && !running.is_finished() {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.now();
            running.join().unwrap()
        });
        std::fs::remove_file(&file).unwrap();
        done
    }

    #[test]
    fn time_is_bounded_and_nothing_of_the_group_stays() {
        assert!(shell("exec sleep 1000", 100, 100).timed_out);
        let script = "sleep 1000 & echo $!; trap '' TERM; touch $BEGAN; while :; do sleep 1; done";
        let done = ended_once_it_has_begun("stays", script);
        assert_eq!(done.signal, Some(9));
        let pid: i32 = done.out.trim().parse().unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        assert!((0..3_000).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            gone()
        }));
        // One that leaves something behind does not hold up the answer.
        let done = shell("sleep 1000 & exit 0", 60_000, 100);
        assert_eq!(done.code, Some(0));
    }

    #[test]
    fn one_that_left_the_group_and_holds_an_output_does_not_hold_the_host() {
        let start = Instant::now();
        // Far longer than the test waits; ended below.
        let script = "echo kept; setsid sh -c 'echo $$; touch $BEGAN; exec sleep 600' & wait $!";
        let done = ended_once_it_has_begun("left", script);
        let mut lines = done.out.lines();
        assert_eq!(lines.next(), Some("kept"), "{done:?}");
        assert!(done.truncated, "its end was not seen: {done:?}");
        assert!(start.elapsed() < Duration::from_secs(300), "{:?}", start.elapsed());
        let pid: i32 = lines.next().unwrap().parse().unwrap();
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
    }

    #[test]
    fn a_program_that_is_none_is_an_error() {
        let request =
            CommandRequest { argv: vec!["/nonexistent".into()], limit_ms: 1_000, keep_bytes: 0 };
        let error = run(&request, &Stop::default(), None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Command);
        assert!(error.why.contains("No such file"), "{error:?}");
    }
}
