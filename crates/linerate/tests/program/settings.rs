//! Settings of a host in a network namespace, changed by a controller through `linerate serve`, and
//! put back whatever dies. What the system's own tools say is the truth.

use crate::support;
use linerate_testkit::peer::LONG;
use linerate_testkit::plans;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::controlled::{
    KEY, PORT, Scratch, access, comes_back, control, device, helper_of, monitor_of, plan, set,
    settings, snapshot,
};
use crate::support::{Lab, Server, alone, long, wait_for};
use linerate_model::setting::{Outcome, RestoreOutcome, SettingValue};
use linerate_runner::agent::{Access, CommandRequest, DeviceChoice, HostAgent, Remote, RemoteTest};
use nix::sys::signal::{Signal, kill};

fn serve(lab: &Lab, scratch: &Scratch, more: &[&str]) -> Server {
    let (key, state) = (scratch.path("key"), scratch.path("state"));
    let args = ["--key-file", &key, "--allow-settings", "--state-dir", &state];
    Server::on_port(Some(&lab.space("a")), PORT, &[&args[..], more].concat())
}

/// Which processes are killed while settings are being changed.
#[derive(Debug, Clone, Copy)]
struct Victims {
    server: bool,
    monitor: bool,
    helper: bool,
}

impl Victims {
    fn all() -> impl Iterator<Item = Self> {
        let bit = |n: u8, at: u8| n >> at & 1 == 1;
        (1..8).map(move |n| Self { server: bit(n, 0), monitor: bit(n, 1), helper: bit(n, 2) })
    }
}

#[test]
fn whatever_is_killed_everything_comes_back() {
    let _alone = alone();
    if !Lab::possible("whatever_is_killed_everything_comes_back") {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("kill");
    let before = snapshot(&lab);
    let times = if long() { 100_u64 } else { 10 };
    // Spread over the time that the changes take, and beyond it.
    let pauses = (0..times).map(|i| Duration::from_micros(i * 60_000 / times));
    for (turn, pause) in pauses.enumerate() {
        for victims in Victims::all() {
            let mut server = serve(&lab, &scratch, &[]);
            let (tell, told) = std::sync::mpsc::channel();
            let controller = lab.inside("a", move || {
                let mut host = Remote::connect(&access("10.77.1.1")).expect("let in");
                tell.send(()).expect("the test waits");
                let _ = host.apply(Some(&device()), &settings());
                // Until the other end is gone, or another helper has come.
                let _ = host.restore();
            });
            told.recv().expect("a controller");
            std::thread::sleep(pause);
            let (monitor, helper) = (monitor_of(server.pid()), helper_of(server.pid()));
            for (killed, pid) in [(victims.helper, helper), (victims.monitor, monitor)] {
                if let Some(pid) = pid.filter(|_| killed) {
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
            if victims.server {
                server.signal(Signal::SIGKILL);
            }
            let what = format!("{turn} {victims:?}");
            if !victims.server && !victims.monitor {
                // The monitor starts another helper.
                controller.join().expect("the controller ends");
                comes_back(&lab, &before, &what);
                assert!(server.alive());
                continue;
            }
            // A server without its monitor ends by itself, for whoever supervises it to start it anew.
            let code = server.ends(LONG).expect("it ends");
            assert_ne!(code, 0, "{what}");
            let next = (victims.monitor && victims.helper).then(|| serve(&lab, &scratch, &[]));
            // Where the helper or its monitor is left, that does it with nobody else there.
            comes_back(&lab, &before, &what);
            drop(next);
            controller.join().expect("the controller ends");
        }
    }
}

/// The helper is killed while nothing is asked of it, so that its end is not noticed, and then the server.
#[test]
fn a_monitor_that_is_left_alone_puts_everything_back() {
    let _alone = alone();
    if !Lab::possible("a_monitor_that_is_left_alone_puts_everything_back") {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("alone");
    let before = snapshot(&lab);
    let mut server = serve(&lab, &scratch, &[]);
    let (pid, (die, dead)) = (server.pid(), std::sync::mpsc::channel());
    let (tell, told) = std::sync::mpsc::channel();
    let controller = lab.inside("a", move || {
        let mut host = Remote::connect(&access("10.77.1.1")).expect("let in");
        assert!(host.apply(Some(&device()), &settings()).unwrap().iter().all(|a| a.holds()));
        tell.send(()).unwrap();
        dead.recv().unwrap();
    });
    told.recv().unwrap();
    assert_ne!(snapshot(&lab), before);
    kill(helper_of(pid).expect("a helper"), Signal::SIGKILL).unwrap();
    server.signal(Signal::SIGKILL);
    server.ends(LONG).expect("killed");
    comes_back(&lab, &before, "helper and server");
    die.send(()).unwrap();
    controller.join().expect("the controller ends");
}

#[test]
fn what_others_changed_meanwhile_is_left_and_told() {
    let _alone = alone();
    if !Lab::possible("what_others_changed_meanwhile_is_left_and_told") {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("foreign");
    lab.run("a", "ethtool -K eth0 tso on");
    let times = if long() { 20 } else { 3 };
    for turn in 0..times {
        let server = serve(&lab, &scratch, &[]);
        let space = lab.space("a");
        let restoration = control(&lab, "b", move |host| {
            let done = host.apply(Some(&device()), &settings()).unwrap();
            assert!(done.iter().all(|applied| applied.holds()), "{done:?}");
            assert!(!done[1].also.is_empty(), "segmentation needs checksums: {done:?}");
            let line = format!("netns exec {space} ip link set eth0 mtu {}", 4_000 + turn);
            let status = std::process::Command::new("ip").args(line.split(' ')).status();
            assert!(status.unwrap().success());
            host.restore().unwrap()
        });
        let left: Vec<_> = restoration
            .knobs
            .iter()
            .filter(|k| k.outcome == RestoreOutcome::ChangedByOthers)
            .collect();
        assert_eq!(left.len(), 1, "{restoration:?}");
        assert_eq!(left[0].what, "MTU of eth0");
        assert_eq!(left[0].now, Some((4_000 + turn).to_string()));
        assert!(lab.run("a", "ip link show eth0").contains(&format!("mtu {}", 4_000 + turn)));
        lab.run("a", "ip link set eth0 mtu 1500");
        drop(server);
    }
    // Told by the server as well, when the controller goes without a word.
    let server = serve(&lab, &scratch, &[]);
    let space = lab.space("a");
    control(&lab, "b", move |host| {
        host.apply(Some(&device()), &settings()).unwrap();
        let line = format!("netns exec {space} ip link set eth0 mtu 4000");
        assert!(std::process::Command::new("ip").args(line.split(' ')).status().unwrap().success());
    });
    let told = "1 left as somebody else set them (MTU of eth0)";
    server.says(told, 1);
}

#[test]
fn who_may_not_is_told_why() {
    let _alone = alone();
    if !Lab::possible("who_may_not_is_told_why") {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("refused");
    let before = snapshot(&lab);
    let refused = |key: &'static [u8]| {
        lab.inside("b", move || {
            let access = Access { key: key.to_vec(), ..access("10.77.1.1") };
            Remote::connect(&access).err().expect("refused")
        })
        .join()
        .unwrap()
    };
    {
        let _server =
            Server::on_port(Some(&lab.space("a")), PORT, &["--key-file", &scratch.path("key")]);
        let error = refused(KEY);
        assert_eq!((error.kind.name(), error.exit_code), ("policy", 3), "{error:?}");
        assert!(error.hints[0].contains("--allow-settings"), "{error:?}");
    }
    let server = serve(&lab, &scratch, &[]);
    assert_eq!(refused(b"another key of some bytes").kind.name(), "key");
    control(&lab, "b", |host| {
        let second = Remote::connect(&access("10.77.1.1")).err().expect("one is enough");
        assert_eq!(second.kind.name(), "busy");
        let command = CommandRequest { argv: vec!["true".into()], limit_ms: 1_000, keep_bytes: 10 };
        let error = host.run_command(&command).unwrap_err();
        assert_eq!(error.kind.name(), "policy");
        assert!(error.hints[0].contains("--allow-commands"));
        let error = host.reboot(None).unwrap_err();
        assert!(error.hints[0].contains("--allow-reboot"), "{error:?}");
        for (setting, words) in [
            (set("ring.rx", SettingValue::Number(512)), "no such setting"),
            (set("offload.lro", SettingValue::Switch(true)), "does not let it be switched"),
        ] {
            let done = host.apply(Some(&device()), &[setting]).unwrap();
            assert_eq!(done[0].outcome, Outcome::Refused);
            assert!(done[0].why.as_deref().unwrap().contains(words), "{done:?}");
        }
        let towards = DeviceChoice::Towards("10.77.1.2".into());
        let back = host.read(Some(&towards), &["mtu".parse().unwrap()]).unwrap();
        assert_eq!(back[0].device.as_deref(), Some("eth0"));
        assert_eq!(back[0].value, Some(SettingValue::Number(1_500)));
        let (facts, permissions) = host.facts().unwrap();
        assert!(facts.boot_id.is_some());
        assert!(permissions.settings && !permissions.commands && !permissions.reboot);
    });
    server.says("another key", 1);
    assert_eq!(snapshot(&lab), before);
}

#[test]
fn tests_commands_and_reboots_are_run_there() {
    let _alone = alone();
    if !Lab::possible("tests_commands_and_reboots_are_run_there") {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("work");
    let booted = scratch.path("booted");
    let reboot = format!("--allow-reboot=touch {booted}");
    let _far = Server::on_port(Some(&lab.space("b")), PORT, &["--key-file", &scratch.path("key")]);
    let mut server = serve(&lab, &scratch, &["--allow-commands", &reboot]);
    let plan = plan();
    control(&lab, "b", move |host| {
        let test = plans::remote("10.77.1.2", PORT, plan);
        let record = host.run_test(&test).unwrap();
        assert_eq!(record.error, None);
        assert!(serde_json::to_string(&record).unwrap().len() > 24 << 10, "in pieces");
        let without = host.run_test(&RemoteTest { with_key: false, ..test.clone() }).unwrap();
        assert_eq!(without.error.unwrap().kind.name(), "key");
        let run = |host: &mut Remote, script: &str, limit_ms| {
            let argv = ["sh", "-c", script].map(String::from).to_vec();
            host.run_command(&CommandRequest { argv, limit_ms, keep_bytes: 100_000 })
        };
        let done = run(host, "echo here; head -c 90000 /dev/zero; exit 4", 60_000).unwrap();
        assert_eq!(done.code, Some(4));
        assert_eq!(done.out.len(), 90_005);
        let done = run(host, "sleep 1000", 100).unwrap();
        assert!(done.timed_out);
        host.reboot(None).unwrap();
        host.ping().unwrap();
    });
    assert!(Path::new(&booted).exists());

    // The host dies while a command runs: the controller is told, and the command dies too, with
    // what it has started.
    let lab_a = lab.space("a");
    let mark = format!("7{:09}", std::process::id());
    let sleep = mark.clone();
    let controller = lab.inside("b", move || {
        let mut host = Remote::connect(&access("10.77.1.1")).expect("let in");
        let script = format!("sleep {sleep} & (sleep {sleep} & wait) & wait");
        let argv = ["sh".to_owned(), "-c".to_owned(), script].to_vec();
        host.run_command(&CommandRequest { argv, limit_ms: 60_000, keep_bytes: 0 }).unwrap_err()
    });
    let running = || {
        let out =
            std::process::Command::new("ip").args(["netns", "pids", &lab_a]).output().unwrap();
        let mine = |pid: &&str| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .contains(&mark)
        };
        String::from_utf8_lossy(&out.stdout).lines().filter(mine).count()
    };
    assert!(wait_for(LONG, || running() == 4), "the command runs");
    server.signal(Signal::SIGKILL);
    server.ends(LONG).expect("killed");
    assert_eq!(controller.join().unwrap().kind.name(), "server_lost");
    assert!(wait_for(LONG, || running() == 0), "all of it died with it");
}

/// A helper that was started anew is not one that keeps the settings.
#[test]
fn settings_of_a_helper_that_died_do_not_hold() {
    let _alone = alone();
    if !Lab::possible("settings_of_a_helper_that_died_do_not_hold") {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("died");
    let server = serve(&lab, &scratch, &["--allow-commands"]);
    let pid = server.pid();
    control(&lab, "b", move |host| {
        let apply = |host: &mut Remote| host.apply(Some(&device()), &settings());
        let command = |host: &mut Remote| {
            let argv = vec!["true".to_owned()];
            host.run_command(&CommandRequest { argv, limit_ms: 60_000, keep_bytes: 0 })
        };
        assert!(apply(host).unwrap().iter().all(|applied| applied.holds()));
        command(host).unwrap();
        kill(helper_of(pid).expect("a helper"), Signal::SIGKILL).unwrap();
        assert_eq!(apply(host).unwrap_err().kind.name(), "helper_lost");
        // TestEvent, and yet nothing runs on settings that are not there.
        assert_eq!(command(host).unwrap_err().kind.name(), "helper_lost");
        assert_eq!(command(host).unwrap_err().kind.name(), "helper_lost");
        assert!(apply(host).unwrap().iter().all(|applied| applied.holds()));
        command(host).unwrap();
        assert!(host.restore().unwrap().complete());
        command(host).unwrap();
    });
}

/// The connection ends when the settings are back, not before.
#[test]
fn a_controller_that_left_finds_the_host_as_it_was() {
    let _alone = alone();
    if !Lab::possible("a_controller_that_left_finds_the_host_as_it_was") {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("left");
    let before = snapshot(&lab);
    let _server = serve(&lab, &scratch, &[]);
    for _ in 0..5 {
        let changed = control(&lab, "b", |host| {
            host.apply(Some(&device()), &settings()).unwrap().iter().all(|a| a.holds())
        });
        assert!(changed);
        assert_eq!(snapshot(&lab), before);
    }
}

/// A server without a key must not be taken for one that has shown it.
#[test]
#[ignore = "long"]
fn a_test_with_the_key_is_not_run_in_a_dialect_that_has_none() {
    const TEST: &str = "a_test_with_the_key_is_not_run_in_a_dialect_that_has_none";
    let _alone = alone();
    if !Lab::possible(TEST) {
        return;
    }
    if !std::process::Command::new("iperf3").arg("-v").output().is_ok_and(|o| o.status.success()) {
        return support::skip(TEST, "there is no iperf3 (Debian: apt-get install iperf3)");
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("dialect");
    let _server = serve(&lab, &scratch, &[]);
    let space = lab.space("b");
    let mut iperf3 = std::process::Command::new("ip")
        .args(["netns", "exec", &space, "iperf3", "-s", "-p", "5399"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let listens = || lab.run("b", "ss -ltn").contains(":5399");
    let up = wait_for(LONG, listens);
    let plan = plan();
    let records = control(&lab, "b", move |host| {
        [true, false].map(|with_key| {
            let test = plans::remote("10.77.1.2", 5399, plan.clone());
            host.run_test(&RemoteTest { with_key, ..test })
        })
    });
    let _ = iperf3.kill();
    let _ = iperf3.wait();
    assert!(up, "iperf3 listens");
    let [with, without] = records.map(Result::unwrap);
    assert!(with.error.is_some(), "{:?}", with.agreed);
    assert_eq!(without.error, None, "the same test without the key is run");
}

#[test]
#[ignore = "long"]
fn a_controller_that_vanishes_leaves_the_host_as_it_was() {
    let _alone = alone();
    if !Lab::possible("a_controller_that_vanishes_leaves_the_host_as_it_was") {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("vanish");
    let before = snapshot(&lab);
    let server = serve(&lab, &scratch, &[]);
    let (tell, told) = std::sync::mpsc::channel();
    let controller = lab.inside("b", move || {
        let mut host = Remote::connect(&access("10.77.1.1")).expect("let in");
        host.apply(Some(&device()), &settings()).unwrap();
        tell.send(()).unwrap();
        // Until it finds out by itself that nobody is there.
        let start = Instant::now();
        while host.ping().is_ok() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
        }
        host.ping().unwrap_err()
    });
    told.recv().unwrap();
    assert_ne!(snapshot(&lab), before);
    lab.run("b", "ip link set eth0 down");
    server.says("control_ended", 1);
    comes_back(&lab, &before, "silence");
    assert_eq!(controller.join().unwrap().kind.name(), "server_lost");
}
