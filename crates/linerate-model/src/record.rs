//! The run record, format 1: the JSON that others rely on. Keys are `snake_case` and end in their
//! unit; what was not or could not be measured is absent, never zero.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::doubt::{Doubt, DoubtKind, TestEnd};
pub use crate::error::{ErrorKind, ErrorRecord};
use crate::exit::Exit;
use crate::host::HostFacts;
use crate::plan::{
    Cut, Dialect, EngineChoice, PlanDirection, Receiving, Sending, TrafficKind, Transport, Way,
};
use crate::word::Word;

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// One test, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Always 1.
    pub format: u32,
    /// Unique, and sorts by time.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line that repeats this test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Host name or address as the user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Name of the run in reports and comparisons, as its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Title in place of the command line, as its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Addresses and ports of both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Addresses>,
    /// The figures that are asked for first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// What was asked.
    pub asked: PlanRecord,
    /// What both ends ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<PlanRecord>,
    /// Where the two differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<Cut>,
    /// The client's host.
    pub client: HostFacts,
    /// The server's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<HostFacts>,
    /// One entry an interval.
    pub intervals: Vec<Interval>,
    /// The whole measured time.
    pub totals: Figures,
    /// The same per stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamRecord>,
    /// What limited the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why the result may not mean what it seems to.
    pub doubts: Vec<Doubt>,
    /// Whether it came to its end.
    pub status: Status,
    /// What went wrong, when it is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
}

/// Addresses and ports of both ends, as the client's sockets have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Addresses {
    /// The control connection.
    pub control: AddressPair,
    /// Each stream's, over both directions; in the order of `streams`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<AddressPair>,
}

/// `ADDRESS:PORT` of two sockets; IPv6 in brackets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressPair {
    /// The client's.
    pub client: String,
    /// The server's.
    pub server: String,
}

/// The figures that are asked for first, flat, with the same keys for every kind of test; each is one of
/// `totals` again. What a kind does not have is absent. Of a test of both directions the plain keys are the
/// forward direction's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Summary {
    /// Payload received, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bps: Option<f64>,
    /// Payload sent, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bps: Option<f64>,
    /// Lost datagrams as a share of those that fell into the measured time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_ratio: Option<f64>,
    /// 99th percentile of delay variation (udp) or of latency (rr), seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<f64>,
    /// Segments retransmitted (tcp).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits_segments: Option<u64>,
    /// Transactions completed per second (rr).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions_per_second: Option<f64>,
    /// The same as `received_bps`, of the reverse direction of a test of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_received_bps: Option<f64>,
    /// The same as `sent_bps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_sent_bps: Option<f64>,
    /// The same as `lost_ratio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_lost_ratio: Option<f64>,
    /// The same as `p99_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_p99_s: Option<f64>,
    /// The same as `retransmits_segments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_retransmits_segments: Option<u64>,
    /// Own CPU of the client: its busiest data thread, percent of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cpu_percent: Option<f64>,
    /// Own CPU of the server, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_percent: Option<f64>,
    /// What limited the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// The program that made a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramFacts {
    /// Semantic version.
    pub version: String,
}

/// A plan in the record's words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRecord {
    /// udp, tcp or rr.
    pub protocol: Word<TrafficKind>,
    /// 4 or 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<u8>,
    /// forward, reverse, both; `discard` for a send-only test.
    pub direction: Word<PlanDirection>,
    /// Each way.
    pub streams: u16,
    /// UDP payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagram_bytes: Option<u32>,
    /// TCP write and read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// Asked payload rate of one direction; null is unlimited.
    pub rate_bps: Option<u64>,
    /// Asked datagrams per second, when that is how the rate was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_pps: Option<u64>,
    /// Asked transactions per second (rr, open loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_tps: Option<u64>,
    /// Measured time, when the test ends by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Bytes, when the test ends by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Datagrams, when the test ends by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<u64>,
    /// Warm-up.
    pub warmup_s: f64,
    /// Report interval.
    pub interval_s: f64,
    /// auto, gso, mmsg, send; in `agreed` the one that the sending end ran last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Word<EngineChoice>>,
    /// In `agreed` the one that the receiving end ran, which chooses for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_engine: Option<Word<EngineChoice>>,
    /// Most datagrams handed to the kernel as one train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_datagrams: Option<u32>,
    /// Longest burst at the asked rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_s: Option<f64>,
    /// Socket buffers asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// Socket buffers granted, as read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_granted: Option<WindowGranted>,
    /// Cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuPlan>,
    /// UDP checksums on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<bool>,
    /// TCP congestion control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// TCP maximum segment size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    /// TCP_NODELAY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
    /// How the TCP receiver reads: `copy`, or `discard` (MSG_TRUNC, nothing copied).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive: Option<Word<Receiving>>,
    /// How the TCP sender writes: `copy`, or `sendfile` (nothing copied).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<Word<Sending>>,
    /// rr: bytes of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<u32>,
    /// rr: bytes of a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bytes: Option<u32>,
    /// rr: requests in flight on each stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// rr: udp or tcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Word<Transport>>,
    /// Differentiated services code point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// native, iperf3 …
    pub dialect: Word<Dialect>,
}

/// What the kernel granted of a socket buffer: `SO_SNDBUF` and `SO_RCVBUF` as read back, which on
/// Linux is twice what was asked. The least of all streams and both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowGranted {
    /// Sender's `SO_SNDBUF`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_bytes: Option<u64>,
    /// Receiver's `SO_RCVBUF`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_bytes: Option<u64>,
}

/// Cores of the data threads, in stream order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuPlan {
    /// Of the senders.
    pub sender: Vec<u32>,
    /// Of the receivers.
    pub receiver: Vec<u32>,
}

/// One interval of the test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Since the start of the measured time.
    pub start_s: f64,
    /// Since the start of the measured time.
    pub end_s: f64,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of an interval, of the totals or of a stream: `sender` and `receiver`; `forward` and
/// `reverse` with such a pair each in a test of both directions; `rr` in a request/response test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// What the sending end measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderFigures>,
    /// What the receiving end measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<ReceiverFigures>,
    /// Client to server, in a test of both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Pair>,
    /// Server to client, in a test of both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Pair>,
    /// Transactions and latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rr: Option<RrFigures>,
}

/// Both ends of one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// What the sending end measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderFigures>,
    /// What the receiving end measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<ReceiverFigures>,
}

/// What a sending end measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SenderFigures {
    /// Payload that the kernel took.
    pub bytes: u64,
    /// Datagrams that the kernel took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<u64>,
    /// Measured time.
    pub seconds: f64,
    /// `bytes` x 8 / `seconds`.
    pub bits_per_second: f64,
    /// Datagrams per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_per_second: Option<f64>,
    /// Datagrams offered to the kernel: `datagrams` + `refused_locally`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempted: Option<u64>,
    /// Datagrams that the sending host itself dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_locally: Option<u64>,
    /// The same by errno, adding up to `refused_locally`; `unknown` where the kernel did not say why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub local_send_errors: BTreeMap<String, u64>,
    /// Wake-ups later than the burst limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_wakeups: Option<u64>,
    /// Datagrams due but given up, because catching up is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<u64>,
    /// How well the schedule was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingFigures>,
    /// CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuFigures>,
    /// TCP state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpFigures>,
    /// The host's own counters (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostFigures>,
}

/// How well a sender kept its schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacingFigures {
    /// Distance of the achieved from the asked rate, in parts per million; absent at `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_error_ppm: Option<f64>,
    /// Median gap between send calls.
    pub gap_p50_ns: u64,
    /// 99th percentile of the gap.
    pub gap_p99_ns: u64,
    /// Largest gap.
    pub gap_max_ns: u64,
    /// What the gap should be; absent at `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_nominal_ns: Option<u64>,
    /// 99th percentile of send time less due time; absent at `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_ns: Option<u64>,
}

/// What a receiving end measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverFigures {
    /// Payload of unique datagrams, or bytes read.
    pub bytes: u64,
    /// Unique datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<u64>,
    /// Measured time: from the first arrival to the last, and no shorter than the sender's time.
    pub seconds: f64,
    /// `bytes` x 8 / `seconds`.
    pub bits_per_second: f64,
    /// Datagrams per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_per_second: Option<f64>,
    /// Sent and never arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// `lost` / sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_ratio: Option<f64>,
    /// Of those: between the two hosts' sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_path: Option<u64>,
    /// Of those: in the receiver's socket buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_receiver: Option<u64>,
    /// Of those: one or the other; the kernel counts a merged train as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed: Option<u64>,
    /// Packets the socket dropped, as the kernel counts (a merged train is one).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_drops: Option<u64>,
    /// Arrived more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u64>,
    /// Arrived after a later one, RFC 4737.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered: Option<u64>,
    /// Largest reordering extent, RFC 4737 section 4.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_extent_max: Option<u64>,
    /// Of the reordered: later than the receive window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// Of the unique datagrams of a test by time: arrived more than 5 % of that time after it was
    /// over, or were read more than 100 ms after that. A queue held them, so the path or the
    /// receiver carries less than was sent, although nothing is lost (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue: Option<u64>,
    /// From the first arrival until the last datagram was read (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_seconds: Option<f64>,
    /// Arrived with a header that fails its check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<u64>,
    /// Runs of loss, RFC 3357.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_runs: Option<LossRuns>,
    /// RFC 3550 A.8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<f64>,
    /// RFC 5481: delay less the least delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_variation_s: Option<Quantiles>,
    /// When the clocks' distance is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_delay_s: Option<OneWayDelay>,
    /// CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuFigures>,
    /// The host's own counters (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostFigures>,
}

/// Runs of loss, RFC 3357.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossRuns {
    /// How many.
    pub count: u64,
    /// Datagrams in the longest.
    pub longest: u64,
    /// Datagrams in the mean one.
    pub mean: f64,
    /// Least distance between two runs, in sequence numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_distance: Option<u64>,
    /// Runs of 1, 2, 3-4, 5-8 … datagrams; trailing zeros are left out.
    pub lengths: Vec<u64>,
}

/// Quantiles in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Of several streams: each quantile is the largest of theirs, which that of all values together
    /// does not exceed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upper_bounds: bool,
    /// Values behind them.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// 99.99 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999: Option<f64>,
    /// Largest.
    pub max: f64,
    /// Least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
}

/// One-way delay with the error of the clocks behind it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneWayDelay {
    /// Quantiles.
    #[serde(flatten)]
    pub quantiles: Quantiles,
    /// The true value may be off by this much either way.
    pub clock_error_s: f64,
}

/// CPU of one end, from the first datagram or byte until nothing more is sent; of a row, over its
/// interval. Of several streams the busiest thread and its core are shown here; all are in
/// `streams`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuFigures {
    /// The data thread's own time, percent of one core.
    pub thread_percent: f64,
    /// All data threads of this end and direction together, percent of one core.
    pub threads_percent: f64,
    /// Of the time, the thread stood ready and waited for a core (the kernel's run delay): other threads,
    /// other programs or its cgroup's CPU limit kept it from running. Absent where the kernel does not
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_percent: Option<f64>,
    /// Of the time, the thread neither ran nor stood ready nor slept: interrupts or the hypervisor took
    /// its core from under it. Told only where it hardly slept, because sleep cannot be told from it
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_percent: Option<f64>,
    /// CPU of this host, all cores together, that this test's data threads did not use, percent of one
    /// core; softirq that the kernel does not count to a thread is left out where it keeps that apart
    /// (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_percent: Option<f64>,
    /// Cores of this host that were idle half of the time or more, ascending (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_cores: Option<Vec<u32>>,
    /// Its core, where the end tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// That core, all but idle and steal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_percent: Option<f64>,
    /// user + nice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_percent: Option<f64>,
    /// system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_percent: Option<f64>,
    /// irq + softirq.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirq_percent: Option<f64>,
    /// Time the hypervisor gave to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_percent: Option<f64>,
    /// The cores that take the interface's interrupts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub irq_cores: Vec<CoreFigures>,
}

/// One core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreFigures {
    /// Its number.
    pub core: u32,
    /// All but idle and steal.
    pub core_percent: f64,
    /// irq + softirq.
    pub softirq_percent: f64,
}

/// TCP, as the sending kernel sees it. Counters are the growth over the span. Round trip, window and
/// delivery rate are values of a moment: in a row those at its end, in the totals the mean of the rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpFigures {
    /// Bytes that the peer acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<u64>,
    /// Segments sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Smoothed round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_s: Option<f64>,
    /// The largest of the rows (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_max_s: Option<f64>,
    /// Its mean deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_variation_s: Option<f64>,
    /// Least round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_s: Option<f64>,
    /// Congestion window, of all streams together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    /// The smallest of the rows (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_min_bytes: Option<u64>,
    /// The largest of the rows (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_max_bytes: Option<u64>,
    /// Sending maximum segment size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u64>,
    /// Path MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmtu_bytes: Option<u64>,
    /// The kernel's own estimate of the delivery rate, all streams together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_rate_bps: Option<u64>,
    /// Share of the time with data to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ratio: Option<f64>,
    /// Share of the time limited by the receiver's window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwnd_limited_ratio: Option<f64>,
    /// Share of the time limited by the send buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf_limited_ratio: Option<f64>,
    /// Congestion control in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
}

/// What a host's own counters gained over the run, the wait for the last datagrams included. They count the whole host (or network
/// namespace), other programs' packets too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFigures {
    /// UDP RcvbufErrors of /proc/net/snmp and snmp6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_receive_buffer_errors: Option<u64>,
    /// UDP SndbufErrors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_send_buffer_errors: Option<u64>,
    /// UDP InCsumErrors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_checksum_errors: Option<u64>,
    /// softnet_stat column 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softnet_dropped: Option<u64>,
    /// softnet_stat column 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softnet_squeezed: Option<u64>,
    /// The interface's receive drops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_rx_dropped: Option<u64>,
    /// The interface's transmit drops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_tx_dropped: Option<u64>,
    /// The interface's transmitted packets (a train may count as one).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_tx_packets: Option<u64>,
    /// The interface's received packets (a train may count as one).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_rx_packets: Option<u64>,
    /// Drops of the interface's queueing disciplines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qdisc_dropped: Option<u64>,
    /// Most bytes of packets that waited in the interface's queueing disciplines at the end of an
    /// interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qdisc_backlog_bytes: Option<u64>,
    /// Time that a cgroup's CPU limit throttled linerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_s: Option<f64>,
}

/// Transactions and their latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RrFigures {
    /// Completed.
    pub transactions: u64,
    /// Measured time.
    pub seconds: f64,
    /// Completed per second.
    pub transactions_per_second: f64,
    /// Requests never answered (UDP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
    /// Requests of the measured time that had no answer when it ended. What was answered within a second
    /// after that is in the latency and makes no transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<u64>,
    /// Requests sent more than 1 ms after they were due (open loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_sends: Option<u64>,
    /// Requests that the client's own host dropped, by errno (UDP); they are among those without an
    /// answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub local_send_errors: BTreeMap<String, u64>,
    /// Answers that the server's own host dropped, by errno (UDP).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub server_local_send_errors: BTreeMap<String, u64>,
    /// From the intended send time (open loop) or the actual one to the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_s: Option<Quantiles>,
    /// The histogram in HdrHistogram's V2 form, base64, nanoseconds (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<String>,
    /// CPU of the client's data threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuFigures>,
    /// CPU of the server's data threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<CpuFigures>,
    /// The client host's own counters (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostFigures>,
    /// The server host's own counters (totals only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_host: Option<HostFigures>,
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamRecord {
    /// Counted from 0 within its direction.
    pub stream: u16,
    /// forward or reverse.
    pub direction: Word<Way>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What limited a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Everything asked for arrived: the rate that was asked for.
    RequestedRate,
    /// The sending thread had no time left: its own work filled its core, or its cgroup's CPU limit
    /// throttled it.
    SenderCpu,
    /// The sending host refused or held back datagrams.
    SenderHost,
    /// Something between the two hosts' sockets.
    Path,
    /// The receiving thread had no time left, likewise.
    ReceiverCpu,
    /// The receiver's socket buffer overflowed while its core was not full.
    ReceiverBuffer,
    /// TCP: the receiver's window or the send buffer.
    TcpWindow,
    /// TCP: loss and congestion control.
    TcpCongestion,
    /// rr: the time of one round trip.
    RoundTrip,
    /// Other programs or the hypervisor took the cores that this test's threads stood ready for.
    OtherWork,
    /// None of these could be shown.
    Unknown,
}

impl Limit {
    /// As in the record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestedRate => "requested-rate",
            Self::SenderCpu => "sender-cpu",
            Self::SenderHost => "sender-host",
            Self::Path => "path",
            Self::ReceiverCpu => "receiver-cpu",
            Self::ReceiverBuffer => "receiver-buffer",
            Self::TcpWindow => "tcp-window",
            Self::TcpCongestion => "tcp-congestion",
            Self::RoundTrip => "round-trip",
            Self::OtherWork => "other-work",
            Self::Unknown => "unknown",
        }
    }
}

/// What limited a test, with the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The limit; of the forward direction when both ran.
    pub limit: Limit,
    /// Why, in sentences.
    pub because: Vec<String>,
    /// Up to three things to try, each a flag or a command that exists.
    pub advice: Vec<String>,
    /// The numbers behind it; each name ends in its unit.
    pub evidence: BTreeMap<String, f64>,
}

/// Whether a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did.
    Complete,
    /// It was cut short; what was measured is here.
    Partial,
    /// Nothing was measured.
    Failed,
    /// An accounting identity does not hold: do not use these numbers.
    Invalid,
}

impl Exit {
    /// How the command that made this record ended.
    pub fn of(record: &RunRecord) -> Self {
        match (record.status, &record.error) {
            (Status::Complete, _) => Self::Complete,
            (Status::Invalid, _) => Self::Invalid,
            (_, Some(error)) => Self::from_code(error.exit_code),
            (_, None) => Self::Failed,
        }
    }
}
