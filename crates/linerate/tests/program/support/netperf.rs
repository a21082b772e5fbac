//! The real netperf 2.7.1, and a client of its protocol that is made by hand.

#![allow(dead_code, reason = "each file of tests uses its own part of this")]

use linerate_testkit::peer::LONG;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linerate_model::plan::{IpVersion, Transport};
use linerate_wire::netperf::{FRAME_BYTES, Frame, Length, Request, Response};

use crate::support::{Server, free_port, skip, wait_for};

/// Where the real programs are; else says why the test is skipped.
pub fn programs(test: &str) -> Option<PathBuf> {
    programs_with(test, &[])
}

/// The same, built with options of its own.
pub fn programs_with(test: &str, flags: &[&str]) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = Command::new(root.join("lab/netperf")).args(flags).stderr(Stdio::piped()).output();
    match built {
        Ok(built) if built.status.success() => {
            Some(String::from_utf8_lossy(&built.stdout).trim().into())
        }
        Ok(built) => {
            skip(test, String::from_utf8_lossy(&built.stderr).trim());
            None
        }
        Err(e) => {
            skip(test, &format!("lab/netperf does not run: {e}"));
            None
        }
    }
}

/// netperf looks up even 127.0.0.1 only where some other interface has an address.
pub fn an_address() {
    for args in [
        "link add other type veth peer name far",
        "address add 192.0.2.77/24 dev other",
        "-6 address add 2001:db8::77/64 dev other nodad",
        "link set far up",
        "link set other up",
    ] {
        let _ = Command::new("ip").args(args.split(' ')).stderr(Stdio::null()).status();
    }
}

/// `linerate serve --netperf`, and its port.
pub fn serve(args: &[&str]) -> (Server, SocketAddr) {
    let port = free_port();
    let door = format!("--netperf={port}");
    let server = Server::start(None, &[&[door.as_str()], args].concat());
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let up = wait_for(LONG, || TcpStream::connect(at).is_ok());
    assert!(up, "nobody listens on {at}: {}", server.log());
    (server, at)
}

/// What a run of the real client prints.
pub fn netperf(bin: &Path, host: &str, port: u16, args: &str) -> String {
    let out = Command::new("timeout")
        .arg("60")
        .arg(bin.join("netperf"))
        .args(["-H", host, "-p", &port.to_string()])
        .args(args.split_whitespace())
        .output()
        .expect("netperf runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "netperf {args}: {text}{errors}");
    text
}

/// `KEY=value` of what `-k` prints.
pub fn value(text: &str, key: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let value = line.unwrap_or_else(|| panic!("no {key} in {text}"));
    value.trim().parse().unwrap_or_else(|e| panic!("{key} {value}: {e}"))
}

/// The real server.
pub struct Netserver {
    child: Child,
    pub port: u16,
}

impl Netserver {
    pub fn start(bin: &Path) -> Self {
        let port = free_port();
        let child = Command::new(bin.join("netserver"))
            .args(["-D", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("netserver starts");
        let up = wait_for(LONG, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(up, "netserver does not listen");
        Self { child, port }
    }
}

impl Drop for Netserver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A TCP test of a second, to the server.
pub fn request() -> Request {
    Request {
        transport: Transport::Tcp,
        transmits: false,
        receives: true,
        connections: false,
        sizes: None,
        length: Length::Seconds(1),
        send_buffer: None,
        receive_buffer: None,
        send_size: None,
        receive_size: None,
        nodelay: false,
        measure_cpu: false,
        no_checksum: false,
        may_route: true,
        data_port: None,
        peer_port: None,
        congestion: None,
        tos: None,
        core: None,
        ip: Some(IpVersion::V4),
        old: None,
    }
}

/// A client made by hand.
pub struct Peer(pub TcpStream);

impl Peer {
    pub fn connect(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).expect("the server listens");
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self(stream)
    }

    pub fn asked(at: SocketAddr, request: &Request) -> Self {
        let mut peer = Self::connect(at);
        peer.bytes(request.encode().bytes());
        peer
    }

    /// Past the first answer.
    pub fn granted(at: SocketAddr, request: &Request) -> (Self, SocketAddr) {
        let mut peer = Self::asked(at, request);
        let frame = peer.frame().expect("an answer");
        let response = Response::read(&frame).expect("no error");
        let port = response.data_port.expect("a port").get();
        (peer, SocketAddr::new(at.ip(), port))
    }

    /// Errors are the server's right: it may have hung up.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// The next message; nothing when the server hangs up.
    pub fn frame(&mut self) -> Option<Frame> {
        let mut bytes = [0; FRAME_BYTES];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => Frame::read(&bytes),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server keeps the connection")
            }
            Err(_) => None,
        }
    }

    /// The server says this error and hangs up.
    pub fn fails(mut self, error: u32) {
        assert_eq!(self.frame().map(|frame| frame.head()), Some(error));
        self.hung_up();
    }

    /// The server hangs up, whatever it says before.
    pub fn hung_up(mut self) {
        while self.frame().is_some() {}
    }

    /// Closes with a reset instead of a farewell.
    pub fn reset(self) {
        socket2::SockRef::from(&self.0).set_linger(Some(Duration::ZERO)).unwrap();
    }
}
