//! Whose a stack is: a thread of linerate, of the kernel, or of another program.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::addresses::{Mode, Raw};
use super::symbols::{Mapping, Symbols, mappings};

/// Different tasks whose names are kept; what comes after them is told without.
const MOST_TASKS: usize = 1 << 14;

/// The function of the kernel, by its name of today and before Linux 6.9, that all softirqs run in.
const SOFTIRQ: [&str; 2] = ["handle_softirqs_[k]", "__do_softirq_[k]"];

/// What kind of process.
#[derive(Debug, Clone)]
enum Process {
    /// linerate: this process, or another one that runs the same file, such as the server of a test on one host.
    Ours(Vec<Mapping>),
    /// A thread of the kernel.
    Kernel,
    Other,
}

/// What is known of those that were seen.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    processes: HashMap<u32, Process>,
    names: HashMap<u32, Box<str>>,
}

impl Tasks {
    /// A task of which there is a sample: what /proc has of it is read at once, since it may be gone later.
    pub fn seen(&mut self, pid: u32, tid: u32) {
        if pid == 0 || self.names.len() >= MOST_TASKS {
            return;
        }
        let name =
            || fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        self.names.entry(tid).or_insert_with(|| label(name().trim_end()));
        self.processes.entry(pid).or_insert_with(|| process(pid));
    }

    /// A task has this name from now on.
    pub fn named(&mut self, pid: u32, tid: u32, name: &[u8]) {
        // All that this PID namespace does not tell have one number.
        if pid > 0 && self.names.len() < MOST_TASKS {
            self.names.insert(tid, label(&String::from_utf8_lossy(name)));
        }
        // It may have become another program.
        if pid == tid && pid != std::process::id() {
            self.processes.remove(&pid);
        }
    }

    /// A stack with the task first and the innermost function last.
    pub fn folded(&self, raw: &Raw, symbols: &mut Symbols) -> String {
        let name = self.names.get(&raw.tid).filter(|name| !name.is_empty());
        let name = name.map_or("?", |name| &**name);
        let process = self.processes.get(&raw.pid);
        let own = raw.pid == std::process::id();
        // Programs outside of this PID namespace, as a container's, have the number of the idle task, which never leaves
        // the kernel.
        let in_kernel = || raw.addresses().all(|(mode, _)| mode == Mode::Kernel);
        let idle = raw.pid == 0 && in_kernel();
        let root = match process {
            _ if idle => "idle task".to_owned(),
            Some(Process::Ours(_)) if own => name.to_owned(),
            Some(Process::Ours(_)) => format!("linerate {}: {name}", raw.pid),
            Some(Process::Kernel) => format!("kernel: {name}"),
            Some(Process::Other) | None => format!("other: {name}"),
        };
        let mut frames: Vec<String> = Vec::new();
        let mut in_program = true;
        for (mode, address) in raw.addresses() {
            match (mode, process) {
                (Mode::Kernel, _) => frames.push(format!("{}_[k]", symbols.kernel(address))),
                // Without frame pointers what follows the innermost functions is what happened to lie in a register.
                (Mode::User, Some(Process::Ours(maps))) if in_program => {
                    match symbols.user(maps, address) {
                        Some(name) => frames.push(name.replace(';', ",")),
                        None => in_program = false,
                    }
                }
                (Mode::User | Mode::Elsewhere, _) => {}
            }
        }
        if matches!(process, Some(Process::Other) | None) && !idle {
            // Of another program what the network does while it was interrupted, and nothing of its own.
            let softirq = |name: &String| SOFTIRQ.contains(&name.as_str());
            frames.truncate(frames.iter().rposition(softirq).map_or(0, |at| at + 1));
        }
        frames.push(root);
        frames.reverse();
        frames.join(";")
    }
}

/// A name that cannot be taken for several.
fn label(name: &str) -> Box<str> {
    name.chars().map(|c| if c == ';' || c.is_control() { ' ' } else { c }).collect()
}

fn process(pid: u32) -> Process {
    let file = |path: String| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let own = pid == std::process::id();
    match file(format!("/proc/{pid}/exe")) {
        Some(exe) if own || Some(exe) == file("/proc/self/exe".to_owned()) => {
            let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            Process::Ours(mappings(&text))
        }
        Some(_) => Process::Other,
        // A thread of the kernel has none; that of another user's program is hidden, and a program that has ended has none
        // either.
        None => match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) if is_of_kernel(&stat) => Process::Kernel,
            _ => Process::Other,
        },
    }
}

/// Whether the flags in /proc/PID/stat, its ninth field, have `PF_KTHREAD` (include/linux/sched.h).
fn is_of_kernel(stat: &str) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    // The second field, the name in parentheses, may hold anything.
    let after_name = stat.rsplit_once(')').map(|(_, after)| after);
    let flags = after_name.and_then(|after| after.split_ascii_whitespace().nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & PF_KTHREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_begins_with_whose_it_is() {
        let own = std::process::id();
        let mut tasks = Tasks::default();
        tasks.seen(own, own);
        tasks.named(own, 4_000_000_001, b"send;0");
        let mut symbols = Symbols::default();
        let mut folded = |pid, tid| {
            let raw = Raw { pid, tid, chain: Box::new([u64::MAX - 511, 0x10]) };
            tasks.folded(&raw, &mut symbols)
        };
        assert_eq!(folded(own, 4_000_000_001), "send 0");
        assert_eq!(folded(4_000_000_002, 4_000_000_002), "other: ?");
    }

    #[test]
    fn programs_of_other_containers_are_not_the_idle_task() {
        const USER: u64 = u64::MAX - 511;
        let mut tasks = Tasks::default();
        tasks.seen(0, 0);
        tasks.named(0, 0, b"a name");
        let mut symbols = Symbols::default();
        // No function of the kernel lies at 1.
        let mut folded = |chain: &[u64]| {
            tasks.folded(&Raw { pid: 0, tid: 0, chain: chain.into() }, &mut symbols)
        };
        assert_eq!(folded(&[1, 1]), "idle task;[kernel]_[k];[kernel]_[k]");
        assert_eq!(folded(&[USER, 0x10]), "other: ?");
        assert_eq!(folded(&[1, USER, 0x10]), "other: ?");
    }

    #[test]
    fn a_program_that_has_ended_is_no_thread_of_the_kernel() {
        let kernel = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 5 0 0";
        assert!(is_of_kernel(kernel));
        let zombie =
            "77 (a) S 0 0 0 0 -1 2129984) Z 1 77 77 0 -1 4227084 12 0 0 0 0 0 0 0 20 0 1 0 9 0 0";
        assert!(!is_of_kernel(zombie));
        for cut in ["", "2 (kthreadd", "2 (kthreadd) S 0 0 0 0 -1", "2 (kthreadd) S 0 0 0 0 -1 x 0"]
        {
            assert!(!is_of_kernel(cut), "{cut}");
        }
        assert!(!is_of_kernel(&fs::read_to_string("/proc/self/stat").unwrap()));
    }
}
