//! A host whose card is set badly, where the card has a driver, interrupts, a ring and a NUMA node of its own. No driver of
//! frequencies finds anything to drive in a virtual machine, so that governors stay made up (`linerate-doctor/tests/known.rs`).

use std::time::Duration;

use linerate_lab::{Hardware, Lab, Machine};
use serde_json::{Value, json};

use super::{lab, record};
use crate::doctor::{document, grave};
use crate::support::{Ran, Server, list, machines, number, pressure, skip_busy};

/// Sends all interrupts of the card to one core.
fn interrupts_to(core: u32) -> String {
    format!(
        "for i in $(ls /sys/class/net/eth0/device/../msi_irqs); do
             echo {core} >/proc/irq/$i/smp_affinity_list || exit 1
         done"
    )
}

/// What the doctor, started behind `before`, says of a machine for 10 Gbit/s by the interface of its default route.
fn doctor(machine: &Machine, before: &str) -> Value {
    let line = format!("{before} linerate doctor --rate 10G --json");
    let done = machine.try_run(&line, Duration::from_secs(120));
    let done = done.unwrap_or_else(|why| panic!("{line}: {why:?}"));
    document(&Ran { code: done.code, out: done.out, err: done.err })
}

#[test]
#[ignore = "long"]
fn a_bad_ring_bad_interrupts_and_a_far_node_are_found() {
    let test = "a_bad_ring_bad_interrupts_and_a_far_node_are_found";
    let _machines = machines();
    let Some(lab) = lab(test) else { return };
    let hardware = Hardware { cores: 2, memory_mib: 384, nodes: 2, ..Hardware::default() };
    let mut a = lab.machine("a", 1, hardware);
    a.booted();
    // Buffers are enough for the goal, and each interrupt has come once or more.
    a.run(
        "ip route add default via 10.77.0.254
         ping -c 1 -W 20 10.77.0.254
         sysctl -qw net.core.rmem_max=67108864 net.core.wmem_max=67108864",
    );
    // The kernel sends what is of a node to its cores, of which there is one: first this is mended.
    for (bad, before, id, severity) in [
        (&*interrupts_to(1), "", "nic.irq-one-core", "warning"),
        ("ethtool -G eth0 rx 128", "", "nic.ring", "warning"),
        ("sysctl -qw net.core.rmem_max=65536", "", "buffers.rmem-max", "problem"),
        // On core 0 alone.
        ("true", "taskset 1", "nic.numa", "warning"),
    ] {
        a.run(bad);
        let found = doctor(&a, before);
        assert_eq!(grave(&found), [(id, "client", severity)], "{found:#}");
        if before.is_empty() {
            let finding = list(&found["findings"]).iter().find(|finding| finding["id"] == id);
            a.run(finding.expect("found")["change"][0].as_str().expect("a command"));
        }
    }
    let healthy = doctor(&a, "");
    assert_eq!(grave(&healthy), [], "{healthy:#}");
    let (device, cpu) = (&healthy["here"]["device"], &healthy["here"]["cpu"]);
    assert_eq!(device["numa_node"]["known"], 1, "{device:#}");
    assert_eq!(list(&device["interrupts"]["known"]).len(), 3, "{device:#}");
    assert_eq!(cpu["governors"]["known"], json!([]), "{cpu:#}");
    a_thread_on_the_core_of_the_interrupts_is_named(&lab, &a, test);
}

/// They have come to core 1 since the machine was booted; now they go to core 0.
fn a_thread_on_the_core_of_the_interrupts_is_named(lab: &Lab, a: &Machine, test: &str) {
    a.run(&interrupts_to(0));
    let _server = Server::on_port(Some(lab.space()), 5201, &[]);
    for (option, core) in [("--cpu 0", 0), ("", 1)] {
        let line = format!("udp 10.77.0.254 -b max -l 64 --engine send -t 2s {option}");
        let (record, busy) = pressure(|| record(a, &line));
        let nic = &record["client"]["nic"];
        let cpu = &record["totals"]["sender"]["cpu"];
        println!("{option}: {nic}, {cpu}, pressure {busy:.2}, {}", record["verdict"]);
        if nic.is_null() {
            return skip_busy(test, "not judged: the kernel did not name the interface in time");
        }
        assert_eq!(nic["irq_cores"], json!([0]), "{nic}");
        // Unasked it keeps away from them.
        assert_eq!(number(cpu, "core"), core, "{cpu}");
        let advice = record["verdict"]["advice"].to_string();
        let named = advice.contains("--cpu 1 (core 0 also takes the NIC's interrupts)");
        let limit = record["verdict"]["limit"].as_str().unwrap_or_default();
        let lacked_cpu = ["sender-cpu", "other-work"].contains(&limit);
        let made = core != 0 || (lacked_cpu && list(&cpu["idle_cores"]).contains(&json!(1)));
        if made {
            assert_eq!(named, core == 0, "{}", record["verdict"]);
        } else {
            assert!(busy > 0.2, "translated code sends slower than this host takes");
            skip_busy(test, "advice is not judged: this host was busy (PSI)");
        }
    }
}
