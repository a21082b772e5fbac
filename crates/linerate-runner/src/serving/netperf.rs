//! The server of netperf's clients, on a port of its own.
//!
//! Data threads, accounting and admission are those of every test; this is what is around the
//! conversation: the messages that ask for no test, and one test after another on one connection. A file to send
//! from that the client names is not taken, nor another address to send to.

mod plan;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::habits;
use linerate_dialect::iperf3::server::silence_limit_ns;
use linerate_dialect::netperf::server::{self as conversation, Terms};
use linerate_engine::{clock, sys};
use linerate_model::plan::{AgreedPlan, Dialect, IpVersion, Transport};
use linerate_wire::framing::Framing;
use linerate_wire::native::message::RefusalKind;
use linerate_wire::netperf::{Ask, FRAME_BYTES, Frame, Kind, Length, Request, Response, ask};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::plan::{Refusal, plan};
use super::driver::{Driver, Guest, Setup};
use super::listen::PortOptions;
use crate::admission::Slot;
use crate::control::{read_out, write_bytes};
use crate::data::{Shared, Sign, StreamSocket, Streams, tcp_options};
use crate::event::Event;
use crate::host::facts;
use crate::serve_iperf3::control;
use crate::served;
use crate::service::{Server, Work};

/// From one test's results to the request of the next.
const NEXT_LIMIT: Duration = Duration::from_secs(5);
/// Bytes of a message up to release 2.5: its client sends no more, and waits.
const OLD_FRAME_BYTES: usize = 256;
/// The rest of a newer client's message is there within this time.
const REST_LIMIT: Duration = Duration::from_secs(2);
/// EPROTO, which such a client shows.
const OTHER_PROTOCOL: u32 = 71;
/// Messages that ask for no test, on one connection.
const MOST_SMALL: usize = 16;
/// Should nobody act on a client's silence, data threads end by themselves a little later.
const SILENCE_OF_THREADS: Duration = Duration::from_millis(500);

/// A test that was granted.
struct Test {
    request: Request,
    agreed: Arc<AgreedPlan>,
    slot: Slot,
    nic: Option<String>,
    /// Where tests run one at a time, what says that it is this one's.
    _alone: Option<OwnedSemaphorePermit>,
}

/// A client's connection, before its first test and between any two.
struct Client {
    server: Arc<Server>,
    peer: SocketAddr,
    local: SocketAddr,
}

/// Finds out what a connection wants. Bounded by the caller.
pub(crate) async fn greet(
    server: &Arc<Server>,
    mut control: TcpStream,
    peer: SocketAddr,
) -> Option<Work> {
    let _ = control.set_nodelay(true);
    let local = control.local_addr().map(sys::plain).ok()?;
    let client = Client { server: Arc::clone(server), peer, local };
    let Some(test) = client.asked(&mut control).await else {
        read_out(&mut control).await;
        return None;
    };
    Some(Box::pin(client.serve(control, test)))
}

impl Client {
    /// Reads messages until one asks for a test that is granted. Nothing is left to say where there is
    /// none.
    async fn asked(&self, control: &mut TcpStream) -> Option<Test> {
        for _ in 0..MOST_SMALL {
            let frame = self.frame(control).await?;
            let answer = match ask(&frame) {
                Ask::Test(Ok(request)) => match self.grant(*request).await {
                    Ok(test) => return Some(test),
                    Err(refusal) => return self.refuse(control, &refusal).await,
                },
                Ask::Test(Err(unfit)) => {
                    return self.refuse(control, &Refusal::unknown(unfit.to_string())).await;
                }
                Ask::Unknown(kind) => {
                    let why = format!("netperf's test number {} is not made here", kind.0);
                    return self.refuse(control, &Refusal::unknown(why)).await;
                }
                Ask::Passphrase => continue,
                Ask::Debug => Frame::new(Kind::DEBUG_OK, 0),
                // Nothing is measured for whoever has no test.
                Ask::Calibrate => Response::refuse(linerate_wire::netperf::UNKNOWN_TEST),
            };
            write_bytes(control, answer.bytes()).await.ok()?;
        }
        self.server.refused(self.peer, "many messages, and none that asks for a test");
        None
    }

    /// The next message, which has the length that all have since 2.6.
    async fn frame(&self, control: &mut TcpStream) -> Option<Frame> {
        let mut bytes = [0; FRAME_BYTES];
        let (old, rest) = bytes.split_at_mut(OLD_FRAME_BYTES);
        control.read_exact(old).await.ok()?;
        if timeout(REST_LIMIT, control.peek(&mut [0])).await.is_err() {
            let why = "its message has 256 bytes: netperf up to 2.5 speaks an older protocol";
            self.server.refused(self.peer, why);
            let answer = Response::refuse(OTHER_PROTOCOL);
            let _ = write_bytes(control, answer.bytes().get(..OLD_FRAME_BYTES)?).await;
            return None;
        }
        control.read_exact(rest).await.ok()?;
        Frame::read(&bytes)
    }

    async fn refuse(&self, control: &mut TcpStream, refusal: &Refusal) -> Option<Test> {
        self.server.turned_away(self.peer, refusal.kind, &refusal.why);
        let frame = Response::refuse(refusal.error);
        let _ = write_bytes(control, frame.bytes()).await;
        None
    }

    async fn grant(&self, request: Request) -> Result<Test, Refusal> {
        let options = &self.server.options;
        if options.wants_key() || options.logins.is_some() {
            let why = "this server wants a key or a login, which clients of netperf cannot prove";
            return Err(Refusal::new(RefusalKind::Key, why));
        }
        let ip = self.ip();
        let agreed = Arc::new(AgreedPlan { plan: plan(&request, ip, options)?, cuts: vec![] });
        let alone = self.server.rendezvous.try_alone().map_err(|()| {
            let why = "a test is running, and this server makes one at a time";
            Refusal::new(RefusalKind::Busy, why)
        })?;
        let nic = facts(self.peer).await.nic;
        let irq_cores = nic.as_ref().map(|nic| nic.irq_cores.clone()).unwrap_or_default();
        let permit = self.server.permit(self.peer.ip(), None, &agreed.plan);
        let permit = permit.map_err(|refused| Refusal::new(refused.kind, refused.why))?;
        let (arrivals, _) = mpsc::unbounded_channel();
        // No native stream can claim this place: nobody learns token and cookie.
        let slot = self.server.admission.admit(
            &agreed,
            u64::from_be_bytes(crate::random::random()) >> 1,
            crate::random::random(),
            (self.peer.ip(), self.local),
            &irq_cores,
            arrivals,
            (options, permit),
        );
        let slot = slot.map_err(|refused| Refusal::new(refused.kind, refused.why))?;
        Ok(Test { request, agreed, slot, nic: nic.map(|nic| nic.name), _alone: alone })
    }

    fn ip(&self) -> IpVersion {
        if self.peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
    }

    /// One test after another, until the client asks for no more.
    async fn serve(self, mut control: TcpStream, mut test: Test) {
        loop {
            let Some(again) = self.run(control, test).await else { return };
            control = again;
            let next = timeout(NEXT_LIMIT, self.asked(&mut control)).await;
            let Ok(Some(next)) = next else { break };
            test = next;
        }
        read_out(&mut control).await;
    }

    /// One test; the connection again where another may follow.
    async fn run(&self, control: TcpStream, test: Test) -> Option<TcpStream> {
        let Test { request, agreed, slot, nic, _alone } = test;
        let options = &self.server.options;
        let served = Box::new(served::test(None, self.peer, Dialect::Netperf, None, &agreed.plan));
        self.server.events.send(Event::TestStarted(served.clone()));
        let shared = Shared::within(slot.limits(options), 1);
        shared.charge_to(slot.days.clone());
        let time_ns = match request.length {
            Length::Seconds(seconds @ 1..) => Some(u64::from(seconds) * 1_000_000_000),
            _ => None,
        };
        // What arrives carries no numbers: of what was sent the client alone knows.
        let udp = request.transport == Transport::Udp && !request.receives;
        let terms = Terms {
            request: request.clone(),
            agreed: Arc::clone(&agreed),
            longest_ns: options.max_duration.0,
            most_bps: slot.rate(options).map(|rate| rate.bits_per_second()),
            no_data_ns: u64::try_from(options.no_data.as_nanos()).unwrap_or(u64::MAX),
        };
        let silence = Duration::from_nanos(silence_limit_ns(agreed.plan.direction));
        let setup = Setup {
            streams: Streams {
                agreed: Arc::clone(&agreed),
                ip: self.ip(),
                token: slot.token,
                framing: Framing::Bare,
                habits: habits::NETPERF,
                preface: vec![],
                digits: false,
                burst: 0,
                cores: slot.cores.clone(),
            },
            shared,
            slot,
            nic: request.measure_cpu.then_some(nic),
            sign: (Sign::Answers, silence + SILENCE_OF_THREADS),
            named: true,
            guest: Ports { request, agreed, most_forced: options.max_window },
        };
        let begun_ns = clock::monotonic_ns();
        let test = conversation::Server::new(terms, begun_ns);
        let (_sender, mut arrivals) = mpsc::unbounded_channel::<(u16, StreamSocket)>();
        let driver = Driver::new(test, control, setup);
        let (test, line) = driver.converse(&self.server, &mut arrivals).await;
        let ended = test.outcome().unwrap_or(Ok(()));
        let goes_on = ended.is_ok();
        let ended = ended.map_err(|early| served::explained(early, self.local.ip()));
        // A client may end before the time that was agreed, by the same words.
        let lasted_ns = time_ns.filter(|ns| clock::monotonic_ns().saturating_sub(begun_ns) >= *ns);
        let ended = served::result(ended, udp, lasted_ns, test.reports());
        self.server.events.send(Event::TestEnded(served, Box::new(ended)));
        if goes_on {
            return line.into_stream();
        }
        line.close();
        None
    }
}

/// What netperf's clients ask of the data port.
struct Ports {
    request: Request,
    agreed: Arc<AgreedPlan>,
    /// The largest window that is forced beyond the kernel's limits, in bytes.
    most_forced: u32,
}

impl Guest for Ports {
    fn wish(&self, _: u16) -> PortOptions {
        let plan = &self.agreed.plan;
        let options = sys::TcpOptions {
            window: plan.window,
            most_forced: Some(self.most_forced),
            dscp: plan.dscp,
            ..sys::TcpOptions::default()
        };
        // Ports below are other servers'.
        let port = self.request.data_port.filter(|port| port.get() >= 1_024);
        // Whoever only hears says nothing that would open the stream.
        let hears = self.request.transport == Transport::Udp && !self.request.receives;
        let peer_port = self.request.peer_port.filter(|_| hears);
        // With or without data.
        let connections = self.request.connections.then_some(self.request.sizes.is_some());
        PortOptions {
            port,
            peer_port,
            connections,
            options: tcp_options(plan, options),
            ..PortOptions::default()
        }
    }

    fn watch(&mut self, control: &TcpStream) {
        control::watch(control);
    }

    fn ask(&mut self, control: &TcpStream) {
        control::ask(control);
    }
}
