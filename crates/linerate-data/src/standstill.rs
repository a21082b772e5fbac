//! Whether this end itself did not run, or lost its link: it would take its peer for silent.
//!
//! Links are those that the kernel reports to have changed meanwhile; this thread looks at each beat.
//!
//! A thread of the process wakes fifty times a second while tests run. Where it did not, nothing of the process
//! ran: it was stopped (SIGSTOP, a debugger), its machine was suspended or frozen, or it got no core.

use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linerate_engine::clock;
use linerate_host::outage::Outages;
use linerate_host::roots::Roots;
use linerate_host::sampler::Throttles;
use linerate_host::{link, thread};
use linerate_model::sample::{LostLink, ThreadUse};

/// The thread wakes this often …
const BEAT: Duration = Duration::from_millis(20);
/// … and when it did not for so much longer, work and waiting for a core apart, it was stopped.
const LEAST_STOP_NS: u64 = 200_000_000;
/// After so long without a beat, whatever the reason, the peer may have taken this end for gone.
const HELD_UP_NS: u64 = 1_500_000_000;
/// Of so many beats one asks how long the cgroups were throttled, so that a stop is not taken for what was before it.
const BEATS_A_LOOK: u32 = 10;
/// What the peer did because of it shows this much later at the most.
const SHOWS_WITHIN_NS: u64 = 10_000_000_000;

/// The beats so far. Times are of the clock that goes on while a machine is suspended.
#[derive(Debug)]
struct Pulse {
    /// Tests that run; without any, nothing beats.
    watchers: usize,
    /// A thread that beats is there.
    has_thread: bool,
    beat_ns: u64,
    used: ThreadUse,
    /// All stops together.
    stopped_ns: u64,
    /// When it last ran again after it was held up, and how long it had not run.
    held_up: Option<(u64, u64)>,
}

/// Data threads ask for it: while tests run, nothing that takes its time is done under this lock.
static PULSE: Mutex<Pulse> = Mutex::new(Pulse::new());
/// Of links, while tests run. Who needs both locks takes this one first.
static OUTAGES: Mutex<Option<Outages>> = Mutex::new(None);
static WATCHED: Condvar = Condvar::new();

impl Pulse {
    const fn new() -> Self {
        let used =
            ThreadUse { cpu_ns: None, ready_ns: None, sleeps: None, core: None, others_ns: 0 };
        Self { watchers: 0, has_thread: false, beat_ns: 0, used, stopped_ns: 0, held_up: None }
    }

    /// The thread woke at `now_ns`, having used `used` since it began. Since a while before the last beat its cgroups were
    /// throttled for `throttled_ns`, of all cores added up, which does not count as waiting for a core.
    fn beat(&mut self, now_ns: u64, used: ThreadUse, throttled_ns: u64) {
        self.look(now_ns);
        let own = used.since(self.used);
        self.used = used;
        let gap_ns = now_ns.saturating_sub(self.beat_ns);
        self.beat_ns = now_ns;
        // Without them, a wait for a core would pass for a stop.
        let (Some(ran_ns), Some(ready_ns)) = (own.cpu_ns, own.ready_ns) else { return };
        let known_ns = ran_ns.saturating_add(ready_ns).saturating_add(BEAT.as_nanos() as u64);
        let stop_ns = gap_ns.saturating_sub(known_ns).saturating_sub(throttled_ns);
        if stop_ns >= LEAST_STOP_NS {
            self.stopped_ns = self.stopped_ns.saturating_add(stop_ns);
        }
    }

    /// When this end last ran again after it was held up, and for how long it was. Who asks may run before the
    /// thread does.
    fn look(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let gap_ns = now_ns.saturating_sub(self.beat_ns);
        if self.watchers > 0 && self.has_thread && gap_ns > HELD_UP_NS {
            self.held_up = Some((now_ns, gap_ns));
        }
        self.held_up
    }

    fn is_late(&self, now_ns: u64) -> bool {
        let gap_ns = now_ns.saturating_sub(self.beat_ns);
        self.watchers > 0 && self.has_thread && gap_ns > LEAST_STOP_NS
    }

    fn explained(&mut self, why: &str, now_ns: u64) -> Option<String> {
        let (at_ns, took_ns) = self.look(now_ns)?;
        (now_ns.saturating_sub(at_ns) < SHOWS_WITHIN_NS).then(|| {
            let seconds = took_ns as f64 / 1e9;
            format!("this end itself did not run for {seconds:.1} s (stopped, suspended, or without a core); then {why}")
        })
    }
}

fn pulse() -> MutexGuard<'static, Pulse> {
    PULSE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn outages() -> MutexGuard<'static, Option<Outages>> {
    OUTAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of links until `now_ns` of the clock that stands still while a machine is suspended: a span of a test
/// is no longer.
fn look_at_links<T>(now_ns: u64, ask: impl FnOnce(&mut Outages) -> T) -> Option<T> {
    let mut outages = outages();
    let outages = outages.as_mut()?;
    outages.look(now_ns);
    Some(ask(outages))
}

/// While one of these lives, stops are noticed.
#[derive(Debug)]
pub struct Watch(());

impl Watch {
    /// Begins to watch.
    pub fn start() -> Self {
        prepare();
        let mut outages = outages();
        let mut pulse = pulse();
        if pulse.watchers == 0 {
            pulse.beat_ns = clock::boottime_ns();
            // No test runs whose data threads would wait for it.
            *outages = Outages::open(clock::monotonic_ns());
        }
        pulse.watchers += 1;
        WATCHED.notify_one();
        Self(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut outages = outages();
        let mut pulse = pulse();
        pulse.watchers = pulse.watchers.saturating_sub(1);
        if pulse.watchers == 0 {
            *outages = None;
        }
    }
}

/// Starts the thread, so that a server holds as much before its first test as after it. Where there is no
/// thread to be had, nothing is claimed.
pub fn prepare() {
    let mut pulse = pulse();
    if !pulse.has_thread {
        let thread = std::thread::Builder::new().name("pulse".into());
        pulse.has_thread = thread.spawn(beat).is_ok();
    }
}

fn beat() {
    let mut throttles: Option<Throttles> = None;
    let (mut last_ns, mut beats) = (u64::MAX, 0u32);
    loop {
        let mut known = pulse();
        while known.watchers == 0 {
            // Another test may run in other groups.
            throttles = None;
            known = WATCHED.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        drop(known);
        let throttles = throttles.get_or_insert_with(|| Throttles::at(&Roots::host()));
        let (now_ns, used) = (clock::boottime_ns(), thread::usage());
        let is_late = now_ns.saturating_sub(last_ns) > LEAST_STOP_NS;
        let looks = is_late || beats.is_multiple_of(BEATS_A_LOOK);
        let throttled_ns = if looks { throttles.grown_ns() } else { 0 };
        pulse().beat(now_ns, used, throttled_ns);
        look_at_links(clock::monotonic_ns(), |_| {});
        (last_ns, beats) = (now_ns, beats.wrapping_add(1));
        std::thread::sleep(BEAT);
    }
}

/// For how long this process has been stopped while tests ran, in nanoseconds; of use as a difference only.
pub fn stopped_ns() -> u64 {
    pulse().stopped_ns
}

/// How often and for how long this interface has had no link while tests ran; of use as a difference only. `None`
/// where the kernel reports no changes.
pub fn lost_links(nic: &str) -> Option<LostLink> {
    let now_ns = clock::monotonic_ns();
    look_at_links(now_ns, |outages| outages.lost(nic, now_ns))
}

/// Whether the thread that notices stops has not run for so long that there may be one of which it does not know.
pub fn is_late() -> bool {
    pulse().is_late(clock::boottime_ns())
}

/// How long this end has run without being held up: a peer cannot have been silent for longer.
pub fn ran_for() -> Duration {
    let now_ns = clock::boottime_ns();
    pulse()
        .look(now_ns)
        .map_or(Duration::MAX, |(at_ns, _)| Duration::from_nanos(now_ns.saturating_sub(at_ns)))
}

/// Why the peer seems to be gone: what is known of this end goes first. `local` is this end's address.
pub fn explained(why: &str, local: IpAddr) -> String {
    let held_up = pulse().explained(why, clock::boottime_ns());
    let trouble = || link::trouble(local).or_else(|| was_lost(local));
    held_up.unwrap_or_else(|| match trouble() {
        Some(trouble) => format!("{why}, but {trouble}"),
        None => why.to_owned(),
    })
}

/// That the interface of `local` had no link a while ago.
fn was_lost(local: IpAddr) -> Option<String> {
    let nic = link::holder(local)?;
    let now_ns = clock::monotonic_ns();
    let (ended_ns, least_ns) = look_at_links(now_ns, |outages| outages.last(&nic))??;
    let seconds = least_ns as f64 / 1e9;
    (now_ns.saturating_sub(ended_ns) < SHOWS_WITHIN_NS).then(|| {
        format!("its own interface {nic} had lost its link, for {seconds:.2} s at the least")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn watched() -> Pulse {
        Pulse { watchers: 1, has_thread: true, ..Pulse::new() }
    }

    fn used(ran_ms: u64, ready_ms: u64) -> ThreadUse {
        ThreadUse {
            cpu_ns: Some(ran_ms * MS),
            ready_ns: Some(ready_ms * MS),
            ..ThreadUse::default()
        }
    }

    #[test]
    fn who_was_held_up_says_so_for_a_while() {
        let mut pulse = watched();
        assert_eq!(pulse.explained("silence", 1_400 * MS), None);
        let text = "this end itself did not run for 4.0 s (stopped, suspended, or without a core); then silence";
        // Asked before the thread ran again, and after.
        assert!(pulse.is_late(4_000 * MS));
        assert_eq!(pulse.explained("silence", 4_000 * MS).as_deref(), Some(text));
        pulse.beat(4_001 * MS, used(0, 0), 0);
        assert!(!pulse.is_late(4_001 * MS));
        assert_eq!(pulse.look(4_500 * MS), Some((4_001 * MS, 4_001 * MS)));
        for at in (4_020..14_100).step_by(20) {
            pulse.beat(at * MS, used(0, 0), 0);
        }
        assert_eq!(pulse.explained("silence", 14_100 * MS), None);
        // Nothing beats without a test.
        let mut idle = Pulse { watchers: 0, ..watched() };
        assert_eq!(idle.explained("silence", 60_000 * MS), None);
    }

    #[test]
    fn a_stop_is_neither_work_nor_waiting_for_a_core() {
        let mut pulse = watched();
        pulse.beat(20 * MS, used(0, 0), 0);
        // Half a second of waiting for a core is none.
        pulse.beat(540 * MS, used(1, 499), 0);
        assert_eq!(pulse.stopped_ns, 0);
        pulse.beat(1_060 * MS, used(1, 499), 0);
        assert_eq!(pulse.stopped_ns, 500 * MS);
        // Nor is it what a cgroup's limit takes, which is a sum over cores.
        pulse.beat(1_580 * MS, used(1, 499), 2_000 * MS);
        assert_eq!(pulse.stopped_ns, 500 * MS);
        // What was throttled before or beside a stop does not hide it.
        pulse.beat(5_600 * MS, used(1, 499), 400 * MS);
        assert_eq!(pulse.stopped_ns, 4_100 * MS);
        // A kernel that keeps no run delays cannot distinguish the two.
        pulse.beat(9_000 * MS, ThreadUse::default(), 0);
        assert_eq!(pulse.stopped_ns, 4_100 * MS);
    }

    #[test]
    fn an_address_of_nobody_is_named() {
        assert_eq!(explained("silence", IpAddr::from([127, 0, 0, 1])), "silence");
        let lost = explained("silence", IpAddr::from([192, 0, 2, 77]));
        assert_eq!(lost, "silence, but this host has lost its address 192.0.2.77");
    }
}
