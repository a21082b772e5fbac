//! The client in iperf3's dialect: the same data threads, pacing, accounting, record and verdict
//! as in linerate's own, over iperf3's control connection. `docs/iperf3.md` has the sequence.
//!
//! The peer reports totals of each stream when the test is over, and nothing before. So a client
//! that sends waits a moment before it says that the test is over: what is on its way then would
//! not be counted at the peer.

mod account;
mod ask;
mod control;
mod open;
mod running;

pub use ask::Extras;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::{clock, sys};
use linerate_host::facts::facts;
use linerate_model::plan::{AgreedPlan, Dialect, Traffic, Transport, Way};
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord};
use linerate_model::test_event::{self, Connected, Cpu, ServerOutput, Side, StreamEnd, TestEvent};
use linerate_model::units::DatagramSize;
use linerate_session::assemble::{self, HostSamples, StreamOutcome};
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::iperf3::{Cookie, Results, State, stream_id};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use self::account::{
    far_receiver, far_sender, far_span_ns, far_stream, far_thread, our_results, place_drops,
    received_ns,
};
use self::ask::{fitted, parameters};
use self::control::Control;
use self::open::{open_streams, start_reported};
use self::running::Running;
use super::{ClientTest, Ended};
use crate::data::{self, Context, PROMPT_START_NS, Report, Role, Shared, StreamId, StreamSocket};
use crate::errors;
use crate::host::HostWatch;
use crate::rows::{ProcessCpu, RowBook};
use crate::serving::StopOnDrop;
use crate::serving::random;
use linerate_dialect::ticks::Ticks;

/// Waits this long beyond two round trips for what is on its way, before the end is told. Less than
/// a tenth of iperf3's usual interval, which it then leaves out of its report.
const SETTLE: Duration = Duration::from_millis(50);
/// Most of that.
const MOST_SETTLE: Duration = Duration::from_secs(5);
/// After the end, receivers here wait this long for their TCP streams to end.
const STREAM_END: Duration = Duration::from_secs(5);

/// Whether the first byte that a server says can be only iperf3's.
pub(super) fn is_first_byte(byte: u8) -> bool {
    // A message of linerate's own begins with a length below 2^24.
    matches!(
        State::from_byte(byte),
        Some(State::ParamExchange | State::AccessDenied | State::ServerError)
    )
}

/// Runs the test. `cookie` has been sent already when the server was found to be an iperf3 by its
/// answer.
pub(super) async fn conduct(
    near: &mut ClientTest<'_>,
    control: TcpStream,
    greeted: Option<Cookie>,
    observer: &mut dyn Observer,
) -> Result<(), ErrorRecord> {
    let extras = near.request.iperf3.clone();
    let mss = sys::tcp_sample(&control)
        .and_then(|tcp| tcp.mss_bytes)
        .and_then(|mss| u32::try_from(mss).ok());
    if extras.size_from_mss
        && let (Traffic::Udp(udp), Some(mss)) = (&mut near.plan.traffic, mss)
    {
        udp.size = DatagramSize::new(mss.min(65_507)).unwrap_or(udp.size);
        near.record.asked.datagram_bytes = Some(u32::from(udp.size.bytes()));
    }
    let (plan, cuts) = fitted(&near.plan, extras.burst)?;
    let parameters = parameters(&plan, &extras, &near.plan);
    let burst = extras.burst;
    near.plan = plan;
    for text in cuts {
        near.record.doubts.push(Doubt { kind: DoubtKind::Degraded, text });
    }
    parameters.check().map_err(|e| {
        errors::no_such_test(&format!("--dialect iperf3: {}", e.why.name), &e.to_string())
    })?;
    let rtt_ns = sys::tcp_sample(&control).and_then(|tcp| tcp.rtt_ns);
    let settle =
        rtt_ns.map_or(SETTLE, |rtt| SETTLE + 2 * Duration::from_nanos(rtt)).min(MOST_SETTLE);
    let connected = Connected { peer: near.peer, local: near.local, mss };
    observer.event(&TestEvent::Connected(connected.clone()));
    let mut control = Control::new(control, extras.patience);
    let cookie = match greeted {
        Some(cookie) => cookie,
        None => {
            let cookie = Cookie::from_random(random());
            control
                .say(cookie.bytes())
                .await
                .map_err(|why| near.lost("agreeing on the test", &why))?;
            cookie
        }
    };
    let doing = "agreeing on the test";
    control.expect(near, State::ParamExchange, doing).await?;
    let bytes = parameters
        .encode()
        .map_err(|e| errors::no_such_test("--dialect iperf3", &e.to_string()))?;
    control.say(&bytes).await.map_err(|why| near.lost(doing, &why))?;
    control.expect(near, State::CreateStreams, doing).await.map_err(|mut error| {
        if error.kind == "server_lost" {
            error.hints.insert(
                0,
                "an iperf3 server that wants a user name, or allows no such rate, may just close"
                    .to_owned(),
            );
        }
        error
    })?;

    let mut agreed_record = assemble::plan_record(&near.plan, Some(near.ip));
    agreed_record.dialect = Dialect::Iperf3.name().into();
    near.record.asked.ip = Some(near.ip.number());
    near.record.agreed = Some(agreed_record);
    // Both ends in one network namespace: its counters are the receiver's.
    let same_host = near.peer.ip() == near.local.ip();
    near.record.client = facts(Some(near.peer.ip()));
    if same_host {
        near.record.server = Some(near.record.client.clone());
    }
    let ids = data::streams(near.plan.direction, near.plan.streams);
    let sockets = open_streams(near, &mut control, &ids, &cookie, &extras).await?;
    near.note_addresses(&sockets);
    let start = start_reported(near, &connected, &cookie, &parameters, &ids, &sockets);
    let congestion = sockets.iter().find_map(StreamSocket::congestion);
    let counters_wide = parameters.udp_counters_64bit;

    let cpu = ProcessCpu::start();
    let shared = Shared::new(ids.len());
    let _stop = StopOnDrop(Arc::clone(&shared));
    let (events, told) = mpsc::unbounded_channel();
    let agreed = Arc::new(AgreedPlan { plan: near.plan.clone(), cuts: vec![] });
    let cores = near.cores(&ids, false, &[]);
    // iperf3's streams end when both ends have said all: the data threads end before that.
    let mut kept = Vec::new();
    for ((id, socket), core) in ids.iter().zip(sockets).zip(cores) {
        if let StreamSocket::Tcp(tcp) = &socket {
            kept.extend(tcp.try_clone());
        }
        let context = Context {
            shared: Arc::clone(&shared),
            agreed: Arc::clone(&agreed),
            ip: near.ip,
            token: u64::from_be_bytes(random()),
            framing: Framing::Iperf3 { wide: counters_wide },
            digits: false,
            burst,
            id: *id,
            role: data::role(&near.plan.traffic, id.way, true),
            core,
            events: events.clone(),
        };
        data::spawn(context, socket)
            .map_err(|e| errors::unable("start a data thread", &e.to_string()))?;
    }
    drop(events);
    let doing = "starting the test";
    control.expect(near, State::TestStart, doing).await?;
    // The server's clock runs from that word on.
    let word_ns = clock::monotonic_ns();
    control.expect(near, State::TestRunning, doing).await?;
    crate::signals::ends_in_order();
    observer.start(&near.record);
    observer.event(&TestEvent::Start(Box::new(start)));
    let head = if near.plan.direction.has_forward() { PROMPT_START_NS } else { 0 };
    let start_ns = clock::monotonic_ns() + head;
    shared.start(start_ns);

    let nic = near.record.client.nic.as_ref().map(|nic| nic.name.clone());
    let count = |role: Role| {
        ids.iter().filter(|id| data::role(&near.plan.traffic, id.way, true) == role).count()
    };
    let (plan, warmup) = (near.plan.clone(), near.plan.warmup.0);
    let mut running = Running {
        senders: count(Role::Send),
        ticks: (Ticks::new(count(Role::Send)), Ticks::new(count(Role::Receive))),
        rows: RowBook::new(plan.interval.0, warmup, ids.len()),
        plan,
        shared: Arc::clone(&shared),
        host: HostWatch::new(nic.as_deref()).await,
        local: BTreeMap::new(),
        streams: ids.len(),
        congestion,
        live: BTreeMap::new(),
        shown: 0,
        interrupted: false,
        word_ns,
        rtt_ns: rtt_ns.unwrap_or(0),
        start_ns,
        ended_ns: None,
    };
    let ended = running.run(near, &mut control, told, settle, observer).await;
    let (results, trouble) = match ended {
        Ok(mut told) => {
            let span_ns = running.span_ns();
            let drain = if near.plan.traffic.transport() == Transport::Tcp {
                STREAM_END
            } else {
                settle.max(Duration::from_millis(250))
            };
            running.collect(&mut told, drain, observer).await;
            let ours = our_results(&running, &ids, cpu.percent(), span_ns);
            tokio::select! {
                exchanged = exchange(near, &mut control, &ours) => match exchanged {
                    Ok(results) => (Some(results), None),
                    Err(error) => (None, Some(error)),
                },
                () = crate::signals::next() => {
                    running.interrupted = true;
                    (None, Some(errors::interrupted()))
                }
            }
        }
        Err((error, mut told)) => {
            shared.stop();
            shared.drain_until(0);
            running.collect(&mut told, Duration::ZERO, observer).await;
            (None, Some(error))
        }
    };
    drop(kept);
    if results.is_some() {
        let _ = control.say(&[State::IperfDone.byte()]).await;
        let _ = control.write.shutdown().await;
    }
    finish(near, running, &ids, results, trouble, (cpu.percent(), same_host), observer).await;
    Ok(())
}

/// Results there and back.
async fn exchange(
    near: &ClientTest<'_>,
    control: &mut Control,
    ours: &Results,
) -> Result<Results, ErrorRecord> {
    let doing = "exchanging results";
    let bytes = ours.encode().map_err(|e| near.lost(doing, &e.to_string()))?;
    control.say(&bytes).await.map_err(|why| near.lost(doing, &why))?;
    let results = control.results(near).await?;
    // Without this last word the results are whole all the same.
    let _ = control.expect(near, State::DisplayResults, doing).await;
    Ok(results)
}

async fn finish(
    near: &mut ClientTest<'_>,
    mut running: Running,
    ids: &[StreamId],
    results: Option<Results>,
    trouble: Option<ErrorRecord>,
    (cpu, same_host): (Cpu, bool),
    observer: &mut dyn Observer,
) {
    let span_ns = running.span_ns();
    let reports: Vec<&Report> = ids.iter().filter_map(|id| running.local.get(&id.stream)).collect();
    if reports.len() == ids.len() {
        for rows in running.rows.rest(&reports, span_ns) {
            observer.event(&TestEvent::Rows(rows));
        }
    }
    let datagram = match &near.plan.traffic {
        Traffic::Udp(udp) => Some(u64::from(udp.size.bytes())),
        _ => None,
    };
    let client = running.host.finish().await;
    let each_way = usize::from(near.plan.streams);
    let arriving_ns = received_ns(&running, results.as_ref());
    let mut ends = Vec::new();
    let mut streams = Vec::new();
    for id in ids {
        let mut outcome = StreamOutcome {
            index: id.index,
            reverse: id.way == Way::Reverse,
            ..StreamOutcome::default()
        };
        let number = stream_id(id.stream);
        let far = results.as_ref().and_then(|r| r.streams.iter().find(|s| s.id == number));
        let far_span = far.and_then(far_span_ns);
        let far_ns = far_span.unwrap_or(span_ns);
        // A far receiver's clock also runs while nothing can arrive.
        let far_ns = if id.way == Way::Forward { arriving_ns } else { far_ns };
        let thread = results.as_ref().map(|r| far_thread(r, far_ns, each_way)).unwrap_or_default();
        let here = match running.local.remove(&id.stream) {
            Some(Report::Send(sent)) => {
                if let Some(far) = far {
                    let mut recv = far_receiver(&sent, far, datagram, near.plan.warmup.0 > 0);
                    recv.thread = thread;
                    (recv.first_ns, recv.last_ns) = (Some(0), Some(far_ns));
                    outcome.recv = Some(recv);
                }
                let side = Side::Send(Box::new(sent.clone()));
                outcome.send = Some(sent);
                side
            }
            Some(Report::Recv(mut recv)) => {
                let side = Side::Recv(Box::new(recv.clone()));
                if let Some(far) = far {
                    let mut send = far_sender(&mut recv, far, datagram, far_ns);
                    send.thread = thread;
                    outcome.send = Some(send);
                }
                outcome.recv = Some(recv);
                side
            }
            _ => Side::Send(Box::default()),
        };
        ends.push(StreamEnd {
            here,
            far: far.map(|far| far_stream(far, far_span.map(|_| far_ns as f64 / 1e9))),
        });
        streams.push(outcome);
    }
    let counters = client.total.as_ref().map(|total| total.counters).filter(|_| same_host);
    if let Some(errors) = counters.and_then(|counters| counters.udp_receive_buffer_errors) {
        place_drops(&mut streams, errors);
    }
    let server = if same_host { client.clone() } else { HostSamples::default() };
    let shown = running.shown as usize;
    let congestion = running.congestion.take();
    let wants_output = near.request.iperf3.get_server_output;
    let ended = Ended {
        interrupted: running.interrupted,
        trouble,
        stopping: None,
        results: results.is_some(),
    };
    near.conclude(streams, ended, (client, server), None, same_host, Dialect::Iperf3);
    near.record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
    observer.event(&TestEvent::End(Box::new(test_event::End {
        streams: ends,
        span_ns,
        cpu,
        far_cpu: results.as_ref().and_then(|r| {
            Some(Cpu { total: r.cpu_total?, user: r.cpu_user?, system: r.cpu_system? })
        }),
        congestion,
        far_congestion: results.as_ref().and_then(|r| r.congestion_used.clone()),
        // A server that was asked once tells it in every test after that.
        server_output: results.filter(|_| wants_output).and_then(|r| {
            r.server_output_text
                .map(ServerOutput::Text)
                .or(r.server_output_json.map(ServerOutput::Json))
        }),
        error: near.record.error.clone(),
        interrupted: running.interrupted,
    })));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_iperf3_begins_with_these_bytes() {
        assert!(is_first_byte(9) && is_first_byte(0xff) && is_first_byte(0xfe));
        assert!(!is_first_byte(0) && !is_first_byte(1) && !is_first_byte(b'H'));
    }
}
