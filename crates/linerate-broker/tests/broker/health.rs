//! What a broker tells of itself, and to whom.

use linerate_broker::Broker;

use crate::world::{LATE_S, NOW_S, World, run};

#[test]
fn who_asks_the_broker_of_itself_can_do_nothing_else() {
    let Some(world) = World::new("system") else { return };
    run(async {
        let operator = world.operator().await;
        let system = world.authority.system(NOW_S, LATE_S);
        let facts =
            operator.facts(&world.operator, system.clone().map_err(|e| e.why)).await.unwrap();
        assert_eq!(facts.sync_always.known(), Some(&true), "{facts:?}");
        assert!(facts.storage.known().is_some_and(|room| room.most_bytes > 0), "{facts:?}");
        assert!(!facts.tls && facts.listens == "127.0.0.1", "{facts:?}");
        assert!(facts.streams.iter().any(|stream| stream.name == "LR_RESULTS"), "{facts:?}");
        let untold = operator.facts(&world.operator, Err("no key".to_owned())).await.unwrap();
        assert_eq!(untold.sync_always.get().unwrap_err(), "no key");
        // The account of the broker itself has neither agents nor streams.
        let system = Broker::connect(&system.unwrap()).await.unwrap();
        assert!(system.seen().await.is_err());
        // An agent is not told either.
        let agent = world.agent(&operator, "a").await;
        let other = operator.facts(&agent, Ok(agent.clone())).await.unwrap();
        assert!(other.sync_always.known().is_none(), "{other:?}");
    });
}
