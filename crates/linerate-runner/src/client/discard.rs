//! Sending without a server: what the kernel takes, and what the device says it sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use linerate_dialect::habits;
use linerate_dialect::native::server::HEAD_START_NS;
use linerate_dialect::stream::StreamId;
use linerate_dialect::ticks::Ticks;
use linerate_engine::{clock, sys};
use linerate_model::plan::{AgreedPlan, Direction, IpVersion, PlanDirection};
use linerate_model::record::{ErrorRecord, PlanRecord, RunRecord, Status};
use linerate_session::assemble::{self, HostSamples, LiveSide, Outcome, StreamOutcome};
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{Request, failed, mtu, resolve, unchanged};
use crate::data::Streams;
use crate::data::{self, DataEvent, Report, Shared, StreamSocket, Tick};
use crate::errors;
use crate::host::HostWatch;
use crate::host::facts;
use crate::place::{self, From};
use crate::random::random;

/// Runs a send-only test.
pub(crate) async fn run(
    request: &Request,
    mut record: RunRecord,
    name: &str,
    port: u16,
    observer: &mut dyn Observer,
) -> RunRecord {
    record.asked.direction = PlanDirection::Discard.into();
    let test = prepare(request, &mut record, (name, port)).await;
    let started = test.and_then(|mut test| Ok((test.start(&record)?, test)));
    let (mut events, test) = match started {
        Ok(started) => started,
        Err(error) => return failed(record, error),
    };
    crate::signals::ends_in_order();
    observer.start(&record);
    let nic = record.client.nic.as_ref().map(|nic| nic.name.clone());
    let mut host = HostWatch::new(nic.as_deref()).await;
    let start_ns = clock::monotonic_ns() + HEAD_START_NS;
    if let Some(controls) = &request.controls {
        controls.begins(start_ns.saturating_add(test.agreed.plan.warmup.0));
    }
    test.shared.start(start_ns);
    let mut streams = Vec::new();
    let (mut shown, mut interrupted) = (0, false);
    let mut ticks = Ticks::new(test.ids.len());
    let signals = crate::signals::first();
    tokio::pin!(signals);
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = &mut signals, if !interrupted => {
                interrupted = true;
                test.shared.stop();
                continue;
            }
        };
        let Some(event) = event else { break };
        host.on_event(&event).await;
        match event {
            DataEvent::Done(stream, report) => {
                let index = test.ids.get(usize::from(stream)).map_or(0, |id| id.index);
                if let Report::Send(report) = *report {
                    let send = Some(report);
                    streams.push(StreamOutcome { index, send, ..Default::default() });
                }
            }
            DataEvent::Begun if test.agreed.plan.warmup.0 > 0 => host.warm().await,
            DataEvent::Begun | DataEvent::Warm(..) | DataEvent::PeerEnd(..) => {}
            DataEvent::Tick(_, index, tick) => {
                if let Some(Tick::Send(send)) = ticks.add(index, tick) {
                    let side =
                        LiveSide { send: Some(send), host: host.row(index), ..LiveSide::default() };
                    let (plan, empty) = (&test.agreed.plan, LiveSide::default());
                    observer.interval(&assemble::live_interval(plan, index, &side, &empty, None));
                    shown = index as usize + 1;
                }
            }
        }
    }
    interrupted |= request.bounds.watch().broken(&test.shared, clock::monotonic_ns()).is_some();
    streams.sort_unstable_by_key(|stream| stream.index);
    let failed = streams.iter().find_map(|s| s.send.as_ref().and_then(|r| r.error.as_deref()));
    record.error = match failed {
        _ if interrupted => Some(errors::interrupted()),
        Some(why) => Some(errors::stream(name, why)),
        None => None,
    };
    if record.error.is_some() {
        record.status = Status::Partial;
    }
    let outcome = Outcome {
        plan: test.agreed.plan.clone(),
        ip: test.ip,
        streams,
        client: host.finish().await,
        server: HostSamples::default(),
        clock: None,
        same_host: false,
        habits: habits::NATIVE,
        discard: true,
        fragments: test.fragments,
        complete: !interrupted,
    };
    let record = assemble::assemble(record, &outcome);
    record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
    record
}

/// A test that may start.
struct Test {
    agreed: Arc<AgreedPlan>,
    ip: IpVersion,
    /// Its datagrams do not fit the path.
    fragments: bool,
    ids: Vec<StreamId>,
    sockets: Vec<StreamSocket>,
    shared: Arc<Shared>,
}

/// Finds the peer and the way to it, and opens the sockets.
async fn prepare(
    request: &Request,
    record: &mut RunRecord,
    (name, port): (&str, u16),
) -> Result<Test, ErrorRecord> {
    let peer = resolve(name, port, request.ip).await?.first().copied();
    let peer = peer.ok_or_else(|| errors::no_address(name, request.ip, false))?;
    let (ip, any): (_, IpAddr) = match peer.ip() {
        IpAddr::V4(_) => (IpVersion::V4, Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(_) => (IpVersion::V6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let local = SocketAddr::new(request.bind.unwrap_or(any), 0);
    record.client = facts(peer).await;
    let mut plan = request.plan.clone();
    plan.direction = Direction::Forward;
    let fragments = mtu::fit(&mut plan, record, (local, peer), request.size_from_mtu);
    request.bounds.allow(&plan)?;
    plan.check().map_err(|e| errors::unable("run this test", &e.to_string()))?;
    let ids = data::streams(plan.direction, plan.streams);
    let sockets = ids.iter().map(|_| {
        let socket = sys::udp_socket(local).and_then(|socket| {
            socket.connect(&peer.into())?;
            Ok(StreamSocket::Udp(socket, None))
        });
        socket.map_err(|e| errors::connect(name, peer, request.bind, &e))
    });
    let sockets = sockets.collect::<Result<_, _>>()?;
    let mut agreed = PlanRecord::of(&plan, Some(ip));
    agreed.direction = PlanDirection::Discard.into();
    record.asked.ip = Some(ip.number());
    record.asked.datagram_bytes = agreed.datagram_bytes;
    record.asked.rate_bps = agreed.rate_bps;
    record.agreed = Some(agreed);
    let (agreed, shared) = (Arc::new(unchanged(&plan)), request.bounds.shared(ids.len()));
    if let Some(controls) = &request.controls {
        shared.follow(controls.throttle());
    }
    Ok(Test { agreed, ip, fragments, ids, sockets, shared })
}

impl Test {
    /// Starts the threads, which wait for the start of the test.
    fn start(&mut self, record: &RunRecord) -> Result<UnboundedReceiver<DataEvent>, ErrorRecord> {
        let (events, received) = mpsc::unbounded_channel();
        let plan = &self.agreed.plan;
        let cores = if plan.client_cpus.is_empty() {
            let avoid = record.client.nic.as_ref().map(|nic| nic.irq_cores.clone());
            let (allowed, used) = (linerate_host::cores::allowed_cores(), Default::default());
            let avoid = avoid.unwrap_or_default();
            place::cores(&allowed, &avoid, &used, self.ids.len(), From::Bottom)
        } else {
            place::listed(&plan.client_cpus, self.ids.len())
        };
        let token = u64::from_be_bytes(random()) >> 1;
        let streams = Streams {
            agreed: Arc::clone(&self.agreed),
            ip: self.ip,
            token,
            framing: Framing::Native { token, stream: 0 },
            habits: habits::NATIVE,
            digits: false,
            preface: vec![],
            burst: 0,
            cores,
        };
        for (id, socket) in self.ids.iter().zip(self.sockets.drain(..)) {
            let role = data::role(&plan.traffic, id.way, true);
            let context = streams.context((*id, role), &self.shared, &events);
            if let Err(e) = data::spawn(context, socket) {
                self.shared.stop();
                return Err(errors::unable("start a data thread", &e.to_string()));
            }
        }
        Ok(received)
    }
}
