//! What a shared key protects: a server that relays a client's request to another, somebody on the
//! path who reads, changes, repeats or leaves out control messages, an old session played again, and ends
//! of a release that proved less.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use linerate_model::plan::{Dialect, TestPlan};
use linerate_model::record::{RunRecord, Status};
use linerate_model::served::Outcome;
use linerate_runner::agent::{CommandRequest, HostAgent};
use linerate_runner::client::Request;
use linerate_runner::server::{Event, Options, Public};
use linerate_testkit::peer::native::{Peer, hello, plan};
use linerate_wire::native::auth::{self, NOISE_FEATURE, Seals};
use serde_json::{Value, json};

use crate::agent::{Scratch, host};
use crate::support::{
    Fate, Served, Who, between, complete, error, honest, lasting, listener, request, reverse, run,
    tcp,
};

pub const KEY: &[u8] = b"a key for tests only, 32 bytes.";

pub fn with_key() -> Options {
    Options { key: Some(KEY.to_vec()), ..Options::default() }
}

/// A client's test with the key.
fn test(at: SocketAddr, plan: TestPlan) -> RunRecord {
    let key = Some(KEY.to_vec());
    run(&Request { key, dialect: Some(Dialect::Native), ..request(at, plan) })
}

/// A server whose owner takes somebody on the path for a translation of addresses.
fn on_the_path<F: Into<Fate>>(
    options: Options,
    hand: impl Fn(Who, usize, &[u8]) -> F + Send + Sync + 'static,
) -> (Served, SocketAddr) {
    let (listening, at) = listener();
    let public = vec![Public { address: at.ip(), port: Some(at.port()) }];
    let server = Served::start(Options { public, ..options });
    between(listening, server.at, hand);
    (server, at)
}

/// A test through them.
fn through<F: Into<Fate>>(
    plan: TestPlan,
    hand: impl Fn(Who, usize, &[u8]) -> F + Send + Sync + 'static,
) -> (RunRecord, Served) {
    let (server, at) = on_the_path(with_key(), hand);
    (test(at, plan), server)
}

fn starts(server: &Served) -> usize {
    let events = server.events();
    events.iter().filter(|event| matches!(event, Event::TestStarted(_))).count()
}

#[test]
fn a_request_relayed_to_another_server_is_refused() {
    let server = Served::start(with_key());
    let plan = || lasting(200, reverse(tcp()));
    let (listening, rogue) = listener();
    between(listening, server.at, honest);
    let refused = error(&test(rogue, plan()), "key", 3);
    assert!(refused.why.contains(&rogue.to_string()), "{refused:?}");
    assert!(refused.hints[0].contains(&format!("--public {rogue}")), "{refused:?}");
    // The same with another request than the client's: all that the rogue can make of it is noise.
    let (listening, rogue) = listener();
    between(listening, server.at, |who, n, body: &[u8]| {
        if (who, n) != (Who::Client, 1) {
            return honest(who, n, body);
        }
        assert!(serde_json::from_slice::<Value>(body).is_err(), "a request that can be read");
        let mut body = body.to_vec();
        body[40] ^= 1;
        vec![body]
    });
    error(&test(rogue, plan()), "key", 3);
    let why = [1, 2].map(|n| server.refused(n).1);
    assert!(why[0].contains("relays its request"), "{why:?}");
    assert!(why[1].contains("not proven"), "{why:?}");
    assert_eq!(starts(&server), 0);
    complete(&test(server.at, plan()));
}

#[test]
fn translation_that_the_owner_names_is_a_doubt_at_the_client() {
    let (record, _server) = through(lasting(300, tcp()), honest);
    complete(&record);
    let between = |record: &RunRecord| {
        record.doubts.iter().filter(|doubt| doubt.text.contains("stands between")).count()
    };
    assert_eq!(between(&record), 1, "{:?}", record.doubts);
    let server = Served::start(with_key());
    let record = test(server.at, lasting(200, tcp()));
    complete(&record);
    assert_eq!(between(&record), 0, "{:?}", record.doubts);
}

/// What somebody on the path does to one message.
type Change = fn(&[u8]) -> Vec<Vec<u8>>;

fn changes() -> [(&'static str, Change); 4] {
    [
        ("changed", |body| {
            let mut body = body.to_vec();
            *body.last_mut().unwrap() ^= 1;
            vec![body]
        }),
        ("repeated", |body| vec![body.to_vec(), body.to_vec()]),
        ("left out", |_| vec![]),
        ("added", |body| vec![b"\"alive\"".to_vec(), body.to_vec()]),
    ]
}

/// Does that to the `n`th message of one end. What it is nobody on the path can see; its place says it.
fn once(
    who: Who,
    n: usize,
    change: Change,
) -> impl Fn(Who, usize, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static {
    move |from, at, body| {
        if (from, at) == (who, n) { change(body) } else { honest(from, at, body) }
    }
}

#[test]
fn what_the_server_says_cannot_be_touched_on_the_way() {
    let plan = || lasting(500, reverse(tcp()));
    std::thread::scope(|scope| {
        for (what, change) in changes() {
            scope.spawn(move || {
                for (n, message) in
                    [(2, "ready"), (3, "pong"), (19, "started"), (20, "row"), (22, "row")]
                {
                    // A message left out shows when the next one comes, and after these none does unasked.
                    if what == "left out" && message != "row" {
                        continue;
                    }
                    println!("{message} {what}");
                    let (record, _server) = through(plan(), once(Who::Server, n, change));
                    error(&record, "authentication", 1);
                    assert_ne!(record.status, Status::Complete, "{message} {what}");
                }
            });
        }
    });
    // Before the server has proven itself it is not known to be one that has the key.
    for (what, change) in [changes()[0], changes()[3]] {
        println!("agreed {what}");
        error(&through(plan(), once(Who::Server, 1, change)).0, "key", 3);
    }
}

#[test]
fn what_the_client_says_cannot_be_touched_on_the_way() {
    std::thread::scope(|scope| {
        for (what, change) in changes() {
            for (n, message) in [(2, "ping"), (18, "start"), (19, "sent")] {
                // Left out, one of these shows at the next ping; before the start the client waits for an
                // answer first.
                if what == "left out" && message != "sent" {
                    continue;
                }
                scope.spawn(move || {
                    println!("{message} {what}");
                    let hand = once(Who::Client, n, change);
                    let (record, server) = through(lasting(500, tcp()), hand);
                    // TCP's end says as much as this word: the server may have reported all its figures,
                    // proven, before it looks at it.
                    let late = message == "sent";
                    assert!(late || record.status != Status::Complete, "{message} {what}");
                    let (_, result) = server.ended(1);
                    assert_eq!(result.outcome, Outcome::Failed, "{message} {what}: {result:?}");
                    let why = result.why.expect("a reason");
                    assert!(why.contains("not proven"), "{message} {what}: {why}");
                });
            }
        }
    });
}

#[test]
fn an_old_session_played_again_is_refused() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let (record, server) = through(lasting(200, reverse(tcp())), move |who, n, body: &[u8]| {
        if who == Who::Client {
            keep.lock().unwrap().push(body.to_vec());
        }
        honest(who, n, body)
    });
    complete(&record);
    let again = || {
        let mut peer = Peer::begin(server.at);
        for body in kept.lock().unwrap().iter().take(2) {
            peer.frame(body);
        }
        peer
    };
    // Each time the server has another share in what both prove. A hundred at once, as it takes its time to hang up.
    for _ in 0..10 {
        let peers: Vec<Peer> = (0..100).map(|_| again()).collect();
        for mut peer in peers {
            assert!(peer.hear().expect("a welcome")["welcome"].is_object());
            let answer = peer.hear().expect("an answer");
            assert_eq!(answer["refused"]["kind"], "key", "{answer}");
            assert_eq!(peer.hung_up(), None);
        }
    }
    assert_eq!(starts(&server), 1);
}

/// A session made by hand with the key, and the server's answer to that first message.
pub fn session(server: &Served, message: &Value) -> (Peer, Seals, Value) {
    let mut peer = Peer::begin(server.at);
    let mut hello = hello(1, 1);
    hello["hello"]["features"] = json!([NOISE_FEATURE]);
    let hello = hello.to_string();
    peer.frame(hello.as_bytes());
    let welcome = peer.body().expect("a welcome");
    let offer: Value = serde_json::from_slice(&welcome).expect("a welcome");
    let nonce = offer["welcome"]["nonce"].as_str().expect("a nonce");
    let greeting = (hello.as_bytes(), &welcome[..]);
    let (frame, mut seals) =
        auth::answer(nonce, [7; 32], KEY, greeting, message).expect("an offer");
    peer.bytes(&frame);
    let answer = peer.body().expect("an answer");
    let answer = seals.theirs.open(&answer).expect("who has the key hears no unproven word");
    (peer, seals, answer)
}

#[test]
fn who_has_the_key_names_the_server_too() {
    let server = Served::start(with_key());
    let ends =
        |port: u16| json!({ "client": "127.0.0.1:1", "server": format!("127.0.0.1:{port}") });
    let port = server.at.port();
    let request = |ends: Value| json!({ "request": { "plan": plan(&json!({})), "ends": ends } });
    let (here, other) = (ends(port), ends(port ^ 1));
    for (message, kind) in [
        (request(json!(null)), "protocol"),
        (request(other.clone()), "key"),
        (json!({ "agent": other }), "key"),
        (json!({ "agent": here }), "policy"),
        (json!("start"), "protocol"),
    ] {
        let (.., answer) = session(&server, &message);
        assert_eq!(answer["refused"]["kind"], kind, "{message}: {answer}");
    }
    let (.., answer) = session(&server, &request(here));
    assert!(answer["agreed"]["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{answer}");
}

#[test]
fn an_end_of_an_older_release_is_told_what_to_update() {
    let server = Served::start(with_key());
    for message in [
        json!({ "request": { "plan": plan(&json!({})), "proof": "ab".repeat(32) } }),
        json!({ "agent": { "proof": "ab".repeat(32) } }),
    ] {
        let mut peer = Peer::greeted(server.at);
        peer.say(&message);
        let answer = peer.hear().expect("an answer");
        assert_eq!(answer["refused"]["kind"], "key", "{answer}");
        let hint = answer["refused"]["hints"][0].as_str().unwrap();
        assert!(hint.contains("update linerate at the client"), "{answer}");
    }
    // A client asks an older server for nothing, nor one of which somebody says that it is.
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let (record, _server) = through(lasting(200, tcp()), move |from, n, body: &[u8]| {
        if from == Who::Client {
            *count.lock().unwrap() += 1;
            return honest(from, n, body);
        }
        let mut message: Value = serde_json::from_slice(body).expect("a welcome");
        message["welcome"]["features"] = json!(["clock-exchange"]);
        vec![message.to_string().into_bytes()]
    });
    let refused = error(&record, "key", 3);
    assert!(refused.hints[0].contains("update linerate at the server"), "{refused:?}");
    assert_eq!(*asked.lock().unwrap(), 1, "a hello and nothing else");
}

/// Carries everything, and keeps what is not of the greeting.
fn overhears(
    heard: &Arc<Mutex<Vec<u8>>>,
) -> impl Fn(Who, usize, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static {
    let heard = Arc::clone(heard);
    move |from, n, body| {
        if n > 0 {
            heard.lock().unwrap().extend_from_slice(body);
        }
        honest(from, n, body)
    }
}

#[test]
fn nothing_that_is_said_under_a_key_can_be_read_on_the_way() {
    let heard = Arc::default();
    let (record, _server) = through(lasting(300, tcp()), overhears(&heard));
    complete(&record);
    let scratch = Scratch::new("overheard");
    let options = Options { agent: Some(scratch.options(true, None)), ..with_key() };
    let (_server, at) = on_the_path(options, overhears(&heard));
    let mut host = host(at).expect("the host lets us in");
    // Not in the words of the command itself, and longer than one piece of a reply.
    let argv =
        ["sh", "-c", "for n in $(seq 9999); do echo secret-$n; done"].map(String::from).to_vec();
    let command = CommandRequest { argv, limit_ms: 60_000, keep_bytes: 1 << 20 };
    let done = host.run_command(&command).expect("an outcome");
    assert!(done.out.ends_with("secret-9998\nsecret-9999\n"), "{done:?}");
    drop(host);
    let heard = heard.lock().unwrap();
    assert!(heard.len() > done.out.len(), "{} bytes passed", heard.len());
    for word in ["secret", "seq 9999", "plan", "boot_id", "kernel", "cookie", "token", "ping"] {
        let at = heard.windows(word.len()).position(|part| part == word.as_bytes());
        assert!(at.is_none(), "{word:?} can be read");
    }
}
