//! The tests of a plan in terms of the verbs: which options they have, and what they become.

use linerate_ask::test::VERBS;
use linerate_ask::usage::Refusal;
use linerate_ask::{Asked, Measure};
use linerate_experiment::campaign::plan::{
    Fault, Plan, Scalar, Setting, TestOption, Vocabulary, Workload,
};
use linerate_model::plan::{Dialect, TrafficKind};
use linerate_model::setting::{Setting as HostSetting, SettingValue};
use linerate_runner::client::{Request, Target};

use serde_json::Value;

use super::figure;

/// Options that the plan says in its own way, or that concern a screen.
const NOT_OPTIONS: &[&str] = &[
    "help",
    "version",
    "local",
    "ipv4",
    "ipv6",
    "key-file",
    "json",
    "json-lines",
    "color",
    "profile",
];

/// What a plan may say, made from the verbs' own arguments.
pub fn vocabulary() -> Vocabulary {
    let options = |verb: TrafficKind| {
        let own = Measure::options(verb.name()).into_iter().map(|name| name.replace("--", ""));
        let own = own.filter(|name| !NOT_OPTIONS.contains(&name.as_str()));
        let mut names: Vec<String> = own.map(|name| name.replace('-', "_")).collect();
        names.push("ip".to_owned());
        (verb, names)
    };
    let old = VERBS.into_iter().flat_map(|verb| Measure::old_options(verb.name()));
    let key = |name: String| name.replace('-', "_");
    Vocabulary {
        old: old.map(|(old, name)| (key(old), key(name))).collect(),
        verbs: VERBS.into_iter().map(options).collect(),
        metrics: figure::names().map(str::to_owned).collect(),
    }
}

/// A setting, ready to run.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The test, if it is one.
    pub test: Option<Test>,
    /// What is set, by host.
    pub changes: Vec<(usize, Vec<HostSetting>)>,
    /// Seconds of one run.
    pub seconds: f64,
    /// Name of the figure that is compared.
    pub metric: String,
    /// Its unit.
    pub unit: Option<String>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// A test, ready to run.
#[derive(Debug, Clone)]
pub struct Test {
    /// The command line that does the same.
    pub words: Vec<String>,
    /// For the runner; the key is put in when it runs.
    pub request: Request,
    /// Index of the host whose `linerate serve` answers; none with `send_only` or on one machine.
    pub server: Option<usize>,
    /// Index of the host that is the client.
    pub client: usize,
}

/// Makes every setting ready, or says what is wrong with each.
pub fn prepare(plan: &Plan) -> Result<Vec<Prepared>, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut ready = Vec::new();
    for setting in &plan.settings {
        let changes = changes(plan, setting, &mut faults);
        match work(plan, setting) {
            Ok(prepared) => ready.push(Prepared { changes, ..prepared }),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() {
        return Ok(ready);
    }
    faults.sort_by_key(|f| f.at);
    // Settings made of one matrix share their faults.
    faults.dedup();
    Err(faults)
}

fn changes(
    plan: &Plan,
    setting: &Setting,
    faults: &mut Vec<Fault>,
) -> Vec<(usize, Vec<HostSetting>)> {
    let mut by_host: Vec<(usize, Vec<HostSetting>)> = Vec::new();
    for change in &setting.changes {
        let value = match &change.value {
            Scalar::Bool(on) => SettingValue::Switch(*on),
            Scalar::Integer(n) if *n >= 0 => SettingValue::Number(n.unsigned_abs()),
            other => SettingValue::Text(match other {
                // Kernel parameters such as tcp_rmem take several numbers, parted by blanks.
                Scalar::List(items) => {
                    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
                }
                other => other.to_string(),
            }),
        };
        match HostSetting::new(&change.path, value) {
            Ok(made) => match by_host.iter_mut().find(|(host, _)| *host == change.host) {
                Some((_, list)) => list.push(made),
                None => by_host.push((change.host, vec![made])),
            },
            Err(error) => {
                let host = &plan.hosts[change.host].name;
                let fault = Fault::new(change.at, format!("cannot set {error} on {host}"));
                faults.push(match error.hints.first() {
                    Some(hint) => fault.hint(hint.clone()),
                    None => fault,
                });
            }
        }
    }
    by_host
}

fn work(plan: &Plan, setting: &Setting) -> Result<Prepared, Fault> {
    match &setting.workload {
        Workload::Command { unit, time, .. } => Ok(Prepared {
            test: None,
            changes: Vec::new(),
            seconds: time.as_secs_f64(),
            metric: "command".to_owned(),
            unit: unit.clone(),
            notes: Vec::new(),
        }),
        Workload::Test { verb, options, metric } => {
            let (test, notes) = test(plan, setting, *verb, options)?;
            let planned = &test.request.plan;
            let time = planned.duration().map_or(10.0, |d| d.as_secs_f64());
            let seconds = time + planned.warmup.as_secs_f64();
            let discard = matches!(test.request.target, Target::Discard { .. });
            let name = match metric {
                Some((name, _)) => name.as_str(),
                None if *verb == TrafficKind::Rr => "transactions_per_second",
                None if discard => "sent_pps",
                None => "received_bps",
            };
            if discard && name.starts_with("received") {
                let at = metric.as_ref().map_or(setting.at, |(_, at)| *at);
                let what = format!("`{name}` of a test with send_only: nobody receives");
                return Err(Fault::new(at, what).hint("metric = \"sent_pps\" or \"sent_bps\""));
            }
            let unit = figure::unit(name).map(str::to_owned);
            let metric = name.to_owned();
            let test = Some(test);
            Ok(Prepared { test, changes: Vec::new(), seconds, metric, unit, notes })
        }
    }
}

fn is_true(options: &[TestOption], key: &str) -> bool {
    options.iter().any(|o| o.key == key && o.value == Scalar::Bool(true))
}

/// Whether a test towards this machine needs `--reverse`; what asks for it has the data go away from
/// here already.
fn turns_around(
    setting: &Setting,
    verb: TrafficKind,
    options: &[TestOption],
) -> Result<bool, Fault> {
    let refuse = |at, what: &str| {
        let hint = "swap `from` and `to`: the client is on this machine";
        Err(Fault::new(at, format!("{what} towards this machine")).hint(hint))
    };
    // Which end asks, or whose figures are whose, cannot be turned around.
    if verb == TrafficKind::Rr {
        return refuse(setting.at, "a request/response test");
    }
    let both = options.iter().find(|o| ["both", "bidir"].contains(&o.key.as_str()));
    if let Some(option) = both.filter(|o| o.value == Scalar::Bool(true)) {
        return refuse(option.at, "a test both ways");
    }
    Ok(!is_true(options, "reverse"))
}

/// Whether it names a dialect whose servers have a port of their own.
fn speaks_apart(option: &TestOption) -> bool {
    let named = |dialect: &Dialect| option.value == Scalar::Text(dialect.as_ref().to_owned());
    let apart = |dialect: &Dialect| dialect.port() != Dialect::Native.port();
    option.key == "dialect" && Dialect::ALL.iter().any(|dialect| apart(dialect) && named(dialect))
}

fn dashed(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// The command line that does the same by hand.
fn words(verb: TrafficKind, said: &[(String, Value)]) -> Vec<String> {
    let words = |(key, value): &(String, Value)| match (&key[..], value) {
        (_, Value::Bool(false)) => vec![],
        ("ipv4", _) => vec!["-4".to_owned()],
        ("ipv6", _) => vec!["-6".to_owned()],
        ("host", Value::String(host)) => vec![host.clone()],
        ("port", Value::Number(port)) => vec!["--port".to_owned(), port.to_string()],
        (_, Value::Bool(true)) => vec![dashed(key)],
        (_, Value::String(value)) => vec![format!("{}={value}", dashed(key))],
        (_, value) => vec![format!("{}={value}", dashed(key))],
    };
    ["linerate", verb.name()]
        .map(str::to_owned)
        .into_iter()
        .chain(said.iter().flat_map(words))
        .collect()
}

fn test(
    plan: &Plan,
    setting: &Setting,
    verb: TrafficKind,
    options: &[TestOption],
) -> Result<(Test, Vec<String>), Fault> {
    let from = setting.from;
    let to = setting.to.unwrap_or(from);
    let send_only = is_true(options, "send_only") || is_true(options, "discard");
    let here = |host: usize| plan.hosts[host].address.is_none();
    // Towards this machine the client is here and the peer sends: the data goes the same way,
    // and no server needs to listen here.
    let flipped = from != to && here(to) && !here(from) && !send_only;
    let (client, far) = if flipped { (to, from) } else { (from, to) };
    let mut said: Vec<(String, Value)> = Vec::new();
    let mut say = |key: &str, value: Value| said.push((key.to_owned(), value));
    if from == to && here(from) {
        say("local", true.into());
    } else {
        say("host", plan.hosts[far].target().into());
        // That of its `linerate serve`; servers of other dialects have their own.
        let own_port = options.iter().any(|option| option.key == "port" || speaks_apart(option));
        if plan.hosts[far].port != 5201 && !own_port {
            say("port", plan.hosts[far].port.into());
        }
    }
    if flipped && turns_around(setting, verb, options)? {
        say("reverse", true.into());
    }
    for option in options {
        match (&option.key[..], &option.value) {
            ("reverse", _) if flipped => {}
            ("ip", Scalar::Integer(4)) => say("ipv4", true.into()),
            ("ip", Scalar::Integer(6)) => say("ipv6", true.into()),
            ("ip", _) => return Err(Fault::new(option.at, "`ip` is 4 or 6")),
            // Takes back what the defaults say, of options with a value too.
            (_, Scalar::Bool(false)) => {}
            (key, Scalar::Bool(true)) => say(key, true.into()),
            (key, value) => say(key, value.to_string().into()),
        }
    }
    let fault = |refused: Refusal| {
        let named = |o: &&TestOption| refused.options.contains(&dashed(&o.key));
        let at = options.iter().find(named).map_or(setting.at, |o| o.at);
        let fault = Fault::new(at, format!("{}: {}", refused.error.what, refused.error.why));
        match refused.error.hints.first() {
            Some(hint) => fault.hint(hint.clone()),
            None => fault,
        }
    };
    let asked = linerate_ask::test::asked(verb, &said);
    let words = words(verb, &said);
    let Asked { mut request, notes, .. } = asked.map_err(fault)?;
    request.command.clone_from(&words);
    // All runs are of one dialect.
    request.elsewhere = false;
    let server = matches!(request.target, Target::Host { .. }).then_some(far);
    Ok((Test { words, request, server, client }, notes))
}
