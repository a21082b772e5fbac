//! Loss, duplicates, order, delay and rate that another kernel's queues make.

use linerate_lab::{Hardware, Machine};
use serde_json::Value;

use super::wire::Wire;
use super::{lab, record, serve, two};
use crate::support::{list, long, machines, number, pressure, real, skip_busy};

/// Bytes of payload of the test's datagrams, and the length of the IPv4 packets that netem gets by
/// that: hellos and control pass it by.
const BYTES: usize = 1_000;
const IP_LENGTH: &str = "0x0404";

/// Sends only the test's datagrams through netem, so that its counters are theirs.
fn netem(machine: &Machine, what: &str) {
    machine.run(&format!(
        "tc qdisc del dev eth0 root 2>/dev/null
         set -e
         tc qdisc add dev eth0 root handle 1: prio bands 4
         tc qdisc add dev eth0 parent 1:4 handle 40: netem {what}
         tc filter add dev eth0 parent 1: protocol ip u32 match u16 {IP_LENGTH} 0xffff at 2 flowid 1:4"
    ));
}

/// Packets that netem passed on and dropped.
fn counts(machine: &Machine) -> (u64, u64) {
    let all: Value =
        serde_json::from_str(&machine.run("tc -s -j qdisc show dev eth0")).expect("JSON");
    let found = list(&all).iter().find(|q| q["kind"] == "netem").expect("netem");
    (number(found, "packets"), number(found, "drops"))
}

#[test]
#[ignore = "long"]
fn loss_duplicates_and_swaps_of_netem_are_told_apart() {
    let test = "loss_duplicates_and_swaps_of_netem_are_told_apart";
    let _machines = machines();
    let Some(lab) = lab(test) else { return };
    let (a, b) = two(&lab, Hardware::default());
    serve(&b);
    let sent = if long() { 20_000 } else { 4_000 };
    for what in [
        "loss 3% limit 100000",
        "loss 2% duplicate 2% limit 100000",
        "delay 20ms reorder 25% 50% limit 100000",
        "delay 10ms 5ms loss 1% duplicate 1% limit 100000",
    ] {
        netem(&a, what);
        let wire = Wire::watch(&lab, 2, BYTES);
        let line = format!("udp {} -k {sent} -l {BYTES} -b 2kpps --engine mmsg", b.ipv4());
        let record = record(&a, &line);
        let truth = wire.truth(sent);
        let (passed, dropped) = counts(&a);
        println!("{what}: {truth:?}, netem passed {passed} and dropped {dropped}");
        assert_eq!(truth.datagrams, passed, "the wire and netem disagree");
        let receiver = &record["totals"]["receiver"];
        // What the machine itself could not take in time is its loss, not netem's.
        let own = number(receiver, "dropped_receiver");
        assert_eq!(number(receiver, "lost"), truth.lost + own, "{what}");
        assert_eq!(number(receiver, "lost_path"), truth.lost, "{what}");
        if own == 0 {
            assert_eq!(number(receiver, "duplicates"), truth.duplicates, "{what}");
            assert_eq!(number(receiver, "reordered"), truth.reordered, "{what}");
        } else {
            println!("{what}: the machine dropped {own}, so copies and order are not judged");
        }
        assert_eq!(number(&record["totals"]["sender"], "datagrams"), sent);
        // netem did what it was told, so that this proves something.
        assert_eq!(truth.lost > 0, what.contains("loss"), "{truth:?}");
        assert_eq!(truth.duplicates > 0, what.contains("duplicate"), "{truth:?}");
        assert_eq!(truth.reordered > 0, what.contains("delay"), "{truth:?}");
        if !what.contains("duplicate") {
            assert_eq!(truth.lost, dropped, "the wire and netem disagree");
        }
    }
}

#[test]
#[ignore = "long"]
fn jitter_and_delay_are_what_netem_makes() {
    let test = "jitter_and_delay_are_what_netem_makes";
    let _machines = machines();
    let Some(lab) = lab(test) else { return };
    let (a, b) = two(&lab, Hardware::default());
    serve(&b);
    // Uniform in 10 ms +- 2 ms, one datagram each 5 ms, so that none overtakes another.
    // An emulated machine's own latency, some tenths of a millisecond above its least, adds to all.
    netem(&a, "delay 10ms 2ms limit 10000");
    let half_width = 0.002;
    let datagrams = 1_000;
    let line =
        format!("udp {} -k {datagrams} -l {BYTES} -b 200pps --engine send -i 50ms", b.ipv4());
    let (record, busy) = pressure(|| record(&a, &line));
    let receiver = &record["totals"]["receiver"];
    assert_eq!(number(receiver, "datagrams"), datagrams);
    // 5 ms apart and at most 4 ms more delay: whatever overtakes another was sent to catch up,
    // by a machine that the emulation kept from its timer. Its delays are not netem's alone.
    let reordered = number(receiver, "reordered");
    let disturbed = busy > 0.2 || reordered > 0;
    // Jitter forgets within some 16 datagrams; its mean over the test is that of |D|. The first
    // intervals still remember its start at 0, the last may have no arrival.
    let jitters: Vec<f64> = list(&record["intervals"])
        .iter()
        .skip(5)
        .filter_map(|interval| interval["receiver"]["jitter_s"].as_f64())
        .collect();
    assert!(jitters.len() > 50, "{} intervals have a jitter", jitters.len());
    let jitter = jitters.iter().sum::<f64>() / jitters.len() as f64;
    // The difference of two independent delays is triangular over +-2a: its mean size is 2a/3.
    let error = jitter / (2.0 * half_width / 3.0) - 1.0;
    let middle = real(receiver, "delay_variation_s.p50") / half_width - 1.0;
    let high = real(receiver, "delay_variation_s.p90") / (1.8 * half_width) - 1.0;
    println!(
        "jitter {:.4} ms ({:+.1} %), delay variation p50 {:+.1} %, p90 {:+.1} %, host pressure {:.0} %",
        jitter * 1e3,
        error * 100.0,
        middle * 100.0,
        high * 100.0,
        busy * 100.0
    );
    // The standard error of the mean is 1.6 % at 1,000 datagrams; a host's own noise adds.
    if (-0.06..0.12).contains(&error) && middle.abs() < 0.25 && high.abs() < 0.15 {
        return;
    }
    assert!(error > -0.1, "noise can only add to jitter");
    assert!(disturbed, "jitter is wrong by {:.1} % on an idle host", error * 100.0);
    skip_busy(test, "not judged: this host was busy (PSI), which adds to every delay");
}

#[test]
#[ignore = "long"]
fn fq_paces_tcp_as_asked() {
    let test = "fq_paces_tcp_as_asked";
    let _machines = machines();
    let Some(lab) = lab(test) else { return };
    let (a, b) = two(&lab, Hardware::default());
    serve(&b);
    a.run("tc qdisc replace dev eth0 root fq");
    for rate in [5_000_000.0, 20_000_000.0] {
        let before = number_of(&a, "tx_bytes");
        let line = format!("tcp {} --rate {rate} -t 4s -i 500ms", b.ipv4());
        let (record, busy) = pressure(|| record(&a, &line));
        let on_wire = number_of(&a, "tx_bytes") - before;
        let receiver = &record["totals"]["receiver"];
        let bytes = number(receiver, "bytes");
        let received = real(receiver, "bits_per_second");
        println!("asked {rate}, received {received:.0}, {on_wire} bytes sent, pressure {busy:.2}");
        // Nothing was counted that was not sent: payload is at least 90 % of what the card sent.
        assert!(bytes <= on_wire && bytes as f64 > 0.9 * on_wire as f64);
        // TCP tells fq when each segment may leave, by its payload (net/ipv4/tcp_output.c).
        let error = received / rate - 1.0;
        if error.abs() < 0.02 {
            continue;
        }
        assert!(busy > 0.2, "received {received:.0} of {rate} on an idle host");
        assert!(error < 0.05, "a busy host is slower, not faster: {received:.0} of {rate}");
        return skip_busy(test, "not judged: this host was busy (PSI)");
    }
    assert!(a.run("tc -s qdisc show dev eth0").contains("throttled"), "fq did not pace");
}

fn number_of(machine: &Machine, counter: &str) -> u64 {
    let text = machine.run(&format!("cat /sys/class/net/eth0/statistics/{counter}"));
    text.trim().parse().expect("a number")
}
