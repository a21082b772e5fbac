//! What a server gives up at its start, so that a fault in what reads strangers' bytes opens as little
//! as possible: the user it was started as, and with Landlock and seccomp what no test needs.

#[cfg(target_os = "linux")]
mod files;
#[cfg(not(target_os = "linux"))]
#[path = "no_files.rs"]
mod files;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod syscalls;
mod user;

use std::path::PathBuf;

use linerate_model::record::ErrorRecord;
use linerate_model::served::{Restriction, Sandboxed};
use nix::unistd::geteuid;
use tokio::net::UdpSocket;

use self::files::{Outward, set_no_new_privs};
pub use self::user::User;

/// The lists of system calls are of Linux on 64-bit systems.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod syscalls {
    use super::{Beside, Restriction};

    pub(super) enum Threads {
        All,
        #[cfg(test)]
        This,
    }

    pub(super) fn restrict(_threads: Threads, _beside: Beside) -> Restriction {
        Restriction::off("there is no list of the system calls of this system")
    }
}

/// What a server does beside serving tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    #[default]
    Nothing,
    /// It runs tests as the client, to hosts that may have names.
    Tests,
    /// It starts programs as well, of which nothing is known.
    Programs,
}

/// What a server gives up.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    /// Becomes this user once its ports are bound.
    pub user: Option<User>,
    /// Why neither Landlock nor seccomp shall restrict it; `None` where both shall.
    pub unrestricted: Option<String>,
    /// Directories whose files it reads again while it serves.
    pub directories: Vec<PathBuf>,
    /// For what else something must be left.
    pub beside: Beside,
    /// Directories in which it writes, makes and renames files while it serves.
    pub written: Vec<PathBuf>,
}

/// A sandbox half closed: files are out of reach, ports can still be bound.
pub(crate) struct HalfClosed {
    options: Sandbox,
    landlock: Restriction,
}

impl Sandbox {
    /// Restricts what the calling thread, and every thread it starts from now on, reaches of the file
    /// system, and connects to unless its tests connect (`connects`). So it comes before all other threads: those
    /// that run already are not reached.
    pub(crate) fn begin(&self, connects: bool) -> HalfClosed {
        let landlock = match &self.unrestricted {
            Some(why) => Restriction::off(why.clone()),
            None if self.beside == Beside::Programs => {
                // What it starts gets no more rights than it has itself, as under Landlock: no set-user-ID program
                // is a way back to root.
                match set_no_new_privs() {
                    Ok(()) => Restriction::off("programs of controllers need files"),
                    Err(e) => Restriction::off(e.to_string()),
                }
            }
            None => {
                let outward = match (self.beside, connects) {
                    (Beside::Tests, _) => Outward::Tests,
                    (_, true) => Outward::Connections,
                    (_, false) => Outward::Nothing,
                };
                files::restrict(&self.directories, &self.written, outward)
            }
        };
        HalfClosed { options: self.clone(), landlock }
    }
}

impl HalfClosed {
    /// Becomes the other user, to whom the sockets of `udp` are given, beside which streams bind theirs, and
    /// takes the system calls that no test needs from all threads of this process.
    ///
    /// # Errors
    /// When it cannot become that user, or that user could not serve.
    pub(crate) fn close<'a>(
        self,
        udp: impl Iterator<Item = &'a UdpSocket> + Clone,
    ) -> Result<Sandboxed, ErrorRecord> {
        let user = self.options.user;
        if let Some(user) = &user {
            user.become_it(udp)?;
            user.may_write(&self.options.written)?;
        }
        let seccomp = match self.options.unrestricted {
            Some(why) => Restriction::off(why),
            None => syscalls::restrict(syscalls::Threads::All, self.options.beside),
        };
        Ok(Sandboxed {
            uid: geteuid().as_raw(),
            user: user.map(|user| user.name),
            landlock: self.landlock,
            seccomp,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::ErrorKind::{PermissionDenied, Unsupported};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::process::Command;

    use nix::sched::{CloneFlags, sched_getaffinity, sched_setaffinity, unshare};
    use nix::unistd::Pid;
    use socket2::{Domain, Socket, Type};

    use super::*;

    /// Both kinds restrict a thread and what it starts, so that the other tests of this process go on.
    /// `check` is asked there, and learns whether this kernel has Landlock.
    fn restricted(check: impl FnOnce(bool) + Send + 'static) {
        let thread = std::thread::spawn(|| {
            let landlock = files::restrict(
                &[std::env::temp_dir().join("no-such-directory")],
                &[],
                Outward::Nothing,
            );
            assert_eq!(
                syscalls::restrict(syscalls::Threads::This, Beside::Nothing),
                Restriction::on()
            );
            let why = landlock.why.unwrap_or_default();
            assert!(landlock.on || why.starts_with("the kernel "), "{why}");
            check(landlock.on);
        });
        thread.join().expect("the thread is refused things, not killed");
    }

    #[test]
    fn what_no_test_needs_is_refused_and_the_process_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        restricted(move |landlock| {
            assert_eq!(Command::new("/bin/true").spawn().unwrap_err().kind(), Unsupported);
            for (domain, kind) in [
                (Domain::PACKET, Type::RAW),
                (Domain::IPV4, Type::RAW),
                (Domain::UNIX, Type::STREAM),
            ] {
                let refused = Socket::new(domain, kind, None).unwrap_err();
                assert_eq!(refused.kind(), Unsupported, "{domain:?} {kind:?}");
            }
            assert_eq!(unshare(CloneFlags::CLONE_FS), Err(nix::Error::ENOSYS));
            if landlock {
                let read = File::open("/etc/passwd").map(drop);
                let written = File::create(std::env::temp_dir().join("linerate-sandbox")).map(drop);
                let connected = TcpStream::connect(to).map(drop);
                let refused = [read, written, connected].map(|r| r.map_err(|e| e.kind()));
                assert_eq!(refused, [Err(PermissionDenied); 3]);
            } else {
                linerate_testkit::skip("what no test needs", "this kernel has no Landlock");
            }
        });
        File::open("/etc/passwd").unwrap();
        TcpStream::connect(to).unwrap();
    }

    #[test]
    fn what_a_test_needs_is_left() {
        restricted(|_| {
            assert!(!std::fs::read("/proc/stat").unwrap().is_empty());
            assert!(std::fs::read_dir("/sys/class/net").unwrap().next().is_some());
            let cores = sched_getaffinity(Pid::from_raw(0)).unwrap();
            sched_setaffinity(Pid::from_raw(0), &cores).unwrap();
            let (one, other) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
            let (one, other) = (one.unwrap(), other.unwrap());
            one.connect(other.local_addr().unwrap()).unwrap();
            one.send(b"x").unwrap();
            assert_eq!(other.recv(&mut [0; 2]).unwrap(), 1);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let inner = std::thread::Builder::new().name("inner".into());
            inner.spawn(|| std::thread::sleep(std::time::Duration::from_millis(1))).unwrap();
            assert!(nix::net::if_::if_nametoindex("lo").is_ok());
        });
    }
}
