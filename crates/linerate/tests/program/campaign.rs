//! Campaigns from outside: killed at random points, on a disk that fails, with a plan that was
//! changed, with a peer that vanishes; read by ministat.

use crate::support;
use linerate_testkit::peer::LONG;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use linerate_model::campaign::{RunState, StoredRun};
use linerate_store::Reader;
use serde_json::Value;

/// A folder of its own with a plan in it.
fn scratch(name: &str, plan: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("campaign-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("c.toml"), plan).unwrap();
    folder
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command
        .arg("campaign")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1");
    command
}

fn campaign(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ok(folder: &Path, args: &[&str]) -> String {
    let out = campaign(folder, args);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stdout)
}

fn status(folder: &Path) -> Value {
    serde_json::from_str(&ok(folder, &["status", "c.toml", "--json"])).unwrap()
}

/// Runs a campaign, or goes on with it; lines of JSON as they come.
fn watched(folder: &Path, verb: &str) -> (std::process::Child, impl Iterator<Item = Value>) {
    let mut child = command(folder, &[verb, "c.toml", "--json-lines"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out.lines().map_while(Result::ok).filter_map(|l| serde_json::from_str(&l).ok()))
}

fn quick(settings: &str) -> String {
    format!("name = \"quick\"\n[repeat]\nwarmup = 1\nruns = 6\n{settings}")
}

/// Two commands of a few milliseconds whose figures have a scatter.
const COMMANDS: &str = r#"
[defaults]
metric = { column = 1 }
unit = "things/s"
[settings.a]
command = "sh -c 'sleep 0.01; echo 10$(date +%N)'"
[settings.b]
command = "sh -c 'sleep 0.01; echo 20$(date +%N)'"
"#;

fn runs(folder: &Path) -> Vec<StoredRun> {
    let reader = Reader::open(&folder.join("c.db")).unwrap();
    assert_eq!(reader.check(), []);
    reader.runs().unwrap()
}

/// Every slot is filled once, and every acknowledged run is there with its figure.
fn whole(folder: &Path, acknowledged: &BTreeMap<u64, f64>, slots: usize) {
    let runs = runs(folder);
    let mut filled: Vec<u32> =
        runs.iter().filter(|r| r.state == RunState::Counted).map(|r| r.slot).collect();
    filled.sort_unstable();
    assert_eq!(filled, (0..slots as u32).collect::<Vec<_>>(), "each slot once");
    for (id, value) in acknowledged {
        let run = runs.iter().find(|r| r.id == *id).unwrap_or_else(|| panic!("run {id} is lost"));
        assert_eq!(run.value, Some(*value), "run {id}");
    }
    let status = status(folder);
    assert_eq!((&status["lost"], &status["doubled"]), (&0.into(), &0.into()), "{status}");
}

fn acknowledge(acknowledged: &mut BTreeMap<u64, f64>, event: &Value) {
    if event["event"] == "run"
        && let (Some(id), Some(value)) = (event["id"].as_u64(), event["value"].as_f64())
    {
        acknowledged.insert(id, value);
    }
}

#[test]
fn a_campaign_runs_and_others_read_it() {
    let folder = scratch("whole", &quick(COMMANDS));
    let explained = ok(&folder, &["explain", "c.toml"]);
    assert!(explained.contains("2 settings x (1 warm-up + 6 runs) = 14 runs"), "{explained}");
    let order: Vec<String> = explained
        .lines()
        .skip_while(|l| !l.contains("run  boot"))
        .skip(1)
        .map(|l| l.split_whitespace().nth(3).unwrap().to_owned())
        .collect();
    assert_eq!(order.len(), 14);
    let told = ok(&folder, &["run", "c.toml"]);
    assert!(told.contains("done: all 14 runs are kept in c.db"), "{told}");
    // The order that was explained is the one that ran.
    let ran: Vec<String> = runs(&folder).iter().map(|r| r.setting.clone()).collect();
    assert_eq!(ran, order);
    let state = status(&folder);
    assert_eq!(
        (&state["state"], &state["done"], &state["total"]),
        (&"done".into(), &14.into(), &14.into())
    );
    // Run again: nothing is left to do.
    assert!(ok(&folder, &["run", "c.toml"]).contains("14 of them done"));

    let files = ok(&folder, &["export", "c.toml"]);
    let files: Vec<&str> = files.lines().collect();
    assert_eq!(files, ["./local/test_sh_a.stat", "./local/test_sh_b.stat"]);
    assert_eq!(fs::read_to_string(folder.join(files[0])).unwrap().lines().count(), 6);
    // Who reads the names may leave: the files are written all the same.
    fs::remove_dir_all(folder.join("local")).unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let out = command(&folder, &["export", "c.toml"]).stdout(closed).output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    assert!(files.iter().all(|file| folder.join(file).exists()));
    match Command::new("ministat").args(&files).current_dir(&folder).output() {
        Err(_) => support::skip("a_campaign_runs_and_others_read_it", "ministat is not installed"),
        Ok(out) => {
            assert!(out.status.success(), "{}", text(&out.stderr));
            let shown = text(&out.stdout);
            assert!(shown.contains("x   6") && shown.contains("+   6"), "{shown}");
            assert!(shown.contains("Difference at 95.0% confidence"), "{shown}");
        }
    }
    let compare = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["compare", "c.db", "--json"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert_eq!(compare.status.code(), Some(0), "{}", text(&compare.stderr));
    let view: Value = serde_json::from_slice(&compare.stdout).unwrap();
    assert_eq!(view["comparisons"][0]["baseline"], "a");
    assert_eq!((&view["sets"][1]["label"], &view["sets"][1]["n"]), (&"b".into(), &6.into()));
    // No reboot: a verdict over runs, and once what that is worth.
    assert_eq!(view["sets"][0]["boots"], Value::Null, "{}", view["sets"][0]);
    assert!(view["comparisons"][0]["verdict"].is_string(), "{}", view["comparisons"][0]);
    let said = view.to_string();
    assert_eq!(said.matches("reboots nothing (boots = 0)").count(), 1, "{}", view["notes"]);
    assert_eq!(said.matches("taken as independent").count(), 2, "headline and note: {said}");
    let csv = ok(&folder, &["export", "c.db", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 13, "{csv}");
    let records = ok(&folder, &["export", "c.db", "--format", "json-lines"]);
    let first: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    assert_eq!(first["record"]["code"], 0, "{first}");
    let one_figure = ["export", "c.db", "--format", "json-lines", "--metric", "received_bps"];
    let refused = campaign(&folder, &one_figure);
    assert_eq!((refused.status.code(), &*text(&refused.stdout)), (Some(2), ""));
    let said = text(&refused.stderr);
    assert!(said.contains("cannot use `--metric` with `--format json-lines`"), "{said}");
}

#[test]
fn tests_of_linerate_run_too() {
    let _alone = support::alone();
    // Long enough for each to get a core on a machine with other work.
    let plan = "name = \"t\"\n[repeat]\nwarmup = 0\nruns = 1\n[defaults]\ntime = \"1s\"\n\
                interval = \"500ms\"\n[matrix]\ntest = [\"udp\", \"tcp\", \"rr\"]\n";
    let folder = scratch("tests", plan);
    ok(&folder, &["run", "c.toml"]);
    let runs = runs(&folder);
    assert_eq!(runs.len(), 3);
    for run in &runs {
        // On a core that others keep, nothing may be sent in a second: a value all the same.
        assert!(run.value.is_some(), "{run:?}");
        let record: Value = serde_json::from_str(run.record.as_deref().unwrap()).unwrap();
        assert_eq!(record["asked"]["protocol"], run.setting.as_str());
        assert_eq!(record["command"][1], run.setting.as_str());
        assert!(run.boot_id.is_some());
    }
}

/// Kill -9 at random points: no acknowledged run lost, none doubled, each kill costs one run at most.
#[test]
fn killed_at_any_point_it_goes_on() {
    let kills = if support::long() { 200 } else { 20 };
    let plan = quick(COMMANDS).replace("runs = 6", &format!("runs = {}", kills * 2));
    let folder = scratch("killed", &plan);
    let slots = 2 * (1 + kills * 2);
    let mut acknowledged = BTreeMap::new();
    let mut resumes = Vec::new();
    // Any old sequence of waits from 0 to 160 ms.
    let mut seed = 0x2545_f491_u32;
    for kill in 0..kills {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        let begun = Instant::now();
        let (mut child, mut events) = watched(&folder, if kill == 0 { "run" } else { "resume" });
        // Alive again: the first event after the store was opened and checked.
        if let Some(event) = events.next() {
            if kill > 0 {
                resumes.push(begun.elapsed());
            }
            acknowledge(&mut acknowledged, &event);
        }
        std::thread::sleep(Duration::from_millis(u64::from(seed % 160)));
        child.kill().unwrap();
        child.wait().unwrap();
        for event in events {
            acknowledge(&mut acknowledged, &event);
        }
    }
    let state = status(&folder);
    assert_eq!((&state["lost"], &state["doubled"]), (&0.into(), &0.into()), "{state}");
    let (mut child, events) = watched(&folder, "resume");
    for event in events {
        acknowledge(&mut acknowledged, &event);
    }
    assert!(child.wait().unwrap().success());
    whole(&folder, &acknowledged, slots);
    let cut = runs(&folder).iter().filter(|r| r.state == RunState::Cut).count();
    assert!(cut <= kills, "{cut} runs were repeated after {kills} kills");
    resumes.sort();
    let (median, worst) = (resumes[resumes.len() / 2], resumes[resumes.len() - 1]);
    println!(
        "FIGURE T12: {kills} kills: {cut} runs cut, {} acknowledged, resume median {median:?}, worst {worst:?}",
        acknowledged.len()
    );
    assert!(worst < LONG, "a resume that hangs");
}

/// Runs a campaign whose disk has a fault, and then again when the disk is well: what was acknowledged is there.
/// How many runs were acknowledged before the campaign ended for it, if it did.
fn felt(folder: &Path, faulty: &mut Command, slots: usize, what: &str) -> Option<usize> {
    let out = faulty.current_dir(folder).output().unwrap();
    let mut acknowledged = BTreeMap::new();
    for line in text(&out.stdout).lines() {
        if let Ok(event) = serde_json::from_str::<Value>(line) {
            acknowledge(&mut acknowledged, &event);
        }
    }
    let felt = out.status.code() != Some(0);
    let said = text(&out.stderr);
    assert!(!felt || said.contains("cannot use the campaign's store"), "{what}: {said}");
    let verb = if folder.join("c.db").exists() { "resume" } else { "run" };
    let again = campaign(folder, &[verb, "c.toml"]);
    assert_eq!(again.status.code(), Some(0), "{what}: {}", text(&again.stderr));
    whole(folder, &acknowledged, slots);
    felt.then_some(acknowledged.len())
}

/// A write is cut short in the middle of a page, and nothing more is taken: by the limit of a file's size.
#[test]
fn a_disk_that_fills_up_never_acknowledges() {
    // In halves of a KiB; the log of this plan's store grows to some 40 KiB.
    let felts = (0..=84).step_by(if support::long() { 1 } else { 12 }).filter_map(|blocks| {
        let folder = scratch("filling", &quick(COMMANDS));
        let run = format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec {} campaign run c.toml --json-lines",
            env!("CARGO_BIN_EXE_linerate")
        );
        felt(&folder, Command::new("sh").args(["-c", &run]), 14, &format!("{blocks} blocks"))
    });
    let felts: Vec<usize> = felts.collect();
    println!("acknowledged before: {felts:?}");
    assert!(felts.len() >= 3 && felts.iter().any(|acknowledged| *acknowledged > 0));
}

/// A new store comes from its log into its file only where there is room for both; where there is not, there is no store.
#[test]
fn a_disk_without_room_for_a_new_store_has_none() {
    if !nix::unistd::geteuid().is_root() {
        return support::skip("a_disk_without_room_for_a_new_store_has_none", "a mount needs root");
    }
    let plan = quick(COMMANDS).replace("warmup = 1\nruns = 6", "warmup = 0\nruns = 1");
    let folder = scratch("no-room", &plan);
    fs::create_dir(folder.join("disk")).unwrap();
    let script = "mount -t tmpfs -o size=$1k none disk && cp c.toml disk && cd disk && \
                  { \"$0\" campaign run c.toml >&2; echo $?; } && mount -o remount,size=4m \"$PWD\" && \
                  exec \"$0\" campaign run c.toml >&2";
    let mut felt = 0;
    // The log and its index take some 70 KiB, the file as much as the log.
    for size in (64..=136).step_by(12) {
        let size = size.to_string();
        let out = Command::new("unshare")
            .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_linerate"), &size])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(0), "{size} KiB: {}", text(&out.stderr));
        felt += u32::from(text(&out.stdout).trim() != "0");
    }
    assert!(felt > 0, "there was room for all of it");
}

/// A program that reads `--json` reads one document, whatever became of the campaign.
#[test]
fn what_ends_it_stands_in_the_one_document() {
    let ends = [36, 48, 60, 72].map(|blocks| {
        let folder = scratch("ended", &quick(COMMANDS));
        let program = env!("CARGO_BIN_EXE_linerate");
        let run =
            format!("trap '' XFSZ; ulimit -f {blocks}; exec {program} campaign run c.toml --json");
        let out = Command::new("sh").args(["-c", &run]).current_dir(&folder).output().unwrap();
        let document: Value = serde_json::from_slice(&out.stdout).unwrap();
        let error = &document["error"];
        assert_eq!(out.status.code() == Some(0), error.is_null(), "{document}");
        assert!(error.is_null() || text(&out.stderr).contains("cannot use the campaign's store"));
        document["total"].is_number() && error["why"].is_string()
    });
    assert!(ends.contains(&true), "{ends:?}");
}

/// The Nth write or flush of the store fails: nothing is acknowledged that is not there afterwards.
#[test]
fn a_failing_disk_never_acknowledges() {
    const TEST: &str = "a_failing_disk_never_acknowledges";
    let probe = Command::new("strace").args(["-f", "-e", "trace=none", "true"]).output();
    if !probe.is_ok_and(|out| out.status.success()) {
        return support::skip(TEST, "strace is not installed or may not trace here");
    }
    let plan = quick(COMMANDS).replace("runs = 6", "runs = 2");
    let (mut tried, mut faulted) = (0, 0);
    // One run of this plan writes about 60 times; in the long form each of them fails once.
    let (far, stride) = if support::long() { (90, 1) } else { (61, 12) };
    for (call, error, far, stride) in [
        ("pwrite64", "ENOSPC", far, stride),
        ("pwrite64", "EIO", far, stride),
        ("pwrite64", "EINTR", far, stride),
        ("fdatasync", "EIO", far / 3, stride),
        ("fsync", "EIO", far / 3, stride),
        ("ftruncate", "EIO", far / 10, stride),
    ] {
        for nth in (1..=far).step_by(stride) {
            let folder = scratch("failing", &plan);
            let inject = format!("inject={call}:error={error}:when={nth}");
            let mut faulty = Command::new("strace");
            faulty
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
                .args(["-e", &inject, env!("CARGO_BIN_EXE_linerate")])
                .args(["campaign", "run", "c.toml", "--json-lines"]);
            tried += 1;
            faulted += usize::from(felt(&folder, &mut faulty, 6, &inject).is_some());
        }
    }
    println!(
        "FIGURE T13: {tried} faults, {faulted} of them ended the campaign, none acknowledged what was not there"
    );
    assert!(faulted >= 5, "only {faulted} faults were felt");
}

/// A peer that is away for one run: the run is tried again, the gap is kept, the design is full.
#[test]
fn a_peer_that_vanishes_leaves_a_gap() {
    let _alone = support::alone();
    // It is gone once the first run has been, however late this test hears of it.
    let mut server = support::Server::start(None, &["--one-off"]);
    let port = server.port;
    let plan = format!(
        "name = \"gap\"\n[repeat]\nwarmup = 0\nruns = 6\nwait = \"60s\"\n[hosts.here]\naddress = \"local\"\n\
         [hosts.peer]\naddress = \"127.0.0.1\"\nport = {port}\n[settings.t]\ntest = \"tcp\"\nfrom = \"here\"\n\
         to = \"peer\"\ntime = \"300ms\"\ninterval = \"100ms\"\n"
    );
    let folder = scratch("gap", &plan);
    let (mut child, events) = watched(&folder, "run");
    let (mut anew, mut gaps) = (None, 0);
    for event in events {
        if event["event"] == "waiting" && anew.is_none() {
            assert_eq!(server.ends(LONG), Some(0));
            anew = Some(support::Server::on_port(None, port, &[]));
        }
        gaps += u32::from(event["event"] == "gap");
    }
    assert!(child.wait().unwrap().success());
    assert!(gaps >= 1, "a gap is kept");
    whole(&folder, &BTreeMap::new(), 6);
    let failed: Vec<_> =
        runs(&folder).into_iter().filter(|r| r.state == RunState::Failed).collect();
    assert!(!failed.is_empty() && failed.iter().all(|r| r.error.is_some()), "{failed:?}");
}

#[test]
fn a_run_that_never_succeeds_is_a_short_cell() {
    let plan = quick(COMMANDS).replace("sleep 0.01; echo 20$(date +%N)", "echo no number");
    let folder = scratch("short", &plan.replace("runs = 6", "runs = 2\nretries = 1"));
    let out = campaign(&folder, &["run", "c.toml"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let told = text(&out.stdout);
    assert!(told.contains("short: b has 0 of 2 runs: 2 attempts failed"), "{told}");
    let state = status(&folder);
    assert_eq!((&state["state"], &state["short"][0]["setting"]), (&"done".into(), &"b".into()));
    // A service that goes on after a failure must not begin again for ever.
    assert!(ok(&folder, &["resume", "c.toml"]).contains("short: b has 0 of 2 runs"));
}

/// Sends SIGINT and waits for the end, which must come by it.
fn interrupted(mut child: std::process::Child) -> Option<i32> {
    let pid = i32::try_from(child.id()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGINT)
        .unwrap();
    let ended = support::wait_for(LONG, || child.try_wait().is_ok_and(|status| status.is_some()));
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait().unwrap();
    assert!(ended, "Ctrl-C did not end it");
    status.code()
}

#[test]
fn a_pause_ends_at_ctrl_c() {
    let plan = quick(COMMANDS).replace("runs = 6", "runs = 6\npause = \"1h\"");
    let folder = scratch("pause", &plan);
    let (child, mut events) = watched(&folder, "run");
    assert_eq!(events.next().unwrap()["event"], "opened");
    assert_eq!(interrupted(child), Some(130));
    assert_eq!(status(&folder)["why"], "interrupted");
}

#[test]
fn a_run_on_another_host_ends_at_ctrl_c() {
    let _alone = support::alone();
    let plan = "name = \"far\"\n[repeat]\nwarmup = 0\nruns = 1\n[hosts.far]\naddress = \"127.0.0.1\"\n\
                port = PORT\nkey_file = \"key\"\n[settings.s]\ncommand = \"sleep 3600\"\ntime = \"1h\"\n\
                timeout = \"2h\"\nfrom = \"far\"\nmetric = { column = 1 }\n";
    let folder = scratch("far", plan);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("key"), "a key for tests only, 32 bytes.").unwrap();
    let (key, state) = (path("key"), path("state"));
    let options =
        ["--key-file", &key, "--allow-settings", "--allow-commands", "--state-dir", &state];
    let server = support::Server::start(None, &options);
    fs::write(folder.join("c.toml"), plan.replace("PORT", &server.port.to_string())).unwrap();
    let (child, mut events) = watched(&folder, "run");
    assert!(events.any(|event| event["event"] == "run_began"));
    assert_eq!(interrupted(child), Some(130));
    assert_eq!(status(&folder)["cut"], 1);
    let ended = || server.log().contains("control_ended");
    assert!(support::wait_for(LONG, ended), "{}", server.log());
}

#[test]
fn a_test_towards_this_machine_is_the_command_it_is_recorded_as() {
    let _alone = support::alone();
    let server = support::Server::start(None, &[]);
    let plan = format!(
        "name = \"here\"\n[repeat]\nwarmup = 0\nruns = 1\n[hosts.here]\naddress = \"local\"\n\
         [hosts.peer]\naddress = \"127.0.0.1\"\nport = {}\n[defaults]\ntest = \"tcp\"\nfrom = \"peer\"\n\
         to = \"here\"\ntime = \"200ms\"\ninterval = \"100ms\"\n[settings.to]\n[settings.fro]\nreverse = true\n",
        server.port
    );
    let folder = scratch("towards", &plan);
    ok(&folder, &["run", "c.toml"]);
    let runs = runs(&folder);
    assert_eq!(runs.len(), 2);
    for run in &runs {
        let record: Value = serde_json::from_str(run.record.as_deref().unwrap()).unwrap();
        let words = record["command"].as_array().unwrap();
        let reverse = words.contains(&"--reverse".into());
        assert_eq!(reverse, run.setting == "to", "{words:?}");
        let direction = if reverse { "reverse" } else { "forward" };
        assert_eq!(record["asked"]["direction"], direction, "{words:?}");
    }
    // Whose figures are whose cannot be turned around.
    let both = plan.replace("reverse = true", "both = true");
    fs::write(folder.join("c.toml"), both).unwrap();
    let out = campaign(&folder, &["check", "c.toml"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("a test both ways towards this machine"));
}

#[test]
fn exports_are_safe_for_spreadsheets_and_json_is_one_document() {
    let plan = quick(COMMANDS).replace("things/s", "=1+1,x");
    let folder = scratch("forms", &plan);
    let out = ok(&folder, &["run", "c.toml", "--json"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&document["done"], &document["total"]), (&14.into(), &14.into()));
    assert_eq!(document["runs"].as_array().unwrap().len(), 14);
    let csv = ok(&folder, &["export", "c.toml", "--format", "csv"]);
    assert!(csv.lines().count() > 1, "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.ends_with(",command,\"'=1+1,x\",")), "{csv}");
}

/// A tap device in a namespace of its own, whose driver takes at most 64 for `rx-frames` and makes
/// that of more (`tun_set_coalesce` of drivers/net/tun.c).
fn tap(test: &str, name: &str, plan: &str) -> Option<(support::Lab, PathBuf)> {
    if !support::Lab::possible(test) {
        return None;
    }
    let lab = support::Lab::pair();
    lab.run("a", "ip tuntap add dev tap7 mode tap");
    lab.run("a", "ip link set tap7 up");
    Some((lab, scratch(name, plan)))
}

fn within(lab: &support::Lab, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &lab.space("a"), env!("CARGO_BIN_EXE_linerate"), "campaign"])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1")
        .env("STATE_DIRECTORY", folder.join("state"));
    command
}

const ON_TAP: &str = r#"
name = "tap"
[repeat]
warmup = 0
runs = 2
retries = 0
[hosts.dut]
address = "local"
device = "tap7"
[settings.s]
command = "echo 5"
from = "dut"
metric = { column = 1 }
"#;

#[test]
fn a_value_that_the_driver_rounds_is_a_doubt_and_one_it_refuses_the_end() {
    const TEST: &str = "a_value_that_the_driver_rounds_is_a_doubt_and_one_it_refuses_the_end";
    let _alone = support::alone();
    let plan = format!("{ON_TAP}set.dut = {{ coalesce.rx-frames = 100 }}\n");
    let Some((lab, folder)) = tap(TEST, "rounded", &plan) else { return };
    let before = lab.run("a", "ethtool -c tap7");
    let out = within(&lab, &folder, &["run", "c.toml"]).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
    let told = "dut: coalesce.rx-frames was asked to be 100, the driver made it 64";
    assert_eq!(text(&out.stdout).matches(told).count(), 1, "{}", text(&out.stdout));
    let runs = runs(&folder);
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!(run.state, RunState::Counted);
        assert_eq!(run.settings, ["dut: coalesce.rx-frames = 64 (asked: 100)"]);
        assert_eq!(run.doubts, [told]);
    }
    assert_eq!(lab.run("a", "ethtool -c tap7"), before);
    // No descriptors to set here.
    let refused = plan.replace("coalesce.rx-frames = 100", "ring.rx = 100");
    fs::write(folder.join("c.toml"), refused).unwrap();
    let out = within(&lab, &folder, &["run", "c.toml", "--store", "other.db"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    assert!(said.contains("cannot set ring.rx = 100 on dut"), "{said}");
}

/// Somebody else sets the MTU back: that is said, and it has an end.
#[test]
fn a_setting_that_does_not_hold_is_told_and_the_run_given_up() {
    const TEST: &str = "a_setting_that_does_not_hold_is_told_and_the_run_given_up";
    let _alone = support::alone();
    let plan = format!("{ON_TAP}set.dut = {{ mtu = 1400, coalesce.rx-frames = 100 }}\n")
        .replace("runs = 2", "runs = 1\npause = \"6s\"");
    let Some((lab, folder)) = tap(TEST, "unheld", &plan) else { return };
    let mut command = within(&lab, &folder, &["run", "c.toml"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut told = out.lines().map_while(Result::ok);
    // What the driver rounds is told when all is set and was read back; the pause follows, after which it is looked at again.
    assert!(told.any(|line| line.contains("the driver made it 64")));
    lab.run("a", "ip link set tap7 mtu 1450");
    let told: Vec<String> = told.collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told:?}");
    let why = "before the run mtu = 1400 on dut was 1450 instead";
    assert!(told.iter().any(|line| line.contains(why)), "{told:?}");
    let runs = runs(&folder);
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].state, runs[0].error.as_deref()), (RunState::Failed, Some(why)));
}

#[test]
fn a_plan_that_was_changed_is_refused_with_the_difference() {
    let folder = scratch("changed", &quick(COMMANDS));
    ok(&folder, &["run", "c.toml"]);
    let plan = fs::read_to_string(folder.join("c.toml")).unwrap();
    fs::write(folder.join("c.toml"), plan.replace("runs = 6", "runs = 7")).unwrap();
    for verb in ["run", "resume"] {
        let out = campaign(&folder, &[verb, "c.toml"]);
        assert_eq!(out.status.code(), Some(2));
        let said = text(&out.stderr);
        for part in
            ["was changed after the campaign began", "line 4: - runs = 6", "line 4: + runs = 7"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    // By its store it goes on with the plan that it began with.
    ok(&folder, &["resume", "c.db"]);
}

#[test]
fn what_was_not_begun_is_no_campaign_to_any_verb() {
    let folder = scratch("not-begun", &quick(COMMANDS));
    for verb in ["resume", "status", "restore", "export"] {
        let out = campaign(&folder, &[verb, "c.toml"]);
        assert_eq!(out.status.code(), Some(1), "{verb}");
        let said = text(&out.stderr);
        assert!(said.contains("there is no campaign c.db"), "{verb}: {said}");
        assert!(said.contains("campaign run PLAN"), "{verb}: {said}");
    }
}

#[test]
fn a_unit_goes_on_with_the_store_that_is_begun() {
    let folder = scratch("unit-store", &quick(COMMANDS));
    // One that agrees to all.
    std::os::unix::fs::symlink("/bin/true", folder.join("systemctl")).unwrap();
    for (more, begin) in
        [(&[][..], "run c.toml\n"), (&["--store", "o.db"][..], "run c.toml --store o.db\n")]
    {
        let args = [&["install-unit", "c.toml", "--dir", "."][..], more].concat();
        let out = command(&folder, &args).env("PATH", &folder).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        let said = text(&out.stdout);
        assert!(said.ends_with(&format!("begin with: linerate campaign {begin}")), "{said}");
    }
}

#[test]
fn bad_input_is_told_with_its_place() {
    for (plan, wanted) in [
        (
            quick(COMMANDS).replace("runs = 6", "runz = 6"),
            "line 4, column 1: unknown key `runz` in [repeat] (did you mean `runs`?)",
        ),
        (
            quick("[settings.x]\ntest = \"tcp\"\nstreams = 100000\n"),
            "line 7, column 1: cannot use `--streams`",
        ),
        (quick("[settings.x]\ntest = \"tcp\"\nip = 5\n"), "line 7, column 1: `ip` is 4 or 6"),
        (
            quick("[settings.x]\ntest = \"tcp\"\nset.local.offload.tsso = true\n"),
            "line 7, column 19: cannot set offload.tsso",
        ),
        (
            quick("[settings.x]\ntest = \"udp\"\nip = 6\nno_checksum = true\n"),
            "line 8, column 1: cannot use `--no-checksum` on IPv6",
        ),
        (
            quick("[settings.x]\ntest = \"udp\"\n[settings.x]\ntest = \"tcp\"\n"),
            "line 7, column 11: two settings of the name `x`",
        ),
        (
            quick("[settings.x]\ntest = \"udp\"\nto = \"there\"\n"),
            "line 7, column 6: no host `there` in this plan",
        ),
    ] {
        let folder = scratch("bad", &plan);
        let out = campaign(&folder, &["check", "c.toml"]);
        assert_eq!(out.status.code(), Some(2), "{wanted}");
        let said = text(&out.stderr);
        assert!(said.contains(wanted), "wanted {wanted}\n{said}");
    }
    let folder = scratch("bad", "name = \"x\"");
    fs::write(folder.join("c.db"), "not a store at all").unwrap();
    fs::write(folder.join("c.toml"), quick(COMMANDS)).unwrap();
    let out = campaign(&folder, &["run", "c.toml"]);
    assert!(text(&out.stderr).contains("no store of a linerate campaign"), "{}", text(&out.stderr));
    assert_eq!(campaign(&folder, &["resume", "gone.toml"]).status.code(), Some(1));
}

#[test]
fn a_setting_takes_back_what_the_defaults_say() {
    let plan = "name = \"t\"\n[defaults]\ntest = \"tcp\"\nwindow = \"1M\"\n\
                [settings.a]\n[settings.b]\nwindow = false\n";
    let explained = ok(&scratch("back", plan), &["explain", "c.toml"]);
    assert_eq!(explained.matches("--window").count(), 1, "{explained}");
}

#[test]
fn status_while_another_runs_it_and_where_nothing_may_be_written() {
    // From the second command on each waits until it is let go.
    let held = "i=0; while [ -e first ] && [ -e hold ] && [ $i -lt 6000 ]; do i=$((i+1)); sleep 0.01; done; touch first";
    let folder = scratch("status", &quick(COMMANDS).replace("sleep 0.01", held));
    fs::write(folder.join("hold"), "").unwrap();
    let (mut child, mut events) = watched(&folder, "run");
    assert!(events.any(|e| e["event"] == "run"));
    let state = status(&folder);
    assert_eq!(state["state"], "running", "{state}");
    assert!(state["done"].as_u64() >= Some(1) && state["eta_s"].as_f64() > Some(0.0), "{state}");
    let second = campaign(&folder, &["resume", "c.toml"]);
    assert!(
        text(&second.stderr).contains("another process works on c.db"),
        "{}",
        text(&second.stderr)
    );
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(folder.join("hold")).unwrap();
    assert_eq!(status(&folder)["state"], "stopped");
    if !nix::unistd::geteuid().is_root() {
        return support::skip(
            "status_…_where_nothing_may_be_written",
            "a read-only mount needs root",
        );
    }
    let script = "mount --bind . . && mount -o remount,ro,bind . && cd \"$PWD\" && ! touch x 2>/dev/null && \
                  exec \"$0\" campaign status c.toml --json";
    let run = || {
        Command::new("unshare")
            .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_linerate")])
            .current_dir(&folder)
            .output()
    };
    index_of_a_log_that_was_cut(&folder.join("c.db"));
    let out = run().unwrap();
    assert_eq!(out.status.code(), Some(0), "after a kill: {}", text(&out.stderr));
    let state: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(state["done"].as_u64() >= Some(1), "what stands in the log alone counts: {state}");
    ok(&folder, &["resume", "c.toml"]);
    let out = run().unwrap();
    assert_eq!(out.status.code(), Some(0), "when done: {}", text(&out.stderr));
    assert!(text(&out.stdout).contains("\"done\""));
}

/// As a writer leaves it that is killed when it has cut its log, and its index still names a frame of it
/// (`WalIndexHdr` in SQLite's wal.c, in two copies). Only who may write can put that right.
fn index_of_a_log_that_was_cut(store: &Path) {
    let (log, index) = (store.with_extension("db-wal"), store.with_extension("db-shm"));
    fs::write(log, []).unwrap();
    let mut bytes = fs::read(&index).unwrap();
    let word =
        |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[4 * at..][..4].try_into().unwrap());
    bytes[16..20].copy_from_slice(&1u32.to_ne_bytes());
    let (mut a, mut b) = (0u32, 0u32);
    for pair in 0..5 {
        a = a.wrapping_add(word(&bytes, 2 * pair)).wrapping_add(b);
        b = b.wrapping_add(word(&bytes, 2 * pair + 1)).wrapping_add(a);
    }
    bytes[40..44].copy_from_slice(&a.to_ne_bytes());
    bytes[44..48].copy_from_slice(&b.to_ne_bytes());
    bytes.copy_within(..48, 48);
    fs::write(index, bytes).unwrap();
}

#[test]
fn ctrl_c_keeps_what_was_done() {
    let folder = scratch("ctrl-c", &quick(COMMANDS).replace("sleep 0.01", "sleep 0.3"));
    let (mut child, mut events) = watched(&folder, "run");
    assert!(events.any(|e| e["event"] == "run"));
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let left: Vec<Value> = events.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{left:?}");
    let state = status(&folder);
    assert_eq!((&state["state"], &state["why"]), (&"stopped".into(), &"interrupted".into()));
    ok(&folder, &["resume", "c.toml"]);
    whole(&folder, &BTreeMap::new(), 14);
}

#[test]
fn a_unit_goes_on_after_a_boot() {
    let folder = scratch("unit", &quick(COMMANDS));
    let unit = ok(&folder, &["install-unit", "c.toml", "--print"]);
    for line in [
        "campaign resume",
        "ProtectSystem=strict",
        "NoNewPrivileges=true",
        "WantedBy=multi-user.target",
        // What does not get better is given up in the end.
        "StartLimitIntervalSec=1h",
        "StartLimitBurst=20",
        "RestartPreventExitStatus=2",
    ] {
        assert!(unit.contains(line), "{unit}");
    }
    fs::create_dir(folder.join("units")).unwrap();
    ok(&folder, &["install-unit", "c.toml", "--dir", "units", "--no-enable"]);
    let path = folder.join("units/linerate-quick.service");
    assert_eq!(fs::read_to_string(&path).unwrap(), unit);
    match Command::new("systemd-analyze").arg("verify").arg(&path).output() {
        Err(_) => support::skip(
            "a_unit_goes_on_after_a_boot",
            "systemd-analyze is not installed: the unit is not verified",
        ),
        Ok(out) => assert!(out.status.success(), "{}", text(&out.stderr)),
    }
}

#[test]
fn the_example_plans_are_sound() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = 0;
    for file in fs::read_dir(examples).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            found += 1;
            let out = campaign(Path::new("."), &["explain", path.to_str().unwrap()]);
            assert_eq!(out.status.code(), Some(0), "{}: {}", path.display(), text(&out.stderr));
        }
    }
    assert!(found >= 3);
}
