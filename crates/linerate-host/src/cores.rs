//! Cores: which this process may use, and which are near an interface.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::roots::Roots;
use crate::text::cpulist;

/// The cores that the calling thread may run on, ascending: what its affinity mask, `taskset` and
/// the cgroup's cpuset leave. Empty if that cannot be known.
pub fn allowed_cores() -> Vec<u32> {
    if let Ok(set) = sched_getaffinity(Pid::from_raw(0)) {
        return (0..CpuSet::count())
            .filter(|core| set.is_set(*core).unwrap_or(false))
            .filter_map(|core| u32::try_from(core).ok())
            .collect();
    }
    // A set holds 1,024 cores, and the kernel refuses one that is too small for the host. The
    // same as text has no limit.
    let status = Roots::host().read("proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpulist::parse(list.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_run_somewhere() {
        let cores = allowed_cores();
        assert!(!cores.is_empty());
        assert!(cores.is_sorted());
    }
}
