//! What can be read of a host at one time, and what cannot.

use std::collections::BTreeMap;

use linerate_model::setting::SettingName;
use linerate_model::undo::Knob;

use crate::netlink::parameters::Group;

/// Every knob with its value.
pub(crate) type Values = BTreeMap<Knob, String>;

/// The value of a knob that was there and is not now, such as a queue's that is no more. Only what
/// was looked for and not found has it: what could not be looked for is [`Now::Unreadable`].
pub(crate) const ABSENT: &str = "absent";

/// A knob right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Now {
    /// Its value, or [`ABSENT`].
    Value(String),
    /// Its interface is gone, or is another one.
    Gone,
    /// It cannot be read, and why.
    Unreadable(String),
}

impl Now {
    pub(crate) fn value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Gone | Self::Unreadable(_) => None,
        }
    }
}

/// Knobs that are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Link,
    Qdisc,
    Features,
    Rings,
    Channels,
    Coalesce,
    RxQueues,
    TxQueues,
    Interrupts,
    Parameters,
    Governors,
}

impl Part {
    fn of_knob(knob: &Knob) -> Self {
        match knob {
            Knob::Feature(..) => Self::Features,
            Knob::Ring(..) => Self::Rings,
            Knob::Coalesce(..) => Self::Coalesce,
            Knob::Channels(..) => Self::Channels,
            Knob::Ipv6Mtu(_) | Knob::Mtu(_) | Knob::TxQueueLength(_) => Self::Link,
            Knob::Qdisc(_) => Self::Qdisc,
            Knob::RxQueueCores(..) => Self::RxQueues,
            Knob::TxQueueCores(..) => Self::TxQueues,
            Knob::Interrupt(..) => Self::Interrupts,
            Knob::Sysctl(_) => Self::Parameters,
            Knob::Governor(_) => Self::Governors,
        }
    }

    fn of_setting(name: &SettingName) -> Self {
        match name {
            SettingName::Offload(_) => Self::Features,
            SettingName::Ring(_) => Self::Rings,
            SettingName::Coalesce(_) => Self::Coalesce,
            SettingName::Channels(_) => Self::Channels,
            SettingName::Mtu => Self::Link,
            SettingName::Qdisc => Self::Qdisc,
            SettingName::IrqAffinity => Self::Interrupts,
            SettingName::Rps => Self::RxQueues,
            SettingName::Xps => Self::TxQueues,
            SettingName::Sysctl(_) => Self::Parameters,
            SettingName::Governor => Self::Governors,
        }
    }
}

impl From<Group> for Part {
    fn from(group: Group) -> Self {
        match group {
            Group::Rings => Self::Rings,
            Group::Channels => Self::Channels,
            Group::Coalesce => Self::Coalesce,
        }
    }
}

/// The knobs of one interface, or some of the host, as they are at one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// What was read.
    pub(crate) values: Values,
    /// Parts that could not be read, and why.
    parts: Vec<(Part, String)>,
    /// Single knobs that could not be read, and why.
    knobs: BTreeMap<Knob, String>,
}

impl Reading {
    /// Takes in a knob: no value where there is no such knob.
    pub(crate) fn put(&mut self, knob: Knob, read: Result<Option<String>, String>) {
        match read {
            Ok(Some(value)) => drop(self.values.insert(knob, value)),
            Ok(None) => {}
            Err(why) => drop(self.knobs.insert(knob, why)),
        }
    }

    /// A part cannot be read.
    pub(crate) fn cannot(&mut self, part: Part, why: impl Into<String>) {
        self.parts.push((part, why.into()));
    }

    /// Why a knob could not be read; nothing where it was read, or looked for and not found.
    pub(crate) fn why_not(&self, knob: &Knob) -> Option<&str> {
        let part = Part::of_knob(knob);
        let of_part = || self.parts.iter().find(|(other, _)| *other == part).map(|(_, why)| why);
        self.knobs.get(knob).or_else(of_part).map(String::as_str)
    }

    /// Why not every knob of a setting could be read.
    pub(crate) fn why_not_all(&self, name: &SettingName) -> Option<&str> {
        let part = Part::of_setting(name);
        let of_part = self.parts.iter().find(|(other, _)| *other == part).map(|(_, why)| why);
        let of_knob =
            || self.knobs.iter().find(|(knob, _)| Part::of_knob(knob) == part).map(|(_, why)| why);
        of_part.or_else(of_knob).map(String::as_str)
    }

    /// What became of a knob that was there before.
    pub(crate) fn now(&self, knob: &Knob) -> Now {
        match (self.values.get(knob), self.why_not(knob)) {
            (Some(value), _) => Now::Value(value.clone()),
            (None, Some(why)) => Now::Unreadable(why.to_owned()),
            (None, None) => Now::Value(ABSENT.to_owned()),
        }
    }
}

/// Why there is no such interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoDevice {
    /// The kernel knows none of the name.
    #[error("there is no interface {0}")]
    Gone(String),
    /// That cannot be found out now.
    #[error("{0}")]
    Unreadable(String),
}

impl From<NoDevice> for String {
    fn from(why: NoDevice) -> Self {
        why.to_string()
    }
}
