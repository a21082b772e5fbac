//! Socket options.

mod tcp;

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};
use socket2::{Domain, Protocol, Socket, Type};

pub use tcp::{
    TcpOptions, TcpPeer, congestion, pace, set_pacing_rate, set_tcp, tcp_peer, tcp_sample,
    tcp_silence,
};

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn set_int(fd: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let value: *const c_int = &raw const value;
    let length = size_of::<c_int>() as socklen_t;
    // SAFETY: the descriptor is open for the borrow's life; `value` points to one c_int that lives
    // across the call and `length` is its size. The kernel only reads it.
    check(unsafe {
        libc::setsockopt(fd.as_fd().as_raw_fd(), level, name, value.cast::<c_void>(), length)
    })
    .map(drop)
}

fn get_int(fd: impl AsFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: the descriptor is open for the borrow's life; the kernel writes at most `length`
    // bytes to `value`, which is that large, and the new length to `length`.
    check(unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast::<c_void>(),
            &raw mut length,
        )
    })?;
    Ok(value)
}

/// A UDP socket bound to `local` that other sockets of this user may share the port with.
///
/// # Errors
/// Those of socket(2) and bind(2).
pub fn udp_socket(local: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    // Only for a port that is shared on purpose: of free ports the kernel would hand out one twice
    // to sockets that all allow it, and the second takes the first one's datagrams.
    // Not SO_REUSEADDR, which lets any user share it.
    socket.set_reuse_port(local.port() != 0)?;
    if local.is_ipv6() {
        let any = local.ip().is_unspecified();
        socket.set_only_v6(!any)?;
    }
    socket.bind(&local.into())?;
    Ok(socket)
}

/// Asks for a socket buffer and reads back what the kernel granted, which is twice the asked (it
/// counts its own overhead) or less. Where the process may (`CAP_NET_ADMIN`), the
/// size goes beyond `net.core.?mem_max`, up to `most_forced` bytes if that is given.
pub(crate) fn set_buffers(
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

/// The receive buffer in bytes that a socket of this process gets where `asked` bytes are asked for, forced up to
/// `most_forced` where it may.
///
/// # Errors
/// When there is no socket to ask with.
pub fn granted_buffer(asked: u32, most_forced: u32) -> io::Result<u64> {
    let socket = udp_socket(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    set_buffers(&socket, None, Some(asked), Some(most_forced));
    Ok(receive_buffer(&socket))
}

/// `SO_SNDBUF` as read back.
pub fn send_buffer(socket: &impl AsFd) -> u64 {
    get_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF).map_or(0, |v| u64::try_from(v).unwrap_or(0))
}

/// `SO_RCVBUF` as read back.
pub fn receive_buffer(socket: &impl AsFd) -> u64 {
    get_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF).map_or(0, |v| u64::try_from(v).unwrap_or(0))
}

/// Sends UDP over IPv4 without checksum (`SO_NO_CHECK`, socket(7)).
///
/// # Errors
/// Those of setsockopt(2).
pub(crate) fn without_checksum(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
}

/// Makes send calls report drops in this host's own queueing disciplines (`ENOBUFS`), which the
/// kernel hides from UDP senders otherwise (net/ipv4/udp.c, `udp_send_skb`), and of ICMP errors.
pub(crate) fn report_errors(socket: &impl AsFd, v6: bool) {
    let _ = if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set_int(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    };
}

/// Takes what waits in the error queue of such a socket, or it would fail the next call too; says whether
/// anything did.
pub(crate) fn take_errors(socket: &socket2::Socket) -> bool {
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
pub(crate) fn describe_messages(socket: &impl AsFd) -> io::Result<()> {
    let _ = set_int(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Lets the kernel deliver several datagrams of one size as one message (`UDP_GRO`, udp(7)).
///
/// # Errors
/// `ENOPROTOOPT` on kernels before 5.0.
pub(crate) fn merge_on_receive(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)
}

/// Bytes of each datagram the kernel cuts from a buffer (`UDP_SEGMENT`, udp(7)); 0 switches it off.
///
/// # Errors
/// `ENOPROTOOPT` on kernels before 4.18; `EINVAL`.
pub(crate) fn segment_on_send(socket: &impl AsFd, bytes: u16) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, c_int::from(bytes))
}

/// Messages that the socket has dropped for lack of room since it was made (`SO_MEMINFO`,
/// `SK_MEMINFO_DROPS`).
pub(crate) fn socket_drops(socket: &impl AsFd) -> Option<u32> {
    // include/uapi/linux/sock_diag.h: the last of nine.
    memory_info(socket).map(|info| info[8])
}

/// Bytes that wait in a socket to be read, with the kernel's own for each message (`SO_MEMINFO`,
/// `SK_MEMINFO_RMEM_ALLOC`).
pub(crate) fn receive_queue(socket: &impl AsFd) -> Option<u32> {
    memory_info(socket).map(|info| info[0])
}

fn memory_info(socket: &impl AsFd) -> Option<[u32; 9]> {
    let mut info = [0u32; 9];
    let mut length = size_of_val(&info) as socklen_t;
    // SAFETY: the descriptor is open for the borrow's life; the kernel writes at most `length`
    // bytes to `info`, which is that large, and how many to `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    (check(result).is_ok() && length as usize == size_of_val(&info)).then_some(info)
}

/// Path MTU of a connected socket as the kernel knows it now (`IP_MTU`, `IPV6_MTU`).
pub fn path_mtu(socket: &impl AsFd, v6: bool) -> Option<u32> {
    let value = if v6 {
        get_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)
    } else {
        get_int(socket, libc::IPPROTO_IP, libc::IP_MTU)
    };
    value.ok().and_then(|mtu| u32::try_from(mtu).ok())
}

/// Sets the differentiated services code point.
///
/// # Errors
/// Those of setsockopt(2).
pub(crate) fn set_dscp(socket: &impl AsFd, v6: bool, dscp: u8) -> io::Result<()> {
    set_tos(socket, v6, dscp << 2)
}

/// Sets the whole type-of-service byte (traffic class in IPv6).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_tos(socket: &impl AsFd, v6: bool, byte: u8) -> io::Result<()> {
    let byte = c_int::from(byte);
    if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, byte)
    } else {
        set_int(socket, libc::IPPROTO_IP, libc::IP_TOS, byte)
    }
}

/// Sends no datagram in fragments, however small the path's MTU (`IP_PMTUDISC_DO`, ip(7)).
///
/// # Errors
/// Those of setsockopt(2).
pub fn dont_fragment(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
}

/// An address without IPv4 dressed up as IPv6 (`::ffff:192.0.2.1`), as a dual-stack listener sees it.
pub fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(v4.into(), address.port()),
            None => address,
        },
        IpAddr::V4(_) => address,
    }
}

/// Waits until `fd` can be read, or `until_ns` of the monotonic clock, or 20 ms; true if it can.
/// The last 20 us before `until_ns` are spent awake, as no timer is that exact.
pub fn wait_readable(fd: std::os::fd::BorrowedFd<'_>, until_ns: Option<u64>, now_ns: u64) -> bool {
    use nix::poll::{PollFd, PollFlags};
    let left = until_ns.map_or(20_000_000, |until| until.saturating_sub(now_ns)).min(20_000_000);
    let left = left.saturating_sub(20_000);
    let timeout = Duration::from_nanos(left).into();
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    matches!(nix::poll::ppoll(&mut fds, Some(timeout), None), Ok(n) if n > 0)
}

/// A listening TCP socket; an IPv6 address takes IPv4 too if it is `dual`, which has a meaning for the
/// unspecified one only.
///
/// # Errors
/// Those of socket(2), bind(2) and listen(2).
pub fn tcp_listener(local: SocketAddr, dual: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if local.is_ipv6() {
        socket.set_only_v6(!dual)?;
    }
    socket.bind(&local.into())?;
    socket.listen(4_096)?;
    Ok(socket)
}

/// The UDP socket of a server, which takes what no connected socket on the port takes. Refuses to
/// share the port with a server that runs already, though sockets made later may share it. `dual` as
/// in [`tcp_listener`].
///
/// # Errors
/// Those of socket(2) and bind(2); `AddrInUse` when the port has a user.
pub fn udp_listener(local: SocketAddr, dual: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() {
        socket.set_only_v6(!dual)?;
    }
    socket.bind(&local.into())?;
    // After the bind: from now on, the streams' own sockets may bind beside it.
    socket.set_reuse_port(true)?;
    Ok(socket)
}

/// Whether a connection could not be taken because this process or host is out of descriptors or memory, which may be
/// free again soon.
pub fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|errno| exhausted.contains(&errno))
}

/// Raises this process's limit of open descriptors to what it may have, and says what that is.
///
/// # Errors
/// Those of setrlimit(2).
pub fn raise_descriptor_limit() -> io::Result<usize> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(usize::try_from(hard).unwrap_or(usize::MAX))
}

/// Lets the C library give memory back to the kernel as soon as it is freed, from now on. glibc would keep buffers for the
/// next test: those up to the size of the largest that was ever freed, between what lives longer, and apart for each
/// thread that met others (`M_MMAP_THRESHOLD`, `M_ARENA_MAX`, mallopt(3)). Other libraries do not, and are left alone.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    for (limit, value) in [(libc::M_MMAP_THRESHOLD, 128 << 10), (libc::M_ARENA_MAX, 4)] {
        // SAFETY: the call is handed two numbers, and stores the second under a lock. A thread that allocates meanwhile
        // reads it before or after, and either suits it.
        unsafe { libc::mallopt(limit, value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sockets_get_one_port() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let sockets: Vec<Socket> = (0..800).map(|_| udp_socket(any).unwrap()).collect();
        let ports: std::collections::BTreeSet<u16> = sockets
            .iter()
            .filter_map(|s| s.local_addr().ok()?.as_socket().map(|a| a.port()))
            .collect();
        assert_eq!(ports.len(), sockets.len());
    }

    #[test]
    fn a_buffer_is_forced_up_to_the_given_size_only() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let limit = |name: &str| -> u64 {
            let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
            text.trim().parse().unwrap()
        };
        let socket = udp_socket(any).unwrap();
        let (window, most) = (512 << 20, 1 << 20);
        set_buffers(&socket, Some(window), Some(window), Some(most));
        for (granted, limit) in [
            (receive_buffer(&socket), limit("rmem_max")),
            (send_buffer(&socket), limit("wmem_max")),
        ] {
            assert!(granted <= 2 * limit.max(u64::from(most)), "{granted}, the limit is {limit}");
        }
        assert_eq!(granted_buffer(window, most).unwrap(), receive_buffer(&socket));
        assert_eq!(granted_buffer(64 << 10, most).unwrap(), 128 << 10);
    }

    #[test]
    fn what_waits_in_a_socket_is_known() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (from, to) = (udp_socket(any).unwrap(), udp_socket(any).unwrap());
        from.connect(&to.local_addr().unwrap()).unwrap();
        assert_eq!(receive_queue(&to), Some(0));
        for _ in 0..3 {
            from.send(&[0; 1_000]).unwrap();
        }
        let queued = receive_queue(&to).unwrap();
        assert!((3_000..30_000).contains(&queued), "{queued}");
    }
}
