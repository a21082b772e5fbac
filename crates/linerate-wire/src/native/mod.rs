//! linerate's own protocol, version 1.
//!
//! One TCP control connection a test: [`PREAMBLE`], then length-prefixed JSON [`frame`]s holding
//! [`message`]s. Data streams go to the same port number: TCP connections that open with a
//! [`stream::TcpOpening`], or UDP flows that open with a [`stream::UdpHello`] and then carry
//! [`datagram`]s. `docs/protocol.md` has the sequence.

pub mod agent;
pub mod auth;
pub mod datagram;
pub mod frame;
pub mod message;
pub mod order;
pub mod stream;

/// First bytes of a control connection. The first is no ASCII, so no text protocol (an iperf3
/// cookie is lower-case base32) can be mistaken for it.
pub const PREAMBLE: [u8; 8] = *b"\x89LNRATE\n";

/// Versions of the protocol that this program speaks.
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=1;

/// What this program can do beyond version 1's base. A peer that lacks one of them makes the
/// result poorer, and the record says so.
pub const FEATURES: &[&str] = &["clock-exchange", "host-samples", "train-position"];
