//! The log of a search: one JSON object a line, from which the search can be gone through again
//! without a network, or go on.

use std::net::IpAddr;
use std::path::PathBuf;

use linerate_model::host::HostFacts;
use linerate_model::plan::{Dialect, IpVersion, TestPlan};
use linerate_model::record::{Doubt, PlanRecord};
use linerate_model::search::TrialPurpose;
use serde::{Deserialize, Serialize};

use super::repeat::Repeated;
use super::{Next, Settings};
use crate::trial::{Outcome, Trial};

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// What was asked for: the first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Always [`FORMAT`].
    pub format: u32,
    /// Id of the search.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// Host name or address and port; `None` is this machine alone.
    pub target: Option<(String, u16)>,
    /// Name in reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Title in reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The version of IP, if the command line settles it.
    pub ip: Option<IpVersion>,
    /// Local address of every trial, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<IpAddr>,
    /// What to speak; `None` finds out what the server speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Where the key that the server asks for was read from, never the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The test that each trial is a variant of.
    pub plan: TestPlan,
    /// Its size is a placeholder until the path's MTU is known.
    pub size_from_mtu: bool,
    /// What is searched.
    pub settings: Settings,
    /// Whole searches.
    pub repeats: u64,
}

/// What the first trial showed of the two ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// What the trials share, as agreed.
    pub plan: Option<PlanRecord>,
    /// The client's host.
    pub client: Option<HostFacts>,
    /// The server's host.
    pub server: Option<HostFacts>,
}

/// A trial and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it was for.
    pub purpose: TrialPurpose,
    /// What was offered.
    pub trial: Trial,
    /// What came of it.
    pub outcome: Outcome,
    /// Doubts of its record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Line {
    /// The first.
    Search(Box<Head>),
    /// After the first trial.
    Facts(Box<Facts>),
    /// Each trial.
    Trial(Box<Entry>),
    /// The search went on later.
    Resumed {
        /// RFC 3339, UTC.
        at: String,
    },
}

/// What is in a line. Its content is read as its own type then: serde reads a tagged enum by way of a copy of each value, and
/// with a copy of all the code.
#[derive(Deserialize)]
struct Kind {
    event: Event,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    Search,
    Facts,
    Trial,
    Resumed,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// What was asked for.
    pub head: Head,
    /// What is known of the ends.
    pub facts: Facts,
    /// Trials in their order.
    pub entries: Vec<Entry>,
    /// Bytes up to the end of the last whole line. What comes after is a line that was torn when
    /// the writer died, and counts as not written.
    pub whole: usize,
}

/// Why bytes are no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// There is not one whole line.
    #[error("it holds no whole line")]
    Empty,
    /// A line is not what a log has there.
    #[error("line {line} is no line of a search log: {why}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The trials are not those that the search makes.
    #[error(
        "trial {trial} is not the one that this search makes there: the log is of another version or was edited"
    )]
    Other {
        /// Counted from 1.
        trial: usize,
    },
}

impl Line {
    /// As a line of the file, with its end.
    pub fn text(&self) -> String {
        // Nothing in a line can fail to be JSON: its keys are texts.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Reads a log. A last line without its end is left out.
///
/// # Errors
/// When a whole line is none of a log, or the first one is not its head.
pub fn read(bytes: &[u8]) -> Result<Log, LogError> {
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let mut head = None;
    let mut facts = Facts::default();
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(bytes[..whole].split(|b| *b == b'\n')) {
        if line.is_empty() {
            continue;
        }
        let fail = |why: String| LogError::Line { line: number, why };
        let bad = |error: serde_json::Error| fail(error.to_string());
        let Kind { event } = serde_json::from_slice(line).map_err(bad)?;
        match (event, &head) {
            (Event::Search, None) => {
                let found: Head = serde_json::from_slice(line).map_err(bad)?;
                if found.format != FORMAT {
                    return Err(fail(format!("format {} is not {FORMAT}", found.format)));
                }
                head = Some(found);
            }
            (_, None) => return Err(fail("the first line must say what was searched".into())),
            (Event::Search, Some(_)) => return Err(fail("a second search begins".into())),
            (Event::Facts, _) => facts = serde_json::from_slice(line).map_err(bad)?,
            (Event::Trial, _) => entries.push(serde_json::from_slice(line).map_err(bad)?),
            (Event::Resumed, _) => {}
        }
    }
    Ok(Log { head: head.ok_or(LogError::Empty)?, facts, entries, whole })
}

impl Log {
    /// The search as it was when the log ended. A limit of time does not bind what was run already;
    /// it binds what follows.
    ///
    /// # Errors
    /// When the trials are not those that the search makes.
    pub fn replay(&self) -> Result<Repeated, LogError> {
        let settings = Settings { max_time: None, ..self.head.settings.clone() };
        let mut search = Repeated::new(settings, self.head.repeats);
        for (number, entry) in (1..).zip(&self.entries) {
            match search.next() {
                Next::Run { trial, purpose, .. }
                    if trial == entry.trial && purpose == entry.purpose =>
                {
                    search.take(entry.outcome.clone());
                }
                _ => return Err(LogError::Other { trial: number }),
            }
        }
        search.set_max_time(self.head.settings.max_time);
        Ok(search)
    }
}
