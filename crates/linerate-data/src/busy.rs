//! Data threads whose peers never let them wait.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use linerate_model::plan::{Direction, EngineChoice, RrPlan, Traffic, Transport, UdpPlan};
use linerate_model::units::BitRate;
use linerate_testkit::plans;

use crate::alone::{Alone, HANGS, of_an_hour, pair, udp_pair};
use crate::{Limits, Report, Role, Shared, Sign, StreamSocket};

fn rr(response: u32) -> Traffic {
    Traffic::Rr(RrPlan { request: 1, response, ..plans::rr(Transport::Tcp) })
}

#[test]
fn a_receiver_to_which_data_always_comes_ends_with_its_clients_connection() {
    let (client, control) = pair();
    let (mut near, far) = pair();
    let of = of_an_hour(Traffic::Tcp(plans::tcp()), Direction::Forward);
    let shared = Shared::new(1);
    shared.watch_peer(&control, Sign::Words, HANGS * 60).unwrap();
    let alone = Alone::start(&of, Arc::clone(&shared), Role::Receive, StreamSocket::Tcp(far));
    drop(client);
    let until = Instant::now() + HANGS;
    // Until the receiver closes the stream.
    while near.write_all(&[0; 65_536]).is_ok() {
        assert!(Instant::now() < until, "it never looked");
    }
    assert!(shared.peer_gone());
    drop(near);
    assert!(matches!(alone.ends(), Report::Recv(_)));
}

#[test]
fn who_answers_a_client_that_reads_steadily_ends_with_its_connection() {
    let (client, control) = pair();
    let (near, far) = pair();
    let mut of = of_an_hour(rr(1 << 20), Direction::Forward);
    // As many as one read brings: 64 GiB of answers.
    of.habits.tells_flight = false;
    let shared = Shared::new(1);
    shared.watch_peer(&control, Sign::Words, HANGS * 60).unwrap();
    let alone = Alone::start(&of, shared, Role::Respond, StreamSocket::Tcp(far));
    (&near).write_all(&[0; 65_536]).unwrap();
    let mut buffer = vec![0; 1 << 20];
    assert!((&near).read(&mut buffer).unwrap() > 0);
    drop(client);
    let until = Instant::now() + HANGS;
    while (&near).read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
        assert!(Instant::now() < until, "it never looked");
    }
    assert!(alone.shared.peer_gone());
    assert!(matches!(alone.ends(), Report::Respond(_)));
}

#[test]
fn no_more_requests_are_answered_at_once_than_the_plan_has_under_way() {
    let (near, far) = pair();
    let of = of_an_hour(rr(1), Direction::Forward);
    // They wait when it reads for the first time.
    (&near).write_all(&[0; 2]).unwrap();
    let alone = Alone::start(&of, Shared::new(1), Role::Respond, StreamSocket::Tcp(far));
    let Report::Respond(report) = alone.ends() else { panic!("no answering end") };
    assert_eq!(report.answered, 0);
    assert!(report.error.as_deref().is_some_and(|why| why.contains("at once")), "{report:?}");
}

#[test]
fn bursts_of_datagrams_keep_to_the_owners_rate() {
    const LIMIT: u64 = 8_000_000;
    let udp = UdpPlan {
        rate: serde_json::from_str(r#"{"bits":8000000}"#).unwrap(),
        engine: EngineChoice::Send,
        ..plans::udp()
    };
    let mut of = of_an_hour(Traffic::Udp(udp), Direction::Reverse);
    // All of the hour's datagrams are due at its beginning.
    of.burst = u32::MAX;
    let limits = Limits { rate: BitRate::new(LIMIT), ..Limits::default() };
    let (_near, far) = udp_pair();
    let shared = Shared::within(limits, 1);
    let begun = Instant::now();
    let alone = Alone::start(&of, Arc::clone(&shared), Role::Send, far);
    // More than the limit's half a second.
    alone.waits_for("little is sent", |it| it.shared.moved() >= LIMIT / 8);
    shared.stop();
    let (sent, seconds) = (shared.moved() as f64, begun.elapsed().as_secs_f64());
    // A tenth more than the limit, half a second of that at once, and the last call.
    let most = LIMIT as f64 / 8.0 * 1.1 * (seconds + 0.5) + 65_536.0;
    assert!(sent <= most, "{sent} bytes in {seconds} s, at most {most}");
    assert!(matches!(alone.ends(), Report::Send(_)));
}
