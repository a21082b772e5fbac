//! What a server wrote, as its client reads it: one line at a time, of either style.

use super::results::Span;

/// A server's megabytes have four decimals: this far from each other are two of them, in bytes.
pub const ROUNDED_BYTES: u64 = 105;
const MEGABYTE: f64 = 1_048_576.0;

/// One line of a server's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Line<'a> {
    /// It received so much in an interval.
    Interval(Span),
    /// No more of them.
    Done,
    /// It sent or received so much in all.
    Totals(Span),
    /// Percent of one core.
    Cpu(u32),
    /// Segments that TCP sent again.
    Retransmits(u64),
    /// Something that users are shown.
    Warning(&'a str),
    /// Anything else.
    Other,
}

/// What a line says, without its end.
pub fn line(text: &str) -> Line<'_> {
    if text == "DONE" {
        return Line::Done;
    }
    let said = ["nuttcp-t: ", "nuttcp-r: "].iter().find_map(|who| text.strip_prefix(who));
    let said = said.unwrap_or(text);
    if ["Warning", "Error", "Debug"].iter().any(|word| said.contains(word)) {
        return Line::Warning(said);
    }
    let words: Vec<&str> = said.split_whitespace().collect();
    figures(&words).or_else(|| values(&words)).unwrap_or(Line::Other)
}

/// The style for people: numbers, each before or after its unit.
fn figures<'a>(words: &[&str]) -> Option<Line<'a>> {
    match *words {
        [mb, "MB", "/", seconds, "sec", "=", rate, "Mbps", ref rest @ ..] => {
            let loss = match *rest {
                [lost, "/", sent, "~drop/pkt", ..] => Some((number(sent)?, number(lost)?)),
                _ => None,
            };
            Some(Line::Interval(span(mb, seconds, rate, loss)?))
        }
        [mb, "MB", "in", seconds, "real", "seconds", "=", _, "KB/sec", "=", rate, "Mbps", ..] => {
            Some(Line::Totals(span(mb, seconds, rate, None)?))
        }
        ["retrans", "=", again, ..] => Some(Line::Retransmits(number(again)?)),
        ["host-retrans", "=", ..] => None,
        [_, system, _, busy, ..] if system.ends_with("sys") => {
            Some(Line::Cpu(busy.strip_suffix('%')?.parse().ok()?))
        }
        _ => None,
    }
}

/// The style for programs: `key=value`.
fn values<'a>(words: &[&str]) -> Option<Line<'a>> {
    let value = |key: &str| {
        words.iter().find_map(|word| word.split_once('=').filter(|(k, _)| *k == key)).map(|w| w.1)
    };
    let (mb, rate) = (value("megabytes"), value("rate_Mbps"));
    if let (Some(mb), Some(seconds), Some(rate)) = (mb, value("real_seconds"), rate) {
        return Some(Line::Totals(span(mb, seconds, rate, None)?));
    }
    if let (Some(mb), Some(seconds), Some(rate)) = (mb, value("real_sec"), rate) {
        let loss = match (value("pkt"), value("drop")) {
            (Some(sent), Some(lost)) => Some((number(sent)?, number(lost)?)),
            _ => None,
        };
        return Some(Line::Interval(span(mb, seconds, rate, loss)?));
    }
    if value("stats") == Some("cpu") {
        return Some(Line::Cpu(value("cpu")?.strip_suffix('%')?.parse().ok()?));
    }
    Some(Line::Retransmits(number(value("retrans")?)?))
}

/// A number that is none of a real server's is none at all.
fn number(text: &str) -> Option<u64> {
    // Of a receiver that has copies, less than nothing is lost.
    let number: i64 = text.parse().ok()?;
    Some(u64::try_from(number).unwrap_or(0))
}

fn span(mb: &str, seconds: &str, mbps: &str, loss: Option<(u64, u64)>) -> Option<Span> {
    let of = |text: &str| text.parse::<f64>().ok().filter(|n| (0.0..1e15).contains(n));
    let (mb, seconds, mbps) = (of(mb)?, of(seconds)?, of(mbps)?);
    let bytes = mb * MEGABYTE;
    // The rate says more of the time than its two decimals, unless there are few digits of that.
    let (least, most) = ((seconds - 0.005).max(0.0) * 1e9, (seconds + 0.005) * 1e9);
    let by_rate = (mbps > 0.0 && mb > 0.0).then(|| (bytes * 8e3 / mbps).clamp(least, most));
    let ns = by_rate.unwrap_or(seconds * 1e9);
    // The casts saturate.
    Some(Span { bytes: bytes.round() as u64, ns: ns as u64, loss })
}

/// Whether a server may mean `bytes` by the `reported` of its megabytes.
pub fn is_meant(reported: u64, bytes: u64) -> bool {
    reported.abs_diff(bytes) <= ROUNDED_BYTES / 2 + 1
}
