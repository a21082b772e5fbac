//! A thread that receives datagrams.

use std::io::ErrorKind;

use linerate_engine::clock;
use linerate_engine::datagram::{self, ArrivalClock, Duty, Ladder};
use linerate_model::plan::Traffic;
use linerate_model::sample::{RecvCounts, RecvReport};
use linerate_session::engine_choice;
use linerate_session::receive_batching::ReceiveBatching;
use linerate_session::receiver::{Message, Receiver, Setup};
use linerate_wire::native::stream::{HELLO_BYTES, UdpHello};

use super::{Context, HARD_END_NS, Tick, answer_again, is_hello_again, thread_use};

pub(super) fn run(context: &Context, at: datagram::Context, hello: Option<UdpHello>) -> RecvReport {
    let plan = &context.agreed.plan;
    let Traffic::Udp(udp) = &plan.traffic else { return RecvReport::default() };
    let buffers = engine_choice::buffers(udp, plan.streams);
    let config = context.port(Duty::Receive, udp.size.len().max(HELLO_BYTES), Some(buffers));
    let first = engine_choice::receiving(udp, context.ip, plan.streams);
    let mut engines = Ladder::new(first, config, at);
    let mut port = match engines.open() {
        Ok(port) => port,
        Err(e) => return RecvReport { error: Some(e.to_string()), ..RecvReport::default() },
    };
    let can = port.capabilities();
    let receive_buffer = can.receive_buffer.unwrap_or(0);

    let around = context.around();
    let setup = Setup {
        framing: context.framing,
        first_number: 0,
        interval_ns: plan.interval.0,
        intervals: context.intervals(),
        merging: can.merges,
    };
    let mut account = Receiver::new(setup, thread_use()).ending_after(plan.duration().map(|d| d.0));
    // Where datagrams do not say that they are warm-up, time does: it has an account of its own.
    let mut warmup = WarmUp::new(context, &setup);
    let mut warmed = RecvCounts::default();
    let mut arrival = ArrivalClock::new(can.stamps);
    arrival.look(clock::monotonic_ns());
    let mut batching = ReceiveBatching::new(receive_buffer, clock::monotonic_ns());
    let mut told = 0;
    let mut error: Option<String> = None;
    while error.is_none() {
        let mut idle = false;
        let mut nap_until = None;
        match port.recv() {
            Ok(arrivals) => {
                account.on_call();
                let now = clock::monotonic_ns();
                arrival.look(now);
                let (mut bytes, mut warm_bytes, mut ours) = (0, 0, false);
                let (messages, is_full, mut again) = (arrivals.len(), arrivals.is_full(), false);
                for message in arrivals.messages() {
                    if (context.habits.opens)(message.bytes) {
                        again |= is_hello_again(hello, message.bytes);
                        continue;
                    }
                    let stamp = arrival.place(message.stamp_ns, now);
                    let message = Message {
                        bytes: message.bytes,
                        segment: message.segment,
                        at_ns: stamp.unwrap_or(now),
                        stamped: stamp.is_some(),
                        socket_drops: message.drops,
                    };
                    if let Some(warm) = &mut warmup
                        && !warm.is_over(context, message.at_ns)
                    {
                        warm_bytes += message.bytes.len() as u64;
                        ours |= warm.account.on_message(&message, &around);
                        continue;
                    }
                    if let Some(warm) = warmup.take() {
                        warm.end(context, &mut account, &mut warmed);
                    }
                    bytes += message.bytes.len() as u64;
                    ours |= account.on_message(&message, &around);
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
                if warmup.is_none() {
                    account.on_read(now);
                }
                if again {
                    answer_again(&mut *port, hello);
                }
                // Without stamps, when it is read is all that is known of a datagram.
                if arrival.is_of_reading().is_none() {
                    let bytes = bytes + warm_bytes;
                    nap_until = batching.after_call(now, messages as u64, bytes, is_full);
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                idle = true;
                let now = clock::monotonic_ns();
                match &mut warmup {
                    Some(warm) if !warm.is_over(context, now) => {
                        warm.account.on_idle(now, &around);
                    }
                    _ => {
                        if let Some(warm) = warmup.take() {
                            warm.end(context, &mut account, &mut warmed);
                        }
                        account.on_idle(now, &around);
                    }
                }
            }
            // An ICMP message of the peer's host; the datagrams that do arrive are what counts.
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {
                idle = true;
            }
            Err(e) => {
                error = Some(format!("receiving failed: {e}"));
                break;
            }
        }
        if context.habits.measured_from_start
            && warmup.is_none()
            && let Some(start) = context.shared.running()
        {
            account.begin_at(start.saturating_add(plan.warmup.0), &around);
        }
        if let Some(warm) = &mut warmup {
            warm.tell(context);
        }
        while let Some(interval) = account.intervals().get(told) {
            context.tick(told, Tick::Recv(*interval));
            told += 1;
        }
        if sent(context, &warmed).is_some_and(|sent| account.has_all(sent)) {
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
    if let Some(warm) = warmup.take() {
        warm.end(context, &mut account, &mut warmed);
    }
    let sent = sent(context, &warmed);
    let counters = port.counters();
    // The kernel counts more for a datagram than its payload.
    let queued = u64::from(counters.unread_bytes.unwrap_or(0));
    account.leave_unread(queued / udp.size.len().max(1) as u64);
    let report = account.finish(sent, counters.drops, &around);
    RecvReport {
        engine: engines.used().last().cloned().unwrap_or_default(),
        fallback: engines.why(),
        unstamped: arrival.is_of_reading().map(str::to_owned),
        receive_buffer,
        error,
        warmup: report.warmup.saturating_add(warmed.datagrams),
        warmup_expected: warmed.expected,
        warmup_lost: warmed.lost,
        ..report
    }
}

/// Datagrams that the peer says it sent in the measured time; iperf3 tells those of the warm-up
/// with them.
fn sent(context: &Context, warmed: &RecvCounts) -> Option<u64> {
    Some(context.shared.sent(context.id.stream)?.saturating_sub(warmed.expected))
}

/// The account of a warm-up that only time tells apart (iperf3's).
struct WarmUp {
    account: Receiver,
    told: usize,
}

impl WarmUp {
    /// `None` where there is no warm-up, or datagrams tell of it themselves.
    fn new(context: &Context, setup: &Setup) -> Option<Self> {
        let wanted = context.habits.warm_by_time && context.agreed.plan.warmup.0 > 0;
        wanted.then(|| {
            let setup = Setup { intervals: Some(context.warm_intervals()), ..*setup };
            Self { account: Receiver::new(setup, thread_use()), told: 0 }
        })
    }

    fn is_over(&self, context: &Context, at_ns: u64) -> bool {
        let warmup = context.agreed.plan.warmup.0;
        context.shared.running().is_some_and(|start| at_ns >= start.saturating_add(warmup))
    }

    fn tell(&mut self, context: &Context) {
        if let Some(start) = context.shared.running() {
            self.account.begin_at(start, &context.alone());
        }
        while let Some(interval) = self.account.intervals().get(self.told) {
            context.warm_tick(self.told, Tick::Recv(*interval));
            self.told += 1;
        }
    }

    /// Closes the account; the one of the measured time goes on with the next number.
    fn end(mut self, context: &Context, account: &mut Receiver, warmed: &mut RecvCounts) {
        self.tell(context);
        account.follow(&self.account, thread_use());
        if let Some(start) = context.shared.running() {
            let measured = start.saturating_add(context.agreed.plan.warmup.0);
            account.begin_at(measured, &context.around());
        }
        let report = self.account.finish(None, None, &context.alone());
        for (index, interval) in report.intervals.iter().enumerate().skip(self.told) {
            context.warm_tick(index, Tick::Recv(*interval));
        }
        *warmed = report.counts;
    }
}
