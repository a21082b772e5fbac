//! How the points of a direction behave.

use linerate_model::plan::Way;
use linerate_model::record::Limit;
use linerate_model::sweep::{RegimeKind, SweepPlan, SweepPoint, SweepRegime, SweepTrial, Variable};

use super::{points, words};

/// This share below what arrived elsewhere is less, and not the same within noise.
const LESS: f64 = 0.10;
/// A rate whose standard deviation is more than this share of it is not steady.
const UNSTEADY: f64 = 0.10;

/// The points of a direction with their regimes.
pub(super) fn judged(plan: &SweepPlan, trials: &[SweepTrial], way: Way) -> Vec<SweepPoint> {
    let mut points = points::of(plan, trials, way);
    let received: Vec<f64> = points.iter().map(|p| p.received_bps).collect();
    for (i, point) in points.iter_mut().enumerate() {
        let most = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
        let before = most(received.get(..i).unwrap_or_default());
        let after = most(received.get(i + 1..).unwrap_or_default());
        let outcomes = points::trials_at(trials, way, point.value);
        let (followed, not) = points::votes(&outcomes, point.asked_bps);
        point.regime = kind(plan, point, followed > not, before, after);
    }
    points
}

/// `before` and `after` are the most that arrived at any smaller and any larger value.
fn kind(
    plan: &SweepPlan,
    point: &SweepPoint,
    followed: bool,
    before: f64,
    after: f64,
) -> RegimeKind {
    let received = point.received_bps;
    let is_rate = plan.variable == Variable::Rate;
    // As fast as it can, everything that was sent may arrive and still be less than before.
    if followed && (point.asked_bps.is_some() || (is_rate && received >= before)) {
        return RegimeKind::Sustained;
    }
    let less = |than: f64| received < than * (1.0 - LESS);
    if less(before) {
        return RegimeKind::Collapse;
    }
    if less(after) && !is_rate {
        return RegimeKind::Rises;
    }
    let asked = point.asked_bps.map_or(f64::INFINITY, |asked| asked as f64);
    let spread = |sd: Option<f64>| sd.is_some_and(|sd| sd > received * UNSTEADY);
    // Less than was asked for, where more arrives when still more is asked for.
    if less(after.min(asked)) || spread(point.interval_sd_bps) || spread(point.received_sd_bps) {
        return RegimeKind::Unstable;
    }
    RegimeKind::Plateau
}

/// Neighbours of one direction and kind. `points` are in the order of [`judged`].
pub(super) fn of(plan: &SweepPlan, points: &[SweepPoint]) -> Vec<SweepRegime> {
    points
        .chunk_by(|a, b| a.direction == b.direction && a.regime == b.regime)
        .filter_map(|alike| {
            let (first, last) = (alike.first()?, alike.last()?);
            let limits: Vec<Limit> = alike.iter().map(|p| p.limit).collect();
            let limit = points::most_frequent(&limits).unwrap_or(Limit::Unknown);
            let of_way = |p: &&SweepPoint| p.direction == first.direction;
            let peak = points
                .iter()
                .filter(of_way)
                .max_by(|a, b| a.received_bps.total_cmp(&b.received_bps));
            Some(SweepRegime {
                direction: first.direction,
                kind: first.regime,
                from: first.value,
                to: last.value,
                from_bps: first.asked_bps,
                to_bps: last.asked_bps,
                limit,
                text: words::regime(plan, alike, limit, peak),
            })
        })
        .collect()
}
