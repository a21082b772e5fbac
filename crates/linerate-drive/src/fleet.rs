//! Hosts measured with each other: has one host of each pair test with the other, round by round, from here and
//! without a service between. Each host runs `linerate serve`; the client's end of a test is run by the host's
//! agent, and nothing of the data comes by this machine.

mod test;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, Scope};
use std::time::Duration;

use linerate_fleet::coordinator::{Coordinator, Ending, Event as Kept, Step};
use linerate_fleet::lease::{Epoch, LeaseBook, Term};
use linerate_fleet::matrix::{Cell, Matrix};
use linerate_fleet::plan::{Fleet, Pair, Resource};
use linerate_model::fleet::{FORMAT, FleetDocument, FleetPair};
use linerate_model::record::{ErrorRecord, ProgramFacts, RunRecord, Status};
use linerate_runner::agent::{Access, HostAgent, Remote, RemoteTest};
use linerate_runner::signals::Stop;

use self::test::Wanted;
use crate::Clock;
use crate::campaign::figure;

/// What a test may take beyond its time: connecting, its greeting, its last reports.
const SETUP: Duration = Duration::from_secs(20);
/// A host that was lost may be at its test for as long: it ends it itself when it has heard nothing of the controller
/// for 15 s, which it looks for once a second.
const GUARD: Duration = Duration::from_secs(20);
/// Ctrl-C and leases that end are looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const NO_TURN: &str = "its turn did not come";
const NO_ANSWER: &str = "no answer came in its time";

/// What is asked for.
pub struct Asked {
    /// The hosts, and what they share.
    pub fleet: Fleet,
    /// Which of them are measured with each other.
    pub pairs: Vec<Pair>,
    /// How each host is reached, in the order of the fleet's.
    pub hosts: Vec<Access>,
    /// The test as on the command line, without a host: `tcp -t 5s`.
    pub test: Vec<String>,
    /// The figure that is kept of each test; that of its kind where nothing is said.
    pub metric: Option<String>,
    /// How often a test without a result is tried again.
    pub retries: u32,
    /// The command line.
    pub command: Vec<String>,
}

/// How it goes.
pub enum Event<'a> {
    /// What the user should know.
    Note(&'a str),
    /// A test has ended.
    Ended {
        /// The host that was the client.
        from: &'a str,
        /// The host whose server answered.
        to: &'a str,
        /// Its place among the pairs that are measured.
        number: usize,
        /// What came of it.
        cell: &'a Cell,
        /// The unit of a value.
        unit: &'a str,
        /// Whole, if there is one.
        record: Option<&'a RunRecord>,
    },
}

/// Takes a host over.
pub type Connect<'a> =
    dyn Fn(&Access, &Stop) -> Result<Box<dyn HostAgent>, ErrorRecord> + Sync + 'a;

/// By the network.
///
/// # Errors
/// Why it cannot be reached, or lets nobody control it.
pub fn by_network(access: &Access, stop: &Stop) -> Result<Box<dyn HostAgent>, ErrorRecord> {
    Ok(Box::new(Remote::connect_until(access, stop)?))
}

/// What came of a test in a thread of its own.
struct Came {
    test: usize,
    epoch: Epoch,
    agent: Option<Box<dyn HostAgent>>,
    outcome: Outcome,
}

enum Outcome {
    Record(Box<RunRecord>),
    /// Nothing is under way there.
    Failed(ErrorRecord),
    /// The host may still be at it.
    Gone(ErrorRecord),
}

/// A run on its way.
struct Run<'a> {
    asked: &'a Asked,
    wanted: &'a Wanted,
    term: Term,
    coordinator: Coordinator<Resource>,
    book: LeaseBook<Resource>,
    /// Those of hosts that are at nothing.
    agents: Vec<Option<Box<dyn HostAgent>>>,
    matrix: Matrix,
    tries: Vec<u32>,
    under_way: usize,
}

/// Measures every pair, as far as can be.
///
/// # Errors
/// When the test makes no sense between hosts; nothing was sent then.
pub fn run(
    asked: &Asked,
    connect: &Connect<'_>,
    clock: &dyn Clock,
    stop: &Stop,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<FleetDocument, ErrorRecord> {
    let (id, started) = linerate_runner::client::stamp();
    let wanted = Wanted::of(asked)?;
    for note in &wanted.notes {
        tell(&Event::Note(note));
    }
    let mut run = Run::new(asked, &wanted);
    std::thread::scope(|scope| {
        let (done, came) = channel::<Came>();
        loop {
            let now_ns = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
            match run.coordinator.next(now_ns) {
                Step::Done => break,
                _ if stop.seen() && run.under_way == 0 => break,
                Step::MarkLost(epoch) => {
                    run.coordinator.take(Kept::Ended { epoch, how: Ending::Lost });
                    continue;
                }
                Step::Start(test) if !stop.seen() => {
                    if run.start(now_ns, test, scope, &done, (connect, stop)) {
                        continue;
                    }
                }
                Step::Start(_) | Step::Wait { .. } => {}
            }
            if let Ok(came) = came.recv_timeout(LOOK_EVERY) {
                let now_ns = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
                run.end(now_ns, came, tell);
            }
        }
    });
    Ok(run.document(id, started, stop.seen()))
}

/// A test from its host's side; the host is given back where it can be used again.
fn measure(
    agent: Option<Box<dyn HostAgent>>,
    access: &Access,
    test: &RemoteTest,
    (connect, stop): (&Connect<'_>, &Stop),
) -> (Option<Box<dyn HostAgent>>, Outcome) {
    let mut agent = match agent.map_or_else(|| connect(access, stop), Ok) {
        Ok(agent) => agent,
        Err(error) => return (None, Outcome::Failed(error)),
    };
    match agent.run_test(test) {
        Ok(record) => (Some(agent), Outcome::Record(Box::new(record))),
        // What answers a refusal is there, and at nothing.
        Err(error) if agent.ping().is_ok() => (Some(agent), Outcome::Failed(error)),
        Err(error) => (None, Outcome::Gone(error)),
    }
}

fn words(error: &ErrorRecord) -> String {
    format!("{}: {}", error.what, error.why)
}

impl<'a> Run<'a> {
    fn new(asked: &'a Asked, wanted: &'a Wanted) -> Self {
        let takes: Vec<BTreeSet<Resource>> =
            asked.pairs.iter().map(|pair| asked.fleet.resources(*pair)).collect();
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            asked,
            wanted,
            term: Term::of(ns(wanted.time.saturating_add(SETUP)), ns(GUARD)),
            coordinator: Coordinator::new(takes, asked.retries),
            book: LeaseBook::after(Epoch(0)),
            agents: asked.hosts.iter().map(|_| None).collect(),
            matrix: Matrix::new(&asked.pairs, NO_TURN),
            tries: vec![0; asked.pairs.len()],
            under_way: 0,
        }
    }

    /// Says whether it began.
    fn start<'scope, 'env>(
        &mut self,
        now_ns: u64,
        test: usize,
        scope: &'scope Scope<'scope, 'env>,
        done: &Sender<Came>,
        by: (&'env Connect<'env>, &'env Stop),
    ) -> bool
    where
        'a: 'env,
    {
        let Some(takes) = self.coordinator.takes(test).cloned() else { return false };
        let Ok(grant) = self.book.grant(now_ns, &takes, self.term) else { return false };
        let Some(pair) = self.asked.pairs.get(test).copied() else { return false };
        let epoch = grant.epoch;
        self.coordinator.take(Kept::Began { test, epoch, until_ns: grant.until_ns() });
        self.matrix.set(pair, Cell::Missing(NO_ANSWER.to_owned()));
        if let Some(tries) = self.tries.get_mut(test) {
            *tries = tries.saturating_add(1);
        }
        let agent = self.agents.get_mut(pair.from).and_then(Option::take);
        let (asked, done) = (self.asked, done.clone());
        let work = move || {
            let ends = asked.hosts.get(pair.from).zip(asked.hosts.get(pair.to));
            let Some((from, to)) = ends else { return };
            let (agent, outcome) = match test::towards(&asked.test, to) {
                Ok(understood) => measure(agent, from, &understood.test, by),
                Err(error) => (agent, Outcome::Failed(error)),
            };
            let _ = done.send(Came { test, epoch, agent, outcome });
        };
        self.under_way += 1;
        if Builder::new().name("pair".into()).spawn_scoped(scope, work).is_err() {
            // As if the host were lost: it is tried again once its lease is over.
            self.under_way -= 1;
        }
        true
    }

    fn end(&mut self, now_ns: u64, came: Came, tell: &mut dyn FnMut(&Event<'_>)) {
        let Came { test, epoch, agent, outcome } = came;
        self.under_way = self.under_way.saturating_sub(1);
        let Some(pair) = self.asked.pairs.get(test).copied() else { return };
        if let Some(slot) = self.agents.get_mut(pair.from).filter(|slot| slot.is_none()) {
            *slot = agent;
        }
        let held = self.book.holds(now_ns, epoch);
        let (cell, record) = match outcome {
            _ if !held => return,
            Outcome::Gone(error) => {
                // Its lease is left to end: only then is it sure that the host sends nothing any more.
                let why = words(&error);
                let most_s = self.term.length_ns / 1_000_000_000;
                tell(&Event::Note(&format!(
                    "{why}: what it took stays taken for {most_s} s at most"
                )));
                self.matrix.set(pair, Cell::Missing(why));
                return;
            }
            Outcome::Failed(error) => (Cell::Missing(words(&error)), None),
            Outcome::Record(record) => (self.figure(&record), Some(record)),
        };
        let how = match &cell {
            Cell::Value(_) => Ending::Measured,
            Cell::Missing(_) => Ending::Failed,
        };
        self.book.give_back(now_ns, epoch);
        self.coordinator.take(Kept::Ended { epoch, how });
        self.matrix.set(pair, cell);
        let names = self.asked.fleet.hosts();
        if let (Some(from), Some(to), Some(cell)) =
            (names.get(pair.from), names.get(pair.to), self.matrix.get(pair))
        {
            let (record, unit) = (record.as_deref(), self.wanted.metric.unit);
            tell(&Event::Ended { from, to, number: test, cell, unit, record });
        }
    }

    fn figure(&self, record: &RunRecord) -> Cell {
        if record.status != Status::Complete {
            let why = record.error.as_ref().map(words);
            return Cell::Missing(why.unwrap_or_else(|| "the test did not come to its end".into()));
        }
        let document = serde_json::to_value(record).map_err(|e| e.to_string());
        let figure = document.and_then(|document| figure::of(&document, self.wanted.metric.name));
        figure.map_or_else(Cell::Missing, Cell::Value)
    }

    fn document(self, id: String, started: String, interrupted: bool) -> FleetDocument {
        let names = self.asked.fleet.hosts();
        let name = |host: usize| names.get(host).cloned().unwrap_or_default();
        let tries: BTreeMap<Pair, u32> =
            self.asked.pairs.iter().copied().zip(self.tries.iter().copied()).collect();
        let pairs = self.matrix.cells().map(|(pair, cell)| {
            let (value, missing) = match cell {
                Cell::Value(value) => (Some(*value), None),
                Cell::Missing(why) => (None, Some(why.clone())),
            };
            let tries = tries.get(&pair).copied().unwrap_or(0);
            FleetPair { from: name(pair.from), to: name(pair.to), tries, value, missing }
        });
        FleetDocument {
            format: FORMAT,
            kind: "fleet".to_owned(),
            id,
            started,
            linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
            command: self.asked.command.clone(),
            hosts: names.to_vec(),
            metric: self.wanted.metric.name.to_owned(),
            unit: self.wanted.metric.unit.to_owned(),
            rounds: self.coordinator.round().1,
            interrupted: interrupted && self.matrix.counts().missing > 0,
            pairs: pairs.collect(),
        }
    }
}
