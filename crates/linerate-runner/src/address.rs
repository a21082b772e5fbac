//! Addresses.

use std::net::SocketAddr;

/// The same address, its IPv6 scope included, with another port.
pub(crate) fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}
