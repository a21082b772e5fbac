//! The screen of a test, at the sizes of terminals.

use linerate_model::host::{CoreUse, HostFacts};
use linerate_model::record::{Figures, Interval, RunRecord};
use linerate_model::sample::HostSample;
use linerate_testkit::records;
use linerate_watch::test::{TestView, Turn};
use linerate_watch::{Look, screen};

/// The start of a record, before there were figures.
fn start(record: &RunRecord) -> RunRecord {
    RunRecord {
        intervals: vec![],
        totals: Figures::default(),
        verdict: None,
        streams: vec![],
        ..record.clone()
    }
}

fn host(busy: u16) -> HostSample {
    let core = |core| {
        let softirq = if core == 2 { busy } else { 40 };
        let used = CoreUse { core, user: 210, system: 830, softirq, steal: 0, idle: 0 };
        CoreUse { idle: 10_000 - used.busy(), ..used }
    };
    HostSample { cores: (0..4).map(core).collect(), ..HostSample::default() }
}

fn running(record: &RunRecord) -> TestView {
    let mut view = TestView::default();
    let mut begun = start(record);
    if let Some(server) = &mut begun.server {
        server.nic.as_mut().unwrap().irq_cores = vec![2];
        server.boot_id = Some("another".into());
    }
    view.start(&begun);
    for interval in &record.intervals {
        view.hosts(Some(&host(40)), Some(&host(8_800)));
        view.interval(interval);
        view.elapsed(interval.end_s + 0.2);
    }
    view.judge(record.verdict.clone());
    view
}

fn shown(view: &TestView, columns: u16, rows: u16) -> String {
    screen::text(&screen::draw(columns, rows, |buffer| view.draw(buffer, Look { colour: false })))
}

#[test]
fn the_screen_of_a_test() {
    for (columns, rows) in [(80, 24), (120, 40), (200, 50)] {
        let view = running(&records::udp_receiver_drops());
        insta::assert_snapshot!(format!("udp-{columns}x{rows}"), shown(&view, columns, rows));
    }
    for (name, record) in
        [("tcp", records::tcp()), ("rr", records::rr()), ("both", records::udp_both())]
    {
        insta::assert_snapshot!(format!("{name}-80x24"), shown(&running(&record), 80, 24));
    }
    let mut record = records::udp_streams();
    record.client.boot_id = Some("this".into());
    record.server = Some(record.client.clone());
    let mut view = TestView::default();
    view.start(&start(&record));
    record.intervals.iter().for_each(|interval| view.interval(interval));
    insta::assert_snapshot!("local-80x24", shown(&view, 80, 24));
}

/// What a small screen breaks stands on one line where there is room, and the chart takes the rows that are left.
#[test]
fn larger_terminals_show_each_kind_whole() {
    for (record, charted, lines) in [
        (
            records::tcp(),
            "rates  ⠤ received  • sent",
            [
                "received 941.6 Mbit/s · sent 951.2 Mbit/s",
                "retransmits 17 · RTT 12.4 ms (min 11.9 ms) · cwnd 1.477 MB",
                "loss and TCP's congestion control: 17 segments were retransmitted",
            ],
        ),
        (
            records::rr(),
            "rates  ⠤ transactions",
            [
                "19.87 ktransactions/s",
                "latency median 48.2 µs · 99 % 91.4 µs · most 2.10 ms",
                "one request was in flight at a time and each took 50.2 µs",
            ],
        ),
        (
            records::udp_both(),
            "rates  ⠤ forward received  • reverse received",
            [
                "forward: received 500.0 Mbit/s · sent 500.0 Mbit/s · 0 % lost",
                "rcvbuf 12 · local err 0 · either 30 · jitter 80.0 µs",
                "everything asked for was sent, and 0.0424 % at most was lost",
            ],
        ),
    ] {
        let view = running(&record);
        let small = shown(&view, 80, 24).matches('│').count();
        for (columns, rows) in [(120, 40), (200, 50)] {
            let screen = shown(&view, columns, rows);
            let (columns, rows) = (usize::from(columns), usize::from(rows));
            let all: Vec<&str> = screen.lines().collect();
            for said in [charted].into_iter().chain(lines) {
                assert!(all.iter().any(|line| line.contains(said)), "{said}: {screen}");
            }
            let width = |line: &str| line.chars().count();
            let foot = all.iter().find(|line| line.contains('└')).expect("a chart");
            assert_eq!((width(all[0]), width(foot)), (columns, columns), "{screen}");
            assert_eq!(all.len(), rows);
            assert!(all[0].ends_with(" s") && all[rows - 1].starts_with("q end · "), "{screen}");
            let chart = screen.matches('│').count();
            assert!(chart >= small + rows - 24, "{chart} rows, {small} of 24: {screen}");
            // The first core of each end, and the one that takes interrupts.
            assert_eq!(screen.matches("  0 █").count(), 2, "{screen}");
            assert_eq!(screen.matches("98 % I").count(), 1, "{screen}");
        }
    }
}

#[test]
fn no_line_on_loss_and_delay_is_cut() {
    for columns in [60, 80, 100] {
        let screen = shown(&running(&records::udp_both()), columns, 24);
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("jitter 80.0 µs").count(), 2, "{screen}");
    }
}

#[test]
fn the_delays_of_the_last_interval_are_shown() {
    let mut record = records::udp_receiver_drops();
    for interval in &mut record.intervals {
        let receiver = interval.figures.receiver.as_mut().unwrap();
        receiver.delay_variation_mean_s = Some(81e-6);
        receiver.delay_variation_max_s = Some(1.21e-3);
    }
    for columns in [60, 80, 200] {
        let screen = shown(&running(&record), columns, 24);
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        let delays = "jitter 143 µs · delay 81.0 µs, at most 1.21 ms over the least";
        assert!(words.contains(delays), "{screen}");
    }
}

#[test]
fn what_an_end_does_not_tell_leaves_no_gap() {
    let mut record = records::udp_receiver_drops();
    record.intervals.iter_mut().for_each(|row| row.figures.sender = None);
    let screen = shown(&running(&record), 80, 24);
    assert!(screen.contains("\nreceived 133.1 Mbit/s · 16.79 % lost\n"), "{screen}");
}

#[test]
fn every_size_of_a_terminal_is_drawn() {
    let mut views: Vec<TestView> =
        [records::udp_receiver_drops(), records::udp_both(), records::tcp(), records::rr()]
            .iter()
            .map(running)
            .collect();
    views.push(TestView::default());
    let mut begun = TestView::default();
    begun.start(&start(&records::udp_both()));
    views.push(begun);
    for view in &mut views {
        view.toggle_help();
        for columns in (0..84).step_by(3).chain([80, 200]) {
            for rows in 0..30 {
                shown(view, columns, rows);
            }
        }
    }
}

#[test]
fn another_rate_is_said_and_judged_by_itself() {
    let record = records::udp_receiver_drops();
    let mut view = running(&record);
    let (_, rows, rate) = view.judged().unwrap();
    assert_eq!((rows.len(), rate), (10, Some(160_000_000)));
    assert_eq!(view.turn(Turn::Down), Some(144_000_000));
    let screen = shown(&view, 100, 24);
    assert!(screen.contains("rate 144.0 Mbit/s, planned 160.0 Mbit/s"), "{screen}");
    assert!(screen.contains("too little is known"), "{screen}");
    // A row that was over comes late, and the next one is of both rates.
    let row = |start_s| Interval { start_s, end_s: start_s + 1.0, ..record.intervals[0].clone() };
    for start_s in [9.0, 10.0] {
        view.interval(&row(start_s));
        assert!(view.judged().is_none(), "{start_s}");
    }
    view.interval(&row(11.0));
    assert_eq!(
        view.judged().map(|(_, rows, rate)| (rows.len(), rate)),
        Some((1, Some(144_000_000)))
    );
    assert_eq!(view.turn(Turn::Up), Some(160_000_000));
    assert_eq!(view.turn(Turn::Up), None);
    assert!(shown(&view, 100, 24).contains("agreed to 160.0 Mbit/s and no more"));
    // A screen that stands still says it where the keys are.
    view.pause();
    assert_eq!(view.turn(Turn::Down), Some(144_000_000));
    let screen = shown(&view, 100, 24);
    assert!(screen.contains("PAUSED") && screen.contains("rate 144.0 Mbit/s"), "{screen}");
}

#[test]
fn what_goes_as_fast_as_it_can_is_slowed_down_also_after_an_interval_of_nothing() {
    let mut record = records::udp_receiver_drops();
    record.asked.rate_bps = None;
    record.agreed.iter_mut().for_each(|plan| plan.rate_bps = None);
    let mut view = running(&record);
    let mut idle = record.intervals[9].clone();
    (idle.start_s, idle.end_s) = (idle.end_s, idle.end_s + 1.0);
    idle.figures.sender.as_mut().unwrap().bits_per_second = 0.0;
    view.interval(&idle);
    assert!(view.turn(Turn::Down).is_some(), "{}", shown(&view, 100, 24));
    let screen = shown(&view, 100, 24);
    assert!(screen.contains("planned max"), "{screen}");
}

#[test]
fn keys_do_what_they_say() {
    let mut view = running(&records::rr());
    assert!(!shown(&view, 80, 24).contains("+ - rate"));
    assert_eq!(view.turn(Turn::Down), None);
    assert!(shown(&view, 80, 24).contains("the rate of requests"));
    let mut view = running(&records::tcp());
    assert!(shown(&view, 80, 24).contains("+ - rate"));
    // Of TCP as well.
    view.toggle_help();
    assert!(shown(&view, 80, 24).contains("of the rate at which this end sends"));
    view.toggle_help();
    view.marked(None);
    assert!(shown(&view, 80, 24).contains("nothing to mark yet"));
    // As the record will have it, which the screen's own clock need not be.
    view.marked(Some((1, 2.5)));
    assert!(shown(&view, 80, 24).contains("mark 1 at 2.5 s"), "{}", shown(&view, 80, 24));
    view.say(None);
    view.pause();
    let held = shown(&view, 80, 24);
    assert!(held.contains("PAUSED"), "{held}");
    view.interval(&records::tcp().intervals[0]);
    assert_eq!(shown(&view, 80, 24), held);
    view.pause();
    view.end();
    assert!(shown(&view, 80, 24).contains("ENDING"));
}

#[test]
fn time_is_of_what_is_measured() {
    let mut record = start(&records::tcp());
    record.agreed = None;
    (record.asked.warmup_s, record.asked.duration_s) = (2.0, Some(10.0));
    let mut view = TestView::default();
    view.start(&record);
    assert!(shown(&view, 100, 24).contains("warming up, 2 s left"), "{}", shown(&view, 100, 24));
    for (measured_s, says) in [(-1.0, "warming up, 1 s left"), (4.0, "4 s of 10 s")] {
        view.elapsed(measured_s);
        assert!(shown(&view, 100, 24).contains(says), "{}", shown(&view, 100, 24));
    }
}

#[test]
fn names_from_elsewhere_do_not_steer_the_terminal() {
    let mut record = records::udp_receiver_drops();
    record.server =
        Some(HostFacts { hostname: "x\u{1b}[2J\u{202e}y".into(), ..HostFacts::default() });
    record.title = Some("\u{9b}31mtitle".into());
    let mut view = TestView::default();
    view.start(&start(&record));
    view.interval(&record.intervals[0]);
    view.say(Some("\u{1b}]0;note\u{7}".into()));
    let shown = shown(&view, 80, 24);
    assert!(shown.contains("]0;note"), "{shown:?}");
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
}
