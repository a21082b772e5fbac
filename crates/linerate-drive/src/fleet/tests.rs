//! Runs with made-up hosts, and a clock that goes on by itself only for as long as a lease has to be waited out.

mod late;
mod schedule;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use linerate_model::campaign::{Event as InStore, RunState};
use linerate_model::fleet::FleetAnswer;
use linerate_model::fleet_now::FleetNow;
use linerate_model::record::ErrorKind;
use linerate_model::setting::{ReadBack, SettingName, SettingValue};
use linerate_runner::agent::{Reply, Request};
use linerate_store::Place;
use linerate_testkit::peer::LONG;
use linerate_testkit::postgres::Postgres;
use linerate_testkit::records;
use linerate_testkit::settings::applied;

use super::*;

type Level = fn(u64) -> f64;

/// What all hosts of a test share.
#[derive(Default)]
struct World {
    /// Hosts that are in a test now.
    busy: Mutex<BTreeSet<String>>,
    /// The next test that `b` runs loses it.
    b_dies: AtomicBool,
    /// What still passes by itself, [`LOOK_S`] at each look at the clock.
    rest_s: AtomicU64,
    /// The next test is given up, with its host, by this.
    stops: Mutex<Option<Stop>>,
    now_s: AtomicU64,
    /// By the clock on the wall, since [`BEGINS_S`].
    wall_s: AtomicU64,
    /// What a test takes.
    takes_s: AtomicU64,
    /// Part of the usual figure that a test has, by the clock on the wall.
    level: Mutex<Option<Level>>,
    /// When the clock on the wall is set, in seconds from the beginning, and by how much.
    sets: Mutex<Vec<(u64, i64)>>,
    /// What is set on each host.
    set: Mutex<std::collections::BTreeMap<String, Vec<Setting>>>,
    /// What was set on both hosts of each test.
    dressed: Mutex<Vec<[Option<Vec<Setting>>; 2]>>,
    /// Somebody else changes it on this host while it is in a test.
    forgets: Mutex<Option<String>>,
    /// So many tests have to be under way at once, each with a client of its own.
    meet: AtomicU64,
    /// When each test began, in seconds, and between whom.
    began: Mutex<Vec<(u64, String)>>,
    /// From a while after each multiple of so many seconds, who waits finds itself short before the next: months pass soon then.
    period_s: AtomicU64,
}

/// 2026-11-28T00:30:00Z.
const BEGINS_S: u64 = 1_795_825_800;

/// Seconds that pass at a look.
const LOOK_S: u64 = 5;

/// Until a lease of a test of a second is over that is granted at the next look. No more passes by itself: hosts of the
/// test after it are in time, however late a busy machine runs them.
const LEASE_S: u64 = (LOOK_S + 1 + SETUP.as_secs() + 2 * GUARD.as_secs()).next_multiple_of(LOOK_S);

impl World {
    fn pass(&self, s: u64) -> u64 {
        self.wall_s.fetch_add(s, Ordering::SeqCst);
        let now_s = self.now_s.fetch_add(s, Ordering::SeqCst) + s;
        self.sets.lock().unwrap().retain(|(at_s, by_s)| {
            let is_due = *at_s <= now_s;
            if is_due {
                let set = |wall_s: u64| wall_s.checked_add_signed(*by_s);
                self.wall_s.fetch_update(Ordering::SeqCst, Ordering::SeqCst, set).unwrap();
            }
            !is_due
        });
        now_s
    }
}

/// A host by its name, and whether it is gone.
struct Made(Arc<World>, String, bool);

fn error(why: &str) -> ErrorRecord {
    ErrorRecord::new(ErrorKind::ServerLost, "cannot go on", why, &[])
}

impl Made {
    fn test(&mut self, to: &str) -> Result<Reply, ErrorRecord> {
        let Self(world, name, gone) = self;
        let both = [name.clone(), to.to_owned()];
        let now_s = world.now_s.load(Ordering::SeqCst);
        world.began.lock().unwrap().push((now_s, both.join("/")));
        let meet = usize::try_from(world.meet.load(Ordering::SeqCst)).unwrap();
        let exclusive = if meet > 0 { &both[..1] } else { &both };
        for host in exclusive {
            assert!(world.busy.lock().unwrap().insert(host.clone()), "{host} is in two tests");
        }
        std::thread::yield_now();
        let set = |host| world.set.lock().unwrap().get(host).cloned();
        world.dressed.lock().unwrap().push(both.each_ref().map(set));
        if let Some(host) = world.forgets.lock().unwrap().as_ref() {
            world.set.lock().unwrap().remove(host);
        }
        let begun = std::time::Instant::now();
        while world.began.lock().unwrap().len() < meet {
            assert!(begun.elapsed() < LONG, "no others come");
            std::thread::sleep(Duration::from_millis(1));
        }
        for host in exclusive {
            world.busy.lock().unwrap().remove(host);
        }
        if let Some(stop) = world.stops.lock().unwrap().take() {
            stop.now();
            *gone = true;
            return Err(ErrorRecord::new(ErrorKind::Interrupted, "gave up", "interrupted", &[]));
        }
        if name == "b" && world.b_dies.swap(false, Ordering::SeqCst) {
            *gone = true;
            world.rest_s.store(LEASE_S, Ordering::SeqCst);
            return Err(error("the connection ended"));
        }
        world.pass(world.takes_s.load(Ordering::SeqCst));
        let mut record = records::tcp();
        let level = *world.level.lock().unwrap();
        if let Some((level, receiver)) = level.zip(record.totals.receiver.as_mut()) {
            receiver.bits_per_second *= level(world.wall_s.load(Ordering::SeqCst));
        }
        Ok(Reply::Record(Box::new(record)))
    }
}

impl HostAgent for Made {
    fn name(&self) -> &str {
        &self.1
    }

    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
        match request {
            Request::Test(test) => self.test(&test.name),
            Request::Apply { settings, .. } => {
                let mut set = self.0.set.lock().unwrap();
                set.entry(self.1.clone()).or_default().extend(settings.iter().cloned());
                Ok(Reply::Applied(settings.into_iter().map(applied).collect()))
            }
            Request::Read { names, .. } => {
                let set = self.0.set.lock().unwrap();
                let mine = set.get(&self.1).cloned().unwrap_or_default();
                let value = |name: &SettingName| {
                    mine.iter().find(|set| set.name == *name).map(|set| set.value.clone())
                };
                let back = names.into_iter().map(|name| {
                    let (value, why) = (value(&name), None);
                    ReadBack { name, device: None, value, why }
                });
                Ok(Reply::Read(back.collect()))
            }
            _ if self.2 => Err(error("the connection ended")),
            _ => Ok(Reply::Done),
        }
    }
}

struct MadeClock<'a>(&'a World);

impl Clock for MadeClock<'_> {
    fn elapsed(&self) -> Duration {
        let less = |rest_s: u64| rest_s.checked_sub(LOOK_S);
        let passes = self.0.rest_s.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        Duration::from_secs(self.0.pass(passes.map_or(0, |_| LOOK_S)))
    }
    fn date(&self) -> String {
        let s = BEGINS_S + self.0.wall_s.load(Ordering::SeqCst);
        jiff::Timestamp::from_second(i64::try_from(s).unwrap()).unwrap().to_string()
    }
    /// A long one, and no longer than what comes late is still begun: it ends before the next moment, since whoever is
    /// begun anew then must not come after it, how little it may be put off.
    fn sleep(&self, _: Duration) {
        let now_s = BEGINS_S + self.0.wall_s.load(Ordering::SeqCst);
        let period_s = self.0.period_s.load(Ordering::SeqCst);
        let since_s = now_s.checked_rem(period_s).filter(|since_s| *since_s > 1_200);
        let most_s = period_s.saturating_sub(600);
        self.0.pass(since_s.map_or(60, |since_s| most_s.saturating_sub(since_s).max(60)));
    }
}

fn asked(hosts: &str, retries: u32) -> Asked {
    let names: Vec<String> = hosts.split(',').map(str::to_owned).collect();
    let fleet = Fleet::new(names.clone()).unwrap();
    let pairs = fleet.pairs(&linerate_fleet::plan::Shape::All, false).unwrap();
    let reached = |name: String| Access { name, port: 5_201, ip: None, bind: None, key: vec![] };
    let test = ["tcp", "-t", "1s"].map(str::to_owned).to_vec();
    let hosts = names.into_iter().map(reached).collect();
    Asked {
        fleet,
        pairs,
        hosts,
        test,
        set: vec![],
        metric: None,
        retries,
        times: 1,
        keep: None,
        command: vec![],
    }
}

fn run_in(world: &Arc<World>, asked: &Asked, stop: &Stop) -> (FleetDocument, usize) {
    run_until(world, asked, stop, usize::MAX).unwrap()
}

/// Stops when so many tests have ended.
fn run_until(
    world: &Arc<World>,
    asked: &Asked,
    stop: &Stop,
    most: usize,
) -> Result<(FleetDocument, usize), ErrorRecord> {
    let connect = |access: &Access, _: &Stop| {
        if access.name == "away" {
            return Err(error("nobody answers"));
        }
        let made = Made(Arc::clone(world), access.name.clone(), false);
        Ok(Box::new(made) as Box<dyn HostAgent>)
    };
    let mut ended = 0;
    let mut on_event = |event: &Event<'_>| {
        ended += usize::from(matches!(event, Event::Ended { .. }));
        if ended >= most {
            stop.now();
        }
    };
    let document = run(asked, &connect, &MadeClock(world), stop, &mut on_event)?;
    Ok((document, ended))
}

/// A place for a test's results, which goes with it.
struct Folder {
    path: std::path::PathBuf,
    /// Where they are in a database.
    server: Option<Postgres>,
}

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("linerate-fleet-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self { path, server: None }
    }

    /// The same test with a file, and with a database.
    fn each<T>(name: &str, test: impl Fn(&Self) -> T) -> Vec<T> {
        let server = cfg!(feature = "postgres").then(|| Postgres::start(name)).flatten();
        let mut all = vec![test(&Self::new(name))];
        if server.is_some() {
            let mut folder = Self::new(name);
            folder.server = server;
            all.push(test(&folder));
        }
        all
    }

    fn file(&self) -> std::path::PathBuf {
        self.path.join("fleet.db")
    }

    fn place(&self) -> Place {
        let address = self.server.as_ref().map(Postgres::address);
        Place::from(address.map_or_else(|| self.file().into_os_string(), OsString::from))
    }

    fn keep(&self, resume: bool) -> Option<Keep> {
        Some(Keep { place: self.place(), resume })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// All are the same JSON, without what is another one each time: the name, and when times began by a clock that goes on
/// while a lease is waited out.
fn assert_same(documents: Vec<FleetDocument>) {
    let said = documents.into_iter().map(|document| {
        let (id, started) = (String::new(), String::new());
        serde_json::to_value(FleetDocument { id, started, begun: vec![], ..document }).unwrap()
    });
    let said: Vec<_> = said.collect();
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
}

#[test]
fn all_pairs_are_measured_and_no_host_is_in_two_tests() {
    let world = Arc::default();
    let (document, ended) = run_in(&world, &asked("a,b,c,d,e,f", 0), &Stop::default());
    assert_eq!((document.pairs.len(), document.rounds, ended), (15, 5, 15));
    assert!(document.pairs.iter().all(|pair| pair.value.is_some() && pair.tries == 1));
    assert!(document.pairs.iter().all(|pair| pair.missing.is_none()));
    assert_eq!((&*document.metric, &*document.unit), ("received_bps", "bit/s"));
}

#[test]
fn both_hosts_of_a_test_are_set_and_what_does_not_hold_is_no_result() {
    let set = vec![Setting::new("offload.gro", SettingValue::Switch(false)).unwrap()];
    let asked = Asked { set: set.clone(), ..asked("a,b,c", 0) };
    let world = Arc::default();
    let (document, _) = run_in(&world, &asked, &Stop::default());
    assert_eq!(document.set, set);
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
    let dressed = world.dressed.lock().unwrap();
    let all = dressed.iter().flatten().all(|host| {
        host.as_ref().is_some_and(|host| host.iter().all(|of_host| *of_host == set[0]))
    });
    assert!(dressed.len() == 3 && all, "{dressed:?}");

    let world = Arc::new(World { forgets: Mutex::new(Some("c".into())), ..World::default() });
    let (document, _) = run_in(&world, &asked, &Stop::default());
    for pair in &document.pairs {
        let spoiled = [&pair.from, &pair.to].into_iter().any(|host| host == "c");
        assert_eq!(pair.value.is_none(), spoiled, "{pair:?}");
        let missing = pair.missing.as_deref().unwrap_or_default();
        assert_eq!(missing.contains("did not hold on c"), spoiled, "{pair:?}");
    }
    let refused = |asked: &Asked| {
        run_until(&Arc::default(), asked, &Stop::default(), 1).expect_err("it makes no sense").why
    };
    let mut asked = asked;
    asked.fleet.meet();
    assert!(refused(&asked).contains("in one test at a time"));
    asked.set.push(Setting::new("offload.gro", SettingValue::Switch(true)).unwrap());
    assert!(refused(&asked).contains("offload.gro is set twice"));
}

#[test]
fn tests_that_may_meet_are_under_way_at_once() {
    let world = Arc::new(World { meet: AtomicU64::new(3), ..World::default() });
    let mut asked = asked("a,b,c,d", 0);
    let side = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let into_one = linerate_fleet::plan::Shape::Bipartite(side(&["a", "b", "c"]), side(&["d"]));
    asked.pairs = asked.fleet.pairs(&into_one, false).unwrap();
    asked.fleet.meet();
    let (document, ended) = run_in(&world, &asked, &Stop::default());
    assert_eq!((document.rounds, ended, document.at_once), (1, 3, true));
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
}

#[test]
fn a_host_that_is_lost_keeps_what_it_took_until_its_lease_is_over() {
    let world = Arc::new(World { b_dies: AtomicBool::new(true), ..World::default() });
    let (document, ended) = run_in(&world, &asked("a,b,c", 1), &Stop::default());
    assert_eq!(ended, 3);
    assert!(document.pairs.iter().all(|pair| pair.value.is_some()), "{document:?}");
    let tries = |from: &str| document.pairs.iter().find(|pair| pair.from == from).unwrap().tries;
    assert_eq!((tries("a"), tries("b")), (1, 2));
    let began = world.began.lock().unwrap();
    let lost = began.iter().position(|(_, pair)| pair == "b/c").unwrap();
    let (at, next) = (began[lost].0, began[lost + 1].0);
    let lease_s = (Duration::from_secs(1) + SETUP + 2 * GUARD).as_secs();
    assert!(next >= at + lease_s, "{began:?}");
}

#[test]
fn what_was_not_measured_has_a_reason_and_no_figure() {
    let world = Arc::default();
    let (document, _) = run_in(&world, &asked("away,b,c", 1), &Stop::default());
    assert_eq!(document.pairs.len(), 3);
    for pair in &document.pairs {
        let reason = (pair.from == "away").then_some("cannot go on: nobody answers");
        assert_eq!(pair.missing.as_deref(), reason);
        assert_eq!(pair.value.is_none(), reason.is_some());
        assert_eq!(pair.tries, 1 + u32::from(reason.is_some()));
    }
    assert!(!document.interrupted);
}

#[test]
fn a_reason_of_another_is_cut_before_it_is_kept() {
    let world = World::default();
    let connect =
        |_: &Access, _: &Stop| Err::<Box<dyn HostAgent>, ErrorRecord>(error(&"é".repeat(1 << 20)));
    let (clock, stop) = (MadeClock(&world), Stop::default());
    let document = run(&asked("a,b", 0), &connect, &clock, &stop, &mut |_| ()).unwrap();
    let why = document.pairs[0].missing.as_deref().unwrap_or_default();
    assert!(why.starts_with("cannot go on: éé") && why.ends_with("é…"), "{why}");
    assert_eq!(why.chars().count(), 1_001);
}

#[test]
fn one_that_is_to_stop_begins_nothing() {
    let (world, stop) = (Arc::default(), Stop::default());
    stop.now();
    let (document, ended) = run_in(&world, &asked("a,b,c", 1), &stop);
    assert_eq!((ended, document.interrupted), (0, true));
    assert!(document.pairs.iter().all(|pair| pair.missing.as_deref() == Some(NO_TURN)));
}

#[test]
fn a_test_that_was_cut_is_free_at_once_and_no_try() {
    assert_same(Folder::each("cut", cut_in));
}

fn cut_in(folder: &Folder) -> FleetDocument {
    let stop = Stop::default();
    let world = Arc::new(World { stops: Mutex::new(Some(stop.clone())), ..World::default() });
    let mut asked = Asked { keep: folder.keep(false), ..asked("a,b", 0) };
    let (cut, _) = run_in(&world, &asked, &stop);
    assert!(cut.interrupted && cut.pairs[0].value.is_none(), "{cut:?}");
    let place = folder.place();
    assert_eq!(results(&place).unwrap(), cut, "a reader is told that there is more to come");
    asked.keep = folder.keep(true);
    // Nothing passes, so that whoever waited for the end of a lease would wait for ever.
    let (document, ended) = run_in(&world, &asked, &Stop::default());
    assert_eq!((ended, document.interrupted, document.pairs[0].tries), (1, false, 2));
    assert!(document.pairs[0].value.is_some(), "{document:?}");
    document
}

#[test]
fn hosts_that_are_ready_too_late_for_their_lease_begin_nothing() {
    let world = Arc::<World>::default();
    let connect = |access: &Access, _: &Stop| {
        world.pass(GUARD.as_secs() + 5);
        let made = Made(Arc::clone(&world), access.name.clone(), false);
        Ok(Box::new(made) as Box<dyn HostAgent>)
    };
    let (clock, stop) = (MadeClock(&world), Stop::default());
    let document = run(&asked("a,b", 0), &connect, &clock, &stop, &mut |_| ()).unwrap();
    let why = document.pairs[0].missing.as_deref().unwrap_or_default();
    assert!(why.contains("ready too late"), "{document:?}");
    assert!(world.began.lock().unwrap().is_empty());
    // The host is there by then.
    let document = run(&asked("a,b", 1), &connect, &clock, &stop, &mut |_| ()).unwrap();
    assert_eq!((document.pairs[0].tries, document.pairs[0].value.is_some()), (2, true));
}

#[test]
fn all_pairs_are_measured_again_time_after_time() {
    let world = Arc::default();
    let asked = Asked { times: 3, ..asked("a,b,c,d", 0) };
    let (document, ended) = run_in(&world, &asked, &Stop::default());
    assert_eq!((document.pairs.len(), document.rounds, document.times, ended), (6, 9, 3, 18));
    assert!(document.pairs.iter().all(|pair| pair.tries == 3 && pair.values.len() == 3));
    assert_eq!(document.verdict.links, FleetAnswer::Judged);
    assert_eq!(document.verdict.bad, [], "all are the same");
    // No pair comes again before all have had their turn.
    let began = world.began.lock().unwrap();
    for time in began.chunks(6) {
        let pairs: BTreeSet<_> = time.iter().map(|(_, pair)| pair).collect();
        assert_eq!(pairs.len(), 6, "{began:?}");
    }
}

#[test]
fn what_was_kept_is_not_measured_again() {
    assert_same(Folder::each("resumed", resumed_in));
}

fn resumed_in(folder: &Folder) -> FleetDocument {
    let world = Arc::default();
    let mut asked = Asked { times: 2, keep: folder.keep(false), ..asked("a,b,c", 1) };
    let (cut, ended) = run_until(&world, &asked, &Stop::default(), 2).unwrap();
    assert_eq!((cut.interrupted, ended), (true, 2));
    let place = folder.place();
    assert_eq!(results(&place).unwrap(), cut, "a reader is told the same");
    // As if it had been killed in the middle of its third test, a/b.
    let mut store = place.open().unwrap();
    store.keep("", &InStore::RunBegan { slot: 2, attempt: 1, extra: false }).unwrap();
    drop(store);
    assert!(results(&place).unwrap().interrupted);
    let again = run_until(&world, &asked, &Stop::default(), 9).unwrap_err();
    assert_eq!(again.kind, ErrorKind::Exists);

    asked.keep = folder.keep(true);
    let before_s = world.now_s.load(Ordering::SeqCst);
    world.rest_s.store(LEASE_S, Ordering::SeqCst);
    let (document, ended) = run_in(&world, &asked, &Stop::default());
    assert_eq!(ended, 4, "{document:?}");
    assert!(document.pairs.iter().all(|pair| pair.values.iter().all(Option::is_some)));
    let tries: Vec<u32> = document.pairs.iter().map(|pair| pair.tries).collect();
    assert_eq!((tries.iter().sum::<u32>(), document.id == cut.id), (7, true));
    assert_eq!(results(&place).unwrap(), document);
    let mut began = world.began.lock().unwrap().clone();
    let lease_s = (Duration::from_secs(1) + SETUP + 2 * GUARD).as_secs();
    assert!(began[2].0 >= before_s + lease_s, "an open lease is waited out: {began:?}");
    began.sort_by(|a, b| a.1.cmp(&b.1));
    let pairs: Vec<&str> = began.iter().map(|(_, pair)| pair.as_str()).collect();
    assert_eq!(pairs, ["a/b", "a/b", "a/c", "a/c", "b/c", "b/c"]);

    // More times are added to what is there; fewer, or another test, are not the same results.
    let (document, ended) = run_in(&world, &Asked { times: 3, ..asked }, &Stop::default());
    assert_eq!((document.times, ended, document.pairs[0].values.len()), (3, 3, 3));
    let less = Asked { times: 2, keep: folder.keep(true), ..self::asked("a,b,c", 1) };
    let refused = run_until(&world, &less, &Stop::default(), 9).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::PlanChanged);
    assert!(refused.why.contains("--times"), "{refused:?}");
    let mut shared = Asked { times: 3, keep: folder.keep(true), ..self::asked("a,b,c", 1) };
    shared.fleet.share("link:up".parse().unwrap(), &["a".to_owned()]).unwrap();
    let refused = run_until(&world, &shared, &Stop::default(), 9).unwrap_err();
    assert!(refused.why.contains("--share"), "{refused:?}");
    results(&place).unwrap()
}

#[test]
fn an_open_lease_is_waited_out_also_of_a_test_that_is_not_tried_again() {
    assert_same(Folder::each("open", open_lease_in));
}

fn open_lease_in(folder: &Folder) -> FleetDocument {
    let world = Arc::default();
    let mut asked = Asked { keep: folder.keep(false), ..asked("a,b,c", 1) };
    run_until(&world, &asked, &Stop::default(), 1).unwrap();
    let mut store = folder.place().open().unwrap();
    for event in [
        InStore::RunBegan { slot: 2, attempt: 1, extra: false },
        InStore::RunEnded { slot: 2, attempt: 1, extra: false, state: RunState::Failed },
        InStore::RunBegan { slot: 2, attempt: 2, extra: false },
    ] {
        store.keep("", &event).unwrap();
    }
    drop(store);
    (asked.keep, asked.retries) = (folder.keep(true), 0);
    let before_s = world.now_s.load(Ordering::SeqCst);
    world.rest_s.store(LEASE_S, Ordering::SeqCst);
    run_in(&world, &asked, &Stop::default());
    let began = world.began.lock().unwrap();
    let lease_s = (Duration::from_secs(1) + SETUP + 2 * GUARD).as_secs();
    assert_eq!(began.len(), 2, "{began:?}");
    assert!(began[1].0 >= before_s + lease_s, "{began:?}");
    results(&folder.place()).unwrap()
}

#[test]
fn a_store_of_a_campaign_has_no_results_of_a_fleet() {
    let folder = Folder::new("foreign");
    let path = folder.path.join("campaign.db");
    let meta = linerate_store::Meta {
        name: "a campaign".into(),
        plan: String::new(),
        plan_path: path.clone(),
        seed: 1,
        created: String::new(),
        version: String::new(),
    };
    let writer = linerate_store::Campaign::create(&path, &meta, &[]).unwrap();
    let place = Place::File(path);
    let (world, stopped) = (World::default(), Stop::default());
    stopped.now();
    let ended = end(&place, &MadeClock(&world), &stopped);
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Foreign, "it would be waited for without end");
    drop(writer);
    assert_eq!(results(&place).unwrap_err().kind, ErrorKind::Foreign);
    assert_eq!(results(&folder.place()).unwrap_err().kind, ErrorKind::Store);
}

#[test]
fn results_are_followed_while_a_run_writes_them() {
    assert_same(Folder::each("followed", followed_in));
}

fn followed_in(folder: &Folder) -> FleetDocument {
    let world = Arc::default();
    let asked = Asked { times: 2, keep: folder.keep(false), ..asked("a,b,c", 0) };
    run_until(&world, &asked, &Stop::default(), 2).unwrap();
    let place = folder.place();
    let (mut followed, now) = Followed::open(&place).unwrap();
    assert_eq!((&now.document, now.running), (&results(&place).unwrap(), false));
    // Of the pairs as the document has them, where b/c is the last.
    let ended = |now: &FleetNow| -> Vec<_> {
        let ended = now.tests.iter().filter_map(|test| Some((test, test.end.as_ref()?)));
        ended.map(|(test, end)| (test.pair, test.time, end.number, end.recorded)).collect()
    };
    assert_eq!(ended(&now), [(2, 1, 1, true), (1, 1, 2, true)]);
    assert!(now.tests.iter().all(|test| test.end.as_ref().unwrap().result.is_ok()));
    assert_eq!(followed.look().unwrap(), None);

    let mut store = place.open().unwrap();
    assert!(followed.look().unwrap().unwrap().running);
    let date = "2026-01-02T03:04:05.5Z";
    store.keep(date, &InStore::RunBegan { slot: 2, attempt: 1, extra: false }).unwrap();
    let now = followed.look().unwrap().unwrap();
    let under_way: Vec<_> = now.under_way().map(|test| (test.pair, test.began_s)).collect();
    assert_eq!(under_way, [(0, Some(1_767_323_045.5))]);
    assert_eq!(now.document, results(&place).unwrap());
    assert!(record(&place, 1).unwrap().unwrap().contains("\"protocol\":\"tcp\""));
    assert_eq!(record(&place, 3).unwrap(), None);
    drop(store);
    let now = followed.look().unwrap().unwrap();
    assert_eq!((now.under_way().count(), now.tests.len()), (0, 3));
    now.document
}

#[test]
fn another_file_may_take_the_place_of_one_that_is_followed() {
    let (folder, world) = (Folder::new("replaced"), Arc::default());
    let asked = |name: &str, hosts| {
        let place = Place::File(folder.path.join(name));
        Asked { keep: Some(Keep { place, resume: false }), ..asked(hosts, 0) }
    };
    run_in(&world, &asked("fleet.db", "a,b,c"), &Stop::default());
    let (mut followed, _) = Followed::open(&folder.place()).unwrap();
    let (document, _) = run_in(&world, &asked("other.db", "x,y"), &Stop::default());
    std::fs::rename(folder.path.join("other.db"), folder.file()).unwrap();
    let now = followed.look().unwrap().unwrap();
    assert_eq!((now.document, now.tests.len()), (document, 1));
    std::fs::remove_file(folder.file()).unwrap();
    assert_eq!(followed.look().unwrap_err().kind, ErrorKind::Store);
}
