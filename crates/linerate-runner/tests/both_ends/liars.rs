//! Servers that are another release, or lie. A proxy between a client and an honest server changes
//! what the server says; the client must do no more than its user asked, and believe no more than
//! the server can know.

use std::io::{Read, Write};

use linerate_model::plan::{End, TestPlan, Transport};
use linerate_model::record::{DoubtKind, RunRecord, Status};
use linerate_model::sample::{RecvReport, SendReport};
use linerate_model::units::Nanos;
use linerate_runner::client::Request;
use linerate_runner::server::Options;
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;
use linerate_testkit::identities::number;
use linerate_wire::iperf3::{COOKIE_BYTES, Cookie};
use linerate_wire::native::PREAMBLE;
use serde_json::{Value, json};

use crate::support::{
    Fate, MS, Served, Who, between, complete, error, lasting, listener, request, reverse, rr, tcp,
    udp,
};

/// Keeps the lines that a user would see.
#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn note(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

/// A client's test through somebody who changes the server's messages, and what it noted. Of a message that
/// becomes nothing, the client only hears answers to no question until it hangs up.
fn heard(
    plan: TestPlan,
    lie: impl Fn(&mut Value) + Send + Sync + 'static,
) -> (RunRecord, Vec<String>) {
    let server = Served::start(Options::default());
    let (listening, at) = listener();
    between(listening, server.at, move |who, _, body: &[u8]| {
        if who == Who::Client {
            return Fate::Frames(vec![body.to_vec()]);
        }
        let mut message = serde_json::from_slice(body).expect("JSON");
        lie(&mut message);
        if message.is_null() {
            let pong = json!({ "pong": { "client_ns": 0, "server_ns": 0 } });
            return Fate::Company(pong.to_string().into_bytes());
        }
        Fate::Frames(vec![message.to_string().into_bytes()])
    });
    let mut notes = Notes::default();
    let record = linerate_runner::run(&request(at, plan), &mut notes, &Stop::default());
    (record, notes.0)
}

fn through(plan: TestPlan, lie: impl Fn(&mut Value) + Send + Sync + 'static) -> RunRecord {
    heard(plan, lie).0
}

fn bytes(plan: TestPlan) -> TestPlan {
    TestPlan { end: End::Bytes(100_000), ..plan }
}

#[test]
fn a_client_runs_no_other_test_than_its_user_asked_for() {
    let changes = [
        ("/traffic/udp/rate", json!(null)),
        ("/traffic/udp/size", json!(65_507)),
        ("/end", json!({ "time": 86_400_000_000_000u64 })),
        ("/warmup", json!(600_000_000_000u64)),
        ("/streams", json!(128)),
        ("/direction", json!("both")),
        ("/dscp", json!(46)),
        ("/window", json!(4_096)),
    ];
    for (place, value) in changes {
        println!("{place} {value}");
        let record = through(lasting(200, udp(100)), move |message| {
            if let Some(plan) = message.pointer_mut("/agreed/agreed/plan") {
                *plan.pointer_mut(place).expect("a field of the plan") = value.clone();
            }
        });
        let lost = error(&record, "server_lost", 1);
        assert_eq!(record.status, Status::Failed, "{place}");
        assert!(lost.why.contains("asked for"), "{lost:?}");
        assert!(record.agreed.is_none(), "{place}");
    }
    // Nothing was cut, so no cut is told.
    let record = through(lasting(200, tcp()), |message| {
        if let Some(cuts) = message.pointer_mut("/agreed/agreed/cuts") {
            *cuts = json!([{ "what": "a lie", "asked": "", "agreed": "", "why": "" }]);
        }
    });
    complete(&record);
    assert!(record.cuts.is_empty(), "{:?}", record.cuts);
}

#[test]
fn a_server_does_not_tell_what_the_client_measured() {
    let send = json!({ "send": SendReport::default() });
    let recv = json!({ "recv": RecvReport::default() });
    for (plan, own, lie) in [
        (bytes(reverse(tcp())), "receiver", recv),
        (bytes(tcp()), "sender", send.clone()),
        (lasting(200, rr(Transport::Tcp)), "rr", send),
    ] {
        let record = through(plan, move |message| {
            if let Some(report) = message.pointer_mut("/stream/report") {
                *report = lie.clone();
            }
        });
        let lost = error(&record, "server_lost", 1);
        assert!(lost.why.contains("did not measure"), "{lost:?}");
        assert_eq!(record.status, Status::Partial, "{own}");
        let totals = serde_json::to_value(&record.totals).unwrap();
        assert!(totals[own].is_object(), "{own}: {totals}");
    }
}

#[test]
fn what_an_older_server_lacks_is_a_doubt() {
    let record = through(bytes(tcp()), |message| {
        if let Some(features) = message.pointer_mut("/welcome/features") {
            *features = json!(["clock-exchange"]);
        }
    });
    assert!(number(&complete(&record), "totals.receiver.bytes") > 0);
    let degraded = record.doubts.iter().filter(|doubt| doubt.kind == DoubtKind::Degraded);
    let [text] = degraded.map(|doubt| &doubt.text).collect::<Vec<_>>()[..] else {
        panic!("{:?}", record.doubts)
    };
    assert!(text.contains("cannot do: host-samples, train-position"), "{text}");
}

#[test]
fn a_server_that_contradicts_itself_is_named() {
    let record = through(bytes(tcp()), |message| {
        if let Some(bytes) = message.pointer_mut("/stream/report/recv/counts/bytes") {
            *bytes = json!(7);
        }
    });
    let error = format!("{:?}", error(&record, "accounting", 4));
    assert!(error.contains("the server's figures contradict each other"), "{error}");
    assert!(!error.contains("please report it"), "{error}");
}

/// All figures of its end would be missing, and the test look whole.
#[test]
fn a_server_that_leaves_a_stream_out_is_named() {
    for plan in [bytes(tcp()), bytes(reverse(tcp()))] {
        let record = through(plan, |message| {
            if message.get("stream").is_some() {
                *message = json!({ "host_chunk": { "first": 0, "samples": [] } });
            }
        });
        let lost = error(&record, "server_lost", 1);
        assert!(lost.why.contains("nothing of some streams"), "{lost:?}");
        assert_eq!(record.status, Status::Partial);
    }
}

#[test]
fn a_server_that_repeats_itself_is_told_once() {
    // 400 ms of them, or as long as it takes where others have the cores.
    let plan = TestPlan { interval: Nanos(10 * MS), end: End::Bytes(2_500_000), ..tcp() };
    let (_, notes) = heard(plan, |message| {
        if message.get("host_chunk").is_some() || message.get("interval").is_some() {
            *message = json!({ "stopping": "z".repeat(50_000) });
        }
    });
    let ends = notes.iter().filter(|note| note.contains("ends the test"));
    assert_eq!(ends.count(), 1, "{notes:?}");
    assert!(notes.iter().all(|note| note.len() < 2_000), "{notes:?}");
}

/// A test by count has no time of its own, and the results have one all the same.
#[test]
#[ignore = "long"]
fn a_server_that_answers_and_has_no_results_is_left() {
    // Nothing is measured: it only waits.
    let record = through(bytes(tcp()), |message| {
        if message.get("results").is_some() {
            *message = Value::Null;
        }
    });
    let lost = error(&record, "server_lost", 1);
    assert!(lost.why.contains("results in time"), "{lost:?}");
    let record = serde_json::to_value(&record).unwrap();
    assert_eq!(number(&record, "totals.sender.bytes"), 100_000, "{record}");
}

/// An iperf3 server on a busy host answers when the client has long taken it for linerate's and said all of its
/// hello, with which iperf3 can do nothing.
#[test]
fn an_iperf3_server_that_answers_late_is_known_all_the_same() {
    const PARAM_EXCHANGE: u8 = 9;
    const ACCESS_DENIED: u8 = 0xff;
    for words in [&[ACCESS_DENIED][..], &[PARAM_EXCHANGE, ACCESS_DENIED]] {
        let (listening, at) = listener();
        let server = std::thread::spawn(move || {
            let (mut taken, mut cookie) = (Vec::new(), [0; COOKIE_BYTES]);
            for word in words {
                // Where this answers very late, others' servers are looked for here, too.
                let mut control = loop {
                    let (mut control, _) = listening.accept().unwrap();
                    let is_cookie = control.read_exact(&mut cookie).is_ok();
                    let start = &cookie[..PREAMBLE.len()];
                    if is_cookie && (*start == PREAMBLE || Cookie::may_begin_with(start)) {
                        break control;
                    }
                };
                if taken.is_empty() {
                    // One byte more than iperf3 would wait for: the rest of the hello is there.
                    control.read_exact(&mut [0]).unwrap();
                }
                control.write_all(&[*word]).unwrap();
                taken.push(cookie);
            }
            taken
        });
        let asked = Request { dialect: None, ..request(at, lasting(100, udp(100))) };
        let record = linerate_runner::run(&asked, &mut (), &Stop::default());
        error(&record, "busy", 3);
        let cookies = server.join().unwrap();
        // What it is asked again is asked as iperf3's clients ask.
        assert!(cookies.iter().skip(1).all(|cookie| cookie[..COOKIE_BYTES - 1].is_ascii()));
    }
}
