//! A thread that receives datagrams.

use std::io::ErrorKind;

use linerate_engine::clock;
use linerate_engine::datagram::{self, ArrivalClock, Arrivals, Duty, Ladder};
use linerate_model::plan::{EngineChoice, Traffic};
use linerate_model::sample::{RecvCounts, RecvReport};
use linerate_session::engine_choice;
use linerate_session::receive_batching::ReceiveBatching;
use linerate_session::receiver::{Message, Receiver, Setup};
use linerate_wire::native::stream::{HELLO_BYTES, UdpHello};

use super::{Context, DataEvent, HARD_END_NS, Tick, answer_again, is_hello_again, thread_use};

/// Sets a socket's options before its thread has a core: what comes until then finds the agreed buffer, is stamped, and
/// stays in the trains that the thread will count.
pub(super) fn prepare(context: &Context, at: &datagram::Context) {
    if at.socket.is_some()
        && let Some(mut engines) = engines(context, at.clone())
    {
        // The thread opens it again, and says what is wrong.
        let _ = engines.open();
    }
}

fn engines(context: &Context, at: datagram::Context) -> Option<Ladder> {
    let plan = &context.streams.agreed.plan;
    let Traffic::Udp(udp) = &plan.traffic else { return None };
    let buffers = engine_choice::buffers(udp, plan.streams);
    let config = context.port(Duty::Receive, udp.size.len().max(HELLO_BYTES), Some(buffers));
    let first = match udp.engine {
        // They may come in trains, whatever the plan says.
        EngineChoice::Auto if !context.streams.habits.sized => EngineChoice::Gso,
        _ => engine_choice::receiving(udp, context.streams.ip, plan.streams),
    };
    Some(Ladder::new(first, config, at))
}

pub(super) fn run(context: &Context, at: datagram::Context, hello: Option<UdpHello>) -> RecvReport {
    let plan = &context.streams.agreed.plan;
    let Traffic::Udp(udp) = &plan.traffic else { return RecvReport::default() };
    let Some(mut engines) = engines(context, at) else { return RecvReport::default() };
    let mut port = match engines.open() {
        Ok(port) => port,
        Err(e) => return RecvReport { error: Some(e.to_string()), ..RecvReport::default() },
    };
    let can = port.capabilities();
    let receive_buffer = can.receive_buffer.unwrap_or(0);

    let setup = Setup {
        framing: context.framing,
        first_number: 0,
        interval_ns: plan.interval.0,
        intervals: context.intervals(),
        merging: can.merges,
    };
    let account = Receiver::new(setup, thread_use());
    let mut stream = Stream {
        context,
        hello,
        account: account.ending_after(plan.duration().map(|d| d.0)),
        // Where datagrams do not say that they are warm-up, time does: it has an account of its own.
        warmup: WarmUp::new(context, &setup),
        warmed: RecvCounts::default(),
        arrival: ArrivalClock::new(can.stamps),
        batching: ReceiveBatching::new(receive_buffer, clock::monotonic_ns()),
        reported: 0,
        end_said: false,
        ended: false,
    };
    stream.arrival.look(clock::monotonic_ns());
    stream.take_early();
    let mut error: Option<String> = None;
    loop {
        let mut idle = true;
        let mut nap_until = None;
        match port.recv() {
            Ok(arrivals) => {
                idle = false;
                let (again, nap) = stream.take(&arrivals);
                nap_until = nap;
                if again {
                    answer_again(&mut *port, hello);
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                stream.on_idle(clock::monotonic_ns());
            }
            // An ICMP message of the peer's host; the datagrams that do arrive are what counts.
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {
            }
            Err(e) => {
                error = Some(format!("receiving failed: {e}"));
                break;
            }
        }
        stream.report();
        stream.hear_end();
        if stream.ended {
            break;
        }
        if stream.sent().is_some_and(|sent| stream.account.has_all(sent)) {
            break;
        }
        let now = clock::monotonic_ns();
        context.shared.look_after_peer(now);
        if context.shared.drained_at(if idle { now } else { now.saturating_sub(HARD_END_NS) }) {
            break;
        }
        if let Some(until) = nap_until {
            clock::sleep_until(until);
        }
    }
    let counters = port.counters();
    // The kernel counts more for a datagram than its payload.
    let queued = u64::from(counters.unread_bytes.unwrap_or(0));
    stream.account.leave_unread(queued / udp.size.len().max(1) as u64);
    RecvReport {
        engine: engines.used().last().cloned().unwrap_or_default(),
        fallback: engines.why(),
        receive_buffer,
        error,
        ..stream.finish(counters.drops)
    }
}

/// Accounts of one stream.
struct Stream<'a> {
    context: &'a Context,
    hello: Option<UdpHello>,
    account: Receiver,
    /// While it lasts, where only time distinguishes it.
    warmup: Option<WarmUp>,
    warmed: RecvCounts,
    arrival: ArrivalClock,
    batching: ReceiveBatching,
    /// Intervals.
    reported: usize,
    end_said: bool,
    /// The sender has marked its end.
    ended: bool,
}

impl Stream<'_> {
    /// What one call brought: whether the client's hello was among it again, and until when to leave the
    /// rest in the socket.
    #[inline]
    fn take(&mut self, arrivals: &Arrivals<'_>) -> (bool, Option<u64>) {
        let (context, around) = (self.context, self.context.around());
        self.account.on_call();
        let now = clock::monotonic_ns();
        self.arrival.look(now);
        let (mut bytes, mut warm_bytes, mut ours, mut again) = (0, 0, false, false);
        for message in arrivals.messages() {
            if message.bytes.is_empty() && context.streams.habits.end_marks > 0 {
                self.ended = true;
                continue;
            }
            if (context.streams.habits.opens)(message.bytes) {
                again |= is_hello_again(self.hello, message.bytes);
                continue;
            }
            let stamp = self.arrival.place(message.stamp_ns, now);
            let message = Message {
                bytes: message.bytes,
                segment: message.segment,
                at_ns: stamp.unwrap_or(now),
                stamped: stamp.is_some(),
                socket_drops: message.drops,
            };
            if let Some(warm) = self.warm_at(message.at_ns) {
                warm_bytes += message.bytes.len() as u64;
                ours |= warm.account.on_message(&message, &around);
            } else {
                bytes += message.bytes.len() as u64;
                ours |= self.account.on_message(&message, &around);
            }
        }
        // Anybody can send datagrams from a peer's address; only the peer knows the token.
        if ours {
            context.shared.hear(now);
        }
        if bytes > 0 {
            context.shared.add_received(bytes);
        }
        if warm_bytes > 0 {
            context.shared.add_received_warm(warm_bytes);
        }
        if self.warmup.is_none() {
            self.account.on_read(now);
        }
        // Without stamps, when it is read is all that is known of a datagram.
        let stamped = self.arrival.is_of_reading().is_none();
        let (messages, bytes) = (arrivals.len() as u64, bytes + warm_bytes);
        let nap =
            stamped.then(|| self.batching.after_call(now, messages, bytes, arrivals.is_full()));
        (again, nap.flatten())
    }

    /// What came before this socket was there.
    fn take_early(&mut self) {
        let around = self.context.around();
        for early in &self.context.early {
            let bytes = &early.bytes[..];
            if (self.context.streams.habits.opens)(bytes) {
                continue;
            }
            let message = Message {
                bytes,
                segment: bytes.len(),
                at_ns: early.at_ns,
                stamped: true,
                socket_drops: None,
            };
            if self.account.on_message(&message, &around) {
                self.context.shared.hear(early.at_ns);
            }
            self.context.shared.add_received(bytes.len() as u64);
        }
    }

    /// Passes on, once, that the sender sends no more.
    #[inline]
    fn hear_end(&mut self) {
        if let Some(sent) = self.account.peer_end()
            && !std::mem::replace(&mut self.end_said, true)
        {
            let word = DataEvent::PeerEnd(self.context.id.stream, sent);
            let _ = self.context.events.send(word);
        }
    }

    /// The warm-up, if what arrives at `at_ns` belongs to it; once it does not, it is over.
    #[inline]
    fn warm_at(&mut self, at_ns: u64) -> Option<&mut WarmUp> {
        if self.warmup.as_ref()?.is_over(self.context, at_ns) {
            self.end_warmup();
        }
        self.warmup.as_mut()
    }

    fn end_warmup(&mut self) {
        if let Some(warm) = self.warmup.take() {
            self.warmed = warm.end(self.context, &mut self.account);
        }
    }

    /// Nothing waits at `now`.
    fn on_idle(&mut self, now: u64) {
        let around = self.context.around();
        match self.warm_at(now) {
            Some(warm) => warm.account.on_idle(now, &around),
            None => self.account.on_idle(now, &around),
        }
    }

    /// Intervals that are over.
    #[inline]
    fn report(&mut self) {
        let context = self.context;
        if let Some(warm) = &mut self.warmup {
            warm.report(context);
        } else if context.streams.habits.measured_from_start
            && let Some(start) = context.shared.running()
        {
            let measured = start.saturating_add(context.streams.agreed.plan.warmup.0);
            self.account.begin_at(measured, &context.around());
        }
        while let Some(interval) = self.account.intervals().get(self.reported) {
            context.tick(self.reported, Tick::Recv(*interval));
            self.reported += 1;
        }
    }

    /// Datagrams that the peer says it sent in the measured time; iperf3's servers count those of the
    /// warm-up among them.
    #[inline]
    fn sent(&self) -> Option<u64> {
        let sent = self.context.shared.sent(self.context.id.stream)?;
        Some(sent.saturating_sub(self.warmed.expected))
    }

    fn finish(mut self, drops: Option<u32>) -> RecvReport {
        self.end_warmup();
        let sent = self.sent();
        let report = self.account.finish(sent, drops, &self.context.around());
        RecvReport {
            unstamped: self.arrival.is_of_reading().map(str::to_owned),
            warmup: report.warmup.saturating_add(self.warmed.datagrams),
            warmup_expected: self.warmed.expected,
            warmup_lost: self.warmed.lost,
            ..report
        }
    }
}

/// The account of a warm-up that only time distinguishes (iperf3's).
struct WarmUp {
    account: Receiver,
    reported: usize,
}

impl WarmUp {
    /// `None` where there is no warm-up, or datagrams say that they belong to it.
    fn new(context: &Context, setup: &Setup) -> Option<Self> {
        let wanted =
            context.streams.habits.warm_by_time && context.streams.agreed.plan.warmup.0 > 0;
        wanted.then(|| {
            let setup = Setup { intervals: Some(context.warm_intervals()), ..*setup };
            Self { account: Receiver::new(setup, thread_use()), reported: 0 }
        })
    }

    fn is_over(&self, context: &Context, at_ns: u64) -> bool {
        let warmup = context.streams.agreed.plan.warmup.0;
        context.shared.running().is_some_and(|start| at_ns >= start.saturating_add(warmup))
    }

    fn report(&mut self, context: &Context) {
        if let Some(start) = context.shared.running() {
            self.account.begin_at(start, &context.alone());
        }
        while let Some(interval) = self.account.intervals().get(self.reported) {
            context.warm_tick(self.reported, Tick::Recv(*interval));
            self.reported += 1;
        }
    }

    /// Closes the account; the one of the measured time goes on with the next number.
    fn end(mut self, context: &Context, account: &mut Receiver) -> RecvCounts {
        self.report(context);
        account.follow(&self.account, thread_use());
        if let Some(start) = context.shared.running() {
            let measured = start.saturating_add(context.streams.agreed.plan.warmup.0);
            account.begin_at(measured, &context.around());
        }
        let report = self.account.finish(None, None, &context.alone());
        for (index, interval) in report.intervals.iter().enumerate().skip(self.reported) {
            context.warm_tick(index, Tick::Recv(*interval));
        }
        report.counts
    }
}
