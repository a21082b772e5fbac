//! Which interface the routing table gives for an address. No packet is sent.

use std::net::IpAddr;

use nix::libc;

use super::{NLM_F_ACK, Netlink, Refusal, attribute, put_attribute, u32_at};
use crate::towards::Towards;

/// The way that packets to an address take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// Index of the interface that they leave by.
    pub(crate) interface: u32,
    /// The next router.
    pub(crate) gateway: Option<IpAddr>,
    /// They stay within the host.
    pub(crate) local: bool,
    /// Set on the route, or learned of a router on the path.
    pub(crate) mtu_bytes: Option<u32>,
}

/// As [`interface_towards`], with the rest of the way. Nothing where the kernel's answer has no interface.
pub(crate) fn way_towards(netlink: &mut Netlink, to: Towards) -> Result<Option<Way>, Refusal> {
    let mut found = None;
    if to.is_of_unknown_link() {
        return Ok(None);
    }
    netlink.ask(RTM_GETROUTE, NLM_F_ACK, &question(to), |kind, body| {
        if kind == RTM_NEWROUTE {
            found = way(body);
        }
    })?;
    Ok(found)
}

/// The index of the interface that packets leave by, as `ip route get` says: `lo` for the host's own
/// addresses. `None` without a route.
///
/// With several equal routes it is one of them, and not surely that of a given flow. An IPv6
/// link-local address is one of each link: asked for alone, the kernel would answer with the first
/// link's, so that there is no answer without the link.
pub(crate) fn interface_towards(netlink: &mut Netlink, to: Towards) -> Option<u32> {
    way_towards(netlink, to).ok()?.map(|way| way.interface)
}

fn question(to: Towards) -> Vec<u8> {
    let (family, bytes) = match to.address() {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let mut body = vec![0; RTMSG_BYTES];
    let prefix_bits = u8::try_from(bytes.len().saturating_mul(8)).unwrap_or_default();
    for (byte, value) in
        body.iter_mut().zip([u8::try_from(family).unwrap_or_default(), prefix_bits])
    {
        *byte = value;
    }
    put_attribute(&mut body, RTA_DST, &bytes);
    if let Some(link) = to.link() {
        put_attribute(&mut body, RTA_OIF, &link.to_ne_bytes());
    }
    body
}

pub(super) fn way(body: &[u8]) -> Option<Way> {
    let attributes = body.get(RTMSG_BYTES..)?;
    let metrics = attribute(attributes, RTA_METRICS).unwrap_or_default();
    // A router of the other version of IP (RTA_VIA) stands behind its family, 2 bytes.
    let gateway = attribute(attributes, RTA_GATEWAY)
        .or_else(|| attribute(attributes, RTA_VIA).and_then(|via| via.get(2..)));
    Some(Way {
        interface: u32_at(attribute(attributes, RTA_OIF)?, 0)?,
        gateway: gateway.and_then(address_of),
        local: body.get(RTMSG_TYPE) == Some(&RTN_LOCAL),
        mtu_bytes: attribute(metrics, RTAX_MTU).and_then(|mtu| u32_at(mtu, 0)),
    })
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// `struct rtmsg`: family, dst_len, src_len, tos, table, protocol, scope, type, flags (u32).
const RTMSG_BYTES: usize = 12;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;
const RTMSG_TYPE: usize = 7;
const RTN_LOCAL: u8 = 2;

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, SocketAddrV6};

    use super::*;

    fn of(address: &str) -> Towards {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn known_answer() {
        let mut body = question(of("192.0.2.9"));
        assert_eq!(&body[..4], [2, 32, 0, 0]);
        put_attribute(&mut body, RTA_OIF, &6_u32.to_ne_bytes());
        let plain = Way { interface: 6, gateway: None, local: false, mtu_bytes: None };
        assert_eq!(way(&body), Some(plain.clone()));
        put_attribute(&mut body, RTA_GATEWAY, &[192, 0, 2, 1]);
        let mut metrics = Vec::new();
        put_attribute(&mut metrics, RTAX_MTU, &1_400_u32.to_ne_bytes());
        put_attribute(&mut body, RTA_METRICS, &metrics);
        let gateway = Some("192.0.2.1".parse().unwrap());
        assert_eq!(way(&body), Some(Way { gateway, mtu_bytes: Some(1_400), ..plain }));
        assert_eq!(way(&body[..14]), None);
    }

    #[test]
    fn a_mapped_address_is_asked_for_as_ipv4() {
        assert_eq!(question(of("::ffff:192.0.2.9")), question(of("192.0.2.9")));
    }

    #[test]
    fn a_link_local_address_is_asked_for_on_its_link() {
        let on = |address: &str, scope| {
            let address = SocketAddrV6::new(address.parse().unwrap(), 5201, 0, scope);
            Towards::from(SocketAddr::from(address))
        };
        let link = |body: &[u8]| u32_at(attribute(&body[RTMSG_BYTES..], RTA_OIF)?, 0);
        assert_eq!(link(&question(on("fe80::1", 7))), Some(7));
        assert_eq!(link(&question(on("2001:db8::1", 7))), None, "the kernel does not look at it");
        assert!(on("fe80::1", 0).is_of_unknown_link() && of("fe80::1").is_of_unknown_link());
        assert!(!on("fe80::1", 7).is_of_unknown_link() && !of("2001:db8::1").is_of_unknown_link());
        let mut netlink = Netlink::route().expect("netlink");
        assert_eq!(way_towards(&mut netlink, of("fe80::1")), Ok(None));
    }
}
