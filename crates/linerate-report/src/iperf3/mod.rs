//! Tests as iperf3 shows them: its text column for column, its JSON key for key, as release 3.12
//! prints them, so that scripts and programs that read iperf3's output read this.
//!
//! Made from what the runner reports ([`linerate_model::test_event`]). Every field keeps iperf3's meaning, also
//! where that hides something: duplicates cancel losses, and what a receiver did not see of the end is
//! not lost. linerate's own, exact figures stand beside them in the JSON document's `linerate`.

mod json;
mod node;
mod number;
mod text;

pub use json::Document;
pub use number::Format;
pub use text::Text;

use linerate_model::plan::{Direction, Transport};
use linerate_model::sample::{RecvCounts, SendReport};
use linerate_model::test_event::{End, Row, Rows, Side, Start, StreamEnd};

/// The release whose output this is.
pub const RELEASE: &str = "3.12";

/// What the user asked of the output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// As given with `-c`.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// `-V`.
    pub verbose: bool,
    /// `-f`.
    pub format: Format,
    /// First line of `--version`.
    pub version: String,
    /// Fields of uname(2).
    pub system: String,
}

/// One direction's streams of a test, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    reverse: bool,
    /// This end sends them.
    sends: bool,
}

/// Forward first, as iperf3 creates them.
fn groups(start: &Start) -> Vec<Group> {
    let group = |reverse| Group { reverse, sends: start.client != reverse };
    match start.asked.direction {
        Direction::Forward => vec![group(false)],
        Direction::Reverse => vec![group(true)],
        Direction::Both => vec![group(false), group(true)],
    }
}

fn is_bidir(start: &Start) -> bool {
    start.asked.direction == Direction::Both
}

fn is_udp(start: &Start) -> bool {
    start.asked.transport == Transport::Udp
}

/// One interval of one stream, or of several added up, in iperf3's terms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Figures {
    bytes: u64,
    /// Segments sent again: TCP senders whose kernel reports them.
    retransmits: Option<u64>,
    cwnd_bytes: u64,
    rtt_us: u64,
    rtt_variation_us: u64,
    pmtu_bytes: u64,
    packets: u64,
    lost: u64,
    jitter_s: f64,
}

/// iperf3's rule: every arrival out of order, a duplicate too, takes back one loss.
fn lost(counts: &RecvCounts) -> u64 {
    counts.lost.saturating_sub(counts.duplicates)
}

impl Figures {
    fn of(row: &Row) -> Self {
        match row {
            Row::Send(row) => {
                let tcp = row.tcp.unwrap_or_default();
                Self {
                    bytes: row.counts.bytes,
                    retransmits: tcp.retransmits,
                    cwnd_bytes: tcp.cwnd_bytes.unwrap_or(0),
                    rtt_us: tcp.rtt_ns.unwrap_or(0) / 1_000,
                    rtt_variation_us: tcp.rtt_variation_ns.unwrap_or(0) / 1_000,
                    pmtu_bytes: tcp.pmtu_bytes.unwrap_or(0),
                    packets: row.counts.datagrams,
                    ..Self::default()
                }
            }
            Row::Recv(row) => Self {
                bytes: row.counts.bytes,
                packets: row.counts.expected,
                lost: lost(&row.counts),
                jitter_s: row.jitter_ns.unwrap_or(0) as f64 / 1e9,
                ..Self::default()
            },
        }
    }

    /// Several streams as one: jitter is their mean.
    fn sum(rows: &[Self]) -> Self {
        let mut sum = Self::default();
        for row in rows {
            sum.bytes = sum.bytes.saturating_add(row.bytes);
            sum.retransmits = match (sum.retransmits, row.retransmits) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            };
            sum.packets = sum.packets.saturating_add(row.packets);
            sum.lost = sum.lost.saturating_add(row.lost);
            sum.jitter_s += row.jitter_s;
        }
        sum.jitter_s /= rows.len().max(1) as f64;
        sum
    }
}

/// Figures of a group's streams in one interval.
fn of_group(start: &Start, rows: &Rows, group: Group) -> Vec<(i32, Figures)> {
    start
        .streams
        .iter()
        .zip(&rows.streams)
        .filter(|(stream, _)| stream.sends == group.sends)
        .map(|(stream, row)| (stream.socket, Figures::of(row)))
        .collect()
}

/// A stream, or several added up, over the whole test.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Final {
    socket: i32,
    sent: Half,
    received: Half,
    jitter_s: f64,
    lost: i64,
    /// Warm-up's losses cannot be distinguished: an old peer's.
    lost_unknown: bool,
    out_of_order: u64,
}

/// One end of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Half {
    known: bool,
    bytes: u64,
    seconds: f64,
    packets: u64,
    retransmits: Option<u64>,
}

impl Half {
    fn bits_per_second(&self) -> f64 {
        rate(self.bytes, self.seconds)
    }
}

/// Bit/s; 0 in no time.
fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

fn percent(part: i64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// Where a server reports nothing of its peer, as iperf3's does not.
fn finals(start: &Start, end: &End, group: Group) -> Vec<Final> {
    start
        .streams
        .iter()
        .zip(&end.streams)
        .filter(|(stream, _)| stream.sends == group.sends)
        .map(|(stream, end_of)| final_of(start, end, stream.socket, end_of))
        .collect()
}

fn final_of(start: &Start, end: &End, socket: i32, of: &StreamEnd) -> Final {
    let here_s = end.span_ns as f64 / 1e9;
    let far = of.far.filter(|_| start.client);
    let far_s = far.and_then(|far| far.seconds).unwrap_or(here_s);
    let unknown = Half { seconds: here_s, ..Half::default() };
    match &of.here {
        Side::Send(sent) => {
            let omitted = sent.warmup;
            let received = far.map_or(unknown, |far| Half {
                known: true,
                bytes: far.bytes,
                seconds: far_s,
                packets: far.packets.saturating_sub(far.omitted_packets.unwrap_or(0)),
                retransmits: None,
            });
            Final {
                socket,
                sent: Half {
                    known: true,
                    bytes: sent.counts.bytes,
                    seconds: if sent.span_ns > 0 { sent.span_ns as f64 / 1e9 } else { here_s },
                    packets: sent.counts.datagrams,
                    retransmits: sent.tcp.and_then(|tcp| tcp.retransmits),
                },
                received,
                jitter_s: far.map_or(0.0, |far| far.jitter_s),
                lost: far
                    .map_or(0, |far| far.errors.saturating_sub(far.omitted_errors.unwrap_or(0))),
                lost_unknown: omitted > 0
                    && far.is_some_and(|far| far.omitted_errors.is_none() && far.errors != 0),
                out_of_order: 0,
            }
        }
        Side::Recv(recv) => Final {
            socket,
            sent: far.map_or(unknown, |far| Half {
                known: true,
                bytes: far.bytes,
                seconds: far_s,
                packets: far
                    .packets
                    .saturating_sub(far.omitted_packets.unwrap_or(recv.warmup_expected)),
                retransmits: far.retransmits,
            }),
            received: Half {
                known: true,
                bytes: recv.counts.bytes,
                seconds: here_s,
                packets: recv.counts.expected,
                retransmits: None,
            },
            jitter_s: recv.jitter_ns.unwrap_or(0) as f64 / 1e9,
            lost: i64::try_from(lost(&recv.counts)).unwrap_or(i64::MAX),
            lost_unknown: false,
            out_of_order: recv.counts.reordered.saturating_add(recv.counts.duplicates),
        },
    }
}

fn sum_halves(halves: impl Iterator<Item = Half>) -> Half {
    let mut sum: Option<Half> = None;
    for half in halves {
        sum = Some(match sum {
            // Times are those of the first stream.
            None => half,
            Some(sum) => Half {
                known: sum.known && half.known,
                bytes: sum.bytes.saturating_add(half.bytes),
                seconds: sum.seconds,
                packets: sum.packets.saturating_add(half.packets),
                retransmits: match (sum.retransmits, half.retransmits) {
                    (Some(a), Some(b)) => Some(a.saturating_add(b)),
                    (a, b) => a.or(b),
                },
            },
        });
    }
    sum.unwrap_or_default()
}

fn sum_finals(finals: &[Final]) -> Final {
    let jitter: f64 = finals.iter().map(|f| f.jitter_s).sum();
    Final {
        socket: 0,
        sent: sum_halves(finals.iter().map(|f| f.sent)),
        received: sum_halves(finals.iter().map(|f| f.received)),
        jitter_s: jitter / finals.len().max(1) as f64,
        lost: finals.iter().fold(0, |sum, f| sum.saturating_add(f.lost)),
        lost_unknown: finals.iter().any(|f| f.lost_unknown),
        out_of_order: finals.iter().fold(0, |sum, f| sum.saturating_add(f.out_of_order)),
    }
}

/// Largest window and round trips over the intervals of a sender: `(max_cwnd, max, min, mean)`, bytes
/// and microseconds.
fn round_trips(sent: &SendReport) -> (u64, u64, u64, u64) {
    let samples = || sent.intervals.iter().filter_map(|row| row.tcp);
    let rtts: Vec<u64> = samples().filter_map(|tcp| tcp.rtt_ns).map(|ns| ns / 1_000).collect();
    let sum = rtts.iter().fold(0u64, |sum, rtt| sum.saturating_add(*rtt));
    (
        samples().filter_map(|tcp| tcp.cwnd_bytes).max().unwrap_or(0),
        rtts.iter().copied().max().unwrap_or(0),
        rtts.iter().copied().min().unwrap_or(0),
        sum / (rtts.len() as u64).max(1),
    )
}
