//! One stream of a client of iperf 2's, from its grant to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::habits::{self, BlockTimes};
use linerate_dialect::iperf2::server::{self as conversation, Terms};
use linerate_dialect::stream;
use linerate_engine::clock;
use linerate_model::plan::{AgreedPlan, Dialect, IpVersion, Transport, Way};
use linerate_model::test_event::{End, TestEvent};
use linerate_wire::framing::Framing;
use linerate_wire::iperf2::TIMED_HEADER_BYTES;
use linerate_wire::native::message::{RefusalKind, Refused};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc;

use super::plan::{self, Asked, refuse};
use crate::admission::{self, Slot};
use crate::client::seen;
use crate::data::{self, Early, Shared, Sign, StreamSocket, Streams};
use crate::event::Event;
use crate::event_log::Events;
use crate::random::random;
use crate::served;
use crate::service::Server;
use crate::serving::driver::{Driver, Guest, Setup};

/// The first release whose clients want the later words of a report in any case.
const EXTENDED: u32 = 0x0002_0002;
/// A UDP client that says nothing for so long is gone, unless it sends more slowly.
const SILENCE: Duration = Duration::from_secs(10);
/// Datagrams of which none comes within this are too slow, in multiples of the time between two.
const MISSED: u64 = 5;

/// A stream that was granted.
pub(super) struct Test {
    peer: SocketAddr,
    /// Of its own socket: that of another stream to the same port of a client differs.
    pub(super) local: SocketAddr,
    agreed: Arc<AgreedPlan>,
    slot: Slot,
    socket: StreamSocket,
    /// Of the same connection, where data goes back on it at once.
    pub(super) back: Option<StreamSocket>,
    early: Vec<Early>,
    framing: Framing,
    /// Blocks over TCP say when they were written.
    times: Option<BlockTimes>,
    /// Its client reads the later words of a report.
    extended: bool,
    silence: Duration,
    _alone: Alone,
}

/// Nobody else has a test meanwhile, where that is how tests run here.
pub(super) type Alone = Option<Arc<OwnedSemaphorePermit>>;

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
    let &Asked { peer, local, transport, header, first } = asked;
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
    // A datagram proves nothing of where it comes from.
    let claimed = transport == Transport::Udp;
    let permit = server.permit_of((peer.ip(), None, claimed), &agreed.plan)?;
    // No native stream can claim this place: nobody learns token and cookie.
    let token = u64::from_be_bytes(random()) >> 1;
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
    let ahead_ns = clock::Reading::now().ahead_ns;
    let times = header.began_ns.map(|_| BlockTimes {
        header: u32::try_from(first).unwrap_or(TIMED_HEADER_BYTES),
        began_ns: clock::realtime_ns(),
        ahead_ns,
    });
    Ok(move |socket, early| Test {
        peer,
        local,
        agreed,
        slot,
        socket,
        back: None,
        early,
        framing: Framing::Iperf2 { wide: header.wide, ahead_ns, agree: header.began_ns.is_some() },
        times,
        extended: header.version.is_some_and(|(major, _)| major >= EXTENDED),
        silence,
        _alone: alone,
    })
}

/// How long a UDP client may say nothing.
fn silence(asked: &Asked) -> Duration {
    let bits = asked.first as u64 * 8 * MISSED;
    let slow = asked.header.rate_bps.map(|rate| bits.saturating_mul(1_000_000_000) / rate.max(1));
    slow.map_or(SILENCE, |ns| SILENCE.max(Duration::from_nanos(ns)))
}

impl Test {
    /// Runs it, to its end.
    pub(super) async fn run(self, server: &Arc<Server>) {
        let served =
            Box::new(served::test(None, self.peer, Dialect::Iperf2, None, &self.agreed.plan));
        let (peer, local) = (self.peer, self.local);
        let udp = matches!(self.socket, StreamSocket::Udp(..));
        server.events.send(Event::TestStarted(served.clone()));
        let test = self.conduct(server).await;
        server.events.send(Event::Test { peer, local, event: ended(&test) });
        let ended = test.outcome().unwrap_or(Ok(()));
        let ended = ended.map_err(|early| served::explained(early, local.ip()));
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
            times,
            extended,
            silence,
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
            trips: times.is_some(),
        };
        let setup = Setup {
            streams: Streams {
                agreed,
                ip: if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 },
                token: slot.token,
                framing,
                habits: habits::iperf2(times),
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

/// Of a stream that is over, what its users see.
fn ended(test: &conversation::Server) -> TestEvent {
    TestEvent::End(Box::new(End {
        streams: test.ends().collect(),
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
    /// `--trip-times`.
    trips: bool,
}

impl Guest for Iperf2 {
    fn announce(&mut self, sockets: &[&StreamSocket]) {
        let facts: Vec<_> = sockets.iter().map(|socket| socket.facts()).collect();
        let plan = &self.agreed.plan;
        let ids = data::streams(plan.direction, plan.streams);
        let start = seen::start(plan, self.ends, Way::Reverse, (&ids, &facts));
        self.event(seen::timed(self.trips, start));
    }

    fn event(&mut self, event: TestEvent) {
        let (local, peer) = self.ends;
        self.events.send(Event::Test { peer, local, event });
    }

    fn prepare(&mut self, socket: &StreamSocket) {
        let plan = &self.agreed.plan;
        let plan = if self.trips { data::unpaced(plan) } else { plan.clone() };
        data::prepare_tcp(socket, &plan, Some(self.window));
    }

    fn early(&mut self) -> Vec<Early> {
        std::mem::take(&mut self.early)
    }
}

#[cfg(test)]
mod tests {
    use linerate_engine::sys;
    use linerate_model::units::Nanos;
    use linerate_wire::iperf2::Header;

    use super::*;
    use crate::options::Options;

    fn stream(server: &Server, transport: Transport) -> Result<Test, Refused> {
        let at = SocketAddr::from(([127, 0, 0, 1], 5_001));
        let asked = Asked { peer: at, local: at, transport, header: Header::default(), first: 80 };
        let socket = sys::udp_socket(([127, 0, 0, 1], 0).into()).unwrap();
        let granted = grant(server, &asked, None)?;
        Ok(granted(StreamSocket::Udp(socket, None), Vec::new()))
    }

    #[tokio::test]
    async fn who_forges_addresses_takes_nothing_of_their_owners_share_and_day() {
        let options = Options {
            max_tests: 8,
            max_tests_per_address: Some(2),
            max_bytes_per_day: Some(1_000),
            ..Options::default()
        };
        let server = Server::alone(options);
        let stream = |transport| stream(&server, transport);
        let forged = [stream(Transport::Udp).unwrap(), stream(Transport::Udp).unwrap()];
        // They have a share and a day of their own.
        assert_eq!(stream(Transport::Udp).err().map(|e| e.kind), Some(RefusalKind::Busy));
        assert!(forged[0].slot.days[0].charge(1_001) && forged[1].slot.days[0].is_over());
        let own = [stream(Transport::Tcp).unwrap(), stream(Transport::Tcp).unwrap()];
        assert_eq!(own[0].slot.days[0].left(), 1_000);
        assert_eq!(stream(Transport::Tcp).err().map(|e| e.kind), Some(RefusalKind::Busy));
        drop(forged);
        assert_eq!(stream(Transport::Udp).err().map(|e| e.kind), Some(RefusalKind::Policy));
    }

    #[tokio::test]
    async fn who_forges_addresses_leaves_half_of_the_memory_to_others() {
        // Each takes 3 MiB and a little more.
        let max_duration = Nanos::from_secs(10);
        let options = Options { max_memory: 14 << 20, max_duration, ..Options::default() };
        let server = Server::alone(options);
        let stream = |transport| stream(&server, transport);
        let forged = [stream(Transport::Udp).unwrap(), stream(Transport::Udp).unwrap()];
        let refused = stream(Transport::Udp).err().expect("it is more than half");
        assert_eq!(refused.kind, RefusalKind::Busy);
        assert!(refused.why.contains("half is all"), "{}", refused.why);
        let own = [stream(Transport::Tcp).unwrap(), stream(Transport::Tcp).unwrap()];
        let refused = stream(Transport::Tcp).err().expect("it is more than all");
        assert!(refused.why.contains("MiB are taken"), "{}", refused.why);
        drop((forged, own));
        assert!(stream(Transport::Udp).is_ok(), "free again");
    }
}
