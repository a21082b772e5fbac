//! Threads that send and receive bytes over TCP.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use linerate_dialect::habits::Tells;
use linerate_engine::stream::{BlockReader, BlockWriter};
use linerate_engine::{clock, sys};
use linerate_model::plan::{TcpPlan, Traffic};
use linerate_model::sample::{RecvReport, SendReport, TcpSample, ToldTcp};
use linerate_session::pacer::{Pace, Pacer};
use linerate_session::receiver::ByteReceiver;
use linerate_session::sender::{Quota, Sender};
use linerate_wire::nuttcp::block::{self, Said};

use super::{Context, HARD_END_NS, LOOK_UP, Tick, thread_use, thread_use_at, wait_for_start};

pub(super) fn send(context: &Context, socket: &TcpStream) -> SendReport {
    let plan = &context.streams.agreed.plan;
    let Traffic::Tcp(tcp) = &plan.traffic else { return SendReport::default() };
    let started = wait_for_start(context, || std::thread::sleep(LOOK_UP / 4));
    let Some((start_ns, thread)) = started else { return SendReport::default() };
    let _ = socket.set_write_timeout(Some(LOOK_UP * 5));
    let mut telling = Telling::new(context.streams.habits.tells);
    let mut writer = match written(context, tcp) {
        Ok(writer) => writer,
        Err(e) => {
            let error = Some(format!("cannot make a block in memory to send from: {e}"));
            return SendReport { error, ..SendReport::default() };
        }
    };
    let around = context.around();
    let mut account = Sender::new(plan.interval.0, context.intervals());
    clock::sleep_until(start_ns);
    let mut error = None;
    let measured_ns = start_ns.saturating_add(plan.warmup.0);
    let mut paced = Paced::new(context);
    let warmup =
        warm_up(context, socket, &mut writer, (start_ns, measured_ns), &mut paced, &mut error);
    let bytes_wanted = Quota::bytes(plan, context.id.index);
    let until_ns = plan.duration().map(|d| d.0);
    let base = sys::tcp_sample(socket).unwrap_or_default();
    let mut before = base;
    context.begun();
    account.begin(thread_use_at(measured_ns, thread));
    let mut reported = 0;
    while error.is_none() {
        let now = clock::monotonic_ns().saturating_sub(measured_ns);
        if account.is_due(now) {
            account.roll(now, row(socket, &mut before), &around);
            while let Some(interval) = account.intervals().get(reported) {
                context.tick(reported, Tick::Send(*interval));
                reported += 1;
            }
        }
        if context.ends_sending(now.saturating_add(measured_ns))
            || until_ns.is_some_and(|until| now >= until)
        {
            break;
        }
        let most = match bytes_wanted {
            Some(wanted) => match wanted.saturating_sub(account.bytes()) {
                0 => break,
                left => usize::try_from(left).unwrap_or(usize::MAX),
            },
            None => usize::MAX,
        };
        let next = until_ns.unwrap_or(u64::MAX).min(account.next_boundary_ns());
        let Some(room) = paced.most(now + measured_ns, measured_ns.saturating_add(next)) else {
            continue;
        };
        let most = most.min(room);
        if let Some(telling) = &mut telling {
            telling.mark(&mut writer, now, || sys::tcp_sample(socket));
        }
        match writer.write(socket, most) {
            Ok(bytes) => {
                account.on_sent(now, 0, bytes as u64, None);
                context.shared.add_sent(bytes as u64);
                paced.sent(bytes as u64);
            }
            Err(e) if passing(e.kind()) => {}
            // Its clients close their streams once the test is over.
            Err(_) if context.streams.habits.streams_outlive && context.shared.stopping() => break,
            Err(e) => error = Some(format!("sending failed: {e}")),
        }
    }
    // Once the client has ended the test, it counts no more.
    let counts = !context.shared.stopping();
    if context.streams.habits.whole_blocks && error.is_none() && counts {
        finish_block(context, socket, &mut writer, tcp.block, warmup, &mut account, measured_ns);
    }
    let span_ns = paced.ended_ns(context, clock::monotonic_ns()).saturating_sub(measured_ns);
    let last_row = row(socket, &mut before);
    let tcp = last_row.map(|_| before.grown_since(&base));
    let mut acknowledged_ns = None;
    if context.streams.habits.streams_outlive {
        // Its receivers count until they hear of the end, which must come after the data.
        if counts {
            let at_ns = wait_until_acknowledged(context, socket);
            acknowledged_ns = Some(at_ns.saturating_sub(measured_ns));
        }
    } else {
        // The receiver reads until here; what is still in the buffers arrives there.
        let _ = socket.shutdown(Shutdown::Write);
    }
    let congestion = sys::congestion(socket);
    let report = account.finish(span_ns, last_row, &around);
    SendReport {
        warmup,
        acknowledged_ns,
        engines: vec![if self::is_zerocopy(&writer) { "sendfile" } else { "write" }.to_owned()],
        send_buffer: sys::send_buffer(socket),
        congestion,
        tcp,
        gaps: None,
        lateness: None,
        error,
        ..report
    }
}

pub(super) fn receive(context: &Context, socket: &TcpStream) -> RecvReport {
    let plan = &context.streams.agreed.plan;
    let Traffic::Tcp(tcp) = &plan.traffic else { return RecvReport::default() };
    let _ = socket.set_read_timeout(Some(LOOK_UP));
    let mut reader = BlockReader::new(tcp.block as usize, tcp.discard);
    let mut blocks = (context.streams.habits.tells != Tells::Nothing && !tcp.discard)
        .then(|| block::Reader::new(tcp.block as usize));
    let around = context.around();
    let by_time = context.streams.habits.warm_by_time;
    let warm_ns = if by_time { 0 } else { plan.warmup.0 };
    let mut account = ByteReceiver::new(plan.interval.0, context.intervals(), warm_ns);
    // It begins for all with the test and not with a stream's first byte.
    let mut warmup = (by_time && plan.warmup.0 > 0)
        .then(|| ByteReceiver::new(plan.interval.0, Some(context.warm_intervals()), 0));
    let outlives = context.streams.habits.streams_outlive;
    let mut warmed = RecvReport::default();
    let mut warm_reported = 0;
    let mut reported = 0;
    let mut error = None;
    loop {
        if context.streams.habits.measured_from_start
            && let Some(start) = context.shared.running()
        {
            let measured = start.saturating_add(plan.warmup.0);
            match warmup.take() {
                Some(mut warm) if clock::monotonic_ns() < measured => {
                    warm.begin_at(start, &context.alone());
                    while let Some(interval) = warm.intervals().get(warm_reported) {
                        context.warm_tick(warm_reported, Tick::Recv(*interval));
                        warm_reported += 1;
                    }
                    warmup = Some(warm);
                }
                Some(warm) => {
                    warmed = warm.finish(&context.alone());
                    for (index, row) in warmed.intervals.iter().enumerate().skip(warm_reported) {
                        context.warm_tick(index, Tick::Recv(*row));
                    }
                    account.begin_at(measured, &around);
                }
                None => account.begin_at(measured, &around),
            }
        }
        match reader.read(socket) {
            Ok(0) => break,
            Ok(bytes) => {
                let now = clock::monotonic_ns();
                context.shared.hear(now);
                match &mut warmup {
                    Some(warm) => {
                        warm.on_bytes(bytes as u64, now, &context.alone());
                        context.shared.add_received_warm(bytes as u64);
                    }
                    None => {
                        account.on_bytes(bytes as u64, now, &around);
                        context.shared.add_received(bytes as u64);
                    }
                }
                let said = blocks.as_mut().and_then(|blocks| blocks.read(reader.last(bytes)));
                if let Some(said) = said {
                    account.on_told(told(said));
                }
                if outlives
                    && context
                        .shared
                        .sent(context.id.stream)
                        .is_some_and(|all| account.bytes() >= all)
                {
                    break;
                }
                // A stream that goes on long after its end was due must not hold the test.
                if context.shared.drained_at(now.saturating_sub(HARD_END_NS)) {
                    error = Some("the stream did not end by itself".to_owned());
                    break;
                }
            }
            Err(e) if passing(e.kind()) => {
                let now = clock::monotonic_ns();
                match &mut warmup {
                    Some(warm) => warm.on_idle(now, &context.alone()),
                    None => account.on_idle(now, &around),
                }
                if outlives
                    && context
                        .shared
                        .sent(context.id.stream)
                        .is_some_and(|all| account.bytes() >= all)
                {
                    break;
                }
                context.shared.look_after_peer(now);
                if context.shared.drained_at(now) {
                    if !outlives {
                        error = Some("the stream did not end by itself".to_owned());
                    }
                    break;
                }
            }
            // iperf3 closes its data connections at the end of a test, unread bytes or not.
            Err(_) if outlives && context.shared.stopping() => break,
            Err(e) => {
                error = Some(format!("receiving failed: {e}"));
                break;
            }
        }
        while let Some(interval) = account.intervals().get(reported) {
            context.tick(reported, Tick::Recv(*interval));
            reported += 1;
        }
    }
    RecvReport {
        engine: if tcp.discard { "discard" } else { "read" }.to_owned(),
        receive_buffer: sys::receive_buffer(socket),
        error,
        ..finished(account.finish(&around), &warmed)
    }
}

/// The report of a receiver whose warm-up had an account of its own.
fn finished(report: RecvReport, warmed: &RecvReport) -> RecvReport {
    RecvReport { warmup: report.warmup.saturating_add(warmed.counts.bytes), ..report }
}

/// What is written, block after block.
fn written(context: &Context, tcp: &TcpPlan) -> std::io::Result<BlockWriter> {
    let (habits, bytes) = (&context.streams.habits, tcp.block as usize);
    let block = if habits.whole_blocks { context.payload(bytes, bytes) } else { vec![0x5a; bytes] };
    match habits.tells {
        Tells::Nothing => BlockWriter::new(block, tcp.zerocopy),
        Tells::Retransmits | Tells::Window => Ok(BlockWriter::whole(block)),
    }
}

/// Says in each block how its connection fares, as far as its receiver hears it.
struct Telling {
    window: bool,
    /// No block has gone.
    first: bool,
    /// When the kernel is asked again, since the start.
    again_ns: u64,
}

/// What blocks say is so old at most, in nanoseconds: far less than any interval, and seldom enough to cost nothing.
const TOLD_EVERY_NS: u64 = 5_000_000;

impl Telling {
    fn new(tells: Tells) -> Option<Self> {
        let window = tells == Tells::Window;
        (tells != Tells::Nothing).then_some(Self { window, first: true, again_ns: 0 })
    }

    #[inline]
    fn mark(
        &mut self,
        writer: &mut BlockWriter,
        now_ns: u64,
        sample: impl FnOnce() -> Option<TcpSample>,
    ) {
        let Some(bytes) = writer.fresh() else { return };
        if std::mem::take(&mut self.first) {
            return block::write_first(bytes);
        }
        if now_ns < self.again_ns {
            return;
        }
        self.again_ns = now_ns.saturating_add(TOLD_EVERY_NS);
        let Some(tcp) = sample() else { return };
        let short = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let window_kb = tcp.cwnd_bytes.filter(|_| self.window).map(|bytes| short(bytes / 1_024));
        let retransmits = short(tcp.retransmits.unwrap_or(0));
        block::write(Said { retransmits, window_kb }, bytes);
    }
}

fn told(said: Said) -> ToldTcp {
    let cwnd_bytes = said.window_kb.map(|kb| u64::from(kb) * 1_024);
    ToldTcp { retransmits: said.retransmits.into(), cwnd_bytes }
}

/// Blocks at the asked rate, where it is this end's to keep (iperf3's): the kernel's own pacing takes
/// a whole send buffer at once, which would show as a rate that was never on the wire.
struct Paced {
    pacer: Option<Pacer>,
    block: u64,
    /// Bytes of the block that was begun.
    part: u64,
    begun_ns: Option<u64>,
    /// End of the last write.
    last_ns: u64,
}

/// Longest sleep, so that a stop is noticed, in nanoseconds.
const NAP_NS: u64 = 20_000_000;

impl Paced {
    fn new(context: &Context) -> Self {
        let plan = &context.streams.agreed.plan;
        let (mut pacer, mut block) = (None, 1);
        if let (Traffic::Tcp(tcp), true) = (&plan.traffic, context.streams.habits.whole_blocks) {
            block = u64::from(tcp.block.max(1));
            pacer = tcp.rate.and_then(|rate| {
                let bits = rate.bits_per_second();
                Pacer::new(bits, block * 8, context.id.index, plan.streams, 1, 1_000_000)
                    .map(|pacer| pacer.in_bursts(context.streams.burst.into()))
            });
        }
        Self { pacer, block, part: 0, begun_ns: None, last_ns: 0 }
    }

    /// Most bytes to write at `now_ns`; `None` when nothing was due, after a wait that ends at
    /// `until_ns` at the latest.
    fn most(&mut self, now_ns: u64, until_ns: u64) -> Option<usize> {
        let Some(pacer) = &mut self.pacer else { return Some(usize::MAX) };
        let begun = *self.begun_ns.get_or_insert(now_ns);
        let left = usize::try_from(self.block - self.part).unwrap_or(usize::MAX);
        if self.part > 0 {
            return Some(left);
        }
        match pacer.next(now_ns.saturating_sub(begun)) {
            Pace::Send { .. } => Some(left),
            Pace::WaitUntil(at) => {
                let at = begun.saturating_add(at).min(until_ns).min(now_ns.saturating_add(NAP_NS));
                clock::sleep_until(at);
                None
            }
        }
    }

    /// The end of sending that was noticed at `now_ns`: a thread that waits for its next block sees later
    /// that it was stopped.
    fn ended_ns(&self, context: &Context, now_ns: u64) -> u64 {
        match (&self.pacer, context.shared.stopped_ns()) {
            (Some(_), Some(stopped)) if self.part == 0 => stopped.max(self.last_ns).min(now_ns),
            _ => now_ns,
        }
    }

    fn sent(&mut self, bytes: u64) {
        let Some(pacer) = &mut self.pacer else { return };
        self.part += bytes;
        self.last_ns = clock::monotonic_ns();
        if self.part >= self.block {
            self.part = 0;
            let begun = self.begun_ns.unwrap_or(0);
            pacer.taken(1, self.last_ns.saturating_sub(begun));
        }
    }
}

/// Sends until the measured time begins; returns the bytes.
fn warm_up(
    context: &Context,
    socket: &TcpStream,
    writer: &mut BlockWriter,
    (start_ns, measured_ns): (u64, u64),
    paced: &mut Paced,
    error: &mut Option<String>,
) -> u64 {
    if measured_ns == start_ns {
        return 0;
    }
    let around = context.around();
    let interval = context.streams.agreed.plan.interval.0;
    let mut account = Sender::new(interval, Some(context.warm_intervals()));
    let mut before = sys::tcp_sample(socket).unwrap_or_default();
    account.begin(thread_use());
    let mut reported = 0;
    while error.is_none() && !context.shared.stopping() {
        let now = clock::monotonic_ns();
        if now >= measured_ns {
            break;
        }
        context.shared.look_after_peer(now);
        let now = now.saturating_sub(start_ns);
        if account.is_due(now) {
            account.roll(now, row(socket, &mut before), &around);
        }
        let Some(most) = paced.most(now + start_ns, measured_ns) else { continue };
        match writer.write(socket, most) {
            Ok(bytes) => {
                account.on_sent(now, 0, bytes as u64, None);
                context.shared.add_sent(bytes as u64);
                paced.sent(bytes as u64);
            }
            Err(e) if passing(e.kind()) => {}
            Err(_) if context.streams.habits.streams_outlive && context.shared.stopping() => break,
            Err(e) => *error = Some(format!("sending failed: {e}")),
        }
        while let Some(row) =
            account.intervals().get(reported).filter(|_| context.streams.habits.warm_by_time)
        {
            context.warm_tick(reported, Tick::Send(*row));
            reported += 1;
        }
    }
    let bytes = account.bytes();
    if context.streams.habits.warm_by_time {
        let last_row = row(socket, &mut before);
        let report = account.finish(measured_ns - start_ns, last_row, &around);
        for (index, row) in report.intervals.iter().enumerate().skip(reported) {
            context.warm_tick(index, Tick::Send(*row));
        }
    }
    bytes
}

/// How long a stream may take to send what it has begun, in nanoseconds.
const LAST_BLOCK_NS: u64 = 2_000_000_000;

/// Receivers of iperf3 3.16 and later count whole blocks only: ends the one that was begun.
fn finish_block(
    context: &Context,
    socket: &TcpStream,
    writer: &mut BlockWriter,
    block: u32,
    warmup: u64,
    account: &mut Sender,
    measured_ns: u64,
) {
    let block = u64::from(block.max(1));
    let until = clock::monotonic_ns().saturating_add(LAST_BLOCK_NS);
    loop {
        let part = (warmup + account.bytes()) % block;
        let now = clock::monotonic_ns();
        if part == 0 || now >= until || context.shared.drained_at(now) {
            return;
        }
        match writer.write(socket, (block - part) as usize) {
            Ok(bytes) => {
                account.on_sent(now.saturating_sub(measured_ns), 0, bytes as u64, None);
                context.shared.add_sent(bytes as u64);
            }
            Err(e) if passing(e.kind()) => {}
            Err(_) => return,
        }
    }
}

/// Waits until the peer's kernel has everything, or the test is over all the same. Returns when it had
/// all but what it may leave unacknowledged for a while.
fn wait_until_acknowledged(context: &Context, socket: &TcpStream) -> u64 {
    let until = clock::monotonic_ns().saturating_add(MOST_UNACKNOWLEDGED_NS);
    // Its end is the end of the receiving time: a short test is not rounded up to a long look.
    let mut pause = FIRST_PAUSE;
    let mut had_ns = None;
    loop {
        let now = clock::monotonic_ns();
        let sample = sys::tcp_sample(socket).unwrap_or_default();
        let left = sample.unsent_bytes.unwrap_or(0);
        if left <= sample.mss_bytes.unwrap_or(0).saturating_mul(DELAYED_SEGMENTS) {
            had_ns.get_or_insert(now);
        }
        if left == 0 || now >= until || context.shared.drained_at(now) {
            return had_ns.unwrap_or(now);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LOOK_UP / 20);
    }
}

/// A receiver may keep back its acknowledgement of so many segments, for 40 ms and more (RFC 1122, 4.2.3.2).
const DELAYED_SEGMENTS: u64 = 2;
/// First pause between looks at what is acknowledged; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// A full send buffer over a slow path takes this long at most, in nanoseconds.
const MOST_UNACKNOWLEDGED_NS: u64 = 10_000_000_000;

fn is_zerocopy(writer: &BlockWriter) -> bool {
    matches!(writer, BlockWriter::Sendfile { .. })
}

fn passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The kernel's state now, with what its counters gained since the row before: the rows add up to the
/// whole.
fn row(socket: &TcpStream, before: &mut TcpSample) -> Option<TcpSample> {
    let now = sys::tcp_sample(socket)?;
    Some(now.grown_since(&std::mem::replace(before, now)))
}
