//! Numbers as the C library reads them.

/// White space of the C locale.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Reads the longest number at the start of `text` as the C function `strtod` does, with leading
/// white space, hexadecimal, `inf` and `nan(…)`: the value and how many bytes it took, 0 when there
/// is no number.
pub fn parse_c_double(text: &[u8]) -> (f64, usize) {
    let start = text.iter().take_while(|b| is_space(**b)).count();
    let mut at = start;
    let mut negative = false;
    if let Some(sign @ (b'+' | b'-')) = text.get(at) {
        negative = *sign == b'-';
        at += 1;
    }
    let rest = text.get(at..).unwrap_or_default();
    let Some((magnitude, length)) =
        hexadecimal(rest).or_else(|| decimal(rest)).or_else(|| word(rest))
    else {
        return (0.0, 0);
    };
    (if negative { -magnitude } else { magnitude }, at + length)
}

fn starts_with_word(text: &[u8], word: &str) -> bool {
    text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word.as_bytes()))
}

fn word(text: &[u8]) -> Option<(f64, usize)> {
    if starts_with_word(text, "infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts_with_word(text, "inf") {
        return Some((f64::INFINITY, 3));
    }
    if !starts_with_word(text, "nan") {
        return None;
    }
    let tag = text.get(3..).unwrap_or_default();
    let length = tag.strip_prefix(b"(").and_then(|inside| {
        let name = inside.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        (inside.get(name) == Some(&b')')).then_some(name + 2)
    });
    Some((f64::NAN.abs(), 3 + length.unwrap_or(0)))
}

fn digits_at(text: &[u8], at: usize) -> usize {
    text.iter().skip(at).take_while(|b| b.is_ascii_digit()).count()
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let whole = digits_at(text, 0);
    let mut end = whole;
    let mut fraction = 0;
    if text.get(end) == Some(&b'.') {
        fraction = digits_at(text, end + 1);
        if whole + fraction == 0 {
            return None;
        }
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits_at(text, end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    // The standard library rounds as correctly as the C library does, so the double is the same.
    let number = std::str::from_utf8(text.get(..end)?).ok()?.parse().ok()?;
    Some((number, end))
}

fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    if !starts_with_word(text, "0x") {
        return None;
    }
    let mut at = 2;
    let (mut bits, mut scale, mut any, mut lost, mut seen_point) =
        (0u64, 0i64, false, false, false);
    while let Some(byte) = text.get(at) {
        if *byte == b'.' && !seen_point {
            seen_point = true;
        } else if let Some(digit) = char::from(*byte).to_digit(16) {
            any = true;
            if bits >> 59 == 0 {
                bits = bits << 4 | u64::from(digit);
            } else {
                // Beyond 60 bits only "was there anything" matters for rounding.
                lost |= digit != 0;
                scale += 4;
            }
            if seen_point {
                scale -= 4;
            }
        } else {
            break;
        }
        at += 1;
    }
    if !any {
        return None;
    }
    if let Some(b'p' | b'P') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let count = digits_at(text, at + 1 + sign);
        if count > 0 {
            let written =
                std::str::from_utf8(text.get(at + 1 + sign..at + 1 + sign + count)?).ok()?;
            let power = written.parse::<i64>().unwrap_or(1 << 40).min(1 << 40);
            scale += if text.get(at + 1) == Some(&b'-') { -power } else { power };
            at += 1 + sign + count;
        }
    }
    Some((scaled(bits << 1 | u64::from(lost), scale - 1), at))
}

/// `bits` x 2^`scale`, rounded once, to even.
fn scaled(bits: u64, scale: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let exponent = 63 - i64::from(bits.leading_zeros()) + scale;
    if exponent > 1023 {
        return f64::INFINITY;
    }
    if exponent < -1080 {
        return 0.0;
    }
    // Number of bits that the result can hold: 53, fewer where it is subnormal.
    let kept = (53 + (exponent + 1022).min(0)).max(0);
    let drop = 64 - i64::from(bits.leading_zeros()) - kept;
    let (mut mantissa, mut scale) = (bits, scale);
    if drop > 0 {
        let low = u128::from(bits) & ((1u128 << drop) - 1);
        let half = 1u128 << (drop - 1);
        mantissa = if drop >= 64 { 0 } else { bits >> drop };
        if low > half || (low == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
        scale += drop;
    }
    // Two exact steps, because one power of two may be out of range by itself.
    let first = scale / 2;
    let power = |s: i64| 2f64.powi(i32::try_from(s).unwrap_or(0));
    mantissa as f64 * power(first) * power(scale - first)
}

/// `-?digits[.digits]` of at most 15 digits, and nothing else. Both parts of the division are exact doubles, so its
/// one rounding gives the double nearest to the written number, as every correct reader does.
#[inline]
pub fn plain_number(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] =
        [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut whole: u64 = 0;
    let mut point = None;
    for (i, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            whole = whole * 10 + u64::from(digit);
        } else if *byte == b'.' && point.is_none() {
            point = Some(i);
        } else {
            return None;
        }
    }
    let decimals = point.map_or(0, |i| digits.len() - 1 - i);
    let count = digits.len() - usize::from(point.is_some());
    if count == 0 || count > 15 {
        return None;
    }
    let value = whole as f64 / POWERS.get(decimals)?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_strtod_reads() {
        for (text, value, length) in [
            ("12.5e3x", 12_500.0, 6),
            ("1e", 1.0, 1),
            (".5", 0.5, 2),
            ("5.", 5.0, 2),
            (".", 0.0, 0),
            ("0x1.8p1", 3.0, 7),
            ("0x", 0.0, 1),
            ("0x.8", 0.5, 4),
            ("0x1p-1074", 5e-324, 9),
            ("0x1.fffffffffffff8p0", 2.0, 20),
            ("  +7 ", 7.0, 4),
            ("-inf", f64::NEG_INFINITY, 4),
            ("Infinity", f64::INFINITY, 8),
            ("infinit", f64::INFINITY, 3),
            ("", 0.0, 0),
            ("+ 5", 0.0, 0),
        ] {
            assert_eq!(parse_c_double(text.as_bytes()), (value, length), "{text}");
        }
        let (nan, length) = parse_c_double(b"-nan(ab_1)");
        assert!(nan.is_nan() && nan.is_sign_negative() && length == 10);
    }
}
