//! Clients that were granted little and take more, or keep what they were given: the owner's limits hold for
//! them too.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use linerate_model::served::{Outcome, RefusalKind, ServedResult};
use linerate_model::units::Nanos;
use linerate_runner::server::{Event, Options};
use linerate_testkit::identities::number;
use linerate_testkit::peer::iperf3;
use linerate_testkit::peer::native::{self, Granted, Peer, plan};
use linerate_wire::native::stream::{TcpOpening, UdpHello};
use serde_json::{Value, json};

use crate::support::{HANGS, Served, bits};

const FAR: u64 = 600_000_000_000;

fn tcp(rate: Option<u64>) -> Value {
    json!({ "traffic": { "tcp": { "block": 1000, "nodelay": false, "discard": false,
        "zerocopy": false, "rate": rate } }, "end": { "time": FAR } })
}

/// A test with one TCP stream that has begun.
fn begun(server: &Served, change: &Value) -> (Peer, TcpStream) {
    let (mut peer, granted) = Peer::granted(server.at, plan(change));
    let stream = Peer::stream(server.at, &granted, 0);
    assert_eq!(peer.hear(), Some(json!("ready")));
    peer.say(&json!("start"));
    assert_eq!(peer.hear(), Some(json!("started")));
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    (peer, stream)
}

fn has_ended(server: &Served) -> bool {
    server.events().iter().any(|event| matches!(event, Event::TestEnded(..)))
}

/// Sends, and says that it lives, until the server has ended the test. It hears that it shall end, has the
/// results and says goodbye, and goes on sending.
fn goes_on(server: &Served, peer: Option<Peer>, mut send: impl FnMut()) -> ServedResult {
    std::thread::scope(|scope| {
        if let Some(mut peer) = peer {
            let mut mouth = Peer { control: peer.control.try_clone().unwrap() };
            let (over, hears) = channel::<()>();
            scope.spawn(move || {
                while hears
                    .recv_timeout(Duration::from_millis(500))
                    .is_err_and(|e| e == RecvTimeoutError::Timeout)
                {
                    mouth.say(&json!("alive"));
                }
            });
            scope.spawn(move || {
                while let Some(message) = peer.hear() {
                    if message["stopping"].is_string() {
                        let sent = json!({ "stream": 0, "datagrams": 0, "bytes": 0, "span_ns": 1 });
                        peer.say(&json!({ "sent": [sent] }));
                    }
                    if message["results"].is_object() {
                        peer.say(&json!("bye"));
                    }
                }
                drop(over);
            });
        }
        let begun = Instant::now();
        while !has_ended(server) {
            send();
            std::thread::sleep(Duration::from_millis(1));
            assert!(begun.elapsed() < HANGS, "it never ends: {:#?}", server.events());
        }
    });
    server.ended(1).1
}

fn cut(result: &ServedResult, why: &str) {
    assert_eq!(result.outcome, Outcome::Cut, "{result:?}");
    assert!(result.why.as_deref().is_some_and(|text| text.contains(why)), "{result:?}");
}

#[test]
fn who_sends_faster_than_the_limit_is_cut_off() {
    let server = Served::start(Options { max_rate: bits(8_000_000), ..Options::default() });
    let (peer, mut stream) = begun(&server, &tcp(Some(1_000_000)));
    let result = goes_on(&server, Some(peer), || drop(stream.write(&[0; 65_536])));
    cut(&result, "faster");
    let server = Served::start(Options { max_rate: bits(800_000), ..Options::default() });
    let slow =
        json!({ "end": { "time": FAR }, "traffic": { "udp": { "rate": { "datagrams": 100 } } } });
    let (peer, granted, socket) = Peer::started(server.at, plan(&slow));
    let mut numbers = 0..;
    let result = goes_on(&server, Some(peer), || {
        for number in numbers.by_ref().take(10) {
            native::send(&socket, &granted, number);
        }
    });
    cut(&result, "faster");
}

/// A client that was granted a little `rr` and asks as fast as it can: the server answers at the limit.
#[test]
fn who_asks_faster_than_the_limit_is_answered_at_it() {
    const BEATS: u32 = 4;
    let server = Served::start(Options { max_rate: bits(8_000_000), ..Options::default() });
    let change = json!({ "traffic": { "rr": { "transport": "tcp", "request": 1000,
        "response": 1000, "outstanding": 1, "rate": 100 } }, "end": { "time": FAR } });
    let (mut peer, stream) = begun(&server, &change);
    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = (&stream).write(&[0; 65_536]);
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Ok(bytes) = (&stream).read(&mut [0; 65_536]) {
                    answered.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }
        });
        for _ in 0..BEATS {
            std::thread::sleep(Duration::from_millis(500));
            peer.say(&json!("alive"));
        }
        over.store(true, Ordering::Relaxed);
    });
    // After the last answer was read, however late that was.
    let took = begun.elapsed();
    let bytes = answered.load(Ordering::Relaxed);
    // A tenth more than the limit, half a second of it at once, and some for what is under way.
    let most = 1_100_000 * (took.as_millis() as u64 + 1_000) / 1_000;
    assert!(bytes > 0 && bytes <= most, "{bytes} bytes in {took:?}, at most {most}");
}

#[test]
fn who_sends_before_the_start_is_not_heard() {
    let server = Served::start(Options { max_rate: bits(8_000_000), ..Options::default() });
    let mut two = tcp(Some(1_000_000));
    two["streams"] = json!(2);
    let (_peer, granted) = Peer::granted(server.at, plan(&two));
    let mut stream = Peer::stream(server.at, &granted, 0);
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let result = goes_on(&server, None, || drop(stream.write(&[0; 65_536])));
    assert_eq!(result.outcome, Outcome::Failed, "{result:?}");
    assert!(result.why.as_deref().is_some_and(|why| why.contains("start")), "{result:?}");
}

#[test]
fn who_asks_for_more_at_once_than_was_granted_is_not_answered() {
    let server = Served::start(Options::default());
    let change = json!({ "traffic": { "rr": { "transport": "tcp", "request": 1,
        "response": 1 << 20, "outstanding": 1, "rate": null } }, "end": { "time": FAR } });
    let (mut peer, stream) = begun(&server, &change);
    (&stream).write_all(&[0; 65_536]).unwrap();
    let report = loop {
        let message = peer.hear().expect("results");
        if message["stream"].is_object() {
            break message["stream"]["report"]["respond"].clone();
        }
    };
    assert!(report["error"].as_str().is_some_and(|why| why.contains("at once")), "{report}");
    assert_eq!(report["answered"], 0);
}

/// The longest time of the owner is 1 s.
fn short() -> Served {
    Served::start(Options { max_duration: Nanos::from_secs(1), ..Options::default() })
}

#[test]
fn no_data_is_taken_after_the_longest_time() {
    let rr = json!({ "traffic": { "rr": { "transport": "tcp", "request": 100, "response": 1,
        "outstanding": 1, "rate": null } }, "end": { "time": 1_000_000_000u64 } });
    let mut bytes = tcp(None);
    bytes["end"] = json!({ "time": 1_000_000_000u64 });
    std::thread::scope(|scope| {
        for end in [json!({ "time": 1_000_000_000u64 }), json!({ "datagrams": 1_000_000_000u64 })] {
            scope.spawn(move || {
                let server = short();
                let (peer, granted, socket) =
                    Peer::started(server.at, plan(&json!({ "end": end })));
                let mut numbers = 0..;
                let result = goes_on(&server, Some(peer), || {
                    native::send(&socket, &granted, numbers.next().unwrap_or(0));
                });
                cut(&result, "longest");
            });
        }
        scope.spawn(move || {
            let server = short();
            let (peer, mut stream) = begun(&server, &bytes);
            let result = goes_on(&server, Some(peer), || drop(stream.write(&[0; 1_000])));
            cut(&result, "longest");
        });
        scope.spawn(move || {
            let server = short();
            let (peer, mut stream) = begun(&server, &rr);
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            // No more at once than its plan says.
            let result = goes_on(&server, Some(peer), || {
                let _ = stream.write(&[0; 100]);
                let _ = stream.read(&mut [0]);
            });
            cut(&result, "longest");
        });
        scope.spawn(|| {
            let server = short();
            let asked = r#"{"udp":true,"len":500,"time":0,"bandwidth":4000000}"#;
            let (_peer, socket) = iperf3::Peer::running(server.at, asked);
            let result = goes_on(&server, None, || drop(socket.send(&[0; 500])));
            cut(&result, "longest");
        });
    });
}

fn kernels_limit(name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
    text.trim().parse().unwrap()
}

#[test]
fn a_window_is_bounded_and_counts_as_memory() {
    const MOST: u32 = 1 << 20;
    const WINDOW: u64 = 512 << 20;
    let options = || Options { max_window: MOST, ..Options::default() };
    // The kernel's own limits are the owner's word, too.
    let most = |name: &str| kernels_limit(name).max(MOST.into());
    let server = Served::start(options());
    let mut change = tcp(None);
    change["window"] = WINDOW.into();
    change["end"] = json!({ "time": 300_000_000u64 });
    let (mut peer, stream) = begun(&server, &change);
    peer.say(&json!("stop"));
    peer.say(&json!({ "sent": [{ "stream": 0, "datagrams": 0, "bytes": 0, "span_ns": 1 }] }));
    drop(stream);
    let granted = loop {
        let message = peer.hear().expect("results");
        if message["stream"].is_object() {
            break number(&message, "stream.report.recv.receive_buffer");
        }
    };
    assert!(granted <= 2 * most("rmem_max"), "{granted}");
    peer.say(&json!("bye"));
    let max_memory = most("rmem_max") + most("wmem_max");
    let server = Served::start(Options { max_memory, ..options() });
    let mut peer = Peer::greeted(server.at);
    peer.say(&json!({ "request": { "plan": plan(&json!({ "window": WINDOW })) } }));
    let answer = peer.hear().expect("an answer");
    assert_eq!(answer["refused"]["kind"], "policy", "{answer}");
}

#[test]
fn a_stream_that_belongs_to_no_test_is_nobodys() {
    let server = Served::start(Options::default());
    let (_peer, granted) = Peer::granted(server.at, plan(&tcp(None)));
    let strangers = Granted { token: granted.token ^ 1, cookie: granted.cookie };
    let guessed = Granted { token: granted.token, cookie: [0; 16] };
    for (n, claim) in (1..).zip([strangers.claim(0), guessed.claim(0), granted.claim(1)]) {
        let mut stream = Peer::connect(server.at);
        stream.bytes(&TcpOpening(claim).encode());
        assert_eq!(stream.hung_up(), None, "{claim:?}");
        let (kind, why) = server.refused(n);
        assert_eq!(kind, RefusalKind::Protocol);
        assert_eq!(why, "a data connection that belongs to no test");
    }
    // The right words from another address, and then from the right one: only that is answered.
    let (_peer, granted) = Peer::granted(server.at, plan(&json!({})));
    let elsewhere = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 9), 0)).unwrap();
    elsewhere.send_to(&UdpHello(granted.claim(0)).encode(), server.at).unwrap();
    let _socket = granted.udp_stream(server.at, 0);
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.recv(&mut [0; 100]).is_err(), "the server answered a stranger");
}

#[test]
fn a_reverse_sender_stops_when_nobody_listens() {
    let server = Served::start(Options::default());
    // 1,000 a second for long, asked for by a client that says no more.
    let change = json!({ "direction": "reverse", "end": { "time": FAR } });
    let (peer, _, socket) = Peer::started(server.at, plan(&change));
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20);
    let (_, result) = server.ended(1);
    assert_eq!(result.outcome, Outcome::Vanished, "{result:?}");
    let sent = result.sent.and_then(|sent| sent.datagrams).expect("what it sent");
    socket.set_nonblocking(true).unwrap();
    let mut arrived = 0;
    while socket.recv(&mut [0; 2_000]).is_ok() {
        arrived += 1;
    }
    assert!(arrived > 0 && arrived <= sent, "{arrived} of {sent}");
    drop(peer);
}
