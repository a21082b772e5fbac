//! linerate under iperf3's name against what iperf3 3.12 printed for the same options
//! (`iperf3-3.12/`), both roles: text column for column, JSON key for key, and its consumers.

use linerate_testkit::peer::LONG;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Real, face, listens, possible};
use crate::support::free_port;
use crate::support::{alone, list, number, skip, together, wait_for};

/// Numbers masked, columns kept: a scaled amount is four characters wide and has its unit.
fn masked(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        // A stream is named by its socket's number, which is the process's affair.
        let line = match line.strip_prefix('[').and_then(|rest| rest.split_at_checked(3)) {
            Some((name, rest)) if name.trim_start().parse::<u32>().is_ok() => format!("[###{rest}"),
            _ => line.to_owned(),
        };
        let mut masked = String::new();
        let chars: Vec<char> = line.chars().collect();
        let mut i = 0;
        while let Some(&c) = chars.get(i) {
            let rest: String = chars.iter().skip(i).take(12).collect();
            if let Some(length) = amount(&rest) {
                masked.push_str("#### U");
                i += length;
            } else if c.is_ascii_digit() {
                if !masked.ends_with('#') {
                    masked.push('#');
                }
                i += 1;
            } else {
                masked.push(c);
                i += 1;
            }
        }
        // A share of loss is told with as many digits as it has.
        lines.push(masked.replace("(#.#%)", "(#%)").replace("(#.#e-#%)", "(#%)"));
    }
    lines
}

/// Length of a scaled amount at the start of `text`: `1.25 MBytes`, ` 127 Kbits`.
fn amount(text: &str) -> Option<usize> {
    let (number, rest) = text.split_at_checked(4)?;
    let digits = number.trim_start();
    let is_number = digits.chars().all(|c| c.is_ascii_digit() || c == '.')
        && digits.ends_with(|c: char| c.is_ascii_digit());
    if !is_number {
        return None;
    }
    let unit = rest.strip_prefix(' ')?.trim_start_matches(['K', 'M', 'G']);
    let name = ["Bytes", "bits"].into_iter().find(|name| unit.starts_with(name))?;
    Some(text.len() - unit.len() + name.len())
}

const LAYOUTS: &[(&str, &str)] = &[
    ("tcp", "-t 2 -b 10M"),
    ("tcp-P2", "-t 2 -b 10M -P 2"),
    ("tcp-R", "-t 2 -b 10M -R"),
    ("tcp-bidir", "-t 2 -b 10M --bidir"),
    ("tcp-bidir-P2", "-t 2 -b 10M --bidir -P 2"),
    ("tcp-O1", "-t 2 -b 10M -O 1"),
    ("tcp-V", "-t 2 -b 10M -V"),
    ("tcp-gso", "-t 1 -b 10M --get-server-output"),
    ("udp", "-u -t 2 -b 10M -l 1448"),
    ("udp-P2", "-u -t 2 -b 10M -l 1448 -P 2"),
    ("udp-R", "-u -t 2 -b 10M -l 1448 -R"),
    ("udp-R-P2", "-u -t 2 -b 10M -l 1448 -R -P 2"),
    ("udp-bidir", "-u -t 2 -b 10M -l 1448 --bidir"),
    ("udp-bidir-P2", "-u -t 2 -b 10M -l 1448 --bidir -P 2"),
    ("udp-O1", "-u -t 2 -b 10M -l 1448 -O 1"),
    ("udp-V", "-u -t 2 -b 10M -l 1448 -V"),
    ("udp-R-V", "-u -t 2 -b 10M -l 1448 -V -R"),
];

fn captured(name: &str) -> String {
    let path = format!("{}/tests/iperf3-3.12/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Lines of the client itself: an iperf3 server's own output is in it as it came, and lines that
/// name machine and cookie have words of no fixed length.
fn own_lines(text: &str) -> Vec<String> {
    let own: String = text.split("\nServer output:").next().unwrap_or(text).to_owned();
    let mut lines = masked(&own);
    let mut seen = HashSet::new();
    lines.retain(|line| {
        // A loaded machine may add an interval: once is enough of lines that are alike.
        seen.insert(line.clone())
            && ![
                "Linux ",
                "      Cookie: ",
                "iperf ",
                "Time: ",
                "CPU ",
                "snd_tcp",
                "rcv_tcp",
                "Server listening",
            ]
            .iter()
            .any(|start| line.starts_with(start))
    });
    lines
}

#[test]
fn the_layout_is_iperf3s() {
    let _alone = alone();
    if !possible("the_layout_is_iperf3s") {
        return;
    }
    together(LAYOUTS, |(name, options)| {
        let server = Real::start(None, &[]);
        let (code, out, err) = face(None, &format!("-c 127.0.0.1 -p {} {options}", server.port));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{name}");
        let real = captured(&format!("{name}.txt"));
        let (ours, theirs) = (own_lines(&out), own_lines(&real));
        assert_eq!(ours, theirs, "{name}:\n{out}\nand\n{real}");
        assert_eq!(out.contains("Server output:"), real.contains("Server output:"));
        if options.contains("-V") {
            for start in ["      Cookie: ", "iperf 3.12", "Time: ", "CPU Utilization: local/"] {
                assert!(out.lines().any(|line| line.starts_with(start)), "{name}: {start}: {out}");
            }
            let congestion = real.lines().filter(|line| line.contains("_tcp_congestion")).count();
            let ours = out.lines().filter(|line| line.contains("_tcp_congestion")).count();
            assert_eq!(ours, congestion, "{out}");
        }
    });
}

const DOCUMENTS: &[(&str, &str)] = &[
    ("tcp", "-t 2 -b 10M"),
    ("tcp-P2", "-t 2 -b 10M -P 2"),
    ("tcp-R", "-t 2 -b 10M -R"),
    ("tcp-bidir", "-t 2 -b 10M --bidir"),
    ("tcp-O1", "-t 2 -b 10M -O 1"),
    ("tcp-gso", "-t 1 -b 10M --get-server-output"),
    ("udp", "-u -t 2 -b 10M -l 1448"),
    ("udp-P2", "-u -t 2 -b 10M -l 1448 -P 2"),
    ("udp-R", "-u -t 2 -b 10M -l 1448 -R"),
    ("udp-bidir", "-u -t 2 -b 10M -l 1448 --bidir"),
    ("udp-O1", "-u -t 2 -b 10M -l 1448 -O 1"),
];

/// Every key of `real` is in `ours`, with a value of the same type; ours may have more where `more`
/// says so.
fn same_shape(real: &Value, ours: &Value, path: &str) {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            for (key, value) in real {
                let found = ours.get(key).unwrap_or_else(|| panic!("{path}.{key} is missing"));
                same_shape(value, found, &format!("{path}.{key}"));
            }
            // Of later releases, and linerate's own.
            let newer = ["linerate", "fq_rate", "bidir", "fqrate"];
            for key in ours.keys().filter(|key| !real.contains_key(*key)) {
                assert!(newer.contains(&key.as_str()), "{path}.{key} is not iperf3's");
            }
        }
        (Value::Array(real), Value::Array(ours)) => {
            let intervals = path.ends_with(".intervals");
            assert!(intervals || real.len() == ours.len(), "{path}: {real:?} and {ours:?}");
            assert!(!ours.is_empty() || real.is_empty(), "{path}");
            for (i, (real, ours)) in real.iter().zip(ours).enumerate() {
                same_shape(real, ours, &format!("{path}[{i}]"));
            }
        }
        (Value::Number(_), Value::Number(_))
        | (Value::String(_), Value::String(_))
        | (Value::Bool(_), Value::Bool(_)) => {}
        _ => panic!("{path}: {real} and {ours}"),
    }
}

fn same_document(real: &Value, ours: &Value, name: &str) {
    for part in ["start", "intervals", "end"] {
        same_shape(&real[part], &ours[part], &format!("{name}.{part}"));
    }
    let keys = |value: &Value| value.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>());
    assert_eq!(keys(real), keys(ours), "{name}");
}

#[test]
fn the_document_is_iperf3s() {
    let _alone = alone();
    if !possible("the_document_is_iperf3s") {
        return;
    }
    together(DOCUMENTS, |(name, options)| {
        let server = Real::start(None, &["-J"]);
        let (code, out, err) = face(None, &format!("-c 127.0.0.1 -p {} {options} -J", server.port));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{name}");
        let ours: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
        let real: Value = serde_json::from_str(&captured(&format!("{name}.json"))).expect("JSON");
        same_document(&real, &ours, name);
        assert_eq!(ours["end"]["linerate"]["status"], "complete");
        // Spelled as cJSON spells it.
        assert!(out.starts_with("{\n\t\"start\":\t{\n\t\t\"connected\":\t[{\n"), "{out}");
        // Paced from the first second on, of which others may take all: a socket buffer's worth at once would be 45 Mbit/s.
        for stream in list(&ours["intervals"][0]["streams"]) {
            let rate = stream["bits_per_second"].as_f64().expect("a rate");
            assert!(rate < 20e6, "{name}: {rate} bit/s of 10 M: {stream}");
        }
        assert!(number(&ours, "end.sum_received.bytes") > 0, "{name}: {out}");
    });
}

/// linerate as the server that is called iperf3, for one test of a real client: what it prints.
fn served(args: &[&str], client: &str) -> String {
    let port = free_port();
    let mut server = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["iperf3", "-s", "-1", "-p", &port.to_string()])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("linerate starts");
    let up = wait_for(LONG, || listens(server.id(), port));
    let ran = Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &port.to_string()])
        .args(client.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .expect("iperf3 runs");
    // Its output is smaller than a pipe holds.
    let ended = wait_for(LONG, || server.try_wait().is_ok_and(|s| s.is_some()));
    if !ended {
        let _ = server.kill();
    }
    let out = server.wait_with_output().expect("its output");
    let (text, err) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr).into_owned());
    assert!(up && ended, "{args:?} {client}: up {up}, ended {ended}: {text}{err}");
    assert!(ran.status.success(), "{client}: {}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!((out.status.code(), err.as_str()), (Some(0), ""), "{args:?} {client}");
    text.into_owned()
}

const SERVED: &[(&str, &str)] = &[
    ("tcp", "-t 2 -b 10M"),
    ("tcp-R", "-t 2 -b 10M -R"),
    ("tcp-bidir-P2", "-t 2 -b 10M --bidir -P 2"),
    ("udp", "-u -t 2 -b 10M -l 1448"),
    ("udp-R", "-u -t 2 -b 10M -l 1448 -R"),
    ("udp-P2", "-u -t 2 -b 10M -l 1448 -P 2"),
];

#[test]
#[ignore = "long"]
fn the_server_prints_what_iperf3s_prints() {
    let _alone = alone();
    if !possible("the_server_prints_what_iperf3s_prints") {
        return;
    }
    together(SERVED, |(name, options)| {
        let ours = served(&[], options);
        let real = captured(&format!("server-{name}.txt"));
        assert_eq!(own_lines(&ours), own_lines(&real), "{name}:\n{ours}\nand\n{real}");
        if name.contains("-P2") {
            return;
        }
        let ours = served(&["-J"], options);
        let ours: Value = serde_json::from_str(&ours).unwrap_or_else(|e| panic!("{e}: {ours}"));
        let real: Value =
            serde_json::from_str(&captured(&format!("server-{name}.json"))).expect("JSON");
        same_document(&real, &ours, &format!("server-{name}"));
    });
    // Its intervals are its own, whatever the client's are.
    let ours = served(&["-J", "-i", "0.5"], "-t 2 -b 10M");
    let ours: Value = serde_json::from_str(&ours).unwrap_or_else(|e| panic!("{e}: {ours}"));
    let intervals = list(&ours["intervals"]);
    assert!(intervals.len() >= 4, "{intervals:?}");
    assert_eq!(intervals[1]["sum"]["start"].as_f64(), Some(0.5));
    assert_eq!(intervals[1]["sum"]["seconds"].as_f64(), Some(0.5));
}

/// What scripts ask of iperf3's document, with a document's protocol.
const QUESTIONS: &[(&str, &str)] = &[
    ("-t 2 -b 10M", ".end.sum_received.bits_per_second > 1e6"),
    ("-t 2 -b 10M", ".end.sum_sent.retransmits >= 0"),
    ("-t 2 -b 10M", "[.intervals[].sum.bits_per_second] | length >= 2 and min >= 0"),
    ("-t 2 -b 10M", "[.intervals[].streams[].rtt] | max > 0"),
    ("-t 2 -b 10M", ".end.streams[0].sender.mean_rtt > 0"),
    ("-t 2 -b 10M", ".start.test_start.protocol == \"TCP\" and .start.version != null"),
    ("-t 2 -b 10M", ".end.cpu_utilization_percent | .host_total >= 0 and .remote_total >= 0"),
    ("-t 2 -b 10M", ".end.sender_tcp_congestion != null and .end.receiver_tcp_congestion != null"),
    ("-t 2 -b 10M -R", ".end.sum_received.bytes > 1e6 and .start.test_start.reverse == 1"),
    (
        "-t 2 -b 10M -R",
        ".end.sender_tcp_congestion != null and .end.receiver_tcp_congestion != null",
    ),
    ("-u -t 2 -b 10M -l 1000", ".end.sum | .packets > 1000 and .lost_packets >= 0"),
    ("-u -t 2 -b 10M -l 1000", ".end.sum.jitter_ms >= 0 and .end.sum.lost_percent >= 0"),
    ("-u -t 2 -b 10M -l 1000", ".end.streams[0].udp.out_of_order == 0"),
    ("-u -t 2 -b 10M -l 1000", "[.intervals[].sum.packets] | add > 1000"),
];

/// Reads a document from standard input with PyPI's `iperf3`.
const PYTHON: &str = "
import iperf3, sys
r = iperf3.TestResult(sys.stdin.read())
assert r.error is None, r.error
if r.protocol == 'TCP':
    assert r.sent_Mbps > 1 and r.received_MB_s > 0.1 and r.retransmits is not None
else:
    assert r.Mbps > 1 and r.packets > 1000 and r.lost_percent >= 0 and r.jitter_ms >= 0
assert r.num_streams == 1 and r.duration == 2 and r.remote_host == '127.0.0.1'
print(r.protocol)
";

fn answers(program: &str, args: &[&str], path: &Path, input: &Path) -> (bool, String) {
    let out = Command::new(program)
        .args(args)
        .env("PYTHONPATH", path)
        .stdin(std::fs::File::open(input).expect("the document"))
        .output()
        .expect("it runs");
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("linerate-face-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// PyPI's `iperf3` in a folder of its own; skips loudly where it cannot be had.
fn pypi(folder: &Path) -> bool {
    let there = Command::new("timeout")
        .args(["90", "python3", "-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(folder)
        .args(["--disable-pip-version-check", "--retries", "1", "iperf3==0.1.11"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        skip("consumers_of_the_document (PyPI)", "pip cannot install iperf3==0.1.11");
    }
    there
}

#[test]
#[ignore = "long"]
fn consumers_of_the_document() {
    let _alone = alone();
    if !possible("consumers_of_the_document") {
        return;
    }
    let folder = Folder::new();
    let folder = folder.0.as_path();
    let python = pypi(folder);
    let jq = Command::new("jq").arg("--version").output().is_ok_and(|out| out.status.success());
    if !jq {
        skip("consumers_of_the_document (jq)", "there is no jq (Debian: apt-get install jq)");
    }
    for options in ["-t 2 -b 10M", "-t 2 -b 10M -R", "-u -t 2 -b 10M -l 1000"] {
        let server = Real::start(None, &[]);
        let (code, out, err) = face(None, &format!("-c 127.0.0.1 -p {} {options} -J", server.port));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{options}");
        let document = folder.join("document.json");
        std::fs::write(&document, &out).expect("the document");
        for (_, question) in QUESTIONS.iter().filter(|(of, _)| jq && *of == options) {
            let (yes, told) = answers("jq", &["-e", question], folder, &document);
            assert!(yes, "{question}: {told}: {out}");
        }
        if python {
            let (yes, told) = answers("python3", &["-c", PYTHON], folder, &document);
            assert!(yes, "{options}: {told}");
        }
    }
}
