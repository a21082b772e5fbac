//! How tests of iperf3's clients end at the server: well, though the path is full or data is late; and
//! early, with the reason, when a limit is crossed, a stream breaks, or the client vanishes.

use crate::support;
use linerate_testkit::peer::LONG;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::iperf3::{Face, Iperf3, Peer, installed, possible, results, udp};
use crate::support::{Lab, Server, alone, linerate, list, number, wait_for};
use linerate_wire::iperf3::datagram::{Counters, Header};
use linerate_wire::iperf3::{ErrorNumber, State, hello};

const B: &str = "10.77.1.2";
const UDP: &str = r#"{"udp":true,"len":500,"time":5,"bandwidth":100000}"#;

fn serve(args: &[&str]) -> (Server, SocketAddr) {
    let server = Server::start(None, args);
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    (server, at)
}

#[test]
#[ignore = "long"]
fn a_test_may_last_longer_than_the_wait_for_data() {
    let _alone = alone();
    if !installed("a_test_may_last_longer_than_the_wait_for_data") {
        return;
    }
    let server = Face::start("--rcv-timeout 1500");
    let all = [
        "-t 4 -b 2M",
        "-t 3 -O 2 -b 2M --bidir",
        "-t 4 -u -b 1M -l 500",
        "-t 4 -R -b 2M",
        "-t 4 -u -R -b 1M",
    ];
    let clients: Vec<Iperf3> =
        all.iter().map(|args| Iperf3::here("127.0.0.1", server.port, args)).collect();
    for ended in clients.into_iter().map(Iperf3::end) {
        ended.well();
    }
    // And it ends when there is none.
    let (peer, _socket) = Peer::running(server.at(), UDP);
    peer.fails(ErrorNumber::NO_DATA);
}

/// Data of the warm-up counts as a sign of life at the client, too.
#[test]
#[ignore = "long"]
fn a_warm_up_may_last_longer_than_the_clients_wait_for_data() {
    let _alone = alone();
    let (server, _) = serve(&[]);
    let port = server.port.to_string();
    for protocol in [&["-b", "2M"][..], &["-u", "-b", "1M"]] {
        let args = ["iperf3", "-c", "127.0.0.1", "-p", &port, "-R", "-O", "4", "-t", "1"];
        let ran = linerate(None, &[&args[..], &["--rcv-timeout", "1000"], protocol].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
}

/// A fifth more than the path takes: what asks the client's kernel whether it is there goes through the same
/// full queues, which drop a packet of six each way. A question a second for ten seconds is answered at least
/// once in all but 7 of a million tests; at half as much again, in all but 3 of a thousand.
#[test]
#[ignore = "long"]
fn an_overloaded_path_is_no_vanished_client() {
    let _alone = alone();
    if !possible("an_overloaded_path_is_no_vanished_client") {
        return;
    }
    let lab = Lab::routed();
    for device in ["left", "right"] {
        let tbf = "handle 1: tbf rate 10mbit burst 3000 limit 100000";
        lab.run("r", &format!("tc qdisc add dev {device} root {tbf}"));
        // A queue of packets: small ones find as little room as large ones.
        lab.run("r", &format!("tc qdisc add dev {device} parent 1:1 handle 10: pfifo limit 10"));
    }
    let server = Server::start(Some(&lab.space("b")), &[]);
    let clients: Vec<Iperf3> = ["-u -R -b 12M -t 10 -J", "-u -b 12M -t 10 -J"]
        .iter()
        .map(|args| Iperf3::start(&lab.space("a"), "10.77.2.2", server.port, args))
        .collect();
    for ended in clients.into_iter().map(Iperf3::end) {
        let document = ended.well().document();
        let sum = &document["end"]["sum"];
        assert!(number(sum, "lost_packets") > number(sum, "packets") / 10, "{sum}");
    }
}

#[test]
#[ignore = "long"]
fn data_stops_when_the_clients_host_vanishes() {
    let _alone = alone();
    if !possible("data_stops_when_the_clients_host_vanishes") {
        return;
    }
    // Each waits in networks of its own for most of its time, so all do at once.
    std::thread::scope(|scope| {
        for args in
            ["-u -R -b 2M -l 1000 -t 60", "-R -b 2M -t 60", "-u --bidir -b 2M -l 1000 -t 60"]
        {
            scope.spawn(move || vanish(args));
        }
    });
}

fn vanish(args: &str) {
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &[]);
    let client = Iperf3::start(&lab.space("a"), B, server.port, args);
    server.says("\"started\"", 1);
    std::thread::sleep(Duration::from_secs(1));
    // Nothing comes from it any more; what goes to it is counted.
    lab.nft(
        "a",
        "add table inet t\nadd counter inet t heard\n\
         add chain inet t i { type filter hook prerouting priority -300; }\n\
         add chain inet t o { type filter hook output priority -300; }\n\
         add rule inet t i counter name heard drop\n\
         add rule inet t o drop\n",
    );
    server.says("has not answered for 10s", 1);
    let heard = || lab.counter("a", "heard").0;
    assert!(heard() > 0, "{args}");
    // A connection that was given up sends again what was not acknowledged, ever less often. Streams that go on send
    // hundreds a second, for most of a minute.
    let in_a_second = || {
        let before = heard();
        std::thread::sleep(Duration::from_secs(1));
        heard() - before
    };
    let more: Vec<u64> = (0..20).map(|_| in_a_second()).take_while(|more| *more >= 20).collect();
    assert!(more.len() < 20, "{args}: packets a second after the end: {more:?}");
    client.kill();
}

#[test]
fn the_end_of_a_test_leaves_the_streams_of_another_alone() {
    let _alone = alone();
    let (server, at) = serve(&[]);
    let (first, _socket) = Peer::running(at, UDP);
    let mut second = Peer::granted(at, UDP);
    first.reset();
    server.says("\"vanished\"", 1);
    let socket = udp(at);
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.send(&hello::HELLO).unwrap();
    assert_eq!(socket.recv(&mut [0; 64]).expect("an answer"), 4);
    assert_eq!(second.state(), Some(State::TestStart));
}

/// Rows of ten seconds: the rate is not judged by them.
#[test]
#[ignore = "long"]
fn a_client_below_the_servers_rate_is_not_cut_off() {
    let _alone = alone();
    if !installed("a_client_below_the_servers_rate_is_not_cut_off") {
        return;
    }
    let server = Face::start("-i 10 --server-bitrate-limit 5M");
    let clients: Vec<Iperf3> = ["-b 4900K -t 12", "-u -b 1200K -P 4 -t 12 -i 5", "-b 4M -R -t 12"]
        .iter()
        .map(|args| Iperf3::here("127.0.0.1", server.port, args))
        .collect();
    // Says 100 kbit/s and sends as fast as it can.
    let (mut peer, socket) = Peer::running(server.at(), UDP);
    let begun = Instant::now();
    let mut datagram = [0; 500];
    let mut sent = 0u64;
    peer.control.set_nonblocking(true).unwrap();
    while matches!(peer.control.peek(&mut [0]), Err(ref e) if e.kind() == std::io::ErrorKind::WouldBlock)
    {
        assert!(begun.elapsed() < LONG, "it is let do so: {sent}");
        for _ in 0..20 {
            sent += 1;
            Header { sent_ns: sent, number: sent }.write(Counters::Bits32, &mut datagram);
            let _ = socket.send(&datagram);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    peer.control.set_nonblocking(false).unwrap();
    assert_eq!(peer.state(), Some(State::ServerError));
    let mut number = [0; 4];
    peer.control.read_exact(&mut number).unwrap();
    assert_eq!(i32::from_be_bytes(number), ErrorNumber::RATE.0);
    for ended in clients.into_iter().map(Iperf3::end) {
        ended.well();
    }
}

/// Bytes of one test, both ways together, to the batch.
#[test]
fn a_budget_of_bytes_is_kept() {
    let _alone = alone();
    if !installed("a_budget_of_bytes_is_kept") {
        return;
    }
    const MOST: u64 = 2_000_000;
    // A read or write of TCP, and a train of datagrams.
    const BATCH: u64 = 300_000;
    let (server, _) = serve(&["--max-bytes", "2M"]);
    let carried = |document: &serde_json::Value| -> u64 {
        let rows = list(&document["intervals"]);
        let sum =
            |name: &str| rows.iter().map(|row| row[name]["bytes"].as_u64().unwrap_or(0)).sum();
        let (one, other): (u64, u64) = (sum("sum"), sum("sum_bidir_reverse"));
        one + other
    };
    for args in ["-R -b 100M -t 20 -J", "-u -R -b 100M -t 20 -J", "-u -R -O 5 -b 100M -t 20 -J"] {
        let ended = Iperf3::here("127.0.0.1", server.port, args).end();
        let document = ended.document();
        assert!(!document["error"].is_null(), "{args}: it ended well");
        let got = carried(&document);
        assert!(got <= MOST + BATCH, "{args}: {got}");
    }
    for args in ["-b 100M -t 20", "-u -b 100M -t 20", "-u --bidir -b 100M -t 20"] {
        let ended = Iperf3::here("127.0.0.1", server.port, args).end();
        assert_eq!(ended.code, 1, "{args}: {}", ended.text);
    }
    server.says("more bytes than this server's --max-bytes allows", 6);
    // linerate's own clients are told the reason.
    let port = server.port.to_string();
    for args in [
        &["tcp", "--rate", "100M"][..],
        &["tcp", "--rate", "100M", "-R"],
        &["udp", "--rate", "100M", "--both"],
        &["udp", "--rate", "100M", "-R", "-O", "10s"],
        &["rr", "--request", "10000", "--response", "10000"],
    ] {
        let more = ["127.0.0.1", "-p", &port, "-t", "20s", "--json"];
        let ran = linerate(None, &[args, &more].concat());
        assert!(ran.code != 0 && ran.err.contains("--max-bytes"), "{args:?}: {}", ran.err);
        let totals = &ran.record()["totals"];
        for pair in [&totals["receiver"], &totals["reverse"]["receiver"]] {
            let got = pair["bytes"].as_u64().unwrap_or(0);
            assert!(got <= MOST + BATCH, "{args:?}: {got}");
        }
    }
    // And a plan that names more is refused before it begins.
    for args in [
        &["udp", "-k", "1500", "-l", "1000", "--both"][..],
        &["udp", "-k", "2500", "-l", "1000"],
        &["tcp", "-n", "1500k", "--both"],
    ] {
        let ran = linerate(None, &[args, &["127.0.0.1", "-p", &port, "--json"]].concat());
        assert!(
            ran.code != 0 && ran.err.contains("more than this server's"),
            "{args:?}: {}",
            ran.err
        );
    }
    let args = ["udp", "-k", "1500", "-l", "1000", "-b", "20M", "127.0.0.1", "-p", &port, "--json"];
    linerate(None, &args).complete();
}

/// A stream that broke is no loss of the path: the client is told.
#[test]
fn a_broken_stream_makes_no_results() {
    let _alone = alone();
    let (server, at) = serve(&[]);
    let mut peer = Peer::granted(at, r#"{"tcp":true,"time":5,"bandwidth":100000,"len":1000}"#);
    let mut stream = Peer::connect(at);
    stream.write_all(peer.cookie.bytes()).unwrap();
    assert_eq!(peer.state(), Some(State::TestStart));
    assert_eq!(peer.state(), Some(State::TestRunning));
    stream.write_all(&[0; 1_000]).unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    peer.fails(ErrorNumber::STREAM_READ);
    server.says("receiving failed", 1);
}

/// A client that goes away between its results and the server's: one test, shown once.
#[test]
fn a_test_ends_once_on_the_screen() {
    let _alone = alone();
    let server = Face::start("");
    let (mut peer, socket) = Peer::running(server.at(), UDP);
    let mut datagram = [0; 500];
    Header { sent_ns: 1, number: 1 }.write(Counters::Bits32, &mut datagram);
    socket.send(&datagram).unwrap();
    peer.say(State::TestEnd);
    assert_eq!(peer.state(), Some(State::ExchangeResults));
    // It waits for the second datagram, and the client is gone meanwhile.
    peer.json(&results("1", "2"));
    peer.reset();
    let listening = || server.text().matches("Server listening").count();
    assert!(wait_for(LONG, || listening() == 2), "{}", server.text());
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(listening(), 2, "{}", server.text());
    assert_eq!(server.text().matches("iperf3: error").count(), 1, "{}", server.text());
}

/// Control and data leave by one interface, whose order a packet socket sees.
#[test]
fn reverse_data_follows_the_word_that_the_test_runs() {
    let _alone = alone();
    if !possible("reverse_data_follows_the_word_that_the_test_runs") {
        return;
    }
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &[]);
    let port = server.port;
    let packets = lab.inside("a", move || {
        use socket2::{Domain, Protocol, Socket, Type};
        // ETH_P_IP; SOCK_DGRAM begins with the IP header.
        let protocol = Protocol::from(i32::from(0x0800u16.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol)).expect("root");
        socket.set_recv_buffer_size(4 << 20).expect("a buffer");
        socket.set_read_timeout(Some(Duration::from_secs(6))).expect("a limit");
        move || {
            let mut order = Vec::new();
            let mut packet = [0u8; 2_048];
            while let Ok(length) = (&socket).read(&mut packet) {
                let Some(ip) = packet.get(..length.min(packet.len())) else { break };
                let head = usize::from(ip[0] & 15) * 4;
                let from = u16::from_be_bytes([ip[head], ip[head + 1]]);
                let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
                if from != port {
                    continue;
                }
                match ip[9] {
                    6 => {
                        let start = head + usize::from(ip[head + 12] >> 4) * 4;
                        // 1 and 2: the words that a test starts, and that it runs.
                        let said = ip.get(start..total).unwrap_or_default();
                        order.extend(said.iter().filter(|o| **o == 2).map(|_| "runs"));
                    }
                    17 if total > head + 100 => {
                        order.push("data");
                        if order.len() > 3 {
                            break;
                        }
                    }
                    _ => {}
                }
            }
            order
        }
    });
    let listen = packets.join().expect("a packet socket");
    let client = Iperf3::start(&lab.space("a"), B, port, "-u -R -b 5M -l 1000 -t 1");
    let order = listen();
    client.end().well();
    assert_eq!(order.first(), Some(&"runs"), "{order:?}");
    assert!(order.contains(&"data"), "{order:?}");
}

#[test]
fn options_of_the_server_are_kept() {
    let _alone = alone();
    let core = support::cores().first().expect("a core").to_string();
    let server = Face::start(&format!("-A {core} -6"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
    assert_eq!(cores.split_whitespace().nth(1), Some(&*core));
    assert!(std::net::TcpStream::connect(server.at()).is_err(), "IPv4 with -6");
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        support::skip("options_of_the_server_are_kept", "::1 is not there");
        return;
    }
    let port = server.port.to_string();
    let ran = linerate(None, &["udp", "::1", "-p", &port, "-k", "5", "-b", "2M", "--json"]);
    ran.complete();
}

/// Both faces over IPv6, UDP and TCP, every direction.
#[test]
fn ipv6() {
    let _alone = alone();
    if !installed("ipv6") {
        return;
    }
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        support::skip("ipv6", "::1 is not there");
        return;
    }
    let (server, _) = serve(&[]);
    let mut clients = vec![];
    for protocol in ["-b 2M", "-u -b 1M -l 500"] {
        for direction in ["", "-R", "--bidir -P 2"] {
            let args = format!("-6 {protocol} {direction} -t 2 -J");
            clients.push(Iperf3::here("::1", server.port, &args));
        }
    }
    for ended in clients.into_iter().map(Iperf3::end) {
        let document = ended.well().document();
        assert!(number(&document, "end.sum_received.bytes") > 0, "{document}");
    }
}

/// Whoever sends datagrams to the port gets no more than they sent, and nothing without a test of
/// that very address.
#[test]
fn no_datagram_is_answered_with_more() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    let _waiting = Peer::granted(at, r#"{"udp":true,"len":500,"reverse":true,"parallel":3}"#);
    let native = {
        let mut bytes = vec![0x89; 64];
        bytes[1..].fill(7);
        bytes
    };
    let datagrams: Vec<Vec<u8>> = vec![
        hello::HELLO.to_vec(),
        123_456_789u32.to_le_bytes().to_vec(),
        123_456_789u32.to_be_bytes().to_vec(),
        vec![],
        vec![0; 3],
        vec![0xff; 4],
        vec![0; 1_400],
        native,
    ];
    let exchange = |from: &str, first: Duration| {
        let socket = std::net::UdpSocket::bind((from, 0)).unwrap();
        socket.set_read_timeout(Some(first)).unwrap();
        let (mut sent, mut answered) = (0, 0);
        for datagram in datagrams.iter().cycle().take(3 * datagrams.len()) {
            sent += socket.send_to(datagram, at).unwrap();
        }
        while let Ok((length, _)) = socket.recv_from(&mut [0; 2_048]) {
            answered += length;
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        }
        (sent, answered)
    };
    let (sent, answered) = exchange("127.0.0.2", Duration::from_millis(300));
    assert_eq!(answered, 0, "of {sent} bytes from an address without a test");
    // From its own address one stream opens, however often it says hello; the test wants three and
    // sends nothing yet.
    let (sent, answered) = exchange("127.0.0.1", LONG);
    assert!(answered == 4 && answered <= sent, "{answered} for {sent}");
}
