//! Cores: which this process may use, and which are near an interface.

use crate::roots::Roots;
use crate::settings::files::numbered;
use crate::text::cpulist;

/// A core, and what it is near to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub core: u32,
    /// The cores that share its execution units (SMT), ascending; itself alone where that is not known.
    pub siblings: Vec<u32>,
    /// The package that it is in, where the kernel says it.
    pub package: Option<u32>,
    /// The NUMA node that it is of, where the kernel says it.
    pub node: Option<u32>,
}

/// The cores that the calling thread may run on, ascending, with what each is near to.
pub fn topology() -> Vec<Core> {
    topology_of(&Roots::host(), &allowed_cores())
}

fn topology_of(roots: &Roots, cores: &[u32]) -> Vec<Core> {
    let core = |core: &u32| {
        let directory = format!("sys/devices/system/cpu/cpu{core}");
        let list = roots.line(&format!("{directory}/topology/thread_siblings_list"));
        let siblings = list.map(|list| cpulist::parse(&list)).filter(|list| list.contains(core));
        Core {
            core: *core,
            siblings: siblings.unwrap_or_else(|| vec![*core]),
            package: roots.number(&format!("{directory}/topology/physical_package_id")),
            node: numbered(roots, &directory, "node").ok().and_then(|nodes| nodes.first().copied()),
        }
    };
    cores.iter().map(core).collect()
}

/// The congestion controls that this host's TCP has, as `net.ipv4.tcp_available_congestion_control` lists them.
pub fn congestion_controls() -> Vec<String> {
    let list = Roots::host().line("proc/sys/net/ipv4/tcp_available_congestion_control");
    list.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The cores that the calling thread may run on, ascending: what its affinity mask, `taskset` and
/// the cgroup's cpuset leave. Empty if that cannot be known.
pub fn allowed_cores() -> Vec<u32> {
    #[cfg(not(target_os = "macos"))]
    if let Ok(set) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) {
        use nix::sched::CpuSet;
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
    use crate::scratch::Scratch;

    #[test]
    fn this_thread_may_run_somewhere() {
        let cores = allowed_cores();
        assert!(!cores.is_empty());
        assert!(cores.is_sorted());
        assert_eq!(topology().iter().map(|c| c.core).collect::<Vec<_>>(), cores);
    }

    #[test]
    fn cores_are_near_to_others() {
        let root = Scratch::new();
        for (core, siblings, node) in [(0, "0,2", 0), (1, "1,3", 1), (2, "0,2", 0)] {
            let directory = format!("sys/devices/system/cpu/cpu{core}");
            let topology = format!("{directory}/topology");
            root.file(&format!("{topology}/thread_siblings_list"), &format!("{siblings}\n"));
            root.file(&format!("{topology}/physical_package_id"), &format!("{node}\n"));
            std::fs::create_dir(root.0.join(format!("{directory}/node{node}"))).unwrap();
        }
        let found = topology_of(&root.roots(), &[0, 1, 2, 7]);
        let near = |at: usize| (found[at].siblings.clone(), found[at].package, found[at].node);
        assert_eq!(near(0), (vec![0, 2], Some(0), Some(0)));
        assert_eq!(near(1), (vec![1, 3], Some(1), Some(1)));
        assert_eq!(near(3), (vec![7], None, None), "what is not known is not made up");
    }
}
