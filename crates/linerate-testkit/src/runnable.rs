//! Files that a test runs.

use std::path::Path;
use std::process::Command;

/// Copies a program or script to where everybody can run it.
///
/// Another process writes it: a child that another thread of the test starts meanwhile has all open that this process has
/// open, until it runs its own program, and the kernel runs no file that is open for writing (`ETXTBSY`, execve(2)).
pub fn runnable(from: &Path, to: &Path) {
    let made = Command::new("install").args(["-m", "755"]).args([from, to]).status();
    assert!(made.is_ok_and(|status| status.success()), "cannot make {}", to.display());
}
