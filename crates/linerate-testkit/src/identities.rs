//! What must hold in every record, worked out from its JSON alone.

use std::net::SocketAddr;

use serde_json::Value;

/// A number of the record; absent is a fault.
pub fn number(value: &Value, path: &str) -> u64 {
    get(value, path).as_u64().unwrap_or_else(|| panic!("no number at {path}: {value}"))
}

/// A real number of the record; absent is a fault.
pub fn real(value: &Value, path: &str) -> f64 {
    get(value, path).as_f64().unwrap_or_else(|| panic!("no number at {path}: {value}"))
}

fn get<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, key| &value[key])
}

/// Absent counts as nothing: only for the optional parts of a sum.
fn part(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

const COUNTS: [(&str, &[&str]); 2] = [
    ("sender", &["bytes", "datagrams", "attempted", "refused_locally", "late_wakeups", "given_up"]),
    (
        "receiver",
        &[
            "bytes",
            "datagrams",
            "lost",
            "lost_path",
            "dropped_receiver",
            "unattributed",
            "duplicates",
            "reordered",
            "late",
            "corrupt",
        ],
    ),
];

/// Checks what must hold in every record of a test that both ends reported.
pub fn identities(record: &Value) {
    summary_is_the_totals(record);
    intervals_have_no_gaps(record);
    assert_eq!(record["format"], 1);
    assert_ne!(record["status"], "invalid", "{}", record["error"]);
    let totals = &record["totals"];
    let cut =
        record["error"]["kind"] == "server_stopped" && record["asked"]["direction"] != "reverse";
    let pairs: &[&str] = match record["asked"]["direction"].as_str() {
        Some("both") => &["forward", "reverse"],
        _ => &[""],
    };
    let side = |value: &'_ Value, pair: &str, end: &str| -> Value {
        if pair.is_empty() { value[end].clone() } else { value[pair][end].clone() }
    };
    if record["asked"]["protocol"] == "rr" {
        let sum: u64 =
            list(&record["intervals"]).iter().map(|i| number(i, "rr.transactions")).sum();
        assert_eq!(sum, number(totals, "rr.transactions"), "intervals of rr");
        let sum: u64 = list(&record["streams"]).iter().map(|s| number(s, "rr.transactions")).sum();
        assert_eq!(sum, number(totals, "rr.transactions"), "streams of rr");
        return;
    }
    for pair in pairs {
        let (sender, receiver) = (side(totals, pair, "sender"), side(totals, pair, "receiver"));
        if record["asked"]["protocol"] == "udp" {
            let lost = number(&receiver, "lost");
            let sent = number(&sender, "datagrams");
            let known = number(&receiver, "datagrams") + lost;
            // A server that ends a test waits a moment for its client's word, and a client without a core sends beyond that.
            let beyond = cut && *pair != "reverse" && sent > known;
            assert!(sent == known || beyond, "{pair} sent = received + lost: {sent}, {known}");
            assert_eq!(
                lost,
                number(&receiver, "lost_path")
                    + number(&receiver, "dropped_receiver")
                    + part(&receiver, "unattributed"),
                "{pair} lost = its places"
            );
            assert!(
                part(&receiver["delay_variation_s"], "count") <= number(&receiver, "datagrams"),
                "{pair} delays of first arrivals only"
            );
            assert_eq!(
                number(&sender, "attempted"),
                number(&sender, "datagrams") + number(&sender, "refused_locally"),
                "{pair} attempted"
            );
        } else if record["asked"]["warmup_s"] == 0.0 {
            // With a warm-up, each end begins to measure by itself; what is in flight then may count
            // at one end only.
            assert!(number(&receiver, "bytes") <= number(&sender, "bytes"), "{pair} bytes");
        }
        for (end, keys) in COUNTS {
            let total = side(totals, pair, end);
            for key in keys {
                let of = |rows: &[Value]| -> u64 {
                    rows.iter().map(|row| part(&side(row, pair, end), key)).sum()
                };
                let intervals = of(list(&record["intervals"]));
                assert_eq!(intervals, part(&total, key), "{pair} {end} {key}: intervals");
                let direction = if pair.is_empty() {
                    record["asked"]["direction"].as_str().unwrap()
                } else {
                    pair
                };
                let streams: u64 = list(&record["streams"])
                    .iter()
                    .filter(|stream| stream["direction"] == direction)
                    .map(|stream| part(&stream[end], key))
                    .sum();
                assert_eq!(streams, part(&total, key), "{pair} {end} {key}: streams");
            }
        }
    }
}

/// Each begins where the one before it ends, of tests of every kind.
fn intervals_have_no_gaps(record: &Value) {
    let mut at = 0.0;
    for interval in list(&record["intervals"]) {
        assert!((real(interval, "start_s") - at).abs() < 1e-9, "intervals have gaps: {interval}");
        at = real(interval, "end_s");
        assert!(at > real(interval, "start_s"), "{interval}");
    }
}

/// The items of an array; none where there is none.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The flat summary says what the totals say, and the addresses of all streams are there.
fn summary_is_the_totals(record: &Value) {
    let (summary, totals) = (&record["summary"], &record["totals"]);
    let ahead = if totals["forward"].is_object() { &totals["forward"] } else { totals };
    for (key, truth) in [
        ("received_bps", &ahead["receiver"]["bits_per_second"]),
        ("sent_bps", &ahead["sender"]["bits_per_second"]),
        ("lost_ratio", &ahead["receiver"]["lost_ratio"]),
        ("retransmits_segments", &ahead["sender"]["tcp"]["retransmits"]),
        ("transactions_per_second", &totals["rr"]["transactions_per_second"]),
        ("reverse_received_bps", &totals["reverse"]["receiver"]["bits_per_second"]),
        ("limit", &record["verdict"]["limit"]),
    ] {
        assert_eq!(&summary[key], truth, "{key}: {summary}");
    }
    if record["addresses"].is_object() && record["status"] == "complete" {
        let streams = list(&record["addresses"]["streams"]);
        assert_eq!(streams.len(), list(&record["streams"]).len(), "{}", record["addresses"]);
        for pair in streams.iter().chain([&record["addresses"]["control"]]) {
            for end in ["client", "server"] {
                let address = pair[end].as_str().unwrap_or_default();
                assert!(address.parse::<SocketAddr>().is_ok(), "{pair}");
            }
        }
    }
}
