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
        if self.names.len() < MOST_TASKS {
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
        let root = match process {
            _ if raw.pid == 0 => "idle task".to_owned(),
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
        if matches!(process, Some(Process::Other) | None) && raw.pid != 0 {
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
        // A thread of the kernel has no file, and no command line; of a program of another user the file is hidden alone.
        None => match fs::read(format!("/proc/{pid}/cmdline")) {
            Ok(words) if words.is_empty() => Process::Kernel,
            _ => Process::Other,
        },
    }
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
        assert_eq!(folded(0, 0), "idle task");
        assert_eq!(folded(4_000_000_002, 4_000_000_002), "other: ?");
    }
}
