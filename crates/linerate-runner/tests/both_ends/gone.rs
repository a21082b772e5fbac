//! Ends that vanish: what was measured is kept, the other end says why, and what they held is free.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_model::record::{DoubtKind, Status};
use linerate_model::served::Outcome;
use linerate_runner::server::{Event, Options};
use linerate_testkit::peer::{iperf3, native};
use linerate_wire::iperf3::State;
use serde_json::{Value, json};

use crate::support::{Fate, Running, Served, Who, between, endless, error, listener, request};

/// A server with one place, which must be free again for each that comes.
fn of_one() -> Served {
    Served::start(Options { max_tests: 1, ..Options::default() })
}

const LONG: u64 = 600_000_000_000;

fn asked(change: Value) -> Value {
    let mut plan = native::plan(&json!({ "end": { "time": LONG } }));
    native::merge(&mut plan, &change);
    plan
}

fn tcp() -> Value {
    json!({ "traffic": { "tcp": { "block": 1000, "nodelay": false, "discard": false,
        "zerocopy": false } } })
}

/// How a client goes.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    Closes,
    Resets,
    FallsSilent,
}

const WAYS: [Leaves; 3] = [Leaves::Closes, Leaves::Resets, Leaves::FallsSilent];

/// It goes, and the server finds out by itself.
fn leaves(server: &Served, peer: native::Peer, how: Leaves) {
    let silent = match how {
        Leaves::Closes => {
            drop(peer);
            None
        }
        Leaves::Resets => {
            peer.reset();
            None
        }
        Leaves::FallsSilent => Some(peer),
    };
    let (_, result) = server.ended(1);
    assert_eq!(result.outcome, Outcome::Vanished, "{how:?}: {result:?}");
    let why = result.why.expect("a reason");
    assert!(why.contains("silent") || silent.is_none(), "{how:?}: {why}");
    server.honest();
}

#[test]
fn a_client_that_vanishes_in_its_test_frees_its_place() {
    std::thread::scope(|scope| {
        for how in WAYS {
            for change in [json!({}), json!({ "direction": "reverse" })] {
                scope.spawn(move || {
                    let server = of_one();
                    let (peer, granted, socket) =
                        native::Peer::started(server.at, asked(change.clone()));
                    native::send(&socket, &granted, 0);
                    leaves(&server, peer, how);
                });
            }
            scope.spawn(move || {
                let server = of_one();
                let (mut peer, granted) = native::Peer::granted(server.at, asked(tcp()));
                let _stream = native::Peer::stream(server.at, &granted, 0);
                assert_eq!(peer.hear(), Some(json!("ready")));
                peer.say(&json!("start"));
                assert_eq!(peer.hear(), Some(json!("started")));
                leaves(&server, peer, how);
            });
        }
    });
}

#[test]
fn a_client_that_vanishes_before_its_test_frees_its_place() {
    let server = of_one();
    let ends = || {
        let events = server.events();
        events.iter().filter(|event| matches!(event, Event::TestEnded(..))).count()
    };
    for reset in [true, false] {
        let go = |peer: native::Peer| if reset { peer.reset() } else { drop(peer) };
        go(native::Peer::connect(server.at));
        go(native::Peer::greeted(server.at));
        let before = ends();
        go(native::Peer::granted(server.at, asked(json!({}))).0);
        server.ended(before + 1);
        let (peer, ..) = native::Peer::ready(server.at, asked(json!({})));
        go(peer);
        let (_, result) = server.ended(before + 2);
        assert_ne!(result.outcome, Outcome::Done, "{result:?}");
        assert_eq!((result.received, result.sent), (None, None));
        server.honest();
        server.ended(before + 3);
    }
}

#[test]
fn who_leaves_with_the_results_and_no_goodbye_was_not_done() {
    let server = Served::start(Options::default());
    for (n, bye) in [(1, true), (2, false)] {
        let (mut peer, _, _socket) = native::Peer::started(server.at, native::plan(&json!({})));
        let sent = json!({ "stream": 0, "datagrams": 0, "bytes": 0, "span_ns": 1_000_000_000u64 });
        peer.say(&json!({ "sent": [sent] }));
        while peer.hear().expect("results")["results"].is_null() {}
        if bye {
            peer.say(&json!("bye"));
        }
        drop(peer);
        let outcome = if bye { Outcome::Done } else { Outcome::Vanished };
        assert_eq!(server.ended(n).1.outcome, outcome);
    }
}

#[test]
fn a_goodbye_frees_what_is_held_though_the_socket_stays() {
    let server = of_one();
    let mut kept = vec![];
    for n in 1..=20 {
        let (mut peer, _) = native::Peer::granted(server.at, asked(json!({})));
        peer.say(&json!("bye"));
        server.ended(n);
        kept.push(peer);
    }
    let (mut peer, _, _socket) =
        native::Peer::started(server.at, asked(json!({ "direction": "reverse" })));
    peer.say(&json!("bye"));
    server.ended(21);
    server.honest();
    drop((kept, peer));
}

fn iperf3(at: SocketAddr) -> (iperf3::Peer, std::net::UdpSocket) {
    iperf3::Peer::running(at, r#"{"udp":true,"len":500,"time":600,"bandwidth":400000}"#)
}

#[test]
fn a_client_of_iperf3_that_vanishes_frees_its_place() {
    let server = of_one();
    let (peer, _socket) = iperf3(server.at);
    peer.reset();
    let (_, result) = server.ended(1);
    assert!([Outcome::Vanished, Outcome::Failed].contains(&result.outcome), "{result:?}");
    let (mut peer, _socket) = iperf3(server.at);
    peer.say(State::ClientTerminate);
    let (_, result) = server.ended(2);
    assert_eq!(result.outcome, Outcome::Stopped, "{result:?}");
    drop(iperf3::Peer::begin(server.at));
    drop(iperf3::Peer::granted(server.at, r#"{"tcp":true,"len":1000,"time":600}"#));
    server.ended(3);
    server.honest();
}

/// TCP passes through whoever stands between, UDP only the control connection of a refused stream: so these
/// are of TCP.
#[test]
fn a_server_that_vanishes_leaves_what_was_measured() {
    std::thread::scope(|scope| {
        let tcp = endless()
            .into_iter()
            .filter(|(name, _)| ["tcp", "tcp, reverse", "tcp, both", "rr"].contains(name));
        for (name, plan) in tcp {
            scope.spawn(move || {
                let server = Served::start(Options::default());
                let (listening, at) = listener();
                let measured = Arc::new(AtomicBool::new(false));
                let over = Arc::clone(&measured);
                between(listening, server.at, move |_: Who, _, body: &[u8]| {
                    match over.load(Ordering::Relaxed) {
                        true => Fate::Cut,
                        false => Fate::Frames(vec![body.to_vec()]),
                    }
                });
                let client = Running::start(request(at, plan));
                client.measures(3);
                measured.store(true, Ordering::Relaxed);
                let record = client.ends();
                let lost = error(&record, "server_lost", 1);
                assert!(lost.what.contains("lost the server"), "{name}: {lost:?}");
                assert_eq!(record.status, Status::Partial, "{name}");
                let missing = DoubtKind::PeerValuesMissing;
                assert!(record.doubts.iter().any(|d| d.kind == missing), "{:?}", record.doubts);
                let (_, result) = server.ended(1);
                assert_eq!(result.outcome, Outcome::Vanished, "{name}: {result:?}");
            });
        }
    });
}
