//! The client in netperf's dialect: the same data threads, pacing, accounting, record and verdict as in
//! linerate's own, over netperf's control connection.

mod ask;

pub use ask::Wants;
pub(super) use ask::fit;

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use linerate_dialect::habits::{self, Habits};
use linerate_dialect::netperf::client::{Client, Terms};
use linerate_engine::{clock, sys};
use linerate_model::plan::Way;
use linerate_model::plan::{Dialect, Traffic, Transport};
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord, PlanRecord};
use linerate_model::test_event::TestEvent;
use linerate_session::assemble::HostSamples;
use linerate_session::observer::{Observer, Said};
use linerate_wire::framing::Framing;
use socket2::Socket;
use tokio::net::TcpStream;

use super::driver::{Driver, Over};
use super::open::{Open, Opener, Opening};
use super::seen;
use super::test::{ClientTest, Ended, unchanged};
use crate::address::with_port;
use crate::data::{self, Dial, SocketFacts, StreamSocket, Streams};
use crate::errors;
use crate::random::random;

/// An answer may take this long, in nanoseconds: a server that misses the end of the data waits 4 s for it.
const PATIENCE_NS: u64 = 15_000_000_000;
/// What may wait to be read before the data thread has the socket, in bytes.
const FIRST_BUFFER: u32 = 4 << 20;

/// Runs the test.
pub(super) async fn conduct(
    test: &mut ClientTest<'_>,
    control: TcpStream,
    observer: &mut dyn Observer,
) -> Result<(), ErrorRecord> {
    let cuts = ask::fit(&mut test.plan)?;
    let doubts = cuts.into_iter().map(|text| Doubt::new(DoubtKind::Degraded, text));
    test.record.doubts.extend(doubts);
    let mut opener = test.opener();
    // The server may send to it before anything else is said.
    let wants = test.request.wants.clone();
    let burst = wants.as_ref().map_or(0, |wants| wants.burst);
    if let (Traffic::Tcp(tcp), 2..) = (&mut opener.plan.traffic, burst) {
        // The kernel's own pacing would spread what is to leave at once.
        tcp.rate = None;
    }
    let near_port = wants.as_ref().and_then(|wants| wants.near_port);
    let (socket, port) = match test.plan.traffic.transport() {
        Transport::Udp => udp(&opener, near_port).map(Option::unzip)?,
        Transport::Tcp => (None, None),
    };
    let request = ask::request(&test.plan, test.ip, port, wants.as_ref())?;
    // Both ends in one network namespace: its counters are the receiver's.
    let same_host = test.peer.ip() == test.local.ip();
    test.record.asked.ip = Some(test.ip.number());
    let mut agreed = PlanRecord::of(&test.plan, Some(test.ip));
    agreed.dialect = Dialect::Netperf.into();
    let ids = data::streams(test.plan.direction, test.plan.streams);
    let streams = Streams {
        agreed: Arc::new(unchanged(&test.plan)),
        ip: test.ip,
        token: u64::from_be_bytes(random()),
        framing: Framing::Bare,
        habits: Habits { whole_blocks: burst > 1, ..habits::NETPERF },
        preface: vec![],
        digits: false,
        burst,
        cores: test.cores(&ids, false, &[]),
    };
    let opening = Opening::start(Netperf {
        opener,
        wants,
        bound: test.request.bind.is_some(),
        socket: Mutex::new(socket),
    });
    let terms = Terms {
        plan: test.plan.clone(),
        request: Some(request.encode()),
        patience_ns: PATIENCE_NS,
    };
    let conversation = Client::new(terms, clock::monotonic_ns());
    // The data goes the same way.
    let mss = sys::tcp_sample(&control).and_then(|tcp| tcp.mss_bytes);
    let (plan, ends) = (test.plan.clone(), (test.local, test.peer));
    let announce = move |facts: &[SocketFacts]| {
        let mut event = seen::start(&plan, ends, Way::Forward, (&ids, facts));
        if let TestEvent::Start(start) = &mut event {
            start.control.mss = mss.and_then(|mss| u32::try_from(mss).ok());
        }
        Some(event)
    };
    let watched = (&mut test.record, Box::new(announce) as _);
    let driver =
        Driver::new(test.request, conversation, control, opening, streams, watched, observer);
    let Over { conversation, fault, host } = Box::pin(driver.run()).await;
    if let Some(Err(trouble)) = conversation.outcome() {
        return Err(fault.unwrap_or_else(|| test.failed(trouble)));
    }
    test.record.agreed = Some(agreed);
    if same_host {
        test.record.server = Some(test.record.client.clone());
    }
    let response = conversation.response().cloned().unwrap_or_default();
    let ended = conversation.ended();
    if let Some(stream) = ended.streams.first() {
        let results = ended.results.as_ref();
        observer.said(&Said { stream, response: &response, results, host: &host });
    }
    let trouble = ended.trouble.map(|trouble| test.failed(trouble));
    let server = if same_host { host.clone() } else { HostSamples::default() };
    let how = Ended {
        interrupted: ended.interrupted,
        trouble,
        stopping: None,
        results: ended.results.is_some(),
    };
    test.conclude(ended.streams, how, (host, server), None, same_host, habits::NETPERF);
    let shown = usize::try_from(ended.shown).unwrap_or(usize::MAX);
    test.record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
    Ok(())
}

fn address_of(socket: &Socket) -> std::io::Result<Option<SocketAddr>> {
    Ok(socket.local_addr()?.as_socket())
}

/// A UDP socket that is not connected yet, and its port.
fn udp(
    opener: &Opener,
    port: Option<NonZeroU16>,
) -> Result<Option<(Socket, NonZeroU16)>, ErrorRecord> {
    let open = || {
        let socket = sys::udp_socket(with_port(opener.local, port.map_or(0, NonZeroU16::get)))?;
        let window = Some(opener.plan.window.unwrap_or(FIRST_BUFFER));
        let most_forced = opener.most_forced;
        let options = sys::TcpOptions { window, most_forced, ..sys::TcpOptions::default() };
        let _ = sys::set_tcp(&socket, opener.local.is_ipv6(), &options);
        let port = address_of(&socket)?.and_then(|address| NonZeroU16::new(address.port()));
        std::io::Result::Ok(port.map(|port| (socket, port)))
    };
    open().map_err(|e| errors::udp_stream(&opener.name, opener.peer, &e.to_string()))
}

/// Opens the stream of a test of netperf's.
struct Netperf {
    opener: Opener,
    wants: Option<Wants>,
    /// The user named this end's address.
    bound: bool,
    /// Over UDP.
    socket: Mutex<Option<Socket>>,
}

impl Open for Netperf {
    fn open(
        &self,
        _: u16,
        port: Option<NonZeroU16>,
        _: &AtomicBool,
    ) -> Result<StreamSocket, ErrorRecord> {
        // Wherever the server says: to no other address.
        let peer = with_port(self.opener.peer, port.map_or(0, NonZeroU16::get));
        let opener = Opener { peer, ..self.opener.clone() };
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        let port = self.wants.as_ref().and_then(|wants| wants.near_port);
        let local = with_port(opener.local, port.map_or(0, NonZeroU16::get));
        if let Some(carries) = self.wants.as_ref().and_then(|wants| wants.connections) {
            let (plan, local) = (&opener.plan, self.bound.then_some(local));
            let options = data::tcp_options(
                plan,
                sys::TcpOptions {
                    window: plan.window,
                    most_forced: opener.most_forced,
                    dscp: plan.dscp,
                    ..sys::TcpOptions::default()
                },
            );
            return Ok(StreamSocket::Dial(Dial { peer, local, options, carries }));
        }
        let Some(socket) = socket else {
            return opener.connect(local).map(StreamSocket::Tcp);
        };
        let fault = |e: std::io::Error| errors::udp_stream(&opener.name, peer, &e.to_string());
        socket.connect(&peer.into()).map_err(fault)?;
        Ok(StreamSocket::Udp(socket, None))
    }
}
