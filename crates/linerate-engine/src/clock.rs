//! The clocks of this host, and the rest of what a data thread asks of it.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;

fn nanos(clock: ClockId) -> u64 {
    // Fails only for clocks that do not exist; these do on every Linux.
    let Ok(time) = clock_gettime(clock) else { return 0 };
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec()).unwrap_or(0))
}

/// `CLOCK_MONOTONIC` in nanoseconds: for every span. Never steps.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanos(ClockId::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` in nanoseconds: only to place the kernel's time stamps, which are of this clock.
#[inline]
pub fn realtime_ns() -> u64 {
    nanos(ClockId::CLOCK_REALTIME)
}

/// Maps the kernel's wall-clock time stamps to the monotonic clock.
///
/// The two clocks differ by a constant between steps of the wall clock (slewing moves both), so the
/// distance is read afresh at most once a millisecond. Each reading is bracketed: one that was
/// interrupted would put a whole batch of arrivals too early.
#[derive(Debug, Default)]
pub struct WallClock {
    ahead_ns: u64,
    read_at_ns: Option<u64>,
}

impl WallClock {
    /// A reading that took longer than this was interrupted.
    const BRACKET_NS: u64 = 1_000;
    const FRESH_NS: u64 = 1_000_000;

    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, modulo 2^64, as of `now_ns`.
    pub fn ahead_ns(&mut self, now_ns: u64) -> u64 {
        if self.read_at_ns.is_some_and(|at| now_ns.saturating_sub(at) < Self::FRESH_NS) {
            return self.ahead_ns;
        }
        let mut best = u64::MAX;
        for _ in 0..4 {
            let before = monotonic_ns();
            let wall = realtime_ns();
            let bracket = monotonic_ns().saturating_sub(before);
            if bracket < best {
                best = bracket;
                self.ahead_ns = wall.wrapping_sub(before + bracket / 2);
            }
            if bracket <= Self::BRACKET_NS {
                break;
            }
        }
        self.read_at_ns = Some(now_ns);
        self.ahead_ns
    }
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanos(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The core the calling thread runs on now.
pub fn current_core() -> u32 {
    nix::sched::sched_getcpu().ok().and_then(|core| u32::try_from(core).ok()).unwrap_or(0)
}

/// Sleeps until `monotonic_ns()` reaches `at_ns`; returns early on a signal.
pub fn sleep_until(at_ns: u64) {
    let seconds = i64::try_from(at_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let rest = i64::try_from(at_ns % 1_000_000_000).unwrap_or(0);
    let until = nix::sys::time::TimeSpec::new(seconds, rest);
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &until);
}

/// Binds the calling thread to one core.
///
/// # Errors
/// `EINVAL` when there is no such core or the process may not use it.
pub fn pin_to(core: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core as usize)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Lets the kernel wake the calling thread without the 50 us of slack that it may add to save
/// power (`PR_SET_TIMERSLACK`, prctl(2)).
pub fn wake_precisely() {
    let _ = nix::sys::prctl::set_timerslack(1);
}
