//! `linerate compare` from outside: text, JSON, figures, exit codes, and what a browser shows.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::Browser;
use crate::support::browser::file;

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate"))
        .arg("compare")
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(folder: &Path, args: &[&str]) -> String {
    let out = run(folder, args);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{args:?}: {errors}");
    String::from_utf8(out.stdout).unwrap()
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&text(folder, &[args, &["--json"]].concat())).unwrap()
}

/// Three boots of ten runs: a boot's level and a run's scatter from a fixed pattern.
fn booted(mean: f64, boot_step: f64, run_step: f64) -> String {
    let pattern = [-1.3, 0.4, 1.1, -0.2, 0.8, -0.9, 1.6, -1.1, 0.1, -0.5];
    let mut lines = String::new();
    for (boot, level) in [-1.0, 0.3, 0.7].into_iter().enumerate() {
        for (i, _) in pattern.iter().enumerate() {
            let scatter = pattern[(i * 3 + boot * 7) % 10];
            lines.push_str(&format!("{:.2}\n", mean + level * boot_step + scatter * run_step));
        }
    }
    lines
}

#[test]
fn the_boot_is_the_unit() {
    let folder = scratch("compare-boots");
    fs::write(folder.join("tcp6.stat"), booted(8247.0, 60.0, 280.0)).unwrap();
    fs::write(folder.join("tcp6_nooffload.stat"), booted(4172.0, 30.0, 80.0)).unwrap();
    let args = ["tcp6.stat", "tcp6_nooffload.stat", "--boots-of", "10", "--unit", "Mbit/s"];
    let shown = text(&folder, &args);
    let last = shown.lines().rev().take(3).collect::<Vec<_>>().join(" ");
    assert!(shown.contains("tcp6_nooffload is 49."), "{shown}");
    assert!(shown.contains("slower than tcp6 (95 % interval"), "{shown}");
    assert!(last.contains("of the variance."), "{shown}");
    let view = json(&folder, &args);
    assert_eq!(view["format"], 1);
    assert_eq!(
        (&view["sets"][0]["boots"], &view["sets"][0]["runs_per_boot"]),
        (&3.into(), &10.into())
    );
    let comparison = &view["comparisons"][0];
    assert_eq!(comparison["verdict"], "different");
    // Pooled t on three boot means a side.
    assert_eq!(comparison["df"], 4.0);
    for key in [
        "label",
        "baseline",
        "difference",
        "ci",
        "ratio",
        "ratio_ci",
        "pooled_sd",
        "df",
        "p",
        "p_adjusted",
        "verdict",
        "smallest_effect",
        "runs_needed",
    ] {
        assert!(!comparison[key].is_null(), "{key} is absent");
    }
    for key in
        ["label", "n", "min", "max", "median", "mean", "sd", "ci", "between_sd", "within_sd", "icc"]
    {
        assert!(!view["sets"][0][key].is_null(), "{key} is absent");
    }
    assert_eq!(view["sets"][1]["values"].as_array().unwrap().len(), 30);
}

#[test]
fn two_boots_have_no_verdict() {
    let folder = scratch("compare-two-boots");
    fs::write(folder.join("a.stat"), "1\n2\n3\n4\n").unwrap();
    fs::write(folder.join("b.stat"), "11\n12\n13\n14\n").unwrap();
    let shown = text(&folder, &["a.stat", "b.stat", "--boots-of", "2"]);
    assert!(shown.contains("a boot effect cannot be distinguished"), "{shown}");
    assert!(shown.contains("No verdict on b against a"), "{shown}");
    let view = json(&folder, &["a.stat", "b.stat", "--boots-of", "2"]);
    assert!(view["comparisons"][0]["verdict"].is_null());
    assert!(view["sets"][0]["ci"].is_null());
}

#[test]
fn pairs_by_boot() {
    let folder = scratch("compare-paired");
    // Boots far apart, the difference the same in each: only pairing sees it.
    fs::write(folder.join("a.stat"), "v boot\n10 1\n11 1\n20 2\n21 2\n35 3\n36 3\n").unwrap();
    fs::write(folder.join("b.stat"), "v boot\n11 1\n12.1 1\n21 2\n22 2\n36 3\n36.9 3\n").unwrap();
    let apart = json(&folder, &["a.stat", "b.stat"]);
    assert_eq!(apart["comparisons"][0]["verdict"], "inconclusive");
    let paired = json(&folder, &["a.stat", "b.stat", "--paired"]);
    assert_eq!(paired["comparisons"][0]["verdict"], "different");
    assert_eq!(paired["comparisons"][0]["df"], 2.0);
    fs::write(folder.join("c.stat"), "v boot\n11 1\n12 1\n21 2\n22 2\n36 4\n37 4\n").unwrap();
    let out = run(&folder, &["a.stat", "c.stat", "--paired"]);
    assert_eq!(out.status.code(), Some(1));
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(error.contains("boot 3 of a is missing in c"), "{error}");
}

#[test]
fn equivalence_and_absolute_margin() {
    let folder = scratch("compare-tost");
    fs::write(folder.join("a.stat"), "100.1\n99.9\n100.0\n100.2\n99.8\n100.0\n").unwrap();
    fs::write(folder.join("b.stat"), "100.0\n99.8\n100.1\n100.3\n99.9\n100.1\n").unwrap();
    let verdict = |margin: &str| {
        let view = json(&folder, &["a.stat", "b.stat", "--margin", margin]);
        view["comparisons"][0]["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("1%"), "equivalent");
    assert_eq!(verdict("0.05%"), "inconclusive");
    assert_eq!(verdict("1"), "equivalent");
}

/// Every comparison that published tables print with their N, average and deviation, to the last
/// digit.
#[test]
fn printed_tables_are_reproduced() {
    let folder = scratch("compare-summary");
    let pps = "\
        x  30     288647.14     297221.37     294965.73     294963.19     1826.9506     udp4\n\
        +  30     288820.84     296645.88     294073.88      294086.6     2073.5719     nocksum\n\
        *  30        191089     202035.53     194729.67     196752.63     3732.0367     udp6\n";
    fs::write(folder.join("pps"), pps).unwrap();
    fs::write(
        folder.join("tcp"),
        "30 8247.0433 284.03515 tcp6\n30 4172.7127 82.614191 nooffload\n",
    )
    .unwrap();
    let lines = |args: &[&str], at: usize| -> String {
        let view = json(&folder, &[&["--summary"], args].concat());
        let lines = view["comparisons"][at]["ministat"]["lines"].as_array().unwrap().clone();
        lines.iter().map(|l| l.as_str().unwrap()).collect::<Vec<_>>().join("|")
    };
    assert_eq!(lines(&["pps"], 0), "No difference proven at 95.0% confidence");
    assert_eq!(
        lines(&["pps"], 1),
        "Difference at 95.0% confidence|-98210.6 +/- 1518.79|-33.2959% +/- 0.514908%|(Student's t, pooled s = 2938.18)"
    );
    assert_eq!(
        lines(&["tcp"], 0),
        "Difference at 95.0% confidence|-4074.33 +/- 108.121|-49.4035% +/- 1.31103%|(Student's t, pooled s = 209.166)"
    );
    // The same two sets the other way round, as a second figure shows them.
    assert_eq!(
        lines(&["tcp", "--baseline", "nooffload"], 0),
        "Difference at 95.0% confidence|4074.33 +/- 108.121|97.6423% +/- 2.59114%|(Student's t, pooled s = 209.166)"
    );
    let view = json(&folder, &["--summary", "pps"]);
    let error = view["comparisons"][0]["ministat"]["error"].as_f64().unwrap();
    assert_eq!(format!("{error:.2}"), "1010.13");
    let shown = text(&folder, &["--summary", "pps"]);
    assert!(shown.contains("-98210.6 +/- 1518.79; -33.2959% +/- 0.514908%"), "{shown}");
    // Such a row has no columns and no runs to choose from.
    for of_runs in ["--column=2", "--metric=loss", "--boots=none", "--boots-of=10"] {
        let out = run(&folder, &["--summary", "pps", of_runs]);
        assert_eq!(out.status.code(), Some(2), "{of_runs}");
    }
}

#[test]
fn records_and_iperf3_documents() {
    let folder = scratch("compare-records");
    let record = |rate: f64, boot: &str| {
        format!(
            "{{\"format\":1,\"client\":{{\"boot_id\":\"{boot}\"}},\"totals\":{{\"receiver\":{{\"bits_per_second\":{rate},\"lost_ratio\":0.01}}}},\"status\":\"complete\"}}\n"
        )
    };
    let file = |name: &str, base: f64| {
        let runs = (0..9).map(|i| record(base + f64::from(i % 4), ["a", "b", "c"][i as usize / 3]));
        fs::write(folder.join(name), runs.collect::<String>()).unwrap();
    };
    file("old.jsonl", 1000.0);
    file("new.jsonl", 2000.0);
    let view = json(&folder, &["old.jsonl", "new.jsonl"]);
    // Both were measured in the same three boots, so they are pairs without being told.
    assert_eq!(view["comparisons"][0]["method"], "paired t on boot means");
    assert_eq!(view["unit"], "bit/s");
    let shown = text(&folder, &["old.jsonl", "new.jsonl", "--metric", "loss"]);
    assert!(shown.contains("all 9 values are 1"), "{shown}");
    assert!(shown.contains("neither set varies"), "{shown}");
    let iperf3 = "{\"start\":{},\"end\":{\"sum_received\":{\"bits_per_second\":5e8},\"sum\":{\"lost_percent\":2.5}}}";
    fs::write(folder.join("i.json"), iperf3.repeat(3)).unwrap();
    let shown = text(&folder, &["i.json", "--metric", "loss"]);
    assert!(shown.contains("nothing to compare it with"), "{shown}");
    let busy = "{\"doubts\":[{\"kind\":\"host-busy\",\"text\":\"t\"}],";
    fs::write(folder.join("d.json"), record(1.0, "a").replacen('{', busy, 1).repeat(3)).unwrap();
    let shown = text(&folder, &["d.json"]);
    assert!(shown.contains("d: 3 of 3 runs have a doubt: host-busy"), "{shown}");
    let view = json(&folder, &["d.json"]);
    assert_eq!(view["sets"][0]["flags"][0]["text"], "3 of 3 runs have a doubt: host-busy");
}

#[test]
fn several_sets_zoom_and_widths() {
    let folder = scratch("compare-several");
    for (name, mean) in [("a", 100.0), ("b", 101.0), ("c", 250.0)] {
        fs::write(folder.join(format!("{name}.stat")), booted(mean, 0.0, 1.0)).unwrap();
    }
    let view = json(&folder, &["a.stat", "b.stat", "c.stat"]);
    assert_eq!(view["adjusted"], "Dunnett");
    let comparisons = view["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 2, "{view}");
    for c in comparisons {
        assert!(c["p_adjusted"].as_f64().unwrap() >= c["p"].as_f64().unwrap());
    }
    let holm = json(&folder, &["a.stat", "b.stat", "c.stat", "--adjust", "holm"]);
    assert_eq!(holm["adjusted"], "Holm");
    for width in ["40", "80", "200"] {
        let shown =
            text(&folder, &["a.stat", "b.stat", "c.stat", "--zoom", "a,2", "--width", width]);
        let (figures, _) = shown.split_once("\nset ").unwrap();
        // Each of the 90 values once, and the 60 of the zoom once more.
        let lanes = figures.lines().filter(|l| l.starts_with("  ") && !l.contains(['─', '◆', '┴']));
        let marks: usize = lanes
            .filter(|l| l.chars().all(|c| c == 'o' || c == ' '))
            .map(|l| l.matches('o').count())
            .sum();
        assert_eq!(marks, 150, "width {width}\n{shown}");
    }
    let baseline = json(&folder, &["a.stat", "b.stat", "c.stat", "--baseline", "c.stat"]);
    assert_eq!(baseline["sets"][0]["label"], "c");
}

#[test]
fn files_of_one_name_keep_their_own_whichever_is_the_baseline() {
    let folder = scratch("compare-names");
    for (name, runs) in [("old", "100\n101\n102\n"), ("new", "200\n201\n202\n")] {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("tcp.stat"), runs).unwrap();
    }
    for (baseline, label, mean) in
        [("old/tcp.stat", "new/tcp.stat", 101.0), ("new/tcp.stat", "old/tcp.stat", 201.0)]
    {
        let view = json(&folder, &["old/tcp.stat", "new/tcp.stat", "--baseline", baseline]);
        let base = &view["sets"][0];
        assert_eq!((&base["label"], &base["mean"]), (&baseline.into(), &mean.into()));
        assert_eq!(view["comparisons"][0]["label"], label);
    }
}

#[test]
fn bad_input_is_a_sentence_and_an_exit_code() {
    let folder = scratch("compare-bad");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("good.stat", "1\n2\n3\n");
    write("two.stat", "1\n2\n");
    write("word.stat", "1\n2\nthree\n");
    write("nan.stat", "1\nnan\n3\n");
    write("mixed.stat", "1Mbit/s\n2Gbit/s\n3Mbit/s\n");
    write("mbit.stat", "1Mbit/s\n2Mbit/s\n3Mbit/s\n");
    write("gbit.stat", "1Gbit/s\n2Gbit/s\n3Gbit/s\n");
    write("boot.stat", "1 a\n2 a\n3\n4 b\n");
    write("store.db", "SQLite format 3\0 and more");
    write("same.stat", "5\n5\n5\n");
    let record = |id: u32, format: u32| {
        format!(
            "{{\"format\":{format},\"id\":\"{id}\",\"totals\":{{\"receiver\":{{\"bits_per_second\":1e8}}}}}}\n"
        )
    };
    write("rates.jsonl", &[record(1, 1), record(2, 1), record(3, 1)].concat());
    let booted = |id: u32| record(id, 1).replacen('{', "{\"client\":{\"boot_id\":\"a\"},", 1);
    write("boots.jsonl", &[booted(1), booted(2), booted(3)].concat());
    write("twice.json", &[record(1, 1), record(2, 1), record(1, 1)].concat());
    write("newer.json", &[record(1, 1), record(2, 1), record(3, 2)].concat());
    for (args, code, want) in [
        (&["none.stat"][..], 1, "cannot read none.stat"),
        (&["two.stat"], 1, "two.stat: only 2 values; at least 3 are needed"),
        (&["word.stat"], 1, "word.stat, line 3, column 1: expected a number, found `three`"),
        (&["nan.stat"], 1, "nan.stat, line 2, column 1: `nan` is not a finite number"),
        (
            &["mixed.stat"],
            1,
            "mixed.stat, line 2, column 1: the unit is `Gbit/s`, above it is `Mbit/s`",
        ),
        (&["mbit.stat", "gbit.stat"], 1, "the units differ: mbit is in Mbit/s, gbit in Gbit/s"),
        (&["rates.jsonl", "good.stat"], 1, "rates is in bit/s, good does not say its unit"),
        (&["good.stat", "mbit.stat"], 1, "mbit is in Mbit/s, good does not say its unit"),
        (
            &["mbit.stat", "gbit.stat", "--unit", "Mbit/s"],
            1,
            "gbit is in Gbit/s, not in Mbit/s as --unit says",
        ),
        (&["twice.json"], 1, "twice.json: record 3 is of the same run as record 1: id 1"),
        (&["newer.json"], 1, "newer.json: record 3: format 2 is newer than this version reads"),
        (&["boot.stat", "--boots", "2"], 1, "boot.stat, line 3, column 2: the boot is missing"),
        (&["store.db"], 1, "cannot use the campaign's store"),
        (&["good.stat", "--level", "100"], 2, "`100` is not a level"),
        (&["good.stat", "--margin", "-1%"], 2, "margin"),
        (&["good.stat", "--metric", "speed"], 2, "no metric `speed`"),
        (&["good.stat", "--metric", "loss"], 2, "--metric chooses a figure of records"),
        (&["rates.jsonl", "--column", "2"], 2, "--column names a column, and no file has any"),
        (&["boots.jsonl", "--boots", "2"], 2, "--boots names a column, and no file has any"),
        (&["good.stat", "--zoom", "x"], 2, "no set `x`"),
        (&["good.stat", "--nope"], 2, "--nope"),
        (&[], 2, "FILE"),
    ] {
        let out = run(&folder, args);
        let error = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(want), "{args:?}: {error}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
    let shown = text(&folder, &["same.stat", "same.stat"]);
    assert!(shown.contains("all 3 values are 5"), "{shown}");
    assert!(shown.contains("No verdict"), "{shown}");
    // As `campaign export` writes them, and where --unit says what a file does not.
    assert_eq!(json(&folder, &["good.stat", "same.stat"])["unit"], Value::Null);
    let named = json(&folder, &["good.stat", "mbit.stat", "--unit", "Mbit/s"]);
    assert_eq!(named["unit"], "Mbit/s");
    // Each option has its file.
    let both = ["rates.jsonl", "good.stat", "--unit", "bit/s", "--metric", "received_bps"];
    assert_eq!(json(&folder, &[&both[..], &["--column", "1"]].concat())["unit"], "bit/s");
    // One file as two settings is compared; only within a set it would count twice.
    assert_eq!(json(&folder, &["rates.jsonl", "rates.jsonl"])["unit"], "bit/s");
}

#[test]
fn a_page_names_files_whose_names_are_no_text() {
    let folder = scratch("compare-bytes");
    let name = OsStr::from_bytes(b"a\xff.stat");
    fs::write(folder.join(name), "1\n2\n3\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(["compare", "--html", "out.html"]).arg(name).current_dir(&folder);
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(fs::read_to_string(folder.join("out.html")).unwrap().contains("out.html"));
}

/// The page in a real browser: it must draw something in both themes, and the two must differ.
#[test]
fn a_browser_shows_the_page() {
    let Some(browser) = Browser::new("a_browser_shows_the_page") else { return };
    let folder = scratch("compare-page");
    fs::write(folder.join("a.stat"), booted(8247.0, 60.0, 280.0)).unwrap();
    fs::write(folder.join("b.stat"), booted(4172.0, 30.0, 80.0)).unwrap();
    let args =
        ["a.stat", "b.stat", "--boots-of", "10", "--html", "page.html", "--svg", "figure.svg"];
    text(&folder, &args);
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    assert_eq!(page.matches("<circle").count(), 60);
    let mut sizes = Vec::new();
    for (source, theme) in [("page.html", "light"), ("page.html", "dark"), ("figure.svg", "light")]
    {
        let dark = if theme == "dark" {
            "--blink-settings=preferredColorScheme=0"
        } else {
            "--mute-audio"
        };
        let bytes = browser.draws(&file(&folder, source), &[dark, "--window-size=1040,1200"]);
        assert!(bytes.len() > 10_000, "{source} {theme}: {} bytes", bytes.len());
        sizes.push(bytes);
    }
    assert_ne!(sizes[0], sizes[1], "dark looks like light");
}
