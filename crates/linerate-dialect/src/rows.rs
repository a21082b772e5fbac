//! Intervals of each stream, put together until all streams have reported theirs: what a user of iperf3
//! or iperf 2 sees, at a client and at a server.

use std::collections::BTreeMap;

use linerate_model::test_event::{Row, Rows};

use crate::stream::{Report, Tick};

/// Collects rows. One for each end of a test.
#[derive(Debug)]
pub(crate) struct RowBook {
    interval_ns: u64,
    warmup_ns: u64,
    streams: usize,
    open: BTreeMap<(bool, u64), Vec<Option<Row>>>,
    /// Measured intervals reported.
    reported: u64,
}

impl RowBook {
    /// Of so many streams; times in nanoseconds.
    pub(crate) fn new(interval_ns: u64, warmup_ns: u64, streams: usize) -> Self {
        Self { interval_ns, warmup_ns, streams, open: BTreeMap::new(), reported: 0 }
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
            self.reported = self.reported.max(index + 1);
        }
        let start_ns = index.saturating_mul(self.interval_ns);
        let end_ns = start_ns.saturating_add(self.interval_ns);
        let end_ns = if omitted { end_ns.min(self.warmup_ns) } else { end_ns };
        Some(Rows { start_ns, end_ns, omitted, streams })
    }

    /// The rows that had not been reported when the streams ended, the last of which ends with the
    /// measured time. An empty one of a tenth of an interval or less is left out, as iperf3 and iperf 2 do.
    pub(crate) fn rest(&mut self, reports: &[&Report], span_ns: u64) -> Vec<Rows> {
        let rows_of = |report: &Report| match report {
            Report::Send(report) => report.intervals.len(),
            Report::Recv(report) => report.intervals.len(),
            Report::Rr(_) | Report::Respond(_) => 0,
        };
        let count = reports.iter().map(|report| rows_of(report)).max().unwrap_or(0) as u64;
        let from = self.reported;
        self.reported = from.max(count);
        (from..count)
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
