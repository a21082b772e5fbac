//! What clients of every kind leave behind at a server, however they end: nothing. Descriptors and
//! threads are counted after each round, memory over all of them. `LINERATE_LONG=1` makes many rounds,
//! `LINERATE_MINUTES=120` as many as fit, of twenty clients each.

use linerate_testkit::peer::LONG;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{
    Client, Holds, Lab, PORT, Server, alone, free_port, linerate, long, netperf, skip, wait_for,
};
use linerate_testkit::peer::native::{Peer, plan};
use nix::sys::signal::Signal;
use serde_json::json;

/// Clients of others, with options of theirs.
const OTHERS: [(&str, &str); 16] = [
    ("iperf3", "-t 60 -b 20M"),
    ("iperf3", "-t 60 -b 5M -u -P 2"),
    ("iperf3", "-t 60 -b 20M -R"),
    ("iperf3", "-t 60 -b 5M --bidir"),
    ("iperf", "-t 60 -b 20M"),
    ("iperf", "-t 60 -b 5M -P 2"),
    ("iperf", "-t 60 -b 20M -R"),
    ("iperf", "-t 60 -b 5M -u"),
    ("nuttcp", "-T60 -R20m"),
    ("nuttcp", "-T60 -R5m -N2"),
    ("nuttcp", "-T60 -R20m -r"),
    ("nuttcp", "-T60 -R5m -u"),
    ("netperf", "-l 60 -t TCP_STREAM"),
    ("netperf", "-l 60 -t TCP_MAERTS"),
    ("netperf", "-l 60 -t TCP_RR"),
    ("netperf", "-l 60 -t TCP_CRR"),
];

/// What memory may differ after the same work: the allocator keeps pages for the next test. A hundred
/// tests that each kept what they are counted with for `--max-memory` would be far above.
const SLACK_KIB: u64 = 4 << 10;

/// Tests of each kind; the time is longer than anybody waits here.
const TESTS: [&str; 6] = [
    "udp -b 5M -t 60 -P 4",
    "udp -b 5M -t 60 -R",
    "tcp -b 50M -t 60 -P 4",
    "tcp -b 50M -t 60 --both",
    "rr -t 60",
    "rr --udp -t 60",
];

/// More than one address' share is wanted at once.
const SHARE: [&str; 2] = ["--max-tests-per-address", "64"];

/// For how long rounds are begun, if by time.
fn minutes() -> Option<Duration> {
    let text = std::env::var("LINERATE_MINUTES").ok()?;
    Some(Duration::from_secs(60 * text.parse::<u64>().expect("LINERATE_MINUTES is a number")))
}

/// Counts rounds up to the time, or to their number.
fn rounds(long_form: usize) -> impl Iterator<Item = usize> {
    let begun = Instant::now();
    let count = if long() { long_form } else { 3 };
    (1..).take_while(move |round| match minutes() {
        Some(time) => *round <= 2 || begun.elapsed() < time,
        None => *round <= count,
    })
}

/// The log's lines of one kind so far.
fn told(server: &Server, event: &str) -> usize {
    server.log().matches(&format!("\"event\":\"{event}\"")).count()
}

/// Waits until the server holds what it held `before`.
fn back_to(server: &Server, before: Holds, what: &str) -> Holds {
    let back = || {
        let now = server.holds();
        now.descriptors <= before.descriptors && now.threads <= before.threads
    };
    assert!(wait_for(LONG, back), "{what}: before {before:?}, now {:?}", server.holds());
    server.holds()
}

/// A client of each kind, or twenty of all; returns once all of their tests have begun.
fn under_way(server: &Server, space: Option<&str>, to: &str) -> Vec<Client> {
    let (before, port) = (told(server, "started"), server.port.to_string());
    let start = |test: &&str| {
        let (verb, options) = test.split_once(' ').unwrap();
        let args = [verb, to, "-p", &port, "--json"].into_iter().chain(options.split(' '));
        Client::start(space, &args.collect::<Vec<_>>())
    };
    let count = if minutes().is_some() { 20 } else { TESTS.len() };
    let clients: Vec<Client> = TESTS.iter().cycle().take(count).map(start).collect();
    let begun = || told(server, "started") == before + count;
    assert!(wait_for(LONG, begun), "{}", server.log());
    clients
}

/// All tests that began have ended.
fn all_ended(server: &Server) {
    let over = || told(server, "ended") == told(server, "started");
    assert!(wait_for(LONG, over), "{}", server.log());
}

/// What it holds when nobody is there, after a test of each kind has run once: threads of the runtime
/// and memory of the allocator are there from then on.
fn settled(server: &Server, space: Option<&str>, to: &str) -> Holds {
    let mut first = server.holds();
    // The thread that notes whether this process ran has a file of its own open from the first test on.
    first.descriptors += 1;
    let clients = under_way(server, space, to);
    clients.iter().for_each(|client| client.signal(Signal::SIGINT));
    clients.into_iter().for_each(|client| drop(client.end()));
    all_ended(server);
    back_to(server, first, "the first round")
}

/// Memory is what it was after the second round, which had as many clients at once as any; by time, after a
/// quarter of it, as twenty clients meet in many ways.
fn flat(server: &Server, warm: Option<Holds>) {
    let (warm, now) = (warm.expect("two rounds"), server.holds());
    let tests = told(server, "started");
    println!("FIGURE T26: {tests} tests; at first {warm:?}, at the end {now:?}");
    assert!(now.rss_kib <= warm.rss_kib + SLACK_KIB, "at first {warm:?}, now {now:?}");
}

/// A packet filter takes the clients away: no reset and no farewell reaches the server.
#[test]
#[ignore = "long"]
fn clients_behind_a_drop_rule_leave_nothing() {
    let _alone = alone();
    if !Lab::possible("clients_behind_a_drop_rule_leave_nothing") {
        return;
    }
    let lab = Lab::pair();
    let server = Server::on_port(Some(&lab.space("b")), PORT, &SHARE);
    let space = lab.space("a");
    let before = settled(&server, Some(&space), "10.77.1.2");
    let (mut warm, begun) = (None, Instant::now());
    for round in rounds(20) {
        let clients = under_way(&server, Some(&space), "10.77.1.2");
        // And those who have not come so far: connected, greeted, granted, ready.
        let waiting = lab.inside("a", || {
            let at = SocketAddr::from(([10, 77, 1, 2], PORT));
            let granted = Peer::granted(at, plan(&json!({})));
            (TcpStream::connect(at).unwrap(), Peer::greeted(at), granted)
        });
        let waiting = waiting.join().unwrap();
        lab.nft(
            "b",
            "flush ruleset
table inet away {
    chain ingress { type filter hook prerouting priority -300; iif eth0 drop; }
    chain egress { type filter hook output priority -300; oif eth0 drop; }
}
",
        );
        clients.iter().for_each(|client| client.signal(Signal::SIGKILL));
        clients.into_iter().for_each(|client| drop(client.end()));
        drop(waiting);
        all_ended(&server);
        let now = back_to(&server, before, &format!("round {round}"));
        println!("round {round}: {now:?}");
        if round == 2 || begun.elapsed() < minutes().unwrap_or_default() / 4 {
            warm = Some(now);
        }
        lab.nft("b", "flush ruleset\n");
    }
    flat(&server, warm);
    // It serves as before.
    let args = ["udp", "10.77.1.2", "-p", "5301", "-k", "20", "-b", "2M", "--json"];
    linerate(Some(&space), &args).complete();
}

/// Each of them is killed fifty times, at moments all over the beginning of its test.
#[test]
#[ignore = "long"]
fn clients_of_others_that_are_killed_leave_nothing() {
    let test = "clients_of_others_that_are_killed_leave_nothing";
    let missing = |program: &&str| Command::new(program).arg("-v").output().is_err();
    if let Some(program) = ["iperf3", "iperf", "nuttcp"].iter().find(|program| missing(program)) {
        return skip(test, &format!("{program} is not installed"));
    }
    let built = netperf::programs(test);
    let _alone = alone();
    netperf::an_address();
    let others: Vec<_> =
        OTHERS.iter().filter(|(program, _)| *program != "netperf" || built.is_some()).collect();
    let ports = [free_port(), free_port(), free_port()];
    let [iperf2, nuttcp, netperf] = ports;
    let doors = ["--iperf2", "--nuttcp", "--netperf"];
    let doors: Vec<_> =
        doors.iter().zip(ports).map(|(door, port)| format!("{door}={port}")).collect();
    // Nobody says that a stream of iperf 2 over UDP is over.
    let words: Vec<&str> = doors.iter().map(String::as_str).chain(["--max-idle", "1s"]).collect();
    let server = Server::start(None, &words);
    let kill_one = |n: usize| {
        let (program, options) = *others[n % others.len()];
        let to = match program {
            "nuttcp" => format!("-P{nuttcp} {options} 127.0.0.1"),
            "netperf" => format!("-H 127.0.0.1 -p {netperf} {options}"),
            "iperf" => format!("-c 127.0.0.1 -p {iperf2} {options}"),
            _ => format!("-c 127.0.0.1 -p {} {options}", server.port),
        };
        let before = told(&server, "started");
        let place = built.as_ref().filter(|_| program == "netperf").map(|bin| bin.join(program));
        let mut client = Command::new(place.unwrap_or_else(|| program.into()))
            .args(to.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a client");
        let begun = wait_for(LONG, || told(&server, "started") > before);
        std::thread::sleep(Duration::from_millis(n as u64 * 37 % 300));
        let killed = client.kill();
        client.wait().expect("it was killed");
        assert!(begun, "{program} {options}: {}", server.log());
        killed.expect("it ran");
        all_ended(&server);
    };
    (0..others.len()).for_each(kill_one);
    let rest = server.holds();
    for n in 0..50 * others.len() {
        kill_one(n);
        back_to(&server, rest, others[n % others.len()].1);
    }
    let now = server.holds();
    println!(
        "FIGURE T35: {} clients of iperf3, iperf 2, nuttcp and netperf killed, 50 of each of {} kinds; at first {rest:?}, at the end {now:?}",
        50 * others.len(),
        others.len()
    );
    assert!(now.rss_kib <= rest.rss_kib + SLACK_KIB, "at first {rest:?}, now {now:?}");
    let port = server.port.to_string();
    linerate(None, &["udp", "127.0.0.1", "-p", &port, "-k", "20", "-b", "2M", "--json"]).complete();
}

/// Killed, interrupted, said goodbye and kept the socket, sent junk, was refused: round by round.
#[test]
#[ignore = "long"]
fn rounds_of_clients_leave_nothing() {
    let _alone = alone();
    let server = Server::start(None, &SHARE);
    let at = SocketAddr::from(([127, 0, 0, 1], server.port));
    let before = settled(&server, None, "127.0.0.1");
    let (mut warm, begun) = (None, Instant::now());
    for round in rounds(60) {
        let clients = under_way(&server, None, "127.0.0.1");
        let mut kept = Vec::new();
        for n in 0..100 {
            let (mut peer, _) = Peer::granted(at, plan(&json!({})));
            peer.say(&json!("bye"));
            kept.push(peer.control);
            let mut junk = TcpStream::connect(at).unwrap();
            let _ = junk.write_all(&[n; 64]);
            kept.push(junk);
            let mut peer = Peer::greeted(at);
            peer.say(&json!({ "request": { "plan": plan(&json!({ "streams": 0 })) } }));
            kept.push(peer.control);
        }
        for (n, client) in clients.iter().enumerate() {
            let kills = (n + round) % 2 == 0;
            client.signal(if kills { Signal::SIGKILL } else { Signal::SIGINT });
        }
        clients.into_iter().for_each(|client| drop(client.end()));
        all_ended(&server);
        // While they keep their ends of the connections.
        let now = back_to(&server, before, &format!("round {round}"));
        println!("round {round}: {now:?}");
        if round == 2 || begun.elapsed() < minutes().unwrap_or_default() / 4 {
            warm = Some(now);
        }
        drop(kept);
    }
    flat(&server, warm);
}
