//! What strangers cannot take from a server's owner and from its other clients.

mod support;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use support::{Client, Ran, Server, alone, linerate, wait_for};

/// No step takes as long, on any machine.
const HANGS: Duration = Duration::from_secs(60);

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
    stream.set_read_timeout(Some(HANGS)).unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
    let timed_out = stream.read(&mut [0; 64]).is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
    assert!(!timed_out, "the server does not hang up");
}

#[test]
fn who_is_in_no_allowed_network_gets_not_a_byte() {
    let _alone = alone();
    let server = Server::start(None, &["--allow", "127.0.0.8/30,127.0.1.1", "--allow", "::1"]);
    for (from, allowed) in [
        (Ipv4Addr::new(127, 0, 0, 9), true),
        (Ipv4Addr::new(127, 0, 1, 1), true),
        (Ipv4Addr::new(127, 0, 0, 1), false),
        (Ipv4Addr::new(127, 0, 0, 12), false),
    ] {
        let port = server.port.to_string();
        let from = from.to_string();
        for dialect in ["native", "iperf3"] {
            let line = ["127.0.0.1", "-p", &port, "-B", &from, "--dialect", dialect, "-t", "100ms"];
            let ran = linerate(None, &[&["udp", "-b", "1M"], &line[..]].concat());
            assert_eq!(ran.code == 0, allowed, "{from} {dialect}: {} {}", ran.out, ran.err);
        }
        let mut stream = connect_from(from.parse().unwrap(), ([127, 0, 0, 1], server.port).into());
        stream.set_read_timeout(Some(HANGS)).unwrap();
        if !allowed {
            let read = stream.read(&mut [0; 64]);
            let hung_up = |e: &std::io::Error| e.kind() != ErrorKind::WouldBlock;
            assert!(read.as_ref().map_or_else(hung_up, |bytes| *bytes == 0), "{read:?}");
            let udp = std::net::UdpSocket::bind((from.as_str(), 0)).unwrap();
            udp.connect(("127.0.0.1", server.port)).unwrap();
            udp.send(&[0x36, 0x37, 0x38, 0x39]).unwrap();
        }
    }
    let log = server.log();
    assert!(log.contains("127.0.0.12:") && log.contains("takes tests from"), "{log}");
    let ran =
        linerate(None, &["udp", "::1", "-p", &server.port.to_string(), "-b", "1M", "-t", "100ms"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let _alone = alone();
    let child = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["serve", "--json-lines", "--port", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut server = Ends(child);
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
    // It ends when it is told to, read or not.
    kill(Pid::from_raw(server.0.id() as i32), Signal::SIGTERM).expect("it is there");
    assert!(wait_for(HANGS, || server.0.try_wait().expect("a child").is_some()), "it hangs");
    let mut err = String::new();
    server.0.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
    assert!(err.contains("refused: not a protocol spoken here"), "{err}");
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
    assert!(server.ends(HANGS).is_some(), "it hangs");
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
    assert!(wait_for(HANGS, || count() == 300), "{} of 300: {}", count(), server.log());
    assert!(server.log().contains("refused_more"), "{}", server.log());
}

fn test_line<'a>(server: &Server, from: &'a str, options: &'a str) -> Vec<String> {
    let line = format!("udp 127.0.0.1 -B {from} -p {} --json {options}", server.port);
    line.split_whitespace().map(str::to_owned).collect()
}

fn starts(server: &Server, from: &str, options: &str) -> Client {
    let line = test_line(server, from, options);
    Client::start(None, &line.iter().map(String::as_str).collect::<Vec<_>>())
}

fn runs(server: &Server, from: &str, options: &str) -> Ran {
    starts(server, from, options).end()
}

/// The last line of the server's log about the end of a test, once there are `n`.
fn ended(server: &Server, n: usize) -> Value {
    let lines = || -> Vec<Value> {
        let log = server.log();
        let all = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        all.filter(|line| line["event"] == "ended").collect()
    };
    assert!(wait_for(HANGS, || lines().len() >= n), "{}", server.log());
    lines().remove(n - 1)
}

#[test]
fn one_address_has_its_share_of_the_tests_and_others_have_theirs() {
    let _alone = alone();
    let server = Server::start(None, &["--max-tests-per-address", "2"]);
    let holding: Vec<Client> =
        (0..2).map(|_| starts(&server, "127.0.0.2", "-b 100k -t 60")).collect();
    assert!(wait_for(HANGS, || server.log().matches("\"started\"").count() == 2));
    let record = runs(&server, "127.0.0.2", "-b 1M -t 200ms").error("busy", 3);
    let why = record["error"]["why"].as_str().unwrap();
    assert!(why.contains("2 tests of 127.0.0.2 are running"), "{why}");
    runs(&server, "127.0.0.3", "-b 1M -t 200ms").complete();
    for client in holding {
        client.signal(Signal::SIGKILL);
        client.end();
    }
    ended(&server, 3);
    runs(&server, "127.0.0.2", "-b 1M -t 200ms").complete();
}

#[test]
fn one_address_has_its_share_of_the_places_to_wait() {
    let _alone = alone();
    let server = Server::start(None, &["--max-waiting-per-address", "8"]);
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    let hung_up = |stream: &mut TcpStream, limit: Duration| {
        stream.set_read_timeout(Some(limit)).unwrap();
        !stream.read(&mut [0]).is_err_and(|e| e.kind() == ErrorKind::WouldBlock)
    };
    let stranger = Ipv4Addr::new(127, 0, 0, 2);
    let _waiting: Vec<TcpStream> = (0..8).map(|_| connect_from(stranger, at)).collect();
    // One more is turned away at once, and says so in the log; another address is not.
    assert!(hung_up(&mut connect_from(stranger, at), HANGS));
    let turned_away = || server.log().contains("connections of 127.0.0.2 wait to ask");
    assert!(wait_for(HANGS, turned_away), "{}", server.log());
    let mut other = connect_from(Ipv4Addr::new(127, 0, 0, 3), at);
    assert!(!hung_up(&mut other, Duration::from_millis(300)));
    runs(&server, "127.0.0.4", "-b 1M -t 200ms").complete();
}

#[test]
fn one_address_has_its_bytes_of_the_day() {
    let _alone = alone();
    let server = Server::start(None, &["--max-bytes-per-day", "1M"]);
    runs(&server, "127.0.0.2", "-b 10M -n 2M").error("policy", 3);
    let _ = runs(&server, "127.0.0.2", "-b 10M -n 400k").complete();
    // By time: it ends when the day's bytes are used up, together with those of before.
    runs(&server, "127.0.0.2", "-b 20M -t 60");
    let cut = ended(&server, 2);
    assert_eq!(cut["outcome"], "cut", "{cut}");
    assert!(cut["why"].as_str().unwrap().contains("--max-bytes-per-day"), "{cut}");
    let record = runs(&server, "127.0.0.2", "-b 1M -t 200ms").error("policy", 3);
    assert!(record["error"]["why"].as_str().unwrap().contains("it may go on in"), "{record}");
    runs(&server, "127.0.0.3", "-b 1M -t 200ms").complete();
}

#[test]
fn a_test_in_which_nothing_moves_ends() {
    let _alone = alone();
    let server = Server::start(None, &["--max-idle", "1s"]);
    // A datagram in some ten minutes, from a client that is there all the time.
    runs(&server, "127.0.0.2", "-l 1000 -b 10 -t 3000");
    let cut = ended(&server, 1);
    assert_eq!(cut["outcome"], "cut", "{cut}");
    assert!(cut["why"].as_str().unwrap().contains("--max-idle"), "{cut}");
}
