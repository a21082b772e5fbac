//! What a server's owner allows: each limit refuses what is beyond it, on its ground, and takes what is not.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use linerate_model::plan::{Dialect, End, TestPlan, Traffic, TrafficKind, Transport};
use linerate_model::record::Status;
use linerate_model::served::{Outcome, RefusalKind};
use linerate_model::units::{Nanos, Rate};
use linerate_runner::client::Request;
use linerate_runner::server::{Options, serve};
use linerate_runner::signals::Stop;
use linerate_testkit::peer::native::{Peer, plan as asked};
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::support::{
    FAR, HANGS, Served, bits, both, checked, complete, error, from, lasting, listener, little,
    request, reverse, rr, run, tcp, udp,
};

const KEY: &[u8] = b"sixteen bytes or more";

fn paced(bits_per_second: u64, plan: TestPlan) -> TestPlan {
    let mut plan = plan;
    if let Traffic::Tcp(tcp) = &mut plan.traffic {
        tcp.rate = bits(bits_per_second);
    }
    plan
}

fn slow_rr(rate: u64) -> TestPlan {
    let mut plan = rr(Transport::Tcp);
    if let Traffic::Rr(rr) = &mut plan.traffic {
        rr.rate = Some(rate);
        rr.response = 1_000;
    }
    plan
}

/// A server's policy, what it refuses, and what it takes.
fn policies() -> Vec<(&'static str, Options, Vec<TestPlan>, TestPlan)> {
    let options = Options::default;
    let streams = |streams| TestPlan { streams, ..little() };
    let bytes = |bytes, plan| TestPlan { end: End::Bytes(bytes), ..plan };
    let warm = TestPlan { warmup: Nanos::from_secs(2), ..udp(100) };
    vec![
        (
            "2 s",
            Options { max_duration: Nanos::from_secs(2), ..options() },
            vec![lasting(3_000, udp(100)), warm, lasting(2_001, rr(Transport::Udp))],
            lasting(200, udp(100)),
        ),
        (
            "5 Mbit/s",
            Options { max_rate: bits(5_000_000), ..options() },
            vec![
                udp(1_000),
                reverse(udp(626)),
                both(udp(626)),
                tcp(),
                paced(5_000_001, reverse(tcp())),
                rr(Transport::Tcp),
                rr(Transport::Udp),
                slow_rr(1_000),
            ],
            lasting(200, udp(625)),
        ),
        (
            "no test of ",
            Options { kind: Some(TrafficKind::Udp), ..options() },
            vec![tcp(), rr(Transport::Tcp), rr(Transport::Udp)],
            lasting(200, udp(100)),
        ),
        (
            "2 streams",
            Options { max_streams: 2, ..options() },
            vec![streams(3), both(streams(3))],
            streams(2),
        ),
        (
            "20,000 bytes",
            Options { max_bytes: Some(20_000), ..options() },
            vec![bytes(20_001, udp(2_000)), bytes(10_001, both(udp(2_000))), bytes(20_001, tcp())],
            bytes(20_000, udp(2_000)),
        ),
        (
            "6 MiB of memory",
            Options { max_memory: 6 << 20, ..options() },
            // A test of one stream counts as a little more than 3 MiB; without a time, it has rows of an hour.
            vec![
                TestPlan { streams: 5, ..lasting(200, udp(100)) },
                TestPlan { window: Some(64 << 20), ..lasting(200, udp(100)) },
                little(),
            ],
            lasting(200, udp(100)),
        ),
    ]
}

#[test]
fn each_limit_refuses_what_is_beyond_it() {
    for (limit, options, beyond, within) in policies() {
        let server = Served::start(options);
        for (n, plan) in (1..).zip(beyond) {
            let refused = error(&server.run(plan.clone()), "policy", 3);
            assert!(!refused.hints.is_empty(), "{limit}, {plan:?}: {refused:?}");
            let (kind, why) = server.refused(n);
            assert_eq!((kind, &why), (RefusalKind::Policy, &refused.why), "{limit}, {plan:?}");
        }
        complete(&server.run(within));
    }
}

#[test]
fn a_full_server_is_busy_and_free_again() {
    let one = Options { max_tests: 1, ..Options::default() };
    let little_memory = Options { max_memory: 6 << 20, ..Options::default() };
    for options in [one, little_memory] {
        let server = Served::start(options);
        let holds = json!({ "end": { "time": 600_000_000_000u64 }, "interval": 60_000_000_000u64 });
        let (holds, timed) = (asked(&holds), || lasting(100, udp(100)));
        // Not started: a client without a word is borne with for longer.
        let (mut peer, _, _socket) = Peer::ready(server.at, holds);
        error(&server.run(timed()), "busy", 3);
        peer.say(&json!("bye"));
        server.ended(1);
        complete(&server.run(timed()));
    }
}

#[test]
fn one_address_has_its_share_of_the_tests_and_others_have_theirs() {
    let server = Served::start(Options { max_tests_per_address: Some(2), ..Options::default() });
    let holds = || asked(&json!({ "end": { "time": 600_000_000_000u64 } }));
    let mut holding: Vec<_> = (0..2).map(|_| Peer::ready(server.at, holds())).collect();
    let refused = error(&server.run(little()), "busy", 3);
    assert!(refused.why.contains("2 tests of 127.0.0.1 are running"), "{refused:?}");
    complete(&run(&from([127, 0, 0, 3], request(server.at, little()))));
    holding.pop();
    server.ended(2);
    server.honest();
}

/// A connection from one of the loopback's addresses.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn who_is_in_no_allowed_network_gets_not_a_byte() {
    let allow = ["127.0.0.8/30", "127.0.1.1"].map(|network| network.parse().unwrap());
    let server = Served::start(Options { allow: allow.into(), ..Options::default() });
    let mut refused = 0;
    for (address, allowed) in [
        ([127, 0, 0, 9], true),
        ([127, 0, 1, 1], true),
        ([127, 0, 0, 1], false),
        ([127, 0, 0, 12], false),
    ] {
        for dialect in [Dialect::Native, Dialect::Iperf3] {
            let asked = from(address, request(server.at, little()));
            let record = run(&Request { dialect: Some(dialect), ..asked });
            assert_eq!(record.status == Status::Complete, allowed, "{address:?}: {record:?}");
        }
        if allowed {
            continue;
        }
        let mut stream = connect_from(address.into(), server.at);
        stream.set_read_timeout(Some(HANGS)).unwrap();
        let read = stream.read(&mut [0; 64]);
        let hung_up = |e: &std::io::Error| e.kind() != ErrorKind::WouldBlock;
        assert!(read.as_ref().map_or_else(hung_up, |bytes| *bytes == 0), "{read:?}");
        refused += 3;
        let (kind, why) = server.refused(refused - 1);
        assert_eq!(kind, RefusalKind::Policy);
        assert!(why.contains("takes tests from"), "{why}");
    }
}

#[test]
fn one_address_has_its_share_of_the_places_to_wait() {
    let server = Served::start(Options { max_waiting_per_address: 8, ..Options::default() });
    let stranger = Ipv4Addr::new(127, 0, 0, 2);
    let _waiting: Vec<TcpStream> = (0..8).map(|_| connect_from(stranger, server.at)).collect();
    // One more is turned away at once, and the log says so; another address is not.
    let mut late = connect_from(stranger, server.at);
    late.set_read_timeout(Some(HANGS)).unwrap();
    let timed_out = late.read(&mut [0]).is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
    assert!(!timed_out, "it is kept");
    let (kind, why) = server.refused(1);
    assert_eq!(kind, RefusalKind::Busy);
    assert!(why.contains("8 connections of 127.0.0.2 wait to ask"), "{why}");
    complete(&run(&from([127, 0, 0, 4], request(server.at, little()))));
}

#[test]
fn one_address_has_its_bytes_of_the_day() {
    let server = Served::start(Options { max_bytes_per_day: Some(100_000), ..Options::default() });
    let ask = |host, plan| run(&from([127, 0, 0, host], request(server.at, plan)));
    let bytes = |bytes| TestPlan { end: End::Bytes(bytes), ..udp(2_000) };
    error(&ask(2, bytes(200_000)), "policy", 3);
    complete(&ask(2, bytes(40_000)));
    // By time: it ends when the day's bytes are used up, together with those of before.
    ask(2, TestPlan { end: FAR, ..udp(2_000) });
    let (_, cut) = server.ended(2);
    assert_eq!(cut.outcome, Outcome::Cut, "{cut:?}");
    assert!(cut.why.as_deref().is_some_and(|why| why.contains("--max-bytes-per-day")), "{cut:?}");
    let refused = error(&ask(2, little()), "policy", 3);
    assert!(refused.why.contains("it may go on in"), "{refused:?}");
    complete(&ask(3, little()));
}

#[test]
fn who_says_an_end_is_held_to_it() {
    // By count there is no time to refuse: it ends with what it has by then.
    let server = Served::start(Options { max_duration: Nanos::from_secs(1), ..Options::default() });
    std::thread::scope(|scope| {
        for plan in [udp(1_000), reverse(udp(1_000))] {
            let server = &server;
            scope.spawn(move || {
                let record = server.run(TestPlan { end: End::Datagrams(100_000), ..plan });
                error(&record, "server_stopped", 1);
                assert_eq!(record.status, Status::Partial);
                checked(&record);
            });
        }
    });
    // And by time there are no bytes to refuse.
    let server = Served::start(Options { max_bytes: Some(100_000), ..Options::default() });
    server.run(TestPlan { end: FAR, ..udp(2_000) });
    let (_, cut) = server.ended(1);
    assert_eq!(cut.outcome, Outcome::Cut, "{cut:?}");
    assert!(cut.why.as_deref().is_some_and(|why| why.contains("--max-bytes")), "{cut:?}");
}

/// As fast as it goes.
fn unpaced(plan: TestPlan) -> TestPlan {
    let mut plan = TestPlan { end: FAR, ..plan };
    match &mut plan.traffic {
        Traffic::Udp(udp) => udp.rate = None,
        Traffic::Tcp(tcp) => tcp.rate = None,
        Traffic::Rr(rr) => (rr.request, rr.response) = (10_000, 10_000),
    }
    plan
}

#[test]
fn a_budget_of_bytes_is_kept_to_one_in_a_hundred() {
    const MOST: u64 = 50_000_000;
    let server = Served::start(Options { max_bytes: Some(MOST), ..Options::default() });
    let mut tests = 0;
    let mut worst = 0;
    for plan in [
        udp(1),
        reverse(udp(1)),
        both(udp(1)),
        tcp(),
        reverse(tcp()),
        both(tcp()),
        rr(Transport::Tcp),
    ] {
        let plan = unpaced(plan);
        let dialects = match plan.traffic {
            Traffic::Rr(_) => &[Dialect::Native][..],
            _ => &[Dialect::Native, Dialect::Iperf3],
        };
        for dialect in dialects {
            let record =
                run(&Request { dialect: Some(*dialect), ..request(server.at, plan.clone()) });
            assert_ne!(record.status, Status::Complete, "{dialect:?}: {plan:?}");
            tests += 1;
            let (_, cut) = server.ended(tests);
            assert_eq!(cut.outcome, Outcome::Cut, "{dialect:?}: {cut:?}");
            let received = cut.received.as_ref().map_or(0, |received| received.bytes);
            let sent = cut.sent.as_ref().map_or(0, |sent| sent.bytes);
            let answered = cut.answered.map_or(0, |answered| answered * 20_000);
            let carried = received + sent + answered;
            worst = worst.max(carried);
            let bound = MOST - 20_000..=MOST + MOST / 100;
            assert!(bound.contains(&carried), "{dialect:?}: {carried} of {plan:?}");
        }
    }
    println!("FIGURE T10: {tests} tests of {MOST} bytes carried {worst} at most");
}

#[test]
fn a_test_in_which_nothing_moves_ends() {
    let no_data = Duration::from_secs(1);
    let server = Served::start(Options { no_data, ..Options::default() });
    // A datagram and then none for long, from a client that is there all the time.
    let mut plan = TestPlan { end: FAR, ..udp(1) };
    if let Traffic::Udp(udp) = &mut plan.traffic {
        udp.rate = bits(100).map(Rate::Bits);
    }
    server.run(plan);
    let (_, cut) = server.ended(1);
    assert_eq!(cut.outcome, Outcome::Cut, "{cut:?}");
    assert!(cut.why.as_deref().is_some_and(|why| why.contains("--max-idle")), "{cut:?}");
}

fn with(key: Option<&[u8]>, at: SocketAddr) -> Request {
    Request { key: key.map(<[u8]>::to_vec), ..request(at, little()) }
}

#[test]
fn a_key_is_wanted_the_same_at_both_ends() {
    let server = Served::start(Options { key: Some(KEY.to_vec()), ..Options::default() });
    let missing = error(&run(&with(None, server.at)), "key", 3);
    assert!(missing.hints[0].contains("--key-file"), "{missing:?}");
    error(&run(&with(Some(b"another sixteen bytes"), server.at)), "key", 3);
    let grounds = [1, 2].map(|n| server.refused(n));
    assert!(grounds.iter().all(|(kind, _)| *kind == RefusalKind::Key), "{grounds:?}");
    complete(&run(&with(Some(KEY), server.at)));
    // A server without the key is not trusted by a client that has one.
    let open = Served::start(Options::default());
    let unproven = error(&run(&with(Some(KEY), open.at)), "key", 3);
    assert!(unproven.what.contains("cannot trust"), "{unproven:?}");
    // Nor is it asked in a dialect that has no keys.
    let record = run(&Request { dialect: Some(Dialect::Iperf3), ..with(None, server.at) });
    assert!(record.error.is_some(), "iperf3's dialect has no key");
    let (kind, why) = server.refused(3);
    assert_eq!(kind, RefusalKind::Key);
    assert!(why.contains("a shared key, which clients of iperf3 cannot prove"), "{why}");
}

#[test]
fn what_is_impossible_is_refused_by_the_table_of_limits() {
    let server = Served::start(Options::default());
    let cores = TestPlan { server_cpus: vec![8_000], ..little() };
    error(&server.run(cores), "unable", 3);
    for plan in [
        TestPlan { streams: 0, ..little() },
        TestPlan { streams: 129, ..little() },
        TestPlan { dscp: Some(64), ..little() },
        TestPlan { end: End::Bytes(0), ..little() },
        TestPlan { interval: Nanos(1), ..little() },
    ] {
        error(&server.run(plan.clone()), "out_of_range", 2);
    }
    server.honest();
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // Bound, so that nobody else takes it, and nobody listens.
    let held = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    held.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let at = held.local_addr().unwrap().as_socket().unwrap();
    let refused = error(&run(&request(at, little())), "refused", 3);
    assert!(refused.hints[0].contains("linerate serve --port"), "{refused:?}");
    // Somebody else's port: it says nothing that is a frame.
    let (listening, at) = listener();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listening.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let kind = run(&request(at, little())).error.expect("an error").kind;
    assert!(["not_linerate", "server_lost"].contains(&kind.name()), "{kind:?}");
    other.join().unwrap();
    // Its port is taken.
    let (_held, at) = listener();
    let options = Options { bind: Some(at.ip()), port: at.port(), ..Options::default() };
    let taken = serve(&options, || Ok(Stop::default()), |_, _| {}).expect_err("taken");
    assert_eq!(taken.kind.name(), "listen");
    assert!(taken.hints[0].contains(&at.port().to_string()), "{taken:?}");
}
