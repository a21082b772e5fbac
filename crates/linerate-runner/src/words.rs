//! The last words of UDP streams, in dialects that have no control connection to say them on: datagrams from
//! and to the socket of a stream whose thread has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use linerate_dialect::stream::DataEvent;
use socket2::Socket;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;

/// Datagrams that wait to be looked at; what comes beyond them is lost, as datagrams may be.
const MOST_WAITING: usize = 64;
/// The largest there is.
const MOST_BYTES: usize = 65_535;

/// A stream, and a datagram that came to it.
type Told = (u16, Vec<u8>);

/// Of one end of one test.
pub(crate) struct Words {
    /// While the thread has it, nobody else reads or writes.
    kept: BTreeMap<u16, Socket>,
    sockets: BTreeMap<u16, Arc<UdpSocket>>,
    heard: (Sender<Told>, Receiver<Told>),
    readers: JoinSet<()>,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            kept: BTreeMap::new(),
            sockets: BTreeMap::new(),
            heard: mpsc::channel(MOST_WAITING),
            readers: JoinSet::new(),
        }
    }
}

impl Words {
    /// The socket of a stream whose thread is about to start.
    pub(crate) fn keep(&mut self, stream: u16, socket: &Socket) -> std::io::Result<()> {
        self.kept.insert(stream, socket.try_clone()?);
        Ok(())
    }

    /// Listens to a stream whose thread has ended.
    pub(crate) fn begin_after(&mut self, event: &DataEvent) {
        let DataEvent::Done(stream, _) = event else { return };
        let Some(socket) = self.kept.remove(stream) else { return };
        // What cannot be had is silence, which each conversation bears.
        let Ok(()) = socket.set_nonblocking(true) else { return };
        let Ok(socket) = UdpSocket::from_std(socket.into()) else { return };
        let (socket, stream) = (Arc::new(socket), *stream);
        self.sockets.insert(stream, Arc::clone(&socket));
        let heard = self.heard.0.clone();
        self.readers.spawn(async move {
            let mut datagram = vec![0; MOST_BYTES];
            loop {
                // An error is an ICMP message's, about a datagram that was sent, and is gone with this.
                let Ok(bytes) = socket.recv(&mut datagram).await else {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    continue;
                };
                let told = datagram.get(..bytes).unwrap_or_default().to_vec();
                let _ = heard.try_send((stream, told));
            }
        });
    }

    /// Sends a datagram; it may be lost here as well as on its way.
    pub(crate) fn say(&self, stream: u16, datagram: &[u8]) {
        if let Some(socket) = self.sockets.get(&stream) {
            // At once: the runtime has not yet heard that there is room.
            let _ = socket2::SockRef::from(socket.as_ref()).send(datagram);
        }
    }

    /// The next datagram. May be given up at any time.
    pub(crate) async fn next(&mut self) -> Told {
        match self.heard.1.recv().await {
            Some(told) => told,
            None => std::future::pending().await,
        }
    }
}
