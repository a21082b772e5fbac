//! Control in band, of dialects whose UDP streams say themselves when they begin or end: datagrams to the socket of
//! a stream whose thread has not begun or has ended, and from one whose thread has ended.

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
type Received = (u16, Vec<u8>);

/// Of one end of one test.
pub(crate) struct InBand {
    /// While the thread has it, nobody else reads, and nobody else writes once it does.
    kept: BTreeMap<u16, Socket>,
    sockets: BTreeMap<u16, Arc<UdpSocket>>,
    heard: (Sender<Received>, Receiver<Received>),
    readers: JoinSet<()>,
}

impl Default for InBand {
    fn default() -> Self {
        Self {
            kept: BTreeMap::new(),
            sockets: BTreeMap::new(),
            heard: mpsc::channel(MOST_WAITING),
            readers: JoinSet::new(),
        }
    }
}

impl InBand {
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
                let received = datagram.get(..bytes).unwrap_or_default().to_vec();
                let _ = heard.try_send((stream, received));
            }
        });
    }

    /// Sends a datagram; it may be lost here as well as on its way.
    pub(crate) fn send(&self, stream: u16, datagram: &[u8]) {
        // At once: the runtime has not yet heard that there is room.
        if let Some(socket) = self.sockets.get(&stream) {
            let _ = socket2::SockRef::from(socket.as_ref()).send(datagram);
        } else if let Some(socket) = self.kept.get(&stream) {
            let _ = socket.send(datagram);
        }
    }

    /// The next datagram. May be given up at any time.
    pub(crate) async fn next(&mut self) -> Received {
        match self.heard.1.recv().await {
            Some(received) => received,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use linerate_dialect::stream::Report;
    use linerate_engine::sys;
    use linerate_model::sample::SendReport;

    use super::*;

    const HANGS: Duration = Duration::from_secs(60);

    fn pair() -> (Socket, std::net::UdpSocket) {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (near, far) =
            (sys::udp_socket(here).unwrap(), std::net::UdpSocket::bind(here).unwrap());
        near.connect(&far.local_addr().unwrap().into()).unwrap();
        far.connect(near.local_addr().unwrap().as_socket().unwrap()).unwrap();
        far.set_read_timeout(Some(HANGS)).unwrap();
        (near, far)
    }

    fn done(stream: u16) -> DataEvent {
        DataEvent::Done(stream, Box::new(Report::Send(SendReport::default())))
    }

    #[tokio::test]
    async fn each_stream_sends_once_its_thread_has_ended() {
        let mut in_band = InBand::default();
        let (streams, peers): (Vec<_>, Vec<_>) = (0..2).map(|_| pair()).unzip();
        for (number, socket) in (0..).zip(&streams) {
            in_band.keep(number, socket).unwrap();
        }
        // A thread that has not begun to send is told of.
        in_band.send(1, b"begin");
        in_band.begin_after(&done(1));
        in_band.begin_after(&DataEvent::Begun);
        in_band.begin_after(&done(7));
        in_band.send(1, b"end");
        let mut buffer = [0; 20];
        assert_eq!(peers[1].recv(&mut buffer).unwrap(), 5);
        assert_eq!(peers[1].recv(&mut buffer).unwrap(), 3);
        peers[1].send(b"report").unwrap();
        peers[0].send(b"data").unwrap();
        let received = tokio::time::timeout(HANGS, in_band.next()).await.unwrap();
        assert_eq!(received, (1, b"report".to_vec()));
        in_band.begin_after(&done(0));
        let received = tokio::time::timeout(HANGS, in_band.next()).await.unwrap();
        assert_eq!(received, (0, b"data".to_vec()));
    }

    #[tokio::test]
    async fn a_port_that_is_closed_ends_nothing() {
        let mut in_band = InBand::default();
        let (near, far) = pair();
        let at = far.local_addr().unwrap();
        in_band.keep(0, &near).unwrap();
        in_band.begin_after(&done(0));
        drop(far);
        for _ in 0..5 {
            in_band.send(0, b"nobody");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let far = std::net::UdpSocket::bind(at).unwrap();
        far.send_to(b"here", near.local_addr().unwrap().as_socket().unwrap()).unwrap();
        let received = tokio::time::timeout(HANGS, in_band.next()).await.unwrap();
        assert_eq!(received, (0, b"here".to_vec()));
    }
}
