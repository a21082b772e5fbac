//! Months of a schedule.

use std::cell::RefCell;

use linerate_model::fleet::FleetNotice;

use super::late::Outlasting;
use super::*;

const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 86_400;

/// What was said.
#[derive(Default)]
struct Said {
    /// Number of each time, with when it began and how many pairs were measured.
    over: Vec<(u32, String, usize)>,
    changes: Vec<FleetChange>,
    notes: Vec<String>,
    /// Whether each post was taken.
    posts: Vec<(FleetNotice, bool)>,
}

/// A schedule whose webhook answers so many times not.
fn go_on(
    world: &Arc<World>,
    asked: &Asked,
    every: (&str, u64),
    keep_days: Option<u64>,
    deaf: usize,
) -> (FleetDocument, Said) {
    let connect = |access: &Access, _: &Stop| {
        let made = Made(Arc::clone(world), access.name.clone(), false);
        Ok(Box::new(made) as Box<dyn HostAgent>)
    };
    go_on_by(&connect, world, asked, every, (keep_days, deaf))
}

fn go_on_by(
    reach: &dyn Reach,
    world: &World,
    asked: &Asked,
    (every, days): (&str, u64),
    (keep_days, deaf): (Option<u64>, usize),
) -> (FleetDocument, Said) {
    let stop = Stop::default();
    let said = RefCell::new(Said::default());
    let mut on_event = |event: &Event<'_>| {
        let mut said = said.borrow_mut();
        match *event {
            Event::Over { number, begun, measured, .. } => {
                said.over.push((number, begun.to_owned(), measured));
            }
            Event::Changed { change, .. } => said.changes.push(change.clone()),
            Event::Note(note) => said.notes.push(note.to_owned()),
            Event::Time { .. } | Event::Ended { .. } => {}
        }
    };
    let mut post = |notice: &FleetNotice| {
        let mut said = said.borrow_mut();
        let taken = said.posts.len() >= deaf;
        said.posts.push((notice.clone(), taken));
        if taken { Ok(()) } else { Err("it answered 500".to_owned()) }
    };
    let webhook = Webhook { to: "http://relay", post: &mut post };
    let scheduled = Scheduled {
        every: every.parse().unwrap(),
        jitter_s: 600,
        for_s: Some(days * DAY_S),
        keep_for_s: keep_days.map(|days| days * DAY_S),
    };
    let clock = MadeClock(world);
    let document =
        schedule(asked, &scheduled, Some(webhook), (reach, &clock, &stop), &mut on_event).unwrap();
    (document, said.into_inner())
}

/// The same for all of an hour: when in it a test ends is up to the threads of this host, and other noise at each run of
/// the tests would be told for a change in a few of a hundred.
fn noise(wall_s: u64) -> f64 {
    let hour = (wall_s + 1_800) / 3_600;
    1.0 + 0.01
        * ((hour.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24) - 0.5)
}

#[test]
fn a_change_is_said_once_to_each_however_often_it_is_begun_anew() {
    Folder::each("schedule", change_in);
}

fn change_in(folder: &Folder) {
    let world = Arc::new(World { period_s: (6 * HOUR_S).into(), ..World::default() });
    *world.level.lock().unwrap() =
        Some(|wall_s| noise(wall_s) * if wall_s < 30 * DAY_S { 1.0 } else { 0.5 });
    let asked = |resume| Asked { times: 0, keep: folder.keep(resume), ..asked("a,b", 0) };
    let (document, said) = go_on(&world, &asked(false), ("6h", 40), None, 2);
    assert_eq!((document.times, document.deleted, document.interrupted), (160, 0, false));
    let numbers: Vec<u32> = said.over.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=160).collect::<Vec<_>>());
    assert!(said.over.iter().all(|(.., measured)| *measured == 1));
    assert!(said.over[0].1.starts_with("2026-11-28T06:"), "{:?}", said.over[0]);
    let [change] = said.changes.as_slice() else { panic!("{:?}", said.changes) };
    assert!(change.since.as_ref().unwrap().starts_with("2026-12-28T06:"), "{change:?}");
    assert_eq!((change.time, change.worse, change.after < 0.6 * change.before), (121, true, true));
    assert_eq!(document.changes, said.changes);
    // It was posted after each time until it was taken.
    let taken: Vec<bool> = said.posts.iter().map(|(_, taken)| *taken).collect();
    assert_eq!(taken, [false, false, true]);
    assert!(said.posts.iter().all(|(notice, _)| *notice == said.posts[0].0));
    assert_eq!(&said.posts[0].0.change, change);
    assert!(said.notes[0].contains("it answered 500"), "{:?}", said.notes);
    assert_eq!(results(&folder.place()).unwrap(), document);

    let (again, said) = go_on(&world, &asked(true), ("6h", 10), None, 0);
    assert_eq!((again.times, said.changes.len(), said.posts.len()), (200, 0, 0));
    assert_eq!(again.changes, document.changes);
    assert_eq!(again.worse().count(), 1);
}

#[test]
fn whoever_holds_results_back_is_told_what_was_kept_before() {
    let (folder, world) = (Folder::new("recall"), Arc::<World>::default());
    let mut asked = Asked { times: 0, keep: folder.keep(false), ..asked("a,b,c", 0) };
    let (document, _) = go_on(&world, &asked, ("6h", 1), None, 0);
    asked.keep = folder.keep(true);
    let reach = Outlasting::of(&world);
    let every = "6h".parse().unwrap();
    let scheduled = Scheduled { every, jitter_s: 0, for_s: Some(0), keep_for_s: None };
    let by = (&reach as &dyn Reach, &MadeClock(&world) as &dyn Clock, &Stop::default());
    let again = schedule(&asked, &scheduled, None, by, &mut |_| {}).unwrap();
    assert_eq!((again.times, again.times >= 4), (document.times, true));
    let all = (0..3 * document.times).map(|slot| format!("{}.{slot}.1", document.id));
    assert_eq!(*reach.kept.lock().unwrap(), all.collect());
}

#[test]
fn old_times_go_and_what_is_judged_by_them_stays() {
    Folder::each("retention", retention_in);
}

fn retention_in(folder: &Folder) {
    let world = Arc::new(World { period_s: DAY_S.into(), ..World::default() });
    *world.level.lock().unwrap() = Some(|wall_s| {
        noise(wall_s)
            * match wall_s / DAY_S {
                0..50 => 1.0,
                50..110 => 0.5,
                _ => 0.4,
            }
    });
    let asked = |resume| Asked { times: 0, keep: folder.keep(resume), ..asked("a,b", 0) };
    let (document, said) = go_on(&world, &asked(false), ("1d", 100), Some(30), 0);
    assert_eq!((document.times + document.deleted, said.changes.len()), (100, 1));
    assert!((30..=31).contains(&document.times), "{}", document.times);
    assert_eq!(document.begun.len(), document.pairs[0].values.len());
    assert!(document.begun[0].as_ref().unwrap().starts_with("2027-02-0"), "{:?}", document.begun);
    assert_eq!(document.changes, [], "it went with the time that told it");
    let place = folder.place();
    assert_eq!(results(&place).unwrap(), document);
    let mut reader = place.read().unwrap();
    assert_eq!(reader.runs_after(0).unwrap().len(), document.times as usize);
    drop(reader);
    let (mut followed, now) = Followed::open(&place).unwrap();
    let numbers: Vec<u32> = now.tests.iter().map(|test| test.time).collect();
    assert_eq!(numbers, (document.deleted + 1..=100).collect::<Vec<_>>());
    assert_eq!(now.document, document);

    // The level of 60 days, half of them deleted, is what the next change is told against.
    let (document, said) = go_on(&world, &asked(true), ("1d", 20), Some(30), 0);
    let [change] = said.changes.as_slice() else { panic!("{:?}", said.changes) };
    assert_eq!((change.time, said.posts.len()), (111, 1), "{change:?}");
    assert!((change.after / change.before - 0.8).abs() < 0.01, "{change:?}");
    assert_eq!((&document.changes, results(&place).unwrap() == document), (&said.changes, true));
    // What was read before and is deleted by now is forgotten.
    let now = followed.look().unwrap().unwrap();
    assert_eq!((now.tests.len(), &now.document), (document.times as usize, &document));
    assert_eq!(now, Followed::open(&place).unwrap().1, "as whoever reads all of it");
    assert_eq!(followed.look().unwrap(), None);
    // Results that nobody took are handed out when it goes on: of those times nobody will.
    let (reach, asked) = (Outlasting::of(&world), asked(true));
    drop(Run::new(&asked, &Wanted::of(&asked).unwrap(), &MadeClock(&world), &reach).unwrap());
    assert_eq!(reach.began_after(), u64::from(document.deleted));
}

#[test]
fn a_change_that_a_late_result_tells_sooner_is_said_once() {
    let mut told = 0;
    // One of these is killed in the time whose result tells the change.
    for days in 20..28 {
        let (folder, world) = (Folder::new(&format!("once-{days}")), World::default());
        let world = Arc::new(World { period_s: DAY_S.into(), ..world });
        *world.level.lock().unwrap() =
            Some(|wall_s| noise(wall_s) * if wall_s < 20 * DAY_S { 2.0 } else { 1.0 });
        let asked = |resume| Asked { times: 0, keep: folder.keep(resume), ..asked("a,b", 0) };
        let (document, said) = go_on(&world, &asked(false), ("1d", days), None, 0);
        let mut posts = said.posts;
        let mut store = folder.place().open().unwrap();
        let began = InStore::RunBegan { slot: document.times, attempt: 1, extra: false };
        store.keep(&MadeClock(&world).date(), &began).unwrap();
        drop(store);
        let reach = Outlasting::of_time(&world, document.times);
        for days in [2, 1] {
            let (_, said) = go_on_by(&reach, &world, &asked(true), ("1d", days), (None, 0));
            posts.extend(said.posts);
        }
        assert!(posts.len() <= 1, "killed after {days} days: {posts:?}");
        told += posts.len();
    }
    assert!(told > 0);
}

#[test]
fn a_date_to_come_holds_no_old_time_back() {
    let asked = Asked { times: 0, ..asked("a,b", 0) };
    let head = results::Head::new(&asked, Wanted::of(&asked).unwrap().metric);
    // Times that are old, kept, of a date to come, and in which nothing began.
    for (times, old) in [
        ("ook", 2),
        ("ofok", 3),
        ("fook", 3),
        ("ofk", 1),
        ("fk", 0),
        ("kok", 0),
        ("oo-k", 3),
        ("ooo", 2),
        ("fff", 0),
        ("o", 0),
        ("", 0),
    ] {
        let mut results = results::Results::new(&head, results::Deleted::nothing(&head));
        results.make_room(times.len());
        for (time, date) in times.chars().enumerate().filter(|(_, date)| *date != '-') {
            results.begun_at(time, &date.to_string());
        }
        let age = |date: &str| match date {
            "o" => std::cmp::Ordering::Less,
            "k" => std::cmp::Ordering::Equal,
            _ => std::cmp::Ordering::Greater,
        };
        assert_eq!(results.older(age), old, "{times}");
    }
}

#[test]
fn a_time_in_which_nothing_has_begun_is_not_said() {
    let asked = Asked { times: 0, ..asked("a,b", 0) };
    let head = results::Head::new(&asked, Wanted::of(&asked).unwrap().metric);
    let mut results = results::Results::new(&head, results::Deleted::nothing(&head));
    results.make_room(2);
    results.begun_at(0, "T");
    assert_eq!(results.last(), None);
    results.begun_at(1, "U");
    assert_eq!(results.last(), Some((0, "U", 2)));
}

#[test]
fn a_clock_that_is_set_neither_doubles_nor_loses_more_than_that() {
    let (folder, world) = (Folder::new("set"), Arc::<World>::default());
    *world.sets.lock().unwrap() = vec![(10 * HOUR_S, -7_200), (20 * HOUR_S, 3 * 3_600)];
    let asked = Asked { times: 0, keep: folder.keep(false), ..asked("a,b", 0) };
    let (document, said) = go_on(&world, &asked, ("1h", 2), None, 0);
    let began: Vec<u64> = world.began.lock().unwrap().iter().map(|(s, _)| *s).collect();
    for (last, next) in began.iter().zip(began.iter().skip(1)) {
        assert!((HOUR_S - 700..=HOUR_S + 800).contains(&(next - last)), "{began:?}");
    }
    assert_eq!(said.notes, ["3 times were missed: this machine slept, or its clock was set"]);
    assert_eq!((document.times as usize, began.len()), (began.len(), 48));
}

#[test]
fn a_time_that_takes_longer_than_what_lies_between_is_said_and_none_is_doubled() {
    let (folder, world) = (Folder::new("long"), Arc::<World>::default());
    world.takes_s.store(5_400, Ordering::SeqCst);
    let asked = Asked { times: 0, keep: folder.keep(false), ..asked("a,b", 0) };
    let (document, said) = go_on(&world, &asked, ("1h", 1), None, 0);
    assert_eq!(document.times, 12);
    assert!(said.notes.iter().all(|note| note == "1 time was missed: the time before took longer"));
    assert_eq!(said.notes.len(), 12, "{:?}", said.notes);
}

#[test]
fn a_clock_that_is_set_while_a_time_is_under_way_is_not_told_for_a_long_time() {
    let (folder, world) = (Folder::new("set-amid"), Arc::<World>::default());
    world.takes_s.store(1_800, Ordering::SeqCst);
    // The first time begins after half an hour, and ten minutes at most.
    *world.sets.lock().unwrap() = vec![(3_000, 3 * 3_600)];
    let asked = Asked { times: 0, keep: folder.keep(false), ..asked("a,b", 0) };
    let (_, said) = go_on(&world, &asked, ("1h", 1), None, 0);
    assert_eq!(said.notes, ["3 times were missed: this machine slept, or its clock was set"]);
}

#[test]
fn what_was_under_way_when_it_ended_stays_a_gap() {
    Folder::each("gap", gap_in);
}

fn gap_in(folder: &Folder) {
    let world = Arc::<World>::default();
    let asked = |resume| Asked { times: 0, keep: folder.keep(resume), ..asked("a,b,c", 0) };
    let (_, said) = go_on(&world, &asked(false), ("1h", 1), None, 0);
    assert_eq!(said.over.len(), 24);
    // As if it had been killed in its 25th time, after one of three pairs had begun.
    let mut store = folder.place().open().unwrap();
    let began = InStore::RunBegan { slot: 72, attempt: 1, extra: false };
    store.keep(&MadeClock(&world).date(), &began).unwrap();
    drop(store);
    let (document, said) = go_on(&world, &asked(true), ("1h", 1), None, 0);
    assert_eq!(said.over[0].0, 26);
    let of_25 = |pair: &linerate_model::fleet::FleetPair| pair.values[24];
    assert!(document.pairs.iter().all(|pair| of_25(pair).is_none() && pair.values[25].is_some()));
}

#[test]
fn a_schedule_needs_a_file_and_a_jitter_that_fits() {
    let world = Arc::<World>::default();
    let asked = Asked { times: 0, ..asked("a,b", 0) };
    let connect =
        |_: &Access, _: &Stop| -> Result<Box<dyn HostAgent>, ErrorRecord> { Err(error("")) };
    let scheduled = |jitter_s| Scheduled {
        every: "1h".parse().unwrap(),
        jitter_s,
        for_s: Some(1),
        keep_for_s: None,
    };
    let refused = |asked: &Asked, jitter_s| {
        let by = (&connect as &dyn Reach, &MadeClock(&world) as &dyn Clock, &Stop::default());
        schedule(asked, &scheduled(jitter_s), None, by, &mut |_| ()).unwrap_err()
    };
    assert!(refused(&asked, 0).why.contains("file"));
    let folder = Folder::new("refused");
    let asked = Asked { keep: folder.keep(false), ..asked };
    assert!(refused(&asked, 3_600).why.contains("jitter"));
    assert!(!folder.file().exists());
}
