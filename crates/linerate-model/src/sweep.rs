//! The document of `linerate sweep`, format 1: what arrived at each value that was tried, and the
//! regimes it falls into. Rates are bits of payload per second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::host::HostFacts;
use crate::kinds::named;
use crate::plan::Way;
use crate::record::{Doubt, ErrorRecord, Limit, PlanRecord, ProgramFacts, Status};
use crate::trial::Outcome;

/// A whole sweep, or as much of it as was run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepDocument {
    /// Always 1.
    pub format: u32,
    /// Always `sweep`.
    pub kind: String,
    /// Unique, and sorts by time.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line that repeats this sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Host name or address as the user gave it; absent with `--local`.
    pub target: Option<String>,
    /// Name in reports, as its user gave it.
    pub label: Option<String>,
    /// Title in reports, as its user gave it.
    pub title: Option<String>,
    /// What was to be tried, in which order.
    pub sweep: SweepPlan,
    /// What every trial shares. The swept variable changes from trial to trial.
    pub plan: Option<PlanRecord>,
    /// The client's host.
    pub client: Option<HostFacts>,
    /// The server's host.
    pub server: Option<HostFacts>,
    /// One entry a direction and value, in rising order.
    pub points: Vec<SweepPoint>,
    /// Neighbouring points that behave alike.
    pub regimes: Vec<SweepRegime>,
    /// Borders between regimes, as narrow as they were measured.
    pub bends: Vec<SweepBend>,
    /// Every trial, in the order they ran.
    pub trials: Vec<SweepTrial>,
    /// What was found, in sentences, for a person.
    pub because: Vec<String>,
    /// What to try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Time of all trials with what surrounds them, seconds.
    pub seconds: f64,
    /// Why the result may not mean what it seems to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Whether it came to its end: `partial` when it was interrupted or lost its server.
    pub status: Status,
    /// What went wrong, when it is not complete.
    pub error: Option<ErrorRecord>,
}

/// What a sweep varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variable {
    /// Offered rate of payload, bit/s.
    Rate,
    /// Payload of a datagram, bytes.
    Size,
    /// Streams.
    Streams,
    /// Socket buffers at both ends, bytes.
    Window,
}

named! {
    Variable: Rate = "rate", Size = "size", Streams = "streams", Window = "window";
}

/// What is to be tried: all that decides the next trial, beside the outcomes.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPlan {
    /// What is varied.
    pub variable: Variable,
    /// Its values in rising order: bit/s, bytes or streams.
    pub values: Vec<u64>,
    /// Rates only: after the last value, as fast as the sender can.
    pub then_max: bool,
    /// The rate of every trial when another variable is swept; absent is as fast as the sender can.
    pub rate_bps: Option<u64>,
    /// Directions, in turn.
    pub directions: Vec<Way>,
    /// Trials at each value of the grid.
    pub repeat: u32,
    /// Measured time of a trial, seconds.
    pub trial_s: f64,
    /// Width to which a knee is narrowed, as a share of its place; absent without zoom.
    pub zoom_width: Option<f64>,
    /// Seed of the order of the second and later passes.
    pub seed: u64,
}

/// One trial that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepTrial {
    /// Which way the data went.
    pub direction: Way,
    /// Value of the swept variable; absent is as fast as the sender can.
    pub value: Option<u64>,
    /// Whether it was tried to narrow a knee, and not as part of the grid.
    pub zoom: bool,
    /// What came of it.
    pub outcome: Outcome,
    /// Doubts of its record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

/// All trials of one direction and value together. Rates are means, delays and loads medians,
/// counts sums.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// Which way the data went.
    pub direction: Way,
    /// Value of the swept variable; absent is as fast as the sender can.
    #[serialize_always]
    pub value: Option<u64>,
    /// Offered rate; absent is as fast as the sender can.
    #[serialize_always]
    pub asked_bps: Option<u64>,
    /// Trials behind this point. Where some were invalid and others not, the valid ones.
    pub trials: u32,
    /// Rate that the sender's kernel took.
    pub sent_bps: f64,
    /// Rate of unique payload that arrived.
    pub received_bps: f64,
    /// Standard deviation of `received_bps` between the trials, from two on.
    pub received_sd_bps: Option<f64>,
    /// Standard deviation of the received rate between the intervals of a trial: the median trial's.
    pub interval_sd_bps: Option<f64>,
    /// Least received rate of an interval.
    pub interval_min_bps: Option<f64>,
    /// Largest received rate of an interval.
    pub interval_max_bps: Option<f64>,
    /// Of what was called for, the part that did not arrive in time; unsent datagrams count.
    pub undelivered_ratio: f64,
    /// Of what was sent, the part that was lost.
    pub lost_ratio: f64,
    /// Lost on the path, datagrams. Absent, as the two counts below, unless every trial reported it.
    pub lost_path: Option<u64>,
    /// Dropped in the receiver's socket, datagrams.
    pub dropped_receiver: Option<u64>,
    /// One or the other, datagrams.
    pub unattributed: Option<u64>,
    /// RFC 3550 jitter.
    pub jitter_s: Option<f64>,
    /// 99th percentile of the delay above its least.
    pub delay_p99_s: Option<f64>,
    /// Sender's busiest data thread.
    pub cpu_sender_percent: Option<f64>,
    /// Receiver's busiest data thread.
    pub cpu_receiver_percent: Option<f64>,
    /// What limited it.
    pub limit: Limit,
    /// How it behaves.
    pub regime: RegimeKind,
    /// Why its trials say little of the path, when none of them was valid.
    pub invalid: Option<String>,
    /// Ids of the run records.
    pub runs: Vec<String>,
}

/// How points behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegimeKind {
    /// What is asked for arrives.
    #[serde(rename = "follows")]
    Sustained,
    /// Not all arrives, and how much varies from moment to moment or is less than the path carries
    /// elsewhere.
    Unstable,
    /// About the most that ever arrived, whatever is asked.
    Plateau,
    /// Less arrives than at a smaller value.
    Collapse,
    /// Not all arrives, and more does at larger values. Not for rates: to be asked for more is no
    /// help there.
    Rises,
}

impl RegimeKind {
    /// On a screen. Documents keep "follows" for what is sustained.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sustained => "sustained",
            Self::Unstable => "unstable",
            Self::Plateau => "plateau",
            Self::Collapse => "collapse",
            Self::Rises => "rises",
        }
    }
}

/// Neighbouring points of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepRegime {
    /// Which way the data went.
    pub direction: Way,
    /// How its points behave.
    pub kind: RegimeKind,
    /// First value; absent is as fast as the sender can.
    pub from: Option<u64>,
    /// Last value; absent is as fast as the sender can.
    pub to: Option<u64>,
    /// First asked rate; absent where no rate was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_bps: Option<u64>,
    /// Last asked rate; absent where no rate was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_bps: Option<u64>,
    /// What limited most of its points.
    pub limit: Limit,
    /// In a sentence.
    pub text: String,
}

/// The border between two regimes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepBend {
    /// Which way the data went.
    pub direction: Way,
    /// Below.
    pub from: RegimeKind,
    /// Above.
    pub to: RegimeKind,
    /// Largest value of the lower regime.
    pub low: u64,
    /// Least value of the upper regime; absent is as fast as the sender can.
    pub high: Option<u64>,
    /// `(high - low) / low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width_ratio: Option<f64>,
    /// Whether it is no wider than was asked.
    pub narrow: bool,
    /// What limits above it (below it, where the value must rise to be sustained).
    pub limit: Limit,
}
