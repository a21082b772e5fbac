//! Requests and responses as figures.

use linerate_model::plan::{Traffic, Transport};
use linerate_model::record::{Figures, Interval, RrFigures};
use linerate_model::sample::{HostSample, RrReport};
use linerate_wire::native::message::RespondReport;

use super::Outcome;
use super::figures::{added, by_errno, cpu, host_figures, larger, per_second, quantiles, seconds};
use super::rows::{interval_span, sum_rows};
use super::totals::beside;

pub(super) fn rr_figures(
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
    let threads = beside(reports.iter().map(|r| r.thread));
    let server_threads = beside(responds.iter().map(|r| r.thread));
    let server_span = responds.iter().map(|r| r.span_ns).max().unwrap_or(0);
    let udp = outcome.plan.traffic.transport() == Transport::Udp;
    Some(RrFigures {
        transactions,
        seconds: seconds(span),
        transactions_per_second: per_second(transactions, span),
        unanswered: udp.then(|| added(reports.iter().map(|r| r.unanswered))),
        unfinished: Some(added(reports.iter().map(|r| r.unfinished))),
        late_sends: matches!(&outcome.plan.traffic, Traffic::Rr(rr) if rr.rate.is_some())
            .then(|| added(reports.iter().map(|r| r.late_sends))),
        local_send_errors: by_errno(reports.iter().map(|r| &r.local_errors)),
        server_local_send_errors: by_errno(responds.iter().map(|r| &r.local_errors)),
        latency_s: latency.filter(|l| l.count > 0).map(|l| quantiles(&l, reports.len())),
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
        host: host_figures(&outcome.client),
        server_host: host_figures(&outcome.server),
    })
}

pub(super) fn rr_intervals(outcome: &Outcome, total: &RrFigures) -> Vec<Interval> {
    let interval = outcome.plan.interval.0;
    let streams: Vec<&[_]> =
        outcome.streams.iter().filter_map(|s| s.rr.as_ref()).map(|r| &r.intervals[..]).collect();
    let rows = sum_rows(&streams, |sum, row| {
        sum.transactions = sum.transactions.saturating_add(row.transactions);
        sum.latency = larger(sum.latency, row.latency);
        sum.thread.beside(&row.thread);
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
                    rr: Some(rr_row(row, span, outcome.client.intervals.get(i), streams.len())),
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
    streams: usize,
) -> RrFigures {
    RrFigures {
        transactions: row.transactions,
        seconds: seconds(span_ns),
        transactions_per_second: per_second(row.transactions, span_ns),
        latency_s: (row.latency.count > 0).then(|| quantiles(&row.latency, streams)),
        cpu: cpu(&row.thread, span_ns, host, &[]),
        ..RrFigures::default()
    }
}
