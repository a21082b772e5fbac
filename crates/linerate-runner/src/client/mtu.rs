//! The path's MTU, and what of a test does not fit into it.

use std::net::SocketAddr;

use linerate_engine::sys;
use linerate_model::plan::{IpVersion, TestPlan, Traffic, Transport};
use linerate_model::record::{Doubt, DoubtKind, RunRecord};
use linerate_model::units::DatagramSize;

use crate::address::with_port;

/// Largest UDP payload: 65,535 bytes of an IPv4 packet less its headers.
const LARGEST: u32 = 65_507;
/// Taken where the kernel does not say the MTU: Ethernet's.
const USUAL_MTU: u32 = 1_500;

/// `--size mtu` is what the path, from the one address to the other, carries in one packet. Datagrams
/// that were asked to be larger travel in fragments: the record says so, and `true` is returned.
pub(crate) fn fit(
    plan: &mut TestPlan,
    record: &mut RunRecord,
    (local, peer): (SocketAddr, SocketAddr),
    from_mtu: bool,
) -> bool {
    if plan.traffic.transport() != Transport::Udp {
        return false;
    }
    let ip = if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    let mtu = probe(local, peer, ip == IpVersion::V6);
    let fits = |mtu: u32| mtu.saturating_sub(ip.udp_overhead());
    let largest = match &mut plan.traffic {
        Traffic::Udp(udp) if from_mtu => {
            let size = fits(mtu.unwrap_or(USUAL_MTU)).min(LARGEST);
            udp.size = DatagramSize::new(size).unwrap_or(udp.size);
            record.asked.datagram_bytes = Some(u32::from(udp.size.bytes()));
            // Datagrams per second are another bit rate now.
            record.asked.rate_bps = udp.rate.map(|rate| rate.bits_per_second(udp.size));
            return false;
        }
        Traffic::Udp(udp) => u32::from(udp.size.bytes()),
        Traffic::Rr(rr) => rr.request.max(rr.response),
        Traffic::Tcp(_) => return false,
    };
    let Some(mtu) = mtu.filter(|mtu| fits(*mtu) < largest) else { return false };
    record.doubts.push(Doubt::new(
        DoubtKind::Degraded,
        format!(
            "datagrams of {largest} bytes do not fit this path's packets of {mtu} bytes (MTU): each travels in fragments, and one lost fragment loses it; {} bytes fit",
            fits(mtu)
        ),
    ));
    true
}

/// Path MTU towards the peer, without sending anything.
fn probe(local: SocketAddr, peer: SocketAddr, v6: bool) -> Option<u32> {
    let socket = sys::udp_socket(with_port(local, 0)).ok()?;
    socket.connect(&peer.into()).ok()?;
    sys::path_mtu(&socket, v6)
}
