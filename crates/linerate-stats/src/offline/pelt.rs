//! Change points in a series: PELT (Killick, Fearnhead and Eckley 2012), exact minimum of the sum
//! of segment costs plus a penalty for each change, in near linear time.
//!
//! Costs: squared distance from the segment's mean, with the series scaled by a robust estimate of
//! its noise (from the smaller four fifths of the differences of neighbours, so that a step does not
//! count as noise). Penalty 3 ln n for each change.

use super::summary::{mean, sorted};

/// Fewest values of a segment.
const SHORTEST: usize = 3;

/// Where segments begin, without the first (0): indices into the series in rising order. Empty for
/// fewer than 6 values or when nothing varies.
pub fn mean_changes(values: &[f64]) -> Vec<usize> {
    const FEWEST: usize = 6;
    let n = values.len();
    if n < FEWEST {
        return Vec::new();
    }
    let Some(noise) = noise(values) else { return Vec::new() };
    let centre = values.first().copied().unwrap_or(0.0);
    let penalty = 3.0 * (n as f64).ln();
    let mut sums = vec![(0.0, 0.0); n + 1];
    let (mut total, mut squares) = (0.0, 0.0);
    for (slot, x) in sums.iter_mut().skip(1).zip(values) {
        let x = (x - centre) / noise;
        total += x;
        squares += x * x;
        *slot = (total, squares);
    }
    let cost = |from: usize, to: usize| -> f64 {
        let (Some(a), Some(b)) = (sums.get(from), sums.get(to)) else { return f64::INFINITY };
        let length = (to - from) as f64;
        ((b.1 - a.1) - (b.0 - a.0) * (b.0 - a.0) / length).max(0.0)
    };
    // best[t]: least cost of the first t values; last[t]: where its last segment begins.
    let mut best = vec![f64::INFINITY; n + 1];
    let mut last = vec![0usize; n + 1];
    best[0] = -penalty;
    let mut candidates: Vec<usize> = vec![0];
    for t in SHORTEST..=n {
        let value = |s: usize| best.get(s).copied().unwrap_or(f64::INFINITY) + cost(s, t);
        let chosen = candidates
            .iter()
            .copied()
            .filter(|s| t - s >= SHORTEST)
            .min_by(|a, b| value(*a).total_cmp(&value(*b)));
        let Some(chosen) = chosen else { continue };
        let least = value(chosen) + penalty;
        candidates.retain(|s| t - s < SHORTEST || value(*s) <= least);
        candidates.push(t + 1 - SHORTEST);
        best[t] = least;
        last[t] = chosen;
    }
    let mut changes = Vec::new();
    let mut at = n;
    while at > 0 {
        at = last.get(at).copied().unwrap_or(0);
        if at > 0 {
            changes.push(at);
        }
    }
    changes.reverse();
    changes
}

/// Standard deviation of the noise: root mean square of the smaller four fifths of the differences
/// of neighbours, so that steps do not count, over what that is for normal noise.
fn noise(values: &[f64]) -> Option<f64> {
    // E[z^2 given |z| < its 80 % point], and 2 because a difference has twice the variance.
    const KEPT: f64 = 0.437_7 * 2.0;
    let differences: Vec<f64> =
        values.iter().zip(values.iter().skip(1)).map(|(a, b)| (b - a).abs()).collect();
    let ordered = sorted(&differences);
    let kept = ordered.get(..(ordered.len() * 4).div_ceil(5))?;
    let squares: Vec<f64> = kept.iter().map(|d| d * d).collect();
    let trimmed = (mean(&squares)? / KEPT).sqrt();
    if trimmed > 0.0 {
        return Some(trimmed);
    }
    // More than four fifths of the neighbours are equal: the mean difference is a floor.
    let floor = mean(&differences)? * 0.886_226_925_452_758;
    (floor > 0.0).then_some(floor)
}

/// What the runs of a set did over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// One level.
    Steady,
    /// The first `runs` values were at another level, the rest, at least half, is steady.
    WarmUp {
        /// Values before the last change.
        runs: usize,
    },
    /// Levels changed so late that no steady state holds half of the values.
    NoSteadyState {
        /// Number of changes.
        changes: usize,
    },
}

/// Points of a course: without a change the search takes their square.
const MOST_POINTS: usize = 10_000;

/// Classifies a series by its change points; of more than 10,000 values by those of means of neighbours, as few
/// of them each as leave so many.
pub fn course(values: &[f64]) -> Course {
    let block = values.len().div_ceil(MOST_POINTS).max(1);
    let changes = if block == 1 {
        mean_changes(values)
    } else {
        let means: Vec<f64> = values.chunks(block).filter_map(mean).collect();
        mean_changes(&means).into_iter().map(|at| at * block).collect()
    };
    match changes.last() {
        None => Course::Steady,
        Some(last) if (values.len() - last) * 2 >= values.len() => Course::WarmUp { runs: *last },
        Some(_) => Course::NoSteadyState { changes: changes.len() },
    }
}

#[cfg(test)]
#[allow(clippy::excessive_precision, reason = "references stand as they were computed")]
mod tests {
    use super::*;
    use crate::offline::bootstrap::Random;

    fn levels(parts: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut series = Vec::new();
        for (count, level) in parts {
            series.extend((0..*count).map(|_| level + random.normal()));
        }
        series
    }

    #[test]
    fn finds_the_steps() {
        let exact = |parts: &[(usize, f64)], want: &[usize]| {
            (0..100).filter(|seed| mean_changes(&levels(parts, *seed)) == want).count()
        };
        assert!(exact(&[(10, 0.0), (20, 8.0)], &[10]) >= 94);
        assert!(exact(&[(10, 0.0), (10, 8.0), (10, -8.0)], &[10, 20]) >= 94);
        assert_eq!(course(&levels(&[(4, 9.0), (20, 0.0)], 3)), Course::WarmUp { runs: 4 });
        assert_eq!(
            course(&levels(&[(20, 9.0), (5, 0.0)], 4)),
            Course::NoSteadyState { changes: 1 }
        );
    }

    #[test]
    fn noise_alone_is_steady() {
        let steady =
            (0..200).filter(|s| course(&levels(&[(30, 5.0)], *s)) == Course::Steady).count();
        assert!(steady >= 180, "{steady} of 200");
        assert!(mean_changes(&[1.0; 30]).is_empty());
        assert!(mean_changes(&[1.0, 9.0]).is_empty());
    }

    #[test]
    fn a_long_series_is_judged_by_means_of_neighbours() {
        assert_eq!(course(&levels(&[(200_000, 5.0)], 1)), Course::Steady);
        let warm = course(&levels(&[(40_000, 7.0), (160_000, 5.0)], 2));
        assert_eq!(warm, Course::WarmUp { runs: 40_000 });
    }

    /// Against all segmentations of short series.
    #[test]
    fn it_is_the_exact_minimum() {
        for seed in 0..20 {
            let series = levels(&[(5, 0.0), (6, 4.0)], seed);
            let noise = noise(&series).unwrap();
            let cost = |part: &[f64]| {
                let m = part.iter().sum::<f64>() / part.len() as f64;
                part.iter().map(|x| ((x - m) / noise).powi(2)).sum::<f64>()
            };
            let penalty = 3.0 * 11f64.ln();
            let mut best = (f64::INFINITY, Vec::new());
            for mask in 0u32..1 << 10 {
                let cuts: Vec<usize> = (1..11).filter(|i| mask >> (i - 1) & 1 == 1).collect();
                let mut edges = vec![0];
                edges.extend(&cuts);
                edges.push(11);
                if edges.windows(2).any(|w| w[1] - w[0] < SHORTEST) {
                    continue;
                }
                let total = edges.windows(2).map(|w| cost(&series[w[0]..w[1]])).sum::<f64>()
                    + penalty * cuts.len() as f64;
                if total < best.0 {
                    best = (total, cuts);
                }
            }
            assert_eq!(mean_changes(&series), best.1, "seed {seed}");
        }
    }
}
