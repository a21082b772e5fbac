//! What a shared key protects: a server that relays a client's request to another, somebody on the
//! path who reads, changes, repeats or leaves out control messages, an old session played again, and ends
//! of a release that proved less.

#[path = "support/native.rs"]
mod native;
mod support;

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linerate_runner::agent::{Access, CommandRequest, HostAgent, Remote};
use linerate_wire::native::PREAMBLE;
use linerate_wire::native::auth::{self, NOISE_FEATURE, Seals};
use native::{DEADLINES, Peer, hello, plan};
use serde_json::{Value, json};
use support::{Ran, Server, alone, linerate, list, wait_for};

const KEY: &str = "a key for tests only, 32 bytes.";

struct KeyFile(PathBuf);

impl KeyFile {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("linerate-{test}-{}", std::process::id()));
        std::fs::write(&path, KEY).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Client,
    Server,
}

/// The frames that are carried in place of the `n`th of one end, counted from 0.
type Hand = Arc<dyn Fn(From, usize, &[u8]) -> Vec<Vec<u8>> + Send + Sync>;

/// Somebody between client and server, who reads every control message and may do with it as they like.
/// What does not open as a control connection is carried as it is.
struct Between {
    port: u16,
}

impl Between {
    fn stand(
        listener: TcpListener,
        server: u16,
        hand: impl Fn(From, usize, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let port = listener.local_addr().unwrap().port();
        let hand: Hand = Arc::new(hand);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { return };
                let (asks, takes) = (client.try_clone().unwrap(), far.try_clone().unwrap());
                let (to, back) = (Arc::clone(&hand), Arc::clone(&hand));
                let (tell, told) = std::sync::mpsc::channel();
                std::thread::spawn(move || carry(asks, takes, From::Client, &to, Some(tell)));
                std::thread::spawn(move || {
                    // A control connection is known by the client's first bytes.
                    let framed = told.recv().unwrap_or(false);
                    if framed {
                        carry(far, client, From::Server, &back, None);
                    } else {
                        copy(far, client);
                    }
                });
            }
        });
        Self { port }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    who: From,
    hand: &Hand,
    framed: Option<std::sync::mpsc::Sender<bool>>,
) {
    if let Some(framed) = framed {
        let mut first = [0; 8];
        if from.read_exact(&mut first).is_err() || to.write_all(&first).is_err() {
            return;
        }
        let _ = framed.send(first == PREAMBLE);
        if first != PREAMBLE {
            return copy(from, to);
        }
    }
    let mut length = [0; 4];
    for n in 0.. {
        if from.read_exact(&mut length).is_err() {
            break;
        }
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        if from.read_exact(&mut body).is_err() {
            break;
        }
        for body in hand(who, n, &body) {
            let frame = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
            if to.write_all(&frame).is_err() {
                break;
            }
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn honest(_: From, _: usize, body: &[u8]) -> Vec<Vec<u8>> {
    vec![body.to_vec()]
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A client's test with the key.
fn test(key: &KeyFile, port: u16, line: &str) -> Ran {
    let port = port.to_string();
    let rest = ["127.0.0.1", "-p", &port, "--json", "--key-file", key.path()];
    let args: Vec<&str> = line.split(' ').chain(rest).collect();
    linerate(None, &args)
}

/// The lines of one kind in the server's log, once there are `n`.
fn lines(server: &Server, event: &str, n: usize) -> Vec<Value> {
    let read = || -> Vec<Value> {
        let log = server.log();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter(|line| line["event"] == event).collect()
    };
    assert!(wait_for(DEADLINES, || read().len() >= n), "{n} times {event}: {}", server.log());
    read()
}

/// A test through somebody who does that, whom the server's owner takes for a translation of addresses:
/// that is, somebody on the path.
fn on_the_path(
    key: &KeyFile,
    line: &str,
    hand: impl Fn(From, usize, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static,
) -> (Ran, Server) {
    let (listener, port) = listener();
    let public = format!("127.0.0.1:{port}");
    let server = Server::start(None, &["--key-file", key.path(), "--public", &public]);
    let between = Between::stand(listener, server.port, hand);
    (test(key, between.port, line), server)
}

#[test]
fn a_request_relayed_to_another_server_is_refused() {
    let _alone = alone();
    let key = KeyFile::new("relay");
    let server = Server::start(None, &["--key-file", key.path()]);
    let rogue = Between::stand(listener().0, server.port, honest);
    let record = test(&key, rogue.port, "tcp -R -t 200ms").error("key", 3);
    let why = record["error"]["why"].as_str().unwrap();
    assert!(why.contains(&format!("127.0.0.1:{}", rogue.port)), "{why}");
    let hint = record["error"]["hints"][0].as_str().unwrap();
    assert!(hint.contains(&format!("--public 127.0.0.1:{}", rogue.port)), "{hint}");
    // The same with another request than the client's: all that the rogue can make of it is noise.
    let other = |from, n, body: &[u8]| {
        if (from, n) != (From::Client, 1) {
            return honest(from, n, body);
        }
        assert!(serde_json::from_slice::<Value>(body).is_err(), "a request that can be read");
        let mut body = body.to_vec();
        body[40] ^= 1;
        vec![body]
    };
    let rogue = Between::stand(listener().0, server.port, other);
    test(&key, rogue.port, "tcp -R -t 200ms").error("key", 3);
    let refused = lines(&server, "refused", 2);
    let why: Vec<&str> = refused.iter().map(|line| line["why"].as_str().unwrap()).collect();
    assert!(why[0].contains("relays its request"), "{why:?}");
    assert!(why[1].contains("not proven"), "{why:?}");
    assert_eq!(lines(&server, "started", 0), [] as [Value; 0], "{}", server.log());
    test(&key, server.port, "tcp -R -t 200ms").complete();
}

#[test]
fn translation_that_the_owner_names_is_a_doubt_at_the_client() {
    let _alone = alone();
    let key = KeyFile::new("named");
    let (ran, _server) = on_the_path(&key, "tcp -t 300ms -i 100ms", honest);
    let record = ran.complete();
    let doubts = list(&record["doubts"]);
    let told = doubts.iter().filter(|d| d["text"].as_str().unwrap().contains("stands between"));
    assert_eq!(told.count(), 1, "{doubts:?}");
    let server = Server::start(None, &["--key-file", key.path()]);
    let record = test(&key, server.port, "tcp -t 200ms").complete();
    assert!(!record["doubts"].to_string().contains("stands between"), "{}", record["doubts"]);
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
    who: From,
    n: usize,
    change: Change,
) -> impl Fn(From, usize, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static {
    move |from, at, body| {
        if (from, at) == (who, n) { change(body) } else { honest(from, at, body) }
    }
}

#[test]
fn what_the_server_says_cannot_be_touched_on_the_way() {
    let _alone = alone();
    let key = KeyFile::new("server-says");
    for (what, change) in changes() {
        for (n, message) in [(2, "ready"), (3, "pong"), (19, "started"), (20, "row"), (22, "row")] {
            // A message left out shows when the next one comes, and after these none does unasked.
            if what == "left out" && message != "row" {
                continue;
            }
            println!("{message} {what}");
            let hand = once(From::Server, n, change);
            let (ran, _server) = on_the_path(&key, "tcp -R -t 500ms -i 100ms", hand);
            let record = ran.error("authentication", 1);
            assert_ne!(record["status"], "complete", "{message} {what}");
        }
    }
    // Before the server has proven itself it is not known to be one that has the key.
    for (what, change) in [changes()[0], changes()[3]] {
        println!("agreed {what}");
        let (ran, _server) = on_the_path(&key, "tcp -R -t 500ms", once(From::Server, 1, change));
        ran.error("key", 3);
    }
}

#[test]
fn what_the_client_says_cannot_be_touched_on_the_way() {
    let _alone = alone();
    let key = KeyFile::new("client-says");
    for (what, change) in changes() {
        for (n, message) in [(2, "ping"), (18, "start"), (19, "sent")] {
            println!("{message} {what}");
            // Left out, one of these shows at the next ping; before the start the client waits for an
            // answer first.
            if what == "left out" && message != "sent" {
                continue;
            }
            let hand = once(From::Client, n, change);
            let (ran, server) = on_the_path(&key, "tcp -t 500ms", hand);
            // TCP's end says as much as this word: the server may have told all its figures, proven,
            // before it looks at it.
            let late = message == "sent";
            assert!(late || ran.record()["status"] != "complete", "{message} {what}");
            let ended = lines(&server, "ended", 1).remove(0);
            assert_eq!(ended["outcome"], "failed", "{message} {what}: {ended}");
            assert!(ended["why"].as_str().unwrap().contains("not proven"), "{ended}");
        }
    }
}

#[test]
fn an_old_session_played_again_is_refused() {
    let _alone = alone();
    let key = KeyFile::new("replay");
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let (ran, server) = on_the_path(&key, "tcp -R -t 200ms", move |from, n, body| {
        if from == From::Client {
            keep.lock().unwrap().push(body.to_vec());
        }
        honest(from, n, body)
    });
    ran.complete();
    let mut peer = Peer::begin(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port)));
    for body in kept.lock().unwrap().iter().take(2) {
        peer.frame(body);
    }
    assert!(peer.hear().expect("a welcome")["welcome"].is_object());
    let answer = peer.hear().expect("an answer");
    assert_eq!(answer["refused"]["kind"], "key", "{answer}");
    assert_eq!(peer.hung_up(), None);
    assert_eq!(lines(&server, "started", 1).len(), 1);
}

/// A session made by hand with the key, and the server's answer to that first message.
fn session(server: &Server, message: &Value) -> (Peer, Seals, Value) {
    let mut peer = Peer::begin(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port)));
    let mut hello = hello(1, 1);
    hello["hello"]["features"] = json!([NOISE_FEATURE]);
    let hello = hello.to_string();
    peer.frame(hello.as_bytes());
    let welcome = peer.body().expect("a welcome");
    let offer: Value = serde_json::from_slice(&welcome).expect("a welcome");
    let nonce = offer["welcome"]["nonce"].as_str().expect("a nonce");
    let greeting = (hello.as_bytes(), &welcome[..]);
    let (frame, mut seals) =
        auth::answer(nonce, [7; 32], KEY.as_bytes(), greeting, message).expect("an offer");
    peer.bytes(&frame);
    let answer = peer.body().expect("an answer");
    let answer = seals.theirs.open(&answer).expect("who has the key hears no unproven word");
    (peer, seals, answer)
}

#[test]
fn who_has_the_key_names_the_server_too() {
    let _alone = alone();
    let key = KeyFile::new("names");
    let server = Server::start(None, &["--key-file", key.path()]);
    let ends =
        |port: u16| json!({ "client": "127.0.0.1:1", "server": format!("127.0.0.1:{port}") });
    let request = |ends: Value| json!({ "request": { "plan": plan(&json!({})), "ends": ends } });
    let (here, other) = (ends(server.port), ends(server.port ^ 1));
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
    let _alone = alone();
    let key = KeyFile::new("older");
    let server = Server::start(None, &["--key-file", key.path()]);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    for message in [
        json!({ "request": { "plan": plan(&json!({})), "proof": "ab".repeat(32) } }),
        json!({ "agent": { "proof": "ab".repeat(32) } }),
    ] {
        let mut peer = Peer::greeted(address);
        peer.say(&message);
        let answer = peer.hear().expect("an answer");
        assert_eq!(answer["refused"]["kind"], "key", "{answer}");
        let hint = answer["refused"]["hints"][0].as_str().unwrap();
        assert!(hint.contains("update linerate at the client"), "{answer}");
    }
    // A client asks an older server for nothing, nor one of which somebody says that it is.
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let (ran, _server) = on_the_path(&key, "tcp -t 200ms", move |from, n, body| {
        if from == From::Client {
            *count.lock().unwrap() += 1;
            return honest(from, n, body);
        }
        let mut message: Value = serde_json::from_slice(body).expect("a welcome");
        message["welcome"]["features"] = json!(["clock-exchange"]);
        vec![message.to_string().into_bytes()]
    });
    let record = ran.error("key", 3);
    let hint = record["error"]["hints"][0].as_str().unwrap();
    assert!(hint.contains("update linerate at the server"), "{hint}");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(*asked.lock().unwrap(), 1, "a hello and nothing else");
}

/// Carries everything, and keeps what is not of the greeting.
fn overhears(
    heard: &Arc<Mutex<Vec<u8>>>,
) -> impl Fn(From, usize, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static {
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
    let _alone = alone();
    let key = KeyFile::new("overheard");
    let heard = Arc::default();
    let (ran, server) = on_the_path(&key, "tcp -t 300ms -i 100ms", overhears(&heard));
    ran.complete();
    drop(server);
    let state =
        std::env::temp_dir().join(format!("linerate-overheard-state-{}", std::process::id()));
    let state = state.to_str().unwrap().to_owned();
    let (listener, port) = listener();
    let public = format!("127.0.0.1:{port}");
    let control = ["--allow-settings", "--allow-commands", "--state-dir", &state];
    let with_key = ["--key-file", key.path(), "--public", &public];
    let server = Server::start(None, &[&with_key[..], &control].concat());
    let between = Between::stand(listener, server.port, overhears(&heard));
    let (name, port) = ("127.0.0.1".to_owned(), between.port);
    let access = Access { name, port, ip: None, bind: None, key: KEY.as_bytes().to_vec() };
    let mut host = Remote::connect(&access).expect("the host lets us in");
    // Not in the words of the command itself, and longer than one piece of a reply.
    let argv =
        ["sh", "-c", "for n in $(seq 9999); do echo secret-$n; done"].map(String::from).to_vec();
    let command = CommandRequest { argv, limit_ms: 60_000, keep_bytes: 1 << 20 };
    let done = host.run_command(&command).expect("an outcome");
    assert!(done.out.ends_with("secret-9998\nsecret-9999\n"), "{done:?}");
    drop(host);
    drop(server);
    let _ = std::fs::remove_dir_all(state);
    let heard = heard.lock().unwrap();
    assert!(heard.len() > done.out.len(), "{} bytes passed", heard.len());
    for word in ["secret", "seq 9999", "plan", "boot_id", "kernel", "cookie", "token", "ping"] {
        let at = heard.windows(word.len()).position(|part| part == word.as_bytes());
        assert!(at.is_none(), "{word:?} can be read");
    }
}

#[test]
fn a_host_whose_lease_is_not_renewed_is_free_again() {
    let _alone = alone();
    let key = KeyFile::new("lease");
    let state = std::env::temp_dir().join(format!("linerate-lease-state-{}", std::process::id()));
    let control = ["--allow-settings", "--state-dir", state.to_str().unwrap()];
    let server = Server::start(None, &[&["--key-file", key.path()], &control[..]].concat());
    let here = format!("127.0.0.1:{}", server.port);
    let agent = json!({ "agent": { "client": "127.0.0.1:1", "server": here } });
    let (mut peer, mut seals, answer) = session(&server, &agent);
    assert_eq!(answer, "opened");
    let (other, _, answer) = session(&server, &agent);
    assert_eq!(answer["refused"]["kind"], "busy", "{answer}");
    assert_eq!(other.hung_up(), None);
    // Other words than a lease keep no host, nor does a late lease, and the connection stays open.
    for message in [
        json!({ "lease": { "epoch": 2, "ttl_ms": 100 } }),
        json!({ "lease": { "epoch": 1, "ttl_ms": 60_000 } }),
        json!("ping"),
    ] {
        peer.bytes(&seals.ours.seal(&message).unwrap());
    }
    let ended = lines(&server, "control_ended", 1).remove(0);
    assert!(ended["text"].as_str().unwrap().contains("did not renew its lease"), "{ended}");
    drop(peer);
    let (_peer, _, answer) = session(&server, &agent);
    assert_eq!(answer, "opened");
    drop(server);
    let _ = std::fs::remove_dir_all(state);
}
