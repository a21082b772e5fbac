//! A fleet whose hosts are agents of a broker: takes what a test needs from all other coordinators, has both its hosts make
//! ready, and waits for the result, which comes by the broker also where this process has died meanwhile.

mod agent;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use linerate_broker::lease::Lease;
use linerate_broker::{Arrived, Broker, Credentials, Ingest};
use linerate_drive::fleet::Reach;
use linerate_drive::{Clock as _, SystemClock};
use linerate_fleet::message::{Answer, Came, Order};
use linerate_fleet::plan::Fleet;
use linerate_model::fleet_events::{FleetEvent, FleetSaid};
use linerate_model::record::{ErrorKind, ErrorRecord, RunRecord};
use linerate_model::setting::Setting;
use linerate_runner::agent::{Access, HostAgent};
use linerate_runner::clock;
use linerate_runner::random::random;
use linerate_runner::signals::Stop;
use linerate_store::LeaseAudit;
use linerate_wire::native::auth::to_hex;
use tokio::runtime::{Handle, Runtime};

use super::broker;

/// What happened is said so often until the broker takes it, and then given up.
const TRIES: usize = 5;
/// Between them.
const SOON: Duration = Duration::from_secs(2);
/// An agent answers within this long: it may wait for the end of the test before.
const PATIENCE: Duration = Duration::from_secs(25);
/// What has to come is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Where no result has come for so long the broker is asked whether it knows that they are read.
const QUIET: Duration = Duration::from_secs(60);
/// Results of one agent that wait for somebody to keep them. It is in one test at a time: more are of a run that was killed.
const MOST_WAITING: usize = 64;
/// Of slots that are over, so many turns are known of which a result would still come late.
const MOST_GIVEN_UP: usize = 10_000;

/// The results of a run, as they come.
#[derive(Default)]
struct Results {
    /// Nobody has kept these yet: by turn and agent, since an agent can call its results as it likes.
    arrived: BTreeMap<(String, String), Arrived>,
    /// Turns whose result is wanted no more, by their slot, and whether none had come: if one comes, only that is said.
    kept: BTreeMap<(u64, String), bool>,
    /// Nor is that of any slot below this: those are over, or deleted.
    below: u64,
    /// Results that came after their tests were given up.
    late: usize,
    /// So many things are being said to the broker now.
    speaking: usize,
}

/// A turn with its slot; the highest where it names none.
fn by_slot(turn: &str) -> (u64, String) {
    let slot = turn.rsplit('.').nth(1).and_then(|slot| slot.parse().ok());
    (slot.unwrap_or(u64::MAX), turn.to_owned())
}

impl Results {
    /// Whether the result of a turn is wanted no more.
    fn is_over(&self, turn: &str) -> bool {
        let turn = by_slot(turn);
        turn.0 < self.below || self.kept.contains_key(&turn)
    }

    /// The same of one that has come.
    fn comes_late(&mut self, turn: &str) -> bool {
        let first = self.kept.get_mut(&by_slot(turn)).is_some_and(std::mem::take);
        self.late = self.late.saturating_add(usize::from(first));
        self.is_over(turn)
    }

    /// The result of a turn is wanted no more; one that was kept is not given up afterwards. Returns what has come of it.
    fn end(&mut self, turn: &str, given_up: bool) -> Vec<Arrived> {
        let of_turn = |(of, _): &(String, String), _: &mut Arrived| of == turn;
        let arrived = self.arrived.extract_if(.., of_turn).map(|(_, arrived)| arrived);
        let arrived: Vec<Arrived> = arrived.collect();
        self.kept.entry(by_slot(turn)).or_insert(given_up && arrived.is_empty());
        arrived
    }

    /// All slots below this are over. Of them only turns are known by name whose result would come late. Returns what has
    /// come of them.
    fn pass(&mut self, below: u64) -> Vec<Arrived> {
        self.below = self.below.max(below);
        let below = self.below;
        self.kept.retain(|(slot, _), given_up| *slot >= below || *given_up);
        let known = self.kept.range(..(below, String::new())).count();
        for _ in MOST_GIVEN_UP..known {
            self.kept.pop_first();
        }
        let is_passed = |(turn, _): &(String, String), _: &mut Arrived| by_slot(turn).0 < below;
        self.arrived.extract_if(.., is_passed).map(|(_, arrived)| arrived).collect()
    }
}

/// A connection to the broker of a fleet, with a thread of its own.
pub struct Agents {
    broker: Broker,
    handle: Handle,
    fleet: Fleet,
    /// Where leases are written down, if that is asked for.
    audit: Option<Box<dyn LeaseAudit>>,
    clock: SystemClock,
    results: Mutex<Results>,
    news: Condvar,
}

/// One of them as a host.
struct Agent {
    agents: Arc<Agents>,
    id: String,
    turn: String,
    /// What both hosts of a test set.
    set: Vec<Setting>,
    stop: Stop,
}

/// What [`Agents`] is reached by.
pub struct Nats(Arc<Agents>);

fn failed(what: &str, why: &dyn std::fmt::Display) -> ErrorRecord {
    ErrorRecord::new(ErrorKind::Unable, format!("cannot {what}"), why.to_string(), &[])
}

/// A runtime that a thread of its own drives, for as long as the process lives.
fn runtime() -> Result<Handle, ErrorRecord> {
    let runtime: Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| failed("use the broker", &e))?;
    let handle = runtime.handle().clone();
    let drive = move || runtime.block_on(std::future::pending::<()>());
    Builder::new().name("broker".into()).spawn(drive).map_err(|e| failed("use the broker", &e))?;
    Ok(handle)
}

impl Nats {
    /// Connects; makes the broker's streams if it is new.
    pub fn connect(
        credentials: &Credentials,
        fleet: Fleet,
        audit: Option<Box<dyn LeaseAudit>>,
        now_ms: u64,
    ) -> Result<Self, ErrorRecord> {
        let handle = runtime()?;
        let broker = handle.block_on(async {
            let broker = Broker::connect(credentials).await?;
            broker.make_streams(now_ms).await?;
            Ok::<_, ErrorRecord>(broker)
        })?;
        let (clock, results, news) = (SystemClock::default(), Mutex::default(), Condvar::new());
        Ok(Self(Arc::new(Agents { broker, handle, fleet, audit, clock, results, news })))
    }

    /// The run is over: waits until what was said of its results is said, as far as the broker is there. Of a run that is
    /// `complete` nobody wants what else has come. Says how much was not wanted.
    pub fn end(&self, complete: bool) -> usize {
        let left = match complete {
            true => std::mem::take(&mut self.0.lock().arrived),
            false => BTreeMap::new(),
        };
        let count = self.0.lock().late.saturating_add(left.len());
        Agents::confirm(&self.0, left.into_values().collect());
        let busy = |results: &mut Results| results.speaking > 0;
        let _ = self.0.news.wait_timeout_while(self.0.lock(), PATIENCE, busy);
        count
    }
}

impl Agents {
    fn lock(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes of a turn is wanted no more.
    fn over(this: &Arc<Self>, turn: &str, given_up: bool) {
        let arrived = this.lock().end(turn, given_up);
        Self::confirm(this, arrived);
    }

    /// Takes in what comes, for as long as there is a connection.
    async fn take_in(self: Arc<Self>, run: String, mut ingest: Ingest) {
        loop {
            match tokio::time::timeout(QUIET, ingest.next()).await {
                Ok(Some(arrived)) => self.take(arrived).await,
                Ok(None) => return,
                Err(_) => {
                    if let Some(anew) = self.read_anew(&run).await {
                        ingest = anew;
                    }
                }
            }
        }
    }

    /// Where the broker has forgotten that the results of a run are read, or has lost its files, all is made anew.
    async fn read_anew(&self, run: &str) -> Option<Ingest> {
        if self.broker.is_read(run).await.unwrap_or(true) {
            return None;
        }
        self.broker.make_streams(broker::millis()).await.ok()?;
        self.broker.ingest(run).await.ok()
    }

    /// Says again of what was kept that it was; all else waits for whoever wants it.
    async fn take(self: &Arc<Self>, arrived: Arrived) {
        let kept = {
            let mut results = self.lock();
            let name = (arrived.outcome.turn.clone(), arrived.agent.clone());
            let kept = results.comes_late(&name.0);
            let of_agent = results.arrived.keys().filter(|(_, agent)| *agent == name.1).count();
            if !kept && (of_agent < MOST_WAITING || results.arrived.contains_key(&name)) {
                results.arrived.insert(name, arrived);
                self.news.notify_all();
                return;
            }
            kept
        };
        match kept {
            true => Self::confirm(self, vec![arrived]),
            // Its agent sends it again.
            false => self.broker.leave(arrived).await,
        }
    }

    /// Says of results that they are kept, or never will be. Where that does not arrive they come again.
    fn confirm(this: &Arc<Self>, all: Vec<Arrived>) {
        if all.is_empty() {
            return;
        }
        let agents = Arc::clone(this);
        Self::speak(this, async move {
            for arrived in all {
                let _ = agents.broker.confirm(&arrived).await;
            }
            let _ = agents.broker.flush().await;
        });
    }

    /// Says what happened, with the pair of this client.
    fn say(this: &Arc<Self>, client: &str, event: FleetEvent) {
        let (agents, client) = (Arc::clone(this), client.to_owned());
        let said = FleetSaid { at: clock::wall().to_string(), event };
        let id = to_hex(&random::<16>());
        Self::speak(this, async move {
            for _ in 0..TRIES {
                match agents.broker.say(&client, &id, &said).await {
                    Ok(()) => return,
                    Err(_) => tokio::time::sleep(SOON).await,
                }
            }
        });
    }

    /// Beside all else; the end of a run waits for it.
    fn speak(this: &Arc<Self>, words: impl Future<Output = ()> + Send + 'static) {
        this.lock().speaking += 1;
        let agents = Arc::clone(this);
        this.handle.spawn(async move {
            words.await;
            let mut results = agents.lock();
            results.speaking = results.speaking.saturating_sub(1);
            drop(results);
            agents.news.notify_all();
        });
    }

    /// What came of a turn of this agent; it stays until it is kept.
    fn result(&self, turn: &str, agent: &str) -> Option<Result<RunRecord, ErrorRecord>> {
        let results = self.lock();
        Some(match &results.arrived.get(&(turn.to_owned(), agent.to_owned()))?.outcome.came {
            Came::Record(record) => Ok((**record).clone()),
            Came::Failed(error) => Err((**error).clone()),
        })
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn send_order(&self, agent: &str, order: &Order) -> Result<Answer, ErrorRecord> {
        self.handle.block_on(self.broker.send_order(agent, order, PATIENCE))
    }

    /// Has both hosts end what they do under a lease, and gives it back. Says whether it was there until then, where it did,
    /// and why the server's host is against what was measured, or does not say that it is not.
    async fn free(
        self: &Arc<Self>,
        from: &str,
        to: &str,
        lease: &Lease,
        started: bool,
    ) -> (Option<bool>, Option<ErrorRecord>) {
        let end = Order::End { epoch: lease.epoch.0 };
        let ended = tokio::join!(
            self.broker.send_order(to, &end, PATIENCE),
            self.broker.send_order(from, &end, PATIENCE)
        );
        let (server, spoiled) = match ended.0 {
            Ok(_) => (true, None),
            Err(error) => (error.kind == ErrorKind::HelperLost, Some(error)),
        };
        let at_nothing = match &ended.1 {
            Ok(_) => server || !started,
            // Without the word to start it sends nothing.
            Err(error) => !started && error.kind == ErrorKind::HostGone,
        };
        let held = match at_nothing && self.note_end(lease.epoch.0).await {
            true => self.broker.give_back(lease).await.ok(),
            false => None,
        };
        (held, spoiled)
    }

    /// Writes down that a lease is over, before another can be granted. Says whether that was done.
    async fn note_end(self: &Arc<Self>, epoch: u64) -> bool {
        if self.audit.is_none() {
            return true;
        }
        let agents = Arc::clone(self);
        let ended = move || agents.audit.as_ref().is_some_and(|audit| audit.ended(epoch).is_ok());
        tokio::task::spawn_blocking(ended).await.unwrap_or(false)
    }

    /// Both at once.
    fn tell_both(&self, orders: [(&str, Order); 2]) -> [Result<Answer, ErrorRecord>; 2] {
        let [(a, first), (b, second)] = orders;
        let both = async {
            tokio::join!(
                self.broker.send_order(a, &first, PATIENCE),
                self.broker.send_order(b, &second, PATIENCE)
            )
        };
        self.handle.block_on(both).into()
    }
}

impl Reach for Nats {
    fn begin(&self, run: &str) -> Result<(), ErrorRecord> {
        let agents = Arc::clone(&self.0);
        // What is there already is known before the first test begins.
        self.0.handle.block_on(async {
            let ingest = agents.broker.ingest(run).await?;
            agents.handle.spawn(Arc::clone(&agents).take_in(run.to_owned(), ingest));
            Ok(())
        })
    }

    fn connect(&self, access: &Access, stop: &Stop) -> Result<Box<dyn HostAgent>, ErrorRecord> {
        let (agents, id) = (Arc::clone(&self.0), access.name.clone());
        let (turn, set, stop) = (String::new(), Vec::new(), stop.clone());
        Ok(Box::new(Agent { agents, id, turn, set, stop }))
    }

    fn came(&self, turn: &str, client: &str) -> Option<Result<RunRecord, ErrorRecord>> {
        self.0.result(turn, client)
    }

    fn kept(&self, turn: &str) {
        Agents::over(&self.0, turn, false);
    }

    fn given_up(&self, turn: &str) {
        Agents::over(&self.0, turn, true);
    }

    fn passed(&self, below: u64) {
        let arrived = self.0.lock().pass(below);
        Agents::confirm(&self.0, arrived);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_wanted_no_more_and_what_cannot_be_told_is() {
        let kept = BTreeMap::from([(by_slot("run.9.1"), false)]);
        let results = Results { kept, below: 6, ..Results::default() };
        for (turn, is_over) in [
            ("run.5.1", true),
            ("run.0.7", true),
            ("run.6.1", false),
            ("run.9.1", true),
            ("run.9.2", false),
            ("run.x.1", false),
            ("run", false),
            ("", false),
        ] {
            assert_eq!(results.is_over(turn), is_over, "{turn}");
        }
        assert!(!Results::default().is_over("run.0.1"), "nothing is over");
    }

    #[test]
    fn months_of_results_leave_no_names_but_of_some_that_may_come_late() {
        let mut results = Results::default();
        let most = u64::try_from(MOST_GIVEN_UP).unwrap();
        let mut time = |slots: std::ops::Range<u64>, below: u64| {
            for slot in slots {
                // Each of them failed first, and was measured then.
                results.kept.insert(by_slot(&format!("run.{slot}.1")), true);
                results.kept.insert(by_slot(&format!("run.{slot}.2")), false);
            }
            assert!(results.pass(below).is_empty());
            results.kept.len()
        };
        assert_eq!(time(0..100, 0), 200, "nothing is over");
        assert_eq!(time(100..200, 100), 300);
        assert_eq!(time(200..3 * most, 3 * most), MOST_GIVEN_UP);
        assert_eq!(time(3 * most..3 * most + 10, 3 * most), MOST_GIVEN_UP + 20);
        for (slot, late) in [(0, 0), (3 * most - 1, 1), (3 * most - 1, 1), (3 * most, 2)] {
            assert!(results.comes_late(&format!("run.{slot}.1")), "{slot}");
            assert_eq!(results.late, late, "{slot}");
        }
        assert!(results.is_over("run.5.2") && !results.is_over(&format!("run.{}.1", 4 * most)));
    }

    #[test]
    fn a_result_of_a_test_that_was_given_up_is_counted_once() {
        let kept = [("run.9.1", false), ("run.9.2", true)];
        let kept = kept.map(|(turn, given_up)| (by_slot(turn), given_up));
        let mut results = Results { kept: BTreeMap::from(kept), ..Results::default() };
        for (turn, is_over, late) in [
            ("run.9.1", true, 0),
            ("run.9.2", true, 1),
            ("run.9.2", true, 1),
            ("run.9.3", false, 1),
        ] {
            assert_eq!((results.comes_late(turn), results.late), (is_over, late), "{turn}");
        }
        // One that was kept comes once more after its pair was tried again.
        for given_up in [false, true] {
            assert!(results.end("run.9.4", given_up).is_empty());
        }
        assert_eq!((results.comes_late("run.9.4"), results.late), (true, 1));
    }
}
