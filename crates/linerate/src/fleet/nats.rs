//! A fleet whose hosts are agents of a broker: takes what a test needs from all other coordinators, has both its hosts make
//! ready, and waits for the result, which comes by the broker also where this process has died meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use linerate_broker::lease::Lease;
use linerate_broker::message::{Answer, Came, Order, Prepare, Role};
use linerate_broker::{Arrived, Broker, Credentials, Ingest};
use linerate_drive::fleet::Reach;
use linerate_drive::{Clock as _, SystemClock};
use linerate_fleet::lease::{Grant, Term};
use linerate_fleet::plan::{Fleet, Pair};
use linerate_model::record::{ErrorKind, ErrorRecord, RunRecord};
use linerate_model::setting::Setting;
use linerate_runner::agent::{Access, HostAgent, RemoteTest, Reply, Request};
use linerate_runner::random::random;
use linerate_runner::signals::Stop;
use linerate_wire::native::auth::to_hex;
use tokio::runtime::{Handle, Runtime};

/// What a test may take beyond its time: connecting, its greeting, its last reports.
const SETUP: Duration = Duration::from_secs(20);
/// Orders have so long to come to both hosts; and nothing is sent for so long at the end of a lease.
const GUARD: Duration = Duration::from_secs(10);
/// What another coordinator has is waited for this long: with it and its lease a test is over before the run gives it up.
const BUSY: Duration = Duration::from_secs(15);
/// An agent answers within this long: it may wait for the end of the test before.
const PATIENCE: Duration = Duration::from_secs(25);
/// What has to come is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// After Ctrl-C an agent has so long for the record of what it ended.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// The results of a run, as they come.
#[derive(Default)]
struct Results {
    /// Nobody has kept these yet: by turn and agent, since an agent can call its results as it likes.
    arrived: BTreeMap<(String, String), Arrived>,
    /// Turns whose result is wanted no more: if one comes again, only that is said.
    kept: BTreeSet<String>,
    /// So many are being confirmed now.
    confirming: usize,
}

/// A connection to the broker of a fleet, with a thread of its own.
pub struct Agents {
    broker: Broker,
    handle: Handle,
    fleet: Fleet,
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
        now_ms: u64,
    ) -> Result<Self, ErrorRecord> {
        let handle = runtime()?;
        let broker = handle.block_on(async {
            let broker = Broker::connect(credentials).await?;
            broker.make_streams(now_ms).await?;
            Ok::<_, ErrorRecord>(broker)
        })?;
        let (clock, results, news) = (SystemClock::default(), Mutex::default(), Condvar::new());
        Ok(Self(Arc::new(Agents { broker, handle, fleet, clock, results, news })))
    }

    /// The run is over: waits until what was said of its results is said, as far as the broker is there. Of a run that is
    /// `complete` nobody wants what else has come; says how much that is.
    pub fn end(&self, complete: bool) -> usize {
        let left = match complete {
            true => std::mem::take(&mut self.0.lock().arrived),
            false => BTreeMap::new(),
        };
        let count = left.len();
        Agents::confirm(&self.0, left.into_values().collect());
        let busy = |results: &mut Results| results.confirming > 0;
        let _ = self.0.news.wait_timeout_while(self.0.lock(), PATIENCE, busy);
        count
    }
}

impl Agents {
    fn lock(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what comes, and says again of what was kept that it was.
    async fn take_in(self: Arc<Self>, mut ingest: Ingest) {
        while let Some(arrived) = ingest.next().await {
            let turn = arrived.outcome.turn.clone();
            let known = {
                let mut results = self.lock();
                if results.kept.contains(&turn) {
                    Some(arrived)
                } else {
                    results.arrived.insert((turn, arrived.agent.clone()), arrived);
                    None
                }
            };
            self.news.notify_all();
            if let Some(arrived) = known {
                Self::confirm(&self, vec![arrived]);
            }
        }
    }

    /// Says of results that they are kept, or never will be. Where that does not arrive they come again.
    fn confirm(this: &Arc<Self>, all: Vec<Arrived>) {
        this.lock().confirming += 1;
        let agents = Arc::clone(this);
        this.handle.spawn(async move {
            for arrived in all {
                let _ = agents.broker.confirm(&arrived).await;
            }
            let _ = agents.broker.flush().await;
            let mut results = agents.lock();
            results.confirming = results.confirming.saturating_sub(1);
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

    fn tell(&self, agent: &str, order: &Order) -> Result<Answer, ErrorRecord> {
        self.handle.block_on(self.broker.tell(agent, order, PATIENCE))
    }

    /// Has both hosts end what they do under a lease, and gives it back. Says whether both did, and why the server's host is
    /// against what was measured.
    async fn free(&self, from: &str, to: &str, lease: &Lease) -> (bool, Option<ErrorRecord>) {
        let end = Order::End { epoch: lease.epoch.0 };
        let ended = tokio::join!(
            self.broker.tell(to, &end, PATIENCE),
            self.broker.tell(from, &end, PATIENCE)
        );
        let (server, spoiled) = match ended.0 {
            Err(error) if error.kind == ErrorKind::HelperLost => (true, Some(error)),
            answer => (answer.is_ok(), None),
        };
        let freed = server && ended.1.is_ok() && self.broker.give_back(lease).await.is_ok();
        (freed, spoiled)
    }

    /// Both at once.
    fn tell_both(&self, orders: [(&str, Order); 2]) -> [Result<Answer, ErrorRecord>; 2] {
        let [(a, first), (b, second)] = orders;
        let both = async {
            tokio::join!(
                self.broker.tell(a, &first, PATIENCE),
                self.broker.tell(b, &second, PATIENCE)
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
            agents.handle.spawn(Arc::clone(&agents).take_in(ingest));
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
        let of_turn = |(of, _): &(String, String), _: &mut Arrived| of == turn;
        let arrived: Vec<Arrived> = {
            let mut results = self.0.lock();
            results.kept.insert(turn.to_owned());
            results.arrived.extract_if(.., of_turn).map(|(_, arrived)| arrived).collect()
        };
        Agents::confirm(&self.0, arrived);
    }
}

/// A lease, and what it is for.
struct Held<'a> {
    lease: Lease,
    grant: Grant,
    test: &'a RemoteTest,
    /// The host whose server answers.
    to: &'a str,
}

impl HostAgent for Agent {
    fn name(&self) -> &str {
        &self.id
    }

    fn name_test(&mut self, turn: &str) {
        turn.clone_into(&mut self.turn);
    }

    fn sets_for_tests(&mut self, settings: &[Setting]) -> bool {
        settings.clone_into(&mut self.set);
        true
    }

    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
        match request {
            Request::Test(test) => {
                self.measure(&test).map(|record| Reply::Record(Box::new(record)))
            }
            Request::Ping => self.agents.tell(&self.id, &Order::Ping).map(|_| Reply::Done),
            _ => {
                let what = format!("cannot ask the agent {} for this", self.id);
                let why = "agents run tests, and nothing else";
                Err(ErrorRecord::new(ErrorKind::Policy, what, why, &[]))
            }
        }
    }
}

impl Agent {
    fn measure(&self, test: &RemoteTest) -> Result<RunRecord, ErrorRecord> {
        let held = self.take(test)?;
        let came = self.prepare(&held).and_then(|at| self.run(&held, at));
        match self.give_back(&held) {
            Some(spoiled) => Err(spoiled),
            None => came,
        }
    }

    /// Gets all that the pair takes, for as long as the test may take.
    fn take<'a>(&self, test: &'a RemoteTest) -> Result<Held<'a>, ErrorRecord> {
        let (agents, to) = (&self.agents, test.name.as_str());
        let place = |name: &str| agents.fleet.hosts().iter().position(|host| host == name);
        let pair = place(&self.id).zip(place(to)).map(|(from, to)| Pair { from, to });
        let resources = pair.map(|pair| agents.fleet.resources(pair)).unwrap_or_default();
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let time = test.plan.duration().map_or(0, |time| time.0.saturating_add(test.plan.warmup.0));
        let term = Term::of(time.saturating_add(ns(SETUP)), ns(GUARD));
        let length = Duration::from_nanos(term.length_ns);
        let until_ns = agents.now_ns().saturating_add(ns(BUSY));
        loop {
            // By this clock it begins before the broker's does.
            let granted_ns = agents.now_ns();
            let lease =
                agents.handle.block_on(agents.broker.grant(&resources, length, &self.turn))?;
            if let Some(lease) = lease {
                let grant = Grant { epoch: lease.epoch, granted_ns, term };
                return Ok(Held { lease, grant, test, to });
            }
            if self.stop.seen() || agents.now_ns() >= until_ns {
                let what = format!("cannot measure {} with {to}", self.id);
                let why = "another run has one of them, or what they share";
                return Err(ErrorRecord::new(ErrorKind::Busy, what, why, &["--retries 3"]));
            }
            let [chance] = random::<1>();
            std::thread::sleep(Duration::from_millis(100 + u64::from(chance)));
        }
    }

    /// Has both hosts make ready. Says where the server is.
    fn prepare(&self, held: &Held<'_>) -> Result<(String, u16), ErrorRecord> {
        let token = to_hex(&random::<32>());
        let order = |role, peer: &str| {
            Order::Prepare(Box::new(Prepare {
                epoch: held.grant.epoch.0,
                length_ns: held.grant.term.length_ns,
                guard_ns: held.grant.term.guard_ns,
                role,
                peer: peer.to_owned(),
                token: token.clone(),
                turn: self.turn.clone(),
                test: held.test.clone(),
                set: self.set.clone(),
            }))
        };
        let orders = [
            (held.to, order(Role::Server, &self.id)),
            (self.id.as_str(), order(Role::Client, held.to)),
        ];
        let [server, client] = self.agents.tell_both(orders);
        let named = |name: &str, error: ErrorRecord| {
            let what = format!("{name}: {}", error.what);
            ErrorRecord { what, ..error }
        };
        client.map_err(|error| named(&self.id, error))?;
        match server.map_err(|error| named(held.to, error))? {
            Answer::Ready { address, port } => Ok((address, port)),
            _ => Err(failed("measure", &format!("{} answered something else", held.to))),
        }
    }

    /// Has the client begin, and waits for what comes of it, until its lease is over.
    fn run(
        &self,
        held: &Held<'_>,
        (address, port): (String, u16),
    ) -> Result<RunRecord, ErrorRecord> {
        let agents = &self.agents;
        if !held.grant.may_start(agents.now_ns()) {
            return Err(failed("measure", &"both hosts were ready too late"));
        }
        let epoch = held.grant.epoch.0;
        match agents.tell(&self.id, &Order::Start { epoch, address, port }) {
            // It may have begun all the same, and then its result comes.
            Err(error) if error.kind != ErrorKind::TimedOut => return Err(error),
            _ => {}
        }
        let mut until_ns = held.grant.until_ns();
        let mut ends = false;
        loop {
            if let Some(came) = agents.result(&self.turn, &self.id) {
                return came;
            }
            let now_ns = agents.now_ns();
            if now_ns >= until_ns {
                let what = format!("cannot measure {} with {}", self.id, held.to);
                let why = "nothing was heard of the test before its lease was over";
                return Err(ErrorRecord::new(ErrorKind::HostGone, what, why, &[]));
            }
            if self.stop.seen() && !ends {
                ends = true;
                let _ = agents.tell(&self.id, &Order::End { epoch });
                let last = u64::try_from(LAST_WORDS.as_nanos()).unwrap_or(u64::MAX);
                until_ns = until_ns.min(now_ns.saturating_add(last));
            }
            let results = agents.lock();
            let _ = agents.news.wait_timeout(results, LOOK_EVERY);
        }
    }

    /// Frees what the pair took, once it is sure that both hosts are at nothing. Where that cannot be had at once it is tried
    /// again meanwhile, until the lease is over by itself. Says why the server's host is against what was measured.
    fn give_back(&self, held: &Held<'_>) -> Option<ErrorRecord> {
        let agents = Arc::clone(&self.agents);
        let (from, to, lease) = (self.id.clone(), held.to.to_owned(), held.lease.clone());
        let (freed, spoiled) = agents.handle.block_on(agents.free(&from, &to, &lease));
        if freed {
            return spoiled;
        }
        let until_ns = held.grant.until_ns();
        self.agents.handle.spawn(async move {
            while agents.now_ns() < until_ns && !agents.free(&from, &to, &lease).await.0 {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        spoiled
    }
}
