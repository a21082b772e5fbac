//! A run of all pairs on its way: which test is whose turn, what came of it, and what is kept.

mod after;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::{Builder, Scope};
use std::time::Duration;

use linerate_fleet::coordinator::{Coordinator, Ending, Event as Kept, State, Step};
use linerate_fleet::lease::{Epoch, LeaseBook, Term};
use linerate_fleet::matrix::Cell;
use linerate_fleet::plan::{Pair, Resource};
use linerate_model::record::{ErrorRecord, RunRecord, Status};
use linerate_runner::signals::Stop;

use super::keep::{Ended, Store};
use super::measure::{Agent, Came, Outcome, Turn, measure};
use super::results::{Deleted, Head, Results};
use super::test::{self, Wanted};
use super::{ASK_EVERY, Asked, Event, GUARD, LOOK_EVERY, NO_ANSWER, Reach, SETUP};
use crate::Clock;
use crate::campaign::figure;

/// A test under way.
struct Begun {
    test: usize,
    /// Of this pair at this time, from 1.
    attempt: u32,
    /// Of this time, from 0.
    round: usize,
    /// RFC 3339.
    started: String,
    at_ns: u64,
    /// It was under way when linerate ended.
    before: bool,
    /// Its host was lost; what has come of it may still arrive.
    gone: bool,
}

/// A run on its way.
pub(super) struct Run<'a> {
    asked: &'a Asked,
    wanted: &'a Wanted,
    pub(super) clock: &'a dyn Clock,
    reach: &'a dyn Reach,
    term: Term,
    pub(super) head: Head,
    pub(super) results: Results,
    store: Option<Store>,
    /// When the store is asked next whether somebody wants it to end.
    ask_ns: u64,
    /// What was kept before, of each time.
    before: Vec<Vec<Kept>>,
    /// When what was under way when linerate ended had begun, by its time and test; RFC 3339.
    opened: BTreeMap<(usize, usize), String>,
    /// Of earlier times of a schedule, what has begun and not ended: time, test and attempt.
    left: Vec<(usize, usize, u32)>,
    /// What has been said of changes, and to whom.
    delivered: BTreeSet<(String, String)>,
    /// When nothing that was under way before can still be so.
    free_from_ns: u64,
    /// Why nothing can be kept any more, which ends it.
    pub(super) failed: Option<ErrorRecord>,
    /// Which time is under way, from 0.
    time: usize,
    coordinator: Coordinator<Resource>,
    book: LeaseBook<Resource>,
    /// Those of hosts that are at nothing.
    agents: Vec<Agent>,
    /// How often each pair was tried at this time.
    attempts: Vec<u32>,
    begun: BTreeMap<Epoch, Begun>,
    under_way: usize,
}

/// Of a test on whose hosts something is set.
const UNSURE: &str =
    "whether what was set held to its end is not known: nobody was there to be told";

/// Characters of a reason, which may be a host's: what is longer says nothing more to anybody, and is kept for good.
const MOST_WORDS: usize = 1_000;

fn words(error: &ErrorRecord) -> String {
    let words = format!("{}: {}", error.what, error.why);
    match words.chars().nth(MOST_WORDS) {
        None => words,
        Some(_) => words.chars().take(MOST_WORDS).chain(['…']).collect(),
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Of a test that was let end.
fn how(cell: &Cell) -> Ending {
    match cell {
        Cell::Value(_) => Ending::Measured,
        Cell::Missing(_) => Ending::Failed,
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        asked: &'a Asked,
        wanted: &'a Wanted,
        clock: &'a dyn Clock,
        reach: &'a dyn Reach,
    ) -> Result<Self, ErrorRecord> {
        let term = Term::of(ns(wanted.time.saturating_add(SETUP)), ns(GUARD));
        let asked_now = Head::new(asked, wanted.metric);
        let mut run = Self {
            asked,
            wanted,
            clock,
            reach,
            term,
            results: Results::new(&asked_now, Deleted::nothing(&asked_now)),
            head: asked_now,
            store: None,
            ask_ns: 0,
            before: Vec::new(),
            opened: BTreeMap::new(),
            left: Vec::new(),
            delivered: BTreeSet::new(),
            free_from_ns: 0,
            failed: None,
            time: 0,
            coordinator: Coordinator::new(Vec::new(), 0),
            book: LeaseBook::after(Epoch(0)),
            agents: asked.hosts.iter().map(|_| None).collect(),
            attempts: Vec::new(),
            begun: BTreeMap::new(),
            under_way: 0,
        };
        if let Some(keep) = &asked.keep {
            // How long ago a test began that nobody saw the end of is not known: the clock may have been set.
            let until_ns = run.now_ns().saturating_add(term.length_ns);
            let (store, log) = Store::open(keep, &run.head, wanted.metric.unit, until_ns)?;
            run.store = Some(store);
            run.book = LeaseBook::after(log.last);
            run.free_from_ns = if log.open.is_empty() { 0 } else { until_ns };
            (run.head, run.results, run.before) = (log.head, log.results, log.events);
            (run.opened, run.delivered) = (log.open, log.delivered);
        }
        // Before what has come is handed out again, with all that nobody asks for any more.
        run.say_passed(run.results.deleted().times);
        reach.begin(&run.head.id)?;
        Ok(run)
    }

    fn now_ns(&self) -> u64 {
        ns(self.clock.elapsed())
    }

    /// All pairs once more; what is kept of it is not measured again.
    pub(super) fn begin(&mut self, time: usize, on_event: &mut dyn FnMut(&Event<'_>)) {
        let takes = |pair: &Pair| self.asked.fleet.resources(*pair);
        let takes: Vec<BTreeSet<Resource>> = self.asked.pairs.iter().map(takes).collect();
        self.time = time;
        self.say_passed(time);
        self.coordinator = Coordinator::new(takes, self.asked.retries);
        self.attempts = vec![0; self.asked.pairs.len()];
        let before = self.before.get_mut(time).map(std::mem::take);
        let mut ended = Vec::new();
        for event in before.unwrap_or_default() {
            match event {
                Kept::Began { test, epoch, .. } => self.note_begun(test, epoch, true),
                Kept::Ended { epoch, .. } => ended.extend(self.begun.remove(&epoch)),
            }
            self.coordinator.take(event);
        }
        // They may have ended before whoever they came from was told.
        for begun in ended.iter().filter(|begun| !self.may_come(begun.test, begun.attempt)) {
            self.reach.kept(&self.turn(begun));
        }
        if self.coordinator.next(self.now_ns()) == Step::Done {
            return;
        }
        if self.asked.times > 1 {
            let number = u32::try_from(time).unwrap_or(u32::MAX).saturating_add(1);
            on_event(&Event::Time { number, of: self.asked.times });
        }
        for begun in self.begun.values() {
            let pair = self.pair(begun.test);
            let most_s = self.term.length_ns / 1_000_000_000;
            on_event(&Event::Note(&format!(
                "{pair} was under way when linerate ended: what it took stays taken for {most_s} s"
            )));
        }
    }

    fn note_begun(&mut self, test: usize, epoch: Epoch, before: bool) {
        let attempt = self.attempts.get_mut(test).map_or(1, |attempts| {
            *attempts = attempts.saturating_add(1);
            *attempts
        });
        let round = self.coordinator.round().0;
        let started = if before { self.opened_at(self.time, test) } else { self.clock.date() };
        let (at_ns, gone) = (self.now_ns(), false);
        self.begun.insert(epoch, Begun { test, attempt, round, started, at_ns, before, gone });
    }

    /// When a test began that was under way when linerate ended; of any other, the time now.
    fn opened_at(&self, time: usize, test: usize) -> String {
        self.opened.get(&(time, test)).cloned().unwrap_or_else(|| self.clock.date())
    }

    /// What a test is called, also by who goes on with this run.
    fn turn(&self, begun: &Begun) -> String {
        self.turn_of(self.time, begun.test, begun.attempt)
    }

    fn turn_of(&self, time: usize, test: usize, attempt: u32) -> String {
        let slot = time.saturating_mul(self.asked.pairs.len()).saturating_add(test);
        format!("{}.{slot}.{attempt}", self.head.id)
    }

    fn pair(&self, test: usize) -> String {
        let ends = self.asked.pairs.get(test).map(|pair| [pair.from, pair.to]);
        ends.map(|ends| ends.map(|host| self.head.host(host)).join(" -> ")).unwrap_or_default()
    }

    pub(super) fn measure_all<'scope, 'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        (done, came): (&Sender<Came>, &Receiver<Came>),
        stop: &'env Stop,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) where
        'a: 'env,
    {
        loop {
            // First what has come: to keep what came before it may have taken longer than its lease.
            while let Ok(came) = came.try_recv() {
                self.end((self.now_ns(), stop.seen()), came, on_event);
            }
            self.take_late(on_event);
            self.look(stop, on_event);
            let now_ns = self.now_ns();
            let ends = stop.seen() || self.failed.is_some();
            let step = match self.coordinator.next(now_ns) {
                Step::Start(_) if now_ns < self.free_from_ns => {
                    Step::Wait { until_ns: self.free_from_ns }
                }
                step => step,
            };
            match step {
                Step::Done => break,
                _ if ends && self.under_way == 0 => break,
                Step::MarkLost(epoch) if self.failed.is_none() => {
                    self.settle(epoch, Ending::Lost, None);
                    continue;
                }
                Step::Start(test) if !ends => {
                    if self.start((now_ns, test), scope, done, stop, on_event) {
                        continue;
                    }
                }
                Step::MarkLost(_) | Step::Start(_) | Step::Wait { .. } => {}
            }
            if let Ok(came) = came.recv_timeout(LOOK_EVERY) {
                self.end((self.now_ns(), stop.seen()), came, on_event);
            }
        }
    }

    /// Sets `stop` where the end of this run was asked for by way of what it keeps.
    pub(super) fn look(&mut self, stop: &Stop, on_event: &mut dyn FnMut(&Event<'_>)) {
        let now_ns = self.now_ns();
        if now_ns < self.ask_ns {
            return;
        }
        self.ask_ns =
            now_ns.saturating_add(u64::try_from(ASK_EVERY.as_nanos()).unwrap_or(u64::MAX));
        match self.store.as_mut().map(Store::asked_to_stop) {
            Some(Ok(true)) => {
                on_event(&Event::Note("its end was asked for: linerate fleet stop"));
                stop.now();
            }
            Some(Err(error)) => {
                self.failed.get_or_insert(error);
                stop.now();
            }
            Some(Ok(false)) | None => {}
        }
    }

    /// What was under way when linerate ended, or when its host was lost, may have come to its end meanwhile.
    fn take_late(&mut self, on_event: &mut dyn FnMut(&Event<'_>)) {
        let now_ns = self.now_ns();
        let late = self.begun.iter().filter(|(_, begun)| begun.before || begun.gone);
        let came = late.filter_map(|(epoch, begun)| {
            let client = self.head.host(self.asked.pairs.get(begun.test)?.from);
            Some((*epoch, begun.test, begun.round, self.reach.came(&self.turn(begun), &client)?))
        });
        for (epoch, test, round, came) in came.collect::<Vec<_>>() {
            self.results.reached(self.time, round);
            let (cell, record) = self.late(came);
            let how = how(&cell);
            self.book.give_back(now_ns, epoch);
            self.finish((epoch, test), (cell, how), record.as_ref(), on_event);
            if !self.begun.values().any(|begun| begun.before) {
                self.free_from_ns = 0;
            }
        }
    }

    /// What came of a test that nobody here waited for. The server's host has not said whether what was set there held.
    fn late(&self, came: Result<RunRecord, ErrorRecord>) -> (Cell, Option<RunRecord>) {
        match came {
            Ok(record) if self.asked.set.is_empty() => (self.figure(&record), Some(record)),
            Ok(record) => (Cell::Missing(UNSURE.to_owned()), Some(record)),
            Err(why) => (Cell::Missing(words(&why)), None),
        }
    }

    /// What has come of the try before since that was given up: it was measured under a lease of its own, and is a result.
    fn came_since(&self, test: usize, tried: u32) -> Option<(String, Cell, RunRecord)> {
        let client = self.asked.pairs.get(test).filter(|_| tried > 0)?.from;
        let turn = self.turn_of(self.time, test, tried);
        let came = self.reach.came(&turn, &self.head.host(client));
        if let Some((cell @ Cell::Value(_), Some(record))) = came.map(|came| self.late(came)) {
            return Some((turn, cell, record));
        }
        self.reach.given_up(&turn);
        None
    }

    /// Says whether it began.
    fn start<'scope, 'env>(
        &mut self,
        (now_ns, test): (u64, usize),
        scope: &'scope Scope<'scope, 'env>,
        done: &Sender<Came>,
        stop: &'env Stop,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> bool
    where
        'a: 'env,
    {
        let Some(takes) = self.coordinator.takes(test).cloned() else { return false };
        let Ok(grant) = self.book.grant(now_ns, &takes, self.term) else { return false };
        let Some(pair) = self.asked.pairs.get(test).copied() else { return false };
        let epoch = grant.epoch;
        self.note_begun(test, epoch, false);
        let turn = self.begun.get(&epoch).map(|begun| self.turn(begun)).unwrap_or_default();
        let (attempt, date) = (self.attempts.get(test).copied().unwrap_or(1), self.clock.date());
        if let Some(store) = &mut self.store
            && let Err(error) = store.began(&date, (self.time, test), attempt)
        {
            self.failed.get_or_insert(error);
            return false;
        }
        self.results.began(self.time, test, self.coordinator.round().0);
        self.results.begun_at(self.time, &date);
        self.results.set(self.time, test, Cell::Missing(NO_ANSWER.to_owned()));
        self.coordinator.take(Kept::Began { test, epoch, until_ns: grant.until_ns() });
        if let Some((before, cell, record)) = self.came_since(test, attempt.saturating_sub(1)) {
            self.book.give_back(now_ns, epoch);
            self.finish((epoch, test), (cell, Ending::Measured), Some(&record), on_event);
            if self.failed.is_none() {
                self.reach.kept(&before);
            }
            return true;
        }
        let mut agent = |host: usize| self.agents.get_mut(host).and_then(Option::take);
        // A server is left alone where nothing is set.
        let server = if self.asked.set.is_empty() { None } else { agent(pair.to) };
        let agents = [agent(pair.from), server];
        let (asked, by, done) = (self.asked, (self.reach, stop), done.clone());
        let clock = self.clock;
        let in_time = move || grant.may_start(ns(clock.elapsed()));
        let work = move || {
            let ends = asked.hosts.get(pair.from).zip(asked.hosts.get(pair.to));
            let Some((from, to)) = ends else { return };
            let (agents, outcome) = match test::towards(&asked.test, to) {
                Ok(understood) => {
                    let (test, set) = (&understood.test, &asked.set[..]);
                    let (ends, in_time) = ([from, to], &in_time as &dyn Fn() -> bool);
                    measure(agents, &Turn { name: &turn, ends, test, set, in_time }, by)
                }
                Err(error) => (agents, Outcome::Failed(error)),
            };
            let _ = done.send(Came { test, epoch, agents, outcome });
        };
        self.under_way += 1;
        if Builder::new().name("pair".into()).spawn_scoped(scope, work).is_err() {
            // As if the host were lost: it is tried again once its lease is over.
            self.under_way -= 1;
        }
        true
    }

    fn end(
        &mut self,
        (now_ns, stopped): (u64, bool),
        came: Came,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) {
        let Came { test, epoch, agents, outcome } = came;
        self.under_way = self.under_way.saturating_sub(1);
        let Some(pair) = self.asked.pairs.get(test).copied() else { return };
        for (host, agent) in [pair.from, pair.to].into_iter().zip(agents) {
            if let Some(slot) = self.agents.get_mut(host).filter(|slot| slot.is_none()) {
                *slot = agent;
            }
        }
        let (cell, record) = match outcome {
            // It was given up. Until then its hosts are in no other test of this run.
            _ if !self.begun.contains_key(&epoch) => return,
            Outcome::Gone(error) => {
                // Its lease is left to end: only then is it sure that the host sends nothing any more.
                let why = words(&error);
                let most_s = self.term.length_ns / 1_000_000_000;
                on_event(&Event::Note(&format!(
                    "{why}: what it took stays taken for {most_s} s at most"
                )));
                self.results.set(self.time, test, Cell::Missing(why));
                self.begun.entry(epoch).and_modify(|begun| begun.gone = true);
                return;
            }
            Outcome::Failed(error) => (Cell::Missing(words(&error)), None),
            Outcome::Record(record) => (self.figure(&record), Some(record)),
        };
        self.book.give_back(now_ns, epoch);
        let how = match how(&cell) {
            Ending::Failed if stopped => Ending::Cut,
            how => how,
        };
        self.finish((epoch, test), (cell, how), record.as_deref(), on_event);
    }

    /// Keeps what came of a test, and says it.
    fn finish(
        &mut self,
        (epoch, test): (Epoch, usize),
        (cell, how): (Cell, Ending),
        record: Option<&RunRecord>,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) {
        self.results.set(self.time, test, cell);
        let Some(pair) = self.asked.pairs.get(test).copied() else { return };
        if !self.settle(epoch, how, record) {
            return;
        }
        let number = self.time.saturating_mul(self.asked.pairs.len()).saturating_add(test);
        if let Some(cell) = self.results.get(self.time, test) {
            let (from, to) = (&self.head.host(pair.from), &self.head.host(pair.to));
            on_event(&Event::Ended {
                from,
                to,
                number,
                cell,
                unit: self.wanted.metric.unit,
                record,
            });
        }
    }

    /// A test has ended, with what the results say of it: that is kept, and only then known. Says whether it was.
    fn settle(&mut self, epoch: Epoch, how: Ending, record: Option<&RunRecord>) -> bool {
        let Some(begun) = self.begun.remove(&epoch) else { return false };
        let turn = self.turn(&begun);
        let pair = self.pair(begun.test);
        let spent_ns = self.now_ns().saturating_sub(begun.at_ns);
        if let (Some(store), Some(cell)) =
            (&mut self.store, self.results.get(self.time, begun.test))
        {
            let ended = Ended {
                time: self.time,
                test: begun.test,
                attempt: begun.attempt,
                round: begun.round,
                started: begun.started,
                seconds: spent_ns as f64 / 1e9,
                pair,
                cell,
                how,
                record,
            };
            if let Err(error) = store.ended(&self.clock.date(), ended) {
                self.failed.get_or_insert(error);
                return false;
            }
        }
        self.coordinator.take(Kept::Ended { epoch, how });
        match record {
            Some(_) => self.reach.kept(&turn),
            None if self.may_come(begun.test, begun.attempt) => {}
            None => self.reach.given_up(&turn),
        }
        true
    }

    /// Whether what comes of a try that ended without a record is its pair's result: before that is tried again, and where
    /// nothing has come that says why there is none.
    fn may_come(&self, test: usize, attempt: u32) -> bool {
        let again = [Some(State::Waiting), Some(State::Again)];
        let turn = self.turn_of(self.time, test, attempt);
        let client = self.asked.pairs.get(test).map(|pair| self.head.host(pair.from));
        self.attempts.get(test) == Some(&attempt)
            && again.contains(&self.coordinator.state(test))
            && !client.is_some_and(|client| matches!(self.reach.came(&turn, &client), Some(Err(_))))
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
}
