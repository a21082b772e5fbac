//! linerate under nuttcp's name, client and server, beside the real nuttcp 6.1.2 and 8.2.2: the same lines, with
//! other numbers in them.

use linerate_testkit::peer::LONG;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::support::nuttcp::{Theirs, programs, serve, value};
use crate::support::{alone, free_port, wait_for};

/// Ports of data of these tests.
pub(super) const DATA: &str = "-p 7000";

pub(super) fn face() -> Command {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_linerate"), "nuttcp"]);
    command
}

pub(super) fn real(bin: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(bin);
    command
}

pub(super) fn run(mut command: Command, port: u16, args: &str) -> Output {
    command.args(["-P", &port.to_string()]).args(args.split_whitespace()).arg("127.0.0.1");
    command.stdin(Stdio::null()).output().expect("a client")
}

fn text(out: &Output, args: &str) -> String {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args}: {:?} {text}{err}", out.status.code());
    text
}

/// Each number is 0; columns keep their widths where numbers are padded. What of memory, page faults and releases only
/// the real ones say is gone, and so is how many intervals a test of its length has, and one in which nothing came: nor
/// did then what a sender says of its connection.
pub(super) fn masked(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_empty = line.contains(" 0.0000 MB /") || line.starts_with("megabytes=0.0000 ");
        if line.contains("initial") && line.contains("window") || is_empty {
            continue;
        }
        let line = line.split(" 0i+0d").next().unwrap_or_default();
        let line = line.split(" memory=").next().unwrap_or_default();
        let mut kind = String::new();
        let mut chars = line.trim_end_matches(" af=inet").chars().peekable();
        while let Some(c) = chars.next() {
            if c.is_ascii_digit() {
                while chars.peek().is_some_and(|c| c.is_ascii_digit() || *c == '.') {
                    chars.next();
                }
                kind.push('0');
            } else if c != ' ' || !kind.ends_with(' ') {
                kind.push(c);
            }
        }
        let kind = kind.trim().replace("v0: ", "").replace(" with", "");
        if !kind.is_empty() && lines.last() == Some(&kind) {
            continue;
        }
        lines.push(kind);
    }
    lines
}

/// Of a sender's verbose lines, which have it of later releases alone.
fn no_cwnd(text: &str) -> String {
    let cut = |line: &str| match line.split_once(" cwnd = ") {
        Some((before, _)) => format!("{before}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(cut).collect()
}

/// `--json` is linerate's record in place of the lines.
#[test]
fn the_record_is_there_as_json() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    let args = format!("{DATA} -u -R8m -l1000 -n1000000 -T0.5 --json");
    let record: serde_json::Value =
        serde_json::from_str(&text(&run(face(), at.port(), &args), &args)).expect("a record");
    assert_eq!(record["agreed"]["dialect"], "nuttcp", "{record}");
    for plan in [&record["asked"], &record["agreed"]] {
        let ends = [plan["datagrams"].as_f64(), plan["duration_s"].as_f64()];
        assert_eq!(ends, [Some(1e6), Some(0.5)], "{plan}");
    }
    let totals = &record["totals"];
    assert!(totals["receiver"]["datagrams"].as_u64().is_some_and(|n| n > 0), "{totals}");
    let failed = run(face(), free_port(), "--json -T1");
    let record: serde_json::Value =
        serde_json::from_slice(&failed.stdout).expect("a record of a failure");
    assert!(failed.status.code() == Some(1) && record["status"] == "failed", "{record}");
}

/// Where the columns of the first line of an interval, or of the summary, end.
fn widths(text: &str) -> Option<[usize; 3]> {
    let line = text.lines().find(|line| line.contains(" MB /"))?;
    let of = |what: &str| line.find(what);
    Some([of(" MB /")?, of(" sec =")?, of(" Mbps")?])
}

/// 6.1.2 ends some tests of its own with an error.
const FAILS: &str = "fails";

/// Lines of options, in both; `of_old` leaves out what 6.1.2 does not print.
fn alike(test: &str, lines: &[(&str, &str)]) {
    for (release, bin) in programs(test) {
        let server = Theirs::start(&bin);
        for (args, of_old) in lines {
            let is_old = release == "6.1.2";
            let old = if is_old { of_old } else { "" };
            if old == FAILS {
                continue;
            }
            let args = format!("{DATA} {args}");
            let theirs = text(&run(real(&bin), server.port, &args), &args);
            let ours = text(&run(face(), server.port, &format!("{args} {old}")), &args);
            let shown = if is_old { no_cwnd(&ours) } else { ours.clone() };
            assert_eq!(
                masked(&shown),
                masked(&theirs),
                "{release} {args}\n--- ours\n{ours}\n--- theirs\n{theirs}"
            );
            let (ours, theirs) = (widths(&ours), widths(&theirs));
            // A rate beyond its column is wider than that.
            let udp = args.contains("-u");
            assert!(!udp || ours == theirs, "{release} {args}: {ours:?} {theirs:?}");
        }
    }
}

#[test]
fn lines_of_tcp_are_those_of_the_real_one() {
    let _alone = alone();
    alike(
        "lines_of_tcp_are_those_of_the_real_one",
        &[
            ("-T0.5", "-f-cwnd"),
            ("-T1 -i0.3 -fparse", "-f-cwnd"),
            ("-r -T1 -i0.3 -frunningtotal -fparse", "-f-rtt"),
            ("-n160 -l8k -f-rtt -w128", "-f-cwnd"),
        ],
    );
}

#[test]
#[ignore = "long"]
fn every_line_of_tcp_is_that_of_the_real_one() {
    let _alone = alone();
    alike(
        "every_line_of_tcp_is_that_of_the_real_one",
        &[
            ("-T0.5 -r -fparse", "-f-cwnd -f-rtt"),
            ("-T1 -i0.3 -I mine -b", "-f-cwnd"),
            ("-r -T1 -i0.3", ""),
            ("-r -T1 -i0.3 -f-retrans", ""),
            ("-T1 -v", ""),
        ],
    );
}

#[test]
fn lines_of_datagrams_are_those_of_the_real_one() {
    let _alone = alone();
    alike(
        "lines_of_datagrams_are_those_of_the_real_one",
        &[
            ("-u -T1 -i0.3 -R8m -l1000 -frunningtotal -fxmitstats", ""),
            ("-u -r -T0.5 -R8m -l1000", ""),
            ("-u -N3 -T1 -i0.3 -R8m -l1000", ""),
        ],
    );
}

#[test]
#[ignore = "long"]
fn every_line_of_datagrams_is_that_of_the_real_one() {
    let _alone = alone();
    alike(
        "every_line_of_datagrams_is_that_of_the_real_one",
        &[
            ("-u -T1 -i0.3 -R8m -l1000", ""),
            ("-u -r -T1 -i0.3 -R8m -l1000 -fparse", FAILS),
            ("-u -N2 -T0.5 -Ri8m -l1000", ""),
            ("-u -T1 -i0.3 -R8m -l1000 -f-percentloss", ""),
            ("-u -r -N3 -T1 -i0.3 -R8m -l1000", FAILS),
            ("-u -r -Ri8m/4 -T0.5 -l1000", FAILS),
            ("-u -r -n500 -R8m -l1000 -v -fparse", ""),
        ],
    );
}

/// A server in the foreground, by linerate under nuttcp's name.
fn foreground(args: &str) -> (Child, u16) {
    let port = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(["nuttcp", "-P", &port.to_string()]).args(args.split(' '));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = command.spawn().expect("a server");
    let ends = format!("sport = :{port}");
    let up = wait_for(LONG, || {
        let listening = Command::new("ss").args(["-Htln", &ends]).output().expect("ss");
        !listening.stdout.is_empty()
    });
    assert!(up, "it does not listen");
    (server, port)
}

#[test]
fn a_server_of_that_name_serves_the_real_client() {
    let _alone = alone();
    for (release, bin) in programs("a_server_of_that_name_serves_the_real_client") {
        let (mut server, port) = foreground("-S --nofork");
        // 6.1.2 gives up where an interval ends between the words of the end.
        for args in ["-T0.5", "-u -r -R8m -l1000 -T1 -i0.4"] {
            let args = format!("{DATA} -fparse {args}");
            let said = text(&run(real(&bin), port, &args), &args);
            assert!(value(&said, "megabytes") > 0.0, "{release}: {said}");
        }
        let _ = server.kill();
        let _ = server.wait();
        let (server, port) = foreground("-1 --nofork");
        let args = format!("{DATA} -fparse -T0.5");
        let said = text(&run(real(&bin), port, &args), &args);
        assert!(value(&said, "megabytes") > 0.0, "{release}: {said}");
        let ended = server.wait_with_output().expect("it ends");
        assert!(ended.status.success() && ended.stdout.is_empty(), "{release}: {ended:?}");
    }
}

#[test]
fn a_server_in_the_background_stays() {
    let _alone = alone();
    let port = free_port();
    let serve = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(["nuttcp", "-S", "-P", &port.to_string()]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("a server").success()
    };
    assert!(serve(&[]));
    let ends = format!("sport = :{port}");
    let listening = || {
        let out = Command::new("ss").args(["-Htlnp", &ends]).output().expect("ss");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let up = wait_for(LONG, || !listening().is_empty());
    let second = serve(&[]);
    let out = run(face(), port, &format!("{DATA} -T0.5 -fparse"));
    // It is no child of this process any more.
    let line = listening();
    let pid = line.split("pid=").nth(1).and_then(|rest| rest.split(',').next());
    let killed = pid.map(|pid| Command::new("kill").arg(pid).status().expect("kill").success());
    assert!(up && !second && killed == Some(true), "{line}");
    assert!(value(&text(&out, "-T0.5"), "megabytes") > 0.0);
}

#[test]
fn both_ends_of_ours_agree() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    for args in [
        "-T0.5 -N3",
        "-u -R8m -l1000 -T0.5",
        "-u -r -R8m -l1000 -T1 -i0.4",
        "-u -r -N3 -R8m -l1000 -T1 -i0.4",
        "-u -N3 -R8m -l1000 -T1 -i0.4",
        "-n1m -r",
        "-r -T1 -i0.4",
    ] {
        let args = format!("{DATA} -fparse {args}");
        let said = text(&run(face(), at.port(), &args), &args);
        assert!(value(&said, "megabytes") > 0.0 && value(&said, "rx_cpu") >= 0.0, "{args}: {said}");
        assert!(!args.contains("-u") || value(&said, "pkt") > 10.0, "{args}: {said}");
        let rows: Vec<&str> = said.lines().filter(|line| line.contains("real_sec=")).collect();
        let column = if args.contains("-u") { " pkt=" } else { " cwnd=" };
        let tells = |row: &&str| row.contains(column) || row.starts_with("megabytes=0.0000 ");
        assert!(rows.iter().all(tells), "{args}: {said}");
        assert_eq!(rows.is_empty(), !args.contains("-i"), "{args}: {said}");
    }
}

/// What a server is asked beyond the oldest releases' words: bursts, and its core.
#[test]
fn a_server_is_told_of_bursts_and_of_its_core() {
    let _alone = alone();
    let core = crate::support::cores()[0];
    for (release, bin) in programs("a_server_is_told_of_bursts_and_of_its_core") {
        let server = Theirs::start(&bin);
        let old = release == "6.1.2";
        for args in ["-u -r -R8m/4 -l1000 -T0.5".to_owned(), format!("-T0.5 -xc{core}/{core}")] {
            let args = format!("{DATA} -fparse {args}");
            let out = run(face(), server.port, &args);
            assert!(value(&text(&out, &args), "megabytes") > 0.0, "{release} {args}");
            let notes = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(notes.contains("6.1.2, which cannot be asked"), old, "{release}: {notes}");
        }
        // One that no host has.
        let out = run(face(), server.port, &format!("{DATA} -T0.5 -xcs1000"));
        assert!(old || !out.status.success(), "{release}: {out:?}");
    }
}

#[test]
fn what_is_not_done_and_what_fails_is_said() {
    let _alone = alone();
    let port = free_port();
    for (args, why) in [
        ("-T1", "nuttcp-t: v8.2.2: Error: cannot connect to 127.0.0.1"),
        ("-T1 -r", "nuttcp-r: v8.2.2: Error: cannot connect to 127.0.0.1"),
        ("-xt", "-xt is not done here: no server of linerate's runs traceroute"),
        ("third", "a test with a third host is not run"),
        ("-s", "-s is not done here"),
        ("-j -u", "`linerate udp HOST` measures jitter"),
        ("-m2 -u", "groups are not tested"),
        ("-T-1", "invalid timeout = -1"),
        ("-q", "-q is none of nuttcp's options"),
    ] {
        let out = run(face(), port, args);
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(1) && err.contains(why), "{args}: {out:?}");
    }
    let (_server, at) = serve(&["--max-duration", "5s"]);
    let out = run(face(), at.port(), "-T9");
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(1) && err.contains("longer than this server's"), "{err}");
    // Under the name itself.
    let link = std::env::temp_dir().join(format!("linerate-nuttcp-name-{}", std::process::id()));
    std::fs::create_dir_all(&link).expect("a folder");
    let path = link.join("nuttcp");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_linerate"), &path).expect("a link");
    let out = Command::new(path).arg("-V").output().expect("a program");
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("nuttcp-8.2.2"), "{out:?}");
    let _ = std::fs::remove_dir_all(&link);
}
