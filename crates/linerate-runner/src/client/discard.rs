//! Sending without a server: what the kernel takes, and what the device says it sent.

use std::net::SocketAddr;
use std::sync::Arc;

use linerate_engine::{clock, sys};
use linerate_host::facts::facts;
use linerate_model::plan::{Direction, IpVersion, PlanDirection};
use linerate_model::record::{RunRecord, Status};
use linerate_session::assemble::{self, HostSamples, LiveSide, Outcome, StreamOutcome};
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use tokio::sync::mpsc;

use super::{Request, failed, mtu, resolve, unchanged};
use crate::data::{self, Context, DataEvent, Report, Shared, StreamSocket, Tick};
use crate::errors;
use crate::host::HostWatch;
use crate::place::{self, From};
use crate::random::random;
use linerate_dialect::habits;
use linerate_dialect::native::server::HEAD_START_NS;
use linerate_dialect::ticks::Ticks;

/// Runs a send-only test.
pub(crate) async fn run(
    request: &Request,
    mut record: RunRecord,
    name: &str,
    port: u16,
    observer: &mut dyn Observer,
) -> RunRecord {
    record.asked.direction = PlanDirection::Discard.into();
    let peer = match resolve(name, port, request.ip).await {
        Ok(addresses) => addresses.first().copied(),
        Err(error) => return failed(record, error),
    };
    let Some(peer) = peer else {
        return failed(record, errors::no_address(name, request.ip, false));
    };
    let ip = if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    let any = match request.bind {
        Some(bind) => bind,
        None if peer.is_ipv4() => std::net::Ipv4Addr::UNSPECIFIED.into(),
        None => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    record.client = facts(Some(peer.ip()));
    let mut plan = request.plan.clone();
    plan.direction = Direction::Forward;
    let path = (SocketAddr::new(any, 0), peer);
    let fragments = mtu::fit(&mut plan, &mut record, path, request.size_from_mtu);
    if let Err(e) = plan.check() {
        return failed(record, errors::unable("run this test", &e.to_string()));
    }
    let ids = data::streams(plan.direction, plan.streams);
    let mut sockets = Vec::new();
    for _ in &ids {
        let socket = sys::udp_socket(SocketAddr::new(any, 0))
            .and_then(|socket| socket.connect(&peer.into()).map(|()| socket));
        match socket {
            Ok(socket) => sockets.push(StreamSocket::Udp(socket, None)),
            Err(e) => return failed(record, errors::connect(name, peer, request.bind, &e)),
        }
    }
    let mut agreed = assemble::plan_record(&plan, Some(ip));
    agreed.direction = PlanDirection::Discard.into();
    record.asked.ip = Some(ip.number());
    record.asked.datagram_bytes = agreed.datagram_bytes;
    record.asked.rate_bps = agreed.rate_bps;
    record.agreed = Some(agreed);
    let shared = Shared::new(ids.len());
    let (events, mut told) = mpsc::unbounded_channel();
    let plan_shared = Arc::new(unchanged(&plan));
    let cores = if plan.client_cpus.is_empty() {
        let avoid = record.client.nic.as_ref().map(|nic| nic.irq_cores.clone()).unwrap_or_default();
        let allowed = linerate_host::cores::allowed_cores();
        place::cores(&allowed, &avoid, &Default::default(), ids.len(), From::Bottom)
    } else {
        place::listed(&plan.client_cpus, ids.len())
    };
    for ((id, socket), core) in ids.iter().zip(sockets).zip(cores) {
        let token = u64::from_be_bytes(random()) >> 1;
        let context = Context {
            shared: Arc::clone(&shared),
            agreed: Arc::clone(&plan_shared),
            ip,
            token,
            framing: Framing::Native { token, stream: id.stream },
            habits: habits::NATIVE,
            digits: false,
            burst: 0,
            id: *id,
            role: data::role(&plan.traffic, id.way, true),
            core,
            events: events.clone(),
        };
        if let Err(e) = data::spawn(context, socket) {
            shared.stop();
            return failed(record, errors::unable("start a data thread", &e.to_string()));
        }
    }
    drop(events);
    crate::signals::ends_in_order();
    observer.start(&record);
    let nic = record.client.nic.as_ref().map(|nic| nic.name.clone());
    let mut host = HostWatch::new(nic.as_deref()).await;
    shared.start(clock::monotonic_ns() + HEAD_START_NS);
    let mut ticks = Ticks::new(ids.len());
    let mut shown = 0;
    let mut streams = Vec::new();
    let mut interrupted = false;
    let signals = crate::signals::first();
    tokio::pin!(signals);
    loop {
        tokio::select! {
            event = told.recv() => {
                if let Some(event) = &event {
                    host.on_event(event).await;
                }
                match event {
                    None => break,
                    Some(DataEvent::Done(stream, report)) => {
                        let index = ids.iter().find(|id| id.stream == stream).map_or(0, |id| id.index);
                        if let Report::Send(report) = *report {
                            streams.push(StreamOutcome { index, send: Some(report), ..Default::default() });
                        }
                    }
                    Some(DataEvent::Begun) if plan.warmup.0 > 0 => host.warm().await,
                    Some(DataEvent::Begun | DataEvent::Warm(..)) => {}
                    Some(DataEvent::Tick(_, index, tick)) => {
                        if let Some(Tick::Send(send)) = ticks.add(index, tick) {
                            let side = LiveSide { send: Some(send), recv: None, host: host.row(index) };
                            shown = index as usize + 1;
                            let empty = LiveSide::default();
                            observer.interval(&assemble::live_interval(&plan, index, &side, &empty, None));
                        }
                    }
                }
            }
            () = &mut signals, if !interrupted => {
                interrupted = true;
                shared.stop();
            }
        }
    }
    streams.sort_by_key(|stream| stream.index);
    if interrupted {
        record.status = Status::Partial;
        record.error = Some(errors::interrupted());
    } else if let Some(why) =
        streams.iter().find_map(|s| s.send.as_ref().and_then(|r| r.error.clone()))
    {
        record.status = Status::Partial;
        record.error = Some(errors::stream(name, &why));
    }
    let outcome = Outcome {
        plan,
        ip,
        streams,
        client: host.finish().await,
        server: HostSamples::default(),
        clock: None,
        same_host: false,
        habits: habits::NATIVE,
        discard: true,
        fragments,
        complete: !interrupted,
    };
    let record = assemble::assemble(record, &outcome);
    record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
    record
}
