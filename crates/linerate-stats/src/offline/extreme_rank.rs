//! Whether one of several candidates is the largest too often to be so by chance: at each of some times all are
//! ranked, the largest first, and the ranks of one are summed (rank sums as of Friedman 1937, of the most extreme one
//! as of Thompson and Willke 1963). Where all are alike, each rank is as likely as any other and no time knows of
//! another, so that the chance of a sum is counted exactly and rests on no distribution of the values.

/// Counting takes times x sum steps. A larger count is bounded from above instead, by the sums of ranks that have no
/// upper end: s over n of them; the same where each rank can be that large, and near it where the sum is small.
const MOST_STEPS: u64 = 5_000_000;

/// p value of the rank sum of `candidate`, times the number of candidates (Bonferroni), so that it holds for whichever
/// is looked at. `times` has a row each time, with a value of each candidate or none; what was missing at a time has no
/// rank then. Those that are equal all have the last of their ranks, which is never too extreme. `None` when the
/// candidate was there at no time.
pub fn p(times: &[Vec<Option<f64>>], candidate: usize) -> Option<f64> {
    let mut sum = 0u64;
    let mut counts = Vec::new();
    for row in times {
        let Some(own) = row.get(candidate).copied().flatten() else { continue };
        let known = || row.iter().flatten();
        sum += known().filter(|value| **value >= own).count() as u64;
        counts.push(known().count() as u64);
    }
    let width = times.iter().map(Vec::len).max()?;
    let there = |one: &usize| times.iter().any(|row| row.get(*one).is_some_and(Option::is_some));
    let candidates = (0..width).filter(there).count();
    Some((chance(sum, &counts)? * candidates as f64).min(1.0))
}

/// Fewest times after which one that is the largest at each of them has a p value below `alpha`. `None` of fewer than
/// two candidates, and for an `alpha` that is no chance.
pub fn fewest_times(candidates: usize, alpha: f64) -> Option<u32> {
    if candidates < 2 || !(alpha > 0.0 && alpha <= 1.0) {
        return None;
    }
    let candidates = candidates as f64;
    (1..=64).find(|times| candidates.powi(1 - times) < alpha).map(i32::unsigned_abs)
}

/// Chance of a sum of at most this of ranks, each uniform from 1 to its count. `None` of no ranks.
fn chance(sum: u64, counts: &[u64]) -> Option<f64> {
    let least = counts.len() as u64;
    if counts.is_empty() {
        return None;
    }
    let most = counts.iter().fold(0u64, |most, count| most.saturating_add(*count));
    if sum >= most {
        return Some(1.0);
    }
    let Some(over) = sum.checked_sub(least) else { return Some(0.0) };
    if least.saturating_mul(over) > MOST_STEPS {
        // s over n, less the logarithm of all outcomes, term by term.
        let terms = (1..).zip(counts).map(|(term, count)| {
            ((sum - least + term) as f64).ln() - (term as f64).ln() - (*count as f64).ln()
        });
        return Some(terms.sum::<f64>().exp().min(1.0));
    }
    // The chance of each sum over the least, one more rank at a time.
    let mut chances = vec![0.0f64; usize::try_from(over).ok()?.saturating_add(1)];
    *chances.first_mut()? = 1.0;
    for count in counts {
        let mut window = 0.0;
        let mut next = Vec::with_capacity(chances.len());
        for (at, chance) in chances.iter().enumerate() {
            window += chance;
            let left = usize::try_from(*count).ok().and_then(|count| at.checked_sub(count));
            window -= left.and_then(|at| chances.get(at)).unwrap_or(&0.0);
            next.push(window.max(0.0) / *count as f64);
        }
        chances = next;
    }
    Some(chances.iter().sum::<f64>().min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::bootstrap::Random;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-12 * want, "{got:e} wanted {want:e}");
    }

    #[test]
    fn known_answers() {
        // Two dice: 1, 3, 6 and 10 of 36 throws are at most 2, 3, 4 and 5.
        for (sum, of) in [(1, 0.0), (2, 1.0), (3, 3.0), (4, 6.0), (5, 10.0), (11, 35.0), (12, 36.0)]
        {
            near(chance(sum, &[6, 6]).unwrap(), of / 36.0);
        }
        // A coin with sides 1 and 2, and a die: 1, 3, 5 of 12.
        near(chance(3, &[2, 6]).unwrap(), 3.0 / 12.0);
        near(chance(4, &[2, 6]).unwrap(), 5.0 / 12.0);
        assert_eq!(chance(4, &[]), None);
        assert_eq!(
            [(8, 0.025), (4, 0.025), (6, 0.05)].map(|(k, a)| fewest_times(k, a)),
            [Some(3), Some(4), Some(3)]
        );
        assert_eq!([fewest_times(1, 0.05), fewest_times(4, 0.0)], [None, None]);
    }

    #[test]
    fn a_bound_is_above_what_is_counted_and_near_it_where_it_is_small() {
        // 3,000 times and 2,000 candidates: over what is counted. The bound is C(sum, 3000) / 2000^3000.
        let large = |sum| chance(sum, &[2_000; 3_000]).unwrap();
        assert_eq!((large(3_000), large(5_999_999)), (0.0, 1.0));
        assert!(large(1_000_000) < 1e-12 && large(5_900_000) == 1.0);
    }

    #[test]
    fn the_worst_at_each_time_is_told_and_equals_are_not() {
        let row = |bad: f64| vec![Some(1.0), Some(bad), Some(0.0), Some(-3.0)];
        let times = [row(2.0), row(5.0), row(3.0), row(9.0)];
        near(p(&times, 1).unwrap(), 4.0 / 256.0);
        near(p(&times, 3).unwrap(), 1.0);
        assert_eq!(p(&[vec![Some(0.0); 4], vec![Some(0.0); 4]], 1), Some(1.0));
        assert_eq!(p(&[vec![None, Some(1.0)]], 0), None);
        // It has no rank where it is missing, and the others have fewer.
        let mut gap = times.to_vec();
        gap[0][1] = None;
        gap[1][3] = None;
        near(p(&gap, 1).unwrap(), 4.0 / (3.0 * 4.0 * 4.0));
    }

    #[test]
    fn false_alarms_are_no_more_than_said() {
        let mut random = Random::new(3);
        let mut alarms = 0;
        for _ in 0..4_000 {
            let times: Vec<Vec<_>> =
                (0..5).map(|_| (0..6).map(|_| Some(random.normal().exp())).collect()).collect();
            alarms += u32::from((0..6).any(|one| p(&times, one).is_some_and(|p| p <= 0.05)));
        }
        // 5 % are 200; four standard deviations of it are 55.
        assert!(alarms > 50 && alarms <= 255, "{alarms}");
    }
}
