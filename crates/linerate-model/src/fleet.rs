//! The document of `linerate fleet run`, format 1: what was measured between hosts, and what was not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::record::ProgramFacts;

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// What `linerate fleet run` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDocument {
    /// Always 1.
    pub format: u32,
    /// Always `fleet`.
    pub kind: String,
    /// Unique, and sorts by time.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line.
    pub command: Vec<String>,
    /// The hosts as the user named them, in that order.
    pub hosts: Vec<String>,
    /// The figure of a test that stands in `value`, as `linerate compare --metric` calls it.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Rounds that were needed, those of tests that were tried again among them.
    pub rounds: usize,
    /// Whether it ended before every pair had its turn.
    pub interrupted: bool,
    /// Every pair that was asked for, in the order of the hosts.
    pub pairs: Vec<FleetPair>,
}

/// A pair of hosts. It has either a value or the reason why there is none.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetPair {
    /// The host that was the client.
    pub from: String,
    /// The host whose server answered.
    pub to: String,
    /// How often it was tried.
    pub tries: u32,
    /// What was measured.
    pub value: Option<f64>,
    /// Why nothing was.
    pub missing: Option<String>,
}
