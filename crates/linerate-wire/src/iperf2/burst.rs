//! What a sender over TCP with `--trip-times` writes at the beginning of each block: when it wrote it, and how long it is.
//!
//! ```text
//!  0       12               20                28    44       48       52              60     92
//!  │ …     │ stream began   │ block written   │ …   │ number │ length │ bytes so far  │ …    │ payload …
//! ```
//!
//! Times are seconds and microseconds of the sender's wall clock. The length counts this record, and the next one stands
//! that far behind its beginning; the first stands behind the stream's header. The other words mean nothing: 2.1.8 leaves
//! there what a header had, 2.2.1 the bytes of its buffer.

use super::{clock, put, put_clock, word};

/// Bytes of a record: the least block.
pub const BURST_BYTES: usize = 92;

const BEGAN_AT: usize = 12;
const WRITTEN_AT: usize = 20;
const NUMBER_AT: usize = 44;
const LENGTH_AT: usize = 48;
const SO_FAR_AT: usize = 52;
/// All of a record that is read or written.
const READ_BYTES: usize = SO_FAR_AT + 8;
/// As theirs, which count two bytes more than they write.
const SO_FAR_MORE: u64 = 2;

/// What a block says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// When its stream began, by the sender's wall clock in nanoseconds; whole microseconds travel.
    pub began_ns: u64,
    /// When it was written, by the same.
    pub written_ns: u64,
    /// Its number, from 1 on; 32 bits of it travel.
    pub number: u64,
    /// Its bytes, this record among them.
    pub length: u32,
}

impl Burst {
    /// Writes it over the start of `block`; does nothing where there is no room.
    #[inline]
    pub fn write(&self, block: &mut [u8]) {
        if block.len() < BURST_BYTES {
            return;
        }
        let so_far = self.number.saturating_mul(self.length.into()).saturating_add(SO_FAR_MORE);
        put_clock(block, BEGAN_AT, self.began_ns);
        put_clock(block, WRITTEN_AT, self.written_ns);
        put(block, NUMBER_AT, self.number as u32);
        put(block, LENGTH_AT, self.length);
        put(block, SO_FAR_AT, so_far as u32);
        put(block, SO_FAR_AT + 4, (so_far >> 32) as u32);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let length = word(bytes, LENGTH_AT)?;
        Some(Self {
            began_ns: clock(bytes, BEGAN_AT)?,
            written_ns: clock(bytes, WRITTEN_AT)?,
            number: word(bytes, NUMBER_AT)?.into(),
            length: Some(length).filter(|length| *length as usize >= BURST_BYTES)?,
        })
    }
}

/// Who reads a stream of them, in whatever pieces it comes.
#[derive(Debug)]
pub struct Reader {
    record: [u8; READ_BYTES],
    /// Bytes of the record that have come.
    filled: usize,
    /// Bytes that come before the next record.
    skipped: u64,
    /// The block whose end is awaited.
    open: Option<Burst>,
    /// What came is no stream of records: nothing more is read.
    lost: bool,
}

impl Reader {
    /// Of a stream that begins with a header of so many bytes.
    pub fn new(header: usize) -> Self {
        let record = [0; READ_BYTES];
        Self { record, filled: 0, skipped: header as u64, open: None, lost: false }
    }

    /// The next bytes of the stream; `whole` is told of each block that has come to its end with them.
    #[inline]
    pub fn read(&mut self, mut bytes: &[u8], mut whole: impl FnMut(Burst)) {
        while !self.lost && !bytes.is_empty() {
            if self.skipped > 0 {
                let passed = bytes.len().min(usize::try_from(self.skipped).unwrap_or(usize::MAX));
                bytes = bytes.get(passed..).unwrap_or_default();
                self.skipped = self.skipped.saturating_sub(passed as u64);
                if self.skipped == 0
                    && let Some(burst) = self.open.take()
                {
                    whole(burst);
                }
                continue;
            }
            let place = self.record.get_mut(self.filled..).unwrap_or_default();
            let count = place.len().min(bytes.len());
            let (part, rest) = bytes.split_at(count);
            place.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
            bytes = rest;
            self.filled += count;
            if self.filled == READ_BYTES {
                self.filled = 0;
                self.open = Burst::read(&self.record);
                match self.open {
                    Some(burst) => {
                        self.skipped = u64::from(burst.length).saturating_sub(READ_BYTES as u64);
                    }
                    None => self.lost = true,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(header: usize, length: u32, count: u64) -> (Vec<u8>, Vec<Burst>) {
        let mut bytes = vec![7; header];
        let bursts: Vec<_> = (1..=count)
            .map(|number| {
                let (began_ns, written_ns) = (5_000_000_000, 5_000_000_000 + number * 1_000);
                Burst { began_ns, written_ns, number, length }
            })
            .collect();
        for burst in &bursts {
            let mut block = vec![0xa5; length as usize];
            burst.write(&mut block);
            bytes.extend(block);
        }
        (bytes, bursts)
    }

    /// The second block of 2.1.8 and of 2.2.1 with `-l 2000 -b 5m --trip-times`.
    #[test]
    fn captured_blocks_are_read() {
        let old = "400100a0 1 176c 6b0c6c75 63191 6b0c6c75 63e30 0 100000 20001 80003 2 7d0 fa2 0";
        let new = "a5a5a5a5 a5a5a5a5 a5a5a5a5 6b0c6d1a 3b92 6b0c6d1a 484e a5a5a5a5 a5a5a5a5 a5a5a5a5 a5a5a5a5 2 7d0 fa2 0";
        for (words, began, written) in [
            (old, (0x6b0c_6c75, 0x63191), (0x6b0c_6c75, 0x63e30)),
            (new, (0x6b0c_6d1a, 0x3b92), (0x6b0c_6d1a, 0x484e)),
        ] {
            let word = |word: &str| u32::from_str_radix(word, 16).unwrap().to_be_bytes();
            let bytes: Vec<u8> = words.split_whitespace().flat_map(word).collect();
            let ns = |(seconds, micros): (u64, u64)| seconds * 1_000_000_000 + micros * 1_000;
            let burst =
                Burst { began_ns: ns(began), written_ns: ns(written), number: 2, length: 2_000 };
            assert_eq!(Burst::read(&bytes), Some(burst));
            // What is written has the same words where they mean something.
            let mut block = [0; BURST_BYTES];
            burst.write(&mut block);
            assert_eq!((&block[12..28], &block[44..60]), (&bytes[12..28], &bytes[44..60]));
        }
    }

    #[test]
    fn a_block_without_room_stays_as_it_is() {
        let (_, bursts) = stream(0, 100, 1);
        let mut short = [7; BURST_BYTES - 1];
        bursts[0].write(&mut short);
        assert_eq!(short, [7; BURST_BYTES - 1]);
    }

    #[test]
    fn what_is_no_stream_of_records_ends_the_reading() {
        let (mut bytes, _) = stream(80, 100, 3);
        // The second is shorter than any.
        put(&mut bytes, 180 + LENGTH_AT, BURST_BYTES as u32 - 1);
        let mut seen = 0;
        Reader::new(80).read(&bytes, |_| seen += 1);
        assert_eq!(seen, 1);
    }

    proptest! {
        #[test]
        fn blocks_come_whole_in_whatever_pieces(
            length in BURST_BYTES as u32..300, count in 0u64..6, header in 0usize..100, piece in 1usize..700,
        ) {
            let (bytes, wanted) = stream(header, length, count);
            let (mut reader, mut seen) = (Reader::new(header), Vec::new());
            // The last is not whole.
            for piece in bytes.chunks(piece) {
                reader.read(piece, |burst| seen.push(burst));
            }
            prop_assert_eq!(seen, wanted);
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..400), header in 0usize..100, piece in 1usize..90) {
            let mut reader = Reader::new(header);
            bytes.chunks(piece).for_each(|piece| reader.read(piece, |_| {}));
        }
    }
}
