//! `linerate tune`: whole, over loopback and in namespaces that are made bad on purpose; its profiles; and its end
//! before the end.

use linerate_testkit::peer::LONG;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::schema;
use crate::support::controlled::{Scratch, snapshot};
use crate::support::{
    Client, Lab, PORT, Ran, Urgent, alone, linerate, list, says_busy, skip, skip_busy, wait_for,
};

/// A folder of configuration of its own.
fn config(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tune-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn with_config(folder: &std::path::Path, space: Option<&str>, args: &[&str]) -> Ran {
    let program = env!("CARGO_BIN_EXE_linerate");
    let mut command = match space {
        Some(space) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", space, program]);
            command
        }
        None => Command::new(program),
    };
    let out = command.args(args).env("XDG_CONFIG_HOME", folder);
    let out = out.env("XDG_STATE_HOME", folder).env("STATE_DIRECTORY", folder).output();
    Ran::from(out.expect("it starts"))
}

fn fits(document: &Value) {
    let ran = linerate(None, &["schema", "tune"]);
    let shape: Value = serde_json::from_str(&ran.out).expect("JSON");
    schema::validate(&shape, document).unwrap_or_else(|e| panic!("{e}\n{document:#}"));
}

/// What holds of every result, whichever level won.
fn holds_together(document: &Value) {
    fits(document);
    let gain = &document["gain_percent"];
    let recommended = document["recommended"] == true;
    assert!(!recommended || gain["low"].as_f64().is_some_and(|low| low > 0.0), "{document:#}");
    let changed = list(&document["factors"]).iter().filter(|f| f["best"] != 0).count();
    assert_eq!(changed > 0, recommended, "{document:#}");
    for trial in list(&document["trials"]) {
        assert_eq!(trial["value"].is_null(), !trial["failed"].is_null(), "{trial}");
    }
    assert_eq!(list(&document["trials"])[0]["purpose"], "default");
}

#[test]
#[ignore = "long"]
fn two_factors_over_loopback() {
    let _alone = alone();
    let line = "tune udp --local --rate 20M -t 100ms --factor streams=2,3 --factor burst=1ms \
                --objective efficiency --max-time 20s --seed 7 --json";
    let args: Vec<&str> = line.split_whitespace().collect();
    let ran = linerate(None, &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document = ran.record();
    holds_together(&document);
    assert_eq!((document["kind"].as_str(), document["seed"].as_u64()), (Some("tune"), Some(7)));
    assert_eq!(document["objective"]["metric"], "bits_per_cpu_second");
    let names: Vec<&Value> = list(&document["factors"]).iter().map(|f| &f["name"]).collect();
    assert_eq!(names, ["streams", "burst"]);
    assert_eq!(list(&document["factors"][0]["levels"]).len(), 3);
    let command: Vec<&str> =
        list(&document["best_command"]).iter().filter_map(Value::as_str).collect();
    assert_eq!(command[..3], ["linerate", "udp", "--local"], "{command:?}");
    assert!(!command.contains(&"--factor") && !command.contains(&"--time"), "{command:?}");
}

#[test]
fn what_people_see_of_it() {
    let _alone = alone();
    let line = "tune rr --local -t 100ms --factor far-cores=0 --objective rate --width 50% \
                --max-time 60s";
    let args: Vec<&str> = line.split_whitespace().collect();
    let ran = linerate(None, &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for word in ["trial  for", "the default", "factor", "others at most", "transactions/s"] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    let lines = linerate(None, &[&args[..], &["--json-lines"]].concat());
    let ran = linerate(None, &["schema", "tune-line"]);
    let shape: Value = serde_json::from_str(&ran.out).expect("JSON");
    let events: Vec<String> = lines
        .out
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            schema::validate(&shape, &line).unwrap_or_else(|e| panic!("{e}\n{line}"));
            line["event"].as_str().expect("a word").to_owned()
        })
        .collect();
    assert_eq!((&*events[0], &*events[1], &**events.last().unwrap()), ("start", "trial", "end"));
}

/// Whether others left a tuning too little time for a figure: it says then that its time was over, and why.
fn out_of_time(test: &str, document: &Value, figure: &Value) -> bool {
    let reason = document["reason"].as_str().unwrap_or_default();
    let is_out = figure.is_null() && matches!(reason, "max_time" | "unmeasurable");
    if is_out && !says_busy(document) {
        skip_busy(test, "others had the cores: nothing was certain before the time was over");
    }
    is_out
}

/// Datagrams of 64 bytes cost as many system calls as large ones: nothing else can be as good.
#[test]
#[ignore = "long"]
fn small_datagrams_are_found_out_and_a_profile_mends_them() {
    let test = "small_datagrams_are_found_out_and_a_profile_mends_them";
    let _alone = alone();
    if !Lab::possible(test) {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    let (port, folder) = (PORT.to_string(), config("small"));
    let space = lab.space("a");
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (verb, rest) = words.split_at(if words[0] == "tune" { 2 } else { 1 });
        let args = [verb, &["10.77.1.2", "-p", &port, "--json"], rest].concat();
        with_config(&folder, Some(&space), &args)
    };
    let line = "tune udp --rate max -l 64 -t 200ms --factor size=256,1400 --factor burst=1ms \
                --width 10% --max-time 60s --profile large";
    let ran = run(line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document = ran.record();
    holds_together(&document);
    if out_of_time(test, &document, &document["gain_percent"]) {
        return;
    }
    assert_eq!(document["recommended"], true, "{document:#}");
    let size = &document["factors"][0];
    assert_eq!(
        (size["name"].as_str(), size["best"].as_u64()),
        (Some("size"), Some(2)),
        "{document:#}"
    );
    let gain = document["gain_percent"]["low"].as_f64().expect("a gain");
    assert!(gain > 100.0, "{document:#}");
    // What was saved is what a test takes, and what it is given itself wins.
    let text = std::fs::read_to_string(folder.join("linerate/profiles/large.toml")).expect("saved");
    assert!(text.contains("verb = \"udp\"") && text.contains("size = \"1400\""), "{text}");
    // It was measured at that rate, and at this port by chance.
    assert!(text.contains("rate = \"max\"") && !text.contains("port"), "{text}");
    let asked = |line: &str| run(line).complete()["asked"]["datagram_bytes"].clone();
    assert_eq!(asked("udp --rate 1M -t 100ms --profile large"), 1_400);
    assert_eq!(asked("udp --rate 1M -t 100ms --profile large -l 100"), 100);
    let record = run("udp --rate 1M -t 100ms --profile large").record();
    assert_eq!(record["profile"], "large");
    // Nothing is written over.
    let again = run(line);
    assert_eq!(again.code, 1, "{}", again.err);
    assert!(again.err.contains("the file is there"), "{}", again.err);
}

/// A window that holds a packet or two stops the stream at each of them.
#[test]
#[ignore = "long"]
fn a_tiny_window_is_found_out() {
    let test = "a_tiny_window_is_found_out";
    let _alone = alone();
    if !Lab::possible(test) {
        return;
    }
    let lab = Lab::pair().whole_trains();
    let _server = lab.serve();
    let ran = lab.client(
        "tune",
        "tcp",
        "10.77.1.2 --window 4Ki -t 200ms --factor window=1Mi --factor block=64Ki --width 10% --max-time 60s",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document = ran.record();
    holds_together(&document);
    if out_of_time(test, &document, &document["factors"][0]["worth_percent"]) {
        return;
    }
    let window = &document["factors"][0];
    assert_eq!(
        (window["name"].as_str(), window["best"].as_u64()),
        (Some("window"), Some(1)),
        "{document:#}"
    );
    let worth = window["worth_percent"]["low"].as_f64().expect("its worth");
    assert!(worth > 20.0, "{document:#}");
}

/// A tuning from `a` to `b` of a path through a bucket of 20 Mbit/s each way.
fn on_a_narrow_path(test: &str, verb: &str, line: &str) -> Option<Value> {
    if !Lab::possible(test) {
        return None;
    }
    let lab = Lab::bottleneck(20, 20);
    let _urgent = Urgent::now();
    let _server = lab.serve();
    let ran = lab.client("tune", verb, &format!("10.77.2.2 {line}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document = ran.record();
    holds_together(&document);
    Some(document)
}

fn values(document: &Value) -> Vec<f64> {
    list(&document["trials"]).iter().filter_map(|trial| trial["value"].as_f64()).collect()
}

/// The path carries bits: 1,400 bytes and their headers take the time of eight datagrams of 128 bytes.
#[test]
#[ignore = "long"]
fn more_datagrams_go_through_a_narrow_path_if_they_are_small() {
    let _alone = alone();
    let test = "more_datagrams_go_through_a_narrow_path_if_they_are_small";
    let line = "--rate 40M -l 1400 -t 200ms --objective pps --factor size=128 --max-time 60s";
    let Some(document) = on_a_narrow_path(test, "udp", line) else { return };
    assert_eq!(document["objective"]["metric"], "received_pps");
    assert_eq!(document["recommended"], true, "{document:#}");
    assert_eq!(document["candidate"]["size"], 1, "{document:#}");
    assert!(
        document["gain_percent"]["low"].as_f64().is_some_and(|low| low > 100.0),
        "{document:#}"
    );
}

/// Each trial is a search: what the path does not carry is no figure, however much is sent. Time is short here, so that what
/// is settled may be nothing.
#[test]
#[ignore = "long"]
fn a_rate_that_loses_too_much_is_no_figure() {
    let _alone = alone();
    let test = "a_rate_that_loses_too_much_is_no_figure";
    let line =
        "--rate 80M -l 1400 -t 100ms --objective rate,loss=1% --factor streams=2 --max-time 20s";
    let Some(document) = on_a_narrow_path(test, "udp", line) else { return };
    let objective = &document["objective"];
    assert_eq!(
        (&objective["metric"], &objective["loss_at_most_ratio"]),
        (&"received_bps".into(), &0.01.into())
    );
    let values = values(&document);
    // The bucket's burst and queue carry 16 ms of a trial beside what flows through it.
    assert!(!values.is_empty() && values.iter().all(|bps| *bps < 20e6 * 1.2), "{document:#}");
    let searches = list(&document["trials"]).iter().filter(|trial| !trial["value"].is_null());
    assert!(searches.clone().all(|trial| list(&trial["runs"]).len() > 2), "{document:#}");
}

/// Bursts of 20 ms at 10 Mbit/s wait in a bucket of 20 Mbit/s; what else delays them depends on the machine.
#[test]
#[ignore = "long"]
fn delays_are_wanted_small() {
    let _alone = alone();
    let test = "delays_are_wanted_small";
    let of_datagrams = "--rate 10M -l 1400 --burst 20ms -t 200ms --objective p99 --factor burst=500us --max-time 20s";
    let of_requests = "-t 200ms --factor far-cores=0 --max-time 10s";
    for (verb, line, metric) in
        [("udp", of_datagrams, "delay_variation_p99"), ("rr", of_requests, "latency_p99")]
    {
        let Some(document) = on_a_narrow_path(test, verb, line) else { return };
        let objective = &document["objective"];
        assert_eq!((&objective["metric"], &objective["better"]), (&metric.into(), &"lower".into()));
        assert!(
            values(&document).iter().all(|seconds| (0.0..10.0).contains(seconds)),
            "{document:#}"
        );
        let means = document["best_mean"].as_f64().zip(document["default_mean"].as_f64());
        // Less is better: what is recommended is less.
        let less = means.is_some_and(|(best, default)| best < default);
        assert!(less || document["recommended"] == false, "{document:#}");
        let gain = document["gain_percent"]["high"].as_f64();
        assert!(gain.is_none_or(|percent| percent < 100.0), "{document:#}");
    }
}

/// A system call for every 256 bytes takes the time of the CPU: how much of it others take does not matter.
#[test]
#[ignore = "long"]
fn cpu_time_is_saved_by_larger_blocks() {
    let _alone = alone();
    if !Lab::possible("cpu_time_is_saved_by_larger_blocks") {
        return;
    }
    let lab = Lab::pair().whole_trains();
    let _server = lab.serve();
    let ran = lab.client(
        "tune",
        "tcp",
        "10.77.1.2 --block 256 -t 200ms --objective efficiency --factor block=128Ki --max-time 60s",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document = ran.record();
    holds_together(&document);
    assert_eq!(document["objective"]["metric"], "bits_per_cpu_second");
    let found = (&document["recommended"], &document["candidate"]["block"]);
    assert_eq!(found, (&true.into(), &1.into()), "{document:#}");
}

#[test]
fn congestion_controls_are_a_factor() {
    let _alone = alone();
    let test = "congestion_controls_are_a_factor";
    let line = "--congestion cubic -t 200ms --factor congestion --width 50% --max-time 60s";
    let Some(document) = on_a_narrow_path(test, "tcp", line) else { return };
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let known = known.expect("what there is");
    let factors = list(&document["factors"]);
    let levels: Vec<&str> = factors
        .iter()
        .flat_map(|factor| list(&factor["levels"]))
        .filter_map(|l| l["name"].as_str())
        .collect();
    // Level 0 is the one that was asked for, and the others are what this host has beside it.
    let others: Vec<&str> = known.split_whitespace().filter(|name| *name != "cubic").collect();
    if others.is_empty() {
        return skip(test, "this kernel has cubic alone");
    }
    assert_eq!(levels, [&["cubic"], &others[..]].concat(), "{document:#}");
    // Each was tried, as one that the kernel let the sender have.
    for (level, name) in levels.iter().enumerate().skip(1) {
        let of_it = |trial: &&Value| trial["levels"]["congestion"] == level;
        let mut tried = list(&document["trials"]).iter().filter(of_it);
        assert!(tried.any(|trial| !trial["value"].is_null()), "{name}: {document:#}");
    }
    let command = document["best_command"].to_string();
    assert!(command.contains("--congestion"), "{command}");
}

#[test]
fn settings_are_tried_and_put_back() {
    let _alone = alone();
    if !Lab::possible("settings_are_tried_and_put_back") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    let before = snapshot(&lab);
    let (port, scratch) = (PORT.to_string(), Scratch::new("tune"));
    let line = "-t 100ms --factor offload.tso --factor ring.rx --allow-settings --width 50% \
                --max-time 60s --json";
    let rest: Vec<&str> = line.split_whitespace().collect();
    let args = [&["tune", "tcp", "10.77.1.2", "-p", &port][..], &rest].concat();
    let ran = with_config(scratch.path("state").as_ref(), Some(&lab.space("a")), &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document = ran.record();
    holds_together(&document);
    let factors = list(&document["factors"]);
    assert_eq!(
        (factors.len(), factors[0]["name"].as_str()),
        (1, Some("offload.tso")),
        "{document:#}"
    );
    assert!(ran.err.contains("ring.rx is left out"), "{}", ran.err);
    assert!(list(&document["trials"]).iter().any(|t| t["levels"]["offload.tso"] == 1));
    assert_eq!(snapshot(&lab), before, "all is put back");
}

/// Without segmentation offload each packet of a stream goes through the kernel by itself: nothing else costs as much. The
/// setting of this host that mends it is found, and not left behind.
#[test]
#[ignore = "long"]
fn a_setting_of_the_host_wins() {
    let test = "a_setting_of_the_host_wins";
    let _alone = alone();
    if !Lab::possible(test) {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    let before = snapshot(&lab);
    let (port, scratch) = (PORT.to_string(), Scratch::new("tune-wins"));
    let line = "-t 200ms --factor offload.tso --width 10% --allow-settings --max-time 60s --json";
    let rest: Vec<&str> = line.split_whitespace().collect();
    let args = [&["tune", "tcp", "10.77.1.2", "-p", &port][..], &rest].concat();
    let ran = with_config(scratch.path("state").as_ref(), Some(&lab.space("a")), &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document = ran.record();
    holds_together(&document);
    if out_of_time(test, &document, &document["gain_percent"]) {
        return;
    }
    assert_eq!(document["recommended"], true, "{document:#}");
    assert_eq!(document["best_settings"][0]["name"], "offload.tso", "{document:#}");
    assert_eq!(snapshot(&lab), before, "all is put back");
}

#[test]
fn ctrl_c_keeps_what_is_known() {
    let _alone = alone();
    let folder = config("ctrl-c");
    let saved = folder.join("tune.json");
    let saved_text = saved.to_str().expect("text");
    let line = "tune udp --local --rate 5M -t 50ms --factor streams=2,3,4 --factor burst=1ms,2ms --json-lines --save";
    let args: Vec<&str> = line.split_whitespace().chain([saved_text]).collect();
    let client = Client::start(None, &args);
    // Its trials are no files; so a while of them.
    assert!(wait_for(LONG, || client.has_stream()), "no test began");
    client.signal(Signal::SIGINT);
    let ran = client.end();
    assert_eq!(ran.code, 130, "{}", ran.err);
    let Ok(text) = std::fs::read_to_string(&saved) else {
        // It came before the first look was over: then there is nothing to keep.
        assert!(ran.err.contains("interrupted") || ran.err.contains("ended early"), "{}", ran.err);
        return;
    };
    let document: Value = serde_json::from_str(&text).expect("JSON");
    fits(&document);
    assert_eq!((&document["status"], &document["reason"]), (&"partial".into(), &"stopped".into()));
    assert_eq!(document["recommended"], false);
}

/// What a killed tuning had measured stands in its file, and nothing of it is measured again but the block that was cut.
#[test]
fn a_killed_tuning_goes_on() {
    let _alone = alone();
    let folder = config("killed");
    let file = folder.join("tune.json");
    let path = file.to_str().expect("text");
    let line = "tune udp --local --rate 5M -t 50ms --factor streams=2,3,4 --factor burst=1ms,2ms \
                --objective efficiency --width 50% --max-time 60s --seed 7 --save";
    let args: Vec<&str> = line.split_whitespace().chain([path]).collect();
    let client = Client::start(None, &args);
    let read = || {
        let text = std::fs::read_to_string(&file).ok()?;
        Some(serde_json::from_str::<Value>(&text).expect("a whole document"))
    };
    let trials = |document: &Value| list(&document["trials"]).len();
    assert!(wait_for(LONG, || read().is_some_and(|now| trials(&now) >= 9)), "no trials");
    client.signal(Signal::SIGKILL);
    let _ = client.end();
    let cut = read().expect("it was kept");
    fits(&cut);
    assert_eq!((&cut["status"], &cut["error"]["kind"]), (&"partial".into(), &"unfinished".into()));
    // Options of its own would be ignored, and are refused.
    let refused = linerate(None, &["tune", "--resume", path, "tcp", "--local"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    let ran = linerate(None, &["tune", "--resume", path, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("it goes on after "), "{}", ran.err);
    let document = ran.record();
    holds_together(&document);
    assert_eq!((&document["id"], &document["started"]), (&cut["id"], &cut["started"]));
    let whole = ran.err.split("it goes on after ").nth(1).and_then(|rest| rest.split(' ').next());
    let whole: usize = whole.and_then(|n| n.parse().ok()).expect("a number");
    assert!(whole >= 6 && trials(&cut) - whole < 6, "{whole} of {}", trials(&cut));
    assert_eq!(list(&document["trials"])[..whole], list(&cut["trials"])[..whole]);
    assert!(trials(&document) > whole, "{document:#}");
    assert_eq!(read().as_ref(), Some(&document), "the file has the result");
    // What is at its end does not go on, and is no file for another one.
    let again = linerate(None, &["tune", "--resume", path]);
    assert!(again.code == 2 && again.err.contains("it came to its end"), "{again:?}");
    let other = linerate(None, &args);
    assert!(other.code == 1 && other.err.contains("the file is there"), "{}", other.err);
}

#[test]
fn what_cannot_be_is_refused_before_any_packet() {
    let folder = config("refused");
    let profiles = folder.join("linerate/profiles");
    std::fs::create_dir_all(&profiles).expect("a folder");
    for (name, text) in [
        ("other", "verb = \"tcp\"\n"),
        ("typo", "verb = \"udp\"\n[options]\nwnidow = \"4Mi\"\n"),
        ("nested", "verb = \"udp\"\n[options]\nwindow = [1]\n"),
        ("strange", "verb = \"udp\"\ncolour = 1\n"),
        ("much", "verb = \"udp\"\n[options]\nwindow = \"much\"\n"),
        ("short", "verb = \"udp\"\n[options]\ntime = \"1s\"\n"),
    ] {
        std::fs::write(profiles.join(format!("{name}.toml")), text).expect("written");
    }
    for (line, why) in [
        ("tune", "nothing to tune was given"),
        ("tune udp", "no server was given"),
        ("tune udp hydra2", "--rate max"),
        ("tune tcp --local --factor wnidow", "none of window"),
        ("tune tcp --local --factor offload.gro", "--allow-settings"),
        ("tune udp --local --profile a/b", "a name of letters"),
        ("udp --local --profile none", "saves one"),
        ("udp --local --profile ..", "a name of letters"),
        ("udp --local --profile other", "it is of `linerate tcp`"),
        ("udp --local --profile typo", "`wnidow` is no option"),
        ("udp --local --profile nested", "not a text"),
        ("udp --local --profile strange", "unknown field"),
        ("udp --local --profile much", "--window"),
        ("udp --local --profile much", "the profile `much`"),
        ("udp --local --bytes 1M --profile short", "the profile `short`"),
    ] {
        let args: Vec<&str> = line.split_whitespace().collect();
        let ran = with_config(&folder, None, &args);
        assert_eq!(ran.code, 2, "{line}: {}", ran.err);
        assert!(ran.err.contains(why), "{line}: {}", ran.err);
    }
}
