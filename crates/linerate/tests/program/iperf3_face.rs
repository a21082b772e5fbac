//! linerate as a client of real iperf3 servers, and under iperf3's own name: agreement of both ends,
//! lines while it runs, failures in iperf3's words, and servers that misbehave.

mod beside;
mod likeness;
use crate::support;
use linerate_testkit::peer::LONG;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::support::{
    Client, Lab, alone, free_port, linerate, list, number, pressure, skip, skip_busy, together,
    wait_for,
};
use serde_json::Value;

/// Whether a real iperf3 is here; skips loudly where it is not.
fn possible(test: &str) -> bool {
    let there = Command::new("iperf3").arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        skip(test, "there is no iperf3 (Debian: apt-get install iperf3)");
    }
    there
}

#[test]
fn a_title_that_is_no_text_is_no_panic() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(["iperf3", "-c", "127.0.0.1", "-p", "9", "-T"]).arg(OsStr::from_bytes(b"\xff"));
    let out = command.output().expect("the program");
    assert_eq!(out.status.code(), Some(1), "{}", String::from_utf8_lossy(&out.stderr));
}

/// A real iperf3 server for one test.
struct Real {
    child: Child,
    port: u16,
}

/// The socket that listens on `port` in the network namespace of a process.
fn listener(id: u32, port: u16) -> Option<String> {
    let wanted = format!(":{port:04X} ");
    ["tcp", "tcp6"].into_iter().find_map(|name| {
        let table = std::fs::read_to_string(format!("/proc/{id}/net/{name}")).ok()?;
        let line = table.lines().find(|line| line.contains(&wanted) && line.contains(" 0A "))?;
        line.split_whitespace().nth(9).map(str::to_owned)
    })
}

/// Whether there is one.
fn listens(id: u32, port: u16) -> bool {
    listener(id, port).is_some()
}

impl Real {
    /// For one test.
    fn start(space: Option<&str>, args: &[&str]) -> Self {
        Self::lasting(space, &[&["-1"], args].concat())
    }

    /// For any number of tests, one after another.
    fn lasting(space: Option<&str>, args: &[&str]) -> Self {
        // A port that was free may be another connection's by the time iperf3 asks for it.
        (0..5).find_map(|_| Self::on(free_port(), space, args)).expect("iperf3 listens")
    }

    /// `None` when it ended at once.
    fn on(port: u16, space: Option<&str>, args: &[&str]) -> Option<Self> {
        let mut command = match space {
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space, "iperf3"]);
                command
            }
            None => Command::new("iperf3"),
        };
        let child = command
            .args(["-s", "-p", &port.to_string()])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("iperf3 starts");
        let mut real = Self { child, port };
        let mut ended = false;
        let up = wait_for(LONG, || {
            ended = real.child.try_wait().expect("a child").is_some();
            ended || listens(real.child.id(), port)
        });
        assert!(up, "iperf3 does not listen");
        (!ended).then_some(real)
    }

    /// What it printed, when it has ended.
    fn output(mut self) -> String {
        let mut out = self.child.stdout.take().expect("its output");
        let text = std::thread::spawn(move || {
            // A cookie that came from linerate's own hello is no text.
            let mut bytes = Vec::new();
            let _ = out.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let ended = wait_for(LONG, || self.child.try_wait().is_ok_and(|s| s.is_some()));
        if !ended {
            let _ = self.child.kill();
        }
        text.join().expect("its output")
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// linerate under iperf3's name: exit code, output, errors.
fn face(space: Option<&str>, line: &str) -> (Option<i32>, String, String) {
    let binary = env!("CARGO_BIN_EXE_linerate");
    let mut command = match space {
        Some(space) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", space, binary]);
            command
        }
        None => Command::new(binary),
    };
    let out = command
        .arg("iperf3")
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .expect("linerate runs");
    (
        out.status.code(),
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
}

/// A loaded machine loses datagrams at an end of a test, where no counter of iperf3 sees them: what `check` finds
/// is not judged where others had the cores.
fn unless_busy(what: &str, check: impl FnOnce() -> Result<(), String>) {
    let (checked, busy) = pressure(check);
    match checked {
        Err(why) if busy > 0.2 => skip_busy(what, &format!("{why}, at a pressure of {busy:.2}")),
        checked => checked.unwrap_or_else(|why| panic!("{what}: {why}")),
    }
}

#[test]
fn both_ends_agree() {
    let _alone = alone();
    if !possible("both_ends_agree") {
        return;
    }
    let mut cases = Vec::new();
    for protocol in ["udp", "tcp"] {
        for way in ["", "--reverse", "--both"] {
            for streams in ["1", "2", "8"] {
                for omit in ["0", "1s"] {
                    cases.push((protocol, way, streams, omit));
                }
            }
        }
    }
    assert_eq!(cases.len(), 36);
    together(&cases, |(protocol, way, streams, omit)| {
        // Longer than others keep a stream's sender from its core.
        let mut args = vec![*protocol, "127.0.0.1", "--json", "-t", "2s", "-P", streams];
        args.extend(["-O", omit, "-b", "2M"]);
        args.extend(if *protocol == "tcp" { ["-l", "8Ki"] } else { ["-l", "1000"] });
        args.extend(Some(*way).filter(|way| !way.is_empty()));
        agree(&args, *protocol == "udp", *omit == "0");
    });
}

/// One test against a real server: what the record says of each stream is what the server says.
fn agree(args: &[&str], udp: bool, whole: bool) {
    let server = Real::start(None, &["-J"]);
    let port = server.port.to_string();
    // A server for one test that is found out late, on a busy host, is gone when it is asked again.
    let ran = linerate(None, &[args, &["-p", &port, "--dialect", "iperf3"]].concat());
    let record = ran.record();
    let ended = (ran.code, record["status"].as_str());
    assert_eq!(ended, (0, Some("complete")), "{args:?}: {}", record["error"]);
    let told = server.output();
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}: {told}"));
    assert_eq!(record["agreed"]["dialect"], "iperf3");
    assert_eq!(told.get("error"), None, "{args:?}");
    let missing = list(&record["doubts"]).iter().any(|d| d["kind"] == "peer-values-missing");
    assert!(missing, "{}", record["doubts"]);
    let of_warmup =
        |d: &&Value| d["text"].as_str().is_some_and(|text| text.contains("of the warm-up"));
    let came_late = list(&record["doubts"]).iter().any(|d| of_warmup(&d));
    let theirs = list(&told["end"]["streams"]);
    assert_eq!(theirs.len(), list(&record["streams"]).len(), "{args:?}");
    for (stream, their) in list(&record["streams"]).iter().zip(theirs) {
        let what = format!("{args:?}: {stream} and {their}");
        let reverse = stream["direction"] == "reverse";
        let ours = |name: &str| number(stream, name);
        let unit = if udp { "datagrams" } else { "bytes" };
        let [sent, received] =
            ["sender", "receiver"].map(|end| number(stream, &format!("{end}.{unit}")));
        assert!(received > 0, "{what}");
        // What a busy host lets no receiver take is lost: of datagrams each is in one of both figures. Bytes of a
        // warm-up that a busy server reads after it are said.
        let agrees = match udp {
            true => sent == received + ours("receiver.lost"),
            false => sent >= received || (!whole && came_late),
        };
        assert!(agrees, "{what}: {}", record["doubts"]);
        if !whole {
            continue;
        }
        match (udp, reverse) {
            (true, true) => assert_eq!(sent, number(their, "udp.packets"), "{what}"),
            (true, false) => {
                let (highest, lost) =
                    (number(their, "udp.packets"), number(their, "udp.lost_packets"));
                assert!(sent >= highest && received == highest - lost, "{what}");
            }
            (false, true) => assert_eq!(sent, number(their, "sender.bytes"), "{what}"),
            (false, false) => assert_eq!(received, number(their, "receiver.bytes"), "{what}"),
        }
    }
    if udp && args.iter().all(|word| !matches!(*word, "--both" | "--reverse")) {
        let receiver = &record["totals"]["receiver"];
        for absent in ["duplicates", "reordered", "one_way_delay_s", "delay_variation_s"] {
            assert!(receiver.get(absent).is_none(), "{absent}: {receiver}");
        }
    }
}

/// What the record calls lost is what the receiver's kernel handed to no program, both ways, what nft dropped among it.
#[test]
fn loss_agrees_to_the_datagram() {
    let _alone = alone();
    if !possible("loss_agrees_to_the_datagram") || !Lab::possible("loss_agrees_to_the_datagram") {
        return;
    }
    let rules = "flush ruleset
table inet truth {
    counter dropped { }
    chain ingress {
        type filter hook prerouting priority -300;
        udp length > 200 numgen inc mod 100 == 7 counter name dropped drop
    }
}
";
    for (way, side) in [("--forward", "b"), ("--reverse", "a")] {
        let lab = Lab::pair();
        lab.nft(side, rules);
        let server = Real::start(Some(&lab.space("b")), &[]);
        let port = server.port.to_string();
        let mut args = vec!["udp", "10.77.1.2", "-p", &port, "--json", "-t", "2s", "-b", "10M"];
        // Named: a server that is slow to answer was found out too late, and serves once.
        args.extend(["-l", "1000", "-P", "2", "--dialect", "iperf3"]);
        args.extend(Some(way).filter(|way| *way == "--reverse"));
        let ran = linerate(Some(&lab.space("a")), &args);
        let record = ran.record();
        let status = record["status"].as_str();
        assert_eq!((ran.code, status), (0, Some("complete")), "{}", record["error"]);
        let (dropped, _) = lab.counter(side, "dropped");
        let lost = number(&record, "totals.receiver.lost");
        let sent = number(&record, "totals.sender.datagrams");
        // Each stream opens with one datagram each way.
        let taken = lab.snmp(side, "Udp", "InDatagrams") - 2;
        assert_eq!(lost, sent - taken, "{}", record["totals"]);
        assert!(dropped > 0 && lost >= dropped, "{dropped} dropped: {}", record["totals"]);
        // A busy host adds to the hundredth part, and takes nothing from it.
        assert!(dropped.abs_diff(sent / 100) <= 1, "{dropped} dropped of {sent}");
    }
}

/// At 100 Mbit/s each client, linerate's and iperf3's own, calls lost what the server's kernel handed to no program; on a
/// host with time that is what nft dropped of its datagrams, and what the server's socket had no room for.
#[test]
#[ignore = "long"]
fn both_clients_see_the_loss_that_the_counter_saw() {
    let _alone = alone();
    let test = "both_clients_see_the_loss_that_the_counter_saw";
    if !possible(test) || !Lab::possible(test) {
        return;
    }
    let rules = "flush ruleset
table inet truth {
    counter dropped { }
    chain ingress {
        type filter hook prerouting priority -300;
        udp length > 200 numgen random mod 100 == 0 counter name dropped drop
    }
}
";
    for ours in [true, false] {
        let lab = Lab::pair();
        let server = Real::start(Some(&lab.space("b")), &["-J"]);
        lab.nft("b", rules);
        let port = server.port.to_string();
        let space = lab.space("a");
        let ((lost, sent), busy) = pressure(|| {
            if ours {
                let args = ["udp", "10.77.1.2", "-p", &port, "--json", "-t", "2s", "-b", "100M"];
                // Named: a server that is slow to answer was found out too late, and serves once.
                let more = ["-l", "1448", "--dialect", "iperf3"];
                let record = linerate(Some(&space), &[&args[..], &more].concat()).record();
                let totals = &record["totals"];
                (number(totals, "receiver.lost"), number(totals, "sender.datagrams"))
            } else {
                let args = ["-c", "10.77.1.2", "-p", &port, "-u", "-b", "100M", "-t", "2", "-J"];
                let out = Command::new("ip")
                    .args(["netns", "exec", &space, "iperf3", "-l", "1448"])
                    .args(args)
                    .output()
                    .expect("iperf3 runs");
                let document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
                let sum = &document["end"]["sum"];
                (number(sum, "lost_packets"), number(sum, "packets"))
            }
        });
        let told = server.output();
        let told: Value = serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}: {told}"));
        let their = &told["end"]["streams"][0]["udp"];
        let (highest, missed) = (number(their, "packets"), number(their, "lost_packets"));
        let (dropped, _) = lab.counter("b", "dropped");
        let no_room = lab.snmp("b", "Udp", "RcvbufErrors");
        // The stream opens with one datagram each way.
        let taken = lab.snmp("b", "Udp", "InDatagrams") - 1;
        let what = format!(
            "ours: {ours}, {lost} lost of {sent}, {taken} taken, {dropped}+{no_room} dropped, pressure {busy:.2}: {their}"
        );
        assert!(sent > 1_000 && dropped > 50, "{what}");
        assert_eq!(highest, taken + missed, "{what}");
        // iperf3 counts none of those that were lost after the last that arrived.
        assert_eq!(lost, if ours { sent - taken } else { missed }, "{what}");
        // A host without time loses datagrams where no counter of the socket sees them, or too late to be missed.
        if busy <= 0.2 {
            assert_eq!(lost, dropped + no_room, "{what}");
        }
    }
}

/// What an iperf3 server cannot take is its own host's limit, and not the path's: on one host the
/// kernel's counter says so.
#[test]
fn a_slow_server_is_the_limit() {
    let _alone = alone();
    if !possible("a_slow_server_is_the_limit") {
        return;
    }
    let server = Real::start(None, &[]);
    let port = server.port.to_string();
    let to = ["udp", "127.0.0.1", "-p", &port, "--dialect", "iperf3"];
    let args = [&to[..], &["--json", "-t", "2s", "-b", "max", "-l", "1448"]].concat();
    // The peer reports no intervals, so that not all identities can hold.
    let record = linerate(None, &args).record();
    assert_eq!(record["status"], "complete", "{}", record["error"]);
    let receiver = &record["totals"]["receiver"];
    let lost = number(receiver, "lost");
    assert!(lost > 1_000, "{receiver}");
    // Where others make and end networks, the kernel may not tell its counters in time: then nobody knows where it was.
    let told = !receiver["host"].is_null();
    assert_eq!(receiver["dropped_receiver"].is_null(), !told, "{receiver}");
    if told {
        // Where others keep the kernel itself from a core, its backlog of packets is full before the socket is.
        let backlog = receiver["host"]["softnet_dropped"].as_u64().unwrap_or(0);
        let dropped = number(receiver, "dropped_receiver") + backlog;
        assert!(dropped * 10 > lost * 9, "{receiver}");
    }
    let limit = record["verdict"]["limit"].as_str().expect("a verdict");
    let named = limit.starts_with("receiver-") || (!told && limit == "unknown");
    assert!(named, "{}", record["verdict"]);
}

/// `rr` has no words in iperf3's dialect; and a server that runs a test says that it is busy.
#[test]
fn a_busy_server_and_request_response_are_refused() {
    let _alone = alone();
    if !possible("a_busy_server_and_request_response_are_refused") {
        return;
    }
    let server = Real::lasting(None, &[]);
    let port = server.port.to_string();
    linerate(None, &["rr", "127.0.0.1", "-p", &port, "--json", "--dialect", "iperf3"])
        .error("dialect", 2);
    let mut long = Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &port, "-t", "30", "-b", "1M", "--forceflush"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("iperf3 runs");
    let mut lines = BufReader::new(long.stdout.take().expect("its output")).lines();
    // The first line of figures: the test runs.
    let runs = lines.by_ref().map_while(Result::ok).any(|line| line.contains(" sec "));
    linerate(None, &["udp", "127.0.0.1", "-p", &port, "--json", "-b", "1M"]).error("busy", 3);
    let (code, _, err) = face(None, &format!("-c 127.0.0.1 -p {port}"));
    let _ = long.kill();
    let _ = long.wait();
    assert!(runs, "the other client does not run");
    assert_eq!(code, Some(1));
    assert_eq!(err, "iperf3: error - the server is busy running a test. try again later\n");
}

#[test]
fn lines_while_it_runs() {
    let _alone = alone();
    if !possible("lines_while_it_runs") {
        return;
    }
    let server = Real::start(None, &[]);
    let line = format!(
        "-c 127.0.0.1 -p {} -t 2 -b 5M --json-stream --json-stream-full-output",
        server.port
    );
    let (code, out, _) = face(None, &line);
    assert_eq!(code, Some(0));
    let events: Vec<Value> =
        out.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names, ["start", "interval", "interval", "end"], "{out}");
    let whole = out.lines().skip(events.len()).collect::<Vec<_>>().join("\n");
    let whole: Value = serde_json::from_str(&whole).expect("the document");
    assert_eq!(whole["end"], events[3]["data"]);
}

#[test]
fn a_one_off_server_that_nobody_uses_ends() {
    let (code, out, err) = face(None, &format!("-s -1 -p {} --idle-timeout 1", free_port()));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
}

#[test]
fn failures_are_told_as_iperf3_tells_them() {
    let refused = free_port();
    let (code, out, err) = face(None, &format!("-c 127.0.0.1 -p {refused}"));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(err, "iperf3: error - unable to connect to server: Connection refused\n");
    let (code, out, err) = face(None, &format!("-c 127.0.0.1 -p {refused} -J"));
    assert_eq!((code, err.as_str()), (Some(1), ""));
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["error"], "unable to connect to server: Connection refused");
    assert_eq!(document["intervals"], serde_json::json!([]));
    assert_eq!(document["end"], serde_json::json!({}));
    let (code, _, err) = face(None, "-c x --sctp");
    assert_eq!(code, Some(1));
    assert!(err.contains("--sctp") && err.contains("SCTP is not spoken"), "{err}");
    let (code, out, _) = face(None, "--version");
    assert_eq!(code, Some(0));
    assert!(out.starts_with("iperf 3.12 (linerate "), "{out}");
}

/// What a bad server does, in turn; `R` reads what there is.
enum Act {
    Say(&'static [u8]),
    Hear,
    /// So that what follows comes by itself.
    Pause,
    Wait,
    /// Says to the test that it has come so far.
    Reached(Sender<()>),
}

fn bad_servers() -> Vec<(&'static str, Vec<Act>)> {
    use Act::{Hear, Say, Wait};
    const LENGTH: &[u8] = &[0xff, 0xff, 0xff, 0xff];
    let begin = || vec![Hear, Say(&[9]), Hear, Say(&[10]), Hear];
    let running = || {
        let mut acts = begin();
        acts.extend([Say(&[1, 2]), Hear]);
        acts
    };
    let ended = || {
        let mut acts = running();
        acts.extend([Hear, Say(&[13]), Hear]);
        acts
    };
    let after = |mut acts: Vec<Act>, more: Vec<Act>| {
        acts.extend(more);
        acts
    };
    vec![
        ("silent from the start", vec![Wait]),
        ("closes at once", vec![]),
        ("closes after the cookie", vec![Hear]),
        ("garbage", vec![Hear, Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Wait]),
        ("a state nobody knows", vec![Hear, Say(&[17]), Wait]),
        ("the wrong state first", vec![Hear, Say(&[13]), Wait]),
        ("busy", vec![Say(&[0xff])]),
        ("told to stop at once", vec![Hear, Say(&[11]), Wait]),
        (
            "an error with two numbers",
            vec![Hear, Say(&[9]), Hear, Say(&[0xfe, 0, 0, 0, 27, 0, 0, 0, 0])],
        ),
        ("an error with one number", vec![Hear, Say(&[9]), Hear, Say(&[0xfe, 0, 0, 0, 142])]),
        ("an error without a number", vec![Hear, Say(&[9]), Hear, Say(&[0xfe]), Wait]),
        ("an error of half a number", vec![Hear, Say(&[9]), Hear, Say(&[0xfe, 0, 0])]),
        ("silent after the parameters", vec![Hear, Say(&[9]), Hear, Wait]),
        ("closes after the parameters", vec![Hear, Say(&[9]), Hear]),
        ("asks for parameters twice", vec![Hear, Say(&[9, 9]), Wait]),
        ("starts before the streams", vec![Hear, Say(&[9]), Hear, Say(&[1]), Wait]),
        ("silent after the streams", after(begin(), vec![Wait])),
        ("closes after the streams", begin()),
        ("runs before it starts", after(begin(), vec![Say(&[2]), Wait])),
        ("only starts", after(begin(), vec![Say(&[1]), Wait])),
        ("closes while it runs", running()),
        ("silent for ever while it runs", after(running(), vec![Wait])),
        ("wants results before the end", after(running(), vec![Say(&[13]), Wait])),
        ("stops while it runs", after(running(), vec![Say(&[11]), Wait])),
        ("starts again while it runs", after(running(), vec![Say(&[1, 2]), Wait])),
        ("closes before its results", ended()),
        ("silent instead of results", after(ended(), vec![Wait])),
        ("results of 4 GiB", after(ended(), vec![Say(LENGTH), Wait])),
        ("results of no length", after(ended(), vec![Say(&[0, 0, 0, 0]), Wait])),
        (
            "results cut short",
            after(ended(), vec![Say(&[0, 0, 1, 0]), Say(b"{\"cpu_util_total\""), Wait]),
        ),
        (
            "results of 16 MiB that never come",
            after(ended(), vec![Say(&[0, 0xff, 0xff, 0xff]), Wait]),
        ),
        ("results that are no JSON", after(ended(), vec![Say(&[0, 0, 0, 4]), Say(b"nope"), Wait])),
        ("results of another shape", after(ended(), vec![Say(&[0, 0, 0, 2]), Say(b"[]"), Wait])),
    ]
}

fn misbehave(listener: &TcpListener, acts: &[Act]) {
    let Ok((mut control, _)) = listener.accept() else { return };
    let _ = control.set_read_timeout(Some(Duration::from_millis(1_500)));
    let mut streams: Vec<TcpStream> = Vec::new();
    let _ = listener.set_nonblocking(true);
    for act in acts {
        while let Ok((stream, _)) = listener.accept() {
            streams.push(stream);
        }
        match act {
            Act::Say(bytes) => drop(control.write_all(bytes)),
            Act::Hear => drop(control.read(&mut [0; 4_096])),
            Act::Reached(test) => drop(test.send(())),
            Act::Pause => std::thread::sleep(Duration::from_millis(100)),
            // Until the client has had enough.
            Act::Wait => {
                let _ = control.set_read_timeout(Some(LONG));
                while matches!(control.read(&mut [0; 4_096]), Ok(n) if n > 0) {}
            }
        }
    }
}

#[test]
fn bad_servers_are_named_and_left() {
    let cases = bad_servers();
    assert!(cases.len() >= 20);
    let _alone = alone();
    together(&cases, |(name, acts)| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        std::thread::scope(|scope| {
            scope.spawn(|| misbehave(&listener, acts));
            let begun = Instant::now();
            let (code, _, err) =
                face(None, &format!("-c 127.0.0.1 -p {port} -t 1 -b 1M -l 1K --rcv-timeout 1000"));
            assert_eq!(code, Some(1), "{name}: {err}");
            assert!(err.starts_with("iperf3: error - ") && err.len() > 30, "{name}: {err}");
            assert!(!err.contains("panicked"), "{name}: {err}");
            assert!(begun.elapsed() < LONG, "{name}: {:?}", begun.elapsed());
            // Ends a server that still waits for somebody.
            let _ = TcpStream::connect(("127.0.0.1", port));
        });
    });
}

/// Ends by count, or at Ctrl-C, also when the server says nothing more: a day is no answer.
#[test]
#[ignore = "long"]
fn a_server_that_is_silent_after_the_end_is_left() {
    use Act::{Hear, Pause, Reached, Say, Wait};
    let _alone = alone();
    let (says, reached) = channel();
    // What it hears last is that the client has sent all.
    let silent = || {
        let begin = [Hear, Say(&[9]), Hear, Say(&[10]), Pause, Say(&[1, 2]), Hear];
        begin.into_iter().chain([Reached(says.clone()), Wait]).collect()
    };
    let begin = |args: &'static str, acts: Vec<Act>| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port().to_string();
        let server = std::thread::spawn(move || misbehave(&listener, &acts));
        let words = ["iperf3", "-c", "127.0.0.1", "-p", &port];
        let args: Vec<&str> = words.into_iter().chain(args.split(' ')).collect();
        (Client::start(None, &args), server)
    };
    let (client, server) = begin("-n 10K -l 1K -b 1M --rcv-timeout 3000", silent());
    reached.recv().expect("the client's end");
    let ended = client.end();
    assert!(ended.code == 1 && ended.err.contains("did not end in time"), "{}", ended.err);
    server.join().expect("the server ended");
    // Two minutes of patience, cut short.
    let (client, server) = begin("-n 10K -l 1K -b 1M", silent());
    reached.recv().expect("the client's end");
    client.signal(nix::sys::signal::Signal::SIGINT);
    let ended = client.end();
    assert!(ended.code == 1 && ended.err.contains("interrupt"), "{}", ended.err);
    server.join().expect("the server ended");
}

/// Ctrl-C ends the sending; the server's figures are still asked for.
#[test]
fn an_interrupted_test_has_the_servers_figures() {
    let _alone = alone();
    let server = support::Server::start(None, &[]);
    let port = server.port.to_string();
    let words = ["iperf3", "-c", "127.0.0.1", "-p", &port, "-u", "-b", "1M", "-t", "60", "-J"];
    let client = Client::start(None, &words);
    let started = || server.log().contains("\"started\"");
    assert!(wait_for(LONG, started), "{}", server.log());
    server.carries(60_000);
    client.signal(nix::sys::signal::Signal::SIGINT);
    let ended = client.end();
    let document: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert!(number(&document, "end.sum_received.packets") > 0, "{}", document["end"]);
}

/// A failure whose number comes later than its state, while streams are being opened.
#[test]
fn an_error_number_that_comes_in_pieces_is_read_whole() {
    use Act::{Hear, Pause, Say, Wait};
    let _alone = alone();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("its address");
    // Hears the hello and never answers.
    let _udp = std::net::UdpSocket::bind(at).expect("the same port");
    let port = at.port().to_string();
    let acts = vec![
        Hear,
        Say(&[9]),
        Hear,
        Say(&[10]),
        Pause,
        Say(&[0xfe]),
        Pause,
        Say(&[0, 0]),
        Pause,
        Say(&[0, 27, 0, 0, 0, 0]),
        Wait,
    ];
    let server = std::thread::spawn(move || misbehave(&listener, &acts));
    let ended = linerate(None, &["iperf3", "-c", "127.0.0.1", "-p", &port, "-u", "-b", "1M"]);
    assert!(ended.code == 1 && ended.err.contains("says error 27"), "{}", ended.err);
    server.join().expect("the server ended");
}
