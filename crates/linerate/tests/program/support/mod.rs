//! What the end-to-end tests share: a server that is ended with the test, a client that is waited
//! for with a bound, network namespaces that are gone afterwards, and the identities that every
//! record must hold, worked out here from the JSON alone.

#![allow(dead_code, unused_imports, reason = "the tests of logins use a part of this")]

#[cfg(feature = "nats")]
pub mod agents;
mod attacks;
pub mod browser;
mod certificate;
pub mod controlled;
pub mod every_kind;
mod fleet_file;
mod hogs;
pub mod iperf3;
mod lab;
pub mod netperf;
pub mod nuttcp;
mod program;

use linerate_testkit::peer::LONG;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, CpuSet, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

pub use attacks::{
    Attack, MANY, Stranger, attack, descriptors, outlasts_a_thousand_silent_connections, survives,
};
pub use browser::Browser;
pub use certificate::certificate;
pub use fleet_file::FleetFile;
pub use hogs::Hogs;
pub use lab::{Lab, PORT, dropping};
pub use linerate_testkit::identities::{identities, list, number, real};
pub use linerate_testkit::port::free_port;
pub use linerate_testkit::{skip, skip_busy};
pub use program::Program;

/// The control side, what waits for signals, the log, the host's counters, and the pulse.
const RESTING_THREADS: usize = 5;

/// A place among the tests that send: a network of this test's own, so that nobody else's datagrams are in its
/// counters and no port is taken, beside as few others as leave each some of a core. Who may make no network
/// has the one there is to itself.
pub fn alone() -> Place {
    static SENDING: Places = Places::new();
    SENDING.enter(if own_network() { 2 * cores().len() } else { 1 })
}

/// A network for what this thread starts from now on, if it may make one.
pub fn own_network() -> bool {
    let made = unshare(CloneFlags::CLONE_NEWNET).is_ok();
    assert!(!made || run("ip", &["link", "set", "lo", "up"]).0, "no loopback in a new network");
    made
}

/// The same of tests that start virtual machines, which go on beside the others.
pub fn machines() -> Place {
    static STARTING: Places = Places::new();
    STARTING.enter(cores().len())
}

/// So many at once.
struct Places {
    taken: Mutex<usize>,
    left: Condvar,
}

/// One of them, until it is dropped.
pub struct Place(&'static Places);

impl Places {
    const fn new() -> Self {
        Self { taken: Mutex::new(0), left: Condvar::new() }
    }

    /// The next that is free, of so many.
    fn enter(&'static self, places: usize) -> Place {
        let taken = self.taken.lock().expect("nothing fails with it");
        let full = |taken: &mut usize| *taken >= places;
        *self.left.wait_while(taken, full).expect("nothing fails with it") += 1;
        Place(self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.taken.lock().expect("nothing fails with it") -= 1;
        self.0.left.notify_one();
    }
}

/// The cores on which this process may run.
pub fn cores() -> Vec<usize> {
    let allowed = nix::sched::sched_getaffinity(Pid::from_raw(0)).expect("a set of cores");
    (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect()
}

/// More repetitions, for those who have the time.
pub fn long() -> bool {
    std::env::var_os("LINERATE_LONG").is_some_and(|v| v == "1")
}

/// Each case once; fifty times where there is time, so many at once.
pub fn often<T: Sync>(at_once: usize, cases: &[T], once: impl Fn(&T) + Sync) {
    let rounds = if long() { 50 } else { 1 };
    let all: Vec<&T> = (0..rounds).flat_map(|_| cases).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(all.len()) {
            scope.spawn(|| {
                while let Some(case) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    once(case);
                }
            });
        }
    });
}

/// The program, in a network namespace if one is named.
pub fn command(space: Option<&str>) -> Command {
    let binary = env!("CARGO_BIN_EXE_linerate");
    let mut command = match space {
        // Either becomes the program, so the child's id is the program's.
        Some(file) if file.starts_with('/') => {
            let mut command = Command::new("nsenter");
            command.args([&format!("--net={file}"), binary]);
            command
        }
        Some(space) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", space, binary]);
            command
        }
        None => Command::new(binary),
    };
    command.stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// While it lives, programs that this thread starts go before all others (SCHED_RR), so that what is
/// tested is the network in the namespaces and not who else wants the cores; there is one at a time. Without
/// the right to do so, nothing changes.
pub struct Urgent(String, Place);

impl Urgent {
    pub fn now() -> Self {
        let nobody = Self::nobody();
        let thread = nix::unistd::gettid().to_string();
        run("chrt", &["-r", "-p", "1", &thread]);
        Self(thread, nobody)
    }

    /// While it lives no other test's programs go before all others: they can take so much of a core that the kernel's
    /// own work for the network waits.
    pub fn nobody() -> Place {
        static HURRIED: Places = Places::new();
        HURRIED.enter(1)
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        run("chrt", &["-o", "-p", "0", &self.0]);
    }
}

/// A cgroup of its own, for a process that shall be slow or have little memory whatever else runs. Declare it
/// before the process, so that it is empty when it goes.
pub struct Group(std::path::PathBuf);

/// A file of a group, and what is written there.
type Limit<'a> = (&'a str, String);

impl Group {
    /// A group that may run for `quota` of each `period`, all cores together. Says why there is none:
    /// neither version's controller for CPU time may be written here.
    pub fn of_cpu_time(test: &str, quota: Duration, period: Duration) -> Option<Self> {
        let (quota, period) = (quota.as_micros().to_string(), period.as_micros().to_string());
        let new = [("cpu.max", format!("{quota} {period}"))];
        let old = [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", quota)];
        Self::made("cpu", &new, &old).or_else(|| {
            skip(test, "no cgroup with a limit of CPU time can be made here");
            None
        })
    }

    /// A group that may have so many bytes of memory, of which none is written to a disk.
    pub fn of_memory(test: &str, bytes: u64) -> Option<Self> {
        let new = [("memory.max", bytes.to_string())];
        let old = [("memory.limit_in_bytes", bytes.to_string())];
        let group = Self::made("memory", &new, &old).or_else(|| {
            skip(test, "no cgroup with a limit of memory can be made here");
            None
        })?;
        // Where there is no swap, there are no such files.
        let _ = group.set("memory.swap.max", "0");
        let _ = group.set("memory.memsw.limit_in_bytes", &bytes.to_string());
        Some(group)
    }

    fn made(controller: &str, new: &[Limit<'_>], old: &[Limit<'_>]) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("linerate-test-{}-{number}", std::process::id());
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        for mount in mounts.lines() {
            let words: Vec<&str> = mount.split_whitespace().collect();
            let [_, place, kind, options, ..] = words[..] else { continue };
            let files = match kind {
                "cgroup2" => new,
                // Version 1 has an interface of its own for each controller.
                "cgroup" if options.split(',').any(|o| o == controller) => old,
                _ => continue,
            };
            let dir = std::path::Path::new(place).join(&name);
            if std::fs::create_dir(&dir).is_err() {
                continue;
            }
            let group = Self(dir);
            if files.iter().all(|(file, value)| group.set(file, value).is_ok()) {
                return Some(group);
            }
        }
        None
    }

    /// Not `fs::write`: it would make a file where a controller has none.
    fn set(&self, file: &str, value: &str) -> std::io::Result<()> {
        use std::io::Write;
        let mut open = std::fs::OpenOptions::new().write(true).open(self.0.join(file))?;
        open.write_all(value.as_bytes())
    }

    /// The most memory that it ever had, in bytes.
    pub fn most_memory(&self) -> Option<u64> {
        let files = ["memory.peak", "memory.max_usage_in_bytes"];
        let read = |file| std::fs::read_to_string(self.0.join(file)).ok();
        files.into_iter().find_map(read)?.trim().parse().ok()
    }

    /// Puts a process with all its threads into it.
    pub fn hold(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("it is moved");
    }

    /// Puts the data threads of a process into it. The whole process in version 2, whose groups take single threads
    /// only of a process that is in a group above them.
    pub fn hold_data(&self, pid: u32) {
        let tasks = self.0.join("tasks");
        if !tasks.exists() {
            return self.hold(pid);
        }
        assert!(wait_for(LONG, || !data_threads(pid).is_empty()), "no data threads");
        for thread in data_threads(pid) {
            std::fs::write(&tasks, thread).expect("it is moved");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still count for a moment.
        wait_for(Duration::from_secs(2), || std::fs::remove_dir(&self.0).is_ok());
    }
}

/// The threads of a process that carry data, by their numbers.
fn data_threads(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let carries = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        ["send-", "receive-", "request-"].iter().any(|role| name.starts_with(role))
    };
    tasks.filter(carries).map(|task| task.file_name().to_string_lossy().into_owned()).collect()
}

/// Waits until `done`, at most `limit`; says whether it came to be.
pub fn wait_for(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    loop {
        if done() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running server. Dropping it ends this one process and no other.
pub struct Server {
    child: Child,
    pub port: u16,
    log: Arc<Mutex<String>>,
}

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holds {
    pub descriptors: usize,
    pub threads: usize,
    pub rss_kib: u64,
}

impl Server {
    /// `linerate serve` on a free port, here or in a namespace.
    pub fn start(space: Option<&str>, args: &[&str]) -> Self {
        Self::on_port(space, 0, args)
    }

    /// The same on a port of one's choice.
    pub fn on_port(space: Option<&str>, port: u16, args: &[&str]) -> Self {
        Self::run(command(space), port, args)
    }

    /// The same by a command that becomes the program.
    pub fn of(command: Command, args: &[&str]) -> Self {
        Self::run(command, 0, args)
    }

    fn run(mut command: Command, port: u16, args: &[&str]) -> Self {
        let port = port.to_string();
        let mut child = command
            .args(["serve", "--json-lines", "--port", &port])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(if std::env::var_os("LINERATE_SHOW").is_some() {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .spawn()
            .expect("the server starts");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let event: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("no server: {e}: {line}"));
        let address: std::net::SocketAddr =
            event["address"].as_str().expect("an address").parse().expect("an address");
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        Self { child, port: address.port(), log }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Events so far, a line each.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log holds `words` so many times, or more: a client may be gone before its end
    /// is written.
    pub fn says(&self, words: &str, times: usize) -> String {
        let there = wait_for(LONG, || self.log().matches(words).count() >= times);
        assert!(there, "{times} times {words}: {}", self.log());
        self.log()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the server is there");
    }

    /// Waits until its network has received so many bytes more, on whichever interface: data flows.
    pub fn carries(&self, bytes: u64) {
        let carried = || {
            let counters = std::fs::read_to_string(format!("/proc/{}/net/dev", self.pid()));
            let counters = counters.expect("the server is there");
            let received = counters.lines().filter_map(|line| {
                let (_, counts) = line.split_once(':')?;
                counts.split_whitespace().next()?.parse::<u64>().ok()
            });
            received.sum::<u64>()
        };
        let before = carried();
        assert!(wait_for(LONG, || carried() >= before + bytes), "no data: {}", self.log());
    }

    pub fn alive(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Its exit code, if it ends within `limit`.
    pub fn ends(&mut self, limit: Duration) -> Option<i32> {
        wait_for(limit, || !self.alive()).then(|| {
            self.child.try_wait().expect("a child").and_then(|status| status.code()).unwrap_or(-1)
        })
    }

    /// What it holds when nothing runs, after a first test from `space`: some threads are made then and stay.
    pub fn at_rest(&self, space: Option<&str>, host: &str) -> Holds {
        let port = self.port.to_string();
        linerate(space, &["udp", host, "-p", &port, "-t", "100ms", "--json"]).complete();
        assert!(wait_for(LONG, || self.log().contains("\"ended\"")), "{}", self.log());
        let resting = || self.holds().threads <= RESTING_THREADS;
        assert!(wait_for(LONG, resting), "{:?}", self.holds());
        self.holds()
    }

    pub fn holds(&self) -> Holds {
        let pid = self.child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
        let field = |name: &str| -> u64 {
            let line = status.lines().find(|l| l.starts_with(name)).expect("a field");
            line.split_whitespace().nth(1).expect("a value").parse().expect("a number")
        };
        Holds {
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).expect("open files").count(),
            threads: field("Threads:") as usize,
            rss_kib: field("VmRSS:"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that was started.
pub struct Client {
    child: Child,
    out: std::thread::JoinHandle<String>,
    err: std::thread::JoinHandle<String>,
    args: String,
    /// While it is there, nobody reads what the client prints.
    unread: Option<std::sync::mpsc::Sender<()>>,
}

/// A client that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<std::process::Output> for Ran {
    fn from(ended: std::process::Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: ended.status.code().unwrap_or(-1),
            out: text(&ended.stdout),
            err: text(&ended.stderr),
        }
    }
}

impl Client {
    pub fn start(space: Option<&str>, args: &[&str]) -> Self {
        let mut client = Self::spawn(space, args, None);
        client.unread = None;
        client
    }

    /// A client that waits once it has written two pages of its output, until its end is waited for: what it does
    /// after that it does after what a test does first, however late the test comes to it.
    pub fn unread(space: Option<&str>, args: &[&str]) -> Self {
        Self::spawn(space, args, Some(8_192))
    }

    /// With so many bytes of room for what it writes before that is read.
    fn spawn(space: Option<&str>, args: &[&str], room: Option<i32>) -> Self {
        use nix::fcntl::{FcntlArg, fcntl};
        let (out, written) = std::io::pipe().expect("a pipe");
        if let Some(bytes) = room {
            fcntl(&out, FcntlArg::F_SETPIPE_SZ(bytes)).expect("a small pipe");
        }
        let mut child = command(space)
            .args(args)
            .stdout(written)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let (unread, read) = std::sync::mpsc::channel::<()>();
        let err = child.stderr.take().expect("piped");
        let collect = |mut from: Box<dyn Read + Send>,
                       read: Option<std::sync::mpsc::Receiver<()>>| {
            std::thread::spawn(move || {
                let _ = read.map(|read| read.recv());
                let mut text = String::new();
                let _ = from.read_to_string(&mut text);
                text
            })
        };
        let (out, err) = (collect(Box::new(out), Some(read)), collect(Box::new(err), None));
        Self { child, out, err, args: args.join(" "), unread: Some(unread) }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the client is there");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether a data thread of it is there: its stream is open.
    pub fn has_stream(&self) -> bool {
        !data_threads(self.pid()).is_empty()
    }

    pub fn alive(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ran {
        self.unread = None;
        if !wait_for(LONG, || self.child.try_wait().expect("a child").is_some()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            panic!("linerate {} hangs\n{}", self.args, self.err.join().unwrap_or_default());
        }
        let code = self.child.wait().expect("it ended").code().unwrap_or(-1);
        let (out, err) = (self.out.join().expect("text"), self.err.join().expect("text"));
        Ran { code, out, err }
    }
}

/// Runs a client to its end.
pub fn linerate(space: Option<&str>, args: &[&str]) -> Ran {
    Client::start(space, args).end()
}

impl Ran {
    /// The one record of `--json`.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("no record: {e}\n{}\n{}", self.out, self.err))
    }

    /// The record of a test that came to its planned end, its identities checked.
    pub fn complete(&self) -> Value {
        assert_eq!(self.code, 0, "exit code; {}\n{}", self.err, self.out);
        let record = self.record();
        assert_eq!(record["status"], "complete", "{}", record["error"]);
        identities(&record);
        record
    }

    /// The error of a test that failed or was cut short.
    pub fn error(&self, kind: &str, code: i32) -> Value {
        let record = self.record();
        let error = record["error"].clone();
        assert_eq!(
            (error["kind"].as_str(), self.code),
            (Some(kind), code),
            "{error}\n{}",
            self.err
        );
        assert_eq!(error["exit_code"], code);
        for key in ["what", "why"] {
            assert!(!error[key].as_str().unwrap().is_empty(), "{error}");
        }
        assert!(self.err.contains("error: "), "the error is told on stderr too: {}", self.err);
        record
    }
}

/// Whether a record or a document of many says itself that others had the cores: then its figures may be theirs.
pub fn says_busy(document: &Value) -> bool {
    list(&document["doubts"]).iter().any(|doubt| doubt["kind"] == "host-busy")
}

/// Runs `each` on all of `cases`, a few at a time: their rates are low.
pub fn together<T: Sync>(cases: &[T], each: impl Fn(&T) + Sync) {
    let next = Mutex::new(cases.iter());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let case = next.lock().unwrap().next();
                    let Some(case) = case else { return };
                    each(case);
                }
            });
        }
    });
}

/// Whether a command succeeded, and what it printed: with its errors where it did not.
pub fn run(program: &str, args: &[&str]) -> (bool, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    match Command::new(program)
        .args(args)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .output()
    {
        Ok(out) => {
            let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
            // Whoever succeeds may warn of what is none of the test's: of an end of a veth that goes, say.
            if !out.status.success() {
                text.push_str(&String::from_utf8_lossy(&out.stderr));
            }
            (out.status.success(), text)
        }
        Err(e) => (false, e.to_string()),
    }
}

/// Share of the time in which some task of this host waited for a core, over `work`. What
/// records of virtual machines say counts only their own kernels' waiting.
pub fn pressure<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let waited = || {
        let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let total = text.lines().next().and_then(|line| line.rsplit('=').next()?.parse().ok());
        Duration::from_micros(total.unwrap_or(0))
    };
    let (before, start) = (waited(), Instant::now());
    let result = work();
    let share = waited().saturating_sub(before).as_secs_f64() / start.elapsed().as_secs_f64();
    (result, share)
}
