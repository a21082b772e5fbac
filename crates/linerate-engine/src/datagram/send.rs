//! `send`: one datagram a call.

use std::io;

use socket2::Socket;

use super::{RecvBatch, RecvEngine, SendBatch, SendEngine};

/// One datagram a call, both ways.
#[derive(Debug, Default)]
pub(super) struct Single;

impl SendEngine for Single {
    fn name(&self) -> &'static str {
        "send"
    }

    fn max_batch(&self) -> usize {
        1
    }

    fn send(&mut self, socket: &Socket, batch: &SendBatch<'_>) -> io::Result<usize> {
        let end = batch.segment.min(batch.bytes.len());
        socket.send(&batch.bytes[..end]).map(|_| 1)
    }
}

impl RecvEngine for Single {
    fn name(&self) -> &'static str {
        "send"
    }

    fn max_messages(&self, _: &RecvBatch) -> usize {
        1
    }

    fn recv(&mut self, socket: &Socket, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.receive(socket, 1)
    }
}
