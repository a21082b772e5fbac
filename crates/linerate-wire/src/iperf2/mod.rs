//! iperf 2's protocol, as its releases 2.0.13 to 2.2 speak it by their sources; 2.1.8 and 2.2.1 are run. Another program than iperf3; the two do not
//! understand each other.
//!
//! There is no control connection: what a test is, its first bytes say ([`Header`]), over TCP at the start of
//! each stream and over UDP in each datagram, behind its number ([`datagram`]). A UDP test ends with a datagram
//! of a negative number, which a receiver answers with its totals ([`Report`]); a TCP test ends with its
//! connection, and nobody reports. All numbers are in network byte order.

mod ack;
pub mod datagram;
mod header;
mod report;

pub use ack::{ACK_BYTES, Ack};
pub use header::{Amount, Back, HEADER_BYTES, Header, Unfit};
pub use report::{REPORT_BYTES, Report};

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

#[cfg(test)]
mod tests;
