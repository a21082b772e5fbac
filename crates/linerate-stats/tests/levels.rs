//! The figures of `docs/fleet.md` on changes of level: how soon one is said, and what is said where there is none. Seeds are
//! fixed, so that they are known answers.

use std::f64::consts::TAU;

use linerate_stats::offline::bootstrap::Random;
use linerate_stats::offline::hodges_lehmann;
use linerate_stats::offline::level::Level;

/// Of the whole fleet.
const CHANCE: f64 = 0.05;
const SERIES: usize = 200;

/// Of 200 pairs whose figures fall by so many times their noise.
#[derive(Debug, PartialEq)]
struct Found {
    /// After how many times, of the pair in the middle.
    median: usize,
    /// The same of nine in ten.
    most: usize,
    /// How many began elsewhere than was said.
    misplaced: usize,
    /// How many intervals hold the truth.
    covered: usize,
    /// Second changes, which there are not.
    again: usize,
}

fn told(pairs: usize, before: usize, fall: f64, times: usize) -> Found {
    let mut random = Random::new(9);
    let (mut after, mut misplaced, mut covered, mut again) = (Vec::new(), 0, 0, 0);
    for _ in 0..SERIES {
        let (mut level, mut found) = (Level::default(), None);
        for at in 0..before + times {
            let value = random.normal() - if at < before { 0.0 } else { fall };
            let Some(change) = level.push(value, CHANCE / pairs as f64) else { continue };
            assert!(at >= before, "said without a change: {at}");
            if found.is_some() {
                again += 1;
                continue;
            }
            let count = at + 1 - before;
            found = Some(count);
            misplaced += usize::from(change.after.len() != count);
            let shift = hodges_lehmann::shift(&change.before, &change.after, 0.95).unwrap();
            let (low, high, _) = shift.interval.unwrap();
            covered += usize::from((low..=high).contains(&-fall));
        }
        after.push(found.unwrap_or(usize::MAX));
    }
    after.sort_unstable();
    Found { median: after[SERIES / 2], most: after[SERIES * 9 / 10], misplaced, covered, again }
}

#[test]
#[ignore = "long"]
fn a_change_is_said_as_soon_as_the_page_says() {
    for (pairs, before, fall, times, (median, most, misplaced, covered, again)) in [
        (6, 24, 5.0, 100, (7, 12, 7, 192, 0)),
        (100, 24, 5.0, 100, (10, 17, 8, 192, 0)),
        (6, 48, 5.0, 100, (5, 10, 2, 193, 0)),
        (100, 48, 5.0, 100, (7, 13, 3, 193, 0)),
        (6, 100, 5.0, 100, (5, 8, 4, 188, 0)),
        (100, 100, 5.0, 100, (6, 10, 4, 191, 0)),
        (6, 500, 5.0, 100, (4, 5, 4, 192, 0)),
        (100, 500, 5.0, 100, (4, 6, 4, 192, 0)),
        (100, 100, 2.0, 200, (15, 24, 71, 185, 0)),
        (100, 500, 1.0, 400, (50, 88, 169, 183, 1)),
    ] {
        let wanted = Found { median, most, misplaced, covered, again };
        assert_eq!(told(pairs, before, fall, times), wanted, "{pairs} pairs, {before}, {fall}");
    }
}

#[test]
#[ignore = "long"]
fn a_level_that_comes_back_is_said_as_soon_as_the_page_says() {
    for (away, median) in [(5, None), (8, Some(20)), (24, Some(7))] {
        let mut random = Random::new(19);
        let mut back = Vec::new();
        for _ in 0..SERIES {
            let mut level = Level::default();
            let mut changes: Vec<usize> = Vec::new();
            for at in 0..100 + away + 300 {
                let low = (100..100 + away).contains(&at);
                let value = random.normal() - if low { 5.0 } else { 0.0 };
                changes.extend(level.push(value, CHANCE / 6.0).map(|_| at + 1));
            }
            back.push(changes.get(1).map_or(usize::MAX, |at| at.saturating_sub(100 + away)));
        }
        back.sort_unstable();
        assert_eq!(Some(back[SERIES / 2]).filter(|at| *at < usize::MAX), median, "{away}");
    }
}

/// Changes that are said of fleets of so many pairs, whose figures are made from the time and the last one.
fn said(
    (fleets, pairs, times): (usize, usize, usize),
    make: impl Fn(&mut Random, usize, f64) -> f64,
) -> usize {
    let mut random = Random::new(7);
    let mut said = 0;
    for _ in 0..fleets * pairs {
        let (mut level, mut last) = (Level::default(), 0.0);
        for at in 0..times {
            last = make(&mut random, at, last);
            said += usize::from(level.push(last, CHANCE / pairs as f64).is_some());
        }
    }
    said
}

#[test]
#[ignore = "long"]
fn where_nothing_changes_as_much_is_said_as_the_page_says() {
    let many = (10, 200, 500);
    assert_eq!(said(many, |random, _, _| random.normal()), 0, "normal");
    assert_eq!(said(many, |random, _, _| random.normal() / random.normal()), 0, "Cauchy's");
    let modes =
        |random: &mut Random, _, _| random.normal() + if random.unit() < 0.1 { -20.0 } else { 0.0 };
    assert_eq!(said(many, modes), 0, "two modes");
    assert_eq!(said(many, |random, _, _| (0.7 * random.normal()).round()), 0, "rounded");
    let some = (2, 100, 500);
    for (share, wanted) in [(0.2, 0), (0.3, 0), (0.5, 1), (0.8, 20)] {
        let alike = |random: &mut Random, _, last: f64| {
            share * last + (1.0_f64 - share * share).sqrt() * random.normal()
        };
        assert_eq!(said(some, alike), wanted, "{share} of the one before");
    }
    let drift = |random: &mut Random, at, _| random.normal() + at as f64 / 100.0;
    assert_eq!(said(some, drift), 574, "a drift");
    let sine = |random: &mut Random, at, _| random.normal() + 2.0 * (at as f64 * TAU / 24.0).sin();
    assert_eq!(said(some, sine), 0, "a daily sine");
    let hours = |day: usize| {
        let busy = day * 9 / 24..day * 18 / 24;
        move |random: &mut Random, at: usize, _: f64| {
            random.normal() - if busy.contains(&(at % day)) { 5.0 } else { 0.0 }
        }
    };
    assert_eq!(said(some, hours(24)), 0, "nine hours, at each hour");
    // Each of 50 pairs has ten days of two changes each, and some days are told as more.
    assert_eq!(said((1, 50, 3_000), hours(288)), 1_048, "nine hours, every 5 minutes");
}
