//! A host in a network namespace that a controller has in hand, what is set there, and what the system's own
//! tools say of it.

#![allow(dead_code, reason = "each file of tests uses its own part of this")]

use linerate_testkit::peer::LONG;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linerate_model::setting::{Setting, SettingValue};
use linerate_runner::agent::{Access, DeviceChoice, Remote};
use nix::unistd::Pid;

use crate::support::{Lab, wait_for};

pub const PORT: u16 = 5302;
pub const KEY: &[u8] = b"a key for tests only, 32 bytes.";

/// A directory that is gone afterwards.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("linerate-control-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("key"), KEY).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn access(name: &str) -> Access {
    Access { name: name.into(), port: PORT, ip: None, bind: None, key: KEY.to_vec() }
}

/// Runs the controller in a namespace.
pub fn control<T: Send + 'static>(
    lab: &Lab,
    which: &str,
    work: impl FnOnce(&mut Remote) -> T + Send + 'static,
) -> T {
    lab.inside(which, move || {
        let mut host = Remote::connect(&access("10.77.1.1")).expect("the host lets us in");
        work(&mut host)
    })
    .join()
    .expect("the controller ends well")
}

pub fn device() -> DeviceChoice {
    DeviceChoice::Named("eth0".into())
}

pub fn set(name: &str, value: SettingValue) -> Setting {
    Setting::new(name, value).unwrap()
}

pub fn settings() -> Vec<Setting> {
    vec![
        set("mtu", SettingValue::Number(9_000)),
        set("offload.tx-checksum", SettingValue::Switch(false)),
        set("qdisc", SettingValue::Text("pfifo".into())),
        set("sysctl.net.ipv4.tcp_rmem", SettingValue::Text("4096 131072 7000000".into())),
        set("offload.rxvlan", SettingValue::Switch(false)),
    ]
}

/// What the tools of the system say of the host.
pub fn snapshot(lab: &Lab) -> String {
    let mut all = lab.run("a", "ethtool -k eth0");
    all.push_str(&lab.run("a", "tc qdisc show dev eth0"));
    // By name: a pattern has all of them read.
    all.push_str(&lab.run("a", "sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.conf.eth0"));
    let link = lab.run("a", "ip -o link show eth0");
    // Without its flags, which tell of the other end too.
    let numbers = link.split('>').nth(1).unwrap();
    all.push_str(numbers.split(" qdisc ").next().unwrap());
    all.push_str(link.split(" qlen ").nth(1).unwrap_or_default());
    all
}

/// The child of a process that is linerate under this verb.
pub fn child_of(parent: Pid, verb: &str) -> Option<Pid> {
    let children =
        std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().find_map(|pid| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        line.contains(verb).then(|| Pid::from_raw(pid.parse().unwrap()))
    })
}

/// The process with rights behind a server.
pub fn monitor_of(server: u32) -> Option<Pid> {
    child_of(Pid::from_raw(server.try_into().unwrap()), "settings-monitor")
}

/// The helper of a server's monitor.
pub fn helper_of(server: u32) -> Option<Pid> {
    child_of(monitor_of(server)?, "settings-helper")
}

pub fn comes_back(lab: &Lab, before: &str, what: &str) {
    let start = Instant::now();
    let back = wait_for(LONG, || snapshot(lab) == before);
    assert!(back, "{what}: not as before\n{before}\nnow\n{}", snapshot(lab));
    println!("{what}: back after {:?}", start.elapsed());
}

pub fn plan() -> linerate_model::plan::TestPlan {
    use linerate_model::plan::{TestPlan, Traffic};
    use linerate_testkit::plans;
    let interval = linerate_model::units::Nanos(10_000_000);
    TestPlan { interval, ..plans::plan(Traffic::Tcp(plans::tcp())) }
}
