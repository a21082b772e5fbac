//! Rounds without conflict: what is in one round shares no resource, and the rounds are few.
//!
//! Each test takes the first round in which all it needs is free (greedy colouring of the graph of conflicts).
//! In the order of [`Fleet::pairs`](crate::plan::Fleet::pairs) that is the optimum for all pairs of hosts that
//! share nothing else (n − 1 rounds of even n, n of odd n, a 1-factorisation) and for two sides (as many as the
//! larger side has hosts). What is in the way of another test shares one of its resources with it, so no test
//! is put behind more rounds than the others that want its resources: [`most`].

use std::collections::{BTreeMap, BTreeSet};

/// The tests of each round, as places in `takes`, which says what each test takes.
pub fn rounds<R: Ord>(takes: &[BTreeSet<R>]) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..takes.len()).collect();
    rounds_of(takes, &all)
}

/// The same of some of the tests, each of them named once.
pub fn rounds_of<R: Ord>(takes: &[BTreeSet<R>], tests: &[usize]) -> Vec<Vec<usize>> {
    let wanted = Wanted::by(takes, tests);
    let as_said = wanted.first_fit(0..tests.len());
    // What many others are in the way of comes first: better where some resource is wanted by many tests.
    let mut order: Vec<usize> = (0..tests.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(wanted.others(*at)));
    let by_others = wanted.first_fit(order.into_iter());
    let best = if by_others.len() < as_said.len() { by_others } else { as_said };
    let named = |round: Vec<usize>| round.into_iter().filter_map(move |at| tests.get(at).copied());
    best.into_iter().map(|round| named(round).collect()).collect()
}

/// Rounds that no schedule can do without: as many tests want one resource.
pub fn least<R: Ord>(takes: &[BTreeSet<R>]) -> usize {
    let all: Vec<usize> = (0..takes.len()).collect();
    let most_wanted = Wanted::by(takes, &all).count.into_iter().max().unwrap_or(0);
    most_wanted.max(usize::from(!takes.is_empty()))
}

/// Rounds that [`rounds`] never exceeds.
pub fn most<R: Ord>(takes: &[BTreeSet<R>]) -> usize {
    let all: Vec<usize> = (0..takes.len()).collect();
    let wanted = Wanted::by(takes, &all);
    all.iter().map(|at| wanted.others(*at).saturating_add(1)).max().unwrap_or(0)
}

/// Resources as numbers: by how many tests each is wanted, and what each test wants.
struct Wanted {
    count: Vec<usize>,
    by: Vec<Vec<usize>>,
}

impl Wanted {
    fn by<R: Ord>(takes: &[BTreeSet<R>], tests: &[usize]) -> Self {
        let mut numbers: BTreeMap<&R, usize> = BTreeMap::new();
        let mut count: Vec<usize> = Vec::new();
        let mut by = Vec::with_capacity(tests.len());
        for takes in tests.iter().map(|test| takes.get(*test)) {
            let mut wants = Vec::new();
            for resource in takes.into_iter().flatten() {
                let number = *numbers.entry(resource).or_insert(count.len());
                match count.get_mut(number) {
                    Some(count) => *count += 1,
                    None => count.push(1),
                }
                wants.push(number);
            }
            by.push(wants);
        }
        Self { count, by }
    }

    /// At most so many others share a resource with a test.
    fn others(&self, test: usize) -> usize {
        let wants = self.by.get(test).into_iter().flatten();
        wants.map(|number| self.count.get(*number).map_or(0, |count| count.saturating_sub(1))).sum()
    }

    /// Each test in the first round in which nothing it wants is taken.
    fn first_fit(&self, order: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
        // A bit a round, of each resource.
        let mut taken: Vec<Vec<u64>> = vec![Vec::new(); self.count.len()];
        let mut rounds: Vec<Vec<usize>> = Vec::new();
        for test in order {
            let wants = self.by.get(test).map_or(&[][..], Vec::as_slice);
            let word = |at: usize| {
                let words = wants.iter().filter_map(|number| taken.get(*number)?.get(at));
                words.fold(0, |all, word| all | word)
            };
            let at = (0..).find(|at| word(*at) != u64::MAX).unwrap_or(0);
            let bit = word(at).trailing_ones();
            for number in wants {
                if let Some(words) = taken.get_mut(*number) {
                    words.resize(words.len().max(at + 1), 0);
                    words[at] |= 1 << bit;
                }
            }
            let round = at * 64 + bit as usize;
            rounds.resize_with(rounds.len().max(round + 1), Vec::new);
            rounds[round].push(test);
        }
        rounds
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::{Fleet, Pair, Shape};

    fn fleet(count: usize) -> Fleet {
        Fleet::new((0..count).map(|at| format!("h{at}")).collect()).unwrap()
    }

    fn takes(fleet: &Fleet, pairs: &[Pair]) -> Vec<BTreeSet<crate::plan::Resource>> {
        pairs.iter().map(|pair| fleet.resources(*pair)).collect()
    }

    /// Each test is in one round, none of a round share anything, and there are not more than can be.
    fn sound<R: Ord>(takes: &[BTreeSet<R>], rounds: &[Vec<usize>]) {
        let mut seen: Vec<usize> = rounds.iter().flatten().copied().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..takes.len()).collect::<Vec<_>>());
        for round in rounds {
            let wanted: Vec<&R> = round.iter().flat_map(|test| &takes[*test]).collect();
            assert_eq!(wanted.len(), wanted.iter().collect::<BTreeSet<_>>().len());
            assert!(!round.is_empty());
        }
        assert!((least(takes)..=most(takes)).contains(&rounds.len()), "{}", rounds.len());
    }

    #[test]
    fn all_pairs_are_as_few_rounds_as_can_be() {
        for count in 2..=64 {
            let fleet = fleet(count);
            for (each_way, ways) in [(false, 1), (true, 2)] {
                let pairs = fleet.pairs(&Shape::All, each_way).unwrap();
                assert_eq!(pairs.len(), count * (count - 1) / 2 * ways);
                let takes = takes(&fleet, &pairs);
                let rounds = rounds(&takes);
                sound(&takes, &rounds);
                let optimum = if count % 2 == 0 { count - 1 } else { count };
                assert_eq!(rounds.len(), optimum * ways, "{count} hosts");
                assert!(rounds.iter().all(|round| round.len() == count / 2), "{count} hosts");
            }
        }
    }

    #[test]
    fn a_mesh_of_a_hundred_hosts_is_at_its_optimum() {
        let fleet = fleet(100);
        let pairs = fleet.pairs(&Shape::All, true).unwrap();
        let takes = takes(&fleet, &pairs);
        assert_eq!((pairs.len(), rounds(&takes).len(), least(&takes)), (9_900, 198, 198));
    }

    #[test]
    fn two_sides_are_as_few_rounds_as_can_be() {
        for (few, many) in (1..=12).flat_map(|a| (1..=12).map(move |b| (a, b))) {
            let fleet = fleet(few + many);
            let (a, b) = fleet.hosts().split_at(few);
            let pairs = fleet.pairs(&Shape::Bipartite(a.to_vec(), b.to_vec()), false).unwrap();
            assert_eq!(pairs.len(), few * many);
            let takes = takes(&fleet, &pairs);
            let rounds = rounds(&takes);
            sound(&takes, &rounds);
            assert_eq!(rounds.len(), few.max(many), "{few} and {many} hosts");
            let star = Shape::Star(vec!["h0".into()]);
            let pairs = fleet.pairs(&star, false).unwrap();
            assert_eq!(super::rounds(&self::takes(&fleet, &pairs)).len(), few + many - 1);
        }
    }

    #[test]
    fn what_is_shared_parts_pairs_that_share_no_host() {
        let mut fleet = fleet(6);
        let names = |names: &str| names.split(',').map(str::to_owned).collect::<Vec<_>>();
        fleet.share("link:up".parse().unwrap(), &names("h0,h1,h2")).unwrap();
        // Nine pairs cross the link, so nine rounds at least; the six others fit beside them.
        let pairs = fleet.pairs(&Shape::All, false).unwrap();
        let takes = takes(&fleet, &pairs);
        sound(&takes, &rounds(&takes));
        assert_eq!(least(&takes), 9);
        assert_eq!(rounds(&takes).len(), 9);
        fleet.share("hypervisor:x".parse().unwrap(), &names("h0,h3")).unwrap();
        let pair = |from, to| fleet.resources(Pair { from, to });
        assert!(!pair(0, 1).is_disjoint(&pair(3, 4)), "both on one machine");
        assert!(pair(0, 1).is_disjoint(&pair(4, 5)));
        assert!(!pair(1, 4).is_disjoint(&pair(2, 5)), "both cross the link");
        assert!(pair(1, 2).is_disjoint(&pair(4, 5)), "neither does");
    }

    #[test]
    fn tests_that_may_meet_wait_for_their_client_alone() {
        let mut fleet = fleet(5);
        let names = |names: &str| names.split(',').map(str::to_owned).collect::<Vec<_>>();
        fleet.share("link:up".parse().unwrap(), &names("h0")).unwrap();
        fleet.meet();
        for (shape, count) in [
            (Shape::Bipartite(names("h1,h2,h3,h4"), names("h0")), 1),
            (Shape::Star(names("h0")), 4),
            // The first host is the client of all others.
            (Shape::All, 4),
        ] {
            let pairs = fleet.pairs(&shape, false).unwrap();
            let takes = takes(&fleet, &pairs);
            sound(&takes, &rounds(&takes));
            assert_eq!(rounds(&takes).len(), count, "{shape:?}");
        }
    }

    /// All graphs of up to six hosts: of every set of pairs.
    #[test]
    fn every_small_set_of_pairs() {
        for count in 2..=6_usize {
            let all = fleet(count).pairs(&Shape::All, false).unwrap();
            for set in 1_u32..1 << all.len() {
                let some = all.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
                let takes: Vec<BTreeSet<usize>> =
                    some.map(|(_, pair)| BTreeSet::from([pair.from, pair.to])).collect();
                sound(&takes, &rounds(&takes));
            }
        }
    }

    proptest! {
        #[test]
        fn any_tests_of_any_resources(
            takes in prop::collection::vec(prop::collection::btree_set(0_u8..40, 0..5), 0..200),
        ) {
            sound(&takes, &rounds(&takes));
        }

        #[test]
        fn some_of_the_tests(
            takes in prop::collection::vec(prop::collection::btree_set(0_u8..20, 1..4), 1..60),
            some in prop::collection::btree_set(0_usize..60, 0..40),
        ) {
            let some: Vec<usize> = some.into_iter().filter(|at| *at < takes.len()).collect();
            let rounds = rounds_of(&takes, &some);
            let mut named: Vec<usize> = rounds.iter().flatten().copied().collect();
            named.sort_unstable();
            prop_assert_eq!(named, some);
        }
    }
}
