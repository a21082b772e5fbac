//! Control messages on the wire: a 32-bit length in network byte order, then that many bytes of
//! JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::depth::{self, TooDeep};
use crate::prefixed;
pub use crate::prefixed::PREFIX_BYTES;

/// Most bytes of one message. Results of long tests travel as many messages (see
/// [`super::message`]), so none needs more.
pub const MAX_FRAME: usize = 65_536;

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is zero or above [`MAX_FRAME`]; nothing was allocated for it.
    #[error("a control message of {0} bytes (1 to {MAX_FRAME} are legal)")]
    Length(u32),
    /// Too deeply nested.
    #[error("{0}")]
    Depth(#[from] TooDeep),
    /// Not from the holder of the key, or not in its place.
    #[error("a control message that is not proven to be of the other end, in its place")]
    Unproven,
    /// No JSON, or not a message of this protocol.
    #[error("a control message that is not understood: {fault}", fault = prefixed::fault(.0))]
    Json(#[from] serde_json::Error),
}

impl From<snow::Error> for FrameError {
    fn from(_: snow::Error) -> Self {
        Self::Unproven
    }
}

/// The body's length, checked before anything is allocated for it.
///
/// # Errors
/// [`FrameError::Length`].
pub fn body_length(prefix: [u8; PREFIX_BYTES]) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(prefix);
    match usize::try_from(length) {
        Ok(n @ 1..=MAX_FRAME) => Ok(n),
        _ => Err(FrameError::Length(length)),
    }
}

/// Reads a message from a frame's body.
///
/// # Errors
/// When it is nested too deeply, is no JSON or no such message.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    depth::check(body)?;
    Ok(serde_json::from_slice(body)?)
}

/// A message as a frame, length and all.
///
/// # Errors
/// [`FrameError::Length`] when it is too long for one, which is a fault of the caller.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let (prefix, frame) = prefixed::write(message)?;
    body_length(prefix)?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::native::message::{ClientMessage, ServerMessage};

    #[test]
    fn lengths_at_their_borders() {
        for (length, legal) in [
            (0u32, false),
            (1, true),
            (65_536, true),
            (65_537, false),
            (1 << 31, false),
            (u32::MAX, false),
        ] {
            assert_eq!(body_length(length.to_be_bytes()).is_ok(), legal, "{length}");
        }
    }

    #[test]
    fn a_bomb_of_brackets_is_refused_before_decoding() {
        let bomb = "[".repeat(60_000);
        assert!(matches!(decode::<ClientMessage>(bomb.as_bytes()), Err(FrameError::Depth(_))));
        let text = format!("{{\"ping\":\"{}\"}}", "[".repeat(50));
        assert!(matches!(decode::<ClientMessage>(text.as_bytes()), Err(FrameError::Json(_))));
    }

    #[test]
    fn no_word_of_a_message_is_in_what_is_said_of_it() {
        for text in [r#"{"WORD":1}"#, r#"{"ping":"WORD"}"#, r#""WORD""#, "WORD", r#"{"WORD"#] {
            let body = text.replace("WORD", &"w".repeat(60_000));
            let why = decode::<ClientMessage>(body.as_bytes()).unwrap_err().to_string();
            assert!(why.len() < 200 && !why.contains("ww"), "{why}");
            assert!(why.contains("column "), "{why}");
        }
    }

    #[test]
    fn too_long_a_message_is_not_sent() {
        // With its quotes as long as a frame may be, and a byte longer.
        assert!(encode(&"x".repeat(MAX_FRAME - 2)).is_ok());
        assert!(encode(&"x".repeat(MAX_FRAME - 1)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(body in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let _ = decode::<ClientMessage>(&body);
            let _ = decode::<ServerMessage>(&body);
        }
    }
}
