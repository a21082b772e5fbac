//! Data ports of tests that are doors of this same server: what comes there from a client whose test waits for it is
//! that test's. nuttcp's clients up to 6.2.7 name iperf 2's port.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::data::StreamSocket;

/// Who waits at which door.
#[derive(Debug, Default)]
pub(crate) struct Loans(Mutex<HashMap<(IpAddr, u16), oneshot::Sender<StreamSocket>>>);

/// A stream that is waited for at a door.
#[derive(Debug)]
pub(crate) struct Loan {
    loans: Arc<Loans>,
    key: (IpAddr, NonZeroU16),
    stream: oneshot::Receiver<StreamSocket>,
}

impl Loans {
    fn lock(&self) -> MutexGuard<'_, HashMap<(IpAddr, u16), oneshot::Sender<StreamSocket>>> {
        // A panic elsewhere leaves the map whole: every change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next stream from there; not where a test does already.
    pub(crate) fn wait(self: &Arc<Self>, peer: IpAddr, port: NonZeroU16) -> Option<Loan> {
        let (sender, stream) = oneshot::channel();
        let mut waiting = self.lock();
        if waiting.contains_key(&(peer, port.get())) {
            return None;
        }
        waiting.insert((peer, port.get()), sender);
        Some(Loan { loans: Arc::clone(self), key: (peer, port), stream })
    }

    /// Who waits for a stream from there, once.
    pub(crate) fn taker(&self, peer: IpAddr, port: u16) -> Option<oneshot::Sender<StreamSocket>> {
        self.lock().remove(&(peer, port))
    }
}

impl Loan {
    /// Its number.
    pub(crate) fn port(&self) -> NonZeroU16 {
        self.key.1
    }

    /// The stream, once it comes.
    pub(crate) async fn stream(mut self) -> std::io::Result<StreamSocket> {
        (&mut self.stream).await.map_err(|_| std::io::ErrorKind::ConnectionAborted.into())
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // One that was given is gone; another test may wait there by now.
        self.stream.close();
        let key = (self.key.0, self.key.1.get());
        let mut waiting = self.loans.lock();
        if waiting.get(&key).is_some_and(oneshot::Sender::is_closed) {
            waiting.remove(&key);
        }
    }
}
