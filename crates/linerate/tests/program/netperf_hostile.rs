//! Clients of netperf's protocol that lie, break off or fall silent. After all of them the same server
//! process must still be there and serve an honest test; at the end it holds no more than before.

use crate::support;
use linerate_testkit::peer::LONG;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::num::NonZeroU16;
use std::time::Duration;

use crate::support::netperf::{Peer, request, serve};
use crate::support::{
    Attack, MANY, Stranger, alone, attack, linerate, outlasts_a_thousand_silent_connections,
    survives,
};
use linerate_model::plan::Transport;
use linerate_wire::netperf::{FRAME_BYTES, Length, Request};

const UNKNOWN: u32 = 998;
const INVALID: u32 = 22;
const POLICY: u32 = 122;

fn udp() -> Request {
    Request { transport: Transport::Udp, ..request() }
}

fn rr(transport: Transport) -> Request {
    Request { transport, transmits: true, sizes: Some((1, 1)), ..request() }
}

/// Server to client.
fn reverse(transport: Transport) -> Request {
    Request { transport, transmits: true, receives: false, ..request() }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// A word of an honest request replaced, at a byte; the server answers with that error.
fn changed(at: SocketAddr, (byte, word): (usize, u32), error: u32) {
    let mut bytes = *request().encode().bytes();
    bytes[byte..byte + 4].copy_from_slice(&word.to_be_bytes());
    let mut peer = Peer::connect(at);
    peer.bytes(&bytes);
    peer.fails(error);
}

/// What a request asks for that is not made.
fn refused(at: SocketAddr) -> Vec<Attack> {
    const DATA: usize = 8;
    let words: [(&'static str, (usize, u32), u32); 13] = [
        ("kind 0", (0, 0), UNKNOWN),
        ("kind 2^32 - 1", (0, u32::MAX), UNKNOWN),
        ("an old TCP_RR without sizes", (0, 13), UNKNOWN),
        ("node information", (0, 4), UNKNOWN),
        ("system information", (0, 600), UNKNOWN),
        ("SCTP", (DATA + 4 * 23, 132), UNKNOWN),
        ("no protocol", (DATA + 4 * 23, 0), UNKNOWN),
        ("no direction", (DATA + 4 * 24, 0), UNKNOWN),
        ("both ways without sizes", (DATA + 4 * 24, 6), UNKNOWN),
        ("port 65,536", (DATA + 4 * 20, 65_536), UNKNOWN),
        ("the client's port 2^31", (DATA + 4 * 25, 1 << 31), UNKNOWN),
        ("a connection for each of nothing one way", (DATA + 4 * 12, 4), UNKNOWN),
        ("68 years", (DATA + 4 * 14, i32::MAX.cast_unsigned()), INVALID),
    ];
    let of_word = |(name, change, error): (&'static str, (usize, u32), u32)| {
        attack(name, move |_| changed(at, change, error))
    };
    let mut cases = words.into_iter().map(of_word).collect::<Vec<_>>();
    let large = |sizes| Request { sizes: Some(sizes), ..rr(Transport::Tcp) };
    for (name, asked, error) in [
        ("a request of 2 GiB", large((i32::MAX.cast_unsigned(), 1)), INVALID),
        ("a response of 2 GiB", large((1, i32::MAX.cast_unsigned())), INVALID),
        ("two hours", Request { length: Length::Seconds(7_200), ..request() }, POLICY),
    ] {
        cases.push(attack(name, move |_| Peer::asked(at, &asked).fails(error)));
    }
    cases
}

/// What comes before a test, or instead of one.
fn before(at: SocketAddr) -> Vec<Attack> {
    vec![
        attack("nothing", move |_| drop(Peer::connect(at))),
        attack("silence", move |_| Peer::connect(at).hung_up()),
        attack("half a request", move |_| {
            let mut peer = Peer::connect(at);
            peer.bytes(&request().encode().bytes()[..300]);
            peer.hung_up();
        }),
        attack("half a request, then closed", move |_| {
            Peer::connect(at).bytes(&request().encode().bytes()[..655]);
        }),
        attack("a request of netperf 2.5", move |_| {
            let mut peer = Peer::connect(at);
            peer.bytes(&request().encode().bytes()[..256]);
            // It hears an error in a message of its own length.
            let mut answer = [0; 256];
            peer.0.read_exact(&mut answer).expect("an answer");
            assert_eq!(answer[4..8], 71_u32.to_be_bytes());
            peer.hung_up();
        }),
        attack("a request one byte at a time", move |_| {
            let mut peer = Peer::connect(at);
            for byte in request().encode().bytes().iter().take(25) {
                if peer.0.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(250));
            }
            peer.hung_up();
        }),
        attack("another protocol", move |_| {
            let mut peer = Peer::connect(at);
            peer.bytes(&[b'a'; FRAME_BYTES]);
            peer.fails(UNKNOWN);
        }),
        attack("passphrases without an end", move |_| {
            let mut peer = Peer::connect(at);
            for _ in 0..100 {
                let mut bytes = [0; FRAME_BYTES];
                bytes[3] = 6;
                peer.bytes(&bytes);
            }
            peer.hung_up();
        }),
        attack("debug without an end", move |_| {
            let mut peer = Peer::connect(at);
            for _ in 0..100 {
                let mut bytes = [0; FRAME_BYTES];
                bytes[3] = 1;
                peer.bytes(&bytes);
            }
            peer.hung_up();
        }),
        attack("reset in each state", move |_| {
            Peer::connect(at).reset();
            Peer::asked(at, &request()).reset();
            Peer::granted(at, &udp()).0.reset();
            let (peer, data) = Peer::granted(at, &request());
            let _data = TcpStream::connect(data).unwrap();
            peer.reset();
        }),
    ]
}

/// Data that does not come, or comes otherwise.
fn data(at: SocketAddr) -> Vec<Attack> {
    vec![
        attack("no data connection", move |_| Peer::granted(at, &request()).0.hung_up()),
        attack("no datagram", move |_| {
            // That is a result.
            let (mut peer, _) = Peer::granted(at, &udp());
            assert_eq!(peer.frame().map(|frame| frame.head()), Some(0));
        }),
        attack("a stolen TCP port", move |_| {
            let (peer, data) = Peer::granted(at, &request());
            let any = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let thief = any.unwrap();
            thief.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).unwrap();
            thief.connect(&data.into()).unwrap();
            let mut own = TcpStream::connect(data).unwrap();
            own.write_all(b"ours").unwrap();
            drop(own);
            let mut peer = peer;
            let results = peer.frame().expect("results");
            let results = linerate_wire::netperf::Results::read(&results, false).unwrap();
            assert_eq!(results.received, 4);
        }),
        attack("a stolen UDP port", move |_| {
            let (mut peer, data) = Peer::granted(at, &udp());
            let thief = UdpSocket::bind(("127.0.0.9", 0)).unwrap();
            thief.send_to(b"stolen", data).unwrap();
            let own = socket();
            own.send_to(b"ours", data).unwrap();
            own.send_to(b"", data).unwrap();
            let results = peer.frame().expect("results");
            let results = linerate_wire::netperf::Results::read(&results, false).unwrap();
            assert_eq!((results.received, results.receive_calls), (4, 1));
        }),
        attack("only marks of the end", move |_| {
            let (mut peer, data) = Peer::granted(at, &udp());
            socket().send_to(b"", data).unwrap();
            assert_eq!(peer.frame().map(|frame| frame.head()), Some(0));
        }),
        attack("a message while the test runs", move |_| {
            let (mut peer, data) = Peer::granted(at, &request());
            let _data = TcpStream::connect(data).unwrap();
            peer.bytes(request().encode().bytes());
            peer.fails(71);
        }),
        attack("datagrams that it asked for, to nobody", move |_| {
            // Only the client's own address is ever sent to, at its word.
            let port = NonZeroU16::new(socket().local_addr().unwrap().port());
            let asked = Request { peer_port: port, ..reverse(Transport::Udp) };
            let (peer, _) = Peer::granted(at, &asked);
            peer.hung_up();
        }),
        attack("a sender of the server's whose client is gone", move |_| {
            let (peer, data) = Peer::granted(at, &reverse(Transport::Tcp));
            let mut stream = TcpStream::connect(data).unwrap();
            stream.read_exact(&mut [0; 1_000]).unwrap();
            drop(peer);
            // Its data ends with it.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }),
        attack("a reader that does not read", move |_| {
            let (peer, data) = Peer::granted(at, &reverse(Transport::Tcp));
            let _stream = TcpStream::connect(data).unwrap();
            peer.hung_up();
        }),
        attack("half a transaction", move |_| {
            let (peer, data) =
                Peer::granted(at, &Request { sizes: Some((9, 9)), ..rr(Transport::Tcp) });
            TcpStream::connect(data).unwrap().write_all(b"half").unwrap();
            let mut peer = peer;
            assert_eq!(peer.frame().map(|frame| frame.head()), Some(0));
        }),
        attack("requests of a wrong size", move |_| {
            let (mut peer, data) = Peer::granted(at, &rr(Transport::Udp));
            let own = socket();
            for size in [2, 100, 1_400] {
                own.send_to(&vec![0; size], data).unwrap();
            }
            own.send_to(b"", data).unwrap();
            let results = peer.frame().expect("results");
            let results = linerate_wire::netperf::Results::read(&results, false).unwrap();
            assert_eq!(results.transactions, 0);
        }),
        attack("a privileged port", move |_| {
            let port = NonZeroU16::new(22);
            let (_peer, data) = Peer::granted(at, &Request { data_port: port, ..request() });
            assert!(data.port() >= 1_024);
        }),
        attack("a third party's address", move |_| {
            // The words that name it are at byte 8 + 4 * 28.
            let victim = UdpSocket::bind(("127.0.0.8", 0)).unwrap();
            victim.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let port = NonZeroU16::new(victim.local_addr().unwrap().port());
            let asked = Request { peer_port: port, ..reverse(Transport::Udp) };
            let mut bytes = *asked.encode().bytes();
            bytes[120..124].copy_from_slice(&[127, 0, 0, 8]);
            let mut peer = Peer::connect(at);
            peer.bytes(&bytes);
            assert!(victim.recv(&mut [0; 2_000]).is_err(), "it was sent to");
        }),
        attack("a file of the server's", move |_| {
            let mut bytes = *reverse(Transport::Tcp).encode().bytes();
            bytes[176..189].copy_from_slice(b"/etc/hostname");
            let mut peer = Peer::connect(at);
            peer.bytes(&bytes);
            let answer = peer.frame().expect("an answer");
            let port = linerate_wire::netperf::Response::read(&answer).unwrap().data_port;
            let mut stream = TcpStream::connect((at.ip(), port.unwrap().get())).unwrap();
            let mut payload = [0; 1_000];
            stream.read_exact(&mut payload).unwrap();
            let name = std::fs::read("/etc/hostname").unwrap_or_default();
            assert!(name.len() < 2 || !payload.windows(name.len()).any(|part| part == name));
        }),
    ]
}

/// A connection for each transaction. The server waits for them no longer than this and a second more.
fn crr() -> Request {
    Request { connections: true, length: Length::Seconds(3), ..rr(Transport::Tcp) }
}

/// How many transactions a test had that went on.
fn transactions(mut peer: Peer) -> u32 {
    let results = peer.frame().expect("results");
    linerate_wire::netperf::Results::read(&results, false).expect("no error").transactions
}

/// Connections of transactions that are none.
fn connections(at: SocketAddr) -> Vec<Attack> {
    let over_udp = Request { connections: true, ..rr(Transport::Udp) };
    vec![
        attack("connections over UDP", move |_| Peer::asked(at, &over_udp).fails(UNKNOWN)),
        attack("no connection for any transaction", move |_| {
            let (peer, _) = Peer::granted(at, &crr());
            assert_eq!(transactions(peer), 0);
        }),
        attack("connections without a request, and with half of one", move |_| {
            let asked = Request { sizes: Some((9, 9)), ..crr() };
            let (peer, data) = Peer::granted(at, &asked);
            drop(TcpStream::connect(data).unwrap());
            TcpStream::connect(data).unwrap().write_all(b"half").unwrap();
            let mut whole = TcpStream::connect(data).unwrap();
            whole.write_all(b"a request").unwrap();
            let mut answer = Vec::new();
            whole.read_to_end(&mut answer).unwrap();
            assert_eq!(answer.len(), 9);
            assert_eq!(transactions(peer), 1);
        }),
        attack("a connection that stays and says nothing", move |_| {
            let (peer, data) = Peer::granted(at, &crr());
            let _idle = TcpStream::connect(data).unwrap();
            assert_eq!(transactions(peer), 0);
        }),
        attack("a response that nobody reads", move |_| {
            let (peer, data) = Peer::granted(at, &Request { sizes: Some((1, 1 << 20)), ..crr() });
            let mut own = TcpStream::connect(data).unwrap();
            own.write_all(b"x").unwrap();
            assert!(transactions(peer) <= 1);
        }),
        attack("transactions of a thief", move |_| {
            let (peer, data) = Peer::granted(at, &crr());
            let any = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let thief = any.unwrap();
            thief.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).unwrap();
            thief.connect(&data.into()).unwrap();
            let _ = thief.send(b"x");
            assert_eq!(transactions(peer), 0);
        }),
        attack("transactions whose client is gone", move |_| {
            let (peer, data) = Peer::granted(at, &crr());
            let mut own = TcpStream::connect(data).unwrap();
            own.write_all(b"x").unwrap();
            peer.reset();
        }),
    ]
}

#[test]
fn a_catalogue_of_attacks_in_netperfs_dialect() {
    let _alone = alone();
    let (mut server, at) = serve(MANY);
    let cases = [refused(at), before(at), data(at), connections(at)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    assert!(cases.len() >= 47, "{}", cases.len());
    survives(&mut server, &cases, |server, after| {
        assert!(server.alive(), "{after}: the server is gone");
        let port = at.port().to_string();
        let args =
            ["tcp", "127.0.0.1", "-p", &port, "--dialect", "netperf", "-n", "64Ki", "--json"];
        let ran = linerate(None, &args);
        assert_eq!(ran.code, 0, "{after}: {}\n{}", ran.err, server.log());
    });
}

#[test]
fn a_thousand_silent_connections_keep_nobody_out() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    outlasts_a_thousand_silent_connections(at, "netperf");
}

#[test]
fn a_stranger_at_a_data_port_hears_no_more_than_it_says() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    let large = Request { sizes: Some((1, 1_400)), ..rr(Transport::Udp) };
    for (what, asked, own_datagram) in
        [("netperf's UDP_STREAM", udp(), &b"data"[..]), ("netperf's UDP_RR", large, b"x")]
    {
        let (mut peer, data) = Peer::granted(at, &asked);
        let mut stranger = Stranger::new();
        stranger.sends(data, &[b"x", &[0; 1_400], b"x", &[0; 100], b"x"]);
        // It is read before what comes after it at the same socket.
        let own = socket();
        own.send_to(own_datagram, data).unwrap();
        if asked.sizes.is_some() {
            assert_eq!(own.recv(&mut [0; 2_000]).unwrap(), 1_400);
        }
        own.send_to(b"", data).unwrap();
        assert_eq!(peer.frame().map(|frame| frame.head()), Some(0), "{what}");
        stranger.heard_nothing(what);
    }
}

/// What comes counts, whether a transaction is made of it or not.
#[test]
fn transactions_that_are_never_finished_count_towards_the_owners_limits() {
    const MOST: usize = 1_000_000;
    const HALF: usize = 50_000;
    let _alone = alone();
    for (limit, words) in [
        ("--max-bytes", "--max-bytes allows"),
        ("--max-bytes-per-day", "--max-bytes-per-day allows"),
    ] {
        let (server, at) = serve(&[limit, &MOST.to_string()]);
        let sizes = Some((2 * HALF as u32, 1));
        let (peer, data) =
            Peer::granted(at, &Request { sizes, length: Length::Seconds(60), ..crr() });
        let over = || server.log().contains(words);
        for _ in 0..40 * MOST / HALF {
            // Half a request, and gone; a connection that is not taken any more is as good as one that is.
            if let Ok(mut own) = TcpStream::connect(data) {
                let _ = own.write_all(&vec![0; HALF]);
            }
            if over() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(support::wait_for(LONG, over), "{limit}: {}", server.log());
        peer.fails(POLICY);
    }
}

#[test]
fn a_server_with_a_key_has_no_door_for_clients_that_cannot_prove_it() {
    let ran = support::linerate(None, &["serve", "--netperf", "--key-file", "/nowhere"]);
    assert!(ran.code == 2 && ran.err.contains("cannot be used with"), "{ran:?}");
}
