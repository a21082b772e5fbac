//! Which cores the data threads run on, when the user does not say.

use std::collections::BTreeMap;

use linerate_model::plan::Traffic;

/// Whether data threads are bound to cores when the user names none. Streams of data are: a thread
/// that wanders loses its caches and the socket's queue meanwhile. Request/response is not: the
/// scheduler brings the two ends of a wake-up together, which answers sooner than any fixed choice.
pub(crate) fn pinned(traffic: &Traffic) -> bool {
    !matches!(traffic, Traffic::Rr(_))
}

/// From which end of the list of cores to take: client and server of one host then meet last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Bottom,
    Top,
}

/// Cores for `threads` data threads: those with the fewest users, not those in `avoid` (the NIC's
/// interrupts) while others are left. `None` for all when there are more threads than cores or
/// every core has a user already: then the scheduler does better.
pub(crate) fn cores(
    allowed: &[u32],
    avoid: &[u32],
    users: &BTreeMap<u32, usize>,
    threads: usize,
    from: From,
) -> Vec<Option<u32>> {
    let free = |core: &&u32| users.get(core).copied().unwrap_or(0) == 0;
    let mut order: Vec<u32> = allowed.iter().filter(free).copied().collect();
    order.sort_unstable();
    if from == From::Top {
        order.reverse();
    }
    // Stable: keeps the order within each half.
    order.sort_by_key(|core| avoid.contains(core));
    if allowed.len() < 2 || order.len() < threads {
        return vec![None; threads];
    }
    order.into_iter().take(threads).map(Some).collect()
}

/// The user's list: stream i runs on entry i modulo its length.
pub(crate) fn listed(cpus: &[u16], threads: usize) -> Vec<Option<u32>> {
    (0..threads).map(|i| cpus.get(i % cpus.len().max(1)).map(|core| u32::from(*core))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_one_host_meet_last() {
        let none = BTreeMap::new();
        let all = [0, 1, 2, 3];
        assert_eq!(cores(&all, &[], &none, 2, From::Bottom), [Some(0), Some(1)]);
        assert_eq!(cores(&all, &[], &none, 2, From::Top), [Some(3), Some(2)]);
        assert_eq!(cores(&all, &[3, 2], &none, 3, From::Top), [Some(1), Some(0), Some(3)]);
        assert_eq!(cores(&all, &[], &none, 5, From::Top), [None; 5]);
        assert_eq!(cores(&[0], &[], &none, 1, From::Top), [None]);
        let used = BTreeMap::from([(3, 1)]);
        assert_eq!(cores(&all, &[], &used, 1, From::Top), [Some(2)]);
    }

    #[test]
    fn a_list_goes_round() {
        assert_eq!(listed(&[4, 6], 3), [Some(4), Some(6), Some(4)]);
        assert_eq!(listed(&[], 2), [None, None]);
    }
}
