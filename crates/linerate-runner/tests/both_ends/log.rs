//! What a server reports: every test once, whoever is turned away, and no owner holds it up.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;

use linerate_model::served::{Outcome, RefusalKind};
use linerate_model::units::Nanos;
use linerate_runner::server::{Event, Options};
use linerate_testkit::peer::iperf3;
use linerate_wire::iperf3::ErrorNumber;

use crate::support::{HANGS, Served, lasting, little, request, run, tcp, udp};

/// Says what no server understands, and waits until it hangs up.
fn junk(server: &Served) {
    let mut stream = TcpStream::connect(server.at).unwrap();
    stream.set_read_timeout(Some(HANGS)).unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
    let timed_out =
        stream.read(&mut [0; 64]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!timed_out, "the server does not hang up");
}

#[test]
fn each_test_begins_and_ends_once() {
    let server = Served::start(Options::default());
    let records: Vec<_> = std::thread::scope(|scope| {
        let tests = (0..6).map(|_| scope.spawn(|| server.run(little())));
        tests.collect::<Vec<_>>().into_iter().map(|test| test.join().unwrap()).collect()
    });
    server.ended(6);
    let mut seen = BTreeMap::<_, Vec<_>>::new();
    for event in server.events() {
        match event {
            Event::TestStarted(test) => seen.entry(test.id).or_default().push(None),
            Event::TestEnded(test, result) => {
                seen.entry(test.id).or_default().push(Some(result.outcome));
            }
            Event::Listening(..) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen.len(), 6);
    for record in records {
        assert_eq!(seen[&Some(record.id)], [None, Some(Outcome::Done)]);
    }
}

#[test]
fn who_is_turned_away_is_reported_with_the_ground() {
    let server = Served::start(Options { max_duration: Nanos::from_secs(5), ..Options::default() });
    server.run(lasting(10_000, udp(100)));
    let (kind, why) = server.refused(1);
    assert_eq!(kind, RefusalKind::Policy);
    assert!(why.contains("10 s is longer than this server's 5 s"), "{why}");
    junk(&server);
    let (kind, why) = server.refused(2);
    assert_eq!((kind, &*why), (RefusalKind::Protocol, "not a protocol spoken here"));
    // In iperf3's dialect it hears one of iperf3's numbers.
    iperf3::Peer::asked(server.at, r#"{"tcp":true,"len":1000,"time":200}"#)
        .fails(ErrorNumber::TOO_LONG);
    assert_eq!(server.refused(3).0, RefusalKind::Policy);
    assert!(!server.events().iter().any(|event| matches!(event, Event::TestStarted(_))));
}

#[test]
fn what_a_log_leaves_out_is_counted_in_it() {
    const TIMES: u64 = 200;
    let server = Served::start(Options::default());
    for _ in 0..TIMES {
        junk(&server);
    }
    server.stop();
    let (mut reported, mut more) = (0, 0);
    for event in server.ends() {
        match event {
            Event::Refused { .. } => reported += 1,
            Event::RefusedMore { network, count } => {
                assert_eq!(network.to_string(), "127.0.0.1");
                more += count;
            }
            _ => {}
        }
    }
    assert_eq!(reported + more, TIMES);
    assert!(more > 0, "all were reported one by one");
}

#[test]
fn an_owner_who_reads_nothing_holds_nobody_up() {
    let (release, released) = channel::<()>();
    let server = Served::watched(Options::default(), move |event| {
        if matches!(event, Event::Refused { .. }) {
            let _ = released.recv();
        }
    });
    junk(&server);
    // From here on nobody takes events.
    server.honest();
    server.run(lasting(200, tcp()));
    assert!(matches!(server.events()[..], [Event::Listening(..)]), "{:#?}", server.events());
    drop(release);
    server.refused(1);
    assert_eq!(server.ended(2).1.outcome, Outcome::Done);
}

#[test]
fn a_name_that_is_odd_is_no_name() {
    let server = Served::start(Options::default());
    let record = run(&request(server.at, little()));
    assert_eq!(server.started(1).id, Some(record.id));
    let peer: std::net::SocketAddr = server.started(1).peer.parse().expect("an address");
    assert_eq!(peer.ip(), server.at.ip());
}
