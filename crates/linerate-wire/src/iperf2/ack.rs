//! What a server says at the start of a TCP stream: that it is there, and its release.

use super::{clock, put, put_clock, word};

/// Bytes of it, without times.
pub const ACK_BYTES: usize = 28;
/// Bytes of it, with them.
pub const MOST_ACK_BYTES: usize = 52;

const TYPE: u32 = 2;

/// A server's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The server's release, as two words.
    pub version: (u32, u32),
    /// Of `--trip-times`: when the client began, when the server heard of it and when it said this, by the wall clock of
    /// each, in nanoseconds.
    pub times_ns: Option<[u64; 3]>,
}

impl Ack {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let length = if self.times_ns.is_some() { MOST_ACK_BYTES } else { ACK_BYTES };
        let mut bytes = vec![0; length];
        let words = [TYPE, length as u32, 0, self.version.0, self.version.1];
        for (offset, value) in (0..).step_by(4).zip(words) {
            put(&mut bytes, offset, value);
        }
        for (offset, time_ns) in (ACK_BYTES..).step_by(8).zip(self.times_ns.into_iter().flatten()) {
            put_clock(&mut bytes, offset, time_ns);
        }
        bytes
    }

    /// How many bytes of it mean something, by its first [`ACK_BYTES`]; `None` when they are none. It may say that it has
    /// more than any release sends.
    pub fn length(bytes: &[u8]) -> Option<usize> {
        let length = usize::try_from(word(bytes, 4)?).ok()?;
        let known = word(bytes, 0)? == TYPE && length >= ACK_BYTES;
        known.then_some(if length == MOST_ACK_BYTES { MOST_ACK_BYTES } else { ACK_BYTES })
    }

    /// From bytes; `None` when they are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let length = Self::length(bytes)?;
        let version = (word(bytes, 12)?, word(bytes, 16)?);
        let times = (length == MOST_ACK_BYTES)
            .then(|| Some([clock(bytes, 28)?, clock(bytes, 36)?, clock(bytes, 44)?]));
        (bytes.len() >= length).then_some(Self { version, times_ns: times.flatten() })
    }
}
