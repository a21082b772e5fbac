//! What the verbs print with `--json-lines`, an object a line; `event` says which. The schema of each
//! is printed by `linerate schema`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::activity::HostActivity;
use crate::campaign::{Event, ShortCell, StoredRun};
use crate::host::HostFacts;
use crate::record::{ErrorRecord, Interval, RunRecord};
use crate::search::{SearchDocument, TrialRecord};
use crate::sweep::{SweepDocument, SweepPlan, SweepTrial};
use crate::tune::{TuneDocument, TuneFactor, TuneTrial};

/// A line of udp, tcp and rr.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum RunLine<'a> {
    /// Both ends agreed; the record holds no figures yet.
    Start {
        /// What is known so far.
        record: &'a RunRecord,
    },
    /// An interval is over at both ends.
    Interval(&'a Interval),
    /// The test is over.
    End {
        /// The whole record.
        #[serde(skip_serializing_if = "Option::is_none")]
        record: Option<&'a RunRecord>,
        /// Why there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorRecord>,
    },
}

/// A line of watch.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum WatchLine<'a> {
    /// It begins.
    Start {
        /// What the host is.
        host: &'a HostFacts,
    },
    /// A span is over.
    Activity {
        /// When it was over, RFC 3339, UTC.
        at: &'a str,
        /// What the host did.
        #[serde(flatten)]
        activity: &'a HostActivity,
    },
}

/// A line of sweep.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum SweepLine<'a> {
    /// It begins.
    Start {
        /// What will be tried.
        sweep: &'a SweepPlan,
    },
    /// A trial is over.
    Trial {
        /// Its number, from 1.
        number: usize,
        /// Trials that follow, as far as they are known.
        left: usize,
        /// What came of it.
        #[serde(flatten)]
        trial: &'a SweepTrial,
    },
    /// It is over.
    End {
        /// The whole document.
        #[serde(skip_serializing_if = "Option::is_none")]
        document: Option<&'a SweepDocument>,
        /// Why there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorRecord>,
    },
}

/// A line of search.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum SearchLine<'a> {
    /// A trial is over.
    Trial {
        /// What came of it.
        trial: &'a TrialRecord,
    },
    /// It is over.
    End {
        /// The whole document.
        #[serde(skip_serializing_if = "Option::is_none")]
        search: Option<&'a SearchDocument>,
        /// Why there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorRecord>,
    },
}

/// A line of tune.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum TuneLine<'a> {
    /// It begins.
    Start {
        /// What will be varied.
        factors: &'a [TuneFactor],
    },
    /// A trial is over.
    Trial {
        /// Its number, from 1.
        number: usize,
        /// What came of it.
        trial: &'a TuneTrial,
    },
    /// It is over.
    End {
        /// The whole document.
        #[serde(skip_serializing_if = "Option::is_none")]
        document: Option<&'a TuneDocument>,
        /// Why there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorRecord>,
    },
}

/// A line of campaign run and campaign resume: what the store keeps, and what the controller says beside it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CampaignLine<'a> {
    /// Something durable happened.
    Happened(&'a Event),
    /// Of the controller.
    Event(&'a CampaignEvent),
}

/// What the controller of a campaign says.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum CampaignEvent {
    /// It starts or goes on.
    Campaign {
        /// Name of the plan.
        name: String,
        /// Slots that are filled already.
        done: u64,
        /// Slots of the design.
        total: u64,
        /// Names of the settings.
        settings: Vec<String>,
        /// The setting that the others are compared with.
        baseline: Option<String>,
    },
    /// A run was kept.
    Run(Box<StoredRun>),
    /// For its user.
    Note {
        /// In words.
        text: String,
    },
    /// The controller ends. With `--json` this is the one document.
    End(CampaignEnd),
    /// It could not begin.
    #[serde(rename = "end")]
    Failed {
        /// Why.
        error: ErrorRecord,
    },
}

/// Where a campaign stands when its controller ends.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CampaignEnd {
    /// Name of the plan.
    pub name: String,
    /// Slots that are filled.
    pub done: u64,
    /// Slots of the design.
    pub total: u64,
    /// Cells that stay short.
    pub short: Vec<ShortCell>,
    /// What could not be put back, in words, by host; hosts without any are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left: BTreeMap<String, Vec<String>>,
    /// With `--json`: the runs that this controller kept, without their records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<StoredRun>>,
    /// With `--json`: what it could not go on after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
}

/// A line of `campaign export --format json-lines`: a run of any state, with its record.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExportedRun {
    /// The run.
    #[serde(flatten)]
    pub run: StoredRun,
    /// The run record of a test, or what a command printed.
    pub record: Option<serde_json::Value>,
}

/// What every verb prints in place of its document where there is none.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NoDocument<'a> {
    /// What was tried, why it failed, what to try.
    pub error: &'a ErrorRecord,
}
