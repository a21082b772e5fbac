//! What whoever runs a fleet of agents sees of it, and does to it, with a real nats-server.

use std::fs::read_to_string;

use serde_json::Value;

use crate::schema;
use crate::support::agents::Fleet;
use crate::support::{Ran, linerate};

/// The document of a verb, which is one of its schema.
fn document(ran: &Ran, name: &str) -> Value {
    let value: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}\n{}", ran.out, ran.err));
    let schema = serde_json::from_str(&linerate(None, &["schema", name]).out).expect("JSON");
    schema::validate(&schema, &value).unwrap_or_else(|e| panic!("{name}: {e}\n{value}"));
    value
}

#[test]
fn all_that_a_host_has_is_shown() {
    let Some(fleet) = Fleet::new("inventory", &["a", "b"]) else { return };
    let dir = fleet.dir();
    let ran = linerate(None, &["fleet", "hosts", &dir, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let value = document(&ran, "fleet-hosts");
    let names: Vec<&str> = value["agents"]
        .as_array()
        .expect("agents")
        .iter()
        .filter_map(|a| a["name"].as_str())
        .collect();
    assert_eq!(names, ["a", "b"], "{value}");
    let said = &value["agents"][0]["said"];
    assert_eq!(said["allows"], "udp, tcp, rr; 60 s; any rate; 1 stream; with all", "{value}");
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"), "{value}");
    let kernel = read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    assert_eq!(said["inventory"]["kernel"], kernel.trim(), "{value}");
    assert!(said["inventory"]["cores"].as_u64() > Some(0), "{value}");
    assert_eq!(said.get("nat"), None, "a broker on the same host says nothing of NAT: {value}");
    let shown = linerate(None, &["fleet", "hosts", &dir, "--host", "a"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.starts_with("agent    a: "), "{}", shown.out);
    assert!(shown.out.contains("\npolicy   udp, tcp, rr; 60 s; any rate"), "{}", shown.out);
    assert!(!shown.out.contains("agent    b"), "{}", shown.out);
    let all = linerate(None, &["fleet", "hosts", &dir, "-v"]);
    assert!(all.out.contains("\nagent    b: "), "{}", all.out);
    let nobody = linerate(None, &["fleet", "hosts", &dir, "--host", "c"]);
    assert_eq!(nobody.code, 3, "{}", nobody.err);
}
