//! `serve --metrics`: what Prometheus reads is what clients measured.

use linerate_testkit::peer::LONG;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{
    Client, FleetFile, Lab, PORT, Server, alone, linerate, number, skip, wait_for,
};
use crate::web::Shown;

/// In a network of the test's own.
const AT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 15_201);

/// What is answered there: the head, and the body.
fn get(at: SocketAddr, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(LONG)).expect("an option");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// The metrics of a server.
fn text() -> String {
    let (head, body) = get(AT, "/metrics").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    body
}

/// A sample, by its name and labels.
fn sample(text: &str, name: &str) -> Option<f64> {
    let sample = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(sample)
}

fn becomes(name: &str, value: f64) {
    let there = wait_for(LONG, || sample(&text(), name) == Some(value));
    assert!(there, "{name} does not become {value}:\n{}", text());
}

fn client(args: &[&str]) -> Value {
    linerate(None, &[args, &["--json"]].concat()).complete()
}

#[test]
fn what_a_server_counts_is_what_clients_measured() {
    let _alone = alone();
    let server = Server::start(None, &["--metrics", "--iperf2"]);
    let port = server.port.to_string();
    let before = text();
    // All that may happen is there from the start, so that the first one is an increase.
    let first =
        "linerate_server_tests_ended_total{dialect=\"iperf3\",kind=\"udp\",outcome=\"vanished\"}";
    assert_eq!(sample(&before, first), Some(0.0), "{before}");
    for reason in ["version", "key", "out_of_range", "policy", "busy", "unable", "protocol"] {
        let name = format!("linerate_server_refusals_total{{reason=\"{reason}\"}}");
        assert_eq!(sample(&before, &name), Some(0.0), "{before}");
    }
    let release = format!("linerate_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(sample(&before, &release), Some(1.0), "{before}");

    let of = |what: &str, kind: &str| {
        format!("linerate_server_{what}_total{{dialect=\"native\",kind=\"{kind}\"}}")
    };
    let ended = |dialect: &str, kind: &str, outcome: &str| {
        let labels = format!("dialect=\"{dialect}\",kind=\"{kind}\",outcome=\"{outcome}\"");
        format!("linerate_server_tests_ended_total{{{labels}}}")
    };
    let udp = client(&["udp", "127.0.0.1", "-p", &port, "-k", "500", "-b", "20M"]);
    let again = client(&["udp", "127.0.0.1", "-p", &port, "-k", "300", "-b", "20M"]);
    becomes(&ended("native", "udp", "done"), 2.0);
    let now = text();
    let sum = |field: &str| (number(&udp, field) + number(&again, field)) as f64;
    assert_eq!(sample(&now, &of("received_bytes", "udp")), Some(sum("totals.receiver.bytes")));
    let lost = sum("totals.receiver.lost");
    assert_eq!(sample(&now, &of("lost_datagrams", "udp")), Some(lost), "{now}");
    assert_eq!(sample(&now, &of("received_datagrams", "udp")), Some(800.0 - lost), "{now}");
    assert_eq!(sample(&now, &of("sent_bytes", "udp")), Some(0.0), "{now}");
    assert_eq!(sample(&now, &of("sent_datagrams", "udp")), None, "{now}");

    client(&["tcp", "127.0.0.1", "-p", &port, "-n", "2M", "-R"]);
    becomes(&ended("native", "tcp", "done"), 1.0);
    assert_eq!(sample(&text(), &of("sent_bytes", "tcp")), Some(2e6), "{}", text());
    // What is due is asked, however late.
    client(&["rr", "127.0.0.1", "-p", &port, "-t", "200ms", "--rate", "100"]);
    becomes(&ended("native", "rr", "done"), 1.0);
    assert!(sample(&text(), &of("answered_requests", "rr")) > Some(0.0), "{}", text());
    let iperf2 = ["udp", "127.0.0.1", "--dialect", "iperf2", "-k", "50", "-b", "10M"];
    assert_eq!(linerate(None, &iperf2).code, 0);
    becomes(&ended("iperf2", "udp", "done"), 1.0);

    let runs = "linerate_server_tests{dialect=\"native\",kind=\"udp\"}";
    let running = Client::start(None, &["udp", "127.0.0.1", "-p", &port, "-t", "10m", "-b", "1M"]);
    becomes(runs, 1.0);
    running.signal(Signal::SIGINT);
    running.end();
    becomes(runs, 0.0);

    let mut stranger = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    stranger.write_all(b"what is this").expect("sent");
    becomes("linerate_server_refusals_total{reason=\"protocol\"}", 1.0);
    let used = |text: &str| sample(text, "process_cpu_seconds_total").expect("CPU time");
    assert!(used(&text()) >= used(&before));
    let (head, _) = get(AT, "/").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
}

/// A program with a folder of its own; both end with this.
struct Beside(Child, PathBuf);

impl Beside {
    /// `file` is what it reads, in that folder.
    fn start(command: &mut Command, option: &str, file: &str, text: &str) -> Self {
        // Several tests have one of a kind at once.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (own, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("linerate-{file}-{own}-{count}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(file);
        std::fs::write(&path, text).expect("a file");
        let command = command.arg(format!("--{option}={}", path.display())).current_dir(&folder);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        Self(child, folder)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

const RULES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/prometheus/linerate.rules.yml");

/// Whether Prometheus and its tool are there; else the test is skipped.
fn prometheus_is_there(test: &str) -> bool {
    let there = |program| Command::new(program).arg("--version").output().is_ok();
    let both = ["promtool", "prometheus"].into_iter().all(there);
    if !both {
        skip(test, "prometheus is not installed");
    }
    both
}

/// `promtool` has nothing to say against this text but `but`, in each line.
fn checked(text: &str, but: Option<&str>) {
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    check.stdin.take().expect("piped").write_all(text.as_bytes()).expect("read");
    let said = check.wait_with_output().expect("its end");
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    // 3 says that it read all, and would have some of it otherwise.
    let code = if but.is_some() { 3 } else { 0 };
    assert_eq!((said.status.code(), said.stdout.as_slice()), (Some(code), &b""[..]), "{words}");
    assert!(words.lines().all(|line| but.is_some_and(|but| line.ends_with(but))), "{words}");
}

struct Prometheus;

impl Prometheus {
    fn start(job: &str, at: SocketAddr) -> Beside {
        let scrape = format!(
            "global: {{evaluation_interval: 1s}}\nrule_files: ['{RULES}']\nscrape_configs:\n- job_name: {job}\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\n  \
             static_configs:\n  - targets: ['{at}']\n"
        );
        let mut command = Command::new("prometheus");
        command.args(["--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:9090"]);
        Beside::start(&mut command, "config.file", "prometheus.yml", &scrape)
    }

    /// The value of an expression, once it has one.
    fn value(expression: &str) -> Option<String> {
        let (_, body) = get(
            SocketAddr::from(([127, 0, 0, 1], 9_090)),
            &format!("/api/v1/query?query={expression}"),
        )?;
        // In chunks, whose lengths stand on lines of their own.
        let json = body.lines().find(|line| line.starts_with('{'))?;
        let answer: Value = serde_json::from_str(json).ok()?;
        Some(answer["data"]["result"][0]["value"][1].as_str()?.to_owned())
    }
}

#[test]
fn prometheus_reads_them_and_has_nothing_to_say_against_them() {
    let _alone = alone();
    let test = "prometheus_reads_them_and_has_nothing_to_say_against_them";
    if !prometheus_is_there(test) {
        return;
    }
    let server = Server::start(None, &["--metrics"]);
    let port = server.port.to_string();
    client(&["udp", "127.0.0.1", "-p", &port, "-k", "100", "-b", "20M"]);
    client(&["tcp", "127.0.0.1", "-p", &port, "-n", "1M", "--both"]);
    client(&["rr", "127.0.0.1", "-p", &port, "-t", "200ms"]);
    let ended = "sum(linerate_server_tests_ended_total)";
    wait_for(LONG, || text().matches("outcome=\"done\"} 1").count() == 3);
    checked(&text(), None);
    let said = Command::new("promtool").args(["check", "rules", RULES]).output().expect("promtool");
    assert!(said.status.success(), "{said:?}");
    let page = include_str!("../../../../docs/prometheus.md");
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).filter_map(|s| s.split("```").next()).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let path =
            std::env::temp_dir().join(format!("linerate-example-{}.yml", std::process::id()));
        std::fs::write(&path, example).expect("a file");
        let said = Command::new("promtool").args(["check", "config"]).arg(&path).output();
        let _ = std::fs::remove_file(&path);
        let said = said.expect("promtool");
        assert!(said.status.success(), "{example}{said:?}");
    }
    let _prometheus = Prometheus::start("linerate", AT);
    let read = wait_for(LONG, || Prometheus::value(ended).as_deref() == Some("3"));
    assert!(read, "{:?}", Prometheus::value("up"));
    // One that is late for its 500 ms is down for that time.
    assert!(wait_for(LONG, || Prometheus::value("up").as_deref() == Some("1")));
}

const FLEET: SocketAddr = SocketAddr::new(AT.ip(), 15_203);

#[test]
fn a_fleets_file_is_scraped_and_silence_is_no_zero() {
    let _alone = alone();
    let test = "a_fleets_file_is_scraped_and_silence_is_no_zero";
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fleet-metrics");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("fleet.db");
    let mut file = FleetFile::new(&path, &["a", "b\"\n{}", "c", "d"], 4);
    // c -> d loses half of it; a -> b has a result at the first two times alone, d -> a none.
    file.measured(3, |from, to, time| match (from, to) {
        (0, 1) if time == 2 => None,
        (2, 3) => Some(40e6 + f64::from(time)),
        (3, 0) => None,
        _ => Some(94e6 + f64::from(time) * 1e3 + (from * 3 + to) as f64 * 1e3),
    });
    let shown = Shown::start(&["fleet", "serve", path.to_str().expect("text"), "--metrics"]);
    let text = || get(FLEET, "/metrics").expect("an answer");
    let (head, now) = text();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"), "{head}");
    let of = |name: &str, from: &str, to: &str| {
        sample(&now, &format!("linerate_fleet_{name}{{from=\"{from}\",to=\"{to}\"}}"))
    };
    let b = "b\\\"\\n{}";
    assert_eq!(of("received_bits_per_second", "a", b), Some(94.002e6), "{now}");
    // Of the second time, an hour after the first.
    assert_eq!(of("result_timestamp_seconds", "a", b), Some(1_767_326_400.0), "{now}");
    assert_eq!(of("received_bits_per_second", "d", "a"), None, "{now}");
    assert_eq!(of("result_timestamp_seconds", "d", "a"), None, "{now}");
    assert_eq!(of("bad_link", "c", "d"), Some(1.0), "{now}");
    let ended = |outcome: &str| {
        let labels = format!("from=\"d\",outcome=\"{outcome}\",to=\"a\"");
        sample(&now, &format!("linerate_fleet_tests_kept{{{labels}}}"))
    };
    assert_eq!((ended("measured"), ended("failed")), (Some(0.0), Some(3.0)), "{now}");
    for (name, value) in [
        ("pairs", 12.0),
        ("times", 4.0),
        ("missing_results", 12.0 + 4.0),
        ("running", 1.0),
        ("tests", 0.0),
        ("judged{of=\"links\"}", 1.0),
    ] {
        assert_eq!(sample(&now, &format!("linerate_fleet_{name}")), Some(value), "{name}: {now}");
    }
    assert!(get(FLEET, "/").expect("an answer").0.starts_with("HTTP/1.1 404 "));
    // The page is not served beside them unless it is asked for.
    assert_eq!((shown.at(), shown.token()), (FLEET, "metrics"));
    if prometheus_is_there(test) {
        // Rates of a network are bits, here as elsewhere.
        checked(&now, Some("use base unit \"bytes\" instead of \"bits\""));
        let _prometheus = Prometheus::start("linerate-fleet", FLEET);
        let bad = || Prometheus::value("linerate_fleet_bad_link");
        assert!(wait_for(LONG, || bad().as_deref() == Some("1")), "{:?}", bad());
        let silent = "count(ALERTS{alertname=\"LinerateFleetPairIsSilent\"})";
        let silent = || Prometheus::value(&silent.replace('"', "%22"));
        assert!(wait_for(LONG, || silent().is_some()), "no alert");
    }
    // What cannot be read is no figure.
    drop(file);
    std::fs::write(&path, "no database, but long enough to look at it as one").expect("written");
    assert!(wait_for(LONG, || text().0.starts_with("HTTP/1.1 500 ")), "{}", text().1);
    drop(shown);
}

#[test]
fn networks_that_are_not_allowed_see_neither_metrics_nor_pages() {
    let _alone = alone();
    if !Lab::possible("networks_that_are_not_allowed_see_neither_metrics_nor_pages") {
        return;
    }
    let lab = Lab::pair();
    let metrics = SocketAddr::from(([10, 77, 1, 2], 15_201));
    let page = SocketAddr::from(([10, 77, 1, 2], 15_202));
    for (from, allowed) in [("10.77.1.1", true), ("10.77.1.8/29", false)] {
        let at = [format!("--metrics={metrics}"), format!("--web={page}")];
        let _server =
            Server::on_port(Some(&lab.space("b")), PORT, &[&at[0], &at[1], "--allow", from]);
        let asks = move || (get(metrics, "/metrics").is_some(), get(page, "/").is_some());
        assert_eq!(lab.inside("a", asks).join().expect("it asked"), (allowed, allowed), "{from}");
    }
}

#[test]
fn a_port_that_cannot_be_had_is_told_at_the_start() {
    let _alone = alone();
    let taken = TcpListener::bind(AT).expect("a port");
    let ran = linerate(None, &["serve", "--port", "0", "--metrics"]);
    assert!(
        ran.code != 0 && ran.err.contains("cannot serve metrics of --metrics at 127.0.0.1:15201"),
        "{}",
        ran.err
    );
    drop(taken);
}

/// `linerate probe`.
struct Probe;

impl Probe {
    const AT: SocketAddr = SocketAddr::new(AT.ip(), 15_202);

    fn start(targets: &[&str], modules: &str) -> Beside {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.arg("probe").args(targets);
        let probe = Beside::start(&mut command, "modules", "probes.toml", modules);
        assert!(wait_for(LONG, || TcpStream::connect(Self::AT).is_ok()), "it does not listen");
        probe
    }

    /// Its metrics.
    fn of(query: &str) -> String {
        let (head, body) = get(Self::AT, &format!("/probe?{query}")).expect("an answer");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{query}: {head}\n{body}");
        body
    }
}

#[test]
fn a_probe_is_a_test_to_who_is_named_and_to_nobody_else() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let modules = "[counted]\nkind = \"udp\"\ndatagrams = 200\nrate = \"20M\"\n\
                   [both]\nkind = \"tcp\"\nbytes = \"1M\"\nboth = true\n\
                   [long]\nkind = \"udp\"\nrate = \"1M\"\ntime = \"10m\"\n";
    let _probe = Probe::start(&["127.0.0.0/8", "localhost"], modules);
    let there = format!("target=127.0.0.1:{}", server.port);

    let rr = Probe::of(&there);
    assert_eq!(sample(&rr, "probe_success"), Some(1.0), "{rr}");
    assert!(sample(&rr, "probe_duration_seconds") > Some(1.0), "{rr}");
    let p99 = "linerate_probe_latency_p99_seconds{direction=\"forward\"}";
    assert!(sample(&rr, p99) > Some(0.0), "{rr}");

    let udp = Probe::of(&format!("{there}&module=counted"));
    let of = |name: &str, way: &str| format!("linerate_probe_{name}{{direction=\"{way}\"}}");
    let [sent, received, lost] = ["datagrams_sent", "datagrams_received", "lost"]
        .map(|name| sample(&udp, &of(name, "forward")).unwrap_or_else(|| panic!("{name}: {udp}")));
    assert_eq!((sent, received + lost), (200.0, 200.0), "{udp}");
    assert_eq!(sample(&udp, &of("loss_ratio", "forward")), Some(lost / 200.0), "{udp}");
    assert!(udp.contains("linerate_probe_limit{limit=\""), "{udp}");

    let tcp = Probe::of(&format!("target=localhost%3A{}&module=both", server.port));
    for way in ["forward", "reverse"] {
        assert!(sample(&tcp, &of("received_bits_per_second", way)) > Some(0.0), "{way}: {tcp}");
    }

    let nobody = Probe::of("target=127.0.0.1:1&module=udp");
    assert_eq!(sample(&nobody, "probe_success"), Some(0.0), "{nobody}");
    assert!(nobody.contains("linerate_probe_error{kind=\"refused\"} 1"), "{nobody}");
    for (query, status, why) in [
        ("target=192.0.2.1", "403", "none of the targets"),
        ("target=127.0.0.1&module=no", "400", "but both, counted, long, rr, tcp, udp"),
        ("module=udp", "400", "no target"),
    ] {
        let (head, body) = get(Probe::AT, &format!("/probe?{query}")).expect("an answer");
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")) && body.contains(why),
            "{query}: {body}"
        );
    }

    // Who asked goes, and so does the test; the next has its turn.
    let mut gone = TcpStream::connect(Probe::AT).expect("a connection");
    write!(gone, "GET /probe?{there}&module=long HTTP/1.1\r\n\r\n").expect("sent");
    // After the three above.
    server.says("\"started\"", 4);
    let (head, body) = get(Probe::AT, &format!("/probe?{there}")).expect("an answer");
    assert!(head.starts_with("HTTP/1.1 503 ") && body.contains("for 5 s"), "{head}: {body}");
    drop(gone);
    assert!(
        wait_for(LONG, || server.log().contains("\"outcome\":\"stopped\"")),
        "{}",
        server.log()
    );
    let next = Probe::of(&format!("{there}&module=counted"));
    assert_eq!(sample(&next, "probe_success"), Some(1.0), "{next}");
}
