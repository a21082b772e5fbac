//! Campaigns over real reboots and power cuts.

use linerate_testkit::peer::LONG;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use linerate_lab::{Hardware, Lab, Machine};
use serde_json::Value;

use super::{lab, two};
use crate::support::{list, long, machines, pressure, skip, wait_for};

/// What a machine does after each boot: `lines`, from its own disk, as a unit of systemd would.
fn on_boot(machine: &Machine, lines: &str) {
    machine.run(&format!(
        "printf '%s\\n' '#!/bin/dash' '{}' >/data/boot; chmod +x /data/boot; sync",
        lines.replace('\n', "' '")
    ));
}

fn put(machine: &Machine, file: &str, text: &str) {
    machine.run(&format!("cat >{file} <<'END'\n{text}\nEND\nsync"));
}

/// The runs of a store, a JSON object each.
fn runs_of(machine: &Machine, store: &str) -> Vec<Value> {
    let text = machine.run(&format!("linerate campaign export {store} --format json-lines"));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

const SEED_002: &str = r#"
name = "offload"
baseline = "tcp4_default"
[repeat]
boots = 3
warmup = 1
runs = RUNS
order = "shuffled"
seed = 2
wait = "5m"
[hosts.dut]
address = "a"
key_file = "key"
device = "eth0"
reboot = "reboot"
[hosts.peer]
address = "local"
[defaults]
test = "tcp"
from = "dut"
to = "peer"
time = "1s"
[settings.tcp4_default]
ip = 4
[settings.tcp4_nooffload]
ip = 4
set.dut = { offload.tso = false, offload.gso = false, offload.tx_checksum = false }
"#;

const SEED_002_IPV6: &str = r#"
[settings.tcp6_default]
ip = 6
[settings.tcp6_nooffload]
ip = 6
set.dut = { offload.tso = false, offload.gso = false, offload.tx_checksum = false }
"#;

#[test]
#[ignore = "long"]
fn offload_is_different_over_three_real_reboots() {
    let _machines = machines();
    let Some(lab) = lab("offload_is_different_over_three_real_reboots") else { return };
    let (mut a, b) = two(&lab, Hardware { disk_mib: 32, ..Hardware::default() });
    let key = "a key of the lab, of more than sixteen bytes";
    put(&a, "/data/key", key);
    a.run("chmod 600 /data/key");
    on_boot(
        &a,
        "exec linerate serve --key-file /data/key --allow-settings --allow-reboot=reboot --state-dir /data/state",
    );
    let first = a.reboot();
    put(&b, "/data/key", key);
    let (settings, count) = if long() { (4, 5) } else { (2, 5) };
    let mut plan = SEED_002.replace("RUNS", &count.to_string());
    if long() {
        plan += SEED_002_IPV6;
    }
    put(&b, "/data/offload.toml", &plan);
    b.run("chmod 600 /data/key; linerate campaign check /data/offload.toml");
    let begun = Instant::now();
    let (done, busy) = pressure(|| {
        b.try_run("linerate campaign run /data/offload.toml", Duration::from_secs(900))
            .expect("the controller ended")
    });
    println!("{}{}", done.out, done.err);
    assert_eq!(done.code, 0);
    println!("{settings} settings, 3 reboots x (1 + {count}) runs: {:?}", begun.elapsed());
    let last = a.booted_again();
    assert_ne!(first, last, "nobody rebooted");

    let all = runs_of(&b, "/data/offload.db");
    let counted = all.iter().filter(|run| run["state"] == "counted");
    let mut boots: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for run in counted.clone() {
        let of = boots.entry(run["boot"].to_string()).or_default();
        of.insert(run["boot_id"].to_string());
    }
    assert_eq!(counted.count(), settings * 3 * (1 + count), "a full design");
    println!("boots {boots:?}");

    b.run("cd /data; linerate campaign export offload.toml --dir /data/stat");
    let files = b.run("cd /data/stat; ls */*");
    assert_eq!(files.lines().count(), settings, "{files}");
    let text = b.run("linerate compare /data/offload.db --json");
    let compared: Value = serde_json::from_str(&text).expect("JSON");
    println!("{}", b.run("linerate compare /data/offload.db"));
    let offload = &list(&compared["comparisons"])[0];
    if offload["verdict"] != "different" {
        // Runs of 1 s that share their cores with other work may differ by more than offload does.
        assert!(busy > 0.2, "on an idle host: {offload}");
        let why = format!("verdict {} not judged: this host was busy (PSI)", offload["verdict"]);
        skip("offload_is_different_over_three_real_reboots", &why);
    }
    // Nothing is left changed.
    let left = a.run("ethtool -k eth0 | grep -E '^(tcp-seg|generic-seg|tx-check).*: off' || true");
    assert_eq!(left, "");
}

/// The example for netperf's users as the machines have it: with their names, and runs of a second.
fn netperfs_example(runs: usize) -> String {
    let plan = include_str!("../../../../../examples/udp-offload-netperf.toml");
    // netperf itself is not in the machines.
    let (plan, _) = plan.split_once("[settings.netperf_udp4]").expect("a last setting");
    let mut plan = plan.to_owned();
    for (there, here) in [
        ("runs = 10", format!("runs = {runs}\nseed = 7\nwait = \"5m\"")),
        ("\"hydra1\"", "\"a\"\ndevice = \"eth0\"".to_owned()),
        ("\"hydra2\"", "\"b\"".to_owned()),
        ("campaign.key", "key".to_owned()),
        ("systemctl reboot", "reboot".to_owned()),
        ("\"10s\"", "\"1s\"".to_owned()),
        // The driver of the machines does not let it be switched.
        (", offload.rx_checksum = false", String::new()),
    ] {
        assert!(plan.contains(there), "the example has no {there} any more");
        plan = plan.replace(there, &here);
    }
    plan
}

#[test]
#[ignore = "long"]
fn netperfs_udp_is_compared_over_three_real_reboots() {
    let test = "netperfs_udp_is_compared_over_three_real_reboots";
    let Some(bin) = crate::support::netperf::programs(test) else { return };
    let _machines = machines();
    let Some(lab) = lab(test) else { return };
    let (mut a, b) = two(&lab, Hardware { disk_mib: 32, ..Hardware::default() });
    let key = "a key of the lab, of more than sixteen bytes";
    for machine in [&a, &b] {
        put(machine, "/data/key", key);
        machine.run("chmod 600 /data/key");
    }
    on_boot(
        &a,
        "exec linerate serve --key-file /data/key --allow-settings --allow-reboot=reboot --state-dir /data/state",
    );
    let first = a.reboot();
    b.install(&bin.join("netserver"), "netserver");
    // It wants more of mathematics than the machine has.
    let libm = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6"].map(Path::new);
    let libm = libm.into_iter().find(|file| file.exists()).expect("a C library");
    b.install(libm, "libm.so.6");
    b.start("netserver", "LD_LIBRARY_PATH=/bin exec netserver -D");
    let (settings, runs) = (5, if long() { 5 } else { 2 });
    put(&b, "/data/udp.toml", &netperfs_example(runs));
    b.run("linerate campaign check /data/udp.toml");
    let begun = Instant::now();
    let done = b.try_run("linerate campaign run /data/udp.toml", Duration::from_secs(1_800));
    let done = done.expect("the controller ended");
    println!("{}{}", done.out, done.err);
    assert_eq!(done.code, 0);
    println!("{settings} settings, 3 reboots x (1 + {runs}) runs: {:?}", begun.elapsed());
    assert_ne!(first, a.booted_again(), "nobody rebooted");

    let all = runs_of(&b, "/data/udp.db");
    let counted: Vec<&Value> = all.iter().filter(|run| run["state"] == "counted").collect();
    assert_eq!(counted.len(), settings * 3 * (1 + runs), "a full design");
    let boots: BTreeSet<String> = counted.iter().map(|run| run["boot_id"].to_string()).collect();
    assert_eq!(boots.len(), 3, "{boots:?}");
    for run in counted {
        let (setting, record) = (run["setting"].as_str().expect("a name"), &run["record"]);
        assert_eq!(record["agreed"]["dialect"], "netperf", "{run}");
        let ip = if setting.starts_with("udp6") { 6 } else { 4 };
        assert_eq!(record["agreed"]["ip"], ip, "{run}");
        assert_eq!(record["agreed"]["checksum"], !setting.ends_with("nocksum"), "{run}");
        assert!(run["value"].as_f64().is_some_and(|bps| bps > 0.0), "{run}");
    }
    b.run("cd /data; linerate campaign export udp.toml --dir /data/stat");
    let folder = lab.folder().join("stat");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut here = Vec::new();
    for file in b.run("cd /data/stat; ls */*.stat").lines() {
        let numbers = b.run(&format!("cat /data/stat/{file}"));
        assert_eq!(numbers.lines().count(), 3 * runs, "{file}: {numbers}");
        let path = folder.join(file.replace('/', "_"));
        std::fs::write(&path, numbers).expect("a file");
        here.push(path);
    }
    assert_eq!(here.len(), settings);
    match std::process::Command::new("ministat").args(&here).output() {
        Err(_) => skip(test, "ministat is not installed"),
        Ok(out) => {
            let shown = String::from_utf8_lossy(&out.stdout).into_owned();
            println!("{shown}");
            assert!(
                out.status.success() && shown.contains(&format!("x {:3}", 3 * runs)),
                "{shown}"
            );
        }
    }
    println!("{}", b.run("linerate compare /data/udp.db"));
    // Nothing is left changed.
    let left = a.run("ethtool -k eth0 | grep -E '^(rx-check|tx-check).*: off$' || true");
    assert_eq!(left, "");
}

const SEED_001: &str = r#"
name = "pps"
baseline = "udp4"
[repeat]
boots = 2
warmup = 1
runs = RUNS
order = "shuffled"
seed = 1
wait = "5m"
[hosts.dut]
address = "local"
reboot = "reboot"
[hosts.sink]
address = "10.78.0.2"
[defaults]
test = "udp"
from = "dut"
to = "sink"
time = "500ms"
send_only = true
streams = 2
size = 64
engine = "send"
[settings.udp4]
ip = 4
[settings.udp4_nosum]
ip = 4
no_checksum = true
"#;

/// What a machine said over a serial line, in all its boots: no power cut can take it back.
fn console(lab: &Lab) -> String {
    let console = std::fs::read(lab.folder().join("a.console")).unwrap_or_default();
    String::from_utf8_lossy(&console).into_owned()
}

/// The runs that its controller acknowledged there.
fn acknowledged(lab: &Lab) -> Vec<(u64, u64)> {
    console(lab)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok())
        .filter(|event| event["event"] == "run" && event["state"] == "counted")
        .filter_map(|event| Some((event["slot"].as_u64()?, event["attempt"].as_u64()?)))
        .collect()
}

#[test]
fn a_campaign_survives_reboots_and_power_cuts_of_its_own_controller() {
    let _machines = machines();
    let test = "a_campaign_survives_reboots_and_power_cuts_of_its_own_controller";
    let Some(lab) = lab(test) else { return };
    let mut a = lab.machine("a", 1, Hardware { cores: 2, disk_mib: 64, ..Hardware::default() });
    a.booted();
    let (cuts, runs_a_cell) = if long() { (20u64, 30) } else { (1, 1) };
    put(&a, "/data/pps.toml", &SEED_001.replace("RUNS", &runs_a_cell.to_string()));
    on_boot(
        &a,
        "modprobe dummy numdummies=0; ip link add dummy0 type dummy; ip link set dummy0 up
ip address add 10.78.0.1/24 dev dummy0
exec linerate campaign run /data/pps.toml --json-lines >/dev/ttyS0",
    );
    // As it will be after each boot; the campaign begins with one, which may come before the answer.
    let begin = "setsid /data/boot </dev/null >>/data/boot.log 2>&1 &";
    let _ = a.try_run(begin, Duration::from_secs(30));
    let mut seen = 0;
    for cut in 0..cuts {
        // Some runs further, and then wherever it is: in a run, a write, a reboot.
        // Before each there may be a boot of the machine, which others may slow down much.
        wait_for(5 * LONG, || acknowledged(&lab).len() > seen + 1);
        std::thread::sleep(Duration::from_millis(cut * 731 % 1_900));
        a.power_cut();
        let told = acknowledged(&lab).len();
        println!("cut {cut}: {told} runs were acknowledged");
        assert!(told > seen, "no run was acknowledged");
        seen = told;
        a.power_on();
    }
    // A program that asks there would take three seconds of a core each time, as qemu translates all of it anew.
    let done = wait_for(5 * LONG, || console(&lab).contains(r#"{"event":"done"}"#));
    assert!(done, "{}", console(&lab));
    a.booted_again();
    let told = acknowledged(&lab);
    let stored: Vec<(u64, u64)> = runs_of(&a, "/data/pps.db")
        .iter()
        .filter(|run| run["state"] == "counted")
        .filter_map(|run| Some((run["slot"].as_u64()?, run["attempt"].as_u64()?)))
        .collect();
    let slots: BTreeSet<u64> = stored.iter().map(|(slot, _)| *slot).collect();
    assert_eq!(slots.len(), stored.len(), "a run is there twice: {stored:?}");
    assert_eq!(slots.len(), 2 * 2 * (1 + runs_a_cell), "the design is short: {stored:?}");
    for run in &told {
        assert!(stored.contains(run), "run {run:?} was acknowledged and is lost");
    }
    println!("{} runs, {} acknowledged, {cuts} cuts, none lost", stored.len(), told.len());
}
