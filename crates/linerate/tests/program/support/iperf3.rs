//! Both ends of iperf3's protocol for tests of the server: Debian's client, one made by hand (of the testkit), and
//! linerate's server under iperf3's name.

#![allow(dead_code, reason = "each file of tests uses its own part of this")]

use linerate_testkit::peer::LONG;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

#[allow(unused_imports, reason = "each file of tests uses its own part of this")]
pub use linerate_testkit::peer::iperf3::*;

use crate::support::{Lab, free_port, skip, wait_for};

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
        let ended = wait_for(LONG, || self.child.try_wait().expect("a child").is_some());
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
        let up = wait_for(LONG, || face.text().contains("Server listening"));
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
