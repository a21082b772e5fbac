//! `keys list --json`: who may test with a server, and how much. No secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::kinds::named;

named! {
    KeyState: Holds = "holds", Revoked = "revoked", Expired = "expired";
}

/// What a server's file of keys holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyList {
    /// In the order of the file.
    pub keys: Vec<ListedKey>,
    /// The same.
    pub networks: Vec<ListedNetwork>,
}

/// A client's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedKey {
    /// Its name in the server's log.
    pub name: String,
    /// 16 hexadecimal digits, which travel in clear.
    pub id: String,
    /// Whether it is good for anything now.
    pub state: KeyState,
    /// What it is good for: `test`, `control`, `settings`.
    pub rights: Vec<String>,
    /// When it was made, RFC 3339 in UTC.
    pub created: String,
    /// When it ends, or ended; absent for one without an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// How much its client may have.
    #[serde(flatten)]
    pub budget: ListedBudget,
}

/// A network with a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedNetwork {
    /// Its addresses: `192.0.2.0/24`.
    pub cidr: String,
    /// How much they may have together.
    #[serde(flatten)]
    pub budget: ListedBudget,
}

/// Limits beside those of the server; absent is none.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedBudget {
    /// Tests at once.
    pub max_tests: Option<u64>,
    /// Bytes of all tests in 24 h, both ways together.
    pub max_bytes_per_day: Option<u64>,
    /// Rate of one direction of one test.
    pub max_rate_bps: Option<u64>,
    /// Hours of the day in the server's local time: `22:00-06:00`, several with commas between.
    pub hours: Option<String>,
}

/// Whether a key is good for anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// Its client may test.
    Holds,
    /// Its owner took it back.
    Revoked,
    /// Its time is over.
    Expired,
}
