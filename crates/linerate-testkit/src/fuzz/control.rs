//! Settings, their undo journal, and the messages between a controller and a host.

use linerate_model::setting::{Setting, SettingName, SettingValue};
use linerate_model::undo::{self, Decision, Place};
use linerate_wire::native::agent::{self, Reply, Request};
use linerate_wire::native::auth::{Offer, Seals, answer};
use linerate_wire::native::frame::{self, PREFIX_BYTES};
use linerate_wire::native::order::{self, MOST_LINE_BYTES, Order};

/// Names and values of settings as a plan has them.
pub fn setting(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if let Ok(name) = name.parse::<SettingName>() {
        assert_eq!(name.to_string().parse::<SettingName>().as_ref(), Ok(&name));
        assert!(!name.to_string().contains(".."), "{name}");
    }
    let value = value
        .parse()
        .map(SettingValue::Switch)
        .or_else(|_| value.parse().map(SettingValue::Number))
        .unwrap_or_else(|_: std::num::ParseIntError| SettingValue::Text(value.to_owned()));
    if let Ok(setting) = Setting::new(name, value) {
        let json = serde_json::to_string(&setting).expect("a setting is written");
        assert_eq!(serde_json::from_str::<Setting>(&json).expect("and read"), setting);
    }
}

/// An undo journal: lines of any bytes.
pub fn undo_journal(data: &[u8]) {
    let (records, damages) = undo::parse(data);
    let lines = data.split_inclusive(|byte| *byte == b'\n').count();
    assert_eq!(records.len() + damages.len(), lines, "each line is a record or a damage");
    let written: String = records.iter().filter_map(undo::line).collect();
    assert_eq!(undo::parse(written.as_bytes()), (records.clone(), vec![]));
    let place = Place { boot_id: "b".into(), namespace: 7 };
    let undos = undo::undos(&records, &place);
    for (at, undo) in undos.iter().enumerate() {
        assert!(undos.iter().skip(at + 1).all(|other| other.knob != undo.knob), "each knob once");
        assert_eq!(undo.decide(&undo.before), Decision::Nothing);
        if let Some(now) = &undo.now {
            assert_ne!(undo.decide(now), Decision::Leave, "what was set here is ours");
        }
    }
}

/// A line to the process with the right to change settings: no more than it says, and never a path.
pub fn order(data: &[u8]) {
    let Ok(order) = order::decode(data) else { return };
    assert!(data.len() <= MOST_LINE_BYTES);
    if let Order::Apply { device, setting } = &order {
        assert!(
            device.as_ref().is_none_or(|name| !name.contains('/') && name != ".."),
            "{device:?}"
        );
        assert!(!setting.name.to_string().contains(".."), "{setting}");
    }
    let line = serde_json::to_vec(&order).expect("an order is written");
    assert!(!line.contains(&b'\n'), "one line");
    assert_eq!(order::decode(&line), Ok(order));
}

/// Both ends of a session under a key.
fn session() -> (Seals, Seals) {
    let (key, greeting) = (b"sixteen bytes!!!", (&b"hello"[..], &b"welcome"[..]));
    let (offer, nonce) = Offer::new([1; 32]).expect("an offer");
    let (first, controller) = answer(&nonce, [2; 32], key, greeting, &()).expect("an answer");
    let ((), host) = offer.taken(key, greeting, &first[PREFIX_BYTES..]).expect("of that key");
    (controller, host)
}

/// The body of a sealed frame, as a host and as a controller read it, and of a first one; and what is inside,
/// had its sender the key.
pub fn agent_message(data: &[u8]) {
    let (mut controller, mut host) = session();
    let nobody = "nobody without the key makes a message";
    assert!(host.theirs.open::<Request>(data).is_err(), "{nobody}");
    let (offer, _) = Offer::new([1; 32]).expect("an offer");
    assert!(offer.taken::<Request>(b"sixteen bytes!!!", (&[], &[]), data).is_err(), "{nobody}");
    if let Ok(request) = frame::decode::<Request>(data) {
        let _ = agent::check(&request);
        if let Ok(sealed) = controller.ours.seal(&request) {
            let read = host.theirs.open::<Request>(&sealed[PREFIX_BYTES..]);
            assert_eq!(read.expect("our own message"), request);
        }
    }
    if let Ok(reply) = frame::decode::<Reply>(data) {
        let text = serde_json::to_string(&reply).expect("a reply is written");
        let whole: String = agent::pieces(&text).iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!(whole, text);
    }
}
