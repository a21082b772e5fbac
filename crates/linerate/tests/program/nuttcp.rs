//! nuttcp's dialect against the real nuttcp 6.1.2 and 8.2.2, both ways: what both ends print is the same.

use crate::support::nuttcp::{Theirs, attempt, nuttcp, programs, serve, serve_in, value};
use crate::support::{self, Lab, Server, alone, linerate, number, wait_for};
use linerate_testkit::peer::LONG;
use serde_json::Value;

const MEGABYTE: f64 = 1_048_576.0;

/// The results of the tests that ended at a server.
fn ended(server: &Server) -> Vec<Value> {
    let log = server.log();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["event"] == "ended").collect()
}

/// A run of the real client, and how its test ended at the server.
fn both(server: &Server, run: impl FnOnce() -> String) -> (String, Value) {
    let before = ended(server).len();
    let text = run();
    assert!(wait_for(LONG, || ended(server).len() > before), "{text}\n{}", server.log());
    let ended = ended(server).pop().expect("an end");
    assert_eq!(ended["outcome"], "done", "{text}\n{ended}");
    (text, ended)
}

/// Whether bytes are those that a real program shows with four decimals of a megabyte.
fn shows(bytes: u64, text: &str) -> bool {
    let shown = format!("{:.4}", bytes as f64 / MEGABYTE);
    format!("{:.4}", value(text, "megabytes")) == shown
}

#[test]
fn an_unmodified_client_and_this_server_count_alike() {
    count_alike(
        "an_unmodified_client_and_this_server_count_alike",
        &[
            ("-T1 -i0.5", "received"),
            ("-n160 -l8192", "received"),
            ("-T0.5 -r -F -N2", "sent"),
            ("-n10m -r", "sent"),
            ("-u -R8m -l1000 -T1 -i0.5", "received"),
            ("-u -R2m -l200 -T0.5 -N3", "received"),
            ("-u -r -R8m -l1000 -T1 -i0.4", "sent"),
            ("-u -r -n500 -l1000 -R8m", "sent"),
        ],
    );
}

#[test]
#[ignore = "long"]
fn whatever_an_unmodified_client_asks_for_both_count_alike() {
    count_alike(
        "whatever_an_unmodified_client_asks_for_both_count_alike",
        &[
            ("-T0.5", "received"),
            ("-T0.5 -N3", "received"),
            ("-T0.5 -F", "received"),
            ("-T1 -r -i0.5", "sent"),
            ("-T0.5 -r -N3", "sent"),
            ("-T0.5 -w128", "received"),
            ("-T0.5 -ws128 -wr64", "received"),
            ("-T0.5 -R20m", "received"),
            ("-u -R8m -l1000 -T1", "received"),
            ("-u -Ri8m -l1000 -T0.5", "received"),
            ("-u -R8m -l1000 -T1 -i0.5 -N3", "received"),
            ("-u -n500 -l1000 -R8m", "received"),
            ("-u -r -R8m -l1000 -T1", "sent"),
            ("-u -r -Ri8m -l1000 -T0.5", "sent"),
            ("-u -r -R2m -l200 -T0.5 -N3", "sent"),
            ("-u -r -R8m -l1000 -T1 -i0.4 -N3", "sent"),
            ("-u -r -R8m -l1000 -T0.5 -N9", "sent"),
        ],
    );
}

/// What a client is called with, and which end's count in this server's record is the one it shows. Where datagrams come
/// back, no interval ends with the test: 6.1.2 gives up where one does between the words of the end.
fn count_alike(test: &str, cases: &[(&str, &str)]) {
    let _alone = alone();
    let (server, at) = serve(&[]);
    for (release, bin) in programs(test) {
        for &(args, side) in cases {
            let run = || nuttcp(&bin, "127.0.0.1", at.port(), &format!("-fparse -p 7000 {args}"));
            let (text, end) = both(&server, run);
            let of = |name: &str| number(&end, &format!("{side}.{name}"));
            assert!(of("bytes") > 0, "{release} {args}: {end}");
            if !args.contains("-u") {
                // A receiver shows what came, and over TCP that is what was sent.
                let total = value(&text, "megabytes");
                // A client of several streams stops to read with the first that ends.
                let cut = side == "sent" && args.contains("-N");
                let all = shows(of("bytes"), &text)
                    || (cut && total <= of("bytes") as f64 / MEGABYTE + 1e-4);
                assert!(total > 0.0 && all, "{release} {args}: {text}{end}");
            } else if side == "sent" {
                let all = value(&text, "pkt") as u64;
                assert_eq!(all, of("datagrams"), "{release} {args}: {text}{end}");
            } else {
                // On loopback none are lost at such rates: the client shows what came here.
                assert!(shows(of("bytes"), &text), "{release} {args}: {text}{end}");
                assert!(value(&text, "pkt") > 10.0, "{release} {args}: {text}");
            }
            let rows = text.matches("real_sec=").count();
            assert_eq!(rows > 0, args.contains("-i"), "{release} {args}: {text}");
        }
    }
}

#[test]
fn an_unmodified_client_sees_what_it_asks_for_and_why_it_has_no_test() {
    let _alone = alone();
    let (_server, at) = serve(&["--max-duration", "20s"]);
    for (release, bin) in programs("an_unmodified_client_sees_what_it_asks_for_and_why") {
        let run = |args: &str| nuttcp(&bin, "127.0.0.1", at.port(), &format!("-p 7000 {args}"));
        // 6.1.2 has no wish for a core.
        let text = run(if release == "6.1.2" { "-v -T0.5" } else { "-v -T0.5 -xc0/0" });
        for line in ["nuttcp-r: ", "real seconds", "I/O calls", "sys 0:0"] {
            assert!(text.contains(line), "{release}: {text}");
        }
        let text = run("-u -R8m -T2 -i0.5 -fxmitstats");
        assert!(text.contains("~drop/pkt") && text.contains("~%loss Trans:"), "{release}: {text}");
        let text = run("-T2 -i0.5 -R100m -frunningtotal");
        assert!(text.contains("Tot:"), "{release}: {text}");
        // What is sent to it says how the connection fares, once something was read, of which later releases read the
        // window too.
        let text = run("-r -T3 -i0.3 -R100m");
        let rows = text.lines().filter(|line| line.contains("Mbps") && !line.contains("%TX"));
        let rows: Vec<&str> = rows.filter(|row| !row.contains(" 0.0000 MB /")).collect();
        assert!(rows.len() >= 2, "{release}: {text}");
        assert!(rows.iter().all(|row| row.contains(" retrans")), "{release}: {text}");
        let windows = rows.iter().filter(|row| row.contains(" KB-cwnd")).count();
        assert_eq!(windows, if release == "6.1.2" { 0 } else { rows.len() }, "{release}: {text}");
        // Of several streams nothing is said.
        let text = run("-r -T3 -i0.3 -R100m -N2");
        let rows = text.lines().filter(|line| line.contains("Mbps") && !line.contains("%TX"));
        assert!(rows.clone().count() >= 2, "{release}: {text}");
        assert!(!rows.collect::<String>().contains(" retrans"), "{release}: {text}");
        for (args, why) in
            [("-T30", "longer than this server's"), ("-xt -T1", "traceroute is not run here")]
        {
            let mut command = std::process::Command::new(&bin);
            let (_, text) = attempt(&mut command, "127.0.0.1", at.port(), args);
            assert!(text.contains(why), "{release} {args}: {text}");
        }
        // IPv6, on loopback.
        let v6 = if release == "6.1.2" { "-6" } else { "" };
        let text = nuttcp(&bin, "::1", at.port(), &format!("{v6} -p 7000 -u -R8m -T0.5 -fparse"));
        assert!(value(&text, "pkt") > 10.0, "{release}: {text}");
    }
}

#[test]
fn the_data_port_of_older_clients_is_a_door_as_well() {
    let _alone = alone();
    let (server, at) = serve(&["--iperf2=5001"]);
    for (release, bin) in programs("the_data_port_of_older_clients_is_a_door_as_well") {
        for args in ["-T0.5", "-u -R8m -l1000 -T0.5", "-T0.5 -N2"] {
            let run = || nuttcp(&bin, "127.0.0.1", at.port(), &format!("-fparse -p 5001 {args}"));
            let (text, _) = both(&server, run);
            assert!(value(&text, "megabytes") > 0.0, "{release} {args}: {text}");
        }
    }
    // The door is iperf 2's still.
    let ran = linerate(None, &["tcp", "127.0.0.1", "--dialect", "iperf2", "-n", "64K", "--json"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, server.log());
}

/// A test of ours against a server of this dialect.
fn ours(port: u16, args: &str) -> Value {
    let port = port.to_string();
    let all = ["--dialect", "nuttcp", "-p", &port, "--json"];
    let ran = linerate(None, &[&args.split(' ').collect::<Vec<_>>()[..], &all].concat());
    assert_eq!(ran.code, 0, "{args}: {}\n{}", ran.err, ran.out);
    let record = ran.record();
    assert_eq!(record["agreed"]["dialect"], "nuttcp", "{args}");
    record
}

/// The server says what came in each interval, which is nothing where a busy host has no core for the sender. A server
/// without a core may leave out the last; together they are all that came otherwise.
fn its_rows_add_up(record: &Value, who: &str) {
    let rows = record["intervals"].as_array().expect("intervals");
    let came: Vec<_> = rows.iter().map_while(|row| row.get("receiver")).collect();
    let sum = came.iter().map(|receiver| number(receiver, "datagrams")).sum::<u64>();
    let all = number(record, "totals.receiver.datagrams");
    assert!(!came.is_empty() && sum > 0, "{who}: {record}");
    assert!(sum == all || (sum < all && came.len() < rows.len()), "{who}: {record}");
}

/// What this client has of any server.
fn measures(port: u16, who: &str) {
    let udp = ours(port, "udp 127.0.0.1 -b 20M -l 1000 -k 2000");
    assert_eq!(number(&udp, "totals.sender.datagrams"), 2_000, "{who}");
    let came = number(&udp, "totals.receiver.datagrams") + number(&udp, "totals.receiver.lost");
    assert_eq!(came, 2_000, "{who}");
    let tcp = ours(port, "tcp 127.0.0.1 -n 3Mi -P 3");
    assert_eq!(number(&tcp, "totals.receiver.bytes"), 3 << 20, "{who}");
    let reverse = ours(port, "udp 127.0.0.1 -R -l 1000 -k 500 -b 8M");
    assert_eq!(number(&reverse, "totals.sender.datagrams"), 500, "{who}");
    let tcp = ours(port, "tcp 127.0.0.1 -R -P 2 -t 500ms");
    let (sent, received) = ("totals.sender.bytes", "totals.receiver.bytes");
    assert_eq!(number(&tcp, sent), number(&tcp, received), "{who}: {tcp}");
    assert!(number(&tcp, sent) > 0, "{who}");
    let rows = ours(port, "udp 127.0.0.1 -b 4M -l 500 -t 1500ms -i 500ms");
    its_rows_add_up(&rows, who);
    // Of several streams as well.
    let many = ours(port, "udp 127.0.0.1 -b 4M -l 500 -t 1500ms -i 500ms -P 3");
    let of = |name: &str| number(&many, &format!("totals.{name}"));
    let accounted = of("receiver.datagrams") + of("receiver.lost");
    assert_eq!(of("sender.datagrams"), accounted, "{who}: {many}");
    its_rows_add_up(&many, who);
    assert!(!many["doubts"].to_string().contains("carry no numbers"), "{who}: {many}");
    let many = ours(port, "udp 127.0.0.1 -R -l 1000 -k 501 -b 8M -P 7");
    assert_eq!(number(&many, "totals.sender.datagrams"), 501, "{who}");
    assert_eq!(number(&many, "totals.receiver.duplicates"), 0, "{who}");
}

#[test]
fn this_client_measures_with_the_real_servers() {
    let _alone = alone();
    for (release, bin) in programs("this_client_measures_with_the_real_servers") {
        let server = Theirs::start(&bin);
        measures(server.port, release);
    }
}

#[test]
fn both_ends_of_ours_count_the_same() {
    let _alone = alone();
    let (server, at) = serve(&[]);
    measures(at.port(), "ours");
    assert!(!server.log().contains("\"failed\""), "{}", server.log());
}

#[test]
fn what_nuttcp_cannot_do_is_refused_with_the_reason() {
    let _alone = alone();
    let (_server, at) = serve(&["--max-duration", "20s"]);
    let port = at.port().to_string();
    for (args, why) in [
        ("rr 127.0.0.1", "nuttcp has streams only"),
        ("tcp 127.0.0.1 --bidir", "nuttcp's tests have one"),
        ("udp 127.0.0.1 -b 1M -O 1s", "count from the first byte on"),
        ("tcp 127.0.0.1 -t 21s", "longer than this server's"),
    ] {
        let all = ["--dialect", "nuttcp", "-p", &port];
        let ran = linerate(None, &[&args.split(' ').collect::<Vec<_>>()[..], &all].concat());
        assert_ne!(ran.code, 0, "{args}: {}", ran.out);
        assert!(ran.err.contains(why), "{args}: {}", ran.err);
    }
}

#[test]
fn loss_is_what_a_packet_filter_dropped() {
    let _alone = alone();
    let test = "loss_is_what_a_packet_filter_dropped";
    if !Lab::possible(test) {
        return;
    }
    let lab = Lab::pair();
    let (server, at) = serve_in(Some(&lab.space("b")), &[]);
    // Every tenth datagram of data is dropped where it would arrive, in either direction.
    for which in ["a", "b"] {
        lab.nft(
            which,
            "flush ruleset
table inet truth {
    counter dropped { }
    chain ingress {
        type filter hook prerouting priority -300;
        udp length > 500 numgen inc mod 10 == 3 counter name dropped drop
    }
}
",
        );
    }
    for (release, bin) in programs(test) {
        for (args, where_it_drops) in [("-u", "b"), ("-u -r", "a"), ("-u -N3", "b")] {
            // And what the program without a core left its socket no room for.
            let lost = || {
                let no_room = lab.snmp(where_it_drops, "Udp", "RcvbufErrors");
                lab.counter(where_it_drops, "dropped").0 + no_room
            };
            let before = lost();
            let mut command = std::process::Command::new("ip");
            command.args(["netns", "exec", &lab.space("a"), "timeout", "60"]).arg(&bin);
            // So few that the program's socket has room for those of a third of a second, and the words of the end.
            let args = format!("{args} -i0.4 -R2m -l1000 -T1 -p 7000 -fparse");
            let mut text = String::new();
            let run = || {
                let (good, said) = attempt(&mut command, "10.77.1.2", at.port(), &args);
                assert!(good, "{release} {args}: {said}");
                text.clone_from(&said);
                said
            };
            let (_, end) = both(&server, run);
            let dropped = lost() - before;
            assert!(dropped > 0, "{release} {args}: {text}");
            assert_eq!(value(&text, "drop") as u64, dropped, "{release} {args}: {text}\n{end}");
        }
    }
}

/// What is left of `nuttcp -u -Ru -xc0` and `-xc1` side by side: two flows as fast as their cores, each bound to one, in
/// one record that has both cores.
#[test]
#[ignore = "long"]
fn two_flows_on_two_cores_show_what_each_core_did() {
    let _alone = alone();
    let test = "two_flows_on_two_cores_show_what_each_core_did";
    let cores = support::cores();
    let [one, two, ..] = cores[..] else {
        return support::skip(test, "this machine has one core");
    };
    if !Lab::possible(test) {
        return;
    }
    let lab = Lab::pair();
    for (release, bin) in programs(test) {
        let space = lab.space("b");
        let server = Theirs::start_in(Some(&space), &bin);
        let port = server.port.to_string();
        let on = format!("{one},{two}");
        let words = [
            "udp",
            "10.77.1.2",
            "--dialect",
            "nuttcp",
            "-p",
            &port,
            "-b",
            "max",
            "-l",
            "1448",
            "-P",
            "2",
            "--cpu",
            &on,
            "-t",
            "2s",
            "--json",
        ];
        let ran = linerate(Some(&lab.space("a")), &words);
        assert_eq!(ran.code, 0, "{release}: {}\n{}", ran.err, ran.out);
        let record = ran.record();
        assert_eq!(record["streams"].as_array().map(Vec::len), Some(2), "{release}: {record}");
        for (stream, core) in [(0, one), (1, two)] {
            let sender = &record["streams"][stream]["sender"];
            assert!(number(sender, "datagrams") > 1_000, "{release}: {sender}");
            assert_eq!(number(sender, "cpu.core"), core as u64, "{release}: {sender}");
            for share in ["thread_percent", "core_percent"] {
                let share = sender["cpu"][share].as_f64().expect("a share");
                assert!((1.0..=101.0).contains(&share), "{release}: {sender}");
            }
            let of_core = &record["streams"][stream]["receiver"];
            assert!(number(of_core, "datagrams") > 0, "{release}: {of_core}");
        }
        // What came is no more than was sent, and what is missing is lost.
        let of = |name: &str| number(&record, &format!("totals.{name}"));
        assert_eq!(
            of("sender.datagrams"),
            of("receiver.datagrams") + of("receiver.lost"),
            "{release}"
        );
    }
}

/// The same under nuttcp's own name, as its users have it: two clients, each on a core and ports of its own.
#[test]
#[ignore = "long"]
fn two_clients_by_nuttcps_command_line_run_on_two_cores() {
    let _alone = alone();
    let test = "two_clients_by_nuttcps_command_line_run_on_two_cores";
    let cores = support::cores();
    let [one, two, ..] = cores[..] else {
        return support::skip(test, "this machine has one core");
    };
    for (release, bin) in programs(test) {
        let servers = [Theirs::start(&bin), Theirs::start(&bin)];
        let clients =
            servers.iter().zip([(one, two, "7100"), (two, one, "7200")]).map(|(server, ends)| {
                let (here, there, data) = ends;
                // 6.1.2 cannot be asked for a core.
                let core = match release {
                    "6.1.2" => format!("-xc{here}"),
                    _ => format!("-xc{here}/{there}"),
                };
                let port = server.port.to_string();
                let words = [
                    "nuttcp",
                    "-u",
                    "-Ru",
                    "-l1400",
                    "-T2",
                    "--json",
                    &core,
                    "-p",
                    data,
                    "-P",
                    &port,
                    "127.0.0.1",
                ];
                support::Client::start(None, &words)
            });
        let clients: Vec<_> = clients.collect();
        for (client, core) in clients.into_iter().zip([one, two]) {
            let ran = client.end();
            assert_eq!(ran.code, 0, "{release}: {}", ran.err);
            let record = ran.record();
            let sender = &record["streams"][0]["sender"];
            assert!(number(&record, "totals.receiver.datagrams") > 1_000, "{release}: {record}");
            assert_eq!(number(sender, "cpu.core"), core as u64, "{release}: {sender}");
            let share = sender["cpu"]["core_percent"].as_f64().expect("a share");
            assert!((1.0..=101.0).contains(&share), "{release}: {sender}");
        }
    }
}
