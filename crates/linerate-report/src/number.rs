//! How numbers are written: four significant digits where a quantity was measured, every digit
//! where something was counted, and nothing rounded into a lie. None of these panics or prints an
//! odd word for a number that makes no sense, since numbers may come from a peer.

use linerate_model::units::si;

/// What stands for a value that was not or could not be measured. Never zero.
pub const ABSENT: &str = "-";

pub use linerate_model::units::grouped as integer;

/// A value in its words, or [`ABSENT`].
pub fn or_absent<T>(value: Option<T>, words: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), words)
}

/// A count in at most `width` columns: exact where it fits, else with a prefix (`20.74 M`).
pub fn count(value: u64, width: usize) -> String {
    let exact = integer(value);
    if exact.len() <= width { exact } else { si(value as f64, "").trim_end().to_owned() }
}

/// `136.2 Mbit/s`.
pub fn rate(bits_per_second: f64) -> String {
    if !bits_per_second.is_finite() {
        return ABSENT.to_owned();
    }
    si(bits_per_second, "bit/s")
}

/// `136.2 M`, for a column whose head has the unit.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    si(value, "").trim_end().to_owned()
}

/// Whether a unit is one of those that records have and that are read with a prefix.
pub fn takes_prefix(unit: &str) -> bool {
    matches!(unit, "bit/s" | "datagrams/s" | "transactions/s" | "bit/CPU-s" | "s")
}

/// The size and name of the prefix with which an axis up to `most` is read best; none for a unit
/// that takes none.
pub fn prefix(unit: Option<&str>, most: f64) -> (f64, &'static str) {
    if !unit.is_some_and(takes_prefix) {
        return (1.0, "");
    }
    prefix_between(1e-9, 1e12, most).unwrap_or((1.0, ""))
}

/// The largest prefix of these sizes that is not above `most`.
pub(crate) fn prefix_between(least: f64, largest: f64, most: f64) -> Option<(f64, &'static str)> {
    let prefixes = [
        (1e-9, "n"),
        (1e-6, "µ"),
        (1e-3, "m"),
        (1.0, ""),
        (1e3, "k"),
        (1e6, "M"),
        (1e9, "G"),
        (1e12, "T"),
    ];
    let fits = |(size, _): &(f64, &str)| (least..=largest).contains(size) && most >= *size;
    prefixes.into_iter().rfind(fits)
}

/// A value of any unit: `136.2 Mbit/s`, `24.03 ktransactions/s`, `8247.04 things/s`.
pub fn measured(value: f64, unit: Option<&str>) -> String {
    match unit {
        Some("s") => seconds(value),
        Some(unit) if takes_prefix(unit) && value.is_finite() => si(value, unit),
        Some(unit) => format!("{} {unit}", plain(value)),
        None => plain(value),
    }
}

/// Six significant digits, written out: whole numbers are not rounded.
pub fn plain(value: f64) -> String {
    if (1e6..1e15).contains(&value.abs()) {
        return format!("{value:.0}");
    }
    general(value, 6)
}

/// `151.4 µs`, `12.34 ms`, `10.00 s`.
pub fn seconds(value: f64) -> String {
    seconds_with(value, 4)
}

/// `151 µs`, `12.3 ms`, `10.0 s`: for a column.
pub fn seconds_short(value: f64) -> String {
    seconds_with(value, 3)
}

fn seconds_with(value: f64, significant: usize) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    if value == 0.0 {
        return "0 s".to_owned();
    }
    // What rounds up to 1000 of a unit is 1 of the next.
    let most = 1000.0 - 0.5 * 10f64.powi(3 - significant as i32);
    let (mut scaled, mut unit) = (value * 1e9, "ns");
    for next in ["µs", "ms", "s"] {
        if scaled.abs() < most {
            break;
        }
        scaled /= 1e3;
        unit = next;
    }
    let before = match scaled.abs() {
        s if s < most / 100.0 => 1,
        s if s < most / 10.0 => 2,
        _ => 3,
    };
    let digits = significant.saturating_sub(before);
    let digits = if unit == "ns" && scaled.fract() == 0.0 { 0 } else { digits };
    format!("{scaled:.digits$} {unit}")
}

/// A length of time that somebody chose: `10 s`, `0.5 s`, `1 h`-like values as seconds.
pub fn chosen_seconds(value: f64) -> String {
    let text = format!("{value:.3}");
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A share of loss: `0 %` only when nothing was lost, `100 %` only when everything was.
pub fn loss(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        p if !p.is_finite() || p < 0.0 => ABSENT.to_owned(),
        0.0 => "0 %".to_owned(),
        100.0 => "100 %".to_owned(),
        p if p > 99.99 && p < 100.0 => ">99.99 %".to_owned(),
        p if p < 0.000_1 => "<0.0001 %".to_owned(),
        p if p < 0.1 => format!("{p:.4} %"),
        p if p < 1.0 => format!("{p:.3} %"),
        p => format!("{p:.2} %"),
    }
}

/// A share of a core: `12 %`, `1.2 %`, `<0.1 %`; more than 100 % is several cores.
pub fn cpu(percent: f64) -> String {
    match percent {
        p if !p.is_finite() || p < 0.0 => ABSENT.to_owned(),
        0.0 => "0 %".to_owned(),
        p if p < 0.1 => "<0.1 %".to_owned(),
        p if p < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// Three digits, as iperf writes them: at least four columns.
fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:4.2}"),
        v if v < 99.95 => format!("{v:4.1}"),
        v => format!("{v:4.0}"),
    }
}

/// Three digits in the largest of `units` that fits, each `step` of the one before, or in the one that was
/// asked for: as iperf 2 and iperf3 write amounts and rates.
pub(crate) fn in_units(value: f64, step: f64, units: &[&str], asked: Option<usize>) -> String {
    let fits = |power: &usize| value >= step.powi(*power as i32);
    let power = asked.or_else(|| (1..units.len()).rfind(fits)).unwrap_or(0);
    let unit = units.get(power).copied().unwrap_or_default();
    format!("{} {unit}", three_digits(value / step.powi(power as i32)))
}

/// A number of bytes: `208 KiB`, `1.477 MB`.
pub fn bytes(value: u64) -> String {
    linerate_model::units::ByteCount(value).to_string()
}

/// A signed number of parts per million: `+2.4 ppm`.
pub fn ppm(value: f64) -> String {
    match value {
        p if !p.is_finite() => ABSENT.to_owned(),
        0.0 => "0 ppm".to_owned(),
        p if p.abs() < 0.05 => "<0.1 ppm".to_owned(),
        p if p.abs() < 100.0 => format!("{p:+.1} ppm"),
        p => format!("{p:+.0} ppm"),
    }
}

/// Prints as `%.{digits}g` does: `digits` significant digits, trailing zeros removed, an exponent
/// below 1e-4 and from 10^digits on, `inf`, `nan` and `-nan`.
pub fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let whole_digits = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= whole_digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(whole_digits - 1 - exponent).unwrap_or(0);
    trim_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_grouped() {
        assert_eq!(integer(0), "0");
        assert_eq!(integer(999), "999");
        assert_eq!(integer(20_737), "20 737");
        assert_eq!(integer(u64::MAX), "18 446 744 073 709 551 615");
        assert_eq!(count(1_234_567, 7), "1.235 M");
        assert_eq!(count(20_737, 7), "20 737");
    }

    #[test]
    fn a_little_loss_is_not_none_and_not_all() {
        assert_eq!(loss(0.0), "0 %");
        assert_eq!(loss(1e-9), "<0.0001 %");
        assert_eq!(loss(1.5e-6), "0.0002 %");
        assert_eq!(loss(0.004_24), "0.424 %");
        assert_eq!(loss(0.152_62), "15.26 %");
        assert_eq!(loss(0.999_999), ">99.99 %");
        assert_eq!(loss(1.0), "100 %");
        assert_eq!(loss(f64::NAN), "-");
    }

    #[test]
    fn times_have_four_digits_and_a_fitting_unit() {
        assert_eq!(seconds(80e-6), "80.00 µs");
        assert_eq!(seconds(0.999_96e-3), "1.000 ms");
        assert_eq!(seconds(12.0e-9), "12 ns");
        assert_eq!(seconds(61.5), "61.50 s");
        assert_eq!(seconds_short(9.996e-6), "10.0 µs");
        assert_eq!(seconds_short(0.9996e-3), "1.00 ms");
        assert_eq!(seconds_short(402e-6), "402 µs");
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!(seconds(f64::INFINITY), "-");
        assert_eq!(chosen_seconds(10.0), "10 s");
        assert_eq!(chosen_seconds(0.25), "0.25 s");
        assert_eq!(measured(48.21e-6, Some("s")), "48.21 µs");
    }

    #[test]
    fn shares_of_a_core() {
        assert_eq!(cpu(0.0), "0 %");
        assert_eq!(cpu(0.01), "<0.1 %");
        assert_eq!(cpu(1.24), "1.2 %");
        assert_eq!(cpu(9.97), "10 %");
        assert_eq!(cpu(183.2), "183 %");
    }

    #[test]
    fn rates_in_short_have_no_hanging_space() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(149_120_000.0), "149.1 M");
        assert_eq!(rate(f64::NAN), "-");
        assert_eq!(ppm(2.44), "+2.4 ppm");
        assert_eq!(ppm(-0.01), "<0.1 ppm");
    }

    #[test]
    fn prints_like_percent_g() {
        for (value, digits, text) in [
            (0.0, 8, "0"),
            (-0.0, 8, "-0"),
            (1e9, 8, "1e+09"),
            (12_345_678.5, 8, "12345678"),
            (12_345_679.5, 8, "12345680"),
            (0.000_123_456_789, 6, "0.000123457"),
            (0.000_012_345_678_9, 6, "1.23457e-05"),
            (999_999.5, 6, "1e+06"),
            (f64::INFINITY, 6, "inf"),
            (5e-324, 8, "4.9406565e-324"),
            (100.0, 6, "100"),
        ] {
            assert_eq!(general(value, digits), text);
        }
    }
}
