//! Whole conversations of the native server under a made-up clock: bytes cut anywhere, ends of every kind
//! at any moment. A seed is a story; a failure names its seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use linerate_dialect::control::{ControlError, Inbox};
use linerate_dialect::ending::Early;
use linerate_dialect::native::server::{HEAD_START_NS, Server, Terms};
use linerate_dialect::stream::{DataEvent, Report, Role, Tick};
use linerate_dialect::{Action, Conversation, Input, Over, SHUTTING_DOWN, Seen, Whose};
use linerate_model::plan::{AgreedPlan, Direction, End, TestPlan, Traffic};
use linerate_model::sample::{RecvInterval, RecvReport, SendInterval, SendReport};
use linerate_model::served::Outcome;
use linerate_model::test_event::Cpu;
use linerate_model::units::Nanos;
use linerate_session::assemble::HostSamples;
use linerate_testkit::plans;
use linerate_wire::native::frame;
use linerate_wire::native::message::{
    ClientMessage, Hello, Ping, ServerMessage, StreamReport, StreamSent,
};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const DRAIN_NS: u64 = SECOND;
const SEEDS: u64 = 10_000;

/// SplitMix64, Steele and others 2014.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound.max(1)
    }
}

/// What goes wrong, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Close,
    Silent,
    Garbage,
    Stop,
    Bye,
    Unread,
    OutOfTurn,
    Shutdown,
    Over(Over),
    NoThread,
    MissingStream,
}

const FAULTS: [Fault; 14] = [
    Fault::None,
    Fault::Close,
    Fault::Silent,
    Fault::Garbage,
    Fault::Stop,
    Fault::Bye,
    Fault::Unread,
    Fault::OutOfTurn,
    Fault::Shutdown,
    Fault::Over(Over::Bytes),
    Fault::Over(Over::Time),
    Fault::Over(Over::Day(Whose::Network)),
    Fault::NoThread,
    Fault::MissingStream,
];

/// Ends that a fault may have: by when it strikes, it may be too early or too late for its own.
fn ends_of(fault: Fault) -> &'static [Outcome] {
    match fault {
        Fault::None => &[Outcome::Done],
        Fault::Close | Fault::Unread => &[Outcome::Vanished, Outcome::Done],
        // Before its streams are there, it is their absence that ends the test.
        Fault::Silent => &[Outcome::Vanished, Outcome::Failed, Outcome::Done],
        Fault::Garbage | Fault::NoThread => &[Outcome::Failed, Outcome::Done],
        Fault::MissingStream => &[Outcome::Failed],
        Fault::Stop | Fault::Bye => &[Outcome::Stopped, Outcome::Done],
        Fault::OutOfTurn => &[Outcome::Failed, Outcome::Stopped, Outcome::Done],
        Fault::Shutdown | Fault::Over(_) => &[Outcome::Cut, Outcome::Done],
    }
}

enum Sent {
    Bytes(Vec<u8>),
    Close,
}

/// A data thread: when its next row is due, and when it ends, if that is known.
struct Thread {
    role: Role,
    rows: u64,
    ends_ns: Option<u64>,
}

struct World {
    chance: Chance,
    plan: Arc<AgreedPlan>,
    now: u64,
    server: Server,
    fault: Fault,
    fault_ns: Option<u64>,
    struck: bool,
    arrivals: Vec<(u64, u16)>,
    threads: BTreeMap<u16, Thread>,
    begin_ns: Option<u64>,
    over: Option<Over>,
    to_server: VecDeque<(u64, Sent)>,
    to_client: VecDeque<(u64, Vec<u8>)>,
    inbox: Inbox<ServerMessage>,
    /// The client does nothing any more.
    dead: bool,
    reads: bool,
    ping_ns: Option<u64>,
    sent_ns: Option<u64>,
    results: BTreeMap<u16, usize>,
    story: Vec<String>,
}

fn plan(chance: &mut Chance) -> TestPlan {
    let directions = [Direction::Forward, Direction::Reverse, Direction::Both];
    TestPlan {
        direction: directions[chance.below(3) as usize],
        streams: 1 + chance.below(4) as u16,
        end: End::Time(Nanos(SECOND + chance.below(20) * 100 * MS)),
        warmup: Nanos(chance.below(3) * 100 * MS),
        ..plans::plan(Traffic::Udp(plans::udp()))
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let plan = Arc::new(AgreedPlan { plan: plan(&mut chance), cuts: vec![] });
        let fault = FAULTS[chance.below(FAULTS.len() as u64) as usize];
        let terms = Terms {
            agreed: Arc::clone(&plan),
            drain_ns: DRAIN_NS,
            longest_ns: 60 * SECOND,
            most_bps: None,
            idle_ns: 120 * SECOND,
        };
        let now = chance.below(1 << 40);
        let ids = linerate_dialect::stream::streams(plan.plan.direction, plan.plan.streams);
        let mut arrivals: Vec<_> =
            ids.iter().map(|id| (now + chance.below(300 * MS), id.stream)).collect();
        arrivals.sort_unstable();
        if fault == Fault::MissingStream {
            arrivals.pop();
        }
        Self {
            server: Server::new(terms, now, None, None),
            fault_ns: Some(now + chance.below(5 * SECOND)),
            chance,
            plan,
            now,
            fault,
            struck: false,
            arrivals,
            threads: BTreeMap::new(),
            begin_ns: None,
            over: None,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            inbox: Inbox::new(None),
            dead: false,
            reads: true,
            ping_ns: None,
            sent_ns: None,
            results: BTreeMap::new(),
            story: vec![],
        }
    }

    fn seen(&self) -> Seen {
        let moved = self.begin_ns.map_or(0, |begin| self.now.saturating_sub(begin));
        // Data comes as long as the client lives and sends.
        let comes = !self.dead && self.sent_ns.is_some_and(|at| self.now < at);
        Seen {
            arrived: moved,
            received: moved,
            moved,
            data_silence_ns: if comes { 0 } else { u64::MAX },
            ran_ns: u64::MAX,
            over: self.over,
            ..Seen::default()
        }
    }

    fn input(&mut self, input: Input<'_>) {
        let seen = self.seen();
        self.server.input(self.now, &seen, input);
    }

    fn say(&mut self, message: &ClientMessage) {
        let frame = frame::encode(message).unwrap();
        self.send(&frame);
    }

    /// In pieces of any size, each later than the one before.
    fn send(&mut self, mut bytes: &[u8]) {
        let mut at = self.to_server.back().map_or(self.now, |(at, _)| self.now.max(*at));
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(1 + self.chance.below(bytes.len() as u64) as usize);
            at += self.chance.below(3 * MS);
            self.to_server.push_back((at, Sent::Bytes(piece.to_vec())));
            bytes = rest;
        }
    }

    fn perform(&mut self, action: Action) {
        self.story.push(format!("{} {action:?}", self.now));
        match action {
            Action::Spawn(..) if self.fault == Fault::NoThread => {
                self.struck = true;
                self.input(Input::Failed("no thread".into()));
            }
            Action::Spawn(id, role) => {
                self.threads.insert(id.stream, Thread { role, rows: 0, ends_ns: None });
            }
            Action::Prepare => {
                self.now += self.chance.below(20 * MS);
                self.input(Input::Prepared(None));
            }
            Action::Begin(at) => {
                self.begin_ns = Some(at);
                let ends = at + self.plan.plan.duration().unwrap().0;
                self.end_threads(Role::Send, ends);
            }
            Action::Stop => self.end_threads(Role::Send, self.now),
            Action::DrainUntil(at) => self.end_threads(Role::Receive, at),
            Action::PeerSent(stream, _) => {
                let now = self.now;
                if let Some(thread) = self.threads.get_mut(&stream) {
                    thread.ends_ns = Some(now + 1);
                }
            }
            Action::FinishHost => self.input(Input::Host(HostSamples::default(), Cpu::default())),
            Action::HostWarm | Action::HostOver => {}
            action => panic!("of a client: {action:?}"),
        }
    }

    fn end_threads(&mut self, role: Role, at: u64) {
        for thread in self.threads.values_mut().filter(|thread| thread.role == role) {
            thread.ends_ns = Some(thread.ends_ns.map_or(at, |ends| ends.min(at)));
        }
    }

    /// When the thread acts next, and whether it ends then.
    fn next_of(&self, thread: &Thread) -> Option<(u64, bool)> {
        let row = self.begin_ns.map(|begin| (begin + (thread.rows + 1) * 100 * MS, false));
        let end = thread.ends_ns.map(|at| (at, true));
        row.into_iter().chain(end).min()
    }

    fn run_thread(&mut self, stream: u16, ends: bool) {
        let Some(thread) = self.threads.get_mut(&stream) else { return };
        let sends = thread.role == Role::Send;
        let rows = thread.rows;
        thread.rows += 1;
        let event = if ends {
            self.threads.remove(&stream);
            let send = vec![SendInterval::default(); rows as usize];
            let recv = vec![RecvInterval::default(); rows as usize];
            let report = if sends {
                Report::Send(SendReport { intervals: send, ..Default::default() })
            } else {
                Report::Recv(RecvReport { intervals: recv, ..Default::default() })
            };
            DataEvent::Done(stream, Box::new(report))
        } else if sends {
            DataEvent::Tick(stream, rows, Tick::Send(SendInterval::default()))
        } else {
            DataEvent::Tick(stream, rows, Tick::Recv(RecvInterval::default()))
        };
        self.input(Input::Data(event, &|_| None));
        if ends && self.threads.is_empty() && self.server.outcome().is_none() {
            self.input(Input::NoMoreData);
        }
    }

    /// The honest client.
    fn on_message(&mut self, message: ServerMessage) {
        match message {
            ServerMessage::Ready => {
                for client_ns in 0..4 {
                    self.say(&ClientMessage::Ping(Ping { client_ns }));
                }
                self.say(&ClientMessage::Start);
            }
            ServerMessage::Started => {
                self.ping_ns = Some(self.now);
                let plan = &self.plan.plan;
                let lasts = HEAD_START_NS + plan.duration().unwrap().0;
                self.sent_ns = plan.direction.has_forward().then_some(self.now + lasts);
            }
            ServerMessage::Stopping(_) => {
                self.sent_ns = self.sent_ns.map(|at| at.min(self.now + MS));
            }
            ServerMessage::Stream(result) => {
                let rows = match result.report {
                    StreamReport::Send(_) | StreamReport::Recv(_) => 0,
                    StreamReport::Respond(_) => panic!("nobody asked"),
                };
                self.results.insert(result.stream, rows);
            }
            ServerMessage::Chunk(chunk) => {
                let known = self.results.get_mut(&chunk.stream).expect("after its stream");
                assert_eq!(chunk.first, *known as u64, "rows in order");
                *known += chunk.send.len() + chunk.recv.len();
            }
            ServerMessage::Results(_) => {
                self.ping_ns = None;
                for client_ns in 0..4 {
                    self.say(&ClientMessage::Ping(Ping { client_ns }));
                }
                self.say(&ClientMessage::Bye);
            }
            _ => {}
        }
    }

    fn strike(&mut self) {
        self.struck = true;
        let hello = Hello {
            version_min: 1,
            version_max: 1,
            features: vec![],
            nonce: String::new(),
            key: None,
            program: String::new(),
        };
        match self.fault {
            Fault::None | Fault::NoThread | Fault::MissingStream => self.struck = false,
            Fault::Close => {
                self.dead = true;
                let last = self.to_server.back().map_or(self.now, |(at, _)| self.now.max(*at));
                // In the middle of a message, perhaps.
                let whole = self.to_server.len() as u64;
                self.to_server.truncate(self.chance.below(whole + 1) as usize);
                self.to_server.push_back((last, Sent::Close));
            }
            Fault::Silent => self.dead = true,
            Fault::Garbage => {
                let bytes: Vec<u8> = (0..64).map(|_| self.chance.below(256) as u8 | 128).collect();
                self.send(&bytes);
            }
            Fault::Stop => self.say(&ClientMessage::Stop),
            Fault::Bye => {
                self.say(&ClientMessage::Bye);
                self.dead = true;
            }
            Fault::Unread => self.reads = false,
            Fault::OutOfTurn => self.say(&ClientMessage::Hello(hello)),
            Fault::Shutdown => self.input(Input::Shutdown(SHUTTING_DOWN)),
            Fault::Over(_) if self.begin_ns.is_none() => self.struck = false,
            Fault::Over(over) => {
                self.over = Some(over);
                self.end_threads(Role::Send, self.now);
                self.end_threads(Role::Receive, self.now);
            }
        }
    }

    /// The next thing that happens, by time; what is due at once comes in any order.
    fn step(&mut self) -> Option<()> {
        let threads = self.threads.iter().filter_map(|(stream, thread)| {
            self.next_of(thread).map(|(at, ends)| (at, *stream, ends))
        });
        let thread = threads.min();
        let speaks = |at: &Option<u64>| at.filter(|_| !self.dead);
        let from_client = self.to_server.front().map(|(at, _)| *at);
        let due = [
            self.fault_ns,
            self.arrivals.first().map(|(at, _)| *at).filter(|_| !self.dead),
            from_client.filter(|_| self.server.reads()),
            self.to_client.front().map(|(at, _)| *at),
            thread.map(|(at, ..)| at),
            speaks(&self.ping_ns),
            speaks(&self.sent_ns),
            self.server.deadline_ns(),
        ];
        let (at, which) = (0..).zip(due).filter_map(|(i, at)| Some((at?, i))).min()?;
        self.now = self.now.max(at);
        match which {
            0 => {
                self.fault_ns = None;
                self.strike();
            }
            1 => {
                let (_, stream) = self.arrivals.remove(0);
                self.input(Input::Arrived(stream));
            }
            2 => match self.to_server.pop_front()?.1 {
                Sent::Bytes(bytes) => self.input(Input::Bytes(&bytes)),
                Sent::Close => self.input(Input::Lost(ControlError::Closed)),
            },
            3 => {
                let (_, bytes) = self.to_client.pop_front()?;
                self.inbox.put(&bytes);
                while let Some(message) = self.inbox.take().expect("the server keeps to it") {
                    if !self.dead {
                        self.on_message(message);
                    }
                }
            }
            4 => {
                let (_, stream, ends) = thread?;
                self.run_thread(stream, ends);
            }
            5 => {
                self.ping_ns = Some(self.now + 500 * MS);
                self.say(&ClientMessage::Ping(Ping { client_ns: self.now }));
            }
            6 => {
                self.sent_ns = None;
                let streams = (0..self.plan.plan.streams).map(|stream| StreamSent {
                    stream,
                    datagrams: 1,
                    bytes: 1,
                    span_ns: 1,
                });
                let streams = streams.collect();
                self.say(&ClientMessage::Sent(streams));
            }
            _ => self.input(Input::Time),
        }
        Some(())
    }

    /// To its end: how it ended, and when.
    fn run(mut self) -> (Self, Result<(), Early>) {
        for _ in 0..50_000 {
            while let Some(action) = self.server.action() {
                self.perform(action);
            }
            if let Some(ended) = self.server.outcome() {
                return (self, ended);
            }
            let waiting = self.server.outgoing().len();
            if self.reads && waiting > 0 {
                let taken = 1 + self.chance.below(waiting as u64) as usize;
                let bytes = self.server.outgoing()[..taken].to_vec();
                let at = self.to_client.back().map_or(self.now, |(at, _)| self.now.max(*at));
                self.to_client.push_back((at + self.chance.below(3 * MS), bytes));
                self.input(Input::Carried(taken));
                continue;
            }
            assert!(self.step().is_some(), "it waits for nothing: {:#?}", self.story);
        }
        panic!("it never ends: {:#?}", self.story);
    }
}

/// One seed's story: what went wrong, how it ended, and every action with its time.
fn story(seed: u64) -> (Fault, Outcome, Vec<String>) {
    let world = World::new(seed);
    let (begun, fault, strikes) = (world.now, world.fault, world.fault_ns.unwrap());
    let (world, ended) = world.run();
    let outcome = ended.as_ref().map_or_else(|early| early.outcome, |()| Outcome::Done);
    let told = format!("seed {seed}, {fault:?}: {ended:?}\n{:#?}", world.story);
    let fits = match world.struck {
        true => ends_of(fault).contains(&outcome),
        false => outcome == Outcome::Done || fault == Fault::MissingStream,
    };
    assert!(fits, "{told}");
    // Ten seconds for streams and as many for the start, the test, its drain and its results.
    let most = if world.struck { strikes.max(begun) } else { begun };
    assert!(world.now.saturating_sub(most) < 30 * SECOND, "{told}");
    let streams =
        linerate_dialect::stream::streams(world.plan.plan.direction, world.plan.plan.streams);
    if outcome == Outcome::Done && !world.dead {
        assert_eq!(world.results.len(), streams.len(), "{told}");
        assert_eq!(world.server.reports().count(), streams.len(), "{told}");
        let rows = |rows: &usize| *rows > 0 || fault == Fault::Stop;
        assert!(world.results.values().all(rows), "{told}");
    }
    (fault, outcome, world.story)
}

#[test]
fn whole_tests_end_in_time_and_for_the_right_reason() {
    let mut ends = BTreeMap::<String, u64>::new();
    let many = std::env::var("LINERATE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..many {
        let (fault, outcome, _) = story(seed);
        *ends.entry(format!("{fault:?} {outcome:?}")).or_default() += 1;
    }
    println!("seeds 0 to {}: {ends:#?}", many.saturating_sub(1));
    // Every fault was met where it has an effect.
    for fault in FAULTS {
        let end = format!("{fault:?} {:?}", ends_of(fault)[0]);
        assert!(ends.contains_key(&end), "no {end} among {ends:#?}");
    }
}

#[test]
fn a_seed_tells_the_same_story_again() {
    for seed in 0..50 {
        assert_eq!(story(seed), story(seed));
    }
}

/// A test of one stream towards the server, to be driven by hand.
fn one_stream(most_bps: Option<u64>) -> Server {
    let plan = TestPlan {
        direction: Direction::Forward,
        end: End::Time(Nanos(60 * SECOND)),
        ..plans::plan(Traffic::Udp(plans::udp()))
    };
    let terms = Terms {
        agreed: Arc::new(AgreedPlan { plan, cuts: vec![] }),
        drain_ns: DRAIN_NS,
        longest_ns: 60 * SECOND,
        most_bps,
        idle_ns: 120 * SECOND,
    };
    Server::new(terms, 0, None, None)
}

/// After so many bytes have come.
fn came(bytes: u64) -> Seen {
    Seen { arrived: bytes, received: bytes, moved: bytes, ran_ns: u64::MAX, ..Seen::default() }
}

fn says(server: &mut Server, now: u64, seen: &Seen, message: &ClientMessage) {
    server.input(now, seen, Input::Bytes(&frame::encode(message).unwrap()));
    let waiting = server.outgoing().len();
    server.input(now, seen, Input::Carried(waiting));
}

fn actions(server: &mut Server) -> Vec<Action> {
    std::iter::from_fn(|| server.action()).collect()
}

/// The same, which has begun at `now`.
fn begun(now: u64, most_bps: Option<u64>) -> Server {
    let mut server = one_stream(most_bps);
    server.input(now, &came(0), Input::Arrived(0));
    says(&mut server, now, &came(0), &ClientMessage::Start);
    server.input(now, &came(0), Input::Prepared(None));
    assert!(actions(&mut server).contains(&Action::Begin(now + HEAD_START_NS)));
    server
}

#[test]
fn data_before_the_start_ends_the_test() {
    for streams in [0, 1] {
        let mut server = one_stream(None);
        (0..streams).for_each(|stream| server.input(0, &came(0), Input::Arrived(stream)));
        // Strangers may send datagrams, too.
        server.input(MS, &came(1_000), Input::Time);
        assert_eq!(server.outcome(), None);
        let look = server.deadline_ns().expect("it looks by itself");
        assert!(look <= 250 * MS, "{look}");
        server.input(look, &came(1_000_000), Input::Time);
        let ended = server.outcome().expect("over").unwrap_err();
        assert!(ended.why.contains("before the start"), "{ended:?}");
        assert!(actions(&mut server).contains(&Action::Stop));
    }
}

#[test]
fn streams_that_arrive_one_by_one_have_no_end_of_time() {
    let plan = TestPlan { streams: 128, ..plans::plan(Traffic::Udp(plans::udp())) };
    let agreed = Arc::new(AgreedPlan { plan, cuts: vec![] });
    let terms = Terms {
        agreed,
        drain_ns: DRAIN_NS,
        longest_ns: 60 * SECOND,
        most_bps: None,
        idle_ns: 120 * SECOND,
    };
    let mut server = Server::new(terms, 0, None, None);
    let (mut now, mut arrived) = (0, 0);
    while server.outcome().is_none() {
        server.input(now, &came(0), Input::Arrived(arrived));
        (now, arrived) = (now + 9 * SECOND, arrived + 1);
        server.input(now, &came(0), Input::Time);
    }
    assert!(now < 150 * SECOND, "{now}");
}

#[test]
fn a_client_that_goes_on_after_a_shutdown_is_waited_for_a_second_and_no_longer() {
    let mut server = begun(0, None);
    let mut now = 10 * SECOND;
    server.input(now, &came(1), Input::Shutdown(SHUTTING_DOWN));
    assert!(actions(&mut server).contains(&Action::Stop));
    let mut ended = None;
    for step in 1..200 {
        now = 10 * SECOND + step * 100 * MS;
        // Data goes on, and it says that it is there.
        says(&mut server, now, &came(step * 1_000_000), &ClientMessage::Alive);
        if actions(&mut server).contains(&Action::DrainUntil(0)) {
            ended = ended.or(Some(now));
        }
    }
    assert_eq!(ended, Some(11 * SECOND));
}

#[test]
fn who_sends_faster_than_allowed_after_the_end_is_not_waited_for() {
    let mut server = begun(0, Some(8_000_000));
    server.input(SECOND, &came(1_000_000), Input::Shutdown(SHUTTING_DOWN));
    let _ = actions(&mut server);
    server.input(SECOND + 300 * MS, &came(100_000_000), Input::Time);
    assert!(actions(&mut server).contains(&Action::DrainUntil(0)));
}

#[test]
fn who_stood_still_before_the_goodbye_takes_nobody_for_silent() {
    let mut server = begun(0, None);
    let done = DataEvent::Done(0, Box::new(Report::Recv(RecvReport::default())));
    server.input(SECOND, &came(1), Input::Data(done, &|_| None));
    server.input(SECOND, &came(1), Input::Host(HostSamples::default(), Cpu::default()));
    while !server.outgoing().is_empty() {
        let waiting = server.outgoing().len();
        server.input(SECOND, &came(1), Input::Carried(waiting));
    }
    // It has run again for a moment, and not yet read what its client said meanwhile.
    let woken = Seen { ran_ns: 100 * MS, ..came(1) };
    server.input(5 * SECOND, &woken, Input::Time);
    assert_eq!(server.outcome(), None);
    // Nor does it look all the time.
    assert!(server.deadline_ns().is_some_and(|at| at > 5 * SECOND));
    says(&mut server, 5 * SECOND, &woken, &ClientMessage::Bye);
    assert_eq!(server.outcome(), Some(Ok(())));
}
