//! Units: every quantity that a user types or a record holds, with its parser and printer.
//!
//! Rates are decimal (1 kbit/s is 1000 bit/s) and so are byte counts with `k`, `M`, `G`; byte counts
//! with `Ki`, `Mi`, `Gi` are binary. Times are nanoseconds in `u64`, which last 584 years.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Why a text is no quantity. The text is kept, so that the message can name it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseUnitError {
    /// What was given.
    pub text: String,
    /// What would have been right, as the end of a sentence.
    pub expected: &'static str,
}

fn fail(text: &str, expected: &'static str) -> ParseUnitError {
    ParseUnitError { text: text.to_owned(), expected }
}

/// Splits `1.5G` into digits and suffix and multiplies without floating point, so that `0.1G` is
/// exactly 100,000,000.
fn scaled(number: &str, multiplier: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty())
        || !digits(whole)
        || !digits(fraction)
        || fraction.len() > 18
    {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut value = whole.checked_mul(u128::from(multiplier))?;
    if !fraction.is_empty() {
        let part: u128 = fraction.parse().ok()?;
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        value = value.checked_add(part.checked_mul(u128::from(multiplier))? / scale)?;
    }
    u64::try_from(value).ok()
}

fn split_suffix(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// Splits `1.5e9`, which is a whole number of ones, into `1.5` and 1,000,000,000. Anything but digits behind
/// the `e` is no exponent.
fn exponent(text: &str) -> Option<(&str, u64)> {
    let (number, power) = text.split_once(['e', 'E'])?;
    let power = power.strip_prefix('+').unwrap_or(power);
    let power = power.parse().ok().filter(|_| power.bytes().all(|b| b.is_ascii_digit()))?;
    Some((number, 10_u64.checked_pow(power)?))
}

/// Said of `10MB` where a rate belongs.
const BITS_NOT_BYTES: &str = "a rate: B stands for bytes, and rates are in bits per second, such as 80M for 10 million bytes";

/// Whether a rate is given in bytes: `10MB`, `10MB/s`, `10MBps`.
fn is_bytes(text: &str) -> bool {
    let (_, suffix) = split_suffix(text);
    ["B", "B/s", "Bps", "byte/s", "bytes/s"].iter().any(|unit| suffix.ends_with(unit))
}

/// A suffix without its unit: `Mbit/s`, `Mbps`, `mbit` and `Mb/s` are all `M`.
fn without_bits(suffix: &str) -> &str {
    const UNITS: [&str; 6] = ["bit/s", "bits/s", "bps", "b/s", "bits", "bit"];
    let lower = suffix.to_ascii_lowercase();
    let unit = UNITS.iter().find(|unit| lower.ends_with(*unit));
    unit.and_then(|unit| suffix.get(..suffix.len() - unit.len())).unwrap_or(suffix)
}

fn decimal(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        _ => return None,
    })
}

/// Bits per second of UDP or TCP payload. Decimal: 1 kbit/s is 1000 bit/s. Never zero: "unlimited"
/// is `None` of an `Option<BitRate>`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct BitRate(NonZeroU64);

impl BitRate {
    /// `None` for zero.
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        match NonZeroU64::new(bits_per_second) {
            Some(rate) => Some(Self(rate)),
            None => None,
        }
    }

    /// The number itself.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }
}

impl FromStr for BitRate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a rate in bits per second, such as 10M, 1.5G or 64k";
        if is_bytes(text) {
            return Err(fail(text, BITS_NOT_BYTES));
        }
        let value = match exponent(text) {
            Some((number, multiplier)) => scaled(number, multiplier),
            None => {
                let (number, suffix) = split_suffix(text);
                decimal(without_bits(suffix)).and_then(|multiplier| scaled(number, multiplier))
            }
        };
        value.and_then(Self::new).ok_or_else(|| fail(text, EXPECTED))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&si(self.0.get() as f64, "bit/s"))
    }
}

/// A rate that a sender is asked to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Bits of payload per second, over all streams of one direction.
    Bits(BitRate),
    /// Datagrams per second, over all streams of one direction.
    Datagrams(NonZeroU64),
}

impl Rate {
    /// The same rate as bits of payload per second for datagrams of `size`; saturates.
    pub fn bits_per_second(self, size: DatagramSize) -> u64 {
        match self {
            Self::Bits(rate) => rate.bits_per_second(),
            Self::Datagrams(rate) => rate.get().saturating_mul(size.bits()),
        }
    }

    /// `max` is `None`: no rate is asked for.
    pub fn parse_or_max(text: &str) -> Result<Option<Self>, ParseUnitError> {
        if text == "max" || text == "0" {
            return Ok(None);
        }
        text.parse().map(Some)
    }
}

impl FromStr for Rate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "a rate: bits per second as 10M or 1.5G, datagrams per second as 100kpps, or max";
        if let Some(number) = text.strip_suffix("pps") {
            let (number, suffix) = split_suffix(number);
            return decimal(suffix)
                .and_then(|m| scaled(number, m))
                .and_then(NonZeroU64::new)
                .map(Self::Datagrams)
                .ok_or_else(|| fail(text, EXPECTED));
        }
        text.parse()
            .map(Self::Bits)
            .map_err(|_| fail(text, if is_bytes(text) { BITS_NOT_BYTES } else { EXPECTED }))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(rate) => rate.fmt(f),
            Self::Datagrams(rate) => f.write_str(&si(rate.get() as f64, "datagrams/s")),
        }
    }
}

/// Bytes of UDP payload: the RFC 768 length less its 8-byte header. 1 to 65,507, which is what
/// IPv4 can carry; IPv6 without jumbograms can carry 20 more, which nobody uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct DatagramSize(u16);

impl DatagramSize {
    /// The largest that fits a 16-bit IPv4 total length with 20 bytes of IP and 8 of UDP header.
    pub const MAX: Self = Self(65_507);

    /// `None` outside 1 to 65,507.
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes >= 1 && bytes <= 65_507 { Some(Self(bytes as u16)) } else { None }
    }

    /// Bytes.
    pub const fn bytes(self) -> u16 {
        self.0
    }

    /// Bytes as a length for slices.
    pub const fn len(self) -> usize {
        self.0 as usize
    }

    /// Always false: there is no empty datagram here.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// Bits.
    pub const fn bits(self) -> u64 {
        self.0 as u64 * 8
    }
}

impl<'de> Deserialize<'de> for DatagramSize {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = u32::deserialize(deserializer)?;
        Self::new(bytes)
            .ok_or_else(|| serde::de::Error::custom("a datagram has 1 to 65507 bytes of payload"))
    }
}

/// A number of bytes typed by a user: `1472`, `64K` (64,000), `64Ki` or `64KiB` (65,536).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

impl FromStr for ByteCount {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a number of bytes, such as 1472, 4M (1000s) or 4Mi (1024s)";
        if let Some((number, multiplier)) = exponent(text) {
            return scaled(number, multiplier).map(Self).ok_or_else(|| fail(text, EXPECTED));
        }
        let (number, suffix) = split_suffix(text);
        let bare = suffix.strip_suffix('B').unwrap_or(suffix);
        let multiplier = match bare {
            "Ki" | "ki" => Some(1 << 10),
            "Mi" | "mi" => Some(1 << 20),
            "Gi" | "gi" => Some(1 << 30),
            "Ti" | "ti" => Some(1 << 40),
            other => decimal(other),
        };
        multiplier.and_then(|m| scaled(number, m)).map(Self).ok_or_else(|| fail(text, EXPECTED))
    }
}

impl fmt::Display for ByteCount {
    /// Binary where that is the shorter truth (`4 MiB`), decimal otherwise (`1.5 MB`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (shift, unit) in [(40u32, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if n >= 1 << shift && n.is_multiple_of(1 << shift) && n >> shift < 4_096 {
                return write!(f, "{} {unit}", n >> shift);
            }
        }
        f.write_str(&si(n as f64, "B"))
    }
}

/// A length of time in nanoseconds, typed as `10s`, `200ms`, `100us`, `2m`, `1h`, or a bare number
/// of seconds (as iperf3 takes it).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Whole seconds; saturates.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// Milliseconds; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Seconds, for records and screens only: never compute on with it.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// As the standard library's type.
    pub const fn as_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a length of time, such as 10s, 200ms, 100us or 2m";
        let (number, suffix) = split_suffix(text);
        let multiplier = match suffix {
            "" | "s" => NANOS_PER_SECOND,
            "ms" => 1_000_000,
            "us" | "µs" => 1_000,
            "ns" => 1,
            "m" | "min" => 60 * NANOS_PER_SECOND,
            "h" => 3_600 * NANOS_PER_SECOND,
            _ => return Err(fail(text, EXPECTED)),
        };
        scaled(number, multiplier).map(Self).ok_or_else(|| fail(text, EXPECTED))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        let (divisor, unit) = match n {
            0 => return f.write_str("0 s"),
            _ if n >= NANOS_PER_SECOND => (NANOS_PER_SECOND, "s"),
            _ if n >= 1_000_000 => (1_000_000, "ms"),
            _ if n >= 1_000 => (1_000, "us"),
            _ => (1, "ns"),
        };
        let text = format!("{:.3}", n as f64 / divisor as f64);
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A number with an SI prefix and four significant digits: `136.2 Mbit/s`, `24.86 Gbit/s`.
///
/// The step to the next prefix is taken after rounding, so 999,960 is `1.000 M` and never `1000 k`.
pub fn si(value: f64, unit: &str) -> String {
    let mut scaled = value;
    let prefixes = ["", "k", "M", "G", "T", "P"];
    let mut prefix = 0;
    while scaled.abs() >= 999.95 && prefix + 1 < prefixes.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    let digits = match scaled.abs() {
        s if prefix == 0 && s.fract() == 0.0 => 0,
        s if s < 9.9995 => 3,
        s if s < 99.995 => 2,
        _ => 1,
    };
    format!("{scaled:.digits$} {}{unit}", prefixes[prefix])
}

/// `20 737`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_and_exact() {
        for (text, bits) in [
            ("1", 1),
            ("64k", 64_000),
            ("10M", 10_000_000),
            ("1.5G", 1_500_000_000),
            ("0.1G", 100_000_000),
            ("100Mbit/s", 100_000_000),
            ("2.5Gbps", 2_500_000_000),
            (".5k", 500),
            ("1e9", 1_000_000_000),
            ("1.5E+9", 1_500_000_000),
            ("2.5e0001", 25),
            ("100mbit", 100_000_000),
            ("100Mbits/s", 100_000_000),
            ("1gbit/s", 1_000_000_000),
            ("9600bit/s", 9_600),
            ("10Mb/s", 10_000_000),
            ("64kBPS", 64_000),
        ] {
            assert_eq!(text.parse::<BitRate>().unwrap().bits_per_second(), bits, "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_its_own_text() {
        for text in [
            "",
            "0",
            "-1",
            "1e-3",
            "1e",
            "e9",
            "1e99",
            "1e20",
            "1e9M",
            "10MiB/x",
            "10X",
            "M",
            "1..5M",
            "99999999999999999999",
            "1 M",
            "NaN",
            "١M",
        ] {
            let error = text.parse::<BitRate>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is not a rate")), "{error}");
        }
    }

    #[test]
    fn bytes_are_no_bits() {
        for text in ["10MB", "10MB/s", "1.5GBps", "8B"] {
            for error in [text.parse::<BitRate>().unwrap_err(), text.parse::<Rate>().unwrap_err()] {
                assert!(error.to_string().contains("B stands for bytes"), "{error}");
            }
        }
        assert_eq!("1e6".parse(), Ok(ByteCount(1_000_000)));
        assert!("1e6Ki".parse::<ByteCount>().is_err());
    }

    #[test]
    fn packets_per_second_and_max() {
        let rate = "100kpps".parse::<Rate>().unwrap();
        assert_eq!(rate, Rate::Datagrams(NonZeroU64::new(100_000).unwrap()));
        assert_eq!(rate.bits_per_second(DatagramSize::new(1250).unwrap()), 1_000_000_000);
        assert_eq!(Rate::parse_or_max("max").unwrap(), None);
        assert!(Rate::parse_or_max("fast").is_err());
    }

    #[test]
    fn bytes_know_both_thousands() {
        assert_eq!("4M".parse(), Ok(ByteCount(4_000_000)));
        assert_eq!("4Mi".parse(), Ok(ByteCount(4 << 20)));
        assert_eq!("208KiB".parse(), Ok(ByteCount(208 << 10)));
        assert_eq!(ByteCount(4 << 20).to_string(), "4 MiB");
        assert_eq!(ByteCount(1_500_000).to_string(), "1.500 MB");
    }

    #[test]
    fn times_have_units_or_are_seconds() {
        assert_eq!("10".parse(), Ok(Nanos::from_secs(10)));
        assert_eq!("0.2s".parse(), Ok(Nanos::from_millis(200)));
        assert_eq!("100us".parse(), Ok(Nanos(100_000)));
        assert_eq!(Nanos(1_500_000).to_string(), "1.5 ms");
        assert!("10 s".parse::<Nanos>().is_err());
        assert!("infinity".parse::<Nanos>().is_err());
    }

    #[test]
    fn si_never_prints_four_digits_before_the_point() {
        assert_eq!(si(999_960.0, "bit/s"), "1.000 Mbit/s");
        assert_eq!(si(136_240_000.0, "bit/s"), "136.2 Mbit/s");
        assert_eq!(si(24_861_000_000.0, "bit/s"), "24.86 Gbit/s");
        assert_eq!(si(12.0, "B"), "12 B");
        assert_eq!(si(0.0, "bit/s"), "0 bit/s");
    }
}
