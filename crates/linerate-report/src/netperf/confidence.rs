//! Runs that are repeated until their mean is certain (`-I`, `-i`).

use linerate_stats::offline::distribution::t_factor;

use super::{End, Figures, Options, Reached};

/// How certain, and how often at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// In percent: 95 or 99.
    pub level: u8,
    /// The whole width that is wanted, in percent of the mean.
    pub width: f64,
    /// Runs at least.
    pub min: usize,
    /// Runs at most.
    pub max: usize,
    /// The CPU need not be certain (`-r`).
    pub rate_only: bool,
}

/// The width of the interval around the mean, as a share of it.
fn width(level: u8, values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    if values.len() < 2 || mean == 0.0 {
        return 0.0;
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = t_factor(1.0 - f64::from(level) / 100.0, count - 1.0).unwrap_or(0.0);
    2.0 * t * (variance / count).sqrt() / mean
}

impl Confidence {
    /// How certain these runs are.
    pub fn reached(&self, options: &Options, runs: &[Figures]) -> Reached {
        let of = |get: &dyn Fn(&Figures) -> f64| {
            width(self.level, &runs.iter().map(get).collect::<Vec<_>>())
        };
        // What is known of some runs only is certain of none; what nobody asked for is known of none.
        let busy = |get: &dyn Fn(&Figures) -> &End| {
            let known: Vec<f64> = runs.iter().filter_map(|run| Some(get(run).cpu?.busy)).collect();
            match known.len() {
                0 => 0.0,
                some if some < runs.len() => f64::INFINITY,
                _ => width(self.level, &known),
            }
        };
        Reached {
            runs: runs.len(),
            throughput: of(&|run| run.throughput(options)),
            here: busy(&|run| &run.here),
            there: busy(&|run| &run.there),
        }
    }

    /// Whether that is enough.
    pub fn suffices(&self, reached: &Reached) -> bool {
        let Reached { throughput, here, there, .. } = *reached;
        let widest = if self.rate_only { throughput } else { throughput.max(here).max(there) };
        reached.runs >= self.min && widest * 100.0 <= self.width
    }
}

/// What is said where it is not.
pub(super) fn warning(options: &Options, figures: &Figures) -> String {
    let unmet = options.confidence.filter(|wanted| !wanted.suffices(&figures.reached));
    let named = matches!(options.selection, Some((super::Style::Keys | super::Style::Csv, _)));
    if unmet.is_none() || named {
        return String::new();
    }
    let Reached { throughput, here, there, .. } = figures.reached;
    format!(
        "!!! WARNING\n\
         !!! Desired confidence was not achieved within the specified iterations.\n\
         !!! This implies that there was variability in the test environment that\n\
         !!! must be investigated before going further.\n\
         !!! Confidence intervals: Throughput      : {:4.3}%\n\
         !!!                       Local CPU util  : {:4.3}%\n\
         !!!                       Remote CPU util : {:4.3}%\n\n",
        100.0 * throughput,
        100.0 * here,
        100.0 * there
    )
}
