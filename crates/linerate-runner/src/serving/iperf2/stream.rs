//! One stream of a client of iperf 2's, from its first bytes to its end.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::habits;
use linerate_dialect::iperf2::server::{self as conversation, Terms};
use linerate_dialect::stream;
use linerate_engine::{clock, sys};
use linerate_model::plan::{AgreedPlan, Dialect, IpVersion, Transport, Way};
use linerate_model::test_event::{End, StreamEnd, TestEvent};
use linerate_wire::framing::Framing;
use linerate_wire::iperf2::{Ack, HEADER_BYTES, Header, Unfit};
use linerate_wire::native::message::{RefusalKind, Refused};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::plan::{self, Asked, refuse};
use crate::address::with_port;
use crate::admission::{self, Slot};
use crate::client::iperf2::seen;
use crate::data::{self, Early, Shared, Sign, StreamSocket, Streams};
use crate::event::Event;
use crate::event_log::Events;
use crate::random::random;
use crate::served;
use crate::service::Server;
use crate::serving::driver::{Driver, Guest, Setup};

/// The most that is looked at before a stream says what it is: no client's header is longer.
const MOST_HEADER: usize = 512;
/// A header that is not yet whole is looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// What clients that ask are told: the release that this end speaks like.
const VERSION: (u32, u32) = (0x0002_0002, 0x0001_0001);
/// The first release whose clients want the later words of a report in any case.
const EXTENDED: u32 = 0x0002_0002;
/// A client that listens answers at once; one behind a firewall never does.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A UDP client that says nothing for so long is gone, unless it sends more slowly.
const SILENCE: Duration = Duration::from_secs(10);
/// Datagrams of which none comes within this are too slow, in multiples of the time between two.
const MISSED: u64 = 5;

/// A stream that was granted.
pub(crate) struct Test {
    peer: SocketAddr,
    local: SocketAddr,
    agreed: Arc<AgreedPlan>,
    slot: Slot,
    socket: StreamSocket,
    /// Of the same connection, where data goes back on it at once.
    back: Option<StreamSocket>,
    early: Vec<Early>,
    framing: Framing,
    /// Its client reads the later words of a report.
    extended: bool,
    silence: Duration,
    call: Option<Call>,
    _alone: Alone,
}

/// Nobody else has a test meanwhile, where that is how tests run here.
pub(super) type Alone = Option<Arc<OwnedSemaphorePermit>>;

/// A stream that is granted, as soon as it has its socket.
type Granted = Box<dyn FnOnce(StreamSocket, Vec<Early>) -> Test + Send>;

/// The stream back of `-d` and `-r`, which has its place already: a client waits for it without an end.
struct Call {
    at_once: bool,
    /// Where its client called, on any port.
    from: SocketAddr,
    /// Where its client listens.
    to: SocketAddr,
    granted: Granted,
}

/// Reads what a TCP stream is. Bounded by the caller's deadline.
pub(crate) async fn greet(
    server: &Arc<Server>,
    mut stream: TcpStream,
    peer: SocketAddr,
) -> Option<Test> {
    let (header, length) = peek(&stream).await?;
    let local = sys::plain(stream.local_addr().ok()?);
    let (transport, datagram) = (Transport::Tcp, HEADER_BYTES);
    let asked = Asked { peer, local, transport, header, datagram };
    let both = alone(server).and_then(|alone| {
        Ok((grant(server, &asked, alone.clone())?, call(server, &asked, alone)?))
    });
    let (granted, call) = match both {
        Ok(both) => both,
        Err(refused) => {
            server.turned_away(peer, refused.kind, &refused.why);
            return None;
        }
    };
    let sends = header.reverse || header.full_duplex;
    if header.detect || header.version.is_some() && !sends {
        stream.write_all(&Ack { version: VERSION }.encode()).await.ok()?;
    }
    if header.reverse {
        // Its thread only sends; what is unread when it closes would break the connection.
        stream.read_exact(&mut vec![0; length]).await.ok()?;
    }
    let stream = stream.into_std().ok()?;
    stream.set_nonblocking(false).ok()?;
    let back = if header.full_duplex { Some(stream.try_clone().ok()?) } else { None };
    let test = granted(StreamSocket::Tcp(stream), Vec::new());
    Some(Test { back: back.map(StreamSocket::Tcp), call, ..test })
}

/// Takes the place of the stream back, where one is asked for.
fn call(server: &Server, asked: &Asked, alone: Alone) -> Result<Option<Call>, Refused> {
    let Some(back) = asked.header.back else { return Ok(None) };
    let to = with_port(asked.peer, back.port.map_or(0, NonZeroU16::get));
    let header = Header { reverse: true, full_duplex: false, back: None, ..asked.header };
    let granted = grant(server, &Asked { peer: to, header, ..*asked }, alone)?;
    Ok(Some(Call {
        at_once: back.at_once,
        from: with_port(asked.local, 0),
        to,
        granted: Box::new(granted),
    }))
}

/// Connects to the client, from where it was called.
async fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<std::net::TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(from)?;
    let stream = timeout(CONNECT_LIMIT, socket.connect(to)).await??.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The header stays where it is: its bytes are counted as all others. A stream that begins with something
/// else is data of a client that asks for nothing.
async fn peek(stream: &TcpStream) -> Option<(Header, usize)> {
    let mut bytes = [0; MOST_HEADER];
    loop {
        let length = stream.peek(&mut bytes).await.ok().filter(|length| *length > 0)?;
        match Header::read(bytes.get(..length).unwrap_or_default()) {
            Ok(header) => return Some(header),
            Err(Unfit::Short(wanted)) if wanted <= MOST_HEADER => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(_) => return Some((Header::default(), 0)),
        }
    }
}

/// Waits for nobody: a client that is told nothing would wait as well.
pub(super) fn alone(server: &Server) -> Result<Alone, Refused> {
    let busy =
        |()| refuse(RefusalKind::Busy, "another test runs, and this server runs one at a time");
    Ok(server.rendezvous.try_alone().map_err(busy)?.map(Arc::new))
}

/// Holds what is asked against the limits. What is granted wants its socket, and what has come on it.
pub(super) fn grant(
    server: &Server,
    asked: &Asked,
    alone: Alone,
) -> Result<impl FnOnce(StreamSocket, Vec<Early>) -> Test + use<>, Refused> {
    let &Asked { peer, local, transport, header, .. } = asked;
    let options = &server.options;
    if options.wants_key() || options.logins.is_some() {
        let why = "this server wants a key, which clients of iperf 2 cannot prove";
        return Err(refuse(RefusalKind::Key, why));
    }
    plan::check(&header, transport)?;
    let ip = if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    let plan = plan::plan(asked, options);
    admission::check(&plan, Dialect::Iperf2, ip, options)?;
    let agreed = Arc::new(AgreedPlan { plan, cuts: vec![] });
    let (arrivals, _) = mpsc::unbounded_channel();
    let token = u64::from_be_bytes(random()) >> 1;
    // No native stream can claim this place: nobody learns token and cookie.
    let permit = server.permit(peer.ip(), None, &agreed.plan)?;
    let slot = server.admission.admit(
        &agreed,
        token,
        random(),
        (peer.ip(), local),
        &[],
        arrivals,
        (options, permit),
    )?;
    let silence = match transport {
        Transport::Tcp => options.no_data,
        Transport::Udp => silence(asked).min(options.no_data),
    };
    Ok(move |socket, early| Test {
        peer,
        local,
        agreed,
        slot,
        socket,
        back: None,
        early,
        framing: Framing::Iperf2 { wide: header.wide, ahead_ns: 0 },
        extended: header.version.is_some_and(|(major, _)| major >= EXTENDED),
        silence,
        call: None,
        _alone: alone,
    })
}

/// How long a UDP client may say nothing.
fn silence(asked: &Asked) -> Duration {
    let bits = asked.datagram as u64 * 8 * MISSED;
    let slow = asked.header.rate_bps.map(|rate| bits.saturating_mul(1_000_000_000) / rate.max(1));
    slow.map_or(SILENCE, |ns| SILENCE.max(Duration::from_nanos(ns)))
}

impl Test {
    /// Runs it to its end, with the stream back to its client.
    pub(crate) async fn run(mut self, server: &Arc<Server>) {
        match self.call.take() {
            None => self.run_alone(server).await,
            Some(call) if call.at_once => {
                tokio::join!(self.run_alone(server), call.run(server));
            }
            Some(call) => {
                self.run_alone(server).await;
                call.run(server).await;
            }
        }
    }

    async fn run_alone(self, server: &Arc<Server>) {
        let served =
            Box::new(served::test(None, self.peer, Dialect::Iperf2, None, &self.agreed.plan));
        let (peer, local) = (self.peer, self.local.ip());
        let udp = matches!(self.socket, StreamSocket::Udp(..));
        server.events.send(Event::TestStarted(served.clone()));
        let test = self.conduct(server).await;
        server.events.send(Event::Test { peer, event: ended(&test) });
        let ended = test.outcome().unwrap_or(Ok(()));
        let ended = ended.map_err(|early| served::explained(early, local));
        let result = served::result(ended, udp, None, test.reports());
        server.events.send(Event::TestEnded(served, Box::new(result)));
    }

    async fn conduct(self, server: &Arc<Server>) -> conversation::Server {
        let Self {
            peer,
            local,
            agreed,
            slot,
            socket,
            back,
            early,
            framing,
            extended,
            silence,
            call: _,
            _alone,
        } = self;
        let options = &server.options;
        let terms = Terms {
            agreed: Arc::clone(&agreed),
            longest_ns: options.max_duration.0,
            most_bps: slot.rate(options).map(|rate| rate.bits_per_second()),
            extended,
            silence_ns: u64::try_from(silence.as_nanos()).unwrap_or(u64::MAX),
        };
        let sockets: Vec<StreamSocket> = std::iter::once(socket).chain(back).collect();
        let shared = Shared::within(slot.limits(options), sockets.len());
        shared.charge_to(slot.days.clone());
        let guest = Iperf2 {
            agreed: Arc::clone(&agreed),
            ends: (local, peer),
            events: server.events.clone(),
            early,
            window: options.max_window,
        };
        let setup = Setup {
            streams: Streams {
                agreed,
                ip: if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 },
                token: slot.token,
                framing,
                habits: habits::IPERF2,
                digits: false,
                preface: vec![],
                burst: 0,
                cores: slot.cores.clone(),
            },
            shared,
            slot,
            nic: None,
            sign: (Sign::Answers, silence),
            named: false,
            guest,
        };
        let test = conversation::Server::new(terms, clock::monotonic_ns());
        // Its stream is there already; the channel stays open until its thread has started.
        let (arrived, mut arrivals) = mpsc::unbounded_channel::<(u64, StreamSocket)>();
        for (number, socket) in (0..).zip(sockets) {
            let _ = arrived.send((number, socket));
        }
        Driver::new(test, None, setup).run(server, &mut arrivals).await
    }
}

impl Call {
    async fn run(self, server: &Arc<Server>) {
        if *server.shut.borrow() || server.is_over() {
            return;
        }
        let Self { to, granted, from, .. } = self;
        match connect(from, to).await {
            Ok(stream) => granted(StreamSocket::Tcp(stream), Vec::new()).run_alone(server).await,
            Err(error) => {
                let why = format!("cannot connect back to it, as -d and -r ask: {error}");
                server.turned_away(to, RefusalKind::Unable, &why);
            }
        }
    }
}

/// Of a stream that is over, what its users see.
fn ended(test: &conversation::Server) -> TestEvent {
    let here = test.reports().filter_map(stream::side).map(|here| StreamEnd { here, far: None });
    TestEvent::End(Box::new(End {
        streams: here.collect(),
        span_ns: test.reports().map(stream::span_ns).max().unwrap_or(0),
        ..End::default()
    }))
}

/// What iperf 2's clients ask of data sockets, and what their users see.
struct Iperf2 {
    agreed: Arc<AgreedPlan>,
    /// Here, and there.
    ends: (SocketAddr, SocketAddr),
    events: Events,
    early: Vec<Early>,
    window: u32,
}

impl Guest for Iperf2 {
    fn announce(&mut self, sockets: &[&StreamSocket]) {
        let facts: Vec<_> = sockets.iter().map(|socket| socket.facts()).collect();
        let plan = &self.agreed.plan;
        let ids = data::streams(plan.direction, plan.streams);
        self.event(seen::start(plan, self.ends, Way::Reverse, (&ids, &facts)));
    }

    fn event(&mut self, event: TestEvent) {
        let (_, peer) = self.ends;
        self.events.send(Event::Test { peer, event });
    }

    fn prepare(&mut self, socket: &StreamSocket) {
        data::prepare_tcp(socket, &self.agreed.plan, Some(self.window));
    }

    fn early(&mut self) -> Vec<Early> {
        std::mem::take(&mut self.early)
    }
}
