//! The client in iperf 2's dialect: the same data threads, pacing, accounting, record and verdict as in
//! linerate's own, over streams alone. `docs/iperf2.md` has the sequence.

mod ask;
mod open;

use std::net::SocketAddr;
use std::sync::Arc;

use linerate_dialect::habits::{self, BlockTimes};
use linerate_dialect::iperf2::client::{Client, Terms};
use linerate_engine::{clock, sys};
use linerate_model::plan::{Dialect, Direction, IpVersion, Transport, Way};
use linerate_model::record::{Addresses, Doubt, DoubtKind, ErrorRecord, PlanRecord, RunRecord};
use linerate_model::test_event::{End, TestEvent};
use linerate_session::assemble::HostSamples;
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::iperf2::datagram::MARK_BYTES;
use linerate_wire::iperf2::{Header, TIMED_HEADER_BYTES};

use self::open::Iperf2;
use super::connect::{address_pair, resolve};
use super::driver::{Driver, Over};
use super::open::Opening;
use super::test::{ClientTest, Ended, unchanged};
use super::{Request, failed, mtu, seen};
use crate::data::{self, SocketFacts, Streams};
use crate::errors;
use crate::host::facts;
use crate::line::nanos;
use crate::random::random;

/// A test of streams alone, whatever happens on them.
pub(super) async fn run(
    request: &Request,
    mut record: RunRecord,
    (name, port): (&str, u16),
    observer: &mut dyn Observer,
) -> RunRecord {
    let (local, peer) = match ends(request, name, port).await {
        Ok(ends) => ends,
        Err(error) => return failed(record, error),
    };
    record.client = facts(peer).await;
    let control = address_pair(local, peer);
    record.addresses = Some(Addresses { control, ..Addresses::default() });
    let mut near = ClientTest {
        request,
        name: name.to_owned(),
        peer,
        local,
        ip: if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 },
        plan: request.plan.clone(),
        record,
        fragments: false,
    };
    match conduct(&mut near, observer).await {
        Ok(()) => near.record,
        Err(error) => failed(near.record, error),
    }
}

/// This end's address and the server's. Nothing is sent: there is no connection but a stream.
async fn ends(
    request: &Request,
    name: &str,
    port: u16,
) -> Result<(SocketAddr, SocketAddr), ErrorRecord> {
    let mut last = None;
    for peer in resolve(name, port, request.ip).await? {
        let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let local = || -> std::io::Result<SocketAddr> {
            let any = any.parse().map_err(std::io::Error::other)?;
            let bind = request.bind.map_or(any, |bind| SocketAddr::new(bind, 0));
            let socket = sys::udp_socket(bind)?;
            socket.connect(&peer.into())?;
            let local = socket.local_addr()?.as_socket();
            local.map(sys::plain).ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
        };
        match local() {
            Ok(local) => return Ok((local, peer)),
            Err(e) => last = Some(errors::connect(name, peer, request.bind, &e)),
        }
    }
    Err(last.unwrap_or_else(|| errors::no_address(name, request.ip, false)))
}

async fn conduct(
    test: &mut ClientTest<'_>,
    observer: &mut dyn Observer,
) -> Result<(), ErrorRecord> {
    let path = (test.local, test.peer);
    test.fragments = mtu::fit(&mut test.plan, &mut test.record, path, test.request.size_from_mtu);
    test.request.bounds.allow(&test.plan)?;
    let (plan, cuts) = ask::fitted(&test.plan)?;
    let ahead_ns = clock::Reading::now().ahead_ns;
    let trips = test.request.trip_times;
    let began_ns = trips.then(clock::realtime_ns);
    let said = Header { began_ns, ..ask::header(&plan)? }.encode();
    ask::check_trips(&plan, trips, said.len())?;
    test.plan = plan;
    let doubts = cuts.into_iter().map(|text| Doubt::new(DoubtKind::Degraded, text));
    test.record.doubts.extend(doubts);
    test.record.asked.ip = Some(test.ip.number());
    let mut agreed = PlanRecord::of(&test.plan, Some(test.ip));
    agreed.dialect = Dialect::Iperf2.into();
    test.record.agreed = Some(agreed);
    // Both ends in one network namespace: its counters are the receiver's.
    let same_host = test.peer.ip() == test.local.ip();
    if same_host {
        test.record.server = Some(test.record.client.clone());
    }
    let ids = data::streams(test.plan.direction, test.plan.streams);
    let sends = test.plan.direction == Direction::Forward;
    let udp = test.plan.traffic.transport() == Transport::Udp;
    let header = TIMED_HEADER_BYTES;
    let times = began_ns.map(|began_ns| BlockTimes { header, began_ns, ahead_ns });
    let habits = habits::iperf2(times);
    let streams = Streams {
        agreed: Arc::new(unchanged(&test.plan)),
        ip: test.ip,
        token: u64::from_be_bytes(random()),
        framing: Framing::Iperf2 { wide: true, ahead_ns, agree: trips },
        habits,
        digits: false,
        preface: if udp && sends { said.clone() } else { vec![] },
        burst: 0,
        cores: test.cores(&ids, false, &[]),
    };
    let mut last = vec![0; MARK_BYTES];
    last.extend(&said);
    let silence_ns = nanos(test.request.iperf3.silence);
    let terms = Terms { plan: test.plan.clone(), last, ahead_ns, silence_ns, trips };
    let mut opener = test.opener();
    if trips {
        opener.plan = data::unpaced(&opener.plan);
    }
    let opening = Opening::start(Iperf2 { opener, header: said, sends });
    let (plan, ends) = (test.plan.clone(), path);
    let announce = move |facts: &[SocketFacts]| {
        Some(seen::timed(trips, seen::start(&plan, ends, Way::Forward, (&ids, facts))))
    };
    let watched = (&mut test.record, Box::new(announce) as _);
    let conversation = Client::new(terms, clock::monotonic_ns());
    let driver = Driver::new(test.request, conversation, None, opening, streams, watched, observer);
    let Over { conversation, fault, host } = Box::pin(driver.run()).await;
    if let Some(Err(trouble)) = conversation.outcome() {
        return Err(fault.unwrap_or_else(|| test.failed(trouble)));
    }
    let ended = conversation.ended();
    let server = if same_host { host.clone() } else { HostSamples::default() };
    let trouble = ended.trouble.map(|trouble| test.failed(trouble));
    let shown = usize::try_from(ended.shown).unwrap_or(usize::MAX);
    let how =
        Ended { interrupted: ended.interrupted, trouble, stopping: None, results: ended.results };
    test.conclude(ended.streams, how, (host, server), None, same_host, habits);
    test.record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
    observer.event(&TestEvent::End(Box::new(End {
        streams: ended.ends,
        span_ns: ended.span_ns,
        error: test.record.error.clone(),
        interrupted: ended.interrupted,
        ..End::default()
    })));
    Ok(())
}
