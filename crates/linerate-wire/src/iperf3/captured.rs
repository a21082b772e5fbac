//! Whole conversations of Debian's iperf3 3.12 with itself, recorded by a relay between its client
//! and server, and those of the development source of July 2026 (it calls itself 3.21+), as bytes.
//!
//! A line of `captured.hex` is a recording's name, the sender (C or S) and all it said on the control
//! connection; or name, UDP flow, sender, first bytes of a datagram, and its length.

use super::datagram::{Counters, Header};
use super::frame::{MAX_CLIENT_RESULTS, MAX_PARAMETERS, MAX_SERVER_RESULTS, body_length};
use super::*;

const RECORDED: &str = include_str!("captured.hex");

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// What one end said on the control connection.
fn said(name: &str, sender: &str) -> Vec<u8> {
    let start = format!("{name} {sender} ");
    bytes(RECORDED.lines().find_map(|line| line.strip_prefix(&start)).unwrap())
}

/// First datagrams of a recording: flow, sender, bytes, length.
fn datagrams(name: &str) -> Vec<(String, String, Vec<u8>, usize)> {
    RECORDED
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [of, flow, sender, hex, length] = words[..] else { return None };
            (of == name).then(|| (flow.into(), sender.into(), bytes(hex), length.parse().unwrap()))
        })
        .collect()
}

fn state(bytes: &mut &[u8]) -> State {
    let (first, rest) = bytes.split_first().unwrap();
    *bytes = rest;
    let state = State::from_byte(*first).unwrap();
    assert_eq!(state.byte(), *first);
    state
}

fn body<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (prefix, rest) = bytes.split_first_chunk().unwrap();
    let (body, rest) = rest.split_at(body_length(*prefix, most).unwrap());
    *bytes = rest;
    body
}

/// Walks through a recording; every byte must be understood, and the client's parameters written
/// again as they came.
fn conversation(name: &str) -> (Parameters, Results, Results) {
    let (client, server) = (said(name, "C"), said(name, "S"));
    let (mut c, mut s) = (&client[..], &server[..]);
    let (cookie, rest) = c.split_first_chunk::<COOKIE_BYTES>().unwrap();
    c = rest;
    let cookie = Cookie::from_bytes(*cookie);
    assert!(cookie.is_plausible() && cookie.text().len() == 36);
    assert_eq!(state(&mut s), State::ParamExchange);
    let asked = body(&mut c, MAX_PARAMETERS);
    let parameters = Parameters::decode(asked).unwrap();
    assert_eq!(parameters.check(), Ok(()));
    assert_eq!(
        String::from_utf8_lossy(&parameters.encode().unwrap()[4..]),
        String::from_utf8_lossy(asked)
    );
    for due in [State::CreateStreams, State::TestStart, State::TestRunning, State::ExchangeResults]
    {
        assert_eq!(state(&mut s), due);
    }
    assert_eq!(state(&mut c), State::TestEnd);
    let of_client = Results::decode_client(body(&mut c, MAX_CLIENT_RESULTS)).unwrap();
    let of_server = Results::decode_server(body(&mut s, MAX_SERVER_RESULTS)).unwrap();
    assert_eq!(state(&mut s), State::DisplayResults);
    assert_eq!(state(&mut c), State::IperfDone);
    assert!(c.is_empty() && s.is_empty());
    for results in [&of_client, &of_server] {
        let again = Results::decode_server(&results.encode().unwrap()[4..]).unwrap();
        // 3.12 leaves the omitted ones out, and we always send them.
        let mut expected = results.clone();
        for stream in &mut expected.streams {
            stream.omitted_errors.get_or_insert(0);
            stream.omitted_packets.get_or_insert(0);
        }
        assert_eq!(again, expected);
    }
    (parameters, of_client, of_server)
}

#[test]
fn tcp() {
    let (asked, client, server) = conversation("tcp");
    assert_eq!(
        (asked.protocol, asked.len, asked.bandwidth),
        (Protocol::Tcp, Some(1_000), Some(80_000))
    );
    assert_eq!(asked.client_version.as_deref(), Some("3.12"));
    assert_eq!((client.sender_has_retransmits, server.sender_has_retransmits), (1, -1));
    assert_eq!((client.streams[0].bytes, server.streams[0].bytes), (10_000, 10_000));
    assert_eq!(server.streams[0].retransmits, -1);
    assert_eq!(server.streams[0].omitted_packets, None);
}

#[test]
fn udp() {
    let (_, client, server) = conversation("udp");
    assert_eq!((client.streams[0].packets, server.streams[0].packets), (40, 40));
    assert!(server.streams[0].jitter_s.unwrap() > 0.0);
}

#[test]
fn reverse_udp_with_wide_counters_and_omit() {
    let (asked, client, server) = conversation("udp64R");
    assert!(asked.reverse && asked.udp_counters_64bit);
    assert_eq!(asked.omit, Some(1));
    assert_eq!((client.streams[0].packets, server.streams[0].packets), (79, 79));
    assert_eq!((client.streams[0].bytes, server.sender_has_retransmits), (2_496, 0));
}

#[test]
fn both_ways_with_server_output() {
    let (asked, client, server) = conversation("bidir");
    assert!(asked.bidirectional && asked.get_server_output);
    assert_eq!((asked.title.as_deref(), asked.extra_data.as_deref()), (Some("title"), Some("xx")));
    let ids: Vec<u32> = client.streams.iter().map(|stream| stream.id).collect();
    assert_eq!(ids, [1, 3, 4, 5]);
    assert!(server.server_output_text.unwrap().starts_with("Accepted connection from 127.0.0.1"));
}

#[test]
fn many_options() {
    let (asked, client, _) = conversation("all");
    assert_eq!(
        (asked.server_affinity, asked.burst, asked.tos, asked.window),
        (Some(1), Some(2), Some(16), Some(102_400))
    );
    assert!(asked.repeating_payload && asked.dont_fragment && client.streams.len() == 2);
}

#[test]
fn recorded_datagrams() {
    for (name, counters, payload_of) in [
        ("udp", Counters::Bits32, "C"),
        ("udp64R", Counters::Bits64, "S"),
        ("all", Counters::Bits32, "C"),
    ] {
        let mut flows: std::collections::BTreeMap<String, (bool, u64, u64)> = Default::default();
        for (flow, sender, bytes, length) in datagrams(name) {
            let flow = flows.entry(flow).or_default();
            if length == 4 {
                let expected = if sender == "C" { hello::HELLO } else { hello::ANSWER };
                assert_eq!(bytes, expected);
                assert!(if sender == "C" {
                    hello::answer(&bytes) == Some(hello::ANSWER)
                } else {
                    hello::is_answer(&bytes)
                });
                flow.0 = true;
                continue;
            }
            assert_eq!(sender, payload_of);
            assert!(flow.0);
            let header = Header::read(counters, &bytes).unwrap();
            assert_eq!(header.number, flow.1 + 1);
            assert!(header.sent_ns >= flow.2);
            (flow.1, flow.2) = (header.number, header.sent_ns);
            let mut again = vec![0; counters.header_bytes()];
            header.write(counters, &mut again);
            assert_eq!(again, bytes[..again.len()]);
        }
        assert!(!flows.is_empty(), "{name}");
        assert!(flows.values().all(|(greeted, numbers, _)| *greeted && *numbers >= 3), "{name}");
    }
}

/// Of the development source: the documents of a UDP test of 1 s with 64 bytes at 20 kbit/s.
#[test]
fn the_source_of_2026() {
    let asked = r#"{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":64,"bandwidth":20000,"pacing_timer":1000,"gso":0,"gso_dg_size":0,"gso_bf_size":65507,"gro":0,"gro_bf_size":65507,"client_version":"3.21+"}"#;
    assert_eq!(asked.len(), 0xd2);
    let parameters = Parameters::decode(asked.as_bytes()).unwrap();
    assert_eq!(parameters.check(), Ok(()));
    assert_eq!((parameters.gro_bf_size, parameters.gso), (Some(65_507), Some(0)));
    assert_eq!(&parameters.encode().unwrap()[4..], asked.as_bytes());

    let cpu = r#""cpu_util_total":1.5,"cpu_util_user":0.5,"cpu_util_system":1"#;
    let client = format!(
        r#"{{{cpu},"sender_has_retransmits":0,"streams":[{{"id":1,"bytes":2560,"retransmits":-1,"jitter":0,"errors":0,"omitted_errors":0,"packets":40,"omitted_packets":0,"start_time":0,"end_time":1.001158}}]}}"#
    );
    let read = Results::decode_client(client.as_bytes()).unwrap();
    assert_eq!((read.streams[0].packets, read.streams[0].retransmits), (40, -1));
    assert_eq!(std::str::from_utf8(&read.encode().unwrap()[4..]).unwrap(), client);

    let server = format!(
        r#"{{{cpu},"sender_has_retransmits":-1,"streams":[{{"id":1,"bytes":2560,"retransmits":-1,"jitter":7.86047947398389e-05,"errors":0,"omitted_errors":0,"packets":40,"omitted_packets":0,"start_time":0,"end_time":1.001498}}]}}"#
    );
    let read = Results::decode_server(server.as_bytes()).unwrap();
    assert_eq!(read.streams[0].jitter_s, Some(7.860_479_473_983_89e-05));
    assert_eq!(Results::decode_server(&read.encode().unwrap()[4..]).unwrap(), read);
}
