//! A campaign's store as labelled sets of runs.

use std::path::Path;

use linerate_model::campaign::{Event, RunState, StoredRun};
use linerate_model::record::RunRecord;
use linerate_report::report::input::{Damage, Input, SetOfRuns, SetRun, SetsOfRuns};
use linerate_store::Reader;

/// How every SQLite file begins.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

/// Adds the campaign of a store. Rows that are not as they were written are damage like any other.
pub fn read(input: &mut Input, name: &str, path: &Path) {
    let damage = |what: String| Damage { file: name.to_owned(), line: None, what, hint: None };
    let reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => return input.damaged.push(damage(error.to_string())),
    };
    let (runs, broken) = reader.readable_runs();
    input.damaged.extend(broken.iter().map(|d| damage(d.to_string())));
    let (meta, events) = match reader.meta().and_then(|meta| Ok((meta, reader.events()?))) {
        Ok(both) => both,
        Err(error) => return input.damaged.push(damage(error.to_string())),
    };
    // The plan was checked when the campaign began; here only its baseline is of interest.
    let baseline = toml::from_str::<toml::Table>(&meta.plan)
        .ok()
        .and_then(|plan| plan.get("baseline")?.as_str().map(str::to_owned));
    let mut sets = self::sets(&runs, baseline.as_deref());
    sets.name = meta.name;
    sets.notes = events.into_iter().filter_map(|(_, event)| note(event)).collect();
    input.sets(name, sets);
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

/// The runs that count, by setting; the baseline first, the others by name.
fn sets(runs: &[StoredRun], baseline: Option<&str>) -> SetsOfRuns {
    let counted: Vec<&StoredRun> =
        runs.iter().filter(|r| r.state == RunState::Counted && !r.warmup).collect();
    let mut names: Vec<&str> = counted.iter().map(|r| r.setting.as_str()).collect();
    names.sort_by_key(|name| (Some(*name) != baseline, *name));
    names.dedup();
    let first = counted.first();
    let booted = counted.iter().any(|r| r.boot > 0);
    let of_setting = |name: &&str| SetOfRuns {
        label: (*name).to_owned(),
        runs: counted
            .iter()
            .filter(|r| r.setting == *name)
            .map(|run| SetRun {
                boot: booted.then(|| boot(run, &counted)),
                run: u64::from(run.number),
                value: run.value,
                record: run
                    .record
                    .as_deref()
                    .and_then(|text| serde_json::from_str::<RunRecord>(text).ok())
                    .map(Box::new),
            })
            .collect(),
    };
    SetsOfRuns {
        name: String::new(),
        metric: first.map_or(String::new(), |r| r.metric.clone()),
        unit: first.and_then(|r| r.unit.clone()),
        paired: booted,
        sets: names.iter().map(of_setting).collect(),
        notes: Vec::new(),
    }
}

/// The boot of the design; where hosts rebooted unasked within it, the boot that the run really ran
/// on is told apart.
fn boot(run: &StoredRun, all: &[&StoredRun]) -> String {
    let another = |r: &&&StoredRun| r.boot == run.boot && r.boot_id != run.boot_id;
    match &run.boot_id {
        Some(id) if all.iter().any(|r| another(&r)) => {
            format!("{} ({})", run.boot, id.chars().take(8).collect::<String>())
        }
        _ => run.boot.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(setting: &str, boot: u32, number: u32, state: RunState, warmup: bool) -> StoredRun {
        StoredRun {
            settings: Vec::new(),
            id: 1,
            slot: 0,
            attempt: 1,
            state,
            boot,
            boot_id: Some(format!("{boot}-abcdef")),
            block: 0,
            setting: setting.into(),
            warmup,
            number,
            started: "2026-01-02T03:04:05Z".into(),
            seconds: 1.0,
            value: Some(f64::from(number)),
            metric: "received_bps".into(),
            unit: Some("bit/s".into()),
            record: None,
            error: None,
        }
    }

    #[test]
    fn only_runs_that_count_and_the_baseline_first() {
        let runs = [
            run("a", 1, 1, RunState::Counted, false),
            run("base", 1, 1, RunState::Counted, false),
            run("base", 1, 2, RunState::Failed, false),
            run("base", 1, 1, RunState::Counted, true),
            run("base", 2, 1, RunState::Counted, false),
        ];
        let sets = sets(&runs, Some("base"));
        let shape: Vec<_> = sets.sets.iter().map(|s| (s.label.as_str(), s.runs.len())).collect();
        assert_eq!(shape, [("base", 2), ("a", 1)]);
        assert!(sets.paired && sets.unit.as_deref() == Some("bit/s"));
        let boots: Vec<_> = sets.sets[0].runs.iter().map(|r| r.boot.as_deref()).collect();
        assert_eq!(boots, [Some("1"), Some("2")]);
    }

    #[test]
    fn an_unasked_reboot_is_another_boot() {
        let mut runs =
            [run("a", 1, 1, RunState::Counted, false), run("a", 1, 2, RunState::Counted, false)];
        runs[1].boot_id = Some("other-id".into());
        let sets = sets(&runs, None);
        assert_ne!(sets.sets[0].runs[0].boot, sets.sets[0].runs[1].boot);
    }
}
