//! The figure as SVG: one lane a set with every value as a dot, the quartiles as a box and the
//! interval of the mean as a bar of its own. Readable on light and on dark: all colours are CSS
//! variables that follow the reader's preference.

use std::fmt::Write;

use super::plot::{Scale, counts, scale_of, stacks, ticks};
use super::view::{Mark, SetView, View};
use crate::draw::{COLOURS, Theme, WIDTH, beside_axis, document, escape, shortened, text};
use crate::number;
use crate::number::general;

/// Room left of the lanes for the labels.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 24.0;
/// Height of the dots of a lane.
const DOTS: f64 = 84.0;
/// Height of box and interval below the dots.
const BARS: f64 = 44.0;
/// Between lanes.
const GAP: f64 = 18.0;
const TOP: f64 = 14.0;
const AXIS: f64 = 40.0;
/// Values of a set up to which each is a dot; beyond, columns of dots become columns.
const MOST_DOTS: usize = 5_000;

impl SetView {
    /// Everything of it that a lane must hold.
    pub(super) fn extent(&self) -> impl Iterator<Item = f64> {
        let ends = self.ci.iter().flat_map(|ci| [ci.low, ci.high]);
        self.drawn.iter().copied().chain([self.mean]).chain(ends)
    }
}

/// Draws all sets, and the chosen ones again below on their own scale, to stand alone.
pub fn render(view: &View) -> String {
    let all: Vec<usize> = (0..view.sets.len()).collect();
    let mut body = String::new();
    let mut height = figure(&mut body, view, &all, 0.0);
    if let Some(zoom) = &view.zoom {
        height = figure(&mut body, view, zoom, height);
    }
    document(Theme::Reader, height, &view.headline, &body)
}

/// Draws the chosen sets from `top` down and gives back where the drawing ends.
pub fn figure(out: &mut String, view: &View, chosen: &[usize], top: f64) -> f64 {
    let sets: Vec<&SetView> = chosen.iter().filter_map(|i| view.sets.get(*i)).collect();
    let lane = DOTS + BARS + GAP;
    let bottom = top + TOP + lane * sets.len() as f64;
    // A column is as wide as a dot.
    let columns = ((WIDTH - LEFT - RIGHT) / 7.0) as usize;
    let Some(scale) = scale_of(&sets, columns) else { return bottom };
    let (low, high) = scale.ends();
    let (size, prefix) = number::prefix(view.unit.as_deref(), low.abs().max(high.abs()));
    for tick in ticks(&scale, 7) {
        let at = x(&scale, tick);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
            top + TOP
        );
        beside_axis(out, "middle", at, bottom + 16.0, &general(tick / size, 7));
    }
    if let Some(unit) = &view.unit {
        beside_axis(out, "end", WIDTH - RIGHT, bottom + 33.0, &format!("{prefix}{unit}"));
    }
    // One size of dots for all lanes of a figure.
    let dotted = sets.iter().filter(|s| s.drawn.len() <= MOST_DOTS);
    let tallest = dotted.flat_map(|s| counts(&s.drawn, &scale)).max().unwrap_or(0).max(1);
    for (index, set) in sets.iter().enumerate() {
        let floor = top + TOP + lane * index as f64 + DOTS;
        draw(out, &Lane { view, set, scale: &scale, tallest, floor });
    }
    bottom + AXIS
}

/// Where a value stands.
fn x(scale: &Scale, value: f64) -> f64 {
    LEFT + scale.share(value) * (WIDTH - LEFT - RIGHT)
}

/// A set, where its dots stand, and the most of them above each other in its figure.
struct Lane<'a> {
    view: &'a View,
    set: &'a SetView,
    scale: &'a Scale,
    tallest: usize,
    floor: f64,
}

fn draw(out: &mut String, lane: &Lane<'_>) {
    let Lane { set, scale, floor, .. } = *lane;
    let design = match (set.boots, set.runs_per_boot) {
        (Some(1), _) => format!("1 boot, {} runs", set.n),
        (Some(boots), Some(runs)) => format!("{boots} boots x {runs} runs"),
        (Some(boots), None) => format!("{boots} boots, {} runs", set.n),
        (None, _) => format!("{} runs", set.n),
    };
    let middle = floor - DOTS * 0.45;
    let _ = writeln!(
        out,
        "<text class=\"name\" x=\"12\" y=\"{middle:.1}\">{}</text><text class=\"soft\" x=\"12\" \
         y=\"{:.1}\">{design}</text>",
        escape(&shortened(&set.label, 23)),
        middle + 17.0
    );
    if set.drawn.len() <= MOST_DOTS {
        dots(out, lane);
    } else {
        bars(out, &counts(&set.drawn, scale), scale, floor);
        text(out, "soft", 12, middle + 32.0, "columns, not dots");
    }
    box_and_interval(out, set, |value| x(scale, value), floor);
}

fn dots(out: &mut String, lane: &Lane<'_>) {
    let Lane { view, set, scale, tallest, floor } = *lane;
    let unit = view.unit.as_deref();
    let index = view.sets.iter().position(|s| std::ptr::eq(s, set));
    let marks: Vec<&Mark> = view.marks.iter().filter(|m| Some(m.set) == index).collect();
    let columns = stacks(&set.drawn, set.drawn_boot.as_deref(), scale);
    let step = ((DOTS - 8.0) / tallest as f64).min(7.4);
    let radius = (step / 2.0).clamp(0.8, 3.4);
    let mut drawn = 0;
    for column in &columns {
        for (level, index) in column.iter().enumerate() {
            let Some(value) = set.drawn.get(*index) else { continue };
            let boot = set.drawn_boot.as_ref().and_then(|b| b.get(*index)).copied();
            let class = boot.map_or(0, |b| b as usize % COLOURS);
            let name = boot.and_then(|b| set.boot_labels.get(b as usize));
            let name = name.map(|n| format!(", boot {}", escape(n))).unwrap_or_default();
            // Stacked ones stand exactly above each other; a single one where its value is.
            let at = if column.len() > 1 {
                let middle = scale.column(*value) as f64 / (scale.columns() - 1) as f64;
                x(scale, scale.value(middle))
            } else {
                x(scale, *value)
            };
            let y = floor - 3.0 - radius - step * level as f64;
            let _ = writeln!(
                out,
                "<circle class=\"b{class}\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"><title>run {}: \
                 {}{name}</title></circle>",
                index + 1,
                escape(&number::measured(*value, unit))
            );
            if let Some(mark) = marks.iter().find(|m| m.index == *index) {
                let _ = writeln!(
                    out,
                    "<circle class=\"ring\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"{:.1}\"/><text class=\"mark\" \
                     x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    radius + 3.0,
                    at + radius + 5.0,
                    y - 3.0,
                    escape(&mark.text)
                );
            }
            drawn += 1;
        }
    }
    debug_assert_eq!(drawn, set.drawn.len(), "every value is drawn exactly once");
}

fn bars(out: &mut String, counts: &[usize], scale: &Scale, floor: f64) {
    let tallest = counts.iter().copied().max().unwrap_or(0).max(1);
    let width = (WIDTH - LEFT - RIGHT) / (scale.columns() - 1) as f64;
    for (index, count) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
        let height = (DOTS - 8.0) * *count as f64 / tallest as f64;
        let _ = writeln!(
            out,
            "<rect class=\"b0\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.2}\"><title>{} \
             runs</title></rect>",
            LEFT + width * (index as f64 - 0.5),
            floor - 3.0 - height,
            width * 0.92,
            count
        );
    }
}

fn box_and_interval(out: &mut String, set: &SetView, x: impl Fn(f64) -> f64, floor: f64) {
    let middle = floor + 12.0;
    if let (Some(min), Some(q1), Some(median), Some(q3), Some(max)) =
        (set.min, set.q1, set.median, set.q3, set.max)
    {
        let (min, q1, median, q3, max) = (x(min), x(q1), x(median), x(q3), x(max));
        let _ = writeln!(
            out,
            "<path class=\"edge\" d=\"M{min:.1} {0:.1}v10M{max:.1} {0:.1}v10M{min:.1} {middle:.1}H{max:.1}\"/>\
             <rect class=\"box\" x=\"{q1:.1}\" y=\"{1:.1}\" width=\"{2:.1}\" height=\"14\"/>\
             <line class=\"median\" x1=\"{median:.1}\" x2=\"{median:.1}\" y1=\"{1:.1}\" y2=\"{3:.1}\"/>",
            middle - 5.0,
            middle - 7.0,
            (q3 - q1).max(1.0),
            middle + 7.0
        );
    }
    let line = floor + 32.0;
    let mean = x(set.mean);
    if let Some(ci) = &set.ci {
        let (low, high) = (x(ci.low), x(ci.high));
        let _ = writeln!(
            out,
            "<path class=\"ci\" d=\"M{low:.1} {line:.1}H{high:.1}M{low:.1} {0:.1}v10M{high:.1} {0:.1}v10\"/>",
            line - 5.0
        );
    }
    let _ = writeln!(
        out,
        "<path class=\"mean\" d=\"M{mean:.1} {:.1}l6 6l-6 6l-6 -6z\"><title>mean</title></path>",
        line - 6.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{analysis, input};

    #[test]
    fn a_set_too_large_for_dots_says_that_it_has_columns() {
        let many: String = (0..=MOST_DOTS).map(|i| format!("{}\n", i % 17)).collect();
        let sets: Vec<_> = ["a", "b"]
            .into_iter()
            .flat_map(|name| input::read(name, many.as_bytes(), &Default::default()).unwrap())
            .collect();
        let view = View::new(analysis::compare(&sets, &analysis::Options::default()).unwrap());
        let svg = render(&view);
        assert_eq!(svg.matches("<circle").count(), 0);
        assert_eq!(svg.matches("columns, not dots").count(), 2);
    }

    #[test]
    fn a_dot_for_every_value_and_no_markup_from_labels() {
        let read = |name: &str, text: &str| {
            input::read(name, text.as_bytes(), &input::ReadOptions::default()).unwrap().remove(0)
        };
        let sets = [
            read("<b>&\"a.stat", "boot v\n1 1\n1 1\n1 2\n2 3\n2 4\n3 4\n"),
            read("b", "boot v\n1 1\n1 5\n2 3\n3 4\n"),
        ];
        let view = View::new(analysis::compare(&sets, &analysis::Options::default()).unwrap());
        let svg = render(&view);
        assert_eq!(svg.matches("<circle").count(), 10);
        assert!(svg.contains("&lt;b&gt;&amp;&quot;a") && !svg.contains("<b>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        for class in ["b0", "b1", "b2"] {
            assert!(svg.contains(&format!("class=\"{class}\"")), "boots are distinguished");
        }
    }
}
