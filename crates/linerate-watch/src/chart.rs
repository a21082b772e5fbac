//! Rates over time.

use linerate_report::number;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::symbols::Marker;
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget;
use ratatui_widgets::chart::{Axis, Chart, Dataset, GraphType};

use crate::look::Look;
use crate::page::write;

/// One line of the chart.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// Seconds, and bits or transactions per second.
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) style: Style,
    /// Drawn in dots, which are told from a line without colours too.
    pub(crate) dotted: bool,
}

/// A chart with its title above it.
pub(crate) struct Rates {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) series: Vec<Series>,
    /// Seconds at the left and right end, and their words.
    pub(crate) from: (f64, String),
    pub(crate) to: (f64, String),
}

/// Below this nothing can be seen in it.
pub(crate) const LEAST_ROWS: u16 = 5;

impl Rates {
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer, look: Look) {
        if area.height < LEAST_ROWS || area.width < 20 {
            return;
        }
        let mut title = vec![Span::styled(self.title.clone(), look.title())];
        for series in &self.series {
            let sign = if series.dotted { "•" } else { "⠤" };
            title.push(Span::raw("  "));
            title.push(Span::styled(sign, series.style));
            title.push(Span::styled(format!(" {}", series.name), look.dim()));
        }
        write(buffer, area, &Line::from(title));
        let below = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let values = self.series.iter().flat_map(|series| &series.points);
        let top = round_up(values.map(|point| point.1).fold(0.0, f64::max));
        let words = |value: f64| number::measured(value, Some(self.unit));
        let datasets = self.series.iter().map(|series| {
            Dataset::default()
                .marker(if series.dotted { Marker::Dot } else { Marker::Braille })
                .graph_type(if series.dotted { GraphType::Scatter } else { GraphType::Line })
                .style(series.style)
                .data(&series.points)
        });
        let (from, to) = (self.from.0, self.to.0.max(self.from.0 + 1e-3));
        Chart::new(datasets.collect())
            .legend_position(None)
            .x_axis(
                Axis::default()
                    .bounds([from, to])
                    .labels([self.from.1.clone(), self.to.1.clone()])
                    .style(look.dim()),
            )
            .y_axis(
                Axis::default()
                    .bounds([0.0, top])
                    .labels(["0".to_owned(), words(top / 2.0), words(top)])
                    .style(look.dim()),
            )
            .render(below, buffer);
    }
}

/// The next of 1, 2, 5, 10 … that leaves a little room above.
fn round_up(value: f64) -> f64 {
    let value = value * 1.02;
    if value.is_nan() || value <= 0.0 || value.is_infinite() {
        return 1.0;
    }
    let scale = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * scale).find(|top| *top >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_an_axis_is_a_round_number_above_all() {
        for (value, top) in [(0.0, 1.0), (f64::NAN, 1.0), (1.0, 1.5), (97e6, 100e6), (1.9e9, 2e9)] {
            assert!((round_up(value) - top).abs() < top * 1e-9, "{value}: {}", round_up(value));
        }
    }
}
