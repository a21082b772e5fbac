//! A database as the place of results: it says what a file says, whatever happens to its server.
#![cfg(feature = "postgres")]

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use linerate_model::campaign::{Event, RunState, StoredRun};
use linerate_store::{Meta, Place, StoreError, StoreWriter};
use linerate_testkit::peer::LONG;
use linerate_testkit::postgres::{PASSWORD, Postgres};
use postgres::{Client, NoTls};

fn place(server: &Postgres) -> Place {
    Place::from(OsString::from(server.address()))
}

/// Whoever looks in with other tools.
fn other(server: &Postgres) -> Client {
    Client::connect(&server.by_socket(), NoTls).unwrap()
}

fn meta() -> Meta {
    Meta {
        name: "fleet".into(),
        plan: "{\"é\":\"\\u0000\"}".into(),
        plan_path: "".into(),
        seed: u64::MAX,
        created: "2012-03-04T05:06:07Z".into(),
        version: "0.1.0".into(),
    }
}

fn run(slot: u32, value: f64) -> StoredRun {
    StoredRun {
        id: 0,
        slot,
        attempt: 1,
        state: RunState::Counted,
        boot: 0,
        boot_id: None,
        block: 1,
        setting: "a -> b".into(),
        warmup: false,
        number: 1,
        started: "2012-03-04T05:06:07Z".into(),
        seconds: 1.25,
        value: Some(value),
        metric: "received_bps".into(),
        unit: Some("bit/s".into()),
        record: slot
            .is_multiple_of(2)
            .then(|| format!("{{ \"value\": {value},\"z\":1, \"a\":\"\\u0000é\" }}")),
        settings: vec![],
        doubts: vec![],
        error: None,
    }
}

fn began(slot: u32) -> Event {
    Event::RunBegan { slot, attempt: 1, extra: false }
}

fn ended(slot: u32) -> Event {
    Event::RunEnded { slot, attempt: 1, extra: false, state: RunState::Counted }
}

/// All that a place says.
fn said(place: &Place) -> String {
    let mut reader = place.read().unwrap();
    let mut all = format!("{:?}\n", (reader.meta().unwrap(), reader.counts().unwrap()));
    for read in [0, 1, 5, 1_000] {
        let (events, runs) = (reader.events_after(read).unwrap(), reader.runs_after(read).unwrap());
        all.push_str(&format!("{events:?}\n{runs:?}\n"));
    }
    for number in [0, 1, 2, 4, u64::MAX] {
        all.push_str(&format!("{:?}\n", reader.run(number).unwrap()));
    }
    all + &format!("{:?}", reader.deleted().unwrap())
}

/// What becomes of a place step by step.
fn story(place: &Place) -> Vec<String> {
    let mut told = Vec::new();
    assert!(!place.exists().unwrap());
    let mut writer = place.create(&meta()).unwrap();
    told.push(said(place));
    for slot in 0..4 {
        writer.keep("2012-03-04T05:06:07Z", &began(slot)).unwrap();
        let value = 0.1 + f64::from(slot) / 3.0;
        let number = writer.keep_run("at", &run(slot, value), &ended(slot)).unwrap();
        assert_eq!(number, u64::from(slot) + 1);
    }
    told.push(said(place));
    let delivered = Event::Delivered { id: "x".into(), to: "http://a".into() };
    writer.keep("at", &delivered).unwrap();
    writer.delete_before(2, "two").unwrap();
    told.push(said(place));
    drop(writer);
    let mut writer = place.open().unwrap();
    writer.keep("at", &began(9)).unwrap();
    writer.delete_before(9, "nine").unwrap();
    told.push(said(place));
    let last = StoredRun { state: RunState::Failed, value: None, ..run(9, 0.0) };
    assert_eq!(writer.keep_run("at", &last, &ended(9)).unwrap(), 5);
    told.push(said(place));
    let twice = |writer: &mut dyn linerate_store::StoreWriter| {
        writer.keep_run("at", &run(10, 1.0), &ended(10)).unwrap();
        writer.keep_run("at", &run(10, 2.0), &ended(10)).unwrap_err()
    };
    assert!(twice(&mut *writer).to_string().to_lowercase().contains("unique"));
    let after = writer.keep("at", &began(11)).unwrap_err();
    assert!(after.to_string().contains("an earlier write failed"), "{after}");
    drop(writer);
    told.push(said(place));
    told
}

#[test]
fn a_database_says_what_a_file_says() {
    let Some(server) = Postgres::start("says") else { return };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("postgres-says.db");
    for ending in ["", "-wal", "-shm", ".lock"] {
        let _ = std::fs::remove_file(format!("{}{ending}", path.display()));
    }
    let (file, database) = (story(&Place::File(path)), story(&place(&server)));
    for (file, database) in file.iter().zip(&database) {
        assert_eq!(file, database);
    }
    assert_eq!(file.len(), database.len());
}

#[test]
fn one_process_writes_it_and_none_is_let_in_by_another_version() {
    let Some(server) = Postgres::start("one") else { return };
    let place = place(&server);
    let missing = place.open().err().unwrap().to_string();
    assert!(missing.contains("no results are kept in it yet"), "{missing}");
    let mut writer = place.create(&meta()).unwrap();
    assert!(place.is_locked().unwrap() && place.exists().unwrap());
    assert!(matches!(place.open(), Err(StoreError::Locked(_))));
    assert!(matches!(place.create(&meta()), Err(StoreError::Locked(_))));
    for slot in 0..3 {
        writer.keep_run("at", &run(slot, 1.0), &ended(slot)).unwrap();
    }
    // What is read is of one moment.
    let mut reader = place.read().unwrap();
    writer.keep_run("at", &run(3, 1.0), &ended(3)).unwrap();
    assert_eq!((reader.counts().unwrap(), reader.runs_after(0).unwrap().len()), ((3, 3), 3));
    drop((writer, reader));
    assert!(!place.is_locked().unwrap());
    assert!(matches!(place.create(&meta()), Err(StoreError::Exists(_))));
    let mut others = other(&server);
    others.execute("DELETE FROM linerate.run WHERE id = 2", &[]).unwrap();
    let damaged = place.open().err().unwrap().to_string();
    assert!(damaged.contains("run: 3 rows are there, 4 were written and 0 deleted"), "{damaged}");
    let gap = place.read().unwrap().runs_after(0).unwrap_err().to_string();
    assert!(gap.contains("row 2 is missing, the next is 3"), "{gap}");
    others.execute("UPDATE linerate.head SET version = 7", &[]).unwrap();
    assert!(matches!(place.open(), Err(StoreError::Version(_, 7))));
    assert!(matches!(place.read(), Err(StoreError::Version(_, 7))));
    others.batch_execute("ALTER TABLE linerate.head DROP COLUMN version").unwrap();
    assert!(matches!(place.read(), Err(StoreError::Foreign(..))));
}

#[test]
fn no_password_is_in_what_is_said_of_a_database_that_cannot_be_used() {
    let Some(server) = Postgres::start("password") else { return };
    let right = server.address();
    let of = |text: String| Place::from(OsString::from(text)).read().err().unwrap().to_string();
    let wrong = of(right.replace(PASSWORD, "s3cret-of-another"));
    assert!(wrong.contains("password authentication failed"), "{wrong}");
    let none = of(right.replace("/postgres", "/none"));
    assert!(none.contains("database \"none\" does not exist"), "{none}");
    let refused = of(format!("postgres://linerate:{PASSWORD}@127.0.0.1:9/postgres"));
    assert!(refused.contains("refused"), "{refused}");
    for said in [wrong, none, refused] {
        assert!(said.contains("linerate:***@") && !said.contains("s3cret"), "{said}");
    }
}

const RUNS: u32 = 300;

#[test]
fn a_server_that_is_killed_is_waited_for_and_nothing_is_lost_or_doubled() {
    let Some(mut server) = Postgres::start("killed") else { return };
    let place = place(&server);
    let kept = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let write = || {
            let mut writer = place.create(&meta()).unwrap();
            for slot in 0..RUNS {
                writer.keep("at", &began(slot)).unwrap();
                let number = writer.keep_run("at", &run(slot, 1.0), &ended(slot)).unwrap();
                assert_eq!(number, u64::from(slot) + 1);
                kept.store(slot + 1, Ordering::SeqCst);
            }
        };
        let writing = scope.spawn(write);
        for share in 1..4 {
            let begun = Instant::now();
            while kept.load(Ordering::SeqCst) < RUNS * share / 4 {
                assert!(!writing.is_finished() && begun.elapsed() < LONG, "nothing is kept");
                std::thread::sleep(Duration::from_millis(1));
            }
            server.again();
        }
    });
    let mut reader = place.read().unwrap();
    assert_eq!(reader.counts().unwrap(), (2 * u64::from(RUNS), u64::from(RUNS)));
    let slots: Vec<u32> = reader.runs_after(0).unwrap().iter().map(|(run, _)| run.slot).collect();
    assert_eq!(slots, (0..RUNS).collect::<Vec<_>>());
    drop(reader);
    drop(place.open().unwrap());
}

#[test]
fn leases_of_one_resource_that_overlap_cannot_be_stored() {
    let Some(server) = Postgres::start("leases") else { return };
    let place = place(&server);
    let mut writer = place.create(&meta()).unwrap();
    let audit = place.audit().unwrap().unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let long = Duration::from_secs(600);
    audit.granted(7, "run.0.1", &names(&["host:a", "host:b"]), long).unwrap();
    // What is said twice is one.
    audit.granted(7, "run.0.1", &names(&["host:a", "host:b"]), long).unwrap();
    audit.granted(8, "run.1.1", &names(&["host:c", "host:d"]), long).unwrap();
    let overlap = audit.granted(9, "run.2.1", &names(&["host:e", "host:b"]), long).unwrap_err();
    assert!(overlap.to_string().contains("it overlaps another"), "{overlap}");
    assert!(overlap.to_string().contains("host:b"), "{overlap}");
    audit.ended(7).unwrap();
    audit.granted(9, "run.2.1", &names(&["host:e", "host:b"]), long).unwrap();
    let mut others = other(&server);
    let by_hand =
        "INSERT INTO linerate.lease_audit VALUES (10, 'host:e', '', tstzrange(now(), NULL))";
    let refused = others.execute(by_hand, &[]).unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "23P01", "{refused}");
    let count = |others: &mut Client| {
        let row = others.query_one("SELECT count(*) FROM linerate.lease_audit", &[]).unwrap();
        row.get::<_, i64>(0)
    };
    assert_eq!(count(&mut others), 6);
    // Of a lease that was not given back the rest is over by itself.
    audit.granted(20, "run.3.1", &names(&["host:z"]), Duration::ZERO).unwrap();
    audit.granted(21, "run.3.2", &names(&["host:z"]), long).unwrap();
    // They go with the tests that they were for.
    writer.keep("at", &began(2)).unwrap();
    writer.delete_before(2, "").unwrap();
    assert_eq!(count(&mut others), 4);
}

/// Whoever begins to write and whoever asks for an end are let in one after the other.
#[test]
fn what_was_asked_of_one_writer_is_of_no_other() {
    let Some(server) = Postgres::start("asked") else { return };
    let place = place(&server);
    drop(place.create(&meta()).unwrap());
    let mut others = other(&server);
    let asked = |others: &mut Client| {
        let row = others.query_one("SELECT count(*) FROM linerate.meta WHERE key = 'stop'", &[]);
        row.unwrap().get::<_, i64>(0)
    };
    assert!(!place.stop().unwrap());
    assert_eq!(asked(&mut others), 0, "nobody is there to hear it");
    // As somebody who has seen the writer before and is about to ask it.
    let application = linerate_store::APPLICATION_ID;
    let before = format!("BEGIN; SELECT pg_advisory_xact_lock({application}, 2)");
    others.batch_execute(&before).unwrap();
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| place.open().unwrap());
        let mut looks = other(&server);
        let waits =
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)";
        let begun = Instant::now();
        while !looks.query_one(waits, &[]).unwrap().get::<_, bool>(0) {
            assert!(!place.is_locked().unwrap() && begun.elapsed() < LONG, "it waits for nobody");
            std::thread::sleep(Duration::from_millis(1));
        }
        others.execute("INSERT INTO linerate.meta VALUES ('stop', '')", &[]).unwrap();
        others.batch_execute("COMMIT").unwrap();
        let mut writer = opened.join().unwrap();
        assert_eq!(asked(&mut others), 0);
        assert!(!writer.asked_to_stop().unwrap(), "it was meant for the one before");
        assert!(place.stop().unwrap() && writer.asked_to_stop().unwrap());
    });
}

/// A session that the server has ended, as an administrator may, or a network that forgot it.
#[test]
fn a_writer_whose_session_is_lost_is_the_writer_again_or_ends() {
    let Some(server) = Postgres::start("session") else { return };
    let place = place(&server);
    let mut writer = place.create(&meta()).unwrap();
    let end_session = || {
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()
            AND application_name = 'linerate'";
        other(&server).execute(end, &[]).unwrap();
        let begun = Instant::now();
        while place.is_locked().unwrap() {
            assert!(begun.elapsed() < LONG, "its session stays");
        }
    };
    end_session();
    assert!(!place.stop().unwrap(), "nobody writes it");
    let asked = |writer: &mut dyn StoreWriter| (0..100).any(|_| writer.asked_to_stop().unwrap());
    assert!(!asked(&mut *writer));
    assert!(place.stop().unwrap(), "it is the writer without having written");
    assert!(asked(&mut *writer));
    writer.keep("1", &began(0)).unwrap();

    end_session();
    let second = place.open().unwrap();
    let lost = (0..1_000).find_map(|_| writer.asked_to_stop().err());
    assert!(matches!(lost, Some(StoreError::Locked(_))), "{lost:?}");
    drop(second);
}
