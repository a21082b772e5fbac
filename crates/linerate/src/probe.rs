//! `linerate probe`: answers with what a short test to a host measured, for Prometheus, as its blackbox exporter does.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{Write as _, stderr};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use linerate::{Client, Failed};
use linerate_analysis::metric::{METRICS, Metric};
use linerate_ask::value::WebAddress;
use linerate_ask::{help, usage};
use linerate_model::exit::Exit;
use linerate_model::plan::TrafficKind;
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_runner::Cidr;
use linerate_runner::clock::Stopwatch;
use linerate_wire::http;
use prometheus::{Gauge, GaugeVec, Opts, Registry, TextEncoder};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::output;
use crate::web::{Answer, Web};

/// A request waits so long for those before it: half of what Prometheus waits by default.
const TURN: Duration = Duration::from_secs(5);

/// What may be asked for where no file says more: little enough for every minute, on any path.
const MODULES: &str = r#"
[rr]
kind = "rr"
time = "1s"

[udp]
kind = "udp"
rate = "1M"
time = "2s"

[tcp]
kind = "tcp"
rate = "10M"
time = "2s"
"#;

/// A test to another host for each request of Prometheus: its figures as metrics.
///
/// GET /probe?target=HOST&module=NAME runs one to a host that is named here, and to no other, one at a time. The module
/// says which: rr (the default; a second of requests), udp (1 Mbit/s, 2 s), tcp (10 Mbit/s, 2 s), or one of --modules.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::probe())]
pub struct ProbeArgs {
    /// Hosts that may be probed: names, addresses, or networks such as 192.0.2.0/24.
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// Where to answer; only this host reaches it unless an address is given: 192.0.2.1, 192.0.2.1:15202.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:15202")]
    listen: WebAddress<15_202>,
    /// TOML file with a table for each module: its `kind` (udp, tcp, rr) and options of that verb by their long names.
    #[arg(long, value_name = "FILE")]
    modules: Option<PathBuf>,
}

/// A test without its target.
#[derive(Debug, Clone)]
struct Module {
    kind: TrafficKind,
    options: Vec<(String, Value)>,
}

impl Module {
    fn read(mut table: BTreeMap<String, Value>) -> Result<Self, String> {
        let kind = table.remove("kind").ok_or("it has no `kind`: udp, tcp or rr")?;
        let kind = serde_json::from_value(kind).map_err(|e| format!("its `kind`: {e}"))?;
        if table.contains_key("host") || table.contains_key("local") {
            return Err("the request says which host, not the module".to_owned());
        }
        let module = Self { kind, options: table.into_iter().collect() };
        // What makes no sense is told at the start, and not once somebody asks.
        let options = [&module.options[..], &[("host".to_owned(), "192.0.2.1".into())]].concat();
        linerate_ask::test::asked(kind, &options)
            .map_err(|refusal| format!("{}: {}", refusal.error.what, refusal.error.why))?;
        Ok(module)
    }

    fn client(&self, target: &Host) -> Client {
        let host = target.name.as_str();
        let client = match self.kind {
            TrafficKind::Udp => Client::udp(host),
            TrafficKind::Tcp => Client::tcp(host),
            TrafficKind::Rr => Client::rr(host),
        };
        let options = self.options.iter();
        let client =
            options.fold(client, |client, (name, value)| client.option(name, value.clone()));
        target.port.into_iter().fold(client, Client::port)
    }
}

/// Modules of a file's text.
fn read(text: &str) -> Result<BTreeMap<String, Module>, String> {
    let tables: BTreeMap<String, BTreeMap<String, Value>> =
        toml::from_str(text).map_err(|e| e.to_string())?;
    let module = |(name, table)| match Module::read(table) {
        Ok(module) => Ok((name, module)),
        Err(why) => Err(format!("[{name}]: {why}")),
    };
    tables.into_iter().map(module).collect()
}

/// What a request names: a host, with the port of its server where it is another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Host {
    name: String,
    port: Option<u16>,
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = |name: &str, port| Self { name: name.to_owned(), port };
        if text.parse::<IpAddr>().is_ok() {
            return Ok(bare(text, None));
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => {
                let port = port.parse().map_err(|_| format!("`{port}` is no port"))?;
                (name, Some(port))
            }
            _ => (text, None),
        };
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        if name.is_empty() {
            return Err("it is empty".to_owned());
        }
        Ok(bare(name, port))
    }
}

/// Whom and how, and that it is one at a time.
struct Probe {
    targets: Vec<String>,
    networks: Vec<Cidr>,
    modules: BTreeMap<String, Module>,
    turn: Arc<Semaphore>,
}

/// Why there is no answer: a status of RFC 9110, and the reason.
type Refused = (&'static str, String);

impl Probe {
    fn allows(&self, host: &str) -> bool {
        self.targets.iter().any(|known| known.eq_ignore_ascii_case(host))
            || host.parse().is_ok_and(|host| self.networks.iter().any(|known| known.has(host)))
    }

    /// The test that a query asks for.
    fn asked(&self, query: &str) -> Result<(Host, &Module), Refused> {
        let bad = |why: String| ("400 Bad Request", why);
        let (mut target, mut module) = (None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "target" => &mut target,
                "module" => &mut module,
                _ => return Err(bad(format!("`{name}` is neither target nor module"))),
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(bad(format!("{name} is given twice")));
            }
        }
        let target = target.ok_or_else(|| bad("no target: /probe?target=HOST".to_owned()))?;
        let host: Host = target.parse().map_err(|why| bad(format!("target `{target}`: {why}")))?;
        let name = module.as_deref().unwrap_or("rr");
        let Some(module) = self.modules.get(name) else {
            let known = self.modules.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(bad(format!("there is no module `{name}`, but {known}")));
        };
        if !self.allows(&host.name) {
            let why =
                format!("{} is none of the targets that this probe was started with", host.name);
            return Err(("403 Forbidden", why));
        }
        Ok((host, module))
    }

    async fn measured(&self, query: &str) -> Result<String, Refused> {
        let (host, module) = self.asked(query)?;
        let waited = timeout(TURN, Arc::clone(&self.turn).acquire_owned()).await;
        let Ok(Ok(turn)) = waited else {
            let why = format!("other probes have run for {} s", TURN.as_secs());
            return Err(("503 Service Unavailable", why));
        };
        let since = Stopwatch::start();
        let (asks, ended) = oneshot::channel();
        tokio::spawn(test(module.client(&host), turn, asks));
        // Nothing would pass for a scrape that went well.
        let inner = |why: &dyn Display| ("500 Internal Server Error", why.to_string());
        let ended = ended.await.map_err(|e| inner(&e))?;
        text(&ended, since.elapsed()).map_err(|e| inner(&e))
    }

    async fn answer(self: Arc<Self>, path: String) -> String {
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        if path != "/probe" {
            return http::refused("404 Not Found", "here is /probe?target=HOST&module=NAME\n");
        }
        match self.measured(query).await {
            Ok(text) => http::metrics(&text),
            Err((status, why)) => http::refused(status, &format!("{why}\n")),
        }
    }
}

/// Has its turn until the test has ended at both ends: also where whoever asks goes, which stops it.
async fn test(
    client: Client,
    _turn: OwnedSemaphorePermit,
    mut asks: oneshot::Sender<Result<RunRecord, Failed>>,
) {
    let ended = match client.start() {
        Ok(mut running) => {
            tokio::select! {
                () = asks.closed() => running.stop(),
                () = async { while running.next_event().await.is_some() {} } => {}
            }
            running.finished().await
        }
        Err(failed) => Err(failed),
    };
    let _ = asks.send(ended);
}

/// Name and factor in base units, as Prometheus wants them, of a figure of `of`.
pub fn base(of: &str, metric: &Metric) -> (String, f64) {
    let (name, factor) = match metric.unit {
        "bit/s" => (metric.name.replace("_bps", "_bits_per_second"), 1.0),
        "datagrams/s" => (metric.name.replace("_pps", "_datagrams_per_second"), 1.0),
        "s" => (format!("{}_seconds", metric.name), 1.0),
        "%" => (format!("{}_ratio", metric.name), 1.0),
        "% of a core" => (format!("{}_cores", metric.name), 0.01),
        _ => (metric.name.to_owned(), 1.0),
    };
    (format!("linerate_{of}_{name}"), factor)
}

/// The figures of a test, in Prometheus' text format.
fn text(ended: &Result<RunRecord, Failed>, took: Duration) -> prometheus::Result<String> {
    let registry = Registry::new();
    let gauge = |name: &str, help: &str, value: f64| -> prometheus::Result<()> {
        let gauge = Gauge::new(name, help)?;
        gauge.set(value);
        registry.register(Box::new(gauge))
    };
    let labelled = |name: &str, help: &str, label: &str| -> prometheus::Result<GaugeVec> {
        let gauge = GaugeVec::new(Opts::new(name, help), &[label])?;
        registry.register(Box::new(gauge.clone()))?;
        Ok(gauge)
    };
    let (record, error) = match ended {
        Ok(record) => (Some(record), None),
        Err(failed) => (failed.record.as_deref(), Some(&failed.error)),
    };
    gauge("probe_success", "1 if the test came to its end.", f64::from(u8::from(ended.is_ok())))?;
    gauge("probe_duration_seconds", "Time of the whole probe.", took.as_secs_f64())?;
    if let Some(error) = error {
        let name = "linerate_probe_error";
        labelled(name, "Why the test did not come to its end; always 1.", "kind")?
            .with_label_values(&[error.kind.name()])
            .set(1.0);
    }
    if let Some(record) = record {
        gauge("linerate_probe_doubts", "Doubts about the figures.", record.doubts.len() as f64)?;
        if let Some(verdict) = &record.verdict {
            labelled("linerate_probe_limit", "What limited the test; always 1.", "limit")?
                .with_label_values(&[verdict.limit.name()])
                .set(1.0);
        }
        let totals = serde_json::to_value(&record.totals).unwrap_or_default();
        let plan = record.agreed.as_ref().unwrap_or(&record.asked);
        for metric in METRICS {
            let (name, factor) = base("probe", metric);
            let of = |way: Option<&str>| {
                let totals = way.map_or(Some(&totals), |way| totals.get(way));
                Some(metric.raw(totals?)? * factor)
            };
            let figures = [
                (plan.direction.to_string(), of(None)),
                ("forward".to_owned(), of(Some("forward"))),
                ("reverse".to_owned(), of(Some("reverse"))),
            ];
            let mut known = figures.into_iter().filter_map(|(way, figure)| Some((way, figure?)));
            let Some(first) = known.next() else { continue };
            let help = format!("{}, of one direction.", metric.about);
            let gauge = labelled(&name, &help, "direction")?;
            for (way, figure) in std::iter::once(first).chain(known) {
                gauge.with_label_values(&[way]).set(figure);
            }
        }
    }
    let mut text = String::new();
    TextEncoder::new().encode_utf8(&registry.gather(), &mut text)?;
    Ok(text)
}

/// Answers until Ctrl-C.
pub fn run(args: &ProbeArgs) -> Result<Exit, ErrorRecord> {
    let wrong = |what: String, why: &dyn Display| {
        usage::error(what, why.to_string(), &["linerate probe --help shows a file of modules"])
    };
    let inner = |why: String| wrong("cannot make the modules of every probe".to_owned(), &why);
    let mut modules = read(MODULES).map_err(inner)?;
    if let Some(path) = &args.modules {
        let what = format!("cannot use the modules of {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|why| wrong(what.clone(), &why))?;
        modules.extend(read(&text).map_err(|why| wrong(what, &why))?);
    }
    let (networks, targets): (Vec<_>, Vec<_>) = args
        .targets
        .iter()
        .map(|text| (text.parse::<Cidr>().ok(), text))
        .partition(|(n, _)| n.is_some());
    let targets: Vec<String> = targets.into_iter().map(|(_, text)| text.clone()).collect();
    if let Some(wrong) = targets.iter().find(|target| target.contains('/')) {
        let why = wrong.parse::<Cidr>().err().unwrap_or_default();
        return Err(usage::error(format!("cannot use the target `{wrong}`"), why, &[]));
    }
    let networks = networks.into_iter().filter_map(|(network, _)| network).collect();
    let turn = Arc::new(Semaphore::new(1));
    let probe = Arc::new(Probe { targets, networks, modules, turn });
    let site = move |path: &str| -> Answer { Box::pin(Arc::clone(&probe).answer(path.to_owned())) };
    let what = ("probes", "--listen", "probe?target=HOST&module=NAME");
    let mut web = Web::site(args.listen.0, what, Box::new(site))?;
    let stop = output::stop_at_signals()?;
    web.begin()?;
    let _ = writeln!(stderr(), "{}", web.words());
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|e| wrong("cannot wait for Ctrl-C".to_owned(), &e))?;
    runtime.block_on(stop.asked());
    Ok(Exit::Complete)
}

/// Of metrics that a probe may answer with.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = String> {
    let others = [
        "probe_success",
        "probe_duration_seconds",
        "linerate_probe_error",
        "linerate_probe_doubts",
        "linerate_probe_limit",
    ];
    METRICS.iter().map(|metric| base("probe", metric).0).chain(others.map(String::from))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::args::Command;
    use crate::args::verb::Verb;
    use crate::fleet;

    fn probe(targets: &[&str], networks: &[&str]) -> Probe {
        Probe {
            targets: targets.iter().map(|text| (*text).to_owned()).collect(),
            networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
            modules: read(MODULES).unwrap(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    #[test]
    fn a_host_has_a_port_where_one_is_said() {
        let host = |text: &str| text.parse::<Host>().map(|host| (host.name, host.port));
        for (text, name, port) in [
            ("a.example", "a.example", None),
            ("a.example:5202", "a.example", Some(5_202)),
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:1", "192.0.2.1", Some(1)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[2001:db8::1]:5202", "2001:db8::1", Some(5_202)),
        ] {
            assert_eq!(host(text), Ok((name.to_owned(), port)), "{text}");
        }
        for text in ["", ":5201", "a:b", "a:65536", "[]:1"] {
            assert!(host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_who_is_named_is_probed() {
        let probe = probe(&["a.example", "fe80::1%eth0"], &["192.0.2.0/24", "2001:db8::7"]);
        for host in ["a.example", "A.Example", "192.0.2.77", "2001:db8::7", "2001:DB8:0::7"] {
            assert!(probe.allows(host), "{host}");
        }
        for host in ["b.example", "a.example.", "192.0.3.1", "2001:db8::8", "192.0.2.1.example", ""]
        {
            assert!(!probe.allows(host), "{host}");
        }
    }

    #[test]
    fn a_query_is_one_target_and_one_module() {
        let probe = probe(&["a.example"], &[]);
        let asked = |query: &str| probe.asked(query).map(|(host, module)| (host.name, module.kind));
        let of = |kind| Ok(("a.example".to_owned(), kind));
        assert_eq!(asked("target=a.example"), of(TrafficKind::Rr));
        assert_eq!(asked("module=udp&target=a%2Eexample%3A5201"), of(TrafficKind::Udp));
        for (query, status) in [
            ("", "400"),
            ("module=rr", "400"),
            ("target=a.example&target=a.example", "400"),
            ("target=a.example&module=voice", "400"),
            ("target=a.example&rate=100G", "400"),
            ("target=a.example:no", "400"),
            ("target=b.example", "403"),
        ] {
            assert!(asked(query).is_err_and(|(found, _)| found.starts_with(status)), "{query}");
        }
    }

    #[test]
    fn a_turn_lasts_until_its_test_has_ended() {
        let probe = Arc::new(probe(&["127.0.0.1"], &[]));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let query = format!("/probe?target={}", silent.local_addr().unwrap());
            let (mut peer, _) = tokio::select! {
                answer = Arc::clone(&probe).answer(query) => panic!("{answer}"),
                peer = silent.accept() => peer.unwrap(),
            };
            // Who asked is gone, and the client has still to end.
            assert_eq!(probe.turn.available_permits(), 0);
            peer.read_to_end(&mut Vec::new()).await.unwrap();
            drop(probe.turn.acquire().await.unwrap());
        });
    }

    #[test]
    fn an_address_without_a_port_has_the_documented_one() {
        let parsed = |line: &str| {
            let line = line.split(' ').map(Into::into).collect();
            crate::args::parse(line).unwrap().unwrap().command
        };
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let Command::Other(Verb::Probe(args)) = parsed("linerate probe --listen 192.0.2.1 a")
        else {
            panic!("a probe")
        };
        assert_eq!(args.listen.0, at("192.0.2.1:15202"));
        for (line, metrics) in [
            ("linerate serve --metrics", "127.0.0.1:15201"),
            ("linerate serve --metrics=192.0.2.1", "192.0.2.1:15201"),
            ("linerate serve --metrics=8080", "127.0.0.1:8080"),
            ("linerate serve --metrics=[::1]:0", "[::1]:0"),
        ] {
            let Command::Serve(args) = parsed(line) else { panic!("{line}") };
            assert_eq!(args.pages.metrics.map(|at| at.0), Some(at(metrics)), "{line}");
        }
        for (line, metrics) in [
            ("linerate fleet serve a --metrics", "127.0.0.1:15203"),
            ("linerate fleet serve a --metrics=::1", "[::1]:15203"),
        ] {
            let Command::Other(Verb::Fleet(args)) = parsed(line) else { panic!("{line}") };
            let fleet::args::Verb::Serve(args) = args.verb else { panic!("{line}") };
            assert_eq!(args.metrics.map(|at| at.0), Some(at(metrics)), "{line}");
        }
    }

    #[test]
    fn a_module_that_makes_no_sense_is_told_at_the_start() {
        for (text, why) in [
            ("[a]\nrate = \"1M\"", "no `kind`"),
            ("[a]\nkind = \"sctp\"", "`kind`"),
            ("[a]\nkind = \"udp\"\nrates = \"1M\"", "no such option"),
            ("[a]\nkind = \"udp\"\nrate = \"fast\"", "rate"),
            ("[a]\nkind = \"udp\"\njson = true", "would be ignored"),
            ("[a]\nkind = \"udp\"\nhost = \"b\"", "the request says which host"),
            ("a = 1", "invalid type"),
            ("[a", "TOML"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn the_examples_of_a_module_are_modules() {
        let page = include_str!("../../../docs/prometheus.md");
        let (_, page) = page.split_once("```toml\n").unwrap();
        let (page, _) = page.split_once("```").unwrap();
        let help = help::probe();
        let (_, help) = help.split_once("A file of modules:\n").unwrap();
        let (help, _) = help.split_once("\n\n").unwrap();
        for text in [page, help] {
            let modules = read(text).unwrap();
            assert!(modules.contains_key("voice"), "{text}");
        }
    }

    #[test]
    fn names_of_metrics_say_their_base_unit() {
        let names: Vec<_> = METRICS.iter().map(|metric| base("probe", metric).0).collect();
        for name in
            ["received_bits_per_second", "loss_ratio", "latency_p99_seconds", "sender_cpu_cores"]
        {
            assert!(names.contains(&format!("linerate_probe_{name}")), "{name}: {names:?}");
        }
        for metric in METRICS {
            assert!(Gauge::new(base("probe", metric).0, metric.about).is_ok(), "{}", metric.name);
        }
    }
}
