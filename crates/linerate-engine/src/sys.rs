//! Socket options.

mod tcp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

pub use crate::system::{
    TcpPeer, congestion, dont_fragment, limit_silence, path_mtu, set_pacing_rate, tcp_peer,
    tcp_sample,
};
pub(crate) use crate::system::{
    describe_messages, merge_on_receive, receive_queue, report_errors, segment_on_send,
    set_buffers, socket_drops, take_errors, without_checksum,
};
use crate::system::{get_int, ppoll, set_int};
pub use tcp::{TcpOptions, pace, set_tcp, tcp_silence};

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
    matches!(ppoll(&mut fds, Some(timeout), None), Ok(n) if n > 0)
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

/// Has the C library give buffers of 128 KiB and more back to the kernel when they are freed, from now on. glibc would keep
/// them for the next test, up to the size of the largest that was ever freed, in as many arenas as eight times the cores
/// (`M_MMAP_THRESHOLD`, `M_ARENA_MAX`, mallopt(3)). Other libraries do not, and are left alone.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        // Data threads take memory when they begin and when they end, so that few arenas keep nobody waiting.
        let limits = [(libc::M_MMAP_THRESHOLD, 128 << 10), (libc::M_ARENA_MAX, 4)];
        ONCE.call_once(|| {
            for (limit, value) in limits {
                // SAFETY: mallopt(3) calls itself unsafe beside other threads. glibc sets these two under the lock of its
                // main arena, and who allocates meanwhile reads each as one aligned word: the old value or the new.
                unsafe { libc::mallopt(limit, value) };
            }
        });
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
