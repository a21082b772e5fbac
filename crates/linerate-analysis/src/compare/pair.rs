//! One set against the baseline.

use linerate_stats::offline::fieller::ratio_with_factor;
use linerate_stats::offline::hodges_lehmann::{self, Shift};
use linerate_stats::offline::mann_whitney::{self, MannWhitney};
use linerate_stats::offline::nested::{self, Components};
use linerate_stats::offline::summary::Moments;
use linerate_stats::offline::welch::{Difference, pooled_sd, welch};
use linerate_stats::offline::{bootstrap, distribution, effect, tost};

use super::{
    Basis, CannotCompare, Comparison, Interval, Margin, NoVerdict, Options, SetFigures, cannot,
    percent,
};
use crate::set::Boots;

/// Values of a set above which second opinions, which look at pairs or resample, are left out.
const MOST_FOR_SECOND_OPINION: usize = 20_000;

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

/// Boots with world-wide names that both sets share in full are pairs without being named so. Fewer than
/// three pairs show less than the runs within the boots do.
fn share_boots(base: &SetFigures, set: &SetFigures) -> bool {
    let (Some(a), Some(b)) = (base.set.boots(), set.set.boots()) else { return false };
    let same = |x: &Boots, y: &Boots| x.labels.iter().all(|l| y.labels.contains(l));
    let enough = a.labels.len() >= nested::FEWEST_BOOTS;
    enough && a.identity && b.identity && same(a, b) && same(b, a)
}

/// The difference of two sets and what it rests on.
struct Estimate {
    basis: Basis,
    difference: Option<Difference>,
    method: &'static str,
    /// Squared standard errors of both means.
    squared_errors: Option<(f64, f64)>,
    /// Of the two means.
    covariance: f64,
    no_verdict: Option<NoVerdict>,
}

impl Estimate {
    fn of(base: &SetFigures, set: &SetFigures, options: &Options) -> Result<Self, CannotCompare> {
        let mut estimate = if options.paired || share_boots(base, set) {
            Self::paired(base, set)?
        } else {
            Self::by_boots(base, set).unwrap_or_else(|| Self::by_runs(base, set))
        };
        if estimate.no_verdict.is_none()
            && estimate.difference.is_none_or(|d| d.standard_error == 0.0)
        {
            estimate.no_verdict = Some(NoVerdict::NoSpread);
        }
        Ok(estimate)
    }

    fn paired(base: &SetFigures, set: &SetFigures) -> Result<Self, CannotCompare> {
        let (a, b, basis) = pairs(base, set)?;
        let (method, few) = match basis {
            Basis::PairedBoots => ("paired t on boot means", NoVerdict::FewBoots),
            _ => ("paired t on runs", NoVerdict::FewPairs),
        };
        let difference = nested::paired(&a, &b);
        let mut covariance = 0.0;
        let mut squared_errors = None;
        if let (Some(x), Some(y), Some(d)) = (Moments::of(&a), Moments::of(&b), difference) {
            let (vx, vy) = (x.variance / x.n, y.variance / y.n);
            covariance = 0.5 * (vx + vy - d.standard_error * d.standard_error);
            squared_errors = Some((vx, vy));
        }
        let no_verdict = (a.len() < nested::FEWEST_BOOTS).then_some(few);
        Ok(Self { basis, difference, method, squared_errors, covariance, no_verdict })
    }

    /// `None` where a set has no boots, or too few.
    fn by_boots(base: &SetFigures, set: &SetFigures) -> Option<Self> {
        base.boots.as_ref().and(set.boots.as_ref())?;
        let (x, y) = (base.units.as_ref()?, set.units.as_ref()?);
        let computed = nested::difference(x, y);
        let pooled = computed.is_none_or(|c| c.1 == nested::Method::Pooled);
        let errors = |_| {
            if pooled {
                let v = pooled_sd(x, y).map_or(0.0, |s| s * s);
                (v / x.n, v / y.n)
            } else {
                (x.variance / x.n, y.variance / y.n)
            }
        };
        Some(Self {
            basis: Basis::Boots,
            difference: computed.map(|c| c.0),
            method: if pooled { "pooled t on boot means" } else { "Welch on boot means" },
            squared_errors: computed.map(errors),
            covariance: 0.0,
            no_verdict: None,
        })
    }

    fn by_runs(base: &SetFigures, set: &SetFigures) -> Self {
        let known = base.boots.is_some();
        let (x, y) = (&base.all, &set.all);
        Self {
            basis: if known { Basis::WithinBoots } else { Basis::Runs },
            difference: welch(x, y),
            method: "Welch on runs",
            squared_errors: Some((x.variance / x.n, y.variance / y.n)),
            covariance: 0.0,
            no_verdict: known.then_some(NoVerdict::FewBoots),
        }
    }
}

/// Compares the set of this index with the baseline, as if the two were alone.
pub(super) fn compare(
    index: usize,
    base: &SetFigures,
    set: &SetFigures,
    options: &Options,
) -> Result<Comparison, CannotCompare> {
    let Estimate { basis, difference, method, squared_errors, covariance, no_verdict } =
        Estimate::of(base, set, options)?;
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
    let (mann_whitney, shift) = by_rank(base, set, options);
    Ok(Comparison {
        set: index,
        basis,
        estimate: difference,
        half_width: factor.zip(difference).map(|(t, d)| t * d.standard_error),
        ratio_interval: factor.and_then(interval),
        squared_errors,
        covariance,
        difference: None,
        ci: None,
        ratio: (base_mean != 0.0).then(|| set_mean / base_mean).filter(|r| r.is_finite()),
        ratio_ci: None,
        ratio_unbounded: false,
        pooled_sd: pooled_sd(&base.all, &set.all),
        df: None,
        p: None,
        p_adjusted: difference.map(|d| d.p),
        p_equivalent,
        verdict: None,
        no_verdict,
        method,
        smallest_effect: None,
        runs_needed: None,
        margin,
        hedges_g: effect::hedges_g(&base.all, &set.all),
        cliffs_delta: mann_whitney.map(|m| m.cliffs_delta),
        mann_whitney,
        shift: shift.map(|s| s.estimate),
        shift_ci: shift.and_then(|s| s.interval).map(|(low, high, reached)| Interval {
            low,
            high,
            level: percent(reached),
            method: "Hodges-Lehmann",
        }),
        bootstrap_ci: resampled(base, set, options),
        boot_share: pooled_components(base, set).and_then(|c| c.icc()),
    })
}

/// The unit of a rank test is the unit of the comparison. Sets that are too large are left out.
fn by_rank(
    base: &SetFigures,
    set: &SetFigures,
    options: &Options,
) -> (Option<MannWhitney>, Option<Shift>) {
    let (a, b) = (base.set.values(), set.set.values());
    let small = |v: &[f64]| !v.is_empty() && v.len() <= MOST_FOR_SECOND_OPINION;
    if !small(a) || !small(b) {
        return (None, None);
    }
    let (x, y) = match (&base.boots, &set.boots) {
        (Some(x), Some(y)) => (x.means.as_slice(), y.means.as_slice()),
        _ => (a, b),
    };
    (mann_whitney::test(x, y), hodges_lehmann::shift(x, y, options.level))
}

fn resampled(base: &SetFigures, set: &SetFigures, options: &Options) -> Option<Interval> {
    let (level, seed) = (options.level, options.seed);
    let (ends, method) = match (&base.boots, &set.boots) {
        (Some(x), Some(y)) => (
            bootstrap::hierarchical(&x.runs, &y.runs, level, seed),
            "hierarchical percentile bootstrap of the difference of means",
        ),
        _ => {
            let (a, b) = (base.set.values(), set.set.values());
            (
                bootstrap::bca(a, b, level, seed, bootstrap::median_difference),
                "BCa bootstrap of the difference of medians",
            )
        }
    };
    ends.map(|(low, high)| Interval { low, high, level: percent(level), method })
}

pub(super) fn means(base: &SetFigures, set: &SetFigures, basis: Basis) -> (f64, f64) {
    match basis {
        Basis::Boots | Basis::PairedBoots => (base.mean, set.mean),
        _ => (base.all.mean, set.all.mean),
    }
}

/// Components of both sets as one estimate: mean squares pooled over their degrees of freedom.
pub(super) fn pooled_components(base: &SetFigures, set: &SetFigures) -> Option<Components> {
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
