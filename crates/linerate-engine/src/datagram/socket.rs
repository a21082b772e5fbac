//! Ports that are connected UDP sockets: what is the same for all of them.

use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::Arc;

use socket2::Socket;

use super::batch::{MAX_MESSAGES, RecvArrays};
use super::{
    Arrivals, Capabilities, Config, Context, Counters, DatagramPort, Duty, Engine, SendBatch,
    Stamps, Taken,
};
use crate::sys;
use crate::system::DROPS_UNREAD;

/// The system calls in which engines over sockets differ.
pub(super) trait SocketCalls: Default {
    /// As in `--engine`.
    const NAME: &'static str;
    /// Most messages that one call receives.
    const MESSAGES: usize = MAX_MESSAGES;
    /// Most datagrams that a message may be.
    const MERGED: usize = 1;

    /// Whether this kernel has what it takes.
    fn prepare(&self, _socket: &Socket, _duty: Duty) -> io::Result<()> {
        Ok(())
    }

    fn max_batch(&self) -> usize;

    fn max_train(&self) -> usize {
        1
    }

    fn send(&mut self, socket: &Socket, batch: &SendBatch<'_>) -> io::Result<Taken>;

    fn is_refusal(&self, _error: &io::Error) -> bool {
        false
    }
}

/// An engine over sockets.
pub(super) struct Sockets<S>(PhantomData<fn() -> S>);

impl<S> Sockets<S> {
    pub(super) const NEW: Self = Self(PhantomData);
}

impl<S: SocketCalls + 'static> Engine for Sockets<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn open(&self, config: &Config, context: &Context) -> io::Result<Box<dyn DatagramPort>> {
        let socket = context.socket.clone().ok_or(io::ErrorKind::NotConnected)?;
        let is_v6 = context.remote.is_ipv6();
        let (sends, receives) = (config.send_buffer, config.receive_buffer);
        sys::set_buffers(&*socket, sends, receives, config.most_forced);
        if let Some(dscp) = config.dscp {
            let _ = sys::set_dscp(&*socket, is_v6, dscp);
        }
        if !config.checksum && !is_v6 {
            sys::without_checksum(&*socket).map_err(|e| {
                io::Error::new(e.kind(), format!("cannot switch UDP checksums off: {e}"))
            })?;
        }
        let waits = !config.receive_wait.is_zero();
        socket.set_nonblocking(!waits)?;
        if waits {
            socket.set_read_timeout(Some(config.receive_wait))?;
            socket.set_write_timeout(Some(config.send_wait).filter(|wait| !wait.is_zero()))?;
        }
        if config.duty != Duty::Receive {
            sys::report_errors(&*socket, is_v6);
        }
        let stamps = match config.stamps {
            true => match sys::describe_messages(&*socket) {
                Ok(()) => Stamps::Realtime,
                Err(e) => Stamps::Absent(format!("SO_TIMESTAMPNS: {e}")),
            },
            false => Stamps::Absent("none were asked for".into()),
        };
        let calls = S::default();
        calls.prepare(&socket, config.duty)?;
        let (room, messages) = match config.duty {
            Duty::Receive if S::MERGED > 1 => (config.datagram * S::MERGED, S::MESSAGES),
            Duty::Receive => (config.datagram + BEYOND, S::MESSAGES),
            Duty::Send | Duty::Both => (config.datagram + BEYOND, 1),
        };
        let merges = config.duty == Duty::Receive && S::MERGED > 1;
        let contents = config.contents || config.duty != Duty::Receive || !DROPS_UNREAD;
        // What came before the socket was connected may be anybody's; from then on the kernel leaves others out.
        // Where nobody says how many these are, all are looked at.
        let queued = sys::receive_queue(&*socket)
            .map_or(usize::MAX, |bytes| bytes.div_ceil(LEAST_CHARGED) as usize);
        let arrays = RecvArrays::new(room, messages, contents).only_from(context.remote, queued);
        let one_by_one = messages == 1 && !config.stamps;
        Ok(Box::new(SocketPort { socket, is_v6, stamps, merges, one_by_one, arrays, calls }))
    }
}

/// Bytes of room beyond the awaited datagram, so that a longer one is seen to be longer.
const BEYOND: usize = 64;
/// No message that waits takes less of the kernel's memory, in bytes: its `sk_buff` alone is as large.
const LEAST_CHARGED: u32 = 192;

/// A port that is a connected UDP socket.
#[derive(Debug)]
struct SocketPort<S> {
    socket: Arc<Socket>,
    is_v6: bool,
    stamps: Stamps,
    merges: bool,
    /// One message a call, without stamps.
    one_by_one: bool,
    arrays: RecvArrays,
    calls: S,
}

impl<S> Drop for SocketPort<S> {
    /// Who goes on with this socket, with the last words of its stream, must find it as it was: what is longer than the
    /// segment of the last call would leave it in pieces.
    fn drop(&mut self) {
        let _ = sys::segment_on_send(&*self.socket, 0);
    }
}

impl<S: SocketCalls> DatagramPort for SocketPort<S> {
    fn capabilities(&self) -> Capabilities {
        let known = |bytes: u64| Some(bytes).filter(|bytes| *bytes > 0);
        Capabilities {
            max_batch: self.calls.max_batch(),
            max_train: self.calls.max_train(),
            merges: self.merges,
            stamps: self.stamps.clone(),
            send_buffer: known(sys::send_buffer(&*self.socket)),
            receive_buffer: known(sys::receive_buffer(&*self.socket)),
        }
    }

    fn send(&mut self, batch: &SendBatch<'_>) -> io::Result<Taken> {
        self.calls.send(&self.socket, batch)
    }

    fn recv(&mut self) -> io::Result<Arrivals<'_>> {
        if self.one_by_one && !self.arrays.is_unsure() {
            return self.arrays.receive_one(&self.socket);
        }
        self.arrays.receive(&self.socket)
    }

    fn wait_readable(&mut self, until_ns: Option<u64>, now_ns: u64) -> bool {
        sys::wait_readable(self.socket.as_fd(), until_ns, now_ns)
    }

    fn counters(&self) -> Counters {
        Counters {
            drops: sys::socket_drops(&*self.socket),
            unread_bytes: sys::receive_queue(&*self.socket),
            path_mtu: sys::path_mtu(&*self.socket, self.is_v6),
        }
    }

    fn take_errors(&mut self) -> bool {
        sys::take_errors(&self.socket)
    }

    fn is_refusal(&self, error: &io::Error) -> bool {
        self.calls.is_refusal(error)
    }
}
