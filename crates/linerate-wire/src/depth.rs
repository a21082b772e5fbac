//! Refuses deeply nested JSON before it is decoded.

/// Deepest nesting of JSON brackets; linerate's own messages need 8, iperf3's server output 7.
pub(crate) const MAX_DEPTH: usize = 16;

/// JSON nested deeper than any honest message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a control message nested deeper than {MAX_DEPTH}")]
pub struct TooDeep;

/// Counts brackets outside strings. Needs no valid JSON: what is wrong otherwise the decoder finds.
pub(crate) fn check(body: &[u8]) -> Result<(), TooDeep> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for &byte in body {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(TooDeep);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}
