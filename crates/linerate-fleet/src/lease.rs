//! Who may use what, and until when: the book of leases of whoever grants them, and the fence at the host that is
//! granted.
//!
//! Two tests never use one resource at a time, whoever dies, is cut off or comes late, because
//! - the [`LeaseBook`] grants all of a test's resources or none, and none again before its lease is over or given back;
//! - each [`Grant`] has a higher [`Epoch`] than all before it, and a [`Fence`] takes none that is not higher;
//! - a fence closes by the host's own clock, a guard before the lease is over;
//! - the host is told to start only while the guard is not yet used up ([`Grant::may_start`]): so whatever the order
//!   took to arrive, what the host counts from its arrival ends before what the book counts.
//!
//! Times are nanoseconds of some monotonic clock: one of the book's, another of each fence. They need not agree, but
//! go at one pace; what they drift apart during a lease has to fit into the guard as well.

use std::collections::{BTreeMap, BTreeSet};

/// Number of a grant; the later of two has the higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// How long a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// From the grant to its end, in nanoseconds.
    pub length_ns: u64,
    /// The part of it at its end in which nothing is sent any more, in nanoseconds.
    pub guard_ns: u64,
}

impl Term {
    /// For a test that takes `test_ns` at most once it has started: a guard before it, for the orders to arrive, and
    /// one after it.
    pub fn of(test_ns: u64, guard_ns: u64) -> Self {
        let length_ns = test_ns.saturating_add(guard_ns.saturating_mul(2));
        Self { length_ns, guard_ns }
    }
}

/// All that a test needs, for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Its number.
    pub epoch: Epoch,
    /// When it was granted, by the clock of the book.
    pub granted_ns: u64,
    /// Its length.
    pub term: Term,
}

impl Grant {
    /// When it is over, by the clock of the book.
    pub fn until_ns(&self) -> u64 {
        self.granted_ns.saturating_add(self.term.length_ns)
    }

    /// Whether hosts that say that they are ready may be told to start. Later than this they might go on for longer
    /// than the lease.
    pub fn may_start(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.granted_ns) <= self.term.guard_ns
    }
}

/// Why nothing was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused<'a, R> {
    /// Another has it.
    Busy {
        /// The first of the resources that is not free.
        resource: &'a R,
        /// Whose it is.
        epoch: Epoch,
        /// Until when at most, by the clock of the book.
        until_ns: u64,
    },
    /// No epoch is left, which only a book that was damaged comes to.
    NoEpoch,
}

/// The leases of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseBook<R> {
    last: Epoch,
    /// Highest time that was seen: a clock that goes back only makes leases longer.
    now_ns: u64,
    grants: BTreeMap<Epoch, (Grant, BTreeSet<R>)>,
    holder: BTreeMap<R, Epoch>,
}

impl<R: Ord + Clone> LeaseBook<R> {
    /// An empty book that goes on after `last`, the highest epoch that was ever granted.
    pub fn after(last: Epoch) -> Self {
        Self { last, now_ns: 0, grants: BTreeMap::new(), holder: BTreeMap::new() }
    }

    /// The highest epoch that was granted.
    pub fn last(&self) -> Epoch {
        self.last
    }

    /// Grants all of `resources`, or none of them.
    ///
    /// # Errors
    /// When one of them is another's, which costs nothing.
    pub fn grant<'a>(
        &mut self,
        now_ns: u64,
        resources: &'a BTreeSet<R>,
        term: Term,
    ) -> Result<Grant, Refused<'a, R>> {
        self.pass(now_ns);
        let busy = resources.iter().find_map(|resource| {
            let epoch = *self.holder.get(resource)?;
            Some((resource, epoch, self.grants.get(&epoch)?.0.until_ns()))
        });
        if let Some((resource, epoch, until_ns)) = busy {
            return Err(Refused::Busy { resource, epoch, until_ns });
        }
        let epoch = Epoch(self.last.0.checked_add(1).ok_or(Refused::NoEpoch)?);
        let grant = Grant { epoch, granted_ns: self.now_ns, term };
        self.last = epoch;
        self.holder.extend(resources.iter().map(|resource| (resource.clone(), epoch)));
        self.grants.insert(epoch, (grant, resources.clone()));
        Ok(grant)
    }

    /// Frees what was granted, when nothing uses it any more. Says whether it was still leased: a result that comes
    /// later than its lease is not of a test that had its resources for itself to the end.
    pub fn give_back(&mut self, now_ns: u64, epoch: Epoch) -> bool {
        self.pass(now_ns);
        self.remove(epoch)
    }

    /// Whether it is leased.
    pub fn holds(&self, now_ns: u64, epoch: Epoch) -> bool {
        let now_ns = self.now_ns.max(now_ns);
        self.grants.get(&epoch).is_some_and(|(grant, _)| now_ns < grant.until_ns())
    }

    /// When the next lease is over by itself, if there is one.
    pub fn next_end_ns(&self) -> Option<u64> {
        self.grants.values().map(|(grant, _)| grant.until_ns()).min()
    }

    fn remove(&mut self, epoch: Epoch) -> bool {
        let Some((_, resources)) = self.grants.remove(&epoch) else { return false };
        for resource in resources {
            self.holder.remove(&resource);
        }
        true
    }

    /// What is over is nobody's.
    fn pass(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        let over = self.grants.values().filter(|(grant, _)| grant.until_ns() <= self.now_ns);
        for epoch in over.map(|(grant, _)| grant.epoch).collect::<Vec<_>>() {
            self.remove(epoch);
        }
    }
}

/// At a host: what lets it send, and when not any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fence {
    highest: Epoch,
    /// Nothing once the lease was given back.
    closes_ns: Option<u64>,
}

impl Fence {
    /// One that goes on after `highest`, which it had before.
    pub fn after(highest: Epoch) -> Self {
        Self { highest, closes_ns: None }
    }

    /// The highest epoch that it had.
    pub fn highest(&self) -> Epoch {
        self.highest
    }

    /// When what runs has to be over; nothing where nothing may send.
    pub fn closes_ns(&self) -> Option<u64> {
        self.closes_ns
    }

    /// An order of a grant came at `now_ns`. Says whether it is a new one: one that came before, or late, changes
    /// nothing and is not obeyed. A new one ends what an earlier one had begun.
    pub fn prepare(&mut self, now_ns: u64, epoch: Epoch, term: Term) -> bool {
        if epoch <= self.highest {
            return false;
        }
        self.highest = epoch;
        self.closes_ns = Some(now_ns.saturating_add(term.length_ns.saturating_sub(term.guard_ns)));
        true
    }

    /// What runs has to be over by then, if not before: the lease may be longer than its host lets it be.
    pub fn close_by(&mut self, at_ns: u64) {
        self.closes_ns = self.closes_ns.map(|closes_ns| closes_ns.min(at_ns));
    }

    /// Whether what runs under `epoch` may send.
    pub fn is_open(&self, now_ns: u64, epoch: Epoch) -> bool {
        epoch == self.highest && self.closes_ns.is_some_and(|closes_ns| now_ns < closes_ns)
    }

    /// What ran under `epoch` is over.
    pub fn close(&mut self, epoch: Epoch) {
        if epoch == self.highest {
            self.closes_ns = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TERM: Term = Term { length_ns: 100, guard_ns: 10 };

    fn set<const N: usize>(names: [u8; N]) -> BTreeSet<u8> {
        BTreeSet::from(names)
    }

    #[test]
    fn all_or_none_is_granted() {
        let mut book = LeaseBook::after(Epoch(6));
        let first = book.grant(0, &set([1, 2]), TERM).unwrap();
        assert_eq!((first.epoch, first.until_ns()), (Epoch(7), 100));
        let wanted = set([2, 3]);
        let refused = Refused::Busy { resource: &2, epoch: Epoch(7), until_ns: 100 };
        assert_eq!(book.grant(50, &wanted, TERM), Err(refused));
        assert_eq!(book.last(), Epoch(7), "a refusal costs no epoch");
        let second = book.grant(50, &set([3, 4]), TERM).unwrap();
        assert_eq!(second.epoch, Epoch(8), "what was refused took nothing");
        assert_eq!(book.next_end_ns(), Some(100));
        assert!(book.give_back(60, Epoch(7)));
        assert!(!book.give_back(60, Epoch(7)), "it is nobody's any more");
        assert!(book.grant(60, &set([1, 2]), TERM).is_ok());
    }

    #[test]
    fn a_lease_ends_by_itself_and_frees_only_its_own() {
        let mut book = LeaseBook::after(Epoch(0));
        let first = book.grant(0, &set([1]), TERM).unwrap();
        assert!(book.holds(99, first.epoch));
        assert!(book.grant(99, &set([1]), TERM).is_err());
        assert!(!book.holds(100, first.epoch));
        let second = book.grant(100, &set([1]), TERM).unwrap();
        assert!(!book.give_back(101, first.epoch), "late");
        assert!(book.holds(101, second.epoch));
        // A clock that goes back does not bring the first one back, and shortens none.
        assert!(book.grant(0, &set([1]), TERM).is_err());
        assert_eq!(book.grant(0, &set([9]), TERM).unwrap().until_ns(), 201);
    }

    #[test]
    fn a_book_without_epochs_grants_nothing() {
        let mut book = LeaseBook::after(Epoch(u64::MAX));
        assert_eq!(book.grant(0, &set([1]), TERM), Err(Refused::NoEpoch));
    }

    #[test]
    fn a_fence_closes_before_its_lease_where_its_host_wants_that() {
        let mut fence = Fence::default();
        fence.close_by(5);
        assert_eq!(fence.closes_ns(), None, "what is closed stays so");
        assert!(fence.prepare(1_000, Epoch(4), TERM));
        fence.close_by(2_000);
        assert_eq!(fence.closes_ns(), Some(1_090), "a lease gets no longer");
        fence.close_by(1_020);
        assert!(fence.is_open(1_019, Epoch(4)) && !fence.is_open(1_020, Epoch(4)));
    }

    #[test]
    fn a_fence_takes_an_epoch_once_and_none_of_before() {
        let mut fence = Fence::default();
        assert!(fence.prepare(1_000, Epoch(4), TERM));
        assert!(fence.is_open(1_089, Epoch(4)));
        assert!(!fence.is_open(1_090, Epoch(4)), "a guard before the end");
        assert!(!fence.prepare(1_050, Epoch(4), TERM), "the same once more makes it no longer");
        assert!(!fence.is_open(1_090, Epoch(4)));
        assert!(!fence.prepare(1_050, Epoch(3), TERM), "late");
        assert!(fence.prepare(1_060, Epoch(5), TERM));
        assert!(!fence.is_open(1_060, Epoch(4)), "the later one has the host");
        fence.close(Epoch(4));
        assert!(fence.is_open(1_060, Epoch(5)));
        fence.close(Epoch(5));
        assert!(!fence.is_open(1_060, Epoch(5)));
        let mut later = Fence::after(fence.highest());
        assert!(!later.prepare(2_000, Epoch(5), TERM), "told before, by another process here");
        assert!(later.prepare(2_000, Epoch(6), TERM));
        assert_eq!(later.closes_ns(), Some(2_090));
        assert!(!Fence::default().is_open(0, Epoch(0)));
    }

    #[test]
    fn no_order_is_too_late_for_the_guard() {
        // The latest that a host can be told, and begins to count.
        let term = Term::of(80, 10);
        let grant = LeaseBook::after(Epoch(0)).grant(0, &set([1]), term).unwrap();
        assert!(grant.may_start(10) && !grant.may_start(11));
        let mut fence = Fence::default();
        fence.prepare(10, grant.epoch, term);
        assert!(fence.is_open(99, grant.epoch) && !fence.is_open(100, grant.epoch));
        assert_eq!(grant.until_ns(), 100);
    }

    proptest! {
        /// Against a plain list of who has what until when.
        #[test]
        fn two_grants_never_share_a_resource(
            steps in prop::collection::vec(
                (0_u64..60, prop::collection::btree_set(0_u8..12, 0..5), 1_u64..200, any::<prop::sample::Index>()),
                1..200,
            ),
        ) {
            let mut book = LeaseBook::after(Epoch(0));
            let mut model: Vec<(Grant, BTreeSet<u8>)> = Vec::new();
            let (mut now_ns, mut granted) = (0, Vec::new());
            for (wait_ns, resources, length_ns, which) in steps {
                now_ns += wait_ns;
                model.retain(|(grant, _)| grant.until_ns() > now_ns);
                let free = model.iter().all(|(_, taken)| taken.is_disjoint(&resources));
                match book.grant(now_ns, &resources, Term { length_ns, guard_ns: 0 }) {
                    Ok(grant) => {
                        prop_assert!(free, "{:?} was taken", resources);
                        prop_assert!(granted.last() < Some(&grant.epoch), "epochs rise");
                        granted.push(grant.epoch);
                        model.push((grant, resources));
                    }
                    Err(_) => prop_assert!(!free, "{:?} was free", resources),
                }
                if wait_ns % 3 == 0 && !granted.is_empty() {
                    let epoch = *which.get(&granted);
                    let held = model.iter().any(|(grant, _)| grant.epoch == epoch);
                    prop_assert_eq!(book.holds(now_ns, epoch), held);
                    prop_assert_eq!(book.give_back(now_ns, epoch), held);
                    model.retain(|(grant, _)| grant.epoch != epoch);
                }
            }
        }
    }
}
