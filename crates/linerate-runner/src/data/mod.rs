//! The data threads of one end of one test: plain threads, one a stream, each with its own socket.
//!
//! They share a [`Shared`] with the control side and tell it what they measured through a channel,
//! once an interval and once at the end. Nothing in their loops locks, allocates or formats.

mod peer;
mod rr;
mod tcp;
mod toll;
mod udp_recv;
mod udp_send;
mod wait;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_engine::{clock, sys};
use linerate_host::thread::usage as thread_use;
use linerate_model::limits;
use linerate_model::plan::{AgreedPlan, Direction, IpVersion, Traffic, Way};
use linerate_model::sample::{
    RecvInterval, RecvReport, RrInterval, RrReport, SendInterval, SendReport, ThreadUse,
};
use linerate_model::units::{BitRate, Nanos};
use linerate_session::Surroundings;
use linerate_session::engine_choice::Buffers;
use linerate_wire::framing::Framing;
use linerate_wire::native::message::{RespondReport, StreamSent};
use linerate_wire::native::stream::UdpHello;
use socket2::Socket;
use tokio::sync::mpsc::UnboundedSender;

use crate::shares::DayBudget;

pub(crate) use peer::Sign;
use toll::Toll;

/// How long a data thread waits in the kernel before it looks at [`Shared`] again.
const LOOK_UP: Duration = Duration::from_millis(20);
/// How long one that must begin at once sleeps before it does.
const PROMPT: Duration = Duration::from_micros(500);
/// From the word that an iperf3 test runs to the first datagram: every thread has seen that it may begin.
pub(crate) const PROMPT_START_NS: u64 = 2_000_000;
/// A receiver to which data still comes ends this long after its drain time all the same.
const HARD_END_NS: u64 = 2_000_000_000;

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const STOPPING: u8 = 2;

/// Not yet told.
const UNKNOWN: u64 = u64::MAX;

/// What a server's owner allows one test, whatever its plan says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Most bytes that it may carry, both ways together.
    pub(crate) bytes: Option<u64>,
    /// Largest rate of one direction.
    pub(crate) rate: Option<BitRate>,
    /// The most of a window, in bytes, that is forced beyond the kernel's limits.
    pub(crate) window: Option<u32>,
    /// Longest time, warm-up included, in nanoseconds.
    pub(crate) span_ns: Option<u64>,
}

/// Data of a test that has the longest allowed time may come so much later, in nanoseconds: what was on
/// its way, and what the client learnt late of the start.
pub(crate) const LAST_DATA_NS: u64 = 500_000_000;

/// What the control side tells the data threads.
#[derive(Debug)]
pub(crate) struct Shared {
    phase: AtomicU8,
    /// Monotonic time at which senders begin.
    start_ns: AtomicU64,
    /// Monotonic time at which senders were told to end; [`UNKNOWN`] is not yet.
    stopped_ns: AtomicU64,
    /// First measured arrival on any of this end's streams; 0 is none.
    origin_ns: AtomicU64,
    /// Datagrams that the peer sent on each stream.
    sent: Vec<AtomicU64>,
    /// Last time that data came, over UDP or TCP: a peer whose control connection is held up by its
    /// own flood is not silent.
    heard_ns: AtomicU64,
    /// Monotonic time after which receivers give up waiting; [`UNKNOWN`] is not yet.
    drain_until_ns: AtomicU64,
    /// Bytes that this end has received in the measured time.
    received: AtomicU64,
    /// Bytes that this end has received before it. Each byte is in one of these three.
    received_warm: AtomicU64,
    /// Bytes that this end has sent, warm-up included.
    carried_away: AtomicU64,
    limits: Limits,
    /// What arrives for threads that answer, and what they send.
    tolls: Option<[Toll; 2]>,
    /// It carried more.
    over_budget: AtomicBool,
    /// Monotonic time after which no data is taken or sent; [`UNKNOWN`] is no such time.
    last_data_ns: AtomicU64,
    /// Data came after it.
    over_time: AtomicBool,
    /// Where this test's bytes count as well, and whether they were too many there.
    day: OnceLock<DayBudget>,
    over_day: AtomicBool,
    /// How the peer is known to be there; nothing is known of it before it is set.
    peer: OnceLock<peer::PeerWatch>,
    /// Monotonic time at which a data thread looks after the peer; [`UNKNOWN`] is never.
    look_at_ns: AtomicU64,
    /// One did, and found it gone.
    peer_gone: AtomicBool,
}

impl Shared {
    pub(crate) fn new(streams: usize) -> Arc<Self> {
        Self::within(Limits::default(), streams)
    }

    /// What the owner allows.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// A test whose threads keep to the owner's limits.
    pub(crate) fn within(limits: Limits, streams: usize) -> Arc<Self> {
        Arc::new(Self {
            phase: AtomicU8::new(WAITING),
            start_ns: AtomicU64::new(UNKNOWN),
            stopped_ns: AtomicU64::new(UNKNOWN),
            origin_ns: AtomicU64::new(0),
            sent: (0..streams).map(|_| AtomicU64::new(UNKNOWN)).collect(),
            heard_ns: AtomicU64::new(0),
            drain_until_ns: AtomicU64::new(UNKNOWN),
            received: AtomicU64::new(0),
            received_warm: AtomicU64::new(0),
            carried_away: AtomicU64::new(0),
            limits,
            tolls: limits.rate.map(|rate| [Toll::new(rate), Toll::new(rate)]),
            over_budget: AtomicBool::new(false),
            last_data_ns: AtomicU64::new(UNKNOWN),
            over_time: AtomicBool::new(false),
            day: OnceLock::new(),
            over_day: AtomicBool::new(false),
            peer: OnceLock::new(),
            look_at_ns: AtomicU64::new(UNKNOWN),
            peer_gone: AtomicBool::new(false),
        })
    }

    /// Senders begin at `at_ns`.
    pub(crate) fn start(&self, at_ns: u64) {
        self.start_ns.store(at_ns, Ordering::Relaxed);
        if let Some(span_ns) = self.limits.span_ns {
            let last = at_ns.saturating_add(span_ns).saturating_add(LAST_DATA_NS);
            self.last_data_ns.store(last, Ordering::Relaxed);
        }
        // Release: whoever sees the phase sees the start.
        let _ = self.phase.compare_exchange(WAITING, RUNNING, Ordering::Release, Ordering::Relaxed);
    }

    /// Senders end now, requesters too.
    pub(crate) fn stop(&self) {
        self.stopped_ns.fetch_min(clock::monotonic_ns(), Ordering::Relaxed);
        // Release: whoever sees the phase sees the time.
        self.phase.store(STOPPING, Ordering::Release);
    }

    /// When senders were told to end.
    fn stopped_ns(&self) -> Option<u64> {
        Some(self.stopped_ns.load(Ordering::Relaxed)).filter(|at| *at != UNKNOWN)
    }

    /// The peer says how much it sent.
    pub(crate) fn far_end_sent(&self, stream: u16, datagrams: u64) {
        if let Some(slot) = self.sent.get(usize::from(stream)) {
            // The largest value means "unknown"; nobody can have sent as many.
            slot.store(datagrams.min(UNKNOWN - 1), Ordering::Release);
        }
    }

    /// Receivers give up at `at_ns`, or when everything has arrived.
    pub(crate) fn drain_until(&self, at_ns: u64) {
        self.drain_until_ns.fetch_min(at_ns, Ordering::Release);
    }

    /// Bytes that this end has received, for dialects in which the receiver says when it has
    /// enough.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes that have arrived here, warm-up included.
    pub(crate) fn arrived(&self) -> u64 {
        self.received().saturating_add(self.received_warm.load(Ordering::Relaxed))
    }

    /// Whether the test was ended because it carried more than it may.
    pub(crate) fn over_budget(&self) -> bool {
        self.over_budget.load(Ordering::Relaxed)
    }

    /// Whether the test was ended because data went on after the longest time.
    pub(crate) fn over_time(&self) -> bool {
        self.over_time.load(Ordering::Relaxed)
    }

    fn is_late(&self, now_ns: u64) -> bool {
        now_ns > self.last_data_ns.load(Ordering::Relaxed)
    }

    /// Ends a test in which data came, or was about to leave, at `now_ns` after the longest time.
    #[inline]
    fn keep_time(&self, now_ns: u64) {
        if self.is_late(now_ns) {
            self.over_time.store(true, Ordering::Relaxed);
            self.stop();
            self.drain_until(0);
        }
    }

    fn add_received(&self, bytes: u64) {
        self.charge(bytes);
        self.received.fetch_add(bytes, Ordering::Relaxed);
        self.keep_budget();
    }

    fn add_received_warm(&self, bytes: u64) {
        self.charge(bytes);
        self.received_warm.fetch_add(bytes, Ordering::Relaxed);
        self.keep_budget();
    }

    fn add_sent(&self, bytes: u64) {
        self.charge(bytes);
        self.carried_away.fetch_add(bytes, Ordering::Relaxed);
        self.keep_budget();
    }

    /// From now on its bytes count towards its client's day, too.
    pub(crate) fn charge_to(&self, day: Option<DayBudget>) {
        if let Some(day) = day {
            let _ = self.day.set(day);
        }
    }

    /// Whether the test was ended because its client's day had no bytes left.
    pub(crate) fn over_day(&self) -> bool {
        self.over_day.load(Ordering::Relaxed)
    }

    /// Bytes that were carried so far, both ways, warm-up included.
    pub(crate) fn moved(&self) -> u64 {
        self.arrived().saturating_add(self.carried_away.load(Ordering::Relaxed))
    }

    #[inline]
    fn charge(&self, bytes: u64) {
        if let Some(day) = self.day.get()
            && day.charge(bytes)
        {
            self.over_day.store(true, Ordering::Relaxed);
            self.stop();
            self.drain_until(0);
        }
    }

    /// Ends the test at the first batch above the budget.
    #[inline]
    fn keep_budget(&self) {
        if let Some(most) = self.limits.bytes {
            let carried = self.arrived().saturating_add(self.carried_away.load(Ordering::Relaxed));
            if carried > most {
                self.over_budget.store(true, Ordering::Relaxed);
                self.stop();
                self.drain_until(0);
            }
        }
    }

    /// Waits until the owner's limit lets more through after `bytes` that a thread which answers has
    /// read, or is about to send (`sends`); ends with the test.
    fn keep_rate(&self, bytes: u64, sends: bool) {
        let Some([arrive, leave]) = &self.tolls else { return };
        let toll = if sends { leave } else { arrive };
        let mut now = clock::monotonic_ns();
        let until = toll.pass(bytes, now);
        while now < until && !self.stopping() {
            clock::sleep_until(until.min(now.saturating_add(LOOK_UP.as_nanos() as u64)));
            now = clock::monotonic_ns();
            self.look_after_peer(now);
        }
    }

    /// Data came at `now_ns`.
    fn hear(&self, now_ns: u64) {
        self.keep_time(now_ns);
        self.heard_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Whether data came within `limit` before now.
    pub(crate) fn heard_within(&self, limit: Duration) -> bool {
        self.silence(0) <= limit
    }

    /// How long no data has come, counted from `since_ns` of the monotonic clock at the earliest.
    pub(crate) fn silence(&self, since_ns: u64) -> Duration {
        let heard = self.heard_ns.load(Ordering::Relaxed).max(since_ns);
        Duration::from_nanos(clock::monotonic_ns().saturating_sub(heard))
    }

    fn running(&self) -> Option<u64> {
        (self.phase.load(Ordering::Acquire) == RUNNING)
            .then(|| self.start_ns.load(Ordering::Relaxed))
    }

    fn stopping(&self) -> bool {
        self.phase.load(Ordering::Acquire) == STOPPING
    }

    fn sent(&self, stream: u16) -> Option<u64> {
        let slot = self.sent.get(usize::from(stream))?;
        Some(slot.load(Ordering::Acquire)).filter(|sent| *sent != UNKNOWN)
    }

    fn drained_at(&self, now_ns: u64) -> bool {
        now_ns >= self.drain_until_ns.load(Ordering::Acquire)
    }
}

/// What [`linerate_session`] asks of a data thread.
struct Around<'a>(&'a Context);

impl Surroundings for Around<'_> {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        // 0 is "none"; a clock that reads 0 at a first arrival would be a machine just made.
        let mine = first_arrival_ns.max(1);
        let origin = &self.0.shared.origin_ns;
        match origin.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                self.0.begun();
                mine
            }
            Err(earlier) => earlier,
        }
    }

    fn thread(&self) -> ThreadUse {
        thread_use()
    }
}

struct Alone;

impl Surroundings for Alone {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        first_arrival_ns
    }

    fn thread(&self) -> ThreadUse {
        thread_use()
    }
}

/// One end of one stream.
#[derive(Debug)]
pub(crate) enum StreamSocket {
    /// Connected UDP, with the hello to answer if it comes again (server only).
    Udp(Socket, Option<UdpHello>),
    /// Connected TCP.
    Tcp(TcpStream),
}

impl StreamSocket {
    /// This end's address and the peer's.
    pub(crate) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let (local, peer) = match self {
            Self::Udp(socket, _) => {
                (socket.local_addr().ok()?.as_socket()?, socket.peer_addr().ok()?.as_socket()?)
            }
            Self::Tcp(socket) => (socket.local_addr().ok()?, socket.peer_addr().ok()?),
        };
        Some((sys::plain(local), sys::plain(peer)))
    }

    /// Congestion control of a TCP stream, whichever way it carries.
    pub(crate) fn congestion(&self) -> Option<String> {
        match self {
            Self::Tcp(tcp) => sys::congestion(tcp),
            Self::Udp(..) => None,
        }
    }
}

/// What this end does on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Send,
    Receive,
    Request,
    Respond,
}

/// A stream's number, direction and this end's role.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamId {
    /// Over both directions.
    pub(crate) stream: u16,
    /// Within its direction.
    pub(crate) index: u16,
    pub(crate) way: Way,
}

/// All streams of a plan: those of the forward direction first.
pub(crate) fn streams(direction: Direction, each: u16) -> Vec<StreamId> {
    let mut all = Vec::new();
    for way in [Way::Forward, Way::Reverse] {
        let wanted = match way {
            Way::Forward => direction.has_forward(),
            Way::Reverse => direction.has_reverse(),
        };
        if wanted {
            for index in 0..each {
                all.push(StreamId { stream: all.len() as u16, index, way });
            }
        }
    }
    all
}

/// What this end does on a stream of that way.
pub(crate) fn role(traffic: &Traffic, way: Way, is_client: bool) -> Role {
    match (traffic, is_client) {
        (Traffic::Rr(_), true) => Role::Request,
        (Traffic::Rr(_), false) => Role::Respond,
        _ if (way == Way::Forward) == is_client => Role::Send,
        _ => Role::Receive,
    }
}

/// Told by a data thread.
#[derive(Debug)]
pub(crate) enum DataEvent {
    /// The measured time has begun on a stream: it sends now, or something has arrived.
    Begun,
    /// An interval of a stream is over.
    Tick(u16, u64, Tick),
    /// An interval of a stream's warm-up is over: told in dialects whose users see the warm-up.
    Warm(u16, u64, Tick),
    /// The stream has ended.
    Done(u16, Box<Report>),
}

/// One interval of one stream.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "rows are copied, one an interval")]
pub(crate) enum Tick {
    Send(SendInterval),
    Recv(RecvInterval),
    Rr(RrInterval),
}

/// The whole of one stream.
#[derive(Debug)]
pub(crate) enum Report {
    Send(SendReport),
    Recv(RecvReport),
    Rr(RrReport),
    Respond(RespondReport),
}

/// What the senders among these sent, as the peer is told it.
pub(crate) fn sent_of(reports: &BTreeMap<u16, Report>) -> Vec<StreamSent> {
    let sent = |(stream, report): (&u16, &Report)| match report {
        Report::Send(report) => Some(StreamSent {
            stream: *stream,
            datagrams: report.counts.datagrams,
            bytes: report.counts.bytes,
            span_ns: report.span_ns,
        }),
        _ => None,
    };
    reports.iter().filter_map(sent).collect()
}

/// How long `blocks` of so many bytes last at a rate in bit/s: what leaves at once in iperf3's dialect,
/// as the time that plans have for it.
pub(crate) fn burst_time(blocks: u32, bytes: u32, rate_bps: u64) -> Nanos {
    let bits = u128::from(blocks) * u128::from(bytes) * 8;
    let ns = (bits * 1_000_000_000).div_ceil(u128::from(rate_bps.max(1)));
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX).min(limits::BURST_NS.max))
}

/// What every data thread knows.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) agreed: Arc<AgreedPlan>,
    pub(crate) ip: IpVersion,
    pub(crate) token: u64,
    /// What its datagrams begin with, and with that the dialect of the test.
    pub(crate) framing: Framing,
    /// Senders repeat the ten digits instead of random bytes.
    pub(crate) digits: bool,
    /// Datagrams or blocks that leave at once, where the user of iperf3 names a number.
    pub(crate) burst: u32,
    pub(crate) id: StreamId,
    pub(crate) role: Role,
    /// Where to run, if anywhere in particular.
    pub(crate) core: Option<u32>,
    pub(crate) events: UnboundedSender<DataEvent>,
}

impl Context {
    fn around(&self) -> Around<'_> {
        Around(self)
    }

    /// Surroundings in which no other stream has a say, for the account of a warm-up.
    fn alone(&self) -> Alone {
        Alone
    }

    /// Intervals of the measured time that are kept.
    fn intervals(&self) -> Option<u64> {
        Some(self.agreed.plan.intervals())
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

    /// Intervals of the warm-up.
    fn warm_intervals(&self) -> u64 {
        let plan = &self.agreed.plan;
        plan.warmup.0.div_ceil(plan.interval.0.max(1)).max(1)
    }

    /// Whether a sender must end at `now_ns`: it was told to, or the longest time is over.
    fn ends_sending(&self, now_ns: u64) -> bool {
        self.shared.look_after_peer(now_ns);
        // A client of iperf3 says by itself when its test ends, and may be late with it.
        if !self.is_iperf3() {
            self.shared.keep_time(now_ns);
        }
        self.shared.stopping() || self.shared.is_late(now_ns)
    }

    fn is_iperf3(&self) -> bool {
        matches!(self.framing, Framing::Iperf3 { .. })
    }

    /// What senders fill their buffer with, block after block of `each` bytes: digits, as iperf3's
    /// users may ask, or bytes that do not compress. Never the peer's own.
    fn payload(&self, bytes: usize, each: usize) -> Vec<u8> {
        if !self.digits {
            return incompressible(bytes, self.token);
        }
        let each = each.max(1);
        (0..bytes).map(|i| b'0' + (i % each % 10) as u8).collect()
    }

    /// Sets what the plan asks of any data socket.
    fn prepare(&self, socket: &impl std::os::fd::AsFd, default: Option<Buffers>) {
        let plan = &self.agreed.plan;
        let send = plan.window.or(default.map(|d| d.send));
        let receive = plan.window.or(default.map(|d| d.receive));
        // The default is this end's own choice, and bounded by itself.
        let most_forced = plan.window.and(self.shared.limits.window);
        sys::set_buffers(socket, send, receive, most_forced);
        if let Some(dscp) = plan.dscp {
            let _ = sys::set_dscp(socket, self.ip == IpVersion::V6, dscp);
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

/// Starts the thread of one stream.
///
/// # Errors
/// When the system has no thread to give.
pub(crate) fn spawn(context: Context, socket: StreamSocket) -> std::io::Result<JoinHandle<()>> {
    let name = format!("{:?}-{}", context.role, context.id.stream).to_lowercase();
    std::thread::Builder::new().name(name).stack_size(256 * 1024).spawn(move || {
        if let Some(core) = context.core {
            // Placement is a wish: a core that has gone away must not end the test.
            let _ = clock::pin_to(core);
        }
        clock::wake_precisely();
        let report = match (context.role, socket) {
            (Role::Send, StreamSocket::Udp(socket, hello)) => {
                Report::Send(udp_send::run(&context, &socket, hello))
            }
            (Role::Receive, StreamSocket::Udp(socket, hello)) => {
                Report::Recv(udp_recv::run(&context, &socket, hello))
            }
            (Role::Send, StreamSocket::Tcp(socket)) => Report::Send(tcp::send(&context, &socket)),
            (Role::Receive, StreamSocket::Tcp(socket)) => {
                Report::Recv(tcp::receive(&context, &socket))
            }
            (Role::Request, socket) => Report::Rr(rr::request(&context, &socket)),
            (Role::Respond, socket) => Report::Respond(rr::respond(&context, &socket)),
        };
        let _ = context.events.send(DataEvent::Done(context.id.stream, Box::new(report)));
    })
}

/// Answers a client's hello that came again because the first answer was lost.
fn answer_again(socket: &Socket, hello: Option<UdpHello>, datagram: &[u8]) -> bool {
    let Some(ours) = hello else { return false };
    if UdpHello::decode(datagram) != Some(ours) {
        return false;
    }
    let ack =
        linerate_wire::native::stream::UdpHelloAck { token: ours.0.token, stream: ours.0.stream };
    let _ = socket.send(&ack.encode());
    true
}

/// Sets what a plan asks of a TCP socket, as far as an established one still takes it.
pub(crate) fn prepare_tcp(
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

/// The TCP options of a plan.
pub(crate) fn tcp_options(
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
