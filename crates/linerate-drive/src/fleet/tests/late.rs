//! What comes of a test while nobody waits for it.

use std::collections::BTreeMap;

use super::*;

/// Hosts whose results outlast who asked for them.
pub(super) struct Outlasting {
    world: Arc<World>,
    /// What came of one test, while nobody was there.
    came: Result<RunRecord, ErrorRecord>,
    /// Slot and attempt of that test, and its client.
    of: (&'static str, &'static str),
    /// It comes once so many tests have begun.
    after: usize,
    pub(super) kept: Mutex<BTreeSet<String>>,
    /// Of these, turns that ended without a record, and how many tests had begun when that was first said.
    given_up: Mutex<BTreeMap<String, usize>>,
    run: Mutex<String>,
    /// Below which slot all is over, and what was known of that when it began.
    passed: [AtomicU64; 2],
}

impl Outlasting {
    /// Of the test `.2.1` of client `a`.
    pub(super) fn of(world: &Arc<World>) -> Self {
        let (kept, run, of) = (Mutex::default(), Mutex::default(), ("2.1", "a"));
        let (given_up, passed, after) = (Mutex::default(), Default::default(), 0);
        let (world, came) = (Arc::clone(world), Ok(records::tcp()));
        Self { world, came, of, after, kept, given_up, run, passed }
    }

    /// With the only test of a time, from 0.
    pub(super) fn of_time(world: &Arc<World>, time: u32) -> Self {
        Self { of: (format!("{time}.1").leak(), "a"), ..Self::of(world) }
    }

    /// The slot below which all was deleted, by what it was told before it began.
    pub(super) fn began_after(&self) -> u64 {
        self.passed[1].load(Ordering::SeqCst)
    }
}

impl Reach for Outlasting {
    fn begin(&self, run: &str) -> Result<(), ErrorRecord> {
        run.clone_into(&mut self.run.lock().unwrap());
        self.passed[1].store(self.passed[0].load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(())
    }

    fn connect(&self, access: &Access, _: &Stop) -> Result<Box<dyn HostAgent>, ErrorRecord> {
        Ok(Box::new(Made(Arc::clone(&self.world), access.name.clone(), false)))
    }

    fn came(&self, turn: &str, client: &str) -> Option<Result<RunRecord, ErrorRecord>> {
        let is_it =
            turn == format!("{}.{}", self.run.lock().unwrap(), self.of.0) && client == self.of.1;
        // What is kept for good is let go of.
        let has_come = self.world.began.lock().unwrap().len() >= self.after
            && !self.kept.lock().unwrap().contains(turn);
        let came = (is_it && has_come).then(|| self.came.clone());
        if came.is_some() {
            // Nobody waits for the end of its lease.
            self.world.rest_s.store(0, Ordering::SeqCst);
        }
        came
    }

    fn kept(&self, turn: &str) {
        self.kept.lock().unwrap().insert(turn.to_owned());
    }

    fn given_up(&self, turn: &str) {
        let began = self.world.began.lock().unwrap().len();
        self.given_up.lock().unwrap().entry(turn.to_owned()).or_insert(began);
        self.kept(turn);
    }

    fn passed(&self, below: u64) {
        self.passed[0].store(below, Ordering::SeqCst);
    }
}

#[test]
fn what_came_while_nobody_was_there_is_a_result_and_is_not_waited_for() {
    assert_same(Folder::each("late", late_in));
}

fn late_in(folder: &Folder) -> FleetDocument {
    let world = Arc::default();
    let mut asked = Asked { times: 2, keep: folder.keep(false), ..asked("a,b,c", 1) };
    let (cut, _) = run_until(&world, &asked, &Stop::default(), 2).unwrap();
    let mut store = folder.place().open().unwrap();
    let date = "2026-11-27T00:00:00Z";
    store.keep(date, &InStore::RunBegan { slot: 2, attempt: 1, extra: false }).unwrap();
    drop(store);
    asked.keep = folder.keep(true);
    let reach = Outlasting::of(&world);
    let mut ended = 0;
    let mut on_event =
        |event: &Event<'_>| ended += usize::from(matches!(event, Event::Ended { .. }));
    // Nothing passes here, so that whoever waited for the end of a lease would wait for ever.
    let clock = MadeClock(&world);
    let document = run(&asked, &reach, &clock, &Stop::default(), &mut on_event).unwrap();
    assert_eq!((document.id == cut.id, ended), (true, 4), "{document:?}");
    assert!(document.pairs.iter().all(|pair| pair.values.iter().all(Option::is_some)));
    assert_eq!(document.pairs.iter().map(|pair| pair.tries).sum::<u32>(), 6, "{document:?}");
    assert_eq!(world.began.lock().unwrap().len(), 5, "one of them was measured by nobody here");
    // Also of those that were kept before, which nobody may have been told.
    let turns: BTreeSet<String> = (0..6).map(|slot| format!("{}.{slot}.1", cut.id)).collect();
    assert_eq!(*reach.kept.lock().unwrap(), turns);
    assert_eq!(reach.passed[0].load(Ordering::SeqCst), 3, "of the first time nobody asks any more");
    assert_eq!(results(&folder.place()).unwrap(), document);
    let now = Followed::open(&folder.place()).unwrap().1;
    let of_before = now.tests.iter().filter(|test| test.began == date);
    assert_eq!(of_before.count(), 1, "it began before it was killed: {:?}", now.tests);
    document
}

/// As it was killed in its third test of three, a/b.
fn killed_in_its_third(folder: &Folder, asked: &Asked) {
    run_until(&Arc::default(), asked, &Stop::default(), 2).unwrap();
    let mut store = folder.place().open().unwrap();
    store.keep("", &InStore::RunBegan { slot: 2, attempt: 1, extra: false }).unwrap();
}

#[test]
fn a_result_of_hosts_on_which_something_was_set_is_none_if_nobody_was_told_that_it_held() {
    let (folder, world) = (Folder::new("unsure"), Arc::default());
    let set = vec![Setting::new("offload.gro", SettingValue::Switch(false)).unwrap()];
    let mut asked = Asked { keep: folder.keep(false), set, ..asked("a,b,c", 1) };
    killed_in_its_third(&folder, &asked);
    asked.keep = folder.keep(true);
    let (reach, clock) = (Outlasting::of(&world), MadeClock(&world));
    let document = run(&asked, &reach, &clock, &Stop::default(), &mut |_| ()).unwrap();
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
    assert_eq!(document.pairs[0].tries, 2, "{document:?}");
    assert_eq!(world.began.lock().unwrap().len(), 1, "that one is measured again");
}

#[test]
fn what_comes_after_its_host_was_lost_is_a_result_until_its_lease_is_over() {
    let world = Arc::new(World { b_dies: AtomicBool::new(true), ..World::default() });
    let reach = Outlasting { of: ("0.1", "b"), ..Outlasting::of(&world) };
    let (asked, clock) = (asked("a,b,c", 1), MadeClock(&world));
    let document = run(&asked, &reach, &clock, &Stop::default(), &mut |_| ()).unwrap();
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
    assert!(document.pairs.iter().all(|pair| pair.tries == 1), "{document:?}");
}

#[test]
fn what_comes_before_its_pair_is_tried_again_is_its_result() {
    let world = Arc::new(World { b_dies: AtomicBool::new(true), ..World::default() });
    // Long after its lease: all others have had their turn.
    let reach = Outlasting { of: ("0.1", "b"), after: 3, ..Outlasting::of(&world) };
    let (asked, clock) = (asked("a,b,c", 1), MadeClock(&world));
    let document = run(&asked, &reach, &clock, &Stop::default(), &mut |_| ()).unwrap();
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
    let tries = document.pairs.iter().map(|pair| pair.tries).sum::<u32>();
    assert_eq!((tries, world.began.lock().unwrap().len()), (4, 3), "it is not measured again");
    assert!(reach.given_up.lock().unwrap().is_empty(), "nothing is lost");
    let kept = reach.kept.lock().unwrap();
    assert!(kept.contains(&format!("{}.0.1", document.id)), "its agent need keep it no more");
}

#[test]
fn what_comes_before_its_pair_is_tried_again_is_its_result_where_a_run_goes_on() {
    let (folder, world) = (Folder::new("since"), Arc::default());
    let mut asked = Asked { keep: folder.keep(false), ..asked("a,b,c", 1) };
    killed_in_its_third(&folder, &asked);
    let mut store = folder.place().open().unwrap();
    let lost = InStore::RunEnded { slot: 2, attempt: 1, extra: false, state: RunState::Failed };
    store.keep("", &lost).unwrap();
    drop(store);
    asked.keep = folder.keep(true);
    let (reach, clock) = (Outlasting::of(&world), MadeClock(&world));
    let document = run(&asked, &reach, &clock, &Stop::default(), &mut |_| ()).unwrap();
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
    assert!(world.began.lock().unwrap().is_empty(), "it is not measured again");
    let turns: BTreeSet<String> =
        [".0.1", ".1.1", ".2.1", ".2.2"].map(|turn| document.id.clone() + turn).into();
    assert_eq!(*reach.kept.lock().unwrap(), turns, "their agents need keep them no more");
}

/// Only so many results of an agent may wait for their pairs' next tries: one that says why there is none is not to be among them.
#[test]
fn why_there_is_no_result_is_not_held_until_its_pair_is_tried_again() {
    let world = Arc::new(World { b_dies: AtomicBool::new(true), ..World::default() });
    let came = Err(error("nobody answers"));
    let reach = Outlasting { of: ("0.1", "b"), came, ..Outlasting::of(&world) };
    let (asked, clock) = (asked("a,b,c", 1), MadeClock(&world));
    let document = run(&asked, &reach, &clock, &Stop::default(), &mut |_| ()).unwrap();
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
    let expected = BTreeMap::from([(format!("{}.0.1", document.id), 1)]);
    assert_eq!(*reach.given_up.lock().unwrap(), expected, "before another began");
}

#[test]
fn a_test_of_which_nothing_came_before_its_lease_was_over_is_given_up() {
    let world = Arc::new(World { b_dies: AtomicBool::new(true), ..World::default() });
    let reach = Outlasting { of: ("none", "b"), ..Outlasting::of(&world) };
    let (asked, clock) = (asked("a,b,c", 1), MadeClock(&world));
    let document = run(&asked, &reach, &clock, &Stop::default(), &mut |_| ()).unwrap();
    let (given_up, kept) = (reach.given_up.lock().unwrap(), reach.kept.lock().unwrap());
    assert!(given_up.contains_key(&format!("{}.0.1", document.id)), "{given_up:?}");
    let measured = document.pairs.iter().filter(|pair| pair.value.is_some()).count();
    assert_eq!(kept.len(), given_up.len() + measured, "{document:?}");
}

#[test]
fn what_came_is_a_result_however_long_it_takes_to_keep_what_came_before_it() {
    let world = Arc::<World>::default();
    // Both are of one round.
    let pairs = vec![Pair { from: 0, to: 1 }, Pair { from: 2, to: 3 }];
    let asked = Asked { pairs, ..asked("a,b,c,d", 0) };
    let wanted = Wanted::of(&asked).unwrap();
    let (reach, clock, stop) = (Outlasting::of(&world), MadeClock(&world), &Stop::default());
    let mut run = Run::new(&asked, &wanted, &clock, &reach).unwrap();
    let ((done, from_hosts), (both, came)) = (channel::<Came>(), channel::<Came>());
    let sent = &AtomicBool::new(false);
    let mut on_event = |event: &Event<'_>| {
        if matches!(event, Event::Ended { .. }) {
            let begun = std::time::Instant::now();
            while !sent.load(Ordering::SeqCst) {
                assert!(begun.elapsed() < LONG, "the other does not come");
                std::thread::sleep(Duration::from_millis(1));
            }
            // Longer than a lease.
            world.pass(600);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let all: Vec<Came> = (0..2).map(|_| from_hosts.recv_timeout(LONG).unwrap()).collect();
            all.into_iter().for_each(|one| both.send(one).unwrap());
            sent.store(true, Ordering::SeqCst);
        });
        run.begin(0, &mut on_event);
        run.measure_all(scope, (&done, &came), stop, &mut on_event);
    });
    let document = run.results.document(&run.head, false);
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
    assert!(document.pairs.iter().all(|pair| pair.tries == 1), "{document:?}");
}

/// Goes on with a schedule of all pairs of a, b and c for some seconds, of which one test was under way when it was killed.
fn go_on_with(folder: &Folder, reach: &Outlasting, world: &World, for_s: u64) -> FleetNow {
    let asked = Asked { times: 0, keep: folder.keep(true), ..asked("a,b,c", 0) };
    let every = "6h".parse().unwrap();
    let scheduled = Scheduled { every, jitter_s: 0, for_s: Some(for_s), keep_for_s: None };
    let by = (reach as &dyn Reach, &MadeClock(world) as &dyn Clock, &Stop::default());
    schedule(&asked, &scheduled, None, by, &mut |_| {}).unwrap();
    Followed::open(&folder.place()).unwrap().1
}

#[test]
fn what_was_under_way_when_a_schedule_was_killed_is_ended_when_it_goes_on() {
    let world = Arc::<World>::default();
    for (of, for_s, value) in [("2.1", 0, true), ("9.1", 600, false)] {
        let folder = Folder::new("left");
        let asked = Asked { times: 0, keep: folder.keep(false), ..asked("a,b,c", 0) };
        let wanted = Wanted::of(&asked).unwrap();
        drop(Run::new(&asked, &wanted, &MadeClock(&world), &Outlasting::of(&world)));
        let mut store = folder.place().open().unwrap();
        let began = InStore::RunBegan { slot: 2, attempt: 1, extra: false };
        let date = MadeClock(&world).date();
        store.keep(&date, &began).unwrap();
        drop(store);
        world.pass(3_600);
        let reach = Outlasting { of: (of, "a"), ..Outlasting::of(&world) };
        let now = go_on_with(&folder, &reach, &world, for_s);
        assert_eq!((now.under_way().count(), now.tests.len()), (0, 1), "{of}: {:?}", now.tests);
        assert_eq!(now.tests[0].end.as_ref().unwrap().result.is_ok(), value, "{of}");
        assert_eq!(now.tests[0].began, date, "{of}: not when it was gone on with");
        assert!(!now.document.interrupted, "nobody goes on with a moment that is over");
        let turn = format!("{}.2.1", now.document.id);
        assert!(reach.kept.lock().unwrap().contains(&turn), "its agent need keep it no more");
    }
}
