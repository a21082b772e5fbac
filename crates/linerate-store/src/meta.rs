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

impl Meta {
    /// By the names of the fields.
    pub(crate) fn rows(&self) -> [(&'static str, String); 6] {
        [
            ("name", self.name.clone()),
            ("plan", self.plan.clone()),
            ("plan_path", self.plan_path.to_string_lossy().into_owned()),
            ("seed", self.seed.to_string()),
            ("created", self.created.clone()),
            ("version", self.version.clone()),
        ]
    }

    /// Of these rows.
    pub(crate) fn of(rows: &BTreeMap<String, String>) -> Result<Self, String> {
        let get = |key: &str| rows.get(key).cloned().ok_or_else(|| format!("meta has no `{key}`"));
        Ok(Self {
            name: get("name")?,
            plan: get("plan")?,
            plan_path: get("plan_path")?.into(),
            seed: get("seed")?.parse().map_err(|_| "the seed is no number")?,
            created: get("created")?,
            version: get("version")?,
        })
    }
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
    /// As the table `meta` has it.
    #[cfg(feature = "postgres")]
    pub(crate) fn row(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Of all that stands in the table `meta`; nothing was deleted where nothing is said.
    pub(crate) fn of(meta: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = meta.get(DELETED).map(|text| serde_json::from_str(text));
        text.transpose().map(Option::unwrap_or_default).map_err(|e| format!("`{DELETED}`: {e}"))
    }
}
