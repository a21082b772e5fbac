//! Documents that earlier builds printed read as what they say, and print the same again: JSON is what others
//! rely on.
//!
//! The lines of `kept/` are of real runs, failures and servers, less the facts of the machine; nobody
//! changes them. What a later build prints anew gets lines of its own.

use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_model::served::ServerLine;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct NoDocument {
    error: ErrorRecord,
}

fn read<T: for<'a> Deserialize<'a> + Serialize>(kept: &str) -> Vec<T> {
    let lines = kept.lines().map(|line| {
        let read: T = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
        read
    });
    lines.collect()
}

#[test]
fn records_print_as_they_were() {
    let records: Vec<RunRecord> = read(include_str!("kept/records.jsonl"));
    assert_eq!(records.len(), 24);
}

#[test]
fn errors_without_a_record_print_as_they_were() {
    let errors: Vec<NoDocument> = read(include_str!("kept/errors.jsonl"));
    assert_eq!(errors.len(), 4);
}

#[test]
fn lines_of_a_server_print_as_they_were() {
    let lines: Vec<ServerLine> = read(include_str!("kept/server.jsonl"));
    assert!(lines.iter().any(|line| matches!(line, ServerLine::Refused { .. })));
}
