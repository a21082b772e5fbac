//! What whoever runs a fleet of agents sees of it, and does to it, with a real nats-server.

use std::fs::read_to_string;

use linerate_testkit::peer::LONG;
use serde_json::Value;

use crate::schema;
use crate::support::agents::{ANYTHING, Agent, Fleet};
use crate::support::{Ran, linerate, wait_for};
use crate::web::Shown;

/// The document of a verb, which is one of its schema.
fn document(ran: &Ran, name: &str) -> Value {
    let value: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}\n{}", ran.out, ran.err));
    let schema = serde_json::from_str(&linerate(None, &["schema", name]).out).expect("JSON");
    schema::validate(&schema, &value).unwrap_or_else(|e| panic!("{name}: {e}\n{value}"));
    value
}

#[test]
fn all_that_a_host_has_is_shown() {
    let Some(fleet) = Fleet::new("inventory", &["a", "b"]) else { return };
    let dir = fleet.dir();
    let ran = linerate(None, &["fleet", "hosts", &dir, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let value = document(&ran, "fleet-hosts");
    let names: Vec<&str> = value["agents"]
        .as_array()
        .expect("agents")
        .iter()
        .filter_map(|a| a["name"].as_str())
        .collect();
    assert_eq!(names, ["a", "b"], "{value}");
    let said = &value["agents"][0]["said"];
    assert_eq!(said["allows"], "udp, tcp, rr; 60 s; any rate; 1 stream; with all", "{value}");
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"), "{value}");
    let kernel = read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    assert_eq!(said["inventory"]["kernel"], kernel.trim(), "{value}");
    assert!(said["inventory"]["cores"].as_u64() > Some(0), "{value}");
    assert_eq!(said.get("nat"), None, "a broker on the same host says nothing of NAT: {value}");
    let shown = linerate(None, &["fleet", "hosts", &dir, "a"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.starts_with("agent    a: "), "{}", shown.out);
    assert!(shown.out.contains("\npolicy   udp, tcp, rr; 60 s; any rate"), "{}", shown.out);
    assert!(!shown.out.contains("agent    b"), "{}", shown.out);
    let all = linerate(None, &["fleet", "hosts", &dir, "-v"]);
    assert!(all.out.contains("\nagent    b: "), "{}", all.out);
    let nobody = linerate(None, &["fleet", "hosts", &dir, "c"]);
    assert_eq!(nobody.code, 3, "{}", nobody.err);
}

/// Of each finding its check, how much it matters, and what is.
fn findings(value: &Value) -> Vec<(String, String, String)> {
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let all = value["findings"].as_array().expect("findings").iter();
    all.map(|one| (text(one, "id"), text(one, "severity"), text(one, "what"))).collect()
}

/// What may be so on the machine that runs the tests.
fn beyond_notes(value: &Value) -> Vec<String> {
    let all = findings(value).into_iter();
    all.filter(|(_, severity, _)| severity != "note").map(|(id, ..)| id).collect()
}

#[test]
fn the_doctor_tells_what_is_not_well() {
    let Some(mut fleet) = Fleet::new("doctor", &["a", "b"]) else { return };
    let dir = fleet.dir();
    let judged = |code: i32| {
        let ran = linerate(None, &["fleet", "doctor", &dir, "--json"]);
        assert_eq!(ran.code, code, "{}\n{}", ran.err, ran.out);
        document(&ran, "fleet-doctor")
    };
    let well = judged(0);
    assert_eq!(beyond_notes(&well), Vec::<String>::new(), "{well}");
    assert_eq!(well["unknown"], Value::Array(vec![]), "{well}");
    assert_eq!(well["broker"]["sync_always"]["known"], true, "{well}");
    assert_eq!(well["checks"], 5 + 2 * 6 + 2, "{well}");
    // One loses its policy, another is enrolled for a short time and never comes.
    std::fs::remove_file(fleet.folder.join("b.toml")).expect("a policy");
    fleet.seen("b", " none ");
    fleet.enrol_for("c", &["--lifetime", "48h"]);
    let bad = judged(5);
    assert_eq!(beyond_notes(&bad), ["agent.expires", "agent.policy", "agent.silent"], "{bad}");
    let shown = linerate(None, &["fleet", "doctor", &dir]);
    assert_eq!(shown.code, 5, "{}", shown.err);
    for words in
        ["b has no policy", "the broker lets c in for", "c is enrolled, and has not been heard"]
    {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
    // A broker that acknowledges early; and whoever has no key of the fleet cannot know.
    let config = fleet.folder.join("fleet/broker.conf");
    let text = read_to_string(&config).expect("a file");
    std::fs::write(&config, text.replace("sync_interval: always", "sync_interval: 2m"))
        .expect("a file");
    fleet.nats.again();
    fleet.seen("a", " idle ");
    fleet.seen("b", " idle ");
    let lazy = judged(5);
    assert!(beyond_notes(&lazy).contains(&"broker.sync".to_owned()), "{lazy}");
    std::fs::remove_file(fleet.folder.join("fleet/account.json")).expect("a file");
    let blind = judged(5);
    assert!(!beyond_notes(&blind).contains(&"broker.sync".to_owned()), "{blind}");
    let unknown: Vec<_> =
        blind["unknown"].as_array().expect("some").iter().map(|one| &one["id"]).collect();
    assert_eq!(unknown, ["broker.sync", "broker.storage"], "{blind}");
}

#[test]
fn prometheus_is_told_what_the_broker_knows_of_agents_and_when_it_is_gone() {
    let Some(mut fleet) = Fleet::new("scraped", &["a", "b"]) else { return };
    let ran = fleet.run("a,b", &[], &["rr", "-t", "300ms"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let (file, dir) = (fleet.folder.join("fleet.db").display().to_string(), fleet.dir());
    let shown = Shown::start(&["fleet", "serve", &file, "--metrics=127.0.0.1:0", "--nats", &dir]);
    let text = || shown.get("/metrics");
    let has = |line: &str| text().contains(&format!("\nlinerate_fleet_{line}\n"));
    assert!(has("broker_up 1"), "{}", text());
    for agent in ["a", "b"] {
        let state = format!("agent_state{{agent=\"{agent}\",state=\"idle\"}} 1");
        assert!(wait_for(LONG, || has(&state)), "{}", text());
        assert!(has(&format!("agent_waiting_results{{agent=\"{agent}\"}} 0")), "{}", text());
    }
    fleet.nats.kill();
    assert!(wait_for(LONG, || has("broker_up 0")), "{}", text());
    assert!(has("pairs 1"), "of the file all is told: {}", text());
}

/// Of each event who says it, and what it is.
fn events(dir: &str, more: &[&str]) -> Vec<(String, String, Value)> {
    let ran = linerate(None, &[&["fleet", "events", dir, "--json"], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let value = document(&ran, "fleet-events");
    assert_eq!(value["unread"], 0, "{value}");
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let all = value["events"].as_array().expect("events").iter();
    all.map(|event| (text(event, "by"), text(event, "event"), event.clone())).collect()
}

#[test]
fn what_happened_is_kept_with_who_and_why() {
    let Some(mut fleet) = Fleet::new("events", &["a", "b"]) else { return };
    let dir = fleet.dir();
    let test = ["rr", "-t", "300ms"];
    let ran = fleet.run("a,b", &[], &test);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    fleet.allow("b", &ANYTHING.replace("\"rr\"", "\"udp\""));
    let words = fleet.words_to("refused.db", "a,b", &["--retries", "0"], &test);
    let refused = linerate(None, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(refused.code, 1, "{}\n{}", refused.err, refused.out);
    fleet.agents[0].end();
    let has = |by: &str, event: &str| {
        let all = events(&dir, &[]);
        all.iter().filter(|(b, e, _)| (b.as_str(), e.as_str()) == (by, event)).count()
    };
    // What an agent refuses it says when nothing is under way any more.
    assert!(wait_for(LONG, || has("b", "refused") == 1), "{:?}", events(&dir, &[]));
    assert_eq!((has("operator", "enrolled"), has("a", "came"), has("b", "came")), (2, 1, 1));
    assert_eq!((has("a", "went"), has("b", "went")), (1, 0));
    assert_eq!((has("operator", "granted"), has("operator", "given_back")), (2, 2));
    let all = events(&dir, &[]);
    let (_, _, refused) = all.iter().find(|(_, event, _)| event == "refused").expect("one");
    assert_eq!(
        (&refused["ground"], &refused["why"]),
        (&"policy".into(), &"it allows no test of rr".into())
    );
    let granted = all.iter().filter(|(_, event, _)| event == "granted");
    let leases: Vec<&Value> = granted.map(|(_, _, event)| &event["lease"]).collect();
    assert!(leases.contains(&&refused["lease"]), "{all:?}");
    assert_eq!(all[0].1, "enrolled", "in order: {all:?}");
    let of_a = events(&dir, &["a"]);
    assert!(of_a.len() == 7 && of_a.iter().all(|(by, ..)| by != "b"), "{of_a:?}");
    let shown = linerate(None, &["fleet", "events", &dir, "--since", "1h"]);
    assert!(shown.out.contains("by policy, lease"), "{}", shown.out);
}

#[test]
fn an_agent_that_is_revoked_is_gone_and_stays_away() {
    let Some(mut fleet) = Fleet::new("revoked", &["a", "b", "c"]) else { return };
    let dir = fleet.dir();
    let ran = linerate(None, &["fleet", "revoke", &dir, "a"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("a is revoked"), "{}", ran.err);
    let test = ["rr", "-t", "300ms"];
    let gone = fleet.run("a,b", &["--retries", "0"], &test);
    assert_eq!(gone.code, 1, "{}\n{}", gone.err, gone.out);
    assert!(gone.out.contains("cannot tell the agent a"), "{}", gone.out);
    let names = |fleet: &Fleet| {
        let ran = linerate(None, &["fleet", "hosts", &fleet.dir(), "--json"]);
        let value = document(&ran, "fleet-hosts");
        let all = value["agents"].as_array().expect("agents").iter();
        all.filter_map(|agent| agent["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(names(&fleet), ["b", "c"]);
    let again = linerate(None, &["fleet", "revoke", &dir, "a"]);
    assert_eq!(again.code, 3, "{}", again.err);
    // Neither as the process that it is nor as another one, nor once the broker has lost all its files.
    fleet.agents[0].said("the broker lets this agent in no more");
    fleet.agents.remove(0).kill();
    let mut revoked = Agent::start(&fleet.folder, "a");
    assert!(wait_for(LONG, || revoked.has_ended()), "{}", revoked.log());
    fleet.nats.kill();
    for lost in ["jetstream", "accounts"] {
        std::fs::remove_dir_all(fleet.folder.join("fleet").join(lost)).expect("files");
    }
    fleet.nats.again();
    assert!(wait_for(LONG, || linerate(None, &["fleet", "hosts", &dir]).code == 0));
    fleet.seen("b", " idle ");
    fleet.seen("c", " idle ");
    revoked = Agent::start(&fleet.folder, "a");
    assert!(wait_for(LONG, || revoked.has_ended()), "{}", revoked.log());
    assert_eq!(names(&fleet), ["b", "c"]);
    // The others go on.
    let words = fleet.words_to("others.db", "b,c", &[], &test);
    let others = linerate(None, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(others.code, 0, "{}\n{}", others.err, others.out);
    // The name can be given to a host again.
    std::fs::remove_dir_all(fleet.folder.join("a")).expect("its state");
    fleet.enrol("a");
    fleet.agents.push(Agent::start(&fleet.folder, "a"));
    fleet.seen("a", " idle ");
}
