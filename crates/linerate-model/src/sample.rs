//! What the data threads measure: integers only, one set for each interval and one for the whole.
//!
//! These travel from a data thread to its runner, from the server to the client, and into the
//! record, where [`crate::record`] turns them into rates and shares.

use serde::{Deserialize, Serialize};

pub use crate::trips::Trips;
use serde_with_macros::skip_serializing_none;

use crate::host::CoreUse;
use crate::local_errors::LocalSendErrors;

/// Adds the counters of these names; saturates.
macro_rules! add_up {
    ($sum:ident, $other:ident: $($counter:ident),+) => {
        $($sum.$counter = $sum.$counter.saturating_add($other.$counter);)+
    };
}

/// Counters of one sending stream (or several, added up) over a span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendCounts {
    /// Bytes of payload that the kernel took.
    pub bytes: u64,
    /// Datagrams that the kernel took (UDP).
    pub datagrams: u64,
    /// Datagrams that the sending host itself dropped, with any errno; none took a sequence number.
    pub refused_locally: u64,
    /// The same by errno; empty from a peer that does not report them.
    #[serde(default, skip_serializing_if = "LocalSendErrors::is_empty")]
    pub local_errors: LocalSendErrors,
    /// Batches that left later than the burst limit (at least 100 us) after their due time.
    pub late_wakeups: u64,
    /// Datagrams that were due but given up, because catching up is bounded.
    pub given_up: u64,
    /// Calls into the kernel that carried data.
    pub calls: u64,
}

impl SendCounts {
    /// Datagrams the sender tried to send.
    pub fn attempted(&self) -> u64 {
        self.datagrams.saturating_add(self.refused_locally)
    }

    /// Adds another stream or interval. Saturates: a peer may report any number.
    pub fn add(&mut self, other: &Self) {
        add_up!(self, other: bytes, datagrams, refused_locally, late_wakeups, given_up, calls);
        self.local_errors.add(&other.local_errors);
    }
}

/// Counters of one receiving stream (or several, added up) over a span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecvCounts {
    /// Bytes of payload in unique datagrams, or bytes read from TCP.
    pub bytes: u64,
    /// Unique datagrams.
    pub datagrams: u64,
    /// Sequence numbers that fell into this span: those of the interval, or all up to the last that
    /// the sender reported.
    pub expected: u64,
    /// Of those, not arrived. `expected = arrived among them + lost`.
    pub lost: u64,
    /// Arrived again.
    pub duplicates: u64,
    /// Arrived after one with a higher number, RFC 4737 section 3.
    pub reordered: u64,
    /// Of the reordered: arrived after their place had left the receive window.
    pub late: u64,
    /// Arrived with a header that fails its check.
    pub corrupt: u64,
    /// Arrived from the right address but with another test's token.
    pub foreign: u64,
    /// Packets (a merged train is one) that the socket had no room for, as the kernel counted.
    pub socket_drops: u64,
    /// Lost datagrams that those drops explain at least.
    pub dropped_min: u64,
    /// Lost datagrams that those drops explain at most.
    pub dropped_max: u64,
    /// Calls into the kernel that brought data.
    pub calls: u64,
}

impl RecvCounts {
    /// Adds another stream or interval. Saturates: a peer may report any number.
    pub fn add(&mut self, other: &Self) {
        add_up!(
            self, other:
            bytes, datagrams, expected, lost, duplicates, reordered, late, corrupt, foreign,
            socket_drops, dropped_min, dropped_max, calls
        );
    }

    /// How the lost datagrams divide: `(path, receiver, unattributed)`, which add up to `lost`.
    pub fn loss_by_place(&self) -> (u64, u64, u64) {
        let receiver = self.dropped_min.min(self.lost);
        let at_most = self.dropped_max.min(self.lost).max(receiver);
        (self.lost - at_most, receiver, at_most - receiver)
    }
}

/// `struct tcp_info` of Linux, the fields that explain a rate. `None` where the kernel has no such
/// field, or has measured no round trip yet. Counters are since the connection began; the record shows their growth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSample {
    /// Bytes acknowledged by the peer, `tcpi_bytes_acked`.
    pub bytes_acked: Option<u64>,
    /// Bytes of retransmitted data, `tcpi_bytes_retrans`.
    pub bytes_retransmitted: Option<u64>,
    /// Segments sent again, `tcpi_total_retrans`.
    pub retransmits: Option<u64>,
    /// Smoothed round trip, `tcpi_rtt`, in nanoseconds.
    pub rtt_ns: Option<u64>,
    /// Its mean deviation, `tcpi_rttvar`, in nanoseconds.
    pub rtt_variation_ns: Option<u64>,
    /// Least round trip seen, `tcpi_min_rtt`, in nanoseconds.
    pub min_rtt_ns: Option<u64>,
    /// Congestion window in bytes, `tcpi_snd_cwnd` x `tcpi_snd_mss`.
    pub cwnd_bytes: Option<u64>,
    /// Sending maximum segment size.
    pub mss_bytes: Option<u64>,
    /// Path MTU.
    pub pmtu_bytes: Option<u64>,
    /// `tcpi_delivery_rate` in bit/s.
    pub delivery_rate_bps: Option<u64>,
    /// Time with data to send, `tcpi_busy_time`, in nanoseconds.
    pub busy_ns: Option<u64>,
    /// Of that, limited by the receiver's window, `tcpi_rwnd_limited`.
    pub rwnd_limited_ns: Option<u64>,
    /// Of that, limited by the send buffer, `tcpi_sndbuf_limited`.
    pub sndbuf_limited_ns: Option<u64>,
    /// Bytes in the send buffer, estimated: `tcpi_notsent_bytes` + `tcpi_unacked` x `tcpi_snd_mss`.
    pub unsent_bytes: Option<u64>,
}

impl TcpSample {
    /// This state, with what the counters gained since an earlier one. A counter that either lacks has
    /// gained nothing that is known.
    #[must_use]
    pub fn grown_since(&self, earlier: &Self) -> Self {
        let since = |now: Option<u64>, base: Option<u64>| Some(now?.saturating_sub(base?));
        Self {
            bytes_acked: since(self.bytes_acked, earlier.bytes_acked),
            bytes_retransmitted: since(self.bytes_retransmitted, earlier.bytes_retransmitted),
            retransmits: since(self.retransmits, earlier.retransmits),
            busy_ns: since(self.busy_ns, earlier.busy_ns),
            rwnd_limited_ns: since(self.rwnd_limited_ns, earlier.rwnd_limited_ns),
            sndbuf_limited_ns: since(self.sndbuf_limited_ns, earlier.sndbuf_limited_ns),
            ..*self
        }
    }
}

/// CPU of one data thread over a span, or of several beside each other.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Time on a core of the busiest thread, `CLOCK_THREAD_CPUTIME_ID`, in nanoseconds; absent where
    /// nobody reports it.
    pub cpu_ns: Option<u64>,
    /// Time in which that thread stood ready and waited for a core, in nanoseconds: the run delay of
    /// `/proc/thread-self/schedstat` (kernel/sched/stats.h, `sched_info_arrive`). Time in which its
    /// cgroup was throttled counts as well. Absent where the kernel does not keep it.
    pub ready_ns: Option<u64>,
    /// How often that thread gave up its core by itself, `ru_nvcsw`: it sleeps at most so often.
    pub sleeps: Option<u64>,
    /// The core that thread was on at the end of the span; absent where nobody reports it.
    pub core: Option<u32>,
    /// Time on a core of the other threads together, in nanoseconds.
    #[serde(default)]
    pub others_ns: u64,
}

impl ThreadUse {
    /// Time on a core of all threads together. Saturates: a peer may report any number.
    pub fn all_ns(&self) -> u64 {
        self.cpu_ns.unwrap_or(0).saturating_add(self.others_ns)
    }

    /// How long the busiest thread had work to do: it ran, or stood ready to.
    fn wanted_ns(&self) -> Option<u64> {
        Some(self.cpu_ns?.saturating_add(self.ready_ns.unwrap_or(0)))
    }

    /// Adds other threads over the same span. The busiest is the one that wanted a core longest.
    pub fn beside(&mut self, other: &Self) {
        let all = self.all_ns().saturating_add(other.all_ns());
        let busiest = if other.wanted_ns() > self.wanted_ns() { *other } else { *self };
        *self = Self { others_ns: all.saturating_sub(busiest.cpu_ns.unwrap_or(0)), ..busiest };
    }

    /// Adds the same threads' use over the span that follows.
    pub fn follow(&mut self, next: &Self) {
        let add = |now: Option<u64>, next: Option<u64>| {
            now.map(|now| now.saturating_add(next.unwrap_or(0))).or(next)
        };
        *self = Self {
            cpu_ns: add(self.cpu_ns, next.cpu_ns),
            ready_ns: add(self.ready_ns, next.ready_ns),
            sleeps: add(self.sleeps, next.sleeps),
            core: next.core.or(self.core),
            others_ns: self.others_ns.saturating_add(next.others_ns),
        };
    }

    /// What one thread used since its reading `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            cpu_ns: grown(self.cpu_ns, before.cpu_ns),
            ready_ns: grown(self.ready_ns, before.ready_ns),
            sleeps: grown(self.sleeps, before.sleeps),
            ..self
        }
    }

    /// What one thread had used `ago_ns` before this reading, when it should have begun something: of
    /// the time that it stood ready since the reading `before`, what can lie after then does.
    #[must_use]
    pub fn ago(self, ago_ns: u64, before: Self) -> Self {
        let waited = self.since(before).ready_ns.unwrap_or(0);
        let ready_ns = self.ready_ns.map(|ready| ready.saturating_sub(waited.min(ago_ns)));
        Self { ready_ns, ..self }
    }
}

/// Delay and its variation over a span. Times in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayQuantiles {
    /// Values that were recorded.
    pub count: u64,
    /// Least.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// 99.99th percentile.
    pub p9999_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: u64,
}

/// Runs of lost datagrams, RFC 3357.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossRunCounts {
    /// Runs ("loss periods").
    pub runs: u64,
    /// Datagrams in the longest.
    pub longest: u64,
    /// Datagrams in the shortest.
    pub shortest: u64,
    /// Least distance in sequence numbers from one run's last to the next run's first loss.
    pub least_distance: Option<u64>,
    /// Runs of 1, 2, 3-4, 5-8 … datagrams: entry i counts lengths in (2^(i-1), 2^i].
    pub lengths: [u64; 16],
}

/// Everything about one sending stream at the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SendReport {
    /// Whole measured time.
    pub counts: SendCounts,
    /// Per interval; adds up to `counts`.
    pub intervals: Vec<SendInterval>,
    /// Measured time in nanoseconds: from the start to the end of the last datagram's slot, or of the
    /// last write.
    pub span_ns: u64,
    /// TCP in iperf3's dialect: when the peer's kernel had acknowledged all but two segments, which it
    /// may for a while, in nanoseconds of the measured time.
    #[serde(default)]
    pub acknowledged_ns: Option<u64>,
    /// Warm-up datagrams or bytes (TCP), which are in nothing else here.
    pub warmup: u64,
    /// Engines used, in order; more than one when the kernel refused.
    pub engines: Vec<String>,
    /// Why an engine was given up, if one was.
    pub fallback: Option<String>,
    /// Most datagrams in one train.
    pub train: u32,
    /// Send buffer granted, as `SO_SNDBUF` reads back (the kernel doubles what is asked).
    pub send_buffer: u64,
    /// Path MTU in bytes as the kernel knew it at the end, where the datagrams did not fit into it and
    /// went as fragments.
    #[serde(default)]
    pub small_mtu: Option<u32>,
    /// Distance of the achieved rate from the asked one in parts per billion; absent at `max`.
    pub pacing_error_ppb: Option<i64>,
    /// Gaps between the beginnings of one send call and the next.
    pub gaps: Option<DelayQuantiles>,
    /// What the gap should be for the trains sent.
    pub nominal_gap_ns: Option<u64>,
    /// Lateness: beginning of the call less the due time of its first datagram.
    pub lateness: Option<DelayQuantiles>,
    /// Other rates that were chosen while it sent, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_changes: Vec<RateChange>,
    /// CPU of the data thread.
    pub thread: ThreadUse,
    /// TCP state at the end, with the congestion control in use.
    pub tcp: Option<TcpSample>,
    /// Congestion control in use.
    pub congestion: Option<String>,
    /// The error that ended the stream early.
    pub error: Option<String>,
}

/// Another rate, chosen while a test ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateChange {
    /// Since the start of the measured time, in nanoseconds.
    pub at_ns: u64,
    /// Of all streams of the direction, bit/s of payload.
    pub rate_bps: u64,
}

/// One interval of a sending stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInterval {
    /// Counters.
    pub counts: SendCounts,
    /// CPU.
    pub thread: ThreadUse,
    /// TCP state at the end of the interval.
    pub tcp: Option<TcpSample>,
}

/// Everything about one receiving stream at the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecvReport {
    /// Whole measured time.
    pub counts: RecvCounts,
    /// Per interval; adds up to `counts`.
    pub intervals: Vec<RecvInterval>,
    /// First arrival on this host's monotonic clock, if anything came.
    pub first_ns: Option<u64>,
    /// Last arrival on the same clock.
    pub last_ns: Option<u64>,
    /// Warm-up datagrams or bytes that arrived.
    pub warmup: u64,
    /// Numbers that fell into the warm-up, where its datagrams are numbered with the measured ones
    /// (iperf3).
    #[serde(default)]
    pub warmup_expected: u64,
    /// Of those, not arrived.
    #[serde(default)]
    pub warmup_lost: u64,
    /// Receive engine that ran.
    pub engine: String,
    /// Why an engine was given up for it, if one was.
    #[serde(default)]
    pub fallback: Option<String>,
    /// Why arrivals are of the times at which they were read, if the system does not stamp them.
    #[serde(default)]
    pub unstamped: Option<String>,
    /// Receive buffer granted, as `SO_RCVBUF` reads back.
    pub receive_buffer: u64,
    /// RFC 3550 A.8 jitter at the end, in nanoseconds.
    pub jitter_ns: Option<u64>,
    /// RFC 5481 packet delay variation.
    pub delay_variation: Option<DelayQuantiles>,
    /// Arrival less send stamp of the fastest datagram in nanoseconds, each on its own host's
    /// monotonic clock.
    pub least_transit_ns: Option<i64>,
    /// Delays by both hosts' wall clocks, where the sender says that these agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trips: Option<Trips>,
    /// Loss runs.
    pub loss_runs: Option<LossRunCounts>,
    /// Reordering extent, RFC 4737 section 4.2: largest seen.
    pub reorder_extent_max: Option<u64>,
    /// Whether one kernel packet may have stood for several datagrams.
    pub merged: bool,
    /// Most datagrams that came as one packet.
    pub train: u32,
    /// Messages whose kernel time stamp could not be used; they are in no delay figure.
    pub timestamp_faults: u64,
    /// Arrivals in places that were forgotten, so that they could not be distinguished from duplicates.
    /// Each may be one of the lost.
    pub unknown_late: u64,
    /// Most datagrams that waited unread in the socket when reading ended. They are among the lost, and
    /// of no known place.
    #[serde(default)]
    pub unread: u64,
    /// Unique datagrams that came, or were read, too late after a test by time was over: see
    /// [`crate::record::ReceiverFigures::overdue`].
    #[serde(default)]
    pub overdue: Option<u64>,
    /// When the last unique datagram was read, on this host's monotonic clock.
    #[serde(default)]
    pub last_read_ns: Option<u64>,
    /// CPU of the data thread.
    pub thread: ThreadUse,
    /// The error that ended the stream early.
    pub error: Option<String>,
}

/// One interval of a receiving stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecvInterval {
    /// Counters.
    pub counts: RecvCounts,
    /// Jitter at the end of the interval, in nanoseconds.
    pub jitter_ns: Option<u64>,
    /// Mean delay variation of its datagrams (RFC 5481): delay less the least until its end, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_mean_ns: Option<u64>,
    /// The largest, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_max_ns: Option<u64>,
    /// CPU.
    pub thread: ThreadUse,
    /// What the sender said in the stream of its connection (TCP from nuttcp's servers).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<ReportedTcp>,
    /// Delays by both hosts' wall clocks, where the sender says that these agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trips: Option<Trips>,
}

impl RecvInterval {
    /// Jitter and delays of this and of `other`, another stream's: the larger of each.
    pub fn larger_delays(&mut self, other: &Self) {
        self.jitter_ns = self.jitter_ns.max(other.jitter_ns);
        self.delay_mean_ns = self.delay_mean_ns.max(other.delay_mean_ns);
        self.delay_max_ns = self.delay_max_ns.max(other.delay_max_ns);
    }
}

/// What a sender over TCP says of its connection in what it sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedTcp {
    /// Segments sent again, in the interval.
    pub retransmits: u64,
    /// Congestion window at its end, in bytes.
    pub cwnd_bytes: Option<u64>,
}

/// Everything about one requesting stream at the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RrReport {
    /// Transactions completed in the measured time.
    pub transactions: u64,
    /// Requests without an answer (UDP only) when the time limit for it passed.
    pub unanswered: u64,
    /// Requests of the measured time that had no answer at its end, those answered later included, and in
    /// an open loop those that were due and never sent.
    #[serde(default)]
    pub unfinished: u64,
    /// Requests sent more than 1 ms later than intended (open loop).
    pub late_sends: u64,
    /// Requests that this host itself dropped (UDP); they are among those without an answer.
    #[serde(default, skip_serializing_if = "LocalSendErrors::is_empty")]
    pub local_errors: LocalSendErrors,
    /// Measured time.
    pub span_ns: u64,
    /// Per interval: transactions and their latencies.
    pub intervals: Vec<RrInterval>,
    /// Latency over the whole time.
    pub latency: DelayQuantiles,
    /// The histogram itself in HdrHistogram's V2 form, base64, nanoseconds.
    pub histogram: Option<String>,
    /// CPU of the data thread.
    pub thread: ThreadUse,
    /// The error that ended the stream early.
    pub error: Option<String>,
}

/// One interval of a requesting stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RrInterval {
    /// Transactions completed.
    pub transactions: u64,
    /// Their latencies.
    pub latency: DelayQuantiles,
    /// CPU.
    pub thread: ThreadUse,
}

/// What a host's own counters gained over a span: evidence beside the sockets' figures. A counter that
/// could not be read at both ends of the span is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostCounters {
    /// UDP RcvbufErrors of /proc/net/snmp and snmp6.
    pub udp_receive_buffer_errors: Option<u64>,
    /// UDP SndbufErrors.
    pub udp_send_buffer_errors: Option<u64>,
    /// UDP InCsumErrors.
    pub udp_checksum_errors: Option<u64>,
    /// Dropped because the per-core backlog was full, softnet_stat column 2.
    pub softnet_dropped: Option<u64>,
    /// Times the softirq budget ran out, softnet_stat column 3.
    pub softnet_squeezed: Option<u64>,
    /// The test's interface: rx_dropped + rx_missed_errors + rx_fifo_errors.
    pub nic_rx_dropped: Option<u64>,
    /// The test's interface: tx_dropped.
    pub nic_tx_dropped: Option<u64>,
    /// The test's interface: tx_packets.
    pub nic_tx_packets: Option<u64>,
    /// The test's interface: rx_packets.
    pub nic_rx_packets: Option<u64>,
    /// Drops in the interface's queueing disciplines (root and below), where they could be read.
    pub qdisc_dropped: Option<u64>,
    /// Bytes that wait in them when the span ends: no growth, but what is there.
    pub qdisc_backlog: Option<u64>,
    /// Time this process's cgroup was throttled, in nanoseconds of all cores added up.
    pub throttled_ns: Option<u64>,
}

/// What a host measured of itself over one interval or the whole run. Of the whole run, cores,
/// pressure and span are those of the measured time; counters go on until the last datagram was waited
/// for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSample {
    /// Every core, or the busiest of a host that has more than are reported.
    pub cores: Vec<CoreUse>,
    /// So many cores are not among them: what was added up of those that are is no sum of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u32>,
    /// Counter growth.
    pub counters: HostCounters,
    /// Share of time in which some task waited for a core (PSI `some`), hundredths of a percent.
    pub cpu_pressure: Option<u16>,
    /// Whether this kernel keeps interrupts apart from the time of the thread that they stop
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`); absent where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts_apart: Option<bool>,
    /// Length of the span.
    pub span_ns: u64,
    /// Change of the wall clock against the monotonic clock over the span, in nanoseconds.
    pub clock_step_ns: i64,
    /// How long nothing of the process ran although it had to, and neither waited for a core nor was throttled:
    /// it was stopped, or the whole machine was. Of totals only, and where the kernel keeps run delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_ns: Option<u64>,
    /// That the interface of the test was down or had no carrier, as the kernel reported it. Of totals only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_link: Option<LostLink>,
}

/// How an interface lost its link. The kernel reports a lost carrier up to a second late where some interface changed in
/// the second before (net/core/link_watch.c).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostLink {
    /// How often.
    pub times: u64,
    /// For how long it had none, at the least, in nanoseconds.
    pub least_ns: u64,
}

impl LostLink {
    /// What came since an earlier count of the same interface.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            times: self.times.saturating_sub(earlier.times),
            least_ns: self.least_ns.saturating_sub(earlier.least_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_loss_always_add_up() {
        for (lost, min, max) in [(10, 0, 0), (10, 3, 3), (10, 3, 30), (10, 12, 12), (0, 5, 9)] {
            let counts =
                RecvCounts { lost, dropped_min: min, dropped_max: max, ..Default::default() };
            let (path, receiver, unattributed) = counts.loss_by_place();
            assert_eq!(path + receiver + unattributed, lost);
        }
    }

    /// Readings in milliseconds of time ready: 7 before a wait, 30 after it, of which the wait took at most 23.
    #[test]
    fn a_thread_that_begins_late_waited_for_its_core_in_what_it_began() {
        let ready = |ms: u64| ThreadUse {
            cpu_ns: Some(5_000_000),
            ready_ns: Some(ms * 1_000_000),
            ..ThreadUse::default()
        };
        for (late_ms, at_begin_ms) in [(0, 30), (10, 20), (23, 7), (600, 7)] {
            assert_eq!(ready(30).ago(late_ms * 1_000_000, ready(7)), ready(at_begin_ms));
        }
        let unknown = ThreadUse { ready_ns: None, ..ready(0) };
        assert_eq!(unknown.ago(600_000_000, unknown), unknown);
        assert_eq!(ready(30).ago(600_000_000, unknown), ready(30));
    }
}
