//! Who is let in, and what an agent can reach.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use linerate_broker::keys::found;
use linerate_broker::{Broker, Credentials, enrol};
use linerate_fleet::message::{Answer, Heartbeat, Order};
use linerate_model::record::ErrorKind;

use crate::world::{LATE_S, NOW_S, World, run, until};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_token_makes_one_agent_and_no_second() {
    let Some(world) = World::new("token") else { return };
    run(async {
        let operator = world.operator().await;
        let invitation = operator.invite(&world.authority, "a", NOW_S, LATE_S).await.unwrap();
        let token = invitation.token.clone();
        let admit = async {
            let guest = invitation.guest().await.unwrap();
            operator.admit(&world.authority, guest, NOW_S, None).await.unwrap();
        };
        let (credentials, ()) = tokio::join!(enrol(&token, None), admit);
        let credentials = credentials.unwrap();
        assert_eq!(credentials.agent.as_deref(), Some("a"));
        assert!(Broker::connect(&credentials).await.is_ok());
        let Err(again) = enrol(&token, None).await else { panic!("it was used") };
        assert_eq!(again.kind, ErrorKind::Authentication, "{again:?}");
        // One whose time is over is let in nowhere.
        let late = operator.invite(&world.authority, "b", NOW_S, NOW_S + 1).await.unwrap();
        let Err(late) = enrol(&late.token, None).await else { panic!("its time is over") };
        assert_eq!(late.kind, ErrorKind::Authentication, "{late:?}");
    });
}

#[test]
fn credentials_of_another_fleet_are_refused() {
    let Some(world) = World::new("foreign") else { return };
    run(async {
        let url = world.operator.url.clone();
        let other = found(&url, NOW_S).unwrap().authority.operator(NOW_S).unwrap();
        let Err(error) = Broker::connect(&other).await else { panic!("it was let in") };
        assert_eq!(error.kind, ErrorKind::Authentication, "{error:?}");
        // One that the account has signed, with the key of another.
        let stolen = Credentials { seed: other.seed, ..world.operator.clone() };
        assert!(Broker::connect(&stolen).await.is_err());
    });
}

/// Tells agent `a` something as soon as the broker knows that it listens.
async fn told_once_there(operator: &Broker) -> Answer {
    let end = Order::End { epoch: 7 };
    loop {
        match operator.send_order("a", &end, PATIENCE).await {
            Err(away) if away.kind == ErrorKind::HostGone => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answered => return answered.unwrap(),
        }
    }
}

#[test]
fn an_agent_is_told_and_answers() {
    let Some(world) = World::new("told") else { return };
    run(async {
        let operator = world.operator().await;
        let agent = Broker::connect(&world.agent(&operator, "a").await).await.unwrap();
        let Err(away) = operator.send_order("a", &Order::Ping, PATIENCE).await else { panic!() };
        assert_eq!(away.kind, ErrorKind::HostGone, "{away:?}");
        let mut orders = agent.orders().await.unwrap();
        let answer = async {
            let (order, asker) = orders.next().await.unwrap();
            assert_eq!(order, Order::End { epoch: 7 });
            agent.answer(asker, &Answer::Done).await.unwrap();
        };
        let (answered, ()) = tokio::join!(told_once_there(&operator), answer);
        assert_eq!(answered, Answer::Done);
        assert_eq!(operator.seen().await.unwrap(), []);
        let (version, address) = ("1".to_owned(), "h".to_owned());
        let heartbeat =
            Heartbeat { version, address, epoch: 7, policy: true, ..Heartbeat::default() };
        agent.beat(&heartbeat).await.unwrap();
        agent.beat(&Heartbeat { epoch: 8, ..heartbeat }).await.unwrap();
        until(|| async {
            let seen = operator.seen().await.unwrap();
            seen.iter().any(|seen| seen.heartbeat.epoch == 8 && !seen.at.is_empty())
        })
        .await;
        let seen = operator.seen().await.unwrap();
        assert_eq!((seen.len(), seen[0].name.as_str()), (1, "a"), "the last of each");
        assert_eq!(agent.seen_as(), Some(Ipv4Addr::LOCALHOST.into()), "what NAT is judged by");
    });
}

/// An agent that gives itself out for another one is stopped by the broker.
#[test]
fn an_agent_reaches_nothing_of_another() {
    let Some(world) = World::new("reach") else { return };
    run(async {
        let operator = world.operator().await;
        let honest = world.agent(&operator, "a").await;
        let posing = Credentials { agent: Some("b".to_owned()), ..honest };
        let posing = Broker::connect(&posing).await.unwrap();
        let _told = posing.orders().await;
        let Err(unheard) = operator.send_order("b", &Order::Ping, PATIENCE).await else { panic!() };
        assert_eq!(unheard.kind, ErrorKind::HostGone, "it does not hear what b is told");
        let Err(denied) = posing.hand_over("run.0.1", b"{}".to_vec()).await else { panic!() };
        let words = "Permissions Violation for Publish to \"lr.result.b.run\"";
        assert_eq!((denied.kind, denied.why.as_str()), (ErrorKind::Unable, words));
        assert_eq!(operator.ingest("run").await.unwrap().waiting, 0, "it has no result of b");
        let nobody = [].into();
        assert!(posing.grant(&nobody, PATIENCE, "a").await.is_err());
        let Err(denied) = posing.seen().await else { panic!() };
        assert!(denied.why.starts_with("Permissions Violation for "), "{denied:?}");
    });
}

/// A server that only greets.
fn old_server() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let info = r#"{"server_id":"x","version":"2.9.10","max_payload":1048576,"headers":true,"nonce":"n","proto":1}"#;
        write!(stream, "INFO {info}\r\n").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            if line == "PING" && write!(stream, "PONG\r\n").is_err() {
                break;
            }
        }
    });
    port
}

#[test]
fn a_server_that_is_too_old_is_refused_with_what_to_do() {
    let url = format!("nats://127.0.0.1:{}", old_server());
    let credentials = found(&url, NOW_S).unwrap().authority.operator(NOW_S).unwrap();
    let Err(error) = run(Broker::connect(&credentials)) else { panic!("it was taken") };
    assert_eq!(error.kind, ErrorKind::Version, "{error:?}");
    assert!(error.why.contains("2.9.10") && error.hints[0].starts_with("go install"), "{error:?}");
}
