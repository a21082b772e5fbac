//! linerate under iperf3's name beside iperf3's own client, in one run against the same server: a real
//! iperf3, `linerate serve` and `linerate iperf3 -s`. What is compared holds on a machine of any speed:
//! received beside sent within one document, time beside agreed time, and what one member of the
//! document says of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_testkit::peer::LONG;

use serde_json::Value;

use super::{Real, face, listener, possible, unless_busy};
use crate::support::iperf3::{Face, Iperf3};
use crate::support::{Lab, Server, alone, linerate, number, real, together, wait_for};

/// The usual ones, of which none asks for more than a busy machine can do. Without `-N` the kernel keeps back
/// small blocks for 40 ms, also the last.
const LINES: [&str; 10] = [
    "-u -b 4M -l 500 -t 3",
    "-u -b 4M -l 500 -t 3 -R",
    "-u -b 2M -l 500 -t 3 -P 4",
    "-u -b 4M -l 500 -t 3 --bidir",
    "-u -b 4M -l 500 -n 1M",
    "-u -b 4M/20 -l 500 -t 3",
    "-b 20M -l 8K -t 3 -N",
    "-b 10M -l 8K -t 3 -R -N",
    "-b 5M -l 8K -t 3 -P 2 -N --bidir",
    "-b 20M -l 8K -n 6M -N",
];

/// What both clients run against, one after the other.
enum Far {
    Iperf3(Real),
    Serve(Server),
    Face(Face),
}

impl Far {
    fn start(kind: &str) -> Self {
        match kind {
            "iperf3" => Self::Iperf3(Real::lasting(None, &[])),
            "serve" => Self::Serve(Server::start(None, &[])),
            _ => Self::Face(Face::start("")),
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Iperf3(server) => server.port,
            Self::Serve(server) => server.port,
            Self::Face(server) => server.port,
        }
    }
}

const KINDS: [&str; 3] = ["iperf3", "serve", "face"];

/// Half a percent.
const NEAR: f64 = 0.005;
/// Shortest of the tests, seconds.
const SHORTEST_S: f64 = 2.0;

/// How long a thread that wanted to run had to wait while a test ran: what makes a machine's times uncertain,
/// whatever is measured on it.
struct Lag {
    stop: Arc<AtomicBool>,
    probe: JoinHandle<Duration>,
}

impl Lag {
    fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let probe = std::thread::spawn(move || {
            let (mut most, nap) = (Duration::ZERO, Duration::from_millis(1));
            while !seen.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(nap);
                most = most.max(begun.elapsed().saturating_sub(nap));
            }
            most
        });
        Self { stop, probe }
    }

    /// What may lie between two clocks' readings of one test, as a share of it: half a percent, and on a
    /// busy machine as long as each of two threads may have been kept waiting at either end.
    fn end(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let lag = self.probe.join().expect("a probe");
        let quiet = Duration::from_millis(2);
        NEAR + 4.0 * lag.saturating_sub(quiet).as_secs_f64() / SHORTEST_S
    }
}

fn near(what: &str, one: f64, other: f64, allowed: f64) -> Result<(), String> {
    let far = (one - other).abs() > allowed * one.abs().max(other.abs());
    if far { Err(format!("{what}: {one} and {other}, allowed {allowed:.3}")) } else { Ok(()) }
}

/// Name endings of the directions in a document.
fn ways(line: &str) -> &'static [&'static str] {
    if line.contains("--bidir") { &["", "_bidir_reverse"] } else { &[""] }
}

/// What the members of iperf3's documents say of each other, whatever was measured.
fn same_story(line: &str, document: &Value) {
    assert!(document["error"].is_null(), "{line}: {}", document["error"]);
    for way in ways(line) {
        let member = |name: &str| &document["end"][format!("{name}{way}")];
        let exact = |what: &str, one: f64, other: f64| {
            assert!((one - other).abs() <= 1e-6 * one.abs(), "{line}: {what}: {one} and {other}");
        };
        let (sent, received) = (member("sum_sent"), member("sum_received"));
        for half in [sent, received] {
            let rate = 8.0 * real(half, "bytes") / real(half, "seconds");
            exact("a rate is bytes over time", real(half, "bits_per_second"), rate);
            exact("the end is the time", real(half, "end"), real(half, "seconds"));
        }
        if line.contains("-u") {
            let sum = member("sum");
            exact("time of sum", real(sum, "seconds"), real(received, "seconds"));
            exact("bytes of sum", real(sum, "bytes"), real(sent, "bytes"));
            exact("rate of sum", real(sum, "bits_per_second"), real(sent, "bits_per_second"));
            for name in ["lost_packets", "jitter_ms"] {
                exact(name, real(sum, name), real(received, name));
            }
        }
    }
}

/// Each direction's received rate over the sent one, less what was lost: what the receiver's time is to
/// the sender's.
fn shares(line: &str, document: &Value) -> Vec<f64> {
    same_story(line, document);
    let mut shares = Vec::new();
    for way in ways(line) {
        let sent = &document["end"][format!("sum_sent{way}")];
        let received = &document["end"][format!("sum_received{way}")];
        let arrived = real(received, "bytes") / real(sent, "bytes");
        let share = real(received, "bits_per_second") / real(sent, "bits_per_second");
        shares.push(share / arrived);
    }
    shares
}

/// Rates of the rows that end in `name`, in the order printed, and what share arrived; with `-f k` they
/// have five digits.
fn rates(text: &str, name: &str) -> Vec<(f64, f64)> {
    let rate = |row: &str| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let unit = words.iter().position(|word| *word == "Kbits/sec")?;
        let rate: f64 = words.get(unit.checked_sub(1)?)?.parse().ok()?;
        let of = words.iter().skip(unit + 1).find_map(|word| word.split_once('/'));
        let lost =
            of.and_then(|(lost, all)| Some(lost.parse::<f64>().ok()? / all.parse::<f64>().ok()?));
        Some((rate, 1.0 - lost.unwrap_or(0.0)))
    };
    text.lines().filter(|line| line.trim_end().ends_with(name)).filter_map(rate).collect()
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn compare(kind: &str, line: &str) -> Result<(), String> {
    let far = Far::start(kind);
    let port = far.port();
    let what = format!("{line} against {kind}");
    let lag = Lag::begin();
    let (code, out, err) = face(None, &format!("-c 127.0.0.1 -p {port} {line} -J"));
    let theirs = Iperf3::here("127.0.0.1", port, &format!("{line} -J")).end();
    let (text_code, text, text_err) = face(None, &format!("-c 127.0.0.1 -p {port} {line} -f k"));
    let allowed = lag.end();
    // A server of iperf3 may turn away who comes while it puts the last test away.
    if (code, theirs.code, text_code) != (Some(0), 0, Some(0)) {
        return Err(format!("{what}: {out}{err}{}{text}{text_err}", theirs.text));
    }
    let (ours, theirs) = (shares(line, &document(&out)), shares(line, &theirs.document()));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        near(&format!("{what}: received beside sent"), *ours, 1.0, allowed)?;
        near(&format!("{what}: ours and iperf3's own"), *ours, *theirs, allowed)?;
    }
    let (sent, received) = (rates(&text, "sender"), rates(&text, "receiver"));
    assert!(!sent.is_empty() && sent.len() == received.len(), "{what}: {text}");
    for (sent, received) in sent.iter().zip(&received) {
        near(&format!("{what}: rows"), sent.0 * received.1, received.0, allowed)?;
    }
    // A client that waits for stragglers does not make the server's test longer.
    let not_time = ["-R", "--bidir", "-n"].iter().any(|word| line.contains(word));
    if let (Far::Face(server), false) = (&far, not_time) {
        let text = server.text();
        let rows: Vec<&str> = text.lines().filter(|row| row.ends_with("receiver")).collect();
        assert!(rows.len() >= 3, "{text}");
        for row in rows {
            let end = row.split("0.00-").nth(1).and_then(|rest| rest.split(' ').next());
            let end = end.and_then(|end| end.parse().ok()).unwrap_or(0.0);
            near(&format!("{what}: {row}"), end, 3.0, allowed)?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "long"]
fn received_is_what_iperf3_says_of_it() {
    let _alone = alone();
    if !possible("received_is_what_iperf3_says_of_it") {
        return;
    }
    let cases: Vec<(&str, &str)> =
        KINDS.iter().flat_map(|kind| LINES.map(|line| (*kind, line))).collect();
    together(&cases, |(kind, line)| {
        unless_busy(&format!("{line} against {kind}"), || compare(kind, line));
    });
}

/// By how many seconds a test's receiving is longer than its sending.
fn stretched(kind: &str, line: &str) -> f64 {
    let far = Far::start(kind);
    let line = format!("-c 127.0.0.1 -p {} {line} -J", far.port());
    let (_, out, _) = face(None, &line);
    let document = document(&out);
    same_story(&format!("{line} against {kind}"), &document);
    let seconds = |name: &str| real(&document["end"][name], "seconds");
    seconds("sum_received") - seconds("sum_sent")
}

/// A megabyte that takes a millisecond was not received for the time of the wait after it.
#[test]
fn a_short_test_is_not_stretched_by_the_wait() {
    let _alone = alone();
    if !possible("a_short_test_is_not_stretched_by_the_wait") {
        return;
    }
    let lines = ["-n 1M", "-n 1M -P 2", "-u -b 0 -l 1000 -n 100K"];
    let cases: Vec<(&str, &str)> =
        KINDS.iter().flat_map(|kind| lines.map(|line| (*kind, line))).collect();
    together(&cases, |(kind, line)| {
        // Others lengthen a test now and then; the wait of 50 ms would be in each.
        let is_short = wait_for(LONG, || stretched(kind, line) < 0.03);
        assert!(is_short, "{line} against {kind}: 30 ms and more each time");
    });
}

/// What stands in buffers and queues when sending ends arrives later, and has its time: nothing is received
/// faster than the path carries.
#[test]
#[ignore = "long"]
fn what_drains_after_the_end_has_its_time() {
    let _alone = alone();
    let test = "what_drains_after_the_end_has_its_time";
    if !possible(test) || !Lab::possible(test) {
        return;
    }
    for ours in [false, true] {
        for line in
            ["-w 200K -t 2", "-w 200K -t 2 -R", "-u -b 12M -l 1000 -t 3", "-u -b 12M -l 1000 -n 4M"]
        {
            let lab = Lab::pair();
            for end in ["a", "b"] {
                lab.run(end, "tc qdisc add dev eth0 root tbf rate 10mbit burst 16k limit 4m");
            }
            let space = lab.space("b");
            let (_server, port) = if ours {
                let server = lab.serve();
                let port = server.port;
                (Far::Serve(server), port)
            } else {
                let server = Real::start(Some(&space), &[]);
                let port = server.port;
                (Far::Iperf3(server), port)
            };
            let line = format!("-c 10.77.1.2 -p {port} {line} -J");
            let (code, out, err) = face(Some(&lab.space("a")), &line);
            assert_eq!(code, Some(0), "{line}: {out}{err}");
            let end = &document(&out)["end"];
            for rate in [
                real(end, "sum_received.bits_per_second"),
                real(end, "linerate.totals.receiver.bits_per_second"),
            ] {
                assert!(
                    rate > 1e6 && rate < 10e6,
                    "{line}, ours {ours}: {rate} of 10 Mbit/s: {end}"
                );
            }
        }
    }
}

/// linerate's own record of a test against any of these servers.
#[test]
#[ignore = "long"]
fn the_record_says_the_same() {
    let _alone = alone();
    if !possible("the_record_says_the_same") {
        return;
    }
    let lines = [
        "udp -b 4M -l 500 -t 2s",
        "udp -b 4M -l 500 -t 2s -R",
        "tcp -b 20M -l 8Ki -t 2s -N",
        "udp -b 4M -l 500 -n 1M",
    ];
    let cases: Vec<(&str, &str)> =
        KINDS.iter().flat_map(|kind| lines.map(|line| (*kind, line))).collect();
    together(&cases, |(kind, line)| {
        unless_busy(&format!("{line} against {kind}"), || {
            let far = Far::start(kind);
            let port = far.port().to_string();
            let mut words: Vec<&str> = line.split(' ').collect();
            words.extend(["--dialect", "iperf3", "-p", &port, "--json"]);
            words.insert(1, "127.0.0.1");
            let lag = Lag::begin();
            let totals = &linerate(None, &words).record()["totals"];
            let allowed = lag.end();
            let arrived = number(totals, "receiver.bytes") as f64 / real(totals, "sender.bytes");
            let (sent, received) =
                (real(totals, "sender.bits_per_second"), real(totals, "receiver.bits_per_second"));
            near(&format!("{line}: received"), received, sent * arrived, allowed)
        });
    });
}

/// `-b rate/n`: this end's own sender hands over n at once, and no more than the rate.
#[test]
fn a_burst_leaves_at_once() {
    let _alone = alone();
    if !possible("a_burst_leaves_at_once") {
        return;
    }
    let server = Real::start(None, &[]);
    let line = format!("-c 127.0.0.1 -p {} -u -b 2M/20 -l 1000 -t 2 -J", server.port);
    let (_, out, _) = face(None, &line);
    let document = document(&out);
    let sender = &document["end"]["linerate"]["totals"]["sender"];
    // 20 datagrams of 4 ms: longer than others keep the sender from its core.
    assert_eq!(number(sender, "pacing.gap_nominal_ns"), 80_000_000, "{sender}");
    // A busy machine gives some up, but never sends faster than one burst too much.
    assert!(number(sender, "datagrams") <= 520, "{sender}");
    // What is late follows at twice the rate at most.
    let gap = number(sender, "pacing.gap_p50_ns");
    assert!(gap > 30_000_000, "{gap} ns between calls");
}

/// An iperf3 server that one client asked for its output gives it to each after that.
#[test]
fn the_servers_output_is_shown_to_who_asked() {
    let _alone = alone();
    if !possible("the_servers_output_is_shown_to_who_asked") {
        return;
    }
    let server = Real::lasting(None, &[]);
    let line = format!("-c 127.0.0.1 -p {} -t 1 -b 5M", server.port);
    let listening = || listener(server.child.id(), server.port);
    // It opens its port anew once it has seen the last client leave: who comes before is turned away.
    let face = |line: &str| {
        let before = listening();
        let ran = face(None, line);
        let anew = || listening().is_some_and(|now| Some(now) != before);
        assert!(wait_for(LONG, anew), "{line}: it listens no more");
        ran
    };
    let (_, asked, _) = face(&format!("{line} --get-server-output"));
    assert!(asked.contains("\nServer output:\n"), "{asked}");
    let (code, out, _) = face(&line);
    assert!(code == Some(0) && !out.contains("Server output"), "{out}");
    let (_, out, _) = face(&format!("{line} -J"));
    let document = document(&out);
    assert!(document.get("server_output_text").is_none(), "{out}");
}
