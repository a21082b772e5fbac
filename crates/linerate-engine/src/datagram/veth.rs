//! Two network namespaces joined by a veth pair, which end with the process.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use socket2::Socket;

use crate::sys;

/// Name of the interface at both ends.
pub(super) const INTERFACE: &str = "veth-engine";
/// The ends' last byte of address, and of hardware address.
const ENDS: [u8; 2] = [1, 2];

/// See the module.
pub(super) struct Veth {
    namespaces: [File; 2],
}

/// The one of this process; `None`, and why on the screen, where there can be none.
pub(super) fn veth() -> Option<&'static Veth> {
    static VETH: OnceLock<Option<Veth>> = OnceLock::new();
    let made = VETH.get_or_init(|| {
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        Some(Veth::new().expect("a veth pair"))
    });
    if made.is_none() {
        skip("network namespaces need root");
    }
    made.as_ref()
}

/// The test runner captures what macros print, and not this.
fn skip(why: &str) {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(io::stderr(), "\n*** SKIP {test}: {why}");
}

/// What `f` returns in a thread of its own, which may leave this process's namespace.
fn apart<T: Send>(f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| scope.spawn(f).join().expect("no panic"))
}

fn address(end: u8, is_v6: bool) -> IpAddr {
    if is_v6 { [0xfd77, 0, 0, 0, 0, 0, 0, end.into()].into() } else { [10, 77, 0, end].into() }
}

fn hardware(end: u8) -> String {
    format!("02:00:00:00:77:0{end}")
}

fn ip(line: &str) -> io::Result<String> {
    let out = Command::new("ip").args(line.split(' ')).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() {
        return Ok(text(&out.stdout));
    }
    Err(io::Error::other(format!("ip {line}: {}", text(&out.stderr))))
}

/// Until one arrives of what is sent from here to there. An interface is up before it carries anything: the kernel learns in
/// a work of its own that its peer is up, and until then drops what is sent without an error (net/core/link_watch.c,
/// `noop_qdisc`).
fn carries(from: &UdpSocket, to: &UdpSocket) -> io::Result<()> {
    let there = to.local_addr()?;
    to.set_read_timeout(Some(Duration::from_millis(5)))?;
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        from.send_to(&[0], there)?;
        match to.recv(&mut [0]) {
            Ok(_) => return Ok(()),
            Err(e) if Instant::now() > until => return Err(e),
            Err(_) => {}
        }
    }
}

impl Veth {
    fn new() -> io::Result<Self> {
        let namespace = || {
            apart(|| {
                unshare(CloneFlags::CLONE_NEWNET)?;
                File::open("/proc/thread-self/ns/net")
            })
        };
        let veth = Self { namespaces: [namespace()?, namespace()?] };
        let far = format!("/proc/{}/fd/{}", std::process::id(), veth.namespaces[1].as_raw_fd());
        let (a, b) = (hardware(ENDS[0]), hardware(ENDS[1]));
        veth.inside(0, || {
            ip(&format!(
                "link add {INTERFACE} address {a} type veth peer name {INTERFACE} address {b} netns {far}"
            ))
        })?;
        for (place, (near, far)) in [(ENDS[0], ENDS[1]), (ENDS[1], ENDS[0])].into_iter().enumerate()
        {
            veth.inside(place, || {
                ip(&format!("link set {INTERFACE} up"))?;
                for (is_v6, rest) in [(false, "/24"), (true, "/64 nodad")] {
                    ip(&format!("address add {}{rest} dev {INTERFACE}", address(near, is_v6)))?;
                    let (there, hardware) = (address(far, is_v6), hardware(far));
                    ip(&format!("neighbour add {there} lladdr {hardware} dev {INTERFACE}"))?;
                }
                Ok(())
            })?;
        }
        for is_v6 in [false, true] {
            let [a, b] = veth.sockets(is_v6)?.map(UdpSocket::from);
            carries(&a, &b)?;
            carries(&b, &a)?;
        }
        Ok(veth)
    }

    /// What `f` returns in one of the two namespaces.
    pub(super) fn inside<T: Send>(
        &self,
        place: usize,
        f: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let namespace = &self.namespaces[place];
        apart(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            f()
        })
    }

    /// Two sockets that are bound, one in each.
    pub(super) fn sockets(&self, is_v6: bool) -> io::Result<[Socket; 2]> {
        let socket = |place: usize| {
            let local = SocketAddr::new(address(ENDS[place], is_v6), 0);
            self.inside(place, || sys::udp_socket(local))
        };
        Ok([socket(0)?, socket(1)?])
    }
}
