//! `linerate agent`: a host that gets from the broker of its fleet the order to test.

pub mod args;
#[cfg(feature = "nats")]
mod consent;
#[cfg(feature = "nats")]
mod diary;
#[cfg(feature = "nats")]
mod duty;
#[cfg(feature = "nats")]
mod made;
#[cfg(feature = "nats")]
mod mail;
#[cfg(feature = "nats")]
mod portrait;
#[cfg(feature = "nats")]
mod start;
#[cfg(feature = "nats")]
pub mod words;
#[cfg(feature = "nats")]
mod work;

use linerate_model::exit::Exit;
use linerate_model::record::ErrorRecord;

use self::args::AgentArgs;

/// Runs the verb.
#[cfg(feature = "nats")]
pub fn run(args: &AgentArgs) -> Result<Exit, ErrorRecord> {
    start::run(args)
}

/// Says why there is none.
#[cfg(not(feature = "nats"))]
pub fn run(_: &AgentArgs) -> Result<Exit, ErrorRecord> {
    Err(unbuilt("linerate agent"))
}

/// What needs a broker, in a program that was built without.
#[cfg(not(feature = "nats"))]
pub fn unbuilt(what: &str) -> ErrorRecord {
    let hint = "cargo build --release --features nats";
    let why = "it was built without agents";
    linerate_ask::usage::error(format!("this linerate has no `{what}`"), why, &[hint])
}
