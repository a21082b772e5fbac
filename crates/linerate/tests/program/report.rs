//! `linerate report` end to end: every form, hostile text, damaged files, outputs that cannot be
//! written, size, and the page in a real browser.

use crate::support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use linerate_model::record::{Doubt, DoubtKind, RunRecord};
use linerate_model::word::Word;
use linerate_testkit::records;

use crate::support::Browser;
use crate::support::browser::file;

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate"))
        .arg("report")
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn good(folder: &Path, args: &[&str]) -> Output {
    let out = run(folder, args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
}

fn write(folder: &Path, name: &str, records: &[RunRecord]) {
    let mut file = fs::File::create(folder.join(name)).unwrap();
    for record in records {
        writeln!(file, "{}", serde_json::to_string(record).unwrap()).unwrap();
    }
}

/// What the browser makes of a file when its scripts have run.
fn open(browser: &Browser, folder: &Path, name: &str) -> String {
    let options = ["--window-size=1200,1600", "--virtual-time-budget=20000"];
    browser.opens(&file(folder, name), &options)
}

/// The same when it has `part`, as of a figure that has been drawn. A headless browser on a loaded machine may print the
/// page before it has painted a frame, so it is asked a few times.
fn open_drawn(browser: &Browser, folder: &Path, name: &str, part: &str) -> String {
    let mut dom = String::new();
    for _ in 0..6 {
        dom = open(browser, folder, name);
        if dom.contains(part) {
            break;
        }
    }
    dom
}

fn all_kinds() -> Vec<RunRecord> {
    vec![
        records::udp_receiver_drops(),
        records::udp_both(),
        records::udp_streams(),
        records::tcp(),
        records::rr(),
        records::discard(),
        records::partial(),
        records::failed(),
        records::invalid(),
    ]
}

#[test]
fn every_kind_of_run_in_every_form() {
    let folder = scratch("forms");
    write(&folder, "all.jsonl", &all_kinds());
    let args =
        ["all.jsonl", "-o", "r.html", "-o", "r.svg", "-o", "r.png", "-o", "r.md", "-o", "r.csv"];
    good(&folder, &args);
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let (html, svg, md, csv) = (text("r.html"), text("r.svg"), text("r.md"), text("r.csv"));
    for form in [&html, &svg, &md] {
        // Known figures of the board at 160 Mbit/s.
        for want in ["160.0 Mbit/s", "135.6 Mbit/s", "15.26 %"] {
            assert!(form.contains(want), "{want}");
        }
        assert!(!form.contains("NaN") && !form.contains(">inf"));
    }
    assert!(html.contains("linerate udp hydra2 --rate 160M"), "the command that repeats it");
    assert!(html.contains("Cortex-A57") && html.contains("do not use these numbers"));
    assert!(fs::read(folder.join("r.png")).unwrap().starts_with(b"\x89PNG"));
    // One row a run and direction: nine runs, one of them both ways.
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 1 + 10, "{csv}");
    let columns = rows[0].split(',').count();
    let board = rows.iter().find(|r| r.contains("160000000")).unwrap();
    assert_eq!(board.split(',').count(), columns);
    assert!(board.contains(",20737,") && board.contains("receiver-cpu"), "{board}");
    // Again over its own reports: allowed, and the same.
    good(&folder, &args);
    assert_eq!(text("r.csv"), csv);
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left.len(), 6, "no draft is left: {left:?}");
}

/// A report on one thing says it once; of several, each sentence has its source, and both
/// directions of a run stand at one number.
#[test]
fn results_are_said_once_and_with_their_source() {
    let folder = scratch("once");
    write(&folder, "one.json", &[records::udp_receiver_drops()]);
    write(&folder, "both.json", &[records::udp_both(), records::tcp()]);
    let md = |files: &[&str]| {
        let out = good(&folder, &[files, &["--format", "md"][..]].concat());
        String::from_utf8(out.stdout).unwrap()
    };
    let alone = md(&["one.json"]);
    assert_eq!(alone.matches("- Limited by").count(), 1, "{alone}");
    let several = md(&["one.json", "both.json"]);
    assert!(several.contains("- 1 · UDP · 160.0 Mbit/s: "), "{several}");
    good(&folder, &["one.json", "both.json", "-o", "r.svg"]);
    let svg = fs::read_to_string(folder.join("r.svg")).unwrap();
    let (_, overview) = svg.split_once("Rate of every run").unwrap();
    let ticks = overview.split(">run<").next().unwrap();
    assert!(ticks.contains(">3<") && !ticks.contains(">4<") && !ticks.contains(">1.5<"), "{ticks}");
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_lost() {
    let folder = scratch("errors");
    let line = serde_json::to_string(&records::tcp()).unwrap();
    fs::write(folder.join("good.json"), &line).unwrap();
    fs::write(folder.join("cut.jsonl"), format!("{line}\n{}\n{line}\n", &line[..500])).unwrap();
    fs::write(folder.join("empty.json"), "").unwrap();
    fs::write(folder.join("mine.md"), "# my notes\n").unwrap();
    fs::create_dir(folder.join("dir.html")).unwrap();
    for (args, code, want) in [
        (&["empty.json", "-o", "a.html"][..], 1, "empty.json: it is empty"),
        (&["none.json", "-o", "a.html"], 1, "none.json: cannot read it"),
        (&["good.json", "cut.jsonl", "-o", "a.html"], 1, "cut.jsonl, line 2: "),
        (&["good.json", "-o", "no/where/a.html"], 1, "cannot write no/where/a.html"),
        (&["good.json", "-o", "dir.html"], 1, "it is a directory"),
        (&["good.json", "-o", "mine.md"], 1, "is no md report of linerate"),
        (&["good.json", "-o", "a.doc"], 2, "none of html, svg, png, md, csv"),
        (&["good.json", "-o", "-"], 2, "--format html"),
        (&["good.json", "--format", "pdf"], 2, "html, svg, png, md, csv"),
        (&["good.json"], 2, "-o report.html"),
        (&[], 2, "RESULT"),
    ] {
        let out = run(&folder, args);
        let error = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(want), "{args:?}: {error}");
        assert!(out.stdout.is_empty() && !folder.join("a.html").exists(), "{args:?}");
    }
    assert_eq!(fs::read_to_string(folder.join("mine.md")).unwrap(), "# my notes\n");
    good(&folder, &["good.json", "-o", "mine.md", "--force"]);
    assert!(fs::read_to_string(folder.join("mine.md")).unwrap().contains("# TCP: "));
    // What is left of a damaged file is reported when that is asked for, and the hole is shown.
    let out = good(&folder, &["cut.jsonl", "empty.json", "--skip-damaged", "--format", "md"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("# TCP: ") && text.contains("| 2 · "), "{text}");
    assert!(
        text.contains("cut.jsonl, line 2") && text.contains("empty.json: it is empty"),
        "{text}"
    );
}

/// Only what is a report of the same form is replaced unasked, and the mark has its place.
#[test]
fn a_file_that_is_no_report_stays() {
    let folder = scratch("replace");
    write(&folder, "good.json", &[records::tcp()]);
    let forms = ["html", "svg", "png", "md", "csv"];
    let names: Vec<String> = forms.iter().map(|f| format!("r.{f}")).collect();
    for name in &names {
        good(&folder, &["good.json", "-o", name]);
        good(&folder, &["good.json", "-o", name]);
    }
    good(&folder, &["good.json", "-o", "dark.png", "--dark"]);
    good(&folder, &["good.json", "-o", "dark.png"]);
    fs::write(folder.join("a.stat"), "1\n2\n3\n4\n").unwrap();
    let compared = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["compare", "a.stat", "--html", "compare.html", "--svg", "compare.svg"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(compared.status.success());
    let quoted = "# Notes\n\nA linerate report begins with `<!-- linerate report 0.1.0 -->`, or with\n\
                  kind,source,set,boot,run, or <meta name=\"generator\" content=\"linerate 0.1.0\">\n";
    fs::write(folder.join("run.json.png"), serde_json::to_string(&records::hostile()).unwrap())
        .unwrap();
    let mut others: Vec<(String, Vec<u8>)> = Vec::new();
    for form in forms {
        others.push((format!("notes.{form}"), quoted.as_bytes().to_vec()));
        // A report, but of another form.
        for other in names.iter().filter(|n| !n.ends_with(form)) {
            let bytes = fs::read(folder.join(other)).unwrap();
            others.push((format!("{}.{form}", other.replace('.', "-")), bytes));
        }
    }
    for name in ["compare.html", "compare.svg", "run.json.png"] {
        others.push((name.to_owned(), fs::read(folder.join(name)).unwrap()));
    }
    for (name, bytes) in &others {
        fs::write(folder.join(name), bytes).unwrap();
        let out = run(&folder, &["good.json", "-o", name]);
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{name}: {error}");
        assert!(error.contains("stays as it is") && error.contains("--force"), "{name}: {error}");
        assert_eq!(&fs::read(folder.join(name)).unwrap(), bytes, "{name}");
    }
}

/// What `--json-lines` of other verbs and the log of a search hold is in the report; what holds no
/// result is named.
#[test]
fn lines_and_logs_of_other_verbs_are_results() {
    let _alone = support::alone();
    let folder = scratch("lines");
    let keep = |name: &str, line: &str| {
        let out = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(line.split_whitespace())
            .current_dir(&folder)
            .output()
            .unwrap();
        fs::write(folder.join(name), &out.stdout).unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let sweep = keep("sweep.jsonl", "sweep --local --rates 1M,2M,4M -t 100ms --json-lines");
    let search = "search --local --max 8M --goal loss=50%,time=100ms,sum=200ms --max-time 3s";
    let search = keep("search.jsonl", &format!("{search} --json-lines --log search.log"));
    let titled = |file: &str| {
        let out = good(&folder, &[file, "--format", "md"]);
        let text = String::from_utf8(out.stdout).unwrap();
        text.lines().find_map(|l| l.strip_prefix("# ")).unwrap().to_owned()
    };
    for (file, what) in [
        ("sweep.jsonl", "UDP over the rate: "),
        ("search.jsonl", "Highest rate of UDP: "),
        ("search.log", "Highest rate of UDP: "),
    ] {
        let title = titled(file);
        assert!(title.starts_with(what) && title.contains(", over loopback, 20"), "{title}");
    }
    // The log says what the document says.
    let csv = |file: &str| {
        let text = String::from_utf8(good(&folder, &[file, "--format", "csv"]).stdout).unwrap();
        text.replace(file, "search")
    };
    assert_eq!(csv("search.log"), csv("search.jsonl"));
    // Without its end a sweep has told no result that a report could stand for.
    for (name, text) in [("sweep", &sweep), ("search", &search)] {
        let cut: Vec<&str> = text.lines().filter(|l| !l.contains("\"event\":\"end\"")).collect();
        fs::write(folder.join("cut.jsonl"), cut.join("\n")).unwrap();
        let out = run(&folder, &["cut.jsonl", "--format", "md"]);
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{name}: {error}");
        assert!(
            error.contains("cut.jsonl, line 1: a sweep, search or tuning whose end is missing"),
            "{error}"
        );
    }
    fs::write(folder.join("served.jsonl"), "{\"event\":\"listening\",\"address\":\"x\"}\n")
        .unwrap();
    let out = run(&folder, &["served.jsonl", "--format", "md"]);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(error.contains("served.jsonl: there is no result in it"), "{error}");
    assert_eq!(out.status.code(), Some(1));
}

/// A disk that is full, as `/dev/full` is, ends in an error and not in half a report.
#[test]
fn a_full_disk_is_told() {
    let folder = scratch("full");
    write(&folder, "a.json", &[records::tcp()]);
    let out = run(&folder, &["a.json", "--format", "csv", "-o", "/dev/full"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("No space left"));
}

/// Strings of somebody who wants a reader's browser, spreadsheet or terminal to do his will.
fn hostile_strings() -> Vec<String> {
    let act = "document.documentElement.setAttribute('data-owned','1')";
    let shapes = [
        format!("<script>{act}</script>"),
        format!("</script><script>{act}</script>"),
        format!("<img src=x onerror=\"{act}\">"),
        format!("\"><svg onload=\"{act}\">"),
        format!("'><body onload='{act}'>"),
        format!("</style><script>{act}</script>"),
        format!("</title><script>{act}</script>"),
        format!("<!--<script>{act}</script>-->"),
        format!("]]><script>{act}</script>"),
        format!("\\u003cscript>{act}\\u003c/script>"),
        format!("javascript:{act}"),
        format!("[x](javascript:{act})"),
        format!("=cmd|' /C calc'!A0{act}"),
        format!("`</code></pre><script>{act}</script>"),
        format!("{{{{constructor.constructor(\"{act}\")()}}}}"),
        format!("${{{act}}}"),
        format!("<iframe srcdoc=\"<script>parent.{act}</script>\">"),
        format!("<a href=\"javascript:{act}\">x</a>"),
        format!("<style>@import 'http://192.0.2.1/x'</style><details open ontoggle=\"{act}\">"),
        format!("</textarea></noscript></template><script>{act}</script>"),
    ];
    let wraps = [
        "{}",
        "a{}",
        "\u{202e}{}",
        "\u{1b}[2J{}",
        "{}\u{0}",
        "\r\n{}",
        "\"{}'",
        "--{}",
        "<{}",
        "&lt;{}",
    ];
    wraps
        .iter()
        .flat_map(|w| shapes.iter().map(|s| w.replace("{}", s)).collect::<Vec<_>>())
        .collect()
}

#[test]
fn two_hundred_hostile_strings_stay_text_in_every_form() {
    let folder = scratch("hostile");
    let strings = hostile_strings();
    assert_eq!(strings.len(), 200);
    let evil: Vec<RunRecord> = strings
        .iter()
        .enumerate()
        .map(|(i, evil)| {
            let mut record = records::hostile();
            let text = || evil.clone();
            record.id = text();
            record.started = text();
            record.command = vec!["linerate".into(), text()];
            record.target = Some(text());
            record.asked.protocol = Word::of(&if i % 2 == 0 { "udp".into() } else { text() });
            record.asked.engine = Some(Word::of(&text()));
            record.agreed = Some(record.asked.clone());
            record.client.hostname = text();
            record.client.boot_id = Some(text());
            if let Some(nic) = &mut record.client.nic {
                nic.name = text();
                nic.driver = Some(text());
            }
            if let Some(server) = &mut record.server {
                server.hostname = text();
                server.kernel = Some(text());
            }
            if let Some(verdict) = &mut record.verdict {
                verdict.because = vec![text()];
                verdict.advice = vec![text()];
            }
            record.doubts = vec![Doubt::new(DoubtKind::HostBusy, text())];
            if let Some(error) = &mut record.error {
                error.what = text();
                error.why = text();
            }
            record
        })
        .collect();
    write(&folder, "many.jsonl", &evil);
    // So few that each has its figures in the page and in pictures, and a file name to match.
    let few = "<img src=x onerror=document.documentElement.setAttribute('data-owned','1')>.jsonl";
    write(&folder, few, &evil[..10]);
    good(
        &folder,
        &[
            "many.jsonl",
            "-o",
            "many.html",
            "-o",
            "many.svg",
            "-o",
            "many.md",
            "-o",
            "many.csv",
            "-o",
            "many.png",
        ],
    );
    good(&folder, &[few, "-o", "few.html", "-o", "few.svg", "-o", "few.png"]);

    for name in ["many.csv", "many.md", "many.html", "many.svg", "few.html", "few.svg"] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let bad = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}');
        assert!(!text.chars().any(bad), "{name} has controls");
    }
    let csv = fs::read_to_string(folder.join("many.csv")).unwrap();
    for line in csv.lines() {
        let formula = |f: &str| f.strip_prefix('"').unwrap_or(f).starts_with(['=', '@']);
        assert!(!line.split(",").any(formula), "{line}");
    }
    let md = fs::read_to_string(folder.join("many.md")).unwrap();
    // Markup is escaped everywhere but in indented code, which knows none.
    for line in md.lines().skip(1).filter(|l| !l.starts_with("    ")) {
        assert!(!line.contains('<') && !line.contains("](javascript:"), "{line}");
    }

    let Some(browser) = Browser::new("two_hundred_hostile_strings") else { return };
    // The policy is the second wall. The first must hold by itself.
    for name in ["many.html", "few.html"] {
        let page = fs::read_to_string(folder.join(name)).unwrap();
        let start = page.find("<meta http-equiv=").unwrap();
        let end = start + page[start..].find('>').unwrap() + 1;
        let open_page = format!("{}{}", &page[..start], &page[end..]);
        fs::write(folder.join(format!("open-{name}")), open_page).unwrap();
    }
    // Without the policy more would be a script, and the small picture is made as the large one is.
    let mut pages =
        vec![("open-many.html#all", true), ("open-few.html", false), ("few.svg", false)];
    if support::long() {
        pages.extend([("many.html#all", true), ("few.html", false), ("many.svg", false)]);
    }
    for (name, opened) in pages {
        let dom = open(&browser, &folder, name);
        assert!(!dom.contains("data-owned=\"1\""), "{name}: a string became a script");
        // A picture of many runs shows none of them by itself.
        if name != "many.svg" {
            assert!(dom.contains("data-owned"), "{name}: the strings are shown");
        }
        if opened {
            assert_eq!(
                dom.matches("aria-expanded=\"true\"").count(),
                200,
                "{name}: all runs opened"
            );
            // Once in the script itself.
            assert_eq!(dom.matches("cannot be shown by this browser").count(), 1, "{name}");
        }
    }
}

#[test]
fn a_thousand_runs_are_one_light_page() {
    let folder = scratch("thousand");
    let runs: Vec<RunRecord> = (0..1000u32)
        .map(|i| {
            let mut record = records::udp_receiver_drops();
            record.id = format!("run-{i}");
            for (j, interval) in record.intervals.iter_mut().enumerate() {
                let noise = f64::from((i * 7919 + j as u32 * 104_729) % 1000) / 1000.0;
                if let Some(receiver) = &mut interval.figures.receiver {
                    receiver.bits_per_second *= 1.0 - noise / 3.0;
                    receiver.jitter_s = Some(80e-6 * (1.0 + noise));
                }
                if let Some(cpu) = interval.figures.sender.as_mut().and_then(|s| s.cpu.as_mut()) {
                    cpu.core_percent = Some(20.0 + 60.0 * noise);
                }
            }
            record
        })
        .collect();
    write(&folder, "many.jsonl", &runs);
    good(&folder, &["many.jsonl", "-o", "many.html", "-o", "many.svg", "-o", "many.csv"]);
    let size = fs::metadata(folder.join("many.html")).unwrap().len();
    assert!(size < 5_000_000, "{size} bytes");
    assert_eq!(fs::read_to_string(folder.join("many.csv")).unwrap().lines().count(), 1001);
    assert!(
        fs::read_to_string(folder.join("many.svg"))
            .unwrap()
            .contains("figures of each of the 1000 runs")
    );
    let Some(browser) = Browser::new("a_thousand_runs_are_one_light_page") else { return };
    // Only what is asked for is drawn.
    let dom = open_drawn(&browser, &folder, "many.html#run-17", "<canvas");
    assert_eq!(dom.matches("aria-expanded=\"true\"").count(), 1);
    assert_eq!(dom.matches("aria-expanded=\"false\"").count(), 999);
    assert!(dom.contains("run-16</dd>"), "the id of the run that was opened");
    let drawn = dom.matches("<canvas").count();
    assert!((1..=8).contains(&drawn), "{drawn} canvases");
}

/// Light, dark, narrow and printed: each shows something, and they differ.
#[test]
fn a_browser_shows_the_report() {
    let Some(browser) = Browser::new("a_browser_shows_the_report") else { return };
    let folder = scratch("shown");
    let mut lossy = records::udp_receiver_drops();
    // Nearly all in one interval, nearly nothing in the next.
    for (row, ratio) in lossy.intervals.iter_mut().zip([0.999_98, 1e-7]) {
        row.figures.receiver.as_mut().unwrap().lost_ratio = Some(ratio);
    }
    write(&folder, "lossy.jsonl", &[lossy]);
    good(&folder, &["lossy.jsonl", "-o", "lossy.html"]);
    // With its tables of numbers opened, by a script that its own policy would keep out.
    let opens = "<script>setInterval(() => document.querySelectorAll('figure details')\
                 .forEach((details) => { details.open = true; }), 50)</script></body>";
    let page = fs::read_to_string(folder.join("lossy.html")).unwrap();
    let page = page.replacen("http-equiv=\"Content-Security-Policy\"", "name=\"policy\"", 1);
    fs::write(folder.join("lossy.html"), page.replace("</body>", opens)).unwrap();
    let nearly_all = "<td>&gt;99.99 %</td>";
    let dom = open_drawn(&browser, &folder, "lossy.html", nearly_all);
    assert!(dom.contains("<canvas"), "the figures in sight became zoomable");
    assert!(dom.contains(nearly_all) && dom.contains("<td>&lt;0.0001 %</td>"), "{dom}");
    assert!(dom.contains("aria-label=\"Zoom in: Rate over time\""));
    assert!(dom.contains("class=\"sign\""), "the legend has the signs of the series");
    write(&folder, "a.jsonl", &[records::udp_receiver_drops(), records::tcp()]);
    good(&folder, &["a.jsonl", "-o", "a.html"]);
    let mut pictures = Vec::new();
    for (name, more) in [
        ("light", "--mute-audio"),
        ("dark", "--blink-settings=preferredColorScheme=0"),
        ("narrow", "--window-size=420,1600"),
    ] {
        let options = ["--window-size=1200,1600", "--virtual-time-budget=5000", more];
        let bytes = browser.draws(&file(&folder, "a.html"), &options);
        assert!(bytes.len() > 20_000, "{name}: {} bytes", bytes.len());
        pictures.push(bytes);
    }
    assert!(pictures[0] != pictures[1] && pictures[0] != pictures[2]);
}

/// What was taken from others is what it says it is.
#[test]
fn what_is_vendored_is_unchanged() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../linerate-report/assets");
    let list = fs::read_to_string(assets.join("README.md")).unwrap();
    let lines: Vec<&str> = list
        .lines()
        .filter(|l| {
            l.len() > 66
                && l.as_bytes()[64] == b' '
                && l[..64].bytes().all(|b| b.is_ascii_hexdigit())
        })
        .collect();
    assert_eq!(lines.len(), 5);
    let mut check = Command::new("sha256sum")
        .args(["--check", "--quiet"])
        .current_dir(&assets)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    assert!(check.wait().unwrap().success());
}
