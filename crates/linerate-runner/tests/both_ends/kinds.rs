//! One test of each kind in each dialect: it ends as planned, and both ends say the same of it.

use std::net::Ipv4Addr;
use std::time::Instant;

use linerate_model::plan::{Dialect, End, EngineChoice, TestPlan, Traffic, Transport, UdpPlan};
use linerate_model::record::{RunRecord, Status};
use linerate_model::served::{Outcome, ServedResult, ServedTest};
use linerate_model::units::Nanos;
use linerate_model::word::Word;
use linerate_runner::client::{Request, Target};
use linerate_runner::server::{Event, Options};
use linerate_testkit::identities::number;
use serde_json::Value;

use crate::support::{
    HANGS, MS, Served, both, complete, lasting, little, request, reverse, rr, run, tcp, udp,
};

const DATAGRAMS: u64 = 100;
const BYTES: u64 = 1_000_000;

/// By count, so that they are exact: UDP each way and with streams, TCP each way.
fn counted() -> Vec<TestPlan> {
    let datagrams = |plan| TestPlan { end: End::Datagrams(DATAGRAMS), ..plan };
    let bytes = |plan| TestPlan { end: End::Bytes(BYTES), ..plan };
    vec![
        datagrams(udp(2_000)),
        datagrams(reverse(udp(2_000))),
        datagrams(TestPlan { streams: 2, ..udp(2_000) }),
        datagrams(both(udp(2_000))),
        bytes(tcp()),
        bytes(reverse(tcp())),
        bytes(both(TestPlan { streams: 2, ..tcp() })),
    ]
}

/// The server's own end is the one that the client's record shows.
fn agrees(record: &Value, plan: &TestPlan, (test, result): &(ServedTest, ServedResult)) {
    assert_eq!((test.kind, test.streams), (plan.traffic.kind(), plan.streams));
    assert_eq!(test.direction, plan.direction);
    assert_eq!((result.outcome, &result.why), (Outcome::Done, &None), "{result:?}");
    let is_rr = matches!(plan.traffic, Traffic::Rr(_));
    assert_eq!(result.answered.is_some(), is_rr);
    assert_eq!(result.sent.is_some(), plan.direction.has_reverse() && !is_rr);
    assert_eq!(result.received.is_some(), plan.direction.has_forward() && !is_rr);
    assert!(result.seconds.is_some_and(|seconds| seconds > 0.0), "{result:?}");
    if is_rr {
        return;
    }
    let of =
        |end: &str, way: &str| match plan.direction.has_forward() && plan.direction.has_reverse() {
            true => number(record, &format!("totals.{way}.{end}.bytes")),
            false => number(record, &format!("totals.{end}.bytes")),
        };
    if let Some(received) = &result.received {
        assert_eq!(received.bytes, of("receiver", "forward"), "{record}");
        assert_eq!(received.lost.is_some(), matches!(plan.traffic, Traffic::Udp(_)));
    }
    if let Some(sent) = &result.sent {
        assert_eq!(sent.bytes, of("sender", "reverse"), "{record}");
    }
}

fn sent(record: &Value, what: &str) -> Vec<u64> {
    let totals = &record["totals"];
    let ways = [totals, &totals["forward"], &totals["reverse"]];
    ways.iter().filter_map(|way| way["sender"][what].as_u64()).collect()
}

#[test]
fn each_kind_by_count_is_exact() {
    let server = Served::start(Options::default());
    for (n, plan) in (1..).zip(counted()) {
        let record = server.run(plan.clone());
        let value = complete(&record);
        let (what, count) = match plan.end {
            End::Datagrams(count) => ("datagrams", count),
            _ => ("bytes", BYTES),
        };
        assert!(sent(&value, what).iter().all(|sent| *sent == count), "{plan:?}: {value}");
        let ended = server.ended(n);
        assert_eq!(server.started(n), ended.0);
        assert_eq!((&ended.0.id, ended.0.dialect), (&Some(record.id), Dialect::Native));
        agrees(&value, &plan, &ended);
    }
}

#[test]
fn requests_are_answered() {
    let server = Served::start(Options::default());
    let rr_of = |transport, outstanding| {
        let mut plan = TestPlan { end: End::Datagrams(DATAGRAMS), ..rr(transport) };
        if let Traffic::Rr(rr) = &mut plan.traffic {
            (rr.request, rr.response, rr.outstanding) = (100, 500, outstanding);
        }
        plan
    };
    let plans = [
        rr_of(Transport::Tcp, 1),
        rr_of(Transport::Tcp, 4),
        rr_of(Transport::Udp, 1),
        TestPlan { streams: 2, ..rr_of(Transport::Tcp, 1) },
    ];
    for (n, plan) in (1..).zip(plans) {
        let value = complete(&server.run(plan.clone()));
        let answered = number(&value, "totals.rr.transactions");
        // Over UDP, what is answered after more than a second is none of them.
        let late = value["totals"]["rr"]["unanswered"].as_u64().unwrap_or(0);
        assert!(answered > 0 && answered + late == DATAGRAMS, "{plan:?}: {answered}, {late} late");
        let ended = server.ended(n);
        agrees(&value, &plan, &ended);
        assert!(ended.1.answered >= Some(answered), "{ended:?}");
    }
}

#[test]
fn each_kind_by_time_has_its_warm_up_apart() {
    let server = Served::start(Options::default());
    let plans = [udp(1_000), both(udp(500)), tcp(), reverse(tcp()), rr(Transport::Tcp)];
    let (mut n, until) = (0, Instant::now() + HANGS);
    for plan in plans {
        let plan = TestPlan { warmup: Nanos(100 * MS), ..lasting(300, plan) };
        loop {
            let value = complete(&server.run(plan.clone()));
            assert_eq!(value["asked"]["warmup_s"], 0.1);
            n += 1;
            let (_, result) = server.ended(n);
            let warmed = result.received.as_ref().is_none_or(|one| one.warmup > Some(0));
            // Others may have kept the sender from its core for all of the warm-up, and not each time.
            if warmed {
                break;
            }
            assert!(Instant::now() < until, "{plan:?}: {result:?}");
        }
    }
}

fn iperf3(server: &Served, plan: TestPlan) -> Request {
    Request { dialect: Some(Dialect::Iperf3), ..request(server.at, plan) }
}

fn in_iperf3s_dialect(plan: &TestPlan) {
    let server = Served::start(Options::default());
    let record = run(&iperf3(&server, plan.clone()));
    assert_eq!((record.status, &record.error), (Status::Complete, &None), "{plan:?}");
    let agreed = record.agreed.as_ref().expect("a plan");
    assert_eq!(agreed.dialect, Word::Known(Dialect::Iperf3));
    let (test, result) = server.ended(1);
    assert_eq!((test.dialect, result.outcome), (Dialect::Iperf3, Outcome::Done), "{result:?}");
    // Rows take no place in the queue of a log that has no line for them.
    assert!(!server.events().iter().any(|event| matches!(event, Event::Test { .. })));
    assert_eq!(test.id.map(|id| id.len()), Some(36), "its cookie");
    let figures = [result.received.map(|r| r.bytes), result.sent.map(|s| s.bytes)];
    assert!(figures.iter().flatten().all(|bytes| *bytes > 0), "{plan:?}: {figures:?}");
    assert_eq!(figures[0].is_some(), plan.direction.has_forward());
    assert_eq!(figures[1].is_some(), plan.direction.has_reverse());
}

#[test]
fn each_kind_in_iperf3s_dialect() {
    let timed = [udp(1_000), reverse(udp(1_000)), tcp(), reverse(tcp()), both(tcp())];
    // Long enough for something to be sent also where others have the cores for more than a second.
    let timed = timed.map(|plan| TestPlan { interval: Nanos(1_000 * MS), ..lasting(3_000, plan) });
    std::thread::scope(|scope| {
        for plan in timed {
            scope.spawn(move || in_iperf3s_dialect(&plan));
        }
    });
    // What it has no words for is refused before anything is sent.
    let server = Served::start(Options::default());
    let record = run(&iperf3(&server, rr(Transport::Tcp)));
    assert_eq!(record.error.expect("an error").kind.name(), "dialect");
}

#[test]
fn every_engine_carries_the_same() {
    let server = Served::start(Options::default());
    for engine in [EngineChoice::Auto, EngineChoice::Gso, EngineChoice::Mmsg, EngineChoice::Send] {
        let mut plan = TestPlan { end: End::Datagrams(DATAGRAMS), ..udp(2_000) };
        if let Traffic::Udp(udp) = &mut plan.traffic {
            *udp = UdpPlan { engine, ..udp.clone() };
        }
        let value = complete(&server.run(plan));
        assert_eq!(number(&value, "totals.sender.datagrams"), DATAGRAMS, "{engine:?}");
    }
}

#[test]
fn what_is_asked_of_sockets_and_cores_is_in_the_record() {
    let server = Served::start(Options::default());
    let plan = TestPlan { window: Some(65_536), dscp: Some(46), ..little() };
    let value = complete(&server.run(plan));
    assert_eq!(
        (&value["asked"]["window_bytes"], &value["asked"]["dscp"]),
        (&65_536.into(), &46.into())
    );
    // Who speaks what is found out where it is not said.
    let record = run(&Request { dialect: None, ..request(server.at, little()) });
    assert_eq!(
        record.agreed.as_ref().map(|agreed| agreed.dialect.clone()),
        Some(Word::Known(Dialect::Native))
    );
    complete(&record);
    let record = server.run(TestPlan { client_cpus: vec![8_000], ..little() });
    crate::support::error(&record, "no_core", 2);
}

fn targeted(target: Target) -> RunRecord {
    let nowhere = (Ipv4Addr::LOCALHOST, 9).into();
    run(&Request { target, ..request(nowhere, little()) })
}

#[test]
fn some_tests_need_no_server_elsewhere() {
    complete(&targeted(Target::Local));
    let (name, port) = ("127.0.0.1".to_owned(), 9);
    let record = targeted(Target::Discard { name, port });
    assert_eq!((record.status, &record.error), (Status::Complete, &None));
    let value = serde_json::to_value(&record).unwrap();
    let sender = |what: &str| number(&value, &format!("totals.sender.{what}"));
    assert_eq!(sender("attempted"), sender("datagrams") + sender("refused_locally"));
    assert!(value["totals"]["receiver"].is_null(), "nobody counts there: {value}");
}
