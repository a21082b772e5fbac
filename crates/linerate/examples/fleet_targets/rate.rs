//! Tests of pairs at a rate: each is granted, written down, ordered, ended, kept and given back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linerate_broker::{Arrived, Broker};
use linerate_fleet::message::{Answer, Order, Role};
use linerate_fleet::plan::Resource;
use linerate_model::campaign::{Event, RunState, StoredRun};
use linerate_store::{LeaseAudit, Place, StoreWriter};
use linerate_testkit::postgres::Postgres;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::world::{World, meta, runtime};
use crate::{Sizes, agents, ms, p99, row};

const HOSTS: u64 = 1_000;
/// Tests begun in a second: a little more than 500,000 an hour.
const EACH_SECOND: u64 = 145;
/// What a test takes of its hosts' time.
const LENGTH: Duration = Duration::from_secs(1);
/// Longer than a slow machine takes for all of a test.
const LEASE: Duration = Duration::from_secs(300);
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections for what is written down of leases.
const AUDITS: usize = 4;
/// Coordinators that do not know of each other: each has no host in two tests of its own.
const COORDINATORS: usize = 4;
/// What all of it is called.
const RUN: &str = "run";

/// What all coordinators share.
struct Shared {
    operator: Broker,
    audits: Vec<Arc<dyn LeaseAudit>>,
    /// Who waits for the result of a turn.
    waiting: Mutex<BTreeMap<String, oneshot::Sender<Arrived>>>,
    /// Takes results to the store's thread, and says when each is there.
    store: Sender<(u32, oneshot::Sender<()>)>,
    /// The hosts that each coordinator has in a test.
    books: [Mutex<BTreeSet<u64>>; COORDINATORS],
    overlaps: AtomicU64,
    refused: AtomicU64,
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    grants: Vec<Duration>,
    orders: Vec<Duration>,
    ended: Vec<Instant>,
}

/// Prints what it comes to.
pub fn measure(sizes: &Sizes) {
    let Some(database) = Postgres::start("rate") else { return };
    let world = World::new("rate");
    let place = Place::from(OsString::from(database.address()));
    let writer = place.create(&meta()).expect("a new database");
    let audits = (0..AUDITS).map(|_| place.audit().expect("an address").expect("a database"));
    let audits = audits.map(Arc::from).collect();
    let names = (0..HOSTS).map(|number| world.agent(&format!("h{number}"))).collect();
    // Agents have a thread of their own, as they have hosts of their own.
    let (say, said) = channel();
    let (last, over) = oneshot::channel::<()>();
    let living = std::thread::spawn(move || {
        runtime().block_on(async {
            let _ = say.send(agents::connect(names, LENGTH).await);
            let _ = over.await;
        });
    });
    let twice = said.recv().expect("they connect");
    let (store, results) = channel();
    let keeping = std::thread::spawn(move || keep(writer, results));
    let begun = Instant::now();
    let shared = runtime().block_on(async {
        let (waiting, times) = (Mutex::default(), Mutex::default());
        let (overlaps, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let operator = world.operator().await;
        let books = Default::default();
        let shared =
            Arc::new(Shared { operator, audits, waiting, store, books, overlaps, refused, times });
        all(&shared, sizes.seconds).await;
        shared
    });
    let Some(shared) = Arc::into_inner(shared) else { panic!("somebody still measures") };
    let Shared { store, overlaps, refused, times, .. } = shared;
    drop((store, last));
    keeping.join().expect("it keeps them all");
    living.join().expect("they end");
    let times = times.into_inner().expect("nobody failed");
    let last = Duration::from_secs(sizes.seconds);
    let in_time = times.ended.iter().filter(|ended| ended.duration_since(begun) < last).count();
    let an_hour = in_time as u64 * 3_600 / sizes.seconds.max(1);
    let what = format!("tests of pairs of {HOSTS} hosts in an hour, for {} s", sizes.seconds);
    row(&what, "500,000", &an_hour.to_string());
    row("a lease is granted, others' waited for (p99)", "250 ms", &ms(p99(times.grants)));
    row("an order and its answer under that load (p99)", "50 ms", &ms(p99(times.orders)));
    let again = refused.into_inner();
    row("leases that another had when they were asked for", "", &again.to_string());
    let overlaps = overlaps.into_inner();
    row("leases that the constraint refused", "0", &overlaps.to_string());
    let twice = twice.load(Ordering::SeqCst);
    row("hosts that were told of two tests", "0", &twice.to_string());
    let kept = database.ask("SELECT count(*), count(DISTINCT slot) FROM linerate.run");
    let ended = times.ended.len();
    row("results kept, and their turns", &format!("{ended}|{ended}"), &kept);
    assert_eq!((overlaps, twice, kept), (0, 0, format!("{ended}|{ended}")));
}

/// Begins one after the other at the rate, whatever has ended, and waits for them all.
async fn all(shared: &Arc<Shared>, seconds: u64) {
    let mut ingest = shared.operator.ingest(RUN).await.expect("a broker");
    let (to, ends) = (Arc::clone(shared), Arc::new(Notify::new()));
    let ended = Arc::clone(&ends);
    let taking = tokio::spawn(async move {
        loop {
            tokio::select! {
                () = ended.notified() => return,
                arrived = ingest.next() => {
                    let Some(arrived) = arrived else { return };
                    let waits = to.waiting.lock().expect("nobody failed").remove(&arrived.outcome.turn);
                    if let Some(waits) = waits {
                        let _ = waits.send(arrived);
                    }
                }
            }
        }
    });
    let begun = Instant::now();
    let mut tests = JoinSet::new();
    let count = u32::try_from(seconds * EACH_SECOND).expect("a short time");
    for number in 0..count {
        let at = begun + Duration::from_secs(1) * number / u32::try_from(EACH_SECOND).expect("few");
        tokio::time::sleep_until(at.into()).await;
        tests.spawn(test(Arc::clone(shared), number));
    }
    tests.join_all().await;
    ends.notify_one();
    taking.await.expect("it ends");
}

/// Numerical Recipes' generator: which hosts meet is all that rests on it.
fn pair(seed: &mut u64) -> [u64; 2] {
    let mut next = |below: u64| {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    };
    let from = next(HOSTS);
    [from, (from + 1 + next(HOSTS - 1)) % HOSTS]
}

/// One test, from a lease until all of it is given back.
async fn test(shared: Arc<Shared>, number: u32) {
    let (turn, mut seed) = (format!("{RUN}.{number}.1"), u64::from(number) + 1);
    let audit = Arc::clone(&shared.audits[number as usize % AUDITS]);
    let asked = Instant::now();
    let book = &shared.books[number as usize % COORDINATORS];
    let (taken, [from, to], resources, lease) = loop {
        let taken = pair(&mut seed);
        if !take(book, &taken) {
            continue;
        }
        let hosts = taken.map(|host| format!("h{host}"));
        let names = hosts.each_ref().map(|host| format!("host:{host}"));
        let resources = names.each_ref().map(|name| name.parse::<Resource>().expect("a host"));
        let granted = shared.operator.grant(&resources.into(), LEASE, &turn).await;
        match granted.expect("a broker") {
            Some(lease) => break (taken, hosts, names, lease),
            None => shared.refused.fetch_add(1, Ordering::Relaxed),
        };
        // Another has one of them: it goes on with other hosts.
        free(book, &taken);
    };
    shared.times.lock().expect("nobody failed").grants.push(asked.elapsed());
    let epoch = lease.epoch.0;
    let (note, noted) = (Arc::clone(&audit), turn.clone());
    let written = move || note.granted(epoch, &noted, &resources, LEASE);
    if let Err(error) = tokio::task::spawn_blocking(written).await.expect("it ends") {
        println!("{error}");
        shared.overlaps.fetch_add(1, Ordering::Relaxed);
    }
    let (wait, come) = oneshot::channel();
    shared.waiting.lock().expect("nobody failed").insert(turn.clone(), wait);
    let (server, client) = tokio::join!(
        tell(&shared, &to, agents::prepare(epoch, Role::Server, &from, &turn)),
        tell(&shared, &from, agents::prepare(epoch, Role::Client, &to, &turn)),
    );
    let (Answer::Ready { address, port }, Answer::Done) = (&server, &client) else {
        panic!("{turn}: {server:?} {client:?}");
    };
    tell(&shared, &from, Order::Start { epoch, address: address.clone(), port: *port }).await;
    let arrived = come.await.expect("its result comes");
    let (kept, is_kept) = oneshot::channel();
    shared.store.send((number, kept)).expect("the store is there");
    is_kept.await.expect("it is kept");
    shared.operator.confirm(&arrived).await.expect("a broker");
    let end = Order::End { epoch };
    tokio::join!(tell(&shared, &to, end.clone()), tell(&shared, &from, end));
    let ended = move || audit.ended(epoch).expect("a database");
    tokio::task::spawn_blocking(ended).await.expect("it ends");
    assert!(shared.operator.give_back(&lease).await.expect("a broker"), "it was over before");
    free(book, &taken);
    shared.times.lock().expect("nobody failed").ended.push(Instant::now());
}

/// Puts both hosts into a book, if neither is there.
fn take(book: &Mutex<BTreeSet<u64>>, hosts: &[u64]) -> bool {
    let mut book = book.lock().expect("nobody failed");
    let free = hosts.iter().all(|host| !book.contains(host));
    if free {
        book.extend(hosts);
    }
    free
}

fn free(book: &Mutex<BTreeSet<u64>>, hosts: &[u64]) {
    book.lock().expect("nobody failed").retain(|host| !hosts.contains(host));
}

async fn tell(shared: &Shared, agent: &str, order: Order) -> Answer {
    let asked = Instant::now();
    let answer = shared.operator.send_order(agent, &order, PATIENCE).await.expect("it answers");
    shared.times.lock().expect("nobody failed").orders.push(asked.elapsed());
    answer
}

/// One transaction a result, as a run does it.
fn keep(
    mut writer: Box<dyn StoreWriter>,
    results: std::sync::mpsc::Receiver<(u32, oneshot::Sender<()>)>,
) {
    for (slot, kept) in results {
        let ended = Event::RunEnded { slot, attempt: 1, extra: false, state: RunState::Counted };
        writer.keep_run("", &counted(slot), &ended).expect("a database");
        let _ = kept.send(());
    }
}

/// A result with a figure.
pub fn counted(slot: u32) -> StoredRun {
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
        started: "2026-11-28T00:00:00Z".into(),
        seconds: 1.0,
        value: Some(1e6),
        metric: "received_bps".into(),
        unit: Some("bit/s".into()),
        record: Some(format!("{{\"padding\":\"{}\"}}", "x".repeat(2_000))),
        settings: vec![],
        doubts: vec![],
        error: None,
    }
}
