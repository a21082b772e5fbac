//! `deploy/systemd/linerate.service`: how well it keeps the server in, and that tests of every kind pass under
//! what it takes. There is no systemd where these run: user, capabilities, system calls, kinds of sockets and
//! the view of the file system are made as it would make them.

#[path = "support/every_kind.rs"]
mod every_kind;
#[path = "support/iperf3.rs"]
mod iperf3;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use every_kind::{all_threads_say, every_kind, sandboxed};
use nix::libc::{self, c_long};
use nix::sched::{CloneFlags, unshare};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use serde_json::json;
use support::{Server, alone, run, skip};

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

fn unit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/linerate.service")
}

/// What the unit says of one thing, a line each.
fn settings(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(unit()).expect("the unit");
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
    if !have("the_unit_is_rated_2_0_at_most", &[("systemd-analyze", "systemd")]) {
        return;
    }
    let path = unit().display().to_string();
    let rated = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", &path])
        .output()
        .expect("systemd-analyze");
    let text = String::from_utf8_lossy(&rated.stdout);
    let exposure = text.lines().find_map(|line| {
        let (_, level) = line.split_once("Overall exposure level for linerate.service: ")?;
        level.split(' ').next()?.parse::<f64>().ok()
    });
    let failed = String::from_utf8_lossy(&rated.stderr);
    assert!(exposure.is_some_and(|exposure| exposure <= 2.0), "{exposure:?}\n{text}{failed}");
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

/// The calls that the unit leaves. Some nobody can take from a service.
fn left() -> BTreeSet<String> {
    let mut left = expanded("@default");
    for line in settings("SystemCallFilter") {
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

/// The unit's filter of system calls, and of kinds of sockets.
fn filter() -> BpfProgram {
    let numbers = numbers();
    let calls = left().into_iter().chain(BEFORE.map(str::to_owned));
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        calls.filter_map(|call| Some((*numbers.get(&call)?, vec![]))).collect();
    assert!(rules.contains_key(&libc::SYS_read) && !rules.contains_key(&libc::SYS_mount));
    let families = settings("RestrictAddressFamilies").join(" ");
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
    assert_eq!(settings("SystemCallErrorNumber"), ["EPERM"]);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let target = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, target).unwrap();
    filter.try_into().unwrap()
}

/// A copy of the program where every user can start it.
struct Program(PathBuf);

impl Program {
    fn copy() -> Self {
        let folder = std::env::temp_dir().join(format!("linerate-unit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_linerate"), folder.join("linerate")).unwrap();
        Self(folder)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
    let (program, filter) = (Program::copy(), filter());
    let path = program.0.join("linerate");
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
