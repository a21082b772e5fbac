//! What is said of a set against the baseline.

use linerate_stats::offline::fieller::RatioInterval;
use linerate_stats::offline::ministat as classic;

use super::words::{Words, tidy};
use super::{ComparisonView, Interval, MannWhitneyView, MinistatView, RunsNeeded};
use crate::compare::analysis::{Comparison, NoVerdict, SetFigures, Verdict};
use crate::compare::number::{p, percent, short};
use crate::compare::set::Data;
use crate::number::general;

impl Words<'_> {
    pub(super) fn comparison(
        &self,
        base: &SetFigures,
        set: &SetFigures,
        c: &Comparison,
        several: bool,
        bootstrap_of: &'static str,
    ) -> ComparisonView {
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
        let mut view = ComparisonView {
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
            lines: Vec::new(),
        };
        let mut lines = Vec::new();
        let mut add = |name: &str, text: String| lines.push((name.to_owned(), text));
        self.differences(base, c, &view, several, &mut add);
        self.second_opinions(base, c, &view, &mut add);
        self.outlook(base, set, c, &view, &mut add);
        view.lines = lines;
        view
    }

    /// The difference and its ratio.
    fn differences(
        &self,
        base: &SetFigures,
        c: &Comparison,
        view: &ComparisonView,
        several: bool,
        add: &mut impl FnMut(&str, String),
    ) {
        let n = self.numbers;
        let at = format!("{} %", general(self.level, 6));
        if let Some(d) = c.difference {
            let interval = view
                .ci
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
        match (c.ratio, &view.ratio_ci) {
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
            (Some(r), None) if view.ratio_unbounded => add(
                "ratio",
                format!("{}, unbounded: the baseline cannot be distinguished from zero", short(r)),
            ),
            _ if base.mean == 0.0 => add("ratio", "none: the baseline is zero".to_owned()),
            _ => {}
        }
    }

    /// The same by ranks and by resampling, and how large it is.
    fn second_opinions(
        &self,
        base: &SetFigures,
        c: &Comparison,
        view: &ComparisonView,
        add: &mut impl FnMut(&str, String),
    ) {
        let n = self.numbers;
        let at = format!("{} %", general(self.level, 6));
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
            let text = match &view.shift_ci {
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
        if let Some(ci) = &view.bootstrap_ci {
            add(
                "bootstrap",
                format!("{at}: {} to {} ({})", n.signed(ci.low), n.signed(ci.high), ci.method),
            );
        }
    }

    /// What these runs can show, and what more would.
    fn outlook(
        &self,
        base: &SetFigures,
        set: &SetFigures,
        c: &Comparison,
        view: &ComparisonView,
        add: &mut impl FnMut(&str, String),
    ) {
        let n = self.numbers;
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
            add("as ministat", view.ministat.lines.join("; "));
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
    pub(super) fn sentence(&self, base: &SetFigures, set: &SetFigures, c: &Comparison) -> String {
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
            // Around zero a further digit is wanted: it distinguishes the sides.
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
            "with fewer than 3 boots a boot effect cannot be distinguished from the setting"
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
