//! Servers of iperf 2's, which have no control connection: each stream is a test of its own.

use linerate_wire::iperf2::datagram::Mark;
use linerate_wire::iperf2::{Ack, HEADER_BYTES, Report};

use super::{Asks, Bad, Desk, PATIENT, Program, all_are_named};

const IPERF2: Program = Program {
    dialect: "iperf2",
    face: &["iperf", "-c"],
    port: 5_001,
    data_port: 0,
    control: false,
};

const TCP: Asks = ("tcp HOST -n 1Mi", "HOST -n 1M");
const TIMED: Asks = ("tcp HOST -t 500ms", "HOST -t 0.5");
/// More than there is room for on its way.
const MUCH: Asks = ("tcp HOST -n 1Gi", "HOST -n 1G");
const BACK: Asks = ("tcp HOST -n 1Mi -R", "HOST -n 1M -R");
const TIMED_BACK: Asks = ("tcp HOST -t 500ms -R", "HOST -t 0.5 -R");
const UDP: Asks = ("udp HOST -k 20 -l 1000 -b 8M", "HOST -u -n 20000 -l 1000 -b 8M");
/// Half a second of them: amounts leave however long others keep their sender from its core.
const LONG_UDP: Asks = ("udp HOST -k 500 -l 1000 -b 8M", "HOST -u -n 500000 -l 1000 -b 8M");
const UDP_BACK: Asks = ("udp HOST -k 20 -l 1000 -b 8M -R", "HOST -u -n 20000 -l 1000 -b 8M -R");
const UDP_TIMED_BACK: Asks =
    ("udp HOST -t 500ms -l 1000 -b 8M -R", "HOST -u -t 0.5 -l 1000 -b 8M -R");

const ACK: Ack = Ack { version: (0x0002_0001, 0x0008_0003), times_ns: None };

/// A server's datagram of data.
fn data(number: i64) -> Vec<u8> {
    let mut datagram = vec![0; 1_000];
    Mark { number, sent_ns: 0 }.write(&mut datagram);
    datagram
}

/// What a real server says of twenty datagrams of a thousand bytes, the one that ends them counted.
fn twenty() -> Report {
    Report { bytes: 21_000, span_ns: 20_000_000, datagrams: 21, ..Report::default() }
}

/// Over TCP: what the stream is, and that somebody is here.
fn acked(d: &mut Desk) {
    d.hear(HEADER_BYTES);
    d.say(ACK.encode());
}

/// Until the client's datagram that ends its stream.
fn took_udp(d: &mut Desk) {
    d.take(|datagram| Mark::read(true, datagram).is_some_and(|mark| mark.number < 0));
}

/// The first datagram, which asks for others.
fn begged(d: &mut Desk) {
    d.take(|_| true);
}

/// The port stays: one that is closed answers a client that has just asked again, and does not hear what came before.
fn stay(d: &mut Desk) {
    d.take(|_| false);
}

/// Over TCP.
static TCPS: &[Bad] = &[
    ("hangs up on the header", TCP, "connect", "hung up", |d| d.hear(HEADER_BYTES)),
    ("breaks the connection", TCP, "connect or reset or tcp_stream", "", |d| d.reset()),
    ("HTTP", TCP, "connect", "does not answer as iperf 2", |d| {
        d.hear(HEADER_BYTES);
        d.say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        d.wait();
    }),
    ("SSH", TCP, "connect", "does not answer as iperf 2", |d| {
        d.say("SSH-2.0-OpenSSH_9.7 Debian-4 or another\r\n");
        d.wait();
    }),
    ("nothing but zeros", TIMED, "connect", "does not answer as iperf 2", |d| {
        d.for_ever([0; 28]);
    }),
    ("a word cut short", TCP, "connect", "hung up", |d| {
        d.hear(HEADER_BYTES);
        d.say(&ACK.encode()[..10]);
    }),
    ("a word of another kind", TCP, "connect", "does not answer as iperf 2", |d| {
        d.hear(HEADER_BYTES);
        let mut ack = ACK.encode();
        ack[3] = 3;
        d.say(ack);
        d.wait();
    }),
    ("a word shorter than itself", TCP, "connect", "does not answer as iperf 2", |d| {
        d.hear(HEADER_BYTES);
        let mut ack = ACK.encode();
        ack[7] = 1;
        d.say(ack);
        d.wait();
    }),
    ("a release of its own", TCP, "complete", "", |d| {
        d.hear(HEADER_BYTES);
        d.say(Ack { version: (u32::MAX, 0), ..ACK }.encode());
        d.wait();
    }),
    ("a longer word than there is", TCP, "complete", "", |d| {
        d.hear(HEADER_BYTES);
        let mut ack = ACK.encode();
        ack[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        d.say(ack);
        d.wait();
    }),
    ("hangs up once it has answered", MUCH, "stream", "", acked),
    ("breaks the stream", MUCH, "stream", "", |d| {
        acked(d);
        d.reset();
    }),
    ("talks on while it receives", TCP, "complete", "", |d| {
        acked(d);
        d.say([7; 1_000]);
        d.wait();
    }),
    ("sends nothing back", BACK, "server_lost", "sent less than was asked for", |d| {
        d.hear(HEADER_BYTES)
    }),
    ("sends less than was asked for", BACK, "server_lost", "sent less than was asked for", |d| {
        d.hear(HEADER_BYTES);
        d.say(vec![7; 1_000]);
    }),
    ("breaks off what it sends", BACK, "stream", "", |d| {
        d.hear(HEADER_BYTES);
        d.say(vec![7; 1_000]);
        d.reset();
    }),
    ("sends more than was asked for", BACK, "protocol", "more than was asked for", |d| {
        d.hear(HEADER_BYTES);
        d.for_ever([7; 1_000]);
    }),
];

/// Over UDP.
static UDPS: &[Bad] = &[
    ("is not there", UDP, "server_lost", "did not come", |d| d.udp = None),
    ("has no report", UDP, "server_lost", "report", |d| took_udp(d)),
    ("a report of a byte", UDP, "server_lost", "report", |d| {
        took_udp(d);
        d.datagram([0]);
    }),
    ("a report cut short", UDP, "server_lost", "report", |d| {
        took_udp(d);
        d.datagram(&twenty().encode()[..50]);
    }),
    ("the client's own datagram", UDP, "server_lost", "report", |d| {
        took_udp(d);
        d.datagram(data(-21));
    }),
    ("a report that is none", UDP, "server_lost", "report", |d| {
        took_udp(d);
        d.datagram([0; 128]);
        d.datagram([0xff; 128]);
    }),
    ("a report by a third party", UDP, "server_lost", "report", |d| {
        took_udp(d);
        let client = d.client.expect("a client");
        let third = std::net::UdpSocket::bind(("127.0.9.9", 0)).expect("a port");
        let _ = third.send_to(&twenty().encode(), client);
    }),
    ("a report before the end", LONG_UDP, "complete", "", |d| {
        begged(d);
        d.datagram(twenty().encode());
        took_udp(d);
    }),
    ("more datagrams than were sent", UDP, "complete", "", |d| {
        took_udp(d);
        d.datagram(Report { datagrams: u64::MAX, bytes: u64::MAX, ..twenty() }.encode());
    }),
    ("more lost than were sent", UDP, "complete", "", |d| {
        took_udp(d);
        d.datagram(Report { lost: u64::MAX, jitter_ns: u64::MAX, ..twenty() }.encode());
    }),
    ("no time at all", UDP, "complete", "", |d| {
        took_udp(d);
        d.datagram(Report { span_ns: 0, ..twenty() }.encode());
    }),
    ("two reports that contradict", UDP, "complete", "", |d| {
        took_udp(d);
        d.datagram(twenty().encode());
        d.datagram(Report { lost: 7, ..twenty() }.encode());
    }),
    (
        "is asked for data, and says only that it ends",
        UDP_BACK,
        "server_lost",
        "sent less than was asked for",
        |d| {
            begged(d);
            d.datagram(data(-1));
            stay(d);
        },
    ),
    ("an end of more than there is", UDP_BACK, "complete or accounting", "", |d| {
        begged(d);
        (1..=20).for_each(|number| d.datagram(data(number)));
        d.datagram(data(i64::MIN));
        stay(d);
    }),
    ("numbers that are none", UDP_BACK, "complete or accounting", "", |d| {
        begged(d);
        for number in [0, 1, i64::MAX, 1 << 62, 2, 1] {
            d.datagram(data(number));
        }
        d.datagram(data(-21));
        stay(d);
    }),
    ("datagrams without numbers", UDP_BACK, "complete or accounting or server_lost", "", |d| {
        begged(d);
        for bytes in [0, 1, 15, 1_000, 60_000] {
            d.datagram(vec![0xff; bytes]);
        }
        d.datagram(data(-21));
        stay(d);
    }),
    ("datagrams without end", UDP_BACK, "protocol", "more than was asked for", |d| {
        begged(d);
        d.datagrams_for_ever(data(1));
    }),
];

/// Those that a client waits for as long as it waits for any.
static SILENT: &[Bad] = &[
    ("is silent", TCP, "connect", "does not answer", Desk::wait),
    ("is silent after half a word", TCP, "connect", "does not answer", |d| {
        d.hear(HEADER_BYTES);
        d.say(&ACK.encode()[..10]);
        d.wait();
    }),
    ("answers byte by byte", TCP, "connect", "does not answer", |d| {
        d.hear(HEADER_BYTES);
        for byte in ACK.encode() {
            d.say([byte]);
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        d.wait();
    }),
    ("answers, then never reads", MUCH, "server_lost", "nothing moved", |d| {
        acked(d);
        std::thread::sleep(PATIENT);
    }),
    ("sends nothing and stays", TIMED_BACK, "server_lost", "no data came", |d| {
        d.hear(HEADER_BYTES);
        d.wait();
    }),
    ("stops to send and stays", BACK, "server_lost", "no data came", |d| {
        d.hear(HEADER_BYTES);
        d.say(vec![7; 1_000]);
        d.wait();
    }),
    ("sends on after its time", TIMED_BACK, "server_lost", "did not end in time", |d| {
        d.hear(HEADER_BYTES);
        d.for_ever([7; 1_000]);
    }),
    ("is asked for data, and sends none", UDP_BACK, "connect", "does not answer", |d| {
        begged(d);
        stay(d);
    }),
    ("sends datagrams on after its time", UDP_TIMED_BACK, "server_lost", "did not end", |d| {
        begged(d);
        d.datagrams_for_ever(data(1));
    }),
];

#[test]
fn bad_servers_of_iperf_2s_are_named_and_left() {
    let all = [TCPS, UDPS].concat();
    assert!(all.len() >= 30);
    all_are_named(&IPERF2, &all);
}

#[test]
#[ignore = "long"]
fn silent_servers_of_iperf_2s_are_named_and_left() {
    all_are_named(&IPERF2, SILENT);
}
