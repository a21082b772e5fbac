//! Offloads of an interface, by ethtool's netlink family (Linux 5.6 and later).

use linerate_model::host::Offload;

use super::{
    NLA_F_NESTED, NLM_F_ACK, Netlink, attribute, attributes, put_attribute, u16_at, u32_at,
};

/// Every feature bit of the interface by the kernel's name for it, in the order of the bits
/// (`netdev_features_strings` of net/ethtool/common.c); empty where the kernel cannot be asked.
///
/// `ethtool -k` prints the same names except for a dozen older features: `rx-gro` is its
/// `generic-receive-offload`, `tx-generic-segmentation` its `generic-segmentation-offload`,
/// `rx-lro` its `large-receive-offload`, `rx-checksum` its `rx-checksumming`.
pub(crate) fn features(netlink: &mut Netlink, interface: u32) -> Vec<Offload> {
    let Some(family) = family(netlink) else { return Vec::new() };
    let mut header = Vec::new();
    put_attribute(&mut header, ETHTOOL_A_HEADER_DEV_INDEX, &interface.to_ne_bytes());
    let mut body = vec![ETHTOOL_MSG_FEATURES_GET, 1, 0, 0];
    put_attribute(&mut body, ETHTOOL_A_FEATURES_HEADER | NLA_F_NESTED, &header);
    let mut found = Vec::new();
    let done = netlink.ask(family, NLM_F_ACK, &body, |kind, body| {
        if kind == family {
            found = offloads(body);
        }
    });
    if done.is_some() { found } else { Vec::new() }
}

/// The number that the running kernel has given to the family.
fn family(netlink: &mut Netlink) -> Option<u16> {
    let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    put_attribute(&mut body, CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    let mut family = None;
    netlink.ask(GENL_ID_CTRL, NLM_F_ACK, &body, |_, body| {
        family = body
            .get(GENL_HEADER_OCTETS..)
            .and_then(|body| u16_at(attribute(body, CTRL_ATTR_FAMILY_ID)?, 0));
    })?;
    family
}

/// The bit set "hardware" comes with a mask and so names every bit; "active" names those that are
/// on (`features_fill_reply` of net/ethtool/features.c).
pub(super) fn offloads(body: &[u8]) -> Vec<Offload> {
    let body = body.get(GENL_HEADER_OCTETS..).unwrap_or_default();
    let set = |wanted| {
        attribute(body, wanted)
            .and_then(|set| attribute(set, ETHTOOL_A_BITSET_BITS))
            .unwrap_or_default()
    };
    let on: Vec<u32> = attributes(set(ETHTOOL_A_FEATURES_ACTIVE))
        .filter_map(|(_, bit)| u32_at(attribute(bit, ETHTOOL_A_BITSET_BIT_INDEX)?, 0))
        .collect();
    attributes(set(ETHTOOL_A_FEATURES_HW))
        .filter_map(|(_, bit)| {
            let index = u32_at(attribute(bit, ETHTOOL_A_BITSET_BIT_INDEX)?, 0)?;
            let name = attribute(bit, ETHTOOL_A_BITSET_BIT_NAME)?;
            let name = name.split(|octet| *octet == 0).next()?;
            let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
            Some(Offload { name: name.to_owned(), on: on.contains(&index) })
        })
        .collect()
}

const GENL_ID_CTRL: u16 = 16;
/// `struct genlmsghdr`: command, version, reserved (u16).
const GENL_HEADER_OCTETS: usize = 4;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_HW: u16 = 2;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BIT_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;

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
        let mut body = vec![11, 1, 0, 0];
        let all = bit_set(&[(0, "tx-scatter-gather"), (14, "rx-gro"), (30, "tx-udp-segmentation")]);
        put_attribute(&mut body, ETHTOOL_A_FEATURES_HW | NLA_F_NESTED, &all);
        let active = bit_set(&[(14, "rx-gro")]);
        put_attribute(&mut body, ETHTOOL_A_FEATURES_ACTIVE | NLA_F_NESTED, &active);
        let found: Vec<_> = offloads(&body).into_iter().map(|it| (it.name, it.on)).collect();
        let expected =
            [("tx-scatter-gather", false), ("rx-gro", true), ("tx-udp-segmentation", false)];
        assert_eq!(found, expected.map(|(name, on)| (name.to_owned(), on)));
    }
}
