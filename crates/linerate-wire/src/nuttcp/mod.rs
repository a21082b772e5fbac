//! nuttcp's protocol, releases 6 to 8: lines of text on a TCP connection, datagrams of four bytes around
//! those of data.
//!
//! The client says [`greeting::HELLO`], the server answers with its own, the client sends one line of
//! [`Parameters`], the server says [`greeting::OK`] when its data ports wait, or [`greeting::refusal`]. After
//! the data the server writes [`results`] and closes.

pub mod block;
#[cfg(test)]
mod captured;
pub mod datagram;
pub mod greeting;
pub mod heard;
pub mod parameters;
pub mod results;

pub use parameters::{Parameters, Unfit};

/// The release whose protocol is spoken here: each side sends what the other's release knows.
pub const VERSION: &str = "8.2.2";

/// Most bytes of a line that is read: the longest of 8.2.2 with names of full length has some 900.
pub const MAX_LINE: usize = 4_096;
