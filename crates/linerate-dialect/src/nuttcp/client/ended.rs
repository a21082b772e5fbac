//! What is known of a test when it is over, and what the server's lines mean for the record.

use linerate_model::plan::{Traffic, Way, share};
use linerate_model::sample::{
    RecvCounts, RecvInterval, RecvReport, SendReport, TcpSample, ThreadUse,
};
use linerate_model::test_event::{FarStream, StreamEnd};
use linerate_session::assemble::StreamOutcome;
use linerate_session::receiver::add_tail;
use linerate_wire::nuttcp::heard::is_meant;
use linerate_wire::nuttcp::results::Span;

use super::{Client, Far};
use crate::ending::Trouble;
use crate::stream::{self, Report};

/// What is known of a test that ran.
#[derive(Debug)]
pub struct Ended {
    /// Both ends' reports; of the server's, its share of what the server reports of all.
    pub streams: Vec<StreamOutcome>,
    /// The same as its users see it.
    pub ends: Vec<StreamEnd>,
    /// Measured time of this end in nanoseconds.
    pub span_ns: u64,
    /// All lines of the server.
    pub lines: Vec<String>,
    /// This end was stopped.
    pub interrupted: bool,
    /// Why figures are missing.
    pub trouble: Option<Trouble>,
    /// The server's figures have come.
    pub results: bool,
    /// So many rows were shown.
    pub shown: u64,
}

/// The server's figures, as one stream's.
struct FarShare {
    bytes: u64,
    /// Of datagrams.
    datagrams: u64,
    ns: u64,
    cpu_ns: Option<u64>,
    retransmits: Option<u64>,
}

impl Client {
    /// What is known of a test that ran.
    pub fn ended(self) -> Ended {
        let Self { terms, ids, mut reports, far, .. } = self;
        let size = match &terms.plan.traffic {
            Traffic::Udp(udp) => Some(u64::from(udp.size.bytes())),
            _ => None,
        };
        let here: Vec<&Report> = ids.iter().filter_map(|id| reports.get(&id.stream)).collect();
        let span_ns = here.iter().map(|report| stream::span_ns(report)).max().unwrap_or(0);
        let shares = far.totals.map(|totals| shares(&here, &far, totals, size));
        let mut shares = shares.unwrap_or_default().into_iter();
        let mut ends = Vec::new();
        let mut streams = Vec::new();
        for id in &ids {
            let reverse = id.way == Way::Reverse;
            let mut outcome = StreamOutcome { index: id.index, reverse, ..Default::default() };
            let Some(report) = reports.remove(&id.stream) else {
                streams.push(outcome);
                continue;
            };
            let share = shares.next();
            let reported = share.as_ref().map(in_its_words);
            ends.extend(stream::side(&report).map(|here| StreamEnd {
                here,
                far: reported,
                told: None,
            }));
            match report {
                Report::Send(sent) => {
                    outcome.recv = share.map(|share| far_receiver(&sent, &share, size));
                    outcome.send = Some(sent);
                }
                Report::Recv(mut recv) => {
                    outcome.send = share.map(|share| far_sender(&mut recv, &share, size));
                    outcome.recv = Some(recv);
                }
                Report::Rr(_) | Report::Respond(_) => {}
            }
            streams.push(outcome);
        }
        if terms.plan.direction.has_forward() {
            let rows = far_rows(far.intervals, &streams, terms.plan.intervals());
            for stream in &mut streams {
                let share = |row| interval_share(row, terms.plan.streams, stream.index);
                if let Some(recv) = &mut stream.recv {
                    recv.intervals = rows.iter().map(share).collect();
                }
            }
        }
        Ended {
            streams,
            ends,
            span_ns,
            lines: far.lines,
            interrupted: self.interrupted,
            trouble: self.trouble,
            results: far.totals.is_some(),
            shown: self.shown,
        }
    }
}

/// What a server reports of all streams together, stream by stream: of what is missing each has its part by what this
/// end knows of it, of what is too much as much as the others. Their sum is what the server reports.
fn shares(here: &[&Report], far: &Far, totals: Span, size: Option<u64>) -> Vec<FarShare> {
    let near: Vec<u64> = here
        .iter()
        .map(|report| match report {
            Report::Send(sent) => sent.counts.bytes,
            // What is missing between others was sent.
            Report::Recv(received) => match size {
                Some(size) => received.counts.expected.saturating_mul(size),
                None => received.counts.bytes,
            },
            Report::Rr(_) | Report::Respond(_) => 0,
        })
        .collect();
    let all = near.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    // Datagrams of one size that make these bytes: the nearest number of them.
    let whole = |bytes: u64| match size {
        Some(size) => bytes.saturating_add(size / 2) / size.max(1) * size,
        None => bytes,
    };
    let reported = if is_meant(totals.bytes, all) { all } else { whole(totals.bytes) };
    let streams = u16::try_from(here.len()).unwrap_or(u16::MAX);
    let unit = size.unwrap_or(1).max(1);
    let more = reported.saturating_sub(all) / unit;
    let parts = parts(&near, reported.min(all), unit);
    let again = |index| far.retransmits.map(|again| share(again, streams, index));
    (0u16..)
        .zip(parts)
        .map(|(index, bytes)| {
            let more = share(more, streams, index).saturating_mul(unit);
            let bytes = bytes.saturating_add(more);
            let cpu = far.cpu_percent.filter(|_| index == 0);
            FarShare {
                bytes,
                datagrams: size.map_or(0, |size| bytes / size.max(1)),
                ns: totals.ns,
                cpu_ns: cpu.map(|percent| {
                    (totals.ns / 100).saturating_mul(u64::from(percent.min(100_000)))
                }),
                retransmits: again(index),
            }
        })
        .collect()
}

/// `reported` bytes of `near`, in whole units and in proportion to it: none has more than its own.
fn parts(near: &[u64], reported: u64, unit: u64) -> Vec<u64> {
    let units = |bytes: u64| u128::from(bytes / unit.max(1));
    let all: u64 = near.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes));
    if reported == all {
        return near.to_vec();
    }
    let (reported, sent) = (units(reported), near.iter().map(|bytes| units(*bytes)).sum::<u128>());
    let (mut before, mut given) = (0, 0);
    let part = |bytes: &u64| {
        before += units(*bytes);
        // No more than is there, so that it fits.
        let until = (reported.min(sent) * before).checked_div(sent).unwrap_or(0);
        let part = until - std::mem::replace(&mut given, until);
        u64::try_from(part).unwrap_or(u64::MAX).saturating_mul(unit)
    };
    near.iter().map(part).collect()
}

/// A stream's share of an interval, of which the server reports all streams together.
fn interval_share(row: &RecvInterval, streams: u16, index: u16) -> RecvInterval {
    let of = |all| share(all, streams, index);
    let (expected, lost) = (of(row.counts.expected), of(row.counts.lost));
    let counts = RecvCounts {
        bytes: of(row.counts.bytes),
        expected,
        lost: lost.min(expected),
        dropped_max: lost.min(expected),
        datagrams: expected.saturating_sub(lost),
        ..row.counts
    };
    RecvInterval { counts, ..*row }
}

/// The rows of all streams together: no more is lost in them than in all, and where none is missing they are the whole.
fn far_rows(
    mut rows: Vec<RecvInterval>,
    streams: &[StreamOutcome],
    count: u64,
) -> Vec<RecvInterval> {
    let (mut whole, mut sum) = (RecvCounts::default(), RecvCounts::default());
    let received = streams.iter().filter_map(|stream| stream.recv.as_ref());
    received.for_each(|recv| whole.add(&recv.counts));
    rows.iter().for_each(|row| sum.add(&row.counts));
    take_back(&mut rows, sum.lost.saturating_sub(whole.lost));
    if rows.len() as u64 == count {
        close(&mut rows, &whole);
    }
    rows
}

/// So many datagrams that these rows have lost came late, those of the last ones first: how many they were.
pub(super) fn take_back(rows: &mut [RecvInterval], late: u64) -> u64 {
    let mut left = late;
    for counts in rows.iter_mut().rev().map(|row| &mut row.counts) {
        let found = counts.lost.min(left);
        left -= found;
        counts.lost -= found;
        counts.dropped_max = counts.lost;
        counts.expected = counts.datagrams.saturating_add(counts.lost);
    }
    late - left
}

/// The server's words are rounded, and what came after the last row it wrote is in its totals alone. That row is the
/// rest, so that the rows are the whole.
fn close(rows: &mut [RecvInterval], whole: &RecvCounts) {
    let Some((last, before)) = rows.split_last_mut() else { return };
    let mut sum = RecvCounts::default();
    before.iter().for_each(|row| sum.add(&row.counts));
    let counts = &mut last.counts;
    counts.bytes = whole.bytes.saturating_sub(sum.bytes);
    counts.datagrams = whole.datagrams.saturating_sub(sum.datagrams);
    counts.lost = whole.lost.saturating_sub(sum.lost);
    counts.expected = counts.datagrams.saturating_add(counts.lost);
    counts.dropped_max = counts.lost;
}

fn in_its_words(share: &FarShare) -> FarStream {
    FarStream {
        bytes: share.bytes,
        retransmits: share.retransmits,
        packets: share.datagrams,
        seconds: Some(share.ns as f64 / 1e9),
        ..FarStream::default()
    }
}

fn used(share: &FarShare) -> ThreadUse {
    ThreadUse { cpu_ns: share.cpu_ns, ..ThreadUse::default() }
}

/// What a receiver's totals say. A copy hides a datagram that is lost.
fn far_receiver(sent: &SendReport, far: &FarShare, size: Option<u64>) -> RecvReport {
    let mut report = RecvReport { thread: used(far), ..RecvReport::default() };
    let counts = &mut report.counts;
    counts.bytes = far.bytes;
    if let Some(size) = size {
        counts.datagrams = far.datagrams.min(sent.counts.datagrams);
        // Copies bring no more of what was sent.
        counts.bytes = counts.datagrams.saturating_mul(size);
        counts.expected = sent.counts.datagrams;
        counts.lost = counts.expected - counts.datagrams;
        counts.dropped_max = counts.lost;
    }
    let ns = if far.ns > 0 { far.ns } else { sent.span_ns };
    (report.first_ns, report.last_ns) = (Some(0), Some(ns));
    report
}

/// What a sender's totals say; completes the near receiver by what was lost at the end.
fn far_sender(received: &mut RecvReport, far: &FarShare, size: Option<u64>) -> SendReport {
    let mut report = SendReport { span_ns: far.ns, thread: used(far), ..SendReport::default() };
    report.counts.bytes = far.bytes;
    if size.is_some() {
        add_tail(received, far.datagrams.saturating_sub(received.counts.expected));
        report.counts.datagrams = far.datagrams.max(received.counts.expected);
    } else {
        report.tcp = far.retransmits.map(|retransmits| TcpSample {
            retransmits: Some(retransmits),
            ..TcpSample::default()
        });
    }
    report
}

#[cfg(test)]
mod tests {
    use linerate_model::sample::SendCounts;

    use super::*;

    #[test]
    fn copies_bring_no_more_bytes_than_were_sent() {
        let counts = SendCounts { datagrams: 10, bytes: 10_000, ..SendCounts::default() };
        let sent = SendReport { counts, ..SendReport::default() };
        let far = |datagrams: u64| FarShare {
            bytes: datagrams * 1_000,
            datagrams,
            ns: 1,
            cpu_ns: None,
            retransmits: None,
        };
        for (reported, arrived) in [(13, 10), (10, 10), (7, 7)] {
            let counts = far_receiver(&sent, &far(reported), Some(1_000)).counts;
            assert_eq!((counts.datagrams, counts.lost), (arrived, 10 - arrived));
            assert_eq!(counts.bytes, arrived * 1_000);
        }
    }

    #[test]
    fn rows_of_two_streams_are_the_whole_whichever_of_them_lost_what() {
        let row = |datagrams: u64, lost: u64| RecvInterval {
            counts: RecvCounts {
                bytes: datagrams * 100,
                datagrams,
                lost,
                expected: datagrams + lost,
                ..RecvCounts::default()
            },
            ..RecvInterval::default()
        };
        let stream = |datagrams: u64, lost: u64| StreamOutcome {
            recv: Some(RecvReport { counts: row(datagrams, lost).counts, ..RecvReport::default() }),
            ..StreamOutcome::default()
        };
        // The first lost six of ten, the second none; one of seven came after the row that lost it.
        let rows = far_rows(vec![row(3, 7), row(0, 0)], &[stream(4, 6), stream(10, 0)], 2);
        let counts = |row: &RecvInterval| {
            let RecvCounts { expected, datagrams, lost, .. } = row.counts;
            (expected, datagrams, lost)
        };
        assert_eq!(rows.iter().map(counts).collect::<Vec<_>>(), [(9, 3, 6), (11, 11, 0)]);
    }

    #[test]
    fn parts_add_up_to_what_was_told_and_none_is_larger_than_its_whole() {
        // Two streams of 8.2.2's server that had a thirtieth of both.
        let near = [1_330_515 * 1_448, 826_245 * 1_448];
        let reported = 73_308 * 1_448;
        let found = parts(&near, reported, 1_448);
        assert_eq!(found.iter().sum::<u64>(), reported);
        assert!(found.iter().zip(near).all(|(part, near)| *part <= near && *part > 0), "{found:?}");
        for (near, reported, unit, wanted) in [
            (vec![30, 30], 60, 1, vec![30, 30]),
            (vec![30, 30, 30], 89, 1, vec![29, 30, 30]),
            (vec![0, 0], 0, 7, vec![0, 0]),
            (vec![0, 100], 50, 10, vec![0, 50]),
            (
                vec![u64::MAX / 2, u64::MAX / 2],
                u64::MAX / 2,
                1,
                vec![u64::MAX / 4, u64::MAX / 4 + 1],
            ),
        ] {
            let found = parts(&near, reported, unit);
            assert_eq!(
                found.iter().sum::<u64>(),
                wanted.iter().sum::<u64>(),
                "{near:?} {reported}"
            );
            assert!(found.iter().zip(&near).all(|(part, near)| part <= near), "{found:?}");
        }
    }
}
