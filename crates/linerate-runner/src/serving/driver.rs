//! Performs what a conversation at the server asks for: owns its control connection, its data threads and
//! the clock.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::stream::{DataEvent, Role, StreamId};
use linerate_dialect::{Action, Conversation, Granted, Input, Over, SHUTTING_DOWN, Seen};
use linerate_engine::{clock, sys};
use linerate_model::test_event::TestEvent;
use linerate_session::assemble::HostSamples;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use super::listen::{self, DataPort, PortOptions};
use crate::admission::Slot;
use crate::data::Streams;
use crate::data::{self, Early, Shared, Sign, StopOnDrop, StreamSocket};
use crate::host::HostWatch;
use crate::in_band::InBand;
use crate::line::{Came, Line, nanos};
use crate::loan::Lent;
use crate::process_cpu::ProcessCpu;
use crate::serve_iperf3::control;
use crate::service::Server;
use crate::standstill;

/// What a dialect does with its data sockets, and with what its users see.
pub(crate) trait Guest: Send {
    /// All data sockets are there, in the order of their arrival; their threads are not.
    fn announce(&mut self, _sockets: &[&StreamSocket]) {}

    /// What it asks of a stream's data port of its own.
    fn wish(&self, _stream: u16) -> PortOptions {
        PortOptions::default()
    }

    /// The thread of a stream is about to start on this socket.
    fn prepare(&mut self, _socket: &StreamSocket) {}

    /// It has started; over TCP, `tcp` is its connection.
    fn started(&mut self, _tcp: Option<std::net::TcpStream>) {}

    /// Something that its users see.
    fn event(&mut self, _event: TestEvent) {}

    /// Datagrams that came before the socket of the stream that is about to start.
    fn early(&mut self) -> Vec<Early> {
        Vec::new()
    }

    /// From now on it matters whether the client is there.
    fn watch(&mut self, _control: &TcpStream) {}

    /// Asks the client's kernel whether it is there.
    fn ask(&mut self, _control: &TcpStream) {}
}

/// What a test runs with.
pub(crate) struct Setup<G> {
    pub(crate) streams: Streams,
    pub(crate) shared: Arc<Shared>,
    /// Its place among the tests, until its end.
    pub(crate) slot: Slot,
    pub(crate) guest: G,
    /// The interface of a test whose host is watched.
    pub(crate) nic: Option<Option<String>>,
    /// How the client is known to be there, and how long it may give no sign of it.
    pub(crate) sign: (Sign, Duration),
    /// Streams say which one they are; otherwise it is the order in which they came.
    pub(crate) named: bool,
}

/// One end of one test, with all that its conversation does not know of.
pub(crate) struct Driver<C, G> {
    /// Whatever happens, no thread outlives the test; and before its place is free, they are stopped.
    _stop: StopOnDrop,
    conversation: C,
    line: Line,
    in_band: InBand,
    setup: Setup<G>,
    host: Option<HostWatch>,
    cpu: ProcessCpu,
    congestion: Option<String>,
    arrived: BTreeMap<u64, StreamSocket>,
    /// For the threads that are still to be started.
    events: Option<UnboundedSender<DataEvent>>,
    /// Ports of this test alone that wait for their streams.
    ports: JoinSet<std::io::Result<(u16, Lent)>>,
    /// What came to these streams before their sockets.
    early: BTreeMap<u16, Vec<Early>>,
    granted: Option<Granted>,
}

/// What is to be reported to the conversation.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Woken {
    Line(Came),
    Arrived(Option<(u64, StreamSocket)>),
    Port(std::io::Result<(u16, Lent)>),
    Data(Option<DataEvent>),
    Datagram(u16, usize),
    /// It shall end, and why.
    End(String),
}

impl<C: Conversation, G: Guest> Driver<C, G> {
    /// With the control connection, where there is one.
    pub(crate) fn new(
        conversation: C,
        control: impl Into<Option<TcpStream>>,
        setup: Setup<G>,
    ) -> Self {
        Self {
            _stop: StopOnDrop(Arc::clone(&setup.shared)),
            conversation,
            line: Line::new(control.into()),
            in_band: InBand::default(),
            setup,
            host: None,
            cpu: ProcessCpu::start(),
            congestion: None,
            arrived: BTreeMap::new(),
            events: None,
            ports: JoinSet::new(),
            early: BTreeMap::new(),
            granted: None,
        }
    }

    /// Until the conversation is over, and then its connection is closed.
    pub(crate) async fn run<K: Into<u64>>(
        self,
        server: &Server,
        arrivals: &mut UnboundedReceiver<(K, StreamSocket)>,
    ) -> C {
        let (conversation, line) = self.converse(server, arrivals).await;
        line.close();
        conversation
    }

    /// Until the conversation is over; another may follow on its connection.
    pub(crate) async fn converse<K: Into<u64>>(
        mut self,
        server: &Server,
        arrivals: &mut UnboundedReceiver<(K, StreamSocket)>,
    ) -> (C, Line) {
        let (events, mut reported) = mpsc::unbounded_channel();
        self.events = Some(events);
        let mut shut = server.shut.clone();
        let mut permitted = self.setup.slot.permit.ending();
        let (mut ending, mut threads) = (false, true);
        loop {
            while let Some(action) = self.conversation.action() {
                self.perform(action).await;
            }
            if self.conversation.is_over() {
                return (self.conversation, self.line);
            }
            let woken = tokio::select! {
                came = self.line.next(&self.conversation) => Woken::Line(came),
                arrival = arrivals.recv(), if self.events.is_some() => {
                    Woken::Arrived(arrival.map(|(key, socket)| (key.into(), socket)))
                }
                Some(arrival) = self.ports.join_next() => Woken::Port(
                    arrival.unwrap_or_else(|e| Err(std::io::Error::other(e))),
                ),
                event = reported.recv(), if threads => Woken::Data(event),
                (stream, bytes) = self.in_band.next() => Woken::Datagram(stream, bytes),
                _ = shut.changed(), if !ending => Woken::End(SHUTTING_DOWN.to_owned()),
                why = permitted.why(), if !ending => Woken::End(why),
            };
            match woken {
                Woken::Line(came) => {
                    let seen = self.seen();
                    self.conversation.input(clock::monotonic_ns(), &seen, self.line.input(came));
                }
                Woken::Arrived(Some((key, socket))) => {
                    self.arrived.entry(key).or_insert(socket);
                    self.input(Input::Arrived(u16::try_from(key).unwrap_or(u16::MAX)));
                }
                Woken::Port(Ok((stream, (socket, early)))) => {
                    self.early.insert(stream, early);
                    self.arrived.entry(u64::from(stream)).or_insert(socket);
                    self.input(Input::Arrived(stream));
                }
                Woken::Port(Err(e)) => self.input(Input::Failed(format!("no data port: {e}"))),
                Woken::Arrived(None) => self.input(Input::Failed("no streams".into())),
                Woken::Data(Some(event)) => self.on_data(event).await,
                Woken::Data(None) => {
                    threads = false;
                    self.input(Input::NoMoreData);
                }
                Woken::Datagram(stream, bytes) => {
                    self.charge(bytes);
                    let (seen, datagram) = (self.seen(), self.in_band.datagram(bytes));
                    let input = Input::Datagram(stream, datagram);
                    self.conversation.input(clock::monotonic_ns(), &seen, input);
                }
                Woken::End(why) => {
                    ending = true;
                    self.input(Input::Shutdown(&why));
                }
            }
        }
    }

    fn seen(&self) -> Seen {
        let shared = &self.setup.shared;
        let answers = matches!(self.setup.sign.0, Sign::Answers);
        let control = self.line.stream().filter(|_| answers);
        let over = [(shared.over_budget(), Over::Bytes), (shared.over_time(), Over::Time)];
        let day = shared.over_day().map(Over::Day);
        Seen {
            arrived: shared.arrived(),
            received: shared.received(),
            moved: shared.moved(),
            data_silence_ns: nanos(shared.silence(0)),
            ran_ns: nanos(standstill::ran_for()),
            over: over.into_iter().find_map(|(broken, over)| broken.then_some(over)).or(day),
            peer_gone: shared.peer_gone(),
            answer_silence_ns: control.and_then(sys::tcp_silence).map(nanos),
            round_trip_ns: control
                .and_then(sys::tcp_sample)
                .and_then(|tcp| tcp.rtt_ns)
                .unwrap_or(0),
            granted: self.granted,
        }
    }

    /// A datagram that no thread has read is held against the owner's limits all the same.
    fn charge(&mut self, bytes: usize) {
        if let Some(wait) = self.setup.shared.add_late(bytes as u64, clock::monotonic_ns()) {
            self.in_band.pause(wait);
        }
    }

    fn input(&mut self, input: Input<'_>) {
        let seen = self.seen();
        self.conversation.input(clock::monotonic_ns(), &seen, input);
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

    async fn perform(&mut self, action: Action) {
        match (action, &mut self.host) {
            (Action::Spawn(id, role), _) => {
                if let Err(e) = self.spawn(id, role) {
                    self.input(Input::Failed(format!("no thread: {e}")));
                }
            }
            (Action::Listen(id), _) => match self.listen(id.stream) {
                Ok(port) => self.input(Input::Listening(id.stream, port)),
                Err(e) => self.input(Input::Failed(format!("no data port: {e}"))),
            },
            (Action::Open(id, _), _) => {
                if let Err(e) = self.open(id.stream) {
                    self.input(Input::Failed(format!("no data port: {e}")));
                }
            }
            (Action::Announce, _) => {
                let sockets: Vec<&StreamSocket> = self.arrived.values().collect();
                self.setup.guest.announce(&sockets);
                self.congestion = sockets.iter().find_map(|socket| socket.congestion());
            }
            (Action::Prepare, _) => {
                // Those who hold the channel from now on are the threads, and no stream comes any more.
                self.events = None;
                // Nor does what opening them cost belong to the test.
                self.cpu = ProcessCpu::start();
                if let Some(nic) = &self.setup.nic {
                    self.host = Some(HostWatch::new(nic.as_deref()).await);
                }
                // Not before: the client may take its time to open streams.
                let (sign, limit) = self.setup.sign;
                let watched = self.line.stream().map_or(Ok(()), |control| {
                    self.setup.guest.watch(control);
                    self.setup.shared.watch_peer(control, sign, limit)
                });
                self.input(match watched {
                    Ok(()) => Input::Prepared(self.congestion.clone()),
                    Err(e) => Input::Failed(format!("cannot watch the client's connection: {e}")),
                });
            }
            (Action::AskPeer, _) => {
                self.line.stream().into_iter().for_each(|control| self.setup.guest.ask(control));
            }
            (Action::SendDatagram(stream, datagram), _) => self.in_band.send(stream, &datagram),
            (Action::Event(event), _) => self.setup.guest.event(*event),
            (Action::Begin(at_ns), _) => self.setup.shared.start(at_ns),
            (Action::Stop, _) => self.setup.shared.stop(),
            (Action::DrainUntil(at_ns), _) => self.setup.shared.drain_until(at_ns),
            (Action::PeerSent(stream, datagrams), _) => {
                self.setup.shared.peer_sent(stream, datagrams);
            }
            (Action::HostWarm, Some(host)) => host.warm().await,
            (Action::HostOver, Some(host)) => host.over().await,
            (Action::FinishHost, host) => {
                let samples = match host {
                    Some(host) => host.finish().await,
                    None => HostSamples::default(),
                };
                self.input(Input::Host(samples, self.cpu.percent()));
            }
            // Of a host that nobody watches.
            (Action::HostWarm | Action::HostOver, None) => {}
            // A client's.
            (Action::TakeOpen | Action::Release, _) => {}
            (Action::Show(_) | Action::ShowHosts(_) | Action::Note(_), _) => {}
        }
    }

    /// A port for one stream, at the address that the client knows.
    fn listen(&mut self, stream: u16) -> std::io::Result<NonZeroU16> {
        let control = self.line.stream().ok_or(std::io::ErrorKind::NotConnected)?;
        control::watch_waiting(control);
        let (local, peer) = (control.local_addr()?, sys::plain(control.peer_addr()?).ip());
        let transport = self.setup.streams.agreed.plan.traffic.transport();
        let wish = self.setup.guest.wish(stream);
        let port = DataPort::open((sys::plain(local), peer), transport, &wish)?;
        let number = port.number()?;
        self.granted = Some(port.granted());
        self.ports.spawn(async move { Ok((stream, port.stream(peer, &wish).await?)) });
        Ok(number)
    }

    /// A stream to a port of the client's, and of nobody else's.
    fn open(&mut self, stream: u16) -> std::io::Result<()> {
        let control = self.line.stream().ok_or(std::io::ErrorKind::NotConnected)?;
        let ends = (sys::plain(control.local_addr()?), sys::plain(control.peer_addr()?));
        let transport = self.setup.streams.agreed.plan.traffic.transport();
        let wish = self.setup.guest.wish(stream);
        self.ports.spawn(async move {
            let socket = listen::connect(ends, transport, &wish).await?;
            Ok((stream, (socket, Vec::new())))
        });
        Ok(())
    }

    /// The thread of a stream whose socket is there; the client learns that it is.
    fn spawn(&mut self, id: StreamId, role: Role) -> std::io::Result<()> {
        let socket = if self.setup.named {
            self.arrived.remove(&u64::from(id.stream))
        } else {
            self.arrived.pop_first().map(|(_, socket)| socket)
        };
        let (Some(socket), Some(events)) = (socket, &self.events) else { return Ok(()) };
        let setup = &mut self.setup;
        let copy = match &socket {
            StreamSocket::Tcp(tcp) => tcp.try_clone().ok(),
            StreamSocket::Dial(_) | StreamSocket::Doorway(_) => None,
            StreamSocket::Udp(socket, _) => {
                if setup.streams.habits.streams_speak {
                    self.in_band.keep(id.stream, socket)?;
                }
                None
            }
        };
        let context = setup.streams.context((id, role), &setup.shared, events);
        let mut early = setup.guest.early();
        early.extend(self.early.remove(&id.stream).into_iter().flatten());
        let context = context.after(early);
        setup.guest.prepare(&socket);
        data::spawn(context, socket)?;
        setup.guest.started(copy);
        Ok(())
    }
}
