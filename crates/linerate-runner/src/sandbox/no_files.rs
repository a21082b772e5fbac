//! Of systems without Landlock: nothing is restricted, and the server says so.

use std::path::PathBuf;

use linerate_model::served::Restriction;
use nix::errno::Errno;

/// What a server would keep of the way out by TCP.
pub(super) enum Outward {
    Nothing,
    Connections,
    Tests,
}

/// Nothing.
pub(super) fn restrict(_: &[PathBuf], _: &[PathBuf], _: Outward) -> Restriction {
    Restriction::off("it is of Linux alone")
}

/// Refused.
pub(super) fn set_no_new_privs() -> nix::Result<()> {
    Err(Errno::ENOSYS)
}
