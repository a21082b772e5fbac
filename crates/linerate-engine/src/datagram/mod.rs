//! Engines: ways to hand datagrams to the kernel and to take them from it.
//!
//! A new engine is one file here, one line in [`sender`] or [`receiver`], and one line in
//! `conformance.rs`.

mod batch;
#[cfg(test)]
mod conformance;
mod gso;
mod mmsg;
mod send;

use std::io;

use linerate_model::local_errors::Errno;
use linerate_model::plan::EngineChoice;
use socket2::Socket;

pub use batch::{Message, RecvBatch};

/// Datagrams to send on a connected socket: one buffer, cut every `segment` bytes; the last may be
/// shorter.
#[derive(Debug, Clone, Copy)]
pub struct SendBatch<'a> {
    /// All payloads, one after the other.
    pub bytes: &'a [u8],
    /// Bytes of each.
    pub segment: usize,
    /// Datagrams of one train, for engines that hand over trains.
    pub train: usize,
}

/// Hands datagrams to the kernel.
pub trait SendEngine {
    /// As in `--engine` and in every record.
    fn name(&self) -> &'static str;
    /// Most datagrams that one call takes.
    fn max_batch(&self) -> usize;
    /// Most datagrams of one train. May fall with the first call: kernels differ.
    fn max_train(&self) -> usize {
        1
    }
    /// Sends what it can in one call and says how many datagrams the kernel took. Blocks as the
    /// socket does; never retries. Fewer than in `batch`: the kernel failed the next one, or train of
    /// them, and does not say why (sendmmsg(2)).
    ///
    /// # Errors
    /// When the kernel took none. See [`is_refusal`] and [`local_errno`].
    fn send(&mut self, socket: &Socket, batch: &SendBatch<'_>) -> io::Result<usize>;
}

/// Takes datagrams from the kernel.
pub trait RecvEngine {
    /// As in `--engine` and in every record.
    fn name(&self) -> &'static str;
    /// Most messages that one call puts into `batch`: after fewer, nothing more was queued.
    fn max_messages(&self, batch: &RecvBatch) -> usize;
    /// Waits for one message, as long as the socket's time-out, and takes what else is there.
    /// Returns the number of messages now in `batch`.
    ///
    /// # Errors
    /// `WouldBlock` when the time-out passed; otherwise those of recvmsg(2).
    fn recv(&mut self, socket: &Socket, batch: &mut RecvBatch) -> io::Result<usize>;
}

/// The sending engine of that name; `Auto` is the plain one.
pub fn sender(choice: EngineChoice) -> Box<dyn SendEngine> {
    match choice {
        EngineChoice::Gso => Box::new(gso::Gso::default()),
        EngineChoice::Mmsg => Box::new(mmsg::Mmsg::default()),
        EngineChoice::Send | EngineChoice::Auto => Box::new(send::Single),
    }
}

/// The receiving engine of that name. `Gso` and `Mmsg` receive alike (`recvmmsg`); whether messages
/// are merged is the socket's option.
pub fn receiver(choice: EngineChoice) -> Box<dyn RecvEngine> {
    match choice {
        EngineChoice::Send => Box::new(send::Single),
        EngineChoice::Gso => Box::new(mmsg::RecvMany { name: "gso" }),
        EngineChoice::Mmsg | EngineChoice::Auto => Box::new(mmsg::RecvMany { name: "mmsg" }),
    }
}

/// Whether an error means that the kernel or the card cannot do what the engine asks, so that
/// another engine must go on: `EIO` from a device without checksum offload, `EINVAL` for too many
/// segments or no checksum, `EMSGSIZE` for segments that do not fit the MTU (a datagram sent alone
/// would be fragmented), and the like.
pub fn is_refusal(error: &io::Error) -> bool {
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

/// With what errno this host itself dropped the datagram, or the train, of a call that failed. `None`
/// where it did not: a signal came first, or the error is the peer's or the path's answer to an
/// earlier datagram. Where [`Errno::may_answer_earlier`], only the error queue tells the two apart.
pub fn local_errno(error: &io::Error) -> Option<Errno> {
    Some(match error.raw_os_error()? {
        libc::EINTR
        | libc::ECONNREFUSED
        | libc::ENOPROTOOPT
        | libc::EPROTO
        | libc::EMSGSIZE
        | libc::EBADF
        | libc::ENOTSOCK
        | libc::EPIPE
        | libc::EFAULT => return None,
        libc::EPERM => Errno::Eperm,
        libc::EACCES => Errno::Eacces,
        libc::EINVAL => Errno::Einval,
        libc::EAGAIN => Errno::Eagain,
        libc::ENOMEM => Errno::Enomem,
        libc::ENOBUFS => Errno::Enobufs,
        libc::ENETDOWN => Errno::Enetdown,
        libc::ENETUNREACH => Errno::Enetunreach,
        libc::EHOSTUNREACH => Errno::Ehostunreach,
        _ => Errno::Other,
    })
}
