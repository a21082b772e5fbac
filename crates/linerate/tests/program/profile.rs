//! Profiles of real tests: what is on top, what a user without rights is told, what is kept, compared and shown.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::schema;
use crate::support::browser::{self, Browser};
use crate::support::controlled::Scratch;
use crate::support::{Lab, PORT, Program, Ran, Server, Urgent, alone, linerate, list, real, skip};

/// Whether this process may sample; says so where it may not.
fn may_sample(test: &str) -> bool {
    let ran = linerate(None, &["profile", "udp", "--local", "-t", "100ms", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let possible = !list(&document["profiles"][0]["hosts"]).is_empty();
    if !possible {
        skip(test, &format!("stacks cannot be sampled here: {}", document["error"]["why"]));
    }
    possible
}

fn profiled(space: Option<&str>, line: &str) -> Value {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ran = linerate(space, &[&["profile"], &words[..], &["--json"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

fn host(document: &Value) -> &Value {
    &document["profiles"][0]["hosts"][0]
}

/// Names of one of its lists, the largest share first.
fn names<'a>(host: &'a Value, list_of: &str, key: &str) -> Vec<&'a str> {
    list(&host[list_of]).iter().map(|one| one[key].as_str().expect("a name")).collect()
}

/// Samples of the stacks of tasks of that name that pass a function, and of all of them.
fn passing(host: &Value, task: &str, function: &str) -> (u64, u64) {
    let stacks = list(&host["stacks"]);
    let own = stacks.iter().filter(|stack| {
        let frames = stack["frames"].as_str().expect("frames");
        frames.split(';').next().is_some_and(|name| name.starts_with(task))
    });
    let mut counts = (0, 0);
    for stack in own {
        let samples = stack["samples"].as_u64().expect("a count");
        counts.1 += samples;
        if stack["frames"].as_str().is_some_and(|frames| frames.contains(function)) {
            counts.0 += samples;
        }
    }
    counts
}

/// Copying is among the four layers that take most.
fn copies_on_top(document: &Value) {
    let layers = names(host(document), "layers", "layer");
    assert!(layers.iter().take(4).any(|layer| *layer == "copy"), "{:#}", host(document)["layers"]);
}

#[test]
fn a_sender_has_the_send_call_and_copying_on_top() {
    let test = "a_sender_has_the_send_call_and_copying_on_top";
    let _alone = alone();
    if !Lab::possible(test) || !may_sample(test) {
        return;
    }
    // Packets one by one cost more than what is copied into them.
    let lab = Lab::pair().whole_trains();
    let _server = lab.serve();
    for (test, call) in
        [("tcp 10.77.1.2", "tcp_sendmsg"), ("udp 10.77.1.2 --rate max", "udp_sendmsg")]
    {
        // Of the client's threads alone: the server is another process. An amount takes as much of a core whatever else
        // runs, though longer.
        let line = format!("{test} -p {PORT} -n 1G --sample threads");
        let document = profiled(Some(&lab.space("a")), &line);
        let host = host(&document);
        copies_on_top(&document);
        let (sending, all) = passing(host, "send-0", call);
        assert!(all > 20 && sending * 2 > all, "{test}: {sending} of {all}");
        let paths = names(host, "paths", "path");
        let place = |path| paths.iter().position(|one| *one == path).unwrap_or(paths.len());
        assert!(place("send") < place("receive"), "{test}: {paths:?}");
        let functions = names(host, "functions", "name");
        assert!(functions.iter().any(|name| name.ends_with("_[k]")), "{test}: {functions:?}");
    }
}

#[test]
fn a_receiver_has_the_receive_path_on_top() {
    let test = "a_receiver_has_the_receive_path_on_top";
    let _alone = alone();
    if !Lab::possible(test) || !may_sample(test) {
        return;
    }
    let lab = Lab::pair().whole_trains();
    let _server = lab.serve();
    // Of datagrams each has its header looked at by the program as well: a third is enough to be on top.
    for (test, call, parts) in [
        ("tcp 10.77.1.2 --rx copy", "tcp_recvmsg", 2),
        ("udp 10.77.1.2 --rate max", "udp_recvmsg", 3),
    ] {
        let line = format!("{test} -p {PORT} -R -n 2G --sample threads");
        let document = profiled(Some(&lab.space("a")), &line);
        let host = host(&document);
        let paths = names(host, "paths", "path");
        let place = |path| paths.iter().position(|one| *one == path).unwrap_or(paths.len());
        assert!(place("receive") < place("send"), "{test}: {paths:?}");
        copies_on_top(&document);
        let (receiving, all) = passing(host, "receive-0", call);
        assert!(all > 20 && receiving * parts > all, "{test}: {receiving} of {all}");
        // One kernel is below both ends here, and both were sampled as far as threads of this process are.
        assert!(host["work"]["amount"].as_f64().is_some_and(|gbit| gbit > 0.0), "{host:#}");
    }
}

#[test]
#[ignore = "long"]
fn whole_cores_show_softirq_idle_time_and_both_ends() {
    let test = "whole_cores_show_softirq_idle_time_and_both_ends";
    let _alone = alone();
    if !may_sample(test) {
        return;
    }
    let document = profiled(None, "udp --local --rate 200M -l 1000 -t 2s --sample cores");
    let host = host(&document);
    assert_eq!(list(&host["ends"]).len(), 2);
    assert!(names(host, "paths", "path").contains(&"softirq"), "{host:#}");
    // A paced sender waits awake for a part of its time.
    assert!(names(host, "layers", "layer").contains(&"spin"), "{host:#}");
    let count = |key: &str| host[key].as_u64().unwrap_or(0);
    let busy: u64 = list(&host["layers"]).iter().filter_map(|l| l["samples"].as_u64()).sum();
    assert_eq!(busy + count("idle_samples"), count("samples"), "every sample is in one layer");
    // Of each core some 499 a second, or one in so many cycles, of which no core has 8 GHz; a machine under load takes fewer.
    let (cores, seconds) = (count("cores") as f64, host["seconds"].as_f64().expect("seconds"));
    let hz = host["period_cycles"].as_f64().map_or(499.0, |cycles| 8e9 / cycles);
    let most = cores * seconds * hz * 1.2;
    assert!(count("samples") > 50 && (count("samples") as f64) < most, "{host:#}");
    let unknown = list(&host["layers"]).iter().find(|layer| layer["layer"] == "kernel");
    let share = unknown.and_then(|layer| layer["share"].as_f64()).unwrap_or(0.0);
    assert!(share < 0.1, "the rules know this kernel: {share}");
    let ran = linerate(None, &["schema", "profile"]);
    let shape: Value = serde_json::from_str(&ran.out).expect("JSON");
    schema::validate(&shape, &document).unwrap_or_else(|e| panic!("{e}"));
}

/// Through a server that has given its rights up: what it opened at its start is all that it needs.
#[test]
fn the_far_host_is_sampled_where_its_owner_lets_a_key() {
    let test = "the_far_host_is_sampled_where_its_owner_lets_a_key";
    let _alone = alone();
    if !Lab::possible(test) || !may_sample(test) {
        return;
    }
    let lab = Lab::pair();
    let scratch = Scratch::new("profile-far");
    let (key, state) = (scratch.path("key"), scratch.path("state"));
    fs::write(&key, "a key for tests only, 32 bytes..\n").expect("a file");
    fs::create_dir_all(&state).expect("a folder");
    let line = format!(
        "profile udp 10.77.1.2 -p {PORT} --key-file {key} --rate max -t 2s --sample threads --json"
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    for (more, says) in [(None, "--allow-profile"), (Some("--allow-profile"), "")] {
        let args = ["--key-file", &key, "--allow-settings", "--state-dir", &state];
        let args: Vec<&str> = args.into_iter().chain(more).collect();
        let _server = Server::on_port(Some(&lab.space("b")), PORT, &args);
        let ran = linerate(Some(&lab.space("a")), &words);
        assert_eq!(ran.code, 0, "{ran:?}");
        let document: Value = serde_json::from_str(&ran.out).expect("JSON");
        let profile = &document["profiles"][0];
        assert_eq!(profile["run"]["status"], "complete", "{profile:#}");
        assert!(profile["unsampled"].to_string().contains(says), "{profile:#}");
        let ends: Vec<String> =
            list(&profile["hosts"]).iter().map(|host| host["ends"].to_string()).collect();
        if more.is_none() {
            assert_eq!(ends, ["[\"client\"]"]);
            continue;
        }
        assert_eq!(ends, ["[\"client\"]", "[\"server\"]"]);
        let (_, receiving) = passing(&profile["hosts"][1], "receive-0", "");
        assert!(receiving > 0, "the server's own threads have their names: {profile:#}");
    }
}

/// Two tests that are kept, compared, and laid out; what is no profile is refused by name.
#[test]
fn what_is_kept_can_be_compared_and_becomes_a_page() {
    let test = "what_is_kept_can_be_compared_and_becomes_a_page";
    let _alone = alone();
    if !may_sample(test) {
        return;
    }
    let scratch = Scratch::new("profile");
    let (both, page) = (scratch.path("both.json"), scratch.path("page.html"));
    let ran = linerate(
        None,
        &[
            "profile",
            "udp",
            "--local",
            "--rate",
            "100M",
            "-t",
            "1s",
            "--against",
            "--rate 400M",
            "--save",
            &both,
        ],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    for word in ["layer", "called from", "function", "compared", "as given", "with --rate 400M"] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    let ran = linerate(None, &["report", &both, "-o", &page]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = fs::read_to_string(&page).expect("a page");
    for word in ["Flame graph", "Differential flame graph", "What differs", "<title>all: 100.00 %"]
    {
        assert!(text.contains(word), "{word}");
    }
    shown(test, &scratch.0, "page.html");
    // With itself nothing differs.
    let ran = linerate(None, &["profile", "--compare", &both, &both]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("no layer differs more than chance explains"), "{}", ran.out);
    let run = scratch.path("run.json");
    let kept = linerate(None, &["udp", "--local", "-t", "100ms", "--save", &run]);
    assert_eq!(kept.code, 0, "{kept:?}");
    for (file, says) in
        [(&run, "no profile"), (&page, "no profile"), (&scratch.path("no"), "No such file")]
    {
        let ran = linerate(None, &["profile", "--compare", &both, file]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(says), "{file}: {}", ran.err);
    }
}

/// A token bucket of 20 Mbit/s in the router: a knee that no speed of this machine moves. Where exactly the search finds
/// it may depend on what else runs; that one test lies below it and one above may not.
#[test]
#[ignore = "long"]
fn two_tests_lie_below_and_above_the_knee() {
    let test = "two_tests_lie_below_and_above_the_knee";
    let _alone = alone();
    if !Lab::possible(test) || !may_sample(test) {
        return;
    }
    let lab = Lab::bottleneck(20, 20);
    let _urgent = Urgent::now();
    let _server = lab.serve();
    let scratch = Scratch::new("knee");
    let (kept, page) = (scratch.path("knee.json"), scratch.path("page.html"));
    // Threads alone: other work on the cores is in no profile.
    let line = format!(
        "profile udp 10.77.2.2 -p {PORT} --rate 60M -t 1s --at-knee --sample threads --save {kept}"
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let ran = linerate(Some(&lab.space("a")), &words);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in [
        "trial  for",
        "knee     between ",
        "profile  below the knee: udp to `10.77.2.2`",
        "profile  above the knee: udp to `10.77.2.2`",
        "compared first: below the knee; second: above the knee",
        "\nso       ",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let text = fs::read_to_string(&kept).expect("it was kept");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let names: Vec<&str> =
        list(&document["profiles"]).iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["below the knee", "above the knee"]);
    let rate = |at: usize| real(&document["profiles"][at]["run"], "asked.rate_bps");
    let (lower, upper) = (real(&document, "knee.lower_bps"), real(&document, "knee.upper_bps"));
    // Of what was searched, a tenth to either side; the bucket takes no more than 20 Mbit/s, and some of it are headers.
    assert!(lower < upper && upper <= 60e6 && lower < 20e6, "{}", document["knee"]);
    assert!((rate(0) - 0.9 * lower).abs() <= 1.0, "{} of {lower}", rate(0));
    assert!((rate(1) - 1.1 * upper).abs() <= 1.0, "{} of {upper}", rate(1));
    for profile in list(&document["profiles"]) {
        assert_eq!(profile["run"]["status"], "complete", "{}", profile["run"]);
        assert_eq!(list(&profile["hosts"]).len(), 1, "{}", profile["unsampled"]);
    }
    assert!(!list(&document["differences"][0]["layers"]).is_empty(), "{document:#}");
    let ran = linerate(None, &["report", &kept, "-o", &page]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = fs::read_to_string(&page).expect("a page");
    for word in ["The knee lies between", "below the knee", "Differential flame graph"] {
        assert!(text.contains(word), "{word}");
    }
}

/// What a browser makes of the page, as far as there is one.
fn shown(test: &str, folder: &Path, file: &str) {
    let Some(browser) = Browser::new(test) else { return };
    let options = ["--window-size=1280,1600", "--virtual-time-budget=20000"];
    let dom = browser.opens(&browser::file(folder, file), &options);
    assert!(dom.contains("class=\"flame ready\""), "the script made the flame graphs zoomable");
}

/// A user who may not sample gets the test, what /proc says, and what would permit more.
#[test]
fn without_rights_the_test_runs_and_the_setting_is_named() {
    let test = "without_rights_the_test_runs_and_the_setting_is_named";
    let _alone = alone();
    if !Lab::possible(test) {
        return;
    }
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if !level.trim().parse::<i64>().is_ok_and(|level| level >= 2) {
        skip(test, "kernel.perf_event_paranoid lets everybody sample here");
        return;
    }
    let program = Program::copy();
    let run = |more: &[&str]| {
        let out = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program.path())
            .args(["profile", "udp", "--local", "--rate", "100M", "-t", "500ms"])
            .args(more)
            .output()
            .expect("it starts");
        Ran::from(out)
    };
    let ran = run(&["--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let document: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(document["profiles"][0]["run"]["status"], "complete");
    assert_eq!(document["error"]["kind"], "unable");
    let why = document["error"]["why"].as_str().expect("a reason");
    assert!(why.contains("kernel.perf_event_paranoid is"), "{why}");
    let hints = document["error"]["hints"].to_string();
    assert!(
        hints.contains("sysctl kernel.perf_event_paranoid=") && hints.contains("CAP_PERFMON"),
        "{hints}"
    );
    let ran = run(&[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    for word in ["/proc", "the data thread took", "perf_event_paranoid"] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
}

/// What `linerate tune` saved is of the test that is profiled, and of the one beside it; what is given wins.
#[test]
fn the_options_of_a_saved_profile_are_those_of_the_test() {
    let _alone = alone();
    let scratch = Scratch::new("profile-saved");
    let folder = scratch.path("linerate/profiles");
    fs::create_dir_all(&folder).expect("a folder");
    let saved = "verb = \"udp\"\n[options]\nsize = \"300\"\nrate = \"1M\"\n";
    fs::write(format!("{folder}/small.toml"), saved).expect("a profile");
    let run = |line: &str| {
        let out = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(["profile", "udp", "--local", "-t", "200ms", "--json"])
            .args(line.split(';'))
            .env("XDG_CONFIG_HOME", &scratch.0)
            .output()
            .expect("it starts");
        Ran::from(out)
    };
    // Where nobody may sample, the tests run all the same.
    let ran = run("--profile;small;--rate;2M;--against;--rate 3M");
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let asked: Vec<_> = list(&document["profiles"])
        .iter()
        .map(|one| {
            let asked = &one["run"]["asked"];
            (asked["datagram_bytes"].as_u64(), asked["rate_bps"].as_u64())
        })
        .collect();
    let expected = [(Some(300), Some(2_000_000)), (Some(300), Some(3_000_000))];
    assert_eq!(asked, expected, "{document:#}");
    let ran = run("--profile;none");
    assert!(ran.code == 2 && ran.err.contains("cannot use the profile `none`"), "{ran:?}");
}

#[test]
fn words_that_make_no_sense_are_refused_before_anything_is_sent() {
    for (line, says) in [
        ("", "nothing to profile"),
        ("udp --local --json-lines", "--json-lines"),
        ("udp --local --rate 10kpps --at-knee", "datagrams per second"),
        ("udp --local -t 1s --against --frobnicate", "--against"),
        ("udp --local -t 1s --against --sample=threads", "cannot differ"),
        ("udp --local --sample nothing", "cores"),
        ("--compare one.json", "--compare"),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = linerate(None, &[&["profile"], &words[..]].concat());
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        assert!(ran.err.contains(says), "{line}: {}", ran.err);
    }
}
