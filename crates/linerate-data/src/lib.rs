//! The data threads of one end of one test: plain threads, one a stream, each with its own socket.
//!
//! They share a [`Shared`] with the control side and report to it what they measured through a channel,
//! once an interval and once at the end. Nothing in their loops locks, allocates or formats.
//!
//! ```
//! use linerate_model::units::Nanos;
//!
//! // Four blocks of 1,000 bytes at 32 Mbit/s.
//! assert_eq!(linerate_data::burst_time(4, 1_000, 32_000_000), Nanos(1_000_000));
//! ```

#![forbid(unsafe_code)]

#[cfg(test)]
mod alone;
mod budget;
#[cfg(test)]
mod busy;
#[cfg(test)]
mod charged;
mod drain;
mod peer;
#[cfg(test)]
mod ports;
mod rr;
mod shared;
pub mod standstill;
mod tcp;
mod throttle;
mod toll;
mod udp_recv;
mod udp_send;
mod wait;

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_dialect::habits::Habits;
use linerate_engine::datagram::{self, Config, DatagramPort, Duty, SendBatch};
use linerate_engine::{clock, sys};
use linerate_host::thread::usage as thread_use;
use linerate_model::limits;
use linerate_model::plan::{AgreedPlan, IpVersion, Traffic};
use linerate_model::sample::ThreadUse;
use linerate_model::units::Nanos;
use linerate_session::Surroundings;
use linerate_session::engine_choice::Buffers;
use linerate_session::flow::Row;
use linerate_wire::framing::Framing;
use linerate_wire::native::stream::UdpHello;
use socket2::Socket;
use tokio::sync::mpsc::UnboundedSender;

pub use budget::DayBudget;
pub use drain::drain_ns;
pub use linerate_dialect::stream::{DataEvent, Report, Role, StreamId, Tick, role, streams};
pub use peer::Sign;
pub use rr::connections::{Dial, Doorway};
pub use shared::{Limits, Shared, StopOnDrop};
pub use throttle::Throttle;

/// How long a data thread waits in the kernel before it looks at [`Shared`] again.
const LOOK_UP: Duration = Duration::from_millis(20);
/// How long one that must begin at once sleeps before it does.
const PROMPT: Duration = Duration::from_micros(500);
/// A receiver to which data still comes ends this long after its drain time all the same.
const HARD_END_NS: u64 = 2_000_000_000;

/// Waits for the start, each time as `nap` does; with what this thread had used before the last time.
/// `None` when the test ended before it began.
fn wait_for_start(context: &Context, mut nap: impl FnMut()) -> Option<(u64, ThreadUse)> {
    // A new thread has waited for nothing, also where it gets its first core late.
    let mut thread = ThreadUse { ready_ns: Some(0), ..ThreadUse::default() };
    loop {
        if let Some(start_ns) = context.shared.running() {
            return Some((start_ns, thread));
        }
        if context.shared.stopping() {
            return None;
        }
        thread = thread_use();
        if context.streams.habits.prompt {
            // Its server says that it starts in the moment in which it begins.
            std::thread::sleep(PROMPT);
        } else {
            nap();
        }
    }
}

/// What this thread had used at `begun_ns`. It may come late to what begins then, having waited for a core
/// since the reading `before`: that belongs to what began.
fn thread_use_at(begun_ns: u64, before: ThreadUse) -> ThreadUse {
    thread_use().ago(clock::monotonic_ns().saturating_sub(begun_ns), before)
}

/// What [`linerate_session`] asks of a data thread.
struct Around<'a>(&'a Context);

impl Surroundings for Around<'_> {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        let (earliest, is_first) = self.0.shared.arrived_first(first_arrival_ns);
        if is_first {
            self.0.begun();
        }
        earliest
    }

    fn thread(&self) -> ThreadUse {
        thread_use()
    }
}

/// One end of one stream.
#[derive(Debug)]
pub enum StreamSocket {
    /// Connected UDP, with the hello to answer if it comes again (server only).
    Udp(Socket, Option<UdpHello>),
    /// Connected TCP.
    Tcp(TcpStream),
    /// Not connected: each transaction opens a connection of its own.
    Dial(Dial),
    /// Not connected: waits for a connection for each transaction.
    Doorway(Doorway),
}

impl StreamSocket {
    /// What is known of it now.
    pub fn facts(&self) -> SocketFacts {
        let (descriptor, send_buffer, receive_buffer, addresses) = match self {
            Self::Dial(_) => (-1, 0, 0, None),
            Self::Doorway(door) => {
                let listener = &door.listener;
                let buffers = (sys::send_buffer(listener), sys::receive_buffer(listener));
                (listener.as_raw_fd(), buffers.0, buffers.1, None)
            }
            Self::Udp(socket, _) => {
                let address = |a: std::io::Result<socket2::SockAddr>| a.ok()?.as_socket();
                let ends = address(socket.local_addr()).zip(address(socket.peer_addr()));
                (socket.as_raw_fd(), sys::send_buffer(socket), sys::receive_buffer(socket), ends)
            }
            Self::Tcp(socket) => {
                let ends = socket.local_addr().ok().zip(socket.peer_addr().ok());
                (socket.as_raw_fd(), sys::send_buffer(socket), sys::receive_buffer(socket), ends)
            }
        };
        let addresses = addresses.map(|(local, peer)| (sys::plain(local), sys::plain(peer)));
        let congestion = self.congestion();
        SocketFacts { descriptor, addresses, send_buffer, receive_buffer, congestion }
    }

    /// Congestion control of a TCP stream, whichever way it carries.
    pub fn congestion(&self) -> Option<String> {
        match self {
            Self::Tcp(tcp) => sys::congestion(tcp),
            Self::Udp(..) | Self::Dial(_) | Self::Doorway(_) => None,
        }
    }
}

/// What is known of a stream's socket before its thread has it.
#[derive(Debug)]
pub struct SocketFacts {
    /// Of this process.
    pub descriptor: RawFd,
    /// This end's, and the peer's.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// `SO_SNDBUF`, in bytes.
    pub send_buffer: u64,
    /// `SO_RCVBUF`, in bytes.
    pub receive_buffer: u64,
    /// Of TCP.
    pub congestion: Option<String>,
}

/// How long `blocks` of so many bytes last at a rate in bit/s: what leaves at once in iperf3's dialect,
/// as the time that plans have for it.
pub fn burst_time(blocks: u32, bytes: u32, rate_bps: u64) -> Nanos {
    let bits = u128::from(blocks) * u128::from(bytes) * 8;
    let ns = (bits * 1_000_000_000).div_ceil(u128::from(rate_bps.max(1)));
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX).min(limits::BURST_NS.max))
}

/// What a test's data streams are, and where their threads run.
#[derive(Debug, Clone)]
pub struct Streams {
    /// What both ends run.
    pub agreed: Arc<AgreedPlan>,
    /// Of the test's addresses.
    pub ip: IpVersion,
    /// A number of this test alone, which seeds what its senders send.
    pub token: u64,
    /// What the datagrams of the first stream begin with.
    pub framing: Framing,
    /// What their dialect does differently.
    pub habits: Habits,
    /// Senders repeat the ten digits instead of random bytes.
    pub digits: bool,
    /// What each datagram that is sent holds behind its number, where its dialect says there what the test is.
    pub preface: Vec<u8>,
    /// Datagrams or blocks that leave at once, where the user of iperf3 names a number.
    pub burst: u32,
    /// For each stream, where it runs if anywhere in particular.
    pub cores: Vec<Option<u32>>,
}

impl Streams {
    /// What the thread of one of them knows.
    pub fn context(
        &self,
        (id, role): (StreamId, Role),
        shared: &Arc<Shared>,
        events: &UnboundedSender<DataEvent>,
    ) -> Context {
        Context {
            shared: Arc::clone(shared),
            streams: self.clone(),
            framing: self.framing.of_stream(id.stream),
            id,
            role,
            core: self.cores.get(usize::from(id.stream)).copied().flatten(),
            events: events.clone(),
            early: Vec::new(),
        }
    }
}

#[cfg(test)]
impl Streams {
    fn of_one(agreed: &Arc<AgreedPlan>) -> Self {
        Self {
            agreed: Arc::clone(agreed),
            ip: IpVersion::V4,
            token: 1,
            framing: Framing::Native { token: 1, stream: 0 },
            habits: linerate_dialect::habits::NATIVE,
            digits: false,
            preface: vec![],
            burst: 0,
            cores: vec![],
        }
    }
}

/// What a data thread knows.
pub struct Context {
    shared: Arc<Shared>,
    streams: Streams,
    framing: Framing,
    id: StreamId,
    role: Role,
    core: Option<u32>,
    events: UnboundedSender<DataEvent>,
    early: Vec<Early>,
}

/// A datagram of a stream that came before the stream had a socket of its own.
#[derive(Debug)]
pub struct Early {
    /// All of it.
    pub bytes: Vec<u8>,
    /// When it was read, on the monotonic clock.
    pub at_ns: u64,
}

impl Context {
    /// The same of a stream of which these have come already.
    #[must_use]
    pub fn after(self, early: Vec<Early>) -> Self {
        Self { early, ..self }
    }

    fn around(&self) -> Around<'_> {
        Around(self)
    }

    /// Intervals of the measured time that are kept.
    fn intervals(&self) -> Option<u64> {
        Some(self.streams.agreed.plan.intervals())
    }

    fn begun(&self) {
        let _ = self.events.send(DataEvent::Begun);
    }

    fn tick(&self, index: usize, tick: Tick) {
        // The control side is gone only when the test is over.
        let _ = self.events.send(DataEvent::Tick(self.id.stream, index as u64, tick));
    }

    fn warm_tick(&self, index: usize, tick: Tick) {
        let _ = self.events.send(DataEvent::Warm(self.id.stream, index as u64, tick));
    }

    fn recv_tick(&self, row: Row) {
        let tick = Tick::Recv(row.counted);
        if row.warm { self.warm_tick(row.index, tick) } else { self.tick(row.index, tick) }
    }

    /// Whether a sender must end at `now_ns`: it was stopped, or the longest time is over.
    fn ends_sending(&self, now_ns: u64) -> bool {
        self.shared.look_after_peer(now_ns);
        if !self.streams.habits.client_ends {
            self.shared.keep_time(now_ns);
        }
        self.shared.stopping() || self.shared.is_late(now_ns)
    }

    /// What senders fill their buffer with, block after block of `each` bytes: digits, as iperf3's
    /// users may ask, or bytes that do not compress. Never the peer's own.
    fn payload(&self, bytes: usize, each: usize) -> Vec<u8> {
        let each = each.max(1);
        if !self.streams.digits {
            let mut filled = incompressible(bytes, self.streams.token);
            for datagram in filled.chunks_mut(each) {
                let place = datagram.iter_mut().skip(self.framing.bytes());
                place.zip(&self.streams.preface).for_each(|(place, byte)| *place = *byte);
            }
            return filled;
        }
        (0..bytes).map(|i| b'0' + (i % each % 10) as u8).collect()
    }

    /// What the plan asks of a port for datagrams of up to so many bytes. `default` are the buffers
    /// where its user named none.
    fn port(&self, duty: Duty, datagram: usize, default: Option<Buffers>) -> Config {
        let plan = &self.streams.agreed.plan;
        let checksum = match &plan.traffic {
            Traffic::Udp(udp) => udp.checksum || self.streams.ip == IpVersion::V6,
            _ => true,
        };
        Config {
            duty,
            datagram,
            send_buffer: plan.window.or(default.map(|d| d.send)),
            receive_buffer: plan.window.or(default.map(|d| d.receive)),
            // The default is this end's own choice, and bounded by itself.
            most_forced: plan.window.and(self.shared.limits().window),
            dscp: plan.dscp,
            checksum,
            stamps: duty == Duty::Receive,
            contents: self.framing.is_read(),
            receive_wait: LOOK_UP,
            // A full send buffer makes the thread wait, but not for ever.
            send_wait: LOOK_UP * 5,
        }
    }
}

/// Bytes that do not compress, from a generator seeded by the test.
fn incompressible(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = vec![0; length];
    for chunk in bytes.chunks_mut(8) {
        // xorshift64*, Vigna 2016.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let word = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        chunk.copy_from_slice(word.get(..chunk.len()).unwrap_or_default());
    }
    bytes
}

/// What carries one end of one stream.
enum Carrier {
    /// Ports, to be opened, and the hello to answer if it comes again (server only).
    Datagrams(datagram::Context, Option<UdpHello>),
    Tcp(TcpStream),
    /// Of transactions alone.
    Dial(Dial),
    /// Likewise.
    Doorway(Doorway),
}

/// Starts the thread of one stream.
///
/// # Errors
/// When the system has no thread to give, or the socket is not connected.
pub fn spawn(context: Context, socket: StreamSocket) -> std::io::Result<JoinHandle<()>> {
    let carrier = match socket {
        StreamSocket::Udp(socket, hello) => {
            Carrier::Datagrams(datagram::Context::of_socket(socket, context.core)?, hello)
        }
        StreamSocket::Tcp(socket) => Carrier::Tcp(socket),
        StreamSocket::Dial(dial) => Carrier::Dial(dial),
        StreamSocket::Doorway(door) => Carrier::Doorway(door),
    };
    let marked = match (&carrier, context.role) {
        (Carrier::Datagrams(at, _), Role::Send | Role::Request) => at.socket.clone(),
        _ => None,
    };
    if let (Carrier::Datagrams(at, _), Role::Receive) = (&carrier, context.role) {
        udp_recv::prepare(&context, at);
    }
    let name = format!("{}-{}", context.role.name(), context.id.stream);
    std::thread::Builder::new().name(name).stack_size(256 * 1024).spawn(move || {
        if let Some(core) = context.core {
            // Placement is a wish: a core that has gone away must not end the test.
            let _ = clock::pin_to(core);
        }
        clock::wake_precisely();
        let report = match (context.role, carrier) {
            (Role::Send, Carrier::Datagrams(at, hello)) => {
                Report::Send(udp_send::run(&context, at, hello))
            }
            (Role::Receive, Carrier::Datagrams(at, hello)) => {
                Report::Recv(udp_recv::run(&context, at, hello))
            }
            (Role::Send, Carrier::Tcp(socket)) => Report::Send(tcp::send(&context, &socket)),
            (Role::Receive, Carrier::Tcp(socket)) => Report::Recv(tcp::receive(&context, &socket)),
            (Role::Send | Role::Receive, Carrier::Dial(_) | Carrier::Doorway(_)) => return,
            (Role::Request, carrier) => Report::Rr(rr::request(&context, carrier)),
            (Role::Respond, carrier) => Report::Respond(rr::respond(&context, carrier)),
        };
        if let Some(socket) = marked {
            mark_end(&socket, context.streams.habits.end_marks);
        }
        let _ = context.events.send(DataEvent::Done(context.id.stream, Box::new(report)));
    })
}

/// Says with so many empty datagrams that nothing more comes. What the kernel does not take is lost, as any
/// of them may be.
fn mark_end(socket: &Socket, marks: u8) {
    let _ = socket.set_nonblocking(false);
    let _ = socket.set_write_timeout(Some(LOOK_UP * 5));
    for _ in 0..marks {
        let _ = socket.send(&[]);
    }
}

/// Whether a datagram is the client's hello again, because the first answer was lost.
fn is_hello_again(hello: Option<UdpHello>, datagram: &[u8]) -> bool {
    hello.is_some() && UdpHello::decode(datagram) == hello
}

/// Answers it, which counts as all that is sent.
fn answer_again(context: &Context, port: &mut dyn DatagramPort, hello: Option<UdpHello>) {
    let Some(ours) = hello else { return };
    let ack =
        linerate_wire::native::stream::UdpHelloAck { token: ours.0.token, stream: ours.0.stream };
    let ack = ack.encode();
    if port.send(&SendBatch { bytes: &ack, segment: ack.len(), train: 1 }).is_ok() {
        context.shared.add_sent(ack.len() as u64);
    }
}

/// Sets what a plan asks of a TCP socket, as far as an established one still takes it.
pub fn prepare_tcp(
    socket: &StreamSocket,
    plan: &linerate_model::plan::TestPlan,
    most_forced: Option<u32>,
) {
    let StreamSocket::Tcp(tcp) = socket else { return };
    let v6 = tcp.peer_addr().is_ok_and(|peer| sys::plain(peer).is_ipv6());
    let options = sys::TcpOptions {
        window: plan.window,
        most_forced,
        dscp: plan.dscp,
        ..sys::TcpOptions::default()
    };
    sys::set_tcp(tcp, v6, &tcp_options(plan, options));
}

/// The plan of sockets that the kernel must not pace, for who keeps the rate block by block: pacing, which no option ends
/// again, would spread what is to leave at once, and be taken for delay.
pub fn unpaced(plan: &linerate_model::plan::TestPlan) -> linerate_model::plan::TestPlan {
    let mut plan = plan.clone();
    if let Traffic::Tcp(tcp) = &mut plan.traffic {
        tcp.rate = None;
    }
    plan
}

/// The TCP options of a plan.
pub fn tcp_options(
    plan: &linerate_model::plan::TestPlan,
    options: sys::TcpOptions,
) -> sys::TcpOptions {
    let Traffic::Tcp(tcp) = &plan.traffic else { return options };
    sys::TcpOptions {
        mss: tcp.mss,
        congestion: tcp.congestion.clone(),
        nodelay: tcp.nodelay,
        rate_bps: tcp.rate.map(|rate| rate.bits_per_second() / u64::from(plan.streams.max(1))),
        ..options
    }
}
