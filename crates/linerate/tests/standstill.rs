//! Which end did not run, or lost its link, is named, and leaves a doubt where the test goes on.

mod support;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Client, Lab, Server, alone, list, wait_for};

/// No step takes as long.
const HANGS: Duration = Duration::from_secs(60);

/// A client whose test runs at the server.
fn running(server: &Server, space: Option<&str>, line: &str) -> Client {
    let earlier = server.log().matches("\"started\"").count();
    let port = server.port.to_string();
    let words: Vec<&str> = line.split(' ').chain(["-p", &port, "--json"]).collect();
    let client = Client::start(space, &words);
    let started = || server.log().matches("\"started\"").count() > earlier;
    assert!(wait_for(HANGS, started), "{}", server.log());
    std::thread::sleep(Duration::from_millis(300));
    client
}

/// Keeps a process stopped; returns for how long it was at least.
fn stopped(signal: impl Fn(Signal), time: Duration) -> Duration {
    signal(Signal::SIGSTOP);
    let begun = Instant::now();
    std::thread::sleep(time);
    let took = begun.elapsed();
    signal(Signal::SIGCONT);
    took
}

fn doubts_of_a_stop(record: &Value) -> Vec<&str> {
    let doubts = list(&record["doubts"]).iter().filter(|doubt| doubt["kind"] == "stopped");
    doubts.map(|doubt| doubt["text"].as_str().expect("a text")).collect()
}

#[test]
fn an_end_that_was_stopped_for_a_while_is_named_in_a_doubt() {
    let _alone = alone();
    for (line, end) in [
        ("udp 127.0.0.1 -b 2M -t 4s", "server"),
        ("tcp 127.0.0.1 -b 2M -t 4s -R", "client"),
        ("rr 127.0.0.1 --rate 100 -t 4s", "server"),
    ] {
        let server = Server::start(None, &[]);
        let client = running(&server, None, line);
        let took = match end {
            "server" => stopped(|signal| server.signal(signal), Duration::from_millis(1_500)),
            _ => stopped(|signal| client.signal(signal), Duration::from_millis(1_500)),
        };
        let record = client.end().complete();
        let found = doubts_of_a_stop(&record);
        let [text] = found[..] else { panic!("{line}: {}", record["doubts"]) };
        println!("{line}: {text}");
        assert!(text.contains(&format!("the {end} did not run for ")), "{text}");
        let told: f64 = text.split(' ').nth(6).and_then(|word| word.parse().ok()).expect(text);
        assert!(told > 1.2 && told < took.as_secs_f64() + 0.5, "{told} of {took:?}");
    }
}

#[test]
fn a_client_that_was_stopped_does_not_blame_its_server() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let client = running(&server, None, "udp 127.0.0.1 -b 2M -t 60s");
    client.signal(Signal::SIGSTOP);
    assert!(wait_for(HANGS, || server.log().contains("\"ended\"")), "{}", server.log());
    assert!(server.log().contains("fell silent"), "{}", server.log());
    client.signal(Signal::SIGCONT);
    let record = client.end().error("server_lost", 1);
    let why = record["error"]["why"].as_str().unwrap();
    assert!(why.contains("this end itself did not run for"), "{why}");
}

#[test]
fn a_server_that_was_stopped_does_not_blame_its_client() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let client = running(&server, None, "udp 127.0.0.1 -b 2M -t 60s");
    server.signal(Signal::SIGSTOP);
    let record = client.end().error("server_lost", 1);
    let why = record["error"]["why"].as_str().unwrap();
    assert!(why.contains("the server fell silent") && !why.contains("itself"), "{why}");
    server.signal(Signal::SIGCONT);
    assert!(wait_for(HANGS, || server.log().contains("\"ended\"")), "{}", server.log());
    assert!(server.log().contains("this end itself did not run for"), "{}", server.log());
}

#[test]
fn a_lost_link_and_a_lost_address_are_named() {
    let _alone = alone();
    if !Lab::possible("a_lost_link_and_a_lost_address_are_named") {
        return;
    }
    for (change, why) in [
        ("ip link set eth0 down", "its own interface eth0 is down"),
        ("ip addr flush dev eth0", "this host has lost its address 10.77.1.1"),
    ] {
        let lab = Lab::pair();
        let server = lab.serve();
        let client = running(&server, Some(&lab.space("a")), "udp 10.77.1.2 -b 2M -t 60s");
        lab.run("a", change);
        let record = client.end().error("server_lost", 1);
        assert!(record["error"]["why"].as_str().unwrap().contains(why), "{change}: {record}");
    }
    // The other end of the cable.
    let lab = Lab::pair();
    let server = lab.serve();
    let client = running(&server, Some(&lab.space("a")), "udp 10.77.1.2 -b 2M -t 60s");
    lab.run("b", "ip link set eth0 down");
    let record = client.end().error("server_lost", 1);
    let why = record["error"]["why"].as_str().unwrap();
    assert!(why.contains("its own interface eth0 has no carrier"), "{why}");
    assert!(wait_for(HANGS, || server.log().contains("\"ended\"")), "{}", server.log());
    assert!(server.log().contains("its own interface eth0 is down"), "{}", server.log());
}
