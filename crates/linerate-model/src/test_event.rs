//! What one end of a test in iperf3's or iperf 2's dialect reports while it runs: each stream by itself, the
//! warm-up too, in the terms that their users know.
//!
//! The runner makes these at a client and at a server; `linerate-report` shows them as these
//! programs do.

use std::net::SocketAddr;

use crate::plan::{Direction, Transport};
use crate::record::ErrorRecord;
use crate::sample::{RecvInterval, RecvReport, SendInterval, SendReport, Trips};

/// One thing reported. A test reports its start once, then rows, then its end once; one that fails
/// before its streams exist reports its end only.
#[derive(Debug, Clone, PartialEq)]
pub enum TestEvent {
    /// A client has connected, or this end has: before anything is agreed.
    Connected(Connected),
    /// All streams exist and data begins to flow.
    Start(Box<Start>),
    /// An interval is over on all streams.
    Rows(Rows),
    /// The test is over.
    End(Box<End>),
}

/// The control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// The peer.
    pub peer: SocketAddr,
    /// This end.
    pub local: SocketAddr,
    /// Its maximum segment size (`TCP_MAXSEG`), where known.
    pub mss: Option<u32>,
    /// Its round trip (`tcpi_rtt`) in nanoseconds, where known.
    pub rtt_ns: Option<u64>,
}

/// A test that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// This end is the client.
    pub client: bool,
    /// The control connection.
    pub control: Connected,
    /// What distinguishes its data connections from others'.
    pub cookie: String,
    /// What was asked for.
    pub asked: Asked,
    /// In the order of their creation.
    pub streams: Vec<Stream>,
    /// `SO_SNDBUF` of the first data socket, as read back.
    pub send_buffer: Option<u64>,
    /// `SO_RCVBUF` of the first data socket, as read back.
    pub receive_buffer: Option<u64>,
}

/// What the client asks for. Zero is "not given", as in its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// UDP or TCP.
    pub transport: Transport,
    /// Seen from the client.
    pub direction: Direction,
    /// Streams each way.
    pub parallel: u16,
    /// Bytes of a block or datagram.
    pub block_bytes: u32,
    /// Rate of each stream in bit/s; 0 is unlimited.
    pub rate_bps: u64,
    /// `SO_MAX_PACING_RATE` of each stream in bit/s.
    pub fq_rate_bps: u64,
    /// Blocks sent at once.
    pub burst: u32,
    /// Warm-up in seconds.
    pub omit_s: u32,
    /// Seconds; 0 is no limit.
    pub time_s: u32,
    /// End after so many bytes.
    pub bytes: u64,
    /// End after so many blocks.
    pub blocks: u64,
    /// Type of service, the whole byte.
    pub tos: u8,
    /// Socket buffers.
    pub window_bytes: u32,
    /// Maximum segment size.
    pub mss_bytes: u32,
    /// Prefix of the client's lines.
    pub title: Option<String>,
    /// For the JSON document.
    pub extra_data: Option<String>,
    /// Delays by both hosts' wall clocks (iperf 2's `--trip-times`).
    pub trips: bool,
}

/// A data stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// The number that both ends give it: 1, 3, 4, 5 …
    pub id: u32,
    /// Descriptor of its socket, which iperf3 shows as its ID.
    pub socket: i32,
    /// This end.
    pub local: SocketAddr,
    /// The peer.
    pub remote: SocketAddr,
    /// This end sends.
    pub sends: bool,
}

/// One interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// Since the start of the warm-up or of the measured time, in nanoseconds.
    pub start_ns: u64,
    /// The same.
    pub end_ns: u64,
    /// Belongs to the warm-up.
    pub omitted: bool,
    /// In the order of [`Start::streams`].
    pub streams: Vec<Row>,
}

/// One interval of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "rows are copied, one an interval")]
pub enum Row {
    /// This end sends.
    Send(SendInterval),
    /// This end receives.
    Recv(RecvInterval),
}

/// A test that is over, well or badly.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct End {
    /// In the order of [`Start::streams`]; empty when the test failed before it began.
    pub streams: Vec<StreamEnd>,
    /// Measured time of this end in nanoseconds.
    pub span_ns: u64,
    /// This process.
    pub cpu: Cpu,
    /// The peer's process, if it reported it.
    pub far_cpu: Option<Cpu>,
    /// Congestion control here.
    pub congestion: Option<String>,
    /// Congestion control at the peer.
    pub far_congestion: Option<String>,
    /// What the server printed.
    pub server_output: Option<ServerOutput>,
    /// Why it ended early.
    pub error: Option<ErrorRecord>,
    /// The user ended it.
    pub interrupted: bool,
}

/// CPU time over the test in percent of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cpu {
    /// All.
    pub total: f64,
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// Output of a server, for its client.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerOutput {
    /// Lines.
    Text(String),
    /// The document of a server that was asked for JSON.
    Json(String),
}

/// The end of one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEnd {
    /// What this end measured.
    pub here: Side,
    /// What the peer reported.
    pub far: Option<FarStream>,
    /// What this end, which received, tells the peer of it (a server of iperf 2's, once the peer has said its end).
    pub told: Option<FarStream>,
}

/// What this end measured of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Side {
    /// It sent.
    Send(Box<SendReport>),
    /// It received.
    Recv(Box<RecvReport>),
}

/// What a peer reports of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FarStream {
    /// Bytes sent or received in the measured time.
    pub bytes: u64,
    /// Segments sent again; a receiver or an old kernel reports none.
    pub retransmits: Option<u64>,
    /// Jitter in seconds.
    pub jitter_s: f64,
    /// Lost datagrams by its rule, warm-up included.
    pub errors: i64,
    /// The part of the warm-up, from 3.14 on.
    pub omitted_errors: Option<i64>,
    /// Last number sent or highest seen, warm-up included.
    pub packets: u64,
    /// The part of the warm-up, from 3.14 on.
    pub omitted_packets: Option<u64>,
    /// Datagrams that came after a later one; iperf3 does not say.
    pub reordered: Option<u64>,
    /// Measured time in seconds, if it reported it: of a receiver, how long data arrived.
    pub seconds: Option<f64>,
    /// Delays by both hosts' wall clocks, if it reported any.
    pub trips: Option<Trips>,
}
