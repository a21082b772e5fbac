//! Tests whose rate is changed, and whose moments are marked, while they run.

use std::collections::VecDeque;

use linerate_model::plan::{Dialect, Direction, TestPlan, Traffic, UdpPlan};
use linerate_model::record::{Figures, Interval, Pair, RunEventKind, RunRecord, Status};
use linerate_model::sample::HostSample;
use linerate_model::units::{BitRate, Nanos, Rate};
use linerate_runner::client::Request;
use linerate_runner::controls::Controls;
use linerate_runner::server::Options;
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;
use linerate_testkit::plans;

use crate::support::{MS, Served, both, checked, lasting, request, tcp, udp};

/// Turns the rate and marks after a number of intervals.
struct Hand {
    controls: Controls,
    /// After so many intervals, this rate.
    turns: VecDeque<(usize, u64)>,
    seen: usize,
    /// When it last did, in seconds of the measured time.
    turned_s: Option<f64>,
    hosts: usize,
}

impl Observer for Hand {
    fn hosts(&mut self, client: Option<&HostSample>, server: Option<&HostSample>) {
        let known = |host: Option<&HostSample>| host.is_some_and(|host| host.span_ns > 0);
        self.hosts += usize::from(known(client) && known(server));
    }

    fn interval(&mut self, row: &Interval) {
        self.seen += 1;
        // Of two choices in a row a sender sees the second alone, unless it sends something in between.
        let sent = forward(&row.figures).sender.is_some_and(|sender| sender.bytes > 0);
        let followed = self.turned_s.is_none_or(|turned_s| sent && row.start_s >= turned_s);
        let seen = self.seen;
        if let Some((_, rate)) = self.turns.pop_front_if(|(after, _)| followed && seen >= *after) {
            self.controls.turn(rate);
            let (_, at_s) = self.controls.mark().expect("it has begun");
            self.turned_s = Some(at_s);
        }
    }
}

/// What both ends measured of the way from the client.
fn forward(figures: &Figures) -> Pair {
    let Figures { sender, receiver, forward, .. } = figures.clone();
    forward.unwrap_or(Pair { sender, receiver })
}

fn watched(request: Request, turns: &[(usize, u64)]) -> (RunRecord, Hand) {
    let controls = Controls::default();
    let request = Request { controls: Some(controls.clone()), ..request };
    let turns = turns.iter().copied().collect();
    let mut hand = Hand { controls, turns, seen: 0, turned_s: None, hosts: 0 };
    let record = linerate_runner::run(&request, &mut hand, &Stop::default());
    assert_eq!(record.status, Status::Complete, "{:?}", record.error);
    (record, hand)
}

fn of_rate(rate: Option<u64>, plan: TestPlan) -> TestPlan {
    let Traffic::Udp(udp) = plan.traffic else { panic!("datagrams") };
    let rate = rate.map(|bps| Rate::Bits(BitRate::new(bps).expect("a rate")));
    TestPlan { traffic: Traffic::Udp(UdpPlan { rate, ..udp }), ..plan }
}

/// Rates that were chosen, of the record's events.
fn chosen(record: &RunRecord) -> Vec<u64> {
    record.events.iter().filter_map(|event| event.chosen_bps()).collect()
}

fn marks(record: &RunRecord) -> usize {
    record.events.iter().filter(|event| event.kind == RunEventKind::Mark).count()
}

/// Payload sent in the rows that lie within these seconds, bit/s.
fn sent_between(record: &RunRecord, from_s: f64, to_s: f64) -> f64 {
    let rows: Vec<_> =
        record.intervals.iter().filter(|row| row.start_s >= from_s && row.end_s <= to_s).collect();
    let senders =
        rows.iter().map(|row| forward(&row.figures).sender.expect("a sender").bits_per_second);
    assert!(!rows.is_empty(), "{from_s} to {to_s}");
    senders.sum::<f64>() / rows.len() as f64
}

fn intervals(ms: u64, plan: TestPlan) -> TestPlan {
    TestPlan { interval: Nanos(ms * MS), ..plan }
}

#[test]
fn a_sender_follows_whoever_watches_it() {
    let served = Served::start(Options::default());
    for (streams, wrap) in [(1, false), (3, false), (1, true)] {
        // Long enough for both choices where they come two seconds late.
        let plan = intervals(50, lasting(3_000, of_rate(Some(8_000_000), udp(1_000))));
        let plan = TestPlan { streams, ..plan };
        let plan = if wrap { both(plan) } else { plan };
        let (record, hand) = watched(request(served.at, plan), &[(6, 800_000), (12, 4_000_000)]);
        checked(&record);
        assert_eq!(chosen(&record), [800_000, 4_000_000], "{:?}", record.events);
        assert_eq!(marks(&record), 2);
        // What both hosts did is told with each row but the last, unless their counters came too late.
        let counted = |row: &Interval| {
            let Pair { sender, receiver } = forward(&row.figures);
            let ends = [sender.and_then(|end| end.cpu), receiver.and_then(|end| end.cpu)];
            ends.iter().flatten().filter(|cpu| cpu.core_percent.is_some()).count() == 2
        };
        let rows = record.intervals.split_last().expect("rows").1;
        assert!(hand.hosts > 0 || !rows.iter().any(counted), "{rows:?}");
        let at: Vec<f64> =
            record.events.iter().filter(|e| e.chosen_bps().is_some()).map(|e| e.at_s).collect();
        let (from, to) = (at[0], at[1]);
        assert!(from >= 0.3 && to > from, "{at:?}");
        let sender = forward(&record.totals).sender.expect("a sender");
        let planned =
            (8e6 * from + 8e5 * (to - from) + 4e6 * (sender.seconds - to)) / sender.seconds;
        // What is late when a rate is chosen is made up for at that rate, up to a quarter of a second of it.
        let late = 4e6 * 0.25 / sender.seconds;
        // However late a busy machine is, no more leaves than was chosen: about half of the plan's.
        assert!(
            sender.bits_per_second <= planned * 1.03 + late,
            "{} of {planned}",
            sender.bits_per_second
        );
        let pacing = sender.pacing.expect("it was paced");
        assert_eq!(pacing.gap_nominal_ns, None);
        assert!(record.doubts.iter().any(|doubt| doubt.kind.name() == "rate-changed"));
        assert_eq!(record.asked.rate_bps, Some(8_000_000), "the plan stays as it was");
    }
}

#[test]
fn one_as_fast_as_it_goes_gets_a_rate() {
    let served = Served::start(Options::default());
    let plan = intervals(50, lasting(3_000, of_rate(None, udp(1_000))));
    let (record, _) = watched(request(served.at, plan), &[(4, 2_000_000)]);
    assert_eq!(chosen(&record), [2_000_000]);
    let at_s = record.events[0].at_s.max(record.events[1].at_s);
    let after = sent_between(&record, at_s, 3.0);
    // What is late is made up for at twice the rate.
    assert!(after <= 5e6, "{after}");
    let pacing = record.totals.sender.and_then(|s| s.pacing).expect("calls were timed");
    assert_eq!((pacing.mean_error_ppm, pacing.gap_nominal_ns), (None, None));
}

#[test]
fn a_choice_in_the_warm_up_holds_from_the_start() {
    let served = Served::start(Options::default());
    let plan = intervals(50, lasting(300, of_rate(Some(8_000_000), udp(1_000))));
    let plan = TestPlan { warmup: Nanos(200 * MS), ..plan };
    let controls = Controls::default();
    controls.turn(800_000);
    let request = Request { controls: Some(controls), ..request(served.at, plan) };
    let record = linerate_runner::run(&request, &mut (), &Stop::default());
    assert_eq!(record.status, Status::Complete, "{:?}", record.error);
    let events: Vec<_> = record.events.iter().map(|e| (e.at_s, e.chosen_bps())).collect();
    assert_eq!(events, [(0.0, Some(800_000))]);
    let Pair { sender, receiver } = forward(&record.totals);
    let (sender, receiver) = (sender.expect("a sender"), receiver.expect("a receiver"));
    let sent = sender.bits_per_second;
    assert!(sent < 1_000_000.0, "{sent}");
    let limit = record.verdict.expect("a verdict").limit.name();
    // A busy host may keep some of it from leaving, or from being read in time, and only then is that what limits.
    let met = sent >= 0.995 * 800_000.0 && receiver.datagrams == sender.datagrams;
    let in_time = receiver.overdue.unwrap_or(0) == 0;
    assert!(limit == "requested-rate" || !(met && in_time), "{limit}: {sender:?}, {receiver:?}");
}

#[test]
fn senders_of_bytes_follow_as_well() {
    let served = Served::start(Options::default());
    let unlimited = TestPlan { traffic: Traffic::Tcp(plans::tcp()), ..tcp() };
    for (dialect, streams, plan) in
        [(Dialect::Native, 1, unlimited), (Dialect::Native, 3, tcp()), (Dialect::Iperf3, 2, tcp())]
    {
        let plan = TestPlan { streams, ..intervals(100, lasting(3_000, plan)) };
        let paced = matches!(&plan.traffic, Traffic::Tcp(tcp) if tcp.rate.is_some());
        let asked = Request { dialect: Some(dialect), ..request(served.at, plan) };
        let (record, _) = watched(asked, &[(3, 8_000_000)]);
        assert_eq!((chosen(&record), marks(&record)), (vec![8_000_000], 1), "{dialect:?}");
        assert!(record.doubts.iter().any(|doubt| doubt.kind.name() == "rate-changed"));
        let at_s = record.events.iter().map(|event| event.at_s).fold(0.0, f64::max);
        // A thread that waited in a write sees it within 100 ms, and others may have its core then.
        let after = sent_between(&record, at_s + 0.5, 3.0);
        assert!(after <= 16e6, "{dialect:?} {streams}: {after}");
        if !paced {
            assert_eq!(record.verdict.expect("a verdict").limit.name(), "unknown");
        }
    }
}

#[test]
fn what_is_not_sent_from_here_goes_on_as_it_was() {
    let served = Served::start(Options::default());
    let plan = TestPlan { direction: Direction::Reverse, ..lasting(300, tcp()) };
    let (record, _) = watched(request(served.at, intervals(50, plan)), &[(2, 8_000)]);
    assert_eq!((chosen(&record).len(), marks(&record)), (0, 1));
    // In another dialect a sender of UDP follows as well.
    let plan = intervals(100, lasting(3_000, of_rate(Some(8_000_000), udp(1_000))));
    let iperf3 = Request { dialect: Some(Dialect::Iperf3), ..request(served.at, plan) };
    let (record, _) = watched(iperf3, &[(2, 800_000)]);
    assert_eq!(chosen(&record), [800_000]);
}
