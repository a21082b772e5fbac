//! What a plan asks of its server, for limits.

use linerate_model::plan::{Direction, End, TestPlan, Traffic};

/// Bytes that a plan with an end by count carries, both ways together.
pub(crate) fn bytes(plan: &TestPlan) -> Option<u64> {
    let each_way = match (plan.end, &plan.traffic) {
        (End::Time(_), _) => return None,
        (End::Datagrams(count), Traffic::Rr(rr)) => {
            // A request and its response are both ways already.
            let both = u64::from(rr.request).saturating_add(rr.response.into());
            return Some(count.saturating_mul(both));
        }
        (End::Bytes(bytes), _) => bytes,
        (End::Datagrams(count), Traffic::Udp(udp)) => count.saturating_mul(udp.size.bytes().into()),
        (End::Datagrams(count), Traffic::Tcp(tcp)) => count.saturating_mul(tcp.block.into()),
    };
    let ways = if plan.direction == Direction::Both { 2 } else { 1 };
    Some(each_way.saturating_mul(ways))
}

/// Bits of payload a second of one direction, as the plan says; `None` where it is as fast as it goes.
pub(crate) fn rate_bps(plan: &TestPlan) -> Option<u64> {
    match &plan.traffic {
        Traffic::Udp(udp) => udp.rate.map(|rate| rate.bits_per_second(udp.size)),
        Traffic::Tcp(tcp) => tcp.rate.map(|rate| rate.bits_per_second()),
        // One direction: the larger of the two messages.
        Traffic::Rr(rr) => rr
            .rate
            .map(|rate| rate.saturating_mul(8).saturating_mul(rr.request.max(rr.response).into())),
    }
}
