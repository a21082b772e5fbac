//! A thread that receives datagrams.

use std::io::ErrorKind;

use linerate_engine::clock;
use linerate_engine::datagram::{self, ArrivalClock, Arrivals, Duty, Ladder};
use linerate_model::plan::{EngineChoice, Traffic};
use linerate_model::sample::RecvReport;
use linerate_session::engine_choice;
use linerate_session::flow::{Apart, Incoming};
use linerate_session::receive_batching::ReceiveBatching;
use linerate_session::receiver::{Message, Setup};
use linerate_wire::native::stream::{HELLO_BYTES, UdpHello};

use super::{Context, DataEvent, HARD_END_NS, answer_again, is_hello_again};

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
    let mut stream = Stream {
        context,
        hello,
        flow: Incoming::new(plan, context.streams.habits, setup, &context.around()),
        arrival: ArrivalClock::new(can.stamps),
        batching: ReceiveBatching::new(receive_buffer, clock::monotonic_ns()),
        early: 0,
    };
    stream.arrival.look(clock::monotonic_ns());
    stream.take_early();
    let mut error: Option<String> = None;
    let mut now = clock::monotonic_ns();
    loop {
        let mut idle = true;
        let mut nap_until = None;
        let called_ns = now;
        match port.recv() {
            Ok(arrivals) => {
                let taken = stream.take(&arrivals);
                // A sender that says its end again until it is answered (iperf 2's each 10 ms) sends nothing more.
                idle = taken.nothing;
                nap_until = taken.nap;
                if taken.again {
                    answer_again(context, &mut *port, hello);
                }
            }
            // What comes while this thread waits for a core, after the call, is not queued from before the call.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                stream.on_idle(called_ns);
            }
            // An ICMP message of the peer's host or of the path; the datagrams that do arrive are what counts.
            Err(e) if e.kind() == ErrorKind::Interrupted || datagram::is_of_earlier(&e) => {}
            Err(e) => {
                error = Some(format!("receiving failed: {e}"));
                break;
            }
        }
        stream.report();
        stream.hear_end();
        if stream.flow.is_complete(context.shared.sent(context.id.stream)) {
            break;
        }
        now = clock::monotonic_ns();
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
    stream.flow.leave_unread(queued / udp.size.len().max(1) as u64);
    RecvReport {
        engine: engines.used().last().cloned().unwrap_or_default(),
        fallback: engines.why(),
        receive_buffer,
        error,
        ..stream.finish(counters.drops)
    }
}

/// What one call brought.
struct Taken {
    /// The sender has said its end, and no datagram was new, nor are there more.
    nothing: bool,
    /// The client's hello was among it again.
    again: bool,
    /// Until when to leave the rest in the socket.
    nap: Option<u64>,
}

/// One stream.
struct Stream<'a> {
    context: &'a Context,
    hello: Option<UdpHello>,
    flow: Incoming,
    arrival: ArrivalClock,
    batching: ReceiveBatching,
    /// Datagrams of the measured time that came before this socket was there, without a stamp.
    early: u64,
}

impl Stream<'_> {
    /// Counts what one call brought.
    #[inline]
    fn take(&mut self, arrivals: &Arrivals<'_>) -> Taken {
        let (context, around) = (self.context, self.context.around());
        self.flow.on_call();
        let now = clock::monotonic_ns();
        self.arrival.look(now);
        let started = self.started_in_warmup();
        let (mut bytes, mut warm_bytes, mut apart_bytes) = (0, 0, 0);
        let (mut ours, mut again) = (false, false);
        let before = self.flow.unique();
        for message in arrivals.messages() {
            // What there was no room for is no data, and was carried all the same.
            if message.truncated {
                apart_bytes += message.most_bytes().saturating_sub(message.bytes.len() as u64);
            }
            if let Some(apart) = self.flow.apart(message.bytes) {
                apart_bytes += message.bytes.len() as u64;
                again |= apart == Apart::Opening && is_hello_again(self.hello, message.bytes);
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
            let (warm, of_test) = self.flow.on_message(&message, started, &around);
            let counted = if warm { &mut warm_bytes } else { &mut bytes };
            *counted += message.bytes.len() as u64;
            ours |= of_test;
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
        if apart_bytes > 0 {
            context.shared.add_received_apart(apart_bytes);
        }
        self.flow.on_read(now);
        // Without stamps, when it is read is all that is known of a datagram.
        let stamped = self.arrival.is_of_reading().is_none();
        let (messages, bytes) = (arrivals.len() as u64, bytes + warm_bytes);
        let nap =
            stamped.then(|| self.batching.after_call(now, messages, bytes, arrivals.is_full()));
        let same = self.flow.unique() == before && self.flow.has_end();
        let nothing = same && !arrivals.is_full();
        Taken { nothing, again, nap: nap.flatten() }
    }

    /// What came before this socket was there.
    fn take_early(&mut self) {
        let (context, around) = (self.context, self.context.around());
        let stamped = self.arrival.is_of_reading().is_some();
        for early in &context.early {
            let bytes = &early.bytes[..];
            if (context.streams.habits.opens)(bytes) {
                context.shared.add_received_apart(bytes.len() as u64);
                continue;
            }
            let message = Message {
                bytes,
                segment: bytes.len(),
                at_ns: early.at_ns,
                // When it was read is no measure of delay beside stamps.
                stamped,
                socket_drops: None,
            };
            let (warm, ours) = self.flow.on_message(&message, self.started_in_warmup(), &around);
            self.early += u64::from(ours && !warm && !stamped);
            if ours {
                context.shared.hear(early.at_ns);
            }
            if warm {
                context.shared.add_received_warm(bytes.len() as u64);
            } else {
                context.shared.add_received(bytes.len() as u64);
            }
        }
    }

    /// When the test began, while that decides what is warm-up.
    #[inline]
    fn started_in_warmup(&self) -> Option<u64> {
        if self.flow.is_measuring() { None } else { self.context.shared.running() }
    }

    /// Passes on, once, that the sender sends no more.
    #[inline]
    fn hear_end(&mut self) {
        if let Some(sent) = self.flow.peer_end() {
            let word = DataEvent::PeerEnd(self.context.id.stream, sent);
            let _ = self.context.events.send(word);
        }
    }

    /// Nothing waits at `now`.
    fn on_idle(&mut self, now: u64) {
        let started = self.started_in_warmup();
        self.flow.on_idle(now, started, &self.context.around());
    }

    /// Intervals that are over.
    #[inline]
    fn report(&mut self) {
        let context = self.context;
        if self.flow.begins_with_test()
            && let Some(start) = context.shared.running()
        {
            self.flow.begin(start, &context.around());
        }
        while let Some(row) = self.flow.row() {
            context.recv_tick(row);
        }
    }

    fn finish(mut self, drops: Option<u32>) -> RecvReport {
        let (context, around) = (self.context, self.context.around());
        self.flow.end_warmup(context.shared.running(), &around);
        self.report();
        let warmup_ns = context.streams.agreed.plan.warmup.0;
        if let Some(at) = context.shared.measured_from(warmup_ns) {
            self.flow.begin_unheard(at, clock::monotonic_ns(), &around);
        }
        let reported = context.shared.sent(context.id.stream);
        let report = self.flow.finish(reported, drops, &around);
        RecvReport {
            unstamped: self.arrival.is_of_reading().map(str::to_owned),
            // What came early had no stamp to be wrong.
            timestamp_faults: report.timestamp_faults.saturating_sub(self.early),
            ..report
        }
    }
}
