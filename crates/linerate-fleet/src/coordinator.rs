//! What comes next in a run of a plan.
//!
//! [`Coordinator`] is fed every event of the log, old and new, and knows nothing else: one that goes on where another
//! died stands where that one stood. It works round by round: tests of one length that begin together leave no host
//! waiting for long, where each next test that happens to be free would break the rounds up. What failed is tried again
//! in rounds of its own, after all others.

use std::collections::{BTreeMap, BTreeSet};

use crate::lease::Epoch;
use crate::rounds::rounds_of;

/// What is kept, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A test was granted all it takes.
    Began {
        /// Its place in the plan.
        test: usize,
        /// Of the grant.
        epoch: Epoch,
        /// When the lease is over, by the clock of the book.
        until_ns: u64,
    },
    /// It came to an end, and what it took is free.
    Ended {
        /// Of the grant.
        epoch: Epoch,
        /// How.
        how: Ending,
    },
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a result.
    Measured,
    /// Without one.
    Failed,
    /// Nothing was heard of it before its lease was over.
    Lost,
    /// Whoever runs the plan was told to stop: that is no try.
    Cut,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Have what this test takes granted, keep [`Event::Began`], and start it.
    Start(usize),
    /// Keep [`Event::Ended`] of this grant, with [`Ending::Lost`].
    MarkLost(Epoch),
    /// Wait for the end of a test, until this time of the clock of the book at most.
    Wait {
        /// When the first lease of those that run is over.
        until_ns: u64,
    },
    /// Every test is settled.
    Done,
}

/// Where a test stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its turn is still to come.
    Waiting,
    /// It is under way.
    Running(Epoch),
    /// It ended without a result, and is tried again when all have had their turn.
    Again,
    /// There is a result, that of this grant.
    Measured(Epoch),
    /// It was tried as often as may be.
    GivenUp,
}

#[derive(Debug, Clone)]
struct Test {
    state: State,
    tries: u32,
}

/// The state of a run of a plan.
#[derive(Debug, Clone)]
pub struct Coordinator<R> {
    takes: Vec<BTreeSet<R>>,
    retries: u32,
    tests: Vec<Test>,
    /// Of all tests, then of those that are tried again.
    rounds: Vec<Vec<usize>>,
    /// The first round that has not ended.
    round: usize,
    running: BTreeMap<Epoch, (usize, u64)>,
}

impl<R: Ord> Coordinator<R> {
    /// Of tests that take these resources each; one without a result is tried `retries` times more.
    pub fn new(takes: Vec<BTreeSet<R>>, retries: u32) -> Self {
        let tests = vec![Test { state: State::Waiting, tries: 0 }; takes.len()];
        let rounds = crate::rounds::rounds(&takes);
        Self { takes, retries, tests, rounds, round: 0, running: BTreeMap::new() }
    }

    /// What a test takes; nothing if there is none.
    pub fn takes(&self, test: usize) -> Option<&BTreeSet<R>> {
        self.takes.get(test)
    }

    /// Where a test stands, if there is one.
    pub fn state(&self, test: usize) -> Option<State> {
        self.tests.get(test).map(|test| test.state)
    }

    /// Which round is under way, from 0, and how many are known: more come when tests are tried again.
    pub fn round(&self) -> (usize, usize) {
        (self.round, self.rounds.len())
    }

    /// Something was kept. What does not fit the state changes nothing: the end of a test that had ended, or that was
    /// lost before.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Began { test, epoch, until_ns } => {
                if let Some(Test { state: state @ State::Waiting, .. }) = self.tests.get_mut(test) {
                    *state = State::Running(epoch);
                    self.running.insert(epoch, (test, until_ns));
                }
            }
            Event::Ended { epoch, how } => {
                let running = self.running.remove(&epoch);
                if let Some(test) = running.and_then(|(test, _)| self.tests.get_mut(test)) {
                    test.tries = test.tries.saturating_add(u32::from(how != Ending::Cut));
                    test.state = match how {
                        Ending::Measured => State::Measured(epoch),
                        Ending::Cut => State::Again,
                        _ if test.tries > self.retries => State::GivenUp,
                        _ => State::Again,
                    };
                    self.pass();
                }
            }
        }
    }

    /// What to do next, at a time of the clock of the book.
    pub fn next(&self, now_ns: u64) -> Step {
        let over = self.running.iter().find(|(_, (_, until_ns))| *until_ns <= now_ns);
        if let Some((epoch, _)) = over {
            return Step::MarkLost(*epoch);
        }
        let Some(round) = self.rounds.get(self.round) else { return Step::Done };
        let waiting = round.iter().find(|test| self.state(**test) == Some(State::Waiting));
        match (waiting, self.running.values().map(|(_, until_ns)| *until_ns).min()) {
            (Some(test), _) => Step::Start(*test),
            (None, Some(until_ns)) => Step::Wait { until_ns },
            // No round is left behind before all of it has ended.
            (None, None) => Step::Done,
        }
    }

    /// Goes past the rounds that have ended, and makes those of what is tried again.
    fn pass(&mut self) {
        let open =
            |test: &usize| matches!(self.state(*test), Some(State::Waiting | State::Running(_)));
        let ended = |round: &&Vec<usize>| !round.iter().any(open);
        let more = self.rounds.iter().skip(self.round).take_while(ended).count();
        self.round += more;
        if self.round < self.rounds.len() {
            return;
        }
        let again: Vec<usize> =
            (0..self.tests.len()).filter(|test| self.state(*test) == Some(State::Again)).collect();
        for test in &again {
            if let Some(test) = self.tests.get_mut(*test) {
                test.state = State::Waiting;
            }
        }
        self.rounds.extend(rounds_of(&self.takes, &again));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pairs beside each other, and one that takes a host of both.
    fn three(retries: u32) -> Coordinator<&'static str> {
        let takes = [["a", "b"], ["c", "d"], ["b", "c"]].map(BTreeSet::from);
        Coordinator::new(takes.to_vec(), retries)
    }

    fn began(test: usize, epoch: u64) -> Event {
        Event::Began { test, epoch: Epoch(epoch), until_ns: epoch * 100 }
    }

    fn ended(epoch: u64, how: Ending) -> Event {
        Event::Ended { epoch: Epoch(epoch), how }
    }

    #[test]
    fn a_round_begins_when_the_one_before_has_ended() {
        let mut one = three(0);
        assert_eq!(one.next(0), Step::Start(0));
        one.take(began(0, 1));
        assert_eq!(one.next(0), Step::Start(1));
        one.take(began(1, 2));
        assert_eq!(one.next(0), Step::Wait { until_ns: 100 });
        one.take(ended(1, Ending::Measured));
        assert_eq!(one.next(0), Step::Wait { until_ns: 200 });
        one.take(ended(2, Ending::Failed));
        assert_eq!((one.next(0), one.round()), (Step::Start(2), (1, 2)));
        one.take(began(2, 3));
        assert_eq!(one.next(299), Step::Wait { until_ns: 300 });
        assert_eq!(one.next(300), Step::MarkLost(Epoch(3)));
        one.take(ended(3, Ending::Lost));
        assert_eq!(one.next(300), Step::Done);
        let states: Vec<_> = (0..4).map(|test| one.state(test)).collect();
        let measured = State::Measured(Epoch(1));
        let expected = [Some(measured), Some(State::GivenUp), Some(State::GivenUp), None];
        assert_eq!(states, expected);
    }

    #[test]
    fn what_failed_is_tried_again_after_all_others() {
        let mut one = three(1);
        for event in [began(0, 1), began(1, 2), ended(1, Ending::Lost), ended(2, Ending::Measured)]
        {
            one.take(event);
        }
        assert_eq!(one.next(0), Step::Start(2));
        one.take(began(2, 3));
        one.take(ended(3, Ending::Failed));
        // Both want b.
        assert_eq!((one.next(0), one.round()), (Step::Start(0), (2, 4)));
        one.take(began(0, 4));
        one.take(ended(4, Ending::Measured));
        assert_eq!(one.next(0), Step::Start(2));
        one.take(began(2, 5));
        one.take(ended(5, Ending::Failed));
        assert_eq!((one.next(0), one.state(2)), (Step::Done, Some(State::GivenUp)));
    }

    #[test]
    fn what_was_cut_is_no_try() {
        let mut one = three(0);
        let cut = |epoch| ended(epoch, Ending::Cut);
        for event in
            [began(0, 1), cut(1), began(1, 2), ended(2, Ending::Measured), began(2, 3), cut(3)]
        {
            one.take(event);
        }
        assert_eq!((one.next(0), one.round().0), (Step::Start(0), 2));
        for event in [began(0, 4), ended(4, Ending::Failed), began(2, 5), cut(5)] {
            one.take(event);
        }
        assert_eq!((one.state(0), one.next(0)), (Some(State::GivenUp), Step::Start(2)));
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut one = three(1);
        one.take(began(0, 1));
        one.take(began(0, 2));
        assert_eq!(one.state(0), Some(State::Running(Epoch(1))));
        one.take(ended(1, Ending::Lost));
        one.take(ended(1, Ending::Measured));
        assert_eq!(one.state(0), Some(State::Again), "too late");
        one.take(began(9, 3));
        one.take(ended(9, Ending::Measured));
        assert_eq!(one.next(0), Step::Start(1));
        assert_eq!(Coordinator::<u8>::new(vec![], 0).next(0), Step::Done);
    }
}
