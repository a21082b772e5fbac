//! One run: a test or a command, and what of it is kept.

use linerate_experiment::campaign::plan::{Plan, Workload};
use linerate_model::exit::Exit;
use linerate_model::plan::Dialect;
use linerate_model::record::{Doubt, DoubtKind, ErrorKind, ErrorRecord, RunRecord, Status};
use linerate_runner::agent::{CommandRequest, RemoteTest};
use linerate_runner::client::Target;
use linerate_session::observer::Observer;

use super::figure;
use super::hosts::{Fleet, Trouble, is_final};
use super::prepare::{Prepared, Test};
use crate::{Env, trial};

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
    /// It was asked to stop.
    pub interrupted: bool,
}

impl Ran {
    fn failed(why: impl Into<String>) -> Self {
        let error = Some(why.into());
        Self { value: None, record: None, error, unreached: false, interrupted: false }
    }
}

/// Runs it.
pub fn run(
    env: &mut Env<'_>,
    plan: &Plan,
    at: usize,
    prepared: &Prepared,
    fleet: &mut Fleet<'_>,
) -> Result<Ran, Trouble> {
    match (&plan.settings[at].workload, &prepared.test) {
        (Workload::Command { words, extract, timeout, .. }, _) => {
            let request = CommandRequest {
                argv: words.clone(),
                limit_ms: (timeout.0 / 1_000_000).max(1),
                keep_bytes: KEEP_BYTES,
            };
            let done = fleet.with(plan.settings[at].from, |agent| agent.run_command(&request))?;
            let record = serde_json::json!({
                "command": words, "code": done.code, "signal": done.signal,
                "timed_out": done.timed_out, "took_ms": done.took_ms,
                "stdout": done.out, "stderr": done.err,
            });
            // The first bytes are kept, and the figure may be the last of all.
            let is_cut = done.truncated && done.out.len() >= KEEP_BYTES as usize;
            let mut ran = match (done.timed_out, done.code) {
                (true, _) => Ran::failed(format!("the command did not end within {timeout}")),
                (false, Some(0)) if is_cut => Ran::failed(format!(
                    "the command printed more than {} MiB, and its end is not known",
                    KEEP_BYTES >> 20
                )),
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
            let mut record =
                if here { local(env, test, fleet) } else { remote(plan, test, fleet)? };
            record.doubts.extend(
                fleet.doubts().into_iter().map(|text| Doubt::new(DoubtKind::Degraded, text)),
            );
            judge(prepared, &record, test.server.is_some_and(|host| fleet.is_proven(host)))
        }
        (Workload::Test { .. }, None) => Ok(Ran::failed("no test")),
    }
}

/// Whether the dialect has a key; of a host whose test is of another one, the key is for its settings alone.
fn takes_key(test: &Test) -> bool {
    test.request.dialect.is_none_or(|dialect| dialect == Dialect::Native)
}

fn local(env: &mut Env<'_>, test: &Test, fleet: &Fleet<'_>) -> RunRecord {
    let mut request = test.request.clone();
    request.key = test.server.filter(|_| takes_key(test)).and_then(|host| fleet.key(host));
    // As with --key-file: whoever has the key must not be answered by what has none.
    request.dialect = request.dialect.or(request.key.as_ref().map(|_| Dialect::Native));
    let observer: &mut dyn Observer = env.watcher;
    env.executor.run(&request, observer, &env.stop)
}

fn remote(plan: &Plan, test: &Test, fleet: &mut Fleet<'_>) -> Result<RunRecord, Trouble> {
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
        with_key: takes_key(test) && test.server.is_some_and(|host| fleet.key(host).is_some()),
        dialect: test.request.dialect,
        command: test.words.clone(),
    };
    fleet.with(test.client, |agent| agent.run_test(&remote))
}

/// Whether nobody has answered a test, which may be otherwise later.
fn is_away(error: &ErrorRecord) -> bool {
    use ErrorKind::{Busy, Connect, NoRoute, NotLinerate, Refused, Reset, TimedOut, UnknownHost};
    matches!(
        error.kind,
        UnknownHost | Refused | NoRoute | Reset | TimedOut | Connect | NotLinerate | Busy
    )
}

fn judge(prepared: &Prepared, record: &RunRecord, proven: bool) -> Result<Ran, Trouble> {
    let error = record.error.as_ref().filter(|_| record.status != Status::Complete);
    if let Some(error) = error.filter(|error| is_final(error, proven)) {
        return Err(Trouble::Fatal(error.clone()));
    }
    let document = serde_json::to_value(record).map_err(|e| {
        Trouble::Fatal(ErrorRecord::new(ErrorKind::Output, "cannot keep a run", e.to_string(), &[]))
    })?;
    let interrupted = |error: &ErrorRecord| Exit::from_code(error.exit_code) == Exit::Interrupted;
    let value = || match trial::voids(record) {
        Some(doubt) => Err(doubt.text.clone()),
        None => figure::of(&document, &prepared.metric),
    };
    let mut ran = match record.status {
        Status::Complete => match value() {
            Ok(value) => Ran { value: Some(value), error: None, ..Ran::failed("") },
            Err(why) => Ran::failed(why),
        },
        _ => Ran {
            unreached: error.is_some_and(is_away),
            interrupted: error.is_some_and(interrupted),
            ..Ran::failed(
                error.map_or("no reason given".to_owned(), |e| format!("{}: {}", e.what, e.why)),
            )
        },
    };
    ran.record = Some(document.to_string());
    Ok(ran)
}
