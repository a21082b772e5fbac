//! What stands in nuttcp's values.

/// A number and the letters behind it.
fn parts(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let number: f64 = number.parse().ok()?;
    (number < 1e15).then_some((number, unit))
}

/// Bytes, of units of `each` where none is named.
pub(super) fn bytes(text: &str, each: u64) -> Option<u64> {
    let (number, unit) = parts(text)?;
    let each = match unit {
        "" => each,
        "b" | "B" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        "p" | "P" => 1 << 50,
        _ => return None,
    };
    Some((number * each as f64) as u64)
}

/// Nanoseconds; 0 means `default` of the unit. Intervals have no `days`.
pub(super) fn time(text: &str, default: f64, days: bool) -> Option<u64> {
    let (number, unit) = parts(text)?;
    let number = if number > 0.0 { number } else { default };
    let seconds = match unit {
        "" | "s" => 1.0,
        "m" | "M" => 60.0,
        "h" | "H" => 3_600.0,
        "d" | "D" if days => 86_400.0,
        _ => return None,
    };
    Some((number * seconds * 1e9) as u64)
}

/// How fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Speed {
    /// Bits a second; 0 is as fast as it goes.
    Bits(u64),
    /// Datagrams or writes a second.
    Packets(f64),
}

/// A rate, kbit/s where no unit is named.
pub(super) fn speed(text: &str) -> Option<Speed> {
    let (number, unit) = parts(text)?;
    let each = match unit {
        "" | "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        // 8.2.2 reads P in capitals as no unit, which nobody means: it is none here.
        "p" => return Some(Speed::Packets(number)),
        "kp" | "Kp" => return Some(Speed::Packets(number * 1e3)),
        "mp" | "Mp" => return Some(Speed::Packets(number * 1e6)),
        _ => return None,
    };
    Some(Speed::Bits((number * each) as u64))
}
