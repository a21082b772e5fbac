//! The units of `deploy/systemd`: how well they keep the server in, and that tests of every kind, or settings, pass
//! under what they take. There is no systemd where these run: user, capabilities, system calls, kinds of sockets and
//! the view of the file system are made as it would make them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::controlled::{KEY, Scratch, child_of, device, settings, snapshot};
use crate::support::every_kind::{all_threads_say, every_kind, sandboxed};
use crate::support::{Lab, Program, Server, alone, run, skip};
use linerate_runner::agent::{Access, HostAgent, MONITOR_VERB, Remote};
use nix::libc::{self, c_long};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::Pid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use serde_json::json;

const OPEN: &str = "linerate.service";
const CONTROLLED: &str = "linerate-controlled.service";
/// The user of a unit with a user of its own.
const NOBODY: &str = "65534";
/// Calls by which the process becomes that user without rights; systemd makes them before its filter.
const BEFORE: [&str; 6] = ["capset", "setgroups", "setregid", "setresgid", "setresuid", "setreuid"];
/// What the unit makes of the file system, as far as it can be made here.
const VIEW: &str = "mount --make-rprivate / &&
    mount -o remount,bind,ro / &&
    mount -t proc -o hidepid=invisible proc /proc &&
    mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys &&
    mount --rbind /sys /sys && mount -o remount,bind,ro /sys &&
    mount -t tmpfs -o ro tmpfs /home";

fn unit(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd").join(name)
}

/// What a unit says of one thing, a line each.
fn says(name: &str, unit_name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(unit(unit_name)).expect("the unit");
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines.map(str::to_owned).collect()
}

/// Whether these programs are there; says which is not.
fn have(test: &str, programs: &[(&str, &str)]) -> bool {
    let missing = programs
        .iter()
        .find(|(program, _)| Command::new(program).arg("--version").output().is_err());
    if let Some((program, package)) = missing {
        skip(test, &format!("{program} is not installed (Debian's package {package})"));
    }
    missing.is_none()
}

#[test]
fn the_unit_is_rated_2_0_at_most() {
    rated("the_unit_is_rated_2_0_at_most", OPEN, 2.0);
}

/// It has a process with rights, which can do what is asked of it and little more.
#[test]
fn the_unit_of_a_controlled_host_is_rated_3_0_at_most() {
    rated("the_unit_of_a_controlled_host_is_rated_3_0_at_most", CONTROLLED, 3.0);
}

#[test]
fn the_unit_of_an_agent_is_rated_2_0_at_most() {
    rated("the_unit_of_an_agent_is_rated_2_0_at_most", "linerate-agent.service", 2.0);
}

fn rated(test: &str, name: &str, most: f64) {
    if !have(test, &[("systemd-analyze", "systemd")]) {
        return;
    }
    let path = unit(name).display().to_string();
    let rated = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", &path])
        .output()
        .expect("systemd-analyze");
    let text = String::from_utf8_lossy(&rated.stdout);
    let exposure = text.lines().find_map(|line| {
        let (_, level) = line.split_once(&format!("Overall exposure level for {name}: "))?;
        level.split(' ').next()?.parse::<f64>().ok()
    });
    let failed = String::from_utf8_lossy(&rated.stderr);
    assert!(exposure.is_some_and(|exposure| exposure <= most), "{exposure:?}\n{text}{failed}");
    println!("{exposure:?}");
}

/// The calls that a set of systemd's stands for.
fn expanded(word: &str) -> BTreeSet<String> {
    if !word.starts_with('@') {
        return BTreeSet::from([word.to_owned()]);
    }
    let (known, text) = run("systemd-analyze", &["syscall-filter", "--no-pager", word]);
    assert!(known, "no set {word}: {text}");
    let lines = text.lines().skip(1).map(str::trim);
    let words = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    words.flat_map(expanded).collect()
}

/// The calls that a unit leaves. Some nobody can take from a service.
fn left(unit: &str) -> BTreeSet<String> {
    let mut left = expanded("@default");
    for line in says("SystemCallFilter", unit) {
        let (taken, words) = match line.strip_prefix('~') {
            Some(words) => (true, words),
            None => (false, line.as_str()),
        };
        for call in words.split_whitespace().flat_map(expanded) {
            if taken {
                left.remove(&call);
            } else {
                left.insert(call);
            }
        }
    }
    left
}

/// The numbers of this system's calls by their names.
fn numbers() -> BTreeMap<String, c_long> {
    let (preprocessed, text) =
        run("cc", &["-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"]);
    assert!(preprocessed, "{text}");
    let of = |line: &str| -> Option<(String, c_long)> {
        let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.lines().filter_map(of).collect()
}

/// A unit's filter of system calls, and of kinds of sockets.
fn filter(unit: &str) -> BpfProgram {
    let numbers = numbers();
    let calls = left(unit).into_iter().chain(BEFORE.map(str::to_owned));
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        calls.filter_map(|call| Some((*numbers.get(&call)?, vec![]))).collect();
    assert!(rules.contains_key(&libc::SYS_read) && !rules.contains_key(&libc::SYS_mount));
    let families = says("RestrictAddressFamilies", unit).join(" ");
    let families = families.split_whitespace().map(|family| {
        let number = match family {
            "AF_INET" => libc::AF_INET,
            "AF_INET6" => libc::AF_INET6,
            "AF_NETLINK" => libc::AF_NETLINK,
            "AF_UNIX" => libc::AF_UNIX,
            other => panic!("what is {other}?"),
        };
        let (is, number) = (SeccompCmpOp::Eq, number.unsigned_abs().into());
        let family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, is, number).unwrap();
        SeccompRule::new(vec![family]).unwrap()
    });
    rules.insert(libc::SYS_socket, families.collect());
    assert_eq!(says("SystemCallErrorNumber", unit), ["EPERM"]);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let target = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, target).unwrap();
    filter.try_into().unwrap()
}

#[test]
fn tests_of_every_kind_pass_under_what_the_unit_takes() {
    let test = "tests_of_every_kind_pass_under_what_the_unit_takes";
    if !nix::unistd::geteuid().is_root() {
        return skip(test, "not root");
    }
    let needed = [("systemd-analyze", "systemd"), ("setpriv", "util-linux"), ("cc", "gcc")];
    if !have(test, &needed) {
        return;
    }
    let _alone = alone();
    let (program, filter) = (Program::copy(), filter(OPEN));
    let path = program.path();
    // A thread of its own, as what it gives up is gone for all that it starts.
    let start = move || {
        if unshare(CloneFlags::CLONE_NEWNS).is_err() || !run("sh", &["-c", VIEW]).0 {
            skip(test, "the unit's view of the file system, which cannot be made here");
        }
        let mut command = Command::new("setpriv");
        command.args([
            &format!("--reuid={NOBODY}"),
            &format!("--regid={NOBODY}"),
            "--clear-groups",
        ]);
        command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]).arg(path);
        seccompiler::apply_filter(&filter).expect("a filter");
        Server::of(command, &[])
    };
    let server = std::thread::spawn(start).join().expect("it starts");
    let said = sandboxed(&server);
    assert_eq!((&said["uid"], &said["seccomp"]), (&json!(65_534), &json!({"on": true})), "{said}");
    every_kind(&server);
    all_threads_say(&server, "CapBnd", "0000000000000000");
    // The unit's and the server's own.
    all_threads_say(&server, "Seccomp_filters", "2");
}

/// Without the unit's view of the file system, of which it writes its state directory and what is set.
#[test]
fn settings_are_made_under_what_the_unit_of_a_controlled_host_takes() {
    let test = "settings_are_made_under_what_the_unit_of_a_controlled_host_takes";
    if !Lab::possible(test) {
        return;
    }
    let needed = [("systemd-analyze", "systemd"), ("setpriv", "util-linux"), ("cc", "gcc")];
    if !have(test, &needed) {
        return;
    }
    let _alone = alone();
    let (lab, program, filter) = (Lab::pair(), Program::copy(), filter(CONTROLLED));
    let scratch = Scratch::new("unit");
    let before = snapshot(&lab);
    let kept = says("CapabilityBoundingSet", CONTROLLED).concat().to_lowercase();
    let kept = kept.split(' ').map(|cap| cap.replace("cap_", ",+")).collect::<String>();
    let (path, key, state) = (program.path(), scratch.path("key"), scratch.path("state"));
    let start = move || {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set=-all{kept}"));
        command.args(["--inh-caps=-all", "--no-new-privs"]).arg(path);
        seccompiler::apply_filter(&filter).expect("a filter");
        let args = ["--user", "nobody", "--key-file", &key, "--allow-settings"];
        Server::of(command, &[&args[..], &["--state-dir", &state]].concat())
    };
    let server = lab.inside("a", start).join().expect("it starts");
    let said = sandboxed(&server);
    assert_eq!((&said["uid"], &said["seccomp"]), (&json!(65_534), &json!({"on": true})), "{said}");
    let port = server.port;
    let controller = lab.inside("b", move || {
        let name = "10.77.1.1".to_owned();
        let access = Access { name, port, ip: None, bind: None, key: KEY.to_vec() };
        let mut host = Remote::connect(&access).expect("let in");
        let done = host.apply(Some(&device()), &settings()).expect("an answer");
        assert!(done.iter().all(|applied| applied.holds()), "{done:?}");
    });
    controller.join().expect("the controller ends well");
    assert_eq!(snapshot(&lab), before);
    all_threads_say(&server, "CapEff", "0000000000000000");
    let monitor = child_of(Pid::from_raw(server.pid() as i32), MONITOR_VERB).expect("a monitor");
    let status = std::fs::read_to_string(format!("/proc/{monitor}/status")).expect("it is there");
    // Four of them: CAP_CHOWN, SETGID, SETUID, NET_ADMIN.
    assert!(status.contains("CapEff:\t00000000000010c1"), "{status}");
}
