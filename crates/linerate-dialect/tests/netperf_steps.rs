//! Single steps of netperf's conversations.

use std::num::NonZeroU16;
use std::sync::Arc;

use linerate_dialect::ending::Failure;
use linerate_dialect::netperf::client;
use linerate_dialect::netperf::server::{Server, Terms};
use linerate_dialect::stream::{DataEvent, Report};
use linerate_dialect::{Action, Conversation, Granted, Input, Seen};
use linerate_model::plan::{AgreedPlan, End, TestPlan, Traffic, Transport, UdpPlan};
use linerate_model::sample::{RecvCounts, RecvReport, RrReport, SendReport};
use linerate_model::units::DatagramSize;
use linerate_session::assemble::HostSamples;
use linerate_testkit::plans;
use linerate_wire::netperf::{
    Ask, FRAME_BYTES, Frame, Length, Old, Request, Response, Results, ask,
};

const SECOND: u64 = 1_000_000_000;

/// Of two seconds, a connection for each transaction.
fn request() -> Request {
    Request {
        transport: Transport::Tcp,
        transmits: true,
        receives: true,
        connections: true,
        sizes: Some((1, 1)),
        length: Length::Seconds(2),
        send_buffer: None,
        receive_buffer: None,
        send_size: None,
        receive_size: None,
        nodelay: false,
        measure_cpu: true,
        no_checksum: false,
        may_route: true,
        data_port: None,
        peer_port: None,
        congestion: None,
        tos: None,
        core: None,
        ip: None,
        old: None,
    }
}

const PORT: NonZeroU16 = NonZeroU16::new(40_000).unwrap();

/// A server that has granted a test at 0.
fn asked(request: Request, traffic: Traffic) -> Server {
    let terms = Terms {
        request,
        agreed: Arc::new(AgreedPlan { plan: plans::plan(traffic), cuts: vec![] }),
        longest_ns: 60 * SECOND,
        most_bps: None,
        no_data_ns: 60 * SECOND,
    };
    Server::new(terms, 0)
}

/// One whose test runs from 0 on.
fn running(request: Request) -> Server {
    let mut server = asked(request, Traffic::Rr(plans::rr(Transport::Tcp)));
    for input in [Input::Listening(0, PORT), Input::Arrived(0), Input::Prepared(None)] {
        server.input(0, &Seen::default(), input);
        while server.action().is_some() {}
    }
    server
}

/// What the server asks for when nothing but time passes until `at_ns`.
fn asked_at(server: &mut Server, at_ns: u64) -> Vec<Action> {
    let seen = Seen { moved: at_ns, ..Seen::default() };
    server.input(at_ns, &seen, Input::Time);
    std::iter::from_fn(|| server.action()).collect()
}

/// These words in hexadecimal, the header's first; the rest is 0.
fn message(words: &str) -> Vec<u8> {
    let words = words.split_whitespace().map(|word| u32::from_str_radix(word, 16).expect("a word"));
    let mut bytes: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
    bytes.resize(FRAME_BYTES, 0);
    bytes
}

/// The request of 2.7.1's client for `-t UDP_STREAM -l 1 -- -m 1460`. One of 2.6.0 has the same words, by its source,
/// reads a response of the same, and results of the same up to the CPU's share.
#[test]
fn clients_of_2_6_and_2_7_are_answered_in_words_that_both_read() {
    let bytes = message(
        "61 ffffffff ffffffff ffffffff 8 0 92 ffffffff ffffffff ffffffff 8 0 0 ffffffff 0 0 1 0 0 \
         0 0 0 0 4 2 11 4 eb4e 0 0 0 0 0 0 0 0 0 0 ffffffff ffffffff",
    );
    let Ask::Test(Ok(request)) = ask(&Frame::read(&bytes).expect("whole")) else {
        panic!("it asks for a test");
    };
    let mut server = asked(*request, Traffic::Udp(plans::udp()));
    let granted = Some(Granted { send: 0x34000, receive: 0x34000 });
    server.input(0, &Seen { granted, ..Seen::default() }, Input::Listening(0, PORT));
    let response = "62 0 34000 34000 0 34000 ffffffff 0 0 0 0 0 0 9c40 0 0 0 0 ffffffff ffffffff";
    assert_eq!(server.outgoing(), message(response));
    let counts = RecvCounts { bytes: 294_543_320, datagrams: 201_742, ..RecvCounts::default() };
    let report = RecvReport { counts, receive_buffer: 0x34000, ..RecvReport::default() };
    let done = DataEvent::Done(0, Box::new(Report::Recv(report)));
    for (at, input) in [
        (0, Input::Carried(FRAME_BYTES)),
        (0, Input::Arrived(0)),
        (0, Input::Prepared(None)),
        (SECOND, Input::Data(done, &|_| None)),
        (SECOND, Input::Host(HostSamples::default(), Default::default())),
    ] {
        server.input(at, &Seen::default(), input);
    }
    let unknown = "0 ".repeat(15);
    let results = format!("63 0 0 118e5fd8 3140e 34000 0 0 0 0 0 0 3f800000 {unknown}ffffffff");
    assert_eq!(server.outgoing(), message(&results));
}

/// It counts by that how many were sent.
#[test]
fn a_client_hears_how_large_the_datagrams_are_that_it_will_have() {
    let request = Request {
        transport: Transport::Udp,
        receives: false,
        connections: false,
        sizes: None,
        ..request()
    };
    let udp = UdpPlan::new(DatagramSize::new(4_608).unwrap());
    let mut server = asked(request, Traffic::Udp(udp));
    let granted = Some(Granted { send: 400_000, receive: 400_000 });
    server.input(0, &Seen { granted, ..Seen::default() }, Input::Listening(0, PORT));
    let response = Response::read(&Frame::read(server.outgoing()).unwrap()).unwrap();
    assert_eq!((response.send_size, response.receive_size), (Some(4_608), None));
    assert_eq!(response.send_buffer, Some(400_000));
}

#[test]
fn what_cores_do_is_of_the_agreed_time_and_not_of_what_a_server_waits_longer() {
    let mut server = running(request());
    let before = asked_at(&mut server, 2 * SECOND - 1);
    assert!(!before.contains(&Action::HostOver), "{before:?}");
    // It wakes by itself in time.
    assert_eq!(server.deadline_ns(), Some(2 * SECOND));
    let over = asked_at(&mut server, 2 * SECOND);
    assert!(over.contains(&Action::HostOver) && !over.contains(&Action::Stop), "{over:?}");
    let again = asked_at(&mut server, 2 * SECOND + SECOND / 2);
    assert!(!again.contains(&Action::HostOver) && !again.contains(&Action::Stop), "{again:?}");
    let end = asked_at(&mut server, 3 * SECOND);
    assert!(end.contains(&Action::Stop), "{end:?}");
}

/// A client of such messages keeps its connection and waits for the results.
#[test]
fn as_many_requests_as_were_asked_for_end_a_test_in_old_messages() {
    let length = Length::Units(50);
    let today = Request { connections: false, sizes: Some((100, 200)), length, ..request() };
    for (old, ends) in [(Some(Old::Requests), true), (None, false)] {
        let mut server = running(Request { old, ..today.clone() });
        let mut stops = |at_ns: u64, moved: u64| {
            let seen = Seen { moved, ran_ns: u64::MAX, ..Seen::default() };
            server.input(at_ns, &seen, Input::Time);
            std::iter::from_fn(|| server.action()).any(|action| action == Action::Stop)
        };
        assert!(!stops(SECOND, 14_999), "{old:?}");
        assert!(!stops(2 * SECOND, 14_999), "{old:?}");
        // The last response may still be on its way.
        assert!(!stops(3 * SECOND, 15_000), "{old:?}");
        assert_eq!(stops(3 * SECOND + SECOND / 4, 15_000), ends, "{old:?}");
    }
}

/// What was in the send buffer at the end of sending is among the bytes that a server counts.
#[test]
fn bytes_arrive_until_the_results_come() {
    let plan = plans::plan(Traffic::Tcp(plans::tcp()));
    let terms = client::Terms { plan, request: None, patience_ns: 15 * SECOND };
    let mut client = client::Client::new(terms, 0);
    let response = Response { data_port: Some(PORT), ..Response::default() }.encode();
    let sent = SendReport { span_ns: SECOND, ..SendReport::default() };
    let done = DataEvent::Done(0, Box::new(Report::Send(sent)));
    let results = Results { received: 1_000_000, ..Results::default() }.encode(0);
    let mut began_ns = 0;
    for (at_ns, input) in [
        (0, Input::Bytes(response.bytes())),
        (0, Input::Arrived(0)),
        (0, Input::Prepared(None)),
        (SECOND, Input::Data(done, &|_| None)),
        (SECOND, Input::Host(HostSamples::default(), Default::default())),
        (3 * SECOND, Input::Bytes(results.bytes())),
    ] {
        client.input(at_ns, &Seen::default(), input);
        while let Some(action) = client.action() {
            if let Action::Begin(at_ns) = action {
                began_ns = at_ns;
            }
        }
    }
    let ended = client.ended();
    let received = ended.streams[0].recv.as_ref().expect("what the server received");
    assert_eq!(received.counts.bytes, 1_000_000);
    assert_eq!(received.last_ns, Some(3 * SECOND - began_ns));
}

/// A server of connections that are made no more ends by its clock, which may be far from over.
#[test]
fn a_client_whose_requests_broke_says_why_where_no_results_come() {
    let plan = plans::plan(Traffic::Rr(plans::rr(Transport::Tcp)));
    let terms = client::Terms { plan, request: None, patience_ns: 15 * SECOND };
    let mut client = client::Client::new(terms, 0);
    let response = Response { data_port: Some(PORT), ..Response::default() }.encode();
    let broken = RrReport { error: Some("no port is free".into()), ..RrReport::default() };
    let done = DataEvent::Done(0, Box::new(Report::Rr(broken)));
    for input in [
        Input::Bytes(response.bytes()),
        Input::Arrived(0),
        Input::Prepared(None),
        Input::Data(done, &|_| None),
        Input::Host(HostSamples::default(), Default::default()),
    ] {
        client.input(0, &Seen::default(), input);
        while client.action().is_some() {}
    }
    assert_eq!(client.outcome(), None);
    client.input(15 * SECOND, &Seen::default(), Input::Time);
    let trouble = client.ended().trouble.expect("there are no results");
    let Failure::Server(why) = trouble.failure else { panic!("{trouble:?}") };
    assert_eq!(why, "its results did not come in time, after no port is free");
}

/// Its requests leave all the same.
#[test]
fn a_client_whose_requests_nobody_answers_gives_the_server_up() {
    let plan = plans::plan(Traffic::Rr(plans::rr(Transport::Udp)));
    let plan = TestPlan { end: End::Datagrams(1_000), ..plan };
    let terms = client::Terms { plan, request: None, patience_ns: 15 * SECOND };
    let mut client = client::Client::new(terms, 0);
    let response = Response { data_port: Some(PORT), ..Response::default() }.encode();
    for input in [Input::Bytes(response.bytes()), Input::Arrived(0), Input::Prepared(None)] {
        client.input(0, &Seen::default(), input);
        while client.action().is_some() {}
    }
    let gives_up = (1..=40).find(|second| {
        let seen = Seen { moved: *second, ran_ns: u64::MAX, ..Seen::default() };
        client.input(*second * SECOND, &seen, Input::Time);
        std::iter::from_fn(|| client.action()).any(|action| action == Action::Stop)
    });
    assert_eq!(gives_up, Some(31));
}
