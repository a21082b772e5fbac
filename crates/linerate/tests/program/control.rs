//! What can go wrong around a test: errors in words and codes, peers that vanish, Ctrl-C at either
//! end. Nothing here asks how long it took, only that it ends.

use linerate_testkit::peer::LONG;
use std::time::{Duration, Instant};

use crate::support::{Client, Lab, Server, alone, identities, linerate, own_network, wait_for};
use nix::sys::signal::Signal;

#[test]
fn servers_that_are_not_there() {
    let _alone = alone();
    let ran = linerate(None, &["udp", "no-such-host.invalid", "--json"]);
    let record = ran.error("unknown_host", 3);
    assert_eq!(record["status"], "failed");
}

#[test]
fn the_impossible_is_refused_before_anything_is_sent() {
    let _alone = alone();
    for line in [
        "udp h -l 31",
        "udp h -l 65508",
        "udp h -b 11T",
        "udp h -t 0",
        "udp h -t 2d",
        "udp h -P 129",
        "udp h -k 0",
        "tcp h -l 0",
        "rr h --outstanding 0",
        "rr h --request 0",
        "udp h -w 1",
        "udp h --dscp 64",
    ] {
        let args: Vec<&str> = line.split_whitespace().chain(["--json"]).collect();
        let ran = linerate(None, &args);
        assert_eq!(ran.code, 2, "{line}: {}", ran.err);
        let object: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(object["error"]["exit_code"], 2, "{line}");
    }
}

/// Promised are 3 s; the rest is for a busy machine. Without notice a test takes 30.
const NOTICED: Duration = Duration::from_secs(20);

#[test]
fn a_peer_that_vanishes_is_noticed_in_time() {
    let _alone = alone();
    let lines = ["udp -b 5M", "udp -b 5M -R", "tcp", "tcp -R"];
    // Every line twice: once the server freezes, once the client, all at the same time.
    let pairs: Vec<(&str, Server, Client)> = lines
        .iter()
        .flat_map(|line| [*line; 2])
        .map(|line| {
            // What it carries is this pair's.
            own_network();
            let server = Server::start(None, &[]);
            let port = server.port.to_string();
            let args: Vec<&str> =
                line.split(' ').chain(["127.0.0.1", "-p", &port, "--json", "-t", "30s"]).collect();
            let client = Client::start(None, &args);
            server.says("started", 1);
            server.carries(100_000);
            (line, server, client)
        })
        .collect();
    let begun = Instant::now();
    for (i, (_, server, client)) in pairs.iter().enumerate() {
        if i % 2 == 0 {
            server.signal(Signal::SIGSTOP);
        } else {
            client.signal(Signal::SIGSTOP);
        }
    }
    for (i, (line, server, client)) in pairs.into_iter().enumerate() {
        if i % 2 == 0 {
            let record = client.end().error("server_lost", 1);
            assert!(begun.elapsed() < NOTICED, "{line}: {:?}", begun.elapsed());
            assert_eq!(record["status"], "partial", "{line}");
        } else {
            let left = NOTICED.saturating_sub(begun.elapsed());
            assert!(wait_for(left, || server.log().contains("ended")), "{line}: it goes on");
            client.signal(Signal::SIGKILL);
            client.end();
        }
    }
}

#[test]
fn no_route() {
    let _alone = alone();
    if !Lab::possible("no_route") {
        return;
    }
    let lab = Lab::pair();
    let ran = linerate(Some(&lab.space("a")), &["udp", "192.0.2.1", "--json"]);
    ran.error("no_route", 3);
}

#[test]
fn a_server_that_is_killed_leaves_what_was_measured() {
    let _alone = alone();
    // As many bytes as half a second has at these rates: several intervals are measured.
    for (line, bytes) in
        [("udp -b 5M", 312_500), ("udp -b 5M --both", 625_000), ("rr --udp --rate 500", 30_000)]
    {
        println!("{line}");
        let server = Server::start(None, &[]);
        let port = server.port.to_string();
        let args: Vec<&str> = line
            .split(' ')
            .chain(["127.0.0.1", "-p", &port, "--json", "-t", "30s", "-i", "100ms"])
            .collect();
        let client = Client::start(None, &args);
        server.says("started", 1);
        server.carries(bytes);
        drop(server);
        let ran = client.end();
        let record = ran.error("server_lost", 1);
        assert_eq!(record["status"], "partial", "{line}");
        let missing = record["doubts"].as_array().unwrap().iter();
        assert!(missing.clone().any(|d| d["kind"] == "peer-values-missing"), "{line}");
    }
}

#[test]
fn a_client_that_is_killed_frees_the_server() {
    let _alone = alone();
    let mut server = Server::start(None, &["--max-tests", "1"]);
    let port = server.port.to_string();
    let base = ["127.0.0.1", "-p", &port, "--json"];
    let before = server.at_rest(None, "127.0.0.1");
    for (i, line) in ["udp -b 5M --both", "tcp -R", "rr"].iter().enumerate() {
        let args: Vec<&str> = line.split(' ').chain(base).chain(["-t", "30s"]).collect();
        let client = Client::start(None, &args);
        let count = |what: &str| server.log().matches(&format!("\"{what}\"")).count();
        assert!(wait_for(LONG, || count("started") == 2 * i + 2), "{line}");
        server.carries(100_000);
        client.signal(Signal::SIGKILL);
        assert_eq!(client.end().code, -1);
        assert!(wait_for(LONG, || count("ended") == 2 * i + 2), "{line}: the test goes on");
        let args: Vec<&str> =
            ["udp"].into_iter().chain(base).chain(["-b", "1M", "-t", "200ms"]).collect();
        linerate(None, &args).complete();
        server.says("\"ended\"", 2 * i + 3);
    }
    assert!(server.alive());
    assert!(
        wait_for(LONG, || {
            let now = server.holds();
            now.descriptors <= before.descriptors && now.threads <= before.threads
        }),
        "{before:?} {:?}",
        server.holds()
    );
}

#[test]
fn ctrl_c_of_the_server_ends_its_tests_with_results() {
    let _alone = alone();
    for line in ["udp -b 5M --both", "tcp -b 10M"] {
        println!("{line}");
        let mut server = Server::start(None, &[]);
        let port = server.port.to_string();
        let args: Vec<&str> = line
            .split(' ')
            .chain(["127.0.0.1", "-p", &port, "--json", "-t", "30s", "-i", "100ms"])
            .collect();
        let client = Client::start(None, &args);
        server.says("\"started\"", 1);
        server.carries(625_000);
        server.signal(Signal::SIGINT);
        let record = client.end().error("server_stopped", 1);
        assert_eq!(record["status"], "partial", "{line}");
        identities(&record);
        assert_eq!(server.ends(LONG), Some(0), "{line}");
    }
}
