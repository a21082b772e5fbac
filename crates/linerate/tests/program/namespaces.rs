//! Figures against the truth that the kernel counts, in network namespaces of our own. Segmentation
//! offload is off there, so that a packet is a datagram. Errors allowed: none.

use crate::support;
use linerate_testkit::peer::LONG;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::support::{
    Client, Group, Hogs, Lab, PORT, Server, alone, dropping, linerate, long, number, real, skip,
};
use linerate_wire::native::datagram::Header;
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;

/// IPv4 and UDP headers, and those with Ethernet's.
const L3: u64 = 28;
const L2: u64 = 42;

fn udp(lab: &Lab, server: &str, line: &str) -> Value {
    lab.client("udp", server, line).complete()
}

fn limit(record: &Value) -> &str {
    record["verdict"]["limit"].as_str().expect("a verdict")
}

/// The limit of a test of which the path lost more than a hundredth: nobody knows that where the kernel did not tell a
/// host's counters in time, and what cores dropped it counts for all programs of this machine.
pub fn path(record: &Value) -> &'static str {
    let [sender, receiver] = ["sender", "receiver"].map(|end| &record["totals"][end]["host"]);
    let lost = number(record, "totals.receiver.lost_path");
    match receiver["softnet_dropped"].as_u64() {
        Some(dropped) if dropped * 2 > lost => "receiver-cpu",
        _ if [sender, receiver].iter().any(|host| host["nic_tx_packets"].is_null()) => "unknown",
        _ => "path",
    }
}

#[test]
fn loss_equals_the_counter() {
    let _alone = alone();
    if !Lab::possible("loss_equals_the_counter") {
        return;
    }
    let lab = Lab::routed();
    let _server = lab.serve();
    let (runs, rates) = if long() { (20, &[0, 1, 10, 100, 500][..]) } else { (1, &[0, 100][..]) };
    for per_mille in rates.iter().copied() {
        for engine in ["send", "mmsg", "gso"] {
            for _ in 0..runs {
                lab.nft("r", &dropping(&format!("numgen random mod 1000 < {per_mille}")));
                let line = format!("-k 10000 -l 1000 -b 10kpps --engine {engine} -i 100ms");
                let record = udp(&lab, "10.77.2.2", &line);
                let (dropped, passed) =
                    (lab.counter("r", "dropped").0, lab.counter("r", "passed").0);
                let receiver = &record["totals"]["receiver"];
                println!("{engine} {per_mille} per mille: dropped {dropped}, passed {passed}");
                assert_eq!(dropped + passed, 10_000, "{engine}: the counter saw trains");
                // A receiver that got no core for long drops some itself, and says so.
                let here = number(receiver, "dropped_receiver");
                assert_eq!(number(receiver, "lost"), dropped + here, "{engine} {per_mille}");
                assert_eq!(number(receiver, "lost_path"), dropped, "{engine} {per_mille}");
                assert_eq!(number(receiver, "datagrams"), passed - here, "{engine} {per_mille}");
                assert_eq!(number(receiver, "bytes"), (passed - here) * 1_000);
                assert_eq!(number(receiver, "duplicates"), 0);
                assert_eq!(number(receiver, "reordered"), 0);
                if per_mille >= 10 && here == 0 {
                    assert_eq!(limit(&record), path(&record), "{}", record["verdict"]);
                }
            }
        }
    }
}

#[test]
fn loss_the_other_way_and_over_streams_equals_the_counter() {
    let _alone = alone();
    if !Lab::possible("loss_the_other_way_and_over_streams_equals_the_counter") {
        return;
    }
    let lab = Lab::routed();
    let _server = lab.serve();
    lab.nft("r", &dropping("numgen random mod 1000 < 30"));
    let record = udp(&lab, "10.77.2.2", "-k 10001 -l 1000 -b 10kpps -P 3");
    let dropped = lab.counter("r", "dropped").0;
    // Some 300; of none the figures would agree whatever is counted.
    assert!(dropped > 100, "{dropped}");
    assert_eq!(number(&record, "totals.receiver.lost_path"), dropped);
    let reverse = dropping("numgen random mod 1000 < 30").replace("dport", "sport");
    lab.nft("r", &reverse);
    let record = udp(&lab, "10.77.2.2", "-k 10001 -l 1000 -b 10kpps -P 2 -R");
    let dropped = lab.counter("r", "dropped").0;
    assert!(dropped > 100, "{dropped}");
    assert_eq!(number(&record, "totals.receiver.lost_path"), dropped);
}

#[test]
fn a_tail_that_never_came_is_lost_too() {
    let _alone = alone();
    if !Lab::possible("a_tail_that_never_came_is_lost_too") {
        return;
    }
    let lab = Lab::routed();
    let _server = lab.serve();
    // After so many bytes nothing more passes; 0 lets not one pass.
    for passes in [1_500u64, 1] {
        let quota = passes * (1_000 + L3);
        lab.nft("r", &dropping(&format!("quota over {quota} bytes")));
        let record = udp(&lab, "10.77.2.2", "-k 3000 -l 1000 -b 10kpps -i 100ms");
        let dropped = lab.counter("r", "dropped").0;
        assert!(dropped >= 3_000 - passes - 1, "{dropped}");
        assert_eq!(number(&record, "totals.receiver.lost"), dropped);
        assert_eq!(number(&record, "totals.receiver.lost_path"), dropped);
        assert_eq!(number(&record, "totals.receiver.loss_runs.longest"), dropped);
    }
    lab.nft("r", &dropping(""));
    let record = udp(&lab, "10.77.2.2", "-k 1000 -l 1000 -b 10kpps");
    assert_eq!(number(&record, "totals.receiver.lost"), 1_000);
    assert_eq!(number(&record, "totals.receiver.datagrams"), 0);
}

#[test]
fn drops_of_a_small_receive_buffer_are_not_the_paths() {
    let _alone = alone();
    if !Lab::possible("drops_of_a_small_receive_buffer_are_not_the_paths") {
        return;
    }
    let lab = Lab::pair();
    let server = lab.serve();
    let port = PORT.to_string();
    let base = ["udp", "10.77.1.2", "-p", &port, "--json", "-k", "20000", "-l", "1000"];
    for engine in ["send", "mmsg"] {
        let drops = || lab.snmp("b", "Udp", "RcvbufErrors");
        let arrived = || lab.snmp("b", "Udp", "InDatagrams");
        let before = (drops(), arrived());
        // Bursts of 100 into a buffer of a few, whose reader stops for a while: some must drop, on however
        // fast a machine.
        let line =
            ["-b", "20kpps", "--burst", "5ms", "-w", "8Ki", "-i", "100ms", "--engine", engine];
        let client = Client::start(Some(&lab.space("a")), &[&base[..], &line].concat());
        assert!(support::wait_for(LONG, || arrived() > before.1 + 500));
        server.signal(Signal::SIGSTOP);
        // More than the hundredth below which a sender that is late may be the limit.
        assert!(support::wait_for(LONG, || drops() > before.0 + 400));
        server.signal(Signal::SIGCONT);
        let record = client.end().complete();
        let dropped = drops() - before.0;
        let receiver = &record["totals"]["receiver"];
        println!("{engine}: the kernel dropped {dropped}, {}", record["verdict"]["because"][0]);
        assert_eq!(number(receiver, "lost"), dropped, "{engine}");
        assert_eq!(number(receiver, "dropped_receiver"), dropped, "{engine}");
        assert_eq!(number(receiver, "lost_path"), 0, "{engine}");
        assert_eq!(limit(&record), buffer_or_cpu(receiver), "{}", record["verdict"]);
    }
}

#[test]
fn loss_by_buffer_and_path_at_once_is_told_apart() {
    let _alone = alone();
    if !Lab::possible("loss_by_buffer_and_path_at_once_is_told_apart") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    lab.nft("b", &dropping("numgen random mod 1000 < 20"));
    let before = lab.snmp("b", "Udp", "RcvbufErrors");
    let line = "-k 20000 -l 1000 -b 20kpps --burst 5ms -w 8Ki --engine mmsg";
    let record = udp(&lab, "10.77.1.2", line);
    let (path, buffer) =
        (lab.counter("b", "dropped").0, lab.snmp("b", "Udp", "RcvbufErrors") - before);
    println!("path {path}, buffer {buffer}");
    assert!(path > 100 && buffer > 20);
    assert_eq!(number(&record, "totals.receiver.lost_path"), path);
    assert_eq!(number(&record, "totals.receiver.dropped_receiver"), buffer);
}

/// Between client and server: passes TCP on as it is, and of the datagrams what the lists say.
/// Returns after the test; the client's port is that of the first hello.
struct Lists {
    drop: BTreeSet<u64>,
    twice: BTreeSet<u64>,
    /// These leave after the next one.
    swap: BTreeSet<u64>,
}

fn relay(from: SocketAddr, to: SocketAddr, lists: Lists) {
    let tcp = TcpListener::bind(from).expect("a port");
    let front = UdpSocket::bind(from).expect("the same port");
    let back = UdpSocket::bind((to.ip(), 0)).expect("a port");
    back.connect(to).expect("the server's port");
    for socket in [&front, &back] {
        let _ = setsockopt(socket, sockopt::RcvBufForce, &(4 << 20));
    }
    std::thread::spawn(move || {
        for client in tcp.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(to).expect("the server");
            for (mut read, mut write) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || {
                    let mut buffer = [0; 65_536];
                    while let Ok(n @ 1..) = read.read(&mut buffer) {
                        if write.write_all(&buffer[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = write.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    let (answers, client) = (back.try_clone().unwrap(), front.try_clone().unwrap());
    let (tell, told) = std::sync::mpsc::channel::<SocketAddr>();
    std::thread::spawn(move || {
        let Ok(peer) = told.recv() else { return };
        let mut buffer = [0; 2_048];
        while let Ok(n) = answers.recv(&mut buffer) {
            let _ = client.send_to(&buffer[..n], peer);
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        let mut held: Option<Vec<u8>> = None;
        while let Ok((n, peer)) = front.recv_from(&mut buffer) {
            let datagram = &buffer[..n];
            let Some(header) = Header::read(datagram) else {
                let _ = tell.send(peer);
                let _ = back.send(datagram);
                continue;
            };
            if lists.drop.contains(&header.number) {
                continue;
            }
            if lists.swap.contains(&header.number) {
                held = Some(datagram.to_vec());
                continue;
            }
            let _ = back.send(datagram);
            if lists.twice.contains(&header.number) {
                let _ = back.send(datagram);
            }
            if let Some(held) = held.take() {
                let _ = back.send(&held);
            }
        }
    });
}

#[test]
fn duplicates_and_swaps_hide_no_loss() {
    let _alone = alone();
    if !Lab::possible("duplicates_and_swaps_hide_no_loss") {
        return;
    }
    // One namespace of our own: the relay's threads end with the test's process.
    let lab = Lab::pair();
    let space = lab.space("b");
    let _server = Server::on_port(Some(&space), PORT, &["--bind", "127.0.0.1"]);
    // 1 % lost, 2 % twice, 2 % swapped, none of them neighbours, and the very last one lost.
    let (mut drop, mut twice, mut swap) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for n in (100..9_900).step_by(100) {
        drop.insert(n);
        twice.extend([n + 20, n + 40]);
        swap.extend([n + 60, n + 80]);
    }
    drop.insert(9_999);
    let truth: BTreeMap<&str, u64> = [
        ("lost", drop.len() as u64),
        ("lost_path", drop.len() as u64),
        ("dropped_receiver", 0),
        ("duplicates", twice.len() as u64),
        ("reordered", swap.len() as u64),
        ("datagrams", 10_000 - drop.len() as u64),
        ("late", 0),
        ("corrupt", 0),
    ]
    .into();
    lab.inside("b", move || {
        let from = SocketAddr::from(([127, 0, 0, 2], PORT));
        relay(from, SocketAddr::from(([127, 0, 0, 1], PORT)), Lists { drop, twice, swap });
    })
    .join()
    .unwrap();
    let port = PORT.to_string();
    let base = ["udp", "127.0.0.2", "-p", &port, "--json", "-k", "10000", "-l", "1000"];
    // The relay's buffers and the server's have room for more than a second of that.
    let args = [&base[..], &["-b", "3kpps", "-i", "100ms", "--engine", "send"]].concat();
    let record = linerate(Some(&space), &args).complete();
    for (key, value) in truth {
        assert_eq!(number(&record, &format!("totals.receiver.{key}")), value, "{key}");
    }
    assert_eq!(number(&record, "totals.receiver.loss_runs.longest"), 1);
}

#[test]
fn a_token_bucket_in_the_path_is_measured_to_the_byte() {
    let _alone = alone();
    if !Lab::possible("a_token_bucket_in_the_path_is_measured_to_the_byte") {
        return;
    }
    let lab = Lab::routed();
    let _server = lab.serve();
    // A burst of 25 ms at the rate, and a queue of no more.
    lab.run("r", "tc qdisc add dev right root tbf rate 40mbit burst 125000 limit 125000");
    lab.nft("b", &dropping("udp length 1"));
    let record = udp(&lab, "10.77.2.2", "-t 2s -l 1400 -b 60M -i 500ms");
    let (passed, bytes) = lab.counter("b", "passed");
    let receiver = &record["totals"]["receiver"];
    // A receiver that got no core for long drops some itself, and says so.
    let here = number(receiver, "dropped_receiver");
    assert_eq!(number(receiver, "datagrams") + here, passed);
    assert_eq!(number(receiver, "bytes") + here * 1_400 + passed * L3, bytes);
    assert_eq!(number(receiver, "lost_path"), number(&record, "totals.sender.datagrams") - passed);
    // Where others have so much of its core that it sends less than the bucket lets through, the bucket is no limit.
    match real(receiver, "lost_ratio") > 0.01 {
        true if here > 0 => {}
        true => assert_eq!(limit(&record), path(&record), "{}", record["verdict"]),
        false => assert_ne!(limit(&record), "requested-rate", "{}", record["verdict"]),
    }
    // The rate of the bucket counts Ethernet's header; what it held at the start comes on top.
    let wire = (number(receiver, "bytes") + passed * L2) as f64 * 8.0;
    let bucket = 40e6 * real(receiver, "seconds") + 2.0 * 125_000.0 * 8.0;
    assert!(wire <= bucket * 1.01, "{wire} bit through a bucket of {bucket}");
    // While a sender does not get its core, the bucket overflows unused: of one that was in time for all but a hundredth,
    // and never later than filling takes, that is less than 3 % of the time.
    let pacing = |figure: &str| number(&record, &format!("totals.sender.pacing.{figure}"));
    if here == 0 && pacing("gap_max_ns") < 25_000_000 && pacing("lateness_p99_ns") < 5_000_000 {
        assert!(wire >= 40e6 * 2.0 * 0.95, "{wire}");
    }
}

#[test]
fn what_the_senders_own_host_drops_is_never_silent() {
    let _alone = alone();
    if !Lab::possible("what_the_senders_own_host_drops_is_never_silent") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    lab.run("a", "tc qdisc add dev eth0 root tbf rate 20mbit burst 60000 limit 60000");
    lab.nft("b", &dropping("udp length 1"));
    // Calls of 1, 64 and 2 x 128 datagrams; the kernel refuses each message of them as a whole.
    for (engine, size, message) in [("send", 1_400, 1), ("mmsg", 1_400, 1), ("gso", 200, 128)] {
        let before = (lab.counter("b", "passed").0, lab.snmp("a", "Udp", "SndbufErrors"));
        let line = format!("-t 1s -l {size} -b 60M --burst 20ms -i 500ms --engine {engine}");
        let record = udp(&lab, "10.77.1.2", &line);
        let arrived = lab.counter("b", "passed").0 - before.0;
        let refused = number(&record, "totals.sender.refused_locally");
        let truth = (lab.snmp("a", "Udp", "SndbufErrors") - before.1) * message;
        let receiver = &record["totals"]["receiver"];
        let lost = number(receiver, "lost");
        println!("{engine}: refused {refused} of {truth}, lost {lost}, {}", limit(&record));
        // A receiver that got no core for long drops some itself, and says so.
        assert_eq!(number(receiver, "datagrams") + lost, arrived, "{engine}");
        assert_eq!(number(receiver, "lost_path"), 0, "{engine}: the sender knows of each");
        // Of a sender that hardly got its core, the bucket took more.
        let error = real(&record, "totals.sender.pacing.mean_error_ppm");
        assert!(
            refused > 500 || error < -400_000.0,
            "{engine}: two thirds were too much: {error} ppm"
        );
        assert_eq!(refused, truth, "{engine}: the kernel counted");
        // Of fewer either may have been more of the matter, and a receiver that was late at the end is one of its own.
        let either =
            if refused > 500 { &["sender-host"][..] } else { &["sender-host", "other-work"] };
        let in_time = lost == 0 && receiver["overdue"].as_u64().unwrap_or(0) == 0;
        assert!(!in_time || either.contains(&limit(&record)), "{}", record["verdict"]);
    }
}

#[test]
#[ignore = "long"]
fn an_mtu_that_falls_ends_no_test() {
    let _alone = alone();
    if !Lab::possible("an_mtu_that_falls_ends_no_test") {
        return;
    }
    support::often(2, &[()], |()| an_mtu_falls());
}

fn an_mtu_falls() {
    let lab = Lab::routed();
    let _server = lab.serve();
    let port = PORT.to_string();
    let base = ["udp", "10.77.2.2", "-p", &port, "--json", "-b", "20M", "-l", "1400"];
    for engine in ["send", "mmsg", "gso"] {
        // The link's other end has the same MTU, or it would drop what is larger without a word.
        for (space, device) in [("r", "right"), ("b", "eth0")] {
            lab.run(space, &format!("ip link set {device} mtu 1500"));
        }
        lab.run("a", "ip route flush cache");
        lab.nft("r", &dropping("udp length 1"));
        let args = [&base[..], &["--burst", "5ms", "-t", "1500ms", "--engine", engine]].concat();
        let client = Client::start(Some(&lab.space("a")), &args);
        assert!(support::wait_for(LONG, || lab.counter("r", "passed").0 > 100));
        // The kernel sets no DF bit on trains: a router fragments them and tells nobody.
        let link = match engine {
            "gso" => [("r", "left"), ("a", "eth0")],
            _ => [("b", "eth0"), ("r", "right")],
        };
        for (space, device) in link {
            lab.run(space, &format!("ip link set {device} mtu 1000"));
        }
        let record = client.end().complete();
        println!("{engine}: {}", record["doubts"]);
        let doubt = |kind: &str, text: &str| {
            support::list(&record["doubts"])
                .iter()
                .any(|d| d["kind"] == kind && d["text"].as_str().is_some_and(|t| t.contains(text)))
        };
        assert!(doubt("degraded", "1000 bytes"), "{engine}: {}", record["doubts"]);
        // Segments that do not fit are refused: the fallback is reached while the test runs.
        let fell = engine == "gso";
        assert_eq!(doubt("engine-fallback", "gso, then mmsg"), fell, "{}", record["doubts"]);
        assert_eq!(record["agreed"]["engine"], if fell { "mmsg" } else { engine });
        let lost = number(&record, "totals.receiver.lost");
        assert!(lost < number(&record, "totals.receiver.datagrams"), "{engine}: lost {lost}");
    }
}

/// Who dropped, by the rule of `docs/verdict.md`: the buffer, unless its reader had no time left, its own
/// or others'. Where the host's counters did not come in time, others may have run.
fn buffer_or_cpu(receiver: &Value) -> &'static str {
    let percent = |key: &str| receiver["cpu"][key].as_f64().unwrap_or(0.0);
    let (own, ready) = (percent("thread_percent"), percent("ready_percent"));
    let interrupted = percent("interrupted_percent");
    let others = receiver["cpu"]["others_percent"].as_f64().is_none_or(|others| others >= 20.0);
    let taken = interrupted.min(percent("steal_percent")) + if others { ready } else { 0.0 };
    match own + ready + interrupted >= 90.0 {
        true if taken >= 20.0 => "other-work",
        true => "receiver-cpu",
        false if taken >= 15.0 => "other-work",
        false => "receiver-buffer",
    }
}

#[test]
#[ignore = "long"]
fn a_sender_without_time_is_its_cpu() {
    const TEST: &str = "a_sender_without_time_is_its_cpu";
    let _alone = alone();
    if !Lab::possible(TEST) {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    let record = udp(&lab, "10.77.1.2", "-t 500ms -b 5M");
    assert_eq!(limit(&record), "requested-rate", "{}", record["verdict"]);
    // Others have its core, and it would use it.
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skip(TEST, "one core only");
    } else {
        let _hogs = Hogs::on_core(0, 3);
        let record = udp(&lab, "10.77.1.2", "-t 1s -b max -l 1400 --engine send --cpu 0/1");
        assert_eq!(limit(&record), "other-work", "{}", record["verdict"]);
        assert!(record["verdict"]["because"][0].as_str().is_some_and(|b| b.contains("client's")));
    }
    // Its core has time, it alone may not have it.
    for (verb, line) in [("udp", "-b 20G -l 1400 --engine send"), ("tcp", "")] {
        let Some(record) = with_little_cpu(TEST, &lab, verb, line, Held::Client) else { return };
        assert_eq!(limit(&record), "sender-cpu", "{}", record["verdict"]);
    }
}

#[test]
#[ignore = "long"]
fn a_receiver_without_time_is_its_cpu() {
    const TEST: &str = "a_receiver_without_time_is_its_cpu";
    let _alone = alone();
    if !Lab::possible(TEST) {
        return;
    }
    let lab = Lab::pair();
    for (verb, line) in [("udp", "-b 200M -l 256 -w 256Ki"), ("tcp", "")] {
        let Some(record) = with_little_cpu(TEST, &lab, verb, line, Held::Server) else { return };
        assert_eq!(limit(&record), "receiver-cpu", "{}", record["verdict"]);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Held {
    Client,
    Server,
}

/// A test of a second in which one end may run for 5 % of the time.
fn with_little_cpu(test: &str, lab: &Lab, verb: &str, line: &str, held: Held) -> Option<Value> {
    let (quota, period) = (Duration::from_millis(2), Duration::from_millis(40));
    let little = Group::of_cpu_time(test, quota, period)?;
    // A port of its own: the server of the whole test may run beside it.
    let server = Server::on_port(Some(&lab.with_groups("b")), PORT + 1, &[]);
    let port = (PORT + 1).to_string();
    let args = [verb, "10.77.1.2", "-p", port.as_str(), "--json", "-t", "1s"];
    let args: Vec<&str> = args.into_iter().chain(line.split_whitespace()).collect();
    if held == Held::Server {
        little.hold(server.pid());
    }
    let client = Client::start(Some(&lab.with_groups("a")), &args);
    if held == Held::Client {
        little.hold(client.pid());
    }
    let record = client.end().complete();
    println!("{verb}: {}", record["verdict"]);
    drop(server);
    Some(record)
}

#[test]
#[ignore = "long"]
fn a_small_window_is_the_limit_of_tcp() {
    let _alone = alone();
    if !Lab::possible("a_small_window_is_the_limit_of_tcp") {
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    for way in ["", "-R"] {
        let record = lab.client("tcp", "10.77.1.2", &format!("-t 1s -w 4Ki {way}")).complete();
        assert_eq!(limit(&record), "tcp-window", "{}", record["verdict"]);
        assert_eq!(number(&record, "agreed.window_granted.receive_bytes"), 8_192);
    }
}

#[test]
#[ignore = "long"]
fn a_hog_on_the_receivers_core_is_found() {
    let _alone = alone();
    if !Lab::possible("a_hog_on_the_receivers_core_is_found") {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skip("a_hog_on_the_receivers_core_is_found", "one core only");
        return;
    }
    let lab = Lab::pair();
    let _server = lab.serve();
    let hogs = Hogs::on_core(1, 4);
    let record = udp(&lab, "10.77.1.2", "-t 2s -b max -l 1400 --engine mmsg -w 256Ki --cpu 0/1");
    drop(hogs);
    println!("{}", record["verdict"]["because"]);
    assert!(number(&record, "totals.receiver.dropped_receiver") > 0, "{}", record["verdict"]);
    assert_eq!(limit(&record), "other-work", "{}", record["verdict"]);
    assert!(record["verdict"]["because"][0].as_str().is_some_and(|b| b.contains("server's")));
}

/// A datagram that never comes is no reason to wait for a host that is gone.
#[test]
fn a_host_that_vanishes_before_its_first_datagram_frees_its_place() {
    let _alone = alone();
    if !Lab::possible("a_host_that_vanishes_before_its_first_datagram_frees_its_place") {
        return;
    }
    support::often(4, &[("netperf", 12_865), ("nuttcp", 5_000)], |(dialect, port)| {
        let lab = Lab::pair();
        let server = Server::start(Some(&lab.space("b")), &["--all-dialects"]);
        // What it sends is lost, and then all that it says.
        lab.nft(
            "b",
            "table inet lost {
    chain i { type filter hook prerouting priority -300; meta l4proto udp drop; }
}
",
        );
        let port = port.to_string();
        let args =
            ["udp", "10.77.1.2", "--dialect", dialect, "-p", &port, "-b", "1M", "-t", "300s"];
        let client = Client::start(Some(&lab.space("a")), &args);
        let said = |word: &str| server.log().contains(word);
        assert!(support::wait_for(LONG, || said("\"started\"")));
        lab.run("a", "ip link set eth0 down");
        // Without a look at its host it would be --max-idle, two minutes.
        assert!(support::wait_for(LONG, || said("\"ended\"")), "{dialect}");
        assert!(said("\"vanished\""), "{dialect}: {}", server.log());
        client.signal(Signal::SIGKILL);
        client.end();
    });
}

/// How a client goes, as its server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// The router's link to it.
    LinkDown,
    /// What comes to it and from it is dropped at its host.
    Filtered,
    Killed,
}

#[test]
fn a_path_that_goes_dark_ends_the_test() {
    let _alone = alone();
    if !Lab::possible("a_path_that_goes_dark_ends_the_test") {
        return;
    }
    let seen = Mutex::new(Vec::new());
    support::often(6, &[Goes::LinkDown, Goes::Filtered, Goes::Killed], |how| {
        let one = goes_dark(*how);
        seen.lock().unwrap().push(one);
    });
    let (after, took): (Vec<u64>, Vec<Duration>) = seen.into_inner().unwrap().into_iter().unzip();
    println!(
        "FIGURE T11: {} of a link that goes down, a filter and a killed client, as many of each: at most {} datagrams of \
         5 Mbit/s after it, and its place free after {:.1?} at most",
        after.len(),
        after.iter().max().expect("some"),
        took.iter().max().expect("some"),
    );
}

/// How many datagrams the server sent after its client was gone, and how long it took to be free again.
fn goes_dark(how: Goes) -> (u64, Duration) {
    let lab = Lab::routed();
    let server = lab.serve();
    let counting = "flush ruleset
table inet truth {
    counter data { }
    chain ingress {
        type filter hook prerouting priority -300;
        iifname right udp length > 200 counter name data
    }
}
";
    lab.nft("r", counting);
    let port = PORT.to_string();
    let space = lab.space("a");
    let args = ["udp", "10.77.2.2", "-p", &port, "--json", "-R", "-b", "5M", "-t", "60s"];
    let client = Client::start(Some(&space), &args);
    assert!(support::wait_for(LONG, || lab.counter("r", "data").0 > 100));
    // Only the client's side falls silent; what the server sends is still counted.
    match how {
        Goes::LinkDown => drop(lab.run("r", "ip link set left down")),
        Goes::Filtered => lab.nft(
            "a",
            "table inet dark {
    chain i { type filter hook prerouting priority -300; drop; }
    chain o { type filter hook output priority -300; drop; }
}
",
        ),
        Goes::Killed => client.signal(Signal::SIGKILL),
    }
    let (since, gone) = (lab.counter("r", "data").0, Instant::now());
    let ended = || server.log().contains("\"vanished\"");
    assert!(support::wait_for(LONG, ended), "{how:?}: {}", server.log());
    let took = gone.elapsed();
    if how == Goes::Killed {
        client.end();
    } else {
        let record = client.end().error("server_lost", 1);
        assert_eq!(record["status"], "partial");
        assert!(number(&record, "totals.receiver.datagrams") > 0);
    }
    let quiet = lab.counter("r", "data").0;
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(lab.counter("r", "data").0, quiet, "{how:?}: the server still sends");
    // 5 Mbit/s of 1472 bytes for 3 s after the last sign; who does not notice goes on for a minute.
    let most = 5e6 / 8.0 / 1_472.0 * 20.0;
    let after = quiet - since;
    println!("{how:?}: {after} datagrams after it");
    assert!((after as f64) < most, "{how:?}: {after} datagrams: it went on for too long");
    (after, took)
}
