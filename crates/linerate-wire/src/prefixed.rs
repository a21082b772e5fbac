//! JSON documents as both protocols send them: a 32-bit length in network byte order, then the document.

use serde::Serialize;
use serde_json::error::Category;

/// Bytes of the length.
pub const PREFIX_BYTES: usize = 4;

/// A document and its length before it, and that length as it is sent: the largest of 32 bits where it
/// is longer. Each protocol checks it against its own limit.
pub(crate) fn write<T: Serialize>(
    document: &T,
) -> serde_json::Result<([u8; PREFIX_BYTES], Vec<u8>)> {
    let mut frame = vec![0; PREFIX_BYTES];
    serde_json::to_writer(&mut frame, document)?;
    let length = frame.len() - PREFIX_BYTES;
    let prefix = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(start) = frame.first_chunk_mut::<PREFIX_BYTES>() {
        *start = prefix;
    }
    Ok((prefix, frame))
}

/// What is wrong with a document, without its own words: a peer chooses those, and these go into logs.
pub(crate) fn fault(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        Category::Data => "it has not the fields and values that are due",
        Category::Eof => "it ends too early",
        Category::Syntax | Category::Io => "it is no JSON",
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}
