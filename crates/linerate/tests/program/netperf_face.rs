//! linerate under netperf's name, client and server, beside the real netperf 2.7.1: the same lines, with other
//! numbers in them.

use linerate_testkit::peer::LONG;
use nix::sys::signal::Signal;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::netperf::{Netserver, an_address, programs, serve, value};
use crate::support::{Client, alone, free_port, wait_for};

/// linerate's client.
pub(super) fn ours(port: u16, args: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_linerate"), "netperf"]);
    run(command, port, args)
}

/// The real one. Where its timer pops after a test has ended, as it does on a busy host, it says so among its figures.
pub(super) fn real(bin: &Path, port: u16, args: &str) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(bin.join("netperf"));
    let mut out = run(command, port, args);
    let lines = out.stdout.split_inclusive(|&byte| byte == b'\n');
    out.stdout = lines
        .filter(|line| !line.starts_with(b"catcher: timer popped"))
        .flatten()
        .copied()
        .collect();
    out
}

fn run(mut command: Command, port: u16, args: &str) -> Output {
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command.output().expect("a client")
}

fn text(out: &Output, args: &str) -> String {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args}: {:?} {text}{err}", out.status.code());
    text
}

/// Each number is 0, and columns are as far apart as their headers let them; what the machine decides is gone.
pub(super) fn masked(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut kind = String::new();
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            let number =
                c.is_ascii_digit() || (c == '-' && chars.peek().is_some_and(char::is_ascii_digit));
            match (number, c) {
                (true, _) => {
                    while chars.peek().is_some_and(|c| c.is_ascii_digit() || *c == '.') {
                        chars.next();
                    }
                    kind.push('0');
                }
                (false, ' ') if kind.ends_with(' ') => {}
                _ => kind.push(c),
            }
        }
        let kind = kind.trim().to_owned();
        // How many intervals there are, and whether the last one is a whole one.
        if kind.starts_with("Interim") && lines.last() == Some(&kind) {
            continue;
        }
        lines.push(kind);
    }
    lines
}

/// Each line of options, in both.
fn alike(test: &str, lines: &[&str]) {
    let Some(bin) = programs(test) else { return };
    an_address();
    let server = Netserver::start(&bin);
    for args in lines {
        let args = format!("-l 1 {args}");
        let theirs = text(&real(&bin, server.port, &args), &args);
        let ours = text(&ours(server.port, &args), &args);
        assert_eq!(
            masked(&ours),
            masked(&theirs),
            "{args}\n--- ours\n{ours}\n--- theirs\n{theirs}"
        );
    }
}

#[test]
fn columns_of_each_kind_are_those_of_the_real_one() {
    let _alone = alone();
    alike(
        "columns_of_each_kind_are_those_of_the_real_one",
        &[
            "-t TCP_STREAM -D 0.4",
            "-t TCP_MAERTS -c -C",
            "-t UDP_STREAM -- -m 1000",
            "-t TCP_RR -P 0 -v 0",
        ],
    );
}

#[test]
#[ignore = "long"]
fn every_column_is_that_of_the_real_one() {
    let _alone = alone();
    alike(
        "every_column_is_that_of_the_real_one",
        &[
            "-t TCP_STREAM",
            "-t TCP_STREAM -P 0 -v 0 -B mark",
            "-t TCP_STREAM -v 2 -f k -- -m 1000 -s 64K -S 32K",
            "-t TCP_STREAM -c -C -f M",
            "-t TCP_STREAM -c -v 0",
            "-t TCP_STREAM -D 0.4 -f K",
            "-t TCP_MAERTS -c -C -v 2",
            "-t TCP_SENDFILE -F /bin/sh",
            "-t UDP_STREAM -c -C -f g -- -m 1000",
            "-t UDP_STREAM -v 0 -P 0",
            "-t TCP_RR -T 0,0 -- -r 100,200 -D -b 2",
            "-t TCP_RR -c -C -v 2",
            "-t TCP_RR -f u",
            "-t TCP_RR -c -f m",
            "-t UDP_RR -D 0.4 -v 2",
            "-t UDP_RR -P 0 -v 0 -c -C",
            "-t TCP_RR -P 0 -B mark",
            "-t TCP_RR -v 2 -f k -- -r 100,200",
            "-t TCP_CRR -v 2",
            "-t TCP_CRR -v 0 -c",
            "-t TCP_CC -P 0",
        ],
    );
}

#[test]
fn named_figures_are_those_of_the_real_one() {
    let _alone = alone();
    let Some(bin) = programs("named_figures_are_those_of_the_real_one") else { return };
    an_address();
    let server = Netserver::start(&bin);
    let flent = "-P 0 -v 0 -D -0.20 -4 -Y CS1,CS1 -f m";
    for args in [
        "-t omni",
        "-t omni -c -C -- -d rr -o",
        "-t omni -- -d recv -T udp -k",
        "-t omni -- -d rr -T udp -r 10,20 -k",
        "-t TCP_STREAM -- -O THROUGHPUT,PROTOCOL;LOCAL_CPU_UTIL",
        "-t TCP_RR -P 0 -- -o THROUGHPUT,THROUGHPUT_UNITS,RT_LATENCY,MEAN_LATENCY,P99_LATENCY",
        &format!("{flent} -t TCP_STREAM -- -k THROUGHPUT,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS"),
    ] {
        let args = format!("-l 1 {args}");
        let theirs = text(&real(&bin, server.port, &args), &args);
        let ours = text(&ours(server.port, &args), &args);
        let but = |text: &str| {
            let lines = masked(text).into_iter().filter(|line| !line.starts_with("NETPERF_"));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(but(&ours), but(&theirs), "{args}\n--- ours\n{ours}\n--- theirs\n{theirs}");
        assert_eq!(ours.contains("NETPERF_INTERIM_RESULT[0]="), theirs.contains("RESULT[0]="));
    }
    // Every name, in the same order, with what is no number the same.
    for test in ["TCP_STREAM", "UDP_STREAM", "TCP_RR", "TCP_MAERTS"] {
        let args = format!("-t {test} -l 1 -c -C -P 0 -- -k all");
        let theirs = text(&real(&bin, server.port, &args), &args);
        let ours = text(&ours(server.port, &args), &args);
        let names = |text: &str| {
            let name = |line: &str| line.split('=').next().map(str::to_owned);
            text.lines().filter_map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(&ours), names(&theirs), "{test}");
        for (ours, theirs) in ours.lines().zip(theirs.lines()) {
            let word = |line: &str| line.split('=').nth(1).unwrap_or_default().to_owned();
            let is_word = |word: &str| word.starts_with(|c: char| c.is_ascii_alphabetic());
            let differs = ["UUID", "LOCAL_CONG", "COMMAND"].iter().any(|n| ours.starts_with(n));
            if is_word(&word(theirs)) && !differs {
                assert_eq!(ours, theirs, "{test}");
            }
        }
        for name in ["THROUGHPUT", "ELAPSED_TIME", "LOCAL_CPU_UTIL", "REMOTE_CPU_UTIL", "LOCAL_SD"]
        {
            assert!(value(&ours, name) > 0.0, "{test} {name}: {ours}");
        }
    }
    let listed = |out: Output| (out.status.code(), [out.stdout, out.stderr].concat());
    let args = "-t TCP_STREAM -l 1 -- -O ?";
    let ours = listed(ours(server.port, args));
    assert_eq!(ours, listed(real(&bin, server.port, args)));
}

#[test]
#[ignore = "long"]
fn repeats_end_when_the_mean_is_certain_or_with_a_warning() {
    let _alone = alone();
    let Some(bin) = programs("repeats_end_when_the_mean_is_certain_or_with_a_warning") else {
        return;
    };
    an_address();
    let server = Netserver::start(&bin);
    let certain = "-t TCP_RR -l 1 -I 95,10000 -i 4,3";
    let (theirs, mine) = (real(&bin, server.port, certain), ours(server.port, certain));
    assert_eq!(masked(&text(&mine, certain)), masked(&text(&theirs, certain)));
    // No machine is so even.
    let doubtful = "-t TCP_RR -l 1 -I 99,0.000001 -i 3,3 -c";
    let (theirs, mine) = (real(&bin, server.port, doubtful), ours(server.port, doubtful));
    let mine = text(&mine, doubtful);
    assert_eq!(masked(&mine), masked(&text(&theirs, doubtful)));
    assert!(mine.contains("!!! WARNING"), "{mine}");
    let keys =
        "-t TCP_RR -l 1 -P 0 -I 99,0.000001 -i 3,3 -- -k CONFIDENCE_ITERATION,THROUGHPUT_CONFID";
    let mine = text(&ours(server.port, keys), keys);
    assert_eq!(value(&mine, "CONFIDENCE_ITERATION"), 3.0);
    assert!(value(&mine, "THROUGHPUT_CONFID") > 0.0, "{mine}");
}

/// The second run finds nobody: in front of the server stands one who lets a single connection through.
#[test]
fn what_was_measured_before_a_run_that_fails_is_shown() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    let door = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = door.local_addr().expect("its number").port();
    let through = std::thread::spawn(move || {
        let (client, _) = door.accept().expect("a client");
        drop(door);
        let server = std::net::TcpStream::connect(at).expect("the server");
        let carry = |mut from: std::net::TcpStream, mut to: std::net::TcpStream| {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        };
        let [from, to] = [&client, &server].map(|end| end.try_clone().expect("a copy"));
        let forth = std::thread::spawn(move || carry(from, to));
        carry(server, client);
        let _ = forth.join();
    });
    let out = ours(port, "-t TCP_RR -l -20 -P 0 -v 0 -I 99,5 -i 3,3");
    let (said, err) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(255), "{said}{err}");
    assert!(err.contains("are you sure there is a netserver"), "{err}");
    let rate = said.lines().last().and_then(|line| line.trim().parse::<f64>().ok());
    assert!(said.starts_with("!!! WARNING") && rate.is_some_and(|rate| rate > 0.0), "{said}");
    through.join().expect("the door");
}

#[test]
fn both_ends_of_ours_make_every_test() {
    let _alone = alone();
    let (server, at) = serve(&[]);
    for (args, name) in [
        ("-t TCP_STREAM -C", "REMOTE_BYTES_RECVD"),
        ("-t TCP_STREAM -l -1000000", "REMOTE_BYTES_RECVD"),
        ("-t TCP_MAERTS", "LOCAL_BYTES_RECVD"),
        ("-t TCP_SENDFILE", "REMOTE_BYTES_RECVD"),
        ("-t UDP_STREAM -b 10 -w 10", "REMOTE_BYTES_RECVD"),
        ("-t TCP_RR", "P99_LATENCY"),
        ("-t UDP_RR", "P99_LATENCY"),
        ("-t TCP_CRR", "P99_LATENCY"),
        ("-t TCP_CC", "P99_LATENCY"),
        ("-t TCP_CRR -l -50", "LOCAL_SEND_CALLS"),
        ("-t UDP_RR -l -50", "LOCAL_SEND_CALLS"),
        ("-t omni -l 1 -- -d cc", "TRANSACTION_RATE"),
    ] {
        let dashes = if args.contains(" -- ") { "" } else { "-- -m 1000" };
        let all = format!("-l 1 -P 0 {args} {dashes} -k THROUGHPUT,{name}");
        let mine = text(&ours(at.port(), &all), &all);
        assert!(value(&mine, "THROUGHPUT") > 0.0 && value(&mine, name) > 0.0, "{all}: {mine}");
        if args.ends_with("-50") {
            assert_eq!(value(&mine, name), 50.0);
        }
        if args.contains("-l -1000000") {
            assert_eq!(value(&mine, name), 1_000_000.0);
        }
    }
    assert!(!server.log().contains("\"failed\""), "{}", server.log());
}

/// Of a real server as well, which says an error where its client closes what it sends to.
#[test]
fn a_test_until_a_signal_comes_has_figures_then() {
    let _alone = alone();
    let (server, at) = serve(&[]);
    let theirs = programs("a_test_until_a_signal_comes_has_figures_then").map(|bin| {
        an_address();
        Netserver::start(&bin)
    });
    let ports = [Some(at.port()), theirs.as_ref().map(|server| server.port)];
    for port in ports.into_iter().flatten() {
        for test in ["TCP_MAERTS", "TCP_RR", "UDP_RR"] {
            let words =
                format!("netperf -H 127.0.0.1 -p {port} -t {test} -l 0 -P 0 -v 0 -- -k THROUGHPUT");
            let client = Client::start(None, &words.split(' ').collect::<Vec<_>>());
            server.carries(200_000);
            client.signal(Signal::SIGINT);
            let ran = client.end();
            assert_eq!(ran.code, 0, "{words}: {}", ran.err);
            assert!(value(&ran.out, "THROUGHPUT") > 0.0, "{words}: {}", ran.out);
        }
    }
}

#[test]
fn connections_are_counted_at_both_ends() {
    let _alone = alone();
    let Some(bin) = programs("connections_are_counted_at_both_ends") else { return };
    an_address();
    let (server, at) = serve(&[]);
    // A real client opens one for each transaction; the server has answered as many, and one that was under way.
    for (ends, args) in [
        (1, "-t TCP_CRR -l 1 -- -k LOCAL_SEND_CALLS"),
        (2, "-t TCP_CRR -l -200 -- -k LOCAL_SEND_CALLS"),
    ] {
        let counted = value(&text(&real(&bin, at.port(), args), args), "LOCAL_SEND_CALLS");
        let log = server.says("\"outcome\"", ends);
        let last = log.lines().rfind(|line| line.contains("\"outcome\"")).expect("an end");
        let ended: serde_json::Value = serde_json::from_str(last).expect("a line");
        let answered = ended["answered"].as_f64().expect("what was answered");
        assert!((0.0..=2.0).contains(&(answered - counted)) && counted > 0.0, "{counted}: {last}");
    }
    // These it asks for in messages of before 2.5.
    for test in ["TCP_CC", "TCP_SENDFILE -F /bin/sh"] {
        let args = format!("-t {test} -l 1 -P 0 -v 0 -C");
        text(&real(&bin, at.port(), &args), &args);
    }
    assert!(!server.log().contains("failed"), "{}", server.log());
    // And ours at a real server, which counts what it answered.
    let theirs = Netserver::start(&bin);
    for args in ["-t TCP_CRR -l 1", "-t TCP_CC -l 1"] {
        let all = format!("{args} -P 0 -- -k TRANSACTION_RATE,MIN_LATENCY");
        let mine = text(&ours(theirs.port, &all), &all);
        assert!(
            value(&mine, "TRANSACTION_RATE") > 0.0 && value(&mine, "MIN_LATENCY") > 0.0,
            "{mine}"
        );
    }
}

/// `-b` and `-w`: so many at once, and then none for as long. `--json` is the record of it.
#[test]
fn sends_of_a_burst_leave_at_once() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    let totals = |args: &str| -> serde_json::Value {
        let out = text(&ours(at.port(), args), args);
        let record: serde_json::Value = serde_json::from_str(&out).expect("a record");
        assert_eq!(
            (&record["agreed"]["dialect"], &record["status"]),
            (&"netperf".into(), &"complete".into()),
            "{record}"
        );
        record["totals"].clone()
    };
    let udp = totals("-t UDP_STREAM -l 1 -b 5 -w 100 --json -- -m 1000");
    // Of five at 50 a second; one at a time would be due every 20 ms.
    assert_eq!(udp["sender"]["pacing"]["gap_nominal_ns"], 100_000_000, "{udp}");
    assert!(udp["sender"]["datagrams"].as_u64().is_some_and(|n| n > 0 && n <= 55), "{udp}");
    // The kernel's own pacing would take a whole buffer at first.
    let tcp = totals("-t TCP_STREAM -l 1 -b 5 -w 100 --json -- -m 1000");
    let bytes = tcp["sender"]["bytes"].as_u64().expect("bytes");
    assert!(bytes > 0 && bytes <= 55_000 && bytes % 1_000 == 0, "{tcp}");
    // Each repeat is a document.
    let args = "-t TCP_RR -l -20 -I 99,10000 -i 3,3 --json";
    let all = text(&ours(at.port(), args), args);
    let records = serde_json::Deserializer::from_str(&all).into_iter::<serde_json::Value>();
    let requests = records.map(|record| record.expect("a record")["totals"]["rr"].clone());
    let requests: Vec<_> = requests.map(|rr| rr["transactions"].clone()).collect();
    assert_eq!(requests, [20, 20, 20], "{all}");
}

#[test]
fn a_server_of_that_name_serves() {
    let _alone = alone();
    let port = free_port();
    let command = |args: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.arg("netserver").args(args.split(' ')).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command
    };
    let mut server = command(&format!("-D -4 -p {port}")).spawn().expect("a server");
    let up = wait_for(LONG, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let out = ours(port, "-l 1 -P 0 -v 0");
    let second = command(&format!("-p {port}")).output().expect("a server");
    let _ = server.kill();
    let ended = server.wait_with_output().expect("its output");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(up, "{said}");
    text(&out, "-l 1");
    let wanted =
        format!("Starting netserver with host 'IN(6)ADDR_ANY' port '{port}' and family AF_INET\n");
    assert_eq!(said, wanted);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        second.status.code() == Some(1) && said.starts_with("Unable to start netserver"),
        "{said}"
    );
}

#[test]
fn failures_are_said_and_have_netperfs_codes() {
    let _alone = alone();
    let port = free_port();
    for (args, code, why) in [
        ("-l 1", 255, "are you sure there is a netserver listening on 127.0.0.1 at port"),
        ("-H nosuch.invalid -l 1", 255, "Netperf could not resolve nosuch.invalid as a host name"),
        ("-t TCP_FOO", 1, "The test you requested (TCP_FOO) is unknown to this netperf."),
        ("-q", 1, "invalid option -- 'q'"),
        ("-t UDP_STREAM -- -m 70000", 1, "Message too long"),
        ("-- -O /nonexistent/names", 255, "Could not open output selection file"),
        ("-h", 1, "Usage: netperf [global options] -- [test options]"),
    ] {
        let out = ours(port, args);
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args}: {err}");
        assert!(err.contains(why), "{args}: {err}");
    }
    let (_server, at) = serve(&["--max-duration", "5s"]);
    let out = ours(at.port(), "-l 9");
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(1) && err.contains("netperf error 122"), "{err}");
    // Under the names themselves.
    let link = std::env::temp_dir().join(format!("linerate-netperf-name-{}", std::process::id()));
    std::fs::create_dir_all(&link).expect("a folder");
    for name in ["netperf", "netserver"] {
        let path = link.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_linerate"), &path).expect("a link");
        let out = Command::new(path).arg("-V").output().expect("a program");
        assert!(String::from_utf8_lossy(&out.stdout).starts_with("Netperf version 2.7"), "{out:?}");
    }
    let _ = std::fs::remove_dir_all(&link);
}
