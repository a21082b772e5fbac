//! Curves over axes: what a chart holds, and how it is drawn as SVG. A page's script draws the same
//! chart from the same numbers.

use std::cmp::Ordering;
use std::fmt::Write;

use self::ruler::{Area, Ruler};
use super::{COLOURS, WIDTH, beside_axis, shortened, text};

mod ruler;

const LEFT: f64 = 72.0;
const RIGHT: f64 = 24.0;
/// Right of the plot, when an axis stands there.
const RIGHT_AXIS: f64 = 72.0;
const TITLE: f64 = 34.0;
/// Names of bands, between title and plot.
const BANDS: f64 = 16.0;
/// Height of the plot itself.
const PLOT: f64 = 260.0;
/// Numbers and name of the horizontal axis.
const AXIS: f64 = 44.0;
const LEGEND_LINE: f64 = 20.0;
/// Points of a series up to which each gets its sign.
const MOST_SIGNS: usize = 80;
/// Points of a series up to which all are drawn; of more, each column of the drawing keeps its
/// least and its largest.
const MOST_POINTS: usize = 4_000;

/// What the numbers of an axis are, and so how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bits per second.
    BitRate,
    /// Anything else per second, or a count.
    Count,
    /// What has no halves: the number of a run.
    Whole,
    /// Percent.
    Percent,
    /// Seconds.
    Seconds,
    /// A share of all values, as the number of nines: 0.9 is at 1, 0.99 at 2.
    Nines,
    /// Bytes.
    Bytes,
}

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it counts, without the unit.
    pub label: String,
    /// Unit of its numbers.
    pub unit: Unit,
    /// Equal distances are equal factors.
    pub log: bool,
    /// It begins at zero (never on a logarithmic one).
    pub zero: bool,
    /// It ends no lower than here.
    pub least_top: Option<f64>,
    /// It ends no higher than here; what rises above leaves the plot.
    pub most_top: Option<f64>,
}

impl Axis {
    /// From zero up.
    pub fn from_zero(label: &str, unit: Unit) -> Self {
        let label = label.to_owned();
        Self { label, unit, log: false, zero: true, least_top: None, most_top: None }
    }

    /// As far as the values go.
    pub fn fitted(label: &str, unit: Unit) -> Self {
        Self { zero: false, ..Self::from_zero(label, unit) }
    }

    /// Equal distances for equal factors.
    pub fn log(label: &str, unit: Unit) -> Self {
        Self { log: true, zero: false, ..Self::from_zero(label, unit) }
    }

    /// Percent of a whole: 0 to at least 100.
    pub fn percent(label: &str) -> Self {
        Self { least_top: Some(100.0), ..Self::from_zero(label, Unit::Percent) }
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line with a sign at each point.
    Line,
    /// A thin line without signs, for what stands beside the matter.
    Thin,
    /// A grey dashed line: what would be if nothing were lost.
    Ideal,
    /// Signs alone.
    Dots,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub label: String,
    /// One value an entry of the chart's `x`; absent leaves a gap.
    pub y: Vec<Option<f64>>,
    /// Half the height of the error bar at each point, in the axis' unit.
    pub spread: Option<Vec<Option<f64>>>,
    /// How it is drawn.
    pub kind: Kind,
    /// Of the palette, and which sign.
    pub colour: usize,
    /// It belongs to the right axis.
    pub right: bool,
}

impl Series {
    /// On the left axis, with a sign at each point.
    pub fn line(label: &str, colour: usize, y: Vec<Option<f64>>) -> Self {
        let label = label.to_owned();
        Self { label, y, spread: None, kind: Kind::Line, colour, right: false }
    }

    /// The same of another kind.
    pub fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same on the right axis.
    pub fn right(self) -> Self {
        Self { right: true, ..self }
    }

    fn known(&self) -> usize {
        self.y.iter().flatten().filter(|y| y.is_finite()).count()
    }
}

/// A stretch of the horizontal axis with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// From.
    pub from: f64,
    /// To.
    pub to: f64,
    /// Name, short.
    pub label: String,
}

/// One chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The same in a sentence or two with its numbers, for who does not see it.
    pub alt: String,
    /// Horizontal axis.
    pub x_axis: Axis,
    /// Left axis.
    pub left: Axis,
    /// Right axis.
    pub right: Option<Axis>,
    /// Ascending; the series have one value for each.
    pub x: Vec<f64>,
    /// The series.
    pub series: Vec<Series>,
    /// Named stretches behind them.
    pub bands: Vec<Band>,
}

impl Chart {
    /// Series over a horizontal and a left axis.
    pub fn new(
        title: impl Into<String>,
        alt: impl Into<String>,
        (x_axis, left): (Axis, Axis),
        x: Vec<f64>,
        series: Vec<Series>,
    ) -> Self {
        let (title, alt) = (title.into(), alt.into());
        Self { title, alt, x_axis, left, right: None, x, series, bands: Vec::new() }
    }

    /// The same with a right axis.
    pub fn right(self, axis: Axis) -> Self {
        Self { right: Some(axis), ..self }
    }

    /// The same with named stretches behind the series.
    pub fn bands(self, bands: Vec<Band>) -> Self {
        Self { bands, ..self }
    }

    /// Takes out what has no number at all, and says whether something is left to draw.
    pub fn tidy(mut self) -> Option<Self> {
        self.series.retain(|s| s.known() > 0);
        let drawn = self.series.iter().any(|s| s.kind != Kind::Ideal);
        if !self.series.iter().any(|s| s.right) {
            self.right = None;
        }
        (drawn && self.x.iter().any(|x| x.is_finite())).then_some(self)
    }

    /// Height of its drawing without the plot itself.
    pub fn around(&self) -> f64 {
        self.head() + AXIS + LEGEND_LINE * self.legend().len() as f64 + 6.0
    }

    /// Height above the plot.
    fn head(&self) -> f64 {
        if self.bands.iter().any(|b| !b.label.is_empty()) { TITLE + BANDS } else { TITLE }
    }

    /// Entries of the legend, in lines that fit.
    fn legend(&self) -> Vec<Vec<(&Series, f64)>> {
        let mut lines: Vec<Vec<(&Series, f64)>> = vec![Vec::new()];
        let mut used = 0.0;
        for series in &self.series {
            let width = 44.0 + 7.4 * self.legend_text(series).chars().count() as f64;
            if used + width > WIDTH - LEFT - RIGHT && used > 0.0 {
                lines.push(Vec::new());
                used = 0.0;
            }
            if let Some(line) = lines.last_mut() {
                line.push((series, used));
            }
            used += width;
        }
        lines
    }

    fn legend_text(&self, series: &Series) -> String {
        let side = if series.right { " (right axis)" } else { "" };
        format!("{}{side}", shortened(&series.label, 60))
    }

    /// Draws from `top` down, gives back where it ends.
    pub fn draw(&self, out: &mut String, top: f64) -> f64 {
        self.draw_high(out, top, PLOT)
    }

    /// The same with a plot of another height.
    pub fn draw_high(&self, out: &mut String, top: f64, plot: f64) -> f64 {
        let right_room = if self.right.is_some() { RIGHT_AXIS } else { RIGHT };
        let area = Area {
            left: LEFT,
            right: WIDTH - right_room,
            top: top + self.head(),
            bottom: top + self.head() + plot,
        };
        text(out, "title", 12, top + 21.0, &shortened(&self.title, 110));
        let Some(x) = Ruler::new(&self.x_axis, self.x.iter().copied()) else {
            return top + self.around() + plot;
        };
        self.draw_bands(out, &x, area);
        let values = |right: bool| {
            self.series.iter().filter(move |s| s.right == right).flat_map(|s| {
                let spread = s.spread.as_deref().unwrap_or_default();
                s.y.iter().enumerate().flat_map(move |(i, y)| {
                    let half = spread.get(i).copied().flatten().unwrap_or(0.0);
                    y.map(|y| [y - half, y + half]).into_iter().flatten()
                })
            })
        };
        let left = Ruler::new(&self.left, values(false));
        let right = self.right.as_ref().and_then(|axis| Ruler::new(axis, values(true)));
        x.draw_below(out, area);
        if let Some(left) = &left {
            left.draw_beside(out, area, false);
        }
        if let Some(right) = &right {
            right.draw_beside(out, area, true);
        }
        for series in &self.series {
            let ruler = if series.right { &right } else { &left };
            if let Some(y) = ruler {
                self.series(out, series, &x, y, area);
            }
        }
        let legend = area.bottom + AXIS;
        for (row, line) in self.legend().iter().enumerate() {
            for (series, at) in line {
                let (x, y) = (LEFT + at, legend + 10.0 + LEGEND_LINE * row as f64);
                let _ = writeln!(
                    out,
                    "<path class=\"curve {}\" d=\"M{x:.1} {y:.1}h26\"/>",
                    line_class(series)
                );
                if matches!(series.kind, Kind::Line | Kind::Dots) {
                    sign(out, series.colour, x + 13.0, y);
                }
                let x = format_args!("{:.1}", x + 32.0);
                text(out, "", x, y + 4.5, &self.legend_text(series));
            }
        }
        top + self.around() + plot
    }

    fn draw_bands(&self, out: &mut String, x: &Ruler<'_>, area: Area) {
        for (index, band) in self.bands.iter().enumerate() {
            let (from, to) = (area.x(x.share(band.from)), area.x(x.share(band.to)));
            if to - from < 0.5 {
                continue;
            }
            if index % 2 == 1 {
                let _ = writeln!(
                    out,
                    "<rect class=\"band\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    area.top,
                    to - from,
                    area.bottom - area.top
                );
            }
            // About seven units a letter; a name without room is in the table beside the figure.
            if to - from > 7.0 * band.label.chars().count() as f64 {
                beside_axis(out, "middle", (from + to) / 2.0, area.top - 5.0, &band.label);
            }
        }
    }

    fn series(&self, out: &mut String, series: &Series, x: &Ruler<'_>, y: &Ruler<'_>, area: Area) {
        let place = |i: usize| {
            let (at, value) = (*self.x.get(i)?, (*series.y.get(i)?)?);
            (at.is_finite() && value.is_finite() && x.shows(at) && y.shows(value))
                .then(|| (area.x(x.share(at)), area.y(y.share_beyond(value))))
        };
        if series.kind != Kind::Dots {
            let mut path = String::new();
            // The last point, and whether the pen is on it: above the plot nothing is drawn.
            let mut last: Option<(f64, f64)> = None;
            for place in thinned((0..self.x.len()).map(place).collect()) {
                let Some((px, py)) = place else {
                    last = None;
                    continue;
                };
                let inside = py >= area.top;
                // Where the line from the last point crosses the top.
                let crossing = last
                    .filter(|(_, y)| (*y >= area.top) != inside)
                    .map(|(lx, ly)| lx + (px - lx) * (area.top - ly) / (py - ly));
                match (inside, crossing, last) {
                    (true, Some(at), _) => {
                        let _ = write!(path, "M{at:.1} {:.1}L{px:.1} {py:.1}", area.top);
                    }
                    (false, Some(at), _) => {
                        let _ = write!(path, "L{at:.1} {:.1}", area.top);
                    }
                    (true, None, last) => {
                        let pen = if last.is_some() { 'L' } else { 'M' };
                        let _ = write!(path, "{pen}{px:.1} {py:.1}");
                    }
                    (false, None, _) => {}
                }
                last = Some((px, py));
            }
            if !path.is_empty() {
                let class = line_class(series);
                let _ = writeln!(out, "<path class=\"curve {class}\" d=\"{path}\"/>");
            }
        }
        if !matches!(series.kind, Kind::Line | Kind::Dots) {
            return;
        }
        if let Some(spread) = &series.spread {
            let mut bars = String::new();
            for (i, half) in spread.iter().enumerate() {
                let (Some((px, _)), Some(half), Some(Some(value))) =
                    (place(i), half, series.y.get(i))
                else {
                    continue;
                };
                if *half > 0.0 {
                    let (low, high) =
                        (area.y(y.share(value - half)), area.y(y.share(value + half)));
                    let left = px - 3.0;
                    let _ = write!(bars, "M{left:.1} {low:.1}h6m-3 0V{high:.1}m-3 0h6");
                }
            }
            if !bars.is_empty() {
                let colour = series.colour % COLOURS;
                let _ = writeln!(out, "<path class=\"curve thin l{colour}\" d=\"{bars}\"/>");
            }
        }
        if series.known() <= MOST_SIGNS || series.kind == Kind::Dots {
            for i in 0..self.x.len() {
                if let Some((px, py)) = place(i).filter(|(_, py)| *py >= area.top) {
                    sign(out, series.colour, px, py);
                }
            }
        }
    }
}

/// Places of a curve; `None` is a gap. A long one keeps, of each column of the drawing, what makes
/// its outline, so that no peak is lost.
fn thinned(places: Vec<Option<(f64, f64)>>) -> Vec<Option<(f64, f64)>> {
    if places.len() <= MOST_POINTS {
        return places;
    }
    let column = |place: &Option<(f64, f64)>| place.map(|(x, _)| x as i64);
    let by_height =
        |a: &(f64, f64), b: &(f64, f64)| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal);
    let outline = |of: &[Option<(f64, f64)>]| {
        let known = || of.iter().flatten().copied();
        let ends = (known().next(), known().next_back());
        [ends.0, known().min_by(by_height), known().max_by(by_height), ends.1]
    };
    places.chunk_by(|a, b| column(a) == column(b)).flat_map(outline).collect()
}

fn line_class(series: &Series) -> String {
    match series.kind {
        Kind::Ideal => "thin dash ideal".to_owned(),
        Kind::Thin => format!("thin dots l{}", series.colour % COLOURS),
        Kind::Line | Kind::Dots => format!("l{}", series.colour % COLOURS),
    }
}

/// Each colour has a sign of its own, so that colour is never all that distinguishes two series: paths
/// from the sign's middle on.
pub const SIGNS: [&str; COLOURS] = [
    "m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",
    "m-3.2 -3.2h6.4v6.4h-6.4z",
    "m0 -4.4l4.2 7.4h-8.4z",
    "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z",
    "m0 4.4l4.2 -7.4h-8.4z",
    "m-3.9 -1.3h2.6v-2.6h2.6v2.6h2.6v2.6h-2.6v2.6h-2.6v-2.6h-2.6z",
];

fn sign(out: &mut String, colour: usize, x: f64, y: f64) {
    let class = colour % COLOURS;
    let sign = SIGNS.get(class).copied().unwrap_or_default();
    let _ = writeln!(out, "<path class=\"b{class}\" d=\"M{x:.1} {y:.1}{sign}\"/>");
}

#[cfg(test)]
mod tests {
    use super::ruler::{log_ticks, nines_text, tick_text};
    use super::*;
    use crate::draw::{Theme, document};

    impl Chart {
        fn document(&self, theme: Theme) -> String {
            let mut body = String::new();
            let height = self.draw(&mut body, 0.0);
            document(theme, height, &self.title, &body)
        }
    }

    fn chart(x: Vec<f64>, y: Vec<Option<f64>>) -> Chart {
        Chart {
            title: "a <title>".into(),
            alt: "it rises".into(),
            x_axis: Axis::from_zero("asked", Unit::BitRate),
            left: Axis::from_zero("received", Unit::BitRate),
            right: None,
            x,
            series: vec![Series::line("received", 0, y)],
            bands: vec![],
        }
    }

    #[test]
    fn a_sign_for_every_point_and_a_gap_where_nothing_is_known() {
        let svg = chart(vec![1e6, 2e6, 4e6, 8e6], vec![Some(1e6), Some(2e6), None, Some(4e6)])
            .document(Theme::Light);
        // One more is in the legend.
        assert_eq!(svg.matches("class=\"b0\"").count(), 4);
        let path = svg.split("class=\"curve l0\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(svg.contains("a &lt;title&gt;") && !svg.contains("NaN"));
        for text in [">0<", ">2 M<", ">8 M<", ">1 M<"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }

    #[test]
    fn odd_numbers_draw_nothing_wrong() {
        for values in [
            vec![f64::NAN, f64::INFINITY, -1.0],
            vec![0.0, 0.0, 0.0],
            vec![1e300, -1e300, 1e-300],
            vec![],
        ] {
            let y: Vec<_> = values.iter().copied().map(Some).collect();
            for log in [false, true] {
                let mut chart = chart(values.clone(), y.clone());
                chart.x_axis.log = log;
                chart.left.log = log;
                let svg = chart.document(Theme::Reader);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{values:?}: {svg}");
            }
        }
        assert_eq!(chart(vec![1.0], vec![None]).tidy(), None);
    }

    #[test]
    fn a_long_curve_keeps_its_peaks() {
        let n = 100_000;
        let x: Vec<f64> = (0..n).map(f64::from).collect();
        let y: Vec<_> = (0..n).map(|i| Some(if i == 77_777 { 9.0 } else { 1.0 })).collect();
        let mut tall = chart(x, y);
        tall.left.unit = Unit::Count;
        let svg = tall.document(Theme::Light);
        assert!(svg.len() < 120_000, "{}", svg.len());
        let top = TITLE + PLOT * (1.0 - 9.0 / (9.0 * 1.04));
        assert!(svg.contains(&format!(" {top:.1}")), "the peak is drawn");
    }

    /// Above the limit of an axis a line leaves the plot where it crosses the top, and comes back so.
    #[test]
    fn a_line_above_the_limit_is_cut_where_it_crosses() {
        let y = [10.0, 30.0, 30.0, 10.0].map(Some).to_vec();
        let mut capped = chart(vec![0.0, 1e6, 2e6, 3e6], y);
        capped.left = Axis { most_top: Some(20.0), ..Axis::from_zero("y", Unit::Count) };
        let svg = capped.document(Theme::Light);
        let path = svg.split("class=\"curve l0\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        let numbers: Vec<&str> = path.split(['M', 'L']).skip(1).collect();
        assert_eq!(numbers.len(), 4, "{path}");
        let place = |i: usize| -> (f64, f64) {
            let (x, y) = numbers[i].split_once(' ').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        // The axis ends 4 % above its limit: at 20.8 of a way from 10 to 30.
        let step = (WIDTH - LEFT - RIGHT) / 1.04 / 3.0;
        assert!((place(1).0 - (LEFT + step * 0.54)).abs() < 0.2, "{path}");
        assert!((place(2).0 - (LEFT + step * 2.46)).abs() < 0.2, "{path}");
        assert_eq!((place(1).1, place(2).1), (TITLE, TITLE), "{path}");
        // Two signs and that of the legend.
        assert_eq!(svg.matches("class=\"b0\"").count(), 3);
    }

    #[test]
    fn runs_have_no_halves() {
        let mut few = chart(vec![1.0, 2.0, 3.0], vec![Some(1.0); 3]);
        few.x_axis = Axis::fitted("run", Unit::Whole);
        let svg = few.document(Theme::Light);
        assert!(svg.contains(">2<") && !svg.contains(">1.5<"), "{svg}");
    }

    #[test]
    fn ticks_say_what_they_count() {
        assert_eq!(tick_text(2.5e6, 1e7, Unit::BitRate), "2.5 M");
        assert_eq!(tick_text(0.0, 1e9, Unit::BitRate), "0");
        assert_eq!(tick_text(5e-5, 2e-4, Unit::Seconds), "50 µs");
        assert_eq!(tick_text(40.0, 100.0, Unit::Percent), "40 %");
        assert_eq!(tick_text(800.0, 900.0, Unit::Count), "800");
        assert_eq!(tick_text(1400.0, 1472.0, Unit::Bytes), "1400 B");
        assert_eq!(tick_text(0.0, 3e4, Unit::Bytes), "0");
        let nines: Vec<_> = (0..5).map(|n| nines_text(f64::from(n))).collect();
        assert_eq!(nines, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
        assert_eq!(log_ticks(6.0, 9.0, 9), [1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9]);
        assert_eq!(log_ticks(0.0, 9.0, 5).len(), 5);
    }
}
