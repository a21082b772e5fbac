//! What a server says at the start of a TCP stream: that it is there, and its release.

use super::{put, word};

/// Bytes of it, without the times that clients with `--trip-times` are told.
pub const ACK_BYTES: usize = 28;

const TYPE: u32 = 2;

/// A server's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The server's release, as two words.
    pub version: (u32, u32),
}

impl Ack {
    /// As bytes.
    pub fn encode(&self) -> [u8; ACK_BYTES] {
        let mut bytes = [0; ACK_BYTES];
        let words = [TYPE, ACK_BYTES as u32, 0, self.version.0, self.version.1];
        for (offset, value) in (0..).step_by(4).zip(words) {
            put(&mut bytes, offset, value);
        }
        bytes
    }

    /// From bytes; `None` when they are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_ack = word(bytes, 0)? == TYPE && word(bytes, 4)? as usize >= ACK_BYTES;
        let version = (word(bytes, 12)?, word(bytes, 16)?);
        (is_ack && bytes.len() >= ACK_BYTES).then_some(Self { version })
    }
}
