//! What arrived against what was asked, drawn with characters.

use linerate_model::sweep::{SweepPlan, SweepPoint, Variable};

use crate::number;

/// Lines of the drawing.
const HEIGHT: usize = 12;
/// Columns of the numbers beside it.
const MARGIN: usize = 9;
/// Narrower drawings say nothing.
const LEAST_WIDTH: usize = 30;

/// One direction's points as lines of text. The value is on a scale of ratios, the rate is not:
/// a fall by a quarter is seen. Nothing for fewer than three points.
pub(super) fn draw(plan: &SweepPlan, points: &[&SweepPoint], width: usize) -> Vec<String> {
    let width = width.saturating_sub(MARGIN + 3);
    let known: Vec<(f64, &SweepPoint)> =
        points.iter().filter_map(|p| Some((p.value? as f64, *p))).collect();
    let top = known.iter().map(|(_, p)| p.received_bps.max(p.sent_bps)).fold(0.0, f64::max);
    // What was sent in vain may be far above what arrived; the figure is of what arrived.
    let most = known.iter().map(|(_, p)| p.received_bps).fold(0.0, f64::max);
    let top = top.min(most * 1.5);
    let (Some((first, _)), Some((last, _))) = (known.first(), known.last()) else { return vec![] };
    if known.len() < 3 || width < LEAST_WIDTH || !top.is_finite() || top <= 0.0 || last <= first {
        return Vec::new();
    }
    let (first, last) = (first.max(1.0).ln(), last.max(1.0).ln());
    let column = |value: f64| {
        let share = (value.max(1.0).ln() - first) / (last - first).max(f64::MIN_POSITIVE);
        (share.clamp(0.0, 1.0) * (width - 1) as f64).round() as usize
    };
    let line = |rate: f64| {
        (rate <= top * 1.02).then(|| {
            let share = (rate / top).clamp(0.0, 1.0);
            HEIGHT - 1 - (share * (HEIGHT - 1) as f64).round() as usize
        })
    };
    let mut canvas = vec![vec![' '; width]; HEIGHT];
    let mut put = |x: usize, y: Option<usize>, mark: char| {
        if let Some(cell) = y.and_then(|y| canvas.get_mut(y)).and_then(|row| row.get_mut(x)) {
            *cell = mark;
        }
    };
    // The line on which all that is asked for arrives.
    for x in 0..width {
        let value = (first + (last - first) * x as f64 / (width - 1) as f64).exp();
        let ideal = match plan.variable {
            Variable::Rate => Some(value),
            _ => plan.rate_bps.map(|rate| rate as f64),
        };
        put(x, ideal.and_then(line), '·');
    }
    for (value, point) in &known {
        put(column(*value), line(point.sent_bps), '○');
    }
    for (value, point) in &known {
        put(column(*value), line(point.received_bps), '●');
    }
    let mut lines: Vec<String> = canvas
        .iter()
        .enumerate()
        .map(|(y, row)| {
            let rate = top * (HEIGHT - 1 - y) as f64 / (HEIGHT - 1) as f64;
            let label = if y.is_multiple_of(3) || y + 1 == HEIGHT {
                number::short(rate)
            } else {
                String::new()
            };
            let row: String = row.iter().collect();
            format!("{label:>MARGIN$} ┤{}", row.trim_end())
        })
        .collect();
    let label = |value: f64| match plan.variable {
        Variable::Rate => number::short(value),
        _ => number::integer(value as u64),
    };
    let (left, right) = (label(first.exp().round()), label(last.exp().round()));
    let middle = label(((first + last) / 2.0).exp());
    let between = width.saturating_sub(left.chars().count() + right.chars().count());
    let axis = format!("{left}{middle:^between$}{right}");
    lines.push(format!("{:>MARGIN$} └{}", "", "─".repeat(width)));
    lines.push(format!("{:>MARGIN$}  {axis}", ""));
    lines
}
