//! Offloads of an interface, by ethtool's netlink family (Linux 5.6 and later).

use linerate_model::host::Offload;

use super::{
    GENL_HEADER_BYTES, NLA_F_NESTED, NLM_F_ACK, Netlink, Refusal, attribute, attributes,
    put_attribute, u32_at,
};

/// The family, by the number that the running kernel has given to it.
pub(crate) struct Ethtool {
    netlink: Netlink,
    family: u16,
}

impl Ethtool {
    /// Where the kernel has it.
    pub(crate) fn open() -> Option<Self> {
        let mut netlink = Netlink::generic()?;
        let family = netlink.family("ethtool")?;
        Some(Self { netlink, family })
    }

    /// Asks `command` of an interface and hands the attributes of the answer to `each`.
    pub(crate) fn get(
        &mut self,
        command: u8,
        interface: u32,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Refusal> {
        let family = self.family;
        self.netlink.ask(family, NLM_F_ACK, &question(command, interface, 0), |kind, body| {
            if kind == family {
                each(body.get(GENL_HEADER_BYTES..).unwrap_or_default());
            }
        })
    }

    /// Orders `command` with these attributes.
    pub(crate) fn set(
        &mut self,
        command: u8,
        interface: u32,
        attributes: &[u8],
    ) -> Result<(), Refusal> {
        let mut body = question(command, interface, ETHTOOL_FLAG_OMIT_REPLY);
        body.extend(attributes);
        self.netlink.order(self.family, 0, &body)
    }
}

fn question(command: u8, interface: u32, flags: u32) -> Vec<u8> {
    let mut header = Vec::new();
    put_attribute(&mut header, ETHTOOL_A_HEADER_DEV_INDEX, &interface.to_ne_bytes());
    if flags != 0 {
        put_attribute(&mut header, ETHTOOL_A_HEADER_FLAGS, &flags.to_ne_bytes());
    }
    let mut body = vec![command, 1, 0, 0];
    // Every command of the family has its header first.
    put_attribute(&mut body, ETHTOOL_A_FEATURES_HEADER | NLA_F_NESTED, &header);
    body
}

/// Every feature bit of the interface by the kernel's name for it, in the order of the bits
/// (`netdev_features_strings` of net/ethtool/common.c); empty where the kernel cannot be asked.
///
/// `ethtool -k` prints the same names except for a dozen older features: `rx-gro` is its
/// `generic-receive-offload`, `tx-generic-segmentation` its `generic-segmentation-offload`,
/// `rx-lro` its `large-receive-offload`, `rx-checksum` its `rx-checksumming`.
pub(crate) fn features(interface: u32) -> Vec<Offload> {
    let all = Ethtool::open().and_then(|mut ethtool| states(&mut ethtool, interface).ok());
    all.unwrap_or_default()
        .into_iter()
        .map(|feature| Offload { name: feature.name, on: feature.active })
        .collect()
}

/// A feature of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Feature {
    /// The kernel's name.
    pub(crate) name: String,
    /// It is on.
    pub(crate) active: bool,
    /// It would be on if what it needs were.
    pub(crate) wanted: bool,
    /// It can be switched.
    pub(crate) changeable: bool,
}

/// Every feature with all that is known of it.
pub(crate) fn states(ethtool: &mut Ethtool, interface: u32) -> Result<Vec<Feature>, Refusal> {
    let mut found = Vec::new();
    ethtool.get(ETHTOOL_MSG_FEATURES_GET, interface, |body| found = switches(body))?;
    Ok(found)
}

/// `full` or `half`; nothing where the driver does not know.
pub(crate) fn duplex(ethtool: &mut Ethtool, interface: u32) -> Result<Option<String>, Refusal> {
    let mut found = None;
    ethtool.get(ETHTOOL_MSG_LINKMODES_GET, interface, |body| {
        found = match attribute(body, ETHTOOL_A_LINKMODES_DUPLEX).and_then(<[u8]>::first) {
            Some(0) => Some("half".to_owned()),
            Some(1) => Some("full".to_owned()),
            _ => None,
        };
    })?;
    Ok(found)
}

/// Wants features on or off, all at once: some need others.
pub(crate) fn want(
    ethtool: &mut Ethtool,
    interface: u32,
    wishes: &[(&str, bool)],
) -> Result<(), Refusal> {
    let mut bits = Vec::new();
    for (name, on) in wishes {
        let mut bit = Vec::new();
        let name = [name.as_bytes(), &[0]].concat();
        put_attribute(&mut bit, ETHTOOL_A_BITSET_BIT_NAME, &name);
        if *on {
            put_attribute(&mut bit, ETHTOOL_A_BITSET_BIT_VALUE, &[]);
        }
        put_attribute(&mut bits, ETHTOOL_A_BITSET_BITS_BIT | NLA_F_NESTED, &bit);
    }
    let mut set = Vec::new();
    put_attribute(&mut set, ETHTOOL_A_BITSET_BITS | NLA_F_NESTED, &bits);
    let mut body = Vec::new();
    put_attribute(&mut body, ETHTOOL_A_FEATURES_WANTED | NLA_F_NESTED, &set);
    ethtool.set(ETHTOOL_MSG_FEATURES_SET, interface, &body)
}

/// The bit set "hardware" comes with a mask and so names every bit, with a value for those that can
/// be switched; "wanted" and "active" name those that are on, "nochange" those that never change
/// (`features_fill_reply` of net/ethtool/features.c).
pub(super) fn switches(body: &[u8]) -> Vec<Feature> {
    let set = |wanted| {
        attribute(body, wanted)
            .and_then(|set| attribute(set, ETHTOOL_A_BITSET_BITS))
            .unwrap_or_default()
    };
    let index = |bit| u32_at(attribute(bit, ETHTOOL_A_BITSET_BIT_INDEX)?, 0);
    let named =
        |kind| -> Vec<u32> { attributes(set(kind)).filter_map(|(_, bit)| index(bit)).collect() };
    let (active, wanted, fixed) = (
        named(ETHTOOL_A_FEATURES_ACTIVE),
        named(ETHTOOL_A_FEATURES_WANTED),
        named(ETHTOOL_A_FEATURES_NOCHANGE),
    );
    attributes(set(ETHTOOL_A_FEATURES_HW))
        .filter_map(|(_, bit)| {
            let index = index(bit)?;
            let name = attribute(bit, ETHTOOL_A_BITSET_BIT_NAME)?;
            let name = name.split(|byte| *byte == 0).next()?;
            let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
            let switched = attribute(bit, ETHTOOL_A_BITSET_BIT_VALUE).is_some();
            Some(Feature {
                name: name.to_owned(),
                active: active.contains(&index),
                wanted: wanted.contains(&index),
                changeable: switched && !fixed.contains(&index),
            })
        })
        .collect()
}

const ETHTOOL_MSG_LINKMODES_GET: u8 = 4;
const ETHTOOL_A_LINKMODES_DUPLEX: u16 = 6;
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_FLAG_OMIT_REPLY: u32 = 2;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_HW: u16 = 2;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_FEATURES_NOCHANGE: u16 = 5;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BIT_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn bit_set(bits: &[(u32, &str)]) -> Vec<u8> {
        let mut list = Vec::new();
        for (index, name) in bits {
            let mut bit = Vec::new();
            put_attribute(&mut bit, ETHTOOL_A_BITSET_BIT_INDEX, &index.to_ne_bytes());
            put_attribute(&mut bit, ETHTOOL_A_BITSET_BIT_NAME, format!("{name}\0").as_bytes());
            put_attribute(&mut list, 1 | NLA_F_NESTED, &bit);
        }
        let mut set = Vec::new();
        put_attribute(&mut set, 2, &64_u32.to_ne_bytes());
        put_attribute(&mut set, ETHTOOL_A_BITSET_BITS | NLA_F_NESTED, &list);
        set
    }

    #[test]
    fn known_answer() {
        let mut body = Vec::new();
        let all = bit_set(&[(0, "tx-scatter-gather"), (14, "rx-gro"), (30, "tx-udp-segmentation")]);
        put_attribute(&mut body, ETHTOOL_A_FEATURES_HW | NLA_F_NESTED, &all);
        let active = bit_set(&[(14, "rx-gro")]);
        put_attribute(&mut body, ETHTOOL_A_FEATURES_ACTIVE | NLA_F_NESTED, &active);
        let found: Vec<_> = switches(&body).into_iter().map(|it| (it.name, it.active)).collect();
        let expected =
            [("tx-scatter-gather", false), ("rx-gro", true), ("tx-udp-segmentation", false)];
        assert_eq!(found, expected.map(|(name, on)| (name.to_owned(), on)));
    }
}
