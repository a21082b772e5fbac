//! Files that hold the runs of one setting and nothing else: `.stat` files, and iperf3's documents.

use crate::metric::DEFAULT;
use linerate_model::record::RunRecord;

use super::{Input, InputError, Item, SetOfRuns, SetRun, What};
use crate::input::{FEWEST_VALUES, ReadOptions, label, read};

/// A `.stat` file, read as `linerate compare` reads it.
pub(super) fn stat(input: &mut Input, file: &str, bytes: &[u8]) {
    let sets = match read(file, bytes, &ReadOptions::default()) {
        Ok(sets) => sets,
        Err(error) => {
            let what = format!("neither JSON nor the runs of a .stat file: {}", error.what);
            let damage = InputError { line: error.line, ..InputError::new(file, what) };
            return input.damaged.push(damage);
        }
    };
    for set in sets {
        let boots = set.boots();
        let boot = |i: usize| boots.and_then(|b| b.labels.get(*b.of.get(i)? as usize).cloned());
        let runs = set.values().iter().zip(1..).enumerate().map(|(i, (value, run))| SetRun {
            boot: boot(i),
            run,
            value: Some(*value),
            record: None,
            doubts: Vec::new(),
        });
        let (label, unit, runs) = (set.label.clone(), set.unit.clone(), runs.collect());
        input.setting(file, SetOfRuns { label, metric: String::new(), unit, runs });
    }
}

/// iperf3's documents of one file: as many as have a spread are the runs of a setting.
pub(super) fn iperf3(input: &mut Input, file: &str, records: Vec<Box<RunRecord>>) {
    if records.len() < FEWEST_VALUES {
        let item = |record| Item { source: file.to_owned(), what: What::Run(record) };
        return input.items.extend(records.into_iter().map(item));
    }
    let runs = records.into_iter().zip(1..).map(|(record, run)| SetRun {
        boot: None,
        run,
        value: DEFAULT.of(&record),
        record: Some(record),
        doubts: Vec::new(),
    });
    let set = SetOfRuns {
        label: label(file),
        metric: DEFAULT.name.to_owned(),
        unit: Some(DEFAULT.unit.to_owned()),
        runs: runs.collect(),
    };
    input.setting(file, set);
}
