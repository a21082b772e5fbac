//! What a server's owner allows holds for clients that keep to nothing, in every kind of test, and what
//! a client held is free again when its test is over.

#[path = "support/native.rs"]
mod native;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use native::{DEADLINES, Peer, plan};
use serde_json::{Value, json};
use support::{Server, alone, linerate, number, wait_for};

fn address(server: &Server) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port))
}

/// The log's word on the first test that ended.
fn ended(server: &Server) -> Value {
    let find = || {
        let log = server.log();
        log.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .find(|l: &Value| l["event"] == "ended")
    };
    assert!(wait_for(DEADLINES, || find().is_some()), "it never ends: {}", server.log());
    find().unwrap()
}

#[test]
fn a_rate_limit_refuses_what_asks_for_more_or_for_no_rate() {
    let _alone = alone();
    let server = Server::start(None, &["--max-rate", "1M"]);
    let port = server.port.to_string();
    for args in [
        &["rr"][..],
        &["rr", "--udp"],
        &["rr", "--rate", "1000", "--response", "1000"],
        &["tcp"],
        &["tcp", "--reverse", "-b", "2M"],
        &["udp", "--both", "-b", "2M"],
    ] {
        let args = [&args[..1], &["127.0.0.1", "-p", &port, "--json"], &args[1..]].concat();
        let ran = linerate(None, &args);
        let record = ran.record();
        assert_eq!(record["error"]["kind"], "policy", "{args:?}: {record}");
    }
    let args = ["rr", "127.0.0.1", "-p", &port, "--rate", "100", "-t", "1", "--json"];
    let record = linerate(None, &args).complete();
    assert!(number(&record, "totals.rr.transactions") > 50, "{record}");
}

/// A client that was granted a little `rr` and asks as fast as it can: the server answers at the limit.
#[test]
fn a_rate_limit_holds_for_answers_to_who_asks_faster() {
    const SECONDS: u64 = 3;
    let _alone = alone();
    let server = Server::start(None, &["--max-rate", "8M"]);
    let at = address(&server);
    let change = json!({ "traffic": { "rr": { "transport": "tcp", "request": 1000,
        "response": 1000, "outstanding": 1, "rate": 100 } }, "end": { "time": 60_000_000_000u64 } });
    let (mut peer, granted) = Peer::granted(at, plan(&change));
    let stream = Peer::stream(at, &granted, 0);
    assert_eq!(peer.hear(), Some(json!("ready")));
    peer.say(&json!("start"));
    assert_eq!(peer.hear(), Some(json!("started")));
    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let took = std::thread::scope(|scope| {
        scope.spawn(|| {
            stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            while !over.load(Ordering::Relaxed) {
                let _ = (&stream).write(&[0; 65_536]);
            }
        });
        scope.spawn(|| {
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            while !over.load(Ordering::Relaxed) {
                if let Ok(octets) = (&stream).read(&mut [0; 65_536]) {
                    answered.fetch_add(octets as u64, Ordering::Relaxed);
                }
            }
        });
        for _ in 0..SECONDS * 2 {
            std::thread::sleep(Duration::from_millis(500));
            peer.say(&json!("alive"));
        }
        let took = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        took
    });
    let octets = answered.load(Ordering::Relaxed);
    // A tenth more than the limit, half a second of it at once, and some for what is under way.
    let most = 1_100_000 * (took.as_millis() as u64 + 1_000) / 1_000;
    println!("{octets} octets in {took:?}, at most {most}");
    assert!((100_000..=most).contains(&octets), "{octets} octets in {took:?}, at most {most}");
}

/// A client that was granted a little and sends much more is cut off.
#[test]
fn a_rate_limit_cuts_off_a_client_that_sends_faster() {
    let _alone = alone();
    let server = Server::start(None, &["--max-rate", "8M"]);
    let at = address(&server);
    let change = json!({ "end": { "time": 60_000_000_000u64 }, "traffic": { "tcp": { "block": 1000,
        "nodelay": false, "discard": false, "zerocopy": false, "rate": 1_000_000u64 } } });
    let (mut peer, granted) = Peer::granted(at, plan(&change));
    let mut stream: TcpStream = Peer::stream(at, &granted, 0);
    stream.set_write_timeout(Some(DEADLINES)).unwrap();
    assert_eq!(peer.hear(), Some(json!("ready")));
    peer.say(&json!("start"));
    assert_eq!(peer.hear(), Some(json!("started")));
    let begun = Instant::now();
    // Until the server hangs up on it.
    while stream.write_all(&[0; 65_536]).is_ok() {
        assert!(begun.elapsed() < DEADLINES, "nobody stops it");
        peer.say(&json!("alive"));
    }
    drop(peer);
    let ended = ended(&server);
    assert_eq!(ended["outcome"], "cut", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("faster"), "{ended}");
}
