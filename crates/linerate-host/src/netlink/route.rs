//! Which interface the routing table gives for an address. No packet is sent.

use std::net::IpAddr;

use nix::libc;

use super::{NLM_F_ACK, Netlink, attribute, put_attribute, u32_at};

/// The index of the interface that packets to `address` leave by, as `ip route get` says: `lo` for
/// the host's own addresses. `None` without a route.
///
/// With several equal routes it is one of them, and not surely that of a given flow. An IPv6
/// link-local address does not say on which link it is, so the answer for one is the first link's.
pub(crate) fn interface_towards(netlink: &mut Netlink, address: IpAddr) -> Option<u32> {
    let mut index = None;
    netlink
        .ask(RTM_GETROUTE, NLM_F_ACK, &question(address), |kind, body| {
            if kind == RTM_NEWROUTE {
                index = out_interface(body);
            }
        })
        .ok()?;
    index
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

pub(super) fn out_interface(body: &[u8]) -> Option<u32> {
    u32_at(attribute(body.get(RTMSG_BYTES..)?, RTA_OIF)?, 0)
}

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// `struct rtmsg`: family, dst_len, src_len, tos, table, protocol, scope, type, flags (u32).
const RTMSG_BYTES: usize = 12;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        let mut body = question("192.0.2.9".parse().unwrap());
        assert_eq!(&body[..4], [2, 32, 0, 0]);
        put_attribute(&mut body, RTA_OIF, &6_u32.to_ne_bytes());
        assert_eq!(out_interface(&body), Some(6));
        assert_eq!(out_interface(&body[..14]), None);
    }

    #[test]
    fn a_mapped_address_is_asked_for_as_ipv4() {
        let mapped = question("::ffff:192.0.2.9".parse().unwrap());
        assert_eq!(mapped, question("192.0.2.9".parse().unwrap()));
    }
}
