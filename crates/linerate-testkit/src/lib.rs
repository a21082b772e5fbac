//! What several crates' tests share: made-up records and plans, a simulated link under a made-up clock,
//! clients made by hand.
//! Nothing here is part of the program.
#![forbid(unsafe_code)]

pub mod fleet;
pub mod fuzz;
pub mod identities;
pub mod link;
pub mod nats;
pub mod peer;
pub mod plans;
pub mod port;
pub mod postgres;
pub mod records;
pub mod runnable;
pub mod served;
pub mod settings;
pub mod toy;
pub mod whole;

/// Says loudly that a test could not be made: the test runner captures what macros print, and not this. No file is opened
/// for that, whose place in a log would be another than that of all others, who write over it. `./test` reads it from there
/// for its summary.
pub fn skip(test: &str, why: &str) {
    skipped("SKIP", test, why);
}

/// The same of what was not judged because others had the cores: `./test --busy` does not pass with it.
pub fn skip_busy(test: &str, why: &str) {
    skipped("BUSY", test, why);
}

fn skipped(kind: &str, test: &str, why: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("\n*** {kind} {test}: {why}\n").as_bytes());
}
