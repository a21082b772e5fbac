//! Made-up tables with and without something bad.

use linerate_stats::offline::bootstrap::Random;

use super::*;

/// All pairs of some hosts.
fn pairs(hosts: usize, each_way: bool) -> Vec<(usize, usize)> {
    let all = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b)));
    all.filter(|(a, b)| a < b || (each_way && a != b)).collect()
}

/// Around 100 with noise of 1: what each time and each host have of their own, and what `bad` takes away.
fn table(
    seed: u64,
    pairs: &[(usize, usize)],
    times: usize,
    bad: impl Fn(usize, usize) -> f64,
) -> Vec<Vec<Option<f64>>> {
    let mut random = Random::new(seed);
    let own: Vec<f64> = (0..100).map(|_| random.normal()).collect();
    let mut rows = Vec::new();
    for _ in 0..times {
        let level = 100.0 + 5.0 * random.normal();
        let value = |(a, b): &(usize, usize)| {
            let hosts = own.get(*a).zip(own.get(*b)).map_or(0.0, |(a, b)| a + b);
            Some(level + hosts + random.normal() - bad(*a, *b))
        };
        rows.push(pairs.iter().map(value).collect());
    }
    rows
}

fn judged(pairs: &[(usize, usize)], times: &[Vec<Option<f64>>]) -> Verdict {
    judge(&Table { pairs, times, better: Better::Higher })
}

fn named(verdict: &Verdict) -> Vec<What> {
    verdict.bad.iter().map(|bad| bad.what).collect()
}

/// How often exactly `wanted` was named, of 20 tables.
fn found_of(
    hosts: usize,
    each_way: bool,
    times: usize,
    wanted: &[What],
    bad: impl Fn(usize, usize) -> f64,
) -> usize {
    let pairs = pairs(hosts, each_way);
    let right = |seed: &u64| named(&judged(&pairs, &table(*seed, &pairs, times, &bad))) == wanted;
    (0..20).filter(right).count()
}

fn one_link(a: usize, b: usize) -> f64 {
    if (a, b) == (1, 2) { 25.0 } else { 0.0 }
}

fn host_two(a: usize, b: usize) -> f64 {
    if [a, b].contains(&2) { 25.0 } else { 0.0 }
}

fn place(hosts: usize, each_way: bool, pair: (usize, usize)) -> What {
    What::Link(pairs(hosts, each_way).iter().position(|one| *one == pair).unwrap())
}

#[test]
fn a_bad_link_is_named_and_nobody_else() {
    for (hosts, each_way, times) in [(8, false, 3), (4, true, 3), (4, false, 3), (6, true, 5)] {
        let wanted = [place(hosts, each_way, (1, 2))];
        let right = found_of(hosts, each_way, times, &wanted, one_link);
        assert!(right >= 17, "{hosts} hosts, {times} times: {right} of 20");
    }
}

#[test]
fn a_bad_host_is_named_and_not_its_links() {
    for (hosts, each_way, times) in [(8, false, 3), (4, true, 4), (8, true, 3)] {
        let right = found_of(hosts, each_way, times, &[What::Host(2, Role::Both)], host_two);
        assert!(right >= 17, "{hosts} hosts, {times} times: {right} of 20");
    }
}

#[test]
fn a_host_that_is_bad_in_one_part_is_named_with_it() {
    let as_client = |a: usize, _: usize| if a == 2 { 25.0 } else { 0.0 };
    let right = found_of(5, true, 4, &[What::Host(2, Role::Client)], as_client);
    assert!(right >= 17, "{right} of 20");
    let as_server = |a: usize, b: usize| as_client(b, a);
    let right = found_of(5, true, 4, &[What::Host(2, Role::Server)], as_server);
    assert!(right >= 17, "{right} of 20");
}

#[test]
fn the_worse_of_two_bad_hosts_comes_first_and_a_link_after_them() {
    let bad = |a: usize, b: usize| {
        let hosts = [(3, 40.0), (6, 25.0)].iter().filter(|(host, _)| [a, b].contains(host));
        let hosts: f64 = hosts.map(|(_, bad)| bad).sum();
        hosts + if (a, b) == (1, 2) { 25.0 } else { 0.0 }
    };
    let link = place(10, false, (1, 2));
    let wanted = [What::Host(3, Role::Both), What::Host(6, Role::Both), link];
    let right = found_of(10, false, 4, &wanted, bad);
    assert!(right >= 17, "{right} of 20");
}

#[test]
fn nothing_is_named_where_nothing_is_bad() {
    for (hosts, each_way, times) in [(8, false, 3), (4, true, 4), (5, true, 6), (4, false, 5)] {
        let pairs = pairs(hosts, each_way);
        let alarm = |seed: &u64| {
            let verdict = judged(&pairs, &table(*seed, &pairs, times, |_, _| 0.0));
            assert_eq!(verdict.links, Answer::Judged);
            !verdict.bad.is_empty()
        };
        let alarms = (1_000..1_100).filter(alarm).count();
        // 5 % are 5; 13 and more come twice in a thousand times.
        assert!(alarms <= 12, "{hosts} hosts: {alarms} of 100");
    }
}

#[test]
fn its_size_is_that_by_which_it_is_worse() {
    let (pairs, mut inside) = (pairs(8, true), 0);
    for seed in 0..20 {
        let verdict = judged(&pairs, &table(seed, &pairs, 4, one_link));
        let link = |bad: &&Bad| bad.what == place(8, true, (1, 2));
        let Some(bad) = verdict.bad.iter().find(link) else { continue };
        let (low, high) = bad.interval.unwrap();
        assert!((bad.worse_by - 25.0).abs() < 5.0 && low < bad.worse_by, "{bad:?}");
        assert!((verdict.usual.unwrap() - 100.0).abs() < 20.0);
        inside += u32::from(low <= 25.0 && 25.0 <= high);
    }
    assert!(inside >= 16, "{inside}");
}

#[test]
fn of_a_delay_more_is_worse() {
    let pairs = pairs(8, false);
    let times = table(7, &pairs, 4, |a, b| -one_link(a, b));
    let verdict = judge(&Table { pairs: &pairs, times: &times, better: Better::Lower });
    assert_eq!(named(&verdict), [place(8, false, (1, 2))]);
    assert!(verdict.bad[0].worse_by > 20.0);
    assert_eq!(named(&judged(&pairs, &times)), [], "the best is not bad");
}

#[test]
fn what_is_missing_is_not_bad_and_hides_nothing() {
    let pairs = pairs(8, false);
    let mut right = 0;
    for seed in 0..20 {
        let mut times = table(seed, &pairs, 5, one_link);
        let mut random = Random::new(seed);
        for row in &mut times {
            for _ in 0..3 {
                let at = random.below(row.len());
                row[at] = None;
            }
            // Between hosts 3 and 4 nothing ever gets through.
            let at = pairs.iter().position(|pair| *pair == (3, 4)).unwrap();
            row[at] = None;
        }
        right += u32::from(named(&judged(&pairs, &times)) == [place(8, false, (1, 2))]);
    }
    assert!(right >= 17, "{right} of 20");
}

#[test]
fn loss_that_all_others_have_none_of_is_told() {
    let pairs = pairs(4, true);
    let mut times = vec![vec![Some(0.0); pairs.len()]; 3];
    assert_eq!(judge(&Table { pairs: &pairs, times: &times, better: Better::Lower }).bad, []);
    for (row, loss) in times.iter_mut().zip([1.1, 0.9, 1.0]) {
        row[5] = Some(loss);
    }
    let verdict = judge(&Table { pairs: &pairs, times: &times, better: Better::Lower });
    assert_eq!(named(&verdict), [What::Link(5)]);
    assert!((verdict.bad[0].worse_by - 1.0).abs() < 1e-9);
}

#[test]
fn hosts_with_few_pairs_are_not_told_from_their_links() {
    // Each of eight with both of two: two pairs of each.
    let pairs: Vec<_> = (2..10).flat_map(|host| [(0, host), (1, host)]).collect();
    let verdict = judged(&pairs, &table(5, &pairs, 4, one_link));
    assert_eq!((verdict.hosts, verdict.links), (Answer::NotApart, Answer::Judged));
    assert_eq!(named(&verdict), [What::Link(1)]);
}

#[test]
fn what_cannot_be_told_says_what_would() {
    let answers = |hosts: usize, each_way: bool, times: usize| {
        let pairs = pairs(hosts, each_way);
        let verdict = judged(&pairs, &table(1, &pairs, times, host_two));
        (verdict.hosts, verdict.links)
    };
    use Answer::{FewPairs, Judged, NeedsTimes, NotApart};
    assert_eq!(answers(8, false, 1), (NeedsTimes(3), NeedsTimes(3)));
    assert_eq!(answers(8, false, 3), (Judged, Judged));
    assert_eq!(answers(4, true, 3), (NeedsTimes(4), Judged));
    assert_eq!(answers(4, false, 3), (NotApart, Judged));
    assert_eq!(answers(4, false, 2), (NotApart, NeedsTimes(3)));
    assert_eq!(answers(2, true, 9), (FewPairs, FewPairs));
    let verdict = judged(&[(0, 1), (1, 2), (2, 3)], &[vec![None; 3], vec![None; 3]]);
    assert_eq!((verdict.hosts, verdict.usual), (FewPairs, None));
    // A time without results says nothing.
    let four = pairs(4, true);
    let mut times = table(1, &four, 4, host_two);
    times[2] = vec![None; four.len()];
    let verdict = judged(&four, &times);
    assert_eq!((verdict.hosts, verdict.links), (NeedsTimes(5), Judged));
    let many = pairs(142, false);
    let verdict = judged(&many, &table(1, &many, 1, host_two));
    assert_eq!(verdict.hosts, Answer::ManyPairs);
}
