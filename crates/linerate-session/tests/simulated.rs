//! The pure core over a simulated link under a made-up clock: what went wrong is known, and the
//! error must be exactly zero (T16, T17, T22 and T28 of the reliability targets, at test size).

use std::collections::BTreeSet;

use linerate_model::sample::RecvCounts;
use linerate_stats::online::SequenceWindow;
use linerate_testkit::link::{Faults, Simulated, Simulation};

fn every(n: u64, of: u64, from: u64) -> BTreeSet<u64> {
    (0..of).filter(|i| i % n == from).collect()
}

fn sums_to_totals(report: &linerate_model::sample::RecvReport) {
    let mut sum = RecvCounts::default();
    report.intervals.iter().for_each(|row| sum.add(&row.counts));
    assert_eq!(sum, report.counts);
}

#[test]
fn a_clean_link_loses_nothing_and_every_second_is_whole() {
    let done = Simulation::minute().run();
    assert_eq!(done.sent, 60_000);
    assert_eq!((done.report.counts.datagrams, done.report.counts.lost), (60_000, 0));
    assert_eq!(done.report.intervals.len(), 60);
    for row in &done.report.intervals {
        assert_eq!(row.counts.datagrams, 1_000);
    }
    assert_eq!(done.report.jitter_ns, Some(0));
    sums_to_totals(&done.report);
}

#[test]
fn every_fault_is_counted_as_what_it_is() {
    let faults = Faults {
        dropped: every(100, 60_000, 7),
        duplicated: every(50, 60_000, 11),
        swapped: every(50, 60_000, 20),
        damaged: every(1_000, 60_000, 30),
        no_room: every(200, 60_000, 41),
    };
    for first_number in
        [0, (1 << 31) - 1_000, (1 << 32) - 1_000, (1 << 63) - 30_000, u64::MAX - 30_000]
    {
        let simulation =
            Simulation { faults: faults.clone(), first_number, ..Simulation::minute() };
        let report = simulation.run().report;
        let c = &report.counts;
        assert_eq!(c.lost, 600 + 60 + 300, "from {first_number}");
        assert_eq!(c.datagrams, 60_000 - 960);
        assert_eq!(c.duplicates, 1_200);
        assert_eq!(c.reordered, 1_200);
        assert_eq!(c.corrupt, 60);
        assert_eq!(c.loss_by_place(), (660, 300, 0));
        sums_to_totals(&report);
    }
}

#[test]
fn a_lost_tail_is_lost_and_a_lost_head_too() {
    let faults = Faults { dropped: (0..500).chain(59_000..60_000).collect(), ..Faults::default() };
    let report = Simulation { faults, ..Simulation::minute() }.run().report;
    assert_eq!((report.counts.datagrams, report.counts.lost), (58_500, 1_500));
    assert_eq!(report.loss_runs.map(|runs| (runs.runs, runs.longest)), Some((2, 1_000)));
    sums_to_totals(&report);
}

#[test]
fn the_distance_of_the_clocks_is_in_no_figure_but_the_transit_time() {
    let at = |clock_offset_ns| {
        Simulation { jitter_ns: 500_000, clock_offset_ns, ..Simulation::minute() }.run().report
    };
    let (plain, hour) = (at(0), at(3_600_000_000_000));
    assert_eq!(plain.counts, hour.counts);
    assert_eq!(plain.jitter_ns, hour.jitter_ns);
    assert_eq!(plain.delay_variation, hour.delay_variation);
    assert_eq!(hour.least_transit_ns.unwrap() - plain.least_transit_ns.unwrap(), 3_600_000_000_000);
}

#[test]
fn uniform_jitter_gives_two_thirds_of_its_half_width() {
    // RFC 3550's estimate swings; its mean over a minute of rows is what must be near 2a/3.
    let report = Simulation { jitter_ns: 400_000, ..Simulation::minute() }.run().report;
    let rows: Vec<u64> = report.intervals.iter().skip(1).filter_map(|row| row.jitter_ns).collect();
    let mean = rows.iter().sum::<u64>() as f64 / rows.len() as f64;
    assert!((mean / (2.0 * 400_000.0 / 3.0) - 1.0).abs() < 0.1, "{mean}");
    let variation = report.delay_variation.unwrap();
    assert!(variation.max_ns <= 800_000 && variation.max_ns > 790_000, "{variation:?}");
    assert!(variation.p50_ns.abs_diff(400_000) < 20_000, "{variation:?}");
}

#[test]
fn delay_is_that_of_the_captured_transits() {
    let minute = Simulation { jitter_ns: 15_000, ..Simulation::minute() };
    let drains = Simulation { queue_ns: 300_000_000, ..minute.clone() };
    let faults = Faults { duplicated: every(3, 60_000, 0), ..Faults::default() };
    let mut cases = vec![drains.clone(), Simulation { faults, ..drains.clone() }];
    for clock_drift_ppm in [-100, -50, 50, 100] {
        let clock_offset_ns = 7_000_000_000;
        cases.push(Simulation { clock_drift_ppm, clock_offset_ns, ..minute.clone() });
        cases.push(Simulation { clock_drift_ppm, clock_offset_ns, ..drains.clone() });
    }
    for case in cases {
        let what = format!("{} ns, {} ppm", case.queue_ns, case.clock_drift_ppm);
        let Simulated { mut transits, report, .. } = case.run();
        transits.sort_unstable();
        let delay = report.delay_variation.unwrap();
        assert_eq!(delay.count, report.counts.datagrams, "{what}");
        let least = transits[0];
        assert_eq!(report.least_transit_ns, Some(least), "{what}");
        for (per_10_000, got) in [
            (5_000, delay.p50_ns),
            (9_000, delay.p90_ns),
            (9_900, delay.p99_ns),
            (9_990, delay.p999_ns),
            (9_999, delay.p9999_ns),
            (10_000, delay.max_ns),
        ] {
            let rank = (transits.len() * per_10_000).div_ceil(10_000);
            let truth = transits[rank - 1].abs_diff(least);
            assert!(got.abs_diff(truth) <= (truth / 1_000).max(8), "{what}: {got} of {truth}");
        }
    }
}

#[test]
fn a_day_at_a_million_a_second_does_not_drift() {
    let mut window = SequenceWindow::default();
    let mut lost = 0;
    for round in 0..20_000u64 {
        window.in_order(4_319_999);
        // One missing each round.
        window.record(window.next() + 1);
        lost += 1;
        assert_eq!(window.missing(), lost, "round {round}");
    }
    assert_eq!(window.next(), 20_000 * 4_320_001);
    assert_eq!(window.unique() + lost, window.next());
    assert_eq!(window.loss_runs(window.next()).0, lost);
}
