//! A controller's session at a server, in linerate's own process of the test. The helper and the keeper of a
//! command, which are processes, are this very test program again.

use std::net::SocketAddr;
use std::path::PathBuf;

use linerate_model::plan::{Dialect, Direction, End, TestPlan, Traffic, Transport};
use linerate_model::record::{ErrorRecord, Status};
use linerate_model::setting::{Outcome, Setting, SettingValue};
use linerate_model::units::Nanos;
use linerate_model::word::Word;
use linerate_runner::agent::{
    self, Access, CommandOutcome, CommandRequest, DeviceChoice, HELPER_VERB, Hand, HostAgent,
    KEEPER_VERB, MONITOR_VERB, Remote, RemoteTest,
};
use linerate_runner::server::{Event, Options};
use linerate_runner::signals::Stop;
use linerate_testkit::peer::native::Peer;
use linerate_testkit::runnable::runnable;
use serde_json::{Value, json};

use crate::proven::{KEY, session, with_key};
use crate::support::{
    Fate, MS, Served, Who, between, bits, lasting, listener, little, reverse, rr, tcp, udp,
};

/// What this process is asked to be, by which program, and with which arguments.
const PROGRAM: &str = "LINERATE_TEST_PROGRAM";
const ARGS: &str = "LINERATE_TEST_ARGS";

/// The other processes of a host: nothing where nobody started them as that.
#[test]
fn another_process_of_a_host() {
    let args = std::env::var(ARGS).unwrap_or_default();
    match args.split(' ').collect::<Vec<_>>()[..] {
        [HELPER_VERB, _, state] => agent::helper(state.as_ref()).expect("the helper ends well"),
        [MONITOR_VERB, _, state, ref reboot @ ..] => {
            let program = std::env::var_os(PROGRAM).expect("a program").into();
            let words = reboot.iter().map(|word| word.trim_start_matches("--reboot=").to_owned());
            let reboot = Some(words.collect()).filter(|words: &Vec<_>| !words.is_empty());
            let options = agent::Options {
                program,
                state: state.into(),
                commands: false,
                reboot,
                profile: false,
            };
            agent::monitor(&options).expect("the monitor ends well");
        }
        [KEEPER_VERB] => agent::keep().expect("the keeper ends well"),
        _ => {}
    }
}

/// A directory with the journal and what stands for the program; gone afterwards.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("linerate-ends-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let this = std::env::current_exe().unwrap();
        // What the test program says is nobody's; the pipe that ends with it stays open.
        let script = format!(
            "#!/bin/sh\n{PROGRAM}=\"$0\" {ARGS}=\"$*\" exec '{}' --exact agent::another_process_of_a_host 3>&1 >/dev/null\n",
            this.display()
        );
        let text = path.join("text");
        std::fs::write(&text, script).unwrap();
        runnable(&text, &path.join("program"));
        Self(path)
    }

    pub fn options(&self, commands: bool, reboot: Option<&[&str]>) -> agent::Options {
        agent::Options {
            program: self.0.join("program"),
            state: self.0.join("state"),
            commands,
            profile: false,
            reboot: reboot.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn access(at: SocketAddr, key: &[u8]) -> Access {
    Access { name: at.ip().to_string(), port: at.port(), ip: None, bind: None, key: key.to_vec() }
}

/// Takes the host over.
pub fn host(at: SocketAddr) -> Result<Remote, ErrorRecord> {
    Remote::connect(&access(at, KEY))
}

fn serve(options: agent::Options) -> Served {
    Served::start(Options { agent: Some(options), ..with_key() })
}

fn sh(script: &str, limit_ms: u64) -> CommandRequest {
    let argv = ["sh", "-c", script].map(String::from).to_vec();
    CommandRequest { argv, limit_ms, keep_bytes: 100_000 }
}

fn refused(result: Result<impl Sized, ErrorRecord>, kind: &str) -> ErrorRecord {
    let error = result.err().expect("refused");
    assert_eq!(error.kind.name(), kind, "{error:?}");
    error
}

#[test]
fn who_may_not_is_told_why() {
    let scratch = Scratch::new("refused");
    let closed = Served::start(with_key());
    let error = refused(host(closed.at), "policy");
    assert!(error.hints[0].contains("--allow-settings"), "{error:?}");
    let server = serve(scratch.options(false, None));
    refused(Remote::connect(&access(server.at, b"another key of some bytes")), "key");
    let mut first = host(server.at).expect("let in");
    refused(host(server.at), "busy");
    let error = refused(first.run_command(&sh("true", 1_000)), "policy");
    assert!(error.hints[0].contains("--allow-commands"), "{error:?}");
    let error = refused(first.reboot(None), "policy");
    assert!(error.hints[0].contains("--allow-reboot"), "{error:?}");
    let (facts, permissions) = first.facts().expect("facts");
    assert!(facts.boot_id.is_some());
    assert!(permissions.settings && !permissions.commands && !permissions.reboot);
    drop(first);
    let why = server.control_ended(1);
    assert!(why.starts_with("the controller said goodbye"), "{why}");
    host(server.at).expect("free again").ping().expect("it is there");
}

#[test]
fn a_controller_samples_the_cpus_where_that_is_permitted() {
    let scratch = Scratch::new("sampled");
    let closed = serve(scratch.options(false, None));
    let mut host_of_none = host(closed.at).expect("let in");
    assert!(!host_of_none.facts().expect("facts").1.profile);
    let error = refused(host_of_none.sample_begin(), "policy");
    assert!(error.hints[0].contains("--allow-profile"), "{error:?}");
    let scratch = Scratch::new("sampled-too");
    let server = serve(agent::Options { profile: true, ..scratch.options(false, None) });
    let mut host = host(server.at).expect("let in");
    assert!(host.facts().expect("facts").1.profile);
    if let Err(error) = host.sample_begin() {
        linerate_testkit::skip("a host that is sampled", &format!("nobody may sample: {error:?}"));
        return;
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let sampled = host.sample_end().expect("samples");
    assert!(sampled.stacks.iter().map(|stack| stack.samples).sum::<u64>() > 20, "{sampled:?}");
    assert!(sampled.seconds > 0.2);
    refused(host.sample_end(), "unable");
}

#[test]
fn settings_that_are_none_are_refused_and_others_read() {
    let scratch = Scratch::new("settings");
    let server = serve(scratch.options(false, None));
    let mut host = host(server.at).expect("let in");
    let lo = DeviceChoice::Named("lo".into());
    let ring = Setting::new("ring.rx", SettingValue::Number(512)).unwrap();
    let done = host.apply(Some(&lo), &[ring]).expect("an answer");
    assert_eq!(done[0].outcome, Outcome::Refused, "{done:?}");
    assert!(done[0].why.is_some());
    let mtu = "mtu".parse().unwrap();
    let towards = DeviceChoice::Towards("127.0.0.1".into());
    let back = host.read(Some(&towards), &[mtu]).expect("an answer");
    assert_eq!(back[0].device.as_deref(), Some("lo"));
    assert!(matches!(back[0].value, Some(SettingValue::Number(mtu)) if mtu > 0), "{back:?}");
    assert!(host.restore().expect("an answer").complete());
}

#[test]
fn tests_commands_and_reboots_are_run_there() {
    let scratch = Scratch::new("work");
    let booted = scratch.0.join("booted");
    let reboot = ["touch", booted.to_str().unwrap()];
    let server = serve(scratch.options(true, Some(&reboot)));
    let open = Served::start(Options::default());
    let mut host = host(server.at).expect("let in");
    let test = |port, with_key, plan| RemoteTest { with_key, ..towards(port, false, plan) };
    let record = host.run_test(&test(open.at.port(), false, little())).expect("a record");
    assert_eq!((record.status, &record.error), (Status::Complete, &None));
    // One that needs a key, and one with many rows: it comes in pieces.
    let rows = TestPlan { interval: Nanos(10 * MS), ..lasting(1_000, udp(100)) };
    let record = host.run_test(&test(server.at.port(), true, rows)).expect("a record");
    assert_eq!((record.status, &record.error), (Status::Complete, &None));
    assert!(serde_json::to_string(&record).unwrap().len() > 24 << 10, "in pieces");
    let record = host.run_test(&test(server.at.port(), false, little())).expect("a record");
    assert_eq!(record.error.expect("an error").kind.name(), "key");
    // In the dialect that is asked for, whose server has a port of its own.
    let doors = vec![(Dialect::Netperf, 0)];
    let netperf = Served::start(Options { native: false, doors, ..Options::default() });
    let asked = test(netperf.at.port(), false, lasting(200, tcp()));
    let asked = RemoteTest { dialect: Some(Dialect::Netperf), ..asked };
    let record = host.run_test(&asked).expect("a record");
    assert_eq!((record.status, &record.error), (Status::Complete, &None));
    // And not found out.
    assert_eq!(record.found, None);
    assert_eq!(record.agreed.expect("a plan").dialect, Word::Known(Dialect::Netperf));

    let script = "echo here; head -c 90000 /dev/zero; exit 4";
    let done: CommandOutcome = host.run_command(&sh(script, 60_000)).expect("an outcome");
    assert_eq!((done.code, done.out.len(), done.timed_out), (Some(4), 90_005, false));
    let done = host.run_command(&sh("sleep 1000", 100)).expect("an outcome");
    assert!(done.timed_out);
    let nothing = CommandRequest { argv: vec!["no-such-program".into()], ..sh("", 1_000) };
    refused(host.run_command(&nothing), "command");
    host.reboot(None).expect("it begins");
    host.ping().expect("it is there");
    assert!(booted.exists());
}

#[test]
fn a_policy_holds_for_tests_that_a_controller_asks_for() {
    let scratch = Scratch::new("policy");
    let agent = Some(scratch.options(false, None));
    let server = Served::start(Options { agent, max_streams: 2, ..with_key() });
    let mut host = host(server.at).expect("let in");
    let plan = TestPlan { streams: 3, ..little() };
    let test = towards(server.at.port(), true, plan);
    let error = refused(host.run_test(&test), "policy");
    assert!(error.why.contains("3 streams are more than this server's 2"), "{error:?}");
}

#[test]
fn a_size_that_the_path_gives_is_held_to_the_rate() {
    let scratch = Scratch::new("size");
    let far = Served::start(Options::default());
    let agent = Some(scratch.options(false, None));
    let server = Served::start(Options { agent, max_rate: bits(2_560_000), ..with_key() });
    let mut host = host(server.at).expect("let in");
    let mut plan = lasting(200, udp(1));
    if let Traffic::Udp(udp) = &mut plan.traffic {
        udp.size = serde_json::from_value(json!(32)).unwrap();
        udp.rate = serde_json::from_value(json!({ "datagrams": 10_000 })).unwrap();
    }
    for discard in [false, true] {
        let small = towards(far.at.port(), discard, plan.clone());
        let record = host.run_test(&small).expect("a record");
        assert_eq!((record.status, &record.error), (Status::Complete, &None));
        let large = RemoteTest { size_from_mtu: true, ..small };
        let record = host.run_test(&large).expect("a record");
        let error = record.error.expect("refused");
        assert_eq!((error.kind.name(), record.status), ("policy", Status::Failed), "{error:?}");
    }
}

/// A test of `plan` towards `port` of this host.
fn towards(port: u16, discard: bool, plan: TestPlan) -> RemoteTest {
    RemoteTest {
        dialect: None,
        name: "127.0.0.1".into(),
        port,
        plan,
        size_from_mtu: false,
        ip: None,
        discard,
        with_key: false,
        command: vec![],
    }
}

#[test]
fn a_controllers_test_ends_at_the_owners_limits() {
    // Another server, which would go on.
    let far = Served::start(Options::default());
    let long = TestPlan { end: End::Datagrams(1_000_000), ..udp(1_000) };
    let day = Some(50_000);
    for (limits, plan, why) in [
        (
            Options { max_bytes: Some(50_000), ..with_key() },
            lasting(60_000, udp(1_000)),
            "--max-bytes",
        ),
        (
            Options { max_bytes: Some(50_000), ..with_key() },
            reverse(lasting(60_000, tcp())),
            "--max-bytes",
        ),
        (Options { max_duration: Nanos(200 * MS), ..with_key() }, long, "longest test time"),
        (
            Options { max_bytes: Some(2_000), ..with_key() },
            lasting(60_000, rr(Transport::Tcp)),
            "--max-bytes",
        ),
        (
            Options { max_duration: Nanos(200 * MS), ..with_key() },
            TestPlan { end: End::Datagrams(1_000_000_000), ..rr(Transport::Udp) },
            "longest test time",
        ),
        (
            Options { max_bytes_per_day: day, ..with_key() },
            lasting(60_000, udp(1_000)),
            "--max-bytes-per-day",
        ),
    ] {
        let scratch = Scratch::new("limits");
        let server = Served::start(Options { agent: Some(scratch.options(false, None)), ..limits });
        let mut host = host(server.at).expect("let in");
        for discard in [false, true] {
            let sends =
                plan.direction == Direction::Forward && matches!(plan.traffic, Traffic::Udp(_));
            if discard && !sends {
                continue;
            }
            let test = towards(far.at.port(), discard, plan.clone());
            let record = host.run_test(&test).expect("a record");
            let error = record.error.expect("it was ended");
            assert_eq!(error.kind.name(), "policy", "{why}, {discard}: {error:?}");
            assert!(error.why.contains(why), "{why}, {discard}: {error:?}");
            if day.is_some_and(|_| why.ends_with("day")) {
                // The next of today is refused.
                break;
            }
        }
    }
    // What needs more memory than this server lets a test have is refused.
    let scratch = Scratch::new("memory");
    let agent = Some(scratch.options(false, None));
    let server = Served::start(Options { agent, max_memory: 6 << 20, ..with_key() });
    let plan = TestPlan { streams: 8, ..little() };
    let test = towards(far.at.port(), false, plan);
    let error = refused(host(server.at).expect("let in").run_test(&test), "policy");
    assert!(error.why.contains("MiB of memory"), "{error:?}");
}

/// The rate that a message's plan asks for.
fn paced(message: &mut Value, rate: &Value) {
    match message {
        Value::Object(members) => {
            for (name, member) in members {
                match member.get_mut("rate").filter(|_| name == "tcp") {
                    Some(asked) => *asked = rate.clone(),
                    None => paced(member, rate),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| paced(one, rate)),
        _ => {}
    }
}

/// The other server sends as fast as it can, and each end believes that 50 Mbit/s were asked for.
#[test]
fn a_controllers_test_is_cut_where_more_arrives_than_the_owner_allows() {
    let far = Served::start(Options::default());
    let (listening, at) = listener();
    between(listening, far.at, |who, _, body: &[u8]| {
        let mut message = serde_json::from_slice(body).expect("JSON");
        let rate = if who == Who::Client { Value::Null } else { json!(50_000_000) };
        paced(&mut message, &rate);
        Fate::Frames(vec![message.to_string().into_bytes()])
    });
    let scratch = Scratch::new("fast");
    let agent = Some(scratch.options(false, None));
    let server = Served::start(Options { agent, max_rate: bits(60_000_000), ..with_key() });
    let test = towards(at.port(), false, reverse(lasting(60_000, tcp())));
    let record = host(server.at).expect("let in").run_test(&test).expect("a record");
    let error = record.error.expect("it was ended");
    let fast = error.why.contains("more arrived than this server's --max-rate");
    assert!(fast && error.kind.name() == "policy", "{error:?}");
}

/// One that reads nothing is waited for by nobody who ends.
#[test]
fn a_controller_that_takes_no_answer_keeps_no_server() {
    let scratch = Scratch::new("slow");
    let server = serve(scratch.options(true, None));
    let (mut peer, mut seals, answer) = session(&server, &opens(&server));
    assert_eq!(answer, "opened");
    let argv = ["sh", "-c", "yes | head -c 16000000"];
    let command =
        json!({ "command": { "argv": argv, "limit_ms": 60_000, "keep_octets": 16_000_000 } });
    peer.bytes(&seals.ours.seal(&command).unwrap());
    // More than the heartbeat: the answer has begun, and will fill the buffers of both ends.
    let mut unread = vec![0; 1 << 16];
    while let held = peer.control.peek(&mut unread).expect("an answer")
        && held < unread.len()
    {
        assert!(held > 0, "the server has hung up");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    server.stop();
    assert!(server.control_ended(1).starts_with("this server ends"));
}

#[test]
fn a_controller_that_stops_gives_up_what_it_waits_for() {
    let scratch = Scratch::new("stop");
    let began = scratch.0.join("began");
    let server = serve(scratch.options(true, None));
    let stop = Stop::default();
    let mut host = Remote::connect_until(&access(server.at, KEY), &stop).expect("let in");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !began.exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            stop.now();
        });
        let script = format!("touch {}; sleep 1000", began.display());
        refused(host.run_command(&sh(&script, 600_000)), "interrupted");
    });
    drop(host);
    server.control_ended(1);
    refused(Remote::connect_until(&access(server.at, KEY), &stop), "interrupted");
    refused(agent::listens("127.0.0.1", server.at.port(), &stop), "interrupted");
    agent::listens("127.0.0.1", server.at.port(), &Stop::default()).expect("it does");
}

#[test]
fn a_server_that_ends_lets_its_controller_go() {
    let scratch = Scratch::new("ends");
    let began = scratch.0.join("began");
    let server = serve(scratch.options(true, None));
    let mut host = host(server.at).expect("let in");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !began.exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            server.stop();
        });
        let script = format!("touch {}; sleep 1000", began.display());
        refused(host.run_command(&sh(&script, 600_000)), "server_lost");
    });
    assert!(server.control_ended(1).starts_with("this server ends"));
    let events = server.ends();
    assert!(events.iter().any(|event| matches!(event, Event::ControlStarted { .. })));
}

fn opens(server: &Served) -> serde_json::Value {
    json!({ "agent": { "client": "127.0.0.1:1", "server": server.at } })
}

#[test]
fn a_host_whose_lease_is_not_renewed_is_free_again() {
    let scratch = Scratch::new("lease");
    let server = serve(scratch.options(false, None));
    let (mut peer, mut seals, answer) = session(&server, &opens(&server));
    assert_eq!(answer, "opened");
    let (other, _, answer) = session(&server, &opens(&server));
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
    let why = server.control_ended(1);
    assert!(why.contains("did not renew its lease"), "{why}");
    drop(peer);
    let (_peer, _, answer) = session(&server, &opens(&server));
    assert_eq!(answer, "opened");
}

#[test]
fn a_controller_that_is_gone_or_talks_nonsense_frees_its_host() {
    let scratch = Scratch::new("gone");
    let server = serve(scratch.options(false, None));
    let leaves: [fn(Peer); 3] = [drop, Peer::reset, |mut peer| {
        peer.frame(b"no noise");
        // It may have said that it is there.
        while peer.body().is_some() {}
    }];
    for (n, leave) in (1..).zip(leaves) {
        let (peer, _, answer) = session(&server, &opens(&server));
        assert_eq!(answer, "opened");
        leave(peer);
        assert!(server.control_ended(n).contains("0 settings put back"));
    }
    // Two requests at once are none.
    let (mut peer, mut seals, _) = session(&server, &opens(&server));
    for _ in 0..2 {
        peer.bytes(&seals.ours.seal(&json!("facts")).unwrap());
    }
    drop(seals);
    drop(peer);
    server.control_ended(4);
}

/// This host, without a server.
#[test]
fn a_controller_has_its_own_host_in_hand() {
    let scratch = Scratch::new("hand");
    let (mut hand, left) = Hand::take(scratch.options(true, None)).expect("it is free");
    assert!(left.complete() && left.knobs.is_empty(), "{left:?}");
    assert_eq!(hand.name(), "local");
    let done = hand.run_command(&sh("echo here", 60_000)).expect("an outcome");
    assert_eq!((done.code, &*done.out), (Some(0), "here\n"));
    let error = refused(hand.reboot(None), "policy");
    assert!(error.why.contains("nobody reboot"), "{error:?}");
}
