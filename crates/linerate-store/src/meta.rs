//! What a store knows beside its rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What was kept when the campaign began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Of the plan.
    pub name: String,
    /// Text of the plan, word for word.
    pub plan: String,
    /// Where it was, for messages and relative paths.
    pub plan_path: PathBuf,
    /// Of the shuffle.
    pub seed: u64,
    /// RFC 3339.
    pub created: String,
    /// Version of linerate that began it.
    pub version: String,
}

/// Key of [`Deleted`] in the table `meta`.
pub(crate) const DELETED: &str = "deleted";

/// What was deleted from the beginning of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// The first so many events.
    pub events: u64,
    /// The first so many runs.
    pub runs: u64,
    /// What must be known of them, in the words of whoever deleted them.
    pub state: String,
}

impl Deleted {
    /// Of all that stands in the table `meta`; nothing was deleted where nothing is said.
    pub(crate) fn of(meta: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = meta.get(DELETED).map(|text| serde_json::from_str(text));
        text.transpose().map(Option::unwrap_or_default).map_err(|e| format!("`{DELETED}`: {e}"))
    }
}
