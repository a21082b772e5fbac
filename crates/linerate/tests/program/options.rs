//! What options do on the wire and in the kernel, counted there: datagram size and MTU, socket buffers,
//! DSCP, addresses; and the figures of pacing.

use linerate_testkit::peer::LONG;
use nix::sys::signal::Signal;

use crate::support::{Client, Lab, PORT, alone, dropping, linerate, list, number, real, wait_for};
use serde_json::Value;

const V4: &str = "10.77.1.2";
const V6: &str = "fd77:1::2";

fn test(lab: &Lab, verb: &str, server: &str, line: &str) -> Value {
    lab.client(verb, server, line).complete()
}

fn doubts(record: &Value, words: &str) -> usize {
    let of = list(&record["doubts"]).iter().filter_map(|doubt| doubt["text"].as_str());
    of.filter(|text| text.contains(words)).count()
}

/// Counts packets of the test that come in, those that `rule` matches apart from the others. `port` is
/// the server's, as it stands in them.
fn sorting(port: &str, rule: &str) -> String {
    format!(
        "flush ruleset
table inet truth {{
    counter those {{ }}
    counter others {{ }}
    chain ingress {{
        type filter hook prerouting priority -300;
        meta l4proto {{ tcp, udp }} th {port} {PORT} {rule} counter name those accept
        meta l4proto {{ tcp, udp }} th {port} {PORT} counter name others
    }}
}}
"
    )
}

#[test]
fn datagrams_are_as_large_as_the_path_carries() {
    let _alone = alone();
    if !Lab::possible("datagrams_are_as_large_as_the_path_carries") {
        return;
    }
    let lab = Lab::pair().v6();
    let _server = lab.serve();
    // Ports stand in a first fragment only; the rest shows itself as what it is.
    let pieces = "flush ruleset
table inet truth {
    counter whole { }
    counter pieces { }
    chain ingress {
        type filter hook prerouting priority -450;
        ip protocol udp ip frag-off & 0x3fff != 0 counter name pieces accept
        exthdr frag exists counter name pieces accept
        udp length > 200 counter name whole
    }
}
";
    for mtu in [1_500, 9_000] {
        for space in ["a", "b"] {
            lab.run(space, &format!("ip link set eth0 mtu {mtu}"));
        }
        for (server, headers) in [(V4, 28), (V6, 48)] {
            lab.nft("b", pieces);
            let record = test(&lab, "udp", server, "-l mtu -k 100 -b 20M");
            assert_eq!(number(&record, "asked.datagram_bytes"), mtu - headers);
            assert_eq!(lab.counter("b", "whole"), (100, 100 * mtu), "{server}");
            assert_eq!(lab.counter("b", "pieces").0, 0, "{server}");
            assert_eq!(doubts(&record, "fragments"), 0);
            // One byte more is two packets each, and said.
            lab.nft("b", pieces);
            let line = format!("-l {} -k 100 -b 20M", mtu - headers + 1);
            let record = test(&lab, "udp", server, &line);
            assert_eq!(lab.counter("b", "pieces").0, 200, "{server}");
            assert_eq!(
                doubts(&record, &format!("packets of {mtu} bytes")),
                1,
                "{}",
                record["doubts"]
            );
        }
    }
    let record = test(&lab, "rr", V4, "--udp --request 9000 -t 200ms");
    assert_eq!(doubts(&record, "fragments"), 1, "{}", record["doubts"]);
    // The same where nobody answers.
    for (line, size, said) in [("-l 10000", 10_000, 1), ("-l mtu", 8_972, 0)] {
        lab.nft("b", &dropping(""));
        let line = format!("--send-only -k 100 -b 20M {line}");
        let ran = lab.client("udp", V4, &line);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let record = ran.record();
        assert_eq!(number(&record, "asked.datagram_bytes"), size);
        assert_eq!(doubts(&record, "packets of 9000 bytes"), said, "{}", record["doubts"]);
    }
}

/// Socket buffers of every socket of the test in one namespace, as the kernel holds them: to send and to
/// receive.
fn buffers(lab: &Lab, space: &str, verb: &str) -> Vec<(u64, u64)> {
    let kind = if verb == "tcp" { "-t" } else { "-u" };
    let text = lab.run(space, &format!("ss -H -n -a -m {kind}"));
    let field = |line: &str, name: &str| -> Option<u64> {
        let (_, rest) = line.split_once("skmem:(")?;
        rest.split([',', ')']).find_map(|f| f.strip_prefix(name))?.parse().ok()
    };
    text.lines().filter_map(|line| field(line, "tb").zip(field(line, "rb"))).collect()
}

#[test]
fn granted_buffers_are_those_of_the_kernel() {
    let _alone = alone();
    if !Lab::possible("granted_buffers_are_those_of_the_kernel") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    for (verb, line, sender, receiver) in [
        ("udp", "-b 5M", "a", "b"),
        ("udp", "-b 5M -R", "b", "a"),
        ("tcp", "-b 5M --both", "b", "b"),
    ] {
        let port = PORT.to_string();
        let base = [verb, V4, "-p", &port, "--json", "-t", "10m", "-w", "300000"];
        let args: Vec<&str> = base.into_iter().chain(line.split_whitespace()).collect();
        let client = Client::start(Some(&lab.space("a")), &args);
        // Twice what was asked, as the kernel counts; once data flows both ends know what they were granted.
        let bytes = || lab.snmp(receiver, "IpExt", "InOctets");
        let (before, mut seen) = (bytes(), (0, 0));
        wait_for(LONG, || {
            let largest = |space: &str, which: fn(&(u64, u64)) -> u64| {
                let all = buffers(&lab, space, verb);
                all.iter().map(which).filter(|b| *b == 600_000).max().unwrap_or(0)
            };
            seen = (largest(sender, |b| b.0), largest(receiver, |b| b.1));
            seen == (600_000, 600_000) && bytes() > before + 200_000
        });
        assert_eq!(seen, (600_000, 600_000), "{verb} {line}");
        client.signal(Signal::SIGINT);
        let record = client.end().record();
        let granted = &record["agreed"]["window_granted"];
        assert_eq!(number(granted, "send_bytes"), seen.0, "{verb} {line}");
        assert_eq!(number(granted, "receive_bytes"), seen.1, "{verb} {line}");
    }
}

#[test]
fn the_code_point_is_on_every_packet_of_data() {
    let _alone = alone();
    if !Lab::possible("the_code_point_is_on_every_packet_of_data") {
        return;
    }
    let lab = Lab::pair().v6();
    let _server = lab.serve();
    for (server, ip) in [(V4, "ip"), (V6, "ip6")] {
        for (space, port) in [("b", "dport"), ("a", "sport")] {
            lab.nft(space, &sorting(port, &format!("{ip} dscp 46")));
        }
        let both = |name: &str| (lab.counter("b", name), lab.counter("a", name));
        let record = test(&lab, "udp", server, "--both -k 500 -b 20M -l 1000 --dscp 46");
        assert_eq!(number(&record, "agreed.dscp"), 46);
        let (forward, reverse) = both("those");
        assert_eq!((forward.0, reverse.0), (500, 500), "{server}");
        let (forward, reverse) = both("others");
        // The control connection and the hellos.
        assert!(forward.1 < 100_000 && reverse.1 < 100_000, "{server}: {forward:?} {reverse:?}");
        for way in ["", "-R"] {
            for (space, port) in [("b", "dport"), ("a", "sport")] {
                lab.nft(space, &sorting(port, &format!("{ip} dscp 46")));
            }
            let record = test(&lab, "tcp", server, &format!("-n 2M --dscp 46 {way}"));
            let (forward, reverse) = both("those");
            let data = if way.is_empty() { forward.1 } else { reverse.1 };
            assert!(data > number(&record, "totals.receiver.bytes"), "{server} {way}");
            let (forward, reverse) = both("others");
            assert!(forward.1 < 100_000 && reverse.1 < 100_000, "{server} {way}");
        }
    }
}

#[test]
fn everything_comes_from_the_bound_address() {
    let _alone = alone();
    if !Lab::possible("everything_comes_from_the_bound_address") {
        return;
    }
    let lab = Lab::pair().v6();
    lab.run("a", "ip addr add 10.77.1.11/24 dev eth0");
    lab.run("a", "ip -6 addr add fd77:1::11/64 dev eth0 nodad preferred_lft 0");
    lab.run("b", "ip addr add 10.77.1.12/24 dev eth0");
    let _server = lab.serve();
    for (server, bound, rule) in
        [(V4, "10.77.1.11", "ip saddr 10.77.1.11"), (V6, "fd77:1::11", "ip6 saddr fd77:1::11")]
    {
        for (verb, options) in [
            ("udp", "--both -k 100 -b 20M"),
            ("tcp", "-n 1M -P 2"),
            ("rr", "-t 1s --udp"),
            ("udp", "-k 100 -b 20M --send-only"),
        ] {
            lab.nft("b", &sorting("dport", rule));
            let ran = lab.client(verb, server, &format!("{options} --bind {bound}"));
            assert_eq!(ran.code, 0, "{}", ran.err);
            assert!(lab.counter("b", "those").0 > 0, "{verb} {bound}");
            assert_eq!(lab.counter("b", "others").0, 0, "{verb} {bound}");
        }
    }
    let error = lab.client("udp", V4, "--bind 10.77.1.99 -k 100").error("bind", 3);
    assert!(error["error"]["hints"][0].as_str().unwrap().contains("--bind"), "{error}");
    // A server with two addresses answers from the one that was asked.
    lab.nft("a", &sorting("sport", "ip saddr 10.77.1.12"));
    test(&lab, "udp", "10.77.1.12", "-R -k 100 -b 20M");
    assert!(lab.counter("a", "those").0 > 100);
    assert_eq!(lab.counter("a", "others").0, 0);
}

/// Pacing figures of a sender, looked at for sense.
fn pacing(sender: &Value, nominal_ns: Option<u64>) -> Option<f64> {
    let pacing = &sender["pacing"];
    assert_eq!(pacing["gap_nominal_ns"].as_u64(), nominal_ns, "{pacing}");
    let gap = |name: &str| number(pacing, name);
    let (p50, p99, max) = (gap("gap_p50_ns"), gap("gap_p99_ns"), gap("gap_max_ns"));
    assert!(0 < p50 && p50 <= p99 && p99 <= max, "{pacing}");
    // Three digits, rounded up.
    assert!(max as f64 <= real(sender, "seconds") * 1.002e9, "{pacing}");
    if nominal_ns.is_some() {
        // A sender that runs behind goes twice as fast, and no faster.
        assert!(p50 * 100 >= nominal_ns.unwrap_or(0) * 45, "{pacing}");
        assert!(pacing["lateness_p99_ns"].is_u64(), "{pacing}");
    }
    pacing["mean_error_ppm"].as_f64()
}

#[test]
fn every_record_says_how_well_it_was_paced() {
    let _alone = alone();
    if !Lab::possible("every_record_says_how_well_it_was_paced") {
        return;
    }
    let lab = Lab::pair();
    let server = lab.serve();
    // Amounts, which are sent however long others keep the sending thread from its core. Of several streams each would have a
    // time of its own for its amount, and their rate is over the longest: a time, of which nobody loses all.
    for (line, asked_bps, nominal_ns) in [
        ("-k 375 -b 10M", Some(10e6), Some(800_000)),
        ("-k 375 -b 10M -R", Some(10e6), Some(800_000)),
        ("-t 2s -b 10M -P 2", Some(10e6), Some(1_600_000)),
        // Ten datagrams a call, due every 80 us.
        ("-k 3750 -b 100M --burst 800us --engine mmsg", Some(100e6), Some(800_000)),
        // More than any host sends one by one.
        ("-k 50000 -b 80G --engine send", Some(80e9), Some(100)),
        ("-k 50000 -b max", None, None),
    ] {
        let record = test(&lab, "udp", V4, &format!("{line} -l 1000"));
        let sender = &record["totals"]["sender"];
        let error = pacing(sender, nominal_ns);
        assert_eq!(error.is_some(), asked_bps.is_some(), "{line}");
        for stream in list(&record["streams"]) {
            assert_eq!(pacing(&stream["sender"], nominal_ns).is_some(), asked_bps.is_some());
        }
        let Some((error, asked)) = error.zip(asked_bps) else { continue };
        // What was refused or given up took its turn, and so counts as paced; here nothing is refused.
        let sent = real(sender, "bits_per_second") / asked - 1.0;
        println!("{line}: {error} ppm, sent {sent}, {}", sender["pacing"]);
        assert!((error / 1e6 - sent).abs() < 0.1, "{line}: {error} ppm, {sent}");
        assert!(!line.contains("80G") || error < -500_000.0, "{line}: {error} ppm");
    }
    drop(server);
    let args = ["udp", V4, "--send-only", "--json", "-k", "200", "-b", "10M", "-l", "1000"];
    let record = linerate(Some(&lab.space("a")), &args).record();
    assert!(pacing(&record["totals"]["sender"], Some(800_000)).is_some());
}
