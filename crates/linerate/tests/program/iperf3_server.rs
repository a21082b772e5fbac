//! Debian's iperf3, unmodified, against `linerate serve`: both sides must agree, and end well.

use crate::support::iperf3::{Ended, Iperf3, possible};
use crate::support::{Lab, Server, alone, cores, list, long, number};
use serde_json::Value;

const B: &str = "10.77.1.2";

/// What the two sides must agree on in a document.
fn agree(ended: &Ended) {
    let document = ended.document();
    let args = &ended.args;
    let streams = list(&document["end"]["streams"]);
    assert!(!streams.is_empty(), "{args}");
    for stream in streams {
        if args.contains("-u") {
            let udp = &stream["udp"];
            assert_eq!(udp["lost_packets"], 0, "{args}: {udp}");
            assert!(number(udp, "packets") > 0, "{args}: {udp}");
        } else {
            let (sent, received) =
                (number(stream, "sender.bytes"), number(stream, "receiver.bytes"));
            assert!(received > 0, "{args}: {stream}");
            let from_here = stream["sender"]["sender"] == true;
            if from_here && args.contains("-O 0") {
                assert_eq!(sent, received, "{args}: {stream}");
            } else if !from_here {
                // What the server had sent when the client had enough is with the server only.
                assert!(args.contains("-O 1") || sent >= received, "{args}: {stream}");
            }
        }
    }
}

#[test]
fn every_combination_of_an_unmodified_client() {
    let _alone = alone();
    if !possible("every_combination_of_an_unmodified_client") {
        return;
    }
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &[]);
    let (streams, omits): (&[u32], &[u32]) =
        if long() { (&[1, 2, 8], &[0, 1]) } else { (&[1, 8], &[0]) };
    let mut all = vec![];
    for protocol in ["-b 2M", "-u -b 1M -l 500 -w 1M"] {
        for direction in ["", "-R", "--bidir"] {
            for streams in streams {
                for omit in omits {
                    for format in ["", "-J"] {
                        all.push(format!(
                            "{protocol} {direction} -P {streams} -O {omit} -t 2 {format}"
                        ));
                    }
                }
            }
        }
    }
    assert_eq!(all.len(), if long() { 72 } else { 24 });
    for batch in all.chunks(12) {
        let clients: Vec<Iperf3> =
            batch.iter().map(|args| Iperf3::start(&lab.space("a"), B, server.port, args)).collect();
        for ended in clients.into_iter().map(Iperf3::end) {
            let ended = ended.well();
            if ended.args.contains("-J") {
                agree(&ended);
            }
        }
    }
}

#[test]
fn options_of_an_unmodified_client() {
    let _alone = alone();
    if !possible("options_of_an_unmodified_client") {
        return;
    }
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &[]);
    let core = cores().first().expect("a core").to_string();
    let clients: Vec<Iperf3> = [
        "-n 2M -b 20M -J",
        "-k 10 -b 20M -J",
        "-u -n 200K -b 5M -l 500 -J",
        // No more than a socket has room for: a client that counts waits for those that it lost.
        "-u -R -k 100 -b 5M -l 500 -J",
        "-t 1 -b 5M -w 128K -J",
        "-t 1 -b 5M -M 1000 -N -J",
        "-t 1 -b 5M -R -C cubic -Z -J",
        "-t 1 -b 5M -C reno -S 0xb8 -J",
        "-t 1 -u -b 2M/10 -R -l 200 --udp-counters-64bit --repeating-payload --dont-fragment -S 16 -J",
        "-t 1 -u -b 2M --udp-counters-64bit -l 16 -J",
        "-t 1 -b 5M -R --repeating-payload --fq-rate 4M -A CORE,CORE -J",
        "-t 1 -b 5M -T title --extra-data more -J",
        "-t 1 -b 100K -P 20 -l 1000 -J",
        "-t 1 -i 0.2 -b 5M --get-server-output",
    ]
    .iter()
    .map(|args| args.replace("CORE", &core))
    .map(|args| Iperf3::start(&lab.space("a"), B, server.port, &args))
    .collect();
    for ended in clients.into_iter().map(Iperf3::end) {
        ended.well();
    }
}

#[test]
fn bytes_of_the_omitted_time_are_counted_apart() {
    let _alone = alone();
    if !possible("bytes_of_the_omitted_time_are_counted_apart") {
        return;
    }
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &[]);
    let ended =
        Iperf3::start(&lab.space("a"), B, server.port, "-t 1 -O 1 -b 20M -l 1000 -J").end().well();
    let document = ended.document();
    let sent: u64 = list(&document["intervals"]).iter().map(|row| number(row, "sum.bytes")).sum();
    let log = server.says("\"ended\"", 1);
    let ended =
        log.lines().find(|line| line.contains("\"ended\"")).unwrap_or_else(|| panic!("{log}"));
    let ended: Value = serde_json::from_str(ended).expect("a line of JSON");
    let (measured, warmup) = (number(&ended, "received.bytes"), number(&ended, "received.warmup"));
    assert_eq!(measured + warmup, sent, "{log}");
    assert_eq!(measured, number(&document, "end.sum_received.bytes"));
    assert!(warmup > 0);
}

#[test]
fn loss_agrees_with_the_dropping_counter_to_the_datagram() {
    let _alone = alone();
    if !possible("loss_agrees_with_the_dropping_counter_to_the_datagram") {
        return;
    }
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &[]);
    let dropping = |port: &str| {
        format!(
            "add table inet t\nadd counter inet t dropped\n\
             add chain inet t c {{ type filter hook input priority 0; }}\n\
             add rule inet t c udp {port} {} udp length > 100 numgen random mod 100 == 0 counter name dropped drop\n",
            server.port
        )
    };
    // At the server: also what is lost at the very end of the test.
    for args in ["-u -t 2 -b 8M -l 500 -J", "-u -t 2 -b 3M -l 500 -P 3 -O 0 -J"] {
        lab.nft("b", &dropping("dport"));
        let before = lab.snmp("b", "Udp", "RcvbufErrors");
        let ended = Iperf3::start(&lab.space("a"), B, server.port, args).end().well();
        let document = ended.document();
        let dropped = lab.counter("b", "dropped").0;
        assert!(dropped > 0);
        // linerate's socket has room for a second and more; where it had no core for longer, that is lost as well.
        let no_room = lab.snmp("b", "Udp", "RcvbufErrors") - before;
        assert_eq!(number(&document, "end.sum.lost_packets"), dropped + no_room, "{args}");
        lab.run("b", "nft delete table inet t");
    }
    // At the client, which counts by itself and stops before the server does.
    lab.nft("a", &dropping("sport"));
    let ended =
        Iperf3::start(&lab.space("a"), B, server.port, "-u -R -t 2 -b 8M -l 500 -J").end().well();
    let document = ended.document();
    // What it has no core to read in time, its socket has no room for.
    let dropped = lab.counter("a", "dropped").0 + lab.snmp("a", "Udp", "RcvbufErrors");
    let lost = number(&document, "end.sum.lost_packets");
    assert!(lost > 0 && lost <= dropped, "{lost} {dropped}");
    // What the server sent after the last datagram that the client saw.
    let unseen =
        number(&document, "end.sum_sent.packets") - number(&document, "end.sum_received.packets");
    assert!(dropped <= lost + unseen, "{lost} {dropped} {unseen}");
}

#[test]
fn sixteen_clients_of_one_address_at_once() {
    let _alone = alone();
    if !possible("sixteen_clients_of_one_address_at_once") {
        return;
    }
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &[]);
    // All datagrams of a test fit into one receive buffer: a client of iperf3's loses none while others have its core.
    let kinds = ["-b 2M", "-u -b 200K -l 500 -P 2", "-R -b 2M", "-u -R -b 200K -l 500"];
    let clients: Vec<Iperf3> = (0..16)
        .map(|i| {
            let args = format!("{} -t 2 -O 0 -J", kinds[i % 4]);
            Iperf3::start(&lab.space("a"), B, server.port, &args)
        })
        .collect();
    for ended in clients.into_iter().map(Iperf3::end) {
        agree(&ended.well());
    }
    let log = server.says("\"ended\"", 16);
    assert_eq!(log.matches("\"started\"").count(), 16, "{log}");
}

#[test]
fn one_at_a_time_with_a_queue() {
    let _alone = alone();
    if !possible("one_at_a_time_with_a_queue") {
        return;
    }
    let lab = Lab::pair();
    let server = Server::start(Some(&lab.space("b")), &["--exclusive", "--queue", "1"]);
    let start = |args: &str| Iperf3::start(&lab.space("a"), B, server.port, args);
    let first = start("-t 12 -b 1M");
    server.says("\"started\"", 1);
    // There is one place to wait: whoever comes later is turned away.
    let others = [start("-t 1 -u -b 1M"), start("-t 1 -b 1M")].map(Iperf3::end);
    let (busy, waited): (Vec<_>, Vec<_>) = others.into_iter().partition(|ended| ended.code == 1);
    assert_eq!((busy.len(), waited.len()), (1, 1));
    assert!(busy[0].text.contains("server is busy"), "{}", busy[0].text);
    first.end().well();
    for ended in waited {
        ended.well();
    }
    let log = server.says("\"done", 2);
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let of_tests = events.filter(|event| event["event"] == "started" || event["outcome"] == "done");
    let events: Vec<_> = of_tests.map(|event| event["event"].clone()).collect();
    assert_eq!(events, ["started", "ended", "started", "ended"], "{log}");
}

#[test]
fn a_client_hears_why_it_is_refused() {
    let _alone = alone();
    if !possible("a_client_hears_why_it_is_refused") {
        return;
    }
    let lab = Lab::pair();
    let limits =
        ["--max-rate", "5M", "--max-duration", "20s", "--max-bytes", "1M", "--max-streams", "2"];
    let server = Server::start(Some(&lab.space("b")), &limits);
    for (args, words) in [
        ("-b 6M -t 1", "larger than server limit"),
        ("-b 1M -t 21", ""),
        ("-b 1M -n 2M", ""),
        ("-b 1M -P 3 -t 1", "parallel"),
    ] {
        let ended = Iperf3::start(&lab.space("a"), B, server.port, args).end();
        assert_eq!(ended.code, 1, "{args}: {}", ended.text);
        assert!(ended.text.contains(words), "{args}: {}", ended.text);
    }
    let log = server.says("\"refused\"", 4);
    // Of these a client of an older release has no words.
    for why in ["longer than this server's", "bytes are more than this server's 1000000"] {
        assert!(log.contains(why), "{why}: {log}");
    }
    Iperf3::start(&lab.space("a"), B, server.port, "-b 1M -t 1 -P 2").end().well();
}
