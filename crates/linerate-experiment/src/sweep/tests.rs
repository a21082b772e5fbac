//! Known answers: the printed figures of a published board test, and made-up systems.

use linerate_model::plan::Way;
use linerate_model::record::{DoubtKind, Limit};
use linerate_model::sweep::{RegimeKind, SweepPlan, Variable};
use linerate_model::trial::Outcome;

use super::*;

const M: f64 = 1e6;

fn plan(values: &[u64]) -> SweepPlan {
    SweepPlan {
        variable: Variable::Rate,
        values: values.to_vec(),
        then_max: false,
        rate_bps: None,
        directions: vec![Way::Forward],
        repeat: 1,
        trial_s: 2.0,
        zoom_width: None,
        seed: 1,
    }
}

fn mega(values: &[u64]) -> Vec<u64> {
    values.iter().map(|v| v * 1_000_000).collect()
}

/// A trial of which only the rates are known, in Mbit/s, as other tools print them.
fn printed(asked: f64, sent: f64, received: f64, intervals: &[f64]) -> Outcome {
    Outcome {
        run: None,
        sent_bps: sent * M,
        received_bps: received * M,
        undelivered_ratio: (1.0 - received / asked).max(0.0),
        lost_ratio: (1.0 - received / sent).max(0.0),
        lost_path: None,
        dropped_receiver: None,
        unattributed: None,
        jitter_s: None,
        delay_p99_s: None,
        cpu_sender_percent: None,
        cpu_receiver_percent: None,
        limit: None,
        advice: Vec::new(),
        intervals_bps: intervals.iter().map(|m| m * M).collect(),
        took_s: 2.5,
        invalid: None,
        void: false,
    }
}

fn swept(plan: SweepPlan, of: impl Fn(Job) -> Outcome) -> Sweep {
    let mut sweep = Sweep::new(plan);
    for _ in 0..2_000 {
        let Some(job) = sweep.next() else { return sweep };
        sweep.take(of(job), vec![]);
    }
    panic!("it never ends");
}

fn kinds(sweep: &Sweep) -> Vec<(RegimeKind, u64, u64)> {
    let mega = |bps: Option<u64>| bps.map_or(0, |v| v / 1_000_000);
    sweep.regimes().iter().map(|r| (r.kind, mega(r.from), mega(r.to))).collect()
}

/// Board as sender: sustains 70, peaks at 89 and falls to 64 when asked for 1000, loss 0 in all.
#[test]
fn the_board_as_sender() {
    let table = [
        (1, 1.0),
        (2, 2.0),
        (4, 4.0),
        (8, 8.0),
        (16, 16.0),
        (32, 32.0),
        (64, 64.0),
        (70, 70.0),
        (128, 88.6),
        (256, 89.1),
        (512, 66.5),
        (1000, 64.3),
    ];
    let values: Vec<u64> = table.iter().map(|(asked, _)| *asked).collect();
    let sweep = swept(plan(&mega(&values)), |job| {
        let asked = job.value.unwrap() / 1_000_000;
        let sent = table.iter().find(|(a, _)| *a == asked).unwrap().1;
        Outcome {
            cpu_sender_percent: Some(if asked > 70 { 100.0 } else { 60.0 }),
            ..printed(asked as f64, sent, sent, &[])
        }
    });
    assert_eq!(
        kinds(&sweep),
        [
            (RegimeKind::Sustained, 1, 70),
            (RegimeKind::Plateau, 128, 256),
            (RegimeKind::Collapse, 512, 1000)
        ]
    );
    let regimes = sweep.regimes();
    assert_eq!(regimes[0].limit, Limit::RequestedRate);
    assert_eq!((regimes[1].limit, regimes[2].limit), (Limit::SenderCpu, Limit::SenderCpu));
    let text = &regimes[1].text;
    assert!(
        text.contains("0 % was lost, but only 89.10 Mbit/s of 256.0 Mbit/s were sent"),
        "{text}"
    );
    assert!(text.contains("the sender is the limit"), "{text}");
    let text = &regimes[2].text;
    assert!(text.contains("28 % below the 89.10 Mbit/s at 256.0 Mbit/s"), "{text}");
    let bend = &sweep.bends()[0];
    assert_eq!(
        (bend.low, bend.high, bend.limit),
        (70_000_000, Some(128_000_000), Limit::SenderCpu)
    );
    let (because, advice) = conclusion(&sweep);
    assert!(
        because[0].contains("70.00 Mbit/s is sustained, 128.0 Mbit/s no longer"),
        "{because:?}"
    );
    assert!(advice.iter().any(|a| a.contains("CPU profile of the client")), "{advice:?}");
}

/// Board as receiver: sustains 128; at 160 single seconds range from 107 to 160; 175 to 183 is what
/// it takes, whatever is asked.
#[test]
fn the_board_as_receiver() {
    let seconds = [107.0, 160.0, 152.0, 131.0, 118.0, 149.0, 140.0, 126.0, 151.0, 126.0];
    let table = [
        (64, 64.0, 64.0),
        (128, 128.0, 128.0),
        (160, 160.0, 136.0),
        (256, 256.0, 183.0),
        (512, 512.0, 175.0),
        (1000, 956.0, 175.0),
    ];
    let values: Vec<u64> = table.iter().map(|(asked, ..)| *asked).collect();
    let board = |intervals: &'static [f64]| {
        swept(plan(&mega(&values)), |job| {
            let asked = job.value.unwrap() / 1_000_000;
            let (_, sent, received) = *table.iter().find(|(a, ..)| *a == asked).unwrap();
            let own: &[f64] = if asked == 160 { intervals } else { &[] };
            let drops = if sent > received { Some(1_000) } else { Some(0) };
            Outcome {
                dropped_receiver: drops,
                cpu_receiver_percent: Some(99.0),
                ..printed(asked as f64, sent, received, own)
            }
        })
    };
    let wanted = [
        (RegimeKind::Sustained, 64, 128),
        (RegimeKind::Unstable, 160, 160),
        (RegimeKind::Plateau, 256, 1000),
    ];
    let sweep = board(Box::leak(Box::new(seconds)));
    assert_eq!(kinds(&sweep), wanted);
    let text = &sweep.regimes()[1].text;
    assert!(text.contains("107.0 Mbit/s to 160.0 Mbit/s from moment to moment"), "{text}");
    assert!(text.contains("183.0 Mbit/s arrives at 256.0 Mbit/s"), "{text}");
    assert_eq!(sweep.regimes()[2].limit, Limit::ReceiverCpu);
    // That 160 fails where 256 delivers more is enough, without any interval.
    assert_eq!(kinds(&board(&[])), wanted);
}

/// A bottleneck: what is offered above `capacity` is lost, `buffer` seconds of it only late.
fn bottleneck(job: Job, capacity: f64, sender: f64) -> Outcome {
    let trial = 2.0;
    let asked = job.value.map_or(sender, |v| v as f64 / M);
    let sent = asked.min(sender);
    let buffer = 0.016 * capacity;
    let arrived = (sent * trial).min(capacity * trial + buffer);
    let span = trial.max(arrived / capacity);
    let lost = 1.0 - arrived / (sent * trial);
    Outcome {
        undelivered_ratio: 1.0 - arrived / (asked * trial),
        lost_ratio: lost,
        lost_path: Some((lost * 1e4) as u64),
        dropped_receiver: Some(0),
        unattributed: None,
        intervals_bps: vec![arrived / span * M; 10],
        limit: Some(if lost > 0.001 {
            Limit::Path
        } else if sent < asked * 0.995 {
            Limit::SenderCpu
        } else {
            Limit::RequestedRate
        }),
        ..printed(asked, sent, arrived / span, &[])
    }
}

fn zooming(values: &[u64], width: f64) -> SweepPlan {
    SweepPlan { zoom_width: Some(width), ..plan(&mega(values)) }
}

#[test]
fn zoom_brackets_a_bottleneck_in_a_few_trials() {
    let grid = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000];
    for capacity in [3.0, 38.89, 63.9, 64.1, 87.5, 120.0, 500.0, 970.0] {
        for width in [0.01, 0.02, 0.1] {
            let sweep = swept(zooming(&grid, width), |job| bottleneck(job, capacity, 1e4));
            let bends = sweep.bends();
            assert_eq!(bends.len(), 1, "{capacity}: {bends:?}");
            let (low, high) = (bends[0].low as f64 / M, bends[0].high.unwrap() as f64 / M);
            assert!(bends[0].narrow && high - low <= width * low, "{capacity}: {low} {high}");
            assert!(low <= capacity * 1.02 && high >= capacity * 0.98, "{capacity}: {low} {high}");
            assert!(high <= capacity * (1.012 + width), "{capacity}: {low} {high}");
            assert_eq!(bends[0].limit, Limit::Path);
            let zooms = sweep.trials().iter().filter(|t| t.zoom).count();
            assert!(zooms <= 10, "{capacity} {width}: {zooms} trials");
        }
    }
}

#[test]
fn the_width_limits_the_trials_of_a_fuzzy_border_too() {
    // A border that moves by 5 % from trial to trial cannot be found to 1 %.
    let sweep = {
        let mut sweep = Sweep::new(zooming(&[1, 10, 100, 1000], 0.01));
        let mut n = 0u64;
        while let Some(job) = sweep.next() {
            n += 1;
            assert!(n < 60, "it never ends");
            let wander = 1.0 + 0.05 * (((n * 7_919) % 11) as f64 / 5.0 - 1.0);
            sweep.take(bottleneck(job, 40.0 * wander, 1e4), vec![]);
        }
        sweep
    };
    assert!(sweep.bends().iter().any(|b| b.from == RegimeKind::Sustained));
    let bend = &sweep.bends()[0];
    assert!((30.0..50.0).contains(&(bend.low as f64 / M)), "{bend:?}");
}

#[test]
fn a_bend_left_wide_has_its_true_reason() {
    let mut sweep = Sweep::new(zooming(&[1, 10, 100, 1000], 0.01));
    let mut n = 0u64;
    while let Some(job) = sweep.next() {
        n += 1;
        let wander = 1.0 + 0.05 * (((n * 7_919) % 11) as f64 / 5.0 - 1.0);
        sweep.take(bottleneck(job, 40.0 * wander, 1e4), vec![]);
        let wide = sweep
            .bends()
            .iter()
            .any(|b| b.from == RegimeKind::Sustained && !b.narrow && b.width_ratio.is_some());
        let because = conclusion(&sweep).0.join(" ");
        let ended = because.contains("was ended before it was narrowed");
        assert_eq!(ended, wide && !sweep.is_finished(), "{because}");
        let spent = because.contains("so it was narrowed no further");
        assert_eq!(spent, wide && sweep.is_finished(), "{because}");
    }
    assert!(sweep.is_finished());
}

#[test]
fn loss_is_where_the_counts_put_it() {
    let said = |path: Option<u64>, dropped: Option<u64>, either: Option<u64>, limit: Limit| {
        let sweep = swept(plan(&mega(&[100])), |_| Outcome {
            lost_path: path,
            dropped_receiver: dropped,
            unattributed: either,
            limit: Some(limit),
            ..printed(100.0, 100.0, 60.0, &[])
        });
        let regimes = sweep.regimes();
        regimes[0].text.clone()
    };
    let all_path = said(Some(400), Some(0), None, Limit::Path);
    assert!(all_path.contains("40 % of what was sent never reached the server's socket"));
    let both = said(Some(300), Some(100), None, Limit::Path);
    assert!(
        both.contains("300 datagrams never reached the server's socket, 100 were dropped by it"),
        "{both}"
    );
    let both = said(Some(100), Some(250), Some(50), Limit::ReceiverBuffer);
    assert!(both.contains("250 were dropped by it, 50 one or the other"), "{both}");
    for limit in [Limit::Path, Limit::ReceiverCpu, Limit::ReceiverBuffer] {
        let untold = said(None, None, None, limit);
        assert!(untold.contains("was lost, where is not known"), "{untold}");
        assert!(!untold.contains("never reached") && !untold.contains("dropped"), "{untold}");
    }
    // What one trial does not report is not in the sum.
    let plan = SweepPlan { repeat: 2, ..plan(&mega(&[100])) };
    let mut first = true;
    let mut sweep = Sweep::new(plan);
    while sweep.next().is_some() {
        let path = std::mem::replace(&mut first, false).then_some(400);
        sweep.take(Outcome { lost_path: path, ..printed(100.0, 100.0, 60.0, &[]) }, vec![]);
    }
    assert_eq!(sweep.points()[0].lost_path, None);
}

/// Just above what is carried nothing is lost, it only comes more slowly: the value above knows why.
#[test]
fn a_queue_that_only_grows_has_the_limit_of_the_value_above() {
    let growing = |above: Option<Limit>| {
        let sweep = swept(plan(&mega(&[50, 100, 102, 200, 400])), |job| {
            let asked = job.value.unwrap() as f64 / M;
            match (asked as u64, above) {
                (50 | 100, _) => Outcome {
                    limit: Some(Limit::RequestedRate),
                    ..printed(asked, asked, asked, &[])
                },
                (102, _) | (_, None) => Outcome {
                    undelivered_ratio: 0.0,
                    lost_ratio: 0.0,
                    lost_path: Some(0),
                    dropped_receiver: Some(0),
                    limit: Some(Limit::RequestedRate),
                    // The last datagram's time was over.
                    ..printed(asked, asked * 0.9999, 100.0, &[])
                },
                (_, limit) => Outcome { limit, ..printed(asked, asked, 100.0, &[]) },
            }
        });
        sweep.points()[2].limit
    };
    for limit in [Limit::Path, Limit::ReceiverCpu, Limit::ReceiverBuffer, Limit::SenderHost] {
        assert_eq!(growing(Some(limit)), limit);
    }
    // A sender that is full at more did send all of this.
    assert_eq!(growing(Some(Limit::SenderCpu)), Limit::Path);
    assert_eq!(growing(None), Limit::Path, "the time stamps say that a queue held it");
}

#[test]
fn doubts_are_kept_over_a_resumption() {
    let doubt = Doubt::new(DoubtKind::HostBusy, "busy");
    let mut sweep = Sweep::new(plan(&mega(&[1, 2])));
    while let Some(job) = sweep.next() {
        sweep.take(bottleneck(job, 1e3, 1e4), vec![doubt.clone()]);
    }
    let again = Sweep::replay(sweep.plan().clone(), sweep.trials().to_vec()).unwrap();
    assert_eq!(again.trials(), sweep.trials());
    assert!(again.trials().iter().all(|t| t.doubts == [doubt.clone()]));
}

#[test]
fn one_bad_trial_is_no_bend() {
    let grid = [1, 2, 4, 8, 16, 32];
    let mut sweep = Sweep::new(zooming(&grid, 0.02));
    let mut stalled = false;
    while let Some(job) = sweep.next() {
        let stall = job.value == Some(4_000_000) && !std::mem::replace(&mut stalled, true);
        sweep.take(bottleneck(job, if stall { 3.0 } else { 1e3 }, 1e4), vec![]);
    }
    assert_eq!(kinds(&sweep), [(RegimeKind::Sustained, 1, 32)]);
    assert!(sweep.trials().len() <= grid.len() + 3, "{} trials", sweep.trials().len());
}

#[test]
fn rates_far_beyond_the_sender_are_left_out() {
    let grid: Vec<u64> = (0..20).map(|i| 1 << i).collect();
    let sweep = swept(plan(&mega(&grid)), |job| bottleneck(job, 1e6, 100.0));
    let tried: Vec<u64> = sweep.trials().iter().map(|t| t.value.unwrap() / 1_000_000).collect();
    assert_eq!(tried.last(), Some(&1_024), "{tried:?}");
    assert_eq!(sweep.out_of_reach(), [(Way::Forward, Some(2_048_000_000))]);
    let (because, _) = conclusion(&sweep);
    assert!(because[1].contains("rates from 2.048 Gbit/s on were left out"), "{because:?}");
    assert!(because[0].contains("the sender is the limit"), "{because:?}");
    // Also in the further passes, and for each direction by itself.
    let both =
        SweepPlan { repeat: 3, directions: vec![Way::Forward, Way::Reverse], ..plan(&mega(&grid)) };
    let sweep =
        swept(both, |job| bottleneck(job, 1e6, if job.way == Way::Forward { 100.0 } else { 1e6 }));
    let count = |way| sweep.trials().iter().filter(|t| t.direction == way).count();
    assert_eq!((count(Way::Forward), count(Way::Reverse)), (3 * 11, 3 * 20));
}

#[test]
fn one_rate_is_not_two_and_an_invalid_trial_is_none() {
    let values = grid::doubling(1_000_000, 1_000_000_000);
    let sweep = swept(plan(&values), |job| {
        let busy = (job.value == Some(512_000_000)).then(|| "the host was busy".to_owned());
        Outcome { invalid: busy, ..bottleneck(job, 1e6, 64.0) }
    });
    let last: Vec<Option<u64>> = sweep.trials().iter().rev().take(3).map(|t| t.value).collect();
    assert_eq!(last, [Some(1_000_000_000), Some(512_000_000), Some(512_000_000)]);
    assert_eq!(sweep.out_of_reach(), []);
}

#[test]
fn passes_are_shuffled_by_the_seed_alone() {
    let order = |seed: u64| -> Vec<u64> {
        let plan = SweepPlan { repeat: 3, seed, ..plan(&mega(&[1, 2, 4, 8, 16, 32, 64])) };
        let sweep = swept(plan, |job| bottleneck(job, 1e4, 1e4));
        sweep.trials().iter().map(|t| t.value.unwrap()).collect()
    };
    let (one, same, other) = (order(1), order(1), order(2));
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert!(one[..7].is_sorted(), "the first pass goes up");
    assert!(!one[7..14].is_sorted() || !one[14..].is_sorted());
    let mut second = one[7..14].to_vec();
    second.sort_unstable();
    assert_eq!(second, one[..7], "each pass has every value once");
}

#[test]
fn a_sweep_goes_on_from_what_is_known() {
    let grid = [1, 2, 4, 8, 16, 32, 64, 128];
    let plan = SweepPlan { repeat: 2, ..zooming(&grid, 0.02) };
    let whole = swept(plan.clone(), |job| bottleneck(job, 40.0, 1e4));
    for cut in 0..whole.trials().len() {
        let known = whole.trials()[..cut].to_vec();
        let mut resumed = Sweep::replay(plan.clone(), known).unwrap();
        while let Some(job) = resumed.next() {
            assert_eq!(resumed.next(), Some(job), "asking twice changes nothing");
            resumed.take(bottleneck(job, 40.0, 1e4), vec![]);
        }
        assert_eq!(resumed.trials(), whole.trials(), "cut after {cut}");
    }
    let mut others = whole.trials().to_vec();
    others[3].value = Some(5);
    assert_eq!(Sweep::replay(plan, others).unwrap_err(), OtherPlan { trial: 4 });
}

#[test]
fn a_generator_at_fault_is_asked_again_but_not_for_ever() {
    let mut faults = 0;
    let mut sweep = Sweep::new(plan(&mega(&[10, 20])));
    while let Some(job) = sweep.next() {
        let mut outcome = bottleneck(job, 1e3, 1e4);
        if job.value == Some(20_000_000) {
            faults += 1;
            outcome.invalid = Some("the host was busy".into());
        }
        sweep.take(outcome, vec![]);
    }
    assert_eq!(faults, 1 + FAULTS_FORGIVEN);
    let points = sweep.points();
    assert_eq!(points[0].invalid, None);
    assert_eq!(points[1].invalid.as_deref(), Some("the host was busy"));
    // One valid trial is worth more than the faults before it.
    let mut sweep = Sweep::new(plan(&mega(&[20])));
    let job = sweep.next().unwrap();
    sweep.take(Outcome { invalid: Some("busy".into()), ..bottleneck(job, 10.0, 1e4) }, vec![]);
    let job = sweep.next().unwrap();
    sweep.take(bottleneck(job, 1e3, 1e4), vec![]);
    assert_eq!(sweep.next(), None);
    assert_eq!((sweep.points()[0].trials, sweep.points()[0].invalid.clone()), (1, None));
}

#[test]
fn sizes_and_streams_are_swept_as_well() {
    // 50,000 datagrams a second at most, 100 Mbit/s asked: from 250 B on it is sustained.
    let plan = SweepPlan {
        variable: Variable::Size,
        values: grid::doubling(64, 1472),
        rate_bps: Some(100_000_000),
        zoom_width: Some(0.02),
        ..plan(&[])
    };
    let sweep = swept(plan, |job| {
        let size = job.value.unwrap() as f64;
        let sent = (50_000.0 * size * 8.0 / M).min(100.0);
        Outcome { cpu_sender_percent: Some(100.0), ..printed(100.0, sent, sent, &[]) }
    });
    let regimes = sweep.regimes();
    assert_eq!(
        (regimes[0].kind, regimes[0].from, regimes[0].limit),
        (RegimeKind::Rises, Some(64), Limit::SenderCpu)
    );
    assert_eq!(regimes.last().unwrap().kind, RegimeKind::Sustained);
    let bend = sweep.bends().into_iter().find(|b| b.to == RegimeKind::Sustained).unwrap();
    assert!(bend.narrow, "{bend:?}");
    assert!(
        (245..=250).contains(&bend.low) && (247..=252).contains(&bend.high.unwrap()),
        "{bend:?}"
    );
    // As fast as it can with 1 to 8 streams on 4 cores.
    let plan = SweepPlan {
        variable: Variable::Streams,
        values: (1..=8).collect(),
        ..super::tests::plan(&[])
    };
    let sweep = swept(plan, |job| {
        let sent = 100.0 * job.value.unwrap().min(4) as f64;
        printed(sent, sent, sent, &[])
    });
    let kinds: Vec<_> =
        sweep.regimes().iter().map(|r| (r.kind, r.from.unwrap(), r.to.unwrap())).collect();
    assert_eq!(kinds, [(RegimeKind::Rises, 1, 3), (RegimeKind::Plateau, 4, 8)]);
}

#[test]
fn grids() {
    assert_eq!(grid::doubling(1, 1000), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]);
    assert_eq!(grid::doubling(1, 520), [1, 2, 4, 8, 16, 32, 64, 128, 256, 520]);
    assert_eq!(grid::doubling(7, 7), [7]);
    assert_eq!(grid::doubling(0, 1), [1]);
    assert_eq!(grid::doubling(u64::MAX - 1, u64::MAX), [u64::MAX - 1, u64::MAX]);
    assert_eq!(grid::linear(10, 45, 10), Some(vec![10, 20, 30, 40, 45]));
    assert_eq!(grid::linear(1, 2_000_000, 1), None);
    assert_eq!(grid::linear(1, 2, 0), None);
}

/// No outcome, however odd, makes the controller run away or panic.
#[test]
fn odd_outcomes_end_as_well() {
    for (sent, received) in
        [(0.0, 0.0), (f64::NAN, f64::NAN), (f64::INFINITY, 1.0), (1.0, f64::INFINITY), (1e300, 0.0)]
    {
        let sweep =
            swept(SweepPlan { then_max: true, ..zooming(&[1, 2, 4, 1000], 0.005) }, |job| {
                Outcome {
                    undelivered_ratio: 0.5,
                    ..printed(job.value.map_or(1.0, |v| v as f64), sent, received, &[sent])
                }
            });
        let _ = (sweep.regimes(), sweep.bends(), conclusion(&sweep), sweep.left());
    }
}
