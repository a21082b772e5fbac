//! A real nats-server for a test, which ends with it.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::peer::LONG;

/// What is built where it is not installed.
const MODULE: &str = "github.com/nats-io/nats-server/v2@v2.15.2";

/// The program: of `PATH`, of Go's folders, or built into `target`. Says so, loudly, where there is none.
pub fn program(test: &str, target: &Path) -> Option<PathBuf> {
    // Once for all tests of a process: two that build it would write one file.
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| find(target));
    if found.is_none() {
        crate::skip(test, "no nats-server is installed, and go cannot build one");
    }
    found.clone()
}

fn find(target: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    folders.extend(std::env::var_os("GOBIN").map(PathBuf::from));
    folders.extend(std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin")));
    folders.push(target.join("go"));
    let there =
        || folders.iter().map(|folder| folder.join("nats-server")).find(|path| path.exists());
    there().or_else(|| {
        let go =
            Command::new("go").args(["install", MODULE]).env("GOBIN", target.join("go")).status();
        go.is_ok_and(|status| status.success()).then(there).flatten()
    })
}

/// A server that runs; killed when this is dropped.
pub struct Nats {
    program: PathBuf,
    config: PathBuf,
    address: SocketAddr,
    child: Child,
}

impl Nats {
    /// Starts it with a configuration that listens at `address`, and waits until it does.
    pub fn start(program: &Path, config: &Path, address: SocketAddr) -> Self {
        let (program, config) = (program.to_owned(), config.to_owned());
        let child = spawn(&program, &config);
        let mut this = Self { program, config, address, child };
        this.wait();
        this
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = std::fs::read_to_string(log(&self.config)).unwrap_or_default();
                panic!("nats-server ended: {status}\n{log}");
            }
            assert!(begun.elapsed() < LONG, "nats-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it (`kill -9`).
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again as it was.
    pub fn again(&mut self) {
        self.kill();
        self.child = spawn(&self.program, &self.config);
        self.wait();
    }
}

fn log(config: &Path) -> PathBuf {
    config.with_extension("log")
}

fn spawn(program: &Path, config: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(log(config)).expect("a log");
    let mut command = Command::new(program);
    command.arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("nats-server starts")
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}
