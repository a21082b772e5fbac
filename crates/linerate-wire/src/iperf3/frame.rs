//! JSON on the control connection: a 32-bit length in network byte order, then that many bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::depth::{self, TooDeep};
use crate::prefixed;
pub use crate::prefixed::PREFIX_BYTES;

/// Most bytes of [`super::Parameters`]: what releases from 3.18 on accept.
pub const MAX_PARAMETERS: usize = 8_192;
/// Most bytes of a client's results: 256 streams at 300 bytes each fit three times over.
pub const MAX_CLIENT_RESULTS: usize = 256 << 10;
/// Most bytes of a server's results, which may hold all it printed (`--get-server-output`). iperf3
/// itself has no limit here.
pub const MAX_SERVER_RESULTS: usize = 16 << 20;

/// Why bytes are no document.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is zero or above the limit; nothing was allocated for it.
    #[error("a JSON document of {length} bytes (1 to {most} are legal)")]
    Length {
        /// As reported.
        length: u64,
        /// The limit.
        most: usize,
    },
    /// Too deeply nested.
    #[error("{0}")]
    Depth(#[from] TooDeep),
    /// No JSON, or not the document that is due.
    #[error("a JSON document that is not understood: {fault}", fault = prefixed::fault(.0))]
    Json(#[from] serde_json::Error),
}

/// The body's length, checked before anything is allocated for it. `most` is one of the limits of
/// this module.
///
/// # Errors
/// [`FrameError::Length`].
pub fn body_length(prefix: [u8; PREFIX_BYTES], most: usize) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(prefix);
    match usize::try_from(length) {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        _ => Err(FrameError::Length { length: length.into(), most }),
    }
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8], most: usize) -> Result<T, FrameError> {
    if body.len() > most {
        return Err(FrameError::Length { length: body.len() as u64, most });
    }
    depth::check(body)?;
    Ok(serde_json::from_slice(body)?)
}

pub(super) fn encode<T: Serialize>(document: &T, most: usize) -> Result<Vec<u8>, FrameError> {
    let (prefix, frame) = prefixed::write(document)?;
    body_length(prefix, most)?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_at_their_borders() {
        for (length, legal) in [
            (0u32, false),
            (1, true),
            (8_192, true),
            (8_193, false),
            (1 << 31, false),
            (u32::MAX, false),
        ] {
            assert_eq!(
                body_length(length.to_be_bytes(), MAX_PARAMETERS).is_ok(),
                legal,
                "{length}"
            );
        }
    }

    #[test]
    fn too_long_or_too_deep_is_refused_both_ways() {
        assert!(encode(&"x".repeat(10), 11).is_err());
        assert!(decode::<String>(b"\"xxxx\"", 5).is_err());
        let bomb = "[".repeat(8_000);
        let read = decode::<serde::de::IgnoredAny>(bomb.as_bytes(), MAX_PARAMETERS);
        assert!(matches!(read, Err(FrameError::Depth(_))));
    }
}
