//! What UDP datagrams begin with:
//!
//! ```text
//!  0            4         8              12            16
//!  │ number low │ seconds │ microseconds │ number high │ settings, payload …
//! ```
//!
//! Numbers begin with 1. In 64 bits, or in the low 32 alone where a client does not say that it counts
//! farther, they are two's complement: −(n + 1) says that n datagrams of data were sent, and nothing more
//! comes.

/// Bytes of all of this.
pub const MARK_BYTES: usize = 16;

/// What a datagram says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Its number; below 0 at the end.
    pub number: i64,
    /// The sender's wall clock in nanoseconds; whole microseconds and 32 bits of seconds travel.
    pub sent_ns: u64,
}

impl Mark {
    /// Writes it over the start of `datagram`; does nothing if there is no room.
    #[inline]
    pub fn write(&self, datagram: &mut [u8]) {
        let Some(place) = datagram.first_chunk_mut::<MARK_BYTES>() else { return };
        let number = self.number.cast_unsigned();
        let words = [
            number as u32,
            (self.sent_ns / 1_000_000_000) as u32,
            (self.sent_ns % 1_000_000_000 / 1_000) as u32,
            (number >> 32) as u32,
        ];
        for (place, word) in place.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads it. `None` when there are too few bytes or the microseconds are no part of a second: there is no
    /// other check.
    #[inline]
    pub fn read(wide: bool, datagram: &[u8]) -> Option<Self> {
        let bytes = u128::from_be_bytes(*datagram.first_chunk::<MARK_BYTES>()?);
        let [low, seconds, micros, high] =
            [96, 64, 32, 0].map(|shift| u64::from((bytes >> shift) as u32));
        let number = if wide {
            (high << 32 | low).cast_signed()
        } else {
            i64::from((low as u32).cast_signed())
        };
        (micros < 1_000_000)
            .then_some(Self { number, sent_ns: seconds * 1_000_000_000 + micros * 1_000 })
    }

    /// What ends a stream of so many datagrams.
    pub fn end(sent: u64, sent_ns: u64) -> Self {
        let count = i64::try_from(sent).unwrap_or(i64::MAX - 1).min(i64::MAX - 1);
        Self { number: -(count + 1), sent_ns }
    }

    /// How many datagrams came before it, of one that ends a stream.
    pub fn sent(&self) -> Option<u64> {
        (self.number < 0).then(|| self.number.unsigned_abs() - 1)
    }
}
