//! Sweeps, searches, campaigns, comparisons and reports in the dialects of netperf, nuttcp and iperf 2: what a protocol
//! cannot tell is absent and named, and all else is as in linerate's own.

use linerate_testkit::peer::LONG;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::netperf::{Netserver, an_address};
use crate::support::nuttcp::Theirs;
use crate::support::{self, Lab, Ran, Server, Urgent, alone, linerate, list, number, real};
use serde_json::Value;

/// Those with ports of their own.
const DIALECTS: [&str; 3] = ["netperf", "nuttcp", "iperf2"];

fn run(line: &str) -> Ran {
    linerate(None, &line.split_whitespace().collect::<Vec<_>>())
}

/// A folder of its own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dialects-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// All servers on their usual ports, on loopback of this test's own.
fn servers() -> Server {
    let server = Server::start(None, &["--all-dialects"]);
    let listens = |dialect: &&str| server.log().contains(&format!("\"dialect\":\"{dialect}\""));
    let up = || DIALECTS.iter().all(listens);
    assert!(support::wait_for(LONG, up), "{}", server.log());
    server
}

/// Datagrams for which a socket of this thread's network had no room.
fn overflowed() -> u64 {
    let snmp = fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
    let values = snmp.lines().filter_map(|line| line.strip_prefix("Udp: ")).nth(1).expect("UDP's");
    values.split(' ').nth(4).and_then(|count| count.parse().ok()).expect("RcvbufErrors")
}

/// A sweep's points carry what the server of the dialect says, and no more.
fn sweeps(target: &str) {
    let line = format!("sweep {target} --rates 2M,4M -l 1000 -t 1s --json");
    let before = overflowed();
    let ran = run(&line);
    let dropped = overflowed() > before;
    assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    let document = ran.record();
    let points = list(&document["points"]);
    assert_eq!(points.len(), 2, "{line}: {document}");
    for (point, asked) in points.iter().zip([2e6, 4e6]) {
        let received = real(point, "received_bps");
        assert!(received < asked * 1.1, "{line}: {point}");
        // How much of what was asked for is sent, a busy host decides: a point of which nothing can be said says so. A
        // receiver that has no core for a while loses what its buffer has no room for, which the kernel counts.
        let told = received > 0.0 && (real(point, "lost_ratio") < 0.2 || dropped);
        // Counts that contradict each other are never others' work.
        let invalid = point["invalid"].as_str();
        assert!(invalid.map_or(told, |why| !why.contains("contradict")), "{line}: {point}");
    }
}

#[test]
fn a_sweep_takes_every_dialect() {
    let _alone = alone();
    let _nobody = Urgent::nobody();
    let _server = servers();
    for dialect in DIALECTS {
        sweeps(&format!("127.0.0.1 --dialect {dialect}"));
    }
}

#[test]
#[ignore = "long"]
fn a_sweep_goes_to_real_servers_as_well() {
    let _alone = alone();
    let _nobody = Urgent::nobody();
    let test = "a_sweep_goes_to_real_servers_as_well";
    if let Some(bin) = support::netperf::programs(test) {
        an_address();
        let server = Netserver::start(&bin);
        sweeps(&format!("127.0.0.1 -p {} --dialect netperf", server.port));
    }
    for (_, bin) in support::nuttcp::programs(test) {
        let server = Theirs::start(&bin);
        sweeps(&format!("127.0.0.1 -p {} --dialect nuttcp", server.port));
    }
}

/// The largest rate without loss through a bottleneck of a known rate.
#[test]
#[ignore = "long"]
fn a_search_takes_every_dialect() {
    let _alone = alone();
    let test = "a_search_takes_every_dialect";
    if !Lab::possible(test) {
        return;
    }
    let lab = Lab::bottleneck(40, 40);
    let _urgent = Urgent::now();
    let (_server, space) =
        (Server::start(Some(&lab.space("b")), &["--all-dialects"]), lab.space("a"));
    for dialect in DIALECTS {
        let line = format!(
            "search 10.77.2.2 --dialect {dialect} --goal loss=0.5%,time=300ms,sum=1s --max 200M --max-time 100s \
             --burst 5ms --json"
        );
        let words: Vec<&str> = line.split_whitespace().collect();
        let document = linerate(Some(&space), &words).record();
        let goal = &document["goals"][0];
        let (low, truth) = (real(goal, "lower_bps"), 40e6 * 1_472.0 / 1_514.0);
        println!("{dialect}: {low} of {truth}: {goal}");
        assert!((low / truth - 1.0).abs() < 0.1, "{dialect}: {goal} {}", document["because"]);
    }
}

const PLAN: &str = r#"
name = "dialects"
[repeat]
warmup = 0
runs = 3
[hosts.here]
address = "local"
[hosts.far]
address = "127.0.0.1"
[defaults]
test = "udp"
from = "here"
to = "far"
rate = "4M"
size = 1000
time = "300ms"
[matrix]
dialect = ["netperf", "nuttcp", "iperf2"]
"#;

fn campaign(folder: &Path, args: &[&str]) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(args).current_dir(folder).stdin(std::process::Stdio::null());
    command.env("NO_COLOR", "1").output().expect("linerate runs")
}

#[test]
fn a_campaign_takes_every_dialect_and_its_runs_are_compared_and_reported() {
    let _alone = alone();
    let _nobody = Urgent::nobody();
    let _server = servers();
    let folder = folder("campaign");
    fs::write(folder.join("c.toml"), PLAN).expect("a plan");
    let ok = |args: &[&str]| {
        let out = campaign(&folder, args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(out.status.success(), "{args:?}: {}{}", text(&out.stdout), text(&out.stderr));
        text(&out.stdout)
    };
    ok(&["campaign", "run", "c.toml"]);
    let runs = ok(&["campaign", "export", "c.toml", "--format", "json-lines"]);
    let runs = runs.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    // One of which nothing left in its time is no result, and was made again.
    let runs: Vec<Value> = runs.filter(|run| run["state"] == "counted").collect();
    assert_eq!(runs.len(), 9);
    for run in &runs {
        let (setting, record) = (&run["setting"], &run["record"]);
        assert_eq!(setting, &record["agreed"]["dialect"], "{run}");
        assert_eq!(record["status"], "complete", "{run}");
        // How much of what was asked for is sent, a busy host decides.
        let [sent, received] =
            ["sender", "receiver"].map(|end| number(record, &format!("totals.{end}.bytes")));
        // Nothing, where they had the core all the time.
        let starved = sent == 0 && record["verdict"]["limit"] == "other-work";
        assert!(starved || (received > 0 && 2 * received > sent), "{run}");
        // What its protocol does not tell is absent, and said.
        assert!(record["server"]["nic"].is_null() || record["server"]["hostname"].is_string());
        assert!(record["doubts"].to_string().contains("peer-values-missing"), "{run}");
        assert!(record["totals"]["receiver"]["reordered"].is_null(), "{run}");
    }
    let files = ok(&["campaign", "export", "c.toml"]);
    assert_eq!(files.lines().count(), 3, "{files}");
    for file in files.lines() {
        let numbers = fs::read_to_string(folder.join(file)).expect("a file");
        assert_eq!(numbers.lines().count(), 3, "{numbers}");
    }
    let view: Value = serde_json::from_str(&ok(&["compare", "c.db", "--json"])).expect("JSON");
    assert_eq!(list(&view["sets"]).len(), 3, "{view}");
    assert_eq!(list(&view["comparisons"]).len(), 2, "{view}");
    ok(&["report", "c.db", "-o", "c.html"]);
    let page = fs::read_to_string(folder.join("c.html")).expect("a page");
    for dialect in DIALECTS {
        assert!(page.contains(dialect), "{dialect} is not in the report");
    }
}

#[test]
fn a_figure_that_a_protocol_does_not_have_is_named() {
    let _alone = alone();
    let _nobody = Urgent::nobody();
    let _server = servers();
    let folder = folder("absent");
    // Of TCP an iperf 2 server says nothing.
    let plan = PLAN.replace("\"udp\"", "\"tcp\"").replace("size = 1000\n", "");
    let plan = plan.replace("[\"netperf\", \"nuttcp\", \"iperf2\"]", "[\"iperf2\"]");
    fs::write(folder.join("c.toml"), plan.replace("runs = 3", "runs = 1\nretries = 0")).unwrap();
    let out = campaign(&folder, &["campaign", "run", "c.toml"]);
    let said = [out.stdout, out.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(!out.status.success() && said.contains("received_bps"), "{said}");
}

/// A plan's settings may each have another server, and the host's own port is that of its `linerate serve`.
#[test]
fn a_dialect_has_a_port_of_its_own_in_a_plan() {
    let _alone = alone();
    let _nobody = Urgent::nobody();
    let server = servers();
    let (folder, port) = (folder("port"), support::free_port());
    let extra = Server::start(None, &[&format!("--netperf={port}")]);
    let plan = PLAN.replace("\"127.0.0.1\"", &format!("\"127.0.0.1\"\nport = {}", server.port));
    let (head, _) = plan.split_once("[matrix]").expect("a matrix");
    let settings = format!(
        "[settings.own]\n[settings.usual]\ndialect = \"netperf\"\n[settings.other]\ndialect = \"netperf\"\nport = {port}\n"
    );
    let plan = format!("{head}{settings}").replace("runs = 3", "runs = 1");
    fs::write(folder.join("c.toml"), plan).expect("a plan");
    let out = campaign(&folder, &["campaign", "run", "c.toml"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let out = campaign(&folder, &["campaign", "export", "c.toml", "--format", "json-lines"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut seen: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let run: Value = serde_json::from_str(line).expect("JSON");
        // One that a busy host spoilt is made again.
        if run["state"] != "counted" {
            continue;
        }
        let at = run["record"]["addresses"]["control"]["server"].as_str().expect("an address");
        let at = at.rsplit(':').next().unwrap_or_default().to_owned();
        seen.push((run["setting"].as_str().expect("a name").to_owned(), at));
    }
    seen.sort();
    let wanted = [("other", port), ("own", server.port), ("usual", 12_865)];
    let wanted = wanted.map(|(name, port)| (name.to_owned(), port.to_string()));
    assert_eq!(seen, wanted);
    drop(extra);
}
