//! The finished view: every number computed, every sentence worded. Formats lay it out and add
//! nothing. Serialised as it stands it is the JSON document of compare, format 1.

mod pair;
mod words;

use std::sync::Arc;

use linerate_model::record::ProgramFacts;
use serde::Serialize;

use self::words::{Words, headline, notes, numbers_for};
use super::analysis::{Analysis, Comparison, Interval, Margin, percent};
use crate::number;
use crate::number::general;

/// Values of a set up to which the document repeats them.
const MOST_VALUES: usize = 100_000;

/// What follows the note that runs are taken as independent, for who can say more with flags.
pub const HOW_TO_TELL_BOOTS: &str = " If they come from several boots (or restarts of the \
                                     programs), say so with --boots COLUMN or --boots-of SIZE.";

/// The limit of comparing the runs of a campaign that reboots nothing.
const WITHIN_A_BOOT: &str = "This campaign reboots nothing (boots = 0), so its verdicts are over runs, taken as \
                             independent: they hold for the boot it ran in, and what another boot \
                             would change is not known. `boots = 3` in [repeat] and more show that.";

/// Indices of outliers that are spelled out.
const MOST_NAMED: usize = 5;

/// Everything, ready to be laid out.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct View {
    /// Number of the document's format.
    pub format: u32,
    /// What kind of document.
    pub kind: &'static str,
    /// The program.
    pub linerate: ProgramFacts,
    /// One line on what was compared and how.
    pub headline: String,
    /// Confidence in percent.
    pub level: f64,
    /// The margin as text: `1 %`, `5 Mbit/s`.
    pub margin: String,
    /// Unit of the values, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The unit of the numbers in words and tables: `Gbit/s` where the values are in `bit/s`.
    #[serde(skip)]
    pub shown: Option<String>,
    /// What a value is divided by to be in that unit.
    #[serde(skip)]
    pub size: f64,
    /// How p values and intervals of several comparisons were adjusted.
    pub adjusted: &'static str,
    /// Seed of the bootstrap intervals.
    pub seed: u64,
    /// Names of the methods in use.
    pub methods: Vec<&'static str>,
    /// The sets; the first is the baseline.
    pub sets: Vec<SetView>,
    /// One for each set after the first.
    pub comparisons: Vec<ComparisonView>,
    /// What the reader should know about all of it.
    pub notes: Vec<String>,
    /// The result in plain words, one sentence or two a comparison.
    pub words: Vec<String>,
    /// Sets that are drawn again on their own scale.
    #[serde(skip)]
    pub zoom: Option<Vec<usize>>,
    /// Values that get a ring and a word in the figures.
    #[serde(skip)]
    pub marks: Vec<Mark>,
}

/// A value that stands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Index of its set.
    pub set: usize,
    /// Index of the value.
    pub index: usize,
    /// What stands beside it; short.
    pub text: String,
}

/// Something noticed about a set.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Flag {
    /// Stable name: outliers, modes, drift, warm_up, no_steady_state, autocorrelation, constant,
    /// boots, rounded, skipped, note.
    pub kind: &'static str,
    /// In words.
    pub text: String,
}

/// One set.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct SetView {
    /// Name.
    pub label: String,
    /// Runs.
    pub n: u64,
    /// Least.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Median.
    pub median: Option<f64>,
    /// First quartile, type 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q1: Option<f64>,
    /// Third quartile, type 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q3: Option<f64>,
    /// Mean; of boot means when boots are known.
    pub mean: f64,
    /// Mean without a fifth of the values at each end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trimmed_mean: Option<f64>,
    /// Standard deviation of all runs.
    pub sd: f64,
    /// Number of boots, when known.
    pub boots: Option<u64>,
    /// Runs of each boot, when all have as many.
    pub runs_per_boot: Option<u64>,
    /// Interval of the mean; absent with fewer than 3 boots.
    pub ci: Option<Interval>,
    /// Standard deviation between boots.
    pub between_sd: Option<f64>,
    /// Standard deviation within boots.
    pub within_sd: Option<f64>,
    /// Share of the variance that boots explain.
    pub icc: Option<f64>,
    /// p value of "no boot effect".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_effect_p: Option<f64>,
    /// What was noticed.
    pub flags: Vec<Flag>,
    /// The values in their order, when they are not too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<f64>>,
    /// Boot of each value, as an index into `boot_labels`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_of: Option<Vec<u32>>,
    /// Names of the boots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boot_labels: Vec<String>,
    /// Mean of each boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boot_means: Vec<f64>,
    /// All values, for the figures.
    #[serde(skip)]
    pub drawn: Arc<Vec<f64>>,
    /// Boot of each of them.
    #[serde(skip)]
    pub drawn_boot: Option<Vec<u32>>,
    /// The table's cells, worded.
    #[serde(skip)]
    pub cells: Vec<String>,
}

/// One set against the baseline.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ComparisonView {
    /// The set.
    pub label: String,
    /// What it is compared with.
    pub baseline: String,
    /// Everything computed.
    #[serde(flatten)]
    pub figures: Comparison,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<&'static str>,
    /// What ministat prints for the same figures.
    pub ministat: MinistatView,
    /// The lines below the table, worded.
    #[serde(skip)]
    pub lines: Vec<(String, String)>,
}

/// The comparison in ministat's arithmetic, for readers of older tables.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct MinistatView {
    /// The text, without tabs; one line each.
    pub lines: Vec<String>,
    /// Half width of the difference.
    pub error: Option<f64>,
}

impl View {
    /// Says of runs without boots that they are those of a campaign that reboots nothing, in place of what
    /// is said of runs whose boots nobody named.
    pub fn note_within_a_boot(&mut self) {
        let general = self.notes.iter_mut().find(|note| note.contains(HOW_TO_TELL_BOOTS));
        if let Some(note) = general {
            WITHIN_A_BOOT.clone_into(note);
        }
    }

    /// Words an analysis.
    pub fn new(analysis: Analysis) -> Self {
        let unit = analysis.sets.iter().find_map(|s| s.set.unit.clone());
        let numbers = numbers_for(&analysis);
        let shown = unit.as_deref().map(|u| numbers.unit(u));
        let level = percent(analysis.options.level);
        let margin = match analysis.options.margin {
            Margin::Relative(m) => format!("{} %", general(m * 100.0, 6)),
            Margin::Absolute(m) => match &unit {
                // What ends in the sign itself is a share of the baseline.
                Some(unit) if unit.ends_with('%') => format!("{} {unit} points", number::plain(m)),
                Some(unit) => format!("{} {unit}", number::plain(m)),
                None => number::plain(m),
            },
        };
        let several = analysis.comparisons.len() > 1 && analysis.adjusted != "none";
        let words_with = Words { numbers, level, margin: &margin, unit: shown.as_deref(), several };
        let mut view = Self {
            format: 1,
            kind: "compare",
            linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
            headline: headline(&analysis, level, &margin, shown.as_deref()),
            level,
            margin: margin.clone(),
            unit: unit.clone(),
            shown: shown.clone(),
            size: numbers.size(),
            adjusted: analysis.adjusted,
            seed: analysis.options.seed,
            methods: METHODS.to_vec(),
            sets: analysis.sets.iter().map(|s| words_with.set(s)).collect(),
            comparisons: Vec::new(),
            notes: notes(&analysis),
            words: Vec::new(),
            zoom: None,
            marks: Vec::new(),
        };
        let Some(base) = analysis.sets.first() else { return view };
        for comparison in &analysis.comparisons {
            let Some(set) = analysis.sets.get(comparison.set) else { continue };
            view.words.push(words_with.sentence(base, set, comparison));
            view.comparisons.push(words_with.comparison(base, set, comparison));
        }
        for set in &view.sets {
            let has = |kind: &str| set.flags.iter().any(|f| f.kind == kind);
            let why = match (has("modes"), has("no_steady_state"), has("autocorrelation")) {
                (true, ..) => "falls into two modes",
                (_, true, _) => "has no steady state",
                (.., true) if set.boots.is_none() => {
                    "has runs that resemble the one before, so that its interval is too narrow"
                }
                _ => continue,
            };
            view.words.push(format!(
                "Mind: {} {why}; find the reason before trusting its mean.",
                set.label
            ));
        }
        if view.comparisons.is_empty()
            && let Some(set) = view.sets.first()
        {
            let ci = set.ci.as_ref().map(|ci| {
                let ends = (numbers.value(ci.low), numbers.value(ci.high));
                format!(" ({} % interval {} to {})", general(level, 6), ends.0, ends.1)
            });
            let unit = shown.as_deref().map(|u| format!(" {u}")).unwrap_or_default();
            view.words.push(format!(
                "The mean of {} is {}{unit}{}; there is nothing to compare it with.",
                set.label,
                numbers.value(set.mean),
                ci.unwrap_or_default()
            ));
        }
        view
    }
}

const METHODS: [&str; 9] = [
    "t on boot means or Welch on runs",
    "Fieller ratio",
    "TOST",
    "Dunnett or Holm",
    "Mann-Whitney exact",
    "Hodges-Lehmann",
    "BCa bootstrap",
    "ANOVA variance components",
    "noncentral t power",
];
