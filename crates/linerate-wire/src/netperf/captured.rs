//! What netperf 2.7.1 and its server really said, and what holds for any bytes.

use linerate_model::plan::{IpVersion, Transport};
use proptest::prelude::*;

use super::*;

/// `netperf OPTIONS` against its netserver.
fn request(words: &str) -> Request {
    let frame = Frame::of_words(words);
    let Ask::Test(Ok(request)) = ask(&frame) else { panic!("{:?}", ask(&frame)) };
    *request
}

#[test]
fn requests_of_the_real_client() {
    let stream = request(
        "61 ffffffff ffffffff ffffffff 8 0 92 ffffffff ffffffff ffffffff 8 0 0 ffffffff 0 0 1 0 0 \
         ffffffff ffffffff ffffffff 0 4 2 11 4 e6cd 0 0 0 0 0 0 0 0 0 0 ffffffff ffffffff",
    );
    // -t UDP_STREAM -l 1 -- -m 1460: the server is not told the size.
    let udp = Request {
        transport: Transport::Udp,
        transmits: false,
        receives: true,
        connections: false,
        sizes: None,
        length: Length::Seconds(1),
        send_buffer: None,
        receive_buffer: None,
        send_size: None,
        receive_size: None,
        nodelay: false,
        measure_cpu: false,
        no_checksum: false,
        may_route: false,
        data_port: None,
        peer_port: std::num::NonZeroU16::new(0xe6cd),
        congestion: None,
        tos: None,
        core: None,
        ip: Some(IpVersion::V4),
        old: None,
    };
    assert_eq!(stream, udp);
    // -t TCP_STREAM -l 2 -- -s 65536 -S 131072 -M 4096 -D
    let stream = request(
        "61 ffffffff 20000 ffffffff 8 0 2 ffffffff 20000 1000 8 0 0 ffffffff 21 0 2 0 0 ffffffff \
         ffffffff ffffffff 0 4 1 6 4 0 0 0 0 0 0 0 0 0 0 0 ffffffff ffffffff",
    );
    let tcp = Request {
        transport: Transport::Tcp,
        length: Length::Seconds(2),
        send_buffer: Some(0x20000),
        receive_buffer: Some(0x20000),
        receive_size: Some(4_096),
        nodelay: true,
        may_route: true,
        peer_port: None,
        ..udp.clone()
    };
    assert_eq!(stream, tcp);
    // -t TCP_MAERTS -l 2 -C
    let maerts = request(
        "61 ffffffff ffffffff ffffffff 8 0 0 ffffffff ffffffff ffffffff 8 0 2 ffffffff 28 0 2 0 0 \
         ffffffff ffffffff ffffffff 0 4 1 6 2 0 0 0 0 0 0 0 0 0 0 0 ffffffff ffffffff",
    );
    assert!(maerts.transmits && !maerts.receives && maerts.measure_cpu);
    // -t TCP_RR -l -1000
    let counted = request(
        "61 ffffffff ffffffff ffffffff 8 0 1 1 ffffffff ffffffff 8 0 1 1 20 0 fffffc18 0 0 ffffffff \
         ffffffff ffffffff 0 4 1 6 6 0 0 0 0 0 0 0 0 0 0 0 ffffffff ffffffff",
    );
    assert_eq!((counted.length, counted.sizes), (Length::Units(1_000), Some((1, 1))));
    // -t TCP_CRR -l 1
    let connections = request(
        "61 ffffffff ffffffff ffffffff 8 0 1 1 ffffffff ffffffff 8 0 1 1 24 0 1 0 0 ffffffff ffffffff \
         ffffffff 0 4 1 6 6 94a2 0 0 0 0 0 0 0 0 0 0 ffffffff ffffffff",
    );
    assert!(connections.connections);
    // -t TCP_STREAM -l 1 -- -K reno
    let reno = request(
        "61 ffffffff ffffffff ffffffff 8 0 2 ffffffff ffffffff ffffffff 8 0 0 ffffffff 20 0 1 0 0 \
         ffffffff ffffffff ffffffff 0 4 1 6 4 0 0 0 0 0 0 0 0 0 0 0 ffffffff ffffffff 72656e6f",
    );
    assert_eq!(reno.congestion.as_deref(), Some("reno"));
}

#[test]
fn messages_that_ask_for_no_test() {
    let ask_of = |kind: u32| ask(&Frame::new(Kind(kind), 0));
    assert_eq!([ask_of(1), ask_of(2)], [Ask::Debug, Ask::Debug]);
    assert_eq!([ask_of(5), ask_of(6)], [Ask::Calibrate, Ask::Passphrase]);
    // -t SCTP_STREAM, and what systems are.
    assert_eq!([520, 600].map(ask_of), [520, 600].map(|kind| Ask::Unknown(Kind(kind))));
    let unfit = |words: &str| match ask(&Frame::of_words(words)) {
        Ask::Test(Err(unfit)) => unfit,
        other => panic!("{other:?}"),
    };
    assert_eq!(unfit("61 0"), Unfit::Protocol(0));
    let of_tcp = |direction: &str, port: &str| {
        let zeros = "0 ".repeat(20);
        unfit(&format!("61 0 {zeros} {port} 4 1 6 {direction} 0"))
    };
    assert_eq!(of_tcp("0", "0"), Unfit::Direction(0));
    assert_eq!(of_tcp("6", "0"), Unfit::Sizes);
    assert_eq!(of_tcp("4", "10000"), Unfit::Port(65_536));
}

#[test]
fn answers_of_the_real_server() {
    // To -t TCP_STREAM -l 1 -C
    let response = Frame::of_words(
        "62 0 20000 20000 2 4000 ffffffff 2 8 42c80000 0 0 0 8203 0 0 0 0 ffffffff ffffffff",
    );
    assert!(response.kind().is_answer());
    let response = Response::read(&response).expect("no error");
    assert_eq!(response.data_port.map(|port| port.get()), Some(0x8203));
    assert_eq!((response.receive_buffer, response.send_buffer), (Some(131_072), Some(16_384)));
    assert!(response.measures_cpu);
    let frame = Frame::of_words(
        "62000000 0 0 d6ca4000 a270 12f296 0 0 0 400000 0 0 3f800afa 42aeafb0 3e89a269 41d15b7a 0 0 \
         4128340c ffffffff 8 4 3 42c3f5a8",
    );
    assert!(frame.kind().is_answer());
    let results = Results::read(&frame, response.measures_cpu).expect("no error");
    assert_eq!((results.received, results.receive_calls), (0xd6ca_4000, 0xa270));
    assert_eq!(results.elapsed_ns / 1_000_000, 1_000);
    let cpu = results.cpu.expect("asked for");
    assert_eq!((cpu.cpus, cpu.busy, cpu.system, cpu.peak), (4, 8_734, 2_617, (3, 9_798)));
    // To -t UDP_STREAM: nobody asked for the CPU, and its words hold what was there before.
    let stale = Frame::of_words(
        "62000000 0 0 82df5d4 16f29 34000 0 0 0 34000 0 0 3f800853 eedf0000 0 0 0 0 ffffffff ffffffff 8 \
         4 3000000 a8f5c342 0 0 0 0 ffffffff",
    );
    let results = Results::read(&stale, false).expect("no error");
    assert_eq!((results.received, results.cpu), (93_993 * 1_460, None));
    assert_eq!((results.receive_calls, results.retransmits), (93_993, None));
    // That of 2.6.0 with the numbers of an interface card, which stand where 2.7 has the CPU's method and the like.
    let older = Frame::of_words(
        "62000000 0 0 d6ca4000 a270 12f296 0 0 0 400000 0 0 3f800afa 42aeafb0 0 8 4 3 42c3f5a8 8086 1572 8086 7 5",
    );
    let results = Results::read(&older, true).expect("no error");
    assert_eq!((results.received, results.cpu, results.retransmits), (0xd6ca_4000, None, None));
    // A server that knows no such test.
    assert_eq!(Response::read(&Frame::of_words("62 3e6")), Err(UNKNOWN_TEST));
    assert!(!Kind(7).is_answer() && !Kind(0x6100_0000).is_answer());
}

/// 2.7.1 as captured; 2.6.0 by its source. Both have messages of 656 bytes, requests of 38 words and responses of 18;
/// of results 2.7 has 27, five of them between the CPU's share and its method, which 2.6.0 has not.
#[test]
fn words_of_2_6_and_of_2_7() {
    // -t UDP_STREAM -l 1 -- -m 1460
    let asked = request(
        "61 ffffffff ffffffff ffffffff 8 0 92 ffffffff ffffffff ffffffff 8 0 0 ffffffff 0 0 1 0 0 \
         0 0 0 0 4 2 11 4 eb4e 0 0 0 0 0 0 0 0 0 0 ffffffff ffffffff",
    );
    assert_eq!((asked.transport, asked.length), (Transport::Udp, Length::Seconds(1)));
    assert!(asked.receives && !asked.transmits && asked.old.is_none());
    assert_eq!(asked.peer_port.map(|port| port.get()), Some(0xeb4e));

    let granted = Frame::of_words(
        "62 0 34000 34000 2 34000 ffffffff 92 0 0 0 0 0 9d73 0 0 0 0 ffffffff ffffffff",
    );
    let response = Response::read(&granted).expect("no error");
    assert_eq!(response.data_port.map(|port| port.get()), Some(0x9d73));
    // Ours in the same places, but how many buffers there are.
    let ours = "62 0 34000 34000 0 34000 ffffffff 0 0 0 0 0 0 9d73 0 0 0 0 ffffffff ffffffff";
    assert_eq!(response.encode(), Frame::of_words(ours));

    let counted = "0 118e5fd8 3140e 34000 0 0 0 34000 0 0 3f800421";
    let (cpu, by_state) = ("42aeafb0", "3e89a269 41d15b7a 0 0 4128340c");
    let rest = "ffffffff 8 4 3 42c3f5a8 0 0 0 0 ffffffff";
    let of_2_7 = Frame::of_words(&format!("62000000 0 {counted} {cpu} {by_state} {rest}"));
    let of_2_6 = Frame::of_words(&format!("62000000 0 {counted} {cpu} {rest}"));
    let [now, then] = [&of_2_7, &of_2_6].map(|frame| Results::read(frame, true).expect("no error"));
    assert_eq!((now.received, now.receive_calls), (201_742 * 1_460, 201_742));
    assert_eq!(now.cpu.map(|cpu| (cpu.cpus, cpu.busy)), Some((4, 8_734)));
    // What stands elsewhere is absent, and nothing else is read in its place.
    assert_eq!(then, Results { cpu: None, ..now.clone() });
    // Ours, which clients of both read up to the CPU's share.
    let ours = format!("63 0 {counted} {}ffffffff", "0 ".repeat(15));
    assert_eq!(then.encode(0), Frame::of_words(&ours));
}

fn any_length() -> impl Strategy<Value = Length> {
    prop_oneof![
        (0..=i32::MAX.cast_unsigned()).prop_map(Length::Seconds),
        (1..=i32::MAX.cast_unsigned()).prop_map(Length::Units),
    ]
}

prop_compose! {
    fn any_request()(
        bits in any::<[bool; 6]>(),
        way in 1..4_u8,
        length in any_length(),
        sizes in (1..u32::from(u16::MAX), 1..u32::from(u16::MAX)),
        wide in proptest::option::of(1..=i32::MAX.cast_unsigned()),
        ports in any::<[u16; 2]>(),
        congestion in proptest::option::of("[a-z_]{1,15}"),
        (tos, core) in any::<(Option<u8>, Option<u16>)>(),
    ) -> Request {
        let [udp, connections, nodelay, measure_cpu, no_checksum, may_route] = bits;
        let (transmits, receives) = (way & 1 != 0, way & 2 != 0);
        Request {
            transport: if udp { Transport::Udp } else { Transport::Tcp },
            transmits,
            receives,
            connections,
            sizes: Some(sizes).filter(|_| transmits && receives),
            length,
            send_buffer: wide,
            receive_buffer: wide,
            send_size: wide,
            receive_size: wide,
            nodelay,
            measure_cpu,
            no_checksum,
            may_route,
            data_port: std::num::NonZeroU16::new(ports[0]),
            peer_port: std::num::NonZeroU16::new(ports[1]),
            congestion,
            tos,
            core,
            ip: Some(if udp { IpVersion::V4 } else { IpVersion::V6 }),
            old: None,
        }
    }
}

#[test]
fn datagrams_beyond_32_bits_are_known_by_their_bytes() {
    let results = |sent, send_calls| Results { sent, send_calls, ..Results::default() };
    let many = 5_000_000_000_u64;
    assert_eq!(results(many * 100, many as u32).datagrams_sent(Some(100)), many);
    // A size that does not fit what was counted is none.
    for size in [None, Some(0), Some(7), Some(65_507)] {
        assert_eq!(results(1_000, 10).datagrams_sent(size), 10, "{size:?}");
    }
}

proptest! {
    #[test]
    fn requests_come_back(request in any_request()) {
        prop_assert_eq!(ask(&request.encode()), Ask::Test(Ok(Box::new(request))));
    }

    #[test]
    fn results_come_back(
        (received, sent) in any::<(u64, u64)>(),
        calls in any::<[u32; 3]>(),
        elapsed_ms in 0..1_000_000_u64,
        share in 0..=10_000_u32,
        cpus in 1..1_000_u32,
        error in 1..1_000_u32,
    ) {
        let cpu = CpuShare { cpus, busy: share, user: share, system: 0, softirq: 1, peak: (1, share) };
        let results = Results {
            received,
            sent,
            receive_calls: calls[0],
            send_calls: calls[1],
            transactions: calls[2],
            elapsed_ns: elapsed_ms * 1_000_000,
            cpu: Some(cpu),
            ..Results::default()
        };
        let read = Results::read(&results.encode(0), true).expect("no error");
        // A float of 24 bits holds the time.
        prop_assert!(read.elapsed_ns.abs_diff(results.elapsed_ns) <= results.elapsed_ns >> 23);
        prop_assert_eq!(Results { elapsed_ns: results.elapsed_ns, ..read }, results.clone());
        prop_assert_eq!(Results::read(&results.encode(error), true), Err(error));
    }

    #[test]
    fn junk_is_read_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), FRAME_BYTES),
        protocol in proptest::sample::select(vec![6_u32, 17]),
        ports in any::<[u16; 2]>(),
    ) {
        let mut bytes = bytes;
        bytes[..4].copy_from_slice(&97_u32.to_be_bytes());
        let mut frame = Frame::read(&bytes).expect("whole");
        prop_assert!(matches!(ask(&frame), Ask::Test(_)));
        // Without the protocol and ports of 16 bits hardly any would be a test.
        for (word, value) in [(23, protocol), (20, ports[0].into()), (25, ports[1].into())] {
            frame.set(word, value);
        }
        if let Ask::Test(Ok(request)) = ask(&frame) {
            prop_assert_eq!(ask(&request.encode()), Ask::Test(Ok(request)));
        }
        let _ = (Response::read(&frame), Results::read(&frame, true));
        prop_assert!(Frame::read(&bytes[1..]).is_none());
    }
}
