//! What all tasks of one server share.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use linerate_engine::sys;
use linerate_model::plan::TestPlan;
use linerate_wire::native::message::{RefusalKind, Refused};
use socket2::Socket;
use tokio::sync::watch;

use crate::address::with_port;
use crate::admission::Admission;
use crate::agent;
use crate::event::Event;
use crate::event_log::Events;
use crate::keys::{Key, Permit, Permits, Standing};
use crate::loan::Loans;
use crate::options::Options;
use crate::serve_iperf3::rendezvous::StreamRendezvous;
use crate::shares::Waiting;

/// Bytes of the largest datagram there is.
pub(crate) const MOST_DATAGRAM: usize = 65_535;

/// What was granted, to its end.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Everything the tasks of one server share.
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) admission: Arc<Admission>,
    pub(crate) rendezvous: Arc<StreamRendezvous>,
    pub(crate) events: Events,
    pub(crate) shut: watch::Receiver<bool>,
    pub(crate) agent: Option<agent::AgentSlot>,
    pub(crate) permits: Arc<Permits>,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) most_waiting: usize,
    pub(crate) running: AtomicUsize,
    pub(crate) finished: AtomicUsize,
    pub(crate) arrived: AtomicU64,
    pub(crate) loans: Arc<Loans>,
}

impl Server {
    /// One without sockets, which says nothing.
    #[cfg(test)]
    pub(crate) fn alone(options: Options) -> Self {
        Self {
            options,
            admission: Arc::default(),
            rendezvous: Arc::new(StreamRendezvous::new(None)),
            events: Events::new(|_| {}),
            shut: watch::channel(false).1,
            agent: None,
            permits: Arc::default(),
            waiting: Arc::default(),
            most_waiting: 1,
            running: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            arrived: AtomicU64::new(0),
            loans: Arc::default(),
        }
    }

    /// It was to end after its first test, and that has ended.
    pub(crate) fn is_over(&self) -> bool {
        let used = self.finished.load(Ordering::Relaxed) > 0;
        self.options.one_off && used && self.running.load(Ordering::Relaxed) == 0
    }

    /// A number that grows with every connection and every stream: the order of their arrival.
    pub(crate) fn next_order(&self) -> u64 {
        self.arrived.fetch_add(1, Ordering::Relaxed)
    }

    /// A connection that is dropped as it does not keep to the protocol.
    pub(crate) fn refused(&self, peer: SocketAddr, why: &str) {
        self.turned_away(peer, RefusalKind::Protocol, why);
    }

    /// A test that is not wanted here.
    pub(crate) fn turned_away(&self, peer: SocketAddr, kind: RefusalKind, why: &str) {
        let why = why.to_owned();
        self.events.send(Event::Refused { peer, key: None, asked: None, kind, why });
    }

    /// What holds now of the file of keys, where there is one; says so when it has changed.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let keys = self.options.keys.as_ref()?;
        let now = Standing::now(keys.table());
        match keys.look(now.at) {
            None => Some(now),
            Some(changed) => {
                self.events.send(changed);
                Some(Standing { table: keys.table(), ..now })
            }
        }
    }

    /// Whether the client there, with that key, may have this test.
    pub(crate) fn permit(
        &self,
        peer: IpAddr,
        key: Option<&Key>,
        plan: &TestPlan,
    ) -> Result<Permit, Refused> {
        self.permit_of((peer, key, false), plan)
    }

    /// The same of who may only claim to be there, as the third says.
    pub(crate) fn permit_of(
        &self,
        who: (IpAddr, Option<&Key>, bool),
        plan: &TestPlan,
    ) -> Result<Permit, Refused> {
        match self.standing() {
            Some(standing) => self.permits.test(&standing, who, plan),
            None => Ok(Permit::free(who.2)),
        }
    }
}

/// A datagram, and who sent it.
pub(crate) type Datagram = (SocketAddr, Vec<u8>);

/// What is read of a new socket, in datagrams and bytes: a flood of strangers ends with its connection.
const MOST_AT_ONCE: usize = 4_096;
const MOST_KEPT: usize = 8 << 20;

/// A socket of its own for a UDP stream, on the server's port, that hears its client only; and what it heard
/// before, which could be anybody's.
pub(crate) fn stream_socket(
    local: SocketAddr,
    port: u16,
    peer: SocketAddr,
) -> std::io::Result<(Socket, Vec<Datagram>)> {
    connected(sys::udp_socket(with_port(local, port))?, peer)
}

fn connected(socket: Socket, peer: SocketAddr) -> std::io::Result<(Socket, Vec<Datagram>)> {
    socket.connect(&peer.into())?;
    socket.set_nonblocking(true)?;
    let reader: std::net::UdpSocket = socket.try_clone()?.into();
    let (mut heard, mut kept, mut buffer) = (Vec::new(), 0, vec![0; MOST_DATAGRAM]);
    while heard.len() < MOST_AT_ONCE
        && kept < MOST_KEPT
        && let Ok((length, from)) = reader.recv_from(&mut buffer)
    {
        kept += length;
        heard.push((sys::plain(from), buffer.get(..length).unwrap_or_default().to_vec()));
    }
    socket.set_nonblocking(false)?;
    Ok((socket, heard))
}

/// Counts a test as over even when its task is ended by a panic.
pub(crate) struct Running(Arc<Server>);

impl Running {
    /// It has begun.
    pub(crate) fn new(server: &Arc<Server>) -> Self {
        server.running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(server))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.finished.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn what_a_stranger_sent_before_a_socket_was_connected_is_not_its_streams() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let (peer, stranger) = (UdpSocket::bind(here).unwrap(), UdpSocket::bind(here).unwrap());
        let socket = sys::udp_socket(here).unwrap();
        let at = socket.local_addr().unwrap().as_socket().unwrap();
        let (peers, strangers) = (peer.local_addr().unwrap(), stranger.local_addr().unwrap());
        for sender in [&stranger, &peer, &stranger] {
            sender.send_to(b"before", at).unwrap();
        }
        let (socket, before) = connected(socket, peers).unwrap();
        let from: Vec<SocketAddr> = before.iter().map(|(from, _)| *from).collect();
        assert_eq!(from, [strangers, peers, strangers]);
        stranger.send_to(b"stranger", at).unwrap();
        peer.send_to(b"after", at).unwrap();
        let mut bytes = [0; 16];
        let length = (&socket).read(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"after");
    }
}
