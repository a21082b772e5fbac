//! Pressure stall information, /proc/pressure/cpu.

/// Time in which at least one task waited, the `total=` of the line `some`, in microseconds since
/// boot.
pub(crate) fn parse_some(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// Share of the last 10 s in which at least one task waited, the `avg10=` of that line, percent.
pub(crate) fn parse_some_avg10(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let share: f64 =
        line.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()?;
    share.is_finite().then_some(share)
}

/// Growth of that over a span, in hundredths of a percent of the span; `None` for an empty span.
pub(crate) fn share(before_us: u64, after_us: u64, span_ns: u64) -> Option<u16> {
    let waited_ns = u128::from(after_us.saturating_sub(before_us)) * 1_000;
    let share = (waited_ns * 10_000).checked_div(u128::from(span_ns))?;
    // The two clocks are read one after the other, so slightly more than the whole is possible.
    Some(u16::try_from(share.min(10_000)).unwrap_or(10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        let text = "some avg10=0.51 avg60=0.59 avg300=0.68 total=9049998\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(parse_some(text), Some(9_049_998));
        assert_eq!(parse_some_avg10(text), Some(0.51));
        assert_eq!(parse_some_avg10("some avg10=nan"), None);
        assert_eq!(parse_some("full total=3\n"), None);
        assert_eq!(parse_some("some avg10=0.51 tot"), None);

        assert_eq!(share(9_000_000, 9_250_000, 1_000_000_000), Some(2_500));
        assert_eq!(share(0, 2_000_000, 1_000_000_000), Some(10_000));
        assert_eq!(share(5, 4, 1_000_000_000), Some(0));
        assert_eq!(share(0, 1, 0), None);
    }
}
