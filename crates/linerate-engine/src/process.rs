//! Child processes that do not outlive the one who started them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::unistd::{Pid, getppid};

use crate::system::die_with_starter;

/// Lets the kernel kill the command when the thread that starts it ends, in whatever way
/// (`PR_SET_PDEATHSIG`, prctl(2)): so start it from a thread that waits for it. What the command
/// itself has started is not reached. macOS has nothing of the kind: there the command goes on.
pub fn die_with_parent(command: &mut Command) {
    let parent = Pid::this();
    // SAFETY: between fork and exec the closure only calls prctl(2), or procctl(2), and getppid(2), which are plain
    // system calls: it allocates nothing, takes no lock and touches no memory but its own copy of
    // `parent`.
    unsafe {
        command.pre_exec(move || {
            die_with_starter()?;
            // It may have died before the kernel was asked.
            if getppid() == parent { Ok(()) } else { Err(io::Error::from(io::ErrorKind::NotFound)) }
        });
    }
}
