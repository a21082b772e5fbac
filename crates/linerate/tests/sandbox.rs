//! What a server gives up at its start, and that tests of every kind go on all the same.

#[path = "support/iperf3.rs"]
mod iperf3;
mod support;

use std::collections::BTreeMap;

use iperf3::{HANGS, Iperf3, installed};
use serde_json::{Value, json};
use support::{Server, alone, linerate, skip, wait_for};

const KINDS: &[&str] = &[
    "udp -b 20M -t 300ms -i 100ms",
    "udp -b 20M -t 300ms -R --engine gso",
    "udp -b 20M -t 300ms --both -P 2 --engine mmsg",
    "udp -b 2M -t 300ms --engine send --no-checksum",
    "udp -b 20M -t 300ms -w 8M",
    "tcp -b 50M -t 300ms -P 2",
    "tcp -b 50M -t 300ms -R -C reno",
    "tcp -b 50M -t 300ms --both --rx truncate",
    "rr -t 300ms --rate 1k",
    "rr -t 300ms --udp --rate 1k --outstanding 4",
];

const OF_IPERF3: &[&str] = &[
    "-t 1 -b 10M",
    "-t 1 -b 10M -R",
    "-t 1 -b 10M -u",
    "-t 1 -b 10M -u -R",
    "-t 1 -b 10M -Z -R",
    "-t 1 -b 10M -A 0,0 --bidir",
];

/// What every thread of a server says of one thing in its /proc/PID/task/*/status.
fn of_threads(server: &Server, field: &str) -> BTreeMap<String, String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("threads");
    let said = threads.flatten().filter_map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches(':').trim().to_owned())
        };
        Some((of("Name")?, of(field)?))
    });
    said.collect()
}

/// The line with which a server says what it gave up.
fn sandboxed(server: &Server) -> Value {
    let find = || {
        let log = server.log();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.into_iter().find(|line| line["event"] == "sandboxed")
    };
    assert!(wait_for(HANGS, || find().is_some()), "{}", server.log());
    find().expect("it is there")
}

/// Tests of every kind, whole; and this server says of its host what one without restrictions does.
fn every_kind(server: &Server) {
    let free = Server::start(None, &["--no-sandbox"]);
    let known = |port: u16| -> Value {
        let port = port.to_string();
        linerate(None, &["udp", "127.0.0.1", "-p", &port, "-b", "20M", "-t", "300ms", "--json"])
            .complete()["server"]
            .clone()
    };
    assert_eq!(known(server.port), known(free.port));
    drop(free);
    let port = server.port.to_string();
    for line in KINDS {
        println!("{line}");
        let (verb, options) = line.split_once(' ').expect("options");
        let mut args = vec![verb, "127.0.0.1", "-p", &port, "--json"];
        args.extend(options.split(' '));
        linerate(None, &args).complete();
    }
    if installed("every_kind") {
        for line in OF_IPERF3 {
            println!("iperf3 {line}");
            Iperf3::here("127.0.0.1", server.port, line).end().well();
        }
    }
}

/// No thread of a server may do more than another.
fn all_threads_say(server: &Server, field: &str, value: &str) {
    let said = of_threads(server, field);
    assert!(said.len() > 1 && said.values().all(|said| said == value), "{field}: {said:?}");
}

#[test]
fn tests_of_every_kind_go_on_within_the_sandbox() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let said = sandboxed(&server);
    assert_eq!(said["seccomp"], json!({"on": true}), "{said}");
    assert_eq!(said["uid"], nix::unistd::geteuid().as_raw());
    assert!(said["user"].is_null(), "{said}");
    every_kind(&server);
    all_threads_say(&server, "Seccomp", "2");
    all_threads_say(&server, "NoNewPrivs", "1");
}

#[test]
fn tests_of_every_kind_go_on_as_another_user() {
    if !nix::unistd::geteuid().is_root() {
        skip("tests_of_every_kind_go_on_as_another_user", "not root");
        return;
    }
    let _alone = alone();
    let server = Server::start(None, &["--user", "nobody"]);
    let said = sandboxed(&server);
    let nobody = nix::unistd::User::from_name("nobody").unwrap().expect("nobody").uid;
    assert_eq!((&said["user"], &said["uid"]), (&json!("nobody"), &json!(nobody.as_raw())));
    every_kind(&server);
    let uid = format!("{nobody}\t{nobody}\t{nobody}\t{nobody}");
    all_threads_say(&server, "Uid", &uid);
    for field in ["CapPrm", "CapEff", "CapAmb"] {
        all_threads_say(&server, field, "0000000000000000");
    }
    // Not root's groups, which a change of the user alone would leave.
    let groups = of_threads(&server, "Groups");
    let kept = |groups: &String| groups.split_whitespace().any(|group| group == "0");
    assert!(!groups.values().any(kept), "{groups:?}");
}

#[test]
fn a_server_that_could_not_serve_as_the_user_ends_at_its_start() {
    let _alone = alone();
    // UDP streams bind the server's port while it serves, which is root's here.
    let of_root = ["--port", "701", "--user", "nobody"];
    for (args, why) in
        [(["--port", "0", "--user", "no-such-user"], "no such user"), (of_root, "may not bind")]
    {
        let ran = linerate(None, &[&["serve"], &args[..]].concat());
        assert!(
            ran.code > 0 && ran.err.contains("error: cannot") && ran.err.contains(why),
            "{ran:?}"
        );
    }
}

#[test]
fn without_a_sandbox_nothing_is_taken_and_the_server_says_so() {
    let _alone = alone();
    let server = Server::start(None, &["--no-sandbox"]);
    let said = sandboxed(&server);
    let off = json!({"on": false, "why": "--no-sandbox"});
    assert_eq!((&said["landlock"], &said["seccomp"]), (&off, &off));
    all_threads_say(&server, "Seccomp", "0");
}
