//! The server of nuttcp's clients, on a port of its own.
//!
//! Data threads, accounting and admission are those of every test; this is what is around the conversation. A
//! client names the data ports, also those of its own that are to be connected to. Nothing goes to another
//! address than its own, and no program is started for it: neither traceroute nor a test with a third host.

mod plan;

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::habits::{self, BlockReport, Habits};
use linerate_dialect::iperf3::server::silence_limit_ns;
use linerate_dialect::nuttcp::server::{self as conversation, Terms};
use linerate_engine::{clock, sys};
use linerate_model::plan::{AgreedPlan, Dialect, IpVersion};
use linerate_wire::framing::Framing;
use linerate_wire::native::message::{RefusalKind, Refused};
use linerate_wire::nuttcp::datagram::Turn;
use linerate_wire::nuttcp::greeting::Release;
use linerate_wire::nuttcp::{MAX_LINE, Parameters, greeting};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc;

use self::plan::{plan, refuse};
use super::driver::{Driver, Guest, Setup};
use super::listen::PortOptions;
use crate::admission::Slot;
use crate::control::{read_out, write_bytes};
use crate::data::{Shared, Sign, StreamSocket, Streams, tcp_options};
use crate::event::Event;
use crate::host::facts;
use crate::loan::Loans;
use crate::serve_iperf3::control;
use crate::served;
use crate::service::{Server, Work};

/// Should nobody act on a client's silence, data threads end by themselves a little later.
const SILENCE_OF_THREADS: Duration = Duration::from_millis(500);
/// The first release whose receiver bears that an interval ends between two words of the end.
const PATIENT: Release = [6, 1, 4];
/// The first release that reads what blocks say of the connection, and the first that reads its window as well.
const HEARS_RETRANSMITS: Release = [6, 0, 1];
const HEARS_WINDOWS: Release = [8, 0, 1];

/// A test that was granted.
struct Test {
    peer: SocketAddr,
    local: SocketAddr,
    asked: Parameters,
    hurried: bool,
    block_report: BlockReport,
    agreed: Arc<AgreedPlan>,
    slot: Slot,
    /// Where tests run one at a time, what says that it is this one's.
    _alone: Option<OwnedSemaphorePermit>,
}

/// Finds out what a connection wants. Bounded by the caller.
pub(crate) async fn greet(
    server: &Arc<Server>,
    mut control: TcpStream,
    peer: SocketAddr,
) -> Option<Work> {
    let _ = control.set_nodelay(true);
    let local = control.local_addr().map(sys::plain).ok()?;
    let test = match ask(server, &mut control, peer, local).await? {
        Ok(test) => test,
        Err(refused) => {
            server.turned_away(peer, refused.kind, &refused.why);
            let _ = write_bytes(&mut control, &greeting::refusal(&refused.why)).await;
            read_out(&mut control).await;
            return None;
        }
    };
    let server = Arc::clone(server);
    Some(Box::pin(async move { test.run(&server, control).await }))
}

/// Greets the client and reads what it wants; `None` where it does not say.
async fn ask(
    server: &Arc<Server>,
    control: &mut TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
) -> Option<Result<Test, Refused>> {
    let mut lines = BufReader::new(&mut *control);
    let hello = line(&mut lines).await?;
    let Some(release) = greeting::release(&hello).map(greeting::numbers) else {
        let why = "it does not begin as nuttcp does, with HELO and a release";
        return Some(Err(refuse(RefusalKind::Protocol, why)));
    };
    write_bytes(&mut lines, greeting::HELLO).await.ok()?;
    let asked = line(&mut lines).await?;
    if !lines.buffer().is_empty() {
        let why = "it says more than its parameters before it has an answer";
        return Some(Err(refuse(RefusalKind::Protocol, why)));
    }
    let asked = Parameters::decode(&asked);
    let asked = asked.map_err(|unfit| refuse(RefusalKind::Protocol, &unfit.to_string()));
    Some(match asked {
        Ok(asked) => grant(server, (peer, local), asked, release).await,
        Err(refused) => Err(refused),
    })
}

/// One line without its end; `None` where none comes.
async fn line(from: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    from.take(MAX_LINE as u64).read_until(b'\n', &mut line).await.ok()?;
    line.strip_suffix(b"\n").map(<[u8]>::to_vec)
}

async fn grant(
    server: &Server,
    (peer, local): (SocketAddr, SocketAddr),
    asked: Parameters,
    release: Release,
) -> Result<Test, Refused> {
    let options = &server.options;
    if options.wants_key() || options.logins.is_some() {
        let why = "this server wants a key or a login, which clients of nuttcp cannot prove";
        return Err(refuse(RefusalKind::Key, why));
    }
    let plan = plan(&asked, ip(peer), options)?;
    let agreed = Arc::new(AgreedPlan { plan, cuts: vec![] });
    let alone = server.rendezvous.try_alone().map_err(|()| {
        let why = "busy: a test is running, and this server makes one at a time";
        refuse(RefusalKind::Busy, why)
    })?;
    let nic = facts(peer).await.nic;
    let irq_cores = nic.as_ref().map(|nic| nic.irq_cores.clone()).unwrap_or_default();
    let permit = server.permit(peer.ip(), None, &agreed.plan)?;
    let (arrivals, _) = mpsc::unbounded_channel();
    // No native stream can claim this place: nobody learns token and cookie.
    let slot = server.admission.admit(
        &agreed,
        u64::from_be_bytes(crate::random::random()) >> 1,
        crate::random::random(),
        (peer.ip(), local),
        &irq_cores,
        arrivals,
        (options, permit),
    )?;
    // Without intervals it would take the second word for one after the first was lost.
    let hurried = release < PATIENT && asked.interval_us.is_some();
    let block_report = match asked.server_tells() {
        true if release >= HEARS_WINDOWS => BlockReport::Window,
        true if release >= HEARS_RETRANSMITS => BlockReport::Retransmits,
        _ => BlockReport::Nothing,
    };
    Ok(Test { peer, local, asked, hurried, block_report, agreed, slot, _alone: alone })
}

fn ip(peer: SocketAddr) -> IpVersion {
    if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
}

impl Test {
    async fn run(self, server: &Arc<Server>, control: TcpStream) {
        let Self { peer, local, asked, hurried, block_report, agreed, slot, _alone } = self;
        let options = &server.options;
        let served = Box::new(served::test(None, peer, Dialect::Nuttcp, None, &agreed.plan));
        server.events.send(Event::TestStarted(served.clone()));
        let plan = &agreed.plan;
        let shared = Shared::within(slot.limits(options), usize::from(plan.streams));
        shared.charge_to(slot.days.clone());
        let terms = Terms {
            asked: asked.clone(),
            agreed: Arc::clone(&agreed),
            peer: peer.ip(),
            hurried,
            longest_ns: options.max_duration.0,
            most_bps: slot.rate(options).map(|rate| rate.bits_per_second()),
            no_data_ns: u64::try_from(options.no_data.as_nanos()).unwrap_or(u64::MAX),
        };
        let counted = asked.counts_sent();
        let turn = counted.then(|| Turn::first_of(plan.streams));
        let framing = Framing::Nuttcp { size: asked.length, turn };
        let lends = |(dialect, _): &&(Dialect, u16)| *dialect == Dialect::Iperf2;
        let doors = options.doors.iter().filter(lends).map(|(_, port)| *port);
        let silence = Duration::from_nanos(silence_limit_ns(plan.direction));
        let setup = Setup {
            streams: Streams {
                agreed: Arc::clone(&agreed),
                ip: ip(peer),
                token: slot.token,
                framing,
                habits: Habits { numbered: counted, block_report, ..habits::NUTTCP },
                preface: vec![],
                digits: false,
                burst: asked.burst.filter(|_| !asked.client_sends).unwrap_or(0),
                cores: slot.cores.clone(),
            },
            shared,
            slot,
            nic: None,
            sign: (Sign::Answers, silence + SILENCE_OF_THREADS),
            named: true,
            guest: Ports {
                asked: asked.clone(),
                agreed: Arc::clone(&agreed),
                most_forced: options.max_window,
                doors: doors.collect(),
                loans: Arc::clone(&server.loans),
            },
        };
        let begun_ns = clock::monotonic_ns();
        let test = conversation::Server::new(terms, begun_ns);
        let (_sender, mut arrivals) = mpsc::unbounded_channel::<(u16, StreamSocket)>();
        let test = Driver::new(test, control, setup).run(server, &mut arrivals).await;
        let ended = test.outcome().unwrap_or(Ok(()));
        let ended = ended.map_err(|early| served::explained(early, local.ip()));
        let time_ns = asked.time_us.map(|us| us.saturating_mul(1_000));
        // A client may end before the time that was agreed, by the same words.
        let lasted_ns = time_ns.filter(|ns| clock::monotonic_ns().saturating_sub(begun_ns) >= *ns);
        // What arrives is of so many datagrams as the client alone knows, but where they say it.
        let known = asked.udp && (counted || !asked.client_sends);
        let ended = served::result(ended, known, lasted_ns, test.reports());
        server.events.send(Event::TestEnded(served, Box::new(ended)));
    }
}

/// What nuttcp's clients ask of the data ports.
struct Ports {
    asked: Parameters,
    agreed: Arc<AgreedPlan>,
    /// The largest window that is forced beyond the kernel's limits, in bytes.
    most_forced: u32,
    /// Ports of this server's own, where a stream may come as well.
    doors: Vec<u16>,
    loans: Arc<Loans>,
}

impl Guest for Ports {
    fn wish(&self, stream: u16) -> PortOptions {
        let plan = &self.agreed.plan;
        let options = sys::TcpOptions {
            window: plan.window,
            most_forced: Some(self.most_forced),
            dscp: plan.dscp,
            ..sys::TcpOptions::default()
        };
        let first = u16::try_from(self.asked.port).unwrap_or(0);
        // Of whichever end listens.
        let port = first.checked_add(stream).and_then(NonZeroU16::new);
        let lent = port.filter(|port| self.doors.contains(&port.get()));
        let loans = lent.map(|_| Arc::clone(&self.loans));
        PortOptions {
            port,
            exact: true,
            loans,
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
