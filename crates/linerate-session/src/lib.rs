//! One test as a state machine without I/O: pacing, accounting and the judgement of what limited it.
//!
//! Nothing here reads a clock or opens a socket; time comes in as a value. The runner joins these
//! parts to sockets and threads, the tests to a made-up clock and a simulated link.
//!
//! ```
//! use linerate_session::pacer::{Pace, Pacer};
//!
//! // 8 Mbit/s in datagrams of 1,000 bytes: one a millisecond.
//! let mut pacer = Pacer::new(8_000_000, 8_000, 0, 1, 1, 100_000).expect("a rate");
//! assert_eq!(pacer.next(0), Pace::Send { datagrams: 1, due_ns: 0 });
//! pacer.taken(1, 0);
//! assert_eq!(pacer.next(20), Pace::WaitUntil(1_000_000));
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

pub mod assemble;
pub mod clock;
pub mod engine_choice;
pub mod flow;
pub mod habits;
pub mod observer;
pub mod pacer;
pub mod receive_batching;
pub mod receiver;
pub mod sender;
pub mod verdict;

use linerate_model::sample::ThreadUse;

/// What the pure parts must ask of their surroundings, a few times an interval and never in the hot
/// path.
pub trait Surroundings {
    /// The start of the receivers' measured time: the first arrival on any stream of this
    /// direction. Given this stream's first arrival; the earliest one decides, which may be read later: asked again with
    /// the same before the first interval is over.
    fn origin(&self, first_arrival_ns: u64) -> u64;
    /// CPU time of the data thread since it began, and its core.
    fn thread(&self) -> ThreadUse;
}

/// Surroundings of a stream alone, whose thread nobody looks at.
#[cfg(test)]
pub(crate) struct Quiet;

#[cfg(test)]
impl Surroundings for Quiet {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        first_arrival_ns
    }

    fn thread(&self) -> ThreadUse {
        ThreadUse::default()
    }
}
