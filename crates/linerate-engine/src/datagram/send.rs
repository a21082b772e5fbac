//! `send`: one datagram a call.

use std::io;

use socket2::Socket;

use super::socket::SocketCalls;
use super::{SendBatch, Taken};

/// `send` and `recvmmsg` for one.
#[derive(Debug, Default)]
pub(super) struct Single;

impl SocketCalls for Single {
    const NAME: &'static str = "send";
    const MESSAGES: usize = 1;

    fn max_batch(&self) -> usize {
        1
    }

    fn send(&mut self, socket: &Socket, batch: &SendBatch<'_>) -> io::Result<Taken> {
        let end = batch.segment.min(batch.bytes.len());
        socket.send(&batch.bytes[..end]).map(|_| Taken { datagrams: 1 })
    }
}
