//! What a sender reports only when the receiver's account is closed.

use linerate_model::sample::{LossRunCounts, RecvInterval, RecvReport};

/// The sender reports, when the receiver's account is closed, that it sent `tail` datagrams more than
/// were seen: they are lost. A run of loss of their own, as far as anybody can know now.
pub fn add_tail(report: &mut RecvReport, tail: u64) {
    if tail == 0 {
        return;
    }
    if report.intervals.is_empty() {
        report.intervals.push(RecvInterval::default());
    }
    let last = report.intervals.last_mut().map(|interval| &mut interval.counts);
    for counts in last.into_iter().chain([&mut report.counts]) {
        counts.expected = counts.expected.saturating_add(tail);
        counts.lost = counts.lost.saturating_add(tail);
        counts.dropped_max = counts.dropped_max.saturating_add(tail.min(report.unread));
    }
    let runs = report
        .loss_runs
        .get_or_insert_with(|| LossRunCounts { shortest: u64::MAX, ..LossRunCounts::default() });
    runs.runs += 1;
    runs.longest = runs.longest.max(tail);
    runs.shortest = runs.shortest.min(tail);
    let class = tail.checked_next_power_of_two().map_or(64, u64::trailing_zeros) as usize;
    let last = runs.lengths.len() - 1;
    if let Some(length) = runs.lengths.get_mut(class.min(last)) {
        *length += 1;
    }
}
