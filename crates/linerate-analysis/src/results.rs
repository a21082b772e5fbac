//! Results of any kind, as a report is made of them. A file is known by its content, never by its name; a campaign's store
//! hands over [`SetsOfRuns`] as they are.

pub mod campaign;
mod documents;
pub(crate) mod iperf3;
mod plain;

pub use crate::runs::{SetOfRuns, SetRun, SetsOfRuns};
use linerate_model::doctor::DoctorDocument;
use linerate_model::profile::ProfileDocument;
use linerate_model::record::RunRecord;
use linerate_model::search::SearchDocument;
use linerate_model::sweep::SweepDocument;
use linerate_model::tune::TuneDocument;

use crate::compare::Analysis;
use crate::input::InputError;

/// Everything that was given, in its order.
#[derive(Debug, Default)]
pub struct Input {
    /// What could be read.
    pub items: Vec<Item>,
    /// What could not.
    pub damaged: Vec<InputError>,
    /// Which item holds the sets of plain files, a file a setting, that are compared together.
    compared: Option<usize>,
}

/// One thing to report on.
#[derive(Debug)]
pub struct Item {
    /// Where it is from, as the user named it.
    pub source: String,
    /// What it is.
    pub what: What,
}

/// Kinds of input.
#[derive(Debug)]
pub enum What {
    /// One test.
    Run(Box<RunRecord>),
    /// A sweep.
    Sweep(Box<SweepDocument>),
    /// A search.
    Search(Box<SearchDocument>),
    /// A tuning.
    Tune(Box<TuneDocument>),
    /// What the doctor found.
    Doctor(Box<DoctorDocument>),
    /// A profile.
    Profile(Box<ProfileDocument>),
    /// A comparison.
    Compare(Box<Analysis>),
    /// A campaign, or any other runs that know to which setting they belong.
    Sets(SetsOfRuns),
}

impl Input {
    /// Adds all that the bytes of a named file hold.
    pub fn read(&mut self, file: &str, bytes: &[u8]) {
        documents::read(self, file, bytes);
    }

    /// Adds what could not be read of a file, as a sentence without a full stop.
    pub fn damage(&mut self, file: &str, what: String) {
        self.damaged.push(InputError::new(file, what));
    }

    /// How much there is: the settings of plain files share an item.
    fn results(&self) -> usize {
        let of = |item: &Item| match &item.what {
            What::Sets(sets) => sets.sets.len(),
            _ => 1,
        };
        self.items.iter().map(of).sum()
    }

    /// Adds the runs of one setting, from a file of its own. The first is the baseline of those that
    /// follow, as `linerate compare` has it. Each has a name of its own: of two files of one name in two folders the second
    /// gets its path.
    fn setting(&mut self, file: &str, mut set: SetOfRuns) {
        let known = self.compared.and_then(|i| self.items.get_mut(i));
        match known.map(|item| &mut item.what) {
            Some(What::Sets(sets)) => {
                let taken = |label: &str| sets.sets.iter().any(|s| s.label == label);
                if taken(&set.label) {
                    let number = sets.sets.len() + 1;
                    let more = [file.to_owned(), format!("{file} ({number})")];
                    set.label = more.into_iter().find(|l| !taken(l)).unwrap_or(set.label);
                }
                sets.sets.push(set);
            }
            _ => {
                self.compared = Some(self.items.len());
                let sets = vec![set];
                self.sets(file, SetsOfRuns { plain: true, sets, ..SetsOfRuns::default() });
            }
        }
    }

    /// Adds labelled sets, as a store has them.
    pub fn sets(&mut self, source: &str, sets: SetsOfRuns) {
        self.items.push(Item { source: source.to_owned(), what: What::Sets(sets) });
    }

    /// Adds a search, as its log has it.
    pub fn search(&mut self, source: &str, document: SearchDocument) {
        self.items.push(Item { source: source.to_owned(), what: What::Search(Box::new(document)) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_files_of_one_name_are_told_apart() {
        let mut input = Input::default();
        for file in ["old/tcp.stat", "new/tcp.stat", "new/tcp.stat"] {
            input.read(file, b"1\n2\n3\n");
        }
        let [Item { what: What::Sets(sets), .. }] = &input.items[..] else { panic!("{input:?}") };
        let labels: Vec<&str> = sets.sets.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["tcp", "new/tcp.stat", "new/tcp.stat (3)"]);
    }
}
