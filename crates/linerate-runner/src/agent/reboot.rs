//! A reboot by a command.

use std::time::Duration;

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::native::agent::CommandRequest;

use super::command;
use crate::signals::Stop;

/// A reboot that has not begun by then will not.
const LIMIT_MS: u64 = 60_000;

/// Begins a reboot of this host.
///
/// # Errors
/// When the command fails, does not end, or is ended by `stop`.
pub fn reboot_by(argv: &[String], stop: &Stop) -> Result<(), ErrorRecord> {
    within(LIMIT_MS, argv, stop)
}

fn within(limit_ms: u64, argv: &[String], stop: &Stop) -> Result<(), ErrorRecord> {
    let request = CommandRequest { argv: argv.to_vec(), limit_ms, keep_bytes: 4_096 };
    // Without a keeper: what reboots the host may well end this process first.
    let done = command::run(&request, stop, None)?;
    let (mut kind, said) = (ErrorKind::Reboot, done.err.trim());
    let why = match done.code {
        _ if done.timed_out => {
            format!("it was still at it after {:?}; it was ended", Duration::from_millis(limit_ms))
        }
        Some(0) => return Ok(()),
        _ if stop.seen() => {
            kind = ErrorKind::Interrupted;
            "interrupted".to_owned()
        }
        // A signal that is not from here is the shutdown's.
        None => return Ok(()),
        Some(code) if said.is_empty() => format!("it ended with code {code}"),
        Some(_) => said.to_owned(),
    };
    let what = format!("`{}` did not reboot the host", argv.join(" "));
    Err(ErrorRecord::new(kind, what, why, &["try the command by hand on that host"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(limit_ms: u64, script: &str, stop: &Stop) -> Result<(), ErrorRecord> {
        within(limit_ms, &["sh", "-c", script].map(String::from), stop)
    }

    #[test]
    fn a_command_that_was_ended_from_here_has_begun_no_reboot() {
        let (nobody, stop) = (Stop::default(), Stop::default());
        shell(60_000, "exit 0", &nobody).unwrap();
        shell(60_000, "kill -9 $$", &nobody).expect("the shutdown has ended it");
        let error = shell(60_000, "echo not root >&2; exit 1", &nobody).unwrap_err();
        assert_eq!((error.kind, error.why.as_str()), (ErrorKind::Reboot, "not root"));
        // Far longer than the limit.
        let error = shell(100, "exec sleep 600", &nobody).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Reboot);
        assert!(error.why.contains("still at it after 100ms"), "{error:?}");
        stop.now();
        let error = shell(60_000, "exec sleep 600", &stop).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Interrupted);
    }
}
