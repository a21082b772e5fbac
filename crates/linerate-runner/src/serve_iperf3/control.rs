//! The control connection of iperf3: single bytes, and JSON with its length.

use std::io;
use std::time::Duration;

use linerate_dialect::iperf3::server::TALK_LIMIT_NS;
use linerate_engine::sys;
use linerate_wire::iperf3::frame::{self, FrameError, PREFIX_BYTES};
use linerate_wire::iperf3::{Failure, State};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::control::read_out;

/// A client that takes longer than this to take or to send what is due is gone.
pub(super) const TALK_LIMIT: Duration = Duration::from_nanos(TALK_LIMIT_NS);
/// From the last word of the client's kernel to the first question, and from each to the next.
const QUIET: Duration = Duration::from_secs(1);
/// The most that Linux takes (`MAX_TCP_KEEPCNT`); the user timeout counts before it.
const MOST_PROBES: u32 = 127;
/// When the kernel gives a client up by itself.
const KERNELS_LIMIT: Duration = Duration::from_secs(60);
/// The same before there is data: no test fills the queue yet in which questions wait.
const WAITING_LIMIT: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) struct Control(pub(super) TcpStream);

/// Why a control connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the client closed the control connection")]
    Closed,
    #[error("the client was silent for too long")]
    Silent,
    #[error("the control connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("the client sent the unknown state {0}")]
    Unknown(u8),
}

/// iperf3's clients say nothing while a test runs, so their kernels are asked whether they are
/// there. Whoever runs the test judges by what they answer; the kernel's own limit is only for
/// where that cannot be known.
pub(crate) fn watch(control: &TcpStream) {
    keep(control, KERNELS_LIMIT);
}

/// The same while a test waits for its streams, which over UDP may never come: a client whose host is gone
/// meanwhile loses its connection, and with it its place.
pub(crate) fn watch_waiting(control: &TcpStream) {
    keep(control, WAITING_LIMIT);
}

fn keep(control: &TcpStream, limit: Duration) {
    let keepalive =
        TcpKeepalive::new().with_time(QUIET).with_interval(QUIET).with_retries(MOST_PROBES);
    let _ = SockRef::from(control).set_tcp_keepalive(&keepalive);
    let _ = sys::limit_silence(control, limit);
}

/// Asks again at once where the last question has no answer yet: it may have been lost in a queue
/// that the test itself fills, and the kernel asks once a second only. Setting the time again
/// makes it look at the clock (`tcp_sock_set_keepidle_locked`, net/ipv4/tcp.c).
pub(crate) fn ask(control: &TcpStream) {
    if sys::tcp_silence(control).is_some_and(|silence| silence > QUIET) {
        let keepalive = TcpKeepalive::new().with_time(QUIET);
        let _ = SockRef::from(control).set_tcp_keepalive(&keepalive);
    }
}

impl Control {
    /// The client's next byte. Safe to give up at any time: a byte is read or it is not.
    pub(super) async fn state(&mut self) -> Result<State, Broken> {
        let mut byte = [0];
        match self.0.read(&mut byte).await {
            Ok(0) => Err(Broken::Closed),
            Ok(_) => State::from_byte(byte[0]).ok_or(Broken::Unknown(byte[0])),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Err(Broken::Closed),
            Err(e) => Err(e.into()),
        }
    }

    /// A document's body, of at most `most` bytes, within `limit`.
    pub(super) async fn document(
        &mut self,
        most: usize,
        limit: Duration,
    ) -> Result<Vec<u8>, Broken> {
        let read = async {
            let mut prefix = [0; PREFIX_BYTES];
            self.0.read_exact(&mut prefix).await?;
            let mut body = vec![0; frame::body_length(prefix, most)?];
            self.0.read_exact(&mut body).await?;
            Ok(body)
        };
        match timeout(limit, read).await {
            Err(_) => Err(Broken::Silent),
            Ok(Err(Broken::Io(e))) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Broken::Closed)
            }
            Ok(result) => result,
        }
    }

    pub(super) async fn bytes(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        match timeout(TALK_LIMIT, self.0.write_all(bytes)).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Broken::Silent),
        }
    }

    pub(super) async fn say(&mut self, states: &[State]) -> Result<(), Broken> {
        let bytes: Vec<u8> = states.iter().map(|state| state.byte()).collect();
        self.bytes(&bytes).await
    }

    /// Says why there is no test, and closes.
    pub(super) async fn fail(mut self, failure: Failure) {
        let _ = self.bytes(&failure.encode()).await;
        self.close().await;
    }

    /// Closes so that nothing said is lost: what the other end has sent is read first, as unread
    /// bytes would turn the close into a reset.
    pub(super) async fn close(mut self) {
        let _ = self.0.shutdown().await;
        read_out(&mut self.0).await;
    }
}
