//! What came of setting, reading and putting back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use super::{Setting, SettingName, SettingValue};

/// How setting went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was so before; nothing was changed.
    Already,
    /// It is now what was asked.
    Set,
    /// It changed, but not to what was asked: the driver rounded it.
    Rounded,
    /// It is as before.
    Refused,
}

/// What came of one setting, read back from the kernel.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// What was asked.
    #[serde(flatten)]
    pub asked: Setting,
    /// On which interface; absent for settings of the whole host.
    pub device: Option<String>,
    /// Before; absent where it could not be read.
    pub before: Option<SettingValue>,
    /// Read back afterwards.
    pub after: Option<SettingValue>,
    /// How it went.
    pub outcome: Outcome,
    /// Why it was refused or is not as asked.
    pub why: Option<String>,
    /// What else changed with it: one offload can switch others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<SideEffect>,
}

impl Applied {
    /// Whether the host is now as asked.
    pub fn holds(&self) -> bool {
        matches!(self.outcome, Outcome::Already | Outcome::Set)
    }
}

/// Something that changed with a setting though it was not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideEffect {
    /// What, such as `feature tx-tcp-segmentation of eth0`.
    pub what: String,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// A setting as it is now.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadBack {
    /// What.
    #[schemars(with = "String")]
    pub name: SettingName,
    /// On which interface; absent for settings of the whole host.
    pub device: Option<String>,
    /// Its value; absent where it cannot be read.
    pub value: Option<SettingValue>,
    /// Why it cannot be read.
    pub why: Option<String>,
}

/// What became of one knob when a host was put back as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreOutcome {
    /// It is as before again.
    Restored,
    /// It was as before already.
    Already,
    /// Somebody else changed it meanwhile: it was left as it is.
    ChangedByOthers,
    /// It is gone, or its interface is, or that is another one now.
    Gone,
    /// The kernel refused, or it cannot be read now: what is to be undone is kept, and tried again
    /// at the next occasion.
    Failed,
}

/// One knob of a host that is being put back.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredKnob {
    /// What, such as `feature tx-tcp-segmentation of eth0`.
    pub what: String,
    /// Its value before linerate changed it.
    pub before: String,
    /// What linerate had set.
    pub set: String,
    /// What it is now; absent where it cannot be read.
    pub now: Option<String>,
    /// How it went.
    pub outcome: RestoreOutcome,
    /// Why it is not as before.
    pub why: Option<String>,
}

/// What came of putting a host back as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restoration {
    /// Everything that had been changed. Empty when there was nothing to do.
    pub knobs: Vec<RestoredKnob>,
    /// What a person should know: the host booted since, a damaged line of the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Restoration {
    /// Whether everything is as it was before.
    pub fn complete(&self) -> bool {
        self.knobs
            .iter()
            .all(|k| matches!(k.outcome, RestoreOutcome::Restored | RestoreOutcome::Already))
    }

    /// Whether something could not be put back. What others have changed, or what is gone, is none of it.
    pub fn failed(&self) -> bool {
        self.knobs.iter().any(|k| k.outcome == RestoreOutcome::Failed)
    }

    /// What is not as it was before, in words.
    pub fn left(&self) -> Vec<String> {
        if self.complete() {
            return Vec::new();
        }
        let left = |k: &RestoredKnob| Some(format!("{}: {}", k.what, k.why.as_ref()?));
        self.knobs.iter().filter_map(left).chain(self.notes.iter().cloned()).collect()
    }
}
