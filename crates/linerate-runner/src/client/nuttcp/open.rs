//! Opening the data streams as nuttcp does: whoever receives waits, and who sends connects.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU16;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linerate_engine::sys;
use linerate_model::plan::Transport;
use linerate_model::record::ErrorRecord;
use socket2::Socket;

use crate::address::with_port;
use crate::client::open::{Open, Opener};
use crate::data::{self, StreamSocket};
use crate::errors;

/// A server may say that it is ready a moment before it is.
const READY_LIMIT: Duration = Duration::from_secs(1);
/// A server that sends has connected within this, or has sent its first datagram.
const STREAM_LIMIT: Duration = Duration::from_secs(10);
/// So many rows of ports are tried.
const TRIES: u16 = 32;
/// What may wait to be read before the data threads have the sockets, in bytes.
const FIRST_BUFFER: u32 = 4 << 20;

/// Opens the streams of a test of nuttcp's.
pub(super) struct Nuttcp {
    opener: Opener,
    /// Of the first stream; the next has the next.
    port: u16,
    /// Ports of this end, where it receives.
    ports: Vec<Socket>,
}

impl Nuttcp {
    /// With ports of its own where the server sends: the first row from `first` on that is free.
    pub(super) fn ready(opener: Opener, first: u16) -> Result<Self, ErrorRecord> {
        if !opener.plan.direction.has_reverse() {
            return Ok(Self { opener, port: first, ports: vec![] });
        }
        let streams = opener.plan.streams;
        let mut last = None;
        for row in 0..TRIES {
            let Some(port) = streams.checked_mul(row).and_then(|after| first.checked_add(after))
            else {
                break;
            };
            let open = |stream| {
                let port = port.checked_add(stream).ok_or(std::io::ErrorKind::AddrNotAvailable)?;
                own(&opener, port)
            };
            match (0..streams).map(open).collect::<std::io::Result<Vec<_>>>() {
                Ok(ports) => return Ok(Self { opener, port, ports }),
                Err(e) => last = Some(e),
            }
        }
        let why = last.map_or_else(|| "there are too few ports".to_owned(), |e| e.to_string());
        Err(errors::unable("wait for the server's data", &why))
    }

    /// Of the first stream.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    fn fault(&self, peer: SocketAddr, why: &str) -> ErrorRecord {
        let name = &self.opener.name;
        match self.opener.plan.traffic.transport() {
            Transport::Udp => errors::udp_stream(name, peer, why),
            Transport::Tcp => errors::tcp_stream(name, peer, why),
        }
    }

    /// To the server's port.
    fn there(&self, peer: SocketAddr) -> Result<StreamSocket, ErrorRecord> {
        let opener = Opener { peer, ..self.opener.clone() };
        let local = with_port(opener.local, 0);
        if opener.plan.traffic.transport() == Transport::Udp {
            let fault = |e: std::io::Error| self.fault(peer, &e.to_string());
            let socket = sys::udp_socket(local).map_err(fault)?;
            socket.connect(&peer.into()).map_err(fault)?;
            return Ok(StreamSocket::Udp(socket, None));
        }
        let begun = Instant::now();
        loop {
            match opener.connect(local) {
                Err(_) if begun.elapsed() < READY_LIMIT => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                stream => return stream.map(StreamSocket::Tcp),
            }
        }
    }

    /// The server comes here; nobody else is heard.
    fn here(&self, port: &Socket) -> std::io::Result<StreamSocket> {
        port.set_read_timeout(Some(Duration::from_millis(100)))?;
        let socket = port.try_clone()?;
        let is_server =
            |from: SocketAddr| sys::plain(from).ip() == sys::plain(self.opener.peer).ip();
        let deadline = Instant::now() + STREAM_LIMIT;
        match self.opener.plan.traffic.transport() {
            Transport::Udp => {
                let socket: UdpSocket = socket.into();
                let from = until(deadline, || match socket.peek_from(&mut [0]) {
                    Ok((_, from)) if is_server(from) => Ok(Some(from)),
                    Ok(_) => socket.recv_from(&mut [0]).map(|_| None),
                    Err(e) => Err(e),
                })?;
                socket.connect(from)?;
                socket.set_read_timeout(None)?;
                Ok(StreamSocket::Udp(socket.into(), None))
            }
            Transport::Tcp => {
                let listener: TcpListener = socket.into();
                let stream = until(deadline, || {
                    let (stream, from) = listener.accept()?;
                    Ok(is_server(from).then_some(stream))
                })?;
                Ok(StreamSocket::Tcp(stream))
            }
        }
    }
}

/// Tries again until there is something.
fn until<T>(
    deadline: Instant,
    mut attempt: impl FnMut() -> std::io::Result<Option<T>>,
) -> std::io::Result<T> {
    while Instant::now() < deadline {
        match attempt() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    let why = format!("the server's data did not come within {STREAM_LIMIT:?}");
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, why))
}

/// A port of this end, which nobody else has.
fn own(opener: &Opener, port: u16) -> std::io::Result<Socket> {
    let local = with_port(opener.local, port);
    let plan = &opener.plan;
    let udp = plan.traffic.transport() == Transport::Udp;
    let socket =
        if udp { sys::udp_listener(local, false)? } else { sys::tcp_listener(local, false)? };
    let window = plan.window.or(udp.then_some(FIRST_BUFFER));
    let (most_forced, dscp) = (opener.most_forced, plan.dscp);
    let options = sys::TcpOptions { window, most_forced, dscp, ..sys::TcpOptions::default() };
    // A wish: what the kernel refuses does not end the test.
    let _ = sys::set_tcp(&socket, local.is_ipv6(), &data::tcp_options(plan, options));
    Ok(socket)
}

impl Open for Nuttcp {
    fn open(
        &self,
        stream: u16,
        _: Option<NonZeroU16>,
        _: &AtomicBool,
    ) -> Result<StreamSocket, ErrorRecord> {
        let peer = with_port(self.opener.peer, self.port.saturating_add(stream));
        match self.ports.get(usize::from(stream)) {
            Some(port) => self.here(port).map_err(|e| self.fault(peer, &e.to_string())),
            None => self.there(peer),
        }
    }
}
