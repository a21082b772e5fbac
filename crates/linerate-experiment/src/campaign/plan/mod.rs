//! The plan of a campaign: TOML, checked as a whole before anything runs, every fault with its
//! line and column.
//!
//! The options of a test are those of the verbs `udp`, `tcp` and `rr` with `_` for `-`; which exist
//! is given by the caller ([`Vocabulary`]), who has the verbs. What a host can be set to is checked
//! by the caller as well, who knows the hosts' settings.

mod fault;
mod read;
mod words;

use std::fmt;

pub use fault::{Fault, Position, nearest};
use linerate_model::plan::TrafficKind;
use linerate_model::units::Nanos;
pub use words::{Filled, fill, split};

use super::extract::Extract;

/// A checked plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Of the campaign.
    pub name: String,
    /// Index of the setting that the others are compared with.
    pub baseline: usize,
    /// How often, and in which order.
    pub repeat: Repeat,
    /// In the order of the text.
    pub hosts: Vec<Host>,
    /// In the order of the text, the matrix multiplied out.
    pub settings: Vec<Setting>,
    /// What the user should know and is no fault.
    pub notes: Vec<String>,
}

impl Plan {
    /// Index of a host.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|h| h.name == name)
    }

    /// Indices of the hosts that a boot of the design reboots: remote ones first, so that the
    /// controller's own is the last to go.
    pub fn rebooted(&self) -> Vec<usize> {
        if self.repeat.boots == 0 {
            return Vec::new();
        }
        let mut found: Vec<usize> =
            (0..self.hosts.len()).filter(|&i| self.hosts[i].reboot.is_some()).collect();
        found.sort_by_key(|&i| self.hosts[i].address.is_none());
        found
    }
}

/// `[repeat]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// Reboots of the hosts under test, each before its runs; 0 reboots nothing.
    pub boots: u32,
    /// Runs of each setting after each boot that count for nothing.
    pub warmup: u32,
    /// Recorded runs of each setting in each boot.
    pub runs: u32,
    /// In which order.
    pub order: Order,
    /// Of the shuffle; the plan's own when it gives none.
    pub seed: Option<u64>,
    /// A run that ended badly is tried again so many times.
    pub retries: u32,
    /// A host that does not answer is waited for so long.
    pub wait: Nanos,
    /// Pause before each run.
    pub pause: Nanos,
}

/// Most boots: years of them.
pub const MOST_BOOTS: u32 = 1_000;
/// Most runs of a setting in a boot.
pub const MOST_RUNS: u32 = 10_000;
/// Most settings, the matrix multiplied out.
pub const MOST_SETTINGS: usize = 1_000;
/// Most runs of a whole design: a year of one-minute runs is half of that.
pub const MOST_SLOTS: u64 = 1_000_000;

/// In which order the runs of a boot come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Complete blocks, each of every setting once, in an order drawn anew for each block.
    Shuffled,
    /// Complete blocks in the order of the plan.
    AsWritten,
    /// All runs of one setting, then all of the next, in the order of the plan.
    Grouped,
}

impl Order {
    /// As in the plan.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shuffled => "shuffled",
            Self::AsWritten => "as-written",
            Self::Grouped => "grouped",
        }
    }
}

/// One host of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// As the plan calls it.
    pub name: String,
    /// Host name or address of its `linerate serve`; `None` is the machine of the controller.
    pub address: Option<String>,
    /// Port of its `linerate serve`.
    pub port: u16,
    /// Where tests go to, when that is another address than that of control.
    pub test_address: Option<String>,
    /// File with the key, as written.
    pub key_file: Option<String>,
    /// Command that reboots it.
    pub reboot: Option<String>,
    /// Interface that is set; the one towards the other end if absent.
    pub device: Option<String>,
    /// Of its table.
    pub at: Position,
}

impl Host {
    /// What a test or `{NAME}` in a command uses for it.
    pub fn target(&self) -> &str {
        self.test_address.as_deref().or(self.address.as_deref()).unwrap_or("localhost")
    }
}

/// One setting: what runs, and what is set on which host while it does.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Unique; made of letters, digits, `_`, `-`, `.` and `+`, as it becomes a file's name.
    pub name: String,
    /// What runs.
    pub workload: Workload,
    /// Index of the host that sends, or that runs the command.
    pub from: usize,
    /// Index of the host at the other end, if there is one.
    pub to: Option<usize>,
    /// What is set.
    pub changes: Vec<Change>,
    /// Of its table.
    pub at: Position,
}

/// What runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// A test of linerate.
    Test {
        /// Its verb.
        verb: TrafficKind,
        /// Its options.
        options: Vec<TestOption>,
        /// Name of the metric that is compared; a default of the verb if absent.
        metric: Option<(String, Position)>,
    },
    /// Another program.
    Command {
        /// Its words, hosts and values of the matrix filled in.
        words: Vec<String>,
        /// Where the number is in what it prints.
        extract: Extract,
        /// Of the number.
        unit: Option<String>,
        /// How long it usually takes, for the estimate.
        time: Nanos,
        /// It is ended after this time.
        timeout: Nanos,
    },
}

/// An option of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestOption {
    /// With `_`.
    pub key: String,
    /// As written.
    pub value: Scalar,
    /// Of the key.
    pub at: Position,
}

/// A change of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Index of the host.
    pub host: usize,
    /// Dotted: `offload.tso`.
    pub path: String,
    /// As written.
    pub value: Scalar,
    /// Of the key.
    pub at: Position,
}

/// A value of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// true or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a point.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Scalar>),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(b) => write!(f, "{b}"),
            Self::Integer(i) => write!(f, "{i}"),
            Self::Float(x) => write!(f, "{x}"),
            Self::Text(t) => f.write_str(t),
            Self::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

/// The options that each kind of test has.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// Verb and its options, with `_` for `-`.
    pub verbs: Vec<(TrafficKind, Vec<String>)>,
    /// Old names of options, each with its name of today.
    pub old: Vec<(String, String)>,
    /// Names of metrics.
    pub metrics: Vec<String>,
}

impl Vocabulary {
    /// What an option is called today.
    fn today<'a>(&'a self, key: &'a str) -> &'a str {
        self.old.iter().find(|(old, _)| old == key).map_or(key, |(_, name)| name)
    }

    /// The verb of this name, with its options.
    fn verb(&self, name: &str) -> Option<&(TrafficKind, Vec<String>)> {
        self.verbs.iter().find(|(verb, _)| verb.name() == name)
    }
}

/// Reads a plan, or says everything that is wrong with it, in the order of the text.
pub fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Plan, Vec<Fault>> {
    read::read(text, vocabulary)
}

#[cfg(test)]
mod tests;
