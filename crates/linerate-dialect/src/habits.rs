//! The dialects' rows of facts.

use linerate_session::assemble::Outcome;
pub use linerate_session::habits::Habits;
use linerate_wire::iperf3::hello;
use linerate_wire::native::stream::{UdpHello, UdpHelloAck};

/// linerate's own.
pub const NATIVE: Habits = Habits {
    warm_by_time: false,
    measured_from_start: false,
    prompt: false,
    client_ends: false,
    whole_blocks: false,
    streams_outlive: false,
    opens: opens_native,
    numbered: true,
    brief: false,
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
    opens: opens_iperf3,
    numbered: true,
    brief: true,
    exact_bytes: false,
    missing: |outcome| Some(missing_in_iperf3(outcome)),
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

fn missing_in_iperf3(outcome: &Outcome) -> String {
    let mut missing = vec!["its intervals", "its host"];
    let udp = outcome.is_udp();
    if udp && outcome.plan.direction.has_forward() {
        missing.push("where datagrams were lost");
        missing.push("reordered, late and damaged datagrams");
        missing.push("delay");
    }
    let mut text =
        format!("the server speaks iperf3's protocol, which does not tell {}", missing.join(", "));
    if udp && outcome.plan.direction.has_forward() {
        text.push_str("; its receiver counts duplicates as arrivals, so they hide loss");
    }
    if outcome.plan.warmup.0 > 0 {
        text.push_str("; the border between warm-up and measured time is each end's own");
    }
    text
}
