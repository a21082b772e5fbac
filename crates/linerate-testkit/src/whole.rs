//! A whole test under a made-up clock: the conversations of both ends, their data threads, and the network
//! between them. One seed, one story.

mod bytes;
pub mod chance;
pub mod conformance;
pub mod data;
pub mod network;
mod rr;
pub mod script;
mod side;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use linerate_dialect::control::ControlError;
use linerate_dialect::stream::{DataEvent, Role, StreamId};
use linerate_dialect::{Action, Conversation, Input};
use linerate_model::plan::{Traffic, Transport};
use linerate_model::test_event::Cpu;
use linerate_session::assemble::HostSamples;

use chance::Chance;
use data::{Step, Thread};
use network::{Network, Numbered, Truth};
use script::{Fault, Place, Script};
use side::Side;

const MS: u64 = 1_000_000;
/// A client says hello for a stream this long, in nanoseconds.
const OPEN_LIMIT_NS: u64 = 5_000 * MS;
/// Something else keeps an end from its control connection for up to so long, in nanoseconds.
const BUSY_NS: u64 = 40 * MS;
/// Control bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// Who has a small send buffer gets rid of so many bytes at most …
const FEW_BYTES: u64 = 40;
/// … so often, in nanoseconds.
const FEW_NS: u64 = MS;
/// A slow reader takes so many bytes …
const SLOW_BYTES: usize = 7;
/// … so often, in nanoseconds.
const SLOW_NS: u64 = 400 * MS;
/// A story of more steps goes round in circles.
const MOST_STEPS: u64 = 2_000_000;

enum Event {
    Control(Place, Vec<u8>),
    Closed(Place),
    /// An end looks at its control connection again.
    Look,
    /// A stream's opening reaches an end.
    Stream(Place, u16),
    Unanswered(u16),
    Wake(Place, u16),
    /// Of a stream; its number where it is data.
    Datagram(Place, u16, Option<Numbered>, Vec<u8>),
    /// A datagram of a stream that is none of its data.
    Word(Place, u16, Vec<u8>),
    /// So many bytes of a stream.
    Piece(Place, u16, u64),
    /// A stream is closed at the other end.
    End(Place, u16),
    Fault,
}

/// Both, and all that is between them.
pub struct World<'a> {
    script: Script,
    chance: Chance,
    now: u64,
    serial: u64,
    events: BTreeMap<(u64, u64), Event>,
    /// The client, and the server.
    sides: [Side<'a>; 2],
    cut: bool,
    /// Streams that the client has open.
    opened: BTreeSet<u16>,
    /// Of streams that have one of their own.
    ports: BTreeMap<u16, NonZeroU16>,
    /// So many were asked for.
    asked: u16,
    truth: BTreeMap<u16, Truth>,
    /// When what an end wrote last on a stream arrives.
    last_data_ns: BTreeMap<(Place, u16), u64>,
    /// Bytes and ends of streams that wait for their threads.
    held: Vec<Event>,
    shown: Vec<f64>,
    struck: bool,
    story: Vec<String>,
}

/// How it ended.
pub struct Ending {
    /// When, on the world's clock.
    pub at_ns: u64,
    /// The server's clock less the client's.
    pub offset_ns: i64,
    /// What the network did, by stream.
    pub truth: BTreeMap<u16, Truth>,
    /// When the rows that the client showed begin, in seconds.
    pub shown: Vec<f64>,
    /// The fault had its chance to matter.
    pub struck: bool,
    /// Every action with its time.
    pub story: Vec<String>,
}

impl<'a> World<'a> {
    /// Two ends that have agreed, each on its own clock.
    pub fn new(
        script: Script,
        chance: Chance,
        (client, client_clock): (&'a mut dyn Conversation, u64),
        (server, server_clock): (&'a mut dyn Conversation, u64),
    ) -> Self {
        let mut world = Self {
            chance,
            now: 0,
            serial: 0,
            events: BTreeMap::new(),
            sides: [Side::new(client, client_clock), Side::new(server, server_clock)],
            cut: false,
            opened: BTreeSet::new(),
            ports: BTreeMap::new(),
            asked: 0,
            truth: BTreeMap::new(),
            last_data_ns: BTreeMap::new(),
            held: Vec::new(),
            shown: Vec::new(),
            struck: false,
            story: Vec::new(),
            script,
        };
        for place in [Place::Client, Place::Server] {
            let few = world.chance.one_in(4);
            world.side(place).few = few;
        }
        let (at, fault) = world.script.fault;
        if fault != Fault::None {
            world.at(at, Event::Fault);
        }
        world
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.serial += 1;
        self.events.insert((at_ns.max(self.now), self.serial), event);
    }

    /// To the end of both; the error says why there is none.
    ///
    /// # Errors
    /// When an end waits for nothing, or neither ends.
    pub fn run(mut self) -> Result<Ending, String> {
        for _ in 0..MOST_STEPS {
            self.settle();
            if self.over(Place::Client) && self.over(Place::Server) {
                let [client, server] = &self.sides;
                return Ok(Ending {
                    at_ns: self.now,
                    offset_ns: server.clock.wrapping_sub(client.clock).cast_signed(),
                    truth: self.truth,
                    shown: self.shown,
                    struck: self.struck,
                    story: self.story,
                });
            }
            if !self.step() {
                return Err(format!("an end waits for nothing: {:#?}", self.story));
            }
        }
        Err(format!("it never ends, at {} ns: {:#?}", self.now, self.story))
    }

    fn side(&mut self, place: Place) -> &mut Side<'a> {
        let [client, server] = &mut self.sides;
        match place {
            Place::Client => client,
            Place::Server => server,
        }
    }

    fn over(&mut self, place: Place) -> bool {
        self.side(place).is_over()
    }

    /// The next thing that happens, by time.
    fn step(&mut self) -> bool {
        let next = self.events.first_key_value().map(|((at, _), _)| *at);
        let talks = [Place::Client, Place::Server].map(|place| {
            let side = self.side(place);
            let at = side.talk.deadline_ns().filter(|_| !side.is_over());
            at.map(|at| (at.wrapping_sub(side.clock), place))
        });
        match (next, talks.into_iter().flatten().min()) {
            (next, Some((at, place))) if next.is_none_or(|next| at < next) => {
                // It may have been due before anybody looked.
                self.now = self.now.max(at);
                self.input(place, Input::Time);
            }
            _ => {
                let Some(((at, _), event)) = self.events.pop_first() else { return false };
                self.now = self.now.max(at);
                self.happen(event);
            }
        }
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            // Its kernel keeps a stream's bytes until somebody reads.
            Event::Piece(to, ..) | Event::End(to, _)
                if !self.over(to) && !self.side(to).complete =>
            {
                self.held.push(event);
            }
            Event::Control(to, bytes) => {
                self.side(to).inbox.push_back(bytes);
                // It has other things to do first: what comes meanwhile is read with this.
                if self.chance.one_in(4) {
                    let delay = self.chance.below(BUSY_NS);
                    self.look_after(to, delay);
                }
            }
            Event::Closed(to) => self.side(to).closed = true,
            Event::Stream(to, stream) if !self.over(to) => {
                if to == Place::Server && self.script.answers_at_once {
                    self.answer(stream);
                }
                if to == Place::Server || self.opened.insert(stream) {
                    self.input(to, Input::Arrived(stream));
                }
            }
            Event::Unanswered(stream)
                if !self.over(Place::Client) && !self.opened.contains(&stream) =>
            {
                self.input(Place::Client, Input::Failed("no answer within 5 s".into()));
            }
            Event::Wake(place, stream) if !self.over(place) => {
                let now = self.now;
                // Another one may have come before it.
                if self.side(place).wakes.remove_if_now(stream, now) {
                    self.wake(place, stream);
                }
            }
            Event::Datagram(to, stream, number, bytes) if !self.over(to) => {
                self.deliver(to, stream, number, &bytes);
            }
            Event::Word(to, stream, bytes) if !self.over(to) => {
                self.deliver_control(to, stream, &bytes)
            }
            Event::Piece(to, stream, bytes) if !self.over(to) => self.read(to, stream, bytes),
            Event::End(to, stream) if !self.over(to) => {
                if let Some(thread) = self.side(to).threads.get_mut(&stream) {
                    thread.close();
                }
                self.wake(to, stream);
            }
            Event::Fault => self.strike(),
            Event::Look
            | Event::Stream(..)
            | Event::Unanswered(_)
            | Event::Wake(..)
            | Event::Datagram(..)
            | Event::Word(..)
            | Event::Piece(..)
            | Event::End(..) => {}
        }
    }

    fn clock(&mut self, place: Place) -> u64 {
        self.now.wrapping_add(self.side(place).clock)
    }

    fn input(&mut self, place: Place, input: Input<'_>) {
        let now = self.clock(place);
        let side = self.side(place);
        let seen = side.shared.seen(now);
        side.talk.input(now, &seen, input);
    }

    /// All that follows at once: actions, bytes that go, bytes that are read, ends.
    fn settle(&mut self) {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for place in [Place::Client, Place::Server] {
                if self.over(place) {
                    continue;
                }
                while let Some(action) = self.side(place).talk.action() {
                    changed = true;
                    self.perform(place, action);
                }
                changed |= self.carry(place);
                changed |= self.hear(place);
                changed |= self.last_thread(place);
                let side = self.side(place);
                if side.talk.is_over() {
                    side.ended = true;
                    side.threads.clear();
                    self.story.push(format!("{} {place:?} ends", self.now));
                    self.close(place);
                    self.close_data(place);
                    changed = true;
                }
            }
        }
    }

    /// Some of what waits goes on its way, cut anywhere.
    fn carry(&mut self, place: Place) -> bool {
        let peer = place.peer();
        let room = self.side(peer).room();
        let out = self.side(place).talk.outgoing().to_vec();
        let mut most = out.len().min(room) as u64;
        let now = self.now;
        let side = self.side(place);
        if most == 0 || now < side.carries_ns {
            return false;
        }
        if side.few {
            most = most.min(FEW_BYTES);
            side.carries_ns = now + FEW_NS;
            self.at(now + FEW_NS, Event::Look);
        }
        let length = if self.chance.one_in(2) { most } else { 1 + self.chance.below(most) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let delay = self.script.network.delay(&mut self.chance);
        let at = self.in_order(place, delay);
        if !self.cut {
            let piece = out.get(..length).unwrap_or_default().to_vec();
            self.at(at, Event::Control(peer, piece));
        }
        self.input(place, Input::Carried(length));
        true
    }

    fn hear(&mut self, place: Place) -> bool {
        let now = self.now;
        let side = self.side(place);
        if !side.talk.reads() || !side.reads || now < side.looks_ns {
            return false;
        }
        let slow = side.slow;
        let most = if slow { SLOW_BYTES } else { READ_BYTES };
        let bytes = side.take(most);
        if !bytes.is_empty() {
            if slow {
                self.look_after(place, SLOW_NS);
            }
            self.input(place, Input::Bytes(&bytes));
            return true;
        }
        let side = self.side(place);
        let closed = side.closed && !std::mem::replace(&mut side.closed_said, true);
        if closed {
            self.input(place, Input::Lost(ControlError::Closed));
        }
        closed
    }

    fn look_after(&mut self, place: Place, delay: u64) {
        let at = self.now + delay;
        self.side(place).looks_ns = at;
        self.at(at, Event::Look);
    }

    fn last_thread(&mut self, place: Place) -> bool {
        let side = self.side(place);
        let none = side.complete && side.threads.is_empty();
        let over = none && !std::mem::replace(&mut side.threads_over_said, none);
        if over {
            self.input(place, Input::NoMoreData);
        }
        over
    }

    /// When what an end sends now arrives: not before what it sent before.
    fn in_order(&mut self, place: Place, delay: u64) -> u64 {
        let at = self.now + delay;
        let side = self.side(place);
        side.last_piece_ns = side.last_piece_ns.max(at);
        side.last_piece_ns
    }

    /// Its kernel says so to the peer.
    fn close(&mut self, place: Place) {
        let delay = self.script.network.delay(&mut self.chance);
        let at = self.in_order(place, delay);
        if !self.cut {
            self.at(at, Event::Closed(place.peer()));
        }
    }

    fn perform(&mut self, place: Place, action: Action) {
        let often = matches!(
            action,
            Action::Show(_) | Action::ShowHosts(_) | Action::Event(_) | Action::AskPeer
        );
        if self.story.len() < 2_000 && !often {
            self.story.push(format!("{} {place:?} {action:?}", self.now));
        }
        let delay = self.script.network.delay(&mut self.chance);
        match action {
            // Whichever end connects, it is the client's opening that stands for it.
            Action::Open(..) if place == Place::Server => {}
            Action::Open(id, port) => self.open(id.stream, port, delay),
            Action::Listen(id) => self.listen(place, id.stream),
            Action::TakeOpen => {
                // It has asked for all up to this one.
                let stream = self.asked.saturating_sub(1);
                if self.opened.insert(stream) {
                    self.input(place, Input::Arrived(stream));
                }
            }
            Action::Spawn(id, role) => self.spawn(place, id, role),
            Action::Prepare => {
                self.complete(place);
                self.input(place, Input::Prepared(None));
            }
            Action::Begin(at_ns) => {
                self.side(place).shared.begin_ns = Some(at_ns);
                self.wake_all(place, at_ns);
            }
            Action::Stop => {
                let now = self.clock(place);
                self.side(place).shared.stop(now);
                self.wake_all(place, now);
            }
            Action::DrainUntil(at_ns) => {
                self.side(place).shared.drain_until_ns = Some(at_ns);
                self.wake_all(place, at_ns);
            }
            Action::PeerSent(stream, datagrams) => {
                self.side(place).shared.peer_sent.insert(stream, datagrams);
                self.wake_at(place, stream, self.now);
            }
            Action::FinishHost => {
                self.input(place, Input::Host(HostSamples::default(), Cpu::default()));
            }
            Action::SendDatagram(stream, bytes) => self.say(place, stream, &bytes),
            Action::Show(row) => self.shown.push(row.start_s),
            Action::Announce => self.complete(place),
            Action::HostWarm
            | Action::HostOver
            | Action::Event(_)
            | Action::Note(_)
            | Action::ShowHosts(_)
            | Action::AskPeer
            | Action::Release => {}
        }
    }

    /// All threads of an end are there, and find what their streams held for them.
    fn complete(&mut self, place: Place) {
        self.side(place).complete = true;
        for event in std::mem::take(&mut self.held) {
            self.at(self.now, event);
        }
    }

    /// The client says hello for a stream until the server answers.
    fn open(&mut self, stream: u16, port: Option<NonZeroU16>, delay: u64) {
        self.asked = stream + 1;
        let mut lost = stream == 0 && self.script.fault.1 == Fault::NoStream;
        self.struck |= lost;
        // A port that both know is named by none.
        lost |= port.is_some() && port != self.ports.get(&stream).copied();
        self.at(self.now + OPEN_LIMIT_NS, Event::Unanswered(stream));
        if !lost && !self.cut {
            self.at(self.now + delay, Event::Stream(Place::Server, stream));
        }
    }

    /// A stream of the server's has a port of its own.
    fn listen(&mut self, place: Place, stream: u16) {
        let port = u16::try_from(self.chance.below(60_000)).unwrap_or(0).saturating_add(1_024);
        let port = NonZeroU16::new(port).unwrap_or(NonZeroU16::MAX);
        self.ports.insert(stream, port);
        self.input(place, Input::Listening(stream, port));
    }

    /// The client hears that a stream is there.
    fn answer(&mut self, stream: u16) {
        let delay = self.script.network.delay(&mut self.chance);
        if !self.cut {
            self.at(self.now + delay, Event::Stream(Place::Client, stream));
        }
    }

    fn spawn(&mut self, place: Place, id: StreamId, role: Role) {
        if place == Place::Server && !self.script.answers_at_once {
            self.answer(id.stream);
        }
        let Network { delay_ns, jitter_ns, .. } = self.script.network;
        let acknowledges_ns = 2 * (delay_ns + jitter_ns) + MS;
        let [client, server] = &self.script.plans;
        let plan = if place == Place::Client { client } else { server };
        let thread = Thread::new(
            plan,
            (id, role),
            (self.script.framing)(id.stream),
            self.script.habits,
            acknowledges_ns,
        );
        self.side(place).threads.insert(id.stream, thread);
        self.wake_at(place, id.stream, self.now);
    }

    /// A thread looks at `at_ns` of the world's clock, or sooner.
    fn wake_at(&mut self, place: Place, stream: u16, at_ns: u64) {
        let (now, at_ns) = (self.now, at_ns.max(self.now));
        if self.side(place).wakes.is_sooner(stream, now, at_ns) {
            self.at(at_ns, Event::Wake(place, stream));
        }
    }

    /// All threads of an end look, at a time on its clock.
    fn wake_all(&mut self, place: Place, at_ns: u64) {
        let side = self.side(place);
        let at = at_ns.saturating_sub(side.clock);
        let streams: Vec<u16> = side.threads.keys().copied().collect();
        for stream in streams {
            self.wake_at(place, stream, at);
        }
    }

    /// A data thread acts, as far as its time goes.
    fn wake(&mut self, place: Place, stream: u16) {
        let now = self.clock(place);
        loop {
            let side = self.side(place);
            let Some(thread) = side.threads.get_mut(&stream) else { return };
            match thread.step(now, stream, &mut side.shared) {
                Step::Send(datagram, measured) => {
                    self.send(place, stream, datagram, measured);
                }
                Step::Write(bytes) => self.write(place, stream, bytes),
                Step::Close => self.end_stream(place, stream),
                Step::Event(event) => self.on_data(place, event),
                Step::Wait(None) => return,
                Step::Wait(Some(at_ns)) => {
                    let clock = self.side(place).clock;
                    self.wake_at(place, stream, at_ns.saturating_sub(clock));
                    return;
                }
            }
            if self.over(place) {
                return;
            }
        }
    }

    fn on_data(&mut self, place: Place, event: DataEvent) {
        if let DataEvent::Done(stream, _) = &event {
            self.side(place).threads.remove(stream);
        }
        self.input(place, Input::Data(event, &|_| None));
        self.settle();
    }

    /// A datagram enters the network.
    fn send(&mut self, place: Place, stream: u16, datagram: Vec<u8>, measured: bool) {
        let truth = self.truth.entry(stream).or_default();
        let copies = self.script.network.copies(&mut self.chance);
        // An empty one marks the end.
        let number = (!datagram.is_empty()).then(|| truth.send(measured));
        if self.cut {
            return;
        }
        for _ in 0..copies {
            let delay = self.script.network.delay_of_data(&mut self.chance);
            self.at(
                self.now + delay,
                Event::Datagram(place.peer(), stream, number, datagram.clone()),
            );
        }
    }

    /// A datagram that is no data enters the network.
    fn say(&mut self, place: Place, stream: u16, bytes: &[u8]) {
        let copies = self.script.network.copies(&mut self.chance);
        let copies = if self.cut { 0 } else { copies };
        for _ in 0..copies {
            let delay = self.script.network.delay_of_data(&mut self.chance);
            let word = Event::Word(place.peer(), stream, bytes.to_vec());
            self.at(self.now + delay, word);
        }
    }

    /// It is the thread's while there is one, and then the conversation's.
    fn deliver_control(&mut self, place: Place, stream: u16, bytes: &[u8]) {
        if self.side(place).threads.contains_key(&stream) {
            return self.deliver(place, stream, None, bytes);
        }
        self.input(place, Input::Datagram(stream, bytes));
    }

    fn deliver(&mut self, place: Place, stream: u16, number: Option<Numbered>, bytes: &[u8]) {
        let now = self.clock(place);
        let side = self.side(place);
        let Some(thread) = side.threads.get_mut(&stream) else { return };
        if thread.hear(bytes, now, &mut side.shared)
            && let Some(number) = number
        {
            self.truth.entry(stream).or_default().deliver(number);
        }
        self.wake(place, stream);
    }

    /// Bytes of a stream enter the network, which keeps them in order.
    fn write(&mut self, place: Place, stream: u16, bytes: u64) {
        self.truth.entry(stream).or_default().written += bytes;
        let at = self.data_in_order(place, stream);
        if !self.cut {
            self.at(at, Event::Piece(place.peer(), stream, bytes));
        }
    }

    /// This end of a stream closes.
    fn end_stream(&mut self, place: Place, stream: u16) {
        let at = self.data_in_order(place, stream);
        if !self.cut {
            self.at(at, Event::End(place.peer(), stream));
        }
    }

    fn data_in_order(&mut self, place: Place, stream: u16) -> u64 {
        let at = self.now + self.script.network.delay_of_data(&mut self.chance);
        let last = self.last_data_ns.entry((place, stream)).or_default();
        *last = at.max(*last);
        *last
    }

    fn read(&mut self, place: Place, stream: u16, bytes: u64) {
        let now = self.clock(place);
        let side = self.side(place);
        let Some(thread) = side.threads.get_mut(&stream) else { return };
        if thread.read(bytes, now, &mut side.shared) {
            self.truth.entry(stream).or_default().taken += bytes;
        }
        self.wake(place, stream);
    }

    /// The kernel closes the data connections of an end that is gone.
    fn close_data(&mut self, place: Place) {
        let is_tcp = self.script.plans.iter().all(|p| !matches!(p.traffic, Traffic::Udp(_)));
        let streams: Vec<u16> = self.side(place.peer()).threads.keys().copied().collect();
        for stream in streams.into_iter().filter(|_| is_tcp) {
            self.end_stream(place, stream);
        }
    }

    /// The first stream of bytes that has a thread at both ends breaks under them.
    fn reset_data(&mut self) {
        let [client, server] = &self.sides;
        let is_tcp = self.script.plans.iter().all(|p| p.traffic.transport() == Transport::Tcp);
        let mut shared = client.threads.keys().filter(|s| server.threads.contains_key(s));
        let stream = shared.next().copied().filter(|_| is_tcp);
        self.struck = stream.is_some();
        let Some(stream) = stream else { return };
        let is_of = |event: &Event| matches!(event, Event::Piece(_, of, _) | Event::End(_, of) if *of == stream);
        self.events.retain(|_, event| !is_of(event));
        self.held.retain(|event| !is_of(event));
        for place in [Place::Client, Place::Server] {
            if let Some(thread) = self.side(place).threads.get_mut(&stream) {
                thread.reset();
            }
            self.wake(place, stream);
        }
    }

    fn strike(&mut self) {
        let fault = self.script.fault.1;
        self.story.push(format!("{} {fault:?}", self.now));
        self.struck = true;
        match fault {
            Fault::None | Fault::NoStream => {}
            Fault::Killed(place) => {
                if !self.over(place) {
                    self.side(place).dead = true;
                    self.close(place);
                    self.close_data(place);
                }
            }
            Fault::Gone(place) => self.side(place).dead = true,
            Fault::Cut => {
                self.cut = true;
                self.events.retain(|_, event| {
                    !matches!(
                        event,
                        Event::Control(..)
                            | Event::Closed(_)
                            | Event::Datagram(..)
                            | Event::Word(..)
                            | Event::Piece(..)
                            | Event::End(..)
                    )
                });
            }
            Fault::Reset => {
                for place in [Place::Client, Place::Server] {
                    self.side(place).closed = true;
                    self.events.retain(|_, event| !matches!(event, Event::Control(..)));
                }
            }
            Fault::DataReset => self.reset_data(),
            Fault::Stopped(place) if !self.over(place) => {
                self.input(place, Input::Shutdown(linerate_dialect::SHUTTING_DOWN))
            }
            Fault::Garbage(place) => {
                // Neither a length nor a state of any dialect.
                let bytes: Vec<u8> = (0..64).map(|_| 128 + self.chance.below(120) as u8).collect();
                self.side(place).inbox.push_back(bytes);
            }
            Fault::DeadThread(place) => {
                let dead = self.side(place).threads.pop_first();
                self.struck = dead.is_some();
                if let Some((
                    stream,
                    Thread::SendBytes(_)
                    | Thread::ReceiveBytes(_)
                    | Thread::Ask(_)
                    | Thread::Answer(_),
                )) = dead
                    && !self.script.habits.streams_outlive
                {
                    self.end_stream(place, stream);
                }
            }
            Fault::Over(over) => {
                let now = self.clock(Place::Server);
                let server = self.side(Place::Server);
                let runs = !server.threads.is_empty() && server.shared.begin_ns.is_some();
                if runs {
                    server.shared.over = Some(over);
                    server.shared.stop(now);
                    server.shared.drain_until_ns = Some(0);
                    self.wake_all(Place::Server, now);
                }
                self.struck = runs;
            }
            Fault::Unread(place) => self.side(place).reads = false,
            Fault::Slow(place) => self.side(place).slow = true,
            Fault::Stopped(_) => {}
        }
    }
}
