//! What the drivers of both ends share: the control connection as a conversation knows it.

use std::time::Duration;

use linerate_dialect::control::ControlError;
use linerate_dialect::{Conversation, Input};
use linerate_engine::clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::control::read_out;

/// Control bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// A control connection, where the dialect has one.
pub(crate) struct Line {
    halves: Option<(OwnedReadHalf, OwnedWriteHalf)>,
    bytes: Vec<u8>,
}

/// What came of waiting for it.
pub(crate) enum Came {
    /// So many bytes.
    Bytes(usize),
    Carried(usize),
    Lost(ControlError),
    /// The conversation's deadline.
    Time,
}

impl Line {
    pub(crate) fn new(control: Option<TcpStream>) -> Self {
        let bytes = vec![0; if control.is_some() { READ_BYTES } else { 0 }];
        Self { halves: control.map(TcpStream::into_split), bytes }
    }

    pub(crate) fn stream(&self) -> Option<&TcpStream> {
        self.halves.as_ref().map(|(_, write)| write.as_ref())
    }

    /// The connection again, for what follows on it.
    pub(crate) fn into_stream(self) -> Option<TcpStream> {
        let (read, write) = self.halves?;
        read.reunite(write).ok()
    }

    /// Reads, writes or waits as the conversation wants. May be given up at any time.
    pub(crate) async fn next(&mut self, conversation: &impl Conversation) -> Came {
        let outgoing = conversation.outgoing();
        let Some((read, write)) = &mut self.halves else {
            until(conversation.deadline_ns()).await;
            return Came::Time;
        };
        tokio::select! {
            read = read.read(&mut self.bytes), if conversation.reads() => match read {
                Ok(0) => Came::Lost(ControlError::Closed),
                Ok(bytes) => Came::Bytes(bytes),
                Err(e) => Came::Lost(ControlError::Io(e)),
            },
            written = write.write(outgoing), if !outgoing.is_empty() => match written {
                Ok(0) => Came::Lost(ControlError::Closed),
                Ok(bytes) => Came::Carried(bytes),
                Err(e) => Came::Lost(ControlError::Io(e)),
            },
            () = until(conversation.deadline_ns()) => Came::Time,
        }
    }

    /// The same as an input.
    pub(crate) fn input(&self, came: Came) -> Input<'_> {
        match came {
            Came::Bytes(bytes) => Input::Bytes(self.bytes.get(..bytes).unwrap_or_default()),
            Came::Carried(bytes) => Input::Carried(bytes),
            Came::Lost(error) => Input::Lost(error),
            Came::Time => Input::Time,
        }
    }

    /// This end says nothing more; the peer's last word may still be on its way.
    pub(crate) fn close(self) {
        if let Some((mut read, _)) = self.halves {
            tokio::spawn(async move { read_out(&mut read).await });
        }
    }
}

async fn until(at_ns: Option<u64>) {
    match at_ns {
        Some(at_ns) => {
            let left = at_ns.saturating_sub(clock::monotonic_ns());
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
        None => std::future::pending().await,
    }
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
