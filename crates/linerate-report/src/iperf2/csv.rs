//! A line of CSV: time, who sends and to whom, ID, seconds, bytes, bit/s, and of UDP jitter in ms, lost, all,
//! percent, out of order.

use linerate_model::test_event::Stream;

use super::line::{Line, What};
use super::number::percent;

/// `what` is of the line, or what the server reports of a stream that was sent.
pub(super) fn row(digits: &str, id: u32, stream: &Stream, line: &Line, what: What) -> String {
    let (from, to) =
        if stream.sends { (stream.local, stream.remote) } else { (stream.remote, stream.local) };
    let mut row = format!(
        "{digits},{},{},{},{},{id},{:.1}-{:.1},{},{:.0}",
        from.ip(),
        from.port(),
        to.ip(),
        to.port(),
        line.from_s,
        line.to_s,
        line.bytes,
        line.bps()
    );
    match what {
        What::Sent { datagrams, .. } => row.push_str(&format!(",0.000,0,{datagrams},0.000,0")),
        What::Received { jitter_s, lost, all, reordered, .. } => row.push_str(&format!(
            ",{:.3},{lost},{all},{:.3},{}",
            jitter_s.unwrap_or(0.0) * 1e3,
            percent(lost, all),
            reordered.unwrap_or(0)
        )),
        What::Unknown => row.push_str(",0.000,0,-1,-0.000,0"),
        What::Wrote { .. } | What::Read { .. } => {}
    }
    row + "\n"
}
