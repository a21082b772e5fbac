//! `gso`: the kernel, or the card, cuts one buffer into a train of datagrams.

use std::io;

use socket2::Socket;

use super::batch::SendArrays;
use super::socket::SocketCalls;
use super::{Duty, SendBatch, Taken};
use crate::sys;

/// Most datagrams in one train: `UDP_MAX_SEGMENTS` since Linux 6.9. An older kernel refuses more
/// than 64 with `EINVAL`, and is asked for no more from then on.
const MAX_SEGMENTS: usize = 128;

/// `UDP_SEGMENT`, several trains a `sendmmsg`; `recvmmsg` with `UDP_GRO`.
#[derive(Debug)]
pub(super) struct Gso {
    arrays: SendArrays,
    segment: usize,
    max_segments: usize,
}

impl Default for Gso {
    fn default() -> Self {
        Self { arrays: SendArrays::default(), segment: 0, max_segments: MAX_SEGMENTS }
    }
}

impl SocketCalls for Gso {
    const NAME: &'static str = "gso";
    const MERGED: usize = MAX_SEGMENTS;

    fn prepare(&self, socket: &Socket, duty: Duty) -> io::Result<()> {
        match duty {
            Duty::Receive => sys::merge_on_receive(socket),
            // Whether the kernel knows it at all; what it segments is seen with the first train.
            Duty::Send | Duty::Both => sys::segment_on_send(socket, 0),
        }
    }

    fn max_batch(&self) -> usize {
        self.max_segments * super::batch::MAX_MESSAGES
    }

    fn max_train(&self) -> usize {
        self.max_segments
    }

    fn send(&mut self, socket: &Socket, batch: &SendBatch<'_>) -> io::Result<Taken> {
        if self.segment != batch.segment {
            let segment = u16::try_from(batch.segment).unwrap_or(u16::MAX);
            sys::segment_on_send(socket, segment)?;
            self.segment = batch.segment;
        }
        let train = batch.train.clamp(1, self.max_segments);
        match self.arrays.send(socket, batch.bytes, train * batch.segment) {
            Ok(trains) => {
                let bytes = (trains * train * batch.segment).min(batch.bytes.len());
                Ok(Taken { datagrams: bytes.div_ceil(batch.segment) })
            }
            Err(error) => {
                if error.raw_os_error() == Some(libc::EINVAL) && train > MAX_SEGMENTS / 2 {
                    self.max_segments = MAX_SEGMENTS / 2;
                }
                if self.is_refusal(&error) {
                    // Whoever goes on with this socket must find it as it was.
                    let _ = sys::segment_on_send(socket, 0);
                    self.segment = 0;
                }
                Err(error)
            }
        }
    }

    /// `EIO` from a device without checksum offload, `EINVAL` for too many segments or no checksum,
    /// `EMSGSIZE` for segments that do not fit the MTU (a datagram sent alone would be fragmented),
    /// and the like.
    fn is_refusal(&self, error: &io::Error) -> bool {
        matches!(
            error.raw_os_error(),
            Some(
                libc::EIO
                    | libc::EINVAL
                    | libc::EMSGSIZE
                    | libc::EOPNOTSUPP
                    | libc::ENOPROTOOPT
                    | libc::ENOSYS
            )
        )
    }
}
