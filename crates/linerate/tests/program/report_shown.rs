//! What a person sees of a report: titles, units, scales, names, inputs of other programs, single
//! figures, and tables that fit their page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use linerate_testkit::records;
use serde_json::{Value, json};

use crate::support::Browser;
use crate::support::browser::file;

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-shown-{name}"));
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

fn good(folder: &Path, args: &[&str]) -> String {
    let out = run(folder, args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn page(folder: &Path, args: &[&str]) -> String {
    good(folder, &[args, &["-o", "r.html"]].concat());
    let page = fs::read_to_string(folder.join("r.html")).unwrap();
    // What is read, without style, scripts and their data.
    page.split_once("<body>").unwrap().1.split("<script").next().unwrap().to_owned()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).unwrap().1.split_once(after).unwrap().0
}

/// Digits, then `e+10` or `e-07`: a number that nobody reads.
fn exponent(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    (1..bytes.len().saturating_sub(2)).find_map(|i| {
        let found = bytes[i] == b'e'
            && bytes[i - 1].is_ascii_digit()
            && matches!(bytes[i + 1], b'+' | b'-')
            && bytes[i + 2].is_ascii_digit();
        found.then(|| text.get(i.saturating_sub(12)..(i + 6).min(text.len())).unwrap_or("?"))
    })
}

fn iperf3(rate: f64, protocol: &str) -> Value {
    let bytes = (rate / 8.0) as u64;
    let udp = protocol == "UDP";
    let mut sum =
        json!({ "start": 0, "end": 1.0, "seconds": 1.0, "bytes": bytes, "bits_per_second": rate });
    if udp {
        sum["packets"] = json!(1000);
        sum["lost_packets"] = json!(20);
        sum["lost_percent"] = json!(2.0);
        sum["jitter_ms"] = json!(0.25);
    } else {
        sum["retransmits"] = json!(7);
    }
    let mut row = sum.clone();
    row["sender"] = json!(true);
    json!({
        "start": {
            "version": "iperf 3.12", "system_info": "Linux here 6.1.0 #1 SMP x86_64",
            "timestamp": { "timesecs": 1_795_393_982 },
            "connecting_to": { "host": "192.0.2.7", "port": 5201 }, "cookie": "c",
            "target_bitrate": if udp { 100_000_000 } else { 0 },
            "test_start": { "protocol": protocol, "num_streams": 1, "blksize": 1448, "omit": 0,
                "duration": 1, "bytes": 0, "blocks": 0, "reverse": 0 },
        },
        "intervals": [{ "sum": row }],
        "end": { "sum_sent": sum, "sum_received": sum },
    })
}

/// A search whose first trial went as fast as the sender could, far above the knee.
fn search() -> Value {
    let trial = |asked: f64, good: Value, note: Value| {
        json!({
            "search": 1, "purpose": "search", "asked_bps": asked, "sent_bps": asked,
            "received_bps": asked.min(1.05e8), "seconds": 1.0, "took_s": 1.0, "lost_ratio": 0.0,
            "undelivered_ratio": 0.0, "good": good, "invalid": note,
        })
    };
    let note = "the sender did not send what was asked, and on the client some task waited for a \
                core 92 % of the time: other work ran beside this test";
    json!({
        "format": 1, "kind": "search", "id": "s", "started": "2026-11-22T10:00:00Z",
        "linerate": { "version": "0.1.0" }, "direction": "forward", "target": "far",
        "client": { "hostname": "near" }, "server": { "hostname": "far" },
        "min_bps": 1e6, "max_bps": 2e10, "seconds": 6.0, "because": [], "status": "complete",
        "goals": [{
            "name": "loss", "loss": 0.005, "exceed": 0.5, "trial_s": 1.0, "sum_s": 2.0, "width": 0.05,
            "lower_bps": 1e8, "upper_bps": 1.1e8, "throughput_bps": 1e8, "trials": 5,
            "seconds": 6.0, "settled": true, "limit": "path",
        }],
        "trials": [
            trial(1.1e10, json!(false), Value::Null), trial(9.5e7, json!(true), Value::Null),
            trial(1e8, json!(true), Value::Null), trial(1.05e8, Value::Null, json!(note)),
            trial(1.1e8, json!(false), Value::Null),
        ],
    })
}

#[test]
fn the_title_says_what_between_whom_and_when_and_bars_go_first() {
    let folder = scratch("title");
    fs::write(
        folder.join("a.json"),
        serde_json::to_string(&records::udp_receiver_drops()).unwrap(),
    )
    .unwrap();
    let page = page(&folder, &["a.json"]);
    let title = between(&page, "<h1>", "</h1>");
    assert_eq!(title, "UDP at 160.0 Mbit/s: hydra1 → hydra2, 2026-01-02 03:04 UTC");
    let (head, _) = page.split_once("<div class=\"words\">").unwrap();
    assert!(head.contains("<td>135.6 Mbit/s</td><td><svg"), "{head}");
    assert!(head.contains("<rect class=\"b0\" width=\"200.0\""), "{head}");
}

#[test]
fn runs_differ_in_name_where_they_differ() {
    let folder = scratch("names");
    let slow = records::udp_receiver_drops();
    let mut wide = slow.clone();
    for plan in [Some(&mut wide.asked), wide.agreed.as_mut()].into_iter().flatten() {
        plan.datagram_bytes = Some(64);
    }
    let runs = [&slow, &wide, &slow].map(|r| serde_json::to_string(r).unwrap());
    fs::write(folder.join("same.jsonl"), runs.join("\n")).unwrap();
    let text = good(&folder, &["same.jsonl", "--format", "md"]);
    let names: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("### ")).take(3).collect();
    assert_eq!(names, ["1 · 1472 B", "2 · 64 B", "3 · 1472 B"]);
}

#[test]
fn stat_files_are_compared_and_no_number_has_an_exponent() {
    let folder = scratch("stat");
    let rates = |base: f64| -> String {
        let lines: Vec<String> =
            [0.0, 7e6, -9e6, 4e6, -2e6].iter().map(|d| format!("{}", base + d)).collect();
        format!("# unit: bit/s\n{}\n", lines.join("\n"))
    };
    fs::write(folder.join("before.stat"), rates(1.103_750_02e10)).unwrap();
    fs::write(folder.join("after.stat"), rates(9.037_500_2e9)).unwrap();
    let page = page(&folder, &["before.stat", "after.stat"]);
    assert_eq!(between(&page, "<h1>", "</h1>"), "Comparison of before and after");
    assert!(page.contains("<td>11.04 Gbit/s</td>"), "{page}");
    assert!(page.contains("-18.12 %") && page.contains("different"), "{page}");
    assert_eq!(exponent(&page), None);
    let text = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["compare", "before.stat", "after.stat"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("2 sets in Gbit/s") && text.contains("11.037"), "{text}");
    assert_eq!(exponent(&text), None);
    // Of one value nothing can be said, and that is said.
    fs::write(folder.join("one.stat"), "5\n").unwrap();
    let out = run(&folder, &["one.stat", "-o", "x.html"]);
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(error.contains("only 1 value") && out.status.code() == Some(1), "{error}");
}

#[test]
fn documents_of_iperf3_are_runs_or_the_runs_of_a_setting() {
    let folder = scratch("iperf3");
    fs::write(folder.join("tcp.json"), iperf3(9.5e9, "TCP").to_string()).unwrap();
    fs::write(folder.join("udp.json"), iperf3(1e8, "UDP").to_string()).unwrap();
    let text = good(&folder, &["tcp.json", "udp.json", "--format", "md"]);
    assert!(
        text.contains("# TCP and UDP at 100.0 Mbit/s: here → 192.0.2.7, 2026-11-23 00:33 UTC"),
        "{text}"
    );
    assert!(text.contains("| 9.500 Gbit/s | 7 retrans |"), "{text}");
    assert!(text.contains("| 100.0 Mbit/s | 2.00 % |"), "{text}");
    let run_of = |(at, rate): (usize, f64)| {
        let mut run = iperf3(rate, "TCP");
        run["start"]["cookie"] = json!(at.to_string());
        run.to_string()
    };
    let many = |rates: [f64; 4]| rates.into_iter().enumerate().map(run_of).collect::<String>();
    fs::write(folder.join("a.json"), many([9.5e9, 9.4e9, 9.6e9, 9.5e9])).unwrap();
    fs::write(folder.join("b.json"), many([7.5e9, 7.4e9, 7.6e9, 7.5e9])).unwrap();
    let text = good(&folder, &["a.json", "b.json", "--format", "md"]);
    assert!(text.contains("# Comparison of a and b: here → 192.0.2.7, "), "{text}");
    assert!(text.contains("| b | 7.500 Gbit/s | -21.05 % | different |"), "{text}");
    let failed = r#"{"start":{},"end":{},"error":"unable to connect"}"#;
    fs::write(folder.join("bad.json"), failed).unwrap();
    let out = run(&folder, &["bad.json", "--format", "md"]);
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(error.contains("an iperf3 test that failed: unable to connect"), "{error}");
}

#[test]
fn a_first_trial_flat_out_does_not_flatten_the_rest() {
    let folder = scratch("scales");
    fs::write(folder.join("s.json"), search().to_string()).unwrap();
    let page = page(&folder, &["s.json"]);
    // Around the knee, without the trial at 11 Gbit/s.
    let knee = between(&page, "Zoom on the knee", "</figure>");
    assert!(knee.contains(">100 M<") && !knee.contains(" G<"), "{knee}");
    // All of them, on axes of equal factors.
    let every = between(&page, "Every trial: received against asked", "</figure>");
    assert!(every.contains(">100 M<") && every.contains(">10 G<"), "{every}");
    // A trial is also failed by what was not sent in time.
    assert!(page.contains("<th scope=\"col\">at most not delivered</th>"), "{page}");
    let course = between(&page, "How the search closed in", "</figure>");
    assert!(course.contains(">100 M<") && course.contains(">10 G<"), "{course}");
    // A note of a trial is a sentence that may be broken.
    assert!(page.contains("<td class=\"long\">invalid: the sender did not send"), "{page}");
}

#[test]
fn one_figure_is_a_slide_and_each_can_be_a_file() {
    let folder = scratch("figures");
    fs::write(folder.join("s.json"), search().to_string()).unwrap();
    let wrong = run(&folder, &["s.json", "--figure", "knees", "-o", "x.png"]);
    let error = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{error}");
    assert!(error.contains("zoom-on-the-knee-received-against-asked, "), "{error}");
    assert!(!folder.join("x.png").exists());
    let wrong = run(&folder, &["s.json", "--figure", "how-the-search-closed-in", "-o", "x.md"]);
    assert_eq!(wrong.status.code(), Some(2));
    let one = ["s.json", "--figure", "how-the-search-closed-in", "-o", "x.png", "-o", "x.svg"];
    good(&folder, &one);
    let size = |name: &str| {
        let bytes = fs::read(folder.join(name)).unwrap();
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        (number(16), number(20))
    };
    assert_eq!(size("x.png"), (1600, 900));
    let svg = fs::read_to_string(folder.join("x.svg")).unwrap();
    assert!(svg.contains("viewBox=\"0 0 960 540\"") && svg.contains("Highest rate: near → far"));
    good(&folder, &["s.json", "--figures", "slides"]);
    let mut names: Vec<String> = fs::read_dir(folder.join("slides"))
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "every-trial-received-against-asked.png",
            "how-the-search-closed-in.png",
            "zoom-on-the-knee-received-against-asked.png"
        ]
    );
    for name in names {
        assert_eq!(size(&format!("slides/{name}")), (1600, 900));
    }
}

/// Every table is as wide as what holds it at most: none has to be scrolled, and none is cut.
#[test]
fn no_table_is_cut_at_1280_pixels() {
    let Some(browser) = Browser::new("no_table_is_cut_at_1280_pixels") else { return };
    let folder = scratch("wide");
    let runs = [records::udp_receiver_drops(), records::udp_both(), records::tcp(), records::rr()];
    let runs = runs.map(|r| serde_json::to_string(&r).unwrap());
    fs::write(folder.join("runs.jsonl"), runs.join("\n")).unwrap();
    fs::write(folder.join("s.json"), search().to_string()).unwrap();
    good(&folder, &["runs.jsonl", "s.json", "-o", "r.html"]);
    let page = fs::read_to_string(folder.join("r.html")).unwrap();
    // The page lets no foreign script in, so the one that measures comes with a page without the
    // policy.
    let policy = page.find("<meta http-equiv=").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let measure = "<script>for (const p of document.querySelectorAll('.part,.block')) \
        p.style.contentVisibility = 'visible'; let wide = 0, n = 0; \
        for (const s of document.querySelectorAll('.scroll')) { n++; \
        if (s.scrollWidth > s.clientWidth + 1) wide++; } \
        document.body.dataset.measured = n + ' tables, ' + wide + ' cut';</script></body>";
    let open = format!("{}{}", &page[..policy], &page[end..]).replace("</body>", measure);
    fs::write(folder.join("open.html"), open).unwrap();
    let dom = browser.opens(&file(&folder, "open.html"), &["--window-size=1280,2000"]);
    let measured = between(&dom, "data-measured=\"", "\"");
    assert!(measured.ends_with(" tables, 0 cut") && !measured.starts_with("0 "), "{measured}");
}

fn gain(mean: f64, low: f64, high: f64) -> Value {
    json!({ "mean": mean, "low": low, "high": high })
}

/// A tuning that found a window, and a word that would be markup.
fn tuning() -> Value {
    let level = |name: &str, gain: Value| json!({ "name": name, "gain_percent": gain, "runs": 4 });
    let trial = |purpose: &str, levels: Value, value: f64| json!({ "purpose": purpose, "levels": levels, "value": value, "took_s": 1.1, "runs": ["r"] });
    let mut trials = vec![trial("default", json!({}), 7.8e8), trial("default", json!({}), 7.9e8)];
    trials.push(trial("screen", json!({ "window": 1, "streams": 1 }), 9.1e8));
    trials.push(json!({
        "purpose": "refine", "levels": { "engine": 1 }, "took_s": 0.4,
        "failed": "the sender fell back to <b>send</b>",
    }));
    trials.push(json!({
        "purpose": "confirm", "levels": {}, "took_s": 2.2, "failed": "the link was lost", "void": true,
    }));
    trials.push(trial("confirm", json!({ "window": 1 }), 9.2e8));
    json!({
        "format": 1, "kind": "tune", "id": "t", "started": "2026-11-22T10:00:00Z",
        "linerate": { "version": "0.1.0" }, "command": ["linerate", "tune", "udp", "far"],
        "target": "far", "protocol": "udp",
        "objective": {
            "name": "rate", "metric": "received_bps", "unit": "bit/s", "better": "higher",
        },
        "width_percent": 2.0, "seed": 7, "candidate": { "window": 1 },
        "gain_percent": gain(18.2, 16.0, 20.4), "pairs": 8, "default_mean": 7.8e8,
        "best_mean": 9.22e8, "recommended": true, "reason": "settled",
        "because": ["window 4 MiB: 18.2 % more", "no other level of any factor can add 2 %"],
        "best_command": ["linerate", "udp", "far", "--window", "4Mi"],
        "factors": [
            {
                "name": "window", "best": 1, "worth_percent": gain(18.2, 16.0, 20.4),
                "levels": [level("the system's", gain(-15.4, -17.0, -13.8)), level("4 MiB", Value::Null)],
            },
            {
                "name": "engine", "best": 0, "others_most_percent": 1.4,
                "levels": [level("gso", Value::Null),
                    { "name": "mmsg", "runs": 0, "left_out": "it fell back to <b>send</b>" }],
            },
            {
                "name": "streams", "best": 0, "others_most_percent": 1.9,
                "levels": [level("1", Value::Null), level("2", gain(0.2, -1.1, 1.5))],
            },
        ],
        "trials": trials, "client": { "hostname": "near" }, "server": { "hostname": "far" },
        "seconds": 61.0, "doubts": [], "status": "complete",
    })
}

#[test]
fn a_tuning_becomes_a_page_with_its_worth_as_bars() {
    let folder = scratch("tune");
    fs::write(folder.join("t.json"), tuning().to_string()).unwrap();
    let text = page(&folder, &["t.json"]);
    assert_eq!(
        between(&text, "<h1>", "</h1>"),
        "Best setting of UDP for rate: near → far, 2026-11-22 10:00 UTC"
    );
    let headline = between(&text, "<table class=\"headline\">", "</table>");
    for cell in ["the default", "780.0 Mbit/s", "window 4 MiB", "922.0 Mbit/s", "recommended"] {
        assert!(headline.contains(cell), "{cell}: {headline}");
    }
    for words in [
        "922.0 Mbit/s against 780.0 Mbit/s of the default",
        "<p class=\"note\">To use what was found:</p>",
        "<pre><code>linerate udp far --window 4Mi</code></pre>",
        "What the best setting is worth over the default",
        "window 4 MiB: +18.2 % (+16.0 to +20.4)",
        "streams 2: +0.2 % (-1.1 to +1.5)",
        "Every trial in its order",
        "engine mmsg: the sender fell back to &lt;b&gt;send",
        "the default: the link was lost",
        ">void<",
        "6 trials, 2 of them without a figure",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("<b>") && exponent(&text).is_none(), "{text}");
    let markdown = good(&folder, &["t.json", "--format", "md"]);
    assert!(markdown.contains("\n    linerate udp far --window 4Mi\n"), "{markdown}");
    let table = good(&folder, &["t.json", "--format", "csv"]);
    let count = |kind: &str| table.lines().filter(|line| line.starts_with(kind)).count();
    assert_eq!((count("tune,"), count("tune-factor,"), count("tune-trial,")), (1, 3, 6), "{table}");
    for form in ["r.svg", "r.png"] {
        good(&folder, &["t.json", "-o", form]);
    }
    // Its lines are known too, and what was cut short says how it goes on.
    let lines = format!(
        "{{\"event\":\"start\",\"factors\":[]}}\n{{\"event\":\"end\",\"document\":{}}}\n",
        tuning()
    );
    fs::write(folder.join("lines.json"), lines).unwrap();
    assert!(page(&folder, &["lines.json"]).contains("Best setting of UDP"));
    let mut cut = tuning();
    cut["status"] = json!("partial");
    cut["recommended"] = json!(false);
    cut["best_settings"] = json!([{ "name": "offload.gro", "value": false }]);
    cut["left"] = json!(["offload.gro: it stays off"]);
    // Numbers of levels that there are not are no danger.
    cut["candidate"] = json!({ "window": 99, "nothing": 3 });
    cut["trials"][2]["levels"] = json!({ "window": u64::MAX });
    fs::write(folder.join("cut.json"), cut.to_string()).unwrap();
    let text = page(&folder, &["cut.json"]);
    assert!(text.contains("<code>linerate tune --resume cut.json</code>"), "{text}");
    assert!(text.contains("This tuning did not come to its end") && !text.contains("To use what"));
    assert!(text.contains("Not put back: offload.gro: it stays off"), "{text}");
    assert!(text.contains("With offload.gro = off on this host, which no test sets.<"), "{text}");
    // Its gain is well above the width: something else keeps it from being recommended.
    assert!(text.contains("better, not in every pair"), "{text}");
}

#[test]
fn what_the_doctor_found_becomes_a_page_with_commands_to_copy() {
    let folder = scratch("doctor");
    // Half of a command does something else than the whole.
    let long = format!("for q in {}; do echo $q; done", "100 ".repeat(400));
    let finding = |id: &str, severity: &str, what: &str| {
        json!({
            "id": id, "host": "client", "severity": severity, "what": what, "why": "it <i>vanishes</i>",
            "change": ["ip link set dev eth0 mtu 1500", &long], "undo": ["ip link set dev eth0 mtu 9000"],
            "setting": { "name": "mtu", "value": 1500 }, "effect": "not measured; RFC 4821",
        })
    };
    let host = |name: &str| json!({ "host": { "hostname": name } });
    let document = json!({
        "format": 1, "kind": "doctor", "started": "2026-11-22T10:00:00Z",
        "linerate": { "version": "0.1.0" }, "command": ["linerate", "doctor", "far"],
        "target": "far", "goal": { "rate_bps": 1_000_000_000u64 }, "checks": 9,
        "findings": [
            finding("path.mtu-mismatch", "problem", "eth0 sends packets of 9000 bytes"),
            finding("clock.sync", "note", "no program keeps the clock"),
        ],
        "unknown": [{ "id": "nic.ring", "host": "server", "why": "its server does not tell it" }],
        "proof": {
            "id": "path.mtu-mismatch", "setting": { "name": "mtu", "value": 1500 },
            "metric": "received_bps", "without": [1e9, 1.1e9], "with": [1.2e9, 1.3e9],
            "margin_percent": 2.0, "gain_percent": gain(18.0, 12.0, 24.0),
            "words": "worth 18 % (12 to 24)",
        },
        "here": host("near"), "far": host("far"),
    });
    fs::write(folder.join("d.json"), document.to_string()).unwrap();
    let text = page(&folder, &["d.json"]);
    assert_eq!(
        between(&text, "<h1>", "</h1>"),
        "What holds the path back: near → far, 2026-11-22 10:00 UTC"
    );
    for words in [
        "1 problem, 0 warnings, 1 note in 9 checks; 1 could not be made.",
        "<h2>problem: here: eth0 sends packets of 9000 bytes</h2>",
        "Why: it &lt;i&gt;vanishes&lt;/i&gt;.",
        "<p class=\"note\">To undo that:</p>\n<pre><code>ip link set dev eth0 mtu 9000</code></pre>",
        "no program keeps the clock",
        "its server does not tell it",
        "What the change of path.mtu-mismatch is worth",
        "mtu = 1500: +18.0 % (+12.0 to +24.0)",
        "1.100 Gbit/s",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("<i>") && text.contains(&long), "{text}");
    assert!(good(&folder, &["d.json", "--format", "csv"]).contains("finding,d.json,path.mtu"));
    assert!(good(&folder, &["d.json", "--format", "md"]).contains(&format!("    {long}\n")));
}
