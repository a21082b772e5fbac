//! What a server looks after while a test runs whose client says nothing meanwhile: its end by time, the
//! owner's limits, and whether somebody is there.

use std::collections::VecDeque;
use std::time::Duration;

use linerate_model::plan::Direction;
use linerate_model::served::Outcome;

use crate::ending::Early;
use crate::idle::Idle;
use crate::iperf3::server::silence_limit_ns;
use crate::rate_meter::RateMeter;
use crate::{Action, Over, Seen, TOO_LONG};

/// How often the limits are looked at, in nanoseconds.
const LOOK_EVERY_NS: u64 = 250_000_000;

/// What one test is held to. Times are nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// As the client sees it.
    pub direction: Direction,
    /// The owner's longest test.
    pub longest_ns: u64,
    /// The owner's largest rate of one direction in bit/s.
    pub most_bps: Option<u64>,
    /// A test in which nothing moves for so long ends.
    pub no_data_ns: u64,
    /// A peer whose clock or words come late has so much longer.
    pub pad_ns: u64,
    /// A count of datagrams comes, and nobody knows how many of them will: after silence it is over.
    pub ends_in_silence: bool,
}

/// A test that goes no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// It took more than the owner allows of something else than time.
    pub by_quota: bool,
    /// How it ends.
    pub early: Early,
}

/// From the start of a test to its end. Times are nanoseconds.
#[derive(Debug)]
pub struct Vigil {
    bounds: Bounds,
    began_ns: u64,
    look_ns: u64,
    /// Where time ends it.
    end_ns: Option<u64>,
    /// Until the agreed time is over, which a server outlasts: when what the host's cores do is the test's no more.
    over_ns: Option<u64>,
    meter: Option<RateMeter>,
    idle: Idle,
}

impl Vigil {
    /// Of a test that begins at `now_ns`, and that time ends at `end_ns`.
    pub fn new(bounds: Bounds, now_ns: u64, end_ns: Option<u64>) -> Self {
        Self {
            bounds,
            began_ns: now_ns,
            look_ns: now_ns,
            end_ns,
            over_ns: None,
            meter: bounds.most_bps.map(|rate| RateMeter::new(rate, now_ns)),
            idle: Idle::new(0, now_ns),
        }
    }

    /// The agreed time is over at `over_ns`, and the host's counters with it.
    pub fn over_at(self, over_ns: Option<u64>) -> Self {
        Self { over_ns, ..self }
    }

    /// How long the test has run.
    pub fn lasted_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.began_ns)
    }

    /// How long nothing has moved while this end ran, in nanoseconds.
    pub fn idle_ns(&mut self, now_ns: u64, seen: &Seen) -> u64 {
        self.idle.lasts(seen.moved, now_ns).min(seen.ran_ns)
    }

    /// When it wants to look again.
    pub fn deadline_ns(&self) -> u64 {
        [self.end_ns, self.over_ns].into_iter().flatten().fold(self.look_ns, u64::min)
    }

    /// Looks, where it is time; what is to be done goes to `actions`.
    ///
    /// # Errors
    /// The test goes no further.
    pub fn look(
        &mut self,
        now_ns: u64,
        seen: &Seen,
        actions: &mut VecDeque<Action>,
    ) -> Result<(), Broken> {
        if let Some(over) = seen.over {
            let early = Early::new(Outcome::Cut, over.words());
            return Err(Broken { by_quota: over != Over::Time, early });
        }
        if self.over_ns.is_some_and(|at| now_ns >= at) {
            self.over_ns = None;
            actions.push_back(Action::HostOver);
        }
        let drain = [Action::Stop, Action::DrainUntil(now_ns)];
        if self.end_ns.is_some_and(|at| now_ns >= at) {
            self.end_ns = None;
            actions.extend(drain.clone());
        }
        if now_ns < self.look_ns {
            return Ok(());
        }
        self.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        actions.push_back(Action::AskPeer);
        // Nobody was silent while this end did not run.
        let silence_ns = seen.data_silence_ns.min(self.lasted_ns(now_ns)).min(seen.ran_ns);
        self.hold(now_ns, seen, silence_ns)?;
        if self.bounds.ends_in_silence && silence_ns > self.bounds.pad_ns {
            actions.extend(drain);
        } else if self.idle_ns(now_ns, seen) > self.bounds.no_data_ns {
            let no_data = Duration::from_nanos(self.bounds.no_data_ns);
            return Err(cut(format!("no data moved for {no_data:?}")));
        }
        Ok(())
    }

    fn hold(&mut self, now_ns: u64, seen: &Seen, silence_ns: u64) -> Result<(), Broken> {
        if self.lasted_ns(now_ns) > self.bounds.longest_ns.saturating_add(self.bounds.pad_ns) {
            return Err(cut(TOO_LONG));
        }
        if self.meter.as_mut().is_some_and(|meter| !meter.keeps(seen.arrived, now_ns)) {
            let why = "the client sends faster than this server allows";
            return Err(Broken { by_quota: true, ..cut(why) });
        }
        let answered_ns = seen.answer_silence_ns.unwrap_or(0).min(seen.ran_ns);
        let limit_ns = silence_limit_ns(self.bounds.direction);
        if seen.peer_gone || answered_ns.min(silence_ns) > limit_ns {
            let why = "the client's host is gone, or has not answered for too long";
            return Err(Broken { by_quota: false, early: Early::vanished(why) });
        }
        Ok(())
    }
}

fn cut(why: impl Into<String>) -> Broken {
    Broken { by_quota: false, early: Early::new(Outcome::Cut, why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const BOUNDS: Bounds = Bounds {
        direction: Direction::Forward,
        longest_ns: 60 * SECOND,
        most_bps: Some(8_000_000),
        no_data_ns: 30 * SECOND,
        pad_ns: 4 * SECOND,
        ends_in_silence: false,
    };

    /// What comes of one look at `now_ns` at a test that began at 0.
    fn look(bounds: Bounds, now_ns: u64, seen: Seen) -> (Result<(), Broken>, Vec<Action>) {
        let mut actions = VecDeque::new();
        let mut vigil = Vigil::new(bounds, 0, Some(20 * SECOND));
        let looked = vigil.look(now_ns, &seen, &mut actions);
        (looked, actions.into())
    }

    fn awake() -> Seen {
        Seen { ran_ns: u64::MAX, ..Seen::default() }
    }

    #[test]
    fn each_bound_ends_a_test() {
        let (fine, actions) = look(BOUNDS, 5 * SECOND, awake());
        assert_eq!((fine, actions), (Ok(()), vec![Action::AskPeer]));
        // Its time is over: what was sent may still arrive.
        let (fine, actions) = look(BOUNDS, 20 * SECOND, awake());
        assert_eq!((fine, &actions[0]), (Ok(()), &Action::Stop));
        for (now_ns, seen, quota, outcome) in [
            (65 * SECOND, awake(), false, Outcome::Cut),
            (SECOND, Seen { arrived: 2_000_000, ..awake() }, true, Outcome::Cut),
            (SECOND, Seen { over: Some(Over::Bytes), ..awake() }, true, Outcome::Cut),
            (SECOND, Seen { over: Some(Over::Time), ..awake() }, false, Outcome::Cut),
            (SECOND, Seen { peer_gone: true, ..awake() }, false, Outcome::Vanished),
            (31 * SECOND, awake(), false, Outcome::Cut),
        ] {
            let broken = look(BOUNDS, now_ns, seen).0.expect_err("it is broken");
            assert_eq!((broken.by_quota, broken.early.outcome), (quota, outcome), "{now_ns}");
        }
    }

    #[test]
    fn nobody_is_silent_while_this_end_does_not_run() {
        let counted = Bounds { ends_in_silence: true, ..BOUNDS };
        let silent = Seen {
            data_silence_ns: u64::MAX,
            answer_silence_ns: Some(u64::MAX),
            ran_ns: SECOND,
            ..Seen::default()
        };
        // Held up for all but a second of it: neither over, nor gone, nor idle.
        let (fine, actions) = look(counted, 19 * SECOND, silent);
        assert_eq!((fine, actions), (Ok(()), vec![Action::AskPeer]));
        let late = Bounds { direction: Direction::Reverse, ..BOUNDS };
        assert_eq!(look(late, 40 * SECOND, silent).0, Ok(()));
        // It ran, and the datagrams of a count have ended.
        let (fine, actions) =
            look(counted, 5 * SECOND, Seen { data_silence_ns: u64::MAX, ..awake() });
        assert_eq!((fine, actions.len()), (Ok(()), 3));
    }
}
