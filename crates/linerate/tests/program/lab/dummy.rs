//! Packets per second into a device that discards them (send only), as network developers measure a
//! sender's stack: the kernel's own counter is the truth.

use linerate_lab::{Hardware, Machine};

use super::{lab, ran};
use crate::support::{list, long, machines, number};

fn packets(machine: &Machine) -> u64 {
    let text = machine.run("cat /sys/class/net/dummy0/statistics/tx_packets");
    text.trim().parse().expect("a number")
}

#[test]
#[ignore = "long"]
fn datagrams_into_a_dummy_device_equal_its_counter() {
    let _machines = machines();
    let Some(lab) = lab("datagrams_into_a_dummy_device_equal_its_counter") else { return };
    let mut a = lab.machine("a", 1, Hardware { cores: 2, ..Hardware::default() });
    a.booted();
    // No segmentation offload there, or a train of datagrams would count as one packet.
    a.run(
        "modprobe dummy numdummies=0; ip link add dummy0 type dummy
         ip link set dummy0 up
         ip address add 10.78.0.1/24 dev dummy0
         ip address add fd78::1/64 dev dummy0 nodad
         ethtool -K dummy0 tx-udp-segmentation off gso off
         sleep 1",
    );
    let seconds = if long() { 10 } else { 1 };
    for (name, to, more) in [
        ("udp4", "10.78.0.2", "--engine send"),
        ("udp4 without checksum", "10.78.0.2", "--engine send --no-checksum"),
        ("udp6", "fd78::2", "--engine send"),
        ("udp4, many a call", "10.78.0.2", "--engine mmsg"),
        ("udp4, as it likes", "10.78.0.2", ""),
    ] {
        let before = packets(&a);
        let line = format!("udp {to} --send-only -P 2 -l 64 -t {seconds}s {more}");
        let ran = ran(&a, &line);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let record = ran.record();
        assert_eq!(record["status"], "complete", "{name}: {}", record["error"]);
        let counted = packets(&a) - before;
        let sender = &record["totals"]["sender"];
        let sent = number(sender, "datagrams");
        println!("{name}: {sent} datagrams, {} per s", number_per_second(sender));
        assert!(sent > 1_000, "{name}: {sent}");
        assert_eq!(list(&record["streams"]).len(), 2, "{name}");
        assert_eq!(number(sender, "attempted"), sent + number(sender, "refused_locally"), "{name}");
        // Neighbour and router messages of IPv6 leave by the device too.
        let others = if to.contains(':') { 20 } else { 2 };
        assert!(
            (sent..=sent + others).contains(&counted),
            "{name}: sent {sent}, counted {counted}"
        );
        let told = number(sender, "host.nic_tx_packets");
        assert!(
            (sent..=sent + others).contains(&told),
            "{name}: the record says {told} of {counted}"
        );
    }
}

fn number_per_second(sender: &serde_json::Value) -> u64 {
    crate::support::real(sender, "datagrams_per_second") as u64
}
