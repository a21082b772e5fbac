//! Output of iperf 2, client and server, as release 2.1.8 prints it: text, with `-e` more of it, and CSV.
//!
//! What is not known of a test has a dash where that release would have a number.

mod csv;
mod line;
mod number;
mod text;

pub use text::Text;

/// How it is shown.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `-c`: the server, as the user named it; none at a server.
    pub host: Option<String>,
    /// Where servers listen.
    pub port: u16,
    /// Of a server: `-u`.
    pub udp: bool,
    /// `-e`.
    pub enhanced: bool,
    /// `-y C`.
    pub csv: bool,
    /// `-f`: one of bkmgABKMG; `A` and none let each figure have its own unit, of bytes or of bits.
    pub format: Option<char>,
    /// Intervals are shown (`-i`).
    pub intervals: bool,
    /// The buffer of a socket for which nobody asked for one, in bytes, where it is known.
    pub buffer_bytes: Option<u64>,
    /// `-w` of a server: what was asked for, and what a socket has then, in bytes.
    pub window: Option<(u64, u64)>,
    /// Lines that name what was asked of sockets, each with its end; before that of the buffer.
    pub settings: String,
    /// This process.
    pub pid: u32,
}

/// Now, in the zone of this host.
#[derive(Debug, Clone, Default)]
pub struct When {
    /// 20261123185144.
    pub digits: String,
    /// 2026-11-23 18:51:44 (UTC).
    pub words: String,
}
