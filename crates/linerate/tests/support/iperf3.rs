//! Both ends of iperf3's protocol for tests of the server: Debian's client, one made by hand, and
//! linerate's server under iperf3's name.

#![allow(dead_code, reason = "each file of tests uses its own part of this")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linerate_wire::iperf3::{Cookie, ErrorNumber, Failure, State, hello};
use serde_json::Value;

use crate::support::{Lab, free_port, skip, wait_for};

/// No run of Debian's client takes this long.
pub const HANGS: Duration = Duration::from_secs(40);
/// Longer than every deadline of the protocol.
pub const DEADLINES: Duration = Duration::from_secs(25);

/// Another one for each seed: five bits make a letter.
pub fn cookie(seed: u32) -> Cookie {
    Cookie::from_random(std::array::from_fn(|i| (seed >> (5 * (i % 6))) as u8))
}

/// A client made by hand.
pub struct Peer {
    pub control: TcpStream,
    pub cookie: Cookie,
}

impl Peer {
    pub fn connect(at: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(at).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINES)).unwrap();
        stream
    }

    /// Past the cookie.
    pub fn begin(at: SocketAddr) -> Self {
        static SEED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        let cookie = cookie(SEED.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let mut peer = Self { control: Self::connect(at), cookie };
        peer.bytes(cookie.bytes());
        assert_eq!(peer.state(), Some(State::ParamExchange));
        peer
    }

    /// Past the parameters.
    pub fn asked(at: SocketAddr, json: &str) -> Self {
        let mut peer = Self::begin(at);
        peer.json(json);
        peer
    }

    /// Past the word to open streams.
    pub fn granted(at: SocketAddr, json: &str) -> Self {
        let mut peer = Self::asked(at, json);
        assert_eq!(peer.state(), Some(State::CreateStreams), "{json}");
        peer
    }

    /// A UDP test that runs.
    pub fn running(at: SocketAddr, json: &str) -> (Self, UdpSocket) {
        let mut peer = Self::granted(at, json);
        let socket = udp(at);
        socket.send(&hello::HELLO).unwrap();
        let mut answer = [0; 64];
        let n = socket.recv(&mut answer).unwrap();
        assert_eq!(answer[..n], hello::ANSWER);
        assert_eq!(peer.state(), Some(State::TestStart));
        assert_eq!(peer.state(), Some(State::TestRunning));
        (peer, socket)
    }

    /// Errors are the server's right: it may have hung up.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.control.write_all(bytes);
    }

    pub fn json(&mut self, json: &str) {
        self.bytes(&(json.len() as u32).to_be_bytes());
        self.bytes(json.as_bytes());
    }

    pub fn say(&mut self, state: State) {
        self.bytes(&[state.byte()]);
    }

    /// The next state; nothing when the server hangs up.
    pub fn state(&mut self) -> Option<State> {
        let mut byte = [0];
        match self.control.read_exact(&mut byte) {
            Ok(()) => Some(State::from_byte(byte[0]).expect("a state")),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server keeps the connection")
            }
            Err(_) => None,
        }
    }

    /// The server says this and hangs up.
    pub fn fails(mut self, number: ErrorNumber) {
        assert_eq!(self.state(), Some(State::ServerError));
        let mut bytes = [0; 8];
        self.control.read_exact(&mut bytes).unwrap();
        assert_eq!(Failure::decode(&bytes).unwrap().number, number);
        assert_eq!(self.state(), None);
    }

    /// The server hangs up, whatever it says before.
    pub fn hung_up(mut self) {
        let mut rest = [0; 4_096];
        loop {
            match self.control.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("the server keeps the connection")
                }
                Err(_) => return,
            }
        }
    }

    /// Closes with a reset instead of a farewell.
    pub fn reset(self) {
        socket2::SockRef::from(&self.control).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

pub fn udp(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(DEADLINES)).unwrap();
    socket.connect(at).unwrap();
    socket
}

/// A client's results of one stream.
pub fn results(id: &str, packets: &str) -> String {
    format!(
        r#"{{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,"streams":[{{"id":{id},"bytes":1,"retransmits":-1,"jitter":0,"errors":0,"packets":{packets}}}]}}"#
    )
}

/// Whether Debian's iperf3 is here.
pub fn installed(test: &str) -> bool {
    let there = Command::new("iperf3").arg("--version").output().is_ok();
    if !there {
        skip(test, "iperf3 is not installed");
    }
    there
}

/// Whether it and namespaces are.
pub fn possible(test: &str) -> bool {
    installed(test) && Lab::possible(test)
}

/// A client of iperf3 that was started, with its output in files of its own: a pipe that nobody
/// reads would hold it up.
pub struct Iperf3 {
    child: Child,
    out: std::fs::File,
    args: String,
}

pub struct Ended {
    pub code: i32,
    pub text: String,
    pub args: String,
}

impl Iperf3 {
    pub fn start(space: &str, host: &str, port: u16, args: &str) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space, "iperf3"]);
        Self::run(command, host, port, args)
    }

    /// In this process' own namespace.
    pub fn here(host: &str, port: u16, args: &str) -> Self {
        Self::run(Command::new("iperf3"), host, port, args)
    }

    fn run(mut command: Command, host: &str, port: u16, args: &str) -> Self {
        let out = anonymous();
        let (stdout, stderr) = (out.try_clone().expect("a copy"), out.try_clone().expect("a copy"));
        let child = command
            .args(["-c", host, "-p", &port.to_string()])
            .args(args.split_whitespace())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("iperf3 starts");
        Self { child, out, args: args.to_owned() }
    }

    /// Ends it without its leave.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn end(mut self) -> Ended {
        use std::io::{Read, Seek};
        let ended = wait_for(HANGS, || self.child.try_wait().expect("a child").is_some());
        if !ended {
            let _ = self.child.kill();
        }
        let code = self.child.wait().expect("a child").code().unwrap_or(-1);
        let mut text = String::new();
        self.out.rewind().expect("a file");
        self.out.read_to_string(&mut text).expect("text");
        assert!(ended, "iperf3 {} hangs: {text}", self.args);
        Ended { code, text, args: self.args }
    }
}

fn anonymous() -> std::fs::File {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    memfd_create(c"iperf3", MFdFlags::MFD_CLOEXEC).expect("memory").into()
}

impl Ended {
    /// It ended well; with `-J` that is in the document, as the exit code is 0 in any case.
    pub fn well(self) -> Self {
        assert_eq!(self.code, 0, "{}: {}", self.args, self.text);
        if self.args.contains("-J") {
            let document = self.document();
            assert!(document["error"].is_null(), "{}: {}", self.args, document["error"]);
        } else {
            assert!(self.text.contains("iperf Done."), "{}: {}", self.args, self.text);
        }
        self
    }

    pub fn document(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|e| panic!("{}: {e}: {}", self.args, self.text))
    }
}

/// `linerate iperf3 -s`.
pub struct Face {
    child: Child,
    pub port: u16,
    out: std::fs::File,
}

impl Face {
    pub fn start(args: &str) -> Self {
        let port = free_port();
        let out = anonymous();
        let (stdout, stderr) = (out.try_clone().expect("a copy"), out.try_clone().expect("a copy"));
        let child = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(["iperf3", "-s", "-p", &port.to_string()])
            .args(args.split_whitespace())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("the server starts");
        let face = Self { child, port, out };
        let up = wait_for(Duration::from_secs(20), || face.text().contains("Server listening"));
        assert!(up, "it does not listen: {}", face.text());
        face
    }

    pub fn at(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far, errors too.
    pub fn text(&self) -> String {
        use std::os::unix::fs::FileExt;
        let length = self.out.metadata().expect("a file").len();
        let mut bytes = vec![0; usize::try_from(length).expect("a length")];
        self.out.read_exact_at(&mut bytes, 0).expect("text");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
