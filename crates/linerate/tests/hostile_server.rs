//! Servers that are another release, or lie. A proxy between a client and an honest server changes
//! what the server says; the client must do no more than its user asked, and believe no more than
//! the server can know.

mod support;

use std::io::{Read, Write, copy};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use linerate_model::sample::{RecvReport, SendReport};
use linerate_wire::native::PREAMBLE;
use serde_json::{Value, json};
use support::{Ran, Server, alone, linerate, list, number};

/// Changes one message of the server; nothing is left of it where it should only go on answering.
type Lie = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// A port that leads to the server's and changes what it says. Its threads end with their connections.
fn proxy(server: u16, lie: impl Fn(&mut Value) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let lie: Lie = Arc::new(lie);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { return };
            let lie = Arc::clone(&lie);
            std::thread::spawn(move || carry(client, far, &lie));
        }
    });
    port
}

fn carry(mut client: TcpStream, mut far: TcpStream, lie: &Lie) {
    let (mut asks, mut takes) = (client.try_clone().unwrap(), far.try_clone().unwrap());
    let mut first = [0; 8];
    if asks.read_exact(&mut first).is_err() || takes.write_all(&first).is_err() {
        return;
    }
    std::thread::spawn(move || {
        let _ = copy(&mut asks, &mut takes);
        let _ = takes.shutdown(Shutdown::Write);
    });
    if first != PREAMBLE {
        let _ = copy(&mut far, &mut client);
    }
    let mut length = [0; 4];
    while far.read_exact(&mut length).is_ok() {
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        if far.read_exact(&mut body).is_err() {
            break;
        }
        let mut message = serde_json::from_slice(&body).expect("JSON");
        lie(&mut message);
        if message.is_null() {
            return keep_company(&mut client);
        }
        let body = message.to_string();
        let frame = [&(body.len() as u32).to_be_bytes()[..], body.as_bytes()].concat();
        if client.write_all(&frame).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Write);
}

/// Answers and never ends, until the client hangs up.
fn keep_company(client: &mut TcpStream) {
    let pong = json!({ "pong": { "client_ns": 0, "server_ns": 0 } }).to_string();
    let frame = [&(pong.len() as u32).to_be_bytes()[..], pong.as_bytes()].concat();
    while client.write_all(&frame).is_ok() {
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A client's test through a proxy with that lie.
fn through(line: &str, lie: impl Fn(&mut Value) + Send + Sync + 'static) -> Ran {
    let server = Server::start(None, &[]);
    let port = proxy(server.port, lie).to_string();
    let args: Vec<&str> = line.split(' ').chain(["127.0.0.1", "-p", &port, "--json"]).collect();
    linerate(None, &args)
}

#[test]
fn a_client_runs_no_other_test_than_its_user_asked_for() {
    let _alone = alone();
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
        let ran = through("udp -b 1M -t 200ms", move |message| {
            if let Some(plan) = message.pointer_mut("/agreed/agreed/plan") {
                *plan.pointer_mut(place).expect("a field of the plan") = value.clone();
            }
        });
        let record = ran.error("server_lost", 1);
        assert_eq!(record["status"], "failed", "{place}");
        assert!(record["error"]["why"].as_str().unwrap().contains("asked for"), "{record}");
        assert_eq!(record["agreed"], json!(null), "{place}");
    }
    // Nothing was cut, so no cut is told.
    let ran = through("tcp -t 200ms", |message| {
        if let Some(cuts) = message.pointer_mut("/agreed/agreed/cuts") {
            *cuts = json!([{ "what": "a lie", "asked": "", "agreed": "", "why": "" }]);
        }
    });
    assert_eq!(list(&ran.complete()["cuts"]), [] as [Value; 0]);
}

#[test]
fn a_server_does_not_tell_what_the_client_measured() {
    let _alone = alone();
    let send = json!({ "send": SendReport::default() });
    let recv = json!({ "recv": RecvReport::default() });
    for (line, own, lie) in [
        ("tcp -R -n 100000", "receiver", recv),
        ("tcp -n 100000", "sender", send.clone()),
        ("rr -t 200ms", "rr", send),
    ] {
        println!("{line}");
        let ran = through(line, move |message| {
            if let Some(report) = message.pointer_mut("/stream/report") {
                *report = lie.clone();
            }
        });
        let record = ran.error("server_lost", 1);
        assert_eq!(record["status"], "partial", "{line}");
        assert!(record["totals"][own].is_object(), "{line}: {}", record["totals"]);
        assert!(record["error"]["why"].as_str().unwrap().contains("did not measure"), "{record}");
    }
}

#[test]
fn what_an_older_server_lacks_is_a_doubt() {
    let _alone = alone();
    let ran = through("tcp -t 200ms", |message| {
        if let Some(features) = message.pointer_mut("/welcome/features") {
            *features = json!(["clock-exchange"]);
        }
    });
    let record = ran.complete();
    assert!(number(&record, "totals.receiver.bytes") > 0);
    let degraded: Vec<&str> = list(&record["doubts"])
        .iter()
        .filter(|doubt| doubt["kind"] == "degraded")
        .map(|doubt| doubt["text"].as_str().unwrap())
        .collect();
    let [text] = degraded[..] else { panic!("{}", record["doubts"]) };
    assert!(text.contains("cannot do: host-samples, train-position"), "{text}");
}

#[test]
fn a_server_that_contradicts_itself_is_named() {
    let _alone = alone();
    let ran = through("tcp -t 200ms", |message| {
        if let Some(bytes) = message.pointer_mut("/stream/report/recv/counts/bytes") {
            *bytes = json!(7);
        }
    });
    let record = ran.error("accounting", 4);
    let error = record["error"].to_string();
    assert!(error.contains("the server's figures contradict each other"), "{error}");
    assert!(!error.contains("please report it"), "{error}");
}

#[test]
fn a_server_that_repeats_itself_is_told_once() {
    let _alone = alone();
    let ran = through("tcp -t 500ms -i 10ms", |message| {
        if message.get("host_chunk").is_some() || message.get("interval").is_some() {
            *message = json!({ "stopping": "z".repeat(50_000) });
        }
    });
    assert_eq!(ran.err.matches("ends the test").count(), 1, "{}", ran.err.len());
    assert!(ran.err.len() < 2_000, "{}", ran.err.len());
}

/// A test by count has no time of its own, and the results have one all the same.
#[test]
#[ignore = "long"]
fn a_server_that_answers_and_has_no_results_is_left() {
    // Nothing is measured: it only waits.
    let ran = through("tcp -n 100000", |message| {
        if message.get("results").is_some() {
            *message = Value::Null;
        }
    });
    let record = ran.error("server_lost", 1);
    assert!(record["error"]["why"].as_str().unwrap().contains("results in time"), "{record}");
    assert_eq!(number(&record, "totals.sender.bytes"), 100_000, "{record}");
}
