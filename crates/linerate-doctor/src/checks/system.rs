//! The clock, and what this host runs in.

use linerate_model::doctor::Severity::{Note, Problem};

use crate::Check;
use crate::case::Case;
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check { id: "clock.source", judge: clock_source },
    Check { id: "clock.sync", judge: clock_sync },
    Check { id: "system.virtual-machine", judge: virtual_machine },
    Check { id: "system.container", judge: container },
];

/// Clock sources that are read by a system call and a slow device, microseconds each.
const SLOW_CLOCKS: &[&str] = &["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];

fn clock_source(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let source = case.host.system.clock_source.get()?;
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Ok(SLOW_CLOCKS.contains(&source.as_str()).then(|| {
        found(
            Problem,
            format!("the kernel's clock is {source}"),
            "each reading of the time is a system call to a slow device: pacing and time stamps cost more than sending",
        )
        .run(format!("echo tsc > {file}  # see available_clocksource beside it"), format!("echo {source} > {file}"))
        .source("Documentation/timers/timekeeping.rst")
    }))
}

fn clock_sync(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let keepers = case.host.system.clock_keepers.get()?;
    Ok(keepers.is_empty().then(|| {
        found(
            Note,
            "no program that keeps the clock in step was seen running",
            "one-way delays hold two clocks' difference; rates and round trips do not",
        )
        .run("systemctl start chronyd, or another NTP or PTP client", "systemctl stop chronyd")
        .source("RFC 5905; a hypervisor may keep the clock without a program")
    }))
}

fn virtual_machine(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let machine = case.host.system.virtual_machine.get()?;
    Ok(machine.as_ref().map(|machine| {
        found(
            Note,
            format!("this host is a virtual machine ({machine})"),
            "its interface, its cores and its clock are shared with others, who are not seen from here",
        )
        .source("the flag hypervisor of /proc/cpuinfo; DMI")
    }))
}

fn container(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let container = case.host.system.container.get()?;
    Ok(container.as_ref().map(|container| {
        found(
            Note,
            format!("this is a container ({container})"),
            "the host's own interface, queues and limits cannot be seen from here; run the doctor there as well",
        )
        .source("/run/systemd/container, /.dockerenv, /run/.containerenv")
    }))
}
