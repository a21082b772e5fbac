use linerate_model::plan::{Direction, End, EngineChoice, IpVersion, Traffic, Transport};
use linerate_model::units::Nanos;
use linerate_runner::client::Target;

use super::*;

fn measure(line: &str) -> Result<Measure, ErrorRecord> {
    let words = std::iter::once("linerate").chain(line.split_whitespace()).map(str::to_owned);
    Measure::from_words(&words.collect::<Vec<_>>())
}

fn ask(line: &str) -> Result<Asked, ErrorRecord> {
    Ok(match measure(line)? {
        Measure::Udp(args) => args.asked()?,
        Measure::Tcp(args) => args.asked()?,
        Measure::Rr(args) => args.asked()?,
        other => panic!("{other:?} is no test"),
    })
}

fn plan(line: &str) -> linerate_model::plan::TestPlan {
    ask(line).unwrap_or_else(|e| panic!("{line}: {e:?}")).request.plan
}

fn refusal(line: &str) -> String {
    let found = ask(line).expect_err(line);
    assert_eq!((found.exit_code, found.kind.name()), (2, "usage"), "{line}");
    let hints: String = found.hints.iter().map(|hint| format!("hint: {hint}\n")).collect();
    let gap = if hints.is_empty() { "" } else { "\n" };
    format!("error: {}\n  caused by: {}\n{gap}{hints}", found.what, found.why)
}

#[test]
fn a_refusal_names_the_profile_that_may_have_the_options() {
    for line in ["udp h -t 1s -n 1M", "tcp h -t 1s -n 1M", "rr h --outstanding 0"] {
        let refused = refusal(&format!("{line} --profile fast"));
        assert!(refused.contains("the options of the profile `fast`"), "{refused}");
        assert!(!refusal(line).contains("profile"), "{line}");
    }
}

fn udp(line: &str) -> linerate_model::plan::UdpPlan {
    match plan(line).traffic {
        Traffic::Udp(udp) => udp,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_default_rate_harms_nobody() {
    let rate = |line: &str| udp(line).rate.map(|r| r.to_string());
    assert_eq!(rate("udp hydra2"), Some("100.0 Mbit/s".into()));
    assert_eq!(ask("udp hydra2").unwrap().notes.len(), 1);
    for free in [
        "udp --local",
        "udp 127.0.0.1",
        "udp ::1",
        "udp localhost",
        "udp 192.0.2.7 --send-only",
        "udp hydra2 -b max",
        "udp hydra2 --rate 0",
    ] {
        assert_eq!(rate(free), None, "{free}");
        assert!(ask(free).unwrap().notes.is_empty(), "{free}");
    }
    assert_eq!(rate("udp hydra2 -b 1.5G"), Some("1.500 Gbit/s".into()));
    assert_eq!(rate("udp hydra2 -b 100kpps"), Some("100.0 kdatagrams/s".into()));
}

#[test]
fn the_default_size_fits_ethernet_over_loopback_and_the_path_elsewhere() {
    let size = |line: &str| {
        let asked = ask(line).unwrap();
        (udp(line).size.bytes(), asked.request.size_from_mtu)
    };
    assert_eq!(size("udp --local"), (1472, false));
    assert_eq!(size("udp --local -6"), (1452, false));
    assert_eq!(size("udp ::1"), (1452, false));
    assert_eq!(size("udp hydra2"), (1472, true));
    assert_eq!(size("udp --local -l mtu"), (1472, true));
    assert_eq!(size("udp hydra2 -l 64"), (64, false));
    assert_eq!(size("udp 192.0.2.7 --send-only -l 1Ki"), (1024, false));
}

#[test]
fn every_option_of_udp_arrives() {
    let asked = ask(
        "udp [2001:db8::7] -p 6000 -B 2001:db8::1 -b 1G -l 1000 -P 2 -n 1M -O 2s -i 500ms -w 4Mi \
         --cpu 2,4-6/1 --dscp AF41 --engine mmsg --burst 50us --both",
    )
    .unwrap();
    let request = asked.request;
    assert_eq!(request.target, Target::Host { name: "2001:db8::7".into(), port: 6000 });
    assert_eq!(request.ip, Some(IpVersion::V6));
    assert_eq!(request.bind, Some("2001:db8::1".parse().unwrap()));
    let plan = request.plan;
    assert_eq!(plan.direction, Direction::Both);
    assert_eq!((plan.streams, plan.end), (2, End::Bytes(1_000_000)));
    assert_eq!((plan.warmup, plan.interval), (Nanos::from_secs(2), Nanos::from_millis(500)));
    assert_eq!(plan.window, Some(4 << 20));
    assert_eq!((plan.client_cpus, plan.server_cpus), (vec![2, 4, 5, 6], vec![1]));
    assert_eq!(plan.dscp, Some(34));
    let Traffic::Udp(udp) = plan.traffic else { panic!() };
    assert_eq!((udp.engine, udp.burst), (EngineChoice::Mmsg, Nanos(50_000)));
    assert!(udp.checksum);
    assert_eq!(self::plan("udp h -k 10k").end, End::Datagrams(10_000));
    assert_eq!(self::plan("udp h -t 3").end, End::Time(Nanos::from_secs(3)));
    assert_eq!(self::plan("udp h").end, End::Time(Nanos::from_secs(10)));
    assert_eq!(self::plan("udp h -R").direction, Direction::Reverse);
    assert_eq!(self::plan("udp h --bidir").direction, Direction::Both);
}

#[test]
fn without_checksums_only_ipv4_will_do() {
    let asked = ask("udp hydra2 --no-checksum").unwrap();
    assert_eq!(asked.request.ip, Some(IpVersion::V4));
    assert!(!udp("udp hydra2 --no-checksum").checksum);
}

#[test]
fn every_option_of_tcp_arrives() {
    let plan = plan("tcp h -b 500M -l 64Ki -C bbr -M 1200 -N --rx discard --tx sendfile -R -n 10M");
    assert_eq!((plan.direction, plan.end), (Direction::Reverse, End::Bytes(10_000_000)));
    let Traffic::Tcp(tcp) = plan.traffic else { panic!() };
    assert_eq!((tcp.block, tcp.mss), (65_536, Some(1_200)));
    assert_eq!(tcp.congestion.as_deref(), Some("bbr"));
    assert_eq!(tcp.rate.map(|r| r.bits_per_second()), Some(500_000_000));
    assert!(tcp.nodelay && tcp.discard && tcp.zerocopy);
    let Traffic::Tcp(tcp) = self::plan("tcp h").traffic else { panic!() };
    assert_eq!((tcp.block, tcp.rate), (524_288, None));
    assert!(!tcp.nodelay && tcp.discard && !tcp.zerocopy);
}

#[test]
fn every_option_of_rr_arrives() {
    let plan = plan("rr h --udp --request 100 --response 8Ki --outstanding 16 --rate 10k -P 4");
    assert_eq!(plan.streams, 4);
    let Traffic::Rr(rr) = plan.traffic else { panic!() };
    assert_eq!(rr.transport, Transport::Udp);
    assert_eq!((rr.request, rr.response), (100, 8_192));
    assert_eq!((rr.outstanding, rr.rate), (16, Some(10_000)));
    let Traffic::Rr(rr) = self::plan("rr --local").traffic else { panic!() };
    assert_eq!((rr.transport, rr.request, rr.response), (Transport::Tcp, 1, 1));
    assert_eq!((rr.outstanding, rr.rate), (1, None));
}

#[test]
fn what_makes_no_sense_is_refused_before_any_packet() {
    for line in [
        "udp",
        "udp h --local",
        "udp --send-only",
        "udp --local --send-only",
        "udp h --send-only -R",
        "udp h --send-only --both",
        "udp h --send-only --cpu 1/2",
        "udp h -R --both",
        "udp h -t 1 -n 5M",
        "udp h -n 5M -k 3",
        "udp h -4 -6",
        "udp ::1 -4",
        "udp 127.0.0.1 -6",
        "udp 127.0.0.1 -B ::1",
        "udp h -4 -B ::1",
        "udp -6 h --no-checksum",
        "udp ::1 --no-checksum",
        "udp h:5201",
        "udp a@b",
        "udp h -p 0",
        "udp h -p 65536",
        "udp h -P 0",
        "udp h -P 129",
        "udp h -P 70000",
        "udp h -l 31",
        "udp h -l 65508",
        "udp h -l 99999999999",
        "udp h -t 0",
        "udp h -t 25h",
        "udp h -i 0",
        "udp h -i 1ms",
        "udp h -t 24h -i 100ms",
        "udp h -O 11m",
        "udp h -w 100",
        "udp h -w 5G",
        "udp h -k 0",
        "udp h -n 0",
        "udp h -n 100 -P 4",
        "udp h -b 11T",
        "udp h -b 1",
        "udp h -b 1pps -t 500ms",
        "udp h -b fast",
        "udp h --burst 2s",
        "udp h --dscp 64",
        "udp h --cpu 9000",
        "udp h --engine fast",
        "udp h --json --json-lines",
        "udp --local --key-file k",
        "udp --local -p 5300",
        "udp h --send-only --dialect iperf2",
        "udp h --key-file /nonexistent/key",
        "tcp h -l 0",
        "tcp h -l 5Mi",
        "tcp h -M 50",
        "tcp h -C no/such",
        "tcp h -C averyveryverylongname",
        "tcp h --rx peek",
        "rr h --request 0",
        "rr h --response 2Mi",
        "rr h --udp --response 1Mi",
        "rr h --outstanding 0",
        "rr h --rate 0",
        "rr h --rate 10Mbit/s",
        "frobnicate",
        "udp h --frobnicate",
    ] {
        let text = refusal(line);
        assert!(text.starts_with("error: "), "{line}: {text}");
        assert!(text.contains("\n  caused by: "), "{line}: {text}");
        assert!(!text.contains('\u{1b}'), "{line}: {text}");
    }
}

#[test]
fn no_key_is_left_unproven_without_a_word() {
    for dialect in ["iperf3", "iperf2", "netperf", "nuttcp"] {
        let text = refusal(&format!("tcp h --key-file k --dialect {dialect}"));
        assert!(text.contains("the test would run without"), "{text}");
    }
    assert!(refusal("tcp h --key-file k --dialect native").contains("No such file"));
    assert!(ask("udp h --send-only --dialect native").is_ok());
}

#[test]
fn a_trial_of_a_tuning_takes_as_long_as_its_help_says() {
    let Measure::Tune(args) = measure("tune tcp --local").unwrap() else { panic!("a tuning") };
    let trial = args.asked().unwrap().test.request.plan;
    assert_eq!(trial.duration(), Some(Nanos::from_secs(1)));
    let all = <Line as clap::CommandFactory>::command();
    let tune = all.find_subcommand("tune").unwrap();
    for verb in ["udp", "tcp", "rr"] {
        let test = tune.find_subcommand(verb).unwrap();
        let arg = |id: &str| test.get_arguments().find(|arg| arg.get_id().as_str() == id).unwrap();
        let help = |id: &str| arg(id).get_help().unwrap().to_string();
        assert!(help("time").contains("[default: 1s]"), "{verb}: {}", help("time"));
        assert!(!help("profile").contains("linerate udp"), "{verb}: {}", help("profile"));
        assert!(arg("interval").is_hide_set() && !arg("warmup").is_hide_set(), "{verb}");
    }
}

#[test]
fn a_goal_that_is_given_twice_is_searched_once() {
    let twice = "search h --preset ndr --preset pdr --preset ndr --goal loss=1% --goal loss=1%";
    let Measure::Search(args) = measure(twice).unwrap() else { panic!("a search") };
    let (settings, _) = args.asked().unwrap();
    let names: Vec<&str> = settings.goals.iter().map(|goal| goal.name.as_str()).collect();
    assert_eq!(names, ["ndr", "pdr", "loss=1%"]);
}

#[test]
fn times_of_trials_are_looked_at_before_the_first() {
    let short = "search h --goal loss=0,time=1us --goal loss=1%,time=2s";
    let Measure::Search(args) = measure(short).unwrap() else { panic!("a search") };
    assert_eq!(args.asked().unwrap_err().what, "cannot use `--goal`: duration would be 1 us");

    let doctor = doctor("doctor h --prove offload.tso --allow-settings -t 0");
    assert_eq!(doctor.asked().unwrap_err().options, ["--time"]);
}

fn doctor(line: &str) -> doctor::DoctorArgs {
    #[derive(Debug, clap::Parser)]
    struct Doctor {
        #[command(flatten)]
        args: doctor::DoctorArgs,
    }
    <Doctor as clap::Parser>::try_parse_from(line.split_whitespace()).unwrap().args
}

#[test]
fn a_doctor_without_a_host_is_told_of_no_way_there() {
    for (line, option) in [
        ("doctor -p 5202", "--port"),
        ("doctor --key-file /nonexistent/key", "--key-file"),
        ("doctor -6", "--ipv6"),
        ("doctor -B 192.0.2.1", "--bind"),
        ("doctor --dialect native", "--dialect"),
    ] {
        let refused = doctor(line).asked().unwrap_err();
        assert_eq!(refused.options, [option], "{line}");
        assert_eq!(refused.error.what, format!("cannot use `{option}` without a host"));
    }
    assert!(doctor("doctor --rate 1G").asked().unwrap().place.is_none());
}

#[test]
fn refusals_say_what_why_and_what_to_try() {
    let all: Vec<String> = [
        "udp",
        "udp ::1 --no-checksum",
        "udp h -P 500",
        "udp h -t 25h",
        "udp h -b fast",
        "udp h -b 1",
        "udp h --engine fast",
        "udp h --frobnicate",
        "udp 127.0.0.1 -B ::1",
        "udp h -t 1 -n 5M",
        "udp h:5201",
        "upd h",
        "udp h --json --json-lines",
    ]
    .iter()
    .map(|line| format!("$ linerate {line}\n{}", refusal(line)))
    .collect();
    insta::assert_snapshot!(all.join("\n"), @r"
    $ linerate udp
    error: no server was given
      caused by: a test needs a host that runs `linerate serve`

    hint: `linerate udp --local` tests this machine alone
    hint: `linerate serve` on the other machine, then `linerate udp HOST` here

    $ linerate udp ::1 --no-checksum
    error: cannot use `--no-checksum` on IPv6
      caused by: IPv6 has no header checksum of its own, so a receiver drops UDP without one (RFC 8200, section 8.1)

    hint: use it with IPv4: -4 --no-checksum
    hint: leave it out

    $ linerate udp h -P 500
    error: cannot use `--streams`: streams would be 500
      caused by: it must be 1 to 128 (a thread and a socket each)

    $ linerate udp h -t 25h
    error: cannot use `--time`: duration would be 90000 s
      caused by: it must be 1 ms to 86400 s (one day; longer runs are campaigns)

    $ linerate udp h -b fast
    error: cannot use `--rate fast`
      caused by: `fast` is not a rate: bits per second as 10M or 1.5G, datagrams per second as 100kpps, or max

    hint: `linerate udp --help` lists what can be given

    $ linerate udp h -b 1
    error: cannot use `--rate`: 1 bit/s is less than one datagram
      caused by: the time of the test is over before a datagram's turn is, and one sent all the same would be faster than asked

    hint: --rate 1178: one datagram in this time
    hint: a longer --time, or a smaller --size

    $ linerate udp h --engine fast
    error: cannot use `--engine fast`
      caused by: it takes one of: auto, gso, mmsg, send

    hint: `linerate udp --help` lists what can be given

    $ linerate udp h --frobnicate
    error: this command line cannot be understood
      caused by: unexpected argument '--frobnicate' found

    hint: `linerate udp --help` lists what can be given

    $ linerate udp 127.0.0.1 -B ::1
    error: cannot reach `127.0.0.1` from here as asked
      caused by: the host `127.0.0.1` asks for IPv4, but `--bind` `::1` is an IPv6 address

    hint: both ends of a test use the same version of IP

    $ linerate udp h -t 1 -n 5M
    error: cannot use `--time` and `--bytes` together
      caused by: each of them alone says when the test ends

    hint: keep one of them

    $ linerate udp h:5201
    error: `h:5201` is no host
      caused by: the port is given apart, since an IPv6 address has colons too

    hint: h --port 5201

    $ linerate upd h
    error: this command line cannot be understood
      caused by: unrecognized subcommand 'upd'

    hint: `linerate --help` lists what can be given

    $ linerate udp h --json --json-lines
    error: this command line cannot be understood
      caused by: the argument '--json' cannot be used with '--json-lines'

    hint: `linerate udp --help` lists what can be given
    ");
}

#[test]
fn what_users_type_is_understood_or_explained() {
    let rate = |line: &str| udp(line).rate.map(|r| r.to_string());
    for text in ["100mbit", "100Mbps", "100mbit/s", "1e8", "100000000"] {
        assert_eq!(rate(&format!("udp h -b {text}")), Some("100.0 Mbit/s".into()), "{text}");
    }
    assert_eq!(plan("udp h -n 1e6").end, End::Bytes(1_000_000));
    for (line, why) in [
        ("udp h -t -5", "cannot use `--time -5`\n  caused by: it is below zero"),
        ("udp h -P -1", "cannot use `--streams -1`\n  caused by: it is below zero"),
        ("udp h -b -100M", "no value here may be below zero"),
        ("udp h -b 10MB", "B stands for bytes"),
        ("tcp h -b 10MB/s", "B stands for bytes"),
    ] {
        let text = refusal(line);
        assert!(text.contains(why), "{line}: {text}");
    }
    // Flags that are digits stay flags.
    assert_eq!(ask("udp h -6 -t 5").unwrap().request.ip, Some(IpVersion::V6));
}

#[test]
fn a_link_local_address_needs_its_interface() {
    for line in ["udp fe80::1", "tcp [fe80::1]", "rr fe80::1:2"] {
        let text = refusal(line);
        assert!(text.contains("does not say by which interface it is reached"), "{text}");
        let verb = line.split(' ').next().unwrap();
        assert!(text.contains(&format!("hint: linerate {verb} fe80::1")), "{text}");
    }
    let target = ask("udp fe80::1%eth0").unwrap().request.target;
    assert_eq!(target, Target::Host { name: "fe80::1%eth0".into(), port: 5201 });
}

#[test]
fn experiments_refuse_rates_of_less_than_a_datagram() {
    let refused = |line: &str| {
        let asked = match measure(line).unwrap() {
            Measure::Sweep(args) => args.asked().map(drop),
            Measure::Search(args) => args.asked().map(drop),
            other => panic!("{other:?}"),
        };
        asked.err().map(|error| error.what)
    };
    let what = |option: &str, bps: u64| {
        Some(format!("cannot use `{option}`: {bps} bit/s is less than one datagram"))
    };
    assert_eq!(refused("sweep h --rates 1k..1M -t 1s"), what("--rates", 1_000));
    assert_eq!(refused("sweep h --rates 12k..1M -t 1s"), None);
    assert_eq!(refused("sweep h --over size=64,60000 --rate 100k -t 1s"), what("--rate", 100_000));
    // Trials of a minute begin with ones of a second; the curve goes down to a quarter.
    assert_eq!(refused("search h --preset rfc2544 --min 10k"), what("--min", 10_000));
    assert_eq!(refused("search h --preset rfc2544 --min 12k"), None);
    assert_eq!(refused("search h --min 12k --shape"), what("--min", 12_000));
}
