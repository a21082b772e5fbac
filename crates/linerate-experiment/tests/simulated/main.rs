//! The search on four simulated systems, 200 seeds each: time, error and spread.

mod systems;

use linerate_experiment::search::goal::Goal;
use linerate_experiment::search::{Next, Search, Settings};
use linerate_model::plan::Way;
use linerate_model::units::BitRate;
use systems::{BUSY, Chance, HARD, LARGEST, LEAST, OVERHEAD_S, QUIET, STALLS, System};

const SEEDS: u64 = 200;

/// What 200 searches came to.
#[derive(Debug)]
struct Figures {
    /// Mean and 95th percentile of time, seconds.
    mean_s: f64,
    p95_s: f64,
    /// Median error, 90th percentile of its size, coefficient of variation, percent.
    median: f64,
    p90: f64,
    cv: f64,
    /// Share of searches more than 2 % off.
    off: f64,
    /// Share whose interval holds the truth.
    covered: f64,
}

struct Found {
    value: f64,
    seconds: f64,
    covers: bool,
}

fn figures(truth: f64, mut found: Vec<Found>) -> Figures {
    let n = found.len() as f64;
    let mean = |of: &dyn Fn(&Found) -> f64| found.iter().map(of).sum::<f64>() / n;
    let error = |f: &Found| 100.0 * (f.value / truth - 1.0);
    let (mean_s, value) = (mean(&|f| f.seconds), mean(&|f| f.value));
    let variance = found.iter().map(|f| (f.value - value).powi(2)).sum::<f64>() / (n - 1.0);
    let off = mean(&|f| f64::from(error(f).abs() > 2.0));
    let covered = mean(&|f| f64::from(f.covers));
    let quantile = |values: &mut Vec<f64>, p: f64| {
        values.sort_by(f64::total_cmp);
        let at = p * (values.len() - 1) as f64;
        let (low, high) = (values[at.floor() as usize], values[at.ceil() as usize]);
        low + (high - low) * at.fract()
    };
    let mut errors: Vec<f64> = found.iter().map(error).collect();
    let median = quantile(&mut errors, 0.5);
    errors.iter_mut().for_each(|e| *e = e.abs());
    let p90 = quantile(&mut errors, 0.9);
    let mut times: Vec<f64> = found.drain(..).map(|f| f.seconds).collect();
    let p95_s = quantile(&mut times, 0.95);
    Figures { mean_s, p95_s, median, p90, cv: 100.0 * variance.sqrt() / value, off, covered }
}

fn settings(presets: &[&str], ci: Option<f64>) -> Settings {
    Settings {
        way: Way::Forward,
        min: BitRate::new(LEAST as u64).unwrap(),
        max: BitRate::new(LARGEST as u64),
        goals: presets.iter().map(|p| Goal::preset(p).unwrap()).collect(),
        ci,
        shape: false,
        max_time: None,
    }
}

fn search(system: &System, settings: Settings, seed: u64) -> Search {
    let mut search = Search::new(settings);
    let mut chance = Chance::new(10_000 + seed);
    while let Next::Run { trial, .. } = search.next() {
        search.take(system.run(&trial, &mut chance));
        assert!(search.made().len() < 2_000, "no end");
    }
    if std::env::var_os("TRACE").is_some() && seed < 3 {
        for m in search.made() {
            println!("{:?} {:?} {:?} {:.4}", m.purpose, m.load, m.trial.rate, m.outcome.lost_ratio);
        }
    }
    search
}

/// What must hold of one system. Times in seconds, errors in percent of the true limit.
struct Wanted {
    system: System,
    /// Load that fails half of its 1 s trials: without loss, and with 0.5 % allowed.
    ndr: f64,
    pdr: f64,
    /// One goal, 0.5 % loss, bounds settled by 21 s.
    mean_s: f64,
    p95_s: f64,
    median: f64,
    cv: f64,
    off: f64,
    /// No loss and 0.5 % loss in one search.
    both_s: f64,
    /// Faster than halving with trials of 60 s by this factor.
    faster: f64,
    /// An interval of 2 %: its time, and how often it holds the truth.
    interval_s: f64,
    covered: f64,
}

const WANTED: [Wanted; 4] = [
    Wanted {
        system: HARD,
        ndr: 1_001_000.0,
        pdr: 1_006_031.0,
        mean_s: 30.0,
        p95_s: 30.0,
        median: 0.45,
        cv: 0.0,
        off: 0.0,
        both_s: 40.0,
        faster: 20.0,
        interval_s: 25.0,
        covered: 0.95,
    },
    Wanted {
        system: QUIET,
        ndr: 1_000_845.0,
        pdr: 1_005_889.0,
        mean_s: 40.0,
        p95_s: 65.0,
        median: 0.45,
        cv: 0.25,
        off: 0.0,
        both_s: 60.0,
        faster: 16.0,
        interval_s: 40.0,
        covered: 0.95,
    },
    Wanted {
        system: STALLS,
        ndr: 998_753.0,
        pdr: 1_004_795.0,
        mean_s: 50.0,
        p95_s: 75.0,
        median: 0.35,
        cv: 0.3,
        off: 0.01,
        both_s: 80.0,
        faster: 17.0,
        interval_s: 70.0,
        covered: 0.95,
    },
    Wanted {
        system: BUSY,
        ndr: 990_495.0,
        pdr: 999_165.0,
        mean_s: 90.0,
        p95_s: 200.0,
        median: 0.5,
        cv: 3.0,
        off: 0.08,
        both_s: 135.0,
        faster: 10.0,
        interval_s: 130.0,
        covered: 0.90,
    },
];

/// 200 searches with these presets; the figures of the last one.
fn many(system: &System, presets: &[&str], ci: Option<f64>, truth: f64) -> Figures {
    let found = (0..SEEDS)
        .map(|seed| {
            let search = search(system, settings(presets, ci), seed);
            let goals = search.goals();
            let goal = goals.last().expect("a goal");
            let knee = goal.knee_bps;
            Found {
                value: knee.map(|k| k.median).or(goal.lower_bps).expect("an answer"),
                seconds: search.seconds(),
                covers: knee.is_some_and(|k| k.low <= truth && truth <= k.high),
            }
        })
        .collect();
    let figures = figures(truth, found);
    println!("{:7}{presets:?} {ci:?}: {figures:.3?}", system.name);
    figures
}

/// RFC 2544 as it is commonly done: 60 s without loss, halving from the largest load to 0.5 %.
/// Returns the seconds it takes.
fn bisection(system: &System, seed: u64) -> f64 {
    let mut chance = Chance::new(10_000 + seed);
    let (mut low, mut high, mut load) = (LEAST, LARGEST, LARGEST);
    let mut seconds = 0.0;
    loop {
        seconds += 60.0 + OVERHEAD_S;
        let lossless = system.loss(load, 60.0, &mut chance) == 0.0;
        if lossless {
            low = load
        } else {
            high = load
        }
        if low >= high * 0.995 {
            return seconds;
        }
        load = (low + high) / 2.0;
    }
}

#[test]
fn the_truths_are_those_of_the_models() {
    for wanted in &WANTED {
        for (loss, truth) in [(0.0, wanted.ndr), (0.005, wanted.pdr)] {
            let found = wanted.system.truth(loss, 1.0);
            println!("{} {loss}: {found:.0}, known {truth}", wanted.system.name);
            assert!((found / truth - 1.0).abs() < 0.002, "{} {found}", wanted.system.name);
        }
    }
}

#[test]
fn one_goal_is_found_in_time_and_true() {
    for wanted in &WANTED {
        let name = wanted.system.name;
        let found = many(&wanted.system, &["pdr"], None, wanted.pdr);
        assert!(found.mean_s <= wanted.mean_s, "{name}: mean {:.1} s", found.mean_s);
        assert!(found.p95_s <= wanted.p95_s, "{name}: p95 {:.1} s", found.p95_s);
        assert!(found.median.abs() <= wanted.median, "{name}: {:.3} % off", found.median);
        assert!(found.cv <= wanted.cv, "{name}: cv {:.3} %", found.cv);
        assert!(found.off <= wanted.off, "{name}: {:.3} are more than 2 % off", found.off);
        // Better than the published search, whose 90th percentile is 1.2 % after 86 s.
        assert!(found.p90 < 1.0, "{name}: p90 {:.3} %", found.p90);
        let halving = (0..SEEDS).map(|seed| bisection(&wanted.system, seed)).sum::<f64>();
        let faster = halving / SEEDS as f64 / found.mean_s;
        println!("{name}: {faster:.1} times faster than RFC 2544 by halving");
        assert!(faster >= wanted.faster, "{name}: {faster:.1} times faster");
    }
}

#[test]
fn two_goals_share_their_trials() {
    for wanted in &WANTED {
        let found = many(&wanted.system, &["ndr", "pdr"], None, wanted.pdr);
        assert!(found.mean_s <= wanted.both_s, "{} {:.1} s", wanted.system.name, found.mean_s);
        assert!(found.off <= wanted.off.max(0.01), "{} {:.3} off", wanted.system.name, found.off);
    }
}

#[test]
fn intervals_are_narrow_in_time_and_hold_the_truth() {
    for wanted in &WANTED {
        let name = wanted.system.name;
        let found = many(&wanted.system, &["pdr"], Some(0.02), wanted.pdr);
        assert!(found.mean_s <= wanted.interval_s, "{name}: {:.1} s", found.mean_s);
        assert!(found.covered >= wanted.covered, "{name}: covered {:.3}", found.covered);
        assert!(found.p90 < 1.0, "{name}: p90 {:.3} %", found.p90);
    }
}
