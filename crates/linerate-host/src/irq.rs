//! Which lines of /proc/interrupts are an interface's, and which cores they go to.

use linerate_model::doctor::InterruptDetails;
use linerate_model::setting::is_interface_name;

use crate::roots::Roots;
use crate::settings::files;
use crate::text::{cpulist, interrupts};

/// How an interface's interrupts are distinguished from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NicIrqs {
    /// Interrupt numbers of its device, where it has message-signalled ones.
    numbers: Vec<u32>,
    /// Names that its drivers' handlers may bear: of the interface and of its device.
    names: Vec<String>,
}

impl NicIrqs {
    /// Of an interface, and of those below it for a bond, a bridge or a VLAN.
    pub(crate) fn of(roots: &Roots, nic: &str) -> Self {
        let mut irqs = Self::default();
        irqs.add(roots, nic, 0);
        irqs
    }

    /// The numbers of its message-signalled interrupts.
    pub(crate) fn message_signalled(&self) -> &[u32] {
        &self.numbers
    }

    fn add(&mut self, roots: &Roots, nic: &str, depth: usize) {
        // A VLAN over a bond over a card is three; more would be a loop in the files.
        if depth > 3 || !is_interface_name(nic) {
            return;
        }
        let interface = format!("sys/class/net/{nic}");
        if let Ok(entries) = roots.path(&interface).read_dir() {
            for entry in entries.flatten() {
                let name = entry.file_name();
                if let Some(lower) = name.to_str().and_then(|name| name.strip_prefix("lower_")) {
                    self.add(roots, lower, depth.saturating_add(1));
                }
            }
        }
        // Without a device it has none of its own. In a container its name may be that of a card of the host's, whose
        // interrupts all see.
        let Some(device) = device_directory(roots, nic) else { return };
        let mut numbers = irq_numbers(roots, &format!("{device}/msi_irqs"));
        // A directory has no order; where they are spread over cores, it is always in the same.
        numbers.sort_unstable();
        if numbers.is_empty() {
            let target = roots.path(&format!("{interface}/device")).read_link();
            let target = target.ok().and_then(|to| Some(to.file_name()?.to_str()?.to_owned()));
            self.names.extend(target);
            self.names.push(nic.to_owned());
        }
        self.numbers.extend(numbers);
    }

    /// Counts since boot, of the cores on line.
    pub(crate) fn counts(&self, text: &str) -> interrupts::Counts {
        interrupts::parse(text, |irq, handlers| {
            self.numbers.contains(&irq)
                || self.names.iter().any(|name| contains_name(handlers, name))
        })
    }

    /// Cores that take them now, ascending. What was counted elsewhere before an interrupt was moved says nothing of it.
    pub(crate) fn cores_now(&self, roots: &Roots) -> Vec<u32> {
        let Some(text) = roots.read("proc/interrupts") else { return Vec::new() };
        let now = |irq| match placed(roots, irq) {
            Ok(Some(InterruptDetails { effective: Some(cores), .. })) => cores,
            Ok(Some(InterruptDetails { cores, .. })) if cores.len() == 1 => cores,
            _ => Vec::new(),
        };
        main_cores(&self.counts(&text).since_boot(now))
    }
}

/// Where an interrupt goes. Nothing of one that no driver has asked for: it has a number and no files.
pub(crate) fn placed(roots: &Roots, irq: u32) -> Result<Option<InterruptDetails>, String> {
    let list = |name: &str| files::words(roots, &format!("proc/irq/{irq}/{name}_affinity_list"));
    let Some(cores) = list("smp")?.map(|list| cpulist::parse(&list)) else { return Ok(None) };
    let effective = list("effective").ok().flatten().map(|list| cpulist::parse(&list));
    // One that was sent to other cores goes there once it comes next, and until then the kernel names the old one
    // (kernel/irq/migration.c). Empty as long as nobody has asked for it.
    let is_there = |now: &Vec<u32>| !now.is_empty() && now.iter().all(|core| cores.contains(core));
    let effective = effective.filter(is_there);
    Ok(Some(InterruptDetails { irq, cores, effective }))
}

/// The directory, without the leading `/`, of the device that an interface's interrupts and memory
/// belong to. A virtio device has neither of its own: they are those of the PCI device that
/// carries it.
fn device_directory(roots: &Roots, nic: &str) -> Option<String> {
    if !is_interface_name(nic) {
        return None;
    }
    let device = format!("sys/class/net/{nic}/device");
    if !roots.path(&device).exists() {
        return None;
    }
    let bus = roots.path(&format!("{device}/subsystem")).read_link().ok();
    let virtio = bus.is_some_and(|bus| bus.file_name().is_some_and(|name| name == "virtio"));
    Some(if virtio { format!("{device}/..") } else { device })
}

/// Cores with at least a twentieth of the busiest core's count, ascending. Less than that is what
/// set-up and configuration leave behind, not a queue in use.
pub(crate) fn main_cores(counts: &[(u32, u64)]) -> Vec<u32> {
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let mut cores: Vec<u32> = counts
        .iter()
        .filter(|(_, count)| *count > 0 && count.saturating_mul(20) >= most)
        .map(|(core, _)| *core)
        .collect();
    cores.sort_unstable();
    cores
}

/// The files in `msi_irqs` are named by the interrupts' numbers.
fn irq_numbers(roots: &Roots, directory: &str) -> Vec<u32> {
    let Ok(entries) = roots.path(directory).read_dir() else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a handler's text has the name as a word of its own: `eth1` is in `i40e-eth1-TxRx-0`,
/// but neither in `eth10-rx` nor in `veth1`.
fn contains_name(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = at.checked_add(name.len()).and_then(|end| text.get(end..)?.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn an_interrupt_is_where_it_was_sent_and_not_where_it_was() {
        let root = Scratch::new();
        let to = |irq: u32, cores: &str, effective: &str| {
            root.file(&format!("proc/irq/{irq}/smp_affinity_list"), &format!("{cores}\n"));
            root.file(
                &format!("proc/irq/{irq}/effective_affinity_list"),
                &format!("{effective}\n"),
            );
        };
        root.file(
            "proc/interrupts",
            "CPU0 CPU1 CPU2\n 40: 5 0 900 x\n 41: 0 0 800 x\n 42: 0 0 0 x\n",
        );
        for irq in 40..=43 {
            root.file(&format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix\n");
        }
        let roots = root.roots();
        let own = NicIrqs::of(&roots, "eth0");
        // A kernel that tells nothing leaves what was counted.
        assert_eq!(own.cores_now(&roots), [2]);
        to(40, "0-2", "1");
        to(41, "0-2", "2");
        assert_eq!(own.cores_now(&roots), [1, 2]);
        // Sent to core 0, and not yet come there.
        to(40, "0", "1");
        to(41, "0", "2");
        to(42, "0-2", "");
        assert_eq!(own.cores_now(&roots), [0]);
        let placed = |irq| placed(&roots, irq).unwrap();
        assert_eq!(placed(40).unwrap().effective, None);
        assert_eq!(placed(42).unwrap().cores, [0, 1, 2]);
        assert_eq!(placed(43), None, "nobody asked for it");
    }

    #[test]
    fn a_name_is_a_whole_word() {
        for yes in ["eth1", "1-edge  i40e-eth1-TxRx-0", "eth10 eth1"] {
            assert!(contains_name(yes, "eth1"), "{yes}");
        }
        for no in ["", "eth10-rx", "veth1", "eth"] {
            assert!(!contains_name(no, "eth1"), "{no}");
        }
    }

    #[test]
    fn a_stray_interrupt_does_not_make_a_main_core() {
        assert_eq!(main_cores(&[(3, 1_000), (0, 50), (1, 49), (2, 0)]), [0, 3]);
        assert!(main_cores(&[(0, 0), (1, 0)]).is_empty());
        assert_eq!(main_cores(&[(0, u64::MAX), (1, u64::MAX)]), [0, 1]);
    }
}
