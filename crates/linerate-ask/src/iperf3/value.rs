//! Values of options.

use super::{Parsed, Stop, wrong};

/// A number with k, m, g or t behind it, of that base; letters after the first are not read.
fn scaled(text: &str, base: f64, what: &str) -> Parsed<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: f64 = match number.parse() {
        Ok(number) => number,
        Err(_) => return wrong(format!("bad value for {what}: {text}")),
    };
    let power = match suffix.chars().next().map(|c| c.to_ascii_lowercase()) {
        None => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some(_) => return wrong(format!("bad unit in {what}: {text}")),
    };
    let value = number * f64::powi(base, power);
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        wrong(format!("bad value for {what}: {text}"))
    }
}

/// Bytes: base 1024.
pub(super) fn size(text: &str, what: &str) -> Parsed<u64> {
    scaled(text, 1_024.0, what).map(|value| value as u64)
}

/// bit/s: base 1000.
pub(super) fn bits(text: &str, what: &str) -> Parsed<u64> {
    scaled(text, 1_000.0, what).map(|value| value as u64)
}

/// A whole number within a range.
pub(super) fn whole<T: TryFrom<u64> + PartialOrd>(
    text: &str,
    range: std::ops::RangeInclusive<T>,
    complaint: &str,
) -> Parsed<T> {
    let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
    match value.and_then(|v| T::try_from(v as u64).ok()) {
        Some(value) if range.contains(&value) => Ok(value),
        _ => wrong(complaint),
    }
}

/// Decimal, octal with a leading 0, hexadecimal with 0x.
pub(super) fn any_base(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// The type of service of a code point's name or number.
pub(super) fn dscp(text: &str) -> Option<u8> {
    let name = text.to_ascii_lowercase();
    let named = match name.as_str() {
        "lowdelay" => return Some(0x10),
        "throughput" => return Some(0x08),
        "reliability" => return Some(0x04),
        "ef" => Some(46),
        "va" => Some(44),
        _ => None,
    };
    let class = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse::<u64>().ok());
    let value = named
        .or_else(|| class("cs").filter(|n| *n < 8).map(|n| n * 8))
        .or_else(|| {
            let (x, y) = class("af").map(|n| (n / 10, n % 10))?;
            ((1..=4).contains(&x) && (1..=3).contains(&y)).then_some(x * 8 + y * 2)
        })
        .or_else(|| any_base(text))?;
    u8::try_from(value).ok().filter(|v| *v < 64).map(|v| v << 2)
}

/// `host` or `host%interface`, where the interface belongs to a link-local address.
pub(super) fn client_host(text: &str) -> Parsed<String> {
    match text.split_once('%') {
        Some((address, _)) if !address.to_ascii_lowercase().starts_with("fe80") => {
            Err(Stop::Refused(format!(
                "-c {text}: binding to an interface is not supported; bind to its address with -B"
            )))
        }
        _ => Ok(text.to_owned()),
    }
}

/// `-A n,m`: the core here and the one there.
pub(super) fn affinity(text: &str) -> Parsed<(Option<u16>, Option<u16>)> {
    let core = |text: &str| -> Parsed<Option<u16>> {
        match text {
            "" => Ok(None),
            text => whole(text, 0..=1_024, "CPU affinity out of range: -A n or -A n,m").map(Some),
        }
    };
    match text.split_once([',', '/']) {
        Some((here, there)) => Ok((core(here)?, core(there)?)),
        None => Ok((core(text)?, None)),
    }
}
