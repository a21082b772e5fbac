//! Data ports of tests that are doors of this same server: what comes there from a client whose test waits for it is
//! that test's. nuttcp's clients up to 6.2.7 name iperf 2's port.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_model::plan::Transport;
use tokio::sync::oneshot;

use crate::data::{Early, StreamSocket};

/// From where, at which door, and by what a stream is to come.
type Awaited = (IpAddr, u16, Transport);

/// A stream, and what came of it before its socket heard its peer alone.
pub(crate) type Lent = (StreamSocket, Vec<Early>);

/// Who waits at which door.
#[derive(Debug, Default)]
pub(crate) struct Loans(Mutex<HashMap<Awaited, oneshot::Sender<Lent>>>);

/// A stream that is waited for at a door.
#[derive(Debug)]
pub(crate) struct Loan {
    loans: Arc<Loans>,
    port: NonZeroU16,
    key: Awaited,
    stream: oneshot::Receiver<Lent>,
}

impl Loans {
    fn lock(&self) -> MutexGuard<'_, HashMap<Awaited, oneshot::Sender<Lent>>> {
        // A panic elsewhere leaves the map whole: every change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next stream from there; not where a test does already.
    pub(crate) fn wait(
        self: &Arc<Self>,
        peer: IpAddr,
        port: NonZeroU16,
        transport: Transport,
    ) -> Option<Loan> {
        let (sender, stream) = oneshot::channel();
        let key = (peer, port.get(), transport);
        let mut waiting = self.lock();
        if waiting.contains_key(&key) {
            return None;
        }
        waiting.insert(key, sender);
        Some(Loan { loans: Arc::clone(self), port, key, stream })
    }

    /// Who waits for a stream from there, once.
    pub(crate) fn taker(
        &self,
        peer: IpAddr,
        port: u16,
        transport: Transport,
    ) -> Option<oneshot::Sender<Lent>> {
        self.lock().remove(&(peer, port, transport))
    }
}

impl Loan {
    /// Its number.
    pub(crate) fn port(&self) -> NonZeroU16 {
        self.port
    }

    /// The stream, once it comes.
    pub(crate) async fn stream(mut self) -> std::io::Result<Lent> {
        (&mut self.stream).await.map_err(|_| std::io::ErrorKind::ConnectionAborted.into())
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // One that was given is gone; another test may wait there by now.
        self.stream.close();
        let mut waiting = self.loans.lock();
        if waiting.get(&self.key).is_some_and(oneshot::Sender::is_closed) {
            waiting.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_lent_once_to_who_waits_for_its_transport() {
        let loans = Arc::new(Loans::default());
        let (peer, port) = (IpAddr::from([192, 0, 2, 7]), NonZeroU16::new(5_001).unwrap());
        let wait = || loans.wait(peer, port, Transport::Tcp);
        let waits = wait().expect("nobody waits");
        assert!(wait().is_none());
        assert!(loans.taker(peer, 5_001, Transport::Udp).is_none());
        assert!(loans.taker(IpAddr::from([192, 0, 2, 8]), 5_001, Transport::Tcp).is_none());
        assert!(loans.taker(peer, 5_001, Transport::Tcp).is_some());
        assert!(loans.taker(peer, 5_001, Transport::Tcp).is_none());
        drop(waits);
        assert!(wait().is_some());
        assert!(loans.lock().is_empty(), "whoever waits no more is gone");
    }
}
