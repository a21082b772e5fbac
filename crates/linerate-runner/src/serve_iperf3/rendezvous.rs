//! Which data stream belongs to which iperf3 test.
//!
//! TCP streams say it with the cookie. UDP streams say nothing: only the address of their first
//! datagram ties them to a test, so at most one test of an address may be opening UDP streams. The
//! others wait with theirs: clients wait for the word to open streams without a limit of time.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use linerate_wire::iperf3::Cookie;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::data::StreamSocket;
use crate::shares::Waiting;

/// A data stream, and a number that grows with the time of its arrival: iperf3 knows streams by the
/// order of their creation only.
pub(super) type Arrival = (u64, StreamSocket);

/// The tests that wait for data streams, and those that wait for their turn.
#[derive(Debug)]
pub(crate) struct StreamRendezvous {
    state: Mutex<State>,
    turns: Mutex<HashMap<IpAddr, Weak<AsyncMutex<()>>>>,
    /// One permit when tests run one at a time.
    alone: Option<Alone>,
}

#[derive(Debug)]
struct Alone {
    permit: Arc<Semaphore>,
    queued: Arc<Waiting>,
    most_queued: usize,
}

#[derive(Debug, Default)]
struct State {
    tcp: HashMap<Cookie, Expected>,
    udp: HashMap<IpAddr, Expected>,
}

#[derive(Debug)]
struct Expected {
    peer: IpAddr,
    local: SocketAddr,
    left: usize,
    /// Ports of its UDP streams so far: a hello that comes twice opens no second stream.
    ports: Vec<u16>,
    arrivals: UnboundedSender<Arrival>,
}

/// What a connection that showed a cookie is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// A data stream of a test that still wants some.
    Stream,
    /// A test's cookie, but it wants no more streams, or none of that address.
    Refused,
    /// No test has it: a new control connection.
    New,
}

/// The turn to open UDP streams for an address.
pub(super) type Turn = OwnedMutexGuard<()>;

impl StreamRendezvous {
    /// With `queue`, tests run one at a time and so many may wait.
    pub(crate) fn new(queue: Option<usize>) -> Self {
        let permit = Arc::new(Semaphore::new(1));
        let alone = queue.map(|most_queued| Alone { permit, queued: Arc::default(), most_queued });
        Self { state: Mutex::default(), turns: Mutex::default(), alone }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the maps whole: every change is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs alone from now on, if that is how tests run here. `Err` when another one runs.
    pub(crate) fn try_alone(&self) -> Result<Option<OwnedSemaphorePermit>, ()> {
        let Some(alone) = &self.alone else { return Ok(None) };
        Arc::clone(&alone.permit).try_acquire_owned().map(Some).map_err(drop)
    }

    /// Waits until no other test runs, if that is how tests run here. `Err` at once when too many
    /// wait already: half of the places at most are one network's, so that nobody takes them all.
    pub(super) async fn wait_alone(
        &self,
        peer: IpAddr,
    ) -> Result<Option<OwnedSemaphorePermit>, ()> {
        let Some(alone) = &self.alone else { return Ok(None) };
        if let Ok(permit) = Arc::clone(&alone.permit).try_acquire_owned() {
            return Ok(Some(permit));
        }
        let (most, half) = (alone.most_queued, alone.most_queued.div_ceil(2));
        let _queued = alone.queued.enter(peer, most, half).map_err(drop)?;
        Arc::clone(&alone.permit).acquire_owned().await.map(Some).map_err(drop)
    }

    /// Waits until no other test of the address opens UDP streams. First come, first served.
    pub(super) async fn turn(&self, peer: IpAddr) -> Turn {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            if let Some(turn) = turns.get(&peer).and_then(Weak::upgrade) {
                turn
            } else {
                let turn = Arc::new(AsyncMutex::new(()));
                turns.insert(peer, Arc::downgrade(&turn));
                turn
            }
        };
        turn.lock_owned().await
    }

    /// TCP streams with that cookie, and from that address, are a test's from now on. Its cookie is
    /// known until the guard is dropped. `None` when another test has the same.
    pub(super) fn expect_tcp(
        self: &Arc<Self>,
        cookie: Cookie,
        (peer, local): (IpAddr, SocketAddr),
        left: usize,
        arrivals: UnboundedSender<Arrival>,
    ) -> Option<Expectation> {
        let mut state = self.lock();
        if state.tcp.contains_key(&cookie) {
            return None;
        }
        state.tcp.insert(cookie, Expected { peer, local, left, ports: vec![], arrivals });
        Some(Expectation { rendezvous: Arc::clone(self), of: Of::Cookie(cookie) })
    }

    /// UDP streams from that address are a test's from now on; needs the address' [`Turn`].
    pub(super) fn expect_udp(
        self: &Arc<Self>,
        _turn: &Turn,
        (peer, local): (IpAddr, SocketAddr),
        left: usize,
        arrivals: UnboundedSender<Arrival>,
    ) -> Expectation {
        let ports = Vec::with_capacity(left);
        self.lock().udp.insert(peer, Expected { peer, local, left, ports, arrivals });
        Expectation { rendezvous: Arc::clone(self), of: Of::Address(peer) }
    }

    /// What a connection that showed a cookie is.
    pub(super) fn shown(&self, cookie: &Cookie, peer: IpAddr) -> Shown {
        match self.lock().tcp.get(cookie) {
            None => Shown::New,
            Some(expected) if expected.peer == peer && expected.left > 0 => Shown::Stream,
            Some(_) => Shown::Refused,
        }
    }

    /// Hands a TCP stream to its test.
    pub(super) fn deliver_tcp(&self, cookie: &Cookie, arrival: Arrival) {
        if let Some(expected) = self.lock().tcp.get_mut(cookie) {
            expected.deliver(arrival);
        }
    }

    /// The local address that the test which waits for UDP streams of that address uses.
    pub(super) fn waits_for_udp(&self, peer: SocketAddr) -> Option<SocketAddr> {
        let state = self.lock();
        let expected = state.udp.get(&peer.ip())?;
        (expected.left > 0 && !expected.ports.contains(&peer.port())).then_some(expected.local)
    }

    /// Hands a UDP stream to its test; `false` when it has enough.
    pub(super) fn deliver_udp(&self, peer: SocketAddr, arrival: Arrival) -> bool {
        let mut state = self.lock();
        let Some(expected) = state.udp.get_mut(&peer.ip()) else { return false };
        expected.ports.push(peer.port());
        expected.deliver(arrival)
    }
}

impl Expected {
    fn deliver(&mut self, arrival: Arrival) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        self.arrivals.send(arrival).is_ok()
    }
}

/// Ends when dropped.
#[derive(Debug)]
pub(super) struct Expectation {
    rendezvous: Arc<StreamRendezvous>,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Cookie(Cookie),
    Address(IpAddr),
}

impl Drop for Expectation {
    fn drop(&mut self) {
        let mut state = self.rendezvous.lock();
        match &self.of {
            Of::Cookie(cookie) => drop(state.tcp.remove(cookie)),
            Of::Address(peer) => drop(state.udp.remove(peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use tokio::sync::mpsc;

    use super::*;

    fn ready<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn a_cookie_is_a_stream_of_its_own_client_only_and_as_often_as_wanted() {
        let rendezvous = Arc::new(StreamRendezvous::new(None));
        let cookie = Cookie::from_bytes([b'a'; 37]);
        assert_eq!(rendezvous.shown(&cookie, A), Shown::New);
        let (arrivals, mut arrived) = mpsc::unbounded_channel();
        let local = SocketAddr::new(B, 5201);
        let expectation = rendezvous.expect_tcp(cookie, (A, local), 1, arrivals.clone()).unwrap();
        assert!(rendezvous.expect_tcp(cookie, (B, local), 1, arrivals).is_none());
        assert_eq!(
            (rendezvous.shown(&cookie, A), rendezvous.shown(&cookie, B)),
            (Shown::Stream, Shown::Refused)
        );
        let socket = || {
            StreamSocket::Udp(
                linerate_engine::sys::udp_socket(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap(),
                None,
            )
        };
        rendezvous.deliver_tcp(&cookie, (1, socket()));
        assert_eq!(arrived.try_recv().unwrap().0, 1);
        assert_eq!(rendezvous.shown(&cookie, A), Shown::Refused);
        drop(expectation);
        assert_eq!(rendezvous.shown(&cookie, A), Shown::New);
    }

    #[test]
    fn udp_turns_are_of_an_address_and_in_order() {
        let rendezvous = StreamRendezvous::new(None);
        let mut first = Box::pin(rendezvous.turn(A));
        let mut second = Box::pin(rendezvous.turn(A));
        let mut other = Box::pin(rendezvous.turn(B));
        let held = ready(first.as_mut()).unwrap();
        assert!(ready(second.as_mut()).is_none());
        assert!(ready(other.as_mut()).is_some());
        drop(held);
        assert!(ready(second.as_mut()).is_some());
    }

    #[test]
    fn one_at_a_time_with_a_queue_of_which_one_network_has_half() {
        let rendezvous = StreamRendezvous::new(Some(3));
        let running = rendezvous.try_alone().unwrap();
        assert!(running.is_some() && rendezvous.try_alone().is_err());
        let wait = |peer| {
            let mut waits = Box::pin(rendezvous.wait_alone(peer));
            (ready(waits.as_mut()).map(|turn| turn.is_err()), waits)
        };
        let (queued, mut first) = wait(A);
        assert_eq!(queued, None);
        let (queued, second) = wait(A);
        assert_eq!(queued, None);
        assert_eq!(wait(A).0, Some(true), "the half of its network is full");
        let (queued, other) = wait(B);
        assert_eq!(queued, None);
        assert_eq!(wait(B).0, Some(true), "the queue is full");
        drop(second);
        assert_eq!(wait(A).0, None, "a place is free again");
        drop((running, other));
        assert!(matches!(ready(first.as_mut()), Some(Ok(Some(_)))));
        assert!(matches!(StreamRendezvous::new(None).try_alone(), Ok(None)));
    }
}
