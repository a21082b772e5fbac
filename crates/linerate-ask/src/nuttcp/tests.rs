use super::*;

fn line(text: &str) -> Result<Line, Stop> {
    parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn request(text: &str) -> Request {
    match line(text) {
        Ok(Line { role: Role::Client(request), .. }) => *request,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn options_mean_what_they_mean_there() {
    let asked =
        request("-u -Ri500m/4 -l1400 -T 1.5m -w4m -ws512 -p7000 -P 6000 -xc2 -c46 -i.5 host");
    let plan = &asked.plan;
    let Traffic::Udp(udp) = &plan.traffic else { panic!("{plan:?}") };
    assert_eq!(udp.rate.map(|rate| rate.bits_per_second(udp.size)), Some(500_000_000));
    assert_eq!((udp.size.bytes(), plan.end), (1_400, End::Time(Nanos::from_secs(90))));
    assert_eq!((plan.window, plan.dscp, plan.interval.0), (Some(4 << 20), Some(46), 500_000_000));
    assert_eq!((&plan.client_cpus[..], plan.direction), (&[2][..], Direction::Forward));
    let extras = &asked.nuttcp;
    assert_eq!((extras.burst, extras.far_window), (4, Some(512 << 10)));
    assert_eq!(extras.data_port.map(NonZeroU16::get), Some(7_000));
    assert_eq!(asked.target, Target::Host { name: "host".into(), port: 6_000 });
    let dscp = |text: &str| match line(&format!("-c{text} host")) {
        Ok(Line { role: Role::Client(request), .. }) => request.plan.dscp,
        _ => None,
    };
    for (text, wanted) in [
        ("0x10", Some(16)),
        ("184t", Some(46)),
        ("0xb8T", Some(46)),
        ("5p", Some(40)),
        ("7P", Some(56)),
        ("64", None),
        ("256t", None),
        ("8p", None),
        ("p", None),
    ] {
        assert_eq!(dscp(text), wanted, "{text}");
    }
    // -b0 is -v, as there.
    let verbosity = |text: &str| line(text).unwrap().verbosity;
    assert_eq!((verbosity("-b0 host"), verbosity("-v -b host"), verbosity("-b1 host")), (1, 0, 0));
}

#[test]
fn cores_are_this_ends_the_servers_or_both() {
    let cores = |text: &str| {
        let plan = request(&format!("{text} host")).plan;
        (plan.client_cpus, plan.server_cpus)
    };
    assert_eq!(cores("-xc1"), (vec![1], vec![]));
    assert_eq!(cores("-xc 0/3"), (vec![0], vec![3]));
    assert_eq!(cores("-xcs2"), (vec![], vec![2]));
    assert_eq!(cores("-xcs 2"), (vec![], vec![2]));
    // Of a server that sends, bursts are asked.
    assert_eq!(request("-u -r -R8m/4 host").nuttcp.burst, 4);
    assert_eq!(request("-u -N2 -i1 host").plan.streams, 2);
}

/// 6.1.2 and 8.2.2 read the value of `-wr512` as `r512`, which is 0.
#[test]
fn windows_are_those_that_real_clients_take() {
    let windows = |text: &str| {
        let asked = request(&format!("{text} host"));
        (asked.plan.window, asked.nuttcp.far_window)
    };
    const KIB: u32 = 1 << 10;
    assert_eq!(windows(""), (None, None));
    assert_eq!(windows("-w64"), (Some(64 * KIB), Some(64 * KIB)));
    assert_eq!(windows("-ws512"), (None, Some(512 * KIB)));
    assert_eq!(windows("-ws512 -w64"), (Some(64 * KIB), Some(512 * KIB)));
    assert_eq!((windows("-w0"), windows("-ws0")), ((None, Some(0)), (None, Some(0))));
    assert_eq!(windows("-w64 -wr512"), (None, Some(64 * KIB)));
    assert_eq!(windows("-wr512 -w64"), (Some(64 * KIB), Some(0)));
    let Ok(Line { notes, .. }) = line("-wr512 host") else { panic!("it is taken") };
    assert!(notes.iter().any(|note| note.contains("-w0")), "{notes:?}");
}

#[test]
fn rates_and_amounts_have_nuttcps_units() {
    let bps = |text: &str| match request(&format!("{text} host")).plan.traffic {
        Traffic::Udp(udp) => udp.rate.map(|rate| rate.bits_per_second(udp.size)),
        Traffic::Tcp(tcp) => tcp.rate.map(|rate| rate.bits_per_second()),
        Traffic::Rr(_) => None,
    };
    for (text, wanted) in [
        ("", None),
        ("-u", Some(1_000_000)),
        ("-u -R500p -l200", Some(800_000)),
        ("-R1000", Some(1_000_000)),
        ("-uu", None),
        ("-u -Ru", None),
        ("-u -Ra1g", Some(1_000_000_000)),
        ("-u -R 500m", Some(500_000_000)),
        ("-u -R i2m", Some(2_000_000)),
        ("-u -R10kp -l100", Some(8_000_000)),
        ("-u -R .5mp -l100", Some(400_000_000)),
    ] {
        assert_eq!(bps(text), wanted, "{text}");
    }
    let end = |text: &str| request(&format!("{text} host")).plan.end;
    assert_eq!(end("-n160 -l8192"), End::Bytes(160 * 8_192));
    assert_eq!(end("-n1m -l100k"), End::Bytes(1_024_000));
    assert_eq!(end("-u -n500"), End::Datagrams(500));
    assert_eq!(end("-n1t"), End::Bytes(1 << 40));
    assert_eq!(end("-n1p"), End::Bytes(1 << 50));
    assert_eq!(request("-w65536b host").plan.window, Some(65_536));
    // Whichever comes first, as there.
    for text in ["-n500 -T1.5 host", "-T1.5 -n500 host"] {
        let both = request(&format!("-u -i2 {text}"));
        let at_most_ns = both.nuttcp.at_most_ns;
        assert_eq!((both.plan.end, at_most_ns), (End::Datagrams(500), Some(1_500_000_000)));
        assert_eq!(both.plan.interval, Nanos(1_500_000_000), "no interval is as long as the test");
    }
    assert_eq!(request("-T1 host").nuttcp.at_most_ns, None);
    assert_eq!(end("-T1h"), End::Time(Nanos::from_secs(3_600)));
    assert_eq!(end("-T 1d"), End::Time(Nanos::from_secs(86_400)));
}

/// As there, a unit counts for the default too.
#[test]
fn zero_is_the_default() {
    let end = |text: &str| request(&format!("{text} host")).plan.end;
    assert_eq!((end("-T0"), end("-T 0")), (end(""), end("")));
    assert_eq!(end("-T0m"), End::Time(Nanos::from_secs(600)));
    for text in ["-i0 host", "-i 0 host", "-i host"] {
        assert!(line(text).is_ok_and(|line| line.intervals), "{text}");
        assert_eq!(request(text).plan.interval, Nanos::from_secs(1), "{text}");
    }
    assert_eq!(line("-f-rtt host").unwrap().format, 0);
    assert_eq!(line("-f-rtt -frtt host").unwrap().format, RTT);
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    for (text, why) in [
        ("host third", "a third host"),
        ("-xt host", "traceroute"),
        ("-s host", "-s is not done here"),
        ("-j -u host", "jitter"),
        ("-F host", "-F is not done here"),
        ("-T-1 host", "invalid timeout"),
        ("-i1d host", "invalid interval"),
        ("-u -l3 host", "invalid buflen"),
        ("-fjson host", "invalid format option"),
        ("-n10k host", "invalid nbuf"),
    ] {
        match line(text) {
            Err(Stop::Wrong(said)) => assert!(said.contains(why), "{text}: {said}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in ["-Z host", "-rq host", "-Ri 10m host", "-R host", "-R5P host", "--jso host", ""] {
        assert!(matches!(line(text), Err(Stop::Usage(_))), "{text}: {:?}", line(text));
    }
}

#[test]
fn servers_are_daemons_or_serve_one_test() {
    let server = |text: &str| match line(text) {
        Ok(Line { role: Role::Server(server), .. }) => server,
        other => panic!("{text}: {other:?}"),
    };
    let kept = server("-S -P6000");
    assert_eq!((kept.port, kept.daemon, kept.one_off), (6_000, true, false));
    let one = server("-1");
    assert_eq!((one.port, one.daemon, one.one_off), (5_000, true, true));
    assert!(server("-S --nofork").one_at_a_time && server("-SfP").daemon);
}
