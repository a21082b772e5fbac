//! What a server would say of a test that it served.

use linerate_model::plan::{Dialect, Direction, TrafficKind};
use linerate_model::served::{Outcome, ServedResult, ServedTest};

/// A UDP test of linerate's own protocol, from this port.
pub fn test(port: usize) -> ServedTest {
    ServedTest {
        id: None,
        peer: format!("192.0.2.7:{port}"),
        key: None,
        dialect: Dialect::Native,
        kind: TrafficKind::Udp,
        direction: Direction::Forward,
        streams: 1,
        asked_bps: None,
        asked_per_second: None,
    }
}

/// Done, without figures.
pub fn done() -> ServedResult {
    ServedResult {
        outcome: Outcome::Done,
        why: None,
        seconds: None,
        received: None,
        sent: None,
        answered: None,
    }
}
