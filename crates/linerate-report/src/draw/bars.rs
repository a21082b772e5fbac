//! Shares as bars from zero, each with its interval.

use std::fmt::Write;

use linerate_model::doctor::Gain;

use super::{beside_axis, escape, shortened, text};

/// Under the title.
const HEAD: f64 = 36.0;
const ROW: f64 = 26.0;
/// Height of a bar.
const BAR: f64 = 12.0;
/// Where names begin, and where bars may end; numbers stand behind.
const EDGE: f64 = 12.0;
const TO: f64 = 720.0;
/// Width of a letter of a name, and what lies between it and the bars.
const LETTER: f64 = 7.0;
const GAP: f64 = 16.0;
/// Letters of a name, and of the numbers: of gains of a thousand percent all are seen.
const NAME: usize = 42;
const NUMBERS: usize = 33;
/// Bars that are drawn; tables have them all.
const MOST: usize = 60;

/// One of them, percent.
#[derive(Debug, Clone)]
pub struct Bar {
    /// What it is of.
    pub name: String,
    /// Its length.
    pub mean: f64,
    /// Low end of the interval.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// Several, on one scale.
#[derive(Debug)]
pub struct Bars {
    /// What they show.
    pub title: String,
    /// The same for who does not see it.
    pub alt: String,
    bars: Vec<Bar>,
}

/// `18.2 % (16.0 to 20.4)`, with its sign.
pub(crate) fn numbers(mean: f64, low: f64, high: f64) -> String {
    let digits = Gain { mean, low, high }.decimals(1);
    format!("{mean:+.digits$} % ({low:+.digits$} to {high:+.digits$})")
}

impl Bars {
    /// Of what has numbers, if anything has.
    pub fn new(title: &str, alt: &str, bars: Vec<Bar>) -> Option<Self> {
        let drawn = |bar: &Bar| [bar.mean, bar.low, bar.high].iter().all(|at| at.is_finite());
        let bars: Vec<Bar> = bars.into_iter().filter(drawn).take(MOST).collect();
        let whole = bars
            .iter()
            .map(|bar| format!("{}: {}", bar.name, numbers(bar.mean, bar.low, bar.high)));
        let alt = format!("{alt} {}.", whole.collect::<Vec<_>>().join("; "));
        (!bars.is_empty()).then(|| Self { title: title.to_owned(), alt, bars })
    }

    /// Where bars begin: behind the longest name.
    fn from(&self) -> f64 {
        let letters = self.bars.iter().map(|bar| bar.name.chars().count()).max();
        EDGE + GAP + LETTER * letters.unwrap_or(0).min(NAME) as f64
    }

    /// Draws from `top` down with its title, gives back where it ends.
    pub fn draw(&self, out: &mut String, top: f64) -> f64 {
        text(out, "title", EDGE, top + 21.0, &self.title);
        let ends = |end: fn(f64, f64) -> f64| {
            self.bars.iter().flat_map(|bar| [bar.low, bar.mean, bar.high]).fold(0.0, end)
        };
        let (least, most) = (ends(f64::min), ends(f64::max));
        // In halves, so that the distance of the largest numbers is one.
        let span = (most / 2.0 - least / 2.0).max(f64::MIN_POSITIVE);
        let from = self.from();
        let x =
            |value: f64| from + (TO - from) * ((value / 2.0 - least / 2.0) / span).clamp(0.0, 1.0);
        for (row, bar) in self.bars.iter().enumerate() {
            let middle = top + HEAD + ROW * (row as f64 + 0.5);
            text(out, "", EDGE, middle + 4.5, &shortened(&bar.name, NAME));
            let class = match (bar.low > 0.0, bar.high < 0.0) {
                (true, _) => "b2",
                (_, true) => "b1",
                _ => "box",
            };
            let (zero, mean) = (x(0.0), x(bar.mean));
            let (low, high) = (x(bar.low), x(bar.high));
            let words = numbers(bar.mean, bar.low, bar.high);
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\">\
                 <title>{}: {words}</title></rect>\
                 <path class=\"edge\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {1:.1}v10M{high:.1} {1:.1}v10\"/>",
                zero.min(mean),
                middle - 5.0,
                (mean - zero).abs().max(1.0),
                escape(&bar.name),
            );
            text(out, "soft", TO + 14.0, middle + 4.5, &shortened(&words, NUMBERS));
        }
        let bottom = top + HEAD + ROW * self.bars.len() as f64;
        let zero = x(0.0);
        let _ = writeln!(
            out,
            "<line class=\"median\" x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
            top + HEAD
        );
        beside_axis(out, "middle", zero, bottom + 16.0, "0");
        bottom + 24.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, mean: f64, low: f64, high: f64) -> Bar {
        Bar { name: name.to_owned(), mean, low, high }
    }

    #[test]
    fn every_bar_begins_at_zero_and_stays_in_its_room() {
        let bars = vec![
            bar("window <4 MiB>", 18.2, 16.0, 20.4),
            bar("streams", -40.0, -60.0, -20.0),
            bar("cores", 0.1, -1.0, 1.2),
            bar("odd", f64::NAN, 0.0, 1.0),
        ];
        let bars = Bars::new("Worth", "Shares:", bars).unwrap();
        assert!(bars.alt.contains("window <4 MiB>: +18.2 % (+16.0 to +20.4); streams"), "{bars:?}");
        let mut out = String::new();
        let end = bars.draw(&mut out, 100.0);
        assert_eq!(end, 100.0 + HEAD + 3.0 * ROW + 24.0);
        assert!(out.contains("window &lt;4 MiB&gt;") && !out.contains("NaN"), "{out}");
        for class in ["b2", "b1", "box"] {
            assert_eq!(out.matches(&format!("<rect class=\"{class}\"")).count(), 1, "{out}");
        }
        // From -60 to 20.4 over the room: zero lies at 60 of 80.4.
        let from = EDGE + GAP + LETTER * 14.0;
        let zero = from + (TO - from) * 60.0 / 80.4;
        assert!(out.contains(&format!("<line class=\"median\" x1=\"{zero:.1}\"")), "{out}");
    }

    #[test]
    fn numbers_of_a_large_gain_are_whole() {
        let mut out = String::new();
        let bars = vec![bar("window 64 MiB", 1123.4, 1012.3, 1234.5)];
        Bars::new("t", "a", bars).unwrap().draw(&mut out, 0.0);
        assert!(out.contains(">+1123.4 % (+1012.3 to +1234.5)</text>"), "{out}");
    }

    #[test]
    fn nothing_is_too_large_or_too_small_to_be_drawn() {
        assert!(Bars::new("t", "a", vec![bar("odd", f64::INFINITY, 0.0, 1.0)]).is_none());
        for value in [0.0, f64::MAX, -f64::MAX, f64::MIN_POSITIVE] {
            let bars = vec![bar("one", value, -f64::MAX, f64::MAX), bar("two", 0.0, 0.0, 0.0)];
            let mut out = String::new();
            Bars::new("t", "a", bars).unwrap().draw(&mut out, 0.0);
            assert!(!out.contains("NaN") && !out.contains("inf"), "{out}");
            assert!(out.len() < 4_000, "{}", out.len());
        }
        let many = (0..1_000).map(|i| bar(&i.to_string(), 1.0, 0.0, 2.0)).collect();
        assert_eq!(Bars::new("t", "a", many).unwrap().bars.len(), MOST);
    }
}
