//! The undo journal of settings: what a line of it says, how lines are distinguished from damaged ones, and
//! what is to be put back.
//!
//! A change is announced in the journal, which is on the disk before the change is made; when it has
//! been made, what came of it follows. A line is the CRC-32 of its text in eight hexadecimal digits,
//! a space, the text (JSON) and a line end. CRC-32 finds every change within one byte. Each line
//! says all that is needed to use it, so that a damaged one hides no other.
//!
//! Where a part could not be put back, the journal stays and one more line says what is settled.

mod known;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::known::{Decision, Undo, undos};

/// An interface, as it was when it was changed. Another one of the same name is not it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Device {
    /// Name.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// Link-layer address in hexadecimal digits.
    pub address: String,
}

impl Device {
    /// Whether it is `other`, in one network namespace and boot. It may have been renamed or have got another address
    /// since; where both differ, the index was given to another one.
    pub fn is(&self, other: &Self) -> bool {
        self.index == other.index && (self.name == other.name || self.address == other.address)
    }
}

/// One thing of a host that has one value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// A feature of an interface, by the kernel's name.
    Feature(Device, String),
    /// A ring: `rx`, `rx-mini`, `rx-jumbo`, `tx`.
    Ring(Device, String),
    /// A number of coalescing, by its name in [`crate::setting::COALESCE`].
    Coalesce(Device, String),
    /// A number of queues: `rx`, `tx`, `other`, `combined`.
    Channels(Device, String),
    /// Largest packet of IPv6 where it is not the interface's: a change of that sets both. It stands before that, since of
    /// what moved together the last is put back first.
    Ipv6Mtu(Device),
    /// Largest packet.
    Mtu(Device),
    /// Length of the transmit queue, which the kernel changes with some disciplines.
    TxQueueLength(Device),
    /// The root queueing discipline with all below it.
    Qdisc(Device),
    /// Cores of a receive queue.
    RxQueueCores(Device, u32),
    /// Cores of a transmit queue.
    TxQueueCores(Device, u32),
    /// Cores of an interrupt.
    Interrupt(Device, u32),
    /// A kernel parameter, by its name in sysctl(8).
    Sysctl(String),
    /// The frequency governor of a core.
    Governor(u32),
}

impl Knob {
    /// The interface it belongs to.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Self::Feature(device, _)
            | Self::Ring(device, _)
            | Self::Coalesce(device, _)
            | Self::Channels(device, _)
            | Self::Ipv6Mtu(device)
            | Self::Mtu(device)
            | Self::TxQueueLength(device)
            | Self::Qdisc(device)
            | Self::RxQueueCores(device, _)
            | Self::TxQueueCores(device, _)
            | Self::Interrupt(device, _) => Some(device),
            Self::Sysctl(_) | Self::Governor(_) => None,
        }
    }

    /// Whether a driver may make another number of it than was asked for.
    fn rounds(&self) -> bool {
        matches!(self, Self::Ring(..) | Self::Coalesce(..) | Self::Channels(..))
    }

    /// Whether `now` is what asking for `asked` makes of it.
    pub fn became(&self, asked: &str, now: &str) -> bool {
        match self {
            Self::Feature(..) => wanted(now) == asked,
            // Asked for by its kind; what the kernel reports begins with the kind.
            Self::Qdisc(_) => now.split(' ').next() == asked.split(' ').next(),
            _ => now == asked,
        }
    }
}

/// What a feature is wanted to be, `on` or `off`, whatever it is: `off, wanted on` while another
/// feature that it needs is off.
pub fn wanted(feature: &str) -> &str {
    feature.rsplit_once("wanted ").map_or(feature, |(_, wanted)| wanted)
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(device, name) => write!(f, "feature {name} of {}", device.name),
            Self::Ring(device, name) => write!(f, "ring {name} of {}", device.name),
            Self::Coalesce(device, name) => write!(f, "coalescing {name} of {}", device.name),
            Self::Channels(device, name) => write!(f, "{name} queues of {}", device.name),
            Self::Ipv6Mtu(device) => write!(f, "MTU of IPv6 on {}", device.name),
            Self::Mtu(device) => write!(f, "MTU of {}", device.name),
            Self::TxQueueLength(device) => write!(f, "transmit queue length of {}", device.name),
            Self::Qdisc(device) => write!(f, "queueing discipline of {}", device.name),
            Self::RxQueueCores(device, queue) => {
                write!(f, "cores of receive queue {queue} of {}", device.name)
            }
            Self::TxQueueCores(device, queue) => {
                write!(f, "cores of transmit queue {queue} of {}", device.name)
            }
            Self::Interrupt(device, number) => {
                write!(f, "cores of interrupt {number} of {}", device.name)
            }
            Self::Sysctl(name) => f.write_str(name),
            Self::Governor(core) => write!(f, "governor of core {core}"),
        }
    }
}

/// Where a change was made. The kernel forgets every setting at a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// /proc/sys/kernel/random/boot_id.
    pub boot_id: String,
    /// Inode of the network namespace.
    pub namespace: u64,
}

/// A knob that is about to be turned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Which.
    pub knob: Knob,
    /// Its value now.
    pub before: String,
    /// What it shall be.
    pub asked: String,
}

/// A knob that has a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Which.
    pub knob: Knob,
    /// Its value now.
    pub value: String,
}

/// A knob that has another value than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// Which.
    pub knob: Knob,
    /// Its value before.
    pub before: String,
    /// Read back.
    pub now: String,
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A change will be made.
    Change {
        /// Counted from 1.
        id: u64,
        /// Where.
        place: Place,
        /// What.
        wishes: Vec<Turn>,
        /// Every other knob that may move with it, with its value now: what does is known only
        /// when it is done, and its writer may die before that.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        around: Vec<Held>,
    },
    /// It has been made, or tried.
    Done {
        /// Of the change.
        id: u64,
        /// Where.
        place: Place,
        /// All that is now other than before it, asked for or not.
        turned: Vec<Turned>,
        /// What could not be read back: nobody knows what became of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unread: Vec<Knob>,
    },
    /// These knobs are put back, or left on purpose; others could not be.
    Settled {
        /// Of the latest change before.
        id: u64,
        /// Where.
        place: Place,
        /// Which.
        knobs: Vec<Knob>,
    },
}

impl Record {
    /// The number of its change.
    pub fn id(&self) -> u64 {
        match self {
            Self::Change { id, .. } | Self::Done { id, .. } | Self::Settled { id, .. } => *id,
        }
    }

    fn place(&self) -> &Place {
        match self {
            Self::Change { place, .. } | Self::Done { place, .. } | Self::Settled { place, .. } => {
                place
            }
        }
    }
}

/// Longest line that is written or read: all knobs of an interface with 1,000 queues and as many
/// interrupts take 300 KiB.
pub const MOST_LINE_BYTES: usize = 1 << 20;

/// A record as a line, its end included; `None` if it is longer than [`MOST_LINE_BYTES`].
pub fn line(record: &Record) -> Option<String> {
    let text = serde_json::to_string(record).ok()?;
    let line = format!("{:08x} {text}\n", crc32fast::hash(text.as_bytes()));
    (line.len() <= MOST_LINE_BYTES).then_some(line)
}

/// A part of a journal that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file ends within a line: the writer was stopped there. What a change announces there was
    /// not done yet; of one whose result stands there, the announcement before it is enough.
    #[error(
        "line {0} is incomplete, as when its writer was stopped there: nothing is lost with it"
    )]
    Torn(usize),
    /// A line is not what was written.
    #[error("line {0} is damaged: what it says of settings is lost")]
    Damaged(usize),
}

/// Reads a journal: every whole line, and what is wrong with the others.
pub fn parse(bytes: &[u8]) -> (Vec<Record>, Vec<Damage>) {
    let (mut records, mut damages) = (Vec::new(), Vec::new());
    for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = index.saturating_add(1);
        match text.strip_suffix(b"\n") {
            Some(text) => match whole(text) {
                Some(record) => records.push(record),
                None => damages.push(Damage::Damaged(number)),
            },
            None => damages.push(Damage::Torn(number)),
        }
    }
    (records, damages)
}

fn whole(text: &[u8]) -> Option<Record> {
    let (sum, text) = (text.get(..8)?, text.get(9..)?);
    if text.len() > MOST_LINE_BYTES {
        return None;
    }
    let digits = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let sum = std::str::from_utf8(sum).ok().filter(|sum| sum.as_bytes().iter().all(digits))?;
    (u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(text)).then_some(())?;
    serde_json::from_slice(text).ok()
}

/// Whether any record is of another boot than `boot_id`: those settings are gone by themselves.
pub fn of_other_boots(records: &[Record], boot_id: &str) -> bool {
    records.iter().any(|record| record.place().boot_id != boot_id)
}

#[cfg(test)]
mod tests;
