//! Tests of every kind at a server that gave up much, and what it says of that.

#![allow(dead_code, reason = "each file of tests uses its own part of this")]

use linerate_testkit::peer::LONG;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::iperf3::{Iperf3, installed};
use crate::support::{Server, cores, linerate, wait_for};

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
    "-t 1 -b 10M -A CORE,CORE --bidir",
];

/// What every thread of a server says of one thing in its /proc/PID/task/*/status.
pub fn of_threads(server: &Server, field: &str) -> BTreeMap<String, String> {
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
pub fn sandboxed(server: &Server) -> Value {
    let find = || {
        let log = server.log();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.into_iter().find(|line| line["event"] == "sandboxed")
    };
    assert!(wait_for(LONG, || find().is_some()), "{}", server.log());
    find().expect("it is there")
}

/// Tests of every kind, whole; and this server says of its host what one without restrictions does.
pub fn every_kind(server: &Server) {
    let free = Server::start(None, &["--no-sandbox"]);
    let known = |port: u16| -> Value {
        let port = port.to_string();
        linerate(None, &["udp", "127.0.0.1", "-p", &port, "-b", "20M", "-t", "300ms", "--json"])
            .complete()["server"]
            .clone()
    };
    // What a busy host did not say of itself in time is in neither for long.
    let alike = wait_for(LONG, || known(server.port) == known(free.port));
    assert!(alike, "{}\n{}", known(server.port), known(free.port));
    drop(free);
    let port = server.port.to_string();
    for line in KINDS {
        println!("{line}");
        let (verb, options) = line.split_once(' ').expect("options");
        let mut args = vec![verb, "127.0.0.1", "-p", &port, "--json"];
        args.extend(options.split(' '));
        linerate(None, &args).complete();
    }
    if server.log().contains(r#""dialect":"iperf2""#) {
        for line in ["udp 127.0.0.1 -b 2M", "tcp 127.0.0.1 -b 2M -R"] {
            println!("{line} --dialect iperf2");
            // An amount, which is sent however long others keep the sending thread from its core.
            let args = [line, "-n 60K --json --dialect iperf2"].join(" ");
            let record = linerate(None, &args.split(' ').collect::<Vec<_>>()).record();
            assert_eq!(record["status"], "complete", "{record}");
        }
    }
    if installed("every_kind") {
        let core = cores().first().expect("a core").to_string();
        for line in OF_IPERF3 {
            let line = &line.replace("CORE", &core);
            println!("iperf3 {line}");
            Iperf3::here("127.0.0.1", server.port, line).end().well();
        }
    }
}

/// No thread of a server may do more than another.
pub fn all_threads_say(server: &Server, field: &str, value: &str) {
    let said = of_threads(server, field);
    assert!(said.len() > 1 && said.values().all(|said| said == value), "{field}: {said:?}");
}
