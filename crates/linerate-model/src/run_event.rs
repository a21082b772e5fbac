//! What somebody did to a test while it ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::kinds::named;
use crate::word::Word;

/// Something that whoever watched a test did while it ran.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// Since the start of the measured time.
    pub at_s: f64,
    /// What it was.
    pub kind: Word<RunEventKind>,
    /// Asked payload rate of the forward direction from then on (rate).
    pub rate_bps: Option<u64>,
    /// Counted from 1 (mark).
    pub number: Option<u32>,
}

/// Kinds of [`RunEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunEventKind {
    /// Another rate was chosen for what the client sends.
    Rate,
    /// A moment was marked.
    Mark,
}

named! {
    RunEventKind:
        Rate = "rate",
        Mark = "mark";
}

impl RunEvent {
    /// From now on this rate.
    pub fn rate(at_s: f64, rate_bps: u64) -> Self {
        Self { at_s, kind: RunEventKind::Rate.into(), rate_bps: Some(rate_bps), number: None }
    }

    /// A mark.
    pub fn mark(at_s: f64, number: u32) -> Self {
        Self { at_s, kind: RunEventKind::Mark.into(), rate_bps: None, number: Some(number) }
    }

    /// The rate that was chosen, bit/s, where one was.
    pub fn chosen_bps(&self) -> Option<u64> {
        self.rate_bps.filter(|_| self.kind == RunEventKind::Rate)
    }
}
