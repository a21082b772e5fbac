//! Intervals of each stream, put together until all streams have told theirs: what a user of iperf3
//! sees, at a client and at a server.

use std::collections::BTreeMap;

use linerate_engine::clock;
use linerate_model::test_event::{Cpu, Row, Rows};

use crate::data::{Report, Tick};

/// Collects rows. One for each end of a test.
#[derive(Debug)]
pub(crate) struct RowBook {
    interval_ns: u64,
    warmup_ns: u64,
    streams: usize,
    open: BTreeMap<(bool, u64), Vec<Option<Row>>>,
    /// Measured intervals told.
    told: u64,
}

impl RowBook {
    pub(crate) fn new(interval_ns: u64, warmup_ns: u64, streams: usize) -> Self {
        Self { interval_ns, warmup_ns, streams, open: BTreeMap::new(), told: 0 }
    }

    /// One stream's interval; returns the whole row when it was the last stream's.
    pub(crate) fn add(
        &mut self,
        omitted: bool,
        stream: u16,
        index: u64,
        tick: Tick,
    ) -> Option<Rows> {
        let row = match tick {
            Tick::Send(send) => Row::Send(send),
            Tick::Recv(recv) => Row::Recv(recv),
            Tick::Rr(_) => return None,
        };
        // The measured time comes after the warm-up.
        let key = (!omitted, index);
        let rows = self.open.entry(key).or_insert_with(|| vec![None; self.streams]);
        if let Some(slot) = rows.get_mut(usize::from(stream)) {
            *slot = Some(row);
        }
        if rows.iter().any(Option::is_none) {
            return None;
        }
        let streams = self.open.remove(&key)?.into_iter().flatten().collect();
        if !omitted {
            self.told = self.told.max(index + 1);
        }
        let start_ns = index.saturating_mul(self.interval_ns);
        let end_ns = start_ns.saturating_add(self.interval_ns);
        let end_ns = if omitted { end_ns.min(self.warmup_ns) } else { end_ns };
        Some(Rows { start_ns, end_ns, omitted, streams })
    }

    /// The rows that had not been told when the streams ended, the last of which ends with the
    /// measured time. An empty one of a tenth of an interval or less is left out, as iperf3 does.
    pub(crate) fn rest(&mut self, reports: &[&Report], span_ns: u64) -> Vec<Rows> {
        let rows_of = |report: &Report| match report {
            Report::Send(report) => report.intervals.len(),
            Report::Recv(report) => report.intervals.len(),
            Report::Rr(_) | Report::Respond(_) => 0,
        };
        let count = reports.iter().map(|report| rows_of(report)).max().unwrap_or(0) as u64;
        (self.told..count)
            .filter_map(|index| {
                let streams = reports.iter().map(|report| row(report, index)).collect();
                let start_ns = index.saturating_mul(self.interval_ns);
                let end_ns = if index + 1 == count {
                    span_ns.max(start_ns)
                } else {
                    start_ns.saturating_add(self.interval_ns)
                };
                let rows = Rows { start_ns, end_ns, omitted: false, streams };
                let brief = end_ns - start_ns <= self.interval_ns / 10;
                (!brief || rows.streams.iter().any(has_bytes)).then_some(rows)
            })
            .collect()
    }
}

fn row(report: &Report, index: u64) -> Row {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    match report {
        Report::Send(report) => Row::Send(report.intervals.get(index).copied().unwrap_or_default()),
        Report::Recv(report) => Row::Recv(report.intervals.get(index).copied().unwrap_or_default()),
        Report::Rr(_) | Report::Respond(_) => Row::Send(Default::default()),
    }
}

fn has_bytes(row: &Row) -> bool {
    match row {
        Row::Send(send) => send.counts.bytes > 0,
        Row::Recv(recv) => recv.counts.bytes > 0,
    }
}

/// CPU time of this process since some moment, as iperf3 counts it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessCpu {
    at_ns: u64,
    used: (u64, u64),
}

impl ProcessCpu {
    pub(crate) fn start() -> Self {
        Self { at_ns: clock::monotonic_ns(), used: clock::process_cpu_ns() }
    }

    /// Percent of one core since the start.
    pub(crate) fn percent(&self) -> Cpu {
        let span = clock::monotonic_ns().saturating_sub(self.at_ns).max(1) as f64;
        let now = clock::process_cpu_ns();
        let share = |now: u64, before: u64| 100.0 * now.saturating_sub(before) as f64 / span;
        let (user, system) = (share(now.0, self.used.0), share(now.1, self.used.1));
        Cpu { total: user + system, user, system }
    }
}
