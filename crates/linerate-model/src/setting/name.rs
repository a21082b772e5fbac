//! Names of settings: how they are written, and which values each takes.

use std::fmt;
use std::str::FromStr;

use super::tables::{
    CHANNELS, COALESCE, MOST_BYTES, NO_WAY_BACK, OFFLOAD_WORDS, OFFLOADS, QDISCS, RINGS, SECRET,
    SYSCTLS,
};
use super::{Cores, SettingError, SettingName, SettingValue};

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

    pub(super) fn legal(&self, value: &SettingValue) -> Result<(), String> {
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
                SettingValue::Text(text) if text.len() > MOST_BYTES => {
                    Err(format!("it is longer than {MOST_BYTES} bytes"))
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
    pub(super) fn fixed() -> Vec<String> {
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
            what: text.chars().take(MOST_BYTES).collect(),
            why: why.into(),
            hints,
        };
        if text.len() > MOST_BYTES || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
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
                if SECRET.iter().any(|end| rest.ends_with(end)) {
                    return Err(refuse(
                        "its value is a secret, and what is set stands in logs and results",
                        vec!["set it by hand, outside linerate".into()],
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
