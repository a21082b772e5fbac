//! Datagrams. Those of four bytes or less begin and end the data, all others are data.

use std::num::NonZeroU16;

/// Bytes of what is not data, at most.
pub const CONTROL_BYTES: usize = 4;

/// The first word of a sender, on its first socket …
pub const BEGIN: [u8; 4] = *b"BOD0";
/// … and the second, a while later: data follows.
pub const BEGIN_AGAIN: [u8; 4] = *b"BOD1";

/// A sender says so often that no data follows: at once, and again after each [`END_EVERY_NS`].
pub const ENDS: u8 = 5;
/// From one word of the end to the next, in nanoseconds.
pub const END_EVERY_NS: u64 = 500_000_000;

/// Where data says how many bytes were sent so far …
const SENT_AT: usize = 24;
/// … and the least datagram that does.
pub const SENT_BYTES: usize = 32;

/// The word of the end with this number, from 0.
pub const fn end(number: u8) -> [u8; 4] {
    [b'E', b'O', b'D', b'0'.saturating_add(number)]
}

/// Whether a datagram is none of data.
#[inline]
pub const fn is_control(datagram: &[u8]) -> bool {
    datagram.len() <= CONTROL_BYTES
}

/// Whether a datagram says that data follows.
pub fn is_begin(datagram: &[u8]) -> bool {
    matches!(datagram, [b'B', b'O', b'D', b'0'..=b'9'])
}

/// Whether a datagram says that no data follows.
pub fn is_end(datagram: &[u8]) -> bool {
    matches!(datagram, [b'E', b'O', b'D', b'0'..=b'9'])
}

/// Bytes that were sent up to the end of this datagram, in the byte order of this host.
#[inline]
pub fn sent(datagram: &[u8]) -> Option<u64> {
    let bytes = datagram.get(SENT_AT..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

/// Writes it; does nothing if there is no room.
#[inline]
pub fn write_sent(sent: u64, datagram: &mut [u8]) {
    if let Some(place) = datagram.get_mut(SENT_AT..).and_then(<[u8]>::first_chunk_mut) {
        *place = sent.to_ne_bytes();
    }
}

/// Which of a test's streams a datagram is of. A sender goes round them, a datagram on each, and counts what it sent on all
/// of them together; a receiver reads them in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// From 0.
    pub stream: u16,
    /// Of so many.
    pub streams: NonZeroU16,
}

impl Turn {
    /// Of a test with one stream.
    pub const ALONE: Self = Self { stream: 0, streams: NonZeroU16::MIN };

    /// The first of so many streams; 0 is taken for 1.
    pub fn first_of(streams: u16) -> Self {
        Self { stream: 0, streams: NonZeroU16::new(streams).unwrap_or(NonZeroU16::MIN) }
    }

    /// Bytes that were sent up to the end of the stream's datagram with this number, from 0, each of `size` bytes.
    #[inline]
    pub fn sent(self, number: u64, size: u32) -> u64 {
        let before =
            number.wrapping_mul(self.streams.get().into()).wrapping_add(self.stream.into());
        before.wrapping_add(1).wrapping_mul(u64::from(size).max(1))
    }

    /// From one datagram of the stream to its next, in bytes sent.
    #[inline]
    pub fn round(self, size: u32) -> u64 {
        u64::from(size).max(1).wrapping_mul(self.streams.get().into())
    }

    /// The number in its stream, from 0, of a datagram when the next one in order would have `expected`: what was read
    /// of it may be in the other byte order, and the nearest is meant. Nothing where it is not the end of a datagram of
    /// `size` bytes in either.
    #[inline]
    pub fn number(self, sent: u64, size: u32, expected: u64) -> Option<u64> {
        let size = u64::from(size).max(1);
        let of = |sent: u64| {
            let before = sent.checked_sub(size)?;
            before.is_multiple_of(size).then(|| before / size / u64::from(self.streams.get()))
        };
        let both = [of(sent), of(sent.swap_bytes())];
        both.into_iter().flatten().min_by_key(|number| number.abs_diff(expected))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_of_the_end_are_known() {
        for n in 0..ENDS {
            assert!(is_end(&end(n)) && is_control(&end(n)));
        }
        assert_eq!(end(4), *b"EOD4");
        assert!(is_begin(&BEGIN) && is_begin(&BEGIN_AGAIN) && !is_begin(&end(0)));
        assert!(!is_end(&BEGIN) && !is_end(b"EOD") && !is_end(b"EOD12") && !is_control(b"EOD12"));
    }

    /// 1,000-byte datagrams of 8.2.2.
    #[test]
    fn captured_counts() {
        let mut datagram = [0; 1_000];
        for (bytes, expected) in
            [([0xe8, 3, 0, 0, 0, 0, 0, 0], 0), ([0xd0, 7, 0, 0, 0, 0, 0, 0], 1)]
        {
            datagram[24..32].copy_from_slice(&bytes);
            let number = Turn::ALONE.number(sent(&datagram).unwrap(), 1_000, expected);
            assert_eq!(number, Some(expected));
        }
    }

    #[test]
    fn streams_take_turns_and_count_what_all_have_sent() {
        let turn = |stream| Turn { stream, ..Turn::first_of(3) };
        let sent: Vec<u64> = (0..2)
            .flat_map(|number| (0..3).map(move |stream| turn(stream).sent(number, 100)))
            .collect();
        assert_eq!(sent, [100, 200, 300, 400, 500, 600]);
        assert_eq!(turn(1).number(500, 100, 1), Some(1));
        assert_eq!((turn(1).round(100), Turn::first_of(0)), (300, Turn::ALONE));
    }

    proptest! {
        #[test]
        fn either_byte_order_is_read(
            number in 0u64..(1 << 33), size in 32u32..65_508, streams in 1u16..=128, turn: u16, swapped: bool,
        ) {
            let turn = Turn { stream: turn % streams, ..Turn::first_of(streams) };
            let mut bytes = [0; 32];
            let count = turn.sent(number, size);
            write_sent(if swapped { count.swap_bytes() } else { count }, &mut bytes);
            let sent = super::sent(&bytes).unwrap();
            prop_assert_eq!(turn.number(sent, size, number), Some(number));
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..40), size: u32, streams: u16, expected: u64) {
            if let Some(sent) = sent(&bytes) {
                let _ = Turn::first_of(streams).number(sent, size, expected);
            }
            let _ = (is_begin(&bytes), is_end(&bytes), is_control(&bytes));
        }
    }
}
