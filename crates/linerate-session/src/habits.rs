//! What dialects do differently, as facts: neither a data thread nor the record's assembly asks which dialect
//! it serves.

use linerate_model::plan::{TestPlan, Traffic};
use linerate_wire::iperf3::hello;
use linerate_wire::native::stream::{UdpHello, UdpHelloAck};
use linerate_wire::{netperf, nuttcp};

/// What blocks of bytes over TCP say of their sender's connection, at their beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockReport {
    /// Nothing.
    Nothing,
    /// Segments that were sent again.
    Retransmits,
    /// These, and the congestion window.
    Window,
    /// When each was written, by a wall clock (iperf 2's `--trip-times`).
    Times(BlockTimes),
}

/// Of streams whose blocks say when they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTimes {
    /// Bytes that come before the first block.
    pub header: u32,
    /// When the stream began, by this end's wall clock in nanoseconds.
    pub began_ns: u64,
    /// This end's wall clock less its monotonic one, in nanoseconds.
    pub ahead_ns: u64,
}

/// Of one dialect.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// The warm-up ends by time alone, for all streams at once. Its users see it, and numbers of datagrams go
    /// on after it. Otherwise each datagram says that it belongs to the warm-up, or the stream's first byte
    /// begins it, and nothing of it is shown.
    pub warm_by_time: bool,
    /// The measured time begins with the start of the test, and not with the first arrival.
    pub measured_from_start: bool,
    /// Data may come in the moment in which the start is known: whoever waits looks twice a millisecond.
    pub prompt: bool,
    /// Only the client says when a test ends, and may be late with it: a server's senders go on meanwhile.
    pub client_ends: bool,
    /// TCP is counted, filled and paced block by block.
    pub whole_blocks: bool,
    /// TCP connections outlive the data: what ends a stream is a word, not that it closes.
    pub streams_outlive: bool,
    /// A sender of datagrams says with so many empty ones, of which any may be lost, that it is done, and
    /// the first of them ends its receiver. 0: what ends a receiver is a word.
    pub end_marks: u8,
    /// Whether a datagram belongs to the opening of streams and not to the test.
    pub opens: fn(&[u8]) -> bool,
    /// Datagrams carry numbers, so that receivers see which are lost, doubled or out of order. Otherwise what
    /// is lost is what was sent less what was received, and copies hide it.
    pub numbered: bool,
    /// A receiver knows how large the datagrams are. Otherwise its plan has the largest that can be.
    pub sized: bool,
    /// Datagrams after the last one of data carry the last words of a stream, so that its socket outlives its
    /// thread.
    pub streams_speak: bool,
    /// The peer reports a few totals: no intervals, nothing of its host, nothing that depends on the order
    /// of datagrams.
    pub brief: bool,
    /// Over UDP an answer begins with the first bytes of its request, which name it. Otherwise answers are
    /// taken for those of the oldest requests.
    pub echoes: bool,
    /// The plan says how many requests a client has under way. Otherwise an answering end cannot know.
    pub tells_flight: bool,
    /// What a sender over TCP says in its blocks, and its receiver reads.
    pub block_report: BlockReport,
    /// Over TCP both ends count from the first byte to the last, warm-up included.
    pub exact_bytes: bool,
    /// What its protocol cannot carry of this test, in a sentence.
    pub missing: fn(&TestPlan) -> Option<String>,
}

/// linerate's own.
pub const NATIVE: Habits = Habits {
    warm_by_time: false,
    measured_from_start: false,
    prompt: false,
    client_ends: false,
    whole_blocks: false,
    streams_outlive: false,
    end_marks: 0,
    opens: opens_native,
    numbered: true,
    sized: true,
    streams_speak: false,
    brief: false,
    echoes: true,
    tells_flight: true,
    block_report: BlockReport::Nothing,
    exact_bytes: true,
    missing: |_| None,
};

/// iperf3's.
pub const IPERF3: Habits = Habits {
    warm_by_time: true,
    measured_from_start: true,
    prompt: true,
    client_ends: true,
    whole_blocks: true,
    streams_outlive: true,
    end_marks: 0,
    opens: opens_iperf3,
    numbered: true,
    sized: true,
    streams_speak: false,
    brief: true,
    echoes: true,
    tells_flight: true,
    block_report: BlockReport::Nothing,
    exact_bytes: false,
    missing: |plan| Some(missing_in_iperf3(plan)),
};

/// iperf 2's.
pub const IPERF2: Habits = Habits {
    warm_by_time: true,
    prompt: true,
    client_ends: true,
    opens: |_| false,
    streams_speak: true,
    brief: true,
    missing: |plan| Some(missing_in_iperf2(plan, " and delay")),
    ..NATIVE
};

/// The same; with `times` of a test with `--trip-times`, whose blocks leave whole: what a sender held back of one would be
/// delay of the path.
pub fn iperf2(times: Option<BlockTimes>) -> Habits {
    let Some(times) = times else { return IPERF2 };
    Habits {
        whole_blocks: true,
        block_report: BlockReport::Times(times),
        missing: |plan| Some(missing_in_iperf2(plan, "")),
        ..IPERF2
    }
}

/// netperf's.
pub const NETPERF: Habits = Habits {
    prompt: true,
    end_marks: netperf::END_MARKS,
    opens: |_| false,
    numbered: false,
    sized: false,
    brief: true,
    echoes: false,
    tells_flight: false,
    // Its servers leave out a call that was cut short.
    exact_bytes: false,
    missing: |plan| Some(missing_in_netperf(plan)),
    ..NATIVE
};

/// nuttcp's, of a test whose datagrams carry numbers.
pub const NUTTCP: Habits = Habits {
    warm_by_time: true,
    prompt: true,
    opens: nuttcp::datagram::is_begin,
    streams_speak: true,
    brief: true,
    // Its totals have four decimals of a megabyte.
    exact_bytes: false,
    missing: |plan| Some(missing_in_nuttcp(plan)),
    ..NATIVE
};

/// First byte of a hello and of its answer. No header begins so: a token's highest bit is clear.
const HELLO_FIRST_BYTE: u8 = 0x89;

/// The stream's own hello again, which is to be answered, an answer that came late, or another client's
/// hello that was on its way when this socket was bound.
fn opens_native(datagram: &[u8]) -> bool {
    datagram.first() == Some(&HELLO_FIRST_BYTE)
        && (UdpHelloAck::decode(datagram).is_some() || UdpHello::decode(datagram).is_some())
}

/// iperf3's hello and its answer are fewer bytes than any of its headers.
fn opens_iperf3(datagram: &[u8]) -> bool {
    datagram.len() == hello::HELLO_BYTES
}

fn missing_in_iperf3(plan: &TestPlan) -> String {
    let mut missing = vec!["its intervals", "its host"];
    let udp = matches!(plan.traffic, Traffic::Udp(_));
    if udp && plan.direction.has_forward() {
        missing.push("where datagrams were lost");
        missing.push("reordered, late and damaged datagrams");
        missing.push("delay");
    }
    let mut text = format!(
        "the server speaks iperf3's protocol, which does not report {}",
        missing.join(", ")
    );
    if udp && plan.direction.has_forward() {
        text.push_str("; its receiver counts duplicates as arrivals, so they hide loss");
    }
    if plan.warmup.0 > 0 {
        text.push_str("; the border between warm-up and measured time is each end's own");
    }
    text
}

fn missing_in_iperf2(plan: &TestPlan, delay: &str) -> String {
    let what = match (&plan.traffic, plan.direction.has_forward()) {
        (Traffic::Udp(_), true) => format!(
            "does not report its intervals, its host, where datagrams were lost, reordered and damaged \
             datagrams{delay}; it takes copies for datagrams that came late, so that they hide loss"
        ),
        (Traffic::Udp(_), false) => {
            "does not report its intervals, its host and what it could not send".into()
        }
        _ => "reports nothing of what it sends or receives over TCP".to_owned(),
    };
    format!("the server speaks iperf 2's protocol and {what}")
}

fn missing_in_nuttcp(plan: &TestPlan) -> String {
    let mut text = "the server speaks nuttcp's protocol, which does not report its host".to_owned();
    if let Traffic::Udp(udp) = &plan.traffic {
        text.push_str(if plan.direction.has_forward() {
            ", where datagrams were lost, doubled, reordered and damaged ones and delay; copies hide loss"
        } else {
            " and when datagrams were sent"
        });
        let size = u64::from(udp.size.bytes());
        if size < nuttcp::heard::ROUNDED_BYTES {
            text.push_str(
                "; its totals are rounded to 105 bytes, so that a few datagrams may be miscounted",
            );
        }
        if size < nuttcp::datagram::SENT_BYTES as u64 {
            text.push_str("; these datagrams carry no numbers, so that copies hide loss");
        }
    } else {
        text.push_str("; its totals are rounded to 105 bytes");
    }
    if plan.streams > 1 {
        text.push_str("; it reports all streams together, of which each has its share here");
    }
    text
}

fn missing_in_netperf(plan: &TestPlan) -> String {
    let mut missing = vec!["its intervals", "its host"];
    if matches!(plan.traffic, Traffic::Udp(_)) {
        missing.push("where datagrams were lost");
        missing.push("doubled, reordered and damaged datagrams");
        missing.push("delay");
    }
    let mut text = format!(
        "the server speaks netperf's protocol, which does not report {}",
        missing.join(", ")
    );
    if matches!(plan.traffic, Traffic::Udp(_)) {
        text.push_str("; datagrams carry no numbers, so doubled ones hide loss");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Their conversations begin at once or 2 ms later, and what a sender sleeps into its time is missing from its rate.
    #[test]
    fn who_begins_without_a_head_start_is_awake_for_it() {
        let times = BlockTimes { header: 0, began_ns: 0, ahead_ns: 0 };
        for habits in [IPERF3, IPERF2, iperf2(Some(times)), NETPERF, NUTTCP] {
            assert!(habits.prompt, "{habits:?}");
        }
    }
}
