//! A server of every dialect at once, and how a client that did not name one learns which to name.

use linerate_testkit::peer::LONG;
use linerate_testkit::port::opened_anew;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crate::support::netperf::Netserver;
use crate::support::nuttcp::Theirs;
use crate::support::{self, Lab, Server, alone, free_port, linerate, number, skip, wait_for};
use linerate_model::plan::Dialect;
use linerate_wire::iperf3::{COOKIE_BYTES, Cookie};
use linerate_wire::native::PREAMBLE;
use serde_json::Value;

/// The dialects with ports of their own.
fn doors() -> impl Iterator<Item = Dialect> {
    Dialect::ALL.into_iter().filter(|dialect| dialect.port() != Dialect::Native.port())
}

#[test]
fn one_flag_opens_the_door_of_every_dialect() {
    let _alone = alone();
    let server = Server::start(None, &["--all-dialects"]);
    for dialect in doors() {
        let (name, port) = (dialect.as_ref(), dialect.port());
        let listens = format!(":{port}\",\"dialect\":\"{name}\"");
        server.says(&listens, 1);
        // An amount, which is sent however long others keep the sending thread from its core.
        let ran = linerate(None, &["tcp", "127.0.0.1", "--dialect", name, "-n", "64K", "--json"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        assert_eq!(ran.record()["agreed"]["dialect"], name);
    }
    // The others as always.
    let port = server.port.to_string();
    let ran = linerate(None, &["udp", "127.0.0.1", "-p", &port, "-k", "5", "-b", "2M", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn this_machine_alone_is_tested_in_every_dialect() {
    let _alone = alone();
    for name in Dialect::ALL.map(|dialect| dialect.as_ref().to_owned()) {
        for line in ["tcp -n 64K", "udp -b 2M -k 10"] {
            let line = format!("{line} --local --json --dialect {name}");
            let ran = linerate(None, &line.split(' ').collect::<Vec<_>>());
            assert_eq!(ran.code, 0, "{line}: {}", ran.err);
            let record = ran.record();
            assert_eq!(record["agreed"]["dialect"], name, "{line}");
            // Servers of iperf 2 tell nobody what came by TCP.
            assert!(number(&record["totals"]["sender"], "bytes") > 0, "{line}: {record}");
        }
    }
}

#[test]
fn a_port_that_is_given_is_the_door() {
    let _alone = alone();
    let port = free_port();
    let server = Server::start(None, &["--all-dialects", &format!("--iperf2={port}")]);
    let listens = format!(":{port}\",\"dialect\":\"iperf2\"");
    server.says(&listens, 1);
    let ran = linerate(None, &["serve", "--all-dialects", "--key-file", "/dev/null"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

/// A test of which neither port nor dialect is said, or those of `args`.
fn auto(args: &str) -> Value {
    let words = format!("{args} --json");
    linerate(None, &words.split(' ').collect::<Vec<_>>()).record()
}

/// What was found, and how.
fn found(record: &Value, dialect: &str, how: &str) {
    assert_eq!(record["status"], "complete", "{}", record["error"]);
    assert_eq!((&record["agreed"]["dialect"], &record["found"]), (&dialect.into(), &how.into()));
}

#[test]
fn who_names_no_dialect_tests_with_what_answers() {
    let _alone = alone();
    let server = Server::start(None, &["--all-dialects"]);
    // Nobody is at the port where linerate's own servers are: the first that answers is taken.
    let first = "nobody answered on port 5201; netperf's server answered on port 12865";
    found(&auto("tcp 127.0.0.1 -t 200ms"), "netperf", first);
    // Which has no such test: the next.
    let second = "nobody answered on port 5201; nuttcp's server answered on port 5000";
    found(&auto("tcp 127.0.0.1 -t 200ms -P 2"), "nuttcp", second);
    // None has this one, and who would take a look for a test is left alone.
    let record = auto("tcp 127.0.0.1 -t 200ms --bidir");
    assert_eq!(record["error"]["kind"], "refused", "{record}");
    let hints = record["error"]["hints"].to_string();
    for hint in [
        "nobody of netperf's was asked on port 12865",
        "nobody of nuttcp's was asked on port 5000",
        "if iperf 2 listens there on port 5001: --dialect iperf2",
    ] {
        assert!(hints.contains(hint), "{hint}: {hints}");
    }
    // A port that is given is the only one that is asked, and what is there is found out.
    let at = |port: u16| format!("netperf's server answered on port {port}");
    found(&auto("tcp 127.0.0.1 -p 12865 -t 200ms"), "netperf", &at(12_865));
    found(
        &auto("udp 127.0.0.1 -p 5000 -k 10 -b 1M"),
        "nuttcp",
        "nuttcp's server answered on port 5000",
    );
    let own = auto(&format!("tcp 127.0.0.1 -p {} -t 200ms", server.port));
    assert_eq!((&own["agreed"]["dialect"], &own["found"]), (&"native".into(), &Value::Null));
    let nobody = auto(&format!("tcp 127.0.0.1 -p {} -t 200ms", free_port()));
    let hints = nobody["error"]["hints"].to_string();
    assert!(hints.contains("--dialect netperf") && !hints.contains("12865"), "{hints}");
    // No question was taken for a test: four, and the one of linerate's own.
    let log = server.says("\"ended\"", 5);
    assert_eq!(log.matches("\"started\"").count(), 5, "{log}");
}

/// Waits until a server's door is open.
fn opened(door: &str) -> Server {
    let server = Server::start(None, &[&format!("--{door}")]);
    let listens = format!("\"dialect\":\"{door}\"");
    server.says(&listens, 1);
    server
}

/// `linerate udp HOST`, with a server of one kind after the other on its usual ports.
#[test]
fn a_test_of_datagrams_goes_to_whatever_serves_there() {
    let _alone = alone();
    let test = || auto("udp 127.0.0.1 -k 20 -b 8M -l 1000");
    {
        let _server = Server::on_port(None, Dialect::Native.port(), &[]);
        let record = test();
        assert_eq!(record["status"], "complete", "{}", record["error"]);
        assert_eq!(
            (&record["agreed"]["dialect"], &record["found"]),
            (&"native".into(), &Value::Null)
        );
    }
    if support::iperf3::installed("a_test_of_datagrams_goes_to_whatever_serves_there") {
        let mut server = Command::new("iperf3");
        let server = server.arg("-s").stdin(Stdio::null()).stdout(Stdio::null());
        let mut server = server.spawn().expect("iperf3 starts");
        let listens = || {
            let out = Command::new("ss").args(["-Htln", "sport = :5201"]).output().expect("ss");
            !out.stdout.is_empty()
        };
        let up = wait_for(LONG, listens);
        let record = test();
        let _ = server.kill();
        let _ = server.wait();
        assert!(up, "iperf3 does not listen");
        assert_eq!(record["agreed"]["dialect"], "iperf3", "{}", record["error"]);
    }
    for dialect in ["netperf", "nuttcp"] {
        let server = opened(dialect);
        let port = doors().find(|door| door.as_ref() == dialect).map_or(0, Dialect::port);
        let how =
            format!("nobody answered on port 5201; {dialect}'s server answered on port {port}");
        found(&test(), dialect, &how);
        let log = server.says("\"ended\"", 1);
        assert_eq!(log.matches("\"started\"").count(), 1, "{log}");
    }
    // A look at this one would be a test of its own.
    let server = opened("iperf2");
    let record = test();
    assert_eq!(record["error"]["kind"], "refused", "{record}");
    let hints = record["error"]["hints"].to_string();
    assert!(hints.contains("if iperf 2 listens there on port 5001: --dialect iperf2"), "{hints}");
    assert!(!server.log().contains("\"started\""), "{}", server.log());
}

/// The next connection that begins as one of iperf3's clients, or with linerate's hello.
fn begun(listener: &TcpListener) -> TcpStream {
    loop {
        let (mut control, _) = listener.accept().expect("a client");
        let mut cookie = [0; COOKIE_BYTES];
        let is_whole = control.read_exact(&mut cookie).is_ok();
        let start = &cookie[..PREAMBLE.len()];
        if is_whole && (*start == PREAMBLE || Cookie::may_begin_with(start)) {
            return control;
        }
    }
}

/// As iperf3 does: with the connection that it has done with it closes its port, and whoever waits there is cut off.
#[test]
fn a_server_of_iperf3s_that_answers_late_is_asked_until_it_has_opened_its_port_anew() {
    const PARAM_EXCHANGE: u8 = 9;
    const ACCESS_DENIED: u8 = 0xff;
    let _alone = alone();
    let at = ("127.0.0.1", free_port());
    let listener = TcpListener::bind(at).expect("a port");
    let served = std::thread::spawn(move || {
        let mut control = begun(&listener);
        // It is late: the rest of the hello is there.
        control.read_exact(&mut [0]).expect("a hello");
        control.write_all(&[PARAM_EXCHANGE]).expect("a client");
        drop(control);
        drop(begun(&listener));
        drop(listener);
        let listener = opened_anew(|| TcpListener::bind(at));
        begun(&listener).write_all(&[ACCESS_DENIED]).expect("a client");
    });
    let record = auto(&format!("udp 127.0.0.1 -p {} -t 200ms", at.1));
    assert_eq!(record["error"]["kind"], "busy", "{record}");
    served.join().expect("it served");
}

#[test]
fn a_server_on_a_port_of_no_program_is_found_out_by_what_it_answers() {
    let _alone = alone();
    let (netperf, nuttcp) = (free_port(), free_port());
    let doors = [format!("--netperf={netperf}"), format!("--nuttcp={nuttcp}")];
    let _server = Server::start(None, &doors.each_ref().map(String::as_str));
    for (port, dialect) in [(netperf, "netperf"), (nuttcp, "nuttcp")] {
        let record = auto(&format!("tcp 127.0.0.1 -p {port} -t 200ms"));
        found(&record, dialect, &format!("{dialect}'s server answered on port {port}"));
    }
}

/// Whose greeting is the question itself.
#[test]
fn a_service_that_echoes_is_none_of_nuttcps() {
    let _alone = alone();
    let echo = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = echo.local_addr().expect("its number").port();
    // Of linerate's own hello, nuttcp's and netperf's.
    let served = std::thread::spawn(move || {
        let talks: Vec<_> = (0..3)
            .map_while(|_| echo.accept().ok())
            .map(|(mut reader, _)| {
                let mut writer = reader.try_clone().expect("a copy");
                std::thread::spawn(move || std::io::copy(&mut reader, &mut writer).is_ok())
            })
            .collect();
        talks.into_iter().filter_map(|talk| talk.join().ok()).count()
    });
    let record = auto(&format!("tcp 127.0.0.1 -p {port} -t 200ms"));
    assert_eq!((&record["status"], &record["found"]), (&"failed".into(), &Value::Null), "{record}");
    assert_eq!(served.join().expect("it served"), 3, "{record}");
}

#[test]
#[ignore = "long"]
fn who_answers_nothing_is_asked_everything_and_left() {
    let _alone = alone();
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = silent.local_addr().expect("its number").port();
    // They are kept until it has been given up.
    let asked = std::thread::spawn(move || silent.incoming().take(3).flatten().collect::<Vec<_>>());
    let record = auto(&format!("tcp 127.0.0.1 -p {port} -t 200ms"));
    assert_eq!(record["error"]["kind"], "server_lost", "{record}");
    assert_eq!((&record["status"], &record["found"]), (&"failed".into(), &Value::Null));
    assert_eq!(asked.join().expect("it listened").len(), 3);
}

/// A server of iperf 2's would count each look at it as a test.
#[test]
#[ignore = "long"]
fn a_port_of_iperf_2_hears_one_hello_and_no_more() {
    let _alone = alone();
    let silent = std::net::TcpListener::bind(("127.0.0.1", 5_001)).expect("iperf 2's port");
    let record = auto("tcp 127.0.0.1 -p 5001 -t 200ms");
    assert_eq!(record["error"]["kind"], "server_lost", "{record}");
    let hints = record["error"]["hints"].to_string();
    assert!(hints.contains("--dialect iperf2"), "{record}");
    silent.set_nonblocking(true).expect("a listener");
    let asked: Vec<_> = std::iter::from_fn(|| silent.accept().ok()).collect();
    assert_eq!(asked.len(), 1);
}

#[test]
fn real_servers_are_found_and_not_used_up() {
    let _alone = alone();
    let test = "real_servers_are_found_and_not_used_up";
    if let Some(bin) = support::netperf::programs(test) {
        support::netperf::an_address();
        let server = Netserver::start(&bin);
        for (verb, more) in [("tcp", ""), ("udp", " -b 8M -l 1000"), ("rr", "")] {
            let record = auto(&format!("{verb} 127.0.0.1 -p {} -t 1s{more}", server.port));
            let how = format!("netperf's server answered on port {}", server.port);
            found(&record, "netperf", &how);
        }
    }
    for (release, bin) in support::nuttcp::programs(test) {
        // Of one client, which finds out on the connection that it then uses.
        let mut once = Command::new(&bin);
        let once = once.args(["-1", "--nofork"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut once = once.spawn().expect("nuttcp starts");
        let listening = || {
            let out = Command::new("ss").args(["-Htln", "sport = :5000"]).output().expect("ss");
            !out.stdout.is_empty()
        };
        assert!(wait_for(LONG, listening), "{release} does not listen");
        let record = auto("tcp 127.0.0.1 -n 64K");
        let ended = wait_for(LONG, || once.try_wait().expect("a child").is_some());
        let _ = once.kill();
        assert!(ended, "{release}");
        let how = "nobody answered on port 5201; nuttcp's server answered on port 5000";
        found(&record, "nuttcp", how);
        let server = Theirs::start(&bin);
        let record = auto(&format!("udp 127.0.0.1 -p {} -k 20 -b 8M -l 1000", server.port));
        let how = format!("nuttcp's server answered on port {}", server.port);
        found(&record, "nuttcp", &how);
    }
}

/// One of the originals, as a server in a namespace; ends with this.
struct Original(std::process::Child);

impl Original {
    fn start(lab: &Lab, words: &[&str], listens: &str) -> Self {
        let inside = |words: &[&str]| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &lab.space("b")]).args(words).stdin(Stdio::null());
            command
        };
        let mut server = inside(words);
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a server");
        let up = wait_for(LONG, || {
            let sockets = inside(&["ss", "-Htuln", listens]).output().expect("ss");
            !sockets.stdout.is_empty()
        });
        assert!(up, "{words:?} does not listen");
        Self(child)
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Loses every tenth datagram of data that comes there, and counts them.
fn drops(lab: &Lab, end: &str, dialect: Dialect) {
    // iperf 2 repeats the datagram that ends a stream, whose number is below 0: it is no data.
    let data = if dialect == Dialect::Iperf2 { "@th,64,1 0" } else { "" };
    lab.nft(
        end,
        &format!(
            "flush ruleset
table inet truth {{
    counter dropped {{ }}
    chain ingress {{
        type filter hook prerouting priority -300;
        udp length > 500 {data} numgen inc mod 10 == 3 counter name dropped drop
    }}
}}
"
        ),
    );
}

/// Datagrams that came to an end whose program, without a core, had left its socket no room for them.
fn no_room(lab: &Lab, end: &str) -> u64 {
    lab.snmp(end, "Udp", "RcvbufErrors")
}

/// `lost` of the record is what was dropped on the way, and what a socket had no room for: at most, as words that end a
/// stream are among that.
fn loses(lab: &Lab, dialect: Dialect, way: &str, whose: &str) {
    let name = dialect.as_ref();
    let end = if way == "-R" { "a" } else { "b" };
    drops(lab, end, dialect);
    let before = no_room(lab, end);
    // An amount, which is sent however long others keep the sender from its core, and for which a real server's socket has
    // room. A server of iperf 2's sends for a time, of which some is left to it.
    let brief = (dialect, way) != (Dialect::Iperf2, "-R");
    let amount = if brief { "-k 80" } else { "-t 3s" };
    let line = format!("udp 10.77.1.2 --dialect {name} -b 4M -l 1000 {amount} --json {way}");
    let words: Vec<&str> = line.split_whitespace().collect();
    let ran = linerate(Some(&lab.space("a")), &words);
    assert_eq!(ran.code, 0, "{whose} {line}: {}", ran.err);
    let record = ran.record();
    let dropped = lab.counter(end, "dropped").0;
    assert!(dropped > 5, "{whose} {line}: {record}");
    let most = dropped + no_room(lab, end) - before;
    let lost = number(&record, "totals.receiver.lost");
    let wanted = dropped..=most;
    assert!(wanted.contains(&lost), "{whose} {line}: {lost} of {wanted:?}: {record}");
    // A server of iperf 2's does not say what it sent.
    if brief {
        let came = number(&record, "totals.receiver.datagrams");
        assert_eq!(number(&record, "totals.sender.datagrams"), came + lost, "{whose} {line}");
    }
    lab.nft(end, "flush ruleset");
}

#[test]
fn loss_in_every_dialect_is_what_a_packet_filter_dropped() {
    let _alone = alone();
    let test = "loss_in_every_dialect_is_what_a_packet_filter_dropped";
    if !Lab::possible(test) {
        return;
    }
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &["--all-dialects"]);
    for dialect in doors() {
        loses(&lab, dialect, "", "ours");
        // A server of iperf 2's sends nothing over UDP here, and one of netperf's has no rate to keep to.
        if dialect == Dialect::Nuttcp {
            loses(&lab, dialect, "-R", "ours");
        }
    }
    drop(server);
    if let Some(bin) = support::netperf::programs(test) {
        let netserver = bin.join("netserver");
        let words = [netserver.to_str().expect("a path"), "-D"];
        let _server = Original::start(&lab, &words, "sport = :12865");
        loses(&lab, Dialect::Netperf, "", "netperf's");
    }
    for (release, bin) in support::nuttcp::programs(test) {
        let words = [bin.to_str().expect("a path"), "-S", "--nofork"];
        let _server = Original::start(&lab, &words, "sport = :5000");
        loses(&lab, Dialect::Nuttcp, "", release);
        loses(&lab, Dialect::Nuttcp, "-R", release);
    }
    if Command::new("iperf").arg("-v").output().is_err() {
        skip(test, "iperf (2) is not installed");
        return;
    }
    // One of 2.1.8 that has received sends nothing any more.
    for way in ["", "-R"] {
        let words = ["iperf", "-s", "-u", "-l", "2000"];
        let _server = Original::start(&lab, &words, "sport = :5001");
        loses(&lab, Dialect::Iperf2, way, "iperf 2's");
    }
}

/// What a real client reads of a server of linerate's is what a packet filter dropped on the way to it.
#[test]
fn real_clients_are_told_what_a_packet_filter_dropped() {
    let test = "real_clients_are_told_what_a_packet_filter_dropped";
    // At full speed sockets would lose some as well.
    let netperf = support::netperf::programs_with(test, &["--enable-intervals"]);
    let _alone = alone();
    if !Lab::possible(test) {
        return;
    }
    let lab = Lab::pair();
    let _server = Server::start(Some(&lab.space("b")), &["--all-dialects"]);
    // Sent, and received, by what it prints.
    let told = |dialect: Dialect, line: &str, read: fn(&str) -> Option<[u64; 2]>| {
        drops(&lab, "b", dialect);
        let before = no_room(&lab, "b");
        let text = lab.run("a", line);
        let dropped = lab.counter("b", "dropped").0;
        let [sent, came] = read(&text).unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(dropped > 5, "{line}: {text}");
        let wanted = dropped..=dropped + no_room(&lab, "b") - before;
        assert!(wanted.contains(&(sent - came)), "{line}: {wanted:?}: {text}");
    };
    if let Some(bin) = netperf {
        let keys = "-P 0 -- -m 1000 -k LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD";
        let line = format!(
            "{} -H 10.77.1.2 -t UDP_STREAM -l 2 -b 5 -w 10 {keys}",
            bin.join("netperf").display()
        );
        told(Dialect::Netperf, &line, |text| {
            let of = |key: &str| -> Option<u64> {
                let line = text.lines().find_map(|line| line.strip_prefix(key));
                line?.strip_prefix('=')?.parse().ok()
            };
            Some([of("LOCAL_BYTES_SENT")? / 1_000, of("REMOTE_BYTES_RECVD")? / 1_000])
        });
    }
    if Command::new("iperf").arg("-v").output().is_err() {
        return skip(test, "iperf (2) is not installed");
    }
    // An amount, which is sent however long others keep it from its core.
    let line = "iperf -c 10.77.1.2 -u -b 4M -l 1000 -n 500000";
    told(Dialect::Iperf2, line, |text| {
        let (_, report) = text.split_once("Server Report:")?;
        let (_, counts) = report.split_once(" ms ")?;
        let (lost, all) = counts.split_once(" (")?.0.split_once('/')?;
        let [lost, all]: [u64; 2] = [lost.trim().parse().ok()?, all.trim().parse().ok()?];
        Some([all, all - lost])
    });
}

#[test]
fn networks_that_are_not_allowed_test_in_no_dialect() {
    let _alone = alone();
    let server = Server::start(None, &["--all-dialects", "--allow", "127.0.0.8/30"]);
    for (n, dialect) in (1..).zip(doors()) {
        let name = dialect.as_ref();
        for (from, allowed) in [("127.0.0.9", true), ("127.0.0.1", false)] {
            let base = ["tcp", "127.0.0.1", "-B", from, "--dialect", name, "-n", "64K"];
            let ran = linerate(None, &base);
            assert_eq!(ran.code == 0, allowed, "{from} {name}: {} {}", ran.out, ran.err);
        }
        let log = server.says("takes tests from", n);
        assert_eq!(log.matches("\"started\"").count(), n, "{name}: {log}");
    }
}

/// One test beyond each limit of the owner, and one within, in each dialect.
#[test]
fn limits_are_the_same_in_every_dialect() {
    let _alone = alone();
    // Streams of iperf 2 over UDP have half of the tests.
    for (dialect, most) in
        Dialect::ALL.map(|one| (one, if one == Dialect::Iperf2 { "2" } else { "1" }))
    {
        let limits = ["--max-tests", most, "--max-duration", "8s", "--max-streams", "2"];
        let server = Server::start(None, &[&["--all-dialects"][..], &limits].concat());
        let name = dialect.as_ref();
        let port = if doors().any(|door| door == dialect) { dialect.port() } else { server.port };
        let client = |line: &str| {
            let base = format!("{line} -p {port} --dialect {name} --json");
            support::Client::start(None, &base.split(' ').collect::<Vec<_>>())
        };
        let count = |event: &str| server.log().matches(&format!("\"event\":\"{event}\"")).count();
        let refused = |line: &str, why: &str| {
            let (started, before) = (count("started"), server.log().matches(why).count());
            let ran = client(line).end();
            assert_ne!(ran.code, 0, "{name}: {line}: {}", ran.out);
            let log = server.says(why, before + 1);
            assert_eq!(count("started"), started, "{name}: {line}: {log}");
        };
        // One at once; it ends before the owner's limit also where it has to wait for its core.
        let before = count("started");
        let first = client("udp 127.0.0.1 -b 2M -t 6s");
        assert!(wait_for(LONG, || count("started") > before), "{name}: {}", server.log());
        // An amount: one of iperf 2's that sends nothing in its time is not heard of.
        refused("udp 127.0.0.1 -b 2M -k 5", "\"kind\":\"busy\"");
        assert_eq!(first.end().code, 0, "{name}: {}", server.log());
        server.says("\"ended\"", count("started"));
        // As long, and as many streams. Who does not say how long it sends is cut off; iperf 2's streams are tests of
        // their own, and netperf has one.
        refused("udp 127.0.0.1 -b 2M -t 9s", "longer than this server's 8 s");
        if !matches!(dialect, Dialect::Netperf | Dialect::Iperf2) {
            refused("tcp 127.0.0.1 -b 2M -t 200ms -P 3", "more than this server's 2");
        }
        assert_eq!(client("tcp 127.0.0.1 -n 64K").end().code, 0, "{name}");
        server.says("\"ended\"", count("started"));
    }
}
