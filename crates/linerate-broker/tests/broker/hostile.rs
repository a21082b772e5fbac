//! What an agent, or whoever has a token, could have the broker do in its own name: it answers to whatever subject a message
//! says, and may publish there.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linerate_broker::{Broker, Credentials};
use serde_json::Value;

use crate::world::{LATE_S, NOW_S, World, api, raw, run};

#[test]
fn nobody_has_the_broker_do_what_it_may_not_itself() {
    let Some(world) = World::new("hostile") else { return };
    run(async {
        let operator = world.operator().await;
        let agent = world.agent(&operator, "a").await;
        let other = Broker::connect(&world.agent(&operator, "b").await).await.unwrap();
        other.hand_over("run.0.1", b"{}".to_vec()).await.unwrap();
        let hostile = raw(&agent).await;
        let (direct, asks) = (
            "$JS.API.DIRECT.GET.LR_CONFIRMED.lr.confirmed.a.x",
            "$JS.API.STREAM.MSG.GET.LR_CONFIRMED",
        );
        let confirmed = "lr.confirmed.b.run%2e0%2e1";
        for subject in [direct, asks, "lr.result.a.run", "lr.event.a"] {
            for stream in ["LR_LEASE", "LR_RESULTS", "LR_CONFIRMED", "LR_ENROLLED", "LR_EVENTS"] {
                for verb in ["DELETE", "PURGE", "MSG.DELETE", "UPDATE"] {
                    let reply = format!("$JS.API.STREAM.{verb}.{stream}");
                    hostile.publish_with_reply(subject, reply, "".into()).await.unwrap();
                }
            }
            for reply in [confirmed, "lr.enrolled.b", "lr.agent.b.cmd"] {
                hostile.publish_with_reply(subject, reply, "".into()).await.unwrap();
            }
        }
        hostile.flush().await.unwrap();
        let invitation = operator.invite(&world.authority, "c", NOW_S, LATE_S).await.unwrap();
        let token = invitation.token.strip_prefix("lrt1.").unwrap();
        let token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
        let guest: Credentials = serde_json::from_value(token["guest"].clone()).unwrap();
        let (shows, key) = (format!("lr.enrol.{}", guest.agent.clone().unwrap()), "UA".into());
        let guest = raw(&guest).await;
        guest.publish_with_reply(shows, "lr.lease.host.b", key).await.unwrap();
        guest.flush().await.unwrap();
        let answered = tokio::time::timeout(Duration::from_secs(1), invitation.guest()).await;
        assert!(answered.is_err(), "it is answered at its own inbox alone");

        let judge = raw(&world.operator).await;
        // What the broker did for the hostile one before it did this.
        tokio::time::sleep(Duration::from_secs(1)).await;
        api(&judge, "INFO").await;
        for (stream, messages) in [("LR_RESULTS", 1), ("LR_ENROLLED", 2)] {
            let info = api(&judge, &format!("STREAM.INFO.{stream}")).await;
            let state = &info["state"];
            assert_eq!(state["first_seq"], 1, "{stream}: {info}");
            assert!(state["messages"].as_u64().unwrap() >= messages, "{stream}: {info}");
        }
        for stream in ["LR_LEASE", "LR_CONFIRMED", "LR_EVENTS"] {
            let info = api(&judge, &format!("STREAM.INFO.{stream}")).await;
            assert!(info.get("error").is_none(), "{stream}: {info}");
        }
        assert!(!other.is_confirmed("run.0.1").await.unwrap(), "no store has it");
        let enrolled = operator.enrolled().await.unwrap();
        assert_eq!(enrolled["b"].len(), 1, "{enrolled:?}");
    });
}
