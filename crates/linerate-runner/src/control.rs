//! Control connections: frames in and out, with deadlines.

use std::io;
use std::time::Duration;

pub(crate) use linerate_dialect::control::{ControlError, decode};
use linerate_dialect::control::{WRITE_LIMIT_NS, encode};
use linerate_wire::native::auth::{Seal, Unseal};
use linerate_wire::native::frame::{self, PREFIX_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver};

/// A peer that takes longer than this to read a message is gone.
const WRITE_LIMIT: Duration = Duration::from_nanos(WRITE_LIMIT_NS);
/// The last word has this long to reach the peer before the connection is closed for good, whatever the
/// peer does.
pub(crate) const FAREWELL_LIMIT: Duration = Duration::from_millis(500);
/// Messages read ahead of the one who handles them: half a megabyte at most.
const READ_AHEAD: usize = 8;

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
    mut seal: Option<Unseal>,
) -> Receiver<Result<T, ControlError>> {
    let (sender, messages) = mpsc::channel(READ_AHEAD);
    tokio::spawn(async move {
        loop {
            let body = tokio::select! {
                body = read_body(&mut stream) => body,
                () = sender.closed() => break,
            };
            let message = body.and_then(|body| decode(seal.as_mut(), &body));
            let last = message.is_err();
            if sender.send(message).await.is_err() || last {
                break;
            }
        }
        read_out(&mut stream).await;
    });
    messages
}

/// Reads what a peer still sends until it closes, for a moment: unread bytes would turn this end's close
/// into a reset, and the last word could be lost.
pub(crate) async fn read_out(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = [0; 256];
    let read = async { while matches!(stream.read(&mut rest).await, Ok(n) if n > 0) {} };
    let _ = tokio::time::timeout(FAREWELL_LIMIT, read).await;
}
