//! Peers that lie, break off, flood or fall silent. After each of them the same server process must
//! still be there and serve an honest test; at the end it holds no more than at the beginning.

use crate::support;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    Attack, Client, Group, Lab, MANY, Server, alone, attack, linerate, long, number, survives,
    wait_for,
};
use linerate_testkit::peer::LONG;
use linerate_testkit::peer::native::{Granted, NONCE, Peer, hello, merge, plan, send};
use linerate_wire::native::PREAMBLE;
use linerate_wire::native::stream::{Claim, TcpOpening, UdpHello, UdpHelloAck};
use serde_json::{Value, json};

/// Bytes in place of a conversation; the server hangs up by itself or when this end does.
fn bytes(name: &'static str, bytes: impl Into<Vec<u8>>) -> Attack {
    let bytes = bytes.into();
    attack(name, move |at| {
        Peer::connect(at).bytes(&bytes);
    })
}

/// A first frame that the server must answer by hanging up.
fn frame(name: &'static str, body: impl Into<Vec<u8>>) -> Attack {
    let body = body.into();
    attack(name, move |at| {
        let mut peer = Peer::begin(at);
        peer.frame(&body);
        let last = peer.hung_up();
        assert!(last.is_none() || last.unwrap()["refused"].is_object());
    })
}

/// A request that must be refused.
fn refused(name: &'static str, change: Value, kinds: &'static [&'static str]) -> Attack {
    attack(name, move |at| {
        let mut peer = Peer::greeted(at);
        peer.say(&json!({ "request": { "plan": plan(&change) } }));
        let answer = peer.hear().expect("an answer");
        let kind = answer["refused"]["kind"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(kinds.contains(&kind), "{answer}");
        assert!(!answer["refused"]["why"].as_str().unwrap().is_empty());
    })
}

fn cases() -> Vec<Attack> {
    let mut cases = vec![
        bytes("nothing", ""),
        bytes("half a preamble", &PREAMBLE[..4]),
        bytes("a wrong preamble", "\u{89}LNRATF\n"),
        bytes("garbage", (0..5_000u32).map(|i| ((i * 7919) >> 3) as u8).collect::<Vec<u8>>()),
        bytes("an HTTP request", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        bytes("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        bytes("an iperf3 cookie", "abcdefghijklmnopqrstuvwxyz234567abcd\0"),
        bytes("zeros", vec![0; 100_000]),
        frame("an empty object", "{}"),
        frame("no JSON", "hello"),
        frame("brackets", "[".repeat(60_000)),
        frame("objects", "{\"a\":".repeat(12_000)),
        frame("brackets in a text", format!("{{\"hello\":\"{}\"}}", "[".repeat(60_000))),
        frame("spaces", " ".repeat(65_536)),
        frame("one long number", "9".repeat(65_536)),
        frame("one long text", format!("\"{}\"", "x".repeat(65_000))),
        frame("no UTF-8", b"{\"hello\":\"\xff\xfe\"}".to_vec()),
        frame(
            "wrong types",
            r#"{"hello":{"version_min":"1","version_max":[],"nonce":1,"program":{}}}"#,
        ),
        frame(
            "keys twice",
            format!(
                r#"{{"hello":{{"version_min":1,"version_min":2,"version_max":1,"nonce":"{NONCE}","program":"x"}}}}"#
            ),
        ),
        frame("two messages in one", r#"{"ping":{"client_ns":1},"stop":null}"#),
        frame("NaN", r#"{"ping":{"client_ns":NaN}}"#),
        frame("too large a number", r#"{"ping":{"client_ns":1e999}}"#),
        frame("a negative number", r#"{"ping":{"client_ns":-1}}"#),
        frame("a number of 65 bits", r#"{"ping":{"client_ns":18446744073709551616}}"#),
        frame("an unknown message", r#"{"fly":{}}"#),
        frame("a ping first", r#"{"ping":{"client_ns":1}}"#),
        frame("a start first", r#""start""#),
        frame("a goodbye first", r#""bye""#),
        frame("a request first", json!({ "request": { "plan": plan(&json!({})) } }).to_string()),
        attack("connections that end at once", |at| {
            for _ in 0..200 {
                drop(TcpStream::connect(at).unwrap());
            }
        }),
        attack("connections that are reset", |at| {
            for _ in 0..200 {
                Peer::connect(at).reset();
            }
        }),
        attack("a frame that never ends", |at| {
            let mut peer = Peer::begin(at);
            peer.bytes(&65_536u32.to_be_bytes());
            peer.bytes(b"{\"hello\":");
            assert_eq!(peer.hung_up(), None);
        }),
        attack("a nonce that is none", |at| {
            for nonce in ["", "00", "zz".repeat(32).as_str(), "é".repeat(32).as_str()] {
                let mut peer = Peer::begin(at);
                let mut message = hello(1, 1);
                message["hello"]["nonce"] = nonce.into();
                peer.say(&message);
                let answer = peer.hear().unwrap();
                assert_eq!(answer["refused"]["kind"], "protocol", "{answer}");
            }
        }),
        attack("two hellos", |at| {
            let mut peer = Peer::greeted(at);
            peer.say(&hello(1, 1));
            assert_eq!(peer.hear().unwrap()["refused"]["kind"], "protocol");
        }),
        attack("reset after the hello", |at| {
            let mut peer = Peer::begin(at);
            peer.say(&hello(1, 1));
            peer.reset();
        }),
        attack("reset after the welcome", |at| Peer::greeted(at).reset()),
        attack("reset after the request", |at| {
            let mut peer = Peer::greeted(at);
            peer.say(&json!({ "request": { "plan": plan(&json!({})) } }));
            peer.reset();
        }),
        attack("reset after the agreement", |at| Peer::granted(at, plan(&json!({}))).0.reset()),
        attack("closed after the agreement", |at| drop(Peer::granted(at, plan(&json!({}))))),
        attack("start without streams", |at| {
            let (mut peer, _) = Peer::granted(at, plan(&json!({})));
            peer.say(&json!("start"));
            assert_eq!(peer.hung_up(), None);
        }),
        attack("agreed, then silence", |at| {
            let (peer, _) = Peer::granted(at, plan(&json!({ "streams": 128 })));
            assert_eq!(peer.hung_up(), None);
        }),
        attack("TCP streams with false claims", |at| {
            let change = json!({ "traffic": { "tcp": { "block": 1000, "nodelay": false,
                "discard": false, "zerocopy": false } } });
            let (_peer, granted) = Peer::granted(at, plan(&change));
            let mut wrong = granted.claim(0);
            wrong.cookie[15] ^= 1;
            let claims = [
                wrong,
                Claim { token: granted.token ^ 1, ..granted.claim(0) },
                granted.claim(1),
                granted.claim(u16::MAX),
            ];
            for claim in claims {
                let mut stream = Peer::connect(at);
                stream.bytes(&TcpOpening(claim).encode());
                assert_eq!(stream.hung_up(), None, "{claim:?}");
            }
        }),
        attack("one TCP stream twice", |at| {
            let change = json!({ "streams": 2, "traffic": { "tcp": { "block": 1000,
                "nodelay": false, "discard": false, "zerocopy": false } } });
            let (_peer, granted) = Peer::granted(at, plan(&change));
            let mut first = Peer::connect(at);
            first.bytes(&TcpOpening(granted.claim(0)).encode());
            let mut answer = [0];
            first.control.read_exact(&mut answer).unwrap();
            let mut second = Peer::connect(at);
            second.bytes(&TcpOpening(granted.claim(0)).encode());
            assert_eq!(second.hung_up(), None);
        }),
        attack("UDP hellos with false claims", |at| {
            let (_peer, granted) = Peer::granted(at, plan(&json!({})));
            let mut wrong = granted.claim(0);
            wrong.cookie[0] ^= 1;
            let good = UdpHello(granted.claim(0)).encode();
            let mut magic = good;
            magic[0] ^= 1;
            let ack = UdpHelloAck { token: granted.token, stream: 0 }.encode();
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let elsewhere = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 9), 0)).unwrap();
            for datagram in [
                &UdpHello(wrong).encode()[..],
                &UdpHello(granted.claim(1)).encode(),
                &UdpHello(granted.claim(u16::MAX)).encode(),
                &UdpHello(Claim { token: 0, ..granted.claim(0) }).encode(),
                &good[..63],
                &[&good[..], &[0]].concat(),
                &magic,
                &ack,
                &[],
            ] {
                socket.send_to(datagram, at).unwrap();
            }
            // The right words from the wrong address.
            elsewhere.send_to(&good, at).unwrap();
            for socket in [&socket, &elsewhere] {
                socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                assert!(socket.recv(&mut [0; 100]).is_err(), "the server answered");
            }
        }),
        attack("pings in place of a start", |at| {
            let (mut peer, _, _socket) = Peer::ready(at, plan(&json!({})));
            let begun = Instant::now();
            while peer.say(&json!({ "ping": { "client_ns": 1 } })) && peer.hear().is_some() {
                assert!(begun.elapsed() < LONG, "the place is held for ever");
                std::thread::sleep(Duration::from_millis(50));
            }
        }),
        attack("start twice", |at| {
            let (mut peer, _, _socket) = Peer::started(at, plan(&json!({})));
            peer.say(&json!("start"));
            peer.hung_up();
        }),
        attack("a request within a test", |at| {
            let (mut peer, _, _socket) = Peer::started(at, plan(&json!({})));
            peer.say(&json!({ "request": { "plan": plan(&json!({})) } }));
            peer.hung_up();
        }),
        attack("absurd counts sent", |at| {
            for datagrams in [u64::MAX, 1 << 62, 1 << 40] {
                let (mut peer, granted, socket) = Peer::started(at, plan(&json!({})));
                send(&socket, &granted, 0);
                let sent = |stream: u64| {
                    json!({ "stream": stream, "datagrams": datagrams, "bytes": u64::MAX,
                        "span_ns": u64::MAX })
                };
                peer.say(&json!({ "sent": [sent(0), sent(0), sent(999)] }));
                let last = hear_results(&mut peer);
                assert!(last.is_some(), "no results after {datagrams}");
                peer.say(&json!("bye"));
            }
        }),
        attack("absurd numbers of datagrams", |at| {
            let (mut peer, granted, socket) = Peer::started(at, plan(&json!({})));
            for number in [0, 1 << 20, 1 << 40, 1 << 63, u64::MAX, u64::MAX - 1, 5, 1 << 62] {
                send(&socket, &granted, number);
            }
            peer.say(
                &json!({ "sent": [{ "stream": 0, "datagrams": 10, "bytes": 1, "span_ns": 1 }] }),
            );
            assert!(hear_results(&mut peer).is_some());
            peer.say(&json!("bye"));
        }),
        attack("broken and foreign datagrams", |at| {
            let (mut peer, granted, socket) = Peer::started(at, plan(&json!({})));
            for length in [0usize, 1, 31, 32, 33, 1_000, 65_507] {
                socket.send(&vec![0xa5; length]).unwrap();
            }
            let foreign = Granted { token: granted.token ^ 2, cookie: granted.cookie };
            send(&socket, &foreign, 0);
            peer.say(
                &json!({ "sent": [{ "stream": 0, "datagrams": 0, "bytes": 0, "span_ns": 1 }] }),
            );
            assert!(hear_results(&mut peer).is_some());
            peer.say(&json!("bye"));
        }),
        attack("a flood of pings, never read", |at| {
            let (mut peer, _, _socket) = Peer::started(at, plan(&json!({})));
            peer.control.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            let ping = br#"{"ping":{"client_ns":18446744073709551615}}"#;
            let mut flood = Vec::new();
            for _ in 0..100 {
                flood.extend((ping.len() as u32).to_be_bytes());
                flood.extend(ping);
            }
            for _ in 0..2_000 {
                if !peer.bytes(&flood) {
                    break;
                }
            }
        }),
        attack("reset in the middle, both ways", |at| {
            let (peer, _, _socket) = Peer::started(at, plan(&json!({ "direction": "reverse" })));
            peer.reset();
            let (peer, _, _socket) = Peer::started(at, plan(&json!({})));
            peer.reset();
        }),
        attack("garbage in the middle", |at| {
            let (mut peer, _, _socket) = Peer::started(at, plan(&json!({})));
            peer.bytes(&[0xff; 64]);
            peer.hung_up();
        }),
        attack("a goodbye in the middle", |at| {
            let (mut peer, _, _socket) =
                Peer::started(at, plan(&json!({ "direction": "reverse" })));
            peer.say(&json!("bye"));
            peer.hung_up();
        }),
        attack("silence in the middle", |at| {
            let (peer, _, _socket) =
                Peer::started(at, plan(&json!({ "end": { "time": 3_600_000_000_000u64 } })));
            peer.hung_up();
        }),
        attack("silence in the middle, and strangers' datagrams from its address", |at| {
            let (peer, _, socket) =
                Peer::started(at, plan(&json!({ "end": { "time": 3_600_000_000_000u64 } })));
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let _ = socket.send(&[0; 100]);
                        std::thread::sleep(Duration::from_millis(20));
                    }
                });
                peer.hung_up();
                over.store(true, Ordering::Relaxed);
            });
        }),
    ];
    for (name, length) in [
        ("length 0", 0u32),
        ("length 65,537", 65_537),
        ("length 2^31", 1 << 31),
        ("length 2^32 - 1", u32::MAX),
    ] {
        cases.push(attack(name, move |at| {
            let mut peer = Peer::begin(at);
            peer.bytes(&length.to_be_bytes());
            peer.bytes(&[b' '; 2_000]);
            assert_eq!(peer.hung_up(), None);
        }));
    }
    for (name, min, max, kind) in [
        ("versions 0 to 0", 0, 0, "version"),
        ("versions 99 to 99", 99, 99, "version"),
        ("versions 2 to 1", 2, 1, "version"),
    ] {
        cases.push(attack(name, move |at| {
            let mut peer = Peer::begin(at);
            peer.say(&hello(min, max));
            let answer = peer.hear().unwrap();
            assert_eq!(answer["refused"]["kind"], kind, "{answer}");
        }));
    }
    const RANGE: &[&str] = &["out_of_range", "protocol"];
    let udp = |change: Value| json!({ "traffic": { "udp": change } });
    let rr = |change: Value| {
        let mut rr = json!({ "transport": "tcp", "request": 1, "response": 1, "outstanding": 1,
            "rate": null });
        merge(&mut rr, &change);
        json!({ "traffic": { "rr": rr } })
    };
    let day = 86_400_000_000_000u64;
    for (name, change) in [
        ("0 streams", json!({ "streams": 0 })),
        ("129 streams", json!({ "streams": 129 })),
        ("65,535 streams", json!({ "streams": 65_535 })),
        ("65,536 streams", json!({ "streams": 65_536 })),
        ("0 bytes", udp(json!({ "size": 0 }))),
        ("31 bytes", udp(json!({ "size": 31 }))),
        ("65,508 bytes", udp(json!({ "size": 65_508 }))),
        ("no time", json!({ "end": { "time": 0 } })),
        ("two days", json!({ "end": { "time": 2 * day } })),
        ("all the time there is", json!({ "end": { "time": u64::MAX } })),
        ("no bytes in all", json!({ "end": { "bytes": 0 } })),
        ("no datagrams in all", json!({ "end": { "datagrams": 0 } })),
        ("2^64 - 1 datagrams", json!({ "end": { "datagrams": u64::MAX } })),
        ("rate 0", udp(json!({ "rate": { "datagrams": 0 } }))),
        ("rate 10^18", udp(json!({ "rate": { "datagrams": 1_000_000_000_000_000_000u64 } }))),
        ("rate 2^64 - 1", udp(json!({ "rate": { "datagrams": u64::MAX } }))),
        ("a rate that is a list", udp(json!({ "rate": [1] }))),
        ("interval 0", json!({ "interval": 0 })),
        ("interval 1 ns", json!({ "interval": 1 })),
        ("a warm-up of a year", json!({ "warmup": 365 * day })),
        ("burst 2^64 - 1", udp(json!({ "burst": u64::MAX }))),
        ("window 0", json!({ "window": 0 })),
        ("window 2^32 - 1", json!({ "window": u32::MAX })),
        ("DSCP 64", json!({ "dscp": 64 })),
        ("core 9,999", json!({ "server_cpus": [9_999] })),
        ("10,000 cores", json!({ "server_cpus": vec![0; 10_000] })),
        ("an engine of one's own", udp(json!({ "engine": "xdp" }))),
        ("requests of 0", rr(json!({ "request": 0 }))),
        ("responses of 2^32 - 1", rr(json!({ "response": u32::MAX }))),
        ("nothing outstanding", rr(json!({ "outstanding": 0 }))),
        ("10^9 outstanding", rr(json!({ "outstanding": 1_000_000_000 }))),
    ] {
        cases.push(refused(name, change, RANGE));
    }
    cases.push(refused("a core that is not there", json!({ "server_cpus": [8_000] }), &["unable"]));
    cases
}

/// Reads until the end of the results.
fn hear_results(peer: &mut Peer) -> Option<Value> {
    loop {
        let message = peer.hear()?;
        if message["results"].is_object() {
            return Some(message);
        }
    }
}

fn honest(server: &mut Server, name: &str) {
    assert!(server.alive(), "{name}: the server is gone");
    let port = server.port.to_string();
    let args = ["udp", "127.0.0.1", "-p", &port, "-k", "20", "-b", "2M", "--json"];
    let ran = linerate(None, &args);
    assert_eq!(ran.code, 0, "after {name}: {}", ran.err);
    ran.complete();
}

#[test]
fn a_catalogue_of_attacks() {
    let _alone = alone();
    let only = std::env::var("LINERATE_CASE").ok();
    let mut cases = cases();
    assert!(cases.len() >= 95, "{}", cases.len());
    cases.retain(|(name, _)| only.as_deref().is_none_or(|only| only == *name));
    assert!(!cases.is_empty(), "there is no {only:?}");
    survives(&mut Server::start(None, MANY), &cases, honest);
}

/// All attacks of the catalogue, of a server that is ended by the kernel where it wants more.
#[test]
#[ignore = "long"]
fn a_catalogue_of_attacks_in_256_mib() {
    const TEST: &str = "a_catalogue_of_attacks_in_256_mib";
    const MOST: u64 = 256 << 20;
    let _alone = alone();
    let Some(group) = Group::of_memory(TEST, MOST) else { return };
    let mut server = Server::start(None, MANY);
    group.hold(server.pid());
    survives(&mut server, &cases(), honest);
    // Not every kernel tells how much it was; what would have been more ended the server.
    if let Some(most) = group.most_memory() {
        println!("FIGURE T25: {} KiB at most, of 262144", most / 1_024);
    }
}

/// A connection from an address of loopback's.
fn connected(from: u8, at: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(([127, 0, 1, from], 0)).into())?;
    socket.connect(&at.into())?;
    Ok(socket.into())
}

/// The most memory that a process ever had, in KiB.
fn most_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a field");
    most.trim_end_matches("kB").trim().parse().expect("a number")
}

/// Five addresses, each with no more than its share of the places to wait.
#[test]
#[ignore = "long"]
fn many_idle_connections_delay_nobody() {
    const TEST: &str = "many_idle_connections_delay_nobody";
    const EACH: usize = 1_900;
    const ALL: usize = 5 * EACH;
    let _alone = alone();
    // Of the server's, half are for connections that wait.
    if !support::descriptors(TEST, 2 * ALL as u64 + 1_000) {
        return;
    }
    let mut server = Server::start(None, &[]);
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    honest(&mut server, "the start");
    let before = server.holds();
    let begun = Instant::now();
    let addresses = (1..=5u8).flat_map(|from| [from; EACH]);
    let idle: Vec<TcpStream> =
        addresses.map(|from| connected(from, at).expect("a connection")).collect();
    let connected = begun.elapsed();
    let held = server.holds();
    honest(&mut server, "many idle connections");
    assert!(wait_for(LONG, || server.holds().descriptors <= before.descriptors));
    let closed = begun.elapsed();
    // However many of them it had taken in when this process came to ask.
    let (most, grown) = (held.descriptors, most_kib(server.pid()).saturating_sub(before.rss_kib));
    println!(
        "FIGURE T6: {ALL} from 5 addresses within {connected:.1?}, {most} descriptors and {grown} KiB more at \
         once, all closed after {closed:.1?}"
    );
    assert!(!server.log().contains("wait to ask for a test already"), "{}", server.log());
    assert!(grown <= 64 * 1_024, "before {before:?}, {grown} KiB more at most");
    drop(idle);
    honest(&mut server, "the idle ones are gone");
}

/// In every dialect a connection has its time to ask for a test, whatever it sends meanwhile.
#[test]
#[ignore = "long"]
fn a_thousand_slow_connections_are_closed() {
    const TEST: &str = "a_thousand_slow_connections_are_closed";
    let _alone = alone();
    if !support::descriptors(TEST, 4_000) {
        return;
    }
    let mut server = Server::start(None, &["--all-dialects"]);
    let doors = [server.port, 5_001, 12_865, 5_000];
    honest(&mut server, "the start");
    let before = server.holds();
    let begun = Instant::now();
    // The first bytes that each dialect's clients say. To iperf 2's servers what begins with no header is data.
    let says = [&PREAMBLE[..], &[0x80, 0, 0, 0], &[0; 8], b"HELO nuttcp"];
    let mut slow: Vec<(TcpStream, &[u8])> = Vec::new();
    for from in 1..=250u8 {
        for (port, says) in doors.into_iter().zip(says) {
            let stream = connected(from, SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
            stream.set_nonblocking(true).unwrap();
            slow.push((stream, says));
        }
    }
    let all = slow.len();
    for second in 0..30 {
        slow.retain_mut(|(stream, says)| {
            let _ = stream.write_all(&[says.get(second).copied().unwrap_or(b'x')]);
            // Nothing is said to who has said nothing whole: what there is to read is the end.
            let read = stream.read(&mut [0; 64]);
            read.is_ok_and(|bytes| bytes > 0)
                || stream.peek(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
        });
        if slow.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    println!("FIGURE T7: {all} of four dialects, all closed after {:.1?}", begun.elapsed());
    assert!(slow.is_empty(), "{} are still open", slow.len());
    honest(&mut server, "a thousand slow connections");
    assert!(wait_for(LONG, || server.holds().descriptors <= before.descriptors));
}

#[test]
fn a_thousand_idle_connections_delay_nobody() {
    let _alone = alone();
    if !support::descriptors("a_thousand_idle_connections_delay_nobody", 2_500) {
        return;
    }
    let mut server = Server::start(None, &[]);
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    honest(&mut server, "the start");
    let before = server.holds();
    let idle: Vec<TcpStream> = (0..1_000).map(|_| TcpStream::connect(at).unwrap()).collect();
    // What it held at first may have been a test's that had just ended.
    assert!(wait_for(LONG, || server.holds().descriptors > 1_000));
    honest(&mut server, "1,000 idle connections");
    // The server hangs up on all of them by itself.
    assert!(wait_for(LONG, || server.holds().descriptors <= before.descriptors));
    drop(idle);
    let after = server.holds();
    println!("before {before:?}, after {after:?}");
    assert!(after.rss_kib < before.rss_kib + 8 * 1_024, "before {before:?}, after {after:?}");
    honest(&mut server, "the idle ones are gone");
}

/// Says on every connection that its client is there, and reads what comes, until the flag is set.
fn keep_alive(controls: &std::sync::Mutex<Vec<TcpStream>>, over: &AtomicBool) {
    let alive = Value::from("alive").to_string();
    let mut frame = (alive.len() as u32).to_be_bytes().to_vec();
    frame.extend(alive.as_bytes());
    let mut rest = vec![0; 65_536];
    while !over.load(Ordering::Relaxed) {
        for mut control in controls.lock().unwrap().iter() {
            let _ = control.write_all(&frame);
            while control.read(&mut rest).is_ok_and(|bytes| bytes == rest.len()) {}
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Files' reads so far of the first thread of a process, which holds its control connections, and of the one
/// that reads counters; nothing where the kernel does not count.
fn reads(pid: u32) -> Option<(u64, u64)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let (mut control, mut counters) = (None, 0);
    for task in tasks.flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        // One that has ended meanwhile has none.
        let Some(io) = read("io") else { continue };
        let count = io.lines().find_map(|l| l.strip_prefix("syscr: ")?.parse().ok())?;
        if task.file_name() == pid.to_string().as_str() {
            control = Some(count);
        } else if read("comm").is_some_and(|name| name.trim() == "host-counters") {
            counters = count;
        }
    }
    Some((control?, counters))
}

/// Sets its flag when dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn idle_tests_of_short_intervals_delay_nobody() {
    let _alone = alone();
    let mut server =
        Server::start(None, &["--max-tests-per-address", "128", "--max-memory", "4Gi"]);
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    let controls = std::sync::Mutex::default();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_alive(&controls, &over));
        // Also when something below fails: the scope waits for its thread.
        let _over = Over(&over);
        let change = json!({ "end": { "time": 60_000_000_000u64 }, "interval": 10_000_000u64 });
        let sockets: Vec<UdpSocket> = (0..126)
            .map(|_| {
                let (peer, granted, socket) = Peer::started(at, plan(&change));
                // Its time begins with the first datagram, and no other follows.
                send(&socket, &granted, 0);
                peer.control.set_nonblocking(true).unwrap();
                controls.lock().unwrap().push(peer.control);
                socket
            })
            .collect();
        honest(&mut server, "126 idle tests");
        // Their rows want readings, of which none is made where control connections are held.
        let Some(before) = reads(server.pid()) else {
            support::skip("idle_tests_of_short_intervals_delay_nobody", "reads are not counted");
            return;
        };
        let grown =
            || reads(server.pid()).map_or((0, 0), |now| (now.0 - before.0, now.1 - before.1));
        let port = server.port.to_string();
        let fresh = ["udp", "127.0.0.1", "-p", &port, "-b", "1M", "-t", "300ms", "-i", "10ms"];
        let mut last = 0;
        let counted = wait_for(LONG, || {
            let (_, now) = grown();
            // A test of which one reading came too late, because others held a lock of the kernel, asks for no more.
            if now == last {
                linerate(None, &fresh);
            }
            last = now;
            now > 2_000
        });
        assert!(counted, "{:?}", grown());
        let (control, counters) = grown();
        assert!(control < counters / 10, "{control} reads beside control, {counters} apart");
        drop(sockets);
    });
}

/// Any numbers will do, as long as they are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Bytes that are no first datagram of a stream, or nearly are.
    fn datagram(&mut self, valid: &[u8]) -> Vec<u8> {
        if self.below(2) == 0 {
            let length = self.below(200);
            return (0..length).map(|_| self.next() as u8).collect();
        }
        let mut datagram = valid.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(datagram.len());
            datagram[at] ^= 1 << self.below(8);
        }
        datagram
    }
}

#[test]
fn answers_are_never_larger_than_questions() {
    let _alone = alone();
    let mut server = Server::start(None, &[]);
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    let (peer, granted) = Peer::granted(at, plan(&json!({ "streams": 4 })));
    let valid = UdpHello(granted.claim(0)).encode();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Right words alone are answered, once each; what was changed in their padding has them as well.
    let is_right = |datagram: &[u8]| {
        let hello = UdpHello::decode(datagram);
        hello.is_some_and(|hello| (0..4).any(|stream| hello.0 == granted.claim(stream)))
    };
    let (mut sent, mut right, mut answers) = (0, 0, 0);
    let mut buffer = [0; 65_536];
    for i in 0..if long() { 1_000_000 } else { 20_000 } {
        let datagram = random.datagram(&valid);
        sent += socket.send_to(&datagram, at).unwrap_or(0);
        right += u64::from(is_right(&datagram));
        if i % 100 == 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
        while let Ok(n) = socket.recv(&mut buffer) {
            answers += 1;
            assert!(UdpHelloAck::decode(&buffer[..n]).is_some(), "{:x?}", &buffer[..n]);
            assert!(answers <= right, "{answers} answers to {right} hellos");
        }
    }
    // Valid ones, again and again: one answer for each at most.
    for _ in 0..100 {
        sent += socket.send_to(&valid, at).unwrap();
        right += 1;
    }
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let begun = Instant::now();
    loop {
        match socket.recv(&mut buffer) {
            Ok(n) => {
                answers += 1;
                assert!(UdpHelloAck::decode(&buffer[..n]).is_some(), "{:x?}", &buffer[..n]);
            }
            // The flood may have filled the server's buffer, or the server has no core.
            Err(_) if answers == 0 && begun.elapsed() < LONG => {
                sent += socket.send_to(&valid, at).unwrap();
                right += 1;
            }
            Err(_) => break,
        }
    }
    println!("sent {sent} bytes and {right} hellos, heard {answers} answers");
    assert!(answers > 0, "not even the honest hello was answered");
    assert!(answers <= right, "{answers} answers to {right} hellos");
    drop(peer);
    honest(&mut server, "the flood");
}

/// An IPv4 packet with a UDP datagram that claims to come from `from`.
fn forged(from: Ipv4Addr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let IpAddr::V4(to_ip) = to.ip() else { panic!("IPv4 only") };
    let length = 28 + payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to_ip.octets());
    packet.extend(40_000u16.to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend((length - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

#[test]
fn a_third_host_hears_nothing() {
    let _alone = alone();
    if !Lab::possible("a_third_host_hears_nothing") {
        return;
    }
    let lab = Lab::bridge();
    let server = Server::start(Some(&lab.space("server")), &[]);
    let at = SocketAddr::from(([10, 77, 1, 1], server.port));
    let count = "flush ruleset
table inet truth {
    counter heard { }
    counter sent { }
    chain in { type filter hook prerouting priority -300; meta l4proto udp counter name heard; }
    chain out { type filter hook output priority -300; meta l4proto udp counter name sent; }
}
";
    for space in ["server", "victim", "attacker"] {
        lab.nft(space, count);
    }
    // The victim's address is known, so that a reflection would need no question first.
    let card = lab.run("victim", "cat /sys/class/net/eth0/address");
    lab.run("server", &format!("ip neigh replace 10.77.1.3 lladdr {} dev eth0", card.trim()));
    let packets = if long() { 100_000 } else { 10_000 };
    let sent = lab
        .inside("attacker", move || {
            // An honest control connection with a reverse test at full speed, and its secrets.
            let change = json!({ "direction": "reverse", "end": { "time": 5_000_000_000u64 },
                "traffic": { "udp": { "rate": null } } });
            let (peer, granted) = Peer::granted(at, plan(&change));
            let valid = UdpHello(granted.claim(0)).encode();
            let raw = socket2::Socket::new(
                socket2::Domain::IPV4,
                socket2::Type::RAW,
                Some(socket2::Protocol::UDP),
            )
            .expect("a raw socket");
            raw.set_header_included_v4(true).unwrap();
            let victim = Ipv4Addr::new(10, 77, 1, 3);
            let mut random = Random(0x2545_f491_4f6c_dd1d);
            let mut sent = 0;
            for i in 0..packets {
                let payload = if i % 10 == 0 { valid.to_vec() } else { random.datagram(&valid) };
                if raw.send_to(&forged(victim, at, &payload), &at.into()).is_ok() {
                    sent += 1;
                }
                if i % 100 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            std::thread::sleep(Duration::from_millis(500));
            drop(peer);
            sent
        })
        .join()
        .unwrap();
    let arrived = lab.counter("server", "heard").0;
    let (left, heard) = (lab.counter("server", "sent").0, lab.counter("victim", "heard").0);
    println!("forged {sent}, arrived {arrived}, the server sent {left}, the victim heard {heard}");
    assert_eq!(arrived, sent, "the forged packets do not arrive, so this proves nothing");
    assert_eq!(heard, 0, "the victim was hit");
    assert_eq!(left, 0, "the server answered somebody");
}

#[test]
#[ignore = "long"]
fn a_hundred_tests_at_once_in_little_memory() {
    let _alone = alone();
    let server = Server::start(None, &["--max-tests-per-address", "100"]);
    let port = server.port.to_string();
    let args = ["udp", "127.0.0.1", "-p", &port, "-b", "1M", "-t", "12s", "--json"];
    let clients: Vec<Client> = (0..100).map(|_| Client::start(None, &args)).collect();
    let mut most_at_once = 0;
    let mut most_rss = 0;
    let running = |log: &str| log.matches("\"started\"").count() - log.matches("\"ended\"").count();
    wait_for(LONG, || {
        let log = server.log();
        most_at_once = most_at_once.max(running(&log));
        most_rss = most_rss.max(server.holds().rss_kib);
        log.matches("\"ended\"").count() == 100
    });
    for client in clients {
        let record = client.end().complete();
        assert!(number(&record, "totals.receiver.datagrams") > 0);
    }
    println!("{most_at_once} at once, {most_rss} KiB");
    assert_eq!(most_at_once, 100);
    assert!(most_rss <= 64 * 1_024, "{most_rss} KiB");
}
