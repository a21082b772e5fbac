//! Performs what a conversation at the client asks for: owns its control connection, its data threads and
//! the clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use linerate_dialect::stream::{DataEvent, Role, StreamId};
use linerate_dialect::{Action, Conversation, Input, Seen};
use linerate_engine::clock;
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_model::test_event::TestEvent;
use linerate_session::assemble::HostSamples;
use linerate_session::observer::Observer;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedSender};

use super::Request;
use super::bounds::Watch;
use super::connect::address_pair;
use super::open::{Opened, Opening};
use crate::controls::Controls;
use crate::data::{self, Shared, SocketFacts, StopOnDrop, StreamSocket, Streams};
use crate::errors;
use crate::host::HostWatch;
use crate::in_band::InBand;
use crate::line::{Came, Line, nanos};
use crate::process_cpu::ProcessCpu;
use crate::standstill;

/// What those who watch see of a test when all its streams are there.
pub(super) type Announce<'a> = Box<dyn FnOnce(&[SocketFacts]) -> Option<TestEvent> + Send + 'a>;

/// One end of one test, with all that its conversation does not know of.
pub(super) struct Driver<'a, C> {
    /// Whatever happens, no thread outlives the test.
    _stop: StopOnDrop,
    conversation: C,
    line: Line,
    in_band: InBand,
    shared: Arc<Shared>,
    streams: Streams,
    host: Option<HostWatch>,
    /// The record so far.
    record: &'a mut RunRecord,
    observer: &'a mut dyn Observer,
    announce: Option<Announce<'a>>,
    opening: Opening,
    opened: BTreeMap<u16, StreamSocket>,
    facts: Vec<SocketFacts>,
    /// Connections that outlive their threads.
    kept: Vec<std::net::TcpStream>,
    cpu: ProcessCpu,
    counted: Option<HostSamples>,
    /// For the threads that are still to be started.
    events: Option<UnboundedSender<DataEvent>>,
    /// What this end could not do.
    fault: Option<ErrorRecord>,
    controls: Option<Controls>,
    /// Over what the owner of this host allows it.
    watch: Watch,
}

/// How a conversation ended.
pub(super) struct Over<C> {
    pub(super) conversation: C,
    /// What this end could not do.
    pub(super) fault: Option<ErrorRecord>,
    pub(super) host: HostSamples,
}

/// What is to be reported to the conversation.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Woken {
    Line(Came),
    Opened(Opened),
    Data(Option<DataEvent>),
    Datagram(u16, usize),
    Look,
    Stop,
}

impl<'a, C: Conversation> Driver<'a, C> {
    /// As the request has it: it keeps within its bounds.
    pub(super) fn new(
        request: &Request,
        conversation: C,
        control: impl Into<Option<TcpStream>>,
        opening: Opening,
        streams: Streams,
        (record, announce): (&'a mut RunRecord, Announce<'a>),
        observer: &'a mut dyn Observer,
    ) -> Self {
        let shared = request.bounds.shared(streams.cores.len());
        if let Some(controls) = &request.controls {
            shared.follow(controls.throttle());
        }
        Self {
            _stop: StopOnDrop(Arc::clone(&shared)),
            conversation,
            line: Line::new(control.into()),
            in_band: InBand::default(),
            shared,
            streams,
            host: None,
            record,
            observer,
            announce: Some(announce),
            opening,
            opened: BTreeMap::new(),
            facts: Vec::new(),
            kept: Vec::new(),
            cpu: ProcessCpu::start(),
            counted: None,
            events: None,
            fault: None,
            controls: request.controls.clone(),
            watch: request.bounds.watch(),
        }
    }

    /// Until the conversation is over.
    pub(super) async fn run(mut self) -> Over<C> {
        let (events, mut reported) = mpsc::unbounded_channel();
        self.events = Some(events);
        self.perform_all().await;
        crate::signals::ends_in_order();
        let mut stop = std::pin::pin!(crate::signals::times(1));
        let (mut threads, mut stops) = (true, 1);
        loop {
            if self.conversation.is_over() {
                return self.over().await;
            }
            let woken = tokio::select! {
                came = self.line.next(&self.conversation) => Woken::Line(came),
                stream = self.opening.next() => Woken::Opened(stream),
                event = reported.recv(), if threads => Woken::Data(event),
                (stream, bytes) = self.in_band.next() => Woken::Datagram(stream, bytes),
                () = self.watch.turn() => Woken::Look,
                () = &mut stop => Woken::Stop,
            };
            // Before what woke this: the last report of a thread that a limit has stopped would make the test whole.
            if let Some(why) = self.watch.broken(&self.shared, clock::monotonic_ns()) {
                self.input(Input::Shutdown(why));
            }
            match woken {
                Woken::Line(came) => {
                    let seen = self.seen();
                    self.conversation.input(clock::monotonic_ns(), &seen, self.line.input(came));
                }
                Woken::Opened((stream, Ok(socket))) => {
                    let facts = socket.facts();
                    let pair = facts.addresses.map(|(local, peer)| address_pair(local, peer));
                    self.facts.push(facts);
                    self.record.addresses.get_or_insert_default().streams.extend(pair);
                    self.opened.insert(stream, socket);
                    self.input(Input::Arrived(stream));
                }
                Woken::Opened((_, Err(error))) => self.fail(error),
                Woken::Data(Some(event)) => self.on_data(event).await,
                Woken::Data(None) => {
                    threads = false;
                    self.input(Input::NoMoreData);
                }
                Woken::Datagram(stream, bytes) => {
                    let (seen, datagram) = (self.seen(), self.in_band.datagram(bytes));
                    let input = Input::Datagram(stream, datagram);
                    self.conversation.input(clock::monotonic_ns(), &seen, input);
                }
                Woken::Look => {}
                Woken::Stop => {
                    stops += 1;
                    stop.set(crate::signals::times(stops));
                    self.input(Input::Shutdown("it was interrupted"));
                }
            }
            self.perform_all().await;
        }
    }

    async fn over(self) -> Over<C> {
        let Self { conversation, line, fault, host, counted, .. } = self;
        line.close();
        let host = match (counted, host) {
            (Some(counted), _) => counted,
            (None, Some(mut host)) => host.finish().await,
            (None, None) => HostSamples::default(),
        };
        Over { conversation, fault, host }
    }

    fn input(&mut self, input: Input<'_>) {
        let seen = self.seen();
        self.conversation.input(clock::monotonic_ns(), &seen, input);
    }

    fn seen(&self) -> Seen {
        Seen {
            arrived: self.shared.arrived(),
            received: self.shared.received(),
            moved: self.shared.moved(),
            data_silence_ns: nanos(self.shared.silence(0)),
            ran_ns: nanos(standstill::ran_for()),
            ..Seen::default()
        }
    }

    async fn on_data(&mut self, event: DataEvent) {
        if let Some(host) = &mut self.host {
            host.on_event(&event).await;
        }
        self.in_band.begin_after(&event);
        let seen = self.seen();
        let row = |index| self.host.as_ref()?.row(index);
        self.conversation.input(clock::monotonic_ns(), &seen, Input::Data(event, &row));
    }

    fn fail(&mut self, error: ErrorRecord) {
        let why = error.what.clone();
        self.fault = Some(error);
        self.input(Input::Failed(why));
    }

    async fn perform_all(&mut self) {
        while let Some(action) = self.conversation.action() {
            self.perform(action).await;
        }
    }

    async fn perform(&mut self, action: Action) {
        match (action, &mut self.host) {
            (Action::Open(id, port), _) => self.opening.open(id.stream, port),
            (Action::TakeOpen, _) => self.opening.take(),
            (Action::Release, _) => self.kept.clear(),
            (Action::Spawn(id, role), _) => {
                if let Err(e) = self.spawn(id, role) {
                    self.fail(errors::unable("start a data thread", &e.to_string()));
                }
            }
            (Action::Announce, _) => {
                // Those who hold the channel from now on are the threads.
                self.events = None;
                self.observer.start(self.record);
                let event = self.announce.take().and_then(|announce| announce(&self.facts));
                event.iter().for_each(|event| self.observer.event(event));
            }
            (Action::Prepare, _) => {
                let nic = self.record.client.nic.as_ref().map(|nic| nic.name.clone());
                self.host = Some(HostWatch::new(nic.as_deref()).await);
                let congestion = self.facts.iter().find_map(|facts| facts.congestion.clone());
                self.input(Input::Prepared(congestion));
            }
            (Action::Begin(at_ns), _) => {
                if let Some(controls) = &self.controls {
                    controls.begins(at_ns.saturating_add(self.streams.agreed.plan.warmup.0));
                }
                self.shared.start(at_ns);
            }
            (Action::Stop, _) => self.shared.stop(),
            (Action::DrainUntil(at_ns), _) => self.shared.drain_until(at_ns),
            (Action::PeerSent(stream, datagrams), _) => {
                self.shared.peer_sent(stream, datagrams);
            }
            (Action::SendDatagram(stream, datagram), _) => self.in_band.send(stream, &datagram),
            (Action::Show(row), _) => self.observer.interval(&row),
            (Action::ShowHosts(hosts), _) => {
                let [client, server] = &*hosts;
                self.observer.hosts(client.as_ref(), server.as_ref());
            }
            (Action::Note(text), _) => self.observer.note(&text),
            (Action::Event(event), _) => self.observer.event(&event),
            (Action::HostWarm, Some(host)) => host.warm().await,
            (Action::HostOver, Some(host)) => host.over().await,
            (Action::FinishHost, Some(host)) => {
                let samples = host.finish().await;
                self.counted = Some(samples.clone());
                self.input(Input::Host(samples, self.cpu.percent()));
            }
            // The host is watched from the time that the test is prepared.
            (Action::HostWarm | Action::HostOver | Action::FinishHost, None) => {}
            // A server's.
            (Action::AskPeer | Action::Listen(_), _) => {}
        }
    }

    /// The thread of a stream that is open.
    fn spawn(&mut self, id: StreamId, role: Role) -> std::io::Result<()> {
        let (Some(socket), Some(events)) = (self.opened.remove(&id.stream), &self.events) else {
            return Ok(());
        };
        if let (true, StreamSocket::Tcp(tcp)) = (self.streams.habits.streams_outlive, &socket) {
            self.kept.extend(tcp.try_clone());
        }
        if let (true, StreamSocket::Udp(udp, _)) = (self.streams.habits.streams_speak, &socket) {
            self.in_band.keep(id.stream, udp)?;
        }
        let context = self.streams.context((id, role), &self.shared, events);
        data::spawn(context, socket).map(drop)
    }
}
