//! iperf 2's protocol, as its releases 2.0.13 to 2.2 speak it by their sources; 2.1.8 and 2.2.1 are run. Another program than iperf3; the two do not
//! understand each other.
//!
//! There is no control connection: what a test is, its first bytes say ([`Header`]), over TCP at the start of
//! each stream and over UDP in each datagram, behind its number ([`datagram`]). A UDP test ends with a datagram
//! of a negative number, which a receiver answers with its totals ([`Report`]); a TCP test ends with its
//! connection, and nobody reports. All numbers are in network byte order.

mod ack;
pub mod burst;
pub mod datagram;
mod header;
mod report;

pub use ack::{ACK_BYTES, Ack, MOST_ACK_BYTES};
pub use header::{Amount, Back, HEADER_BYTES, Header, TIMED_HEADER_BYTES, Unfit};
pub use report::{Delays, MOST_NS, REPORT_BYTES, Report};

/// The word of so many bytes at an offset of `bytes`.
fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// The same, to be written; does nothing where there is no room.
fn put(bytes: &mut [u8], offset: usize, word: u32) {
    if let Some(place) = bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
        *place = word.to_be_bytes();
    }
}

/// A wall clock at an offset of `bytes`, in nanoseconds: seconds and microseconds. `None` where these are no part of a
/// second.
fn clock(bytes: &[u8], offset: usize) -> Option<u64> {
    let (seconds, micros) = (word(bytes, offset)?, word(bytes, offset.checked_add(4)?)?);
    (micros < 1_000_000).then(|| u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1_000)
}

/// The same, to be written: 32 bits of the seconds.
fn put_clock(bytes: &mut [u8], offset: usize, ns: u64) {
    put(bytes, offset, (ns / 1_000_000_000) as u32);
    put(bytes, offset.saturating_add(4), (ns % 1_000_000_000 / 1_000) as u32);
}

#[cfg(test)]
mod tests;
