//! Settings of a host: their names and values, and what came of setting them.
//!
//! A name says what is set, a value what it becomes: `offload.tso = false`, `ring.rx = 512`,
//! `mtu = 9000`, `sysctl.net.core.rmem_max = 8388608`, `qdisc = "fq"`, `rps = "0-3"`. Names are
//! those of ethtool, tc and sysctl; `docs/settings.md` says where each is read and written.

mod cores;
mod name;
mod outcome;
mod tables;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::cores::{Cores, core_list};
pub use self::outcome::{
    Applied, Outcome, ReadBack, Restoration, RestoreOutcome, RestoredKnob, SideEffect,
};
pub use self::tables::{COALESCE, OFFLOADS, QDISCS};

/// What is set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SettingName {
    /// An offload of an interface: ethtool's short name (`tso`), which may stand for several, or one
    /// feature by the kernel's name (`tx-udp-segmentation`). `true` or `false`.
    Offload(String),
    /// Entries of a descriptor ring, `ethtool -G`.
    Ring(Ring),
    /// One number of interrupt coalescing, `ethtool -C`, by its netlink name.
    Coalesce(String),
    /// Number of queues, `ethtool -L`.
    Channels(Channels),
    /// Largest packet of an interface, in bytes.
    Mtu,
    /// Kind of the root queueing discipline, with the kernel's own options.
    Qdisc,
    /// Cores that an interface's interrupts may go to.
    IrqAffinity,
    /// Cores that take over received packets, for every receive queue (Receive Packet Steering).
    Rps,
    /// Cores that use each transmit queue (Transmit Packet Steering).
    Xps,
    /// A kernel parameter below `net.core`, `net.ipv4` or `net.ipv6`.
    Sysctl(String),
    /// Frequency governor of every core.
    Governor,
}

/// Which ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ring {
    /// Receive.
    Rx,
    /// Receive, small packets.
    RxMini,
    /// Receive, jumbo packets.
    RxJumbo,
    /// Transmit.
    Tx,
}

/// Which queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channels {
    /// Receive only.
    Rx,
    /// Transmit only.
    Tx,
    /// Neither, such as link interrupts.
    Other,
    /// Both ways.
    Combined,
}

/// What it becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SettingValue {
    /// On or off.
    Switch(bool),
    /// A count, in the unit of the setting.
    Number(u64),
    /// Words: a discipline, a governor, cores, several numbers.
    Text(String),
}

/// One setting that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Setting {
    /// What.
    #[schemars(with = "String")]
    pub name: SettingName,
    /// To what.
    pub value: SettingValue,
}

/// As it stands in a document, unchecked.
#[derive(Deserialize)]
struct Raw {
    name: SettingName,
    value: SettingValue,
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(from)?;
        Self::checked(raw.name, raw.value).map_err(serde::de::Error::custom)
    }
}

/// A name or a value that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}: {why}")]
pub struct SettingError {
    /// The name, with the value where that is wrong.
    pub what: String,
    /// Why not.
    pub why: String,
    /// What to try: near names, legal values.
    pub hints: Vec<String>,
}

impl TryFrom<String> for SettingName {
    type Error = SettingError;
    fn try_from(text: String) -> Result<Self, SettingError> {
        text.parse()
    }
}

impl From<SettingName> for String {
    fn from(name: SettingName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(true) => f.write_str("on"),
            Self::Switch(false) => f.write_str("off"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Setting {
    /// A setting by its name, such as `offload.tso`, checked as far as that can be done without the
    /// host.
    ///
    /// # Errors
    /// An unknown name, with the nearest known ones; a value that the setting cannot take.
    pub fn new(name: &str, value: SettingValue) -> Result<Self, SettingError> {
        Self::checked(name.parse()?, value)
    }

    fn checked(name: SettingName, value: SettingValue) -> Result<Self, SettingError> {
        match name.legal(&value) {
            Ok(()) => Ok(Self { name, value }),
            Err(why) => Err(SettingError {
                what: format!("{name} = {}", value.to_string().escape_debug()),
                why,
                hints: vec![],
            }),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

/// Whether the kernel allows this as an interface name, so that it may be put into a path.
///
/// As `dev_valid_name` of net/core/dev.c: at most 15 bytes, no `/`, `:` or space, not `.` or `..`.
pub fn is_interface_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 15
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c == '\0' || c.is_ascii_whitespace())
}

#[cfg(test)]
mod tests;
