//! The real nuttcp, of Debian and of 8.2.2, and a client of its protocol that is made by hand.

#![allow(dead_code, reason = "each file of tests uses its own part of this")]

use linerate_testkit::peer::LONG;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Server, free_port, skip, wait_for};

/// The programs that are there, by release; what is not is said.
pub fn programs(test: &str) -> Vec<(&'static str, PathBuf)> {
    let mut all = Vec::new();
    let debian = Command::new("nuttcp").arg("-V").output();
    match debian {
        Ok(out) if String::from_utf8_lossy(&out.stdout).contains("6.1.2") => {
            all.push(("6.1.2", PathBuf::from("nuttcp")));
        }
        _ => skip(test, "Debian's nuttcp 6.1.2 is not installed"),
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match Command::new(root.join("lab/nuttcp")).stderr(Stdio::piped()).output() {
        Ok(built) if built.status.success() => {
            all.push(("8.2.2", String::from_utf8_lossy(&built.stdout).trim().into()));
        }
        Ok(built) => skip(test, String::from_utf8_lossy(&built.stderr).trim()),
        Err(e) => skip(test, &format!("lab/nuttcp does not run: {e}")),
    }
    all
}

/// `linerate serve --nuttcp`, and its port.
pub fn serve(args: &[&str]) -> (Server, SocketAddr) {
    serve_in(None, args)
}

/// The same in a network namespace.
pub fn serve_in(space: Option<&str>, args: &[&str]) -> (Server, SocketAddr) {
    let port = free_port();
    let door = format!("--nuttcp={port}");
    let server = Server::start(space, &[&[door.as_str()], args].concat());
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let listens = format!(":{port}\",\"dialect\":\"nuttcp\"");
    server.says(&listens, 1);
    (server, at)
}

/// What a run of the real client prints, whether it succeeds or not.
pub fn attempt(command: &mut Command, host: &str, port: u16, args: &str) -> (bool, String) {
    let out = command
        .args(["-P", &port.to_string()])
        .args(args.split_whitespace())
        .arg(host)
        .output()
        .expect("nuttcp runs");
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// What a run of the real client prints.
pub fn nuttcp(bin: &Path, host: &str, port: u16, args: &str) -> String {
    let mut command = Command::new("timeout");
    let (good, text) = attempt(command.arg("60").arg(bin), host, port, args);
    assert!(good, "nuttcp {args}: {text}");
    text
}

/// `key=value` of what `-fparse` prints last.
pub fn value(text: &str, key: &str) -> f64 {
    let mut words = text.split_whitespace().filter_map(|word| word.split_once('='));
    let found = words.rfind(|(name, _)| *name == key);
    let (_, value) = found.unwrap_or_else(|| panic!("no {key} in {text}"));
    value.parse().unwrap_or_else(|e| panic!("{key} {value}: {e}"))
}

/// The real server.
pub struct Theirs {
    child: Child,
    pub port: u16,
}

impl Theirs {
    pub fn start(bin: &Path) -> Self {
        Self::start_in(None, bin)
    }

    /// In a network namespace.
    pub fn start_in(space: Option<&str>, bin: &Path) -> Self {
        let port = free_port();
        let inside = |program: &str| match space {
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space, program]);
                command
            }
            None => Command::new(program),
        };
        let mut command = inside(&bin.to_string_lossy());
        command.args(["-S", "--nofork", "-P", &port.to_string()]);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nuttcp starts");
        let ends = format!("sport = :{port}");
        let up = wait_for(LONG, || {
            let listening = inside("ss").args(["-Htln", &ends]).output().expect("ss");
            !listening.stdout.is_empty()
        });
        assert!(up, "nuttcp does not listen");
        Self { child, port }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The line of a test of half a second over TCP to the server, with these fields instead.
pub fn line(fields: &str) -> String {
    const ALL: &str = "buflen = 1000, nbuf = 2147483647, win = 0, nstream = 1, rate = 4294967295, \
        port = 7100, trans = 1, braindead = 0, timeout = 0.500000, udp = 0, vers = 8.2.2, \
        interval = 0.000000, reverse = 0, format = 2048, traceroute = 0, irate = 0, \
        thirdparty = _NULL_ , multicast = 0 , datamss = 0 , tos = 0 , nbuf_bytes = 0 , \
        rate_pps = 0 , nodelay = 0";
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().trim().to_owned();
    let changed = |pair: &&str| fields.split(',').find(|field| name(field) == name(pair));
    let pairs = ALL.split(',').map(|pair| changed(&pair).unwrap_or(pair));
    let more = fields.split(',').filter(|field| {
        !field.trim().is_empty() && !ALL.split(',').any(|pair| name(pair) == name(field))
    });
    let pairs: Vec<&str> = pairs.chain(more).map(str::trim).collect();
    format!("{}\n", pairs.join(", "))
}

/// A client made by hand.
pub struct Peer(pub BufReader<TcpStream>);

impl Peer {
    pub fn connect(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).expect("the server listens");
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self(BufReader::new(stream))
    }

    /// Past the greetings.
    pub fn greeted(at: SocketAddr) -> Self {
        let mut peer = Self::connect(at);
        peer.say("HELO nuttcp v8.2.2\n");
        assert_eq!(peer.line().as_deref(), Some("HELO nuttcp v8.2.2"));
        peer
    }

    /// Who has asked for a test that differs from [`line`] so.
    pub fn asked(at: SocketAddr, fields: &str) -> Self {
        let mut peer = Self::greeted(at);
        peer.say(&line(fields));
        peer
    }

    /// Past the server's consent.
    pub fn granted(at: SocketAddr, fields: &str) -> Self {
        let mut peer = Self::asked(at, fields);
        assert_eq!(peer.line().as_deref(), Some("OK v8.2.2"), "{fields}");
        peer
    }

    /// Errors are the server's right: it may have hung up.
    pub fn say(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// The next line without its end; nothing when the server hangs up.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end_matches('\n').to_owned()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server keeps the connection")
            }
            Err(_) => None,
        }
    }

    /// All lines until the server hangs up.
    pub fn rest(mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }

    /// The server refuses for this reason and hangs up.
    pub fn refused(self, why: &str) {
        let lines = self.rest();
        assert_eq!(lines.first().map(String::as_str), Some("KO"), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("KO"), "{lines:?}");
        assert!(lines.join(" ").contains(why), "{why}: {lines:?}");
    }

    /// The server hangs up, whatever it says before.
    pub fn hung_up(self) {
        let _ = self.rest();
    }

    /// Closes with a reset instead of a farewell.
    pub fn reset(self) {
        socket2::SockRef::from(self.0.get_ref()).set_linger(Some(Duration::ZERO)).unwrap();
    }
}
