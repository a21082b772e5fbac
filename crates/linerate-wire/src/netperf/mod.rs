//! netperf's control protocol, as its releases 2.6 and 2.7 speak it.
//!
//! One TCP control connection for any number of tests, one after another: each a [`Request`] of the
//! client's, a [`Response`] with the port for the data connection, and [`Results`] when the data is
//! over. All are [`Frame`]s of one length. What the data connection carries has no marks at all.

mod frame;
mod request;
mod response;
mod results;

pub use frame::{FRAME_BYTES, Frame, Kind};
pub use request::{Ask, Request, Unfit, ask};
pub use response::Response;
pub use results::{CpuShare, Results};

/// How long a test lasts, or how much of it there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Seconds of sending; 0 is until the client ends it.
    Seconds(u32),
    /// Bytes of a stream, or transactions.
    Units(u32),
}

/// Both programs give a receiver so much longer than the test's time, in nanoseconds.
pub const PAD_NS: u64 = 4_000_000_000;

/// Datagrams without a byte that say that a sender is done; any of them may be lost.
pub const END_MARKS: u8 = 3;

/// `serv_errno` of a message that the server does not know.
pub const UNKNOWN_TEST: u32 = 998;

#[cfg(test)]
mod captured;
