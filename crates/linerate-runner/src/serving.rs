//! One test at the server, from its request to its results.

pub(crate) mod driver;
pub(crate) mod iperf2;
mod listen;
pub(crate) mod netperf;
pub(crate) mod nuttcp;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::habits;
use linerate_dialect::native::server as conversation;
use linerate_engine::{clock, sys};
use linerate_model::host::HostFacts;
use linerate_model::plan::{AgreedPlan, Dialect, End, IpVersion, TestPlan, Traffic, Transport};
use linerate_model::served::{ServedResult, ServedTest};
use linerate_wire::framing::Framing;
use linerate_wire::native::auth::{Offer, Seals};
use linerate_wire::native::frame::FrameError;
use linerate_wire::native::message::{
    Agreed, ClientMessage, Ends, Hello, RefusalKind, Refused, Request, ServerMessage, Welcome,
};
use linerate_wire::native::{VERSIONS, auth, frame};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::admission::{self, Slot};
use crate::agent;
use crate::control::{ControlError, read_body, read_out, write_bytes, write_message};
use crate::data::Streams;
use crate::data::{self, Shared, Sign, StreamSocket, drain_ns};
use crate::event::Event;
use crate::host::facts;
use crate::proven::{self, Asker};
use crate::random::random;
use crate::served;
use crate::service::Server;

use driver::{Driver, Guest, Setup};

/// Should nobody act on a client's silence, data threads end by themselves a little after
/// [`conversation::SILENCE_LIMIT_NS`]: within 3 s of the last sign.
const SILENCE_OF_THREADS: Duration = Duration::from_millis(2_800);
/// What was granted.
pub(crate) enum Work {
    /// A test.
    Test(Box<Test>),
    /// The whole host, to a controller.
    Agent(Box<agent::Session>, TcpStream),
}

impl Work {
    /// Does it to its end.
    pub(crate) async fn run(self, server: &Arc<Server>) {
        match self {
            Self::Test(test) => test.run(server).await,
            Self::Agent(session, control) => session.run(control, server).await,
        }
    }
}

/// A test that was granted.
pub(crate) struct Test {
    control: TcpStream,
    seals: Option<Seals>,
    served: Box<ServedTest>,
    agreed: Arc<AgreedPlan>,
    ip: IpVersion,
    /// This end's address of the control connection.
    local: IpAddr,
    slot: Slot,
    nic: Option<String>,
    arrivals: UnboundedReceiver<(u16, StreamSocket)>,
    /// Where tests run one at a time, what says that it is this one's.
    _alone: Option<OwnedSemaphorePermit>,
}

/// Hello, welcome, request, agreement. Bounded by the caller.
pub(crate) async fn negotiate(
    server: &Arc<Server>,
    mut stream: TcpStream,
    peer: SocketAddr,
) -> Option<Work> {
    let body = read_body(&mut stream).await;
    let greeting = body.and_then(|body| Ok((frame::decode::<ClientMessage>(&body)?, body)));
    let (hello, body) = match greeting {
        Ok((ClientMessage::Hello(hello), body)) => (hello, body),
        Ok(_) => {
            server.refused(peer, "a conversation that does not begin with a hello");
            return None;
        }
        Err(e) => {
            server.refused(peer, &e.to_string());
            return None;
        }
    };
    let mut asker = Asker::default();
    match grant(server, &mut stream, peer, (&hello, &body), &mut asker).await {
        Ok(work) => work.map(|work| work(stream)),
        Err(refusal) => {
            let Asker { mut seals, key, asked } = asker;
            let (kind, why) = (refusal.kind, refusal.why.clone());
            let key = key.map(|key| key.name.clone());
            server.events.send(Event::Refused { peer, key, asked, kind, why });
            let seal = seals.as_mut().map(|seals| &mut seals.ours);
            let _ = write_message(&mut stream, seal, &ServerMessage::Refused(refusal)).await;
            read_out(&mut stream).await;
            None
        }
    }
}

type Granted = Box<dyn FnOnce(TcpStream) -> Work + Send>;

fn protocol_error(why: String) -> Refused {
    Refused { kind: RefusalKind::Protocol, why, hints: vec![] }
}

/// Answers the hello and reads the request. From the moment that it is proven, the asker is known.
async fn ask(
    server: &Arc<Server>,
    stream: &mut TcpStream,
    (hello, body): (&Hello, &[u8]),
    asker: &mut Asker,
) -> Result<Option<ClientMessage>, Refused> {
    let version = (*VERSIONS.end()).min(hello.version_max);
    if version < *VERSIONS.start() || version < hello.version_min {
        return Err(Refused {
            kind: RefusalKind::Version,
            why: format!(
                "this server speaks versions {} to {} of the protocol, the client {} to {}",
                VERSIONS.start(),
                VERSIONS.end(),
                hello.version_min,
                hello.version_max
            ),
            hints: vec!["use the same release of linerate at both ends".into()],
        });
    }
    auth::from_hex::<{ auth::NONCE_BYTES }>(&hello.nonce)
        .ok_or_else(|| protocol_error("a nonce that is not 32 bytes in hexadecimal".into()))?;
    let unable = |e: FrameError| protocol_error(e.to_string());
    // What is asked of the client's key must be of the file as it is now.
    server.standing();
    let wanted = proven::wanted(&server.options, hello.key.as_deref());
    let offer = wanted.map(|key| Ok((key, Offer::new(random())?))).transpose().map_err(unable)?;
    let welcome = frame::encode(&ServerMessage::Welcome(Welcome {
        version,
        features: proven::features(),
        nonce: offer.as_ref().map(|(_, (_, nonce))| nonce.clone()).unwrap_or_default(),
        key_required: offer.is_some(),
        program: format!("linerate {}", env!("CARGO_PKG_VERSION")),
    }))
    .map_err(unable)?;
    if write_bytes(stream, &welcome).await.is_err() {
        return Ok(None);
    }
    let request = match read_body(stream).await {
        Ok(request) => request,
        Err(ControlError::Closed | ControlError::Io(_)) => return Ok(None),
        Err(e) => return Err(protocol_error(e.to_string())),
    };
    let Some((key, (offer, _))) = offer else {
        return frame::decode(&request).map(Some).map_err(unable);
    };
    let welcome = welcome.get(frame::PREFIX_BYTES..).unwrap_or_default();
    let (request, session) = proven::open(offer, &key.proof, hello, (body, welcome), &request)?;
    asker.seals = Some(session);
    asker.key = key.key;
    Ok(Some(request))
}

async fn grant(
    server: &Arc<Server>,
    stream: &mut TcpStream,
    peer: SocketAddr,
    hello: (&Hello, &[u8]),
    asker: &mut Asker,
) -> Result<Option<Granted>, Refused> {
    let message = ask(server, stream, hello, asker).await?;
    let local = stream
        .local_addr()
        .map(sys::plain)
        .map_err(|e| protocol_error(format!("the server does not know its own address: {e}")))?;
    let sealed = asker.seals.is_some();
    let meant = |ends: Option<&Ends>| match sealed {
        true => proven::meant_for(local, &server.options.public, ends),
        false => Ok(()),
    };
    let request: Request = match message {
        Some(ClientMessage::Request(request)) => *request,
        Some(ClientMessage::Agent(ends)) => {
            meant(Some(&ends))?;
            let session = agent::admit(server, stream, peer, asker).await?;
            return Ok(session.map(|session| -> Granted {
                Box::new(move |control| Work::Agent(Box::new(session), control))
            }));
        }
        Some(ClientMessage::Bye) | None => return Ok(None),
        Some(_) => return Err(protocol_error("a request was expected".into())),
    };
    let key = asker.key.clone();
    let served = |plan: &TestPlan| {
        served::test(request.run.as_deref(), peer, Dialect::Native, key.as_deref(), plan)
    };
    asker.asked = Some(Box::new(served(&request.plan)));
    if !server.options.wants_key() && server.options.logins.is_some() {
        return Err(Refused {
            kind: RefusalKind::Key,
            why: "this server wants logins of iperf3's clients, and has no key for linerate's"
                .into(),
            hints: vec!["start the server with --key-file, too".into()],
        });
    }
    meant(request.ends.as_ref())?;
    let ip = if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    admission::check(&request.plan, Dialect::Native, ip, &server.options)?;
    let permit = server.permit(peer.ip(), key.as_deref(), &request.plan)?;
    let alone = server.rendezvous.try_alone().map_err(|()| Refused {
        kind: RefusalKind::Busy,
        why: "a test is running, and this server makes one at a time".into(),
        hints: vec!["try again later".into()],
    })?;
    let host: HostFacts = facts(peer).await;
    let nic = host.nic.clone();
    let served = Box::new(served(&request.plan));
    let agreed = Arc::new(AgreedPlan { plan: request.plan, cuts: vec![] });
    // The top byte stays below that of the hello's magic, so that no header looks like one.
    let token = u64::from_be_bytes(random()) >> 1;
    let cookie = random();
    let (arrived, arrivals) = mpsc::unbounded_channel();
    let irq_cores = nic.as_ref().map(|nic| nic.irq_cores.clone()).unwrap_or_default();
    let slot = server.admission.admit(
        &agreed,
        token,
        cookie,
        (peer.ip(), local),
        &irq_cores,
        arrived,
        (&server.options, permit),
    )?;
    let answer = Agreed {
        agreed: (*agreed).clone(),
        token,
        cookie: auth::to_hex(&cookie),
        host,
        client: sealed.then_some(peer),
        cores: slot.cores.iter().flatten().copied().collect(),
    };
    let answer = ServerMessage::Agreed(Box::new(answer));
    let seal = asker.seals.as_mut().map(|seals| &mut seals.ours);
    if write_message(stream, seal, &answer).await.is_err() {
        return Ok(None);
    }
    let nic = nic.map(|nic| nic.name);
    let seals = asker.seals.take();
    Ok(Some(Box::new(move |control| {
        Work::Test(Box::new(Test {
            control,
            seals,
            served,
            agreed,
            ip,
            local: local.ip(),
            slot,
            nic,
            arrivals,
            _alone: alone,
        }))
    })))
}

impl Test {
    /// Runs the test and sends the results. Ends within seconds of the client's silence.
    pub(crate) async fn run(self, server: &Arc<Server>) {
        let served = self.served.clone();
        server.events.send(Event::TestStarted(served.clone()));
        let result = Box::new(self.conduct(server).await);
        server.events.send(Event::TestEnded(served, result));
    }

    async fn conduct(self, server: &Arc<Server>) -> ServedResult {
        let Self { control, seals, served: _, agreed, ip, local, slot, nic, mut arrivals, _alone } =
            self;
        let plan = &agreed.plan;
        let (options, streams) =
            (&server.options, data::streams(plan.direction, plan.streams).len());
        let shared = Shared::within(slot.limits(options), streams);
        shared.charge_to(slot.days.clone());
        let terms = conversation::Terms {
            agreed: Arc::clone(&agreed),
            drain_ns: drain_ns(&control, &plan.traffic),
            longest_ns: options.max_duration.0,
            most_bps: slot.rate(options).map(|rate| rate.bits_per_second()),
            idle_ns: u64::try_from(options.no_data.as_nanos()).unwrap_or(u64::MAX),
        };
        let (ours, theirs) = seals.map(|seals| (seals.ours, seals.theirs)).unzip();
        let test = conversation::Server::new(terms, clock::monotonic_ns(), ours, theirs);
        let guest = Native { plan: at_this_end(plan), window: shared.limits().window };
        let setup = Setup {
            streams: Streams {
                agreed: Arc::clone(&agreed),
                ip,
                token: slot.token,
                framing: Framing::Native { token: slot.token, stream: 0 },
                habits: habits::NATIVE,
                digits: false,
                preface: vec![],
                burst: 0,
                cores: slot.cores.clone(),
            },
            shared,
            slot,
            guest,
            nic: Some(nic),
            sign: (Sign::Words, SILENCE_OF_THREADS),
            named: true,
        };
        let test = Driver::new(test, control, setup).run(server, &mut arrivals).await;
        let ended = test.outcome().unwrap_or(Ok(()));
        let ended = ended.map_err(|early| served::explained(early, local));
        let time_ns = match plan.end {
            End::Time(time) => Some(time.0),
            _ => None,
        };
        let udp = plan.traffic.transport() == Transport::Udp;
        served::result(ended, udp, time_ns, test.reports())
    }
}

/// What a plan asks of this end's sockets. A congestion control is its sender's: where that is the client, nobody has looked
/// whether this kernel has it, which may load a module for its name (`tcp_ca_find_autoload`, net/ipv4/tcp_cong.c).
fn at_this_end(plan: &TestPlan) -> TestPlan {
    let mut plan = plan.clone();
    if let Traffic::Tcp(tcp) = &mut plan.traffic
        && !plan.direction.has_reverse()
    {
        tcp.congestion = None;
    }
    plan
}

/// What the native dialect does with its data sockets.
struct Native {
    plan: TestPlan,
    window: Option<u32>,
}

impl Guest for Native {
    fn prepare(&mut self, socket: &StreamSocket) {
        data::prepare_tcp(socket, &self.plan, self.window);
    }

    fn started(&mut self, tcp: Option<std::net::TcpStream>) {
        if let Some(mut tcp) = tcp {
            let _ = std::io::Write::write_all(&mut tcp, &[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::Direction;
    use linerate_testkit::plans;

    use super::*;

    #[test]
    fn a_name_that_nobody_has_looked_up_is_no_option_of_a_socket() {
        let tcp = linerate_model::plan::TcpPlan {
            congestion: Some("unheard_of".to_owned()),
            ..plans::tcp()
        };
        let mut plan = plans::plan(Traffic::Tcp(tcp));
        for (direction, sends) in
            [(Direction::Forward, false), (Direction::Reverse, true), (Direction::Both, true)]
        {
            plan.direction = direction;
            let Traffic::Tcp(own) = at_this_end(&plan).traffic else { panic!("bytes") };
            assert_eq!(own.congestion.is_some(), sends, "{direction:?}");
        }
    }
}
