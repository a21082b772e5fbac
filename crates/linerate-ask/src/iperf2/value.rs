//! What stands in iperf 2's values.

/// A number with a letter behind it: small ones are of 1000, large ones of 1024.
pub(super) fn scaled(text: &str) -> Option<f64> {
    let factor = |letter: char| match letter {
        'k' => Some(1e3),
        'm' => Some(1e6),
        'g' => Some(1e9),
        't' => Some(1e12),
        'K' => Some(1_024f64),
        'M' => Some(1_024f64.powi(2)),
        'G' => Some(1_024f64.powi(3)),
        'T' => Some(1_024f64.powi(4)),
        _ => None,
    };
    let last = text.chars().next_back()?;
    let (number, factor) = match factor(last) {
        Some(factor) => (text.strip_suffix(last)?, factor),
        None => (text, 1.0),
    };
    let value = number.parse::<f64>().ok()? * factor;
    (0.0..1e18).contains(&value).then_some(value)
}

/// Types of service that netperf's words do not have. 2.1.8 sets the first three as they are, unshifted.
const NAMED: [(&str, u8); 10] = [
    ("le", 0x04),
    ("nqb", 0x14),
    ("nqb2", 0xb4),
    ("ac_be", 0),
    ("ac_bk", 0x20),
    ("ac_vi", 0x80),
    ("ac_vo", 0xb8),
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
];

/// A type of service: a number, or the name of one.
pub(super) fn tos(text: &str) -> Option<u8> {
    let named = NAMED.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    named.map(|(_, tos)| *tos).or_else(|| crate::netperf::service(text).ok())
}
