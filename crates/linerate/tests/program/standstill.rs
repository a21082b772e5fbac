//! Which end did not run, or lost its link, is named, and leaves a doubt where the test goes on.

use crate::support::iperf3;
use linerate_testkit::peer::LONG;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::iperf3::Iperf3;
use crate::support::{Client, Lab, Server, alone, list, number, often, skip_busy, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Longer than what is taken for a pause of the scheduler.
const LONG_MS: u64 = 1_700;

/// A client whose test runs at both ends.
fn running(server: &Server, space: Option<&str>, line: &str) -> Client {
    let earlier = server.log().matches("\"started\"").count();
    let port = server.port.to_string();
    let words: Vec<&str> = line.split(' ').chain(["-p", &port, "--json"]).collect();
    let client = Client::start(space, &words);
    let started = || server.log().matches("\"started\"").count() > earlier;
    assert!(wait_for(LONG, || started() && client.has_stream()), "{}", server.log());
    server.carries(10_000);
    client
}

/// The threads of a process that are there.
fn threads(pid: u32) -> impl Iterator<Item = PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    tasks.flatten().map(|task| task.path())
}

/// Keeps a process stopped for so long, while `meanwhile` happens; returns for how long it was.
fn stopped(pid: u32, ms: u64, meanwhile: impl FnOnce()) -> Duration {
    let signal = |signal: Signal| {
        kill(Pid::from_raw(pid.cast_signed()), signal).expect("the process is there");
    };
    signal(Signal::SIGSTOP);
    let begun = Instant::now();
    // One that waits for a core stops once it has one, and what it waited is no stop.
    let stands = |thread: PathBuf| {
        let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
    };
    assert!(wait_for(LONG, || threads(pid).all(stands)), "it goes on");
    meanwhile();
    std::thread::sleep(Duration::from_millis(ms));
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
        ("udp 127.0.0.1 -b 2M -t 6s", "server"),
        ("tcp 127.0.0.1 -b 2M -t 6s -R", "client"),
        ("rr 127.0.0.1 --rate 100 -t 6s", "server"),
    ] {
        let server = Server::start(None, &[]);
        let client = running(&server, None, line);
        let pid = if end == "server" { server.pid() } else { client.pid() };
        let took = stopped(pid, 700, || ());
        let record = client.end().complete();
        let seconds = |text: &str| -> f64 {
            text.split(' ').nth(6).and_then(|word| word.parse().ok()).expect(text)
        };
        let of_end = |text: &&str| text.contains(&format!("the {end} did not run for "));
        let (found, others): (Vec<_>, Vec<_>) =
            doubts_of_a_stop(&record).into_iter().partition(of_end);
        let [text] = found[..] else { panic!("{line}: {}", record["doubts"]) };
        println!("{line}: {text}");
        let told = seconds(text);
        // Where the whole machine stood still meanwhile, both did, for less than the one that was stopped.
        assert!(others.iter().all(|other| seconds(other) < told / 2.0), "{line}: {others:?}");
        assert!(told > 0.5 && told < took.as_secs_f64() + 0.5, "{told} of {took:?}");
    }
}

#[test]
fn a_client_that_was_stopped_does_not_blame_its_server() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let client = running(&server, None, "udp 127.0.0.1 -b 2M -t 60s");
    client.signal(Signal::SIGSTOP);
    server.says("\"ended\"", 1);
    assert!(server.log().contains("fell silent"), "{}", server.log());
    client.signal(Signal::SIGCONT);
    let record = client.end().error("server_lost", 1);
    let why = record["error"]["why"].as_str().unwrap();
    assert!(why.contains("this end itself did not run for"), "{why}");
    assert_eq!(doubts_of_a_stop(&record).len(), 1, "{}", record["doubts"]);
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
    server.says("\"ended\"", 1);
    assert!(server.log().contains("this end itself did not run for"), "{}", server.log());
}

#[test]
fn a_lost_link_and_a_lost_address_are_named() {
    let _alone = alone();
    if !Lab::possible("a_lost_link_and_a_lost_address_are_named") {
        return;
    }
    // Where, what changes there, and what the client says of it.
    let changes = [
        ("a", "ip link set eth0 down", "its own interface eth0 is down"),
        ("a", "ip addr flush dev eth0", "this host has lost its address 10.77.1.1"),
        // The other end of the cable.
        ("b", "ip link set eth0 down", "its own interface eth0 has no carrier"),
    ];
    often(8, &changes, |(space, change, why)| {
        let lab = Lab::pair();
        let server = lab.serve();
        let client = running(&server, Some(&lab.space("a")), "udp 10.77.1.2 -b 2M -t 60s");
        lab.run(space, change);
        let record = client.end().error("server_lost", 1);
        let told = record["error"]["why"].as_str().unwrap();
        assert!(told.contains(why), "{change} in {space}: {told}");
        assert_eq!(record["status"], "partial", "{change} in {space}");
        assert!(number(&record, "totals.sender.datagrams") > 0, "{change} in {space}");
        if *space == "b" {
            server.says("\"ended\"", 1);
            let log = server.log();
            assert!(log.contains("its own interface eth0 is down"), "{log}");
        }
    });
}

#[test]
fn a_link_that_comes_back_leaves_a_doubt_with_its_length() {
    const TEST: &str = "a_link_that_comes_back_leaves_a_doubt_with_its_length";
    let _alone = alone();
    if !Lab::possible(TEST) {
        return;
    }
    // How often the thread that looks at links has woken.
    let beats = |pid: u32| -> u64 {
        let read = |thread: PathBuf| std::fs::read_to_string(thread.join("status")).ok();
        let mut all = threads(pid).filter_map(read);
        let pulse = all.find(|status| status.starts_with("Name:\tpulse\n")).expect("a pulse");
        let count = pulse.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse().ok()).expect("a count")
    };
    // Where it is set down, and whose it is. What the other end lost the kernel may report too late to be seen.
    let ends = [("a", "client"), ("b", "server")];
    often(4, &ends, |(space, end)| {
        let lab = Lab::pair();
        let server = lab.serve();
        // Both ways: each end hears data at once when the link is back, and what TCP repeats only after seconds.
        let client = running(&server, Some(&lab.space("a")), "udp 10.77.1.2 -b 2M -t 8s --both");
        let pid = if *end == "server" { server.pid() } else { client.pid() };
        let begun = Instant::now();
        lab.run(space, "ip link set eth0 down");
        // A beat takes 20 ms.
        let before = beats(pid);
        assert!(wait_for(LONG, || beats(pid) >= before + 30), "its pulse stands still");
        lab.run(space, "ip link set eth0 up");
        let took = begun.elapsed();
        let record = client.end().complete();
        if record[*end]["nic"].is_null() {
            return skip_busy(TEST, "which interface it was, the kernel did not tell in time");
        }
        let doubts = list(&record["doubts"]).iter().filter(|doubt| doubt["kind"] == "link-lost");
        let texts: Vec<_> = doubts.map(|doubt| doubt["text"].as_str().expect("a text")).collect();
        println!("{space}: {texts:?} of {took:?}");
        let start = format!("the {end}'s interface was down or had no carrier for at least ");
        let of_end = texts.iter().find_map(|text| text.strip_prefix(&start));
        let lost = of_end.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let lost = lost.unwrap_or_else(|| panic!("{space}: {}", record["doubts"]));
        assert!(lost > 0.2 && lost <= took.as_secs_f64(), "{lost} of {took:?}");
        // A test beside which nothing changes has none.
        let quiet = lab.client("udp", "10.77.1.2", "-b 2M -t 300ms");
        assert!(!quiet.complete()["doubts"].to_string().contains("link-lost"));
    });
}

/// Who was killed while this end was stopped left nobody blamed for silence, in iperf3's dialect too.
#[test]
fn a_stop_is_named_in_iperf3s_dialect() {
    let _alone = alone();
    if !iperf3::possible("a_stop_is_named_in_iperf3s_dialect") {
        return;
    }
    let own = "this end itself did not run for";
    let server = Server::start(None, &[]);
    let client = Iperf3::here("127.0.0.1", server.port, "-u -b 1M -t 60");
    server.says("\"started\"", 1);
    stopped(server.pid(), LONG_MS, || client.kill());
    server.says("\"ended\"", 1);
    assert!(server.log().contains(own), "{}", server.log());

    // The last record is of the face, which prints what iperf3 would.
    let args = ["iperf3", "-c", "127.0.0.1", "-p", &server.port.to_string(), "-u", "-t", "60"];
    let client = Client::start(None, &args);
    let started = || server.log().matches("\"started\"").count() == 2;
    assert!(wait_for(LONG, || started() && client.has_stream()), "{}", server.log());
    stopped(client.pid(), LONG_MS, || server.signal(Signal::SIGKILL));
    let ran = client.end();
    assert!(ran.err.contains(own) || ran.out.contains(own), "{}{}", ran.out, ran.err);
}
