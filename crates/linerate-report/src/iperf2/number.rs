//! Amounts with units, rounded as iperf 2 rounds.

use crate::number::in_units;

const BITS: [&str; 4] = ["bits", "Kbits", "Mbits", "Gbits"];
const BYTES: [&str; 4] = ["Bytes", "KBytes", "MBytes", "GBytes"];

/// Which of the units a letter of `-f` asks for.
fn power(letter: char) -> Option<usize> {
    "bkmg".find(letter.to_ascii_lowercase())
}

/// Bytes that were carried; `format` is a letter of `-f`.
pub(super) fn bytes(bytes: u64, format: Option<char>) -> String {
    match format.and_then(power) {
        Some(0) => format!("{bytes} Byte"),
        asked => in_units(bytes as f64, 1_024.0, &BYTES, asked),
    }
}

/// Bits a second; large letters of `-f` are of bytes.
pub(super) fn rate(bps: f64, format: Option<char>) -> String {
    let bytes = format.is_some_and(|letter| letter.is_ascii_uppercase());
    let rate = match (format.and_then(power), bytes) {
        (Some(0), false) => format!("{bps:.0} bits"),
        (Some(0), true) => format!("{:.0} Byte", bps / 8.0),
        (asked, true) => in_units(bps / 8.0, 1_024.0, &BYTES, asked),
        (asked, false) => in_units(bps, 1e3, &BITS, asked),
    };
    format!("{rate}/sec")
}

/// The size of a buffer.
pub(super) fn buffer(bytes: u64) -> String {
    in_units(bytes as f64, 1_024.0, &["Byte", "KByte", "MByte", "GByte"], None)
}

/// `part` of `whole` in percent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_as_there() {
        for (amount, text) in [
            (0, "0.00 Bytes"),
            (627_690, " 613 KBytes"),
            (1_258_291, "1.20 MBytes"),
            (3_231_962_358, "3.01 GBytes"),
        ] {
            assert_eq!(bytes(amount, None), text);
        }
        for (bps, text) in
            [(5.02e6, "5.02 Mbits/sec"), (25.8e9, "25.8 Gbits/sec"), (200e6, " 200 Mbits/sec")]
        {
            assert_eq!(rate(bps, None), text);
        }
        assert_eq!(
            (rate(5.02e6, Some('k')), bytes(1 << 20, Some('K'))),
            ("5020 Kbits/sec".into(), "1024 KBytes".into())
        );
        // Bytes, in the unit that fits.
        assert_eq!(rate(200e6, Some('A')), "23.8 MBytes/sec");
        assert_eq!(bytes(1 << 20, Some('A')), "1.00 MBytes");
        assert_eq!((buffer(212_992), buffer(16_384)), (" 208 KByte".into(), "16.0 KByte".into()));
    }
}
