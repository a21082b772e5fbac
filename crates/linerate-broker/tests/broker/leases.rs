//! All or nothing, one at a time, and over by themselves.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linerate_broker::Broker;
use linerate_fleet::message::Order;
use linerate_model::record::{ErrorKind, ErrorRecord};

use crate::world::{World, api, raw, run, set, until};

const LONG_TTL: Duration = Duration::from_secs(600);
const SHORT_TTL: Duration = Duration::from_secs(1);

#[test]
fn all_or_none_is_granted_and_only_the_holder_gives_it_back() {
    let Some(world) = World::new("all_or_none") else { return };
    run(async {
        let broker = world.operator().await;
        let grant =
            async |names: &[&str]| broker.grant(&set(names), LONG_TTL, "test").await.unwrap();
        let first = grant(&["host:a", "host:b.c", "link:up"]).await.expect("all are free");
        assert_eq!(grant(&["host:b.c", "host:z"]).await, None, "one is another's");
        assert_eq!(grant(&["host:d", "link:up"]).await, None, "the last one is another's");
        let second = grant(&["host:d", "host:z"]).await.expect("what was refused took nothing");
        assert!(second.epoch > first.epoch);
        assert!(broker.give_back(&first).await.unwrap());
        assert!(!broker.give_back(&first).await.unwrap(), "it is nobody's any more");
        let third = grant(&["host:a", "link:up"]).await.expect("they were given back");
        assert!(third.epoch > second.epoch);
        assert!(!broker.give_back(&first).await.unwrap(), "late, and another has it");
        assert_eq!(grant(&["host:a"]).await, None);
        assert!(broker.give_back(&third).await.unwrap());
        // Nor where the broker has lost all that it kept.
        let fourth = grant(&["host:a"]).await.expect("it was given back");
        api(&raw(&world.operator).await, "STREAM.DELETE.LR_LEASE").await;
        assert!(!broker.give_back(&fourth).await.unwrap());
    });
}

/// What was deleted or is over must leave nothing behind that would keep the next lease from ending.
#[test]
fn every_lease_of_a_resource_ends_by_itself() {
    let Some(world) = World::new("ends") else { return };
    run(async {
        let broker = world.operator().await;
        let (both, one) = (set(&["host:a", "host:b"]), set(&["host:a"]));
        let first = broker.grant(&both, SHORT_TTL, "test").await.unwrap().expect("free");
        // After one that was over, after another that was, and after one that was given back.
        for _ in 0..2 {
            until(|| async { broker.grant(&one, SHORT_TTL, "test").await.unwrap().is_some() })
                .await;
        }
        until(|| async {
            let Some(lease) = broker.grant(&both, SHORT_TTL, "test").await.unwrap() else {
                return false;
            };
            broker.give_back(&lease).await.unwrap()
        })
        .await;
        broker.grant(&both, SHORT_TTL, "test").await.unwrap().expect("it was given back");
        until(|| async { broker.grant(&one, LONG_TTL, "test").await.unwrap().is_some() }).await;
        assert!(!broker.give_back(&first).await.unwrap(), "it was over");
    });
}

#[test]
fn leases_outlast_a_broker_that_is_killed() {
    let Some(mut world) = World::new("killed") else { return };
    let first = run(async {
        let broker = world.operator().await;
        broker.grant(&set(&["host:a"]), LONG_TTL, "test").await.unwrap().expect("free")
    });
    world.nats.again();
    run(async {
        let broker = world.operator().await;
        assert_eq!(
            broker.grant(&set(&["host:a", "host:b"]), LONG_TTL, "test").await.unwrap(),
            None
        );
        assert!(broker.give_back(&first).await.unwrap());
    });
}

/// What 32 coordinators hold, and whether two ever held the same.
struct Hosts {
    held: Vec<AtomicBool>,
    twice: AtomicU64,
    epochs: Mutex<BTreeSet<u64>>,
}

const HOSTS: u64 = 40;
const GRANTS: u32 = 12;

/// One coordinator: takes pairs that chance has it take, holds each for a moment.
async fn work(broker: Broker, hosts: Arc<Hosts>, mut seed: u64) {
    let mut next = || {
        // Numerical Recipes' generator: which pairs meet is all that rests on it.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((seed >> 33) % HOSTS).unwrap()
    };
    let (mut granted, mut last) = (0, 0);
    while granted < GRANTS {
        let (a, b) = (next(), next());
        if a == b {
            continue;
        }
        let pair = set(&[&format!("host:{a}"), &format!("host:{b}")]);
        let lease = match broker.grant(&pair, LONG_TTL, "test").await {
            Ok(Some(lease)) => lease,
            Ok(None) => continue,
            Err(error) => {
                slow(&error);
                continue;
            }
        };
        granted += 1;
        for host in [a, b] {
            let twice = hosts.held[host].swap(true, Ordering::SeqCst);
            hosts.twice.fetch_add(u64::from(twice), Ordering::SeqCst);
        }
        assert!(lease.epoch.0 > last, "epochs rise");
        last = lease.epoch.0;
        assert!(hosts.epochs.lock().unwrap().insert(last), "no two grants have one epoch");
        tokio::task::yield_now().await;
        for host in [a, b] {
            hosts.held[host].store(false, Ordering::SeqCst);
        }
        match broker.give_back(&lease).await {
            Ok(held) => assert!(held),
            Err(error) => slow(&error),
        }
    }
}

/// Of 32 that each wait for a disk's flush one may not be answered in time where the disk has other work: what it asked
/// for stays taken then, at most.
fn slow(error: &ErrorRecord) {
    assert_eq!(error.kind, ErrorKind::TimedOut, "{error:?}");
}

#[test]
fn no_resource_is_granted_twice_by_32_coordinators() {
    let Some(world) = World::new("overlap") else { return };
    run(async {
        let held = (0..HOSTS).map(|_| AtomicBool::new(false)).collect();
        let (twice, epochs) = (AtomicU64::new(0), Mutex::default());
        let hosts = Arc::new(Hosts { held, twice, epochs });
        world.operator().await;
        let mut workers = tokio::task::JoinSet::new();
        for seed in 0..32 {
            let broker = Broker::connect(&world.operator).await.unwrap();
            workers.spawn(work(broker, Arc::clone(&hosts), seed));
        }
        while let Some(ended) = workers.join_next().await {
            ended.unwrap();
        }
        assert_eq!(hosts.twice.load(Ordering::SeqCst), 0);
        assert_eq!(hosts.epochs.lock().unwrap().len(), 32 * GRANTS as usize);
    });
}

/// What is said without a connection the client keeps, 2,048 words of it: whoever says more would wait for the broker.
#[test]
fn a_broker_that_is_away_keeps_nobody_waiting_without_an_end() {
    let Some(mut world) = World::new("away") else { return };
    run(async {
        let broker = world.operator().await;
        world.nats.kill();
        until(|| async { !broker.is_connected() }).await;
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..3_000 {
            let broker = broker.clone();
            let soon = Duration::from_millis(1);
            all.spawn(async move { broker.send_order("a", &Order::Ping, soon).await });
        }
        while let Some(answer) = all.join_next().await {
            assert_eq!(answer.unwrap().unwrap_err().kind, ErrorKind::TimedOut);
        }
        world.nats.again();
        until(|| async { broker.grant(&set(&["host:a"]), LONG_TTL, "test").await.is_ok() }).await;
    });
}
