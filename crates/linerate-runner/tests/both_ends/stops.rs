//! What ends a test in order before its time: a token at either end, and a server of one test.

use std::time::Duration;

use linerate_model::plan::{Dialect, TestPlan};
use linerate_model::record::Status;
use linerate_model::served::Outcome;
use linerate_model::units::Nanos;
use linerate_runner::client::Request;
use linerate_runner::server::{Event, Options};
use linerate_testkit::peer::native::{Peer, plan};
use serde_json::json;

use crate::support::{
    FAR, Running, Served, both, checked, endless, error, request, reverse, tcp, udp,
};

/// All kinds at once, each against a server of its own.
fn each_kind(test: impl Fn(&'static str, TestPlan) + Sync) {
    std::thread::scope(|scope| {
        for (name, plan) in endless() {
            let test = &test;
            scope.spawn(move || test(name, plan));
        }
    });
}

#[test]
fn a_client_that_is_stopped_keeps_what_was_measured() {
    each_kind(|name, plan| {
        let server = Served::start(Options::default());
        let client = Running::start(request(server.at, plan));
        client.measures(3);
        client.stop();
        let record = client.ends();
        error(&record, "interrupted", 130);
        assert_eq!(record.status, Status::Partial, "{name}");
        // Both ends told what they have, so the counts hold.
        checked(&record);
        assert!(record.intervals.len() >= 3, "{name}: {}", record.intervals.len());
        let (_, result) = server.ended(1);
        assert_eq!(result.outcome, Outcome::Stopped, "{name}: {result:?}");
    });
}

#[test]
fn a_server_that_is_stopped_ends_its_tests_with_results() {
    each_kind(|name, plan| {
        let server = Served::start(Options::default());
        let client = Running::start(request(server.at, plan));
        client.measures(3);
        server.stop();
        let record = client.ends();
        error(&record, "server_stopped", 1);
        assert_eq!(record.status, Status::Partial, "{name}");
        checked(&record);
        let (_, result) = server.ended(1);
        let why = result.why.as_deref();
        assert_eq!((result.outcome, why), (Outcome::Cut, Some("the server is shutting down")));
        server.ends();
    });
}

#[test]
fn a_warm_up_can_be_left_as_well() {
    let warming = |plan| TestPlan { warmup: Nanos::from_secs(500), ..plan };
    each_kind(|name, plan| {
        let server = Served::start(Options::default());
        let client = Running::start(request(server.at, warming(plan.clone())));
        client.begins();
        client.stop();
        let record = client.ends();
        error(&record, "interrupted", 130);
        assert_ne!(record.status, Status::Invalid, "{name}");
        server.ended(1);
        // And by the server.
        let client = Running::start(request(server.at, warming(plan)));
        client.begins();
        server.stop();
        // Which it is depends on whether it has heard of the start.
        let record = client.ends();
        let kind = record.error.as_ref().map(|error| error.kind.name());
        assert!([Some("server_stopped"), Some("busy")].contains(&kind), "{name}: {record:?}");
        server.ends();
    });
}

#[test]
fn tests_in_iperf3s_dialect_are_stopped_too() {
    std::thread::scope(|scope| {
        for plan in [udp(500), reverse(udp(500)), tcp(), reverse(tcp()), both(tcp())] {
            scope.spawn(move || {
                let server = Served::start(Options::default());
                let plan = TestPlan { end: FAR, ..plan };
                let iperf3 = Some(Dialect::Iperf3);
                let asked = Request { dialect: iperf3, ..request(server.at, plan) };
                let client = Running::start(asked.clone());
                client.measures(2);
                client.stop();
                let record = client.ends();
                error(&record, "interrupted", 130);
                assert_eq!(record.status, Status::Partial);
                // Its end is said like any other in this dialect.
                assert_eq!(server.ended(1).1.outcome, Outcome::Done);
                let client = Running::start(asked);
                client.measures(2);
                server.stop();
                let record = client.ends();
                assert_eq!(record.status, Status::Partial, "{:?}", record.error);
                assert_eq!(server.ended(2).1.outcome, Outcome::Cut);
                server.ends();
            });
        }
    });
}

#[test]
fn a_server_that_shuts_down_waits_for_no_start() {
    let server = Served::start(Options::default());
    let (mut opening, _) = Peer::granted(server.at, plan(&json!({})));
    let (mut ready, _, _socket) = Peer::ready(server.at, plan(&json!({})));
    server.stop();
    for peer in [&mut opening, &mut ready] {
        let answer = peer.hear().expect("an answer");
        assert_eq!(answer["refused"]["kind"], "busy", "{answer}");
    }
    let events = server.ends();
    let done =
        |event: &Event| matches!(event, Event::TestEnded(_, end) if end.outcome == Outcome::Done);
    assert!(!events.iter().any(done), "{events:#?}");
}

#[test]
fn who_waits_in_silence_holds_no_server() {
    let server = Served::start(Options::default());
    let silent = Peer::connect(server.at);
    let greeted = Peer::greeted(server.at);
    server.honest();
    server.stop();
    server.ends();
    drop((silent, greeted));
}

#[test]
fn a_server_of_one_test_ends_after_it() {
    let server = Served::start(Options { one_off: true, ..Options::default() });
    // Who asks for none is not counted.
    drop(Peer::greeted(server.at));
    server.honest();
    let events = server.ends();
    let ends = events.iter().filter(|event| matches!(event, Event::TestEnded(..)));
    assert_eq!(ends.count(), 1, "{events:#?}");
}

#[test]
fn a_server_of_one_test_that_nobody_wants_ends() {
    let idle = Some(Duration::from_millis(200));
    let server = Served::start(Options { one_off: true, idle, ..Options::default() });
    let events = server.ends();
    assert!(matches!(events[..], [Event::Listening(..)]), "{events:#?}");
}
