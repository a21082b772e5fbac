//! What users of another program's face see when a test begins, at either end.

use std::net::SocketAddr;

use linerate_dialect::stream::StreamId;
use linerate_model::plan::{End, TestPlan, Traffic, Way};
use linerate_model::test_event::{Asked, Connected, Start, TestEvent};

use crate::client::iperf3::open::stream;
use crate::data::SocketFacts;

/// All streams are there; `ends` are this end and the peer, and `sends` is the way on which this end sends.
pub(crate) fn start(
    plan: &TestPlan,
    (local, peer): (SocketAddr, SocketAddr),
    sends: Way,
    (ids, facts): (&[StreamId], &[SocketFacts]),
) -> TestEvent {
    let first = facts.first();
    let streams = ids.iter().zip(facts).map(|(id, facts)| stream(*id, facts, (local, peer), sends));
    TestEvent::Start(Box::new(Start {
        client: sends == Way::Forward,
        control: Connected { peer, local, mss: None, rtt_ns: None },
        cookie: String::new(),
        asked: asked(plan),
        streams: streams.collect(),
        send_buffer: first.map(|facts| facts.send_buffer),
        receive_buffer: first.map(|facts| facts.receive_buffer),
    }))
}

/// The same of a test that may be of `--trip-times`.
pub(crate) fn timed(trips: bool, mut start: TestEvent) -> TestEvent {
    if let TestEvent::Start(start) = &mut start {
        start.asked.trips = trips;
    }
    start
}

fn asked(plan: &TestPlan) -> Asked {
    let (block_bytes, rate, mss) = match &plan.traffic {
        Traffic::Udp(udp) => {
            let rate = udp.rate.map(|rate| rate.bits_per_second(udp.size));
            (udp.size.bytes().into(), rate, None)
        }
        Traffic::Tcp(tcp) => (tcp.block, tcp.rate.map(|rate| rate.bits_per_second()), tcp.mss),
        Traffic::Rr(_) => (0, None, None),
    };
    let time_s = match plan.end {
        End::Time(time) => u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX),
        _ => 0,
    };
    Asked {
        transport: plan.traffic.transport(),
        direction: plan.direction,
        parallel: plan.streams,
        block_bytes,
        rate_bps: rate.unwrap_or(0) / u64::from(plan.streams.max(1)),
        fq_rate_bps: 0,
        burst: 0,
        omit_s: 0,
        time_s,
        bytes: if let End::Bytes(bytes) = plan.end { bytes } else { 0 },
        blocks: if let End::Datagrams(count) = plan.end { count } else { 0 },
        tos: plan.dscp.unwrap_or(0) << 2,
        window_bytes: plan.window.unwrap_or(0),
        mss_bytes: mss.unwrap_or(0),
        title: None,
        extra_data: None,
        trips: false,
    }
}
