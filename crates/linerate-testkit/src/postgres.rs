//! A real server of PostgreSQL for a test, which ends with it.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::peer::LONG;
use crate::port::free_port;

/// Who runs it where a test is root, which PostgreSQL refuses: `nobody` of every system.
const NOBODY: u32 = 65_534;
/// Of its one user, by TCP: what must never be seen.
pub const PASSWORD: &str = "s3cret-of-a-test";

/// A server with a folder of its own; killed, and the folder removed, when this is dropped.
pub struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Child,
}

/// Where the programs of the newest release are: Debian has them in no folder of `PATH`.
fn programs() -> Option<PathBuf> {
    let all = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = all.flatten().map(|entry| entry.path().join("bin"));
    let mut folders: Vec<PathBuf> =
        folders.filter(|folder| folder.join("initdb").exists()).collect();
    folders.sort();
    folders.pop()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A folder of data in which nothing is yet. Making one takes two seconds of a core, so one is kept beside what was built.
/// It stays as it is while the file is there.
fn made(programs: &Path, scratch: &Path) -> (PathBuf, std::fs::File) {
    let built = std::env::current_exe().expect("a test is a program");
    // Root's is nobody's, which nobody else can use.
    let name = if is_root() { "tmp/postgres-root" } else { "tmp/postgres" };
    let cache = built.ancestors().nth(3).unwrap_or(scratch).join(name);
    std::fs::create_dir_all(&cache).expect("a folder");
    // Tests of several programs may come here at once.
    let lock = std::fs::File::create(cache.join("lock")).expect("a lock");
    lock.lock().expect("a lock");
    let about = std::fs::metadata(programs.join("initdb")).expect("it is there");
    let stamp = format!("{} {} {}", programs.display(), about.len(), about.mtime());
    let (data, kept) = (cache.join("data"), cache.join("stamp"));
    if std::fs::read_to_string(&kept).is_ok_and(|kept| kept == stamp) {
        return (data, lock);
    }
    let secret = scratch.join("password");
    std::fs::write(&secret, PASSWORD).expect("a file");
    let first = scratch.join("first");
    let mut make = as_anybody(&programs.join("initdb"), false);
    make.arg("-D").arg(&first).args(["-U", "linerate", "-E", "UTF8", "--locale=C", "--no-sync"]);
    make.args(["--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile"]).arg(&secret);
    let made = make.current_dir(scratch).output().expect("initdb");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let _ = std::fs::remove_file(&kept);
    let _ = std::fs::remove_dir_all(&data);
    copy(&first, &data);
    std::fs::write(&kept, stamp).expect("a file");
    (data, lock)
}

/// With owners and modes: PostgreSQL takes no folder of somebody else's.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).output().expect("cp");
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
}

impl Postgres {
    /// Starts one. Says so, loudly, where there is none.
    pub fn start(test: &str) -> Option<Self> {
        Self::with_files(test, &[], &[])
    }

    /// Starts one with further settings, `name=value`, and files that are copied into its folder of data.
    pub fn with_files(test: &str, settings: &[&str], files: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            crate::skip(test, "PostgreSQL is not installed in /usr/lib/postgresql");
            return None;
        };
        // A path of a socket has 107 bytes at most.
        let name = format!("linerate-postgres-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder");
        // Whoever the server runs as makes files in it.
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&folder, all).expect("it is ours");
        let (data, _kept) = made(&programs, &folder);
        copy(&data, &folder.join("data"));
        let mut more = format!("unix_socket_directories = '{}'\n", folder.display());
        for setting in settings {
            let (name, value) = setting.split_once('=').expect("name=value");
            more.push_str(&format!("{name} = '{value}'\n"));
        }
        // What stands last holds.
        let config = folder.join("data/postgresql.conf");
        let is = std::fs::read_to_string(&config).expect("initdb made it");
        std::fs::write(&config, is + &more).expect("it can be changed");
        for file in files {
            let copy = folder.join("data").join(Path::new(file).file_name().expect("its name"));
            std::fs::copy(file, &copy).expect("it can be read");
            // A key is for nobody but who runs the server.
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).expect("ours");
            if is_root() {
                chown(&copy, Some(NOBODY), Some(NOBODY)).expect("root may");
            }
        }
        let port = free_port();
        let child = spawn(&programs, &folder, port);
        let mut this = Self { programs, folder, port, child };
        this.wait();
        Some(this)
    }

    /// `postgres://USER:PASSWORD@HOST:PORT/NAME`.
    pub fn address(&self) -> String {
        format!("postgres://linerate:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// The same by its socket, where nobody is asked for a password.
    pub fn by_socket(&self) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://linerate@{folder}:{}/postgres", self.port)
    }

    /// What it answers, a row a line, its columns parted by `|`.
    pub fn ask(&self, question: &str) -> String {
        let mut ask = Command::new(self.programs.join("psql"));
        ask.arg(self.by_socket()).args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            question,
        ]);
        let answer = ask.output().expect("psql");
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()
    }

    /// Once it listens again after it was killed its processes of before are gone.
    fn wait(&mut self) {
        let begun = Instant::now();
        while !self.is_ready() {
            if let Ok(Some(_)) = self.child.try_wait() {
                // Those of before still have its memory.
                self.child = spawn(&self.programs, &self.folder, self.port);
            }
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < LONG, "PostgreSQL does not listen\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_ready(&self) -> bool {
        let mut ask = Command::new(self.programs.join("pg_isready"));
        ask.arg("-h").arg(&self.folder).args(["-q", "-p", &self.port.to_string()]);
        ask.status().is_ok_and(|status| status.success())
    }

    /// Kills all its processes (`kill -9`).
    pub fn kill(&mut self) {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let _ = self.child.kill();
        let mut kill = Command::new("kill");
        kill.arg("-9").args(children.split_whitespace()).stderr(Stdio::null());
        let _ = kill.status();
        let _ = self.child.wait();
    }

    /// Starts it again as it was.
    pub fn again(&mut self) {
        self.kill();
        self.child = spawn(&self.programs, &self.folder, self.port);
        self.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A program as somebody who is not root; one that is to end with its test also where that is killed.
fn as_anybody(program: &Path, dies_with_test: bool) -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        let nobody = NOBODY.to_string();
        command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
    }
    if dies_with_test {
        command.args(["--pdeathsig", "KILL"]);
    }
    command.arg(program);
    command
}

fn spawn(programs: &Path, folder: &Path, port: u16) -> Child {
    let log = folder.join("log");
    let log = std::fs::File::options().create(true).append(true).open(log).expect("a log");
    let mut command = as_anybody(&programs.join("postgres"), true);
    command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]).current_dir(folder);
    command.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=on"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("postgres starts")
}
