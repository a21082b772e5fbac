//! iperf3's protocol, as its releases 3.1 to 3.21 and the development source of July 2026 speak it.
//!
//! One TCP control connection a test: a [`Cookie`], then single [`State`] bytes and
//! length-prefixed JSON ([`frame`]) with [`Parameters`] and [`Results`]. Data streams go to the same
//! port: TCP connections that open with the same cookie, or UDP flows that open with four bytes
//! ([`hello`]) and then carry [`datagram`]s. Nothing says which version a peer has; every tolerance
//! here is one that some release needs. `docs/iperf3.md` has the sequence.

mod cookie;
pub mod datagram;
mod failure;
pub mod frame;
pub mod hello;
mod json;
mod parameters;
mod results;
mod state;
mod token;

pub use cookie::{COOKIE_BYTES, Cookie};
pub use failure::{ErrorNumber, FAILURE_BYTES, Failure};
pub use parameters::{MOST_TEXT, Parameters, Protocol, Unfit};
pub use results::{Results, StreamResults};
pub use state::State;
pub use token::Token;

/// The TCP and UDP port that both tools listen on by default.
pub const PORT: u16 = 5201;

/// Number of the stream that was created as the `index`-th: 1, 3, 4, 5 … (2 is left out, and every
/// release keeps to it).
pub const fn stream_id(index: u16) -> u32 {
    if index == 0 { 1 } else { index as u32 + 2 }
}

/// The reverse of [`stream_id`]; `None` for numbers that no stream has.
pub fn stream_index(id: u32) -> Option<u16> {
    match id {
        1 => Some(0),
        0 | 2 => None,
        _ => u16::try_from(id - 2).ok(),
    }
}

#[cfg(test)]
mod captured;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_numbers_leave_out_two() {
        let ids: Vec<u32> = (0..5).map(stream_id).collect();
        assert_eq!(ids, [1, 3, 4, 5, 6]);
        for index in 0..300 {
            assert_eq!(stream_index(stream_id(index)), Some(index));
        }
        for none in [0, 2, u32::MAX] {
            assert_eq!(stream_index(none), None);
        }
    }
}
