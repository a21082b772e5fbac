//! A catalogue of attacks on a server, and honest tests beside them.

use linerate_testkit::peer::LONG;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Server, long, wait_for};

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
