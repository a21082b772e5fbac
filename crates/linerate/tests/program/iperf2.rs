//! iperf 2, two releases of it unmodified, against `linerate serve --iperf2`, and linerate against them and itself:
//! what both sides print must agree.

use linerate_testkit::peer::LONG;
use linerate_testkit::port::opened_anew;
use linerate_wire::iperf2::datagram::Mark;
use linerate_wire::iperf2::{REPORT_BYTES, Report};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Client, Ran, Server, alone, linerate, list, number, skip, wait_for};
use serde_json::Value;

/// In a network of the test's own.
const PORT: &str = "5001";

/// The programs that are there; what is not is said. Before the test has a network of its own: one is built of what apt
/// fetches.
fn programs(test: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    match Command::new("iperf").arg("-v").output() {
        Ok(_) => all.push("iperf".into()),
        Err(_) => skip(test, "iperf (2) is not installed"),
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match Command::new(root.join("lab/iperf2")).stderr(Stdio::piped()).output() {
        Ok(built) if built.status.success() => {
            let folder = String::from_utf8_lossy(&built.stdout);
            all.push(Path::new(folder.trim()).join("iperf"));
        }
        Ok(built) => skip(test, String::from_utf8_lossy(&built.stderr).trim()),
        Err(e) => skip(test, &format!("lab/iperf2 does not run: {e}")),
    }
    all
}

/// What a client of iperf 2 prints.
fn iperf(program: &Path, args: &str) -> String {
    let mut client = Command::new(program);
    client.args(["-c", "127.0.0.1", "-p", PORT]).args(args.split_whitespace());
    let mut client =
        client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a client");
    let ended = wait_for(LONG, || client.try_wait().expect("a child").is_some());
    let _ = client.kill();
    let out = client.wait_with_output().expect("its output");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    println!("{program:?} {args}: {text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(ended, "{program:?} {args} hangs: {text}");
    text
}

/// Lost, and all, of each report that it got of a server.
fn reports(text: &str) -> Vec<(u64, u64)> {
    let report = |line: &str| {
        let (lost, all) = line.split_once(" ms ")?.1.split_once(" (")?.0.trim().split_once('/')?;
        Some((lost.trim().parse().ok()?, all.trim().parse().ok()?))
    };
    text.lines().filter(|line| !line.contains("SUM")).filter_map(report).collect()
}

/// Streams of UDP that a client tells of.
fn streams_sent(text: &str) -> usize {
    text.lines().filter(|line| line.contains("] Sent ") && !line.contains("SUM")).count()
}

/// Results of the tests that ended at a server.
fn results(server: &Server, count: usize) -> Vec<Value> {
    let ended = |log: &str| -> Vec<Value> {
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["event"] == "ended").collect()
    };
    let there = wait_for(LONG, || ended(&server.log()).len() >= count);
    assert!(there, "{}", server.log());
    let all = ended(&server.log());
    assert_eq!(all.len(), count, "{}", server.log());
    all
}

#[test]
fn an_unmodified_udp_client_and_this_server_count_alike() {
    let programs = programs("an_unmodified_udp_client_and_this_server_count_alike");
    let _alone = alone();
    for program in programs {
        for (args, streams) in [
            ("-u -b 2M -t 1", 1),
            ("-u -b 2M -t 1 -e -i 0.5", 1),
            ("-u -b 1M -l 40 -t 1", 1),
            ("-u -b 8M -l 8972 -t 1", 1),
            ("-u -b 2M -n 200K", 1),
            ("-u -b 1M -t 1 -P 4", 4),
            // Longer than others keep the server from opening the socket of a stream, which alone stamps what comes.
            ("-u -b 1M -t 3 --trip-times", 1),
            ("-u -b 1M -t 3 --trip-times -e", 1),
        ] {
            let server = Server::start(None, &["--iperf2"]);
            let text = iperf(&program, args);
            // What the client did not begin cannot be counted.
            let begun = streams_sent(&text);
            assert!((1..=streams).contains(&begun), "{args}: {text}");
            let results = results(&server, begun);
            let mut theirs = reports(&text);
            let mut ours: Vec<_> = results
                .iter()
                .map(|result| {
                    assert_eq!(result["outcome"], "done", "{args}: {result}");
                    let received = &result["received"];
                    // The datagram that ends a stream is one of theirs.
                    (number(received, "lost"), number(received, "expected") + 1)
                })
                .collect();
            theirs.sort_unstable();
            ours.sort_unstable();
            assert_eq!(theirs, ours, "{args}: {text}");
            // One of data, and the end: a client that is held up after the first finds its time over.
            assert!(ours.iter().all(|(_, all)| *all > 1), "{args}: {ours:?}");
            assert!(!text.contains("NAN") && !text.contains("0.000/0.000"), "{args}: {text}");
            let received = &results[0]["received"];
            let delay = &received["wall_clock_delay_s"];
            assert_eq!(delay.is_null(), !args.contains("--trip-times"), "{args}: {received}");
            if !delay.is_null() {
                // Those that came before their stream had a socket have no stamp, and are in no delay.
                let came = number(received, "expected") - number(received, "lost");
                assert!((1..=came).contains(&number(delay, "count")), "{received}");
                // It heard whole microseconds.
                let mean = delay["mean"].as_f64().expect("a mean") * 1e3;
                let near = [mean - 0.001, mean, mean + 0.001].map(|mean| format!(" {mean:.3}/"));
                assert!(near.iter().any(|mean| text.contains(mean)), "{mean}: {text}");
            }
        }
    }
}

/// By its source: numbers from 0, which is not counted, and a header that says only that they have 64 bits.
#[test]
fn a_client_of_2_0_13_is_served() {
    let _alone = alone();
    let server = Server::start(None, &["--iperf2"]);
    let client = UdpSocket::bind(("127.0.0.1", 0)).expect("a port");
    client.connect(("127.0.0.1", 5001)).expect("a socket's own address");
    client.set_read_timeout(Some(LONG)).expect("a limit");
    for number in (0..10).chain([-10]) {
        let mut datagram = [b'7'; 500];
        Mark { number, sent_ns: 0 }.write(&mut datagram);
        datagram[16..20].copy_from_slice(&[8, 0, 0, 0]);
        client.send(&datagram).expect("sent");
    }
    let mut answer = [0; 2_000];
    // It takes none that is shorter.
    assert_eq!(client.recv(&mut answer).expect("a report"), REPORT_BYTES);
    let report = Report::decode(&answer).expect("a report");
    assert_eq!((report.datagrams, report.lost, report.bytes), (10, 0, 5_000));
    let result = results(&server, 1).pop().expect("one test");
    assert_eq!(result["outcome"], "done", "{result}");
    assert_eq!((number(&result, "received.expected"), number(&result, "received.lost")), (9, 0));
}

#[test]
fn an_unmodified_tcp_client_and_this_server_count_alike() {
    let programs = programs("an_unmodified_tcp_client_and_this_server_count_alike");
    let _alone = alone();
    for program in programs {
        for (args, side) in [
            ("-n 3M -y C", "received"),
            ("-n 3M -y C -X", "received"),
            ("-n 1M -y C -P 3", "received"),
            ("-n 3M -y C --trip-times -X", "received"),
            ("-t 2 -b 5M -y C -R", "sent"),
        ] {
            let server = Server::start(None, &["--iperf2"]);
            let text = iperf(&program, args);
            let bytes = |line: &str| -> Option<u64> {
                let fields: Vec<&str> = line.split(',').collect();
                // 2.2 has other fields where it knows more.
                let more = fields.len() == 17;
                let bytes = fields.get(if more { 8 } else { 7 })?;
                (more || is_a_stream(&fields)).then(|| bytes.parse().ok())?
            };
            let theirs: Vec<u64> = text.lines().filter_map(bytes).collect();
            // As many as the client tells of: what it did not send cannot be counted.
            let results = results(&server, theirs.len());
            let ours: u64 =
                results.iter().map(|result| number(result, &format!("{side}.bytes"))).sum();
            assert_eq!(theirs.iter().sum::<u64>(), ours, "{args}: {text}");
            assert!(ours > 0 && results.iter().all(|result| result["outcome"] == "done"), "{args}");
        }
    }
}

#[test]
fn an_unmodified_client_sends_and_receives_at_once() {
    let programs = programs("an_unmodified_client_sends_and_receives_at_once");
    let _alone = alone();
    for program in programs {
        let server = Server::start(None, &["--iperf2"]);
        let text = iperf(&program, "--full-duplex -t 2 -b 20M -y C");
        let result = results(&server, 1).pop().expect("one test");
        assert_eq!(result["outcome"], "done", "{result}: {text}");
        // What it received, and what it sent, by the ports of who sends.
        let of = |field: usize| -> u64 {
            let lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let rows = lines.filter(|row| row.get(field) == Some(&PORT) && is_a_stream(row));
            rows.filter_map(|row| row.get(7)?.parse::<u64>().ok()).sum()
        };
        let (theirs, back) = (of(4), of(2));
        assert_eq!(number(&result, "received.bytes"), theirs, "{text}");
        // It may stop to read before all of it has come.
        assert!(back > 0 && number(&result, "sent.bytes") >= back, "{result}: {text}");
    }
}

/// Whether this row of `-y C` is no sum: those have -1 for a stream, or -2 where two begin to be summed at once.
fn is_a_stream(row: &[&str]) -> bool {
    row.get(5).is_some_and(|stream| !stream.starts_with('-'))
}

#[test]
fn an_unmodified_client_is_called_back() {
    let programs = programs("an_unmodified_client_is_called_back");
    let _alone = alone();
    for program in programs {
        for args in ["-d", "-r", "-d -P 2", "-r -P 2 -n 200K"] {
            if program == Path::new("iperf") && args.starts_with("-r -P 2") {
                // On a busy machine 2.1.8 now and then aborts itself: an assertion in its own use of pthreads.
                continue;
            }
            let server = Server::start(None, &["--iperf2"]);
            let text = iperf(&program, &format!("{args} -L 5002 -t 2 -b 20M -y C"));
            // What came to where it listens, stream by stream, and as many as it began: it waits for each.
            let lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let there = lines.filter(|row| row.contains(&"5002") && is_a_stream(row));
            let received: Vec<u64> = there.filter_map(|row| row.get(7)?.parse().ok()).collect();
            let most = if args.contains("-P 2") { 2 } else { 1 };
            assert!((1..=most).contains(&received.len()), "{args}: {text}");
            let results = results(&server, 2 * received.len());
            assert!(results.iter().all(|result| result["outcome"] == "done"), "{}", server.log());
            let sent = results.iter().filter(|result| result["sent"].is_object());
            let sent: Vec<_> = sent.map(|result| number(result, "sent.bytes")).collect();
            assert_eq!(sent.len(), received.len(), "{}", server.log());
            let (sent, received): (u64, u64) = (sent.iter().sum(), received.iter().sum());
            assert_eq!(sent, received, "{args}: {text}{}", server.log());
        }
    }
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    let programs = programs("what_is_not_done_is_refused_by_name");
    let _alone = alone();
    for program in programs {
        for (args, why) in [
            ("-u -R -t 1", "over UDP"),
            ("-u --full-duplex -t 1", "over UDP"),
            ("-u -r -L 5002 -t 1", "-d and -r over UDP"),
            ("-d -L 1023 -t 1", "below 1024"),
            ("--bounceback -t 1", "--bounceback"),
        ] {
            let server = Server::start(None, &["--iperf2"]);
            let mut client = Command::new(&program)
                .args(["-c", "127.0.0.1", "-p", PORT])
                .args(args.split_whitespace())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a client");
            let told = wait_for(LONG, || server.log().contains(why));
            let (_, log) = (client.kill(), server.log());
            let _ = client.wait();
            assert!(told && !log.contains("\"started\""), "{args}: {log}");
        }
    }
}

/// A server of iperf 2's; ends with this.
struct Real(Child, std::path::PathBuf);

impl Real {
    fn start(program: &Path, args: &str) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("linerate-iperf2-{}-{next}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let out = std::fs::File::create(&path).expect("a file");
        let child = Command::new("stdbuf")
            .arg("-oL")
            .arg(program)
            .args(["-s", "-p", PORT, "-i", "60"])
            .args(args.split_whitespace())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .expect("a server");
        let real = Self(child, path);
        // It has a socket when it has said so; what it prints is its own affair.
        assert!(wait_for(LONG, || real.text().contains("Server listening")), "{}", real.text());
        real
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.1).unwrap_or_default()
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(&self.1);
    }
}

/// The record of a test of which the one end says little.
fn complete(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let record = ran.record();
    assert_eq!(record["status"], "complete", "{}", record["error"]);
    record
}

fn ours(args: &str) -> Value {
    let base = ["127.0.0.1", "--dialect", "iperf2", "--json"];
    let (verb, rest) = args.split_once(' ').unwrap_or((args, ""));
    let args: Vec<&str> = [verb].into_iter().chain(base).chain(rest.split_whitespace()).collect();
    complete(&linerate(None, &args))
}

#[test]
fn this_client_and_an_unmodified_server_count_alike() {
    let programs = programs("this_client_and_an_unmodified_server_count_alike");
    let _alone = alone();
    for program in programs {
        for (args, streams) in [
            ("udp -t 2s -b 2M", 1),
            ("udp -k 100 -b 2M --size 80", 1),
            ("udp -k 40 -b 40M --size 8000", 1),
            // The server takes datagrams of a stream it does not know yet for those of another; held up, it needs a while to know
            // them all.
            ("udp -t 3s -b 2M --streams 3", 3),
        ] {
            let server = Real::start(&program, "-u -l 9000");
            let record = ours(args);
            assert!(
                wait_for(LONG, || reports(&server.text()).len() >= streams),
                "{}",
                server.text()
            );
            let theirs = reports(&server.text());
            let (lost, all) = theirs.iter().fold((0, 0), |(l, a), (lost, all)| (l + lost, a + all));
            let sent = number(&record, "totals.sender.datagrams");
            assert_eq!(all, sent + streams as u64, "{args}: {}", server.text());
            assert_eq!(lost, number(&record, "totals.receiver.lost"), "{args}");
            // They take the first datagram's time for one of their own clock.
            let jitter = record["totals"]["receiver"]["jitter_s"].as_f64();
            let lasted = record["totals"]["receiver"]["seconds"].as_f64();
            assert!(jitter.is_some() && jitter < lasted, "{args}: {jitter:?} {lasted:?}");
            let doubts = record["doubts"].to_string();
            assert!(doubts.contains("iperf 2's protocol"), "{doubts}");
            assert_eq!(record["agreed"]["dialect"], "iperf2");
        }
        let _server = Real::start(&program, "-u");
        // As many as a socket has room for before its receiver has a core.
        let record = ours("udp -t 2s -b 500K --reverse");
        assert!(number(&record, "totals.receiver.datagrams") > 10, "{record}");
        assert_eq!(number(&record, "totals.receiver.lost"), 0);
    }
}

/// Datagrams for which this network had no receiver.
fn without_a_port() -> u64 {
    let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
    let values = snmp.lines().filter_map(|line| line.strip_prefix("Udp: ")).nth(1).expect("UDP's");
    values.split(' ').nth(1).and_then(|ports| ports.parse().ok()).expect("NoPorts")
}

#[test]
fn a_server_that_opens_its_port_anew_is_asked_again() {
    let _alone = alone();
    let at = ("127.0.0.1", 5001);
    let door = UdpSocket::bind(at).expect("a port");
    let before = without_a_port();
    let client = ["udp", "127.0.0.1", "--dialect", "iperf2", "--reverse", "-k", "3", "--json"];
    let client = Client::start(None, &client);
    let mut asked = [0; 2_000];
    let (bytes, _) = door.recv_from(&mut asked).expect("it asks");
    drop(door);
    assert!(wait_for(LONG, || without_a_port() > before), "it asks but once");
    let door = opened_anew(|| UdpSocket::bind(at));
    let (again, client_at) = door.recv_from(&mut asked).expect("it asks again");
    assert_eq!(again, bytes);
    for number in [1, 2, 3, -4] {
        let mut datagram = [0; 500];
        Mark { number, sent_ns: 0 }.write(&mut datagram);
        door.send_to(&datagram, client_at).expect("sent");
    }
    let record = complete(&client.end());
    assert_eq!(number(&record, "totals.receiver.datagrams"), 3, "{record}");
}

#[test]
fn this_client_sends_and_receives_streams_of_an_unmodified_server() {
    let programs = programs("this_client_sends_and_receives_streams_of_an_unmodified_server");
    let _alone = alone();
    for program in programs {
        let server = Real::start(&program, "-f B");
        let record = ours("tcp --bytes 5M");
        let sent = number(&record, "totals.sender.bytes");
        assert_eq!(sent, 5_000_000);
        assert!(record["totals"]["receiver"].is_null(), "nobody says what arrived: {record}");
        // Its header counts as data there.
        let wanted = format!(" {} Bytes", sent + 64);
        assert!(wait_for(LONG, || server.text().contains(&wanted)), "{}", server.text());
        let record = ours("tcp -t 300ms --reverse --streams 2");
        assert!(number(&record, "totals.receiver.bytes") > 0);
        assert_eq!(list(&record["streams"]).len(), 2);
    }
}

#[test]
fn both_ends_may_be_linerate() {
    let _alone = alone();
    let server = Server::start(None, &["--iperf2"]);
    for (args, streams) in [
        ("udp -k 500 -b 20M", 1),
        ("udp -k 500 -b 20M --streams 4", 4),
        ("tcp --bytes 2M", 1),
        ("tcp -t 300ms --reverse --streams 2", 2),
    ] {
        let before = server.log().matches("\"ended\"").count();
        let record = ours(args);
        let all = results(&server, before + streams);
        let sum = |field: &str| -> u64 {
            all.iter().skip(before).map(|result| number(result, field)).sum()
        };
        if args.starts_with("udp") {
            assert_eq!(sum("received.expected"), number(&record, "totals.sender.datagrams"));
            assert_eq!(sum("received.lost"), number(&record, "totals.receiver.lost"), "{args}");
        } else if args.contains("reverse") {
            assert!(sum("sent.bytes") >= number(&record, "totals.receiver.bytes"), "{args}");
        } else {
            assert_eq!(sum("received.bytes"), number(&record, "totals.sender.bytes") + 64);
        }
    }
}

#[test]
fn what_the_dialect_cannot_do_is_said_before_a_byte_is_sent() {
    let _alone = alone();
    for (args, what) in [
        ("rr", "request/response"),
        ("udp --both", "both directions"),
        ("udp --size 39", "datagram size"),
        ("tcp --reverse --bytes 3G", "3000000000 bytes"),
    ] {
        let base = ["127.0.0.1", "--dialect", "iperf2", "--json"];
        let args: Vec<&str> =
            args.split(' ').take(1).chain(base).chain(args.split(' ').skip(1)).collect();
        let record = linerate(None, &args).error("dialect", 2);
        assert!(record["error"]["what"].to_string().contains(what), "{}", record["error"]);
    }
    // Nobody is there: a stream is all there is to find that out.
    let base = ["udp", "127.0.0.1", "--dialect", "iperf2", "--json", "-k", "5", "-b", "1M"];
    let record = linerate(None, &base).record();
    assert!(record["error"]["why"].to_string().contains("did not come"), "{}", record["error"]);
}
