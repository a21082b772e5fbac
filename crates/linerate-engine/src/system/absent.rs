//! What only Linux has, as far as it is known here: refused, or not said.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use libc::c_int;
use linerate_model::sample::TcpSample;
use socket2::{SockRef, Socket};

use super::{TcpPeer, set_int};

/// Where no call drops what came, it is read.
pub const DROPS_UNREAD: bool = false;
/// No control message is of these kinds.
pub const SCM_DROPS: c_int = -1;
pub const SCM_SEGMENT: c_int = -1;
/// Whether this goes on while the machine is suspended depends on the system's release.
pub const CLOCK_BOOTTIME: libc::clockid_t = libc::CLOCK_MONOTONIC;

pub(super) fn none<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(ErrorKind::Unsupported, format!("{what} is not there on this system")))
}

/// Asks for socket buffers. A size that the kernel does not allow is refused and not cut, so the half is tried then; none
/// is forced.
pub fn set_buffers(
    socket: &impl AsFd,
    send: Option<u32>,
    receive: Option<u32>,
    _most_forced: Option<u32>,
) {
    for (value, name) in [(send, libc::SO_SNDBUF), (receive, libc::SO_RCVBUF)] {
        let mut value = value.map_or(0, |value| c_int::try_from(value).unwrap_or(c_int::MAX));
        while value > 0 && set_int(socket, libc::SOL_SOCKET, name, value).is_err() {
            value /= 2;
        }
    }
}

macro_rules! refused {
    ($($name:ident($($kind:ty),*) -> $gives:ty, $what:literal;)*) => {$(
        /// Refused.
        ///
        /// # Errors
        /// Always.
        pub fn $name($(_: $kind),*) -> io::Result<$gives> {
            none($what)
        }
    )*};
}

macro_rules! unknown {
    ($($name:ident($($kind:ty),*) -> $gives:ty;)*) => {$(
        /// Not known.
        pub fn $name($(_: $kind),*) -> Option<$gives> {
            None
        }
    )*};
}

refused! {
    without_checksum(&impl AsFd) -> (), "SO_NO_CHECK";
    merge_on_receive(&impl AsFd) -> (), "UDP_GRO";
    segment_on_send(&impl AsFd, u16) -> (), "UDP_SEGMENT";
    set_pacing_rate(&impl AsFd, u64) -> (), "SO_MAX_PACING_RATE";
    limit_unsent(&impl AsFd, u32) -> (), "TCP_NOTSENT_LOWAT";
    limit_silence(&impl AsFd, Duration) -> (), "TCP_USER_TIMEOUT";
    memory_file(&[u8]) -> OwnedFd, "sendfile from memory";
    send_file(&TcpStream, &OwnedFd, usize) -> usize, "sendfile from memory";
}

unknown! {
    socket_drops(&impl AsFd) -> u32;
    receive_queue(&impl AsFd) -> u32;
    path_mtu(&impl AsFd, bool) -> u32;
    tcp_peer(&impl AsFd) -> TcpPeer;
    tcp_sample(&impl AsFd) -> TcpSample;
}

/// Does nothing: there is no queue of errors.
pub fn report_errors(_socket: &impl AsFd, _v6: bool) {}

/// None waits in a queue.
pub fn take_errors(_socket: &Socket) -> bool {
    false
}

/// Sends no datagram in fragments, however small the path's MTU (`IP_DONTFRAG`, ip(4)).
///
/// # Errors
/// Those of setsockopt(2).
pub fn dont_fragment(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_IP, libc::IP_DONTFRAG, 1)
}

/// Does nothing: timers are as exact as the system has them.
pub fn wake_precisely() {}

/// Reads and forgets up to `bytes`, and waits for the first of them only.
pub fn drop_bytes(socket: &TcpStream, bytes: usize, flags: c_int) -> io::Result<usize> {
    let (mut room, mut dropped, mut flags) = ([MaybeUninit::uninit(); 1 << 16], 0, flags);
    while dropped < bytes {
        let most = room.len().min(bytes - dropped);
        match SockRef::from(socket).recv_with_flags(&mut room[..most], flags) {
            Ok(0) => break,
            Ok(count) => dropped += count,
            Err(error) if dropped == 0 => return Err(error),
            Err(_) => break,
        }
        flags |= libc::MSG_DONTWAIT;
    }
    Ok(dropped)
}
