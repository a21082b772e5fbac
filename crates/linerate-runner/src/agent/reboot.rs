//! A reboot by a command.

use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::native::agent::CommandRequest;

use super::command;
use crate::signals::Stop;

/// A reboot that has not begun by then will not.
const LIMIT_MS: u64 = 30_000;

/// Begins a reboot.
pub(super) fn reboot_by(argv: &[String], stop: &Stop) -> Result<(), ErrorRecord> {
    let request = CommandRequest { argv: argv.to_vec(), limit_ms: LIMIT_MS, keep_bytes: 4_096 };
    // Without a keeper: what reboots the host may well end this process first.
    let done = command::run(&request, stop, None)?;
    // A command that was still at it, or was ended by the shutdown itself, has begun it.
    if done.code.is_none_or(|code| code == 0) {
        return Ok(());
    }
    let why = if done.err.trim().is_empty() {
        format!("it ended with code {}", done.code.unwrap_or(-1))
    } else {
        done.err.trim().to_owned()
    };
    let what = format!("`{}` did not reboot the host", argv.join(" "));
    Err(ErrorRecord::new(ErrorKind::Command, what, why, &[]).ending(Exit::Unreachable))
}
