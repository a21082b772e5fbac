//! Commands with bounds: of time, of what is kept of their output, and of their lives.

use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_engine::process::die_with_parent;
use linerate_model::record::ErrorRecord;
use linerate_wire::native::agent::{CommandOutcome, CommandRequest};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A command's end is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// After a polite end (SIGTERM) a command has this long.
const GRACE: Duration = Duration::from_secs(2);

/// A process group, which ends with this value.
struct Group(Child);

impl Group {
    fn signal(&self, signal: Signal) {
        // The group has the number of its first process, which is waited for only in `drop` or
        // after this: so the number is not another's yet.
        let group = i32::try_from(self.0.id()).unwrap_or(i32::MAX);
        let _: Result<(), Errno> = killpg(Pid::from_raw(group), signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Runs a command to its end, to its limit, or until `stop` is set.
///
/// # Errors
/// When the program cannot be started.
pub fn run(request: &CommandRequest, stop: &AtomicBool) -> Result<CommandOutcome, ErrorRecord> {
    let fault = |why: String| ErrorRecord {
        kind: "command".into(),
        what: format!("cannot run `{}`", request.argv.join(" ")),
        why,
        hints: vec![],
        exit_code: 1,
    };
    let (program, args) =
        request.argv.split_first().ok_or_else(|| fault("it has no program".into()))?;
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that all it starts can be ended with it.
        .process_group(0);
    die_with_parent(&mut command);
    let start = Instant::now();
    let mut group = Group(command.spawn().map_err(|e| fault(e.to_string()))?);
    let keep = usize::try_from(request.keep_octets).unwrap_or(usize::MAX);
    let out = collect(group.0.stdout.take(), keep);
    let err = collect(group.0.stderr.take(), keep);
    let limit = Duration::from_millis(request.limit_ms);
    let (mut timed_out, mut asked_to_end) = (false, None);
    let status = loop {
        match group.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(e) => return Err(fault(e.to_string())),
        }
        let over = start.elapsed() >= limit;
        if asked_to_end.is_none() && (over || stop.load(Ordering::Relaxed)) {
            timed_out = over;
            group.signal(Signal::SIGTERM);
            asked_to_end = Some(Instant::now());
        }
        if asked_to_end.is_some_and(|when| when.elapsed() >= GRACE) {
            group.signal(Signal::SIGKILL);
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let took = start.elapsed();
    // What it left running holds the ends of its outputs.
    group.signal(Signal::SIGKILL);
    let ((out, more_out), (err, more_err)) = (gather(out), gather(err));
    Ok(CommandOutcome {
        code: status.code(),
        signal: status.signal(),
        timed_out,
        out,
        err,
        truncated: more_out || more_err,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}

type Gathered = (Vec<u8>, bool);

/// Reads to the end, keeps the first octets and says whether there were more.
fn collect(from: Option<impl Read + Send + 'static>, keep: usize) -> Option<JoinHandle<Gathered>> {
    let mut from = from?;
    let work = move || {
        let (mut kept, mut more) = (Vec::new(), false);
        let mut buffer = [0; 8_192];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return (kept, more),
                Ok(length) => {
                    let room = keep.saturating_sub(kept.len()).min(length);
                    kept.extend(buffer.get(..room).unwrap_or_default());
                    more |= room < length;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return (kept, more),
            }
        }
    };
    std::thread::Builder::new().name("output".into()).spawn(work).ok()
}

fn gather(from: Option<JoinHandle<Gathered>>) -> (String, bool) {
    let (octets, more) = from.and_then(|thread| thread.join().ok()).unwrap_or_default();
    (String::from_utf8_lossy(&octets).into_owned(), more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit_ms: u64, keep_octets: u32) -> CommandOutcome {
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        run(&CommandRequest { argv, limit_ms, keep_octets }, &AtomicBool::new(false)).unwrap()
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

    #[test]
    fn time_is_bounded_and_nothing_of_the_group_stays() {
        let done = shell("sleep 1000 & echo $!; trap '' TERM; while :; do sleep 1; done", 300, 100);
        assert!(done.timed_out);
        assert_eq!(done.signal, Some(9));
        let pid: i32 = done.out.trim().parse().unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        assert!((0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            gone()
        }));
        // One that leaves something behind does not hold up the answer.
        let done = shell("sleep 1000 & exit 0", 60_000, 100);
        assert_eq!(done.code, Some(0));
    }

    #[test]
    fn a_program_that_is_none_is_an_error() {
        let request =
            CommandRequest { argv: vec!["/nonexistent".into()], limit_ms: 1_000, keep_octets: 0 };
        let error = run(&request, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.kind, "command");
        assert!(error.why.contains("No such file"), "{error:?}");
    }
}
