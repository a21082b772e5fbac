//! One run: a test or a command, and what of it is kept.

use linerate_experiment::campaign::plan::{Plan, Workload};
use linerate_model::plan::Dialect;
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord, RunRecord, Status};
use linerate_report::compare::input::{self, metric};
use linerate_runner::agent::{CommandRequest, RemoteTest};
use linerate_runner::client::{self, Target};

use super::hosts::{Fleet, Trouble, is_final};
use super::tests::{Prepared, Test};

/// Bytes kept of what a command prints.
const KEEP_BYTES: u32 = 4 << 20;

/// What came of a run.
pub struct Ran {
    /// The figure, if there is one.
    pub value: Option<f64>,
    /// JSON to keep.
    pub record: Option<String>,
    /// Why it does not count.
    pub error: Option<String>,
    /// Nobody answered at the peer: it is worth waiting for.
    pub unreached: bool,
    /// Ctrl-C.
    pub interrupted: bool,
}

impl Ran {
    fn failed(why: impl Into<String>) -> Self {
        let error = Some(why.into());
        Self { value: None, record: None, error, unreached: false, interrupted: false }
    }
}

/// Runs it.
pub fn run(plan: &Plan, at: usize, prepared: &Prepared, fleet: &mut Fleet) -> Result<Ran, Trouble> {
    match (&plan.settings[at].workload, &prepared.test) {
        (Workload::Command { words, extract, timeout, .. }, _) => {
            let request = CommandRequest {
                argv: words.clone(),
                limit_ms: (timeout.0 / 1_000_000).max(1),
                keep_bytes: KEEP_BYTES,
            };
            let done = fleet.hands(plan.settings[at].from, |hands| hands.run_command(&request))?;
            let record = serde_json::json!({
                "command": words, "code": done.code, "signal": done.signal,
                "timed_out": done.timed_out, "took_ms": done.took_ms,
                "stdout": done.out, "stderr": done.err,
            });
            let mut ran = match (done.timed_out, done.code) {
                (true, _) => Ran::failed(format!("the command did not end within {timeout}")),
                (false, Some(0)) => match extract.value(&done.out) {
                    Ok(value) => Ran { value: Some(value), error: None, ..Ran::failed("") },
                    Err(why) => Ran::failed(why),
                },
                (false, code) => {
                    let code = code.map_or("a signal".to_owned(), |c| format!("code {c}"));
                    let last = done.err.lines().last().unwrap_or_default();
                    Ran::failed(format!("the command ended with {code}: {last}"))
                }
            };
            ran.record = Some(record.to_string());
            Ok(ran)
        }
        (Workload::Test { .. }, Some(test)) => {
            let here = plan.hosts[test.client].address.is_none();
            let mut record = if here { local(test, fleet) } else { remote(plan, test, fleet)? };
            record.doubts.extend(
                fleet.doubts().into_iter().map(|text| Doubt { kind: DoubtKind::Degraded, text }),
            );
            judge(prepared, &record)
        }
        (Workload::Test { .. }, None) => Ok(Ran::failed("no test")),
    }
}

fn local(test: &Test, fleet: &Fleet) -> RunRecord {
    let mut request = test.request.clone();
    request.key = test.server.and_then(|host| fleet.key(host));
    // As with --key-file: whoever has the key must not be answered by what has none.
    request.dialect = request.dialect.or(request.key.as_ref().map(|_| Dialect::Native));
    client::run(&request, &mut ())
}

fn remote(plan: &Plan, test: &Test, fleet: &mut Fleet) -> Result<RunRecord, Trouble> {
    let (name, port, discard) = match &test.request.target {
        Target::Host { name, port } => (name.clone(), *port, false),
        Target::Discard { name, port } => (name.clone(), *port, true),
        Target::Local => ("localhost".to_owned(), plan.hosts[test.client].port, false),
    };
    let remote = RemoteTest {
        name,
        port,
        plan: test.request.plan.clone(),
        size_from_mtu: test.request.size_from_mtu,
        ip: test.request.ip,
        discard,
        with_key: test.server.is_some_and(|host| fleet.key(host).is_some()),
        command: test.words.clone(),
    };
    fleet.hands(test.client, |hands| hands.run_test(&remote))
}

fn judge(prepared: &Prepared, record: &RunRecord) -> Result<Ran, Trouble> {
    let error = record.error.clone().unwrap_or_default();
    if record.status != Status::Complete && is_final(&error) {
        return Err(Trouble::Fatal(error));
    }
    let document = serde_json::to_value(record).map_err(|e| {
        Trouble::Fatal(ErrorRecord { why: e.to_string(), exit_code: 1, ..error.clone() })
    })?;
    let mut ran = match record.status {
        Status::Complete => {
            let figure = metric::find(&prepared.metric)
                .ok_or_else(|| format!("no metric {}", prepared.metric))
                .and_then(|m| input::figure(&document, m).map_err(|e| e.what));
            match figure {
                Ok(value) => Ran { value: Some(value), error: None, ..Ran::failed("") },
                Err(why) => Ran::failed(why),
            }
        }
        _ => Ran {
            unreached: error.exit_code == 3,
            interrupted: error.exit_code == 130,
            ..Ran::failed(format!("{}: {}", error.what, error.why))
        },
    };
    ran.record = Some(document.to_string());
    Ok(ran)
}
