use super::*;

use std::cell::Cell;

const SETTINGS: Settings =
    Settings { width: 0.02, lower: false, max_s: None, trial_s: 1.0, seed: 1 };

/// Runs a tuning of `value`, with scatter of one percent.
fn run(tune: &mut Tune, value: impl Fn(&Combination) -> Option<f64>) -> Vec<Combination> {
    let mut chance = Random::new(5);
    let mut tried = Vec::new();
    while let Some((combination, _)) = tune.next() {
        let combination = combination.clone();
        let value = value(&combination).map(|value| value * (0.01 * chance.normal()).exp());
        tune.take(Measured { value, took_s: 1.0, ..Measured::default() });
        tried.push(combination);
        assert!(tried.len() < 5_000, "no end");
    }
    tried
}

#[test]
fn the_better_level_is_found_and_small_figures_may_be_wanted() {
    for lower in [false, true] {
        let mut tune = Tune::new(vec![3, 3], Settings { lower, ..SETTINGS });
        let better: f64 = if lower { 0.8 } else { 1.25 };
        run(&mut tune, |c| Some(if c.level(1) == 2 { better } else { 1.0 } * 1e9));
        let found = tune.found();
        assert_eq!(
            (found.best.0.as_slice(), found.reason),
            (&[0, 2][..], Reason::Settled),
            "{found:?}"
        );
        let gain = found.gain.unwrap();
        let truth = if lower { 20.0 } else { 25.0 };
        assert!(gain.low < truth && truth < gain.high && gain.high - gain.low < 4.0, "{gain:?}");
        assert!(found.factors[0].worth.is_none() && found.factors[1].worth.is_some());
        assert!(found.factors[0].others_most.is_some_and(|most| most <= 2.0), "{found:?}");
        let (default, best) = (found.default_mean.unwrap(), found.candidate_mean.unwrap());
        assert!((best / default - better).abs() < 0.02, "{default} {best}");
    }
}

#[test]
fn what_cannot_run_is_left_out() {
    let mut tune = Tune::new(vec![3, 3, 2], SETTINGS);
    // Level 1 of the first factor never runs, and would be the best.
    let tried = run(&mut tune, |c| (c.level(0) != 1).then_some(1.0 + 0.1 * c.level(1) as f64));
    let found = tune.found();
    assert_eq!((tune.space().left_out(), found.best.0.as_slice()), (&[(0, 1)][..], &[0, 2, 0][..]));
    assert!(tried.iter().filter(|c| c.level(0) == 1).count() <= 3);
}

/// What whoever runs it knows of the reason is believed at once, and of nothing else.
#[test]
fn what_is_known_to_be_at_fault_is_left_out_alone() {
    let mut tune = Tune::new(vec![3, 3, 2], SETTINGS);
    let mut counts = [0, 0];
    while let Some((combination, _)) = tune.next() {
        let (never, together) = (combination.level(0) == 1, combination.0 == [2, 2, 1]);
        counts[0] += u32::from(never);
        counts[1] += u32::from(together);
        let at_fault = match (never, together) {
            (true, _) => Some(vec![(0, 1)]),
            (_, true) => Some(Vec::new()),
            _ => None,
        };
        let value = at_fault.is_none().then(|| 1.0 + 0.1 * combination.level(1) as f64);
        tune.take(Measured { value, at_fault, took_s: 1.0, ..Measured::default() });
    }
    assert_eq!((tune.space().left_out(), counts[0]), (&[(0, 1)][..], 1));
    assert!(counts[1] <= MOST_FAILED, "{counts:?}");
    assert_eq!(tune.found().best.0, [0, 2, 0]);
}

/// A level that was met only beside what cannot run is not blamed for it.
#[test]
fn innocent_levels_stay() {
    for seed in 0..20 {
        let mut tune = Tune::new(vec![3, 4, 5], Settings { seed, ..SETTINGS });
        run(&mut tune, |c| (c.level(2) < 2).then_some(1.0 + 0.1 * c.level(0) as f64));
        let mut left_out = tune.space().left_out().to_vec();
        left_out.sort_unstable();
        assert_eq!(left_out, [(2, 2), (2, 3), (2, 4)], "{seed}");
        assert_eq!(tune.found().best.level(0), 2, "{seed}");
        // Each of these two works with all but the other.
        let mut tune = Tune::new(vec![3, 3, 2], Settings { seed, ..SETTINGS });
        let tried = run(&mut tune, |c| (c.level(0) != 1 || c.level(1) != 1).then_some(1.0));
        assert_eq!(tune.space().left_out(), [], "{seed}");
        let row = |row: &Combination| tried.iter().filter(|c| *c == row).count() as u32;
        assert!(tried.iter().all(|c| c.level(0) != 1 || c.level(1) != 1 || row(c) <= MOST_FAILED));
    }
}

/// A test may fail now and then; what fails three times in a row cannot be compared with.
#[test]
fn a_failed_run_of_the_default_does_not_ban_it() {
    let count = Cell::new(0);
    let value = |c: &Combination, runs: fn(u32) -> bool| {
        let is_default = c.changed().is_empty();
        count.set(count.get() + u32::from(is_default));
        (!is_default || runs(count.get())).then_some(1.0 + 0.25 * c.level(0) as f64)
    };
    let mut tune = Tune::new(vec![2, 2], SETTINGS);
    run(&mut tune, |c| value(c, |n| n <= 6 || n % 3 != 0));
    let found = tune.found();
    assert!(found.recommended && found.best.level(0) == 1, "{found:?}");
    assert_ne!(found.reason, Reason::Unmeasurable);
    count.set(0);
    let mut tune = Tune::new(vec![2, 2], SETTINGS);
    run(&mut tune, |c| value(c, |n| n <= 12));
    let found = tune.found();
    assert_eq!((found.reason, found.recommended), (Reason::Unmeasurable, false), "{found:?}");
}

/// Those runs that are left may be the ones that chance spared, however good they are.
#[test]
fn what_fails_in_a_third_of_its_confirmation_is_not_recommended() {
    for fails in [false, true] {
        let mut tune = Tune::new(vec![2, 2], SETTINGS);
        let mut chance = Random::new(5);
        let mut tried = 0;
        while let Some((combination, purpose)) = tune.next() {
            let best = combination.level(0) == 1;
            tried += usize::from(best && purpose == Purpose::Confirm);
            let failed = fails && best && purpose == Purpose::Confirm && tried % 3 == 0;
            let gain = if best { 1.25 } else { 1.0 } - 0.3 * combination.level(1) as f64;
            let value = (!failed).then(|| gain * (0.01 * chance.normal()).exp());
            tune.take(Measured { value, took_s: 1.0, ..Measured::default() });
        }
        let found = tune.found();
        let missed = if fails { tried / 3 } else { 0 };
        assert_eq!((found.recommended, found.missed), (!fails, missed), "{found:?}");
        assert_eq!((found.candidate.level(0), found.pairs), (1, tried - missed), "{found:?}");
        assert!(tried >= 8 && found.gain.is_some_and(|gain| gain.low > 20.0), "{found:?}");
    }
}

/// Every other block is cut into: its first trial gives five times as much, and its second is void.
fn run_cut(tune: &mut Tune, value: impl Fn(&Combination) -> f64) -> (usize, Vec<Purpose>) {
    let (mut blocks, mut tried, mut void) = (0, 0, Vec::new());
    while let Some((combination, purpose)) = tune.next() {
        blocks += usize::from(tune.block.is_empty());
        let cut = blocks % 2 == 1;
        let measured = match tune.block.len() {
            1 if cut => {
                void.push(purpose);
                Measured { void: true, took_s: 1.0, ..Measured::default() }
            }
            before => {
                let more = if cut && before == 0 { 5.0 } else { 1.0 };
                let value = Some(value(combination) * more);
                Measured { value, took_s: 1.0, ..Measured::default() }
            }
        };
        tune.take(measured);
        tried += 1;
        assert!(tried < 5_000, "no end");
    }
    (tried, void)
}

/// Whatever is cut into that is not its doing, the answer is that of a path on which nothing is.
#[test]
fn a_void_trial_says_nothing_and_its_block_is_made_anew() {
    for lower in [false, true] {
        for seed in 0..5 {
            let begin = || Tune::new(vec![3, 3, 2], Settings { seed, lower, ..SETTINGS });
            let value = |c: &Combination| {
                let better = 1.0 + 0.125 * (c.level(1) + c.level(2)) as f64;
                if lower { 1.0 / better } else { better }
            };
            let (mut calm, mut trials) = (begin(), 0);
            while let Some((combination, _)) = calm.next() {
                let value = Some(value(combination));
                calm.take(Measured { value, took_s: 1.0, ..Measured::default() });
                trials += 1;
            }
            let mut tune = begin();
            let (tried, void) = run_cut(&mut tune, value);
            assert_eq!(tune.found(), calm.found(), "{seed}");
            assert!(tune.found().recommended && tune.found().missed == 0, "{:?}", tune.found());
            assert!(tune.space().left_out().is_empty() && !tune.is_cut_short(), "{seed}");
            // Two trials of a block are lost: the void one, and that before it.
            assert_eq!(tried, trials + 2 * void.len(), "{seed}");
            for purpose in [Purpose::Default, Purpose::Screen, Purpose::Refine, Purpose::Confirm] {
                assert!(void.contains(&purpose), "{seed}: {void:?}");
            }
        }
    }
}

#[test]
fn the_time_is_kept_where_blocks_are_cut_into() {
    for most in [0.5, 1.5, 5.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0] {
        let mut tune = Tune::new(vec![3, 4, 4], Settings { max_s: Some(most), ..SETTINGS });
        run_cut(&mut tune, |c| 1.0 + 0.2 * c.level(0) as f64);
        assert!(tune.spent_s() <= most, "{most}: {}", tune.spent_s());
        let found = tune.found();
        assert!(!found.recommended || found.pairs >= FEWEST_PAIRS, "{most}: {found:?}");
    }
}

/// A path that is down, a combination that is always cut into and a default that is: it ends, and nothing is left out.
#[test]
fn what_is_cut_into_again_and_again_ends_it() {
    type Down = fn(&Combination, usize) -> bool;
    let downs: [(Down, usize); 4] = [
        (|_, _| true, 0),
        (|_, made| made >= 9, 9),
        (|c, made| made >= 20 && c.changed().is_empty(), 20),
        (|c, _| c.level(0) == 1, FIRST_RUNS),
    ];
    for (is_down, least) in downs {
        let mut tune = Tune::new(vec![2, 3], SETTINGS);
        let mut made = 0;
        let mut void = 0;
        while let Some((combination, _)) = tune.next() {
            let down = is_down(combination, made);
            let value = (!down).then(|| 1.0 + 0.2 * combination.level(1) as f64);
            tune.take(Measured { value, void: down, took_s: 1.0, ..Measured::default() });
            made += 1;
            void += u32::from(down);
            assert!(made < 1_000, "no end");
        }
        let found = tune.found();
        assert!(tune.is_cut_short() && found.reason == Reason::Unmeasurable, "{least}: {found:?}");
        assert!(void == MOST_CUT && made >= least, "{least}: {void} of {made}");
        assert!(!found.recommended && found.missed == 0, "{least}: {found:?}");
        assert!(tune.space().left_out().is_empty() && tune.failed.is_empty(), "{least}");
    }
}

/// What is shown to be better by less than matters is not recommended.
#[test]
fn a_gain_below_the_width_changes_nothing() {
    for (width, recommended) in [(0.02, false), (0.005, true)] {
        for lower in [false, true] {
            let mut tune = Tune::new(vec![2, 2], Settings { width, lower, ..SETTINGS });
            let mut chance = Random::new(5);
            while let Some((combination, _)) = tune.next() {
                let better = if combination.level(0) == 1 { 0.01 } else { 0.0 };
                let log = if lower { -better } else { better } + 0.001 * chance.normal();
                tune.take(Measured { value: Some(log.exp()), took_s: 1.0, ..Measured::default() });
            }
            let found = tune.found();
            assert!(found.gain.is_some_and(|gain| gain.low > 0.5 && gain.high < 1.5), "{found:?}");
            assert_eq!((found.recommended, found.candidate.level(0)), (recommended, 1));
        }
    }
}

#[test]
fn it_ends_where_nothing_can_be_told() {
    let tune = Tune::new(vec![1, 1], SETTINGS);
    assert_eq!((tune.next().is_none(), tune.found().reason), (true, Reason::NothingToVary));
    let mut tune = Tune::new(vec![2, 2], SETTINGS);
    assert_eq!(run(&mut tune, |_| None).len(), FIRST_RUNS);
    assert_eq!(tune.found().reason, Reason::Unmeasurable);
    // The default runs at first, and then no more.
    let mut tune = Tune::new(vec![2, 2], SETTINGS);
    let left = Cell::new(8);
    run(&mut tune, |c| {
        left.set(left.get() - 1);
        (!c.changed().is_empty() || left.get() > 0).then_some(1.0)
    });
    assert_eq!(tune.found().reason, Reason::Unmeasurable);
    assert!(!tune.found().recommended);
}

#[test]
fn a_limit_of_time_leaves_room_to_confirm() {
    let value = |c: &Combination| Some(1.0 + 0.2 * c.level(0) as f64);
    for most in [0.5, 1.5, 5.0, 10.0, 40.0, 60.0, 100.0] {
        let mut tune = Tune::new(vec![3, 4, 4, 3], Settings { max_s: Some(most), ..SETTINGS });
        let tried = run(&mut tune, value);
        let found = tune.found();
        assert!(tried.len() as f64 <= most, "{most}: {}", tried.len());
        assert_eq!(found.reason, Reason::MaxTime, "{most}");
        assert_eq!(found.recommended, found.gain.is_some_and(|gain| gain.low > 0.0), "{most}");
        if most >= 60.0 {
            assert!(found.recommended, "{most}: {found:?}");
        }
    }
}

/// What cannot run takes no time, and says nothing of how long the rest takes.
#[test]
fn the_time_is_kept_though_most_fail_at_once_and_the_last_are_slow() {
    for (most, slow) in
        [(30.0, 1.0), (45.0, 2.0), (60.0, 1.0), (60.0, 2.0), (60.0, 4.0), (75.0, 1.0), (75.0, 6.0)]
    {
        let mut tune = Tune::new(vec![2, 40], Settings { max_s: Some(most), ..SETTINGS });
        let (mut chance, mut failed) = (Random::new(5), 0);
        while let Some((combination, purpose)) = tune.next() {
            let runs = combination.level(1) == 0;
            failed += u32::from(!runs);
            let gain = 1.0 + 0.25 * combination.level(0) as f64;
            let value = runs.then(|| gain * (0.03 * chance.normal()).exp());
            let took_s = match (runs, purpose) {
                (false, _) => 0.0,
                (true, Purpose::Confirm) => slow,
                (true, _) => 1.0,
            };
            tune.take(Measured { value, took_s, ..Measured::default() });
        }
        // That the last ones take longer shows in a pair of them.
        let bound = most + 2.0 * (slow - 1.0);
        assert!(tune.spent_s() <= bound, "{most} {slow}: {}", tune.spent_s());
        let found = tune.found();
        assert!(!found.recommended || found.pairs >= FEWEST_PAIRS, "{most} {slow}: {found:?}");
        assert!(failed > 20, "{most} {slow}: {failed}");
    }
}

#[test]
fn it_may_be_stopped_anywhere() {
    let count =
        run(&mut Tune::new(vec![3, 3], SETTINGS), |c| Some(1.0 + 0.1 * c.level(0) as f64)).len();
    for step in 0..count {
        let mut tune = Tune::new(vec![3, 3], SETTINGS);
        for _ in 0..step {
            let value = 1.0 + 0.1 * tune.next().unwrap().0.level(0) as f64;
            tune.take(Measured { value: Some(value), took_s: 1.0, ..Measured::default() });
            if tune.next().is_none() {
                return;
            }
        }
        tune.stop();
        let found = tune.found();
        assert_eq!((tune.next(), found.reason), (None, Reason::Stopped), "{step}");
        assert!(!found.recommended, "{step}");
    }
}

/// The same seed and figures lead to the same trials.
#[test]
fn it_knows_no_chance_but_its_seed() {
    let value = |c: &Combination| Some(1.0 + 0.05 * c.level(2) as f64);
    let tried = |seed| run(&mut Tune::new(vec![3, 3, 3], Settings { seed, ..SETTINGS }), value);
    assert_eq!(tried(3), tried(3));
    assert_ne!(tried(3), tried(4));
}
