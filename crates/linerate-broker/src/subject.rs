//! Names of subjects and streams.

use linerate_fleet::plan::Resource;

/// Leases: the last message of a subject is who has that resource.
pub(crate) const LEASES: &str = "LR_LEASE";
/// Results on their way to the store.
pub(crate) const RESULTS: &str = "LR_RESULTS";
/// Which results a store has.
pub(crate) const CONFIRMED: &str = "LR_CONFIRMED";
/// The last heartbeat of each agent.
pub(crate) const AGENTS: &str = "LR_AGENTS";
/// Which hosts became agents.
pub(crate) const ENROLLED: &str = "LR_ENROLLED";

/// What happened.
pub(crate) const EVENTS: &str = "LR_EVENTS";

/// Longest name of an agent, in bytes.
const MOST_NAME_BYTES: usize = 63;

/// The name of whoever is not an agent: no agent may be called so, since names part what each may read.
pub(crate) const OPERATOR: &str = "operator";

/// The name of whoever asks the broker of itself.
pub(crate) const SYSTEM: &str = "system";

/// Whether an agent can be called so: lower-case letters, digits, `-` and `_`, 63 at most.
pub fn is_name(name: &str) -> bool {
    let harmless = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    (1..=MOST_NAME_BYTES).contains(&name.len()) && name.bytes().all(harmless) && name != OPERATOR
}

/// One token of a subject for any text: what a subject cannot have is written as `%` and two hexadecimal digits.
pub(crate) fn token(text: &str) -> String {
    let mut token = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => token.push(char::from(byte)),
            other => token.push_str(&format!("%{other:02x}")),
        }
    }
    token
}

/// Who has a resource.
pub(crate) fn lease(resource: &Resource) -> String {
    format!("lr.lease.{}.{}", resource.kind.name(), token(&resource.name))
}

/// Orders to an agent.
pub(crate) fn orders(agent: &str) -> String {
    format!("lr.agent.{agent}.cmd")
}

/// That it is there.
pub(crate) fn heartbeat(agent: &str) -> String {
    format!("lr.hb.{agent}")
}

/// That a host became this agent.
pub(crate) fn enrolled(agent: &str) -> String {
    format!("lr.enrolled.{agent}")
}

/// That something happened: to whoever says so, or to the agent of which the operator does.
pub(crate) fn event(by: &str, about: &str) -> String {
    match by {
        OPERATOR => format!("lr.event.{OPERATOR}.{}", token(about)),
        agent => format!("lr.event.{agent}"),
    }
}

/// A result of a run from an agent.
pub(crate) fn result(agent: &str, run: &str) -> String {
    format!("lr.result.{agent}.{}", token(run))
}

/// That the store has a result of an agent.
pub(crate) fn confirmed(agent: &str, turn: &str) -> String {
    format!("lr.confirmed.{agent}.{}", token(turn))
}

/// The run that a turn is of: turns are `RUN.SLOT.ATTEMPT`.
pub fn run_of(turn: &str) -> &str {
    turn.rsplitn(3, '.').last().unwrap_or(turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_token_and_no_two_are_the_same() {
        let shown = |resource: &str| lease(&resource.parse().unwrap());
        assert_eq!(shown("host:a.b"), "lr.lease.host.a%2eb");
        assert_eq!(shown("link:a%2eb"), "lr.lease.link.a%252eb");
        assert_eq!(shown("nic:*>é"), "lr.lease.nic.%2a%3e%c3%a9");
        assert_eq!(run_of("5f0c-11.3.1"), "5f0c-11");
        assert_eq!(run_of("none"), "none");
    }

    #[test]
    fn names_of_agents_cannot_reach_beyond_their_subjects() {
        for good in ["a", "rack-3_b", "0"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "a.b", "*", ">", "a b", "A", "operator", &"a".repeat(64)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
