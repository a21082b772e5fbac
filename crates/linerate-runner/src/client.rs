//! The near end: asks a server for a test, runs this side of it and assembles the record.

mod iperf3;

pub use iperf3::Extras;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::{clock, sys};
use linerate_host::facts::facts;
use linerate_host::sampler::Sampler;
use linerate_model::plan::{AgreedPlan, Dialect, IpVersion, TestPlan, Traffic, Transport};
use linerate_model::record::{
    Doubt, DoubtKind, ErrorRecord, FORMAT, Figures, ProgramFacts, RunRecord, Status,
};
use linerate_model::sample::{HostSample, RrInterval};
use linerate_model::units::DatagramSize;
use linerate_session::assemble::{self, HostSamples, LiveSide, Outcome, StreamOutcome};
use linerate_session::clock::{Exchange, offset, over_test};
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::iperf3::{COOKIE_OCTETS as COOKIE_OCTETS_IPERF3, Cookie};
use linerate_wire::native::frame::encode;
use linerate_wire::native::message::{
    Agreed, ClientMessage, Hello, LiveInterval, Ping, Pong, Results, ServerMessage, StreamReport,
    StreamSent, Welcome,
};
use linerate_wire::native::stream::{
    ACK_OCTETS, COOKIE_OCTETS, Claim, TcpOpening, UdpHello, UdpHelloAck,
};
use linerate_wire::native::{FEATURES, PREAMBLE, VERSIONS, auth};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::control::{ControlError, next, read_all, write_message};
use crate::data::{self, Context, DataEvent, Report, Role, Shared, StreamId, StreamSocket, Tick};
use crate::errors;
use crate::place::{self, From};
use crate::server;
use crate::serving::{HEAD_START_NS, SILENCE_LIMIT, drain_ns, random, trim};
use crate::ticks::Ticks;

/// Where a test goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host name or address, and the server's port.
    Host {
        /// As the user gave it.
        name: String,
        /// TCP and UDP port.
        port: u16,
    },
    /// A server inside this process, on loopback.
    Local,
    /// No far end: datagrams to this address, nobody answers.
    Discard {
        /// As the user gave it.
        name: String,
        /// UDP port.
        port: u16,
    },
}

/// Everything the client needs to run one test.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where to.
    pub target: Target,
    /// What.
    pub plan: TestPlan,
    /// The datagram size is the path's MTU less headers, found after connecting; the plan's size
    /// is then a placeholder.
    pub size_from_mtu: bool,
    /// Use only this version of IP.
    pub ip: Option<IpVersion>,
    /// Local address of control and data sockets.
    pub bind: Option<IpAddr>,
    /// Shared key.
    pub key: Option<Vec<u8>>,
    /// What to speak; `None` finds out what the server speaks.
    pub dialect: Option<Dialect>,
    /// For iperf3's dialect.
    pub iperf3: Extras,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// A connection attempt may take this long for each address of the host.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Each answer before the test may take this long.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Hellos of UDP streams are repeated this often …
const HELLO_EVERY: Duration = Duration::from_millis(100);
/// … and this many times.
const HELLO_TIMES: usize = 50;
/// The server hears from the client this often.
const ALIVE_EVERY: Duration = Duration::from_millis(500);
/// Beyond its planned length and its drain, a test may take this long.
const OVERTIME: Duration = Duration::from_secs(15);
/// Clock exchanges at the start and at the end.
const CLOCK_EXCHANGES: usize = 16;
/// Beyond two round trips, an iperf3 server's first answer may take this long; one that takes longer
/// is not recognised.
const DETECT: Duration = Duration::from_millis(30);

/// Runs one test and returns its record, whose `status` and `error` say how it ended. The first
/// Ctrl-C (SIGINT) or SIGTERM ends the test early with what was measured.
pub fn run(request: &Request, observer: &mut dyn Observer) -> RunRecord {
    let (_never, stop) = watch::channel(false);
    run_until(request, observer, stop)
}

/// The same, which ends early too when `stop` becomes true.
pub fn run_until(
    request: &Request,
    observer: &mut dyn Observer,
    stop: watch::Receiver<bool>,
) -> RunRecord {
    let record = blank(request);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return failed(record, errors::unable("start the client", &e.to_string())),
    };
    let record = runtime.block_on(crate::signals::STOP.scope(stop, async {
        match &request.target {
            Target::Local => with_own_server(request, record, observer).await,
            Target::Host { name, port } => {
                over_control(request, record, name, *port, observer).await
            }
            Target::Discard { name, port } => {
                crate::discard::run(request, record, name, *port, observer).await
            }
        }
    }));
    // Name lookups that hang must not hold the program back.
    runtime.shutdown_background();
    observer.end(&record);
    record
}

/// Identifier and start time of a record or of a document of many: the first sorts by time
/// (milliseconds since 1970, then chance), the second is RFC 3339 in UTC.
pub fn stamp() -> (String, String) {
    let now = jiff::Timestamp::now();
    let tail: [u8; 4] = random();
    (format!("{:012x}-{}", now.as_millisecond(), auth::to_hex(&tail)), now.to_string())
}

fn blank(request: &Request) -> RunRecord {
    let (id, started) = stamp();
    RunRecord {
        format: FORMAT,
        id,
        started,
        linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
        command: request.command.clone(),
        target: match &request.target {
            Target::Local => None,
            Target::Host { name, .. } | Target::Discard { name, .. } => Some(name.clone()),
        },
        asked: assemble::plan_record(&request.plan, request.ip),
        agreed: None,
        cuts: vec![],
        client: facts(None),
        server: None,
        intervals: vec![],
        totals: Figures::default(),
        streams: vec![],
        verdict: None,
        doubts: vec![],
        status: Status::Complete,
        error: None,
    }
}

pub(crate) fn failed(mut record: RunRecord, error: ErrorRecord) -> RunRecord {
    record.status = Status::Failed;
    record.error = Some(error);
    record
}

/// A server of our own on loopback, which ends with the test.
async fn with_own_server(
    request: &Request,
    record: RunRecord,
    observer: &mut dyn Observer,
) -> RunRecord {
    let loopback: IpAddr = match request.ip {
        Some(IpVersion::V6) => std::net::Ipv6Addr::LOCALHOST.into(),
        _ => std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let (tell, told) = std::sync::mpsc::channel();
    let (shut_tell, shut) = watch::channel(false);
    let options = server::Options { bind: Some(loopback), port: 0, ..Default::default() };
    let thread = std::thread::Builder::new().name("server".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(server::serve_async(
                &options,
                &mut |event| {
                    if let server::Event::Listening(address) = event {
                        let _ = tell.send(Ok(address));
                    }
                },
                shut,
            )),
            Err(e) => Err(errors::unable("start a server in this process", &e.to_string())),
        };
        if let Err(e) = result {
            let _ = tell.send(Err(e));
        }
    });
    let address = match (thread.is_ok(), told.recv_timeout(CONNECT_LIMIT)) {
        (true, Ok(Ok(address))) => address,
        (_, Ok(Err(error))) => return failed(record, error),
        _ => {
            return failed(
                record,
                errors::unable("start a server in this process", "it did not come up"),
            );
        }
    };
    let name = address.ip().to_string();
    let record = over_control(request, record, &name, address.port(), observer).await;
    let _ = shut_tell.send(true);
    record
}

/// Addresses of a host, in the resolver's order, of the wanted version.
pub(crate) async fn resolve(
    name: &str,
    port: u16,
    ip: Option<IpVersion>,
) -> Result<Vec<SocketAddr>, ErrorRecord> {
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    let lookup = tokio::time::timeout(CONNECT_LIMIT, tokio::net::lookup_host((bare, port))).await;
    let found: Vec<SocketAddr> = match lookup {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(e)) => return Err(errors::unknown_host(name, &e.to_string())),
        Err(_) => {
            return Err(errors::unknown_host(name, "the name service did not answer within 5 s"));
        }
    };
    let wanted: Vec<SocketAddr> = found
        .iter()
        .copied()
        .filter(|address| match ip {
            None => true,
            Some(IpVersion::V4) => address.is_ipv4(),
            Some(IpVersion::V6) => address.is_ipv6(),
        })
        .collect();
    if wanted.is_empty() {
        return Err(errors::no_address(name, ip, !found.is_empty()));
    }
    Ok(wanted)
}

async fn connect(request: &Request, name: &str, port: u16) -> Result<TcpStream, ErrorRecord> {
    let attempt = connect_to(name, port, request.ip, request.bind);
    let Some(limit) = request.iperf3.connect_limit else { return attempt.await };
    let late = |_| Err(errors::late(name, port, limit));
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(late)
}

/// A control connection to the first address that answers.
pub(crate) async fn connect_to(
    name: &str,
    port: u16,
    ip: Option<IpVersion>,
    bind: Option<IpAddr>,
) -> Result<TcpStream, ErrorRecord> {
    let addresses = resolve(name, port, ip).await?;
    let mut last = None;
    for address in addresses {
        let attempt = async {
            let socket =
                if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if let Some(bind) = bind {
                socket.bind(SocketAddr::new(bind, 0))?;
            }
            socket.connect(address).await
        };
        match tokio::time::timeout(CONNECT_LIMIT, attempt).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(e)) => last = Some(errors::connect(name, address, bind, &e)),
            Err(_) => last = Some(errors::silent(name, address)),
        }
    }
    Err(last.unwrap_or_else(|| errors::no_address(name, ip, false)))
}

/// A test over a control connection, whatever happens on it.
async fn over_control(
    request: &Request,
    mut record: RunRecord,
    name: &str,
    port: u16,
    observer: &mut dyn Observer,
) -> RunRecord {
    let control = match connect(request, name, port).await {
        Ok(control) => control,
        Err(error) => return failed(record, error),
    };
    let (Ok(peer), Ok(local)) = (control.peer_addr(), control.local_addr()) else {
        return failed(record, errors::unable("use the control connection", "it has no addresses"));
    };
    record.client = facts(Some(peer.ip()));
    let mut near = Near {
        request,
        name: name.to_owned(),
        peer,
        local,
        ip: if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 },
        plan: request.plan.clone(),
        record,
        drain: 0,
    };
    match near.conduct(control, observer).await {
        Ok(()) => near.record,
        Err(error) => failed(near.record, error),
    }
}

/// The near end of one test.
struct Near<'a> {
    request: &'a Request,
    name: String,
    peer: SocketAddr,
    local: SocketAddr,
    ip: IpVersion,
    plan: TestPlan,
    record: RunRecord,
    drain: u64,
}

type Messages = Receiver<Result<ServerMessage, ControlError>>;

impl Near<'_> {
    async fn conduct(
        &mut self,
        control: TcpStream,
        observer: &mut dyn Observer,
    ) -> Result<(), ErrorRecord> {
        self.size_from_path()?;
        if self.request.dialect == Some(Dialect::Iperf3) {
            return iperf3::conduct(self, control, None, observer).await;
        }
        let nonce = random::<{ auth::NONCE_OCTETS }>();
        let mut control = control;
        if let Some(cookie) = self.greet(&mut control, &nonce).await? {
            observer.note(&format!("{} runs an iperf3 server: speaking its protocol", self.name));
            return iperf3::conduct(self, control, Some(cookie), observer).await;
        }
        self.drain = drain_ns(&control, &self.plan.traffic);
        let (read, mut write) = control.into_split();
        let mut messages = read_all::<ServerMessage>(read);
        let agreed = self.negotiate(&mut write, &mut messages, &nonce).await?;
        let cookie = auth::from_hex::<COOKIE_OCTETS>(&agreed.cookie)
            .ok_or_else(|| self.lost("agreeing on the test", "the server sent no legal cookie"))?;
        let plan = Arc::new(agreed.agreed.clone());
        self.plan = plan.plan.clone();
        self.plan.check().map_err(|e| self.lost("agreeing on the test", &e.to_string()))?;
        let mut agreed_record = assemble::plan_record(&self.plan, Some(self.ip));
        agreed_record.dialect = "native".into();
        self.record.asked.ip = Some(self.ip.number());
        self.record.agreed = Some(agreed_record);
        self.record.cuts = plan.cuts.clone();
        let same_host = self.record.client.boot_id.is_some()
            && self.record.client.boot_id == agreed.host.boot_id;
        self.record.server = Some(agreed.host.clone());

        let ids = data::streams(self.plan.direction, self.plan.streams);
        let cores = self.cores(&ids, same_host, &agreed.cores);
        let sockets = self.open_streams(&ids, agreed.token, cookie)?;
        match self.answer(&mut messages, "opening the data streams").await? {
            ServerMessage::Ready => {}
            other => return Err(self.out_of_turn("opening the data streams", &other)),
        }
        let mut exchanges = Vec::new();
        for _ in 0..CLOCK_EXCHANGES {
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
        match self.answer(&mut messages, "starting the test").await? {
            ServerMessage::Started => {}
            other => return Err(self.out_of_turn("starting the test", &other)),
        }
        shared.start(clock::monotonic_ns() + HEAD_START_NS);
        let nic = self.record.client.nic.as_ref().map(|nic| nic.name.clone());
        let samplers = (Sampler::new(nic.as_deref()), Sampler::new(nic.as_deref()));
        let count = |role: Role| {
            ids.iter().filter(|id| data::role(&self.plan.traffic, id.way, true) == role).count()
        };
        let counts = (count(Role::Send), count(Role::Receive), count(Role::Request));
        let mut running = Running {
            plan: self.plan.clone(),
            shared,
            samplers,
            samples: Vec::new(),
            local: BTreeMap::new(),
            remote: BTreeMap::new(),
            remote_samples: Vec::new(),
            results: None,
            ticks: (Ticks::new(counts.0), Ticks::new(counts.1), Ticks::new(counts.2)),
            senders: counts.0,
            requesters: counts.2,
            streams: ids.len(),
            sent_told: false,
            live: Live::default(),
            trouble: None,
            interrupted: false,
            stopping: None,
            exchanges: Vec::new(),
            drain: self.drain,
        };
        running.run(&mut write, &mut messages, told, observer).await;
        let at_end = running.farewell(&mut write, &mut messages).await;
        let shown = running.live.shown as usize;
        self.finish(running, &ids, same_host, at_start.map(|start| over_test(start, at_end)));
        // The last interval ends with the test and so after the last tick.
        self.record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
        Ok(())
    }

    /// `--size mtu`: what the path carries in one packet.
    fn size_from_path(&mut self) -> Result<(), ErrorRecord> {
        let Traffic::Udp(udp) = &mut self.plan.traffic else { return Ok(()) };
        let v6 = self.ip == IpVersion::V6;
        let mtu = probe_mtu(self.local, self.peer, v6);
        let fits = mtu.map(|mtu| mtu.saturating_sub(self.ip.udp_overhead()));
        if self.request.size_from_mtu {
            let size = fits.unwrap_or(1_500 - self.ip.udp_overhead()).min(65_507);
            udp.size = DatagramSize::new(size).unwrap_or(udp.size);
            self.record.asked.datagram_bytes = Some(u32::from(udp.size.octets()));
            // Datagrams per second are another bit rate now.
            self.record.asked.rate_bps = udp.rate.map(|rate| rate.bits_per_second(udp.size));
        } else if let Some(fits) = fits.filter(|fits| *fits < u32::from(udp.size.octets())) {
            self.record.doubts.push(Doubt {
                kind: DoubtKind::Degraded,
                text: format!(
                    "datagrams of {} bytes do not fit this path's packets of {} bytes: each travels in fragments, and one lost fragment loses it",
                    udp.size.octets(),
                    fits + self.ip.udp_overhead()
                ),
            });
        }
        Ok(())
    }

    /// Says hello. Its first octets are as many as iperf3's cookie has, so that an iperf3 server
    /// answers them and can go on with them: then they are the cookie that is returned. linerate's
    /// own server answers only the whole.
    async fn greet(
        &self,
        control: &mut TcpStream,
        nonce: &[u8; auth::NONCE_OCTETS],
    ) -> Result<Option<Cookie>, ErrorRecord> {
        let hello = Hello {
            version_min: *VERSIONS.start(),
            version_max: *VERSIONS.end(),
            features: FEATURES.iter().map(|f| (*f).to_owned()).collect(),
            nonce: auth::to_hex(nonce),
            program: format!("linerate {}", env!("CARGO_PKG_VERSION")),
        };
        let lost = |why: &str| self.lost("agreeing on the test", why);
        let hello = encode(&ClientMessage::Hello(hello)).map_err(|e| lost(&e.to_string()))?;
        let opening = [&PREAMBLE[..], &hello].concat();
        let (mut first, mut rest) = (&opening[..], &[][..]);
        if self.request.dialect.is_none()
            && let Some((cookie, after)) = opening.split_first_chunk::<COOKIE_OCTETS_IPERF3>()
        {
            (first, rest) = (&cookie[..], after);
        }
        control.write_all(first).await.map_err(|e| lost(&e.to_string()))?;
        if let (Ok(cookie), false) =
            (<[u8; COOKIE_OCTETS_IPERF3]>::try_from(first), rest.is_empty())
        {
            let rtt = sys::tcp_sample(&*control).and_then(|tcp| tcp.rtt_ns).unwrap_or(0);
            let wait = DETECT + 2 * Duration::from_nanos(rtt);
            let mut octet = [0];
            if let Ok(Ok(1)) = tokio::time::timeout(wait, control.peek(&mut octet)).await
                && iperf3::is_first_octet(octet[0])
            {
                return Ok(Some(Cookie::from_octets(cookie)));
            }
            control.write_all(rest).await.map_err(|e| lost(&e.to_string()))?;
        }
        Ok(None)
    }

    async fn negotiate(
        &mut self,
        write: &mut OwnedWriteHalf,
        messages: &mut Messages,
        nonce: &[u8; auth::NONCE_OCTETS],
    ) -> Result<Agreed, ErrorRecord> {
        let doing = "agreeing on the test";
        let welcome: Welcome = match self.answer(messages, doing).await? {
            ServerMessage::Welcome(welcome) => welcome,
            other => return Err(self.out_of_turn(doing, &other)),
        };
        let missing: Vec<&str> =
            FEATURES.iter().copied().filter(|f| !welcome.features.iter().any(|w| w == f)).collect();
        if !missing.is_empty() {
            self.record.doubts.push(Doubt {
                kind: DoubtKind::Degraded,
                text: format!("the server ({}) cannot do: {}", welcome.program, missing.join(", ")),
            });
        }
        let server_nonce = auth::from_hex::<{ auth::NONCE_OCTETS }>(&welcome.nonce)
            .ok_or_else(|| self.lost(doing, "the server sent no legal nonce"))?;
        let key = self.request.key.as_deref();
        let request = linerate_wire::native::message::Request {
            plan: self.plan.clone(),
            proof: key.map(|key| {
                auth::to_hex(&auth::proof(key, auth::Prover::Client, nonce, &server_nonce))
            }),
            boot_id: self.record.client.boot_id.clone(),
        };
        self.say(write, &ClientMessage::Request(Box::new(request)), doing).await?;
        let agreed = match self.answer(messages, doing).await? {
            ServerMessage::Agreed(agreed) => *agreed,
            other => return Err(self.out_of_turn(doing, &other)),
        };
        if let Some(key) = key {
            let wanted = auth::proof(key, auth::Prover::Server, nonce, &server_nonce);
            let shown = agreed.proof.as_deref().and_then(auth::from_hex::<{ auth::PROOF_OCTETS }>);
            if !shown.is_some_and(|shown| auth::equal(&shown, &wanted)) {
                return Err(errors::wrong_server_key(&self.name));
            }
        }
        Ok(agreed)
    }

    fn cores(&self, ids: &[StreamId], same_host: bool, server: &[u32]) -> Vec<Option<u32>> {
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

    fn open_streams(
        &self,
        ids: &[StreamId],
        token: u64,
        cookie: [u8; COOKIE_OCTETS],
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

    fn open_udp(&self, claim: Claim) -> Result<StreamSocket, ErrorRecord> {
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
            let mut answer = [0; ACK_OCTETS + 1];
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

    fn open_tcp(&self, claim: Claim) -> Result<StreamSocket, ErrorRecord> {
        let fault = |e: &std::io::Error| errors::tcp_stream(&self.name, self.peer, &e.to_string());
        let mut stream = self.connect_tcp(with_port(self.local, 0))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(|e| fault(&e))?;
        stream.write_all(&TcpOpening(claim).encode()).map_err(|e| fault(&e))?;
        let mut answer = [0];
        stream.read_exact(&mut answer).map_err(|e| fault(&e))?;
        Ok(StreamSocket::Tcp(stream))
    }

    /// A TCP connection with what the plan asks of it.
    fn connect_tcp(&self, local: SocketAddr) -> Result<std::net::TcpStream, ErrorRecord> {
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

    async fn say(
        &self,
        write: &mut OwnedWriteHalf,
        message: &ClientMessage,
        doing: &str,
    ) -> Result<(), ErrorRecord> {
        write_message(write, message).await.map_err(|e| self.lost(doing, &e.to_string()))
    }

    async fn answer(
        &self,
        messages: &mut Messages,
        doing: &str,
    ) -> Result<ServerMessage, ErrorRecord> {
        match next(messages, ANSWER_LIMIT).await {
            Ok(ServerMessage::Refused(refused)) => Err(errors::refused(&self.name, &refused)),
            Ok(message) => Ok(message),
            Err(ControlError::Closed) if doing.starts_with("agreeing") => {
                Err(errors::not_linerate(&self.name, self.peer))
            }
            Err(ControlError::Frame(_)) if doing.starts_with("agreeing") => {
                Err(errors::not_linerate(&self.name, self.peer))
            }
            Err(e) => Err(self.lost(doing, &e.to_string())),
        }
    }

    fn lost(&self, doing: &str, why: &str) -> ErrorRecord {
        errors::server_lost(&self.name, self.peer, doing, why)
    }

    fn out_of_turn(&self, doing: &str, message: &ServerMessage) -> ErrorRecord {
        let name = format!("{message:?}");
        let name = name.split(['(', '{', ' ']).next().unwrap_or_default().to_lowercase();
        self.lost(doing, &format!("the server sent \"{name}\" out of turn"))
    }

    /// From what both ends told to the record.
    fn finish(
        &mut self,
        mut running: Running,
        ids: &[StreamId],
        same_host: bool,
        clock: Option<linerate_session::clock::ClockOffset>,
    ) {
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
            trouble: running
                .trouble
                .take()
                .map(|why| errors::server_lost(&self.name, self.peer, "running the test", &why)),
            stopping: running.stopping.take(),
            results: running.results.is_some(),
        };
        let client = HostSamples {
            intervals: std::mem::take(&mut running.samples),
            total: Some(trim(running.samplers.1.sample())),
            irq_cores: running.samplers.1.irq_cores_delta(),
        };
        let results = running.results.as_ref();
        let server = HostSamples {
            intervals: std::mem::take(&mut running.remote_samples),
            total: results.map(|r| r.host.clone()),
            irq_cores: results.map(|r| r.irq_cores.clone()).unwrap_or_default(),
        };
        self.conclude(streams, ended, (client, server), clock, same_host, Dialect::Native);
    }

    /// The record of what was measured, however the test ended.
    fn conclude(
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
        let measured = streams.iter().any(|s| {
            s.send.as_ref().is_some_and(|r| r.counts.bytes > 0)
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
struct Ended {
    interrupted: bool,
    /// The server was lost, or did what it must not.
    trouble: Option<ErrorRecord>,
    /// The server ended it, and said why.
    stopping: Option<String>,
    /// The server's figures arrived.
    results: bool,
}

/// Path MTU towards the peer, without sending anything.
pub(crate) fn probe_mtu(local: SocketAddr, peer: SocketAddr, v6: bool) -> Option<u32> {
    let socket = sys::udp_socket(with_port(local, 0)).ok()?;
    socket.connect(&peer.into()).ok()?;
    sys::path_mtu(&socket, v6)
}

/// The same address, its IPv6 scope included, with another port.
pub(crate) fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

fn heard(pong: Pong) -> Exchange {
    Exchange {
        asked_ns: pong.client_ns,
        server_ns: pong.server_ns,
        heard_ns: clock::monotonic_ns(),
    }
}

struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
        self.0.drain_until(0);
    }
}

/// Both ends' intervals until they can be shown together.
#[derive(Debug, Default)]
struct Live {
    client: BTreeMap<u64, LiveSide>,
    server: BTreeMap<u64, LiveSide>,
    rr: BTreeMap<u64, RrInterval>,
    shown: u64,
}

/// The part between "start" and the results.
struct Running {
    plan: TestPlan,
    shared: Arc<Shared>,
    samplers: (Sampler, Sampler),
    samples: Vec<HostSample>,
    local: BTreeMap<u16, Report>,
    remote: BTreeMap<u16, StreamReport>,
    remote_samples: Vec<HostSample>,
    results: Option<Results>,
    ticks: (Ticks, Ticks, Ticks),
    senders: usize,
    requesters: usize,
    streams: usize,
    sent_told: bool,
    live: Live,
    trouble: Option<String>,
    interrupted: bool,
    stopping: Option<String>,
    exchanges: Vec<Exchange>,
    drain: u64,
}

impl Running {
    async fn run(
        &mut self,
        write: &mut OwnedWriteHalf,
        messages: &mut Messages,
        mut told: UnboundedReceiver<DataEvent>,
        observer: &mut dyn Observer,
    ) {
        let mut heard_at = Instant::now();
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        // A server that answers but never ends is no server. Tests by count end with their count.
        let planned =
            self.plan.duration().unwrap_or(linerate_model::units::Nanos::from_secs(86_400));
        let deadline = Instant::now()
            + planned.as_duration()
            + self.plan.warmup.as_duration()
            + Duration::from_nanos(self.drain)
            + OVERTIME;
        let warm = Instant::now() + self.plan.warmup.as_duration();
        let mut cold = self.plan.warmup.0 > 0;
        let interval = self.plan.interval.as_duration();
        let first = Instant::now() + self.plan.warmup.as_duration() + interval;
        let mut sampling = tokio::time::interval_at(first, interval);
        let signals = crate::signals::first();
        tokio::pin!(signals);
        let mut events_open = true;
        let mut closed = false;
        while self.local.len() < self.streams || (self.results.is_none() && self.trouble.is_none())
        {
            tokio::select! {
                message = messages.recv(), if self.trouble.is_none() && !closed => {
                    heard_at = Instant::now();
                    closed = !matches!(message, Some(Ok(_)));
                    match message {
                        Some(Ok(message)) => self.on_message(message, observer),
                        Some(Err(e)) => self.abandon(&e.to_string()),
                        None => self.abandon("the server is gone"),
                    }
                }
                event = told.recv(), if events_open => match event {
                    Some(event) => self.on_event(event, observer),
                    None => {
                        events_open = false;
                        if self.local.len() < self.streams {
                            self.abandon("a data thread ended without a word");
                            return;
                        }
                    }
                },
                () = tokio::time::sleep_until(warm), if cold => {
                    // What the host counted so far belongs to the warm-up.
                    cold = false;
                    let _ = (self.samplers.0.sample(), self.samplers.1.sample());
                }
                _ = sampling.tick() => self.samples.push(trim(self.samplers.0.sample())),
                () = tokio::time::sleep_until(deadline), if self.trouble.is_none() => {
                    self.abandon("the test did not end in time");
                }
                _ = alive.tick(), if self.trouble.is_none() => {
                    let ping = ClientMessage::Ping(Ping { client_ns: clock::monotonic_ns() });
                    if let Err(e) = write_message(write, &ping).await {
                        self.abandon(&e.to_string());
                    } else if heard_at.elapsed() > SILENCE_LIMIT
                        && !self.shared.heard_within(SILENCE_LIMIT)
                    {
                        self.abandon("the server fell silent");
                    }
                }
                () = &mut signals, if !self.interrupted => {
                    self.interrupted = true;
                    observer.note("interrupted: ending with what was measured");
                    self.shared.stop();
                    // Receivers here end when the server has told what it sent, or soon.
                    self.shared.drain_until(clock::monotonic_ns().saturating_add(SILENCE_LIMIT.as_nanos() as u64));
                    if write_message(write, &ClientMessage::Stop).await.is_err() {
                        self.abandon("the server is gone");
                    }
                }
            }
            self.tell_sent(write).await;
        }
    }

    /// The server's receivers learn how much was sent, so that the tail counts.
    async fn tell_sent(&mut self, write: &mut OwnedWriteHalf) {
        let ours = |report: &&Report| matches!(report, Report::Send(_) | Report::Rr(_));
        let done = self.local.values().filter(ours).count();
        let wanted = self.senders + self.requesters;
        if self.sent_told || wanted == 0 || done < wanted || self.trouble.is_some() {
            return;
        }
        self.sent_told = true;
        let sent = self
            .local
            .iter()
            .filter_map(|(stream, report)| match report {
                Report::Send(report) => Some(StreamSent {
                    stream: *stream,
                    datagrams: report.counts.datagrams,
                    bytes: report.counts.bytes,
                    span_ns: report.span_ns,
                }),
                _ => None,
            })
            .collect();
        if let Err(e) = write_message(write, &ClientMessage::Sent(sent)).await {
            self.abandon(&e.to_string());
        }
    }

    fn abandon(&mut self, why: &str) {
        if self.results.is_none() && self.trouble.is_none() {
            self.trouble = Some(why.to_owned());
        }
        self.shared.stop();
        if self.trouble.is_some() {
            self.shared.drain_until(0);
        }
    }

    fn on_event(&mut self, event: DataEvent, observer: &mut dyn Observer) {
        match event {
            DataEvent::Done(stream, report) => {
                self.local.insert(stream, *report);
            }
            DataEvent::Warm(..) => {}
            DataEvent::Tick(_, index, tick) => {
                let sum = match tick {
                    Tick::Send(_) => self.ticks.0.add(index, tick),
                    Tick::Recv(_) => self.ticks.1.add(index, tick),
                    Tick::Rr(_) => self.ticks.2.add(index, tick),
                };
                let side = self.live.client.entry(index).or_default();
                side.host = self.samples.get(index as usize).or(self.samples.last()).cloned();
                match sum {
                    Some(Tick::Send(send)) => side.send = Some(send),
                    Some(Tick::Recv(recv)) => side.recv = Some(recv),
                    Some(Tick::Rr(rr)) => {
                        self.live.rr.insert(index, rr);
                    }
                    None => return,
                }
                self.show(observer);
            }
        }
    }

    fn on_message(&mut self, message: ServerMessage, observer: &mut dyn Observer) {
        match message {
            ServerMessage::Pong(pong) => {
                if self.exchanges.len() >= CLOCK_EXCHANGES {
                    self.exchanges.remove(0);
                }
                self.exchanges.push(heard(pong));
            }
            ServerMessage::Interval(live) => {
                let LiveInterval { index, send, recv, host } = *live;
                // Shown already, or none that a test can have: not believed.
                if index < self.live.shown || index >= self.most_intervals() {
                    return;
                }
                let side = self.live.server.entry(index).or_default();
                side.send = send.or(side.send.take());
                side.recv = recv.or(side.recv.take());
                side.host = host.or(side.host.take());
                self.show(observer);
            }
            ServerMessage::Sent(streams) => {
                for sent in streams {
                    self.shared.far_end_sent(sent.stream, sent.datagrams);
                }
                self.shared.drain_until(clock::monotonic_ns().saturating_add(self.drain));
            }
            ServerMessage::Stream(result) => {
                if usize::from(result.stream) < self.streams {
                    self.remote.insert(result.stream, result.report);
                }
            }
            ServerMessage::Chunk(chunk) => match self.remote.get_mut(&chunk.stream) {
                Some(StreamReport::Send(report)) => append(&mut report.intervals, chunk.send),
                Some(StreamReport::Recv(report)) => append(&mut report.intervals, chunk.recv),
                _ => {}
            },
            ServerMessage::HostChunk(chunk) => {
                if self.remote_samples.len() < 100_000 {
                    self.remote_samples.extend(chunk.samples);
                }
            }
            ServerMessage::Results(results) => self.results = Some(results),
            ServerMessage::Stopping(why) => {
                observer.note(&format!("the server ends the test: {why}"));
                self.stopping = Some(why);
                self.shared.stop();
            }
            ServerMessage::Refused(refused) => self.abandon(&refused.why),
            _ => self.abandon("the server sent a message out of turn"),
        }
    }

    fn most_intervals(&self) -> u64 {
        let interval = self.plan.interval.0.max(1);
        self.plan
            .duration()
            .map_or(linerate_model::limits::INTERVALS.max, |d| d.0.div_ceil(interval))
    }

    /// Shows every interval that both ends have told of, and those that one end will never tell of
    /// because the next one is there already.
    fn show(&mut self, observer: &mut dyn Observer) {
        loop {
            let index = self.live.shown;
            let newest = [
                self.live.client.last_key_value().map(|(i, _)| *i),
                self.live.server.last_key_value().map(|(i, _)| *i),
            ];
            let overdue = newest.iter().flatten().any(|newest| *newest > index);
            let interval = if self.requesters > 0 {
                let Some(row) = self.live.rr.get(&index) else { return };
                let host = self.live.client.get(&index).and_then(|side| side.host.as_ref());
                let figures = assemble::rr_row(row, self.plan.interval.0, host);
                assemble::live_interval(
                    &self.plan,
                    index,
                    &LiveSide::default(),
                    &LiveSide::default(),
                    Some(figures),
                )
            } else {
                let client = self.live.client.get(&index);
                let server = self.live.server.get(&index);
                let there = |side: Option<&LiveSide>, send: bool, recv: bool| {
                    side.is_some_and(|s| (!send || s.send.is_some()) && (!recv || s.recv.is_some()))
                };
                let (forward, reverse) =
                    (self.plan.direction.has_forward(), self.plan.direction.has_reverse());
                let both = there(client, forward, reverse) && there(server, reverse, forward);
                if !both && !overdue {
                    return;
                }
                let empty = LiveSide::default();
                assemble::live_interval(
                    &self.plan,
                    index,
                    client.unwrap_or(&empty),
                    server.unwrap_or(&empty),
                    None,
                )
            };
            self.live.client.remove(&index);
            self.live.server.remove(&index);
            self.live.rr.remove(&index);
            self.live.shown += 1;
            observer.interval(&interval);
        }
    }

    /// The clock once more, then goodbye.
    async fn farewell(
        &mut self,
        write: &mut OwnedWriteHalf,
        messages: &mut Messages,
    ) -> Option<linerate_session::clock::ClockOffset> {
        if self.trouble.is_some() {
            return offset(&self.exchanges);
        }
        let exchange = async {
            self.exchanges.clear();
            for _ in 0..CLOCK_EXCHANGES {
                let ping = ClientMessage::Ping(Ping { client_ns: clock::monotonic_ns() });
                write_message(write, &ping).await.ok()?;
                loop {
                    match messages.recv().await {
                        Some(Ok(ServerMessage::Pong(pong))) => {
                            self.exchanges.push(heard(pong));
                            break;
                        }
                        Some(Ok(_)) => {}
                        _ => return None,
                    }
                }
            }
            write_message(write, &ClientMessage::Bye).await.ok()
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), exchange).await;
        offset(&self.exchanges)
    }
}

/// A server that tells more intervals than a test can have is not believed.
fn append<T>(known: &mut Vec<T>, rows: Vec<T>) {
    if known.len() + rows.len() <= linerate_model::limits::INTERVALS.max as usize {
        known.extend(rows);
    }
}

/// The plan as both would run it, for a test without a far end.
pub(crate) fn unchanged(plan: &TestPlan) -> AgreedPlan {
    AgreedPlan { plan: plan.clone(), cuts: vec![] }
}
