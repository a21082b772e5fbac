//! What a server that sends over TCP says at the beginning of each block: how its connection fares. The first block says
//! that the others do.

/// The least block that does.
pub const LEAST_BYTES: usize = 32;

/// Where the segments that were sent again stand, in 32 bits of the sender's byte order …
const AGAIN_AT: usize = 24;
/// … and its congestion window, in kilobytes.
const WINDOW_AT: usize = 28;
/// In place of a window: blocks say what was sent again on this connection.
const OF_CONNECTION: u32 = 0x5254_524e;

/// What a block says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said {
    /// Segments that TCP sent again so far.
    pub retransmits: u32,
    /// Congestion window in kilobytes, from 8.0.1 on.
    pub window_kb: Option<u32>,
}

/// Writes what the first block says; does nothing if there is no room.
pub fn write_first(block: &mut [u8]) {
    put(AGAIN_AT, 0, block);
    put(WINDOW_AT, OF_CONNECTION, block);
}

/// Writes what each of the others says. Where that is no window, what the first says in its place stays.
pub fn write(said: Said, block: &mut [u8]) {
    put(AGAIN_AT, said.retransmits, block);
    if let Some(kb) = said.window_kb {
        put(WINDOW_AT, kb, block);
    }
}

fn put(at: usize, value: u32, block: &mut [u8]) {
    if let Some(place) = block.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = value.to_ne_bytes();
    }
}

/// Who reads a stream of blocks, in whatever pieces it comes.
#[derive(Debug)]
pub struct Reader {
    block: usize,
    /// Bytes of the block that have come.
    at: usize,
    word: [u8; WINDOW_AT + 4 - AGAIN_AT],
    speaks: Speaks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    /// The first block has not come yet.
    Unknown,
    /// It says nothing.
    Not,
    Does {
        swapped: bool,
    },
}

impl Reader {
    /// Of blocks of so many bytes.
    pub fn new(block: usize) -> Self {
        let speaks = if block < LEAST_BYTES { Speaks::Not } else { Speaks::Unknown };
        Self { block: block.max(1), at: 0, word: [0; 8], speaks }
    }

    /// The next bytes of the stream; what the last block said whose beginning is whole with them.
    #[inline]
    pub fn read(&mut self, mut bytes: &[u8]) -> Option<Said> {
        if self.speaks == Speaks::Not {
            return None;
        }
        let mut said = None;
        while !bytes.is_empty() {
            let before = self.at;
            let (part, rest) = bytes.split_at(bytes.len().min(self.block - before));
            bytes = rest;
            self.at += part.len();
            if before < LEAST_BYTES && self.at > AGAIN_AT {
                let skipped = AGAIN_AT.saturating_sub(before);
                let place = self.word.iter_mut().skip(before.saturating_sub(AGAIN_AT));
                place.zip(part.iter().skip(skipped)).for_each(|(place, byte)| *place = *byte);
                if self.at >= LEAST_BYTES {
                    said = self.whole().or(said);
                }
            }
            if self.at == self.block {
                self.at = 0;
            }
        }
        said
    }

    fn whole(&mut self) -> Option<Said> {
        let [a, b, c, d, e, f, g, h] = self.word;
        let (again, window) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        let swapped = match self.speaks {
            Speaks::Does { swapped } => swapped,
            // The first block decides, whatever comes with it in one piece.
            Speaks::Not => return None,
            Speaks::Unknown if window == OF_CONNECTION => false,
            Speaks::Unknown if window.swap_bytes() == OF_CONNECTION => true,
            Speaks::Unknown => {
                self.speaks = Speaks::Not;
                return None;
            }
        };
        self.speaks = Speaks::Does { swapped };
        let [again, window] = [again, window].map(|n| if swapped { n.swap_bytes() } else { n });
        Some(Said { retransmits: again, window_kb: (window != OF_CONNECTION).then_some(window) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Three blocks of a sender.
    fn stream(size: usize, swapped: bool) -> Vec<u8> {
        let mut block = vec![7; size];
        write_first(&mut block);
        let mut all = block.clone();
        for said in [
            Said { retransmits: 3, window_kb: None },
            Said { retransmits: 5, window_kb: Some(447) },
        ] {
            write(said, &mut block);
            all.extend(&block);
        }
        for block in all.chunks_mut(size).filter(|_| swapped) {
            block[24..28].reverse();
            block[28..32].reverse();
        }
        all
    }

    #[test]
    fn blocks_that_say_nothing_are_not_read() {
        assert_eq!(Reader::new(40).read(&[7; 400]), None);
        assert_eq!(
            (Reader::new(0).read(&[7; 90]), Reader::new(31).read(&stream(64, false))),
            (None, None)
        );
    }

    #[test]
    fn the_first_block_decides_in_one_piece_as_in_many() {
        let all = [vec![7; 40], stream(40, false)].concat();
        assert_eq!(Reader::new(40).read(&all), None);
        let mut reader = Reader::new(40);
        assert!(all.chunks(40).all(|block| reader.read(block).is_none()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_in_any_pieces(size in 32usize..100, piece in 1usize..200, swapped: bool) {
            let mut reader = Reader::new(size);
            let all = stream(size, swapped);
            let said: Vec<_> = all.chunks(piece).filter_map(|part| reader.read(part)).collect();
            let last = Said { retransmits: 5, window_kb: Some(447) };
            prop_assert_eq!(said.last(), Some(&last));
            if piece < 8 {
                let first = Said::default();
                prop_assert_eq!(said, [first, Said { retransmits: 3, window_kb: None }, last]);
            }
        }

        #[test]
        fn any_stream_is_safe(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 0usize..80, piece in 1usize..50) {
            let mut reader = Reader::new(size);
            bytes.chunks(piece).for_each(|part| _ = reader.read(part));
        }
    }
}
