//! The clocks of this host, and the rest of what a data thread asks of it.

pub use crate::system::{pin_to, sleep_until, wake_precisely};

/// Read several times for each batch, so nothing but the vDSO is called.
#[inline]
fn nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec, which the call fills in.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    // Fails only for clocks that do not exist; these do on every system.
    debug_assert_eq!(failed, 0);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// `CLOCK_MONOTONIC` in nanoseconds: for every span. Never steps.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanos(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_BOOTTIME` in nanoseconds: the monotonic clock and, where the system counts it, the time in which the machine was suspended.
pub fn boottime_ns() -> u64 {
    nanos(crate::system::CLOCK_BOOTTIME)
}

/// `CLOCK_REALTIME` in nanoseconds: only to place the kernel's time stamps, which are of this clock.
#[inline]
pub fn realtime_ns() -> u64 {
    nanos(libc::CLOCK_REALTIME)
}

/// The wall clock and the monotonic one, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// `CLOCK_MONOTONIC` in nanoseconds, in the middle.
    pub at_ns: u64,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, modulo 2^64.
    pub ahead_ns: u64,
    /// How long the reading took: `ahead_ns` is wrong by half of it at most.
    pub took_ns: u64,
}

impl Reading {
    /// A reading that took longer than this was interrupted.
    const LONG_NS: u64 = 1_000;

    /// Both clocks now: the quickest of up to four readings, for one that was interrupted would put
    /// arrivals too early.
    pub fn now() -> Self {
        let mut best: Option<Self> = None;
        for _ in 0..4 {
            let before = monotonic_ns();
            let wall = realtime_ns();
            let took_ns = monotonic_ns().saturating_sub(before);
            let at_ns = before + took_ns / 2;
            if best.is_none_or(|b| took_ns < b.took_ns) {
                best = Some(Self { at_ns, ahead_ns: wall.wrapping_sub(at_ns), took_ns });
            }
            if took_ns <= Self::LONG_NS {
                break;
            }
        }
        best.unwrap_or(Self { at_ns: 0, ahead_ns: 0, took_ns: u64::MAX })
    }
}

/// A time at which somebody set the wall clock.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC` before.
    ahead_ns: u64,
    /// Monotonic times between which it happened.
    since_ns: u64,
    until_ns: u64,
    /// Another was not long ago: three clocks are more than can be distinguished.
    again: bool,
}

/// Maps the kernel's wall-clock time stamps to the monotonic clock.
///
/// The two clocks differ by a constant (slewing moves both) until somebody sets the wall clock.
/// From then on the stamps of messages that were queued before are of the old setting, those of later
/// ones of the new. Each can be placed under either; the right place is before the step under the
/// old, after it under the new. Where both are possible the stamp is not used.
#[derive(Debug, Default)]
pub struct WallClock {
    reading: Option<Reading>,
    /// Latest time at which `reading` was known to hold.
    held_ns: u64,
    step: Option<Step>,
}

impl WallClock {
    /// A kernel time stamp older than this when it is read is of no known setting of the clock.
    pub const OLDEST_NS: u64 = 5_000_000_000;
    /// The distance is measured anew that often, and at once when it seems to have changed by `NEAR_NS`.
    const FRESH_NS: u64 = 1_000_000;
    const NEAR_NS: u64 = 20_000;
    /// Two readings may differ by this more than they took.
    const SLACK_NS: u64 = 1_000;

    /// Looks at the clocks. To be called after messages were received and before they are placed;
    /// `now_ns` is the monotonic time.
    pub fn look(&mut self, now_ns: u64) {
        if let Some(reading) = self.reading
            && now_ns.saturating_sub(reading.at_ns) < Self::FRESH_NS
        {
            let change = realtime_ns().wrapping_sub(now_ns).wrapping_sub(reading.ahead_ns);
            if change.cast_signed().unsigned_abs() <= Self::NEAR_NS {
                self.held_ns = now_ns;
                return;
            }
        }
        self.observe(Reading::now());
    }

    /// Takes a reading into account.
    pub fn observe(&mut self, new: Reading) {
        if let Some(old) = self.reading {
            let change = new.ahead_ns.wrapping_sub(old.ahead_ns).cast_signed().unsigned_abs();
            if change > Self::SLACK_NS.saturating_add(old.took_ns).saturating_add(new.took_ns) {
                self.step = Some(Step {
                    ahead_ns: old.ahead_ns,
                    since_ns: self.held_ns.saturating_sub(Self::NEAR_NS),
                    until_ns: new.at_ns.saturating_add(new.took_ns),
                    again: self.step_near(new.at_ns).is_some(),
                });
            }
        }
        self.held_ns = new.at_ns;
        self.reading = Some(new);
    }

    fn step_near(&self, now_ns: u64) -> Option<Step> {
        self.step.filter(|step| now_ns.saturating_sub(step.until_ns) < Self::OLDEST_NS)
    }

    /// A kernel's stamp on the monotonic clock; `None` when it cannot be seen where it belongs, or
    /// belongs in the future or to more than [`WallClock::OLDEST_NS`] ago. `now_ns` is the time given to
    /// the last look.
    #[inline]
    pub fn place(&self, stamp_ns: u64, now_ns: u64) -> Option<u64> {
        let under = |ahead_ns: u64| {
            let at = stamp_ns.wrapping_sub(ahead_ns);
            (at <= now_ns && now_ns - at < Self::OLDEST_NS).then_some(at)
        };
        let new = under(self.reading?.ahead_ns);
        let Some(step) = self.step_near(now_ns) else { return new };
        if step.again {
            return None;
        }
        let new = new.filter(|at| *at >= step.since_ns);
        let old = under(step.ahead_ns).filter(|at| *at <= step.until_ns);
        match (old, new) {
            (Some(at), None) | (None, Some(at)) => Some(at),
            _ => None,
        }
    }
}

/// CPU time of this process in user mode and in the kernel, getrusage(2), in nanoseconds.
pub fn process_cpu_ns() -> (u64, u64) {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return (0, 0) };
    let ns = |time: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_usec()).unwrap_or(0) * 1_000
    };
    (ns(usage.user_time()), ns(usage.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const AHEAD: u64 = 1_700_000_000_000_000_000;

    fn reading(at_ns: u64, ahead_ns: u64) -> Reading {
        Reading { at_ns, ahead_ns, took_ns: 60 }
    }

    /// Looks at 10 s and, after the clock was set at 10.0005 s, at 10.001 s.
    fn set_by(step_ns: i64) -> (WallClock, u64) {
        let mut clock = WallClock::default();
        clock.observe(reading(10_000_000_000, AHEAD));
        let after = AHEAD.wrapping_add_signed(step_ns);
        clock.observe(reading(10_001_000_000, after));
        (clock, after)
    }

    #[test]
    fn stamps_of_before_and_after_a_step_are_placed_where_they_belong() {
        for step in [-3_600, -5, 1, 5, 3_600] {
            let (clock, after) = set_by(step * SECOND);
            // Queued before the step and read after it.
            let (at, now) = (9_999_000_000, 10_001_500_000);
            assert_eq!(clock.place(AHEAD + at, now), Some(at), "{step}");
            let (at, now) = (10_001_200_000, 10_001_500_000);
            assert_eq!(clock.place(after + at, now), Some(at), "{step}");
            // Long after, when no message of before can be left.
            let (at, now) = (29_000_000_000, 29_000_001_000);
            assert_eq!(clock.place(after + at, now), Some(at), "{step}");
        }
    }

    #[test]
    fn a_stamp_that_fits_both_settings_is_not_used() {
        // Set back by 1 s: what came half a second after the step may have been queued half a second
        // before it, as far as the stamp shows.
        let (clock, after) = set_by(-SECOND);
        let (at, now) = (10_500_000_000, 10_500_100_000);
        assert_eq!(clock.place(after + at, now), None);
        // No longer when a second has passed.
        let (at, now) = (11_002_000_000, 11_002_100_000);
        assert_eq!(clock.place(after + at, now), Some(at));
    }

    #[test]
    fn two_steps_leave_stamps_unused_until_they_are_over() {
        let (mut clock, after) = set_by(3_600 * SECOND);
        clock.observe(reading(11_000_000_000, AHEAD));
        assert_eq!(clock.place(AHEAD + 11_500_000_000, 11_500_001_000), None);
        assert_eq!(clock.place(after + 10_500_000_000, 11_500_001_000), None);
        let at = 16_100_000_000;
        assert_eq!(clock.place(AHEAD + at, at + 1_000), Some(at));
    }

    #[test]
    fn a_slow_reading_is_no_step() {
        let mut clock = WallClock::default();
        clock.observe(reading(10_000_000_000, AHEAD));
        clock.observe(Reading {
            at_ns: 10_002_000_000,
            ahead_ns: AHEAD + 300_000,
            took_ns: 700_000,
        });
        assert!(clock.step.is_none());
        // Stamps of the future and of long ago fit no setting.
        assert_eq!(clock.place(AHEAD + 20_000_000_000, 10_003_000_000), None);
        assert_eq!(clock.place(AHEAD + 1_000_000_000, 10_003_000_000), None);
        assert_eq!(WallClock::default().place(AHEAD, 1), None);
    }

    #[test]
    fn the_clocks_of_this_host_agree() {
        let mut clock = WallClock::default();
        for _ in 0..1_000 {
            let stamp = realtime_ns();
            let now = monotonic_ns();
            clock.look(now);
            let now = monotonic_ns();
            let at = clock.place(stamp, now);
            // Unless this thread was stopped for long just there, which another try shows.
            if at.is_some_and(|at| now - at < 100_000) {
                return;
            }
        }
        panic!("no stamp of now is placed at now: {clock:?}");
    }
}
