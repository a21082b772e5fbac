//! What 6.1.2 and 8.2.2 said to each other, and what is made of it here.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::heard::{self, Line};
use super::parameters::{Parameters, Unfit};
use super::results::{self, Span, Totals};

/// 8.2.2, `-u -R8m -T1 -i0.5 -p 15111`.
const NEW: &str = "buflen = 8192, nbuf = 2147483647, win = 0, nstream = 1, rate = 8000, port = 15111, trans = 1, braindead = 0, timeout = 1.000000, udp = 1, vers = 8.2.2, interval = 0.500000, reverse = 0, format = 2048, traceroute = 0, irate = 0, thirdparty = _NULL_ , multicast = 0 , ssm = 0 , datamss = 0 , tos = 0 , nbuf_bytes = 0 , rate_pps = 0 , nodelay = 0 , affinity = -1 , maxburst = 1 , do_jitter = 0 , do_owd = 0 , stride = 0 , multilink = 0, group = _NULL_ , srcport = 0, iratesss = 0";
/// 6.1.2, `-n10 -w64 -N2 -c0x20 -p 15211`.
const OLD: &str = "buflen = 65536, nbuf = 10, win = 65536, nstream = 2, rate = 4294967295, port = 15211, trans = 1, braindead = 0, timeout = 0.000000, udp = 0, vers = 6.1.2, interval = 0.000000, reverse = 0, format = 2048, traceroute = 0, irate = 0, thirdparty = _NULL_ , multicast = 0 , datamss = 0 , tos = 80 , nbuf_bytes = 0 , rate_pps = 0 , nodelay = 0";
/// 8.2.2, `-3 localhost`, the fields that differ.
const THIRD: &str = "buflen = 0, nbuf = 2147483647, win = 0, nstream = 1, rate = 4294967295, port = 5101, trans = 1, braindead = 0, timeout = 10.000000, udp = 0, vers = 8.2.2, thirdparty = 127.0.0.1 , brief3 = 1";

fn parameters(line: &str) -> Parameters {
    Parameters::decode(line.as_bytes()).unwrap()
}

#[test]
fn captured_parameters_are_read() {
    let new = parameters(NEW);
    let none = Parameters {
        length: 8_192,
        count: None,
        window: None,
        streams: 1,
        rate_kbps: Some(8_000),
        instantaneous: false,
        port: 15_111,
        client_sends: true,
        udp: true,
        time_us: Some(1_000_000),
        interval_us: Some(500_000),
        flipped: false,
        format: 2_048,
        traceroute: false,
        third_party: false,
        multicast: false,
        mss: None,
        tos: None,
        nodelay: false,
        core: None,
        burst: None,
        striding: false,
    };
    assert_eq!(new, none);
    assert_eq!(new.encode([8, 2, 2]), format!("{NEW}\n").into_bytes());
    assert!(new.counts_sent() && new.shows_drops() && !new.parse_style());
    let old = parameters(OLD);
    let asked = (old.count, old.window, old.streams, old.rate_kbps, old.tos, old.time_us);
    assert_eq!(asked, (Some(10), Some(65_536), 2, None, Some(0x80), None));
    assert!(old.client_sends && !old.udp && !old.counts_sent());
    let line = OLD.replace("6.1.2", "8.2.2");
    assert_eq!(old.encode([6, 1, 2]), format!("{line}\n").into_bytes());
    assert!(parameters(THIRD).third_party);
    let core = parameters(&NEW.replace("affinity = -1", "affinity = 3"));
    assert_eq!(core.core, Some(3));
}

#[test]
fn what_is_no_line_of_parameters_is_an_error() {
    for (line, why) in [
        ("", Unfit::Missing("vers")),
        ("vers = 8.2.2", Unfit::Missing("nbuf")),
        (&*NEW.replace("buflen = 8192, ", ""), Unfit::Missing("buflen")),
        (&*NEW.replace("nstream = 1", "nstream = -1"), Unfit::Number("nstream")),
        (&*NEW.replace("nstream = 1", "nstream = 4294967296"), Unfit::Number("nstream")),
        (&*NEW.replace("timeout = 1.000000", "timeout = 1e9"), Unfit::Number("timeout")),
        (
            &*NEW.replace("timeout = 1.", "timeout = 99999999999999999999."),
            Unfit::Number("timeout"),
        ),
        (&*NEW.replace("tos = 0", "tos = 100"), Unfit::Number("tos")),
        (&*NEW.replace("affinity = -1", "affinity = -2"), Unfit::Number("affinity")),
    ] {
        assert_eq!(Parameters::decode(line.as_bytes()), Err(why), "{line}");
    }
    assert_eq!(Parameters::decode(&[0xff]), Err(Unfit::Text));
}

#[test]
fn captured_reports_are_written() {
    let p = parameters(NEW);
    let span = Span { bytes: 61 * 8_192, ns: 502_040_000, loss: Some((61, 0)) };
    assert_eq!(
        results::interval(&p, span, span),
        "    0.4766 MB /   0.50 sec =    7.9629 Mbps     0 /    61 ~drop/pkt  0.00 ~%loss\n"
    );
    let parse = parameters(&NEW.replace("format = 2048", "format = 2112"));
    let span = Span { bytes: 306_094_080, ns: 500_036_000, loss: Some((60_864, 23_499)) };
    assert_eq!(
        results::interval(&parse, span, span),
        "megabytes=291.9141 real_sec=0.50 rate_Mbps=4897.1527 drop=23499 pkt=60864 data_loss=38.60903\n"
    );
    let total = parameters(&NEW.replace("format = 2048", "format = 2076"));
    assert_eq!(
        results::interval(&total, span, span),
        "  291.9141 MB /   0.50 sec = 4897.1527 Mbps Tot:   291.9141 MB /   0.50 sec = 4897.1527 Mbps\n"
    );
    let totals = Totals {
        sent: true,
        bytes: 2_065_429_000,
        ns: 1_000_121_000,
        calls: 31_516,
        cpu_percent: (1.0, 14.0),
        retransmits: Some((5, Some(457_728))),
    };
    assert_eq!(
        results::totals(&p, &totals),
        "nuttcp-t: 1969.7466 MB in 1.00 real seconds = 2016776.48 KB/sec = 16521.4329 Mbps\n\
         nuttcp-t: 1969.7466 MB in 0.15 CPU seconds = 13445176.52 KB/cpu sec\n\
         nuttcp-t: retrans = 5 cwnd = 447 KB\n\
         nuttcp-t: 31516 I/O calls, msec/call = 0.03, calls/sec = 31512.19\n\
         nuttcp-t: 0.0user 0.1sys 0:01real 15%\n"
    );
    let nothing = Totals {
        sent: false,
        bytes: 0,
        ns: 0,
        calls: 0,
        cpu_percent: (0.0, 0.0),
        retransmits: None,
    };
    assert_eq!(
        results::totals(&parse, &nothing),
        "nuttcp-r: megabytes=0.0000 real_seconds=0.00 rate_KBps=0.00 rate_Mbps=0.0000\n\
         nuttcp-r: megabytes=0.0000 cpu_seconds=0.00 KB_per_cpu_second=0.00\n\
         nuttcp-r: io_calls=0 msec_per_call=0.00 calls_per_sec=0.00\n\
         nuttcp-r: stats=cpu user=0.0 system=0.0 elapsed=0:00 cpu=0%\n"
    );
}

#[test]
fn intervals_have_what_the_client_wants() {
    let line = |bits: u32| {
        let p = parameters(&NEW.replace("format = 2048", &format!("format = {}", 2_048 | bits)));
        let span = |bytes, ns, loss| Span { bytes, ns, loss: Some(loss) };
        let row = span(54 * 8_192, 502_040_000, (61, 7));
        let text = results::interval(&p, row, span(114 * 8_192, 1_004_080_000, (121, 7)));
        assert!(matches!(heard::line(text.trim_end()), Line::Interval(_)), "{text}");
        text
    };
    let (row, all) = (
        "    0.4219 MB /   0.50 sec =    7.0491 Mbps",
        " Tot:     0.8906 MB /   1.00 sec =    7.4407 Mbps",
    );
    let [drops, of_all] = ["     7 /    61 ~drop/pkt", "     7 /   121 ~drop/pkt"];
    let [percent, percent_of_all] = [" 11.48 ~%loss", "  5.79 ~%loss"];
    let [sent, all_sent] = [" Trans:     0.4766 MB", " Tot:     0.9453 MB"];
    assert_eq!(line(0x1), format!("{row}{drops}{percent}{sent}\n"));
    assert_eq!(
        line(0x1 | 0x4),
        format!("{row}{drops}{percent}{all}{of_all}{percent_of_all}{sent}{all_sent}\n")
    );
    assert_eq!(line(0x8 | 0x4), format!("{row}{percent}{all}{percent_of_all}\n"));
    assert_eq!(line(0x10 | 0x4), format!("{row}{drops}{all}{of_all}\n"));
    assert_eq!(
        line(0x1 | 0x4 | 0x40),
        "megabytes=0.4219 real_sec=0.50 rate_Mbps=7.0491 drop=7 pkt=61 data_loss=11.47541 \
         total_megabytes=0.8906 total_real_sec=1.00 total_rate_Mbps=7.4407 drop=7 pkt=121 \
         data_loss=5.78512 tx_megabytes=0.4766 tx_total_megabytes=0.9453\n"
    );
}

#[test]
fn little_loss_has_five_decimals() {
    let p = parameters(NEW);
    for (loss, wanted) in [
        ((844_516, 24), "    24 / 844516 ~drop/pkt 0.00284 ~%loss\n"),
        ((1_000, 1), "     1 /  1000 ~drop/pkt  0.10 ~%loss\n"),
        ((1_000, 0), "     0 /  1000 ~drop/pkt  0.00 ~%loss\n"),
    ] {
        let span = Span { loss: Some(loss), ..Span::default() };
        let text = results::interval(&p, span, span);
        assert!(text.ends_with(&format!("Mbps{wanted}")), "{text}");
    }
}

/// What servers of 6.1.2 and 8.2.2 wrote while they received over TCP and UDP, and when they had sent.
#[test]
fn captured_lines_are_read() {
    let mb = |mb: f64| (mb * 1_048_576.0).round() as u64;
    for other in [
        "nuttcp-r: v6.1.2: socket",
        "nuttcp-r: buflen=1000, nstream=1, port=7100 tcp",
        "nuttcp-r: interval reporting every 0.50 seconds",
        "nuttcp-r: send window size = 3939840, receive window size = 131072",
        "nuttcp-r: 0.8316 MB in 0.01 CPU seconds = 88584.47 KB/cpu sec",
        "nuttcp-r: 873 I/O calls, msec/call = 1.17, calls/sec = 872.94",
        "nuttcp-r: connect to 127.0.0.1 with RTT=0.064 ms af=inet",
        "",
        "MB / sec",
        "x MB / y sec = z Mbps",
        "-1.0 MB /   0.50 sec =    6.9720 Mbps",
    ] {
        assert_eq!(heard::line(other), Line::Other, "{other}");
    }
    assert_eq!(heard::line("DONE"), Line::Done);
    let span = |text| match heard::line(text) {
        Line::Interval(span) | Line::Totals(span) => (span.bytes, span.ns / 1_000_000, span.loss),
        other => panic!("{text}: {other:?}"),
    };
    let tcp = "    0.4158 MB /   0.50 sec =    6.9720 Mbps";
    assert_eq!(span(tcp), (mb(0.4158), 500, None));
    let udp = "    0.4766 MB /   0.50 sec =    7.9947 Mbps     3 /    64 ~drop/pkt  4.69 ~%loss";
    assert_eq!(span(udp), (mb(0.4766), 500, Some((64, 3))));
    // Copies.
    let less = udp.replace("    3 /", "   -3 /");
    assert_eq!(span(&less).2, Some((64, 0)));
    let parse = "megabytes=291.9141 real_sec=0.50 rate_Mbps=4897.1527 drop=23499 pkt=60864 data_loss=38.60903";
    assert_eq!(span(parse), (mb(291.9141), 500, Some((60_864, 23_499))));
    let totals = "nuttcp-r: 0.8316 MB in 1.00 real seconds = 851.51 KB/sec = 6.9755 Mbps";
    assert_eq!(span(totals), (mb(0.8316), 1_000, None));
    let parse = "nuttcp-t: megabytes=0.8316 real_seconds=1.00 rate_KBps=851.51 rate_Mbps=6.9755";
    assert_eq!(span(parse), (mb(0.8316), 1_000, None));
    let nothing = "nuttcp-r: 0.0000 MB in 1.50 real seconds = 0.00 KB/sec = 0.0000 Mbps";
    assert_eq!(span(nothing), (0, 1_500, None));
    for (text, line) in [
        ("nuttcp-r: 0.0user 0.5sys 0:01real 55% 0i+0d 824maxrss 0+15pf 487+1592csw", Line::Cpu(55)),
        (
            "nuttcp-r: stats=cpu user=0.0 system=0.1 elapsed=0:01 cpu=15% memory=0i+0d-824maxrss io=0+15pf swaps=1+2csw",
            Line::Cpu(15),
        ),
        ("nuttcp-t: retrans = 7 ( 5+2 ) cwnd = 1472 KB ( 512+960 )", Line::Retransmits(7)),
        ("nuttcp-t: retrans=3 cwnd=895", Line::Retransmits(3)),
        (
            "nuttcp-t: v8.2.2: Error: accept() timeout",
            Line::Warning("v8.2.2: Error: accept() timeout"),
        ),
    ] {
        assert_eq!(heard::line(text), line, "{text}");
    }
}

#[test]
fn what_is_meant_is_as_near_as_four_decimals_are() {
    let printed = |bytes: u64| match heard::line(&results::interval(
        &parameters(NEW),
        Span { bytes, ns: 1_000_000_000, loss: None },
        Span::default(),
    )) {
        Line::Interval(span) => span.bytes,
        other => panic!("{other:?}"),
    };
    for bytes in (0..500_000).step_by(61) {
        assert!(heard::is_meant(printed(bytes), bytes), "{bytes}: {}", printed(bytes));
        assert!(!heard::is_meant(printed(bytes), bytes + 110), "{bytes}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        (length, streams, port) in (any::<u32>(), any::<u32>(), any::<u32>()),
        (count, window, rate) in (0u64..1 << 31, any::<u64>(), 1u64..4_294_967_295),
        (time, interval) in (any::<u64>(), any::<u64>()),
        (tos, mss, flags) in (any::<u8>(), any::<u32>(), any::<u8>()),
    ) {
        let flag = |bit: u8| flags & 1 << bit != 0;
        let asked = Parameters {
            length, streams, port,
            count: (count != 2_147_483_647).then_some(count),
            window: Some(window).filter(|w| *w > 0),
            rate_kbps: Some(rate),
            instantaneous: flag(5),
            client_sends: flag(0), udp: flag(1), flipped: flag(2), traceroute: flag(3), nodelay: flag(4),
            time_us: Some(time).filter(|t| *t > 0),
            interval_us: Some(interval).filter(|t| *t > 0),
            format: u32::from(flags),
            third_party: false, multicast: false, striding: false, core: None, burst: None,
            mss: Some(mss).filter(|mss| *mss > 0),
            tos: Some(tos).filter(|tos| *tos > 0),
        };
        for release in [[6, 1, 2], [8, 2, 2]] {
            let line = asked.encode(release);
            prop_assert!(line.ends_with(b"\n") && line.len() < super::MAX_LINE);
            prop_assert_eq!(Parameters::decode(&line), Ok(asked.clone()));
        }
        let more = Parameters { core: Some(mss), burst: Some(port).filter(|burst| *burst > 1), ..asked };
        prop_assert_eq!(Parameters::decode(&more.encode([8, 2, 2])), Ok(more));
    }

    #[test]
    fn any_line_is_safe(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[a-z =,0-9._-]{0,200}") {
        let _ = Parameters::decode(&bytes);
        let _ = Parameters::decode(text.as_bytes());
        let _ = super::greeting::release(&bytes);
        let _ = (heard::line(&text), heard::line(&String::from_utf8_lossy(&bytes)));
    }

    #[test]
    fn any_figures_are_written(bytes: u64, ns: u64, sent: u64, lost: u64, format: u32, cpu: f64) {
        let p = Parameters { format, ..parameters(NEW) };
        let span = Span { bytes, ns, loss: Some((sent, lost)) };
        let line = results::interval(&p, span, span);
        prop_assert!(line.ends_with('\n') && !line.contains("NaN"));
        let all = Totals { sent: true, bytes, ns, calls: sent, cpu_percent: (cpu.clamp(0.0, 1e6), 1.0), retransmits: None };
        let totals = results::totals(&p, &all);
        prop_assert!(!totals.contains("inf"));
        // However much it is, its reader bears it.
        let _ = totals.lines().map(heard::line).count();
    }
}
