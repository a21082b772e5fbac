//! What happened in a fleet of agents, and the document of `linerate fleet events`, format 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::kinds::named;
use crate::record::ProgramFacts;

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// What `linerate fleet events --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetEvents {
    /// Always 1.
    pub format: u32,
    /// Always `fleet_events`.
    pub kind: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// Those that the broker took from this time on; RFC 3339, UTC.
    pub since: String,
    /// So many earlier ones were left out, since there are too many.
    pub left_out: u64,
    /// So many were not understood: of a later release, or not for whoever said them to say.
    pub unread: u64,
    /// In the order in which the broker took them.
    pub events: Vec<FleetEntry>,
}

/// Something that happened, and who says so. The broker lets no agent say it in another's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetEntry {
    /// When the broker took it; RFC 3339, UTC.
    pub kept: String,
    /// The agent that says so, or `operator`.
    pub by: String,
    /// What it says.
    #[serde(flatten)]
    pub said: FleetSaid,
}

/// Something that happened, as it is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetSaid {
    /// When, by the clock of whoever says so; RFC 3339, UTC. An agent says nothing while a test may be under way, so that
    /// this may be earlier than when the broker took it.
    pub at: String,
    /// What.
    #[serde(flatten)]
    pub event: FleetEvent,
}

/// What may happen.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum FleetEvent {
    /// A test got all that it takes; said by its coordinator.
    Granted {
        /// What its result is called, `RUN.SLOT.ATTEMPT`.
        turn: String,
        /// Number of the lease.
        lease: u64,
        /// What it takes, as `host:a`.
        takes: Vec<String>,
        /// For so long at most, seconds.
        seconds: u64,
    },
    /// It is free again; said by its coordinator.
    GivenBack {
        /// What its result is called.
        turn: String,
        /// Number of the lease.
        lease: u64,
    },
    /// The lease was over before its hosts had said that they are at nothing; said by its coordinator, if that is there.
    Over {
        /// What its result is called.
        turn: String,
        /// Number of the lease.
        lease: u64,
    },
    /// A host became an agent.
    Enrolled {
        /// Its name.
        agent: String,
        /// The public half of its key.
        key: String,
        /// When the broker lets it in no more; RFC 3339, UTC. Absent for no end.
        expires: Option<String>,
    },
    /// An agent was taken away.
    Revoked {
        /// Its name.
        agent: String,
        /// The public halves of all keys that it had.
        keys: Vec<String>,
    },
    /// An agent did not do what it was asked for.
    Refused {
        /// On what ground.
        ground: RefusalGround,
        /// Why, in words.
        why: String,
        /// Number of the lease.
        lease: u64,
        /// What the result was to be called.
        turn: Option<String>,
    },
    /// An agent began its work.
    Came {
        /// Its release.
        version: String,
        /// Host name or address at which others reach it.
        address: String,
    },
    /// It ended in order: nobody says so of one that was killed or cut off.
    Went,
}

/// Why an agent refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusalGround {
    /// Its owner does not allow it.
    Policy,
    /// The lease is not later than all before it, is over, or was never given.
    Lease,
    /// Somebody without the token of the test.
    Token,
}

named! {
    RefusalGround: Policy = "policy", Lease = "lease", Token = "token";
}

impl FleetEvent {
    /// Whether it is an agent that says such a thing, of itself; the others the operator says.
    pub fn is_of_an_agent(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Came { .. } | Self::Went)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_flat() {
        let entry = FleetEntry {
            kept: "2026-01-01T00:00:01Z".to_owned(),
            by: "a".to_owned(),
            said: FleetSaid { at: "2026-01-01T00:00:00Z".to_owned(), event: FleetEvent::Went },
        };
        let text = r#"{"kept":"2026-01-01T00:00:01Z","by":"a","at":"2026-01-01T00:00:00Z","event":"went"}"#;
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
        assert_eq!(serde_json::from_str::<FleetEntry>(text).unwrap(), entry);
    }
}
