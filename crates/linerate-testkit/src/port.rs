//! Ports for servers that a test starts.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::peer::LONG;

/// A port of this host where nobody listens, kept for this process. It is bound and never listens: a program
/// that another thread starts holds a copy of each descriptor until it runs, and a copy of a listener would
/// keep the port's user out and make the port look served.
///
/// The kernel gives none of these ports to a client (`net.ipv4.ip_local_port_range` begins with 32,768): a server may
/// take its UDP port when its test begins, and some other test's stream could have it by then.
pub fn free_port() -> u16 {
    static KEPT: Mutex<Vec<Socket>> = Mutex::new(Vec::new());
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut kept = KEPT.lock().unwrap();
    for _ in FREE_PORTS {
        let step = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FREE_PORTS.start + u16::try_from(step % FREE_PORTS.len() as u32).expect("few");
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
        let socket = socket.expect("a socket");
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        if socket.bind(&at.into()).is_ok() && UdpSocket::bind(("0.0.0.0", port)).is_ok() {
            // Not before: of two that allow it, and do not listen, both would have it.
            socket.set_reuse_address(true).expect("an option");
            kept.push(socket);
            return port;
        }
    }
    panic!("no free port in {FREE_PORTS:?}");
}

/// Opens a port again that was closed a moment ago: a program that another thread starts holds a copy of what had it until
/// it runs.
///
/// # Panics
/// When it cannot be had.
pub fn opened_anew<T>(open: impl Fn() -> io::Result<T>) -> T {
    let begun = Instant::now();
    loop {
        match open() {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < LONG => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.expect("the same port"),
        }
    }
}

/// Between those of the programs that tests talk to.
const FREE_PORTS: std::ops::Range<u16> = 15_300..19_000;
