//! Performs what a conversation at the client asks for: owns its control connection, its data threads and
//! the clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::control::ControlError;
use linerate_dialect::native::client::{Client as Conversation, Trouble};
use linerate_dialect::stream::{DataEvent, Role, StreamId};
use linerate_dialect::{Action, Conversation as _, Input, Seen};
use linerate_engine::clock;
use linerate_model::plan::AgreedPlan;
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_session::assemble::HostSamples;
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::native::stream::COOKIE_BYTES;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::connect::address_pair;
use super::open::Opener;
use crate::control::read_out;
use crate::data::{self, Context, Shared, StreamSocket};
use crate::errors;
use crate::host::HostWatch;
use crate::serving::StopOnDrop;
use crate::standstill;

/// Control bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

type Opened = (u16, Result<StreamSocket, ErrorRecord>);

/// What names a test's data streams, and where their threads run.
pub(super) struct Streams {
    pub(super) agreed: Arc<AgreedPlan>,
    pub(super) opener: Opener,
    pub(super) token: u64,
    pub(super) cookie: [u8; COOKIE_BYTES],
    /// For each stream.
    pub(super) cores: Vec<Option<u32>>,
}

/// One end of one test, with all that its conversation does not know of.
pub(super) struct Driver<'a> {
    /// Whatever happens, no thread outlives the test.
    _stop: StopOnDrop,
    conversation: Conversation,
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    shared: Arc<Shared>,
    streams: Streams,
    host: Option<HostWatch>,
    /// The record so far.
    record: &'a mut RunRecord,
    observer: &'a mut dyn Observer,
    to_open: Vec<u16>,
    opened: BTreeMap<u16, StreamSocket>,
    /// For the threads that are still to be started.
    events: Option<UnboundedSender<DataEvent>>,
    /// What this end could not do.
    fault: Option<ErrorRecord>,
}

/// How a conversation ended.
pub(super) struct Over {
    pub(super) conversation: Conversation,
    pub(super) outcome: Result<(), Trouble>,
    /// What this end could not do.
    pub(super) fault: Option<ErrorRecord>,
    pub(super) host: HostSamples,
}

/// What is to be reported to the conversation.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Woken {
    Read(std::io::Result<usize>),
    Written(std::io::Result<usize>),
    Opened(Opened),
    Data(Option<DataEvent>),
    Stop,
    Time,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        conversation: Conversation,
        control: TcpStream,
        streams: Streams,
        record: &'a mut RunRecord,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let shared = Shared::new(streams.cores.len());
        let (read, write) = control.into_split();
        Self {
            _stop: StopOnDrop(Arc::clone(&shared)),
            conversation,
            read,
            write,
            shared,
            streams,
            host: None,
            record,
            observer,
            to_open: Vec::new(),
            opened: BTreeMap::new(),
            events: None,
            fault: None,
        }
    }

    /// Until the conversation is over.
    pub(super) async fn run(mut self) -> Over {
        let (events, mut reported) = mpsc::unbounded_channel();
        self.events = Some(events);
        self.perform_all().await;
        let mut opened = self.open_streams();
        crate::signals::ends_in_order();
        let mut stop = std::pin::pin!(crate::signals::first());
        let (mut opening, mut threads, mut stopped) = (true, true, false);
        let mut bytes = vec![0; READ_BYTES];
        loop {
            if let Some(outcome) = self.conversation.outcome() {
                return self.over(outcome).await;
            }
            let outgoing = self.conversation.outgoing();
            let woken = tokio::select! {
                read = self.read.read(&mut bytes), if self.conversation.reads() => Woken::Read(read),
                written = self.write.write(outgoing), if !outgoing.is_empty() => Woken::Written(written),
                stream = opened.recv(), if opening => match stream {
                    Some(stream) => Woken::Opened(stream),
                    None => {
                        opening = false;
                        continue;
                    }
                },
                event = reported.recv(), if threads => Woken::Data(event),
                () = &mut stop, if !stopped => Woken::Stop,
                () = until(self.conversation.deadline_ns()) => Woken::Time,
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
                Woken::Opened((stream, Ok(socket))) => {
                    let addresses = self.record.addresses.get_or_insert_default();
                    let pair = socket.addresses().map(|(local, peer)| address_pair(local, peer));
                    addresses.streams.extend(pair);
                    self.opened.insert(stream, socket);
                    self.input(Input::Arrived(stream));
                }
                Woken::Opened((_, Err(error))) => self.fail(error),
                Woken::Data(Some(event)) => self.on_data(event).await,
                Woken::Data(None) => {
                    threads = false;
                    self.input(Input::NoMoreData);
                }
                Woken::Stop => {
                    stopped = true;
                    self.input(Input::Shutdown);
                }
                Woken::Time => self.input(Input::Time),
            }
            self.perform_all().await;
        }
    }

    async fn over(self, outcome: Result<(), Trouble>) -> Over {
        let Self { conversation, mut read, fault, host, .. } = self;
        // Its other half is closed by now; the last word may still be on its way.
        tokio::spawn(async move { read_out(&mut read).await });
        let host = match host {
            Some(mut host) => host.finish().await,
            None => HostSamples::default(),
        };
        Over { conversation, outcome, fault, host }
    }

    /// Opens all streams that the conversation asked for, one after another, on a thread of their own. It ends
    /// when nobody waits for them any more.
    fn open_streams(&mut self) -> UnboundedReceiver<Opened> {
        let (sender, opened) = mpsc::unbounded_channel();
        let streams = std::mem::take(&mut self.to_open);
        let Streams { opener, token, cookie, .. } = &self.streams;
        let (opener, token, cookie) = (opener.clone(), *token, *cookie);
        tokio::task::spawn_blocking(move || {
            for stream in streams {
                let socket = opener.open(token, cookie, stream);
                let failed = socket.is_err();
                if sender.send((stream, socket)).is_err() || failed {
                    return;
                }
            }
        });
        opened
    }

    fn input(&mut self, input: Input<'_>) {
        let seen = self.seen();
        self.conversation.input(clock::monotonic_ns(), &seen, input);
    }

    fn seen(&self) -> Seen {
        Seen {
            arrived: self.shared.arrived(),
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
            (Action::Open(id), _) => self.to_open.push(id.stream),
            (Action::Spawn(id, role), _) => {
                if let Err(e) = self.spawn(id, role) {
                    self.fail(errors::unable("start a data thread", &e.to_string()));
                }
            }
            (Action::Announce, _) => {
                // Those who hold the channel from now on are the threads.
                self.events = None;
                self.observer.start(self.record);
            }
            (Action::Prepare, _) => {
                let nic = self.record.client.nic.as_ref().map(|nic| nic.name.clone());
                self.host = Some(HostWatch::new(nic.as_deref()).await);
                self.input(Input::Prepared);
            }
            (Action::Begin(at_ns), _) => self.shared.start(at_ns),
            (Action::Stop, _) => self.shared.stop(),
            (Action::DrainUntil(at_ns), _) => self.shared.drain_until(at_ns),
            (Action::PeerSent(stream, datagrams), _) => {
                self.shared.far_end_sent(stream, datagrams);
            }
            (Action::Show(row), _) => self.observer.interval(&row),
            (Action::Note(text), _) => self.observer.note(&text),
            (Action::Event(event), _) => self.observer.event(&event),
            (Action::HostWarm, Some(host)) => host.warm().await,
            (Action::HostOver, Some(host)) => host.over().await,
            // The host is watched from the time that the test is prepared to its end.
            (Action::HostWarm | Action::HostOver | Action::FinishHost, _) => {}
        }
    }

    /// The thread of a stream that is open.
    fn spawn(&mut self, id: StreamId, role: Role) -> std::io::Result<()> {
        let (Some(socket), Some(events)) = (self.opened.remove(&id.stream), &self.events) else {
            return Ok(());
        };
        let Streams { agreed, opener, token, cores, .. } = &self.streams;
        let context = Context {
            shared: Arc::clone(&self.shared),
            agreed: Arc::clone(agreed),
            ip: opener.ip,
            token: *token,
            framing: Framing::Native { token: *token, stream: id.stream },
            digits: false,
            burst: 0,
            id,
            role,
            core: cores.get(usize::from(id.stream)).copied().flatten(),
            events: events.clone(),
        };
        data::spawn(context, socket).map(drop)
    }
}

async fn until(at_ns: Option<u64>) {
    match at_ns {
        Some(at_ns) => {
            let left = at_ns.saturating_sub(clock::monotonic_ns());
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
        None => std::future::pending().await,
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
