//! What a sweep found, in sentences.

use linerate_model::plan::Way;
use linerate_model::record::Limit;
use linerate_model::sweep::{RegimeKind, SweepBend, SweepPlan, SweepPoint, SweepRegime, Variable};
use linerate_model::units::si;

use super::{Sweep, budget};

/// Loss above this is what keeps a trial from following; below it is lateness.
const LOST_ALONE: f64 = 0.005;

/// A sender this close to the asked rate sent it, as in the verdict.
const SENT: f64 = 0.995;

/// A value of the swept variable.
fn value(plan: &SweepPlan, value: Option<u64>) -> String {
    let Some(value) = value else { return "as fast as the sender can".to_owned() };
    match plan.variable {
        Variable::Rate => rate(value as f64),
        Variable::Size => format!("{value} B"),
        Variable::Streams if value == 1 => "1 stream".to_owned(),
        Variable::Streams => format!("{value} streams"),
        Variable::Window => format!("a window of {value} B"),
    }
}

fn rate(bits_per_second: f64) -> String {
    si(bits_per_second, "bit/s")
}

/// `28 %`, `0.52 %`; `0 %` only of nothing, `100 %` only of all.
fn share(ratio: f64) -> String {
    match ratio * 100.0 {
        0.0 => "0 %".to_owned(),
        p if p < 0.01 => "less than 0.01 %".to_owned(),
        p if p > 99.99 && p < 100.0 => "more than 99.99 %".to_owned(),
        p if p < 9.95 || (99.5..100.0).contains(&p) => format!("{p:.2} %"),
        p => format!("{p:.0} %"),
    }
}

/// `client to server`.
fn direction(way: Way) -> &'static str {
    match way {
        Way::Forward => "client to server",
        Way::Reverse => "server to client",
    }
}

/// Which host sends and which receives.
fn ends(way: Way) -> (&'static str, &'static str) {
    match way {
        Way::Forward => ("client", "server"),
        Way::Reverse => ("server", "client"),
    }
}

/// Where what was lost was lost, as far as the counts show.
fn lost_where(point: &SweepPoint) -> String {
    let (_, receiver) = ends(point.direction);
    let lost = share(point.lost_ratio);
    let either = point.unattributed.unwrap_or(0);
    match (point.lost_path, point.dropped_receiver) {
        (None, None) => format!("{lost} of what was sent was lost, where is not known"),
        (Some(_), Some(0)) if either == 0 => {
            format!("{lost} of what was sent never reached the {receiver}'s socket")
        }
        (Some(0), Some(_)) if either == 0 => {
            format!("{lost} of what was sent was dropped by the {receiver}'s socket")
        }
        (path, dropped) => {
            let count = |n: Option<u64>| n.map_or("an untold number".to_owned(), |n| n.to_string());
            let both = match either {
                0 => String::new(),
                n => format!(", {n} one or the other"),
            };
            format!(
                "{lost} of what was sent was lost: {} datagrams never reached the {receiver}'s socket, {} were dropped by it{both}",
                count(path),
                count(dropped)
            )
        }
    }
}

/// The limit and its evidence at one point.
fn blame(point: &SweepPoint, limit: Limit) -> String {
    let (sender, receiver) = ends(point.direction);
    let busy = |cpu: Option<f64>| cpu.map_or(String::new(), |p| format!(", {p:.0} % busy"));
    let asked = point.asked_bps.map(|asked| rate(asked as f64));
    let sent = rate(point.sent_bps);
    let lost = share(point.lost_ratio);
    match limit {
        Limit::SenderCpu | Limit::SenderHost => {
            let unsent = point.asked_bps.is_some_and(|a| point.sent_bps < a as f64 * SENT);
            let what = match asked {
                Some(_) if !unsent && point.lost_ratio > LOST_ALONE => lost_where(point),
                Some(asked) if !unsent => {
                    format!(
                        "only {} of {asked} arrived in time, and {lost} was lost",
                        rate(point.received_bps)
                    )
                }
                Some(asked) => format!("{lost} was lost, but only {sent} of {asked} were sent"),
                None => format!("{sent} is all that was sent, and {lost} of it was lost"),
            };
            let end = if limit == Limit::SenderCpu {
                format!("the {sender}'s CPU{}", busy(point.cpu_sender_percent))
            } else {
                format!("the {sender}'s host: its buffer, queue or timer held it back")
            };
            format!("{what}: the sender is the limit ({end}), not the path")
        }
        Limit::Path if point.lost_ratio > LOST_ALONE => {
            format!("{}: the path is the limit", lost_where(point))
        }
        Limit::Path => format!(
            "only {} arrived, {lost} was lost and the rest came late: a queue held it, and the path is the limit",
            rate(point.received_bps)
        ),
        Limit::ReceiverCpu if point.lost_ratio > LOST_ALONE => format!(
            "{}: the receiver is the limit (the {receiver}'s CPU{})",
            lost_where(point),
            busy(point.cpu_receiver_percent)
        ),
        Limit::ReceiverCpu => format!(
            "the {receiver} read too late what came in time: the receiver is the limit (the {receiver}'s CPU{})",
            busy(point.cpu_receiver_percent)
        ),
        Limit::ReceiverBuffer => format!(
            "{}, though the {receiver}'s CPU was not full{}: the receiver's buffer is the limit",
            lost_where(point),
            busy(point.cpu_receiver_percent)
        ),
        Limit::RequestedRate => "all of it arrived".to_owned(),
        Limit::OtherWork => format!(
            "{sent} were sent and {lost} was lost: other work on the hosts is the limit, which had the cores that the test was ready to use"
        ),
        _ => {
            let sent_of = asked.map_or(String::new(), |asked| format!(" of {asked} asked"));
            format!(
                "{sent}{sent_of} were sent and {lost} was lost; nothing shows which end or path it was"
            )
        }
    }
}

/// One regime. `points` are its own and at least one; `peak` is the best of its direction.
pub(super) fn regime(
    plan: &SweepPlan,
    points: &[SweepPoint],
    limit: Limit,
    peak: Option<&SweepPoint>,
) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let place = if first.value == last.value {
        format!("at {}", value(plan, first.value))
    } else {
        format!("from {} to {}", value(plan, first.value), value(plan, last.value))
    };
    let least = points.iter().map(|p| p.received_bps).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|p| p.received_bps).fold(0.0, f64::max);
    let arrived = if (most - least) <= 0.01 * most {
        rate(most)
    } else {
        format!("{} to {}", rate(least), rate(most))
    };
    // The point whose verdict is the regime's, the fullest one.
    let witness = points.iter().rfind(|p| p.limit == limit).unwrap_or(last);
    match first.regime {
        RegimeKind::Sustained => {
            format!("{place} what is asked for arrives ({arrived})")
        }
        RegimeKind::Plateau => {
            format!("{place} {arrived} arrives, whatever is asked: {}", blame(witness, limit))
        }
        RegimeKind::Rises => {
            format!(
                "{place} {arrived} arrives, and more where it is larger: {}",
                blame(witness, limit)
            )
        }
        RegimeKind::Unstable => {
            let intervals = points
                .iter()
                .filter_map(|p| p.interval_min_bps.zip(p.interval_max_bps))
                .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            let spread = intervals.map_or(String::new(), |(low, high)| {
                format!(", {} to {} from moment to moment", rate(low), rate(high))
            });
            let elsewhere =
                peak.filter(|peak| peak.received_bps > most * 1.1).map_or(String::new(), |peak| {
                    format!("; {} arrives at {}", rate(peak.received_bps), value(plan, peak.value))
                });
            format!("{place} {arrived} arrives{spread}{elsewhere}: {}", blame(witness, limit))
        }
        RegimeKind::Collapse => {
            let below = peak.map_or(String::new(), |peak| {
                format!(
                    ", up to {} below the {} at {}",
                    share(1.0 - least / peak.received_bps.max(1.0)),
                    rate(peak.received_bps),
                    value(plan, peak.value)
                )
            });
            format!(
                "{place} less arrives than at smaller values, {arrived}{below}: {}",
                blame(witness, limit)
            )
        }
    }
}

/// The whole sweep: what was found in each direction, and what to try.
pub fn conclusion(sweep: &Sweep) -> (Vec<String>, Vec<String>) {
    let (points, regimes, bends) = (sweep.points(), sweep.regimes(), sweep.bends());
    let (mut because, mut advice) = (Vec::new(), Vec::new());
    for way in &sweep.plan().directions {
        let ours: Vec<&SweepPoint> = points.iter().filter(|p| p.direction == *way).collect();
        if ours.is_empty() {
            continue;
        }
        let bend = bends.iter().find(|b| b.direction == *way && b.from == RegimeKind::Sustained);
        because.push(format!("{}: {}", direction(*way), found(sweep, bend, &regimes, &ours)));
        if let Some((_, Some(least))) = sweep.out_of_reach().iter().find(|(w, _)| w == way) {
            let most = ours.iter().map(|p| p.sent_bps).fold(0.0, f64::max);
            because.push(format!(
                "{}: rates from {} on were left out, because the sender never sent more than {}",
                direction(*way),
                rate(*least as f64),
                rate(most)
            ));
        }
        advice.extend(next_step(sweep.plan(), *way, bend, &ours));
    }
    advice.dedup();
    (because, advice)
}

fn found(
    sweep: &Sweep,
    bend: Option<&SweepBend>,
    regimes: &[SweepRegime],
    points: &[&SweepPoint],
) -> String {
    let plan = sweep.plan();
    let way = points.first().map(|p| p.direction);
    let Some(bend) = bend else {
        let none_sustained = points.iter().all(|p| p.regime != RegimeKind::Sustained);
        let texts: Vec<&str> =
            regimes.iter().filter(|r| Some(r.direction) == way).map(|r| r.text.as_str()).collect();
        let first = texts.first().copied().unwrap_or_default();
        return if none_sustained && plan.variable == Variable::Rate {
            format!("not even the least rate arrives whole; {first}")
        } else {
            first.to_owned()
        };
    };
    let upper = match bend.high {
        Some(high) => format!("{} no longer", value(plan, Some(high))),
        None => "what it can send at most no longer".to_owned(),
    };
    let width = match (bend.width_ratio, bend.narrow) {
        (Some(width), true) => format!(" ({} apart)", share(width)),
        (Some(width), false) if plan.zoom_width.is_some() => {
            let why = if sweep.is_finished() {
                budget::spent_words(sweep.trials(), bend.direction)
            } else {
                "the sweep was ended before it was narrowed".to_owned()
            };
            format!(" ({} apart: {why})", share(width))
        }
        (Some(width), false) => format!(" ({} apart; --zoom narrows it)", share(width)),
        (None, _) => String::new(),
    };
    let above = points.iter().find(|p| p.value == bend.high);
    let why = above.map_or(String::new(), |p| {
        // Other work may have been the reason, and then neither end nor path is to blame.
        let doubt = p.invalid.as_ref().map_or(String::new(), |why| format!(". Doubtful: {why}"));
        format!("; {}{doubt}", blame(p, p.limit))
    });
    format!("{} is sustained, {upper}{width}{why}", value(plan, Some(bend.low)))
}

fn next_step(
    plan: &SweepPlan,
    way: Way,
    bend: Option<&SweepBend>,
    points: &[&SweepPoint],
) -> Vec<String> {
    let reverse = if way == Way::Reverse { " -R" } else { "" };
    let Some(bend) = bend else {
        let more = plan.variable == Variable::Rate && !plan.then_max;
        let last = points.last().filter(|p| more && p.regime == RegimeKind::Sustained);
        let Some(last) = last else { return Vec::new() };
        let top = last.value.unwrap_or(0);
        return vec![format!(
            "--rates {}..max: everything up to {} arrived",
            command_rate(top),
            rate(top as f64)
        )];
    };
    let mut advice = Vec::new();
    if !bend.narrow && plan.zoom_width.is_none() {
        advice.push("--zoom: finer points around every knee".to_owned());
    }
    if plan.variable == Variable::Rate {
        let (sender, receiver) = ends(way);
        let profile = match bend.limit {
            Limit::SenderCpu | Limit::SenderHost => Some(sender),
            Limit::ReceiverCpu | Limit::ReceiverBuffer => Some(receiver),
            _ => None,
        };
        let high = bend.high.or(points.last().map(|p| p.sent_bps as u64));
        if let Some((end, high)) = profile.zip(high) {
            advice.push(format!(
                "linerate udp HOST{reverse} --rate {} -t 30s: take a CPU profile of the {end} here, and at {}",
                command_rate(high),
                command_rate(bend.low)
            ));
        }
        advice.push(format!(
            "linerate search HOST{reverse} --goal loss=0.5%: the highest rate that holds, with its bounds"
        ));
    }
    advice
}

/// As `--rate` takes it, with no digit lost that four show.
fn command_rate(bits_per_second: u64) -> String {
    let number = |unit: u64, letter: &str| {
        let text = format!("{:.3}", bits_per_second as f64 / unit as f64);
        format!("{}{letter}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match bits_per_second {
        0..1_000_000 => number(1_000, "k"),
        1_000_000..1_000_000_000 => number(1_000_000, "M"),
        _ => number(1_000_000_000, "G"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_is_not_all() {
        for (ratio, words) in [
            (0.0, "0 %"),
            (5e-5, "less than 0.01 %"),
            (0.0052, "0.52 %"),
            (0.28, "28 %"),
            (0.994, "99 %"),
            (0.996, "99.60 %"),
            (0.999_99, "more than 99.99 %"),
            (1.0, "100 %"),
            (1.5, "150 %"),
        ] {
            assert_eq!(share(ratio), words);
        }
    }
}
