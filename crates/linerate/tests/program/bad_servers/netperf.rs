//! Servers of netperf's.

use std::io::Write;
use std::num::NonZeroU16;

use linerate_wire::netperf::{CpuShare, FRAME_BYTES, Response, Results};

use super::{Asks, Bad, Desk, Program, all_are_named};

const NETPERF: Program =
    Program { dialect: "netperf", face: &["netperf"], port: 12_865, data_port: 0, control: true };

const TCP: Asks = ("tcp HOST -n 1M", "-H HOST -l -1000000");
const BACK: Asks = ("tcp HOST -n 1M -R", "-H HOST -t TCP_MAERTS -l -1000000");
const TIMED_BACK: Asks = ("tcp HOST -t 1s -R", "-H HOST -t TCP_MAERTS -l 1");
/// No more than a socket has room for while others have its reader's core: the words of the end would be lost as well.
const UDP: Asks =
    ("udp HOST -t 1s -l 1000 -b 400k", "-H HOST -t UDP_STREAM -l 1 -b 5 -w 100 -- -m 1000");
const UDP_BACK: Asks =
    ("udp HOST -t 1s -l 1000 -b max -R", "-H HOST -t omni -l 1 -- -d recv -T udp -m 1000");
const RR: Asks = ("rr HOST -t 1s", "-H HOST -t TCP_RR -l -100");
const TIMED_RR: Asks = ("rr HOST -t 1s", "-H HOST -t TCP_RR -l 1");
const UDP_RR: Asks = ("rr HOST -t 1s --udp", "-H HOST -t UDP_RR -l 1");
/// A connection for each, which only netperf's own words ask for.
const CRR: Asks = ("rr HOST -t 1s", "-H HOST -t TCP_CRR -l 1");

/// A message with the header's two words, and data words.
fn frame(kind: u32, error: u32, words: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_BYTES];
    let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    put(0, kind);
    put(4, error);
    words.iter().for_each(|(n, word)| put(8 + 4 * n, *word));
    bytes
}

fn results(results: &Results) -> Vec<u8> {
    results.encode(0).bytes().to_vec()
}

/// What a real server says of a million bytes.
fn million() -> Results {
    Results { received: 1_000_000, receive_calls: 10, elapsed_ns: 10_000_000, ..Results::default() }
}

fn asked(d: &mut Desk) {
    d.hear(FRAME_BYTES);
}

fn answer(d: &mut Desk, measures_cpu: bool) {
    let data_port = NonZeroU16::new(d.port);
    let response = Response { data_port, measures_cpu, ..Response::default() };
    d.say(response.encode().bytes());
}

fn granted(d: &mut Desk) {
    asked(d);
    d.listen();
    answer(d, false);
}

fn granted_udp(d: &mut Desk) {
    asked(d);
    d.listen_udp();
    answer(d, false);
}

fn took(d: &mut Desk) {
    granted(d);
    d.accept();
    d.swallow();
    d.streams.clear();
}

/// Answers a request of one byte with so many.
fn respond(d: &mut Desk, times: usize, bytes: &[u8]) {
    let mut stream = &d.streams[0];
    for _ in 0..times {
        let _ = std::io::Read::read(&mut stream, &mut [0]);
        let _ = stream.write_all(bytes);
    }
}

/// Those that never get as far as a test.
static STRANGERS: &[Bad] = &[
    ("hangs up on what is asked", TCP, "server_lost", "closed the control connection", asked),
    ("breaks the connection", TCP, "server_lost or reset", "", |d| d.reset()),
    ("HTTP", TCP, "protocol", "no answer of netperf's", |d| {
        asked(d);
        d.say(b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(40));
        d.wait();
    }),
    ("hangs up in the middle of an answer", TCP, "server_lost", "closed the control", |d| {
        asked(d);
        d.say([0; 300]);
    }),
    ("speaks before it is asked", TCP, "protocol", "no answer of netperf's", |d| {
        d.say(frame(97, 0, &[]));
        d.wait();
    }),
    ("nothing but zeros", UDP, "protocol", "no answer of netperf's", |d| {
        asked(d);
        d.for_ever([0; FRAME_BYTES]);
    }),
    ("binary junk for ever", RR, "protocol", "no answer of netperf's", |d| {
        asked(d);
        d.for_ever([0xa5; 97]);
    }),
    ("answers as for the old tests", TCP, "protocol", "no answer of netperf's", |d| {
        asked(d);
        d.say(frame(11, 0, &[(6, 7_000)]));
        d.wait();
    }),
    ("says that it is not debugging", TCP, "protocol", "no answer of netperf's", |d| {
        asked(d);
        d.say(frame(3, 0, &[]));
        d.wait();
    }),
    ("messages of 2.5's length, and hangs up", TCP, "server_lost", "closed", |d| {
        d.hear(256);
        d.say([0; 256]);
    }),
    ("knows no such test", TCP, "protocol", "netperf error 998", |d| {
        asked(d);
        d.say(Response::refuse(998).bytes());
    }),
    ("is busy", UDP, "busy", "netperf error 16", |d| {
        asked(d);
        d.say(Response::refuse(16).bytes());
    }),
    ("does not want it", RR, "policy", "netperf error 1:", |d| {
        asked(d);
        d.say(Response::refuse(1).bytes());
    }),
    ("allows no more", TCP, "policy", "netperf error 122", |d| {
        asked(d);
        d.say(Response::refuse(122).bytes());
        d.wait();
    }),
    ("has no port left", TCP, "unable", "netperf error 98", |d| {
        asked(d);
        d.say(Response::refuse(98).bytes());
    }),
    ("an error that nobody knows", BACK, "unable", "netperf error 4294967295", |d| {
        asked(d);
        d.say(Response::refuse(u32::MAX).bytes());
        d.wait();
    }),
    ("names no port", TCP, "server_lost or protocol", "named no port", |d| {
        asked(d);
        d.say(Response::default().encode().bytes());
        d.wait();
    }),
    ("names a port that cannot be", UDP, "server_lost or protocol", "named no port", |d| {
        asked(d);
        d.say(frame(98, 0, &[(11, 70_000)]));
        d.wait();
    }),
    ("names a port below none", UDP, "server_lost or protocol", "named no port", |d| {
        asked(d);
        d.say(frame(98, 0, &[(11, u32::MAX)]));
        d.wait();
    }),
];

/// Those whose data connections are none.
static STREAMS: &[Bad] = &[
    ("has a closed data port", TCP, "refused or tcp_stream", "refused", |d| {
        asked(d);
        // Nobody listens there.
        d.port = 9;
        answer(d, false);
        d.wait();
    }),
    ("has a closed data port of UDP", UDP, "server_lost", "", |d| {
        asked(d);
        d.port = 9;
        answer(d, false);
        std::thread::sleep(std::time::Duration::from_millis(500));
    }),
    ("hangs up once it has agreed", BACK, "server_lost or stream or tcp_stream", "", |d| {
        granted(d);
        d.accept();
    }),
    ("closes the data at once", TCP, "stream or server_lost", "", |d| {
        granted(d);
        d.accept();
        d.streams.clear();
    }),
    ("breaks the data", TCP, "stream or server_lost", "", |d| {
        granted(d);
        d.accept();
        d.reset_data();
    }),
    ("leaves the data to a third party", TCP, "complete", "", |d| {
        took(d);
        d.say(results(&Results::default()));
    }),
    ("breaks its own data", BACK, "stream or server_lost", "", |d| {
        granted(d);
        d.accept();
        d.data(1_000);
        d.reset_data();
    }),
    ("sends no data and has results", BACK, "server_lost", "sent less than was asked for", |d| {
        granted(d);
        d.accept();
        d.streams.clear();
        d.say(results(&Results::default()));
        d.wait();
    }),
    ("closes the data of requests", RR, "stream or server_lost", "", |d| {
        granted(d);
        d.accept();
        respond(d, 10, &[7]);
        d.streams.clear();
    }),
    ("answers with more than was asked", TIMED_RR, "stream or protocol or complete", "", |d| {
        granted(d);
        d.accept();
        respond(d, 10, &[7; 100]);
        d.streams.clear();
        d.say(results(&Results { transactions: 10, ..Results::default() }));
    }),
    ("closes each connection unanswered", CRR, "stream or server_lost", "", |d| {
        granted(d);
        while crate::support::wait_for(std::time::Duration::from_secs(1), || {
            d.listener.as_ref().is_some_and(|port| port.accept().is_ok())
        }) {}
    }),
];

/// Those whose figures are none.
static RESULTS: &[Bad] = &[
    ("has no results", TCP, "server_lost", "closed the control connection", took),
    ("cuts its results short", TCP, "server_lost", "closed the control connection", |d| {
        took(d);
        d.say(&results(&million())[..100]);
    }),
    ("results that are none", TCP, "protocol", "no answer of netperf's", |d| {
        took(d);
        d.say(vec![b'x'; FRAME_BYTES]);
        d.wait();
    }),
    ("an error instead of results", TCP, "server_lost or server_error", "netperf error 5", |d| {
        took(d);
        d.say(Results::default().encode(5).bytes());
    }),
    ("its time was over", TCP, "server_stopped", "netperf error 62", |d| {
        took(d);
        d.say(Results::default().encode(62).bytes());
    }),
    ("more than was sent", TCP, "accounting", "received 2000000 of 1000000 bytes", |d| {
        took(d);
        d.say(results(&Results { received: 2_000_000, ..million() }));
    }),
    ("more than there is", TCP, "accounting", "of 1000000 bytes", |d| {
        took(d);
        d.say(results(&Results { received: u64::MAX, receive_calls: u32::MAX, ..million() }));
    }),
    ("a time that is no number", TCP, "complete", "", |d| {
        took(d);
        // NaN, and then what a netserver leaves there.
        let nan = f32::NAN.to_bits();
        d.say(frame(0x6200_0000, 0, &[(1, 1_000_000), (10, nan), (11, nan), (21, nan)]));
    }),
    ("a CPU of thousands of cores", TCP, "complete", "", |d| {
        asked(d);
        d.listen();
        answer(d, true);
        d.accept();
        d.swallow();
        let cpu = CpuShare {
            cpus: u32::MAX,
            busy: u32::MAX,
            peak: (u32::MAX, 7),
            ..million().cpu.unwrap_or_default()
        };
        d.say(results(&Results { cpu: Some(cpu), ..million() }));
    }),
    ("two results that contradict", TCP, "complete", "", |d| {
        took(d);
        d.say(results(&million()));
        d.say(results(&Results { received: 7, ..million() }));
    }),
    ("results before the data", TCP, "complete", "", |d| {
        granted(d);
        d.say(results(&million()));
        d.accept();
        d.swallow();
    }),
    ("its port twice", TCP, "accounting", "of 1000000 bytes", |d| {
        granted(d);
        answer(d, false);
        d.accept();
        d.swallow();
        d.wait();
    }),
    ("more datagrams than were sent", UDP, "complete", "", |d| {
        granted_udp(d);
        d.take(<[u8]>::is_empty);
        let received = 1_000_000_000;
        d.say(results(&Results { received, receive_calls: 1_000_000, ..million() }));
    }),
    ("no datagram at all", UDP, "complete", "", |d| {
        granted_udp(d);
        d.take(<[u8]>::is_empty);
        d.say(results(&Results::default()));
    }),
    ("sends less than it says", BACK, "server_lost", "sent less than was asked for", |d| {
        granted(d);
        d.accept();
        d.data(1_000);
        d.streams.clear();
        d.say(results(&Results { sent: 1_000_000, send_calls: 7, ..Results::default() }));
    }),
    ("sends more than it says", BACK, "complete", "", |d| {
        granted(d);
        d.accept();
        d.data(1_000_000);
        d.streams.clear();
        d.say(results(&Results { sent: 1_000, send_calls: 7, ..Results::default() }));
    }),
    ("sends more than was asked for", BACK, "protocol", "more than was asked for", |d| {
        granted(d);
        d.accept();
        d.data_for_ever();
    }),
    ("answered more than was asked", RR, "complete or stream", "", |d| {
        granted(d);
        d.accept();
        respond(d, 100, &[7]);
        let transactions = u32::MAX;
        d.say(results(&Results { transactions, elapsed_ns: 1, ..Results::default() }));
    }),
];

/// Those that a client waits for as long as it waits for any.
static SILENT: &[Bad] = &[
    ("is silent from the start", TCP, "server_lost", "no answer within 15s", Desk::wait),
    ("is silent in the middle of an answer", UDP, "server_lost", "no answer within", |d| {
        asked(d);
        d.say([0; 300]);
        d.wait();
    }),
    ("sends messages of 2.5's length", TCP, "server_lost", "netperf up to 2.5", |d| {
        d.hear(256);
        d.say([0; 256]);
        d.wait();
    }),
    ("takes the data and is silent", TCP, "server_lost", "results did not come", |d| {
        took(d);
        d.wait();
    }),
    ("sends nothing", TIMED_BACK, "server_lost or stream", "", |d| {
        granted(d);
        d.accept();
        d.wait();
    }),
    ("sends on after its time", TIMED_BACK, "server_lost or stream", "", |d| {
        granted(d);
        d.accept();
        d.data_for_ever();
    }),
    ("sends no datagrams", UDP_BACK, "server_lost or udp_blocked", "", |d| {
        granted_udp(d);
        d.wait();
    }),
    ("answers no request", TIMED_RR, "server_lost or stream", "", |d| {
        granted(d);
        d.accept();
        d.wait();
    }),
    ("answers no datagram", UDP_RR, "server_lost or stream", "", |d| {
        granted_udp(d);
        d.wait();
    }),
];

#[test]
fn bad_servers_of_netperfs_are_named_and_left() {
    let all = [STRANGERS, STREAMS, RESULTS].concat();
    assert!(all.len() >= 40);
    all_are_named(&NETPERF, &all);
}

#[test]
#[ignore = "long"]
fn silent_servers_of_netperfs_are_named_and_left() {
    all_are_named(&NETPERF, SILENT);
}
