use std::num::NonZeroU16;

use proptest::prelude::*;

use super::datagram::{MARK_BYTES, Mark};
use super::*;

/// From words as they are printed in hexadecimal.
fn bytes(words: &str) -> Vec<u8> {
    let word = |word: &str| u32::from_str_radix(word, 16).unwrap().to_be_bytes();
    words.split_whitespace().flat_map(word).collect()
}

/// The first datagram of 2.1.8 with `-u -b 1m -l 1000 -t 1`.
const FIRST: &str = "00000001 6b0146a8 000c680f 00000000 48010098 00000001 00001389 000003e8
    00000000 ffffff9c 00000000 00000000 00000000 00020001 00080003 00000000
    000f4240 00000000 00000000 00000000";

#[test]
fn a_captured_datagram_says_what_was_asked() {
    let first = bytes(FIRST);
    let mark = Mark::read(true, &first).unwrap();
    assert_eq!((mark.number, mark.sent()), (1, None));
    assert_eq!(mark.sent_ns, 0x6b01_46a8 * 1_000_000_000 + 0x000c_680f * 1_000);
    let header = Header::of_datagram(&first[16..]).unwrap();
    let asked = Header {
        streams: 1,
        length: 1_000,
        amount: Some(Amount::Time(100)),
        wide: true,
        version: Some((0x0002_0001, 0x0008_0003)),
        rate_bps: Some(1_000_000),
        ..Header::default()
    };
    assert_eq!(header, asked);
}

#[test]
fn a_captured_stream_says_what_was_asked() {
    let plain = bytes(
        "40010080 00000001 00001393 00000000 00000000 ffffff9c 0 0 0 00020002 00010001 0 0 0 0 0",
    );
    let asked = Header {
        streams: 1,
        amount: Some(Amount::Time(100)),
        version: Some((0x0002_0002, 0x0001_0001)),
        ..Header::default()
    };
    assert_eq!(Header::read(&plain), Ok((asked, 64)));
    // This end writes the same, but for a port, which it listens on none.
    let mut nowhere = plain.clone();
    nowhere[8..12].fill(0);
    assert_eq!(asked.encode(), nowhere);
    for end in 0..plain.len() {
        assert!(matches!(Header::read(&plain[..end]), Err(Unfit::Short(_))), "{end}");
    }
    // Of 2.1.8 with `-d -L 5902 -t 1`.
    let both = bytes("c0010079 1 0000170e 0 0 ffffff9c 0 0 0 00020001 00080003 0 0 0 0");
    let back = Some(Back { port: NonZeroU16::new(5_902), at_once: true });
    let version = Some((0x0002_0001, 0x0008_0003));
    assert_eq!(Header::read(&both), Ok((Header { back, version, ..asked }, 60)));
    // The flag words of other tests, with nothing behind them.
    let read = |flags: u32, upper: u32| {
        let mut bytes = [0; 160];
        put(&mut bytes, 0, flags);
        put(&mut bytes, 32, upper << 16);
        Header::read(&bytes)
    };
    let reads = |flags, upper| read(flags, upper).unwrap();
    let (reverse, length) = reads(0x4401_0078, 0x400);
    assert!(reverse.reverse && !reverse.full_duplex && length == 60);
    assert!(reads(0x4401_0078, 0x800).0.full_duplex);
    assert!(reads(0x4601_0078, 0).0.detect);
    let timed = Header { began_ns: Some(0), version: Some((0, 0)), ..Header::default() };
    assert_eq!(reads(0x4001_00a0, 0x10), (timed, 80));
    // Of --permit-key, whose length counts.
    assert_eq!(reads(0x5001_007c, 0).1, 62);
    let back = |flags| reads(flags, 0).0.back.map(|back| (back.at_once, back.port));
    assert_eq!(back(0xc801_0099), Some((true, None)));
    assert_eq!((back(0xc801_0098), back(0x4801_0098)), (Some((false, None)), None));
    // Frames, and no datagram at the end, say nothing that matters to who counts.
    assert_eq!(reads(0x6801_00d8, 1).0, reads(0x6801_0098, 8).0);
    assert!(reads(0x0080_0000, 0).0.bounce_back);
    // What begins so is data of a client that says nothing.
    for flags in [0, 0x3031_3233, 0x1603_0300, 0x4745_5420] {
        assert_eq!(read(flags, 0), Err(Unfit::Flags), "{flags:x}");
    }
}

/// Of 2.0.13, by its source: what it sets, and elsewhere the digits that its blocks are filled with.
#[test]
fn a_client_of_2_0_13_says_little() {
    // -u: its numbers begin with 0, which nobody counts, and all it says is that they have 64 bits.
    let marks = [("0", "0"), ("1", "0"), ("ffffff80", "ffffffff")].map(|(low, high)| {
        let datagram = bytes(&format!(
            "{low} 6b0146a8 c680f {high} 8000000 30313233 34353637 38393031 32333435 36373839 \
             30310034"
        ));
        assert_eq!(Header::of_datagram(&datagram[MARK_BYTES..]), None);
        Mark::read(true, &datagram).unwrap()
    });
    assert_eq!(marks.map(|mark| mark.number), [0, 1, -128]);
    assert_eq!(marks[2].sent(), Some(127));
    // A stream has blocks alone, …
    let plain = bytes("8000000 34353637 38393031 32333435 36373839 30313233");
    assert_eq!(Header::read(&plain), Err(Unfit::Flags));
    // … and with -X its release.
    let detects = bytes(
        "48000000 34353637 38393031 32333435 36373839 30313233 1 1c 0 20000 d0003 0 38393031 \
         32333435 36373839",
    );
    let version = Some((0x0002_0000, 0x000d_0003));
    let said = Header { wide: true, version, ..Header::default() };
    assert_eq!(Header::read(&detects), Ok((said, 60)));
    // -r -L 5902 -t 1, and the same with -b 1m.
    let base = "1 170e 0 36373839 ffffff9c";
    let back = Some(Back { port: NonZeroU16::new(5_902), at_once: false });
    let amount = Some(Amount::Time(100));
    let asked = Header { streams: 1, amount, wide: true, back, ..Header::default() };
    assert_eq!(Header::read(&bytes(&format!("88000000 {base}"))), Ok((asked, 24)));
    let rated = format!("c8000000 {base} 1 1c 0 20000 d0003 0 f4240 32333435 36373839");
    let asked = Header { version, rate_bps: Some(1_000_000), ..asked };
    assert_eq!(Header::read(&bytes(&rated)), Ok((asked, 60)));
}

/// Of 2.1.8 and 2.2.1 with `-u -l 300 -b 500k -t 0.3 --trip-times`; and of 2.1.8 over TCP.
#[test]
fn captured_trip_times_say_when_they_began() {
    for words in [
        "680100d8 1 176d 12c 0 ffffffe2 0 0 100000 20001 80003 0 7a120 0 0 0 0 0 0 0 0 0 0 0 6b0c6c75 60383 0 0",
        "680100e0 1 176d 12c 0 ffffffe2 0 0 100000 20002 10001 0 7a120 0 0 0 0 0 0 0 0 0 0 0 6b0c6c75 60383 0 0",
    ] {
        let header = Header::of_datagram(&bytes(words)).unwrap();
        assert_eq!(header.began_ns, Some(0x6b0c_6c75 * 1_000_000_000 + 0x60383 * 1_000));
        assert_eq!((header.length, header.rate_bps, header.wide), (300, Some(500_000), true));
        // A datagram that ends before the time has none.
        assert_eq!(Header::of_datagram(&bytes(words)[..100]).unwrap().began_ns, None);
        // As this end writes it: 2.2's, with a rate that it says it has, and no port.
        let ours = bytes(&words.replace("680100d8", "680100e0").replace("176d", "0"));
        let version = Some((0x0002_0002, 0x0001_0001));
        let mut written = Header { version, ..header }.encode();
        assert_eq!(written[32..34], [0x01, 0x10]);
        written[32] = 0;
        assert_eq!((&written[..36], &written[48..]), (&ours[..36], &ours[48..]));
    }
    let stream =
        "400100a0 1 176c 7d0 0 ffffffe2 0 0 100000 20001 80003 0 4c4b40 0 0 0 6b0c6c75 6316a 0 0";
    let (header, length) = Header::read(&bytes(stream)).unwrap();
    assert_eq!((length, header.length), (80, 2_000));
    assert_eq!(header.began_ns, Some(0x6b0c_6c75 * 1_000_000_000 + 0x6316a * 1_000));
    // The answer of 2.1.8 to one with `-X`.
    let ack = "2 34 0 20001 80003 0 0 6b0c6cc2 8f9bb 6b0c6cc2 8fa17 6b0c6cc2 8fb0f";
    let second = 0x6b0c_6cc2 * 1_000_000_000;
    let times_ns = [0x8f9bb, 0x8fa17, 0x8fb0f].map(|micros| second + micros * 1_000);
    let wanted = Ack { version: (0x0002_0001, 0x0008_0003), times_ns: Some(times_ns) };
    assert_eq!(Ack::decode(&bytes(ack)), Some(wanted));
    assert_eq!(wanted.encode(), bytes(ack));
}

/// Of 2.1.8, of five datagrams that were 10, 20, 30, 40 and 10 ms old.
#[test]
fn captured_delays_are_read() {
    let words = "0 0 0 0 c8000000 0 5dc 1 6489f 1 0 6 0 fab 0 279f 0 9cb4 0 1b024 0 566d 286bff9a c3500 0 ffffc57e 5 0 1 0 0 0";
    let report = Report::decode(&bytes(words)).unwrap();
    let delays = Delays {
        count: 5,
        mean_ns: 22_125_000,
        least_ns: 10_143_000,
        most_ns: 40_116_000,
        deviation_ns: 13_020_814,
    };
    assert_eq!(report.delays, Some(delays));
}

#[test]
fn a_captured_report_is_read() {
    let mut words = "0 0 0 0 88000000 0 0001f400 1 00001fab 0 0 00000080 0 0".to_owned();
    words.push_str(&" 0".repeat(18));
    let report = Report::decode(&bytes(&words)).unwrap();
    let wanted =
        Report { bytes: 128_000, span_ns: 1_008_107_000, datagrams: 128, ..Report::default() };
    assert_eq!(report, wanted);
    // The second report of a real server is the client's own last datagram.
    assert_eq!(Report::decode(&bytes(FIRST)), None);
    assert_eq!(Report::decode(&[0; REPORT_BYTES]), None);
    assert_eq!(Report::decode(&[0xff; REPORT_BYTES]), None);
    // By its source 2.0.13 writes it into the client's last datagram, and sends as much as it reads at once.
    let mut of_2_0_13 = bytes("ffffff80 6b0146a9 ca000 ffffffff");
    of_2_0_13.extend(&bytes(&words)[MARK_BYTES..]);
    for length in [1_470, REPORT_BYTES, 56] {
        of_2_0_13.resize(length, b'7');
        assert_eq!(Report::decode(&of_2_0_13), Some(wanted), "{length}");
    }
    // What it says before is none, nor is less than its counts.
    let ack = Ack { version: (0x0002_0000, 0x000d_0003), times_ns: None };
    assert_eq!(Report::decode(&ack.encode()), None);
    assert_eq!(Report::decode(&of_2_0_13[..55]), None);
}

#[test]
fn what_ends_a_stream_says_how_many_came_before() {
    for sent in [0, 1, 127, u64::from(u32::MAX), 1 << 40] {
        let mut datagram = [0; 16];
        Mark::end(sent, 5_000).write(&mut datagram);
        assert_eq!(Mark::read(true, &datagram).unwrap().sent(), Some(sent));
    }
    let mut datagram = [0; 16];
    Mark { number: -128, sent_ns: 0 }.write(&mut datagram);
    assert_eq!(Mark::read(false, &datagram).unwrap().sent(), Some(127));
    assert_eq!(Mark { number: i64::MIN, sent_ns: 0 }.sent(), Some(u64::MAX / 2));
    assert_eq!(Mark::end(u64::MAX, 0).number, i64::MIN + 1);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        number: i64, seconds: u32, micros in 0u64..1_000_000, length: u32, streams in 0u32..60_000,
        amount in prop::option::of((any::<bool>(), 1u32..1 << 31)), rate in prop::option::of(1u64..1 << 56),
        reverse: bool, full_duplex: bool, wide: bool, detect: bool, timed: bool,
    ) {
        let sent_ns = u64::from(seconds) * 1_000_000_000 + micros * 1_000;
        let mark = Mark { number, sent_ns };
        let mut datagram = [0; 20];
        mark.write(&mut datagram);
        prop_assert_eq!(Mark::read(true, &datagram), Some(mark));
        let amount = amount.map(|(time, n)| if time { Amount::Time(n) } else { Amount::Bytes(n) });
        let header = Header {
            streams, length, amount, wide, reverse, full_duplex, detect,
            began_ns: timed.then_some(sent_ns), version: Some((1, 2)), rate_bps: rate, ..Header::default()
        };
        let bytes = header.encode();
        if wide {
            prop_assert_eq!(Header::of_datagram(&bytes), Some(header));
        } else {
            prop_assert_eq!(Header::read(&bytes), Ok((header, bytes.len())));
        }
        let ack = Ack { version: (length, seconds), times_ns: timed.then_some([sent_ns; 3]) };
        prop_assert_eq!(Ack::decode(&ack.encode()), Some(ack));
    }

    #[test]
    fn reports_are_read_as_written(
        bytes: u64, span in 0u64..1 << 51, lost: u64, out_of_order: u64, datagrams: u64, jitter in 0u64..1 << 51,
        delays in prop::option::of((1u32.., 0u64..1 << 38, 0u64..1 << 38, 0u64..65_000_000)),
    ) {
        let us = |ns: u64| ns / 1_000 * 1_000;
        let report = Report { bytes, span_ns: us(span), lost, out_of_order, datagrams, jitter_ns: us(jitter), extended: true, delays: None };
        prop_assert_eq!(Report::decode(&report.encode()), Some(report));
        let Some((count, least, more, deviation)) = delays else { return Ok(()) };
        let (least_ns, mean_ns, most_ns) = (us(least), us(least + more / 2), us(least + more));
        let delays = Delays { count, mean_ns, least_ns, most_ns, deviation_ns: deviation };
        let read = Report::decode(&Report { delays: Some(delays), ..report }.encode()).unwrap().delays.unwrap();
        let times = |delays: &Delays| (delays.mean_ns, delays.least_ns, delays.most_ns);
        prop_assert_eq!(times(&read), times(&delays));
        // A square microsecond more or less, of the sum; of one value nobody knows any.
        let off = read.deviation_ns.abs_diff(if count > 1 { deviation } else { 0 });
        prop_assert!(off <= 1_500 + deviation / 1_000, "{read:?}");
    }

    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..200), wide: bool) {
        let _ = Header::read(&bytes);
        let _ = Header::of_datagram(&bytes);
        let _ = Report::decode(&bytes);
        let _ = Ack::decode(&bytes);
        let _ = Mark::read(wide, &bytes).map(|mark| mark.sent());
    }
}
