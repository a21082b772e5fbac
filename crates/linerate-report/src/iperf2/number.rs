//! Amounts with units, rounded as iperf 2 rounds.

/// Three figures.
fn three(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:4.2}"),
        v if v < 99.95 => format!("{v:4.1}"),
        v => format!("{v:4.0}"),
    }
}

/// A value with the largest unit of these that fits.
fn in_units(value: f64, base: f64, units: [&str; 4]) -> String {
    let [one, kilo, mega, giga] = units;
    let steps = [(giga, 3), (mega, 2), (kilo, 1)];
    let step = steps.iter().find(|(_, power)| value >= base.powi(*power));
    let (unit, power) = step.copied().unwrap_or((one, 0));
    format!("{} {unit}", three(value / base.powi(power)))
}

/// Bytes that were carried; `format` is a letter of `-f`.
pub(super) fn bytes(bytes: u64, format: Option<char>) -> String {
    let bytes = bytes as f64;
    let fixed = |power: i32, unit: &str| format!("{} {unit}", three(bytes / 1_024f64.powi(power)));
    match format {
        Some('b' | 'B') => format!("{bytes:.0} Byte"),
        Some('k' | 'K') => fixed(1, "KBytes"),
        Some('m' | 'M') => fixed(2, "MBytes"),
        Some('g' | 'G') => fixed(3, "GBytes"),
        _ => in_units(bytes, 1_024.0, ["Bytes", "KBytes", "MBytes", "GBytes"]),
    }
}

/// Bits a second; large letters of `-f` are of bytes.
pub(super) fn rate(bps: f64, format: Option<char>) -> String {
    let fixed = |value: f64, unit: &str| format!("{} {unit}/sec", three(value));
    match format {
        Some('b') => format!("{bps:.0} bits/sec"),
        Some('k') => fixed(bps / 1e3, "Kbits"),
        Some('m') => fixed(bps / 1e6, "Mbits"),
        Some('g') => fixed(bps / 1e9, "Gbits"),
        Some('B') => format!("{:.0} Byte/sec", bps / 8.0),
        Some('K') => fixed(bps / 8.0 / 1_024.0, "KBytes"),
        Some('M') => fixed(bps / 8.0 / 1_048_576.0, "MBytes"),
        Some('G') => fixed(bps / 8.0 / 1_073_741_824.0, "GBytes"),
        _ => format!("{}/sec", in_units(bps, 1e3, ["bits", "Kbits", "Mbits", "Gbits"])),
    }
}

/// The size of a buffer.
pub(super) fn buffer(bytes: u64) -> String {
    in_units(bytes as f64, 1_024.0, ["Byte", "KByte", "MByte", "GByte"])
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
        assert_eq!((buffer(212_992), buffer(16_384)), (" 208 KByte".into(), "16.0 KByte".into()));
    }
}
