//! The document of `linerate tune`, format 1: which setting is best on a path, how sure that is, and how much each
//! factor matters.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

pub use crate::doctor::Gain;
use crate::host::HostFacts;
use crate::kinds::named;
use crate::plan::TrafficKind;
use crate::record::{Doubt, ErrorRecord, PlanRecord, ProgramFacts, Status};
use crate::setting::Setting;

/// What `linerate tune` says.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneDocument {
    /// Always 1.
    pub format: u32,
    /// Always `tune`.
    pub kind: String,
    /// Unique, and sorts by time.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Name in reports, as its user gave it.
    pub label: Option<String>,
    /// Title in place of the command line, as its user gave it.
    pub title: Option<String>,
    /// Host name or address as the user gave it; absent for this machine alone.
    pub target: Option<String>,
    /// udp, tcp or rr.
    pub protocol: TrafficKind,
    /// What is to be as good as can be.
    pub objective: Objective,
    /// What a factor must matter by, percent.
    pub width_percent: f64,
    /// Seed of the order of trials.
    pub seed: u64,
    /// What was varied.
    pub factors: Vec<TuneFactor>,
    /// What was compared with the default at the end, or would have been: of each factor whose level is not the
    /// default's the number of its level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub candidate: BTreeMap<String, u64>,
    /// What that setting gains over the default, by fresh pairs of runs after it was chosen; absent where
    /// there were none.
    pub gain_percent: Option<Gain>,
    /// Pairs behind it.
    pub pairs: u64,
    /// The mean of the default, in the unit of the metric: in those pairs, or else at the beginning.
    pub default_mean: Option<f64>,
    /// The mean of the candidate in those pairs.
    pub best_mean: Option<f64>,
    /// Whether another setting than the default is recommended: its gain's interval lies above 0, its high end is no
    /// less than the width, and it gave a figure in each fresh pair in which the default did.
    pub recommended: bool,
    /// Why it ended.
    pub reason: Reason,
    /// The answer, in sentences.
    pub because: Vec<String>,
    /// The command that tests with the best setting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub best_command: Vec<String>,
    /// Settings of this host that are part of it; they were put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub best_settings: Vec<Setting>,
    /// The file of the profile that was saved.
    pub profile: Option<String>,
    /// Wall time before the first trial, seconds: a first test and a look at both hosts.
    pub look_s: Option<f64>,
    /// Every trial in its order.
    pub trials: Vec<TuneTrial>,
    /// The plan that each trial is a variant of, as agreed in the first.
    pub plan: Option<PlanRecord>,
    /// This host.
    pub client: Option<HostFacts>,
    /// The far host.
    pub server: Option<HostFacts>,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Doubts of the trials, each wording once.
    pub doubts: Vec<Doubt>,
    /// Settings of this host that could not be put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Whether it came to its end.
    pub status: Status,
    /// Why it did not, or which of its files could not be kept.
    pub error: Option<ErrorRecord>,
}

/// What is optimised.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// As `--objective` takes it.
    pub name: String,
    /// Metric of the catalogue.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// `higher` or `lower` values are wanted.
    pub better: String,
    /// A rate counts only with at most this share of loss, 0 to 1.
    pub loss_at_most_ratio: Option<f64>,
}

/// Something that was varied.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneFactor {
    /// As `--factor` takes it.
    pub name: String,
    /// Its levels; the first is the default's.
    pub levels: Vec<TuneLevel>,
    /// Number of the level in the best setting, from 0.
    pub best: u64,
    /// What that level gains over the default's within the best setting, by the same fresh runs; absent where it is
    /// the default's.
    pub worth_percent: Option<Gain>,
    /// The most that any other level could add to the best setting, with 95 % for all of them at once; absent where
    /// not all were measured.
    pub others_most_percent: Option<f64>,
}

/// A level of a factor.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneLevel {
    /// As people say it.
    pub name: String,
    /// The words of the command line that choose it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// The setting of this host that it is.
    pub setting: Option<Setting>,
    /// Why it was left out.
    pub left_out: Option<String>,
    /// What it gains over the level of the setting that the search ended at, all else being equal; the intervals hold
    /// for all levels at once. Absent for that level itself and where it was not compared.
    pub gain_percent: Option<Gain>,
    /// Comparisons behind it.
    pub runs: u64,
}

/// A trial.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneTrial {
    /// What for.
    pub purpose: Purpose,
    /// Of each factor whose level was not the default's the number of its level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: BTreeMap<String, u64>,
    /// The objective's figure; absent where it could not be measured.
    pub value: Option<f64>,
    /// Wall time, seconds.
    pub took_s: f64,
    /// Ids of the runs behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// Why there is no figure.
    pub failed: Option<String>,
    /// Where it is known which levels are why, whatever the others are: of each such factor the number of its level. Empty
    /// where this combination alone is.
    pub at_fault: Option<BTreeMap<String, u64>>,
    /// There is no figure because something cut into the test, twice in a row, that is not the setting's doing: this trial
    /// says nothing of it, and its whole block counts for nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
    /// Share of the datagrams that did not arrive, where what arrives is judged by its delay.
    pub lost_ratio: Option<f64>,
    /// Doubts of its runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

/// What a trial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// How much the default scatters.
    Default,
    /// Every two levels of two factors tried together.
    Screen,
    /// The best so far, and what differs from it in one factor.
    Refine,
    /// Whether what differs from the default is needed.
    Prune,
    /// The best against the default, anew.
    Confirm,
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No other level of any factor can add more than the width.
    Settled,
    /// The time was over.
    MaxTime,
    /// The runs scatter too much to settle every factor.
    Noise,
    /// The default could not be measured.
    Unmeasurable,
    /// No factor had a second level.
    NothingToVary,
    /// It was ended early.
    Stopped,
}

named! {
    Purpose: Default = "default", Screen = "screen", Refine = "refine", Prune = "prune", Confirm = "confirm";
    Reason: Settled = "settled", MaxTime = "max_time", Noise = "noise", Unmeasurable = "unmeasurable",
        NothingToVary = "nothing_to_vary", Stopped = "stopped";
}
