//! `mmsg`: many datagrams a call.

use std::io;

use socket2::Socket;

use super::batch::{MAX_MESSAGES, SendArrays};
use super::socket::SocketCalls;
use super::{Duty, SendBatch, Taken};

/// `sendmmsg` and `recvmmsg`, one message a datagram.
#[derive(Debug, Default)]
pub(super) struct Mmsg {
    arrays: SendArrays,
}

impl SocketCalls for Mmsg {
    const NAME: &'static str = "mmsg";

    fn prepare(&self, _socket: &Socket, _duty: Duty) -> io::Result<()> {
        crate::system::has_batches()
    }

    fn max_batch(&self) -> usize {
        MAX_MESSAGES
    }

    fn send(&mut self, socket: &Socket, batch: &SendBatch<'_>) -> io::Result<Taken> {
        let datagrams = self.arrays.send(socket, batch.bytes, batch.segment.max(1))?;
        Ok(Taken { datagrams })
    }
}
