//! The header at the start of every UDP datagram, 32 bytes, network byte order:
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

/// Bytes of the header, and so the least datagram.
pub const HEADER_BYTES: usize = 32;
/// Most datagrams in one train: the kernel's `UDP_MAX_SEGMENTS` (net/udp.h, 128 since Linux 6.9).
pub const MAX_TRAIN: usize = 128;

const _: () = assert!(HEADER_BYTES as u64 == linerate_model::limits::DATAGRAM_BYTES.min);

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

/// The bit of a warm-up, and one step of the position, in [`Place`]'s 32 bits.
const WARMUP: u32 = 0x8000;
const POSITION: u32 = 0x100;

impl Place {
    #[inline]
    fn bits(self) -> u32 {
        u32::from(self.stream) << 16
            | if self.warmup { WARMUP } else { 0 }
            | u32::from(self.position & 0x7f) << 8
            | u32::from(self.train.get() - 1)
    }

    #[inline]
    fn from_bits(bits: u32) -> Self {
        Self {
            stream: (bits >> 16) as u16,
            warmup: bits & WARMUP != 0,
            position: (bits >> 8) as u8 & 0x7f,
            train: NonZeroU8::MIN.saturating_add(bits as u8),
        }
    }
}

/// 32 bits over the header's fields: one 64 x 64 bit multiplication, folded. Finds damage, not
/// forgery; forgers do not know the token.
#[inline]
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
        let Some(header) = datagram.first_chunk_mut::<HEADER_BYTES>() else { return };
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

    /// Reads a header. `None` when there are fewer than 32 bytes or the check fails.
    #[inline]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let header = datagram.first_chunk::<HEADER_BYTES>()?;
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

/// What all datagrams of one call share. The hot path of a sender: one multiplication and four
/// stores a datagram, nothing of the constant fields is worked out again.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// The test.
    pub token: u64,
    /// Sender's monotonic clock in nanoseconds, read before the call.
    pub sent_ns: u64,
    /// Stream, counted from 0 over both directions.
    pub stream: u16,
    /// Belongs to the warm-up.
    pub warmup: bool,
}

impl Stamp {
    /// Writes headers over datagrams of `bytes` each, numbered from `first`, that go out as trains
    /// of `train` (1 to 128), the last train and the last datagram maybe shorter.
    #[inline]
    pub fn write(&self, bytes: &mut [u8], size: usize, first: u64, train: usize) {
        let size = size.max(1);
        let train = train.clamp(1, MAX_TRAIN);
        let (token, sent) = (self.token.to_be_bytes(), self.sent_ns.to_be_bytes());
        let mut number = first;
        for whole in bytes.chunks_mut(size * train) {
            let length = NonZeroU8::new(whole.len().div_ceil(size) as u8);
            let mut place = Place {
                stream: self.stream,
                warmup: self.warmup,
                position: 0,
                train: length.unwrap_or(NonZeroU8::MIN),
            }
            .bits();
            for datagram in whole.chunks_mut(size) {
                if let Some(header) = datagram.first_chunk_mut::<HEADER_BYTES>() {
                    let sum = check(self.token, number, self.sent_ns, place);
                    let tail = u64::from(place) << 32 | u64::from(sum);
                    let (words, _) = header.as_chunks_mut::<8>();
                    if let [a, b, c, d] = words {
                        (*a, *b, *c, *d) = (token, number.to_be_bytes(), sent, tail.to_be_bytes());
                    }
                }
                number = number.wrapping_add(1);
                // After the last slot it may pass its bits; nobody reads it then.
                place = place.wrapping_add(POSITION);
            }
        }
    }
}

/// How many datagrams at the start of a message of datagrams of `segment` bytes each (the last may
/// be shorter) are whole, of this test, measured and numbered one after the other from `first`. The
/// hot path of a receiver; whatever is not counted here needs a closer look.
#[inline]
pub fn in_order(message: &[u8], segment: usize, token: u64, first: u64) -> usize {
    let mut number = first;
    message
        .chunks(segment.max(1))
        .take_while(|datagram| {
            let Some(header) = datagram.first_chunk::<HEADER_BYTES>() else { return false };
            let ([a, b, c, d], _) = header.as_chunks::<8>() else { return false };
            let sent_ns = u64::from_be_bytes(*c);
            let tail = u64::from_be_bytes(*d);
            let place = (tail >> 32) as u32;
            let same = (u64::from_be_bytes(*a) ^ token) | (u64::from_be_bytes(*b) ^ number);
            // One branch for all: damage is rare, and so is everything else that ends a run.
            let odd = same
                | u64::from(check(token, number, sent_ns, place) ^ tail as u32)
                | u64::from(place & WARMUP);
            number = number.wrapping_add(1);
            odd == 0
        })
        .count()
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
        fn a_stamped_buffer_holds_what_single_headers_would(
            token: u64, first: u64, sent_ns: u64, stream: u16, warmup: bool,
            size in 32usize..200, count in 1usize..300, train in 1usize..=128,
        ) {
            let mut bytes = vec![7u8; size * count];
            Stamp { token, sent_ns, stream, warmup }.write(&mut bytes, size, first, train);
            for (i, datagram) in bytes.chunks(size).enumerate() {
                let length = train.min(count - i / train * train) as u8;
                let place = Place {
                    stream, warmup, position: (i % train) as u8, train: NonZeroU8::new(length).unwrap(),
                };
                let number = first.wrapping_add(i as u64);
                prop_assert_eq!(Header::read(datagram), Some(Header { token, number, sent_ns, place }));
                prop_assert!(datagram[32..].iter().all(|b| *b == 7));
            }
            let whole = if warmup { 0 } else { count };
            prop_assert_eq!(in_order(&bytes, size, token, first), whole);
        }

        #[test]
        fn a_run_ends_before_the_first_odd_datagram(
            count in 1usize..130, at in 0usize..130, flip in 0usize..256, cut in 0usize..40,
        ) {
            let size = 40;
            let mut bytes = vec![0u8; size * count];
            Stamp { token: 5, sent_ns: 6, stream: 7, warmup: false }.write(&mut bytes, size, 8, 128);
            bytes.truncate(bytes.len() - cut);
            let whole = if size - cut < HEADER_BYTES { count - 1 } else { count };
            prop_assert_eq!(in_order(&bytes, size, 5, 8), whole);
            prop_assert_eq!(in_order(&bytes, size, 4, 8), 0);
            prop_assert_eq!(in_order(&bytes, size, 5, 9), 0);
            let at = at % count;
            if let Some(byte) = bytes.get_mut(at * size + flip / 8) {
                *byte ^= 1 << (flip % 8);
                prop_assert_eq!(in_order(&bytes, size, 5, 8), at.min(whole));
            }
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
