//! Data ports of one test alone, for dialects that name a port for each stream.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::Granted;
use linerate_engine::sys;
use linerate_model::plan::Transport;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};

use crate::address::with_port;
use crate::data::{Doorway, StreamSocket};
use crate::loan::{Lent, Loan, Loans};

/// What a dialect asks of a data port of its own.
#[derive(Debug, Default)]
pub(crate) struct PortOptions {
    /// Its number, if it is free.
    pub(crate) port: Option<NonZeroU16>,
    /// The peer's own, where the stream is open without a datagram of its.
    pub(crate) peer_port: Option<NonZeroU16>,
    /// No other number will do.
    pub(crate) exact: bool,
    /// Where the port is a door of this server, who waits there.
    pub(crate) loans: Option<Arc<Loans>>,
    /// What the handshake settles already.
    pub(crate) options: sys::TcpOptions,
    /// A connection comes for each transaction, and whether it carries anything.
    pub(crate) connections: Option<bool>,
}

/// A peer that has been told that it is connected to has this long to be ready: nuttcp's clients as its servers
/// count on it.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Where it refuses, it is asked again after so long.
const CONNECT_AGAIN: Duration = Duration::from_millis(10);
/// It must take the connection within this.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A stream to the wished port at the peer, from any of this end's.
pub(crate) async fn connect(
    (local, peer): (SocketAddr, SocketAddr),
    transport: Transport,
    wish: &PortOptions,
) -> std::io::Result<StreamSocket> {
    let peer = with_port(peer, wish.port.map_or(0, NonZeroU16::get));
    let local = with_port(local, 0);
    if transport == Transport::Udp {
        let socket = sys::udp_socket(local)?;
        let _ = sys::set_tcp(&socket, local.is_ipv6(), &wish.options);
        socket.connect(&peer.into())?;
        return Ok(StreamSocket::Udp(socket, None));
    }
    tokio::time::sleep(CONNECT_PAUSE).await;
    let connected = async {
        loop {
            match once(local, peer, wish).await {
                // A client waits on one port after the other.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
                    tokio::time::sleep(CONNECT_AGAIN).await;
                }
                connected => return connected,
            }
        }
    };
    let connected = tokio::time::timeout(CONNECT_LIMIT, connected).await;
    let connected = connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    connected.map_err(|e| std::io::Error::new(e.kind(), format!("to {peer}: {e}")))
}

async fn once(
    local: SocketAddr,
    peer: SocketAddr,
    wish: &PortOptions,
) -> std::io::Result<StreamSocket> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
    // A wish: what the kernel refuses does not end the test.
    let _ = sys::set_tcp(&socket, local.is_ipv6(), &wish.options);
    socket.bind(&local.into())?;
    socket.set_nonblocking(true)?;
    let stream = TcpSocket::from_std_stream(socket.into()).connect(peer).await?.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(StreamSocket::Tcp(stream))
}

/// A port that waits for one stream.
pub(crate) enum DataPort {
    Udp(UdpSocket),
    Tcp(TcpListener),
    /// A door of this server.
    Lent(Loan),
}

impl DataPort {
    /// A port of this end's address: the wanted one, or else a free one.
    pub(crate) fn open(
        (local, peer): (SocketAddr, IpAddr),
        transport: Transport,
        wish: &PortOptions,
    ) -> std::io::Result<Self> {
        let at = |port: u16| Self::at(with_port(local, port), transport, wish);
        match wish.port.map(|port| (port, at(port.get()))) {
            Some((_, Ok(open))) => Ok(open),
            Some((port, Err(e))) if wish.exact => {
                let loan = wish.loans.as_ref().and_then(|loans| loans.wait(peer, port, transport));
                if let Some(loan) = loan {
                    return Ok(Self::Lent(loan));
                }
                Err(std::io::Error::new(e.kind(), format!("port {port}: {e}")))
            }
            _ => at(0),
        }
    }

    fn at(
        local: SocketAddr,
        transport: Transport,
        PortOptions { options, .. }: &PortOptions,
    ) -> std::io::Result<Self> {
        match transport {
            Transport::Udp => {
                // Of two that wait on one port, or at a door of this server, each would have datagrams of the other's.
                let socket = sys::udp_listener(local, false)?;
                // A wish: what the kernel refuses does not end the test.
                let _ = sys::set_tcp(&socket, local.is_ipv6(), options);
                socket.set_nonblocking(true)?;
                UdpSocket::from_std(socket.into()).map(Self::Udp)
            }
            Transport::Tcp => {
                let socket = sys::tcp_listener(local, false)?;
                let _ = sys::set_tcp(&socket, local.is_ipv6(), options);
                socket.set_nonblocking(true)?;
                TcpListener::from_std(socket.into()).map(Self::Tcp)
            }
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> std::io::Result<NonZeroU16> {
        let address = match self {
            Self::Udp(socket) => socket.local_addr(),
            Self::Tcp(listener) => listener.local_addr(),
            Self::Lent(loan) => return Ok(loan.port()),
        };
        NonZeroU16::new(address?.port()).ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
    }

    /// What the kernel granted it.
    pub(crate) fn granted(&self) -> Granted {
        let clipped = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let (send, receive) = match self {
            Self::Udp(socket) => (sys::send_buffer(socket), sys::receive_buffer(socket)),
            Self::Tcp(listener) => (sys::send_buffer(listener), sys::receive_buffer(listener)),
            Self::Lent(_) => (0, 0),
        };
        Granted { send: clipped(send), receive: clipped(receive) }
    }

    /// The stream, once `peer` opens it; strangers are not heard. Over UDP the first datagram, which opens
    /// it, stays for the receiver; one that is open to `port` needs none. Of a door, what came meanwhile as well.
    pub(crate) async fn stream(self, peer: IpAddr, wish: &PortOptions) -> std::io::Result<Lent> {
        let is_peer = |address: SocketAddr| sys::plain(address).ip() == peer;
        let stream = match (self, wish.peer_port) {
            (Self::Lent(loan), _) => return loan.stream().await,
            (Self::Tcp(listener), _) if wish.connections.is_some() => {
                let (listener, carries) = (listener.into_std()?, wish.connections == Some(true));
                StreamSocket::Doorway(Doorway { listener, from: peer, carries })
            }
            (Self::Udp(socket), Some(port)) => {
                socket.connect((peer, port.get())).await?;
                let socket = socket.into_std()?;
                socket.set_nonblocking(false)?;
                StreamSocket::Udp(socket.into(), None)
            }
            (Self::Udp(socket), None) => loop {
                let from = socket.peek_sender().await?;
                if is_peer(from) {
                    socket.connect(from).await?;
                    let socket = socket.into_std()?;
                    socket.set_nonblocking(false)?;
                    break StreamSocket::Udp(socket.into(), None);
                }
                socket.recv_from(&mut [0]).await?;
            },
            (Self::Tcp(listener), _) => loop {
                let (stream, from) = listener.accept().await?;
                if is_peer(from) {
                    let stream = stream.into_std()?;
                    stream.set_nonblocking(false)?;
                    break StreamSocket::Tcp(stream);
                }
            },
        };
        Ok((stream, Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpStream, UdpSocket as StdSocket};

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
    const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

    #[tokio::test]
    async fn of_datagrams_only_the_peers_open_the_stream() {
        let port =
            DataPort::open(((PEER, 0).into(), PEER), Transport::Udp, &PortOptions::default())
                .unwrap();
        let to = (PEER, port.number().unwrap().get());
        let stranger = StdSocket::bind((STRANGER, 0)).unwrap();
        let peer = StdSocket::bind((PEER, 0)).unwrap();
        stranger.send_to(b"stranger", to).unwrap();
        peer.send_to(b"first", to).unwrap();
        let Ok((StreamSocket::Udp(socket, None), _)) =
            port.stream(PEER, &PortOptions::default()).await
        else {
            panic!()
        };
        stranger.send_to(b"again", to).unwrap();
        peer.send_to(b"second", to).unwrap();
        let mut heard = [[0; 8]; 2].map(|mut bytes| {
            let length = (&socket).read(&mut bytes).unwrap();
            bytes[..length].to_vec()
        });
        heard.sort();
        assert_eq!(heard, [b"first".to_vec(), b"second".to_vec()]);
    }

    #[tokio::test]
    async fn of_connections_only_the_peers_is_the_stream() {
        let port =
            DataPort::open(((PEER, 0).into(), PEER), Transport::Tcp, &PortOptions::default())
                .unwrap();
        let to: SocketAddr = (PEER, port.number().unwrap().get()).into();
        let stranger =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        stranger.bind(&SocketAddr::from((STRANGER, 0)).into()).unwrap();
        stranger.connect(&to.into()).unwrap();
        let mut peer = TcpStream::connect(to).unwrap();
        peer.write_all(b"x").unwrap();
        let Ok((StreamSocket::Tcp(mut stream), _)) =
            port.stream(PEER, &PortOptions::default()).await
        else {
            panic!()
        };
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        // The stranger's was closed.
        assert!(matches!((&stranger).read(&mut byte), Ok(0) | Err(_)));
    }

    #[tokio::test]
    async fn a_door_of_the_server_is_no_data_port() {
        let free = StdSocket::bind((PEER, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        // As doors share theirs with the sockets of streams.
        let _door = sys::udp_socket((PEER, port).into()).unwrap();
        let wish =
            |exact| PortOptions { port: NonZeroU16::new(port), exact, ..PortOptions::default() };
        let open = |exact| DataPort::open(((PEER, 0).into(), PEER), Transport::Udp, &wish(exact));
        assert_ne!(open(false).unwrap().number().unwrap().get(), port);
        let refused = open(true).err().expect("the port is taken");
        assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
    }
}
