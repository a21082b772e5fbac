//! Single steps of a netperf server's conversation.

use std::num::NonZeroU16;
use std::sync::Arc;

use linerate_dialect::netperf::server::{Server, Terms};
use linerate_dialect::{Action, Conversation, Input, Seen};
use linerate_model::plan::{AgreedPlan, Traffic, Transport};
use linerate_testkit::plans;
use linerate_wire::netperf::{Length, Old, Request};

const SECOND: u64 = 1_000_000_000;

/// Of two seconds, a connection for each transaction.
fn request() -> Request {
    Request {
        transport: Transport::Tcp,
        transmits: true,
        receives: true,
        connections: true,
        sizes: Some((1, 1)),
        length: Length::Seconds(2),
        send_buffer: None,
        receive_buffer: None,
        send_size: None,
        receive_size: None,
        nodelay: false,
        measure_cpu: true,
        no_checksum: false,
        may_route: true,
        data_port: None,
        peer_port: None,
        congestion: None,
        tos: None,
        core: None,
        ip: None,
        old: None,
    }
}

/// A server whose test runs from 0 on.
fn running(request: Request) -> Server {
    let plan = plans::plan(Traffic::Rr(plans::rr(Transport::Tcp)));
    let terms = Terms {
        request,
        agreed: Arc::new(AgreedPlan { plan, cuts: vec![] }),
        longest_ns: 60 * SECOND,
        most_bps: None,
        no_data_ns: 60 * SECOND,
    };
    let mut server = Server::new(terms, 0);
    let port = NonZeroU16::new(40_000).unwrap();
    for input in [Input::Listening(0, port), Input::Arrived(0), Input::Prepared(None)] {
        server.input(0, &Seen::default(), input);
        while server.action().is_some() {}
    }
    server
}

/// What the server asks for when nothing but time passes until `at_ns`.
fn asked_at(server: &mut Server, at_ns: u64) -> Vec<Action> {
    let seen = Seen { moved: at_ns, ..Seen::default() };
    server.input(at_ns, &seen, Input::Time);
    std::iter::from_fn(|| server.action()).collect()
}

#[test]
fn what_cores_do_is_of_the_agreed_time_and_not_of_what_a_server_waits_longer() {
    let mut server = running(request());
    let before = asked_at(&mut server, 2 * SECOND - 1);
    assert!(!before.contains(&Action::HostOver), "{before:?}");
    // It wakes by itself in time.
    assert_eq!(server.deadline_ns(), Some(2 * SECOND));
    let over = asked_at(&mut server, 2 * SECOND);
    assert!(over.contains(&Action::HostOver) && !over.contains(&Action::Stop), "{over:?}");
    let again = asked_at(&mut server, 2 * SECOND + SECOND / 2);
    assert!(!again.contains(&Action::HostOver) && !again.contains(&Action::Stop), "{again:?}");
    let end = asked_at(&mut server, 3 * SECOND);
    assert!(end.contains(&Action::Stop), "{end:?}");
}

/// A client of such messages keeps its connection and waits for the results.
#[test]
fn as_many_requests_as_were_asked_for_end_a_test_in_old_messages() {
    let length = Length::Units(50);
    let today = Request { connections: false, sizes: Some((100, 200)), length, ..request() };
    for (old, ends) in [(Some(Old::Requests), true), (None, false)] {
        let mut server = running(Request { old, ..today.clone() });
        let mut stops = |at_ns: u64, moved: u64| {
            let seen = Seen { moved, ran_ns: u64::MAX, ..Seen::default() };
            server.input(at_ns, &seen, Input::Time);
            std::iter::from_fn(|| server.action()).any(|action| action == Action::Stop)
        };
        assert!(!stops(SECOND, 14_999), "{old:?}");
        assert!(!stops(2 * SECOND, 14_999), "{old:?}");
        // The last response may still be on its way.
        assert!(!stops(3 * SECOND, 15_000), "{old:?}");
        assert_eq!(stops(3 * SECOND + SECOND / 4, 15_000), ends, "{old:?}");
    }
}
