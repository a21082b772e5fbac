//! `linerate agent` and `linerate fleet run --nats`, with a real nats-server, on this machine.

use std::fs::read_to_string;
use std::time::Duration;

use linerate_broker::{Broker, Credentials};
use linerate_fleet::message::{Answer, Came, Order, Prepare, Role};
use linerate_model::plan::{TcpPlan, TestPlan, Traffic};
use linerate_model::record::{ErrorKind, ErrorRecord, Status};
use linerate_model::setting::{Setting, SettingValue};
use linerate_testkit::peer::LONG;
use linerate_testkit::plans;
#[cfg(feature = "postgres")]
use linerate_testkit::postgres::Postgres;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::schema;
use crate::support::agents::{ANYTHING, Agent, Fleet};
use crate::support::{Client, Ran, linerate, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

fn document(ran: &Ran) -> Value {
    let value: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}\n{}", ran.out, ran.err));
    let schema = serde_json::from_str(&linerate(None, &["schema", "fleet"]).out).expect("JSON");
    schema::validate(&schema, &value).unwrap_or_else(|e| panic!("{e}\n{value}"));
    value
}

fn values(value: &Value) -> Vec<Option<f64>> {
    let pairs = value["pairs"].as_array().cloned().unwrap_or_default();
    let of = |pair: &Value| pair["values"].as_array().cloned().unwrap_or_default();
    pairs.iter().flat_map(of).map(|value| value.as_f64()).collect()
}

/// The broker is killed in the middle, then the coordinator; whoever goes on has all that was measured.
#[test]
fn every_pair_is_measured_whoever_is_killed() {
    let Some(mut fleet) = Fleet::new("killed", &["a", "b", "c"]) else { return };
    let test = ["udp", "-b", "5M", "-t", "1s"];
    // What the broker was to carry while it was killed may have to be tried again.
    let more = ["--times", "3", "--retries", "3"];
    let first = fleet.words("a,b,c", &more, &test);
    let first = Client::start(None, &first.iter().map(String::as_str).collect::<Vec<_>>());
    let measured = |fleet: &Fleet| values(&fleet.kept()).iter().flatten().count();
    assert!(wait_for(LONG, || measured(&fleet) >= 1), "nothing is kept");
    fleet.nats.again();
    assert!(wait_for(LONG, || measured(&fleet) >= 3), "nothing is kept after the broker");
    first.signal(Signal::SIGKILL);
    first.end();
    let before = values(&fleet.kept());
    let ran = fleet.run("a,b,c", &["--times", "3", "--retries", "3", "--resume"], &test);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let value = document(&ran);
    let after = values(&value);
    assert_eq!((after.len(), after.iter().flatten().count()), (9, 9), "{value}");
    for (before, after) in before.iter().zip(&after) {
        assert!(before.is_none() || before == after, "{before:?} {after:?}");
    }
    // On a core that others keep, nothing may be sent in a second.
    let most = after.iter().flatten().copied().fold(0.0, f64::max);
    assert!(most > 0.0 && most < 6e6, "{value}");
    // What the store has, no agent keeps.
    let results = format!("{:>7}  {:>7}  ", 0, "-");
    ["a", "b", "c"].iter().for_each(|name| fleet.seen(name, &results));
    for agent in &fleet.agents {
        assert!(agent.log().contains("has ended"), "{}", agent.log());
    }
}

#[test]
fn what_the_owner_of_a_host_does_not_allow_is_refused_and_logged() {
    let Some(fleet) = Fleet::new("policy", &["a", "b", "c"]) else { return };
    std::fs::remove_file(fleet.folder.join("b.toml")).expect("a policy");
    fleet.allow("c", &ANYTHING.replace("\"max\"", "\"1M\"").replace("\"*\"", "\"a\""));
    let ran = fleet.run("a,b,c", &["--retries", "0"], &["udp", "-b", "2M", "-t", "1s"]);
    assert_eq!(ran.code, 1, "{}\n{}", ran.err, ran.out);
    let value = document(&ran);
    let pairs = value["pairs"].as_array().expect("pairs");
    let missing = |from: &str, to: &str| {
        let of = |pair: &&Value| pair["from"] == from && pair["to"] == to;
        let pair = pairs.iter().find(of).unwrap_or_else(|| panic!("no {from} {to} in {value}"));
        pair["missing"].as_str().unwrap_or_default().to_owned()
    };
    assert!(
        missing("a", "b").contains("b: this agent refuses the test: it has no policy"),
        "{value}"
    );
    assert!(missing("a", "c").contains("2000000 bit/s are more than 1.000 Mbit/s"), "{value}");
    fleet.agents[1].said("it has no policy, so nothing is allowed");
    fleet.agents[2].said("it allows no test with `b`");
    fleet.seen("b", " none ");
    // A file that allows it is heeded at once.
    std::fs::remove_file(fleet.folder.join("fleet.db")).expect("a store");
    let ran = fleet.run("a,c", &[], &["udp", "-b", "500k", "-l", "500", "-t", "1s"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
}

#[test]
fn an_agent_believes_the_certificates_that_it_was_given() {
    let Some(fleet) = Fleet::speaking("tls", &["a"], true) else { return };
    let operator = read_to_string(fleet.folder.join("fleet/operator.json")).expect("a file");
    assert!(operator.contains("\"tls://127.0.0.1:"), "what is said in clear text stays on a host");
    // So does whoever asks the broker of itself.
    let doctor = linerate(None, &["fleet", "doctor", &fleet.dir(), "--json"]);
    assert_eq!(doctor.code, 0, "{}\n{}", doctor.err, doctor.out);
    let found: Value = serde_json::from_str(&doctor.out).expect("JSON");
    assert_eq!(found["broker"]["tls"], true, "{found}");
    assert_eq!(found["broker"]["sync_always"]["known"], true, "{found}");
    let path = fleet.folder.join("fleet/operator.json");
    let mut credentials = fleet.operator();
    credentials.ca = None;
    std::fs::write(path, credentials.text()).expect("a file");
    let ran = linerate(None, &["fleet", "hosts", &fleet.dir()]);
    assert_eq!(ran.code, 3, "{}\n{}", ran.err, ran.out);
    let strange = fleet.run("a,b.c", &[], &["udp"]);
    assert_eq!(strange.code, 2, "{}", strange.err);
    assert!(strange.err.contains("no agent can be called `b.c`"), "{}", strange.err);
    let elsewhere = ["fleet", "init", "none", "--listen", "192.0.2.1:4222"];
    let refused = linerate(None, &elsewhere);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("without TLS it is for this host alone"), "{}", refused.err);
}

/// Neither knows of the other.
#[test]
fn two_runs_at_once_never_have_a_host_in_two_tests() {
    let Some(fleet) = Fleet::new("two-runs", &["a", "b", "c"]) else { return };
    let test = ["rr", "-t", "300ms"];
    let runs = ["one.db", "two.db"].map(|keep| {
        let more = ["--each-way", "--times", "2", "--retries", "5"];
        let words = fleet.words_to(keep, "a,b,c", &more, &test);
        Client::start(None, &words.iter().map(String::as_str).collect::<Vec<_>>())
    });
    for ran in runs.map(Client::end) {
        assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
        assert_eq!(values(&document(&ran)).iter().flatten().count(), 12, "{}", ran.out);
    }
    for agent in &fleet.agents {
        let log = agent.log();
        let mut now = None;
        for line in log.lines().filter_map(|line| line.get(20..)) {
            if let Some(ready) = line.strip_prefix("ready for ") {
                let before = now.replace(ready.split(' ').next().unwrap_or_default());
                // One whose other host was not ready in time never begins, and has no end.
                let began = before.filter(|turn| log.contains(&format!(" {turn} has ended")));
                assert_eq!(began, None, "{log}");
            } else if let Some(turn) = line.strip_suffix(" has ended") {
                assert_eq!(now.take(), Some(turn), "{log}");
            }
        }
        assert!(log.matches("ready for").count() >= 16, "{log}");
    }
}

/// The server of the database is killed in the middle, then the coordinator: every result is there once, and with each the
/// lease under which it was measured.
#[cfg(feature = "postgres")]
#[test]
fn results_and_leases_are_in_a_database_whoever_is_killed() {
    let Some(fleet) = Fleet::new("database", &["a", "b", "c"]) else { return };
    let Some(mut database) = Postgres::start("agents") else { return };
    let (dir, keep) = (fleet.dir(), database.address());
    let before = ["fleet", "run", "--hosts", "a,b,c", "--nats", &dir, "--keep", &keep, "--json"];
    let test = ["--times", "3", "--retries", "5", "rr", "-t", "300ms"];
    let kept = || {
        let ran = linerate(None, &["fleet", "results", &keep, "--json"]);
        values(&serde_json::from_str(&ran.out).unwrap_or_default())
    };
    let measured = || kept().iter().flatten().count();
    let first = Client::start(None, &[&before[..], &test].concat());
    assert!(wait_for(LONG, || measured() >= 1), "nothing is kept");
    database.again();
    assert!(wait_for(LONG, || measured() >= 3), "nothing is kept after the server was killed");
    first.signal(Signal::SIGKILL);
    first.end();
    let had = kept();
    let ran = linerate(None, &[&before[..], &["--resume"], &test].concat());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let after = values(&document(&ran));
    assert_eq!((after.len(), after.iter().flatten().count()), (9, 9), "{}", ran.out);
    for (before, after) in had.iter().zip(&after) {
        assert!(before.is_none() || before == after, "{before:?} {after:?}");
    }
    let counted = "SELECT count(*), count(DISTINCT slot) FROM linerate.run WHERE state = 'counted'";
    assert_eq!(database.ask(counted), "9|9");
    // Each of the two hosts of each test; none is written down twice at the same time.
    let leases = "SELECT count(*) >= 18, count(DISTINCT resource) FROM linerate.lease_audit";
    assert_eq!(database.ask(leases), "t|3");
    let unled = "SELECT count(*) FROM linerate.run WHERE state = 'counted' AND slot NOT IN
        (SELECT split_part(turn, '.', 2)::bigint FROM linerate.lease_audit)";
    assert_eq!(database.ask(unled), "0");
    let overlaps = "SELECT count(*) FROM linerate.lease_audit a JOIN linerate.lease_audit b
        ON a.resource = b.resource AND a.epoch < b.epoch AND a.during && b.during";
    assert_eq!(database.ask(overlaps), "0");
}

/// Their pairs with it fail at once, and theirs with each other is measured all the same.
#[test]
fn an_agent_that_is_away_costs_others_nothing() {
    let Some(mut fleet) = Fleet::new("away", &["a", "b", "c"]) else { return };
    fleet.agents.remove(2).kill();
    // Once the broker knows it.
    let stranger = Stranger::new(&fleet);
    let gone = |error: ErrorRecord| error.kind == ErrorKind::HostGone;
    let is_away = || stranger.send_order("c", &Order::Ping).is_err_and(gone);
    assert!(wait_for(LONG, is_away), "the broker takes it for connected");
    let pairs = ["--retries", "3", "--times", "2"];
    let ran = fleet.run("a,b,c", &pairs, &["rr", "-t", "200ms"]);
    assert_eq!(ran.code, 1, "{}\n{}", ran.err, ran.out);
    let value = document(&ran);
    for pair in value["pairs"].as_array().expect("pairs") {
        let why = pair["missing"].as_str().unwrap_or_default();
        let away = pair["from"] == "c" || pair["to"] == "c";
        assert_eq!(why.contains("it is not connected"), away, "{value}");
        let values = pair["values"].as_array().expect("values");
        let measured = !values.is_empty() && values.iter().all(Value::is_number);
        assert_eq!(measured, !away, "{value}");
    }
}

/// Its lease is of half an hour: it is given back as soon as the agent says that nothing waits on it.
#[test]
fn a_pair_is_tried_again_once_an_agent_that_was_killed_in_its_test_is_back() {
    let Some(mut fleet) = Fleet::new("back", &["a", "b"]) else { return };
    ["a", "b"].iter().for_each(|name| fleet.allow(name, &ANYTHING.replace("1m", "1h")));
    let words = fleet.words("a,b", &["--retries", "3"], &["udp", "-b", "1M", "-t", "30m"]);
    let run = Client::start(None, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(wait_for(LONG, || fleet.agents[0].measures()), "{}", fleet.agents[0].log());
    fleet.agents[0].kill();
    fleet.agents[0] = Agent::start(&fleet.folder, "a");
    assert!(wait_for(LONG, || fleet.agents[0].measures()), "{}", fleet.agents[0].log());
    run.signal(Signal::SIGINT);
    let ended = run.end();
    assert_eq!(ended.code, 130, "{}", ended.err);
}

/// As probes of latency beside a test of throughput.
#[test]
fn a_test_keeps_no_other_hosts_from_theirs() {
    let Some(fleet) = Fleet::new("elsewhere", &["a", "b", "c", "d"]) else { return };
    ["a", "b"].iter().for_each(|name| fleet.allow(name, &ANYTHING.replace("1m", "1h")));
    let long = fleet.words_to("long.db", "a,b", &[], &["udp", "-b", "1M", "-t", "30m"]);
    let long = Client::start(None, &long.iter().map(String::as_str).collect::<Vec<_>>());
    fleet.agents[..2].iter().for_each(|agent| agent.said("ready for "));
    let ran = fleet.run("c,d", &["--times", "3", "--retries", "3"], &["rr", "-t", "200ms"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert_eq!(values(&document(&ran)).iter().flatten().count(), 3, "{}", ran.out);
    let log = fleet.agents[0].log();
    assert!(!log.contains("has ended"), "{log}");
    long.signal(Signal::SIGINT);
    let ended = long.end();
    assert_eq!(ended.code, 130, "{}", ended.err);
}

/// Of an interface of the test's own network.
fn mtu(device: &str, bytes: u32) -> bool {
    let shown = crate::support::run("ip", &["link", "show", device]).1;
    shown.contains(&format!("mtu {bytes} "))
}

/// A fleet of two agents, each with an interface whose MTU a test may set.
fn with_interfaces(name: &str) -> Option<Fleet> {
    let fleet = Fleet::new(name, &["a", "b"])?;
    let veth = ["link", "add", "lra", "type", "veth", "peer", "name", "lrb"];
    assert!(crate::support::run("ip", &veth).0, "no interfaces");
    for (name, device) in [("a", "lra"), ("b", "lrb")] {
        let more = format!("settings = [\"mtu\"]\ndevice = \"{device}\"\n");
        fleet.allow(name, &[ANYTHING, &more].concat());
    }
    Some(fleet)
}

#[test]
fn a_test_sets_what_both_owners_allow() {
    let Some(fleet) = with_interfaces("set") else { return };
    let test = ["rr", "-t", "200ms"];
    let ran = fleet.run("a,b", &["--set", "mtu=1400", "--retries", "3"], &test);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    for (agent, device) in fleet.agents.iter().zip(["lra", "lrb"]) {
        assert!(agent.log().contains("set mtu = 1400 for"), "{}", agent.log());
        assert!(mtu(device, 1_500), "{device} is put back");
    }
    fleet.allow("b", ANYTHING);
    let words = fleet.words_to("denied.db", "a,b", &["--set", "mtu=1400", "--retries", "0"], &test);
    let ran = linerate(None, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, 1, "{}\n{}", ran.err, ran.out);
    let why = document(&ran)["pairs"][0]["missing"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("it lets no test set mtu"), "{why}");
    assert!(mtu("lra", 1_500) && mtu("lrb", 1_500));
}

#[test]
fn settings_hold_until_a_test_ends_and_outlast_no_agent() {
    let Some(mut fleet) = with_interfaces("set-held") else { return };
    let stranger = Stranger::new(&fleet);
    let set = || vec![Setting::new("mtu", SettingValue::Number(1_400)).expect("a setting")];
    let end = |epoch| stranger.send_order("b", &Order::End { epoch });
    stranger.prepare_set(7, Role::Server, 60, set()).expect("it is allowed");
    assert!(mtu("lrb", 1_400));
    end(7).expect("they held");
    assert!(mtu("lrb", 1_500));
    stranger.prepare_set(8, Role::Server, 60, set()).expect("it is allowed");
    assert!(crate::support::run("ip", &["link", "set", "lrb", "mtu", "1300"]).0);
    assert_eq!(kind(end(8)), ErrorKind::HelperLost, "somebody else has set it");
    assert!(mtu("lrb", 1_300), "what is another's stays");
    stranger.prepare_set(9, Role::Client, 60, set()).expect("it is allowed");
    assert!(mtu("lra", 1_400));
    fleet.agents[0].kill();
    assert!(wait_for(LONG, || mtu("lra", 1_500)), "put back by another process");
}

/// What no coordinator of this program would send.
struct Stranger {
    runtime: tokio::runtime::Runtime,
    broker: Broker,
}

impl Stranger {
    fn new(fleet: &Fleet) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let broker = runtime.block_on(Broker::connect(&fleet.operator())).expect("a broker");
        Self { runtime, broker }
    }

    fn send_order(&self, agent: &str, order: &Order) -> Result<Answer, ErrorRecord> {
        self.runtime.block_on(self.broker.send_order(agent, order, PATIENCE))
    }

    fn prepare(&self, epoch: u64, role: Role, lease_s: u64) -> Result<Answer, ErrorRecord> {
        self.prepare_set(epoch, role, lease_s, Vec::new())
    }

    fn prepare_set(
        &self,
        epoch: u64,
        role: Role,
        lease_s: u64,
        set: Vec<Setting>,
    ) -> Result<Answer, ErrorRecord> {
        let (agent, peer) = if role == Role::Client { ("a", "b") } else { ("b", "a") };
        let test = plans::remote("b", 0, TestPlan::new(Traffic::Tcp(TcpPlan::new(1 << 17))));
        let prepare = Prepare {
            epoch,
            length_ns: lease_s * 1_000_000_000,
            guard_ns: 1_000_000_000,
            role,
            peer: peer.to_owned(),
            token: "a token of one test, 32 bytes long".to_owned(),
            turn: format!("run.0.{epoch}"),
            test,
            set,
        };
        self.send_order(agent, &Order::Prepare(Box::new(prepare)))
    }
}

fn kind(answer: Result<Answer, ErrorRecord>) -> ErrorKind {
    answer.expect_err("it is refused").kind
}

#[test]
fn what_was_said_before_or_is_too_late_is_refused() {
    let Some(mut fleet) = Fleet::new("replayed", &["a", "b"]) else { return };
    let stranger = Stranger::new(&fleet);
    let ready = stranger.prepare(7, Role::Server, 60).expect("it is a new lease");
    let Answer::Ready { port, .. } = ready else { panic!("{ready:?}") };
    assert_eq!(kind(stranger.prepare(7, Role::Server, 60)), ErrorKind::Busy, "the same once more");
    assert_eq!(kind(stranger.prepare(6, Role::Server, 60)), ErrorKind::Busy, "an older one");
    assert_eq!(kind(stranger.prepare(8, Role::Server, 3_600)), ErrorKind::Policy, "for too long");
    // Nobody gets a test there without the token.
    let key = fleet.folder.join("key").display().to_string();
    std::fs::write(&key, "another token, that has 32 bytes too").expect("a file");
    let port = port.to_string();
    let test = ["tcp", "127.0.0.1", "--port", &port, "-t", "1s", "--json"];
    linerate(None, &[&test[..], &["--key-file", &key]].concat()).error("key", 3);
    linerate(None, &test).error("key", 3);
    // Nor with it another one than was asked for: a kind that its policy allows, for a time that it allows.
    std::fs::write(&key, "a token of one test, 32 bytes long").expect("a file");
    let with_token = |test: &[&str]| {
        let to = ["127.0.0.1", "--port", &port, "--key-file", &key, "--json"];
        linerate(None, &[&test[..1], &to, &test[1..]].concat())
    };
    with_token(&["rr", "-t", "1s"]).error("policy", 3);
    with_token(&["tcp", "-t", "11s"]).error("policy", 3);
    assert_eq!(stranger.send_order("b", &Order::End { epoch: 7 }).expect("it ends"), Answer::Done);
    let start = |epoch| Order::Start { epoch, address: "127.0.0.1".to_owned(), port: 9 };
    assert_eq!(kind(stranger.send_order("a", &start(7))), ErrorKind::Busy, "it was never told");
    assert_eq!(stranger.prepare(8, Role::Client, 60).expect("a new lease"), Answer::Done);
    fleet.allow("a", &ANYTHING.replace("\"*\"", ""));
    let denied = stranger.send_order("a", &start(8));
    assert_eq!(kind(denied), ErrorKind::Policy, "its owner allows it no more");
    fleet.allow("a", ANYTHING);
    stranger.send_order("a", &Order::End { epoch: 8 }).expect("it ends");
    assert_eq!(kind(stranger.send_order("a", &start(8))), ErrorKind::Busy, "it has ended");
    // Who was told before knows so after a restart.
    fleet.agents.remove(0).kill();
    fleet.agents.insert(0, Agent::start(&fleet.folder, "a"));
    assert!(wait_for(LONG, || stranger.send_order("a", &Order::Ping).is_ok()));
    assert_eq!(kind(stranger.prepare(8, Role::Client, 60)), ErrorKind::Busy);
    fleet.agents[0].said("is not later than all before");
    // All of it is kept, with the ground.
    let refused = |ground: &str| {
        let ran = linerate(None, &["fleet", "events", &fleet.dir(), "--json"]);
        let found: Value = serde_json::from_str(&ran.out).unwrap_or_default();
        let events = found["events"].as_array().cloned().unwrap_or_default();
        events.iter().any(|event| event["event"] == "refused" && event["ground"] == ground)
    };
    for ground in ["policy", "lease", "token"] {
        assert!(wait_for(LONG, || refused(ground)), "nothing was refused by {ground}");
    }
}

/// Both hosts of a test are cut off while it runs, and the client's lease is shorter than the test: nobody but itself ends it.
/// Nor is there room on the client's disk when it does.
#[test]
fn a_host_that_is_cut_off_stops_when_its_lease_is_over_and_keeps_its_result() {
    let Some(mut fleet) = Fleet::new("cut-off", &["a", "b"]) else { return };
    let stranger = Stranger::new(&fleet);
    let ready = stranger.prepare(7, Role::Server, 60).expect("a new lease");
    let Answer::Ready { address, port } = ready else { panic!("{ready:?}") };
    stranger.prepare(7, Role::Client, 5).expect("a new lease");
    let written = std::fs::metadata(fleet.folder.join("a/outbox.db-wal")).expect("its outbox");
    fleet.agents[0].room(&written.len().to_string());
    stranger.send_order("a", &Order::Start { epoch: 7, address, port }).expect("it begins");
    drop(stranger);
    fleet.nats.kill();
    fleet.agents[0].said("the lease of run.0.7 is over");
    fleet.agents.iter().for_each(|agent| agent.said("run.0.7 has ended"));
    fleet.agents[0].said("run.0.7 has ended, and what came of it waits in memory");
    fleet.agents[0].room("unlimited");
    fleet.agents[0].said("what could not be written is in the outbox now");
    // It is killed as well, and has its result all the same.
    fleet.agents.remove(0).kill();
    fleet.nats.again();
    nothing_is_sent_beside_a_test(&fleet);
    fleet.agents.insert(0, Agent::start(&fleet.folder, "a"));
    let stranger = Stranger::new(&fleet);
    let arrived = stranger.runtime.block_on(async {
        let arrived = async {
            // JetStream may begin after the server listens.
            let mut ingest = loop {
                match stranger.broker.ingest("run").await {
                    Ok(ingest) => break ingest,
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            };
            ingest.next().await.expect("a result")
        };
        let arrived = tokio::time::timeout(LONG, arrived).await.expect("it comes");
        stranger.broker.confirm(&arrived).await.expect("it is kept");
        arrived
    });
    assert_eq!((arrived.agent.as_str(), arrived.outcome.turn.as_str()), ("a", "run.0.7"));
    let Came::Record(record) = arrived.outcome.came else { panic!("{:?}", arrived.outcome) };
    assert_ne!(record.status, Status::Complete, "it was not as long as it was to be");
    fleet.seen("a", &format!("{:>7}  {:>7}  ", 0, "-"));
}

/// Of a broker that was just started, with `b` and a result that waits in the outbox of `a`, which is away.
fn nothing_is_sent_beside_a_test(fleet: &Fleet) {
    fleet.seen("b", " idle ");
    let stranger = Stranger::new(fleet);
    stranger.prepare(8, Role::Server, 60).expect("a new lease");
    let heard = || {
        let all = stranger.runtime.block_on(stranger.broker.seen()).expect("agents");
        all.into_iter().find(|seen| seen.name == "b").expect("it spoke").at
    };
    let before = heard();
    let key = fleet.folder.join("a/agent.json");
    let own = read_to_string(&key).expect("a key");
    // With these rights it hears its orders and no answer of JetStream, so that what it sends stays on its way.
    let deaf = Credentials { agent: Some("a".to_owned()), ..fleet.operator() };
    std::fs::write(&key, deaf.text()).expect("a file");
    let mut agent = Agent::start(&fleet.folder, "a");
    assert!(wait_for(LONG, || stranger.send_order("a", &Order::Ping).is_ok()), "{}", agent.log());
    let refused = stranger.prepare(8, Role::Client, 60).expect_err("it still sends");
    assert!(refused.why.contains("still on its way to the broker"), "{refused:?}");
    // As long as that took it says nothing; else it speaks every five seconds.
    assert_eq!(heard(), before);
    stranger.send_order("b", &Order::End { epoch: 8 }).expect("it ends");
    agent.kill();
    std::fs::write(&key, own).expect("a file");
}
