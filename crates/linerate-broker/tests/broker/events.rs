//! What happened is kept, in the name of whoever says it.

use linerate_broker::{Broker, Credentials};
use linerate_model::fleet_events::{FleetEntry, FleetEvent, FleetSaid};

use crate::world::{World, run};

fn said(event: FleetEvent) -> FleetSaid {
    FleetSaid { at: "2026-01-01T00:00:00Z".to_owned(), event }
}

fn granted(lease: u64) -> FleetSaid {
    let (turn, takes) = (format!("run.{lease}.1"), vec!["host:a".to_owned()]);
    said(FleetEvent::Granted { turn, lease, takes, seconds: 41 })
}

async fn events(operator: &Broker, since: &str) -> (Vec<FleetEntry>, u64) {
    let mut all = Vec::new();
    let unread = operator.events(since, |entry| all.push(entry)).await.unwrap();
    (all, unread)
}

const EVER: &str = "1970-01-01T00:00:00Z";

#[test]
fn each_says_what_is_its_own_to_say() {
    let Some(world) = World::new("events") else { return };
    run(async {
        let operator = world.operator().await;
        assert_eq!(events(&operator, EVER).await, (vec![], 0));
        let honest = world.agent(&operator, "a").await;
        let agent = Broker::connect(&honest).await.unwrap();
        operator.say("a", "1", &granted(7)).await.unwrap();
        agent.say("", "2", &said(FleetEvent::Went)).await.unwrap();
        agent.say("", "2", &said(FleetEvent::Went)).await.unwrap();
        // The broker stops it where it speaks for others.
        let posing =
            |name: Option<&str>| Credentials { agent: name.map(str::to_owned), ..honest.clone() };
        let (b, c) =
            (Broker::connect(&posing(Some("b"))).await, Broker::connect(&posing(None)).await);
        let (b, c, went, lease) = (b.unwrap(), c.unwrap(), said(FleetEvent::Went), granted(8));
        let refused = tokio::join!(b.say("", "3", &went), c.say("a", "4", &lease));
        let words = "Permissions Violation for Publish to \"lr.event.";
        for refused in [refused.0, refused.1] {
            assert!(refused.as_ref().is_err_and(|e| e.why.starts_with(words)), "{refused:?}");
        }
        // In its own name it can say anything, and is not believed.
        agent.say("", "5", &granted(9)).await.unwrap();
        let (all, unread) = events(&operator, EVER).await;
        let shown: Vec<_> = all.iter().map(|entry| (entry.by.as_str(), &entry.said)).collect();
        assert_eq!(shown, [("operator", &granted(7)), ("a", &went)], "once each");
        assert_eq!(unread, 1);
        assert!(all.iter().all(|entry| entry.kept.ends_with('Z')), "{all:?}");
    });
}

/// More than are asked for at a time.
#[test]
fn all_are_read_in_their_order_and_from_a_time_on() {
    let Some(world) = World::new("many-events") else { return };
    run(async {
        let operator = world.operator().await;
        for lease in 0..600 {
            operator.say("a", &lease.to_string(), &granted(lease)).await.unwrap();
        }
        let (all, _) = events(&operator, EVER).await;
        let leases = |all: &[FleetEntry]| {
            let lease = |entry: &FleetEntry| match &entry.said.event {
                FleetEvent::Granted { lease, .. } => *lease,
                other => panic!("{other:?}"),
            };
            all.iter().map(lease).collect::<Vec<u64>>()
        };
        assert_eq!(leases(&all), (0..600).collect::<Vec<u64>>());
        let (later, _) = events(&operator, &all[590].kept).await;
        assert_eq!(leases(&later), (590..600).collect::<Vec<u64>>());
        assert_eq!(events(&operator, "2100-01-01T00:00:00Z").await, (vec![], 0));
    });
}
