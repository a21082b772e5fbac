use linerate_model::doctor::Fact;
use linerate_model::fleet_agents::{FleetAgent, Heartbeat, Inventory, Nat};
use linerate_model::fleet_doctor::{FleetBroker, FleetFacts, FleetStorage, FleetStream};

use super::*;

fn broker() -> FleetBroker {
    FleetBroker {
        url: "tls://b:4222".into(),
        version: TESTED.into(),
        listens: "0.0.0.0".into(),
        tls: true,
        sync_always: Fact::Known(true),
        storage: Fact::Known(FleetStorage { bytes: 79, most_bytes: 100 }),
        streams: vec![FleetStream {
            name: "LR_RESULTS".into(),
            messages: 7,
            bytes: 1 << 40,
            most_bytes: None,
            consumers: 3,
        }],
    }
}

fn agent(name: &str) -> FleetAgent {
    let inventory =
        Inventory { clock_keepers: Some(vec!["chronyd".into()]), ..Inventory::default() };
    let said = Heartbeat {
        version: "0.1.0".into(),
        policy: true,
        nat: Some(Nat::None),
        inventory: Some(inventory),
        ..Heartbeat::default()
    };
    FleetAgent {
        name: name.into(),
        heard: Some("2026-01-01T00:00:00Z".into()),
        heard_s: Some(3),
        state: AgentState::Idle,
        said: Some(said),
        ..FleetAgent::default()
    }
}

fn beat(agent: &mut FleetAgent) -> &mut Heartbeat {
    agent.said.as_mut().unwrap()
}

/// Checks that found something, with severity and words.
fn found(broker: FleetBroker, agents: Vec<FleetAgent>) -> Vec<(String, Severity, String)> {
    let judged = judge(&FleetFacts { broker, agents });
    assert!(judged.findings.iter().all(|f| !f.why.is_empty() && !f.change.is_empty()));
    judged.findings.into_iter().map(|f| (f.id, f.severity, f.what)).collect()
}

fn of_broker(change: impl FnOnce(&mut FleetBroker)) -> Vec<(String, Severity, String)> {
    let mut broker = broker();
    change(&mut broker);
    found(broker, vec![])
}

fn of_agent(change: impl FnOnce(&mut FleetAgent)) -> Vec<(String, Severity, String)> {
    let mut agent = agent("a");
    change(&mut agent);
    found(broker(), vec![agent])
}

fn one(id: &str, severity: Severity, what: &str) -> Vec<(String, Severity, String)> {
    vec![(id.to_owned(), severity, what.to_owned())]
}

#[test]
fn who_is_in_a_test_is_not_silent() {
    assert_eq!(state(Some(59), false), AgentState::Idle);
    assert_eq!(state(Some(60), false), AgentState::Silent);
    assert_eq!(state(Some(600), true), AgentState::Leased);
    assert_eq!(state(None, false), AgentState::Unheard);
}

#[test]
fn where_all_is_well_nothing_is_found() {
    let facts = FleetFacts { broker: broker(), agents: vec![agent("a"), agent("b")] };
    let judged = judge(&facts);
    assert_eq!((judged.findings.len(), judged.unknown.len()), (0, 0), "{judged:?}");
    assert_eq!(judged.checks, 5 + 2 * 6 + 2);
}

#[test]
fn a_broker_that_is_not_as_it_should_be_is_told() {
    use Severity::{Note, Problem, Warning};
    let old = of_broker(|b| b.version = "2.12.0".into());
    assert_eq!(
        old,
        one("broker.version", Note, "the broker is nats-server 2.12.0, older than 2.15.2")
    );
    for newer in ["2.15.2", "2.15.10", "2.16.0-RC.1", "3.0.0"] {
        assert_eq!(of_broker(|b| b.version = newer.into()), [], "{newer}");
    }
    let clear = of_broker(|b| b.tls = false);
    assert_eq!(
        clear,
        one("broker.tls", Problem, "the broker takes connections at 0.0.0.0 without TLS")
    );
    for near in ["127.0.0.1", "::1", "localhost"] {
        assert_eq!(of_broker(|b| (b.tls, b.listens) = (false, near.into())), [], "{near}");
    }
    let lazy = of_broker(|b| b.sync_always = Fact::Known(false));
    assert_eq!(
        lazy,
        one("broker.sync", Problem, "the broker acknowledges what is not on its disk yet")
    );
    for (bytes, severity) in [(80, Warning), (94, Warning), (95, Problem), (200, Problem)] {
        let room = FleetStorage { bytes, most_bytes: 100 };
        let full = of_broker(|b| b.storage = Fact::Known(room));
        let what = format!("the broker's streams take {bytes} % of the room that it has for them");
        assert_eq!(full, one("broker.storage", severity, &what));
    }
    let read = of_broker(|b| b.streams[0].consumers = 800);
    assert_eq!(read, one("broker.streams", Warning, "LR_RESULTS has 800 readers of 1000"));
    let full = of_broker(|b| b.streams[0].most_bytes = Some(1 << 40));
    assert_eq!(full, one("broker.streams", Problem, "LR_RESULTS is 100 % full"));
}

#[test]
fn what_is_not_known_is_said_and_no_finding() {
    let broker = FleetBroker { version: "new".into(), ..FleetBroker::default() };
    let judged = judge(&FleetFacts { broker, agents: vec![] });
    let ids: Vec<&str> = judged.unknown.iter().map(|unknown| unknown.id.as_str()).collect();
    assert_eq!(ids, ["broker.version", "broker.tls", "broker.sync", "broker.storage"]);
    assert_eq!(judged.findings, []);
}

#[test]
fn an_agent_that_is_not_well_is_told() {
    use Severity::{Note, Problem, Warning};
    let silent = of_agent(|a| (a.state, a.heard_s) = (AgentState::Silent, Some(7_300)));
    let what = "a has not been heard for 2 hours, since 2026-01-01T00:00:00Z";
    assert_eq!(silent, one("agent.silent", Warning, what));
    let unheard = of_agent(|a| (a.state, a.said, a.heard) = (AgentState::Unheard, None, None));
    let what = "a is enrolled, and has not been heard since the broker was started";
    assert_eq!(unheard, one("agent.silent", Warning, what));
    // It was heard 3 s ago, and they have waited since.
    let waits = |s: u64| of_agent(|a| (beat(a).waiting, beat(a).oldest_s) = (2, Some(s - 3)));
    assert_eq!(waits(3_599), []);
    let what = "a has 2 results that no store has, the oldest for 60 minutes";
    assert_eq!(waits(3_600), one("agent.outbox-old", Warning, what));
    assert_eq!(waits(5 * 86_400)[0].1, Problem);
    let alone = of_agent(|a| (beat(a).waiting, beat(a).oldest_s) = (1, Some(3_600)));
    assert!(alone[0].2.starts_with("a has 1 result that no store has"), "{alone:?}");
    let grows = |before, oldest_s| {
        of_agent(|a| {
            (beat(a).waiting, beat(a).waiting_before) = (3, Some(before));
            beat(a).oldest_s = Some(oldest_s);
        })
    };
    assert_eq!((grows(3, 600), grows(2, 599)), (vec![], vec![]));
    let what = "results wait on a, and become more: 2 before, 3 now";
    assert_eq!(grows(2, 600), one("agent.outbox-growing", Warning, what));
    let none = of_agent(|a| beat(a).policy = false);
    let what = "a has no policy, or one with a line that is not understood";
    assert_eq!(none, one("agent.policy", Warning, what));
    let free = of_agent(|a| beat(a).inventory.as_mut().unwrap().clock_keepers = Some(vec![]));
    let what = "on a no program that keeps the clock in step was seen running";
    assert_eq!(free, one("agent.clock", Note, what));
    assert_eq!(of_agent(|a| beat(a).inventory = None), [], "an older one does not say");
}

#[test]
fn an_end_is_told_a_month_before() {
    use Severity::{Problem, Warning};
    let ends = |left_s| of_agent(|a| a.expires_in_s = Some(left_s));
    assert_eq!(ends(30 * 86_400), []);
    let what = "the broker lets a in for 29 days more";
    assert_eq!(ends(30 * 86_400 - 1), one("agent.expires", Warning, what));
    let what = "the broker lets a in for 2 days more";
    assert_eq!(ends(3 * 86_400 - 1), one("agent.expires", Problem, what));
    let what = "the broker lets a in no more: what it was enrolled for is over";
    assert_eq!(ends(-5), one("agent.expires", Problem, what));
}

#[test]
fn releases_that_differ_are_told_with_those_that_fewest_have() {
    let mut agents = vec![agent("a"), agent("b"), agent("c")];
    beat(&mut agents[1]).version = "0.2.0".into();
    let judged = judge(&FleetFacts { broker: broker(), agents });
    let finding = &judged.findings[0];
    assert_eq!(
        (finding.id.as_str(), &finding.agents[..]),
        ("fleet.versions", &["b".to_owned()][..])
    );
    assert_eq!(finding.what, "agents are of different releases: 0.1.0 on a, c; 0.2.0 on b");
}

#[test]
fn two_behind_nat_are_a_pair_that_cannot_be() {
    use Severity::{Note, Warning};
    let mut agents = vec![agent("a"), agent("b"), agent("c")];
    beat(&mut agents[0]).nat = Some(Nat::Behind);
    let one_behind = found(broker(), agents.clone());
    assert_eq!(one_behind, one("fleet.nat", Note, "a is behind NAT"));
    beat(&mut agents[2]).nat = Some(Nat::Behind);
    let what = "a, c are behind NAT: pairs of two of them cannot be measured";
    assert_eq!(found(broker(), agents), one("fleet.nat", Warning, what));
}

#[test]
fn of_a_thousand_agents_behind_nat_the_first_are_named() {
    let behind = |number: usize| {
        let mut agent = agent(&format!("a{number}"));
        beat(&mut agent).nat = Some(Nat::Behind);
        agent
    };
    let agents = (0..1_000).map(behind).collect();
    let judged = judge(&FleetFacts { broker: broker(), agents });
    let [finding] = judged.findings.as_slice() else { panic!("{:?}", judged.findings.len()) };
    assert!(finding.what.starts_with("a0, a1, a2, a3, a4, a5, a6, a7 and 992 more are behind"));
    assert_eq!(finding.change[0], "--pairs bipartite=a0,a1,a2,a3,a4,a5,a6,a7,…/OTHER,OTHER");
    assert_eq!(finding.agents.len(), 1_000);
}

#[test]
fn the_gravest_comes_first() {
    let mut broker = broker();
    (broker.version, broker.tls) = ("2.12.0".into(), false);
    let mut silent = agent("a");
    silent.state = AgentState::Silent;
    let severities: Vec<Severity> =
        found(broker, vec![silent]).into_iter().map(|(_, severity, _)| severity).collect();
    assert_eq!(severities, [Severity::Problem, Severity::Warning, Severity::Note]);
}
