//! From what the data threads of both ends measured to the record: rates, shares, intervals, the
//! check of the accounting, the doubts.

use linerate_model::host::CoreUse;
use linerate_model::plan::{
    Dialect, Direction, End, EngineChoice, IpVersion, TestPlan, Traffic, Transport, Way,
};
use linerate_model::record::{
    CoreFigures, CpuFigures, CpuPlan, Doubt, DoubtKind, ErrorRecord, Figures, HostFigures,
    Interval, LossRuns, OneWayDelay, PacingFigures, Pair, PlanRecord, Quantiles, ReceiverFigures,
    RrFigures, RunRecord, SenderFigures, Status, StreamRecord, TcpFigures, WindowGranted,
};
use linerate_model::sample::{
    DelayQuantiles, HostSample, RecvCounts, RecvInterval, RecvReport, RrReport, SendCounts,
    SendInterval, SendReport, TcpSample, ThreadUse,
};
use linerate_wire::native::message::RespondReport;

use crate::clock::ClockOffset;
use crate::verdict;

/// Both ends of one stream, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct StreamOutcome {
    /// Within its direction.
    pub index: u16,
    /// Server to client.
    pub reverse: bool,
    /// The sending end.
    pub send: Option<SendReport>,
    /// The receiving end.
    pub recv: Option<RecvReport>,
    /// The asking end.
    pub rr: Option<RrReport>,
    /// The answering end.
    pub respond: Option<RespondReport>,
}

/// What a host measured of itself.
#[derive(Debug, Clone, Default)]
pub struct HostSamples {
    /// One an interval.
    pub intervals: Vec<HostSample>,
    /// The whole measured time.
    pub total: Option<HostSample>,
    /// Cores that took the interface's interrupts.
    pub irq_cores: Vec<u32>,
}

/// Everything measured in one test.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What both ran.
    pub plan: TestPlan,
    /// Version of IP.
    pub ip: IpVersion,
    /// All streams, forward first.
    pub streams: Vec<StreamOutcome>,
    /// The client's host.
    pub client: HostSamples,
    /// The server's host.
    pub server: HostSamples,
    /// Distance of the clocks.
    pub clock: Option<ClockOffset>,
    /// Both ends ran under one kernel.
    pub same_host: bool,
    /// No far end was meant to receive.
    pub discard: bool,
    /// The test came to its planned end.
    pub complete: bool,
    /// What the ends spoke.
    pub dialect: Dialect,
}

impl Outcome {
    /// Whether the sending end of that way told totals only, with iperf3's few counters.
    fn sender_is_brief(&self, way: Way) -> bool {
        self.dialect == Dialect::Iperf3 && way == Way::Reverse
    }

    /// The same for the receiving end.
    fn receiver_is_brief(&self, way: Way) -> bool {
        self.dialect == Dialect::Iperf3 && way == Way::Forward
    }
}

/// A plan in the record's words.
pub fn plan_record(plan: &TestPlan, ip: Option<IpVersion>) -> PlanRecord {
    let mut record = PlanRecord {
        protocol: plan.traffic.name().to_owned(),
        ip: ip.map(IpVersion::number),
        direction: match plan.direction {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
            Direction::Both => "both",
        }
        .to_owned(),
        streams: plan.streams,
        warmup_s: plan.warmup.as_secs_f64(),
        interval_s: plan.interval.as_secs_f64(),
        window_bytes: plan.window.map(u64::from),
        dscp: plan.dscp,
        dialect: "native".to_owned(),
        ..PlanRecord::default()
    };
    match plan.end {
        End::Time(time) => record.duration_s = Some(time.as_secs_f64()),
        End::Bytes(bytes) => record.bytes = Some(bytes),
        End::Datagrams(datagrams) => record.datagrams = Some(datagrams),
    }
    if !plan.client_cpus.is_empty() || !plan.server_cpus.is_empty() {
        let list = |cpus: &[u16]| cpus.iter().map(|core| u32::from(*core)).collect();
        let (client, server) = (list(&plan.client_cpus), list(&plan.server_cpus));
        record.cpu = Some(if plan.direction == Direction::Reverse {
            CpuPlan { sender: server, receiver: client }
        } else {
            CpuPlan { sender: client, receiver: server }
        });
    }
    match &plan.traffic {
        Traffic::Udp(udp) => {
            record.datagram_bytes = Some(u32::from(udp.size.octets()));
            record.rate_bps = udp.rate.map(|rate| rate.bits_per_second(udp.size));
            record.rate_pps = udp.rate.and_then(|rate| match rate {
                linerate_model::units::Rate::Datagrams(n) => Some(n.get()),
                linerate_model::units::Rate::Bits(_) => None,
            });
            record.engine = Some(udp.engine.name().to_owned());
            record.burst_s = Some(udp.burst.as_secs_f64());
            record.checksum = Some(udp.checksum);
        }
        Traffic::Tcp(tcp) => {
            record.block_bytes = Some(tcp.block);
            record.rate_bps = tcp.rate.map(|rate| rate.bits_per_second());
            record.mss_bytes = tcp.mss;
            record.congestion = tcp.congestion.clone();
            record.nodelay = Some(tcp.nodelay);
            record.receive = Some(if tcp.discard { "discard" } else { "copy" }.to_owned());
            record.send = Some(if tcp.zerocopy { "sendfile" } else { "copy" }.to_owned());
        }
        Traffic::Rr(rr) => {
            record.request_bytes = Some(rr.request);
            record.response_bytes = Some(rr.response);
            record.outstanding = Some(rr.outstanding);
            record.rate_tps = rr.rate;
            let transport = if rr.transport == Transport::Udp { "udp" } else { "tcp" };
            record.transport = Some(transport.to_owned());
        }
    }
    record
}

/// Two TCP streams as one: counters and windows add up, times and sizes are the larger.
pub fn add_tcp(a: TcpSample, b: TcpSample) -> TcpSample {
    fn both(a: Option<u64>, b: Option<u64>, f: impl Fn(u64, u64) -> u64) -> Option<u64> {
        match (a, b) {
            (Some(a), Some(b)) => Some(f(a, b)),
            (a, b) => a.or(b),
        }
    }
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

/// Numbers that a peer told, added up. Saturates: they may be any.
fn added(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Zero for an empty span: nothing was measured in no time.
fn per_second(amount: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { amount as f64 / seconds(ns) }
}

fn percent(part_ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 { 0.0 } else { 100.0 * part_ns as f64 / whole_ns as f64 }
}

fn hundredths(value: u16) -> f64 {
    f64::from(value) / 100.0
}

fn quantiles(q: &DelayQuantiles) -> Quantiles {
    Quantiles {
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

/// CPU of one end: the busiest of its data threads, the core it ran on, and the NIC's cores.
pub fn cpu(
    threads: &[ThreadUse],
    span_ns: u64,
    host: Option<&HostSample>,
    irq_cores: &[u32],
) -> Option<CpuFigures> {
    let busiest = threads.iter().max_by_key(|thread| thread.cpu_ns)?;
    let all = added(threads.iter().map(|thread| thread.cpu_ns));
    let core =
        |number: u32| -> Option<&CoreUse> { host?.cores.iter().find(|core| core.core == number) };
    let own = core(busiest.core);
    Some(CpuFigures {
        // A thread's clock and the span are read at slightly different times.
        thread_percent: percent(busiest.cpu_ns, span_ns).min(100.0),
        threads_percent: percent(all, span_ns).min(100.0 * threads.len() as f64),
        core: Some(busiest.core).filter(|core| *core != ThreadUse::UNKNOWN_CORE),
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

fn tcp_figures(tcp: &TcpSample, span_ns: u64, congestion: Option<&str>) -> TcpFigures {
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
    }
}

fn host_figures(host: &HostSample) -> HostFigures {
    let c = &host.counters;
    HostFigures {
        udp_receive_buffer_errors: c.udp_receive_buffer_errors,
        udp_send_buffer_errors: c.udp_send_buffer_errors,
        udp_checksum_errors: c.udp_checksum_errors,
        softnet_dropped: c.softnet_dropped,
        softnet_squeezed: c.softnet_squeezed,
        nic_rx_dropped: Some(c.nic_rx_dropped),
        nic_tx_dropped: Some(c.nic_tx_dropped),
        nic_tx_packets: Some(c.nic_tx_packets),
        nic_rx_packets: Some(c.nic_rx_packets),
        qdisc_dropped: c.qdisc_dropped,
    }
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
        late_wakeups: udp(counts.late_wakeups),
        given_up: udp(counts.given_up),
        ..SenderFigures::default()
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

/// One direction with all its streams added up.
#[derive(Debug, Default)]
pub struct WayTotals {
    /// Senders.
    pub send: Option<(SendCounts, u64, Vec<ThreadUse>)>,
    /// Receivers.
    pub recv: Option<(RecvCounts, u64, Vec<ThreadUse>)>,
}

fn streams_of(outcome: &Outcome, way: Way) -> impl Iterator<Item = &StreamOutcome> {
    outcome.streams.iter().filter(move |s| s.reverse == (way == Way::Reverse))
}

/// The receivers' measured time: from the first arrival on any stream to the last, and no shorter
/// than the senders' own time, because the gap after the last datagram belongs to it.
fn receive_span(streams: &[&RecvReport], send_span: u64) -> u64 {
    let first = streams.iter().filter_map(|r| r.first_ns).min();
    let last = streams.iter().filter_map(|r| r.last_ns).max();
    first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first)).max(send_span)
}

fn totals_of(outcome: &Outcome, way: Way) -> WayTotals {
    let sends: Vec<&SendReport> =
        streams_of(outcome, way).filter_map(|s| s.send.as_ref()).collect();
    let recvs: Vec<&RecvReport> =
        streams_of(outcome, way).filter_map(|s| s.recv.as_ref()).collect();
    let send_span = sends.iter().map(|s| s.span_ns).max().unwrap_or(0);
    WayTotals {
        send: (!sends.is_empty()).then(|| {
            let mut counts = SendCounts::default();
            sends.iter().for_each(|s| counts.add(&s.counts));
            (counts, send_span, sends.iter().map(|s| s.thread).collect())
        }),
        recv: (!recvs.is_empty()).then(|| {
            let mut counts = RecvCounts::default();
            recvs.iter().for_each(|r| counts.add(&r.counts));
            // Without the sender's word, the time that was asked for.
            let at_least = if sends.is_empty() && outcome.complete {
                outcome.plan.duration().map_or(0, |d| d.0)
            } else {
                send_span
            };
            let span = receive_span(&recvs, at_least);
            (counts, span, recvs.iter().map(|r| r.thread).collect())
        }),
    }
}

fn ends(outcome: &Outcome, way: Way) -> (&HostSamples, &HostSamples) {
    match way {
        Way::Forward => (&outcome.client, &outcome.server),
        Way::Reverse => (&outcome.server, &outcome.client),
    }
}

fn full_sender(outcome: &Outcome, way: Way, totals: &WayTotals) -> Option<SenderFigures> {
    let (counts, span, threads) = totals.send.as_ref()?;
    let (host, _) = ends(outcome, way);
    let mut figures = sender_figures(counts, *span, is_udp(outcome));
    figures.cpu = cpu(threads, *span, host.total.as_ref(), &host.irq_cores);
    figures.host = host.total.as_ref().map(host_figures);
    let reports: Vec<&SendReport> =
        streams_of(outcome, way).filter_map(|s| s.send.as_ref()).collect();
    if outcome.sender_is_brief(way) {
        // It counts what it sent and nothing else.
        figures.attempted = None;
        figures.refused_locally = None;
        figures.late_wakeups = None;
        figures.given_up = None;
    }
    figures.pacing = pacing(&reports);
    let tcp = reports.iter().filter_map(|r| r.tcp).reduce(add_tcp);
    let congestion = reports.iter().find_map(|r| r.congestion.as_deref());
    figures.tcp = tcp.map(|tcp| tcp_figures(&tcp, *span, congestion));
    Some(figures)
}

/// Of several streams: the mean error, and the largest of each quantile.
fn pacing(reports: &[&SendReport]) -> Option<PacingFigures> {
    let gaps = reports.iter().filter_map(|r| r.gaps).reduce(larger)?;
    let errors: Vec<i64> = reports.iter().filter_map(|r| r.pacing_error_ppb).collect();
    let mean = (!errors.is_empty())
        .then(|| errors.iter().map(|e| *e as f64).sum::<f64>() / errors.len() as f64 / 1e3);
    let lateness = reports.iter().filter_map(|r| r.lateness).reduce(larger);
    Some(PacingFigures {
        mean_error_ppm: mean,
        gap_p50_ns: gaps.p50_ns,
        gap_p99_ns: gaps.p99_ns,
        gap_max_ns: gaps.max_ns,
        gap_nominal_ns: reports.iter().find_map(|r| r.nominal_gap_ns),
        lateness_p99_ns: lateness.map(|l| l.p99_ns),
    })
}

fn full_receiver(outcome: &Outcome, way: Way, totals: &WayTotals) -> Option<ReceiverFigures> {
    let (counts, span, threads) = totals.recv.as_ref()?;
    let (_, host) = ends(outcome, way);
    let mut figures = receiver_figures(counts, *span, is_udp(outcome));
    figures.cpu = cpu(threads, *span, host.total.as_ref(), &host.irq_cores);
    figures.host = host.total.as_ref().map(host_figures);
    let reports: Vec<&RecvReport> =
        streams_of(outcome, way).filter_map(|s| s.recv.as_ref()).collect();
    if outcome.receiver_is_brief(way) {
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
    let jitters: Vec<u64> = reports.iter().filter_map(|r| r.jitter_ns).collect();
    if !jitters.is_empty() {
        let mean = jitters.iter().map(|j| *j as f64).sum::<f64>() / jitters.len() as f64;
        figures.jitter_s = Some(mean / 1e9);
    }
    let variation = reports.iter().filter_map(|r| r.delay_variation).reduce(larger);
    figures.delay_variation_s = variation.as_ref().map(quantiles);
    figures.one_way_delay_s = one_way_delay(outcome, way, &reports);
    figures.reorder_extent_max = reports.iter().filter_map(|r| r.reorder_extent_max).max();
    // A far end may tell any number.
    figures.overdue = reports
        .iter()
        .filter_map(|r| r.overdue)
        .reduce(u64::saturating_add)
        .map(|overdue| overdue.min(counts.datagrams));
    let first = reports.iter().filter_map(|r| r.first_ns).min();
    let read = reports.iter().filter_map(|r| r.last_read_ns).max();
    figures.read_seconds =
        first.zip(read).filter(|_| is_udp(outcome)).map(|(a, b)| seconds(b.saturating_sub(a)));
    figures.loss_runs = loss_runs(&reports, counts.lost);
    Some(figures)
}

/// Delay variation plus the least transit time less the clocks' distance; absent when the result
/// would be impossible, which means that the clock error is not what it seems.
fn one_way_delay(outcome: &Outcome, way: Way, reports: &[&RecvReport]) -> Option<OneWayDelay> {
    let clock = outcome.clock?;
    let (offset, error_ns) =
        if outcome.same_host && clock.offset_ns.unsigned_abs() <= clock.error_ns {
            // One kernel, one monotonic clock.
            (0, 0)
        } else {
            (clock.offset_ns, clock.error_ns)
        };
    let mut all: Option<DelayQuantiles> = None;
    for report in reports {
        let transit = report.least_transit_ns?;
        let least = match way {
            Way::Forward => transit.checked_sub(offset)?,
            Way::Reverse => transit.checked_add(offset)?,
        };
        if least < 0 && least.unsigned_abs() > error_ns {
            return None;
        }
        let least = u64::try_from(least).unwrap_or(0);
        let q = report.delay_variation?;
        let shifted = DelayQuantiles {
            count: q.count,
            min_ns: q.min_ns.saturating_add(least),
            p50_ns: q.p50_ns.saturating_add(least),
            p90_ns: q.p90_ns.saturating_add(least),
            p99_ns: q.p99_ns.saturating_add(least),
            p999_ns: q.p999_ns.saturating_add(least),
            p9999_ns: q.p9999_ns.saturating_add(least),
            max_ns: q.max_ns.saturating_add(least),
            mean_ns: q.mean_ns.saturating_add(least),
        };
        all = Some(all.map_or(shifted, |a| larger(a, shifted)));
    }
    all.map(|q| OneWayDelay { quantiles: quantiles(&q), clock_error_s: seconds(error_ns) })
}

fn loss_runs(reports: &[&RecvReport], lost: u64) -> Option<LossRuns> {
    let runs: Vec<_> = reports.iter().filter_map(|r| r.loss_runs).collect();
    let count = added(runs.iter().map(|r| r.runs));
    if count == 0 {
        return None;
    }
    let mut lengths = vec![0; 16];
    for run in &runs {
        for (sum, n) in lengths.iter_mut().zip(run.lengths) {
            *sum = u64::saturating_add(*sum, n);
        }
    }
    while lengths.last() == Some(&0) {
        lengths.pop();
    }
    Some(LossRuns {
        count,
        longest: runs.iter().map(|r| r.longest).max().unwrap_or(0),
        mean: lost as f64 / count as f64,
        least_distance: runs.iter().filter_map(|r| r.least_distance).min(),
        lengths,
    })
}

fn is_udp(outcome: &Outcome) -> bool {
    matches!(outcome.plan.traffic, Traffic::Udp(_))
}

/// The part of `span_ns` in interval `index` of `count`; the last takes what is left.
fn interval_span(index: usize, count: usize, interval_ns: u64, span_ns: u64) -> u64 {
    if index + 1 < count {
        interval_ns
    } else {
        span_ns.saturating_sub((index as u64).saturating_mul(interval_ns))
    }
}

/// What one end tells of one interval, all streams added up.
#[derive(Debug, Clone, Default)]
pub struct LiveSide {
    /// Its senders.
    pub send: Option<SendInterval>,
    /// Its receivers.
    pub recv: Option<RecvInterval>,
    /// Its host.
    pub host: Option<HostSample>,
}

/// Figures of one interval while the test runs.
pub fn live_interval(
    plan: &TestPlan,
    index: u64,
    client: &LiveSide,
    server: &LiveSide,
    rr: Option<RrFigures>,
) -> Interval {
    let span = plan.interval.0;
    let udp = matches!(plan.traffic, Traffic::Udp(_));
    let pair = |sender: &LiveSide, receiver: &LiveSide| Pair {
        sender: sender.send.as_ref().map(|s| send_row(s, span, udp, sender.host.as_ref(), &[])),
        receiver: receiver
            .recv
            .as_ref()
            .map(|r| recv_row(r, span, udp, receiver.host.as_ref(), &[])),
    };
    let start = index.saturating_mul(span);
    Interval {
        start_s: seconds(start),
        end_s: seconds(start.saturating_add(span)),
        figures: figures(plan.direction, || pair(client, server), || pair(server, client), rr),
    }
}

fn figures(
    direction: Direction,
    forward: impl FnOnce() -> Pair,
    reverse: impl FnOnce() -> Pair,
    rr: Option<RrFigures>,
) -> Figures {
    if rr.is_some() {
        return Figures { rr, ..Figures::default() };
    }
    match direction {
        Direction::Forward => {
            let Pair { sender, receiver } = forward();
            Figures { sender, receiver, ..Figures::default() }
        }
        Direction::Reverse => {
            let Pair { sender, receiver } = reverse();
            Figures { sender, receiver, ..Figures::default() }
        }
        Direction::Both => {
            Figures { forward: Some(forward()), reverse: Some(reverse()), ..Figures::default() }
        }
    }
}

fn send_row(
    row: &SendInterval,
    span_ns: u64,
    udp: bool,
    host: Option<&HostSample>,
    irq_cores: &[u32],
) -> SenderFigures {
    let mut figures = sender_figures(&row.counts, span_ns, udp);
    figures.cpu = cpu(&[row.thread], span_ns, host, irq_cores);
    figures.tcp = row.tcp.map(|tcp| tcp_figures(&tcp, 0, None));
    figures
}

fn recv_row(
    row: &RecvInterval,
    span_ns: u64,
    udp: bool,
    host: Option<&HostSample>,
    irq_cores: &[u32],
) -> ReceiverFigures {
    let mut figures = receiver_figures(&row.counts, span_ns, udp);
    figures.jitter_s = row.jitter_ns.map(seconds);
    figures.cpu = cpu(&[row.thread], span_ns, host, irq_cores);
    figures
}

/// Adds the streams' rows with the same index.
fn sum_rows<T: Copy>(streams: &[&[T]], add: impl Fn(&mut T, &T)) -> Vec<T> {
    let mut rows: Vec<T> = Vec::new();
    for stream in streams {
        for (i, row) in stream.iter().enumerate() {
            match rows.get_mut(i) {
                Some(sum) => add(sum, row),
                None => rows.push(*row),
            }
        }
    }
    rows
}

/// What `count` rows span in all, nanoseconds: the senders' time, but where a path's delay gave the
/// receivers a row that no sender had any more, theirs. A row without time could hold no rate.
fn rows_span(count: usize, interval: u64, sent: u64, received: u64) -> u64 {
    let last_begins = (count as u64).saturating_sub(1).saturating_mul(interval);
    if last_begins < sent { sent } else { received.max(sent) }
}

/// A test that ends on the edge of an interval, or is cut short just before one while the receiver
/// waits beyond it, leaves a last row that spans no time: its counts belong to the row before.
fn fold_timeless<T>(rows: &mut Vec<T>, interval: u64, span: u64, add: impl Fn(&mut T, T)) {
    while rows.len() > 1 && (rows.len() as u64 - 1).saturating_mul(interval) >= span {
        if let (Some(empty), Some(last)) = (rows.pop(), rows.last_mut()) {
            add(last, empty);
        }
    }
}

fn add_threads(sum: &mut ThreadUse, more: &ThreadUse) {
    if more.cpu_ns > sum.cpu_ns {
        sum.core = more.core;
    }
    sum.cpu_ns = sum.cpu_ns.saturating_add(more.cpu_ns);
}

fn way_intervals(outcome: &Outcome, way: Way, totals: &WayTotals) -> Vec<Pair> {
    let udp = is_udp(outcome);
    let interval = outcome.plan.interval.0;
    let sends: Vec<&[SendInterval]> = streams_of(outcome, way)
        .filter_map(|s| s.send.as_ref())
        .map(|s| &s.intervals[..])
        .collect();
    let recvs: Vec<&[RecvInterval]> = streams_of(outcome, way)
        .filter_map(|s| s.recv.as_ref())
        .map(|r| &r.intervals[..])
        .collect();
    let streams = sends.len().max(recvs.len()).max(1) as u64;
    let mut send_rows = sum_rows(&sends, |sum, row| {
        let previous = sum.tcp;
        sum.counts.add(&row.counts);
        add_threads(&mut sum.thread, &row.thread);
        sum.tcp = match (previous, row.tcp) {
            (Some(a), Some(b)) => Some(add_tcp(a, b)),
            (a, b) => a.or(b),
        };
    });
    let mut recv_rows = sum_rows(&recvs, |sum, row| {
        sum.counts.add(&row.counts);
        add_threads(&mut sum.thread, &row.thread);
        sum.jitter_ns = sum.jitter_ns.max(row.jitter_ns);
    });
    let (send_host, recv_host) = ends(outcome, way);
    let send_span = totals.send.as_ref().map_or(0, |t| t.1);
    let recv_span = totals.recv.as_ref().map_or(0, |t| t.1);
    fold_timeless(&mut send_rows, interval, send_span, |last, empty| {
        last.counts.add(&empty.counts);
        add_threads(&mut last.thread, &empty.thread);
        last.tcp = empty.tcp.or(last.tcp);
    });
    fold_timeless(&mut recv_rows, interval, recv_span, |last, empty| {
        last.counts.add(&empty.counts);
        add_threads(&mut last.thread, &empty.thread);
    });
    let rows = send_rows.len().max(recv_rows.len());
    (0..rows)
        .map(|i| {
            let sender = send_rows.get(i).map(|row| {
                let span = interval_span(i, send_rows.len(), interval, send_span);
                let host = send_host.intervals.get(i).or(send_host.total.as_ref());
                let mut figures = send_row(row, span, udp, host, &send_host.irq_cores);
                fix_thread(&mut figures.cpu, streams);
                figures
            });
            let receiver = recv_rows.get(i).map(|row| {
                let span = interval_span(i, recv_rows.len(), interval, recv_span);
                let host = recv_host.intervals.get(i).or(recv_host.total.as_ref());
                let mut figures = recv_row(row, span, udp, host, &recv_host.irq_cores);
                fix_thread(&mut figures.cpu, streams);
                figures
            });
            Pair { sender, receiver }
        })
        .collect()
}

/// Rows add the threads of all streams; the share of one thread is not known then but as a mean.
fn fix_thread(cpu: &mut Option<CpuFigures>, streams: u64) {
    if let Some(cpu) = cpu
        && streams > 1
    {
        cpu.thread_percent = cpu.threads_percent / streams as f64;
    }
}

fn rr_figures(
    reports: &[&RrReport],
    responds: &[&RespondReport],
    outcome: &Outcome,
) -> Option<RrFigures> {
    if reports.is_empty() {
        return None;
    }
    let span = reports.iter().map(|r| r.span_ns).max().unwrap_or(0);
    let transactions = added(reports.iter().map(|r| r.transactions));
    let latency = reports.iter().map(|r| r.latency).reduce(larger);
    let threads: Vec<ThreadUse> = reports.iter().map(|r| r.thread).collect();
    let server_threads: Vec<ThreadUse> = responds.iter().map(|r| r.thread).collect();
    let server_span = responds.iter().map(|r| r.span_ns).max().unwrap_or(0);
    let udp = outcome.plan.traffic.transport() == Transport::Udp;
    Some(RrFigures {
        transactions,
        seconds: seconds(span),
        transactions_per_second: per_second(transactions, span),
        unanswered: udp.then(|| added(reports.iter().map(|r| r.unanswered))),
        latency_s: latency.filter(|l| l.count > 0).as_ref().map(quantiles),
        latency_histogram: match reports {
            [one] => one.histogram.clone(),
            _ => None,
        },
        cpu: cpu(&threads, span, outcome.client.total.as_ref(), &outcome.client.irq_cores),
        server_cpu: cpu(
            &server_threads,
            server_span,
            outcome.server.total.as_ref(),
            &outcome.server.irq_cores,
        ),
    })
}

fn rr_intervals(outcome: &Outcome, total: &RrFigures) -> Vec<Interval> {
    let interval = outcome.plan.interval.0;
    let streams: Vec<&[_]> =
        outcome.streams.iter().filter_map(|s| s.rr.as_ref()).map(|r| &r.intervals[..]).collect();
    let rows = sum_rows(&streams, |sum, row| {
        sum.transactions = sum.transactions.saturating_add(row.transactions);
        sum.latency = larger(sum.latency, row.latency);
        add_threads(&mut sum.thread, &row.thread);
    });
    let span_ns = (total.seconds * 1e9) as u64;
    rows.iter()
        .enumerate()
        .map(|(i, row)| {
            let span = interval_span(i, rows.len(), interval, span_ns);
            let start = i as u64 * interval;
            Interval {
                start_s: seconds(start),
                end_s: seconds(start + span),
                figures: Figures {
                    rr: Some(rr_row(row, span, outcome.client.intervals.get(i))),
                    ..Figures::default()
                },
            }
        })
        .collect()
}

/// One interval of a request/response test as figures.
pub fn rr_row(
    row: &linerate_model::sample::RrInterval,
    span_ns: u64,
    host: Option<&HostSample>,
) -> RrFigures {
    RrFigures {
        transactions: row.transactions,
        seconds: seconds(span_ns),
        transactions_per_second: per_second(row.transactions, span_ns),
        latency_s: (row.latency.count > 0).then(|| quantiles(&row.latency)),
        cpu: cpu(&[row.thread], span_ns, host, &[]),
        ..RrFigures::default()
    }
}

/// Fills everything measured into `record`, checks the accounting and judges.
pub fn assemble(mut record: RunRecord, outcome: &Outcome) -> RunRecord {
    let plan = &outcome.plan;
    let forward = totals_of(outcome, Way::Forward);
    let reverse = totals_of(outcome, Way::Reverse);
    let pair = |way: Way, totals: &WayTotals| Pair {
        sender: full_sender(outcome, way, totals),
        receiver: full_receiver(outcome, way, totals),
    };
    let rrs: Vec<&RrReport> = outcome.streams.iter().filter_map(|s| s.rr.as_ref()).collect();
    let responds: Vec<&RespondReport> =
        outcome.streams.iter().filter_map(|s| s.respond.as_ref()).collect();
    let rr = rr_figures(&rrs, &responds, outcome);
    record.intervals = match &rr {
        Some(total) => rr_intervals(outcome, total),
        None => {
            let rows = (
                way_intervals(outcome, Way::Forward, &forward),
                way_intervals(outcome, Way::Reverse, &reverse),
            );
            let count = rows.0.len().max(rows.1.len());
            let interval = plan.interval.0;
            let ways = [&forward, &reverse];
            let sent = |t: &&WayTotals| t.send.as_ref().map(|s| s.1);
            let received = |t: &&WayTotals| t.recv.as_ref().map(|r| r.1);
            let planned = ways.iter().filter_map(|t| sent(t).or(received(t))).max().unwrap_or(0);
            let last = ways.iter().filter_map(received).max().unwrap_or(0);
            let span = rows_span(count, interval, planned, last);
            (0..count)
                .map(|i| {
                    let start = i as u64 * interval;
                    let take = |rows: &[Pair]| rows.get(i).cloned().unwrap_or_default();
                    Interval {
                        start_s: seconds(start),
                        end_s: seconds(start + interval_span(i, count, interval, span)),
                        figures: figures(plan.direction, || take(&rows.0), || take(&rows.1), None),
                    }
                })
                .collect()
        }
    };
    record.totals = figures(
        plan.direction,
        || pair(Way::Forward, &forward),
        || pair(Way::Reverse, &reverse),
        rr,
    );
    record.streams = outcome.streams.iter().map(|s| stream_record(outcome, s)).collect();
    if let Some(agreed) = &mut record.agreed {
        describe_run(agreed, outcome);
    }
    doubts(&mut record, outcome);
    if let Some(broken) = broken_identity(outcome, &forward, &reverse, record.status) {
        record.status = Status::Invalid;
        record.error = Some(ErrorRecord {
            kind: "accounting".into(),
            what: "the accounting of this test does not add up".into(),
            why: broken,
            hints: vec![
                "do not use these numbers; this is a fault of linerate, please report it".into(),
            ],
            exit_code: 4,
        });
    }
    record.verdict = verdict::judge(&record, outcome.discard);
    record
}

fn stream_record(outcome: &Outcome, stream: &StreamOutcome) -> StreamRecord {
    let way = if stream.reverse { Way::Reverse } else { Way::Forward };
    let alone = Outcome { streams: vec![stream.clone()], ..outcome_without_streams(outcome) };
    let totals = totals_of(&alone, way);
    let rr: Vec<&RrReport> = stream.rr.iter().collect();
    let respond: Vec<&RespondReport> = stream.respond.iter().collect();
    let mut figures = Figures {
        sender: full_sender(&alone, way, &totals),
        receiver: full_receiver(&alone, way, &totals),
        rr: rr_figures(&rr, &respond, &alone),
        ..Figures::default()
    };
    // The host's counters are the host's, not a stream's.
    if let Some(sender) = &mut figures.sender {
        sender.host = None;
    }
    if let Some(receiver) = &mut figures.receiver {
        receiver.host = None;
    }
    StreamRecord {
        stream: stream.index,
        direction: if stream.reverse { "reverse" } else { "forward" }.to_owned(),
        figures,
    }
}

fn outcome_without_streams(outcome: &Outcome) -> Outcome {
    Outcome {
        plan: outcome.plan.clone(),
        ip: outcome.ip,
        streams: vec![],
        client: outcome.client.clone(),
        server: outcome.server.clone(),
        clock: outcome.clock,
        same_host: outcome.same_host,
        discard: outcome.discard,
        complete: outcome.complete,
        dialect: outcome.dialect,
    }
}

/// What ran, where the plan left it open.
fn describe_run(agreed: &mut PlanRecord, outcome: &Outcome) {
    let sends = || outcome.streams.iter().filter_map(|s| s.send.as_ref());
    let recvs = || outcome.streams.iter().filter_map(|s| s.recv.as_ref());
    if is_udp(outcome) {
        agreed.engine = sends().find_map(|s| s.engines.last().cloned()).or(agreed.engine.take());
        agreed.train_datagrams = sends().map(|s| s.train).max();
    }
    if let Some(congestion) = sends().find_map(|s| s.congestion.clone()) {
        agreed.congestion = Some(congestion);
    }
    let granted = WindowGranted {
        send_bytes: sends().map(|s| s.send_buffer).find(|b| *b > 0),
        receive_bytes: recvs().map(|r| r.receive_buffer).find(|b| *b > 0),
    };
    if granted != WindowGranted::default() {
        agreed.window_granted = Some(granted);
    }
    let cores = |threads: &mut dyn Iterator<Item = ThreadUse>| {
        threads.map(|t| t.core).filter(|core| *core != ThreadUse::UNKNOWN_CORE).collect()
    };
    let cores = CpuPlan {
        sender: cores(&mut sends().map(|s| s.thread)),
        receiver: cores(&mut recvs().map(|r| r.thread)),
    };
    if cores != CpuPlan::default() {
        agreed.cpu = Some(cores);
    }
}

fn doubts(record: &mut RunRecord, outcome: &Outcome) {
    let mut add = |kind, text: String| record.doubts.push(Doubt { kind, text });
    let sends = || outcome.streams.iter().filter_map(|s| s.send.as_ref());
    let recvs = || outcome.streams.iter().filter_map(|s| s.recv.as_ref());
    if let Some(why) = sends().find_map(|s| s.fallback.as_ref()) {
        let engines =
            sends().find_map(|s| (s.engines.len() > 1).then(|| s.engines.join(", then ")));
        add(
            DoubtKind::EngineFallback,
            format!("{why}; engines used: {}", engines.unwrap_or_default()),
        );
    }
    if let Traffic::Udp(udp) = &outcome.plan.traffic
        && udp.engine == EngineChoice::Gso
        && let Some(used) = sends().find_map(|s| s.engines.first()).filter(|e| *e != "gso")
    {
        let why = if udp.checksum {
            "one packet holds no two datagrams of this size"
        } else {
            "the kernel segments no datagrams without checksum"
        };
        add(DoubtKind::EngineFallback, format!("gso was asked for and {used} used: {why}"));
    }
    if recvs().any(|r| r.merged) && is_udp(outcome) {
        let train = recvs().map(|r| r.train).max().unwrap_or(0);
        let unknown = added(recvs().map(|r| r.counts.loss_by_place().2));
        let mut text = format!(
            "the kernel delivered up to {train} datagrams as one packet with one time stamp: jitter and delay have one sample a packet"
        );
        if unknown > 0 {
            text.push_str(&format!(
                "; {unknown} lost datagrams could not be placed, because a drop counts once for a packet of unknown length"
            ));
        }
        add(DoubtKind::OffloadMerging, text);
    }
    let faults = added(recvs().map(|r| r.timestamp_faults));
    if faults > 0 && is_udp(outcome) {
        add(
            DoubtKind::ClockStepped,
            format!(
                "{faults} packets had no usable kernel time stamp; they are in no delay figure"
            ),
        );
    }
    let unknown = added(recvs().map(|r| r.unknown_late));
    if unknown > 0 {
        add(
            DoubtKind::CountersDisagree,
            format!(
                "{unknown} datagrams came too late to be told from duplicates; they count as lost"
            ),
        );
    }
    let foreign = added(recvs().map(|r| r.counts.foreign));
    if foreign > 0 {
        add(
            DoubtKind::CountersDisagree,
            format!("{foreign} datagrams of another test arrived and were ignored"),
        );
    }
    for (name, host) in [("client", &outcome.client), ("server", &outcome.server)] {
        let Some(total) = &host.total else { continue };
        if total.clock_step_ns.unsigned_abs() > 1_000_000 {
            add(
                DoubtKind::ClockStepped,
                format!(
                    "the {name}'s wall clock moved by {:.3} s against its monotonic clock; spans are unharmed",
                    total.clock_step_ns as f64 / 1e9
                ),
            );
        }
        if let Some(core) =
            total.cores.iter().max_by_key(|core| core.steal).filter(|core| core.steal >= 500)
        {
            add(
                DoubtKind::HostBusy,
                format!(
                    "the hypervisor took {:.0} % of the {name}'s core {}",
                    hundredths(core.steal),
                    core.core
                ),
            );
        }
        if let Some(pressure) = total.cpu_pressure.filter(|p| *p >= 2_000) {
            add(
                DoubtKind::HostBusy,
                format!(
                    "on the {name}, some task waited for a core {:.0} % of the time (PSI): other work ran beside this test",
                    hundredths(pressure)
                ),
            );
        }
        if total.counters.throttled_ns > 0 {
            add(
                DoubtKind::HostBusy,
                format!(
                    "a control group held the {name} back for {:.3} s",
                    seconds(total.counters.throttled_ns)
                ),
            );
        }
        if total.counters.udp_checksum_errors > 0 && is_udp(outcome) {
            add(
                DoubtKind::CountersDisagree,
                format!(
                    "the {name}'s kernel dropped {} UDP datagrams with a wrong checksum, this test's or others'",
                    total.counters.udp_checksum_errors
                ),
            );
        }
    }
    // The sockets' own counters against the host's: the host's must not be smaller.
    for (way, host) in [(Way::Forward, &outcome.server), (Way::Reverse, &outcome.client)] {
        let drops = added(
            streams_of(outcome, way).filter_map(|s| s.recv.as_ref()).map(|r| r.counts.socket_drops),
        );
        if let Some(total) = &host.total
            && is_udp(outcome)
            && drops
                > total
                    .counters
                    .udp_receive_buffer_errors
                    .saturating_add(total.counters.udp_checksum_errors)
        {
            add(
                DoubtKind::CountersDisagree,
                format!(
                    "the receiving sockets counted {drops} drops, the host's RcvbufErrors rose by {} only",
                    total.counters.udp_receive_buffer_errors
                ),
            );
        }
    }
    if let Traffic::Tcp(tcp) = &outcome.plan.traffic {
        if tcp.discard {
            add(DoubtKind::BytesNotCopied, "the receiver discarded the bytes inside the kernel (MSG_TRUNC); an application that reads them needs more CPU".into());
        }
        if tcp.zerocopy {
            add(DoubtKind::BytesNotCopied, "the sender sent the same pages again and again (sendfile); an application that writes its data needs more CPU".into());
        }
    }
    let late = added(sends().map(|s| s.counts.late_wakeups));
    let calls = added(sends().map(|s| s.counts.calls));
    if late.saturating_mul(100) > calls && calls > 0 {
        add(
            DoubtKind::TimerLate,
            format!(
                "{late} of {calls} send calls came later than the burst limit: the host kept the schedule badly"
            ),
        );
    }
    if outcome.dialect == Dialect::Iperf3 {
        add(DoubtKind::PeerValuesMissing, iperf3_doubt(outcome));
    }
    if outcome.same_host && !outcome.discard {
        add(DoubtKind::SharedHost, "both ends ran under one kernel and share its cores: this measures the host, not a network".into());
    }
    if outcome.clock.is_some()
        && !outcome.same_host
        && outcome.plan.duration().is_some_and(|d| d.0 > 1_000_000_000)
        && is_udp(outcome)
    {
        // Said in docs, and in numbers where the drift could be seen.
        if let Some(clock) = outcome.clock.filter(|c| c.error_ns > 1_000_000) {
            add(
                DoubtKind::ClockStepped,
                format!(
                    "the two hosts' clocks are known to {:.3} ms only",
                    clock.error_ns as f64 / 1e6
                ),
            );
        }
    }
}

/// What iperf3's dialect cannot carry.
fn iperf3_doubt(outcome: &Outcome) -> String {
    let mut missing = vec!["its intervals", "its host"];
    let udp = is_udp(outcome);
    if udp && outcome.plan.direction.has_forward() {
        missing.push("where datagrams were lost");
        missing.push("reordered, late and damaged datagrams");
        missing.push("delay");
    }
    let mut text =
        format!("the server speaks iperf3's protocol, which does not tell {}", missing.join(", "));
    if udp && outcome.plan.direction.has_forward() {
        text.push_str(
            "; its receiver counts what arrives twice as two arrivals, so duplicates hide loss",
        );
    }
    if outcome.plan.warmup.0 > 0 {
        text.push_str("; the border between warm-up and measured time is each end's own");
    }
    text
}

/// The first accounting identity that does not hold, in words.
fn broken_identity(
    outcome: &Outcome,
    forward: &WayTotals,
    reverse: &WayTotals,
    status: Status,
) -> Option<String> {
    for (name, totals) in [("forward", forward), ("reverse", reverse)] {
        if let (Some((send, ..)), Some((recv, ..))) = (&totals.send, &totals.recv)
            && is_udp(outcome)
            && status == Status::Complete
            && send.datagrams != recv.datagrams.saturating_add(recv.lost)
        {
            return Some(format!(
                "{name}: {} sent is not {} received + {} lost",
                send.datagrams, recv.datagrams, recv.lost
            ));
        }
    }
    for stream in &outcome.streams {
        let (index, way) = (stream.index, if stream.reverse { "reverse" } else { "forward" });
        let way_of = if stream.reverse { Way::Reverse } else { Way::Forward };
        if let Some(recv) = &stream.recv
            && !outcome.receiver_is_brief(way_of)
        {
            let mut sum = RecvCounts::default();
            recv.intervals.iter().for_each(|row| sum.add(&row.counts));
            if sum != recv.counts {
                return Some(format!(
                    "{way} stream {index}: the receiver's intervals do not add up to its totals"
                ));
            }
            if recv.counts.datagrams.saturating_add(recv.counts.lost) != recv.counts.expected {
                return Some(format!("{way} stream {index}: received + lost is not expected"));
            }
        }
        if let Some(send) = &stream.send
            && !outcome.sender_is_brief(way_of)
        {
            let mut sum = SendCounts::default();
            send.intervals.iter().for_each(|row| sum.add(&row.counts));
            if sum != send.counts {
                return Some(format!(
                    "{way} stream {index}: the sender's intervals do not add up to its totals"
                ));
            }
        }
        if let Some(rr) = &stream.rr
            && added(rr.intervals.iter().map(|row| row.transactions)) != rr.transactions
        {
            return Some(format!("stream {index}: the intervals' transactions do not add up"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_without_time() {
        // The usual case: the senders' time counts, though the last datagram arrives later.
        assert_eq!(rows_span(10, 100, 1_000, 1_003), 1_000);
        assert_eq!(rows_span(10, 100, 950, 953), 950);
        // It arrives in a row of its own.
        assert_eq!(rows_span(11, 100, 1_000, 1_003), 1_003);
        assert!(interval_span(10, 11, 100, rows_span(11, 100, 1_000, 1_003)) > 0);
    }
}
