//! This end of one test: what both ends agree on, the streams, the record.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_engine::{clock, sys};
use linerate_model::plan::{AgreedPlan, Dialect, IpVersion, TestPlan, Transport};
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord, RunRecord, Status};
use linerate_model::sample::SendCounts;
use linerate_session::assemble::{self, HostSamples, Outcome, StreamOutcome};
use linerate_session::clock::{Exchange, offset, over_test};
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::native::auth;
use linerate_wire::native::message::{ClientMessage, Ping, Pong, ServerMessage, StreamReport};
use linerate_wire::native::stream::{
    ACK_BYTES, COOKIE_BYTES, Claim, TcpOpening, UdpHello, UdpHelloAck,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, Receiver};

use crate::control::{ControlError, Outbox, next, read_all};
use crate::data::{self, Context, Report, Role, Shared, StreamId, StreamSocket};
use crate::errors;
use crate::host::HostWatch;
use crate::place::{self, From};
use crate::proven;
use crate::serving::{HEAD_START_NS, drain_ns};
use crate::standstill;
use linerate_dialect::ticks::Ticks;

use super::Request;
use super::connect::{CONNECT_LIMIT, address_pair, with_port};
use super::running::{Live, Running, StopOnDrop};
use super::{iperf3, mtu};

/// Each answer before the test may take this long.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Hellos of UDP streams are repeated this often …
pub(super) const HELLO_EVERY: Duration = Duration::from_millis(100);

/// … and this many times.
pub(super) const HELLO_TIMES: usize = 50;

/// Clock exchanges at the start and at the end.
pub(super) const CLOCK_EXCHANGES: usize = 16;

/// Over a long path fewer of them must do: the server waits 10 s for the start.
const EXCHANGES_LIMIT: Duration = Duration::from_secs(4);

/// The client's side of one test.
pub(super) struct ClientTest<'a> {
    pub(super) request: &'a Request,
    pub(super) name: String,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) ip: IpVersion,
    pub(super) plan: TestPlan,
    pub(super) record: RunRecord,
    pub(super) drain: u64,
}

pub(super) type Messages = Receiver<Result<ServerMessage, ControlError>>;

impl ClientTest<'_> {
    pub(super) async fn conduct(
        &mut self,
        control: TcpStream,
        observer: &mut dyn Observer,
    ) -> Result<(), ErrorRecord> {
        let path = (self.local, self.peer);
        mtu::fit(&mut self.plan, &mut self.record, path, self.request.size_from_mtu);
        if self.request.dialect == Some(Dialect::Iperf3) {
            return iperf3::conduct(self, control, None, observer).await;
        }
        let mut control = control;
        let hello =
            proven::hello().map_err(|e| self.lost("agreeing on the test", &e.to_string()))?;
        if let Some(cookie) = self.greet(&mut control, &hello).await? {
            observer.note(&format!("{} runs an iperf3 server: speaking its protocol", self.name));
            return iperf3::conduct(self, control, Some(cookie), observer).await;
        }
        self.drain = drain_ns(&control, &self.plan.traffic);
        let (agreed, seals) = self.negotiate(&mut control, &hello).await?;
        let (read, write) = control.into_split();
        let (ours, theirs) = seals.map(|seals| (seals.ours, seals.theirs)).unzip();
        let mut messages = read_all::<ServerMessage>(read, theirs);
        let mut write = Outbox::new(write, ours);
        let cookie = auth::from_hex::<COOKIE_BYTES>(&agreed.cookie)
            .ok_or_else(|| self.lost("agreeing on the test", "the server sent no legal cookie"))?;
        // Version 1 refuses and never cuts: another plan is that of a server which wants this host to
        // send more, longer or elsewhere than its user asked for.
        if agreed.agreed.plan != self.plan {
            let why = "the server answered with another test than was asked for";
            return Err(self.lost("agreeing on the test", why));
        }
        let plan = Arc::new(unchanged(&self.plan));
        let mut agreed_record = assemble::plan_record(&self.plan, Some(self.ip));
        agreed_record.dialect = "native".into();
        self.record.asked.ip = Some(self.ip.number());
        self.record.agreed = Some(agreed_record);
        let same_host = self.record.client.boot_id.is_some()
            && self.record.client.boot_id == agreed.host.boot_id;
        self.record.server = Some(agreed.host.clone());

        let ids = data::streams(self.plan.direction, self.plan.streams);
        let cores = self.cores(&ids, same_host, &agreed.cores);
        let sockets = self.open_streams(&ids, agreed.token, cookie)?;
        self.note_addresses(&sockets);
        match self.answer(&mut messages, "opening the data streams").await? {
            ServerMessage::Ready => {}
            other => return Err(self.out_of_turn("opening the data streams", &other)),
        }
        let mut exchanges = Vec::new();
        let begun = Instant::now();
        for _ in 0..CLOCK_EXCHANGES {
            if begun.elapsed() > EXCHANGES_LIMIT {
                break;
            }
            let ping = Ping { client_ns: clock::monotonic_ns() };
            self.say(&mut write, &ClientMessage::Ping(ping), "reading the server's clock").await?;
            match self.answer(&mut messages, "reading the server's clock").await? {
                ServerMessage::Pong(pong) => exchanges.push(heard(pong)),
                other => return Err(self.out_of_turn("reading the server's clock", &other)),
            }
        }
        let at_start = offset(&exchanges);

        let shared = Shared::new(ids.len());
        let _stop = StopOnDrop(Arc::clone(&shared));
        let (events, told) = mpsc::unbounded_channel();
        for ((id, socket), core) in ids.iter().zip(sockets).zip(cores) {
            let context = Context {
                shared: Arc::clone(&shared),
                agreed: Arc::clone(&plan),
                ip: self.ip,
                token: agreed.token,
                framing: Framing::Native { token: agreed.token, stream: id.stream },
                digits: false,
                burst: 0,
                id: *id,
                role: data::role(&self.plan.traffic, id.way, true),
                core,
                events: events.clone(),
            };
            data::spawn(context, socket)
                .map_err(|e| errors::unable("start a data thread", &e.to_string()))?;
        }
        drop(events);
        observer.start(&self.record);
        self.say(&mut write, &ClientMessage::Start, "starting the test").await?;
        // Who interrupts now still waits for this answer: with it the server learns why the test ends.
        match self.answer(&mut messages, "starting the test").await {
            Ok(ServerMessage::Started) => {}
            Ok(other) => return Err(self.out_of_turn("starting the test", &other)),
            Err(_) if crate::signals::seen() => return Err(errors::interrupted()),
            Err(error) => return Err(error),
        }
        shared.start(clock::monotonic_ns() + HEAD_START_NS);
        let nic = self.record.client.nic.as_ref().map(|nic| nic.name.clone());
        let host = HostWatch::new(nic.as_deref()).await;
        let count = |role: Role| {
            ids.iter().filter(|id| data::role(&self.plan.traffic, id.way, true) == role).count()
        };
        let counts = (count(Role::Send), count(Role::Receive), count(Role::Request));
        let mut running = Running {
            plan: self.plan.clone(),
            shared,
            host,
            local: BTreeMap::new(),
            remote: BTreeMap::new(),
            remote_samples: Vec::new(),
            results: None,
            ticks: (Ticks::new(counts.0), Ticks::new(counts.1), Ticks::new(counts.2)),
            senders: counts.0,
            requesters: counts.2,
            streams: ids.len(),
            sent_reported: false,
            far_sent: false,
            live: Live::default(),
            trouble: None,
            unproven: false,
            interrupted: false,
            stopping: None,
            exchanges: Vec::new(),
            drain: self.drain,
        };
        running.run(&mut write, &mut messages, told, observer).await;
        let at_end = running.farewell(&mut write, &mut messages).await;
        let shown = running.live.shown as usize;
        let clock = at_start.map(|start| over_test(start, at_end));
        self.finish(running, &ids, same_host, clock).await;
        // The last interval ends with the test and so after the last tick.
        self.record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
        Ok(())
    }

    pub(super) fn cores(
        &self,
        ids: &[StreamId],
        same_host: bool,
        server: &[u32],
    ) -> Vec<Option<u32>> {
        if !self.plan.client_cpus.is_empty() {
            return place::listed(&self.plan.client_cpus, ids.len());
        }
        if !place::pinned(&self.plan.traffic) {
            return vec![None; ids.len()];
        }
        let mut users = BTreeMap::new();
        if same_host {
            server.iter().for_each(|core| *users.entry(*core).or_default() += 1);
        }
        let avoid = self.record.client.nic.as_ref().map(|nic| &nic.irq_cores[..]).unwrap_or(&[]);
        place::cores(&linerate_host::cores::allowed_cores(), avoid, &users, ids.len(), From::Bottom)
    }

    pub(super) fn open_streams(
        &self,
        ids: &[StreamId],
        token: u64,
        cookie: [u8; COOKIE_BYTES],
    ) -> Result<Vec<StreamSocket>, ErrorRecord> {
        ids.iter()
            .map(|id| {
                let claim = Claim { token, cookie, stream: id.stream };
                match self.plan.traffic.transport() {
                    Transport::Udp => self.open_udp(claim),
                    Transport::Tcp => self.open_tcp(claim),
                }
            })
            .collect()
    }

    /// Keeps the streams' addresses and ports.
    pub(super) fn note_addresses(&mut self, sockets: &[StreamSocket]) {
        let addresses = self.record.addresses.get_or_insert_default();
        let pairs = sockets.iter().filter_map(StreamSocket::addresses);
        addresses.streams = pairs.map(|(local, peer)| address_pair(local, peer)).collect();
    }

    pub(super) fn open_udp(&self, claim: Claim) -> Result<StreamSocket, ErrorRecord> {
        let fault = |e: &std::io::Error| errors::udp_stream(&self.name, self.peer, &e.to_string());
        let socket = sys::udp_socket(with_port(self.local, 0)).map_err(|e| fault(&e))?;
        socket.connect(&self.peer.into()).map_err(|e| fault(&e))?;
        socket.set_read_timeout(Some(HELLO_EVERY)).map_err(|e| fault(&e))?;
        let hello = UdpHello(claim).encode();
        let wanted = UdpHelloAck { token: claim.token, stream: claim.stream };
        let mut why = "no answer within 5 s".to_owned();
        for _ in 0..HELLO_TIMES {
            if let Err(e) = socket.send(&hello) {
                why = e.to_string();
                std::thread::sleep(HELLO_EVERY);
                continue;
            }
            let mut answer = [0; ACK_BYTES + 1];
            match (&socket).read(&mut answer) {
                Ok(n) if answer.get(..n).and_then(UdpHelloAck::decode) == Some(wanted) => {
                    return Ok(StreamSocket::Udp(socket, None));
                }
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(e) => {
                    why = e.to_string();
                    std::thread::sleep(HELLO_EVERY);
                }
            }
        }
        Err(errors::udp_stream(&self.name, self.peer, &why))
    }

    pub(super) fn open_tcp(&self, claim: Claim) -> Result<StreamSocket, ErrorRecord> {
        let fault = |e: &std::io::Error| errors::tcp_stream(&self.name, self.peer, &e.to_string());
        let mut stream = self.connect_tcp(with_port(self.local, 0))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(|e| fault(&e))?;
        stream.write_all(&TcpOpening(claim).encode()).map_err(|e| fault(&e))?;
        let mut answer = [0];
        stream.read_exact(&mut answer).map_err(|e| fault(&e))?;
        Ok(StreamSocket::Tcp(stream))
    }

    /// A TCP connection with what the plan asks of it.
    pub(super) fn connect_tcp(
        &self,
        local: SocketAddr,
    ) -> Result<std::net::TcpStream, ErrorRecord> {
        let fault = |e: &std::io::Error| errors::tcp_stream(&self.name, self.peer, &e.to_string());
        let socket = Socket::new(Domain::for_address(self.peer), Type::STREAM, Some(Protocol::TCP))
            .map_err(|e| fault(&e))?;
        // Before connecting: window scale and MSS are settled by the handshake.
        let options = sys::TcpOptions {
            window: self.plan.window,
            dscp: self.plan.dscp,
            ..sys::TcpOptions::default()
        };
        let options = data::tcp_options(&self.plan, options);
        if let Some((what, e)) = sys::set_tcp(&socket, self.ip == IpVersion::V6, &options).first() {
            return Err(errors::tcp_option(what, &options, e));
        }
        socket.bind(&local.into()).map_err(|e| fault(&e))?;
        socket.connect_timeout(&self.peer.into(), CONNECT_LIMIT).map_err(|e| fault(&e))?;
        Ok(socket.into())
    }

    pub(super) async fn say(
        &self,
        write: &mut Outbox,
        message: &ClientMessage,
        doing: &str,
    ) -> Result<(), ErrorRecord> {
        write.say(message).await.map_err(|e| self.lost(doing, &e.to_string()))
    }

    pub(super) async fn answer(
        &self,
        messages: &mut Messages,
        doing: &str,
    ) -> Result<ServerMessage, ErrorRecord> {
        self.understood(next(messages, ANSWER_LIMIT).await, doing)
    }

    /// An answer, unless it is a refusal or none.
    pub(super) fn understood(
        &self,
        answer: Result<ServerMessage, ControlError>,
        doing: &str,
    ) -> Result<ServerMessage, ErrorRecord> {
        match answer {
            Ok(ServerMessage::Refused(refused)) => Err(errors::refused(&self.name, &refused)),
            Ok(message) => Ok(message),
            Err(ControlError::Closed) if doing.starts_with("agreeing") => {
                Err(errors::not_linerate(&self.name, self.peer))
            }
            Err(ControlError::Frame(_)) if doing.starts_with("agreeing") => {
                Err(errors::not_linerate(&self.name, self.peer))
            }
            Err(ControlError::Unproven) => Err(errors::unproven(&self.name, self.peer, doing)),
            Err(e) => Err(self.lost(doing, &e.to_string())),
        }
    }

    pub(super) fn lost(&self, doing: &str, why: &str) -> ErrorRecord {
        let why = standstill::explained(why, self.local.ip());
        errors::server_lost(&self.name, self.peer, doing, &why)
    }

    pub(super) fn out_of_turn(&self, doing: &str, message: &ServerMessage) -> ErrorRecord {
        let name = format!("{message:?}");
        let name = name.split(['(', '{', ' ']).next().unwrap_or_default().to_lowercase();
        self.lost(doing, &format!("the server sent \"{name}\" out of turn"))
    }

    /// From what both ends told to the record.
    pub(super) async fn finish(
        &mut self,
        mut running: Running,
        ids: &[StreamId],
        same_host: bool,
        clock: Option<linerate_session::clock::ClockOffset>,
    ) {
        if running.results.is_none() {
            // Told by halves, a stream's figures would contradict its intervals.
            running.remote.clear();
        }
        let mut streams: Vec<StreamOutcome> = Vec::new();
        for id in ids {
            let mut outcome = StreamOutcome {
                index: id.index,
                reverse: id.way == linerate_model::plan::Way::Reverse,
                ..Default::default()
            };
            match running.local.remove(&id.stream) {
                Some(Report::Send(report)) => outcome.send = Some(report),
                Some(Report::Recv(report)) => outcome.recv = Some(report),
                Some(Report::Rr(report)) => outcome.rr = Some(report),
                _ => {}
            }
            match running.remote.remove(&id.stream) {
                Some(StreamReport::Send(report)) => outcome.send = Some(*report),
                Some(StreamReport::Recv(report)) => outcome.recv = Some(*report),
                Some(StreamReport::Respond(report)) => outcome.respond = Some(report),
                None => {}
            }
            streams.push(outcome);
        }
        let ended = Ended {
            interrupted: running.interrupted,
            trouble: running.trouble.take().map(|why| {
                let doing = "running the test";
                if running.unproven {
                    errors::unproven(&self.name, self.peer, doing)
                } else {
                    self.lost(doing, &why)
                }
            }),
            stopping: running.stopping.take(),
            results: running.results.is_some(),
        };
        let client = running.host.finish().await;
        let results = running.results.as_ref();
        let server = HostSamples {
            intervals: std::mem::take(&mut running.remote_samples),
            total: results.map(|r| r.host.clone()),
            irq_cores: results.map(|r| r.irq_cores.clone()).unwrap_or_default(),
        };
        self.conclude(streams, ended, (client, server), clock, same_host, Dialect::Native);
    }

    /// The record of what was measured, however the test ended.
    pub(super) fn conclude(
        &mut self,
        streams: Vec<StreamOutcome>,
        ended: Ended,
        (client, server): (HostSamples, HostSamples),
        clock: Option<linerate_session::clock::ClockOffset>,
        same_host: bool,
        dialect: Dialect,
    ) {
        let record = &mut self.record;
        let stream_error = streams.iter().find_map(|s| {
            let sides = [
                s.send.as_ref().and_then(|r| r.error.clone()),
                s.recv.as_ref().and_then(|r| r.error.clone()),
                s.rr.as_ref().and_then(|r| r.error.clone()),
                s.respond.as_ref().and_then(|r| r.error.clone()),
            ];
            sides.into_iter().flatten().next()
        });
        if !ended.results {
            record.doubts.push(Doubt {
                kind: DoubtKind::PeerValuesMissing,
                text:
                    "the server's figures did not arrive; what is absent here is unknown, not zero"
                        .into(),
            });
        }
        let most = self.plan.intervals();
        let rows = |s: &StreamOutcome| {
            let (send, recv) = (s.send.as_ref(), s.recv.as_ref());
            let rr = s.rr.as_ref().map_or(0, |r| r.intervals.len());
            rr.max(send.map_or(0, |r| r.intervals.len())).max(recv.map_or(0, |r| r.intervals.len()))
        };
        if self.plan.duration().is_none() && streams.iter().any(|s| rows(s) as u64 >= most) {
            record.doubts.push(Doubt {
                kind: DoubtKind::Degraded,
                text: format!(
                    "of each stream {most} intervals are kept: the last one holds the rest of the test"
                ),
            });
        }
        let measured = streams.iter().any(|s| {
            // That nothing left its own host is a measurement, too.
            let tried = |counts: &SendCounts| counts.bytes > 0 || counts.refused_locally > 0;
            s.send.as_ref().is_some_and(|r| tried(&r.counts))
                || s.recv.as_ref().is_some_and(|r| r.counts.bytes > 0)
                || s.rr.as_ref().is_some_and(|r| r.transactions > 0)
        });
        let error = if ended.interrupted {
            Some(errors::interrupted())
        } else if let Some(trouble) = ended.trouble {
            Some(trouble)
        } else if let Some(why) = ended.stopping {
            Some(errors::server_stopped(&self.name, &why))
        } else {
            stream_error.map(|why| errors::stream(&self.name, &why))
        };
        if error.is_some() {
            record.status = if measured { Status::Partial } else { Status::Failed };
        }
        record.error = error;
        let outcome = Outcome {
            plan: self.plan.clone(),
            ip: self.ip,
            streams,
            client,
            server,
            clock,
            same_host,
            dialect,
            discard: false,
            complete: self.record.status == Status::Complete,
        };
        self.record = assemble::assemble(self.record.clone(), &outcome);
    }
}

/// How a test ended.
pub(super) struct Ended {
    pub(super) interrupted: bool,
    /// The server was lost, or did what it must not.
    pub(super) trouble: Option<ErrorRecord>,
    /// The server ended it, and said why.
    pub(super) stopping: Option<String>,
    /// The server's figures arrived.
    pub(super) results: bool,
}

pub(super) fn heard(pong: Pong) -> Exchange {
    Exchange {
        asked_ns: pong.client_ns,
        server_ns: pong.server_ns,
        heard_ns: clock::monotonic_ns(),
    }
}

/// The plan as both would run it, for a test without a server.
pub(crate) fn unchanged(plan: &TestPlan) -> AgreedPlan {
    AgreedPlan { plan: plan.clone(), cuts: vec![] }
}
