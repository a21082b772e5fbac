//! Options of TCP sockets, and what the kernel reports of their connections.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::SockRef;

use super::{set_buffers, set_dscp};
use crate::system::{limit_unsent, set_congestion, set_pacing_rate, tcp_peer};

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
        note("congestion", set_congestion(socket, name));
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
    limit_unsent(socket, unsent.max(LEAST_UNSENT))
}

/// How long the peer's kernel has said nothing on a TCP connection: see [`super::TcpPeer::silence`].
pub fn tcp_silence(socket: &impl AsFd) -> Option<Duration> {
    tcp_peer(socket).map(|peer| peer.silence())
}
