//! Whole runs of a plan under a made-up clock: hosts that are told by messages which are lost, doubled and late,
//! coordinators that die, are stopped in the middle of a step and wake up long after, and others that go on. Nothing
//! that is sent may ever meet what another test sends, and the plan has to come to its end.

use std::collections::{BTreeMap, BTreeSet};

use linerate_fleet::coordinator::{Coordinator, Ending, Event, State, Step};
use linerate_fleet::lease::{Epoch, Fence, Grant, LeaseBook, Term};
use linerate_fleet::plan::{Fleet, Pair, Resource, Shape};
use linerate_testkit::whole::chance::Chance;

// Milliseconds, as all times here.
const TEST: u64 = 50;
const GUARD: u64 = 20;
/// Until then coordinators die and messages are lost; after that the plan has to end.
const TROUBLE: u64 = 4_000;
/// Only a run that hangs takes so long.
const BOUND: u64 = 60_000;

/// What outlives coordinators: the log and the book, in one place that does one thing at a time.
struct Store {
    log: Vec<Event>,
    book: LeaseBook<Resource>,
    late: usize,
    /// Whether nobody looks if who asks knows all that was kept: then the book alone is in the way.
    blind: bool,
}

impl Store {
    /// Grants and keeps as one, if whoever asks knows all that was kept.
    fn begin(
        &mut self,
        now: u64,
        seen: usize,
        test: usize,
        takes: &BTreeSet<Resource>,
    ) -> Option<Grant> {
        if seen != self.log.len() && !self.blind {
            return None;
        }
        let grant = self.book.grant(now, takes, Term::of(TEST, GUARD)).ok()?;
        self.log.push(Event::Began { test, epoch: grant.epoch, until_ns: grant.until_ns() });
        Some(grant)
    }

    fn end(&mut self, now: u64, epoch: Epoch, how: Ending) {
        let held = self.book.give_back(now, epoch);
        // Of two coordinators that mark one as lost the second has not seen the first.
        let ended = |event: &Event| matches!(event, Event::Ended { epoch: e, .. } if *e == epoch);
        match how {
            Ending::Lost if !self.log.iter().any(ended) => {
                self.log.push(Event::Ended { epoch, how })
            }
            Ending::Lost => {}
            how if held => self.log.push(Event::Ended { epoch, how }),
            _ => self.late += 1,
        }
    }
}

#[derive(Clone, Copy)]
enum Message {
    Prepare { epoch: Epoch, test: usize },
    Ready { epoch: Epoch, host: usize, coordinator: usize },
    Start { epoch: Epoch, test: usize },
    Finished { epoch: Epoch },
}

/// A process that follows the log, and what it was about to do when it was stopped.
struct Process {
    seen: usize,
    state: Coordinator<Resource>,
    granted: BTreeMap<Epoch, (usize, Grant, BTreeSet<usize>)>,
    asleep_until: u64,
    /// Decided before it fell asleep, said after it wakes up.
    to_say: Vec<Message>,
}

#[derive(Default)]
struct Host {
    fence: Fence,
    /// What it sends, and until when at most.
    sending: Option<(Epoch, usize, u64)>,
    /// Its clock is ahead by so much.
    ahead: u64,
}

struct World {
    chance: Chance,
    now: u64,
    pairs: Vec<Pair>,
    takes: Vec<BTreeSet<Resource>>,
    store: Store,
    processes: Vec<Process>,
    hosts: Vec<Host>,
    under_way: Vec<(u64, Message)>,
    /// What was sent under each grant, in all.
    sent: BTreeMap<Epoch, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let count = 2 + chance.below(5) as usize;
        let names: Vec<String> = (0..count).map(|at| format!("h{at}")).collect();
        let mut fleet = Fleet::new(names.clone()).unwrap();
        if chance.one_in(2) {
            fleet.share("link:up".parse().unwrap(), &names[..count / 2]).unwrap();
        }
        if chance.one_in(2) {
            fleet.share("hypervisor:x".parse().unwrap(), &names[..2]).unwrap();
        }
        let pairs = fleet.pairs(&Shape::All, chance.one_in(3)).unwrap();
        let takes: Vec<_> = pairs.iter().map(|pair| fleet.resources(*pair)).collect();
        let ahead = (0..count).map(|_| Host { ahead: chance.below(1 << 40), ..Host::default() });
        let hosts = ahead.collect();
        let book = LeaseBook::after(Epoch(0));
        let store = Store { log: Vec::new(), book, late: 0, blind: chance.one_in(2) };
        let mut world = Self {
            chance,
            now: 0,
            pairs,
            takes,
            store,
            processes: Vec::new(),
            hosts,
            under_way: Vec::new(),
            sent: BTreeMap::new(),
        };
        world.processes = vec![world.process(), world.process()];
        world
    }

    /// One that was just started: it knows what was kept, and nothing else.
    fn process(&self) -> Process {
        Process {
            seen: 0,
            state: Coordinator::new(self.takes.clone(), 1_000),
            granted: BTreeMap::new(),
            asleep_until: self.now,
            to_say: Vec::new(),
        }
    }

    fn troubled(&self) -> bool {
        self.now < TROUBLE
    }

    fn send(&mut self, message: Message) {
        // A result is kept until it was taken; all else may be lost.
        let kept = matches!(message, Message::Finished { .. });
        let copies = match self.chance.below(20) {
            0 if self.troubled() && !kept => 0,
            1 | 2 if self.troubled() => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let slow = self.troubled() && self.chance.one_in(15);
            let takes = self.chance.below(if slow { 400 } else { 8 });
            self.under_way.push((self.now + takes, message));
        }
    }

    /// One step of a coordinator.
    fn act(&mut self, which: usize) {
        let now = self.now;
        let process = &mut self.processes[which];
        if now < process.asleep_until {
            return;
        }
        for message in std::mem::take(&mut process.to_say) {
            self.send(message);
        }
        let process = &mut self.processes[which];
        // What the other one has just kept may not have come yet.
        let behind = if self.now < TROUBLE { self.chance.below(4) as usize } else { 0 };
        let known = self.store.log.len().saturating_sub(behind).max(process.seen);
        for event in &self.store.log[process.seen..known] {
            process.state.take(*event);
        }
        process.seen = known;
        match process.state.next(now) {
            Step::Start(test) => {
                let takes = process.state.takes(test).cloned().unwrap_or_default();
                if let Some(grant) = self.store.begin(now, process.seen, test, &takes) {
                    process.granted.insert(grant.epoch, (test, grant, BTreeSet::new()));
                    process.to_say.push(Message::Prepare { epoch: grant.epoch, test });
                }
            }
            Step::MarkLost(epoch) => self.store.end(now, epoch, Ending::Lost),
            Step::Wait { .. } | Step::Done => {}
        }
        if self.troubled() && self.chance.one_in(60) {
            // Stopped where it is (SIGSTOP, a machine that swaps), with what it has decided still to say.
            self.processes[which].asleep_until = now + self.chance.below(500);
        }
        if self.troubled() && self.chance.one_in(200) {
            self.processes[which] = self.process();
        }
    }

    fn arrive(&mut self, message: Message) {
        match message {
            Message::Prepare { epoch, test } => {
                let Pair { from, to } = self.pairs[test];
                for host in [from, to] {
                    let here = &mut self.hosts[host];
                    if here.fence.prepare(self.now + here.ahead, epoch, Term::of(TEST, GUARD)) {
                        here.sending = None;
                        for coordinator in 0..self.processes.len() {
                            self.send(Message::Ready { epoch, host, coordinator });
                        }
                    }
                }
            }
            Message::Ready { epoch, host, coordinator } => {
                let process = &mut self.processes[coordinator];
                let Some((test, grant, ready)) = process.granted.get_mut(&epoch) else { return };
                ready.insert(host);
                if ready.len() == 2 && grant.may_start(self.now) {
                    process.to_say.push(Message::Start { epoch, test: *test });
                }
            }
            Message::Start { epoch, test } => {
                let host = &mut self.hosts[self.pairs[test].from];
                let open = host.fence.is_open(self.now + host.ahead, epoch);
                if open && host.sending.is_none() && !self.sent.contains_key(&epoch) {
                    host.sending = Some((epoch, test, self.now + TEST));
                }
            }
            Message::Finished { epoch } => self.store.end(self.now, epoch, Ending::Measured),
        }
    }

    /// What the hosts send in this millisecond; no two tests that share anything do.
    fn traffic(&mut self, seed: u64) {
        let mut used: BTreeMap<&Resource, Epoch> = BTreeMap::new();
        let mut finished = Vec::new();
        for host in &mut self.hosts {
            let Some((epoch, test, ends)) = host.sending else { continue };
            if !host.fence.is_open(self.now + host.ahead, epoch) {
                host.sending = None;
                continue;
            }
            for resource in &self.takes[test] {
                let other = used.insert(resource, epoch);
                assert_eq!(other, None, "seed {seed}, {} ms: {resource} by two tests", self.now);
            }
            assert!(
                self.store.book.holds(self.now, epoch),
                "seed {seed}: it sends without a lease"
            );
            *self.sent.entry(epoch).or_default() += 1;
            if self.now + 1 >= ends {
                host.sending = None;
                host.fence.close(epoch);
                finished.push(epoch);
            }
        }
        for epoch in finished {
            self.send(Message::Finished { epoch });
        }
    }

    /// Runs until the plan is done, as every coordinator says.
    fn run(mut self, seed: u64) -> Self {
        loop {
            let all = std::mem::take(&mut self.under_way);
            let (due, later): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|(at, _)| *at <= self.now);
            self.under_way = later;
            for (_, message) in due {
                self.arrive(message);
            }
            for which in 0..self.processes.len() {
                self.act(which);
            }
            self.traffic(seed);
            let done = |process: &Process| process.state.next(self.now) == Step::Done;
            if self.processes.iter().all(done) {
                return self;
            }
            self.now += 1;
            assert!(self.now < BOUND, "seed {seed}: it never ends");
        }
    }
}

#[test]
fn a_plan_comes_to_its_end_whoever_dies_and_nothing_meets() {
    let (mut tries, mut late) = (0, 0);
    for seed in 0..2_000 {
        let world = World::new(seed).run(seed);
        let state = &world.processes[0].state;
        for test in 0..world.pairs.len() {
            let Some(State::Measured(epoch)) = state.state(test) else {
                panic!("seed {seed}: {:?}", state.state(test))
            };
            assert_eq!(world.sent.get(&epoch), Some(&TEST), "seed {seed}: a whole test");
            let same =
                |process: &Process| process.state.state(test) == Some(State::Measured(epoch));
            assert!(world.processes.iter().all(same), "seed {seed}: both know the same");
        }
        let of = |how| {
            let ended = |event: &&Event| matches!(event, Event::Ended { how: h, .. } if *h == how);
            world.store.log.iter().filter(ended).count()
        };
        let (measured, pairs) = (of(Ending::Measured), world.pairs.len());
        assert!(
            measured == pairs || world.store.blind && measured > pairs,
            "seed {seed}: each once"
        );
        tries += of(Ending::Lost);
        late += world.store.late;
    }
    // The trouble is there: without it this shows nothing.
    assert!(tries > 2_000 && late > 0, "{tries} tries were lost, {late} results came late");
}

#[test]
fn one_that_goes_on_stands_where_the_other_stood() {
    for seed in 0..50 {
        let world = World::new(seed).run(seed);
        let mut replayed = world.process();
        for event in &world.store.log {
            replayed.state.take(*event);
        }
        let states = |process: &Process| {
            (0..world.pairs.len()).map(|test| process.state.state(test)).collect::<Vec<_>>()
        };
        assert_eq!(states(&replayed), states(&world.processes[0]));
        assert_eq!(replayed.state.round(), world.processes[0].state.round());
    }
}
