//! The undo journal of settings: what a line of it says, how lines are told from damaged ones, and
//! what is to be put back.
//!
//! A change is announced in the journal, which is on the disk before the change is made; when it has
//! been made, what came of it follows. A line is the CRC-32 of its text in eight hexadecimal digits,
//! a space, the text (JSON) and a line end. CRC-32 finds every change within one octet. Each line
//! says all that is needed to use it, so that a damaged one hides no other.

use std::fmt;

use serde::{Deserialize, Serialize};

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
            // Asked for by its kind; what the kernel tells begins with the kind.
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
pub struct Wish {
    /// Which.
    pub knob: Knob,
    /// Its value now.
    pub before: String,
    /// What it shall be.
    pub asked: String,
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
        wishes: Vec<Wish>,
    },
    /// It has been made, or tried.
    Done {
        /// Of the change.
        id: u64,
        /// Where.
        place: Place,
        /// All that is now other than before it, asked for or not.
        turned: Vec<Turned>,
    },
}

impl Record {
    /// The number of its change.
    pub fn id(&self) -> u64 {
        match self {
            Self::Change { id, .. } | Self::Done { id, .. } => *id,
        }
    }

    fn place(&self) -> &Place {
        match self {
            Self::Change { place, .. } | Self::Done { place, .. } => place,
        }
    }
}

/// Longest line that is written or read: the features of one interface are below 8 KiB.
pub const MOST_LINE_OCTETS: usize = 1 << 20;

/// A record as a line, its end included; `None` if it is longer than [`MOST_LINE_OCTETS`].
pub fn line(record: &Record) -> Option<String> {
    let text = serde_json::to_string(record).ok()?;
    let line = format!("{:08x} {text}\n", crc32fast::hash(text.as_bytes()));
    (line.len() <= MOST_LINE_OCTETS).then_some(line)
}

/// A part of a journal that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file ends within a line: the writer was stopped there, and what the line announces was
    /// not done yet.
    #[error("line {0} is incomplete: its change was not made")]
    Torn(usize),
    /// A line is not what was written.
    #[error("line {0} is damaged: what it says of settings is lost")]
    Damaged(usize),
}

/// Reads a journal: every whole line, and what is wrong with the others.
pub fn parse(octets: &[u8]) -> (Vec<Record>, Vec<Damage>) {
    let (mut records, mut damages) = (Vec::new(), Vec::new());
    for (index, text) in octets.split_inclusive(|octet| *octet == b'\n').enumerate() {
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
    if text.len() > MOST_LINE_OCTETS {
        return None;
    }
    let digits = |octet: &u8| octet.is_ascii_digit() || (b'a'..=b'f').contains(octet);
    let sum = std::str::from_utf8(sum).ok().filter(|sum| sum.as_bytes().iter().all(digits))?;
    (u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(text)).then_some(())?;
    serde_json::from_slice(text).ok()
}

/// What is known of one knob that was turned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// Which.
    pub knob: Knob,
    /// Its value before the first change.
    pub before: String,
    /// What it became last, read back.
    pub now: Option<String>,
    /// What was asked last, when what came of it is not known.
    pub pending: Option<String>,
}

/// What is to be done with a knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is as before.
    Nothing,
    /// It is as it was set here: put it back.
    Restore,
    /// Somebody else has set it since: leave it.
    Leave,
}

impl Undo {
    /// What to do, the knob having this value.
    pub fn decide(&self, current: &str) -> Decision {
        if current == self.before {
            return Decision::Nothing;
        }
        let ours = self.now.as_deref() == Some(current)
            || self.pending.as_deref().is_some_and(|asked| {
                // The driver may have rounded it before anyone could read it back.
                self.knob.became(asked, current) || self.knob.rounds()
            });
        if ours { Decision::Restore } else { Decision::Leave }
    }

    /// What was set, in words.
    pub fn set(&self) -> &str {
        self.pending.as_deref().or(self.now.as_deref()).unwrap_or("unknown")
    }
}

/// Every knob that was turned at `place`, the one turned first last: that is the order to put them
/// back in.
pub fn undos(records: &[Record], place: &Place) -> Vec<Undo> {
    let mut undos: Vec<Undo> = Vec::new();
    let mut entry = |knob: &Knob, before: &str| -> usize {
        if let Some(at) = undos.iter().position(|undo| undo.knob == *knob) {
            return at;
        }
        undos.push(Undo {
            knob: knob.clone(),
            before: before.to_owned(),
            now: None,
            pending: None,
        });
        undos.len().saturating_sub(1)
    };
    let mut notes: Vec<(usize, u64, Option<String>, Option<String>)> = Vec::new();
    for record in records.iter().filter(|record| record.place() == place) {
        match record {
            Record::Change { id, wishes, .. } => {
                for wish in wishes {
                    let at = entry(&wish.knob, &wish.before);
                    notes.push((at, *id, None, Some(wish.asked.clone())));
                }
            }
            Record::Done { id, turned, .. } => {
                // What was asked for and did not change is as it was before this change.
                notes.retain(|(_, of, _, asked)| of != id || asked.is_none());
                for turned in turned {
                    let at = entry(&turned.knob, &turned.before);
                    notes.push((at, *id, Some(turned.now.clone()), None));
                }
            }
        }
    }
    for (at, _, now, asked) in notes {
        let Some(undo) = undos.get_mut(at) else { continue };
        if now.is_some() {
            undo.now = now;
            undo.pending = None;
        } else {
            undo.pending = asked;
        }
    }
    undos.retain(|undo| undo.now.is_some() || undo.pending.is_some());
    undos.reverse();
    undos
}

/// Whether any record is of another boot than `boot_id`: those settings are gone by themselves.
pub fn of_other_boots(records: &[Record], boot_id: &str) -> bool {
    records.iter().any(|record| record.place().boot_id != boot_id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn here() -> Place {
        Place { boot_id: "b".into(), namespace: 7 }
    }

    fn mtu() -> Knob {
        Knob::Mtu(Device { name: "eth0".into(), index: 2, address: "02aa".into() })
    }

    fn ring() -> Knob {
        let device = Device { name: "eth0".into(), index: 2, address: "02aa".into() };
        Knob::Ring(device, "rx".into())
    }

    fn change(id: u64, knob: Knob, before: &str, asked: &str) -> Record {
        let wishes = vec![Wish { knob, before: before.into(), asked: asked.into() }];
        Record::Change { id, place: here(), wishes }
    }

    fn done(id: u64, knob: Knob, before: &str, now: &str) -> Record {
        let turned = vec![Turned { knob, before: before.into(), now: now.into() }];
        Record::Done { id, place: here(), turned }
    }

    fn sample() -> Vec<Record> {
        vec![
            change(1, mtu(), "1500", "9000"),
            done(1, mtu(), "1500", "9000"),
            change(2, ring(), "256", "500"),
            done(2, ring(), "256", "512"),
        ]
    }

    fn written(records: &[Record]) -> Vec<u8> {
        records.iter().filter_map(line).collect::<String>().into_bytes()
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(parse(&written(&sample())), (sample(), vec![]));
        assert_eq!(parse(b""), (vec![], vec![]));
    }

    #[test]
    fn every_truncation_is_a_torn_tail_at_most() {
        let octets = written(&sample());
        for length in 0..octets.len() {
            let (records, damages) = parse(&octets[..length]);
            assert!(sample().starts_with(&records), "{length}");
            let cut = length > 0 && octets[length - 1] != b'\n';
            assert_eq!(damages.len(), usize::from(cut), "{length}");
            assert!(damages.iter().all(|d| matches!(d, Damage::Torn(_))));
        }
    }

    #[test]
    fn every_change_of_one_octet_is_found_and_hides_at_most_the_neighbour() {
        let octets = written(&sample());
        for at in 0..octets.len() {
            for flip in [1_u8, 0x20, 0x80, 0xff, octets[at] ^ b'\n', octets[at] ^ b'"'] {
                if flip == 0 {
                    continue;
                }
                let mut octets = octets.clone();
                octets[at] ^= flip;
                let (records, damages) = parse(&octets);
                // The space between sum and text says nothing, so its loss loses nothing.
                let space = written(&sample())[at] == b' ' && damages.is_empty();
                assert!(!damages.is_empty() || space && records == sample(), "{at} {flip:#x}");
                assert!(records.len() >= sample().len() - 2, "{at} {flip:#x}");
                assert!(records.iter().all(|r| sample().contains(r)), "{at} {flip:#x}");
            }
        }
    }

    #[test]
    fn a_knob_is_put_back_to_its_first_value_unless_someone_else_set_it() {
        let records =
            [sample(), vec![change(3, mtu(), "9000", "4000"), done(3, mtu(), "9000", "4000")]]
                .concat();
        let undos = undos(&records, &here());
        assert_eq!(undos.iter().map(|u| u.knob.clone()).collect::<Vec<_>>(), [ring(), mtu()]);
        let [ring, mtu] = &undos[..] else { panic!("two") };
        assert_eq!(mtu.before, "1500");
        assert_eq!(mtu.decide("4000"), Decision::Restore);
        assert_eq!(mtu.decide("1500"), Decision::Nothing);
        assert_eq!(mtu.decide("9000"), Decision::Leave, "an earlier value of ours, set by others");
        assert_eq!(ring.decide("512"), Decision::Restore);
        assert_eq!(ring.decide("500"), Decision::Leave);
    }

    #[test]
    fn a_change_whose_result_is_unknown_counts_both_ways() {
        let records =
            [&sample()[..2], &[change(3, mtu(), "9000", "4000"), change(4, ring(), "256", "500")]]
                .concat();
        let undos = undos(&records, &here());
        let [ring, mtu] = &undos[..] else { panic!("two") };
        for (value, decision) in [
            ("9000", Decision::Restore),
            ("4000", Decision::Restore),
            ("1500", Decision::Nothing),
            ("1400", Decision::Leave),
        ] {
            assert_eq!(mtu.decide(value), decision, "{value}");
        }
        assert_eq!(ring.decide("512"), Decision::Restore, "drivers round rings");
    }

    #[test]
    fn a_change_that_did_nothing_leaves_nothing_to_undo() {
        let refused = Record::Done { id: 1, place: here(), turned: vec![] };
        let records = [change(1, mtu(), "1500", "9000"), refused];
        assert!(undos(&records, &here()).is_empty());
    }

    #[test]
    fn another_boot_and_another_namespace_are_not_this_one() {
        let elsewhere = Place { namespace: 8, ..here() };
        assert!(undos(&sample(), &elsewhere).is_empty());
        assert!(of_other_boots(&sample(), "c"));
        assert!(!of_other_boots(&sample(), "b"));
    }

    #[test]
    fn features_and_disciplines_are_compared_by_what_was_asked() {
        let device = Device { name: "eth0".into(), index: 2, address: String::new() };
        let feature = Knob::Feature(device.clone(), "rx-gro".into());
        assert!(feature.became("on", "off, wanted on"));
        assert!(!feature.became("on", "on, wanted off"));
        assert!(Knob::Qdisc(device).became("fq", "fq 8001: 0a"));
    }

    proptest! {
        #[test]
        fn any_octets_are_safe(octets in prop::collection::vec(any::<u8>(), 0..600)) {
            let (records, _) = parse(&octets);
            undos(&records, &here());
        }

        /// A host with one knob: changes by us and by others in any order, and a crash after any
        /// line. What others set last is kept; else the first value comes back.
        #[test]
        fn what_others_set_is_kept_and_the_rest_comes_back(
            steps in prop::collection::vec((any::<bool>(), 1_u8..6), 0..12), cut in 0_usize..30
        ) {
            let (mut value, mut journal) = ("0".to_owned(), Vec::new());
            let (mut lines, mut others) = (0, false);
            for (id, (ours, to)) in (1..).zip(steps) {
                let to = to.to_string();
                if to == value {
                    continue;
                }
                if !ours {
                    // A foreign value of its own, which nobody here ever sets.
                    value = format!("f{to}");
                    others = true;
                    continue;
                }
                if lines == cut {
                    break;
                }
                journal.push(change(id, mtu(), &value, &to));
                lines += 1;
                let before = std::mem::replace(&mut value, to.clone());
                others = false;
                if lines == cut {
                    break;
                }
                journal.push(done(id, mtu(), &before, &to));
                lines += 1;
            }
            let undos = undos(&journal, &here());
            prop_assert!(undos.len() <= 1);
            if let Some(undo) = undos.first() {
                let decision = undo.decide(&value);
                let expected = match (value == undo.before, others) {
                    (true, _) => Decision::Nothing,
                    (false, true) => Decision::Leave,
                    (false, false) => Decision::Restore,
                };
                prop_assert_eq!(decision, expected, "{:?} now {}", undo, value);
            }
        }
    }
}
