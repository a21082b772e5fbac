//! One test of a pair, in a thread of its own.

use linerate_fleet::lease::Epoch;
use linerate_model::record::{ErrorKind, ErrorRecord, RunRecord};
use linerate_model::setting::Setting;
use linerate_runner::agent::{self, Access, DeviceChoice, HostAgent, RemoteTest};
use linerate_runner::signals::Stop;

use super::Reach;

/// Where a host is used, its agent.
pub(super) type Agent = Option<Box<dyn HostAgent>>;

/// What came of a test in a thread of its own.
pub(super) struct Came {
    pub(super) test: usize,
    pub(super) epoch: Epoch,
    /// The client's, and where it was used the server's.
    pub(super) agents: [Agent; 2],
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

/// A test of two hosts.
pub(super) struct Turn<'a> {
    pub(super) name: &'a str,
    /// The client and the server.
    pub(super) ends: [&'a Access; 2],
    pub(super) test: &'a RemoteTest,
    /// What is set at both.
    pub(super) set: &'a [Setting],
    /// Whether it may begin now: one that begins later goes on for longer than its lease.
    pub(super) in_time: &'a dyn Fn() -> bool,
}

/// A test from its hosts' side; they are given back where they can be used again.
pub(super) fn measure(
    agents: [Agent; 2],
    turn: &Turn<'_>,
    (reach, stop): (&dyn Reach, &Stop),
) -> ([Agent; 2], Outcome) {
    let [client, server] = agents;
    let [from, to] = turn.ends;
    let connect = |agent: Agent, access| agent.map_or_else(|| reach.connect(access, stop), Ok);
    let mut client = match connect(client, from) {
        Ok(client) => client,
        Err(error) => return ([None, server], Outcome::Failed(error)),
    };
    client.name_test(turn.name);
    if turn.set.is_empty() || client.sets_for_tests(turn.set) {
        let (client, outcome) = run(client, turn);
        return ([client, server], outcome);
    }
    let mut server = match connect(server, to) {
        Ok(server) => server,
        Err(error) => return ([Some(client), None], Outcome::Failed(error)),
    };
    let towards = [to, from].map(|peer| DeviceChoice::Towards(peer.name.clone()));
    let mut applied = Vec::new();
    for setting in turn.set {
        let both = agent::set(&mut *client, Some(&towards[0]), setting)
            .and_then(|near| Ok([near, agent::set(&mut *server, Some(&towards[1]), setting)?]));
        match both {
            Ok(both) => applied.push(both),
            Err(error) => return ([client, server].map(still_there), Outcome::Failed(error)),
        }
    }
    match run(client, turn) {
        // What did not hold to the end is a result of other settings.
        (Some(mut client), Outcome::Record(record)) => {
            let held = applied.iter().try_for_each(|[near, far]| {
                agent::still(&mut *client, Some(&towards[0]), near)?;
                agent::still(&mut *server, Some(&towards[1]), far)
            });
            let outcome = held.map_or_else(Outcome::Failed, |()| Outcome::Record(record));
            ([Some(client), Some(server)], outcome)
        }
        (client, outcome) => ([client, Some(server)], outcome),
    }
}

fn run(mut client: Box<dyn HostAgent>, turn: &Turn<'_>) -> (Agent, Outcome) {
    if !(turn.in_time)() {
        let what = format!("cannot measure {} with {}", client.name(), turn.test.name);
        let why = "both hosts were ready too late";
        let error = ErrorRecord::new(ErrorKind::TimedOut, what, why, &["--retries 3"]);
        return (Some(client), Outcome::Failed(error));
    }
    match client.run_test(turn.test) {
        Ok(record) => (Some(client), Outcome::Record(Box::new(record))),
        // It was given up with all that it had begun.
        Err(error) if error.kind == ErrorKind::Interrupted => (None, Outcome::Failed(error)),
        // What answers a refusal is there, and at nothing.
        Err(error) => match still_there(client) {
            Some(client) => (Some(client), Outcome::Failed(error)),
            None => (None, Outcome::Gone(error)),
        },
    }
}

fn still_there(mut agent: Box<dyn HostAgent>) -> Agent {
    agent.ping().is_ok().then_some(agent)
}
