//! An interface's own numbers: MTU, length of its transmit queue, link-layer address.

use std::collections::BTreeSet;

use super::{
    NLM_F_ACK, NLM_F_DUMP, Netlink, Refusal, attribute, put_attribute, put_words, text, u32_at,
};

/// An interface as rtnetlink reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Hexadecimal digits; empty where it has none.
    pub(crate) address: String,
    pub(crate) mtu: u32,
    pub(crate) queue_length: u32,
}

/// The interface of this name, in the network namespace of the socket.
pub(crate) fn by_name(netlink: &mut Netlink, name: &str) -> Result<Link, Refusal> {
    port(netlink, name).map(|port| port.link)
}

/// The interface of this index, whatever it is called.
pub(crate) fn by_index(netlink: &mut Netlink, index: u32) -> Result<Link, Refusal> {
    find(netlink, &message(index), |link| link.index == index).map(|port| port.link)
}

/// An interface with what is asked for beside its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) link: Link,
    /// Kind of a virtual one, such as `veth`.
    pub(crate) kind: Option<String>,
    pub(crate) carrier: bool,
    /// Absent where the driver sets no bound.
    pub(crate) largest_mtu_bytes: Option<u32>,
    /// Index of the one that it stands on, as a VLAN does, where that is in the same network namespace.
    pub(crate) lower: Option<u32>,
    /// Index of the bridge, the bond or the like that it is a port of.
    pub(crate) master: Option<u32>,
}

/// The interface of this name with all that is known of it.
pub(crate) fn port(netlink: &mut Netlink, name: &str) -> Result<Port, Refusal> {
    let mut body = message(0);
    put_attribute(&mut body, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
    find(netlink, &body, |link| link.name == name)
}

fn find(
    netlink: &mut Netlink,
    question: &[u8],
    wanted: impl Fn(&Link) -> bool,
) -> Result<Port, Refusal> {
    let mut found = None;
    netlink.ask(RTM_GETLINK, NLM_F_ACK, question, |kind, body| {
        if kind == RTM_NEWLINK {
            found = found.take().or_else(|| read_port(body));
        }
    })?;
    found.filter(|port: &Port| wanted(&port.link)).ok_or_else(|| nix::errno::Errno::ENODEV.into())
}

/// All interfaces of the network namespace.
pub(crate) fn all(netlink: &mut Netlink) -> Result<Vec<Port>, Refusal> {
    let mut found = Vec::new();
    netlink.ask(RTM_GETLINK, NLM_F_DUMP, &message(0), |kind, body| {
        if kind == RTM_NEWLINK {
            found.extend(read_port(body));
        }
    })?;
    Ok(found)
}

/// Those of `all` whose MTU may change with that of the interface `index`: what stands on it, as VLANs do, or on a bridge
/// that it is a port of, that bridge, and the ports of a bond that it is.
pub(crate) fn moved(all: Vec<Port>, index: u32) -> Vec<Port> {
    let is_bond = |port: &Port| matches!(port.kind.as_deref(), Some("bond" | "team"));
    let mut reached = BTreeSet::from([index]);
    if all.iter().any(|port| port.link.index == index && is_bond(port)) {
        let ports = all.iter().filter(|port| port.master == Some(index));
        reached.extend(ports.map(|port| port.link.index));
    }
    let mut before = 0;
    // Each round but the last finds another one.
    while reached.len() > before {
        before = reached.len();
        for port in &all {
            if port.lower.is_some_and(|lower| reached.contains(&lower)) {
                reached.insert(port.link.index);
            }
            if reached.contains(&port.link.index) {
                reached.extend(port.master);
            }
        }
    }
    reached.remove(&index);
    all.into_iter().filter(|port| reached.contains(&port.link.index)).collect()
}

/// Those of `all` that the interface `index` stands on or is made of.
pub(crate) fn below(all: &[Port], index: u32) -> impl Iterator<Item = &Port> {
    let lower = all.iter().find(|port| port.link.index == index).and_then(|port| port.lower);
    all.iter().filter(move |port| lower == Some(port.link.index) || port.master == Some(index))
}

pub(super) fn read_port(body: &[u8]) -> Option<Port> {
    let attributes = body.get(IFINFOMSG_BYTES..)?;
    let kind =
        attribute(attributes, IFLA_LINKINFO).and_then(|info| attribute(info, IFLA_INFO_KIND));
    let kind = kind.map(text);
    let number = |kind| attribute(attributes, kind).and_then(|number| u32_at(number, 0));
    // With the number of a network namespace it is another namespace's; that of a pair is its other end.
    let elsewhere = attribute(attributes, IFLA_LINK_NETNSID).is_some()
        || matches!(kind.as_deref(), Some("veth" | "netkit"));
    Some(Port {
        link: read(body)?,
        kind,
        carrier: u32_at(body, 8)? & IFF_LOWER_UP != 0,
        largest_mtu_bytes: number(IFLA_MAX_MTU).filter(|mtu| *mtu > 0),
        lower: number(IFLA_LINK).filter(|_| !elsewhere),
        master: number(IFLA_MASTER),
    })
}

/// The interface that a change is about, and whether it has a link: it is up, and has a carrier as the message is made.
/// (`IFF_RUNNING` follows up to a second later: net/core/link_watch.c.) `None` of other changes.
pub(crate) fn state(kind: u16, body: &[u8]) -> Option<(String, bool)> {
    // A bridge reports by its own family that a port has left it (net/bridge/br_netlink.c).
    if body.first() != Some(&AF_UNSPEC) {
        return None;
    }
    let name = text(attribute(body.get(IFINFOMSG_BYTES..)?, IFLA_IFNAME)?);
    let flags = u32_at(body, 8)?;
    match kind {
        RTM_NEWLINK => Some((name, flags & IFF_UP != 0 && flags & IFF_LOWER_UP != 0)),
        RTM_DELLINK => Some((name, false)),
        _ => None,
    }
}

fn read(body: &[u8]) -> Option<Link> {
    let attributes = body.get(IFINFOMSG_BYTES..)?;
    let number = |kind| u32_at(attribute(attributes, kind)?, 0);
    let address = attribute(attributes, IFLA_ADDRESS).unwrap_or_default();
    Some(Link {
        index: u32_at(body, 4)?,
        name: text(attribute(attributes, IFLA_IFNAME)?),
        address: address.iter().map(|byte| format!("{byte:02x}")).collect(),
        mtu: number(IFLA_MTU)?,
        queue_length: number(IFLA_TXQLEN)?,
    })
}

/// Which number of an interface is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Mtu,
    QueueLength,
}

/// Sets one number.
pub(crate) fn set(
    netlink: &mut Netlink,
    interface: u32,
    what: Number,
    value: u32,
) -> Result<(), Refusal> {
    let mut body = message(interface);
    let kind = match what {
        Number::Mtu => IFLA_MTU,
        Number::QueueLength => IFLA_TXQLEN,
    };
    put_attribute(&mut body, kind, &value.to_ne_bytes());
    netlink.order(RTM_SETLINK, 0, &body)
}

/// `struct ifinfomsg`: family and padding, type, index, flags, change.
fn message(interface: u32) -> Vec<u8> {
    let mut body = Vec::new();
    put_words(&mut body, &[0, interface, 0, 0]);
    body
}

const IFINFOMSG_BYTES: usize = 16;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_MAX_MTU: u16 = 51;
const AF_UNSPEC: u8 = 0;
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        let mut body = message(7);
        put_attribute(&mut body, IFLA_IFNAME, b"eth0\0");
        put_attribute(&mut body, IFLA_ADDRESS, &[2, 0xaa]);
        put_attribute(&mut body, IFLA_MTU, &1500_u32.to_ne_bytes());
        put_attribute(&mut body, IFLA_TXQLEN, &1000_u32.to_ne_bytes());
        let expected = Link {
            index: 7,
            name: "eth0".into(),
            address: "02aa".into(),
            mtu: 1500,
            queue_length: 1000,
        };
        assert_eq!(read(&body), Some(expected));
    }

    /// An interface that stands on another, or is a port of one.
    fn port(index: u32, kind: &str, (lower, master): (u32, u32)) -> Port {
        let mut body = message(index);
        put_attribute(&mut body, IFLA_IFNAME, format!("i{index}\0").as_bytes());
        for (kind, number) in
            [(IFLA_MTU, 1_500), (IFLA_TXQLEN, 1), (IFLA_LINK, lower), (IFLA_MASTER, master)]
        {
            if number > 0 {
                put_attribute(&mut body, kind, &number.to_ne_bytes());
            }
        }
        let mut info = Vec::new();
        put_attribute(&mut info, IFLA_INFO_KIND, kind.as_bytes());
        put_attribute(&mut body, IFLA_LINKINFO, &info);
        read_port(&body).expect("an interface")
    }

    #[test]
    fn what_moves_with_an_mtu_is_above_on_a_bridge_above_or_in_a_bond() {
        let all = [
            port(9, "vlan", (8, 0)),
            port(2, "", (0, 4)),
            port(3, "", (0, 4)),
            port(4, "bond", (0, 5)),
            port(5, "bridge", (0, 0)),
            port(6, "veth", (7, 5)),
            port(7, "veth", (6, 0)),
            port(8, "vlan", (5, 0)),
            port(10, "macvlan", (2, 0)),
        ];
        for (index, wanted) in [
            (2, vec![9, 4, 5, 8, 10]),
            (4, vec![9, 2, 3, 5, 8, 10]),
            // The ports of a bridge have their own, and a pair has two.
            (5, vec![9, 8]),
            (7, vec![]),
            (9, vec![]),
        ] {
            let moved: Vec<u32> =
                moved(all.to_vec(), index).iter().map(|port| port.link.index).collect();
            assert_eq!(moved, wanted, "{index}");
        }
        let below = |index| -> Vec<u32> { below(&all, index).map(|p| p.link.index).collect() };
        assert_eq!((below(4), below(10), below(7)), (vec![2, 3], vec![2], vec![]));
        let mut body = message(3);
        for kind in [IFLA_MTU, IFLA_TXQLEN, IFLA_LINK, IFLA_LINK_NETNSID] {
            put_attribute(&mut body, kind, &2_u32.to_ne_bytes());
        }
        put_attribute(&mut body, IFLA_IFNAME, b"eth0\0");
        assert_eq!(read_port(&body).unwrap().lower, None, "it is of another namespace");
    }

    #[test]
    fn a_link_is_there_where_it_is_up_and_in_operation() {
        for (kind, flags, wanted) in [
            (RTM_NEWLINK, IFF_UP | IFF_LOWER_UP, Some(true)),
            (RTM_NEWLINK, IFF_UP, Some(false)),
            (RTM_NEWLINK, 0, Some(false)),
            (RTM_DELLINK, IFF_UP | IFF_LOWER_UP, Some(false)),
            (RTM_GETLINK, IFF_UP | IFF_LOWER_UP, None),
        ] {
            let mut body = Vec::new();
            put_words(&mut body, &[0, 7, flags, 0]);
            put_attribute(&mut body, IFLA_IFNAME, b"eth0\0");
            assert_eq!(state(kind, &body), wanted.map(|up| ("eth0".to_owned(), up)));
            assert_eq!(state(kind, &body[..18]), None, "it is cut short");
            body[0] = 7;
            assert_eq!(state(kind, &body), None, "of a bridge's family");
        }
    }

    #[test]
    fn loopback_is_found_by_its_name() {
        let mut netlink = Netlink::route().expect("netlink");
        let lo = by_name(&mut netlink, "lo").expect("lo");
        assert_eq!((lo.index, lo.mtu), (1, 65_536));
        assert_eq!(by_index(&mut netlink, 1), Ok(lo.clone()));
        assert!(all(&mut netlink).expect("all").iter().any(|port| port.link == lo));
        let refusal = by_index(&mut netlink, u32::MAX >> 1).unwrap_err();
        assert_eq!(refusal.errno, nix::errno::Errno::ENODEV);
        let refusal = by_name(&mut netlink, "lr-nothing").unwrap_err();
        assert_eq!(refusal.errno, nix::errno::Errno::ENODEV);
    }
}
