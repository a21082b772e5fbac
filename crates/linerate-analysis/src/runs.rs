//! Runs that know to which setting they belong, made ready to be compared: by unit, with their boots
//! where all have one, and those far from the others of their set.

use std::collections::BTreeSet;

use linerate_model::record::RunRecord;
use linerate_stats::offline::outliers::{self, Grade};
use linerate_stats::offline::summary;

use crate::input::{FEWEST_VALUES, doubted, in_range};
use crate::set::{Boots, Data, Set};

/// Runs of several settings. The first set is the baseline of all others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetsOfRuns {
    /// Name of the campaign.
    pub name: String,
    /// Whether boots of one name are the same boot in every set, so that two sets that share all
    /// their boots are compared boot by boot.
    pub paired: bool,
    /// The campaign reboots nothing and ran in one boot: its runs are compared, and no boots.
    pub within_a_boot: bool,
    /// The sets.
    pub sets: Vec<SetOfRuns>,
    /// What the reader should know: cells that are short, gaps, hosts that were not restored.
    pub notes: Vec<String>,
    /// Whether they are plain files, one a setting, and no campaign.
    pub plain: bool,
}

impl SetsOfRuns {
    /// Whether a campaign made them; else they are files that were given to be compared.
    pub fn is_campaign(&self) -> bool {
        !self.plain
    }

    /// The sets by unit: only figures of one unit can be compared. The baseline's come first.
    pub fn by_unit(&self) -> Vec<Vec<&SetOfRuns>> {
        let mut groups: Vec<Vec<&SetOfRuns>> = Vec::new();
        for set in &self.sets {
            let same = |g: &&mut Vec<&SetOfRuns>| g.first().is_some_and(|f| f.unit == set.unit);
            match groups.iter_mut().find(same) {
                Some(group) => group.push(set),
                None => groups.push(vec![set]),
            }
        }
        groups
    }
}

/// The runs of one setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetOfRuns {
    /// Name of the setting.
    pub label: String,
    /// What is compared, such as `received_bps`.
    pub metric: String,
    /// Its unit. Sets of different units are not compared with each other.
    pub unit: Option<String>,
    /// The runs that count, in the order they ran.
    pub runs: Vec<SetRun>,
}

/// One run of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct SetRun {
    /// Boot during which it ran; the same name is the same boot.
    pub boot: Option<String>,
    /// Number within its boot, from 1.
    pub run: u64,
    /// The figure that is compared, in the unit of its set. Absent: it is not in any comparison.
    pub value: Option<f64>,
    /// The whole record, where it is linerate's own.
    pub record: Option<Box<RunRecord>>,
    /// Kinds of the doubts of its record, and in words what the plan's values became.
    pub doubts: Vec<String>,
}

/// The sets as compare takes them, and those that are too small for it. Boots count where every run
/// has one: compare takes no sets of which some have boots and others none. `paired`: a boot of one
/// name is the same boot in every set.
pub fn comparable<'a>(paired: bool, group: &[&'a SetOfRuns]) -> (Vec<Set>, Vec<(&'a str, usize)>) {
    let (enough, short): (Vec<_>, Vec<_>) = group
        .iter()
        .map(|set| (*set, figured(&set.runs).collect::<Vec<&SetRun>>()))
        .partition(|(_, runs)| runs.len() >= FEWEST_VALUES);
    let booted = enough.iter().all(|(_, runs)| runs.iter().all(|r| r.boot.is_some()));
    let sets = enough.into_iter().map(|(set, runs)| {
        let values: Vec<f64> = runs.iter().filter_map(|r| r.value).collect();
        let labels = runs.iter().filter_map(|r| r.boot.clone());
        let boots = booted.then(|| Boots::of_labels(labels, paired));
        let doubts: Vec<BTreeSet<&str>> =
            runs.iter().map(|r| r.doubts.iter().map(String::as_str).collect()).collect();
        let (all, left_out) = (set.runs.len(), set.runs.len().saturating_sub(runs.len()));
        let missing = || format!("{left_out} of {all} runs left out: without a figure");
        Set {
            label: set.label.clone(),
            unit: set.unit.clone(),
            data: Data::Runs { values: values.into(), boots },
            notes: (left_out > 0).then(missing).into_iter().chain(doubted(&doubts)).collect(),
        }
    });
    let short = short.into_iter().map(|(set, runs)| (set.label.as_str(), runs.len())).collect();
    (sets.collect(), short)
}

/// Runs that have a figure which can be compared.
fn figured(runs: &[SetRun]) -> impl Iterator<Item = &SetRun> {
    runs.iter().filter(|r| r.value.is_some_and(in_range))
}

/// A run far from the others of its set.
#[derive(Debug)]
pub struct Odd<'a> {
    /// Index of its set among those compared.
    pub set: usize,
    /// Among the values of that set.
    pub index: usize,
    /// Of its set.
    pub label: &'a str,
    /// The run.
    pub run: &'a SetRun,
    /// Its figure.
    pub value: f64,
    /// Of its set.
    pub median: f64,
    /// Very far.
    pub severe: bool,
}

/// The odd runs of the sets that [`comparable`] made of a group, the farthest first, at most so many.
pub fn odd_runs<'a>(group: &[&'a SetOfRuns], sets: &[Set], most: usize) -> Vec<Odd<'a>> {
    let mut odd = Vec::new();
    for (index, set) in sets.iter().enumerate() {
        let Some(from) = group.iter().find(|s| s.label == set.label) else { continue };
        let runs: Vec<&SetRun> = figured(&from.runs).collect();
        let Some(median) = summary::median(&summary::sorted(set.values())) else { continue };
        for outlier in outliers::flag(set.values()) {
            let Some(run) = runs.get(outlier.index) else { continue };
            odd.push(Odd {
                set: index,
                index: outlier.index,
                label: &from.label,
                run,
                value: outlier.value,
                median,
                severe: outlier.grade == Grade::Severe,
            });
        }
    }
    let far = |o: &Odd<'_>| (o.value - o.median).abs() / o.median.abs().max(f64::MIN_POSITIVE);
    odd.sort_by(|a, b| far(b).total_cmp(&far(a)));
    odd.truncate(most);
    odd
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(label: &str, unit: &str, values: &[Option<f64>]) -> SetOfRuns {
        let run = |(value, run): (&Option<f64>, u64)| SetRun {
            boot: Some(format!("b{}", run.div_ceil(4))),
            run,
            value: *value,
            record: None,
            doubts: Vec::new(),
        };
        let runs = values.iter().zip(1..).map(run).collect();
        SetOfRuns { label: label.into(), metric: String::new(), unit: Some(unit.into()), runs }
    }

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn sets_of_one_unit_are_compared_and_the_short_are_named() {
        let gap = [Some(1.0), None, Some(f64::NAN), Some(1e200), Some(2.0)];
        let sets = vec![
            set("a", "s", &some(&[1.0, 2.0, 3.0])),
            set("b", "bit/s", &some(&[1.0; 3])),
            set("c", "s", &gap),
        ];
        let sets = SetsOfRuns { sets, ..SetsOfRuns::default() };
        let groups = sets.by_unit();
        let labels = |g: &[&SetOfRuns]| g.iter().map(|s| s.label.clone()).collect::<Vec<_>>();
        assert_eq!(
            groups.iter().map(|g| labels(g)).collect::<Vec<_>>(),
            [vec!["a", "c"], vec!["b"]]
        );
        let (sets, short) = comparable(true, &groups[0]);
        assert_eq!(sets.iter().map(|s| s.values()).collect::<Vec<_>>(), [[1.0, 2.0, 3.0]]);
        assert!(sets[0].boots().is_some_and(|b| b.identity && b.labels == ["b1"]));
        assert_eq!(short, [("c", 2)]);
    }

    #[test]
    fn one_run_without_a_boot_takes_them_from_all() {
        let (mut a, b) = (set("a", "s", &some(&[1.0; 4])), set("b", "s", &some(&[2.0; 4])));
        a.runs[2].boot = None;
        assert!(comparable(false, &[&a, &b]).0.iter().all(|s| s.boots().is_none()));
    }

    #[test]
    fn the_farthest_run_is_the_first_of_the_odd() {
        let steady = [10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 10.1, 9.9];
        let mut a = some(&[20.0]);
        a.extend(some(&steady));
        let mut b = some(&steady);
        b.extend([None, Some(100.0)]);
        let (a, b) = (set("a", "s", &a), set("b", "s", &b));
        let group = [&a, &b];
        let (sets, _) = comparable(false, &group);
        let notes: Vec<&[String]> = sets.iter().map(|s| s.notes.as_slice()).collect();
        assert_eq!(notes, [&[][..], &["1 of 10 runs left out: without a figure".to_owned()]]);
        let odd = odd_runs(&group, &sets, 40);
        let reported: Vec<_> =
            odd.iter().map(|o| (o.label, o.set, o.index, o.run.run, o.value)).collect();
        assert_eq!(reported, [("b", 1, 8, 10, 100.0), ("a", 0, 0, 1, 20.0)]);
        assert!(odd.iter().all(|o| o.severe && (o.median - 10.0).abs() < 0.11));
        assert_eq!(odd_runs(&group, &sets, 1).len(), 1);
    }
}
