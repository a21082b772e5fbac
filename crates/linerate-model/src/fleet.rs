//! The document of `linerate fleet run` and `fleet results`, format 1: what was measured between hosts, what was not,
//! and who is bad.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::record::ProgramFacts;
use crate::setting::Setting;

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// What `linerate fleet run` and `fleet results` say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDocument {
    /// Always 1.
    pub format: u32,
    /// Always `fleet`.
    pub kind: String,
    /// Unique, and sorts by time.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line.
    pub command: Vec<String>,
    /// The hosts as the user named them, in that order.
    pub hosts: Vec<String>,
    /// The figure of a test that stands in `value`, as `linerate compare --metric` calls it.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// How often each pair is measured, without times whose results were deleted.
    pub times: u32,
    /// How many times before these had their results deleted, since they were older than `--keep-for`.
    pub deleted: u32,
    /// When each time began (RFC 3339, UTC); null where none of its tests has begun.
    pub begun: Vec<Option<String>>,
    /// Whether tests of one round were let meet at a server, and at what hosts share.
    #[serde(default)]
    pub at_once: bool,
    /// What is set on both hosts of a test while it lasts.
    #[serde(default)]
    pub set: Vec<Setting>,
    /// Rounds that were needed, those of tests that were tried again among them.
    pub rounds: usize,
    /// Whether it ended before every pair had its turn.
    pub interrupted: bool,
    /// Every pair that was asked for, in the order of the hosts.
    pub pairs: Vec<FleetPair>,
    /// Which host or link is bad, as far as can be told.
    pub verdict: FleetVerdict,
    /// Pairs whose level changed, in the order in which it was found.
    pub changes: Vec<FleetChange>,
}

impl FleetDocument {
    /// The newest change of each pair, where it is worse after it.
    pub fn worse(&self) -> impl Iterator<Item = &FleetChange> {
        let same = |a: &FleetChange, b: &FleetChange| (&a.from, &a.to) == (&b.from, &b.to);
        let newest = move |at: usize, change: &FleetChange| {
            !self.changes.iter().skip(at.saturating_add(1)).any(|later| same(later, change))
        };
        let changes = self.changes.iter().enumerate();
        changes.filter(move |(at, change)| change.worse && newest(*at, change)).map(|(_, c)| c)
    }
}

/// The level of a pair changed. Levels are medians, in the unit of the metric.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetChange {
    /// The host that was the client.
    pub from: String,
    /// The host whose server answered.
    pub to: String,
    /// When the first time after the change began (RFC 3339, UTC).
    pub since: Option<String>,
    /// Number of that time, from 1; deleted ones are counted.
    pub time: u32,
    /// Level before.
    pub before: f64,
    /// Level after.
    pub after: f64,
    /// Low end of the 95 % interval of `after` - `before`.
    pub low: Option<f64>,
    /// High end.
    pub high: Option<f64>,
    /// Whether the new level is worse, as the metric counts.
    pub worse: bool,
}

/// What `linerate fleet schedule --webhook` posts of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetNotice {
    /// Always 1.
    pub format: u32,
    /// Always `fleet_change`.
    pub kind: String,
    /// Of this change: one that comes again is the same.
    pub id: String,
    /// `id` of the fleet's document.
    pub fleet: String,
    /// The figure whose level changed, as `linerate compare --metric` calls it.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// What changed.
    #[serde(flatten)]
    pub change: FleetChange,
}

/// A pair of hosts. It has either a value or the reason why there is none.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetPair {
    /// The host that was the client.
    pub from: String,
    /// The host whose server answered.
    pub to: String,
    /// How often it was tried.
    pub tries: u32,
    /// What was measured: the median of all times that have a result.
    pub value: Option<f64>,
    /// What was measured at each time; null where nothing was.
    pub values: Vec<Option<f64>>,
    /// Why nothing was measured at any time.
    pub missing: Option<String>,
}

/// Which host or link is bad, as far as can be told.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetVerdict {
    /// Whether a bad host can be told.
    pub hosts: FleetAnswer,
    /// Whether a bad link can be told.
    pub links: FleetAnswer,
    /// Median of what was measured of all that is not bad, in the unit of the metric.
    pub usual: Option<f64>,
    /// Who is bad: hosts, the worst first, then links. Nobody, or nobody that can be told, where this is empty.
    pub bad: Vec<FleetBad>,
}

/// Whether something can be told of these results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum FleetAnswer {
    /// Yes.
    #[serde(rename = "told")]
    Judged,
    /// Not before every pair was measured so many times.
    NeedsTimes {
        /// At least.
        times: u32,
    },
    /// A bad host looks like a bad link in pairs of this shape.
    NotApart,
    /// Too few pairs have a result.
    FewPairs,
    /// There are too many pairs.
    ManyPairs,
}

/// A host or link that is bad: it has either `host` and `role`, or `from` and `to`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetBad {
    /// The host.
    pub host: Option<String>,
    /// In which of its tests.
    pub role: Option<FleetRole>,
    /// The host that was the client, of a link.
    pub from: Option<String>,
    /// The host whose server answered, of a link.
    pub to: Option<String>,
    /// By how much what is measured with it is worse than with others, in the unit of the metric: mean over the times.
    pub worse_by: f64,
    /// Low end of the 95 % interval of that.
    pub low: Option<f64>,
    /// High end.
    pub high: Option<f64>,
}

/// A host's part in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FleetRole {
    /// The client.
    Client,
    /// The server.
    Server,
    /// Both.
    Both,
}
