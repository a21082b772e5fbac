//! Engines: ways to carry the datagrams of one end of one stream.
//!
//! An [`Engine`] opens a [`DatagramPort`]; what the port can do, counts and stamps with is asked of
//! the port. It need not be a socket: a ring shared with a card is one as well, and so is a queue in
//! memory. A new engine is one file here, one line in [`ENGINES`] and one in `conformance.rs`.

mod arrivals;
mod batch;
#[cfg(test)]
mod conformance;
mod gso;
mod ladder;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
mod mmsg;
mod send;
mod socket;
#[cfg(test)]
mod veth;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_model::local_errors::Errno;
use socket2::Socket;

pub use arrivals::{ArrivalClock, Arrivals, Message, Slot, Stamps};
pub use ladder::Ladder;
use socket::Sockets;

/// All engines. Where one cannot be opened, or is refused while it runs, the next goes on.
pub static ENGINES: &[&dyn Engine] =
    &[&Sockets::<gso::Gso>::NEW, &Sockets::<mmsg::Mmsg>::NEW, &Sockets::<send::Single>::NEW];

/// A way to carry datagrams.
pub trait Engine: Sync {
    /// As in `--engine` and in every record.
    fn name(&self) -> &'static str;

    /// A port for one end of one stream. What is set on the way is what the next engine may find set,
    /// if it does no harm there.
    ///
    /// # Errors
    /// When this system, the process's rights or the stream do not allow it: another engine may do.
    fn open(&self, config: &Config, context: &Context) -> io::Result<Box<dyn DatagramPort>>;
}

/// What an end does with its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Sends; receives a late word of the stream's opening at most.
    Send,
    /// Receives; answers a late word of the stream's opening at most.
    Receive,
    /// Sends one datagram a call and receives one a call.
    Both,
}

/// What a test asks of a port.
#[derive(Debug, Clone)]
pub struct Config {
    /// What it is for.
    pub duty: Duty,
    /// Largest payload that is sent or awaited, in bytes.
    pub datagram: usize,
    /// Bytes that may wait to be sent, as of `SO_SNDBUF`.
    pub send_buffer: Option<u32>,
    /// Bytes that may wait to be read, as of `SO_RCVBUF`.
    pub receive_buffer: Option<u32>,
    /// The most of these that is forced beyond the kernel's limits; `None` is all.
    pub most_forced: Option<u32>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Whether UDP checksums are made; only IPv4 can do without.
    pub checksum: bool,
    /// Whether arrivals should be stamped.
    pub stamps: bool,
    /// Whether what arrives is looked at. Otherwise a port that only receives may say nothing of it but its length.
    pub contents: bool,
    /// How long one call may wait for a datagram; zero does not wait.
    pub receive_wait: Duration,
    /// How long one call may wait for room; zero does not wait.
    pub send_wait: Duration,
}

/// Where a port is opened.
#[derive(Clone)]
pub struct Context {
    /// The connected socket over which the stream was opened. It holds the stream's port in the
    /// kernel for as long as this lives, also for an engine that carries nothing over it.
    pub socket: Option<Arc<Socket>>,
    /// This end of the stream.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The core that the thread is bound to, if any: a queue of a card should be this one's.
    pub core: Option<u32>,
    /// What may be chosen from: [`ENGINES`], unless a test brings its own.
    pub engines: &'static [&'static dyn Engine],
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("local", &self.local)
            .field("remote", &self.remote)
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// For a connected socket.
    ///
    /// # Errors
    /// When it is not connected.
    pub fn of_socket(socket: Socket, core: Option<u32>) -> io::Result<Self> {
        let plain = |address: socket2::SockAddr| {
            let address = address.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
            io::Result::Ok(crate::sys::plain(address))
        };
        let (local, remote) = (plain(socket.local_addr()?)?, plain(socket.peer_addr()?)?);
        Ok(Self { socket: Some(Arc::new(socket)), local, remote, core, engines: ENGINES })
    }

    /// The interface that bears the local address, where an engine that goes around the kernel's
    /// sockets attaches.
    pub fn interface(&self) -> Option<String> {
        let bears = |address: &nix::ifaddrs::InterfaceAddress| {
            let address = address.address.as_ref()?;
            let v4 = address.as_sockaddr_in().map(|a| std::net::IpAddr::from(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| a.ip().into()))
        };
        let mut all = nix::ifaddrs::getifaddrs().ok()?;
        all.find(|interface| bears(interface) == Some(self.local.ip()))
            .map(|found| found.interface_name)
    }
}

/// What a port can do. Asked once it is open, and once more when the test is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Most datagrams that one call takes.
    pub max_batch: usize,
    /// Most datagrams of one train. Kernels differ, and report it by refusing: it may fall with a call that is refused.
    pub max_train: usize,
    /// Whether one message may be several datagrams that arrived together.
    pub merges: bool,
    /// With what arrivals are stamped.
    pub stamps: Stamps,
    /// Bytes that may wait to be sent, where the port knows (`SO_SNDBUF`).
    pub send_buffer: Option<u64>,
    /// Bytes that may wait to be read, where the port knows (`SO_RCVBUF`).
    pub receive_buffer: Option<u64>,
}

/// What a port has counted since it was opened, each where it counts that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages dropped for lack of room at this end (`SO_MEMINFO`; of a ring `rx_dropped` and
    /// `rx_ring_full`), modulo 2^32.
    pub drops: Option<u32>,
    /// Bytes that wait to be read, with what the kernel charges beside their payload.
    pub unread_bytes: Option<u32>,
    /// The path's MTU in bytes, as known now.
    pub path_mtu: Option<u32>,
}

/// Datagrams to send: one buffer, cut every `segment` bytes; the last may be shorter.
#[derive(Debug, Clone, Copy)]
pub struct SendBatch<'a> {
    /// All payloads, one after the other.
    pub bytes: &'a [u8],
    /// Bytes of each.
    pub segment: usize,
    /// Datagrams of one train, for engines that hand over trains.
    pub train: usize,
}

/// What a call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Datagrams. Fewer than in the batch: the next one, or train of them, failed, and nobody says why
    /// (sendmmsg(2)).
    pub datagrams: usize,
}

/// One end of one stream of datagrams.
pub trait DatagramPort {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Sends what it can in one call. Waits for room as long as it was set to; never retries.
    ///
    /// # Errors
    /// When none was taken. See [`DatagramPort::is_refusal`] and [`local_errno`].
    fn send(&mut self, batch: &SendBatch<'_>) -> io::Result<Taken>;

    /// Waits for one message as long as it was set to, and takes what else is there. What others than the far end sent is
    /// left out, so that none may be left.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came; otherwise those of recvmsg(2).
    fn recv(&mut self) -> io::Result<Arrivals<'_>>;

    /// Waits until something can be received, or `until_ns` of the monotonic clock, or 20 ms; says
    /// whether it can.
    fn wait_readable(&mut self, until_ns: Option<u64>, now_ns: u64) -> bool;

    /// What it has counted.
    fn counters(&self) -> Counters;

    /// Takes what the network said of earlier datagrams, where the port hears of it; says whether it did.
    fn take_errors(&mut self) -> bool {
        false
    }

    /// Whether an error of [`DatagramPort::send`] means that this engine can never do what is asked
    /// of it on this stream, so that another must go on. Where it takes shorter trains from then on
    /// ([`Capabilities::max_train`]) it can do that.
    fn is_refusal(&self, _error: &io::Error) -> bool {
        false
    }
}

/// With what errno this host itself dropped the datagram, or the train, of a call that failed. `None`
/// where it did not: a signal came first, or the error is the peer's or the path's answer to an
/// earlier datagram. Where [`Errno::may_answer_earlier`], only the error queue distinguishes the two.
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

/// Whether a call that sends failed because the datagram is larger than what the path, or the system, takes.
pub fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// Whether a call that receives on a connected socket failed with what the network said, by ICMP, of a datagram that was
/// sent earlier: nothing else has these, and what comes later comes all the same (`icmp_err_convert` in net/ipv4/icmp.c,
/// `icmpv6_err_convert` in net/ipv6/icmp.c).
pub fn is_of_earlier(error: &io::Error) -> bool {
    let of_icmp = [
        libc::ECONNREFUSED,
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::EHOSTDOWN,
        #[cfg(target_os = "linux")]
        libc::ENONET,
        libc::ENOPROTOOPT,
        libc::EOPNOTSUPP,
        libc::EMSGSIZE,
        libc::EPROTO,
        libc::EACCES,
    ];
    error.raw_os_error().is_some_and(|errno| of_icmp.contains(&errno))
}
