//! `linerate fleet` with real hosts, which are servers of this machine or in namespaces.

use std::path::{Path, PathBuf};

use crate::schema;
use crate::support::{Client, Lab, PORT, Ran, Server, alone, linerate, wait_for};
use linerate_testkit::peer::LONG;
use nix::sys::signal::Signal;
use serde_json::Value;

/// A folder of a test's own, with a key in it.
pub(super) fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fleet-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("key"), "a key for tests only, 32 bytes.").expect("a file");
    folder
}

pub(super) fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// A host; one with rights lets whoever has the key control it.
pub(super) fn host(folder: &Path, name: &str, rights: bool) -> Server {
    let (key, state) = (path(folder, "key"), path(folder, name));
    let args = ["--key-file", &key, "--allow-settings", "--state-dir", &state];
    Server::start(None, if rights { &args[..] } else { &args[..2] })
}

fn run(folder: &Path, hosts: &[String], before: &[&str], test: &[&str]) -> Ran {
    let (key, hosts) = (path(folder, "key"), hosts.join(","));
    let args = ["fleet", "run", "--hosts", &hosts, "--key-file", &key];
    linerate(None, &[&args[..], before, test].concat())
}

pub(super) fn document(ran: &Ran) -> Value {
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
        // How much of what was asked for is sent, a busy host decides.
        let bps = pair["value"].as_f64().expect("a figure");
        assert!((0.0..6e6).contains(&bps), "{pair}");
    }
    assert!(pairs.iter().any(|pair| pair["value"].as_f64() > Some(0.0)), "{value}");
    // Each host was a client of both others, by its own log.
    for server in &servers {
        let log = server.says("ran a test of udp", 2);
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
fn a_plan_says_what_options_say() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fleets/two-sites.toml");
    let ran = linerate(None, &["fleet", "explain", "--plan", example]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let end = ran.out.lines().rev().take(2).collect::<Vec<_>>();
    assert_eq!(end[1], "18 pairs in 18 rounds; no plan has fewer than 18");
    assert_eq!(end[0], "12 s a test, 3 min 36 s in all at least");

    let _alone = alone();
    let folder = scratch("plan");
    let servers = ["one", "two"].map(|name| host(&folder, name, true));
    let hosts = servers.each_ref().map(|s| format!("\"127.0.0.1:{}\"", s.port)).join(", ");
    let test = "test = \"rr\"\ntime = \"200ms\"\nmetric = \"latency_p99\"";
    let plan = path(&folder, "plan.toml");
    std::fs::write(&plan, format!("hosts = [{hosts}]\n[test]\n{test}\n")).expect("a file");
    let key = path(&folder, "key");
    let args = ["fleet", "run", "--plan", &plan, "--key-file", &key, "--json"];
    let ran = linerate(None, &args);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let value = document(&ran);
    assert_eq!(value["metric"], "latency_p99", "{value}");
    assert!(value["pairs"][0]["value"].as_f64().expect("a figure") > 0.0, "{value}");

    std::fs::write(&plan, format!("hosts = [{hosts}]\n[test]\n{test}\nrates = 3\n"))
        .expect("a file");
    for (args, words) in [
        (&[&args[..], &["tcp"]].concat()[..], "cannot be used with"),
        (&[&args[..], &["--hosts", "a,b"]].concat(), "cannot be used with"),
        (&args[..], "--rates"),
        (&["fleet", "explain", "--plan", &plan], "--rates"),
        (&["fleet", "explain", "--plan", &key], "cannot use the plan"),
        (&["fleet", "explain", "--plan", "/nowhere/plan"], "cannot read the plan"),
        (&["fleet", "explain"], "--hosts"),
    ] {
        let ran = linerate(None, args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
}

#[test]
fn both_hosts_of_a_test_are_set_and_put_back() {
    let _alone = alone();
    let folder = scratch("set");
    let servers = ["one", "two"].map(|name| host(&folder, name, true));
    let stranger = host(&folder, "three", false);
    let mtu = || crate::support::run("ip", &["link", "show", "lo"]).1.contains("mtu 65536 ");
    assert!(mtu());
    let hosts = [&servers[0], &servers[1]].map(|s| format!("127.0.0.1:{}", s.port));
    let set = ["--set", "mtu=9000", "--json"];
    let ran = run(&folder, &hosts, &set, &["rr", "-t", "200ms"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert_eq!(document(&ran)["set"], serde_json::json!([{ "name": "mtu", "value": 9000 }]));
    for server in &servers {
        server.says("mtu = 9000", 1);
    }
    assert!(wait_for(LONG, mtu), "it is put back");

    let hosts = [&servers[0], &stranger].map(|s| format!("127.0.0.1:{}", s.port));
    let ran =
        run(&folder, &hosts, &[&set[..], &["--retries", "0"]].concat(), &["rr", "-t", "200ms"]);
    assert_eq!(ran.code, 1, "{}\n{}", ran.err, ran.out);
    let why = document(&ran)["pairs"][0]["missing"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("lets nobody change settings"), "{why}");
    let refused = run(&folder, &hosts, &["--set", "offload.nothing=on"], &["rr"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
}

#[test]
fn a_server_takes_all_its_pairs_at_once() {
    let _alone = alone();
    let folder = scratch("at-once");
    let servers = ["one", "two", "three"].map(|name| host(&folder, name, true));
    let hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port)).collect();
    let shape = format!("bipartite={},{}/{}", hosts[0], hosts[1], hosts[2]);
    let before = ["--json", "--pairs", &shape, "--at-once"];
    let ran = run(&folder, &hosts, &before, &["udp", "-b", "2M", "-t", "300ms"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let value = document(&ran);
    assert_eq!((value["rounds"].as_u64(), value["at_once"].as_bool()), (Some(1), Some(true)));
    let refused = run(&folder, &hosts, &["--at-once", "--share", "nic:x=127.0.0.1"], &["rr"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
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
    // Of a moment in which a busy host may have had no core for it.
    assert!(pairs[0]["value"].is_f64(), "{value}");
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

/// Of what comes from these of a lab's hosts, each hundredth datagram is lost on its way into this one. Hellos are
/// 64 bytes long, data more.
pub(super) fn lose(lab: &Lab, into: &str, from: &[u8]) {
    let from: Vec<String> = from.iter().map(|host| format!("10.77.1.{host}")).collect();
    let from = from.join(", ");
    let rules = format!(
        "flush ruleset
table inet lossy {{
    chain ingress {{
        type filter hook prerouting priority -300;
        ip saddr {{ {from} }} udp dport {PORT} udp length > 200 numgen inc mod 100 < 1 drop
    }}
}}
"
    );
    lab.nft(into, &rules);
}

/// Four hosts in namespaces, measured each way four times with a datagram in a hundred lost where `lossy` says.
/// Returns what is kept of it, as JSON and as text.
fn of_four(name: &str, lossy: impl Fn(&Lab)) -> (Value, String) {
    let (lab, folder) = (Lab::hosts(4), scratch(name));
    lossy(&lab);
    let (key, file) = (path(&folder, "key"), path(&folder, "fleet.db"));
    let _servers = ["h1", "h2", "h3", "h4"].map(|space| {
        let state = path(&folder, space);
        let args = ["--key-file", &key, "--allow-settings", "--state-dir", &state];
        Server::on_port(Some(&lab.space(space)), PORT, &args)
    });
    let hosts: Vec<String> = (1..=4).map(four_host).collect();
    let hosts = hosts.join(",");
    let before = ["fleet", "run", "--hosts", &hosts, "--key-file", &key, "--each-way"];
    let more = ["--times", "4", "--metric", "lost_path", "--keep", &file];
    // Slow enough that hosts which share their cores with other work still send most of the 500, of which five are lost.
    let test = ["udp", "-b", "2M", "-l", "500", "-t", "1s"];
    let ran = linerate(Some(&lab.space("r")), &[&before[..], &more, &test].concat());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let shown = linerate(None, &["fleet", "results", &file]);
    println!("{}", shown.out);
    assert!(ran.out.ends_with(&shown.out), "{}\n{}", ran.out, shown.out);
    (document(&linerate(None, &["fleet", "results", &file, "--json"])), shown.out)
}

fn four_host(number: u8) -> String {
    format!("10.77.1.{number}:{PORT}")
}

#[test]
fn a_link_that_loses_is_named_and_no_other() {
    let _alone = alone();
    if !Lab::possible("a_link_that_loses_is_named_and_no_other") {
        return;
    }
    let (value, shown) = of_four("link", |lab| lose(lab, "h3", &[2]));
    let bad = value["verdict"]["bad"].as_array().expect("who is bad");
    let ends: Vec<_> = bad.iter().map(|bad| [bad["from"].as_str(), bad["to"].as_str()]).collect();
    let (from, to) = (four_host(2), four_host(3));
    assert_eq!(ends, [[Some(from.as_str()), Some(to.as_str())]], "{shown}");
    assert!(shown.contains(&format!("\nbad link: {from} -> {to}, ")), "{shown}");
}

#[test]
#[ignore = "long"]
fn a_host_that_loses_is_named_and_no_other() {
    let _alone = alone();
    if !Lab::possible("a_host_that_loses_is_named_and_no_other") {
        return;
    }
    // All that is sent to it, and all that it sends.
    let (value, shown) = of_four("host", |lab| {
        lose(lab, "h3", &[1, 2, 4]);
        ["h1", "h2", "h4"].iter().for_each(|into| lose(lab, into, &[3]));
    });
    let bad = value["verdict"]["bad"].as_array().expect("who is bad");
    let named: Vec<_> = bad.iter().map(|bad| bad["host"].as_str()).collect();
    let host = four_host(3);
    assert_eq!(named, [Some(host.as_str())], "{shown}");
    assert!(shown.contains(&format!("\nbad host: {host}, ")), "{shown}");
}

/// It waits until the lease of the test that was under way is over, which is a minute.
#[test]
#[ignore = "long"]
fn a_run_that_was_killed_goes_on_and_measures_nothing_twice() {
    let _alone = alone();
    let folder = scratch("killed");
    let servers = ["one", "two", "three"].map(|name| host(&folder, name, true));
    let hosts: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port)).collect();
    let (key, file, hosts) = (path(&folder, "key"), path(&folder, "fleet.db"), hosts.join(","));
    let before = ["fleet", "run", "--hosts", &hosts, "--key-file", &key, "--times", "3", "--json"];
    let test = ["udp", "-b", "5M", "-t", "500ms"];
    let all = |more: &[&'static str]| {
        let words = [&before[..], &["--keep", &file], more, &test].concat();
        words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let first = all(&[]);
    let first = Client::start(None, &first.iter().map(String::as_str).collect::<Vec<_>>());
    let kept = || {
        let ran = linerate(None, &["fleet", "results", &file, "--json"]);
        serde_json::from_str::<Value>(&ran.out).unwrap_or_default()
    };
    let values = |value: &Value| -> Vec<Option<f64>> {
        let pairs = value["pairs"].as_array().cloned().unwrap_or_default();
        let of = |pair: &Value| pair["values"].as_array().cloned().unwrap_or_default();
        pairs.iter().flat_map(of).map(|value| value.as_f64()).collect()
    };
    let measured = || values(&kept()).iter().flatten().count();
    assert!(wait_for(LONG, || measured() >= 2), "nothing is kept");
    first.signal(Signal::SIGKILL);
    first.end();
    let before = values(&kept());
    let had = before.iter().flatten().count();
    assert!((2..9).contains(&had), "{before:?}");
    let again = all(&["--resume"]);
    let ran = linerate(None, &again.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let value = document(&ran);
    let after = values(&value);
    assert_eq!(after.iter().flatten().count(), 9, "{value}");
    for (before, after) in before.iter().zip(&after) {
        assert!(before.is_none() || before == after, "{before:?} {after:?}");
    }
    // One at most was under way when it was killed.
    let pairs = value["pairs"].as_array().expect("pairs");
    let tries: u64 = pairs.iter().filter_map(|pair| pair["tries"].as_u64()).sum();
    assert!((9..=10).contains(&tries), "{value}");
    assert_eq!(kept()["pairs"], value["pairs"]);
}
