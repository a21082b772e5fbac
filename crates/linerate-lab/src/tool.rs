//! Programs of this host.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a program that succeeded printed.
///
/// # Errors
/// It could not be started, or failed: its name, arguments and what it printed.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Result<String, String> {
    output(Command::new(program).args(args))
}

/// The same for a command made by the caller.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let out = command
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{command:?}: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(format!("{command:?}: {}: {}", out.status, said.trim()))
}

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::split_paths(&format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin"))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
