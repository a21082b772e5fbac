//! Runs with made-up hosts, and a clock that goes on by itself only while a host is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use linerate_model::record::ErrorKind;
use linerate_runner::agent::{Reply, Request};
use linerate_testkit::records;

use super::*;

/// What all hosts of a test share.
#[derive(Default)]
struct World {
    /// Hosts that are in a test now.
    busy: Mutex<BTreeSet<String>>,
    /// The next test that `b` runs loses it.
    b_dies: AtomicBool,
    lost: AtomicBool,
    now_s: AtomicU64,
    /// When each test began, in seconds, and between whom.
    began: Mutex<Vec<(u64, String)>>,
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
        for host in &both {
            assert!(world.busy.lock().unwrap().insert(host.clone()), "{host} is in two tests");
        }
        std::thread::yield_now();
        for host in &both {
            world.busy.lock().unwrap().remove(host);
        }
        if name == "b" && world.b_dies.swap(false, Ordering::SeqCst) {
            *gone = true;
            world.lost.store(true, Ordering::SeqCst);
            return Err(error("the connection ended"));
        }
        Ok(Reply::Record(Box::new(records::tcp())))
    }
}

impl HostAgent for Made {
    fn name(&self) -> &str {
        &self.1
    }

    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
        match request {
            Request::Test(test) => self.test(&test.name),
            _ if self.2 => Err(error("the connection ended")),
            _ => Ok(Reply::Done),
        }
    }
}

struct MadeClock<'a>(&'a World);

impl Clock for MadeClock<'_> {
    fn elapsed(&self) -> Duration {
        let passes = u64::from(self.0.lost.load(Ordering::SeqCst)) * 10;
        Duration::from_secs(self.0.now_s.fetch_add(passes, Ordering::SeqCst) + passes)
    }
    fn date(&self) -> String {
        String::new()
    }
    fn sleep(&self, _: Duration) {}
}

fn asked(hosts: &str, retries: u32) -> Asked {
    let names: Vec<String> = hosts.split(',').map(str::to_owned).collect();
    let fleet = Fleet::new(names.clone()).unwrap();
    let pairs = fleet.pairs(&linerate_fleet::plan::Shape::All, false).unwrap();
    let reached = |name: String| Access { name, port: 5_201, ip: None, bind: None, key: vec![] };
    let test = ["tcp", "-t", "1s"].map(str::to_owned).to_vec();
    let hosts = names.into_iter().map(reached).collect();
    Asked { fleet, pairs, hosts, test, metric: None, retries, command: vec![] }
}

fn run_in(world: &Arc<World>, asked: &Asked, stop: &Stop) -> (FleetDocument, usize) {
    let connect = |access: &Access, _: &Stop| {
        if access.name == "away" {
            return Err(error("nobody answers"));
        }
        world.lost.store(false, Ordering::SeqCst);
        let made = Made(Arc::clone(world), access.name.clone(), false);
        Ok(Box::new(made) as Box<dyn HostAgent>)
    };
    let mut ended = 0;
    let mut tell = |event: &Event<'_>| ended += usize::from(matches!(event, Event::Ended { .. }));
    let document = run(asked, &connect, &MadeClock(world), stop, &mut tell).unwrap();
    (document, ended)
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
    for pair in &document.pairs {
        let reason = (pair.from == "away").then_some("cannot go on: nobody answers");
        assert_eq!(pair.missing.as_deref(), reason);
        assert_eq!(pair.value.is_none(), reason.is_some());
        assert_eq!(pair.tries, 1 + u32::from(reason.is_some()));
    }
    assert!(!document.interrupted);
}

#[test]
fn one_that_is_to_stop_begins_nothing() {
    let (world, stop) = (Arc::default(), Stop::default());
    stop.now();
    let (document, ended) = run_in(&world, &asked("a,b,c", 1), &stop);
    assert_eq!((ended, document.interrupted), (0, true));
    assert!(document.pairs.iter().all(|pair| pair.missing.as_deref() == Some(NO_TURN)));
}
