//! What earlier builds measured is still in the documents: a test, a sweep, by the command of a kept document, has each
//! key that the document has.

use std::collections::BTreeSet;

use crate::support::{Server, alone, linerate, wait_for};
use linerate_testkit::peer::LONG;
use serde_json::Value;

/// By the kernel's own ticks: absent where none fell between two readings, as in a test that is over before the next
/// one, or whose readings came late to a core that others keep busy.
const OF_TICKS: [&str; 6] = [
    "core_percent",
    "others_percent",
    "softirq_percent",
    "steal_percent",
    "system_percent",
    "user_percent",
];
/// Of a test with many of them, in seconds.
const MANY_TICKS_S: f64 = 0.5;
/// Of the machine, and not of what was measured on it; what was found to limit and to doubt, which differs from run to
/// run; and cores that others left idle, which may be none.
const OF_HOSTS: [&str; 7] = [
    ".client.",
    ".server.",
    ".advice",
    ".doubts.kind",
    ".doubts.text",
    ".verdict.evidence.",
    ".idle_cores",
];

/// The keys of a document that have a value, each with those above it; of a list those of all its elements.
fn keys(value: &Value, at: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                keys(value, &format!("{at}.{key}"), all);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, at, all)),
        Value::Null => {}
        _ => drop(all.insert(at.to_owned())),
    }
}

fn of(document: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    keys(document, "", &mut all);
    if document["asked"]["duration_s"].as_f64().is_none_or(|s| s < MANY_TICKS_S) {
        all.retain(|key| !OF_TICKS.iter().any(|of| key.ends_with(of)));
    }
    all.retain(|key| !OF_HOSTS.iter().any(|of| key.starts_with(of) || key.ends_with(of)));
    all
}

#[test]
fn what_was_measured_still_is() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let port = server.port.to_string();
    let kept = [
        include_str!("../../../linerate-model/tests/kept/records.jsonl"),
        include_str!("../../../linerate-model/tests/kept/sweep.jsonl"),
    ];
    let documents = kept.iter().flat_map(|kept| kept.lines());
    let documents = documents.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut again = 0;
    for kept in documents.filter(|document| document["status"] == "complete") {
        let words = kept["command"].as_array().expect("a command").iter().skip(1);
        let mut words: Vec<&str> = words.filter_map(Value::as_str).collect();
        if let Some(at) = words.iter().position(|word| *word == "-p") {
            words[at + 1] = &port;
        }
        // A host without time leaves out figures of a short test, not the same ones each time.
        let mut gone = of(&kept);
        let mut last = String::new();
        let all = wait_for(LONG, || {
            let ran = linerate(None, &words);
            let found = of(&ran.record());
            gone.retain(|key| !found.contains(key));
            last = ran.err;
            gone.is_empty()
        });
        assert!(all, "{words:?}: {gone:?}\n{last}");
        again += 1;
    }
    assert_eq!(again, 12);
}
