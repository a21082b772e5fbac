//! Control connections: frames in and out, with deadlines.

use std::io;
use std::time::Duration;

use linerate_wire::native::frame::{self, FrameError, PREFIX_OCTETS};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::Instant;

/// A peer that takes longer than this to read a message is gone.
const WRITE_LIMIT: Duration = Duration::from_secs(3);
/// The last word has this long to reach the peer before the connection is closed for good, whatever the
/// peer does.
pub(crate) const FAREWELL_LIMIT: Duration = Duration::from_millis(500);
/// Messages read ahead of the one who handles them: half a megabyte at most.
const READ_AHEAD: usize = 8;

/// Why a control connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The peer closed it.
    #[error("the other end closed the control connection")]
    Closed,
    /// It took too long.
    #[error("the other end was silent for too long")]
    Silent,
    /// The system reports.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Not this protocol.
    #[error("{0}")]
    Frame(#[from] FrameError),
}

pub(crate) async fn write_message<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), ControlError> {
    write_octets(stream, &frame::encode(message)?).await
}

/// Octets of whole frames.
pub(crate) async fn write_octets(
    stream: &mut (impl AsyncWrite + Unpin),
    octets: &[u8],
) -> Result<(), ControlError> {
    match tokio::time::timeout(WRITE_LIMIT, stream.write_all(octets)).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(ControlError::Silent),
    }
}

/// Octets that may wait for a peer that does not read.
const MOST_WAITING_OCTETS: usize = 1 << 20;

/// Messages on their way out while somebody waits for other things too: putting one in never waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    octets: Vec<u8>,
    moved: Instant,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self { octets: Vec::new(), moved: Instant::now() }
    }

    /// Octets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.octets.len()
    }

    /// Puts a message in.
    ///
    /// # Errors
    /// When the peer has left too many octets unread.
    pub(crate) fn put<T: Serialize>(&mut self, message: &T) -> Result<(), ControlError> {
        let frame = frame::encode(message)?;
        if self.octets.is_empty() {
            self.moved = Instant::now();
        }
        if self.octets.len() + frame.len() > MOST_WAITING_OCTETS {
            return Err(ControlError::Silent);
        }
        self.octets.extend(frame);
        Ok(())
    }

    /// Hands some of it to the kernel, and never ends while there is nothing to hand over. May be given
    /// up at any time.
    ///
    /// # Errors
    /// When the connection is gone, or the peer has read nothing for too long.
    pub(crate) async fn carry(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), ControlError> {
        if self.octets.is_empty() {
            return std::future::pending().await;
        }
        match tokio::time::timeout_at(self.moved + WRITE_LIMIT, stream.write(&self.octets)).await {
            Ok(Ok(0)) => Err(ControlError::Closed),
            Ok(Ok(octets)) => {
                self.octets.drain(..octets);
                self.moved = Instant::now();
                Ok(())
            }
            Ok(Err(e)) => Err(e.into()),
            Err(_) => Err(ControlError::Silent),
        }
    }

    /// Hands all of it over.
    ///
    /// # Errors
    /// As [`Self::carry`].
    pub(crate) async fn empty(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), ControlError> {
        while !self.octets.is_empty() {
            self.carry(stream).await?;
        }
        Ok(())
    }
}

pub(crate) async fn read_message<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<T, ControlError> {
    Ok(frame::decode(&read_body(stream).await?)?)
}

/// The body of a frame.
pub(crate) async fn read_body(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Vec<u8>, ControlError> {
    let mut prefix = [0; PREFIX_OCTETS];
    match stream.read_exact(&mut prefix).await {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(ControlError::Closed),
        Err(e) => return Err(e.into()),
    }
    let mut body = vec![0; frame::body_length(prefix)?];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

/// Reads messages in a task of its own, so that waiting for one can be given up at any time
/// without losing half of it. The last item is the error that ended it. When nobody waits any more, the
/// task ends too, and its half of the connection with it.
pub(crate) fn read_all<T: DeserializeOwned + Send + 'static>(
    mut stream: impl AsyncRead + Unpin + Send + 'static,
) -> Receiver<Result<T, ControlError>> {
    let (tell, told) = mpsc::channel(READ_AHEAD);
    tokio::spawn(async move {
        loop {
            let message = tokio::select! {
                message = read_message(&mut stream) => message,
                () = tell.closed() => break,
            };
            let last = message.is_err();
            if tell.send(message).await.is_err() {
                break;
            }
            if last {
                return;
            }
        }
        read_out(&mut stream).await;
    });
    told
}

/// Reads what a peer still sends until it closes, for a moment: unread octets would turn this end's close
/// into a reset, and the last word could be lost.
pub(crate) async fn read_out(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = [0; 256];
    let read = async { while matches!(stream.read(&mut rest).await, Ok(n) if n > 0) {} };
    let _ = tokio::time::timeout(FAREWELL_LIMIT, read).await;
}

/// The next message, at the latest after `limit`.
pub(crate) async fn next<T>(
    messages: &mut Receiver<Result<T, ControlError>>,
    limit: Duration,
) -> Result<T, ControlError> {
    match tokio::time::timeout(limit, messages.recv()).await {
        Ok(Some(message)) => message,
        Ok(None) => Err(ControlError::Closed),
        Err(_) => Err(ControlError::Silent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_put_in_never_waits_and_never_tears() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut out = Outbox::new();
        let text = "x".repeat(50_000);
        let fits = (0..99).take_while(|_| out.put(&text).is_ok()).count();
        assert_eq!(fits, MOST_WAITING_OCTETS / (PREFIX_OCTETS + 50_002));
        // Nobody reads: carrying is given up again and again, in the middle of a message.
        for _ in 0..3 {
            let limit = Duration::from_millis(5);
            while tokio::time::timeout(limit, out.carry(&mut near)).await.is_ok() {}
        }
        assert!(out.waiting() > (fits - 1) * 50_006, "nobody read");
        let reading = tokio::spawn(async move {
            for _ in 0..fits {
                assert_eq!(read_message::<String>(&mut far).await.expect("whole").len(), 50_000);
            }
        });
        out.empty(&mut near).await.expect("somebody reads");
        reading.await.expect("whole messages");
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (mut near, _far) = tokio::io::duplex(8);
        let mut out = Outbox::new();
        out.put(&"some text that does not fit").expect("room");
        let begun = Instant::now();
        assert!(matches!(out.empty(&mut near).await, Err(ControlError::Silent)));
        assert!(begun.elapsed() >= WRITE_LIMIT);
    }
}
