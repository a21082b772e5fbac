//! Servers of nuttcp's.

use std::io::Write;
use std::net::Ipv4Addr;

use super::{Asks, Bad, Desk, Program, all_are_named};

const NUTTCP: Program =
    Program { dialect: "nuttcp", face: &["nuttcp"], port: 5_000, data_port: 5_101, control: true };

const TCP: Asks = ("tcp HOST -n 1Mi", "-n1m HOST");
const TIMED: Asks = ("tcp HOST -t 200ms", "-T0.2 HOST");
const BACK: Asks = ("tcp HOST -n 1Mi -R", "-r -n1m HOST");
const TIMED_BACK: Asks = ("tcp HOST -t 200ms -R", "-r -T0.2 HOST");
const TWO_BACK: Asks = ("tcp HOST -n 1Mi -R -P 2", "-r -N2 -n1m HOST");
const UDP: Asks = ("udp HOST -k 20 -l 1000 -b 8M", "-u -n20 -l1000 -R8m HOST");
const UDP_BACK: Asks = ("udp HOST -k 20 -l 1000 -b 8M -R", "-u -r -n20 -l1000 -R8m HOST");
const UDP_TIMED_BACK: Asks = ("udp HOST -t 200ms -l 1000 -b 8M -R", "-u -r -T0.2 -l1000 -R8m HOST");

/// What a real server says of a mebibyte, and of twenty datagrams.
const MEBIBYTE: &str = "1.0000 MB in 0.20 real seconds = 5120.00 KB/sec = 41.9430 Mbps\n";
const TWENTY: &str = "0.0191 MB in 0.02 real seconds = 976.56 KB/sec = 8.0000 Mbps\n";

/// The client's greeting, this one's, and what the client asks for.
fn asked(d: &mut Desk) {
    d.hear_line();
    d.say("HELO nuttcp v8.2.2\n");
    let line = d.hear_line();
    let port = line.split(',').find_map(|field| field.trim().strip_prefix("port = "));
    d.port = port.and_then(|port| port.parse().ok()).expect("a port");
}

/// Up to the consent to a test in which the client sends over TCP, or receives.
fn granted(d: &mut Desk) {
    asked(d);
    d.listen();
    d.say("OK v8.2.2\n");
}

/// The same where it sends datagrams.
fn granted_udp(d: &mut Desk) {
    asked(d);
    d.listen_udp();
    d.say("OK v8.2.2\n");
}

/// The same, and all data has come.
fn took(d: &mut Desk) {
    granted(d);
    d.accept();
    d.swallow();
}

fn took_udp(d: &mut Desk) {
    granted_udp(d);
    d.take(|datagram| datagram == b"EOD1");
}

/// A mebibyte to a client that receives.
fn gave(d: &mut Desk) {
    granted(d);
    d.connect();
    d.data(1 << 20);
    d.streams.clear();
}

/// Up to the beginning of datagrams to a client that receives.
fn began_udp(d: &mut Desk) {
    asked(d);
    let port = std::mem::replace(&mut d.port, 0);
    d.listen_udp();
    d.port = port;
    d.say("OK v8.2.2\n");
    d.datagram(b"BOD1");
}

/// The same, datagrams and their end.
fn gave_udp(d: &mut Desk, datagram: &[u8], times: u32) {
    began_udp(d);
    for _ in 0..times {
        d.datagram(datagram);
    }
    for end in [b"EOD0", b"EOD1"] {
        d.datagram(end);
    }
}

fn results(d: &mut Desk, letter: char, line: &str) {
    d.say(format!("nuttcp-{letter}: {line}"));
}

/// Those that never get as far as a test.
static STRANGERS: &[Bad] = &[
    ("hangs up on the greeting", TCP, "server_lost", "closed the control connection", |d| {
        d.hear_line();
    }),
    ("breaks the connection", TCP, "server_lost or reset", "", |d| d.reset()),
    ("HTTP", TCP, "protocol", "no line of nuttcp's", |d| {
        d.hear_line();
        d.say("HTTP/1.1 400 Bad Request\r\n\r\n");
        d.wait();
    }),
    ("SSH", UDP, "protocol", "no line of nuttcp's", |d| {
        d.say("SSH-2.0-OpenSSH_9.7\r\n");
        d.wait();
    }),
    ("binary junk", TCP, "protocol", "no line of nuttcp's", |d| {
        d.say(b"\xff\xfe\x00\x01\n\xff\n");
        d.wait();
    }),
    ("a line without an end", TCP, "protocol", "no line of nuttcp's", |d| {
        d.say(vec![b'a'; 10_000]);
        d.wait();
    }),
    ("a line that never ends", BACK, "protocol", "no line of nuttcp's", |d| d.for_ever("HELO")),
    ("a line cut short", TCP, "server_lost", "closed the control connection", |d| {
        d.hear_line();
        d.say("HELO nut");
    }),
    ("another program's greeting", TCP, "protocol", "no line of nuttcp's", |d| {
        d.say("HELO iperf v2.1.8\n");
        d.wait();
    }),
    ("a greeting of no release", TCP, "protocol", "no line of nuttcp's", |d| {
        d.say("HELO nuttcp v\n");
        d.wait();
    }),
    ("a release that colours the screen", TCP, "protocol", "no line of nuttcp's", |d| {
        d.say("HELO nuttcp v8\x1b[2J\n");
        d.wait();
    }),
    ("consent before the greeting", TCP, "protocol", "no line of nuttcp's", |d| {
        d.say("OK v8.2.2\n");
        d.wait();
    }),
    ("hangs up on what is asked", UDP, "server_lost", "closed the control connection", asked),
    ("greets twice", TCP, "protocol", "no line of nuttcp's", |d| {
        asked(d);
        d.say("HELO nuttcp v8.2.2\n");
        d.wait();
    }),
    ("results instead of consent", BACK, "protocol", "no line of nuttcp's", |d| {
        asked(d);
        results(d, 't', MEBIBYTE);
        d.wait();
    }),
    ("the third release, which knows less", TCP, "policy", "error scanning parameters", |d| {
        d.hear_line();
        d.say("HELO nuttcp v3.4.5\n");
        d.hear_line();
        d.say("KO\nnuttcp-r: v3.4.5: Error: error scanning parameters\nKO\n");
    }),
    ("the ninety-ninth, which is silent on it", TCP, "server_lost", "closed", |d| {
        d.hear_line();
        d.say("HELO nuttcp v99.0.0\n");
        d.hear_line();
    }),
    ("refuses", TCP, "policy", "no tests today", |d| {
        asked(d);
        d.say("KO\nno tests today\nKO\n");
    }),
    ("refuses and does not hang up", UDP, "policy", "no tests today", |d| {
        asked(d);
        d.say("KO\nno tests today\nKO\n");
        d.wait();
    }),
    ("refuses as busy", TCP, "busy", "server is busy", |d| {
        asked(d);
        d.say("KO\nserver is busy\nKO\n");
    }),
    ("refuses without a reason", TCP, "policy", "did not say why", |d| {
        asked(d);
        d.say("KO\nKO\n");
    }),
    ("refuses, and hangs up in the middle", TCP, "policy", "no tests", |d| {
        asked(d);
        d.say("KO\nno tests\n");
    }),
    ("refuses, and has no end of reasons", TCP, "policy", "because", |d| {
        asked(d);
        d.say("KO\n");
        d.for_ever("because\n");
    }),
    ("refuses with a reason without an end", TCP, "protocol", "no line of nuttcp's", |d| {
        asked(d);
        d.say("KO\n");
        d.for_ever("because ");
    }),
];

/// Those whose data connections are none.
static STREAMS: &[Bad] = &[
    ("hangs up once it has agreed", TIMED, "server_lost or tcp_stream or stream", "", granted),
    ("has a closed data port", TCP, "refused or tcp_stream", "refused", |d| {
        asked(d);
        d.say("OK v8.2.2\n");
        d.wait();
    }),
    ("closes the data at once, and hangs up", TIMED, "server_lost or stream", "", |d| {
        granted(d);
        d.accept();
        d.streams.clear();
    }),
    ("breaks the data, and hangs up", TIMED, "server_lost or stream", "", |d| {
        granted(d);
        d.accept();
        d.reset_data();
    }),
    ("never reads the data, and hangs up", TIMED, "server_lost", "closed", |d| {
        granted(d);
        d.accept();
        d.listener = None;
        // The client's own end.
        std::thread::sleep(std::time::Duration::from_millis(400));
    }),
    ("leaves the data to a third party", TCP, "complete", "", |d| {
        // Whoever has the port takes all of it; the server has had none, and says so.
        took(d);
        results(d, 'r', "0.0000 MB in 0.20 real seconds = 0.00 KB/sec = 0.0000 Mbps\n");
    }),
    ("lets a third party come first", BACK, "complete", "", |d| {
        granted(d);
        d.connect_from(Ipv4Addr::new(127, 0, 9, 9));
        d.streams.clear();
        d.connect();
        d.data(1 << 20);
        d.streams.clear();
        results(d, 't', MEBIBYTE);
    }),
    ("hangs up before its data", BACK, "server_lost", "closed", granted),
    ("closes its data at once", BACK, "server_lost or stream", "", |d| {
        granted(d);
        d.connect();
        d.streams.clear();
    }),
    ("breaks its data", BACK, "stream or server_lost", "", |d| {
        granted(d);
        d.connect();
        d.data(1_000);
        d.reset_data();
    }),
    ("says that there is no data", TIMED, "server_lost or server_stopped", "", |d| {
        // The urgent byte, with which a real one gives up.
        granted(d);
        d.accept();
        let _ = nix::sys::socket::send(
            std::os::fd::AsRawFd::as_raw_fd(d.stream()),
            b"A",
            nix::sys::socket::MsgFlags::MSG_OOB,
        );
    }),
    ("reports an error of its own", TCP, "server_stopped", "recv: no memory", |d| {
        took(d);
        results(d, 'r', "Error: recv: no memory\n");
    }),
    ("talks back on the data connection", TCP, "complete", "", |d| {
        granted(d);
        d.accept();
        let _ = d.streams[0].write_all(&[7; 1_000]);
        d.swallow();
        results(d, 'r', MEBIBYTE);
    }),
];

/// Those whose figures are none.
static RESULTS: &[Bad] = &[
    ("has no results", TCP, "server_lost", "closed the control connection", took),
    ("has no results of datagrams", UDP, "server_lost", "closed", took_udp),
    ("cuts its results short", TCP, "server_lost", "closed", |d| {
        took(d);
        results(d, 'r', "1.0000 MB in 0.20 real sec");
    }),
    ("results that are no text", TCP, "protocol", "no line of nuttcp's", |d| {
        took(d);
        d.say(b"nuttcp-r: \xff\xff\n");
        d.wait();
    }),
    ("results in a line that never ends", TCP, "protocol", "no line of nuttcp's", |d| {
        took(d);
        d.for_ever("1.0000 MB ");
    }),
    ("results that are no numbers", TCP, "server_lost", "closed", |d| {
        took(d);
        results(d, 'r', "nan MB in inf real seconds = nan KB/sec = -1 Mbps\n");
    }),
    ("more than was sent", TCP, "accounting", "received 2097152 of 1048576 bytes", |d| {
        took(d);
        results(d, 'r', "2.0000 MB in 0.20 real seconds = 10240.00 KB/sec = 83.8861 Mbps\n");
    }),
    ("more than there is", TCP, "accounting", "of 1048576 bytes", |d| {
        took(d);
        results(d, 'r', "1e14 MB in 1e-9 real seconds = 1e300 KB/sec = 1e14 Mbps\n");
    }),
    ("more datagrams than were sent", UDP, "accounting or complete", "", |d| {
        took_udp(d);
        results(d, 'r', "9999.0000 MB in 0.02 real seconds = 1 KB/sec = 8.0000 Mbps\n");
    }),
    ("a CPU of its own kind", TCP, "complete", "", |d| {
        took(d);
        results(d, 'r', MEBIBYTE);
        results(d, 'r', "0.0user 0.0sys 0:00real 4294967295%\n");
        results(d, 'r', "retrans = 18446744073709551615\n");
        results(d, 'r', "-1 I/O calls, msec/call = nan, calls/sec = inf\n");
    }),
    ("two results that contradict", TCP, "complete", "", |d| {
        took(d);
        results(d, 'r', MEBIBYTE);
        results(d, 't', "0.5000 MB in 0.20 real seconds = 1 KB/sec = 1.0 Mbps\n");
    }),
    ("results before the data", TIMED, "complete", "", |d| {
        granted(d);
        results(d, 'r', "0.0000 MB in 0.00 real seconds = 0.00 KB/sec = 0.0000 Mbps\n");
        d.accept();
        d.swallow();
    }),
    ("a hundred thousand intervals", TCP, "complete", "", |d| {
        took(d);
        d.say("    1.0000 MB /   1.00 sec =   8.3886 Mbps\n".repeat(100_000));
        results(d, 'r', MEBIBYTE);
    }),
    ("a hundred thousand warnings", TCP, "complete", "", |d| {
        took(d);
        d.say("nuttcp-r: Warning: \x1b[2J and \x07\n".repeat(100_000));
        results(d, 'r', MEBIBYTE);
    }),
    ("lines with the ends of another system", TCP, "complete", "", |d| {
        took(d);
        d.say("DONE\r\nDONE\r\n");
        results(d, 'r', &MEBIBYTE.replace('\n', "\r\n"));
    }),
    (
        "sends less than it says",
        BACK,
        "accounting",
        "sent 2097152 bytes, of which 1048576 came",
        |d| {
            gave(d);
            results(d, 't', "2.0000 MB in 0.20 real seconds = 10240.00 KB/sec = 83.8861 Mbps\n");
        },
    ),
    ("sends more than it says", BACK, "complete", "", |d| {
        gave(d);
        results(d, 't', "0.5000 MB in 0.20 real seconds = 2560.00 KB/sec = 20.9715 Mbps\n");
    }),
    ("sends more than was asked for", BACK, "protocol", "more than was asked for", |d| {
        granted(d);
        d.connect();
        d.data_for_ever();
    }),
    ("datagrams without end", UDP_BACK, "protocol", "more than was asked for", |d| {
        began_udp(d);
        d.datagrams_for_ever([7; 1_000]);
    }),
    ("datagrams that count absurdly", UDP_BACK, "accounting or complete", "", |d| {
        gave_udp(d, &[0xff; 1_000], 20);
        results(d, 't', TWENTY);
    }),
    ("datagrams of other sizes", UDP_BACK, "accounting or complete", "", |d| {
        gave_udp(d, &[7; 60_000], 1);
        d.datagram([7; 5]);
        d.datagram([]);
        d.datagram(b"EOD9");
        results(d, 't', TWENTY);
    }),
];

/// Those that a client waits for as long as it waits for any.
static SILENT: &[Bad] = &[
    ("is silent from the start", TCP, "server_lost", "no answer within 20s", Desk::wait),
    ("is silent on the greeting", UDP, "server_lost", "no answer within 20s", |d| {
        d.hear_line();
        d.say("HELO nuttcp v8.2.2");
        d.wait();
    }),
    ("is silent on what is asked", BACK, "server_lost", "no answer within 20s", |d| {
        asked(d);
        d.wait();
    }),
    ("refuses and never ends", TCP, "policy", "no tests", |d| {
        asked(d);
        d.say("KO\nno tests\n");
        d.wait();
    }),
    ("sends no data", BACK, "tcp_stream", "did not come within 10s", |d| {
        granted(d);
        d.wait();
    }),
    ("sends no datagrams", UDP_BACK, "udp_blocked", "did not come within 10s", |d| {
        asked(d);
        d.say("OK v8.2.2\n");
        d.wait();
    }),
    ("sends one stream of two", TWO_BACK, "tcp_stream", "did not come within 10s", |d| {
        granted(d);
        d.connect();
        d.wait();
    }),
    ("takes the data and is silent", TCP, "server_lost", "results did not come in time", |d| {
        took(d);
        d.wait();
    }),
    ("takes datagrams and is silent", UDP, "server_lost", "results did not come in time", |d| {
        took_udp(d);
        d.wait();
    }),
    ("talks of everything but results", TCP, "server_lost", "did not come in time", |d| {
        took(d);
        d.for_ever("nuttcp-r: 7 I/O calls, msec/call = 1.00, calls/sec = 1.00\n");
    }),
    ("never hangs up", TCP, "complete", "", |d| {
        took(d);
        results(d, 'r', MEBIBYTE);
        d.wait();
    }),
    ("sends on after its time", TIMED_BACK, "stream or server_lost", "", |d| {
        granted(d);
        d.connect();
        d.data_for_ever();
    }),
    ("sends datagrams on after its time", UDP_TIMED_BACK, "server_lost", "", |d| {
        began_udp(d);
        d.datagrams_for_ever([7; 1_000]);
    }),
];

#[test]
fn bad_servers_of_nuttcps_are_named_and_left() {
    let all = [STRANGERS, STREAMS, RESULTS].concat();
    assert!(all.len() >= 40);
    all_are_named(&NUTTCP, &all);
}

#[test]
#[ignore = "long"]
fn silent_servers_of_nuttcps_are_named_and_left() {
    all_are_named(&NUTTCP, SILENT);
}
