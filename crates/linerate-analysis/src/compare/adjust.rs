//! Several comparisons with one baseline: p values and intervals that hold together.

use linerate_stats::offline::fieller::ratio_with_factor;
use linerate_stats::offline::summary::Moments;
use linerate_stats::offline::welch::{Difference, bartlett};
use linerate_stats::offline::{distribution, dunnett, holm, tost};

use super::pair::means;
use super::{Adjust, Basis, Comparison, Margin, Options, SetFigures};

/// Below this p value of Bartlett's test the sets have too different scatter for Dunnett.
const SCATTER_DIFFERS: f64 = 0.05;

/// Adjusts p values and intervals for several comparisons with one baseline.
pub(super) fn adjust(
    sets: &[SetFigures],
    comparisons: &mut [Comparison],
    options: &Options,
) -> &'static str {
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
    let raw: Vec<f64> = comparisons.iter().map(|c| c.estimate.map_or(1.0, |d| d.p)).collect();
    for (comparison, p) in comparisons.iter_mut().zip(holm::adjust(&raw)) {
        comparison.p_adjusted = comparison.estimate.map(|_| p);
        // Intervals that hold together: each at 1 - alpha / k (Bonferroni).
        let Some(d) = comparison.estimate else { continue };
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
        comparison.estimate = Some(d);
    }
    adjust_equivalence(comparisons);
    Some(())
}

/// Widens the intervals of a comparison to another factor.
fn widen(comparison: &mut Comparison, sets: &[SetFigures], factor: f64) {
    let Some(d) = comparison.estimate else { return };
    comparison.half_width = Some(factor * d.standard_error);
    let (Some(base), Some(set)) = (sets.first(), sets.get(comparison.set)) else { return };
    let (base_mean, set_mean) = means(base, set, comparison.basis);
    comparison.ratio_interval = comparison.squared_errors.and_then(|(vb, vs)| {
        ratio_with_factor((base_mean, vb), (set_mean, vs), comparison.covariance, factor)
    });
}

#[cfg(test)]
mod tests {
    use crate::compare::{Options, compare};
    use crate::set::{Boots, Data, Set};

    fn set(label: &str, means: [f64; 3]) -> Set {
        let boots = Boots::of_labels(["a", "b", "c"].map(str::to_owned), true);
        let data = Data::Runs { values: means.to_vec().into(), boots: Some(boots) };
        Set { label: label.to_owned(), unit: None, data, notes: Vec::new() }
    }

    /// What the error of the baseline explains of a ratio widens it no more with a third set than without.
    #[test]
    fn a_pairs_ratio_is_fiellers_beside_other_sets_too() {
        let sets = [
            set("base", [100.0, 110.0, 120.0]),
            set("threefold", [300.0, 330.0, 360.0]),
            set("other", [200.0, 212.0, 231.0]),
        ];
        for sets in [&sets[..2], &sets[..]] {
            let analysis = compare(sets, &Options::default()).unwrap();
            let ratio = analysis.comparisons[0].ratio_ci.as_ref().unwrap();
            assert!((ratio.low - 3.0).abs() < 1e-6 && (ratio.high - 3.0).abs() < 1e-6, "{ratio:?}");
        }
        let wider = compare(&sets, &Options::default()).unwrap();
        let ratio = |analysis: &crate::compare::Analysis, at: usize| {
            let ci = analysis.comparisons[at].ratio_ci.unwrap();
            ci.high - ci.low
        };
        let alone = compare(&[sets[0].clone(), sets[2].clone()], &Options::default()).unwrap();
        assert!(ratio(&wider, 1) > ratio(&alone, 0));
    }
}
