//! Landlock: which files a server may read, and that it opens no TCP connection of its own.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, path_beneath_rules,
};
use linerate_model::served::Restriction;
pub(super) use nix::sys::prctl::set_no_new_privs;

/// The newest the rules were thought through for; an older kernel gets what it knows of them.
const KNOWN: ABI = ABI::V5;

/// Facts of the host and its counters, and what the log's local time is made of.
const READ: [&str; 7] = [
    "/proc",
    "/sys",
    "/run/systemd/container",
    "/etc/os-release",
    "/usr/lib/os-release",
    "/etc/localtime",
    "/usr/share/zoneinfo",
];

/// How names of hosts become addresses; the last three are where /etc/resolv.conf leads to.
const RESOLVE: [&str; 4] =
    ["/etc", "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf"];

/// What a server keeps of the way out by TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outward {
    /// It is connected to, and connects nowhere.
    Nothing,
    /// Its tests connect to their clients.
    Connections,
    /// It is a client of tests, too, and finds the addresses of servers.
    Tests,
}

/// Leaves the calling thread and those it starts what a server reads, nothing to run, and of connections out by TCP
/// what `outward` says. `directories` are read again while it serves; nothing is written but in those of `written`.
pub(super) fn restrict(
    directories: &[PathBuf],
    written: &[PathBuf],
    outward: Outward,
) -> Restriction {
    match enforce(directories, written, outward) {
        Ok((RulesetStatus::FullyEnforced, _)) => Restriction::on(),
        Ok((RulesetStatus::PartiallyEnforced, _)) => {
            Restriction::in_part("the kernel knows only some of its rules (Linux 6.10 knows all)")
        }
        Ok((RulesetStatus::NotEnforced, LandlockStatus::NotEnabled)) => {
            Restriction::off("the kernel was started without it (lsm=landlock,...)")
        }
        Ok((RulesetStatus::NotEnforced, _)) => Restriction::off("the kernel has none (Linux 5.13)"),
        Err(e) => Restriction::off(e.to_string()),
    }
}

fn enforce(
    directories: &[PathBuf],
    written: &[PathBuf],
    outward: Outward,
) -> Result<(RulesetStatus, LandlockStatus), RulesetError> {
    let resolve = RESOLVE.iter().filter(|_| outward == Outward::Tests);
    let host = READ.iter().chain(resolve).map(Path::new);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // What another file takes the place of is removed.
    let write = AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?;
    if outward == Outward::Nothing {
        rules = rules.handle_access(AccessNet::ConnectTcp)?;
    }
    let status = rules
        .create()?
        .add_rules(path_beneath_rules(host, read))?
        .add_rules(path_beneath_rules(directories, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(written, read | write))?
        .restrict_self()?;
    Ok((status.ruleset, status.landlock))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::ErrorKind::PermissionDenied;

    use super::*;

    #[test]
    fn a_file_that_takes_the_place_of_another_is_read_and_nothing_beside_its_directory() {
        let top = std::env::temp_dir().join(format!("linerate-landlock-{}", std::process::id()));
        let (users, beside) = (top.join("users"), top.join("beside"));
        for directory in [&users, &beside] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("file"), "old").unwrap();
        }
        let (changed, changes) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (known, other) = (users.join("file"), beside.join("file"));
        let within = std::thread::spawn(move || {
            let restriction = restrict(&[users], &[], Outward::Nothing);
            ready.send(fs::read_to_string(&known).unwrap()).unwrap();
            changes.recv().unwrap();
            assert_eq!(fs::read_to_string(&known).unwrap(), "new");
            if restriction.on {
                let refused = [File::open(&other), File::create(&known), File::create(&other)];
                let refused = refused.map(|refused| refused.map(drop).map_err(|e| e.kind()));
                assert_eq!(refused, [Err(PermissionDenied); 3]);
                assert_eq!(fs::remove_file(&known).unwrap_err().kind(), PermissionDenied);
            } else {
                linerate_testkit::skip("what files are refused", "this kernel has no Landlock");
            }
            restriction
        });
        assert_eq!(is_ready.recv().unwrap(), "old");
        fs::write(top.join("next"), "new").unwrap();
        fs::rename(top.join("next"), top.join("users/file")).unwrap();
        changed.send(()).unwrap();
        let restriction = within.join().expect("it is refused things, and goes on");
        fs::remove_dir_all(top).unwrap();
        assert!(restriction.on || restriction.why.is_some(), "{restriction:?}");
    }

    #[test]
    fn a_log_is_rotated_in_its_directory_and_nowhere_else() {
        let top = std::env::temp_dir().join(format!("linerate-rotated-{}", std::process::id()));
        let (logs, beside) = (top.join("logs"), top.join("beside"));
        fs::create_dir_all(&logs).unwrap();
        fs::create_dir_all(&beside).unwrap();
        let own = logs.clone();
        let within = std::thread::spawn(move || {
            let restriction = restrict(&[], std::slice::from_ref(&logs), Outward::Nothing);
            for _ in 0..3 {
                fs::write(logs.join("a"), "line").unwrap();
                fs::rename(logs.join("a"), logs.join("a.1")).unwrap();
            }
            File::options().append(true).open(logs.join("a.1")).unwrap().set_len(2).unwrap();
            if restriction.on {
                assert_eq!(fs::write(beside.join("a"), "").unwrap_err().kind(), PermissionDenied);
                assert!(fs::rename(logs.join("a.1"), beside.join("a")).is_err());
            } else {
                linerate_testkit::skip("where no log is rotated", "this kernel has no Landlock");
            }
        });
        within.join().expect("it is refused things, and goes on");
        assert_eq!(fs::read_to_string(own.join("a.1")).unwrap(), "li");
        fs::remove_dir_all(top).unwrap();
    }
}
