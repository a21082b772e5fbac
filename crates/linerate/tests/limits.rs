//! What a server's owner allows holds for clients that keep to nothing, in every kind of test, and what
//! a client held is free again when its test is over.

#[path = "support/iperf3.rs"]
mod iperf3;
#[path = "support/native.rs"]
mod native;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use native::{DEADLINES, Peer, plan};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
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
                if let Ok(bytes) = (&stream).read(&mut [0; 65_536]) {
                    answered.fetch_add(bytes as u64, Ordering::Relaxed);
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
    let bytes = answered.load(Ordering::Relaxed);
    // A tenth more than the limit, half a second of it at once, and some for what is under way.
    let most = 1_100_000 * (took.as_millis() as u64 + 1_000) / 1_000;
    println!("{bytes} bytes in {took:?}, at most {most}");
    assert!((100_000..=most).contains(&bytes), "{bytes} bytes in {took:?}, at most {most}");
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

/// The server holds no more descriptors and threads than before.
fn back_to(server: &Server, before: support::Holds, what: &str) {
    let back = || {
        let now = server.holds();
        now.descriptors <= before.descriptors && now.threads <= before.threads
    };
    let since = Instant::now();
    assert!(wait_for(BACK, back), "{what}: before {before:?}, now {:?}", server.holds());
    println!("{what}: back after {:?}", since.elapsed());
}

/// Less than any deadline that would free a place by itself, and enough for a busy machine.
const BACK: Duration = Duration::from_secs(4);

#[test]
fn what_a_client_held_is_free_though_it_keeps_its_socket() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let at = address(&server);
    let before = server.at_rest(None, "127.0.0.1");
    // Granted, and given back at once; of each kind, with and without its stream.
    let mut kept = Vec::new();
    for _ in 0..200 {
        let (mut peer, _) = Peer::granted(at, plan(&json!({})));
        peer.say(&json!("bye"));
        kept.push(peer);
    }
    back_to(&server, before, "a goodbye before the streams");
    let (mut peer, _, socket) = Peer::ready(at, plan(&json!({})));
    peer.say(&json!("bye"));
    back_to(&server, before, "a goodbye before the start");
    kept.push(peer);
    let reverse = plan(&json!({ "direction": "reverse", "end": { "time": 60_000_000_000u64 } }));
    let (mut peer, _, reverse_socket) = Peer::started(at, reverse);
    peer.say(&json!("bye"));
    back_to(&server, before, "a goodbye within the test");
    kept.push(peer);
    let mut peer = Peer::greeted(at);
    peer.say(&json!({ "request": { "plan": plan(&json!({ "streams": 0 })) } }));
    assert!(peer.hear().unwrap()["refused"].is_object());
    back_to(&server, before, "a refusal");
    kept.push(peer);
    drop((kept, socket, reverse_socket));
}

/// Whoever asks and reads no answer holds no thread after the test.
#[test]
fn a_thread_that_answers_ends_with_its_test() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let at = address(&server);
    let before = server.at_rest(None, "127.0.0.1");
    let change = json!({ "traffic": { "rr": { "transport": "tcp", "request": 1,
        "response": 65_536, "outstanding": 1, "rate": null } }, "end": { "time": 60_000_000_000u64 } });
    let (mut peer, granted) = Peer::granted(at, plan(&change));
    let stream = Peer::stream(at, &granted, 0);
    assert_eq!(peer.hear(), Some(json!("ready")));
    peer.say(&json!("start"));
    assert_eq!(peer.hear(), Some(json!("started")));
    (&stream).write_all(&[0; 65_536]).unwrap();
    // It answers until nothing goes any more.
    std::thread::sleep(Duration::from_millis(200));
    peer.say(&json!("bye"));
    back_to(&server, before, "answers that nobody reads");
    drop(stream);
}

#[test]
fn a_server_out_of_descriptors_says_so_and_serves_again() {
    let _alone = alone();
    let mut server = Server::start(None, &[]);
    let at = address(&server);
    let most = (server.at_rest(None, "127.0.0.1").descriptors + 16).to_string();
    let (pid, limit) = (server.pid().to_string(), format!("--nofile={most}:{most}"));
    let set = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    if !set.is_ok_and(|status| status.success()) {
        support::skip("a_server_out_of_descriptors_says_so_and_serves_again", "no prlimit");
        return;
    }
    let kept: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(at).unwrap()).collect();
    let told = || server.log().matches("cannot_accept").count();
    assert!(wait_for(DEADLINES, || told() > 0), "{}", server.log());
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
        let times = stat.rsplit(')').next().unwrap().split_whitespace().skip(11);
        times.take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    };
    // Full for a second: a loop without a pause would take all of a core, which is 100 ticks.
    let before = ticks();
    std::thread::sleep(Duration::from_secs(1));
    let busy = ticks() - before;
    assert!(busy < 50, "{busy} ticks");
    assert_eq!(told(), 1, "{}", server.log());
    drop(kept);
    assert!(server.alive());
    let port = server.port.to_string();
    let args = ["udp", "127.0.0.1", "-p", &port, "-k", "20", "-b", "2M", "--json"];
    linerate(None, &args).complete();
}

/// The longest time in the tests below is 1 s. By now each test is cut, and waits for a goodbye only.
const CUT_BY_NOW: Duration = Duration::from_secs(4);

/// Sends, says that it lives and never that it is done, until the server has cut the test.
fn never_ends(server: &Server, mut peer: Peer, mut send: impl FnMut()) {
    let begun = Instant::now();
    let mut beat = begun;
    while !server.log().contains("\"ended\"") {
        send();
        std::thread::sleep(Duration::from_millis(1));
        if beat.elapsed() > Duration::from_millis(500) {
            beat = Instant::now();
            peer.say(&json!("alive"));
        }
        if begun.elapsed() > CUT_BY_NOW {
            peer.say(&json!("bye"));
        }
        assert!(begun.elapsed() < 2 * DEADLINES, "it never ends");
    }
    let ended = ended(server);
    assert_eq!(ended["outcome"], "cut", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("longest"), "{ended}");
    assert!(ended["seconds"].as_f64().unwrap() < 2.5, "{ended}");
}

#[test]
#[ignore = "long"]
fn no_data_is_taken_after_the_longest_time() {
    let _alone = alone();
    let server = || Server::start(None, &["--max-duration", "1s"]);
    for end in [json!({ "time": 1_000_000_000u64 }), json!({ "datagrams": 1_000_000_000u64 })] {
        let server = server();
        let (peer, granted, socket) = Peer::started(address(&server), plan(&json!({ "end": end })));
        let mut number = 0;
        never_ends(&server, peer, || {
            native::send(&socket, &granted, number);
            number += 1;
        });
    }
    let tcp = json!({ "tcp": { "block": 1000, "nodelay": false, "discard": false,
        "zerocopy": false } });
    let rr = json!({ "rr": { "transport": "tcp", "request": 100, "response": 1,
        "outstanding": 1, "rate": null } });
    for traffic in [tcp, rr] {
        let server = server();
        let at = address(&server);
        let (mut peer, granted) = Peer::granted(at, plan(&json!({ "traffic": traffic })));
        let mut stream = Peer::stream(at, &granted, 0);
        assert_eq!(peer.hear(), Some(json!("ready")));
        peer.say(&json!("start"));
        assert_eq!(peer.hear(), Some(json!("started")));
        never_ends(&server, peer, || drop(stream.write(&[0; 1_000])));
    }
}

#[test]
fn no_data_of_iperf3_is_taken_after_the_longest_time() {
    let _alone = alone();
    let server = Server::start(None, &["--max-duration", "1s"]);
    let asked = r#"{"udp":true,"len":500,"time":0,"bandwidth":4000000}"#;
    let (_peer, socket) = iperf3::Peer::running(address(&server), asked);
    let begun = Instant::now();
    while !server.log().contains("\"ended\"") {
        let _ = socket.send(&[0; 500]);
        std::thread::sleep(Duration::from_millis(1));
        assert!(begun.elapsed() < DEADLINES, "it never ends");
    }
    let ended = ended(&server);
    assert_eq!(ended["outcome"], "cut", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("longest"), "{ended}");
    assert!(ended["seconds"].as_f64().unwrap() < 2.5, "{ended}");
}

#[test]
fn a_window_is_bounded_and_counts_as_memory() {
    let _alone = alone();
    let server = Server::start(None, &["--max-window", "1Mi"]);
    let at = address(&server);
    // The kernel's own limits are the owner's word, too.
    let limit = |name: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
        text.trim().parse().unwrap()
    };
    let most = |limit: u64| limit.max(1 << 20);
    let window = 512u64 << 20;
    let tcp = json!({ "tcp": { "block": 1000, "nodelay": false, "discard": false,
        "zerocopy": false } });
    for (traffic, is_udp) in [(json!({}), true), (tcp, false)] {
        let change = json!({ "traffic": traffic, "window": window,
            "end": { "time": 300_000_000u64 } });
        let (mut peer, _held) = if is_udp {
            let (peer, _, socket) = Peer::started(at, plan(&change));
            (peer, (Some(socket), None))
        } else {
            let (mut peer, granted) = Peer::granted(at, plan(&change));
            let stream = Peer::stream(at, &granted, 0);
            assert_eq!(peer.hear(), Some(json!("ready")));
            peer.say(&json!("start"));
            assert_eq!(peer.hear(), Some(json!("started")));
            (peer, (None, Some(stream)))
        };
        peer.say(&json!("stop"));
        peer.say(&json!({ "sent": [{ "stream": 0, "datagrams": 0, "bytes": 0, "span_ns": 1 }] }));
        drop(_held.1);
        let granted = loop {
            let message = peer.hear().expect("results");
            if message["stream"].is_object() {
                break number(&message, "stream.report.recv.receive_buffer");
            }
        };
        let rmem = most(limit("rmem_max"));
        assert!(granted <= 2 * rmem, "{granted}, the limit is {rmem}");
        peer.say(&json!("bye"));
    }
    let each = 2 * (most(limit("rmem_max")) + most(limit("wmem_max")));
    let little = (each / 2).to_string();
    let server = Server::start(None, &["--max-window", "1Mi", "--max-memory", &little]);
    let mut peer = Peer::greeted(address(&server));
    peer.say(&json!({ "request": { "plan": plan(&json!({ "window": window })) } }));
    let answer = peer.hear().expect("an answer");
    assert_eq!(answer["refused"]["kind"], "policy", "{answer}");
}

/// Whether this thread may bind a UDP socket beside the server, as it is now.
fn binds(at: SocketAddr, address: bool, port: bool) -> std::io::Result<()> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None)?;
    socket.set_reuse_address(address)?;
    socket.set_reuse_port(port)?;
    socket.bind(&at.into())
}

/// Datagrams belong to who runs the server: no other user gets a share of its port.
#[test]
fn no_other_user_binds_the_port_beside_the_server() {
    const TEST: &str = "no_other_user_binds_the_port_beside_the_server";
    const NOBODY: u32 = 65_534;
    let _alone = alone();
    for bind in [&[][..], &["-B", "127.0.0.1"]] {
        let server = Server::start(None, bind);
        let at = address(&server);
        let idle = Peer::greeted(at);
        let far = plan(&json!({ "end": { "time": 60_000_000_000u64 } }));
        for busy in [None, Some(Peer::started(at, far))] {
            // The user of a thread's new files and sockets is the thread's own.
            let made = std::thread::spawn(move || {
                nix::unistd::setfsuid(NOBODY.into());
                if nix::unistd::setfsuid(NOBODY.into()).as_raw() != NOBODY {
                    return None;
                }
                let mut made = Vec::new();
                for ip in ["127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"] {
                    let at = SocketAddr::new(ip.parse().unwrap(), at.port());
                    for (address, port) in [(true, false), (false, true), (true, true)] {
                        made.push((ip, address, port, binds(at, address, port)));
                    }
                }
                Some(made)
            });
            let Some(made) = made.join().unwrap() else {
                support::skip(TEST, "this user cannot act as another");
                return;
            };
            for (ip, address, port, bound) in made {
                let error = bound.expect_err(&format!("{ip} {address} {port}, {bind:?}"));
                assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{ip}: {error}");
            }
            drop(busy);
        }
        drop(idle);
        // Many streams at once still share it.
        let port = server.port.to_string();
        let args = ["udp", "127.0.0.1", "-p", &port, "-P", "8", "-k", "400", "-b", "2M", "--json"];
        let record = linerate(None, &args).complete();
        assert_eq!(number(&record, "totals.receiver.lost"), 0);
    }
}

/// Each message of the results may take its time, but not all of them together.
#[test]
#[ignore = "long"]
fn who_takes_the_results_slowly_does_not_keep_its_place() {
    const STREAMS: u16 = 128;
    const BYTES_PER_MS: usize = 1_000;
    let server = Server::start(None, &[]);
    let at = address(&server);
    let change = json!({ "streams": STREAMS, "interval": 10_000_000,
        "end": { "time": 8_000_000_000u64 } });
    let (mut peer, granted) = Peer::granted(at, plan(&change));
    // The kernel holds no more of the results for it than this.
    socket2::SockRef::from(&peer.control).set_recv_buffer_size(256 << 10).unwrap();
    let sockets: Vec<_> = (0..STREAMS).map(|stream| granted.udp_stream(at, stream)).collect();
    assert_eq!(peer.hear(), Some(json!("ready")));
    peer.say(&json!("start"));
    peer.control.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let begun = Instant::now();
    for number in 0..8 {
        for (stream, socket) in (0..).zip(&sockets) {
            native::send_of(socket, &granted, stream, number);
        }
        peer.say(&json!("alive"));
        // The rows of the live view are taken in time.
        while begun.elapsed() < Duration::from_secs(number + 1) {
            let _ = peer.control.read(&mut [0; 65_536]);
        }
    }
    let sent = |stream| json!({ "stream": stream, "datagrams": 8, "bytes": 8_000, "span_ns": 1 });
    peer.say(&json!({ "sent": (0..STREAMS).map(sent).collect::<Vec<_>>() }));
    let (mut taken, begun) = (0, Instant::now());
    while !server.log().contains("\"ended\"") {
        assert!(begun.elapsed() < 3 * DEADLINES, "it waits for ever");
        // Fast enough for each message, as the kernel tells the server of room by the megabyte only.
        while taken < begun.elapsed().as_millis() as usize * BYTES_PER_MS {
            match peer.control.read(&mut [0; 4_096]) {
                Ok(bytes) if bytes > 0 => taken += bytes,
                _ => break,
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{taken} bytes in {:?}", begun.elapsed());
    let ended = ended(&server);
    assert_eq!(ended["outcome"], "vanished", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("all results"), "{ended}");
}
