//! The line below a table of trials: what is under way, how far it is, and what is left.

use crate::clean::clean;
use crate::number;
use crate::rows::cut;
use crate::spark;

/// Most bars of the curve so far.
const CURVE_MOST: usize = 24;

/// Trials or runs, of which one is under way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Live {
    /// What they are called: `trial`, `run`.
    pub unit: &'static str,
    /// The one under way, from 1.
    pub number: usize,
    /// How many there will be, as far as that can be foreseen.
    pub of: Option<usize>,
    /// What is tried: a rate, a setting.
    pub what: String,
    /// How long it takes, seconds; absent where that is not known.
    pub length_s: Option<f64>,
    /// What arrives now, bits per second; absent before anything has.
    pub now_bps: Option<f64>,
    /// Bounds so far, the first goal's first.
    pub bounds: Vec<String>,
    /// The figures of what was tried, in the order of the thing varied: the curve so far.
    pub curve: Vec<f64>,
    /// Seconds that were left when this one began; absent where nothing is foreseen.
    pub left_s: Option<f64>,
}

/// The line, at most `width` columns wide; what has least weight goes first. `since_s` is how long ago
/// this one was begun and `running_s` how long its data has flowed, absent before it does; seconds.
pub fn line(live: &Live, since_s: f64, running_s: Option<f64>, width: usize) -> String {
    let mut parts: Vec<(u8, String)> = Vec::new();
    let of = live.of.map_or(String::new(), |of| format!("/{}", of.max(live.number)));
    parts.push((0, format!("{} {}{of}", live.unit, live.number)));
    if !live.what.is_empty() {
        parts.push((3, clean(&live.what).into_owned()));
    }
    parts.push((4, elapsed(running_s, since_s, live.length_s)));
    parts.extend(live.now_bps.map(|now| (6, format!("{} arrive", number::rate(now)))));
    for (i, bounds) in live.bounds.iter().enumerate() {
        parts.push((if i == 0 { 2 } else { 7 }, clean(bounds).into_owned()));
    }
    if live.curve.len() > 1 {
        let top = live.curve.iter().copied().fold(0.0, f64::max);
        let values: Vec<Option<f64>> = live.curve.iter().copied().map(Some).collect();
        parts.push((5, spark::whole(&values, top, CURVE_MOST)));
    }
    parts.extend(live.left_s.map(|s| (1, format!("{} left", span((s - since_s).max(0.0))))));
    let join = |rank: u8| {
        let kept = parts.iter().filter(|(r, _)| *r <= rank).map(|(_, text)| text.as_str());
        kept.collect::<Vec<_>>().join(" · ")
    };
    let fits = (0..=7).rev().map(join).find(|text| text.chars().count() <= width);
    fits.unwrap_or_else(|| cut(&join(0), width))
}

fn elapsed(running_s: Option<f64>, since_s: f64, length_s: Option<f64>) -> String {
    match (running_s, length_s) {
        // Tenths move the line where whole seconds would not.
        (Some(running), Some(length)) => {
            format!("{:.1}/{}", running.min(length), number::chosen_seconds(length))
        }
        (Some(running), None) => format!("{running:.1} s"),
        (None, _) if since_s < 1.0 => "begins".to_owned(),
        (None, _) => format!("begins, {since_s:.0} s"),
    }
}

/// A time for people: `1 h 02 min`, `3 min 20 s`, `12 s`.
pub fn span(seconds: f64) -> String {
    let whole = if seconds.is_finite() { seconds.max(0.0).round() as u64 } else { 0 };
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, m) => format!("{m} min {:02} s", whole % 60),
        (0, h, m) => format!("{h} h {m:02} min"),
        (d, h, _) => format!("{d} d {h:02} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search() -> Live {
        Live {
            unit: "trial",
            number: 7,
            of: None,
            what: "61.32 Mbit/s".into(),
            length_s: Some(2.0),
            now_bps: Some(58.7e6),
            bounds: vec!["ndr 40.00 to 82.64 Mbit/s".into(), "pdr above 61.32 Mbit/s".into()],
            curve: vec![10e6, 20e6, 40e6, 80e6, 40e6],
            left_s: Some(95.4),
        }
    }

    #[test]
    fn what_weighs_least_goes_first() {
        let at = |width| line(&search(), 1.6, Some(1.26), width);
        let lines: Vec<String> = [200, 132, 100, 79, 60, 40, 20, 6].map(at).into();
        insta::assert_snapshot!(lines.join("\n"));
        for width in 0..200 {
            assert!(at(width).chars().count() <= width);
        }
    }

    #[test]
    fn a_trial_that_has_not_begun_or_takes_longer() {
        let text = |since, running| line(&search(), since, running, 200);
        assert!(text(0.2, None).contains("begins ·"), "{}", text(0.2, None));
        assert!(text(4.4, None).contains("begins, 4 s"), "{}", text(4.4, None));
        // Counted down, and not below nothing.
        assert!(text(95.0, Some(3.7)).contains("2.0/2 s"));
        assert!(text(120.0, Some(3.7)).ends_with(" 0 s left"));
    }

    #[test]
    fn spans_are_for_people() {
        let spans = [0.0, 59.4, 200.0, 3_720.0, 90_000.0, f64::NAN].map(span);
        assert_eq!(spans, ["0 s", "59 s", "3 min 20 s", "1 h 02 min", "1 d 01 h", "0 s"]);
    }
}
