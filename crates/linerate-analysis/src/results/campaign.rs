//! What a campaign reported, from its store or from the lines that it printed, as labelled sets of runs.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::campaign::{Event, RunState, StoredRun};
use linerate_model::record::RunRecord;
use serde_json::Value;

use super::{SetOfRuns, SetRun, SetsOfRuns};
use crate::input;

/// Everything that is known of a campaign.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CampaignNotes {
    /// Of the plan.
    pub name: String,
    /// Names of the settings, as the plan has them; empty when that is not known.
    pub settings: Vec<String>,
    /// The setting that the others are compared with, if it is known.
    pub baseline: Option<String>,
    /// What happened.
    pub events: Vec<Event>,
    /// Runs of every state.
    pub runs: Vec<StoredRun>,
}

impl CampaignNotes {
    /// The runs that count, by setting: the baseline first, the others as the plan has them.
    pub fn sets(self) -> SetsOfRuns {
        let mut runs: Vec<&StoredRun> =
            self.runs.iter().filter(|r| r.state == RunState::Counted && !r.warmup).collect();
        runs.sort_by_key(|run| run.slot);
        let within_a_boot = within_a_boot(runs.iter().copied());
        let mut names: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        // A run of a setting that the plan does not name is a run all the same.
        names.extend(runs.iter().map(|r| r.setting.as_str()));
        let known = self.baseline.as_deref();
        names.sort_by_key(|name| Some(*name) != known);
        let mut sets: Vec<SetOfRuns> = Vec::new();
        for name in names {
            if sets.iter().any(|s| s.label == name) {
                continue;
            }
            let own: Vec<&StoredRun> = runs.iter().copied().filter(|r| r.setting == name).collect();
            let Some(first) = own.first() else { continue };
            sets.push(SetOfRuns {
                label: name.to_owned(),
                metric: first.metric.clone(),
                unit: first.unit.clone(),
                runs: own.iter().map(|run| self::run(run, &runs, within_a_boot)).collect(),
            });
        }
        let doubts: BTreeSet<(&str, &str)> = runs
            .iter()
            .flat_map(|run| run.doubts.iter().map(|doubt| (run.setting.as_str(), doubt.as_str())))
            .collect();
        let mut notes: Vec<String> = self.events.into_iter().filter_map(note).collect();
        // What the driver made of a setting that the plan did not ask for, once for each.
        notes.extend(doubts.into_iter().map(|(setting, doubt)| format!("{setting}: {doubt}.")));
        notes.extend(mixed(runs.iter().copied()));
        if let (None, Some(first)) = (known, sets.first())
            && sets.len() > 1
        {
            notes.push(format!(
                "Which setting is the baseline is not said here; the first that ran, {}, is taken for it.",
                first.label
            ));
        }
        SetsOfRuns { name: self.name, paired: true, within_a_boot, sets, notes, plain: false }
    }
}

/// Whether runs are those of a campaign that reboots nothing, all of one boot as far as is known: then the runs
/// themselves are compared. With a second boot, what differs may be that of the boots.
pub fn within_a_boot<'a>(runs: impl Iterator<Item = &'a StoredRun> + Clone) -> bool {
    let boots: BTreeSet<&str> = runs.clone().filter_map(|run| run.boot_id.as_deref()).collect();
    runs.clone().next().is_some() && runs.into_iter().all(|run| run.boot == 0) && boots.len() <= 1
}

/// What is not the same in all runs of a setting, in sentences.
pub fn mixed<'a>(runs: impl Iterator<Item = &'a StoredRun>) -> BTreeSet<String> {
    let mut ends = BTreeMap::<&str, Vec<input::Ends>>::new();
    for run in runs {
        let record = run.record.as_deref().map(str::as_bytes);
        let of_run = record.and_then(|json| serde_json::from_slice::<input::Ends>(json).ok());
        ends.entry(&run.setting).or_default().extend(of_run);
    }
    let of_settings = ends.into_values().flat_map(|ends| input::mixed(ends.into_iter()));
    of_settings.map(|what| format!("Not all runs of a setting had {what}.")).collect()
}

fn run(run: &StoredRun, all: &[&StoredRun], within_a_boot: bool) -> SetRun {
    SetRun {
        boot: boot(run, all).filter(|_| !within_a_boot),
        run: u64::from(run.number),
        value: run.value,
        record: run
            .record
            .as_deref()
            .and_then(|text| RunRecord::from_json(text.as_bytes()).ok())
            .map(Box::new),
        doubts: doubts(run),
    }
}

/// Kinds of the doubts of its record, and in words what the plan's values became.
pub fn doubts(run: &StoredRun) -> Vec<String> {
    let record = run.record.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let kinds = record.iter().flat_map(input::doubts).map(str::to_owned);
    kinds.chain(run.doubts.iter().cloned()).collect()
}

/// The boot on which a run really ran, named by the boot of the design; where hosts rebooted unasked
/// within that, and in designs without reboots, by the beginning of the boot's id.
pub fn boot(run: &StoredRun, all: &[&StoredRun]) -> Option<String> {
    let short = |id: &String| {
        let hosts: Vec<String> = id.split('/').map(|h| h.chars().take(8).collect()).collect();
        hosts.join("/")
    };
    let another = |r: &&StoredRun| r.boot == run.boot && r.boot_id != run.boot_id;
    match (&run.boot_id, run.boot) {
        (None, 0) => None,
        (Some(id), 0) => Some(short(id)),
        (Some(id), boot) if all.iter().any(another) => Some(format!("{boot} ({})", short(id))),
        (_, boot) => Some(boot.to_string()),
    }
}

/// What the reader of a report should know of what happened.
fn note(event: Event) -> Option<String> {
    Some(match event {
        Event::Short { why, .. } => format!("A run of the design is missing: {why}."),
        Event::Gap { host, seconds, why } => {
            format!("{host} did not answer for {seconds:.0} s: {why}.")
        }
        Event::Restored { host, left } if !left.is_empty() => {
            format!("Not restored on {host}: {}.", left.join("; "))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{NoVerdict, Options, compare};
    use crate::runs::comparable;

    fn run(setting: &str, boot: u32, slot: u32, state: RunState, warmup: bool) -> StoredRun {
        StoredRun {
            settings: Vec::new(),
            doubts: Vec::new(),
            id: 1,
            slot,
            attempt: 1,
            state,
            boot,
            boot_id: Some(format!("{boot}-abcdef")),
            block: 0,
            setting: setting.into(),
            warmup,
            number: slot,
            started: "2026-01-02T03:04:05Z".into(),
            seconds: 1.0,
            value: Some(f64::from(slot)),
            metric: "received_bps".into(),
            unit: Some("bit/s".into()),
            record: None,
            error: None,
        }
    }

    fn reported(runs: Vec<StoredRun>, settings: &[&str], baseline: Option<&str>) -> SetsOfRuns {
        CampaignNotes {
            settings: settings.iter().map(|s| (*s).to_owned()).collect(),
            baseline: baseline.map(str::to_owned),
            runs,
            ..CampaignNotes::default()
        }
        .sets()
    }

    #[test]
    fn only_runs_that_count_and_the_baseline_first() {
        let runs = vec![
            run("a", 1, 1, RunState::Counted, false),
            run("base", 2, 9, RunState::Counted, false),
            run("base", 1, 3, RunState::Failed, false),
            run("base", 1, 4, RunState::Counted, true),
            run("base", 1, 5, RunState::Counted, false),
        ];
        let sets = reported(runs, &["a", "unrun", "base"], Some("base"));
        let shape: Vec<_> = sets.sets.iter().map(|s| (s.label.as_str(), s.runs.len())).collect();
        assert_eq!(shape, [("base", 2), ("a", 1)]);
        assert_eq!(sets.sets[0].unit.as_deref(), Some("bit/s"));
        let boots: Vec<_> = sets.sets[0].runs.iter().map(|r| r.boot.as_deref()).collect();
        assert_eq!(boots, [Some("1"), Some("2")]);
        assert_eq!(sets.notes, [""; 0]);
    }

    /// Without `baseline` the plan's first setting is the one, whatever it is called and whichever
    /// ran first.
    #[test]
    fn settings_stand_as_they_were_written() {
        let names = ["zero", "b", "a"];
        let runs = || {
            ["a", "b", "zero"].iter().zip(1..).map(|(s, i)| run(s, 1, i, RunState::Counted, false))
        };
        let labels =
            |sets: SetsOfRuns| -> Vec<String> { sets.sets.into_iter().map(|s| s.label).collect() };
        assert_eq!(labels(reported(runs().collect(), &names, Some("zero"))), names);
        let sets = reported(runs().collect(), &[], None);
        assert!(sets.notes[0].contains("the first that ran, a,"), "{:?}", sets.notes);
        assert_eq!(labels(sets), ["a", "b", "zero"]);
    }

    #[test]
    fn runs_of_a_campaign_that_reboots_nothing_are_of_no_boot() {
        let runs = |boots: [&str; 4]| {
            let one = |(slot, id): (u32, &str)| StoredRun {
                boot_id: Some(id.into()),
                ..run("a", 0, slot, RunState::Counted, false)
            };
            (1..).zip(boots).map(one).collect::<Vec<_>>()
        };
        let sets = reported(runs(["x"; 4]), &["a"], Some("a"));
        assert!(sets.within_a_boot && sets.sets[0].runs.iter().all(|r| r.boot.is_none()));
        // Somebody rebooted it.
        for boots in [["x", "x", "y", "y"], ["x", "y", "z", "z"]] {
            let sets = reported(runs(boots), &["a"], Some("a"));
            let known = sets.sets[0].runs.iter().all(|r| r.boot.is_some());
            assert!(!sets.within_a_boot && known, "{boots:?}");
        }
        let planned = run("a", 1, 1, RunState::Counted, false);
        assert!(!within_a_boot([&planned].into_iter()));
    }

    /// A power cut between two settings: what differs may be the boots.
    #[test]
    fn settings_that_ran_on_a_boot_each_have_no_verdict() {
        let one = |(slot, (setting, boot)): (u32, (&str, &str))| StoredRun {
            boot_id: Some(boot.into()),
            ..run(setting, 0, slot, RunState::Counted, false)
        };
        let all = [("a", "x"); 3].into_iter().chain([("b", "y"); 3]);
        let given = reported((1..).zip(all).map(one).collect(), &["a", "b"], Some("a"));
        let (sets, short) = comparable(given.paired, &given.by_unit()[0]);
        assert_eq!((sets.len(), short.len()), (2, 0));
        let compared = compare(&sets, &Options::default()).unwrap().comparisons.remove(0);
        assert_eq!((compared.verdict, compared.no_verdict), (None, Some(NoVerdict::FewBoots)));
    }

    #[test]
    fn a_rounded_value_is_a_note_once_for_each_setting() {
        let mut runs: Vec<StoredRun> =
            (1..4).map(|i| run("a", 1, i, RunState::Counted, false)).collect();
        for run in &mut runs {
            run.doubts = vec!["dut: ring.rx was asked to be 500, the driver made it 512".into()];
        }
        let notes = reported(runs, &["a"], Some("a")).notes;
        assert_eq!(notes, ["a: dut: ring.rx was asked to be 500, the driver made it 512."]);
    }

    /// Also of a record that is not whole, as of a version that knew less.
    #[test]
    fn doubts_are_counted_as_compare_counts_them() {
        let mut runs: Vec<StoredRun> =
            (1..5).map(|i| run("a", 1, i, RunState::Counted, false)).collect();
        for run in &mut runs[1..] {
            run.record = Some(r#"{"doubts":[{"kind":"host-busy","text":"t"}]}"#.into());
        }
        runs[0].doubts = vec!["dut: ring.rx became 512".into()];
        let given = reported(runs, &["a"], Some("a"));
        let (sets, _) = comparable(given.paired, &given.by_unit()[0]);
        let rounded = "1 of 4 runs has a doubt: dut: ring.rx became 512";
        assert_eq!(sets[0].notes, [rounded, "3 of 4 runs have a doubt: host-busy"]);
    }

    /// As of a campaign that goes on with another version, or on another kernel after a reboot.
    #[test]
    fn runs_of_two_versions_are_told() {
        let mut runs: Vec<StoredRun> = (1..5)
            .map(|i| run(if i < 3 { "a" } else { "b" }, 1, i, RunState::Counted, false))
            .collect();
        let made = |runs: &mut [StoredRun], versions: [&str; 4]| {
            for (run, version) in runs.iter_mut().zip(versions) {
                let client = serde_json::json!({ "linerate": version, "kernel": "6.1" });
                run.record = Some(serde_json::json!({ "client": client }).to_string());
            }
        };
        // A setting may have its own.
        made(&mut runs, ["0.1.0", "0.1.0", "0.2.0", "0.2.0"]);
        assert_eq!(reported(runs.clone(), &["a", "b"], Some("a")).notes, [""; 0]);
        made(&mut runs, ["0.1.0", "0.2.0", "0.1.0", "0.2.0"]);
        let told = "Not all runs of a setting had the same version of linerate at the client";
        assert_eq!(
            reported(runs, &["a", "b"], Some("a")).notes,
            [format!("{told}: 0.1.0, 0.2.0.")]
        );
    }

    #[test]
    fn an_unasked_reboot_is_another_boot() {
        let mut runs = vec![
            run("a", 1, 1, RunState::Counted, false),
            run("a", 1, 2, RunState::Counted, false),
            run("a", 0, 3, RunState::Counted, false),
        ];
        runs[1].boot_id = Some("0123456789/abcdefghij".into());
        let sets = reported(runs, &["a"], Some("a"));
        let boots: Vec<_> = sets.sets[0].runs.iter().map(|r| r.boot.as_deref().unwrap()).collect();
        assert_eq!(boots, ["1 (1-abcdef)", "1 (01234567/abcdefgh)", "0-abcdef"]);
    }
}
