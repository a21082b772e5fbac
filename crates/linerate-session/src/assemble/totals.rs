//! One direction with all its streams added up.

use linerate_model::plan::Way;
use linerate_model::record::{
    LossRuns, OneWayDelay, PacingFigures, ReceiverFigures, SenderFigures, WallClockDelay,
};
use linerate_model::sample::{
    DelayQuantiles, RecvCounts, RecvReport, SendCounts, SendReport, ThreadUse, Trips,
};

use super::figures::{
    add_tcp, added, cpu, host_figures, larger, only_counts, over_rows, quantiles, receiver_figures,
    seconds, sender_figures, tcp_figures, wall_clock_delay,
};
use super::outcome::{Outcome, WayTotals};
use super::rows::sent_rows;

/// The receivers' measured time: from the first arrival on any stream to the last, and no shorter
/// than the senders' own time, because the gap after the last datagram belongs to it.
pub(super) fn receive_span(streams: &[&RecvReport], send_span: u64) -> u64 {
    let first = streams.iter().filter_map(|r| r.first_ns).min();
    let last = streams.iter().filter_map(|r| r.last_ns).max();
    first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first)).max(send_span)
}

/// All threads of one end.
pub(super) fn beside(threads: impl Iterator<Item = ThreadUse>) -> ThreadUse {
    threads.fold(ThreadUse::default(), |mut all, thread| {
        all.beside(&thread);
        all
    })
}

pub(super) fn totals_of(outcome: &Outcome, way: Way) -> WayTotals {
    let sends: Vec<&SendReport> = outcome.sends_of(way).collect();
    let recvs: Vec<&RecvReport> = outcome.recvs_of(way).collect();
    let send_span = sends.iter().map(|s| s.span_ns).max().unwrap_or(0);
    WayTotals {
        send: (!sends.is_empty()).then(|| {
            let mut counts = SendCounts::default();
            sends.iter().for_each(|s| counts.add(&s.counts));
            (counts, send_span, beside(sends.iter().map(|s| s.thread)))
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
            (counts, span, beside(recvs.iter().map(|r| r.thread)))
        }),
    }
}

pub(super) fn full_sender(
    outcome: &Outcome,
    way: Way,
    totals: &WayTotals,
) -> Option<SenderFigures> {
    let (counts, span, threads) = totals.send.as_ref()?;
    let (host, _) = outcome.ends(way);
    let mut figures = sender_figures(counts, *span, outcome.is_udp());
    figures.cpu = cpu(threads, *span, host.total.as_ref(), &host.irq_cores);
    figures.host = host_figures(host);
    let reports: Vec<&SendReport> = outcome.sends_of(way).collect();
    if outcome.sender_is_brief(way) {
        // It counts what it sent and nothing else.
        figures.attempted = None;
        figures.refused_locally = None;
        figures.local_send_errors.clear();
        figures.late_wakeups = None;
        figures.given_up = None;
    }
    figures.pacing = pacing(&reports, outcome.complete && outcome.plan.duration().is_none());
    let tcp = reports.iter().filter_map(|r| r.tcp).reduce(add_tcp);
    let congestion = reports.iter().find_map(|r| r.congestion.as_deref());
    figures.tcp = tcp.map(|tcp| {
        let rows = sent_rows(outcome, way, *span).into_iter().filter_map(|row| row.tcp);
        over_rows(tcp_figures(&tcp, *span, congestion), &rows.collect::<Vec<_>>())
    });
    Some(figures)
}

/// Of several streams: the mean error, and the largest of each quantile. Where each has sent its count they ended one by
/// one, and their rate is over the time of the slowest: so is the error.
pub(super) fn pacing(reports: &[&SendReport], by_count: bool) -> Option<PacingFigures> {
    let gaps = reports.iter().filter_map(|r| r.gaps).reduce(larger)?;
    let errors: Vec<f64> =
        reports.iter().filter_map(|r| r.pacing_error_ppb).map(|ppb| ppb as f64 / 1e3).collect();
    let mean = || errors.iter().sum::<f64>() / errors.len() as f64;
    let error = if by_count {
        errors.iter().copied().reduce(f64::min)
    } else {
        (!errors.is_empty()).then(mean)
    };
    let lateness = reports.iter().filter_map(|r| r.lateness).reduce(larger);
    Some(PacingFigures {
        mean_error_ppm: error,
        gap_p50_ns: gaps.p50_ns,
        gap_p99_ns: gaps.p99_ns,
        gap_max_ns: gaps.max_ns,
        gap_nominal_ns: reports.iter().find_map(|r| r.nominal_gap_ns),
        lateness_p99_ns: lateness.map(|l| l.p99_ns),
    })
}

pub(super) fn full_receiver(
    outcome: &Outcome,
    way: Way,
    totals: &WayTotals,
) -> Option<ReceiverFigures> {
    let (counts, span, threads) = totals.recv.as_ref()?;
    let (_, host) = outcome.ends(way);
    let mut figures = receiver_figures(counts, *span, outcome.is_udp());
    figures.cpu = cpu(threads, *span, host.total.as_ref(), &host.irq_cores);
    figures.host = host_figures(host);
    let reports: Vec<&RecvReport> = outcome.recvs_of(way).collect();
    if outcome.receiver_counts_only(way) {
        only_counts(&mut figures, counts);
    }
    let jitters: Vec<u64> = reports.iter().filter_map(|r| r.jitter_ns).collect();
    if !jitters.is_empty() {
        let mean = jitters.iter().map(|j| *j as f64).sum::<f64>() / jitters.len() as f64;
        figures.jitter_s = Some(mean / 1e9);
    }
    let variation = reports.iter().filter_map(|r| r.delay_variation).reduce(larger);
    figures.delay_variation_s = variation.map(|q| quantiles(&q, reports.len()));
    figures.one_way_delay_s = one_way_delay(outcome, way, &reports);
    let trips = reports.iter().filter_map(|r| r.trips).reduce(Trips::and);
    figures.wall_clock_delay_s = trips.map(wall_clock_delay).map(|delay| WallClockDelay {
        count: delay.count.filter(|_| !outcome.receiver_is_brief(way)),
        ..delay
    });
    figures.reorder_extent_max = reports.iter().filter_map(|r| r.reorder_extent_max).max();
    // A peer may report any number.
    figures.overdue = reports
        .iter()
        .filter_map(|r| r.overdue)
        .reduce(u64::saturating_add)
        .map(|overdue| overdue.min(counts.datagrams));
    let first = reports.iter().filter_map(|r| r.first_ns).min();
    let read = reports.iter().filter_map(|r| r.last_read_ns).max();
    figures.read_seconds =
        first.zip(read).filter(|_| outcome.is_udp()).map(|(a, b)| seconds(b.saturating_sub(a)));
    // Without numbers nobody knows which were lost.
    figures.loss_runs = loss_runs(&reports, counts.lost).filter(|_| outcome.habits.numbered);
    Some(figures)
}

/// Delay variation plus the least transit time less the clocks' distance; absent when the result
/// would be impossible, which means that the clock error is not what it seems.
pub(super) fn one_way_delay(
    outcome: &Outcome,
    way: Way,
    reports: &[&RecvReport],
) -> Option<OneWayDelay> {
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
    all.map(|q| OneWayDelay {
        quantiles: quantiles(&q, reports.len()),
        clock_error_s: seconds(error_ns),
    })
}

pub(super) fn loss_runs(reports: &[&RecvReport], lost: u64) -> Option<LossRuns> {
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
