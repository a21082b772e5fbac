//! Whole experiments in a made-up world: driven to their end, told to stop at every step and gone on
//! with, and with tests that fail.

mod campaigns;
mod world;

use std::collections::BTreeMap;
use std::path::Path;

use linerate_ask::Measure;
use linerate_ask::search::SearchArgs;
use linerate_ask::sweep::SweepArgs;
use linerate_drive::campaign::{self, Ended, Read};
use linerate_drive::search::Search;
use linerate_drive::sweep::{Course, Swept};
use linerate_drive::tune;
use linerate_model::clean::shell_word;
use linerate_model::record::{DoubtKind, ErrorRecord, Status};
use linerate_model::search::SearchDocument;
use linerate_model::tune::{Purpose, Reason, TuneDocument, TuneTrial};
use linerate_store::Reader;
use world::{Fate, Folder, World, error};

/// Of the steps of an experiment one in so many is that at which it is stopped; at length, each.
fn stride() -> usize {
    if std::env::var_os("LINERATE_LONG").is_some_and(|v| v == "1") { 1 } else { 3 }
}

fn words(line: &str) -> Vec<String> {
    format!("linerate {line}").split_whitespace().map(str::to_owned).collect()
}

fn sweep_args(words: &[String]) -> Box<SweepArgs> {
    let Ok(Measure::Sweep(args)) = Measure::from_words(words) else { panic!("{words:?}") };
    args
}

fn sweep(world: &World, line: &str) -> Result<Swept, ErrorRecord> {
    let words = words(line);
    let args = sweep_args(&words);
    world.run(|env| Course::new(&args, words.clone())?.run(env))
}

fn search(world: &World, line: &str) -> SearchDocument {
    let words = words(line);
    let Ok(Measure::Search(args)) = Measure::from_words(&words) else { panic!("{words:?}") };
    let args: Box<SearchArgs> = args;
    world.run(|env| Search::new(&args, words.clone(), env.clock).unwrap().run(env))
}

fn tune(world: &World, line: &str) -> Result<TuneDocument, ErrorRecord> {
    let words = words(line);
    let Ok(Measure::Tune(args)) = Measure::from_words(&words) else { panic!("{words:?}") };
    let mut nobody = || Err(error("permission", 1));
    world.run(|env| tune::Course::new(&args, words.clone())?.run(env, &mut nobody))
}

const TUNE: &str =
    "tune tcp hydra2 --factor streams=2,4 --factor window=1Mi --seed 1 -R --width 1%";

#[test]
fn a_tuning_of_a_path_that_nothing_helps_leaves_the_default() {
    let world = World::default();
    let document = tune(&world, TUNE).unwrap();
    assert_eq!((document.status, document.reason), (Status::Complete, Reason::Settled));
    assert!(!document.recommended && document.factors.iter().all(|f| f.best == 0));
    assert!(document.because[0].starts_with("the default stays"), "{:?}", document.because);
    // The first look as well.
    assert_eq!(world.tests() as usize, document.trials.len() + 1);
    assert_eq!(document.best_command, words("tcp hydra2 --reverse"));
}

#[test]
fn a_tuning_keeps_what_is_known_wherever_it_is_stopped() {
    let whole = World::default();
    let trials = tune(&whole, TUNE).unwrap().trials.len();
    for step in 1..=whole.steps() {
        match tune(&World::stopped_at(Some(step)), TUNE) {
            Err(error) => assert_eq!((error.kind.name(), step), ("interrupted", 1)),
            Ok(document) => {
                let error = document.error.as_ref().map(|error| error.kind.name());
                let expected = (Status::Partial, Some("interrupted"));
                assert_eq!((document.status, error), expected, "step {step}");
                assert!(document.trials.len() < trials && !document.recommended, "step {step}");
            }
        }
    }
    let refused = tune(&World::failing(4, error("refused", 3)), TUNE).unwrap();
    assert_eq!((refused.status, refused.trials.len()), (Status::Partial, 2));
    // What one setting alone cannot do is left out.
    let odd = tune(&World::failing(9, error("test", 1)), TUNE).unwrap();
    assert_eq!(odd.status, Status::Complete);
    assert_eq!(odd.trials.iter().filter(|trial| trial.failed.is_some()).count(), 1);
}

/// Of each trial what it was of and what came of it.
fn course(document: &TuneDocument) -> Vec<(Purpose, BTreeMap<String, u64>, Option<f64>)> {
    let trials = document.trials.iter();
    trials.map(|trial| (trial.purpose, trial.levels.clone(), trial.value)).collect()
}

#[test]
fn a_tuning_that_is_stopped_anywhere_goes_on_to_the_same_end() {
    let whole = World::default();
    let expected = tune(&whole, TUNE).unwrap();
    let mut went_on = 0;
    for step in (1..=whole.steps()).step_by(stride()) {
        let folder = Folder::new("tune-resume");
        let file = folder.file("tune.json");
        let Ok(cut) =
            tune(&World::stopped_at(Some(step)), &format!("{TUNE} --save {}", file.display()))
        else {
            assert!(!file.exists(), "step {step}: nothing was measured");
            continue;
        };
        let hint = format!("linerate tune --resume {}", file.display());
        assert_eq!(cut.error.unwrap().hints.last(), Some(&hint), "step {step}");
        let world = World::default();
        let document = tune(&world, &format!("tune --resume {}", file.display())).unwrap();
        let ended = (document.status, document.reason, document.recommended);
        assert_eq!(ended, (Status::Complete, Reason::Settled, false), "step {step}");
        assert_eq!((&document.id, course(&document)), (&cut.id, course(&expected)), "step {step}");
        assert_eq!(document.because, expected.because, "step {step}");
        // What was measured before was not measured anew: no more than the block that was cut, and the look.
        let anew = world.tests() as usize + cut.trials.len() - expected.trials.len();
        assert!(anew <= 6 + 1, "step {step}: {anew}");
        let kept: TuneDocument =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(kept, document, "step {step}");
        went_on += 1;
    }
    assert!(went_on > expected.trials.len() / stride() / 2, "{went_on}");
    assert!(stride() > 1 || went_on == expected.trials.len(), "{went_on}");
}

const TUNE_UDP: &str = "tune udp hydra2 --rate 400M -l 1000 --factor size=1400 --seed 1";

#[test]
fn a_tuning_has_the_same_answer_where_its_link_was_lost_meanwhile() {
    let calm = World::default();
    let expected = tune(&calm, TUNE_UDP).unwrap();
    assert!(expected.recommended && expected.pairs > 0, "{expected:?}");
    let mut confirming = 0;
    // The first test is the look.
    for test in 2..=calm.tests() {
        let doubt = Some((test, DoubtKind::LinkLost));
        let world = World::default().fated(Fate { doubt, doubt_stays: 1, ..Fate::default() });
        let document = tune(&world, TUNE_UDP).unwrap();
        let void: Vec<&TuneTrial> = document.trials.iter().filter(|trial| trial.void).collect();
        assert_eq!((void.len(), void[0].failed.as_deref()), (1, Some("made up: link-lost")));
        confirming += u32::from(void[0].purpose == Purpose::Confirm);
        let answer = |document: &TuneDocument| {
            let of = (document.recommended, document.pairs, document.best_command.clone());
            (of, document.gain_percent, document.because[..2].to_vec(), document.factors.clone())
        };
        assert_eq!(answer(&document), answer(&expected), "test {test}");
        let said = format!("1 of {} trials went unmeasured", document.trials.len());
        assert!(document.because[2].starts_with(&said), "{:?}", document.because);
        assert_eq!((document.because.len(), expected.because.len()), (3, 2));
    }
    assert!(confirming > 8, "{confirming}");
}

#[test]
fn a_tuning_whose_link_stays_lost_ends_with_the_reason_and_goes_on_later() {
    let calm = World::default();
    let expected = tune(&calm, TUNE_UDP).unwrap();
    for test in (2..=calm.tests()).step_by(stride()) {
        let folder = Folder::new("tune-void");
        let file = folder.file("tune.json");
        let doubt = Some((test, DoubtKind::LinkLost));
        let world = World::default().fated(Fate { doubt, for_ever: true, ..Fate::default() });
        let line = format!("{TUNE_UDP} --save {}", file.display());
        let cut = tune(&world, &line).unwrap();
        let error = cut.error.unwrap();
        let ended = (cut.status, cut.reason, error.kind.name());
        assert_eq!(ended, (Status::Partial, Reason::Stopped, "unable"), "test {test}");
        assert!(error.why.ends_with("setting's doing: made up: link-lost"), "{error:?}");
        assert!(error.hints[0].starts_with("the cable"), "{error:?}");
        assert!(error.hints[1].starts_with("linerate tune --resume"), "{error:?}");
        assert!(!cut.recommended && cut.factors[0].levels[1].left_out.is_none(), "test {test}");
        // Each was made twice.
        let void = cut.trials.iter().filter(|trial| trial.void).count() as u32;
        assert_eq!((void, world.tests()), (5, test - 1 + 2 * 5), "test {test}");
        let line = format!("tune --resume {}", file.display());
        let document = tune(&World::default(), &line).unwrap();
        assert_eq!(course(&document), course(&expected), "test {test}");
        assert_eq!(document.status, Status::Complete, "test {test}");
        assert_eq!(document.because, expected.because, "test {test}");
    }
    // A search of each is given up after three tests of its first load.
    let doubt = Some((2, DoubtKind::Stopped));
    let world = World::default().fated(Fate { doubt, for_ever: true, ..Fate::default() });
    let line = format!("{TUNE_UDP} --objective rate,loss=1%");
    let error = tune(&world, &line).unwrap().error.unwrap();
    assert!(error.why.contains("made up: stopped"), "{error:?}");
    assert_eq!((error.hints[0].as_str(), world.tests()), ("repeat the test", 1 + 3 * 5));
}

#[test]
fn what_is_no_tuning_that_can_go_on_is_refused() {
    let folder = Folder::new("tune-refused");
    let file = folder.file("tune.json");
    let cut = tune(&World::stopped_at(Some(20)), &format!("{TUNE} --save {}", file.display()));
    let cut = cut.unwrap();
    let resumed = |text: String| {
        std::fs::write(&file, text).unwrap();
        let world = World::default();
        let error = tune(&world, &format!("tune --resume {}", file.display())).unwrap_err();
        assert_eq!(error.kind.name(), "resume", "{error:?}");
        (error.why, world.tests())
    };
    let changed = |change: fn(&mut TuneDocument)| {
        let mut other = cut.clone();
        change(&mut other);
        resumed(serde_json::to_string(&other).unwrap())
    };
    for (why, says) in [
        (resumed("{".into()), "it is no tune"),
        (changed(|d| d.kind = "sweep".into()), "a \"sweep\" of format 1"),
        (changed(|d| d.status = Status::Complete), "it came to its end"),
        (changed(|d| d.command = vec!["linerate".into(), "tune".into()]), "cannot be repeated"),
        (changed(|d| d.command = words("sweep hydra2")), "it is no tuning"),
    ] {
        assert!(why.0.contains(says) && why.1 == 0, "{says}: {why:?}");
    }
    // What only the hosts can tell takes a first look at them.
    for (why, says) in [
        (changed(|d| d.trials[9].purpose = Purpose::Confirm), "trial 10 of "),
        (changed(|d| d.trials[9].levels = BTreeMap::from([("no".into(), 1)])), "trial 10 of "),
        (changed(|d| d.factors[0].levels[1].name = "9".into()), "it was begun with streams (1, 9,"),
        (changed(|d| d.seed += 1), " is not one that its plan leads to"),
    ] {
        assert!(why.0.contains(says) && why.1 == 1, "{says}: {why:?}");
    }
    let error = tune(&World::default(), "tune --resume /nowhere/tune.json").unwrap_err();
    assert_eq!(error.kind.name(), "resume");
}

#[test]
fn a_tuning_that_cannot_be_kept_says_so_with_its_result() {
    let folder = Folder::new("tune-unkept");
    let dir = folder.file("results");
    std::fs::create_dir_all(&dir).unwrap();
    let words = words(&format!("{TUNE} --save {}", dir.join("tune.json").display()));
    let Ok(Measure::Tune(args)) = Measure::from_words(&words) else { panic!("{words:?}") };
    let mut nobody = || Err(error("permission", 1));
    let document = World::default().run(|env| {
        let course = tune::Course::new(&args, words.clone()).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        course.run(env, &mut nobody).unwrap()
    });
    assert_eq!((document.status, document.reason), (Status::Complete, Reason::Settled));
    assert_eq!(document.error.unwrap().kind.name(), "output");
    assert!(!document.trials.is_empty());
}

#[test]
fn a_tuning_by_loss_has_only_figures_that_settled() {
    let line =
        "tune udp hydra2 --rate 400M -l 1000 --objective rate,loss=1% --factor streams=2 --seed 1";
    let document = tune(&World::default(), line).unwrap();
    // Four times as much as the path carries is offered at most.
    let values: Vec<f64> = document.trials.iter().filter_map(|trial| trial.value).collect();
    assert!(values.iter().all(|value| (95e6..=102e6).contains(value)), "{values:?}");
    assert!(!values.is_empty());
    // In datagrams of 64 bytes that rate is below what a search begins at.
    let line =
        "tune udp hydra2 --rate 1500pps -l 1000 --objective rate,loss=1% --factor size=64 --seed 1";
    let document = tune(&World::default(), line).unwrap();
    let of_it = |t: &&TuneTrial| t.levels.contains_key("size");
    assert!(document.trials.iter().filter(of_it).all(|t| t.value.is_none() && t.runs.is_empty()));
    let why = document.factors[0].levels[1].left_out.as_ref().unwrap();
    assert!(why.contains("searches begin at"), "{why}");
}

#[test]
fn fewer_streams_than_were_asked_for_are_tried() {
    let document =
        tune(&World::default(), "tune tcp hydra2 -P 8 --factor streams --seed 1 -R").unwrap();
    let levels: Vec<&str> = document.factors[0].levels.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(levels[..3], ["8", "1", "2"], "{levels:?}");
}

#[test]
fn what_a_tuning_by_loss_recommends_is_a_rate_that_keeps_to_it() {
    let line = "tune udp hydra2 --rate 400M -l 1000 --objective rate,loss=1% --factor size=1400 --seed 1 --max-time 1h";
    let document = tune(&World::default(), line).unwrap();
    assert!(document.recommended, "{document:?}");
    let command = document.best_command.join(" ");
    let (_, rate) = command.split_once("--rate ").unwrap();
    let rate: u64 = rate.strip_suffix('k').unwrap().parse().unwrap();
    assert!((190_000..=204_000).contains(&rate), "{command}");
    assert_eq!(command.matches("--rate").count(), 1, "{command}");
}

const SWEEP: &str = "sweep hydra2 --rates 10M..max --zoom --seed 1 -t 1s -l 1000 --repeat 2";

#[test]
fn a_sweep_finds_the_knee_and_its_time_is_made_up() {
    let world = World::default();
    let swept = sweep(&world, SWEEP).unwrap();
    assert_eq!(
        (swept.document.status, &swept.unkept, &swept.place),
        (Status::Complete, &None, &None)
    );
    let knees = &swept.document.bends;
    assert!(!knees.is_empty(), "{:?}", swept.document.points);
    let trials = swept.document.trials.len();
    // The first look as well.
    assert_eq!(world.tests() as usize, trials + 1);
    assert!(world.now().as_secs() as usize > trials, "{:?}", world.now());
    let events = world.events();
    assert_eq!(events[0], "started");
    let count = |name: &str| events.iter().filter(|event| *event == name).count();
    assert_eq!((count("trial"), count("ended")), (trials, trials));
}

#[test]
fn a_sweep_that_is_stopped_anywhere_goes_on_to_the_same_end() {
    let whole = World::default();
    let expected = sweep(&whole, SWEEP).unwrap().document;
    let mut stopped = 0;
    for step in 1..=whole.steps() {
        let folder = Folder::new("sweep");
        let dir = folder.file("runs");
        let world = World::stopped_at(Some(step));
        let found = match sweep(&world, &format!("{SWEEP} --save {}", dir.display())) {
            Ok(swept) => swept,
            // Before anything was measured there is nothing to keep.
            Err(error) => {
                assert_eq!(error.kind.name(), "interrupted", "step {step}: {error:?}");
                stopped += 1;
                continue;
            }
        };
        let document = match &found.document.error {
            None => found.document,
            Some(error) => {
                assert_eq!(
                    (error.kind.name(), found.document.status),
                    ("interrupted", Status::Partial)
                );
                stopped += 1;
                sweep(&World::default(), &format!("sweep --resume {}", dir.display()))
                    .unwrap()
                    .document
            }
        };
        assert_eq!(document.status, Status::Complete, "step {step}");
        assert_eq!(document.bends, expected.bends, "step {step}");
        assert_eq!(document.points.len(), expected.points.len(), "step {step}");
        assert_eq!(document.trials.len(), expected.trials.len(), "step {step}");
    }
    assert!(stopped > whole.steps() / 2, "{stopped} of {}", whole.steps());
}

#[test]
fn a_sweep_ends_at_a_test_that_fails_and_waits_for_a_busy_server() {
    for test in 1..6 {
        let lost = World::failing(test, error("refused", 3));
        match sweep(&lost, SWEEP) {
            Err(error) => assert_eq!((error.kind.name(), lost.tests()), ("refused", test)),
            Ok(swept) => {
                let error = swept.document.error.unwrap();
                assert_eq!(
                    (error.kind.name(), swept.document.status),
                    ("refused", Status::Partial)
                );
                assert_eq!(swept.document.trials.len() as u32, test - 2);
            }
        }
        let busy = World::failing(test, error("busy", 3));
        assert_eq!(sweep(&busy, SWEEP).unwrap().document.status, Status::Complete);
        // What contradicts itself is tried again.
        let invalid = World::failing(test, error("invalid", 4));
        assert_eq!(sweep(&invalid, SWEEP).unwrap().document.status, Status::Complete);
    }
}

#[test]
fn a_sweep_that_cannot_be_kept_says_so_and_goes_on() {
    let folder = Folder::new("unkept");
    let dir = folder.file("runs");
    let (world, words) = (World::default(), words(&format!("{SWEEP} --save {}", dir.display())));
    let swept = world.run(|env| {
        let course = Course::new(&sweep_args(&words), words.clone()).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        course.run(env).unwrap()
    });
    assert_eq!(swept.document.status, Status::Complete);
    assert_eq!(swept.unkept.unwrap().kind.name(), "output");
    assert_eq!(world.events().iter().filter(|event| *event == "unkept").count(), 1);
}

#[test]
fn a_sweep_goes_on_in_its_directory_and_in_one_process() {
    let folder = Folder::new("moved");
    let (old, new) = (folder.file("old"), folder.file("new"));
    let begun = words(&format!("{SWEEP} --save {}", old.display()));
    let course = Course::new(&sweep_args(&begun), begun.clone()).unwrap();
    let twice = Course::new(&sweep_args(&begun), begun.clone()).err().unwrap();
    assert!(twice.why.contains("another process"), "{twice:?}");
    let swept = World::failing(4, error("refused", 3)).run(|env| course.run(env)).unwrap();
    assert_eq!(swept.document.status, Status::Partial);
    std::fs::rename(&old, &new).unwrap();
    let swept = sweep(&World::default(), &format!("sweep --resume {}", new.display())).unwrap();
    assert_eq!((swept.document.status, swept.unkept), (Status::Complete, None));
    assert_eq!(swept.place.as_deref(), new.to_str());
    assert!(!old.exists());
}

#[test]
fn a_log_has_one_search_at_a_time() {
    let folder = Folder::new("one");
    let log = folder.file("log.jsonl");
    let search = |line: &str| {
        let words = words(line);
        let Ok(Measure::Search(args)) = Measure::from_words(&words) else { panic!("{words:?}") };
        World::default().run(|env| Search::new(&args, words.clone(), env.clock))
    };
    let first = search(&format!("{SEARCH} --log {}", log.display())).unwrap();
    let resume = format!("search --resume {}", log.display());
    let before = std::fs::read(&log).unwrap();
    let second = search(&resume).err().unwrap();
    assert!(second.why.contains("another process"), "{second:?}");
    assert_eq!(std::fs::read(&log).unwrap(), before);
    drop(first);
    assert!(search(&resume).is_ok());
}

/// Each command that goes on quotes a path that a shell would read otherwise.
#[test]
fn what_goes_on_can_be_pasted_into_a_shell() {
    let folder = Folder::new("it's");
    let [dir, log, file] = ["runs", "log.jsonl", "tune.json"].map(|name| folder.file(name));
    let word = |path: &Path| shell_word(path.to_str().unwrap());
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("sweep.json"), "another").unwrap();
    let kept = sweep(&World::default(), &format!("{SWEEP} --save {}", dir.display()));
    let hints = kept.err().unwrap().hints;
    assert_eq!(hints[0], format!("go on with it: linerate sweep --resume {}", word(&dir)));
    std::fs::write(&log, "another").unwrap();
    let words = words(&format!("{SEARCH} --log {}", log.display()));
    let Ok(Measure::Search(args)) = Measure::from_words(&words) else { panic!("{words:?}") };
    let logged = World::default().run(|env| Search::new(&args, words.clone(), env.clock));
    let hints = logged.err().unwrap().hints;
    assert_eq!(hints[0], format!("go on with it: linerate search --resume {}", word(&log)));
    let cut = tune(&World::stopped_at(Some(5)), &format!("{TUNE} --save {}", file.display()));
    let hints = cut.unwrap().error.unwrap().hints;
    assert_eq!(hints.last().unwrap(), &format!("linerate tune --resume {}", word(&file)));
    assert!(hints.last().unwrap().contains(r"-it'\''s/"), "{hints:?}");
}

const SEARCH: &str = "search hydra2 --goal loss=0 --preset quick --max 1G -l 1000";

#[test]
fn a_search_finds_what_the_path_carries() {
    let world = World::default();
    let document = search(&world, SEARCH);
    assert_eq!((document.status, &document.error), (Status::Complete, &None));
    assert_eq!(document.goals.len(), 2);
    for goal in &document.goals {
        let (lower, upper) = (goal.lower_bps.unwrap(), goal.upper_bps.unwrap());
        assert!(lower <= 101e6 && upper >= 99e6 && upper / lower < 1.02, "{lower}..{upper}");
    }
    assert_eq!(world.tests() as usize, document.trials.len());
}

#[test]
fn a_search_that_is_stopped_anywhere_goes_on_to_the_same_end() {
    let whole = World::default();
    let expected = search(&whole, SEARCH);
    for step in 1..=whole.steps() {
        let folder = Folder::new("search");
        let log = folder.file("log.jsonl");
        let world = World::stopped_at(Some(step));
        let document = search(&world, &format!("{SEARCH} --log {}", log.display()));
        let document = match &document.error {
            None => document,
            Some(error) => {
                assert_eq!(error.kind.name(), "interrupted", "step {step}");
                let status =
                    if document.trials.is_empty() { Status::Failed } else { Status::Partial };
                assert_eq!(document.status, status, "step {step}");
                search(&World::default(), &format!("search --resume {}", log.display()))
            }
        };
        assert_eq!(document.status, Status::Complete, "step {step}");
        assert_eq!(document.goals, expected.goals, "step {step}");
        let replayed = search(&World::default(), &format!("search --replay {}", log.display()));
        assert_eq!(replayed.goals, expected.goals, "step {step}");
    }
}

#[test]
fn a_search_whose_server_is_lost_keeps_what_it_knows() {
    for test in 1..6 {
        let document = search(&World::failing(test, error("lost", 1)), SEARCH);
        assert_eq!(document.error.unwrap().kind.name(), "lost");
        assert_eq!(document.trials.len() as u32, test - 1);
    }
}

const PLAN: &str = r#"
name = "made-up"
[repeat]
boots = 2
warmup = 1
runs = 2
retries = 2
wait = "1m"
pause = "1s"
[hosts.local]
address = "local"
[hosts.dut]
address = "dut"
reboot = "reboot"
[hosts.peer]
address = "peer"
[defaults]
test = "tcp"
time = "1s"
[settings.here]
from = "local"
to = "peer"
[settings.off]
from = "dut"
to = "peer"
set.dut.offload.tso = false
[settings.command]
from = "dut"
command = "measure"
metric = { regex = 'rate ([0-9.]+)' }
"#;

/// Two boots of three runs of three settings.
const SLOTS: u64 = 18;

fn begin(world: &World, folder: &Folder, plan: &str) -> Result<Ended, ErrorRecord> {
    let read = Read::new(plan.to_owned(), &folder.file("plan.toml")).unwrap();
    let store = folder.file("plan.db");
    world.run(|env| campaign::begin(&read, &store, &mut world.clone(), env))
}

/// Every slot has one run that counts, and nothing is lost or twice.
fn check(folder: &Folder, world: &World, filled: u64, about: &str) {
    let reader = Reader::open(&folder.file("plan.db")).unwrap();
    assert_eq!(reader.lost_and_doubled(), (0, 0), "{about}");
    let counted =
        |run: &&linerate_model::campaign::StoredRun| run.error.is_none() && run.value.is_some();
    let runs = reader.runs().unwrap();
    let mut slots: Vec<u32> = runs.iter().filter(counted).map(|run| run.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len() as u64, filled, "{about}");
    assert!(world.is_put_back(), "{about}");
}

#[test]
fn a_campaign_reboots_sets_runs_and_puts_back() {
    let (world, folder) = (World::default(), Folder::new("campaign"));
    assert_eq!(begin(&world, &folder, PLAN).unwrap(), Ended::Done);
    check(&folder, &world, SLOTS, "whole");
    let events = world.events();
    assert_eq!(events.iter().filter(|event| *event == "ran").count() as u64, SLOTS);
    assert_eq!(events.last().unwrap(), "over true");
    assert!(events.contains(&"restored dut []".to_owned()), "{events:?}");
    let status = campaign::status(&folder.file("plan.db")).unwrap();
    assert_eq!((status.done, status.total, status.boots_done), (SLOTS, SLOTS, 2));
}

#[test]
fn a_campaign_that_is_stopped_anywhere_loses_and_doubles_nothing() {
    let plan = PLAN.replace("boots = 2", "boots = 1").replace("runs = 2", "runs = 1");
    let steps = {
        let (world, folder) = (World::default(), Folder::new("steps"));
        begin(&world, &folder, &plan).unwrap();
        world.steps()
    };
    let mut stopped = 0;
    for step in (1..=steps).step_by(stride()) {
        let (world, folder) = (World::stopped_at(Some(step)), Folder::new("stopped"));
        let ended = begin(&world, &folder, &plan).unwrap_or_else(|e| panic!("step {step}: {e:?}"));
        assert!(world.is_put_back(), "step {step}");
        if ended == Ended::Interrupted {
            stopped += 1;
            let again = world.again();
            let store = folder.file("plan.db");
            let ended =
                again.run(|env| campaign::resume(None, &store, &mut again.clone(), env)).unwrap();
            assert_eq!(ended, Ended::Done, "step {step}");
        }
        check(&folder, &world, 6, &format!("step {step}"));
    }
    assert!(stopped > steps as usize / stride() / 2, "{stopped} of {steps}");
}

#[test]
fn a_run_that_fails_is_repeated_and_a_final_error_ends_the_campaign() {
    for test in [1, 2, 5] {
        let (world, folder) = (World::failing(test, error("refused", 3)), Folder::new("failed"));
        assert_eq!(begin(&world, &folder, PLAN).unwrap(), Ended::Done);
        check(&folder, &world, SLOTS, &format!("test {test}"));
        let (world, folder) = (World::failing(test, error("key", 3)), Folder::new("final"));
        assert_eq!(begin(&world, &folder, PLAN).unwrap_err().kind.name(), "key");
        assert!(world.is_put_back());
    }
}
