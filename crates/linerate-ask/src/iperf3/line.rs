//! A command line, understood.

use std::net::IpAddr;
use std::path::PathBuf;

/// A command line, understood.
#[allow(missing_docs, reason = "the options of iperf3, by their long names")]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// `-c`; `None` is a server.
    pub host: Option<String>,
    pub port: u16,
    /// `-f`: one of kmgtKMGT; none lets each figure have its own unit.
    pub format: Option<char>,
    /// Seconds; 0 is none.
    pub interval_s: f64,
    pub pidfile: Option<PathBuf>,
    pub affinity: (Option<u16>, Option<u16>),
    pub bind: Option<IpAddr>,
    pub verbose: bool,
    pub json: bool,
    pub json_stream: bool,
    pub json_stream_full: bool,
    pub logfile: Option<PathBuf>,
    /// strftime's pattern.
    pub timestamps: Option<String>,
    pub receive_timeout_ms: u64,
    pub connect_timeout_ms: Option<u64>,
    pub daemon: bool,
    pub one_off: bool,
    /// bit/s; 0 is no limit.
    pub server_limit_bps: u64,
    pub idle_timeout_s: Option<u64>,
    pub server_max_s: Option<u64>,
    pub private_key: Option<PathBuf>,
    pub users: Option<PathBuf>,
    pub pkcs1: bool,
    pub time_skew_s: Option<u64>,
    pub udp: bool,
    /// bit/s of each stream; `None` is the default of the protocol.
    pub rate_bps: Option<u64>,
    pub burst: u32,
    pub pacing_timer_us: u32,
    pub fq_rate_bps: u64,
    pub time_s: Option<u32>,
    pub bytes: u64,
    pub blocks: u64,
    pub length: Option<u32>,
    pub cport: Option<u16>,
    pub parallel: u16,
    pub reverse: bool,
    pub bidir: bool,
    pub window: Option<u32>,
    pub congestion: Option<String>,
    pub mss: Option<u32>,
    pub no_delay: bool,
    pub ip: Option<u8>,
    pub tos: u8,
    pub zerocopy: bool,
    pub skip_rx_copy: bool,
    pub omit_s: u32,
    pub title: Option<String>,
    pub extra_data: Option<String>,
    pub get_server_output: bool,
    pub counters_64bit: bool,
    pub repeating_payload: bool,
    pub dont_fragment: bool,
    /// For standard error.
    pub notes: Vec<String>,
}

impl Line {
    /// What holds where nothing is said.
    pub(super) fn nothing_said() -> Self {
        Self {
            port: 5201,
            interval_s: 1.0,
            receive_timeout_ms: 120_000,
            pacing_timer_us: 1_000,
            parallel: 1,
            ..Self::default()
        }
    }
}
