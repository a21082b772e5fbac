//! flent, as Debian has it, drives linerate under netperf's name against `linerate serve`, and reads its own
//! files afterwards.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::netperf::{an_address, serve};
use crate::support::{alone, skip};
use linerate_testkit::runnable::runnable;
use serde_json::Value;

fn there(program: &str) -> bool {
    Command::new(program).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Whether there is what it takes; says so if not.
fn possible(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<_> = programs.iter().filter(|program| !there(program)).collect();
    if !missing.is_empty() {
        skip(test, &format!("not installed: {missing:?}"));
    }
    missing.is_empty()
}

/// A folder with linerate under the names that flent looks for; goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("linerate-flent-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let link = path.join("netperf");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_linerate"), link).expect("a link");
        // flent 2.1.1 puts what its user names into brackets, as the list that it is inside of flent.
        let script = format!(
            "#!/bin/sh\nexec {} iperf $(echo \"$*\" | tr -d '[]')\n",
            env!("CARGO_BIN_EXE_linerate")
        );
        std::fs::write(path.join("text"), script).expect("a script");
        runnable(&path.join("text"), &path.join("iperf"));
        Self(path)
    }

    fn flent(&self, args: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("timeout");
        command.args(["240", "flent"]).args(args.split_whitespace()).current_dir(&self.0);
        command.env("PATH", format!("{}:{path}", self.0.display())).env("HOME", &self.0);
        command.stdin(Stdio::null()).output().expect("flent runs")
    }

    /// Its one file of data.
    fn data(&self) -> PathBuf {
        let files = std::fs::read_dir(&self.0).expect("a folder").flatten();
        let mut files = files.map(|file| file.path()).filter(|path| is_data(path));
        files.next().expect("a file of flent's")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_data(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".flent.gz"))
}

fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// Runs one of flent's tests, and gives what it measured: each row of numbers, with its name.
fn measured(test: &str, door: u16, more: &str) -> Value {
    let folder = Folder::new(test);
    let ran = folder.flent(&format!(
        "{test} -H 127.0.0.1 -l 4 -d 1 -s 0.2 --netperf-control-port {door} -f summary {more}"
    ));
    assert!(ran.status.success(), "{}", said(&ran));
    let data = folder.data();
    // It reads its own file again, and has a summary of it.
    let summary = folder.flent(&format!("-i {} -f summary", data.display()));
    assert!(summary.status.success() && said(&summary).contains("avg"), "{}", said(&summary));
    let csv = folder.flent(&format!("-i {} -f csv", data.display()));
    assert!(csv.status.success() && said(&csv).lines().count() > 10, "{}", said(&csv));
    plots(test, &folder, &data);
    let unpacked = Command::new("gzip").args(["-dc", &data.display().to_string()]).output();
    let text = unpacked.expect("gzip runs").stdout;
    serde_json::from_slice(&text).expect("a file of flent's")
}

/// A picture of the data, where matplotlib is there to make it.
fn plots(test: &str, folder: &Folder, data: &Path) {
    // Debian's, as flent is.
    let mut import = Command::new("/usr/bin/python3");
    let there = import.args(["-c", "import matplotlib"]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return skip(test, "flent's plot: python3-matplotlib is not installed");
    }
    let plot = folder.0.join("plot.png");
    let ran = folder.flent(&format!("-i {} -f plot -o {}", data.display(), plot.display()));
    assert!(ran.status.success(), "{}", said(&ran));
    let picture = std::fs::read(&plot).expect("a picture");
    if let Some(kept) = std::env::var_os("LINERATE_KEEP_PLOTS") {
        let _ = std::fs::copy(&plot, Path::new(&kept).join(format!("{test}.png")));
    }
    // A PNG begins with its signature and, in its first chunk, width and height.
    let size = |at: usize| {
        picture.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |size| u32::from_be_bytes(*size))
    };
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"), "{} bytes", picture.len());
    let (width, height) = (size(16), size(20));
    assert!((300..10_000).contains(&width) && (200..10_000).contains(&height), "{width}x{height}");
    // Axes without a curve take a third of it.
    assert!(picture.len() > 15_000, "{} bytes", picture.len());
}

/// Numbers of a row.
fn numbers(data: &Value, row: &str) -> Vec<f64> {
    let row =
        data["results"][row].as_array().unwrap_or_else(|| panic!("no {row}: {}", data["results"]));
    row.iter().filter_map(Value::as_f64).collect()
}

fn holds(data: &Value, row: &str, least: usize) {
    let numbers = numbers(data, row);
    let positive = numbers.iter().filter(|number| **number > 0.0).count();
    assert!(positive >= least, "{row}: {numbers:?}");
}

#[test]
fn one_stream_and_a_ping() {
    let _alone = alone();
    if !possible("one_stream_and_a_ping", &["flent", "fping"]) {
        return;
    }
    an_address();
    let (_server, at) = serve(&[]);
    let data = measured("tcp_1up", at.port(), "");
    holds(&data, "TCP upload", 5);
    holds(&data, "Ping (ms) ICMP", 5);
    let series = &data["metadata"]["SERIES_META"]["TCP upload"];
    assert!(series["MEAN_VALUE"].as_f64().is_some_and(|mean| mean > 0.0), "{series}");
    assert!(series["BYTES_RECVD"].as_f64().is_some_and(|bytes| bytes > 0.0), "{series}");
}

#[test]
#[ignore = "long"]
fn the_response_under_load() {
    let _alone = alone();
    if !possible("the_response_under_load", &["flent", "fping"]) {
        return;
    }
    an_address();
    let (_server, at) = serve(&[]);
    let data = measured("rrul", at.port(), "");
    for class in ["BE", "BK", "CS5", "EF"] {
        holds(&data, &format!("TCP upload {class}"), 3);
        holds(&data, &format!("TCP download {class}"), 3);
        let meta = &data["metadata"]["SERIES_META"][format!("TCP download {class}")];
        assert!(meta["MEAN_VALUE"].as_f64().is_some_and(|mean| mean > 0.0), "{meta}");
    }
    for class in ["BE", "BK", "EF"] {
        holds(&data, &format!("Ping (ms) UDP {class}"), 3);
    }
    let mark = &data["metadata"]["SERIES_META"]["TCP upload EF"];
    assert_eq!(mark["UPSTREAM_TOS"].as_f64(), Some(184.0), "{mark}");
}

/// flent floods with iperf 2, and knows an option of it by the name that Debian's no longer says.
#[test]
#[ignore = "long"]
fn a_flood_of_datagrams() {
    let _alone = alone();
    if !possible("a_flood_of_datagrams", &["flent", "fping"]) {
        return;
    }
    an_address();
    let (server, at) = serve(&["--iperf2=5001"]);
    let named = ["bandwidth=100M", "pktsize=1400"].map(|p| format!("--test-parameter udp_{p} "));
    let named = named.concat();
    let data = measured("udp_flood", at.port(), &named);
    holds(&data, "UDP upload", 3);
    assert!(server.log().contains("\"iperf2\""), "{}", server.log());
}
