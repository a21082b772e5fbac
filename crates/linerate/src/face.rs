//! What the faces of other programs have in common: their words, what they say, and how they go to the background.

use std::ffi::OsString;
use std::io::{ErrorKind as Io, Write, stdout};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::process::ExitCode;

use linerate_model::record::{ErrorKind, RunRecord, Status};
use linerate_report::run::json;

/// A command line as text.
pub fn words(args: Vec<OsString>) -> Vec<String> {
    args.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Says something at once.
pub fn write(text: &str) -> std::io::Result<()> {
    stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush())
}

/// Says what was asked for and ends well, also where nobody reads it.
pub fn said(text: &str) -> ExitCode {
    match write(text) {
        Err(e) if e.kind() != Io::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// How a test ended, in a line.
pub fn outcome(record: &RunRecord) -> Result<(), String> {
    match &record.error {
        // Its figures are shown as those of any test.
        Some(error) if error.kind == ErrorKind::Interrupted && record.status != Status::Failed => {
            Ok(())
        }
        Some(error) => Err(format!("{}: {}", error.what, error.why)),
        None => Ok(()),
    }
}

/// A test's record as JSON, where that is asked for in place of the other program's lines.
pub fn document(record: &RunRecord) -> Result<(), String> {
    let text = json::document(record).map_err(|e| e.to_string())?;
    write(&text).map_err(|e| e.to_string())
}

/// Whether a server can have its port: whoever has no screen any more cannot say that it is another's.
pub fn is_free(bind: Option<IpAddr>, port: u16) -> std::io::Result<()> {
    let at = SocketAddr::new(bind.unwrap_or(Ipv6Addr::UNSPECIFIED.into()), port);
    TcpListener::bind(at).map(drop)
}

/// daemon(3) without a change of the folder.
#[cfg(not(target_os = "macos"))]
pub fn daemon(keeps_outputs: bool) -> nix::Result<()> {
    nix::unistd::daemon(true, keeps_outputs)
}

/// Refused: macOS deprecates the call for its own services.
#[cfg(target_os = "macos")]
pub fn daemon(_keeps_outputs: bool) -> nix::Result<()> {
    Err(nix::errno::Errno::ENOSYS)
}

/// Goes on without a screen; before any thread exists. The folder stays, so that relative names keep their meaning.
pub fn to_background() -> Result<(), String> {
    daemon(false).map_err(|e| format!("cannot become a daemon: {}", e.desc()))
}
