//! What was measured, in the record's words: figures of an interval, of the totals and of a stream.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Figures of an interval, of the totals or of a stream: `sender` and `receiver`; `forward` and
/// `reverse` with such a pair each in a test of both directions; `rr` in a request/response test.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// What the sending end measured.
    pub sender: Option<SenderFigures>,
    /// What the receiving end measured.
    pub receiver: Option<ReceiverFigures>,
    /// Client to server, in a test of both directions.
    pub forward: Option<Pair>,
    /// Server to client, in a test of both directions.
    pub reverse: Option<Pair>,
    /// Transactions and latency.
    pub rr: Option<RrFigures>,
}

/// Both ends of one direction.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// What the sending end measured.
    pub sender: Option<SenderFigures>,
    /// What the receiving end measured.
    pub receiver: Option<ReceiverFigures>,
}

/// What a sending end measured.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SenderFigures {
    /// Payload that the kernel took.
    pub bytes: u64,
    /// Datagrams that the kernel took.
    pub datagrams: Option<u64>,
    /// Measured time.
    pub seconds: f64,
    /// `bytes` x 8 / `seconds`.
    pub bits_per_second: f64,
    /// Datagrams per second.
    pub datagrams_per_second: Option<f64>,
    /// Datagrams offered to the kernel: `datagrams` + `refused_locally`.
    pub attempted: Option<u64>,
    /// Datagrams that the sending host itself dropped.
    pub refused_locally: Option<u64>,
    /// The same by errno, adding up to `refused_locally`; `unknown` where the kernel did not say why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub local_send_errors: BTreeMap<String, u64>,
    /// Wake-ups later than the burst limit.
    pub late_wakeups: Option<u64>,
    /// Datagrams due but given up, because catching up is bounded.
    pub given_up: Option<u64>,
    /// How well the schedule was kept.
    pub pacing: Option<PacingFigures>,
    /// CPU.
    pub cpu: Option<CpuFigures>,
    /// TCP state.
    pub tcp: Option<TcpFigures>,
    /// The host's own counters (totals only).
    pub host: Option<HostFigures>,
}

/// How well a sender kept its schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacingFigures {
    /// Distance of the achieved from the asked rate, in parts per million; absent at `max`.
    pub mean_error_ppm: Option<f64>,
    /// Median gap between send calls.
    pub gap_p50_ns: u64,
    /// 99th percentile of the gap.
    pub gap_p99_ns: u64,
    /// Largest gap.
    pub gap_max_ns: u64,
    /// What the gap should be; absent at `max`.
    pub gap_nominal_ns: Option<u64>,
    /// 99th percentile of send time less due time; absent at `max`.
    pub lateness_p99_ns: Option<u64>,
}

/// What a receiving end measured.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverFigures {
    /// Payload of unique datagrams, or bytes read.
    pub bytes: u64,
    /// Unique datagrams.
    pub datagrams: Option<u64>,
    /// Measured time: from the first arrival to the last, and no shorter than the sender's time.
    pub seconds: f64,
    /// `bytes` x 8 / `seconds`.
    pub bits_per_second: f64,
    /// Datagrams per second.
    pub datagrams_per_second: Option<f64>,
    /// Sent and never arrived.
    pub lost: Option<u64>,
    /// `lost` / sent.
    pub lost_ratio: Option<f64>,
    /// Of those: between the two hosts' sockets.
    pub lost_path: Option<u64>,
    /// Of those: in the receiver's socket buffer.
    pub dropped_receiver: Option<u64>,
    /// Of those: one or the other; the kernel counts a merged train as one.
    pub unattributed: Option<u64>,
    /// Packets the socket dropped, as the kernel counts (a merged train is one).
    pub socket_drops: Option<u64>,
    /// Arrived more than once.
    pub duplicates: Option<u64>,
    /// Arrived after a later one, RFC 4737.
    pub reordered: Option<u64>,
    /// Largest reordering extent, RFC 4737 section 4.2.
    pub reorder_extent_max: Option<u64>,
    /// Of the reordered: later than the receive window.
    pub late: Option<u64>,
    /// Of the unique datagrams of a test by time: arrived more than 5 % of that time after it was
    /// over, or were read more than 100 ms after that. A queue held them, so the path or the
    /// receiver carries less than was sent, although nothing is lost (totals only).
    pub overdue: Option<u64>,
    /// From the first arrival until the last datagram was read (totals only).
    pub read_seconds: Option<f64>,
    /// Arrived with a header that fails its check.
    pub corrupt: Option<u64>,
    /// Runs of loss, RFC 3357.
    pub loss_runs: Option<LossRuns>,
    /// RFC 3550 A.8.
    pub jitter_s: Option<f64>,
    /// RFC 5481: delay less the least delay.
    pub delay_variation_s: Option<Quantiles>,
    /// Its mean in the interval, above the least delay until the interval's end (rows only).
    pub delay_variation_mean_s: Option<f64>,
    /// The largest, likewise (rows only).
    pub delay_variation_max_s: Option<f64>,
    /// When the clocks' distance is known.
    pub one_way_delay_s: Option<OneWayDelay>,
    /// By both hosts' wall clocks as they are, which may be apart (iperf 2's `--trip-times`).
    pub wall_clock_delay_s: Option<WallClockDelay>,
    /// CPU.
    pub cpu: Option<CpuFigures>,
    /// The host's own counters (totals only).
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
#[skip_serializing_none]
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
    pub p9999: Option<f64>,
    /// Largest.
    pub max: f64,
    /// Least.
    pub min: Option<f64>,
    /// Mean.
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

/// One-way delay of datagrams, or of blocks over TCP from the write to when their last byte was read, from the sender's wall
/// clock to the receiver's. What these clocks differ by is in it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WallClockDelay {
    /// Values behind it; absent where a peer reported it, which counts what ends a stream as well, and fewer than there
    /// were where its sums would be too large.
    pub count: Option<u64>,
    /// Least.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// CPU of one end, from the first datagram or byte until nothing more is sent; of a row, over its
/// interval. Of several streams the busiest thread and its core are shown here; all are in
/// `streams`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuFigures {
    /// The data thread's own time, percent of one core.
    pub thread_percent: f64,
    /// All data threads of this end and direction together, percent of one core.
    pub threads_percent: f64,
    /// Of the time, the thread stood ready and waited for a core (the kernel's run delay): other threads,
    /// other programs or its cgroup's CPU limit kept it from running. Absent where the kernel does not
    /// report it.
    pub ready_percent: Option<f64>,
    /// Of the time, the thread neither ran nor stood ready nor slept: interrupts or the hypervisor took
    /// its core from under it. Reported only where it hardly slept, because sleep cannot be
    /// distinguished from it otherwise.
    pub interrupted_percent: Option<f64>,
    /// CPU of this host, all cores together, that this test's data threads did not use, percent of one
    /// core; softirq that the kernel does not count to a thread is left out where it keeps that apart
    /// (totals only).
    pub others_percent: Option<f64>,
    /// Cores of this host that were idle half of the time or more, ascending (totals only).
    pub idle_cores: Option<Vec<u32>>,
    /// Its core, where the end reports it.
    pub core: Option<u32>,
    /// That core, all but idle and steal.
    pub core_percent: Option<f64>,
    /// user + nice.
    pub user_percent: Option<f64>,
    /// system.
    pub system_percent: Option<f64>,
    /// irq + softirq.
    pub softirq_percent: Option<f64>,
    /// Time the hypervisor gave to others.
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
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpFigures {
    /// Bytes that the peer acknowledged.
    pub bytes_acked: Option<u64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Smoothed round trip.
    pub rtt_s: Option<f64>,
    /// The largest of the rows (totals only).
    pub rtt_max_s: Option<f64>,
    /// Its mean deviation.
    pub rtt_variation_s: Option<f64>,
    /// Least round trip.
    pub min_rtt_s: Option<f64>,
    /// Congestion window, of all streams together.
    pub cwnd_bytes: Option<u64>,
    /// The smallest of the rows (totals only).
    pub cwnd_min_bytes: Option<u64>,
    /// The largest of the rows (totals only).
    pub cwnd_max_bytes: Option<u64>,
    /// Sending maximum segment size.
    pub mss_bytes: Option<u64>,
    /// Path MTU.
    pub pmtu_bytes: Option<u64>,
    /// The kernel's own estimate of the delivery rate, all streams together.
    pub delivery_rate_bps: Option<u64>,
    /// Share of the time with data to send.
    pub busy_ratio: Option<f64>,
    /// Share of the time limited by the receiver's window.
    pub rwnd_limited_ratio: Option<f64>,
    /// Share of the time limited by the send buffer.
    pub sndbuf_limited_ratio: Option<f64>,
    /// Congestion control in use.
    pub congestion: Option<String>,
}

/// What a host's own counters gained over the run, the wait for the last datagrams included. They count the whole host (or network
/// namespace), other programs' packets too.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFigures {
    /// UDP RcvbufErrors of /proc/net/snmp and snmp6.
    pub udp_receive_buffer_errors: Option<u64>,
    /// UDP SndbufErrors.
    pub udp_send_buffer_errors: Option<u64>,
    /// UDP InCsumErrors.
    pub udp_checksum_errors: Option<u64>,
    /// softnet_stat column 2.
    pub softnet_dropped: Option<u64>,
    /// softnet_stat column 3.
    pub softnet_squeezed: Option<u64>,
    /// The interface's receive drops.
    pub nic_rx_dropped: Option<u64>,
    /// The interface's transmit drops.
    pub nic_tx_dropped: Option<u64>,
    /// The interface's transmitted packets (a train may count as one).
    pub nic_tx_packets: Option<u64>,
    /// The interface's received packets (a train may count as one).
    pub nic_rx_packets: Option<u64>,
    /// Drops of the interface's queueing disciplines.
    pub qdisc_dropped: Option<u64>,
    /// Most bytes of packets that waited in the interface's queueing disciplines at the end of an
    /// interval.
    pub qdisc_backlog_bytes: Option<u64>,
    /// Time that a cgroup's CPU limit throttled linerate, of all cores added up: it may be longer than the test.
    pub throttled_s: Option<f64>,
}

/// Transactions and their latency.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RrFigures {
    /// Completed.
    pub transactions: u64,
    /// Measured time.
    pub seconds: f64,
    /// Completed per second.
    pub transactions_per_second: f64,
    /// Requests never answered (UDP).
    pub unanswered: Option<u64>,
    /// Requests of the measured time that had no answer when it ended. What was answered within a second
    /// after that is in the latency and makes no transaction.
    pub unfinished: Option<u64>,
    /// Requests sent more than 1 ms after they were due (open loop).
    pub late_sends: Option<u64>,
    /// Requests that the client's own host dropped, by errno (UDP); they are among those without an
    /// answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub local_send_errors: BTreeMap<String, u64>,
    /// Answers that the server's own host dropped, by errno (UDP).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub server_local_send_errors: BTreeMap<String, u64>,
    /// From the intended send time (open loop) or the actual one to the response.
    pub latency_s: Option<Quantiles>,
    /// The histogram in HdrHistogram's V2 form, base64, nanoseconds (totals only).
    pub latency_histogram: Option<String>,
    /// CPU of the client's data threads.
    pub cpu: Option<CpuFigures>,
    /// CPU of the server's data threads.
    pub server_cpu: Option<CpuFigures>,
    /// The client host's own counters (totals only).
    pub host: Option<HostFigures>,
    /// The server host's own counters (totals only).
    pub server_host: Option<HostFigures>,
}
