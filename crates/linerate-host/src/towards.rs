//! Where packets go.

use std::net::{IpAddr, SocketAddr};

/// Where packets go: an address and, of a link-local one of IPv6, the interface that is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Towards {
    address: IpAddr,
    link: Option<u32>,
}

impl Towards {
    /// The address; one of IPv4 mapped into IPv6 is that of IPv4, since the kernel would look for it among the
    /// routes of IPv6.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// The index of the interface that is part of the address.
    pub(crate) fn link(self) -> Option<u32> {
        self.link
    }

    /// Every link has its own address of this kind, and which link is meant is not known.
    pub(crate) fn is_of_unknown_link(self) -> bool {
        is_link_local(self.address) && self.link.is_none()
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

impl From<IpAddr> for Towards {
    fn from(address: IpAddr) -> Self {
        Self { address: address.to_canonical(), link: None }
    }
}

impl From<SocketAddr> for Towards {
    fn from(to: SocketAddr) -> Self {
        let link = match to {
            // Of other addresses the kernel does not look at it.
            SocketAddr::V6(v6) if is_link_local(to.ip()) => Some(v6.scope_id()),
            _ => None,
        };
        Self { link: link.filter(|link| *link != 0), ..to.ip().into() }
    }
}
