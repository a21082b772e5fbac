//! What a campaign's store holds: the design that was drawn at its start, what happened since, and
//! the runs.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

use crate::kinds::named;

/// One run of the design. Which runs, and in which order, is drawn once, at the start, and kept: a
/// later version of linerate that would draw otherwise goes on with the same design.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Place in the order, from 0.
    pub index: u32,
    /// Boot, from 1; 0 in a campaign without reboots.
    pub boot: u32,
    /// Block within the boot, from 1; a complete block has every setting once. 0 when the order has
    /// no blocks.
    pub block: u32,
    /// Name of the setting.
    pub setting: String,
    /// A warm-up, which no figure uses.
    pub warmup: bool,
    /// Number among the runs of this boot, setting and kind, from 1.
    pub number: u32,
}

/// Something that happened, in the order it was made durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A controller started or went on.
    Opened {
        /// Version of linerate.
        version: String,
        /// Where the controller runs.
        host: String,
        /// Boot of that host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot_id: Option<String>,
    },
    /// A host is about to be asked to reboot.
    BootBegan {
        /// Boot of the design, from 1.
        boot: u32,
        /// Host of the plan.
        host: String,
        /// Its boot id until now: another one proves the reboot.
        old: String,
    },
    /// The host came back with another boot id.
    BootProved {
        /// Boot of the design.
        boot: u32,
        /// Host of the plan.
        host: String,
        /// Its boot id now.
        boot_id: String,
    },
    /// A host was seen for the first time, or on another boot than before without being asked to:
    /// a power cut or somebody else's reboot. Its runs go on and are marked with the boot they ran
    /// on.
    BootSeen {
        /// Boot of the design during which it was found.
        boot: u32,
        /// Host of the plan.
        host: String,
        /// Its boot id now.
        boot_id: String,
    },
    /// A run starts. Without an end after it, it was cut.
    RunBegan {
        /// Index of the slot.
        slot: u32,
        /// From 1.
        attempt: u32,
        /// A warm-up beyond the design, after a boot that was not planned.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        extra: bool,
    },
    /// A run ended; its row of runs has the same slot and attempt.
    RunEnded {
        /// Index of the slot.
        slot: u32,
        /// From 1.
        attempt: u32,
        /// As at its beginning.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        extra: bool,
        /// Whether it counts.
        state: RunState,
    },
    /// A host stopped answering, and came back after so long; what failed meanwhile is a gap.
    Gap {
        /// Host of the plan.
        host: String,
        /// How long it was waited for.
        seconds: f64,
        /// What was seen.
        why: String,
    },
    /// The controller waits; whatever event follows ends that.
    Waiting {
        /// For what, as the end of a sentence.
        what: String,
    },
    /// A slot stays empty.
    Short {
        /// Index of the slot.
        slot: u32,
        /// Why.
        why: String,
    },
    /// Every slot is settled.
    Done,
    /// The controller stopped before that.
    Stopped {
        /// What ended it; absent in stores of earlier builds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<StoppedBy>,
        /// Why.
        why: String,
    },
    /// What the campaign had set on the hosts was put back.
    Restored {
        /// Host of the plan.
        host: String,
        /// In words: what could not be put back, or was left because others changed it.
        left: Vec<String>,
    },
    /// A receiver has taken what a fleet has to say.
    Delivered {
        /// What was said.
        id: String,
        /// Who took it: `screen`, or an address.
        to: String,
    },
}

/// What ended a campaign's controller before the campaign was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// Whoever started it.
    User,
    /// A reboot of its own machine, which the plan has.
    Reboot,
    /// An error.
    Error,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It fills its slot.
    Counted,
    /// It ended badly, or its settings did not hold; it fills nothing.
    Failed,
    /// Its controller died; it fills nothing and was repeated.
    Cut,
    /// A warm-up beyond the design.
    Extra,
}

named! {
    RunState: Counted = "counted", Failed = "failed", Cut = "cut", Extra = "extra";
}

impl RunState {
    /// From the store.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Counted, Self::Failed, Self::Cut, Self::Extra].into_iter().find(|s| s.name() == name)
    }
}

/// One run, as it is kept.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredRun {
    /// Number in the store, from 1, in the order of their ends.
    pub id: u64,
    /// The slot it was for.
    pub slot: u32,
    /// From 1.
    pub attempt: u32,
    /// What became of it.
    pub state: RunState,
    /// Boot of the design; 0 without reboots.
    pub boot: u32,
    /// Boot ids of the hosts of the plan, in its order, joined by `/`: the boot this run really ran
    /// on. Absent when no host reported it.
    pub boot_id: Option<String>,
    /// Block of the design.
    pub block: u32,
    /// Name of the setting.
    pub setting: String,
    /// A warm-up.
    pub warmup: bool,
    /// Number of the slot among its boot, setting and kind.
    pub number: u32,
    /// RFC 3339, UTC.
    pub started: String,
    /// Wall time from start to end.
    pub seconds: f64,
    /// The plan's metric of this run.
    pub value: Option<f64>,
    /// Its name, such as `received_bps`.
    pub metric: String,
    /// Its unit.
    pub unit: Option<String>,
    /// JSON: the run record of a test, or what a command printed. Only the store has it as text.
    #[schemars(skip)]
    #[serde(default, deserialize_with = "text")]
    pub record: Option<String>,
    /// What was set while it ran, as read back: `dut: offload.tso = off`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Why its figure may not be that of the plan's setting: a value that the driver rounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Why it does not count, if it does not.
    pub error: Option<String>,
}

/// Text as it is, and of other JSON its text.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let json = Option::<Box<RawValue>>::deserialize(from)?;
    Ok(json.map(|json| serde_json::from_str(json.get()).unwrap_or_else(|_| json.get().to_owned())))
}

/// Where a campaign stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CampaignState {
    /// A controller works on it.
    Running,
    /// A controller works on it and waits for a host.
    Waiting,
    /// Every slot is settled.
    Done,
    /// No controller works on it, and it is not done.
    Stopped,
    /// The last controller gave up.
    Failed,
    /// It was stopped and the hosts were put back by hand.
    Restored,
}

/// `campaign status --json`, format 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignStatus {
    /// Always 1.
    pub format: u32,
    /// Name of the plan.
    pub name: String,
    /// Where it stands.
    pub state: CampaignState,
    /// Slots that are filled, warm-ups among them.
    pub done: u64,
    /// Slots of the design.
    pub total: u64,
    /// Acknowledged runs that cannot be read back; anything but 0 is damage.
    pub lost: u64,
    /// Slots that are filled twice; anything but 0 is damage.
    pub doubled: u64,
    /// Runs that were cut and repeated.
    pub cut: u64,
    /// Runs that failed and were repeated or given up.
    pub failed: u64,
    /// Boots of which every slot is settled.
    pub boots_done: u32,
    /// Boots of the design.
    pub boots: u32,
    /// What the controller waits for.
    #[serde(default)]
    pub waiting_for: Option<String>,
    /// Time left, from the runs so far; absent before the first.
    #[serde(default)]
    pub eta_s: Option<f64>,
    /// Cells that stay short.
    #[serde(default)]
    pub short: Vec<ShortCell>,
    /// Why it stopped.
    #[serde(default)]
    pub why: Option<String>,
}

/// A cell of the design that has fewer runs than planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortCell {
    /// Name of the setting.
    pub setting: String,
    /// Boot of the design; 0 without reboots.
    pub boot: u32,
    /// Recorded runs it has.
    pub have: u32,
    /// Recorded runs it should have.
    pub want: u32,
    /// Why the first of the missing ones is missing.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_text_whichever_way_it_stands() {
        let read = |record: &str| {
            let run = r#"{"id":1,"slot":1,"attempt":1,"state":"counted","boot":0,"block":0,"setting":"a","warmup":false,
                "number":1,"started":"","seconds":1,"metric":"sent_bps""#;
            StoredRun::from_json(format!("{run}{record}}}").as_bytes()).unwrap().record
        };
        for (given, want) in [
            ("", None),
            (r#","record":null"#, None),
            (r#","record":{"a":1.50}"#, Some(r#"{"a":1.50}"#)),
            (r#","record":"{\"a\":1.50}""#, Some(r#"{"a":1.50}"#)),
            (r#","record":[5]"#, Some("[5]")),
        ] {
            assert_eq!(read(given).as_deref(), want, "{given}");
        }
    }
}
