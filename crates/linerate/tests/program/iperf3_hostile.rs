//! Clients of iperf3's protocol that lie, break off or fall silent. After each of them the same server
//! process must still be there and serve an honest test; at the end it holds no more than before.

use linerate_testkit::peer::LONG;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::support::iperf3::{Peer, cookie, results, udp};
use crate::support::{Attack, MANY, Server, alone, attack, linerate, survives};
use linerate_wire::iperf3::datagram::{Counters, Header};
use linerate_wire::iperf3::{ErrorNumber, State, hello};

/// Parameters that must be refused with that number.
fn refused(json: &'static str, number: ErrorNumber) -> Attack {
    attack(json, move |at| Peer::asked(at, json).fails(number))
}

const UDP: &str = r#"{"udp":true,"len":500,"time":1,"bandwidth":100000}"#;
/// Longer than anybody waits for its end.
const UDP_REVERSE: &str =
    r#"{"udp":true,"len":500,"time":3600,"bandwidth":1000000,"reverse":true}"#;
const TCP: &str = r#"{"tcp":true,"time":1,"bandwidth":100000,"len":1000}"#;

fn cases() -> Vec<Attack> {
    use ErrorNumber as E;
    let mut cases = vec![
        attack("half a cookie", |at| {
            let mut stream = Peer::connect(at);
            stream.write_all(b"abcdefghijklmnop").unwrap();
        }),
        attack("half a cookie, then silence", |at| {
            let mut stream = Peer::connect(at);
            stream.write_all(b"abcdefghijklmnop").unwrap();
            Peer { control: stream, cookie: cookie(0) }.hung_up();
        }),
        attack("a cookie without an end", |at| {
            let mut stream = Peer::connect(at);
            stream.write_all(&[b'a'; 100]).unwrap();
            Peer { control: stream, cookie: cookie(0) }.hung_up();
        }),
        attack("a cookie one byte at a time", |at| {
            let mut stream = Peer::connect(at);
            let until = Instant::now() + Duration::from_secs(8);
            for byte in cookie(7).bytes() {
                if Instant::now() > until || stream.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(300));
            }
            Peer { control: stream, cookie: cookie(0) }.hung_up();
        }),
        attack("a cookie, then silence", |at| Peer::begin(at).hung_up()),
        attack("parameters of which half comes", |at| {
            let mut peer = Peer::begin(at);
            peer.bytes(&[0, 0, 0, 100, b'{']);
            peer.hung_up();
        }),
        attack("reset in each state", |at| {
            Peer::begin(at).reset();
            Peer::asked(at, UDP).reset();
            Peer::granted(at, TCP).reset();
            Peer::granted(at, UDP).reset();
            let (peer, _socket) = Peer::running(at, UDP);
            peer.reset();
            let (mut peer, _socket) = Peer::running(at, UDP);
            peer.say(State::TestEnd);
            peer.reset();
            let (mut peer, _socket) = Peer::running(at, UDP);
            peer.say(State::TestEnd);
            assert_eq!(peer.state(), Some(State::ExchangeResults));
            peer.bytes(&[0, 0]);
            peer.reset();
        }),
        attack("closed in each state", |at| {
            drop(Peer::begin(at));
            drop(Peer::asked(at, TCP));
            drop(Peer::granted(at, UDP));
            drop(Peer::running(at, UDP));
        }),
        attack("states out of turn", |at| {
            for state in [State::ParamExchange, State::DisplayResults, State::ServerError] {
                let mut peer = Peer::granted(at, UDP);
                peer.say(state);
                peer.fails(E::UNKNOWN_MESSAGE);
                let (mut peer, _socket) = Peer::running(at, UDP);
                peer.say(state);
                peer.fails(E::UNKNOWN_MESSAGE);
            }
            let (mut peer, _socket) = Peer::running(at, UDP);
            peer.bytes(&[99]);
            peer.fails(E::UNKNOWN_MESSAGE);
        }),
        attack("the client's own end", |at| {
            let (mut peer, _socket) = Peer::running(at, UDP_REVERSE);
            peer.say(State::ClientTerminate);
            peer.fails(E::CLIENT_TERMINATED);
        }),
        attack("no UDP stream comes", |at| Peer::granted(at, UDP).fails(E::STREAM_ACCEPT)),
        attack("datagrams that are no hello", |at| {
            let mut peer = Peer::granted(at, UDP);
            let socket = udp(at);
            for bytes in [&b""[..], b"987", b"98765", &[0; 100]] {
                socket.send(bytes).unwrap();
            }
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            assert!(socket.recv(&mut [0; 64]).is_err(), "they were answered");
            socket.send(&hello::HELLO).unwrap();
            socket.set_read_timeout(Some(LONG)).unwrap();
            assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 4);
            assert_eq!(peer.state(), Some(State::TestStart));
        }),
        attack("a hello from another address", |at| {
            let mut peer = Peer::granted(at, UDP);
            let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
            stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            for _ in 0..5 {
                stranger.send_to(&hello::HELLO, at).unwrap();
            }
            assert!(stranger.recv_from(&mut [0; 64]).is_err(), "a stranger was answered");
            let socket = udp(at);
            socket.send(&hello::HELLO).unwrap();
            assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 4);
            assert_eq!(peer.state(), Some(State::TestStart));
        }),
        attack("a hello without a test", |at| {
            // Of this address no other attack's test is, which might be waiting for its hello just now.
            let socket = UdpSocket::bind("127.0.0.3:0").unwrap();
            socket.connect(at).unwrap();
            socket.send(&hello::HELLO).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            assert!(socket.recv(&mut [0; 64]).is_err(), "it was answered");
        }),
        attack("a data stream too many, and one of another address", |at| {
            let mut peer = Peer::granted(at, TCP);
            let local =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            local.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
            local.connect(&at.into()).unwrap();
            let mut stranger: TcpStream = local.into();
            stranger.set_read_timeout(Some(LONG)).unwrap();
            stranger.write_all(peer.cookie.bytes()).unwrap();
            let mut stranger = Peer { control: stranger, cookie: peer.cookie };
            assert_eq!(stranger.state(), Some(State::AccessDenied));
            stranger.hung_up();
            let mut first = Peer::connect(at);
            first.write_all(peer.cookie.bytes()).unwrap();
            assert_eq!(peer.state(), Some(State::TestStart));
            let mut second = Peer { control: Peer::connect(at), cookie: peer.cookie };
            second.bytes(peer.cookie.bytes());
            assert_eq!(second.state(), Some(State::AccessDenied));
            second.hung_up();
        }),
        attack("datagrams of all kinds", |at| {
            let (mut peer, socket) = Peer::running(at, UDP);
            let mut datagram = [0; 500];
            for number in [0, 1, 3, u64::from(u32::MAX), 2, 2, 1 << 31, 5] {
                Header { sent_ns: 1, number }.write(Counters::Bits32, &mut datagram);
                socket.send(&datagram).unwrap();
            }
            for bytes in [&b""[..], b"9876", &[0; 11], &[0xff; 12], &[0xff; 65_000]] {
                socket.send(bytes).unwrap();
            }
            peer.say(State::TestEnd);
            assert_eq!(peer.state(), Some(State::ExchangeResults));
            peer.json(&results("1", "18446744073709551615"));
            let mut length = [0; 4];
            peer.control.read_exact(&mut length).unwrap();
            assert!(u32::from_be_bytes(length) < 10_000);
        }),
        attack("results that lie", |at| {
            for (id, packets, fails) in [
                ("1", "9223372036854775807", None),
                ("1", "-5", None),
                ("2", "1", Some(E::STREAM_ID)),
                ("4000000000", "1", Some(E::STREAM_ID)),
                ("\"1\"", "1", Some(E::RECEIVE_RESULTS)),
            ] {
                let (mut peer, _socket) = Peer::running(at, UDP);
                peer.say(State::TestEnd);
                assert_eq!(peer.state(), Some(State::ExchangeResults));
                peer.json(&results(id, packets));
                match fails {
                    Some(number) => peer.fails(number),
                    None => {
                        let mut length = [0; 4];
                        peer.control.read_exact(&mut length).unwrap();
                    }
                }
            }
        }),
        attack("results of 2^32 - 1 bytes", |at| {
            let (mut peer, _socket) = Peer::running(at, UDP);
            peer.say(State::TestEnd);
            assert_eq!(peer.state(), Some(State::ExchangeResults));
            peer.bytes(&u32::MAX.to_be_bytes());
            peer.fails(E::RECEIVE_RESULTS);
        }),
        attack("a reverse sender whose client goes away", |at| {
            let (peer, socket) = Peer::running(at, UDP_REVERSE);
            assert!(socket.recv(&mut [0; 600]).is_ok());
            peer.reset();
            // It falls silent.
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let until = Instant::now() + LONG;
            while socket.recv(&mut [0; 600]).is_ok() {
                assert!(Instant::now() < until, "the server goes on sending");
            }
        }),
        attack("one cookie for two tests", |at| {
            let mut first = Peer::granted(at, TCP);
            let mut second = Peer::connect(at);
            // Taken for a data stream, as it says it is one.
            second.write_all(first.cookie.bytes()).unwrap();
            assert_eq!(first.state(), Some(State::TestStart));
        }),
        attack("idle connections of every kind", |at| {
            let idle: Vec<TcpStream> = (0..200).map(|_| Peer::connect(at)).collect();
            let waiting: Vec<Peer> = (0..50).map(|_| Peer::begin(at)).collect();
            honest(at.port());
            drop((idle, waiting));
        }),
    ];
    for (name, length) in [
        ("a length of 0", 0),
        ("a length of 8 KiB + 1", 8_193u32),
        ("a length of 2^31", 1 << 31),
        ("a length of 2^32 - 1", u32::MAX),
    ] {
        cases.push(attack(name, move |at| {
            let mut peer = Peer::begin(at);
            peer.bytes(&length.to_be_bytes());
            peer.fails(E::RECEIVE_PARAMETERS);
        }));
    }
    for (json, number) in [
        (r#"{"parallel":"1"}"#, E::RECEIVE_PARAMETERS),
        (r#"{"parallel":[]}"#, E::RECEIVE_PARAMETERS),
        (r#"{"len":{}}"#, E::RECEIVE_PARAMETERS),
        (r#"{"title":1}"#, E::RECEIVE_PARAMETERS),
        (r#"{"time":NaN}"#, E::RECEIVE_PARAMETERS),
        (r#"["tcp"]"#, E::RECEIVE_PARAMETERS),
        ("no JSON at all", E::RECEIVE_PARAMETERS),
        (r#"{"parallel":0}"#, E::STREAMS),
        (r#"{"parallel":129}"#, E::STREAMS),
        (r#"{"parallel":1000000000}"#, E::STREAMS),
        (r#"{"parallel":-1}"#, E::STREAMS),
        (r#"{"parallel":18446744073709551615}"#, E::STREAMS),
        (r#"{"len":0}"#, E::BLOCK_SIZE),
        (r#"{"len":-1}"#, E::BLOCK_SIZE),
        (r#"{"len":2147483648}"#, E::BLOCK_SIZE),
        (r#"{"udp":true,"len":0}"#, E::UDP_BLOCK_SIZE),
        (r#"{"udp":true,"len":-1}"#, E::UDP_BLOCK_SIZE),
        (r#"{"udp":true,"len":2147483648}"#, E::UDP_BLOCK_SIZE),
        (r#"{"time":86401}"#, E::DURATION),
        (r#"{"time":1e300}"#, E::DURATION),
        (r#"{"omit":601}"#, E::OMIT),
        (r#"{"window":1e12}"#, E::WINDOW),
        (r#"{"MSS":99999}"#, E::MSS),
        (r#"{"TOS":256}"#, E::TOS),
        (r#"{"burst":100000}"#, E::BURST),
        (r#"{"bandwidth":-1}"#, E::RATE),
        (r#"{"server_affinity":900}"#, E::AFFINITY),
        (r#"{"sctp":true}"#, E::PROTOCOL),
        (r#"{"tcp":true,"mptcp":true}"#, E::PROTOCOL),
    ] {
        cases.push(refused(json, number));
    }
    cases.push(attack("8 KiB of brackets", |at| {
        Peer::asked(at, &"[".repeat(8_192)).fails(ErrorNumber::RECEIVE_PARAMETERS);
    }));
    cases
}

/// It has a limit of its own for each answer, and ends with an error where it has to wait.
fn honest(port: u16) {
    let port = port.to_string();
    let args = ["udp", "127.0.0.1", "-p", &port, "-k", "5", "-b", "2M", "--json"];
    linerate(None, &args).complete();
}

#[test]
fn a_catalogue_of_attacks_in_iperf3s_dialect() {
    let _alone = alone();
    let cases = cases();
    assert!(cases.len() >= 55, "{}", cases.len());
    survives(&mut Server::start(None, MANY), &cases, |server, after| {
        assert!(server.alive(), "{after}: the server is gone");
        honest(server.port);
    });
}

#[test]
fn a_server_with_a_key_turns_clients_of_iperf3_away() {
    let _alone = alone();
    let key = std::env::temp_dir().join(format!("linerate-iperf3-key-{}", std::process::id()));
    std::fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    let server = Server::start(None, &["--key-file", key.to_str().unwrap()]);
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    Peer::asked(at, UDP).fails(ErrorNumber::AUTHORISATION);
    let _ = std::fs::remove_file(&key);
}
