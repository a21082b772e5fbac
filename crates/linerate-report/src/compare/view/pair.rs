//! What is said of a set against the baseline.

use linerate_stats::offline::ministat as classic;

use super::words::Words;
use super::{ComparisonView, MinistatView};
use crate::compare::analysis::{Comparison, Interval, NoVerdict, SetFigures, Verdict};
use crate::compare::number::{p, percent, short};
use crate::compare::set::Data;
use crate::number::general;

/// Label and text.
type Line = (String, String);

impl Words<'_> {
    pub(super) fn comparison(
        &self,
        base: &SetFigures,
        set: &SetFigures,
        c: &Comparison,
    ) -> ComparisonView {
        let ministat = ministat(base, set, self.level);
        let mut lines = Vec::new();
        self.differences(&mut lines, base, c);
        self.second_opinions(&mut lines, base, c);
        self.outlook(&mut lines, base, c);
        let summary = |s: &SetFigures| matches!(s.set.data, Data::Summary { .. });
        if summary(base) || summary(set) {
            add(&mut lines, "as ministat", ministat.lines.join("; "));
        }
        ComparisonView {
            label: set.set.label.clone(),
            baseline: base.set.label.clone(),
            figures: c.clone(),
            no_verdict: c.no_verdict.map(|why| why_not(why, base, set)),
            ministat,
            lines,
        }
    }

    /// The difference and its ratio.
    fn differences(&self, lines: &mut Vec<Line>, base: &SetFigures, c: &Comparison) {
        let n = self.numbers;
        let at = format!("{} %", general(self.level, 6));
        if let Some(d) = c.estimate {
            let interval =
                c.ci.map(|ci| format!(" ({at}: {} to {})", n.signed(ci.low), n.signed(ci.high)))
                    .unwrap_or_default();
            let (difference, df) = (n.signed(d.estimate), short(d.df));
            add(lines, "difference", format!("{difference}{interval}, {}, df {df}", c.method));
            let adjusted = match c.p_adjusted.filter(|_| self.several) {
                Some(a) => format!(", adjusted {}", p(a)),
                None => String::new(),
            };
            let equivalent = c
                .p_equivalent
                .map(|e| format!("; {} of one beyond the margin of {}", p(e), self.margin))
                .unwrap_or_default();
            add(lines, "p", format!("{} of no difference{adjusted}{equivalent}", p(d.p)));
        }
        let ratio = match (c.ratio, c.ratio_ci) {
            (Some(r), Some(ci)) => {
                let error = 0.5 * (ci.high - ci.low);
                let [r, low, high] = [r, ci.low, ci.high].map(|x| places(x, error));
                format!("{r} ({at}: {low} to {high}, Fieller)")
            }
            (Some(r), None) if c.ratio_unbounded => {
                format!("{}, unbounded: the baseline cannot be distinguished from zero", short(r))
            }
            _ if base.mean == 0.0 => "none: the baseline is zero".to_owned(),
            _ => return,
        };
        add(lines, "ratio", ratio);
    }

    /// The same by ranks and by resampling, and how large it is.
    fn second_opinions(&self, lines: &mut Vec<Line>, base: &SetFigures, c: &Comparison) {
        let n = self.numbers;
        if let Some(g) = c.hedges_g {
            let delta = c.cliffs_delta.map(|d| format!(", Cliff's delta {d:+.2}"));
            add(lines, "effect size", format!("Hedges' g {g:+.2}{}", delta.unwrap_or_default()));
        }
        if let Some(m) = &c.mann_whitney {
            let how = if m.exact { "exact" } else { "approximate" };
            let of = if base.boots.is_some() { " on boot means" } else { "" };
            let alpha = 1.0 - self.level / 100.0;
            let least = match m.least_p.filter(|l| *l > alpha) {
                Some(l) => format!("; sets of this size cannot go below {}", p(l)),
                None => String::new(),
            };
            add(lines, "Mann-Whitney", format!("U {}, p {} ({how}{of}{least})", m.u, p(m.p)));
        }
        let ends = |ci: Interval| {
            let (low, high) = (n.signed(ci.low), n.signed(ci.high));
            let at = if ci.level < 99.9 { short(ci.level) } else { general(ci.level, 6) };
            format!("{at} %: {low} to {high}")
        };
        if let Some(shift) = c.shift {
            let ends = c.shift_ci.map_or("too few values for an interval".to_owned(), ends);
            add(lines, "Hodges-Lehmann", format!("{} ({ends})", n.signed(shift)));
        }
        if let Some(ci) = c.bootstrap_ci {
            let (at, low, high) = (general(ci.level, 6), n.signed(ci.low), n.signed(ci.high));
            add(lines, "bootstrap", format!("{at} %: {low} to {high} ({})", ci.method));
        }
    }

    /// What these runs can show, and what more would.
    fn outlook(&self, lines: &mut Vec<Line>, base: &SetFigures, c: &Comparison) {
        if let Some(smallest) = c.smallest_effect {
            let share = (base.mean != 0.0)
                .then(|| format!(" ({} %)", short(smallest / base.mean.abs() * 100.0)));
            let (smallest, share) = (self.numbers.value(smallest), share.unwrap_or_default());
            add(lines, "can show", format!("{smallest}{share} with 80 % power"));
        }
        if let Some(text) = self.plan(c) {
            add(lines, "needed", text);
        }
    }

    fn plan(&self, c: &Comparison) -> Option<String> {
        let margin = self.margin;
        let Some(needed) = c.runs_needed else {
            return match c.no_verdict {
                // A plan is made of how much boots vary.
                Some(NoVerdict::FewBoots) => Some("at least 3 boots of each set".to_owned()),
                Some(_) => None,
                None => c.margin.map(|_| format!("more than ten million runs to show {margin}")),
            };
        };
        Some(match needed.boots {
            Some(boots) => format!(
                "{boots} boots x {} runs of each set ({} runs) to show {margin} with 80 % power, if \
                 boots vary as much as their upper limit",
                needed.runs_per_boot, needed.total
            ),
            None => format!("{} runs of each set to show {margin} with 80 % power", needed.total),
        })
    }

    /// The result as a person would say it.
    pub(super) fn sentence(&self, base: &SetFigures, set: &SetFigures, c: &Comparison) -> String {
        let (name, baseline) = (&set.set.label, &base.set.label);
        let at = format!("{} % interval", general(self.level, 6));
        let design = design(base, set);
        let Some(difference) = c.difference else {
            return format!("{name} and {baseline} cannot be compared.");
        };
        // More of a rate is faster; of anything else it is only more.
        let word = match (self.unit.is_some_and(is_rate), difference < 0.0) {
            (true, true) => "slower",
            (true, false) => "faster",
            (false, true) => "lower",
            (false, false) => "higher",
        };
        let (amount, ends) = self.amount(c, difference);
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
                    format!(" The difference is {}.", self.numbers.signed(difference))
                }
                NoVerdict::FewPairs => String::new(),
            };
            let why = why_not(why, base, set);
            return format!("No verdict on {name} against {baseline}: {why}.{within}");
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
                self.span(c, difference)
            ),
            _ => {
                let shows = c.smallest_effect.map(|s| {
                    let share = (base.mean != 0.0)
                        .then(|| format!("{} %", short(s / base.mean.abs() * 100.0)));
                    let shown = share.unwrap_or_else(|| self.numbers.value(s));
                    format!(" These runs can show {shown};")
                });
                let needed = match c.runs_needed {
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
                    self.span(c, difference),
                    shows.unwrap_or_default()
                )
            }
        }
    }

    /// `49.4 %` and `48.7 to 50.1 %`, both without sign; in the unit of the values without a ratio.
    fn amount(&self, c: &Comparison, estimate: f64) -> (String, String) {
        if let (Some(r), Some(Interval { low, high, .. })) = (c.ratio, c.ratio_ci) {
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
        let half = c.ci.map_or(0.0, |ci| 0.5 * (ci.high - ci.low));
        let unit = self.unit.map(|u| format!(" {u}")).unwrap_or_default();
        let amount = estimate.abs();
        let [low, of, high] = [amount - half, amount, amount + half].map(|x| self.numbers.value(x));
        (format!("{of}{unit}"), format!("{low} to {high}{unit}"))
    }

    /// `-0.64 to +0.05 %`, with signs.
    fn span(&self, c: &Comparison, estimate: f64) -> String {
        if let Some(Interval { low, high, .. }) = c.ratio_ci {
            // Around zero a further digit is wanted: it distinguishes the sides.
            let error = Some(0.1 * (high - low));
            let signed = |x: f64| {
                let text = percent(x - 1.0, error);
                if text.starts_with('-') { text } else { format!("+{text}") }
            };
            return format!("{} to {} %", signed(low), signed(high));
        }
        let (low, high) = c.ci.map_or((estimate, estimate), |ci| (ci.low, ci.high));
        let unit = self.unit.map(|u| format!(" {u}")).unwrap_or_default();
        format!("{} to {}{unit}", self.numbers.signed(low), self.numbers.signed(high))
    }
}

fn add(lines: &mut Vec<Line>, label: &str, text: String) {
    lines.push((label.to_owned(), text));
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

/// Whether a unit is one of rates: `Mbit/s`, `datagrams/s`, `Mbps`, `tps`; `drops` and `µs/send` are none.
fn is_rate(unit: &str) -> bool {
    let a_second = |of: &str| matches!(of.split_whitespace().next(), Some("s" | "sec" | "second"));
    let without_prefix = unit.trim_start_matches(['k', 'K', 'm', 'M', 'g', 'G', 'T']);
    unit.split('/').skip(1).any(a_second)
        || matches!(without_prefix, "bps" | "Bps" | "ops" | "pps" | "qps" | "rps" | "tps")
}

fn why_not(why: NoVerdict, base: &SetFigures, set: &SetFigures) -> &'static str {
    let varies = base.all.variance > 0.0 || set.all.variance > 0.0;
    match why {
        NoVerdict::FewBoots => {
            "with fewer than 3 boots a boot effect cannot be distinguished from the setting"
        }
        NoVerdict::NoSpread if varies => {
            "no spread of boot means or of pairs is seen, so chance cannot be judged"
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
