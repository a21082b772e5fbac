//! Tuning of twenty made-up hosts whose best is known: whether it is found, how long that takes against the whole
//! grid, and that chance is not taken for gain.

mod hosts;

use hosts::{HOSTS, Host, Running};
use linerate_experiment::tune::{Found, Measured, Settings, Tune};
use linerate_model::tune::Reason;
use linerate_stats::offline::power::pairs_needed;

/// What matters, as a share.
const WIDTH: f64 = 0.02;
/// Seconds of a trial.
const TRIAL_S: f64 = 1.3;
/// Seeds of each host in a usual run …
const FEW: u64 = 6;
/// … and where there is time; `LINERATE_SEEDS` names another number.
const MANY: u64 = 200;
/// Names of the hosts on which nothing is better than the default by what matters.
const FLAT: [&str; 4] = ["flat", "flat, drifts", "flat, boots", "nearly flat"];

fn seeds() -> u64 {
    let asked = std::env::var("LINERATE_SEEDS").ok().and_then(|n| n.parse().ok());
    let long = std::env::var_os("LINERATE_LONG").is_some_and(|v| v == "1");
    asked.unwrap_or(if long { MANY } else { FEW })
}

fn tune(host: &Host, seed: u64) -> (Found, f64) {
    let settings =
        Settings { width: WIDTH, lower: host.lower, max_s: None, trial_s: TRIAL_S, seed };
    let mut tune = Tune::new(host.levels.to_vec(), settings);
    let mut running = Running::new(host, seed);
    while let Some((combination, _)) = tune.next() {
        let value = running.run(&combination.0);
        tune.take(Measured { value: Some(value), took_s: TRIAL_S, ..Measured::default() });
        assert!(tune.spent_s() < 20_000.0 * TRIAL_S, "{}: no end", host.name);
    }
    (tune.found(), tune.spent_s())
}

/// How long the whole grid takes: each combination as often as tells what matters with 80 % power at the
/// scatter of the host, as `linerate compare` plans it.
fn grid_s(host: &Host) -> f64 {
    let runs = pairs_needed(WIDTH.ln_1p(), 2.0 * host.noise.powi(2), 0.95).unwrap();
    host.levels.iter().product::<usize>() as f64 * runs as f64 * TRIAL_S
}

#[derive(Debug, Default)]
struct Sums {
    seeds: f64,
    near: f64,
    changed: f64,
    times: Vec<f64>,
    covered: f64,
    confirmed: f64,
}

#[test]
fn the_best_of_the_grid_is_found_in_a_fifth_of_its_time() {
    let mut wrong = Vec::new();
    let (mut false_alarms, mut flats, mut near, mut all) = (0.0, 0.0, 0.0, 0.0);
    let (mut covered, mut confirmed) = (0.0, 0.0);
    println!(
        "host: within 2 %, time of the grid's (mean, p95), of a single pass, other than the default, gain held"
    );
    for host in &HOSTS {
        let mut sums = Sums::default();
        for seed in 0..seeds() {
            let (found, spent_s) = tune(host, seed);
            holds_together(host, &found);
            if std::env::var_os("TRACE").is_some() && host.short_of_best(&found.best.0) > WIDTH {
                println!(
                    "{} {seed}: {:?} {:.3} {:?}",
                    host.name,
                    found.best,
                    host.short_of_best(&found.best.0),
                    found.gain
                );
                println!("    {:?}", found.candidate);
            }
            sums.seeds += 1.0;
            sums.near += f64::from(host.short_of_best(&found.best.0) <= WIDTH);
            sums.changed += f64::from(found.recommended);
            sums.times.push(spent_s);
            if let Some(gain) = found.gain {
                let truth = host.gain_percent(&found.candidate.0);
                sums.confirmed += 1.0;
                sums.covered += f64::from((gain.low..=gain.high).contains(&truth));
            }
        }
        sums.times.sort_by(f64::total_cmp);
        let (mean, p95) =
            (sums.times.iter().sum::<f64>() / sums.seeds, sums.times[sums.times.len() * 95 / 100]);
        let (grid, pass) = (grid_s(host), host.levels.iter().product::<usize>() as f64 * TRIAL_S);
        println!(
            "{:16} {:5.1} %  {:5.1} % {:5.1} %  {:5.0} %  {:5.1} %  {:5.1} %  ({:.0} trials)",
            host.name,
            100.0 * sums.near / sums.seeds,
            100.0 * mean / grid,
            100.0 * p95 / grid,
            100.0 * mean / pass,
            100.0 * sums.changed / sums.seeds,
            100.0 * sums.covered / sums.confirmed,
            mean / TRIAL_S,
        );
        (near, all) = (near + sums.near, all + sums.seeds);
        if FLAT.contains(&host.name) {
            (false_alarms, flats) = (false_alarms + sums.changed, flats + sums.seeds);
        } else {
            (covered, confirmed) = (covered + sums.covered, confirmed + sums.confirmed);
        }
        if mean > 0.2 * grid {
            wrong.push(format!(
                "{} takes {:.0} % of the grid's time",
                host.name,
                100.0 * mean / grid
            ));
        }
        // With few seeds one may be unlucky.
        if sums.near < sums.seeds * 0.95 - 1.0 {
            wrong.push(format!("{} is found in {} of {}", host.name, sums.near, sums.seeds));
        }
    }
    println!(
        "FIGURE tune: {:.1} % within 2 %, {:.1} % false of {flats} flat, {:.1} % of gains held",
        100.0 * near / all,
        100.0 * false_alarms / flats,
        100.0 * covered / confirmed
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(false_alarms <= 0.05 * flats + 1.0, "{false_alarms} of {flats}");
    // Intervals of 95 %, each of a candidate that the same host's noise chose.
    assert!(covered >= 0.9 * confirmed, "{covered} of {confirmed} intervals hold the truth");
}

/// No change is recommended whose interval holds 0, nor a level that is not needed.
fn holds_together(host: &Host, found: &Found) {
    let name = host.name;
    assert!(matches!(found.reason, Reason::Settled | Reason::Noise), "{name}: {found:?}");
    assert_eq!(found.recommended, !found.best.changed().is_empty(), "{name}: {found:?}");
    if found.recommended {
        assert_eq!(found.best, found.candidate, "{name}");
        assert!(found.gain.is_some_and(|gain| gain.low > 0.0), "{name}: {found:?}");
    }
    for (factor, about) in found.factors.iter().enumerate() {
        assert_eq!(about.best, found.best.level(factor), "{name}");
        if about.best > 0 && found.best.changed().len() > 1 {
            assert!(about.worth.is_some_and(|worth| worth.low > 0.0), "{name} {factor}: {found:?}");
        }
    }
}

impl Host {
    /// What a combination truly gains over the default, percent.
    fn gain_percent(&self, levels: &[usize]) -> f64 {
        let default = (self.surface)(&vec![0; levels.len()]);
        let ratio = (self.surface)(levels) / default;
        100.0 * if self.lower { 1.0 - ratio } else { ratio - 1.0 }
    }
}
