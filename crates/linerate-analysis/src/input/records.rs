//! linerate records (format 1; one, a list, or one a line) and iperf3 `-J` documents. Each is one
//! run of the set. The boot of a record is that of both hosts together.

use std::collections::{BTreeSet, HashMap};

use linerate_model::clean::clean;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Boots, Ends, InputError, ReadOptions, Set, doubted, doubts, finish, in_range, mixed, newer,
};
use crate::metric::{DEFAULT, Metric, find, names};

pub(super) fn read(
    file: &str,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<Vec<Set>, InputError> {
    let metric = match &options.metric {
        None => Some(DEFAULT),
        Some(name) => find(name),
    };
    let Some(metric) = metric else {
        let name = options.metric.as_deref().unwrap_or_default();
        return Err(InputError::new(file, format!("no metric `{name}`"))
            .hint(format!("the metrics are {}", names())));
    };
    let mut runs = Vec::new();
    for document in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let document = document.map_err(|error| {
            let what = format!("expected a JSON record: {error}");
            InputError::new(file, what).at(error.line(), Some(error.column()))
        })?;
        match document {
            Value::Array(list) => runs.extend(list),
            other => runs.push(other),
        }
    }
    let (mut values, mut boots, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = HashMap::new();
    for run in &runs {
        if run.get("event").is_some_and(|event| event != "end") {
            continue;
        }
        let run = whole(run);
        let number = values.len() + 1;
        let value = figure(file, number, run, metric)?;
        let id = run.get("id").or_else(|| run.pointer("/start/cookie"));
        if let Some(id) = id.and_then(Value::as_str).filter(|id| !id.is_empty())
            && let Some(first) = seen.insert(id, number)
        {
            let what = format!("record {number} is of the same run as record {first}: id {id}");
            let hint = "a run counts once: take the copy, or the other end's record, out";
            return Err(InputError::new(file, what).hint(hint));
        }
        values.push(value);
        kinds.push(doubts(run).collect::<BTreeSet<&str>>());
        let id = |p: &str| run.pointer(p).and_then(Value::as_str);
        boots.push(id("/client/boot_id").map(|client| {
            id("/server/boot_id").map_or(client.to_owned(), |server| format!("{client}/{server}"))
        }));
    }
    let boots = boots_of(file, boots, options)?;
    let mut notes = doubted(&kinds);
    let unit = Some(metric.unit.to_owned());
    // A name that all runs of the set were given is its own.
    let given = |run: &Value| run.get("label").and_then(Value::as_str).map(str::to_owned);
    let is_run = |run: &&Value| run.get("event").is_none_or(|event| event == "end");
    let all = || runs.iter().filter(is_run).map(whole);
    let ends = mixed(all().filter_map(|run| Ends::deserialize(run).ok()));
    notes.extend(ends.iter().map(|what| format!("not all runs had {what}")));
    let labels: Vec<Option<String>> = all().map(given).collect();
    let own = labels.first().cloned().flatten().filter(|_| labels.windows(2).all(|w| w[0] == w[1]));
    finish(file, values, unit, boots, options, notes).map(|mut set| {
        set.label = own.map_or(set.label, |own| clean(&own).into_owned());
        vec![set]
    })
}

/// The boots of all records, if they have any.
fn boots_of(
    file: &str,
    boots: Vec<Option<String>>,
    options: &ReadOptions,
) -> Result<Option<Boots>, InputError> {
    let known = boots.iter().flatten().count();
    if known == 0 || !options.boots.are_of_file() {
        return Ok(None);
    }
    let Some(first) = boots.iter().position(Option::is_none) else {
        return Ok(Some(Boots::of_labels(boots.into_iter().flatten(), true)));
    };
    let what = format!("record {} has no boot_id, {known} others have one", first + 1);
    Err(InputError::new(file, what).hint("--boots none takes the runs as independent"))
}

/// Of the lines that a running test prints, only the last holds the whole record.
fn whole(line: &Value) -> &Value {
    match line.get("event").and_then(Value::as_str) {
        Some("end") => line.get("record").unwrap_or(line),
        _ => line,
    }
}

pub(super) fn figure(
    file: &str,
    number: usize,
    run: &Value,
    metric: &Metric,
) -> Result<f64, InputError> {
    let fail = |what: String| InputError::new(file, format!("record {number}: {what}"));
    if let Some(what) = newer(run.get("format").and_then(Value::as_u64)) {
        return Err(fail(what).hint("use a linerate as new as the one that wrote it"));
    }
    let iperf3 = run.get("end").is_some() || run.get("start").is_some();
    if !iperf3 && run.get("totals").is_none() {
        return Err(fail("neither a linerate record nor an iperf3 -J document".into())
            .hint("compare reads what `linerate … --json` and `iperf3 -J` print"));
    }
    if let Some(error) = run.get("error").filter(|e| !e.is_null()) {
        let text = error.as_str().or(error.get("why").and_then(Value::as_str));
        let text = text.unwrap_or("the run failed");
        return Err(fail(format!("this run failed: {text}")).hint("take it out and run again"));
    }
    let status = run.get("status").and_then(Value::as_str);
    if let Some(status @ ("partial" | "failed" | "invalid")) = status {
        return Err(fail(format!("this run has status {status}")).hint("take it out and run again"));
    }
    metric.of_document(run, iperf3).filter(|x| in_range(*x)).ok_or_else(|| {
        fail(format!("no {} in it", metric.name)).hint(format!("choose with --metric: {}", names()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rate: f64, boot: &str) -> String {
        format!(
            r#"{{"format":1,"client":{{"boot_id":"{boot}"}},"totals":{{"receiver":{{"bits_per_second":{rate},"lost_ratio":0.25}}}},"status":"complete"}}"#
        )
    }

    #[test]
    fn records_in_every_packing() {
        let parts = [record(1e6, "a"), record(2e6, "a"), record(3e6, "b")];
        for text in [parts.join("\n"), format!("[{}]", parts.join(",")), parts.concat()] {
            let set = &read("r.json", text.as_bytes(), &ReadOptions::default()).unwrap()[0];
            assert_eq!(set.values(), [1e6, 2e6, 3e6]);
            assert_eq!(set.boots().unwrap().of, [0, 0, 1]);
            assert!(set.boots().unwrap().identity);
            assert_eq!(set.unit.as_deref(), Some("bit/s"));
        }
        let loss = ReadOptions { metric: Some("loss".into()), ..ReadOptions::default() };
        let set = &read("r.json", parts.join("\n").as_bytes(), &loss).unwrap()[0];
        assert_eq!(set.values(), [25.0, 25.0, 25.0]);
    }

    #[test]
    fn doubts_are_counted_by_kind() {
        let doubted = |kinds: &[&str]| {
            let kinds: Vec<_> =
                kinds.iter().map(|kind| serde_json::json!({ "kind": kind })).collect();
            let doubts = format!("{{\"doubts\":{},", Value::from(kinds));
            record(1e6, "a").replacen('{', &doubts, 1)
        };
        let notes = |runs: [&[&str]; 3]| {
            let text: String = runs.into_iter().map(doubted).collect();
            read("r.json", text.as_bytes(), &ReadOptions::default()).unwrap().remove(0).notes
        };
        assert_eq!(notes([&[], &[], &[]]), [""; 0]);
        let busy = "3 of 3 runs have a doubt: host-busy";
        assert_eq!(notes([&["host-busy"]; 3]), [busy]);
        // One at each end is one run that has it; what is foreign steers no terminal.
        let some = notes([&["host-busy", "host-busy"], &["rate-changed\u{1b}[2J"], &["host-busy"]]);
        let one = "1 of 3 runs has a doubt: rate-changed[2J";
        assert_eq!(some, ["2 of 3 runs have a doubt: host-busy", one]);
        // What every test within a machine has is said in one note.
        let all = notes([&["shared-host", "bytes-not-copied"]; 3]);
        assert_eq!(all, ["3 of 3 runs have a doubt: bytes-not-copied; shared-host"]);
    }

    #[test]
    fn a_run_counts_once() {
        let named = |id: &str| record(1e6, "a").replacen('{', &format!("{{\"id\":{id},"), 1);
        let text = |ids: [&str; 4]| ids.map(named).concat();
        let sets = |ids| read("r.json", text(ids).as_bytes(), &ReadOptions::default());
        let error = sets(["\"x\"", "\"y\"", "\"z\"", "\"y\""]).unwrap_err().to_string();
        assert!(error.contains("record 4 is of the same run as record 2: id y"), "{error}");
        let cookies = r#"{"start":{"cookie":"c"},"end":{"sum_received":{"bits_per_second":5e8}}}"#;
        let error = read("i.json", cookies.repeat(3).as_bytes(), &ReadOptions::default());
        assert!(error.unwrap_err().to_string().contains("same run as record 1: id c"));
        // What has no name of its own is nobody's double.
        for ids in [["\"\""; 4], ["null"; 4], ["1"; 4], ["\"x\"", "null", "\"y\"", "\"\""]] {
            assert_eq!(sets(ids).unwrap()[0].values().len(), 4, "{ids:?}");
        }
    }

    #[test]
    fn runs_of_two_kernels_are_no_repetition() {
        let run = |kernel: &str, server: &str| {
            let client = serde_json::json!({ "hostname": "a", "kernel": kernel, "linerate": "1" });
            let server = serde_json::json!({ "hostname": server, "kernel": "6.1" });
            let totals = serde_json::json!({ "receiver": { "bits_per_second": 5 } });
            serde_json::json!({ "client": client, "server": server, "totals": totals }).to_string()
        };
        let notes = |runs: [(&str, &str); 3]| {
            let text: String = runs.map(|(kernel, server)| run(kernel, server)).concat();
            read("r.json", text.as_bytes(), &ReadOptions::default()).unwrap().remove(0).notes
        };
        assert_eq!(notes([("6.1", "b"); 3]), [""; 0]);
        assert_eq!(
            notes([("6.1", "b"), ("6.1", "c"), ("6.2", "b")]),
            [
                "not all runs had the same kernel at the client: 6.1, 6.2",
                "not all runs had the same host name at the server: b, c",
            ]
        );
    }

    #[test]
    fn iperf3_documents() {
        let one = r#"{"start":{},"end":{"sum_received":{"bits_per_second":5e8},"sum":{"jitter_ms":0.5}}}"#;
        let set =
            &read("i.json", [one; 3].concat().as_bytes(), &ReadOptions::default()).unwrap()[0];
        assert_eq!(set.values(), [5e8; 3]);
        // One sum, of what was sent: the report says the same of it.
        let older = r#"{"start":{},"end":{"sum":{"bits_per_second":1e9,"lost_percent":50.0}}}"#;
        let read_as = |metric: &str| {
            let options = ReadOptions { metric: Some(metric.into()), ..ReadOptions::default() };
            read("o.json", [older; 3].concat().as_bytes(), &options).unwrap().remove(0)
        };
        assert_eq!(read_as("received_bps").values(), [5e8; 3]);
        assert_eq!(read_as("sent_bps").values(), [1e9; 3]);
        let jitter = ReadOptions { metric: Some("jitter".into()), ..ReadOptions::default() };
        let set = &read("i.json", [one; 3].concat().as_bytes(), &jitter).unwrap()[0];
        assert_eq!(set.values(), [5e-4; 3]);
    }

    #[test]
    fn what_is_no_run_is_named() {
        let options = ReadOptions::default();
        let mixed = format!("{}{}", record(1.0, "a"), record(1.0, "a").replace("boot_id", "x"));
        let newer = record(1.0, "a") + &record(1.0, "a").replace("\"format\":1", "\"format\":2");
        let nope = ReadOptions { metric: Some("speed".into()), ..options.clone() };
        for (text, options, want) in [
            ("{\"a\":1}", &options, "record 1: neither"),
            (newer.as_str(), &options, "record 2: format 2 is newer than this version reads (1)"),
            (
                "{\"start\":{},\"end\":{},\"error\":\"unable to connect\"}",
                &options,
                "unable to connect",
            ),
            ("{\"start\":{},\"end\":{}}", &options, "no received_bps"),
            ("{\"totals\":{},\"status\":\"invalid\"}", &options, "status invalid"),
            ("{\"totals\":{},\"status\":\"partial\"}", &options, "status partial"),
            (mixed.as_str(), &options, "record 2 has no boot_id"),
            ("{}", &nope, "no metric `speed`"),
        ] {
            let error = read("r.json", text.as_bytes(), options).unwrap_err();
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}
