//! How often compare calls two sets different that are not: the same setting measured twice, 3
//! boots of 10 runs, with no, some and much of the variance between boots. A sound 95 % test does
//! so in 4 to 6 % of the trials. Beside it, what treating all runs as independent would do, as
//! ministat does.
//!
//! `cargo run --release -p linerate-report --example false_alarms -- 10000`

use linerate_report::compare::analysis::{self, Options, Verdict};
use linerate_report::compare::set::{Boots, Data, Set};
use linerate_stats::offline::bootstrap::Random;
use linerate_stats::offline::summary::Moments;
use linerate_stats::offline::welch::pooled;

fn main() {
    let trials: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let mut sound = true;
    println!("3 boots x 10 runs, {trials} trials each, 95 %: share called different");
    println!("{:>5} {:>10} {:>22}", "icc", "compare", "runs as independent");
    for icc in [0.0, 0.3, 0.8] {
        let mut random = Random::new(2026);
        let (mut ours, mut naive) = (0u32, 0u32);
        for _ in 0..trials {
            let sets = [set("a", icc, &mut random), set("b", icc, &mut random)];
            let flat = |s: &Set| Moments::of(s.values());
            let test = flat(&sets[0]).zip(flat(&sets[1])).and_then(|(a, b)| pooled(&a, &b));
            naive += u32::from(test.is_some_and(|d| d.p < 0.05));
            let Ok(analysis) = analysis::compare(&sets, &Options::default()) else { continue };
            let verdict = analysis.comparisons.first().and_then(|c| c.verdict);
            ours += u32::from(verdict == Some(Verdict::Different));
        }
        let share = |n: u32| f64::from(n) / f64::from(trials);
        println!("{icc:>5} {:>10.4} {:>22.4}", share(ours), share(naive));
        sound &= (0.04..=0.06).contains(&share(ours));
    }
    println!("{}", if sound { "all between 0.04 and 0.06" } else { "OUTSIDE 0.04 to 0.06" });
    std::process::exit(i32::from(!sound));
}

fn set(label: &str, icc: f64, random: &mut Random) -> Set {
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for boot in 0..3 {
        let level = 100.0 + icc.sqrt() * random.normal();
        for _ in 0..10 {
            values.push(level + (1.0 - icc).sqrt() * random.normal());
            labels.push(boot.to_string());
        }
    }
    let boots = Some(Boots::of_labels(labels, false));
    Set {
        label: label.into(),
        unit: None,
        data: Data::Runs { values: values.into(), boots },
        notes: Vec::new(),
    }
}
