//! Performs what a conversation at the server asks for: owns its control connection, its data threads and
//! the clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::control::ControlError;
use linerate_dialect::ending::Early;
use linerate_dialect::native::server::Server as Conversation;
use linerate_dialect::stream::{DataEvent, Role, StreamId};
use linerate_dialect::{Action, Conversation as _, Input, Over, Seen};
use linerate_engine::clock;
use linerate_model::plan::{AgreedPlan, IpVersion};
use linerate_wire::framing::Framing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::StopOnDrop;
use crate::admission::Slot;
use crate::control::read_out;
use crate::data::{self, Context, Shared, Sign, StreamSocket};
use crate::host::HostWatch;
use crate::process_cpu::ProcessCpu;
use crate::server::Server;
use crate::standstill;

/// Should nobody act on a client's silence, data threads end by themselves a little after
/// [`linerate_dialect::native::server::SILENCE_LIMIT_NS`]: within 3 s of the last sign.
const SILENCE_OF_THREADS: Duration = Duration::from_millis(2_800);
/// Control bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// One end of one test, with all that its conversation does not know of.
pub(super) struct Driver {
    /// Whatever happens, no thread outlives the test; and before its place is free, they are told to end.
    _stop: StopOnDrop,
    conversation: Conversation,
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    shared: Arc<Shared>,
    agreed: Arc<AgreedPlan>,
    ip: IpVersion,
    slot: Slot,
    nic: Option<String>,
    host: Option<HostWatch>,
    cpu: ProcessCpu,
    arrived: BTreeMap<u16, StreamSocket>,
    /// For the threads that are still to be started.
    events: Option<UnboundedSender<DataEvent>>,
}

/// What is to be told to the conversation.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Woken {
    Read(std::io::Result<usize>),
    Written(std::io::Result<usize>),
    Arrived(Option<(u16, StreamSocket)>),
    Data(Option<DataEvent>),
    Shutdown,
    Time,
}

impl Driver {
    pub(super) fn new(
        conversation: Conversation,
        control: TcpStream,
        shared: Arc<Shared>,
        (agreed, ip): (Arc<AgreedPlan>, IpVersion),
        slot: Slot,
        nic: Option<String>,
    ) -> Self {
        let (read, write) = control.into_split();
        let (host, arrived, events) = (None, BTreeMap::new(), None);
        Self {
            _stop: StopOnDrop(Arc::clone(&shared)),
            conversation,
            read,
            write,
            shared,
            agreed,
            ip,
            slot,
            nic,
            host,
            cpu: ProcessCpu::start(),
            arrived,
            events,
        }
    }

    /// Until the conversation is over: how it ended, and itself with its reports.
    pub(super) async fn run(
        mut self,
        server: &Server,
        arrivals: &mut UnboundedReceiver<(u16, StreamSocket)>,
    ) -> (Result<(), Early>, Conversation) {
        let (events, mut reported) = mpsc::unbounded_channel();
        self.events = Some(events);
        let mut shut = server.shut.clone();
        let (mut shutting, mut threads) = (false, true);
        let mut bytes = vec![0; READ_BYTES];
        loop {
            if let Some(ended) = self.conversation.outcome() {
                let Self { conversation, mut read, .. } = self;
                // Its other half is closed by now; the last word may still be on its way.
                tokio::spawn(async move { read_out(&mut read).await });
                return (ended, conversation);
            }
            let deadline = async |at: Option<u64>| match at {
                Some(at) => {
                    let left = at.saturating_sub(clock::monotonic_ns());
                    tokio::time::sleep(Duration::from_nanos(left)).await;
                }
                None => std::future::pending().await,
            };
            let outgoing = self.conversation.outgoing();
            let woken = tokio::select! {
                read = self.read.read(&mut bytes), if self.conversation.reads() => Woken::Read(read),
                written = self.write.write(outgoing), if !outgoing.is_empty() => Woken::Written(written),
                arrival = arrivals.recv(), if self.events.is_some() => Woken::Arrived(arrival),
                event = reported.recv(), if threads => Woken::Data(event),
                _ = shut.changed(), if !shutting => Woken::Shutdown,
                () = deadline(self.conversation.deadline_ns()) => Woken::Time,
            };
            match woken {
                Woken::Read(Ok(0)) | Woken::Written(Ok(0)) => {
                    self.input(Input::Lost(ControlError::Closed));
                }
                Woken::Read(Ok(n)) => self.input(Input::Bytes(bytes.get(..n).unwrap_or_default())),
                Woken::Written(Ok(n)) => self.input(Input::Carried(n)),
                Woken::Read(Err(e)) | Woken::Written(Err(e)) => {
                    self.input(Input::Lost(ControlError::Io(e)));
                }
                Woken::Arrived(Some((stream, socket))) => {
                    self.arrived.entry(stream).or_insert(socket);
                    self.input(Input::Arrived(stream));
                }
                Woken::Arrived(None) => self.input(Input::Failed("no streams".into())),
                Woken::Data(Some(event)) => self.on_data(event).await,
                Woken::Data(None) => {
                    threads = false;
                    self.input(Input::NoMoreData);
                }
                Woken::Shutdown => {
                    shutting = true;
                    self.input(Input::Shutdown);
                }
                Woken::Time => self.input(Input::Time),
            }
            while let Some(action) = self.conversation.action() {
                self.perform(action).await;
            }
        }
    }

    fn seen(&self) -> Seen {
        let shared = &self.shared;
        let over = [
            (shared.over_budget(), Over::Bytes),
            (shared.over_time(), Over::Time),
            (shared.over_day(), Over::Day),
        ];
        Seen {
            arrived: shared.arrived(),
            received: shared.received(),
            moved: shared.moved(),
            data_silence_ns: nanos(shared.silence(0)),
            ran_ns: nanos(standstill::ran_for()),
            over: over.into_iter().find_map(|(broken, over)| broken.then_some(over)),
            peer_gone: shared.peer_gone(),
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
            (Action::Prepare, _) => {
                // Those who hold the channel from now on are the threads, and no stream comes any more.
                self.events = None;
                self.host = Some(HostWatch::new(self.nic.as_deref()).await);
                // Not before: the client may take its time to open streams.
                let watched =
                    self.shared.watch_peer(self.write.as_ref(), Sign::Words, SILENCE_OF_THREADS);
                self.input(match watched {
                    Ok(()) => Input::Prepared(None),
                    Err(e) => Input::Failed(format!("cannot watch the client's connection: {e}")),
                });
            }
            (Action::Begin(at_ns), _) => self.shared.start(at_ns),
            (Action::Stop, _) => self.shared.stop(),
            (Action::DrainUntil(at_ns), _) => self.shared.drain_until(at_ns),
            (Action::PeerSent(stream, datagrams), _) => {
                self.shared.far_end_sent(stream, datagrams);
            }
            (Action::HostWarm, Some(host)) => host.warm().await,
            (Action::HostOver, Some(host)) => host.over().await,
            (Action::FinishHost, Some(host)) => {
                let samples = host.finish().await;
                self.input(Input::Host(samples, self.cpu.percent()));
            }
            // The host is watched from the time that the test is prepared.
            (Action::HostWarm | Action::HostOver | Action::FinishHost, None) => {}
            // A client's.
            (
                Action::Open(_)
                | Action::TakeOpen
                | Action::Announce
                | Action::Release
                | Action::Show(_)
                | Action::Event(_)
                | Action::Note(_),
                _,
            ) => {}
        }
    }

    /// The thread of a stream whose socket is there; the client learns that it is.
    fn spawn(&mut self, id: StreamId, role: Role) -> std::io::Result<()> {
        let (Some(socket), Some(events)) = (self.arrived.remove(&id.stream), &self.events) else {
            return Ok(());
        };
        let copy = match &socket {
            StreamSocket::Tcp(tcp) => tcp.try_clone().ok(),
            StreamSocket::Udp(..) => None,
        };
        let context = Context {
            shared: Arc::clone(&self.shared),
            agreed: Arc::clone(&self.agreed),
            ip: self.ip,
            token: self.slot.token,
            framing: Framing::Native { token: self.slot.token, stream: id.stream },
            digits: false,
            burst: 0,
            id,
            role,
            core: self.slot.cores.get(usize::from(id.stream)).copied().flatten(),
            events: events.clone(),
        };
        data::prepare_tcp(&socket, &self.agreed.plan, self.shared.limits().window);
        data::spawn(context, socket)?;
        if let Some(mut tcp) = copy {
            let _ = std::io::Write::write_all(&mut tcp, &[1]);
        }
        Ok(())
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
