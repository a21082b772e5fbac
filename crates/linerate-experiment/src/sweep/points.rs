//! Trials of one value as one point.

use linerate_model::plan::Way;
use linerate_model::record::Limit;
use linerate_model::sweep::{RegimeKind, SweepPlan, SweepPoint, SweepTrial, Variable};
use linerate_model::trial::Outcome;
use linerate_stats::offline::summary;

/// A CPU this busy, in percent, has no time left.
const CPU_FULL_PERCENT: f64 = 90.0;
/// A trial sustains its load when at most this share of what was called for is missing …
const MISSING: f64 = 0.005;
/// … and the rate, the time that a queue took to drain counted, is at most this share lower.
const SLOWER: f64 = 0.01;

/// Whether all that was asked for arrived, as fast as it was asked for. Without an asked rate, of
/// what was sent.
pub(super) fn sustains(outcome: &Outcome, asked_bps: Option<u64>) -> bool {
    let target = asked_bps.map_or(outcome.sent_bps, |asked| asked as f64);
    outcome.undelivered_ratio <= MISSING && outcome.received_bps >= target * (1.0 - SLOWER)
}

/// All trials of a direction and value, the valid ones where there are any.
pub(super) fn trials_at(trials: &[SweepTrial], way: Way, value: Option<u64>) -> Vec<&Outcome> {
    let all =
        || trials.iter().filter(|t| t.direction == way && t.value == value).map(|t| &t.outcome);
    let valid: Vec<&Outcome> = all().filter(|o| o.invalid.is_none()).collect();
    if valid.is_empty() { all().collect() } else { valid }
}

/// Votes of the trials: those that sustained it, and those that did not.
pub(super) fn votes(trials: &[&Outcome], asked_bps: Option<u64>) -> (usize, usize) {
    let sustained = trials.iter().filter(|o| sustains(o, asked_bps)).count();
    (sustained, trials.len() - sustained)
}

/// The points of a direction in rising order, their regime not yet judged.
pub(super) fn of(plan: &SweepPlan, trials: &[SweepTrial], way: Way) -> Vec<SweepPoint> {
    let mut values: Vec<Option<u64>> =
        trials.iter().filter(|t| t.direction == way).map(|t| t.value).collect();
    // As fast as it can comes last.
    values.sort_unstable_by_key(|value| value.unwrap_or(u64::MAX));
    values.dedup();
    let mut points: Vec<SweepPoint> = values
        .into_iter()
        .map(|value| point(plan, &trials_at(trials, way, value), way, value))
        .collect();
    from_above(&mut points);
    points
}

/// A little above what is carried nothing is lost yet: a queue only grows, and nothing at that point
/// shows whose queue it is. At the next larger value it overflows, and that one knows. Where there
/// is none, the time stamps of arrival are left: what came more slowly than it was sent, and was not
/// read late, was held between the two sockets.
fn from_above(points: &mut [SweepPoint]) {
    let mut above = None;
    for point in points.iter_mut().rev() {
        let slower = point.received_bps < point.sent_bps * (1.0 - SLOWER);
        match point.limit {
            Limit::Unknown if slower && point.lost_ratio <= MISSING => {
                point.limit = above.unwrap_or(Limit::Path);
            }
            // Not one of a sender that has no time to send: here all of it was sent.
            Limit::Path | Limit::SenderHost | Limit::ReceiverCpu | Limit::ReceiverBuffer => {
                above = Some(point.limit);
            }
            _ => {}
        }
    }
}

fn point(plan: &SweepPlan, trials: &[&Outcome], way: Way, value: Option<u64>) -> SweepPoint {
    let asked_bps = if plan.variable == Variable::Rate { value } else { plan.rate_bps };
    let column = |f: fn(&Outcome) -> f64| trials.iter().map(|o| f(o)).collect::<Vec<f64>>();
    let some = |f: fn(&Outcome) -> Option<f64>| {
        median(&trials.iter().filter_map(|o| f(o)).collect::<Vec<f64>>())
    };
    // A sum that leaves out what some trials did not report would be no sum.
    let count = |f: fn(&Outcome) -> Option<u64>| {
        trials.iter().try_fold(0_u64, |sum, o| Some(sum.saturating_add(f(o)?)))
    };
    let received = column(|o| o.received_bps);
    let spreads: Vec<f64> = trials.iter().filter_map(|o| deviation(&o.intervals_bps)).collect();
    let intervals = || trials.iter().flat_map(|o| o.intervals_bps.iter().copied());
    let mut point = SweepPoint {
        direction: way,
        value,
        asked_bps,
        trials: u32::try_from(trials.len()).unwrap_or(u32::MAX),
        sent_bps: mean(&column(|o| o.sent_bps)),
        received_bps: mean(&received),
        received_sd_bps: deviation(&received),
        interval_sd_bps: median(&spreads),
        interval_min_bps: intervals().reduce(f64::min),
        interval_max_bps: intervals().reduce(f64::max),
        undelivered_ratio: mean(&column(|o| o.undelivered_ratio)),
        lost_ratio: mean(&column(|o| o.lost_ratio)),
        lost_path: count(|o| o.lost_path),
        dropped_receiver: count(|o| o.dropped_receiver),
        unattributed: count(|o| Some(o.unattributed.unwrap_or(0))).filter(|n| *n > 0),
        jitter_s: some(|o| o.jitter_s),
        delay_p99_s: some(|o| o.delay_p99_s),
        cpu_sender_percent: some(|o| o.cpu_sender_percent),
        cpu_receiver_percent: some(|o| o.cpu_receiver_percent),
        limit: Limit::Unknown,
        regime: RegimeKind::Sustained,
        invalid: trials
            .iter()
            .all(|o| o.invalid.is_some())
            .then(|| trials.iter().find_map(|o| o.invalid.clone()).unwrap_or_default()),
        runs: trials.iter().filter_map(|o| o.run.clone()).collect(),
    };
    point.limit = limit(&point, trials);
    point
}

/// The limit that most trials name; where the verdicts say nothing of what is missing, the counts do.
fn limit(point: &SweepPoint, trials: &[&Outcome]) -> Limit {
    let named: Vec<Limit> = trials.iter().filter_map(|o| o.limit).collect();
    let most = most_frequent(&named);
    let (followed, not) = votes(trials, point.asked_bps);
    if followed > not {
        return match (point.asked_bps, most) {
            (Some(_), _) => Limit::RequestedRate,
            (None, named) => named.unwrap_or(Limit::Unknown),
        };
    }
    // A verdict of the trials that failed, not of those that went well.
    let failed: Vec<Limit> = trials
        .iter()
        .filter(|o| !sustains(o, point.asked_bps))
        .filter_map(|o| o.limit)
        .filter(|limit| *limit != Limit::RequestedRate && *limit != Limit::Unknown)
        .collect();
    if let Some(limit) = most_frequent(&failed) {
        return limit;
    }
    let full = |cpu: Option<f64>| cpu.is_some_and(|percent| percent >= CPU_FULL_PERCENT);
    let asked = point.asked_bps.map_or(point.sent_bps, |asked| asked as f64);
    let unsent = (1.0 - point.sent_bps / asked.max(1.0)).max(0.0);
    let slower = 1.0 - point.received_bps / point.sent_bps.max(1.0);
    if unsent > point.lost_ratio.max(slower) {
        // What was never sent cannot be the path's doing; what came later than it was sent can.
        return if full(point.cpu_sender_percent) { Limit::SenderCpu } else { Limit::SenderHost };
    }
    match (point.lost_path, point.dropped_receiver) {
        (path, Some(dropped)) if dropped > path.unwrap_or(0) => {
            let full = full(point.cpu_receiver_percent);
            if full { Limit::ReceiverCpu } else { Limit::ReceiverBuffer }
        }
        (Some(path), _) if path > 0 => Limit::Path,
        _ => Limit::Unknown,
    }
}

/// The limit named most often, the first of those named equally often.
pub(super) fn most_frequent(limits: &[Limit]) -> Option<Limit> {
    let times = |limit: &Limit| limits.iter().filter(|l| *l == limit).count();
    let most = limits.iter().map(times).max()?;
    limits.iter().copied().find(|l| times(l) == most)
}

fn mean(values: &[f64]) -> f64 {
    summary::mean(values).unwrap_or(0.0)
}

fn median(values: &[f64]) -> Option<f64> {
    summary::median(&summary::sorted(values))
}

/// Standard deviation with N - 1, from two values on.
fn deviation(values: &[f64]) -> Option<f64> {
    summary::Moments::of(values).filter(|_| values.len() > 1).map(|m| m.sd())
}
