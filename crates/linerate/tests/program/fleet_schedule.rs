//! `linerate fleet schedule`: what the program says, posts and ends with. Its months are tried under a made-up clock in
//! `linerate-drive/src/fleet/tests/schedule.rs`.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use linerate_model::campaign::{Event, RunState, StoredRun};
use linerate_store::Campaign;
use linerate_testkit::peer::LONG;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::fleet::{path, scratch};
use crate::schema;
use crate::support::{Client, Ran, Server, alone, linerate, wait_for};

fn words(folder: &Path, hosts: &str, more: &[&str]) -> Vec<String> {
    let (key, file) = (path(folder, "key"), path(folder, "fleet.db"));
    let before = ["fleet", "schedule", "--hosts", hosts, "--key-file", &key, "--keep", &file];
    let test = ["rr", "-t", "200ms"];
    [&before[..], more, &test].concat().iter().map(|word| (*word).to_owned()).collect()
}

fn ran(words: &[String]) -> Ran {
    linerate(None, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// As if a pair had been measured so many times more, an hour apart.
fn measured(file: &Path, first: u32, values: &[f64]) {
    let mut store = Campaign::open(file).expect("a store");
    for (slot, value) in (first..).zip(values) {
        let at = format!("2026-11-{:02}T{:02}:00:00Z", 1 + slot / 24, slot % 24);
        let run = StoredRun {
            id: 0,
            slot,
            attempt: 1,
            state: RunState::Counted,
            boot: 0,
            boot_id: None,
            block: 1,
            setting: "a -> b".into(),
            warmup: false,
            number: slot + 1,
            started: at.clone(),
            seconds: 0.2,
            value: Some(*value),
            metric: "transactions_per_second".into(),
            unit: Some("1/s".into()),
            record: None,
            settings: vec![],
            doubts: vec![],
            error: None,
        };
        store.keep(&at, &Event::RunBegan { slot, attempt: 1, extra: false }).expect("kept");
        let ended = Event::RunEnded { slot, attempt: 1, extra: false, state: RunState::Counted };
        store.keep_run(&at, &run, &ended).expect("kept");
    }
}

/// Answers the first post with 500 and the others with 204; hands out what was posted. It ends with the test.
fn receiver() -> (u16, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let (give, take) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else { return };
            let mut reader = BufReader::new(stream);
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(value) = line.strip_prefix("Content-Length: ") {
                    length = value.trim().parse().expect("a number");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let answer = if number == 0 { "500 Not now" } else { "204 No Content" };
            let _ = write!(reader.get_mut(), "HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n");
            if give.send(serde_json::from_slice(&body).expect("JSON")).is_err() {
                return;
            }
        }
    });
    (port, take)
}

#[test]
fn a_change_is_shown_once_posted_until_it_is_taken_and_has_an_exit_code() {
    let _alone = alone();
    let folder = scratch("schedule-change");
    let (file, hosts) = (folder.join("fleet.db"), "127.0.0.1:9,127.0.0.1:10");
    let (port, posted) = receiver();
    let address = format!("http://127.0.0.1:{port}/changes");
    // No moment comes in a second, but what was kept is looked at.
    let for_a_second = ["--every", "1d", "--for", "1s", "--resume", "--webhook", &address];
    let words = words(&folder, hosts, &for_a_second);
    let first = ran(&words);
    assert_eq!((first.code, first.out.as_str()), (0, ""), "{}", first.err);
    let noise = |at: u32| f64::from((at * 7_919) % 100) / 100.0;
    let values: Vec<f64> =
        (0..60).map(|at| if at < 50 { 94.1 } else { 47.0 } + noise(at)).collect();
    measured(&file, 0, &values);

    let told = ran(&words);
    assert_eq!(told.code, 0, "{}", told.err);
    let line = "changed: 127.0.0.1:9 -> 127.0.0.1:10, 94.";
    assert!(
        told.out.starts_with(line) && told.out.ends_with(" since 2026-11-03T02:00:00Z\n"),
        "{}",
        told.out
    );
    assert!(told.err.contains("it answered 500"), "{}", told.err);
    let refused = posted.recv_timeout(LONG).expect("a post");
    let again = ran(&words);
    assert_eq!((again.code, again.out.as_str()), (0, ""), "it was said: {}", again.err);
    let taken = posted.recv_timeout(LONG).expect("a post");
    assert_eq!(refused, taken);
    let known =
        serde_json::from_str(&linerate(None, &["schema", "fleet-change"]).out).expect("JSON");
    schema::validate(&known, &taken).unwrap_or_else(|e| panic!("{e}\n{taken}"));
    assert_eq!(
        (&taken["kind"], &taken["worse"], &taken["time"]),
        (&"fleet_change".into(), &true.into(), &51.into())
    );
    assert_eq!(taken["since"], "2026-11-03T02:00:00Z");
    assert_eq!(ran(&words).code, 0);
    assert!(posted.try_recv().is_err(), "it was taken");

    let file_name = file.display().to_string();
    let results =
        |more: &[&str]| linerate(None, &[&["fleet", "results", &file_name], more].concat());
    assert_eq!([results(&[]).code, results(&["--fail-on-change"]).code], [0, 5]);
    assert!(results(&[]).out.ends_with(&told.out), "{}", results(&[]).out);
    let document: Value = serde_json::from_str(&results(&["--json"]).out).expect("JSON");
    let known = serde_json::from_str(&linerate(None, &["schema", "fleet"]).out).expect("JSON");
    schema::validate(&known, &document).unwrap_or_else(|e| panic!("{e}\n{document}"));
    // It comes back, and nothing is worse any more.
    measured(&file, 60, &(60..80).map(|at| 94.1 + noise(at)).collect::<Vec<_>>());
    let back = results(&["--fail-on-change"]);
    assert_eq!((back.code, back.out.matches("changed: ").count()), (0, 2), "{}", back.out);
}

/// Starts a schedule that waits for midnight, and ends it by way of what it keeps.
pub(super) fn is_ended_from_elsewhere(words: &[&str], kept: &str) {
    let verb = |verb: &str| linerate(None, &["fleet", verb, kept]);
    let schedule = Client::start(None, words);
    let under_way = || verb("results").err.contains("it is under way");
    assert!(wait_for(LONG, under_way), "{}", schedule.end().err);
    let stopped = verb("stop");
    assert_eq!((stopped.code, stopped.out.as_str()), (0, "it has ended\n"), "{}", stopped.err);
    let ended = schedule.end();
    assert_eq!((ended.code, ended.out.as_str()), (0, ""), "{}", ended.err);
    assert!(ended.err.contains("its end was asked for"), "{}", ended.err);
    let again = verb("stop");
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(again.out.starts_with("nobody measures into "), "{}", again.out);
    assert!(!under_way());
}

#[test]
fn a_schedule_is_ended_from_elsewhere() {
    let folder = scratch("schedule-stop");
    let words = words(&folder, "127.0.0.1:9,127.0.0.1:10", &["--every", "1d", "--resume"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let file = path(&folder, "fleet.db");
    is_ended_from_elsewhere(&words, &file);
    // What was meant for a process that has ended ends none that begins.
    std::fs::write(path(&folder, "fleet.db.stop"), "").expect("a file");
    is_ended_from_elsewhere(&words, &file);
}

#[test]
fn what_makes_no_schedule_is_refused() {
    let folder = scratch("schedule-refused");
    for (more, named) in [
        (&["--every", "5s"][..], "10s"),
        (&["--every", "25:00"], "moments of the day"),
        (&["--every", "1h", "--jitter", "1h"], "jitter is too long"),
        (&["--every", "1h", "--for", "soon"], "90d"),
        (&["--every", "1h", "--webhook", "https://relay"], "https is not spoken"),
        (&["--jitter", "1h"], "--every"),
    ] {
        let refused = ran(&words(&folder, "a,b", more));
        assert_eq!(refused.code, 2, "{more:?}: {}", refused.err);
        assert!(refused.err.contains(named), "{more:?}: {}", refused.err);
    }
    assert!(!folder.join("fleet.db").exists());
}

/// It waits for a moment of the clock on the wall.
#[test]
#[ignore = "long"]
fn real_hosts_are_measured_at_moments_of_the_clock_until_ctrl_c() {
    let _alone = alone();
    let folder = scratch("schedule-real");
    let (key, state) = (path(&folder, "key"), path(&folder, "state"));
    let servers = [
        Server::start(None, &["--key-file", &key, "--allow-settings", "--state-dir", &state]),
        Server::start(None, &["--key-file", &key]),
    ];
    let hosts = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port)).join(",");
    let words = words(&folder, &hosts, &["--every", "10s", "--resume"]);
    for times in [2, 3] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let client = Client::start(None, &words);
        let file = path(&folder, "fleet.db");
        let kept = || {
            let ran = linerate(None, &["fleet", "results", &file, "--json"]);
            serde_json::from_str::<Value>(&ran.out).unwrap_or_default()
        };
        let measured = || kept()["pairs"][0]["values"][times - 1].is_f64();
        assert!(wait_for(LONG, measured), "{}", kept());
        client.signal(Signal::SIGINT);
        let ended = client.end();
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert_eq!(
            ended.out.matches(": 1 of 1 pairs measured\n").count(),
            if times == 2 { 2 } else { 1 },
            "{}",
            ended.out
        );
    }
}
