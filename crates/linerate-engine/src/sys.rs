//! Socket options.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};
use linerate_model::sample::TcpSample;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

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

/// Makes send calls tell of drops in this host's own queueing disciplines (`ENOBUFS`), which the
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

/// Lets the TCP pacer hold a connection to `bits_per_second` (`SO_MAX_PACING_RATE`, 64 bit since
/// Linux 5.0).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_pacing_rate(socket: &impl AsFd, bits_per_second: u64) -> io::Result<()> {
    let bytes: u64 = (bits_per_second / 8).max(1);
    // SAFETY: the descriptor is open for the borrow's life; the pointer is to one u64 that lives
    // across the call and the length is its size. The kernel only reads it.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes).cast::<c_void>(),
            size_of::<u64>() as socklen_t,
        )
    })
    .map(drop)
}

/// `TCP_INFO` and how much of it this kernel wrote; the rest is zero.
fn tcp_info(socket: &impl AsFd) -> Option<(libc::tcp_info, usize)> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as socklen_t;
    // SAFETY: the descriptor is open for the borrow's life; the kernel writes at most `length`
    // bytes to `info`, which is that large, and how many to `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    check(result).ok()?;
    // SAFETY: `tcp_info` is integers only, every bit pattern of which is a value; what the kernel
    // did not write is zero from `zeroed`.
    Some((unsafe { info.assume_init() }, length as usize))
}

/// A member of [`tcp_info`]'s answer: an older kernel writes less, and what lies beyond is unknown, not
/// zero.
macro_rules! told {
    ($of:expr, $name:ident) => {{
        let (info, length) = &$of;
        let end = std::mem::offset_of!(libc::tcp_info, $name) + size_of_val(&{ info.$name });
        (end <= *length).then_some(u64::from(info.$name))
    }};
}

/// What the kernel knows of the other end of a TCP connection, nothing read from it.
#[derive(Debug, Clone, Copy)]
pub struct TcpPeer {
    /// Neither end has closed it, and it has not failed (`tcpi_state`).
    pub is_open: bool,
    /// How long no data came (`tcpi_last_data_recv`, in milliseconds).
    pub no_data: Duration,
    /// How long nothing was acknowledged (`tcpi_last_ack_recv`, in milliseconds).
    pub no_ack: Duration,
}

impl TcpPeer {
    /// How long its kernel has said nothing: neither data nor an acknowledgement.
    pub fn silence(&self) -> Duration {
        self.no_data.min(self.no_ack)
    }
}

/// `TCP_ESTABLISHED`, include/net/tcp_states.h.
const TCP_ESTABLISHED: u64 = 1;

/// See [`TcpPeer`]. `None` where this kernel does not tell.
pub fn tcp_peer(socket: &impl AsFd) -> Option<TcpPeer> {
    let info = tcp_info(socket)?;
    Some(TcpPeer {
        is_open: told!(info, tcpi_state)? == TCP_ESTABLISHED,
        no_data: Duration::from_millis(told!(info, tcpi_last_data_recv)?),
        no_ack: Duration::from_millis(told!(info, tcpi_last_ack_recv)?),
    })
}

/// How long the peer's kernel has said nothing on a TCP connection: see [`TcpPeer::silence`].
pub fn tcp_silence(socket: &impl AsFd) -> Option<Duration> {
    tcp_peer(socket).map(|peer| peer.silence())
}

/// `TCP_INFO`, as much as this kernel has.
pub fn tcp_sample(socket: &impl AsFd) -> Option<TcpSample> {
    let info = tcp_info(socket)?;
    macro_rules! field {
        ($name:ident) => {
            told!(info, $name)
        };
    }
    let us = |value: Option<u64>| value.map(|v| v.saturating_mul(1_000));
    let cwnd = field!(tcpi_snd_cwnd).zip(field!(tcpi_snd_mss)).map(|(c, m)| c.saturating_mul(m));
    Some(TcpSample {
        bytes_acked: field!(tcpi_bytes_acked),
        bytes_retransmitted: field!(tcpi_bytes_retrans),
        retransmits: field!(tcpi_total_retrans),
        rtt_ns: us(field!(tcpi_rtt)),
        rtt_variation_ns: us(field!(tcpi_rttvar)),
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

/// Name of the congestion control in use.
pub fn congestion(socket: &impl AsFd) -> Option<String> {
    let name = SockRef::from(socket).tcp_congestion().ok()?;
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).ok()
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
    let timeout = nix::sys::time::TimeSpec::new(0, i64::try_from(left).unwrap_or(0));
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

/// What a plan asks of a TCP socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// `SO_SNDBUF` and `SO_RCVBUF`.
    pub window: Option<u32>,
    /// The most of it that is forced beyond the kernel's limits; `None` is all.
    pub most_forced: Option<u32>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// `TCP_MAXSEG`.
    pub mss: Option<u32>,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `SO_MAX_PACING_RATE` in bit/s.
    pub rate_bps: Option<u64>,
}

/// What a paced connection's send buffer takes beyond what is on its way, in bytes: one part in so
/// many of a second of its rate …
const UNSENT_SHARE: u64 = 10;
/// … and no less than this.
const LEAST_UNSENT: u32 = 16 << 10;

/// Sets what can be set and says what the kernel refused, by option.
pub fn set_tcp(
    socket: &impl AsFd,
    v6: bool,
    options: &TcpOptions,
) -> Vec<(&'static str, io::Error)> {
    let reference = SockRef::from(socket);
    let mut refused = Vec::new();
    let mut note = |what, result: io::Result<()>| {
        if let Err(error) = result {
            refused.push((what, error));
        }
    };
    if options.window.is_some() {
        set_buffers(socket, options.window, options.window, options.most_forced);
    }
    if let Some(dscp) = options.dscp {
        note("dscp", set_dscp(socket, v6, dscp));
    }
    if let Some(mss) = options.mss {
        note("mss", reference.set_tcp_mss(mss));
    }
    if let Some(name) = &options.congestion {
        note("congestion", reference.set_tcp_congestion(name.as_bytes()));
    }
    note("nodelay", reference.set_tcp_nodelay(options.nodelay));
    if let Some(rate) = options.rate_bps {
        note("rate", set_pacing_rate(socket, rate));
        // A whole send buffer at a low rate would go on for minutes after the end.
        let unsent = u32::try_from(rate / 8 / UNSENT_SHARE).unwrap_or(u32::MAX).max(LEAST_UNSENT);
        note("rate", reference.set_tcp_notsent_lowat(unsent));
    }
    refused
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
