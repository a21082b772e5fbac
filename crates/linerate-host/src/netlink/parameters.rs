//! Rings, coalescing and channels of an interface, by ethtool's netlink family (Linux 5.6 to 5.12).
//!
//! All three are alike: a request for all numbers, an order with some of them.

use linerate_model::doctor::Amount;

use super::ethtool::Ethtool;
use super::{Refusal, attribute, attributes, put_attribute, u32_at};

/// Which group of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Rings,
    Channels,
    Coalesce,
}

impl Group {
    /// The messages "get" and "set".
    const fn messages(self) -> (u8, u8) {
        match self {
            Self::Rings => (15, 16),
            Self::Channels => (17, 18),
            Self::Coalesce => (19, 20),
        }
    }

    /// Names and attributes of its numbers; a switch is one byte, a count four.
    pub(crate) fn names(self) -> Vec<(&'static str, u16, bool)> {
        match self {
            Self::Rings => {
                vec![
                    ("rx", 6, false),
                    ("rx-mini", 7, false),
                    ("rx-jumbo", 8, false),
                    ("tx", 9, false),
                ]
            }
            Self::Channels => vec![
                ("rx", 6, false),
                ("tx", 7, false),
                ("other", 8, false),
                ("combined", 9, false),
            ],
            Self::Coalesce => linerate_model::setting::COALESCE.to_vec(),
        }
    }
}

/// Every number that the driver has, by name.
pub(crate) fn read(
    ethtool: &mut Ethtool,
    interface: u32,
    group: Group,
) -> Result<Vec<(&'static str, u32)>, Refusal> {
    let mut found = Vec::new();
    ethtool.get(group.messages().0, interface, |body| found = numbers(body, group))?;
    Ok(found)
}

fn numbers(body: &[u8], group: Group) -> Vec<(&'static str, u32)> {
    let names = group.names();
    attributes(body)
        .filter_map(|(kind, value)| {
            let (name, _, switch) = names.iter().find(|(_, known, _)| *known == kind)?;
            let value =
                if *switch { value.first().copied().map(u32::from) } else { u32_at(value, 0) };
            Some((*name, value?))
        })
        .collect()
}

/// The same with the most that the driver takes, of groups that have such.
pub(crate) fn read_with_most(
    ethtool: &mut Ethtool,
    interface: u32,
    group: Group,
) -> Result<Vec<Amount>, Refusal> {
    let mut found = Vec::new();
    ethtool.get(group.messages().0, interface, |body| found = numbers_with_most(body, group))?;
    Ok(found)
}

fn numbers_with_most(body: &[u8], group: Group) -> Vec<Amount> {
    let most = |name: &str| {
        let (_, kind, _) = group.names().into_iter().find(|(known, ..)| *known == name)?;
        // The four largest values stand before the four present ones.
        u32_at(attribute(body, kind.checked_sub(MOST_BEFORE)?)?, 0)
    };
    let amount = |(name, now): (&str, u32)| Amount { name: name.to_owned(), now, most: most(name) };
    numbers(body, group).into_iter().map(amount).collect()
}

/// `ETHTOOL_A_RINGS_RX` less `ETHTOOL_A_RINGS_RX_MAX`, and the same of channels.
const MOST_BEFORE: u16 = 4;

/// Orders one number.
pub(crate) fn set(
    ethtool: &mut Ethtool,
    interface: u32,
    group: Group,
    name: &str,
    value: u32,
) -> Result<(), Refusal> {
    let names = group.names();
    let Some((_, kind, switch)) = names.iter().find(|(known, ..)| *known == name) else {
        return Err(nix::errno::Errno::EINVAL.into());
    };
    let mut body = Vec::new();
    if *switch {
        put_attribute(&mut body, *kind, &[u8::from(value != 0)]);
    } else {
        put_attribute(&mut body, *kind, &value.to_ne_bytes());
    }
    ethtool.set(group.messages().1, interface, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let mut body = Vec::new();
        put_attribute(&mut body, 2, &50_u32.to_ne_bytes());
        put_attribute(&mut body, 11, &[1]);
        put_attribute(&mut body, 99, &[1]);
        assert_eq!(numbers(&body, Group::Coalesce), [("rx-usecs", 50), ("adaptive-rx", 1)]);
        let mut body = Vec::new();
        put_attribute(&mut body, 2, &4096_u32.to_ne_bytes());
        put_attribute(&mut body, 6, &256_u32.to_ne_bytes());
        assert_eq!(numbers(&body, Group::Rings), [("rx", 256)], "the largest is not the present");
        let rx = Amount { name: "rx".into(), now: 256, most: Some(4096) };
        assert_eq!(numbers_with_most(&body, Group::Rings), [rx]);
    }
}
