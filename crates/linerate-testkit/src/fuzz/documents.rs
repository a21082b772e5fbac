//! What owners write, browsers send and brokers carry: plans, policies, requests, orders and results.

use linerate_experiment::campaign::plan::{Vocabulary, parse};
use linerate_fleet::lease::{Epoch, Fence};
use linerate_fleet::message::{Answer, Heartbeat, Order, Outcome};
use linerate_fleet::policy::{Asked, Policy};
use linerate_fleet::written;
use linerate_model::fleet_events::FleetSaid;
use linerate_model::plan::{Traffic, TrafficKind, Transport};
use linerate_wire::http::{self, MOST_HEAD, Request, Token, request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::plans;

/// The first bytes of a connection to a page.
pub fn web_request(data: &[u8]) {
    match request(data) {
        Request::Part => assert!(data.len() < MOST_HEAD, "no end of {} bytes", data.len()),
        Request::Get(path) => {
            assert!(data.starts_with(format!("GET {path} HTTP/1.").as_bytes()), "{path}");
            let more = [data, b"GET / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(request(&more), Request::Get(path), "what follows it changes it");
            let near = http::is_foreign(data, true);
            assert!(near || !http::is_foreign(data, false), "a name matters over loopback alone");
        }
        Request::Other => {}
    }
    let token = Token::new([7; 16]);
    if let http::Asked::Path(_) | http::Asked::Events = http::asked(data, &token) {
        assert!(data.starts_with(format!("GET /{token}/").as_bytes()), "without the token");
    }
}

/// What a host's owner lets a fleet do.
pub fn agent_policy(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(policy) = Policy::read(text) else { return };
    let words = policy.words();
    let plan = plans::plan(Traffic::Rr(plans::rr(Transport::Tcp)));
    for minute in [0, 719, 1_439] {
        let asked = Asked { peer: "b", plan: &plan, size_from_mtu: false, set: &[], minute };
        let allowed = policy.allows(&asked);
        assert!(allowed.is_err() || words.contains("rr"), "a kind of test that it does not name");
        assert!(Policy::default().allows(&asked).is_err(), "without a file");
    }
}

/// A fleet's plan: whoever is measured is one of its hosts.
pub fn fleet_plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(written) = written::read(text) else { return };
    assert_eq!(written::read(text).as_ref(), Ok(&written));
    if let Ok((_, pairs)) = written.fleet() {
        assert!(!pairs.is_empty(), "nothing to measure, and no error");
    }
}

/// A campaign's plan: it is understood, or every fault has a place.
pub fn campaign_plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let options = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let vocabulary = Vocabulary {
        verbs: vec![
            (TrafficKind::Tcp, options("ip time streams congestion window")),
            (TrafficKind::Udp, options("ip time streams rate size no_checksum send_only")),
        ],
        old: vec![("discard".to_owned(), "send_only".to_owned())],
        metrics: options("received_bps sent_bps sent_pps"),
    };
    if let Err(faults) = parse(text, &vocabulary) {
        assert!(!faults.is_empty(), "no plan, and no fault");
    }
}

/// The same again, once it was written.
fn kept<T: Serialize + DeserializeOwned>(data: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(data).ok()?;
    let text = serde_json::to_string(&read).expect("what was read can be written");
    // Compared as text: a number that is none is unlike itself.
    let again: T = serde_json::from_str(&text).expect("our own document");
    assert_eq!(serde_json::to_string(&again).expect("it was written before"), text);
    Some(read)
}

/// A message that a broker carries for a fleet, and what an agent's leases make of an order.
pub fn broker_message(data: &[u8]) {
    if let Some(Order::Prepare(prepare)) = kept::<Order>(data) {
        let before = Epoch(prepare.epoch.saturating_sub(1));
        for now_ns in [0, 1, u64::MAX] {
            let mut fence = Fence::after(before);
            let taken = fence.prepare(now_ns, prepare.epoch(), prepare.term());
            assert!(!fence.is_open(now_ns, before), "a lease of before");
            assert_eq!(taken, fence.highest() > before, "what is taken is the highest");
            fence.close(prepare.epoch());
            assert!(!fence.is_open(now_ns, prepare.epoch()), "closed is closed");
        }
    }
    kept::<Answer>(data);
    kept::<Heartbeat>(data);
    kept::<Outcome>(data);
    kept::<FleetSaid>(data);
}
