//! What the kernel keeps about the calling thread.

use std::fs::File;
use std::os::unix::fs::FileExt;

use linerate_model::sample::ThreadUse;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

thread_local! {
    /// `thread-self` is the thread that opens it, so each keeps a descriptor of its own. Linux 3.17.
    static SCHEDSTAT: Option<File> = File::open("/proc/thread-self/schedstat").ok();
}

/// CPU of the calling thread since it began. The first call of a thread opens a file; each takes some
/// microseconds.
pub fn usage() -> ThreadUse {
    let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok();
    ThreadUse {
        cpu_ns: cpu.and_then(|time| u64::try_from(time.num_nanoseconds()).ok()),
        ready_ns: ready_ns(),
        sleeps: sleeps(),
        core: core(),
        others_ns: 0,
    }
}

#[cfg(not(target_os = "macos"))]
fn sleeps() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    u64::try_from(usage.voluntary_context_switches()).ok()
}

#[cfg(not(target_os = "macos"))]
fn core() -> Option<u32> {
    nix::sched::sched_getcpu().ok().and_then(|core| u32::try_from(core).ok())
}

/// Not known there, as the core is not.
#[cfg(target_os = "macos")]
fn sleeps() -> Option<u64> {
    None
}

#[cfg(target_os = "macos")]
fn core() -> Option<u32> {
    None
}

fn ready_ns() -> Option<u64> {
    // Three numbers of at most 20 digits.
    let mut text = [0; 64];
    let count = SCHEDSTAT.with(|file| file.as_ref()?.read_at(&mut text, 0).ok())?;
    parse_run_delay(std::str::from_utf8(text.get(..count)?).ok()?)
}

/// The second number of `/proc/*/schedstat`: nanoseconds of waiting on a run queue
/// (Documentation/scheduler/sched-stats.rst). Kernels without `CONFIG_SCHED_INFO` print zeros only;
/// a thread that reads this has run, so they are distinguished.
fn parse_run_delay(text: &str) -> Option<u64> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    let (_ran, delay, timeslices) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (delay > 0 || timeslices > 0).then_some(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_delay_is_the_second_number() {
        assert_eq!(parse_run_delay("92719 96393 2\n"), Some(96_393));
        assert_eq!(parse_run_delay("92719 0 2\n"), Some(0));
        assert_eq!(parse_run_delay("0 0 0\n"), None);
        for wrong in ["", "1", "1 2", "1 x 3", "1 -2 3", "1 18446744073709551616 3"] {
            assert_eq!(parse_run_delay(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_thread_that_works_ran_and_did_not_sleep() {
        let before = usage();
        let mut after = usage();
        while after.since(before).cpu_ns.unwrap() < 20_000_000 {
            after = usage();
        }
        let used = after.since(before);
        assert!(used.ready_ns.is_some(), "this kernel keeps no run delay");
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(usage().since(before).sleeps > used.sleeps);
    }

    #[test]
    fn two_threads_that_share_a_core_wait_for_each_other() {
        use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
        use nix::unistd::Pid;
        // A core that this process may use.
        let own = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let core = (0..CpuSet::count()).find(|core| own.is_set(*core).unwrap_or(false)).unwrap();
        let both = std::sync::Barrier::new(2);
        let work = || {
            let mut one = CpuSet::new();
            one.set(core).unwrap();
            sched_setaffinity(Pid::from_raw(0), &one).unwrap();
            both.wait();
            let before = usage();
            let mut used = ThreadUse::default();
            while used.cpu_ns.unwrap_or(0) < 100_000_000 {
                used = usage().since(before);
            }
            used.ready_ns.unwrap()
        };
        let waited = std::thread::scope(|scope| {
            [scope.spawn(work), scope.spawn(work)].map(|thread| thread.join().unwrap())
        });
        // Whoever is done first has shared the core for all of its 100 ms.
        assert!(waited.iter().any(|ns| *ns > 30_000_000), "{waited:?}");
    }
}
