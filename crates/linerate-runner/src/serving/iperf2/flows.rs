//! UDP streams that nobody announces: the first datagram of an address is the whole opening.
//!
//! A stream gets a socket of its own that is connected to its client, and the kernel hands it what comes from
//! then on. What came before is in the socket that all share, or in the new one before it was connected, among
//! what others sent: all of that is read, and goes where it belongs.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linerate_engine::{clock, sys};
use linerate_model::plan::Transport;
use linerate_wire::iperf2::Header;
use linerate_wire::iperf2::datagram::{MARK_BYTES, Mark};
use linerate_wire::native::message::{RefusalKind, Refused};
use socket2::Socket;
use tokio::net::UdpSocket;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::plan::{Asked, refuse};
use super::stream::{Test, alone, grant};
use crate::address::with_port;
use crate::data::{Early, StreamSocket};
use crate::loan::Lent;
use crate::service::{Datagram, MOST_DATAGRAM, Running, Server, stream_socket};

/// What is read of the shared socket before the streams that were found begin: a flood ends this.
const MOST_AT_ONCE: usize = 4_096;
/// Most bytes that are kept meanwhile; what comes beyond them is lost.
const MOST_KEPT: usize = 8 << 20;
/// A client that was refused asks a hundred times in two seconds, and is heard again after this.
const NOT_AGAIN: Duration = Duration::from_secs(3);
/// Most addresses that are remembered.
const MOST_KNOWN: usize = 16_384;
/// What is asked for the shared socket to hold, in bytes.
const BUFFER_BYTES: usize = 4 << 20;

/// Streams that run, by their clients' addresses.
#[derive(Clone)]
struct Known {
    peers: Arc<Mutex<HashSet<SocketAddr>>>,
    /// One datagram is a stream, and its address proves nothing: whoever forges some may hold these places, and no
    /// client of another dialect, or over TCP, finds all of the server's taken.
    places: Arc<Semaphore>,
    /// How many of them there are.
    most: usize,
}

impl Known {
    /// At a server of so many tests at once, of which half are for these.
    fn of(most_tests: usize) -> Self {
        let most = (most_tests / 2).clamp(1, Semaphore::MAX_PERMITS);
        Self { peers: Arc::default(), places: Arc::new(Semaphore::new(most)), most }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SocketAddr>> {
        // A panic elsewhere leaves the set whole: every change is one call.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Refused> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let why =
                "UDP streams of iperf 2 have half of this server's tests, and no more is free";
            refuse(RefusalKind::Busy, why)
        })
    }

    /// A place, share and budgets, or why not.
    fn grant(&self, server: &Server, asked: &Asked) -> Result<Granted, Refused> {
        let place = self.place()?;
        Ok((Box::new(grant(server, asked, alone(server)?)?), place))
    }

    /// What comes of `peer` to the shared socket means nothing until this is over.
    fn hold(&self, peer: SocketAddr, until: impl Future<Output = ()> + Send + 'static) {
        let known = self.clone();
        known.lock().insert(peer);
        tokio::spawn(async move {
            until.await;
            known.lock().remove(&peer);
        });
    }
}

/// Whose a stream is.
enum Whose {
    /// A client's of iperf 2.
    Own(Granted),
    /// That of a test which waits for it at this door.
    Lent(oneshot::Sender<Lent>),
}

/// A stream that is granted, as soon as it has its socket, and its place among those of its kind.
type Granted = (Box<dyn FnOnce(StreamSocket, Vec<Early>) -> Test + Send>, OwnedSemaphorePermit);

/// A stream that has begun to come.
struct Begun {
    whose: Whose,
    socket: Socket,
    early: Vec<Early>,
}

/// What is read of the shared socket at once.
#[derive(Default)]
struct Batch {
    begun: BTreeMap<SocketAddr, Begun>,
    /// Bytes.
    kept: usize,
    /// Streams that were asked for. Each may cost a socket, so that no batch hears of more than there are places for: who
    /// is in earnest says it again with the next datagram.
    asked: usize,
}

/// Takes streams until the server ends.
pub(crate) async fn hear(server: Arc<Server>, udp: UdpSocket, port: u16) {
    let _ = socket2::SockRef::from(&udp).set_recv_buffer_size(BUFFER_BYTES);
    read(server, udp, port, MOST_AT_ONCE).await;
}

/// Reads `most` datagrams at once.
async fn read(server: Arc<Server>, udp: UdpSocket, port: u16, most: usize) {
    let known = Known::of(server.options.max_tests);
    let mut buffer = vec![0; MOST_DATAGRAM];
    loop {
        if udp.readable().await.is_err() {
            // An ICMP error of some earlier answer.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let mut batch = Batch::default();
        let mut read = 0;
        while read < most
            && let Ok((length, from)) = udp.try_recv_from(&mut buffer)
        {
            read += 1;
            let bytes = buffer.get(..length).unwrap_or_default().to_vec();
            let mut waiting = VecDeque::from([(sys::plain(from), bytes)]);
            while let Some((peer, bytes)) = waiting.pop_front() {
                let wanted = server.options.allows(peer.ip()) && !known.lock().contains(&peer);
                batch.kept += if wanted { bytes.len() } else { 0 };
                if batch.kept <= MOST_KEPT && wanted {
                    waiting.extend(take(&server, &known, &mut batch, port, (peer, bytes)));
                }
            }
        }
        for (peer, stream) in batch.begun {
            start(&server, &known, peer, stream);
        }
        // A socket that is never empty is always readable, and this thread has everything else to do as well.
        tokio::task::yield_now().await;
    }
}

/// Puts a datagram where it belongs: to a stream that has begun, or it begins one. Returns what came by
/// mistake to the new stream's socket.
fn take(
    server: &Server,
    known: &Known,
    batch: &mut Batch,
    port: u16,
    (peer, bytes): Datagram,
) -> Vec<Datagram> {
    let at_ns = clock::monotonic_ns();
    if let Some(stream) = batch.begun.get_mut(&peer) {
        stream.early.push(Early { bytes, at_ns });
        return Vec::new();
    }
    let local = local(server, peer, port);
    if let Some(taker) = server.loans.taker(peer.ip(), port, Transport::Udp) {
        let Ok((socket, mixed)) = stream_socket(local, port, peer) else { return Vec::new() };
        // Its first datagram says only that others come.
        let begun = Begun { whose: Whose::Lent(taker), socket, early: Vec::new() };
        batch.begun.insert(peer, begun);
        return mixed;
    }
    let header = bytes.get(MARK_BYTES..).and_then(Header::of_datagram);
    // Who says nothing may count in 64 bits: the high half is 0 then, too.
    let header = header.unwrap_or(Header { wide: true, ..Header::default() });
    let first = Mark::read(header.wide, &bytes).is_some_and(|mark| mark.number > 0);
    if !first || *server.shut.borrow() || server.is_over() || batch.asked >= known.most {
        // The end of a stream that is over, or nothing of iperf 2's.
        return Vec::new();
    }
    batch.asked += 1;
    let (transport, first) = (Transport::Udp, bytes.len());
    let asked = Asked { peer, local: with_port(local, port), transport, header, first };
    // Before there is a socket: most of a flood gets none.
    let granted = match known.grant(server, &asked) {
        Ok(granted) => granted,
        Err(refused) => {
            server.turned_away(peer, refused.kind, &refused.why);
            // Whoever asks from so many addresses is told each time.
            if known.lock().len() < MOST_KNOWN {
                known.hold(peer, tokio::time::sleep(NOT_AGAIN));
            }
            return Vec::new();
        }
    };
    let Ok((socket, mixed)) = stream_socket(local, port, peer) else {
        server.turned_away(peer, RefusalKind::Unable, "no socket for a UDP stream");
        return Vec::new();
    };
    let early = vec![Early { bytes, at_ns }];
    batch.begun.insert(peer, Begun { whose: Whose::Own(granted), socket, early });
    mixed
}

/// Where the socket of a stream from there is bound.
fn local(server: &Server, peer: SocketAddr, port: u16) -> SocketAddr {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(server.options.bind.unwrap_or(any), port)
}

/// Runs a stream.
fn start(server: &Arc<Server>, known: &Known, peer: SocketAddr, stream: Begun) {
    let Begun { whose, socket, early } = stream;
    let (granted, place) = match whose {
        Whose::Own(granted) => granted,
        Whose::Lent(taker) => {
            let _ = taker.send((StreamSocket::Udp(socket, None), early));
            return;
        }
    };
    // Where its client sees this end, however the socket was bound.
    let local = socket.local_addr().ok().and_then(|local| local.as_socket()).map(sys::plain);
    let mut test = granted(StreamSocket::Udp(socket, None), early);
    test.local = local.unwrap_or(test.local);
    let (server, running) = (Arc::clone(server), Running::new(server));
    known.hold(peer, async move {
        test.run(&server).await;
        drop((running, place));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A door on a free port, and a server behind it.
    fn door() -> (Server, u16) {
        let shared = sys::udp_socket((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = shared.local_addr().unwrap().as_socket().unwrap().port();
        let bind = Some(Ipv4Addr::LOCALHOST.into());
        (Server::alone(crate::options::Options { bind, ..Default::default() }), port)
    }

    #[test]
    fn streams_that_prove_nothing_leave_half_of_the_tests_to_others() {
        for (most, places) in
            [(0, 1), (1, 1), (4, 2), (128, 64), (usize::MAX, Semaphore::MAX_PERMITS)]
        {
            assert_eq!(Known::of(most).places.available_permits(), places, "{most}");
        }
        let known = Known::of(4);
        let held: Vec<_> = (0..2).map(|_| known.place().expect("free")).collect();
        assert_eq!(known.place().expect_err("taken").kind, RefusalKind::Busy);
        drop(held);
        assert!(known.place().is_ok(), "free again");
    }

    /// A datagram of such a number.
    fn numbered(number: i64) -> Vec<u8> {
        let mut bytes = vec![0; 100];
        Mark { number, sent_ns: 0 }.write(&mut bytes);
        bytes
    }

    #[tokio::test]
    async fn a_flood_of_forged_addresses_gets_no_more_sockets_than_there_are_places() {
        let (server, port) = door();
        let (known, mut batch) = (Known::of(4), Batch::default());
        for host in 1..=100 {
            let from = SocketAddr::from(([127, 0, 1, host], 40_000));
            take(&server, &known, &mut batch, port, (from, numbered(1)));
        }
        assert_eq!((batch.begun.len(), batch.asked), (2, 2));
        // Nor does the next batch make any for those who find no place.
        let mut next = Batch::default();
        let from = SocketAddr::from(([127, 0, 2, 1], 40_000));
        take(&server, &known, &mut next, port, (from, numbered(1)));
        assert_eq!((next.begun.len(), next.asked), (0, 1));
        assert!(known.lock().contains(&from), "it is not heard for a while");
    }

    #[tokio::test]
    async fn a_socket_that_is_never_empty_leaves_the_others_their_turn() {
        let (server, _) = door();
        let shared = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (at, queue) = (shared.local_addr().unwrap(), shared.try_clone().unwrap());
        shared.set_nonblocking(true).unwrap();
        let stranger = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for number in 0..12 {
            stranger.send_to(&[number], at).unwrap();
        }
        let udp = UdpSocket::from_std(shared).unwrap();
        tokio::spawn(read(Arc::new(server), udp, at.port(), 4));
        // What the queue begins with whenever this task has its turn.
        let mut seen = HashSet::new();
        let mut first = [0];
        while queue.peek(&mut first).is_ok() {
            seen.insert(first[0]);
            tokio::task::yield_now().await;
        }
        assert!(seen.contains(&4) && seen.contains(&8), "{seen:?}");
    }

    #[tokio::test]
    async fn a_stream_that_is_lent_has_all_of_its_peers_and_nothing_of_others() {
        let (server, port) = door();
        let peer = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let from = peer.local_addr().unwrap();
        let stranger = SocketAddr::from(([127, 0, 0, 9], 40_000));
        let number = std::num::NonZeroU16::new(port).unwrap();
        let loan = server.loans.wait(from.ip(), number, Transport::Udp).expect("nobody waits");
        let (known, mut batch) = (Known::of(1), Batch::default());
        for (from, bytes) in [(stranger, "x"), (from, "begin"), (stranger, "y"), (from, "data")] {
            assert!(take(&server, &known, &mut batch, port, (from, bytes.into())).is_empty());
        }
        assert_eq!(batch.begun.len(), 1);
        let begun = batch.begun.remove(&from).expect("its stream");
        start(&Arc::new(server), &known, from, begun);
        let (socket, early) = loan.stream().await.unwrap();
        let StreamSocket::Udp(socket, None) = socket else { panic!("{socket:?}") };
        assert_eq!(socket.peer_addr().unwrap().as_socket(), Some(from));
        let early: Vec<_> = early.into_iter().map(|early| early.bytes).collect();
        assert_eq!(early, [b"data"]);
    }
}
