//! Control in band, of dialects whose UDP streams say themselves when they begin or end: datagrams to the socket of
//! a stream whose thread has not begun or has ended, and from one whose thread has ended.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use linerate_dialect::stream::DataEvent;
use socket2::Socket;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

/// Bytes of the largest datagram there is.
const MOST_BYTES: usize = 65_535;

/// Of one end of one test.
#[derive(Default)]
pub(crate) struct InBand {
    /// While the thread has it, nobody else reads, and nobody else writes once it does.
    kept: BTreeMap<u16, Socket>,
    sockets: BTreeMap<u16, UdpSocket>,
    /// What came last, and to which stream: the others are read first then.
    datagram: Vec<u8>,
    last: u16,
    /// Nothing is read before.
    paused: Option<Instant>,
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
        self.sockets.insert(*stream, socket);
        self.datagram.resize(MOST_BYTES, 0);
    }

    /// Sends a datagram; it may be lost here as well as on its way.
    pub(crate) fn send(&self, stream: u16, datagram: &[u8]) {
        // At once: the runtime has not yet heard that there is room.
        if let Some(socket) = self.sockets.get(&stream) {
            let _ = socket2::SockRef::from(socket).send(datagram);
        } else if let Some(socket) = self.kept.get(&stream) {
            let _ = socket.send(datagram);
        }
    }

    /// The stream of the next datagram, and its length. May be given up at any time.
    pub(crate) async fn next(&mut self) -> (u16, usize) {
        loop {
            if let Some(until) = self.paused {
                sleep_until(until).await;
                self.paused = None;
            }
            let (stream, read) = poll_fn(|context| self.poll(context)).await;
            self.last = stream;
            match read {
                Ok(bytes) => return (stream, bytes),
                // An error is an ICMP message's, about a datagram that was sent, and is gone with this.
                Err(_) => self.pause(Duration::from_millis(1)),
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(u16, io::Result<usize>)> {
        let (before, after) = (self.sockets.range(..=self.last), self.sockets.range(self.last..));
        for (stream, socket) in after.filter(|(stream, _)| **stream > self.last).chain(before) {
            let mut place = ReadBuf::new(&mut self.datagram);
            if let Poll::Ready(read) = socket.poll_recv(context, &mut place) {
                let bytes = place.filled().len();
                return Poll::Ready((*stream, read.map(|()| bytes)));
            }
        }
        Poll::Pending
    }

    /// What came last, of that length.
    pub(crate) fn datagram(&self, bytes: usize) -> &[u8] {
        self.datagram.get(..bytes).unwrap_or_default()
    }

    /// Reads nothing for so long.
    pub(crate) fn pause(&mut self, time: Duration) {
        self.paused = Some(Instant::now() + time);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

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

    async fn next(in_band: &mut InBand) -> (u16, Vec<u8>) {
        let (stream, bytes) = tokio::time::timeout(HANGS, in_band.next()).await.unwrap();
        (stream, in_band.datagram(bytes).to_vec())
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
        assert_eq!(next(&mut in_band).await, (1, b"report".to_vec()));
        in_band.begin_after(&done(0));
        assert_eq!(next(&mut in_band).await, (0, b"data".to_vec()));
        // A stream to which much comes does not keep the others waiting.
        for peer in [&peers[0], &peers[0], &peers[0], &peers[1]] {
            peer.send(b"more").unwrap();
        }
        // The runtime hears of all of them.
        tokio::task::yield_now().await;
        let mut streams = Vec::new();
        for _ in 0..2 {
            streams.push(next(&mut in_band).await.0);
        }
        assert!(streams.contains(&1), "{streams:?}");
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
        assert_eq!(next(&mut in_band).await, (0, b"here".to_vec()));
    }
}
