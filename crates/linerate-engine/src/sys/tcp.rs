//! Options of TCP sockets, and what the kernel reports of their connections.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libc::{c_void, socklen_t};
use linerate_model::sample::TcpSample;
use socket2::SockRef;

use super::{check, set_buffers, set_dscp};

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
        note("rate", pace(socket, rate));
    }
    refused
}

/// Lets the TCP pacer hold a connection to `bits_per_second`, and little wait in its buffer: a whole one at a low rate
/// would go on for minutes after the end.
///
/// # Errors
/// Those of setsockopt(2).
pub fn pace(socket: &impl AsFd, bits_per_second: u64) -> io::Result<()> {
    set_pacing_rate(socket, bits_per_second)?;
    let unsent = u32::try_from(bits_per_second / 8 / UNSENT_SHARE).unwrap_or(u32::MAX);
    SockRef::from(socket).set_tcp_notsent_lowat(unsent.max(LEAST_UNSENT))
}

/// Lets the TCP pacer hold a connection to `bits_per_second` (`SO_MAX_PACING_RATE`, 64 bit since
/// Linux 5.0); `u64::MAX` is no limit.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_pacing_rate(socket: &impl AsFd, bits_per_second: u64) -> io::Result<()> {
    // Any number but the largest makes the kernel pace the connection from then on, by its congestion window where no
    // rate holds it (net/core/sock.c, `SK_PACING_NEEDED`).
    let bytes = if bits_per_second == u64::MAX { u64::MAX } else { (bits_per_second / 8).max(1) };
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
macro_rules! known {
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

/// See [`TcpPeer`]. `None` where this kernel does not say.
pub fn tcp_peer(socket: &impl AsFd) -> Option<TcpPeer> {
    let info = tcp_info(socket)?;
    Some(TcpPeer {
        is_open: known!(info, tcpi_state)? == TCP_ESTABLISHED,
        no_data: Duration::from_millis(known!(info, tcpi_last_data_recv)?),
        no_ack: Duration::from_millis(known!(info, tcpi_last_ack_recv)?),
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
            known!(info, $name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_none_that_the_kernel_would_pace_by() {
        let any = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = std::net::TcpStream::connect(any.local_addr().unwrap()).unwrap();
        let most = || known!(tcp_info(&tcp).unwrap(), tcpi_max_pacing_rate);
        assert_eq!(most(), Some(u64::MAX), "as it is by itself");
        for (bits_per_second, bytes) in [(8_000_000, 1_000_000), (1, 1), (u64::MAX, u64::MAX)] {
            set_pacing_rate(&tcp, bits_per_second).unwrap();
            assert_eq!(most(), Some(bytes));
        }
    }
}
