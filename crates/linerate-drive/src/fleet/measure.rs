//! One test of a pair, in a thread of its own.

use linerate_fleet::lease::Epoch;
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_runner::agent::{Access, HostAgent, RemoteTest};
use linerate_runner::signals::Stop;

use super::Reach;

/// What came of a test in a thread of its own.
pub(super) struct Came {
    pub(super) test: usize,
    pub(super) epoch: Epoch,
    pub(super) agent: Option<Box<dyn HostAgent>>,
    pub(super) outcome: Outcome,
}

/// What came of it.
pub(super) enum Outcome {
    Record(Box<RunRecord>),
    /// Nothing is under way there.
    Failed(ErrorRecord),
    /// The host may still be at it.
    Gone(ErrorRecord),
}

/// A test from its host's side; the host is given back where it can be used again.
pub(super) fn measure(
    agent: Option<Box<dyn HostAgent>>,
    access: &Access,
    (turn, test): (&str, &RemoteTest),
    (reach, stop): (&dyn Reach, &Stop),
) -> (Option<Box<dyn HostAgent>>, Outcome) {
    let mut agent = match agent.map_or_else(|| reach.connect(access, stop), Ok) {
        Ok(agent) => agent,
        Err(error) => return (None, Outcome::Failed(error)),
    };
    agent.name_test(turn);
    match agent.run_test(test) {
        Ok(record) => (Some(agent), Outcome::Record(Box::new(record))),
        // What answers a refusal is there, and at nothing.
        Err(error) if agent.ping().is_ok() => (Some(agent), Outcome::Failed(error)),
        Err(error) => (None, Outcome::Gone(error)),
    }
}
