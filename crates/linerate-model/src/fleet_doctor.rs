//! The document of `linerate fleet doctor`, format 1: what is not well with the agents of a fleet and their broker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::doctor::{Fact, Severity};
use crate::fleet_agents::FleetAgent;
use crate::record::ProgramFacts;

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// What `linerate fleet doctor --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDoctor {
    /// Always 1.
    pub format: u32,
    /// Always `fleet_doctor`.
    pub kind: String,
    /// When the broker was asked; RFC 3339, UTC.
    pub at: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// What there is to judge.
    #[serde(flatten)]
    pub facts: FleetFacts,
    /// What came of it.
    #[serde(flatten)]
    pub judged: FleetJudged,
}

/// What is judged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFacts {
    /// The broker.
    pub broker: FleetBroker,
    /// By name.
    pub agents: Vec<FleetAgent>,
}

/// A broker, as far as it reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetBroker {
    /// Where this program connects to.
    pub url: String,
    /// Release of nats-server.
    pub version: String,
    /// Host name or address at which it listens, as its configuration has it.
    pub listens: String,
    /// Every connection is encrypted.
    pub tls: bool,
    /// What it acknowledged is on the disk (`sync_interval: always`).
    pub sync_always: Fact<bool>,
    /// What all its streams take on the disk.
    pub storage: Fact<FleetStorage>,
    /// The streams of the fleet.
    pub streams: Vec<FleetStream>,
}

/// Room of a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetStorage {
    /// In use, bytes.
    pub bytes: u64,
    /// The most that it takes, bytes.
    pub most_bytes: u64,
}

/// A stream.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetStream {
    /// Its name, such as `LR_RESULTS`.
    pub name: String,
    /// Messages that it keeps.
    pub messages: u64,
    /// What they take, bytes.
    pub bytes: u64,
    /// The most bytes that it keeps; absent for no limit of its own.
    pub most_bytes: Option<u64>,
    /// Who reads it.
    pub consumers: u64,
}

/// What came of all checks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetJudged {
    /// Checks that were made or could not be made: of the broker, and of each agent.
    pub checks: u32,
    /// What was found, the gravest first.
    pub findings: Vec<FleetFinding>,
    /// What could not be looked at.
    pub unknown: Vec<FleetUnlooked>,
}

/// Something that is not well, or might not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFinding {
    /// Stable name of the check, such as `agent.silent`.
    pub id: String,
    /// Which agents; nobody where it is the broker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// How much it matters.
    pub severity: Severity,
    /// What is.
    pub what: String,
    /// Why that matters.
    pub why: String,
    /// What to run, or to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<String>,
}

/// A check that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetUnlooked {
    /// Its stable name.
    pub id: String,
    /// Why not.
    pub why: String,
}
