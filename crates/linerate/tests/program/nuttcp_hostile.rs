//! Clients of nuttcp's protocol that lie, break off or fall silent. After all of them the same server process
//! must still be there and serve an honest test; at the end it holds no more than before.

use crate::support;
use linerate_testkit::peer::LONG;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::support::nuttcp::{Peer, line, serve};
use crate::support::{
    Attack, MANY, Stranger, alone, attack, linerate, outlasts_a_thousand_silent_connections,
    survives,
};

/// Data ports of this file's attacks, each its own: they run beside each other.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    NEXT.fetch_add(8, Ordering::Relaxed)
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// What a client asks for that is not made.
fn refused(at: SocketAddr) -> Vec<Attack> {
    let cases: [(&'static str, &'static str, &'static str); 24] = [
        ("a third host", "thirdparty = 192.0.2.1", "third host"),
        ("a third host with a shell's words", "thirdparty = $(reboot)", "third host"),
        ("traceroute", "traceroute = 1", "traceroute"),
        ("a group", "multicast = 3", "groups"),
        ("a group's name", "group = 239.1.1.1", "groups"),
        ("strides", "stride = 1", "strides"),
        ("many links", "multilink = 1", "strides"),
        ("port 0", "port = 0", "1024"),
        ("port 22", "port = 22", "1024"),
        ("ports beyond the last", "port = 65535, nstream = 2", "65535"),
        ("port 2^32 - 1", "port = 4294967295", "65535"),
        ("port 2^32", "port = 4294967296", "port"),
        ("no streams", "nstream = 0", "streams"),
        ("4 billion streams", "nstream = 4294967295", "65535"),
        ("129 streams", "nstream = 129", "streams"),
        ("minus one stream", "nstream = -1", "nstream"),
        ("datagrams of no data", "udp = 1, buflen = 4", "datagram size"),
        ("datagrams of 64 KiB", "udp = 1, buflen = 65536", "datagram size"),
        ("writes of 4 GiB", "buflen = 4294967295", "block"),
        ("writes of nothing", "buflen = 0", "block"),
        ("two hours", "timeout = 7200.000000", "longer"),
        ("a time of 10^20", "timeout = 100000000000000000000.0", "timeout"),
        ("a time that is none", "timeout = nan", "timeout"),
        ("a type of service that is none", "tos = 1ff", "tos"),
    ];
    let mut all: Vec<Attack> = cases
        .into_iter()
        .map(|(name, fields, why)| attack(name, move |_| Peer::asked(at, fields).refused(why)))
        .collect();
    all.push(attack("datagrams of several streams that nobody asks for", move |_| {
        let fields = format!("udp = 1, trans = 0, nstream = 2, interval = 1.0, port = {}", port());
        drop(Peer::granted(at, &fields));
    }));
    all.push(attack("a core that is not there", move |_| {
        // A wish that is not taken.
        let fields = format!("affinity = 8000, port = {}", port());
        drop(Peer::granted(at, &fields));
    }));
    all
}

/// What comes before a test, or instead of one.
fn before(at: SocketAddr) -> Vec<Attack> {
    let bad = |bytes: &'static [u8]| {
        move |_: SocketAddr| {
            let mut peer = Peer::connect(at);
            peer.bytes(bytes);
            peer.hung_up();
        }
    };
    vec![
        attack("nothing", move |_| drop(Peer::connect(at))),
        attack("silence", move |_| Peer::connect(at).hung_up()),
        attack("half a greeting", bad(b"HELO nut")),
        attack("another protocol", bad(b"GET / HTTP/1.1\r\n\r\n")),
        attack("a greeting with an escape", bad(b"HELO nuttcp v8\x1b[2J\n")),
        attack("bytes that are no text", bad(&[0xff; 64])),
        attack("a line without an end", move |_| {
            let mut peer = Peer::connect(at);
            peer.bytes(&[b'a'; 100_000]);
            peer.hung_up();
        }),
        attack("parameters without an end", move |_| {
            let mut peer = Peer::greeted(at);
            peer.bytes("buflen = 1, ".repeat(10_000).as_bytes());
            peer.hung_up();
        }),
        attack("half the parameters", move |_| {
            let mut peer = Peer::greeted(at);
            peer.say(&line("")[..60]);
            peer.hung_up();
        }),
        attack("half the parameters, then closed", move |_| {
            Peer::greeted(at).say(&line("")[..200]);
        }),
        attack("parameters one byte at a time", move |_| {
            let mut peer = Peer::greeted(at);
            for byte in line("").bytes().take(25) {
                peer.bytes(&[byte]);
                std::thread::sleep(Duration::from_millis(250));
            }
            peer.hung_up();
        }),
        attack("no release", move |_| {
            let mut peer = Peer::greeted(at);
            peer.say(&line("").replace("vers", "ver"));
            peer.refused("vers");
        }),
        attack("more than its parameters", move |_| {
            let mut peer = Peer::greeted(at);
            peer.say(&line("").repeat(2));
            peer.refused("more than its parameters");
        }),
        attack("parameters before the greeting", move |_| {
            let mut peer = Peer::connect(at);
            peer.say(&line(""));
            peer.refused("HELO");
        }),
        attack("reset in each state", move |_| {
            Peer::connect(at).reset();
            Peer::greeted(at).reset();
            let port = port();
            Peer::granted(at, &format!("port = {port}")).reset();
            let port = port.saturating_add(1);
            let peer = Peer::granted(at, &format!("port = {port}"));
            let _data = TcpStream::connect((at.ip(), port)).unwrap();
            peer.reset();
        }),
    ]
}

/// Data that does not come, or comes otherwise.
fn data(at: SocketAddr) -> Vec<Attack> {
    let bytes_of = |lines: &[String]| {
        let totals = lines.iter().find(|line| line.contains("real seconds"));
        totals.unwrap_or_else(|| panic!("{lines:?}")).split(' ').nth(1).unwrap().to_owned()
    };
    vec![
        attack("no data connection", move |_| {
            Peer::granted(at, &format!("port = {}", port())).hung_up();
        }),
        attack("no datagram", move |_| {
            // That is a result.
            let peer = Peer::granted(at, &format!("udp = 1, port = {}", port()));
            assert_eq!(bytes_of(&peer.rest()), "0.0000");
        }),
        attack("a stolen TCP port", move |_| {
            let port = port();
            let peer = Peer::granted(at, &format!("port = {port}"));
            let any = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let thief = any.unwrap();
            thief.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).unwrap();
            thief.connect(&SocketAddr::new(at.ip(), port).into()).unwrap();
            let mut own = TcpStream::connect((at.ip(), port)).unwrap();
            own.write_all(&[0; 104_858]).unwrap();
            drop(own);
            assert_eq!(bytes_of(&peer.rest()), "0.1000");
        }),
        attack("a stolen UDP port", move |_| {
            let port = port();
            let peer = Peer::granted(at, &format!("udp = 1, port = {port}"));
            let thief = UdpSocket::bind(("127.0.0.9", 0)).unwrap();
            thief.send_to(&[1; 1_000], (at.ip(), port)).unwrap();
            let own = socket();
            for datagram in [&b"BOD0"[..], &[0; 1_000], b"EOD0"] {
                own.send_to(datagram, (at.ip(), port)).unwrap();
            }
            assert_eq!(bytes_of(&peer.rest()), "0.0010");
        }),
        attack("a port that another test waits on", move |_| {
            let fields = format!("port = {}", port());
            let _first = Peer::granted(at, &fields);
            Peer::asked(at, &fields).refused("in use");
            let fields = format!("udp = 1, port = {}", port());
            let _first = Peer::granted(at, &fields);
            Peer::asked(at, &fields).refused("in use");
        }),
        attack("only the end of the data", move |_| {
            let port = port();
            let peer = Peer::granted(at, &format!("udp = 1, port = {port}"));
            socket().send_to(b"EOD1", (at.ip(), port)).unwrap();
            assert_eq!(bytes_of(&peer.rest()), "0.0000");
        }),
        attack("counts that cannot be", move |_| {
            let port = port();
            let fields = format!("udp = 1, interval = 0.1, port = {port}");
            let peer = Peer::granted(at, &fields);
            let own = socket();
            own.send_to(b"BOD1", (at.ip(), port)).unwrap();
            for count in [u64::MAX, 1, 1_000, 999, u64::MAX / 1_000 * 1_000, 0] {
                let mut datagram = [0; 1_000];
                datagram[24..32].copy_from_slice(&count.to_ne_bytes());
                own.send_to(&datagram, (at.ip(), port)).unwrap();
            }
            own.send_to(&[9; 31], (at.ip(), port)).unwrap();
            own.send_to(b"EOD0", (at.ip(), port)).unwrap();
            // The first that is a count, and the last, after which a great many are missing.
            assert_eq!(bytes_of(&peer.rest()), "0.0019");
        }),
        attack("words while the test runs", move |_| {
            let port = port();
            let mut peer = Peer::granted(at, &format!("port = {port}"));
            let _data = TcpStream::connect((at.ip(), port)).unwrap();
            peer.say(&line(""));
            let lines = peer.rest();
            assert!(lines.iter().any(|line| line.contains("Error")), "{lines:?}");
        }),
        attack("data for nobody", move |_| {
            // It is sent to the client's own address, at its word, once it is granted.
            Peer::granted(at, &format!("udp = 1, trans = 0, port = {}", port())).hung_up();
            let lines = Peer::granted(at, &format!("trans = 0, port = {}", port())).rest();
            assert!(lines.iter().any(|line| line.contains("Error")), "{lines:?}");
        }),
        attack("a reader that does not read", move |_| {
            let port = port();
            let wait = TcpListener::bind(("127.0.0.1", port)).unwrap();
            let peer = Peer::granted(at, &format!("trans = 0, port = {port}"));
            let _stream = wait.accept().unwrap();
            peer.hung_up();
        }),
        attack("a sender of the server's whose client is gone", move |_| {
            let port = port();
            let wait = TcpListener::bind(("127.0.0.1", port)).unwrap();
            let fields = format!("trans = 0, timeout = 3000.0, port = {port}");
            let peer = Peer::granted(at, &fields);
            let (mut stream, _) = wait.accept().unwrap();
            stream.read_exact(&mut [0; 1_000]).unwrap();
            drop(peer);
            // Its data ends with it.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }),
        attack("what this process has in memory", move |_| {
            let port = port();
            let own = UdpSocket::bind(("127.0.0.1", port)).unwrap();
            own.set_read_timeout(Some(LONG)).unwrap();
            let fields =
                format!("udp = 1, trans = 0, rate = 100, nbuf = 3, timeout = 0.0, port = {port}");
            let _peer = Peer::granted(at, &fields);
            let mut bytes = [0; 2_000];
            loop {
                let length = own.recv(&mut bytes).unwrap();
                let datagram = &bytes[..length];
                assert!(!datagram.windows(6).any(|part| part == b"buflen"), "a line of its client");
                if datagram == b"EOD1" {
                    break;
                }
            }
        }),
    ]
}

#[test]
fn a_catalogue_of_attacks_in_nuttcps_dialect() {
    let _alone = alone();
    let (mut server, at) = serve(MANY);
    let cases = [refused(at), before(at), data(at)].into_iter().flatten().collect::<Vec<_>>();
    assert!(cases.len() >= 53, "{}", cases.len());
    survives(&mut server, &cases, |server, after| {
        assert!(server.alive(), "{after}: the server is gone");
        let port = at.port().to_string();
        let args = ["tcp", "127.0.0.1", "-p", &port, "--dialect", "nuttcp", "-n", "64Ki", "--json"];
        let ran = linerate(None, &args);
        assert_eq!(ran.code, 0, "{after}: {}\n{}", ran.err, server.log());
    });
}

#[test]
fn a_thousand_silent_connections_keep_nobody_out() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    outlasts_a_thousand_silent_connections(at, "nuttcp");
}

#[test]
fn a_stranger_at_a_data_port_hears_no_more_than_it_says() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    let data = SocketAddr::new(at.ip(), port());
    let peer = Peer::granted(at, &format!("udp = 1, port = {}", data.port()));
    let mut stranger = Stranger::new();
    stranger.sends(data, &[b"BOD0", &[0; 1_000], b"EOD0", b"EOD1", b"x"]);
    // It is read before what comes after it at the same socket.
    let own = socket();
    for datagram in [&b"BOD0"[..], &[0; 1_000], b"EOD0"] {
        own.send_to(datagram, data).unwrap();
    }
    assert!(peer.rest().iter().any(|line| line.contains("real seconds")));
    stranger.heard_nothing("nuttcp's UDP");
}

#[test]
fn nothing_leaves_for_an_address_that_asked_for_nothing() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    let port = port();
    // Whoever is at the port hears nothing before the test is granted, and strangers never do.
    let stranger = UdpSocket::bind(("127.0.0.9", port)).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let own = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    own.set_read_timeout(Some(LONG)).unwrap();
    let fields = format!("udp = 1, trans = 0, nbuf = 5, timeout = 0.0, rate = 1000, port = {port}");
    let peer = Peer::granted(at, &fields);
    let mut words = Vec::new();
    let mut bytes = [0; 2_000];
    while words.last().is_none_or(|word| word != b"EOD1") {
        let length = own.recv(&mut bytes).unwrap();
        words.push(bytes[..length.min(4)].to_vec());
    }
    assert_eq!(words.iter().filter(|word| word.starts_with(b"EOD")).count(), 2);
    assert_eq!(words.first().map(Vec::as_slice), Some(&b"BOD0"[..]));
    assert_eq!(words.len(), 5 + 4, "{words:?}");
    drop(peer);
    assert!(stranger.recv(&mut bytes).is_err(), "a stranger was sent to");
}

#[test]
fn a_server_with_a_key_has_no_door_for_clients_that_cannot_prove_it() {
    let ran = support::linerate(None, &["serve", "--nuttcp", "--key-file", "/nowhere"]);
    assert!(ran.code == 2 && ran.err.contains("cannot be used with"), "{ran:?}");
}

/// Datagrams that go at once are of the rate all the same.
#[test]
fn bursts_keep_to_the_owners_rate() {
    const BURST: f64 = 50.0 * 8_000.0;
    let _alone = alone();
    let (_server, at) = serve(&["--max-rate", "8M"]);
    let port = port();
    let own = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    own.set_read_timeout(Some(LONG)).unwrap();
    // Room for all, while others have this test's core.
    let _ = nix::sys::socket::setsockopt(&own, nix::sys::socket::sockopt::RcvBufForce, &(8 << 20));
    let fields = |kbps: u32| {
        let flow = "udp = 1, trans = 0, buflen = 1000, timeout = 2.0, maxburst = 50";
        format!("{flow}, rate = {kbps}, port = {port}")
    };
    Peer::asked(at, &fields(8_001)).refused("rate");
    let begun = std::time::Instant::now();
    let _peer = Peer::granted(at, &fields(8_000));
    let (mut bits, mut bytes) = (0.0, [0; 2_000]);
    loop {
        let length = own.recv(&mut bytes).unwrap();
        if bytes[..length].starts_with(b"EOD") {
            break;
        }
        bits += 8.0 * length as f64;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{bits} bits in {seconds} s");
    // Not more than the rate and a burst, and so much that bursts were sent.
    assert!(bits < 8e6 * seconds + BURST, "{bits} bits in {seconds} s");
    assert!(bits > 2.0 * BURST, "{bits} bits in {seconds} s");
}
