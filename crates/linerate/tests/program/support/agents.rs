//! A broker with agents, on this machine.

use std::fs::{File, read_to_string};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use linerate_broker::Credentials;
use linerate_testkit::nats::{Nats, program};
use linerate_testkit::peer::LONG;
use linerate_testkit::port::free_port;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{Lab, PORT, Place, Ran, alone, certificate, command, linerate, run, wait_for};

pub const ANYTHING: &str = "tests = [\"udp\", \"tcp\", \"rr\"]\npeers = [\"*\"]\nmax_duration = \"1m\"\nmax_rate = \"max\"\n";

/// An agent's process; killed with this.
pub struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    pub fn start(folder: &Path, name: &str) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).expect("a log");
        // A file that may not grow is an error to it, and no signal.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_linerate")]);
        command.args(["agent", "--address", "127.0.0.1", "--port", "0", "--state-dir"]);
        command.arg(folder.join(name)).arg("--policy").arg(folder.join(format!("{name}.toml")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        Self { child: command.spawn().expect("the agent starts"), log }
    }

    pub fn log(&self) -> String {
        read_to_string(&self.log).unwrap_or_default()
    }

    pub fn said(&self, words: &str) {
        assert!(wait_for(LONG, || self.log().contains(words)), "no `{words}` in\n{}", self.log());
    }

    /// Lets none of its files grow beyond so many bytes, or `unlimited`: as a disk without room.
    pub fn room(&self, bytes: &str) {
        let (pid, most) = (self.child.id().to_string(), format!("--fsize={bytes}:"));
        let (done, why) = run("prlimit", &["--pid", &pid, &most]);
        assert!(done, "{why}");
    }

    /// Ends it as a service is ended, and waits until it has.
    pub fn end(&mut self) {
        let pid = Pid::from_raw(self.child.id() as i32);
        kill(pid, Signal::SIGTERM).expect("it is there");
        assert!(self.child.wait().expect("it ends").success(), "{}", self.log());
    }

    /// Whether it is in a test, which has a thread of its own.
    pub fn measures(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let name = |thread: std::fs::DirEntry| read_to_string(thread.path().join("comm")).ok();
        let mut names = threads.into_iter().flatten().flatten().filter_map(name);
        names.any(|name| name.trim() == "test")
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A broker with agents that are connected.
pub struct Fleet {
    pub agents: Vec<Agent>,
    pub nats: Nats,
    pub folder: PathBuf,
    /// Whose certificates are believed, where it speaks TLS.
    ca: Option<String>,
    _alone: Place,
}

impl Fleet {
    /// Nothing where there is no nats-server. A policy of each agent allows everything.
    pub fn new(test: &str, names: &[&str]) -> Option<Self> {
        Self::speaking(test, names, false)
    }

    pub fn speaking(test: &str, names: &[&str], tls: bool) -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = program(test, target)?;
        let alone = alone();
        let folder = target.join(format!("agents-{test}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let dir = folder.join("fleet").display().to_string();
        let listen_at = listen.to_string();
        let init = ["fleet", "init", &dir, "--listen", &listen_at];
        let files = tls.then(|| certificate(&folder, "127.0.0.1"));
        let made = match &files {
            None => linerate(None, &init),
            Some([own, key, ca]) => {
                let tls = ["--cert", own, "--cert-key", key, "--ca", ca];
                linerate(None, &[&init[..], &tls].concat())
            }
        };
        assert_eq!(made.code, 0, "{}", made.err);
        let ca = files.map(|[_, _, ca]| ca);
        let nats = Nats::start(&program, &folder.join("fleet/broker.conf"), listen);
        let mut this = Self { agents: Vec::new(), nats, folder, ca, _alone: alone };
        // JetStream may begin after the server listens.
        assert!(wait_for(LONG, || linerate(None, &["fleet", "hosts", &dir]).code == 0));
        for name in names {
            this.enrol(name);
            this.allow(name, ANYTHING);
            this.agents.push(Agent::start(&this.folder, name));
        }
        for name in names {
            this.seen(name, " idle ");
        }
        Some(this)
    }

    pub fn dir(&self) -> String {
        self.folder.join("fleet").display().to_string()
    }

    pub fn allow(&self, name: &str, policy: &str) {
        std::fs::write(self.folder.join(format!("{name}.toml")), policy).expect("a policy");
    }

    pub fn enrol(&self, name: &str) {
        self.enrol_for(name, &[]);
    }

    /// With more words for `fleet enrol`.
    pub fn enrol_for(&self, name: &str, more: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(["fleet", "enrol", &self.dir(), name]).args(more).stdin(Stdio::null());
        let mut inviting =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut token = String::new();
        let mut out = BufReader::new(inviting.stdout.take().expect("piped"));
        out.read_line(&mut token).expect("a token");
        let file = self.folder.join("token");
        std::fs::write(&file, &token).expect("a file");
        let (file, state) =
            (file.display().to_string(), self.folder.join(name).display().to_string());
        let become_one = ["agent", "--enrol", &file, "--state-dir", &state];
        let believed: Vec<&str> = self.ca.iter().flat_map(|ca| ["--ca", ca]).collect();
        let enrolled = linerate(None, &[&become_one[..], &believed].concat());
        assert_eq!(enrolled.code, 0, "{}", enrolled.err);
        assert!(enrolled.out.contains(&format!("the agent {name}")), "{}", enrolled.out);
        assert!(inviting.wait().expect("it ends").success());
        let again = linerate(None, &[&become_one[..], &believed].concat());
        assert_ne!(again.code, 0, "a token is good once");
    }

    /// Waits until `fleet hosts` has a line of this agent with these words.
    pub fn seen(&self, name: &str, words: &str) {
        let mut shown = String::new();
        let is_seen = || {
            shown = linerate(None, &["fleet", "hosts", &self.dir()]).out;
            shown.lines().any(|line| line.starts_with(&format!("{name} ")) && line.contains(words))
        };
        assert!(wait_for(LONG, is_seen), "no {name} with `{words}` in\n{shown}");
    }

    pub fn words(&self, hosts: &str, before: &[&str], test: &[&str]) -> Vec<String> {
        self.words_to("fleet.db", hosts, before, test)
    }

    pub fn words_to(&self, keep: &str, hosts: &str, before: &[&str], test: &[&str]) -> Vec<String> {
        let keep = self.folder.join(keep).display().to_string();
        let dir = self.dir();
        let words = ["fleet", "run", "--hosts", hosts, "--nats", &dir, "--keep", &keep, "--json"];
        [&words[..], before, test].concat().into_iter().map(str::to_owned).collect()
    }

    pub fn run(&self, hosts: &str, before: &[&str], test: &[&str]) -> Ran {
        let words = self.words(hosts, before, test);
        linerate(None, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What was kept until now.
    pub fn kept(&self) -> Value {
        let keep = self.folder.join("fleet.db").display().to_string();
        let ran = linerate(None, &["fleet", "results", &keep, "--json"]);
        serde_json::from_str(&ran.out).unwrap_or_default()
    }

    pub fn operator(&self) -> Credentials {
        let path = self.folder.join("fleet/operator.json");
        Credentials::read(&path, &read_to_string(&path).expect("a file")).expect("credentials")
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.agents.clear();
        self.nats.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A broker with agents in the namespaces of a lab; all of it ends with this.
pub struct World {
    running: Vec<Child>,
    folder: PathBuf,
    pub lab: Lab,
    /// Where the broker is, and whoever asks it.
    space: &'static str,
    _alone: Place,
}

impl World {
    /// With a broker at this address of a namespace, and no agent. Nothing where there is no nats-server, or no namespace
    /// can be made.
    pub fn new(
        test: &str,
        lab: fn() -> Lab,
        (space, address): (&'static str, &str),
    ) -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = program(test, target)?;
        let alone = alone();
        if !Lab::possible(test) {
            return None;
        }
        let folder = target.join(format!("agents-{test}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut this = Self { running: Vec::new(), folder, lab: lab(), space, _alone: alone };
        let [own, key, ca] = certificate(&this.folder, address);
        let tls = ["--cert", &own, "--cert-key", &key, "--ca", &ca];
        let listen = format!("{address}:4222");
        let init = ["fleet", "init", &this.path("fleet"), "--listen", &listen];
        let made = linerate(None, &[&init[..], &tls].concat());
        assert_eq!(made.code, 0, "{}", made.err);
        let mut broker = Command::new("ip");
        broker.args(["netns", "exec", &this.space()]).arg(program);
        this.spawn(broker.args(["--config", &this.path("fleet/broker.conf")]));
        assert!(wait_for(LONG, || this.hosts().is_some()), "no broker");
        Some(this)
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// The name of the broker's namespace.
    pub fn space(&self) -> String {
        self.lab.space(self.space)
    }

    fn spawn(&mut self, command: &mut Command) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.running.push(command.spawn().expect("it starts"));
    }

    /// A namespace becomes the agent of its name, with tests at [`PORT`] of this address, and works. Everything is allowed.
    pub fn agent(&mut self, name: &str, address: &str) {
        let space = self.lab.space(name);
        let mut inviting = command(Some(&self.space()));
        inviting.args(["fleet", "enrol", &self.path("fleet"), name]).stdout(Stdio::piped());
        let mut inviting = inviting.stderr(Stdio::null()).spawn().expect("it starts");
        let mut token = String::new();
        let mut out = BufReader::new(inviting.stdout.take().expect("piped"));
        out.read_line(&mut token).expect("a token");
        std::fs::write(self.path("token"), &token).expect("a file");
        let words = ["agent", "--enrol", &self.path("token"), "--ca", &self.path("ca.pem")];
        let state = ["--state-dir", &self.path(name)];
        let enrolled = linerate(Some(&space), &[&words[..], &state].concat());
        assert_eq!(enrolled.code, 0, "{}", enrolled.err);
        assert!(inviting.wait().expect("it ends").success());
        std::fs::write(self.path("policy"), ANYTHING).expect("a file");
        let (policy, port) = (self.path("policy"), PORT.to_string());
        let policy = ["--policy", &policy, "--address", address, "--port", &port];
        self.spawn(command(Some(&space)).arg("agent").args(state).args(policy));
    }

    /// What `fleet hosts` says, once the broker is there.
    fn hosts(&self) -> Option<Value> {
        let words = ["fleet", "hosts", &self.path("fleet"), "--json"];
        let ran = linerate(Some(&self.space()), &words);
        (ran.code == 0).then(|| serde_json::from_str(&ran.out).expect("JSON"))
    }

    /// What it says once so many agents have spoken.
    pub fn spoken(&self, count: usize) -> Value {
        let mut shown = Value::Null;
        let there = wait_for(LONG, || {
            shown = self.hosts().unwrap_or_default();
            let agents = shown["agents"].as_array().cloned().unwrap_or_default();
            agents.iter().filter(|agent| agent["said"].is_object()).count() == count
        });
        assert!(there, "{shown}");
        shown
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
