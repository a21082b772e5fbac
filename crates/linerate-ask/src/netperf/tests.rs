use linerate_model::limits;
use linerate_model::plan::{Direction, End, Traffic, Transport};
use linerate_model::units::{BitRate, Nanos};

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn line(text: &str) -> Result<Line, Stop> {
    parse(&words(text))
}

fn request(text: &str) -> Request {
    let buffers =
        Buffers { tcp_send: Some(16_384), tcp_receive: Some(131_072), ..Buffers::default() };
    line(text).unwrap().request(buffers).unwrap()
}

#[test]
fn options_mean_what_they_mean_there() {
    let asked = line("-H host,4 -p 12000 -t UDP_STREAM -l 5 -P 0 -v 2 -f k -D -0.20 -c -C -Y CS1,0xb8 -- -m 1472 -R 1").unwrap();
    assert_eq!((asked.host.as_str(), asked.port, asked.ip), ("host", 12_000, Some(IpVersion::V4)));
    assert!(!asked.headers && asked.cpu_here && asked.cpu_there && asked.udp);
    assert_eq!((asked.verbosity, asked.format, asked.interim_s), (2, Some('k'), Some(0.2)));
    assert_eq!(asked.services, (Some(0x20), Some(0xb8)));
    let plan = asked.request(Buffers::default()).unwrap().plan;
    assert_eq!((plan.end, plan.interval), (End::Time(Nanos(5_000_000_000)), Nanos(200_000_000)));
    assert_eq!(plan.dscp, Some(8));
    let Traffic::Udp(udp) = plan.traffic else { panic!() };
    assert_eq!(udp.size.bytes(), 1_472);
}

#[test]
fn datagrams_without_a_size_are_as_large_as_the_buffer_that_sends_them() {
    let udp = |text: &str| match request(&format!("-t UDP_STREAM {text}")).plan.traffic {
        Traffic::Udp(udp) => udp.size.bytes(),
        other => panic!("{other:?}"),
    };
    // The kernel doubles what is asked of it.
    assert_eq!((udp(""), udp("-- -s 64K"), udp("-- -s 16K")), (65_507, 65_507, 32_768));
    assert_eq!((udp("-- -s 16K -m 40000"), udp("-- -s 1")), (40_000, 4_608));
    let small = Buffers { udp_send: Some(40_000), ..Buffers::default() };
    assert_eq!(line("-t UDP_STREAM").unwrap().send_size(small), 40_000);
}

#[test]
fn each_test_is_its_plan() {
    let tcp = |text: &str| match request(text).plan.traffic {
        Traffic::Tcp(tcp) => tcp,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (tcp("").block, tcp("-- -s 64K").block, tcp("-- -m 1000").block),
        (16_384, 131_072, 1_000)
    );
    assert_eq!(tcp("-t TCP_MAERTS").block, 131_072);
    assert!(tcp("-t TCP_SENDFILE -F x").zerocopy && !tcp("-t TCP_STREAM").zerocopy);
    assert_eq!(request("-t TCP_MAERTS").plan.direction, Direction::Reverse);
    assert_eq!(request("-l -1000000").plan.end, End::Bytes(1_000_000));
    let rr = request("-t TCP_RR -l -50 -- -r 100,200 -b 4");
    assert_eq!(rr.plan.end, End::Datagrams(50));
    let Traffic::Rr(plan) = rr.plan.traffic else { panic!() };
    assert_eq!((plan.request, plan.response, plan.outstanding), (100, 200, 5));
    // In any order; of a stream it says nothing.
    assert_eq!(line("-t omni -- -b 4 -d rr").unwrap().burst, 4);
    assert_eq!(
        (line("-t omni -- -b 4 -d send").unwrap().burst, line("-- -b 4").unwrap().burst),
        (0, 0)
    );
    assert_eq!(request("-l -1M").plan.end, End::Bytes(1 << 20));
    // Until a signal comes: as much as a plan can have.
    for (test, end) in [
        ("TCP_RR", End::Datagrams(limits::DATAGRAMS.max)),
        ("UDP_RR", End::Datagrams(limits::DATAGRAMS.max)),
        ("TCP_MAERTS", End::Bytes(limits::BYTES.max)),
    ] {
        assert_eq!(request(&format!("-t {test} -l 0")).plan.end, end, "{test}");
    }
    assert_eq!(
        (line("-l 10k").unwrap().length, line("-l -5g").unwrap().length),
        (10_000, -5_000_000_000)
    );
    let wants = |text: &str| request(text).wants.unwrap();
    assert_eq!(wants("-t TCP_RR").connections, None);
    assert_eq!(wants("-t TCP_CRR").connections, Some(true));
    assert_eq!(wants("-t TCP_CC").connections, Some(false));
    assert_eq!(wants("-t omni -- -d cc -c").connections, Some(false));
    assert_eq!(wants("-t omni -- -d rr -c").connections, Some(true));
    let Traffic::Rr(plan) = request("-t omni -- -d rr -T udp").plan.traffic else { panic!() };
    assert_eq!(plan.transport, Transport::Udp);
    let far = wants("-C -T 1,2 -- -S 32K,64K -m ,500 -M 600 -P 7000,7001 -K reno,cubic -D");
    assert_eq!((far.far_send_buffer, far.far_receive_buffer), (Some(32_768), Some(65_536)));
    assert_eq!((far.far_send_size, far.far_receive_size), (Some(500), Some(600)));
    assert_eq!(
        far.near_port.zip(far.far_port).map(|(n, f)| (n.get(), f.get())),
        Some((7_000, 7_001))
    );
    assert_eq!((far.far_congestion.as_deref(), far.far_core), (Some("cubic"), Some(2)));
    assert!(far.measure_cpu && far.nodelay);
    // Ten datagrams of 1,000 bytes every 10 ms.
    let Traffic::Udp(udp) = request("-t UDP_STREAM -b 10 -w 10 -- -m 1000").plan.traffic else {
        panic!()
    };
    assert_eq!(udp.rate.map(|rate| rate.bits_per_second(udp.size)), Some(8_000_000));
    // A millisecond where no time is said; a time alone, and a burst of the test, pace no stream.
    let rate = |text: &str| tcp(text).rate.map(BitRate::bits_per_second);
    assert_eq!(rate("-b 2 -- -m 1000"), Some(16_000_000));
    assert_eq!(rate("-w 10"), None);
    assert_eq!(rate("-b 0 -w 10"), None);
    assert_eq!(rate("-- -b 4 -w 10"), None);
    assert_eq!(rate("-- -q 1000000"), Some(8_000_000));
    assert_eq!(rate("-b 2 -- -m 1000 -q 1000000"), Some(8_000_000));
    // What is named beyond it is refused with its limit, and not cut.
    assert_eq!((tcp("-- -s 8M").block, tcp("-- -m 8M").block), (4 << 20, 8 << 20));
    assert_eq!((wants("-b 5 -w 10").burst, wants("-b 5").burst, wants("-w 10").burst), (5, 5, 0));
    // As many requests, evenly, with as many in flight as the test's own burst says.
    let rr = |text: &str| match request(text).plan.traffic {
        Traffic::Rr(rr) => (rr.rate, rr.outstanding),
        other => panic!("{other:?}"),
    };
    assert_eq!(rr("-t TCP_RR -b 5 -w 10 -- -b 3"), (Some(500), 4));
    assert_eq!((rr("-t UDP_RR -b 1"), rr("-t UDP_RR -w 10")), ((Some(1_000), 1), (None, 1)));
    assert_eq!((rr("-t TCP_RR -b 1 -w 7").0, rr("-t TCP_RR -b 4 -w 2s").0), (Some(143), Some(2)));
    assert_eq!(wants("-t TCP_RR -b 5 -w 10").burst, 0);
    assert_eq!(tcp("-- -G 1000").mss, Some(1_000));
    // Taken as there, and of no effect.
    assert_eq!(tcp("-k 1,2 -K 3 -- -aBfFgIUV -i 1 -j 2 -p 1,2 -m 700").block, 700);
}

/// As 2.7.1 says of each by `DIRECTION`, `REQUEST_SIZE` and `RESPONSE_SIZE`.
#[test]
fn omni_goes_where_its_sizes_say_unless_a_direction_is_said() {
    use Way::{Asks, Receives, Sends};
    let made = |text: &str| {
        let line = line(text).unwrap();
        (line.way, line.connections, line.sizes)
    };
    for (text, wanted) in [
        ("", (Sends, false, None)),
        ("-r 100,200", (Asks, false, Some((100, 200)))),
        ("-c", (Asks, true, None)),
        ("-c -r 10,20", (Asks, true, Some((10, 20)))),
        ("-m 1000", (Sends, false, None)),
        ("-m ,1000", (Receives, false, None)),
        ("-M 64K", (Sends, false, None)),
        ("-M ,64K", (Receives, false, None)),
        ("-m 1000,1000", (Asks, false, Some((1, 1)))),
        ("-m 1000 -M ,1000", (Asks, false, Some((1, 1)))),
        // What is said holds, wherever it stands.
        ("-d recv -m 1000", (Receives, false, None)),
        ("-r 4,5 -d recv", (Receives, false, Some((4, 5)))),
        ("-d 6 -m 1000", (Asks, false, Some((1, 1)))),
        ("-d Send|Recv -r 4,5", (Asks, false, Some((4, 5)))),
        ("-d 0", (Sends, false, None)),
        ("-d 0 -c -r 4,5", (Asks, true, None)),
        ("-d cc", (Asks, true, None)),
    ] {
        assert_eq!(made(&format!("-t omni -- {text}")), wanted, "{text}");
    }
    // Of other tests both mean what they mean.
    assert_eq!(made("-t TCP_STREAM -- -d recv -m ,1000"), (Sends, false, None));
    assert_eq!(made("-t TCP_RR -- -d send -M ,64K"), (Asks, false, Some((1, 1))));
    assert_eq!(made("-t TCP_CC -- -r 3,4"), (Asks, true, None));
    assert_eq!(line("-t omni -- -b 4 -r 1,1").unwrap().burst, 4);
    assert_eq!(request("-t omni -- -M ,64K").plan.direction, Direction::Reverse);
}

#[test]
fn options_of_rings_of_buffers_are_said_to_have_no_effect() {
    let notes = |text: &str| line(text).unwrap().notes;
    assert_eq!(notes("-W 4"), ["-W has no effect: each end has one buffer"]);
    assert_eq!(notes("-W 4,4 -a 8 -A 8 -o 16 -O 16 -- -W 8").len(), 6);
    // Of a test these name figures.
    assert!(notes("-n 2 -- -o THROUGHPUT -O all -m 700").is_empty());
}

#[test]
fn a_value_may_be_left_out_and_repeats_have_limits() {
    let asked = line("-- -k -m 1000").unwrap();
    assert_eq!(asked.selection, Some((Style::Keys, String::new())));
    assert_eq!(asked.send_sizes, (Some(1_000), None));
    let asked = line("-- -oTHROUGHPUT -s 1").unwrap();
    assert_eq!(asked.selection, Some((Style::Csv, "THROUGHPUT".into())));
    let named = line("-t TCP_RR -- -u run-7 -k UUID").unwrap();
    assert_eq!((named.uuid.as_deref(), asked.uuid), (Some("run-7"), None));
    let repeats = |text: &str| {
        let line = line(text).unwrap();
        (line.confidence, line.runs)
    };
    assert_eq!(repeats(""), (None, (1, 1)));
    assert_eq!(repeats("-I 95"), (Some((95, 5.0)), (3, 10)));
    assert_eq!(repeats("-I 99,2 -i 40,1"), (Some((99, 2.0)), (3, 30)));
    assert_eq!(repeats("-i 10,5"), (Some((99, 5.0)), (5, 10)));
    // At most is what is said first, and never below the other.
    assert_eq!(repeats("-i 3,10").1, (10, 10));
    assert_eq!(repeats("-i 10,40").1, (30, 30));
    assert_eq!(repeats("-i 1").1, (3, 3));
    assert_eq!((repeats("-I 95 -i 5,").1, repeats("-I 95 -i ,5").1), ((3, 5), (5, 10)));
}

#[test]
fn what_is_wrong_or_not_done_is_said() {
    for (text, why) in [
        ("-q", "invalid option -- 'q'"),
        ("-- -Q", "invalid option -- 'Q'"),
        ("-H", "requires an argument"),
        ("-t TCP_FOO", "TCP_FOO"),
        ("-l x", "no number"),
        ("-l --5", "no number"),
        ("-D 0", "interval"),
        ("-D NaN", "interval"),
        ("-I 90", "95 and 99"),
        ("-N", "--send-only"),
        ("-Z word", "clear text"),
        ("-Y 256", "type of service"),
        ("-H host,x", "family"),
        ("-- -m 9999999999", "bytes"),
        ("-- -m 4G", "bytes"),
        ("-- -H other", "control connection"),
        ("-t omni -- -d sideways", "direction"),
        ("-- -T sctp", "sctp"),
        ("-w 10parsecs", "time"),
        ("-b 10,5", "as fast as it can"),
    ] {
        match line(text) {
            Err(Stop::Wrong(said) | Stop::Usage(said) | Stop::Unknown(said)) => {
                assert!(said.contains(why), "{text}: {said}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for (text, why) in [
        ("-t UDP_STREAM -- -m 70000", "Message too long"),
        ("-t TCP_CRR -b 1 -w 10", "as fast as"),
        ("-t UDP_RR -b 1 -w 2s", "whole number"),
        ("-t UDP_RR -b 3 -w 2s", "whole number"),
        ("-t UDP_STREAM -b 4000000000 -w 1us", "no such rate"),
        ("-L host.example", "in digits"),
    ] {
        let said = line(text).unwrap().request(Buffers::default()).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
    for help in ["-h", "--help", "-l 1 -- -h"] {
        assert_eq!(line(help).unwrap_err(), Stop::Help);
    }
    assert_eq!(line("-V").unwrap_err(), Stop::Version);
}

#[test]
fn a_server_has_its_own() {
    let asked = parse_server(&words("-D -p 12000 -L 127.0.0.1,4 -f -N")).unwrap();
    assert_eq!((asked.port, asked.daemon, asked.one_at_a_time), (12_000, false, true));
    assert_eq!(asked.bind, Some("127.0.0.1".parse().unwrap()));
    let asked = parse_server(&words("-6")).unwrap();
    assert_eq!((asked.daemon, asked.bind), (true, Some("::".parse().unwrap())));
    let asked = parse_server(&words("-L ,AF_INET6")).unwrap();
    assert_eq!((asked.name, asked.bind), (None, Some("::".parse().unwrap())));
    assert!(matches!(parse_server(&words("-L 127.0.0.1,x")), Err(Stop::Wrong(_))));
    assert!(matches!(parse_server(&words("-Z x")), Err(Stop::Wrong(_))));
    assert!(matches!(parse_server(&words("-q")), Err(Stop::Usage(_))));
}
