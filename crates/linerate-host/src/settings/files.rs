//! Settings that are files: kernel parameters, cores of queues and interrupts, governors.

use std::fs::OpenOptions;
use std::io::{self, Write};

use linerate_model::setting::{Cores, core_list, is_interface_name};

use crate::roots::Roots;

/// The file of a kernel parameter, without the leading `/`. As in sysctl(8), a slash in the name
/// stands for a dot in an interface's name.
pub(crate) fn sysctl(name: &str) -> String {
    let path: String = name
        .chars()
        .map(|c| match c {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect();
    format!("proc/sys/{path}")
}

/// The file of what IPv6 takes for the MTU of an interface.
pub(crate) fn ipv6_mtu(device: &str) -> String {
    format!("proc/sys/net/ipv6/conf/{device}/mtu")
}

/// The parameter `name` and those that writing it may change as well: those of every interface, for
/// the ones that stand for all of them. The default congestion control becomes one that all may use, and stays so
/// when it is the default no more (`tcp_set_default_congestion_control` of net/ipv4/tcp_cong.c).
pub(crate) fn sysctl_companions(roots: &Roots, name: &str) -> Vec<String> {
    let mut all = vec![name.to_owned()];
    if name == "net.ipv4.tcp_congestion_control" {
        all.push("net.ipv4.tcp_allowed_congestion_control".to_owned());
    }
    for version in ["net.ipv4.conf.", "net.ipv6.conf."] {
        let leaf = name
            .strip_prefix(version)
            .and_then(|rest| rest.strip_prefix("all.").or_else(|| rest.strip_prefix("default.")));
        let Some(leaf) = leaf else { continue };
        let Ok(entries) = roots.path(&sysctl(version.trim_end_matches('.'))).read_dir() else {
            continue;
        };
        for interface in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok())
        {
            let companion = format!("{version}{}.{leaf}", interface.replace('.', "/"));
            if companion != name {
                all.push(companion);
            }
        }
    }
    all
}

/// The text of a file with one space between its words; nothing where there is no such file, or
/// none that has a value.
///
/// # Errors
/// When it is there and cannot be read now.
pub(crate) fn words(roots: &Roots, path: &str) -> Result<Option<String>, String> {
    match roots.try_read(path) {
        Ok(text) => Ok(Some(text.split_whitespace().collect::<Vec<_>>().join(" "))),
        Err(e) if is_absence(&e) => Ok(None),
        Err(e) => Err(format!("cannot read /{path}: {e}")),
    }
}

/// Whether an error says that there is no such file. The xps_cpus of a device with one queue exists
/// and says so when it is read (`xps_cpus_show` of net/core/net-sysfs.c).
fn is_absence(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Numbers that entries of a directory bear behind a prefix, ascending; none where there is no such
/// directory.
pub(crate) fn numbered(roots: &Roots, directory: &str, prefix: &str) -> Result<Vec<u32>, String> {
    let failed = |e: io::Error| format!("cannot read /{directory}: {e}");
    let entries = match roots.path(directory).read_dir() {
        Ok(entries) => entries,
        Err(e) if is_absence(&e) => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let number: Option<u32> =
            name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Writes a value in one call, as the kernel wants it.
pub(crate) fn write(roots: &Roots, path: &str, value: &str) -> Result<(), String> {
    let failed = |e: io::Error| format!("cannot write {value:?} to /{path}: {e}");
    OpenOptions::new()
        .write(true)
        .truncate(!roots.is_host())
        .open(roots.path(path))
        .and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()))
        .map_err(failed)
}

/// The file with the cores of a queue.
pub(crate) fn queue(device: &str, receive: bool, queue: u32) -> String {
    let (way, file) = if receive { ("rx", "rps_cpus") } else { ("tx", "xps_cpus") };
    format!("sys/class/net/{device}/queues/{way}-{queue}/{file}")
}

/// Numbers of the queues of an interface, ascending.
pub(crate) fn queues(roots: &Roots, device: &str, receive: bool) -> Result<Vec<u32>, String> {
    if !is_interface_name(device) {
        return Ok(Vec::new());
    }
    let way = if receive { "rx-" } else { "tx-" };
    numbered(roots, &format!("sys/class/net/{device}/queues"), way)
}

/// Cores that have a governor, ascending.
pub(crate) fn governed(roots: &Roots) -> Result<Vec<u32>, String> {
    let mut cores = numbered(roots, "sys/devices/system/cpu", "cpu")?;
    cores.retain(|core| roots.path(&governor(*core)).exists());
    Ok(cores)
}

/// The file of a core's governor.
pub(crate) fn governor(core: u32) -> String {
    format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor")
}

/// A mask such as `00000003,00000000` as a list of cores.
pub(crate) fn list_of_mask(mask: &str) -> Option<String> {
    let mut cores = Vec::new();
    for (group, text) in mask.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(text, 16).ok()?;
        let first = u32::try_from(group).ok()?.checked_mul(32)?;
        cores.extend(
            (0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| first.saturating_add(bit)),
        );
    }
    Some(core_list(&cores))
}

/// A list of cores as a mask, which is how queues take it.
pub(crate) fn mask_of_list(list: &str) -> Option<String> {
    let cores = Cores::parse(list)?.list;
    let groups = cores.last().map_or(1, |last| (last / 32).saturating_add(1));
    let mut masks = vec![0_u32; usize::try_from(groups).ok()?];
    for core in cores {
        let group = masks.get_mut(usize::try_from(core / 32).ok()?)?;
        *group |= 1_u32.checked_shl(core % 32)?;
    }
    let words: Vec<String> = masks.iter().rev().map(|mask| format!("{mask:08x}")).collect();
    Some(words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parameters_are_paths() {
        assert_eq!(sysctl("net.core.rmem_max"), "proc/sys/net/core/rmem_max");
        assert_eq!(
            sysctl("net.ipv4.conf.eth0/100.rp_filter"),
            "proc/sys/net/ipv4/conf/eth0.100/rp_filter"
        );
    }

    #[test]
    fn masks_are_lists_of_cores() {
        for (mask, list) in [
            ("00000000", "none"),
            ("00000003", "0-1"),
            ("00000001,80000000", "31-32"),
            ("80000000,00000000,00000001", "0,95"),
        ] {
            assert_eq!(list_of_mask(mask).as_deref(), Some(list));
            assert_eq!(mask_of_list(list).as_deref(), Some(mask));
        }
        assert_eq!(list_of_mask("3").as_deref(), Some("0-1"));
        assert_eq!(list_of_mask("x"), None);
    }
}
