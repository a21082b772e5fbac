//! Keys of single clients: who is let in, with which rights and budgets, and what happens to tests that run when
//! the file changes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp, Zoned};
use linerate_model::plan::{Dialect, End, TestPlan, Transport};
use linerate_model::record::{ErrorRecord, RunRecord, Status};
use linerate_model::served::Outcome;
use linerate_model::setting::{Setting, SettingValue};
use linerate_model::units::BitRate;
use linerate_runner::agent::{Access, CommandRequest, HostAgent, Remote, RemoteTest};
use linerate_runner::client::Request;
use linerate_runner::keys::{Budget, Key, Keys, Right, Secret, Table, add, fresh, revoke};
use linerate_runner::server::{Event, Options};
use linerate_testkit::peer::iperf3;
use linerate_testkit::peer::native::{Peer, hello, plan as asked};
use linerate_wire::iperf3::{ErrorNumber, State};
use linerate_wire::native::auth::{self, NOISE_FEATURE};
use serde_json::{Value, json};

use crate::agent::Scratch;
use crate::proven::KEY;
use crate::support::{
    FAR, MS, Running, Served, checked, complete, error, lasting, little, request, reverse, rr, run,
    tcp, udp,
};

/// A file of keys that a server reads; gone afterwards.
struct Kept(PathBuf);

impl Kept {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("linerate-keys-{}-{name}.toml", std::process::id());
        let kept = Self(std::env::temp_dir().join(name));
        kept.write(text);
        kept
    }

    /// As `linerate keys` does it: another file takes its place.
    fn write(&self, text: &str) {
        let draft = self.0.with_extension("part");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, &self.0).unwrap();
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }

    fn revoke(&self, name: &str) {
        self.write(&revoke(&self.text(), name, Timestamp::now()).unwrap());
    }

    fn options(&self, proven: bool) -> Options {
        let keys = Keys::open(&self.0, proven).expect("a file of keys");
        Options { keys: Some(Arc::new(keys)), ..Options::default() }
    }

    fn serve(&self) -> Served {
        Served::start(self.options(true))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A key as `linerate keys new` makes it.
fn key(name: &str) -> Key {
    let (id, secret) = fresh();
    Key {
        name: name.into(),
        id,
        secret: Secret(secret),
        created: Timestamp::now(),
        expires: None,
        revoked: None,
        rights: vec![Right::Test],
        budget: Budget::default(),
    }
}

fn file(keys: &[&Key]) -> String {
    keys.iter().fold(String::new(), |text, key| add(&text, key).unwrap())
}

/// A test with what a client's key file holds.
fn with(at: SocketAddr, key: Option<&[u8]>, plan: TestPlan) -> Request {
    Request { key: key.map(<[u8]>::to_vec), ..request(at, plan) }
}

fn by(at: SocketAddr, key: &Key, plan: TestPlan) -> Request {
    with(at, Some(key.text().as_bytes()), plan)
}

fn endless() -> TestPlan {
    TestPlan { end: FAR, interval: linerate_model::units::Nanos(50 * MS), ..udp(500) }
}

/// The refusals so far: whose they are, and what was asked.
fn refusals(server: &Served) -> Vec<(Option<String>, bool)> {
    let events = server.events();
    let refused = events.iter().filter_map(|event| match event {
        Event::Refused { key, asked, .. } => Some((key.clone(), asked.is_some())),
        _ => None,
    });
    refused.collect()
}

#[test]
fn each_client_has_its_own_key_and_all_others_look_the_same() {
    let (ci, lab) = (key("ci"), key("lab"));
    let kept = Kept::new("own", &file(&[&ci, &lab]));
    let server = kept.serve();
    for (n, key) in (1..).zip([&ci, &lab]) {
        complete(&run(&by(server.at, key, little())));
        assert_eq!(server.started(n).key.as_deref(), Some(&*key.name));
        assert_eq!(server.ended(n).0.key.as_deref(), Some(&*key.name));
    }
    // An id that is not known, one that is with another secret, and a key that clients share.
    let mut told = Vec::new();
    for proof in [
        auth::own_key(&"0".repeat(16), &ci.secret.0),
        auth::own_key(&ci.id, &lab.secret.0),
        auth::own_key(&ci.id, &"0".repeat(64)),
        String::from_utf8(KEY.to_vec()).unwrap(),
    ] {
        let refused = error(&run(&with(server.at, Some(proof.as_bytes()), little())), "key", 3);
        told.push((refused.why, refused.hints));
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:#?}");
    let none = error(&run(&with(server.at, None, little())), "key", 3);
    assert!(none.why.contains("wants a key"), "{none:?}");
    for n in 1..=5 {
        server.refused(n);
    }
    assert_eq!(refusals(&server), vec![(None, false); 5]);
    // In a dialect that has no keys there is nothing to prove.
    let iperf3 = Request { dialect: Some(Dialect::Iperf3), ..request(server.at, little()) };
    assert!(run(&iperf3).error.is_some());
    assert!(server.refused(6).1.contains("a shared key, which clients of iperf3 cannot prove"));
}

#[test]
fn the_shared_key_stands_beside_those_of_clients() {
    let ci = key("ci");
    let kept = Kept::new("beside", &file(&[&ci]));
    let server = Served::start(Options { key: Some(KEY.to_vec()), ..kept.options(true) });
    complete(&run(&with(server.at, Some(KEY), little())));
    complete(&run(&by(server.at, &ci, little())));
    assert_eq!([1, 2].map(|n| server.started(n).key), [None, Some("ci".to_owned())]);
    // One that `linerate keys` made may be shared as well.
    let shared = key("shared").text().into_bytes();
    let server = Served::start(Options { key: Some(shared.clone()), ..kept.options(true) });
    complete(&run(&with(server.at, Some(&shared), little())));
    complete(&run(&by(server.at, &ci, little())));
    let server = Served::start(Options { key: Some(shared.clone()), ..Options::default() });
    complete(&run(&with(server.at, Some(&shared), little())));
    error(&run(&by(server.at, &ci, little())), "key", 3);
}

#[test]
fn who_names_an_id_and_does_not_prove_it_is_told_no_more_than_others() {
    let ci = key("ci");
    let kept = Kept::new("named", &file(&[&ci]));
    let server = kept.serve();
    // By hand: all that is on the wire, for a known id and for another.
    let [known, unknown] = [ci.id.clone(), "0".repeat(16)].map(|id| {
        let mut peer = Peer::begin(server.at);
        let mut hello = hello(1, 1);
        hello["hello"]["features"] = json!([NOISE_FEATURE]);
        hello["hello"]["key"] = json!(id);
        let hello = hello.to_string();
        peer.frame(hello.as_bytes());
        let welcome = peer.body().expect("a welcome");
        let offer: Value = serde_json::from_slice(&welcome).expect("a welcome");
        let nonce = offer["welcome"]["nonce"].as_str().expect("a nonce");
        let wrong = auth::own_key(&id, &"1".repeat(64));
        let message = json!({ "request": { "plan": asked(&json!({})) } });
        let greeting = (hello.as_bytes(), &welcome[..]);
        let (frame, _) =
            auth::answer(nonce, [7; 32], wrong.as_bytes(), greeting, &message).unwrap();
        peer.bytes(&frame);
        let answer = peer.hear().expect("an answer in clear");
        let mut welcome = offer["welcome"].clone();
        assert_eq!(nonce.len(), 96);
        welcome["nonce"] = json!("");
        (welcome, answer)
    });
    assert_eq!(known, unknown);
    assert_eq!(known.1["refused"]["kind"], "key");
}

#[test]
fn a_revoked_key_ends_what_runs_and_gets_nothing_more_while_others_go_on() {
    let (ci, lab) = (key("ci"), key("lab"));
    let kept = Kept::new("revoked", &file(&[&ci, &lab]));
    let server = kept.serve();
    let kinds = [
        endless(),
        reverse(endless()),
        TestPlan { end: FAR, ..tcp() },
        TestPlan { end: FAR, ..rr(Transport::Tcp) },
    ];
    let running: Vec<_> = kinds.map(|plan| Running::start(by(server.at, &ci, plan))).into();
    running.iter().for_each(|client| client.measures(1));
    let other = Running::start(by(server.at, &lab, endless()));
    other.measures(1);
    kept.revoke("ci");
    for client in running {
        let record = client.ends();
        let ended = error(&record, "server_stopped", 1);
        assert!(ended.why.contains("the key `ci` was revoked"), "{ended:?}");
        assert_eq!(record.status, Status::Partial);
        checked(&record);
    }
    for n in 1..=4 {
        let (test, end) = server.ended(n);
        assert_eq!((end.outcome, test.key.as_deref()), (Outcome::Cut, Some("ci")), "{end:?}");
    }
    let refused = error(&run(&by(server.at, &ci, little())), "key", 3);
    assert!(refused.why.contains("was revoked"), "{refused:?}");
    server.refused(1);
    assert_eq!(refusals(&server), [(Some("ci".to_owned()), true)]);
    // The one of the other goes on, and a new one of the same name is let in.
    other.measures(2);
    other.stop();
    error(&other.ends(), "interrupted", 130);
    let again = key("ci");
    kept.write(&add(&kept.text(), &again).unwrap());
    complete(&run(&by(server.at, &again, little())));
    error(&run(&by(server.at, &ci, little())), "key", 3);
}

#[test]
fn a_key_expires_while_its_test_runs() {
    let until = |seconds| Some(Timestamp::now() + SignedDuration::from_secs(seconds));
    let short = Key { expires: until(3_600), ..key("short") };
    let kept = Kept::new("expires", &file(&[&short]));
    let server = kept.serve();
    let running = Running::start(by(server.at, &short, endless()));
    running.measures(1);
    kept.write(&file(&[&Key { expires: until(2), ..short.clone() }]));
    let record = running.ends();
    let ended = error(&record, "server_stopped", 1);
    assert!(ended.why.contains("the key `short` has expired"), "{ended:?}");
    let refused = error(&run(&by(server.at, &short, little())), "key", 3);
    assert!(refused.why.contains("has expired"), "{refused:?}");
}

#[test]
fn a_damaged_file_changes_nothing_and_is_said_once() {
    let ci = key("ci");
    let kept = Kept::new("damaged", &file(&[&ci]));
    let server = kept.serve();
    let reads = || {
        let events = server.events();
        let read = |event: &Event| match event {
            Event::KeysRead { why, .. } => Some(why.is_some()),
            _ => None,
        };
        events.iter().filter_map(read).collect::<Vec<_>>()
    };
    let good = kept.text();
    let running = Running::start(by(server.at, &ci, endless()));
    running.measures(1);
    kept.write(&good[..good.len() / 2]);
    for _ in 0..3 {
        complete(&run(&by(server.at, &ci, little())));
    }
    std::fs::remove_file(&kept.0).unwrap();
    complete(&run(&by(server.at, &ci, little())));
    kept.write(&good);
    complete(&run(&by(server.at, &ci, little())));
    // At the start, damaged, gone, and whole again: it is said before the last test's start.
    server.started(6);
    assert_eq!(reads(), [false, true, true, false]);
    running.measures(1);
    running.stop();
    error(&running.ends(), "interrupted", 130);
}

#[test]
fn rights_say_what_a_key_is_good_for() {
    let scratch = Scratch::new("rights");
    let given = |name: &str, rights: &[Right]| Key { rights: rights.to_vec(), ..key(name) };
    let test = given("test", &[Right::Test]);
    let control = given("control", &[Right::Control]);
    let settings = given("settings", &[Right::Settings]);
    let kept = Kept::new("rights", &file(&[&test, &control, &settings]));
    let agent = Some(scratch.options(true, Some(&["true"])));
    let server = Served::start(Options { agent, ..kept.options(true) });
    let refused = |key: &Key| error(&run(&by(server.at, key, little())), "policy", 3);
    assert!(refused(&control).why.contains("does not have the right `test`"));
    complete(&run(&by(server.at, &test, little())));
    let host = |key: &Key| {
        let key = key.text().into_bytes();
        let name = server.at.ip().to_string();
        Remote::connect(&Access { name, port: server.at.port(), ip: None, bind: None, key })
    };
    let why = host(&test).err().expect("refused");
    assert!(why.kind.name() == "policy" && why.why.contains("the right `control`"), "{why:?}");
    let mtu = || vec![Setting::new("mtu", SettingValue::Number(1_500)).unwrap()];
    let command = CommandRequest { argv: vec!["true".into()], limit_ms: 60_000, keep_bytes: 9 };
    let mut hand = host(&control).expect("let in");
    let (_, may) = hand.facts().expect("facts");
    assert!(!may.settings && !may.commands && !may.reboot, "{may:?}");
    for asked in [
        hand.apply(None, &mtu()).map(drop),
        hand.run_command(&command).map(drop),
        hand.reboot(None),
    ] {
        let error = asked.expect_err("refused");
        assert!(error.kind.name() == "policy" && error.why.contains("`settings`"), "{error:?}");
    }
    let far = Served::start(Options::default());
    let asked = |plan, with_key| RemoteTest {
        dialect: None,
        name: "127.0.0.1".into(),
        port: far.at.port(),
        plan,
        size_from_mtu: false,
        ip: None,
        discard: false,
        with_key,
        command: vec![],
    };
    let record = hand.run_test(&asked(little(), false)).expect("a record");
    assert_eq!((record.status, &record.error), (Status::Complete, &None));
    let error = hand.run_test(&asked(little(), true)).expect_err("it has no key to show");
    assert!(error.why.contains("none of its own"), "{error:?}");
    drop(hand);
    server.control_ended(1);
    let mut hand = host(&settings).expect("let in");
    let (_, may) = hand.facts().expect("facts");
    assert!(may.settings && may.commands && may.reboot, "{may:?}");
    assert_eq!(hand.run_command(&command).expect("an outcome").code, Some(0));
    // What it loses while it is here it has no more, and its session ends at the next look; another ends with its key.
    let text = kept.text();
    kept.write(&text.replace("[\"settings\"]", "[\"control\"]"));
    let error = hand.run_command(&command).expect_err("refused");
    let at_next_look = error.kind.name() == "server_lost";
    assert!(error.why.contains("`settings`") || at_next_look, "{error:?}");
    let ended = server.control_ended(2);
    assert!(ended.starts_with("the key `settings` does not have the right"), "{ended}");
    kept.write(&text);
    let _another = host(&settings).expect("let in");
    kept.revoke("settings");
    let ended = server.control_ended(3);
    assert!(ended.starts_with("the key `settings` was revoked"), "{ended}");
    let deeds = server.events().into_iter().filter_map(|event| match event {
        Event::Controlled { key, text, .. } => Some((key.unwrap_or_default(), text)),
        _ => None,
    });
    let deeds: Vec<_> = deeds.collect();
    let did = |key: &str, words: &[&str]| {
        let all = |text: &str| words.iter().all(|word| text.contains(word));
        assert!(
            deeds.iter().any(|(whose, text)| whose == key && all(text)),
            "{words:?}: {deeds:#?}"
        );
    };
    did("control", &["set mtu", "refused"]);
    did("control", &["ran a test of udp to 127.0.0.1", "complete"]);
    did("settings", &["ran the command `true`", "code 0"]);
}

/// Hours that begin and end so many hours from now, local time.
fn hours(from: i64, to: i64) -> String {
    let at =
        |hours| (Zoned::now() + SignedDuration::from_hours(hours)).strftime("%H:%M").to_string();
    format!("{}-{}", at(from), at(to))
}

/// Here and everywhere else, budgets of this host's network.
fn network(budget: &str) -> String {
    format!("[[network]]\ncidr = \"127.0.0.0/8\"\n{budget}\n")
}

/// In every dialect that a server speaks on its port.
fn each_dialect(at: SocketAddr, plan: TestPlan) -> [RunRecord; 2] {
    [Dialect::Native, Dialect::Iperf3]
        .map(|dialect| run(&Request { dialect: Some(dialect), ..request(at, plan.clone()) }))
}

fn refused(record: &RunRecord) -> ErrorRecord {
    record.error.clone().unwrap_or_else(|| panic!("not refused: {:?}", record.status))
}

#[test]
fn a_networks_rate_and_bytes_hold_in_every_dialect() {
    let kept = Kept::new("network", &network("max-rate = \"5M\"\nmax-bytes-per-day = \"400K\""));
    let max_rate = BitRate::new(100_000_000);
    let server = Served::start(Options { max_rate, ..kept.options(false) });
    let [native, iperf3] = each_dialect(server.at, lasting(200, tcp()));
    let why = error(&native, "policy", 3).why;
    assert!(why.contains("above the 5.000 Mbit/s of the network 127.0.0.0/8"), "{why}");
    refused(&iperf3);
    assert_eq!(server.refused(2).1, why);
    for record in each_dialect(server.at, lasting(1_000, udp(20))) {
        assert_eq!((record.status, &record.error), (Status::Complete, &None));
    }
    // By time: each is cut when the day's bytes are used up.
    let record = Running::start(request(server.at, TestPlan { end: FAR, ..udp(400) })).ends();
    let cut = error(&record, "server_stopped", 1);
    assert_eq!(cut.why, "its network's budget of bytes a day is used up");
    for (n, record) in (3..).zip(each_dialect(server.at, lasting(200, udp(100)))) {
        refused(&record);
        let (_, why) = server.refused(n);
        assert!(
            why.contains("the network 127.0.0.0/8 has carried 4")
                && why.contains("it may go on in "),
            "{why}"
        );
    }
}

#[test]
fn what_leaves_at_once_keeps_to_a_networks_rate() {
    let kept = Kept::new("bursts", &network("max-rate = \"8M\""));
    let server = Served::start(kept.options(false));
    let asked = |burst: u32| {
        let flow = r#""tcp":true,"reverse":true,"len":1000,"bandwidth":8000000"#;
        iperf3::Peer::asked(server.at, &format!(r#"{{{flow},"burst":{burst}}}"#))
    };
    // Half a second of the rate is 500 blocks.
    let mut granted = asked(500);
    assert_eq!(granted.state(), Some(State::CreateStreams));
    asked(501).fails(ErrorNumber::RATE);
    let (_, why) = server.refused(1);
    assert!(why.contains("more than half a second"), "{why}");
}

#[test]
fn a_keys_tests_and_bytes_are_its_own_and_narrower_than_the_servers() {
    let budget = Budget { tests: Some(1), bytes_per_day: Some(100_000), ..Budget::default() };
    let (ci, lab) = (Key { budget, ..key("ci") }, key("lab"));
    let kept = Kept::new("budget", &file(&[&ci, &lab]));
    let server =
        Served::start(Options { max_bytes_per_day: Some(10_000_000), ..kept.options(true) });
    let running = Running::start(by(server.at, &ci, TestPlan { end: FAR, ..udp(10) }));
    running.begins();
    let busy = error(&run(&by(server.at, &ci, little())), "busy", 3);
    assert!(busy.why.contains("1 tests of the key `ci` are running"), "{busy:?}");
    complete(&run(&by(server.at, &lab, little())));
    running.stop();
    running.ends();
    server.ended(2);
    let record = Running::start(by(server.at, &ci, TestPlan { end: FAR, ..udp(2_000) })).ends();
    let cut = error(&record, "server_stopped", 1);
    assert_eq!(cut.why, "its key's budget of bytes a day is used up");
    let bytes = TestPlan { end: End::Bytes(1_000), ..udp(2_000) };
    let used = error(&run(&by(server.at, &ci, bytes.clone())), "policy", 3);
    assert!(used.why.contains("the key `ci` has carried 1"), "{used:?}");
    complete(&run(&by(server.at, &lab, bytes)));
}

#[test]
fn a_controllers_test_is_charged_in_every_dialect() {
    let budget = Budget { bytes_per_day: Some(2_000_000), ..Budget::default() };
    let lab = Key { rights: vec![Right::Control], budget, ..key("lab") };
    for dialect in [Dialect::Iperf2, Dialect::Netperf, Dialect::Nuttcp] {
        let doors = vec![(dialect, 0)];
        let far = Served::start(Options { native: false, doors, ..Options::default() });
        let port = far.at.port();
        let name = format!("charged-{dialect:?}");
        let (scratch, kept) = (Scratch::new(&name), Kept::new(&name, &file(&[&lab])));
        let agent = Some(scratch.options(false, None));
        let server = Served::start(Options { agent, ..kept.options(true) });
        let (name, key) = (server.at.ip().to_string(), lab.text().into_bytes());
        let access = Access { name, port: server.at.port(), ip: None, bind: None, key };
        let mut hand = Remote::connect(&access).expect("let in");
        let test = RemoteTest {
            dialect: Some(dialect),
            name: "127.0.0.1".into(),
            port,
            plan: lasting(20_000, tcp()),
            size_from_mtu: false,
            ip: None,
            discard: false,
            with_key: false,
            command: vec![],
        };
        let record = hand.run_test(&test).expect("a record");
        let cut = error(&record, "policy", 3);
        assert_eq!(cut.why, "its key's budget of bytes a day is used up", "{dialect:?}");
        let why = hand.run_test(&test).expect_err("refused").why;
        assert!(why.contains("the key `lab` has carried "), "{dialect:?}: {why}");
    }
}

#[test]
fn a_controllers_test_counts_with_its_warm_up_and_is_cut_at_its_budget() {
    const BUDGET: u64 = 200_000;
    let budget = Budget { bytes_per_day: Some(BUDGET), ..Budget::default() };
    let lab = Key { rights: vec![Right::Control], budget, ..key("lab") };
    let far = Served::start(Options::default());
    for (name, discard) in [("counted", false), ("discarded", true)] {
        let scratch = Scratch::new(name);
        let kept = Kept::new(name, &file(&[&lab]));
        let agent = Some(scratch.options(false, None));
        let server = Served::start(Options { agent, ..kept.options(true) });
        let (name, key) = (server.at.ip().to_string(), lab.text().into_bytes());
        let access = Access { name, port: server.at.port(), ip: None, bind: None, key };
        let mut hand = Remote::connect(&access).expect("let in");
        let mut test = |plan| {
            let (name, port) = ("127.0.0.1".into(), far.at.port());
            let (size_from_mtu, ip, with_key, command) = (false, None, false, vec![]);
            let test = RemoteTest {
                name,
                port,
                plan,
                size_from_mtu,
                ip,
                discard,
                with_key,
                command,
                dialect: None,
            };
            hand.run_test(&test)
        };
        // A warm-up in which something is sent also where others have the cores for more than a second.
        let warmup = linerate_model::units::Nanos(3_000 * MS);
        let warm = TestPlan { warmup, end: End::Datagrams(20), ..udp(30) };
        let record = test(warm).expect("a record");
        assert_eq!((record.status, &record.error), (Status::Complete, &None));
        let measured = record
            .totals
            .sender
            .as_ref()
            .or_else(|| record.totals.forward.as_ref().and_then(|pair| pair.sender.as_ref()));
        let measured = measured.expect("what was sent").bytes;
        let all = TestPlan { end: End::Bytes(BUDGET), ..udp(200) };
        let why = test(all).expect_err("refused").why;
        let left = why.split_once("more than the ").expect("what is left").1;
        let left: u64 = left.split(' ').next().unwrap().parse().expect("bytes");
        assert!(BUDGET - left > measured, "{why}: {measured} were measured");
        let record = test(TestPlan { end: FAR, ..udp(2_000) }).expect("a record");
        let cut = error(&record, "policy", 3);
        assert_eq!(cut.why, "its key's budget of bytes a day is used up");
        assert_eq!(record.status, Status::Partial);
        let used = test(little()).expect_err("refused");
        assert!(used.why.contains("the key `lab` has carried 2"), "{used:?}");
    }
}

#[test]
fn hours_refuse_and_end_tests() {
    let ci = key("ci");
    let within = network(&format!("hours = \"{}\"", hours(-2, 2)));
    let outside = network(&format!("hours = \"{}\"", hours(2, 4)));
    let kept = Kept::new("hours", &(file(&[&ci]) + &within));
    let server = kept.serve();
    let running = Running::start(by(server.at, &ci, endless()));
    running.measures(1);
    kept.write(&(file(&[&ci]) + &outside));
    let ended = error(&running.ends(), "server_stopped", 1);
    assert!(ended.why.contains("the hours of the network 127.0.0.0/8 are"), "{ended:?}");
    let refused = error(&run(&by(server.at, &ci, little())), "policy", 3);
    assert!(refused.why.contains("it may go on at "), "{refused:?}");
    kept.write(&(file(&[&ci]) + &within));
    complete(&run(&by(server.at, &ci, little())));
}

#[test]
fn tests_of_iperf3s_dialect_end_with_the_hours() {
    let text = |from, to| network(&format!("hours = \"{}\"", hours(from, to)));
    let kept = Kept::new("iperf3", &text(-2, 2));
    let server = Served::start(kept.options(false));
    let iperf3 = |plan| Request { dialect: Some(Dialect::Iperf3), ..request(server.at, plan) };
    let clients: Vec<_> = [endless(), reverse(TestPlan { end: FAR, ..tcp() })]
        .map(|plan| Running::start(iperf3(plan)))
        .into();
    clients.iter().for_each(|client| client.measures(1));
    kept.write(&text(2, 4));
    for client in clients {
        assert_eq!(client.ends().status, Status::Partial);
    }
    for n in 1..=2 {
        let (_, end) = server.ended(n);
        let why = end.why.clone().unwrap_or_default();
        assert!(end.outcome == Outcome::Cut && why.contains("the hours of the network"), "{end:?}");
    }
}

#[test]
fn a_file_that_is_none_starts_no_server() {
    for (name, text) in [("empty", ""), ("broken", "[[key]]\nname = \"ci\"\n")] {
        let kept = Kept::new(name, text);
        let error = Keys::open(&kept.0, true).expect_err("no server");
        assert_eq!(error.exit_code, 2, "{error:?}");
    }
    // Nobody is let in by a file without a key.
    let kept = Kept::new("nobody", &network("max-tests = 1"));
    let server = kept.serve();
    error(&run(&request(server.at, little())), "key", 3);
    error(&run(&by(server.at, &key("ci"), little())), "key", 3);
    assert_eq!(Table::read(&kept.text()).unwrap().keys.len(), 0);
}
