//! What is said of all sets, and of each by itself.

use std::sync::Arc;

use linerate_stats::offline::outliers::Grade;
use linerate_stats::offline::pelt::Course;

use super::{Flag, HOW_TO_TELL_BOOTS, MOST_NAMED, MOST_VALUES, SetView};
use crate::compare::analysis::{Analysis, Interval, SetFigures};
use crate::compare::number::{Numbers, p, short};
use crate::compare::set::Data;
use crate::number::{general, or_absent};

pub(super) fn numbers_for(analysis: &Analysis) -> Numbers {
    let scatter = analysis.sets.iter().map(|s| s.all.sd()).filter(|s| *s > 0.0);
    let size = analysis
        .sets
        .iter()
        .map(|s| s.range.map_or(s.mean.abs(), |(low, high)| low.abs().max(high.abs())));
    let unit = analysis.sets.iter().find_map(|s| s.set.unit.as_deref());
    Numbers::new(scatter.reduce(f64::min), size.fold(0.0, f64::max), unit)
}

pub(super) fn headline(
    analysis: &Analysis,
    level: f64,
    margin: &str,
    unit: Option<&str>,
) -> String {
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

pub(super) fn notes(analysis: &Analysis) -> Vec<String> {
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
            "Fewer than 3 boots ({}): a boot effect cannot be distinguished, so there is no interval \
             and no verdict across boots.",
            few.join(", ")
        ));
    }
    let count = analysis.comparisons.len();
    if count > 1 {
        let how = match analysis.adjusted {
            "Dunnett" => {
                " with one baseline: intervals and adjusted p values are simultaneous (Dunnett, one \
                 variance for all sets)."
            }
            "Holm" => {
                " with one baseline: p values adjusted by Holm, intervals simultaneous (Bonferroni) \
                 and wider: one may hold 0 although a difference is proven."
            }
            _ => ", not adjusted: the more there are, the likelier one is wrong.",
        };
        notes.push(format!("{count} comparisons{how}"));
    }
    if analysis.comparisons.iter().any(|c| c.bootstrap_ci.is_some()) {
        notes.push(format!("Bootstrap: 10000 resamples, seed {}.", analysis.options.seed));
    }
    notes
}

/// What every sentence of a comparison needs.
pub(super) struct Words<'a> {
    pub(super) numbers: Numbers,
    pub(super) level: f64,
    pub(super) margin: &'a str,
    pub(super) unit: Option<&'a str>,
    /// Several sets are compared, and adjusted for it.
    pub(super) several: bool,
}

impl Words<'_> {
    pub(super) fn set(&self, s: &SetFigures) -> SetView {
        let components = s.boots.as_ref().and_then(|b| b.components);
        let sizes = s.boots.as_ref().map(|b| b.runs.iter().map(Vec::len).collect::<Vec<_>>());
        let even = sizes.as_ref().and_then(|sizes| {
            let first = *sizes.first()?;
            sizes.iter().all(|n| *n == first).then_some(first as u64)
        });
        let method = if s.boots.is_some() { "t on boot means" } else { "t on runs" };
        let ci = s.half_width.map(|h| Interval {
            low: s.mean - h,
            high: s.mean + h,
            level: self.level,
            method,
        });
        let values = s.set.values();
        let kept = values.len() <= MOST_VALUES && !values.is_empty();
        let boot_of = s.set.boots().map(|b| b.of.clone());
        let n = self.numbers;
        let optional = |x: Option<f64>| or_absent(x, |x| n.value(x));
        let design = match (&sizes, even) {
            (None, _) => format!("{}", s.all.n),
            (Some(sizes), Some(m)) => format!("{} x {m}", sizes.len()),
            (Some(sizes), None) => format!("{} ({} runs)", sizes.len(), s.all.n),
        };
        let cells = vec![
            s.set.label.clone(),
            design,
            n.value(s.mean),
            or_absent(ci.as_ref(), |c| format!("{} to {}", n.value(c.low), n.value(c.high))),
            optional(s.median),
            n.value(s.all.sd()),
            optional(components.map(|c| c.between().sqrt())),
            optional(components.map(|c| c.within.sqrt())),
            or_absent(components.and_then(|c| c.icc()), |i| format!("{:.0} %", i * 100.0)),
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
            boot_of: boot_of.clone().filter(|_| kept),
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
        let notes = s.set.notes.iter().map(|text| Flag { kind: "note", text: text.clone() });
        let of_values = self.value_flags(s).into_iter().chain(self.order_flags(s));
        notes.chain(of_values).chain(boot_flag(s)).collect()
    }

    /// What is odd about the values.
    fn value_flags(&self, s: &SetFigures) -> Vec<Flag> {
        let n = self.numbers;
        let mut flags = Vec::new();
        let mut add = |kind, text: String| flags.push(Flag { kind, text });
        let values = s.set.values();
        let checks = &s.checks;
        if s.all.variance == 0.0 {
            let count = s.all.n;
            add(
                "constant",
                format!(
                    "all {count} values are {}: no spread can be seen (is this a measurement, or \
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
        flags
    }

    /// What is odd about their order.
    fn order_flags(&self, s: &SetFigures) -> Vec<Flag> {
        let n = self.numbers;
        let mut flags = Vec::new();
        let mut add = |kind, text: String| flags.push(Flag { kind, text });
        let of_each = if s.boots.is_some() { " of each boot" } else { "" };
        match s.checks.course {
            Some(Course::WarmUp { runs }) => {
                let check = match s.checks.mser {
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
        if let Some(d) = &s.checks.drift {
            add(
                "drift",
                format!(
                    "drift over the order of the runs{of_each}: {} from first to last (p {})",
                    n.signed(d.change),
                    p(d.p)
                ),
            );
        }
        if let Some(l) = &s.checks.autocorrelation {
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
        if s.checks.skipped {
            add("skipped", "too many values to look for outliers, modes and order".to_owned());
        }
        flags
    }
}

/// What boots have to do with it.
fn boot_flag(s: &SetFigures) -> Option<Flag> {
    let c = s.boots.as_ref().and_then(|b| b.components)?;
    let text = if c.between_raw < 0.0 {
        "the estimated variance between boots is negative and shown as 0: no boot effect to be seen"
            .to_owned()
    } else {
        let test = c.p.filter(|p| *p < 0.05)?;
        format!(
            "boots differ (F {}, p {}): {:.0} % of the variance lies between them",
            c.f.map_or("-".into(), short),
            p(test),
            c.icc().unwrap_or(0.0) * 100.0
        )
    };
    Some(Flag { kind: "boots", text })
}
