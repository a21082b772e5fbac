//! Single steps of iperf 2's conversations, in the order in which a peer may force them.

use std::sync::Arc;

use linerate_dialect::ending::Failure;
use linerate_dialect::iperf2::{client, server};
use linerate_dialect::stream::{DataEvent, Report};
use linerate_dialect::{Action, Conversation, Input, Over, Seen};
use linerate_model::plan::{
    AgreedPlan, Direction, End, EngineChoice, TcpPlan, TestPlan, Traffic, UdpPlan,
};
use linerate_model::sample::{RecvCounts, RecvReport, SendCounts, SendReport};
use linerate_model::units::{DatagramSize, Nanos};
use linerate_wire::iperf2 as wire;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn plan() -> TestPlan {
    let udp = UdpPlan {
        size: DatagramSize::new(100).unwrap(),
        rate: None,
        burst: Nanos(0),
        engine: EngineChoice::Auto,
        checksum: true,
    };
    TestPlan {
        traffic: Traffic::Udp(udp),
        direction: Direction::Forward,
        streams: 1,
        end: End::Time(Nanos::from_secs(1)),
        warmup: Nanos(0),
        interval: Nanos::from_secs(1),
        window: None,
        client_cpus: vec![],
        server_cpus: vec![],
        dscp: None,
    }
}

/// A server whose stream runs.
fn running() -> server::Server {
    let terms = server::Terms {
        agreed: Arc::new(AgreedPlan { plan: plan(), cuts: vec![] }),
        longest_ns: 60 * SECOND,
        most_bps: None,
        extended: true,
        silence_ns: 5 * SECOND,
    };
    let mut server = server::Server::new(terms, 0);
    server.input(0, &Seen::default(), Input::Arrived(0));
    server.input(0, &Seen::default(), Input::Prepared(None));
    while server.action().is_some() {}
    server
}

fn received(datagrams: u64) -> Box<Report> {
    let counts =
        RecvCounts { datagrams, bytes: datagrams * 100, expected: 5, ..Default::default() };
    let report =
        RecvReport { counts, first_ns: Some(0), last_ns: Some(SECOND), ..Default::default() };
    Box::new(Report::Recv(report))
}

/// The reports that wait to be sent.
fn said(talk: &mut impl Conversation) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(action) = talk.action() {
        if let Action::SendDatagram(0, datagram) = action {
            all.push(datagram);
        }
    }
    all
}

#[test]
fn a_server_never_says_more_than_it_heard() {
    let mut server = running();
    let seen = Seen { arrived: 200, ..Seen::default() };
    server.input(SECOND, &seen, Input::Data(DataEvent::PeerEnd(0, 5), &|_| None));
    server.input(SECOND, &seen, Input::Data(DataEvent::Done(0, received(2)), &|_| None));
    let mut heard = seen.arrived;
    let mut told = said(&mut server).iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!(told, 128, "200 bytes pay for one report");
    for step in 1..100 {
        server.input(SECOND + step * MS, &seen, Input::Datagram(0, &[0; 16]));
        heard += 16;
        let reports = said(&mut server);
        let decoded = reports.iter().all(|report| wire::Report::decode(report).is_some());
        told += reports.iter().map(Vec::len).sum::<usize>() as u64;
        assert!(decoded && told <= heard, "{told} for {heard}");
    }
    assert_eq!(told, 10 * 128, "ten reports are enough for anybody");
    server.input(2 * SECOND, &seen, Input::Time);
    assert_eq!(server.outcome(), Some(Ok(())));
}

#[test]
fn an_end_that_is_heard_twice_counts_once() {
    let mut server = running();
    for sent in [5, 50] {
        let end = DataEvent::PeerEnd(0, sent);
        server.input(SECOND, &Seen::default(), Input::Data(end, &|_| None));
    }
    let sent = std::iter::from_fn(|| server.action());
    let sent: Vec<_> = sent.filter(|a| matches!(a, Action::PeerSent(..))).collect();
    assert_eq!(sent, [Action::PeerSent(0, 5)]);
}

/// What it says is fixed with the first end: a client's number goes on as it repeats it, and so does the time.
#[test]
fn a_report_is_the_same_however_often_its_end_comes() {
    let mut server = running();
    let seen = Seen { arrived: 10_000, ..Seen::default() };
    for (at, sent) in [(2 * SECOND, 5), (2 * SECOND + 10 * MS, 6)] {
        server.input(at, &seen, Input::Data(DataEvent::PeerEnd(0, sent), &|_| None));
    }
    let at = 2 * SECOND + 50 * MS;
    server.input(at, &seen, Input::Data(DataEvent::Done(0, received(4)), &|_| None));
    let mut end = [0; 100];
    for step in 1..=3 {
        wire::datagram::Mark::end(6 + step, 0).write(&mut end);
        server.input(at + 10 * step * MS, &seen, Input::Datagram(0, &end));
    }
    let all = said(&mut server);
    assert!(all.len() == 4 && all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
    let report = wire::Report::decode(&all[0]).expect("a report");
    assert_eq!((report.datagrams, report.bytes, report.span_ns), (6, 500, 2 * SECOND));
    // Users of this end see the same figures.
    let ends: Vec<_> = server.ends().collect();
    let told = ends[0].told.expect("its end was heard");
    assert_eq!((told.packets, told.bytes, told.seconds), (6, 500, Some(2.0)));
}

#[test]
fn of_a_client_that_vanished_nothing_is_told() {
    let mut server = running();
    let quiet = Seen { data_silence_ns: u64::MAX, ran_ns: u64::MAX, ..Seen::default() };
    server.input(6 * SECOND, &quiet, Input::Time);
    server.input(6 * SECOND, &quiet, Input::Data(DataEvent::Done(0, received(4)), &|_| None));
    let ends: Vec<_> = server.ends().collect();
    assert_eq!((ends.len(), ends[0].told), (1, None));
}

/// Whoever sends on holds no stream: neither when all reports have gone, nor where its bytes pay for few.
#[test]
fn datagrams_do_not_put_off_the_end_of_answering() {
    for (arrived, every_ns, latest_ns) in
        [(100_000, 10 * MS, 400 * MS), (100, 200 * MS, 3 * SECOND), (0, 240 * MS, 3 * SECOND)]
    {
        let mut server = running();
        let seen = Seen { arrived, ..Seen::default() };
        server.input(SECOND, &seen, Input::Data(DataEvent::PeerEnd(0, 5), &|_| None));
        server.input(SECOND, &seen, Input::Data(DataEvent::Done(0, received(1)), &|_| None));
        let mut at = SECOND;
        while !server.is_over() && at < 60 * SECOND {
            at += every_ns;
            server.input(at, &seen, Input::Datagram(0, &[0; 1]));
        }
        assert_eq!(server.outcome(), Some(Ok(())));
        assert!(at <= SECOND + latest_ns + every_ns, "{at} of {every_ns}");
    }
}

#[test]
fn silence_and_the_owners_limits_end_a_stream() {
    let quiet = Seen { data_silence_ns: u64::MAX, ran_ns: u64::MAX, ..Seen::default() };
    let over = Seen { over: Some(Over::Bytes), ..Seen::default() };
    for (seen, at, why) in [(quiet, 6 * SECOND, "Vanished"), (over, SECOND, "Cut")] {
        let mut server = running();
        server.input(at, &seen, Input::Time);
        assert!(!server.is_over(), "its thread reports first");
        server.input(at, &seen, Input::Data(DataEvent::Done(0, received(2)), &|_| None));
        let outcome = server.outcome().unwrap().unwrap_err().outcome;
        assert_eq!(format!("{outcome:?}"), why);
        assert_eq!(server.reports().count(), 1);
    }
    // A thread that does not end holds nobody.
    let mut server = running();
    server.input(SECOND, &Seen::default(), Input::Shutdown("it stops"));
    server.input(6 * SECOND, &Seen::default(), Input::Time);
    assert!(server.is_over());
}

/// A server of a client that sends and receives at once over one connection, and runs.
fn both_ways() -> server::Server {
    let traffic = Traffic::Tcp(TcpPlan::new(1_000));
    let terms = server::Terms {
        agreed: Arc::new(AgreedPlan {
            plan: TestPlan { traffic, direction: Direction::Both, ..plan() },
            cuts: vec![],
        }),
        longest_ns: 60 * SECOND,
        most_bps: None,
        extended: true,
        silence_ns: 5 * SECOND,
    };
    let mut server = server::Server::new(terms, 0);
    let spawns = |server: &mut server::Server| {
        let actions = std::iter::from_fn(|| server.action());
        actions.filter(|action| matches!(action, Action::Spawn(..))).count()
    };
    server.input(0, &Seen::default(), Input::Arrived(0));
    assert_eq!(spawns(&mut server), 0, "the other way is not there yet");
    server.input(0, &Seen::default(), Input::Arrived(1));
    assert_eq!(spawns(&mut server), 2);
    server.input(0, &Seen::default(), Input::Prepared(None));
    server
}

fn sender(error: Option<&str>) -> Box<Report> {
    let error = error.map(str::to_owned);
    Box::new(Report::Send(SendReport { error, span_ns: SECOND, ..SendReport::default() }))
}

#[test]
fn both_ways_over_one_connection_end_with_the_last_of_them() {
    let seen = Seen::default();
    let done = |server: &mut server::Server, stream, report| {
        server.input(SECOND, &seen, Input::Data(DataEvent::Done(stream, report), &|_| None));
        server.outcome().map(|ended| ended.map_err(|early| early.why))
    };
    let mut server = both_ways();
    assert_eq!(done(&mut server, 1, sender(None)), None);
    assert_eq!(done(&mut server, 0, received(5)), Some(Ok(())));
    assert_eq!(server.reports().count(), 2);
    // The client has sent all, and hangs up before it has read all: either thread may see that first.
    let mut server = both_ways();
    assert_eq!(done(&mut server, 0, received(5)), None);
    assert_eq!(done(&mut server, 1, sender(Some("reset"))), Some(Ok(())));
    let mut server = both_ways();
    assert_eq!(done(&mut server, 1, sender(Some("reset"))), None);
    assert_eq!(done(&mut server, 0, received(5)), Some(Ok(())));
    // A receiver that breaks off ends the sender, and the figures of both are kept.
    let mut server = both_ways();
    let broken = RecvReport { error: Some("reset".into()), ..RecvReport::default() };
    assert_eq!(done(&mut server, 0, Box::new(Report::Recv(broken))), None);
    assert!(std::iter::from_fn(|| server.action()).any(|action| matches!(action, Action::Stop)));
    assert_eq!(done(&mut server, 1, sender(None)), Some(Err("reset".into())));
    assert_eq!(server.reports().count(), 2);
}

fn sent() -> client::Client {
    having_sent(5)
}

/// A client whose only stream has ended after so many datagrams.
fn having_sent(datagrams: u64) -> client::Client {
    let terms = client::Terms {
        plan: plan(),
        last: vec![7; 80],
        ahead_ns: 0,
        silence_ns: 5 * SECOND,
        trips: false,
    };
    let mut client = client::Client::new(terms, 0);
    let seen = Seen::default();
    client.input(0, &seen, Input::Arrived(0));
    client.input(0, &seen, Input::Prepared(None));
    let counts = SendCounts { datagrams, bytes: datagrams * 100, ..Default::default() };
    let report = Box::new(Report::Send(SendReport { counts, ..Default::default() }));
    client.input(SECOND, &seen, Input::Data(DataEvent::Done(0, report), &|_| None));
    client
}

/// It answers, and never reads: its kernel takes what it has room for.
#[test]
fn a_server_that_does_not_read_is_left() {
    let (traffic, end) = (Traffic::Tcp(TcpPlan::new(1_000)), End::Bytes(1 << 40));
    let terms = client::Terms {
        plan: TestPlan { traffic, end, ..plan() },
        last: vec![],
        ahead_ns: 0,
        silence_ns: 10 * SECOND,
        trips: false,
    };
    let mut client = client::Client::new(terms, 0);
    let seen = |moved| Seen { moved, ran_ns: u64::MAX, ..Seen::default() };
    client.input(0, &seen(0), Input::Arrived(0));
    client.input(0, &seen(0), Input::Prepared(None));
    while client.action().is_some() {}
    let mut at = 0;
    while let Some(next) = client.deadline_ns().filter(|next| *next < 3_600 * SECOND) {
        at = next.max(at + MS);
        client.input(at, &seen(at.min(2 * SECOND)), Input::Time);
    }
    assert!((32 * SECOND..=34 * SECOND).contains(&at), "{at}");
    assert!(std::iter::from_fn(|| client.action()).any(|action| action == Action::Stop));
    let trouble = client.ended().trouble.expect("nothing moved");
    assert!(matches!(trouble.failure, Failure::Server(_)), "{trouble:?}");
}

#[test]
fn a_client_says_its_end_until_it_is_answered() {
    let mut client = sent();
    let first = said(&mut client);
    assert_eq!(wire::datagram::Mark::read(true, &first[0]).unwrap().sent(), Some(5));
    client.input(SECOND + 10 * MS, &Seen::default(), Input::Time);
    assert_eq!(said(&mut client), first, "the same again, so that nobody counts it as loss");
    // What is no report of a server's is none: its second ones are this end's own words.
    client.input(SECOND + 11 * MS, &Seen::default(), Input::Datagram(0, &first[0]));
    assert!(!client.is_over());
    let report = wire::Report { datagrams: 6, lost: 2, ..Default::default() };
    client.input(SECOND + 12 * MS, &Seen::default(), Input::Datagram(0, &report.encode()));
    let ended = {
        client.input(
            SECOND + 12 * MS,
            &Seen::default(),
            Input::Host(Default::default(), Default::default()),
        );
        assert_eq!(client.outcome(), Some(Ok(())));
        client.ended()
    };
    let counts = &ended.streams[0].recv.as_ref().unwrap().counts;
    assert_eq!((counts.datagrams, counts.lost, counts.bytes), (3, 2, 300));
    assert!(ended.results && ended.trouble.is_none());
}

/// By its source it answers the first datagram, and writes its report into the client's last.
#[test]
fn a_server_of_2_0_13_is_heard() {
    let mut client = sent();
    let end = said(&mut client).remove(0);
    let ack = wire::Ack { version: (0x0002_0000, 0x000d_0003), times_ns: None };
    client.input(SECOND + MS, &Seen::default(), Input::Datagram(0, &ack.encode()));
    assert!(!client.is_over());
    let report = wire::Report { datagrams: 6, lost: 2, ..Default::default() }.encode();
    let datagram = [&end[..16], &report[16..], &[b'7'; 1_342]].concat();
    client.input(SECOND + 2 * MS, &Seen::default(), Input::Datagram(0, &datagram));
    let host = Input::Host(Default::default(), Default::default());
    client.input(SECOND + 2 * MS, &Seen::default(), host);
    assert_eq!(client.outcome(), Some(Ok(())));
    let ended = client.ended();
    let counts = &ended.streams[0].recv.as_ref().expect("what it reports").counts;
    assert_eq!((counts.datagrams, counts.lost, counts.bytes), (3, 2, 300));
    assert!(ended.results && ended.trouble.is_none());
}

#[test]
fn a_server_that_does_not_report_is_said_to_be_lost() {
    let mut client = sent();
    let mut at = SECOND;
    while client.deadline_ns().is_some() && at < 20 * SECOND {
        at += 10 * MS;
        client.input(at, &Seen::default(), Input::Time);
    }
    assert!(at <= 4 * SECOND, "{at}");
    client.input(at, &Seen::default(), Input::Host(Default::default(), Default::default()));
    let ended = client.ended();
    assert!(!ended.results && ended.trouble.is_some());
    assert!(ended.streams[0].recv.is_none(), "absent, and not zero");
}

/// A sending thread that never got its core, or whose datagrams this host refused.
#[test]
fn a_stream_that_sent_nothing_is_not_laid_to_the_server() {
    let mut client = having_sent(0);
    assert_eq!(said(&mut client), Vec::<Vec<u8>>::new());
    client.input(SECOND, &Seen::default(), Input::Host(Default::default(), Default::default()));
    let trouble = client.ended().trouble.expect("its figures are missing");
    assert!(matches!(trouble.failure, Failure::Here(_)), "{trouble:?}");
}

#[test]
fn absurd_reports_stay_within_what_was_sent() {
    for (datagrams, lost) in [(0, 0), (u64::MAX, 0), (6, u64::MAX), (u64::MAX, u64::MAX)] {
        let mut client = sent();
        let report = wire::Report { datagrams, lost, bytes: u64::MAX, ..Default::default() };
        client.input(SECOND, &Seen::default(), Input::Datagram(0, &report.encode()));
        let counts = client.ended().streams[0].recv.as_ref().unwrap().counts;
        assert_eq!(counts.datagrams + counts.lost, 5, "{datagrams} {lost}");
    }
}

/// Of two streams of a server's one has said its end: when receivers end.
#[test]
fn a_stream_that_has_all_of_its_amount_ends_no_other() {
    let amount =
        TestPlan { direction: Direction::Reverse, streams: 2, end: End::Bytes(2_000), ..plan() };
    let time = TestPlan { end: End::Time(Nanos::from_secs(1)), ..amount.clone() };
    let awake = Seen { ran_ns: u64::MAX, ..Seen::default() };
    for (plan, at_once) in [(amount, false), (time, true)] {
        let terms = client::Terms {
            plan,
            last: vec![0; 100],
            ahead_ns: 0,
            silence_ns: 30 * SECOND,
            trips: false,
        };
        let mut client = client::Client::new(terms, 0);
        client.input(0, &awake, Input::Arrived(0));
        client.input(0, &awake, Input::Arrived(1));
        client.input(0, &awake, Input::Prepared(None));
        let mut drained = |at: u64, silence: u64, end: Option<u16>| {
            while client.action().is_some() {}
            let seen = Seen { data_silence_ns: silence, ..awake };
            match end.map(|stream| DataEvent::PeerEnd(stream, 10)) {
                Some(end) => client.input(at, &seen, Input::Data(end, &|_| None)),
                None => client.input(at, &seen, Input::Time),
            }
            std::iter::from_fn(|| client.action()).find_map(|action| match action {
                Action::DrainUntil(until) => Some(until),
                _ => None,
            })
        };
        assert_eq!(drained(SECOND, 0, Some(0)), at_once.then_some(SECOND + 250 * MS));
        assert_eq!(drained(9 * SECOND, 100 * MS, None), None);
        // The other's end was lost, or comes.
        assert_eq!(drained(11 * SECOND, 2 * SECOND + 1, None), Some(11 * SECOND));
        assert_eq!(drained(12 * SECOND, 0, Some(1)), Some(12 * SECOND + 250 * MS));
    }
}

/// A server of a second of TCP, asked at 0, ends at `ended_ns`; where this end waited until `began_ns` for its host's
/// counters, it has seen the rest of that only.
#[test]
fn a_server_is_not_short_for_what_held_this_end_up() {
    for (began_ns, ended_ns, is_short) in [
        (0, 400 * MS, true),
        (0, SECOND, false),
        (600 * MS, SECOND, false),
        (300 * MS, 400 * MS, true),
    ] {
        let traffic = Traffic::Tcp(TcpPlan::new(1_000));
        let terms = client::Terms {
            plan: TestPlan { traffic, direction: Direction::Reverse, ..plan() },
            last: vec![],
            ahead_ns: 0,
            silence_ns: 30 * SECOND,
            trips: false,
        };
        let mut client = client::Client::new(terms, 0);
        let seen = Seen { ran_ns: u64::MAX, ..Seen::default() };
        client.input(0, &seen, Input::Arrived(0));
        client.input(began_ns, &seen, Input::Prepared(None));
        client.input(ended_ns, &seen, Input::Data(DataEvent::Done(0, received(5)), &|_| None));
        client.input(ended_ns, &seen, Input::Host(Default::default(), Default::default()));
        assert_eq!(client.outcome(), Some(Ok(())));
        assert_eq!(client.ended().trouble.is_some(), is_short, "{began_ns} {ended_ns}");
    }
}
