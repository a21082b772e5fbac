//! What both ends measured becomes a record: known answers of CPU shares, TCP shares, bytes and
//! delay.

use linerate_model::host::CoreUse;
use linerate_model::plan::{Direction, End, EngineChoice, IpVersion, TcpPlan, TestPlan, Traffic};
use linerate_model::record::{
    CpuFigures, DoubtKind, HostFigures, Pair, RunRecord, SenderFigures, Status, TestEnd,
};
use linerate_model::sample::{
    DelayQuantiles, HostCounters, HostSample, LossRunCounts, RecvCounts, RecvInterval, RecvReport,
    SendCounts, SendInterval, SendReport, TcpSample, ThreadUse,
};
use linerate_model::units::{BitRate, Nanos, Rate};
use linerate_session::assemble::{
    HostSamples, LiveSide, Outcome, StreamOutcome, assemble, live_interval,
};
use linerate_session::clock::ClockOffset;
use linerate_session::habits;
use linerate_testkit::{plans, records};

const SECOND: u64 = 1_000_000_000;

fn plan(traffic: Traffic, streams: u16) -> TestPlan {
    TestPlan {
        streams,
        end: End::Time(Nanos::from_secs(2)),
        interval: Nanos::from_secs(1),
        ..plans::plan(traffic)
    }
}

fn udp(streams: u16) -> TestPlan {
    plan(Traffic::Udp(plans::udp()), streams)
}

fn tcp(streams: u16) -> TestPlan {
    plan(Traffic::Tcp(TcpPlan { discard: true, ..plans::tcp() }), streams)
}

fn outcome(plan: TestPlan, streams: Vec<StreamOutcome>) -> Outcome {
    Outcome {
        plan,
        ip: IpVersion::V4,
        streams,
        client: HostSamples::default(),
        server: HostSamples::default(),
        clock: None,
        same_host: false,
        discard: false,
        fragments: false,
        complete: true,
        habits: habits::NATIVE,
    }
}

fn record(outcome: &Outcome) -> RunRecord {
    assemble(records::empty(outcome.plan.traffic.name()), outcome)
}

/// A thread that was busy for `percent` of `seconds`.
fn thread(percent: u64, seconds: u64, core: u32) -> ThreadUse {
    let cpu_ns = Some(seconds * SECOND / 100 * percent);
    ThreadUse { cpu_ns, core: Some(core), ..ThreadUse::default() }
}

/// A stream of 1,000 bytes in each of two intervals of a second, both ends' threads as given.
fn stream(index: u16, percent: u64, core: u32) -> StreamOutcome {
    let each = (1, 1_000);
    let sent = SendCounts { datagrams: each.0, bytes: each.1, ..SendCounts::default() };
    let came =
        RecvCounts { datagrams: each.0, bytes: each.1, expected: each.0, ..RecvCounts::default() };
    let row = thread(percent, 1, core);
    let all = thread(percent, 2, core);
    let send_row = SendInterval { counts: sent, thread: row, tcp: None };
    let recv_row =
        RecvInterval { counts: came, jitter_ns: None, thread: row, ..Default::default() };
    let (mut all_sent, mut all_came) = (sent, came);
    all_sent.add(&sent);
    all_came.add(&came);
    StreamOutcome {
        index,
        send: Some(SendReport {
            counts: all_sent,
            intervals: vec![send_row; 2],
            span_ns: 2 * SECOND,
            thread: all,
            ..SendReport::default()
        }),
        recv: Some(RecvReport {
            counts: all_came,
            intervals: vec![recv_row; 2],
            first_ns: Some(5),
            last_ns: Some(5 + 2 * SECOND),
            thread: all,
            ..RecvReport::default()
        }),
        ..StreamOutcome::default()
    }
}

/// Cores 0 to 3 busy for 0, 10, 20 and 30 %, a tenth of that in softirq.
fn host() -> HostSample {
    let core = |core: u32| {
        let busy = core as u16 * 1_000;
        CoreUse {
            core,
            user: busy / 2,
            system: busy / 2 - busy / 10,
            softirq: busy / 10,
            steal: 0,
            idle: 10_000 - busy,
        }
    };
    HostSample { cores: (0..4).map(core).collect(), span_ns: SECOND, ..HostSample::default() }
}

fn both_cpus(pair: &Pair) -> [CpuFigures; 2] {
    let sender = pair.sender.as_ref().unwrap().cpu.clone().unwrap();
    [sender, pair.receiver.as_ref().unwrap().cpu.clone().unwrap()]
}

#[test]
fn each_end_says_which_engine_it_ran_and_which_it_could_not() {
    let mut stream = stream(0, 10, 1);
    if let (Some(send), Some(recv)) = (&mut stream.send, &mut stream.recv) {
        send.engines = vec!["gso".into(), "mmsg".into()];
        send.fallback = Some("gso was refused: EIO".into());
        recv.engine = "send".into();
        recv.fallback = Some("mmsg could not be opened: EPERM".into());
        recv.unstamped = Some("SO_TIMESTAMPNS: ENOPROTOOPT".into());
    }
    let texts = |reverse: bool| {
        let stream = StreamOutcome { reverse, ..stream.clone() };
        let mut plan = udp(1);
        plan.direction = if reverse { Direction::Reverse } else { Direction::Forward };
        let record = record(&outcome(plan, vec![stream]));
        let agreed = record.agreed.expect("a plan");
        assert_eq!(agreed.engine, Some(EngineChoice::Mmsg.into()));
        assert_eq!(agreed.receive_engine, Some(EngineChoice::Send.into()));
        let ours =
            |kind: &DoubtKind| matches!(kind, DoubtKind::EngineFallback | DoubtKind::Degraded);
        let doubts = record.doubts.into_iter().filter(|doubt| ours(&doubt.kind));
        doubts.map(|doubt| doubt.text).collect::<Vec<_>>()
    };
    assert_eq!(
        texts(false),
        [
            "the client's gso was refused: EIO; engines used: gso, then mmsg",
            "the server's mmsg could not be opened: EPERM; it received with send",
            "the server's system stamps no arrivals (SO_TIMESTAMPNS: ENOPROTOOPT): jitter and delay are of the times at which datagrams were read",
        ]
    );
    assert!(texts(true)[0].starts_with("the server's gso"));
    assert!(texts(true)[1].starts_with("the client's mmsg"));
}

#[test]
fn cpu_of_several_streams_is_the_busiest_thread_and_the_sum_of_all() {
    let streams = vec![stream(0, 60, 1), stream(1, 90, 3), stream(2, 20, 2)];
    let mut outcome = outcome(udp(3), streams);
    let samples =
        HostSamples { intervals: vec![host(); 2], total: Some(host()), irq_cores: vec![2, 77] };
    outcome.client = samples.clone();
    outcome.server = samples;
    let record = record(&outcome);
    assert_eq!(record.status, Status::Complete, "{:?}", record.error);
    let pair = |figures: &linerate_model::record::Figures| Pair {
        sender: figures.sender.clone(),
        receiver: figures.receiver.clone(),
    };
    let mut all = vec![pair(&record.totals)];
    all.extend(record.intervals.iter().map(|row| pair(&row.figures)));
    assert_eq!(all.len(), 3);
    for cpu in all.iter().flat_map(both_cpus) {
        assert!((cpu.thread_percent - 90.0).abs() < 1e-6, "{cpu:?}");
        assert!((cpu.threads_percent - 170.0).abs() < 1e-6, "{cpu:?}");
        assert_eq!(
            (cpu.core, cpu.core_percent, cpu.softirq_percent),
            (Some(3), Some(30.0), Some(3.0))
        );
        assert_eq!((cpu.user_percent, cpu.system_percent), (Some(15.0), Some(12.0)));
        let irq: Vec<_> = cpu.irq_cores.iter().map(|c| (c.core, c.core_percent)).collect();
        assert_eq!(irq, [(2, 20.0)], "a core without a figure is left out");
    }
    // A row while the test runs: streams come added up, one by one.
    let mut live = LiveSide { host: Some(host()), ..LiveSide::default() };
    for stream in &outcome.streams {
        let row = stream.send.as_ref().unwrap().intervals[0];
        match &mut live.send {
            None => live.send = Some(row),
            Some(sum) => sum.thread.beside(&row.thread),
        }
    }
    let shown = live_interval(&outcome.plan, 0, &live, &LiveSide::default(), None);
    let cpu = shown.figures.sender.unwrap().cpu.unwrap();
    assert!((cpu.thread_percent - 90.0).abs() < 1e-6 && cpu.core == Some(3), "{cpu:?}");
    assert!((cpu.threads_percent - 170.0).abs() < 1e-6, "{cpu:?}");
}

#[test]
fn what_a_thread_waited_for_and_what_ran_beside_it_stand_in_the_record() {
    let mut streams = vec![stream(0, 60, 1), stream(1, 50, 3)];
    // The second ran less and stood ready longer: it is the one that was held back.
    let ready = |seconds: u64, percent: u64| Some(seconds * SECOND / 100 * percent);
    let change = |send: &mut SendReport, percent: u64, sleeps: u64| {
        (send.thread.ready_ns, send.thread.sleeps) = (ready(2, percent), Some(sleeps));
        for row in &mut send.intervals {
            (row.thread.ready_ns, row.thread.sleeps) = (ready(1, percent), Some(sleeps / 2));
        }
    };
    change(streams[0].send.as_mut().unwrap(), 1, 500);
    change(streams[1].send.as_mut().unwrap(), 30, 2);
    let mut outcome = outcome(udp(2), streams);
    let samples =
        HostSamples { intervals: vec![host(); 2], total: Some(host()), irq_cores: vec![] };
    outcome.client = samples;
    let record_of = |outcome: &Outcome| record(outcome);
    let whole = record_of(&outcome);
    let row = whole.intervals[1].figures.sender.clone().unwrap().cpu.unwrap();
    let total = whole.totals.sender.clone().unwrap().cpu.unwrap();
    for cpu in [&row, &total] {
        assert_eq!((cpu.core, cpu.thread_percent, cpu.ready_percent), (Some(3), 50.0, Some(30.0)));
        // It gave up its core once a second, so the rest was taken from it.
        assert_eq!(cpu.interrupted_percent, Some(20.0));
    }
    // Programs took 54 % of a core in the host's second, and the threads 220 % in theirs.
    assert_eq!((total.others_percent, total.idle_cores), (Some(0.0), Some(vec![0, 1, 2, 3])));
    assert_eq!((row.others_percent, row.idle_cores), (None, None));
    assert_eq!(whole.totals.receiver.unwrap().cpu.unwrap().ready_percent, None);
    // One that sleeps is not interrupted, and another program's time is not the test's.
    for stream in &mut outcome.streams {
        change(stream.send.as_mut().unwrap(), 30, 500);
        stream.send.as_mut().unwrap().thread.cpu_ns = Some(SECOND / 10);
    }
    let cores = &mut outcome.client.total.as_mut().unwrap().cores;
    (cores[3].user, cores[3].idle) = (8_000, 800);
    let cpu = record_of(&outcome).totals.sender.unwrap().cpu.unwrap();
    assert_eq!(cpu.interrupted_percent, None);
    assert_eq!(cpu.idle_cores, Some(vec![0, 1, 2]));
    // 9 + 18 + 92 % of cores 1 to 3, less 10 % for each of the two threads.
    assert!((cpu.others_percent.unwrap() - 99.0).abs() < 1e-6, "{cpu:?}");
    // Softirq in no thread's time is work of no program, where the kernel keeps it apart.
    outcome.client.total.as_mut().unwrap().interrupts_apart = Some(false);
    let cpu = record_of(&outcome).totals.sender.unwrap().cpu.unwrap();
    assert!((cpu.others_percent.unwrap() - 105.0).abs() < 1e-6, "{cpu:?}");
    // The peer's threads run there as well where it is one host.
    outcome.same_host = true;
    let cpu = record_of(&outcome).totals.sender.unwrap().cpu.unwrap();
    assert_eq!(cpu.others_percent, Some(0.0));
}

#[test]
fn what_is_added_up_over_cores_is_of_all_of_them_or_absent() {
    let core = |core: u32| {
        let user = if core < 130 { 9_000 } else { 0 };
        CoreUse { core, user, idle: 10_000 - user, ..CoreUse::default() }
    };
    let mut outcome = outcome(udp(1), vec![stream(0, 0, 1)]);
    let cores = (0..192).map(core).collect();
    outcome.client.total = Some(HostSample { cores, ..host() });
    let cpu = record(&outcome).totals.sender.unwrap().cpu.unwrap();
    assert_eq!(cpu.idle_cores, Some((130..192).collect()));
    assert!((cpu.others_percent.unwrap() - 130.0 * 90.0).abs() < 1e-6, "{cpu:?}");
    let total = outcome.client.total.as_mut().unwrap();
    total.cores.truncate(128);
    total.left_out = Some(64);
    let cpu = record(&outcome).totals.sender.unwrap().cpu.unwrap();
    assert_eq!((cpu.idle_cores, cpu.others_percent), (None, None));
    assert_eq!(cpu.core_percent, Some(90.0), "those that are reported have their shares");
}

#[test]
fn a_thread_has_no_more_than_its_time_and_what_nobody_tells_is_absent() {
    let mut outcome = outcome(udp(2), vec![stream(0, 101, 0), stream(1, 50, 1)]);
    let cpu = record(&outcome).totals.sender.unwrap().cpu.unwrap();
    assert!((cpu.thread_percent - 100.0).abs() < 1e-9 && cpu.threads_percent < 150.0, "{cpu:?}");
    assert_eq!((cpu.core, cpu.core_percent), (Some(0), None), "no host told of its cores");
    for stream in &mut outcome.streams {
        stream.send.as_mut().unwrap().thread = ThreadUse::default();
    }
    assert_eq!(record(&outcome).totals.sender.unwrap().cpu, None);
}

#[test]
fn tcp_shares_stand_in_every_row() {
    // Two streams; of each second, the one has data queued for all of it and waits for the window
    // for a quarter, the other for half and a tenth. The test ends with a row of no time.
    let growth = |part: u64| TcpSample {
        retransmits: Some(3),
        busy_ns: Some(SECOND / part),
        rwnd_limited_ns: Some(SECOND / part / 4),
        sndbuf_limited_ns: Some(0),
        ..TcpSample::default()
    };
    let mut streams = vec![stream(0, 10, 0), stream(1, 10, 1)];
    for (stream, part) in streams.iter_mut().zip([1, 2]) {
        let send = stream.send.as_mut().unwrap();
        for row in &mut send.intervals {
            row.tcp = Some(growth(part));
        }
        let empty = TcpSample { retransmits: Some(1), cwnd_bytes: Some(7), ..TcpSample::default() };
        send.intervals.push(SendInterval { tcp: Some(empty), ..SendInterval::default() });
    }
    let outcome = outcome(tcp(2), streams);
    let record = record(&outcome);
    let rows: Vec<_> = record
        .intervals
        .iter()
        .map(|row| row.figures.sender.clone().unwrap().tcp.unwrap())
        .collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in &rows {
        assert_eq!((row.busy_ratio, row.rwnd_limited_ratio), (Some(1.0), Some(0.25)));
        assert_eq!(row.sndbuf_limited_ratio, Some(0.0));
    }
    // What the row of no time counted is in the row before it.
    assert_eq!((rows[0].retransmits, rows[1].retransmits), (Some(6), Some(8)));
    assert_eq!(rows[1].cwnd_bytes, Some(14));
    let first = outcome.streams[0].send.as_ref().unwrap().intervals[0];
    let live = LiveSide { send: Some(first), ..LiveSide::default() };
    let shown = live_interval(&outcome.plan, 0, &live, &LiveSide::default(), None);
    let tcp = shown.figures.sender.unwrap().tcp.unwrap();
    assert_eq!(tcp.rwnd_limited_ratio, Some(0.25));
}

/// One datagram of 11 us after nine of 1 us makes a mean of 2 us.
#[test]
fn delays_of_a_row_of_no_time_are_counted_with_the_row_before_it() {
    let row = |datagrams, jitter_ns, mean_ns, max_ns| RecvInterval {
        counts: RecvCounts { datagrams, ..RecvCounts::default() },
        jitter_ns: Some(jitter_ns),
        delay_mean_ns: Some(mean_ns),
        delay_max_ns: Some(max_ns),
        ..RecvInterval::default()
    };
    let mut stream = stream(0, 10, 0);
    let intervals = &mut stream.recv.as_mut().unwrap().intervals;
    intervals[1] = row(9, 3_000, 1_000, 4_000);
    intervals.push(row(1, 2_500, 11_000, 11_000));
    let record = record(&outcome(udp(1), vec![stream]));
    let row = record.intervals[1].figures.receiver.as_ref().unwrap();
    assert_eq!((record.intervals.len(), row.datagrams), (2, Some(10)));
    let delays = [row.jitter_s, row.delay_variation_mean_s, row.delay_variation_max_s];
    assert_eq!(delays, [2.5e-6, 2e-6, 11e-6].map(Some));
}

/// A total that showed the last moment would say 90 ms and 1,000 bytes of a test that had 20 ms and
/// 30,000 for most of its time.
#[test]
fn totals_of_tcp_are_no_last_moments() {
    let sample = |ms: u64, cwnd: u64| TcpSample {
        rtt_ns: Some(ms * 1_000_000),
        rtt_variation_ns: Some(ms * 100_000),
        min_rtt_ns: Some(9_000_000),
        cwnd_bytes: Some(cwnd),
        delivery_rate_bps: Some(cwnd * 8),
        retransmits: Some(5),
        ..TcpSample::default()
    };
    let mut streams = vec![stream(0, 10, 0), stream(1, 10, 1)];
    for (stream, scale) in streams.iter_mut().zip([1, 2]) {
        let send = stream.send.as_mut().unwrap();
        send.intervals[0].tcp = Some(sample(20 * scale, 30_000 * scale));
        send.intervals[1].tcp = Some(sample(90 * scale, 1_000 * scale));
        send.tcp = Some(sample(90 * scale, 1_000 * scale));
    }
    let record = record(&outcome(tcp(2), streams));
    let tcp = |of: &SenderFigures| of.tcp.clone().unwrap();
    let total = tcp(record.totals.sender.as_ref().unwrap());
    // Of the two streams the larger round trip and both windows, as in the rows.
    assert_eq!(
        (total.rtt_s, total.rtt_max_s, total.min_rtt_s),
        (Some(0.110), Some(0.180), Some(0.009))
    );
    assert_eq!(total.rtt_variation_s, Some(0.011));
    assert_eq!(total.cwnd_bytes, Some((90_000 + 3_000) / 2));
    assert_eq!((total.cwnd_min_bytes, total.cwnd_max_bytes), (Some(3_000), Some(90_000)));
    assert_eq!((total.delivery_rate_bps, total.retransmits), (Some(46_500 * 8), Some(10)));
    let first = tcp(record.streams[0].figures.sender.as_ref().unwrap());
    assert_eq!((first.rtt_s, first.cwnd_bytes), (Some(0.055), Some(15_500)));
    let row = tcp(record.intervals[1].figures.sender.as_ref().unwrap());
    assert_eq!((row.rtt_s, row.rtt_max_s, row.cwnd_max_bytes), (Some(0.180), None, None));
}

/// One stream kept its rate, the other took twice as long for its half.
#[test]
fn the_error_of_a_rate_is_over_the_time_that_the_rate_is_over() {
    let mut streams = vec![stream(0, 10, 0), stream(1, 10, 1)];
    for (stream, error_ppb) in streams.iter_mut().zip([0, -500_000_000]) {
        let send = stream.send.as_mut().unwrap();
        send.pacing_error_ppb = Some(error_ppb);
        send.gaps = Some(DelayQuantiles { count: 1, ..DelayQuantiles::default() });
    }
    let mut outcome = outcome(udp(2), streams);
    let error_ppm = |outcome: &Outcome| {
        let record = record(outcome);
        let of = |sender: &SenderFigures| sender.pacing.as_ref().unwrap().mean_error_ppm;
        let each = record.streams.iter().map(|s| of(s.figures.sender.as_ref().unwrap()));
        assert_eq!(each.collect::<Vec<_>>(), [Some(0.0), Some(-500_000.0)]);
        of(record.totals.sender.as_ref().unwrap())
    };
    assert_eq!(error_ppm(&outcome), Some(-250_000.0));
    outcome.plan.end = End::Datagrams(4);
    assert_eq!(error_ppm(&outcome), Some(-500_000.0));
    // Cut short, they ended together.
    outcome.complete = false;
    assert_eq!(error_ppm(&outcome), Some(-250_000.0));
}

#[test]
fn bytes_of_tcp_must_agree() {
    let mut outcome = outcome(tcp(1), vec![stream(0, 10, 0)]);
    // Each end begins its measured time by itself: the whole stream must agree.
    outcome.streams[0].send.as_mut().unwrap().warmup = 500;
    outcome.streams[0].recv.as_mut().unwrap().warmup = 500;
    assert_eq!(record(&outcome).status, Status::Complete);
    outcome.streams[0].recv.as_mut().unwrap().warmup = 501;
    let broken = record(&outcome);
    assert_eq!(broken.status, Status::Invalid);
    assert_eq!(
        broken.error.unwrap().why,
        "the figures of the two ends contradict each other: \
         forward stream 0: 2500 bytes sent are not 2501 bytes received, warm-up included"
    );
    // What was cut short need not agree, and iperf3 tells its own counts.
    let mut cut = records::empty("tcp");
    cut.status = Status::Partial;
    assert_eq!(assemble(cut, &outcome).status, Status::Partial);
    outcome.habits = habits::IPERF3;
    assert_eq!(record(&outcome).status, Status::Complete);
}

#[test]
fn bytes_of_a_warm_up_that_came_late_are_a_doubt() {
    let mut outcome = outcome(tcp(1), vec![stream(0, 10, 0)]);
    outcome.plan.warmup = Nanos::from_secs(1);
    outcome.streams[0].send.as_mut().unwrap().warmup = 500;
    outcome.streams[0].recv.as_mut().unwrap().warmup = 500;
    let doubted = |outcome: &Outcome| {
        let found = record(outcome).doubts.into_iter().find(|d| d.kind == DoubtKind::Degraded);
        found.map(|doubt| doubt.text)
    };
    assert_eq!(doubted(&outcome), None);
    let recv = outcome.streams[0].recv.as_mut().unwrap();
    // The last 300 of its 500 bytes came with those of the measured time.
    recv.warmup -= 300;
    recv.counts.bytes += 300;
    recv.intervals[0].counts.bytes += 300;
    assert_eq!(record(&outcome).status, Status::Complete);
    let text = doubted(&outcome).expect("a doubt");
    assert!(text.starts_with("300 bytes of the warm-up arrived after it had ended"), "{text}");
}

#[test]
fn no_more_delays_than_datagrams() {
    let mut outcome = outcome(udp(1), vec![stream(0, 10, 0)]);
    let delays = |count| Some(DelayQuantiles { count, ..DelayQuantiles::default() });
    outcome.streams[0].recv.as_mut().unwrap().delay_variation = delays(2);
    assert_eq!(record(&outcome).status, Status::Complete);
    outcome.streams[0].recv.as_mut().unwrap().delay_variation = delays(3);
    let broken = record(&outcome);
    assert_eq!(broken.status, Status::Invalid);
    let error = broken.error.unwrap();
    let what =
        "the server's figures contradict each other: forward stream 0: 3 delays of 2 datagrams";
    assert_eq!(error.why, what);
    assert!(!error.hints.concat().contains("please report"), "{error:?}");
}

#[test]
fn one_way_delay_is_known_with_its_error_or_absent() {
    let mut outcome = outcome(udp(2), vec![stream(0, 1, 0), stream(1, 1, 1)]);
    for (stream, base) in outcome.streams.iter_mut().zip([0, 1_000]) {
        let recv = stream.recv.as_mut().unwrap();
        // On the receiver's clock, which is 7 s ahead, less the send time on the sender's.
        recv.least_transit_ns = Some(7_000_300_000);
        recv.delay_variation = Some(DelayQuantiles {
            count: 2,
            min_ns: 0,
            p50_ns: 50_000 + base,
            max_ns: 90_000 + base,
            mean_ns: 40_000,
            ..DelayQuantiles::default()
        });
    }
    let clock = |offset_ns: i64, error_ns| {
        Some(ClockOffset { offset_ns, error_ns, round_trip_ns: 2 * error_ns })
    };
    let delay = |outcome: &Outcome| record(outcome).totals.receiver.unwrap().one_way_delay_s;
    assert_eq!(delay(&outcome), None, "nobody compared the clocks");
    outcome.clock = clock(7_000_000_000, 20_000);
    let known = delay(&outcome).unwrap();
    let micros = |seconds: f64| (seconds * 1e6).round();
    assert_eq!((micros(known.clock_error_s), known.quantiles.count), (20.0, 4));
    assert_eq!(known.quantiles.min.map(micros), Some(300.0));
    // Of several streams the larger quantiles, and the record says so.
    assert!(known.quantiles.upper_bounds);
    assert_eq!((micros(known.quantiles.p50), micros(known.quantiles.max)), (351.0, 391.0));
    // Less than nothing, by no more than the clocks' error, is nothing; by more it cannot be.
    outcome.clock = clock(7_000_310_000, 20_000);
    assert_eq!(delay(&outcome).unwrap().quantiles.min, Some(0.0));
    outcome.clock = clock(7_000_330_000, 20_000);
    assert_eq!(delay(&outcome), None);
    // The other way the distance counts the other way round.
    outcome.plan.direction = Direction::Reverse;
    outcome.streams.iter_mut().for_each(|stream| stream.reverse = true);
    outcome.clock = clock(-7_000_000_000, 20_000);
    assert_eq!(delay(&outcome).unwrap().quantiles.min.map(micros), Some(300.0));
    // Under one kernel there is one clock, and its reading has no error.
    outcome.same_host = true;
    outcome
        .streams
        .iter_mut()
        .for_each(|s| s.recv.as_mut().unwrap().least_transit_ns = Some(300_000));
    outcome.clock = clock(-3_000, 20_000);
    let exact = delay(&outcome).unwrap();
    assert_eq!((exact.clock_error_s, exact.quantiles.min.map(micros)), (0.0, Some(300.0)));
    // A stream that nothing came on leaves nothing to tell.
    outcome.streams[1].recv.as_mut().unwrap().least_transit_ns = None;
    assert_eq!(delay(&outcome), None);
}

#[test]
fn runs_of_loss_are_known_by_numbers_alone() {
    let runs = |habits| {
        let mut stream = StreamOutcome { reverse: true, ..stream(0, 10, 0) };
        let one = LossRunCounts { runs: 1, longest: 4, ..LossRunCounts::default() };
        stream.recv.as_mut().unwrap().loss_runs = Some(one);
        let plan = TestPlan { direction: Direction::Reverse, ..udp(1) };
        let record = record(&Outcome { habits, ..outcome(plan, vec![stream]) });
        record.totals.receiver.unwrap().loss_runs.map(|runs| runs.longest)
    };
    assert_eq!((runs(habits::NATIVE), runs(habits::NETPERF)), (Some(4), None));
}

#[test]
fn a_counter_that_the_host_does_not_tell_is_absent() {
    let mut outcome = outcome(udp(1), vec![stream(0, 10, 0)]);
    outcome.streams[0].recv.as_mut().unwrap().counts.socket_drops = 9;
    outcome.streams[0].recv.as_mut().unwrap().intervals[0].counts.socket_drops = 9;
    let counters = HostCounters { softnet_dropped: Some(0), ..HostCounters::default() };
    outcome.server.total = Some(HostSample { counters, ..HostSample::default() });
    let told = HostFigures { softnet_dropped: Some(0), ..HostFigures::default() };
    let record = record(&outcome);
    assert_eq!(record.totals.receiver.unwrap().host, Some(told));
    assert!(
        record.doubts.is_empty(),
        "nothing disagrees with what is unknown: {:?}",
        record.doubts
    );
}

#[test]
fn what_a_sender_and_a_receiver_could_not_tell_for_certain_is_a_doubt() {
    let refusing = |train, refused, errors| {
        let mut one = stream(0, 10, 1);
        let send = one.send.as_mut().unwrap();
        send.train = train;
        send.counts.refused_locally = refused;
        send.intervals[0].counts.refused_locally = refused;
        let counters =
            HostCounters { udp_send_buffer_errors: Some(errors), ..HostCounters::default() };
        let total = Some(HostSample { counters, ..HostSample::default() });
        let client = HostSamples { total, ..HostSamples::default() };
        record(&Outcome { client, ..outcome(udp(1), vec![one]) })
    };
    let doubts_say =
        |record: &RunRecord, text: &str| record.doubts.iter().any(|d| d.text.contains(text));
    assert!(!doubts_say(&refusing(1, 5, 5), "refused"));
    assert!(doubts_say(&refusing(1, 6, 5), "6 datagrams refused"));
    assert!(!doubts_say(&refusing(8, 40, 5), "refused"));
    assert!(doubts_say(&refusing(8, 41, 5), "41 datagrams refused"));
    let mut one = stream(0, 10, 1);
    let send = one.send.as_mut().unwrap();
    for counts in [&mut send.counts, &mut send.intervals[0].counts] {
        counts.refused_locally = 7;
        counts.local_errors = [("EPERM", 5), ("ENOBUFS", 2)].into_iter().collect();
    }
    let counters = HostCounters { udp_send_buffer_errors: Some(2), ..HostCounters::default() };
    let total = Some(HostSample { counters, ..HostSample::default() });
    let client = HostSamples { total, ..HostSamples::default() };
    let dropped = record(&Outcome { client, ..outcome(udp(1), vec![one.clone()]) });
    assert!(doubts_say(&dropped, "the client's host, 5 EPERM, 2 ENOBUFS"), "{:?}", dropped.doubts);
    assert!(!doubts_say(&dropped, "SndbufErrors"), "only ENOBUFS is among them");
    let by_errno = dropped.totals.sender.unwrap().local_send_errors;
    assert_eq!(by_errno, [("EPERM".to_owned(), 5), ("ENOBUFS".to_owned(), 2)].into());
    one.send.as_mut().unwrap().counts.refused_locally += 1;
    one.send.as_mut().unwrap().intervals[0].counts.refused_locally += 1;
    assert_eq!(record(&outcome(udp(1), vec![one])).status, Status::Invalid);
    let mut one = stream(0, 10, 1);
    one.send.as_mut().unwrap().small_mtu = Some(1_000);
    one.recv.as_mut().unwrap().unread = 7;
    let late = outcome(udp(1), vec![one]);
    let found = record(&late);
    assert!(doubts_say(&found, "1000 bytes") && doubts_say(&found, "up to 7 datagrams"));
    let foreseen = record(&Outcome { fragments: true, ..late });
    assert!(!doubts_say(&foreseen, "1000 bytes"), "the client has said it before the test");
}

#[test]
fn a_doubt_about_one_host_says_which() {
    let counters = HostCounters { throttled_ns: Some(5_000_000), ..HostCounters::default() };
    let total = Some(HostSample { counters, ..HostSample::default() });
    let server = HostSamples { total, ..HostSamples::default() };
    let found = record(&Outcome { server, ..outcome(udp(1), vec![stream(0, 10, 0)]) });
    let busy = found.doubts.iter().find(|doubt| doubt.kind == DoubtKind::HostBusy);
    assert_eq!(busy.and_then(|doubt| doubt.host), Some(TestEnd::Server), "{:?}", found.doubts);
    // The kernel adds it up over cores.
    assert!(busy.is_some_and(|doubt| doubt.text.contains("for 0.005 core-seconds in")));
}

#[test]
fn a_rate_that_whole_datagrams_cannot_keep_is_told() {
    // 8,000 bits each in 2 s: 6 kbit/s are one and a half of them, and two are sent.
    let said = |bps| {
        let mut plan = udp(1);
        if let Traffic::Udp(udp) = &mut plan.traffic {
            udp.rate = BitRate::new(bps).map(Rate::Bits);
        }
        let record = record(&outcome(plan, vec![stream(0, 10, 0)]));
        record.doubts.into_iter().map(|d| d.text).find(|text| text.contains("is due every"))
    };
    assert_eq!(
        said(6_000).unwrap(),
        "at 6.000 kbit/s a datagram of 1000 bytes is due every 1.333 s, the first at the start: the rate comes to 2 datagrams in 2 s, which is 8.000 kbit/s"
    );
    assert!(said(4_001).unwrap().contains("2 datagrams in 2 s"));
    assert_eq!((said(4_000), said(8_000)), (None, None));
    // A thousandth of a datagram more or less is nobody's concern.
    assert_eq!(said(10_000_001), None);
}
