//! nuttcp's dialect: lines of both ends, datagrams, and blocks of a stream.

use super::Input;
use linerate_wire::framing::Framing;
use linerate_wire::nuttcp::datagram::Turn;
use linerate_wire::nuttcp::results::{self, Span};
use linerate_wire::nuttcp::{Parameters, block, greeting, heard};

/// What comes on a control connection, line by line, each read as all that it may be; and the whole as a message of
/// datagrams.
pub fn nuttcp(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        let _ = greeting::release(line);
        let Ok(text) = std::str::from_utf8(line) else { continue };
        if let heard::Line::Interval(span) | heard::Line::Totals(span) = heard::line(text) {
            assert!(
                span.loss
                    .is_none_or(|(sent, lost)| sent <= i64::MAX as u64 && lost <= i64::MAX as u64)
            );
        }
        let Ok(asked) = Parameters::decode(line) else { continue };
        let span = Span { bytes: 1 << 20, ns: 1_000_000_000, loss: Some((3, 1)) };
        let said = results::interval(&asked, span, span);
        let line = heard::line(said.trim_end());
        let heard::Line::Interval(span_heard) = line else { panic!("{line:?}") };
        assert!(heard::is_meant(span_heard.bytes, span.bytes));
        // None of these is ever asked of a server.
        let known = Parameters { third_party: false, multicast: false, striding: false, ..asked };
        assert_eq!(Parameters::decode(&known.encode([8, 2, 2])), Ok(known.clone()));
        // A line of 6.1.2 has not all of it.
        let old = Parameters { core: None, burst: None, ..known };
        assert_eq!(Parameters::decode(&old.encode([6, 1, 2])), Ok(old));
    }
    let (size, message) = data.split_at(data.len().min(2));
    let size = size.iter().fold(0u32, |size, byte| size << 8 | u32::from(*byte));
    for turn in [Some(Turn::first_of(u16::try_from(size).unwrap_or(1))), None] {
        let framing = Framing::Nuttcp { size, turn };
        let segment = usize::try_from(size).unwrap_or(1).max(1);
        let run = framing.in_order(message, segment, 7);
        assert!(run <= message.len().div_ceil(segment));
        if let Ok(mark) = framing.read(message) {
            assert!(framing.end(message).is_none());
            let _ = framing.number(&mark, 7);
        }
    }
}

/// The longest block that is tried: one with many blocks behind it and one that never ends are both short.
const LONGEST_BLOCK: usize = 96;

/// A stream of blocks: their size, how long its pieces are, and what comes. A reader that has it in any pieces says the
/// same as one that looks at the whole of it.
pub fn nuttcp_blocks(data: &[u8]) {
    let mut input = Input(data);
    let size = usize::from(input.byte()) % LONGEST_BLOCK;
    let mut pieces =
        [input.byte(), input.byte(), input.byte()].into_iter().map(usize::from).cycle();
    let stream = input.0;
    let wanted = said(stream, size);
    let mut reader = block::Reader::new(size);
    let each: Vec<_> = stream.iter().filter_map(|byte| reader.read(&[*byte])).collect();
    assert_eq!(each, wanted);
    let (mut reader, mut rest, mut last) = (block::Reader::new(size), stream, None);
    while !rest.is_empty() {
        let length = pieces.next().unwrap_or(1).clamp(1, rest.len());
        let (piece, after) = rest.split_at(length);
        last = reader.read(piece).or(last);
        rest = after;
    }
    assert_eq!(last.as_ref(), wanted.last());
}

/// What each block of a stream says whose words are there.
fn said(stream: &[u8], size: usize) -> Vec<block::Said> {
    if size < block::LEAST_BYTES {
        return Vec::new();
    }
    let words = |block: &[u8]| {
        let word = |at: usize| block.get(at..).and_then(<[u8]>::first_chunk).copied();
        Some((u32::from_ne_bytes(word(24)?), u32::from_ne_bytes(word(28)?)))
    };
    let mut first = [0; block::LEAST_BYTES];
    block::write_first(&mut first);
    let Some((_, mark)) = words(&first) else { return Vec::new() };
    let all: Vec<_> = stream.chunks(size).filter_map(words).collect();
    let swapped = match all.first() {
        Some((_, window)) if *window == mark => false,
        Some((_, window)) if window.swap_bytes() == mark => true,
        _ => return Vec::new(),
    };
    let own = |word: u32| if swapped { word.swap_bytes() } else { word };
    let said = |(again, window)| block::Said {
        retransmits: own(again),
        window_kb: Some(own(window)).filter(|window| *window != mark),
    };
    all.into_iter().map(said).collect()
}
