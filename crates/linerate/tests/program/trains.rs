//! Loss against the truth that the kernel counts, with real trains of `gso` and merging by `UDP_GRO`,
//! over IPv4 and IPv6. Errors allowed: none; where the kernel cannot say, bounds that hold.

use crate::namespaces::path;
use crate::support::{Lab, alone, dropping, list, number};
use serde_json::Value;

/// Bytes of payload.
const SIZE: u64 = 1_000;

/// Drops nothing.
const NONE: &str = "udp length 1";

/// The server's address behind the router or beside the client, and the headers in front of UDP's
/// payload.
#[derive(Clone, Copy)]
struct Family {
    routed: &'static str,
    beside: &'static str,
    headers: u64,
}

const V4: Family = Family { routed: "10.77.2.2", beside: "10.77.1.2", headers: 28 };
const V6: Family = Family { routed: "fd77:2::2", beside: "fd77:1::2", headers: 48 };

impl Family {
    /// Datagrams of `size` bytes in the packets of a counter: a train has one set of headers.
    fn datagrams(self, (packets, bytes): (u64, u64), size: u64) -> u64 {
        let payload = bytes - packets * self.headers;
        assert_eq!(payload % size, 0, "{packets} packets, {bytes} bytes");
        payload / size
    }
}

fn udp(lab: &Lab, server: &str, line: &str) -> Value {
    lab.client("udp", server, line).complete()
}

/// Drops of receiving sockets in `b`, in messages.
fn socket_drops(lab: &Lab) -> u64 {
    lab.snmp("b", "Udp", "RcvbufErrors") + lab.snmp6("b", "Udp6RcvbufErrors")
}

/// The trains were what the test is about.
fn sent_in_trains(record: &Value, at_least: u64) {
    assert_eq!(record["agreed"]["engine"], "gso", "{}", record["doubts"]);
    assert!(number(record, "agreed.train_datagrams") >= at_least, "{}", record["agreed"]);
}

/// Each datagram of a train is a packet of its own on the path, and may be lost alone.
#[test]
#[ignore = "long"]
fn loss_inside_trains_equals_the_counter() {
    let _alone = alone();
    if !Lab::possible("loss_inside_trains_equals_the_counter") {
        return;
    }
    let lab = Lab::routed().v6();
    let _server = lab.serve();
    const TRAINS: &str = "--engine gso --burst 1ms -b 200M";
    for (merging, family, options) in [
        ("off", V4, TRAINS),
        ("off", V6, "--engine mmsg -b 200M"),
        ("off", V6, "--engine send -b 100M"),
        ("on", V4, TRAINS),
        ("on", V6, TRAINS),
    ] {
        lab.run("b", &format!("ethtool -K eth0 gro {merging}"));
        lab.nft("r", &dropping("numgen random mod 1000 < 20"));
        let line = format!("-k 6000 -l {SIZE} -w 16Mi -i 100ms {options}");
        let record = udp(&lab, family.routed, &line);
        let (dropped, passed) = (lab.counter("r", "dropped").0, lab.counter("r", "passed").0);
        let receiver = &record["totals"]["receiver"];
        println!("merging {merging}, {options}: dropped {dropped}, passed {passed}");
        if options.contains("gso") {
            sent_in_trains(&record, 20);
        }
        assert_eq!(dropped + passed, 6_000, "the counter saw trains");
        assert!(dropped > 50);
        assert_eq!(number(receiver, "lost"), dropped);
        assert_eq!(number(receiver, "lost_path"), dropped);
        assert_eq!(number(receiver, "dropped_receiver"), 0);
        assert_eq!(number(receiver, "bytes"), passed * SIZE);
        assert_eq!(number(receiver, "duplicates") + number(receiver, "reordered"), 0);
        assert_eq!(record["verdict"]["limit"], path(&record), "{}", record["verdict"]);
    }
}

/// A train crosses as one packet, and is lost whole: only its bytes tell how many datagrams it had.
#[test]
fn trains_lost_whole_are_counted_by_datagram() {
    let _alone = alone();
    if !Lab::possible("trains_lost_whole_are_counted_by_datagram") {
        return;
    }
    let lab = Lab::routed().v6().whole_trains();
    let _server = lab.serve();
    // 4,003: the last train of a stream is a short one. So slow that what waits for a receiver without a core
    // fits its buffer.
    for (family, way) in [(V4, ""), (V6, ""), (V4, "-P 2"), (V6, "-R")] {
        let mut rules = dropping("numgen inc mod 5 < 1");
        if way == "-R" {
            rules = rules.replace("dport", "sport");
        }
        lab.nft("r", &rules);
        let line = format!("-k 4003 -l {SIZE} -b 40M --burst 10ms -w 4Mi --engine gso {way}");
        let record = udp(&lab, family.routed, &line);
        let trains = lab.counter("r", "dropped");
        let dropped = family.datagrams(trains, SIZE);
        let passed = family.datagrams(lab.counter("r", "passed"), SIZE);
        println!("{way}: {} trains of {dropped} datagrams dropped, {passed} passed", trains.0);
        sent_in_trains(&record, 20);
        assert_eq!(dropped + passed, 4_003);
        assert!(trains.0 > 5 && dropped > 5 * trains.0, "trains did not stay together");
        let receiver = &record["totals"]["receiver"];
        assert_eq!(number(receiver, "lost"), dropped);
        assert_eq!(number(receiver, "lost_path"), dropped);
        assert_eq!(number(receiver, "dropped_receiver"), 0);
        assert_eq!(number(receiver, "datagrams"), passed);
    }
}

/// The kernel counts a train that finds no room as one drop.
#[test]
fn trains_dropped_by_a_small_buffer_are_not_the_paths() {
    let _alone = alone();
    if !Lab::possible("trains_dropped_by_a_small_buffer_are_not_the_paths") {
        return;
    }
    let lab = Lab::pair().v6().whole_trains();
    let _server = lab.serve();
    // 128 datagrams a train and eight trains a call, into a buffer of one or two.
    for (family, way, train, options) in [
        (V4, NONE, 128, "-k 51200 -l 64 -b max -w 8Ki --engine gso"),
        (V6, NONE, 128, "-k 51200 -l 64 -b max -w 8Ki --engine gso"),
        (V6, NONE, 1, "-k 20000 -l 1000 -b 20kpps --burst 5ms -w 8Ki --engine mmsg"),
        (V6, "numgen random mod 100 < 10", 128, "-k 51200 -l 64 -b max -w 8Ki --engine gso"),
    ] {
        lab.nft("b", &dropping(way));
        let before = socket_drops(&lab);
        let record = udp(&lab, family.beside, &format!("{options} -i 100ms"));
        let drops = socket_drops(&lab) - before;
        let size = number(&record, "asked.datagram_bytes");
        let path = family.datagrams(lab.counter("b", "dropped"), size);
        let receiver = &record["totals"]["receiver"];
        println!(
            "{options}: {drops} drops, {path} lost on the path, {}",
            record["verdict"]["because"][0]
        );
        assert!(drops > 20, "the buffer did not overflow");
        assert_eq!(number(receiver, "lost"), drops * train + path);
        assert_eq!(number(receiver, "dropped_receiver"), drops * train);
        assert_eq!(number(receiver, "lost_path"), path);
        assert_eq!(number(receiver, "socket_drops"), drops);
        assert!(!list(&record["doubts"]).iter().any(|d| d["kind"] == "counters-disagree"));
    }
}

/// Where the path takes trains apart and `UDP_GRO` makes others of them, a drop is one datagram or many,
/// and the record says between what.
#[test]
#[ignore = "long"]
fn bounds_hold_where_trains_are_torn() {
    let _alone = alone();
    if !Lab::possible("bounds_hold_where_trains_are_torn") {
        return;
    }
    let lab = Lab::routed().v6();
    lab.run("b", "ethtool -K eth0 gro on");
    let _server = lab.serve();
    for (family, size, options) in [
        (V4, 250, "-k 51200 -b max -w 8Ki"),
        (V6, 250, "-k 51200 -b max -w 8Ki"),
        (V4, 1_400, "-k 20000 -b 2G --burst 1ms -w 64Ki"),
    ] {
        lab.nft("r", &dropping("numgen random mod 1000 < 5"));
        lab.nft("b", &dropping(NONE));
        let line = format!("{options} -l {size} --engine gso -i 100ms");
        let record = udp(&lab, family.routed, &line);
        sent_in_trains(&record, 40);
        let sent = number(&record, "totals.sender.datagrams");
        // What came as far as the receiver's own stack; behind it there is the socket alone.
        let came = family.datagrams(lab.counter("b", "passed"), size);
        let receiver = &record["totals"]["receiver"];
        let (path, socket) = (sent - came, came - number(receiver, "datagrams"));
        let lost_path = number(receiver, "lost_path");
        let least = number(receiver, "dropped_receiver");
        let unplaced = receiver["unattributed"].as_u64().unwrap_or(0);
        println!(
            "{line}: {path} on the path, {socket} in the socket; said {lost_path}, {least} and {unplaced}"
        );
        assert_eq!(number(receiver, "lost"), path + socket);
        assert!(lost_path <= path && path <= lost_path + unplaced, "{path}: {receiver}");
        assert!(least <= socket && socket <= least + unplaced, "{socket}: {receiver}");
    }
}
