//! Control connections: frames in and out, with deadlines.

use std::io;
use std::time::Duration;

use linerate_wire::native::auth::{Seal, SealError};
use linerate_wire::native::frame::{self, FrameError, PREFIX_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
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
    /// Somebody without the key said it, or changed, repeated or left out something.
    #[error(
        "a control message is not proven to be the other end's, in its place: somebody changed, \
         repeated, left out or added one"
    )]
    Unproven,
}

impl From<SealError> for ControlError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Unproven => Self::Unproven,
            SealError::Frame(error) => Self::Frame(error),
        }
    }
}

/// A message as a frame, sealed where there is a key.
fn encode<T: Serialize>(seal: Option<&mut Seal>, message: &T) -> Result<Vec<u8>, FrameError> {
    match seal {
        Some(seal) => seal.seal(message),
        None => frame::encode(message),
    }
}

/// A message from a frame's body, proven where there is a key.
pub(crate) fn decode<T: DeserializeOwned>(
    seal: Option<&mut Seal>,
    body: &[u8],
) -> Result<T, ControlError> {
    match seal {
        Some(seal) => Ok(seal.open(body)?),
        None => Ok(frame::decode(body)?),
    }
}

pub(crate) async fn write_message<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    seal: Option<&mut Seal>,
    message: &T,
) -> Result<(), ControlError> {
    write_bytes(stream, &encode(seal, message)?).await
}

/// Bytes of whole frames.
pub(crate) async fn write_bytes(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> Result<(), ControlError> {
    match tokio::time::timeout(WRITE_LIMIT, stream.write_all(bytes)).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(ControlError::Silent),
    }
}

/// Bytes that may wait for a peer that does not read.
const MOST_WAITING_BYTES: usize = 1 << 20;

/// The way to the other end. Messages may wait in it while somebody waits for other things too: putting
/// one in never waits.
#[derive(Debug)]
pub(crate) struct Outbox<W = OwnedWriteHalf> {
    stream: W,
    seal: Option<Seal>,
    bytes: Vec<u8>,
    moved: Instant,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    pub(crate) fn new(stream: W, seal: Option<Seal>) -> Self {
        Self { stream, seal, bytes: Vec::new(), moved: Instant::now() }
    }

    /// The connection's half that it writes to.
    pub(crate) fn stream(&self) -> &W {
        &self.stream
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// Puts a message in.
    ///
    /// # Errors
    /// When the peer has left too many bytes unread.
    pub(crate) fn put<T: Serialize>(&mut self, message: &T) -> Result<(), ControlError> {
        let frame = encode(self.seal.as_mut(), message)?;
        if self.bytes.is_empty() {
            self.moved = Instant::now();
        }
        if self.bytes.len() + frame.len() > MOST_WAITING_BYTES {
            return Err(ControlError::Silent);
        }
        self.bytes.extend(frame);
        Ok(())
    }

    /// Hands some of it to the kernel, and never ends while there is nothing to hand over. May be given
    /// up at any time.
    ///
    /// # Errors
    /// When the connection is gone, or the peer has read nothing for too long.
    pub(crate) async fn carry(&mut self) -> Result<(), ControlError> {
        if self.bytes.is_empty() {
            return std::future::pending().await;
        }
        let written = self.stream.write(&self.bytes);
        match tokio::time::timeout_at(self.moved + WRITE_LIMIT, written).await {
            Ok(Ok(0)) => Err(ControlError::Closed),
            Ok(Ok(bytes)) => {
                self.bytes.drain(..bytes);
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
    pub(crate) async fn empty(&mut self) -> Result<(), ControlError> {
        while !self.bytes.is_empty() {
            self.carry().await?;
        }
        Ok(())
    }

    /// Hands a message over, after all that waits.
    ///
    /// # Errors
    /// When the connection is gone, or the peer takes too long to read it.
    pub(crate) async fn say<T: Serialize>(&mut self, message: &T) -> Result<(), ControlError> {
        self.put(message)?;
        let emptied = tokio::time::timeout(WRITE_LIMIT, self.empty()).await;
        emptied.unwrap_or(Err(ControlError::Silent))
    }
}

/// The body of a frame.
pub(crate) async fn read_body(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Vec<u8>, ControlError> {
    let mut prefix = [0; PREFIX_BYTES];
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
    mut seal: Option<Seal>,
) -> Receiver<Result<T, ControlError>> {
    let (tell, told) = mpsc::channel(READ_AHEAD);
    tokio::spawn(async move {
        loop {
            let body = tokio::select! {
                body = read_body(&mut stream) => body,
                () = tell.closed() => break,
            };
            let message = body.and_then(|body| decode(seal.as_mut(), &body));
            let last = message.is_err();
            if tell.send(message).await.is_err() || last {
                break;
            }
        }
        read_out(&mut stream).await;
    });
    told
}

/// Reads what a peer still sends until it closes, for a moment: unread bytes would turn this end's close
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
        let (near, mut far) = tokio::io::duplex(64);
        let mut out = Outbox::new(near, None);
        let text = "x".repeat(50_000);
        let fits = (0..99).take_while(|_| out.put(&text).is_ok()).count();
        assert_eq!(fits, MOST_WAITING_BYTES / (PREFIX_BYTES + 50_002));
        // Nobody reads: carrying is given up again and again, in the middle of a message.
        for _ in 0..3 {
            let limit = Duration::from_millis(5);
            while tokio::time::timeout(limit, out.carry()).await.is_ok() {}
        }
        assert!(out.waiting() > (fits - 1) * 50_006, "nobody read");
        let reading = tokio::spawn(async move {
            for _ in 0..fits {
                let body = read_body(&mut far).await.expect("whole");
                assert_eq!(decode::<String>(None, &body).expect("a text").len(), 50_000);
            }
        });
        out.empty().await.expect("somebody reads");
        reading.await.expect("whole messages");
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (near, _far) = tokio::io::duplex(8);
        let mut out = Outbox::new(near, None);
        out.put(&"some text that does not fit").expect("room");
        let begun = Instant::now();
        assert!(matches!(out.empty().await, Err(ControlError::Silent)));
        assert!(begun.elapsed() >= WRITE_LIMIT);
    }
}
