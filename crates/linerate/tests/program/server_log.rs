//! What a server logs: each test's result in one line and one object, how it ended, and who was
//! turned away and why.

use crate::schema;
use linerate_testkit::peer::LONG;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::iperf3::{Iperf3, installed};
use crate::support::{Client, Server, alone, linerate, number, wait_for};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// The lines of one kind so far.
fn lines(server: &Server, event: &str) -> Vec<Value> {
    let log = server.log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == event).collect()
}

/// Waits for the `n`th line of a kind.
fn nth(server: &Server, event: &str, n: usize) -> Value {
    let there = wait_for(LONG, || lines(server, event).len() >= n);
    assert!(there, "{n} times {event}: {}", server.log());
    lines(server, event).remove(n - 1)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn each_test_is_an_object_with_its_figures() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let schema = linerate(None, &["schema", "serve"]);
    let schema: Value = serde_json::from_str(&schema.out).expect("a schema");
    let tests = [
        "udp -b 20M -t 300ms",
        "tcp -b 50M -t 300ms -R",
        "udp -b 2M -t 300ms --both",
        "rr -t 300ms",
    ];
    for (n, test) in (1..).zip(tests) {
        let (verb, options) = test.split_once(' ').unwrap();
        let line = format!("{verb} 127.0.0.1 -p {} {options} --json", server.port);
        let record = linerate(None, &words(&line)).complete();
        let started = nth(&server, "started", n);
        let ended = nth(&server, "ended", n);
        for object in [&started, &ended] {
            schema::validate(&schema, object).unwrap_or_else(|e| panic!("{test}: {e}: {object}"));
            assert_eq!(object["id"], record["id"], "{test}");
            assert_eq!((&object["kind"], &object["dialect"]), (&verb.into(), &"native".into()));
            assert_eq!(object["peer"], started["peer"]);
        }
        assert_eq!(ended["outcome"], "done", "{test}: {ended}");
        assert!(ended["why"].is_null() && ended["seconds"].as_f64().unwrap() > 0.0, "{ended}");
        let (sends, receives) = match (verb, options.contains("-R"), options.contains("--both")) {
            ("rr", ..) => (false, false),
            (_, _, true) => (true, true),
            (_, reverse, _) => (reverse, !reverse),
        };
        assert_eq!(ended["sent"].is_object(), sends, "{test}: {ended}");
        assert_eq!(ended["received"].is_object(), receives, "{test}: {ended}");
        assert_eq!(ended["answered"].is_u64(), verb == "rr", "{test}: {ended}");
        // The server's own end is the one that the client's record shows.
        if receives && !sends {
            let bytes = number(&record, "totals.receiver.bytes");
            assert_eq!(number(&ended, "received.bytes"), bytes, "{test}");
            assert_eq!(ended["received"]["lost"].is_u64(), verb == "udp");
        }
        if sends && !receives {
            let bytes = number(&record, "totals.sender.bytes");
            assert_eq!(number(&ended, "sent.bytes"), bytes, "{test}");
        }
    }
}

#[test]
fn a_client_that_is_killed_was_not_done() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let verbs = ["udp -b 5M", "tcp --both -b 50M"];
    for (n, verb) in (1..).zip(verbs) {
        let (kind, options) = verb.split_once(' ').unwrap_or((verb, ""));
        let port = server.port.to_string();
        let line = format!("{kind} 127.0.0.1 -p {port} -t 60 --json-lines {options}");
        let client = Client::start(None, &words(&line));
        nth(&server, "started", n);
        server.carries(100_000);
        client.signal(Signal::SIGKILL);
        client.end();
        let ended = nth(&server, "ended", n);
        assert_eq!(ended["outcome"], "vanished", "{verb}: {ended}");
        assert!(ended["why"].is_string(), "{verb}: {ended}");
        assert!(ended["received"].is_object() || ended["sent"].is_object() || kind == "rr");
    }
}

#[test]
fn clients_of_iperf3_are_logged_the_same_way() {
    let _alone = alone();
    if !installed("clients_of_iperf3_are_logged_the_same_way") {
        return;
    }
    let server = Server::start(None, &["--max-duration", "100s"]);
    let at = server.port;
    let tests = ["-u -b 5M -t 1", "-n 100K", "-n 100K -R", "-u -b 1M -t 1 --bidir"];
    for (n, args) in (1..).zip(tests) {
        Iperf3::here("127.0.0.1", at, args).end().well();
        let ended = nth(&server, "ended", n);
        assert_eq!((&ended["outcome"], &ended["dialect"]), (&"done".into(), &"iperf3".into()));
        assert_eq!(ended["id"].as_str().unwrap().len(), 36, "its cookie: {ended}");
        let figures = &ended[if args.contains("-R") { "sent" } else { "received" }];
        assert!(number(figures, "bytes") > 0, "{args}: {ended}");
    }
    for (n, args) in (tests.len() + 1..).zip(["-t 60 -b 10M", "-u -b 5M -t 60", "-t 60 -b 10M -R"])
    {
        let client = Iperf3::here("127.0.0.1", at, args);
        nth(&server, "started", n);
        server.carries(100_000);
        client.kill();
        let ended = nth(&server, "ended", n);
        // Its kernel says that it is gone, and for a stream before the control connection does.
        assert!(["vanished", "failed"].contains(&ended["outcome"].as_str().unwrap()), "{ended}");
    }
    let refused = lines(&server, "refused").len();
    assert_ne!(Iperf3::here("127.0.0.1", at, "-t 200").end().code, 0);
    assert_eq!(nth(&server, "refused", refused + 1)["kind"], "policy");
}

/// Ends the process with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection from one of the loopback's addresses.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// Says what no server understands, and waits until it hangs up.
fn junk(from: Ipv4Addr, to: SocketAddr) {
    let mut stream = connect_from(from, to);
    stream.set_read_timeout(Some(LONG)).unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
    let timed_out = stream.read(&mut [0; 64]).is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
    assert!(!timed_out, "the server does not hang up");
}

#[test]
fn who_is_in_no_allowed_network_gets_not_a_byte() {
    let _alone = alone();
    let server = Server::start(None, &["--allow", "127.0.0.8/30,127.0.1.1", "--allow", "::1"]);
    let mut strangers = Vec::new();
    for (from, allowed) in [
        (Ipv4Addr::new(127, 0, 0, 9), true),
        (Ipv4Addr::new(127, 0, 1, 1), true),
        (Ipv4Addr::new(127, 0, 0, 1), false),
        (Ipv4Addr::new(127, 0, 0, 12), false),
    ] {
        let port = server.port.to_string();
        let from = from.to_string();
        for dialect in ["native", "iperf3"] {
            let line = ["127.0.0.1", "-p", &port, "-B", &from, "--dialect", dialect, "-k", "10"];
            let ran = linerate(None, &[&["udp", "-b", "1M"], &line[..]].concat());
            assert_eq!(ran.code == 0, allowed, "{from} {dialect}: {} {}", ran.out, ran.err);
        }
        let mut stream = connect_from(from.parse().unwrap(), ([127, 0, 0, 1], server.port).into());
        stream.set_read_timeout(Some(LONG)).unwrap();
        if !allowed {
            let read = stream.read(&mut [0; 64]);
            let hung_up = |e: &std::io::Error| e.kind() != ErrorKind::WouldBlock;
            assert!(read.as_ref().map_or_else(hung_up, |bytes| *bytes == 0), "{read:?}");
            let udp = std::net::UdpSocket::bind((from.as_str(), 0)).unwrap();
            udp.connect(("127.0.0.1", server.port)).unwrap();
            udp.send(&[0x36, 0x37, 0x38, 0x39]).unwrap();
            udp.set_nonblocking(true).unwrap();
            strangers.push(udp);
        }
    }
    let log = server.says("127.0.0.12:", 1);
    assert!(log.contains("takes tests from"), "{log}");
    let ran =
        linerate(None, &["udp", "::1", "-p", &server.port.to_string(), "-b", "1M", "-t", "100ms"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // By now the server has read theirs, which came before.
    for udp in strangers {
        let heard = udp.recv(&mut [0; 64]);
        assert!(heard.is_err(), "{heard:?} bytes for who is not allowed");
    }
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let _alone = alone();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unread-log");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let audit = folder.join("audit.jsonl");
    let child = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["serve", "--json-lines", "--port", "0", "--audit-log"])
        .arg(&audit)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut server = Ends(child);
    // As few bytes as a page may have.
    let small = || FcntlArg::F_SETPIPE_SZ(65_536);
    fcntl(server.0.stdout.as_ref().expect("piped"), small()).expect("a smaller pipe");
    fcntl(server.0.stderr.as_ref().expect("piped"), small()).expect("a smaller pipe");
    let mut out = BufReader::new(server.0.stdout.take().expect("its output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    let event: Value = serde_json::from_str(&line).expect("JSON");
    let at: SocketAddr = event["address"].as_str().expect("an address").parse().expect("one");
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, at.port()));
    // More lines than any pipe holds, and no more of an address than are told one by one.
    for n in 0..3_000u32 {
        junk(Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + n / 50), at);
    }
    let port = at.port().to_string();
    linerate(None, &["udp", "127.0.0.1", "-p", &port, "-t", "300ms", "--json"]).complete();
    // The pipes are full by now, and what is to be kept is kept all the same.
    let kept = || fs::read_to_string(&audit).expect("a log");
    assert!(wait_for(LONG, || kept().contains("\"event\":\"ended\"")), "{}", kept());
    // It ends when it is told to, read or not.
    kill(Pid::from_raw(server.0.id() as i32), Signal::SIGTERM).expect("it is there");
    assert!(wait_for(LONG, || server.0.try_wait().expect("a child").is_some()), "it hangs");
    let mut err = String::new();
    server.0.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
    assert!(err.contains("refused: not a protocol spoken here"), "{err}");
    assert!(err.lines().count() < kept().lines().count(), "nothing was full: {err}");
    fs::remove_dir_all(folder).expect("its folder");
}

#[test]
fn what_a_log_leaves_out_is_counted_in_it() {
    let _alone = alone();
    let mut server = Server::start(None, &[]);
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    for _ in 0..300 {
        junk(Ipv4Addr::new(127, 0, 0, 9), at);
    }
    server.signal(Signal::SIGTERM);
    assert!(server.ends(LONG).is_some(), "it hangs");
    let count = || {
        let log = server.log();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let counts = lines.map(|line| match line["event"].as_str() {
            Some("refused") => 1,
            Some("refused_more") => {
                assert_eq!(line["network"], "127.0.0.9", "{line}");
                line["count"].as_u64().expect("a number")
            }
            _ => 0,
        });
        counts.sum::<u64>()
    };
    assert!(wait_for(LONG, || count() == 300), "{} of 300: {}", count(), server.log());
    assert!(server.log().contains("refused_more"), "{}", server.log());
}
