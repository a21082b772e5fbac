//! The store under damage, two writers, and readers beside a writer.

use std::fs;
use std::path::{Path, PathBuf};

use linerate_model::campaign::{Event, RunState, Slot, StoredRun};
use linerate_store::{Campaign, Meta, Reader, StoreError};
use proptest::test_runner::{RngAlgorithm, TestRng};

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder.join("c.db")
}

fn slots(n: u32) -> Vec<Slot> {
    let slot = |index| Slot {
        index,
        boot: 1,
        block: index,
        setting: format!("s{}", index % 2),
        warmup: index < 2,
        number: index / 2 + 1,
    };
    (0..n).map(slot).collect()
}

fn run(slot: u32, value: f64) -> StoredRun {
    StoredRun {
        id: 0,
        slot,
        attempt: 1,
        state: RunState::Counted,
        boot: 1,
        boot_id: Some("7f3e".into()),
        block: slot,
        setting: format!("s{}", slot % 2),
        warmup: slot < 2,
        number: 1,
        started: "2012-03-04T05:06:07Z".into(),
        seconds: 1.25,
        value: Some(value),
        metric: "received_bps".into(),
        unit: Some("bit/s".into()),
        record: Some(format!(
            "{{\"format\":1,\"value\":{value},\"padding\":\"{}\"}}",
            "x".repeat(300)
        )),
        settings: vec!["dut: offload.tso = off".into()],
        doubts: vec!["dut: ring.rx was asked to be 500, the driver made it 512".into()],
        error: None,
    }
}

fn began(slot: u32) -> Event {
    Event::RunBegan { slot, attempt: 1, extra: false }
}

fn ended(slot: u32) -> Event {
    Event::RunEnded { slot, attempt: 1, extra: false, state: RunState::Counted }
}

fn create(path: &Path, slots: &[Slot]) -> Campaign {
    let meta = Meta {
        name: "test".into(),
        plan: "name = \"test\"\n".into(),
        plan_path: "test.toml".into(),
        seed: u64::MAX,
        created: "2012-03-04T05:06:07Z".into(),
        version: "0.1.0".into(),
    };
    Campaign::create(path, &meta, slots).unwrap()
}

/// A closed store of `n` runs.
fn filled(path: &Path, n: u32) {
    let mut campaign = create(path, &slots(n + 1));
    for slot in 0..n {
        campaign.keep("now", &began(slot)).unwrap();
        let id = campaign.keep_run("now", &run(slot, f64::from(slot) + 0.1), &ended(slot)).unwrap();
        assert_eq!(id, u64::from(slot) + 1);
    }
}

#[test]
fn what_came_since_is_read_alone_and_a_run_by_its_number() {
    let path = scratch("follow");
    let mut campaign = create(&path, &slots(3));
    let keep = |campaign: &mut Campaign, slot: u32, run: &StoredRun| {
        campaign.keep("now", &began(slot)).unwrap();
        campaign.keep_run("now", run, &ended(slot)).unwrap();
    };
    keep(&mut campaign, 0, &run(0, 0.5));
    assert_eq!(Reader::open(&path).unwrap().counts().unwrap(), (2, 1));
    keep(&mut campaign, 1, &StoredRun { record: None, ..run(1, 1.5) });
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.counts().unwrap(), (4, 2));
    let events: Vec<Event> = reader.events_after(2).unwrap().into_iter().map(|(_, e)| e).collect();
    assert_eq!(events, [began(1), ended(1)]);
    assert!(reader.events_after(4).unwrap().is_empty() && reader.runs_after(2).unwrap().is_empty());
    let runs = reader.runs_after(0).unwrap();
    let found: Vec<_> = runs.iter().map(|(run, recorded)| (run.id, run.slot, *recorded)).collect();
    assert_eq!(found, [(1, 0, true), (2, 1, false)]);
    assert!(runs.iter().all(|(run, _)| run.record.is_none()));
    assert_eq!(reader.run(1).unwrap().unwrap().record, run(0, 0.5).record);
    assert_eq!(reader.run(2).unwrap().unwrap().record, None);
    for number in [0, 3, u64::MAX] {
        assert_eq!(reader.run(number).unwrap(), None, "{number}");
    }
    // A record that is another than was written is found, also where it is left out.
    drop((campaign, reader));
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE run SET record = '{}' WHERE id = 1", []).unwrap();
    drop(connection);
    let reader = Reader::open(&path).unwrap();
    assert!(matches!(reader.run(1), Err(StoreError::Damaged(..))));
    assert!(matches!(reader.runs_after(0), Err(StoreError::Damaged(..))));
}

#[test]
fn what_was_kept_is_read_back() {
    let path = scratch("read-back");
    filled(&path, 5);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.check(), []);
    let meta = reader.meta().unwrap();
    assert_eq!((meta.seed, meta.plan.as_str()), (u64::MAX, "name = \"test\"\n"));
    assert_eq!(reader.slots().unwrap(), slots(6));
    assert_eq!(reader.events().unwrap().len(), 10);
    let runs = reader.runs().unwrap();
    assert_eq!(runs[3], StoredRun { id: 4, ..run(3, 3.1) });
    assert_eq!(reader.lost_and_doubled(), (0, 0));
    // The file alone is all of it.
    let log = path.with_extension("db-wal");
    assert!(!log.exists() || fs::metadata(log).unwrap().len() == 0);
}

#[test]
fn a_slot_is_filled_once_and_after_an_error_nothing_is_written() {
    let path = scratch("once");
    let mut campaign = create(&path, &slots(3));
    campaign.keep_run("now", &run(0, 1.0), &ended(0)).unwrap();
    let twice = campaign.keep_run("now", &run(0, 2.0), &ended(0)).unwrap_err();
    assert!(twice.to_string().contains("UNIQUE"), "{twice}");
    let after = campaign.keep("now", &began(1)).unwrap_err();
    assert!(after.to_string().contains("an earlier write failed"), "{after}");
    drop(campaign);
    let mut campaign = Campaign::open(&path).unwrap();
    campaign.keep("now", &began(1)).unwrap();
    let reader = campaign.reader().unwrap();
    assert_eq!(reader.runs().unwrap().len(), 1);
    assert_eq!(reader.events().unwrap().len(), 2, "the event of the refused run is not there");
}

#[test]
fn one_writer_and_readers_beside_it() {
    let path = scratch("writers");
    let mut campaign = create(&path, &slots(40));
    assert!(linerate_store::is_locked(&path));
    assert!(matches!(Campaign::open(&path), Err(StoreError::Locked(_))));
    let reading = path.clone();
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < 40 {
            let reader = Reader::open(&reading).unwrap();
            let runs = reader.runs().unwrap().len();
            assert!(runs >= seen, "never fewer than before");
            seen = runs;
        }
    });
    for slot in 0..40 {
        campaign.keep_run("now", &run(slot, 1.0), &ended(slot)).unwrap();
    }
    reader.join().unwrap();
    drop(campaign);
    assert!(!linerate_store::is_locked(&path));
    Campaign::open(&path).unwrap();
}

#[test]
fn what_is_read_is_of_one_moment() {
    let path = scratch("moment");
    let mut campaign = create(&path, &slots(3));
    campaign.keep_run("now", &run(0, 1.0), &ended(0)).unwrap();
    let before = campaign.reader().unwrap();
    campaign.keep_run("now", &run(1, 1.0), &ended(1)).unwrap();
    let after = campaign.reader().unwrap();
    for (reader, kept) in [(before, 1), (after, 2)] {
        assert_eq!(reader.runs().unwrap().len(), kept);
        campaign.keep("now", &began(2)).unwrap();
        assert_eq!(reader.events().unwrap().len(), kept);
        assert_eq!((reader.lost_and_doubled(), reader.check()), ((0, 0), Vec::new()));
    }
}

#[test]
fn what_is_no_store_is_said() {
    let path = scratch("foreign");
    assert!(Reader::open(&path).unwrap_err().to_string().contains("cannot open"));
    fs::write(&path, "no database at all, just text").unwrap();
    assert!(matches!(Reader::open(&path), Err(StoreError::Foreign(..))));
    fs::remove_file(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(Reader::open(&path), Err(StoreError::Foreign(..))));
    other.pragma_update(None, "application_id", linerate_store::APPLICATION_ID).unwrap();
    other.pragma_update(None, "user_version", 7).unwrap();
    assert!(matches!(Reader::open(&path), Err(StoreError::Version(_, 7))));
}

/// What a reader tells of a file: damage, or everything that is in it.
fn told(path: &Path) -> Result<String, ()> {
    let reader = Reader::open(path).map_err(drop)?;
    if !reader.check().is_empty() {
        return Err(());
    }
    let all = (reader.meta(), reader.slots(), reader.events(), reader.runs());
    Ok(format!(
        "{:?}",
        (all.0.map_err(drop)?, all.1.map_err(drop)?, all.2.map_err(drop)?, all.3.map_err(drop)?)
    ))
}

fn long() -> bool {
    std::env::var_os("LINERATE_LONG").is_some_and(|v| v == "1")
}

/// One byte altered anywhere: either it is found, or nothing that is read is other than it was.
#[test]
fn no_altered_byte_passes_unseen() {
    let path = scratch("flips");
    filled(&path, 6);
    let sound = fs::read(&path).unwrap();
    let truth = told(&path).expect("a sound file");
    let copy = path.with_file_name("copy.db");
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    use proptest::prelude::Rng as _;
    let (step, random) = if long() { (1, 10_000) } else { (3, 1_000) };
    let mut places: Vec<(usize, u8)> =
        (0..4_096.min(sound.len())).step_by(step).map(|at| (at, 1 << (at % 8))).collect();
    for _ in 0..random {
        let at = (rng.next_u64() % sound.len() as u64) as usize;
        let mask = (rng.next_u32() as u8).max(1);
        places.push((at, mask));
    }
    let (mut found, tried) = (0, places.len());
    for (at, mask) in places {
        let mut bytes = sound.clone();
        bytes[at] ^= mask;
        fs::write(&copy, &bytes).unwrap();
        match told(&copy) {
            Err(()) => found += 1,
            Ok(read) => assert_eq!(read, truth, "byte {at} altered by {mask:#x} was not found"),
        }
    }
    println!("FIGURE T15: {tried} bytes altered, {found} found, in the others nothing is kept");
    assert!(found > tried / 11, "{found} of {tried} found");
}

#[test]
fn no_truncation_passes_unseen_and_other_rows_stay_readable() {
    let path = scratch("truncated");
    filled(&path, 6);
    let sound = fs::read(&path).unwrap();
    let copy = path.with_file_name("copy.db");
    for length in (0..sound.len()).step_by(if long() { 1 } else { 509 }) {
        fs::write(&copy, &sound[..length]).unwrap();
        assert!(told(&copy).is_err(), "{length} of {} bytes", sound.len());
    }
    // One record altered: the other five can still be had.
    let mut bytes = sound.clone();
    let at = bytes.windows(12).rposition(|w| w == b"\"padding\":\"x").expect("a record") + 40;
    bytes[at] = b'y';
    fs::write(&copy, &bytes).unwrap();
    let (runs, damage) = Reader::open(&copy).unwrap().readable_runs();
    assert_eq!((runs.len(), damage.len()), (5, 1), "{damage:?}");
    assert!(matches!(Campaign::open(&copy), Err(StoreError::Damaged(..))));
}

#[test]
fn what_is_deleted_is_gone_and_the_rest_is_whole() {
    let path = scratch("deleted");
    filled(&path, 6);
    let mut campaign = Campaign::open(&path).unwrap();
    campaign.delete_before(2, "two").unwrap();
    campaign.keep("later", &began(6)).unwrap();
    campaign.delete_before(4, "four").unwrap();
    campaign.keep_run("later", &run(6, 6.1), &ended(6)).unwrap();
    drop(campaign);
    let campaign = Campaign::open(&path).unwrap();
    let reader = campaign.reader().unwrap();
    assert_eq!(reader.check(), []);
    let slots = |runs: Vec<StoredRun>| runs.iter().map(|run| run.slot).collect::<Vec<_>>();
    assert_eq!(slots(reader.runs().unwrap()), [4, 5, 6]);
    let events: Vec<Event> = reader.events().unwrap().into_iter().map(|(_, event)| event).collect();
    assert_eq!(events, [began(4), ended(4), began(5), ended(5), began(6), ended(6)]);
    let deleted = reader.deleted().unwrap();
    assert_eq!((deleted.events, deleted.runs, deleted.state.as_str()), (8, 4, "four"));
    assert_eq!(reader.lost_and_doubled(), (0, 0));
}

/// What must be known of deleted rows may be as much as all others: it is not read at each look.
#[test]
fn whoever_reads_on_reads_nothing_of_what_was_deleted() {
    let path = scratch("read-on");
    filled(&path, 6);
    let mut campaign = Campaign::open(&path).unwrap();
    assert_eq!(campaign.reader().unwrap().firsts().unwrap(), [Some(1), Some(1)]);
    campaign.delete_before(2, "two").unwrap();
    assert_eq!(campaign.reader().unwrap().firsts().unwrap(), [Some(5), Some(3)]);
    drop(campaign);
    let other = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(other.execute("UPDATE meta SET sum = x'00' WHERE key = 'deleted'", []).unwrap(), 1);
    drop(other);
    let reader = Reader::open(&path).unwrap();
    assert!(matches!(reader.deleted(), Err(StoreError::Damaged(..))));
    assert_eq!(reader.meta().unwrap().name, "test");
    let (events, runs) = (reader.events_after(4).unwrap(), reader.runs_after(2).unwrap());
    assert_eq!((events.len(), runs.len()), (8, 4));
    assert!(!reader.check().is_empty());
}

#[test]
fn all_can_be_deleted_and_what_is_missing_without_that_is_damage() {
    let path = scratch("all-deleted");
    filled(&path, 2);
    let mut campaign = Campaign::open(&path).unwrap();
    campaign.delete_before(9, "").unwrap();
    assert_eq!(campaign.keep_run("later", &run(2, 2.1), &ended(2)).unwrap(), 3);
    drop(campaign);
    let reader = Reader::open(&path).unwrap();
    assert_eq!((reader.check().len(), reader.runs().unwrap().len()), (0, 1));
    drop(reader);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute("DELETE FROM run", []).unwrap();
    drop(other);
    let reader = Reader::open(&path).unwrap();
    assert!(!reader.check().is_empty());
    assert_eq!(reader.lost_and_doubled(), (1, 0));
}
