//! Servers that are none, are another release, fall silent, hang up or talk nonsense in any state: a client
//! always ends, and says what happened.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_model::plan::TestPlan;
use linerate_model::record::{RunRecord, Status};
use linerate_runner::server::Options;
use linerate_testkit::peer::native::NONCE;
use linerate_wire::native::PREAMBLE;
use serde_json::{Value, json};

use crate::support::{
    Fate, Running, Served, Who, between, complete, lasting, listener, request, reverse, tcp,
};

/// What a server that is none does, in order; then it hangs up.
enum Act {
    /// The client's next message whole, the first with what opens a control connection.
    Hear,
    Say(Vec<u8>),
    /// Nothing, until the client has had enough.
    Wait,
}

use Act::{Hear, Say, Wait};

fn frame(body: &[u8]) -> Act {
    Say([&(body.len() as u32).to_be_bytes()[..], body].concat())
}

fn message(message: &Value) -> Act {
    frame(message.to_string().as_bytes())
}

fn welcome(version: u64) -> Act {
    message(&json!({ "welcome": { "version": version, "features": [], "nonce": NONCE,
        "key_required": false, "program": "x" } }))
}

fn refusal(kind: &str) -> Act {
    message(&json!({ "refused": { "kind": kind, "why": "it is so", "hints": [] } }))
}

fn hear(control: &mut TcpStream, first: bool) -> std::io::Result<()> {
    if first {
        control.read_exact(&mut [0; PREAMBLE.len()])?;
    }
    let mut length = [0; 4];
    control.read_exact(&mut length)?;
    let mut body = control.take(u32::from_be_bytes(length).into());
    std::io::copy(&mut body, &mut std::io::sink()).map(drop)
}

fn misbehave(listener: &TcpListener, acts: &[Act]) {
    let Ok((mut control, _)) = listener.accept() else { return };
    let mut opened = false;
    for act in acts {
        let _ = match act {
            Hear => hear(&mut control, !std::mem::replace(&mut opened, true)),
            Say(bytes) => control.write_all(bytes),
            Wait => std::io::copy(&mut control, &mut std::io::sink()).map(drop),
        };
    }
}

type Stranger = (&'static str, &'static str, Vec<Act>);

fn greeted(then: Vec<Act>) -> Vec<Act> {
    [Hear, welcome(1), Hear].into_iter().chain(then).collect()
}

/// Those that never get as far as a test, and the kind of error that the client names.
fn strangers() -> Vec<Stranger> {
    vec![
        // With a reset or without, by what it had not read.
        ("hangs up at once", "not_linerate or server_lost", vec![]),
        ("hangs up on the greeting", "not_linerate", vec![Hear]),
        (
            "HTTP",
            "not_linerate",
            vec![Hear, Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), Wait],
        ),
        ("SSH", "not_linerate", vec![Say(b"SSH-2.0-OpenSSH_9.7\r\n".to_vec()), Wait]),
        ("a frame of no length", "not_linerate", vec![Hear, Say(vec![0; 4]), Wait]),
        ("a frame of 4 GiB", "not_linerate", vec![Hear, Say(vec![0xff; 4]), Wait]),
        ("a frame cut short", "server_lost", vec![Hear, Say(vec![0, 0, 1, 0, b'{'])]),
        ("no JSON", "not_linerate", vec![Hear, frame(b"nope"), Wait]),
        ("deep JSON", "not_linerate", vec![Hear, frame(&b"[".repeat(60_000)), Wait]),
        (
            "a message that nobody knows",
            "not_linerate",
            vec![Hear, message(&json!("hooray")), Wait],
        ),
        (
            "a welcome without all of it",
            "not_linerate",
            vec![Hear, message(&json!({"welcome": {}})), Wait],
        ),
        (
            "an answer before the question",
            "server_lost",
            vec![Hear, message(&json!("ready")), Wait],
        ),
        ("another version", "version", vec![Hear, welcome(2), Wait]),
        ("no version", "version", vec![Hear, welcome(0), Wait]),
        ("hangs up after the welcome", "not_linerate", greeted(vec![])),
        ("two welcomes", "server_lost", greeted(vec![welcome(1), Wait])),
        ("garbage for an answer", "not_linerate", greeted(vec![frame(&[0xff; 64]), Wait])),
        (
            "an agreement on nothing",
            "not_linerate",
            greeted(vec![message(&json!({"agreed": {}})), Wait]),
        ),
        ("a host for the asking", "server_lost", greeted(vec![message(&json!("opened")), Wait])),
        ("refuses as busy", "busy", greeted(vec![refusal("busy")])),
        ("refuses by its policy", "policy", greeted(vec![refusal("policy"), Wait])),
    ]
}

/// Those that say less than is waited for.
fn silent_strangers() -> Vec<Stranger> {
    vec![
        ("silent from the start", "server_lost", vec![Wait]),
        ("iperf3's word", "server_lost", vec![Hear, Say(vec![9]), Wait]),
        ("a frame that never comes", "server_lost", vec![Hear, Say(vec![0, 0, 1, 0]), Wait]),
        ("silent after the welcome", "server_lost", greeted(vec![Wait])),
    ]
}

/// What becomes of the first message of that name, and of what follows it.
#[derive(Clone, Copy)]
enum Turn {
    Cut,
    Silence,
    Garbage,
    Unknown,
}

/// An honest server that turns bad when it should say this.
type Turncoat = (String, Turn, &'static str, TestPlan);

fn turncoats(turns: &[(&str, Turn)]) -> Vec<Turncoat> {
    let moments = ["agreed", "pong", "ready", "started", "interval", "stream", "results"];
    let plans = [lasting(300, tcp()), lasting(300, reverse(tcp()))];
    let mut all = Vec::new();
    for (moment, plan) in moments.into_iter().zip(plans.iter().cycle()) {
        for (what, turn) in turns {
            all.push((format!("{what} instead of {moment}"), *turn, moment, plan.clone()));
        }
    }
    all
}

fn against_stranger(acts: Vec<Act>) -> RunRecord {
    let (listening, at) = listener();
    let server = std::thread::spawn(move || misbehave(&listening, &acts));
    let record = Running::start(request(at, lasting(200, tcp()))).ends();
    server.join().expect("the client hung up");
    record
}

fn against_turncoat(turn: Turn, moment: &'static str, plan: TestPlan) -> RunRecord {
    let server = Served::start(Options::default());
    let (listening, at) = listener();
    let turned = Arc::new(AtomicBool::new(false));
    let turns = Arc::clone(&turned);
    between(listening, server.at, move |who, _, body: &[u8]| {
        let named = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let now = named == moment || named.get(moment).is_some();
        if who == Who::Client || !now {
            return Fate::Frames(vec![body.to_vec()]);
        }
        turns.store(true, Ordering::Relaxed);
        match turn {
            Turn::Cut => Fate::Cut,
            Turn::Silence => Fate::Frames(vec![]),
            Turn::Garbage => Fate::Frames(vec![vec![0xff; 64]]),
            Turn::Unknown => Fate::Frames(vec![br#"{"hooray":1}"#.to_vec()]),
        }
    });
    let record = Running::start(request(at, plan)).ends();
    // A client that never met it would be as well off as one that can do without. While so short a test runs, a busy host may
    // say no row.
    assert!(moment == "interval" || turned.load(Ordering::Relaxed), "nobody said {moment}");
    record
}

#[test]
fn thirty_bad_servers_are_named_and_left() {
    let turns = [
        ("hangs up", Turn::Cut),
        ("talks nonsense", Turn::Garbage),
        ("says what nobody knows", Turn::Unknown),
    ];
    let (strangers, turncoats) = (strangers(), turncoats(&turns));
    assert!(strangers.len() + turncoats.len() >= 30);
    all_are_named(strangers, turncoats);
}

/// Each is waited for as long as a client waits.
#[test]
#[ignore = "long"]
fn servers_that_fall_silent_are_named_and_left() {
    all_are_named(silent_strangers(), turncoats(&[("falls silent", Turn::Silence)]));
}

fn all_are_named(strangers: Vec<Stranger>, turncoats: Vec<Turncoat>) {
    let (mut records, mut kinds) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let strangers = strangers.into_iter().map(|(name, kind, acts)| {
            (name.to_owned(), Some(kind), scope.spawn(move || against_stranger(acts)))
        });
        let turncoats = turncoats.into_iter().map(|(name, turn, moment, plan)| {
            (name, None, scope.spawn(move || against_turncoat(turn, moment, plan)))
        });
        let all: Vec<_> = strangers.chain(turncoats).collect();
        for (name, kind, client) in all {
            let record = client.join().unwrap_or_else(|_| panic!("{name}: no record"));
            kinds.push(kind);
            records.push((name, record));
        }
    });
    let mut faults = Vec::new();
    for ((name, record), kind) in records.iter().zip(kinds) {
        println!("{name}: {:?} {:?}", record.status, record.error);
        let Some(error) = &record.error else {
            // What a client can do without is no error.
            complete(record);
            faults.extend(kind.map(|kind| format!("{name}: whole, and not {kind}")));
            continue;
        };
        let named =
            kind.is_none_or(|kind| kind.split(" or ").any(|kind| kind == error.kind.name()));
        let explained = !error.what.is_empty() && !error.why.is_empty();
        if !named || !explained || record.status == Status::Complete {
            faults.push(format!("{name}: {:?} {error:?}, and not {kind:?}", record.status));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
