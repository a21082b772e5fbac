//! The ports on which a server takes tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_engine::sys;
use linerate_model::plan::Dialect;
use linerate_model::record::{ErrorKind, ErrorRecord};
use tokio::net::{TcpListener, UdpSocket};

use crate::options::Options;

/// A server's ports, each with the dialect that comes there first or alone.
pub(crate) struct Doors {
    pub(crate) tcp: Vec<(Dialect, SocketAddr, TcpListener)>,
    /// Where streams come that were announced, and those of dialects that announce none; with the port.
    pub(crate) udp: Vec<(Dialect, u16, UdpSocket)>,
}

impl Doors {
    /// # Errors
    /// When a port cannot be had.
    pub(crate) fn open(options: &Options) -> Result<Self, ErrorRecord> {
        let mut doors = Self { tcp: Vec::new(), udp: Vec::new() };
        let native = options.native.then_some((Dialect::Native, options.port));
        for (dialect, port) in native.into_iter().chain(options.doors.iter().copied()) {
            let listener = if matches!(dialect, Dialect::Native | Dialect::Iperf2) {
                let (listener, udp) = both(options, port)?;
                let bound = udp.local_addr().map_err(|e| cannot_listen(options, port, &e))?;
                doors.udp.push((dialect, bound.port(), udp));
                listener
            } else {
                bound(options, port, tcp_listener)?
            };
            let at = listener.local_addr().map_err(|e| cannot_listen(options, port, &e))?;
            doors.tcp.push((dialect, sys::plain(at), listener));
        }
        Ok(doors)
    }
}

fn cannot_listen(options: &Options, port: u16, error: &std::io::Error) -> ErrorRecord {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!(
                "another server runs there (`ss -tulpn 'sport = :{port}'` names it); choose another port with --port"
            )
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need root; choose another with --port".into()
        }
        std::io::ErrorKind::AddrNotAvailable => {
            "the address of --bind must be one of this host (`ip addr`)".into()
        }
        _ => "choose another with --bind and --port".into(),
    };
    ErrorRecord::new(
        ErrorKind::Listen,
        match options.bind {
            Some(address) => format!("cannot listen on {address} port {port}, TCP and UDP"),
            None => format!("cannot listen on port {port}, TCP and UDP"),
        },
        error.to_string(),
        &[],
    )
    .hint(hint)
}

/// What listens on the address that the owner wants: without one a dual-stack socket, or IPv4 on a host that
/// has no IPv6.
fn bound<T>(
    options: &Options,
    port: u16,
    listen: impl Fn(SocketAddr, bool) -> std::io::Result<T>,
) -> Result<T, ErrorRecord> {
    let attempt = |address: IpAddr| {
        let dual = address.is_unspecified() && !options.only_v6;
        listen(SocketAddr::new(address, port), dual)
    };
    let result = match options.bind {
        Some(address) => attempt(address),
        None if options.only_v6 => attempt(Ipv6Addr::UNSPECIFIED.into()),
        None => attempt(Ipv6Addr::UNSPECIFIED.into()).or_else(|e| match e.kind() {
            std::io::ErrorKind::AddrInUse | std::io::ErrorKind::PermissionDenied => Err(e),
            _ => attempt(Ipv4Addr::UNSPECIFIED.into()),
        }),
    };
    result.map_err(|e| cannot_listen(options, port, &e))
}

fn tcp_listener(address: SocketAddr, dual: bool) -> std::io::Result<TcpListener> {
    let tcp = sys::tcp_listener(address, dual)?;
    tcp.set_nonblocking(true)?;
    TcpListener::from_std(tcp.into())
}

/// Free TCP ports that are tried until one has a free UDP port of its number.
const FREE_PORTS: usize = 32;

/// A TCP port, and the UDP port of the same number.
fn both(options: &Options, port: u16) -> Result<(TcpListener, UdpSocket), ErrorRecord> {
    bound(options, port, |address, dual| {
        let mut left = if address.port() == 0 { FREE_PORTS } else { 1 };
        loop {
            let tcp = tcp_listener(address, dual)?;
            let port = tcp.local_addr()?.port();
            left -= 1;
            match sys::udp_listener(SocketAddr::new(address.ip(), port), dual) {
                // The kernel chose it for TCP alone.
                Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && left > 0 => {}
                udp => {
                    let udp = udp?;
                    udp.set_nonblocking(true)?;
                    return Ok((tcp, UdpSocket::from_std(udp.into())?));
                }
            }
        }
    })
}
