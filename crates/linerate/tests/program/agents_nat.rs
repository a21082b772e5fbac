//! An agent behind NAT, in namespaces: `a` has its addresses translated on the way to `b`, where the broker is.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use linerate_testkit::nats::program;
use linerate_testkit::peer::LONG;
use serde_json::Value;

use crate::support::agents::ANYTHING;
use crate::support::{Lab, Place, alone, certificate, command, linerate, wait_for};

const MASQUERADE: &str = "table ip nat {
    chain out {
        type nat hook postrouting priority 100;
        oifname \"right\" masquerade
    }
}
";

/// All that runs in the namespaces; ended with this.
struct World {
    running: Vec<Child>,
    folder: PathBuf,
    lab: Lab,
    _alone: Place,
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

impl World {
    /// Nothing where there is no nats-server, or no namespace can be made.
    fn new() -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = program("an agent behind NAT", target)?;
        let alone = alone();
        if !Lab::possible("an agent behind NAT") {
            return None;
        }
        let lab = Lab::routed();
        lab.nft("r", MASQUERADE);
        let folder = target.join(format!("agents-nat-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut this = Self { running: Vec::new(), folder, lab, _alone: alone };
        let [own, key, ca] = certificate(&this.folder, "10.77.2.2");
        let tls = ["--cert", &own, "--cert-key", &key, "--ca", &ca];
        let init = ["fleet", "init", &this.path("fleet"), "--listen", "10.77.2.2:4222"];
        let made = linerate(None, &[&init[..], &tls].concat());
        assert_eq!(made.code, 0, "{}", made.err);
        let mut broker = Command::new("ip");
        broker.args(["netns", "exec", &this.lab.space("b")]).arg(program);
        this.spawn(broker.args(["--config", &this.path("fleet/broker.conf")]));
        assert!(wait_for(LONG, || this.hosts().is_some()), "no broker");
        Some(this)
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn spawn(&mut self, command: &mut Command) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.running.push(command.spawn().expect("it starts"));
    }

    /// A host becomes the agent of its name, and works.
    fn agent(&mut self, name: &str, address: &str) {
        let (space, own) = (self.lab.space(name), self.lab.space("b"));
        let mut inviting = command(Some(&own));
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
        let policy = ["--policy", &self.path("policy"), "--address", address, "--port", "0"];
        self.spawn(command(Some(&space)).arg("agent").args(state).args(policy));
    }

    /// What `fleet hosts` says, once the broker is there.
    fn hosts(&self) -> Option<Value> {
        let words = ["fleet", "hosts", &self.path("fleet"), "--json"];
        let ran = linerate(Some(&self.lab.space("b")), &words);
        (ran.code == 0).then(|| serde_json::from_str(&ran.out).expect("JSON"))
    }
}

#[test]
fn an_agent_behind_nat_is_told_and_measured_as_a_client() {
    let Some(mut world) = World::new() else { return };
    world.agent("a", "10.77.1.1");
    world.agent("b", "10.77.2.2");
    let mut shown = Value::Null;
    let both = |found: &Value| {
        let agents = found["agents"].as_array().cloned().unwrap_or_default();
        agents.iter().filter(|agent| agent["said"].is_object()).count() == 2
    };
    let there = wait_for(LONG, || {
        shown = world.hosts().unwrap_or_default();
        both(&shown)
    });
    assert!(there, "{shown}");
    let said = |agent: usize| &shown["agents"][agent]["said"];
    assert_eq!((&said(0)["nat"], &said(1)["nat"]), (&"behind".into(), &"none".into()), "{shown}");
    let nic = &said(0)["inventory"]["nics"][0];
    assert_eq!((&nic["name"], &nic["mtu"]), (&"eth0".into(), &1_500.into()), "{shown}");
    let (space, dir) = (world.lab.space("b"), world.path("fleet"));
    let doctor = linerate(Some(&space), &["fleet", "doctor", &dir]);
    assert_eq!(doctor.code, 0, "{}\n{}", doctor.err, doctor.out);
    assert!(doctor.out.contains("a is behind NAT"), "{}", doctor.out);
    let keep = world.path("fleet.db");
    let run =
        ["fleet", "run", "--hosts", "a,b", "--nats", &dir, "--keep", &keep, "rr", "-t", "300ms"];
    let ran = linerate(Some(&space), &run);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
}
