//! Control connections: frames in and out, with deadlines.

use std::io;
use std::time::Duration;

use linerate_wire::native::frame::{self, FrameError, PREFIX_OCTETS};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver};

/// A peer that takes longer than this to read a message is gone.
const WRITE_LIMIT: Duration = Duration::from_secs(3);
/// Messages read ahead of the one who handles them.
const READ_AHEAD: usize = 64;

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
/// without losing half of it. The last item is the error that ended it.
pub(crate) fn read_all<T: DeserializeOwned + Send + 'static>(
    mut stream: impl AsyncRead + Unpin + Send + 'static,
) -> Receiver<Result<T, ControlError>> {
    let (tell, told) = mpsc::channel(READ_AHEAD);
    tokio::spawn(async move {
        loop {
            let message = read_message(&mut stream).await;
            let last = message.is_err();
            if tell.send(message).await.is_err() || last {
                return;
            }
        }
    });
    told
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
