//! The system around: clock, helpers, virtual machine, container.

use linerate_model::doctor::{Fact, SystemDetails};
use nix::unistd::{SysconfVar, sysconf};

use super::text;
use crate::roots::Roots;

pub(crate) fn details(roots: &Roots) -> SystemDetails {
    let running = programs(roots);
    let keepers = |names: &Vec<String>| {
        let keeps = |name: &&String| CLOCK_KEEPERS.contains(&name.as_str());
        names.iter().filter(keeps).cloned().collect()
    };
    let source = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    SystemDetails {
        clock_source: text(roots, source).map(|text| text.trim().to_owned()).into(),
        clock_keepers: running.as_ref().map(keepers).map_err(String::clone).into(),
        irqbalance: running.map(|names| names.iter().any(|name| name == "irqbalance")).into(),
        page_bytes: page_bytes().into(),
        virtual_machine: virtual_machine(roots).into(),
        container: Fact::Known(container(roots)),
    }
}

/// Programs that discipline the clock, as the kernel has their names: cut at 15 bytes.
const CLOCK_KEEPERS: &[&str] = &[
    "chronyd",
    "ntpd",
    "ntpd-rs",
    "ntp-daemon",
    "openntpd",
    "systemd-timesyn",
    "ptp4l",
    "phc2sys",
    "timemaster",
];

/// Names of the programs that can be seen running, each once.
fn programs(roots: &Roots) -> Result<Vec<String>, String> {
    let entries = roots.path("proc").read_dir().map_err(|e| format!("cannot read /proc: {e}"))?;
    // By hidepid of proc(5), or ProtectProc of systemd.
    if roots.line("proc/1/comm").is_none() {
        return Err("programs of other users are hidden from this one".to_owned());
    }
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
            roots.line(&format!("proc/{name}/comm"))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn page_bytes() -> Result<u64, String> {
    let told = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    let bytes = told.and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| "this system tells no size of a page".to_owned())
}

/// By the processor's flag, which every hypervisor of today sets; the name by DMI, where there is one.
fn virtual_machine(roots: &Roots) -> Result<Option<String>, String> {
    let info = text(roots, "proc/cpuinfo")?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags"));
    let flags = flags
        .ok_or("the processors of this architecture do not tell (/proc/cpuinfo has no flags)")?;
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Ok(None);
    }
    let dmi = |name: &str| roots.line(&format!("sys/class/dmi/id/{name}"));
    let words: Vec<String> =
        [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect();
    let kind =
        if words.is_empty() { roots.line("sys/hypervisor/type") } else { Some(words.join(" ")) };
    Ok(Some(kind.unwrap_or_else(|| "of which nothing more is told".to_owned())))
}

fn container(roots: &Roots) -> Option<String> {
    let there = |below: &str| roots.path(below).exists();
    roots
        .line("run/systemd/container")
        .or_else(|| there(".dockerenv").then(|| "docker".to_owned()))
        .or_else(|| there("run/.containerenv").then(|| "podman".to_owned()))
        .or_else(|| {
            let mounts = roots.line("proc/self/mounts")?;
            let of_layers = mounts.split(' ').skip(1).take(2).eq(["/", "overlay"]);
            of_layers.then(|| "or a live system: its root is an overlay".to_owned())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_programs_are_hidden_nobody_says_that_there_is_none() {
        let without = Roots::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captured/before"));
        let found = details(&without);
        let hidden = "programs of other users are hidden from this one";
        assert_eq!(found.clock_keepers.get().unwrap_err(), hidden);
        assert_eq!(found.irqbalance.get().unwrap_err(), hidden);
    }
}
