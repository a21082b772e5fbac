//! What a server logs: each test's result in one line and one object, how it ended, and who was
//! turned away and why.

#[path = "support/iperf3.rs"]
mod iperf3;
mod schema;
mod support;

use std::time::Duration;

use iperf3::{HANGS, Iperf3, installed};
use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Client, Server, alone, linerate, number, wait_for};

/// The lines of one kind so far.
fn lines(server: &Server, event: &str) -> Vec<Value> {
    let log = server.log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == event).collect()
}

/// Waits for the `n`th line of a kind.
fn nth(server: &Server, event: &str, n: usize) -> Value {
    let there = wait_for(HANGS, || lines(server, event).len() >= n);
    assert!(there, "{n} times {event}: {}", server.log());
    lines(server, event).remove(n - 1)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A client that runs for long, once the server has begun its test.
fn under_way(server: &Server, verb: &str, n: usize) -> Client {
    let port = server.port.to_string();
    let client = Client::start(None, &words(&format!("{verb} 127.0.0.1 -p {port} -t 60 --json")));
    nth(server, "started", n);
    client
}

/// Whether a process has a handler for SIGINT, which is signal 2.
fn listens_for_ctrl_c(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|m| m & 2 > 0)
}

#[test]
fn each_test_is_an_object_with_its_figures() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let schema = linerate(None, &["schema", "serve"]);
    let schema: Value = serde_json::from_str(&schema.out).expect("a schema");
    let tests = [
        "udp -b 20M -t 300ms",
        "udp -b 20M -t 300ms -R",
        "udp -b 2M -t 300ms --both -P 2",
        "tcp -b 50M -t 300ms",
        "tcp -b 50M -t 300ms -R",
        "rr -t 300ms",
    ];
    for (n, test) in (1..).zip(tests) {
        let (verb, options) = test.split_once(' ').unwrap();
        let line = format!("{verb} 127.0.0.1 -p {} {options} --json", server.port);
        let record = linerate(None, &words(&line)).complete();
        let started = nth(&server, "started", n);
        let ended = nth(&server, "ended", n);
        for object in [&started, &ended] {
            schema::validate(&schema, object).unwrap_or_else(|e| panic!("{test}: {e}: {object}"));
            assert_eq!(object["id"], record["id"], "{test}");
            assert_eq!((&object["kind"], &object["dialect"]), (&verb.into(), &"native".into()));
            assert_eq!(object["peer"], started["peer"]);
        }
        assert_eq!(ended["outcome"], "done", "{test}: {ended}");
        assert!(ended["why"].is_null() && ended["seconds"].as_f64().unwrap() > 0.0, "{ended}");
        let (sends, receives) = match (verb, options.contains("-R"), options.contains("--both")) {
            ("rr", ..) => (false, false),
            (_, _, true) => (true, true),
            (_, reverse, _) => (reverse, !reverse),
        };
        assert_eq!(ended["sent"].is_object(), sends, "{test}: {ended}");
        assert_eq!(ended["received"].is_object(), receives, "{test}: {ended}");
        assert_eq!(ended["answered"].is_u64(), verb == "rr", "{test}: {ended}");
        // The server's own end is the one that the client's record shows.
        if receives && !sends {
            let bytes = number(&record, "totals.receiver.bytes");
            assert_eq!(number(&ended, "received.bytes"), bytes, "{test}");
            assert_eq!(ended["received"]["lost"].is_u64(), verb == "udp");
        }
        if sends && !receives {
            let bytes = number(&record, "totals.sender.bytes");
            assert_eq!(number(&ended, "sent.bytes"), bytes, "{test}");
        }
    }
}

#[test]
fn a_client_that_is_killed_was_not_done() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let verbs = ["udp -b 5M", "tcp -b 50M", "tcp -b 50M -R", "tcp --both -b 50M", "rr"];
    for (n, verb) in (1..).zip(verbs) {
        let (kind, options) = verb.split_once(' ').unwrap_or((verb, ""));
        let port = server.port.to_string();
        let line = format!("{kind} 127.0.0.1 -p {port} -t 60 --json-lines {options}");
        let client = Client::start(None, &words(&line));
        nth(&server, "started", n);
        std::thread::sleep(Duration::from_millis(300));
        client.signal(Signal::SIGKILL);
        client.end();
        let ended = nth(&server, "ended", n);
        assert_eq!(ended["outcome"], "vanished", "{verb}: {ended}");
        assert!(ended["why"].is_string(), "{verb}: {ended}");
        assert!(ended["received"].is_object() || ended["sent"].is_object() || kind == "rr");
    }
}

#[test]
fn who_ended_a_test_early_is_named() {
    let _alone = alone();
    let mut server = Server::start(None, &["--max-bytes", "1M"]);
    let client = under_way(&server, "udp -b 100k", 1);
    assert!(wait_for(HANGS, || listens_for_ctrl_c(client.pid())));
    client.signal(Signal::SIGINT);
    assert_eq!(client.end().code, 130);
    assert_eq!(nth(&server, "ended", 1)["outcome"], "stopped");
    let client = under_way(&server, "udp -b 100M", 2);
    let ended = nth(&server, "ended", 2);
    assert_eq!(ended["outcome"], "cut", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("--max-bytes"), "{ended}");
    client.end();
    let client = under_way(&server, "udp -b 100k", 3);
    server.signal(Signal::SIGTERM);
    assert!(server.ends(HANGS).is_some());
    let ended = nth(&server, "ended", 3);
    assert_eq!(
        (&ended["outcome"], &ended["why"]),
        (&"cut".into(), &"the server is shutting down".into())
    );
    client.end();
}

#[test]
fn who_is_turned_away_is_told_with_the_ground() {
    let server = Server::start(None, &["--max-duration", "5s"]);
    let port = server.port.to_string();
    linerate(None, &["udp", "127.0.0.1", "-p", &port, "-t", "10", "--json"]).error("policy", 3);
    let refused = nth(&server, "refused", 1);
    assert_eq!(refused["kind"], "policy");
    assert!(refused["why"].as_str().unwrap().contains("5"), "{refused}");
    assert!(refused["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{refused}");
    assert!(lines(&server, "started").is_empty());
}

#[test]
fn clients_of_iperf3_are_logged_the_same_way() {
    let _alone = alone();
    if !installed("clients_of_iperf3_are_logged_the_same_way") {
        return;
    }
    let server = Server::start(None, &["--max-duration", "100s"]);
    let at = server.port;
    let tests = ["-u -b 5M -t 1", "-n 100K", "-n 100K -R", "-u -b 1M -t 1 --bidir"];
    for (n, args) in (1..).zip(tests) {
        Iperf3::here("127.0.0.1", at, args).end().well();
        let ended = nth(&server, "ended", n);
        assert_eq!((&ended["outcome"], &ended["dialect"]), (&"done".into(), &"iperf3".into()));
        assert_eq!(ended["id"].as_str().unwrap().len(), 36, "its cookie: {ended}");
        let figures = &ended[if args.contains("-R") { "sent" } else { "received" }];
        assert!(number(figures, "bytes") > 0, "{args}: {ended}");
    }
    for (n, args) in (tests.len() + 1..).zip(["-t 60 -b 10M", "-u -b 5M -t 60", "-t 60 -b 10M -R"])
    {
        let client = Iperf3::here("127.0.0.1", at, args);
        nth(&server, "started", n);
        std::thread::sleep(Duration::from_millis(500));
        client.kill();
        let ended = nth(&server, "ended", n);
        // Its kernel says that it is gone, and for a stream before the control connection does.
        assert!(["vanished", "failed"].contains(&ended["outcome"].as_str().unwrap()), "{ended}");
    }
    let refused = lines(&server, "refused").len();
    assert_ne!(Iperf3::here("127.0.0.1", at, "-t 200").end().code, 0);
    assert_eq!(nth(&server, "refused", refused + 1)["kind"], "policy");
}
