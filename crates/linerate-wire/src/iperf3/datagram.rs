//! The header of UDP datagrams, in network byte order:
//!
//! ```text
//!  0         4              8          12          16
//!  │ seconds │ microseconds │ number 32 │ payload …
//!  │ seconds │ microseconds │ number 64             │ payload …   with udp_counters_64bit
//! ```
//!
//! The time is the sender's (monotonic from 3.7 on, wall clock before); receivers use differences
//! only. Numbers begin with 1 and go on through the omitted time.

/// Width of the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counters {
    /// The default: the number wraps after 2^32 datagrams.
    Bits32,
    /// `--udp-counters-64bit`.
    Bits64,
}

impl Counters {
    /// Bytes of the header.
    #[inline]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Bits32 => 12,
            Self::Bits64 => 16,
        }
    }
}

/// What a datagram says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Sender's clock in nanoseconds; only microseconds travel, and only 32 bits of seconds.
    pub sent_ns: u64,
    /// Sequence number, from 1 on. With [`Counters::Bits32`] only its low half travels.
    pub number: u64,
}

impl Header {
    /// Writes the header over the start of `datagram`; does nothing if there is no room.
    #[inline]
    pub fn write(&self, counters: Counters, datagram: &mut [u8]) {
        let seconds = (self.sent_ns / 1_000_000_000) as u32;
        let micros = (self.sent_ns % 1_000_000_000 / 1_000) as u32;
        let time = u64::from(seconds) << 32 | u64::from(micros);
        match counters {
            Counters::Bits32 => {
                let Some(header) = datagram.first_chunk_mut::<12>() else { return };
                let (first, rest) = header.split_at_mut(8);
                first.copy_from_slice(&time.to_be_bytes());
                rest.copy_from_slice(&(self.number as u32).to_be_bytes());
            }
            Counters::Bits64 => {
                let Some(header) = datagram.first_chunk_mut::<16>() else { return };
                let (first, rest) = header.split_at_mut(8);
                first.copy_from_slice(&time.to_be_bytes());
                rest.copy_from_slice(&self.number.to_be_bytes());
            }
        }
    }

    /// Reads a header. `None` when there are too few bytes or the microseconds are no part of a
    /// second: there is no other check.
    #[inline]
    pub fn read(counters: Counters, datagram: &[u8]) -> Option<Self> {
        let (time, rest) = datagram.split_first_chunk::<8>()?;
        let time = u64::from_be_bytes(*time);
        let (seconds, micros) = (time >> 32, time & 0xffff_ffff);
        let number = match counters {
            Counters::Bits32 => u64::from(u32::from_be_bytes(*rest.first_chunk()?)),
            Counters::Bits64 => u64::from_be_bytes(*rest.first_chunk()?),
        };
        (micros < 1_000_000)
            .then_some(Self { sent_ns: seconds * 1_000_000_000 + micros * 1_000, number })
    }
}

/// The number nearest to `expected` whose low 32 bits are `low`: carries 32-bit counters over their
/// wrap. `None` for what would lie before 0.
#[inline]
pub fn widen(low: u32, expected: u64) -> Option<u64> {
    let distance = low.wrapping_sub(expected as u32).cast_signed();
    expected.checked_add_signed(i64::from(distance))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_that_of_iperf3() {
        // 3.21+: 959 s, 192058 us, number 1.
        let bytes = [0, 0, 3, 0xbf, 0, 2, 0xee, 0x3a, 0, 0, 0, 1];
        let header = Header { sent_ns: 959_192_058_000, number: 1 };
        assert_eq!(Header::read(Counters::Bits32, &bytes), Some(header));
        let mut written = [0; 12];
        header.write(Counters::Bits32, &mut written);
        assert_eq!(written, bytes);
        // 3.12 with 64-bit counters.
        let bytes = [0, 0, 3, 0x6c, 0, 2, 0x62, 0x28, 0, 0, 0, 0, 0, 0, 0, 1];
        let header = Header { sent_ns: 876_156_200_000, number: 1 };
        assert_eq!(Header::read(Counters::Bits64, &bytes), Some(header));
        let mut written = [0; 16];
        header.write(Counters::Bits64, &mut written);
        assert_eq!(written, bytes);
    }

    #[test]
    fn numbers_of_32_bits_go_on() {
        assert_eq!(widen(5, 4), Some(5));
        assert_eq!(widen(0, (1 << 32) - 1), Some(1 << 32));
        assert_eq!(widen(u32::MAX, 1 << 32), Some((1 << 32) - 1));
        assert_eq!(widen(7, 5 << 32), Some((5 << 32) + 7));
        assert_eq!(widen(u32::MAX, 3), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(sent_ns in 0..(u64::from(u32::MAX) * 1_000_000_000), number: u64, size in 16usize..80) {
            let sent_ns = sent_ns / 1_000 * 1_000;
            let mut bytes = vec![7; size];
            Header { sent_ns, number }.write(Counters::Bits64, &mut bytes);
            prop_assert_eq!(Header::read(Counters::Bits64, &bytes), Some(Header { sent_ns, number }));
            prop_assert!(bytes[16..].iter().all(|b| *b == 7));
            Header { sent_ns, number }.write(Counters::Bits32, &mut bytes);
            let low = number & 0xffff_ffff;
            prop_assert_eq!(Header::read(Counters::Bits32, &bytes), Some(Header { sent_ns, number: low }));
        }

        #[test]
        fn the_nearest_number_is_found(expected in (1u64 << 31)..(u64::MAX >> 1), step in -(1i64 << 30)..(1i64 << 30)) {
            let number = expected.checked_add_signed(step).unwrap();
            prop_assert_eq!(widen(number as u32, expected), Some(number));
        }
    }
}
