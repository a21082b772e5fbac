//! The table of a test: one row an interval (two when both directions run), then totals and
//! streams. Which columns there are depends on the traffic, how many of them on the room.

use linerate_analysis::metric::{Flow, flows};
use linerate_model::plan::{PlanDirection, TrafficKind, Transport, Way};
use linerate_model::record::{
    CpuFigures, Figures, Interval, Quantiles, ReceiverFigures, RunRecord,
};
use linerate_model::word::Word;

use crate::number::{self, ABSENT};
use crate::rows::{self, Cell, GAP, column, keep, needed};
use crate::spark;
use crate::style::Tone;

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Columns of the terminal; `None` shows everything, for files and pipes.
    pub width: Option<usize>,
    /// Whether a sparkline of the rate ends each row.
    pub spark: bool,
}

/// Room for a pipe or a file.
pub const UNBOUNDED: Room = Room { width: None, spark: false };

/// Sparklines shorter than this say nothing; a column goes before they do.
const SPARK_LEAST: usize = 6;
/// Longer ones only spread the row.
const SPARK_MOST: usize = 30;
/// Rows of single streams before they are only counted.
const MOST_STREAMS: usize = 16;

/// A column of the table: of a direction its cell, and how wide that may be.
pub type Column = rows::Column<fn(&Flow<'_>, usize) -> Cell>;

const OFFERED: Column = column("bit/s", "offered", 7, 0, |f, _| number(f.sent_bps()));
const RECEIVED: Column = column("bit/s", "received", 8, 0, |f, _| number(f.received_bps()));
const DATAGRAMS: Column = column("per s", "datagrams", 9, 2, |f, _| {
    let sent = f.sender.and_then(|s| s.datagrams_per_second);
    number(f.receiver.map_or(sent, |r| r.datagrams_per_second))
});
const LOCAL_ERRORS: Column =
    column("", "local err", 9, 3, |f, room| harm(f.sender.and_then(|s| s.refused_locally), room));
const CPU_TX: Column = column("cpu own/core %", "tx", 7, 0, |f, _| busy(f.sender_cpu()));
const CPU_RX: Column = column("cpu own/core %", "rx", 7, 0, |f, _| busy(f.receiver_cpu()));

const UDP: &[Column] = &[
    OFFERED,
    RECEIVED,
    DATAGRAMS,
    column("", "loss", 8, 0, |f, _| {
        let ratio = f.lost_ratio();
        let tone = match ratio {
            Some(r) if r > 0.01 => Tone::Bad,
            Some(r) if r > 0.0 => Tone::Warn,
            _ => Tone::Dim,
        };
        Cell::toned(ratio.map(number::loss), tone)
    }),
    column("lost on", "path", 7, 0, |f, room| lost(f.receiver, |r| r.lost_path, room)),
    column("lost on", "rcvbuf", 7, 0, |f, room| lost(f.receiver, |r| r.dropped_receiver, room)),
    LOCAL_ERRORS,
    column("", "reordered", 9, 4, |f, room| harm(f.receiver.and_then(|r| r.reordered), room)),
    column("", "dup", 6, 5, |f, room| harm(f.receiver.and_then(|r| r.duplicates), room)),
    column("", "jitter", 7, 1, |f, _| seconds(f.receiver.and_then(|r| r.jitter_s))),
    CPU_TX,
    CPU_RX,
];

const DISCARD: &[Column] = &[
    Column { name: "sent", ..OFFERED },
    Column { rank: 0, ..DATAGRAMS },
    Column { rank: 0, ..LOCAL_ERRORS },
    CPU_TX,
];

const TCP: &[Column] = &[
    Column { name: "sent", rank: 2, ..OFFERED },
    RECEIVED,
    column("bit/s", "delivery", 8, 1, |f, _| {
        number(f.tcp().and_then(|t| t.delivery_rate_bps).map(|r| r as f64))
    }),
    column("", "retrans", 7, 0, |f, room| harm(f.tcp().and_then(|t| t.retransmits), room)),
    column("", "RTT", 7, 0, |f, _| seconds(f.tcp().and_then(|t| t.rtt_s))),
    column("", "min RTT", 7, 3, |f, _| seconds(f.tcp().and_then(|t| t.min_rtt_s))),
    column("", "cwnd", 8, 0, |f, _| {
        Cell::known(f.tcp().and_then(|t| t.cwnd_bytes).map(number::bytes))
    }),
    column("", "rwnd lim", 8, 4, |f, _| {
        let ratio = f.tcp().and_then(|t| t.rwnd_limited_ratio);
        Cell::known(ratio.map(|r| number::cpu(r * 100.0)))
    }),
    CPU_TX,
    CPU_RX,
];

const DONE: Column =
    column("per s", "done", 7, 0, |f, _| number(f.rr.map(|r| r.transactions_per_second)));
const UNANSWERED: Column =
    column("", "lost", 6, 1, |f, room| harm(f.rr.and_then(|r| r.unanswered), room));

const RR: &[Column] = &[
    DONE,
    column("latency", "p50", 7, 0, |f, _| latency(f, |q| q.p50)),
    column("latency", "p99", 7, 0, |f, _| latency(f, |q| q.p99)),
    column("latency", "p99.9", 7, 0, |f, _| latency(f, |q| q.p999)),
    column("latency", "max", 7, 0, |f, _| latency(f, |q| q.max)),
    UNANSWERED,
    column("cpu own/core %", "client", 7, 0, |f, _| busy(f.rr.and_then(|r| r.cpu.as_ref()))),
    column("cpu own/core %", "server", 7, 0, |f, _| busy(f.rr.and_then(|r| r.server_cpu.as_ref()))),
];

/// Of what a row is: the end of an interval, all of the test, a stream.
const TIME: Column = column("", "time", 5, 0, |_, _| Cell::plain(""));
const WAY: Column = column("", "way", 3, 0, |f, _| {
    Cell::plain(match f.way {
        Some(Way::Reverse) => "rev",
        Some(Way::Forward) => "fwd",
        None => "",
    })
});

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// One for each column.
    pub cells: Vec<Cell>,
    /// The rate so far, or empty.
    pub spark: String,
}

/// The table of one test. Rows come as intervals come; it remembers the rates for the sparkline.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    spark_width: usize,
    both: bool,
    interval_s: f64,
    trace: [Vec<Option<f64>>; 2],
    top: f64,
}

impl Table {
    /// The table that fits the plan of `record` and the room.
    pub fn new(record: &RunRecord, room: Room) -> Self {
        let plan = record.agreed.as_ref().unwrap_or(&record.asked);
        let both = plan.direction == PlanDirection::Both;
        let kind = match plan.protocol {
            Word::Known(TrafficKind::Tcp) => TCP,
            Word::Known(TrafficKind::Rr) => RR,
            _ if plan.direction == PlanDirection::Discard => DISCARD,
            _ => UDP,
        };
        let mut columns = vec![Column { width: time_width(record), ..TIME }];
        columns.extend(both.then_some(WAY));
        let loses = |c: &&Column| {
            c.name != UNANSWERED.name || plan.transport == Some(Transport::Udp.into())
        };
        columns.extend(kind.iter().filter(loses));
        // A figure of the first rank is worth more than the sparkline, the others are not.
        let spare = |rank| if room.spark && rank > 1 { GAP + SPARK_LEAST } else { 0 };
        keep(&mut columns, room.width, spare);
        // A terminal too narrow for all of it loses the sparkline, never a figure.
        let left = room.width.map_or(SPARK_MOST, |w| w.saturating_sub(needed(&columns) + GAP));
        let spark_width = Some(left.min(SPARK_MOST)).filter(|w| room.spark && *w >= SPARK_LEAST);
        let spark_width = spark_width.unwrap_or(0);
        let top = plan.rate_bps.or(plan.rate_tps).unwrap_or(0) as f64;
        Self {
            columns,
            spark_width,
            both,
            interval_s: plan.interval_s,
            trace: Default::default(),
            top,
        }
    }

    /// Heads and widths.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Columns of text that a row takes, sparkline included.
    pub fn width(&self) -> usize {
        needed(&self.columns) + if self.spark_width > 0 { GAP + self.spark_width } else { 0 }
    }

    /// The rows of an interval, whose rates are remembered.
    pub fn interval(&mut self, interval: &Interval) -> Vec<Row> {
        let time = number::chosen_seconds(self.rounded(interval.end_s));
        let mut rows = Vec::with_capacity(2);
        for (i, lane) in self.lanes(&interval.figures).into_iter().enumerate() {
            let rate = rate(&lane);
            self.top = rate.filter(|r| r.is_finite()).map_or(self.top, |r| self.top.max(r));
            self.trace[i].push(rate);
            rows.push(Row {
                cells: self.cells(&time, &lane),
                spark: spark::recent(&self.trace[i], self.top, self.spark_width),
            });
        }
        rows
    }

    /// The end of an interval as its row shows it: the few milliseconds by which the last one is
    /// late would only widen the column. The record has them.
    fn rounded(&self, end_s: f64) -> f64 {
        let step = self.interval_s / 10.0;
        if step.is_normal() && step > 0.0 { (end_s / step).round() * step } else { end_s }
    }

    /// The rates of the last interval, worded for a status line.
    pub fn last_rate(&self) -> Option<String> {
        let rates: Vec<String> = self
            .trace
            .iter()
            .filter_map(|trace| trace.last().copied().flatten())
            .map(|rate| match self.columns.iter().any(|c| c.name == DONE.name) {
                true => format!("{}/s", number::short(rate)),
                false => number::rate(rate),
            })
            .collect();
        (!rates.is_empty()).then(|| rates.join(" + "))
    }

    /// The rows of the whole test.
    pub fn totals(&self, record: &RunRecord) -> Vec<Row> {
        self.lanes(&record.totals)
            .into_iter()
            .enumerate()
            .filter(|(_, lane)| lane.any())
            .map(|(i, lane)| Row {
                cells: self.cells("total", &lane),
                spark: spark::whole(&self.trace[i], self.top, self.spark_width),
            })
            .collect()
    }

    /// A row for each stream, and how many were left out. None for a single stream, which the
    /// totals have shown already.
    pub fn streams(&self, record: &RunRecord) -> (Vec<Row>, usize) {
        let ways = if self.both { 2 } else { 1 };
        if record.streams.len() <= ways {
            return (Vec::new(), 0);
        }
        let rows = record
            .streams
            .iter()
            .take(MOST_STREAMS)
            .map(|stream| {
                let figures = &stream.figures;
                let of = flows(figures).into_iter().next().unwrap_or_default();
                let lane =
                    Flow { way: stream.direction.known().copied(), rr: figures.rr.as_ref(), ..of };
                Row {
                    cells: self.cells(&format!("#{}", stream.stream), &lane),
                    spark: String::new(),
                }
            })
            .collect();
        (rows, record.streams.len().saturating_sub(MOST_STREAMS))
    }

    fn lanes<'a>(&self, figures: &'a Figures) -> Vec<Flow<'a>> {
        if self.both {
            return [(Way::Forward, &figures.forward), (Way::Reverse, &figures.reverse)]
                .map(|(way, pair)| Flow::of_pair(way, pair.as_ref()))
                .into();
        }
        let (sender, receiver) = (figures.sender.as_ref(), figures.receiver.as_ref());
        vec![Flow { way: None, sender, receiver, rr: figures.rr.as_ref() }]
    }

    fn cells(&self, time: &str, lane: &Flow<'_>) -> Vec<Cell> {
        let figures = self.columns.iter().skip(1).map(|c| (c.cell)(lane, c.width));
        std::iter::once(Cell::plain(time)).chain(figures).collect()
    }
}

/// Width of the time column: that of the last interval's end, or of "total".
fn time_width(record: &RunRecord) -> usize {
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let last = plan.duration_s.unwrap_or(100.0);
    let before = last - plan.interval_s;
    [last, before]
        .map(|s| number::chosen_seconds(s).chars().count())
        .into_iter()
        .fold(5, usize::max)
        .min(12)
}

/// What the sparkline shows: what arrived, or what left where nothing arrives.
fn rate(flow: &Flow<'_>) -> Option<f64> {
    let done = flow.rr.map(|rr| rr.transactions_per_second);
    done.or_else(|| flow.received_bps()).or_else(|| flow.sent_bps())
}

fn number(value: Option<f64>) -> Cell {
    Cell::known(value.map(number::short))
}

/// Three digits: a column of times is read for its size; the facts below it have all four.
fn seconds(value: Option<f64>) -> Cell {
    Cell::known(value.map(number::seconds_short))
}

fn latency(flow: &Flow<'_>, of: fn(&Quantiles) -> f64) -> Cell {
    seconds(flow.rr.and_then(|r| r.latency_s.as_ref()).map(of))
}

/// A count that had better be zero.
fn harm(value: Option<u64>, room: usize) -> Cell {
    let tone = if value == Some(0) { Tone::Dim } else { Tone::Warn };
    Cell::toned(value.map(|v| number::count(v, room)), tone)
}

/// A place of loss. Where some of the lost have two possible places, both figures are only the
/// least that they can be, and say so.
fn lost(
    receiver: Option<&ReceiverFigures>,
    of: fn(&ReceiverFigures) -> Option<u64>,
    room: usize,
) -> Cell {
    let Some(receiver) = receiver else { return Cell::known(None) };
    let mut cell = harm(of(receiver), room);
    if receiver.unattributed.unwrap_or(0) > 0 && cell.text != ABSENT {
        cell = Cell::toned(
            of(receiver).map(|v| format!("≥{}", number::count(v, room - 1))),
            Tone::Warn,
        );
    }
    cell
}

/// A thread that wanted a core for this share of the time, in percent, is held back by its CPU.
const HELD_BACK_PERCENT: f64 = 95.0;

/// The busiest data thread's own share of a core, and how busy that core was, in percent: `12/98`. Coloured only where
/// the thread lacked time, for a full core takes nothing from one that sleeps.
fn busy(cpu: Option<&CpuFigures>) -> Cell {
    let Some(cpu) = cpu else { return Cell::known(None) };
    let own = cpu.thread_percent;
    let wanted = own + cpu.ready_percent.unwrap_or(0.0) + cpu.interrupted_percent.unwrap_or(0.0);
    let tone = if wanted >= HELD_BACK_PERCENT { Tone::Bad } else { Tone::Plain };
    let text = match cpu.core_percent {
        // A core's ticks are coarser than a thread's clock.
        Some(core) => format!("{own:.0}/{:.0}", core.max(own)),
        None => format!("{own:.0}"),
    };
    Cell::toned(Some(text), tone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testkit::records;

    #[test]
    fn every_kind_fits_80_columns_and_120_with_its_sparkline() {
        for record in [
            records::udp_receiver_drops(),
            records::udp_both(),
            records::udp_streams(),
            records::tcp(),
            records::rr(),
            records::discard(),
        ] {
            for width in [80, 120] {
                let table = Table::new(&record, Room { width: Some(width), spark: true });
                assert!(table.width() <= width, "{} {width}", record.asked.protocol);
                assert!(width < 120 || table.spark_width >= SPARK_LEAST);
            }
        }
    }

    #[test]
    fn columns_stay_where_they_are_when_numbers_grow() {
        for (record, width) in [
            (records::udp_receiver_drops(), Some(80)),
            (records::udp_both(), Some(80)),
            (records::tcp(), Some(80)),
            (records::udp_receiver_drops(), None),
        ] {
            let mut table = Table::new(&record, Room { width, spark: false });
            let mut grown = record.intervals[0].clone();
            for figures in [&mut grown.figures.receiver].into_iter().flatten() {
                figures.lost_ratio = Some(0.000_094);
                figures.lost_path = Some(9_999_999);
                figures.dropped_receiver = Some(999_999_999_999);
                figures.unattributed = Some(1);
                figures.duplicates = Some(12_345_678);
                figures.reordered = Some(123_456_789_012);
                figures.jitter_s = Some(99.95);
            }
            for figures in [&mut grown.figures.sender].into_iter().flatten() {
                figures.refused_locally = Some(999_999_999_999);
                figures.bits_per_second = 999.96e9;
                if let Some(tcp) = &mut figures.tcp {
                    tcp.retransmits = Some(123_456_789);
                    tcp.rtt_s = Some(0.009_996);
                }
            }
            grown.end_s = 3.004;
            let small = table.interval(&record.intervals[1]);
            let large = table.interval(&grown);
            for (column, (a, b)) in
                table.columns().iter().zip(small[0].cells.iter().zip(&large[0].cells))
            {
                // One of the two spaces before a column may go: its right edge stays.
                for cell in [a, b] {
                    assert!(cell.text.chars().count() < column.width + GAP, "{column:?} {cell:?}");
                }
            }
        }
    }

    #[test]
    fn a_narrow_terminal_keeps_the_figures() {
        let room = Room { width: Some(20), spark: true };
        let table = Table::new(&records::udp_receiver_drops(), room);
        assert!(table.columns().iter().any(|c| c.name == "received"));
        assert_eq!(table.spark_width, 0);
        assert!(table.columns().iter().all(|c| c.rank == 0));
    }

    #[test]
    fn what_is_absent_is_a_dash_and_not_zero() {
        let mut record = records::udp_receiver_drops();
        record.totals.receiver = None;
        let table = Table::new(&record, UNBOUNDED);
        let row = &table.totals(&record)[0];
        let at = |name| table.columns().iter().position(|c| c.name == name).unwrap();
        for name in ["received", "loss", "path", "rcvbuf", "jitter", "rx"] {
            assert_eq!(row.cells[at(name)].text, "-", "{name}");
        }
    }
}
