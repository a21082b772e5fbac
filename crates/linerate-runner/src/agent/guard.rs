//! The keeper of a command's process group: ends all of it when the one who asked for the command
//! is gone.
//!
//! It is this very program under another verb. It leads the process group that the command and all
//! it starts are in, so the group's number stays theirs as long as it is not waited for. Its
//! standard input is a pipe that its parent holds and writes nothing to: when the parent ends in any
//! way, kill -9 too, the kernel closes the pipe, and the keeper kills its group and with it itself.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use linerate_model::record::{ErrorKind, ErrorRecord};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Pid, getpgrp};

/// The hidden verb.
pub const KEEPER_VERB: &str = "command-keeper";

/// The parent's end of a keeper, which ends with it.
pub(super) struct SettingsGuard(Child);

impl SettingsGuard {
    /// Starts one. `program` is linerate itself.
    pub(super) fn start(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg(KEEPER_VERB).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).spawn().map(Self)
    }

    /// The number of its process group.
    pub(super) fn group(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for SettingsGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The keeper's whole life.
///
/// # Errors
/// When it was not started by linerate.
pub fn keep() -> Result<(), ErrorRecord> {
    let pipe = fstat(io::stdin().as_fd())
        .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode).contains(SFlag::S_IFIFO));
    // It kills its group: one that it does not lead is somebody else's.
    if !pipe || getpgrp() != Pid::this() {
        return Err(ErrorRecord::new(
            ErrorKind::Usage,
            format!("`linerate {KEEPER_VERB}` is no command for people"),
            "linerate starts it by itself",
            &[],
        ));
    }
    // A polite end is for the command: the keeper has to see that it comes to pass.
    let _ = SigSet::all().thread_block();
    let mut nothing = [0; 16];
    loop {
        match io::stdin().read(&mut nothing) {
            Ok(0) => break,
            Err(e) if e.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    let _ = killpg(getpgrp(), Signal::SIGKILL);
    Ok(())
}
