//! Which interface the routing table gives for an address. No packet is sent.

use std::net::IpAddr;

use nix::libc;

use super::{NLM_F_ACK, Netlink, Refusal, attribute, put_attribute, u32_at};

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
pub(crate) fn way_towards(netlink: &mut Netlink, address: IpAddr) -> Result<Option<Way>, Refusal> {
    let mut found = None;
    netlink.ask(RTM_GETROUTE, NLM_F_ACK, &question(address), |kind, body| {
        if kind == RTM_NEWROUTE {
            found = way(body);
        }
    })?;
    Ok(found)
}

/// The index of the interface that packets to `address` leave by, as `ip route get` says: `lo` for
/// the host's own addresses. `None` without a route.
///
/// With several equal routes it is one of them, and not surely that of a given flow. An IPv6
/// link-local address does not say on which link it is, so the answer for one is the first link's.
pub(crate) fn interface_towards(netlink: &mut Netlink, address: IpAddr) -> Option<u32> {
    way_towards(netlink, address).ok()?.map(|way| way.interface)
}

fn question(address: IpAddr) -> Vec<u8> {
    // The kernel looks for an IPv4 address mapped into IPv6 among the IPv6 routes.
    let (family, bytes) = match address.to_canonical() {
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
    use super::*;

    #[test]
    fn known_answer() {
        let mut body = question("192.0.2.9".parse().unwrap());
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
        let mapped = question("::ffff:192.0.2.9".parse().unwrap());
        assert_eq!(mapped, question("192.0.2.9".parse().unwrap()));
    }
}
