//! Clients of iperf 2's protocol that lie, break off or fall silent, and whoever writes another's address on a
//! datagram. After each of them the same server process must still be there and serve an honest test.

use linerate_testkit::peer::LONG;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::support::{
    Attack, MANY, Server, alone, attack, linerate, outlasts_a_thousand_silent_connections,
    survives, wait_for,
};
use linerate_wire::iperf2::datagram::Mark;
use linerate_wire::iperf2::{Amount, Header, REPORT_BYTES, Report};

/// In a network of the test's own.
const AT: ([u8; 4], u16) = ([127, 0, 0, 1], 5001);

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(SocketAddr::from(AT)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    socket
}

fn tcp(bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(SocketAddr::from(AT)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let _ = stream.write_all(bytes);
    stream
}

/// The server ends it.
fn hung_up(mut stream: TcpStream) {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset, "{e}"),
    }
}

fn asked(header: &Header) -> Vec<u8> {
    header.encode()
}

/// Of `-d`, or `-r`, with the port where the client is to listen.
fn with_back(port: u32, at_once: bool) -> Vec<u8> {
    let mut bytes = asked(&Header { wide: false, ..plain() });
    bytes[0] |= 0x80;
    bytes[3] |= u8::from(at_once);
    bytes[8..12].copy_from_slice(&port.to_be_bytes());
    bytes.to_vec()
}

fn plain() -> Header {
    let amount = Some(Amount::Time(100));
    Header { streams: 1, length: 500, amount, wide: true, ..Header::default() }
}

fn datagram(number: i64, header: &Header, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.max(80)];
    Mark { number, sent_ns: 0 }.write(&mut bytes);
    bytes[16..80].copy_from_slice(&header.encode());
    bytes.truncate(length);
    bytes
}

/// What comes back to whoever sends these: datagrams, and their bytes.
fn answers(datagrams: &[Vec<u8>]) -> (u64, u64) {
    let socket = udp();
    for datagram in datagrams {
        let _ = socket.send(datagram);
    }
    let (mut count, mut bytes, mut buffer) = (0, 0, [0; 65_535]);
    while let Ok(length) = socket.recv(&mut buffer) {
        count += 1;
        bytes += length as u64;
    }
    (count, bytes)
}

/// Nobody learns that a server is there, let alone gets more than was sent.
fn silent(name: &'static str, datagrams: Vec<Vec<u8>>) -> Attack {
    attack(name, move |_| assert_eq!(answers(&datagrams).0, 0, "{name}"))
}

/// It may answer, with no more than was sent.
fn no_mirror(name: &'static str, datagrams: Vec<Vec<u8>>) -> Attack {
    attack(name, move |_| {
        let sent: usize = datagrams.iter().map(Vec::len).sum();
        let (count, bytes) = answers(&datagrams);
        assert!(bytes <= sent as u64 && count <= 10, "{name}: {bytes} for {sent}");
    })
}

fn of_udp() -> Vec<Attack> {
    let header = plain();
    let with = |change: fn(&mut Header)| {
        let mut header = plain();
        change(&mut header);
        header
    };
    let reverse = with(|header| header.reverse = true);
    let duplex = with(|header| header.full_duplex = true);
    let data = |numbers: &[i64], length: usize| -> Vec<Vec<u8>> {
        numbers.iter().map(|number| datagram(*number, &plain(), length)).collect()
    };
    vec![
        silent("an empty datagram", vec![vec![]]),
        silent("a byte", vec![vec![1]]),
        silent("fifteen bytes", vec![vec![0xff; 15]]),
        silent("a number and nothing else", data(&[1], 16)),
        silent("an end and nothing else", data(&[-2], 500)),
        silent("the end of ends", data(&[i64::MIN], 500)),
        silent("number 0", data(&[0], 500)),
        silent("a hundred ends of no stream", data(&[-5; 100], 500)),
        silent(
            "noise",
            (0..50u8).map(|i| vec![i.wrapping_mul(37); 100 + usize::from(i)]).collect(),
        ),
        silent("-R, as often as a client asks", vec![datagram(1, &reverse, 80); 100]),
        silent("--full-duplex", vec![datagram(1, &duplex, 1_000); 100]),
        silent("-R for ever", {
            let forever = Header { amount: Some(Amount::Bytes(u32::MAX >> 1)), ..reverse };
            vec![datagram(1, &forever, 80); 10]
        }),
        silent("-d and -r", {
            let mut first = datagram(1, &header, 500);
            first[16] |= 0x80;
            vec![first; 5]
        }),
        silent("-R after an end", vec![datagram(-1, &reverse, 80), datagram(1, &reverse, 80)]),
        silent(
            "too little for an answer",
            vec![datagram(1, &header, 80), datagram(-2, &header, 16)],
        ),
        silent("a year", {
            let year = Header { amount: Some(Amount::Time(u32::MAX >> 1)), ..header };
            vec![datagram(1, &year, 500)]
        }),
        no_mirror("one datagram and its end", data(&[1, -2], 80)),
        no_mirror("one datagram and its end, forty times", {
            let mut all = data(&[1], 80);
            all.extend(data(&[-2; 40], 80));
            all
        }),
        no_mirror("ends of sixteen bytes", {
            let mut all = data(&[1], 80);
            all.extend(data(&[-2; 60], 16));
            all
        }),
        no_mirror("absurd numbers", data(&[1, i64::MAX, 3, i64::MAX - 1, -4], 500)),
        no_mirror("an end that owns to more than there can be", data(&[1, 2, i64::MIN, -3], 500)),
        no_mirror("an end that owns to fewer", data(&[1, 2, 3, 4, -2], 500)),
        no_mirror(
            "the same number all the time",
            [vec![1; 100], vec![-2]].map(|n| data(&n, 200)).concat(),
        ),
        no_mirror("backwards", data(&[9, 8, 7, 6, 5, 4, 3, 2, 1, -10], 500)),
        no_mirror("microseconds that are none", {
            let mut all = data(&[1, 2, -3], 500);
            all[1][8..12].fill(0xff);
            all
        }),
        no_mirror("datagrams of all lengths", {
            (1..60)
                .map(|n| datagram(n, &plain(), 16 + n as usize * 20))
                .chain(data(&[-60], 16))
                .collect()
        }),
        no_mirror("a header that changes", {
            let other = with(|header| header.reverse = true);
            vec![datagram(1, &header, 500), datagram(2, &other, 500), datagram(-3, &other, 500)]
        }),
        no_mirror("numbers of 32 bits", {
            let narrow = with(|header| header.wide = false);
            (1..20).chain([-20]).map(|n| datagram(n, &narrow, 300)).collect()
        }),
        attack("a client that vanishes", |_| {
            let socket = udp();
            for number in 1..20 {
                let _ = socket.send(&datagram(number, &plain(), 500));
            }
        }),
        attack("a hundred that vanish", |_| {
            for _ in 0..100 {
                // Of this address no other attack is: its streams outlive these sockets, whose ports others may get.
                let socket = UdpSocket::bind("127.0.0.2:0").unwrap();
                let _ = socket.send_to(&datagram(1, &plain(), 500), SocketAddr::from(AT));
            }
        }),
        attack("a stranger on a stream's way", |_| {
            let (mine, other) = (udp(), udp());
            for number in 1..50 {
                let _ = mine.send(&datagram(number, &plain(), 500));
                // Its end is its own, and ends nobody else's stream.
                let _ = other.send(&datagram(-1, &plain(), 500));
            }
            let _ = mine.send(&datagram(-50, &plain(), 500));
            let mut buffer = [0; 1_000];
            let report = mine.recv(&mut buffer).ok().and_then(|n| Report::decode(&buffer[..n]));
            // Beside so many attacks some of them may find no room; the end says how many there were.
            let counted = report.map(|report| report.datagrams);
            assert!(counted.is_none_or(|counted| counted == 50), "{counted:?}");
        }),
    ]
}

fn of_tcp() -> Vec<Attack> {
    let header = Header { wide: false, length: 0, ..plain() };
    let reset = |bytes: Vec<u8>| {
        move |_: SocketAddr| {
            let stream = socket2::Socket::from(tcp(&bytes));
            stream.set_linger(Some(Duration::ZERO)).unwrap();
        }
    };
    let closes = |name, bytes: Vec<u8>| attack(name, move |_| drop(tcp(&bytes)));
    let refused = |name, bytes: Vec<u8>| attack(name, move |_| hung_up(tcp(&bytes)));
    let mut long = asked(&header);
    long[2..4].copy_from_slice(&[0x01, 0xfe]);
    let duplex = Header { full_duplex: true, ..header };
    let huge = Header { reverse: true, amount: Some(Amount::Time(u32::MAX >> 1)), ..header };
    let block = Header { reverse: true, length: u32::MAX, ..header };
    let whole = asked(&header);
    let mut cases = vec![
        refused("a connection that says nothing", vec![]),
        refused("three bytes", vec![0x40, 1, 0]),
        refused("half a header", whole[..30].to_vec()),
        refused("all of a header but a byte", whole[..63].to_vec()),
        refused("a header of 255 bytes that ends", long.to_vec()),
        refused("-d to no port", with_back(0, true)),
        refused("-r to another service of its host", with_back(25, false)),
        closes("-d to where nobody listens", with_back(1_025, true)),
        attack("-r of who sends nothing, and reads nothing", |_| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(tcp(&with_back(port.into(), false)));
            let mut came = None;
            assert!(wait_for(LONG, || {
                came = listener.accept().ok();
                came.is_some()
            }));
        }),
        refused("--bounceback", {
            let mut b = whole.to_vec();
            b[1] |= 0x80;
            b
        }),
        refused("--full-duplex of who sends nothing", {
            asked(&Header { amount: Some(Amount::Bytes(100_000)), ..duplex }).to_vec()
        }),
        refused("--full-duplex for a year", asked(&Header { full_duplex: true, ..huge }).to_vec()),
        closes("--full-duplex and away", asked(&duplex).to_vec()),
        refused("-R for a year", asked(&huge).to_vec()),
        refused("-R in blocks of 4 GiB", asked(&block).to_vec()),
        closes("a header and no data", whole.to_vec()),
        closes("no header", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        closes("TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
        closes("zeros", vec![0; 10_000]),
        closes("ones", vec![0xff; 10_000]),
        closes("linerate's own preamble", linerate_wire::native::PREAMBLE.to_vec()),
        closes("-R and away", asked(&Header { reverse: true, ..header }).to_vec()),
        attack("a header one byte at a time", |_| {
            let header = Header { wide: false, ..plain() };
            let mut stream = tcp(&[]);
            let until = Instant::now() + Duration::from_secs(8);
            for byte in asked(&header) {
                if Instant::now() > until || stream.write_all(&[byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(300));
            }
            hung_up(stream);
        }),
        attack("-R to who does not read", |_| {
            let header = Header { reverse: true, wide: false, ..plain() };
            let stream = tcp(&asked(&header));
            std::thread::sleep(Duration::from_secs(2));
            drop(stream);
        }),
        attack("two hundred idle connections", |_| {
            let idle: Vec<_> = (0..200).map(|_| tcp(&[0x40])).collect();
            idle.into_iter().for_each(hung_up);
        }),
    ];
    for length in [0, 3, 40, 64] {
        cases.push(attack("a reset within, or after, the header", reset(whole[..length].to_vec())));
    }
    cases
}

fn honest(server: &mut Server, after: &str) {
    assert!(server.alive(), "{after}: the server is gone");
    for (verb, end) in [("udp", "-k5"), ("tcp", "--bytes=100k")] {
        let args = [verb, "127.0.0.1", "--dialect", "iperf2", "-b", "2M", end, "--json"];
        let ran = linerate(None, &args);
        assert_eq!(ran.code, 0, "{after}: {}; the server says: {}", ran.err, server.log());
        assert_eq!(ran.record()["status"], "complete", "{after}: {}", ran.out);
    }
}

#[test]
fn a_catalogue_of_attacks_in_iperf_2s_dialect() {
    let _alone = alone();
    let mut cases = of_udp();
    cases.extend(of_tcp());
    assert!(cases.len() >= 60, "{}", cases.len());
    let more = [MANY, &["--iperf2", "--max-idle", "5s"]].concat();
    survives(&mut Server::start(None, &more), &cases, honest);
}

#[test]
fn a_thousand_silent_connections_keep_nobody_out() {
    let _alone = alone();
    let _server = Server::start(None, &["--iperf2"]);
    let at = SocketAddr::from(AT);
    assert!(wait_for(LONG, || TcpStream::connect(at).is_ok()));
    outlasts_a_thousand_silent_connections(at, "iperf2");
}

#[test]
fn a_report_is_the_same_however_often_it_is_asked_for() {
    let _alone = alone();
    let server = Server::start(None, &["--iperf2"]);
    let reports = || -> Vec<Vec<u8>> {
        let socket = udp();
        for number in [1, 2, 4, 5] {
            socket.send(&datagram(number, &plain(), 500)).unwrap();
        }
        // As real clients do: the number goes on, and nothing of it was data.
        let ask = |number: i64| {
            let mut buffer = [0; 1_000];
            socket.send(&datagram(-number, &plain(), 500)).unwrap();
            socket.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec())
        };
        (6..16).filter_map(ask).collect()
    };
    let mut all = Vec::new();
    // A stream is answered for 250 ms after a report, within which this thread may not come to ask again.
    let two = wait_for(LONG, || {
        all = reports();
        all.len() >= 2
    });
    assert!(two && all.iter().all(|report| report.len() == REPORT_BYTES), "{all:?}");
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
    let report = Report::decode(&all[0]).expect("a report");
    assert_eq!((report.lost, report.bytes), (1, 5 * 500), "{report:?}");
    assert_eq!(report.datagrams, 6, "{report:?}");
    server.says("\"ended\"", 1);
}

#[test]
fn networks_that_are_not_allowed_hear_nothing() {
    let _alone = alone();
    let server = Server::start(None, &["--iperf2", "--allow", "192.0.2.0/24"]);
    let stream = (1..20).chain([-20; 20]).map(|number| datagram(number, &plain(), 500));
    assert_eq!(answers(&stream.collect::<Vec<_>>()), (0, 0));
    hung_up(tcp(&asked(&Header { wide: false, ..plain() })));
    assert!(!server.log().contains("\"started\""), "{}", server.log());
}

#[test]
fn who_wants_a_key_takes_no_clients_of_iperf_2() {
    let _alone = alone();
    let ran = linerate(None, &["serve", "--iperf2", "--key-file", "/dev/null"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}
