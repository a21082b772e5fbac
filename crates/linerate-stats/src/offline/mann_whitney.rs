//! Mann and Whitney's U (1947): how often a value of one set exceeds one of the other.
//!
//! The p value is exact up to [`MOST_EXACT`] values in all: the distribution of the rank sum over
//! all ways to deal the pooled values to the two sets, with the ties as they are, by counting. It
//! is not a test of medians when the sets differ in shape. Applied to boot means when boots are
//! known. Beyond the limit: normal approximation with tie and continuity correction.

use super::distribution::normal_sf;

/// Values in both sets together up to which counting is done.
pub const MOST_EXACT: usize = 120;

/// The result of the test.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct MannWhitney {
    /// Pairs in which the second set's value is larger, plus half of the ties.
    pub u: f64,
    /// Two-sided p value: twice the smaller tail, at most 1.
    pub p: f64,
    /// Whether it was counted out.
    pub exact: bool,
    /// The least p value that sets of this size could ever give: above alpha, the test cannot find
    /// anything. `None` for the approximation.
    pub least_p: Option<f64>,
    /// Cliff's delta: P(second > first) - P(second < first), -1 to 1.
    #[serde(skip)]
    pub cliffs_delta: f64,
}

/// Runs the test. `None` when a set is empty.
pub fn test(base: &[f64], set: &[f64]) -> Option<MannWhitney> {
    if base.is_empty() || set.is_empty() {
        return None;
    }
    let mut pooled: Vec<(f64, bool)> = Vec::with_capacity(base.len() + set.len());
    pooled.extend(base.iter().map(|x| (*x, false)));
    pooled.extend(set.iter().map(|x| (*x, true)));
    pooled.sort_unstable_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
    // Twice the rank sum of the second set, whole because tied ranks are halves.
    let mut groups = Vec::new();
    let (mut double_rank_sum, mut seen) = (0u64, 0u64);
    for group in pooled.chunk_by(|a, b| a.0 == b.0) {
        let size = group.len() as u64;
        let double_rank = 2 * seen + size + 1;
        double_rank_sum += double_rank * group.iter().filter(|g| g.1).count() as u64;
        groups.push((size, double_rank));
        seen += size;
    }
    let (n1, n2) = (base.len() as f64, set.len() as f64);
    let u = double_rank_sum as f64 / 2.0 - n2 * (n2 + 1.0) / 2.0;
    let cliffs_delta = 2.0 * u / (n1 * n2) - 1.0;
    if pooled.len() <= MOST_EXACT {
        let counts = rank_sum_distribution(&groups, set.len());
        let at = double_rank_sum as usize;
        let lower: f64 = counts.iter().take(at + 1).sum();
        let upper: f64 = counts.iter().skip(at).sum();
        let first = counts.iter().copied().find(|c| *c > 0.0).unwrap_or(1.0);
        let last = counts.iter().rev().copied().find(|c| *c > 0.0).unwrap_or(1.0);
        return Some(MannWhitney {
            u,
            p: (2.0 * lower.min(upper)).min(1.0),
            exact: true,
            least_p: Some((2.0 * first.min(last)).min(1.0)),
            cliffs_delta,
        });
    }
    let n = n1 + n2;
    let ties: f64 = groups.iter().map(|(s, _)| (*s as f64).powi(3) - *s as f64).sum();
    let variance = n1 * n2 / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    let distance = ((u - n1 * n2 / 2.0).abs() - 0.5).max(0.0);
    let p =
        if variance > 0.0 { (2.0 * normal_sf(distance / variance.sqrt())).min(1.0) } else { 1.0 };
    Some(MannWhitney { u, p, exact: false, least_p: None, cliffs_delta })
}

/// Probabilities of each doubled rank sum of `chosen` values drawn from the tie groups.
fn rank_sum_distribution(groups: &[(u64, u64)], chosen: usize) -> Vec<f64> {
    // table[k][s]: ways to choose k values with doubled rank sum s, among the groups seen so far.
    let largest: usize = {
        let mut ranks: Vec<u64> =
            groups.iter().flat_map(|(size, rank)| (0..*size).map(move |_| *rank)).collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        ranks.iter().take(chosen).sum::<u64>() as usize
    };
    let mut table = vec![vec![0.0f64; largest + 1]; chosen + 1];
    table[0][0] = 1.0;
    let mut before = 0usize;
    for (size, rank) in groups {
        let (size, rank) = (*size as usize, *rank as usize);
        let reach = (before + size).min(chosen);
        for k in (1..=reach).rev() {
            let (lower, upper) = table.split_at_mut(k);
            let Some(row) = upper.first_mut() else { continue };
            let mut ways = 1.0;
            for take in 1..=size.min(k) {
                ways *= (size - take + 1) as f64 / take as f64;
                let shift = take * rank;
                let Some(source) = lower.get(k - take) else { continue };
                for (s, count) in source.iter().enumerate() {
                    if *count > 0.0
                        && let Some(slot) = row.get_mut(s + shift)
                    {
                        *slot += ways * count;
                    }
                }
            }
        }
        before += size;
    }
    let mut counts = table.pop().unwrap_or_default();
    let total: f64 = counts.iter().sum();
    for count in &mut counts {
        *count /= total;
    }
    counts
}

/// Largest k with P(U < k) <= alpha / 2 for sets of n and m values without ties, and that tail: the
/// order statistic at which the Hodges-Lehmann interval ends. `None` when even the outermost pair
/// does not reach the level.
pub(super) fn interval_rank(n: usize, m: usize, alpha: f64) -> Option<(usize, f64)> {
    let groups: Vec<(u64, u64)> = (1..=(n + m) as u64).map(|rank| (1, 2 * rank)).collect();
    let counts = rank_sum_distribution(&groups, m);
    let least = m * (m + 1);
    let mut tail = 0.0;
    let mut rank = 0;
    for u in 0..n * m {
        let next = tail + counts.get(least + 2 * u).copied().unwrap_or(0.0);
        if next > alpha / 2.0 {
            break;
        }
        tail = next;
        rank = u + 1;
    }
    (rank > 0).then_some((rank, tail))
}

#[cfg(test)]
#[allow(clippy::excessive_precision, reason = "references stand as they were computed")]
mod tests {
    use super::*;

    #[test]
    fn three_against_three_separated() {
        let t = test(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!((t.u, t.exact, t.cliffs_delta), (9.0, true, 1.0));
        assert!((t.p - 0.1).abs() < 1e-15 && (t.least_p.unwrap() - 0.1).abs() < 1e-15);
        let back = test(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((back.u, back.p), (0.0, t.p));
    }

    /// With ties, against all 210 ways to deal the values out.
    #[test]
    fn ties_against_enumeration() {
        let base = [1.0, 2.0, 2.0, 5.0];
        let set = [2.0, 3.0, 5.0, 5.0, 6.0, 7.0];
        let all: Vec<f64> = base.iter().chain(&set).copied().collect();
        let u_of = |a: &[f64], b: &[f64]| -> f64 {
            let score = |x: f64, y: f64| {
                if y > x {
                    1.0
                } else if y == x {
                    0.5
                } else {
                    0.0
                }
            };
            a.iter().flat_map(|x| b.iter().map(move |y| score(*x, *y))).sum()
        };
        let observed = u_of(&base, &set);
        let (mut below, mut above, mut total) = (0, 0, 0);
        for mask in 0u32..1024 {
            if mask.count_ones() != 6 {
                continue;
            }
            let part = |set: bool| -> Vec<f64> {
                (0..10).filter(|i| (mask >> i & 1 == 1) == set).map(|i| all[i]).collect()
            };
            let u = u_of(&part(false), &part(true));
            below += u32::from(u <= observed);
            above += u32::from(u >= observed);
            total += 1;
        }
        assert_eq!(total, 210);
        let want = (2.0 * f64::from(below.min(above)) / 210.0).min(1.0);
        let got = test(&base, &set).unwrap();
        assert_eq!(got.u, observed);
        assert!((got.p - want).abs() < 1e-12, "{} {want}", got.p);
    }

    #[test]
    fn thirty_each_and_beyond() {
        // U of 30 + 30: exact tail of a small shift, as an independent program counts it.
        let base: Vec<f64> = (0..30).map(f64::from).collect();
        let set: Vec<f64> = (0..30).map(|i| f64::from(i) + 7.5).collect();
        let exact = test(&base, &set).unwrap();
        assert!(exact.exact && (exact.p - 0.003_193_540_818_593_945).abs() < 1e-14, "{}", exact.p);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(!test(&many, &many).unwrap().exact);
        assert_eq!(test(&many, &many).unwrap().p, 1.0);
    }

    #[test]
    fn constant_sets() {
        assert_eq!(test(&[1.0; 5], &[1.0; 5]).unwrap().p, 1.0);
        assert_eq!(test(&[1.0; 90], &[1.0; 90]).unwrap().p, 1.0);
        assert_eq!(test(&[], &[1.0]), None);
    }
}
