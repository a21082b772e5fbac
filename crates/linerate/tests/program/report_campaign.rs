//! Reports on campaigns: from a store, sound or damaged, and from the lines that a campaign printed.
//! What `report` says of a store is what `compare` says of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use linerate_model::campaign::{Event, RunState, Slot, StoredRun};
use linerate_store::{Campaign, Meta};
use serde_json::Value;

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-campaign-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn linerate(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn good(folder: &Path, args: &[&str]) -> String {
    let out = linerate(folder, args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// A run of a setting in a boot: setting, boot, figure, unit.
type Cell<'a> = (&'a str, u32, f64, &'a str);

fn run(slot: u32, (setting, boot, value, unit): Cell<'_>) -> StoredRun {
    StoredRun {
        id: 0,
        slot,
        attempt: 1,
        state: RunState::Counted,
        boot,
        boot_id: Some(format!("{boot}0000000-boot")),
        block: 1,
        setting: setting.into(),
        warmup: false,
        number: slot + 1,
        started: "2026-11-22T10:00:00Z".into(),
        seconds: 1.0,
        value: Some(value),
        metric: "received_bps".into(),
        unit: Some(unit.into()),
        record: None,
        settings: Vec::new(),
        doubts: Vec::new(),
        error: None,
    }
}

fn store(folder: &Path, plan: &str, cells: &[Cell<'_>]) {
    let runs: Vec<StoredRun> = (0..).zip(cells).map(|(slot, cell)| run(slot, *cell)).collect();
    filled(folder, plan, &runs, &runs);
}

/// A store with a slot for each that was planned, and with these runs.
fn filled(folder: &Path, plan: &str, planned: &[StoredRun], runs: &[StoredRun]) {
    let slot = |run: &StoredRun| Slot {
        index: run.slot,
        boot: run.boot,
        block: 1,
        setting: run.setting.clone(),
        warmup: false,
        number: run.number,
    };
    let slots: Vec<Slot> = planned.iter().map(slot).collect();
    let meta = Meta {
        name: "stored".into(),
        plan: plan.into(),
        plan_path: "c.toml".into(),
        seed: 1,
        created: "2026-11-22T10:00:00Z".into(),
        version: "0.1.0".into(),
    };
    let mut campaign = Campaign::create(&folder.join("c.db"), &meta, &slots).unwrap();
    let began = Event::Opened { version: "0.1.0".into(), host: "lab".into(), boot_id: None };
    campaign.keep("2026-11-22T10:00:00Z", &began).unwrap();
    for run in runs {
        let ended =
            Event::RunEnded { slot: run.slot, attempt: 1, extra: false, state: RunState::Counted };
        campaign.keep_run("2026-11-22T10:00:01Z", run, &ended).unwrap();
    }
}

/// Three boots of three runs with some scatter, one setting after the other.
fn cells<'a>(settings: &[(&'a str, f64, &'a str)]) -> Vec<Cell<'a>> {
    let mut cells = Vec::new();
    for boot in 1..=3u32 {
        for run in 0..3u32 {
            for (i, (name, mean, unit)) in settings.iter().enumerate() {
                let scatter = f64::from((boot * 7 + run * 3 + i as u32 * 5) % 11) / 1000.0;
                cells.push((*name, boot, mean * (1.0 + scatter), *unit));
            }
        }
    }
    cells
}

/// The rows of a kind in a CSV report, as maps by column.
fn rows(folder: &Path, kind: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let csv = good(folder, &["report", "c.db", "--format", "csv"]);
    let mut lines = csv.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|l| {
            columns.iter().map(|c| (*c).to_owned()).zip(l.split(',').map(str::to_owned)).collect()
        })
        .filter(|row: &std::collections::BTreeMap<String, String>| row["kind"] == kind)
        .collect()
}

/// Every pair that compare has, with the same difference and verdict.
fn agree(folder: &Path) -> Value {
    let compared: Value =
        serde_json::from_str(&good(folder, &["compare", "c.db", "--json"])).unwrap();
    let reported = rows(folder, "comparison");
    let pairs = compared["comparisons"].as_array().unwrap();
    for pair in pairs {
        let label = pair["label"].as_str().unwrap();
        let row = reported.iter().find(|r| r["set"] == label).unwrap_or_else(|| panic!("{label}"));
        let close = |column: &str, value: &Value| {
            let (a, b) = (row[column].parse::<f64>().unwrap(), value.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-9 * b.abs(), "{label}, {column}: {a} and {b}");
        };
        close("value", &pair["difference"]);
        close("lower", &pair["ci"]["low"]);
        close("p_adjusted", &pair["p_adjusted"]);
        assert_eq!(row["status"], pair["verdict"].as_str().unwrap_or("no verdict"), "{label}");
    }
    compared
}

#[test]
fn the_example_with_netperf_is_compared_and_what_cannot_be_is_named() {
    let folder = scratch("units");
    let plan = include_str!("../../../../examples/udp-offload-netperf.toml");
    let settings = [
        ("udp4_nooffload", 9.0e9, "bit/s"),
        ("udp4_nooffload_nocksum", 9.5e9, "bit/s"),
        ("udp4_default", 9.9e9, "bit/s"),
        ("udp6_nooffload", 8.0e9, "bit/s"),
        ("udp6_default", 9.8e9, "bit/s"),
        ("netperf_udp4", 9100.0, "Mbit/s"),
    ];
    store(&folder, plan, &cells(&settings));
    let compared = agree(&folder);
    assert_eq!(compared["sets"][0]["label"], "udp4_nooffload_nocksum", "the plan's baseline");
    assert_eq!(compared["comparisons"].as_array().unwrap().len(), 4);
    let note = compared["notes"][0].as_str().unwrap();
    assert!(note.contains("netperf_udp4 (in Mbit/s)"), "{note}");
    let text = good(&folder, &["report", "c.db", "--format", "md"]).replace('\\', "");
    let apart = "netperf_udp4 has figures in Mbit/s, the baseline udp4_nooffload_nocksum in bit/s: \
                 it is not compared with it.";
    assert!(text.contains(apart), "{text}");
    assert!(text.contains("The mean of netperf_udp4 is"), "{text}");
    assert!(text.contains("**Sets in Mbit/s**"), "{text}");
    assert_eq!(rows(&folder, "set").len(), 6);
}

/// A plan without `baseline` means its first setting, whatever the alphabet says.
#[test]
fn the_first_setting_of_the_plan_is_the_baseline() {
    let folder = scratch("baseline");
    let plan = "name = \"b\"\n[repeat]\nboots = 3\nruns = 3\n[hosts.here]\naddress = \"local\"\n\
                reboot = \"true\"\n[settings.zeta]\ntest = \"tcp\"\n[settings.beta]\ntest = \"udp\"\n\
                [settings.alpha]\ntest = \"rr\"\n";
    let settings = [("beta", 9.5e8, "bit/s"), ("alpha", 9.0e8, "bit/s"), ("zeta", 9.4e8, "bit/s")];
    store(&folder, plan, &cells(&settings));
    let compared = agree(&folder);
    assert_eq!(compared["sets"][0]["label"], "zeta");
    let sets: Vec<String> = rows(&folder, "set").into_iter().map(|r| r["set"].clone()).collect();
    assert_eq!(sets, ["zeta", "beta", "alpha"]);
}

/// One cell that lost its runs of a boot leaves that pair unpaired, and every other as it was.
#[test]
fn a_short_cell_costs_no_comparison() {
    let folder = scratch("short");
    let plan = "name = \"s\"\n[settings.a]\ntest = \"tcp\"\n[settings.b]\ntest = \"tcp\"\nip = 6\n\
                [settings.c]\ntest = \"udp\"\n";
    let mut cells = cells(&[("a", 1e9, "bit/s"), ("b", 0.9e9, "bit/s"), ("c", 1.1e9, "bit/s")]);
    cells.retain(|(setting, boot, ..)| *setting != "c" || *boot < 3);
    store(&folder, plan, &cells);
    let compared = agree(&folder);
    let pairs = compared["comparisons"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);
    assert!(pairs[0]["method"].as_str().unwrap().starts_with("paired"), "{}", pairs[0]);
    assert!(!pairs[1]["method"].as_str().unwrap().starts_with("paired"), "{}", pairs[1]);
    let text = good(&folder, &["report", "c.db", "--format", "md"]);
    assert!(!text.contains("--paired") && !text.contains("--boots"), "flags of another command");
}

/// Without reboots there is no verdict, but the difference within the one boot is told.
#[test]
fn one_boot_tells_the_difference_within_it() {
    let folder = scratch("one-boot");
    let plan = "name = \"o\"\n[settings.a]\ntest = \"tcp\"\n[settings.b]\ntest = \"udp\"\n";
    let mut cells = cells(&[("a", 1e9, "bit/s"), ("b", 0.9e9, "bit/s")]);
    cells.retain(|(_, boot, ..)| *boot == 1);
    store(&folder, plan, &cells);
    let compared = agree(&folder);
    assert!(compared["comparisons"][0]["verdict"].is_null(), "{compared:#}");
    let text = good(&folder, &["report", "c.db", "--format", "md"]);
    assert!(text.contains("Within these boots b is 10"), "{text}");
}

/// A plan that reboots nothing, a power cut after its first setting, a run that was given up, and doubts.
#[test]
fn what_may_have_spoilt_a_comparison_is_told() {
    let folder = scratch("unasked");
    let plan = "name = \"u\"\n[settings.a]\ntest = \"tcp\"\n[settings.b]\ntest = \"udp\"\n";
    let cells = cells(&[("a", 1e9, "bit/s"), ("b", 0.9e9, "bit/s")]);
    let mut planned: Vec<StoredRun> =
        (0..).zip(cells).map(|(slot, cell)| run(slot, cell)).collect();
    for run in &mut planned {
        run.boot = 0;
        run.boot_id = Some(format!("{}0000000-boot", run.setting));
        if run.setting == "b" {
            run.record = Some(r#"{"doubts":[{"kind":"host-busy","text":"t"}]}"#.into());
        }
    }
    planned[0].doubts = vec!["dut: ring.rx became 512".into()];
    let (_, runs) = planned.split_last().unwrap();
    filled(&folder, plan, &planned, runs);
    let compared = agree(&folder);
    assert!(compared["comparisons"][0]["verdict"].is_null(), "{compared:#}");
    let flag = |set: usize| compared["sets"][set]["flags"][0]["text"].clone();
    assert_eq!(flag(0), "1 of 9 runs has a doubt: dut: ring.rx became 512");
    assert_eq!(flag(1), "8 of 8 runs have a doubt: host-busy");
    let text = good(&folder, &["report", "c.db", "--format", "md"]);
    assert!(text.contains("b: 8 of 8 runs have a doubt: host-busy."), "{text}");
    assert_eq!(compared["notes"][0], "b has 8 of the 9 runs of its design.");
    assert!(!compared.to_string().contains("reboots nothing"), "{compared:#}");
}

/// Changes one byte of a text in a file.
fn spoil(path: &Path, text: &str) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(text.len()).position(|w| w == text.as_bytes()).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_row_hides_no_run() {
    let plan = "name = \"d\"\n[settings.a]\ntest = \"tcp\"\n[settings.b]\ntest = \"udp\"\n";
    for (text, told) in [("\"version\":\"0.1.0\"", "event 1: "), ("2026-11-22T10:00:00Z", "")] {
        let folder = scratch("damaged");
        store(&folder, plan, &cells(&[("a", 1e9, "bit/s"), ("b", 0.9e9, "bit/s")]));
        spoil(&folder.join("c.db"), text);
        let out = linerate(&folder, &["report", "c.db", "--format", "csv"]);
        let error = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{error}");
        assert!(error.contains(told) && error.contains("its checksum is another"), "{error}");
        assert!(error.contains("--skip-damaged"), "{error}");
        let csv = good(&folder, &["report", "c.db", "--format", "csv", "--skip-damaged"]);
        let sets = csv.lines().filter(|l| l.starts_with("set,") && l.contains(",9,")).count();
        assert_eq!(sets, 2, "both settings with all nine runs: {csv}");
        assert_eq!(csv.lines().filter(|l| l.starts_with("comparison,")).count(), 1, "{csv}");
    }
}

/// What a campaign prints is reported like its store, without the records.
#[test]
fn the_lines_of_a_campaign_are_a_result() {
    let folder = scratch("lines");
    let plan = "name = \"told\"\nbaseline = \"z\"\n[repeat]\nwarmup = 1\nruns = 4\n[defaults]\n\
                metric = { column = 1 }\nunit = \"things/s\"\n[settings.a]\n\
                command = \"sh -c 'echo 10$(date +%N)'\"\n[settings.z]\n\
                command = \"sh -c 'echo 20$(date +%N)'\"\n";
    fs::write(folder.join("c.toml"), plan).unwrap();
    let lines = good(&folder, &["campaign", "run", "c.toml", "--json-lines"]);
    fs::write(folder.join("run.jsonl"), &lines).unwrap();
    let export = good(&folder, &["campaign", "export", "c.toml", "--format", "json-lines"]);
    fs::write(folder.join("export.jsonl"), export).unwrap();
    let report = |file: &str| good(&folder, &["report", file, "--format", "csv"]);
    let numbers = |csv: String| -> Vec<String> {
        csv.lines().skip(1).map(|l| l.splitn(3, ',').nth(2).unwrap().to_owned()).collect()
    };
    let stored = numbers(report("c.db"));
    assert_eq!(stored.len(), 3, "two sets and one pair: {stored:?}");
    assert_eq!(numbers(report("run.jsonl")), stored);
    // An export does not say which setting is the baseline, and the report says that.
    assert_eq!(numbers(report("export.jsonl")).len(), 3);
    let text = good(&folder, &["report", "export.jsonl", "--format", "md"]);
    assert!(text.contains("Which setting is the baseline is not said here"), "{text}");
    // The controller was ended before the campaign was.
    let cut: Vec<&str> = lines.lines().filter(|l| !l.contains("\"event\":\"end\"")).collect();
    fs::write(folder.join("cut.jsonl"), cut.join("\n")).unwrap();
    let text = good(&folder, &["report", "cut.jsonl", "--format", "md"]);
    assert!(text.contains("The lines end before the campaign of 10 runs does."), "{text}");
}
