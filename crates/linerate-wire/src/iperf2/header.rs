//! What a client asks for: the first bytes of a TCP stream, and of what follows the number in datagrams.

use std::num::NonZeroU16;

use super::datagram::MARK_BYTES;
use super::{clock, put, put_clock, word};

/// As this end writes it: the form of release 2.2, which all releases since 2.0.13 understand by their sources.
pub const HEADER_BYTES: usize = 64;
/// Over TCP with the time at which the test began, too.
pub const TIMED_HEADER_BYTES: u32 = 80;
/// When a test began (`--trip-times`) stands here over TCP, …
const BEGAN_AT: usize = HEADER_BYTES;
/// … and here in datagrams, behind words for frames.
const BEGAN_IN_DATAGRAM: usize = 96;
/// Of that time and the two words behind it, which are for rates of the kernel's pacing.
const BEGAN_BYTES: usize = 16;
/// Without an extension, as releases before 2.0.10 send it.
const BASE_BYTES: usize = 24;
/// Least bytes of one with an extension: as release 2.1.8 writes it.
const EXTENDED_BYTES: usize = 60;

const VERSION1: u32 = 0x8000_0000;
const EXTEND: u32 = 0x4000_0000;
const UDP_TESTS: u32 = 0x2000_0000;
const KEY: u32 = 0x1000_0000;
const WIDE: u32 = 0x0800_0000;
const VERSION2: u32 = 0x0400_0000;
const DETECT: u32 = 0x0200_0000;
const BOUNCE_BACK: u32 = 0x0080_0000;
const LENGTH: u32 = 0x0001_0000;
const RUN_NOW: u32 = 0x0000_0001;
/// A 1 in any other place is nobody's: the length, and trip times that are written small.
const KNOWN: u32 = VERSION1
    | EXTEND
    | UDP_TESTS
    | KEY
    | WIDE
    | VERSION2
    | DETECT
    | BOUNCE_BACK
    | LENGTH
    | RUN_NOW
    | 0x0002_fffe;

const TRIP_TIMES: u16 = 0x0010;
const PACKETS: u16 = 0x0080;
const RATE: u16 = 0x0100;
const REVERSE: u16 = 0x0400;
const FULL_DUPLEX: u16 = 0x0800;

/// When a test ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// After so many hundredths of a second.
    Time(u32),
    /// After so many bytes.
    Bytes(u32),
}

/// A stream that the server opens, to the client's address. It carries no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Back {
    /// Where the client listens (`-L`); `None` where that is no port.
    pub port: Option<NonZeroU16>,
    /// At once (`-d`), or after the client's own stream (`-r`).
    pub at_once: bool,
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Streams that begin at the same time (`-P`); 0 where it does not say.
    pub streams: u32,
    /// Bytes of a datagram or of a write; 0 where it does not say.
    pub length: u32,
    /// When it ends, where that is said.
    pub amount: Option<Amount>,
    /// Numbers of datagrams have 64 bits.
    pub wide: bool,
    /// The server sends, and the client does not (`-R`).
    pub reverse: bool,
    /// Both send, on this stream (`--full-duplex`).
    pub full_duplex: bool,
    /// The server shall open a stream of its own to the client (`-d`, `-r`).
    pub back: Option<Back>,
    /// The client waits for an [`Ack`](super::Ack) (`-X`).
    pub detect: bool,
    /// Requests and responses (`--bounceback`).
    pub bounce_back: bool,
    /// Delays are asked for, with clocks that agree (`--trip-times`): when the test began, by the client's wall
    /// clock in nanoseconds, of which whole microseconds and 32 bits of seconds travel.
    pub began_ns: Option<u64>,
    /// The client's release, as two words; absent in old ones.
    pub version: Option<(u32, u32)>,
    /// Rate in bit/s, if one was asked for; absent where the client counts packets.
    pub rate_bps: Option<u64>,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// They are fewer than so many.
    Short(usize),
    /// No client sets these flags: what came may be plain data.
    Flags,
}

impl Header {
    /// What a TCP stream begins with, and how many bytes it is.
    ///
    /// # Errors
    /// When they are too few, or no header.
    pub fn read(bytes: &[u8]) -> Result<(Self, usize), Unfit> {
        let flags = word(bytes, 0).ok_or(Unfit::Short(4))?;
        if flags & (VERSION1 | EXTEND | BOUNCE_BACK) == 0 || flags & !KNOWN != 0 {
            return Err(Unfit::Flags);
        }
        let extended = flags & EXTEND != 0;
        let said = (flags & if flags & KEY != 0 { 0xfffe } else { 0x01fe }) >> 1;
        let table = if extended { EXTENDED_BYTES } else { BASE_BYTES };
        let length = match usize::try_from(said) {
            Ok(said) if flags & LENGTH != 0 => said.max(table),
            _ => table,
        };
        if bytes.len() < length {
            return Err(Unfit::Short(length));
        }
        Ok((Self::parse(flags, bytes, BEGAN_AT), length))
    }

    /// What a datagram says behind its number; `None` where that is no header, or not a whole one: datagrams
    /// are as short as a user wants, but for the first.
    pub fn of_datagram(bytes: &[u8]) -> Option<Self> {
        let flags = word(bytes, 0)?;
        let least = if flags & EXTEND != 0 { EXTENDED_BYTES } else { BASE_BYTES };
        let known = flags & (VERSION1 | EXTEND) != 0 && flags & !KNOWN == 0;
        (known && bytes.len() >= least).then(|| Self::parse(flags, bytes, BEGAN_IN_DATAGRAM))
    }

    fn parse(flags: u32, bytes: &[u8], began_at: usize) -> Self {
        let at = |offset| word(bytes, offset).unwrap_or(0);
        let mut header = Self {
            // The top bits may hold a number of the transfer.
            streams: at(4) & 0xffff,
            length: at(12),
            amount: match at(20).cast_signed() {
                0 => None,
                n if n < 0 => Some(Amount::Time(n.unsigned_abs())),
                n => Some(Amount::Bytes(n.unsigned_abs())),
            },
            wide: flags & WIDE != 0,
            back: (flags & VERSION1 != 0).then(|| Back {
                port: u16::try_from(at(8)).ok().and_then(NonZeroU16::new),
                at_once: flags & RUN_NOW != 0,
            }),
            detect: flags & DETECT != 0,
            bounce_back: flags & BOUNCE_BACK != 0,
            ..Self::default()
        };
        if flags & EXTEND != 0 {
            let upper = header.extend(at(32), (at(36), at(40)), (at(48), at(52)));
            header.began_ns = if upper & TRIP_TIMES != 0 { clock(bytes, began_at) } else { None };
        }
        header
    }

    fn extend(&mut self, both: u32, version: (u32, u32), (low, high): (u32, u32)) -> u16 {
        let upper = (both >> 16) as u16;
        let is = |flag| upper & flag != 0;
        self.reverse = is(REVERSE);
        self.full_duplex = is(FULL_DUPLEX);
        self.version = Some(version);
        // Up to 2.0.13 a word that its test does not need is what blocks are filled with: all but the release, or with a
        // stream back the upper half of the rate.
        let filled = matches!(version, (0x0002_0000, minor) if minor < 0x000e_0000);
        let high = if filled { 0 } else { high >> 8 };
        let rate = u64::from(low) | u64::from(high) << 32;
        self.rate_bps = Some(rate).filter(|rate| *rate > 0 && !is(PACKETS));
        if filled && self.back.is_none() {
            *self = Self { wide: self.wide, version: self.version, ..Self::default() };
        }
        upper
    }

    /// As the first bytes of a stream, or of what follows the number in datagrams, which is what counts in 64 bits.
    pub fn encode(&self) -> Vec<u8> {
        let two_ways = self.reverse || self.full_duplex;
        let began = self.began_ns.is_some();
        // Datagrams have their numbers before this, and the length counts those; over TCP alone it counts the time.
        let (began_at, length) = match (self.wide, began) {
            (true, true) => (BEGAN_IN_DATAGRAM, BEGAN_IN_DATAGRAM + MARK_BYTES),
            (true, false) => (HEADER_BYTES, HEADER_BYTES + MARK_BYTES),
            (false, true) => (BEGAN_AT, BEGAN_AT + BEGAN_BYTES),
            (false, false) => (HEADER_BYTES, HEADER_BYTES),
        };
        let mut bytes = vec![0; began_at + if began { BEGAN_BYTES } else { 0 }];
        let mut flags = EXTEND | LENGTH;
        flags |= u32::try_from(length).unwrap_or(0) << 1;
        for (set, flag) in [
            (self.wide, WIDE),
            (self.wide && (two_ways || began), UDP_TESTS),
            (two_ways || self.detect, VERSION2),
            (self.detect, DETECT),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let mut upper = 0;
        for (set, flag) in [
            (self.reverse, REVERSE),
            (self.full_duplex, FULL_DUPLEX),
            (began, TRIP_TIMES),
            (self.rate_bps.is_some(), RATE),
        ] {
            upper |= if set { flag } else { 0 };
        }
        let amount = match self.amount {
            None => 0,
            Some(Amount::Time(hundredths)) => hundredths.min(i32::MAX as u32).wrapping_neg(),
            Some(Amount::Bytes(bytes)) => bytes.min(i32::MAX as u32),
        };
        let rate = self.rate_bps.unwrap_or(0);
        let (major, minor) = self.version.unwrap_or(OURS);
        for (offset, value) in [
            (0, flags),
            (4, self.streams),
            (12, self.length),
            (20, amount),
            (32, u32::from(upper) << 16),
            (36, major),
            (40, minor),
            (48, rate as u32),
            (52, ((rate >> 32) as u32) << 8),
        ] {
            put(&mut bytes, offset, value);
        }
        if let Some(began_ns) = self.began_ns {
            put_clock(&mut bytes, began_at, began_ns);
        }
        bytes
    }
}

/// The release whose form of the header this is.
const OURS: (u32, u32) = (0x0002_0002, 0x0001_0001);
