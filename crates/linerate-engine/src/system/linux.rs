//! Linux.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use libc::c_int;
use linerate_model::sample::TcpSample;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::Pid;
use socket2::SockRef;

pub use libc::CLOCK_BOOTTIME;

pub use super::common::*;
use super::{Integers, TcpPeer, get, get_int, set, set_int};

/// Of control messages of a socket: when a message came, how many were dropped, of how many bytes its datagrams are.
pub const SCM_STAMP: c_int = libc::SCM_TIMESTAMPNS;
pub const SCM_DROPS: c_int = libc::SO_RXQ_OVFL;
pub const SCM_SEGMENT: c_int = libc::UDP_GRO;
/// A call can drop what came and say how much that was, by `MSG_TRUNC`.
pub const DROPS_UNREAD: bool = true;

/// Asks for a socket buffer and reads back what the kernel granted, which is twice the asked (it
/// counts its own overhead) or less. Where the process may (`CAP_NET_ADMIN`), the
/// size goes beyond `net.core.?mem_max`, up to `most_forced` bytes if that is given.
pub fn set_buffers(
    socket: &impl AsFd,
    send: Option<u32>,
    receive: Option<u32>,
    most_forced: Option<u32>,
) {
    let asked = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX / 2);
    for (value, plain, forced) in [
        (send, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
        (receive, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
    ] {
        let Some(value) = value.map(asked) else { continue };
        let _ = set_int(socket, libc::SOL_SOCKET, plain, value);
        let granted = get_int(socket, libc::SOL_SOCKET, plain).unwrap_or(0);
        let most = most_forced.map_or(value, |most| asked(most).min(value));
        if granted / 2 < most {
            let _ = set_int(socket, libc::SOL_SOCKET, forced, most);
        }
    }
}

/// Sends UDP over IPv4 without checksum (`SO_NO_CHECK`, socket(7)).
///
/// # Errors
/// Those of setsockopt(2).
pub fn without_checksum(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
}

/// Makes send calls report drops in this host's own queueing disciplines (`ENOBUFS`), which the
/// kernel hides from UDP senders otherwise (net/ipv4/udp.c, `udp_send_skb`), and of ICMP errors.
pub fn report_errors(socket: &impl AsFd, v6: bool) {
    let _ = if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set_int(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    };
}

/// Takes what waits in the error queue of such a socket, or it would fail the next call too; says whether
/// anything did.
pub fn take_errors(socket: &socket2::Socket) -> bool {
    let mut scratch = [std::mem::MaybeUninit::<u8>::uninit(); 64];
    let mut any = false;
    while socket.recv_with_flags(&mut scratch, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT).is_ok() {
        any = true;
    }
    any
}

/// The drop counter (`SO_RXQ_OVFL`), where the system has it, and time stamps (`SO_TIMESTAMPNS`) with
/// every message.
///
/// # Errors
/// Those of setsockopt(2) for the time stamps.
pub fn describe_messages(socket: &impl AsFd) -> io::Result<()> {
    let _ = set_int(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Lets the kernel deliver several datagrams of one size as one message (`UDP_GRO`, udp(7)).
///
/// # Errors
/// `ENOPROTOOPT` on kernels before 5.0.
pub fn merge_on_receive(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)
}

/// Bytes of each datagram the kernel cuts from a buffer (`UDP_SEGMENT`, udp(7)); 0 switches it off.
///
/// # Errors
/// `ENOPROTOOPT` on kernels before 4.18; `EINVAL`.
pub fn segment_on_send(socket: &impl AsFd, bytes: u16) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, c_int::from(bytes))
}

/// Messages that the socket has dropped for lack of room since it was made (`SO_MEMINFO`,
/// `SK_MEMINFO_DROPS`).
pub fn socket_drops(socket: &impl AsFd) -> Option<u32> {
    // include/uapi/linux/sock_diag.h: the last of nine.
    memory_info(socket).map(|info| info[8])
}

/// Bytes that wait in a socket to be read, with the kernel's own for each message (`SO_MEMINFO`,
/// `SK_MEMINFO_RMEM_ALLOC`).
pub fn receive_queue(socket: &impl AsFd) -> Option<u32> {
    memory_info(socket).map(|info| info[0])
}

fn memory_info(socket: &impl AsFd) -> Option<[u32; 9]> {
    let (info, length) = get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO).ok()?;
    (length == size_of_val(&info)).then_some(info)
}

// SAFETY: integers.
unsafe impl Integers for [u32; 9] {}

/// Path MTU of a connected socket as the kernel knows it now (`IP_MTU`, `IPV6_MTU`).
pub fn path_mtu(socket: &impl AsFd, v6: bool) -> Option<u32> {
    let value = if v6 {
        get_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)
    } else {
        get_int(socket, libc::IPPROTO_IP, libc::IP_MTU)
    };
    value.ok().and_then(|mtu| u32::try_from(mtu).ok())
}

/// Sends no datagram in fragments, however small the path's MTU (`IP_PMTUDISC_DO`, ip(7)).
///
/// # Errors
/// Those of setsockopt(2).
pub fn dont_fragment(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
}

/// Lets the TCP pacer hold a connection to `bits_per_second` (`SO_MAX_PACING_RATE`, an unsigned long since Linux 5.0: where
/// that has 32 bits, 34.4 Gbit/s and more are no limit); `u64::MAX` is no limit.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_pacing_rate(socket: &impl AsFd, bits_per_second: u64) -> io::Result<()> {
    // Any number but the largest makes the kernel pace the connection from then on, by its congestion window where no
    // rate holds it (net/core/sock.c, `SK_PACING_NEEDED`).
    let bytes = if bits_per_second == u64::MAX { u64::MAX } else { (bits_per_second / 8).max(1) };
    // As wide as the kernel's own: of eight bytes one of 32 bits would take the first four.
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes)
}

// SAFETY: one integer.
unsafe impl Integers for usize {}

/// sendmmsg(2) itself. musl's sends each message by a call of its own, as lengths in its headers may have 32 bits where the
/// kernel's have 64.
///
/// # Safety
/// As of that call: `headers` points to `count` of them, made of zeroes, and what they point to lives.
#[cfg(target_env = "musl")]
pub unsafe fn sendmmsg(fd: c_int, headers: *mut mmsghdr, count: u32, flags: u32) -> c_int {
    // SAFETY: as the caller says. With the zeroes beside them musl's lengths are the kernel's.
    unsafe { libc::syscall(libc::SYS_sendmmsg, fd, headers, count, flags) as c_int }
}

/// `TCP_INFO` and how much of it this kernel wrote; the rest is zero.
fn tcp_info(socket: &impl AsFd) -> Option<(libc::tcp_info, usize)> {
    get(socket, libc::IPPROTO_TCP, libc::TCP_INFO).ok()
}

// SAFETY: integers.
unsafe impl Integers for libc::tcp_info {}

/// A member of [`tcp_info`]'s answer: an older kernel writes less, and what lies beyond is unknown, not
/// zero.
macro_rules! known {
    ($of:expr, $name:ident) => {{
        let (info, length) = &$of;
        let end = std::mem::offset_of!(libc::tcp_info, $name) + size_of_val(&{ info.$name });
        (end <= *length).then_some(u64::from(info.$name))
    }};
}

/// `TCP_ESTABLISHED`, include/net/tcp_states.h.
const TCP_ESTABLISHED: u64 = 1;

/// See [`TcpPeer`]. `None` where this kernel does not say.
pub fn tcp_peer(socket: &impl AsFd) -> Option<TcpPeer> {
    let info = tcp_info(socket)?;
    Some(TcpPeer {
        is_open: known!(info, tcpi_state)? == TCP_ESTABLISHED,
        no_data: Duration::from_millis(known!(info, tcpi_last_data_recv)?),
        no_ack: Duration::from_millis(known!(info, tcpi_last_ack_recv)?),
    })
}

/// `TCP_INFO`, as much as this kernel has.
pub fn tcp_sample(socket: &impl AsFd) -> Option<TcpSample> {
    let info = tcp_info(socket)?;
    macro_rules! field {
        ($name:ident) => {
            known!(info, $name)
        };
    }
    let us = |value: Option<u64>| value.map(|v| v.saturating_mul(1_000));
    // Until a round trip was measured it is 0, and its deviation what the kernel assumes of any path (tcp_init_sock).
    let rtt_ns = us(field!(tcpi_rtt)).filter(|ns| *ns > 0);
    let cwnd = field!(tcpi_snd_cwnd).zip(field!(tcpi_snd_mss)).map(|(c, m)| c.saturating_mul(m));
    Some(TcpSample {
        bytes_acked: field!(tcpi_bytes_acked),
        bytes_retransmitted: field!(tcpi_bytes_retrans),
        retransmits: field!(tcpi_total_retrans),
        rtt_ns,
        rtt_variation_ns: rtt_ns.and(us(field!(tcpi_rttvar))),
        min_rtt_ns: us(field!(tcpi_min_rtt)).filter(|v| *v < u64::from(u32::MAX) * 1_000),
        cwnd_bytes: cwnd,
        mss_bytes: field!(tcpi_snd_mss),
        pmtu_bytes: field!(tcpi_pmtu),
        delivery_rate_bps: field!(tcpi_delivery_rate).map(|v| v.saturating_mul(8)),
        busy_ns: us(field!(tcpi_busy_time)),
        rwnd_limited_ns: us(field!(tcpi_rwnd_limited)),
        sndbuf_limited_ns: us(field!(tcpi_sndbuf_limited)),
        unsent_bytes: field!(tcpi_notsent_bytes)
            .zip(field!(tcpi_unacked).zip(field!(tcpi_snd_mss)))
            .map(|(unsent, (unacked, mss))| unsent.saturating_add(unacked.saturating_mul(mss))),
    })
}

/// Binds the calling thread to one core.
///
/// # Errors
/// `EINVAL` when there is no such core or the process may not use it.
pub fn pin_to(core: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core as usize)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Lets the kernel wake the calling thread without the 50 us of slack that it may add to save
/// power (`PR_SET_TIMERSLACK`, prctl(2)).
pub fn wake_precisely() {
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Drops up to `bytes` that came, and says how many.
pub fn drop_bytes(socket: &TcpStream, bytes: usize, flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the descriptor is open for the borrow's life. With MSG_TRUNC on a TCP socket the kernel does
    // not write to the buffer, so null is allowed (tcp(7), net/ipv4/tcp.c tcp_recvmsg_locked).
    let n =
        unsafe { libc::recv(socket.as_raw_fd(), ptr::null_mut(), bytes, libc::MSG_TRUNC | flags) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// Most bytes that may wait in a connection's send buffer and were not sent yet.
pub fn limit_unsent(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    SockRef::from(socket).set_tcp_notsent_lowat(bytes)
}

/// Gives a connection up when nothing was acknowledged for so long (`TCP_USER_TIMEOUT`, tcp(7)).
///
/// # Errors
/// Those of setsockopt(2).
pub fn limit_silence(socket: &impl AsFd, limit: Duration) -> io::Result<()> {
    SockRef::from(socket).set_tcp_user_timeout(Some(limit))
}

/// A file in memory of these bytes, for [`send_file`].
pub fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create(c"linerate", MFdFlags::MFD_CLOEXEC)?;
    let mut writer = std::fs::File::from(file);
    writer.write_all(bytes)?;
    Ok(writer.into())
}

/// Sends up to `count` bytes from the file's begin.
pub fn send_file(socket: &TcpStream, file: &OwnedFd, count: usize) -> io::Result<usize> {
    let mut offset = 0;
    Ok(nix::sys::sendfile::sendfile(socket, file.as_fd(), Some(&mut offset), count)?)
}

/// Has the kernel kill the calling process when the thread that started it ends. Allocates nothing.
pub fn die_with_starter() -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_that_was_not_measured_is_absent() {
        let any = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = std::net::TcpStream::connect(any.local_addr().unwrap()).unwrap();
        let measured = tcp_sample(&tcp).unwrap();
        assert!(measured.rtt_ns > Some(0) && measured.rtt_variation_ns.is_some(), "{measured:?}");
        let fresh = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let fresh = tcp_sample(&fresh.unwrap()).unwrap();
        assert_eq!((fresh.rtt_ns, fresh.rtt_variation_ns, fresh.min_rtt_ns), (None, None, None));
    }

    #[test]
    fn no_limit_is_none_that_the_kernel_would_pace_by() {
        let any = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = std::net::TcpStream::connect(any.local_addr().unwrap()).unwrap();
        let most = || known!(tcp_info(&tcp).unwrap(), tcpi_max_pacing_rate);
        assert_eq!(most(), Some(u64::MAX), "as it is by itself");
        // What an unsigned long of 32 bits does not hold is no limit.
        let large = usize::try_from(5_000_000_000_u64).map_or(u64::MAX, |bytes| bytes as u64);
        for (bits_per_second, bytes) in
            [(8_000_000, 1_000_000), (1, 1), (40_000_000_000, large), (u64::MAX, u64::MAX)]
        {
            set_pacing_rate(&tcp, bits_per_second).unwrap();
            assert_eq!(most(), Some(bytes));
        }
    }
}
