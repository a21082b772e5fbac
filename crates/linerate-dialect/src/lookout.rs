//! What a client looks after while a test runs whose server says nothing meanwhile: whether anything moves, and
//! whether a server ends that was asked for an amount.

use linerate_model::plan::TestPlan;

use crate::Seen;
use crate::ending::Failure;
use crate::idle::Idle;
use crate::stream;

/// A test in which nothing moves for so long, or for two intervals, has no server any more, in nanoseconds …
const NO_DATA_NS: u64 = 30_000_000_000;
/// … and is looked at so often.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// From the start of a test on. Times are nanoseconds.
#[derive(Debug)]
pub(crate) struct Lookout {
    look_ns: u64,
    idle: Idle,
}

impl Lookout {
    /// Of a test that begins at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { look_ns: now_ns, idle: Idle::new(0, now_ns) }
    }

    /// When it wants to look again.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.look_ns
    }

    /// Gives a server up with which nothing moves, as its protocol has no other sign of it, or that does not end.
    /// What `moved` is a count that grows with all that does.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        (plan, seen, moved): (&TestPlan, &Seen, u64),
    ) -> Option<Failure> {
        if now_ns < self.look_ns {
            return None;
        }
        self.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        let most_ns = NO_DATA_NS.max(plan.interval.0.saturating_mul(2));
        // Nobody was silent while this end did not run.
        if self.idle.lasts(moved, now_ns).min(seen.ran_ns) > most_ns {
            return Some(Failure::Server("nothing moved for too long".into()));
        }
        stream::excess(plan, seen.received)
    }
}
