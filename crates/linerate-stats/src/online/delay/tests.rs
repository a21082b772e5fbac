//! The quantiles beside those of the same values, sorted.

use proptest::prelude::*;

use super::*;

fn quantiles(transits: &[i64]) -> DelayQuantiles {
    let mut delay = DelayVariation::default();
    transits.iter().for_each(|t| delay.record(*t));
    delay.quantiles().unwrap()
}

/// What is promised: half a finest cell, or half of the widest cell that a value there may be in.
fn resolution(distance: u64) -> u64 {
    (distance / 1_024).max(8)
}

/// Every figure against the sorted values: exact, or within what is promised.
fn agrees_with_sorted(transits: &[i64]) -> Result<(), TestCaseError> {
    let mut sorted = transits.to_vec();
    sorted.sort_unstable();
    let least = sorted[0];
    let distances: Vec<u64> = sorted.iter().map(|t| t.abs_diff(least)).collect();
    let at = |per_10_000: usize| distances[(sorted.len() * per_10_000).div_ceil(10_000) - 1];
    let q = quantiles(transits);
    for (name, got, want) in [
        ("p50", q.p50_ns, at(5_000)),
        ("p90", q.p90_ns, at(9_000)),
        ("p99", q.p99_ns, at(9_900)),
        ("p99.9", q.p999_ns, at(9_990)),
        ("p99.99", q.p9999_ns, at(9_999)),
    ] {
        prop_assert!(got.abs_diff(want) <= resolution(want), "{name}: {got} is not {want}: {q:?}");
    }
    let sum: u128 = distances.iter().map(|d| u128::from(*d)).sum();
    prop_assert_eq!(u128::from(q.mean_ns), sum / distances.len() as u128);
    let largest = distances[distances.len() - 1];
    prop_assert_eq!((q.count, q.min_ns, q.max_ns), (transits.len() as u64, 0, largest));
    Ok(())
}

/// Up to `below`, the same each time.
fn noise(state: &mut u64, below: i64) -> i64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as i64 % below
}

#[test]
fn each_part_has_its_mean_and_largest_above_the_least_until_then() {
    let mut delay = DelayVariation::default();
    assert_eq!(delay.since_last(), None);
    for offset in [0, -5_000_000_000_000] {
        let mut delay = DelayVariation::default();
        [100, 200, 600].iter().for_each(|t| delay.record(offset + t));
        assert_eq!(delay.since_last(), Some((200, 500)));
        assert_eq!(delay.since_last(), None);
        // The least falls, and what was largest before is not of this part.
        [40, 60].iter().for_each(|t| delay.record(offset + t));
        assert_eq!(delay.since_last(), Some((10, 20)));
        delay.record(offset + 90);
        assert_eq!(delay.since_last(), Some((50, 50)));
        assert_eq!(delay.quantiles().unwrap().max_ns, 560);
    }
    delay.record(i64::MAX);
    delay.record(i64::MIN);
    assert_eq!(delay.since_last(), Some((u64::MAX / 2, u64::MAX)));
}

#[test]
fn a_queue_that_drains_is_told_as_it_was() {
    // From 300 ms to 245 in the first tenth of the datagrams, to nothing in the others: a new least
    // delay with every one of them.
    for offset in [0, -5_000_000_000_000, 86_400_000_000_007] {
        let transits: Vec<i64> = (0..10_000)
            .map(|i| 300_000_000 - i * 5_500)
            .chain((0..=90_000).map(|i| 245_000_000 - i * 245_000_000 / 90_000))
            .map(|transit| offset + transit)
            .collect();
        agrees_with_sorted(&transits).unwrap();
        let q = quantiles(&transits);
        assert!(q.p90_ns.abs_diff(245_000_000) <= 245_000, "{q:?}");
        assert!(q.p50_ns.abs_diff(136_111_000) <= 137_000, "{q:?}");
        assert_eq!(q.max_ns, 300_000_000);
    }
}

#[test]
fn a_drift_of_the_clocks_adds_itself_and_nothing_else() {
    for ppm in [-100, -50, 50, 100] {
        // A minute at 10,000 datagrams a second, up to 30 µs late.
        let mut state = 7;
        let transits: Vec<i64> = (0..600_000)
            .map(|i| 1_000_000 + noise(&mut state, 30_000) + i * 100 * ppm / 1_000)
            .collect();
        agrees_with_sorted(&transits).unwrap();
        let drifted = quantiles(&transits).max_ns;
        assert!((5_970_000 / 100 * ppm.unsigned_abs()..6_030_000).contains(&drifted), "{drifted}");
    }
}

#[test]
fn what_follows_a_great_fall_is_as_fine_as_if_there_had_been_none() {
    // Behind a queue at first, and some 3 µs above the least most of the time.
    let mut transits = vec![300_000_000; 5_000];
    transits.push(0);
    transits.extend((0..95_000).map(|i| 2_500 + i % 1_000));
    agrees_with_sorted(&transits).unwrap();
    let q = quantiles(&transits);
    assert!(q.p50_ns.abs_diff(3_026) <= 9, "{q:?}");
}

#[test]
fn offset_of_the_clocks_does_not_matter() {
    let around = |offset: i64| {
        quantiles(&(0..10_000).map(|i| offset + (i % 100) * 1_000).collect::<Vec<_>>())
    };
    // Cells lie at multiples of their width, so an offset moves a value within its cell at most.
    let plain = around(0);
    for offset in [-5_000_000_000_000, 5_000_000_000_001, i64::MIN, i64::MAX - 99_000] {
        let q = around(offset);
        assert!(q.p50_ns.abs_diff(plain.p50_ns) <= 48, "{offset}: {q:?}");
        assert_eq!((q.mean_ns, q.max_ns), (plain.mean_ns, plain.max_ns));
    }
}

#[test]
fn short_tests_and_extreme_values() {
    assert_eq!(DelayVariation::default().quantiles(), None);
    assert_eq!(DelayVariation::default().least_transit_ns(), None);
    for only in [7, i64::MIN, i64::MAX] {
        let q = quantiles(&[only]);
        assert_eq!(q, DelayQuantiles { count: 1, ..DelayQuantiles::default() });
    }
    for transits in [
        [i64::MIN, i64::MAX, 0],
        [i64::MAX, i64::MIN, 0],
        [i64::MAX, 0, i64::MIN],
        [0, i64::MAX, i64::MIN],
    ] {
        agrees_with_sorted(&transits).unwrap();
    }
}

#[test]
fn the_ends_of_a_ring_do_not_meet() {
    // The lowest and the highest value that the first two levels may hold together, and their neighbours.
    for first in -16..16 {
        for fall in 8_100..8_300 {
            let least = first - fall;
            agrees_with_sorted(&[first, first + 8_191, least]).unwrap();
            let low = least + 8_192;
            agrees_with_sorted(&[first, first + 16_383, least, low, low, low]).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn any_order_of_any_values_agrees_with_the_sorted(
        steps in prop::collection::vec((0u32..63, any::<i64>(), 1i64..50), 1..200),
        start in any::<i64>(),
        wander: bool,
    ) {
        // Falls and rises of every size; from where the last led to, or always from the start.
        let mut transits = Vec::new();
        let mut now = start;
        for (bits, value, times) in steps {
            let step = value >> bits;
            let from = if wander { now } else { start };
            for i in 0..times {
                transits.push(from.saturating_add(step / times * i));
            }
            now = from.saturating_add(step);
        }
        agrees_with_sorted(&transits)?;
    }

    #[test]
    fn falling_by_any_step_agrees_with_the_sorted(
        start in -1_000_000_000_000i64..1_000_000_000_000,
        falls in prop::collection::vec((0i64..200_000, 1usize..1_500, 1i64..100_000), 1..6),
    ) {
        let mut state = start.unsigned_abs();
        let mut transits = Vec::new();
        let mut now = start;
        for (step, times, spread) in falls {
            for _ in 0..times {
                transits.push(now + noise(&mut state, spread));
                now -= step;
            }
        }
        agrees_with_sorted(&transits)?;
    }
}
