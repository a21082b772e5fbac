//! What the datagrams of a test begin with, in the dialect of that test.
//!
//! Senders and receivers account for datagrams of any dialect alike: they ask a [`Framing`] to write
//! and to read the number, the send time and, where the dialect has them, the warm-up mark and the
//! place in a train; where datagrams carry none of these, there is nothing to write. iperf3's carry no
//! token and no check, so nothing in them can be distinguished from a stranger's; there the connected
//! socket is all that keeps strangers out.

use std::num::NonZeroU8;

use crate::iperf2::datagram as iperf2;
use crate::iperf3::datagram::{self, Counters};
use crate::native::datagram::{HEADER_BYTES, Header, Place, Stamp, in_order};
use crate::nuttcp::datagram::{self as nuttcp, Turn};

/// How a test's datagrams carry their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// linerate's own header of 32 bytes.
    Native {
        /// The test's token.
        token: u64,
        /// The stream, counted over both directions.
        stream: u16,
    },
    /// iperf3's: seconds, microseconds, number; numbers count from 1.
    Iperf3 {
        /// `--udp-counters-64bit`.
        wide: bool,
    },
    /// iperf 2's: number, seconds, microseconds, high half of the number; numbers count from 1, and one below 0
    /// ends a stream.
    Iperf2 {
        /// Numbers have 64 bits.
        wide: bool,
        /// The sender's wall clock less its monotonic one, in nanoseconds: receivers of iperf 2's take the time of
        /// the first datagram for one of their own wall clock, and the distance for jitter.
        ahead_ns: u64,
        /// Wall clocks of both ends agree, so that distances between them are delays (`--trip-times`). Of a receiver
        /// `ahead_ns` is its own then.
        agree: bool,
    },
    /// nuttcp's: bytes that were sent up to the end of the datagram, or nothing. No time. What is shorter than
    /// any data begins and ends it.
    Nuttcp {
        /// Of each datagram.
        size: u32,
        /// Where datagrams say how much was sent: whose turn it was. They have 32 bytes or more then.
        turn: Option<Turn>,
    },
    /// None: datagrams are payload alone. Which of them are missing, doubled or late nobody can say.
    Bare,
}

/// What a datagram says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Sequence number, counted from 0. In iperf3's 32-bit form the low 32 bits of it, in nuttcp's what was
    /// sent: see [`Framing::number`].
    pub number: u64,
    /// Sender's monotonic clock in nanoseconds (iperf3 and iperf 2 give whole microseconds, the latter as it was
    /// sent: of any clock).
    pub sent_ns: u64,
    /// Belongs to the warm-up. iperf3 does not say.
    pub warmup: bool,
    /// Position in its train, from 0.
    pub position: u8,
    /// Datagrams in its train; 1 where the dialect does not say.
    pub train: NonZeroU8,
}

/// What the datagrams of one send call have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Number of the first, counted from 0.
    pub first: u64,
    /// Bytes of each; the last may be shorter.
    pub size: usize,
    /// Datagrams of one train, 1 to 128; the last may be shorter.
    pub train: usize,
    /// Sender's monotonic clock in nanoseconds.
    pub sent_ns: u64,
    /// Belong to the warm-up.
    pub warmup: bool,
}

/// Why a datagram is none of this test's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stray {
    /// Another test's token.
    Foreign,
    /// Too short, or its check fails.
    Damaged,
}

impl Framing {
    /// Bytes of the header: the least datagram.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Native { .. } => HEADER_BYTES,
            Self::Iperf3 { wide } => counters(wide).header_bytes(),
            Self::Iperf2 { .. } => iperf2::MARK_BYTES,
            Self::Nuttcp { turn: Some(_), .. } => nuttcp::SENT_BYTES,
            Self::Nuttcp { turn: None, .. } => nuttcp::CONTROL_BYTES + 1,
            Self::Bare => 0,
        }
    }

    /// Whether a receiver looks into datagrams: otherwise it counts them and their bytes alone.
    #[inline]
    pub const fn is_read(self) -> bool {
        !matches!(self, Self::Bare)
    }

    /// Whether datagrams say which one they are.
    #[inline]
    pub const fn is_numbered(self) -> bool {
        !matches!(self, Self::Bare | Self::Nuttcp { turn: None, .. })
    }

    /// Whether they say when they were sent.
    #[inline]
    pub const fn is_timed(self) -> bool {
        !matches!(self, Self::Bare | Self::Nuttcp { .. })
    }

    /// Wall clock less monotonic clock of a receiver, in nanoseconds, where datagrams say when they were sent by a wall
    /// clock that agrees.
    #[inline]
    pub const fn agreed_ahead_ns(self) -> Option<u64> {
        match self {
            Self::Iperf2 { ahead_ns, agree: true, .. } => Some(ahead_ns),
            _ => None,
        }
    }

    /// The same of another stream of the test.
    #[must_use]
    pub fn of_stream(self, stream: u16) -> Self {
        match self {
            Self::Native { token, .. } => Self::Native { token, stream },
            Self::Nuttcp { size, turn: Some(turn) } => {
                Self::Nuttcp { size, turn: Some(Turn { stream, ..turn }) }
            }
            Self::Iperf3 { .. } | Self::Iperf2 { .. } | Self::Nuttcp { .. } | Self::Bare => self,
        }
    }

    /// Writes the header over the start of `datagram`; does nothing if there is no room.
    #[inline]
    pub fn write(self, mark: &Mark, datagram: &mut [u8]) {
        match self {
            Self::Native { token, stream } => {
                let place = Place {
                    stream,
                    warmup: mark.warmup,
                    position: mark.position,
                    train: mark.train,
                };
                Header { token, number: mark.number, sent_ns: mark.sent_ns, place }.write(datagram);
            }
            Self::Iperf3 { wide } => write_iperf3(mark, counters(wide), datagram),
            Self::Iperf2 { ahead_ns, .. } => {
                write_iperf2(mark.number, mark.sent_ns.saturating_add(ahead_ns), datagram);
            }
            Self::Nuttcp { size, turn: Some(turn) } => {
                nuttcp::write_sent(turn.sent(mark.number, size), datagram);
            }
            Self::Bare | Self::Nuttcp { .. } => {}
        }
    }

    /// Writes the headers of all datagrams in `bytes`. The hot path of a sender.
    #[inline]
    pub fn write_batch(self, batch: &Batch, bytes: &mut [u8]) {
        let Batch { first, size, train, sent_ns, warmup } = *batch;
        match self {
            Self::Native { token, stream } => {
                Stamp { token, sent_ns, stream, warmup }.write(bytes, size, first, train);
            }
            Self::Iperf3 { wide } => {
                let mut mark =
                    Mark { number: first, sent_ns, warmup, position: 0, train: NonZeroU8::MIN };
                for datagram in bytes.chunks_mut(size.max(1)) {
                    write_iperf3(&mark, counters(wide), datagram);
                    mark.number = mark.number.wrapping_add(1);
                }
            }
            Self::Iperf2 { ahead_ns, .. } => {
                let sent_ns = sent_ns.saturating_add(ahead_ns);
                for (datagram, number) in bytes.chunks_mut(size.max(1)).zip(first..) {
                    write_iperf2(number, sent_ns, datagram);
                }
            }
            Self::Nuttcp { size: each, turn: Some(turn) } => {
                let mut sent = turn.sent(first, each);
                for datagram in bytes.chunks_mut(size.max(1)) {
                    nuttcp::write_sent(sent, datagram);
                    sent = sent.wrapping_add(turn.round(each));
                }
            }
            Self::Bare | Self::Nuttcp { .. } => {}
        }
    }

    /// How many datagrams at the start of a message of datagrams of `segment` bytes each (the last
    /// may be shorter) are whole, of this test, measured and numbered one after the other from
    /// `first`. The hot path of a receiver: whatever is not counted here needs a closer look.
    #[inline]
    pub fn in_order(self, message: &[u8], segment: usize, first: u64) -> usize {
        match self {
            Self::Native { token, .. } => in_order(message, segment, token, first),
            Self::Iperf3 { wide } => message
                .chunks(segment.max(1))
                .zip(0u64..)
                .take_while(|(datagram, i)| {
                    let expected = first.wrapping_add(*i);
                    read_iperf3(counters(wide), datagram)
                        .is_some_and(|mark| self.number(&mark, expected) == expected)
                })
                .count(),
            Self::Iperf2 { wide, .. } => message
                .chunks(segment.max(1))
                .zip(first..)
                .take_while(|(datagram, expected)| {
                    read_iperf2(wide, datagram).is_some_and(|mark| mark.number == *expected)
                })
                .count(),
            Self::Nuttcp { turn: None, .. } => message
                .chunks(segment.max(1))
                .take_while(|datagram| !nuttcp::is_control(datagram))
                .count(),
            Self::Nuttcp { size, turn: Some(turn) } => {
                let mut wanted = turn.sent(first, size);
                let is_next = |datagram: &&[u8]| {
                    let due = wanted;
                    wanted = due.wrapping_add(turn.round(size));
                    let sent = nuttcp::sent(datagram);
                    sent.is_some_and(|sent| sent == due || sent == due.swap_bytes())
                };
                message.chunks(segment.max(1)).take_while(is_next).count()
            }
            Self::Bare => message.len().div_ceil(segment.max(1)),
        }
    }

    /// Reads the header.
    ///
    /// # Errors
    /// When the datagram is none of this test's.
    #[inline]
    pub fn read(self, datagram: &[u8]) -> Result<Mark, Stray> {
        match self {
            Self::Native { token, .. } => {
                let header = Header::read(datagram).ok_or(Stray::Damaged)?;
                if header.token != token {
                    return Err(Stray::Foreign);
                }
                let Place { warmup, position, train, .. } = header.place;
                Ok(Mark { number: header.number, sent_ns: header.sent_ns, warmup, position, train })
            }
            Self::Iperf3 { wide } => read_iperf3(counters(wide), datagram).ok_or(Stray::Damaged),
            Self::Iperf2 { wide, .. } => read_iperf2(wide, datagram).ok_or(Stray::Damaged),
            Self::Nuttcp { turn: None, .. } if nuttcp::is_control(datagram) => Err(Stray::Damaged),
            Self::Nuttcp { size, turn: Some(turn) } => {
                let sent = nuttcp::sent(datagram).ok_or(Stray::Damaged)?;
                turn.number(sent, size, 0).ok_or(Stray::Damaged)?;
                Ok(Mark { number: sent, ..UNMARKED })
            }
            Self::Bare | Self::Nuttcp { .. } => Ok(UNMARKED),
        }
    }

    /// How many datagrams were sent before this one, where it says that nothing more comes; 0 where it does not
    /// say how many.
    pub fn end(self, datagram: &[u8]) -> Option<u64> {
        match self {
            Self::Iperf2 { wide, .. } => iperf2::Mark::read(wide, datagram)?.sent(),
            Self::Nuttcp { .. } => nuttcp::is_end(datagram).then_some(0),
            _ => None,
        }
    }

    /// The whole number of a datagram, when the next one in order would have `expected`: iperf3's
    /// 32-bit numbers go round every 2^32 datagrams, and the nearest is meant.
    #[inline]
    pub fn number(self, mark: &Mark, expected: u64) -> u64 {
        match self {
            Self::Iperf3 { wide: false } => {
                // What lies before the first number stays what it is, and is damage.
                datagram::widen(mark.number as u32, expected).unwrap_or(u64::MAX)
            }
            Self::Nuttcp { size, turn: Some(turn) } => {
                turn.number(mark.number, size, expected).unwrap_or(u64::MAX)
            }
            Self::Bare | Self::Nuttcp { .. } => expected,
            _ => mark.number,
        }
    }
}

/// Of a datagram that says nothing of itself.
const UNMARKED: Mark =
    Mark { number: 0, sent_ns: 0, warmup: false, position: 0, train: NonZeroU8::MIN };

/// iperf3 counts from 1, linerate from 0.
#[inline]
fn write_iperf3(mark: &Mark, counters: Counters, datagram: &mut [u8]) {
    let number = mark.number.wrapping_add(1);
    datagram::Header { sent_ns: mark.sent_ns, number }.write(counters, datagram);
}

/// iperf 2 counts from 1, too.
#[inline]
fn write_iperf2(number: u64, sent_ns: u64, datagram: &mut [u8]) {
    let number = number.wrapping_add(1).cast_signed();
    iperf2::Mark { number, sent_ns }.write(datagram);
}

/// `None` where it is no datagram of data.
#[inline]
fn read_iperf2(wide: bool, datagram: &[u8]) -> Option<Mark> {
    let mark = iperf2::Mark::read(wide, datagram)?;
    let number = u64::try_from(mark.number).ok()?.checked_sub(1)?;
    Some(Mark { number, sent_ns: mark.sent_ns, ..UNMARKED })
}

#[inline]
fn read_iperf3(counters: Counters, datagram: &[u8]) -> Option<Mark> {
    let header = datagram::Header::read(counters, datagram)?;
    let number = header.number.wrapping_sub(1);
    Some(Mark {
        number: match counters {
            Counters::Bits32 => u64::from(number as u32),
            Counters::Bits64 => number,
        },
        sent_ns: header.sent_ns,
        warmup: false,
        position: 0,
        train: NonZeroU8::MIN,
    })
}

#[inline]
const fn counters(wide: bool) -> Counters {
    if wide { Counters::Bits64 } else { Counters::Bits32 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(number: u64, sent_ns: u64) -> Mark {
        Mark { number, sent_ns, warmup: false, position: 0, train: NonZeroU8::MIN }
    }

    /// Captured from iperf3 3.12 and from its source of July 2026.
    #[test]
    fn captured_headers_are_read_and_written() {
        let narrow = [0x00, 0x00, 0x03, 0xbf, 0x00, 0x02, 0xee, 0x3a, 0x00, 0x00, 0x00, 0x01];
        let framing = Framing::Iperf3 { wide: false };
        let first = mark(0, 959_192_058_000);
        assert_eq!(framing.read(&narrow), Ok(first));
        let mut bytes = [0; 12];
        framing.write(&first, &mut bytes);
        assert_eq!(bytes, narrow);
        let wide = [0, 0, 3, 0x6c, 0, 2, 0x62, 0x28, 0, 0, 0, 0, 0, 0, 0, 1];
        let framing = Framing::Iperf3 { wide: true };
        let first = mark(0, 876_156_200_000);
        assert_eq!(framing.read(&wide), Ok(first));
        let mut bytes = [0; 16];
        framing.write(&first, &mut bytes);
        assert_eq!(bytes, wide);
    }

    #[test]
    fn narrow_numbers_go_round() {
        let framing = Framing::Iperf3 { wide: false };
        for number in [0u64, 5, u64::from(u32::MAX), 1 << 32, (3 << 32) + 7] {
            let mut bytes = [0; 64];
            framing.write(&mark(number, 0), &mut bytes);
            let read = framing.read(&bytes).unwrap();
            assert_eq!(framing.number(&read, number), number);
            assert_eq!(framing.number(&read, number + 1_000), number);
            assert_eq!(framing.number(&read, number.saturating_sub(1_000)), number);
        }
    }

    #[test]
    fn datagrams_of_iperf_2_carry_the_wall_clock() {
        let framing =
            Framing::Iperf2 { wide: true, ahead_ns: 1_700_000_000_000_000_000, agree: false };
        let batch = Batch { first: 0, size: 40, train: 2, sent_ns: 5_000_000, warmup: false };
        let mut bytes = [0; 80];
        framing.write_batch(&batch, &mut bytes);
        let mut single = [0; 40];
        framing.write(&mark(1, 5_000_000), &mut single);
        assert_eq!(bytes[40..], single);
        assert_eq!(framing.read(&single).unwrap().sent_ns, 1_700_000_000_005_000_000);
    }

    #[test]
    fn without_a_header_all_that_comes_is_next_in_order() {
        let mut bytes = [7; 25];
        let batch = Batch { first: 3, size: 10, train: 1, sent_ns: 9, warmup: false };
        Framing::Bare.write_batch(&batch, &mut bytes);
        assert_eq!((bytes, Framing::Bare.bytes()), ([7; 25], 0));
        assert_eq!(Framing::Bare.in_order(&bytes, 10, 3), 3);
        let mark = Framing::Bare.read(&[]).unwrap();
        assert_eq!(Framing::Bare.number(&mark, 42), 42);
    }

    #[test]
    fn what_was_sent_numbers_datagrams_in_either_byte_order() {
        let framing = Framing::Nuttcp { size: 40, turn: Some(Turn::ALONE) };
        let mut bytes = [0; 120];
        let batch = Batch { first: 7, size: 40, train: 1, sent_ns: 9, warmup: false };
        framing.write_batch(&batch, &mut bytes);
        assert_eq!(framing.in_order(&bytes, 40, 7), 3);
        assert_eq!((framing.in_order(&bytes, 40, 6), framing.in_order(&bytes, 40, 8)), (0, 0));
        bytes[64..72].reverse();
        assert_eq!(framing.in_order(&bytes, 40, 7), 3);
        let read = framing.read(&bytes[40..80]).unwrap();
        assert_eq!((framing.number(&read, 0), framing.number(&read, 1_000)), (8, 8));
        bytes[64] ^= 1;
        assert_eq!(framing.in_order(&bytes, 40, 7), 1);
        assert_eq!(framing.read(&bytes[40..80]), Err(Stray::Damaged));
        assert_eq!(framing.read(&bytes[..31]), Err(Stray::Damaged));
    }

    #[test]
    fn words_of_nuttcps_end_are_no_data() {
        for turn in [Some(Turn::first_of(3)), None] {
            let framing = Framing::Nuttcp { size: 40, turn }.of_stream(2);
            let mut bytes = vec![0; 84];
            let batch = Batch { first: 0, size: 40, train: 1, sent_ns: 0, warmup: false };
            framing.write_batch(&batch, &mut bytes[..80]);
            // As the kernel merges it with the data before it.
            bytes[80..].copy_from_slice(b"EOD0");
            assert_eq!(framing.in_order(&bytes, 40, 0), 2, "{turn:?}");
            assert_eq!(framing.read(&bytes[80..]), Err(Stray::Damaged));
            assert_eq!((framing.end(&bytes[80..]), framing.end(b"BOD1")), (Some(0), None));
            assert!(framing.read(&bytes[..40]).is_ok() && framing.end(&bytes[..40]).is_none());
        }
        assert!(!Framing::Nuttcp { size: 9, turn: None }.is_numbered());
    }

    proptest! {
        #[test]
        fn batches_hold_what_single_headers_would(
            first in 0u64..(1 << 40), size in 32usize..100, count in 1usize..200, odd in 0usize..200, wide: bool,
        ) {
            let iperf2 = Framing::Iperf2 { wide, ahead_ns: 0, agree: false };
            for framing in [Framing::Iperf3 { wide }, iperf2, Framing::Native { token: 9, stream: 1 }] {
                let first = if framing == iperf2 { first % (1 << 30) } else { first };
                let mut bytes = vec![0; size * count];
                let batch = Batch { first, size, train: 128, sent_ns: 5_000, warmup: false };
                framing.write_batch(&batch, &mut bytes);
                for (i, datagram) in bytes.chunks(size).enumerate() {
                    let expected = first + i as u64;
                    let read = framing.read(datagram).unwrap();
                    prop_assert_eq!(framing.number(&read, expected), expected);
                    prop_assert_eq!(read.sent_ns, 5_000);
                }
                prop_assert_eq!(framing.in_order(&bytes, size, first), count);
                prop_assert_eq!(framing.in_order(&bytes, size, first + 1), 0);
                let odd = odd % count;
                bytes[odd * size + if framing == iperf2 { 3 } else { 11 }] ^= 1;
                prop_assert_eq!(framing.in_order(&bytes, size, first), odd);
            }
        }

        #[test]
        fn what_is_written_is_read(number: u64, seconds: u32, micros in 0u64..1_000_000, wide: bool, token: u64) {
            let sent_ns = u64::from(seconds) * 1_000_000_000 + micros * 1_000;
            for framing in [Framing::Iperf3 { wide }, Framing::Native { token, stream: 3 }] {
                let mut bytes = [0; 40];
                framing.write(&mark(number, sent_ns), &mut bytes);
                let read = framing.read(&bytes).unwrap();
                prop_assert_eq!(framing.number(&read, number), number);
                prop_assert_eq!(read.sent_ns, sent_ns);
            }
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..80), wide: bool) {
            let _ = Framing::Iperf3 { wide }.read(&bytes);
            let iperf2 = Framing::Iperf2 { wide, ahead_ns: u64::MAX, agree: true };
            let _ = iperf2.read(&bytes).map(|mark| iperf2.number(&mark, 3));
            let _ = iperf2.end(&bytes);
            let _ = Framing::Native { token: 1, stream: 0 }.read(&bytes);
            for turn in [Some(Turn::ALONE), None] {
                let nuttcp = Framing::Nuttcp { size: 40, turn };
                let _ = (nuttcp.read(&bytes), nuttcp.end(&bytes), nuttcp.in_order(&bytes, 40, 3));
            }
        }
    }
}
