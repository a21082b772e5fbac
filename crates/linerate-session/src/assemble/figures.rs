//! Counters over a span of time as the record's figures.

use std::collections::BTreeMap;

use linerate_model::host::CoreUse;
use linerate_model::local_errors::LocalSendErrors;
use linerate_model::record::{
    CoreFigures, CpuFigures, HostFigures, Quantiles, ReceiverFigures, SenderFigures, TcpFigures,
    WallClockDelay,
};
use linerate_model::sample::{
    DelayQuantiles, HostCounters, HostSample, RecvCounts, SendCounts, TcpSample, ThreadUse, Trips,
};

use super::HostSamples;

pub(super) fn both<T: Copy>(a: Option<T>, b: Option<T>, f: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(f(a, b)),
        (a, b) => a.or(b),
    }
}

/// A TCP stream over two spans, one after the other: counters add up, the rest is as at the end.
pub(super) fn follow_tcp(first: Option<TcpSample>, then: Option<TcpSample>) -> Option<TcpSample> {
    let add = |a, b| both(a, b, u64::saturating_add);
    both(first, then, |a, b| TcpSample {
        bytes_acked: add(a.bytes_acked, b.bytes_acked),
        bytes_retransmitted: add(a.bytes_retransmitted, b.bytes_retransmitted),
        retransmits: add(a.retransmits, b.retransmits),
        busy_ns: add(a.busy_ns, b.busy_ns),
        rwnd_limited_ns: add(a.rwnd_limited_ns, b.rwnd_limited_ns),
        sndbuf_limited_ns: add(a.sndbuf_limited_ns, b.sndbuf_limited_ns),
        ..b
    })
}

/// Two TCP streams as one: counters and windows add up, times and sizes are the larger.
pub fn add_tcp(a: TcpSample, b: TcpSample) -> TcpSample {
    let add = u64::saturating_add;
    TcpSample {
        bytes_acked: both(a.bytes_acked, b.bytes_acked, add),
        bytes_retransmitted: both(a.bytes_retransmitted, b.bytes_retransmitted, add),
        retransmits: both(a.retransmits, b.retransmits, add),
        rtt_ns: both(a.rtt_ns, b.rtt_ns, u64::max),
        rtt_variation_ns: both(a.rtt_variation_ns, b.rtt_variation_ns, u64::max),
        min_rtt_ns: both(a.min_rtt_ns, b.min_rtt_ns, u64::min),
        cwnd_bytes: both(a.cwnd_bytes, b.cwnd_bytes, add),
        mss_bytes: both(a.mss_bytes, b.mss_bytes, u64::max),
        pmtu_bytes: both(a.pmtu_bytes, b.pmtu_bytes, u64::max),
        delivery_rate_bps: both(a.delivery_rate_bps, b.delivery_rate_bps, add),
        busy_ns: both(a.busy_ns, b.busy_ns, u64::max),
        rwnd_limited_ns: both(a.rwnd_limited_ns, b.rwnd_limited_ns, u64::max),
        sndbuf_limited_ns: both(a.sndbuf_limited_ns, b.sndbuf_limited_ns, u64::max),
        unsent_bytes: both(a.unsent_bytes, b.unsent_bytes, add),
    }
}

/// The larger of each quantile: an upper bound for two streams together, exact for the maximum.
pub fn larger(a: DelayQuantiles, b: DelayQuantiles) -> DelayQuantiles {
    if a.count == 0 {
        return b;
    }
    if b.count == 0 {
        return a;
    }
    let count = a.count.saturating_add(b.count);
    let weight = |q: &DelayQuantiles| u128::from(q.mean_ns) * u128::from(q.count);
    let weighted = weight(&a).saturating_add(weight(&b));
    DelayQuantiles {
        count,
        min_ns: a.min_ns.min(b.min_ns),
        p50_ns: a.p50_ns.max(b.p50_ns),
        p90_ns: a.p90_ns.max(b.p90_ns),
        p99_ns: a.p99_ns.max(b.p99_ns),
        p999_ns: a.p999_ns.max(b.p999_ns),
        p9999_ns: a.p9999_ns.max(b.p9999_ns),
        max_ns: a.max_ns.max(b.max_ns),
        mean_ns: u64::try_from(weighted / u128::from(count)).unwrap_or(u64::MAX),
    }
}

/// Numbers that a peer reported, added up. Saturates: they may be any.
pub(super) fn added(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Zero for an empty span: nothing was measured in no time.
pub(super) fn per_second(amount: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { amount as f64 / seconds(ns) }
}

pub(super) fn percent(part_ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 { 0.0 } else { 100.0 * part_ns as f64 / whole_ns as f64 }
}

pub(super) fn hundredths(value: u16) -> f64 {
    f64::from(value) / 100.0
}

/// Of so many streams, added up by [`larger`].
pub(super) fn quantiles(q: &DelayQuantiles, streams: usize) -> Quantiles {
    Quantiles {
        upper_bounds: streams > 1,
        count: q.count,
        p50: seconds(q.p50_ns),
        p90: seconds(q.p90_ns),
        p99: seconds(q.p99_ns),
        p999: seconds(q.p999_ns),
        p9999: Some(seconds(q.p9999_ns)),
        max: seconds(q.max_ns),
        min: Some(seconds(q.min_ns)),
        mean: Some(seconds(q.mean_ns)),
    }
}

const NS: u64 = 1_000_000_000;

/// A thread that gave up its core no more often than this, a second, slept for no time worth a word: none of
/// its waits is longer than 100 ms, and those of one that keeps up come by the hundred.
const MOST_SLEEPS_A_SECOND: u64 = 1;

/// CPU of one end: the busiest of its data threads, the core it ran on, and the NIC's cores.
pub fn cpu(
    threads: &ThreadUse,
    span_ns: u64,
    host: Option<&HostSample>,
    irq_cores: &[u32],
) -> Option<CpuFigures> {
    let busiest_ns = threads.cpu_ns.filter(|_| span_ns > 0)?;
    // A thread's clock and the span are read at slightly different times; none has more than 100 %.
    let span_ns = span_ns.max(busiest_ns);
    let core =
        |number: u32| -> Option<&CoreUse> { host?.cores.iter().find(|core| core.core == number) };
    let own = threads.core.and_then(core);
    let ready_ns = threads.ready_ns.map(|ns| ns.min(span_ns - busiest_ns));
    Some(CpuFigures {
        thread_percent: percent(busiest_ns, span_ns),
        threads_percent: percent(threads.all_ns(), span_ns),
        ready_percent: ready_ns.map(|ns| percent(ns, span_ns)),
        interrupted_percent: ready_ns
            .filter(|_| threads.sleeps.is_some_and(|n| n <= MOST_SLEEPS_A_SECOND * span_ns / NS))
            .map(|ready| percent(span_ns - busiest_ns - ready, span_ns)),
        others_percent: None,
        idle_cores: None,
        core: threads.core,
        core_percent: own.map(|core| hundredths(core.busy())),
        user_percent: own.map(|core| hundredths(core.user)),
        system_percent: own.map(|core| hundredths(core.system)),
        softirq_percent: own.map(|core| hundredths(core.softirq)),
        steal_percent: own.map(|core| hundredths(core.steal)),
        irq_cores: irq_cores
            .iter()
            .filter_map(|number| core(*number))
            .map(|core| CoreFigures {
                core: core.core,
                core_percent: hundredths(core.busy()),
                softirq_percent: hundredths(core.softirq),
            })
            .collect(),
    })
}

/// Adds what else ran on the host of `cpu`, and what did not. `own_ns` is the time of all data threads of
/// this test on that host. Nothing of a host that reports a part of its cores.
pub(super) fn beside_others(cpu: &mut CpuFigures, host: &HostSample, own_ns: u64) {
    if host.cores.is_empty() || host.left_out.is_some() || host.span_ns == 0 {
        return;
    }
    // Where interrupts are not kept apart, the threads' own time holds those that stopped them.
    let apart = host.interrupts_apart != Some(false);
    let used = |c: &CoreUse| if apart { c.user.saturating_add(c.system) } else { c.busy() };
    let used: f64 = host.cores.iter().map(|core| hundredths(used(core))).sum();
    cpu.others_percent = Some((used - percent(own_ns, host.span_ns)).max(0.0));
    let idle = host.cores.iter().filter(|core| core.idle >= 5_000);
    cpu.idle_cores = Some(idle.map(|core| core.core).collect());
}

pub(super) fn tcp_figures(tcp: &TcpSample, span_ns: u64, congestion: Option<&str>) -> TcpFigures {
    let share = |ns: Option<u64>| {
        (span_ns > 0).then_some(ns?).map(|ns| (ns as f64 / span_ns as f64).min(1.0))
    };
    TcpFigures {
        bytes_acked: tcp.bytes_acked,
        retransmits: tcp.retransmits,
        rtt_s: tcp.rtt_ns.map(seconds),
        rtt_variation_s: tcp.rtt_variation_ns.map(seconds),
        min_rtt_s: tcp.min_rtt_ns.map(seconds),
        cwnd_bytes: tcp.cwnd_bytes,
        mss_bytes: tcp.mss_bytes,
        pmtu_bytes: tcp.pmtu_bytes,
        delivery_rate_bps: tcp.delivery_rate_bps,
        busy_ratio: share(tcp.busy_ns),
        rwnd_limited_ratio: share(tcp.rwnd_limited_ns),
        sndbuf_limited_ratio: share(tcp.sndbuf_limited_ns),
        congestion: congestion.map(str::to_owned),
        ..TcpFigures::default()
    }
}

/// The figures of a whole test: what is a value of a moment and no counter becomes the mean of the rows,
/// with its ends, because the last moment of a test says nothing of the test. Absent without rows.
pub(super) fn over_rows(figures: TcpFigures, rows: &[TcpSample]) -> TcpFigures {
    let of = |value: fn(&TcpSample) -> Option<u64>| rows.iter().filter_map(value);
    let mean = |value: fn(&TcpSample) -> Option<u64>| -> Option<u64> {
        let sum: u128 = of(value).map(u128::from).sum();
        u64::try_from(sum.checked_div(of(value).count() as u128)?).ok()
    };
    TcpFigures {
        rtt_s: mean(|tcp| tcp.rtt_ns).map(seconds),
        rtt_max_s: of(|tcp| tcp.rtt_ns).max().map(seconds),
        rtt_variation_s: mean(|tcp| tcp.rtt_variation_ns).map(seconds),
        cwnd_bytes: mean(|tcp| tcp.cwnd_bytes),
        cwnd_min_bytes: of(|tcp| tcp.cwnd_bytes).min(),
        cwnd_max_bytes: of(|tcp| tcp.cwnd_bytes).max(),
        delivery_rate_bps: mean(|tcp| tcp.delivery_rate_bps),
        ..figures
    }
}

pub(super) fn host_figures(host: &HostSamples) -> Option<HostFigures> {
    // A link that was lost is told without a reading as well.
    let read = |total: &&HostSample| total.counters != HostCounters::default();
    let c = &host.total.as_ref().filter(read)?.counters;
    // What waits is of interest while the test runs: at its end the queue has drained. The most of some intervals is not
    // that of the test.
    let waiting: Option<Vec<u64>> =
        host.intervals.iter().map(|sample| sample.counters.qdisc_backlog).collect();
    Some(HostFigures {
        udp_receive_buffer_errors: c.udp_receive_buffer_errors,
        udp_send_buffer_errors: c.udp_send_buffer_errors,
        udp_checksum_errors: c.udp_checksum_errors,
        softnet_dropped: c.softnet_dropped,
        softnet_squeezed: c.softnet_squeezed,
        nic_rx_dropped: c.nic_rx_dropped,
        nic_tx_dropped: c.nic_tx_dropped,
        nic_tx_packets: c.nic_tx_packets,
        nic_rx_packets: c.nic_rx_packets,
        qdisc_dropped: c.qdisc_dropped,
        qdisc_backlog_bytes: waiting.and_then(|waiting| waiting.into_iter().max()),
        throttled_s: c.throttled_ns.filter(|ns| *ns > 0).map(seconds),
    })
}

/// Datagrams that a host dropped itself, by the errno's name.
pub(super) fn by_errno<'a>(
    tables: impl IntoIterator<Item = &'a LocalSendErrors>,
) -> BTreeMap<String, u64> {
    let mut all = LocalSendErrors::default();
    tables.into_iter().for_each(|table| all.add(table));
    all.each().map(|(errno, datagrams)| (errno.name().to_owned(), datagrams)).collect()
}

/// A sender's counters over a span as figures.
pub fn sender_figures(counts: &SendCounts, span_ns: u64, is_udp: bool) -> SenderFigures {
    let udp = |value: u64| is_udp.then_some(value);
    SenderFigures {
        bytes: counts.bytes,
        datagrams: udp(counts.datagrams),
        seconds: seconds(span_ns),
        bits_per_second: per_second(counts.bytes.saturating_mul(8), span_ns),
        datagrams_per_second: is_udp.then(|| per_second(counts.datagrams, span_ns)),
        attempted: udp(counts.attempted()),
        refused_locally: udp(counts.refused_locally),
        local_send_errors: by_errno([&counts.local_errors]),
        late_wakeups: udp(counts.late_wakeups),
        given_up: udp(counts.given_up),
        ..SenderFigures::default()
    }
}

/// Leaves out what a receiver that reports datagrams and losses alone does not know.
pub(super) fn only_counts(figures: &mut ReceiverFigures, counts: &RecvCounts) {
    figures.duplicates = None;
    figures.reordered = None;
    figures.late = None;
    figures.corrupt = None;
    // Placed only where this host's own counters can say it.
    if counts.dropped_min == 0 && counts.dropped_max > 0 {
        figures.lost_path = None;
        figures.dropped_receiver = None;
    }
}

/// Delays in seconds.
pub fn wall_clock_delay(trips: Trips) -> WallClockDelay {
    let seconds = |ns: i64| ns as f64 / 1e9;
    WallClockDelay {
        count: Some(trips.count),
        min: seconds(trips.least_ns),
        mean: seconds(trips.mean_ns),
        max: seconds(trips.most_ns),
        deviation: trips.deviation_ns as f64 / 1e9,
    }
}

/// A receiver's counters over a span as figures.
pub fn receiver_figures(counts: &RecvCounts, span_ns: u64, is_udp: bool) -> ReceiverFigures {
    let udp = |value: u64| is_udp.then_some(value);
    let (path, receiver, unattributed) = counts.loss_by_place();
    ReceiverFigures {
        bytes: counts.bytes,
        datagrams: udp(counts.datagrams),
        seconds: seconds(span_ns),
        bits_per_second: per_second(counts.bytes.saturating_mul(8), span_ns),
        datagrams_per_second: is_udp.then(|| per_second(counts.datagrams, span_ns)),
        lost: udp(counts.lost),
        lost_ratio: (is_udp && counts.expected > 0)
            .then(|| counts.lost as f64 / counts.expected as f64),
        lost_path: udp(path),
        dropped_receiver: udp(receiver),
        unattributed: udp(unattributed).filter(|n| *n > 0),
        socket_drops: udp(counts.socket_drops).filter(|n| *n > 0),
        duplicates: udp(counts.duplicates),
        reordered: udp(counts.reordered),
        late: udp(counts.late),
        corrupt: udp(counts.corrupt),
        ..ReceiverFigures::default()
    }
}
