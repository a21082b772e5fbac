//! `linerate fleet` with real hosts, which are servers of this machine.

use std::path::{Path, PathBuf};

use crate::schema;
use crate::support::{Ran, Server, alone, linerate};
use serde_json::Value;

/// A folder of a test's own, with a key in it.
fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fleet-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("key"), "a key for tests only, 32 bytes.").expect("a file");
    folder
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// A host; one with rights lets whoever has the key control it.
fn host(folder: &Path, name: &str, rights: bool) -> Server {
    let (key, state) = (path(folder, "key"), path(folder, name));
    let args = ["--key-file", &key, "--allow-settings", "--state-dir", &state];
    Server::start(None, if rights { &args[..] } else { &args[..2] })
}

fn run(folder: &Path, hosts: &[String], before: &[&str], test: &[&str]) -> Ran {
    let (key, hosts) = (path(folder, "key"), hosts.join(","));
    let args = ["fleet", "run", "--hosts", &hosts, "--key-file", &key];
    linerate(None, &[&args[..], before, test].concat())
}

fn document(ran: &Ran) -> Value {
    let value: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.err));
    let schema = serde_json::from_str(&linerate(None, &["schema", "fleet"]).out).expect("JSON");
    schema::validate(&schema, &value).unwrap_or_else(|e| panic!("{e}\n{value}"));
    value
}

#[test]
fn the_rounds_are_shown_and_nothing_is_sent() {
    let ran = linerate(None, &["fleet", "explain", "--hosts", "a,b,c,d", "--share", "link:up=a,b"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    insta::assert_snapshot!(ran.out, @r"
    round 1: a -> d
    round 2: b -> c
    round 3: b -> d
    round 4: a -> c
    round 5: c -> d, a -> b
    6 pairs in 5 rounds; no plan has fewer than 4
    ");
    let refused = linerate(None, &["fleet", "explain", "--hosts", "a,b", "--pairs", "star=c"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("there is no host or group `c`"), "{}", refused.err);
}

#[test]
fn every_pair_of_real_hosts_has_its_figure() {
    let _alone = alone();
    let folder = scratch("all");
    let servers = ["one", "two", "three"].map(|name| host(&folder, name, true));
    let hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port)).collect();
    let records = path(&folder, "records");
    let before = ["--json", "--each-way", "--records", &records];
    let ran = run(&folder, &hosts, &before, &["udp", "-b", "5M", "-t", "300ms"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let value = document(&ran);
    let pairs = value["pairs"].as_array().expect("pairs");
    assert_eq!((pairs.len(), value["rounds"].as_u64()), (6, Some(6)));
    for pair in pairs {
        let bps = pair["value"].as_f64().expect("a figure");
        assert!(bps > 0.0 && bps < 6e6, "{pair}");
    }
    // Each host was a client of both others, by its own log.
    for server in &servers {
        let log = server.log();
        assert_eq!(log.matches("ran a test of udp").count(), 2, "{log}");
    }
    let kept: Vec<_> = std::fs::read_dir(&records).expect("records").flatten().collect();
    assert_eq!(kept.len(), 6);
    let record: Value =
        serde_json::from_slice(&std::fs::read(kept[0].path()).expect("a file")).expect("JSON");
    assert_eq!(record["status"], "complete");
    assert!(record["label"].as_str().expect("its hosts").contains(" -> 127.0.0.1:"), "{record}");
}

#[test]
fn hosts_that_do_not_take_part_leave_gaps_with_reasons() {
    let _alone = alone();
    let folder = scratch("gaps");
    // One that lets nobody control it is a server all the same; at the last nobody listens.
    let servers = [host(&folder, "one", true), host(&folder, "two", false)];
    let mut hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port)).collect();
    hosts.push("127.0.0.1:9".into());
    let ran = run(&folder, &hosts, &["--json", "--retries", "0"], &["rr", "-t", "200ms"]);
    assert_eq!(ran.code, 1, "{}\n{}", ran.err, ran.out);
    let value = document(&ran);
    let pairs = value["pairs"].as_array().expect("pairs");
    let reasons: Vec<&str> = pairs.iter().filter_map(|pair| pair["missing"].as_str()).collect();
    assert_eq!((pairs.len(), reasons.len()), (3, 2), "{value}");
    assert!(pairs[0]["value"].as_f64().expect("a figure") > 0.0, "{value}");
    assert!(reasons[1].contains("lets nobody change settings"), "{reasons:?}");
    let shown = run(&folder, &hosts, &["--retries", "0"], &["rr", "-t", "200ms"]);
    assert_eq!(shown.code, 1);
    assert!(shown.out.contains("1 of 3 pairs measured in 3 rounds"), "{}", shown.out);
}

#[test]
fn what_a_fleet_would_ignore_is_refused() {
    let folder = scratch("refused");
    let hosts = ["a".to_owned(), "b".to_owned()];
    for (test, words) in [
        (&["tcp", "--json"][..], "it stands before the test"),
        (&["tcp", "--watch"], "`--watch`"),
        (&["udp", "-b", "1M", "--web"], "`--web`"),
        (&["sweep"], "udp, tcp or rr"),
        (&["tcp", "-n", "1M"], "say how long"),
        (&["tcp", "c"], "unexpected argument"),
    ] {
        let ran = run(&folder, &hosts, &[], test);
        assert_eq!(ran.code, 2, "{test:?}: {}", ran.err);
        assert!(ran.err.contains(words) || ran.out.contains(words), "{test:?}: {}", ran.err);
    }
}
