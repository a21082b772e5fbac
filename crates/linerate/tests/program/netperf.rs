//! netperf's dialect against the real netperf 2.7.1, both ways: what both ends print is the same.

use crate::support;
use linerate_testkit::peer::LONG;

use crate::support::netperf::{
    Netserver, an_address, netperf, programs, programs_with, serve, value,
};
use crate::support::{alone, linerate, number, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;

/// The last test that a server's log has as ended.
fn last_end(log: &str) -> Option<Value> {
    let mut ended = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    ended.rfind(|event| event.get("outcome").is_some())
}

#[test]
fn the_real_client_and_this_server_count_the_same() {
    let _alone = alone();
    let Some(bin) = programs("the_real_client_and_this_server_count_the_same") else { return };
    an_address();
    let (server, at) = serve(&[]);
    let mut count = 0;
    for (test, theirs, ours) in [
        ("-t TCP_STREAM -l 1 -- -k REMOTE_BYTES_RECVD", "REMOTE_BYTES_RECVD", "/received/bytes"),
        ("-t TCP_MAERTS -l 1 -- -k REMOTE_BYTES_SENT", "REMOTE_BYTES_SENT", "/sent/bytes"),
        (
            "-t UDP_STREAM -l 1 -- -m 1000 -k REMOTE_BYTES_RECVD",
            "REMOTE_BYTES_RECVD",
            "/received/bytes",
        ),
        ("-t UDP_STREAM -l 1 -- -k REMOTE_BYTES_RECVD", "REMOTE_BYTES_RECVD", "/received/bytes"),
        (
            "-t omni -l 1 -- -d recv -T udp -m 1000 -k REMOTE_BYTES_SENT",
            "REMOTE_BYTES_SENT",
            "/sent/bytes",
        ),
    ] {
        count += 1;
        let text = netperf(&bin, "127.0.0.1", at.port(), test);
        let theirs = value(&text, theirs);
        assert!(theirs > 0.0, "{test}: {text}");
        let ended = last_end(&server.says("\"outcome\"", count)).expect("an end");
        let ours = ended.pointer(ours).and_then(Value::as_f64);
        assert_eq!(ours, Some(theirs), "{test}: {ended}");
    }
    for test in ["-t TCP_RR", "-t UDP_RR", "-t TCP_RR -l -500", "-t UDP_RR -- -r 100,200 -b 4"] {
        count += 1;
        let text = netperf(&bin, "127.0.0.1", at.port(), &format!("-P 0 -l 3 {test}"));
        let ended = last_end(&server.says("\"outcome\"", count)).expect("an end");
        assert!(ended["answered"].as_u64().is_some_and(|n| n > 10), "{test}: {text}{ended}");
    }
}

/// It asks for each of its tests in messages of before 2.5.
#[test]
#[ignore = "long"]
fn a_real_client_without_omni_is_answered_in_its_words() {
    let _alone = alone();
    let test = "a_real_client_without_omni_is_answered_in_its_words";
    let Some(bin) = programs_with(test, &["--disable-omni"]) else { return };
    an_address();
    let (server, at) = serve(&[]);
    for (count, (test, counted)) in [
        ("TCP_STREAM -l 1 -C", "/received/bytes"),
        ("TCP_MAERTS -l 1 -C", "/sent/bytes"),
        ("TCP_RR -l 1 -C", "/answered"),
        ("TCP_RR -l -50 -- -r 100,200", "/answered"),
        ("UDP_RR -l 1 -C", "/answered"),
        ("UDP_RR -l -50 -- -r 100,200", "/answered"),
        ("TCP_CRR -l 1 -C", "/answered"),
        ("UDP_STREAM -l 1 -C -- -m 1000", "/received/bytes"),
        ("UDP_STREAM -l 1 -- -m 1000", "/received/bytes"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = netperf(&bin, "127.0.0.1", at.port(), &format!("-t {test}"));
        assert!(!text.contains("MIGRATED"), "{text}");
        let ended = last_end(&server.says("\"outcome\"", count + 1)).expect("an end");
        assert_eq!(ended["outcome"], "done", "{test}: {ended}");
        let counted = ended.pointer(counted).and_then(Value::as_u64).unwrap_or(0);
        assert!(counted > 0, "{test}: {ended}");
        assert!(!test.contains("-l -50") || counted == 50, "{test}: {ended}");
        // What it was told of datagrams it prints.
        let datagrams = (counted / 1_000).to_string();
        let told = text.split_whitespace().any(|word| word == datagrams);
        assert!(!test.contains("UDP_STREAM") || told, "{test}: {text}{ended}");
    }
}

#[test]
fn the_real_client_asks_for_cpu_confidence_and_the_other_ip() {
    let _alone = alone();
    let Some(bin) = programs("the_real_client_asks_for_cpu_confidence_and_the_other_ip") else {
        return;
    };
    an_address();
    let port = support::free_port();
    let door = format!("--netperf={port}");
    let server = support::Server::start(None, &[&door]);
    let keys = "REMOTE_CPU_UTIL,REMOTE_CPU_METHOD,CONFIDENCE_ITERATION";
    let test = format!("-t TCP_STREAM -l 1 -C -I 95,50 -i 3,3 -- -k {keys}");
    let text = netperf(&bin, "127.0.0.1", port, &test);
    assert!(text.contains("REMOTE_CPU_METHOD=S"), "{text}");
    let share = value(&text, "REMOTE_CPU_UTIL");
    assert!((0.0..=100.0).contains(&share), "{text}");
    assert!(value(&text, "CONFIDENCE_ITERATION") >= 3.0, "{text}");
    // The log may be written after the client has heard.
    let done = || server.log().matches("\"outcome\":\"done\"").count();
    assert!(wait_for(LONG, || done() >= 3), "{}", server.log());
    assert_eq!(done(), 3, "{}", server.log());
    // An address of IPv6, on loopback.
    netperf(&bin, "::1", port, "-6 -P 0 -t UDP_STREAM -l 1 -- -m 1000");
}

#[test]
fn this_client_measures_with_the_real_server() {
    let _alone = alone();
    let Some(bin) = programs("this_client_measures_with_the_real_server") else { return };
    an_address();
    let server = Netserver::start(&bin);
    let port = server.port.to_string();
    let run = |args: &str| {
        let all = ["--dialect", "netperf", "-p", &port, "--json"];
        let ran = linerate(None, &[&args.split(' ').collect::<Vec<_>>()[..], &all].concat());
        assert_eq!(ran.code, 0, "{args}: {}", ran.err);
        let record = ran.record();
        assert_eq!(record["agreed"]["dialect"], "netperf", "{args}");
        record
    };
    // As many as the real one's socket has room for, while others have its core.
    let udp = run("udp 127.0.0.1 -b 20M -l 1000 -k 80");
    assert_eq!(number(&udp, "totals.sender.datagrams"), 80);
    assert_eq!(number(&udp, "totals.receiver.datagrams"), 80);
    for test in
        ["udp 127.0.0.1 -R -t 1s -l 1000 -b max", "tcp 127.0.0.1 -t 1s", "tcp 127.0.0.1 -R -t 1s"]
    {
        let record = run(test);
        assert!(number(&record, "totals.receiver.bytes") > 0, "{test}");
        assert!(number(&record, "totals.sender.bytes") > 0, "{test}");
    }
    let tcp = run("tcp 127.0.0.1 -n 1Mi");
    assert_eq!(number(&tcp, "totals.receiver.bytes"), 1_048_576);
    for test in ["rr 127.0.0.1 -t 3s", "rr 127.0.0.1 --udp -t 3s"] {
        assert!(number(&run(test), "totals.rr.transactions") > 10, "{test}");
    }
}

#[test]
fn both_ends_of_ours_count_the_same() {
    let _alone = alone();
    let (server, at) = serve(&[]);
    let port = at.port().to_string();
    for (args, path, wanted) in [
        ("udp 127.0.0.1 -b 20M -l 1000 -k 2000", "totals.sender.datagrams", 2_000),
        ("udp 127.0.0.1 -R -l 1000 -k 500 -b max", "totals.sender.datagrams", 500),
        ("tcp 127.0.0.1 -n 1Mi", "totals.receiver.bytes", 1_048_576),
        ("tcp 127.0.0.1 -R -n 1Mi", "totals.receiver.bytes", 1_048_576),
    ] {
        let all = ["--dialect", "netperf", "-p", &port, "--json"];
        let ran = linerate(None, &[&args.split(' ').collect::<Vec<_>>()[..], &all].concat());
        assert_eq!(ran.code, 0, "{args}: {}\n{}", ran.err, server.log());
        let record = ran.record();
        assert_eq!(number(&record, path), wanted, "{args}");
        if args.starts_with("udp") {
            let of = |name: &str| number(&record, &format!("totals.{name}"));
            let accounted = of("receiver.datagrams") + of("receiver.lost");
            assert_eq!(of("sender.datagrams"), accounted, "{args}: {record}");
        }
    }
    for (ends, args) in [(5, "rr 127.0.0.1 -t 1s"), (6, "rr 127.0.0.1 --udp -t 1s")] {
        let all = ["--dialect", "netperf", "-p", &port, "--json"];
        let ran = linerate(None, &[&args.split(' ').collect::<Vec<_>>()[..], &all].concat());
        let record = ran.record();
        let transactions = number(&record, "totals.rr.transactions");
        let log = server.says("\"outcome\"", ends);
        let answered = last_end(&log).and_then(|end| end["answered"].as_u64());
        // The last may be answered after the end.
        let same = answered.is_some_and(|n| n == transactions || n == transactions + 1);
        assert!(same, "{args}: {transactions}, {log}");
    }
}

#[test]
fn what_netperf_cannot_do_is_refused_with_the_reason() {
    let _alone = alone();
    let (_server, at) = serve(&["--max-duration", "20s"]);
    let port = at.port().to_string();
    for (args, why) in [
        ("tcp 127.0.0.1 -P 2", "netperf's tests have one"),
        ("tcp 127.0.0.1 --bidir", "netperf's tests have one"),
        ("udp 127.0.0.1 -b 1M -O 1s", "count from the first byte on"),
        ("udp 127.0.0.1 -R -b 1M", "as fast as they can"),
        ("tcp 127.0.0.1 -t 21s", "netperf error 122"),
    ] {
        let all = ["--dialect", "netperf", "-p", &port];
        let ran = linerate(None, &[&args.split(' ').collect::<Vec<_>>()[..], &all].concat());
        assert_ne!(ran.code, 0, "{args}: {}", ran.out);
        assert!(ran.err.contains(why), "{args}: {}", ran.err);
    }
}

/// Datagrams that were received in this thread's network.
fn datagrams_in() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
    let figures = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).nth(1);
    figures.and_then(|line| line.split(' ').next()?.parse().ok()).expect("a figure of UDP")
}

#[test]
fn a_client_that_ends_early_has_not_lasted_as_long_as_was_agreed() {
    let _alone = alone();
    for (dialect, door) in [("netperf", "--netperf=0"), ("nuttcp", "--nuttcp=0")] {
        let server = support::Server::start(None, &[door]);
        let listening = |log: &str| {
            let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let at = lines.into_iter().find(|line| line["dialect"] == dialect)?;
            at["address"].as_str()?.rsplit(':').next().map(str::to_owned)
        };
        assert!(wait_for(LONG, || listening(&server.log()).is_some()), "{}", server.log());
        let port = listening(&server.log()).unwrap();
        let before = datagrams_in();
        let args = ["udp", "127.0.0.1", "-p", &port, "--dialect", dialect, "-b", "5M", "-t", "60"];
        let client = support::Client::start(None, &args);
        assert!(wait_for(LONG, || datagrams_in() > before + 20), "{dialect}: no data");
        client.signal(Signal::SIGINT);
        client.end();
        assert!(wait_for(LONG, || last_end(&server.log()).is_some()), "{}", server.log());
        let ended = last_end(&server.log()).unwrap();
        let lasted = ended["received"]["seconds"].as_f64();
        assert!(lasted.is_some_and(|seconds| seconds < 50.0), "{dialect}: {ended}");
    }
}
