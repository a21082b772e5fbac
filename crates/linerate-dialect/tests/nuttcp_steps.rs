//! Single steps of nuttcp's conversation at both ends, in the order in which the other may force them.

use std::num::NonZeroU16;
use std::sync::Arc;

use linerate_dialect::control::ControlError;
use linerate_dialect::ending::{Failure, Trouble};
use linerate_dialect::nuttcp::client::{Client, Terms};
use linerate_dialect::nuttcp::server::{self, Server};
use linerate_dialect::stream::{DataEvent, Report};
use linerate_dialect::{Action, Conversation, Input, Seen};
use linerate_model::plan::{AgreedPlan, Direction, End, TestPlan, Traffic};
use linerate_model::sample::{RecvCounts, RecvReport, SendCounts, SendReport};
use linerate_model::served::Outcome;
use linerate_model::units::Nanos;
use linerate_testkit::plans;
use linerate_wire::nuttcp::Parameters;

const SECOND: u64 = 1_000_000_000;
const PATIENCE_NS: u64 = 10 * SECOND;
const MEBIBYTE: u64 = 1 << 20;

/// A mebibyte over TCP, to the client.
fn plan() -> TestPlan {
    let plan = plans::plan(Traffic::Tcp(plans::tcp()));
    TestPlan { direction: Direction::Reverse, streams: 1, end: End::Bytes(MEBIBYTE), ..plan }
}

fn client(greeted: bool) -> Client {
    let line =
        b"buflen = 65536, nbuf = 16, win = 0, nstream = 1, rate = 0, port = 7000, trans = 0, \
        braindead = 0, timeout = 0.000000, udp = 0, vers = 6.1.2";
    let asked = Parameters::decode(line).expect("parameters");
    Client::new(Terms { plan: plan(), asked, greeted, patience_ns: PATIENCE_NS }, 0)
}

fn hear(client: &mut Client, at: u64, text: &str) {
    client.input(at, &Seen::default(), Input::Bytes(text.as_bytes()));
}

fn lose(client: &mut Client, at: u64) {
    client.input(at, &Seen::default(), Input::Lost(ControlError::Closed));
}

fn notes(client: &mut Client) -> usize {
    let actions = std::iter::from_fn(|| client.action());
    actions.filter(|action| matches!(action, Action::Note(_))).count()
}

fn trouble(client: &Client) -> Trouble {
    client.outcome().expect("it has ended").expect_err("with nothing measured")
}

/// A test whose data has come: so many bytes, on a stream that ended in order or was broken.
fn received(bytes: u64, error: Option<&str>) -> Client {
    received_by(client(false), bytes, error)
}

fn received_by(mut client: Client, bytes: u64, error: Option<&str>) -> Client {
    hear(&mut client, 1, "HELO nuttcp v8.2.2\n");
    hear(&mut client, 2, "OK v8.2.2\n");
    let seen = Seen::default();
    client.input(3, &seen, Input::Arrived(0));
    client.input(4, &seen, Input::Prepared(None));
    let counts = RecvCounts { bytes, ..RecvCounts::default() };
    let error = error.map(str::to_owned);
    let report = Box::new(Report::Recv(RecvReport { counts, error, ..RecvReport::default() }));
    client.input(SECOND, &seen, Input::Data(DataEvent::Done(0, report), &|_| None));
    client.input(SECOND, &seen, Input::Host(Default::default(), Default::default()));
    client
}

/// What a server says of so many mebibytes that it sent.
fn results(mb: &str) -> String {
    format!("nuttcp-t: {mb} MB in 1.00 real seconds = 1024.00 KB/sec = 8.3886 Mbps\n")
}

#[test]
fn a_server_that_was_greeted_is_not_greeted_again() {
    assert!(client(false).outgoing().starts_with(b"HELO nuttcp v"));
    let mut greeted = client(true);
    assert!(greeted.outgoing().is_empty());
    hear(&mut greeted, 1, "HELO nuttcp v6.1.2\n");
    assert!(greeted.outgoing().starts_with(b"buflen = 65536, nbuf = 16, "));
}

#[test]
fn a_refusal_is_told_however_it_ends() {
    // With its last word, without it, and with nothing at all.
    for (said, then, why) in [
        ("KO\nno tests\nKO\n", None, "no tests"),
        ("KO\nno tests\n", Some(false), "no tests"),
        ("KO\nno tests\n", Some(true), "no tests"),
        ("KO\nKO\n", None, "it did not say why"),
        ("KO\n", Some(false), "it did not say why"),
    ] {
        let mut client = client(false);
        hear(&mut client, 1, "HELO nuttcp v8.2.2\n");
        hear(&mut client, 2, said);
        match then {
            Some(true) => client.input(2 * PATIENCE_NS, &Seen::default(), Input::Time),
            Some(false) => lose(&mut client, 3),
            None => {}
        }
        let Failure::Refused(refused) = trouble(&client).failure else { panic!("{said}") };
        assert_eq!(refused.why, why, "{said}");
    }
}

#[test]
fn what_is_no_line_of_nuttcps_is_named_as_that() {
    for said in ["SSH-2.0-OpenSSH_9.7\r\n", "HELO nuttcp v\n", "OK v8.2.2\n", &"a".repeat(5_000)] {
        let mut client = client(false);
        hear(&mut client, 1, said);
        assert!(matches!(trouble(&client).failure, Failure::Protocol(_)), "{said}");
    }
}

#[test]
fn a_server_that_warns_for_ever_is_shown_for_a_while() {
    let mut client = received(MEBIBYTE, None);
    notes(&mut client);
    for _ in 0..1_000 {
        hear(&mut client, SECOND, "nuttcp-t: Warning: it is late\n");
    }
    assert_eq!(notes(&mut client), 20);
}

#[test]
fn results_end_a_test_when_the_server_hangs_up_or_when_it_should_have() {
    for hangs_up in [true, false] {
        let mut client = received(MEBIBYTE, None);
        hear(&mut client, SECOND, &results("1.0000"));
        assert!(!client.is_over(), "more may follow");
        match hangs_up {
            true => lose(&mut client, SECOND + 1),
            false => client.input(30 * SECOND, &Seen::default(), Input::Time),
        }
        assert_eq!(client.outcome(), Some(Ok(())));
        let ended = client.ended();
        assert!(ended.results && ended.trouble.is_none(), "{:?}", ended.trouble);
    }
}

#[test]
fn less_than_was_asked_for_is_no_whole_test_and_a_broken_stream_says_so_itself() {
    for (bytes, error, is_short) in [
        (1_000, None, true),
        (MEBIBYTE / 2, None, false),
        (1_000, Some("receiving failed: reset"), false),
    ] {
        let mut client = received(bytes, error);
        hear(&mut client, SECOND, &results("0.0010"));
        lose(&mut client, SECOND + 1);
        let ended = client.ended();
        let why = ended.trouble.map(|trouble| trouble.failure);
        let short = Failure::Server("it sent less than was asked for".into());
        assert_eq!(why == Some(short), is_short, "{bytes} {error:?}: {why:?}");
    }
}

/// As 6.1.2 and 8.2.2 do with `-n` and `-T`.
#[test]
fn of_an_amount_and_a_time_the_first_ends_a_test() {
    let client = |direction: Direction| {
        let trans = u8::from(direction == Direction::Forward);
        let line = format!(
            "buflen = 65536, nbuf = 16, win = 0, nstream = 1, rate = 0, port = 7000, \
             trans = {trans}, braindead = 0, timeout = 0.500000, udp = 0, vers = 8.2.2"
        );
        let asked = Parameters::decode(line.as_bytes()).expect("parameters");
        let plan = TestPlan { direction, ..plan() };
        Client::new(Terms { plan, asked, greeted: false, patience_ns: PATIENCE_NS }, 0)
    };
    let (mut sender, seen) = (client(Direction::Forward), Seen::default());
    hear(&mut sender, 1, "HELO nuttcp v8.2.2\n");
    hear(&mut sender, 2, "OK v8.2.2\n");
    sender.input(3, &seen, Input::Arrived(0));
    sender.input(4, &seen, Input::Prepared(None));
    for (at, wanted) in [(SECOND / 2, false), (SECOND, true)] {
        sender.input(at, &seen, Input::Time);
        let stops = std::iter::from_fn(|| sender.action()).any(|action| action == Action::Stop);
        assert_eq!(stops, wanted, "{at}");
    }
    // The server's time was over before it had sent all.
    let mut receiver = received_by(client(Direction::Reverse), 1_000, None);
    hear(&mut receiver, SECOND, &results("0.0010"));
    lose(&mut receiver, SECOND + 1);
    let trouble = receiver.ended().trouble;
    assert!(trouble.is_none(), "{trouble:?}");
}

#[test]
fn a_server_that_sends_a_count_stops_when_its_time_is_over() {
    // By time alone its threads end by themselves, and it waits for them.
    for (end, at) in [(End::Datagrams(1 << 20), SECOND), (End::Time(Nanos(SECOND)), 3 * SECOND)] {
        let (mut server, seen) = (asked_for(end, false, false), Seen::default());
        server.input(0, &seen, Input::Arrived(0));
        server.input(0, &seen, Input::Prepared(None));
        for (at, wanted) in [(at - 1, false), (at, true)] {
            server.input(at, &seen, Input::Time);
            let stops = std::iter::from_fn(|| server.action()).any(|action| action == Action::Stop);
            assert_eq!(stops, wanted, "{end:?}, {at}");
        }
    }
}

/// Lines of 8.2.2, of datagrams of 1,000 bytes: three of the first interval came in the second.
#[test]
fn what_a_server_takes_for_lost_and_gets_late_is_lost_in_no_row() {
    let line =
        b"buflen = 1000, nbuf = 2147483647, win = 0, nstream = 1, rate = 0, port = 7000, trans = 1, \
        braindead = 0, timeout = 1.000000, udp = 1, vers = 8.2.2, interval = 0.250000";
    let interval = Nanos(SECOND / 4);
    let plan = TestPlan { streams: 1, interval, ..plans::plan(Traffic::Udp(plans::udp())) };
    let asked = Parameters::decode(line).expect("parameters");
    let terms = Terms { plan, asked, greeted: false, patience_ns: PATIENCE_NS };
    let (mut client, seen) = (Client::new(terms, 0), Seen::default());
    hear(&mut client, 1, "HELO nuttcp v8.2.2\nOK v8.2.2\n");
    client.input(2, &seen, Input::Arrived(0));
    client.input(3, &seen, Input::Prepared(None));
    client.input(SECOND, &seen, Input::Time);
    for (mb, drops) in [("0.0925", 3), ("0.0982", -3), ("0.0954", 0), ("0.0954", 0)] {
        let loss = format!("{drops} / 100 ~drop/pkt {drops}.00 ~%loss");
        hear(&mut client, SECOND, &format!("{mb} MB / 0.25 sec = 3.2000 Mbps {loss}\n"));
    }
    let counts = SendCounts { bytes: 400_000, datagrams: 400, ..SendCounts::default() };
    let report = SendReport { counts, span_ns: SECOND, ..SendReport::default() };
    let done = DataEvent::Done(0, Box::new(Report::Send(report)));
    client.input(2 * SECOND, &seen, Input::Data(done, &|_| None));
    client.input(2 * SECOND, &seen, Input::Host(Default::default(), Default::default()));
    hear(&mut client, 3 * SECOND, "DONE\n");
    hear(&mut client, 3 * SECOND, &results("0.3815").replace("nuttcp-t", "nuttcp-r"));
    lose(&mut client, 3 * SECOND);
    assert_eq!(client.outcome(), Some(Ok(())));
    let ended = client.ended();
    let received = ended.streams.first().and_then(|stream| stream.recv.as_ref());
    let received = received.expect("what the server reports");
    let rows = received.intervals.iter().map(|row| {
        let RecvCounts { expected, datagrams, lost, .. } = row.counts;
        (expected, datagrams, lost)
    });
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [(97, 97, 0), (103, 103, 0), (100, 100, 0), (100, 100, 0)]
    );
    assert_eq!((received.counts.expected, received.counts.lost), (400, 0));
}

/// A server that was asked for a second of data, and whose port waits where it receives.
fn asked_of_a_server(udp: bool, client_sends: bool) -> Server {
    asked_for(End::Time(Nanos(SECOND)), udp, client_sends)
}

fn asked_for(end: End, udp: bool, client_sends: bool) -> Server {
    let (trans, datagrams) = (u8::from(client_sends), u8::from(udp));
    let line = format!(
        "buflen = 1000, nbuf = 2147483647, win = 0, nstream = 1, rate = 8000, port = 7000, \
         trans = {trans}, braindead = 0, timeout = 1.000000, udp = {datagrams}, vers = 8.2.2"
    );
    let traffic = if udp { Traffic::Udp(plans::udp()) } else { Traffic::Tcp(plans::tcp()) };
    let direction = if client_sends { Direction::Forward } else { Direction::Reverse };
    let plan = TestPlan { direction, end, ..plans::plan(traffic) };
    let terms = server::Terms {
        asked: Parameters::decode(line.as_bytes()).expect("parameters"),
        agreed: Arc::new(AgreedPlan { plan, cuts: vec![] }),
        peer: std::net::Ipv4Addr::LOCALHOST.into(),
        hurried: false,
        longest_ns: 60 * SECOND,
        most_bps: None,
        no_data_ns: 60 * SECOND,
    };
    let mut server = Server::new(terms, 0);
    let port = NonZeroU16::new(7_000).expect("a port");
    server.input(0, &Seen::default(), Input::Listening(0, port));
    assert_eq!(says(&mut server, 0), "OK v8.2.2\n");
    server
}

/// What it says, which the client reads.
fn says(server: &mut Server, at: u64) -> String {
    let text = String::from_utf8_lossy(server.outgoing()).into_owned();
    server.input(at, &Seen::default(), Input::Carried(text.len()));
    text
}

fn hears_no_more(server: &mut Server, at: u64) {
    // The data threads' kernel knows it as well.
    let seen = Seen { peer_gone: true, ..Seen::default() };
    server.input(at, &seen, Input::Lost(ControlError::Closed));
}

fn early(server: &Server) -> Option<Outcome> {
    server.outcome().expect("it has ended").err().map(|early| early.outcome)
}

/// As nuttcp's client does when all words of its end may be lost, and when it is interrupted.
#[test]
fn a_client_of_datagrams_that_closes_its_half_hears_its_results() {
    for (client_sends, closes, wanted) in [
        (true, 2 * SECOND, None),
        (true, SECOND / 2, Some(Outcome::Vanished)),
        (false, SECOND / 2, Some(Outcome::Vanished)),
    ] {
        let mut server = asked_of_a_server(true, client_sends);
        let seen = Seen { peer_gone: true, ..Seen::default() };
        server.input(0, &Seen::default(), Input::Arrived(0));
        server.input(0, &Seen::default(), Input::Prepared(None));
        server.input(SECOND / 4, &Seen::default(), Input::Time);
        while server.action().is_some() {}
        hears_no_more(&mut server, closes);
        let asked: Vec<Action> = std::iter::from_fn(|| server.action()).collect();
        assert!(asked.contains(&Action::Stop), "{asked:?}");
        assert!(!server.is_over() && !server.reads());
        let report = match client_sends {
            true => Report::Recv(RecvReport {
                counts: RecvCounts { bytes: MEBIBYTE, ..RecvCounts::default() },
                ..RecvReport::default()
            }),
            false => Report::Send(SendReport {
                counts: SendCounts { bytes: MEBIBYTE, ..SendCounts::default() },
                ..SendReport::default()
            }),
        };
        let done = DataEvent::Done(0, Box::new(report));
        server.input(closes + 1, &seen, Input::Data(done, &|_| None));
        server.input(closes + 2, &seen, Input::Host(Default::default(), Default::default()));
        let mut text = says(&mut server, closes + 3);
        // Whoever sent says five times that no datagram follows.
        for half in 1..=5 {
            let at = closes + 4 + half * SECOND / 2;
            server.input(at, &seen, Input::Time);
            text += &says(&mut server, at);
        }
        assert!(text.contains("1.0000 MB in "), "{client_sends}, {closes}: {text}");
        assert_eq!(early(&server), wanted, "{client_sends}, {closes}");
    }
}

#[test]
fn a_client_none_of_whose_datagrams_came_hears_that() {
    let mut server = asked_of_a_server(true, true);
    hears_no_more(&mut server, 3 * SECOND);
    let text = says(&mut server, 3 * SECOND);
    assert!(text.contains("0.0000 MB in 0.00 real seconds"), "{text}");
    assert_eq!(early(&server), Some(Outcome::Vanished));
}

#[test]
fn a_client_over_tcp_that_closes_is_gone() {
    let mut server = asked_of_a_server(false, true);
    server.input(0, &Seen::default(), Input::Arrived(0));
    server.input(0, &Seen::default(), Input::Prepared(None));
    hears_no_more(&mut server, SECOND / 2);
    assert_eq!(early(&server), Some(Outcome::Vanished));
}
