//! Results come to the store, each once, whatever happens to the broker.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::HeaderMap;
use linerate_broker::Broker;
use linerate_fleet::message::{Came, Outcome};
use linerate_model::record::{ErrorKind, ErrorRecord};

use crate::world::{NOW_S, World, api, raw, run, until};

fn outcome(turn: &str) -> Vec<u8> {
    let error = ErrorRecord::new(ErrorKind::Refused, "cannot measure", "made up", &[]);
    let came = Came::Failed(Box::new(error));
    serde_json::to_vec(&Outcome { turn: turn.to_owned(), epoch: 1, came }).unwrap()
}

#[test]
fn a_result_is_the_agents_until_the_store_has_it() {
    let Some(world) = World::new("confirmed") else { return };
    run(async {
        let operator = world.operator().await;
        let agent = world.agent(&operator, "a").await;
        let agent = Broker::connect(&agent).await.unwrap();
        let mut confirmations = agent.confirmations().await.unwrap();
        for turn in ["run-1.0.1", "run-1.0.1", "run-1.1.1", "run-2.0.1"] {
            agent.hand_over(turn, outcome(turn)).await.unwrap();
        }
        let mut ingest = operator.ingest("run-1").await.unwrap();
        assert_eq!(ingest.waiting, 2, "of this run, and what came twice is one");
        let first = ingest.next().await.unwrap();
        assert_eq!((first.agent.as_str(), first.outcome.turn.as_str()), ("a", "run-1.0.1"));
        assert!(!agent.is_confirmed("run-1.0.1").await.unwrap(), "no store has it");
        operator.confirm(&first).await.unwrap();
        assert_eq!(confirmations.next().await.as_deref(), Some("run-1.0.1"));
        assert!(agent.is_confirmed("run-1.0.1").await.unwrap());
        assert!(!agent.is_confirmed("run-1.1.1").await.unwrap());
        // Whoever goes on after a coordinator has died is handed what it had not kept, at once.
        assert_eq!(ingest.next().await.unwrap().outcome.turn, "run-1.1.1");
        drop(ingest);
        let mut again = operator.ingest("run-1").await.unwrap();
        let (one, two) = (again.next().await.unwrap(), again.next().await.unwrap());
        assert_eq!([one.outcome.turn, two.outcome.turn], ["run-1.0.1", "run-1.1.1"]);
        assert_eq!(again.waiting, 0);
    });
}

#[test]
fn what_is_no_result_of_a_run_keeps_no_other_back() {
    let Some(world) = World::new("no_result") else { return };
    run(async {
        let operator = world.operator().await;
        let agent = Broker::connect(&world.agent(&operator, "a").await).await.unwrap();
        agent.hand_over("run.0.1", b"no JSON".to_vec()).await.unwrap();
        agent.hand_over("run.1.1", outcome("other.1.1")).await.unwrap();
        agent.hand_over("run.2.1", outcome("run.2.1")).await.unwrap();
        let mut ingest = operator.ingest("run").await.unwrap();
        let first = ingest.next().await.unwrap();
        assert_eq!((first.outcome.turn.as_str(), ingest.waiting), ("run.2.1", 0));
        operator.leave(first).await;
        let raw = raw(&world.operator).await;
        let held =
            async || api(&raw, "CONSUMER.INFO.LR_RESULTS.run").await["num_ack_pending"].clone();
        until(|| async { held().await == 0 }).await;
        assert!(!agent.is_confirmed("run.2.1").await.unwrap(), "it is still the agent's");
    });
}

/// The other host of a test knows what its result is called.
#[test]
fn nobody_can_have_a_result_taken_for_one_that_came_before() {
    let Some(world) = World::new("before") else { return };
    run(async {
        let operator = world.operator().await;
        let agent = Broker::connect(&world.agent(&operator, "a").await).await.unwrap();
        let hostile = raw(&world.agent(&operator, "b").await).await;
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", "run.0.1");
        let said = hostile.publish_with_headers("lr.result.b.run", headers, "{}".into());
        said.await.unwrap();
        hostile.flush().await.unwrap();
        agent.hand_over("run.0.1", outcome("run.0.1")).await.unwrap();
        let mut ingest = operator.ingest("run").await.unwrap();
        assert_eq!(ingest.next().await.unwrap().agent, "a");
    });
}

#[test]
fn a_reader_that_the_broker_has_forgotten_is_told_from_one_that_has_nothing_to_read() {
    let Some(world) = World::new("forgotten") else { return };
    run(async {
        let operator = world.operator().await;
        let agent = Broker::connect(&world.agent(&operator, "a").await).await.unwrap();
        assert!(!operator.is_read("run-1").await.unwrap());
        let ingest = operator.ingest("run-1").await.unwrap();
        assert!(operator.is_read("run-1").await.unwrap());
        drop(ingest);
        // As a broker whose files are lost, and an hour without this reader.
        let raw = raw(&world.operator).await;
        api(&raw, "CONSUMER.DELETE.LR_RESULTS.run_1").await;
        assert!(!operator.is_read("run-1").await.unwrap());
        api(&raw, "STREAM.DELETE.LR_RESULTS").await;
        assert!(!operator.is_read("run-1").await.unwrap());
        operator.make_streams(NOW_S * 1_000).await.unwrap();
        assert!(!operator.is_read("run-1").await.unwrap());
        let mut ingest = operator.ingest("run-1").await.unwrap();
        agent.hand_over("run-1.0.1", outcome("run-1.0.1")).await.unwrap();
        assert_eq!(ingest.next().await.unwrap().outcome.turn, "run-1.0.1");
    });
}

const AGENTS: usize = 4;
const RESULTS: usize = 40;

/// Sends what it has until the store has said of each that it has it.
async fn deliver(agent: Broker, number: usize) {
    let turn = |result: usize| format!("run.{number}.{result}");
    let outbox = RefCell::new((0..RESULTS).map(turn).collect::<BTreeSet<_>>());
    let mut confirmations = agent.confirmations().await.unwrap();
    let listen = async {
        while !outbox.borrow().is_empty() {
            let Some(turn) = confirmations.next().await else { return };
            outbox.borrow_mut().remove(&turn);
        }
    };
    let send = async {
        while !outbox.borrow().is_empty() {
            let waiting: Vec<String> = outbox.borrow().iter().cloned().collect();
            for turn in waiting {
                let handed = agent.hand_over(&turn, outcome(&turn)).await.is_ok();
                if handed && agent.is_confirmed(&turn).await.unwrap_or(false) {
                    outbox.borrow_mut().remove(&turn);
                }
            }
        }
    };
    // What is heard, and what is asked for: either empties it.
    tokio::select! { () = listen => {} () = send => {} }
}

#[test]
fn nothing_is_lost_or_doubled_by_a_broker_that_is_killed() {
    let Some(mut world) = World::new("nothing_lost") else { return };
    let operator = world.operator.clone();
    let credentials = run(async {
        let (operator, mut credentials) = (world.operator().await, Vec::new());
        for name in 0..AGENTS {
            credentials.push(world.agent(&operator, &format!("agent-{name}")).await);
        }
        credentials
    });
    let kept = Cell::new(0);
    let store = RefCell::new(BTreeSet::new());
    run(async {
        let operator = Broker::connect(&operator).await.unwrap();
        let mut ingest = operator.ingest("run").await.unwrap();
        let keep = async {
            loop {
                let arrived = ingest.next().await.unwrap();
                store.borrow_mut().insert(arrived.outcome.turn.clone());
                kept.set(store.borrow().len());
                // A broker that is down just now: it comes again.
                let _ = operator.confirm(&arrived).await;
            }
        };
        let mut agents = Vec::new();
        for (number, credentials) in credentials.iter().enumerate() {
            let agent = Broker::connect(credentials).await.unwrap();
            agents.push(deliver(agent, number));
        }
        let all = async {
            let mut agents = agents.into_iter();
            let [a, b, c, d] = std::array::from_fn(|_| agents.next().unwrap());
            tokio::join!(a, b, c, d);
        };
        let kill = async {
            for share in [1, 2] {
                until(|| async { kept.get() >= AGENTS * RESULTS * share / 3 }).await;
                world.nats.kill();
                tokio::time::sleep(Duration::from_millis(200)).await;
                world.nats.again();
            }
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(all, kill) } => {}
            () = keep => {}
        }
        assert_eq!(store.borrow().len(), AGENTS * RESULTS, "none is lost");
        let again = operator.ingest("run").await.unwrap();
        assert_eq!(again.waiting, (AGENTS * RESULTS) as u64, "none is kept twice");
    });
}
