//! Threads that send and receive octets over TCP.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};

use linerate_engine::stream::{BlockReader, BlockWriter};
use linerate_engine::{clock, sys};
use linerate_model::plan::Traffic;
use linerate_model::sample::{RecvReport, SendReport, TcpSample};
use linerate_session::receiver::ByteReceiver;
use linerate_session::sender::{Quota, Sender};

use super::{Context, HARD_END_NS, LOOK_UP, Tick, thread_use};

pub(super) fn send(context: &Context, socket: &TcpStream) -> SendReport {
    let plan = &context.agreed.plan;
    let Traffic::Tcp(tcp) = &plan.traffic else { return SendReport::default() };
    let start_ns = loop {
        if let Some(start) = context.shared.running() {
            break start;
        }
        if context.shared.stopping() {
            return SendReport::default();
        }
        std::thread::sleep(LOOK_UP / 4);
    };
    let _ = socket.set_write_timeout(Some(LOOK_UP * 5));
    let writer = BlockWriter::new(vec![0x5a; tcp.block as usize], tcp.zerocopy);
    let mut writer = match writer {
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
    let mut warmup = 0u64;
    let measured_ns = start_ns.saturating_add(plan.warmup.0);
    while error.is_none() && clock::monotonic_ns() < measured_ns && !context.shared.stopping() {
        match writer.write(socket, usize::MAX) {
            Ok(octets) => warmup += octets as u64,
            Err(e) if passing(e.kind()) => {}
            Err(e) => error = Some(format!("sending failed: {e}")),
        }
    }
    let octets_wanted = Quota::octets(plan, context.id.index);
    let until_ns = plan.duration().map(|d| d.0);
    let base = sys::tcp_sample(socket).unwrap_or_default();
    let mut before = base;
    account.begin(thread_use());
    let mut told = 0;
    while error.is_none() {
        let now = clock::monotonic_ns().saturating_sub(measured_ns);
        if account.is_due(now) {
            // A row has its own growth; the rows add up to the whole.
            let row = sample(socket, &before);
            before = sys::tcp_sample(socket).unwrap_or(before);
            account.roll(now, row, &around);
            while let Some(interval) = account.intervals().get(told) {
                context.tick(told, Tick::Send(*interval));
                told += 1;
            }
        }
        if context.shared.stopping() || until_ns.is_some_and(|until| now >= until) {
            break;
        }
        let most = match octets_wanted {
            Some(wanted) => match wanted.saturating_sub(account.bytes()) {
                0 => break,
                left => usize::try_from(left).unwrap_or(usize::MAX),
            },
            None => usize::MAX,
        };
        match writer.write(socket, most) {
            Ok(octets) => account.on_sent(now, 0, octets as u64, None),
            Err(e) if passing(e.kind()) => {}
            Err(e) => error = Some(format!("sending failed: {e}")),
        }
    }
    let span_ns = clock::monotonic_ns().saturating_sub(measured_ns);
    let (tcp, last_row) = (sample(socket, &base), sample(socket, &before));
    // The receiver reads until here; what is still in the buffers arrives there.
    let _ = socket.shutdown(Shutdown::Write);
    let congestion = sys::congestion(socket);
    let report = account.finish(span_ns, last_row, &around);
    SendReport {
        warmup,
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
    let plan = &context.agreed.plan;
    let Traffic::Tcp(tcp) = &plan.traffic else { return RecvReport::default() };
    let _ = socket.set_read_timeout(Some(LOOK_UP));
    let mut reader = BlockReader::new(tcp.block as usize, tcp.discard);
    let around = context.around();
    let mut account = ByteReceiver::new(plan.interval.0, context.intervals(), plan.warmup.0);
    let mut told = 0;
    let mut error = None;
    loop {
        match reader.read(socket) {
            Ok(0) => break,
            Ok(octets) => {
                let now = clock::monotonic_ns();
                account.on_bytes(octets as u64, now, &around);
                // A stream that goes on long after its end was due must not hold the test.
                if context.shared.drained_at(now.saturating_sub(HARD_END_NS)) {
                    error = Some("the stream did not end by itself".to_owned());
                    break;
                }
            }
            Err(e) if passing(e.kind()) => {
                let now = clock::monotonic_ns();
                account.on_idle(now, &around);
                if context.shared.drained_at(now) {
                    error = Some("the stream did not end by itself".to_owned());
                    break;
                }
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
    }
    RecvReport {
        engine: if tcp.discard { "discard" } else { "read" }.to_owned(),
        receive_buffer: sys::receive_buffer(socket),
        error,
        ..account.finish(&around)
    }
}

fn is_zerocopy(writer: &BlockWriter) -> bool {
    matches!(writer, BlockWriter::Sendfile { .. })
}

fn passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The kernel's state now, its counters from the start of the measured time on.
fn sample(socket: &TcpStream, base: &TcpSample) -> Option<TcpSample> {
    let now = sys::tcp_sample(socket)?;
    let since = |now: Option<u64>, base: Option<u64>| Some(now?.saturating_sub(base?));
    Some(TcpSample {
        bytes_acked: since(now.bytes_acked, base.bytes_acked),
        bytes_retransmitted: since(now.bytes_retransmitted, base.bytes_retransmitted),
        retransmits: since(now.retransmits, base.retransmits),
        busy_ns: since(now.busy_ns, base.busy_ns),
        rwnd_limited_ns: since(now.rwnd_limited_ns, base.rwnd_limited_ns),
        sndbuf_limited_ns: since(now.sndbuf_limited_ns, base.sndbuf_limited_ns),
        ..now
    })
}
