//! A control connection of the native protocol: frames out of bytes and bytes out of messages.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;

use linerate_wire::native::auth::{Seal, Unseal};
use linerate_wire::native::frame::{self, FrameError, PREFIX_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A peer that takes longer than this to read a message is gone, in nanoseconds.
pub const WRITE_LIMIT_NS: u64 = 3_000_000_000;

/// Bytes that may wait for a peer that does not read.
pub const MOST_WAITING_BYTES: usize = 1 << 20;

/// Why a control connection ended.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The peer closed it.
    #[error("the other end closed the control connection")]
    Closed,
    /// It took too long.
    #[error("the other end was silent for too long")]
    Silent,
    /// The system reports.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Not this protocol.
    #[error("{0}")]
    Frame(FrameError),
    /// Somebody without the key said it, or changed, repeated or left out something.
    #[error(
        "a control message is not proven to be the other end's, in its place: somebody changed, \
         repeated, left out or added one"
    )]
    Unproven,
}

impl From<FrameError> for ControlError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Unproven => Self::Unproven,
            error => Self::Frame(error),
        }
    }
}

/// A message as a frame, sealed where there is a key.
///
/// # Errors
/// When it is too long for one.
pub fn encode<T: Serialize>(seal: Option<&mut Seal>, message: &T) -> Result<Vec<u8>, FrameError> {
    match seal {
        Some(seal) => seal.seal(message),
        None => frame::encode(message),
    }
}

/// A message from a frame's body, proven where there is a key.
///
/// # Errors
/// When it is none, or not proven.
pub fn decode<T: DeserializeOwned>(
    seal: Option<&mut Unseal>,
    body: &[u8],
) -> Result<T, ControlError> {
    match seal {
        Some(seal) => Ok(seal.open(body)?),
        None => Ok(frame::decode(body)?),
    }
}

/// Messages of one peer, from its bytes, wherever they are cut.
#[derive(Debug)]
pub struct Inbox<T> {
    seal: Option<Unseal>,
    bytes: Vec<u8>,
    messages: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Inbox<T> {
    /// Of a peer that seals what it says, where there is a key.
    pub fn new(seal: Option<Unseal>) -> Self {
        Self { seal, bytes: Vec::new(), messages: PhantomData }
    }

    /// More of them.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message that is whole. After an error there is none.
    ///
    /// # Errors
    /// When what came is no message, or not the peer's.
    pub fn take(&mut self) -> Result<Option<T>, ControlError> {
        let Some(prefix) = self.bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let end = PREFIX_BYTES + frame::body_length(*prefix)?;
        let Some(body) = self.bytes.get(PREFIX_BYTES..end) else { return Ok(None) };
        let message = decode(self.seal.as_mut(), body)?;
        self.bytes.drain(..end);
        Ok(Some(message))
    }
}

/// What waits to be sent to one peer. Putting a message in never waits.
#[derive(Debug)]
pub struct Outbox {
    seal: Option<Seal>,
    bytes: Vec<u8>,
    limit_ns: u64,
    moved_ns: u64,
    /// Bytes that were put in, and that are gone, ever.
    put: u64,
    gone: u64,
    /// Which of them must be gone by when.
    due: VecDeque<(u64, u64)>,
}

impl Outbox {
    /// What is said is sealed, where there is a key.
    pub fn new(seal: Option<Seal>) -> Self {
        Self {
            seal,
            bytes: Vec::new(),
            limit_ns: WRITE_LIMIT_NS,
            moved_ns: 0,
            put: 0,
            gone: 0,
            due: VecDeque::new(),
        }
    }

    /// For a peer that may take `limit_ns` to read.
    pub fn within(limit_ns: u64) -> Self {
        Self { limit_ns, ..Self::new(None) }
    }

    /// What waits.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts a message in at `now_ns`.
    ///
    /// # Errors
    /// When the peer has left too many bytes unread.
    pub fn put<T: Serialize>(&mut self, now_ns: u64, message: &T) -> Result<(), ControlError> {
        let frame = encode(self.seal.as_mut(), message)?;
        self.put_bytes(now_ns, &frame)
    }

    /// Puts bytes in as they are.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_bytes(&mut self, now_ns: u64, bytes: &[u8]) -> Result<(), ControlError> {
        if self.bytes.is_empty() {
            self.moved_ns = now_ns;
        }
        if self.bytes.len() + bytes.len() > MOST_WAITING_BYTES {
            return Err(ControlError::Silent);
        }
        self.bytes.extend_from_slice(bytes);
        self.put += bytes.len() as u64;
        Ok(())
    }

    /// Puts a message in that must be gone, with all that waits, within the limit.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn say<T: Serialize>(&mut self, now_ns: u64, message: &T) -> Result<(), ControlError> {
        self.put(now_ns, message)?;
        self.must_go(now_ns);
        Ok(())
    }

    /// All that waits must be gone within the limit, however much of it the peer takes meanwhile, and
    /// whatever is put in after it.
    pub fn must_go(&mut self, now_ns: u64) {
        self.due.push_back((self.put, now_ns.saturating_add(self.limit_ns)));
    }

    /// The kernel took so many bytes at `now_ns`.
    pub fn carried(&mut self, now_ns: u64, bytes: usize) {
        let bytes = bytes.min(self.bytes.len());
        self.bytes.drain(..bytes);
        self.moved_ns = now_ns;
        self.gone += bytes as u64;
        while self.due.front().is_some_and(|(end, _)| *end <= self.gone) {
            self.due.pop_front();
        }
    }

    /// When a peer that takes nothing is given up; nothing waits, nothing ends.
    pub fn deadline_ns(&self) -> Option<u64> {
        let moved = self.moved_ns.saturating_add(self.limit_ns);
        let due = self.due.front().map_or(moved, |(_, by)| (*by).min(moved));
        (!self.bytes.is_empty()).then_some(due)
    }

    /// Nothing goes to the peer any more.
    pub fn clear(&mut self) {
        self.gone = self.put;
        self.bytes.clear();
        self.due.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out_whole_wherever_it_is_cut() {
        let mut out = Outbox::new(None);
        let text = "x".repeat(50_000);
        let fits = (0..99).take_while(|_| out.put(0, &text).is_ok()).count();
        assert_eq!(fits, MOST_WAITING_BYTES / (PREFIX_BYTES + 50_002));
        let (mut inbox, mut came) = (Inbox::<String>::new(None), 0);
        while !out.bytes().is_empty() {
            let piece = out.bytes().iter().copied().take(7_777).collect::<Vec<_>>();
            inbox.put(&piece);
            out.carried(0, piece.len());
            while let Some(message) = inbox.take().expect("whole") {
                assert_eq!(message.len(), 50_000);
                came += 1;
            }
        }
        assert_eq!(came, fits);
    }

    #[test]
    fn a_peer_that_reads_nothing_is_given_up() {
        let mut out = Outbox::new(None);
        assert_eq!(out.deadline_ns(), None);
        out.put(5, &"live").expect("room");
        assert_eq!(out.deadline_ns(), Some(5 + WRITE_LIMIT_NS));
        // It takes a little, again and again: what must be gone is not gone for that.
        out.carried(1_000, 1);
        assert_eq!(out.deadline_ns(), Some(1_000 + WRITE_LIMIT_NS));
        out.say(2_000, &"result").expect("room");
        out.carried(9_000, 1);
        assert_eq!(out.deadline_ns(), Some(2_000 + WRITE_LIMIT_NS));
        // Nor does another word give the one before it more time.
        let result = out.bytes().len();
        out.say(10_000, &"again").expect("room");
        assert_eq!(out.deadline_ns(), Some(2_000 + WRITE_LIMIT_NS));
        out.carried(11_000, result);
        assert_eq!(out.deadline_ns(), Some(10_000 + WRITE_LIMIT_NS));
        out.carried(9_001, out.bytes().len());
        assert_eq!(out.deadline_ns(), None);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let mut inbox = Inbox::<String>::new(None);
        inbox.put(&[255, 0]);
        assert!(matches!(inbox.take(), Ok(None)));
        inbox.put(&[0, 1]);
        assert!(matches!(inbox.take(), Err(ControlError::Frame(FrameError::Length(0xff00_0001)))));
    }
}
