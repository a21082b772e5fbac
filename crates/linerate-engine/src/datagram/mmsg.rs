//! `mmsg`: many datagrams a call.

use std::io;

use socket2::Socket;

use super::batch::SendArrays;
use super::{RecvBatch, RecvEngine, SendBatch, SendEngine};

/// Most datagrams in one `sendmmsg`.
pub(super) const MAX_MESSAGES: usize = 64;

/// `sendmmsg`, one message a datagram.
#[derive(Debug, Default)]
pub(super) struct Mmsg {
    arrays: SendArrays,
}

impl SendEngine for Mmsg {
    fn name(&self) -> &'static str {
        "mmsg"
    }

    fn max_batch(&self) -> usize {
        MAX_MESSAGES
    }

    fn send(&mut self, socket: &Socket, batch: &SendBatch<'_>) -> io::Result<usize> {
        self.arrays.send(socket, batch.bytes, batch.segment.max(1))
    }
}

/// `recvmmsg`.
#[derive(Debug)]
pub(super) struct RecvMany {
    pub(super) name: &'static str,
}

impl RecvEngine for RecvMany {
    fn name(&self) -> &'static str {
        self.name
    }

    fn max_messages(&self, batch: &RecvBatch) -> usize {
        batch.capacity()
    }

    fn recv(&mut self, socket: &Socket, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.receive(socket, usize::MAX)
    }
}
