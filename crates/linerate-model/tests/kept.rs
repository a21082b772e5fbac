//! Documents that earlier builds printed read as what they say, and print the same again: JSON is what others
//! rely on.
//!
//! The lines of `kept/` are of real runs, failures and servers, less the facts of the machine. Their keys and figures
//! are not changed; of their sentences, which are for people, one has a word of today (`report`). What a later build prints
//! anew gets lines of its own. That these types are still filled, `crates/linerate/tests/program/kept.rs` shows.

use linerate_model::record::{DoubtKind, ErrorKind, ErrorRecord, PlanRecord, RunRecord};
use linerate_model::search::SearchDocument;
use linerate_model::served::ServerLine;
use linerate_model::sweep::SweepDocument;
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
    for record in &records {
        let error = record.error.as_ref().map(|error| &error.kind);
        assert!(error.is_none_or(|kind| ErrorKind::ALL.contains(kind)), "{error:?}");
        for doubt in &record.doubts {
            assert!(DoubtKind::ALL.contains(&doubt.kind), "{doubt:?}");
        }
        for plan in record.agreed.iter().chain([&record.asked]) {
            assert!(all_known(plan), "{plan:?}");
        }
        assert!(record.streams.iter().all(|stream| stream.direction.known().is_some()));
    }
}

/// A word that is not known would print as it came as well.
fn all_known(plan: &PlanRecord) -> bool {
    plan.protocol.known().is_some()
        && plan.direction.known().is_some()
        && plan.dialect.known().is_some()
        && plan.engine.iter().chain(&plan.receive_engine).all(|word| word.known().is_some())
        && plan.receive.iter().all(|word| word.known().is_some())
        && plan.send.iter().all(|word| word.known().is_some())
        && plan.transport.iter().all(|word| word.known().is_some())
}

#[test]
fn errors_without_a_record_print_as_they_were() {
    let errors: Vec<NoDocument> = read(include_str!("kept/errors.jsonl"));
    assert_eq!(errors.len(), 4);
    assert!(errors.iter().all(|document| ErrorKind::ALL.contains(&document.error.kind)));
}

#[test]
fn lines_of_a_server_print_as_they_were() {
    let lines: Vec<ServerLine> = read(include_str!("kept/server.jsonl"));
    assert!(lines.iter().any(|line| matches!(line, ServerLine::Refused { .. })));
}

#[test]
fn sweeps_and_searches_print_as_they_were() {
    let sweeps: Vec<SweepDocument> = read(include_str!("kept/sweep.jsonl"));
    let searches: Vec<SearchDocument> = read(include_str!("kept/search.jsonl"));
    assert_eq!((sweeps.len(), searches.len()), (1, 1));
}
