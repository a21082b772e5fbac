//! Every kind of test over loopback, as a user starts it: exact counts, and the identities worked
//! out from the record.

use crate::schema;
use crate::support;

use std::time::{Duration, Instant};

use crate::support::{
    Client, Group, Ran, Server, alone, identities, linerate, list, number, real, wait_for,
};
use linerate_testkit::peer::LONG;
use nix::sys::signal::Signal;
use serde_json::Value;

/// A test against a server of its own process, short where no end is given.
fn local(line: &str) -> Ran {
    let mut args: Vec<&str> = line.split_whitespace().collect();
    args.extend(["--local", "--json"]);
    linerate(None, &args)
}

#[test]
fn udp_directions_streams_and_engines() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let port = server.port.to_string();
    for line in [
        "udp 127.0.0.1 -b 5M -t 300ms -i 100ms",
        "udp 127.0.0.1 -b 5M -t 300ms -R",
        "udp 127.0.0.1 -b 5M -t 300ms --both -i 100ms",
        "udp 127.0.0.1 -b 6M -t 300ms -P 3",
        "udp 127.0.0.1 -b 6M -t 300ms -P 2 --both",
        "udp 127.0.0.1 -b 5M -t 300ms --engine send",
        "udp 127.0.0.1 -b 5M -t 300ms --engine mmsg",
        "udp 127.0.0.1 -b 5M -t 300ms --engine gso",
        "udp 127.0.0.1 -b 5M -t 300ms --engine gso -R -P 2",
        "udp 127.0.0.1 -b 5M -t 300ms --no-checksum",
        "udp 127.0.0.1 -b 2kpps -t 300ms -l 32",
        "udp 127.0.0.1 -b 20M -t 300ms -l 65507",
        "udp 127.0.0.1 -b 5M -t 300ms -O 200ms",
        "udp 127.0.0.1 -b max -t 300ms",
        "udp 127.0.0.1 -b max -t 300ms -R",
    ] {
        println!("{line}");
        let args: Vec<&str> = line.split_whitespace().chain(["-p", &port, "--json"]).collect();
        let record = linerate(None, &args).complete();
        assert_eq!(record["agreed"]["dialect"], "native");
        let engine = record["agreed"]["engine"].as_str().unwrap();
        if let Some(asked) = line.split("--engine ").nth(1) {
            assert_eq!(Some(engine), asked.split(' ').next());
        }
    }
}

#[test]
fn udp_over_ipv6() {
    let _alone = alone();
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        support::skip("udp_over_ipv6", "::1 is not there");
        return;
    }
    for line in ["udp -6 -b 5M -t 300ms", "udp -6 -R -b 5M -t 300ms", "tcp -6 -t 300ms"] {
        let record = local(line).complete();
        assert_eq!(record["agreed"]["ip"], 6, "{line}");
    }
    let ran = local("udp -6 --no-checksum -t 300ms");
    assert!(ran.code == 2 || ran.code == 3, "{ran:?}");
    let record = ran.record();
    let why = record["error"]["why"].as_str().unwrap();
    assert!(why.contains("checksum"), "{why}");
}

#[test]
fn counts_are_exact() {
    let _alone = alone();
    for (line, datagrams, bytes) in [
        ("udp -b 5M -k 1", 1, 1_472),
        ("udp -b 20M -k 1000", 1_000, 1_472_000),
        ("udp -b 20M -k 1001 -P 3", 1_001, 1_001 * 1_472),
        ("udp -b 20M -k 997 --engine gso", 997, 997 * 1_472),
        ("udp -b max -k 1234 --engine gso", 1_234, 1_234 * 1_472),
        ("udp -b max -k 1234 --engine mmsg -R", 1_234, 1_234 * 1_472),
        ("udp -b 20M -k 500 --both", 500, 500 * 1_472),
        // The last one carries what is left.
        ("udp -b 20M -n 100000 -l 1000", 100, 100_000),
        ("udp -b 20M -n 100033 -l 1000", 101, 100_033),
        ("udp -b 20M -n 100033 -l 1000 --engine gso", 101, 100_033),
        ("udp -b max -n 99999 -l 700 -P 2 -R", 144, 99_999),
    ] {
        println!("{line}");
        let record = local(line).complete();
        let pairs: &[&str] = if line.contains("--both") {
            &["totals.forward", "totals.reverse"]
        } else {
            &["totals"]
        };
        for pair in pairs {
            assert_eq!(number(&record, &format!("{pair}.sender.datagrams")), datagrams, "{line}");
            assert_eq!(number(&record, &format!("{pair}.sender.bytes")), bytes, "{line}");
            let lost = number(&record, &format!("{pair}.receiver.lost"));
            if lost == 0 {
                assert_eq!(number(&record, &format!("{pair}.receiver.bytes")), bytes, "{line}");
            }
        }
    }
}

#[test]
fn what_is_left_below_a_header_is_still_exact() {
    let _alone = alone();
    // 7 bytes more than a hundred datagrams: no datagram is below 32 bytes, the sum is exact.
    let record = local("udp -b 20M -n 100007 -l 1000").complete();
    assert_eq!(number(&record, "totals.sender.bytes"), 100_007);
    assert_eq!(number(&record, "totals.receiver.bytes"), 100_007);
}

#[test]
fn warm_up_is_counted_apart() {
    let _alone = alone();
    let record = local("udp -b 10M -O 400ms -t 400ms -i 100ms").complete();
    assert_eq!(list(&record["intervals"]).len(), 4);
    let most = 10e6 / 8.0 * 0.4 + 20.0 * 1_472.0;
    assert!((number(&record, "totals.sender.bytes") as f64) < most, "warm-up is in the totals");
}

/// The record of a test that moved something. Others may have the cores for all the time of as short a one, which its
/// record says: then it is run again.
fn moved(line: &str, figure: &str) -> Value {
    println!("{line}");
    let mut record = Value::Null;
    let judged = wait_for(LONG, || {
        record = local(line).complete();
        let is_busy = list(&record["doubts"]).iter().any(|doubt| doubt["kind"] == "host-busy");
        number(&record, figure) > 0 || !is_busy
    });
    assert!(judged && number(&record, figure) > 0, "{line}: {record}");
    record
}

#[test]
fn tcp_in_every_form() {
    let _alone = alone();
    for line in [
        "tcp -t 300ms -i 100ms",
        "tcp -t 300ms -R",
        "tcp -t 300ms --both",
        "tcp -t 300ms -P 3",
        "tcp -t 300ms -P 2 --both -i 100ms",
        "tcp -t 300ms --rx copy",
        "tcp -t 300ms --tx sendfile",
        "tcp -t 300ms -b 50M -N",
        "tcp -t 300ms -b 8M -P 16 -R",
        "tcp -t 300ms -O 200ms",
        "tcp -t 300ms -C reno -M 1000",
    ] {
        let side = if line.contains("--both") { "totals.forward" } else { "totals" };
        moved(line, &format!("{side}.receiver.bytes"));
    }
    for (line, bytes) in [
        ("tcp -n 1", 1),
        ("tcp -n 1000003", 1_000_003),
        ("tcp -n 1000003 -R", 1_000_003),
        ("tcp -n 1000003 -P 3", 1_000_003),
        ("tcp -n 1000003 --rx copy", 1_000_003),
        ("tcp -n 1000003 --tx sendfile", 1_000_003),
    ] {
        println!("{line}");
        let record = local(line).complete();
        for end in ["sender", "receiver"] {
            assert_eq!(number(&record, &format!("totals.{end}.bytes")), bytes, "{line} {end}");
        }
    }
}

#[test]
fn rr_in_every_form() {
    let _alone = alone();
    for line in [
        "rr -t 300ms -i 100ms",
        "rr -t 300ms --udp",
        "rr -t 300ms --outstanding 8",
        "rr -t 300ms --udp --outstanding 8",
        "rr -t 300ms --rate 500",
        "rr -t 300ms --udp --rate 500",
        "rr -t 300ms --request 100 --response 20000",
        "rr -t 300ms --udp --request 1400 --response 1000",
        "rr -t 300ms -P 2 -O 200ms",
    ] {
        let record = moved(line, "totals.rr.transactions");
        let rr = &record["totals"]["rr"];
        let finished = number(rr, "latency_s.count") - number(rr, "unfinished");
        assert_eq!(finished, number(rr, "transactions"), "{line}");
        assert!(real(rr, "latency_s.p50") <= real(rr, "latency_s.max"));
    }
    let record = local("rr -t 500ms --rate 200").complete();
    let rr = &record["totals"]["rr"];
    // On a busy host some are under way when the time is over.
    let open = rr["unfinished"].as_u64().unwrap_or(0) + rr["unanswered"].as_u64().unwrap_or(0);
    let n = number(rr, "transactions") + open;
    assert!((99..=101).contains(&n), "200 a second for half a second, not {n}");
}

#[test]
fn a_stall_at_the_end_is_in_an_open_loops_quantiles() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let port = server.port.to_string();
    let base = ["rr", "127.0.0.1", "-p", &port, "--json", "-t", "3s", "--rate", "500"];
    let cases = [&[][..], &["--udp", "--request", "8", "--response", "8"]];
    for (n, more) in (1..).zip(cases) {
        let client = Client::start(None, &[&base[..], more].concat());
        server.says("started", n);
        // The stall lasts beyond the end of the test, which has begun now, also where it begins a second late, and is too
        // short for a server that is lost, also where it ends a second late.
        server.carries(10_000);
        let over = Instant::now() + Duration::from_secs(3);
        std::thread::sleep(Duration::from_millis(1_600));
        server.signal(Signal::SIGSTOP);
        std::thread::sleep(over.saturating_duration_since(Instant::now()));
        server.signal(Signal::SIGCONT);
        let record = client.end().complete();
        let rr = &record["totals"]["rr"];
        let unanswered = rr["unanswered"].as_u64().unwrap_or(0);
        let (done, unfinished) = (number(rr, "transactions"), number(rr, "unfinished"));
        println!("{done} + {unfinished} + {unanswered}, p99 {}", real(rr, "latency_s.p99"));
        // Each request that was due is somewhere, and what took long is among the quantiles.
        assert_eq!(done + unfinished + unanswered, 1_500);
        assert!(unfinished + unanswered > 100, "{rr}");
        assert_eq!(number(rr, "latency_s.count"), done + unfinished);
        assert!(unanswered > 0 || real(rr, "latency_s.p99") > 0.1, "{rr}");
        assert!(real(rr, "transactions_per_second") < 467.0, "{rr}");
    }
}

#[test]
fn the_record_fits_the_schema() {
    let _alone = alone();
    let out = linerate(None, &["schema"]);
    let schema: serde_json::Value = serde_json::from_str(&out.out).unwrap();
    for line in ["udp -b 5M -t 200ms --both", "tcp -t 200ms", "rr -t 200ms"] {
        let record = local(line).complete();
        schema::validate(&schema, &record).unwrap_or_else(|e| panic!("{line}: {e}"));
    }
}

#[test]
#[ignore = "long"]
fn sweeps_and_searches_fit_their_schemas() {
    let _alone = alone();
    let goal = "--max 5M --goal loss=50%,time=100ms,sum=300ms";
    for (document, line) in [
        ("sweep", "sweep --rates 1M..4M --zoom -t 100ms".to_owned()),
        ("sweep", "sweep --over streams=1..2 --rate 4M -t 100ms".to_owned()),
        ("search", format!("search {goal} --shape")),
        ("search", format!("search {goal} --ci=50% --max-time 3s")),
        ("search", format!("search {goal} --goal loss=50%,delay-p99=1s,time=100ms --repeat 2")),
        ("search", format!("search {goal} --max-time 1ms")),
    ] {
        let out = linerate(None, &["schema", document]);
        let schema: serde_json::Value = serde_json::from_str(&out.out).unwrap();
        let ran = local(&line);
        let found = ran.record();
        assert_eq!(found["kind"], document, "{line}: {}", ran.err);
        schema::validate(&schema, &found).unwrap_or_else(|e| panic!("{line}: {e}"));
        let mut spoiled = found.clone();
        spoiled["trials"][0]["direction"] = 7.into();
        spoiled["trials"][0]["purpose"] = 7.into();
        assert!(schema::validate(&schema, &spoiled).is_err(), "{line}");
    }
}

#[test]
fn json_lines_tell_every_interval_and_end_with_the_record() {
    let _alone = alone();
    for line in ["udp -b 5M", "udp -b 5M -R", "udp -b 5M --both", "tcp", "rr"] {
        let mut args: Vec<&str> = line.split_whitespace().collect();
        args.extend(["--local", "--json-lines", "-t", "600ms", "-i", "100ms"]);
        let ran = linerate(None, &args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let objects: Vec<serde_json::Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(objects[0]["event"], "start");
        let end = objects.last().unwrap();
        assert_eq!(end["event"], "end");
        identities(&end["record"]);
        let spans = |rows: &[serde_json::Value]| -> Vec<String> {
            rows.iter().map(|i| format!("{} {}", i["start_s"], i["end_s"])).collect()
        };
        let told: Vec<_> = objects[1..objects.len() - 1].to_vec();
        assert!(told.iter().all(|o| o["event"] == "interval"), "{line}");
        assert_eq!(spans(&told), spans(list(&end["record"]["intervals"])), "{line}");
    }
}

#[test]
fn text_goes_to_stdout_and_progress_to_stderr() {
    let _alone = alone();
    let ran = linerate(None, &["udp", "--local", "-b", "5M", "-t", "300ms", "-i", "100ms"]);
    assert_eq!(ran.code, 0);
    assert!(!ran.out.contains('\u{1b}'), "no colours into a pipe");
    assert!(ran.out.lines().any(says_a_limit), "{}", ran.out);
}

/// What limited a test, or that nothing shows it: of one that others kept from its cores for most of its short time.
fn says_a_limit(line: &str) -> bool {
    line.starts_with("limited by ") || line.starts_with("what limited it could not be shown")
}

#[test]
fn the_answer_is_last_and_may_stand_alone() {
    let _alone = alone();
    for line in [&["udp", "-b", "5M"][..], &["tcp", "-b", "5M"], &["rr"]] {
        let run = |more: &[&str]| {
            let mut args = line.to_vec();
            args.extend(["--local", "-t", "300ms", "-i", "100ms"]);
            args.extend(more);
            let ran = linerate(None, &args);
            assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
            ran.out
        };
        let (quiet, usual, all) = (run(&["-q"]), run(&[]), run(&["--verbose"]));
        let first = quiet.lines().next().unwrap();
        assert!(first.contains(if line[0] == "rr" { "transactions/s" } else { "received" }));
        assert!(!quiet.contains("total") && quiet.lines().count() <= 3, "{quiet}");
        // Sentences have no numbers that are the same in another run, their beginnings are.
        for text in [&usual, &all] {
            let answer: Vec<&str> = text.rsplit_once("\n\n").unwrap().1.lines().collect();
            assert!(answer.iter().any(|line| says_a_limit(line)), "{text}");
            assert!(text.contains("\ntotal"), "{text}");
        }
        assert!(usual.contains("\nnote: ") && !usual.contains("one kernel"), "{usual}");
        assert!(all.contains("one kernel"), "{all}");
    }
    for form in ["--json", "--json-lines", "--verbose"] {
        assert_eq!(linerate(None, &["udp", "--local", "-q", form]).code, 2, "{form}");
    }
}

#[test]
fn discard_needs_nobody() {
    let _alone = alone();
    let args = ["udp", "127.0.0.1", "--send-only", "-p", "9", "-k", "1000", "-b", "20M", "--json"];
    let ran = linerate(None, &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let record = ran.record();
    assert_eq!(number(&record, "totals.sender.attempted"), 1_000);
    assert!(record["totals"]["receiver"].is_null());
}

/// The figure of every row must enclose that of the totals, because the rows span the same time. False where no row has
/// one, which on a busy host may be, though not each time.
fn within_its_rows(record: &serde_json::Value, figures: &str) -> bool {
    let rows = list(&record["intervals"]);
    assert!(rows.len() > 2, "{record}");
    let cpu = |value: &serde_json::Value, figure: &str| {
        figures.split('.').fold(value, |value, key| &value[key])[figure].as_f64()
    };
    let core = |value: &serde_json::Value| cpu(value, "core");
    for figure in ["thread_percent", "core_percent"] {
        let of_rows: Vec<f64> = rows.iter().filter_map(|row| cpu(row, figure)).collect();
        // In a row in which the thread got no core it has no figure.
        let same =
            |row: &&serde_json::Value| core(row).is_none() || core(row) == core(&record["totals"]);
        assert!(rows.iter().all(|row| same(&row)), "{record}");
        if of_rows.is_empty() {
            return false;
        }
        if figure == "core_percent" && of_rows.len() < rows.len() {
            // Nor has it one in a row of which the kernel did not tell its counters in time; the total has that time as well.
            continue;
        }
        let total = cpu(&record["totals"], figure).unwrap();
        let least = of_rows.iter().copied().fold(100.0, f64::min);
        let most = of_rows.iter().copied().fold(0.0, f64::max);
        // A hundredth of rounding, and a thread's clock that is read beside the span.
        assert!(
            (least - 2.0..=most + 2.0).contains(&total),
            "{figures} {figure} {total} outside of {of_rows:?}"
        );
    }
    true
}

#[test]
fn cpu_figures_of_the_totals_are_over_the_time_of_the_rows() {
    let _alone = alone();
    let cores = support::cores();
    let (first, last) = (cores.first().unwrap(), cores.last().unwrap());
    for line in [
        // With loss, the receiver waits for stragglers long after the last datagram.
        "udp -b max -t 400ms -i 100ms --window 64k",
        "udp -b 5M -t 400ms -i 100ms -R -O 200ms",
        "tcp -t 400ms -i 100ms",
        "udp -b 5M -t 400ms -i 100ms --both",
        "rr -t 400ms -i 100ms",
    ] {
        println!("{line}");
        let ends: &[&str] = match line {
            _ if line.starts_with("rr") => &["rr.cpu"],
            _ if line.contains("both") => &["forward.sender.cpu", "reverse.receiver.cpu"],
            _ => &["sender.cpu", "receiver.cpu"],
        };
        let fit = || {
            let record = local(&format!("{line} --cpu {first}/{last}")).complete();
            ends.iter().all(|figures| within_its_rows(&record, figures))
        };
        assert!(wait_for(LONG, fit), "{line}: no row has a figure");
    }
}

#[test]
fn what_a_held_receiver_left_unread_is_not_the_paths() {
    let _alone = alone();
    let test = "what_a_held_receiver_left_unread_is_not_the_paths";
    let (quota, period) = (Duration::from_millis(1), Duration::from_millis(200));
    let Some(little) = Group::of_cpu_time(test, quota, period) else { return };
    let server = Server::start(None, &["--max-window", "64Mi"]);
    let port = server.port.to_string();
    // 100,000 datagrams in 1.7 seconds, or as long as it takes, and three seconds for a 200th of a core to read them one
    // by one. Only what reads has so little: the rest answers its client.
    let args = ["udp", "127.0.0.1", "-p", &port, "--json", "-b", "30M", "-l", "64", "-w", "64Mi"];
    let count = ["--datagrams", "100000", "--engine", "send"];
    let client = Client::start(None, &[&args[..], &count].concat());
    server.says("started", 1);
    little.hold_data(server.pid());
    let record = client.end().complete();
    drop(server);
    let receiver = &record["totals"]["receiver"];
    println!("{receiver}");
    assert_eq!(number(receiver, "lost_path"), 0, "{receiver}");
    assert!(number(receiver, "lost") > 0, "{receiver}");
    let doubts = list(&record["doubts"]);
    assert!(doubts.iter().any(|d| d["text"].as_str().unwrap().contains("unread")), "{doubts:?}");
    assert_ne!(record["verdict"]["limit"], "path", "{}", record["verdict"]);
}
