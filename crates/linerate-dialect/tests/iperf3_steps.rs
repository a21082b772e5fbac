//! What both ends in iperf3's dialect keep at moments that no story of a whole test meets: bytes that come
//! together, connections that end between two steps, and a server that gives up late.

use std::io::ErrorKind;
use std::sync::Arc;

use linerate_dialect::control::ControlError;
use linerate_dialect::ending::{Early, Failure, Trouble};
use linerate_dialect::iperf3::client::{self, Client};
use linerate_dialect::iperf3::server::{Server, Terms};
use linerate_dialect::stream::{DataEvent, Report, Tick};
use linerate_dialect::{Action, Conversation as _, Input, Seen};
use linerate_model::plan::{AgreedPlan, End, TestPlan, Traffic};
use linerate_model::sample::{RecvInterval, RecvReport, SendReport};
use linerate_model::served::Outcome;
use linerate_model::test_event::{Cpu, TestEvent};
use linerate_model::units::Nanos;
use linerate_session::assemble::HostSamples;
use linerate_testkit::plans;
use linerate_wire::iperf3::{self, ErrorNumber, Results, State, StreamResults};

const MS: u64 = 1_000_000;

/// A test that runs, and what its users saw of it.
struct World {
    s: Server,
    now: u64,
    log: Vec<String>,
}

impl World {
    fn new(output: bool) -> Self {
        let plan = TestPlan {
            end: End::Time(Nanos(2_000 * MS)),
            interval: Nanos(1_000 * MS),
            ..plans::plan(Traffic::Udp(plans::udp()))
        };
        let terms = Terms {
            agreed: Arc::new(AgreedPlan { plan, cuts: vec![] }),
            peer: ([192, 0, 2, 1], 4).into(),
            time_ns: Some(2_000 * MS),
            longest_ns: 60_000 * MS,
            most_bps: None,
            no_data_ns: 120_000 * MS,
            output: output.then(|| "t".repeat(2_000)),
        };
        let mut w = Self { s: Server::new(terms, 0), now: 0, log: vec![] };
        w.drain();
        w.carry();
        w.input(Input::Arrived(0));
        w.now = 30 * MS;
        w.input(Input::Time);
        w.carry();
        assert!(w.log.iter().any(|l| l == "begin"), "{:?}", w.log);
        w
    }
    fn seen(&self) -> Seen {
        Seen { ran_ns: u64::MAX, ..Seen::default() }
    }
    fn drain(&mut self) {
        while let Some(a) = self.s.action() {
            match a {
                Action::Prepare => {
                    let (n, s) = (self.now, self.seen());
                    self.s.input(n, &s, Input::Prepared(None));
                }
                Action::FinishHost => {
                    let (n, s) = (self.now, self.seen());
                    self.s.input(n, &s, Input::Host(HostSamples::default(), Cpu::default()));
                }
                Action::Begin(_) => self.log.push("begin".into()),
                Action::Event(e) => self.log.push(match *e {
                    TestEvent::Rows(r) => format!("rows {}-{}", r.start_ns / MS, r.end_ns / MS),
                    TestEvent::End(e) => {
                        format!("end: {}", e.error.map_or_else(String::new, |e| e.why))
                    }
                    _ => "other".into(),
                }),
                _ => {}
            }
        }
    }
    fn input(&mut self, i: Input<'_>) {
        let (n, s) = (self.now, self.seen());
        self.s.input(n, &s, i);
        self.drain();
    }
    fn carry(&mut self) {
        let n = self.s.outgoing().len();
        if n > 0 {
            self.input(Input::Carried(n));
        }
    }
    fn done(&mut self) {
        let mut interval = RecvInterval::default();
        interval.counts.bytes = 7;
        let r = RecvReport {
            last_ns: Some(2_000 * MS),
            intervals: vec![interval; 2],
            ..RecvReport::default()
        };
        self.input(Input::Data(DataEvent::Done(0, Box::new(Report::Recv(r))), &|_| None));
    }
}
fn results() -> Vec<u8> {
    Results {
        cpu_total: Some(0.),
        cpu_user: Some(0.),
        cpu_system: Some(0.),
        streams: vec![StreamResults {
            id: 1,
            packets: 9,
            jitter_s: Some(0.),
            start_s: Some(0.),
            end_s: Some(2.),
            ..Default::default()
        }],
        ..Default::default()
    }
    .encode()
    .unwrap()
}

/// Its client has said the end and its results; `more` came with them.
fn reporting(output: bool, more: &[u8]) -> World {
    let mut w = World::new(output);
    w.now = 2_030 * MS;
    w.input(Input::Bytes(&[State::TestEnd.byte()]));
    w.carry();
    w.input(Input::Bytes(&[&results()[..], more].concat()));
    w.done();
    w
}

fn vanished(why: &str) -> Option<Result<(), Early>> {
    Some(Err(Early::new(Outcome::Vanished, why)))
}

#[test]
fn a_goodbye_that_came_with_the_results_is_one() {
    let mut w = reporting(false, &[State::IperfDone.byte()]);
    w.carry();
    w.input(Input::Lost(ControlError::Closed));
    assert_eq!(w.s.outcome(), Some(Ok(())));
}

#[test]
fn nothing_is_shown_after_the_end() {
    let mut w = World::new(false);
    w.now = 1_500 * MS;
    w.input(Input::Bytes(&[State::ClientTerminate.byte()]));
    w.input(Input::Data(DataEvent::Tick(0, 0, Tick::Recv(RecvInterval::default())), &|_| None));
    w.done();
    w.carry();
    assert_eq!(w.log, ["begin", "end: the client was asked to stop"]);
}

#[test]
fn rows_are_shown_once_when_the_results_cannot_be_sent() {
    let mut w = reporting(false, &[]);
    w.input(Input::Lost(ControlError::Io(ErrorKind::BrokenPipe.into())));
    let end = "end: the control connection failed: broken pipe";
    assert_eq!(w.log, ["begin", "rows 0-1000", "rows 1000-2000", end]);
}

#[test]
fn a_client_that_closes_with_something_unread_has_closed() {
    let mut w = World::new(false);
    w.input(Input::Lost(ControlError::Io(ErrorKind::ConnectionReset.into())));
    w.done();
    assert_eq!(w.s.outcome(), vanished("the client closed the control connection"));
}

#[test]
fn a_client_that_takes_its_results_byte_by_byte_is_given_up() {
    let mut w = reporting(true, &[]);
    let from = w.now;
    while !w.s.is_over() {
        w.now += 1_000 * MS;
        w.input(Input::Carried(1));
    }
    assert_eq!(w.s.outcome(), vanished("the client was silent for too long"));
    assert_eq!(w.now - from, 5_000 * MS);
}

fn awake() -> Seen {
    Seen { ran_ns: u64::MAX, ..Seen::default() }
}

/// A client that has sent its results after 57 ms.
fn exchanging() -> Client {
    let terms = client::Terms {
        plan: TestPlan { end: End::Datagrams(9), ..plans::plan(Traffic::Udp(plans::udp())) },
        cookie: None,
        parameters: b"{}".to_vec(),
        patience_ns: 10_000 * MS,
        silence_ns: 30_000 * MS,
        settle_ns: 50 * MS,
        rtt_ns: 0,
    };
    let mut client = Client::new(terms, 0);
    let agreed = [State::ParamExchange, State::CreateStreams].map(State::byte);
    let running = [State::TestStart, State::TestRunning].map(State::byte);
    let sent = Box::new(Report::Send(SendReport::default()));
    for (at_ms, input) in [
        (1, Input::Bytes(&agreed)),
        (2, Input::Arrived(0)),
        (3, Input::Bytes(&running)),
        (4, Input::Prepared(None)),
        (5, Input::Data(DataEvent::Done(0, sent), &|_| None)),
        (55, Input::Time),
        (56, Input::Bytes(&[State::ExchangeResults.byte()])),
        (57, Input::Host(HostSamples::default(), Cpu::default())),
    ] {
        client.input(at_ms * MS, &awake(), input);
    }
    let said = client.outgoing().len();
    client.input(57 * MS, &awake(), Input::Carried(said));
    client
}

/// A client that has sent its results and now hears `bytes` where the server's are due: what it knows then.
fn in_place_of_results(bytes: &[u8]) -> client::Ended {
    let mut client = exchanging();
    client.input(58 * MS, &awake(), Input::Bytes(bytes));
    client.ended(58 * MS, None, false)
}

/// A client whose server's results come in so many pieces, each so long after the one before: what it knows then.
fn results_in_pieces(pieces: usize, each_ms: u64) -> client::Ended {
    let (mut client, results, mut now_ms) = (exchanging(), results(), 57);
    for piece in results.chunks(results.len().div_ceil(pieces)) {
        now_ms += each_ms;
        for input in [Input::Time, Input::Bytes(piece)] {
            client.input(now_ms * MS, &awake(), input);
        }
    }
    client.ended(now_ms * MS, None, false)
}

#[test]
fn results_that_go_on_coming_are_waited_for_and_not_for_ever() {
    let ended = results_in_pieces(4, 5_000);
    assert_eq!((ended.results, ended.trouble), (true, None));
    for (pieces, each_ms) in [(2, 11_000), (4, 9_000)] {
        let ended = results_in_pieces(pieces, each_ms);
        let failure = Failure::Server("its results did not come in time".into());
        assert_eq!(ended.trouble, Some(Trouble { doing: "exchanging results", failure }));
    }
}

#[test]
fn a_server_that_gives_up_in_place_of_its_results_says_why() {
    let failure = iperf3::Failure { number: ErrorNumber::RECEIVE_RESULTS, errno: 0 };
    for (bytes, failure) in [
        (&failure.encode()[..], Failure::Iperf3(Some(failure))),
        (&[State::ServerTerminate.byte()], Failure::Stopped("it was asked to stop".into())),
    ] {
        let trouble = in_place_of_results(bytes).trouble;
        assert_eq!(trouble, Some(Trouble { doing: "exchanging results", failure }));
    }
    let ended = in_place_of_results(&results());
    assert_eq!((ended.results, ended.trouble), (true, None));
}
