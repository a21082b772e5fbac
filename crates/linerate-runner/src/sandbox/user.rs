//! Becoming a user without rights.

use std::path::PathBuf;

use linerate_engine::sys;
use linerate_model::record::{ErrorKind, ErrorRecord};
use nix::errno::Errno;
use nix::unistd::{self, AccessFlags, Gid, Uid, access, fchown};
#[cfg(not(target_os = "macos"))]
use nix::unistd::{getgrouplist, setgroups, setresgid, setresuid};
use tokio::net::UdpSocket;

#[cfg(target_os = "macos")]
use self::refused::{getgrouplist, setgroups, setresgid, setresuid};

/// macOS has other calls for these, which were not tried: no server becomes another user there.
#[cfg(target_os = "macos")]
mod refused {
    use nix::errno::Errno::ENOSYS;
    use nix::unistd::{Gid, Uid};

    pub(super) fn getgrouplist(_: &std::ffi::CStr, _: Gid) -> nix::Result<Vec<Gid>> {
        Err(ENOSYS)
    }
    pub(super) fn setgroups(_: &[Gid]) -> nix::Result<()> {
        Err(ENOSYS)
    }
    pub(super) fn setresgid(_: Gid, _: Gid, _: Gid) -> nix::Result<()> {
        Err(ENOSYS)
    }
    pub(super) fn setresuid(_: Uid, _: Uid, _: Uid) -> nix::Result<()> {
        Err(ENOSYS)
    }
}

/// A user of this host, looked up before the files that name it are out of reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// As the host knows it.
    pub name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl User {
    /// The user of this name.
    ///
    /// # Errors
    /// When the host has none, or when it is the superuser, who gives nothing up.
    pub fn named(name: &str) -> Result<Self, ErrorRecord> {
        let found = unistd::User::from_name(name).map_err(|e| cannot(name, e.desc(), NO_USER))?;
        let found = found.ok_or_else(|| cannot(name, "this host has no such user", NO_USER))?;
        if found.uid.is_root() {
            return Err(cannot(name, "it is the superuser", NO_USER));
        }
        let c_name = std::ffi::CString::new(name).map_err(|e| cannot(name, e, NO_USER))?;
        let groups =
            getgrouplist(&c_name, found.gid).map_err(|e| cannot(name, e.desc(), NO_USER))?;
        Ok(Self { name: found.name, uid: found.uid, gid: found.gid, groups })
    }

    /// Becomes this user with all threads of the process, for good. The sockets of `udp` are given to it: only
    /// sockets of one user share a UDP port, and every stream has one on the server's.
    pub(super) fn become_it<'a>(
        &self,
        udp: impl Iterator<Item = &'a UdpSocket> + Clone,
    ) -> Result<(), ErrorRecord> {
        let failed = |call: &str, e: Errno| {
            cannot(&self.name, format!("{call}: {}", e.desc()), "start the server as root")
        };
        for udp in udp.clone() {
            fchown(udp, Some(self.uid), Some(self.gid)).map_err(|e| failed("fchown", e))?;
        }
        // In this order: the first to go is the right to do the others.
        setgroups(&self.groups).map_err(|e| failed("setgroups", e))?;
        setresgid(self.gid, self.gid, self.gid).map_err(|e| failed("setresgid", e))?;
        setresuid(self.uid, self.uid, self.uid).map_err(|e| failed("setresuid", e))?;
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        if has_rights(&status) || setresuid(Uid::from_raw(0), self.uid, self.uid).is_ok() {
            let why = "this process keeps rights across a change of its user (secure bits, or rights given \
                       to a user other than root)";
            return Err(cannot(&self.name, why, "start the server as root without secure bits"));
        }
        for udp in udp {
            udp.local_addr().and_then(sys::udp_socket).map_err(|e| {
                let why =
                    format!("it may not bind the server's port, as each UDP stream does: {e}");
                cannot(&self.name, why, "ports below 1024 stay root's; choose another with --port")
            })?;
        }
        Ok(())
    }
}

impl User {
    /// Whether this process, which is this user by now, may make and rename files there.
    ///
    /// # Errors
    /// In which of the directories not.
    pub(super) fn may_write(&self, directories: &[PathBuf]) -> Result<(), ErrorRecord> {
        let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
        directories.iter().try_for_each(|directory| {
            access(directory, wanted).map_err(|e| {
                let directory = directory.display();
                let why = format!("it may not write in `{directory}`: {}", e.desc());
                cannot(&self.name, why, &format!("chown {} {directory}", self.name))
            })
        })
    }
}

const NO_USER: &str = "make one: useradd --system --shell /usr/sbin/nologin linerate";

fn cannot(name: &str, why: impl ToString, hint: &str) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Unable,
        format!("cannot serve as the user `{name}`"),
        why.to_string(),
        &[hint],
    )
}

/// Whether a thread whose /proc/PID/status this is has any capability. One that does not say has none to fear
/// for: the change of the user took them, unless it was told not to.
fn has_rights(status: &str) -> bool {
    let sets = status.lines().filter_map(|line| line.split_once(':'));
    let mut sets = sets.filter(|(name, _)| matches!(*name, "CapPrm" | "CapEff" | "CapAmb"));
    sets.any(|(_, set)| u64::from_str_radix(set.trim(), 16).is_ok_and(|set| set != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_is_made_up_and_root_is_none() {
        for (name, why) in [("no-such-user-here", "no such user"), ("root", "superuser")] {
            let error = User::named(name).unwrap_err();
            assert!(error.what.contains(name) && error.why.contains(why), "{error:?}");
        }
        assert!(User::named("a\0b").is_err());
        assert!(!User::named("nobody").unwrap().uid.is_root());
    }

    #[test]
    fn rights_that_stayed_are_seen() {
        let status = |prm: &str| format!("Name:\tx\nCapInh:\tff\nCapPrm:\t{prm}\nCapEff:\t0000\n");
        assert!(!has_rights(&status("0000000000000000")));
        assert!(has_rights(&status("0000000000001000")));
        assert!(!has_rights(""));
    }
}
