//! A thread that receives datagrams.

use std::io::ErrorKind;

use linerate_engine::datagram::{RecvBatch, receiver};
use linerate_engine::{clock, sys};
use linerate_model::plan::{EngineChoice, Traffic};
use linerate_model::sample::RecvReport;
use linerate_session::engine_choice;
use linerate_session::receiver::{Message, Receiver, Setup};
use linerate_wire::native::stream::{HELLO_OCTETS, UdpHello, UdpHelloAck};
use socket2::Socket;

use super::{Context, DEFAULT_UDP_BUFFER, HARD_END_NS, LOOK_UP, Tick, answer_again, thread_use};

/// A kernel time stamp older than this when it is read belongs to another setting of the clock.
const OLDEST_STAMP_NS: u64 = 5_000_000_000;

/// First octet of hellos and their answers.
const HELLO_FIRST_OCTET: u8 = 0x89;

/// Whether a datagram belongs to the opening of streams and not to the test: our own hello again,
/// which is answered, an answer that came late, or another client's hello that was on its way when
/// this socket was bound.
fn is_opening(socket: &Socket, hello: Option<UdpHello>, datagram: &[u8]) -> bool {
    answer_again(socket, hello, datagram)
        || UdpHelloAck::decode(datagram).is_some()
        || UdpHello::decode(datagram).is_some()
}

pub(super) fn run(context: &Context, socket: &Socket, hello: Option<UdpHello>) -> RecvReport {
    let plan = &context.agreed.plan;
    let Traffic::Udp(udp) = &plan.traffic else { return RecvReport::default() };
    context.prepare(socket, Some(DEFAULT_UDP_BUFFER));
    let chosen = engine_choice::choose(udp, context.ip, plan.streams);
    let described = sys::describe_messages(socket);
    let _ = socket.set_read_timeout(Some(LOOK_UP));
    let merging = chosen.engine == EngineChoice::Gso && sys::merge_on_receive(socket).is_ok();
    let mut engine = receiver(if udp.engine == EngineChoice::Send {
        EngineChoice::Send
    } else if merging {
        EngineChoice::Gso
    } else {
        EngineChoice::Mmsg
    });
    // A merged message has at most the 128 datagrams of a train, or one IP packet's octets.
    let octets =
        if merging { udp.size.len() * engine_choice::MAX_SEGMENTS } else { udp.size.len() + 64 };
    let mut batch = RecvBatch::new(octets.max(HELLO_OCTETS));

    let around = context.around();
    let setup = Setup {
        token: context.token,
        stream: context.id.stream,
        first_number: 0,
        interval_ns: plan.interval.0,
        intervals: context.intervals(),
        merging,
    };
    let mut account = Receiver::new(setup, thread_use());
    let mut wall_clock = clock::WallClock::default();
    let mut told = 0;
    let mut error = described.err().map(|e| format!("cannot ask for receive time stamps: {e}"));
    while error.is_none() {
        let mut idle = false;
        match engine.recv(socket, &mut batch) {
            Ok(_) => {
                account.on_call();
                context.shared.hear(clock::monotonic_ns());
                let now = clock::monotonic_ns();
                let wall_ahead = wall_clock.ahead_ns(now);
                for message in batch.messages() {
                    // No header begins so: a token's highest bit is clear.
                    if message.bytes.first() == Some(&HELLO_FIRST_OCTET)
                        && is_opening(socket, hello, message.bytes)
                    {
                        continue;
                    }
                    let stamp = message
                        .realtime_ns
                        .map(|wall| wall.wrapping_sub(wall_ahead))
                        .filter(|at| *at <= now && now - *at < OLDEST_STAMP_NS);
                    account.on_message(
                        &Message {
                            bytes: message.bytes,
                            segment: message.segment,
                            at_ns: stamp.unwrap_or(now),
                            stamped: stamp.is_some(),
                            socket_drops: message.drops,
                        },
                        &around,
                    );
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                idle = true;
                account.on_idle(clock::monotonic_ns(), &around);
            }
            // An ICMP message of the far end's host; the datagrams that do arrive are what counts.
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {
                idle = true;
            }
            Err(e) => {
                error = Some(format!("receiving failed: {e}"));
                break;
            }
        }
        while let Some(interval) = account.intervals().get(told) {
            context.tick(told, Tick::Recv(*interval));
            told += 1;
        }
        if context.shared.sent(context.id.stream).is_some_and(|sent| account.has_all(sent)) {
            break;
        }
        let now = clock::monotonic_ns();
        if context.shared.drained_at(if idle { now } else { now.saturating_sub(HARD_END_NS) }) {
            break;
        }
    }
    let sent = context.shared.sent(context.id.stream);
    let report = account.finish(sent, sys::socket_drops(socket), &around);
    RecvReport {
        engine: engine.name().to_owned(),
        receive_buffer: sys::receive_buffer(socket),
        error,
        ..report
    }
}
