//! Processors: what may be used of them, and how fast they wake up.

use std::collections::BTreeMap;

use linerate_model::doctor::{CpuDetails, Fact, Governor, IdleState, NumaNode};

use super::text;
use crate::cores::allowed_cores;
use crate::roots::Roots;
use crate::settings::files;
use crate::text::{cgroup, cpulist, pressure};

pub(super) fn details(roots: &Roots) -> CpuDetails {
    CpuDetails {
        allowed: Fact::Known(allowed_cores()),
        governors: governors(roots).into(),
        idle_states: idle_states(roots).into(),
        mitigations: mitigations(roots).into(),
        nodes: nodes(roots).into(),
        limit_millicores: limit(roots).into(),
        pressure_percent: text(roots, "proc/pressure/cpu")
            .and_then(|text| {
                pressure::parse_some_avg10(&text)
                    .ok_or_else(|| "/proc/pressure/cpu has no avg10".to_owned())
            })
            .into(),
    }
}

const CPU: &str = "sys/devices/system/cpu";

fn governors(roots: &Roots) -> Result<Vec<Governor>, String> {
    let mut all: BTreeMap<(String, String), Vec<u32>> = BTreeMap::new();
    for core in files::governed(roots)? {
        let name = text(roots, &files::governor(core))?.trim().to_owned();
        let driver = roots.line(&format!("{CPU}/cpu{core}/cpufreq/scaling_driver"));
        all.entry((name, driver.unwrap_or_default())).or_default().push(core);
    }
    let governor = |((name, driver), cores)| Governor { name, driver, cores };
    Ok(all.into_iter().map(governor).collect())
}

fn idle_states(roots: &Roots) -> Result<Vec<IdleState>, String> {
    let directory = format!("{CPU}/cpu0/cpuidle");
    let states = files::numbered(roots, &directory, "state")?.into_iter().map(|state| {
        let file = |name: &str| format!("{directory}/state{state}/{name}");
        let latency = text(roots, &file("latency"))?;
        Ok(IdleState {
            name: text(roots, &file("name"))?.trim().to_owned(),
            exit_latency_us: latency
                .trim()
                .parse()
                .map_err(|_| format!("/{} is no number", file("latency")))?,
            enabled: roots.number::<u64>(&file("disable")) != Some(1),
        })
    });
    states.collect()
}

/// Those that are on. The files say `Not affected`, `Vulnerable…` or `Mitigation: …`.
fn mitigations(roots: &Roots) -> Result<Vec<String>, String> {
    let directory = format!("{CPU}/vulnerabilities");
    let entries = roots.path(&directory).read_dir();
    let entries = entries.map_err(|e| format!("cannot read /{directory}: {e}"))?;
    let mut on: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let line = roots.line(&format!("{directory}/{name}"))?;
            Some(format!("{name}: {}", line.strip_prefix("Mitigation: ")?))
        })
        .collect();
    on.sort_unstable();
    Ok(on)
}

fn nodes(roots: &Roots) -> Result<Vec<NumaNode>, String> {
    let directory = "sys/devices/system/node";
    let nodes = files::numbered(roots, directory, "node")?.into_iter().map(|node| {
        let list = text(roots, &format!("{directory}/node{node}/cpulist"))?;
        Ok(NumaNode { node, cores: cpulist::parse(&list) })
    });
    nodes.collect()
}

/// The tightest limit of the groups of this process and of those above it that can be seen.
fn limit(roots: &Roots) -> Result<Option<u64>, String> {
    let groups = text(roots, "proc/self/cgroup")?;
    let mounts = text(roots, "proc/self/mountinfo")?;
    let files = cgroup::throttle_files(&groups, &mounts);
    // As behind `ip netns exec`, which mounts a /sys of its own.
    if !files.iter().any(|stat| roots.path(stat).exists()) {
        return Err("the control groups of this process cannot be seen from here".to_owned());
    }
    let limits = files.into_iter().filter_map(|stat| {
        let group = stat.strip_suffix("/cpu.stat")?;
        if let Some(max) = roots.line(&format!("{group}/cpu.max")) {
            return cgroup::parse_limit_millicores(&max);
        }
        let quota = roots.line(&format!("{group}/cpu.cfs_quota_us"))?;
        let period = roots.line(&format!("{group}/cpu.cfs_period_us"))?;
        cgroup::parse_limit_millicores(&format!("{quota} {period}"))
    });
    Ok(limits.min())
}
