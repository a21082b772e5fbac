//! The finished view: every number computed, every sentence worded. Formats lay it out and add
//! nothing. Serialised as it stands it is the JSON document of compare, format 1.

use std::sync::Arc;

use linerate_stats::offline::fieller::RatioInterval;
use linerate_stats::offline::ministat as classic;
use linerate_stats::offline::outliers::Grade;
use linerate_stats::offline::pelt::Course;
use serde::Serialize;

use super::analysis::{Analysis, Comparison, Margin, NoVerdict, SetFigures, Verdict};
use super::number::{Numbers, p, percent, short};
use super::set::Data;
use crate::ministat::general;

/// Values of a set up to which the document repeats them.
const MOST_VALUES: usize = 100_000;

/// What follows the note that runs are taken as independent, for who can say more with flags.
pub const HOW_TO_TELL_BOOTS: &str = " If they come from several boots (or restarts of the \
                                     programs), say so with --boots COLUMN or --boots-of SIZE.";

/// Indices of outliers that are spelled out.
const MOST_NAMED: usize = 5;

/// Everything, ready to be laid out.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    /// Number of the document's format.
    pub format: u32,
    /// What kind of document.
    pub kind: &'static str,
    /// The program.
    pub linerate: Program,
    /// One line on what was compared and how.
    pub headline: String,
    /// Confidence in percent.
    pub level: f64,
    /// The margin as text: `1 %`, `5 Mbit/s`.
    pub margin: String,
    /// Unit of the values, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
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

/// The program that made a document.
#[derive(Debug, Clone, Serialize)]
pub struct Program {
    /// Semantic version.
    pub version: &'static str,
}

/// An interval with what it claims.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// Something noticed about a set.
#[derive(Debug, Clone, Serialize)]
pub struct Flag {
    /// Stable name: outliers, modes, drift, warm_up, no_steady_state, autocorrelation, constant,
    /// boots, rounded, skipped, note.
    pub kind: &'static str,
    /// In words.
    pub text: String,
}

/// One set.
#[derive(Debug, Clone, Serialize)]
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub boot_labels: Vec<String>,
    /// Mean of each boot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
#[derive(Debug, Clone, Serialize)]
pub struct ComparisonView {
    /// The set.
    pub label: String,
    /// What it is compared with.
    pub baseline: String,
    /// Mean less the baseline's.
    pub difference: Option<f64>,
    /// Its interval, simultaneous when several sets are compared.
    pub ci: Option<Interval>,
    /// Mean over the baseline's.
    pub ratio: Option<f64>,
    /// Its interval; absent when `ratio_unbounded`.
    pub ratio_ci: Option<Interval>,
    /// The baseline cannot be told from zero, so no bounds can be given.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<String>,
    /// How the difference was computed.
    pub method: &'static str,
    /// Smallest difference that these runs show with 80 % power.
    pub smallest_effect: Option<f64>,
    /// A design with 80 % power at the margin.
    pub runs_needed: Option<RunsNeeded>,
    /// The margin in the unit of the values.
    pub margin: Option<f64>,
    /// Hedges' g.
    pub hedges_g: Option<f64>,
    /// Cliff's delta.
    pub cliffs_delta: Option<f64>,
    /// Mann and Whitney.
    pub mann_whitney: Option<MannWhitneyView>,
    /// Hodges and Lehmann's shift.
    pub shift: Option<f64>,
    /// Its interval, with the confidence it really has.
    pub shift_ci: Option<Interval>,
    /// Bootstrap interval.
    pub bootstrap_ci: Option<Interval>,
    /// Share of the variance that boots explain, both sets together.
    pub boot_share: Option<f64>,
    /// What ministat prints for the same figures.
    pub ministat: MinistatView,
    /// The lines below the table, worded.
    #[serde(skip)]
    pub lines: Vec<(String, String)>,
}

/// A rank test.
#[derive(Debug, Clone, Serialize)]
pub struct MannWhitneyView {
    /// U of the set.
    pub u: f64,
    /// Two-sided p value.
    pub p: f64,
    /// Counted out, not approximated.
    pub exact: bool,
    /// Least p value that sets of this size can give.
    pub least_p: Option<f64>,
}

/// A design.
#[derive(Debug, Clone, Serialize)]
pub struct RunsNeeded {
    /// Boots a set; null when boots are not known.
    pub boots: Option<u64>,
    /// Runs a boot; all runs of a set when boots are not known.
    pub runs_per_boot: u64,
    /// Runs a set.
    pub total: u64,
}

/// The comparison in ministat's arithmetic, for readers of older tables.
#[derive(Debug, Clone, Serialize)]
pub struct MinistatView {
    /// The text, without tabs; one line each.
    pub lines: Vec<String>,
    /// Half width of the difference.
    pub error: Option<f64>,
}

impl View {
    /// Words an analysis.
    pub fn new(analysis: Analysis) -> Self {
        let unit = analysis.sets.iter().find_map(|s| s.set.unit.clone());
        let numbers = numbers_for(&analysis);
        let level = tidy(analysis.options.level * 100.0);
        let margin = match analysis.options.margin {
            Margin::Relative(m) => format!("{} %", short(m * 100.0)),
            Margin::Absolute(m) => match &unit {
                Some(unit) => format!("{} {unit}", general(m, 6)),
                None => general(m, 6),
            },
        };
        let words_with = Words { numbers, level, margin: &margin, unit: unit.as_deref() };
        let mut view = Self {
            format: 1,
            kind: "compare",
            linerate: Program { version: env!("CARGO_PKG_VERSION") },
            headline: headline(&analysis, level, &margin, unit.as_deref()),
            level,
            margin: margin.clone(),
            unit: unit.clone(),
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
            let several = analysis.comparisons.len() > 1 && analysis.adjusted != "none";
            let bootstrap_of = if base.boots.is_some() {
                "hierarchical percentile bootstrap of the difference of means"
            } else {
                "BCa bootstrap of the difference of medians"
            };
            view.comparisons.push(words_with.comparison(
                base,
                set,
                comparison,
                several,
                bootstrap_of,
            ));
        }
        for set in &view.sets {
            let has = |kind: &str| set.flags.iter().any(|f| f.kind == kind);
            let why = match (has("modes"), has("no_steady_state")) {
                (true, _) => "falls into two modes",
                (_, true) => "has no steady state",
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
            let unit = unit.map(|u| format!(" {u}")).unwrap_or_default();
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

/// 95.00000000000001 is 95.
fn tidy(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

fn numbers_for(analysis: &Analysis) -> Numbers {
    let scatter = analysis.sets.iter().map(|s| s.all.sd()).filter(|s| *s > 0.0);
    let size = analysis
        .sets
        .iter()
        .map(|s| s.range.map_or(s.mean.abs(), |(low, high)| low.abs().max(high.abs())));
    Numbers::new(scatter.reduce(f64::min), size.fold(0.0, f64::max))
}

fn headline(analysis: &Analysis, level: f64, margin: &str, unit: Option<&str>) -> String {
    let sets = match analysis.sets.len() {
        1 => "1 set".to_owned(),
        n => format!("{n} sets"),
    };
    let base = analysis.sets.first().map_or("", |s| s.set.label.as_str());
    let of = if analysis.sets.iter().any(|s| s.boots.is_some()) {
        "the boot is the unit"
    } else {
        "runs taken as independent"
    };
    let unit = unit.map(|u| format!(" in {u}")).unwrap_or_default();
    let baseline =
        if analysis.sets.len() > 1 { format!(" · baseline {base}") } else { String::new() };
    format!("{sets}{unit}{baseline} · {} % intervals · margin {margin} · {of}", general(level, 6))
}

fn notes(analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    let sets = &analysis.sets;
    let runs = sets.iter().any(|s| matches!(s.set.data, Data::Runs { .. }));
    if runs && sets.iter().all(|s| s.boots.is_none()) {
        notes.push(format!(
            "The runs are taken as independent: with a boot effect these intervals are too \
             narrow.{HOW_TO_TELL_BOOTS}"
        ));
    }
    if sets.iter().any(|s| matches!(s.set.data, Data::Summary { .. })) {
        notes.push(
            "Of printed averages only the t methods can be computed; runs within boots, ranks and \
             order cannot be seen."
                .to_owned(),
        );
    }
    let few = sets.iter().filter(|s| s.boots.as_ref().is_some_and(|b| b.means.len() < 3));
    let few: Vec<&str> = few.map(|s| s.set.label.as_str()).collect();
    if !few.is_empty() {
        notes.push(format!(
            "Fewer than 3 boots ({}): a boot effect cannot be told apart, so there is no interval \
             and no verdict across boots.",
            few.join(", ")
        ));
    }
    if analysis.comparisons.len() > 1 {
        notes.push(match analysis.adjusted {
            "Dunnett" => format!(
                "{} comparisons with one baseline: intervals and adjusted p values are \
                 simultaneous (Dunnett, one variance for all sets).",
                analysis.comparisons.len()
            ),
            "Holm" => format!(
                "{} comparisons with one baseline: p values adjusted by Holm, intervals \
                 simultaneous (Bonferroni).",
                analysis.comparisons.len()
            ),
            _ => format!(
                "{} comparisons, not adjusted: the more there are, the likelier one is wrong.",
                analysis.comparisons.len()
            ),
        });
    }
    if analysis.comparisons.iter().any(|c| c.bootstrap.is_some()) {
        notes.push(format!("Bootstrap: 10000 resamples, seed {}.", analysis.options.seed));
    }
    notes
}

struct Words<'a> {
    numbers: Numbers,
    level: f64,
    margin: &'a str,
    unit: Option<&'a str>,
}

impl Words<'_> {
    fn interval(&self, low: f64, high: f64, method: &'static str) -> Interval {
        Interval { low, high, level: self.level, method }
    }

    fn set(&self, s: &SetFigures) -> SetView {
        let components = s.boots.as_ref().and_then(|b| b.components);
        let sizes = s.boots.as_ref().map(|b| b.runs.iter().map(Vec::len).collect::<Vec<_>>());
        let even = sizes.as_ref().and_then(|sizes| {
            let first = *sizes.first()?;
            sizes.iter().all(|n| *n == first).then_some(first as u64)
        });
        let method = if s.boots.is_some() { "t on boot means" } else { "t on runs" };
        let ci = s.half_width.map(|h| self.interval(s.mean - h, s.mean + h, method));
        let values = s.set.values();
        let kept = values.len() <= MOST_VALUES && !values.is_empty();
        let boot_of = s.set.boots().map(|b| b.of.clone());
        let n = self.numbers;
        let optional = |x: Option<f64>| x.map_or("-".to_owned(), |x| n.value(x));
        let design = match (&sizes, even) {
            (None, _) => format!("{}", s.all.n),
            (Some(sizes), Some(m)) => format!("{} x {m}", sizes.len()),
            (Some(sizes), None) => format!("{} ({} runs)", sizes.len(), s.all.n),
        };
        let cells = vec![
            s.set.label.clone(),
            design,
            n.value(s.mean),
            ci.as_ref()
                .map_or("-".to_owned(), |c| format!("{} to {}", n.value(c.low), n.value(c.high))),
            optional(s.median),
            n.value(s.all.sd()),
            optional(components.map(|c| c.between().sqrt())),
            optional(components.map(|c| c.within.sqrt())),
            components
                .and_then(|c| c.icc())
                .map_or("-".to_owned(), |i| format!("{:.0} %", i * 100.0)),
        ];
        SetView {
            label: s.set.label.clone(),
            n: s.all.n as u64,
            min: s.range.map(|r| r.0),
            max: s.range.map(|r| r.1),
            median: s.median,
            q1: s.quartiles.map(|q| q.0),
            q3: s.quartiles.map(|q| q.1),
            mean: s.mean,
            trimmed_mean: s.trimmed_mean,
            sd: s.all.sd(),
            boots: sizes.as_ref().map(|s| s.len() as u64),
            runs_per_boot: even,
            ci,
            between_sd: components.map(|c| c.between().sqrt()),
            within_sd: components.map(|c| c.within.sqrt()),
            icc: components.and_then(|c| c.icc()),
            boot_effect_p: components.and_then(|c| c.p),
            flags: self.flags(s),
            values: kept.then(|| values.to_vec()),
            boot_of: if kept { boot_of.clone() } else { None },
            boot_labels: s.boots.as_ref().map(|b| b.labels.clone()).unwrap_or_default(),
            boot_means: s
                .boots
                .as_ref()
                .map(|b| b.means.iter().map(|m| m + s.origin).collect())
                .unwrap_or_default(),
            drawn: match &s.set.data {
                Data::Runs { values, .. } => values.clone(),
                Data::Summary { .. } => Arc::default(),
            },
            drawn_boot: boot_of,
            cells,
        }
    }

    fn flags(&self, s: &SetFigures) -> Vec<Flag> {
        let n = self.numbers;
        let mut flags: Vec<Flag> =
            s.set.notes.iter().map(|text| Flag { kind: "note", text: text.clone() }).collect();
        let mut add = |kind, text: String| flags.push(Flag { kind, text });
        let values = s.set.values();
        let checks = &s.checks;
        if s.all.variance == 0.0 {
            let count = s.all.n;
            add(
                "constant",
                format!(
                    "all {count} values are {}: no spread can be told (is this a measurement, or \
                     was it rounded?)",
                    n.value(s.mean)
                ),
            );
        } else if (8..=MOST_VALUES).contains(&values.len()) {
            let distinct = {
                let mut sorted = values.to_vec();
                sorted.sort_unstable_by(f64::total_cmp);
                sorted.dedup();
                sorted.len()
            };
            if distinct * 3 < values.len() {
                let text = format!(
                    "only {distinct} different values in {} runs: rounded data",
                    values.len()
                );
                add("rounded", text);
            }
        }
        if let Some(m) = &checks.modes {
            add(
                "modes",
                format!(
                    "two modes: {} runs around {} and {} around {}, nothing between {} and {}; the \
                     mean describes neither",
                    m.low_count,
                    n.value(m.low_mean),
                    m.high_count,
                    n.value(m.high_mean),
                    n.value(m.gap.0),
                    n.value(m.gap.1)
                ),
            );
        }
        if !checks.outliers.is_empty() {
            let severe = checks.outliers.iter().filter(|o| o.grade == Grade::Severe).count();
            let named: Vec<String> = checks
                .outliers
                .iter()
                .take(MOST_NAMED)
                .map(|o| format!("run {}: {}", o.index + 1, n.value(o.value)))
                .collect();
            let more = if checks.outliers.len() > MOST_NAMED { ", …" } else { "" };
            let trimmed = s.trimmed_mean.map_or(String::new(), |t| {
                format!(
                    "; mean {}, median {}, 20 % trimmed mean {}",
                    n.value(s.all.mean),
                    s.median.map_or("-".into(), |m| n.value(m)),
                    n.value(t)
                )
            });
            add(
                "outliers",
                format!(
                    "{} outlier{} of {} runs ({severe} severe), kept: {}{more}{trimmed}",
                    checks.outliers.len(),
                    if checks.outliers.len() == 1 { "" } else { "s" },
                    values.len(),
                    named.join(", ")
                ),
            );
        }
        let of_each = if s.boots.is_some() { " of each boot" } else { "" };
        match checks.course {
            Some(Course::WarmUp { runs }) => {
                let check = match checks.mser {
                    Some(cut) => format!("; MSER-5 would leave out {cut}"),
                    None => String::new(),
                };
                add(
                    "warm_up",
                    format!(
                        "the first {runs} runs{of_each} are at another level (PELT){check}; they are counted \
                         all the same"
                    ),
                );
            }
            Some(Course::NoSteadyState { changes }) => add(
                "no_steady_state",
                format!(
                    "the level changes {changes} time{} over the runs{of_each} and the last level holds less \
                     than half of them: no steady state",
                    if changes == 1 { "" } else { "s" }
                ),
            ),
            _ => {}
        }
        if let Some(d) = &checks.drift {
            add(
                "drift",
                format!(
                    "drift over the order of the runs{of_each}: {} from first to last (p {})",
                    n.signed(d.change),
                    p(d.p)
                ),
            );
        }
        if let Some(l) = &checks.autocorrelation {
            add(
                "autocorrelation",
                format!(
                    "runs resemble the one before (lag-1 autocorrelation {:.2}): about {} independent \
                     runs",
                    l.r,
                    ((s.all.n * (1.0 - l.r) / (1.0 + l.r)).round()).max(1.0)
                ),
            );
        }
        if checks.skipped {
            add("skipped", "too many values to look for outliers, modes and order".to_owned());
        }
        if let Some(c) = s.boots.as_ref().and_then(|b| b.components) {
            if c.between_raw < 0.0 {
                add(
                    "boots",
                    "the estimated variance between boots is negative and shown as 0: no boot effect \
                     to be seen"
                        .to_owned(),
                );
            } else if let Some(test) = c.p.filter(|p| *p < 0.05) {
                add(
                    "boots",
                    format!(
                        "boots differ (F {}, p {}): {:.0} % of the variance lies between them",
                        c.f.map_or("-".into(), short),
                        p(test),
                        c.icc().unwrap_or(0.0) * 100.0
                    ),
                );
            }
        }
        flags
    }

    fn comparison(
        &self,
        base: &SetFigures,
        set: &SetFigures,
        c: &Comparison,
        several: bool,
        bootstrap_of: &'static str,
    ) -> ComparisonView {
        let n = self.numbers;
        let d = c.difference;
        let ci = d.zip(c.half_width).map(|(d, h)| {
            self.interval(
                d.estimate - h,
                d.estimate + h,
                if several { "simultaneous" } else { "t" },
            )
        });
        let (ratio_ci, unbounded) = match c.ratio_interval {
            Some(RatioInterval::Bounded { low, high }) => {
                (Some(self.interval(low, high, "Fieller")), false)
            }
            Some(RatioInterval::Unbounded) => (None, true),
            None => (None, false),
        };
        let shift_ci = c.shift.and_then(|s| s.interval).map(|(low, high, reached)| Interval {
            low,
            high,
            level: tidy(reached * 100.0),
            method: "Hodges-Lehmann",
        });
        let bootstrap_ci = c.bootstrap.map(|(low, high)| self.interval(low, high, bootstrap_of));
        let ministat = ministat(base, set, self.level);
        let mut lines: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, text: String| lines.push((name.to_owned(), text));
        let at = format!("{} %", general(self.level, 6));
        if let Some(d) = d {
            let interval = ci
                .as_ref()
                .map(|ci| format!(" ({at}: {} to {})", n.signed(ci.low), n.signed(ci.high)));
            add(
                "difference",
                format!(
                    "{}{}, {}, df {}",
                    n.signed(d.estimate),
                    interval.unwrap_or_default(),
                    c.method,
                    short(d.df)
                ),
            );
            let adjusted = match c.p_adjusted.filter(|_| several) {
                Some(a) => format!(", adjusted {}", p(a)),
                None => String::new(),
            };
            let equivalent = c
                .p_equivalent
                .map(|e| format!("; beyond the margin of {} p {}", self.margin, p(e)));
            add("p", format!("{}{adjusted}{}", p(d.p), equivalent.unwrap_or_default()));
        }
        match (c.ratio, &ratio_ci) {
            (Some(r), Some(ci)) => {
                let error = 0.5 * (ci.high - ci.low);
                add(
                    "ratio",
                    format!(
                        "{} ({at}: {} to {}, Fieller)",
                        places(r, error),
                        places(ci.low, error),
                        places(ci.high, error)
                    ),
                );
            }
            (Some(r), None) if unbounded => add(
                "ratio",
                format!("{}, unbounded: the baseline cannot be told from zero", short(r)),
            ),
            _ if base.mean == 0.0 => add("ratio", "none: the baseline is zero".to_owned()),
            _ => {}
        }
        if let Some(g) = c.hedges_g {
            let delta = c.mann_whitney.map(|m| format!(", Cliff's delta {:+.2}", m.cliffs_delta));
            add("effect size", format!("Hedges' g {g:+.2}{}", delta.unwrap_or_default()));
        }
        if let Some(m) = &c.mann_whitney {
            let how = if m.exact { "exact" } else { "approximate" };
            let of = if base.boots.is_some() { " on boot means" } else { "" };
            let alpha = 1.0 - self.level / 100.0;
            let least = match m.least_p.filter(|l| *l > alpha) {
                Some(l) => format!("; sets of this size cannot go below {}", p(l)),
                None => String::new(),
            };
            add("Mann-Whitney", format!("U {}, p {} ({how}{of}{least})", m.u, p(m.p)));
        }
        if let Some(s) = &c.shift {
            let text = match &shift_ci {
                Some(ci) => format!(
                    "{} ({} %: {} to {})",
                    n.signed(s.estimate),
                    short(ci.level),
                    n.signed(ci.low),
                    n.signed(ci.high)
                ),
                None => format!("{} (too few values for an interval)", n.signed(s.estimate)),
            };
            add("Hodges-Lehmann", text);
        }
        if let Some(ci) = &bootstrap_ci {
            add(
                "bootstrap",
                format!("{at}: {} to {} ({bootstrap_of})", n.signed(ci.low), n.signed(ci.high)),
            );
        }
        if let Some(smallest) = c.smallest_effect {
            let share = (base.mean != 0.0)
                .then(|| format!(" ({} %)", short(smallest / base.mean.abs() * 100.0)));
            add(
                "can show",
                format!("{}{} with 80 % power", n.value(smallest), share.unwrap_or_default()),
            );
        }
        if let Some(text) = self.plan(c) {
            add("needed", text);
        }
        if matches!(base.set.data, Data::Summary { .. })
            || matches!(set.set.data, Data::Summary { .. })
        {
            add("as ministat", ministat.lines.join("; "));
        }
        ComparisonView {
            label: set.set.label.clone(),
            baseline: base.set.label.clone(),
            difference: d.map(|d| d.estimate),
            ci,
            ratio: c.ratio,
            ratio_ci,
            ratio_unbounded: unbounded,
            pooled_sd: c.pooled_sd,
            df: d.map(|d| d.df),
            p: d.map(|d| d.p),
            p_adjusted: c.p_adjusted,
            p_equivalent: c.p_equivalent,
            verdict: c.verdict,
            no_verdict: c.no_verdict.map(|w| why_not(w).to_owned()),
            method: c.method,
            smallest_effect: c.smallest_effect,
            runs_needed: c.needed.map(|r| RunsNeeded {
                boots: r.boots,
                runs_per_boot: r.runs_per_boot,
                total: r.boots.unwrap_or(1).saturating_mul(r.runs_per_boot),
            }),
            margin: c.margin,
            hedges_g: c.hedges_g,
            cliffs_delta: c.mann_whitney.map(|m| m.cliffs_delta),
            mann_whitney: c.mann_whitney.map(|m| MannWhitneyView {
                u: m.u,
                p: m.p,
                exact: m.exact,
                least_p: m.least_p,
            }),
            shift: c.shift.map(|s| s.estimate),
            shift_ci,
            bootstrap_ci,
            boot_share: c.boot_share,
            ministat,
            lines,
        }
    }

    fn plan(&self, c: &Comparison) -> Option<String> {
        let margin = self.margin;
        let Some(needed) = c.needed else {
            return (c.margin.is_some() && c.no_verdict != Some(NoVerdict::NoSpread))
                .then(|| format!("more than ten million runs to show {margin}"));
        };
        Some(match needed.boots {
            Some(boots) => format!(
                "{boots} boots x {} runs of each set ({} runs) to show {margin} with 80 % power, if \
                 boots vary as much as their upper limit",
                needed.runs_per_boot,
                boots.saturating_mul(needed.runs_per_boot)
            ),
            None => format!(
                "{} runs of each set to show {margin} with 80 % power",
                needed.runs_per_boot
            ),
        })
    }

    /// The result as a person would say it.
    fn sentence(&self, base: &SetFigures, set: &SetFigures, c: &Comparison) -> String {
        let (name, baseline) = (&set.set.label, &base.set.label);
        let at = format!("{} % interval", general(self.level, 6));
        let design = design(base, set);
        let Some(d) = c.difference else {
            return format!("{name} and {baseline} cannot be compared.");
        };
        // More of a rate is faster; of anything else it is only more.
        let rate = self.unit.is_some_and(|u| u.contains("/s") || u.ends_with("ps"));
        let word = match (rate, d.estimate < 0.0) {
            (true, true) => "slower",
            (true, false) => "faster",
            (false, true) => "lower",
            (false, false) => "higher",
        };
        let (amount, ends) = self.amount(c, d.estimate);
        let boots = match c.boot_share.filter(|_| base.boots.is_some()) {
            Some(share) => format!("; boots explain {:.0} % of the variance", share * 100.0),
            None => String::new(),
        };
        if let Some(why) = c.no_verdict {
            let within = match why {
                NoVerdict::FewBoots => format!(
                    " Within these boots {name} is {amount} {word} ({at} {ends}), which says nothing \
                     about the next boot."
                ),
                NoVerdict::NoSpread => {
                    format!(" The difference is {}.", self.numbers.signed(d.estimate))
                }
                NoVerdict::FewPairs => String::new(),
            };
            return format!("No verdict on {name} against {baseline}: {}.{within}", why_not(why));
        }
        match c.verdict {
            Some(Verdict::Different) => {
                let small = match (c.p_equivalent, c.margin) {
                    (Some(e), Some(_)) if e < 1.0 - self.level / 100.0 => {
                        format!(
                            " The difference is proven, and smaller than the margin of {}.",
                            self.margin
                        )
                    }
                    _ => String::new(),
                };
                format!(
                    "{name} is {amount} {word} than {baseline} ({at} {ends}, {design}){boots}.{small}"
                )
            }
            Some(Verdict::Equivalent) => format!(
                "{name} and {baseline} are equivalent within the margin of {} (difference {}, \
                 {design}){boots}.",
                self.margin,
                self.span(c, d.estimate)
            ),
            _ => {
                let shows = c.smallest_effect.map(|s| {
                    let share = (base.mean != 0.0)
                        .then(|| format!("{} %", short(s / base.mean.abs() * 100.0)));
                    let shown = share.unwrap_or_else(|| self.numbers.value(s));
                    format!(" These runs can show {shown};")
                });
                let needed = match c.needed {
                    Some(n) => match n.boots {
                        Some(b) => format!(
                            " to show {} takes {b} boots x {} runs of each set.",
                            self.margin, n.runs_per_boot
                        ),
                        None => format!(
                            " to show {} takes {} runs of each set.",
                            self.margin, n.runs_per_boot
                        ),
                    },
                    None if c.margin.is_none() => {
                        " the baseline is zero, so give the margin as a number (--margin 5)."
                            .to_owned()
                    }
                    None => {
                        format!(" to show {} would take more than ten million runs.", self.margin)
                    }
                };
                format!(
                    "Inconclusive: {name} may differ from {baseline} by {} ({at}, {design}){boots}.{}{needed}",
                    self.span(c, d.estimate),
                    shows.unwrap_or_default()
                )
            }
        }
    }

    /// `49.4 %` and `48.7 to 50.1 %`, both without sign; in the unit of the values without a ratio.
    fn amount(&self, c: &Comparison, estimate: f64) -> (String, String) {
        if let (Some(r), Some(RatioInterval::Bounded { low, high })) = (c.ratio, c.ratio_interval) {
            // A ratio below one with a negative baseline is a higher value; the sign says which.
            let sign = if (r - 1.0) < 0.0 { -1.0 } else { 1.0 };
            let error = Some(0.5 * (high - low));
            let (mut a, mut b) = (sign * (low - 1.0), sign * (high - 1.0));
            if a > b {
                std::mem::swap(&mut a, &mut b);
            }
            let ends = format!("{} to {} %", percent(a, error), percent(b, error));
            return (format!("{} %", percent((r - 1.0).abs(), error)), ends);
        }
        let half = c.half_width.unwrap_or(0.0);
        let n = self.numbers;
        let unit = self.unit.map(|u| format!(" {u}")).unwrap_or_default();
        let ends = format!(
            "{} to {}{unit}",
            n.value(estimate.abs() - half),
            n.value(estimate.abs() + half)
        );
        (format!("{}{unit}", n.value(estimate.abs())), ends)
    }

    /// `-0.64 to +0.05 %`, with signs.
    fn span(&self, c: &Comparison, estimate: f64) -> String {
        if let Some(RatioInterval::Bounded { low, high }) = c.ratio_interval {
            // Around zero a further digit is wanted: it tells the sides apart.
            let error = Some(0.1 * (high - low));
            let signed = |x: f64| {
                let text = percent(x - 1.0, error);
                if text.starts_with('-') { text } else { format!("+{text}") }
            };
            return format!("{} to {} %", signed(low), signed(high));
        }
        let half = c.half_width.unwrap_or(0.0);
        let n = self.numbers;
        let unit = self.unit.map(|u| format!(" {u}")).unwrap_or_default();
        format!("{} to {}{unit}", n.signed(estimate - half), n.signed(estimate + half))
    }
}

/// `3 boots x 10 runs`, of both when they agree.
fn design(base: &SetFigures, set: &SetFigures) -> String {
    let of = |s: &SetFigures| match &s.boots {
        Some(b) => {
            let first = b.runs.first().map_or(0, Vec::len);
            if b.runs.iter().all(|r| r.len() == first) {
                format!("{} boots x {first} runs", b.runs.len())
            } else {
                format!("{} boots, {} runs", b.runs.len(), s.all.n)
            }
        }
        None => format!("{} runs", s.all.n),
    };
    let (a, b) = (of(base), of(set));
    if a == b { a } else { format!("{b} against {a}") }
}

fn why_not(why: NoVerdict) -> &'static str {
    match why {
        NoVerdict::FewBoots => {
            "with fewer than 3 boots a boot effect cannot be told apart from the setting"
        }
        NoVerdict::NoSpread => "neither set varies, so chance cannot be judged",
        NoVerdict::FewPairs => "fewer than 3 pairs",
    }
}

fn places(x: f64, error: f64) -> String {
    let decimals = if error > 0.0 { (1.0 - error.log10().floor()).clamp(2.0, 8.0) } else { 4.0 };
    format!("{x:.*}", decimals as usize)
}

/// The same comparison in ministat's arithmetic and words, from counts, averages and deviations.
fn ministat(base: &SetFigures, set: &SetFigures, level: f64) -> MinistatView {
    let column = classic::LEVELS.iter().position(|(l, _)| *l == level);
    let figures = |s: &SetFigures| classic::SetFigures {
        n: s.all.n as u64,
        min: 0.0,
        max: 0.0,
        median: 0.0,
        average: s.all.mean,
        variance: s.all.variance,
    };
    let Some(column) = column else {
        let lines = vec![format!("ministat has no level of {} %", general(level, 6))];
        return MinistatView { lines, error: None };
    };
    let c = classic::compare(&figures(set), &figures(base), column, classic::Arithmetic::Classic);
    let Some(c) = c.filter(|c| c.error.is_finite()) else {
        return MinistatView { lines: Vec::new(), error: None };
    };
    if !c.proven {
        let lines = vec![format!("No difference proven at {level:.1}% confidence")];
        return MinistatView { lines, error: Some(c.error) };
    }
    let mut lines = vec![
        format!("Difference at {level:.1}% confidence"),
        format!("{} +/- {}", general(c.difference, 6), general(c.error, 6)),
    ];
    if c.percent.is_finite() {
        lines.push(format!("{}% +/- {}%", general(c.percent, 6), general(c.percent_error, 6)));
    }
    lines.push(format!("(Student's t, pooled s = {})", general(c.pooled_sd, 6)));
    MinistatView { lines, error: Some(c.error) }
}
