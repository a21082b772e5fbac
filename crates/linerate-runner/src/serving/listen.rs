//! Data ports of one test alone, for dialects that name a port for each stream.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use linerate_engine::sys;
use linerate_model::plan::Transport;
use tokio::net::{TcpListener, UdpSocket};

use crate::address::with_port;
use crate::data::StreamSocket;

/// A port that waits for one stream.
pub(crate) enum DataPort {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

impl DataPort {
    /// A free port of this end's address.
    pub(crate) fn open(local: SocketAddr, transport: Transport) -> std::io::Result<Self> {
        let local = with_port(local, 0);
        match transport {
            Transport::Udp => {
                let socket = sys::udp_socket(local)?;
                socket.set_nonblocking(true)?;
                UdpSocket::from_std(socket.into()).map(Self::Udp)
            }
            Transport::Tcp => {
                let socket = sys::tcp_listener(local, false)?;
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
        };
        NonZeroU16::new(address?.port()).ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
    }

    /// The stream, once `peer` opens it; strangers are not heard. Over UDP the first datagram, which opens
    /// it, stays for the receiver.
    pub(crate) async fn stream(self, peer: IpAddr) -> std::io::Result<StreamSocket> {
        let is_peer = |address: SocketAddr| sys::plain(address).ip() == peer;
        match self {
            Self::Udp(socket) => loop {
                let from = socket.peek_sender().await?;
                if is_peer(from) {
                    socket.connect(from).await?;
                    let socket = socket.into_std()?;
                    socket.set_nonblocking(false)?;
                    return Ok(StreamSocket::Udp(socket.into(), None));
                }
                socket.recv_from(&mut [0]).await?;
            },
            Self::Tcp(listener) => loop {
                let (stream, from) = listener.accept().await?;
                if is_peer(from) {
                    let stream = stream.into_std()?;
                    stream.set_nonblocking(false)?;
                    return Ok(StreamSocket::Tcp(stream));
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpStream, UdpSocket as Socket};

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
    const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

    #[tokio::test]
    async fn of_datagrams_only_the_peers_open_the_stream() {
        let port = DataPort::open((PEER, 0).into(), Transport::Udp).unwrap();
        let to = (PEER, port.number().unwrap().get());
        let stranger = Socket::bind((STRANGER, 0)).unwrap();
        let peer = Socket::bind((PEER, 0)).unwrap();
        stranger.send_to(b"stranger", to).unwrap();
        peer.send_to(b"first", to).unwrap();
        let Ok(StreamSocket::Udp(socket, None)) = port.stream(PEER).await else { panic!() };
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
        let port = DataPort::open((PEER, 0).into(), Transport::Tcp).unwrap();
        let to: SocketAddr = (PEER, port.number().unwrap().get()).into();
        let stranger =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        stranger.bind(&SocketAddr::from((STRANGER, 0)).into()).unwrap();
        stranger.connect(&to.into()).unwrap();
        let mut peer = TcpStream::connect(to).unwrap();
        peer.write_all(b"x").unwrap();
        let Ok(StreamSocket::Tcp(mut stream)) = port.stream(PEER).await else { panic!() };
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        // The stranger's was closed.
        assert!(matches!((&stranger).read(&mut byte), Ok(0) | Err(_)));
    }
}
