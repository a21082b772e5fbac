//! The header at the start of every UDP datagram, 32 octets, network byte order:
//!
//! ```text
//!  0       8        16       24        26           27          28      32
//!  │ token │ number │ sent   │ stream  │ W position │ train - 1 │ check │ payload …
//! ```
//!
//! *token*: the test's, known to both ends only. *number*: 64-bit sequence number within the
//! stream. *sent*: the sender's monotonic clock in nanoseconds, read once before the call that
//! carried the datagram. *W*: warm-up, to be counted apart. *position* and *train*: where in a train
//! handed to the kernel as one buffer this datagram stands, so that a receiver knows whether trains
//! arrive whole. *check*: 32 bits over all of these; the payload is covered by UDP's own checksum
//! only.

use std::num::NonZeroU8;

/// Octets of the header, and so the least datagram.
pub const HEADER_OCTETS: usize = 32;
/// Most datagrams in one train: the kernel's `UDP_MAX_SEGMENTS` (net/udp.h, 128 since Linux 6.9).
pub const MAX_TRAIN: usize = 128;

const _: () = assert!(HEADER_OCTETS as u64 == linerate_model::limits::DATAGRAM_OCTETS.min);

/// What a datagram says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The test.
    pub token: u64,
    /// Sequence number.
    pub number: u64,
    /// Sender's monotonic clock in nanoseconds, read before the call that carried the datagram.
    pub sent_ns: u64,
    /// Everything else.
    pub place: Place,
}

/// Stream, phase and position in the train: constant for a slot of the sender's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Stream, counted from 0 over both directions.
    pub stream: u16,
    /// Belongs to the warm-up.
    pub warmup: bool,
    /// Position in its train, from 0 to 127.
    pub position: u8,
    /// Datagrams in its train.
    pub train: NonZeroU8,
}

impl Place {
    fn bits(self) -> u32 {
        u32::from(self.stream) << 16
            | u32::from(self.warmup) << 15
            | u32::from(self.position & 0x7f) << 8
            | u32::from(self.train.get() - 1)
    }

    fn from_bits(bits: u32) -> Self {
        Self {
            stream: (bits >> 16) as u16,
            warmup: bits & 0x8000 != 0,
            position: (bits >> 8) as u8 & 0x7f,
            train: NonZeroU8::MIN.saturating_add(bits as u8),
        }
    }
}

/// 32 bits over the header's fields: one 64 x 64 bit multiplication, folded. Finds damage, not
/// forgery; forgers do not know the token.
fn check(token: u64, number: u64, sent_ns: u64, place: u32) -> u32 {
    // Odd constants with even bit density: the golden ratio and the square root of two, as in
    // splitmix and SHA-2; they keep small numbers from making a factor zero.
    let left = (number ^ token).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let right = (sent_ns ^ (u64::from(place) << 32 | u64::from(place)))
        .wrapping_add(0x6a09_e667_f3bc_c909 ^ token.rotate_left(32));
    let product = u128::from(left) * u128::from(right);
    let folded = (product >> 64) as u64 ^ product as u64;
    (folded >> 32) as u32 ^ folded as u32
}

impl Header {
    /// Writes the header over the start of `datagram`; does nothing if there is no room.
    #[inline]
    pub fn write(&self, datagram: &mut [u8]) {
        let Some(header) = datagram.first_chunk_mut::<HEADER_OCTETS>() else { return };
        let place = self.place.bits();
        let (token, rest) = header.split_at_mut(8);
        let (number, rest) = rest.split_at_mut(8);
        let (sent, rest) = rest.split_at_mut(8);
        let (places, checks) = rest.split_at_mut(4);
        token.copy_from_slice(&self.token.to_be_bytes());
        number.copy_from_slice(&self.number.to_be_bytes());
        sent.copy_from_slice(&self.sent_ns.to_be_bytes());
        places.copy_from_slice(&place.to_be_bytes());
        checks.copy_from_slice(&check(self.token, self.number, self.sent_ns, place).to_be_bytes());
    }

    /// Reads a header. `None` when there are fewer than 32 octets or the check fails.
    #[inline]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let header = datagram.first_chunk::<HEADER_OCTETS>()?;
        let word = |range: &[u8]| range.first_chunk::<8>().map(|b| u64::from_be_bytes(*b));
        let (token, rest) = header.split_at(8);
        let (number, rest) = rest.split_at(8);
        let (sent, rest) = rest.split_at(8);
        let (token, number, sent_ns) = (word(token)?, word(number)?, word(sent)?);
        let tail = u64::from_be_bytes(*rest.first_chunk::<8>()?);
        let place = (tail >> 32) as u32;
        (check(token, number, sent_ns, place) == tail as u32).then(|| Self {
            token,
            number,
            sent_ns,
            place: Place::from_bits(place),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(token: u64, number: u64, sent_ns: u64, bits: u32) -> Header {
        Header { token, number, sent_ns, place: Place::from_bits(bits & !0x80) }
    }

    #[test]
    fn the_layout_is_fixed() {
        let place =
            Place { stream: 0x0102, warmup: true, position: 3, train: NonZeroU8::new(45).unwrap() };
        let mut bytes = [0u8; 32];
        Header { token: 1, number: 2, sent_ns: 3, place }.write(&mut bytes);
        assert_eq!(
            bytes[..28],
            [
                0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, //
                1, 2, 0x83, 44
            ]
        );
        // Changing the check would break every older peer.
        assert_eq!(bytes[28..], check(1, 2, 3, 0x0102_832c).to_be_bytes());
        assert_eq!(check(1, 2, 3, 0x0102_832c), GOLDEN_CHECK);
    }

    const GOLDEN_CHECK: u32 = 1_222_929_601;

    proptest! {
        #[test]
        fn what_is_written_is_read(token: u64, number: u64, sent: u64, bits: u32) {
            let h = header(token, number, sent, bits);
            let mut bytes = [7u8; 64];
            h.write(&mut bytes);
            prop_assert_eq!(Header::read(&bytes), Some(h));
            prop_assert!(bytes[32..].iter().all(|b| *b == 7));
        }

        #[test]
        fn one_flipped_bit_is_found(token: u64, number: u64, sent: u64, bits: u32, flip in 0usize..256) {
            let mut bytes = [0u8; 32];
            header(token, number, sent, bits).write(&mut bytes);
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(Header::read(&bytes), None);
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Header::read(&bytes);
        }
    }
}
