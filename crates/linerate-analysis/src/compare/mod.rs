//! Everything that compare computes, as numbers. What cannot be computed is `None`.

mod adjust;
mod describe;
mod judge;
mod pair;

use linerate_stats::offline::fieller::RatioInterval;
use linerate_stats::offline::nested::Components;
use linerate_stats::offline::summary::Moments;
use linerate_stats::offline::welch::Difference;
use linerate_stats::offline::{
    autocorrelation, bootstrap, drift, mann_whitney, modes, outliers, pelt,
};

use crate::set::{Data, Set};
use adjust::adjust;
use describe::describe;
use judge::judge;

/// The smallest difference that matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Margin {
    /// A share of the baseline: 0.01 is 1 %.
    Relative(f64),
    /// In the unit of the values.
    Absolute(f64),
}

/// How several comparisons with one baseline are adjusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Adjust {
    /// Dunnett where the sets scatter alike, else Holm.
    #[default]
    Auto,
    /// Dunnett.
    Dunnett,
    /// Holm.
    Holm,
    /// Each as if it were alone.
    None,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Options {
    /// Confidence, 0.5 to 0.9999.
    pub level: f64,
    /// Set before looking.
    pub margin: Margin,
    /// Pair boots of the same name (or, without boots, runs of the same number).
    pub paired: bool,
    /// For several sets.
    pub adjust: Adjust,
    /// Of the bootstrap.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: 0.95,
            margin: Margin::Relative(0.01),
            paired: false,
            adjust: Adjust::Auto,
            seed: bootstrap::DEFAULT_SEED,
        }
    }
}

/// Why sets cannot be compared, as a sentence, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct CannotCompare {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

fn cannot<T>(what: impl Into<String>, hint: impl Into<String>) -> Result<T, CannotCompare> {
    Err(CannotCompare { what: what.into(), hint: hint.into() })
}

/// Boots of one set, computed. Runs and means are less [`SetFigures::origin`]: rounding them at a
/// billion would cost the differences their digits.
#[derive(Debug, Clone)]
pub struct BootFigures {
    /// The values of each.
    pub runs: Vec<Vec<f64>>,
    /// Mean of each.
    pub means: Vec<f64>,
    /// Their names.
    pub labels: Vec<String>,
    /// Spread between and within. `None` with one boot, or one run in each.
    pub components: Option<Components>,
}

/// One set, described.
#[derive(Debug, Clone)]
pub struct SetFigures {
    /// The set.
    pub set: Set,
    /// A value near all of them, the same for all sets.
    pub origin: f64,
    /// Count, mean and variance of all runs.
    pub all: Moments,
    /// The mean that stands for the set: of boot means when boots are known.
    pub mean: f64,
    /// Least and largest.
    pub range: Option<(f64, f64)>,
    /// Median.
    pub median: Option<f64>,
    /// First and third quartile.
    pub quartiles: Option<(f64, f64)>,
    /// Mean without a fifth at each end.
    pub trimmed_mean: Option<f64>,
    /// When boots are known.
    pub boots: Option<BootFigures>,
    /// Count, mean and variance of the units: boot means, or runs when boots are not known. `None`
    /// with fewer than 3 boots.
    pub units: Option<Moments>,
    /// Half width of the interval of the mean.
    pub half_width: Option<f64>,
    /// What was noticed.
    pub checks: Checks,
}

/// What was noticed about the values of a set and their order.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// Far values.
    pub outliers: Vec<outliers::Outlier>,
    /// Two heaps.
    pub modes: Option<modes::TwoModes>,
    /// A significant trend (1 %).
    pub drift: Option<drift::Drift>,
    /// Levels over run order.
    pub course: Option<pelt::Course>,
    /// What MSER-5 would leave out, when the course says warm-up.
    pub mser: Option<usize>,
    /// Likeness of neighbours, when significant.
    pub autocorrelation: Option<autocorrelation::Lag1>,
    /// The set was too large to look.
    pub skipped: bool,
}

/// An interval with what it claims.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Interval {
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
    /// Confidence in percent.
    pub level: f64,
    /// How it was made.
    pub method: &'static str,
}

/// What is known for one set against the baseline, as documents have it.
#[derive(Debug, Clone, serde::Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// Index of the set.
    #[serde(skip)]
    pub set: usize,
    /// What the difference is made of.
    #[serde(skip)]
    pub basis: Basis,
    /// The difference with its error. `None` when there is no basis for one.
    #[serde(skip)]
    pub estimate: Option<Difference>,
    /// Half width of its interval at `options.level`, simultaneous for several sets.
    #[serde(skip)]
    half_width: Option<f64>,
    /// Of the ratio.
    #[serde(skip)]
    ratio_interval: Option<RatioInterval>,
    /// Squared standard errors of the baseline's mean and of the set's …
    #[serde(skip)]
    squared_errors: Option<(f64, f64)>,
    /// … and the covariance of the two, 0 unless they are paired.
    #[serde(skip)]
    covariance: f64,
    /// Mean less the baseline's.
    pub difference: Option<f64>,
    /// Its interval, simultaneous when several sets are compared.
    pub ci: Option<Interval>,
    /// Mean over the baseline's. `None` for a baseline of zero.
    pub ratio: Option<f64>,
    /// Its interval; absent when `ratio_unbounded`.
    pub ratio_ci: Option<Interval>,
    /// The baseline cannot be distinguished from zero, so no bounds can be given.
    pub ratio_unbounded: bool,
    /// Pooled standard deviation of the runs.
    pub pooled_sd: Option<f64>,
    /// Degrees of freedom.
    pub df: Option<f64>,
    /// p value of "no difference" by itself.
    pub p: Option<f64>,
    /// Adjusted for the number of comparisons.
    pub p_adjusted: Option<f64>,
    /// p value of "differs by the margin or more", adjusted.
    pub p_equivalent: Option<f64>,
    /// The verdict of three; null when the data allow none.
    pub verdict: Option<Verdict>,
    /// Why there is none.
    #[serde(skip)]
    pub no_verdict: Option<NoVerdict>,
    /// How the difference was computed.
    pub method: &'static str,
    /// Smallest difference that these runs show with 80 % power.
    pub smallest_effect: Option<f64>,
    /// A design with 80 % power at the margin.
    pub runs_needed: Option<Needed>,
    /// The margin in the unit of the values.
    pub margin: Option<f64>,
    /// Hedges' g of the runs.
    pub hedges_g: Option<f64>,
    /// Cliff's delta.
    pub cliffs_delta: Option<f64>,
    /// Mann and Whitney, on the units.
    pub mann_whitney: Option<mann_whitney::MannWhitney>,
    /// Hodges and Lehmann's shift, on the units.
    pub shift: Option<f64>,
    /// Its interval, with the confidence it really has.
    pub shift_ci: Option<Interval>,
    /// Bootstrap interval of the difference of medians (runs), or of means (ten boots and more).
    pub bootstrap_ci: Option<Interval>,
    /// Share of the variance that boots explain, both sets together.
    pub boot_share: Option<f64>,
}

impl Comparison {
    /// States what was estimated and adjusted. `several` sets were compared, so that intervals are
    /// simultaneous.
    fn state(&mut self, level: f64, several: bool) {
        let interval = |low, high, method| Interval { low, high, level: percent(level), method };
        if let Some(d) = self.estimate {
            (self.difference, self.df, self.p) = (Some(d.estimate), Some(d.df), Some(d.p));
            let method = if several { "simultaneous" } else { "t" };
            let half = self.half_width;
            self.ci = half.map(|h| interval(d.estimate - h, d.estimate + h, method));
        }
        match self.ratio_interval {
            Some(RatioInterval::Bounded { low, high }) => {
                self.ratio_ci = Some(interval(low, high, "Fieller"));
            }
            Some(RatioInterval::Unbounded) => self.ratio_unbounded = true,
            None => {}
        }
    }
}

/// A confidence in percent: 95.00000000000001 is 95.
pub fn percent(level: f64) -> f64 {
    (level * 1e8).round() / 1e6
}

/// What the difference is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Boot means.
    Boots,
    /// Differences of the means of shared boots.
    PairedBoots,
    /// Runs, taken as independent.
    Runs,
    /// Differences of runs of the same number.
    PairedRuns,
    /// Runs of too few boots: holds within these boots only.
    WithinBoots,
}

/// The verdict of three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A difference is proven.
    Different,
    /// No difference is proven, and one beyond the margin is refuted.
    Equivalent,
    /// Neither.
    Inconclusive,
}

impl Verdict {
    /// As in JSON and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Different => "different",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoVerdict {
    /// Fewer than three boots of a set.
    FewBoots,
    /// Neither set varies.
    NoSpread,
    /// Fewer than three pairs.
    FewPairs,
}

/// A design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Needed {
    /// Boots a set; null when boots are not known.
    pub boots: Option<u64>,
    /// Runs a boot; all runs of a set when boots are not known.
    pub runs_per_boot: u64,
    /// Runs a set.
    pub total: u64,
}

impl Needed {
    fn new(boots: Option<u64>, runs_per_boot: u64) -> Self {
        let total = boots.unwrap_or(1).saturating_mul(runs_per_boot);
        Self { boots, runs_per_boot, total }
    }
}

/// Everything computed.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// What was asked.
    pub options: Options,
    /// The sets; the first is the baseline.
    pub sets: Vec<SetFigures>,
    /// One for each set after the first.
    pub comparisons: Vec<Comparison>,
    /// How several comparisons were adjusted.
    pub adjusted: &'static str,
}

/// Describes the sets and compares each with the first.
pub fn compare(sets: &[Set], options: &Options) -> Result<Analysis, CannotCompare> {
    check(sets, options)?;
    // Only boots are measured from it; a printed row has none.
    let origin = sets.first().and_then(|s| s.values().first()).copied().unwrap_or(0.0);
    let figures: Option<Vec<SetFigures>> =
        sets.iter().map(|s| describe(s, origin, options)).collect();
    let Some(figures) = figures else {
        return cannot("a set has fewer than two values", "run the test again to get more");
    };
    let mut comparisons = Vec::new();
    let Some((base, others)) = figures.split_first() else {
        return cannot("no set to compare", "name at least one file");
    };
    for (index, set) in others.iter().enumerate() {
        comparisons.push(pair::compare(index + 1, base, set, options)?);
    }
    let adjusted = adjust(&figures, &mut comparisons, options);
    let several = comparisons.len() > 1 && adjusted != "none";
    for comparison in &mut comparisons {
        judge(&figures, comparison, options, others.len());
        comparison.state(options.level, several);
    }
    Ok(Analysis { options: options.clone(), sets: figures, comparisons, adjusted })
}

fn check(sets: &[Set], options: &Options) -> Result<(), CannotCompare> {
    let in_range = options.level >= 0.5 && options.level <= 0.9999;
    if !in_range {
        return cannot("the level must lie between 50 and 99.99 %", "the usual one is --level 95");
    }
    let (Margin::Relative(margin) | Margin::Absolute(margin)) = options.margin;
    if !(margin.is_finite() && margin > 0.0) {
        return cannot("the margin must be above zero", "for example --margin 1% or --margin 5");
    }
    let Some((base, others)) = sets.split_first() else { return Ok(()) };
    for set in others {
        let (with, without) = if base.unit.is_some() { (base, set) } else { (set, base) };
        match (&with.unit, &without.unit) {
            (Some(a), Some(b)) if a != b => {
                return cannot(
                    format!("the units differ: {} is in {a}, {} in {b}", with.label, without.label),
                    "compare values of one unit",
                );
            }
            (Some(unit), None) => {
                let (with, without) = (&with.label, &without.label);
                return cannot(
                    format!("{with} is in {unit}, {without} does not say its unit"),
                    format!("--unit says it, if {without} is in {unit} too: none is converted"),
                );
            }
            _ => {}
        }
        let summary = |s: &Set| matches!(s.data, Data::Summary { .. });
        if base.boots().is_some() != set.boots().is_some() {
            let (with, without) = if base.boots().is_some() { (base, set) } else { (set, base) };
            return cannot(
                format!(
                    "{} says which boot each run belongs to, {} does not",
                    with.label, without.label
                ),
                "give both their boots (--boots COLUMN, --boots-of SIZE), or say --boots none",
            );
        }
        if options.paired && (summary(base) || summary(set)) {
            return cannot(
                "printed averages cannot be paired",
                "pairing needs the runs themselves",
            );
        }
    }
    Ok(())
}
