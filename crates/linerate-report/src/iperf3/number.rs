//! Numbers as iperf3 writes them.

use crate::number::in_units;

/// `-f`: the unit of the rate column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Bits, in the unit that fits (the default).
    #[default]
    Adaptive,
    /// Bits, in this power of 1000.
    Bits(u8),
    /// Bytes, in this power of 1024.
    Bytes(u8),
}

impl Format {
    /// `k`, `m`, `g`, `t` and their upper cases.
    pub fn from_letter(letter: char) -> Option<Self> {
        let power = "kmgt".find(letter.to_ascii_lowercase())? as u8 + 1;
        Some(if letter.is_ascii_uppercase() { Self::Bytes(power) } else { Self::Bits(power) })
    }
}

const BITS: [&str; 5] = ["bits", "Kbits", "Mbits", "Gbits", "Tbits"];
const BYTES: [&str; 5] = ["Bytes", "KBytes", "MBytes", "GBytes", "TBytes"];

/// An amount of bytes.
pub(super) fn bytes(amount: u64) -> String {
    in_units(amount as f64, 1_024.0, &BYTES, None)
}

/// A rate without its `/sec`.
pub(super) fn rate(bits_per_second: f64, format: Format) -> String {
    match format {
        Format::Adaptive => in_units(bits_per_second, 1_000.0, &BITS, None),
        Format::Bits(power) => in_units(bits_per_second, 1_000.0, &BITS, Some(power.into())),
        Format::Bytes(power) => {
            in_units(bits_per_second / 8.0, 1_024.0, &BYTES, Some(power.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of the captured outputs and of C's printf.
    #[test]
    fn known_numbers() {
        for (amount, text) in [
            (0, "0.00 Bytes"),
            (1_448, "1.41 KBytes"),
            (10_000, "9.77 KBytes"),
            (130_048, " 127 KBytes"),
            (1_310_720, "1.25 MBytes"),
            (1_178_694, "1.12 MBytes"),
            (565_248, " 552 KBytes"),
        ] {
            assert_eq!(bytes(amount), text);
        }
        for (bits, format, text) in [
            (10_484_019.0, Format::Adaptive, "10.5 Mbits"),
            (9_996_132.0, Format::Adaptive, "10.0 Mbits"),
            (9_994_000.0, Format::Adaptive, "9.99 Mbits"),
            (80_000.0, Format::Adaptive, "80.0 Kbits"),
            (0.0, Format::Adaptive, "0.00 bits"),
            (25e9, Format::Bits(3), "25.0 Gbits"),
            (25e9, Format::Bits(2), "25000 Mbits"),
            (8.0 * 1_048_576.0, Format::Bytes(2), "1.00 MBytes"),
        ] {
            assert_eq!(rate(bits, format), text);
        }
        for (value, text) in [
            (0.0, "0"),
            (100.0, "1e+02"),
            (81.3, "81"),
            (9.96, "10"),
            (99.6, "1e+02"),
            (1.04, "1"),
            (0.125, "0.12"),
            (0.05, "0.05"),
            (0.000_05, "5e-05"),
            (0.012_34, "0.012"),
        ] {
            assert_eq!(crate::number::general(value, 2), text, "{value}");
        }
        assert_eq!(Format::from_letter('M'), Some(Format::Bytes(2)));
        assert_eq!(Format::from_letter('q'), None);
    }
}
