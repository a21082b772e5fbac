//! `linerate sweep` against bottlenecks whose rate is known: a token bucket in a router, a slow
//! receiver, a slow sender; and all that can go wrong on the way.

use crate::support;
use linerate_testkit::peer::LONG;

use std::time::Duration;

use crate::support::{
    Client, Group, Lab, Ran, Server, Urgent, alone, linerate, list, number, real, says_busy,
    wait_for,
};
use nix::sys::signal::Signal;
use serde_json::Value;

const PORT: u16 = 5301;

/// A bucket counts Ethernet's header: what is left for 1472 bytes of payload.
fn payload_share(mbit: f64) -> f64 {
    mbit * 1e6 * 1_472.0 / 1_514.0
}

fn sweep(space: Option<&str>, line: &str) -> Ran {
    linerate(space, &["sweep"].into_iter().chain(line.split_whitespace()).collect::<Vec<_>>())
}

fn document(ran: &Ran, code: i32) -> Value {
    assert_eq!(ran.code, code, "{}\n{}", ran.err, ran.out);
    let document = ran.record();
    assert_eq!(document["kind"], "sweep");
    let listed: usize =
        list(&document["points"]).iter().map(|p| number(p, "trials") as usize).sum();
    assert!(listed <= list(&document["trials"]).len(), "points hold only trials");
    document
}

/// The border up to which a direction follows, if one was found.
fn knee<'a>(document: &'a Value, way: &str) -> Option<&'a Value> {
    let mut bends = list(&document["bends"]).iter();
    bends.find(|b| b["direction"] == way && b["from"] == "follows")
}

/// Whether a bracket is as narrow as was asked and no farther than 2 % from the truth.
fn brackets(bend: Option<&Value>, truth: f64, limit: &str) -> bool {
    let Some(bend) = bend else { return false };
    let (low, high) = (real(bend, "low"), real(bend, "high"));
    println!("{low} to {high}, truth {truth}, {}", bend["limit"]);
    bend["narrow"] == true
        && (high - low) / low <= 0.02 + 1e-9
        && low <= truth * 1.02
        && high >= truth * 0.98
        && bend["limit"] == limit
}

/// Both directions at once in one lab: 40 Mbit/s there, 90 Mbit/s back.
#[test]
#[ignore = "long"]
fn zoom_brackets_a_bottleneck_and_names_the_path() {
    let _alone = alone();
    if !Lab::possible("zoom_brackets_a_bottleneck_and_names_the_path") {
        return;
    }
    let lab = Lab::bottleneck(40, 90);
    let _urgent = Urgent::now();
    let _server = Server::on_port(Some(&lab.space("b")), PORT, &[]);
    let line = "10.77.2.2 -p 5301 --rates 8M..256M --both-ways --zoom -t 1s --json";
    let last = document(&sweep(Some(&lab.space("a")), line), 0);
    let there = brackets(knee(&last, "forward"), payload_share(40.0), "path");
    let back = brackets(knee(&last, "reverse"), payload_share(90.0), "path");
    // More than a bucket has comes of none, whoever has the cores.
    for point in list(&last["points"]) {
        let most = payload_share(if point["direction"] == "forward" { 40.0 } else { 90.0 });
        assert!(real(point, "received_bps") < most * 1.05, "{point}");
    }
    if !(there && back) {
        // It may have found the others' limit, and says that itself.
        assert!(says_busy(&last), "{:#}", last["bends"]);
        return;
    }
    for regime in list(&last["regimes"]) {
        assert!(!regime["text"].as_str().unwrap().is_empty());
    }
    let because = last["because"].to_string();
    assert!(because.contains("the path is the limit"), "{because}");
    assert!(!because.contains("sender is the limit"), "{because}");
}

/// A queue of megabytes before the bottleneck swallows what is too much for it, and nothing is lost
/// in a trial of a second; it is seen all the same.
#[test]
fn a_deep_queue_does_not_look_fast() {
    let _alone = alone();
    if !Lab::possible("a_deep_queue_does_not_look_fast") {
        return;
    }
    let lab = Lab::routed();
    let _urgent = Urgent::now();
    lab.run("r", "tc qdisc add dev right root tbf rate 40mbit burst 30000 limit 8000000");
    let _server = Server::on_port(Some(&lab.space("b")), PORT, &[]);
    let line = "10.77.2.2 -p 5301 --rates 45M -t 1s --json";
    let document = document(&sweep(Some(&lab.space("a")), line), 0);
    let point = &document["points"][0];
    assert!(real(point, "lost_ratio") < 0.01, "{point}");
    assert!(real(point, "undelivered_ratio") > 0.03, "{point}");
    assert_ne!(point["regime"], "follows");
    let by_others = point["limit"] == "other-work" && says_busy(&document);
    assert!(point["limit"] == "path" || by_others, "{point}");
    // Others may keep the kernel from emptying the bucket; more than it has comes of none.
    let share = real(point, "received_bps") / payload_share(40.0);
    assert!((0.5..1.05).contains(&share), "{share}: {point}");
}

/// One buffer of 4 KiB holds two datagrams: the receiver drops whatever comes while it sleeps.
#[test]
fn a_receiver_without_buffer_is_named() {
    let _alone = alone();
    if !Lab::possible("a_receiver_without_buffer_is_named") {
        return;
    }
    let lab = Lab::pair();
    let _urgent = Urgent::now();
    let _server = Server::on_port(Some(&lab.space("b")), PORT, &[]);
    let line = "10.77.1.2 -p 5301 --rates 1M,200M,800M -w 1Ki --burst 1ms -t 500ms --json";
    let last = document(&sweep(Some(&lab.space("a")), line), 0);
    let dropping = |p: &&Value| number(p, "dropped_receiver") > 0 && p["regime"] != "follows";
    let points = list(&last["points"]).iter().filter(dropping);
    let limits: Vec<&str> = points.filter_map(|p| p["limit"].as_str()).collect();
    assert!(!limits.is_empty(), "{:#}", last["points"]);
    // Where others had the receiver's core, at one rate or at all, that is what is said, and never the path.
    let because = last["because"].to_string();
    let said = |limit: &&str| match *limit {
        "other-work" => because.contains("other work"),
        limit => limit.starts_with("receiver") && because.contains("receiver"),
    };
    assert!(limits.iter().any(said), "{limits:?}: {because}");
    assert!(!limits.contains(&"path"), "{:#}", last["points"]);
    assert!(!because.contains("the path is the limit"), "{because}");
}

/// A receiver that gets 2 % of a core: it drops what comes while it may not run, and not the path.
#[test]
#[ignore = "long"]
fn a_receiver_without_time_is_the_limit() {
    const TEST: &str = "a_receiver_without_time_is_the_limit";
    let _alone = alone();
    if !Lab::possible(TEST) {
        return;
    }
    let (quota, period) = (Duration::from_millis(2), Duration::from_millis(100));
    let Some(little) = Group::of_cpu_time(TEST, quota, period) else { return };
    let lab = Lab::pair();
    // Before the client becomes urgent: what goes before all others has no such limit.
    let server = Server::on_port(Some(&lab.space("b")), PORT, &[]);
    little.hold(server.pid());
    let _urgent = Urgent::now();
    let line = "10.77.1.2 -p 5301 --rates 4M..512M --zoom --width 20% -l 256 -t 500ms --json";
    let last = document(&sweep(Some(&lab.space("a")), line), 0);
    println!("{:#} {:#}", last["bends"], last["because"]);
    // Beside others not even the least rate may arrive whole: then the first regime is what it does not carry.
    let border = knee(&last, "forward").or_else(|| list(&last["regimes"]).first());
    let limit = border.and_then(|border| border["limit"].as_str());
    let named = limit.is_some_and(|limit| limit.starts_with("receiver"));
    if !named && says_busy(&last) {
        return support::skip_busy(TEST, "others had the receiver's core");
    }
    assert!(named, "{:#}", last["points"]);
    let because = last["because"].to_string();
    assert!(because.contains("receiver"), "{because}");
    assert!(!because.contains("the path is the limit"), "{because}");
}

/// Both directions have the same values, so the last one is what the faster of the two senders sends.
#[test]
#[ignore = "long"]
fn both_ways_go_up_to_what_the_faster_sender_reaches() {
    let _alone = alone();
    if !Lab::possible("both_ways_go_up_to_what_the_faster_sender_reaches") {
        return;
    }
    let lab = Lab::pair();
    // Queues of the senders' own, which hold them back: 10 Mbit/s there, ten times as much back.
    lab.run("a", "tc qdisc add dev eth0 root tbf rate 10mbit burst 16k limit 4m");
    lab.run("b", "tc qdisc add dev eth0 root tbf rate 100mbit burst 64k limit 4m");
    let _server = Server::on_port(Some(&lab.space("b")), PORT, &[]);
    for (ways, most) in [("", false), ("--both-ways", true), ("-R", true)] {
        let line = format!("10.77.1.2 -p 5301 --rates 2M..max {ways} -w 64Ki -t 100ms --json");
        let document = document(&sweep(Some(&lab.space("a")), &line), 0);
        let values = list(&document["sweep"]["values"]);
        let end = values.last().and_then(Value::as_u64).unwrap();
        assert_eq!(end > 25_000_000, most, "{ways}: {values:?}");
    }
}

/// A datagram a call and small ones: the sender has no time left long before the path has no room.
#[test]
fn a_sender_at_its_end_is_named_and_not_driven_on() {
    let _alone = alone();
    if !Lab::possible("a_sender_at_its_end_is_named_and_not_driven_on") {
        return;
    }
    let lab = Lab::pair();
    let _urgent = Urgent::now();
    let _server = Server::on_port(Some(&lab.space("b")), PORT, &[]);
    let line = "10.77.1.2 -p 5301 --rates 4G..256G -l 64 --engine send -t 300ms --json";
    let document = document(&sweep(Some(&lab.space("a")), line), 0);
    let tried: Vec<u64> =
        list(&document["points"]).iter().map(|p| number(p, "asked_bps")).collect();
    assert!(tried.len() < 5, "it offered ever higher rates: {tried:?}");
    let because = document["because"].to_string();
    assert!(
        because.contains("were left out, because the sender never sent more than"),
        "{because}"
    );
    let mut drops = 0;
    for point in list(&document["points"]) {
        assert_ne!(point["regime"], "follows");
        assert!(real(point, "undelivered_ratio") > 0.5, "unsent counts as missing: {point}");
        drops += number(point, "dropped_receiver");
    }
    let texts = document["regimes"].to_string();
    assert!(!texts.contains("the path is the limit"), "{texts}");
    // Others may have either end's core, and the buffer of a receiver that they kept from its own overflows.
    let by_others = texts.contains("other work on the hosts is the limit")
        || drops > 0 && texts.contains("the receiver");
    assert!(texts.contains("the sender is the limit") || by_others, "{texts}");
}

#[test]
fn what_makes_no_sense_is_refused_before_any_packet() {
    for line in [
        "sweep h --rates 10M..1M",
        "sweep h --rates",
        "sweep h --rates fast",
        "sweep h --rates max",
        "sweep h --rates 1M..20T",
        "sweep h --rates 1M,2M --step 1M",
        "sweep h --rates 1M..1G --step 1k",
        "sweep h --rates 1M..1G --step 0",
        "sweep h --over rate=1M..2M",
        "sweep h --over size",
        "sweep h --over size=1472..64",
        "sweep h --over size=1..64",
        "sweep h --over size=64..mtu -l 100",
        "sweep h --over streams=1..8 -P 2",
        "sweep h --over streams=1..500",
        "sweep h --over window=1Mi..2Mi -w 1Mi",
        "sweep h --over size=64..mtu --rates 1M",
        "sweep h --rate 1M",
        "sweep h --width 5%",
        "sweep h --zoom --width 0.1%",
        "sweep h --zoom --width wide",
        "sweep h --repeat 0",
        "sweep h -t 50ms",
        "sweep h -R --both-ways",
        "sweep",
        "sweep h --resume nowhere.json",
        "sweep --resume nowhere.json",
        "sweep --resume Cargo.toml --rates 1M..2M",
        "sweep --resume Cargo.toml --zoom",
        "sweep --resume Cargo.toml --bind 127.0.0.1",
        "sweep --resume Cargo.toml",
    ] {
        let args: Vec<&str> = line.split_whitespace().chain(["--json"]).collect();
        let ran = linerate(None, &args);
        assert_eq!(ran.code, 2, "{line}: {}", ran.err);
        let object: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(object["error"]["exit_code"], 2, "{line}");
        assert!(!object["error"]["why"].as_str().unwrap().is_empty(), "{line}");
    }
    // A place that cannot be written is found before any packet, too.
    let ran = sweep(None, "h --save /proc/nowhere --json");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("cannot write to `/proc/nowhere`"), "{}", ran.err);
    // A server that is not there.
    let free = support::free_port();
    assert_eq!(sweep(None, &format!("127.0.0.1 -p {free} --json")).code, 3);
}

#[test]
fn a_sweep_that_was_kept_is_not_written_over() {
    let _alone = alone();
    let (dir, other) = (Dir::new("kept"), Dir::new("kept-other"));
    let line = format!("--local --rates 1M,2M -t 100ms --json --save {}", dir.path());
    let first = document(&sweep(None, &line), 0);
    let file = dir.0.join("sweep.json");
    let kept = std::fs::read(&file).unwrap();
    let ran = sweep(None, &line);
    assert_eq!(ran.code, 1, "{}", ran.out);
    let hint = format!("linerate sweep --resume {}", dir.path());
    assert!(ran.err.contains("another sweep") && ran.err.contains(&hint), "{}", ran.err);
    assert_eq!(std::fs::read(&file).unwrap(), kept);
    // Going on writes over its own, and over no other.
    let again = document(&sweep(None, &format!("--resume {} --json", dir.path())), 0);
    assert_eq!((&again["id"], &again["trials"]), (&first["id"], &first["trials"]));
    let line = format!("--local --rates 1M -t 100ms --json --save {}", other.path());
    document(&sweep(None, &line), 0);
    let ran = sweep(None, &format!("--resume {} --save {}", dir.path(), other.path()));
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("another sweep"), "{}", ran.err);
}

struct Dir(std::path::PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lr-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Self(dir)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a cut sweep leaves must be whole, and resuming it gives every trial once.
fn cut_and_resumed(name: &str, cut: impl FnOnce(&Client, Server) -> Option<Server>, codes: &[i32]) {
    let dir = Dir::new(name);
    let server = Server::start(None, &[]);
    let port = server.port.to_string();
    // Of sizes none is left out because a busy machine did not reach another. Of twelve trials no more than
    // seven end before somebody reads of them.
    let line = "--over size=100,200,400,600,800,1000 --rate 1M --repeat 2 --seed 7 -t 300ms";
    let line = format!("sweep 127.0.0.1 -p {port} {line} --json-lines --save {}", dir.path());
    let client = Client::unread(None, &line.split(' ').collect::<Vec<_>>());
    let kept = dir.0.join("sweep.json");
    assert!(wait_for(LONG, || {
        let text = std::fs::read_to_string(&kept).unwrap_or_default();
        serde_json::from_str::<Value>(&text).is_ok_and(|d| list(&d["trials"]).len() >= 3)
    }));
    let server = cut(&client, server);
    let ran = client.end();
    assert!(codes.contains(&ran.code), "{ran:?}");
    let last: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    let part = &last["document"];
    assert_eq!(part["status"], "partial");
    assert_eq!(part["error"]["exit_code"], ran.code);
    let known = list(&part["trials"]).len();
    assert!(known >= 3, "{known} trials");
    assert!(!list(&part["points"]).is_empty() && !list(&part["regimes"]).is_empty());
    let on_disk: Value = serde_json::from_str(&std::fs::read_to_string(&kept).unwrap()).unwrap();
    assert_eq!(on_disk["trials"], part["trials"]);
    // The command's own port is needed again.
    let _server = match server {
        Some(server) => server,
        None => Server::on_port(None, port.parse().unwrap(), &[]),
    };
    let whole = document(&sweep(None, &format!("--resume {} --json", dir.path())), 0);
    assert_eq!((whole["status"].as_str(), &whole["id"]), (Some("complete"), &part["id"]));
    let trials = list(&whole["trials"]);
    assert_eq!(trials[..known], list(&part["trials"])[..], "what was known is kept");
    // Two passes over six sizes, and what a busy machine made necessary beside.
    assert!(trials.len() >= 12 && trials.len() > known, "{} trials", trials.len());
    assert_eq!(list(&whole["points"]).len(), 6);
    // Every run's record is there, under the id that its point gives.
    for point in list(&whole["points"]) {
        for run in list(&point["runs"]) {
            let file = dir.0.join(format!("{}.json", run.as_str().unwrap()));
            let record: Value =
                serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            assert_eq!(record["asked"]["datagram_bytes"], point["value"]);
        }
    }
}

#[test]
fn ctrl_c_keeps_what_is_known() {
    let _alone = alone();
    cut_and_resumed(
        "sweep-cut",
        |client, server| {
            client.signal(Signal::SIGINT);
            Some(server)
        },
        &[130],
    );
}

/// Ctrl-C ends it while it reads; nobody ever writes to what it reads.
#[test]
fn a_pipe_that_nobody_writes_is_no_trap() {
    let pipe = std::env::temp_dir().join(format!("linerate-sweep-{}.pipe", std::process::id()));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let client = Client::start(None, &["sweep", "--resume", pipe.to_str().unwrap()]);
    // It opens only once somebody has opened it to read.
    let open = || {
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            std::fs::OpenOptions::new().write(true),
            nix::fcntl::OFlag::O_NONBLOCK.bits(),
        )
        .open(&pipe)
    };
    let mut held = None;
    assert!(wait_for(LONG, || {
        held = open().ok();
        held.is_some()
    }));
    // Nothing is installed yet, and a shell that runs tests in the background has them ignore SIGINT.
    client.signal(Signal::SIGTERM);
    let ran = client.end();
    std::fs::remove_file(&pipe).unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (-1, ""), "ended by the signal: {}", ran.err);
}

#[test]
fn a_lost_server_keeps_what_is_known() {
    let _alone = alone();
    let kill = |_: &Client, server: Server| {
        drop(server);
        None
    };
    // Killed in a trial it is lost, between two it is not there.
    cut_and_resumed("sweep-lost", kill, &[1, 3]);
}

#[test]
fn all_forms_of_output_say_the_same() {
    let _alone = alone();
    let line = "--local --rates 1M,2M,4M -t 200ms --seed 3";
    let text = sweep(None, line);
    assert_eq!(text.code, 0, "{}", text.err);
    for words in ["asked", "received", "took"] {
        assert!(text.out.contains(words), "{words}: {}", text.out);
    }
    assert!(!text.out.contains('\u{1b}'), "no colour in a pipe");
    let lines = sweep(None, &format!("{line} --json-lines"));
    let events: Vec<Value> = lines.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|e| e["event"].as_str().unwrap()).collect();
    // A trial that other work spoiled is made again, and rates above what a host without time sends are left out.
    let ["start", trials @ .., "end"] = &names[..] else { panic!("{names:?}") };
    assert!(trials.iter().all(|name| *name == "trial"), "{names:?}");
    let document = &events.last().unwrap()["document"];
    assert_eq!(document["sweep"]["seed"], 3);
    assert!((1..=trials.len()).contains(&list(&document["points"]).len()), "{document}");
}

#[test]
fn the_paths_own_size_ends_a_sweep_of_sizes() {
    let _alone = alone();
    let line = "--local --over size=1000..mtu --rate 5M -t 200ms --json";
    let document = document(&sweep(None, line), 0);
    let sizes: Vec<u64> = list(&document["points"]).iter().map(|p| number(p, "value")).collect();
    assert_eq!(sizes.first(), Some(&1_000));
    // Loopback: 65,536 less 28, and no more than a datagram may have.
    assert_eq!(sizes.last(), Some(&65_507), "{sizes:?}");
    assert!(sizes.is_sorted());
}
