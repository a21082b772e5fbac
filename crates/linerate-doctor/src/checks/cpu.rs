//! Time and speed of the cores.

use linerate_model::doctor::Governor;
use linerate_model::doctor::Severity::{Note, Problem, Warning};
use linerate_model::setting::{SettingValue, core_list};

use crate::Check;
use crate::case::Case;
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check { id: "cpu.limit", judge: limit },
    Check { id: "cpu.throttled", judge: throttled },
    Check { id: "cpu.affinity", judge: affinity },
    Check { id: "cpu.few", judge: few },
    Check { id: "cpu.steal", judge: steal },
    Check { id: "cpu.pressure", judge: pressure },
    Check { id: "cpu.governor", judge: governor },
    Check { id: "cpu.idle-states", judge: idle_states },
    Check { id: "cpu.mitigations", judge: mitigations },
];

/// A data thread, the kernel's receiving, control and what else a host does have room in so many.
const ENOUGH_MILLICORES: u64 = 4_000;
/// As of the doubt `host-busy`: docs/cpu.md.
const STEAL_PERCENT: f64 = 5.0;
const PRESSURE_PERCENT: f64 = 20.0;
/// Longer than a train of 64 KiB takes at 10 Gbit/s, twice over.
const LONG_WAKE_UP_US: u64 = 100;

fn limit(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let Some(limit) = *case.host.cpu.limit_millicores.get()? else { return Ok(None) };
    let cores = u64::from(case.cores()?).saturating_mul(1_000);
    if limit >= cores {
        return Ok(None);
    }
    let severity = match limit {
        0..1_000 => Problem,
        1_000..ENOUGH_MILLICORES => Warning,
        _ => Note,
    };
    let words = format!("{}.{:02}", limit / 1_000, limit % 1_000 / 10);
    Ok(Some(
        found(
            severity,
            format!("control groups of this process allow {words} cores' time"),
            "once it is used up, all its threads stop until the next period, for up to a tenth of a second",
        )
        .run(
            "echo max > /sys/fs/cgroup/GROUP/cpu.max  # GROUP: /proc/self/cgroup; version 1: -1 into cpu.cfs_quota_us",
            "echo \"QUOTA PERIOD\" > /sys/fs/cgroup/GROUP/cpu.max",
        )
        .source("Documentation/scheduler/sched-bwc.rst"),
    ))
}

fn throttled(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let watched = case.host.watched.get()?;
    let Some(throttled) = watched.throttled_ms.filter(|ms| *ms > 0) else { return Ok(None) };
    Ok(Some(
        found(
            Warning,
            format!(
                "the group of this process was stopped for {throttled} ms, of all cores added up, in {} ms",
                watched.for_ms
            ),
            "its CPU limit is used up already, by others in the group or by this look itself",
        )
        .run("cat /sys/fs/cgroup/GROUP/cpu.stat  # nr_throttled grows while it is so", "")
        .source("measured while it was watched: cpu.stat of the group"),
    ))
}

fn affinity(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let allowed = case.host.cpu.allowed.get()?;
    let (cores, count) = (case.cores()?, u32::try_from(allowed.len()).unwrap_or(u32::MAX));
    if count >= cores {
        return Ok(None);
    }
    let severity = if count < 2 { Warning } else { Note };
    Ok(Some(
        found(
            severity,
            format!("this process may use the cores {} of {cores}", core_list(allowed)),
            "data threads and the kernel's receiving share what is left to them",
        )
        .run("taskset -p $$  # and the cpuset of its control group", "")
        .source("sched_setaffinity(2), cpuset(7)"),
    ))
}

fn few(case: &Case<'_>) -> Result<Option<Draft>, String> {
    if case.cores()? > 1 {
        return Ok(None);
    }
    let severity = if case.wants_gbit(10) { Warning } else { Note };
    Ok(Some(
        found(
            severity,
            "this host has one core",
            "interrupts, the kernel's receiving and the data thread take turns on it",
        )
        .source("docs/cpu.md, Placement"),
    ))
}

fn steal(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let watched = case.host.watched.get()?;
    let steal = watched.steal_percent.ok_or("no tick passed while it was watched")?;
    Ok((steal >= STEAL_PERCENT).then(|| {
        found(
            Warning,
            format!("the hypervisor took {steal:.0} % of a core's time from this host"),
            "a virtual machine does not decide when it runs: rates swing, and buffers overflow meanwhile",
        )
        .source("measured while it was watched: steal of /proc/stat")
    }))
}

fn pressure(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let pressure = *case.host.cpu.pressure_percent.get()?;
    Ok((pressure >= PRESSURE_PERCENT).then(|| {
        found(
            Warning,
            format!("tasks waited for a core {pressure:.0} % of the last 10 s"),
            "other programs want the cores that a test needs",
        )
        .run("ps -eo pid,psr,pcpu,comm --sort=-pcpu | head", "")
        .source("Documentation/accounting/psi.rst")
    }))
}

/// Drivers that choose the frequency themselves, whatever the governor is called.
const ACTIVE: &[&str] = &["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

fn governor(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let governors = case.host.cpu.governors.get()?;
    let slow = |name: &str| {
        matches!(name, "powersave" | "conservative" | "ondemand" | "schedutil" | "userspace")
    };
    let severity = |governor: &Governor| match governor.name.as_str() {
        // The lowest frequency, always.
        "powersave" if !ACTIVE.contains(&governor.driver.as_str()) => Problem,
        "conservative" | "userspace" => Warning,
        _ if case.wants_gbit(10) => Warning,
        _ => Note,
    };
    let gravest = governors.iter().filter(|g| slow(&g.name)).max_by_key(|g| severity(g));
    let Some(governor) = gravest else { return Ok(None) };
    let severity = severity(governor);
    let back: Vec<String> = governors
        .iter()
        .filter(|g| g.name != "performance")
        .map(|g| format!("cpupower -c {} frequency-set -g {}", core_list(&g.cores), g.name))
        .collect();
    Ok(Some(
        found(
            severity,
            format!("cores {} have the governor {}", core_list(&governor.cores), governor.name),
            "cores that were idle start slowly, so the first packets and low rates cost more time",
        )
        .run("cpupower frequency-set -g performance", back.join("; "))
        .set("governor", SettingValue::Text("performance".to_owned()))
        .source("Documentation/admin-guide/pm/cpufreq.rst"),
    ))
}

fn idle_states(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let states = case.host.cpu.idle_states.get()?;
    let deepest =
        states.iter().filter(|state| state.enabled).max_by_key(|state| state.exit_latency_us);
    let Some(deepest) = deepest.filter(|state| state.exit_latency_us >= LONG_WAKE_UP_US) else {
        return Ok(None);
    };
    let us = deepest.exit_latency_us;
    // By their numbers, so that what was off before stays off when this is undone.
    let deep = (0..).zip(states).filter(|(_, s)| s.enabled && s.exit_latency_us >= LONG_WAKE_UP_US);
    let deep: Vec<u32> = deep.map(|(number, _)| number).collect();
    let each = |option: &str| {
        let lines: Vec<String> =
            deep.iter().map(|state| format!("cpupower idle-set {option} {state}")).collect();
        lines.join("; ")
    };
    Ok(Some(
        found(
            Note,
            format!(
                "an idle core sleeps as deep as {}, and takes {us} µs to wake up",
                deepest.name
            ),
            "latency of single requests has it; throughput hardly",
        )
        .run(each("-d"), each("-e"))
        .source("Documentation/admin-guide/pm/cpuidle.rst"),
    ))
}

fn mitigations(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let on = case.host.cpu.mitigations.get()?;
    if on.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = on.iter().filter_map(|line| line.split(':').next()).collect();
    Ok(Some(
        found(
            Note,
            format!("mitigations of the processor's flaws are on: {}", names.join(", ")),
            "system calls and interrupts cost more; they protect this host, and should stay unless it runs nothing \
             that is not trusted",
        )
        .source("Documentation/admin-guide/hw-vuln/"),
    ))
}
