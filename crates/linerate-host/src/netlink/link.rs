//! An interface's own numbers: MTU, length of its transmit queue, link-layer address.

use super::{NLM_F_ACK, Netlink, Refusal, attribute, put_attribute, put_words, text, u32_at};

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

/// An interface with what the doctor asks for beside its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) link: Link,
    /// Kind of a virtual one, such as `veth`.
    pub(crate) kind: Option<String>,
    pub(crate) carrier: bool,
    /// Absent where the driver sets no bound.
    pub(crate) largest_mtu_bytes: Option<u32>,
}

/// The interface of this name with all that is known of it.
pub(crate) fn port(netlink: &mut Netlink, name: &str) -> Result<Port, Refusal> {
    let mut body = message(0);
    put_attribute(&mut body, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
    let mut found = None;
    netlink.ask(RTM_GETLINK, NLM_F_ACK, &body, |kind, body| {
        if kind == RTM_NEWLINK {
            found = found.take().or_else(|| read_port(body));
        }
    })?;
    found
        .filter(|port: &Port| port.link.name == name)
        .ok_or_else(|| nix::errno::Errno::ENODEV.into())
}

pub(super) fn read_port(body: &[u8]) -> Option<Port> {
    let attributes = body.get(IFINFOMSG_BYTES..)?;
    let kind =
        attribute(attributes, IFLA_LINKINFO).and_then(|info| attribute(info, IFLA_INFO_KIND));
    let largest = attribute(attributes, IFLA_MAX_MTU).and_then(|mtu| u32_at(mtu, 0));
    Some(Port {
        link: read(body)?,
        kind: kind.map(text),
        carrier: u32_at(body, 8)? & IFF_LOWER_UP != 0,
        largest_mtu_bytes: largest.filter(|mtu| *mtu > 0),
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
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
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
        let refusal = by_name(&mut netlink, "lr-nothing").unwrap_err();
        assert_eq!(refusal.errno, nix::errno::Errno::ENODEV);
    }
}
