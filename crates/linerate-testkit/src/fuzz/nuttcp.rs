//! nuttcp's dialect: lines of both ends, and datagrams.

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
        let told = heard::line(said.trim_end());
        let heard::Line::Interval(told) = told else { panic!("{told:?}") };
        assert!(heard::is_meant(told.bytes, span.bytes));
        // None of these is ever asked of a server.
        let known = Parameters { third_party: false, multicast: false, striding: false, ..asked };
        assert_eq!(Parameters::decode(&known.encode([8, 2, 2])), Ok(known.clone()));
        // A line of 6.1.2 has not all of it.
        let old = Parameters { core: None, burst: None, ..known };
        assert_eq!(Parameters::decode(&old.encode([6, 1, 2])), Ok(old));
        let _ = block::Reader::new(known.length as usize).read(data);
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
