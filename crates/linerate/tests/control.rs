//! What can go wrong around a test: errors in words and codes, peers that vanish, Ctrl-C at either
//! end. Nothing here asks how long it took, only that it ends.

mod support;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::{Client, Lab, Server, alone, identities, linerate, number, wait_for};

/// Enough for every deadline of the protocol.
const SECONDS: Duration = Duration::from_secs(20);

fn key_file(name: &str, key: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("lr-{}-{name}.key", std::process::id()));
    std::fs::write(&path, key).unwrap();
    path
}

#[test]
fn servers_that_are_not_there() {
    let _alone = alone();
    let ran = linerate(None, &["udp", "no-such-host.invalid", "--json"]);
    let record = ran.error("unknown_host", 3);
    assert_eq!(record["status"], "failed");
    let free = support::free_port();
    let port = free.to_string();
    let record = linerate(None, &["tcp", "127.0.0.1", "-p", &port, "--json"]).error("refused", 3);
    assert!(record["error"]["hints"][0].as_str().unwrap().contains("linerate serve --port"));
    // Somebody else's port: it says nothing that is a frame.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let ran = linerate(None, &["udp", "127.0.0.1", "-p", &port, "--json"]);
    let kind = ran.record()["error"]["kind"].clone();
    assert!(kind == "not_linerate" || kind == "server_lost", "{kind}");
    other.join().unwrap();
}

#[test]
fn keys() {
    let _alone = alone();
    let (right, wrong) =
        (key_file("right", "sixteen bytes or more"), key_file("wrong", "another sixteen bytes"));
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let server = Server::start(None, &["--key-file", right]);
    let port = server.port.to_string();
    let base = ["udp", "127.0.0.1", "-p", &port, "-b", "1M", "-t", "200ms", "--json"];
    linerate(None, &base).error("key", 3);
    linerate(None, &[&base[..], &["--key-file", wrong]].concat()).error("key", 3);
    linerate(None, &[&base[..], &["--key-file", right]].concat()).complete();
    // A server without the key is not trusted by a client that has one.
    let open = Server::start(None, &[]);
    let port = open.port.to_string();
    let args = ["udp", "127.0.0.1", "-p", &port, "-t", "200ms", "--json", "--key-file", right];
    linerate(None, &args).error("key", 3);
    for file in [right, wrong] {
        std::fs::remove_file(file).unwrap();
    }
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

#[test]
fn a_servers_policy_is_told() {
    let _alone = alone();
    let limits = ["--max-rate", "5M", "--max-duration", "2s", "--max-streams", "2"];
    let server = Server::start(None, &limits);
    let port = server.port.to_string();
    for line in ["-b 6M -t 1s", "-b max -t 1s", "-b 1M -t 3s", "-b 1M -t 1s -O 2s", "-b 1M -P 3"] {
        let args: Vec<&str> = ["udp", "127.0.0.1", "-p", &port, "--json"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        linerate(None, &args).error("policy", 3);
    }
    let args = ["udp", "127.0.0.1", "-p", &port, "--json", "-b", "5M", "-t", "300ms", "-P", "2"];
    linerate(None, &args).complete();
    // A core that is not there.
    let args =
        ["udp", "127.0.0.1", "-p", &port, "--json", "-b", "1M", "-t", "1s", "--cpu", "/8000"];
    linerate(None, &args).error("unable", 3);
    let args = ["udp", "127.0.0.1", "-p", &port, "--json", "-b", "1M", "-t", "1s", "--cpu", "8000"];
    linerate(None, &args).error("no_core", 2);
}

#[test]
fn a_full_server_is_busy_and_free_again() {
    let _alone = alone();
    // A test of one stream counts as a little more than 3 MiB.
    for limit in [["--max-tests", "1"], ["--max-memory", "6Mi"]] {
        let server = Server::start(None, &limit);
        let port = server.port.to_string();
        let base = ["udp", "127.0.0.1", "-p", &port, "--json", "-b", "1M"];
        let first = Client::start(None, &[&base[..], &["-t", "3s"]].concat());
        assert!(wait_for(SECONDS, || server.log().contains("started")));
        linerate(None, &[&base[..], &["-t", "200ms"]].concat()).error("busy", 3);
        first.end().complete();
        assert!(wait_for(SECONDS, || server.log().contains("ended")));
        linerate(None, &[&base[..], &["-t", "200ms"]].concat()).complete();
    }
}

#[test]
fn memory_has_a_limit_over_all_tests() {
    let _alone = alone();
    let server = Server::start(None, &["--max-memory", "256Mi"]);
    let port = server.port.to_string();
    // 16 threads with a block of 4 MiB each: three such tests fit.
    let greedy = || {
        let line = "tcp 127.0.0.1 --json -R -b 800M -l 4Mi -P 16 -t 1500ms -p";
        Client::start(None, &line.split(' ').chain([&port[..]]).collect::<Vec<_>>())
    };
    let running: Vec<Client> = (0..4).map(|_| greedy()).collect();
    let mut codes: Vec<i32> = running.into_iter().map(|client| client.end().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 0, 0, 3]);
    // By count, an hour of rows for each of 256 threads does not fit at all.
    let args = ["udp", "127.0.0.1", "-p", &port, "--json", "-P", "128", "--both", "-k", "1M"];
    let record = linerate(None, &args).error("policy", 3);
    assert!(record["error"]["why"].as_str().unwrap().contains("allows 256 MiB"), "{record}");
}

#[test]
fn a_test_by_count_ends_at_the_servers_longest_time() {
    let _alone = alone();
    for way in ["", "-R"] {
        let server = Server::start(None, &["--max-duration", "1s"]);
        let port = server.port.to_string();
        let mut args =
            vec!["udp", "127.0.0.1", "-p", &port, "--json", "-b", "1000pps", "-k", "100000"];
        args.extend((way == "-R").then_some(way));
        let record = linerate(None, &args).error("server_stopped", 1);
        assert_eq!(record["status"], "partial");
        let seconds = support::real(&record, "totals.sender.seconds");
        assert!((0.9..5.0).contains(&seconds), "{seconds} s of 1 s");
        identities(&record);
    }
}

/// Promised are 3 s; the rest is for a busy machine.
const NOTICED: Duration = Duration::from_secs(6);

#[test]
fn a_peer_that_vanishes_is_noticed_in_time() {
    let _alone = alone();
    let lines = ["udp -b 5M", "udp -b 5M -R", "tcp", "tcp -R"];
    // Every line twice: once the server freezes, once the client, all at the same time.
    let pairs: Vec<(&str, Server, Client)> = lines
        .iter()
        .flat_map(|line| [*line; 2])
        .map(|line| {
            let server = Server::start(None, &[]);
            let port = server.port.to_string();
            let args: Vec<&str> =
                line.split(' ').chain(["127.0.0.1", "-p", &port, "--json", "-t", "30s"]).collect();
            let client = Client::start(None, &args);
            assert!(wait_for(SECONDS, || server.log().contains("started")), "{line}");
            (line, server, client)
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
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
#[ignore = "long"]
fn a_warm_up_can_be_left_as_well() {
    let _alone = alone();
    let lines = ["udp -b 5M", "udp -b 5M -R", "udp -b 5M --both", "tcp", "tcp -R", "rr"];
    for (i, line) in lines.iter().enumerate() {
        // Ctrl-C of the client each time, then one that is killed, and Ctrl-C of the server.
        for who in ["client", "killed", "server"].into_iter().take(if i == 1 { 3 } else { 1 }) {
            println!("{line}, {who}");
            let mut server = Server::start(None, &[]);
            let port = server.port.to_string();
            let args: Vec<&str> = line
                .split(' ')
                .chain(["127.0.0.1", "-p", &port, "--json", "-t", "1s", "-O", "50s"])
                .collect();
            let client = Client::start(None, &args);
            assert!(wait_for(SECONDS, || server.log().contains("started")), "{line}");
            std::thread::sleep(Duration::from_millis(400));
            let begun = Instant::now();
            match who {
                "client" => {
                    client.signal(Signal::SIGINT);
                    let record = client.end().error("interrupted", 130);
                    assert_ne!(record["status"], "invalid", "{line}");
                }
                "server" => {
                    server.signal(Signal::SIGINT);
                    client.end().error("server_stopped", 1);
                    assert_eq!(server.ends(SECONDS), Some(0), "{line}");
                }
                _ => {
                    client.signal(Signal::SIGKILL);
                    client.end();
                }
            }
            assert!(wait_for(SECONDS, || server.log().contains("ended")), "{line}: it goes on");
            assert!(begun.elapsed() < SECONDS, "{line}: {:?}", begun.elapsed());
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
    for line in ["udp -b 5M", "udp -b 5M -R", "udp -b 5M --both", "tcp", "tcp -R", "rr", "rr --udp"]
    {
        println!("{line}");
        let server = Server::start(None, &[]);
        let port = server.port.to_string();
        let args: Vec<&str> = line
            .split(' ')
            .chain(["127.0.0.1", "-p", &port, "--json", "-t", "30s", "-i", "100ms"])
            .collect();
        let client = Client::start(None, &args);
        assert!(wait_for(SECONDS, || server.log().contains("started")));
        std::thread::sleep(Duration::from_millis(700));
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
    for (i, line) in
        ["udp -b 5M", "udp -b 5M -R", "udp -b 5M --both", "tcp", "tcp -R", "rr"].iter().enumerate()
    {
        let args: Vec<&str> = line.split(' ').chain(base).chain(["-t", "30s"]).collect();
        let client = Client::start(None, &args);
        let count = |what: &str| server.log().matches(&format!("\"{what}\"")).count();
        assert!(wait_for(SECONDS, || count("started") == 2 * i + 2), "{line}");
        std::thread::sleep(Duration::from_millis(300));
        client.signal(Signal::SIGKILL);
        assert_eq!(client.end().code, -1);
        assert!(wait_for(SECONDS, || count("ended") == 2 * i + 2), "{line}: the test goes on");
        let args: Vec<&str> =
            ["udp"].into_iter().chain(base).chain(["-b", "1M", "-t", "200ms"]).collect();
        linerate(None, &args).complete();
        assert!(wait_for(SECONDS, || server.log().matches("\"ended\"").count() == 2 * i + 3));
    }
    assert!(server.alive());
    assert!(
        wait_for(SECONDS, || {
            let now = server.holds();
            now.descriptors <= before.descriptors && now.threads <= before.threads
        }),
        "{before:?} {:?}",
        server.holds()
    );
}

#[test]
fn ctrl_c_of_the_client_keeps_what_was_measured() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let port = server.port.to_string();
    for line in ["udp -b 5M", "udp -b 5M -R", "udp -b 5M --both", "tcp", "tcp -R", "rr"] {
        println!("{line}");
        let args: Vec<&str> = line
            .split(' ')
            .chain(["127.0.0.1", "-p", &port, "--json", "-t", "30s", "-i", "100ms"])
            .collect();
        let before = server.log().matches("\"started\"").count();
        let client = Client::start(None, &args);
        assert!(wait_for(SECONDS, || server.log().matches("\"started\"").count() > before));
        // In the last moments of an interval, the worst place to be cut.
        std::thread::sleep(Duration::from_millis(690));
        client.signal(Signal::SIGINT);
        let record = client.end().error("interrupted", 130);
        assert_eq!(record["status"], "partial", "{line}");
        // Both ends told what they have, so the counts hold.
        identities(&record);
    }
}

#[test]
fn ctrl_c_of_the_server_ends_its_tests_with_results() {
    let _alone = alone();
    for line in ["udp -b 5M", "udp -b 5M -R", "tcp", "tcp -R", "rr"] {
        println!("{line}");
        let mut server = Server::start(None, &[]);
        let port = server.port.to_string();
        let args: Vec<&str> = line
            .split(' ')
            .chain(["127.0.0.1", "-p", &port, "--json", "-t", "30s", "-i", "100ms"])
            .collect();
        let client = Client::start(None, &args);
        assert!(wait_for(SECONDS, || server.log().contains("\"started\"")));
        std::thread::sleep(Duration::from_millis(700));
        server.signal(Signal::SIGINT);
        let record = client.end().error("server_stopped", 1);
        assert_eq!(record["status"], "partial", "{line}");
        identities(&record);
        assert_eq!(server.ends(SECONDS), Some(0), "{line}");
    }
}

#[test]
fn one_off_ends_after_one_test() {
    let _alone = alone();
    let mut server = Server::start(None, &["--one-off"]);
    let port = server.port.to_string();
    let args = ["udp", "127.0.0.1", "-p", &port, "--json", "-b", "1M", "-t", "200ms"];
    let record = linerate(None, &args).complete();
    assert!(number(&record, "totals.sender.datagrams") > 0);
    assert_eq!(server.ends(SECONDS), Some(0));
}
