//! A thread that sends datagrams.

use std::io::{self, ErrorKind};

use linerate_engine::clock;
use linerate_engine::datagram::{self, DatagramPort, Duty, Ladder, SendBatch, local_errno};
use linerate_model::local_errors::{Errno, LocalSendErrors};
use linerate_model::plan::{Traffic, UdpPlan};
use linerate_model::sample::{SendReport, ThreadUse};
use linerate_model::units::{BitRate, Rate};
use linerate_session::engine_choice::{self, Reach, Shape};
use linerate_session::flow::{Call, Next, Outgoing, warm_intervals};
use linerate_session::pacer::Pacer;
use linerate_session::sender::{Quota, Sender};
use linerate_wire::framing::Batch;
use linerate_wire::native::stream::{HELLO_BYTES, UdpHello};

use super::throttle::Followed;
use super::wait::Waiter;
use super::{Context, Tick, answer_again, is_hello_again, thread_use_at, wait_for_start};

/// Errors in a row that end a stream, of those that do not say that this host dropped a datagram.
const MOST_ERRORS: u32 = 1_000;
/// Answers that a datagram was too large, in a row. The first few report a smaller MTU on the path; the
/// kernel knows it from then on and sends fragments.
const MOST_TOO_LARGE: u32 = 20;
/// So many in a row are answers to earlier datagrams (a closed port answers each sender once a while)
/// and no reason to pause.
const PASSING_ERRORS: u32 = 3;
/// Pause after a refusal without pacing, so that the queue that was full can drain.
const AFTER_REFUSAL_NS: u64 = 50_000;
/// Pause after refusals in a row that have another reason than a full queue: a route or an interface
/// that is gone, a packet filter. No datagram is late by it, and no core is busy with failing.
const AFTER_FAILURE_NS: u64 = 1_000_000;
/// Who is held back by the owner's limit looks so often whether the test has ended, in nanoseconds.
const HOLD_NS: u64 = 20_000_000;
/// A stream that got nothing out for so long ends, if it has no end by time or got nothing out ever.
const GIVE_UP_NS: u64 = 10_000_000_000;

pub(super) fn run(context: &Context, at: datagram::Context, hello: Option<UdpHello>) -> SendReport {
    let plan = &context.streams.agreed.plan;
    let Traffic::Udp(udp) = &plan.traffic else { return SendReport::default() };
    let buffers = engine_choice::buffers(udp, plan.streams);
    let config = context.port(Duty::Send, udp.size.len().max(HELLO_BYTES), Some(buffers));
    let first = engine_choice::sending(udp, context.streams.ip, plan.streams);
    let mut engines = Ladder::new(first, config, at);
    let mut port = match engines.open() {
        Ok(port) => port,
        Err(e) => return SendReport { error: Some(e.to_string()), ..SendReport::default() },
    };
    let started = wait_for_start(context, || {
        let again = port.recv().is_ok_and(|arrivals| {
            arrivals.messages().any(|message| is_hello_again(hello, message.bytes))
        });
        if again {
            context.shared.add_received_apart(HELLO_BYTES as u64);
            answer_again(context, &mut *port, hello);
        }
    });
    let Some((start_ns, thread)) = started else { return SendReport::default() };
    let shape = engine_choice::shape(udp, context.streams.ip, plan.streams, reach(&*port));
    let mut stream = Stream {
        context,
        thread,
        udp: udp.clone(),
        followed: Followed::new(context.shared.throttle()),
        port,
        engines,
        shape,
        buffer: context.payload(udp.size.len() * shape.batch + 64, udp.size.len()),
        waiter: Waiter::default(),
        errors: 0,
        failures: 0,
        failing_since_ns: None,
        first_number: 0,
    };
    let warmup = if plan.warmup.0 > 0 {
        let quota = Quota { until_ns: Some(plan.warmup.0), full: None, tail: [0; 2] };
        // A phase with its own counters, and its own numbers where they do not go on; nothing of it is in the
        // result.
        let phase = stream.phase(start_ns, quota, true);
        let sent = phase.flow.datagrams();
        if context.streams.habits.warm_by_time {
            stream.first_number = sent;
            let rows = phase.flow.finish(phase.span_ns, false, &context.around()).intervals;
            if let Some(last) = rows.last() {
                context.warm_tick(rows.len() - 1, Tick::Send(*last));
            }
        }
        sent
    } else {
        0
    };
    let quota = Quota::datagrams(plan, udp.size, context.id.index);
    let phase = stream.phase(start_ns.saturating_add(plan.warmup.0), quota, false);
    let report = phase.flow.finish(phase.span_ns, udp.rate.is_some(), &context.around());
    SendReport {
        warmup,
        engines: stream.engines.used().to_vec(),
        fallback: stream.engines.why(),
        train: u32::try_from(stream.shape.train).unwrap_or(u32::MAX),
        send_buffer: stream.port.capabilities().send_buffer.unwrap_or(0),
        small_mtu: stream
            .port
            .counters()
            .path_mtu
            .filter(|mtu| *mtu < u32::from(udp.size.bytes()) + context.streams.ip.udp_overhead()),
        rate_changes: stream.followed.changes,
        error: phase.error,
        ..report
    }
}

fn reach(port: &dyn DatagramPort) -> Reach {
    let can = port.capabilities();
    Reach { train: can.max_train, batch: can.max_batch }
}

struct Stream<'a> {
    context: &'a Context,
    /// What this thread had used before the wait for the phase.
    thread: ThreadUse,
    /// With the rate that holds now.
    udp: UdpPlan,
    followed: Followed<'a>,
    port: Box<dyn DatagramPort>,
    engines: Ladder,
    shape: Shape,
    buffer: Vec<u8>,
    waiter: Waiter,
    errors: u32,
    /// Calls in a row whose datagram this host dropped, and not for a full queue.
    failures: u32,
    /// Since when no datagram left, and this host dropped each.
    failing_since_ns: Option<u64>,
    /// Number of the phase's first datagram.
    first_number: u64,
}

/// The warm-up, or the measured time.
struct Phase {
    start_ns: u64,
    warmup: bool,
    flow: Outgoing,
    /// Its intervals are reported: of a warm-up only where its users see it.
    reports: bool,
    span_ns: u64,
    error: Option<String>,
}

impl Phase {
    /// Tells of intervals that are over.
    #[inline]
    fn report(&mut self, context: &Context) {
        if !self.reports {
            return;
        }
        while let Some((index, row)) = self.flow.row() {
            let tick = Tick::Send(row);
            if self.warmup {
                context.warm_tick(index, tick);
            } else {
                context.tick(index, tick);
            }
        }
    }

    /// How long it was.
    fn end(mut self, context: &Context) -> Self {
        let errors = self.flow.local_errors();
        if self.flow.datagrams() == 0 && !errors.is_empty() {
            self.error = self.error.or_else(|| Some(nothing_left(errors)));
        }
        let since_start = |at: u64| at.saturating_sub(self.start_ns);
        let stopped = context.shared.stopped_ns().map(since_start);
        self.span_ns = self.flow.end(since_start(clock::monotonic_ns()), stopped);
        self
    }
}

impl Stream<'_> {
    /// Sends until the quota is met or the test stops.
    fn phase(&mut self, start_ns: u64, quota: Quota, warmup: bool) -> Phase {
        let mut phase = self.begin(start_ns, quota, warmup);
        let size = self.udp.size.len();
        loop {
            // Without pacing this is the one reading of the clock a call: the end of the last call and
            // the send time of the next.
            let now = clock::monotonic_ns().saturating_sub(start_ns);
            phase.flow.look(now, &self.context.around());
            phase.report(self.context);
            if let Some(chosen) = self.followed.turned() {
                self.turn(&mut phase, chosen, now);
            }
            // In this order: what ends in time is not late.
            if phase.flow.is_over(now) || self.context.ends_sending(start_ns.saturating_add(now)) {
                break;
            }
            match phase.flow.next(now, self.shape.batch, size) {
                Next::Wait(at) => {
                    self.waiter.wait_until(start_ns.saturating_add(at), start_ns + now);
                }
                Next::Over => break,
                Next::Call(call) => {
                    if let Err(why) = self.call(&mut phase, &call, now) {
                        phase.error = Some(why);
                        break;
                    }
                }
            }
        }
        phase.end(self.context)
    }

    /// Somebody chose another rate.
    #[cold]
    fn turn(&mut self, phase: &mut Phase, chosen: u64, now: u64) {
        let Some(rate) = BitRate::new(chosen) else { return };
        self.udp.rate = Some(Rate::Bits(rate));
        let streams = self.context.streams.agreed.plan.streams;
        // A batch is no longer than the plan's burst at any rate; the buffer holds that of the plan's own.
        let mut reach = reach(&*self.port);
        reach.batch = reach.batch.min(self.buffer.len() / self.udp.size.len().max(1)).max(1);
        self.shape = engine_choice::shape(&self.udp, self.context.streams.ip, streams, reach);
        phase.flow.turn(chosen, self.shape.batch, now, || self.pacer());
        self.followed.note(now);
    }

    /// The schedule at the rate that holds now.
    fn pacer(&self) -> Option<Pacer> {
        let rate = self.udp.rate?;
        Pacer::new(
            rate.bits_per_second(self.udp.size),
            self.udp.size.bits(),
            self.context.id.index,
            self.context.streams.agreed.plan.streams,
            self.shape.batch as u64,
            self.udp.burst.0.max(100_000),
        )
    }

    /// Waits for the start of a phase.
    fn begin(&mut self, start_ns: u64, quota: Quota, warmup: bool) -> Phase {
        let plan = &self.context.streams.agreed.plan;
        let mut pacer = self.pacer();
        if self.context.streams.burst > 0 {
            pacer = pacer.map(|pacer| pacer.in_bursts(self.context.streams.burst.into()));
        }
        let reports = !warmup || self.context.streams.habits.warm_by_time;
        let intervals = match (warmup, reports) {
            (false, _) => self.context.intervals(),
            (true, true) => Some(warm_intervals(plan.warmup.0, plan.interval.0)),
            (true, false) => Some(1),
        };
        let mut account = Sender::new(plan.interval.0, intervals);
        while let Some(left) = start_ns.checked_sub(clock::monotonic_ns()).filter(|l| *l > 0) {
            // A test that was stopped in its warm-up must not wait for the measured time.
            if self.context.shared.stopping() {
                break;
            }
            self.waiter.wait_until(start_ns, start_ns - left);
        }
        if !warmup {
            self.context.begun();
            self.followed.begin();
        }
        self.thread = thread_use_at(start_ns, self.thread);
        account.begin(self.thread);
        let flow = Outgoing::new(quota, account, pacer);
        Phase { start_ns, warmup, flow, reports, span_ns: 0, error: None }
    }

    /// Hands datagrams to the kernel and accounts for its answer; the error ends the stream.
    #[inline]
    fn call(&mut self, phase: &mut Phase, call: &Call, now: u64) -> Result<(), String> {
        let Call { datagrams, length, .. } = *call;
        let at_ns = phase.start_ns.saturating_add(now);
        if let Some(until) = self.context.shared.holds_back(at_ns) {
            self.waiter.wait_until(until.min(at_ns.saturating_add(HOLD_NS)), at_ns);
            return Ok(());
        }
        let sent_ns =
            if phase.flow.is_paced() { clock::monotonic_ns() } else { phase.start_ns + now };
        let begun = sent_ns.saturating_sub(phase.start_ns);
        let count = datagrams as usize;
        let first = self.first_number + phase.flow.datagrams();
        self.stamp(first, count, length, sent_ns, phase.warmup);
        let bytes = self.buffer.get(..count * length).unwrap_or(&self.buffer);
        let batch = SendBatch { bytes, segment: length, train: self.shape.train };
        match self.port.send(&batch) {
            Ok(sent) => {
                let taken = (sent.datagrams as u64).min(datagrams);
                phase.flow.on_sent(call, taken, begun);
                self.context.shared.add_sent(taken * length as u64);
                self.context.shared.pays(taken * length as u64, sent_ns);
                self.errors = 0;
                self.failures = 0;
                self.failing_since_ns = None;
                let mut refused = 0;
                // The kernel stops at an error and keeps silent about it. What ICMP brought, or a
                // datagram that was too large, is in the error queue as well; a lack of room is not.
                if taken < datagrams && !self.port.take_errors() {
                    refused = (datagrams - taken).min(self.shape.train as u64);
                    phase.flow.on_cut_short(refused);
                }
                self.give_way(&mut phase.flow, taken, refused, begun);
                Ok(())
            }
            Err(e) => self.on_error(phase, datagrams, begun, &e),
        }
    }

    /// A call that took nothing.
    #[cold]
    fn on_error(
        &mut self,
        phase: &mut Phase,
        datagrams: u64,
        begun: u64,
        error: &io::Error,
    ) -> Result<(), String> {
        if self.port.is_refusal(error) {
            self.fall_back(error).map_err(|none| none.to_string())?;
            phase.flow.set_batch(self.shape.batch);
            return Ok(());
        }
        let Some(errno) = self.dropped_here(error) else {
            return self.tolerate(error).map_or(Ok(()), Err);
        };
        // Of a call that took nothing, the kernel tried one datagram, or one train.
        let refused = datagrams.min(self.shape.train as u64);
        phase.flow.on_refused(refused, begun, errno);
        self.give_way(&mut phase.flow, 0, refused, begun);
        let for_ever = !phase.flow.ends_by_time() || phase.flow.datagrams() == 0;
        if for_ever && self.gives_up(begun) {
            return Err(nothing_left(phase.flow.local_errors()));
        }
        Ok(())
    }

    /// Slots that were used, by what the kernel took and by what it refused. A sender that has no slots
    /// pauses after a refusal.
    fn give_way(&mut self, flow: &mut Outgoing, taken: u64, refused: u64, begun_ns: u64) {
        if flow.took(taken + refused, begun_ns) || refused == 0 {
            return;
        }
        let now = clock::monotonic_ns();
        let pause =
            if self.failures > PASSING_ERRORS { AFTER_FAILURE_NS } else { AFTER_REFUSAL_NS };
        self.waiter.wait_until(now + pause, now);
    }

    /// Writes numbers, time and places into the datagrams of the buffer.
    fn stamp(&mut self, first: u64, count: usize, size: usize, sent_ns: u64, warmup: bool) {
        let batch = Batch { first, size, train: self.shape.train, sent_ns, warmup };
        if let Some(bytes) = self.buffer.get_mut(..count * size) {
            self.context.framing.write_batch(&batch, bytes);
        }
    }

    /// The kernel or the card cannot do what the engine asks of it: goes on with the next.
    fn fall_back(&mut self, error: &io::Error) -> io::Result<()> {
        // Where it takes shorter trains from now on, it goes on itself, with headers that say so.
        if self.port.capabilities().max_train >= self.shape.train {
            self.port = self.engines.after_refusal(error)?;
        }
        // Keeps the pacer's batch legal, and the buffer long enough: never more than before.
        let mut reach = reach(&*self.port);
        reach.batch = reach.batch.min(self.shape.batch);
        let streams = self.context.streams.agreed.plan.streams;
        self.shape = engine_choice::shape(&self.udp, self.context.streams.ip, streams, reach);
        Ok(())
    }

    /// The errno with which this host dropped the first datagram, or train, of a call.
    fn dropped_here(&mut self, error: &io::Error) -> Option<Errno> {
        let errno = local_errno(error)?;
        if errno.is_no_room() {
            // A full queue drains by itself, and soon.
            self.failures = 0;
            return Some(errno);
        }
        if errno.may_answer_earlier() && self.port.take_errors() {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        // The kernel puts an answer to an earlier datagram into the queue a moment before it fails the
        // next call with it, so the first failure of a row may be one whose entry is taken already.
        (self.failures > 1 || !errno.may_answer_earlier()).then_some(errno)
    }

    /// Whether nothing left this host for too long, at `now_ns` since the start.
    fn gives_up(&mut self, now_ns: u64) -> bool {
        let since = *self.failing_since_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(since) >= GIVE_UP_NS
    }

    /// An error that this host's dropping a datagram does not explain: the peer's host, or the path.
    /// Some are passing; a stream ends when they do not pass.
    fn tolerate(&mut self, error: &io::Error) -> Option<String> {
        if error.kind() == ErrorKind::Interrupted {
            return None;
        }
        self.errors += 1;
        if datagram::is_too_large(error) && self.errors >= MOST_TOO_LARGE {
            let size = self.udp.size.bytes();
            return Some(format!(
                "the kernel refuses datagrams of {size} bytes on this path: {error}"
            ));
        }
        if self.errors >= MOST_ERRORS {
            return Some(format!("sending failed {MOST_ERRORS} times in a row: {error}"));
        }
        if self.errors > PASSING_ERRORS {
            let now = clock::monotonic_ns();
            self.waiter.wait_until(now + AFTER_FAILURE_NS, now);
        }
        self.port.take_errors();
        None
    }
}

/// What a stream says that this host let nothing out of.
fn nothing_left(errors: LocalSendErrors) -> String {
    let most = errors.each().max_by_key(|(_, datagrams)| *datagrams);
    let errno = most.map_or(Errno::Untold, |(errno, _)| errno);
    let look_at = errno.look_at().map_or(String::new(), |look_at| format!("; look at {look_at}"));
    format!("its own host dropped every datagram ({errors}): {}{look_at}", errno.cause())
}
