//! Intervals: as they are reported while the test runs, and as they end in the record.

use linerate_model::plan::{Direction, TestPlan, Traffic, Way};
use linerate_model::record::{Figures, Interval, Pair, ReceiverFigures, RrFigures, SenderFigures};
use linerate_model::sample::{HostSample, RecvInterval, SendInterval, Trips};

use super::figures::{
    add_tcp, both, cpu, follow_tcp, only_counts, receiver_figures, seconds, sender_figures,
    tcp_figures, wall_clock_delay,
};
use super::outcome::{Outcome, WayTotals};

/// The part of `span_ns` in interval `index` of `count`; the last takes what is left.
pub(super) fn interval_span(index: usize, count: usize, interval_ns: u64, span_ns: u64) -> u64 {
    if index + 1 < count {
        interval_ns
    } else {
        span_ns.saturating_sub((index as u64).saturating_mul(interval_ns))
    }
}

/// What one end reports of one interval, all streams added up.
#[derive(Debug, Clone, Default)]
pub struct LiveSide {
    /// Its senders.
    pub send: Option<SendInterval>,
    /// Its receivers.
    pub recv: Option<RecvInterval>,
    /// Its host.
    pub host: Option<HostSample>,
    /// Its receivers report no more than datagrams and losses.
    pub counts_only: bool,
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
        receiver: receiver.recv.as_ref().map(|r| {
            let mut figures = recv_row(r, span, udp, receiver.host.as_ref(), &[]);
            if receiver.counts_only {
                only_counts(&mut figures, &r.counts);
            }
            figures
        }),
    };
    let start = index.saturating_mul(span);
    Interval {
        start_s: seconds(start),
        end_s: seconds(start.saturating_add(span)),
        figures: figures_of(plan.direction, || pair(client, server), || pair(server, client), rr),
    }
}

pub(super) fn figures_of(
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

pub(super) fn send_row(
    row: &SendInterval,
    span_ns: u64,
    udp: bool,
    host: Option<&HostSample>,
    irq_cores: &[u32],
) -> SenderFigures {
    let mut figures = sender_figures(&row.counts, span_ns, udp);
    figures.cpu = cpu(&row.thread, span_ns, host, irq_cores);
    figures.tcp = row.tcp.map(|tcp| tcp_figures(&tcp, span_ns, None));
    figures
}

pub(super) fn recv_row(
    row: &RecvInterval,
    span_ns: u64,
    udp: bool,
    host: Option<&HostSample>,
    irq_cores: &[u32],
) -> ReceiverFigures {
    let mut figures = receiver_figures(&row.counts, span_ns, udp);
    figures.jitter_s = row.jitter_ns.map(seconds);
    figures.delay_variation_mean_s = row.delay_mean_ns.map(seconds);
    figures.delay_variation_max_s = row.delay_max_ns.map(seconds);
    figures.wall_clock_delay_s = row.trips.map(wall_clock_delay);
    figures.cpu = cpu(&row.thread, span_ns, host, irq_cores);
    figures
}

/// Adds the streams' rows with the same index.
pub(super) fn sum_rows<T: Copy>(streams: &[impl AsRef<[T]>], add: impl Fn(&mut T, &T)) -> Vec<T> {
    let mut rows: Vec<T> = Vec::new();
    for stream in streams {
        for (i, row) in stream.as_ref().iter().enumerate() {
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
pub(super) fn rows_span(count: usize, interval: u64, sent: u64, received: u64) -> u64 {
    let last_begins = (count as u64).saturating_sub(1).saturating_mul(interval);
    if last_begins < sent { sent } else { received.max(sent) }
}

/// A test that ends on the edge of an interval, or is cut short just before one while the receiver
/// waits beyond it, leaves a last row that spans no time: its counts belong to the row before.
pub(super) fn fold_timeless<T: Clone>(
    rows: &[T],
    interval: u64,
    span: u64,
    add: impl Fn(&mut T, T),
) -> Vec<T> {
    let mut rows = rows.to_vec();
    while rows.len() > 1 && (rows.len() as u64 - 1).saturating_mul(interval) >= span {
        if let (Some(empty), Some(last)) = (rows.pop(), rows.last_mut()) {
            add(last, empty);
        }
    }
    rows
}

/// Delays of a row whose counts do not hold those of the one after it yet, with them. The jitter is that of its end.
fn follow_delays(row: &mut RecvInterval, after: &RecvInterval) {
    let (count, more) = (u128::from(row.counts.datagrams), u128::from(after.counts.datagrams));
    row.jitter_ns = after.jitter_ns.or(row.jitter_ns);
    row.delay_max_ns = row.delay_max_ns.max(after.delay_max_ns);
    row.delay_mean_ns = both(row.delay_mean_ns, after.delay_mean_ns, |mean, of_more| {
        let sum = (u128::from(mean) * count).saturating_add(u128::from(of_more) * more);
        let mean_ns = sum.checked_div(count + more).and_then(|ns| u64::try_from(ns).ok());
        mean_ns.unwrap_or(mean.max(of_more))
    });
}

/// The senders' rows, all streams added up.
pub(super) fn sent_rows(outcome: &Outcome, way: Way, span: u64) -> Vec<SendInterval> {
    let interval = outcome.plan.interval.0;
    let sends = outcome.sends_of(way).map(|s| {
        fold_timeless(&s.intervals, interval, span, |last, empty: SendInterval| {
            last.counts.add(&empty.counts);
            last.thread.follow(&empty.thread);
            last.tcp = follow_tcp(last.tcp, empty.tcp);
        })
    });
    sum_rows(&sends.collect::<Vec<_>>(), |sum, row| {
        sum.counts.add(&row.counts);
        sum.thread.beside(&row.thread);
        sum.tcp = both(sum.tcp, row.tcp, add_tcp);
    })
}

pub(super) fn way_intervals(outcome: &Outcome, way: Way, totals: &WayTotals) -> Vec<Pair> {
    let udp = outcome.is_udp();
    let interval = outcome.plan.interval.0;
    let (send_host, recv_host) = outcome.ends(way);
    let send_span = totals.send.as_ref().map_or(0, |t| t.1);
    let recv_span = totals.recv.as_ref().map_or(0, |t| t.1);
    let recvs = outcome.recvs_of(way).map(|r| {
        fold_timeless(&r.intervals, interval, recv_span, |last, empty: RecvInterval| {
            follow_delays(last, &empty);
            last.counts.add(&empty.counts);
            last.thread.follow(&empty.thread);
            last.trips = both(last.trips, empty.trips, Trips::and);
        })
    });
    let send_rows = sent_rows(outcome, way, send_span);
    let recv_rows = sum_rows(&recvs.collect::<Vec<_>>(), |sum, row| {
        sum.counts.add(&row.counts);
        sum.thread.beside(&row.thread);
        sum.larger_delays(row);
        sum.trips = both(sum.trips, row.trips, Trips::and);
    });
    let rows = send_rows.len().max(recv_rows.len());
    (0..rows)
        .map(|i| {
            let sender = send_rows.get(i).map(|row| {
                let span = interval_span(i, send_rows.len(), interval, send_span);
                let host = send_host.intervals.get(i);
                send_row(row, span, udp, host, &send_host.irq_cores)
            });
            let receiver = recv_rows.get(i).map(|row| {
                let span = interval_span(i, recv_rows.len(), interval, recv_span);
                let host = recv_host.intervals.get(i);
                let mut figures = recv_row(row, span, udp, host, &recv_host.irq_cores);
                if outcome.receiver_counts_only(way) {
                    only_counts(&mut figures, &row.counts);
                }
                figures
            });
            Pair { sender, receiver }
        })
        .collect()
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
