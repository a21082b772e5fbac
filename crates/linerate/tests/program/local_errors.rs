//! What the sending host itself drops, by errno, against the truth that its kernel counts: packet filters,
//! routes and interfaces that go and come back, its own queue. Errors allowed: none.

use linerate_testkit::peer::LONG;

use crate::support::{Client, Lab, PORT, alone, dropping, list, number, often, wait_for};
use serde_json::Value;

/// Bytes of payload, and of the headers in front.
const SIZE: u64 = 1_000;
const L3: u64 = 28;

/// Drops in the output chain what `rule` picks of the measured datagrams to or from (`end`) the server.
fn own_filter(end: &str, rule: &str) -> String {
    format!(
        "flush ruleset
table inet truth {{
    counter dropped {{ }}
    chain out {{
        type filter hook output priority 0;
        udp {end} {PORT} udp length > 200 {rule} counter name dropped drop
    }}
}}
"
    )
}

/// Datagrams in the packets of that counter: a train is one packet with one set of headers.
fn dropped(lab: &Lab, space: &str) -> u64 {
    let (packets, bytes) = lab.counter(space, "dropped");
    let payload = bytes - packets * L3;
    assert_eq!(payload % SIZE, 0, "{packets} packets, {bytes} bytes");
    payload / SIZE
}

/// Datagrams with that errno.
fn errors(sender: &Value, errno: &str) -> u64 {
    sender["local_send_errors"][errno].as_u64().unwrap_or(0)
}

/// By errno they add up to those of the whole, in the totals and in each interval.
fn add_up(record: &Value) {
    let totals = &record["totals"]["sender"];
    let rows = list(&record["intervals"]).iter().map(|row| &row["sender"]);
    for sender in rows.chain([totals]) {
        let by_errno = sender["local_send_errors"].as_object();
        let sum: u64 = by_errno
            .map_or(0, |errors| errors.values().map(|n| n.as_u64().expect("a count")).sum());
        assert_eq!(sum, number(sender, "refused_locally"), "{sender}");
    }
}

fn doubt<'a>(record: &'a Value, kind: &str) -> Option<&'a str> {
    let found = list(&record["doubts"]).iter().find(|doubt| doubt["kind"] == kind)?;
    found["text"].as_str()
}

fn limit(record: &Value) -> &str {
    record["verdict"]["limit"].as_str().unwrap_or("none")
}

#[test]
#[ignore = "long"]
fn a_filter_of_the_own_host_counts_each_datagram() {
    let _alone = alone();
    if !Lab::possible("a_filter_of_the_own_host_counts_each_datagram") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    for (space, end, option, name) in [
        ("a", "dport", "", "client"),
        ("b", "sport", "-R", "server"),
        ("a", "dport", "--dialect iperf3", "client"),
    ] {
        for engine in ["send", "mmsg", "gso"] {
            lab.nft(space, &own_filter(end, "numgen random mod 2 == 0"));
            let line =
                format!("-k 5000 -l {SIZE} -b 50M --burst 5ms -i 200ms --engine {engine} {option}");
            let ran = lab.client("udp", "10.77.1.2", &line);
            // An iperf3 server tells no intervals, which must add up elsewhere.
            assert_eq!(ran.code, 0, "{}", ran.err);
            let record = if option.contains("iperf3") { ran.record() } else { ran.complete() };
            let truth = dropped(&lab, space);
            let sender = &record["totals"]["sender"];
            println!("{name} {engine}: {truth} dropped, {}", sender["local_send_errors"]);
            assert!(truth > 500, "{engine}: half are more");
            assert_eq!(number(sender, "refused_locally"), truth, "{name} {engine}");
            assert_eq!(errors(sender, "EPERM") + errors(sender, "unknown"), truth, "{engine}");
            // The first call that was cut short may stand alone in its interval.
            assert!(errors(sender, "unknown") * 10 <= truth, "{sender}");
            add_up(&record);
            assert_eq!(number(sender, "datagrams"), 5_000);
            assert_eq!(number(&record, "totals.receiver.lost"), 0, "no number was taken");
            assert_eq!(limit(&record), "sender-host", "{}", record["verdict"]);
            let because = record["verdict"]["because"][0].as_str().unwrap();
            assert!(because.contains(name) && because.contains("EPERM"), "{because}");
            let text = doubt(&record, "local-send-errors").expect("a doubt");
            assert!(text.contains(name) && text.contains("nft list ruleset"), "{text}");
            lab.nft(space, "flush ruleset");
        }
    }
}

#[test]
fn a_host_that_lets_nothing_out_is_no_success() {
    let _alone = alone();
    if !Lab::possible("a_host_that_lets_nothing_out_is_no_success") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    for (space, end, line) in [("a", "dport", "-b 2M"), ("b", "sport", "-b max -R")] {
        lab.nft(space, &own_filter(end, ""));
        // Longer than others keep the sender from its core.
        let line = format!("-t 2s -l {SIZE} --engine send {line}");
        let ran = lab.client("udp", "10.77.1.2", &line);
        let record = ran.error("stream", 1);
        let why = record["error"]["why"].as_str().unwrap();
        assert!(why.contains("EPERM") && why.contains("nft list ruleset"), "{why}");
        assert_eq!(number(&record, "totals.sender.datagrams"), 0);
        let refused = number(&record, "totals.sender.refused_locally");
        assert_eq!(refused, dropped(&lab, space), "{space}");
        // Without a rate it pauses: a thread that spins fails some hundred thousand times.
        assert!(refused > 10 && refused < 5_000, "{refused}");
        assert_eq!(limit(&record), "sender-host", "{}", record["verdict"]);
        lab.nft(space, "flush ruleset");
    }
}

/// Sends until 8,000 have left, while `breaks` is run in `space` and, once the kernel counted datagrams
/// without a route, `mends`.
fn interrupted(lab: &Lab, server: &str, space: &str, (breaks, mends): (&str, &str), more: &[&str]) {
    let port = PORT.to_string();
    let args = ["udp", server, "-p", &port, "--json", "-k", "8000", "-l", "1000", "-b", "10M"];
    for end in ["a", "b"] {
        // By its own backoff TCP would try again only after as long again as the break, and its peer pass for silent.
        lab.run(end, "sysctl -qw net.ipv4.tcp_thin_linear_timeouts=1");
    }
    let client = Client::start(Some(&lab.space("a")), &[&args[..], more].concat());
    let far = if space == "a" { "b" } else { "a" };
    let arrived = || lab.counter(far, "passed").0;
    assert!(wait_for(LONG, || arrived() > 100), "it begins");
    let before = lab.snmp(space, "Ip", "OutNoRoutes");
    lab.run(space, breaks);
    assert!(wait_for(LONG, || lab.snmp(space, "Ip", "OutNoRoutes") > before + 200), "it fails");
    lab.run(space, mends);
    let arrived_then = arrived();
    assert!(wait_for(LONG, || arrived() > arrived_then + 100), "it goes on");
    let record = client.end().complete();
    let sender = &record["totals"]["sender"];
    println!("{space}: {} {}", sender["local_send_errors"], record["verdict"]);
    assert_eq!(number(sender, "datagrams"), 8_000);
    assert!(errors(sender, "ENETUNREACH") > 90, "{sender}");
    add_up(&record);
    // What was sent between the break and its first error was lost on the way, and may be more.
    if number(&record, "totals.receiver.lost") < errors(sender, "ENETUNREACH") {
        assert_eq!(limit(&record), "sender-host", "{}", record["verdict"]);
    }
    let text = doubt(&record, "local-send-errors").expect("a doubt");
    assert!(text.contains("ENETUNREACH: no route"), "{text}");
}

#[test]
fn a_link_that_goes_down_and_comes_back_is_survived_and_told() {
    let _alone = alone();
    if !Lab::possible("a_link_that_goes_down_and_comes_back_is_survived_and_told") {
        return;
    }
    often(4, &[()], |()| {
        let lab = Lab::pair();
        let _server = lab.serve();
        lab.nft("b", &dropping("udp length 1"));
        let link = ("ip link set eth0 down", "ip link set eth0 up");
        interrupted(&lab, "10.77.1.2", "a", link, &["--engine", "mmsg"]);
    });
}

#[test]
#[ignore = "long"]
fn a_route_that_the_server_loses_is_survived_and_told() {
    let _alone = alone();
    if !Lab::possible("a_route_that_the_server_loses_is_survived_and_told") {
        return;
    }
    often(4, &[()], |()| {
        let lab = Lab::routed();
        let _server = lab.serve();
        lab.nft("a", &dropping("udp length 1").replace("dport", "sport"));
        let route = ("ip route del default", "ip route add default via 10.77.2.254");
        interrupted(&lab, "10.77.2.2", "b", route, &["-R", "--engine", "gso", "--burst", "5ms"]);
    });
}

#[test]
fn drops_of_the_own_queue_that_nobody_tells_are_not_the_paths() {
    let _alone = alone();
    if !Lab::possible("drops_of_the_own_queue_that_nobody_tells_are_not_the_paths") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    // A train larger than the bucket is cut there; what has no room of it is dropped, and the sender hears
    // of it only where all of it was.
    lab.run("a", "tc qdisc add dev eth0 root tbf rate 20mbit burst 8000 limit 30000");
    let drops = || {
        let text = lab.run("a", "tc -s qdisc show dev eth0 root");
        let after = text.split("dropped ").nth(1).expect("a count");
        after.split(',').next().and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    let before = drops();
    let line = format!("-t 2s -l {SIZE} -b 60M --burst 10ms --engine gso");
    let record = lab.client("udp", "10.77.1.2", &line).complete();
    let refused = number(&record, "totals.sender.refused_locally");
    let lost = number(&record, "totals.receiver.lost_path");
    println!("{} dropped, {refused} refused, {lost} lost", drops() - before);
    assert!(lost > 500, "two thirds were too much");
    assert_eq!(drops() - before, refused + lost);
    // Where others make and end networks, the kernel may not tell its counters, or an interface's, in time: then nobody
    // knows whose they are.
    let told = !record["totals"]["sender"]["host"]["qdisc_dropped"].is_null();
    let expected = if told { "sender-host" } else { "unknown" };
    assert_eq!(limit(&record), expected, "{}", record["verdict"]);
}

#[test]
#[ignore = "long"]
fn an_interface_without_carrier_is_the_own_host() {
    let _alone = alone();
    if !Lab::possible("an_interface_without_carrier_is_the_own_host") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    lab.nft("b", &dropping("udp length 1"));
    // Without the neighbour's answer the kernel would drop them earlier.
    let address = lab.run("b", "cat /sys/class/net/eth0/address");
    let neighbour = format!("ip neigh replace 10.77.1.2 lladdr {} dev eth0", address.trim());
    lab.run("a", &format!("{neighbour} nud permanent"));
    let dropped = || -> u64 {
        let text = lab.run("a", "cat /sys/class/net/eth0/statistics/tx_dropped");
        text.trim().parse().expect("a number")
    };
    for engine in ["send", "gso"] {
        let port = PORT.to_string();
        let line = "-k 8000 -l 1000 -b 10M --burst 10ms --engine";
        let args = ["udp", "10.77.1.2", "-p", &port, "--json"];
        let args: Vec<&str> = args.into_iter().chain(line.split(' ')).chain([engine]).collect();
        let arrived = || lab.counter("b", "passed").0;
        let (before, then) = (dropped(), arrived());
        let client = Client::start(Some(&lab.space("a")), &args);
        assert!(wait_for(LONG, || arrived() > then + 100), "it begins");
        lab.run("b", "ip link set eth0 down");
        // Until the kernel has noticed, the sender is told (`ENOBUFS`); from then on nobody is.
        let noticed = || lab.run("a", "tc qdisc show dev eth0").contains("noop");
        let state = || lab.run("a", "cat /sys/class/net/eth0/operstate").trim() != "up";
        assert!(wait_for(LONG, || noticed() || state()), "the interface has no carrier");
        let then = dropped();
        assert!(wait_for(LONG, || dropped() > then + 50), "the interface drops");
        lab.run("b", "ip link set eth0 up");
        let record = client.end().complete();
        let lost = number(&record, "totals.receiver.lost");
        println!("{engine}: {} dropped, {lost} lost", dropped() - before);
        assert!(lost >= 30, "{lost}");
        assert_eq!(limit(&record), "sender-host", "{}", record["verdict"]);
    }
}

#[test]
#[ignore = "long"]
fn requests_and_answers_that_the_own_host_drops_are_told() {
    let _alone = alone();
    if !Lab::possible("requests_and_answers_that_the_own_host_drops_are_told") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    for (space, end, name, key) in [
        ("a", "dport", "client", "local_send_errors"),
        ("b", "sport", "server", "server_local_send_errors"),
    ] {
        lab.nft(space, &own_filter(end, "numgen inc mod 10 == 0"));
        let line = "--udp -t 2s --rate 200 --request 1000 --response 1000 --outstanding 1000";
        let record = lab.client("rr", "10.77.1.2", line).complete();
        let truth = lab.counter(space, "dropped").0;
        let rr = &record["totals"]["rr"];
        println!("{name}: {truth} dropped, {} unanswered", rr["unanswered"]);
        assert!(truth > 10, "{truth}");
        assert_eq!(rr[key]["EPERM"].as_u64(), Some(truth), "{rr}");
        assert!(number(rr, "unanswered") >= truth, "{rr}");
        assert_eq!(limit(&record), "sender-host", "{}", record["verdict"]);
        let text = doubt(&record, "local-send-errors").expect("a doubt");
        assert!(text.contains(name) && text.contains("EPERM"), "{text}");
        lab.nft(space, "flush ruleset");
    }
}
