//! What an agent says, and when.

use std::io::{Write as _, stderr};

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_report::clean::clean;
use linerate_runner::clock;
use linerate_store::StoreError;

/// A line on standard error.
pub fn log(words: &str) {
    let at = clock::local_date().strftime("%Y-%m-%d %H:%M:%S").to_string();
    let _ = writeln!(stderr(), "{at} {}", clean(words));
}

/// Seconds since 1970.
pub fn seconds() -> u64 {
    u64::try_from(clock::wall().as_second()).unwrap_or(0)
}

/// What is wrong with the outbox.
pub fn stored(error: StoreError) -> ErrorRecord {
    let hints = ["one agent at a time uses a --state-dir", "room on its disk"];
    let what = "cannot use the outbox of this agent";
    ErrorRecord::new(ErrorKind::Store, what, error.to_string(), &hints)
}
