//! A catalogue of attacks on a server, and honest tests beside them.

use linerate_testkit::peer::LONG;
use std::io::Read;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{Server, linerate, long, skip, wait_for};

/// What it is called, and what it does to the server at an address.
pub type Attack = (&'static str, Box<dyn Fn(SocketAddr) + Send + Sync>);

pub fn attack(name: &'static str, what: impl Fn(SocketAddr) + Send + Sync + 'static) -> Attack {
    (name, Box::new(what))
}

/// All may come at once, from one address.
pub const MANY: &[&str] = &["--max-tests", "1024", "--max-tests-per-address", "1024"];

/// All attacks at once and then an `honest` test; where time allows, one after the other instead, with an
/// honest one after each. What the server held it must let go of.
pub fn survives(server: &mut Server, attacks: &[Attack], honest: impl Fn(&mut Server, &str)) {
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    honest(server, "the start");
    let before = server.holds();
    println!("{} attacks", attacks.len());
    if long() {
        for (name, attack) in attacks {
            println!("{name}");
            let attacked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attack(at)));
            assert!(attacked.is_ok(), "{name}; the server says: {}", server.log());
            honest(server, name);
        }
    } else {
        let failed: Vec<&str> = std::thread::scope(|scope| {
            let threads: Vec<_> = attacks
                .iter()
                .map(|(name, attack)| (*name, scope.spawn(move || attack(at))))
                .collect();
            threads.into_iter().filter_map(|(name, t)| t.join().is_err().then_some(name)).collect()
        });
        assert!(failed.is_empty(), "{failed:?}; the server says: {}", server.log());
        honest(server, "all attacks at once");
    }
    let settled = wait_for(LONG, || {
        let now = server.holds();
        now.descriptors <= before.descriptors && now.threads <= before.threads
    });
    let after = server.holds();
    println!("before {before:?}, after {after:?}");
    assert!(settled, "before {before:?}, after {after:?}");
    // At once, they take what so many tests take.
    assert!(!long() || after.rss_kib < before.rss_kib + 8 * 1_024, "{before:?}, {after:?}");
}

/// Whether this process and a server may have so many descriptors each.
pub fn descriptors(test: &str, wanted: u64) -> bool {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    if hard < wanted {
        skip(test, &format!("of {wanted} descriptors {hard} are allowed"));
    }
    hard >= wanted
}

/// A thousand connections that say nothing, and an honest test beside them; then each of them is hung up on.
pub fn outlasts_a_thousand_silent_connections(at: SocketAddr, dialect: &str) {
    if !descriptors(&format!("a_thousand_silent_connections_keep_nobody_out ({dialect})"), 2_500) {
        return;
    }
    let silent: Vec<TcpStream> =
        (0..1_000).map(|_| TcpStream::connect(at).expect("it takes them")).collect();
    let port = at.port().to_string();
    let args = ["tcp", "127.0.0.1", "-p", &port, "--dialect", dialect, "-n", "64Ki", "--json"];
    let ran = linerate(None, &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // With not a byte for who said none.
    for mut stream in silent {
        stream.set_read_timeout(Some(LONG)).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0)));
    }
}

/// Somebody at another address than the client's, as whose address a datagram may carry.
pub struct Stranger {
    socket: UdpSocket,
    sent: usize,
}

impl Stranger {
    pub fn new() -> Self {
        let socket = UdpSocket::bind(("127.0.0.9", 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, sent: 0 }
    }

    pub fn sends(&mut self, to: SocketAddr, datagrams: &[&[u8]]) {
        for datagram in datagrams {
            self.sent += self.socket.send_to(datagram, to).unwrap_or(0);
        }
    }

    /// Nothing came back to that address, not even an empty datagram: less for all that was sent may be more for one of
    /// them. To be asked when the server has read all of that.
    pub fn heard_nothing(&self, what: &str) {
        let mut buffer = vec![0; 1 << 16];
        let heard: Vec<usize> = std::iter::from_fn(|| self.socket.recv(&mut buffer).ok()).collect();
        assert!(self.sent > 0 && heard.is_empty(), "{what}: {heard:?} for {} bytes", self.sent);
    }
}
