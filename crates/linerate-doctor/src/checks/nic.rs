//! Queues, rings and interrupts of the interface, and which cores they keep busy.

use linerate_model::doctor::Severity::{Note, Warning};
use linerate_model::doctor::{Amount, InterruptDetails};
use linerate_model::record::TestEnd;
use linerate_model::setting::{SettingValue, core_list};

use crate::Check;
use crate::case::Case;
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check { id: "nic.ring", judge: ring },
    Check { id: "nic.rx-missed", judge: rx_missed },
    Check { id: "nic.rx-dropped", judge: rx_dropped },
    Check { id: "nic.queues", judge: queues },
    Check { id: "nic.irq-one-core", judge: irq_one_core },
    Check { id: "nic.irqbalance", judge: irqbalance },
    Check { id: "nic.rps-one-core", judge: rps_one_core },
    Check { id: "nic.rps-off", judge: rps_off },
    Check { id: "nic.xps-one-core", judge: xps_one_core },
    Check { id: "nic.numa", judge: numa },
];

const SCALING: &str = "Documentation/networking/scaling.rst";
/// At 10 Gbit/s and 1,500 bytes a ring of so many packets is full in 1.2 ms.
const SMALL_RING: u32 = 1_024;

fn of<'a>(amounts: &'a [Amount], names: &[&str]) -> Option<&'a Amount> {
    names
        .iter()
        .find_map(|name| amounts.iter().find(|amount| amount.name == *name && amount.now > 0))
}

fn ring(case: &Case<'_>) -> Result<Option<Draft>, String> {
    if !case.is_card()? || !case.wants_gbit(10) {
        return Ok(None);
    }
    let Some(rx) = of(case.host.device.rings.get()?, &["rx"]) else { return Ok(None) };
    let Some(most) = rx.most.filter(|most| *most > rx.now && rx.now < SMALL_RING) else {
        return Ok(None);
    };
    Ok(Some(larger_ring(
        found(
            Warning,
            format!(
                "the receive ring of {} holds {} packets of {most}",
                case.host.interface(),
                rx.now
            ),
            format!(
                "{} of small packets fill it before a core that is busy comes back",
                case.goal_words()
            ),
        ),
        case,
        rx.now,
        most,
    )))
}

fn larger_ring(draft: Draft, case: &Case<'_>, now: u32, most: u32) -> Draft {
    let set = |entries: u32| format!("ethtool -G {} rx {entries}", case.host.interface());
    draft
        .run(set(most), set(now))
        .set("ring.rx", SettingValue::Number(u64::from(most)))
        .source("ethtool(8), -G")
}

fn rx_missed(case: &Case<'_>) -> Result<Option<Draft>, String> {
    if !case.is_card()? {
        return Ok(None);
    }
    let missed = *case.host.device.rx_missed.get()?;
    if missed == 0 {
        return Ok(None);
    }
    let draft = found(
        Note,
        format!("{} had no room for {missed} packets since it came up", case.host.interface()),
        "its ring was full: the core of its interrupts was late",
    );
    let rings = case.host.device.rings.known().map_or(&[][..], Vec::as_slice);
    Ok(Some(match of(rings, &["rx"]) {
        Some(Amount { now, most: Some(most), .. }) if most > now => {
            larger_ring(draft, case, *now, *most)
        }
        _ => draft.source("rx_missed_errors and rx_fifo_errors of the interface"),
    }))
}

fn rx_dropped(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let watched = case.host.watched.get()?;
    let Some(dropped) = watched.nic_rx_dropped.filter(|dropped| *dropped > 0) else {
        return Ok(None);
    };
    let name = case.host.interface();
    Ok(Some(
        found(
            Note,
            format!("{name} dropped {dropped} received packets in {} ms", watched.for_ms),
            "they reached this host and got no further; frames of protocols that nobody here speaks count too",
        )
        .run(format!("ethtool -S {name}  # which of its counters grow"), "")
        .source("measured while it was watched: rx_dropped of /proc/net/dev"),
    ))
}

fn queues(case: &Case<'_>) -> Result<Option<Draft>, String> {
    if !case.is_card()? {
        return Ok(None);
    }
    let Some(queues) = of(case.host.device.channels.get()?, &["combined", "rx"]) else {
        return Ok(None);
    };
    let Some(most) = queues.most.map(|most| most.min(case.cores().unwrap_or(most))) else {
        return Ok(None);
    };
    if queues.now >= most {
        return Ok(None);
    }
    let severity = if case.wants_gbit(10) { Warning } else { Note };
    let (name, kind, now) = (case.host.interface(), &queues.name, queues.now);
    let set = |count: u32| format!("ethtool -L {name} {kind} {count}");
    Ok(Some(
        found(
            severity,
            format!("{name} has {now} queues of {most} that its cores could serve"),
            "flows share fewer cores than there are",
        )
        .run(set(most), set(now))
        .set(&format!("channels.{kind}"), SettingValue::Number(u64::from(most)))
        .source(SCALING),
    ))
}

/// The one core, where several lists of cores name no other. Empty lists are left out.
fn one_core<'a>(lists: impl Iterator<Item = &'a Vec<u32>>) -> Option<u32> {
    let mut cores = lists.flatten().copied();
    let first = cores.next()?;
    cores.all(|core| core == first).then_some(first)
}

fn irq_one_core(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let interrupts = case.host.device.interrupts.get()?;
    if interrupts.len() < 2 || case.cores()? < 2 {
        return Ok(None);
    }
    // A wide mask may still mean one core: many interrupt controllers take the first of it.
    let taken = interrupts.iter().map(|i| i.effective.as_ref().unwrap_or(&i.cores));
    let Some(core) = one_core(taken) else { return Ok(None) };
    let last = case.cores()?.saturating_sub(1);
    let name = case.host.interface();
    // As the setting does it: one core for each in turn.
    let change = (0..=last).cycle().map(|core| core.to_string());
    let undo = interrupts.iter().map(|i| core_list(&i.cores));
    Ok(Some(
        found(
            Warning,
            format!("all {} interrupts of {name} go to core {core}", interrupts.len()),
            "one core handles every packet, and a data thread on it shares it",
        )
        .run(each_interrupt(interrupts, change), each_interrupt(interrupts, undo))
        .set("irq_affinity", SettingValue::Text(format!("spread 0-{last}")))
        .source("Documentation/core-api/irq/irq-affinity.rst; scaling.rst"),
    ))
}

/// Writes a list of cores for each interrupt.
fn each_interrupt(interrupts: &[InterruptDetails], lists: impl Iterator<Item = String>) -> String {
    let pairs = interrupts.iter().zip(lists).map(|(i, list)| format!("{}:{list}", i.irq));
    let pairs: Vec<String> = pairs.collect();
    let write = "echo ${i#*:} > /proc/irq/${i%:*}/smp_affinity_list";
    format!("for i in {}; do {write}; done", pairs.join(" "))
}

fn irqbalance(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let runs = *case.host.system.irqbalance.get()?;
    Ok((runs && case.is_card()? && case.wants_gbit(10)).then(|| {
        found(
            Note,
            "irqbalance runs",
            "it moves interrupts from core to core, also onto the core of a data thread, while a test runs",
        )
        .run("systemctl stop irqbalance", "systemctl start irqbalance")
        .source("irqbalance(1); scaling.rst, RSS IRQ Configuration")
    }))
}

fn rps_one_core(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let rps = case.host.device.rps.get()?;
    // Packets of a queue without RPS stay on the core of its interrupt.
    if case.cores()? < 2 || rps.iter().any(Vec::is_empty) {
        return Ok(None);
    }
    let Some(core) = one_core(rps.iter()) else { return Ok(None) };
    let name = case.host.interface();
    let set = |mask: &str| each_queue(name, "rx-$q/rps_cpus", rps, mask);
    Ok(Some(
        found(
            Warning,
            format!("RPS hands all packets of {name} to core {core}"),
            "that core does the receiving for all flows, whichever cores the interrupts go to",
        )
        .run(set("0"), set(&mask(core)))
        .set("rps", SettingValue::Text("none".to_owned()))
        .source(SCALING),
    ))
}

/// Writes a mask for each queue.
fn each_queue(name: &str, file: &str, queues: &[Vec<u32>], mask: &str) -> String {
    let numbers: Vec<String> = (0..queues.len()).map(|queue| queue.to_string()).collect();
    let path = format!("/sys/class/net/{name}/queues/{file}");
    format!("for q in {}; do echo {mask} > {path}; done", numbers.join(" "))
}

/// A core as the kernel writes masks: groups of 32 bits.
fn mask(core: u32) -> String {
    let zeros = ",00000000".repeat(usize::try_from(core / 32).unwrap_or(0));
    format!("{:x}{zeros}", 1_u32 << (core % 32))
}

/// The cores below `count` in the same form.
fn mask_below(count: u32) -> String {
    let full = usize::try_from(count / 32).unwrap_or(0);
    let first = match count % 32 {
        0 => None,
        rest => Some(format!("{:x}", (1_u32 << rest) - 1)),
    };
    first
        .into_iter()
        .chain(std::iter::repeat_n("ffffffff".to_owned(), full))
        .collect::<Vec<_>>()
        .join(",")
}

fn rps_off(case: &Case<'_>) -> Result<Option<Draft>, String> {
    if !case.is_card()? || !case.wants_gbit(5) || case.cores()? < 3 {
        return Ok(None);
    }
    let rps = case.host.device.rps.get()?;
    let [only] = &rps[..] else { return Ok(None) };
    if !only.is_empty() {
        return Ok(None);
    }
    let (name, last) = (case.host.interface(), case.cores()?.saturating_sub(1));
    let file = format!("/sys/class/net/{name}/queues/rx-0/rps_cpus");
    Ok(Some(
        found(
            Note,
            format!("{name} has one receive queue, and RPS is off"),
            "one core does the receiving for all flows; with several flows RPS spreads them",
        )
        .run(format!("echo {} > {file}", mask_below(case.cores()?)), format!("echo 0 > {file}"))
        .set("rps", SettingValue::Text(format!("0-{last}")))
        .source(SCALING),
    ))
}

fn xps_one_core(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let xps = case.host.device.xps.get()?;
    if xps.len() < 2 || case.cores()? < 2 || xps.iter().any(Vec::is_empty) {
        return Ok(None);
    }
    let Some(core) = one_core(xps.iter()) else { return Ok(None) };
    let name = case.host.interface();
    let set = |mask: &str| each_queue(name, "tx-$q/xps_cpus", xps, mask);
    Ok(Some(
        found(
            Warning,
            format!("XPS gives all {} transmit queues of {name} to core {core}", xps.len()),
            "senders on other cores choose a queue by hash, and its completions come to another core",
        )
        .run(set("0"), set(&mask(core)))
        .set("xps", SettingValue::Text("none".to_owned()))
        .source(SCALING),
    ))
}

fn numa(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let Some(node) = *case.host.device.numa_node.get()? else { return Ok(None) };
    let nodes = case.host.cpu.nodes.get()?;
    let near = nodes.iter().find(|near| near.node == node).filter(|_| nodes.len() > 1);
    let Some(near) = near.map(|near| &near.cores) else { return Ok(None) };
    let allowed = case.host.cpu.allowed.get()?;
    let reachable = near.iter().any(|core| allowed.contains(core));
    let list = core_list(near);
    let name = case.host.interface();
    let what = format!("{name} is at NUMA node {node}, whose cores are {list}");
    // `--cpu HERE/THERE`.
    let far = if case.end == TestEnd::Server { "/" } else { "" };
    Ok(Some(if reachable {
        found(
            Note,
            what,
            "data threads on other nodes' cores reach its packets through the interconnect",
        )
        .run(format!("linerate udp|tcp HOST --cpu {far}{list}"), "leave out --cpu")
        .source("Documentation/networking/scaling.rst; cited by ESnet's tuning pages")
    } else {
        found(
            Warning,
            format!("{what}; this process may use none of them"),
            "every packet crosses the interconnect between the processors",
        )
        .run(format!("taskset -c {list} linerate …, or another cpuset"), "leave out taskset")
        .source("Documentation/networking/scaling.rst; cited by ESnet's tuning pages")
    }))
}
