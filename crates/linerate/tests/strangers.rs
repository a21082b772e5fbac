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
use support::{alone, linerate, wait_for};

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
    let mut server = support::Server::start(None, &[]);
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
