//! Every figure by its name, and one of them as a picture of slide size.

use std::collections::HashSet;
use std::fmt::Write;

use super::view::{Figure, View};
use crate::clean::clean;
use crate::draw::{Theme, WIDTH, document, shortened, text};

/// Height of a slide for drawings [`WIDTH`] wide: 16 to 9.
const HEIGHT: f64 = WIDTH * 9.0 / 16.0;

/// Pixels of a slide.
#[cfg(feature = "png")]
pub(super) const PIXELS: (u32, u32) = (1_600, 900);

/// What says under the figure what was measured.
const FOOT: f64 = 26.0;

/// Height of a plot under which a legend of many lines is rather cut.
const LEAST_PLOT: f64 = 120.0;

/// Letters of a name.
const LONGEST: usize = 60;

impl View {
    /// All figures in their order, each with a name of letters, digits and dashes. Those of runs
    /// begin with the run where there are several.
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let mut figures: Vec<(String, &Figure)> = Vec::new();
        let mut taken = HashSet::new();
        let mut add = |of: String, figure| {
            let name = name(&format!("{of}{}", Figure::words(figure).0));
            let more = (2..).map(|n: u32| format!("{name}-{n}"));
            let free = std::iter::once(name.clone()).chain(more).find(|n| !taken.contains(n));
            let name = free.unwrap_or(name);
            taken.insert(name.clone());
            figures.push((name, figure));
        };
        for figure in self.sections.iter().flat_map(|s| &s.figures) {
            add(String::new(), figure);
        }
        for (i, run) in self.runs.iter().enumerate() {
            for figure in &run.figures {
                let several = self.runs.len() > 1;
                add(if several { format!("run {} ", i + 1) } else { String::new() }, figure);
            }
        }
        figures
    }

    /// The figure of a name as a slide.
    pub(super) fn slide(&self, wanted: &str, theme: Theme) -> Result<String, String> {
        let figures = self.figures();
        let Some((_, figure)) = figures.iter().find(|(name, _)| name == wanted) else {
            return Err(format!("no figure is named `{}`", clean(wanted)));
        };
        let mut body = String::new();
        let room = HEIGHT - FOOT;
        if let Some(chart) = figure.as_chart() {
            let plot = (room - chart.around()).max(LEAST_PLOT);
            chart.draw_high(&mut body, 0.0, plot);
        } else {
            let mut inner = String::new();
            let scale = (room / figure.draw(&mut inner, 0.0)).min(1.0);
            let left = (WIDTH - WIDTH * scale) / 2.0;
            let _ = writeln!(
                body,
                "<g transform=\"translate({left:.1} 0) scale({scale:.4})\">\n{inner}</g>"
            );
        }
        text(&mut body, "soft", 12, HEIGHT - 10.0, &shortened(&self.title, 150));
        Ok(document(theme, HEIGHT, &figure.label(), &body))
    }
}

fn name(title: &str) -> String {
    let mut name = String::new();
    for c in title.chars().take(LONGEST) {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_can_be_typed_and_be_files() {
        assert_eq!(
            super::name("Received against asked rate, client → server"),
            "received-against-asked-rate-client-server"
        );
        assert_eq!(super::name("../../<b>"), "b");
    }
}
