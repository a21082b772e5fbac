use super::*;

fn figures() -> Figures {
    let end = |sent: f64, received: f64| End {
        sent,
        send_calls: sent / 1_000.0,
        received,
        receive_calls: received / 1_000.0,
        send_buffer: (Some(16_384), Some(4_194_304)),
        receive_buffer: (Some(131_072), None),
        send_size: Some(16_384),
        receive_size: Some(131_072),
        congestion: Some("cubic".into()),
        ..End::default()
    };
    Figures {
        elapsed_s: 1.0,
        here: end(2e9, 0.0),
        there: end(0.0, 1.838_648_75e9),
        transactions: 70_751.1,
        mss: Some(1_448),
        ..Figures::default()
    }
}

fn with_cpu() -> Figures {
    let cpu = Some(Cpu { count: 2, busy: 99.01, user: 10.0, system: 80.0, ..Cpu::default() });
    let mut figures = figures();
    (figures.here.cpu, figures.there.cpu) = (cpu, cpu);
    figures
}

fn options(test: Test) -> Options {
    let asks = test.kind() == Kind::Asks;
    Options {
        test,
        udp: matches!(test, Test::UdpStream | Test::UdpRr),
        host: "127.0.0.1".into(),
        headers: true,
        verbosity: 1,
        sizes: asks.then_some((1, 1)),
        ..Options::default()
    }
}

#[test]
fn columns_are_as_there() {
    let last = |options: &Options, figures: &Figures| {
        let text = report(&Options { headers: false, ..options.clone() }, figures);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let asked = options(Test::TcpStream);
    assert_eq!(last(&asked, &figures()), ["131072  16384  16384    1.00     14709.19   "]);
    let brief = Options { verbosity: 0, brand: "hello".into(), ..asked.clone() };
    assert_eq!(last(&brief, &figures()), ["14709.19 hello"]);
    let cpu = Options { cpu_here: true, cpu_there: true, ..asked };
    let wanted = "131072  16384  16384    1.00       14709.19   99.01    99.01    1.103   1.103  ";
    assert_eq!(last(&cpu, &with_cpu()), [wanted]);
    let asked = options(Test::TcpRr);
    let lines = last(&asked, &figures());
    assert_eq!(lines, ["16384  131072 1        1       1.00     70751.10   ", "16384  131072"]);
    let cpu = Options { cpu_here: true, cpu_there: true, ..asked };
    let wanted = "16384  131072 1       1      1.00    70751.10  99.01  99.01  27.988  27.988 ";
    assert_eq!(last(&cpu, &with_cpu())[0], wanted);
}

#[test]
fn a_mark_ends_a_line_that_no_header_stands_above() {
    let line = |test, verbosity, headers, cpu_here| {
        let asked = Options { verbosity, headers, cpu_here, brand: "mark".into(), ..options(test) };
        let text = report(&asked, &with_cpu());
        text.lines().map(str::to_owned).find(|line| line.contains(['.', '%'])).unwrap_or_default()
    };
    for test in [Test::TcpStream, Test::TcpSendfile, Test::TcpRr, Test::UdpRr] {
        for (verbosity, cpu) in [(0, false), (0, true), (1, false), (1, true)] {
            let shown = line(test, verbosity, false, cpu);
            assert!(shown.ends_with(" mark"), "{test:?} {verbosity} {cpu}: {shown}");
        }
        assert!(!line(test, 0, true, false).contains("mark"), "{test:?}");
    }
    assert_eq!(line(Test::TcpCrr, 0, false, false), "70751.10");
    assert_eq!(line(Test::TcpCc, 0, false, true), "27.988");
    // What was sent, and not the 14,709.19 that arrived.
    assert_eq!(line(Test::UdpStream, 0, false, false), "16000.00");
}

#[test]
fn what_requests_carried_is_in_the_unit_that_was_asked_for() {
    let shown = |format| {
        let asked = Options { format, verbosity: 2, ..options(Test::TcpRr) };
        let asked = Options { sizes: Some((1_024, 2_048)), ..asked };
        report(&asked, &Figures { transactions: 1e3, ..figures() })
    };
    for (format, name, sizes) in [
        (None, "10^6bits/s", "8.192  16.384"),
        (Some('k'), "10^3bits/s", "8192.000  16384.000"),
        (Some('K'), "KBytes  /s", "1000.000  2000.000"),
    ] {
        let text = shown(format);
        assert!(text.contains(&format!("Rate     {name}\n")), "{text}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(words(&text).ends_with(&words(sizes)), "{text}");
    }
}

#[test]
fn service_demand_is_in_the_unit_that_is_named() {
    let asked = Options { format: Some('u'), cpu_here: true, ..options(Test::TcpRr) };
    let asked = Options { sizes: Some((512, 512)), ..asked };
    // 99.01 % of two CPUs for a second over 1,000 KiB in 1,000 transactions.
    let figures = Figures { transactions: 1e3, ..with_cpu() };
    let text = report(&asked, &figures);
    assert!(text.contains("us/KB") && text.contains("1980.200"), "{text}");
    let named = Options { selection: Some((Style::Keys, "LOCAL_SD,SD_UNITS".into())), ..asked };
    assert_eq!(report(&named, &figures), "LOCAL_SD=1980.200\nSD_UNITS=usec/KB\n");
}

#[test]
fn every_name_is_answered() {
    let mut asked = options(Test::TcpStream);
    asked.selection = Some((Style::Keys, "all".into()));
    asked.brand = "mark".into();
    let text = report(&asked, &Figures::default());
    let names = names();
    let names: Vec<_> = names.lines().filter(|name| !name.starts_with("OUTPUT_")).collect();
    assert_eq!(text.lines().count(), names.len());
    for (line, name) in text.lines().zip(&names) {
        assert!(line.starts_with(&format!("{name}=")), "{line}");
    }
    assert_eq!(names.len(), 173);
    let text = report(&asked, &figures());
    for line in
        ["THROUGHPUT=14709.19", "TRANSPORT_MSS=1448", "LSS_SIZE_END=4194304", "RSR_SIZE=131072"]
    {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    // What is not known, and no number of anything.
    assert!(text.contains("\nLOCAL_CPU_UTIL=-1.00\n") && text.contains("\nMIN_LATENCY=-1\n"));
}

#[test]
fn named_figures_are_columns_a_row_or_lines() {
    let mut asked = options(Test::TcpStream);
    let names = "THROUGHPUT,PROTOCOL;LOCAL_CPU_UTIL";
    asked.selection = Some((Style::Columns, names.into()));
    let wanted = "Throughput Protocol \n                    \n                    \n                    \n\
                  14709.19   TCP      \n\nLocal  \nCPU    \nUtil   \n%      \n-1.00  \n";
    assert_eq!(report(&asked, &figures()), wanted);
    asked.selection = Some((Style::Csv, names.into()));
    let wanted = "Throughput,Protocol,Local CPU Util %\n14709.19,TCP,-1.00\n";
    assert_eq!(report(&asked, &figures()), wanted);
    asked.selection = Some((Style::Keys, names.into()));
    asked.headers = false;
    let wanted = "THROUGHPUT=14709.19\nPROTOCOL=TCP\nLOCAL_CPU_UTIL=-1.00\n";
    assert_eq!(report(&asked, &figures()), wanted);
}

#[test]
fn means_are_certain_or_a_warning_stands_above_them() {
    let wanted = Confidence { level: 95, width: 10.0, min: 3, max: 10, rate_only: false };
    let asked = Options { confidence: Some(wanted), ..options(Test::TcpStream) };
    let runs = [1.0e9, 1.1e9, 1.2e9].map(|received| {
        let mut run = figures();
        run.there.received = received;
        run
    });
    let reached = wanted.reached(&asked, &runs);
    // 2 * 4.3027 * sqrt(0.01 / 3) / 1.1
    assert!((reached.throughput - 0.451_67).abs() < 1e-4, "{reached:?}");
    assert!(!wanted.suffices(&reached));
    let mean = Figures { reached, ..Figures::mean(&runs) };
    assert!((mean.throughput(&asked) - 8_800.0).abs() < 1e-6);
    let text = report(&asked, &mean);
    assert!(
        text.starts_with("!!! WARNING\n") && text.contains("Throughput      : 45.166%"),
        "{text}"
    );
    assert!(banner(&asked).contains(" : +/-5.000% @ 95% conf.  : demo"), "{}", banner(&asked));
    let same = wanted.reached(&asked, &[figures(), figures(), figures()]);
    assert!(wanted.suffices(&same) && same.throughput == 0.0);
    assert!(!wanted.suffices(&wanted.reached(&asked, &[figures(), figures()])));
}

#[test]
fn what_several_runs_show_is_the_mean_of_their_rates() {
    // 100, 200 and 300 transactions a second; of the whole time they are 175 a second.
    let runs = [(2.0, 200.0), (1.0, 200.0), (1.0, 300.0)].map(|(elapsed_s, transactions)| {
        let mut run = with_cpu();
        (run.transactions, run.elapsed_s) = (transactions, elapsed_s);
        (run.here.sent, run.there.received) = (transactions * 1e6, transactions * 1e6);
        run.here.cpu = run.here.cpu.map(|cpu| Cpu { busy: 50.0, ..cpu });
        run
    });
    let mean = Figures::mean(&runs);
    let show = |asked: Options, names: &str| {
        let selection = Some((Style::Keys, names.to_owned()));
        report(&Options { selection, ..asked }, &mean)
    };
    // Half of two CPUs: 10, 5 and 3.3 ms for each transaction.
    let wanted =
        "THROUGHPUT=200.00\nTRANSACTION_RATE=200.000\nRT_LATENCY=5000.000\nLOCAL_SD=6111.111\n";
    let names = "THROUGHPUT,TRANSACTION_RATE,RT_LATENCY,LOCAL_SD";
    assert_eq!(show(options(Test::TcpRr), names), wanted);
    // 800, 1,600 and 2,400 Mbit/s.
    let wanted = "THROUGHPUT=1600.00\nLOCAL_SEND_THROUGHPUT=1600.00\n";
    assert_eq!(show(options(Test::TcpStream), "THROUGHPUT,LOCAL_SEND_THROUGHPUT"), wanted);
    let datagrams = Options { headers: false, ..options(Test::UdpStream) };
    assert_eq!(report(&datagrams, &mean).matches("1600.00").count(), 2);
    // What is unknown of one run is unknown of all.
    let mut runs = runs;
    runs[1].here.cpu = None;
    assert_eq!(Figures::mean(&runs).demand(&options(Test::TcpRr), true), None);
}

#[test]
fn work_is_what_arrived_and_connections_are_one_at_a_time() {
    let mut received = with_cpu();
    (received.here.received, received.there.sent) = (1_024_000.0, 2_048_000.0);
    let mut asked = options(Test::Omni(Kind::Receives));
    asked.udp = true;
    asked.selection = Some((Style::Keys, "LOCAL_SD,REMOTE_SD".into()));
    // 99.01 % of two CPUs for a second, over 1,000 KiB.
    assert_eq!(report(&asked, &received), "LOCAL_SD=1980.200\nREMOTE_SD=1980.200\n");
    let latency = |connections, format| {
        let asked = Options { connections, format, burst: 4, ..options(Test::TcpCrr) };
        let names = (Style::Keys, "THROUGHPUT,RT_LATENCY,BURST_SIZE".to_owned());
        let figures = Figures { elapsed_s: 1.0, transactions: 1e3, ..Figures::default() };
        report(&Options { selection: Some(names), ..asked }, &figures)
    };
    let lines = |first, second| format!("THROUGHPUT={first}\nRT_LATENCY={second}\nBURST_SIZE=4\n");
    assert_eq!(latency(true, None), lines("1000.00", "1000.000"));
    assert_eq!(latency(true, Some('u')), lines("1000.00", "1000.000"));
    assert_eq!(latency(false, Some('u')), lines("5000.00", "5000.000"));
}

#[test]
fn intervals_have_the_form_that_programs_read() {
    let row = Interim { bytes: 2.5e8, transactions: 0.0, seconds: 0.2, at_s: 1_795_509_966.34 };
    let mut asked = options(Test::TcpStream);
    let wanted =
        "Interim result: 10000.00 10^6bits/s over 0.200 seconds ending at 1795509966.340\n";
    assert_eq!(interim(&asked, 0, &row), wanted);
    asked.selection = Some((Style::Keys, String::new()));
    let wanted = "NETPERF_INTERIM_RESULT[3]=10000.00\nNETPERF_UNITS[3]=10^6bits/s\n\
                  NETPERF_INTERVAL[3]=0.200\nNETPERF_ENDING[3]=1795509966.340\n";
    assert_eq!(interim(&asked, 3, &row), wanted);
}
