//! Settings of a host: their names and values, and what came of setting them.
//!
//! A name says what is set, a value what it becomes: `offload.tso = false`, `ring.rx = 512`,
//! `mtu = 9000`, `sysctl.net.core.rmem_max = 8388608`, `qdisc = "fq"`, `rps = "0-3"`. Names are
//! those of ethtool, tc and sysctl; `docs/settings.md` says where each is read and written.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Largest packet of an interface, in octets.
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

/// How setting went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was so before; nothing was changed.
    Already,
    /// It is now what was asked.
    Set,
    /// It changed, but not to what was asked: the driver rounded it.
    Rounded,
    /// It is as before.
    Refused,
}

/// What came of one setting, read back from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// What was asked.
    #[serde(flatten)]
    pub asked: Setting,
    /// On which interface; absent for settings of the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Before; absent where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SettingValue>,
    /// Read back afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SettingValue>,
    /// How it went.
    pub outcome: Outcome,
    /// Why it was refused or is not as asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What else changed with it: one offload can switch others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<SideEffect>,
}

impl Applied {
    /// Whether the host is now as asked.
    pub fn holds(&self) -> bool {
        matches!(self.outcome, Outcome::Already | Outcome::Set)
    }
}

/// Something that changed with a setting though it was not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideEffect {
    /// What, such as `feature tx-tcp-segmentation of eth0`.
    pub what: String,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// A setting as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadBack {
    /// What.
    #[schemars(with = "String")]
    pub name: SettingName,
    /// On which interface; absent for settings of the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Its value; absent where it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<SettingValue>,
    /// Why it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What became of one knob when a host was put back as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreOutcome {
    /// It is as before again.
    Restored,
    /// It was as before already.
    Already,
    /// Somebody else changed it meanwhile: it was left as it is.
    ChangedByOthers,
    /// It is gone, or its interface is, or that is another one now.
    Gone,
    /// The kernel refused, or it cannot be read now: what is to be undone is kept, and tried again
    /// at the next occasion.
    Failed,
}

/// One knob of a host that is being put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredKnob {
    /// What, such as `feature tx-tcp-segmentation of eth0`.
    pub what: String,
    /// Its value before linerate changed it.
    pub before: String,
    /// What linerate had set.
    pub set: String,
    /// What it is now; absent where it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// How it went.
    pub outcome: RestoreOutcome,
    /// Why it is not as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What came of putting a host back as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restoration {
    /// Everything that had been changed. Empty when there was nothing to do.
    pub knobs: Vec<RestoredKnob>,
    /// What a person should know: the host booted since, a damaged line of the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Restoration {
    /// Whether everything is as it was before.
    pub fn complete(&self) -> bool {
        self.knobs
            .iter()
            .all(|k| matches!(k.outcome, RestoreOutcome::Restored | RestoreOutcome::Already))
    }
}

/// Short names of ethtool for offloads, and the features of the kernel that each switches
/// (`ethtool -k` groups them so). Names with underscores are taken too.
pub const OFFLOADS: &[(&str, &[&str])] = &[
    (
        "tso",
        &[
            "tx-tcp-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-tcp-mangleid-segmentation",
            "tx-tcp6-segmentation",
            "tx-tcp-accecn-segmentation",
        ],
    ),
    ("gso", &["tx-generic-segmentation"]),
    ("gro", &["rx-gro"]),
    ("lro", &["rx-lro"]),
    ("rx-checksum", &["rx-checksum"]),
    (
        "tx-checksum",
        &[
            "tx-checksum-ipv4",
            "tx-checksum-ip-generic",
            "tx-checksum-ipv6",
            "tx-checksum-fcoe-crc",
            "tx-checksum-sctp",
        ],
    ),
    ("sg", &["tx-scatter-gather", "tx-scatter-gather-fraglist"]),
    ("rxvlan", &["rx-vlan-hw-parse"]),
    ("txvlan", &["tx-vlan-hw-insert"]),
    ("ntuple", &["rx-ntuple-filter"]),
    ("rxhash", &["rx-hashing"]),
    ("tx-udp-segmentation", &["tx-udp-segmentation"]),
];

/// Other words for the same, as ethtool knows them.
const OFFLOAD_WORDS: &[(&str, &str)] = &[
    ("rx", "rx-checksum"),
    ("tx", "tx-checksum"),
    ("rx-checksumming", "rx-checksum"),
    ("tx-checksumming", "tx-checksum"),
    ("scatter-gather", "sg"),
    ("tcp-segmentation-offload", "tso"),
    ("generic-segmentation-offload", "gso"),
    ("generic-receive-offload", "gro"),
    ("large-receive-offload", "lro"),
    ("udp-segmentation", "tx-udp-segmentation"),
];

/// Numbers of coalescing, `ethtool -C`: name, netlink attribute
/// (include/uapi/linux/ethtool_netlink.h), and whether it is a switch.
pub const COALESCE: &[(&str, u16, bool)] = &[
    ("rx-usecs", 2, false),
    ("rx-frames", 3, false),
    ("rx-usecs-irq", 4, false),
    ("rx-frames-irq", 5, false),
    ("tx-usecs", 6, false),
    ("tx-frames", 7, false),
    ("tx-usecs-irq", 8, false),
    ("tx-frames-irq", 9, false),
    ("stats-block-usecs", 10, false),
    ("adaptive-rx", 11, true),
    ("adaptive-tx", 12, true),
    ("pkt-rate-low", 13, false),
    ("rx-usecs-low", 14, false),
    ("rx-frames-low", 15, false),
    ("tx-usecs-low", 16, false),
    ("tx-frames-low", 17, false),
    ("pkt-rate-high", 18, false),
    ("rx-usecs-high", 19, false),
    ("rx-frames-high", 20, false),
    ("tx-usecs-high", 21, false),
    ("tx-frames-high", 22, false),
    ("sample-interval", 23, false),
    ("cqe-mode-tx", 24, true),
    ("cqe-mode-rx", 25, true),
];

/// Disciplines that can be asked for: those that need no options.
pub const QDISCS: &[&str] = &[
    "noqueue",
    "pfifo_fast",
    "pfifo",
    "bfifo",
    "fq",
    "fq_codel",
    "codel",
    "mq",
    "sfq",
    "pie",
    "fq_pie",
    "cake",
];

const RINGS: &[(&str, Ring)] =
    &[("rx", Ring::Rx), ("rx-mini", Ring::RxMini), ("rx-jumbo", Ring::RxJumbo), ("tx", Ring::Tx)];
const CHANNELS: &[(&str, Channels)] = &[
    ("rx", Channels::Rx),
    ("tx", Channels::Tx),
    ("other", Channels::Other),
    ("combined", Channels::Combined),
];
const SYSCTLS: [&str; 3] = ["net.core.", "net.ipv4.", "net.ipv6."];
/// Longest name and longest value that are taken.
const MOST_OCTETS: usize = 200;

/// Parameters whose change does more than their value says, so that writing the old value back does
/// not undo it: name's end, and what they do.
const NO_WAY_BACK: &[(&str, &str)] = &[
    (".disable_ipv6", "it removes the addresses and routes of IPv6"),
    (".forwarding", "it changes the settings of other interfaces and removes routes"),
    (".mc_forwarding", "it belongs to the multicast routing daemon"),
    ("ipv4.ip_forward", "it resets the settings of every interface"),
    (".flush", "it empties a table"),
    (".addr_gen_mode", "it makes new addresses"),
    (".stable_secret", "it makes new addresses and cannot be taken away again"),
    (".accept_ra", "it adds and removes routes"),
];

impl SettingName {
    /// The kernel's names of the features that an offload stands for.
    pub fn features(&self) -> Vec<&str> {
        let Self::Offload(name) = self else { return Vec::new() };
        OFFLOADS
            .iter()
            .find(|(short, _)| short == name)
            .map_or_else(|| vec![name.as_str()], |(_, features)| features.to_vec())
    }

    /// Whether it belongs to an interface, not to the whole host.
    pub fn of_device(&self) -> bool {
        !matches!(self, Self::Sysctl(_) | Self::Governor)
    }

    fn legal(&self, value: &SettingValue) -> Result<(), String> {
        let number = |least: u64, most: u64| match value {
            SettingValue::Number(n) if (least..=most).contains(n) => Ok(()),
            SettingValue::Number(_) => Err(format!("it takes {least} to {most}")),
            _ => Err(format!("it takes a number, {least} to {most}")),
        };
        match self {
            Self::Offload(_) => match value {
                SettingValue::Switch(_) => Ok(()),
                _ => Err("it takes true or false".into()),
            },
            Self::Coalesce(name) => {
                let switch = COALESCE.iter().any(|(known, _, switch)| known == name && *switch);
                match (switch, value) {
                    (true, SettingValue::Switch(_)) => Ok(()),
                    (true, _) => Err("it takes true or false".into()),
                    (false, _) => number(0, u64::from(u32::MAX)),
                }
            }
            Self::Ring(_) => number(1, 1 << 20),
            Self::Channels(_) => number(0, 8_192),
            // The least of IPv4, RFC 791; the most of the kernel's IP_MAX_MTU.
            Self::Mtu => number(68, 65_535),
            Self::Qdisc => match value {
                SettingValue::Text(kind) if QDISCS.contains(&kind.as_str()) => Ok(()),
                SettingValue::Text(kind) if ["tbf", "htb", "netem"].contains(&kind.as_str()) => {
                    Err("that discipline does nothing without options, and a setting has none"
                        .into())
                }
                _ => Err(format!("it takes one of: {}", QDISCS.join(", "))),
            },
            Self::IrqAffinity | Self::Rps | Self::Xps => match value {
                SettingValue::Number(core) if *core <= crate::limits::CORE.max => Ok(()),
                SettingValue::Text(text) => {
                    let none_is_legal = !matches!(self, Self::IrqAffinity);
                    Cores::parse(text)
                        .filter(|cores| none_is_legal || !cores.list.is_empty())
                        .map(drop)
                        .ok_or_else(|| {
                            "it takes cores such as \"0-3,8\" for every queue, \"spread 0-3\" for one core each in turn"
                                .to_owned()
                                + if none_is_legal { ", or \"none\"" } else { "" }
                        })
                }
                _ => Err("it takes cores such as \"0-3,8\" or \"spread 0-3\"".into()),
            },
            Self::Sysctl(_) | Self::Governor => match value {
                SettingValue::Text(text) if text.len() > MOST_OCTETS => {
                    Err(format!("it is longer than {MOST_OCTETS} octets"))
                }
                SettingValue::Text(text) if text.chars().any(char::is_control) => {
                    Err("it has control characters".into())
                }
                SettingValue::Text(text) if text.trim().is_empty() => Err("it is empty".into()),
                SettingValue::Switch(_) if *self == Self::Governor => {
                    Err("it takes a governor's name, such as performance".into())
                }
                _ => Ok(()),
            },
        }
    }

    /// Every name that is no pattern, for suggestions.
    fn fixed() -> Vec<String> {
        let mut names: Vec<String> =
            ["mtu", "qdisc", "irq_affinity", "rps", "xps", "governor"].map(String::from).to_vec();
        names.extend(OFFLOADS.iter().map(|(name, _)| format!("offload.{name}")));
        names.extend(RINGS.iter().map(|(name, _)| format!("ring.{name}")));
        names.extend(CHANNELS.iter().map(|(name, _)| format!("channels.{name}")));
        names.extend(COALESCE.iter().map(|(name, ..)| format!("coalesce.{name}")));
        names
    }
}

impl FromStr for SettingName {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let refuse = |why: &str, hints: Vec<String>| SettingError {
            what: text.chars().take(MOST_OCTETS).collect(),
            why: why.into(),
            hints,
        };
        if text.len() > MOST_OCTETS || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(refuse("no setting has such a name", vec![]));
        }
        let (group, rest) = text.split_once('.').unwrap_or((text, ""));
        // ethtool writes hyphens, TOML keys rather underscores.
        let dashed = rest.replace('_', "-");
        let found = match (group, rest) {
            ("mtu", "") => Some(Self::Mtu),
            ("qdisc", "") => Some(Self::Qdisc),
            ("irq_affinity" | "irq-affinity", "") => Some(Self::IrqAffinity),
            ("rps", "") => Some(Self::Rps),
            ("xps", "") => Some(Self::Xps),
            ("governor", "") => Some(Self::Governor),
            ("offload", _) => offload(&dashed).map(Self::Offload),
            ("ring", _) => {
                RINGS.iter().find(|(name, _)| *name == dashed).map(|(_, ring)| Self::Ring(*ring))
            }
            ("channels", _) => CHANNELS
                .iter()
                .find(|(name, _)| *name == dashed)
                .map(|(_, channels)| Self::Channels(*channels)),
            ("coalesce", _) => COALESCE
                .iter()
                .find(|(name, ..)| *name == dashed)
                .map(|(name, ..)| Self::Coalesce((*name).to_owned())),
            ("sysctl", _) => {
                let legal = SYSCTLS.iter().any(|root| rest.starts_with(root))
                    && rest.split('.').all(|part| {
                        !part.is_empty()
                            && part != "/"
                            && part
                                .chars()
                                .all(|c| c.is_ascii_alphanumeric() || "_-/@:".contains(c))
                    })
                    // A slash stands for a dot inside an interface's name, as in sysctl(8).
                    && !rest.contains("//");
                if !legal {
                    return Err(refuse(
                        "only parameters below net.core, net.ipv4 and net.ipv6 can be set",
                        vec!["such as sysctl.net.core.rmem_max".into()],
                    ));
                }
                if let Some((_, what)) = NO_WAY_BACK.iter().find(|(end, _)| rest.ends_with(end)) {
                    return Err(refuse(
                        &format!("writing the old value back would not undo it: {what}"),
                        vec!["set it by hand, outside linerate".into()],
                    ));
                }
                Some(Self::Sysctl(rest.to_owned()))
            }
            _ => None,
        };
        found.ok_or_else(|| refuse("there is no such setting", near(text)))
    }
}

/// The short name where there is one, else a name that may be a feature of the kernel: which it has,
/// only the host knows.
fn offload(name: &str) -> Option<String> {
    let name = OFFLOAD_WORDS.iter().find(|(word, _)| *word == name).map_or(name, |(_, to)| *to);
    if let Some((short, _)) = OFFLOADS.iter().find(|(short, _)| *short == name) {
        return Some((*short).to_owned());
    }
    // Every feature of the kernel has a hyphen, but for a few; ETH_GSTRING_LEN is 32 with its end.
    let of_kernel = ["loopback", "highdma", "rx-all", "rx-fcs", "l2-fwd-offload"].contains(&name)
        || ["tx-", "rx-", "hw-", "esp-", "tls-", "macsec-", "hsr-"]
            .iter()
            .any(|start| name.starts_with(start));
    let legal = name.len() < 32
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    (of_kernel && legal).then(|| name.to_owned())
}

/// The names most like it, for people who mistyped one.
fn near(text: &str) -> Vec<String> {
    let mut found: Vec<(f64, String)> = SettingName::fixed()
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&name, &text.replace('_', "-")), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    if found.is_empty() {
        return vec![
            "settings are offload.*, ring.*, coalesce.*, channels.*, mtu, qdisc, irq_affinity, rps, xps, sysctl.net.*, governor"
                .into(),
        ];
    }
    found.into_iter().take(3).map(|(_, name)| format!("a similar one exists: {name}")).collect()
}

impl fmt::Display for SettingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offload(name) => write!(f, "offload.{name}"),
            Self::Ring(ring) => {
                let name = RINGS.iter().find(|(_, known)| known == ring).map_or("", |(n, _)| n);
                write!(f, "ring.{name}")
            }
            Self::Coalesce(name) => write!(f, "coalesce.{name}"),
            Self::Channels(which) => {
                let name = CHANNELS.iter().find(|(_, known)| known == which).map_or("", |(n, _)| n);
                write!(f, "channels.{name}")
            }
            Self::Mtu => f.write_str("mtu"),
            Self::Qdisc => f.write_str("qdisc"),
            Self::IrqAffinity => f.write_str("irq_affinity"),
            Self::Rps => f.write_str("rps"),
            Self::Xps => f.write_str("xps"),
            Self::Sysctl(name) => write!(f, "sysctl.{name}"),
            Self::Governor => f.write_str("governor"),
        }
    }
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

/// Cores as a setting names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    /// One core for each queue in turn, instead of all for every queue.
    pub spread: bool,
    /// The cores, ascending.
    pub list: Vec<u32>,
}

impl Cores {
    /// Reads `0-3,8`, `spread 0-3` or `none`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self { spread: false, list: vec![] });
        }
        let (spread, text) =
            text.strip_prefix("spread ").map_or((false, text), |rest| (true, rest));
        let mut list = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| -> Option<u32> {
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let core = text.parse::<u32>().ok().filter(|_| digits)?;
                crate::limits::CORE.check(u64::from(core)).is_ok().then_some(core)
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            list.extend(first..=last);
        }
        list.sort_unstable();
        list.dedup();
        Some(Self { spread, list })
    }

    /// The cores of queue `index`.
    pub fn of_queue(&self, index: usize) -> Vec<u32> {
        match (self.spread, self.list.get(index % self.list.len().max(1))) {
            (true, Some(core)) => vec![*core],
            _ => self.list.clone(),
        }
    }
}

/// Cores as the kernel writes lists: `0-3,8`; `none` where there are none.
pub fn core_list(cores: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = cores;
    while let Some((first, more)) = rest.split_first() {
        let run = more.iter().zip(first + 1..).take_while(|(core, next)| **core == *next).count();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.to_string());
        if let Some(last) = run.checked_sub(1).and_then(|at| more.get(at)) {
            text.push_str(&format!("-{last}"));
        }
        rest = more.get(run..).unwrap_or_default();
    }
    if text.is_empty() { "none".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(name: &str, value: SettingValue) -> Result<Setting, SettingError> {
        Setting::new(name, value)
    }

    #[test]
    fn every_fixed_name_is_read_as_written() {
        for name in SettingName::fixed() {
            assert_eq!(name.parse::<SettingName>().unwrap().to_string(), name);
        }
        for (written, known) in [
            ("offload.tx_checksum", "offload.tx-checksum"),
            ("offload.rx", "offload.rx-checksum"),
            ("offload.generic-receive-offload", "offload.gro"),
            ("offload.tx-esp-segmentation", "offload.tx-esp-segmentation"),
            ("coalesce.rx_usecs", "coalesce.rx-usecs"),
            ("sysctl.net.ipv4.conf.eth0/100.rp_filter", "sysctl.net.ipv4.conf.eth0/100.rp_filter"),
        ] {
            assert_eq!(written.parse::<SettingName>().unwrap().to_string(), known);
        }
    }

    #[test]
    fn an_unknown_name_offers_the_nearest() {
        let error = "offload.tos".parse::<SettingName>().unwrap_err();
        assert_eq!(error.why, "there is no such setting");
        assert_eq!(error.hints[0], "a similar one exists: offload.tso");
        let error = "ring_rx".parse::<SettingName>().unwrap_err();
        assert!(error.hints[0].contains("ring.rx"), "{error:?}");
        assert!("zzz".parse::<SettingName>().unwrap_err().hints[0].contains("settings are"));
    }

    #[test]
    fn parameters_outside_the_network_and_without_a_way_back_are_refused() {
        for bad in [
            "sysctl.kernel.sysrq",
            "sysctl.net.core",
            "sysctl.net.core.",
            "sysctl.net.core...x",
            "sysctl.net.core.../../kernel.panic",
            "sysctl.net.ipv6.conf.eth0.disable_ipv6",
            "sysctl.net.ipv4.ip_forward",
            "sysctl.net.ipv4.conf.all.forwarding",
            "sysctl.net.ipv4.route.flush",
            "sysctl.net.core.rmem max",
            "",
            "mtu.x",
        ] {
            assert!(bad.parse::<SettingName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_checked() {
        use SettingValue::{Number, Switch, Text};
        for (name, value) in [
            ("offload.tso", Switch(false)),
            ("ring.rx", Number(512)),
            ("mtu", Number(9_000)),
            ("qdisc", Text("fq".into())),
            ("rps", Text("none".into())),
            ("rps", Number(1)),
            ("irq_affinity", Text("spread 0-3".into())),
            ("coalesce.adaptive-rx", Switch(true)),
            ("coalesce.rx-usecs", Number(50)),
            ("sysctl.net.ipv4.tcp_rmem", Text("4096 131072 6291456".into())),
            ("governor", Text("performance".into())),
        ] {
            let setting = on(name, value).unwrap();
            let json = format!(
                "{{\"name\":\"{}\",\"value\":{}}}",
                setting.name,
                match &setting.value {
                    Switch(on) => on.to_string(),
                    Number(n) => n.to_string(),
                    Text(text) => format!("\"{text}\""),
                }
            );
            assert!(!json.is_empty());
        }
        for (name, value) in [
            ("offload.tso", Number(0)),
            ("ring.rx", Number(0)),
            ("ring.rx", Switch(true)),
            ("mtu", Number(67)),
            ("mtu", Text("9000".into())),
            ("qdisc", Text("htb".into())),
            ("qdisc", Text("fq; rm".into())),
            ("irq_affinity", Text("none".into())),
            ("rps", Text("3-1".into())),
            ("rps", Text("+1".into())),
            ("rps", Text("0-9999999".into())),
            ("coalesce.rx-usecs", Number(1 << 32)),
            ("coalesce.adaptive-rx", Number(1)),
            ("sysctl.net.core.rmem_max", Text("1\n2".into())),
            ("sysctl.net.core.rmem_max", Text("x".repeat(201))),
            ("governor", Text(" ".into())),
        ] {
            assert!(on(name, value.clone()).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn lists_of_cores() {
        for text in ["0", "0-3", "0-1,4,6-7", "none"] {
            assert_eq!(core_list(&Cores::parse(text).unwrap().list), text);
        }
        let spread = Cores::parse("spread 2,5").unwrap();
        assert_eq!((0..3).map(|q| spread.of_queue(q)[0]).collect::<Vec<_>>(), [2, 5, 2]);
        assert_eq!(Cores::parse("2,5").unwrap().of_queue(7), [2, 5]);
    }
}
