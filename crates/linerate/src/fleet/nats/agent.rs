//! A host that is an agent: what a test of it takes, its orders, and what comes of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use linerate_broker::lease::Lease;
use linerate_fleet::lease::{Grant, Term};
use linerate_fleet::message::{Answer, Order, Prepare, Role};
use linerate_fleet::plan::{Pair, Resource};
use linerate_model::fleet_events::FleetEvent;
use linerate_model::record::{ErrorKind, ErrorRecord, RunRecord};
use linerate_model::setting::Setting;
use linerate_runner::agent::{HostAgent, RemoteTest, Reply, Request};
use linerate_runner::random::random;
use linerate_wire::native::auth::to_hex;
use tokio::task::JoinSet;

use super::{Agent, Agents, LOOK_EVERY, failed};

/// What a test may take beyond its time: connecting, its greeting, its last reports.
const SETUP: Duration = Duration::from_secs(20);
/// Orders have so long to come to both hosts; and nothing is sent for so long at the end of a lease.
const GUARD: Duration = Duration::from_secs(10);
/// What another coordinator has is waited for this long: with it and its lease a test is over before the run gives it up.
const BUSY: Duration = Duration::from_secs(15);
/// After Ctrl-C an agent has so long for the record of what it ended.
const LAST_WORDS: Duration = Duration::from_secs(15);

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
            Request::Ping => self.agents.send_order(&self.id, &Order::Ping).map(|_| Reply::Done),
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
        let ready = self.prepare(&held);
        let started = ready.is_ok();
        let came = ready.and_then(|at| self.run(&held, at));
        match (came, self.give_back(&held, started)) {
            (Ok(_), Some(spoiled)) => {
                // Whoever asks for it later is not to take it for one that came late.
                Agents::over(&self.agents, &self.turn, false);
                Err(spoiled)
            }
            (came, _) => came,
        }
    }

    /// Gets all that the pair takes, for as long as the test may take.
    fn take<'a>(&self, test: &'a RemoteTest) -> Result<Held<'a>, ErrorRecord> {
        let (agents, to) = (&self.agents, test.name.as_str());
        let place = |name: &str| agents.fleet.hosts().iter().position(|host| host == name);
        let pair = place(&self.id).zip(place(to)).map(|(from, to)| Pair { from, to });
        let resources = pair.map(|pair| agents.fleet.resources(pair)).unwrap_or_default();
        let time = test.plan.duration().map_or(0, |time| time.0.saturating_add(test.plan.warmup.0));
        let term = Term::of(time.saturating_add(ns(SETUP)), ns(GUARD));
        let length = Duration::from_nanos(term.length_ns);
        let until_ns = busy_until_ns(agents.now_ns(), term);
        let ask = || {
            // By this clock it begins before the broker's does.
            let granted_ns = agents.now_ns();
            let lease = agents.broker.grant(&resources, length, &self.turn);
            agents.handle.block_on(lease).map(|lease| lease.map(|lease| (lease, granted_ns)))
        };
        let is_over = || self.stop.seen() || agents.now_ns() >= until_ns;
        let pause = || {
            let [chance] = random::<1>();
            std::thread::sleep(Duration::from_millis(100 + u64::from(chance)));
        };
        let Some((lease, granted_ns)) = ask_until(ask, is_over, pause)? else {
            let what = format!("cannot measure {} with {to}", self.id);
            let why = "another run has one of them, or what they share";
            return Err(ErrorRecord::new(ErrorKind::Busy, what, why, &["--retries 3"]));
        };
        let grant = Grant { epoch: lease.epoch, granted_ns, term };
        let takes = resources.iter().map(ToString::to_string).collect();
        let (turn, seconds) = (self.turn.clone(), length.as_secs());
        let granted = FleetEvent::Granted { turn, lease: lease.epoch.0, takes, seconds };
        Agents::say(agents, &self.id, granted);
        let held = Held { lease, grant, test, to };
        match self.note(&held, &resources) {
            Ok(()) => Ok(held),
            Err(error) => {
                self.give_back(&held, false);
                Err(error)
            }
        }
    }

    /// Writes down what was granted, for as long as something may be sent under it.
    fn note(&self, held: &Held<'_>, resources: &BTreeSet<Resource>) -> Result<(), ErrorRecord> {
        let Some(audit) = &self.agents.audit else { return Ok(()) };
        let Grant { epoch, granted_ns, term } = held.grant;
        let spent_ns = self.agents.now_ns().saturating_sub(granted_ns);
        let left_ns = term.length_ns.saturating_sub(term.guard_ns).saturating_sub(spent_ns);
        let names: Vec<String> = resources.iter().map(ToString::to_string).collect();
        let noted = audit.granted(epoch.0, &self.turn, &names, Duration::from_nanos(left_ns));
        noted.map_err(|error| {
            let what = format!("cannot measure {} with {}", self.id, held.to);
            ErrorRecord::new(ErrorKind::Store, what, error.to_string(), &["--retries 3"])
        })
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

    /// Has the client begin, and waits for what comes of it, until its lease is over or it says that nothing does.
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
        match agents.send_order(&self.id, &Order::Start { epoch, address, port }) {
            // It may have begun all the same, and then its result comes.
            Err(error) if error.kind != ErrorKind::TimedOut => return Err(error),
            _ => {}
        }
        let mut until_ns = held.grant.until_ns();
        let mut ends = false;
        let (broker, id) = (agents.broker.clone(), self.id.clone());
        let mut back = JoinSet::new();
        back.spawn_on(async move { broker.comes_back(&id, epoch).await }, &agents.handle);
        loop {
            if let Some(came) = agents.result(&self.turn, &self.id) {
                return came;
            }
            let now_ns = agents.now_ns();
            let is_back = back.try_join_next().is_some();
            if is_back || now_ns >= until_ns {
                let what = format!("cannot measure {} with {}", self.id, held.to);
                let why = match is_back {
                    true => {
                        "it is at nothing and has no result: it was ended in the middle of the test, or never began"
                    }
                    false => "nothing was heard of the test before its lease was over",
                };
                return Err(ErrorRecord::new(ErrorKind::HostGone, what, why, &[]));
            }
            if self.stop.seen() && !ends {
                ends = true;
                let _ = agents.send_order(&self.id, &Order::End { epoch });
                until_ns = until_ns.min(now_ns.saturating_add(ns(LAST_WORDS)));
            }
            let results = agents.lock();
            let _ = agents.news.wait_timeout(results, LOOK_EVERY);
        }
    }

    /// Frees what the pair took, once it is sure that both hosts are at nothing. Where that cannot be had at once it is tried
    /// again meanwhile, until the lease is over by itself. Says why what was measured does not count.
    fn give_back(&self, held: &Held<'_>, started: bool) -> Option<ErrorRecord> {
        let agents = Arc::clone(&self.agents);
        let (from, to, lease) = (self.id.clone(), held.to.to_owned(), held.lease.clone());
        let (turn, number) = (self.turn.clone(), lease.epoch.0);
        let (was_there, spoiled) = agents.handle.block_on(agents.free(&from, &to, &lease, started));
        // What was set there is not known to have held.
        let spoiled = spoiled.filter(|_| !self.set.is_empty());
        let until_ns = held.grant.until_ns();
        if let Some(was_there) = was_there {
            Agents::say(&agents, &from, FleetEvent::GivenBack { turn, lease: number });
            return spoiled.or_else(|| over_early(was_there, (agents.now_ns(), until_ns)));
        }
        self.agents.handle.spawn(async move {
            let mut free = false;
            while !free && agents.now_ns() < until_ns {
                free = agents.free(&from, &to, &lease, started).await.0.is_some();
                if !free {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
            }
            let event = match free {
                true => FleetEvent::GivenBack { turn, lease: number },
                false => FleetEvent::Over { turn, lease: number },
            };
            Agents::say(&agents, &from, event);
        });
        spoiled
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Until when a pair whose hosts are leased is asked for again, by a clock that began with this process. What this run itself
/// leased before it was killed is over when the clock shows the length of a lease, and once the result of that test has come,
/// before which no other begins, in no more than the time to begin and both guards.
fn busy_until_ns(now_ns: u64, term: Term) -> u64 {
    let left = SETUP.saturating_add(GUARD).saturating_add(GUARD);
    let of_before_ns = term.length_ns.min(now_ns.saturating_add(ns(left)));
    now_ns.saturating_add(ns(BUSY)).max(of_before_ns)
}

/// Asks until something is granted, or it is over; then the last answer stands. Errors are no end: a broker that has just been
/// started accepts connections before it has its streams.
fn ask_until<T>(
    mut ask: impl FnMut() -> Result<Option<T>, ErrorRecord>,
    is_over: impl Fn() -> bool,
    pause: impl Fn(),
) -> Result<Option<T>, ErrorRecord> {
    loop {
        let answer = ask();
        if matches!(answer, Ok(Some(_))) || is_over() {
            return answer;
        }
        pause();
    }
}

/// Why nothing counts that was measured under a lease that was not there any more when it was given back, before its end by
/// this clock: what it takes may have been another's meanwhile.
fn over_early(was_there: bool, (now_ns, until_ns): (u64, u64)) -> Option<ErrorRecord> {
    let why = "its lease was over before its time: another test may have been beside it";
    let hint = "the log of nats-server; set no clock of its machine while tests run";
    let error = || ErrorRecord::new(ErrorKind::Busy, "cannot use what was measured", why, &[hint]);
    (!was_there && now_ns < until_ns).then(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_had_before_it_was_killed_is_waited_for_until_it_is_over() {
        // A lease is 40 s longer than its test.
        let lease = |test_s: u64| Term::of(ns(SETUP) + test_s * 1_000_000_000, ns(GUARD));
        for (test_s, now_s, until_s) in [
            (10, 0, 40),
            (10, 9, 49),
            (10, 12, 50),
            (10, 40, 55),
            (3_600, 0, 40),
            (3_600, 3_610, 3_640),
            (3_600, 4_000, 4_015),
        ] {
            let until_ns = busy_until_ns(now_s * 1_000_000_000, lease(test_s));
            assert_eq!(until_ns, until_s * 1_000_000_000, "{test_s} s, at {now_s} s");
        }
    }

    #[test]
    fn a_broker_that_has_just_been_started_is_asked_again_until_the_time_is_over() {
        let error = || ErrorRecord::new(ErrorKind::Unable, "cannot ask", "it begins", &[]);
        let asked_until = |most: u32| {
            let asked = std::cell::Cell::new(0_u32);
            let ask = || {
                asked.set(asked.get() + 1);
                match asked.get() {
                    1 => Err(error()),
                    2 => Ok(None),
                    number => Ok(Some(number)),
                }
            };
            ask_until(ask, || asked.get() >= most, || ())
        };
        assert_eq!(asked_until(9), Ok(Some(3)));
        assert_eq!(asked_until(2), Ok(None), "another has it");
        assert_eq!(asked_until(1), Err(error()));
    }

    #[test]
    fn a_lease_that_was_over_before_its_time_spoils_what_was_measured_under_it() {
        assert_eq!(over_early(true, (5, 10)), None);
        assert_eq!(over_early(false, (10, 10)), None, "it was over by itself");
        assert_eq!(over_early(false, (9, 10)).map(|error| error.kind), Some(ErrorKind::Busy));
    }
}
