//! What dialects do differently, as facts: neither a data thread nor the record's assembly asks which dialect
//! it serves.

use crate::assemble::Outcome;

/// Of one dialect.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// The warm-up ends by time alone, for all streams at once. Its users see it, and numbers of datagrams go
    /// on after it. Otherwise each datagram says that it belongs to the warm-up, or the stream's first byte
    /// begins it, and nothing of it is shown.
    pub warm_by_time: bool,
    /// The measured time begins with the start of the test, and not with the first arrival.
    pub measured_from_start: bool,
    /// Data may come in the moment in which the start is known: whoever waits looks twice a millisecond.
    pub prompt: bool,
    /// Only the client says when a test ends, and may be late with it: a server's senders go on meanwhile.
    pub client_ends: bool,
    /// TCP is counted, filled and paced block by block.
    pub whole_blocks: bool,
    /// TCP connections outlive the data: what ends a stream is a word, not that it closes.
    pub streams_outlive: bool,
    /// Whether a datagram belongs to the opening of streams and not to the test.
    pub opens: fn(&[u8]) -> bool,
    /// Datagrams carry numbers, so that receivers see which are lost, doubled or out of order. Otherwise what
    /// is lost is what was sent less what was received, and copies hide it.
    pub numbered: bool,
    /// The peer reports a few totals: no intervals, nothing of its host, nothing that depends on the order
    /// of datagrams.
    pub brief: bool,
    /// Over TCP both ends count from the first byte to the last, warm-up included.
    pub exact_bytes: bool,
    /// What its protocol cannot carry of this test, in a sentence.
    pub missing: fn(&Outcome) -> Option<String>,
}
