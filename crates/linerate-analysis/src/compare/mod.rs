//! Everything that compare computes, as numbers. What cannot be computed is `None`.

use linerate_stats::offline::fieller::{RatioInterval, ratio_with_factor};
use linerate_stats::offline::nested::{self, Components};
use linerate_stats::offline::summary::{self, Moments};
use linerate_stats::offline::welch::{Difference, bartlett, pooled_sd, welch};
use linerate_stats::offline::{
    autocorrelation, bootstrap, distribution, drift, dunnett, effect, hodges_lehmann, holm,
    mann_whitney, modes, mser, outliers, pelt, power, tost,
};

use crate::set::{Boots, Data, Set};

/// Values of a set above which second opinions, which look at pairs or resample, are left out.
const MOST_FOR_SECOND_OPINION: usize = 20_000;

/// Values of a set above which the checks of single values and of their order are left out.
const MOST_FOR_CHECKS: usize = 200_000;

/// Below this p value of Bartlett's test the sets have too different scatter for Dunnett.
const SCATTER_DIFFERS: f64 = 0.05;

/// One-sided confidence of the limit of the boot variance that plans are made with.
const PLANNING_CONFIDENCE: f64 = 0.8;

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

/// What is known for one set against the baseline.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Index of the set.
    pub set: usize,
    /// What the difference is made of.
    pub basis: Basis,
    /// The difference. `None` when there is no basis for one.
    pub difference: Option<Difference>,
    /// How it was computed, in a few words.
    pub method: &'static str,
    /// Half width of its interval at `options.level`, simultaneous for several sets.
    pub half_width: Option<f64>,
    /// Ratio to the baseline's mean. `None` for a baseline of zero.
    pub ratio: Option<f64>,
    /// Its interval.
    pub ratio_interval: Option<RatioInterval>,
    /// Pooled standard deviation of the runs.
    pub pooled_sd: Option<f64>,
    /// p value, adjusted for the number of comparisons.
    pub p_adjusted: Option<f64>,
    /// p value of equivalence, adjusted.
    pub p_equivalent: Option<f64>,
    /// The verdict. `None` when the data allow none; `no_verdict` says why.
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    pub no_verdict: Option<NoVerdict>,
    /// Smallest difference that these runs show with 80 % power.
    pub smallest_effect: Option<f64>,
    /// For 80 % power at the margin.
    pub needed: Option<Needed>,
    /// The margin in the unit of the values.
    pub margin: Option<f64>,
    /// Hedges' g of the runs.
    pub hedges_g: Option<f64>,
    /// Mann and Whitney, on the units.
    pub mann_whitney: Option<mann_whitney::MannWhitney>,
    /// Hodges and Lehmann, on the units.
    pub shift: Option<hodges_lehmann::Shift>,
    /// Bootstrap interval of the difference of medians (runs), or of means (ten boots and more).
    pub bootstrap: Option<(f64, f64)>,
    /// Share of the variance that boots explain, of both sets together.
    pub boot_share: Option<f64>,
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

/// Runs that a design needs, for each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// Boots, when boots are known.
    pub boots: Option<u64>,
    /// Runs of each boot; all runs when boots are not known.
    pub runs_per_boot: u64,
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
        comparisons.push(one(index + 1, base, set, options)?);
    }
    let adjusted = adjust(&figures, &mut comparisons, options);
    for comparison in &mut comparisons {
        judge(&figures, comparison, options, others.len());
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
        if let (Some(a), Some(b)) = (&base.unit, &set.unit)
            && a != b
        {
            return cannot(
                format!("the units differ: {} is in {a}, {} in {b}", base.label, set.label),
                "compare values of one unit",
            );
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

fn describe(set: &Set, origin: f64, options: &Options) -> Option<SetFigures> {
    let (values, boots) = match &set.data {
        Data::Summary { moments, range, median } => {
            return Some(SetFigures {
                set: set.clone(),
                origin,
                all: *moments,
                mean: moments.mean,
                range: *range,
                median: *median,
                quartiles: None,
                trimmed_mean: None,
                boots: None,
                units: Some(*moments),
                half_width: moments.half_width(options.level),
                checks: Checks::default(),
            });
        }
        Data::Runs { values, boots } => (values, boots),
    };
    let all = Moments::of(values)?;
    let sorted = if values.len() > MOST_FOR_CHECKS {
        let mut partly = values.to_vec();
        summary::sort_for_quartiles(&mut partly);
        partly
    } else {
        summary::sorted(values)
    };
    let ends = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
    let boots = boots.as_ref().map(|b| boot_figures(b, values, origin));
    let units = match &boots {
        None => Some(all),
        Some(b) if b.means.len() >= nested::FEWEST_BOOTS => Moments::of(&b.means),
        Some(_) => None,
    };
    let mean = match &boots {
        Some(b) => origin + summary::mean(&b.means)?,
        None => all.mean,
    };
    Some(SetFigures {
        set: set.clone(),
        origin,
        all,
        mean,
        range: Some(ends),
        median: summary::median(&sorted),
        quartiles: Some((summary::quantile(&sorted, 0.25)?, summary::quantile(&sorted, 0.75)?)),
        trimmed_mean: summary::trimmed_mean(&sorted, 0.2),
        half_width: units.and_then(|u| u.half_width(options.level)),
        units,
        checks: checks(values, boots.as_ref()),
        boots,
    })
}

fn boot_figures(boots: &Boots, values: &[f64], origin: f64) -> BootFigures {
    let mut runs = boots.split(values);
    for value in runs.iter_mut().flatten() {
        *value -= origin;
    }
    let means = nested::boot_means(&runs);
    let components = nested::components(&runs);
    BootFigures { runs, means, labels: boots.labels.clone(), components }
}

fn checks(values: &[f64], boots: Option<&BootFigures>) -> Checks {
    if values.len() > MOST_FOR_CHECKS {
        return Checks { skipped: true, ..Checks::default() };
    }
    // What a boot fixes is no likeness of neighbours: each boot's level is taken out first.
    let levelled: Vec<f64> = match boots {
        Some(b) => b
            .runs
            .iter()
            .zip(&b.means)
            .flat_map(|(runs, mean)| runs.iter().map(move |x| x - mean))
            .collect(),
        None => values.to_vec(),
    };
    // Nor is it a drift or a warm-up: with boots, the course is that of the first, second, third …
    // runs of all boots.
    let order = boots.map_or_else(|| values.to_vec(), by_position);
    let course = pelt::course(&order);
    let warm = matches!(course, pelt::Course::WarmUp { .. });
    Checks {
        outliers: outliers::flag(values),
        modes: modes::two_modes(values),
        drift: drift::drift(&order).filter(|d| d.p < 0.01),
        mser: if warm { mser::mser5(&order).filter(|n| *n > 0) } else { None },
        course: (course != pelt::Course::Steady).then_some(course),
        autocorrelation: autocorrelation::lag1(&levelled).filter(|l| l.significant && l.r > 0.0),
        skipped: false,
    }
}

/// Mean of the first runs of all boots less their levels, of the second, and so on; as many as the
/// shortest boot has.
fn by_position(boots: &BootFigures) -> Vec<f64> {
    let shortest = boots.runs.iter().map(Vec::len).min().unwrap_or(0);
    let at = |position: usize| {
        let deviations: Vec<f64> = boots
            .runs
            .iter()
            .zip(&boots.means)
            .filter_map(|(runs, mean)| runs.get(position).map(|x| x - mean))
            .collect();
        summary::mean(&deviations)
    };
    (0..shortest).filter_map(at).collect()
}

/// Pairs by boot name or by run number.
fn pairs(
    base: &SetFigures,
    set: &SetFigures,
) -> Result<(Vec<f64>, Vec<f64>, Basis), CannotCompare> {
    let (Some(a), Some(b)) = (&base.boots, &set.boots) else {
        let (a, b) = (base.set.values(), set.set.values());
        if a.len() != b.len() {
            return cannot(
                format!(
                    "{} has {} runs and {} has {}: they cannot be paired run by run",
                    base.set.label,
                    a.len(),
                    set.set.label,
                    b.len()
                ),
                "leave --paired out, or pair by boot with --boots COLUMN",
            );
        }
        return Ok((a.to_vec(), b.to_vec(), Basis::PairedRuns));
    };
    let mut paired = (Vec::new(), Vec::new());
    for (label, mean) in a.labels.iter().zip(&a.means) {
        let Some(at) = b.labels.iter().position(|l| l == label) else {
            return cannot(
                format!("boot {label} of {} is missing in {}", base.set.label, set.set.label),
                "pairing needs the same boots in both sets; leave --paired out",
            );
        };
        paired.0.push(*mean);
        paired.1.push(b.means.get(at).copied().unwrap_or(*mean));
    }
    if let Some(extra) = b.labels.iter().find(|l| !a.labels.contains(l)) {
        return cannot(
            format!("boot {extra} of {} is missing in {}", set.set.label, base.set.label),
            "pairing needs the same boots in both sets; leave --paired out",
        );
    }
    Ok((paired.0, paired.1, Basis::PairedBoots))
}

/// Boots with world-wide names that both sets share in full are pairs without being told. Fewer than
/// three pairs tell less than the runs within the boots do.
fn share_boots(base: &SetFigures, set: &SetFigures) -> bool {
    let (Some(a), Some(b)) = (base.set.boots(), set.set.boots()) else { return false };
    let same = |x: &Boots, y: &Boots| x.labels.iter().all(|l| y.labels.contains(l));
    let enough = a.labels.len() >= nested::FEWEST_BOOTS;
    enough && a.identity && b.identity && same(a, b) && same(b, a)
}

fn one(
    index: usize,
    base: &SetFigures,
    set: &SetFigures,
    options: &Options,
) -> Result<Comparison, CannotCompare> {
    let mut no_verdict = None;
    let mut covariance = 0.0;
    let mut squared_errors = None;
    let (basis, difference, method);
    if options.paired || share_boots(base, set) {
        let (a, b, of) = pairs(base, set)?;
        if a.len() < nested::FEWEST_BOOTS {
            no_verdict = Some(if of == Basis::PairedBoots {
                NoVerdict::FewBoots
            } else {
                NoVerdict::FewPairs
            });
        }
        basis = of;
        difference = nested::paired(&a, &b);
        method =
            if of == Basis::PairedBoots { "paired t on boot means" } else { "paired t on runs" };
        if let (Some(x), Some(y), Some(d)) = (Moments::of(&a), Moments::of(&b), difference) {
            let (vx, vy) = (x.variance / x.n, y.variance / y.n);
            covariance = 0.5 * (vx + vy - d.standard_error * d.standard_error);
            squared_errors = Some((vx, vy));
        }
    } else if let (Some(_), Some(_), Some(x), Some(y)) =
        (&base.boots, &set.boots, &base.units, &set.units)
    {
        basis = Basis::Boots;
        let computed = nested::difference(x, y);
        difference = computed.map(|c| c.0);
        let pooled = computed.is_none_or(|c| c.1 == nested::Method::Pooled);
        method = if pooled { "pooled t on boot means" } else { "Welch on boot means" };
        squared_errors = difference.map(|_| {
            if pooled {
                let v = pooled_sd(x, y).map_or(0.0, |s| s * s);
                (v / x.n, v / y.n)
            } else {
                (x.variance / x.n, y.variance / y.n)
            }
        });
    } else {
        let known = base.boots.is_some();
        if known {
            no_verdict = Some(NoVerdict::FewBoots);
        }
        basis = if known { Basis::WithinBoots } else { Basis::Runs };
        difference = welch(&base.all, &set.all);
        method = "Welch on runs";
        squared_errors = Some((base.all.variance / base.all.n, set.all.variance / set.all.n));
    }
    if no_verdict.is_none() && difference.is_none_or(|d| d.standard_error == 0.0) {
        no_verdict = Some(NoVerdict::NoSpread);
    }
    let (base_mean, set_mean) = means(base, set, basis);
    let factor = difference.and_then(|d| distribution::t_factor(1.0 - options.level, d.df));
    let interval = |factor: f64| {
        let (vb, vs) = squared_errors?;
        ratio_with_factor((base_mean, vb), (set_mean, vs), covariance, factor)
    };
    let margin = match options.margin {
        Margin::Absolute(m) => Some(m),
        Margin::Relative(m) => (base_mean != 0.0).then(|| m * base_mean.abs()),
    };
    let p_equivalent =
        difference.zip(squared_errors).and_then(|(d, (vb, vs))| match options.margin {
            Margin::Absolute(m) => tost::absolute(d.estimate, d.standard_error, d.df, m),
            Margin::Relative(m) => {
                tost::relative((base_mean, vb), (set_mean, vs), covariance, d.df, m)
            }
        });
    let (a, b) = (base.set.values(), set.set.values());
    let small = |v: &[f64]| !v.is_empty() && v.len() <= MOST_FOR_SECOND_OPINION;
    let ranked = small(a) && small(b);
    // The unit of a rank test is the unit of the comparison.
    let units = match (&base.boots, &set.boots) {
        (Some(x), Some(y)) => (x.means.as_slice(), y.means.as_slice()),
        _ => (a, b),
    };
    let bootstrap = match (&base.boots, &set.boots) {
        (Some(x), Some(y)) => {
            bootstrap::hierarchical(&x.runs, &y.runs, options.level, options.seed)
        }
        _ => bootstrap::bca(a, b, options.level, options.seed, bootstrap::median_difference),
    };
    Ok(Comparison {
        set: index,
        basis,
        difference,
        method,
        half_width: factor.zip(difference).map(|(t, d)| t * d.standard_error),
        ratio: (base_mean != 0.0).then(|| set_mean / base_mean).filter(|r| r.is_finite()),
        ratio_interval: factor.and_then(interval),
        pooled_sd: pooled_sd(&base.all, &set.all),
        p_adjusted: difference.map(|d| d.p),
        p_equivalent,
        verdict: None,
        no_verdict,
        smallest_effect: None,
        needed: None,
        margin,
        hedges_g: effect::hedges_g(&base.all, &set.all),
        mann_whitney: if ranked { mann_whitney::test(units.0, units.1) } else { None },
        shift: if ranked { hodges_lehmann::shift(units.0, units.1, options.level) } else { None },
        bootstrap,
        boot_share: boot_share(base, set),
    })
}

fn means(base: &SetFigures, set: &SetFigures, basis: Basis) -> (f64, f64) {
    match basis {
        Basis::Boots | Basis::PairedBoots => (base.mean, set.mean),
        _ => (base.all.mean, set.all.mean),
    }
}

/// Components of both sets as one estimate: mean squares pooled over their degrees of freedom.
fn pooled_components(base: &SetFigures, set: &SetFigures) -> Option<Components> {
    let a = base.boots.as_ref()?.components?;
    let b = set.boots.as_ref()?.components?;
    let pool = |x: f64, y: f64, fx: f64, fy: f64| (x * fx + y * fy) / (fx + fy);
    let (fa, fb) = ((a.boots - 1) as f64, (b.boots - 1) as f64);
    let (wa, wb) = ((a.runs - a.boots) as f64, (b.runs - b.boots) as f64);
    Some(Components {
        boots: a.boots + b.boots - 1,
        runs: a.runs + b.runs,
        runs_per_boot: pool(a.runs_per_boot, b.runs_per_boot, fa, fb),
        between_raw: pool(a.between_raw, b.between_raw, fa, fb),
        within: pool(a.within, b.within, wa, wb),
        f: None,
        p: None,
    })
}

fn boot_share(base: &SetFigures, set: &SetFigures) -> Option<f64> {
    pooled_components(base, set)?.icc()
}

/// Adjusts p values and intervals for several comparisons with one baseline.
fn adjust(sets: &[SetFigures], comparisons: &mut [Comparison], options: &Options) -> &'static str {
    let k = comparisons.len();
    if k < 2 || options.adjust == Adjust::None {
        return "none";
    }
    let units: Option<Vec<Moments>> = sets.iter().map(|s| s.units).collect();
    let one_kind = comparisons.iter().all(|c| matches!(c.basis, Basis::Boots | Basis::Runs));
    let alike = units.as_ref().is_some_and(|u| bartlett(u).is_some_and(|p| p >= SCATTER_DIFFERS));
    let wanted = match options.adjust {
        Adjust::Dunnett => true,
        Adjust::Auto => alike,
        Adjust::Holm | Adjust::None => false,
    };
    if wanted
        && one_kind
        && let Some(units) = units
        && by_dunnett(sets, &units, comparisons, options).is_some()
    {
        return "Dunnett";
    }
    let raw: Vec<f64> = comparisons.iter().map(|c| c.difference.map_or(1.0, |d| d.p)).collect();
    for (comparison, p) in comparisons.iter_mut().zip(holm::adjust(&raw)) {
        comparison.p_adjusted = comparison.difference.map(|_| p);
        // Intervals that hold together: each at 1 - alpha / k (Bonferroni).
        let Some(d) = comparison.difference else { continue };
        let Some(t) = distribution::t_factor((1.0 - options.level) / k as f64, d.df) else {
            continue;
        };
        widen(comparison, sets, t);
    }
    adjust_equivalence(comparisons);
    "Holm"
}

fn adjust_equivalence(comparisons: &mut [Comparison]) {
    let raw: Vec<f64> = comparisons.iter().map(|c| c.p_equivalent.unwrap_or(1.0)).collect();
    for (comparison, p) in comparisons.iter_mut().zip(holm::adjust(&raw)) {
        comparison.p_equivalent = comparison.p_equivalent.map(|_| p);
    }
}

fn by_dunnett(
    sets: &[SetFigures],
    units: &[Moments],
    comparisons: &mut [Comparison],
    options: &Options,
) -> Option<()> {
    let df: f64 = units.iter().map(|u| u.n - 1.0).sum();
    let variance = units.iter().map(|u| (u.n - 1.0) * u.variance).sum::<f64>() / df;
    let (base, others) = units.split_first()?;
    let base_mean = sets.first()?.mean;
    let counts: Vec<f64> = others.iter().map(|u| u.n).collect();
    let factor = dunnett::factor(options.level, base.n, &counts, df)?;
    for (comparison, set) in comparisons.iter_mut().zip(others) {
        let (vb, vs) = (variance / base.n, variance / set.n);
        let d = Difference::new(set.above(base), (vb + vs).sqrt(), df)?;
        let mean = sets.get(comparison.set)?.mean;
        comparison.method = match comparison.basis {
            Basis::Boots => "Dunnett's t on boot means, one variance for all sets",
            _ => "Dunnett's t on runs, one variance for all sets",
        };
        comparison.p_adjusted = if d.standard_error > 0.0 {
            dunnett::p(d.estimate / d.standard_error, base.n, &counts, df)
        } else {
            Some(d.p)
        };
        comparison.half_width = Some(factor * d.standard_error);
        comparison.ratio_interval = ratio_with_factor((base_mean, vb), (mean, vs), 0.0, factor);
        comparison.p_equivalent = match options.margin {
            Margin::Absolute(m) => tost::absolute(d.estimate, d.standard_error, df, m),
            Margin::Relative(m) => tost::relative((base_mean, vb), (mean, vs), 0.0, df, m),
        };
        comparison.difference = Some(d);
    }
    adjust_equivalence(comparisons);
    Some(())
}

/// Widens the intervals of a comparison to another factor.
fn widen(comparison: &mut Comparison, sets: &[SetFigures], factor: f64) {
    let Some(d) = comparison.difference else { return };
    comparison.half_width = Some(factor * d.standard_error);
    let (Some(base), Some(set)) = (sets.first(), sets.get(comparison.set)) else { return };
    let (base_mean, set_mean) = means(base, set, comparison.basis);
    let errors = match comparison.basis {
        Basis::Boots => base.units.zip(set.units).map(|(x, y)| {
            // The pooled and the Welch form share the standard error of the difference.
            let (vx, vy) = (x.variance / x.n, y.variance / y.n);
            let scale = d.standard_error * d.standard_error / (vx + vy);
            if scale.is_finite() { (vx * scale, vy * scale) } else { (vx, vy) }
        }),
        Basis::Runs | Basis::WithinBoots => {
            Some((base.all.variance / base.all.n, set.all.variance / set.all.n))
        }
        // A pair's covariance is in the interval already; widened on the scale of the estimate.
        Basis::PairedBoots | Basis::PairedRuns => None,
    };
    comparison.ratio_interval = match errors {
        Some((vb, vs)) => ratio_with_factor((base_mean, vb), (set_mean, vs), 0.0, factor),
        None if base_mean != 0.0 => {
            let (r, half) = (set_mean / base_mean, (factor * d.standard_error / base_mean).abs());
            Some(RatioInterval::Bounded { low: r - half, high: r + half })
        }
        None => Some(RatioInterval::Unbounded),
    };
}

fn judge(sets: &[SetFigures], comparison: &mut Comparison, options: &Options, k: usize) {
    let (Some(d), Some(base), Some(set)) =
        (comparison.difference, sets.first(), sets.get(comparison.set))
    else {
        return;
    };
    let alpha = 1.0 - options.level;
    if comparison.no_verdict.is_none() {
        let below = |p: Option<f64>| p.is_some_and(|p| p < alpha);
        comparison.verdict = Some(if below(comparison.p_adjusted) {
            Verdict::Different
        } else if below(comparison.p_equivalent) {
            Verdict::Equivalent
        } else {
            Verdict::Inconclusive
        });
    }
    if comparison.no_verdict == Some(NoVerdict::NoSpread) {
        return;
    }
    // Plans are made for the level that one comparison among several has to reach.
    let level = if options.adjust == Adjust::None { options.level } else { 1.0 - alpha / k as f64 };
    if comparison.no_verdict.is_none() {
        comparison.smallest_effect = power::detectable(d.df, level).map(|e| e * d.standard_error);
    }
    let Some(margin) = comparison.margin else { return };
    comparison.needed = match comparison.basis {
        Basis::Runs => {
            let sd = pooled_sd(&base.all, &set.all);
            sd.and_then(|sd| power::units_needed(margin, sd * sd, level))
                .map(|runs| Needed { boots: None, runs_per_boot: runs })
        }
        Basis::PairedRuns => {
            let n = base.set.values().len() as f64;
            power::pairs_needed(margin, d.standard_error * d.standard_error * n, level)
                .map(|runs| Needed { boots: None, runs_per_boot: runs })
        }
        Basis::Boots | Basis::WithinBoots => plan(base, set, margin, level),
        Basis::PairedBoots => {
            let a = base.boots.as_ref().map_or(0, |b| b.means.len()) as f64;
            let runs = runs_each(base);
            power::pairs_needed(margin, d.standard_error * d.standard_error * a, level)
                .map(|boots| Needed { boots: Some(boots.max(3)), runs_per_boot: runs })
        }
    };
}

fn runs_each(set: &SetFigures) -> u64 {
    let boots = set.boots.as_ref().map_or(1, |b| b.means.len()).max(1);
    ((set.all.n / boots as f64).round() as u64).max(1)
}

fn plan(base: &SetFigures, set: &SetFigures, margin: f64, level: f64) -> Option<Needed> {
    let m = runs_each(base).max(runs_each(set));
    let plan = match pooled_components(base, set) {
        Some(c) => {
            let between = c.between_upper(PLANNING_CONFIDENCE)?;
            power::boots_needed(margin, between, c.within, m, level)?
        }
        None => {
            // One run a boot: the boot means hold both variances and cannot part them.
            let (x, y) = (base.units?, set.units?);
            let sd = pooled_sd(&x, &y)?;
            power::boots_needed(margin, sd * sd, 0.0, m, level)?
        }
    };
    Some(Needed { boots: Some(plan.boots), runs_per_boot: plan.runs_per_boot })
}
