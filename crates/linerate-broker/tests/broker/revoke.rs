//! An agent that is taken away is cut off, and stays away.

use std::time::Duration;

use linerate_broker::{Broker, Credentials};
use linerate_fleet::message::{Answer, Order};
use linerate_model::record::ErrorKind;

use crate::world::{LATE_S, NOW_S, World, run, until};

const PATIENCE: Duration = Duration::from_secs(20);

/// Connects, and answers whatever it is told, for as long as the test lasts.
async fn answering(credentials: &Credentials) -> Broker {
    let broker = Broker::connect(credentials).await.unwrap();
    let mut orders = broker.orders().await.unwrap();
    let own = broker.clone();
    tokio::spawn(async move {
        while let Some((_, asker)) = orders.next().await {
            let _ = own.answer(asker, &Answer::Done).await;
        }
    });
    broker
}

async fn answers(operator: &Broker, name: &str) -> bool {
    operator.send_order(name, &Order::Ping, PATIENCE).await.is_ok()
}

async fn is_let_in(credentials: &Credentials) -> bool {
    match Broker::connect(credentials).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Authentication, "{error:?}");
            false
        }
    }
}

#[test]
fn whoever_is_revoked_is_cut_off_and_let_in_no_more_and_others_go_on() {
    let Some(mut world) = World::new("revoke") else { return };
    run(async {
        let operator = world.operator().await;
        // Two hosts became a, one after the other.
        let before = world.agent(&operator, "a").await;
        let (a, b) = (world.agent(&operator, "a").await, world.agent(&operator, "b").await);
        let (cut_off, other) = (answering(&a).await, answering(&b).await);
        until(|| async { answers(&operator, "a").await && answers(&operator, "b").await }).await;
        let hosts = operator.enrolled().await.unwrap();
        assert_eq!((hosts["a"].len(), hosts["b"].len()), (2, 1), "{hosts:?}");
        let system = world.authority.system(NOW_S, LATE_S).unwrap();
        world.authority.revoke(&system, &hosts["a"], NOW_S).await.unwrap();
        operator.forget("a").await.unwrap();
        assert!(!operator.enrolled().await.unwrap().contains_key("a"));
        until(|| async { !answers(&operator, "a").await }).await;
        assert!(!is_let_in(&a).await && !is_let_in(&before).await);
        until(|| async { cut_off.is_refused() && !cut_off.is_connected() }).await;
        assert!(answers(&operator, "b").await && other.is_connected() && !other.is_refused());
        // The name is free for another host; what is revoked stays so.
        let again = world.agent(&operator, "a").await;
        let hosts = operator.enrolled().await.unwrap();
        world.authority.revoke(&system, &hosts["b"], NOW_S).await.unwrap();
        assert!(is_let_in(&again).await && !is_let_in(&a).await && !is_let_in(&b).await);
        // The configuration with which it starts says otherwise, and is older.
        world.nats.again();
        assert!(is_let_in(&again).await && !is_let_in(&a).await && !is_let_in(&b).await);
    });
}
