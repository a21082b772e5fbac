//! The document of `linerate doctor`, format 1: what holds a host back on one path, what could not be
//! looked at, and the facts that both rest on.

mod facts;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::record::{Doubt, ErrorRecord, ProgramFacts, TestEnd};
use crate::setting::Setting;

pub use self::facts::*;

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// What the doctor says.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorDocument {
    /// Always 1.
    pub format: u32,
    /// Always `doctor`.
    pub kind: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Host name or address as the user gave it; absent where only this host was looked at.
    pub target: Option<String>,
    /// What the path shall carry.
    pub goal: Goal,
    /// Checks that were made or could not be made, of both hosts together.
    pub checks: u32,
    /// What was found, the gravest first.
    pub findings: Vec<Finding>,
    /// What could not be looked at.
    pub unknown: Vec<Unlooked>,
    /// What a change that was tried is worth (`--prove`).
    pub proof: Option<Proof>,
    /// This host.
    pub here: HostDetails,
    /// The far host, as far as its server reports.
    pub far: Option<HostDetails>,
}

/// What the path shall carry.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goal {
    /// Payload, bit/s. Without it only what hurts at any rate is more than a note.
    pub rate_bps: Option<u64>,
    /// Round trip of the path in seconds, as the far host's answers took.
    pub rtt_s: Option<f64>,
}

/// How much a finding matters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know; nothing need be done.
    Note,
    /// It costs something on this path.
    Warning,
    /// It keeps the path from what it shall carry.
    Problem,
}

impl Severity {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// Something that holds a host back, or might.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the check, such as `buffers.rmem-max`.
    pub id: String,
    /// Of which host: `client` is this one, `server` the far one.
    pub host: TestEnd,
    /// How much it matters.
    pub severity: Severity,
    /// What is.
    pub what: String,
    /// Why that matters for this path and rate.
    pub why: String,
    /// Commands that change it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<String>,
    /// Commands that undo the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<String>,
    /// The change as linerate makes it itself, with undo.
    pub setting: Option<Setting>,
    /// What the change is known to be worth: measured here, cited, or that it was not measured.
    pub effect: String,
}

/// A check that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unlooked {
    /// Its stable name.
    pub id: String,
    /// Of which host.
    pub host: TestEnd,
    /// Why not.
    pub why: String,
}

/// What a change is worth, by runs without and with it in turn.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// The finding whose change was tried.
    pub id: String,
    /// The change.
    pub setting: Setting,
    /// What was compared, such as `received_bps`.
    pub metric: String,
    /// Runs of each, in the unit of the metric.
    pub without: Vec<f64>,
    /// With the change.
    pub with: Vec<f64>,
    /// Smallest change that matters, percent.
    pub margin_percent: f64,
    /// `different`, `equivalent`, `inconclusive`; absent where too few runs were made.
    pub verdict: Option<String>,
    /// What the change gains, in percent of the mean without it.
    pub gain_percent: Option<Gain>,
    /// The answer in words.
    pub words: String,
    /// Doubts of its runs, each wording once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// What was not put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// The runs show that the change helps, and it was made for good after them, as was asked (`--keep-if-better`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Why it ended early.
    pub error: Option<ErrorRecord>,
}

/// A gain and its interval of 95 %, percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Mean.
    pub mean: f64,
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
}

impl Gain {
    /// How many decimals to write it with: at least so many, and up to four where what is not 0 would be written as 0.
    pub fn decimals(&self, least: usize) -> usize {
        let sizes = [self.mean, self.low, self.high].map(f64::abs);
        let smallest = sizes.into_iter().filter(|size| *size > 0.0).fold(f64::INFINITY, f64::min);
        let shown = [0.5, 0.05, 0.005, 0.000_5].iter().position(|half| smallest > *half);
        shown.unwrap_or(4).max(least)
    }

    /// `18.2 % (16.0 to 20.4)`, with at least so many decimals.
    pub fn words(&self, least: usize) -> String {
        let (Self { mean, low, high }, digits) = (self, self.decimals(least));
        format!("{mean:.digits$} % ({low:.digits$} to {high:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_zero_is_not_written_so() {
        for (mean, low, high, least, decimals) in [
            (18.0, 17.3, 18.7, 0, 0),
            (0.4, 0.2, 0.6, 0, 1),
            (0.1, 0.04, 0.16, 1, 2),
            (-1.0, -2.0, -1e-9, 1, 4),
            (0.0, 0.0, 0.0, 1, 1),
        ] {
            assert_eq!(Gain { mean, low, high }.decimals(least), decimals, "{mean} {low} {high}");
        }
        let words = |mean, low, high| Gain { mean, low, high }.words(1);
        assert_eq!(words(0.12, 0.04, 0.2), "0.12 % (0.04 to 0.20)");
        assert_eq!(words(18.2, 16.0, 20.4), "18.2 % (16.0 to 20.4)");
    }
}
