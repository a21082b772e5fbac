//! Threads that send and receive bytes over TCP.

mod blocks;

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use linerate_dialect::habits::BlockReport;
use linerate_engine::stream::{BlockReader, BlockWriter};
use linerate_engine::{clock, sys};
use linerate_model::plan::{TcpPlan, Traffic, share};
use linerate_model::sample::{RecvReport, SendReport, TcpSample};
use linerate_session::flow::{BlockPacer, BytesIn, BytesOut};
use linerate_session::receive_batching::StreamBatching;

use self::blocks::{BlockReporter, Blocks};
use super::throttle::Followed;
use super::{Context, HARD_END_NS, LOOK_UP, Tick, thread_use, thread_use_at, wait_for_start};

pub(super) fn send(context: &Context, socket: &TcpStream) -> SendReport {
    let plan = &context.streams.agreed.plan;
    let Traffic::Tcp(tcp) = &plan.traffic else { return SendReport::default() };
    let habits = &context.streams.habits;
    let started = wait_for_start(context, || std::thread::sleep(LOOK_UP / 4));
    let Some((start_ns, thread)) = started else { return SendReport::default() };
    let _ = socket.set_write_timeout(Some(LOOK_UP * 5));
    let writer = match written(context, tcp) {
        Ok(writer) => writer,
        Err(e) => {
            let error = Some(format!("cannot make a block in memory to send from: {e}"));
            return SendReport { error, ..SendReport::default() };
        }
    };
    let paced = BlockPacer::new(plan, *habits, context.id.index, context.streams.burst);
    let followed = Followed::new(context.shared.throttle());
    let mut stream = Stream { context, socket, writer, paced, followed, error: None };
    let around = context.around();
    let mut flow = BytesOut::measured(plan, context.id.index, context.intervals());
    clock::sleep_until(start_ns);
    let measured_ns = start_ns.saturating_add(plan.warmup.0);
    let warmup = if plan.warmup.0 > 0 { stream.warm_up(start_ns) } else { 0 };
    let base = sys::tcp_sample(socket).unwrap_or_default();
    let mut before = base;
    context.begun();
    stream.followed.begin();
    flow.begin(thread_use_at(measured_ns, thread));
    let reporter = BlockReporter::new(habits.block_report);
    stream.drive(&mut flow, measured_ns, &mut before, reporter, |index, tick| {
        context.tick(index, tick);
    });
    // Once the client has ended the test, it counts no more.
    let counts = !context.shared.stopping();
    if habits.whole_blocks && stream.error.is_none() && counts {
        stream.finish_block(tcp.block, warmup, &mut flow, measured_ns);
    }
    let Stream { writer, paced, followed, error, .. } = stream;
    if followed.is_turned() {
        // What was in the buffer when the rate was turned down would go on for long after the end.
        let _ = sys::set_pacing_rate(socket, u64::MAX);
    }
    let stopped_ns = context.shared.stopped_ns();
    let ended_ns = paced.ended_ns(stopped_ns, clock::monotonic_ns());
    let span_ns = ended_ns.saturating_sub(measured_ns);
    let last_row = row(socket, &mut before);
    let tcp = last_row.map(|_| before.grown_since(&base));
    let mut acknowledged_ns = None;
    if habits.streams_outlive {
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
    let report = flow.finish(span_ns, last_row, &around);
    SendReport {
        warmup,
        acknowledged_ns,
        engines: vec![if self::is_zerocopy(&writer) { "sendfile" } else { "write" }.to_owned()],
        send_buffer: sys::send_buffer(socket),
        congestion,
        tcp,
        gaps: None,
        lateness: None,
        rate_changes: followed.changes,
        error,
        ..report
    }
}

pub(super) fn receive(context: &Context, socket: &TcpStream) -> RecvReport {
    let plan = &context.streams.agreed.plan;
    let Traffic::Tcp(tcp) = &plan.traffic else { return RecvReport::default() };
    let _ = socket.set_read_timeout(Some(LOOK_UP));
    let mut reader = BlockReader::new(tcp.block as usize, tcp.discard);
    let mut blocks = Blocks::new(context.streams.habits.block_report, tcp);
    let around = context.around();
    let mut flow = BytesIn::new(plan, context.streams.habits, context.intervals());
    let outlives = context.streams.habits.streams_outlive;
    let all_came =
        |flow: &BytesIn| outlives && flow.is_complete(context.shared.sent(context.id.stream));
    let timed = matches!(context.streams.habits.block_report, BlockReport::Times(_));
    let mut batching = StreamBatching::new(!timed);
    let mut error = None;
    loop {
        if flow.begins_with_test()
            && let Some(start) = context.shared.running()
        {
            flow.begin(start, clock::monotonic_ns(), &around);
        }
        match reader.read(socket) {
            Ok(0) => break,
            Ok(bytes) => {
                let now = clock::monotonic_ns();
                context.shared.hear(now);
                context.shared.look_after_peer(now);
                if flow.on_bytes(bytes as u64, now, &around) {
                    context.shared.add_received_warm(bytes as u64);
                } else {
                    context.shared.add_received(bytes as u64);
                }
                blocks.read(reader.last(bytes), now, &mut flow);
                if all_came(&flow) {
                    break;
                }
                // A stream that goes on long after its end was due must not hold the test.
                if context.shared.drained_at(now.saturating_sub(HARD_END_NS)) {
                    error = Some("the stream did not end by itself".to_owned());
                    break;
                }
                let is_full = bytes >= tcp.block as usize;
                let buffer = || sys::receive_buffer(socket);
                if let Some(until) = batching.after_read(now, bytes as u64, is_full, buffer) {
                    clock::sleep_until(until);
                }
            }
            Err(e) if passing(e.kind()) => {
                let now = clock::monotonic_ns();
                flow.on_idle(now, &around);
                if all_came(&flow) {
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
        while let Some(row) = flow.row() {
            context.recv_tick(row);
        }
    }
    flow.end_warmup(&around);
    while let Some(row) = flow.row() {
        context.recv_tick(row);
    }
    RecvReport {
        engine: reader.name().to_owned(),
        receive_buffer: sys::receive_buffer(socket),
        error,
        ..flow.finish(&around)
    }
}

/// What is written, block after block.
fn written(context: &Context, tcp: &TcpPlan) -> std::io::Result<BlockWriter> {
    let (habits, bytes) = (&context.streams.habits, tcp.block as usize);
    let block = if habits.whole_blocks { context.payload(bytes, bytes) } else { vec![0x5a; bytes] };
    match habits.block_report {
        BlockReport::Nothing => BlockWriter::new(block, tcp.zerocopy),
        BlockReport::Retransmits | BlockReport::Window | BlockReport::Times(_) => {
            Ok(BlockWriter::whole(block))
        }
    }
}

/// Longest sleep, so that a stop is noticed, in nanoseconds.
const NAP_NS: u64 = 20_000_000;
/// How long a stream may take to send what it has begun, in nanoseconds.
const LAST_BLOCK_NS: u64 = 2_000_000_000;

/// A stream that sends.
struct Stream<'a> {
    context: &'a Context,
    socket: &'a TcpStream,
    writer: BlockWriter,
    paced: BlockPacer,
    followed: Followed<'a>,
    error: Option<String>,
}

impl Stream<'_> {
    /// Sends until the measured time begins; returns the bytes.
    fn warm_up(&mut self, start_ns: u64) -> u64 {
        let context = self.context;
        let plan = &context.streams.agreed.plan;
        let shown = context.streams.habits.warm_by_time;
        let mut flow = BytesOut::warmup(plan);
        let mut before = sys::tcp_sample(self.socket).unwrap_or_default();
        flow.begin(thread_use());
        self.drive(&mut flow, start_ns, &mut before, None, |index, tick| {
            if shown {
                context.warm_tick(index, tick);
            }
        });
        let bytes = flow.bytes();
        if shown {
            let last_row = row(self.socket, &mut before);
            let rows = flow.finish(plan.warmup.0, last_row, &context.around()).intervals;
            if let Some(last) = rows.last() {
                context.warm_tick(rows.len() - 1, Tick::Send(*last));
            }
        }
        bytes
    }

    /// Sends until its time is up, all has gone, or the test ends.
    fn drive(
        &mut self,
        flow: &mut BytesOut,
        start_ns: u64,
        before: &mut TcpSample,
        mut reporter: Option<BlockReporter>,
        on_tick: impl Fn(usize, Tick),
    ) {
        let (context, socket) = (self.context, self.socket);
        while self.error.is_none() {
            let at_ns = clock::monotonic_ns();
            let now = at_ns.saturating_sub(start_ns);
            flow.look(now, || row(socket, before), &context.around());
            while let Some((index, row)) = flow.row() {
                on_tick(index, Tick::Send(row));
            }
            // In this order: what ends in time is not late.
            let Some(most) = flow.most(now) else { break };
            if context.ends_sending(at_ns) {
                break;
            }
            if let Some(chosen) = self.followed.turned() {
                self.turn(chosen);
                self.followed.note(now);
            }
            let room = match self.paced.most(at_ns) {
                Ok(room) => most.min(room),
                Err(due_ns) => {
                    let next = start_ns.saturating_add(flow.next_end_ns());
                    clock::sleep_until(due_ns.min(next).min(at_ns.saturating_add(NAP_NS)));
                    continue;
                }
            };
            if let Some(reporter) = &mut reporter {
                reporter.mark(&mut self.writer, (at_ns, now), || sys::tcp_sample(socket));
            }
            match self.writer.write(socket, usize::try_from(room).unwrap_or(usize::MAX)) {
                Ok(bytes) => {
                    flow.on_sent(bytes as u64, now);
                    context.shared.add_sent(bytes as u64);
                    self.paced.sent(bytes as u64, clock::monotonic_ns);
                }
                Err(e) if passing(e.kind()) => {}
                // Its clients close their streams once the test is over.
                Err(_) if context.streams.habits.streams_outlive && context.shared.stopping() => {
                    break;
                }
                Err(e) => self.error = Some(format!("sending failed: {e}")),
            }
        }
    }

    /// Somebody chose another rate, in bit/s over all streams.
    #[cold]
    fn turn(&mut self, chosen: u64) {
        if !self.paced.turn(chosen) {
            let (streams, index) =
                (self.context.streams.agreed.plan.streams, self.context.id.index);
            // A kernel that cannot shows in the rate.
            let _ = sys::pace(self.socket, share(chosen, streams, index));
        }
    }

    /// Receivers of iperf3 3.16 and later count whole blocks only: ends the one that was begun.
    fn finish_block(&mut self, block: u32, warmup: u64, flow: &mut BytesOut, measured_ns: u64) {
        let block = u64::from(block.max(1));
        let until = clock::monotonic_ns().saturating_add(LAST_BLOCK_NS);
        loop {
            let part = (warmup + flow.bytes()) % block;
            let now = clock::monotonic_ns();
            let ends = now >= until || self.context.shared.is_late(now);
            if part == 0 || ends || self.context.shared.drained_at(now) {
                return;
            }
            match self.writer.write(self.socket, (block - part) as usize) {
                Ok(bytes) => {
                    flow.on_sent(bytes as u64, now.saturating_sub(measured_ns));
                    self.context.shared.add_sent(bytes as u64);
                }
                Err(e) if passing(e.kind()) => {}
                Err(_) => return,
            }
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

#[cfg(test)]
mod tests {
    use linerate_model::plan::Direction;
    use linerate_testkit::plans;
    use tokio::sync::mpsc;

    use super::*;
    use crate::alone::{of_an_hour, pair};
    use crate::{Limits, Role, Shared, streams};

    #[test]
    fn no_block_is_ended_after_the_owners_longest_time() {
        let of = of_an_hour(Traffic::Tcp(plans::tcp()), Direction::Forward);
        let plan = &of.agreed.plan;
        let shared = Shared::within(Limits { span_ns: Some(1), ..Limits::default() }, 1);
        // So long ago that no data leaves any more.
        shared.start(0);
        let (events, _reported) = mpsc::unbounded_channel();
        let id = streams(plan.direction, 1)[0];
        let context = of.context((id, Role::Send), &shared, &events);
        let (near, _far) = pair();
        let mut stream = Stream {
            context: &context,
            socket: &near,
            writer: written(&context, &plans::tcp()).unwrap(),
            paced: BlockPacer::new(plan, of.habits, 0, 0),
            followed: Followed::new(None),
            error: None,
        };
        let mut flow = BytesOut::measured(plan, 0, None);
        flow.begin(thread_use());
        flow.on_sent(1, 0);
        stream.finish_block(1_000, 0, &mut flow, 0);
        assert_eq!(flow.bytes(), 1);
    }
}
